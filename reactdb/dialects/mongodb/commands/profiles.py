"""Profiles: what is to be told of commands, database by database, and where it is told.

    levels      0 nothing, 1 what takes long or what a query matches, 2 everything
    slow_ms, rate, filters
    side        where `system.profile` lies: a deployment of a database in memory

MongoDB does not replicate `system.profile`. So what it tells is not in the file here, no change stream has it, and it ends with
the server.

Rule of this file: it says whether a command is told of. What is told is in `profiling`.
"""

from __future__ import annotations

from random import random
from threading import Lock
from typing import Any

from reactdb.dialects.mongodb.filters import Filter

__all__ = ["Profiles"]


class Profiles:
    """Any thread.

    Attributes:
        are_offered: They can be asked for. In the process they cannot, where most of what is done is no command.
        slow_ms: Milliseconds from which on a command is slow.
        rate: The part of the slow ones that is told of.
        levels: By database; 0 for those that are missing.
        filters: What of a database is told of, in place of what is slow.
        side: The Deployment in which `system.profile` lies of all databases; None until something was to be told.
        lock: Held while the side is made.
    """

    def __init__(self, *, are_offered: bool) -> None:
        self.are_offered = are_offered
        self.slow_ms = 100
        self.rate = 1.0
        self.levels: dict[str, int] = {}
        self.filters: dict[str, Filter] = {}
        self.side: Any = None
        self.lock = Lock()

    def level(self, database: str) -> int:
        return self.levels.get(database, 0)

    def wants(self, database: str, entry: dict[str, Any]) -> bool:
        """Whether an entry is to be told."""
        level = self.level(database)
        if level != 1:
            return level == 2
        chosen = self.filters.get(database)
        if chosen is not None:
            return chosen.matches(entry)
        return entry["millis"] >= self.slow_ms and random() < self.rate

    def close(self) -> None:
        if self.side is not None:
            self.side.database.close()
            self.side = None
