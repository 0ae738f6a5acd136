"""Session: one handle's access to an open file, and the interface on which everything above is built.

    read()                    a snapshot, of one moment
    get(table, key)           one document, by the shortest path
    newest(table, key)        its newest change: the document with its metadata
    write(table, work)        one write statement, as one commit: a `documents.write.Write`, and a policy about mistakes
    set_hook(table, hook)     the write hook of a table, for every writer
    transact(work)            any other change, such as of tables and indexes, as one commit
    watch(query, options)     a Feed;  reader(...) for a caller that polls
    info(table)               a table's number, primary key and indexes

`Table` and `Database`, views of the past (a session with another snapshot) and every dialect begin each read, write
and feed here. They use the returned objects (a Snapshot, a WriteTransaction, a FeedReader) by their public methods,
with the types and the rows of the store. They add their language: names, options, sentences.

Rule of this file: it knows no step of a query and no operation on a document, and checks no argument that a user gives.
"""

from __future__ import annotations

import math
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

from reactdb.budget import Budget, check
from reactdb.budget import current as budget_in_force
from reactdb.change import Change, HiddenTable, TableReference
from reactdb.clock import SYSTEM, Clock, with_clock
from reactdb.documents.access_path import find_table
from reactdb.documents.hints import HintLog
from reactdb.documents.read import FollowedQuery, evaluate, run
from reactdb.documents.write import RAISE, Policy, Write
from reactdb.errors import (
    DatabaseClosed,
    HistoryLost,
    InvalidOption,
    ReactDBError,
    ReadOnlyDatabase,
    TableNotFound,
    UsageError,
    format_value,
    format_word,
    is_one_of,
)
from reactdb.query import Query
from reactdb.store import registry
from reactdb.store.blocks import Block
from reactdb.store.catalogue import TableInfo
from reactdb.store.engine import Engine
from reactdb.store.hooks import check_hook
from reactdb.store.later_changes import LaterChanges, LazyReversal
from reactdb.store.log import read_low_water
from reactdb.store.retention import Compacted, Retention, find_seq_at
from reactdb.store.snapshot import Snapshot, ViewOfPast
from reactdb.store.sweeps import Sweep, sweep_of
from reactdb.store.transaction import WriteTransaction
from reactdb.store.writer import Durability
from reactdb.values.encode_hook import EncodeHook

if TYPE_CHECKING:
    from reactivex.abc import SchedulerBase

    from reactdb.feeds.feed import Feed
    from reactdb.feeds.reader import FeedReader
    from reactdb.feeds.request import Request
    from reactdb.feeds.rerun import Rerun

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
SWEPT: Final = 200
"""Rows that a sweep removes in one commit: some milliseconds, so that a waiting writer does not notice."""


computing: Final[set[int]] = set()
"""The threads that run a function of `Database.observe`. Such a function reads through the session that it gets only: what
it reads otherwise would not be known."""


class OnSession(Protocol):
    """An object with a session: a handle, a view of the past, a table or another selection."""

    @property
    def _session(self) -> Session: ...


def session_of(handle: OnSession) -> Session:
    """The session of a handle or a selection, for code that builds on it, such as a dialect or a server."""
    return handle._session


