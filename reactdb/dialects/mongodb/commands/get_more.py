"""Commands about cursors: `getMore`, which may wait for events, and `killCursors`; and the first batch of every cursor.

    first_batch(request, cursor, most)      the reply of a command with a cursor, which stays open if there is more

Rule of this file: batches. A cursor is made by its own command.
"""

from __future__ import annotations

from typing import Any

from bson import Int64

from reactdb.clock import monotonic
from reactdb.dialects.mongodb.bson_order import INTEGERS, type_name
from reactdb.dialects.mongodb.collection import count_of
from reactdb.dialects.mongodb.command_fields import FIRST_BATCH
from reactdb.dialects.mongodb.commands.cursors import (
    AwaitingCursor,
    ChangeStreamCursor,
    OpenCursor,
    Results,
)
from reactdb.dialects.mongodb.commands.deployment import Deployment
from reactdb.dialects.mongodb.commands.requests import AwaitedReply, CommandRequest, limit_duration
from reactdb.dialects.mongodb.commands.sessions import session_key
from reactdb.dialects.mongodb.commands.table import always, command
from reactdb.dialects.mongodb.errors import MongoError

__all__ = ["batch_size", "first_batch", "size_of"]

AWAIT_S = 1.0
"""The default wait of a getMore for events."""
RESUMABLE = frozenset(
    (
        *(6, 7, 63, 89, 91, 133, 150, 189, 234, 262, 317, 358, 384, 402, 406, 407, 412, 453, 462),
        *(9001, 10107, 11600, 11602, 13388, 13435, 13436),
    )
)
"""The codes after which a change stream may be resumed, from the drivers' specification and newer servers."""


def batch_size(request: CommandRequest, default: int | None = FIRST_BATCH) -> int | None:
    """`cursor.batchSize` of an aggregate or a list.

    Raises:
        MongoError.
    """
    return size_of(request.body.get("cursor", {}), default)


def size_of(cursor: Any, default: int | None = FIRST_BATCH) -> int | None:
    """The same of the field `cursor` itself."""
    if not isinstance(cursor, dict):
        raise MongoError(14, "cursor field must be missing or an object")
    unknown = next((name for name in cursor if name != "batchSize"), None)
    if unknown is not None:
        raise MongoError(40415, f"BSON field 'cursor.{unknown}' is an unknown field.")
    return count_of("cursor.batchSize", cursor.get("batchSize"), default)


def first_batch(
    request: CommandRequest, cursor: Results, most: int | None, *, is_single: bool = False
) -> dict[str, Any]:
    """The reply of a command with a new cursor. It stays open if there is more."""
    begun = monotonic()
    batch = cursor.batch(most)
    most_ms = request.most_ms()
    if most_ms:
        cursor.left_s = most_ms / 1_000 - (monotonic() - begun)
    if not cursor.is_read and batch and most is not None and len(batch) >= most:
        # The cursor number 0 means that there is no more, and saves the driver a request.
        cursor.look_ahead()
    if cursor.is_read or is_single:
        cursor.let_go()
    else:
        cursor.transaction = request.transaction
        request.deployment.cursors.open(cursor, request.client)
    return {"cursor": {"firstBatch": batch, "id": cursor.id, "ns": cursor.namespace}}


def is_quick(body: dict[str, Any], deployment: Deployment) -> bool:
    number = body.get("getMore")
    cursor = deployment.cursors.find(number) if isinstance(number, int) else None
    return cursor is None or cursor.is_tailing


@command("getMore", fields="collection batchSize term lastKnownCommittedOpTime", quick=is_quick)
def get_more(request: CommandRequest) -> dict[str, Any] | AwaitedReply:
    number = request.value
    if number is None:
        raise MongoError(40414, "BSON field 'getMore.getMore' is missing but a required field")
    for name, value in (("getMore", number), ("term", request.body.get("term"))):
        if value is not None and type_name(value) not in INTEGERS:
            raise MongoError(
                14,
                f"BSON field 'getMore.{name}' is the wrong type '{type_name(value)}', expected type 'long'",
            )
    collection = request.get("collection", str)
    if collection is None:
        raise MongoError(40414, "BSON field 'getMore.collection' is missing but a required field")
    most = count_of("batchSize", request.body.get("batchSize")) or None
    cursors = request.deployment.cursors
    open_cursor = cursors.find(number)
    namespace = f"{request.database}.{collection}"
    if open_cursor is not None and open_cursor.namespace != namespace:
        raise MongoError(
            13,
            f"Requested getMore on namespace '{namespace}', but cursor belongs to a different namespace {open_cursor.namespace}",
        )
    if (
        open_cursor is not None
        and request.body.get("maxTimeMS") is not None
        and not getattr(open_cursor, "is_awaiting", False)
    ):
        raise MongoError(2, "cannot set maxTimeMS on getMore command for a non-awaitData cursor")
    cursor = cursors.take(number, session_key(request), request.transaction)
    try:
        fail_after_checkout(request, cursor)
    except MongoError:
        cursors.give_back(cursor, is_over=True)
        raise
    if isinstance(cursor, AwaitingCursor):
        return continue_tail(request, cursor, most)
    assert isinstance(cursor, Results)
    return continue_results(request, cursor, most)


