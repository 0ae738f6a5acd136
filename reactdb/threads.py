"""Threads: a few threads of the library that make calls in the order in which they were given.

All of them are daemons, so a program may end in the middle of a call. A thread without work ends after a moment.

Rule of this file: a call raises nothing. The caller of `run` handles errors inside its call.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

__all__ = ["Threads"]

IDLE_S = 1.0
"""Seconds after which a thread without work ends: to begin another takes 100 µs."""

Work = Callable[[], object]


class Threads:
    """See the head of this file. Thread safety: any thread calls any method."""

    def __init__(self, name: str, most: int, *, is_lasting: bool = False) -> None:
        """
        Args:
            name: The name of each thread.
            most: How many there are at most; more calls than that wait.
            is_lasting: A thread without work waits until `stop`.
        """
        self._name = name
        self._most = most
        self._idle_s = None if is_lasting else IDLE_S
        self.forget()

    def forget(self) -> None:
        """In a child of fork(): the threads, and their work, are the parent's."""
        # Its own methods, unlike those of a condition, leave it in no half state if Ctrl-C strikes.
        self._lock = threading.RLock()
        self._condition = threading.Condition(self._lock)
        self._work: deque[Work] = deque()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._is_stopped = False

    def run(self, work: Work) -> bool:
        """Call `work` soon, in a thread. False: the threads were stopped before, and make no calls any more."""
        with self._lock:
            if self._is_stopped:
                return False
            self._work.append(work)
            if self._idle >= len(self._work):
                self._condition.notify()
            else:
                self._start()
        return True

    def _start(self) -> None:
        """Start a thread, if there may be one more. Under the lock.

        Ctrl-C may strike before the thread runs, or while it begins. The next call starts another thread in the place of one that
        does not run, and `_run` ends a thread that was replaced.
        """
        self._threads = {thread for thread in self._threads if thread.is_alive()}
        if len(self._threads) < self._most:
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._threads.add(thread)
            thread.start()

    @property
    def is_idle(self) -> bool:
        """Whether all calls are done."""
        with self._lock:
            return not self._work and self._idle == len(self._threads)

    def withdraw(self, work: Work) -> bool:
        """Do not call `work`. False: it was called already, or is being called."""
        with self._lock:
            try:
                self._work.remove(work)
            except ValueError:
                return False
        return True

    def stop(self) -> None:
        """End the threads, after all earlier calls."""
        with self._lock:
            self._is_stopped = True
            self._condition.notify_all()

    def _run(self) -> None:
        thread = threading.current_thread()
        while True:
            with self._lock:
                if thread not in self._threads:
                    return
                if not self._work and not self._is_stopped:
                    self._idle += 1
                    self._condition.wait(self._idle_s)
                    self._idle -= 1
                if not self._work:
                    if self._idle_s is None and not self._is_stopped:
                        continue
                    self._threads.discard(thread)
                    return
                work = self._work.popleft()
            work()
            # Or the thread would keep what nothing else refers to.
            del work
