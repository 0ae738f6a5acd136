"""Fan: subscribers of one view who are called, and want the same events, are told together: a change is queued once for all of
them, made an event once, and handed to one after the other in a loop that does nothing else.

    Roll       who is told of a change: those who were there when it was published. Who leaves is struck off at once
    Fan        the queue of (change, roll), and the telling

Each gets an event of its own, a copy of the one that was made: what is inside is shared and frozen, and the rest is its own to
change. Who raises is taken out, and the loop goes on behind it.

Thread safety: `add`, `remove` and `publish` under the publish lock; `run` by the hub's teller, one at a time; `strike` and the
figures by any thread, at any time.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import length_hint
from typing import TYPE_CHECKING, cast

from reactdb.feeds.events import Event, Render, overflow
from reactdb.feeds.teller import Teller
from reactdb.feeds.views.base import AnyDelta

if TYPE_CHECKING:
    from reactdb.feeds.hearing import Called
    from reactdb.feeds.standing import Standing
    from reactdb.feeds.subscription import Subscription

# Changes that are told before whoever else is ready gets a turn.
CHANGES_IN_A_TURN = 1_000
# Rolls that are kept before it is looked which of them are still of use.
ROLLS = 8

# The queue of a fan that has told nothing yet. One of its own takes more room than all the rest of an idle fan.
NOTHING_QUEUED: deque[tuple[AnyDelta, Roll]] = deque(maxlen=0)

OnEvent = Callable[[Event], object]


def nobody(event: Event) -> None:
    """In place of who was struck off the roll."""


def called(member: Subscription) -> Called:
    return cast("Called", member.consumer)


class Roll:
    """See the head of this file."""

    __slots__ = ("_places", "calls", "members")

    def __init__(self, members: Iterable[Subscription]) -> None:
        self.members = list(members)
        self.calls: list[OnEvent] = [called(member).on_event(member) for member in self.members]
        self._places: dict[Standing, int] | None = None

    def place(self, member: Standing) -> int | None:
        places = self._places
        if places is None:
            places = self._places = {one: place for place, one in enumerate(self.members)}
        return places.get(member)

    def strike(self, member: Subscription) -> None:
        place = self.place(member)
        if place is not None:
            self.calls[place] = nobody


class Telling:
    """One change, on its way to the members of a roll. A loop that was interrupted goes on where it was.

    Attributes:
        entry: As it was queued; None for what was skipped.
        event: None before it was made.
        rest: Whom it is still to be told to.
    """

    __slots__ = ("entry", "event", "rest", "roll")

    def __init__(self, roll: Roll, entry: tuple[AnyDelta, Roll] | None, event: Event | None) -> None:
        self.roll = roll
        self.entry = entry
        self.event = event
        self.rest: Iterator[OnEvent] = iter(roll.calls)

    @property
    def reached(self) -> int:
        """How many it was told to; whom it is being told to is the last of them."""
        return len(self.roll.calls) - length_hint(self.rest)


class Fan:
    """See the head of this file.

    Attributes:
        members: In the order in which they came.
        added: Changes that were queued, ever.
        dropped: Changes that were dropped, ever, because there were too many.
        is_awake: It is in line, or telling.
        notes: How often that was told.
        taken: The newest seq that was told, or is being told.
    """

    __slots__ = (
        "_limit",
        "_lock",
        "_mark",
        "_queue",
        "_render",
        "_roll",
        "_rolls",
        "_skipped",
        "_teller",
        "_telling",
        "added",
        "dropped",
        "is_awake",
        "members",
        "notes",
        "taken",
    )

    def __init__(self, teller: Teller, render: Render, limit: int) -> None:
        self._teller = teller
        self._render = render
        self._limit = limit
        self.members: dict[Subscription, None] = {}
        self._roll: Roll | None = None
        # All that somebody may still be told by.
        self._rolls: list[Roll] = []
        self._queue = NOTHING_QUEUED
        # Held by who takes from the left: the teller, and the publisher where there are too many.
        self._lock = threading.Lock()
        # How many were dropped that were to be told by that roll.
        self._skipped: list[tuple[int, Roll]] = []
        self._telling: Telling | None = None
        self.is_awake = False
        # Shared by all who came at the same time.
        self._mark = (0, 0, 0, 0)
        self.added = 0
        self.dropped = 0
        self.notes = 0
        self.taken = 0

    # -----------------------------------------------------------------------------------------------------------
    # Under the publish lock

    def add(self, member: Subscription) -> None:
        self.members[member] = None
        self._roll = None
        member.fanned(self)

    def remove(self, member: Subscription) -> None:
        self.members.pop(member, None)
        self._roll = None
        if not self._queue and self._telling is None:
            self._rolls = []

    @property
    def is_empty(self) -> bool:
        return not self.members

    def publish(self, deltas: Sequence[AnyDelta]) -> None:
        """Queue what one change does."""
        roll = self._roll or self._new_roll()
        queue = self._queue
        if queue is NOTHING_QUEUED:
            queue = self._queue = deque()
        for delta in deltas:
            queue.append((delta, roll))
        self.added += len(deltas)
        if len(queue) > self._limit:
            self._drop()
        if not self.is_awake:
            self.wake()

    def wake(self) -> None:
        self.is_awake = True
        self._teller.is_ready(self)

    def _new_roll(self) -> Roll:
        # In this order: what is taken from the queue is told already when it is gone from there.
        if not self._queue and self._telling is None:
            self._rolls = []
        elif len(self._rolls) > ROLLS:
            telling = self._telling
            used = {id(roll) for _, roll in list(self._queue)} | {id(roll) for _, roll in self._skipped}
            used.add(0 if telling is None else id(telling.roll))
            self._rolls = [roll for roll in self._rolls if id(roll) in used]
        roll = Roll(self.members)
        self._rolls.append(roll)
        # Who left before the roll could be found is struck off here; who leaves from now on, there.
        for place, member in enumerate(roll.members):
            if member.is_closed:
                roll.calls[place] = nobody
        self._roll = roll
        return roll

    def _drop(self) -> None:
        """The earliest go, and are counted."""
        queue, skipped = self._queue, self._skipped
        with self._lock:
            while len(queue) > self._limit:
                _, roll = queue.popleft()
                count = 1
                if skipped and skipped[-1][1] is roll:
                    count += skipped.pop()[0]
                skipped.append((count, roll))
                self.dropped += 1

    # -----------------------------------------------------------------------------------------------------------
    # By the teller

    def run(self) -> None:
        self.is_awake = False
        for _ in range(CHANGES_IN_A_TURN):
            telling = self._telling
            if telling is None:
                telling = self._next()
                if telling is None:
                    return
            elif telling.entry is not None and self._queue and self._queue[0] is telling.entry:
                # Ctrl-C struck before it was taken away.
                with self._lock:
                    del self._queue[0]
            self._tell(telling)
            self._telling = None
            if not self._queue and not self._skipped:
                return
        self.wake()

    def _next(self) -> Telling | None:
        queue = self._queue
        with self._lock:
            if self._skipped:
                count, roll = self._skipped[0]
                telling = self._telling = Telling(roll, None, overflow(count))
                self.notes += 1
                del self._skipped[0]
                return telling
            if not queue:
                return None
            entry = queue[0]
            telling = self._telling = Telling(entry[1], entry, None)
            self.taken = entry[0].seq
            # Not `popleft`: it is nowhere but in one of the two places.
            del queue[0]
            return telling

    def _tell(self, telling: Telling) -> None:
        roll, rest = telling.roll, telling.rest
        event = telling.event
        if event is None:
            assert telling.entry is not None
            try:
                event = telling.event = self._render(telling.entry[0])
            except Exception as error:
                # A document that cannot be decoded. Nothing more can be told to any of them.
                for member in roll.members:
                    member.break_off(error)
                return
            if event is None:
                return
        copy = event.copy
        try:
            while True:
                try:
                    for on_event in rest:
                        on_event(copy())
                    return
                except Exception as error:
                    called(roll.members[telling.reached - 1]).broken(error)
        except BaseException:
            place = telling.reached - 1
            if place >= 0:
                called(roll.members[place]).interrupted()
            raise

    # -----------------------------------------------------------------------------------------------------------
    # By any thread

    def strike(self, member: Subscription) -> None:
        """It is told nothing more, also not of what is queued, or is being told."""
        for roll in self._rolls:
            roll.strike(member)

    @property
    def mark(self) -> tuple[int, int, int, int]:
        """The figures as they are, for who comes now, and room for one more."""
        mark = self._mark
        if mark[0] != self.added or mark[1] != self.dropped or mark[2] != self.notes:
            mark = self._mark = (self.added, self.dropped, self.notes, 0)
        return mark

    @property
    def settled(self) -> int:
        """Changes that were told to all of their roll, or dropped, ever."""
        return self.added - len(self._queue) - (self._telling is not None)

    def first(self, member: Standing) -> AnyDelta | None:
        """The first change that it is still to be told; perhaps one that was published before it came."""
        try:
            first: AnyDelta | None = self._queue[0][0]
        except IndexError:
            first = None
        telling = self._telling
        if telling is not None and telling.entry is not None:
            place = telling.roll.place(member)
            if place is not None and place >= telling.reached:
                return telling.entry[0]
        return first

    def waiting(self, member: Standing, since: int) -> int:
        """How many changes later than the first `since` it is still to be told."""
        telling = self._telling
        count = min(len(self._queue), max(0, self.added - since))
        if telling is not None and telling.entry is not None:
            place = telling.roll.place(member)
            count += place is not None and place >= telling.reached
        return count
