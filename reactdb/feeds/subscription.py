"""Subscription: the events of one query for one subscriber: the opening, then the queued events, then the end.

It is in one of five states, and `MOVES` has every legal move:

    opening    it is in its node, which reports to it; first it delivers its opening: states, initial values
    live       it delivers its node's reports
    behind     it is in no node and reads from the log: after `since`, or after a full queue where no event may be lost
    ended      nothing more will be queued; queued events are still delivered, and then the reason of the end
    closed     it delivers nothing more

In its node it has a queue of its own. Once it is live and has emptied that queue, it has a position in a shared queue
instead (see `broadcast`).

Two threads meet here: one offers (under the publish lock), the other polls (in the consumer's turn). They share the
queue, which is made for it, and the state, which only `_move` changes; any third thread may close.

Rule of this file: it gives events to the polling consumer. The consumer decides when to poll, and how to deliver.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, Literal, Protocol, cast

from reactdb.documents.steps import Run
from reactdb.errors import FeedOverflow, ReactDBError
from reactdb.feeds.broadcast import CallPosition, EventCallback, ReadPosition, Runnable, drop_moves
from reactdb.feeds.compiler import Plan
from reactdb.feeds.events import Event, Render, overflow_event, wrap_single
from reactdb.feeds.initial import AWAITED, InitialValues, Opening
from reactdb.feeds.log_reader import LogReader
from reactdb.feeds.position import ANEW, Bookmark
from reactdb.feeds.queues import (
    BatchQueue,
    CommitQueue,
    FeedQueue,
    OwnQueue,
    Pace,
    Queue,
    empty_queue,
    squash_queue,
)
from reactdb.feeds.request import Request
from reactdb.feeds.views.base import AnyDelta, Order, View, change_of, present_order
from reactdb.logs import logger
from reactdb.store.file import fork

State = Literal["opening", "live", "behind", "ended", "closed"]
MOVES: Final[dict[State, frozenset[State]]] = {
    "opening": frozenset({"live", "behind", "ended", "closed"}),
    "live": frozenset({"behind", "ended", "closed"}),
    "behind": frozenset({"opening", "live", "ended", "closed"}),
    "ended": frozenset({"closed"}),
    "closed": frozenset(),
}
# Held while a state is changed, which is seldom. Re-entrant, because a finalizer may close a cursor anywhere.
_moving = threading.RLock()


class Sign:
    """The result of `poll` where there is no event."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


NOTHING: Final = Sign("NOTHING")
ENDED: Final = Sign("ENDED")
COMPLETED: Final = Sign("COMPLETED")

# How a consumer receives events. "called": the thread that delivers the commit calls it with each; "woken": it is
# woken when there are some, and polls; "looking": it polls before it waits.
Way = Literal["called", "woken", "looking"]


class Consumer(Protocol):
    """The poller of a subscription.

    Attributes:
        delivery: How its subscriber gets events, in words.
    """

    @property
    def delivery(self) -> str: ...

    @property
    def way(self) -> Way:
        """Fixed before it subscribes."""

    def wake(self, subscription: Subscription) -> None:
        """There is something new. Called under the publish lock: it may set flags and release locks, no more."""

    def now(self) -> float:
        """Seconds, on the consumer's clock."""


class Origin(Protocol):
    """The source of its deltas: its node, or a reader of the log."""

    @property
    def view(self) -> View: ...

    @property
    def failed(self) -> int:
        """How many documents could not be computed."""


class Hub(Protocol):
    """The feeds of one database, as subscriptions see them. `hub.FeedHub` implements this."""

    ready: Callable[[Runnable], None]

    def attach(self, subscription: Subscription) -> None:
        """Subscribe."""

    def reader_at(self, subscription: Subscription, position: int) -> LogReader:
        """A reader of the log at that position."""

    def rejoin(self, subscription: Subscription, reader: LogReader) -> bool:
        """Back into a node."""

    def held(self) -> AbstractContextManager[None]:
        """With the publish lock, to look at something."""

    def forget(self, subscription: Subscription) -> None:
        """Unsubscribe."""

    def drain(self) -> None:
        """Deliver all that is ready."""

    def settle(self) -> None:
        """Subscriptions were closed: see whether any is left."""


