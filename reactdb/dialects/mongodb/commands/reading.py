"""Commands that read documents.

Rule of this file: what a command may say, and its batches. What is read is worked out in `collection`.
"""

from __future__ import annotations

from typing import Any

from reactdb.dialects.mongodb.aggregating import aggregate as aggregated
from reactdb.dialects.mongodb.clock import timeless
from reactdb.dialects.mongodb.commands.cursors import FIRST_BATCH, Results
from reactdb.dialects.mongodb.commands.deployment import Deployment
from reactdb.dialects.mongodb.commands.get_more import batch_size, first_batch
from reactdb.dialects.mongodb.commands.plans import explained
from reactdb.dialects.mongodb.commands.requests import CommandRequest
from reactdb.dialects.mongodb.commands.sessions import session_key
from reactdb.dialects.mongodb.commands.streaming import is_change_stream, opened_stream
from reactdb.dialects.mongodb.commands.table import command
from reactdb.dialects.mongodb.commands.tailing import opened_tail
from reactdb.dialects.mongodb.commands.writing import is_about_key
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.names import MongoNamespace, check_database_name
from reactdb.dialects.mongodb.ordering import is_text, type_name
from reactdb.dialects.mongodb.tailing import check_tailable


def is_find_by_key(body: dict[str, Any], deployment: Deployment) -> bool:
    return is_about_key(body.get("filter"))


@command(
    "find",
    fields="filter sort projection hint skip limit batchSize singleBatch max min returnKey showRecordId tailable awaitData "
    "noCursorTimeout oplogReplay allowPartialResults collation allowDiskUse let term readOnce querySettings",
    quick=is_find_by_key,
)
def find(request: CommandRequest) -> dict[str, Any]:
    for name in ("filter", "sort", "projection", "collation", "let"):
        request.get(name, dict)
    if check_tailable(request.body):
        return opened_tail(request)
    limit = request.number("limit") or 0
    most = request.number("batchSize", FIRST_BATCH)
    documents = request.collection_work().find(request.body)
    cursor = Results(request.namespace, documents, session_key(request))
    is_single = bool(request.body.get("singleBatch"))
    reply = first_batch(request, cursor, limit or most if is_single else most, is_single=is_single)
    return request.at_moment(reply)


@command("count", fields="query limit skip hint collation fields")
def count(request: CommandRequest) -> dict[str, Any]:
    for name in ("query", "collation"):
        request.get(name, dict)
    timeless(request.body.get("query"))
    return {"n": request.collection_work().count(request.body)}


@command("distinct", fields="key query collation hint")
def distinct(request: CommandRequest) -> dict[str, Any]:
    for name in ("query", "collation"):
        request.get(name, dict)
    return request.at_moment({"values": request.collection_work().distinct(request.body)})


@command("listIndexes", fields="cursor includeIndexBuildInfo includeBuildUUIDs")
def list_indexes(request: CommandRequest) -> dict[str, Any]:
    found = request.collection_work().list_indexes()
    cursor = Results(request.namespace, iter(found), session_key(request))
    return first_batch(request, cursor, batch_size(request, None))


@command(
    "aggregate",
    fields="pipeline cursor explain allowDiskUse bypassDocumentValidation bypassEmptyTsReplacement collation hint let "
    "needsMerge fromMongos exchange isMapReduceCommand runtimeConstants collectionUUID querySettings",
)
def aggregate(request: CommandRequest) -> dict[str, Any]:
    pipeline = request.get("pipeline", list)
    if pipeline is None:
        raise MongoError(40414, "BSON field 'aggregate.pipeline' is missing but a required field")
    for stage in pipeline:
        if not isinstance(stage, dict):
            raise MongoError(14, "Each element of the 'pipeline' array must be an object")
        if len(stage) != 1:
            raise MongoError(40323, "A pipeline stage specification object must contain exactly one field.")
    hint = request.body.get("hint")
    if "hint" in request.body and not isinstance(hint, dict) and not is_text(hint):
        raise MongoError(9, f"Hint must be a string or an object, not {type_name(hint)}")
    if request.body.get("cursor") is None and not request.body.get("explain"):
        raise MongoError(9, "The 'cursor' option is required, except for aggregate with the explain argument")
    if request.get("explain", bool, False):
        return explained(request, "aggregate", request.body)
    if is_change_stream(pipeline):
        return opened_stream(request, pipeline)
    last = next(iter(pipeline[-1])) if pipeline else ""
    if last in ("$out", "$merge") and request.get("readConcern", dict, {}).get("level") == "linearizable":
        raise MongoError(72, f"{last} cannot be used with a 'linearizable' read concern level")
    is_of_database = request.value == 1 and not isinstance(request.value, bool)
    namespace = MongoNamespace(
        check_database_name(request.database), None if is_of_database else request.collection
    )
    documents = aggregated(
        request.spaces(),
        namespace,
        pipeline,
        variables=request.get("let", dict),
        collation=request.get("collation", dict),
        transaction=request.transaction,
        bypasses=bool(request.get("bypassDocumentValidation", bool, False)),
    )
    name = f"{namespace.db}.$cmd.aggregate" if is_of_database else str(namespace)
    return request.at_moment(
        first_batch(request, Results(name, documents, session_key(request)), batch_size(request))
    )
