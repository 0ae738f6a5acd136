"""The time: the clock of a database, and the system's clock.

    connect(..., clock=clock)    all handles on an open file have one clock; by default the system's
    time_ns(), now()             the wall time, of the database whose code runs here: see `in_force`
    time_text(ms)                a time of the log as text
    monotonic()                  seconds of the real time, for waits that are real whatever the clock is: locks, disks, sockets
    SYSTEM                       the system's clock; its timers are one thread a process, which ends when nothing is due

A clock has wall time, monotonic time and timers (`Clock`). A virtual one (`reactdb.testing.VirtualClock`) stands still until
a test advances it. Generated keys, `r.now()`, the times of changes, squash intervals, retention by age, expiry, leases,
backoff and the timeouts of cursors follow the clock of the database.

freezegun and similar libraries replace the functions of `time`. Wall time follows them, because their users want that.
Monotonic time must not follow them, because a wait would never end: so the real function is kept in an object, where
freezegun does not look.

Rule of this file: it is the only one that reads time, but for the files that a test in `tests/house` lists with a reason.
A callback of a timer must be quick, or wake another thread for the slow part.
"""

from __future__ import annotations

import heapq
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, Protocol, TypeVar, cast

from reactdb.errors import InvalidOption, format_value

# If freezegun is active already, it has the real function. `partial`: another object than the function that freezegun looks for.
monotonic: Final[Callable[[], float]] = partial(
    getattr(sys.modules.get("freezegun.api"), "real_monotonic", time.monotonic)
)
F = TypeVar("F", bound=Callable[..., Any])

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)


class PendingCall(Protocol):
    """One pending call of a clock."""

    def dispose(self) -> object:
        """Prevent it, unless it is running already. A second time, or too late: nothing happens."""


class Clock(Protocol):
    """The interface of a clock. Any thread may call all methods."""

    def time_ns(self) -> int:
        """The wall time, in nanoseconds since 1970."""

    def monotonic(self) -> float:
        """Seconds since some moment; it never goes back."""

    def call_at(self, due: float, callback: Callable[[], Any]) -> PendingCall:
        """Call back once, when `monotonic()` is `due` or later. The callback is quick."""

    def on_advance(self, callback: Callable[[], Any]) -> PendingCall:
        """Call back whenever a test has set the wall time, and before and after it advances the clock: for work that depends on
        the wall time. `dispose` ends it."""


class Timer:
    """One pending call of the system's clock."""

    __slots__ = ("_timers", "callback", "due", "number")

    def __init__(self, timers: Timers, due: float, number: int, callback: Callable[[], Any] | None) -> None:
        self._timers = timers
        self.due = due
        self.number = number
        self.callback = callback

    def __lt__(self, other: Timer) -> bool:
        return (self.due, self.number) < (other.due, other.number)

    def dispose(self) -> None:
        """See `PendingCall`."""
        self._timers.cancel(self)


class Timers:
    """The pending calls of the system's clock.

    Thread safety: any thread may call all methods; callbacks come on the timer thread, one after the other.
    """

    def __init__(self) -> None:
        # Its own methods, unlike those of a condition, leave it in no half state if Ctrl-C strikes.
        self._lock = threading.RLock()
        self._condition = threading.Condition(self._lock)
        self._due: list[Timer] = []
        self._count = 0
        self._thread: threading.Thread | None = None

    def call_at(self, due: float, callback: Callable[[], Any]) -> Timer:
        """Call back once, not before `due`."""
        with self._lock:
            self._count += 1
            timer = Timer(self, due, self._count, callback)
            heapq.heappush(self._due, timer)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="reactdb-timers", daemon=True)
                self._thread.start()
            else:
                self._condition.notify()
        return timer

    def cancel(self, timer: Timer) -> None:
        """A second time, or too late: nothing happens."""
        with self._lock:
            if timer.callback is None:
                return
            timer.callback = None
            self._due.remove(timer)
            heapq.heapify(self._due)
            if not self._due:
                self._condition.notify()

    def forget(self) -> None:
        """In a child of fork() there is no thread, and the calls are the parent's."""
        self.__init__()  # type: ignore[misc]

    def _run(self) -> None:
        while True:
            with self._lock:
                if self._thread is not threading.current_thread():
                    # Ctrl-C struck while this thread began, and another one was started in its place.
                    return
                while self._due and (wait_s := self._due[0].due - monotonic()) > 0:
                    self._condition.wait(wait_s)
                if not self._due:
                    self._thread = None
                    return
                timer = heapq.heappop(self._due)
                callback, timer.callback = timer.callback, None
            try:
                if callback is not None:
                    callback()
            except BaseException:
                # Also SystemExit of a subscriber: the thread is everybody's.
                from reactdb.logs import logger

                logger.exception("a timer failed")
            del callback, timer


