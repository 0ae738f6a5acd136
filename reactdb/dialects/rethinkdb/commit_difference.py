"""The difference of a commit: the events of one commit on a limit feed become the difference of the list before and after.

If a commit changes many documents, a limit feed also delivers documents that are in neither list: the successor of a deleted
document that is deleted too, or an inserted document that others push out again. RethinkDB's drivers have no transactions to
group such steps, and its server compares the list only after a batch of writes.

    by key       a commit is one step
    by an index  the same, but a document that is written twice begins a new step each time. RethinkDB goes document
                 by document there, and one of its own tests inserts and deletes a document in one statement, and expects both

The list itself is not needed. If an event takes a value from a place that this step has not touched, the value was there before.

The remaining events come in the order of the commit's writes, as in a native feed. RethinkDB promises no order here.

Rule of this file: it pairs and omits events, and invents no value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Final

from reactdb.feeds.edits import Edit, compute_edits
from reactdb.feeds.events import Event, Render
from reactdb.feeds.pipeline import same_value
from reactdb.feeds.queues import moment_of, net_sides, pair_values
from reactdb.feeds.request import Request
from reactdb.feeds.views.base import Delta
from reactdb.query import Limit, OrderBy, Query, Union
from reactdb.values.canonical import spelling

DELTA: Final = "delta"
UNKNOWN: Final = object()


def is_limit(query: Query) -> bool:
    """Whether the query is an order with a limit, on one table."""
    kinds = [type(step) for step in query.steps]
    return Limit in kinds and OrderBy in kinds and Union not in kinds


def is_by_key(query: Query) -> bool:
    return any(isinstance(step, OrderBy) and step.index is None for step in query.steps)


class DeltaRequest(Request):
    """A Request with the delta of each event in the event."""

    __slots__ = ()

    def render(self, is_ordered: bool) -> Render:
        made = super().render(is_ordered)

        def render(delta: Any) -> Event | None:
            event = made(delta)
            return None if event is None else {**event, DELTA: delta}

        return render


class Netting:
    """The events of whole commits, netted. They are of a DeltaRequest with `include_offsets` and `batches`."""

    def __init__(self, query: Query, primary_key: str, *, has_offsets: bool, has_types: bool) -> None:
        self._primary_key = primary_key
        self._has_offsets = has_offsets
        self._has_types = has_types
        self._is_by_key = is_by_key(query)

    def events(self, batch: list[Event]) -> Iterator[Event]:
        """The events of one commit, or events without a commit."""
        if DELTA in batch[0]:
            yield from self._events([event[DELTA] for event in batch])
            return
        for event in batch:
            if not self._has_offsets:
                # Of an initial value.
                event.pop("new_offset", None)
            yield event

    def _events(self, deltas: Sequence[Delta]) -> Iterator[Event]:
        for step in self._steps(deltas):
            net = step if len({delta.seq for delta in step}) == 1 else self._net(step)
            kept = [delta for delta in net if self._has_offsets or not is_move(delta)]
            if not self._has_offsets and net is not step:
                # A value may leave one place and enter at another; a subscriber without offsets gets no event for that.
                old, new = net_sides(kept)
                if max(len(old), len(new)) < len(kept):
                    kept = list(pair_values(old, new))
            yield from map(self._render, kept)

    def _steps(self, deltas: Sequence[Delta]) -> Iterator[list[Delta]]:
        if self._is_by_key:
            yield list(deltas)
            return
        step: list[Delta] = []
        written: dict[bytes, int] = {}
        for delta in deltas:
            if written.setdefault(delta.change.key_bytes, delta.seq) != delta.seq:
                yield step
                step, written = [], {delta.change.key_bytes: delta.seq}
            step.append(delta)
        yield step

    def _net(self, deltas: Sequence[Delta]) -> list[Delta]:
        last = deltas[-1].change
        before, after = Replay(self._name_of).lists(deltas)
        return [
            Delta(
                last,
                None if edit.leaving is None else edit.leaving.value,
                None if edit.entering is None else edit.entering.value,
                edit.old_offset,
                edit.new_offset,
            )
            for edit in compute_edits(before, after, same, moment_of)
            if not is_nothing(edit)
        ]

    def _name_of(self, value: Any) -> Hashable:
        """A name for recognising the document in the list; None if its value has no name."""
        key = value.get(self._primary_key) if isinstance(value, dict) else None
        return None if key is None else spelling(key)

    def _render(self, delta: Delta) -> Event:
        event: Event = {"old_val": delta.old_val, "new_val": delta.new_val}
        old, new = delta.old_val, delta.new_val
        if self._has_offsets:
            old = event["old_offset"] = delta.old_offset
            new = event["new_offset"] = delta.new_offset
        if self._has_types:
            event["type"] = "add" if old is None else "remove" if new is None else "change"
        return event


class ListSlot:
    """One offset of the list. `value` is UNKNOWN until an event gives it. `moment`: as in a `ListItem`."""

    __slots__ = ("identity", "moment", "value")

    def __init__(self, value: Any = UNKNOWN, identity: Hashable = None, moment: int = 0) -> None:
        self.value = value
        self.moment = moment
        self.identity = object() if identity is None else identity


class Replay:
    """The lists before and after, reconstructed from the deltas between them, as far as these reach."""

    def __init__(self, name_of: Callable[[Any], Hashable]) -> None:
        self._name_of = name_of
        self._before: list[ListSlot] = []
        self._now: list[ListSlot] = []
        # Name -> identities of documents that left, so that a returning document is recognised.
        self._away: defaultdict[Hashable, list[Hashable]] = defaultdict(list)

    def lists(self, deltas: Sequence[Delta]) -> tuple[list[ListSlot], list[ListSlot]]:
        for delta in deltas:
            if delta.old_offset is not None:
                self._reach(delta.old_offset + 1)
                left = self._now.pop(delta.old_offset)
                left.value, left.moment = delta.old_val, delta.seq
                self._away[self._name_of(delta.old_val)].append(left.identity)
            if delta.new_offset is not None:
                self._reach(delta.new_offset)
                name = self._name_of(delta.new_val)
                identity = self._away[name].pop() if name is not None and self._away[name] else None
                self._now.insert(delta.new_offset, ListSlot(delta.new_val, identity, delta.seq))
        return self._before, self._now

    def _reach(self, length: int) -> None:
        """Extend both lists with untouched places."""
        while len(self._now) < length:
            place = ListSlot()
            self._before.append(place)
            self._now.append(place)


def same(old: Any, new: Any) -> bool:
    return old is new or (old is not UNKNOWN and new is not UNKNOWN and same_value(old, new))


def is_nothing(edit: Edit) -> bool:
    """Whether the edit replaces a document by another with the same value at the same place."""
    return (
        edit.leaving is not None
        and edit.entering is not None
        and edit.old_offset == edit.new_offset
        and same(edit.leaving.value, edit.entering.value)
    )


def is_move(delta: Delta) -> bool:
    """Whether only the place changes, which subscribers without offsets do not see."""
    return same(delta.old_val, delta.new_val)
