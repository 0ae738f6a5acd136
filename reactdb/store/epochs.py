"""Epochs: the stretches of a file's history. A process begins a new epoch with its first commit.

A position in the log has a meaning only together with its epoch. After a power cut or a restored backup the newest
commits may be gone; then a new epoch begins before them. So a position among the lost commits differs from the same
position among the new ones.

Each epoch has a place in the list, `position`, one more than the epoch before. The index on (since, position) finds
the epoch of a position, and its successor, by one look-up.

Rule of this file: the list grows at its end, and compaction removes from its beginning. The writer decides when an
epoch begins.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from reactdb.errors import CorruptDatabase
from reactdb.store.file.sqlite import ADVICE, Connection
from reactdb.store.log import read_low_water

# Several epochs may begin at one seq; all but the last are then without changes.
EPOCH_OF = (
    "SELECT epoch, since, (SELECT max(since) FROM epochs) FROM epochs WHERE since <= ?"
    " ORDER BY since DESC, position DESC LIMIT 1"
)
OLDEST = "SELECT epoch, since FROM epochs ORDER BY since, position LIMIT 1"
NEWEST = "SELECT position FROM epochs ORDER BY since DESC, position DESC LIMIT 1"
NEXT = "SELECT since FROM epochs WHERE (since, position) > (?, ?) ORDER BY since, position LIMIT 1"
LAST_BEFORE = "SELECT since, position FROM epochs WHERE since < ? ORDER BY since DESC, position DESC LIMIT 1"


class Epoch(NamedTuple):
    """One stretch: it begins after the change `since`."""

    name: str
    since: int


class Epochs:
    """The epochs of one file, and the newest as last read.

    Thread safety: any thread. The cached value is replaced as a whole.
    """

    __slots__ = ("_newest",)

    def __init__(self) -> None:
        self._newest: Epoch | None = None

    def at(self, connection: Connection, seq: int) -> str:
        """The name of the newest epoch that has the position `seq`; the oldest name, where compaction has removed the position.

        Raises:
            CorruptDatabase: The list is empty or damaged.
        """
        row = connection.execute(EPOCH_OF, (seq,)).fetchone()
        if row is None:
            row = connection.execute(OLDEST).fetchone()
            if row is None or not isinstance(row[1], int):
                raise CorruptDatabase(f"the list of epochs has none for seq {seq}. {ADVICE}", seq=seq)
        elif row[1] == row[2]:
            self._newest = Epoch(*row[:2])
        return str(row[0])

    def note_epoch(self, epoch: Epoch) -> None:
        """Note the epoch that this process has begun, after its commit: it is the newest."""
        self._newest = epoch

    def last_known(self, seq: int) -> str | None:
        """`at`, where the file cannot be read any more; None where the epoch is not remembered."""
        newest = self._newest
        return newest.name if newest is not None and newest.since <= seq else None


def end_of(connection: Connection, name: str) -> tuple[bool, int | None]:
    """(whether the epoch is in the list, the seq after which the next epoch begins; None for the newest)."""
    row = connection.execute("SELECT since, position FROM epochs WHERE epoch = ?", (name,)).fetchone()
    if row is None:
        return False, None
    following = connection.execute(NEXT, row).fetchone()
    return True, None if following is None else int(following[0])


def read_epochs(connection: Connection) -> list[Epoch]:
    """All of them, in the order in which they began."""
    rows = connection.execute("SELECT epoch, since FROM epochs ORDER BY since, position").fetchall()
    return [Epoch(str(name), int(since)) for name, since in rows]


def start_epoch(connection: Connection, since: int) -> Epoch:
    """Begin a new epoch after the change `since`. Called inside a transaction.

    Raises:
        CorruptDatabase: The list is damaged.
    """
    epoch = Epoch(os.urandom(6).hex(), since)
    row = connection.execute(NEWEST).fetchone()
    if row is None:
        # A new file has an epoch, and compaction leaves the newest.
        raise CorruptDatabase(f"the list of epochs is empty. {ADVICE}")
    connection.execute("INSERT INTO epochs (epoch, since, position) VALUES (?, ?, ?)", (*epoch, row[0] + 1))
    return epoch


def has_epoch(connection: Connection, name: str) -> bool:
    """Whether it is in the list."""
    return connection.execute("SELECT 1 FROM epochs WHERE epoch = ?", (name,)).fetchone() is not None


def was_removed(connection: Connection, epoch: Epoch) -> bool:
    """Whether compaction may have removed an epoch that is missing from the list: then it has removed all earlier
    ones, too."""
    (oldest,) = connection.execute("SELECT min(since) FROM epochs").fetchone()
    return oldest is not None and epoch.since <= oldest and epoch.since < read_low_water(connection)


def remove_epochs(connection: Connection, low: int) -> None:
    """Remove the epochs that ended before the low-water mark: the log cannot be read from a position in them. Called
    inside a transaction."""
    last = connection.execute(LAST_BEFORE, (low,)).fetchone()
    if last is not None:
        # This epoch has the mark, or ends there.
        connection.execute("DELETE FROM epochs WHERE (since, position) < (?, ?)", last)
