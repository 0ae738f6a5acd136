"""What one subscriber has not been told yet: FeedQueue for every step, SquashQueue for the net difference.

Bounded, because a reader that stops reading must not fill the writer's memory. What is dropped is the earliest, it is counted,
and the count is the next thing the reader hears.

One thread adds (whoever publishes, one at a time) while another takes. Rule of this file: no threads of its own, no clock, no
Rx. Whoever calls it brings those.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Protocol

from reactdb.change import Change
from reactdb.feeds.pipeline import same_value
from reactdb.feeds.views.base import AnyDelta, Delta, identity_of
from reactdb.values.canonical import spelling
from reactdb.values.codec import same_bytes


class Queue(Protocol):
    """What a subscription asks of its queue.

    Attributes:
        is_squashed: It tells batches, not steps.
    """

    is_squashed: bool

    @property
    def dropped(self) -> int:
        """Deltas that were dropped, ever."""

    def __len__(self) -> int: ...

    def has_room(self, deltas: Sequence[AnyDelta]) -> bool:
        """Whether these fit without dropping any."""

    def add(self, deltas: Sequence[AnyDelta]) -> None:
        """Put in what one change did; where there is no room, the earliest go."""

    def put(self, deltas: Sequence[AnyDelta]) -> None:
        """The same without the bound, for who reads from the log at his own pace."""

    def take(self) -> deque[AnyDelta] | None:
        """What there is to tell: with squashing all of it as one batch, else the queue itself, to be emptied from the left
        while others add on the right."""

    @property
    def first_seq(self) -> int | None:
        """The earliest change that is not told; None where all are."""

    @property
    def first_time(self) -> int | None:
        """When that was, in milliseconds since 1970."""

    def clear(self) -> None: ...


class FeedQueue:
    """Every delta, in order.

    The deque is made when there is something to keep (an empty one takes 750 bytes, and most feeds are idle most of the time).
    A deque's `append` and `popleft` are atomic, so no lock is needed between the one who adds and the one who takes.

    Attributes:
        held: The deque.
        limit: As many deltas as it holds.
    """

    __slots__ = ("dropped", "held", "limit")

    is_squashed = False

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held: deque[AnyDelta] | None = None
        self.dropped = 0

    def __len__(self) -> int:
        return 0 if self.held is None else len(self.held)

    def has_room(self, deltas: Sequence[AnyDelta]) -> bool:
        return len(self) + len(deltas) <= self.limit

    def put(self, deltas: Sequence[AnyDelta]) -> None:
        if self.held is None:
            self.held = deque()
        self.held.extend(deltas)

    def add(self, deltas: Sequence[AnyDelta]) -> None:
        queue = self.held
        if queue is None:
            queue = self.held = deque()
        queue.extend(deltas)
        while len(queue) > self.limit:
            try:
                queue.popleft()
            except IndexError:
                return
            self.dropped += 1

    def take(self) -> deque[AnyDelta] | None:
        return self.held or None

    @property
    def first_seq(self) -> int | None:
        first = self._first()
        return None if first is None else first.seq

    @property
    def first_time(self) -> int | None:
        first = self._first()
        return None if first is None else first.time

    def _first(self) -> AnyDelta | None:
        try:
            return None if self.held is None else self.held[0]
        except IndexError:
            return None

    def clear(self) -> None:
        self.held = None


class SquashQueue:
    """For each place in the result, its value when it was last told and its value now.

    An entry keeps the place in line of its first change; one that came back to where it was is nothing, and goes.
    """

    __slots__ = ("_has_groups", "_has_pairs", "_limit", "_lock", "_pending", "dropped")

    is_squashed = True

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # Re-entrant, because a finalizer may look at the queue while this very thread adds to it.
        self._lock = threading.RLock()
        # identity -> the first delta and the last one.
        self._pending: dict[Hashable, tuple[AnyDelta, AnyDelta]] = {}
        # Whether entries are of groups, whose values are counted and not known by their place.
        self._has_groups = False
        # Whether one step was about two places: what left the one and came to the other is told together.
        self._has_pairs = False
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._pending)

    def has_room(self, deltas: Sequence[AnyDelta]) -> bool:
        pending = self._pending
        if len(pending) + 2 * len(deltas) <= self._limit:
            return True
        names = {delta.leaving for delta in deltas if type(delta) is Delta and delta.leaving is not None}
        names.update(map(identity_of, deltas))
        # A document that is queued already takes no more room, however often it changes.
        return len(pending) + sum(name not in pending for name in names) <= self._limit

    def put(self, deltas: Sequence[AnyDelta]) -> None:
        with self._lock:
            self._fold(deltas)

    def add(self, deltas: Sequence[AnyDelta]) -> None:
        with self._lock:
            self._fold(deltas)
            pending = self._pending
            while len(pending) > self._limit:
                del pending[next(iter(pending))]
                self.dropped += 1

    def _fold(self, deltas: Sequence[AnyDelta]) -> None:
        for delta in deltas:
            if type(delta) is Change:
                self._fold_one((delta.table_id, delta.key_bytes), delta)
                continue
            if type(delta) is Delta and delta.group is not None:
                self._has_groups = True
            if type(delta) is Delta and delta.leaving is not None:
                # One place in the result was left and another taken: each has its own net difference.
                self._has_pairs = True
                self._fold_one(delta.leaving, Delta(delta.change, delta.old_val, None, group=delta.group))
                delta = Delta(delta.change, None, delta.new_val, identity=delta.identity, group=delta.group)
            self._fold_one(identity_of(delta), delta)

    def _fold_one(self, identity: Hashable, delta: AnyDelta) -> None:
        pending = self._pending
        entry = pending.get(identity)
        if entry is None:
            pending[identity] = (delta, delta)
        elif is_undone(entry[0], delta):
            del pending[identity]
        else:
            pending[identity] = (entry[0], delta)

    def take(self) -> deque[AnyDelta] | None:
        with self._lock:
            pending, self._pending = self._pending, {}
            has_groups, self._has_groups = self._has_groups, False
            has_pairs, self._has_pairs = self._has_pairs, False
        if not pending:
            return None
        found = deque(folded(first, last, identity) for identity, (first, last) in pending.items())
        return (counted(found, has_pairs=has_pairs) if has_groups else found) or None

    @property
    def first_seq(self) -> int | None:
        first = self._first()
        return None if first is None else first.seq

    @property
    def first_time(self) -> int | None:
        first = self._first()
        return None if first is None else first.time

    def _first(self) -> AnyDelta | None:
        with self._lock:
            for first, _ in self._pending.values():
                return first
        return None

    def clear(self) -> None:
        with self._lock:
            self._pending = {}


def counted(deltas: deque[AnyDelta], *, has_pairs: bool) -> deque[AnyDelta]:
    """The net differences of places, as those of groups: which place a value has in its group is not told, so one that left
    a place while an equal one took another is nothing to tell of.

    Where steps told of two places together (`has_pairs`) these do so, too: else they would be more than the steps were.
    """
    groups: dict[Hashable, list[AnyDelta]] = {}
    for delta in deltas:
        groups.setdefault(spelling(delta.group) if isinstance(delta, Delta) else None, []).append(delta)
    if len(groups) == len(deltas):
        return deltas
    found: deque[AnyDelta] = deque()
    for members in groups.values():
        old, new = net_sides(members)
        sides = sum((one.old_val is not None) + (one.new_val is not None) for one in members)
        if len(old) + len(new) < sides or (has_pairs and max(len(old), len(new)) < len(members)):
            found.extend(paired(old, new))
        else:
            found.extend(members)
    return found


def net_sides(deltas: Iterable[AnyDelta]) -> tuple[list[AnyDelta], list[AnyDelta]]:
    """(those whose old value goes, those whose new value comes), without the values that go at one place and come at another."""
    gone = [(spelling(one.old_val), one) for one in deltas if one.old_val is not None]
    come = [(spelling(one.new_val), one) for one in deltas if one.new_val is not None]
    stays = Counter(name for name, _ in gone) & Counter(name for name, _ in come)
    return _without(gone, stays), _without(come, stays)


def paired(old: Sequence[AnyDelta], new: Sequence[AnyDelta]) -> Iterator[Delta]:
    """A value that goes with one that comes, as far as there are both; for who hears of no places."""
    for left, came in zip_longest(old, new):
        last = came or left
        assert isinstance(last, Delta)
        old_val = None if left is None else left.old_val
        new_val = None if came is None else came.new_val
        yield Delta(last.change, old_val, new_val, identity=last.identity, group=last.group)


def _without(
    named: Sequence[tuple[tuple[int, bytes], AnyDelta]], stays: Counter[tuple[int, bytes]]
) -> list[AnyDelta]:
    left = Counter(stays)
    found = []
    for name, delta in named:
        if left[name] > 0:
            left[name] -= 1
        else:
            found.append(delta)
    return found


def is_undone(first: AnyDelta, last: AnyDelta) -> bool:
    """Whether the last delta ends where the first began."""
    if type(first) is Change and type(last) is Change:
        # Bytes tell, without decoding.
        old, new = first.old_bytes, last.new_bytes
        return old is new if old is None or new is None else same_bytes(old, new)
    old_val, new_val = first.old_val, last.new_val
    return (old_val is None and new_val is None) or same_value(old_val, new_val)


def folded(first: AnyDelta, last: AnyDelta, identity: Hashable) -> AnyDelta:
    """From the beginning of the first to the end of the last."""
    if first is last:
        return first
    change = last.change if type(last) is Delta else last
    assert isinstance(change, Change)
    group = last.group if isinstance(last, Delta) else None
    return Delta(change, first.old_val, last.new_val, identity=identity, group=group)