def continue_results(request: CommandRequest, cursor: Results, most: int | None) -> dict[str, Any]:
    is_over = True
    begun = monotonic()
    try:
        if cursor.left_s is not None:
            limit_duration(request, cursor.left_s)
        batch = cursor.batch(most)
        if not cursor.is_read and most is not None and len(batch) >= most:
            cursor.look_ahead()
        is_over = cursor.is_read
        return {
            "cursor": {"nextBatch": batch, "id": Int64(0) if is_over else cursor.id, "ns": cursor.namespace}
        }
    finally:
        if cursor.left_s is not None:
            cursor.left_s -= monotonic() - begun
        request.deployment.cursors.give_back(cursor, is_over=is_over)


def fail_after_checkout(request: CommandRequest, cursor: OpenCursor) -> None:
    """The fail point of change streams. Its errors get a server's label."""
    ordered = request.deployment.fail_points.find_order(
        "failGetMoreAfterCursorCheckout", None, request.client.app_name
    )
    if ordered is None:
        return
    code = int(ordered.get("errorCode", 1))
    labels = (
        ["ResumableChangeStreamError"] if isinstance(cursor, ChangeStreamCursor) and code in RESUMABLE else []
    )
    raise MongoError(code, "Failing getMore via 'failGetMoreAfterCursorCheckout' failpoint", labels=labels)


class AwaitedBatch(AwaitedReply):
    """A waiting getMore: its reply is ready as soon as there are events, or when its time is over."""

    def __init__(
        self, request: CommandRequest, cursor: AwaitingCursor, seconds: float, most: int | None
    ) -> None:
        super().__init__(seconds)
        self._cursor = cursor
        self._cursors = request.deployment.cursors
        self._most = most
        self._is_done = False
        cursor.on_killed = request.client.wake
        cursor.on_ready(request.client.wake)

    def ready(self) -> dict[str, Any] | None:
        is_over = True
        try:
            if self._cursor.is_killed:
                raise MongoError(237, "operation was interrupted because the cursor was killed")
            reply = self._cursor.next_batch(self._most)
            if reply is None:
                is_over = False
                if not self.is_over:
                    return None
                reply = self._cursor.quiet_batch()
            is_over = self._cursor.is_closed
            self._end(is_over=is_over)
            return reply
        except BaseException:
            self._end(is_over=True)
            raise

    def cancel(self) -> None:
        self._end(is_over=False)

    def _end(self, *, is_over: bool) -> None:
        if not self._is_done:
            self._is_done = True
            self._cursor.on_ready(None)
            self._cursors.give_back(self._cursor, is_over=is_over)


def continue_tail(
    request: CommandRequest, cursor: AwaitingCursor, most: int | None
) -> dict[str, Any] | AwaitedReply:
    """The next batch: at once if there are documents, or if the cursor does not await data."""
    most_ms = request.most_ms()
    seconds = AWAIT_S if most_ms is None else most_ms / 1000
    if not cursor.is_awaiting:
        seconds = 0.0
    waiting = AwaitedBatch(request, cursor, seconds, most)
    reply = waiting.ready()
    return waiting if reply is None else reply


@command("killCursors", fields="cursors", quick=always)
def kill_cursors(request: CommandRequest) -> dict[str, Any]:
    numbers = request.get("cursors", list)
    if numbers is None:
        raise MongoError(40414, "BSON field 'killCursors.cursors' is missing but a required field")
    wanted = [number for number in numbers if number is not None]
    for number in wanted:
        if type_name(number) not in INTEGERS:
            raise MongoError(
                14,
                f"BSON field 'killCursors.cursors' has an element of type '{type_name(number)}', expected type 'long'",
            )
    assert request.collection
    return request.deployment.cursors.kill(wanted)