class Session:
    """See the head of this file.

    Attributes:
        engine: The open file. All sessions of this process on one file have the same one.
        durability: The default durability of a write.
        encode_hook: The function of `connect(encode=...)`, for values that cannot be stored; None: they are refused.
        hints: The lines of the program with a logged hint about a query that was probably a mistake.

    Thread safety: any method from any thread. A transaction belongs to the flow that began it (see `store.flows`).
    """

    def __init__(
        self,
        engine: Engine,
        durability: Durability,
        scheduler: SchedulerBase | None = None,
        origin: str | None = None,
        busy_timeout_s: float | None = None,
        opened_at: str = "",
    ) -> None:
        """
        Args:
            origin: A name for the writer, kept with each change.
            busy_timeout_s: None for the engine's.
            opened_at: The line of the program that has opened the file. A session with this line is a handle: when it
                is unreferenced, it releases the file.
        """
        self.engine = engine
        self.durability: Durability = durability
        self.hints = HintLog()
        self.encode_hook: EncodeHook | None = None
        self._scheduler = scheduler
        self._origin = origin
        self._busy_timeout_s = busy_timeout_s
        self._is_closed = False
        self._opened_at = opened_at
        self._block: Block | None = None
        self._has_real_time = engine.clock is SYSTEM

    def __reduce__(self) -> Any:
        raise UsageError(
            f"a handle on {self.engine.path} belongs to its process and cannot be pickled or copied: "
            "pass the path, and connect where it arrives"
        )

    def close(self) -> None:
        """Give the file back; the last session on it ends its feeds and closes it. A second call does nothing."""
        if not self._is_closed:
            self._is_closed = True
            registry.release(self.engine)

    def __del__(self) -> None:
        """Release the file of a handle that was never closed, once no handle, table, selection, feed or subscription refers to
        it."""
        # Nothing to release: `__init__` has failed; or this session is no handle (`inside` makes such sessions); or the program
        # ends, when all files are closed anyway and parts of Python are gone.
        if getattr(self, "_is_closed", True) or not self._opened_at or sys.is_finalizing():
            return
        self._is_closed = True
        engine = self.engine
        if engine.is_closed:
            # Its file was closed by `fork`: it is the parent's.
            return
        try:
            if not engine.is_memory:
                message = f"{engine.path} was not closed, opened at {self._opened_at}: close it, or use it in a `with` block"
                warnings.warn(message, ResourceWarning, stacklevel=2, source=self)
        finally:
            registry.release_lost(engine)

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def check_open(self) -> None:
        """Raises: DatabaseClosed; UsageError: inside a function of `observe`."""
        if self._is_closed:
            raise DatabaseClosed(self.engine.path)
        if computing:
            check_not_computing()

    def at(self, seq: int | datetime) -> PastSession:
        """A session that reads the database as it was then: see `Database.at`."""
        if isinstance(seq, datetime):
            seq = self.seq_at(seq)
        if isinstance(seq, bool) or not isinstance(seq, int) or seq < 0:
            raise InvalidOption(
                f"seq is a whole number from 0, or a datetime with a time zone, not {format_value(seq)}"
            )
        self.check_open()
        return PastSession(self, seq)

    def seq_at(self, moment: datetime) -> int:
        """The seq of the newest change at a moment: see `Database.seq_at`."""
        if not isinstance(moment, datetime) or moment.utcoffset() is None:
            raise InvalidOption(
                "moment is a datetime with a time zone, as datetime.now(UTC) gives, not "
                f"{format_value(moment)}"
            )
        time_ms = (moment - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
        self.check_open()
        with self.engine.fresh_snapshot() as snapshot:
            head, low = snapshot.seq, read_low_water(snapshot.connection)
            if time_ms >= self.clock.time_ns() // 1_000_000:
                return head
            seq = find_seq_at(snapshot.connection, low, head, time_ms)
        if seq is None:
            raise HistoryLost(low - 1, low + 1, f"the state of {moment.isoformat()}: ")
        return seq

    @property
    def origin(self) -> str | None:
        """The name of this writer, which is kept with each of its changes; None: it has none."""
        return self._origin

    @property
    def write_wait_s(self) -> float | None:
        """Seconds that a write waits at most: for other threads, for other processes, and until the feeds of this
        process have received the commits of those. Then it raises DatabaseBusy, and nothing was written. None for a
        read-only file.
        """
        if self.engine.read_only:
            return None
        return self.engine.busy_timeout_s if self._busy_timeout_s is None else self._busy_timeout_s

    @property
    def clock(self) -> Clock:
        """The clock of the open file: see `reactdb.clock`."""
        return self.engine.clock

    def timed(self, function: F) -> F:
        """The function, with the clock of the open file in force: `r.now()` and generated keys follow it."""
        clock = self.engine.clock
        return function if clock is SYSTEM else with_clock(clock, function)

    # -----------------------------------------------------------------------------------------------------------
    # Reading

    def read(self) -> AbstractContextManager[Snapshot]:
        """A snapshot: reads of one state. Inside a transaction of this thread, the transaction's own state.

        Keep it short and run no user code inside: a long one keeps the write-ahead log from being emptied.
        """
        self.check_open()
        return self.engine.snapshot()

    def read_rows(self) -> AbstractContextManager[Snapshot]:
        """The same for rows that are no documents, such as large values. They have no past: also a view of the past
        reads their present state.

        Raises:
            TransactionOwned: In memory, where another flow of this thread has written such rows and not committed them yet.
        """
        self.check_open()
        self.engine.check_rows()
        return self.engine.snapshot()

    def run(self, query: Query) -> Any:
        """The query's answer: a document or None for `get`, a value for an aggregate, a list for a sequence.

        Raises:
            TableNotFound, IndexNotFound, QueryError: The query cannot be executed.
        """
        with self.read() as snapshot:
            return self.timed(run)(query, snapshot)

    def read_until_error(self, query: Query) -> tuple[list[Any], Exception | None]:
        """The elements of a sequence up to the first that cannot be computed, and its error; None if there is no such element."""
        elements: list[Any] = []
        with self.read() as snapshot:
            try:
                for element in self.timed(evaluate)(query, snapshot):
                    elements.append(element)  # noqa: PERF402 - what came before an error is kept
            except (ReactDBError, RecursionError) as error:
                return elements, error
        return elements, None

    def get(self, table: TableReference, key: bytes) -> bytes | None:
        """The encoded document of a key of a table, or None.

        Raises:
            TableNotFound.
        """
        if self._is_closed:
            raise DatabaseClosed(self.engine.path)
        if computing:
            check_not_computing()
        return self.engine.get(table, key)

    def newest(self, table: TableReference, key: bytes) -> Change | None:
        """The newest change of a key of a table, with its document and its metadata (`meta`), from the table's write hook or from
        the writer. It may be a deletion. None where the key was never there, or its deletion was compacted away.

        Raises:
            TableNotFound.
        """
        with self.read() as snapshot:
            return snapshot.newest(find_table(table, snapshot), key)

    def committed_seq(self) -> int | None:
        """The seq of the newest committed change; None inside of a transaction of this flow, which may have written more."""
        self.check_open()
        return None if self.engine.current_transaction() is not None else self.engine.newest_seq()

    def token(self) -> str:
        """This moment as an opaque string for `since=`. Inside a transaction, the moment before it."""
        self.check_open()
        with self.engine.fresh_snapshot() as snapshot:
            return self._token(snapshot, snapshot.seq)

    def _token(self, snapshot: Snapshot, seq: int) -> str:
        return f"{self.engine.database_id}.{self.engine.epochs.at(snapshot.connection, seq)}.{seq}"

    # -----------------------------------------------------------------------------------------------------------
    # Information about the file and its tables

    @property
    def database_id(self) -> str:
        """The identity of the file, which stays when the file is moved."""
        self.check_open()
        return self.engine.database_id

    def tables(self) -> list[str]:
        """The names of the tables, sorted."""
        with self.read() as snapshot:
            return list(snapshot.catalogue.ordinary())

    def find_cached(self, table: TableReference) -> TableInfo | None:
        """The table as of the last read of this process, without reading the file; None if no table of this name was
        seen."""
        if self._is_closed:
            raise DatabaseClosed(self.engine.path)
        return self.engine.current_catalogue().live.get(table)

    def find(self, table: TableReference) -> TableInfo | None:
        """A table by its name, or None. Another process may have made it a moment ago."""
        info = self.find_cached(table)
        if info is None:
            with self.read() as snapshot:
                info = snapshot.table(table)
        return info

    def info(self, table: TableReference) -> TableInfo:
        """Information about a table: its number, its primary key, its indexes.

        Raises:
            TableNotFound.
        """
        if self._is_closed:
            raise DatabaseClosed(self.engine.path)
        # As `find_cached`, in place: every insert asks for it.
        info = self.engine.current_catalogue().live.get(table) or self.find(table)
        if info is None:
            raise TableNotFound(str(table))
        return info

    def make_hidden(self, table: HiddenTable, primary_key: str = "id") -> None:
        """Make a hidden table, unless it exists: it belongs to the engine or to a dialect, and is in no list, log,
        feed of all tables, export or count. Every method here that takes a table's name reads, writes and watches it,
        in the same transactions as others.
        """

        def one(transaction: WriteTransaction) -> None:
            if table not in transaction.catalogue.live:
                transaction.create_table(table.name, primary_key, table.owner)

        self.transact(one, operation="table_create")

    def newest_seq(self, table: TableReference) -> int:
        """The seq of the newest change of a table, by one look-up, also after compaction; for a table without
        changes, the seq of its creation. So two equal results mean that nothing has changed.

        Raises:
            TableNotFound.
        """
        with self.read() as snapshot:
            return snapshot.newest_seq(find_table(table, snapshot))

    # -----------------------------------------------------------------------------------------------------------
    # Writing

    def write(
        self,
        table: TableReference,
        work: Callable[[Write], object],
        policy: Policy = RAISE,
        *,
        return_changes: bool | str = False,
        durability: str | None = None,
        is_shareable: bool = False,
        operation: str = "write",
    ) -> dict[str, Any]:
        """Execute one write statement on a table: as a part of this thread's transaction, or as a commit of its own.

        Args:
            work: Called with the `Write`, under the write lock; again, where a commit that it had joined was interrupted.
            policy: The rules for documents, and whether a mistake in one document is raised or counted.
            return_changes: As for `Selection.update`.
            is_shareable: `work` runs no code of the user's, so that another thread may carry it out in its own commit.
            operation: The user's name of the operation: errors of the file begin with it.

        Returns:
            ReQL's counters.

        Raises:
            TableNotFound; every error of `work`, after its changes were rolled back; every error of the file.
        """
        return self.transact(
            Write(table, work, policy, return_changes),
            durability=durability,
            is_shareable=is_shareable,
            operation=operation,
        )

    def transact(
        self,
        work: Callable[[WriteTransaction], T],
        *,
        durability: str | None = None,
        is_shareable: bool = False,
        operation: str = "write",
        origin: str | None = None,
    ) -> T:
        """Execute a change of any kind as `write` does, and return the result of `work`. `origin`: None for the
        session's own.

        Where a budget is in force, it does not sleep for other queries from here on: all writers would wait for it.
        """
        if self._is_closed:
            raise DatabaseClosed(self.engine.path)
        if computing:
            check_not_computing()
        budget = budget_in_force.get()
        if budget is not None and not budget.is_in_turn:
            with budget.in_turn(math.inf):
                return self.transact(
                    work,
                    durability=durability,
                    is_shareable=is_shareable,
                    operation=operation,
                    origin=origin,
                )
        writer = self.engine.writer or self.engine.writable()
        return writer.write(
            work if self._has_real_time else self.timed(work),
            durability=self.durability if durability is None else check_durability(durability),
            busy_timeout_s=self._busy_timeout_s,
            origin=origin or self._origin,
            is_shareable=is_shareable,
            operation=operation,
            block=self._block,
        )

    def transaction(
        self, durability: str | None = None, origin: str | None = None
    ) -> AbstractContextManager[WriteTransaction]:
        """Several writes of this flow as one commit. Inside another transaction: a part of it, which can fail
        alone."""
        return enter_transaction(self.block(durability, origin))

    def block(
        self, durability: str | None = None, origin: str | None = None, *, is_exclusive: bool = False
    ) -> AbstractContextManager[Block]:
        """The same, as a block object with its members. `is_exclusive`: only sessions inside of it (see
        `SessionInside`)."""
        self.check_open()
        block = self.engine.writable().transaction(
            durability=self.durability if durability is None else check_durability(durability),
            busy_timeout_s=self._busy_timeout_s,
            origin=origin or self._origin,
            is_exclusive=is_exclusive,
            within=self._block,
        )
        budget = budget_in_force.get()
        return block if budget is None else enter_block_in_turn(block, budget)

    def inside(self, block: Block) -> SessionInside:
        """A session inside of a block of `block()`, for any flow of its thread."""
        inside = SessionInside(
            block, self.engine, self.durability, self._scheduler, self._origin, self._busy_timeout_s
        )
        inside.encode_hook = self.encode_hook
        return inside

    def on(self, engine: Engine) -> Session:
        """A session on another open file, with the settings of this one. It is the handle of that file."""
        session = Session(
            engine, self.durability, self._scheduler, self._origin, self._busy_timeout_s, self._opened_at
        )
        session.encode_hook = self.encode_hook
        return session

    def set_hook(self, table: TableReference, hook: str | None) -> None:
        """Set the write hook of a table by name (see `reactdb.store.hooks`): every later write, by any process, runs
        it. None: no hook. Existing documents have no metadata until their next write.

        Raises:
            TableNotFound; HookNotFound: This process does not know the hook.
        """
        if hook is not None:
            check_hook(hook, str(table))

        def work(transaction: WriteTransaction) -> None:
            info = live_table(transaction, table)
            if info.hook != hook:
                transaction.set_hook(info, hook)

        self.transact(work, operation="set hook")

    def sweep(self) -> None:
        """Remove, in small commits, unneeded rows that write hooks keep beside the tables of this process."""
        for table in list(self.engine.catalogue.live.values()):
            sweep = None if table.hook is None else sweep_of(table.hook)
            if sweep is not None:
                self._sweep(sweep, table)

    def _sweep(self, sweep: Sweep, table: TableInfo) -> None:
        start: bytes | None = b""
        while start is not None:
            with self.read() as snapshot:
                if snapshot.catalogue.live.get(table.reference) is None:
                    # It was dropped in between.
                    return
                keys, start = sweep.find(snapshot, table, start)
            for place in range(0, len(keys), SWEPT):
                check()
                some = keys[place : place + SWEPT]
                self.transact(partial(sweep.remove, table, some), operation="compact")

    def compact(self, retention: Retention, *, vacuum: bool = False) -> Compacted:
        """Remove the history that `retention` does not keep, and before that the unneeded rows of write hooks."""
        self.check_open()
        if self.engine.current_transaction() is None:
            self.sweep()
        return self.engine.writable().compaction.compact(
            retention, vacuum=vacuum, busy_timeout_s=self._busy_timeout_s
        )

    # -----------------------------------------------------------------------------------------------------------
    # Watching

    def watch(self, query: Query, options: Mapping[str, Any], purpose: str = "feed") -> Feed:
        """A feed of the query. `options`: as for `Selection.changes`, by name. `purpose`: what opens it, for `db.activity()`.

        Raises:
            UnsupportedFeed, HistoryLost, HistoryDiverged, TableNotFound, IndexNotFound, InvalidOption.
        """
        # Imported here because many programs read and write, and watch nothing.
        from reactdb.feeds.feed import Feed, requests_of
        from reactdb.feeds.hub import hub_of

        self.check_open()
        feed = self.timed(Feed)(hub_of(self.engine), query, options, scheduler=self._scheduler, handle=self)
        if purpose != "feed":
            for request in requests_of(feed):
                request.purpose = purpose
        return feed

    def rerun(
        self, compute: Callable[[Snapshot], Any], about: Query | Callable[..., Any] | None = None
    ) -> Rerun:
        """A computation over a snapshot that is made again after each commit which concerns what it has read. `about`: the
        query or the function that it computes, for `db.activity()`."""
        from reactdb.feeds.hub import hub_of
        from reactdb.feeds.rerun import Rerun

        self.check_open()
        return Rerun(hub_of(self.engine), compute, self._scheduler, self, about)

    def rerun_query(self, query: Query) -> Rerun:
        """The result of a query, read again after each commit which concerns it, also of tables that were renamed since."""
        return self.rerun(FollowedQuery(query), query)

    def reader(
        self,
        query: Query,
        options: Mapping[str, Any],
        on_ready: Callable[[], object] | None = None,
        clock: Callable[[], float] | None = None,
        request_type: type[Request] | None = None,
        purpose: str = "feed",
    ) -> FeedReader:
        """A reader of a feed of the query, as of `Feed.reader`. Errors as for `watch`.

        Args:
            clock: Seconds, for the times of net differences; None: the clock of the open file.
            request_type: A class of requests that makes other events.
            purpose: What opens it, for `db.activity()`.
        """
        from reactdb.feeds.consumers import Flow
        from reactdb.feeds.hub import hub_of
        from reactdb.feeds.reader import FeedReader
        from reactdb.feeds.request import Request

        self.check_open()
        hub = hub_of(self.engine)
        request = self.timed(request_type or Request)(self.engine, hub.say, query, options, self)
        request.purpose = purpose
        return FeedReader(Flow(hub, request), on_ready, clock)


class SessionInside(Session):
    """A session with all its reads and writes inside one block of a transaction. Its flow can hand it to other
    flows."""

    def __init__(self, block: Block, *settings: Any) -> None:
        super().__init__(*settings)
        self._block: Block = block

    def share(self) -> AbstractContextManager[None]:
        """See `Block.share`."""
        return self._block.share()

    def close(self) -> None:
        """Nothing to close: the session that this came from has the file."""

    @property
    def is_closed(self) -> bool:
        return self._block.is_over

    def check_open(self) -> None:
        """Raises: TransactionEnded; TransactionOwned in another thread."""
        self._block.check_object("the transaction")

    def read(self) -> AbstractContextManager[Snapshot]:
        self._block.check_object("read")
        return self.engine.snapshot(self._block.transaction)

    def read_rows(self) -> AbstractContextManager[Snapshot]:
        return self.read()

    def get(self, table: TableReference, key: bytes) -> bytes | None:
        self._block.check_object("read")
        return self.engine.get_inside(self._block.transaction, table, key)

    def find_cached(self, table: TableReference) -> TableInfo | None:
        self.check_open()
        return self._block.transaction.catalogue.live.get(table)

    def compact(self, retention: Retention, *, vacuum: bool = False) -> Compacted:
        raise UsageError("compact() cannot be part of a transaction")


class PastSession(Session):
    """A read-only session whose snapshots are of an earlier seq. It reads as many of the later changes as an answer needs (see
    `store.later_changes`)."""

    def __init__(self, present: Session, seq: int) -> None:
        """
        Args:
            present: The session of the handle. It stays open for as long as this one exists.

        Raises:
            HistoryLost: Retention has removed entries that it needs.
            InvalidOption: Not a seq of this database (yet).
        """
        engine = present.engine
        super().__init__(engine, "hard")
        self._present = present
        self.seq = seq
        self._later = LaterChanges(seq)
        # To examine a query here would undo every change since. `explain()` has the hints.
        self.hints = HintLog(most_places=0)
        with engine.fresh_snapshot() as snapshot:
            if seq > snapshot.seq:
                raise InvalidOption(f"seq {seq} is in the future: the newest change has {snapshot.seq}")
            oldest = read_low_water(snapshot.connection)
            if seq < oldest:
                raise HistoryLost(seq, oldest + 1)

    def close(self) -> None:
        """Nothing to close: the session that this came from has the file."""

    def __del__(self) -> None:
        """Nothing to close."""

    def check_open(self) -> None:
        self.engine.check_usable()

    def at(self, seq: int | datetime) -> PastSession:
        past = super().at(seq)
        if past.seq > self.seq:
            raise InvalidOption(f"seq {past.seq} is in the future of the state as of seq {self.seq}")
        return past

    @contextmanager
    def read(self) -> Iterator[Snapshot]:
        # Committed changes only: those of an open transaction may be rolled back, and other changes get their seqs.
        with self.engine.fresh_snapshot() as now:
            yield ViewOfPast(now, self.seq, LazyReversal(self._later, now))

    @property
    def write_wait_s(self) -> float | None:
        return None

    def get(self, table: TableReference, key: bytes) -> bytes | None:
        with self.read() as snapshot:
            return snapshot.get(find_table(table, snapshot), key)

    def token(self) -> str:
        with self.read() as snapshot:
            return self._token(snapshot, self.seq)

    def tables(self) -> list[str]:
        with self.read() as snapshot:
            names = {info.name for info in snapshot.catalogue.by_id.values() if info.owner is None}
            return sorted(name for name in names if snapshot.table(name) is not None)

    def transact(self, work: object, **options: object) -> Any:
        raise self._read_only_error()

    def block(self, *options: object, **others: object) -> Any:
        raise self._read_only_error()

    def compact(self, retention: Retention, **options: object) -> Any:
        raise self._read_only_error()

    def _read_only_error(self) -> ReadOnlyDatabase:
        return ReadOnlyDatabase(f"the database as of seq {self.seq} is the past, and cannot be written")

    def watch(self, query: object, options: object, purpose: str = "") -> Any:
        raise UsageError(f"the past does not change: use changes(since={self.seq}) on the present")

    def reader(self, query: object, options: object, *others: object, **more: object) -> Any:
        return self.watch(query, options)


def check_not_computing() -> None:
    """Raises: UsageError: This thread runs a function of `observe`."""
    if threading.get_ident() in computing:
        raise UsageError(
            "the function of observe() only reads, and through the database that it gets: `db.observe(lambda db: ...)`; what it "
            "reads through another handle would not be known"
        )


@contextmanager
def enter_transaction(block: AbstractContextManager[Block]) -> Iterator[WriteTransaction]:
    """Enter a block, and yield its transaction."""
    with block as begun:
        yield begun.transaction


@contextmanager
def enter_block_in_turn(block: AbstractContextManager[Block], budget: Budget) -> Iterator[Block]:
    """A block in which the budget does not sleep for other queries."""
    with budget.in_turn(math.inf), block as begun:
        yield begun


def check_durability(durability: object) -> Durability:
    """Raises: InvalidOption."""
    if not is_one_of(durability, ("hard", "soft")):
        raise InvalidOption(
            f'Durability option `{format_word(durability)}` unrecognized (options are "hard" and "soft").'
        )
    return cast("Durability", durability)


def live_table(transaction: WriteTransaction, name: TableReference) -> TableInfo:
    """Raises: TableNotFound."""
    table = transaction.catalogue.live.get(name)
    if table is None:
        raise TableNotFound(str(name))
    return table
