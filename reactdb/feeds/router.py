"""Router: finds the views that a change concerns, by hashing the values of the change and not by checking every view.

    one key             table, key bytes                      a dict
    one value           table, axis, value: old and new       a dict for each axis
    a range             table, axis, value: old and new       intervals for each axis
    a whole table       table                                 a dict
    everything                                                a dict

An axis is a field or an index. Both documents are looked up: a view must learn of documents that leave it, too.
Documents are decoded only where some view of the table has an axis, except for an index whose values the writer has
noted.

A range may move while it is registered (`MovingRange`): with the end of a window.

Rule of this file: it may find a view twice or in vain, but never misses one. Not thread safe: the hub holds the
publish lock.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from typing import Generic, TypeVar

from reactdb.change import Change
from reactdb.feeds.failures import Failures, Say
from reactdb.feeds.intervals import Intervals
from reactdb.feeds.views.base import (
    Axis,
    Everywhere,
    MovingRange,
    OneKey,
    OneValue,
    Route,
    Unroutable,
    ValueRange,
    WholeTable,
)

T = TypeVar("T", bound=Hashable)


class Multimap(Generic[T]):
    """Items by key. A single item needs no container: there may be 100,000 such keys."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: dict[Hashable, T | dict[T, None]] = {}

    def add(self, key: Hashable, item: T) -> None:
        held = self.held.get(key)
        if held is None:
            self.held[key] = item
        elif type(held) is dict:
            held[item] = None
        elif held is not item:
            self.held[key] = {held: None, item: None}  # type: ignore[dict-item]

    def remove(self, key: Hashable, item: T) -> None:
        held = self.held.get(key)
        if type(held) is dict:
            held.pop(item, None)
            if not held:
                del self.held[key]
        elif held is item:
            del self.held[key]

    def items_at(self, key: Hashable) -> Iterator[T]:
        held = self.held.get(key)
        if type(held) is dict:
            yield from held
        elif held is not None:
            yield held  # type: ignore[misc]

    def all_items(self) -> Iterator[T]:
        for key in self.held:
            yield from self.items_at(key)


class AxisRoutes(Generic[T]):
    """One axis of one table: the items that are routed by a value on it, or by a range of values."""

    __slots__ = ("alone", "failures", "ranges", "values")

    def __init__(self) -> None:
        # One tuple for all items that are on no other axis.
        self.alone = (self,)
        # Documents whose value could not be computed, so that no item was found for them. None without such
        # documents.
        self.failures: Failures | None = None
        self.values: Multimap[T] = Multimap()
        self.ranges: Intervals[T] = Intervals()

    @property
    def is_empty(self) -> bool:
        return not self.values.held and not len(self.ranges)

    @property
    def failed(self) -> int:
        """How many documents had no value, because of an error."""
        return 0 if self.failures is None else self.failures.count

    def note(self, error: Exception, change: Change, axis: Axis | None, say: Say | None) -> None:
        """Count a document that has none."""
        if self.failures is None:
            self.failures = Failures(change.table, say=say)
        self.failures.note(error, change.key_bytes, change.seq, lambda: f"the value of {axis}")

    def all_items(self) -> list[T]:
        """The items that are routed by any value."""
        return [*self.values.all_items(), *self.ranges.items()]


class TableRoutes(Generic[T]):
    """The routes of one table."""

    __slots__ = ("all", "axes")

    def __init__(self) -> None:
        # The items that get every change.
        self.all: dict[T, None] = {}
        # None is the axis of the primary key.
        self.axes: dict[Axis | None, AxisRoutes[T]] = {}

    @property
    def is_empty(self) -> bool:
        return not self.all and not self.axes

    def on_axis(self, axis: Axis | None) -> AxisRoutes[T]:
        """The routes on an axis, made at their first use."""
        on_axis = self.axes.get(axis)
        if on_axis is None:
            on_axis = self.axes[axis] = AxisRoutes()
        return on_axis


