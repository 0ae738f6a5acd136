"""UnionQueue: squashing for a union: a queue for each member, because each member is a result of its own.

A member with an order needs a queue that knows its list, and others must not be held up by it. What is taken is one batch of all
members' net differences: each member's in the order in which its queue gives them, and of two members the earlier change first.

Rule of this file: as for `queue`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from reactdb.feeds.ordered_queue import OrderedQueue
from reactdb.feeds.queue import Queue, SquashQueue
from reactdb.feeds.views.base import AnyDelta, Delta, Order


def squash_queue(limit: int, order: Order, *, has_offsets: bool) -> Queue:
    """The queue for a result with that order, or with none; `has_offsets` is whether the reader is told places in it."""
    if isinstance(order, tuple):
        return UnionQueue([squash_queue(limit, member, has_offsets=has_offsets) for member in order])
    return SquashQueue(limit) if order is None else OrderedQueue(order, has_offsets=has_offsets)


class UnionQueue:
    """See the head of this file. The bound is each member's."""

    __slots__ = ("_lock", "_members")

    is_squashed = True

    def __init__(self, members: Sequence[Queue]) -> None:
        self._members = list(members)
        # What one change does is taken from all members or from none. Re-entrant, as `SquashQueue` says.
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

    def _parts(self, deltas: Sequence[AnyDelta]) -> list[tuple[Queue, list[AnyDelta]]]:
        parts: dict[int, list[AnyDelta]] = {}
        for delta in deltas:
            parts.setdefault(delta.member if type(delta) is Delta else 0, []).append(delta)
        return [(self._members[number], part) for number, part in parts.items()]

    def take(self) -> deque[AnyDelta] | None:
        with self._lock:
            batches = [batch for member in self._members if (batch := member.take())]
        found: deque[AnyDelta] = deque()
        while batches:
            batch = min(batches, key=_first_seq)
            found.append(batch.popleft())
            if not batch:
                batches = [one for one in batches if one]
        return found or None

    @property
    def first_seq(self) -> int | None:
        seqs = [seq for member in self._members if (seq := member.first_seq) is not None]
        return min(seqs, default=None)

    @property
    def first_time(self) -> int | None:
        times = [time for member in self._members if (time := member.first_time) is not None]
        return min(times, default=None)

    def clear(self) -> None:
        for member in self._members:
            member.clear()


def _first_seq(batch: deque[AnyDelta]) -> int:
    return batch[0].seq
