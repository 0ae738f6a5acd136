"""Bulk writes: the operations of a `bulkWrite` command, on any number of collections.

Rule of this file: each operation has its own result, and all of them are one commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Final

from bson.int64 import Int64

from reactdb.dialects.mongodb.bson_order import is_text, type_name
from reactdb.dialects.mongodb.collection import CollectionWork
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.names import MongoNamespace, namespace_of
from reactdb.dialects.mongodb.namespaces import Namespaces
from reactdb.dialects.mongodb.numeric import whole
from reactdb.dialects.mongodb.retries import RetryableWrite
from reactdb.dialects.mongodb.transactions import Transaction

__all__ = ["NAMESPACE", "bulk_write"]

Document = dict[str, Any]
NAMESPACE: Final = "admin.$cmd.bulkWrite"
"""Where the results of bulk writes are read."""
_KINDS: Final = ("insert", "update", "delete")
_STATEMENT_NAMES: Final = {
    "filter": "q",
    "updateMods": "u",
    "constants": "c",
    **{name: name for name in ("multi", "upsert", "arrayFilters", "collation", "hint", "sort")},
}


class _Operation:
    """One operation: its kind, its collection, and its statement in the form of the collection's own command."""

    def __init__(self, given: Any, spaces: Sequence[MongoNamespace]) -> None:
        """
        Raises:
            MongoError: 14, 40415, 2: It is none.
        """
        if not isinstance(given, Mapping) or not given:
            raise MongoError(14, "BSON field 'bulkWrite.ops' has elements that are no operations")
        self.kind = next(iter(given))
        if self.kind not in _KINDS:
            raise MongoError(40415, f"BSON field 'bulkWrite.ops.{self.kind}' is an unknown field.")
        if given[self.kind] is None:
            raise MongoError(40414, f"BSON field 'bulkWrite.{self.kind}' is missing but a required field")
        number = whole(given[self.kind])
        if number is None:
            raise MongoError(14, f"BSON field 'bulkWrite.{self.kind}' has to be a number")
        if not 0 <= number < len(spaces):
            raise MongoError(2, f"BulkWrite ops entry has an invalid nsInfo index: {number}")
        self.namespace = spaces[number]
        if self.kind == "insert":
            if given.get("document") is None:
                raise MongoError(40414, "BSON field 'bulkWrite.ops.document' is missing but a required field")
            self.statement: Any = given["document"]
            if not isinstance(self.statement, Mapping):
                raise MongoError(
                    14, "BSON field 'bulkWrite.ops.document' is the wrong type, expected type 'object'"
                )
            return
        self.statement = {}
        for name, value in given.items():
            if name == self.kind:
                continue
            if name not in _STATEMENT_NAMES:
                raise MongoError(40415, f"BSON field 'bulkWrite.ops.{name}' is an unknown field.")
            _check_field(name, value)
            self.statement[_STATEMENT_NAMES[name]] = value
        if "filter" not in given:
            raise MongoError(40414, "BSON field 'bulkWrite.ops.filter' is missing but a required field")
        if self.kind == "delete":
            self.statement["limit"] = 0 if self.statement.pop("multi", False) else 1


def _check_field(name: str, value: Any) -> None:
    """
    Raises:
        MongoError: 14, 9 or 40414, a field of an operation has another type.
    """
    if name == "filter" and value is None:
        raise MongoError(40414, "BSON field 'bulkWrite.ops.filter' is missing but a required field")
    if name in ("hint", "updateMods"):
        is_right = isinstance(value, Mapping) or (
            is_text(value) if name == "hint" else isinstance(value, list)
        )
        code = 9
    else:
        is_right, code = value is None or isinstance(value, _TYPES[name]), 14
    if not is_right:
        raise MongoError(code, f"BSON field 'bulkWrite.ops.{name}' is the wrong type '{type_name(value)}'")


_TYPES: Final[dict[str, Any]] = {
    **dict.fromkeys(("filter", "constants", "collation", "sort"), Mapping),
    **dict.fromkeys(("multi", "upsert"), bool),
    "arrayFilters": list,
}


