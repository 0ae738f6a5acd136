"""Turns: who may write next, first come first served, and who may share a commit.

Threads that wait for the writer wait for its disk flush. So whoever has the turn may, before it commits, carry out the small
writes of those who queue behind it: they share one flush, and each still succeeds or fails for itself (a savepoint each).
This is LevelDB's writer queue (google/leveldb, db/db_impl.cc, `DBImpl::Write`), with the write itself left to the caller.

Ctrl-C may strike in any line, also in those that end a turn. So every ticket has a lock that its thread holds, by `with`, as
long as it has to do with the queue: that one is let go of whatever happens, and a ticket whose lock is free is dead. Nobody
waits for the dead longer than `LOOK_S`.

Thread safety: everything here may be called from any thread. `_mutex` is held for a few lines only, never while waiting.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from reactdb.errors import DatabaseBusy
from reactdb.store.savepoints import Keeper, Part
from reactdb.store.transaction import WriteTransaction

# Writes that one commit may carry for others. Bounds how long the first of them waits for the last.
MAX_GROUP = 128
# Seconds after which one who waits looks whether those before it are still alive.
LOOK_S = 0.5
# Seconds of waiting that are taken off what is left to wait: to tell SQLite costs 1.5 µs.
NOTED_S = 0.02


class Ticket:
    """One thread's place in the queue. `work` is what another may carry out for it, None for a whole turn of its own.

    Attributes:
        operation: What the user calls it, for messages.
        held: Held by its thread from before it queues until it has nothing more to do with the queue.
        owner: The number of its thread.
        is_taken: Another thread carries out the work, within its own commit.
        is_done: It did, with `result` or `error`.
        waited_s: What waiting has taken of the busy timeout: nothing, if it was less than `NOTED_S`.
    """

    __slots__ = (
        "_wake",
        "error",
        "held",
        "is_done",
        "is_taken",
        "operation",
        "owner",
        "result",
        "waited_s",
        "work",
    )

    def __init__(self, work: Callable[[Any], Any] | None, operation: str = "write") -> None:
        self.work = work
        self.operation = operation
        self.held = threading.Lock()
        self.owner = threading.get_ident()
        self.is_taken = False
        self.is_done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.waited_s = 0.0
        self._wake: threading.Lock | None = None

    def prepare_to_wait(self) -> None:
        self._wake = threading.Lock()
        self._wake.acquire()

    def wait(self, timeout_s: float) -> bool:
        assert self._wake is not None
        return self._wake.acquire(timeout=timeout_s)

    def wake(self) -> None:
        """With the mutex held: two at once would release it twice. Nothing happens where it does not wait."""
        if self._wake is not None and self._wake.locked():
            self._wake.release()


class Turns:
    """The queue of writers of one engine."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._queue: deque[Ticket] = deque()

    @property
    def waiting(self) -> int:
        """Writers in the queue, the one whose turn it is among them."""
        return len(self._queue)

    def is_first(self, ticket: Ticket) -> bool:
        """Whether it is this ticket's turn."""
        with self._mutex:
            return bool(self._queue) and self._queue[0] is ticket

    def take(self, ticket: Ticket, timeout_s: float) -> bool:
        """Wait for the turn. True: it is ours. False: somebody did the work; see the ticket.

        The caller holds `ticket.held`, and calls `release` in any case, also where this raises.

        Raises:
            DatabaseBusy: Not our turn within `timeout_s`, and the work was not done.
        """
        with self._mutex:
            # To queue and to look who is first is one step: in between, the work could be done, and the ticket be gone.
            self._queue.append(ticket)
            if self._queue[0] is not ticket:
                self._bury()
            if self._queue[0] is ticket:
                return True
            ticket.prepare_to_wait()
        try:
            woken = self._wait(ticket, timeout_s)
        except BaseException:
            # Ctrl-C while waiting. Where the work is being done by another, what becomes of it is known in a moment.
            self._leave(ticket)
            raise
        if not woken and not self._leave(ticket):
            raise DatabaseBusy(f"another thread held the write lock for {timeout_s:g} s; nothing was written")
        return not ticket.is_done

    def _wait(self, ticket: Ticket, timeout_s: float) -> bool:
        """Wait until it is our turn or the work is done. Whether it came to that."""
        start = time.monotonic()
        left = timeout_s
        try:
            while True:
                if ticket.wait(max(0.0, min(left, LOOK_S))) or ticket.is_done:
                    return True
                with self._mutex:
                    self._bury()
                    if self._queue and self._queue[0] is ticket:
                        return True
                if left <= LOOK_S:
                    return False
                left = timeout_s - (time.monotonic() - start)
        finally:
            waited_s = time.monotonic() - start
            if waited_s > NOTED_S:
                ticket.waited_s = min(waited_s, timeout_s)

    def _leave(self, ticket: Ticket) -> bool:
        """Give up waiting. True where that came too late: the turn is ours, or the work is done."""
        with self._mutex:
            if ticket.is_done or self._queue[0] is ticket:
                return True
            if not ticket.is_taken:
                self._queue.remove(ticket)
                return False
        # In somebody's transaction already: it will be done, or given back and have its turn.
        self._wait(ticket, math.inf)
        return True

    def stop(self, timeout_s: float) -> Ticket | None:
        """Take a turn in which nothing is done, for a fork; None where that takes too long. It ends with `go_on`."""
        # A fork in a signal handler may strike in a line of this file, by the very thread that has the mutex.
        if not self._mutex.acquire(timeout=timeout_s):
            return None
        self._mutex.release()
        ticket = Ticket(None)
        ticket.held.acquire()
        try:
            self.take(ticket, timeout_s)
        except BaseException as error:
            # Ctrl-C, too, must not leave the turn to a ticket that looks alive.
            ticket.held.release()
            if isinstance(error, DatabaseBusy):
                return None
            raise
        return ticket

    def go_on(self, ticket: Ticket) -> None:
        self.release(ticket)
        ticket.held.release()

    def companions(self, most: int = MAX_GROUP) -> list[Ticket]:
        """The small writes that queue directly behind the one whose turn it is, marked as taken. Called in turn."""
        with self._mutex:
            if len(self._queue) < 2:
                return []
            found = []
            for place in range(1, min(len(self._queue), most + 1)):
                ticket = self._queue[place]
                if ticket.work is None or ticket.is_taken or not ticket.held.locked():
                    break
                ticket.is_taken = True
                found.append(ticket)
            return found

    def give_back(self, tickets: Sequence[Ticket]) -> None:
        """What was done for these was taken back: each does its own work, when its turn comes."""
        with self._mutex:
            for ticket in tickets:
                ticket.result = ticket.error = None
                ticket.is_taken = False

    def release(self, ticket: Ticket) -> None:
        """End the turn: wake those whose work was done, then the next. Nothing happens where it was not its turn."""
        queue = self._queue
        with self._mutex:
            if not queue or queue[0] is not ticket:
                return
            queue.popleft()
            self._bury()
            if queue:
                queue[0].wake()

    def _bury(self) -> None:
        """Take from the head of the queue whose work is done, and wake them, and the dead. With the mutex held."""
        queue = self._queue
        while queue and (queue[0].is_done or not queue[0].held.locked()):
            queue.popleft().wake()


def carry_out(
    companions: Sequence[Ticket], first: WriteTransaction, keeper: Keeper
) -> list[WriteTransaction]:
    """Do the writes of other threads inside this thread's SQLite transaction, each as a commit of its own.

    Args:
        companions: Whose writes.
        first: This thread's own.
        keeper: Whose transaction it is.

    Raises:
        What is not the fault of one of them: Ctrl-C, which is for this thread, and what ended the whole transaction.
    """
    transactions = []
    seq = first.first + first.count
    for ticket in companions:
        transaction = WriteTransaction(
            first.connection,
            first.catalogue,
            first.memory,
            seq,
            first.time,
            None if first.changes is None else [],
        )
        assert ticket.work is not None
        try:
            with Part(transaction, keeper, ticket.operation):
                ticket.result = ticket.work(transaction)
        except Exception as error:
            if transaction.ruin is not None:
                raise
            ticket.error = error
            continue
        # Outside of its part: should it fail, all of them fail, as they would in COMMIT.
        transaction.flush()
        transactions.append(transaction)
        seq += transaction.count
    return transactions
