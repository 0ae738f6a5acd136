"""WriteQueue: the order of writing threads, first come, first served, and the writes that may share a commit.

A hard commit waits for the disk. So the thread at the head of the queue may execute the small writes of the threads
directly behind it before it commits: one flush of the disk then serves all of them. This is group commit, in the form
of LevelDB's writer queue (google/leveldb, db/db_impl.cc, `DBImpl::Write`). Each write still succeeds or fails alone,
because each has its own savepoint.

Ctrl-C may strike at any line, also while a thread leaves the queue. Therefore each waiter has a lock, `held`, which
its thread holds by `with` as long as it uses the queue. The lock is released in any case, so a waiter with a free
lock has been abandoned, and the others drop it. They check every `LOOK_S` seconds.

Thread safety: everything here may be called from any thread. `_mutex` is held for a few lines only, never while waiting.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from reactdb.clock import monotonic
from reactdb.errors import DatabaseBusy, describe_place
from reactdb.store.blocks import Block
from reactdb.store.flows import ControlFlow
from reactdb.store.transaction import Owner, Savepoint, WriteTransaction

# Writes of other threads that one commit may carry. This bounds how long the first thread waits for the last.
MAX_GROUP = 128
# Seconds between two checks for abandoned waiters ahead.
LOOK_S = 0.5
# A shorter wait, in seconds, is not subtracted from the busy timeout, because setting SQLite's timeout costs 1.5 µs.
NOTED_S = 0.02


class Waiter:
    """One thread's place in the queue.

    Attributes:
        work: Work that another thread may execute in its own commit; None where the thread needs the connection for
            itself.
        operation: The operation's name for the user; error messages begin with it.
        held: The lock that its thread holds from before it queues until it has left the queue.
        block: The transaction of the user's that has the turn through it; None where it is a single write, or not its turn yet.
        is_taken: Another thread is carrying out `work`, or has done so.
        is_done: `work` is committed or has failed; the outcome is in `result` or `error`.
        waited_s: How much of the busy timeout the wait has used up; 0.0 where it was shorter than `NOTED_S`.
    """

    # Most writes do not wait for other writes, and set none of these.
    block: Block | None = None
    is_taken = False
    is_done = False
    result: Any = None
    error: BaseException | None = None
    waited_s = 0.0
    _wake: threading.Lock | None = None

    def __init__(self, work: Callable[[Any], Any] | None, operation: str = "write") -> None:
        self.work = work
        self.operation = operation
        self.held = threading.Lock()

    def prepare_to_sleep(self) -> None:
        self._wake = threading.Lock()
        self._wake.acquire()

    def sleep(self, timeout_s: float) -> bool:
        """Sleep until `wake`. False: the time has passed first."""
        assert self._wake is not None
        return self._wake.acquire(timeout=timeout_s)

    def wake(self) -> None:
        """Wake its thread, if that sleeps. Called with the mutex held: two threads at once would release the lock twice."""
        if self._wake is not None and self._wake.locked():
            self._wake.release()


class WriteQueue:
    """The threads that want to write to one file. The thread at the head has the connection."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._queue: deque[Waiter] = deque()

    def __len__(self) -> int:
        """Threads in the queue, including the writing thread."""
        return len(self._queue)

    def is_first(self, waiter: Waiter) -> bool:
        """Whether it is at the head."""
        with self._mutex:
            return bool(self._queue) and self._queue[0] is waiter

    def acquire(self, waiter: Waiter, timeout_s: float) -> bool:
        """Wait until the waiter is at the head (True), or another thread has done its work (False).

        The caller holds `waiter.held`, and calls `release` in any case, also where this raises.

        Raises:
            DatabaseBusy: Neither happened within `timeout_s`.
        """
        with self._mutex:
            # To queue and to read the head is one step: in between, another thread could do the work and remove the
            # waiter.
            self._queue.append(waiter)
            queue = self._queue
            if queue[0] is waiter:
                return True
            self._drop_finished()
            if queue[0] is waiter:
                return True
            waiter.prepare_to_sleep()
        try:
            is_served = self._wait(waiter, timeout_s)
        except BaseException:
            # Ctrl-C while waiting. If another thread is doing the work, the outcome is known in a moment.
            self._give_up(waiter)
            raise
        if not is_served and not self._give_up(waiter):
            raise self.busy(waiter.operation, timeout_s)
        return not waiter.is_done

    def busy(self, operation: str, timeout_s: float) -> DatabaseBusy:
        """The error of a thread that has waited too long for the head. It names the owner of the head's
        transaction."""
        with self._mutex:
            block = self._queue[0].block if self._queue else None
        message = f"another thread held the write lock for {timeout_s:g} s; nothing was written"
        if block is None:
            return DatabaseBusy(message)
        owner, waiting = block.flow.in_words(), ControlFlow().in_words()
        if block.flow.thread_name() not in owner:
            owner += f" of thread {block.flow.thread_name()!r}"
        return DatabaseBusy(
            f"{message} ({operation}, in {waiting}, waited for the open transaction of {owner}"
            f"{describe_place(block.place)}: if that waits for this {operation}, neither can go on, so do it outside of the "
            "block)",
            operation=operation,
            owner=owner,
            place=block.place,
        )

    def release(self, waiter: Waiter) -> None:
        """Leave the head of the queue: wake the waiters whose work was done, then the next. Without effect where the
        waiter is not in the queue."""
        queue = self._queue
        with self._mutex:
            if not queue or queue[0] is not waiter:
                return
            queue.popleft()
            if queue:
                self._drop_finished()
                if queue:
                    queue[0].wake()

    def _wait(self, waiter: Waiter, timeout_s: float) -> bool:
        """Sleep until the waiter is at the head or its work is done. False: the time has passed first."""
        start = monotonic()
        left = timeout_s
        try:
            while True:
                if waiter.sleep(max(0.0, min(left, LOOK_S))) or waiter.is_done:
                    return True
                with self._mutex:
                    self._drop_finished()
                    if self._queue and self._queue[0] is waiter:
                        return True
                if left <= LOOK_S:
                    return False
                left = timeout_s - (monotonic() - start)
        finally:
            waited_s = monotonic() - start
            if waited_s > NOTED_S:
                waiter.waited_s = min(waited_s, timeout_s)

    def _give_up(self, waiter: Waiter) -> bool:
        """Leave the queue without having been served. True: it is too late for that, because the waiter is at the head by now, or
        its work was done."""
        with self._mutex:
            if waiter.is_done or self._queue[0] is waiter:
                return True
            if not waiter.is_taken:
                self._queue.remove(waiter)
                return False
        # It is in another thread's transaction already: it will be done, or given back and come to the head.
        self._wait(waiter, math.inf)
        return True

    def _drop_finished(self) -> None:
        """Drop finished waiters from the head and wake them, and drop abandoned ones. With the mutex held."""
        queue = self._queue
        while queue and (queue[0].is_done or not queue[0].held.locked()):
            queue.popleft().wake()

    # -----------------------------------------------------------------------------------------------------------
    # Group commit

    def take_group(self) -> list[Waiter]:
        """The small writes that wait directly behind the head, marked as taken. Called by the thread at the head."""
        with self._mutex:
            if len(self._queue) < 2:
                return []
            group = []
            for place in range(1, min(len(self._queue), MAX_GROUP + 1)):
                waiter = self._queue[place]
                if waiter.work is None or waiter.is_taken or not waiter.held.locked():
                    break
                waiter.is_taken = True
                group.append(waiter)
            return group

    def give_back(self, group: Sequence[Waiter]) -> None:
        """The transaction that did their work was rolled back: each does its own when it comes to the head."""
        with self._mutex:
            for waiter in group:
                waiter.result = waiter.error = None
                waiter.is_taken = False

    # -----------------------------------------------------------------------------------------------------------
    # fork()

    def stop(self, timeout_s: float) -> Waiter | None:
        """Stop all writes until `resume`, by holding the head of the queue; None where that takes too long."""
        # A fork in a signal handler may strike in a line of this file, by the very thread that has the mutex.
        if not self._mutex.acquire(timeout=timeout_s):
            return None
        self._mutex.release()
        waiter = Waiter(None)
        waiter.held.acquire()
        try:
            self.acquire(waiter, timeout_s)
        except BaseException as error:
            # Ctrl-C, too, must not leave the head of the queue to a waiter that no code releases.
            waiter.held.release()
            if isinstance(error, DatabaseBusy):
                return None
            raise
        return waiter

    def resume(self, waiter: Waiter) -> None:
        self.release(waiter)
        waiter.held.release()


