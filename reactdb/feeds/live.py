"""Live: the common part of a live list and a live value: it follows a selection, has a state, and notifies subscribers.

    loading    the result is being read; until then the content is empty, or that of the selection before
    live       it follows its selection
    failed     it has stopped, and `error` says why
    closed     it, or its database, was closed

The last two are final. All messages (the events of a commit, another selection, the end) are put into a queue, and one
thread at a time takes messages out of the queue and calls subscribers. That thread holds no lock that another thread could
wait for. A subscription that has ended has no effect any more: each message names its `FollowedSource`.

Rule of this file: it knows when something happens. The effect is in `livelist` and `livevalue`.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterator
from functools import partial
from sys import is_finalizing
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, Self, cast

from reactdb.async_functions import refuse_async
from reactdb.errors import (
    INTERRUPTS,
    FeedOverflow,
    ForkedDatabase,
    HistoryLost,
    InvalidOption,
    UsageError,
    format_value,
)
from reactdb.feeds.feed import Feed, Handle, drop, requests_of, scheduler_of, with_options
from reactdb.feeds.rerun import NewestAnswer, Rerun
from reactdb.feeds.rx import DisposableBase, make_observable
from reactdb.feeds.schedulers import make_thread_safe
from reactdb.logs import logger
from reactdb.representation import Represented
from reactdb.store.file import fork

if TYPE_CHECKING:
    from asyncio import Future

Event = dict[str, Any]
ASYNC_ADVICE: Final = "write a plain function that starts a task"
LOADING, LIVE, FAILED, CLOSED = "loading", "live", "failed", "closed"

# Live objects with subscribers, by their id: like a subscription of a feed, such an object lives as long as the database,
# though nobody refers to it.
_kept: dict[int, Live] = {}


class Listener(NamedTuple):
    """One subscriber."""

    callback: Callable[[Any], object] | None
    before: Callable[[Event], object] | None
    on_error: Callable[[Exception], object] | None
    on_completed: Callable[[], object] | None
    on_state: Callable[[str], object] | None


class Ending(DisposableBase):
    """Ends a subscription, by a call or by `dispose()`; a context manager."""

    __slots__ = ("_end",)

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end

    def __call__(self) -> None:
        self._end()

    def dispose(self) -> None:
        """End the subscription. Any thread; a second call does nothing."""
        self._end()


class FollowedSource:
    """What a live object follows for a time: a feed or a computation, from one reading of the result on.

    Attributes:
        initial: The initial values, until all of them are there; None from then on.
        subscription: What `dispose()` ends; None before there is one.
    """

    def __init__(self, source: Feed | Rerun) -> None:
        self.source = source
        self.initial: list[Event] | None = []
        self.subscription: Any = None
        self._is_over = False

    def keep(self, subscription: Any) -> None:
        self.subscription = subscription
        if self._is_over:
            subscription.dispose()

    def end(self) -> None:
        """Any thread; a second call does nothing."""
        self._is_over = True
        if self.subscription is not None:
            self.subscription.dispose()

    def drop(self) -> None:
        """The same, from a finalizer: it waits for nothing."""
        self._is_over = True
        if self.subscription is not None:
            self.subscription.drop()


class Live(Represented):
    """See the head of this file."""

    _name = "a live result"
    # Its kind in the table of guessed words.
    _kind = "live value"

    def __init__(self, *, scheduler: Any, skip_origin: str | None, wait: bool) -> None:
        if skip_origin is not None and not isinstance(skip_origin, str):
            raise InvalidOption(
                f"skip_origin is the origin of a writer, which is a string, or None, not {format_value(skip_origin)}"
            )
        if not isinstance(wait, bool):
            raise InvalidOption(f"wait is True or False, not {format_value(wait)}")
        self._scheduler = scheduler
        self._skip_origin = skip_origin
        self._wait = wait
        # For short moments: the content is exchanged, the state changes, a subscriber comes.
        self._lock = threading.Lock()
        self._listeners: dict[object, Listener] = {}
        self._state = LOADING
        self._error: Exception | None = None
        self._generation = fork.generation
        # What has happened and was not taken in yet; who takes it in has `_taking`.
        self._line: deque[Callable[[], None]] = deque()
        self._taking = threading.Lock()
        self._taker: int | None = None
        self._following: FollowedSource | None = None

    def __del__(self, _is_finalizing: Callable[[], bool] = is_finalizing) -> None:
        following = getattr(self, "_following", None)
        if following is not None and not _is_finalizing():
            following.drop()

    # -----------------------------------------------------------------------------------------------------------
    # Following a source

    def _follow(self, source: Feed | Rerun) -> None:
        """End the present subscription, and follow this source."""
        # A scheduler that cannot be used is refused here, and not in a thread.
        self._thread_of(source)
        set_purpose(source, self._kind)
        before = self._following
        following = self._following = FollowedSource(source)
        if before is not None:
            before.end()
        if self._wait:
            self._open(following)
        else:
            # The thread must not keep an object that nobody refers to.
            threading.Thread(
                target=_open_later,
                args=(weakref.ref(self), following),
                name="reactdb: reading a live result",
                daemon=True,
            ).start()

    def _open(self, following: FollowedSource) -> None:
        """Subscribe. The initial values are put into the queue."""
        take = partial(_pass_on, weakref.ref(self), following)
        source = following.source
        if isinstance(source, Rerun):
            if not self._wait:
                take = partial(_take_where, self._thread_of(source), take)
            following.keep(source.start(take, self._scheduler))
        elif self._wait:
            following.keep(Pushed(source, take, self._scheduler))
        else:
            following.keep(Polled(source, take, self._thread_of(source)))

    def _thread_of(self, source: Feed | Rerun) -> Any:
        """The scheduler that says where it is called, for any thread to use; None: on the committing thread."""
        own = scheduler_of(source) if isinstance(source, Feed) else source.scheduler
        return make_thread_safe(self._scheduler or own)

    def _put(self, message: Callable[[], None]) -> None:
        """Put a message into the queue, and apply it, unless another thread, or an earlier call of this thread, is applying
        messages."""
        self._line.append(message)
        line, taking = self._line, self._taking
        while line:
            if not taking.acquire(blocking=False):
                return
            try:
                self._taker = get_ident()
                while line:
                    line.popleft()()
            finally:
                self._taker = None
                taking.release()

    def _wait_for_calls(self) -> None:
        """Until no subscriber is being called by another thread."""
        if self._taker != get_ident() and self._generation == fork.generation:
            with self._taking:
                pass

    def _settle(self) -> None:
        """A subscriber has left."""

    def _take(self, following: FollowedSource, kind: str, value: Any) -> None:
        """Apply a message of a source: "events", "answer", "error" or "completed". Called for the queue."""
        if following is not self._following or self._is_over:
            return
        if kind == "events":
            self._apply(value)
        elif kind == "answer":
            following.initial = None
            self._take_answer(value)
            self._set_state(LIVE)
        elif kind == "completed":
            self._end(CLOSED, None)
        elif kind == "trouble":
            self._take_trouble(value)
        elif isinstance(value, HistoryLost):
            # Changes that it needs were removed from the log. It reads the result again; subscribers get the difference.
            self._set_state(LOADING)
            self._restart(following.source)
        else:
            self._end(FAILED, value)

    def _restart(self, source: Feed | Rerun) -> None:
        try:
            self._follow(source)
        except INTERRUPTS:
            raise
        except Exception as error:
            self._end(FAILED, error)

    def _apply(self, events: list[Event]) -> None:
        """Apply what a feed has delivered: a state, initial values, or the events of a commit."""
        following, first = self._following, events[0]
        assert following is not None
        if "error" in first:
            following.end()
            self._end(FAILED, FeedOverflow(int(first["error"].split()[-2])))
        elif "state" in first:
            if first["state"] == "ready" and following.initial is not None:
                initial, following.initial = following.initial, None
                self._take_initial(initial)
                self._set_state(LIVE)
        elif following.initial is not None and "old_val" not in first:
            following.initial += events
        else:
            self._take_commit(events)

    def _take_initial(self, events: list[Event]) -> None:
        """All initial values."""
        raise NotImplementedError

    def _take_commit(self, events: list[Event]) -> None:
        """The events of a commit."""
        raise NotImplementedError

    def _take_answer(self, answer: NewestAnswer) -> None:
        """The answer of a computation that was made again."""
        raise NotImplementedError

    def _is_own(self, origin: str | None) -> bool:
        """Whether subscribers are not called for the commits of this writer."""
        return origin is not None and origin == self._skip_origin

    # -----------------------------------------------------------------------------------------------------------
    # The state

    @property
    def _is_over(self) -> bool:
        return self._state in (FAILED, CLOSED)

    def _set_state(self, state: str) -> None:
        """Set the state, and notify subscribers. Called for the queue."""
        with self._lock:
            if self._is_over or self._state == state:
                return
            self._state = state
        for one in self._present_listeners():
            if one.on_state is not None:
                self._call(one.on_state, state)

    def _end(self, state: str, error: Exception | None) -> None:
        """Notify each subscriber of the end, once. A later end changes nothing."""
        with self._lock:
            if self._is_over:
                return
            self._state, self._error = state, error
            listeners = list(self._listeners.values())
            self._listeners.clear()
            _kept.pop(id(self), None)
        if error is not None and not any(one.on_error is not None for one in listeners):
            logger.error(
                "%s no longer follows its selection: %s: %s", self._name, type(error).__name__, error
            )
        for one in listeners:
            self._send_end(one)

    def _send_end(self, listener: Listener) -> None:
        if listener.on_state is not None:
            self._call(listener.on_state, self._state)
        if self._error is None:
            if listener.on_completed is not None:
                self._call(listener.on_completed)
        elif listener.on_error is not None:
            self._call(listener.on_error, self._error)

    def _take_trouble(self, error: Exception) -> None:
        """A computation has failed. It could be tried again, but a live selection ends then, as a feed does."""
        if self._following is not None:
            self._following.end()
        self._end(FAILED, error)

    def _present_listeners(self) -> Iterator[Listener]:
        """The subscribers, while they are called: one that leaves meanwhile is left out."""
        for key, one in list(self._listeners.items()):
            if key in self._listeners:
                yield one

    def _call(self, listener: Callable[..., object], *arguments: Any) -> None:
        """Call a subscriber. Its exceptions are logged and have no other effect, unless they are interrupts."""
        try:
            listener(*arguments)
        except INTERRUPTS:
            raise
        except BaseException:
            logger.exception("a subscriber of %s raised", self._name)

    @property
    def state(self) -> str:
        """`"loading"`: the result is being read. `"live"`: it follows its selection. `"failed"`: it has stopped, and `error`
        says why. `"closed"`: it, or its database, was closed. After it has stopped, its content stays."""
        return FAILED if self._is_in_child else self._state

    @property
    def _is_in_child(self) -> bool:
        return not self._is_over and self._generation != fork.generation

    @property
    def error(self) -> Exception | None:
        """Why it has stopped, such as FeedAborted if its table was dropped; None while it follows its selection, and after
        `close`. In a child of fork() the error is ForkedDatabase, because the object changes in the parent only."""
        if self._is_in_child:
            return ForkedDatabase(
                f"this {type(self).__name__} was made before fork(), and changes in the parent only; make another one in the "
                "child, from a database that reactdb.connect has opened there"
            )
        return self._error

    # -----------------------------------------------------------------------------------------------------------
    # Subscribers

    def _add_listener(self, listener: Listener) -> Ending:
        for name, callback in listener._asdict().items():
            if callback is not None and not callable(callback):
                raise InvalidOption(f"{name} is a callable or None, not {format_value(callback)}")
            refuse_async(callback, "subscribe", ASYNC_ADVICE)
        key = object()
        with self._lock:
            is_over = self._is_over
            if not is_over:
                self._listeners[key] = listener
                _kept[id(self)] = self
        if is_over:
            self._send_end(listener)

        def end() -> None:
            with self._lock:
                self._listeners.pop(key, None)
                if not self._listeners:
                    _kept.pop(id(self), None)
            self._settle()

        return Ending(end)

    @property
    def changes(self) -> Any:
        """The notifications of `subscribe` as an Observable. It completes when this or the database is closed, and fails with the
        error that has stopped this, or with an error of an observed function."""
        return make_observable(
            lambda on_next, on_error, on_completed: self._add_listener(
                Listener(on_next, None, on_error, on_completed, None)
            )
        )

    def close(self) -> None:
        """Stop following. The content stays. `on_completed` of each subscriber is called. A second call does nothing."""
        following = self._following
        if following is not None:
            following.end()
        self._end(CLOSED, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __await__(self) -> Generator[Any, None, Self]:
        """Wait in a coroutine of asyncio until the answer has been read.

        Raises: The error that has stopped it.
        """
        return self._loaded().__await__()

    async def _loaded(self) -> Self:
        # Imported here because only programs with an event loop need it.
        from asyncio import get_running_loop

        loop = get_running_loop()
        loaded: Future[None] = loop.create_future()

        def look(_: str = "") -> None:
            if not loaded.done() and self.state != LOADING:
                loaded.set_result(None)

        with self._add_listener(
            Listener(None, None, None, None, lambda _: loop.call_soon_threadsafe(look) and None)
        ):
            look()
            await loaded
        error = self.error
        if error is not None and self.state == FAILED:
            raise error
        return self

    async def __aenter__(self) -> Self:
        return await self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raises: AttributeError, with the right name."""
            from reactdb.guessed_words import missing_name

            raise missing_name(self, self._kind, name, dir(type(self)))

    def __reduce__(self) -> NoReturn:
        raise UsageError(
            f"a {type(self).__name__} belongs to its process and cannot be pickled or copied: copy what it has, as in "
            "`list(live)` or `live.value`"
        )


