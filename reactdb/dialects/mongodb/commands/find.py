"""Commands that read documents.

Rule of this file: the fields of the commands, and their batches. `collection` does the reads.
"""

from __future__ import annotations

from typing import Any, Final

from reactdb.dialects.mongodb.bson_order import is_text, type_name
from reactdb.dialects.mongodb.clock import refuse_cluster_time
from reactdb.dialects.mongodb.command_fields import FIRST_BATCH
from reactdb.dialects.mongodb.commands.change_streams import is_change_stream, open_stream
from reactdb.dialects.mongodb.commands.cursors import Results
from reactdb.dialects.mongodb.commands.deployment import Deployment
from reactdb.dialects.mongodb.commands.get_more import batch_size, first_batch
from reactdb.dialects.mongodb.commands.plans import explain_command
from reactdb.dialects.mongodb.commands.requests import CommandRequest
from reactdb.dialects.mongodb.commands.sessions import session_key
from reactdb.dialects.mongodb.commands.table import command
from reactdb.dialects.mongodb.commands.tailable_cursors import start_tail
from reactdb.dialects.mongodb.commands.writes import is_about_key
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.names import MongoNamespace, check_database_name
from reactdb.dialects.mongodb.numeric import as_float, is_number
from reactdb.dialects.mongodb.pipeline_result import aggregate as aggregated
from reactdb.dialects.mongodb.pipeline_result import check_pipeline
from reactdb.dialects.mongodb.tailable import check_tailable


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
    if request.body.get("filter", {}) is None:
        raise MongoError(14, "BSON field 'find.filter' is the wrong type 'null', expected type 'object'")
    if check_tailable(request.body):
        return start_tail(request)
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
    check_hint(request)
    if request.body.get("limit", 0) is None:
        raise MongoError(2, "limit value is not a valid number")
    refuse_cluster_time(request.body.get("query"))
    return {"n": request.collection_work().count(request.body)}


@command("distinct", fields="key query collation hint")
def distinct(request: CommandRequest) -> dict[str, Any]:
    for name in ("query", "collation"):
        request.get(name, dict)
    check_hint(request)
    return request.at_moment({"values": request.collection_work().distinct(request.body)})


@command("listIndexes", fields="cursor includeIndexBuildInfo includeBuildUUIDs")
def list_indexes(request: CommandRequest) -> dict[str, Any]:
    has_details, has_uuids = request.flag("includeIndexBuildInfo"), request.flag("includeBuildUUIDs")
    if has_details and has_uuids:
        raise MongoError(72, "includeIndexBuildInfo and includeBuildUUIDs cannot both be true")
    indexes = request.collection_work().list_indexes()
    if has_details:
        indexes = [{"spec": one} for one in indexes]
    cursor = Results(request.namespace, iter(indexes), session_key(request))
    return first_batch(request, cursor, batch_size(request, None))


@command(
    "aggregate",
    fields="pipeline cursor explain allowDiskUse bypassDocumentValidation bypassEmptyTsReplacement collation hint let "
    "needsMerge fromMongos exchange isMapReduceCommand runtimeConstants querySettings",
)
def aggregate(request: CommandRequest) -> dict[str, Any]:
    pipeline = read_pipeline(request)
    check_hint(request)
    request.boolean("allowDiskUse")
    is_explained = request.boolean("explain")
    variables, collation = request.get("let", dict), request.get("collation", dict)
    bypasses = request.flag("bypassDocumentValidation")
    if "cursor" not in request.body and not is_explained:
        raise MongoError(9, "The 'cursor' option is required, except for aggregate with the explain argument")
    most = batch_size(request)
    if is_explained and "writeConcern" in request.body:
        raise MongoError(9, "Aggregation explain does not support the 'writeConcern' option")
    if is_explained and not is_change_stream(pipeline):
        check_pipeline(request.deployment.spaces, pipeline, variables=variables, collation=collation)
    if is_explained:
        return explain_command(request, "aggregate", request.body)
    if is_change_stream(pipeline):
        return open_stream(request, pipeline)
    check_stages(request, pipeline)
    is_of_database = is_whole_database(request.value)
    namespace = MongoNamespace(
        check_database_name(request.database), None if is_of_database else request.collection
    )
    documents = aggregated(
        request.spaces(),
        namespace,
        pipeline,
        variables=variables,
        collation=collation,
        transaction=request.transaction,
        bypasses=bypasses,
        hint=request.body.get("hint"),
    )
    name = f"{namespace.db}.$cmd.aggregate" if is_of_database else str(namespace)
    return request.at_moment(first_batch(request, Results(name, documents, session_key(request)), most))


def read_pipeline(request: CommandRequest) -> list[dict[str, Any]]:
    """The stages of an aggregate, each an object with one field."""
    if "pipeline" not in request.body:
        raise MongoError(40414, "BSON field 'aggregate.pipeline' is missing but a required field")
    return read_stages(request.body["pipeline"])


def read_stages(pipeline: Any) -> list[dict[str, Any]]:
    """The same of the field itself."""
    if not isinstance(pipeline, list):
        raise MongoError(
            14,
            f"BSON field 'aggregate.pipeline' is the wrong type '{type_name(pipeline)}', expected type 'array'",
        )
    for stage in pipeline:
        if not isinstance(stage, dict):
            raise MongoError(14, "Each element of the 'pipeline' array must be an object")
        if len(stage) != 1:
            raise MongoError(40323, "A pipeline stage specification object must contain exactly one field.")
    return pipeline


def check_hint(request: CommandRequest) -> None:
    """
    Raises:
        MongoError: 9, the hint is neither a text nor an object, and not even null.
    """
    check_hint_value(request.body.get("hint", {}))


def check_hint_value(hint: Any) -> None:
    """The same of the field itself."""
    if not isinstance(hint, dict) and not is_text(hint):
        raise MongoError(9, f"Hint must be a string or an object, not {type_name(hint)}")


def is_whole_database(value: Any) -> bool:
    """Whether an aggregate is about a database: 1, of any type.

    Raises:
        MongoError: 2, it is another number.
    """
    if not is_number(value):
        return False
    if as_float(value) != 1.0:
        raise MongoError(
            2, "Invalid command format: the 'aggregate' field must specify a collection name or 1"
        )
    return True


def check_stages(request: CommandRequest, pipeline: list[dict[str, Any]]) -> None:
    """Check the first and the last stage against the command's options for reads.

    Raises:
        MongoError: 72, they do not support these options; 263, not in a transaction.
    """
    if not pipeline:
        return
    names = [next(iter(stage)) for stage in pipeline]
    level = request.get("readConcern", dict, {}).get("level") or "local"
    if level == "linearizable" and names[-1] in ("$out", "$merge"):
        raise MongoError(72, f"{names[-1]} cannot be used with a 'linearizable' read concern level")
    if level != "local" and names[0] in _LOCAL_ONLY:
        raise MongoError(72, f"Aggregation stage {names[0]} cannot run with a readConcern other than 'local'")
    if request.transaction is not None:
        refused = next((name for name in names if name in _OUTSIDE), None)
        if refused is not None:
            raise MongoError(263, f"Operation not permitted in transaction :: {refused}")


_LOCAL_ONLY: Final = frozenset({"$currentOp", "$listLocalSessions", "$planCacheStats"})
_OUTSIDE: Final = _LOCAL_ONLY | {"$collStats", "$indexStats", "$listSessions", "$unionWith"}