timers = Timers()


class SystemClock:
    """The system's clock. Its wall time is what `time.time_ns` says, also where freezegun or time-machine set it."""

    __slots__ = ()

    def time_ns(self) -> int:
        """See `Clock`."""
        return time.time_ns()

    def monotonic(self) -> float:
        """See `Clock`."""
        return monotonic()

    def call_at(self, due: float, callback: Callable[[], Any]) -> Timer:
        """See `Clock`. The callback comes on the timer thread."""
        return timers.call_at(due, callback)

    def on_advance(self, callback: Callable[[], Any]) -> Timer:
        """See `Clock`. The system's time passes by itself, so there is never a call."""
        return Timer(timers, math.inf, 0, None)


SYSTEM: Final = SystemClock()

_in_force: ContextVar[Clock | None] = ContextVar("clock_in_force", default=None)


@contextmanager
def in_force(clock: Clock) -> Iterator[None]:
    """Inside the block, `time_ns` and `now` are of this clock: `r.now()` in a query, and generated keys."""
    token = _in_force.set(clock)
    try:
        yield
    finally:
        _in_force.reset(token)


def with_clock(clock: Clock, work: F) -> F:
    """The function, with the clock in force wherever it is called."""

    def run(*arguments: Any, **options: Any) -> Any:
        with in_force(clock):
            return work(*arguments, **options)

    return cast(F, run)


def clock_in_force() -> Clock:
    """The clock of the database whose code runs here; the system's outside of any."""
    return _in_force.get() or SYSTEM


def time_ns() -> int:
    """The wall time in nanoseconds since 1970, of the clock in force."""
    clock = _in_force.get()
    return time.time_ns() if clock is None else clock.time_ns()


def now() -> datetime:
    """The wall time of the clock in force, in UTC, to the microsecond."""
    # Not `datetime.now`: under freezegun it would return a class of freezegun's.
    return EPOCH + MICROSECOND * (time_ns() // 1_000)


def time_text(time_ms: int) -> str:
    """A time of the log in ISO 8601, in UTC with milliseconds: `2026-07-21T12:03:04.123Z`."""
    moment = EPOCH + timedelta(milliseconds=time_ms)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def call_later(clock: Clock, delay_s: float, callback: Callable[[], Any]) -> PendingCall:
    """Call back once, when so many seconds of the clock have passed."""
    return clock.call_at(clock.monotonic() + delay_s, callback)


# Real seconds without any news after which a virtual clock counts as forgotten.
STUCK_S: Final = 30.0


def wait_until(condition: threading.Condition, due: float | None, clock: Clock) -> bool:
    """Wait for a notification of a condition that this thread holds, at most until the clock's `monotonic()` is `due`; None: as
    long as it takes. It may return earlier.

    Returns: False if it gave up, because a virtual clock stood still for `STUCK_S` of real time.
    """
    if due is None:
        return condition.wait()
    if clock is SYSTEM:
        condition.wait(max(0.0, due - monotonic()))
        return True

    def notify() -> None:
        with condition:
            condition.notify_all()

    call = clock.call_at(due, notify)
    try:
        # After `call_at`: another thread may have advanced the clock in between.
        return clock.monotonic() >= due or condition.wait(STUCK_S)
    finally:
        call.dispose()


def is_frozen() -> bool:
    """Whether some library has replaced `time.monotonic`, by which event loops measure."""
    return time.monotonic is not monotonic.func  # type: ignore[attr-defined]


def check_clock(clock: object) -> Clock | None:
    """The argument `clock` of `connect`.

    Raises:
        InvalidOption: It is no clock.
    """
    methods = ("time_ns", "monotonic", "call_at", "on_advance")
    if clock is not None and not all(callable(getattr(clock, name, None)) for name in methods):
        raise InvalidOption(
            "clock is a reactdb.testing.VirtualClock, another object with time_ns, monotonic, call_at and on_advance, or None, "
            f"not {format_value(clock)}"
        )
    return clock  # type: ignore[return-value]