def write_group(group: Sequence[Waiter], first: WriteTransaction, owner: Owner) -> list[WriteTransaction]:
    """Carry out the writes of other threads inside this thread's SQLite transaction, each as a commit of its own.

    Args:
        group: The waiters of the writes.
        first: This thread's own transaction.
        owner: The writer. It knows the effect of an error on the transaction.

    Raises:
        Errors that no single write has caused: Ctrl-C, which belongs to this thread, and the end of the whole
        transaction.
    """
    transactions = []
    seq, catalogue = first.first + first.count, first.catalogue
    for waiter in group:
        transaction = WriteTransaction(first.cursor, first.memory)
        transaction.begin(catalogue, seq, first.time, None if first.changes is None else [], None)
        assert waiter.work is not None
        try:
            with Savepoint(transaction, owner, waiter.operation):
                waiter.result = waiter.work(transaction)
                # Inside of the savepoint: a duplicate in a unique index is this write's error alone.
                transaction.check_unique()
        except Exception as error:
            if transaction.ruin is not None:
                raise
            waiter.error = error
            continue
        # Outside of its savepoint: should the flush fail, all of them fail, as they would in COMMIT.
        transaction.flush()
        transactions.append(transaction)
        # The next write sees the tables that this one has made.
        seq, catalogue = seq + transaction.count, transaction.catalogue
    return transactions
