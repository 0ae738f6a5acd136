"""Queues: the undelivered deltas of a subscriber with a queue of its own.

    FeedQueue       every step
    CommitQueue     every step, in whole commits
    SquashQueue     for each position in the result, the net difference
    OrderedQueue    the same for results that are lists
    UnionQueue      the same for unions: one queue for each member
    Pace            when net differences are taken from the last three, and whether they are delivered one by one

Bounded, because a reader that stops reading must not fill the writer's memory. The earliest deltas are dropped and
counted, and the count is delivered next. (Subscribers with the same events share a queue: see `broadcast`.)

One thread (the publishing thread) adds while another takes. Rule of this file: no threads of its own, no clock, no
Rx. The caller brings those.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby, zip_longest
from operator import attrgetter
from typing import Any, Protocol

from reactdb.change import Change
from reactdb.feeds.edits import compute_edits
from reactdb.feeds.pipeline import same_value
from reactdb.feeds.views.base import AnyDelta, Delta, Initial, Order, change_of, identity_of
from reactdb.values.canonical import spelling
from reactdb.values.codec import same_bytes

# A timer that fires this much early still fires: clocks round.
EARLY_S = 0.0005


class Queue(Protocol):
    """The interface of every queue for a subscription."""

    @property
    def dropped(self) -> int:
        """Deltas that were dropped, ever."""

    @property
    def first(self) -> AnyDelta | CommitDeltas | None:
        """The earliest delta, or the change or the commit of it, that waits; None where nothing does."""

    def __len__(self) -> int: ...

    def clear(self) -> None: ...


class OwnQueue(Queue, Protocol):
    """The interface of a subscription's own queue."""

    def has_room(self, deltas: Sequence[AnyDelta]) -> bool:
        """Whether these fit without dropping any."""

    def add(self, deltas: Sequence[AnyDelta]) -> None:
        """Put in the deltas of one change; without room, the earliest are dropped."""

    def put(self, deltas: Sequence[AnyDelta]) -> None:
        """The same without the bound, for a subscription that reads from the log at its own pace."""


class BatchQueue(OwnQueue, Protocol):
    """A queue that squashes."""

    def take_batch(self) -> deque[AnyDelta] | None:
        """All that waits as net differences; None where these are nothing."""


class Pace:
    """When net differences are taken out of a queue, and the batch in delivery, whole or not at all.

    Times are in seconds, on the caller's clock.

    Attributes:
        batch: The rest of the batch; empty while it is being taken, None without a batch.
        before: Everything up to this seq was delivered before the batch.
        due_at: When the next batch is due.
    """

    __slots__ = ("_interval_s", "_limit", "batch", "before", "due_at")

    def __init__(self, interval_s: float, limit: int, now: float) -> None:
        """`interval_s`: 0 takes the differences at each poll. The first batch is the opening of the subscription."""
        self._interval_s = interval_s
        self._limit = limit
        self.batch: deque[AnyDelta] | None = None
        self.before = 0
        self.due_at = now + interval_s

    def is_due(self, now: float) -> bool:
        """Whether the time of the next batch has come."""
        return not self._interval_s or now + EARLY_S >= self.due_at

    def is_full(self, queue: Queue) -> bool:
        """Whether the queue gets full, so that its time is not waited for."""
        return 2 * len(queue) > self._limit

    def wait(self, now: float) -> None:
        """The next batch is due an interval from now."""
        self.due_at = now + self._interval_s

    def take(self, queue: BatchQueue, position: int, now: float) -> deque[AnyDelta] | None:
        """The next batch; None where the net difference is nothing, after which no interval is waited for. `position`: up to
        there everything is delivered."""
        self.before = position
        # In the batch before it leaves the queue: the figures must not say in between that all is delivered.
        self.batch = deque()
        batch = self.batch = queue.take_batch()
        if batch:
            self.wait(now)
        return batch

    def rest(self) -> list[AnyDelta]:
        """The rest of the batch."""
        assert self.batch is not None
        deltas, self.batch = list(self.batch), None
        return deltas

    def next(self) -> AnyDelta:
        """The next delta of the batch."""
        assert self.batch is not None
        delta = self.batch.popleft()
        if not self.batch:
            self.batch = None
        return delta


