"""Consumers: they poll subscriptions and pass the events on, each at its own moment.

    PushConsumer     calls an observer: in the delivering thread, or where its scheduler decides
    PullConsumer     is read by a waiting thread: `for change in feed`, cursors
    AsyncConsumer    is read by a coroutine
    ReaderConsumer   is polled by any thread, without waiting, and calls back when there is something to read

One consumer may have several subscriptions (a union of feeds). All consumers take events from them in one way
(`BaseConsumer._poll`), one at a time, in any thread; a lock gives the turn. A thread that finds the turn of a
PushConsumer taken leaves a note and goes; the thread with the turn checks the note after giving the turn back. A
thread that reads a cursor waits for its turn.

A subscriber that raises ends its own feed, with any exception, also with a BaseException such as CancelledError. Only
`errors.INTERRUPTS` are raised to the delivering thread, at once, because a program must end also where subscribers
set off each other for ever; the remaining subscribers are called with the next commit.

There are two loops that deliver: `_poll` here, and `Broadcast.run`, which calls the live observers without initial
events. They stay two because they take opposite views. A poll takes the next thing of one subscription: its opening,
a batch, a page of the log, its end. A broadcast has one event for many subscribers, and makes it once; polled one by
one, 300 callbacks would cost four times as much. The common parts are shared: the queue, the event, and `_pass_on`
where there are terms.

Rule of this file: a wake-up may come in vain. A woken consumer polls, and a consumer that goes to sleep first says so
and then polls once more. No lock but the consumer's own turn is held while an observer is called.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from heapq import merge
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from reactdb.clock import SYSTEM, Clock, PendingCall, in_force, is_frozen, wait_until
from reactdb.documents.steps import Run
from reactdb.errors import INTERRUPTS, FeedAborted, ForkedDatabase, UsageError, as_end
from reactdb.feeds.background import background
from reactdb.feeds.broadcast import EVENTS_IN_A_TURN, OnEvent, ignore
from reactdb.feeds.hub import FeedHub
from reactdb.feeds.position import ANEW, Bookmark, find_first
from reactdb.feeds.request import Request
from reactdb.feeds.schedulers import make_thread_safe, name_scheduler
from reactdb.feeds.subscription import ENDED, NOTHING, Hub, Subscription, Way
from reactdb.feeds.terms import run_of
from reactdb.logs import logger
from reactdb.query import Step
from reactdb.store.engine import Engine
from reactdb.store.file import fork

if TYPE_CHECKING:
    import asyncio

# Events that a coroutine may take without giving others a chance to run.
EVENTS_WITHOUT_PAUSE = 64

_making_turns = threading.Lock()

OnNext = Callable[[Any], None]
OnError = Callable[[Exception], None]
OnCompleted = Callable[[], None]


class Flow:
    """A feed as a tree: a request, or flows delivered as one; then terms."""

    __slots__ = ("hub", "parts", "request", "terms")

    def __init__(
        self,
        hub: FeedHub | None,
        request: Request | None,
        parts: Sequence[Flow] = (),
        terms: tuple[Step, ...] = (),
    ) -> None:
        """A hub with a request to it, or parts."""
        self.hub = hub
        self.request = request
        self.parts = tuple(parts)
        self.terms = terms

    def then(self, term: Step) -> Flow:
        return Flow(self.hub, self.request, self.parts, (*self.terms, term))

    def copy_with(self, change: Callable[[Request], Request]) -> Flow:
        """The same with other requests."""
        request = None if self.request is None else change(self.request)
        return Flow(self.hub, request, [part.copy_with(change) for part in self.parts], self.terms)

    @property
    def has_terms(self) -> bool:
        return bool(self.terms) or any(part.has_terms for part in self.parts)

    def requests(self) -> Iterable[Request]:
        if self.request is not None:
            yield self.request
        for part in self.parts:
            yield from part.requests()

    def hubs(self) -> set[FeedHub]:
        return set().union(*(part.hubs() for part in self.parts)) if self.hub is None else {self.hub}

    def token(self, consumer: BaseConsumer | None) -> str | None:
        """The consumer's delivered position as a token; without a consumer, the position where a new one would begin.
        None: begin from the start.

        Raises:
            UsageError: There are feeds of several databases in it.
        """
        hubs = self.hubs()
        if len(hubs) > 1:
            raise UsageError(
                "a union of feeds of several databases has no token, because each database has a log of its own: take the tokens "
                "of cursors of its members"
            )
        bookmark = (
            find_first(one.start() for one in self.requests()) if consumer is None else consumer.bookmark
        )
        if bookmark == ANEW:
            return None
        return hubs.pop().token(bookmark.seq) + bookmark.suffix


class BaseConsumer:
    """The common part of all consumers: their subscriptions, and the path of an event through the terms.

    Attributes:
        members: Its subscriptions.
        lines: The members of each database. Members of one database are delivered in the order of its log; two logs have no
            order in common.
    """

    __slots__ = (
        "__weakref__",
        "_final",
        "_generation",
        "_has_read_ahead",
        "_is_background",
        "_is_reading",
        "_start",
        "clock",
        "error",
        "is_closed",
        "lines",
        "members",
    )

    def __init__(self) -> None:
        self._generation = fork.generation
        # Of the database; of several, of the first with a virtual one.
        self.clock: Clock = SYSTEM
        # Long reads are done in a thread: see `open_in_thread`. While one is done, there is nothing to take.
        self._is_background = False
        self._is_reading = False
        self._has_read_ahead = False
        # Where it begins, until it has begun.
        self._start: Bookmark | None = None
        self.members: tuple[Subscription, ...] = ()
        self.lines: tuple[tuple[Subscription, ...], ...] = ()
        # How far it came with the members that it had at its end.
        self._final: Bookmark | None = None
        self.error: BaseException | None = None
        self.is_closed = False

    @property
    def is_inherited(self) -> bool:
        """This is a child of fork(), and the consumer is a copy of the parent's: its events are delivered in the
        parent."""
        return self._generation != fork.generation

    def open(self, flow: Flow) -> None:
        """Subscribe to everything in the flow, or to nothing.

        Raises:
            All errors of `FeedHub.attach`.
        """
        self.clock = find_clock(flow)
        if self.clock is SYSTEM:
            self._join(flow)
        else:
            with in_force(self.clock):
                self._join(flow)

    def _join(self, flow: Flow) -> None:
        self._set_members(self._subscriptions(flow, ()))
        try:
            self._attach()
        except BaseException:
            self.close()
            raise

    def open_in_thread(self, flow: Flow) -> None:
        """Subscribe to everything in the flow in a thread of `background`, and do all longer reads of the feed there.

        The position is fixed before this returns: initial values are read later, and hold every commit until then;
        without them, the feed begins with the first commit after this call. Until the feed has begun there is nothing
        to take; then the consumer is woken, also if the beginning has failed (see `error`).
        """
        for hub in flow.hubs():
            hub.check_place()
        self._is_background = self._is_reading = True
        self._start = find_first(request.start() for request in flow.requests())
        seqs: dict[Engine, int] = {}
        flow = flow.copy_with(partial(begin_at_present, seqs))
        self._set_members(self._subscriptions(flow, ()))
        for hub in flow.hubs():
            if hub.engine in seqs:
                # So that history is kept until it is read.
                hub.beginning[self] = seqs[hub.engine]
        background.run(partial(self._begin, flow))

    def _begin(self, flow: Flow) -> None:
        """The beginning, in the thread."""
        try:
            self._attach()
        except BaseException as error:
            if not self.is_closed:
                self.error = as_end(error)
            self.close()
        for hub in flow.hubs():
            hub.beginning.pop(self, None)
        if self.is_closed:
            self.settle()
        self._start = None
        self._end_reading()

    def _attach(self) -> None:
        for member in self.members:
            if self.is_closed:
                return
            if not any(run.is_finished for run in member.path):
                member.hub.attach(member)
                if member.is_closed:
                    # Closed by another thread, which could not know that it would be attached.
                    member.hub.forget(member)
        self._drop_finished()
        if len(self.members) > 1:
            self._begin_together()

    def _read_ahead(self) -> bool:
        """If the next event has to be read from the file, let a thread read it. Returns True then: there is nothing to
        take yet."""
        if self._has_read_ahead:
            # Whatever it has read, it is to be taken now.
            self._has_read_ahead = False
            return False
        if not any(member.must_read for member in self.members):
            return False
        self._is_reading = True
        background.run(self._read)
        return True

    def _read(self) -> None:
        """The same, in the thread."""
        for member in self.members:
            if member.must_read:
                member.read_ahead()
        self._has_read_ahead = True
        self._end_reading()

    def _end_reading(self) -> None:
        """There may be something to take again."""
        self._is_reading = False
        if not self.is_inherited:
            self.wake_after_read()

    def _begin_together(self) -> None:
        """Let members that deliver whole commits begin after the same commit: they begin one after the other, and the
        commits in between would reach only some of them."""
        together = [one for one in self.members if one.request.options.batches]
        if len(together) > 1:
            latest = max(one.since for one in together)
            with together[0].hub.held():
                for one in together:
                    if not one.request.options.include_initial:
                        one.begin_after(latest)

    def _subscriptions(self, flow: Flow, path: tuple[Run, ...]) -> Iterable[Subscription]:
        if flow.terms:
            path = (run_of(flow.terms), *path)
        if flow.hub is not None and flow.request is not None:
            yield Subscription(flow.hub, flow.request, self, path)
        for part in flow.parts:
            yield from self._subscriptions(part, path)

    def _drop_finished(self) -> None:
        """A `limit` that has been reached ends the members before it."""
        for one in self.members:
            if any(run.is_finished for run in one.path):
                self._take_out(one)

    def _take_out(self, member: Subscription) -> None:
        member.close()
        left = tuple(one for one in self.members if one is not member)
        if not left:
            self._final = member.bookmark
        self._set_members(left)

    def _set_members(self, members: Iterable[Subscription]) -> None:
        self.members = members = tuple(members)
        # If Ctrl-C strikes here, a member that was taken out is in a line: it is closed, and is taken out once more.
        if len(members) < 2:
            self.lines = (members,) if members else ()
        else:
            lines: dict[Hub, list[Subscription]] = {}
            for member in members:
                lines.setdefault(member.hub, []).append(member)
            self.lines = tuple(map(tuple, lines.values()))

    # -----------------------------------------------------------------------------------------------------------
    # Several members: a union of feeds

    @staticmethod
    def _find_next_member(line: Sequence[Subscription]) -> Subscription | None:
        """The next member of one database to deliver. None: there is nothing to deliver now.

        How a member begins comes before all changes; then the earliest change, and the first of the members that have it.
        """
        # Ended members, and members cut off by a `limit`, are no longer counted.
        line = [one for one in line if not one.is_closed]
        take_together(line)
        first = find_earliest(line)
        if first is None:
            return None
        engine = first.request.engine
        if (first.look() or 0) > engine.publisher.published:
            # A commit is offered to one member after the other. When the lock is free, all have it.
            with first.hub.held():
                pass
        # Commits are offered in the order of the log: all earlier ones are in the queues by now, but perhaps were not
        # when we looked.
        return find_earliest(line)

    def _poll(self, line: Sequence[Subscription]) -> tuple[Subscription, Any]:
        """The next event of the members of one database, with its member. It may be NOTHING, of any member, or ENDED."""
        if len(line) == 1:
            return line[0], line[0].poll()
        while (member := self._find_next_member(line)) is not None:
            seq = member.look()
            event = member.poll(is_in_line=True)
            if event is not NOTHING:
                if seq and event is not ENDED and member.request.options.batches:
                    event = self._merge_commit_lists(line, member, seq, event)
                return member, event
            # The member's opening is over, or it had no event.
        return line[0], NOTHING

    @staticmethod
    def _merge_commit_lists(
        line: Sequence[Subscription], member: Subscription, seq: int, event: list[Any]
    ) -> list[Any]:
        """Add to the list of one commit the other members' events of the same commit."""
        lists = [[*zip(member.seqs, event, strict=True)]]
        for other in line:
            if other is not member and not other.is_closed and other.look() == seq:
                more = other.poll(is_in_line=True)
                if isinstance(more, list):
                    lists.append([*zip(other.seqs, more, strict=True)])
        return [one for _, one in merge(*lists, key=itemgetter(0))]

    def _rearm(self) -> bool:
        """Be woken again from now on. True: it was not so before, so poll once more."""
        was_woken = False
        for member in self.members:
            if member.is_woken:
                was_woken = True
                member.rearm()
        return was_woken

    def _through_terms(self, member: Subscription, event: Any) -> list[Any]:
        events = [event]
        for run in member.path:
            events = [after for before in events for after in run.push(before)]
        if any(run.is_finished for run in member.path):
            self._drop_finished()
        return events

    def _interrupt(self) -> None:
        """Ctrl-C struck while an event was on its way, and it is unknown whether it was delivered. So the feed ends, and says so
        when it is polled or woken next."""
        self.error = FeedAborted("Changefeed aborted (interrupted during the delivery of an event)")
        self.close()

    def _remove_ended(self, member: Subscription) -> bool:
        """Take the member out. Whether that was an error, and so the end of all."""
        error = member.error
        if error is not None and self._final is None:
            # The others may be ahead of it.
            self._final = self.bookmark
        self._take_out(member)
        if error is not None and not self.is_closed:
            self.error = error
            self.close()
            return True
        return False

    def close(self) -> None:
        """Deliver nothing more. Any thread; a second call does nothing."""
        self.is_closed = True
        for member in self.members:
            member.close()

    def settle(self) -> None:
        """After `close`, where time does not matter: let the hub see whether anybody is left."""
        for member in self.members:
            member.hub.settle()

    @property
    def bookmark(self) -> Bookmark:
        """How far all members have delivered."""
        start, final, members = self._start, self._final, self.members
        if start is not None:
            return start
        if final is not None or not members:
            return final or Bookmark(0)
        return find_first(member.bookmark for member in members)

    @property
    def wait_s(self) -> float | None:
        """Seconds until some member has something; None where nothing is known to come."""
        if self._is_reading:
            return None
        members = self.members
        if len(members) == 1:
            return members[0].wait_s
        waits = [wait_s for member in members if (wait_s := member.wait_s) is not None]
        return min(waits, default=None)

    @property
    def delivery(self) -> str:
        raise NotImplementedError

    @property
    def way(self) -> Way:
        raise NotImplementedError

    def wake(self, subscription: Subscription) -> None:
        raise NotImplementedError

    def wake_after_read(self) -> None:
        """There may be something to take. Called in the thread that has read, without a lock."""
        raise NotImplementedError

    def now(self) -> float:
        return self.clock.monotonic()


