"""Netting: what one commit does to the list of a limit feed, as the way from the list before it to the list after it.

A feed tells every change in turn, so where a commit changes many documents a limit feed tells of some that are in neither list:
the successor of a deleted document that is deleted as well, the first of many inserted that others push out again. RethinkDB's
drivers have no transactions to tell such steps apart by, and its server looks at the list when the batch of writes is done.

    by key       a commit is one step
    by an index  so it is, but for a document that was written twice in it: each time begins a new step. RethinkDB goes document
                 by document there, and one of its own tests inserts and deletes a document in one statement, and hears of both

The list need not be known for that. What an event takes from a place that nobody has touched in this step stood there before.

Rule of this file: it reorders and leaves out, and makes nothing up: every value was in an event.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Final

from reactdb.feeds.edits import Edit, edits
from reactdb.feeds.events import Event, Render
from reactdb.feeds.pipeline import same_value
from reactdb.feeds.queues import net_sides, paired
from reactdb.feeds.request import Request
from reactdb.feeds.subscription import NOTHING, Subscription
from reactdb.feeds.views.base import Delta
from reactdb.query import Limit, OrderBy, Query, Union
from reactdb.values.canonical import spelling

DELTA: Final = "delta"
UNKNOWN: Final = object()


def is_limit(query: Query) -> bool:
    """Whether it is the first documents of an order, of one table."""
    kinds = [type(step) for step in query.steps]
    return Limit in kinds and OrderBy in kinds and Union not in kinds


def is_by_key(query: Query) -> bool:
    return any(isinstance(step, OrderBy) and step.index is None for step in query.steps)


class DeltaRequest(Request):
    """A Request whose events carry the delta that they were made of."""

    __slots__ = ()

    def render(self, is_ordered: bool) -> Render:
        made = super().render(is_ordered)

        def render(delta: Any) -> Event | None:
            event = made(delta)
            return None if event is None else {**event, DELTA: delta}

        return render


class Netting:
    """The events of a subscription, netted. Its request is a DeltaRequest with `include_offsets`."""

    def __init__(
        self, subscription: Subscription, primary_key: str, *, has_offsets: bool, has_types: bool
    ) -> None:
        self._subscription = subscription
        self._primary_key = primary_key
        self._has_offsets = has_offsets
        self._has_types = has_types
        self._is_by_key = is_by_key(subscription.request.query)
        self._ready: deque[Any] = deque()

    def poll(self) -> Any:
        """As `Subscription.poll`."""
        while True:
            event = self._ready.popleft() if self._ready else self._subscription.poll()
            if not isinstance(event, dict):
                return event
            delta = event.pop(DELTA, None)
            if delta is not None:
                self._ready.extendleft(reversed([*self._commit(delta)]))
            elif "new_offset" not in event or "old_offset" in event or self._has_offsets:
                return event
            else:
                # An initial value.
                del event["new_offset"]
                return event

    def _commit(self, first: Delta) -> Iterator[Any]:
        """The events of the commit that the delta is of, and what was polled after them."""
        found, commit = [first], first.change.commit
        following = self._subscription.poll()
        while True:
            if following is NOTHING and self._is_half_told(first):
                following = self._subscription.poll()
            delta = following.pop(DELTA, None) if isinstance(following, dict) else None
            if delta is None or delta.change.commit != commit:
                break
            found.append(delta)
            following = self._subscription.poll()
        yield from self._events(found)
        if delta is not None:
            following[DELTA] = delta
        if following is not NOTHING:
            yield following

    def _is_half_told(self, delta: Delta) -> bool:
        """Whether the commit was being told just now; when this returns it is told."""
        engine = self._subscription.request.hub.engine
        if delta.seq <= engine.published:
            return False
        with engine.publish_lock:
            return True

    def _events(self, deltas: Sequence[Delta]) -> Iterator[Event]:
        for step in self._steps(deltas):
            net = step if len({delta.seq for delta in step}) == 1 else self._net(step)
            told = [delta for delta in net if self._has_offsets or not is_move(delta)]
            if not self._has_offsets and net is not step:
                # By places a value may go at one and come at another; who hears of no places hears nothing of that.
                old, new = net_sides(told)
                if max(len(old), len(new)) < len(told):
                    told = list(paired(old, new))
            yield from map(self._rendered, told)

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
            for edit in edits(before, after, same)
            if not is_nothing(edit)
        ]

    def _name_of(self, value: Any) -> Hashable:
        """What tells one document of the list from another, where its value does; None where it does not."""
        key = value.get(self._primary_key) if isinstance(value, dict) else None
        return None if key is None else spelling(key)

    def _rendered(self, delta: Delta) -> Event:
        event: Event = {"old_val": delta.old_val, "new_val": delta.new_val}
        old, new = delta.old_val, delta.new_val
        if self._has_offsets:
            old = event["old_offset"] = delta.old_offset
            new = event["new_offset"] = delta.new_offset
        if self._has_types:
            event["type"] = "add" if old is None else "remove" if new is None else "change"
        return event


class Place:
    """What stands at one offset of the list. `value` is UNKNOWN until an event says it."""

    __slots__ = ("identity", "value")

    def __init__(self, value: Any = UNKNOWN, identity: Hashable = None) -> None:
        self.value = value
        self.identity = object() if identity is None else identity


class Replay:
    """Two lists that are worked out from the deltas between them, as far as these reach."""

    def __init__(self, name_of: Callable[[Any], Hashable]) -> None:
        self._name_of = name_of
        self._before: list[Place] = []
        self._now: list[Place] = []
        # Name -> identities of what left: if it comes back, it was only away.
        self._away: defaultdict[Hashable, list[Hashable]] = defaultdict(list)

    def lists(self, deltas: Sequence[Delta]) -> tuple[list[Place], list[Place]]:
        for delta in deltas:
            if delta.old_offset is not None:
                self._reach(delta.old_offset + 1)
                left = self._now.pop(delta.old_offset)
                left.value = delta.old_val
                self._away[self._name_of(delta.old_val)].append(left.identity)
            if delta.new_offset is not None:
                self._reach(delta.new_offset)
                name = self._name_of(delta.new_val)
                identity = self._away[name].pop() if name is not None and self._away[name] else None
                self._now.insert(delta.new_offset, Place(delta.new_val, identity))
        return self._before, self._now

    def _reach(self, length: int) -> None:
        """Both lists go on with what nobody has touched."""
        while len(self._now) < length:
            place = Place()
            self._before.append(place)
            self._now.append(place)


def same(old: Any, new: Any) -> bool:
    return old is new or (old is not UNKNOWN and new is not UNKNOWN and same_value(old, new))


def is_nothing(edit: Edit) -> bool:
    """Another document, but to the reader the same value at the same place."""
    return (
        edit.leaving is not None
        and edit.entering is not None
        and edit.old_offset == edit.new_offset
        and same(edit.leaving.value, edit.entering.value)
    )


def is_move(delta: Delta) -> bool:
    """Only the place is another, which who asked for no offsets does not hear of."""
    return same(delta.old_val, delta.new_val)
