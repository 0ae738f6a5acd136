"""Commands about collections and databases: list, create, change and drop them.

Rule of this file: names and options. `namespaces` does the work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bson import Int64

from reactdb.dialects.mongodb.bson_order import type_name
from reactdb.dialects.mongodb.clock import refuse_cluster_time
from reactdb.dialects.mongodb.commands.cursors import Results
from reactdb.dialects.mongodb.commands.get_more import batch_size, first_batch
from reactdb.dialects.mongodb.commands.profiler import PROFILE
from reactdb.dialects.mongodb.commands.requests import CommandRequest
from reactdb.dialects.mongodb.commands.sessions import session_key
from reactdb.dialects.mongodb.commands.table import command
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.filters import Filter
from reactdb.dialects.mongodb.names import MongoNamespace, check_database_name
from reactdb.dialects.mongodb.namespaces import CollectionInfo
from reactdb.dialects.mongodb.numeric import is_number
from reactdb.dialects.mongodb.options import (
    CREATE_FIELDS,
    MODIFY_FIELDS,
    creation_options,
    description,
    fields_of_event,
    merge_options,
)
from reactdb.dialects.mongodb.view_graph import check_views, dependencies


def require_collection(request: CommandRequest) -> CollectionInfo:
    info = request.deployment.spaces.find(request.mongo_namespace())
    if info is None:
        raise MongoError(26, f"ns does not exist: {request.namespace}")
    return info


@command("create", fields=CREATE_FIELDS, is_write=True)
def create(request: CommandRequest) -> dict[str, Any]:
    options = creation_options(request.body)
    spaces = request.deployment.spaces
    check_view(request, options)
    if request.transaction is not None:
        request.transaction.create(request.mongo_namespace(), options)
        return {}
    try:
        spaces.create(request.mongo_namespace(), options)
    except MongoError as error:
        info = spaces.find(request.mongo_namespace())
        # To make it again as it is changes nothing.
        if error.code != 48 or info is None or info.options != options:
            raise
    return {}


def check_view(request: CommandRequest, options: Mapping[str, Any]) -> None:
    """Check a view with these options, if they are a view's.

    Raises:
        MongoError: 5, it would be its own source; 165, it is nested too deeply.
    """
    if "viewOn" in options:
        view = request.mongo_namespace()
        below = dependencies(view, MongoNamespace(view.db, options["viewOn"]), options["pipeline"])
        check_views(request.deployment.spaces, below, made=view)


@command("drop", fields="", is_write=True)
def drop(request: CommandRequest) -> dict[str, Any]:
    spaces, namespace = request.deployment.spaces, request.mongo_namespace()
    if namespace.coll == PROFILE and request.deployment.profiler.of(namespace.db).number:
        raise MongoError(20, "turn off profiling before dropping system.profile collection")
    info = spaces.find(namespace)
    if info is None or not spaces.drop(namespace):
        return {}
    indexes = {} if info.record.is_view else {"nIndexesWas": 1 + len(info.indexes)}
    return {**indexes, "ns": str(namespace)}


@command("dropDatabase", is_write=True)
def drop_database(request: CommandRequest) -> dict[str, Any]:
    if request.value is None:
        raise MongoError(40414, "BSON field 'dropDatabase' is missing but a required field")
    if not is_number(request.value):
        raise MongoError(
            14,
            f"BSON field 'dropDatabase' is the wrong type '{type_name(request.value)}', expected type 'number'",
        )
    name = check_database_name(request.database)
    request.deployment.profiler.forget(name)
    return {"dropped": name} if request.deployment.spaces.drop_database(name) else {}


@command("collMod", fields=MODIFY_FIELDS, is_write=True)
def coll_mod(request: CommandRequest) -> dict[str, Any]:
    info = require_collection(request)
    options = merge_options(request.body, info.options)
    check_view(request, options)
    wanted = request.get("index", dict)
    is_dry = request.flag("dryRun")
    if is_dry and (options or wanted is None or not wanted.get("unique")):
        raise MongoError(72, "collMod has a dry run of 'index' with 'unique: true' alone")
    changed = {} if wanted is None else request.collection_work().modify_index(wanted, is_dry=is_dry)
    if not is_dry and (options or not changed):
        modified = fields_of_event(request.body, options, has_told_of_index=bool(changed))
        request.deployment.spaces.modify(request.mongo_namespace(), options, modified=modified)
    return changed


@command("listCollections", fields="cursor filter nameOnly authorizedCollections")
def list_collections(request: CommandRequest) -> dict[str, Any]:
    name = check_database_name(request.database)
    wanted = Filter(refuse_cluster_time(request.get("filter", dict, {})))
    names_only = request.flag("nameOnly")
    request.flag("authorizedCollections")
    entries = [
        entry
        for one in request.deployment.spaces.collections(name)
        if wanted.matches(entry := description(one))
    ]
    if names_only:
        entries = [{"name": one["name"], "type": one["type"]} for one in entries]
    cursor = Results(f"{name}.$cmd.listCollections", iter(entries), session_key(request))
    return first_batch(request, cursor, batch_size(request, None))


@command("listDatabases", fields="filter nameOnly authorizedDatabases")
def list_databases(request: CommandRequest) -> dict[str, Any]:
    if request.database != "admin":
        raise MongoError(13, "listDatabases may only be run against the admin database.")
    wanted, names_only = (
        Filter(refuse_cluster_time(request.get("filter", dict, {}))),
        request.flag("nameOnly"),
    )
    request.flag("authorizedDatabases")
    entries = [
        entry
        for name in request.deployment.spaces.databases()
        if wanted.matches(entry := {"name": name, "sizeOnDisk": Int64(1), "empty": False})
    ]
    if names_only:
        return {"databases": [{"name": one["name"]} for one in entries]}
    return {"databases": entries, "totalSize": Int64(len(entries)), "totalSizeMb": Int64(0)}


@command("flushRouterConfig")
def nothing_to_do(request: CommandRequest) -> dict[str, Any]:
    return {}


@command("fsync", fields="lock fsyncLockAcquisitionTimeoutMillis", is_write=True)
def fsync(request: CommandRequest) -> dict[str, Any]:
    if request.database != "admin":
        raise MongoError(13, "fsync may only be run against the admin database.")
    request.get("fsyncLockAcquisitionTimeoutMillis", (int, float))
    if request.flag("lock"):
        # After a lock the caller copies the file, and must not believe that there are no writes meanwhile.
        raise MongoError(
            115, "fsync does not lock: a file is copied while it is written by SQLite's own backup"
        )
    request.deployment.flush()
    return {"numFiles": 1}


@command("fsyncUnlock", fields="", is_write=True)
def fsync_unlock(request: CommandRequest) -> dict[str, Any]:
    if request.database != "admin":
        raise MongoError(13, "fsyncUnlock may only be run against the admin database.")
    raise MongoError(20, "fsyncUnlock called when not locked")
