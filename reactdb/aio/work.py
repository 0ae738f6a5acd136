"""Work: where the calls of an AsyncDatabase are made.

    a task inside of a transaction    in the thread of the transaction, one call after the other
    another write                     in a thread for writes, when no transaction of asyncio is open
    another read                      in a thread for reads; in memory, a small read at once, because switching to a thread
                                      takes longer (100 µs)

Reads and writes have threads of their own, because a write may wait for other writers.

In memory, a transaction runs in the thread of its loop: SQLite lets no other thread read such a database while a transaction
writes, so a task that reads, or opens a feed, would have to wait for the transaction.

Rule of this file: calls are functions without arguments. This file does not know what they do.
"""

from __future__ import annotations

import os
from asyncio import current_task, sleep
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar
from weakref import ref

from reactdb.aio.calls import ThreadCall, ThreadsStopped
from reactdb.aio.turns import turns_of
from reactdb.call_stack import find_calling_line
from reactdb.clock import monotonic
from reactdb.documents.extent import concerns_few
from reactdb.errors import TransactionEnded, TransactionOwned, UsageError
from reactdb.feed_source import FeedSource
from reactdb.feeds.feed import Feed, mark_awaited
from reactdb.query import Query
from reactdb.session import Session
from reactdb.store.engine import Engine
from reactdb.store.file import fork
from reactdb.store.flows import ControlFlow
from reactdb.threads import Threads

T = TypeVar("T")

# Reads compute under Python's lock, so more threads than processors help only while they wait for the disk.
READERS = Threads("reactdb-reads", min(16, (os.cpu_count() or 1) + 4))
# More than processors, because a writer waits for its turn and for the disk. One flush commits the writes of several threads.
WRITERS = Threads("reactdb-writes", 32)
# A read in memory of at most so many documents takes less time than a loop should stand still: 1 ms.
MOST_DOCUMENTS = 500
# Reads at once after which the other tasks of the loop have a turn.
READS_WITHOUT_PAUSE = 64
# In memory: seconds between two looks whether other threads still write.
LOOK_S = 0.002

fork.call_in_child(READERS.forget)
fork.call_in_child(WRITERS.forget)


class Here:
    """In place of threads: each call is made at once, where it is given."""

    __slots__ = ("_is_stopped",)

    def __init__(self) -> None:
        self._is_stopped = False

    def run(self, work: Callable[[], object]) -> bool:
        if not self._is_stopped:
            work()
            return True
        return False

    def withdraw(self, work: Callable[[], object]) -> bool:
        return False

    def stop(self) -> None:
        self._is_stopped = True


class TransactionThread:
    """The thread of one transaction of asyncio, with the blocks inside of it.

    Attributes:
        owner: The task that began it, in words.
        place: (file, line) of its `async with`; None where it is not known.
        is_over: It has ended. Every call through its object is refused.
    """

    __slots__ = ("_inner", "_threads", "is_over", "owner", "place")

    def __init__(self, *, is_here: bool) -> None:
        """`is_here`: the calls are made at once, in the thread of the loop."""
        self.owner = ControlFlow().in_words()
        self.place = find_calling_line()
        self.is_over = False
        name = f"reactdb transaction of {self.owner}"
        self._threads = Here() if is_here else Threads(name, 1, is_lasting=True)
        # The inner blocks that are open: their task, and its name.
        self._inner: list[tuple[Any, str]] = []

    async def call(self, function: Callable[[], T], operation: str, *, is_left_alone: bool = False) -> T:
        """
        Raises:
            TransactionEnded.
            TransactionOwned: Another task is in an inner block. If this block fails, it would roll back this call, too.
        """
        if self.is_over:
            raise TransactionEnded(operation, self.place)
        if self._inner:
            task, name = self._inner[-1]
            if task() is not current_task():
                raise TransactionOwned(operation, name, self.place, ControlFlow().in_words(), is_inner=True)
        call = ThreadCall(partial(self._run, function, operation), self._threads)
        try:
            return await call.outcome(is_left_alone=is_left_alone)
        except ThreadsStopped:
            raise TransactionEnded(operation, self.place) from None

    def _run(self, function: Callable[[], T], operation: str) -> T:
        """Make the call, in the thread, unless the transaction has ended first."""
        if self.is_over:
            raise TransactionEnded(operation, self.place)
        return function()

    def enter_inner(self) -> None:
        """The running task has opened an inner block."""
        self._inner.append((ref(current_task()), ControlFlow().in_words()))

    def leave_inner(self) -> None:
        """The innermost block has ended, or ends."""
        if self._inner:
            self._inner.pop()

    def post(self, function: Callable[[], object]) -> None:
        """Have a function called after all earlier calls, and do not wait for it. The function raises nothing."""
        self._threads.run(partial(_ignore_errors, function))

    async def finish(self, function: Callable[[], None], *, is_certain: bool = False) -> None:
        """Have a block left, and wait for its end. `is_certain`: even if the task is cancelled before the end has begun.

        Raises:
            TransactionEnded.
        """
        try:
            await ThreadCall(function, self._threads).outcome(is_certain=is_certain)
        except ThreadsStopped:
            raise TransactionEnded("the end of the block", self.place) from None

    def stop(self) -> None:
        """End the thread, after all earlier calls."""
        self._threads.stop()


