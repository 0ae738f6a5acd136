"""Positions: where a feed is in the log, as a seq within one process and as a token beyond it.

A token is `database id.epoch.seq`. Its holder may come back to another file, or to one whose newest commits were lost and written
over; both are found out, because a seq alone would silently mean something else.

Rule of this file: a position is good or refused, never guessed.
"""

from __future__ import annotations

from collections.abc import Sequence

from reactdb.errors import HistoryDiverged, HistoryLost, shown
from reactdb.feeds.bookmark import no_token, taken_apart
from reactdb.store.engine import Engine
from reactdb.store.epochs import Epoch, epochs
from reactdb.store.snapshot import Snapshot, low_water


def token_of(database_id: str, history: Sequence[Epoch], seq: int) -> str:
    """The position `seq`, to be kept beyond the process."""
    name = history[0].name
    for epoch in history:
        if epoch.since <= seq:
            name = epoch.name
    return f"{database_id}.{name}.{seq}"


def read_position(since: int | str, database_id: str, snapshot: Snapshot) -> int:
    """The seq that `since` names in this file; inside of initial values, the one that they are as of.

    Raises:
        InvalidOption: It is no token.
        HistoryDiverged: It is a position of another file, or of a future that this one does not have.
        HistoryLost: The changes past it were compacted away.
    """
    since, _ = taken_apart(since)
    seq = since if isinstance(since, int) else _read_token(since, database_id, epochs(snapshot.connection))
    head = snapshot.seq
    if seq > head:
        raise HistoryDiverged(
            f"there is no position {shown(seq)} in this history: its newest change has seq {head}"
        )
    oldest = low_water(snapshot.connection)
    if seq < oldest:
        raise HistoryLost(seq, oldest + 1)
    return seq


def _read_token(token: str, database_id: str, history: Sequence[Epoch]) -> int:
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
    if database != database_id:
        raise HistoryDiverged("this token is of another database")
    seq = int(number)
    for place, epoch in enumerate(history):
        if epoch.name == name:
            end = history[place + 1].since if place + 1 < len(history) else None
            if end is not None and seq > end:
                raise HistoryDiverged(
                    f"position {seq} was lost: this history went on from seq {end} without it"
                )
            return seq
    raise HistoryDiverged("this token is of a stretch of history that this file does not have")


class KnownEpochs:
    """The epochs of a file, as last seen where it is closed."""

    __slots__ = ("_engine", "_found")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._found: list[Epoch] = []

    def read(self) -> None:
        with self._engine.fresh_snapshot() as snapshot:
            self._found = epochs(snapshot.connection)

    def known(self) -> list[Epoch]:
        try:
            self.read()
        except Exception:
            if not self._found:
                raise
        return self._found
