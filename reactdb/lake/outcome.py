"""Outcome: what a run of the exporter has done.

Rule of this file: counts and names. It imports no pyarrow.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reactdb.lake.columns import Evolution


@dataclass(slots=True)
class Outcome:
    """The result of a run.

    Attributes:
        path: The file or folder that readers open.
        rows: The number of rows that this run added, replaced, closed or removed; 0: nothing was new, and nothing was written.
        inserted, updated, deleted: Of `current` the documents, of `scd2` the new versions and (as updated) those that ended; None
            where they were not compared.
        positions: Path of a file -> the seq up to which it has been read.
        begins_late: Files whose log begins after their first changes, so the rows begin with the documents as they were then.
        ignored: Path of a file that was left out because it is corrupt or missing -> the error that it gave.
        new_fields, widened_fields: Paths of fields, such as `place.zip`.
        conflicts: Path -> the number of values that did not fit, and are in the column `_conflicts`.
        discarded: Path -> the number of values that the contract `discard` left out.
        was_rewritten: The table was written anew, from the documents of now, because changes were missing, a table was dropped,
            or keys came that do not fit their column.
    """

    path: str
    rows: int = 0
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    positions: dict[str, int] = field(default_factory=dict)
    begins_late: list[str] = field(default_factory=list)
    ignored: dict[str, str] = field(default_factory=dict)
    new_fields: list[str] = field(default_factory=list)
    widened_fields: list[str] = field(default_factory=list)
    conflicts: dict[str, int] = field(default_factory=dict)
    discarded: dict[str, int] = field(default_factory=dict)
    was_rewritten: bool = False

    def count(self, inserted: int, updated: int | None = None, deleted: int | None = None) -> None:
        """Add the rows of one commit, where they were compared."""
        for name, rows in (("inserted", inserted), ("updated", updated), ("deleted", deleted)):
            if rows is not None:
                setattr(self, name, (getattr(self, name) or 0) + rows)
                self.rows += rows

    def add(self, evolution: Evolution) -> None:
        """Add what became of the fields and values of one commit."""
        self.new_fields = list(dict.fromkeys([*self.new_fields, *evolution.new_fields]))
        self.widened_fields = list(dict.fromkeys([*self.widened_fields, *evolution.widened_fields]))
        self.conflicts = dict(Counter(self.conflicts) + evolution.conflicts)
        self.discarded = dict(Counter(self.discarded) + evolution.discarded)
