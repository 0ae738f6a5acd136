"""Boards: short lists of flights that are kept up to date by a feed, and never ask again.

Rule of this file: a board changes by `apply` alone, and `apply` does what the event says. What a board should
show is worked out a second time, from all flights and in plain Python, by `expected`; the two share nothing
but the order, so that comparing them can fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from reactdb import row

if TYPE_CHECKING:
    from reactdb import Feed, Table

Document = dict[str, Any]
Event = dict[str, Any]


class LiveList(Protocol):
    """The documents of one feed, in the order of its query."""

    def apply(self, event: Event) -> None: ...

    def documents(self) -> list[Document]: ...


class OffsetList:
    """A list that is kept by a feed with `include_offsets`, as ReQL means it: first delete, then insert.

    The order is the query's; this list knows nothing of it.
    """

    def __init__(self) -> None:
        self._documents: list[Document] = []

    def apply(self, event: Event) -> None:
        if (old_offset := event.get("old_offset")) is not None:
            del self._documents[old_offset]
        if (new_offset := event.get("new_offset")) is not None:
            self._documents.insert(new_offset, event["new_val"])

    def documents(self) -> list[Document]:
        return list(self._documents)


class SortedList:
    """A list that is kept by a feed without offsets: what matches is held by id and sorted when looked at.

    Args:
        order: Sort key of a document.
        limit: Documents shown; all are held, because the next to move up has to come from somewhere.
    """

    def __init__(self, order: Callable[[Document], Any], *, descending: bool, limit: int) -> None:
        self._held: dict[str, Document] = {}
        self._order = order
        self._descending = descending
        self._limit = limit

    def apply(self, event: Event) -> None:
        if (old := event.get("old_val")) is not None:
            self._held.pop(old["id"], None)
        if (new := event.get("new_val")) is not None:
            self._held[new["id"]] = new

    def documents(self) -> list[Document]:
        return sorted(self._held.values(), key=self._order, reverse=self._descending)[: self._limit]


class Board:
    """One airport's list: the feed that keeps it, the list it keeps, and what it ought to be.

    Args:
        origin: The airport.
        name: What it shows, for when it is wrong.
        feed: Where its events come from; cold until somebody subscribes.
        contents: What the events are applied to.
        expected: The right list, worked out from all flights.
    """

    def __init__(
        self,
        origin: str,
        name: str,
        feed: Feed,
        contents: LiveList,
        expected: Callable[[Iterable[Document]], list[Document]],
    ) -> None:
        self.origin = origin
        self.name = f"{name} at {origin}"
        self.feed = feed
        self.contents = contents
        self.expected = expected

    def apply(self, event: Event) -> None:
        """Take in one event of the feed; those that say nothing about a document pass by."""
        if "new_val" in event or "old_val" in event:
            self.contents.apply(event)

    def documents(self) -> list[Document]:
        return self.contents.documents()

    def difference(self, flights: Iterable[Document]) -> str | None:
        """Where the board departs from what the flights say it should show; None if nowhere."""
        shown, expected = self.documents(), self.expected(flights)
        if shown == expected:
            return None
        place = next((i for i, (a, b) in enumerate(zip(shown, expected, strict=False)) if a != b), None)
        if place is None:
            return f"{self.name} shows {len(shown)} flights instead of {len(expected)}"
        return f"{self.name}, line {place + 1}: shows {shown[place]!r} instead of {expected[place]!r}"


def next_departures(flights: Table, origin: str, limit: int) -> Board:
    """The flights that leave `origin` next: still to leave, by scheduled time."""
    return _board("next departures", flights, origin, limit, is_waiting=True)


def last_departures(flights: Table, origin: str, limit: int) -> Board:
    """The flights that left the board of `origin` last, the newest first: gone or cancelled."""
    return _board("last departures", flights, origin, limit, is_waiting=False)


def _board(name: str, flights: Table, origin: str, limit: int, *, is_waiting: bool) -> Board:
    """The one place that decides how a board is fed."""
    field, descending = ("scheduled", False) if is_waiting else ("closed", True)

    def order(flight: Document) -> tuple[Any, str]:
        return flight[field], flight["id"]

    def expected(everything: Iterable[Document]) -> list[Document]:
        here = [f for f in everything if f["origin"] == origin and (f["state"] == "scheduled") == is_waiting]
        return sorted(here, key=order, reverse=descending)[:limit]

    state = row["state"]
    condition = (row["origin"] == origin) & (state == "scheduled" if is_waiting else state != "scheduled")
    feed = flights.filter(condition).changes(include_initial=True, include_states=True)
    return Board(origin, name, feed, SortedList(order, descending=descending, limit=limit), expected)
