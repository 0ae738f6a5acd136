"""Change streams: an `aggregate` that begins with `$changeStream`. `getMore` goes on with it, in `continuing`.

Rule of this file: from the command to the stream. What a stream does, and which options there are, is in `streams`.
"""

from __future__ import annotations

from typing import Any

from reactdb.dialects.mongodb.commands.continuing import batch_size
from reactdb.dialects.mongodb.commands.cursors import Events
from reactdb.dialects.mongodb.commands.requests import CommandRequest
from reactdb.dialects.mongodb.commands.sessions import session_key
from reactdb.dialects.mongodb.errors import MongoError

__all__ = ["is_change_stream", "opened_stream"]


def is_change_stream(pipeline: list[dict[str, Any]]) -> bool:
    """Whether a pipeline opens a change stream."""
    return bool(pipeline) and "$changeStream" in pipeline[0]


def opened_stream(request: CommandRequest, pipeline: list[dict[str, Any]]) -> dict[str, Any]:
    """The answer to the aggregate: what has happened since the moment at which it starts, or nothing."""
    check_concern(request)
    raise NotImplementedError


def check_concern(request: CommandRequest) -> None:
    concern = request.get("readConcern", dict, {})
    if concern.get("level", "majority") != "majority":
        raise MongoError(
            72, f"$changeStream cannot run with a readConcern level of {concern['level']}: it is majority"
        )