def _pass_on(reference: weakref.ref[Live], following: FollowedSource, kind: str, value: Any) -> None:
    """From a source to a live object that may be gone."""
    live = reference()
    if live is not None:
        live._put(partial(live._take, following, kind, value))


def _open_later(reference: weakref.ref[Live], following: FollowedSource) -> None:
    """In a thread of its own."""
    live = reference()
    if live is None:
        return
    try:
        live._open(following)
    except Exception as error:
        try:
            schedule(
                live._thread_of(following.source), partial(_pass_on, reference, following, "error", error)
            )
        except Exception:
            # The program has disposed of the scheduler, or closed its loop: subscribers cannot be called any more.
            logger.debug("a live result could not call its subscribers", exc_info=True)


def schedule(scheduler: Any, work: Callable[[], object]) -> None:
    """Call a function in the thread of a scheduler; None: at once, in this thread."""
    if scheduler is None:
        work()
    else:
        scheduler.schedule(lambda *_: work() and None)


def _take_where(scheduler: Any, take: Callable[[str, Any], None], kind: str, value: Any) -> None:
    schedule(scheduler, partial(take, kind, value))


class Pushed:
    """A feed that calls, on the committing thread or where its scheduler says."""

    def __init__(self, feed: Feed, take: Callable[[str, Any], None], scheduler: Any) -> None:
        self._handle = feed.subscribe(
            partial(take, "events"),
            partial(take, "error"),
            partial(take, "completed", None),
            scheduler=scheduler,
        )

    def dispose(self) -> None:
        self._handle.dispose()

    def drop(self) -> None:
        drop(cast(Handle, self._handle))


