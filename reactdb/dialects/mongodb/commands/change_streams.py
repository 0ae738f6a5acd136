"""Change streams: an `aggregate` with `$changeStream` as its first stage. `getMore` in `get_more` continues it.

Rule of this file: from the command to the stream. The stream and its options are in `streams`.
"""

from __future__ import annotations

from typing import Any

from reactdb.dialects.mongodb.bson_order import is_text
from reactdb.dialects.mongodb.collation import simple
from reactdb.dialects.mongodb.commands.cursors import ChangeStreamCursor
from reactdb.dialects.mongodb.commands.get_more import batch_size
from reactdb.dialects.mongodb.commands.requests import CommandRequest
from reactdb.dialects.mongodb.commands.sessions import session_key
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.names import MongoNamespace, check_database_name
from reactdb.dialects.mongodb.scopes import StreamScope

__all__ = ["is_change_stream", "open_stream"]


def is_change_stream(pipeline: list[dict[str, Any]]) -> bool:
    """Whether a pipeline opens a change stream."""
    return bool(pipeline) and "$changeStream" in pipeline[0]


def open_stream(request: CommandRequest, pipeline: list[dict[str, Any]]) -> dict[str, Any]:
    """The reply to the aggregate: the events since its starting point, if there are any."""
    check_concern(request)
    if request.transaction is not None:
        raise MongoError(263, "Operation not permitted in transaction :: caused by :: $changeStream")
    is_of_collection = is_text(request.value)
    place = MongoNamespace(
        check_database_name(request.database), request.collection if is_of_collection else None
    )
    deployment = request.deployment
    stream = deployment.streams.open(
        StreamScope(place),
        pipeline,
        collation=simple(request.get("collation", dict)),
        let=request.get("let", dict),
    )
    cursor = ChangeStreamCursor(
        str(place) if is_of_collection else f"{place.db}.$cmd.aggregate", stream, session_key(request)
    )
    deployment.cursors.open(cursor, request.client)
    is_over = True
    try:
        reply = cursor.first_batch(batch_size(request))
        is_over = cursor.is_closed
        return reply
    finally:
        deployment.cursors.give_back(cursor, is_over=is_over)


def check_concern(request: CommandRequest) -> None:
    concern = request.get("readConcern", dict, {})
    if concern.get("level", "majority") != "majority":
        raise MongoError(
            72, f"$changeStream cannot run with a readConcern level of {concern['level']}: it is majority"
        )
