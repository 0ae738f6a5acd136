"""Pages: a part of the log as streams read it, shared by those that stand at the same place.

A thousand streams of one collection are woken by one insert, and read the same entries. The first of them reads the page and
makes the events; the others find both here.

A stream that is about some values only finds its entries in a page by them, which costs nothing for the others.

Rule of this file: a page is of one position and one head of the log, so it is never out of date, only forgotten.
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
        is_small: It can be kept.
        events: Of entries of documents that somebody has asked for, by seq.
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
        """The changes of documents by their values on an axis, and those that everybody has to look at: of the catalogue and what
        lies beside, those whose values cannot be found, and the newest, whose token says how far somebody has come."""
        found = self._by_value.get(axis)
        if found is None:
            found = {}, [*self.changes[-1:]]
            for change in self.changes:
                table = catalogue.by_id.get(change.table_id)
                try:
                    if table is None or table.owner is not None:
                        raise LookupError
                    values = axis.within(table.primary_key).values(change)
                except Exception:
                    found[1].append(change)
                    continue
                for value in values:
                    found[0].setdefault(value, []).append(change)
            self._by_value[axis] = found
        return found


class LogPages:
    """The newest small pages, by what they are of. Any thread."""

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
