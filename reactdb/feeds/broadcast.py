"""Broadcast: the deltas of one view, held once for all subscribers with the same events for every step.

    BroadcastEntry      the deltas of one commit, linked to the next commit's
    BroadcastPosition   a subscriber's place in it:
    ReadPosition        of a subscriber that polls: a cursor, or an observer on a scheduler
    CallPosition        of a subscriber that the committing thread calls
    Recipients          the subscribers that get a call with a delta

Deltas are numbered. A reader moves through them at its own pace. Recipients move together: `run` makes an event of a
delta once and hands copies of it to one recipient after the other, in a loop without other work. The last entry is
empty and is filled by the next commit. The entries are a linked list, so an entry is freed once no position has to
read it.

Each subscriber has room for the newest `limit` deltas. Older unread ones are dropped for it; their number follows
from the numbers of deltas. Positions far behind are moved forward now and then, so that dropped entries are freed.

Thread safety: `add`, `remove` and `publish` under the publish lock; `run` by the dispatcher, one thread at a time; a
reader's `next` by its consumer; figures by any thread, at any time. No thread waits for another: if the publisher
moves a position while its owner steps forward, the position may go back, and is then late again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import length_hint
from typing import Any, Protocol

from reactdb.errors import INTERRUPTS, as_end
from reactdb.feeds.events import Event, Render, overflow_event
from reactdb.feeds.views.base import AnyDelta, Delta

# Events that are delivered before the next in line gets a turn.
EVENTS_IN_A_TURN = 1_000
# Deltas between two looks for positions that are too far behind.
LOOKS = 64

OnEvent = Callable[[Event], object]
Kind = tuple[int, Render]


class Runnable(Protocol):
    """An item in the dispatcher's line."""

    def run(self) -> None: ...


def drop_moves(deltas: Sequence[AnyDelta]) -> Sequence[AnyDelta]:
    """Leave out the deltas that subscribers without offsets do not get."""
    for delta in deltas:
        if type(delta) is Delta and delta.is_move:
            return [one for one in deltas if type(one) is not Delta or not one.is_move]
    return deltas


class EventCallback(Protocol):
    """A consumer with a callback for its events."""

    def on_event(self, member: Any) -> OnEvent:
        """Called with each event of the member. `on_call_error` handles its exceptions."""

    def on_call_error(self, error: BaseException) -> None:
        """A call raised: its feed ends. It raises nothing but interrupts."""

    def on_interrupt(self) -> None:
        """Ctrl-C struck during a call: it is unknown whether the subscriber got the event, so its feed ends."""


class BroadcastMember(Protocol):
    """A subscription, as a broadcast knows it."""

    @property
    def callback(self) -> EventCallback | None:
        """The callback for its events; None for a member that reads."""

    @property
    def is_closed(self) -> bool: ...

    def share(self, queue: ReadPosition | CallPosition) -> None:
        """From now on it reads from the broadcast, where this is its position."""

    def wake(self) -> None:
        """There is something new."""

    def report_dropped(self, count: int) -> None:
        """`count` deltas were dropped, and this is delivered next."""

    def fail(self, error: Exception) -> bool:
        """Note that a publication could not be taken: only the queued deltas can still be delivered. Returns
        False."""

    def end_with_error(self, error: Exception) -> None:
        """End at once, because an event cannot be made."""


def require_callback(member: BroadcastMember) -> EventCallback:
    callback = member.callback
    assert callback is not None
    return callback