class FeedQueue:
    """Every delta, in order.

    The deque is made when the first delta comes (an empty one takes 750 bytes, and most feeds are idle most of the
    time). A deque's `append` and `popleft` are atomic, so the adding and the taking thread need no lock.

    Attributes:
        held: The deque.
    """

    __slots__ = ("_limit", "dropped", "held")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.held: deque[AnyDelta] | None = None
        self.dropped = 0

    def __len__(self) -> int:
        return 0 if self.held is None else len(self.held)

    def has_room(self, deltas: Sequence[AnyDelta]) -> bool:
        return len(self) + len(deltas) <= self._limit

    def put(self, deltas: Sequence[AnyDelta]) -> None:
        if self.held is None:
            self.held = deque()
        self.held.extend(deltas)

    def add(self, deltas: Sequence[AnyDelta]) -> None:
        queue = self.held
        if queue is None:
            queue = self.held = deque()
        queue.extend(deltas)
        while len(queue) > self._limit:
            try:
                queue.popleft()
            except IndexError:
                return
            self.dropped += 1

    def next(self, reported: int) -> AnyDelta | int | None:
        """Returns: the number of dropped deltas, if it is more than `reported`; otherwise the next delta, or None without one."""
        dropped = self.dropped
        if dropped != reported:
            return dropped - reported
        try:
            return self.held.popleft() if self.held else None
        except IndexError:
            # Dropped just now.
            return None

    @property
    def first(self) -> AnyDelta | None:
        try:
            return None if self.held is None else self.held[0]
        except IndexError:
            return None

    def clear(self) -> None:
        self.held = None


@lru_cache(maxsize=64)
def empty_queue(limit: int) -> FeedQueue:
    """The common queue of very many feeds, of at most `limit` deltas. Nothing is ever put into it."""
    return FeedQueue(limit)


class CommitDeltas:
    """The deltas of one commit.

    Attributes:
        deltas: In the order of the log; at least one.
    """

    __slots__ = ("deltas",)

    def __init__(self, deltas: Sequence[AnyDelta]) -> None:
        self.deltas = deltas

    @property
    def seq(self) -> int:
        """That of the commit's first change: nothing of the commit is delivered before it all is."""
        return change_of(self.deltas[0]).commit

    @property
    def time(self) -> int:
        return self.deltas[0].time


class CommitQueue:
    """Every delta, in order, in its commit: a commit is taken, or dropped, as a whole.

    The bound is on deltas. A commit of more than that has room where nothing else is queued.
    """

    __slots__ = ("_count", "_held", "_limit", "_lock", "dropped")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # Re-entrant, as `SquashQueue` says.
        self._lock = threading.RLock()
        self._held: deque[CommitDeltas] = deque()
        self._count = 0
        self.dropped = 0

    def __len__(self) -> int:
        return self._count

    def has_room(self, deltas: Sequence[AnyDelta]) -> bool:
        count = self._count
        return not count or count + len(deltas) <= self._limit

    def put(self, deltas: Sequence[AnyDelta]) -> None:
        with self._lock:
            for _, group in groupby(deltas, key=_commit_of):
                self._append(list(group))

    def add(self, deltas: Sequence[AnyDelta]) -> None:
        with self._lock:
            self._append(deltas)
            while self._count > self._limit and len(self._held) > 1:
                self.dropped += len(self._pop().deltas)

    def _append(self, deltas: Sequence[AnyDelta]) -> None:
        self._held.append(CommitDeltas(deltas))
        self._count += len(deltas)

    def _pop(self) -> CommitDeltas:
        entry = self._held.popleft()
        self._count -= len(entry.deltas)
        return entry

    def remove_until(self, seq: int) -> None:
        """Without the commits that begin at or before `seq`, as if they had never been added."""
        with self._lock:
            while self._held and self._held[0].seq <= seq:
                self._pop()

    def next(self, reported: int) -> Sequence[AnyDelta] | int | None:
        """As `FeedQueue.next`, with the deltas of a whole commit."""
        with self._lock:
            if self.dropped != reported:
                return self.dropped - reported
            return self._pop().deltas if self._held else None

    @property
    def first(self) -> CommitDeltas | None:
        with self._lock:
            return self._held[0] if self._held else None

    def clear(self) -> None:
        with self._lock:
            self._held.clear()
            self._count = 0


