"""Schedulers that only one thread may call, made callable from every thread, or refused.

A feed schedules deliveries from several threads: the committing thread, the follower of other processes, a timer.
Schedulers of event loops and user interfaces must be called in the loop's own thread; elsewhere their actions run
late or never, without a word. Where the toolkit has a documented thread-safe way to run a function in that thread,
the feed uses it; where it has none, `subscribe` raises an error that says so.

Rule of this file: the toolkits are reached through the scheduler that the caller made, and never imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reactdb.errors import InvalidOption

Post = Callable[[Callable[[], None]], Any]


def make_thread_safe(scheduler: Any) -> Any:
    """Return the scheduler as it is, where any thread may call it, or a wrapper that calls it in its own thread.

    Raises:
        InvalidOption: It is no scheduler, or it can be called in its own thread only.
    """
    if scheduler is None:
        return None
    check_scheduler(scheduler)
    inner = scheduler
    while _name(inner) == "CatchScheduler":
        inner = inner._scheduler
    name = _name(inner)
    if name in NO_WAY_IN:
        raise InvalidOption(
            f"scheduler: a {name} may be called in the thread of its event loop only, and a feed delivers on "
            f"any thread that commits: take a cursor instead, and read it there with cursor.next(timeout=0), {NO_WAY_IN[name]}"
        )
    way = WAYS_IN.get(name)
    return scheduler if way is None else InItsThread(scheduler, way(inner))


def check_scheduler(scheduler: object) -> None:
    """Raises: InvalidOption: Neither a scheduler nor None."""
    if scheduler is not None and not hasattr(scheduler, "schedule"):
        raise InvalidOption(f"scheduler is one of reactivex's, or None, not {type(scheduler).__name__}")


def is_of_loop(scheduler: Any) -> bool:
    """Whether it is the scheduler of an event loop or a window system, which should never wait in its thread. Virtual
    time, threads, and schedulers of the user's own are none."""
    if scheduler is None:
        return False
    while _name(scheduler) == "CatchScheduler":
        scheduler = scheduler._scheduler
    return _name(scheduler) in OF_LOOPS


def name_scheduler(scheduler: Any) -> str:
    """The name of the scheduler's class, for people."""
    while isinstance(scheduler, InItsThread) or _name(scheduler) == "CatchScheduler":
        scheduler = scheduler._scheduler
    return type(scheduler).__name__


def _name(scheduler: Any) -> str | None:
    """The name of reactivex's class behind the scheduler, if that class has a rule about threads; None for any
    other."""
    for kind in type(scheduler).__mro__:
        if kind.__module__.startswith("reactivex.") and kind.__name__ in NAMED:
            return kind.__name__
    return None


class InItsThread:
    """The part of a scheduler that a feed uses. Actions are handed to the scheduler in the scheduler's own thread."""

    __slots__ = ("_post", "_scheduler")

    def __init__(self, scheduler: Any, post: Post) -> None:
        """`post` makes the scheduler's thread call a function soon. Any thread may call it."""
        self._scheduler = scheduler
        self._post = post

    @property
    def now(self) -> Any:
        return self._scheduler.now

    def to_seconds(self, value: Any) -> float:
        return float(self._scheduler.to_seconds(value))

    def schedule(self, action: Callable[..., Any]) -> Appointment:
        return self._hand_over(lambda: self._scheduler.schedule(action))

    def schedule_relative(self, wait_s: float, action: Callable[..., Any]) -> Appointment:
        return self._hand_over(lambda: self._scheduler.schedule_relative(wait_s, action))

    def _hand_over(self, schedule: Callable[[], Any]) -> Appointment:
        appointment = Appointment(self._post, schedule)
        self._post(appointment.make)
        return appointment


class Appointment:
    """A scheduled action. `dispose`, which any thread may call, cancels it where that is still possible."""

    __slots__ = ("_is_disposed", "_made", "_post", "_schedule")

    def __init__(self, post: Post, schedule: Callable[[], Any]) -> None:
        self._post = post
        self._schedule = schedule
        self._made: Any = None
        self._is_disposed = False

    def make(self) -> None:
        if not self._is_disposed:
            self._made = self._schedule()
            self._cancel()

    def dispose(self) -> None:
        self._is_disposed = True
        if self._made is not None:
            try:
                self._post(self._cancel)
            except RuntimeError:
                # The event loop is closed, so nothing will be called any more.
                pass

    def _cancel(self) -> None:
        """In the scheduler's thread, like `make`, so that the two do not miss each other."""
        if self._is_disposed and self._made is not None:
            self._made.dispose()


def _qt_sender(scheduler: Any) -> Post:
    """A signal, queued for an object in the application's thread: a timer of another thread's would never fire.

    Raises:
        InvalidOption: There is no application yet, and so no thread of its.
    """
    qt = scheduler._qtcore
    application = qt.QCoreApplication.instance()
    if application is None:
        raise InvalidOption(
            "scheduler: a QtScheduler calls in the thread of the application, and there is none yet: make the QApplication first"
        )
    bridge = _bridges.get(qt)
    if bridge is None or bridge[0] is not application:
        bridge = _bridges[qt] = application, _bridge(qt, application.thread())
    return bridge[1].posted.emit  # type: ignore[no-any-return]


# An object of Qt's must not be released in another thread, so there is one for each binding, for ever.
_bridges: dict[Any, tuple[Any, Any]] = {}


def _bridge(qt: Any, thread: Any) -> Any:
    # PySide's names and PyQt's.
    signal = qt.Signal if hasattr(qt, "Signal") else qt.pyqtSignal
    slot = qt.Slot if hasattr(qt, "Slot") else qt.pyqtSlot

    class Bridge(qt.QObject):  # type: ignore[misc]
        posted = signal(object)

        @slot(object)  # type: ignore[untyped-decorator]
        def run(self, function: Callable[[], None]) -> None:
            function()

    bridge = Bridge()
    bridge.moveToThread(thread)
    bridge.posted.connect(bridge.run, getattr(qt.Qt, "ConnectionType", qt.Qt).QueuedConnection)
    return bridge


# For each scheduler of reactivex: how to run a function in its thread. Each way is from the toolkit's manual about
# other threads.
WAYS_IN: dict[str | None, Callable[[Any], Post]] = {
    "AsyncIOScheduler": lambda scheduler: scheduler._loop.call_soon_threadsafe,
    "IOLoopScheduler": lambda scheduler: scheduler._loop.add_callback,
    "QtScheduler": _qt_sender,
    "TwistedScheduler": lambda scheduler: scheduler._reactor.callFromThread,
    "WxScheduler": lambda scheduler: scheduler._wx.CallAfter,
}
# The schedulers whose toolkits have none, and the advice to use a cursor instead.
NO_WAY_IN: dict[str | None, str] = {
    "EventletScheduler": "in a green thread that sleeps in between",
    "GEventScheduler": "in a greenlet that sleeps in between",
    "TkinterScheduler": "in a function that calls itself again by root.after",
}
# AsyncIOThreadSafeScheduler is made of AsyncIOScheduler, and safe; it is named so that the search ends there.
OF_LOOPS = {*WAYS_IN, "AsyncIOThreadSafeScheduler"}
NAMED = {*OF_LOOPS, *NO_WAY_IN, "CatchScheduler"}
