"""`explain`: the plan of a command, in place of its execution.

Rule of this file: the plan comes from `planning`, as for the command itself.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from reactdb.dialects.mongodb.capped import order_of
from reactdb.dialects.mongodb.commands.deployment import VERSION_TEXT
from reactdb.dialects.mongodb.commands.requests import CommandRequest
from reactdb.dialects.mongodb.commands.table import command, find_command
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.field_names import shown_name
from reactdb.dialects.mongodb.hinting import goes_backwards
from reactdb.dialects.mongodb.indexes import CollectionIndex, indexes_of
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.ordering import is_text, type_name
from reactdb.dialects.mongodb.planning import NativeIndex, ReadPlan, native_indexes
from reactdb.dialects.mongodb.reading import FilterSelection
from reactdb.dialects.mongodb.sorting import Order
from reactdb.dialects.mongodb.values import to_bson
from reactdb.dialects.mongodb.viewing import ViewingWork
from reactdb.dialects.mongodb.walking import walk_of
from reactdb.store.catalogue import TableInfo

__all__ = ["explained"]

EXPLAINED: Final = ("find", "count", "distinct", "aggregate", "update", "delete", "findAndModify")
COUNTED: Final = ("find", "count", "distinct")
"""Commands that are executed if the verbosity asks for statistics."""
VERBOSITIES: Final = ("queryPlanner", "executionStats", "allPlansExecution")


@command("explain", fields="verbosity")
def explain(request: CommandRequest) -> dict[str, Any]:
    asked = request.body.get("explain")
    if asked is None:
        raise MongoError(40414, "BSON field 'explain.explain' is missing but a required field")
    if not isinstance(asked, dict):
        raise MongoError(14, f"BSON field 'explain.explain' is the wrong type '{type_name(asked)}'")
    name = next((one for one in EXPLAINED if one in asked), None)
    if name is None and find_command(asked) is not None:
        raise MongoError(20, f"Cannot explain cmd: {next(iter(asked))}")
    if name is None:
        raise MongoError(59, f"Explain failed due to unknown command: {next(iter(asked), '')}")
    verbosity = request.get("verbosity", str, "allPlansExecution")
    if verbosity not in VERBOSITIES:
        raise MongoError(2, f"verbosity string must be one of {VERBOSITIES}")
    return explained(request, name, asked, verbosity)


def explained(
    request: CommandRequest, name: str, asked: dict[str, Any], verbosity: str = "queryPlanner"
) -> dict[str, Any]:
    """The reply of `explain` for a command."""
    query = query_of(name, asked)
    said: dict[str, Any] = {
        "explainVersion": "1",
        "queryPlanner": {
            "namespace": f"{request.database}.{asked[name]}",
            "parsedQuery": query,
            "winningPlan": {"stage": "EOF"},
            "rejectedPlans": [],
        },
    }
    collection = asked[name]
    if is_text(collection):
        work = ViewingWork(
            request.spaces(), MongoNamespace(request.database, collection), request.transaction
        )
        said["queryPlanner"]["winningPlan"] = winning_plan(work, query, asked)
        if verbosity != "queryPlanner" and name in COUNTED:
            asks_find = {**asked, "filter": query} if name == "find" else {"filter": query}
            said["executionStats"] = statistics(work, asks_find, said["queryPlanner"]["winningPlan"])
    return {
        **said,
        "command": asked,
        "serverInfo": {"host": request.deployment.address, "version": VERSION_TEXT},
    }


def query_of(name: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The filter of a command.

    Raises:
        MongoError: 14, its statements or its pipeline are no list of documents.
    """
    found: Any = asked.get("filter") or asked.get("query")
    if name in ("update", "delete"):
        found = first_of(name, asked, f"{name}s").get("q")
    elif name == "aggregate":
        found = first_of(name, asked, "pipeline").get("$match")
    return found if isinstance(found, dict) else {}


