"""VirtualClock: the time of a database, and a scheduler, that stand still until a test advances them.

    clock = VirtualClock()
    db = reactdb.connect(":memory:", clock=clock)
    games = db.table_create("games")
    games.changes(squash=60).subscribe(heard.append)
    games.insert({"id": 1})
    clock.advance_by(61)

It has two times. The monotonic time, `now_s`, begins with 0 and never goes back. The wall time, `wall`, begins with `START` and
goes on at the same pace; `set` changes it.

Due work is a pending call of a database, or an action of Rx, where the clock is the `scheduler` of a subscription. It runs inside
`advance_by`, `advance_to` and `run_due`, in the order of time, on the thread that calls them.

Rule of this file: it has no thread. While due work runs, it holds only the lock that lets a single thread advance.

Thread safety: any thread.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from reactivex.disposable import Disposable
from reactivex.scheduler import VirtualTimeScheduler
from reactivex.scheduler.scheduleditem import ScheduledItem

from reactdb.clock import EPOCH, MICROSECOND
from reactdb.errors import InvalidOption, format_value

START: Final = datetime(2025, 1, 1, tzinfo=UTC)
"""The wall time with which a VirtualClock begins."""


# After so many further pending calls, the cancelled ones are removed.
TIDIED: Final = 64


class VirtualClock(VirtualTimeScheduler):
    """A clock that stands still until the test advances it.

    See the head of this file. A clock for `connect(clock=)`, and a scheduler for `subscribe(scheduler=)`.
    """

    def __init__(self, start: datetime = START) -> None:
        """`start`: the wall time with which it begins, with a time zone.

        Raises:
            InvalidOption: It is no such time.
        """
        super().__init__(0.0)
        self._seconds = 0.0
        # Due work: (when, number, item).
        self._due: list[tuple[float, int, ScheduledItem]] = []
        self._count = 0
        self._watchers: list[Callable[[], Any]] = []
        self._is_stopped = False
        # Re-entrant, because due work may advance the clock, too.
        self._advancing = threading.RLock()
        self._wall_at_zero_ns = 0
        self.set(start)

    # -----------------------------------------------------------------------------------------------------------
    # The time

    @property
    def now_s(self) -> float:
        """Seconds since the clock was made. They never go back."""
        return self._seconds

    @property
    def wall(self) -> datetime:
        """The wall time, in UTC, to the microsecond."""
        return EPOCH + MICROSECOND * (self.time_ns() // 1_000)

    def set(self, wall: datetime) -> None:
        """Set the wall time, also to an earlier time. `now_s` stays, so no interval ends.

        Raises:
            InvalidOption: It is no time with a time zone.
        """
        if not isinstance(wall, datetime) or wall.tzinfo is None:
            raise InvalidOption(f"wall is a datetime with a time zone, not {format_value(wall)}")
        with self._lock:
            self._wall_at_zero_ns = (wall - EPOCH) // MICROSECOND * 1_000 - round(self._seconds * 1e9)
        with self._advancing:
            self._tell_watchers()

    def time_ns(self) -> int:
        """The wall time in nanoseconds since 1970."""
        return self._wall_at_zero_ns + round(self._seconds * 1e9)

    def monotonic(self) -> float:
        """The same as `now_s`."""
        return self._seconds

    # -----------------------------------------------------------------------------------------------------------
    # Advancing

    def advance_by(self, time: float | timedelta) -> None:
        """Let so many seconds pass, and run the work that falls due. 0: run what is due now.

        If work raises an error, the clock stays at that moment, and the rest stays due.

        Raises:
            InvalidOption: It is negative, or no number.
        """
        seconds = time.total_seconds() if isinstance(time, timedelta) else time
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds >= 0:
            raise InvalidOption(f"time is a number of seconds from 0 on, not {format_value(time)}")
        with self._advancing:
            self._run_until(self._seconds + seconds)

    def advance_to(self, time: Any) -> None:
        """The same, until `now_s` is `time`.

        Raises:
            InvalidOption: That moment has passed.
        """
        target = self.to_seconds(time)
        with self._advancing:
            if target < self._seconds:
                raise InvalidOption(f"time is {target:g} s, and the clock is at {self._seconds:g} s already")
            self._run_until(target)

    def run_due(self) -> None:
        """Run what is due now, without letting any time pass."""
        self.advance_by(0)

    def start(self) -> None:
        """Run all work, and let time pass from one piece to the next, until nothing is pending or `stop` is called."""
        with self._advancing:
            self._is_stopped = False
            while not self._is_stopped and (due := self._first_due()) is not None:
                self._run_until(max(due, self._seconds))

    def stop(self) -> None:
        """End `start`, and the call that advances, after the present work."""
        self._is_stopped = True

    def sleep(self, time: float | timedelta) -> None:
        """Let so many seconds pass without running anything."""
        with self._advancing, self._lock:
            self._move_to(self._seconds + self.to_seconds(time))

    def _first_due(self) -> float | None:
        with self._lock:
            return self._due[0][0] if self._due else None

    def _run_until(self, target: float) -> None:
        self._tell_watchers()
        self._run_due_until(target)
        if self._watchers and not self._is_stopped:
            self._tell_watchers()
            # What they have made due now.
            self._run_due_until(target)

    def _tell_watchers(self) -> None:
        for watcher in list(self._watchers):
            watcher()

    def _run_due_until(self, target: float) -> None:
        self._is_stopped = False
        while not self._is_stopped:
            with self._lock:
                if not self._due or self._due[0][0] > max(target, self._seconds):
                    break
                due, _, item = heapq.heappop(self._due)
                self._move_to(due)
            if not item.is_cancelled():
                item.invoke()
        if not self._is_stopped:
            with self._lock:
                self._move_to(target)

    def _move_to(self, seconds: float) -> None:
        # Work that has advanced the clock itself may have come further.
        self._seconds = self._clock = max(self._seconds, seconds)

    # -----------------------------------------------------------------------------------------------------------
    # What is to be done later

    def call_at(self, due: float, callback: Callable[[], Any]) -> Any:
        """Call back once, when `now_s` is `due`. `dispose` of the result prevents it."""
        return self.schedule_absolute(due, lambda *_: callback())

    def on_advance(self, callback: Callable[[], Any]) -> Any:
        """Call back after each `set`, and before and after the clock is advanced. `dispose` of the result ends it."""
        self._watchers.append(callback)
        return Disposable(lambda: self._watchers.remove(callback))

    def schedule(self, action: Any, state: Any = None) -> Any:
        """As of Rx's schedulers: run the action when what is due now is run."""
        return self.schedule_absolute(self._seconds, action, state)

    def schedule_relative(self, duetime: Any, action: Any, state: Any = None) -> Any:
        """As of Rx's schedulers: run the action after so many seconds."""
        return self.schedule_absolute(self._seconds + max(0.0, self.to_seconds(duetime)), action, state)

    def schedule_absolute(self, duetime: Any, action: Any, state: Any = None) -> Any:
        """As of Rx's schedulers: run the action when `now_s` is `duetime`."""
        due = float(duetime) if isinstance(duetime, (int, float)) else self.to_seconds(duetime)
        item: ScheduledItem = ScheduledItem(self, state, action, self.to_datetime(due))
        with self._lock:
            self._count += 1
            if self._count % TIDIED == 0:
                # In place: another thread may have the list.
                self._due[:] = [one for one in self._due if not one[2].is_cancelled()]
                heapq.heapify(self._due)
            heapq.heappush(self._due, (due, self._count, item))
        return item.disposable