class Polled:
    """A feed that was begun in a thread of its own, and is polled where a scheduler says, or on the committing thread.

    The initial values are read and decoded by the thread that makes this object. So a thread with a loop or a window
    gets them ready-made, and all later events as few as they are.
    """

    def __init__(self, feed: Feed, take: Callable[[str, Any], None], scheduler: Any) -> None:
        """`scheduler`: one that any thread may call, or None."""
        self._take = take
        self._scheduler = scheduler
        self._reader = reader = feed.reader()
        first: list[Any] = []
        end: tuple[str, Any] | None = None
        try:
            while not (first and "state" in first[-1][0] and first[-1][0]["state"] == "ready"):
                events = reader.poll(1)
                if not events:
                    break
                first += events
        except Exception as error:
            end = "error", error
        try:
            schedule(scheduler, partial(self._deliver_first, first, end))
        except BaseException:
            reader.close()
            raise

    def _deliver_first(self, first: list[Any], end: tuple[str, Any] | None) -> None:
        for events in first:
            self._take("events", events)
        if end is not None:
            self._take(*end)
        else:
            self._reader.on_ready = partial(schedule, self._scheduler, self._deliver)

    def _deliver(self) -> None:
        """Poll until nothing is left. Until then, no other thread is asked to poll."""
        reader = self._reader
        while True:
            try:
                batches = reader.poll()
            except Exception as error:
                self._take("error", error)
                return
            if not batches:
                break
            for events in batches:
                self._take("events", events)
        if reader.is_finished:
            self._take("completed", None)

    def dispose(self) -> None:
        self._reader.close()

    def drop(self) -> None:
        self._reader.drop()


def set_purpose(source: Feed | Rerun, purpose: str) -> None:
    """Say what has opened a source: a copy of a feed that nobody else has, or a computation."""
    if isinstance(source, Rerun):
        source.purpose = purpose
    else:
        for request in requests_of(source):
            request.purpose = purpose


def open_feed(feed: Feed) -> Feed:
    """The feed in the form that is followed here: whole commits, with states and origins."""
    return with_options(feed, batches=True, include_states=True, include_origin=True)
