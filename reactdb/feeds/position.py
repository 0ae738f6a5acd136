"""Positions: where a feed is in the log, as a seq within one process and as a token beyond it.

A token is `database id.epoch.seq`. Its holder may come back to another file, or to one whose newest commits were lost and written
over; both are found out, because a seq alone would silently mean something else.

Rule of this file: a position is good or refused, never guessed.
"""

from __future__ import annotations

from reactdb.errors import HistoryDiverged, HistoryLost, shown
from reactdb.feeds.bookmark import no_token, taken_apart
from reactdb.store.engine import Engine
from reactdb.store.snapshot import Snapshot, low_water


def read_position(since: int | str, engine: Engine, snapshot: Snapshot) -> int:
    """The seq that `since` names in this file; inside of initial values, the one that they are as of.

    Raises:
        InvalidOption: It is no token.
        HistoryDiverged: It is a position of another file, or of a future that this one does not have.
        HistoryLost: The changes past it were compacted away.
    """
    since, _ = taken_apart(since)
    oldest = low_water(snapshot.connection)
    seq = since if isinstance(since, int) else _read_token(since, engine, snapshot, oldest)
    head = snapshot.seq
    if seq > head:
        raise HistoryDiverged(
            f"there is no position {shown(seq)} in this history: its newest change has seq {head}"
        )
    if seq < oldest:
        raise HistoryLost(seq, oldest + 1)
    return seq


def _read_token(token: str, engine: Engine, snapshot: Snapshot, oldest: int) -> int:
    parts = token.split(".")
    # No seq has more than 19 digits, and Python converts no more than some thousand of them.
    if (
        len(parts) != 3
        or not all(parts)
        or not parts[2].isascii()
        or not parts[2].isdecimal()
        or len(parts[2]) > 19
    ):
        raise no_token(token)
    database, name, number = parts
    if database != engine.database_id:
        raise HistoryDiverged("this token is of another database")
    seq = int(number)
    is_known, end = engine.epochs.end_of(snapshot.connection, name)
    # An epoch that ended before the log begins has been removed with its changes, and the position is too old in any case.
    if not is_known and seq >= oldest:
        raise HistoryDiverged("this token is of a stretch of history that this file does not have")
    if end is not None and seq > end:
        raise HistoryDiverged(f"position {seq} was lost: this history went on from seq {end} without it")
    return seq