def _commit_of(delta: AnyDelta) -> int:
    return change_of(delta).commit


class SquashQueue:
    """For each position in the result, its value when it was last delivered and its value now.

    An entry keeps the place in line of its first change; an entry that returns to its first value is removed.
    """

    __slots__ = ("_first", "_has_groups", "_has_pairs", "_limit", "_lock", "_pending", "dropped")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # Re-entrant, because a finalizer may look at the queue while this very thread adds to it.
        self._lock = threading.RLock()
        # identity -> the first delta and the last one.
        self._pending: dict[Hashable, tuple[AnyDelta, AnyDelta]] = {}
        self._first: AnyDelta | None = None
        # Whether entries belong to groups: their values are counted and have no known positions.
        self._has_groups = False
        # Whether one step was about two positions: the removal from one and the addition to the other are delivered
        # together.
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
        # A queued document takes no more room, however often it changes.
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
        if deltas and not self._pending:
            self._first = deltas[0]
        for delta in deltas:
            if type(delta) is Change:
                self._fold_one((delta.table, delta.table_id, delta.key_bytes), delta)
                continue
            if type(delta) is Delta and delta.group is not None:
                self._has_groups = True
            if type(delta) is Delta and delta.leaving is not None:
                # One position in the result was left and another taken: each has its own net difference.
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

    def take_batch(self) -> deque[AnyDelta] | None:
        with self._lock:
            pending, self._pending = self._pending, {}
            has_groups, self._has_groups = self._has_groups, False
            has_pairs, self._has_pairs = self._has_pairs, False
        if not pending:
            return None
        deltas = deque(fold(first, last, identity) for identity, (first, last) in pending.items())
        return (net_by_group(deltas, has_pairs=has_pairs) if has_groups else deltas) or None

    @property
    def first(self) -> AnyDelta | None:
        """The first folded delta, also where its entry returned to its first value: the others begin from that
        state."""
        with self._lock:
            return self._first if self._pending else None

    def clear(self) -> None:
        with self._lock:
            self._pending = {}


def net_by_group(deltas: deque[AnyDelta], *, has_pairs: bool) -> deque[AnyDelta]:
    """Turn the net differences of each position into net differences of each group. Subscribers see the values of a
    group, and not their positions: a value that left one position while an equal value took another is no difference
    for them.

    `has_pairs`: Some steps were an old and a new value in one event. Then old and new values are paired here, too, or
    there would be more events than steps.
    """
    groups: dict[Hashable, list[AnyDelta]] = {}
    for delta in deltas:
        groups.setdefault(spelling(delta.group) if isinstance(delta, Delta) else None, []).append(delta)
    if len(groups) == len(deltas):
        return deltas
    result: deque[AnyDelta] = deque()
    for members in groups.values():
        old, new = net_sides(members)
        sides = sum((one.old_val is not None) + (one.new_val is not None) for one in members)
        if len(old) + len(new) < sides or (has_pairs and max(len(old), len(new)) < len(members)):
            result.extend(pair_values(old, new))
        else:
            result.extend(members)
    return result


def net_sides(deltas: Iterable[AnyDelta]) -> tuple[list[AnyDelta], list[AnyDelta]]:
    """(deltas whose old value is removed, deltas whose new value is added), without values that leave one position
    and enter another."""
    gone = [(spelling(one.old_val), one) for one in deltas if one.old_val is not None]
    come = [(spelling(one.new_val), one) for one in deltas if one.new_val is not None]
    stays = Counter(name for name, _ in gone) & Counter(name for name, _ in come)
    return _remove_named(gone, stays), _remove_named(come, stays)


