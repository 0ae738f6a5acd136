"""`bulkWrite`: inserts, updates and deletes of several collections in one command.

Each operation is carried out as the command of its kind would be. Consecutive inserts into one collection are one insert.

Rule of this file: what operations look like, and what is told of each. What is written is worked out in `collection`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, Final

from bson.int64 import Int64

from reactdb.dialects.mongodb.collection import CollectionWork
from reactdb.dialects.mongodb.commands.requests import CommandRequest
from reactdb.dialects.mongodb.commands.table import command
from reactdb.dialects.mongodb.commands.writing import is_ordered, statements
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions import let_values
from reactdb.dialects.mongodb.names import MongoNamespace, check_database_name

_KINDS: Final = ("insert", "update", "delete")
_FIELDS: Final = {
    "insert": frozenset({"insert", "document"}),
    "update": frozenset(
        {"update", "filter", "updateMods", "multi", "upsert", "arrayFilters", "collation", "hint", "sort"}
        | {"constants"}
    ),
    "delete": frozenset({"delete", "filter", "multi", "collation", "hint"}),
}
_STATEMENT_NAMES: Final = {"filter": "q", "updateMods": "u", "constants": "c"}
_COUNTS: Final = ("nErrors", "nInserted", "nUpserted", "nMatched", "nModified", "nDeleted")


@command(
    "bulkWrite",
    fields="ops nsInfo ordered errorsOnly bypassDocumentValidation bypassEmptyTsReplacement let cursor",
    is_write=True,
)
def bulk_write(request: CommandRequest) -> dict[str, Any]:
    if request.database != "admin":
        raise MongoError(13, "bulkWrite may only be run against the admin database.")
    operations = statements(request, "ops")
    places = [_place(one) for one in statements(request, "nsInfo")]
    works = [CollectionWork(request.deployment.spaces, place, request.transaction) for place in places]
    for place, operation in enumerate(operations):
        _check(place, operation, len(works))
    variables = let_values(request.get("let", dict))
    counts = dict.fromkeys(_COUNTS, 0)
    told: list[dict[str, Any]] = []
    ends_early = is_ordered(request) or request.transaction is not None
    for kind, target, group in _groups(operations):
        for one in _results(works[target], kind, group, variables, is_ordered=ends_early):
            _count(counts, kind, one)
            told.append(one)
        if ends_early and counts["nErrors"]:
            break
    if request.get("errorsOnly", bool, False):
        told = [one for one in told if not one["ok"]]
    return {"cursor": {"id": Int64(0), "firstBatch": told, "ns": "admin.$cmd.bulkWrite"}, **counts}


def _place(given: Mapping[str, Any]) -> MongoNamespace:
    name = given.get("ns")
    if not isinstance(name, str):
        raise MongoError(40414, "BSON field 'bulkWrite.nsInfo.ns' is missing but a required field")
    database, dot, collection = name.partition(".")
    if not dot or not collection:
        raise MongoError(73, f"Invalid namespace specified for bulkWrite: '{name}'")
    return MongoNamespace(check_database_name(database), collection)


def _kind(operation: Mapping[str, Any]) -> str:
    first = next(iter(operation), "")
    if first not in _KINDS:
        raise MongoError(40415, f"BSON field 'bulkWrite.ops.{first}' is an unknown field.")
    return first


def _check(place: int, operation: Mapping[str, Any], collections: int) -> None:
    """
    Raises:
        MongoError: It is no operation at all.
    """
    kind = _kind(operation)
    for name in operation:
        if name not in _FIELDS[kind]:
            raise MongoError(40415, f"BSON field 'bulkWrite.ops.{place}.{name}' is an unknown field.")
    needed = {"insert": ("document",), "update": ("filter", "updateMods"), "delete": ("filter",)}[kind]
    for name in needed:
        if name not in operation:
            raise MongoError(
                40414, f"BSON field 'bulkWrite.ops.{place}.{name}' is missing but a required field"
            )
    target = operation[kind]
    if isinstance(target, bool) or not isinstance(target, int) or not 0 <= target < collections:
        raise MongoError(2, f"BulkWrite ops entry {place} has an invalid nsInfo index {target}.")


def _groups(
    operations: list[dict[str, Any]],
) -> Iterator[tuple[str, int, list[tuple[int, dict[str, Any]]]]]:
    """The operations with their places: consecutive inserts into one collection together, and all others alone."""

    def together(one: tuple[int, dict[str, Any]]) -> tuple[str, int, int]:
        place, operation = one
        kind = _kind(operation)
        return kind, int(operation[kind]), -1 if kind == "insert" else place

    for (kind, target, _), group in groupby(enumerate(operations), key=together):
        yield kind, target, list(group)


def _results(
    work: CollectionWork,
    kind: str,
    group: list[tuple[int, dict[str, Any]]],
    variables: dict[str, Any],
    *,
    is_ordered: bool,
) -> list[dict[str, Any]]:
    """What is told of each operation of a group, as far as they were carried out."""
    operation = group[0][1]
    try:
        if kind == "insert":
            answer = work.insert([one["document"] for _, one in group], ordered=is_ordered)
        else:
            statement = {
                _STATEMENT_NAMES.get(name, name): operation[name] for name in operation if name != kind
            }
            if kind == "update":
                answer = work.update([statement], variables=variables)
            else:
                statement["limit"] = 0 if statement.pop("multi", False) else 1
                answer = work.delete([statement], variables=variables)
    except MongoError as error:
        if error.labels:
            raise
        answer = {"n": 0, "writeErrors": [{"index": 0, **_failure(error)}]}
    failed = {one["index"]: one for one in answer.get("writeErrors", ())}
    told: list[dict[str, Any]] = []
    for number, (place, _) in enumerate(group):
        if number in failed:
            details = {name: value for name, value in failed[number].items() if name != "index"}
            told.append({"ok": 0.0, "idx": place, "n": 0, **details})
            if is_ordered:
                break
            continue
        row: dict[str, Any] = {"ok": 1.0, "idx": place, "n": 1 if kind == "insert" else answer["n"]}
        if kind == "update":
            row["nModified"] = answer["nModified"]
            for one in answer.get("upserted", ()):
                row["upserted"] = {"_id": one["_id"]}
        told.append(row)
    return told


def _failure(error: MongoError) -> dict[str, Any]:
    return {"code": error.code, "errmsg": error.message, **error.details}


def _count(counts: dict[str, int], kind: str, one: Mapping[str, Any]) -> None:
    if not one["ok"]:
        counts["nErrors"] += 1
    elif kind == "insert":
        counts["nInserted"] += 1
    elif kind == "delete":
        counts["nDeleted"] += one["n"]
    elif "upserted" in one:
        counts["nUpserted"] += 1
    else:
        counts["nMatched"] += one["n"]
        counts["nModified"] += one["nModified"]
