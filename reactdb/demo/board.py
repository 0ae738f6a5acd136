"""Boards: short lists of flights that follow an ordered selection, without ever querying again.

Rule of this file: a board shows only events of its feed. `expected` computes the same list a second time, from all flights and in
plain Python. The two share no code, so that the comparison can fail.
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
    """One airport's list, and the expected list.

    Args:
        origin: The airport.
        name: The name of the board, for error messages.
        shown: The live list.
        expected: Computes the right list from all flights.
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
        """The first difference between the board and the right list; None if there is none."""
        shown, expected = self.documents(), self.expected(flights)
        if shown == expected:
            return None
        place = next((i for i, (a, b) in enumerate(zip(shown, expected, strict=False)) if a != b), None)
        if place is None:
            return f"{self.name} shows {len(shown)} flights instead of {len(expected)}"
        return f"{self.name}, line {place + 1}: shows {shown[place]!r} instead of {expected[place]!r}"


def next_departures(flights: Table, origin: str, limit: int) -> Board:
    """The next flights to leave `origin`, by scheduled time."""
    return _board("next departures", flights, origin, limit, is_waiting=True)


def last_departures(flights: Table, origin: str, limit: int) -> Board:
    """The last departed or cancelled flights from `origin`, the newest first."""
    return _board("last departures", flights, origin, limit, is_waiting=False)


def _board(name: str, flights: Table, origin: str, limit: int, *, is_waiting: bool) -> Board:
    """A board with its feed."""
    field, descending = ("scheduled", False) if is_waiting else ("closed", True)

    def order(flight: Document) -> tuple[Any, str]:
        return flight[field], flight["id"]

    def expected(everything: Iterable[Document]) -> list[Document]:
        here = [f for f in everything if f["origin"] == origin and (f["state"] == "scheduled") == is_waiting]
        return sorted(here, key=order, reverse=descending)[:limit]

    state = row["state"]
    condition = (row["origin"] == origin) & (state == "scheduled" if is_waiting else state != "scheduled")
    listed = flights.order_by(index=desc(field) if descending else asc(field)).filter(condition).limit(limit)
    # The queue spills, because a list cannot recover from dropped events.
    feed = listed.changes(include_initial=True, include_offsets=True, on_overflow="spill")
    return Board(origin, name, LiveList(feed), expected)