def bulk_write(
    spaces: Namespaces,
    operations: Sequence[Any],
    collections: Sequence[Any],
    *,
    ordered: bool = True,
    errors_only: bool = False,
    variables: Mapping[str, Any] | None = None,
    transaction: Transaction | None = None,
    bypasses: bool = False,
    keeps_empty: bool = False,
    retry: RetryableWrite | None = None,
) -> tuple[list[Document], Document]:
    """Execute the operations; with `ordered`, until the first error.

    Args:
        operations: `ops`: `{"insert": 0, "document": {...}}`, `{"update": 0, "filter", "updateMods", ...}` and
            `{"delete": 0, "filter"}`, each with the number of its collection.
        collections: `nsInfo`: `{"ns": "shop.orders"}` for each collection.
        errors_only: Return only the results of failed operations.
        bypasses: Writes are not validated.
        keeps_empty: Empty timestamps are stored as they are.
        retry: The retryable write, whose reply is kept.

    Returns:
        The results, a document each, and the counters of the reply.

    Raises:
        MongoError: The command is invalid.
    """
    namespaces = [_namespace(one) for one in collections]
    checked = [_Operation(one, namespaces) for one in operations]
    counts: Document = dict.fromkeys(
        ("nErrors", "nInserted", "nMatched", "nModified", "nUpserted", "nDeleted"), 0
    )
    results: list[Document] = []
    with nullcontext() if transaction is not None else spaces.session.transaction() as commit:
        before = 0 if commit is None else commit.count
        for first, run in _runs(checked):
            work = CollectionWork(
                spaces,
                run[0].namespace,
                transaction,
                bypasses=bypasses,
                keeps_empty=keeps_empty,
            )
            for result in _execute(work, run, first, ordered, variables, counts):
                if not result["ok"]:
                    counts["nErrors"] += 1
                if not result["ok"] or not errors_only:
                    results.append(result)
            if ordered and counts["nErrors"]:
                break
        if retry is not None and commit is not None and commit.count > before:
            retry.remember(commit, build_reply(results, counts))
    return results, counts


def build_reply(results: Sequence[Document], counts: Document) -> Document:
    """The whole reply, in one batch."""
    return {"cursor": {"firstBatch": list(results), "id": Int64(0), "ns": NAMESPACE}, **counts}


def _namespace(given: Any) -> MongoNamespace:
    if not isinstance(given, Mapping) or given.get("ns") is None:
        raise MongoError(40414, "BSON field 'bulkWrite.nsInfo.ns' is missing but a required field")
    if not is_text(given["ns"]):
        raise MongoError(
            14,
            f"BSON field 'bulkWrite.nsInfo.ns' is the wrong type '{type_name(given['ns'])}', expected type 'string'",
        )
    for name in given:
        if name != "ns":
            raise MongoError(40415, f"BSON field 'bulkWrite.nsInfo.{name}' is an unknown field.")
    return namespace_of(given["ns"])


def _runs(operations: Sequence[_Operation]) -> Iterator[tuple[int, list[_Operation]]]:
    """Consecutive inserts into one collection, together; all others alone. With the number of the first operation."""
    run: list[_Operation] = []
    for place, one in enumerate(operations):
        if run and not (run[-1].namespace == one.namespace and run[-1].kind == one.kind == "insert"):
            yield place - len(run), run
            run = []
        run.append(one)
    if run:
        yield len(operations) - len(run), run


def _execute(
    work: CollectionWork,
    run: Sequence[_Operation],
    first: int,
    ordered: bool,
    variables: Mapping[str, Any] | None,
    counts: Document,
) -> list[Document]:
    """The results of operations of one kind on one collection."""
    kind, statements = run[0].kind, [one.statement for one in run]
    if kind == "insert":
        answer = work.insert(statements, ordered=ordered)
        counts["nInserted"] += answer["n"]
        failed = {error["index"]: error for error in answer.get("writeErrors", ())}
        done = min(failed) + 1 if failed and ordered else len(run)
        return [
            _error_result(first + place, failed[place])
            if place in failed
            else {"ok": 1.0, "idx": first + place, "n": 1}
            for place in range(done)
        ]
    if kind == "delete":
        answer = work.delete(statements, variables=variables)
        counts["nDeleted"] += answer["n"]
        result = {"ok": 1.0, "idx": first, "n": answer["n"]}
    else:
        answer = work.update(statements, variables=variables)
        upserted = answer.get("upserted", [])
        counts["nMatched"] += answer["n"] - len(upserted)
        counts["nModified"] += answer["nModified"]
        counts["nUpserted"] += len(upserted)
        result = {"ok": 1.0, "idx": first, "n": answer["n"], "nModified": answer["nModified"]}
        if upserted:
            result["upserted"] = {"_id": upserted[0]["_id"]}
    for error in answer.get("writeErrors", ()):
        return [_error_result(first, error)]
    return [result]


def _error_result(place: int, error: Mapping[str, Any]) -> Document:
    fields = {name: value for name, value in error.items() if name != "index"}
    return {"ok": 0.0, "idx": place, **fields, "n": 0}
