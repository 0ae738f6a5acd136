"""Feed: the result of `changes()`: an Observable of change events that can also be iterated, awaited and chained as
in ReQL.

    feed.subscribe(print)                       called on the committing thread, or where a scheduler says
    feed.pipe(ops.buffer_with_count(10))        every operator of reactivex
    for change in feed: ...                     waits
    with feed.cursor() as cursor: cursor.next(timeout=1.0)
    async for change in feed: ...
    async with feed.acursor() as cursor: await cursor.next(timeout=1.0)
    feed.filter(row["new_val"]["score"] > 10)   ReQL's terms, giving a Feed again

Cold: each of these subscribes again. The methods are ReQL's. The operators of Rx are reached through `pipe`.

Rule of this file: it only connects the parts. `rx` makes a feed an Observable of reactivex.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from reactdb.async_functions import refuse_async
from reactdb.clock import SYSTEM, in_force
from reactdb.conditions import as_predicates
from reactdb.errors import (
    InvalidOption,
    NotAValue,
    OperatorNotFound,
    QueryError,
    ReactDBError,
    UsageError,
    format_value,
)
from reactdb.expression import as_function, as_predicate, row
from reactdb.feeds import terms
from reactdb.feeds.background import reads_little
from reactdb.feeds.consumers import (
    AsyncConsumer,
    BaseConsumer,
    Flow,
    PullConsumer,
    PushConsumer,
    find_clock,
)
from reactdb.feeds.handles import Listening, ListeningInBlock, Stays
from reactdb.feeds.hub import FeedHub
from reactdb.feeds.inspect import describe_request, explain, stats
from reactdb.feeds.options import check_timeout, check_union
from reactdb.feeds.reader import FeedReader
from reactdb.feeds.request import Request
from reactdb.feeds.rx import DisposableBase, Observable, is_observable
from reactdb.feeds.schedulers import is_of_loop
from reactdb.query import ConcatMap, Filter, HasFields, Limit, Map, Query, Skip, Step
from reactdb.representation import Represented
from reactdb.type_variables import Event, Generic
from reactdb.wrong_calls import explain_wrong_calls

if TYPE_CHECKING:
    from reactivex import abc

    from reactdb.html_view import Preview


Kind = TypeVar("Kind", bound="Feed[Any]")


ASYNC_ADVICE = "write `async for change in feed`, or a plain function that starts a task"


class Feed(Stays, Represented, Observable[Event]):
    """The changes of a result, as an Observable that can also be iterated and awaited.

    See the head of this file, and `Selection.changes` for its options and events.
    """

    # See `mark_awaited`.
    _is_awaited = False

    def __init__(
        self,
        hub: FeedHub,
        query: Query,
        options: Mapping[str, Any],
        scheduler: Any = None,
        handle: object = None,
    ) -> None:
        """`scheduler`: where subscribers are called that bring none of their own. `handle`: as for `Request`.

        Raises:
            InvalidOption, UnsupportedFeed, TableNotFound, IndexNotFound, HistoryLost, HistoryDiverged.
        """
        super().__init__()
        self._begin(Flow(hub, Request(hub.engine, hub.say, query, options, handle)), scheduler)

    def _begin(self, flow: Flow, scheduler: Any) -> None:
        self._flow = flow
        self._scheduler = scheduler
        self._newest: BaseConsumer | None = None

    def _of(self, flow: Flow, scheduler: Any) -> Feed:
        feed = type(self).__new__(type(self))
        feed._prepare(flow, scheduler)
        feed._is_awaited = self._is_awaited
        return feed

    def _prepare(self, flow: Flow, scheduler: Any) -> None:
        Observable.__init__(self)
        self._begin(flow, scheduler)

    def _then(self, term: Step) -> Feed:
        return self._of(self._flow.then(term), self._scheduler)

    @property
    def _delivered(self) -> Flow:
        """The flow whose events subscribers get."""
        return self._flow

    # -----------------------------------------------------------------------------------------------------------
    # A feed is one object, and true, as every Observable is; it has no length

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        if other is None or is_observable(other):
            return self is other
        raise NotAValue(
            "a feed is not its events: compare the delivered events, as in `cursor.next(timeout=1) == ...`"
        )

    def __bool__(self) -> bool:
        # As reactivex does: `other or reactivex.never()`.
        return True

    def __len__(self) -> NoReturn:
        raise NotAValue(f"a feed has no length. {terms.TERMINAL}")

    def __contains__(self, event: object) -> NoReturn:
        raise NotAValue(f"`in` would wait for the end of a feed: use its method filter. {terms.TERMINAL}")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except OperatorNotFound:
                raise
            except AttributeError:
                from reactdb.guessed_words import missing_name

                missing = missing_name(self, "feed", name, dir(self))
            raise missing

    # -----------------------------------------------------------------------------------------------------------
    # Listening

    def subscribe(
        self,
        on_next: abc.ObserverBase[Event] | Callable[[Event], None] | None = None,
        on_error: Callable[[Exception], None] | None = None,
        on_completed: Callable[[], None] | None = None,
        *,
        scheduler: abc.SchedulerBase | None = None,
    ) -> abc.DisposableBase:
        """Call an observer, or callbacks, with each event.

        Args:
            scheduler: Where; None for the database's, or the committing thread after its write is done. With the scheduler of
                an event loop or a window system, this call does not wait for a long first read: a thread reads it, and its
                error comes by `on_error`.

        Returns:
            An object whose `dispose()` ends the subscription. Otherwise the subscription lives as long as the
            database.

        Raises:
            InvalidOption: An argument cannot be called, or a scheduler cannot be called from every thread. Also any
            error that keeps the feed from beginning, where there is no `on_error` for it.
        """
        if hasattr(on_next, "on_next"):
            observer = cast("abc.ObserverBase[Event]", on_next)
            on_next, on_error, on_completed = observer.on_next, observer.on_error, observer.on_completed
        if on_next is not None and not callable(on_next):
            raise InvalidOption(f"on_next is a callable, an observer or None, not {format_value(on_next)}")
        if on_error is not None or on_completed is not None:
            for name, callback in (("on_error", on_error), ("on_completed", on_completed)):
                if callback is not None and not callable(callback):
                    raise InvalidOption(f"{name} is a callable or None, not {format_value(callback)}")
        for one in (on_next, on_error, on_completed):
            if one is not None:
                refuse_async(one, "subscribe", ASYNC_ADVICE)
        scheduler = scheduler or self._scheduler
        consumer = PushConsumer(on_next, on_error, on_completed, scheduler)
        try:
            is_open = self._open(consumer, is_background=is_of_loop(scheduler))
        except ReactDBError as error:
            if on_error is None:
                raise
            on_error(error)
            return Handle(consumer)
        if is_open:
            self._deliver_opening(consumer)
        return Handle(consumer)

    def _open(self, consumer: BaseConsumer, *, is_background: bool = False) -> bool:
        """Subscribe. `is_background`: in a thread, if the feed reads much when it begins. Returns: whether it has begun."""
        is_open = not (is_background and self._reads_much)
        if is_open:
            consumer.open(self._delivered)
        else:
            consumer.open_in_thread(self._delivered)
        self._newest = consumer
        return is_open

    @property
    def _reads_much(self) -> bool:
        # Under a virtual clock everything happens on the thread of the test.
        return find_clock(self._flow) is SYSTEM and not all(
            reads_little(request) for request in self._flow.requests()
        )

    def _deliver_opening(self, consumer: PushConsumer) -> None:
        """Deliver the opening before `subscribe` returns, unless a thread is delivering already."""
        hubs = self._flow.hubs()
        if not consumer.members or any(hub.engine.has_transaction_here() for hub in hubs):
            consumer.run()
        for hub in hubs:
            hub.drain()

    def cursor(self) -> Cursor[Event]:
        """Subscribe, and get a cursor to take events from.

        Raises:
            UsageError: The feed is of an awaited database, and an event loop runs in this thread. Also every error that keeps the
                feed from beginning.
        """
        check_not_on_loop(self)
        consumer = PullConsumer()
        self._open(consumer)
        return Cursor(consumer, self._flow)

    def reader(self, on_ready: Callable[[], object] | None = None) -> FeedReader[Event]:
        """Subscribe, and get a reader that is polled and never waits: for a server, or an event loop.

        A reader that has fallen behind by more than `changefeed_queue_size` changes reads on from the log, and loses nothing,
        unless `on_overflow` says otherwise. The feed begins at the moment of this call; a long beginning is read in a thread.

        Args:
            on_ready: Called without arguments when there is something to poll: see `FeedReader.on_ready`.
        """
        return FeedReader(self._delivered, on_ready, is_background=self._reads_much)

    def __iter__(self) -> Iterator[Event]:
        return self.cursor()

    def acursor(self) -> AsyncCursor[Event]:
        """Subscribe, and get a cursor for a coroutine: `async with feed.acursor() as cursor: await cursor.next()`.

        The feed begins at the moment of this call. It never waits: a long beginning is read in a thread.

        Raises:
            Any error that keeps the feed from beginning; where a thread reads the beginning, the first `next` raises it.
        """
        consumer = AsyncConsumer()
        self._open(consumer, is_background=True)
        return AsyncCursor(consumer, self._flow)

    def __aiter__(self) -> AsyncCursor[Event]:
        return self.acursor()

    # -----------------------------------------------------------------------------------------------------------
    # Waiting for the end, which a feed does not have: reactivex's methods of these names would wait for ever

    def run(self, *arguments: Any, **options: Any) -> NoReturn:
        """Refused, as is `await feed`: iterate a feed, subscribe to it, or take a cursor.

        Raises:
            UsageError: Always.
        """
        raise without_end("run() would wait for it")

    def to_future(self, *arguments: Any, **options: Any) -> NoReturn:
        """Refused, as `run`."""
        raise without_end("a future would wait for it")

    def __await__(self) -> Generator[Any, None, Any]:
        raise without_end("`await feed` would wait for it")

    # -----------------------------------------------------------------------------------------------------------
    # ReQL after `changes()`

    def filter(self, *conditions: Any, default: Any = False, **fields: Any) -> Feed[Event]:
        """Events that pass all conditions, as for a selection:
        `feed.filter(row["new_val"]["score"] > row["old_val"]["score"])`."""
        feed = self
        with in_force(find_clock(self._flow)):
            predicates = as_predicates(conditions, default, fields)
        for predicate in predicates:
            feed = feed._then(Filter(predicate))
        return feed

    def map(self, function: Any) -> Feed:
        """The value of an expression, or of a callable, for each event."""
        return self._then(Map(as_function(function)))

    def concat_map(self, function: Any) -> Feed:
        """The elements of the list that the function gives for each event."""
        return self._then(ConcatMap(as_function(function)))

    def pluck(self, *fields: Any) -> Feed:
        """Only these fields of each event."""
        return self._then(Map(row.pluck(*fields), "pluck"))

    def without(self, *fields: Any) -> Feed:
        """Each event without these fields."""
        return self._then(Map(row.without(*fields), "without"))

    def merge(self, *others: Any) -> Feed:  # type: ignore[override]
        """Each event with the fields of others merged in."""
        return self._then(Map(row.merge(*map(as_function, others)), "merge"))

    def has_fields(self, *fields: Any) -> Feed[Event]:
        """Events that have every one of the fields, and not null."""
        return self._then(HasFields(as_predicate(row.has_fields(*fields))))

    def with_fields(self, *fields: Any) -> Feed:
        """`has_fields` and `pluck` combined."""
        return self.has_fields(*fields).pluck(*fields)

    def limit(self, count: int) -> Feed[Event]:
        """The first `count` items, state documents among them; then the feed completes."""
        return self._then(Limit(terms.count_of("LIMIT", count)))

    def skip(self, count: int) -> Feed[Event]:
        """All but the first `count` items."""
        return self._then(Skip(terms.count_of("SKIP", count)))

    def default(self, value: Any) -> Feed:
        """The value in place of each null item."""
        return self._then(terms.default_term(value))

    def union(self, *others: Feed[Event]) -> Feed[Event]:
        """The items of several feeds, each with its own states, and changes in the order of the log. Feeds of several
        databases have no order in common."""
        for other in others:
            if not isinstance(other, Feed):
                raise QueryError("a feed can only be united with feeds")
        flow = Flow(None, None, (self._flow, *(other._flow for other in others)))
        check_union(
            [one.options for one in flow.requests()], has_terms=any(part.has_terms for part in flow.parts)
        )
        return self._of(flow, self._scheduler)

    def __getitem__(self, place: Any) -> Feed:
        """`feed["new_val"]`: the field of each event that has it; `feed[:3]`: the first items."""
        if isinstance(place, str):
            return self._then(terms.field_term(place))
        if isinstance(place, slice) and place.step is None:
            start, stop = place.start or 0, place.stop
            if start < 0 or (stop is not None and stop < 0):
                raise QueryError("Cannot use a negative left index on a stream.")
            return self.skip(start) if stop is None else self.skip(start).limit(max(0, stop - start))
        return terms.refuse()

    count = sum = avg = average = min = max = reduce = distinct = group = order_by = nth = sample = (
        terms.refuse
    )
    contains = coerce_to = for_each = fold = terms.refuse

    # -----------------------------------------------------------------------------------------------------------
    # Description and position

    @property
    def token(self) -> str | None:
        """The position up to which the newest subscription has delivered everything, for `since`, also in another process.

        It moves on also where nothing matched. Before any subscription: the position where one would begin. In the
        middle of initial values it leads to the rest of them, or is None where they cannot be continued: then begin
        from the start.

        Raises:
            UsageError: It is a union of feeds of several databases.
        """
        return self._flow.token(self._newest)

    @property
    def is_list(self) -> bool:
        """Whether applying its events by offset gives the selection's list."""
        request = self._flow.request
        return (
            request is not None
            and not self._flow.terms
            and request.options.include_initial
            and request.options.include_offsets
        )

    def __repr__(self) -> str:
        names = [describe_request(request) for request in self._flow.requests()]
        return (
            f"<Feed {names[0]}>" if len(names) == 1 else f"<Feed union of {len(names)}: {', '.join(names)}>"
        )

    def _preview(self) -> Preview:
        # Imported here because only a notebook needs it.
        from reactdb.html_view import Preview

        figures = self.stats()
        names = ("subscribers", "delivered", "queued", "dropped", "lag_seq")
        rows = [[name.replace("_", " "), f"{figures[name]:,}"] for name in names if name in figures]
        fact = "open" if figures["is_open"] else "not begun: subscribe to it, or iterate over it"
        name = ", ".join(describe_request(request) for request in self._flow.requests())
        return Preview("Feed", name, (fact,), ("subscription", ""), rows if figures["is_open"] else ())

    def explain(self) -> dict[str, Any]:
        """What kind of feed it is, which tables it reads, how changes find it, and how much it holds in memory."""
        explanations = [explain(request) for request in self._flow.requests()]
        return (
            explanations[0] if len(explanations) == 1 else {"kind": "union of feeds", "members": explanations}
        )

    def stats(self) -> dict[str, Any]:
        """Figures of its newest subscription: deltas that are `queued`, that were `dropped` and `delivered`, and the lag,
        in seqs and in seconds."""
        return stats(self._newest, find_clock(self._flow).time_ns() / 1e9)


