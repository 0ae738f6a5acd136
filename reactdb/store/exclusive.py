"""Exclusive: one process alone has the file, with one connection for all of its threads. `connect(exclusive=True)` chooses it.

SQLite then keeps its lock on the file from the first read until it is closed, and the index of the write-ahead log in its own
memory (https://sqlite.org/wal.html, "Use of WAL Without Shared-Memory"): a commit needs no locks, and no other connection, not
even one of this process, can read. So reads take turns with writes, first come first served, on the connection that writes.

A read may happen anywhere in this thread: inside a write of its own, while that is published, inside another read. It goes on
with the turn that the thread has. Nobody may wait for a turn while others in turn wait for what it holds: so `reserve` comes
before the publish lock.

Thread safety: as Engine's.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident

from reactdb.errors import DatabaseBusy, DatabaseClosed, TableNotFound
from reactdb.store.engine import Engine
from reactdb.store.file import guards, sqlite
from reactdb.store.file.opening import Witness, look, not_opened
from reactdb.store.file.sqlite import Connection, SQLiteError
from reactdb.store.file.wal_mode import use_wal
from reactdb.store.publisher import Lender
from reactdb.store.readers import Reader
from reactdb.store.snapshot import GET_LIVE, Snapshot, read_document
from reactdb.store.write_queue import Ticket, Turns
from reactdb.store.writer import Writer

# Milliseconds between two tries to have the file alone, at the most: some number, or two that try would keep each other out.
RETRY_MS = 20


class ExclusiveTurns(Turns):
    """Turns that know whose they are."""

    @property
    def is_mine(self) -> bool:
        """Whether it is this thread's turn."""
        try:
            first = self._queue[0]
        except IndexError:
            return False
        # A ticket that is not held is one that Ctrl-C has left behind.
        return first.owner == get_ident() and first.held.locked()

    def _wait(self, ticket: Ticket, timeout_s: float) -> bool:
        if self.is_mine and self._queue[0] is not ticket:
            raise DatabaseBusy(
                f"{ticket.operation}: this thread is inside of a read of a database that was opened with exclusive=True, where "
                "one thing is done at a time; nothing was written"
            )
        return super()._wait(ticket, timeout_s)


class ExclusiveWriter(Writer):
    """A writer whose connection is lent to those who read."""

    def end_turn(self, ticket: Ticket) -> None:
        """Of a read, as of a write: where the database was closed meanwhile, so is the connection."""
        self._end_turn(ticket)


class ExclusiveEngine(Engine):
    """See the head of this file."""

    is_exclusive = True
    turns_class = ExclusiveTurns
    turns: ExclusiveTurns

    def _first_connection(self) -> tuple[Connection, Witness | None]:
        """Looked at with an ordinary connection; the one that has the lock must not be, or its lock would become another."""
        connection, witness = super()._first_connection()
        try:
            if witness is not None:
                witness.connection.close()
            else:
                look(connection, self.path)
                use_wal(connection, lambda: self.connect("rw"), self.path, self.busy_timeout_s)
        except sqlite.READ_ERRORS as error:
            raise not_opened(error, self.path) from error
        finally:
            connection.close()
        connection = self.connect("rw")
        try:
            self._have_alone(connection)
        except BaseException:
            connection.close()
            raise
        return connection, None

    def _writer_of(self, connection: Connection) -> Writer:
        # Kept here, too: when the engine is closed, it is forgotten there, and a read may be going on.
        self._lender = ExclusiveWriter(self, connection)
        return self._lender

    def _have_alone(self, connection: Connection) -> None:
        """Take the lock, and keep it until the connection is closed. Before anything was read, or there is shared memory.

        Raises:
            DatabaseBusy: Others have the file open, for all of `busy_timeout`.
        """
        connection.execute("PRAGMA busy_timeout=0")
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        end = time.monotonic() + self.busy_timeout_s
        while True:
            try:
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
                break
            except SQLiteError as error:
                if not sqlite.is_busy(error):
                    raise sqlite.translate(error, "open", self.path) from error
                if time.monotonic() >= end:
                    process = guards.who_locks(self.path, is_any=True)
                    where = f"in process {process}" if process else "elsewhere"
                    raise DatabaseBusy(
                        f"open: {self.path} is open {where} too, and exclusive=True needs it alone: close it there, or connect "
                        "without exclusive=True"
                    ) from error
            time.sleep((1 + time.monotonic_ns() // 1000 % RETRY_MS) / 1000)
        connection.execute(f"PRAGMA busy_timeout={int(self.busy_timeout_s * 1000)}")

    # -----------------------------------------------------------------------------------------------------------
    # Reading, in turn

    def get(self, name: str, key: bytes) -> bytes | None:
        if self.turns.is_mine:
            return self._get(name, key)
        ticket = Ticket(None, "read")
        with ticket.held:
            try:
                self._wait(ticket)
                return self._get(name, key)
            finally:
                self._lender.end_turn(ticket)

    def _get(self, name: str, key: bytes) -> bytes | None:
        if self.current_transaction() is not None:
            return super().get(name, key)
        # Nobody else can change it.
        table = self.catalogue.live.get(name)
        if table is None:
            raise TableNotFound(name)
        connection = self._connection()
        try:
            found = read_document(connection, table, key, GET_LIVE)
        except SQLiteError as error:
            raise self.translated(error, "read") from error
        return None if found is None else found[1]

    @contextmanager
    def snapshot(self, own: Reader | None = None) -> Iterator[Snapshot]:
        transaction = self.current_transaction()
        if transaction is not None:
            try:
                yield transaction.snapshot()
            except SQLiteError as error:
                raise self.translated(error, "read") from error
            return
        with self._in_turn():
            connection = self._connection()
            # Inside another read of this thread, it is the same moment.
            is_outermost = not connection.in_transaction
            try:
                if is_outermost:
                    connection.execute("BEGIN")
                yield Snapshot(connection, self.catalogue)
            except SQLiteError as error:
                raise self.translated(error, "read") from error
            finally:
                if is_outermost and connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def reserve(self) -> Iterator[None]:
        if self.turns.is_mine:
            yield
            return
        ticket = Ticket(None, "read")
        with ticket.held:
            try:
                try:
                    self.turns.take(ticket, self.busy_timeout_s)
                except DatabaseBusy:
                    # Whoever reads inside is told so; closing goes on.
                    pass
                yield
            finally:
                self._lender.end_turn(ticket)

    @contextmanager
    def _in_turn(self) -> Iterator[None]:
        if self.turns.is_mine:
            yield
            return
        ticket = Ticket(None, "read")
        with ticket.held:
            try:
                self._wait(ticket)
                yield
            finally:
                self._lender.end_turn(ticket)

    def _wait(self, ticket: Ticket) -> None:
        self.check_usable()
        try:
            self.turns.take(ticket, self.busy_timeout_s)
        except DatabaseBusy:
            raise DatabaseBusy(
                f"read: another thread used the connection for {self.busy_timeout_s:g} s; a database that was opened with "
                "exclusive=True has one for all, and reads wait for the transaction that is going on"
            ) from None
        self.check_usable()

    def _connection(self) -> Connection:
        if self._writer is None:
            self.check_usable()
            raise DatabaseClosed(self.path)
        return self._lender.connection

    def catch_up(self, lender: Lender | None = None) -> bool:
        """There is nobody else to tell of."""
        return False
