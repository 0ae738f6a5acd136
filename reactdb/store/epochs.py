"""Epochs: the stretches of a file's history, each begun by a process that began to write.

A position in the log means something together with the epoch that it was handed out in: where a future was lost, another epoch
begins before it, and positions of that future are told apart from those that are written over it.

Rule of this file: the list is only added to. When an epoch begins is the writer's business.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from reactdb.errors import CorruptDatabase
from reactdb.store.sqlite import ADVICE, Connection


class Epoch(NamedTuple):
    """One stretch: it begins after the change `since`."""

    name: str
    since: int


def epochs(connection: Connection) -> list[Epoch]:
    """All of them, in the order in which they began. Several may begin at one seq; all but the last then have no change."""
    rows = connection.execute("SELECT epoch, since FROM epochs ORDER BY position").fetchall()
    return [Epoch(str(name), int(since)) for name, since in rows]


def epoch_at(connection: Connection, seq: int) -> str:
    """The name of the newest epoch that has the position `seq`."""
    row = connection.execute(
        "SELECT epoch FROM epochs WHERE since <= ? ORDER BY position DESC LIMIT 1", (seq,)
    ).fetchone()
    if row is None:
        raise CorruptDatabase(f"the list of epochs has none for seq {seq}. {ADVICE}", seq=seq)
    return str(row[0])


def start_epoch(connection: Connection, since: int) -> str:
    """Begin another one after the change `since`, and its name. A process does, before its first commit and as a part of it.

    Raises:
        CorruptDatabase: The list is damaged.
    """
    name = os.urandom(6).hex()
    (position,) = connection.execute("SELECT max(position) FROM epochs").fetchone()
    if not isinstance(position, int):
        # There is one from the beginning.
        raise CorruptDatabase(f"the newest epoch is number {position}. {ADVICE}")
    connection.execute(
        "INSERT INTO epochs (epoch, since, position) VALUES (?, ?, ?)", (name, since, position + 1)
    )
    return name


def has_epoch(connection: Connection, name: str) -> bool:
    """Whether it was begun in this history."""
    return connection.execute("SELECT 1 FROM epochs WHERE epoch = ?", (name,)).fetchone() is not None


def end_of_epoch(connection: Connection, name: str) -> tuple[bool, int | None]:
    """(whether the epoch was begun in this history, the seq after which the next one begins; None of the newest)."""
    row = connection.execute("SELECT position FROM epochs WHERE epoch = ?", (name,)).fetchone()
    if row is None:
        return False, None
    # They begin one after the other.
    (end,) = connection.execute("SELECT min(since) FROM epochs WHERE position > ?", row).fetchone()
    return True, end
