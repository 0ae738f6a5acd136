"""Subscription: one query as one subscriber hears it: first how it begins, then what is queued, then how it ends.

    opening    states and initial values
    live       the hub offers it what each change does; it queues that, or shares a queue: see `fan` and `chain`
    behind     it reads on from the log: after `since`, or where its queue was full and nothing may be lost

Two threads meet here: one offers (under the publish lock), one polls (in the consumer's turn). They share the queue, which knows
how; `end` and `reader`, which the one sets and the other reads; and nothing else.

Rule of this file: it gives events to whoever asks. When to ask, and what becomes of them, is the consumer's business.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from reactdb.change import Change
from reactdb.errors import FeedOverflow, ReactDBError
from reactdb.feeds.beginning import InitialValues
from reactdb.feeds.bookmark import ANEW, Bookmark
from reactdb.feeds.chain import ChainQueue
from reactdb.feeds.compiler import Plan
from reactdb.feeds.direct import SPILLED, Direct
from reactdb.feeds.events import Event, Render, overflow, state
from reactdb.feeds.hearing import ENDED, NOTHING, Consumer
from reactdb.feeds.log_reader import LogReader
from reactdb.feeds.queue import FeedQueue, Queue
from reactdb.feeds.request import Request
from reactdb.feeds.union_queue import squash_queue
from reactdb.feeds.views.base import AnyDelta, Delta, Order, present_order
from reactdb.logs import logger

if TYPE_CHECKING:
    from reactdb.feeds.fan import Fan
    from reactdb.feeds.node import Node
    from reactdb.steps import Run

# A timer that fires this much early still fires: clocks round.
EARLY_S = 0.0005


def without_moves(deltas: Sequence[AnyDelta]) -> Sequence[AnyDelta]:
    """Those that are told to who did not ask for offsets."""
    for delta in deltas:
        if type(delta) is Delta and delta.is_move:
            return [one for one in deltas if type(one) is not Delta or not one.is_move]
    return deltas


class Subscription(Direct):
    """See the head of this file.

    Attributes:
        node: The shared view that offers; None while it reads on from the log, and after its end.
        path: What is applied to its events after `changes()`.
    """

    __slots__ = ("_initial", "node", "path")

    def __init__(self, request: Request, consumer: Consumer, path: tuple[Run, ...] = ()) -> None:
        super().__init__(request, consumer)
        self.path = path
        self.node: Node | None = None
        # Its initial values, until the last of them was told.
        self._initial: InitialValues | None = None

    # -----------------------------------------------------------------------------------------------------------
    # Beginning: called by the hub, under the publish lock

    def begin(self, plan: Plan, seq: int, ordered: Order, *, is_prepared: bool) -> None:
        """Live from `seq` on. `ordered`: what offsets begin with. Without `is_prepared`, nothing is told before
        `provide` says how it begins."""
        self.since = seq
        self._prepare(plan, ordered)
        self._is_prepared = is_prepared
        if is_prepared and self.request.options.include_states:
            self._opening = self._begin_telling(None)

    def provide(self, initial: InitialValues | None) -> None:
        """The initial values to begin with; None for none. Any thread, once. It closes the walk that they come from."""
        self._initial = initial
        if initial is not None or self.request.options.include_states:
            self._opening = self._begin_telling(initial)
        self._is_prepared = True
        if self.is_closed:
            self._close_walk()

    def _close_walk(self) -> None:
        walk = None if self._initial is None else self._initial.walk
        if walk is not None:
            walk.close()

    def begin_behind(self, reader: LogReader, *, is_prepared: bool) -> None:
        """At the reader's position; the log tells what came since. Without `is_prepared`, as `begin`."""
        self.since = self._base = reader.position
        self.reader = reader
        self.count_failures_of(reader, 0)
        self._prepare(reader.plan, present_order(reader.plan.view))
        self._is_prepared = is_prepared
        if is_prepared and self.request.options.include_states:
            self._opening = iter([state("catching_up", self.request.options)])

    def _prepare(self, plan: Plan, ordered: Order) -> None:
        options = self.request.options
        self._render = self.request.render(plan.is_ordered)
        if options.squash_s is None:
            self.queue = FeedQueue(options.queue_size)
        else:
            # The first batch is what is told on subscribing; the interval runs from there.
            self._pace = (0, self.consumer.now() + options.squash_s if options.squash_s else 0.0)
            self.queue = squash_queue(options.queue_size, ordered, has_offsets=options.include_offsets)

    def _begin_telling(self, initial: InitialValues | None) -> Iterator[Event]:
        options = self.request.options
        if not options.include_states:
            return iter(initial or ())
        after = (state("catching_up" if self.is_behind else "ready", options),)
        return iter(after) if initial is None else chain((state("initializing", options),), initial, after)

    # -----------------------------------------------------------------------------------------------------------
    # Offering: called by the hub, under the publish lock

    def offer(self, deltas: Sequence[AnyDelta], seq: int) -> bool:
        """Take in what the change `seq` does. False: there was no room, and it will read on from the log."""
        if seq <= self.since:
            return True
        queue, options = self.queue, self.request.options
        assert queue is not None
        if options.squash_s is None and not options.include_offsets:
            if type(deltas[0]) is not Change:
                # What will not be told must neither fill the queue nor be counted.
                deltas = without_moves(deltas)
                if not deltas:
                    return True
            if options.on_overflow == "drop" and self.end is None:
                # Most feeds.
                queue.add(deltas)
                if not self.is_woken:
                    self.is_woken = True
                    self.consumer.wake(self)
                return True
        if self.end is not None:
            if isinstance(self.end, FeedOverflow):
                self.end = FeedOverflow(self.end.skipped + len(deltas))
            return True
        on_overflow = options.on_overflow
        if on_overflow != "drop" and not queue.has_room(deltas):
            # What is queued is told first: it is all there up to here, and can be gone on from.
            self._base = seq - 1
            if on_overflow == "spill":
                self.reader = SPILLED
                self.wake()
                return False
            self.end = FeedOverflow(len(deltas))
        else:
            queue.add(deltas)
        self.wake()
        return True

    def offer_all(self, changes: Sequence[Change]) -> bool:
        """Take in what these changes of one commit do, each of which is its own delta. False: as `offer`."""
        assert self.queue is not None
        if changes[0].seq > self.since and self.queue.has_room(changes):
            return self.offer(changes, changes[-1].seq)
        # Where not all have room it matters which of them comes when. Who has left is not told of the rest.
        return all(self.offer((change,), change.seq) for change in changes)

    @property
    def may_share(self) -> bool:
        """Whether what it is told, and how, others may be told alike."""
        is_simple = type(self.queue) is FeedQueue and self.request.options.on_overflow == "drop"
        return is_simple and self.consumer.way != "alone"

    def is_settled(self, seq: int) -> bool:
        """Whether it has nothing but what is published after `seq` to tell: then it may share a queue."""
        queue = self.queue
        return (
            self.since <= seq
            and self._is_prepared
            and self._opening is None
            and self.end is None
            and not self.is_behind
            and (queue is None or (not len(queue) and queue.dropped == self._dropped_told))
        )

    @property
    def kind(self) -> tuple[bool, bool, int, Render]:
        """Who has the same may share a queue: (whether it is called, whether it hears of moves, room, what its events are)."""
        options = self.request.options
        return self.consumer.way == "called", options.include_offsets, options.queue_size, self._render

    def fanned(self, fan: Fan) -> None:
        """From now on, what is published is told by the fan."""
        self._fan_from = fan.mark
        self._fan = fan
        if self.queue is not None:
            self._dropped_told = self.queue.dropped
            self.queue = None

    def chained(self, queue: ChainQueue) -> None:
        """From now on, what is published is in that queue, and who sleeps has to say so there."""
        if self.queue is not None:
            queue.carry(self.queue.dropped)
        self.queue = queue
        if not self.is_woken:
            queue.chain.sleepers[self] = None

    def rest(self) -> None:
        """It wants to be woken again. Whoever says so looks once more afterwards."""
        self.is_woken = False
        queue = self.queue
        if type(queue) is ChainQueue:
            queue.chain.sleepers[self] = None

    def _seal(self) -> None:
        """What is published from now on is not for it. Under the publish lock."""
        fan, queue = self._fan, self.queue
        if fan is not None:
            self._fan_from = (*self._fan_from[:3], fan.added)
            # Also where it is awake: Ctrl-C may have struck between its saying so and being in line.
            fan.wake()
        elif type(queue) is ChainQueue:
            queue.stop()

    def fail(self, error: Exception) -> bool:
        """It could not take in what it was offered, so what is queued is all that it can tell. Returns False, as `offer`."""
        self._seal()
        self.end = error
        try:
            self.wake()
        except Exception:
            # Its consumer cannot be woken: it will look when somebody asks it.
            logger.exception("a feed that ends could not be told so")
        return False

    def finish(self, end: Any) -> None:
        """Nothing more will come; what is queued is still told. `end` is COMPLETED or the error."""
        if self.end is None:
            if self._base is None:
                self._base = max(self._routed(), self.since)
            self._seal()
            self.end = end
        # Also where it is woken already, as it says: Ctrl-C may have struck between its saying so and being woken.
        self.is_woken = True
        self.consumer.wake(self)

    # -----------------------------------------------------------------------------------------------------------
    # Polling: called by the consumer, in its turn

    def poll(self, *, is_in_line: bool = False) -> Any:
        """The next event; NOTHING where there is none now; ENDED after the last one (see `error`).

        `is_in_line`: others are told together with this one, so after how it begins, and after each page of the log, it gives
        NOTHING, and whoever polls looks again whose turn it is.
        """
        try:
            return self._next_event(is_in_line=is_in_line)
        except Exception as error:
            # A filter or a map failed for an initial value.
            self.end = error
            return ENDED

    def look(self) -> int | None:
        """Where in the log that stands which `poll` would give: 0 for what stands nowhere, such as initial values; None where
        there is nothing to give now. For a consumer that tells several subscriptions in the order of the log."""
        try:
            return self._look()
        except Exception as error:
            # A change could not be read: `poll` says so.
            self.end = self.end or error
            return 0

    def _look(self) -> int | None:
        while self._is_prepared and not self.is_closed:
            queue = self.queue
            first = self._batch[0].seq if self._batch else None
            if first is None:
                if self._opening is not None:
                    return 0
                if queue is None:
                    # As `poll` has it: it is still to be attached.
                    return None
                if queue.dropped != self._dropped_told:
                    return 0
                first = None if queue.is_squashed else queue.first_seq
            if first is not None:
                engine = self.request.hub.engine
                if first > engine.published and (self.is_behind or first <= self.since):
                    # It has read in the file what the others have not heard of yet.
                    engine.catch_up()
                return first
            assert queue is not None
            if self.end is None and self.is_behind and not self.is_batch_due:
                self._read_on(queue)
            elif self.end is None and self._is_in_use():
                return None
            elif not len(queue):
                # Its end comes after all that the others were told of before it.
                return self.position + 1
            else:
                return None
        return 0 if self.is_closed else None

    @property
    def is_batch_due(self) -> bool:
        """Whether net differences may be taken now."""
        queue = self.queue
        is_idle = self._is_prepared and self._opening is None and self._batch is None
        return is_idle and queue is not None and queue.is_squashed and self._is_due(queue)

    def take_batch(self) -> None:
        """Take the net differences, for `poll` to give, and wait for the next ones from now on."""
        queue = self.queue
        is_idle = self._is_prepared and self._opening is None and self._batch is None
        if is_idle and queue is not None and queue.is_squashed and not self.is_closed:
            squash_s = self.request.options.squash_s
            self._take_batch(queue)
            if squash_s:
                self._pace = (self._pace[0], self.consumer.now() + squash_s)

    @property
    def is_opening(self) -> bool:
        """How it begins is what is told next, and none of it is a change."""
        return self._opening is not None and not self._batch and not self.is_closed

    def tell_opening(self, pass_on: Callable[[Subscription, Event], bool], most: int) -> Any:
        """As `poll` and `pass_on` for up to `most` events of how it begins: initial values may be very many. ENDED, or whether
        `pass_on` wants more."""
        before = self._told
        try:
            for event in islice(self._opening or (), most):
                self._told += 1
                if not pass_on(self, event):
                    return False
                if self.is_closed:
                    return True
        except Exception as error:
            # A filter or a map failed for an initial value.
            self.end = error
            return ENDED
        if self._told - before < most:
            self._opening = self._initial = None
        return True

    def _next_event(self, *, is_in_line: bool) -> Any:
        if not self._is_prepared:
            return ENDED if self.is_closed else NOTHING
        fan = self._fan
        if fan is not None and not self.is_closed:
            # The fan tells; here is only how it ends, after that.
            return NOTHING if self.end is None or fan.settled < self._fan_from[3] else ENDED
        while not self.is_closed:
            if self._opening is not None:
                event = next(self._opening, None)
                if event is not None:
                    self._told += 1
                    return event
                self._opening = self._initial = None
                if is_in_line:
                    return NOTHING
            queue = self.queue
            if queue is None:
                # A fan has taken it over since, or it is still to be attached, while another member of its union is told.
                return NOTHING
            skipped = queue.dropped - self._dropped_told
            if skipped and self._batch is None:
                self._dropped_told += skipped
                self._told += 1
                return overflow(skipped)
            delta = self._next_delta(queue)
            if delta is None:
                if self.is_behind and self.end is None:
                    self._read_on(queue)
                    if is_in_line:
                        return NOTHING
                    continue
                if self.end is None:
                    if not self._is_in_use():
                        break
                elif not len(queue):
                    break
                return NOTHING
            event = self._render(delta)
            if event is not None:
                self._told += 1
                return event
        return ENDED

    def _is_in_use(self) -> bool:
        """Whether the database is: in a forked child, or where the file was moved away, nothing will ever come."""
        try:
            self.request.hub.engine.check_usable()
        except ReactDBError as error:
            self._give_up(error)
            return False
        return True

    @property
    def error(self) -> BaseException | None:
        """Why it ended; None where it completed or was closed."""
        return self.end if isinstance(self.end, BaseException) else None

    def _next_delta(self, queue: Queue) -> AnyDelta | None:
        batch = self._batch
        if not queue.is_squashed:
            batch = queue.take()
            if batch is None:
                return None
            try:
                delta = batch.popleft()
            except IndexError:
                return None
            self._taken = delta.seq
            return delta
        if batch is None:
            if not self._is_due(queue):
                return None
            batch = self._take_batch(queue)
            if batch is None:
                return None
        delta = batch.popleft()
        if not batch:
            self._batch = None
        return delta

    def _take_batch(self, queue: Queue) -> deque[AnyDelta] | None:
        self._pace = (self.position, self._pace[1])
        # There before it leaves the queue: whoever asks meanwhile must not hear that all is told.
        self._batch = deque()
        batch = self._batch = queue.take()
        if batch:
            self._taken = max(delta.seq for delta in batch)
            if self.request.options.squash_s:
                # A net difference of nothing is not told, and nobody need wait after it.
                self._pace = (self._pace[0], self.consumer.now() + self.request.options.squash_s)
        return batch

    def _is_due(self, queue: Queue) -> bool:
        """Whether the next batch may be taken: its time has come, or the queue gets full, or nothing is to be waited for."""
        if not len(queue):
            return False
        if 2 * len(queue) > self.request.options.queue_size or self.end is not None:
            return True
        if self.is_behind:
            # The net difference is of all that was missed.
            return False
        return not self.request.options.squash_s or self.consumer.now() + EARLY_S >= self._pace[1]

    @property
    def wait_s(self) -> float | None:
        """Seconds until there is something to tell; None where nothing is known to come."""
        if not self.has_work:
            return None
        queue = self.queue
        if (
            self._opening is not None
            or self._batch is not None
            or queue is None
            or not len(queue)
            or self.is_behind
        ):
            return 0.0
        return (
            0.0
            if not queue.is_squashed or self._is_due(queue)
            else max(0.0, self._pace[1] - self.consumer.now())
        )

    @property
    def has_work(self) -> bool:
        """Whether polling would find something, now or when it is due."""
        queue = self.queue
        return self._is_prepared and (
            self._opening is not None
            or self._batch is not None
            or (queue is not None and (len(queue) > 0 or queue.dropped != self._dropped_told))
            or self.is_behind
            or self.end is not None
        )

    # -----------------------------------------------------------------------------------------------------------
    # How far

    @property
    def bookmark(self) -> Bookmark:
        """What it was told: `position`, and before that how much of the initial values."""
        if not self._is_prepared and self.request.options.include_initial:
            return ANEW
        # In this order: what is told to its end is so for good.
        initial = self._initial
        inside = None if initial is None else initial.bookmark
        return Bookmark(self.position) if inside is None else inside

    @property
    def floor(self) -> Bookmark:
        """Not ahead of what it was told before the newest event, which may be on its way."""
        initial, fan, queue = self._initial, self._fan, self.queue
        if initial is not None:
            return initial.floor
        if queue is not None and queue.is_squashed:
            return Bookmark(self._pace[0])
        return Bookmark(max(self.since, (self._taken if fan is None else fan.taken) - 1))

    # -----------------------------------------------------------------------------------------------------------
    # Behind

    @property
    def is_behind(self) -> bool:
        """It reads on from the log, or will when its queue is empty."""
        return self.reader is not None

    @property
    def reads_from(self) -> int | None:
        """The position from which it has still to read the log; None where it has not, or will not."""
        return self._base if self.is_behind and self.end is None and not self.is_closed else None

    def _read_on(self, queue: Queue) -> None:
        """The next page of the log into the queue; at its end, back among the living."""
        hub, options = self.request.hub, self.request.options
        try:
            reader = self.reader
            if reader is None or reader == SPILLED:
                assert self._base is not None
                self.reader = hub.reader_at(self, self._base)
                self.count_failures_of(self.reader)
                if options.include_states:
                    self._opening = iter([state("catching_up", options)])
                return
            deltas, is_last = hub.read_page(reader)
            self.read_on(deltas, reader.position)
            # What was missed is told before the feed is live again; squashed, it is one batch.
            if is_last and (queue.is_squashed or not deltas) and hub.rejoin(self, reader):
                batch = self._take_batch(queue) if queue.is_squashed else None
                if batch is not None or options.include_states:
                    self._opening = self._arrive(batch)
        except ReactDBError as error:
            # The log was compacted, the database closed, or the file is in trouble.
            self._give_up(error)

    def read_on(self, deltas: Sequence[AnyDelta], position: int) -> None:
        """What the log has up to `position`."""
        assert self.queue is not None
        self.queue.put(deltas)
        self._base = position

    def _arrive(self, batch: deque[AnyDelta] | None) -> Iterator[Event]:
        while batch:
            event = self._render(batch.popleft())
            if event is not None:
                yield event
        self._batch = None
        if self.request.options.include_states:
            yield state("ready", self.request.options)

    def joined(self, deltas: Sequence[AnyDelta], seq: int) -> None:
        """Called by the hub, under the publish lock: `deltas` were the last from the log, and after `seq` it is told."""
        assert self.queue is not None
        self.queue.put(deltas)
        self.since = seq
        self._base = None
        self.reader = None

    def break_off(self, error: Exception) -> None:
        """What it was to be told cannot be told, so it ends at once."""
        self.end = error
        self.wake()

    def _give_up(self, error: ReactDBError) -> None:
        self.reader = None
        if self.end is None:
            self.end = error

    # -----------------------------------------------------------------------------------------------------------
    # Ending

    def close(self) -> None:
        """Hear nothing more. Any thread; a second call does nothing."""
        if not self.is_closed:
            self._final = self.position
            fan = self._fan
            if fan is not None:
                self._told, self._dropped_told = self.told, self.dropped
            self.is_closed = True
            if fan is not None:
                fan.strike(self)
                self._fan = None
            self._close_walk()
            self.request.hub.forget(self)

    def release(self) -> None:
        """Called by the hub when it has let go."""
        self.node = None
        self.reader = None
        if self.queue is not None:
            self.queue.clear()
