"""Commands that say how much there is, and how a query is answered.

Rule of this file: sizes are not measured, since documents lie in the log with all that was; they are told as 0.
"""

from __future__ import annotations

from typing import Any

from bson import Int64

from reactdb.dialects.mongodb.collection import CollectionWork, simple
from reactdb.dialects.mongodb.commands.requests import CommandRequest
from reactdb.dialects.mongodb.commands.table import always, command
from reactdb.dialects.mongodb.commands.writing import is_about_key
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.indexes import indexes_of
from reactdb.dialects.mongodb.names import MongoNamespace, check_database_name
from reactdb.dialects.mongodb.namespaces import CollectionInfo
from reactdb.dialects.mongodb.reading import FilterSelection
from reactdb.expression import field_path


@command("collStats", fields="scale")
def collection_statistics(request: CommandRequest) -> dict[str, Any]:
    found = request.deployment.spaces.find(request.place())
    if found is None:
        return {"ns": request.namespace, "count": 0, "size": 0, "storageSize": 0, "nindexes": 0}
    return {
        "ns": request.namespace,
        "count": request.collection_work().count({}),
        "size": 0,
        "avgObjSize": 0,
        "storageSize": 0,
        "totalSize": 0,
        **_cap_of(found),
        "nindexes": 1 + len(found.indexes),
        "totalIndexSize": 0,
        "indexSizes": dict.fromkeys(("_id_", *(one["name"] for one in found.indexes)), 0),
        "scaleFactor": 1,
    }


def _cap_of(found: CollectionInfo) -> dict[str, Any]:
    """What is said of a capped collection."""
    if not found.options.get("capped"):
        return {"capped": False}
    return {"capped": True, "max": found.options.get("max", 0), "maxSize": found.options["size"]}


@command("dbStats", fields="scale freeStorage")
def database_statistics(request: CommandRequest) -> dict[str, Any]:
    spaces = request.deployment.spaces
    found = spaces.collections(check_database_name(request.database))
    own = [one for one in found if "viewOn" not in one.options]
    return {
        "db": request.database,
        "collections": Int64(len(own)),
        "views": Int64(len(found) - len(own)),
        "objects": Int64(sum(CollectionWork(spaces, one.namespace).count({}) for one in own)),
        "avgObjSize": 0.0,
        "dataSize": 0.0,
        "storageSize": 0.0,
        "indexes": Int64(sum(1 + len(one.indexes) for one in own)),
        "indexSize": 0.0,
        "totalSize": 0.0,
        "scaleFactor": Int64(1),
    }


@command("validate", fields="full repair background scandata checkBSONConformance metadata")
def validate(request: CommandRequest) -> dict[str, Any]:
    found = request.deployment.spaces.find(request.place())
    if found is None:
        raise MongoError(26, f"Collection '{request.namespace}' does not exist to validate.")
    # Whatever is read is checked against its checksum.
    count = sum(1 for _ in request.collection_work().find({}))
    names = ["_id_", *(one["name"] for one in found.indexes)]
    return {
        "ns": request.namespace,
        "uuid": found.uuid,
        "nInvalidDocuments": 0,
        "nNonCompliantDocuments": 0,
        "nrecords": count,
        "nIndexes": len(names),
        "keysPerIndex": dict.fromkeys(names, count),
        "indexDetails": {name: {"valid": True} for name in names},
        "valid": True,
        "repaired": False,
        "warnings": [],
        "errors": [],
        "extraIndexEntries": [],
        "missingIndexEntries": [],
        "corruptRecords": [],
    }


EXPLAINED = ("find", "count", "distinct", "aggregate", "update", "delete", "findAndModify")


@command("explain", fields="verbosity")
def explain(request: CommandRequest) -> dict[str, Any]:
    asked = request.get("explain", dict, {})
    name = next((one for one in EXPLAINED if one in asked), None)
    if name is None:
        raise MongoError(59, f"Explain failed due to unknown command: {next(iter(asked), '')}")
    return explained(request, name, asked)


def explained(request: CommandRequest, name: str, asked: dict[str, Any]) -> dict[str, Any]:
    """What is said of a command instead of carrying it out."""
    statement, query = _asked(asked)
    return {
        "explainVersion": "1",
        "queryPlanner": {
            "namespace": f"{request.database}.{asked[name]}",
            "parsedQuery": query,
            "winningPlan": _winning_plan(request, asked[name], query, statement.get("collation")),
            "rejectedPlans": [],
        },
        "command": asked,
        "serverInfo": {"host": request.deployment.address, "version": "8.2.4"},
    }


def _asked(asked: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The first statement of a command, or the command, and its filter."""
    statements = asked.get("updates") or asked.get("deletes") or [asked]
    stages = asked.get("pipeline") or [{}]
    statement = statements[0] if isinstance(statements, list) and isinstance(statements[0], dict) else {}
    first = stages[0].get("$match") if isinstance(stages, list) and isinstance(stages[0], dict) else None
    query = statement.get("filter") or statement.get("query") or statement.get("q") or first
    return statement, query if isinstance(query, dict) else {}


def _winning_plan(
    request: CommandRequest, collection: Any, query: dict[str, Any], collation: Any
) -> dict[str, Any]:
    """How the documents are read: by `_id`, by a range of `_id`s, by an index of MongoDB's or a native one, or all of them."""
    spaces = request.deployment.spaces
    namespace = MongoNamespace(request.database, collection) if isinstance(collection, str) else None
    table = None if namespace is None or spaces.view(namespace) is not None else spaces.table(namespace)
    direction = {"direction": "forward"}
    if is_about_key(query) and len(query) == 1:
        return {"stage": "IDHACK", **direction}
    found = {"filter": query} if query else {}
    if table is None:
        return {"stage": "COLLSCAN", **found, **direction}
    indexes = indexes_of(table)
    chosen = FilterSelection(query, collation=simple(collation)).plan(indexes, table)
    if chosen.keys is not None:
        name, key = "_id_", {"_id": 1}
    elif chosen.by is not None:
        own = next((one for one in indexes if one.info is chosen.by), None)
        name = chosen.by.name if own is None else own.name
        # A native index that serves is on one field.
        path = field_path(chosen.by.expression) or (name,)
        key = {path[0]: 1} if own is None else dict(own.spec["key"])
    else:
        return {"stage": "CLUSTERED_IXSCAN" if chosen.ranges else "COLLSCAN", **found, **direction}
    return {
        "stage": "FETCH",
        **found,
        "inputStage": {"stage": "IXSCAN", "keyPattern": key, "indexName": name, **direction},
    }


@command("currentOp", quick=always)
def current_operations(request: CommandRequest) -> dict[str, Any]:
    return {"inprog": []}
