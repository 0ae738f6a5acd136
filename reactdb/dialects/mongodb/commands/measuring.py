"""Commands that say how much there is.

Rule of this file: a size in bytes is answered with 0. Documents are entries of the log, among their earlier versions, so a
collection has no size of its own.
"""

from __future__ import annotations

from typing import Any

from bson import Int64

from reactdb.dialects.mongodb.collection import CollectionWork
from reactdb.dialects.mongodb.commands.requests import CommandRequest
from reactdb.dialects.mongodb.commands.table import always, command
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.names import check_database_name
from reactdb.dialects.mongodb.namespaces import CollectionInfo


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
    if request.body.get("background") and request.body.get("full"):
        raise MongoError(
            72, "Running the validate command with both background: true and full: true is not supported."
        )
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


@command("currentOp", quick=always)
def current_operations(request: CommandRequest) -> dict[str, Any]:
    return {"inprog": []}
