"""Consumers: who polls subscriptions, when, and what is done with the events. PushConsumer calls an observer.

One consumer may have several subscriptions (a union of feeds). It tells in one place at a time, whichever thread that is: the
committing one, a scheduler's, the timers'. Whoever comes while it is telling says that it was there, and leaves again; who is
telling looks for that after letting go.

A subscriber that raises ends its own feed. Rule of this file: no lock is held while an observer is called, but for the
consumer's own turn.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from reactdb.errors import FeedAborted, UsageError
from reactdb.feeds.bookmark import ANEW, Bookmark, first_of
from reactdb.feeds.claim import Claim
from reactdb.feeds.direct import EVENTS_IN_A_TURN
from reactdb.feeds.fan import OnEvent, nobody
from reactdb.feeds.hearing import ENDED, NOTHING, Way
from reactdb.feeds.hub import FeedHub
from reactdb.feeds.request import Request
from reactdb.feeds.schedulers import for_any_thread
from reactdb.feeds.subscription import Subscription
from reactdb.feeds.terms import run_of
from reactdb.feeds.timers import timers
from reactdb.logs import logger
from reactdb.query import Step
from reactdb.steps import Run
from reactdb.store.file import fork

_making_turns = threading.Lock()

OnNext = Callable[[Any], None]
OnError = Callable[[Exception], None]
OnCompleted = Callable[[], None]


class Flow:
    """A feed as a tree: a request, or flows told as one; then terms."""

    __slots__ = ("parts", "request", "terms")

    def __init__(
        self, request: Request | None, parts: Sequence[Flow] = (), terms: tuple[Step, ...] = ()
    ) -> None:
        self.request = request
        self.parts = tuple(parts)
        self.terms = terms

    def then(self, term: Step) -> Flow:
        return Flow(self.request, self.parts, (*self.terms, term))

    def requests(self) -> Iterable[Request]:
        if self.request is not None:
            yield self.request
        for part in self.parts:
            yield from part.requests()

    def token(self, consumer: BaseConsumer | None) -> str | None:
        """How far the consumer has been told; where there is none, where it would begin. None: begin anew.

        Raises:
            UsageError: There are feeds of several databases in it.
        """
        requests = list(self.requests())
        hub = requests[0].hub
        if any(request.hub is not hub for request in requests):
            raise UsageError(
                "a union of feeds of several databases has no token, because each database has a log of its own: take the tokens "
                "of cursors of its members"
            )
        bookmark = first_of(one.start() for one in requests) if consumer is None else consumer.bookmark
        if bookmark == ANEW:
            return None
        return hub.token(bookmark.seq) + bookmark.suffix


class BaseConsumer:
    """What all consumers share: their subscriptions, and the way of an event through the terms."""

    __slots__ = ("__weakref__", "_final", "_generation", "_lines", "error", "is_closed", "members")

    def __init__(self) -> None:
        self._generation = fork.generation
        self.members: tuple[Subscription, ...] = ()
        # The members, and those of each database together.
        self._lines: tuple[tuple[Subscription, ...], list[list[Subscription]]] | None = None
        # How far it came with the members that it had at its end.
        self._final: Bookmark | None = None
        self.error: BaseException | None = None
        self.is_closed = False

    @property
    def is_inherited(self) -> bool:
        """This is a child of fork(), and the consumer is a copy of the parent's: whatever it holds, the parent tells."""
        return self._generation != fork.generation

    def open(self, flow: Flow) -> None:
        """Subscribe to everything in the flow, or to nothing.

        Raises:
            What `FeedHub.attach` raises.
        """
        self.members = tuple(self._subscriptions(flow, ()))
        try:
            for member in self.members:
                if not any(run.is_finished for run in member.path):
                    member.request.hub.attach(member)
            self._drop_finished()
        except BaseException:
            self.close()
            raise

    def _subscriptions(self, flow: Flow, path: tuple[Run, ...]) -> Iterable[Subscription]:
        if flow.terms:
            path = (run_of(flow.terms), *path)
        if flow.request is not None:
            yield Subscription(flow.request, self, path)
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
        self.members = left

    # -----------------------------------------------------------------------------------------------------------
    # Several members: a union of feeds

    @property
    def lines(self) -> list[list[Subscription]]:
        """The members of each database. Those of one are told in the order of its log; two logs have no order in common."""
        members, known = self.members, self._lines
        if known is None or known[0] is not members:
            lines: dict[FeedHub, list[Subscription]] = {}
            for member in members:
                lines.setdefault(member.request.hub, []).append(member)
            known = self._lines = members, list(lines.values())
        return known[1]

    @staticmethod
    def whose_turn(line: Sequence[Subscription]) -> Subscription | None:
        """Which of the members of one database tells next. None: there is nothing to tell now.

        How a member begins comes before all changes; then the earliest change, and the first of the members that tell it.
        """
        take_together(line)
        found = earliest(line)
        # Changes are offered in the order of the log: all before this one are there by now, but perhaps not when they were
        # looked for.
        return None if found is None else earliest(line)

    def _through_terms(self, member: Subscription, event: Any) -> list[Any]:
        events = [event]
        for run in member.path:
            events = [after for before in events for after in run.push(before)]
        if any(run.is_finished for run in member.path):
            self._drop_finished()
        return events

    def _interrupt(self) -> None:
        """Ctrl-C struck while an event was on its way: nobody knows whether it was told. So the feed ends, and says so, when it
        is asked or woken next."""
        self.error = FeedAborted("Changefeed aborted (interrupted while an event was told)")
        self.close()

    def _member_ended(self, member: Subscription) -> bool:
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
        """Hear nothing more. Any thread; a second call does nothing."""
        self.is_closed = True
        for member in self.members:
            member.close()

    def settle(self) -> None:
        """After `close`, where time does not matter: let the hub see whether anybody is left."""
        for member in self.members:
            member.request.hub.settle()

    @property
    def bookmark(self) -> Bookmark:
        """How far all members have been told."""
        final, members = self._final, self.members
        if final is not None or not members:
            return final or Bookmark(0)
        return first_of(member.bookmark for member in members)

    @property
    def wait_s(self) -> float | None:
        """Seconds until some member has something; None where nothing is known to come."""
        waits = [wait_s for member in self.members if (wait_s := member.wait_s) is not None]
        return min(waits, default=None)

    @property
    def way(self) -> Way:
        raise NotImplementedError

    def wake(self, subscription: Subscription) -> None:
        raise NotImplementedError

    def now(self) -> float:
        return time.monotonic()


