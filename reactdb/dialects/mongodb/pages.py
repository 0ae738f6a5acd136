"""Pages: a part of the log, shared by the streams that read from the same position.

One insert wakes a thousand streams of a collection, and all of them read the same entries. The first stream reads the page and
makes the events; the others take both from here.

A stream for certain values finds its entries in a page through these values, at no cost for other streams.

Rule of this file: a page belongs to one position and one head of the log, so it is never out of date; it is only discarded.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from threading import Lock
from typing import Final

from reactdb.change import Change
from reactdb.dialects.mongodb.events import StreamEvent
from reactdb.dialects.mongodb.recent import size_of
from reactdb.dialects.mongodb.routing import EventAxis
from reactdb.dialects.mongodb.tokens import TokenOrigin
from reactdb.store.catalogue import Catalogue

ByValue = dict[bytes, list[Change]]

# Small pages are kept, because up-to-date streams need them; one for each set of tables woken by one commit.
KEPT: Final = 16
KEPT_BYTES: Final = 1 << 18


class LogPage:
    """See the head of this file.

    Attributes:
        changes: Entries in the order of the log, of the stream's tables and of the hidden tables.
        beside: Entries of the catalogue and of hidden tables, up to the head.
        end: The page has everything up to this seq.
        origin: The origin of its first entry; None if there are several origins.
        is_small: It can be kept.
        events: The events made so far, by the seq of their entry.
    """

    __slots__ = ("_by_value", "beside", "changes", "end", "events", "is_small", "origin")

    def __init__(
        self,
        changes: Sequence[Change],
        beside: Sequence[Change],
        end: int,
        origin: TokenOrigin | None,
        *,
        is_recent: bool = False,
    ) -> None:
        """`is_recent`: the changes are held in memory, so they are few and small."""
        self.changes = changes
        self.beside = beside
        self.end = end
        self.origin = origin
        self.is_small = is_recent or sum(map(size_of, changes)) <= KEPT_BYTES
        self.events: dict[int, list[StreamEvent]] = {}
        self._by_value: dict[EventAxis, tuple[ByValue, list[Change]]] = {}

    def by_value(self, axis: EventAxis, catalogue: Catalogue) -> tuple[ByValue, list[Change]]:
        """The changes of documents by their values on an axis, and the changes for every stream: of the catalogue and the hidden
        tables, changes without a computable value, and the newest, because its token marks the progress of a stream."""
        entry = self._by_value.get(axis)
        if entry is None:
            entry = {}, [*self.changes[-1:]]
            for change in self.changes:
                table = catalogue.by_id.get(change.table_id)
                try:
                    if table is None or table.owner is not None:
                        raise LookupError
                    values = axis.within(table.primary_key).values(change)
                except Exception:
                    entry[1].append(change)
                    continue
                for value in values:
                    entry[0].setdefault(value, []).append(change)
            self._by_value[axis] = entry
        return entry


class LogPages:
    """The newest small pages, by position, head and tables. Any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: dict[Hashable, LogPage] = {}

    def find(self, place: Hashable) -> LogPage | None:
        return self._kept.get(place)

    def keep(self, place: Hashable, page: LogPage) -> None:
        if page.is_small:
            with self._lock:
                self._kept[place] = page
                if len(self._kept) > KEPT:
                    del self._kept[next(iter(self._kept))]