def find_clock(flow: Flow) -> Clock:
    """The clock of the databases of a flow."""
    if flow.hub is not None:
        return flow.hub.engine.clock
    return next((hub.engine.clock for hub in flow.hubs() if hub.engine.clock is not SYSTEM), SYSTEM)


def begin_at_present(seqs: dict[Engine, int], request: Request) -> Request:
    """The request, so that it begins with the commits after now, however late it is attached. Requests with initial
    values are left as they are: those hold all commits until then.

    Args:
        seqs: The present position in each database. Requests of one database get the same.
    """
    options, engine = request.options, request.engine
    if options.since is not None or options.include_initial:
        return request
    if engine not in seqs:
        with engine.fresh_snapshot() as snapshot:
            seqs[engine] = snapshot.seq
    return request.copy_with(since=seqs[engine])


def find_earliest(line: Iterable[Subscription]) -> Subscription | None:
    """The member with the earliest change to deliver."""
    best: Subscription | None = None
    first = 0
    for member in line:
        seq = member.look()
        if seq is not None and (best is None or seq < first):
            best, first = member, seq
    return best


def take_together(line: Sequence[Subscription]) -> None:
    """Let members with the same squash interval take their net differences at one moment, when the first of them is
    due: then the differences of one commit are delivered together, as in a single feed."""
    for member in line:
        if not member.is_batch_due:
            continue
        interval_s = member.request.options.squash_s
        # With the lock, because a commit is offered to one member after the other.
        with member.hub.held():
            member.take_batch()
            for other in line:
                if other.request.options.squash_s == interval_s and not other.is_behind:
                    other.take_batch()


