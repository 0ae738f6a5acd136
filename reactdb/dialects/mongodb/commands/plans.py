"""`explain`: the plan of a command, in place of its execution.

Rule of this file: the plan comes from `query_plan`, as for the command itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from reactdb.clock import monotonic
from reactdb.dialects.mongodb.bson_order import is_text, type_name
from reactdb.dialects.mongodb.capped_collections import order_table_of
from reactdb.dialects.mongodb.commands.deployment import VERSION_TEXT
from reactdb.dialects.mongodb.commands.requests import CommandRequest
from reactdb.dialects.mongodb.commands.table import command, find_command
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.field_names import format_name
from reactdb.dialects.mongodb.find import FilterSelection
from reactdb.dialects.mongodb.hint import goes_backwards
from reactdb.dialects.mongodb.index_walk import walk_of
from reactdb.dialects.mongodb.indexes import CollectionIndex, indexes_of
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.query_plan import NativeIndex, ReadPlan, native_indexes
from reactdb.dialects.mongodb.sort import Order
from reactdb.dialects.mongodb.values import to_bson
from reactdb.dialects.mongodb.views import ViewingWork
from reactdb.store.catalogue import TableInfo

__all__ = ["explain_command"]

EXPLAINED: Final = ("find", "count", "distinct", "aggregate", "update", "delete", "findAndModify")
COUNTED: Final = ("find", "count", "distinct")
"""Commands that are executed if the verbosity asks for statistics."""
VERBOSITIES: Final = ("queryPlanner", "executionStats", "allPlansExecution")


@command("explain", fields="verbosity")
def explain(request: CommandRequest) -> dict[str, Any]:
    explained_body = request.body.get("explain")
    if explained_body is None:
        raise MongoError(40414, "BSON field 'explain.explain' is missing but a required field")
    if not isinstance(explained_body, dict):
        raise MongoError(14, f"BSON field 'explain.explain' is the wrong type '{type_name(explained_body)}'")
    name = next((one for one in EXPLAINED if one in explained_body), None)
    if name is None and find_command(explained_body) is not None:
        raise MongoError(20, f"Cannot explain cmd: {next(iter(explained_body))}")
    if name is None:
        raise MongoError(59, f"Explain failed due to unknown command: {next(iter(explained_body), '')}")
    verbosity = request.get("verbosity", str, "allPlansExecution")
    if verbosity not in VERBOSITIES:
        raise MongoError(2, f"verbosity string must be one of {VERBOSITIES}")
    return explain_command(request, name, explained_body, verbosity)


def explain_command(
    request: CommandRequest, name: str, body: dict[str, Any], verbosity: str = "queryPlanner"
) -> dict[str, Any]:
    """The reply of `explain` for a command."""
    query = query_of(name, body)
    reply: dict[str, Any] = {
        "explainVersion": "1",
        "queryPlanner": {
            "namespace": f"{request.database}.{body[name]}",
            "parsedQuery": query,
            "winningPlan": {"stage": "EOF"},
            "rejectedPlans": [],
        },
    }
    collection = body[name]
    if is_text(collection):
        work = ViewingWork(
            request.spaces(), MongoNamespace(request.database, collection), request.transaction
        )
        reply["queryPlanner"]["winningPlan"] = winning_plan(work, query, body)
        if verbosity != "queryPlanner" and name in COUNTED:
            asks_find = {**body, "filter": query} if name == "find" else {"filter": query}
            reply["executionStats"] = statistics(work, asks_find, reply["queryPlanner"]["winningPlan"])
    return {
        **reply,
        "command": body,
        "serverInfo": {"host": request.deployment.address, "version": VERSION_TEXT},
    }


def query_of(name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The filter of a command.

    Raises:
        MongoError: 14, its statements or its pipeline are no list of documents.
    """
    query: Any = body.get("filter") or body.get("query")
    if name in ("update", "delete"):
        query = first_of(name, body, f"{name}s").get("q")
    elif name == "aggregate":
        query = first_of(name, body, "pipeline").get("$match")
    return query if isinstance(query, dict) else {}


def first_of(name: str, body: Mapping[str, Any], field: str) -> dict[str, Any]:
    """The first of the documents in a field; an empty one if the field is empty."""
    documents = body.get(field) or []
    first = documents[0] if isinstance(documents, list) and documents else {}
    if not isinstance(documents, list) or not isinstance(first, dict):
        raise MongoError(14, f"BSON field '{name}.{field}' is not a list of objects")
    return first


def winning_plan(work: ViewingWork, query: dict[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """The plan for reading a command's documents."""
    if work.spaces.view(work.namespace) is not None:
        return {"stage": "COLLSCAN", "direction": "forward"}
    table = work.spaces.table(work.namespace)
    if table is None:
        return {"stage": "EOF"}
    if body.get("hint"):
        # It has to be there.
        work.resolve_hint(body["hint"])
    indexes = indexes_of(table)
    selection = FilterSelection(query, collation=work.collation(body.get("collation")))
    chosen = selection.plan(indexes, table)
    order = body.get("sort") or {}
    with work.spaces.session.read() as now:
        if chosen.keys is None and order_table_of(now.catalogue, table) is not None:
            # Its documents come in the order of their insertion, and no index has that order.
            chosen = ReadPlan()
        natural = goes_backwards(order, body.get("hint")) if isinstance(order, dict) else None
        if body.get("limit") and "find" in body and not body.get("hint") and natural is None:
            way = walk_of(now.catalogue, table, selection, Order(order) if order else None)
            if way is not None:
                return {"stage": "FETCH", "inputStage": scan_of(way.by, is_backwards=way.is_backwards)}
    if chosen.keys is None and natural:
        return {**format_plan(chosen, table, indexes), "direction": "backward"}
    return format_plan(chosen, table, indexes)


def format_plan(chosen: ReadPlan, table: TableInfo, indexes: Sequence[CollectionIndex]) -> dict[str, Any]:
    if chosen.parts:
        parts = [format_plan(part, table, indexes) for part in chosen.parts]
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
    pattern = dict.fromkeys(map(format_name, index.fields), 1)
    return {"stage": "IXSCAN", "keyPattern": pattern, "indexName": index.by.name, "direction": "forward"}


def statistics(work: ViewingWork, body: Mapping[str, Any], plan: dict[str, Any]) -> dict[str, Any]:
    """The statistics of an executed find."""
    begun = monotonic()
    count = sum(1 for _ in work.find(body))
    spent = round((monotonic() - begun) * 1_000)
    return {
        "executionSuccess": True,
        "nReturned": count,
        "executionTimeMillis": spent,
        "executionStages": {**plan, "nReturned": count},
    }