class Work:
    """See the head of this file, for one database."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.engine: Engine = session.engine
        self.turns = turns_of(self.engine)
        self._direct = 0

    @property
    def timeout_s(self) -> float:
        """How long a write waits for its turn."""
        wait_s = self._session.write_wait_s
        return self.engine.busy_timeout_s if wait_s is None else wait_s

    def find_transaction(self) -> TransactionThread | None:
        """The transaction that a call of the running task belongs to."""
        return self.turns.find_transaction()

    async def read(self, function: Callable[[], T], query: Query | None = None) -> T:
        """Make a call that reads. `query`: its query, if it may be made at once when it is small."""
        transaction = self.find_transaction()
        if transaction is not None:
            return await transaction.call(function, "read")
        if self.engine.is_memory and self.engine.has_transaction_here():
            # Another task's. It reads the state before.
            return function()
        if query is not None and self._is_quick(query):
            self._direct += 1
            if self._direct % READS_WITHOUT_PAUSE == 0:
                await sleep(0)
            return function()
        return await ThreadCall(function, READERS).outcome()

    def _is_quick(self, query: Query) -> bool:
        """Whether a read is so short that a thread would cost more. In memory a commit lets reads wait, so only where no write is
        made."""
        engine = self.engine
        if not engine.is_memory or not self.turns.is_free or len(engine.write_queue):
            return False
        if query.is_point:
            return True
        try:
            with engine.snapshot() as snapshot:
                return concerns_few(query, snapshot, MOST_DOCUMENTS)
        except Exception:
            # The read itself says it better.
            return False

    async def begin(self) -> TransactionThread:
        """Wait for the turn to begin a transaction, and have a thread for it.

        Raises:
            DatabaseBusy: Others have not ended in time.
        """
        engine, timeout_s = self.engine, self.timeout_s
        thread = TransactionThread(is_here=engine.is_memory)
        await self.turns.acquire(thread, "transaction", timeout_s)
        if engine.is_memory:
            # Other threads write. The thread of the loop must not wait for them.
            end = monotonic() + timeout_s
            try:
                while len(engine.write_queue) and monotonic() < end:
                    await sleep(LOOK_S)
            except BaseException:
                self.turns.release(thread)
                raise
        return thread

    def open_feed(self, source: FeedSource, options: dict[str, Any]) -> Feed:
        """A feed of the source, with these options. This reads the names of tables and indexes, and no documents."""
        return mark_awaited(source.changes(**options))

    async def write(self, function: Callable[[], T], operation: str) -> T:
        """Make a call that writes."""
        transaction = self.find_transaction()
        if transaction is not None:
            return await transaction.call(function, operation)
        if not self.turns.is_free:
            await self.turns.acquire(None, operation, self.timeout_s)
        return await ThreadCall(function, WRITERS).outcome()


class WorkInside(Work):
    """Everything in one transaction, whichever task calls."""

    def __init__(self, session: Session, transaction: TransactionThread) -> None:
        super().__init__(session)
        self._transaction = transaction

    def find_transaction(self) -> TransactionThread | None:
        return self._transaction

    def open_feed(self, source: FeedSource, options: dict[str, Any]) -> Feed:
        raise UsageError(
            "a feed has commits only, so it is not opened through the object of a transaction: use the database's"
        )


def call_in_background(function: Callable[[], object]) -> None:
    """Call it soon, where nobody waits for it."""
    READERS.run(partial(_ignore_errors, function))


def _ignore_errors(function: Callable[[], object]) -> None:
    try:
        function()
    except Exception:
        pass