class Router(Generic[T]):
    """See the head of this file. `T` is whatever is to be found.

    Attributes:
        everything: The items that get changes of all tables.
        tables: The routes of each table, by its id.
    """

    __slots__ = ("_say", "_tokens", "everything", "tables")

    def __init__(self, say: Say | None = None) -> None:
        """`say`: see `Failures`."""
        self._say = say
        self.everything: dict[T, None] = {}
        self.tables: dict[int, TableRoutes[T]] = {}
        # (item, route) -> the token of its interval.
        self._tokens: dict[tuple[T, Route], int] = {}

    def find(self, change: Change) -> list[T]:
        """The items that the change may concern; some perhaps twice."""
        # Most changes concern no item, and every write has one: this path has to be quick.
        table = self.tables.get(change.table_id)
        if table is None:
            return [*self.everything]
        items = [*table.all]
        for axis, on_axis in table.axes.items():
            try:
                values = (change.key_bytes,) if axis is None else axis.values(change)
            except Unroutable as unroutable:
                values = unroutable.values
                on_axis.note(unroutable.error, change, axis, self._say)
            except Exception:
                # The items that the change concerns are unknown, so all items get it; failing items report it.
                items += on_axis.all_items()
                continue
            held = on_axis.values.held
            if held:
                for value in values:
                    waiting = held.get(value)
                    if waiting is not None:
                        if type(waiting) is dict:
                            items += waiting
                        else:
                            items.append(waiting)  # type: ignore[arg-type]
            ranges = on_axis.ranges
            if not ranges.highest:
                # There are none.
                continue
            for value in values:
                if ranges.lowest <= value < ranges.highest:
                    ranges.find(value, items)
        if self.everything:
            items += self.everything
        return items

    def add(self, item: T, routes: Sequence[Route]) -> None:
        for route in routes:
            if isinstance(route, Everywhere):
                self.everything[item] = None
                continue
            table = self.tables.setdefault(route.table_id, TableRoutes())
            if isinstance(route, WholeTable):
                table.all[item] = None
            elif isinstance(route, OneKey):
                table.on_axis(None).values.add(route.key, item)
            elif isinstance(route, OneValue):
                table.on_axis(route.axis).values.add(route.value, item)
            else:
                on_axis = table.on_axis(route.axis)
                self._tokens[item, route] = on_axis.ranges.add(route.start, route.stop, item)
                if isinstance(route, MovingRange):
                    route.on_move = partial(self._move, on_axis, item, route)

    def remove(self, item: T, routes: Sequence[Route]) -> None:
        """Undo `add` with the same routes."""
        for route in routes:
            if isinstance(route, Everywhere):
                self.everything.pop(item, None)
                continue
            table = self.tables.get(route.table_id)
            if table is None:
                continue
            if isinstance(route, WholeTable):
                table.all.pop(item, None)
            else:
                self._remove_from_axis(table, item, route)
            if table.is_empty:
                del self.tables[route.table_id]

    def inside(self, routes: Sequence[Route]) -> tuple[AxisRoutes[T], ...]:
        """The axes of these routes on which documents may have no value because of an error."""
        axes: dict[int, AxisRoutes[T]] = {}
        for route in routes:
            axis = getattr(route, "axis", None)
            if axis is not None and axis.looks_inside:
                table = self.tables.get(route.table_id)  # type: ignore[union-attr]
                on_axis = None if table is None else table.axes.get(axis)
                if on_axis is not None:
                    axes[id(on_axis)] = on_axis
        found = tuple(axes.values())
        return found[0].alone if len(found) == 1 else found

    @property
    def is_empty(self) -> bool:
        """Whether nothing is registered, and nothing is left behind."""
        return not self.everything and not self.tables and not self._tokens

    def _move(self, on_axis: AxisRoutes[T], item: T, route: MovingRange) -> None:
        on_axis.ranges.remove(self._tokens[item, route])
        self._tokens[item, route] = on_axis.ranges.add(route.start, route.stop, item)

    def _remove_from_axis(
        self, table: TableRoutes[T], item: T, route: OneKey | OneValue | ValueRange | MovingRange
    ) -> None:
        axis = None if isinstance(route, OneKey) else route.axis
        on_axis = table.axes.get(axis)
        if on_axis is None:
            return
        if isinstance(route, OneKey):
            on_axis.values.remove(route.key, item)
        elif isinstance(route, OneValue):
            on_axis.values.remove(route.value, item)
        else:
            if isinstance(route, MovingRange):
                route.on_move = None
            token = self._tokens.pop((item, route), None)
            if token is not None:
                on_axis.ranges.remove(token)
        if on_axis.is_empty:
            del table.axes[axis]
