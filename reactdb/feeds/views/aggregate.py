"""Aggregates kept up to date: AggregateView for one value, GroupView for one value a group, both over any other view.

The view below reports the boxed values that enter and leave its result; an accumulator adds the entering and removes
the leaving ones. One change is reported as one delta for each aggregate that it changes.

Rule of this file: `accumulators` computes sums; this file brings values to them, and reports results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from operator import itemgetter
from typing import Any

from reactdb.change import Change
from reactdb.documents.counts import EntryCount
from reactdb.documents.steps import group_of
from reactdb.feeds.failures import Failures, describe_step
from reactdb.feeds.pipeline import Boxed, same_value, value_function
from reactdb.feeds.views.accumulators import Accumulator, Count, accumulator_of
from reactdb.feeds.views.base import AnyDelta, Delta, Initial, Route, StateReader, View
from reactdb.feeds.views.select import SelectView
from reactdb.feeds.views.union import UnionView
from reactdb.query import Aggregate, Group, Step
from reactdb.store.catalogue import TableInfo
from reactdb.store.snapshot import Snapshot
from reactdb.values import collation
from reactdb.values.canonical import Spellings, is_alike, spelling


class DerivedView:
    """The common part of views over another view: they read the same tables, and the same changes concern them."""

    is_stateful = True

    def __init__(self, below: View, step: Step, failures: Failures) -> None:
        self.below = below
        self._step = step
        self._failures = failures

    def tables(self) -> Sequence[TableInfo]:
        return self.below.tables()

    def indexes(self) -> Sequence[tuple[int, str]]:
        return self.below.indexes()

    def routes(self) -> Sequence[Route]:
        return self.below.routes()

    def describe(self) -> dict[str, Any]:
        return {**self.below.describe(), "over": self.below.kind}

    def _note(self, error: Exception, change: Change, step: Step | None = None) -> None:
        """Note a failure of the step (None: the view's own) for the value that the change wrote."""
        self._failures.note(error, change.key_bytes, change.seq, lambda: describe_step(step or self._step))

    def _take(self, snapshot: Snapshot, add: Callable[[Any], object]) -> None:
        """Seed the view below, and add each of its boxed values. A part of a table is read page by page."""
        below = self.below
        below.seed(snapshot)
        if not isinstance(below, SelectView):
            for initial in below.result(snapshot):
                add(initial.value)
            return
        # Where one cannot be added, the rest must not keep the snapshot.
        with closing(below.read(snapshot)) as results:
            for initial in results:
                add(initial.value)

    def _read_values(self, snapshot: Snapshot, expression: Any) -> list[tuple[bytes, Any, int]] | None:
        """(key bytes, value, number of documents) of each value of an expression below, from the entries of an index; None if
        they do not have it."""
        below = self.below
        if not isinstance(below, SelectView) or below.pipeline.steps:
            return None
        return below.source.read_values(snapshot, expression)


class AggregateView(DerivedView):
    """One value made of all values below."""

    def __init__(self, below: View, step: Aggregate, failures: Failures) -> None:
        super().__init__(below, step, failures)
        self.kind: str = step.kind
        self._make = accumulator_of(step)
        self._accumulator = self._make()
        self._reported: Any = None

    @property
    def documents_held(self) -> int:
        return self.below.documents_held + self._accumulator.documents_held

    def seed(self, snapshot: Snapshot) -> None:
        accumulator = self._make()
        counts = self._find_counts(snapshot.catalogue.by_id)
        if counts is None:
            self._take(snapshot, accumulator.add)
        else:
            assert isinstance(accumulator, Count)
            accumulator.result = sum(count.read(snapshot) for count in counts)
        self._accumulator = accumulator
        self._reported = accumulator.result

    def _find_counts(self, tables: Mapping[int, TableInfo]) -> list[EntryCount] | None:
        """The counts of the values below, one for each member of a union; None if this is no count, or if documents have to be
        read. `tables`: the present tables, by number."""
        if self.kind != "count":
            return None
        below = self.below
        views = below.members if isinstance(below, UnionView) else [below]
        counts = [view.find_count(tables) if isinstance(view, SelectView) else None for view in views]
        return None if None in counts else [count for count in counts if count is not None]

    def describe(self) -> dict[str, Any]:
        text = super().describe()
        counts = self._find_counts({info.id: info for info in self.tables()})
        if counts is not None and isinstance(self.below, SelectView):
            text["access"] = f"{text['access']}; at the beginning, it {counts[0].describe()}"
        return text

    def result(self, snapshot: Snapshot) -> Iterable[Initial]:
        return [Initial(self._reported)]

    def advance(self, change: Change, reader: StateReader) -> Sequence[AnyDelta]:
        deltas = self.below.advance(change, reader)
        if not deltas:
            return ()
        for delta in deltas:
            old, new = boxes(delta)
            error = move(self._accumulator, old, self._accumulator, new)
            if error is not None:
                self._note(error, change)
        old_val, self._reported = self._reported, self._accumulator.result
        if old_val is self._reported or (old_val is not None and same_value(old_val, self._reported)):
            return ()
        return (Delta(change, old_val, self._reported, identity="value"),)


class GroupView(DerivedView):
    """One value for each group; or, without an aggregate, the documents, each with its group."""

    kind = "group"

    def __init__(self, below: View, step: Group, aggregate: Aggregate | None, failures: Failures) -> None:
        super().__init__(below, step, failures)
        self._by = step.expression
        self._group = group_of(step, value_function)
        self._aggregate = aggregate
        self._make = None if aggregate is None else accumulator_of(aggregate)
        self._groups: dict[bytes, Members] = {}
        self.is_stateful = below.is_stateful or aggregate is not None

    @property
    def documents_held(self) -> int:
        held = sum(group.accumulator.documents_held for group in self._groups.values())
        return self.below.documents_held + held

    def seed(self, snapshot: Snapshot) -> None:
        self._groups = {}
        if self._make is None:
            self.below.seed(snapshot)
            return
        is_count = self._aggregate is not None and self._aggregate.kind == "count"
        counts = self._read_values(snapshot, self._by) if is_count else None
        if counts is None:
            self._take(snapshot, self._add)
        for key, value, count in counts or ():
            group = self._group_of(key)
            group.names.add(value, count)
            assert isinstance(group.accumulator, Count)
            group.accumulator.result = count
        for group in self._groups.values():
            group.reported, group.name = group.accumulator.result, group.names.value

    def _add(self, box: Boxed) -> None:
        value = self._group(box.value)
        group = self._group_of(collation.key_bytes(value))
        group.names.add(value)
        group.accumulator.add(box)

    def result(self, snapshot: Snapshot) -> Iterable[Initial]:
        if self._make is None:
            return self._label(self.below.result(snapshot))
        rows = sorted(self.groups(), key=itemgetter(0))
        return (Initial(value, group=[name], identity=_identity(key, name)) for key, name, value in rows)

    def groups(self) -> Iterable[tuple[bytes, Any, Any]]:
        """(key bytes, group, aggregate) of every group, in any order."""
        return [(key, group.name, group.reported) for key, group in self._groups.items()]

    def _label(self, results: Iterable[Initial]) -> Iterable[Initial]:
        for initial in results:
            yield Initial(initial.value.value, group=[self._group(initial.value.value)])

    def advance(self, change: Change, reader: StateReader) -> Sequence[AnyDelta]:
        deltas = self.below.advance(change, reader)
        if not deltas:
            return ()
        if self._make is None:
            return self._label_deltas(change, deltas)
        touched = self._move_members(change, deltas)
        return [step for key, group in touched.items() for step in self._report_group(change, key, group)]

    def advance_groups(self, change: Change, reader: StateReader) -> dict[bytes, tuple[Any, Any] | None]:
        """As `advance`, for a view of the list of groups: (group, aggregate) of each group that the change may concern, by its
        key bytes; None for a group that is gone. A group whose aggregate is null is there."""
        touched = self._move_members(change, self.below.advance(change, reader))
        for key, group in touched.items():
            self._report_group(change, key, group)
        return {
            key: (group.name, group.reported) if group.names.count > 0 else None
            for key, group in touched.items()
        }

    def _move_members(self, change: Change, deltas: Sequence[AnyDelta]) -> dict[bytes, Members]:
        """Move the values of the deltas between groups. Returns: the groups that they entered or left."""
        touched: dict[bytes, Members] = {}
        for delta in deltas:
            old_box, new_box = boxes(delta)
            old = self._find_or_add_group(old_box, touched, change, is_new=False)
            new = self._find_or_add_group(new_box, touched, change, is_new=True)
            error = move(
                None if old is None else old.accumulator,
                old_box,
                None if new is None else new.accumulator,
                new_box,
            )
            if error is not None:
                self._note(error, change, self._aggregate)
        return touched

    def _find_or_add_group(
        self, box: Boxed | None, touched: dict[bytes, Members], change: Change, *, is_new: bool
    ) -> Members | None:
        """The group that a value enters or leaves; None for no value."""
        if box is None:
            return None
        try:
            value = self._group(box.value)
            key = collation.key_bytes(value)
        except Exception as error:
            # A value whose group cannot be computed is in no group.
            if is_new:
                self._note(error, change)
            return None
        group = touched[key] = self._group_of(key)
        if is_new:
            group.names.add(value)
        else:
            group.names.remove(value)
        return group

    def _report_group(self, change: Change, key: bytes, group: Members) -> list[Delta]:
        """The deltas of a group. If its name changes its canonical form, readers see one group removed and another
        added."""
        old_val, old_name, name = group.reported, group.name, group.names.value
        if group.names.count > 0:
            group.reported, group.name = group.accumulator.result, name
        else:
            del self._groups[key]
            group.reported, name = None, old_name
        new_val = group.reported
        if old_val is None or new_val is None or is_alike(old_name, name):
            if old_val is new_val or same_value(old_val, new_val):
                return []
            name = old_name if new_val is None else name
            return [Delta(change, old_val, new_val, identity=_identity(key, name), group=[name])]
        return [
            Delta(change, old_val, None, identity=_identity(key, old_name), group=[old_name]),
            Delta(change, None, new_val, identity=_identity(key, name), group=[name]),
        ]

    def _label_deltas(self, change: Change, deltas: Sequence[AnyDelta]) -> list[Delta]:
        """The deltas of documents with their groups. A document that keeps its sort key in its group is one delta;
        the others of the same group are paired, a leaving one with an entering one."""
        steps: dict[MemberName, Move] = {}
        for delta in deltas:
            old, new = boxes(delta)
            if old is not None:
                self._move_of(steps, old, self._group_or_none(old, None)).leave(old)
            if new is not None:
                self._move_of(steps, new, self._group_or_none(new, change)).new = new
        result: list[Delta] = []
        left: dict[bytes, list[tuple[MemberName, Move]]] = {}
        taken: list[tuple[MemberName, Move]] = []
        for name, step in steps.items():
            if step.old is not None and step.new is not None:
                if not same_value(step.old.value, step.new.value):
                    result.append(step.delta(change, name))
            elif step.old is not None:
                left.setdefault(name[0], []).append((name, step))
            elif step.new is not None:
                taken.append((name, step))
        for name, step in taken:
            leaving = None
            others = left.get(name[0])
            if others:
                # The best element has the same value: then nothing has changed for the reader.
                number = next((n for n, (_, other) in enumerate(others) if _is_same(other, step)), 0)
                leaving, other = others.pop(number)
                step.old = other.old
            result.append(step.delta(change, name, leaving))
        return result + [step.delta(change, name) for others in left.values() for name, step in others]

    def _move_of(self, steps: dict[MemberName, Move], box: Boxed, group: Any) -> Move:
        return steps.setdefault((collation.key_bytes(group), box.sort_key), Move(group))

    def _group_or_none(self, box: Boxed, change: Change | None) -> Any:
        """The group of a value, None where it cannot be computed. `change` is the change that wrote the value, so
        that a failure is noted; None for an earlier value."""
        try:
            return self._group(box.value)
        except Exception as error:
            if change is not None:
                self._note(error, change)
            return None

    def _group_of(self, key: bytes) -> Members:
        group = self._groups.get(key)
        if group is None:
            assert self._make is not None
            group = self._groups[key] = Members(self._make())
        return group


class Members:
    """One group: the forms of its name among its members, their aggregate, and the last reported name and
    aggregate."""

    __slots__ = ("accumulator", "name", "names", "reported")

    def __init__(self, accumulator: Accumulator) -> None:
        self.names = Spellings()
        self.accumulator = accumulator
        self.name: Any = None
        self.reported: Any = None


def _identity(key: bytes, name: Any) -> tuple[str, bytes, tuple[int, bytes]]:
    return ("group", key, spelling(name))


# Key bytes of the group, and the sort key in it. At any moment, no two values have the same.
MemberName = tuple[bytes, bytes]


class Move:
    """The effect of one change on one member of a group."""

    __slots__ = ("group", "new", "old")

    def __init__(self, group: Any) -> None:
        self.group = group
        self.old: Boxed | None = None
        self.new: Boxed | None = None

    def leave(self, box: Boxed) -> None:
        if self.new is None:
            self.old = box
        else:
            # It came with the same change.
            self.new = None

    def delta(self, change: Change, name: MemberName, leaving: MemberName | None = None) -> Delta:
        old_val = None if self.old is None else self.old.value
        new_val = None if self.new is None else self.new.value
        is_move = leaving is not None and same_value(old_val, new_val)
        return Delta(
            change, old_val, new_val, identity=name, group=[self.group], is_move=is_move, leaving=leaving
        )


def _is_same(left: Move, taken: Move) -> bool:
    return left.old is not None and taken.new is not None and same_value(left.old.value, taken.new.value)


def boxes(delta: AnyDelta) -> tuple[Boxed | None, Boxed | None]:
    """The boxed values that left and entered the result."""
    old: Any = delta.old_val
    new: Any = delta.new_val
    return old, new


def move(
    old_home: Accumulator | None, old: Boxed | None, new_home: Accumulator | None, new: Boxed | None
) -> Exception | None:
    """Remove a value from one accumulator and add another to one. If the added value cannot take part, the error is
    returned."""
    if old is not None and old_home is not None:
        old_home.remove(old)
    if new is not None and new_home is not None:
        try:
            new_home.add(new)
        except Exception as error:
            return error
    return None