def pair_values(old: Sequence[AnyDelta], new: Sequence[AnyDelta]) -> Iterator[Delta]:
    """Pair removed values with added ones, as far as there are both; for subscribers without offsets."""
    for left, came in zip_longest(old, new):
        last = came or left
        assert isinstance(last, Delta)
        old_val = None if left is None else left.old_val
        new_val = None if came is None else came.new_val
        yield Delta(last.change, old_val, new_val, identity=last.identity, group=last.group)


def _remove_named(
    named: Sequence[tuple[tuple[int, bytes], AnyDelta]], stays: Counter[tuple[int, bytes]]
) -> list[AnyDelta]:
    left = Counter(stays)
    kept = []
    for name, delta in named:
        if left[name] > 0:
            left[name] -= 1
        else:
            kept.append(delta)
    return kept


def is_undone(first: AnyDelta, last: AnyDelta) -> bool:
    """Whether the last delta ends where the first began."""
    if type(first) is Change and type(last) is Change:
        # The bytes show it, without decoding.
        old, new = first.old_bytes, last.new_bytes
        return old is new if old is None or new is None else same_bytes(old, new)
    old_val, new_val = first.old_val, last.new_val
    return (old_val is None and new_val is None) or same_value(old_val, new_val)


def fold(first: AnyDelta, last: AnyDelta, identity: Hashable) -> AnyDelta:
    """From the beginning of the first to the end of the last."""
    if first is last:
        return first
    change = last.change if type(last) is Delta else last
    assert isinstance(change, Change)
    group = last.group if isinstance(last, Delta) else None
    return Delta(change, first.old_val, last.new_val, identity=identity, group=group)


class ListItem:
    """The element at one offset of a delivered list.

    `name` is the view's, of the document; `identity` is this queue's. They differ, because a view need not report
    that one document replaced another with an equal value. So a name may be out of date, and occur twice.

    Attributes:
        moment: The seq of the change that put it there, or, after its removal, of the removing change.
    """

    __slots__ = ("identity", "moment", "name", "value")

    def __init__(self, name: Hashable, value: Any, identity: Hashable, moment: int = 0) -> None:
        self.name = name
        self.value = value
        self.identity = identity
        self.moment = moment


moment_of = attrgetter("moment")


class OrderedQueue:
    """Squashing for a list as the result: the last delivered list and the present list.

    Offsets cannot be folded delta by delta: each offset counts in the list after the delta before. So the edits from
    the delivered list to the present one are delivered. A subscriber without offsets gets values alone: a value that
    leaves one offset and enters another is no difference. It needs no bound of its own: both lists are as long as the
    result.
    """

    __slots__ = (
        "_away",
        "_delivered",
        "_has_offsets",
        "_last",
        "_lock",
        "_now",
        "_steps",
        "dropped",
        "first",
    )

    def __init__(self, items: Iterable[Initial], *, has_offsets: bool) -> None:
        # Re-entrant, because a finalizer may look at the queue while this very thread adds to it.
        self._lock = threading.RLock()
        self._delivered = [ListItem(item.identity, item.value, object()) for item in items]
        self._now = list(self._delivered)
        # Name -> identity of elements that left the list since the last delivery: if an element returns, it keeps its
        # identity.
        self._away: dict[Hashable, Hashable] = {}
        self._has_offsets = has_offsets
        self.first: Change | None = None
        self._last: Change | None = None
        self._steps = 0
        self.dropped = 0

    def __len__(self) -> int:
        return self._steps

    def has_room(self, deltas: Sequence[AnyDelta]) -> bool:
        return True

    def add(self, deltas: Sequence[AnyDelta]) -> None:
        with self._lock:
            for delta in deltas:
                assert isinstance(delta, Delta)
                if delta.old_offset is not None:
                    left = self._now.pop(delta.old_offset)
                    left.moment = delta.seq
                    self._away[left.name] = left.identity
                if delta.new_offset is not None:
                    name = delta.identity
                    self._now.insert(
                        delta.new_offset,
                        ListItem(name, delta.new_val, self._away.pop(name, None) or object(), delta.seq),
                    )
                if self.first is None:
                    self.first = delta.change
                self._last = delta.change
                self._steps += 1

    put = add

    def take_batch(self) -> deque[AnyDelta] | None:
        with self._lock:
            change, delivered, now = self._last, self._delivered, self._now
            if change is None:
                return None
            self._delivered, self._now = now, list(now)
            self._away = {}
            self.first = self._last = None
            self._steps = 0
        if len(delivered) == len(now) and all(
            old is new or same_value(old.value, new.value) for old, new in zip(delivered, now, strict=True)
        ):
            # Elements that look alike may have been exchanged: to the reader it is the same list.
            return None
        deltas: deque[AnyDelta] = deque()
        for edit in compute_edits(delivered, now, same_value, moment_of):
            old_val = None if edit.leaving is None else edit.leaving.value
            new_val = None if edit.entering is None else edit.entering.value
            # Without offsets, a null is no value: it comes and goes unseen.
            is_move = same_value(old_val, new_val)
            if is_move and (not self._has_offsets or edit.old_offset == edit.new_offset):
                # Another document, or another position, but to the reader the same.
                continue
            identity = edit.entering.identity if edit.entering is not None else None
            deltas.append(
                Delta(change, old_val, new_val, edit.old_offset, edit.new_offset, identity, is_move=is_move)
            )
        if not self._has_offsets:
            old, new = net_sides(deltas)
            if max(len(old), len(new)) < len(deltas):
                # As when the last one moves up, where one null was replaced by another: the steps may have delivered
                # nothing.
                deltas = deque(pair_values(old, new))
        return deltas or None

    def clear(self) -> None:
        with self._lock:
            self.first = self._last = None
            self._steps = 0


