"""Points: cluster times and tokens as positions in the log, and back.

The cluster time of a commit is the second of its creation and the seq of its first change, modulo 2**32. Neither goes back along
the log, so cluster times sort like commits. The point after the change `seq` has that change's second and `seq + 1`: it is above
all commits up to that change, and below all later commits.

Rule of this file: a point leads to a position from which all changes at or after it can be read, or it is refused.
"""

from __future__ import annotations

from reactdb.change import Change
from reactdb.clock import time_ns
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.tokens import INCREMENTS, Token, TokenOrigin, mark
from reactdb.store.engine import Engine
from reactdb.store.epochs import end_of
from reactdb.store.log import read_time_at
from reactdb.store.snapshot import Snapshot
from reactdb.store.writer import OwnCommit

MOST_SECONDS = 2**32 - 1

ClusterTime = tuple[int, int]
"""Seconds and increment."""


def cluster_time(change: Change | OwnCommit) -> ClusterTime:
    """The cluster time of a change's commit."""
    return seconds_of(change.time), change.commit % INCREMENTS


def seconds_of(time_ms: int) -> int:
    """Seconds since 1970, as in a timestamp of BSON: up to the year 2106, also under a wrong clock. All later times have this
    maximum, and their commits differ in the increment."""
    return min(time_ms // 1_000, MOST_SECONDS)


def origin_at(engine: Engine, snapshot: Snapshot, seq: int) -> TokenOrigin:
    """The history of the change `seq`. It stays the same after later writes."""
    position = max(seq - 1, 0)
    # In memory no epoch begins after the first.
    known = engine.epochs.last_known(position) if engine.is_memory else None
    return TokenOrigin(engine.database_id, known or engine.epochs.at(snapshot.connection, position))


def mark_after(engine: Engine, snapshot: Snapshot, seq: int) -> Token:
    """The high-water mark of the point after the change `seq`."""
    return mark(seconds_of(read_time_at(snapshot.connection, seq)), seq + 1, origin_at(engine, snapshot, seq))


def position_before(snapshot: Snapshot, point: ClusterTime) -> int:
    """The position from which all changes at or after a cluster time can be read. For a future time it is the newest change.

    Raises:
        MongoError: 286, some of them were compacted away.
    """
    head, low, _ = snapshot.end()

    def is_before(seq: int) -> bool:
        entry = snapshot.entry(seq)
        return entry is not None and cluster_time(entry) < point

    # A point of an earlier reply leads to its commit.
    near = head + 1 - (head + 1 - point[1]) % INCREMENTS - 1
    if near == low and (near == head or not is_before(near + 1)):
        return near
    if low < near <= head and is_before(near) and (near == head or not is_before(near + 1)):
        return near
    first, last = low, head
    while first < last:
        middle = (first + last + 1) // 2
        if is_before(middle):
            first = middle
        else:
            last = middle - 1
    if (
        first == low
        and low
        and not (
            first == head and (is_before(head) or point > (_newest_second(snapshot, head), head % INCREMENTS))
        )
    ):
        raise history_lost()
    return first


def _newest_second(snapshot: Snapshot, head: int) -> int:
    """The second of the newest change; if it was compacted away, the present second, because no change is later."""
    if snapshot.entry(head) is None and head:
        return time_ns() // 1_000_000_000
    return seconds_of(read_time_at(snapshot.connection, head))


def position_of_event(snapshot: Snapshot, token: Token) -> tuple[int, bool]:
    """The position from which an event can be found again, and whether to look for it there: the event of the oldest position may
    have been compacted away without any later change.

    Raises:
        MongoError: 286, changes after the event were compacted away.
    """
    head, low, _ = snapshot.end()
    if token.seconds > _newest_second(snapshot, head):
        return head, True
    first = head + 1 - (head + 1 - token.increment) % INCREMENTS
    seq = first + token.step
    if seq == low:
        return low, False
    if first <= low < seq:
        # The first part of the commit was compacted away.
        entry = snapshot.entry(seq)
        if entry is not None and cluster_time(entry) == (token.seconds, token.increment):
            return seq - 1, True
    return position_before(snapshot, (token.seconds, token.increment)), True


def position_at(snapshot: Snapshot, token: Token) -> int:
    """The position of the change of a token's event; without such a change, the position before it."""
    head, _, _ = snapshot.end()
    seq = head + 1 - (head + 1 - token.increment) % INCREMENTS + token.step
    entry = snapshot.entry(seq) if seq <= head else None
    if entry is not None and cluster_time(entry) == (token.seconds, token.increment):
        return seq
    return position_before(snapshot, (token.seconds, token.increment))


def check_origin(engine: Engine, snapshot: Snapshot, token: Token) -> None:
    """
    Raises:
        MongoError: 280, the token is of another file, or of a stretch of history that this file has lost.
    """
    database_id, epoch = token.origin
    if database_id != engine.database_id:
        raise not_found("it is of another database")
    is_known, end = end_of(snapshot.connection, epoch)
    # A history that ended before the log begins was removed with its changes; then the position is too old in any case.
    seq = token.increment + token.step - (0 if token.is_event else 1)
    if is_known and end is not None and seq > end:
        raise not_found(f"its history went on from seq {end} without it")


def not_found(why: str) -> MongoError:
    return MongoError(280, f"cannot resume stream; the resume token was not found: {why}")


def history_lost() -> MongoError:
    return MongoError(
        286,
        "Resume of change stream was not possible, as the resume point may no longer be in the log: its history was compacted "
        "away. Read the documents anew, and open a stream without a token",
    )
