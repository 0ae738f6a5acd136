"""A scheduler for feeds: a pool of threads that run what is due, on the explorer's clock."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from reactivex.disposable import Disposable
from reactivex.scheduler.scheduler import Scheduler


class Workers(Scheduler):
    """Thread safety: any thread may schedule; `count` threads carry out."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._condition = threading.Condition()
        self._due: list[tuple[float, int, Callable[[], Any]]] = []
        self._number = 0
        self._is_closed = False
        for number in range(count):
            threading.Thread(target=self._work, name=f"worker {number}", daemon=True).start()

    @property
    def now(self) -> datetime:
        return self.to_datetime(time.monotonic())

    def schedule(self, action: Any, state: Any = None) -> Disposable:
        return self.schedule_relative(0.0, action, state)

    def schedule_absolute(self, duetime: Any, action: Any, state: Any = None) -> Disposable:
        return self.schedule_relative(self.to_seconds(duetime) - time.monotonic(), action, state)

    def schedule_relative(self, duetime: float | timedelta, action: Any, state: Any = None) -> Disposable:
        disposed: list[bool] = []

        def act() -> None:
            if not disposed:
                action(self, state)

        with self._condition:
            self._number += 1
            due = time.monotonic() + max(0.0, self.to_seconds(duetime))
            heapq.heappush(self._due, (due, self._number, act))
            self._condition.notify()
        return Disposable(lambda: disposed.append(True))

    def close(self) -> None:
        with self._condition:
            self._is_closed = True
            self._condition.notify_all()

    def _work(self) -> None:
        while True:
            with self._condition:
                while not self._is_closed and not (self._due and self._due[0][0] <= time.monotonic()):
                    self._condition.wait(self._due[0][0] - time.monotonic() if self._due else None)
                if self._is_closed:
                    return
                act = heapq.heappop(self._due)[2]
            act()
