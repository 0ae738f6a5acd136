"""Epochs: the stretches of a file's history. A process begins one with its first commit.

A position in the log has a meaning only together with the epoch that it was given out in. After a power cut or a restored backup
the newest commits may be gone; then another epoch begins before them, and a position among the lost commits can be told from the
same position among those that are written instead.

The table is ordered by name, so finding an epoch by its place takes a scan of all of them, and a file that is opened once a
minute has thousands. Format 2 has no index for that, and its doctor would report one as foreign. So each engine remembers the
newest part of the list, and makes sure with two small reads that it is still the newest.

Rule of this file: the list grows at its end, and compaction removes from its beginning. The writer decides when one begins.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from typing import NamedTuple

from reactdb.errors import CorruptDatabase
from reactdb.store.file.sqlite import ADVICE, Connection
from reactdb.store.snapshot import low_water

# The epochs from the one that has a position on, oldest first; all of them, where the position is before the first that is left.
FROM_POSITION = (
    "SELECT epoch, since FROM epochs"
    " WHERE since >= ifnull((SELECT max(since) FROM epochs WHERE since <= ?), 0) ORDER BY since, position"
)
# This differs after any change of the list: the count, where there is one more (SQLite counts in one step, by the pages), and the
# places of the others, where the oldest were removed.
STATE = "SELECT (SELECT count(*) FROM epochs), position FROM epochs WHERE epoch = ?"


class Epoch(NamedTuple):
    """One stretch: it begins after the change `since`."""

    name: str
    since: int


class Newest(NamedTuple):
    """All epochs of a file from one of them on, oldest first, and the list's `STATE` when they were read."""

    names: list[str]
    beginnings: list[int]
    state: tuple[int, int]


class Epochs:
    """The newest epochs of one file, as last seen.

    Thread safety: any thread. What is remembered is one value, which is replaced whole.
    """

    __slots__ = ("_newest",)

    def __init__(self) -> None:
        self._newest = Newest([], [], (0, 0))

    def at(self, connection: Connection, seq: int) -> str:
        """The name of the newest epoch that has the position `seq`; the oldest name, where compaction has removed the position.
        Called inside a read transaction.

        Raises:
            CorruptDatabase: The list is empty or damaged.
        """
        names, beginnings, _ = self._from(connection, seq)
        return names[max(0, bisect_right(beginnings, seq) - 1)]

    def end_of(self, connection: Connection, name: str) -> tuple[bool, int | None]:
        """(whether the epoch is in the list, the seq after which the next one begins; None where it is the newest)."""
        row = connection.execute("SELECT since FROM epochs WHERE epoch = ?", (name,)).fetchone()
        if row is None:
            return False, None
        names, beginnings, _ = self._from(connection, row[0])
        # Several may begin at one seq; all but the last then have no change. `begun` may have left out those before it.
        place = names.index(name) if name in names else -1
        return True, beginnings[place + 1] if place + 1 < len(names) else None

    def begun(self, epoch: Epoch, position: int) -> None:
        """This process has begun one, in a transaction that is committed: it is the newest."""
        self._newest = Newest([epoch.name], [epoch.since], (position, position))

    def last_known(self, seq: int) -> str | None:
        """`at`, where the file cannot be read any more; None where the epoch is not remembered."""
        names, beginnings, _ = self._newest
        place = bisect_right(beginnings, seq) - 1
        return names[place] if place >= 0 else None

    def _from(self, connection: Connection, seq: int) -> Newest:
        """The newest epochs, with the one that has the position `seq` among them."""
        newest = self._newest
        if (
            newest.names
            and newest.beginnings[0] <= seq
            and newest.state == connection.execute(STATE, newest.names[-1:]).fetchone()
        ):
            return newest
        rows = connection.execute(FROM_POSITION, (seq,)).fetchall()
        if not rows or not all(isinstance(since, int) for _, since in rows):
            raise CorruptDatabase(f"the list of epochs has none for seq {seq}. {ADVICE}", seq=seq)
        state = connection.execute(STATE, rows[-1][:1]).fetchone()
        self._newest = newest = Newest([name for name, _ in rows], [since for _, since in rows], state)
        return newest


def epochs(connection: Connection) -> list[Epoch]:
    """All of them, in the order in which they began."""
    rows = connection.execute("SELECT epoch, since FROM epochs ORDER BY since, position").fetchall()
    return [Epoch(str(name), int(since)) for name, since in rows]


def start_epoch(connection: Connection, since: int) -> tuple[Epoch, int]:
    """Begin another one after the change `since`. Returns: it, and its place in the list. Called inside a transaction.

    Raises:
        CorruptDatabase: The list is damaged.
    """
    epoch = Epoch(os.urandom(6).hex(), since)
    (count,) = connection.execute("SELECT count(*) FROM epochs").fetchone()
    if not count:
        # A new file has one, and compaction leaves the newest.
        raise CorruptDatabase(f"the list of epochs is empty. {ADVICE}")
    connection.execute("INSERT INTO epochs (epoch, since, position) VALUES (?, ?, ?)", (*epoch, count + 1))
    return epoch, count + 1


def has_epoch(connection: Connection, name: str) -> bool:
    """Whether it is in the list."""
    return connection.execute("SELECT 1 FROM epochs WHERE epoch = ?", (name,)).fetchone() is not None


def was_removed(connection: Connection, epoch: Epoch) -> bool:
    """Whether compaction may have removed an epoch that is not in the list: then it has removed all that began before it, too."""
    (oldest,) = connection.execute("SELECT min(since) FROM epochs").fetchone()
    return oldest is not None and epoch.since <= oldest and epoch.since < low_water(connection)


def remove_epochs(connection: Connection, low: int) -> None:
    """Remove those that ended before the low-water mark: the log cannot be read from a position in them. Called inside a
    transaction.

    Those that stay are numbered from 1 again, as every reader of the format expects. So it is done when at least a quarter of
    the list can go, which makes it cheap for each that goes.
    """
    below, last, count = connection.execute(
        "SELECT count(*), max(position), (SELECT count(*) FROM epochs) FROM epochs WHERE since < ?", (low,)
    ).fetchone()
    # The last that began below the mark has it, or ends there.
    if below < 2 or 4 * (below - 1) < count:
        return
    removed = connection.execute("DELETE FROM epochs WHERE since < ? AND position < ?", (low, last)).rowcount
    connection.execute("UPDATE epochs SET position = position - ?", (removed,))
