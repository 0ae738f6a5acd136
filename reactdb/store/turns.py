"""Turns: who may write next, first come first served, and who may share a commit.

Threads that wait for the writer wait for its disk flush. So whoever has the turn may, before it commits, carry out the small
writes of those who queue behind it: they share one flush, and each still succeeds or fails for itself (a savepoint each).
This is LevelDB's writer queue (google/leveldb, db/db_impl.cc, `DBImpl::Write`), with the write itself left to the caller.

Thread safety: everything here may be called from any thread. `_mutex` is held for a few lines only, never while waiting.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from reactdb.errors import DatabaseBusy

# Writes that one commit may carry for others. Bounds how long the first of them waits for the last.
MAX_GROUP = 128


class Ticket:
    """One thread's place in the queue. `work` is what another may carry out for it, None for a whole turn of its own."""

    __slots__ = ("_wake", "error", "is_done", "is_hard", "is_taken", "result", "work")

    def __init__(self, work: Callable[[Any], Any] | None, is_hard: bool) -> None:
        self.work = work
        self.is_hard = is_hard
        self.is_taken = False
        self.is_done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self._wake: threading.Lock | None = None

    def prepare_to_wait(self) -> None:
        self._wake = threading.Lock()
        self._wake.acquire()

    def wait(self, timeout_s: float) -> bool:
        assert self._wake is not None
        return self._wake.acquire(timeout=timeout_s)

    def wake(self) -> None:
        assert self._wake is not None
        self._wake.release()


class Turns:
    """The queue of writers of one engine."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._queue: deque[Ticket] = deque()
        self.owner: int | None = None

    @property
    def waiting(self) -> int:
        """Writers in the queue, the one whose turn it is among them."""
        return len(self._queue)

    def take(self, ticket: Ticket, timeout_s: float) -> bool:
        """Wait for the turn. True: it is ours, and `release` must follow. False: somebody did the work; see the ticket.

        Raises:
            DatabaseBusy: Not our turn within `timeout_s`, and the work was not done.
        """
        with self._mutex:
            self._queue.append(ticket)
            if self._queue[0] is ticket:
                self.owner = threading.get_ident()
                return True
            ticket.prepare_to_wait()
        try:
            woken = ticket.wait(timeout_s)
        except BaseException:
            # Ctrl-C while waiting: the turn may have become ours in this very moment, and nobody else would end it.
            if self._leave(ticket) and not ticket.is_done:
                self.release()
            raise
        if not woken and not self._leave(ticket):
            raise DatabaseBusy(f"another thread held the write lock for {timeout_s:g} s; nothing was written")
        if ticket.is_done:
            return False
        self.owner = threading.get_ident()
        return True

    def _leave(self, ticket: Ticket) -> bool:
        """Give up waiting. True where that came too late: the turn is ours, or the work is done or being done."""
        with self._mutex:
            if not ticket.is_taken and not ticket.is_done and self._queue and self._queue[0] is not ticket:
                self._queue.remove(ticket)
                return False
        if ticket.is_taken and not ticket.is_done:
            # In somebody's transaction already: what becomes of it is known in a moment.
            ticket.wait(3600.0)
        return True

    def companions(self, most: int = MAX_GROUP) -> list[Ticket]:
        """The small writes that queue directly behind the one whose turn it is, marked as taken. Called by the owner."""
        with self._mutex:
            if len(self._queue) < 2:
                return []
            found = []
            for place in range(1, min(len(self._queue), most + 1)):
                ticket = self._queue[place]
                if ticket.work is None or ticket.is_taken:
                    break
                ticket.is_taken = True
                found.append(ticket)
            return found

    def release(self) -> None:
        """End the turn: wake those whose work was done, then the next."""
        self.owner = None
        with self._mutex:
            self._queue.popleft()
            done = []
            while self._queue and self._queue[0].is_done:
                done.append(self._queue.popleft())
            following = self._queue[0] if self._queue else None
        for ticket in done:
            ticket.wake()
        if following is not None:
            following.wake()
