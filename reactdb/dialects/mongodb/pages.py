"""Pages: a part of the log as streams read it, shared by those that stand at the same place.

A thousand streams of one collection are woken by one insert, and read the same entries. The first of them reads the page and
makes the events; the others find both here.

Rule of this file: a page is of one position and one head of the log, so it is never out of date, only forgotten.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from reactdb.change import Change
from reactdb.dialects.mongodb.events import StreamEvent
from reactdb.dialects.mongodb.tokens import TokenOrigin

# Small pages are kept: those of streams that are up to date. Of these, as many as scopes that are woken by one commit.
KEPT: Final = 16
KEPT_BYTES: Final = 1 << 18


class LogPage:
    """See the head of this file.

    Attributes:
        changes: Entries in the order of the log, of the tables of a stream and of those beside.
        beside: Entries of the catalogue and of what lies beside tables, up to the head.
        end: Everything up to this seq is in it.
        origin: That of its first entry; None where there are several.
        events: Of entries of documents that somebody has asked for, by seq.
    """

    __slots__ = ("beside", "changes", "end", "events", "origin")

    def __init__(
        self, changes: Sequence[Change], beside: Sequence[Change], end: int, origin: TokenOrigin | None
    ) -> None:
        self.changes = changes
        self.beside = beside
        self.end = end
        self.origin = origin
        self.events: dict[int, list[StreamEvent]] = {}

    @property
    def is_small(self) -> bool:
        size = 0
        for change in self.changes:
            size += len(change.new_bytes or b"") + len(change.old_bytes or b"")
        return size <= KEPT_BYTES


class LogPages:
    """The newest small pages, by what they are of. Any thread: what is lost when two write at once is read again."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, LogPage] = {}

    def find(self, place: Hashable) -> LogPage | None:
        return self._kept.get(place)

    def keep(self, place: Hashable, page: LogPage) -> None:
        if page.is_small:
            kept = dict(list(self._kept.items())[1 - KEPT :])
            kept[place] = page
            self._kept = kept