explain_wrong_calls(Feed)


def copy_feed(feed: Feed, kind: type[Kind]) -> Kind:
    """The same feed as an object of another class of feeds."""
    copy = kind.__new__(kind)
    copy._prepare(feed._flow, feed._scheduler)
    copy._is_awaited = feed._is_awaited
    return copy


def mark_awaited(feed: Feed) -> Feed:
    """The feed, as one of an awaited database: it is not read by waiting in the thread of an event loop."""
    feed._is_awaited = True
    return feed


def check_not_on_loop(feed: Feed) -> None:
    """Raises: UsageError, for a feed of an awaited database, where a loop runs in this thread."""
    if feed._is_awaited:
        from asyncio import get_running_loop

        try:
            get_running_loop()
        except RuntimeError:
            return
        raise UsageError(
            "to wait for this feed here would stop the event loop for ever: write `async for change in feed:`, or "
            "`async with feed.acursor() as cursor:`"
        )


def make_feed(flow: Flow) -> Feed:
    """The feed of a flow, on the committing thread unless `subscribe` says otherwise."""
    feed = Feed.__new__(Feed)
    feed._prepare(flow, None)
    return feed


def scheduler_of(feed: Feed) -> Any:
    """Where subscribers are called that bring no scheduler of their own; None: on the committing thread."""
    return feed._scheduler


