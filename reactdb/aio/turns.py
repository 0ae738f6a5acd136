"""Turns: the order in which tasks begin transactions, over all event loops of the process. Each open file has one.

A transaction of asyncio has a thread of its own. Tasks that wait for its end wait here, without a thread, first come, first
served: further transactions, and single writes. So a thousand waiting tasks cost no thread, they are cancelled at once, and
the calls of the transaction's owner never wait for a thread behind them.

A single write only passes: writes of several tasks go on to the write queue together, where they may share a commit. Threads
and other processes have their order in `store.write_queue` and in SQLite.

Thread safety: any thread; `_lock` is held for a few lines only.
"""

from __future__ import annotations

import threading
from asyncio import AbstractEventLoop, Future, Task, current_task, get_running_loop
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from reactdb.errors import DatabaseBusy, describe_place
from reactdb.store.engine import Engine
from reactdb.store.file import fork

if TYPE_CHECKING:
    from reactdb.aio.work import TransactionThread


class WaitingTask:
    """A task that waits. `transaction`: what it will begin; None for a single write."""

    __slots__ = ("future", "is_granted", "loop", "transaction")

    def __init__(self, loop: AbstractEventLoop, transaction: TransactionThread | None) -> None:
        self.loop = loop
        self.future: Future[None] = loop.create_future()
        self.transaction = transaction
        self.is_granted = False

    def end(self) -> None:
        """Wake the task, in its loop: its turn has come, or it has waited too long."""
        if not self.future.done():
            self.future.set_result(None)


class Turns:
    """See the head of this file.

    Attributes:
        members: The tasks that are inside of an open transaction, with that transaction.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: deque[WaitingTask] = deque()
        self._holder: TransactionThread | None = None
        self.members: WeakKeyDictionary[Task[Any], TransactionThread] = WeakKeyDictionary()

    @property
    def is_free(self) -> bool:
        """No transaction is open or waits."""
        return self._holder is None

    def find_transaction(self) -> TransactionThread | None:
        """The open transaction that the running task is inside of."""
        if not self.members:
            return None
        task = current_task()
        return None if task is None else self.members.get(task)

    def enter(self, transaction: TransactionThread) -> Callable[[], None]:
        """Make the running task a member of the transaction. Returns: a function that ends this; any task may call it."""
        task = current_task()
        assert task is not None
        with self._lock:
            before, self.members[task] = self.members.get(task), transaction
        # A task that nothing else refers to has ended.
        return partial(self._leave_transaction, ref(task), before)

    def _leave_transaction(self, known: ref[Task[Any]], before: TransactionThread | None) -> None:
        task = known()
        if task is None:
            return
        with self._lock:
            if before is None:
                self.members.pop(task, None)
            else:
                self.members[task] = before

    async def acquire(self, transaction: TransactionThread | None, operation: str, timeout_s: float) -> None:
        """Wait for the end of the transactions that came before. `transaction` holds the turn then, until `release`.

        Raises:
            DatabaseBusy: They have not ended in time.
        """
        with self._lock:
            if self._holder is None and not self._queue:
                self._holder = transaction
                return
            loop = get_running_loop()
            waiter = WaitingTask(loop, transaction)
            self._queue.append(waiter)
        timer = loop.call_later(timeout_s, waiter.end)
        try:
            await waiter.future
        except BaseException:
            if not self._leave(waiter):
                self.release(transaction)
            raise
        finally:
            timer.cancel()
        if self._leave(waiter):
            raise self._busy(operation, timeout_s)

    def release(self, transaction: TransactionThread | None) -> None:
        """The transaction has ended: the waiting writes have their turn, up to the next transaction."""
        with self._lock:
            if transaction is None or self._holder is not transaction:
                return
            self._holder = None
            self._grant()

    def _leave(self, waiter: WaitingTask) -> bool:
        """Leave the queue. False: its turn has come already."""
        with self._lock:
            if waiter.is_granted:
                return False
            self._queue.remove(waiter)
            # A single write behind it may have waited for it alone.
            if self._holder is None:
                self._grant()
            return True

    def _grant(self) -> None:
        while self._queue:
            waiter = self._queue.popleft()
            waiter.is_granted = True
            try:
                waiter.loop.call_soon_threadsafe(waiter.end)
            except RuntimeError:
                # Its loop was closed.
                continue
            if waiter.transaction is not None:
                self._holder = waiter.transaction
                return

    def _busy(self, operation: str, timeout_s: float) -> DatabaseBusy:
        holder = self._holder
        owner, place = (None, None) if holder is None else (holder.owner, holder.place)
        return DatabaseBusy(
            f"{operation}: the open transaction of {owner or 'another task'}{describe_place(place)} has not ended within "
            f"{timeout_s:g} s; nothing was written. If it waits for this {operation}, neither can go on: pass its object over "
            "(`async with db.transaction() as transaction:`, then `transaction.table(...)`)",
            operation=operation,
            owner=owner,
            place=place,
        )


_making = threading.Lock()
_turns: WeakKeyDictionary[Engine, Turns] = WeakKeyDictionary()


def turns_of(engine: Engine) -> Turns:
    """The turns of an open file, made at their first use."""
    with _making:
        turns = _turns.get(engine)
        if turns is None:
            turns = _turns[engine] = Turns()
        return turns


@fork.call_in_child
def _forget() -> None:
    """In a child of fork(): a thread of the parent may hold the lock, and the tasks belong to the parent."""
    global _making
    _making = threading.Lock()
    _turns.clear()
