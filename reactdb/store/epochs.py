"""Epochs: the stretches of a file's history, each begun by a process that began to write.

A position in the log means something together with the epoch that it was handed out in: where a future was lost, another epoch
begins before it, and positions of that future are told apart from those that are written over it.

Rule of this file: it reads the list. Who begins an epoch is the writer's business.
"""

from __future__ import annotations

from typing import NamedTuple

from reactdb.store.sqlite import Connection


class Epoch(NamedTuple):
    """One stretch: it begins after the change `since`."""

    name: str
    since: int


def epochs(connection: Connection) -> list[Epoch]:
    """All of them, in the order in which they began. Several may begin at one seq; all but the last then have no change."""
    rows = connection.execute("SELECT epoch, since FROM epochs ORDER BY position").fetchall()
    return [Epoch(str(name), int(since)) for name, since in rows]