def request_of(feed: Feed) -> Request | None:
    """What it delivers; None for a union of feeds."""
    return feed._flow.request


def requests_of(feed: Feed) -> Iterable[Request]:
    """The requests of the feed, one for each selection."""
    return feed._flow.requests()


def flow_of(feed: Feed) -> Flow:
    """What it delivers, as a tree of requests and terms."""
    return feed._flow


def with_requests(feed: Feed, change: Callable[[Request], Request]) -> Feed:
    """The feed with other requests."""
    return feed._of(feed._flow.copy_with(change), feed._scheduler)


def with_options(feed: Feed, **options: Any) -> Feed:
    """The feed as if it had been opened with these options too. They do not change the meaning of its query."""
    return with_requests(feed, lambda request: request.copy_with(**options))


def without_end(what: str) -> UsageError:
    return UsageError(
        f"a feed has no end, and {what}: use `for change in feed` (in a coroutine `async for change in feed`), "
        "`feed.subscribe(callback)`, or `feed.cursor()` and its next(timeout=); for the present result, call run() "
        "on the selection, without changes(); `list(...)` of `feed.limit(n)` returns the first n"
    )


class Handle(DisposableBase):
    """Ends a subscription."""

    __slots__ = ("_consumer",)

    def __init__(self, consumer: BaseConsumer) -> None:
        self._consumer = consumer

    def dispose(self) -> None:
        """End the subscription. Any thread, also inside `on_next`; a second call does nothing."""
        self._consumer.close()
        self._consumer.settle()


