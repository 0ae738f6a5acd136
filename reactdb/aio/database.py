"""AsyncDatabase: the database for programs of asyncio, its transactions, and `aconnect`.

    async with reactdb.aconnect("arena.db") as adb:
        games = await adb.table_create("games", exist_ok=True)
        async with adb.transaction():
            await games.insert({"id": 1})

Rule of this file: it decides when calls are made and when a transaction begins and ends. `Database` does the work.
"""

from __future__ import annotations

import os
from asyncio import CancelledError
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from reactdb.aio.calls import ThreadCall
from reactdb.aio.faces import AwaitedValue, Face
from reactdb.aio.selection import AsyncSelection
from reactdb.aio.work import READERS, TransactionThread, Work, WorkInside, call_in_background
from reactdb.change import Change
from reactdb.database import Database, OpenTransaction, ReadableDatabase, connect
from reactdb.errors import NotAValue, TransactionEnded, UsageError
from reactdb.feeds.feed import Feed
from reactdb.session import session_of
from reactdb.table import Selection

# Entries of the log that are read at a time.
LOG_PAGE = 256


def aconnect(path: str | os.PathLike[str], **options: Any) -> Connecting:
    """Open a database file, or ":memory:", for a program of asyncio: `adb = await reactdb.aconnect(path)`, or
    `async with reactdb.aconnect(path) as adb:`, which closes it.

    Args:
        path: As for `connect`.
        options: As for `connect`.

    Returns:
        When it is awaited, an AsyncDatabase. Any event loop of the process may use it, several at once and one after the other.

    Raises:
        As `connect`, when it is awaited.
    """
    return Connecting(path, options)


class Connecting:
    """What `aconnect` returns: it opens the file when it is awaited, or entered."""

    __slots__ = ("_database", "_options", "_path")

    def __init__(self, path: str | os.PathLike[str], options: Mapping[str, Any]) -> None:
        self._path = path
        self._options = options
        self._database: AsyncDatabase | None = None

    def __await__(self) -> Generator[Any, None, AsyncDatabase]:
        return self._connect().__await__()

    async def _connect(self) -> AsyncDatabase:
        opened: list[Database] = []

        def open_file() -> None:
            opened.append(connect(self._path, **self._options))

        try:
            await ThreadCall(open_file, READERS).outcome()
        except CancelledError:
            # It was opened all the same, for nobody.
            for database in opened:
                call_in_background(database.close)
            raise
        return AsyncDatabase(opened[0])

    if not TYPE_CHECKING:
        # Type checkers know that these are wrong.

        def __enter__(self) -> NoReturn:
            raise UsageError("an awaited database is entered by `async with reactdb.aconnect(path) as adb:`")

        def __exit__(self, *error: object) -> None:
            """Python looks for it before it calls `__enter__`."""

        def __getattr__(self, name: str) -> NoReturn:
            hint = (
                "" if name.startswith("_") else ": write `adb = await reactdb.aconnect(path)`, and it is one"
            )
            raise AttributeError(f"this is no open database, and has no `{name}`{hint}", name=name)

    async def __aenter__(self) -> AsyncDatabase:
        self._database = await self._connect()
        return self._database

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        database, self._database = self._database, None
        if database is not None:
            await database.__aexit__(kind, error, trace)


class AsyncReadable(Face):
    """The common part of an AsyncDatabase and a view of its past (`await adb.at(seq)`)."""

    __slots__ = ()

    _other: ReadableDatabase
    elsewhere = frozenset({"blobs", "consumer", "materialize", "observe", "undo_stack"})

    def __init__(self, database: ReadableDatabase, work: Work | None = None) -> None:
        super().__init__(database, work or Work(session_of(database)))

    def _cover(self, result: Any) -> Any:
        if isinstance(result, Selection):
            return AsyncSelection(result, self._work)
        if isinstance(result, Database):
            return AsyncDatabase(result)
        return AsyncReadable(result) if isinstance(result, ReadableDatabase) else result

    def table(self, name: str, *arguments: Any, **options: Any) -> AsyncSelection:
        """The table of this name. Its existence is checked when it is used. Arguments as for `Database.table`."""
        return AsyncSelection(self._other.table(name, *arguments, **options), self._work)

    def __getitem__(self, name: str) -> AsyncSelection:
        return self.table(name)

    async def log(
        self, since: int = 0, until: int | None = None, table: str | None = None
    ) -> AsyncIterator[Change]:
        """The log entries with since < seq <= until: `async for change in adb.log(since=7):`. As `Database.log`."""
        entries = await self._work.read(partial(self._other.log, since, until, table))
        while page := await self._work.read(lambda: list(islice(entries, LOG_PAGE))):
            for change in page:
                yield change

    def __contains__(self, name: object) -> NoReturn:
        raise NotAValue("`in` cannot be awaited: look in `await adb.table_list()`")

    def __iter__(self) -> NoReturn:
        raise UsageError("the names of the tables are in `await adb.table_list()`")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._other!r}>"


