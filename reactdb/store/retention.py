"""Retention: how much history is kept, and how the rest is removed.

The low-water mark L is the oldest position from which the log can be read. Raising it to L' may remove, of the entries at or
below L', those that are superseded at or below L'. So these always stay: every entry past L', every live document, and the
old value of every change past L' (its `prev`). A deletion at or below L' goes, and its grave with it.

The work is proportional to the changes between L and L', not to the file.

L is not raised past what an open feed of this process has still to read, up to MOST_HELD_CHANGES: who removes asks
`CommitListener.lowest_needed` before. Nobody here knows of the feeds of other processes.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import NamedTuple

from reactdb.errors import InvalidOption
from reactdb.store.epochs import remove_epochs
from reactdb.store.file.sqlite import Connection
from reactdb.store.schema import BLOCK_BITS, fact, seal_catalogue, set_fact
from reactdb.store.snapshot import head_seq, low_water
from reactdb.store.transaction import remove_dropped

# Changes that one write transaction removes: about 10 ms of work, so that a writer who waits does not notice.
CHUNK_CHANGES = 5_000
# Changes that removal leaves, beyond what was asked for, to the feeds of this process that have still to read them. A reader
# that was forgotten must not fill the disk: a million changes of ordinary documents are some 300 MB.
MOST_HELD_CHANGES = 1_000_000


class Retention(NamedTuple):
    """What history to keep: the newest `changes`, and those younger than `age_ms`; None: no bound. Both must allow removal."""

    changes: int | None = None
    age_ms: int | None = None

    @classmethod
    def of(cls, value: object, name: str = "retention") -> Retention | None:
        """From what `connect(retention=)` and `compact(keep=)` take: None, a number of changes, a timedelta, or a Retention.
        `name` is what the caller calls it.

        Raises:
            InvalidOption: Something else, or a negative one.
        """
        if value is None or isinstance(value, Retention):
            return value
        if isinstance(value, timedelta):
            if value < timedelta():
                raise InvalidOption(f"{name} of {value} is negative")
            return cls(age_ms=int(value.total_seconds() * 1000))
        if isinstance(value, int) and not isinstance(value, bool):
            if value < 0:
                raise InvalidOption(f"{name} of {value} changes is negative")
            return cls(changes=value)
        raise InvalidOption(f"{name} is a number of changes or a timedelta, not {type(value).__name__}")

    def target(self, connection: Connection) -> int:
        """The low-water mark that this retention asks for now: never below the present one, never past the head."""
        head, low = head_seq(connection), low_water(connection)
        target = head
        if self.changes is not None:
            target = min(target, head - self.changes)
        if self.age_ms is not None:
            target = min(
                target, newest_older_than(connection, low, head, time.time_ns() // 1_000_000 - self.age_ms)
            )
        return max(target, low)


def newest_older_than(connection: Connection, low: int, head: int, time_ms: int) -> int:
    """The newest seq in low..head that was written at or before `time_ms`; `low` where there is none.

    By bisection: times never go back along the log, and a seq that compaction removed stands for the next one left.
    """
    while low < head:
        middle = (low + head + 1) // 2
        row = connection.execute(
            "SELECT seq, time FROM log WHERE seq >= ? AND seq <= ? LIMIT 1", (middle, head)
        ).fetchone()
        if row is not None and row[1] <= time_ms:
            low = max(middle, int(row[0]))
        else:
            head = middle - 1
    return low


class Compacted:
    """What a compaction removed, and the position from which the log can be read since."""

    __slots__ = ("entries", "oldest", "tables")

    def __init__(self, entries: int = 0, tables: int = 0, oldest: int = 0) -> None:
        self.entries = entries
        self.tables = tables
        self.oldest = oldest


def compact_step(connection: Connection, target: int, most: int = CHUNK_CHANGES) -> tuple[bool, Compacted]:
    """Raise the low-water mark towards `target` by at most `most` changes, inside the caller's transaction.

    Returns:
        (whether more is left to do, what was removed).
    """
    low = low_water(connection)
    goal = min(target, low + most)
    removed = Compacted(oldest=max(goal, low))
    if goal > low:
        window = (low, goal)
        removed.entries += connection.execute(
            "DELETE FROM log WHERE seq IN (SELECT prev FROM log WHERE seq > ? AND seq <= ? AND prev IS NOT NULL)",
            window,
        ).rowcount
        # body IS NULL: a deletion. Its grave is there unless the key came back, and then points to another entry.
        connection.execute(
            "DELETE FROM graves WHERE (table_id, key) IN"
            " (SELECT table_id, key FROM log WHERE seq > ?1 AND seq <= ?2 AND body IS NULL) AND seq <= ?2",
            window,
        )
        removed.entries += connection.execute(
            "DELETE FROM log WHERE seq > ? AND seq <= ? AND body IS NULL", window
        ).rowcount
        # Marks serve reads past the low-water mark only.
        connection.execute(
            "DELETE FROM marks WHERE block < ? AND table_id IN (SELECT id FROM tables)", (goal >> BLOCK_BITS,)
        )
        set_fact(connection, "low_water", goal)
        remove_epochs(connection, goal)
    dropped = [
        row[0]
        for row in connection.execute(
            "SELECT id FROM tables WHERE dropped IS NOT NULL AND dropped <= ?", (goal,)
        ).fetchall()
    ]
    if dropped:
        before = connection.total_changes
        remove_dropped(connection, dropped)
        removed.entries += connection.total_changes - before
        removed.tables = len(dropped)
        set_fact(connection, "catalogue", int(fact(connection, "catalogue")) + 1)
    if goal > low or dropped:
        seal_catalogue(connection)
    return goal < target, removed