class PushConsumer(BaseConsumer):
    """An observer with a callback: called by the committing thread, or where its scheduler decides.

    Attributes:
        on_next: Called with each event.
    """

    __slots__ = (
        "_floor",
        "_is_asked",
        "_is_called",
        "_is_done",
        "_is_scheduled",
        "_on_completed",
        "_on_error",
        "_scheduler",
        "_timer",
        "_turn",
        "on_next",
    )

    def __init__(
        self,
        on_next: OnNext | None,
        on_error: OnError | None,
        on_completed: OnCompleted | None,
        scheduler: Any = None,
    ) -> None:
        super().__init__()
        self.on_next = on_next
        self._on_error = on_error
        self._on_completed = on_completed
        self._scheduler = make_thread_safe(scheduler)
        # Made when there is something to deliver first: most of very many feeds are idle.
        self._turn: Any = None
        self._is_called = False
        # A thread came while another one delivers, and the other has not checked since.
        self._is_asked = False
        self._is_scheduled = False
        # The pending timer or wake-up, in a list; the list is empty while the timer is being set.
        self._timer: list[Any] | None = None
        self._is_done = False
        # While a term has made several items of one event: the position before that event.
        self._floor: Bookmark | None = None

    @property
    def bookmark(self) -> Bookmark:
        position, floor = super().bookmark, self._floor
        return (
            position if floor is None else floor if len(self.members) < 2 else find_first((floor, position))
        )

    def open(self, flow: Flow) -> None:
        self._is_called = self._scheduler is None and len(list(flow.requests())) == 1
        super().open(flow)

    @property
    def way(self) -> Way:
        return "called" if self._is_called else "woken"

    @property
    def delivery(self) -> str:
        return "on commit" if self._scheduler is None else f"scheduler {name_scheduler(self._scheduler)}"

    def now(self) -> float:
        if self._scheduler is None:
            return self.clock.monotonic()
        return float(self._scheduler.to_seconds(self._scheduler.now))

    def wake(self, subscription: Subscription) -> None:
        subscription.hub.ready(self)

    def wake_after_read(self) -> None:
        if not self.is_closed or self.error is not None:
            self.run()

    # -----------------------------------------------------------------------------------------------------------
    # Where

    def run(self) -> None:
        """Called by the hub when there is something to deliver: here and now, or at the scheduler's time and place."""
        if self._scheduler is None:
            self._deliver()
        elif not self._is_scheduled:
            self._is_scheduled = True
            try:
                self._scheduler.schedule(self._on_scheduled)
            except INTERRUPTS:
                raise
            except BaseException as error:
                logger.exception("the scheduler of a feed refused: the feed ends")
                self._end_with(error, is_logged=True)

    def _on_scheduled(self, *_: Any) -> None:
        if self.is_inherited:
            return
        self._is_scheduled = False
        self._deliver()

    def _on_timer(self, *_: Any) -> None:
        """The scheduler's timer went off."""
        if self.is_inherited:
            return
        self._timer = None
        self._deliver()

    def _arm(self, now: float, wait_s: float) -> None:
        if self._timer is not None or self.is_closed:
            return
        # The timer may fire before this line ends. So it goes into its own list, and never into the place of a later
        # list: an expired timer there would keep the next timer from being set.
        armed: list[Any] = []
        self._timer = armed
        armed.append(self._set_timer(now, wait_s))
        if self.is_closed:
            _cancel(armed)

    def _set_timer(self, now: float, wait_s: float) -> Any:
        if self._scheduler is not None:
            try:
                return self._scheduler.schedule_relative(wait_s, self._on_timer)
            except INTERRUPTS:
                raise
            except BaseException:
                # A scheduler that cannot wait, such as ImmediateScheduler. Then this thread waits for it.
                logger.debug("%r cannot wait", self._scheduler, exc_info=True)
                now = self.clock.monotonic()
        return self.clock.call_at(now + wait_s, self._ring)

    def _ring(self) -> None:
        """The clock's thread: to where it delivers."""
        self._timer = None
        for member in self.members[:1]:
            member.hub.ready(self)
            member.hub.drain()

    def close(self) -> None:
        super().close()
        armed, self._timer = self._timer, None
        _cancel(armed or ())

    # -----------------------------------------------------------------------------------------------------------
    # Delivering

    def _deliver(self) -> None:
        """Deliver all pending events. A delivering thread checks again before it goes: it clears `_is_asked` before
        it polls, and reads it once more after giving the turn back, so no request is lost."""
        self._is_asked = True
        wait_s: float | None = None
        while self._is_asked:
            turn = self._turn or self._make_turn()
            if turn._is_owned():
                return
            try:
                if not turn.acquire(blocking=False):
                    return
                self._is_asked = False
                try:
                    if self._deliver_some():
                        return
                    # In this order: another thread may advance a virtual clock.
                    now = self.clock.monotonic()
                    wait_s = self.wait_s
                    if wait_s:
                        self._arm(now, wait_s)
                        if self.clock is not SYSTEM and self.wait_s == 0:
                            self._is_asked = True
                except INTERRUPTS:
                    self._interrupt()
                    raise
                except BaseException as error:
                    # A filter of the feed may raise for events from the log, and so may the clock of its scheduler.
                    self._broken(error, is_observers=True)
                    return
            finally:
                # As in `Dispatcher.run`.
                try:
                    turn.release()
                except RuntimeError:
                    pass
        if wait_s == 0:
            for member in self.members[:1]:
                # More than one turn's worth: the others first.
                member.hub.ready(self)
                if self._scheduler is not None:
                    member.hub.drain()

    def _make_turn(self) -> Any:
        with _making_turns:
            self._turn = self._turn or threading.RLock()
        return self._turn

    def _deliver_some(self) -> bool:
        """A turn's worth of events. Whether there is nothing more to come."""
        if self._is_reading:
            return False
        if self.error is not None:
            self._deliver_error()
            return True
        self._rearm()
        for line in self.lines:
            for _ in range(EVENTS_IN_A_TURN):
                if self._is_background and self._read_ahead():
                    return False
                member, event = self._poll(line)
                if event is NOTHING:
                    break
                if event is ENDED:
                    if self._remove_ended(member):
                        self._deliver_error()
                        return True
                    break
                if not self._pass_on(member, event):
                    return True
        if not self.members and not self.is_closed:
            self._complete()
        return self.is_closed

    def on_event(self, subscription: Subscription) -> OnEvent:
        if subscription.path:
            return partial(self._pass_through, subscription)
        return self.on_next or ignore

    def _pass_through(self, member: Subscription, event: Any) -> None:
        """Pass one event through the terms to the observer."""
        if self._pass_on(member, event) and not self.members:
            self._complete()

    def on_call_error(self, error: BaseException) -> None:
        self._broken(error, is_observers=True)

    def on_interrupt(self) -> None:
        self._interrupt()
        # To say so.
        for member in self.members:
            self.wake(member)

    def _pass_on(self, member: Subscription, event: Any) -> bool:
        """Pass one event to the observer. False: the feed has ended."""
        try:
            if not member.path:
                if self.on_next is not None:
                    self.on_next(event)
                return not self.is_closed
            events = self._through_terms(member, event)
        except INTERRUPTS:
            raise
        except BaseException as error:
            return self._broken(error, is_observers=not member.path)
        floor = member.floor if len(events) > 1 else None
        for number, one in enumerate(events, 1):
            self._floor = floor if number < len(events) else None
            try:
                if self.on_next is not None:
                    self.on_next(one)
            except INTERRUPTS:
                raise
            except BaseException as error:
                return self._broken(error, is_observers=True)
            if self.is_closed:
                return False
        return True

    def _broken(self, error: BaseException, *, is_observers: bool) -> bool:
        if is_observers:
            logger.error("a subscriber raised: its feed ends", exc_info=error)
        self._end_with(error, is_logged=is_observers)
        return False

    def _end_with(self, error: BaseException, *, is_logged: bool) -> None:
        self.error = as_end(error)
        self.close()
        self._deliver_error(is_logged=is_logged)

    def _deliver_error(self, *, is_logged: bool = False) -> None:
        if self._is_done:
            return
        self._is_done = True
        if self._on_error is None:
            if not is_logged:
                logger.error("a feed ended: %s", self.error)
            return
        try:
            self._on_error(self.error)  # type: ignore[arg-type]
        except INTERRUPTS:
            raise
        except BaseException:
            logger.exception("on_error of a subscriber raised")

    def _complete(self) -> None:
        self.close()
        if self._is_done:
            return
        self._is_done = True
        if self._on_completed is not None:
            try:
                self._on_completed()
            except INTERRUPTS:
                raise
            except BaseException:
                logger.exception("on_completed of a subscriber raised")


