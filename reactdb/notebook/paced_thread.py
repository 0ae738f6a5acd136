"""PacedThread: a scheduler that calls in a thread of its own: all waiting functions together, at most 20 times a second.

Rule of this file: it knows no notebook. A function that raises is logged, and the others are called.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from reactdb.logs import logger

__all__ = ["PacedThread"]

PAUSE_S: Final = 0.05
IDLE_S: Final = 2.0


class PacedThread:
    """See the head of this file. Thread safety: any thread calls any method, and never waits."""

    def __init__(self, after_all: Callable[[], None], when_idle: Callable[[], None]) -> None:
        """
        Args:
            after_all: Called after the waiting functions.
            when_idle: Called when nothing has been scheduled for two seconds.
        """
        self._after_all = after_all
        self._when_idle = when_idle
        self._condition = threading.Condition()
        self._work: deque[Callable[..., Any]] = deque()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="reactdb: a live table", daemon=True)
        self._thread.start()

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def schedule(self, action: Callable[..., Any], state: Any = None) -> None:
        """Call a function soon."""
        with self._condition:
            if not self._is_closed:
                self._work.append(action)
                self._condition.notify()

    def close(self) -> None:
        """Call nothing any more. The thread ends."""
        with self._condition:
            self._is_closed = True
            self._work.clear()
            self._condition.notify()

    def _run(self) -> None:
        while True:
            with self._condition:
                if not self._work and not self._is_closed:
                    self._condition.wait(IDLE_S)
                if self._is_closed:
                    return
                work, self._work = self._work, deque()
            for action in work:
                self._call(action)
            self._call(self._after_all if work else self._when_idle)
            with self._condition:
                # Only `close` ends this pause earlier.
                self._condition.wait_for(lambda: self._is_closed, PAUSE_S)

    def _call(self, action: Callable[..., Any]) -> None:
        if self._is_closed:
            return
        try:
            action()
        except Exception:
            logger.exception("a live table of a notebook could not be updated")