class AsyncDatabase(AsyncReadable):
    """An open database for programs of asyncio. See `aconnect`.

    It has the methods of `Database`. Methods that read or write are awaited, and so are `seq` and `token` (`await adb.seq`);
    `table` and `changes` are not. A call never stops the event loop: it runs in a thread, except for a small read in memory.

    A cancelled call was never made, or it is done; then the task gets its CancelledError.

    Thread safety: any event loop of the process may use it, in any thread.
    """

    __slots__ = ()

    _other: Database

    @property
    def sync(self) -> Database:
        """The synchronous handle, for code in other threads, and for the names that only it has, such as `consumer`. Its calls
        stop the event loop: make them in a thread."""
        return self._other

    async def close(self) -> None:
        """Close this handle, as `Database.close`, even if the task is cancelled meanwhile."""
        await ThreadCall(self._other.close, READERS).outcome(is_certain=True)

    async def __aenter__(self) -> AsyncDatabase:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, GeneratorExit):
            # The coroutine is dropped, and must not wait.
            call_in_background(self._other.close)
            return
        await self.close()

    @property
    def user_version(self) -> AwaitedValue:
        """`await adb.user_version`: as `Database.user_version`. It is set by `migrate`."""
        return AwaitedValue(partial(self._work.read, lambda: self._other.user_version))

    @user_version.setter
    def user_version(self, version: object) -> NoReturn:
        raise UsageError(
            "an assignment cannot be awaited: `await adb.migrate(steps)` counts the steps, or set `adb.sync.user_version` in a "
            "thread"
        )

    def changes(self, **options: Any) -> Feed:
        """A feed of every table, for `async for`: see `Database.changes`.

        Raises:
            UsageError: This is the object of a transaction. Feeds deliver commits only.
        """
        return self._work.open_feed(self._other, options)

    def transaction(
        self, *, durability: str | None = None, origin: str | None = None, exclusive: bool = False
    ) -> AsyncTransaction:
        """Make several writes one commit: `async with adb.transaction() as transaction:`. All of them are stored, or none; an
        error that leaves the block, also a CancelledError, rolls them back before it leaves.

        The transaction belongs to the task that began it, and includes all calls of this task on any AsyncDatabase of the file.
        Other tasks read the last commit; their writes and transactions wait for its end, and the loop goes on meanwhile. Other
        tasks take part only through the yielded object. Calls of several tasks inside are made one after the other.

        Args:
            durability, origin: As for `Database.transaction`.
            exclusive: Only calls through the yielded object are a part of it.

        Yields:
            The same database, inside of this transaction, with `share()`: an `AsyncOpenTransaction`.

        Raises:
            DatabaseBusy: It could not begin within `busy_timeout`.
            TransactionOwned: It begins inside another transaction, in which another task has an inner block open.
            TransactionEnded: It begins through the object of a transaction that has ended.
        """
        return AsyncTransaction(
            self._other, self._work, {"durability": durability, "origin": origin, "exclusive": exclusive}
        )


class AsyncOpenTransaction(AsyncDatabase):
    """What `async with adb.transaction()` yields: the same database, inside of this transaction, for every task that uses the
    object. After the end of the block every call raises TransactionEnded.
    """

    __slots__ = ("_thread",)

    _other: OpenTransaction
    elsewhere = AsyncReadable.elsewhere | {"sync"}

    def __init__(self, database: OpenTransaction, thread: TransactionThread) -> None:
        super().__init__(database, WorkInside(session_of(database), thread))
        self._thread = thread

    @property
    def sync(self) -> NoReturn:
        """Raises: UsageError. The transaction belongs to a thread of the library."""
        raise UsageError("an open transaction of asyncio has no synchronous handle: await its own methods")

    def share(self) -> AbstractContextManager[None]:
        """`with transaction.share():` inside the block, the calls of the running task are a part of the transaction, through any
        AsyncDatabase of the file.

        Raises:
            TransactionEnded: The transaction has ended; also raised at the end of the block.
        """
        return share(self._work, self._thread, self._other)

    async def close(self) -> None:
        """Raises: UsageError."""
        self._other.close()


