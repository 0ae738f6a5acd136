"""Boards: short lists of flights that follow an ordered selection, and never ask again.

Rule of this file: what a board shows comes from its feed alone. What it should show is worked out a second time,
from all flights and in plain Python, by `expected`; the two share nothing, so that comparing them can fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from reactdb import LiveList, asc, desc, row

if TYPE_CHECKING:
    from reactdb import Table

Document = dict[str, Any]
Event = dict[str, Any]


class Board:
    """One airport's list, and what it ought to be.

    Args:
        origin: The airport.
        name: What it shows, for when it is wrong.
        shown: The list, which follows by itself.
        expected: The right list, worked out from all flights.
    """

    def __init__(
        self,
        origin: str,
        name: str,
        shown: LiveList,
        expected: Callable[[Iterable[Document]], list[Document]],
    ) -> None:
        self.origin = origin
        self.name = f"{name} at {origin}"
        self.shown = shown
        self.expected = expected

    def documents(self) -> list[Document]:
        return list(self.shown)

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
    listed = flights.order_by(index=desc(field) if descending else asc(field)).filter(condition).limit(limit)
    # Spill: what is dropped could never be made good again.
    feed = listed.changes(include_initial=True, include_offsets=True, on_overflow="spill")
    return Board(origin, name, LiveList(feed), expected)
