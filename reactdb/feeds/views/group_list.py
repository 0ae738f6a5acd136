"""GroupListView: the list of groups of an aggregate, filtered, ordered and cut, and kept up to date.

    games.group("team").count().filter(row["reduction"] > 3).order_by(desc("reduction")).limit(3)

Its elements are the dicts of the query's answer, `{"group": ..., "reduction": ...}`. All groups are held, as in the view
below, and their order with them.

Rule of this file: it looks at groups only; the view below knows the group of each document.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from typing import Any

from reactdb.change import Change
from reactdb.feeds.failures import Failures
from reactdb.feeds.pipeline import pipeline, same_value
from reactdb.feeds.views.aggregate import DerivedView, GroupView
from reactdb.feeds.views.base import AnyDelta, Delta, Initial, StateReader
from reactdb.query import Skip, Step
from reactdb.store.snapshot import Snapshot
from reactdb.values import codec

# A place in the order: the sort key of an element and the key bytes of its group.
Place = tuple[bytes, bytes]


class GroupListView(DerivedView):
    """See the head of this file."""

    kind = "group"
    below: GroupView

    def __init__(
        self,
        below: GroupView,
        steps: Sequence[Step],
        window: tuple[int, int | None] | None,
        failures: Failures,
    ) -> None:
        """`window`: (skip, limit), limit None for all; None for the whole list."""
        super().__init__(below, steps[0] if steps else Skip(0), failures)
        self._pipeline = pipeline(steps)
        self._window = window
        # Key bytes of a group -> its place, and its element.
        self._elements: dict[bytes, tuple[Place, Any]] = {}
        # Only kept for a window: elsewhere nobody needs to know which are the first.
        self._order: list[Place] = []

    @property
    def documents_held(self) -> int:
        return self.below.documents_held + len(self._elements)

    def seed(self, snapshot: Snapshot) -> None:
        self.below.seed(snapshot)
        self._elements = {}
        for key, name, value in self.below.groups():
            element = self._element_of(key, name, value, None)
            if element is not None:
                self._elements[key] = element
        self._order = sorted(place for place, _ in self._elements.values())

    def result(self, snapshot: Snapshot) -> Iterable[Initial]:
        places = sorted(place for place, _ in self._elements.values())
        start, stop = self._bounds()
        return [Initial(self._elements[key][1], identity=("group", key)) for _, key in places[start:stop]]

    def advance(self, change: Change, reader: StateReader) -> Sequence[AnyDelta]:
        touched = self.below.advance_groups(change, reader)
        if not touched:
            return ()
        before = self._visible(touched)
        for key, group in touched.items():
            element = None if group is None else self._element_of(key, *group, change)
            self._put(key, element)
        after = self._visible(touched)
        return [
            Delta(change, before.get(key), after.get(key), identity=("group", key))
            for key in dict.fromkeys((*before, *after))
            if not same_value(before.get(key), after.get(key))
        ]

    def _visible(self, touched: Iterable[bytes]) -> dict[bytes, Any]:
        """The elements that a change of these groups may move, replace or push out of the result."""
        if self._window is None:
            return {key: self._elements[key][1] for key in touched if key in self._elements}
        start, stop = self._bounds()
        return {key: self._elements[key][1] for _, key in self._order[start:stop]}

    def _bounds(self) -> tuple[int, int | None]:
        skip, limit = self._window or (0, None)
        return skip, None if limit is None else skip + limit

    def _element_of(
        self, key: bytes, name: Any, value: Any, change: Change | None
    ) -> tuple[Place, Any] | None:
        """The place and the element of a group; None if it does not pass, or cannot be computed."""
        element = codec.freeze({"group": name, "reduction": value})
        if change is None:
            found = self._pipeline(element, key)
        else:
            found = self._pipeline.attempt(element, key, self._failures, change.key_bytes, change.seq)
        return None if found is None else ((found[1], key), found[0])

    def _put(self, key: bytes, element: tuple[Place, Any] | None) -> None:
        before = self._elements.pop(key, None)
        if before is not None and self._window is not None:
            del self._order[bisect_left(self._order, before[0])]
        if element is not None:
            self._elements[key] = element
            if self._window is not None:
                insort(self._order, element[0])
