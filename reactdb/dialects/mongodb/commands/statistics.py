"""Commands for statistics.

Rule of this file: a size in bytes is always 0. Documents are entries of the log, among their earlier versions, so a collection
has no size of its own.
"""

from __future__ import annotations

from typing import Any

from bson import Int64

from reactdb.dialects.mongodb.bson_order import type_name
from reactdb.dialects.mongodb.collection import CollectionWork
from reactdb.dialects.mongodb.commands.requests import CommandRequest
from reactdb.dialects.mongodb.commands.table import always, command
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.names import check_database_name
from reactdb.dialects.mongodb.numeric import is_number, truncate


@command("collStats", fields="scale")
def collection_statistics(request: CommandRequest) -> dict[str, Any]:
    scale = scale_of(request)
    info = request.deployment.spaces.find(request.mongo_namespace())
    if info is None:
        return {"ns": request.namespace, "count": 0, "size": 0, "storageSize": 0, "nindexes": 0}
    if info.record.is_view:
        raise MongoError(166, f"Namespace {request.namespace} is a view, not a collection")
    return {
        "ns": request.namespace,
        "count": request.collection_work().count({}),
        "size": 0,
        "avgObjSize": 0,
        "storageSize": 0,
        "totalSize": 0,
        **info.cap,
        "nindexes": 1 + len(info.indexes),
        "totalIndexSize": 0,
        "indexSizes": dict.fromkeys(("_id_", *(one["name"] for one in info.indexes)), 0),
        "scaleFactor": scale,
    }


def scale_of(request: CommandRequest) -> int:
    """The divisor of sizes.

    Raises:
        MongoError: 14, it is no number; 2, it is below 1.
    """
    value = request.body.get("scale")
    if value is None:
        return 1
    if not is_number(value):
        raise MongoError(
            14,
            f"BSON field '{request.name}.scale' is the wrong type '{type_name(value)}', expected types "
            "'[long, int, decimal, double]'",
        )
    scale = truncate(value)
    if scale < 1:
        raise MongoError(2, f"BSON field '{request.name}.scale' value must be >= 1, actual value '{value}'")
    return scale


@command("dbStats", fields="scale freeStorage")
def database_statistics(request: CommandRequest) -> dict[str, Any]:
    scale = scale_of(request)
    request.flag("freeStorage")
    spaces = request.deployment.spaces
    collections = spaces.collections(check_database_name(request.database))
    own = [one for one in collections if "viewOn" not in one.options]
    return {
        "db": request.database,
        "collections": Int64(len(own)),
        "views": Int64(len(collections) - len(own)),
        "objects": Int64(sum(CollectionWork(spaces, one.namespace).count({}) for one in own)),
        "avgObjSize": 0.0,
        "dataSize": 0.0,
        "storageSize": 0.0,
        "indexes": Int64(sum(1 + len(one.indexes) for one in own)),
        "indexSize": 0.0,
        "totalSize": 0.0,
        "scaleFactor": Int64(scale),
    }


@command("validate")
def validate(request: CommandRequest) -> dict[str, Any]:
    with_metadata = ("full", "background", "repair", "checkBSONConformance")
    if request.body.get("metadata") and any(request.body.get(name) for name in with_metadata):
        raise MongoError(
            72, "Running the validate command with { metadata: true } is not supported with others"
        )
    if request.body.get("background") and request.body.get("full"):
        raise MongoError(
            72, "Running the validate command with both background: true and full: true is not supported."
        )
    info = request.deployment.spaces.find(request.mongo_namespace())
    if info is None:
        raise MongoError(26, f"Collection '{request.namespace}' does not exist to validate.")
    if "viewOn" in info.options:
        raise MongoError(166, "Cannot validate a view")
    # Each read checks the checksum.
    count = sum(1 for _ in request.collection_work().find({}))
    names = ["_id_", *(one["name"] for one in info.indexes)]
    return {
        "ns": request.namespace,
        "uuid": info.uuid,
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


@command("currentOp", quick=always)
def current_operations(request: CommandRequest) -> dict[str, Any]:
    return {"inprog": []}
