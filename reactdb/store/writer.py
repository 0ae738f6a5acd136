"""Writer: the one connection of an engine that writes, in turns.

A write: turn -> BEGIN IMMEDIATE -> statements -> COMMIT -> is the file still the file? -> the commit is published, still in
turn, so that listeners hear commits in log order -> turn released -> the listener drains. No user code runs in the turn but
what a caller passes into its own write (`update(callable)`) and predicates of feeds.

Ctrl-C may strike in any line. What it leaves undone is found by the next one in turn: a transaction that is still open is
rolled back, and what the writer remembers is asked from the file again (`_seen_version` is None from before COMMIT until
everything is noted down).

Thread safety: the public methods from any thread; the others only by the thread whose turn it is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import TYPE_CHECKING, Literal, TypeVar

from reactdb.errors import (
    CorruptDatabase,
    DatabaseBusy,
    MovedAtCommit,
    OutcomeUnknown,
    ReactDBError,
    StorageMoved,
    UsageError,
)
from reactdb.logs import logger
from reactdb.store import schema
from reactdb.store.catalogue import Catalogue
from reactdb.store.distrust import Distrust
from reactdb.store.epochs import Epoch, start_epoch
from reactdb.store.file import guards, sqlite
from reactdb.store.file.flush import Flushes
from reactdb.store.file.sqlite import Connection, SQLiteError
from reactdb.store.relearn import relearn
from reactdb.store.savepoints import Part, flush
from reactdb.store.snapshot import head_seq
from reactdb.store.transaction import WriterMemory, WriteTransaction
from reactdb.store.upkeep import Upkeep
from reactdb.store.waiting import Waiting
from reactdb.store.write_queue import Ticket, carry_out

if TYPE_CHECKING:
    from reactdb.store.engine import Engine

Durability = Literal["hard", "soft"]
T = TypeVar("T")


class Writer:
    """See the head of this file.

    Attributes:
        connection: The one that writes.
        inside: Who is inside of a transaction: the thread, its transaction, and the lock of its ticket. None: nobody.
        last_seq: The newest seq that this connection knows of.
        last_time: Of the newest change, in milliseconds.
        memory: What transactions remember of those before.
        catalogue: Tables and indexes as this connection knows them: never older, nor newer, than what it writes to.
        has_own_epoch: This process has begun an epoch.
        epoch: That one; None before the first commit, and in memory.
        is_abandoned: It is the parent's, and this is a child of fork().
        guard: Notices that the file was moved; None in memory.
        log_named: The write-ahead log that is known to have the database's id in it, by its salts (see `stray`); None: none is.
        flushes: What of the write-ahead log is on the disk.
        upkeep: Checkpoints, compaction, retention.
    """

    def __init__(self, engine: Engine, connection: Connection) -> None:
        self._engine = engine
        self.connection = connection
        self.path = engine.path
        self.busy_timeout_s = engine.busy_timeout_s
        self._turns = engine.turns
        self.memory = WriterMemory()
        self.inside: tuple[int, WriteTransaction, threading.Lock] | None = None
        # `PRAGMA data_version` when this connection last looked; None makes it look again.
        self._seen_version: int | None = None
        self._is_synchronous: bool | None = None
        self.waiting = Waiting(connection, is_in_pieces=not engine.is_memory, set_s=engine.busy_timeout_s)
        self.is_abandoned = False
        self._is_closing = False
        self.last_time = 0
        self.distrust = Distrust(connection, engine.publisher.note)
        self.has_own_epoch = False
        self.epoch: Epoch | None = None
        self._epoch_place = 0
        self.last_seq = head_seq(connection)
        self.catalogue = engine.catalogue
        self.guard = engine.guard
        self.log_named: bytes | None = None
        # The one that has it when the transaction that is going on is committed.
        self._naming: bytes | None = None
        self.flushes = Flushes(engine.path, self.guard)
        self.upkeep = Upkeep(self)

    def close(self) -> None:
        """Wait for the write that is going on, and close the connection. A write that takes longer than `busy_timeout`
        closes it itself, when it is done."""
        if self.guard is not None and self.guard.has_lost_its_log:
            self.close_unused()
            return
        if self.current is not None:
            # By the thread that is inside of a transaction: it is taken back, and told so at its end.
            self.connection.close()
            return
        self._is_closing = True
        ticket = Ticket(None)
        with ticket.held:
            try:
                self._turns.take(ticket, self.busy_timeout_s)
                self._close_in_turn()
            except DatabaseBusy:
                logger.debug("%s is closed by the write that is going on", self.path)
            finally:
                self._turns.release(ticket)

    def _close_in_turn(self) -> None:
        if self.guard is not None:
            self.guard.close()
        self.flushes.close(self.connection)

    def close_unused(self) -> None:
        """Close the connection, which nobody uses: unless its log was taken away, which it would write into the file."""
        if self.guard is not None and self.guard.has_lost_its_log:
            self._leave_open()
            return
        if self.guard is not None:
            self.guard.close()
        self.connection.close()

    def _leave_open(self) -> None:
        sqlite.leave_open(self.connection)
        guards.note_lost_log(self.path)

    def abandon(self) -> None:
        """In a forked child: the connection is the parent's, also in the middle of a transaction."""
        self.is_abandoned = True
        sqlite.leave_open(self.connection)

    def stop(self, timeout_s: float) -> Ticket | None:
        """Let nobody write, for a fork, until `go_on`; None where somebody is still at it, this thread for instance."""
        return None if self.current is not None else self._turns.stop(timeout_s)

    def go_on(self, ticket: Ticket) -> None:
        self._turns.go_on(ticket)

    @property
    def current(self) -> WriteTransaction | None:
        """The transaction that this thread is inside of, or None."""
        inside = self.inside
        if inside is None or inside[0] != get_ident():
            return None
        # A transaction whose turn is over was left behind by Ctrl-C.
        return inside[1] if inside[2].locked() else None

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Inside: as if this thread were in no transaction."""
        inside, self.inside = self.inside, None
        try:
            yield
        finally:
            self.inside = inside

    # -----------------------------------------------------------------------------------------------------------
    # Writes and transactions

    def write(
        self,
        work: Callable[[WriteTransaction], T],
        *,
        durability: Durability,
        busy_timeout_s: float | None = None,
        origin: str | None = None,
        is_shareable: bool = False,
        collect: bool = False,
        operation: str = "write",
    ) -> T:
        """Carry out one write: in this thread's transaction, or as a commit of its own.

        Args:
            work: Called with the transaction; again, where a commit that it had joined was interrupted.
            busy_timeout_s: Of waiting for other threads and processes together; None: the engine's.
            is_shareable: `work` runs no code of the user's, so that another thread may carry it out in its own commit.
            collect: The changes are wanted in `WriteTransaction.changes`, also where no feed listens.
            operation: What the user calls it: errors begin with it.

        Raises:
            Whatever `work` raises, after everything that it did is taken back.
            DatabaseBusy, DiskFull, StorageError: From the file; nothing was written.
            OutcomeUnknown: An error in COMMIT itself.
        """
        if self.inside is not None:
            outer = self.current
            if outer is not None:
                with Part(outer, self, operation):
                    return work(outer)
        self.check_writable()
        if busy_timeout_s is None:
            busy_timeout_s = self.busy_timeout_s
        ticket = Ticket(work if is_shareable else None, operation)
        with ticket.held:
            try:
                if self._turns.take(ticket, busy_timeout_s):
                    left_s = busy_timeout_s - ticket.waited_s
                    result = self._write_in_turn(work, ticket, left_s, durability == "hard", origin, collect)
                elif ticket.error is not None:
                    raise ticket.error
                else:
                    result = ticket.result
            except CorruptDatabase as error:
                self.distrust.note(error)
                raise
            finally:
                self._end_turn(ticket)
        self._engine.publisher.drain(is_outside=True)
        return result

    @contextmanager
    def transaction(
        self, *, durability: Durability, busy_timeout_s: float | None = None, origin: str | None = None
    ) -> Iterator[WriteTransaction]:
        """Several writes as one commit; an exception takes all of them back. Inside another one: a part of it."""
        outer = self.current
        if outer is not None:
            with Part(outer, self, "transaction"):
                yield outer
            return
        self.check_writable()
        if busy_timeout_s is None:
            busy_timeout_s = self.busy_timeout_s
        ticket = Ticket(None, "transaction")
        with ticket.held:
            try:
                self._turns.take(ticket, busy_timeout_s)
                try:
                    left_s = busy_timeout_s - ticket.waited_s
                    transaction = self._begin(left_s, durability == "hard", origin, False, ticket.operation)
                    self.inside = (get_ident(), transaction, ticket.held)
                    yield transaction
                    self.inside = None
                    flush(transaction, self, ticket.operation)
                    self._commit([transaction], ticket.operation)
                except BaseException:
                    self.inside = None
                    self.roll_back()
                    raise
            except CorruptDatabase as error:
                self.distrust.note(error)
                raise
            finally:
                self._end_turn(ticket)
        self._engine.publisher.drain(is_outside=True)

    def in_turn(self, work: Callable[[], T], busy_timeout_s: float | None = None) -> T:
        """Do something with the connection that is not a write of a user's."""
        ticket = Ticket(None)
        with ticket.held:
            try:
                self._turns.take(ticket, self.busy_timeout_s if busy_timeout_s is None else busy_timeout_s)
                self._engine.check_usable()
                return work()
            except CorruptDatabase as error:
                self.distrust.note(error)
                raise
            finally:
                self._end_turn(ticket)

    def _end_turn(self, ticket: Ticket) -> None:
        inside = self.inside
        if inside is not None and inside[2] is ticket.held:
            self.inside = None
        if self._is_closing and not self.is_abandoned and self._turns.is_first(ticket):
            # Whoever closed the database has not waited for this turn.
            self._close_in_turn()
        self._turns.release(ticket)

    def check_writable(self) -> None:
        """Raises: DatabaseClosed and its like; UsageError within a feed's predicate."""
        engine = self._engine
        if engine.unusable is not None:
            raise engine.unusable()
        if engine.publisher.is_routing:
            raise UsageError(
                "a predicate or mapping of a feed must not write: it runs inside somebody's commit"
            )

    def note_failure(self, error: BaseException, operation: str) -> BaseException:
        """Something failed inside a transaction. SQLite's error as one of ours; others as they are."""
        if isinstance(error, SQLiteError):
            translated = self._engine.translated(error, operation)
            # What it is worth depends on who says so.
            translated.__cause__ = error
            error = translated
        self.distrust.note(error)
        return error

    def _write_in_turn(
        self,
        work: Callable[[WriteTransaction], T],
        ticket: Ticket,
        left_s: float,
        is_hard: bool,
        origin: str | None,
        collect: bool,
    ) -> T:
        companions: list[Ticket] = []
        try:
            transaction = self._begin(left_s, is_hard, origin, collect, ticket.operation)
            self.inside = (get_ident(), transaction, ticket.held)
            result = work(transaction)
            self.inside = None
            transaction.flush()
            transactions = [transaction]
            # Sharing pays where a commit waits for the disk; elsewhere a commit costs less than the savepoints.
            if ticket.work is not None and is_hard and self._turns.waiting > 1:
                companions = self._turns.companions()
                transactions += carry_out(companions, transaction, self)
        except BaseException as error:
            self.inside = None
            self._turns.give_back(companions)
            self.roll_back()
            if isinstance(error, SQLiteError):
                translated = self._engine.translated(error, ticket.operation)
                self.upkeep.after_failure(translated)
                raise translated from error
            raise
        try:
            self._commit(transactions, ticket.operation)
            for other in companions:
                other.is_done = True
        except BaseException as error:
            if isinstance(error, ReactDBError):
                for other in companions:
                    other.error = other.error or error
            elif not self._is_committed(transaction):
                # Ctrl-C before COMMIT was done. Later, it is for this thread alone.
                self._turns.give_back(companions)
                self.roll_back()
                raise
            for other in companions:
                other.is_done = True
            raise
        return result

    def _is_committed(self, transaction: WriteTransaction) -> bool:
        """Whether COMMIT was done, also where Ctrl-C struck before that could be noted. Once it is noted, a transaction that the
        connection is in is another one: a checkpoint's, for example."""
        return transaction.is_committed or (transaction.is_committing and not self.connection.in_transaction)

    # -----------------------------------------------------------------------------------------------------------
    # Begin and commit

    def _begin(
        self, left_s: float, is_hard: bool, origin: str | None, collect: bool, operation: str
    ) -> WriteTransaction:
        engine = self._engine
        if engine.unusable is not None:
            raise engine.unusable()
        if self.distrust.damage is not None:
            self.distrust.check(operation)
        connection = self.connection
        execute = connection.execute
        try:
            if connection.in_transaction:
                # Ctrl-C struck while the last one was being ended.
                self.roll_back()
            if self.upkeep.checkpoints.is_over:
                self.upkeep.checkpoints.check_limit(operation)
            if is_hard is not self._is_synchronous:
                self._is_synchronous = None
                execute(f"PRAGMA synchronous={'FULL' if is_hard else 'NORMAL'}")
                self._is_synchronous = is_hard
            # IMMEDIATE: a deferred transaction that reads before it writes can be refused half-way when another process has
            # written in between, and half-way is after user code has run.
            self.waiting.begin_immediate(left_s)
            (version,) = execute("PRAGMA data_version").fetchone()
            if version != self._seen_version:
                if self._seen_version is not None:
                    guards.wal_reset.another_wrote(self.path)
                relearn(self, operation)
                self._seen_version = version
            if self.guard is not None:
                log, trouble = self.guard.look_before()
                if trouble:
                    raise self.moved(trouble)
                if log is None or log != self.log_named:
                    schema.name_log(connection)
                self._naming = log
            if not self.has_own_epoch and not engine.is_memory:
                self.epoch, self._epoch_place = start_epoch(connection, self.last_seq)
        except BaseException as error:
            self.roll_back()
            if isinstance(error, SQLiteError):
                raise engine.translated(error, operation) from error
            raise
        now = time.time_ns() // 1_000_000
        if now < self.last_time:
            # The clock went back; times in the log never do.
            now = self.last_time
        return WriteTransaction(
            connection,
            self.catalogue,
            self.memory,
            self.last_seq + 1,
            now,
            [] if collect or engine.publisher.is_heard else None,
            origin,
        )

    def begin_upkeep(self, operation: str, waits_s: float) -> None:
        """BEGIN for a transaction that writes no documents. What the writer remembers is asked for anew afterwards."""
        self._begin(waits_s, bool(self._is_synchronous), None, False, operation)
        self._seen_version = None

    def doubt(self, error: BaseException) -> None:
        """Something failed. Was it a flush, the next transaction begins with making sure of the log."""
        if self.flushes.notice(error):
            self._seen_version = None

    def adopt(self, catalogue: Catalogue) -> None:
        """What the file's catalogue is now, as this connection sees it."""
        self.catalogue = catalogue
        self._engine.adopt(catalogue)

    def roll_back(self) -> None:
        """End the transaction that is open, if there is one, and leave nothing of it."""
        connection = self.connection
        if self.is_abandoned:
            # A rollback by the child would take back what the parent is doing.
            return
        self.memory.forget()
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except SQLiteError:
            # The connection was closed inside; or the next one in turn tries again.
            logger.debug("rolling back %s failed", self.path, exc_info=True)
            self._seen_version = None

    def _commit(self, transactions: Sequence[WriteTransaction], operation: str) -> None:
        """COMMIT, make sure of the file, and publish. What it raises, it raises before anything is published."""
        if self.is_abandoned:
            # fork() inside a transaction: it is the parent's to commit.
            self._engine.check_usable()
        connection = self.connection
        for transaction in transactions:
            if transaction.count or transaction.is_catalogue_changed:
                break
        else:
            # Nothing to keep: a commit would wait for the disk. (An epoch that was begun is begun again next time.)
            if not self._is_synchronous or self.flushes.is_complete or self.guard is None:
                self.roll_back()
                return
            # But "unchanged" is an answer, too: what it rests on, soft commits perhaps, must survive as if written now.
            try:
                schema.touch(connection)
            except SQLiteError as error:
                self.roll_back()  # Not left to the next in turn: until then nobody else could write.
                raise self._engine.translated(error, operation) from error
        with self._engine.publisher.committing:
            wal_bytes = self._commit_and_publish(connection, transactions, operation)
        self.upkeep.after_commit(wal_bytes)

    def _commit_and_publish(
        self, connection: Connection, transactions: Sequence[WriteTransaction], operation: str
    ) -> int:
        """Returns: The size of the write-ahead log."""
        version, self._seen_version = self._seen_version, None
        first = transactions[0]
        first.is_committing = True
        try:
            connection.execute("COMMIT")
            first.is_committed = True
        except SQLiteError as error:
            first.is_committing = False
            self.roll_back()
            translated = self._engine.translated(error, f"{operation}, at commit")
            if self.flushes.notice(error):
                # Should a power cut bring it back after all, its seqs must not be taken for those that are given out next.
                self.has_own_epoch = False
                kind = MovedAtCommit if isinstance(translated, StorageMoved) else OutcomeUnknown
                translated = kind(
                    f"{operation}, at commit: {self.path}: {error}: the write may or may not be there; read to know"
                )
            self.upkeep.after_failure(translated)
            raise translated from error
        last = transactions[-1]
        self.last_seq = last.first + last.count - 1
        self.last_time = first.time
        self.note_commit()
        self.flushes.is_complete = self._is_synchronous is True
        for transaction in transactions:
            if transaction.is_catalogue_changed:
                self.adopt(transaction.catalogue)
        wal_bytes = 0 if self.guard is None else self.check_same_file()
        self._seen_version = version
        try:
            self._engine.publisher.publish(transactions, self.last_seq)
        except Exception:
            # It is written, and may not look as if it were not; it is told with the next commit, from the log.
            logger.exception("telling of commit %d of %s failed", self.last_seq, self.path)
        return wal_bytes

    def note_commit(self) -> None:
        """What the transaction began with is in the file now: this process's epoch, and the id in the log."""
        if not self.has_own_epoch:
            self.has_own_epoch = True
            if self.epoch is not None:
                self._engine.epochs.begun(self.epoch, self._epoch_place)
        self.log_named = self._naming

    def moved(self, trouble: str) -> ReactDBError:
        """The error that says so. From now on every use of the database raises it."""
        return self._engine.moved(trouble)

    def translated(self, error: Exception, operation: str) -> ReactDBError:
        """SQLite's error as one of ours."""
        return self._engine.translated(error, operation)

    def another_connection(self) -> Connection:
        """To the same file; the caller closes it."""
        return self._engine.connect("rw")

    def oldest_read_s(self) -> float:
        """Seconds since the oldest read of this process began that is still going on."""
        return self._engine.oldest_read_s()

    def check_log(self) -> None:
        """Called with the write lock. Raises: StorageMoved: A part of the log is missing."""
        trouble = "" if self.guard is None else self.guard.look_before()[1]
        if trouble:
            raise self.moved(trouble)

    def check_same_file(self) -> int:
        """The size of the write-ahead log; 0 in memory. Called after a COMMIT.

        Raises:
            MovedAtCommit: The path is not the file any more that was opened. Nothing is written after that.
        """
        if self.guard is None:
            return 0
        wal_bytes, trouble = self.guard.look()
        if trouble:
            raise MovedAtCommit(f"{self.moved(trouble)}; the write that has noticed it may be there, or not")
        return wal_bytes
