"""Router: which views a change concerns, found by hashing what is in the change and not by asking every view.

    one key             table, key bytes                      a dict
    one value           table, axis, value: old and new       a dict for each axis
    a range             table, axis, value: old and new       intervals for each axis
    a whole table       table                                 a list
    everything                                                a list

An axis is a field or an index. Both documents are looked up: a view must hear of what leaves it too. Documents are decoded only
where some view of the table has an axis.

Rule of this file: it may find a view twice or in vain, never miss one. Not thread safe: the hub holds the publish lock.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Generic, TypeVar

from reactdb.change import Change
from reactdb.feeds.intervals import Intervals
from reactdb.feeds.view import Axis, Everywhere, OneKey, OneValue, Route, ValueRange, WholeTable

T = TypeVar("T", bound=Hashable)


class Bag(Generic[T]):
    """Items by key. One item alone needs no container: there may be 100,000 such keys."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[Hashable, T | dict[T, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, key: Hashable, item: T) -> None:
        held = self._found.get(key)
        if held is None:
            self._found[key] = item
        elif type(held) is dict:
            held[item] = None
        elif held is not item:
            self._found[key] = {held: None, item: None}  # type: ignore[dict-item]

    def remove(self, key: Hashable, item: T) -> None:
        held = self._found.get(key)
        if type(held) is dict:
            held.pop(item, None)
            if not held:
                del self._found[key]
        elif held is item:
            del self._found[key]

    def get(self, key: Hashable) -> Sequence[T]:
        held = self._found.get(key)
        if held is None:
            return ()
        return list(held) if type(held) is dict else (held,)  # type: ignore[return-value]

    def everybody(self) -> Iterator[T]:
        for held in self._found.values():
            if type(held) is dict:
                yield from held
            else:
                yield held  # type: ignore[misc]


class Lane(Generic[T]):
    """One axis of one table."""

    __slots__ = ("axis", "ranges", "values")

    def __init__(self, axis: Axis | None) -> None:
        self.axis = axis
        self.values: Bag[T] = Bag()
        self.ranges: Intervals[T] = Intervals()

    @property
    def is_empty(self) -> bool:
        return not self.values and not len(self.ranges)

    def everybody(self) -> list[T]:
        """Who waits for any value."""
        return [*self.values.everybody(), *self.ranges.items()]

    def find(self, value: bytes, found: list[T]) -> None:
        """Add to `found` who waits for the value."""
        if self.values:
            found.extend(self.values.get(value))
        if len(self.ranges):
            found.extend(self.ranges.holding(value))


class TableRoutes(Generic[T]):
    """The routes of one table."""

    __slots__ = ("all", "keys", "lanes")

    def __init__(self) -> None:
        self.all: dict[T, None] = {}
        self.keys: Lane[T] = Lane(None)
        self.lanes: dict[Axis, Lane[T]] = {}

    @property
    def is_empty(self) -> bool:
        return not self.all and not self.lanes and self.keys.is_empty

    def find(self, change: Change) -> list[T]:
        found = list(self.all)
        self.keys.find(change.key_bytes, found)
        if self.lanes:
            try:
                old, new = change.old_val, change.new_val
            except Exception:
                for lane in self.lanes.values():
                    found.extend(lane.everybody())
                return found
            for axis, lane in self.lanes.items():
                try:
                    values: Sequence[bytes] = () if old is None else axis.values(old)
                    if new is not None:
                        now = axis.values(new)
                        if now != values:
                            values = list(dict.fromkeys((*values, *now)))
                except Exception:
                    # Whom it concerns cannot be said, so all of them look: those that cannot, say so.
                    found.extend(lane.everybody())
                    continue
                for value in values:
                    lane.find(value, found)
        return found


class Router(Generic[T]):
    """See the head of this file. `T` is whatever is to be found."""

    __slots__ = ("_everything", "_tables", "_tokens")

    def __init__(self) -> None:
        self._everything: dict[T, None] = {}
        self._tables: dict[int, TableRoutes[T]] = {}
        # (item, route) -> the token of its interval.
        self._tokens: dict[tuple[T, Route], int] = {}

    def find(self, change: Change) -> list[T]:
        """Whom the change may concern; some perhaps twice."""
        table = self._tables.get(change.table_id)
        found = [] if table is None else table.find(change)
        if self._everything:
            found += self._everything
        return found

    def add(self, item: T, routes: Sequence[Route]) -> None:
        for route in routes:
            if isinstance(route, Everywhere):
                self._everything[item] = None
                continue
            table = self._tables.setdefault(route.table_id, TableRoutes())
            if isinstance(route, WholeTable):
                table.all[item] = None
            elif isinstance(route, OneKey):
                table.keys.values.add(route.key, item)
            elif isinstance(route, OneValue):
                self._lane(table, route.axis).values.add(route.value, item)
            else:
                lane = table.keys if route.axis is None else self._lane(table, route.axis)
                self._tokens[item, route] = lane.ranges.add(route.start, route.stop, item)

    def remove(self, item: T, routes: Sequence[Route]) -> None:
        """Undo `add` with the same routes."""
        for route in routes:
            if isinstance(route, Everywhere):
                self._everything.pop(item, None)
                continue
            table = self._tables.get(route.table_id)
            if table is None:
                continue
            if isinstance(route, WholeTable):
                table.all.pop(item, None)
            elif isinstance(route, OneKey):
                table.keys.values.remove(route.key, item)
            else:
                self._remove_from_lane(table, item, route)
            if table.is_empty:
                del self._tables[route.table_id]

    @property
    def is_empty(self) -> bool:
        """Nothing is registered, and nothing is left of what was."""
        return not self._everything and not self._tables and not self._tokens

    @staticmethod
    def _lane(table: TableRoutes[T], axis: Axis) -> Lane[T]:
        lane = table.lanes.get(axis)
        if lane is None:
            lane = table.lanes[axis] = Lane(axis)
        return lane

    def _remove_from_lane(self, table: TableRoutes[T], item: T, route: OneValue | ValueRange) -> None:
        lane = table.keys if route.axis is None else table.lanes.get(route.axis)
        if lane is None:
            return
        if isinstance(route, OneValue):
            lane.values.remove(route.value, item)
        else:
            token = self._tokens.pop((item, route), None)
            if token is not None:
                lane.ranges.remove(token)
        if lane.is_empty and lane.axis is not None:
            table.lanes.pop(lane.axis, None)
