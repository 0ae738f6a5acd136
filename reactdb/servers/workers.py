"""Workers: the execution of requests: in threads, or at once on the loop.

Servers on one loop share a Workers: their queries take turns with each other, and a commit of one server wakes the feeds of all.

Rule of this file: it knows functions, and neither bytes nor clients.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Protocol

from reactdb.budget import Crowd
from reactdb.logs import logger

__all__ = ["Wakeable", "Workers"]


class Wakeable(Protocol):
    """A connection, as far as workers know it."""

    def tell(self) -> None:
        """Send the ready bytes. Called on the loop."""

    def advance(self) -> None:
        """Continue with all due work. Called on the loop."""


class Workers:
    """Threads for requests, and their work.

    Attributes:
        crowd: The slow queries; they take turns.
        jobs: Work that runs in a thread, or waits for one.

    Thread safety: `wake` and `put_off` from any thread, all else on the loop.
    """

    def __init__(self, threads: int) -> None:
        self.crowd = Crowd()
        self.jobs: set[Future[Any]] = set()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="reactdb-server")
        # The loop's thread while it executes a request, and the connections that this request has woken.
        self._busy_thread: int | None = None
        self._woken: list[Wakeable] = []
        # Work that is delayed until that request is answered.
        self._put_off: deque[Callable[[], None]] = deque()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        job = self._pool.submit(function, *arguments)
        self.jobs.add(job)
        job.add_done_callback(self.jobs.discard)
        return job

    def begin_on_loop(self) -> None:
        """A request is executed on the loop, up to `end_on_loop`."""
        self._busy_thread = threading.get_ident()

    def end_on_loop(self) -> None:
        """The request's answer is sent. Now do the delayed work, and notify the woken connections before the loop's next turn:
        the commit is complete, and no thread is needed."""
        while self._put_off:
            try:
                self._put_off.popleft()()
            except Exception:
                logger.exception("delayed work after a request has failed")
        self._busy_thread = None
        woken, self._woken = self._woken, []
        for connection in woken:
            connection.tell()

    def put_off(self, work: Callable[[], None]) -> bool:
        """Do this work after the answer of the request that this thread executes on the loop. False: it executes none there. Any
        thread may call it, also inside a commit."""
        if self._busy_thread != threading.get_ident():
            return False
        self._put_off.append(work)
        return True

    def wake(self, loop: asyncio.AbstractEventLoop, connection: Wakeable) -> None:
        """Let the connection go on, soon. Any thread may call it, also inside a commit: it only leaves a note."""
        if self._busy_thread == threading.get_ident():
            self._woken.append(connection)
            return
        with suppress(RuntimeError):
            # The loop may be gone already.
            loop.call_soon_threadsafe(connection.advance)

    def close(self) -> None:
        self._pool.shutdown(wait=True)