class AskedConsumer(BaseConsumer):
    """The common part of cursors: the next event, if there is one."""

    __slots__ = ("_floor", "_out", "_turn")

    def __init__(self) -> None:
        super().__init__()
        self._out: deque[Any] | None = None
        # The position before the items in `_out` were taken.
        self._floor = Bookmark(0)
        self._turn = threading.Lock()

    @property
    def way(self) -> Way:
        return "looking"

    @property
    def bookmark(self) -> Bookmark:
        # In this order: items that are in `_out` by now were not delivered at the time of the look.
        position, floor = super().bookmark, self._floor
        if not self._out:
            return position
        return floor if len(self.members) < 2 else find_first((floor, position))

    def take(self) -> Any:
        """The next event; NOTHING where there is none now; ENDED after the last.

        Raises:
            ForkedDatabase: The parent of this process opened it. The parent delivers its events, and a thread of the
                parent may hold its locks.
            Exception: The error that ended the feed, once.
        """
        if self._generation != fork.generation:
            raise ForkedDatabase(
                "this cursor was opened before fork(), and its events belong to the parent; open it again in the "
                "child, from a database that reactdb.connect has opened there"
            )
        event: Any = NOTHING
        # It was polled last in this call.
        member: Any = None
        try:
            with self._turn:
                is_armed = False
                while True:
                    if self._out:
                        # Not `popleft`: after a call, Ctrl-C may strike, and the event would be nowhere.
                        event = self._out[0]
                        del self._out[0]
                        return event
                    if self.error is not None:
                        error, self.error = self.error, None
                        raise error
                    if self.is_closed or not self.members:
                        self.close()
                        return ENDED
                    if self._is_background and (self._is_reading or self._read_ahead()):
                        return NOTHING
                    try:
                        for line in self.lines:
                            member, polled = self._poll(line)
                            if polled is NOTHING:
                                continue
                            if polled is ENDED:
                                self._remove_ended(member)
                            elif member.path:
                                self._put_through_terms(member, polled)
                            else:
                                event = polled
                                return event  # noqa: RET504 - kept, to put it back
                            is_armed = False
                            break
                        else:
                            # A consumer with events needs no wake-up. A consumer without events says so, and polls once more.
                            if is_armed or not self._rearm():
                                return NOTHING
                            is_armed = True
                    except Exception:
                        raise
                    except BaseException:
                        self._interrupt()
                        raise
        except BaseException:
            if event is not NOTHING:
                # Ctrl-C struck on the way out.
                self._put_back(member, event)
            raise

    def _put_through_terms(self, member: Subscription, event: Any) -> None:
        """Put the results of the terms for the event into `_out`."""
        self._floor = member.floor
        try:
            events = self._through_terms(member, event)
        except Exception as error:
            self.error = error
            self.close()
            return
        if self._out is None:
            self._out = deque()
        self._out.extend(events)

    def _put_back(self, member: Subscription | None, event: Any) -> None:
        """The event was taken and not delivered. `member`: where it was polled just now."""
        if member is not None:
            self._floor = member.floor
        if self._out is None:
            self._out = deque()
        self._out.appendleft(event)