def earliest(line: Iterable[Subscription]) -> Subscription | None:
    """Who has the earliest of what there is to tell."""
    found: Subscription | None = None
    first = 0
    for member in line:
        seq = member.look()
        if seq is not None and (found is None or seq < first):
            found, first = member, seq
    return found


def take_together(line: Sequence[Subscription]) -> None:
    """Let those that tell net differences at the same interval take theirs at one moment, when the first of them is due: the
    differences of one commit are then told together, as those of a single feed are."""
    for member in line:
        if not member.is_batch_due:
            continue
        interval_s = member.request.options.squash_s
        # With the lock, because whoever publishes a commit offers it to one after the other.
        with member.request.hub.engine.publish_lock:
            member.take_batch()
            for other in line:
                if other.request.options.squash_s == interval_s and not other.is_behind:
                    other.take_batch()


class PushConsumer(BaseConsumer):
    """An observer that is called: by the committing thread, or where its scheduler says.

    Attributes:
        on_next: What is called with each event.
    """

    __slots__ = (
        "_floor",
        "_is_asked",
        "_is_done",
        "_is_scheduled",
        "_is_told_by_one_hub",
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
        self._scheduler = for_any_thread(scheduler)
        # Made when there is something to tell first: most of very many feeds are idle.
        self._turn: Claim | None = None
        self._is_told_by_one_hub = False
        # Somebody came, and whoever tells has not looked since.
        self._is_asked = False
        self._is_scheduled = False
        # What will wake it, where something waits for its time: in a list, which is empty while it is being set.
        self._timer: list[Any] | None = None
        self._is_done = False
        # While a term has made several items of one event: how far it came before that.
        self._floor: Bookmark | None = None

    @property
    def bookmark(self) -> Bookmark:
        found, floor = super().bookmark, self._floor
        return found if floor is None else floor if len(self.members) < 2 else first_of((floor, found))

    def open(self, flow: Flow) -> None:
        hubs = {request.hub for request in flow.requests()}
        self._is_told_by_one_hub = self._scheduler is None and len(hubs) == 1
        super().open(flow)

    @property
    def way(self) -> Way:
        return "called" if self._is_told_by_one_hub and len(self.members) == 1 else "woken"

    def now(self) -> float:
        if self._scheduler is None:
            return time.monotonic()
        return float(self._scheduler.to_seconds(self._scheduler.now))

    def wake(self, subscription: Subscription) -> None:
        subscription.request.hub.is_ready(subscription if self.is_plain(subscription) else self)

    def is_plain(self, subscription: Subscription) -> bool:
        """Whether each of its events goes straight to `on_next`."""
        return (
            self._is_told_by_one_hub
            and len(self.members) == 1
            and not subscription.path
            and self.on_next is not None
        )

    # -----------------------------------------------------------------------------------------------------------
    # Where

    def run(self) -> None:
        """Called by the hub when there is something to tell: here and now, or at the scheduler's time and place."""
        if self._scheduler is None:
            self._tell()
        elif not self._is_scheduled:
            self._is_scheduled = True
            try:
                self._scheduler.schedule(self._scheduled)
            except Exception as error:
                logger.exception("the scheduler of a feed refused: the feed ends")
                self._end_with(error, is_logged=True)

    def _scheduled(self, *_: Any) -> None:
        if self.is_inherited:
            return
        self._is_scheduled = False
        self._tell()

    def _fired(self, *_: Any) -> None:
        """The scheduler's timer went off."""
        if self.is_inherited:
            return
        self._timer = None
        self._tell()

    def _arm(self, wait_s: float) -> None:
        if self._timer is not None or self.is_closed:
            return
        # It may go off before it is known here. So it is put into what stands for it, and never in the place of what stands here
        # by then: a timer that is over, there, would keep the next from being set.
        armed: list[Any] = []
        self._timer = armed
        armed.append(self._set_timer(wait_s))
        if self.is_closed:
            armed[0].dispose()

    def _set_timer(self, wait_s: float) -> Any:
        if self._scheduler is not None:
            try:
                return self._scheduler.schedule_relative(wait_s, self._fired)
            except Exception:
                # One that cannot wait, such as ImmediateScheduler. Then we wait for it.
                logger.debug("%r cannot wait", self._scheduler, exc_info=True)
        return timers.call_later(wait_s, self._ring)

    def _ring(self) -> None:
        """The timers' thread: to where it tells."""
        self._timer = None
        for member in self.members[:1]:
            hub: FeedHub = member.request.hub
            hub.is_ready(self)
            hub.drain()

    def close(self) -> None:
        super().close()
        armed, self._timer = self._timer, None
        for timer in armed or ():
            timer.dispose()

    # -----------------------------------------------------------------------------------------------------------
    # Telling

    def _tell(self) -> None:
        """Tell what there is. Where another thread is at it already, that one looks again before it goes: it clears `_is_asked`
        before it looks, and looks at it once more after the claim is let go, so nobody has asked in vain."""
        self._is_asked = True
        wait_s: float | None = None
        while self._is_asked:
            mine = threading.Lock()
            with mine:
                # Where one hub tells, without a scheduler, it tells one at a time, by a claim of its own.
                if not self._is_told_by_one_hub and not self._claim().take(mine):
                    return
                if self._tell_some():
                    return
                wait_s = self.wait_s
                if wait_s:
                    self._arm(wait_s)
        if wait_s == 0:
            for member in self.members[:1]:
                # More than one turn's worth: the others first.
                member.request.hub.is_ready(self)
                if self._scheduler is not None:
                    member.request.hub.drain()

    def _claim(self) -> Claim:
        if self._turn is None:
            with _making_turns:
                self._turn = self._turn or Claim()
        return self._turn

    def _tell_some(self) -> bool:
        """Whether there is nothing more to come."""
        if self.error is not None:
            self._tell_error()
            return True
        try:
            self._is_asked = False
            return self._tell_members()
        except Exception:
            raise
        except BaseException:
            self._interrupt()
            raise

    def _tell_members(self) -> bool:
        if len(self.members) > 1:
            return self._tell_in_line()
        for member in self.members:
            if member.is_woken:
                member.rest()
            if member.is_opening:
                more = member.tell_opening(self._pass_on, EVENTS_IN_A_TURN)
                if more is ENDED:
                    if self._member_ended(member):
                        self._tell_error()
                        return True
                    continue
                if not more:
                    return True
                if member.is_opening:
                    # The rest in another turn.
                    continue
            for _ in range(EVENTS_IN_A_TURN):
                event = member.poll()
                if event is NOTHING:
                    break
                if event is ENDED:
                    if self._member_ended(member):
                        self._tell_error()
                        return True
                    break
                if not self._pass_on(member, event):
                    return True
                if not member.has_work:
                    # Asking once more would cost as much as the event did.
                    break
        if not self.members and not self.is_closed:
            self._complete()
        return self.is_closed

    def _tell_in_line(self) -> bool:
        """As `_tell_members`, for several: each event when it is its turn."""
        for member in self.members:
            if member.is_woken:
                member.rest()
        for line in self.lines:
            for _ in range(EVENTS_IN_A_TURN):
                # Those that have ended, or are cut off by a `limit`, are members no more.
                found = self.whose_turn([one for one in line if not one.is_closed])
                if found is None:
                    break
                if found.is_opening:
                    event = found.tell_opening(self._pass_on, EVENTS_IN_A_TURN)
                    is_over = event is False
                else:
                    event = found.poll(is_in_line=True)
                    is_over = event is not NOTHING and event is not ENDED and not self._pass_on(found, event)
                if is_over:
                    return True
                if event is ENDED and self._member_ended(found):
                    self._tell_error()
                    return True
                if found.is_opening:
                    # The rest in another turn.
                    break
        if not self.members and not self.is_closed:
            self._complete()
        return self.is_closed

    def on_event(self, subscription: Subscription) -> OnEvent:
        if subscription.path:
            return partial(self._pass_through, subscription)
        return self.on_next or nobody

    def _pass_through(self, member: Subscription, event: Any) -> None:
        """One event to the observer, through its terms."""
        if self._pass_on(member, event) and not self.members:
            self._complete()

    def broken(self, error: Exception) -> None:
        self._broken(error, is_observers=True)

    def interrupted(self) -> None:
        self._interrupt()
        # To say so.
        for member in self.members:
            self.wake(member)

    def _pass_on(self, member: Subscription, event: Any) -> bool:
        """One event to the observer. False: the feed has ended."""
        try:
            if not member.path:
                if self.on_next is not None:
                    self.on_next(event)
                return not self.is_closed
            events = self._through_terms(member, event)
        except Exception as error:
            return self._broken(error, is_observers=not member.path)
        floor = member.floor if len(events) > 1 else None
        for number, one in enumerate(events, 1):
            self._floor = floor if number < len(events) else None
            try:
                if self.on_next is not None:
                    self.on_next(one)
            except Exception as error:
                return self._broken(error, is_observers=True)
            if self.is_closed:
                return False
        return True

    def _broken(self, error: Exception, *, is_observers: bool) -> bool:
        if is_observers:
            logger.error("a subscriber raised: its feed ends", exc_info=error)
        self._end_with(error, is_logged=is_observers)
        return False

    def _end_with(self, error: Exception, *, is_logged: bool) -> None:
        self.error = error
        self.close()
        self._tell_error(is_logged=is_logged)

    def _tell_error(self, *, is_logged: bool = False) -> None:
        if self._is_done:
            return
        self._is_done = True
        if self._on_error is None:
            if not is_logged:
                logger.error("a feed ended: %s", self.error)
            return
        try:
            self._on_error(self.error)  # type: ignore[arg-type]
        except Exception:
            logger.exception("on_error of a subscriber raised")

    def _complete(self) -> None:
        self.close()
        if self._is_done:
            return
        self._is_done = True
        if self._on_completed is not None:
            try:
                self._on_completed()
            except Exception:
                logger.exception("on_completed of a subscriber raised")


@fork.in_child
def _forget() -> None:
    """A thread that did not come along may hold the lock."""
    global _making_turns
    _making_turns = threading.Lock()
