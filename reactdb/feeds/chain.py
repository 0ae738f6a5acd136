"""Chain: readers of one view who ask for events share one queue: a change is linked to its end once, and each reader has a place
in it. What all have read is held by nobody and gone.

    publish          one link, however many readers there are; only those are woken who said that they sleep
    ChainQueue       a reader's place: what `queue.FeedQueue` is to who has a queue of its own

Each reader has room for as many changes as a queue would have. What it has not read beyond that is found to be dropped when it
reads; so that what nobody will read is not kept, readers far behind are moved on now and then.

Rule of this file: the publisher links and moves on, a reader reads, and neither waits for the other. Whoever is moved on knows by
the numbers of the links what it has missed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from reactdb.feeds.views.base import AnyDelta

if TYPE_CHECKING:
    from reactdb.feeds.subscription import Subscription

# Changes between two looks for readers that are too far behind.
LOOKS = 64


class Link:
    """A change, and the way to the next one. The last link is empty: it is for what comes next."""

    __slots__ = ("delta", "next", "number")

    delta: AnyDelta

    def __init__(self, number: int) -> None:
        self.number = number
        self.next: Link | None = None


class Chain:
    """See the head of this file. `publish`, `add` and `remove` are called under the publish lock.

    Attributes:
        tail: The empty link at the end.
        members: Who reads.
        sleepers: Who is to be woken when something comes. Any thread adds itself.
    """

    __slots__ = ("_limit", "_look_at", "members", "sleepers", "tail")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.tail = Link(0)
        self.members: dict[Subscription, ChainQueue] = {}
        self.sleepers: dict[Subscription, None] = {}
        self._look_at = limit + LOOKS

    def add(self, member: Subscription) -> None:
        queue = self.members[member] = ChainQueue(self, self._limit)
        member.chained(queue)

    def remove(self, member: Subscription) -> None:
        self.members.pop(member, None)
        self.sleepers.pop(member, None)

    @property
    def is_empty(self) -> bool:
        return not self.members

    def publish(self, deltas: Sequence[AnyDelta]) -> None:
        """Link what one change does."""
        tail = self.tail
        for delta in deltas:
            tail.delta = delta
            # Whoever sees the next link sees the change.
            tail.next = tail = Link(tail.number + 1)
        self.tail = tail
        if self.sleepers:
            for member in list(self.sleepers):
                self.sleepers.pop(member, None)
                member.wake()
        if tail.number >= self._look_at:
            self._move_on()

    def _move_on(self) -> None:
        """Readers too far behind go on where they would when they read."""
        floor = self.tail.number - self._limit
        late = [queue for queue in self.members.values() if queue.at.number < floor]
        if late:
            link: Link | None = max((queue.at for queue in late), key=_number)
            while link is not None and link.number < floor:
                link = link.next
            for queue in late:
                # It may be reading just now, and go back by doing so: then it is late again.
                if link is not None:
                    queue.at = link
        self._look_at = self.tail.number + max(LOOKS, len(self.members))


class ChainQueue:
    """A reader's place in the chain, as a queue that is only taken from.

    Attributes:
        chain: Whose.
        at: The next link to read, or one before it.
    """

    __slots__ = ("_dropped", "_limit", "_place", "_stop", "at", "chain")

    is_squashed = False

    def __init__(self, chain: Chain, limit: int) -> None:
        self.chain = chain
        self.at = chain.tail
        # The number of the link that it reads next, if it can still be had.
        self._place = self.at.number
        self._limit = limit
        self._dropped = 0
        # After its end, nothing is added for it.
        self._stop: int | None = None

    @property
    def _end(self) -> int:
        return self.chain.tail.number if self._stop is None else self._stop

    def stop(self) -> None:
        """What is linked from now on is not for this reader. Under the publish lock."""
        if self._stop is None:
            self._stop = self.chain.tail.number

    def __len__(self) -> int:
        return min(self._end - self._place, self._limit)

    @property
    def dropped(self) -> int:
        return self._dropped + max(0, self._end - self._place - self._limit)

    def carry(self, dropped: int) -> None:
        """It goes on with this reader's queue, that has dropped so many."""
        self._dropped += dropped

    def has_room(self, deltas: Sequence[AnyDelta]) -> bool:
        return True

    def add(self, deltas: Sequence[AnyDelta]) -> None:
        raise TypeError("what is added to the chain is added for all")

    put = add

    def take(self) -> deque[AnyDelta] | None:
        found = self._first()
        if found is None:
            return None
        link, delta = found
        self._dropped += link.number - self._place
        self._place = link.number + 1
        # Read, and let go of: what nobody else has to read is gone.
        self.at = link.next or link
        return deque((delta,))

    def _first(self) -> tuple[Link, AnyDelta] | None:
        """The link to be read next."""
        end = self._end
        number = max(self._place, end - self._limit)
        if number >= end:
            return None
        link = self.at
        while link.number < number:
            if link.next is None:
                return None
            link = link.next
        return link, link.delta

    @property
    def first_seq(self) -> int | None:
        found = self._first()
        return None if found is None else found[1].seq

    @property
    def first_time(self) -> int | None:
        found = self._first()
        return None if found is None else found[1].time

    def clear(self) -> None:
        """Nothing more, and nothing held."""
        self._stop = self._place
        self.at = Link(self._place)


def _number(link: Link) -> int:
    return link.number