class ReaderConsumer(AskedConsumer):
    """For readers: it is polled, and calls back once when there is something again.

    Attributes:
        on_ready: The callback; None: no callback.
    """

    __slots__ = ("_has_read", "_is_told", "_measure", "_telling", "_timer", "on_ready")

    delivery = "reader"

    def __init__(
        self, on_ready: Callable[[], object] | None, measure: Callable[[], float] | None = None
    ) -> None:
        """`measure`: seconds, for the times of net differences; None: the clock of the database."""
        super().__init__()
        self.on_ready = on_ready
        self._measure = measure
        # A thread has read for it, and it was not polled since. Then it calls back in any case: that the feed has begun is news.
        self._has_read = False
        # The callback was called, and not everything was read since. Of two threads that get here, the first calls.
        self._is_told = False
        self._telling = threading.Lock()
        self._timer: Any = None

    @property
    def way(self) -> Way:
        return "woken"

    def now(self) -> float:
        return self.clock.monotonic() if self._measure is None else self._measure()

    def wake(self, subscription: Subscription) -> None:
        # In the dispatcher's line, because it calls user code.
        subscription.hub.ready(self)

    def wake_after_read(self) -> None:
        if not self.is_closed or self.error is not None:
            self._has_read = True
            self.run()

    def run(self) -> None:
        """Call back, if there is something to read. Called by the dispatcher, and by the thread that sets the
        callback."""
        on_ready = self.on_ready
        if on_ready is None or self._is_told or self.is_inherited:
            return
        now = self.clock.monotonic()
        wait_s = 0.0 if self.error is not None or self._has_read else self.wait_s
        if wait_s:
            self._arm(now + wait_s)
        elif wait_s is not None:
            with self._telling:
                if self._is_told:
                    return
                self._is_told = True
            try:
                on_ready()
            except INTERRUPTS:
                raise
            except BaseException:
                logger.exception("on_ready of a reader raised")

    def _arm(self, due: float) -> None:
        """Net differences wait for their time."""
        if self._timer is None:
            self._timer = self.clock.call_at(due, self._ring)

    def _ring(self) -> None:
        self._timer = None
        for member in self.members[:1]:
            member.hub.ready(self)
            member.hub.drain()

    def rearm(self) -> bool:
        """Call back again for later events. True: there may be something already."""
        self._is_told = False
        return self._rearm()

    def poll(self, most: int) -> list[Any]:
        """The events that there are, at most `most`.

        Raises:
            Exception: The error that ended the feed, after the last event.
        """
        events: list[Any] = []
        try:
            # Before the look, so that no further look is needed after the last event: most polls find one event.
            self._rearm()
            self._has_read = False
            while len(events) < most:
                event = self.take()
                if event is NOTHING or event is ENDED:
                    if event is NOTHING:
                        # As in `take`, because `on_ready` may have been called in between.
                        self._is_told = False
                        wait_s = self.wait_s
                        if wait_s is not None and self.on_ready is not None:
                            self.run()
                    break
                events.append(event)
        except Exception as error:
            if not events:
                raise
            self.error = error
        except BaseException:
            self._interrupt()
            raise
        return events

    @property
    def queued(self) -> int:
        return sum(member.queued for member in self.members) + len(self._out or ())

    @property
    def is_reading(self) -> bool:
        """A thread reads for it, or has read what was not polled yet."""
        # In this order: the thread sets the second before it takes back the first.
        return self._is_reading or self._has_read_ahead

    @property
    def is_ending(self) -> bool:
        """Nothing more will be queued."""
        return self.is_closed or all(member.end is not None for member in self.members)

    @property
    def is_finished(self) -> bool:
        """Everything was read, and nothing more will come."""
        return (self.is_closed or not self.members) and self.error is None and not self._out

    def close(self) -> None:
        super().close()
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.dispose()


