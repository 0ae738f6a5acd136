"""Timers for feeds that squash without a scheduler: one thread a process, which ends when nothing is due.

Rule of this file: it calls back and knows no feed. A callback must be quick, or wake somebody who need not be.
"""

from __future__ import annotations

import heapq
import logging
import os
import threading
import time
from collections.abc import Callable

logger = logging.getLogger("reactdb")


class Timers:
    """Thread safety: `call_later` may be called from any thread; callbacks come on the timer thread, one after the other."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._thread: threading.Thread | None = None

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        """Call back once, not before `delay_s` seconds."""
        with self._condition:
            self._count += 1
            heapq.heappush(self._due, (time.monotonic() + delay_s, self._count, callback))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="reactdb-timers", daemon=True)
                self._thread.start()
            else:
                self._condition.notify()

    def _run(self) -> None:
        while True:
            with self._condition:
                while self._due and (wait_s := self._due[0][0] - time.monotonic()) > 0:
                    self._condition.wait(wait_s)
                if not self._due:
                    self._thread = None
                    return
                _, _, callback = heapq.heappop(self._due)
            try:
                callback()
            except Exception:
                logger.exception("a timer of a feed failed")
            del callback


timers = Timers()


def _after_fork_in_child() -> None:
    # No thread came along, and the feeds are the parent's.
    timers.__init__()  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