class BroadcastEntry:
    """The deltas of a commit, the first of which has the entry's number, and the way to the next entry. The last entry is empty,
    and leads nowhere yet."""

    __slots__ = ("deltas", "next", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.deltas: Sequence[AnyDelta] = ()
        self.next: BroadcastEntry | None = None


def find_entry(entry: BroadcastEntry, number: int) -> BroadcastEntry:
    """The entry with the delta of that number, or the last entry if the delta is not there yet. `entry` is the result
    or an earlier entry."""
    following = entry.next
    while following is not None and following.number <= number:
        entry, following = following, following.next
    return entry


def ignore(event: Event) -> None:
    """Called in place of a subscriber that has left."""


class Recipients:
    """The subscribers that receive a delta and the following ones: the members at the time of its publication.

    Attributes:
        first: The number of the delta.
        calls: The callback of each member. A member that leaves is replaced at once.
    """

    __slots__ = ("_indexes", "calls", "first", "members")

    def __init__(self, first: int, members: Iterable[BroadcastMember]) -> None:
        self.first = first
        self.members = list(members)
        self.calls = [require_callback(member).on_event(member) for member in self.members]
        self._indexes: dict[BroadcastMember, int] | None = None

    def index(self, member: BroadcastMember) -> int | None:
        """Where the member is in `calls`, if it is."""
        indexes = self._indexes
        if indexes is None:
            indexes = self._indexes = {one: index for index, one in enumerate(self.members)}
        return indexes.get(member)

    def exclude(self, member: BroadcastMember) -> None:
        index = self.index(member)
        if index is not None:
            self.calls[index] = ignore


class Broadcast:
    """See the head of this file.

    Attributes:
        kind: The common properties of its members: their queue size, and the function that makes their events.
        members: The position of each, in the order in which they came.
        tail: The empty entry at the end.
        sleepers: Readers to be woken by the next commit. Any thread adds its own.
        at: The entry of the next delta for recipients, or an earlier one. None while there are no recipients.
        number: The number of the next delta for recipients.
        current: The delta in delivery to recipients; None for a count of dropped ones, and between deliveries.
        taken: The newest seq that was delivered to recipients, or is being delivered.
    """

    __slots__ = (
        "_called",
        "_event",
        "_is_changed",
        "_is_in_line",
        "_look_at",
        "_ready",
        "_recipients",
        "_rest",
        "at",
        "current",
        "kind",
        "members",
        "number",
        "sleepers",
        "tail",
        "taken",
    )

    def __init__(self, kind: Kind, ready: Callable[[Runnable], None]) -> None:
        """`ready` puts something into the dispatcher's line."""
        self.kind = kind
        self.members: dict[BroadcastMember, ReadPosition | CallPosition] = {}
        self.tail = BroadcastEntry(0)
        self.sleepers: dict[BroadcastMember, None] = {}
        self._look_at = kind[0] + LOOKS
        self._ready = ready
        self.at: BroadcastEntry | None = None
        self.number = 0
        self.taken = 0
        # The first is for the next delta.
        self._recipients: list[Recipients] = []
        self._is_changed = False
        # It is in the dispatcher's line, or delivering.
        self._is_in_line = False
        self.current: AnyDelta | None = None
        # Of the present delivery: its event, its recipients, the calls left.
        self._event: Event | None = None
        self._called: Recipients | None = None
        self._rest: Iterator[OnEvent] | None = None

    # -----------------------------------------------------------------------------------------------------------
    # Under the publish lock

    def add(self, member: BroadcastMember) -> None:
        """From the next commit on, the subscription reads from here."""
        queue: ReadPosition | CallPosition
        if member.callback is not None:
            queue = CallPosition(self, member)
            if self.at is None:
                self.at, self.number = self.tail, self.tail.number
            self._is_changed = True
        else:
            queue = ReadPosition(self)
        member.share(queue)
        self.members[member] = queue

    def remove(self, member: BroadcastMember) -> None:
        self.members.pop(member, None)
        self.sleepers.pop(member, None)
        self._is_changed = True
        if self._is_idle:
            # Members that have left need not be kept.
            self._recipients.clear()

    @property
    def _is_idle(self) -> bool:
        """Everything is delivered to the recipients."""
        return self.number >= self.tail.number and self._rest is None

    @property
    def is_empty(self) -> bool:
        return not self.members

    def publish(self, deltas: Sequence[AnyDelta]) -> None:
        """Append the deltas of one commit."""
        if self.at is not None and (self._is_changed or not self._recipients):
            self._renew_recipients(self.tail.number)
        tail, count = self.tail, len(deltas)
        limit = self.kind[0]
        if count > limit:
            # No member has room for the earliest.
            deltas = deltas[count - limit :]
            tail.next = tail = BroadcastEntry(tail.number + count - limit)
            count = limit
        tail.deltas = deltas
        # A thread that sees the next entry sees the deltas.
        tail.next = self.tail = tail = BroadcastEntry(tail.number + count)
        if self.at is not None and not self._is_in_line:
            # As `wake`.
            self._is_in_line = True
            self._ready(self)
        if self.sleepers:
            for member in list(self.sleepers):
                self.sleepers.pop(member, None)
                member.wake()
        if tail.number >= self._look_at:
            self._move_on()

    def wake(self) -> None:
        """Get in the dispatcher's line."""
        self._is_in_line = True
        self._ready(self)

    def _renew_recipients(self, number: int) -> None:
        """Note the members that receive the delta of that number, and the following ones."""
        members = [one for one, queue in self.members.items() if type(queue) is CallPosition]
        if not members and self._is_idle:
            self.at = None
            return
        recipients = Recipients(number, members)
        self._recipients.append(recipients)
        # Without a member with a callback, this is checked again at the next commit.
        self._is_changed = not members
        # A member that left before the recipients were in the list is replaced here; a later one, by `exclude`.
        for member in members:
            if member.is_closed:
                recipients.exclude(member)

    def _move_on(self) -> None:
        floor = self.floor
        late: list[Any] = [
            queue
            for queue in self.members.values()
            if type(queue) is ReadPosition and queue.at.number < floor
        ]
        if self.at is not None and self.at.number < floor:
            late.append(self)
        if late:
            entry = find_entry(max((one.at for one in late), key=lambda at: at.number), floor)
            for one in late:
                one.at = entry
        self._look_at = self.tail.number + max(LOOKS, len(self.members))

    # -----------------------------------------------------------------------------------------------------------
    # Delivering to recipients: by the dispatcher

    def run(self) -> None:
        """Deliver the pending deltas, or a turn's worth of them.

        A subscriber that raises ends, with any exception. Only an interrupt is raised here, and then the remaining
        recipients get the event later.
        """
        # In this order: a later publication puts it in line again.
        self._is_in_line = False
        for _ in range(EVENTS_IN_A_TURN):
            rest = self._rest
            if rest is None:
                at, tail = self.at, self.tail
                if at is None or self.number >= tail.number:
                    self._called = self._event = None
                    if at is not None:
                        # References to earlier entries end here: once no other position has to read them, they are
                        # freed.
                        self.at = tail
                    return
                rest = self._take(at, tail)
            event = self._event
            if event is not None:
                copy = event.copy
                try:
                    try:
                        for call in rest:
                            call(copy())
                    except INTERRUPTS:
                        raise
                    except BaseException as error:
                        recipients, reached = self._called, self._reached
                        if recipients is None or not reached:
                            # It came from no subscriber.
                            raise
                        require_callback(recipients.members[reached - 1]).on_call_error(error)
                        # The others, from where the loop stopped.
                        continue
                except BaseException:
                    self._interrupt()
                    raise
            self.current = self._rest = None
        self.wake()

    def _take(self, at: BroadcastEntry, tail: BroadcastEntry) -> Iterator[OnEvent]:
        """Choose the next delta, between these entries, and make its event. After an interrupt in here, the next call
        continues with the same delta."""
        number, queued = self.number, self._recipients
        if len(queued) > 1 and queued[1].first <= number:
            del queued[0]
        recipients = queued[0]
        limit, render = self.kind
        floor = tail.number - limit
        if number < floor:
            return self._skip(recipients, floor)
        deltas, place = at.deltas, number - at.number
        if place >= len(deltas):
            at = self.at = find_entry(at, number)
            deltas, place = at.deltas, number - at.number
        delta = deltas[place]
        self.taken = delta.seq
        try:
            event = render(delta)
        except INTERRUPTS:
            raise
        except BaseException as error:
            # A document that cannot be decoded. Nothing more can be delivered to any of them.
            event = None
            for member in recipients.members:
                self.exclude(member)
                member.end_with_error(as_end(error))
        rest = iter(recipients.calls)
        # In this order: a thread that reads `at` and `number` first finds the delta there or in `current`.
        self.current, self._event, self._called = delta, event, recipients
        # At once: it is delivered once, whatever strikes.
        self._rest, self.number = rest, number + 1
        return rest

    def _skip(self, recipients: Recipients, until: int) -> Iterator[OnEvent]:
        """The deltas below this number were dropped. Their count is delivered instead."""
        following = self._recipients
        if len(following) > 1:
            # Later members have not missed all of these.
            until = min(until, following[1].first)
        count = until - self.number
        for member in recipients.members:
            member.report_dropped(count)
        self._event, self._called = overflow_event(count), recipients
        rest = iter(recipients.calls)
        self._rest, self.number = rest, until
        return rest

    @property
    def _reached(self) -> int:
        """How many recipients got the present event, including the present call's."""
        recipients, rest = self._called, self._rest
        return 0 if recipients is None or rest is None else len(recipients.calls) - length_hint(rest)

    def _interrupt(self) -> None:
        """End the feed of the subscriber in the interrupted call, if there is one."""
        recipients, reached = self._called, self._reached
        if recipients is not None and reached:
            require_callback(recipients.members[reached - 1]).on_interrupt()

    # -----------------------------------------------------------------------------------------------------------
    # By any thread

    def exclude(self, member: BroadcastMember) -> None:
        """Deliver nothing more to it, not even queued events or the present one."""
        recipients = self._called
        for one in [*self._recipients, *([] if recipients is None else [recipients])]:
            one.exclude(member)

    @property
    def floor(self) -> int:
        """The number of the earliest delta that there is room for."""
        return self.tail.number - self.kind[0]

    def is_waiting(self, member: BroadcastMember) -> bool:
        """Whether it has yet to receive the present event."""
        recipients, rest = self._called, self._rest
        if self.current is None or recipients is None:
            return False
        index = recipients.index(member)
        return index is not None and (rest is None or index >= len(recipients.calls) - length_hint(rest))


class BroadcastPosition:
    """The position of a subscriber in a broadcast, as a queue for taking only.

    Attributes:
        broadcast: The broadcast that it reads.
    """

    __slots__ = ("_dropped", "_stop", "broadcast")

    def __init__(self, broadcast: Broadcast) -> None:
        self.broadcast = broadcast
        self._dropped = 0
        # After the end of its feed, nothing is appended for it.
        self._stop: int | None = None

    @property
    def _end(self) -> int:
        return self.broadcast.tail.number if self._stop is None else self._stop

    def stop(self) -> None:
        """Later entries are not for this position. Under the publish lock."""
        if self._stop is None:
            self._stop = self.broadcast.tail.number

    def carry(self, dropped: int) -> None:
        """Continue where another queue of the subscription ended, after `dropped` dropped deltas."""
        self._dropped += dropped


class ReadPosition(BroadcastPosition):
    """The position of a subscriber that polls.

    Attributes:
        at: The entry of the next delta, or an earlier one.
    """

    __slots__ = ("_limit", "_number", "at")

    def __init__(self, broadcast: Broadcast) -> None:
        super().__init__(broadcast)
        self.at = broadcast.tail
        self._limit = broadcast.kind[0]
        # The number of the delta that it reads next, if it can still be had.
        self._number = self.at.number

    def __len__(self) -> int:
        return min(self._end - self._number, self._limit)

    @property
    def dropped(self) -> int:
        late = self._end - self._number - self._limit
        return self._dropped + late if late > 0 else self._dropped

    def next(self, reported: int) -> AnyDelta | int | None:
        """Returns: the number of dropped deltas, if it is more than `reported`; otherwise the next delta, or None without one."""
        # In this order: wherever the publisher moves the entry, the earliest delta that there is room for is not before it.
        entry, number, end = self.at, self._number, self._stop
        if end is None:
            end = self.broadcast.tail.number
        late = end - self._limit - number
        if late > 0:
            self._dropped += late
            self._number = number = number + late
        if self._dropped != reported:
            return self._dropped - reported
        if number >= end:
            return None
        following = entry.next
        while following is not None and following.number <= number:
            entry, following = following, following.next
        if following is None:
            return None
        delta = entry.deltas[number - entry.number]
        self._number = number = number + 1
        # After its last delta, the reference to the entry ends.
        self.at = entry if number < following.number else following
        return delta

    @property
    def first(self) -> AnyDelta | None:
        end, entry, number = self._end, self.at, self._number
        if number >= end:
            return None
        number = max(number, end - self._limit, entry.number)
        entry = find_entry(entry, number)
        return None if entry.next is None else entry.deltas[number - entry.number]

    def clear(self) -> None:
        """Nothing more, and nothing held."""
        self._stop = self._number
        self.at = BroadcastEntry(self._number)


class CallPosition(BroadcastPosition):
    """The position of called subscribers: the common position of all recipients, from its first delta on."""

    __slots__ = ("_member", "_start")

    def __init__(self, broadcast: Broadcast, member: BroadcastMember) -> None:
        super().__init__(broadcast)
        self._member = member
        self._start = broadcast.tail.number

    def stop(self) -> None:
        """As every position; then it gets in line, to deliver its end."""
        super().stop()
        # Also where `_is_in_line` is set: Ctrl-C may have struck between setting it and joining the line.
        self.broadcast.wake()

    def report_dropped(self, count: int) -> None:
        """`count` deltas were dropped and never delivered."""
        self._start += count
        self._dropped += count

    @property
    def delivered(self) -> int:
        """How many deltas were delivered to it."""
        broadcast = self.broadcast
        count = min(broadcast.number, self._end) - self._start
        return max(0, count - broadcast.is_waiting(self._member))

    def __len__(self) -> int:
        broadcast = self.broadcast
        begin = max(broadcast.number, self._start, broadcast.floor)
        is_waiting = broadcast.is_waiting(self._member)
        return max(0, self._end - begin) + is_waiting

    @property
    def dropped(self) -> int:
        broadcast = self.broadcast
        lost = min(broadcast.floor, self._end) - max(broadcast.number, self._start)
        return self._dropped + max(0, lost)

    @property
    def first(self) -> AnyDelta | None:
        broadcast = self.broadcast
        # In this order, as `Broadcast._take` says.
        at, number = broadcast.at, broadcast.number
        current = broadcast.current
        if current is not None and broadcast.is_waiting(self._member):
            return current
        number = max(number, self._start, broadcast.floor)
        if at is None or number >= self._end:
            return None
        entry = find_entry(at, number)
        return None if entry.next is None else entry.deltas[number - entry.number]

    def next(self, reported: int) -> None:
        """None: the broadcast delivers everything to it."""

    def clear(self) -> None:
        self._stop = self._start