class PullConsumer(AskedConsumer):
    """For `for change in feed` and cursors."""

    __slots__ = ("_condition", "_signal")

    delivery = "cursor"

    def __init__(self) -> None:
        super().__init__()
        # Made by the thread that waits first: it takes more room than all the rest.
        self._condition: threading.Condition | None = None
        # A new one at each wake-up. With a flag, one of several waiting threads would clear it for all of them.
        self._signal = object()

    def wake(self, subscription: Subscription | None = None) -> None:
        # In this order: a thread that makes the condition after it was looked for here looks at the signal after making it.
        self._signal = object()
        condition = self._condition
        if condition is not None:
            with condition:
                condition.notify_all()

    def close(self) -> None:
        super().close()
        # In a forked child no thread waits, and a thread that did not come along may hold the condition's lock.
        if not self.is_inherited:
            self.wake()

    def next(self, timeout_s: float | None) -> Any:
        """Wait for the next event.

        Raises:
            TimeoutError: None came within `timeout_s` seconds.
            StopIteration: The feed was closed or has completed.
            Exception: The error that ended the feed, once.
        """
        deadline = None if timeout_s is None else self.clock.monotonic() + timeout_s
        while True:
            signal = self._signal
            event = self.take()
            if event is ENDED:
                raise StopIteration
            if event is not NOTHING:
                return event
            if deadline is not None and self.clock.monotonic() >= deadline:
                raise TimeoutError(f"the feed delivered nothing for {timeout_s:g} s")
            if not self._wait(signal, deadline) and deadline is not None:
                raise TimeoutError(
                    f"the feed delivered nothing, and nothing has advanced its virtual clock by {timeout_s:g} s while this "
                    "thread waited: advance the clock before next(timeout=0), or in another thread"
                )

    def _wait(self, signal: object, deadline: float | None) -> bool:
        """Wait for a wake-up later than `signal`. False: a virtual clock stands still."""
        # In this order: another thread may advance a virtual clock.
        now = self.clock.monotonic()
        wait_s = self.wait_s
        condition = self._condition
        if condition is None:
            with self._turn:
                # Re-entrant, because a finalizer may close the cursor while this very thread wakes it.
                condition = self._condition = self._condition or threading.Condition()
        with condition:
            if self._signal is signal:
                moments = [] if wait_s is None else [now + wait_s]
                if deadline is not None:
                    moments.append(deadline)
                return wait_until(condition, min(moments, default=None), self.clock)
        return True