seq_of = attrgetter("seq")


class Subscription:
    """See the head of this file.

    Attributes:
        hub: The hub to join.
        request: The query with its options.
        consumer: The poller.
        path: The terms that are applied to its events after `changes()`.
        state: Which of the five it is.
        node: The shared view that reports to it; None while it is behind, and after its end.
        opening: The first events, delivered before all queued ones. None after their delivery.
        queue: The undelivered deltas; None before it is attached, and after it was closed.
        reader: Reads on from the log for it while it is behind; None before it has begun to.
        end: COMPLETED, or the error, once it has ended.
        seqs: Of whole commits: the seq of each event in the list that was polled last.
        since: Its opening includes the changes up to this seq.
        is_woken: The consumer knows that there is something.
    """

    __slots__ = (
        "_base",
        "_delivered",
        "_dropped_delivered",
        "_failed",
        "_final",
        "_pace",
        "_render",
        "_taken",
        "consumer",
        "end",
        "hub",
        "is_woken",
        "node",
        "opening",
        "path",
        "queue",
        "reader",
        "request",
        "seqs",
        "since",
        "state",
    )

    _render: Render

    def __init__(self, hub: Hub, request: Request, consumer: Consumer, path: tuple[Run, ...] = ()) -> None:
        self.hub = hub
        self.request = request
        self.consumer = consumer
        self.path = path
        self.state: State = "opening"
        self.node: Origin | None = None
        self.queue: OwnQueue | ReadPosition | CallPosition | None = None
        self.reader: LogReader | None = None
        self.end: Any = None
        self.seqs: Sequence[int] = ()
        self.since = 0
        # A consumer of the way "looking" needs no wake-up before it polls.
        self.is_woken = consumer.way == "looking"
        self.opening: Opening | None = AWAITED
        # For net differences.
        self._pace: Pace | None = None
        self._delivered = 0
        self._dropped_delivered = 0
        # Everything up to here is delivered or in the queue; None while nothing published is missing there.
        self._base: int | None = None
        # The newest change that was taken from the queue: it may be delivered while it is still being published.
        self._taken = 0
        self._final: int | None = None
        # The counter of documents that could not be computed, its first value here, and the number from before. The counter alone
        # where both are 0, as for most.
        self._failed: Origin | tuple[Origin | None, int, int] | None = None

    # -----------------------------------------------------------------------------------------------------------
    # The state

    def _move(self, to: State) -> bool:
        """Change the state by a legal move."""
        with _moving:
            if to not in MOVES[self.state]:
                return False
            self.state = to
            return True

    def _end(self, end: Any) -> None:
        """Nothing more will be queued."""
        self.end = end
        self._move("ended")

    @property
    def callback(self) -> EventCallback | None:
        """Its consumer, if it has a callback for each event."""
        return cast(EventCallback, self.consumer) if self.consumer.way == "called" else None

    @property
    def is_closed(self) -> bool:
        return self.state == "closed"

    @property
    def is_behind(self) -> bool:
        """It reads on from the log, or will when its queue is empty."""
        return self.state == "behind"

    @property
    def origin(self) -> Origin | None:
        """The present source of its deltas. For figures: any thread may read it."""
        # Not `or`: a node without subscriptions has no members, and is false.
        node = self.node
        return self.reader if node is None else node

    @property
    def error(self) -> BaseException | None:
        """Why it ended; None where it completed or was closed."""
        return self.end if isinstance(self.end, BaseException) else None

    # -----------------------------------------------------------------------------------------------------------
    # Beginning: called by the hub, under the publish lock

    def begin(self, plan: Plan, seq: int, ordered: Order, *, is_prepared: bool) -> None:
        """Begin in its node, from `seq` on. `ordered`: the first list for offsets. Without `is_prepared`, nothing is
        delivered before `provide` sets the opening."""
        self.since = seq
        self._prepare(plan, ordered)
        if is_prepared:
            self._open(self._make_opening())

    def provide(self, initial: InitialValues | None) -> None:
        """The initial values to begin with; None for none. Any thread, once. It closes the walk that they come from."""
        opening = self._make_opening(initial)
        self._open(opening)
        if self.state == "closed" and opening is not None:
            opening.close()

    def begin_behind(self, reader: LogReader, *, is_prepared: bool) -> None:
        """Begin at the reader's position; later changes are read from the log. Without `is_prepared`, as `begin`."""
        self.since = self._base = reader.position
        self.reader = reader
        self.count_failures_of(reader, 0)
        self._prepare(reader.plan, present_order(reader.plan.view))
        self._move("behind")
        if is_prepared:
            self._open(self._make_opening())

    def begin_after(self, seq: int) -> None:
        """Skip every commit up to `seq`. The members of a union of feeds of whole commits began one after the other,
        and a commit for only some of them must not be delivered by halves. A member that resumes (`since`) is left as
        it is, and so is a member without batches."""
        queue = self.queue
        if self.request.options.since is None and type(queue) is CommitQueue:
            self.since = max(self.since, seq)
            queue.remove_until(seq)

    def _prepare(self, plan: Plan, ordered: Order) -> None:
        options = self.request.options
        self._render = self.request.render(plan.is_ordered)
        if options.squash_s is None:
            self.queue = (CommitQueue if options.batches else FeedQueue)(options.queue_size)
        else:
            if options.skip_origin is not None:
                # A list needs every change to it.
                ordered = None
            self._pace = Pace(options.squash_s, options.queue_size, self.consumer.now())
            self.queue = squash_queue(options.queue_size, ordered, has_offsets=options.include_offsets)

    def _make_opening(self, initial: InitialValues | None = None) -> Opening | None:
        name = "catching_up" if self.state == "behind" else "ready"
        return Opening.with_state(self.request.options, name, initial)

    def _open(self, opening: Opening | None) -> None:
        """Deliver this first."""
        self.opening = opening
        if opening is None:
            self._end_opening()

    def _end_opening(self) -> None:
        """The opening (states and initial values) was delivered."""
        self.opening = None
        if self.state == "opening":
            self._move("live")

    # -----------------------------------------------------------------------------------------------------------
    # In a node: called under the publish lock

    def offer(self, deltas: Sequence[AnyDelta], first: int) -> bool:
        """Put the deltas of a commit, whose first change is `first`, into its own queue. False: there was no room,
        and it will read from the log."""
        queue = cast(OwnQueue, self.queue)
        if self.state == "closed":
            return True
        if first <= self.since:
            deltas = [delta for delta in deltas if delta.seq > self.since]
        deltas = self._select_wanted(deltas)
        if not deltas:
            return True
        if self.end is not None:
            if isinstance(self.end, FeedOverflow):
                self.end = FeedOverflow(self.end.skipped + len(deltas))
            return True
        has_room = True
        if queue.has_room(deltas):
            queue.add(deltas)
        else:
            has_room = self._offer_in_parts(deltas, queue)
        self.wake()
        return has_room

    def _offer_in_parts(self, deltas: Sequence[AnyDelta], queue: OwnQueue) -> bool:
        """As `offer`, where there is not room for all: whole commits all or nothing, and else change by change."""
        options = self.request.options
        changes = [deltas] if options.batches else [list(one) for _, one in groupby(deltas, key=seq_of)]
        left = len(deltas)
        for change in changes:
            if options.on_overflow == "drop" or queue.has_room(change):
                queue.add(change)
                left -= len(change)
                continue
            # Queued deltas are delivered first. They are complete up to here, so the log can be read from here.
            one = change_of(change[0])
            self._base = max(one.commit if options.batches else one.seq, self.since + 1) - 1
            if options.on_overflow == "spill":
                return not self._move("behind")
            self._end(FeedOverflow(left))
            break
        return True

    def _select_wanted(self, deltas: Sequence[AnyDelta]) -> Sequence[AnyDelta]:
        """Leave out the deltas that will not be delivered: they must neither fill the queue nor be counted."""
        options = self.request.options
        if options.skip_origin is not None:
            deltas = [delta for delta in deltas if change_of(delta).origin != options.skip_origin]
        if self._pace is None and not options.include_offsets:
            deltas = drop_moves(deltas)
        return deltas

    @property
    def kind(self) -> tuple[int, Render]:
        """Subscriptions of one node with the same kind get the same events: (queue size, function that makes
        events)."""
        return self.request.options.queue_size, self._render

    def can_share(self, seq: int) -> bool:
        """Whether it delivers every step, and has nothing left to deliver except changes after `seq`."""
        options, queue = self.request.options, self.queue
        return (
            self.state == "live"
            and self.since <= seq
            and options.on_overflow == "drop"
            and not options.include_offsets
            and options.skip_origin is None
            and type(queue) is FeedQueue
            and not len(queue)
            and queue.dropped == self._dropped_delivered
        )

    def wait_to_share(self) -> None:
        """Nothing is queued for it before it shares: it needs no empty queue of its own."""
        if self.queue is not None and not self.queue.dropped:
            self.queue = empty_queue(self.request.options.queue_size)

    def share(self, queue: ReadPosition | CallPosition) -> None:
        """From now on, read published deltas from a broadcast, at this position."""
        if self.queue is not None:
            queue.carry(self.queue.dropped)
        self.queue = queue
        if type(queue) is ReadPosition and not self.is_woken:
            queue.broadcast.sleepers[self] = None

    def report_dropped(self, count: int) -> None:
        """`count` deltas of a broadcast were dropped, and this is delivered next."""
        queue = self.queue
        if type(queue) is CallPosition:
            queue.report_dropped(count)
            self._dropped_delivered += count
            self._delivered += 1

    def wake(self) -> None:
        """There is something new."""
        if not self.is_woken:
            self.is_woken = True
            self.consumer.wake(self)

    def rearm(self) -> None:
        """Its consumer wants to be woken again, and polls once more after saying so."""
        self.is_woken = False
        queue = self.queue
        if type(queue) is ReadPosition:
            queue.broadcast.sleepers[self] = None

    def fail(self, error: Exception) -> bool:
        """Note that an offer could not be taken: only the queued deltas can still be delivered. Returns False, as
        `offer`."""
        self._stop()
        self._end(error)
        try:
            self.wake()
        except Exception:
            # Its consumer cannot be woken: it finds the end when it polls next.
            logger.exception("a feed could not be notified of its end")
        return False

    def finish(self, end: Any) -> None:
        """Note the end; queued events are still delivered. `end` is COMPLETED or the error."""
        if self.end is None:
            if self._base is None:
                self._base = max(self._published(), self.since)
            self._stop()
            self._end(end)
        # Also where it is marked as woken: Ctrl-C may have struck between the mark and the wake-up.
        self.is_woken = True
        self.consumer.wake(self)

    def _stop(self) -> None:
        queue = self.queue
        if isinstance(queue, (ReadPosition, CallPosition)):
            queue.stop()

    # -----------------------------------------------------------------------------------------------------------
    # Polling: called by the consumer, in its turn

    def poll(self, *, is_in_line: bool = False) -> Any:
        """The next event; NOTHING where there is none now; ENDED after the last one (see `error`).

        `is_in_line`: other subscriptions are polled together with this one. So after its opening, and after each page
        of the log, it returns NOTHING, and the consumer checks again whose turn it is.
        """
        try:
            while self.state != "closed":
                opening = self.opening
                if opening is not None:
                    if opening is AWAITED:
                        return NOTHING
                    event = next(opening.events, None)
                    if event is not None:
                        self._delivered += 1
                        return event
                    self._end_opening()
                    if is_in_line:
                        return NOTHING
                queue: Any = self.queue
                if queue is None:
                    # It is still to be attached, while another member of its union is polled.
                    return NOTHING
                pace = self._pace
                reported = self._dropped_delivered
                taken = queue.next(reported) if pace is None else self._net(pace, queue, reported)
                if type(taken) is int:
                    self._dropped_delivered = reported + taken
                    self._delivered += 1
                    return wrap_single(overflow_event(taken), self.request.options)
                if taken is not None:
                    is_commit = self.request.options.batches
                    if pace is None:
                        self._taken = (taken[-1] if is_commit else taken).seq
                    event = self._events(taken) if is_commit else self._render(taken)
                    if event is not None:
                        self._delivered += 1
                        return event
                elif type(queue) is CallPosition:
                    # The broadcast delivers everything to it but its end.
                    return NOTHING if self.end is None or len(queue) else ENDED
                elif self.state == "behind":
                    self._read_on(queue)
                    if is_in_line:
                        return NOTHING
                elif self.end is None and self._is_in_use():
                    return NOTHING
                elif queue is self.queue:
                    return NOTHING if len(queue) else ENDED  # type: ignore[arg-type]
        except Exception as error:
            # A filter or a map failed for an initial value.
            self._end(error)
        return ENDED

    @property
    def must_read(self) -> bool:
        """Whether the next event has to be read from the file: a page of initial values, or of the log."""
        opening, queue, pace = self.opening, self.queue, self._pace
        if opening is not None:
            return opening.must_read
        if self.state != "behind" or queue is None or queue.dropped != self._dropped_delivered:
            return False
        if pace is None:
            return not len(queue)
        return pace.batch is None and not self._is_due(pace, queue)

    def read_ahead(self) -> None:
        """Read until there is something to deliver, or nothing left to read. Any thread, while no event is polled."""
        opening = self.opening
        if opening is not None:
            opening.read_ahead()
        else:
            self.look()

    def look(self) -> int | None:
        """The seq of the event that `poll` would return next: 0 for an event without a seq, such as an initial value;
        None if nothing is ready. For a consumer that delivers several subscriptions in the order of the log."""
        try:
            return self._look()
        except Exception as error:
            # A change could not be read: `poll` says so.
            self._end(self.end or error)
            return 0

    def _look(self) -> int | None:
        while self.opening is not AWAITED and self.state != "closed":
            queue = self.queue
            pace = self._pace
            first = pace.batch[0].seq if pace is not None and pace.batch else None
            if first is None:
                if self.opening is not None:
                    return 0
                if queue is None:
                    # As `poll` has it: it is still to be attached.
                    return None
                if queue.dropped != self._dropped_delivered:
                    return 0
                delta = queue.first if pace is None else None
                first = None if delta is None else delta.seq
            if first is not None:
                engine = self.request.engine
                if first > engine.publisher.published and (self.state == "behind" or first <= self.since):
                    # It has read changes in the file that are not published to the others yet.
                    engine.catch_up()
                return first
            assert queue is not None
            if self.state == "behind" and not self.is_batch_due:
                self._read_on(cast(OwnQueue, queue))
            elif self.end is None and self._is_in_use():
                return None
            elif queue is self.queue:
                # Its end comes after all that was published to the others before it.
                return None if len(queue) else self.position + 1
        return 0 if self.state == "closed" else None

    @property
    def _is_idle(self) -> bool:
        """Nothing is being delivered, neither how it begins nor a batch."""
        return self.opening is None and not self._is_in_batch

    @property
    def _is_in_batch(self) -> bool:
        pace = self._pace
        return pace is not None and pace.batch is not None

    @property
    def is_batch_due(self) -> bool:
        """Whether net differences may be taken now."""
        pace, queue = self._pace, self.queue
        return pace is not None and self._is_idle and queue is not None and self._is_due(pace, queue)

    def take_batch(self) -> None:
        """Take the net differences, for `poll` to return, and begin the next interval."""
        pace, queue = self._pace, self.queue
        if pace is not None and self._is_idle and queue is not None and self.state != "closed":
            self._take_batch(pace, cast(BatchQueue, queue))
            pace.wait(self.consumer.now())

    def _is_in_use(self) -> bool:
        """Whether the database is: in a forked child, or where the file was moved away, nothing will ever come."""
        try:
            self.request.engine.check_usable()
        except ReactDBError as error:
            self._give_up(error)
            return False
        return True

    def _net(self, pace: Pace, queue: Any, reported: int) -> Any:
        """As `FeedQueue.next`, with the next net difference, or a whole batch where whole commits are delivered."""
        if pace.batch is None:
            if queue.dropped != reported:
                return queue.dropped - reported
            if not (self._is_due(pace, queue) and self._take_batch(pace, queue)):
                return None
        return pace.rest() if self.request.options.batches else pace.next()

    def _events(self, deltas: Sequence[AnyDelta]) -> Any:
        """The list of the events of whole commits; None where nothing of them is delivered."""
        if self._base is None and deltas[-1].seq > self._published():
            # The commit is in the queue as a whole, and its position is known when it has been published to everybody.
            with self.hub.held():
                pass
        render = self._render
        events: list[Event] = []
        seqs: list[int] = []
        for delta in deltas:
            event = render(delta)
            if event is not None:
                events.append(event)
                seqs.append(delta.seq)
        self.seqs = seqs
        return events or None

    def _take_batch(self, pace: Pace, queue: BatchQueue) -> deque[AnyDelta] | None:
        batch = pace.take(queue, self.position, self.consumer.now())
        if batch:
            self._taken = max(delta.seq for delta in batch)
        return batch

    def _is_due(self, pace: Pace, queue: Queue) -> bool:
        """Whether the next batch may be taken: its time has come, or the queue gets full, or nothing is to be waited for."""
        if not len(queue):
            return False
        if self.end is not None or pace.is_full(queue):
            return True
        # The net difference covers all missed changes.
        return self.state != "behind" and pace.is_due(self.consumer.now())

    @property
    def wait_s(self) -> float | None:
        """Seconds until there is something to deliver; None where nothing is known to come."""
        if not self.has_work:
            return None
        pace, queue = self._pace, self.queue
        if pace is None or not self._is_idle or queue is None or not len(queue):
            return 0.0
        if self.state == "behind" or self._is_due(pace, queue):
            return 0.0
        return max(0.0, pace.due_at - self.consumer.now())

    @property
    def has_work(self) -> bool:
        """Whether polling would find something, now or when it is due."""
        queue = self.queue
        if self.opening is AWAITED:
            return False
        if not self._is_idle or self.state == "behind" or self.end is not None:
            return True
        # Recipients get their events from the broadcast.
        return (
            queue is not None
            and type(queue) is not CallPosition
            and (len(queue) > 0 or queue.dropped != self._dropped_delivered)
        )

    # -----------------------------------------------------------------------------------------------------------
    # Behind

    @property
    def reads_from(self) -> int | None:
        """The position from which it has still to read the log; None where it has not, or will not."""
        return self._base if self.state == "behind" else None

    def _read_on(self, queue: OwnQueue) -> None:
        """The next page of the log into the queue; at its end, back into a node."""
        try:
            reader = self.reader
            if reader is None:
                assert self._base is not None
                self.reader = self.hub.reader_at(self, self._base)
                self.count_failures_of(self.reader)
                self.opening = self._make_opening()
                return
            deltas, is_last = reader.read_page()
            self.read_on(deltas, reader.position)
            # Missed changes are delivered before the feed is live again; squashed, they are one batch.
            if is_last and (self._pace is not None or not deltas):
                self.hub.rejoin(self, reader)
        except ReactDBError as error:
            # The log was compacted, the database closed, or the file is in trouble.
            self._give_up(error)

    def read_on(self, deltas: Sequence[AnyDelta], position: int) -> None:
        """Read the log up to `position`."""
        cast(OwnQueue, self.queue).put(self._select_wanted(deltas))
        self._base = position

    def join_node(self, deltas: Sequence[AnyDelta], seq: int) -> None:
        """Join the node. Called by the hub, under the publish lock: `deltas` were the last from the log, and the node
        reports the later changes."""
        cast(OwnQueue, self.queue).put(self._select_wanted(deltas))
        self.since = seq
        self._base = None
        self.reader = None
        pace = self._pace
        batch = None if pace is None else self._take_batch(pace, cast(BatchQueue, self.queue))
        ready = Opening.with_state(self.request.options, "ready")
        if batch is None and ready is None:
            self._move("live")
        else:
            self.opening = Opening(self._arrive(pace, ready))
            self._move("opening")

    def _arrive(self, pace: Pace | None, ready: Opening | None) -> Iterator[Event]:
        if pace is not None:
            if pace.batch and self.request.options.batches:
                events = self._events(pace.rest())
                if events is not None:
                    yield events
            while pace.batch:
                event = self._render(pace.batch.popleft())
                if event is not None:
                    yield event
            pace.batch = None
        if ready is not None:
            yield from ready.events

    def end_with_error(self, error: Exception) -> None:
        """End at once, because an event cannot be made."""
        if type(self.queue) is CallPosition:
            self.queue.clear()
        self._end(error)
        self.wake()

    def _give_up(self, error: ReactDBError) -> None:
        self.reader = None
        self._end(self.end or error)

    # -----------------------------------------------------------------------------------------------------------
    # Figures: read by any thread, while another one delivers

    def _published(self) -> int:
        return self.request.engine.publisher.published

    @property
    def position(self) -> int:
        """Every change up to this seq has been delivered, or did not concern it."""
        if self._final is not None:
            return self._final
        # In this order: a delta that is taken, or published, later than here is in the queue or the batch, or above
        # this position. The queue before the batch: a delta that moves from one to the other is then seen in one of
        # them.
        queue = self.queue
        taken = queue.broadcast.taken if type(queue) is CallPosition else self._taken
        base = self._base
        if base is None:
            base = max(self._published(), self.since)
        first = None if queue is None else queue.first
        pace = self._pace
        if pace is not None and pace.batch is not None:
            return min(base, pace.before)
        base = max(base, taken)
        return base if first is None else min(base, first.seq - 1)

    @property
    def bookmark(self) -> Bookmark:
        """The delivered position: `position`, and before that the place in the initial values."""
        opening = self.opening
        if opening is AWAITED and self.request.options.include_initial:
            return ANEW
        # In this order: initial values that are delivered to their end stay so.
        initial = None if opening is None else opening.initial
        inside = None if initial is None else initial.bookmark
        return Bookmark(self.position) if inside is None else inside

    @property
    def floor(self) -> Bookmark:
        """A position before the newest event, which may be on its way."""
        opening, queue = self.opening, self.queue
        if opening is not None and opening.initial is not None:
            return opening.initial.floor
        if self._pace is not None:
            return Bookmark(self._pace.before)
        taken = queue.broadcast.taken if type(queue) is CallPosition else self._taken
        return Bookmark(max(self.since, taken - 1))

    @property
    def queued(self) -> int:
        """Deltas that wait to be delivered."""
        queue, pace = self.queue, self._pace
        return (0 if queue is None else len(queue)) + (0 if pace is None else len(pace.batch or ()))

    @property
    def dropped(self) -> int:
        """Deltas that were never delivered."""
        queue = self.queue
        return self._dropped_delivered if queue is None else queue.dropped

    @property
    def delivered(self) -> int:
        """Events that were delivered."""
        queue = self.queue
        return self._delivered + (queue.delivered if type(queue) is CallPosition else 0)

    @property
    def oldest_time(self) -> int | None:
        """When the first change that waits to be delivered was made, in milliseconds since 1970."""
        first = None if self.queue is None else self.queue.first
        try:
            # The batch in delivery; it may end at any moment.
            return self._pace.batch[0].time  # type: ignore[index, union-attr]
        except (AttributeError, IndexError, TypeError):
            return None if first is None else first.time

    @property
    def failed(self) -> int:
        """Documents that could not be computed, and were passed over."""
        source, begin, before = self._failures
        return before if source is None else before + source.failed - begin

    @property
    def _failures(self) -> tuple[Origin | None, int, int]:
        failed = self._failed
        return failed if isinstance(failed, tuple) else (failed, 0, 0)

    def count_failures_of(self, source: Origin | None, begin: int | None = None) -> None:
        """From now on, count the failures of `source` above `begin`; None: above its present number."""
        if self._failed is None and begin == 0:
            self._failed = source
        elif source is not self._failures[0]:
            if source is not None and begin is None:
                begin = source.failed
            before = self.failed
            self._failed = (source, begin or 0, before) if begin or before else source

    # -----------------------------------------------------------------------------------------------------------
    # Ending

    def close(self) -> None:
        """Deliver nothing more. Any thread; a second call does nothing."""
        if self.state != "closed":
            final, delivered, dropped = self.position, self.delivered, self.dropped
            if not self._move("closed"):
                return
            self._final = final
            queue = self.queue
            if type(queue) is CallPosition:
                queue.broadcast.exclude(self)
                self.queue, self._delivered, self._dropped_delivered = None, delivered, dropped
            if self.opening is not None:
                self.opening.close()
            self.hub.forget(self)

    def release(self) -> None:
        """Called by the hub after the unsubscription."""
        self.node = None
        self.reader = None
        if self.queue is not None:
            self.queue.clear()


@fork.call_in_child
def _forget() -> None:
    """A thread that did not come along may hold the lock."""
    global _moving
    _moving = threading.RLock()