def squash_queue(limit: int, order: Order, *, has_offsets: bool) -> BatchQueue:
    """The queue for a result with that order, or with none; `has_offsets` is whether the reader gets offsets in it."""
    if isinstance(order, tuple):
        return UnionQueue([squash_queue(limit, member, has_offsets=has_offsets) for member in order])
    return SquashQueue(limit) if order is None else OrderedQueue(order, has_offsets=has_offsets)


class UnionQueue:
    """Squashing for a union: a queue for each member, because each member is a result of its own.

    A member with an order needs a queue that knows its list, and must not hold up the others. A batch has all
    members' net differences: each member's in the order of its queue, and of two members the earlier change first.
    Each member has its own bound.
    """

    __slots__ = ("_lock", "_members")

    def __init__(self, members: Sequence[BatchQueue]) -> None:
        self._members = list(members)
        # The deltas of one change are taken from all members or from none. Re-entrant, as `SquashQueue` says.
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return max(map(len, self._members))

    @property
    def dropped(self) -> int:
        return sum(member.dropped for member in self._members)

    def has_room(self, deltas: Sequence[AnyDelta]) -> bool:
        return all(member.has_room(part) for member, part in self._parts(deltas))

    def add(self, deltas: Sequence[AnyDelta]) -> None:
        with self._lock:
            for member, part in self._parts(deltas):
                member.add(part)

    def put(self, deltas: Sequence[AnyDelta]) -> None:
        with self._lock:
            for member, part in self._parts(deltas):
                member.put(part)

    def _parts(self, deltas: Sequence[AnyDelta]) -> list[tuple[BatchQueue, list[AnyDelta]]]:
        parts: dict[int, list[AnyDelta]] = {}
        for delta in deltas:
            parts.setdefault(delta.member if type(delta) is Delta else 0, []).append(delta)
        return [(self._members[number], part) for number, part in parts.items()]

    def take_batch(self) -> deque[AnyDelta] | None:
        with self._lock:
            batches = [batch for member in self._members if (batch := member.take_batch())]
        deltas: deque[AnyDelta] = deque()
        while batches:
            batch = min(batches, key=_first_seq)
            deltas.append(batch.popleft())
            if not batch:
                batches = [one for one in batches if one]
        return deltas or None

    @property
    def first(self) -> AnyDelta | CommitDeltas | None:
        firsts = [first for member in self._members if (first := member.first) is not None]
        return min(firsts, key=lambda delta: delta.seq, default=None)

    def clear(self) -> None:
        for member in self._members:
            member.clear()


def _first_seq(batch: deque[AnyDelta]) -> int:
    return batch[0].seq