class AsyncConsumer(AskedConsumer):
    """For `async for`. The waiting tasks share a cursor, so they belong to one event loop."""

    __slots__ = ("_loop", "_taken", "_waiting")

    delivery = "async cursor"

    def __init__(self) -> None:
        super().__init__()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._taken = 0

    def wake(self, subscription: Subscription | None = None) -> None:
        loop = self._loop
        if loop is None or not self._waiting:
            # No task waits: it will look before it does.
            return
        try:
            loop.call_soon_threadsafe(self._wake_up)
        except RuntimeError:
            # The loop was closed under us.
            super().close()
        except INTERRUPTS:
            raise
        except BaseException as error:
            # A closed loop of a user's. The others must still be woken.
            logger.exception("the event loop of a feed refused: the feed ends")
            self.error = as_end(error)
            super().close()

    def wake_after_read(self) -> None:
        self.wake()

    def _wake_up(self) -> None:
        # All of them: one wake-up covers a burst, and only a look shows how many events it has.
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    def close(self) -> None:
        super().close()
        self.wake()

    async def next(self) -> Any:
        """Wait for the next event.

        Raises:
            StopAsyncIteration: The feed was closed or has completed.
            Exception: The error that ended the feed, once.
        """
        self._taken += 1
        if self._taken % EVENTS_WITHOUT_PAUSE == 0:
            from asyncio import sleep

            await sleep(0)
        event = self.take()
        if event is NOTHING:
            event = await self._wait()
        if event is ENDED:
            raise StopAsyncIteration
        return event

    async def _wait(self) -> Any:
        from asyncio import get_running_loop

        loop = get_running_loop()
        if self._waiting and loop is not self._loop:
            raise UsageError("this cursor is awaited in another event loop; take a cursor for each loop")
        self._loop = loop
        while True:
            future: asyncio.Future[None] = loop.create_future()
            self._waiting[future] = None
            timer: asyncio.TimerHandle | None = None
            call: PendingCall | None = None
            try:
                # After saying that a task waits, look once more.
                event = self.take()
                if event is not NOTHING:
                    return event
                now = self.clock.monotonic()
                due_s = self.wait_s
                if due_s is not None and (self.clock is not SYSTEM or is_frozen()):
                    call = self.clock.call_at(now + due_s, self.wake)
                    if self.clock.monotonic() >= now + due_s:
                        # Another thread has advanced the clock in between.
                        future.set_result(None)
                elif due_s is not None:
                    timer = loop.call_later(due_s, self._wake_up)
                await future
            finally:
                del self._waiting[future]
                if timer is not None:
                    timer.cancel()
                if call is not None:
                    call.dispose()


def _cancel(armed: Iterable[Any]) -> None:
    """Cancel timers. They may belong to a scheduler of the user's."""
    for timer in armed:
        try:
            timer.dispose()
        except INTERRUPTS:
            raise
        except BaseException:
            logger.exception("a timer of a feed's scheduler could not be cancelled")


@fork.call_in_child
def _forget() -> None:
    """A thread that did not come along may hold the lock."""
    global _making_turns
    _making_turns = threading.Lock()