def drop(handle: Handle) -> None:
    """As `dispose`, from a finalizer: it waits for nothing."""
    handle._consumer.close()


class Cursor(ListeningInBlock[PullConsumer], Generic[Event]):
    """A subscription for reading. An iterator and a context manager; an unreferenced cursor is closed."""

    @property
    def token(self) -> str | None:
        """The position up to which this cursor has given everything, for `since`, also in another process.

        It moves on also where nothing matched. After the end: the last position. In the middle of initial values it
        leads to the rest of them, or is None where they cannot be continued: then begin from the start.

        Raises:
            UsageError: It is a cursor of a union of feeds of several databases.
        """
        return self._flow.token(self._consumer)

    def next(self, timeout: float | None = None) -> Event:
        """Wait for the next event, at most `timeout` seconds (None: as long as it takes).

        Raises:
            TimeoutError: None came in time.
            InvalidOption: `timeout` is no number of seconds.
            StopIteration: The cursor was closed, or the feed has completed.
            FeedError: Why the feed ended.
        """
        try:
            return self._consumer.next(check_timeout(timeout))  # type: ignore[no-any-return]
        except BaseException:
            del self
            raise

    def __iter__(self) -> Cursor[Event]:
        return self

    def __next__(self) -> Event:
        try:
            return self._consumer.next(None)  # type: ignore[no-any-return]
        except BaseException:
            # As in `AsyncCursor`: Ctrl-C, for example.
            del self
            raise


