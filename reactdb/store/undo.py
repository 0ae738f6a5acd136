"""Undo: the changes to revert to get from the present to an earlier seq.

Rule of this file: it takes changes and returns bytes; it reads nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Protocol

from reactdb.change import TABLE_RENAME, Change


class Reversal(Protocol):
    """How a view of the past learns the differences to the present: from changes in memory (`Undo`), or from the log when it
    needs them (`later_changes`, `old_versions`)."""

    def names(self, seq: int) -> dict[int, str]:
        """For each table that was renamed after `seq`, its name at `seq`, by its number."""

    def old(self, table_id: int, seq: int) -> dict[bytes, bytes | None]:
        """For each key that changed after `seq`, its document at `seq` (None: it was not there)."""

    def one(self, table_id: int, key: bytes, seq: int) -> tuple[bool, bytes | None]:
        """(whether the key changed after `seq`, its document at `seq` where it did)."""


class Undo:
    """The changes after a seq, by table and key, to revert them.

    Made once from the log, and then usable for any seq at or after its own.
    """

    def __init__(self, since: int, changes: Iterable[Change]) -> None:
        self.since = since
        self._steps: dict[int, dict[bytes, list[tuple[int, bytes | None]]]] = {}
        self.until = since
        # (seq, number of the table, its name before), of tables that were renamed.
        self._renames: list[tuple[int, int, str]] = []
        for change in changes:
            self.add(change)

    def add(self, change: Change) -> None:
        """Take in the next change; they come in log order."""
        self.until = change.seq
        details = change.catalogue
        if details is not None:
            if change.kind_code == TABLE_RENAME:
                self._renames.append((change.seq, details["table_id"], details["table"]))
            return
        keys = self._steps.setdefault(change.table_id, {})
        keys.setdefault(change.key_bytes, []).append((change.seq, change.old_bytes))

    def names(self, seq: int) -> dict[int, str]:
        """For each table that was renamed after `seq`, its name at `seq`, by its number."""
        return {table_id: name for renamed, table_id, name in reversed(self._renames) if renamed > seq}

    def old(self, table_id: int, seq: int) -> dict[bytes, bytes | None]:
        """For each key that changed after `seq`, its document at `seq` (None: it was not there)."""
        documents: dict[bytes, bytes | None] = {}
        # A list first: another thread may be adding newer changes.
        for key, steps in list(self._steps.get(table_id, {}).items()):
            place = bisect_left(steps, seq + 1, key=lambda step: step[0])
            if place < len(steps):
                documents[key] = steps[place][1]
        return documents

    def one(self, table_id: int, key: bytes, seq: int) -> tuple[bool, bytes | None]:
        """(whether the key changed after `seq`, its document at `seq` where it did)."""
        steps = self._steps.get(table_id, {}).get(key)
        if steps is None:
            return False, None
        place = bisect_left(steps, seq + 1, key=lambda step: step[0])
        return (False, None) if place == len(steps) else (True, steps[place][1])