def first_of(name: str, asked: Mapping[str, Any], field: str) -> dict[str, Any]:
    """The first of the documents in a field; an empty one if the field is empty."""
    found = asked.get(field) or []
    first = found[0] if isinstance(found, list) and found else {}
    if not isinstance(found, list) or not isinstance(first, dict):
        raise MongoError(14, f"BSON field '{name}.{field}' is not a list of objects")
    return first


def winning_plan(work: ViewingWork, query: dict[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """The plan for reading a command's documents."""
    if work.spaces.view(work.namespace) is not None:
        return {"stage": "COLLSCAN", "direction": "forward"}
    table = work.spaces.table(work.namespace)
    if table is None:
        return {"stage": "EOF"}
    if asked.get("hint"):
        # It has to be there.
        work.hinted(asked["hint"])
    indexes = indexes_of(table)
    selection = FilterSelection(query, collation=work.collation(asked.get("collation")))
    chosen = selection.plan(indexes, table)
    order = asked.get("sort") or {}
    with work.spaces.session.read() as now:
        if chosen.keys is None and order_of(now.catalogue, table) is not None:
            # Its documents come in the order of their insertion, and no index has that order.
            chosen = ReadPlan()
        natural = goes_backwards(order, asked.get("hint")) if isinstance(order, dict) else None
        if asked.get("limit") and "find" in asked and not asked.get("hint") and natural is None:
            way = walk_of(now.catalogue, table, selection, Order(order) if order else None)
            if way is not None:
                return {"stage": "FETCH", "inputStage": scan_of(way.by, is_backwards=way.is_backwards)}
    if chosen.keys is None and natural:
        return {**shown_plan(chosen, table, indexes), "direction": "backward"}
    return shown_plan(chosen, table, indexes)


def shown_plan(chosen: ReadPlan, table: TableInfo, indexes: Sequence[CollectionIndex]) -> dict[str, Any]:
    if chosen.parts:
        parts = [shown_plan(part, table, indexes) for part in chosen.parts]
        inputs = [part.get("inputStage", part) for part in parts]
        return {"stage": "FETCH", "inputStage": {"stage": "OR", "inputStages": inputs}}
    if chosen.keys is not None:
        return {"stage": "IDHACK", "keyPattern": {"_id": 1}, "indexName": "_id_"}
    if chosen.by is not None:
        scans = [scan_of(one) for one in indexes if one.info is chosen.by]
        scans += [native_scan(one) for one in native_indexes(table) if one.by is chosen.by]
        return {"stage": "FETCH", "inputStage": scans[0]}
    # Documents lie in the order of their keys, so a range of `_id`s is read without an index.
    return {"stage": "CLUSTERED_IXSCAN" if chosen.ranges else "COLLSCAN", "direction": "forward"}


def scan_of(index: CollectionIndex, *, is_backwards: bool = False) -> dict[str, Any]:
    return {
        "stage": "IXSCAN",
        "keyPattern": to_bson(index.spec["key"]),
        "indexName": index.name,
        "isUnique": index.is_unique,
        "isSparse": bool(index.spec["sparse"]),
        "isPartial": index.is_partial,
        "direction": "backward" if is_backwards else "forward",
    }


def native_scan(index: NativeIndex) -> dict[str, Any]:
    """The plan's stage for a native index."""
    assert index.by is not None
    pattern = dict.fromkeys(map(shown_name, index.fields), 1)
    return {"stage": "IXSCAN", "keyPattern": pattern, "indexName": index.by.name, "direction": "forward"}


def statistics(work: ViewingWork, asked: Mapping[str, Any], plan: dict[str, Any]) -> dict[str, Any]:
    """The statistics of an executed find."""
    begun = time.monotonic()
    count = sum(1 for _ in work.find(asked))
    spent = round((time.monotonic() - begun) * 1_000)
    return {
        "executionSuccess": True,
        "nReturned": count,
        "executionTimeMillis": spent,
        "executionStages": {**plan, "nReturned": count},
    }
