"""Timers for feeds that squash without a scheduler: one thread a process, which ends when nothing is due.

Rule of this file: it calls back and knows no feed. A callback must be quick, or wake another thread for the slow
part.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable

from reactdb.logs import logger
from reactdb.store.file import fork


class Timer:
    """One pending call. `cancel` prevents it, unless it is running already."""

    __slots__ = ("_timers", "callback", "due", "number")

    def __init__(self, timers: Timers, due: float, number: int, callback: Callable[[], None]) -> None:
        self._timers = timers
        self.due = due
        self.number = number
        self.callback: Callable[[], None] | None = callback

    def __lt__(self, other: Timer) -> bool:
        return (self.due, self.number) < (other.due, other.number)

    def dispose(self) -> None:
        self._timers.cancel(self)


class Timers:
    """Thread safety: any thread may call all methods; callbacks come on the timer thread, one after the other."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._due: list[Timer] = []
        self._count = 0
        self._thread: threading.Thread | None = None

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Call back once, not before `delay_s` seconds."""
        with self._condition:
            self._count += 1
            timer = Timer(self, time.monotonic() + delay_s, self._count, callback)
            heapq.heappush(self._due, timer)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="reactdb-timers", daemon=True)
                self._thread.start()
            else:
                self._condition.notify()
        return timer

    def cancel(self, timer: Timer) -> None:
        """A second time, or too late: nothing happens."""
        with self._condition:
            if timer.callback is None:
                return
            timer.callback = None
            self._due.remove(timer)
            heapq.heapify(self._due)
            if not self._due:
                self._condition.notify()

    def _run(self) -> None:
        while True:
            with self._condition:
                while self._due and (wait_s := self._due[0].due - time.monotonic()) > 0:
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
                logger.exception("a timer of a feed failed")
            del callback, timer


timers = Timers()


# In a child of fork() there is no thread, and the feeds are the parent's.
fork.call_in_child(timers.__init__)  # type: ignore[misc]
