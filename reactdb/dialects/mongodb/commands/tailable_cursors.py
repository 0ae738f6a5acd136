"""Tailable cursors: a find of a capped collection whose getMore returns later inserts.

Rule of this file: a find and its cursor. `tailable`, beside this package, does the reads.
"""

from __future__ import annotations

from typing import Any

from bson.int64 import Int64

from reactdb.dialects.mongodb.command_fields import FIRST_BATCH
from reactdb.dialects.mongodb.commands.cursors import TailableCursor
from reactdb.dialects.mongodb.commands.requests import CommandRequest
from reactdb.dialects.mongodb.commands.sessions import session_key
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.tailable import open_tail

__all__ = ["start_tail"]


def start_tail(request: CommandRequest) -> dict[str, Any]:
    """The reply to a tailable find. A collection without documents has nothing to tail, as in MongoDB."""
    if request.transaction is not None:
        raise MongoError(263, "Tailable cursors are not allowed in transactions.")
    tail = open_tail(
        request.spaces(), request.mongo_namespace(), request.body, request.get("collation", dict)
    )
    if tail is None:
        return {"cursor": {"firstBatch": [], "id": Int64(0), "ns": request.namespace}}
    deployment = request.deployment
    cursor = TailableCursor(
        request.namespace,
        tail,
        deployment.streams.wakers,
        session_key(request),
        is_awaiting=bool(request.body.get("awaitData")),
    )
    deployment.cursors.open(cursor, request.client)
    is_over = True
    try:
        reply = cursor.first_batch(request.number("batchSize", FIRST_BATCH))
        is_over = cursor.is_closed
        return reply
    finally:
        deployment.cursors.give_back(cursor, is_over=is_over)