@contextmanager
def share(work: Work, thread: TransactionThread, database: OpenTransaction) -> Iterator[None]:
    """The running task as a member of the transaction."""
    if thread.is_over:
        raise TransactionEnded("share", thread.place)
    leave = work.turns.enter(thread)
    try:
        # In memory the thread is this one, and has to know the task.
        with database.share() if work.engine.is_memory else nullcontext():
            yield
    finally:
        leave()
    if thread.is_over:
        raise TransactionEnded("the end of the block", thread.place)


class Abandoned(Exception):
    """Leaves the synchronous block where the transaction is rolled back. The program's own error stays in its task."""


class AsyncTransaction:
    """The context manager of `AsyncDatabase.transaction`; it can be entered once."""

    __slots__ = (
        "_block",
        "_database",
        "_is_entered",
        "_is_inner",
        "_leave_turn",
        "_open",
        "_options",
        "_thread",
        "_work",
    )

    def __init__(self, database: Database, work: Work, options: Mapping[str, Any]) -> None:
        self._database = database
        self._work = work
        self._options = options
        self._block: AbstractContextManager[OpenTransaction] | None = None
        self._open: OpenTransaction | None = None
        self._thread: TransactionThread | None = None
        self._is_inner = False
        self._is_entered = False
        # Takes the task out of the transaction.
        self._leave_turn: Callable[[], None] | None = None

    if not TYPE_CHECKING:
        # Type checkers know that this is wrong.

        def __enter__(self) -> NoReturn:
            raise UsageError(
                "a transaction of an awaited database is entered by `async with adb.transaction():`"
            )

        def __exit__(self, *error: object) -> None:
            """Python looks for it before it calls `__enter__`."""

    async def __aenter__(self) -> AsyncOpenTransaction:
        if self._is_entered:
            raise UsageError("this transaction was begun already: call transaction() for each")
        self._is_entered = True
        work = self._work
        thread = work.find_transaction()
        self._is_inner = thread is not None
        if thread is None:
            thread = await work.begin()
        self._thread = thread
        try:
            # A task that is cancelled while other writers have the file does not wait for them: the thread gives up by itself.
            await thread.call(self._enter, "transaction", is_left_alone=True)
        except BaseException:
            thread.post(partial(self._leave, is_done=False))
            raise
        if self._is_inner:
            thread.enter_inner()
        else:
            self._leave_turn = work.turns.enter(thread)
        assert self._open is not None
        return AsyncOpenTransaction(self._open, thread)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        thread = self._thread
        assert thread is not None
        try:
            if error is None:
                await thread.finish(partial(self._leave, is_done=True))
            elif not isinstance(error, GeneratorExit):
                await thread.finish(partial(self._leave, is_done=False), is_certain=True)
        except CancelledError:
            if self._block is not None:
                # Before the commit had begun.
                await thread.finish(partial(self._leave, is_done=False), is_certain=True)
            raise
        finally:
            if self._block is not None:
                # The coroutine is dropped, with its loop perhaps, and must not wait.
                thread.post(partial(self._leave, is_done=False))
            if self._is_inner:
                thread.leave_inner()
            elif self._leave_turn is not None:
                self._leave_turn()

    # -----------------------------------------------------------------------------------------------------------
    # In the thread

    def _enter(self) -> None:
        self._block = self._database.transaction(**self._options)
        self._open = self._block.__enter__()

    def _leave(self, *, is_done: bool) -> None:
        """End the block: commit, or roll back. If the block could not begin, only give the turn to the next transaction."""
        thread = self._thread
        assert thread is not None
        try:
            block, self._block = self._block, None
            if block is not None and self._open is not None:
                if is_done:
                    block.__exit__(None, None, None)
                else:
                    block.__exit__(Abandoned, Abandoned(), None)
        finally:
            if not self._is_inner:
                thread.is_over = True
                thread.stop()
                self._work.turns.release(thread)
