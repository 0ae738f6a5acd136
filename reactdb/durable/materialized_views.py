"""Materialized views: a durable table kept equal to a selection, by a durable consumer's lease and a view.

    build      from one snapshot: a short table in one transaction; a long one in steps, as `NAME.building`, then renamed
    step       the commits since the position, read beside the writers; then one transaction writes the documents
               that differ and moves the position
    follow     a step after each commit to the source, by the worker with the lease

The position is in the file, in two rows that each step writes. One is the lease of the consumer `materialized.NAME`:
retention reads it, and it fences a replaced worker off. The other names the table's selection, and the seq of its
state. If the two differ, the consumer was moved by hand, and the table is built again. The state of a view is never
written: it is computed again from the documents as of the position.

A worker that stops writes the reason into the lease. So every process sees it, and any other worker may take over.
The log keeps the change that stopped it for ever; at a later attempt, if the present documents can be computed, the
table is built again.

A table in construction is not hidden: a program that follows all tables, to copy them for example, would never get
the documents that were written while it was hidden.

Rule of this file: data that was read outside of a transaction is written only where the lease is unchanged since the
read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from types import TracebackType
from typing import Any, NamedTuple

from reactdb import holders
from reactdb.durable.consumer import check_lease_s, digest
from reactdb.durable.keyed_result import Keyed, Shape, shape_of
from reactdb.errors import (
    INTERRUPTS,
    FeedAborted,
    HistoryLost,
    InvalidOption,
    LeaseLost,
    ReactDBError,
    StorageError,
    UsageError,
    as_end,
    format_value,
)
from reactdb.expression import to_data
from reactdb.feeds.compiler import compile_query
from reactdb.feeds.failures import Failures
from reactdb.feeds.log_reader import LogReader
from reactdb.logs import logger
from reactdb.query import Query
from reactdb.session import PastSession, Session, session_of
from reactdb.store.catalogue import TableInfo, check_name
from reactdb.store.leases import CONSUMER, Lease, check_still_held, read_lease, write_lease
from reactdb.store.log import read_low_water
from reactdb.store.materialized_tables import KEPT, MATERIALIZED, consumer_of, forget_view, write_kept
from reactdb.store.positions import NamedPosition, find_position, remove_position, write_position
from reactdb.store.snapshot import Snapshot
from reactdb.store.transaction import WriteTransaction
from reactdb.table import Selection, Table, query_of
from reactdb.values import codec

# Changes after which a step ends, even inside of a commit: their results are in memory.
MOST_CHANGES = 10_000
# Unselected changes that are passed before the position is noted in the file.
PASSED_CHANGES = 10_000
# How often a table is begun again because compaction removes its history, before an error is raised.
MOST_BUILDS = 5
# Characters of an error that are kept in the file.
MOST_ERROR = 2_000
# The results of a step.
MORE, BUILT, DONE, ELSEWHERE = "more", "built", "done", "elsewhere"


class Contents(NamedTuple):
    """The file's data about a kept table.

    Attributes:
        seq: It is equal to its selection as of then; None: it is being built.
        definition: Names the selection, as `consumer.digest` does.
        sources: The numbers of the tables and indexes that the selection reads.
        table: The number of the table.
    """

    seq: int | None
    definition: str
    sources: Sequence[Sequence[int]]
    table: int | None


class Reading:
    """A view of the selection, somewhere in the log. All of it can be made again."""

    __slots__ = ("catalogue", "reader", "shape", "sources")

    def __init__(self, session: Session, query: Query, snapshot: Snapshot) -> None:
        """
        Raises:
            TableNotFound, IndexNotFound, QueryError, UnsupportedFeed: The query cannot be executed, or not be followed.
        """
        plan = compile_query(query, snapshot, Failures(query.table, raises=True))
        self.shape: Shape = shape_of(query, plan)
        self.reader = LogReader(session.engine, plan, snapshot.seq)
        self.catalogue = snapshot.catalogue
        view, by_id = plan.view, snapshot.catalogue.by_id
        # Another table or index of the same name has another number.
        self.sources = [
            [table.id for table in view.tables()],
            [by_id[table_id].indexes[name].id for table_id, name in view.indexes()],
        ]


class Materialized:
    """See the head of this file, and `Database.materialize`. A context manager.

    Attributes:
        name: The table's.

    Thread safety: any method from any thread.
    """

    def __init__(
        self,
        session: Session,
        selection: Selection[Any, Any],
        into: str,
        *,
        rebuild: bool = False,
        follow: bool = True,
        lease_s: float = 30.0,
        scheduler: Any = None,
    ) -> None:
        self._query = _query_of(session, selection)
        self.name = check_name("Table", into)
        self._building = check_name("Table", f"{into}.building")
        self._consumer = consumer_of(into)
        for word, value in (("rebuild", rebuild), ("follow", follow)):
            if not isinstance(value, bool):
                raise InvalidOption(f"{word} is True or False, not {format_value(value)}")
        self._lease_ms = check_lease_s(lease_s)
        self._session = session
        self._definition = digest(self._query)
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._is_rung = False
        self._scheduler = scheduler
        self._subscriptions: list[Any] = []
        # One of the feeds of its sources has ended, so commits no longer wake it.
        self._is_deaf = False
        self._reading: Reading | None = None
        self._error: Exception | None = None
        self.is_closed = False
        self._worker = holders.name_holder(self)
        self._check_outside("made")
        with session.read() as snapshot:
            # Before anything is written, whatever cannot be kept is refused.
            reading = Reading(session, self._query, snapshot)
            self._check_target(snapshot, rebuild)
        if follow:
            self._subscribe(reading)
        try:
            self._catch_up(takes_over=False, is_anew=rebuild)
        except BaseException:
            self.close()
            raise

    def _check_target(self, snapshot: Snapshot, is_anew: bool) -> None:
        """Raises: UsageError: Into that table nothing may be written, or it is of another selection."""
        table = snapshot.table(self.name)
        if table is not None and table.hook != KEPT:
            raise UsageError(
                f"table `{self.name}` is an ordinary table, and its documents would be lost: materialize into another "
                "name, or drop it first"
            )
        contents = self._contents(snapshot)
        if is_anew or contents is None or table is None or contents.definition == self._definition:
            return
        raise UsageError(
            f"table `{self.name}` is kept equal to another selection: pass that selection, or another name, or rebuild=True "
            "to build it from this one"
        )

    def __repr__(self) -> str:
        return f"<Materialized {self.name!r}{' closed' if self.is_closed else ''}>"

    def __enter__(self) -> Materialized:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _subscribe(self, reading: Reading) -> None:
        """Subscribe to each table that the selection reads."""
        self._unsubscribe()
        self._is_deaf = False
        for table in sorted(table.name for table in reading.reader.view.tables()):
            feed = self._session.watch(Query(table), {"changefeed_queue_size": 1}, "materialized view")
            self._subscriptions.append(
                feed.subscribe(self._wake, self._feed_ended, scheduler=self._scheduler)
            )

    def _unsubscribe(self) -> None:
        for subscription in self._subscriptions:
            subscription.dispose()
        self._subscriptions = []

    # -----------------------------------------------------------------------------------------------------------
    # The public part

    @property
    def error(self) -> Exception | None:
        """Why the table has stopped following, the last time that this was tried; None where it follows. Where another worker
        has the table and has stopped, a FeedAborted with its reason."""
        if self._error is not None or not self.is_alive:
            return self._error
        with self._session.read() as snapshot:
            lease = read_lease(snapshot.connection, self._consumer, 0)
        if lease is None or lease.error is None:
            return None
        return FeedAborted(f"table `{self.name}` is no longer kept up to date: {lease.error}")

    @property
    def table(self) -> Table:
        """The table, to read, to watch and to index."""
        return Table(self._session, Query(self.name))

    @property
    def position(self) -> int | None:
        """The table is equal to the selection as of this seq; None while it is being built."""
        with self._session.read() as snapshot:
            contents = self._contents(snapshot)
        return None if contents is None else contents.seq

    @property
    def lag(self) -> int:
        """How many changes, of all tables, are past the position."""
        with self._session.read() as snapshot:
            contents = self._contents(snapshot)
            return snapshot.seq - (0 if contents is None or contents.seq is None else contents.seq)

    @property
    def is_alive(self) -> bool:
        """Not closed, nor is the database."""
        return not self.is_closed and not self._session.is_closed

    def catch_up(self) -> None:
        """Take in all commits up to now, in this thread. Another worker with the lease loses it.

        A view that has stopped follows again, if the cause is gone.

        Raises:
            UsageError: Inside a transaction; or the table was created again with another selection.
            LeaseLost: Another worker has taken over while the table was being built.
            TableNotFound, IndexNotFound: A table or an index of the selection was dropped.
            QueryError: The selection cannot be computed for an existing document. The table stays as of before it.
        """
        self._session.check_open()
        if self.is_closed:
            raise UsageError(f"{self!r} follows no more: call db.materialize again")
        self._check_outside("caught up")
        if self._is_deaf:
            with self._session.read() as snapshot:
                reading = Reading(self._session, self._query, snapshot)
            self._subscribe(reading)
        self._catch_up(takes_over=True)

    def drop(self) -> None:
        """Close this, and drop the table."""
        self.close()

        def work(transaction: WriteTransaction) -> None:
            for name in (self.name, self._building):
                table = _kept_table(transaction, name)
                if table is not None:
                    transaction.drop_table(table)
            forget_view(transaction, self.name)

        self._session.transact(work, operation="materialize")

    def close(self) -> None:
        """Follow no more, and let others have the lease at once. The table stays as it is. A second call does nothing."""
        if self.is_closed:
            return
        self.is_closed = True
        self._unsubscribe()
        if self._session.is_closed or self._session.engine.has_transaction_here():
            return
        # Where it cannot be written now, the lease ends by its time.
        with suppress(ReactDBError):
            self._run_alone(self._release_lease)

    def _release_lease(self) -> None:
        with self._session.read() as snapshot:
            lease = read_lease(snapshot.connection, self._consumer, 0)
        if lease is None or lease.holder != self._worker:
            return

        def work(transaction: WriteTransaction) -> None:
            with suppress(LeaseLost):
                write_lease(transaction, check_still_held(transaction, lease).release(self._now_ms()))

        self._session.transact(work, durability="soft", operation="give up a lease")

    def _check_outside(self, what: str) -> None:
        if self._session.engine.current_transaction() is not None:
            raise UsageError(
                f"a materialized table cannot be {what} inside a transaction: each of its steps is one of its own"
            )

    # -----------------------------------------------------------------------------------------------------------
    # One thread at a time

    def _run_alone(self, work: Callable[[], None]) -> None:
        """Call it when no other thread works here. A thread that works here already, and was called back, does nothing."""
        if self._thread == threading.get_ident():
            return
        with self._lock:
            self._work(work)
        self._run_if_woken()

    def _work(self, work: Callable[[], None]) -> None:
        self._thread = threading.get_ident()
        try:
            work()
        finally:
            self._thread = None

    def _catch_up(self, *, takes_over: bool, is_anew: bool = False) -> None:
        def work() -> None:
            if is_anew:
                self._build()
            until, outcome, may_rebuild = self._head(), MORE, True
            while outcome in (MORE, BUILT):
                outcome = self._step(until, takes_over=takes_over, may_rebuild=may_rebuild)
                if outcome == BUILT:
                    until, may_rebuild = self._head(), False
                elif self._reading is not None and self._reading.reader.position >= until:
                    # Others may write quicker than this.
                    break
            self._error = None

        try:
            self._run_alone(work)
        except LeaseLost:
            # The worker that has taken over reports its own state.
            raise
        except Exception as error:
            self._error = error
            self._note_error(error)
            raise

    def _head(self) -> int:
        with self._session.read() as snapshot:
            return snapshot.seq

    def _wake(self, event: object) -> None:
        """Note a commit. A working thread looks once more when it is done."""
        self._is_rung = True
        self._run_if_woken()

    def _run_if_woken(self) -> None:
        while self._is_rung and self._lock.acquire(blocking=False):
            try:
                self._is_rung = False
                self._work(self._follow)
            finally:
                self._lock.release()

    def _follow(self) -> None:
        """Take steps, as long as there is work. A failed step is tried again after the next commit."""
        if not self.is_alive or self._session.engine.has_transaction_here():
            return
        try:
            while self._step(None, takes_over=False) in (MORE, BUILT):
                pass
            self._error = None
        except LeaseLost:
            # Another worker builds the table.
            self._reading = None
        except INTERRUPTS:
            raise
        except BaseException as error:
            # Errors of the selection's own functions must not reach the committing thread.
            self._failed(as_end(error))

    def _feed_ended(self, error: Exception) -> None:
        """Of a source that was dropped, for example."""
        self._is_deaf = True
        self._failed(error)

    def _failed(self, error: Exception) -> None:
        if self._error is None and self.is_alive:
            logger.error(
                "table %r is no longer kept up to date: %s: %s", self.name, type(error).__name__, error
            )
        self._error = error
        self._reading = None
        self._note_error(error)

    def _note_error(self, error: Exception) -> None:
        """Write into the file why this worker has stopped. Trouble with the file itself is no fault of the selection."""
        if isinstance(error, StorageError) or self._session.is_closed:
            return
        text = f"{type(error).__name__}: {error}"[:MOST_ERROR]

        def work(transaction: WriteTransaction) -> None:
            lease = read_lease(transaction.connection, self._consumer, 0)
            is_ours = lease is not None and lease.selection == self._definition
            if lease is not None and is_ours and not self._is_held_elsewhere(lease):
                write_lease(transaction, lease.copy_with(error=text))

        # Where it cannot be written now, it is in this object, and in the logger's record.
        with suppress(ReactDBError):
            with self._session.read() as snapshot:
                lease = read_lease(snapshot.connection, self._consumer, 0)
            if lease is not None and lease.error != text:
                self._session.transact(work, durability="soft", operation="note a failure")

    # -----------------------------------------------------------------------------------------------------------
    # A step

    def _step(self, until: int | None, *, takes_over: bool, may_rebuild: bool = False) -> str:
        """Take in committed changes: some of them, up to the end of a commit.

        Args:
            until: The position must reach this one at least, also where no earlier change belongs to the selection.
            takes_over: Also from a worker that lives.
            may_rebuild: Where a change cannot be taken in, build the table of the present documents, if that can be done.

        Returns:
            MORE: there is more. BUILT: the table was built. DONE. ELSEWHERE: another worker has the lease.
        """
        try:
            return self._try_step(until, takes_over, may_rebuild)
        except BaseException:
            # The view may be ahead of the table now.
            self._reading = None
            raise

    def _try_step(self, until: int | None, takes_over: bool, may_rebuild: bool) -> str:
        documents: dict[bytes, bytes | None] = {}
        with self._session.read() as snapshot:
            lease = read_lease(snapshot.connection, self._consumer, 0)
            if lease is not None and not takes_over and self._is_held_elsewhere(lease):
                return ELSEWHERE
            self._check_target(snapshot, is_anew=False)
            reading = self._at_position(snapshot, lease)
            is_last = False
            if reading is not None:
                try:
                    is_last = self._read(reading, snapshot, documents)
                except HistoryLost:
                    reading = None
                except (StorageError, MemoryError):
                    raise
                except Exception:
                    if not may_rebuild:
                        raise
                    reading = None
                    self._check_workable()
        if reading is None or lease is None:
            self._build()
            return BUILT
        passed = reading.reader.position - lease.seq
        is_due = (
            passed >= PASSED_CHANGES
            or (until is not None and lease.seq < until <= reading.reader.position)
            # It has stopped before, and continues.
            or lease.error is not None
        )
        if (documents or is_due) and not self._write(lease, reading, documents):
            return MORE
        return DONE if is_last else MORE

    def _at_position(self, snapshot: Snapshot, lease: Lease | None) -> Reading | None:
        """The view at the table's position, or past it, where this worker has passed unselected changes; None: the
        table has to be built."""
        contents = self._contents(snapshot)
        table = snapshot.table(self.name)
        if lease is None or contents is None or table is None:
            return None
        reading = self._reading
        if reading is None or reading.catalogue is not snapshot.catalogue:
            now = Reading(self._session, self._query, snapshot)
            if reading is not None and reading.sources == now.sources:
                reading.catalogue = now.catalogue
            else:
                reading = now
                reading.reader.position = lease.seq
        if (contents.seq, contents.table, contents.sources) != (lease.seq, table.id, reading.sources):
            return None
        if reading.reader.position < lease.seq or lease.holder != self._worker:
            # Another worker has moved the position.
            reading = Reading(self._session, self._query, snapshot)
            reading.reader.position = lease.seq
        self._reading = reading
        return reading

    def _read(self, reading: Reading, snapshot: Snapshot, documents: dict[bytes, bytes | None]) -> bool:
        """Read on from the log, to the end of a commit if it is not too long. Whether that was the last."""
        reader = reading.reader
        if not reader.is_seeded:
            reader.seed(snapshot)
            reading.shape.note_seeded()
        start = reader.position
        tables = reader.view.tables()
        table = tables[0] if len(tables) == 1 else None
        while True:
            deltas, is_last = reader.read(snapshot)
            documents.update(reading.shape.compute_writes(deltas))
            if is_last or reader.position - start >= MOST_CHANGES:
                return is_last
            if reader.failure is not None:
                if documents:
                    # First the earlier changes; then the error is raised.
                    return False
                continue
            following = snapshot.changes(reader.position, None, table, 1)
            if following and following[0].commit > reader.position:
                return False

    def _write(self, read: Lease, reading: Reading, documents: dict[bytes, bytes | None]) -> bool:
        """Write the documents and the position. False: another worker was quicker, and nothing was written."""

        def work(transaction: WriteTransaction) -> int:
            lease = check_still_held(transaction, read)
            table = _kept_table(transaction, self.name)
            if table is None:
                raise LeaseLost(lease.name, 0, lease.fence, None)
            write_kept(transaction, table, documents.items())
            until = _position_after(transaction, reading.reader.position)
            self._move(transaction, self._take_lease(lease).advance(until), table, reading)
            return until

        try:
            reading.reader.position = self._session.transact(work, operation="materialize")
        except LeaseLost:
            self._reading = None
            return False
        return True

    def _move(self, transaction: WriteTransaction, lease: Lease, table: TableInfo, reading: Reading) -> None:
        """Write down that the table is equal to the selection as of the lease's position."""
        write_lease(transaction, lease.extend(self._now_ms()))
        self._note(transaction, Contents(lease.seq, self._definition, reading.sources, table.id))

    # -----------------------------------------------------------------------------------------------------------
    # The lease, and the file's data

    def _is_held_elsewhere(self, lease: Lease) -> bool:
        if lease.holder in (None, self._worker) or lease.error is not None:
            # It has no worker.
            return False
        return not lease.is_over(self._now_ms()) and not holders.is_gone(str(lease.holder))

    def _now_ms(self) -> int:
        return self._session.clock.time_ns() // 1_000_000

    def _take_lease(self, lease: Lease) -> Lease:
        return (
            lease
            if lease.holder == self._worker
            else lease.assign_to(self._worker, self._now_ms(), self._lease_ms)
        )

    def _contents(self, snapshot: Snapshot) -> Contents | None:
        row = find_position(snapshot.connection, MATERIALIZED, self.name)
        return None if row is None else Contents(row.position, **codec.decode(row.value or b""))

    def _note(self, transaction: WriteTransaction, contents: Contents) -> None:
        value = {"definition": contents.definition, "sources": contents.sources, "table": contents.table}
        write_position(
            transaction,
            NamedPosition(MATERIALIZED, self.name, position=contents.seq, value=codec.encode(value)),
        )

    # -----------------------------------------------------------------------------------------------------------
    # Building

    def _check_workable(self) -> None:
        """Check that the selection can be computed for all present documents, before the existing table is replaced.

        Raises:
            QueryError: It cannot, for one of them.
        """
        with self._session.read() as snapshot:
            reading = Reading(self._session, self._query, snapshot)
        past = PastSession(self._session, reading.reader.position)
        # Compaction may overtake it. The build that follows begins again then.
        with suppress(HistoryLost):
            for _ in reading.shape.initial(reading.reader, past):
                pass

    def _build(self) -> None:
        """Build the table again, as of now. An unfinished table of an earlier worker is removed.

        Raises:
            LeaseLost: Another worker has begun the same.
            HistoryLost: Retention removes history faster than the table is read.
        """
        for left in reversed(range(MOST_BUILDS)):
            try:
                self._build_once()
                return
            except HistoryLost:
                # Compaction went on between the first look at the source and the lease, which keeps history from there on.
                if not left:
                    raise

    def _build_once(self) -> None:
        self._reading = None
        with self._session.read() as snapshot:
            reading = Reading(self._session, self._query, snapshot)
        past = PastSession(self._session, reading.reader.position)
        parts = reading.shape.initial(reading.reader, past)
        first = next(parts, ())
        second = next(parts, None)
        if second is None:
            work = partial(self._build_at_once, reading, first)
            reading.reader.position = self._session.transact(work, operation="materialize")
        else:
            self._build_in_steps(reading, chain((first, second), parts))
        self._reading = reading

    def _build_at_once(
        self, reading: Reading, documents: Sequence[Keyed], transaction: WriteTransaction
    ) -> int:
        """A short table is one commit. Returns: its position."""
        table, lease = self._begin(transaction, self.name, reading)
        write_kept(transaction, table, documents)
        until = _position_after(transaction, lease.seq)
        self._move(transaction, lease.advance(until), table, reading)
        return until

    def _build_in_steps(self, reading: Reading, parts: Iterable[Sequence[Keyed]]) -> None:
        begin = partial(self._begin, name=self._building, reading=reading)
        _, lease = self._session.transact(begin, operation="materialize")
        try:
            for documents in parts:
                lease = self._add(lease, documents)
        except Exception:
            with suppress(ReactDBError):
                self._session.transact(partial(self._drop_begun, lease), operation="materialize")
            raise

        def finish(transaction: WriteTransaction) -> None:
            held = check_still_held(transaction, lease)
            old, new = (_kept_table(transaction, name) for name in (self.name, self._building))
            if new is None:
                raise LeaseLost(lease.name, 0, lease.fence, None)
            if old is not None:
                transaction.drop_table(old)
            transaction.rename_table(new, self.name)
            self._move(transaction, held, new, reading)

        self._session.transact(finish, operation="materialize")

    def _begin(self, transaction: WriteTransaction, name: str, reading: Reading) -> tuple[TableInfo, Lease]:
        """Make an empty table of that name, in place of any other, and the lease of its position."""
        snapshot = transaction.snapshot()
        oldest = read_low_water(transaction.connection)
        if reading.reader.position < oldest:
            raise HistoryLost(reading.reader.position, oldest + 1)
        self._check_target(snapshot, is_anew=True)
        left = transaction.catalogue.live.get(self._building)
        if left is not None:
            if left.hook != KEPT:
                raise UsageError(
                    f"table `{self._building}` is in the way: `{self.name}` is built under that name, so rename or drop it"
                )
            transaction.drop_table(left)
        old = _kept_table(transaction, self.name)
        if old is not None and name == self.name:
            transaction.drop_table(old)
        shape = reading.shape
        table = transaction.create_table(name, shape.primary_key)
        transaction.set_hook(table, KEPT)
        for index in () if old is None else old.indexes.values():
            if index.name != shape.primary_key:
                data = codec.encode_value(to_data(index.expression))
                transaction.create_index(table, index.name, data, index.multi, index.is_unique)
        known = read_lease(transaction.connection, self._consumer, 0)
        lease = known or Lease(self._consumer, 0, 1, self._definition, 0)
        lease = lease.reset(reading.reader.position, self._definition).assign_to(
            self._worker, self._now_ms(), self._lease_ms
        )
        write_lease(transaction, lease)
        self._note(transaction, Contents(None, self._definition, [], None))
        return transaction.catalogue.live[name], lease

    def _drop_begun(self, lease: Lease, transaction: WriteTransaction) -> None:
        """If a document cannot be computed, for example, the unfinished table is removed, but an older table stays as
        it is."""
        check_still_held(transaction, lease)
        table = _kept_table(transaction, self._building)
        if table is not None:
            transaction.drop_table(table)
        remove_position(transaction, CONSUMER, self._consumer)

    def _add(self, lease: Lease, documents: Sequence[Keyed]) -> Lease:
        """Write a part of the table's first content. Returns: the lease, renewed."""

        def work(transaction: WriteTransaction) -> Lease:
            held = check_still_held(transaction, lease).extend(self._now_ms())
            table = _kept_table(transaction, self._building)
            if table is None:
                raise LeaseLost(lease.name, 0, lease.fence, None)
            write_kept(transaction, table, documents)
            write_lease(transaction, held)
            return held

        return self._session.transact(work, durability="soft", operation="materialize")


# ---------------------------------------------------------------------------------------------------------------
# By name


def _kept_table(transaction: WriteTransaction, name: str) -> TableInfo | None:
    table = transaction.catalogue.live.get(name)
    return table if table is not None and table.hook == KEPT else None


def _position_after(transaction: WriteTransaction, seq: int) -> int:
    """The position after a transaction that leaves a table equal to its selection as of `seq`."""
    # Where there was no other write in between, the rows written here are not of the selection.
    return seq + transaction.count if transaction.first == seq + 1 else seq


def _query_of(session: Session, selection: object) -> Query:
    if not isinstance(selection, Selection):
        raise InvalidOption(
            "selection is a table or a result from one, such as db.table('orders').group('city').sum('euros'), not "
            f"{format_value(selection)}"
        )
    if session_of(selection).engine is not session.engine:
        raise InvalidOption("selection is of another database than the table")
    return query_of(selection)