class AsyncCursor(Listening[AsyncConsumer], Generic[Event]):
    """A subscription that a coroutine of asyncio reads: `feed.acursor()`. An async iterator and an async context manager; an
    unreferenced cursor is closed.

    Tasks of one event loop may share it: each gets different events.
    """

    @property
    def token(self) -> str | None:
        """As `Cursor.token`."""
        return self._flow.token(self._consumer)

    async def next(self, timeout: float | None = None) -> Event:
        """Wait for the next event, at most `timeout` seconds (None: as long as it takes). A wait that is cancelled, or too
        long, loses no event.

        Raises:
            TimeoutError: None came in time.
            InvalidOption: `timeout` is no number of seconds.
            StopAsyncIteration: The cursor was closed, or the feed has completed.
            UsageError: Another event loop awaits this cursor.
            FeedError: Why the feed ended.
        """
        timeout_s = check_timeout(timeout)
        if timeout_s is None:
            return await self.__anext__()
        from asyncio import get_running_loop
        from asyncio import timeout as limit

        clock, pending = self._consumer.clock, None
        is_virtual = clock is not SYSTEM and timeout_s > 0
        try:
            async with limit(None if is_virtual else timeout_s) as limited:
                if is_virtual:
                    loop = get_running_loop()
                    pending = clock.call_at(
                        clock.monotonic() + timeout_s,
                        lambda: loop.call_soon_threadsafe(lambda: limited.reschedule(loop.time())),
                    )
                return await self._consumer.next()  # type: ignore[no-any-return]
        except TimeoutError:
            if not limited.expired():
                raise
            raise TimeoutError(f"the feed delivered nothing for {timeout_s:g} s") from None
        finally:
            if pending is not None:
                pending.dispose()
            # As in `__anext__`.
            del self

    def __aiter__(self) -> AsyncCursor[Event]:
        return self

    async def __anext__(self) -> Event:
        try:
            return await self._consumer.next()  # type: ignore[no-any-return]
        except BaseException:
            # The task was cancelled, for example. A loop over a feed releases its cursor then. But the error's
            # traceback keeps this frame, and would keep the subscription for as long as the error exists.
            del self
            raise

    async def aclose(self) -> None:
        """`close`, for programs that close by awaiting. It waits for nothing."""
        self.close()

    async def __aenter__(self) -> AsyncCursor[Event]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
