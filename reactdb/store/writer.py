"""Writer: the one connection of an engine that writes, in turns.

A write: turn -> BEGIN IMMEDIATE -> statements -> COMMIT -> is the file still the file? -> the commit is published, still in
turn, so that listeners hear commits in log order -> turn released -> the listener drains. No user code runs in the turn but
what a caller passes into its own write (`update(callable)`) and predicates of feeds.

Thread safety: the public methods from any thread; the others only by the thread whose turn it is.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeVar

from reactdb.errors import (
    DatabaseBusy,
    OutcomeUnknown,
    ReactDBError,
    StorageMoved,
    UsageError,
)
from reactdb.store import schema, sqlite
from reactdb.store.catalogue import load
from reactdb.store.retention import Compacted, Retention, compact_step
from reactdb.store.snapshot import head_seq, low_water
from reactdb.store.sqlite import Connection, SQLiteError
from reactdb.store.transaction import WriterMemory, WriteTransaction
from reactdb.store.turns import Ticket, Turns

if TYPE_CHECKING:
    from reactdb.store.engine import Engine

Durability = Literal["hard", "soft"]
T = TypeVar("T")

logger = logging.getLogger("reactdb")

# Bytes in the write-ahead log that start a checkpoint: 16 MiB. At 4 MiB one commit in a hundred waits for it.
CHECKPOINT_BYTES = 16 * 1024 * 1024
# A checkpoint must not give up early: without the write lock it is not safe before SQLite 3.51.3.
CHECKPOINT_TIMEOUT_S = 10.0
# Commits between two looks at what retention does not keep any more.
RETAIN_EVERY = 500


class Writer:
    """See the head of this file.

    Attributes:
        last_seq: The newest seq that this connection knows of.
        retention: What history is kept; None: all.
    """

    def __init__(self, engine: Engine, connection: Connection) -> None:
        self._engine = engine
        self._connection = connection
        self._turns = Turns()
        self._memory = WriterMemory()
        self._own = threading.local()
        # `PRAGMA data_version` when this connection last looked; None makes it look again.
        self._seen_version: int | None = None
        self._is_synchronous: bool | None = None
        self._has_own_epoch = False
        self.last_seq = head_seq(connection)
        self._last_time = 0
        self._file_identity: tuple[int, int] | None = None
        self._wal_identity: tuple[int, int] | None = None
        self._checkpoint_at = CHECKPOINT_BYTES
        self._retain_at = 0
        self.retention: Retention | None = None
        if not engine.is_memory:
            status = os.stat(engine.path)
            self._file_identity = (status.st_dev, status.st_ino)

    def close(self) -> None:
        """Wait for the write that is going on, and close the connection."""
        is_ours = self.current is None and self._turns.take(
            Ticket(None, is_hard=False), self._engine.busy_timeout_s
        )
        try:
            self._connection.close()
        finally:
            if is_ours:
                self._turns.release()

    @property
    def current(self) -> WriteTransaction | None:
        """The transaction that this thread is inside of, or None."""
        transaction: WriteTransaction | None = getattr(self._own, "transaction", None)
        return transaction

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Inside: as if this thread were in no transaction."""
        mine, self._own.transaction = self.current, None
        try:
            yield
        finally:
            self._own.transaction = mine

    def write(
        self,
        work: Callable[[WriteTransaction], T],
        *,
        durability: Durability,
        origin: str | None = None,
        is_shareable: bool = False,
        collect: bool = False,
    ) -> T:
        """Carry out one write: in this thread's transaction, or as a commit of its own.

        Args:
            work: Called with the transaction, once.
            is_shareable: `work` runs no code of the user's, so that another thread may carry it out in its own commit.
            collect: The changes are wanted in `WriteTransaction.changes`, also where no feed listens.

        Raises:
            Whatever `work` raises, after everything that it did is taken back.
            DatabaseBusy, DiskFull, StorageError: From the file; nothing was written.
            OutcomeUnknown: An error in COMMIT itself.
        """
        outer = self.current
        if outer is not None:
            return self._nested(outer, work)
        self._check_writable()
        is_hard = durability == "hard"
        ticket = Ticket((lambda transaction: work(transaction)) if is_shareable else None, is_hard)
        if not self._turns.take(ticket, self._engine.busy_timeout_s):
            if ticket.error is not None:
                raise ticket.error
            self._engine.publisher.drain()
            return ticket.result  # type: ignore[no-any-return]
        try:
            result = self._write_in_turn(work, is_hard, origin, collect, shares=is_shareable)
        finally:
            self._turns.release()
        self._engine.publisher.drain()
        return result

    @contextmanager
    def transaction(self, *, durability: Durability, origin: str | None = None) -> Iterator[WriteTransaction]:
        """Several writes as one commit; an exception takes all of them back. Inside another one: a part of it."""
        outer = self.current
        if outer is not None:
            with self._savepoint(outer):
                yield outer
            return
        self._check_writable()
        self._turns.take(Ticket(None, is_hard=True), self._engine.busy_timeout_s)
        try:
            transaction = self._begin(durability == "hard", origin, collect=False)
            self._own.transaction = transaction
            try:
                yield transaction
            except BaseException:
                self._own.transaction = None
                self._rollback()
                raise
            self._own.transaction = None
            self._commit([transaction])
        finally:
            self._own.transaction = None
            self._turns.release()
        self._engine.publisher.drain()

    def _check_writable(self) -> None:
        self._engine.check_usable()
        if self._engine.publisher.is_routing:
            raise UsageError(
                "a predicate or mapping of a feed must not write: it runs inside somebody's commit"
            )

    def _nested(self, outer: WriteTransaction, work: Callable[[WriteTransaction], T]) -> T:
        with self._savepoint(outer):
            return work(outer)

    @contextmanager
    def _savepoint(self, transaction: WriteTransaction) -> Iterator[None]:
        """All or nothing of one write inside a transaction that goes on."""
        kept = (
            transaction.count,
            transaction.catalogue,
            transaction.is_catalogue_changed,
            len(transaction.dropped_tables),
            len(transaction.dropped_indexes),
        )
        connection = transaction.connection
        connection.execute("SAVEPOINT write")
        try:
            yield
        except BaseException as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK TO write")
                connection.execute("RELEASE write")
            self._memory.forget()
            transaction.count, transaction.catalogue, transaction.is_catalogue_changed, tables, indexes = kept
            del transaction.dropped_tables[tables:], transaction.dropped_indexes[indexes:]
            if transaction.changes is not None:
                del transaction.changes[transaction.count :]
            if isinstance(error, SQLiteError):
                raise sqlite.translate(error, "write", self._engine.path) from error
            raise
        connection.execute("RELEASE write")

    def _write_in_turn(
        self,
        work: Callable[[WriteTransaction], T],
        is_hard: bool,
        origin: str | None,
        collect: bool,
        *,
        shares: bool,
    ) -> T:
        transaction = self._begin(is_hard, origin, collect)
        self._own.transaction = transaction
        try:
            result = work(transaction)
        except BaseException as error:
            self._own.transaction = None
            self._rollback()
            if isinstance(error, SQLiteError):
                raise sqlite.translate(error, "write", self._engine.path) from error
            raise
        finally:
            self._own.transaction = None
        transactions = [transaction]
        companions: list[Ticket] = []
        # Sharing pays where a commit waits for the disk; elsewhere a commit costs less than the savepoints.
        if shares and is_hard and self._turns.waiting > 1:
            companions = self._turns.companions()
            transactions += self._carry_out(companions, transaction)
        try:
            self._commit(transactions)
        except BaseException as error:
            for ticket in companions:
                if ticket.error is None:
                    ticket.error = (
                        error
                        if isinstance(error, ReactDBError)
                        else OutcomeUnknown(f"the commit broke off: {error}")
                    )
                ticket.is_done = True
            raise
        for ticket in companions:
            ticket.is_done = True
        return result

    def _carry_out(self, companions: list[Ticket], first: WriteTransaction) -> list[WriteTransaction]:
        """Do the writes of other threads inside this thread's SQLite transaction, each as a commit of its own."""
        transactions = []
        seq = first.first + first.count
        for ticket in companions:
            transaction = WriteTransaction(
                first.connection,
                first.catalogue,
                self._memory,
                seq,
                first.time,
                collect=first.changes is not None,
            )
            assert ticket.work is not None
            try:
                with self._savepoint(transaction):
                    ticket.result = ticket.work(transaction)
            except BaseException as error:
                # The other thread's error, also a KeyboardInterrupt that happened to strike here: it is told there.
                ticket.error = error
                if not isinstance(error, Exception):
                    ticket.error = DatabaseBusy(
                        "the commit that carried this write was interrupted; nothing was written"
                    )
                continue
            transactions.append(transaction)
            seq += transaction.count
        return transactions

    def _begin(self, is_hard: bool, origin: str | None, collect: bool) -> WriteTransaction:
        self._engine.check_usable()
        connection = self._connection
        execute = connection.execute
        try:
            if is_hard is not self._is_synchronous:
                execute(f"PRAGMA synchronous={'FULL' if is_hard else 'NORMAL'}")
                self._is_synchronous = is_hard
            # IMMEDIATE: a deferred transaction that reads before it writes can be refused half-way when another process has
            # written in between, and half-way is after user code has run.
            execute("BEGIN IMMEDIATE")
        except SQLiteError as error:
            raise sqlite.translate(error, "begin", self._engine.path) from error
        try:
            (version,) = execute("PRAGMA data_version").fetchone()
            if version != self._seen_version:
                self._look_again(connection)
                self._seen_version = version
            if not self._has_own_epoch and not self._engine.is_memory:
                self._start_epoch(connection)
        except BaseException as error:
            self._rollback()
            if isinstance(error, SQLiteError):
                raise sqlite.translate(error, "begin", self._engine.path) from error
            raise
        now = time.time_ns() // 1_000_000
        if now < self._last_time:
            # The clock went back; times in the log never do.
            now = self._last_time
        return WriteTransaction(
            connection,
            self._engine.catalogue,
            self._memory,
            self.last_seq + 1,
            now,
            collect=collect or self._engine.publisher.is_heard,
            origin=origin,
        )

    def _look_again(self, connection: Connection) -> None:
        """Another process has written (or this is the first write): ask the file for what the writer remembers."""
        self._memory.forget()
        self.last_seq = head_seq(connection)
        row = connection.execute(
            "SELECT max(time) FROM (SELECT time FROM log ORDER BY seq DESC LIMIT 1)"
        ).fetchone()
        self._last_time = max(self._last_time, row[0] or 0)
        self._engine.epoch = schema.newest_epoch(connection)
        if int(schema.fact(connection, "catalogue")) != self._engine.catalogue.version:
            self._engine.catalogue = load(connection)

    def _start_epoch(self, connection: Connection) -> None:
        """A process that begins to write begins an epoch, so that positions of a future that was lost (a power cut under
        soft durability, a restored backup) are told apart from the positions that are written over it."""
        (position,) = connection.execute("SELECT max(position) FROM epochs").fetchone()
        epoch = os.urandom(6).hex()
        connection.execute(
            "INSERT INTO epochs (epoch, since, position) VALUES (?, ?, ?)",
            (epoch, self.last_seq, position + 1),
        )
        self._engine.epoch = epoch

    def _rollback(self) -> None:
        connection = self._connection
        self._memory.forget()
        if connection.in_transaction:
            try:
                connection.execute("ROLLBACK")
            except SQLiteError:
                logger.exception("rolling back %s failed", self._engine.path)
                self._seen_version = None

    def _commit(self, transactions: list[WriteTransaction]) -> None:
        """COMMIT, make sure of the file, and publish. Raises before anything is published."""
        connection = self._connection
        if all(transaction.is_empty for transaction in transactions):
            # Nothing to keep: a commit would wait for the disk. (An epoch that was begun is begun again next time.)
            connection.execute("ROLLBACK")
            return
        try:
            connection.execute("COMMIT")
        except SQLiteError as error:
            self._rollback()
            self._seen_version = None
            translated = sqlite.translate(error, "commit", self._engine.path)
            if getattr(error, "sqlite_errorname", "").startswith("SQLITE_IOERR"):
                translated = OutcomeUnknown(
                    f"commit: {self._engine.path}: {error}: the write may or may not be there; read to know"
                )
            raise translated from error
        last = transactions[-1]
        self.last_seq = max(self.last_seq, *(t.first + t.count - 1 for t in transactions))
        self._last_time = last.time
        self._has_own_epoch = True
        for transaction in transactions:
            if transaction.is_catalogue_changed:
                self._engine.catalogue = transaction.catalogue
        wal_bytes = 0 if self._engine.is_memory else self._check_same_file()
        self._engine.publisher.publish(transactions, self.last_seq)
        if wal_bytes > self._checkpoint_at:
            self.checkpoint()
        if self.retention is not None:
            self._retain()

    def _check_same_file(self) -> int:
        """The size of the write-ahead log. Two stat calls a commit, because SQLite goes on for ever, and acknowledges, in a
        file that has been unlinked or replaced.

        Raises:
            StorageMoved: The path is not the file any more that was opened.
        """
        try:
            status, wal = os.stat(self._engine.path), os.stat(self._engine.path + "-wal")
        except OSError as error:
            raise self._moved(f"{error.filename} is gone") from error
        if (status.st_dev, status.st_ino) != self._file_identity:
            raise self._moved(f"{self._engine.path} is another file now")
        identity = (wal.st_dev, wal.st_ino)
        if identity != self._wal_identity:
            if self._wal_identity is not None:
                raise self._moved(f"{self._engine.path}-wal is another file now")
            self._wal_identity = identity
        return wal.st_size

    def _moved(self, what: str) -> StorageMoved:
        message = (
            f"{what}: the last write is not acknowledged; close this database and see where the file went"
        )
        self._engine.refuse(lambda: StorageMoved(message))
        return StorageMoved(message)

    def checkpoint(self) -> bool:
        """Copy the write-ahead log into the file and empty it. Called in turn. Whether it succeeded.

        TRUNCATE takes the write lock and keeps it: the mode that is safe on every SQLite. A reader that does not end (another
        process's) makes it give up after a while; then the next try comes when the log has doubled.
        """
        connection = self._connection
        if self._engine.is_memory:
            return True
        try:
            connection.execute(f"PRAGMA busy_timeout={int(CHECKPOINT_TIMEOUT_S * 1000)}")
            busy, pages, done = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            reason = f"a reader kept {pages - done} of {pages} pages" if busy else ""
        except SQLiteError as error:
            reason = str(error)
        finally:
            connection.execute(f"PRAGMA busy_timeout={int(self._engine.busy_timeout_s * 1000)}")
        if not reason:
            self._checkpoint_at = CHECKPOINT_BYTES
            return True
        self._checkpoint_at *= 2
        logger.warning(
            "checkpoint of %s failed: %s; the write-ahead log grows until it succeeds",
            self._engine.path,
            reason,
        )
        return False

    def compact(self, retention: Retention, *, vacuum: bool = False) -> Compacted:
        """Remove the history that `retention` does not keep, in small transactions, and give the room back with `vacuum`."""
        self._check_writable()
        if self.current is not None:
            raise UsageError("compact() cannot be part of a transaction")
        removed = Compacted()
        with self._engine.snapshot() as snapshot:
            target = retention.target(snapshot.connection)
        more = True
        while more:
            more = self._in_turn(lambda: self._compact_step(target, removed))
        if vacuum:
            self._in_turn(self._vacuum)
        return removed

    def _in_turn(self, work: Callable[[], T]) -> T:
        self._turns.take(Ticket(None, is_hard=True), self._engine.busy_timeout_s)
        try:
            self._engine.check_usable()
            return work()
        finally:
            self._turns.release()

    def _compact_step(self, target: int, removed: Compacted) -> bool:
        transaction = self._begin(bool(self._is_synchronous), None, collect=False)
        connection = transaction.connection
        try:
            more, step = compact_step(connection, target)
            connection.execute("COMMIT")
        except BaseException as error:
            self._rollback()
            if isinstance(error, SQLiteError):
                raise sqlite.translate(error, "compact", self._engine.path) from error
            raise
        self._has_own_epoch = True
        self._memory.forget()
        removed.entries += step.entries
        removed.tables += step.tables
        if step.tables:
            self._engine.catalogue = load(connection)
        if not self._engine.is_memory and self._check_same_file() > self._checkpoint_at:
            self.checkpoint()
        return more

    def _vacuum(self) -> None:
        connection = self._connection
        try:
            connection.execute("VACUUM")
        except SQLiteError as error:
            raise sqlite.translate(error, "vacuum", self._engine.path) from error
        self.checkpoint()

    def _retain(self) -> None:
        """After a commit: remove what retention does not keep any more, a little at a time, never for one change's sake."""
        assert self.retention is not None
        if self.last_seq < self._retain_at:
            return
        self._retain_at = self.last_seq + RETAIN_EVERY
        target = self.retention.target(self._connection)
        if target > low_water(self._connection):
            self._compact_step(target, Compacted())
