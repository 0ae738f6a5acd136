"""Engine: one open file. It opens and closes, reads, and passes writes to its writer and commits to its publisher.

There is one engine for a file in a process, whoever opens it. One connection writes; readers have connections of their own
and do not wait for it. (A database in memory has no write-ahead log: there a commit waits for the reads that are going on.
Every read here is over before any other code runs, so that this never waits for long.)

Thread safety: everything public may be called from any thread.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Lock, RLock
from typing import TypeVar

from reactdb.errors import (
    CannotOpen,
    DatabaseBusy,
    DatabaseClosed,
    ForkedDatabase,
    ReactDBError,
    ReadOnlyDatabase,
    StorageMoved,
    TableNotFound,
)
from reactdb.store import forking, schema, sqlite
from reactdb.store.catalogue import Catalogue, TableInfo, load
from reactdb.store.moved import FileGuard
from reactdb.store.publisher import CommitListener, Publisher
from reactdb.store.readers import IDLE_READERS, Reader, Readers
from reactdb.store.retention import Compacted, Retention
from reactdb.store.snapshot import Snapshot, as_of, head_seq
from reactdb.store.sqlite import Connection, SQLiteError
from reactdb.store.transaction import WriteTransaction
from reactdb.store.writer import Durability, Writer

T = TypeVar("T")

logger = logging.getLogger("reactdb")

GET_LIVE = (
    "SELECT l.body FROM heads h CROSS JOIN log l ON l.seq = h.seq CROSS JOIN tables t ON t.id = h.table_id"
    " WHERE h.table_id = ? AND h.key = ? AND t.dropped IS NULL"
)


class Engine:
    """See the head of this file.

    Attributes:
        path: Absolute path, or ":memory:".
        catalogue: Tables and indexes as last seen. Replaced whole, and only by a newer one.
        database_id: For tokens: which file.
        publisher: Who hears of commits.
        readers: The connections that read.
        guard: Notices that the file was moved; None in memory.
    """

    def __init__(self, path: str, *, read_only: bool, busy_timeout_s: float) -> None:
        self.path = path
        self.read_only = read_only
        self.busy_timeout_s = busy_timeout_s
        self.is_memory = path == ":memory:"
        self._memory_name = f"reactdb-{id(self):x}-{time.monotonic_ns():x}"
        self.readers = Readers()
        self._unusable: Callable[[], ReactDBError] | None = None
        self._writer: Writer | None = None
        self.catalogue: Catalogue
        self._catalogue_lock = Lock()
        self.database_id: str
        self.publisher: Publisher
        self.guard: FileGuard | None = None
        self._open()
        forking.engines.add(self)

    # -----------------------------------------------------------------------------------------------------------
    # Opening and closing

    def _open(self) -> None:
        if not self.is_memory:
            self._check_path()
            forking.check_path(self.path)
            self._make_file()
            self._look_before_opening()
        connection = self._connect("ro" if self.read_only else "rwc")
        try:
            version = schema.identify(connection, self.path)
            if self.read_only and version == 0:
                raise CannotOpen(self.path, "it is empty, and read_only=True makes no database")
            sqlite.configure(connection, reader=self.read_only)
            if not self.read_only:
                if not self.is_memory:
                    self._use_wal(connection)
                if version < schema.FORMAT_VERSION:
                    # Only then: it takes the write lock, which another process may have for long.
                    schema.migrate(connection, self.path)
            self.catalogue = load(connection)
            self.database_id = schema.fact(connection, "database_id")
            self.publisher = Publisher(self, head_seq(connection))
            self.guard = None if self.is_memory else FileGuard(self.path)
            if self.read_only:
                self.readers.idle.append(self.readers.open(lambda: Reader(connection, self.catalogue)))
            else:
                self._writer = Writer(self, connection)
        except SQLiteError as error:
            connection.close()
            raise sqlite.translate(error, "open", self.path) from error
        except BaseException:
            connection.close()
            raise
        if sqlite.has_wal_reset_bug():
            logger.debug("SQLite %s has the WAL-reset bug; reactdb checkpoints around it", sqlite.VERSION)

    def _check_path(self) -> None:
        folder = os.path.dirname(self.path)
        if os.path.isdir(self.path) or not os.path.isdir(folder):
            raise CannotOpen(self.path, sqlite.reason_not_opened(self.path))
        is_there = os.path.exists(self.path)
        if not is_there and (self.read_only or not os.access(folder, os.W_OK)):
            raise CannotOpen(self.path, sqlite.reason_not_opened(self.path))
        wal = self.path + "-wal"
        if os.path.exists(wal) and os.path.getsize(wal) and (not is_there or not os.path.getsize(self.path)):
            raise CannotOpen(
                self.path,
                f"it is missing or empty, but its write-ahead log {wal} is not: restore the file, or remove both",
            )

    def _make_file(self) -> None:
        """A new file is its owner's alone; the two beside it get the same permissions from SQLite."""
        if self.read_only or os.path.exists(self.path):
            return
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            # Another process was quicker.
            pass
        except OSError as error:
            reason = sqlite.reason_not_opened(self.path)
            raise CannotOpen(
                self.path, os.strerror(error.errno).lower() if error.errno else reason
            ) from error

    def _look_before_opening(self) -> None:
        """Whose file it is comes first: a connection that may write would, when it is closed, empty the write-ahead log of
        another program's database into it."""
        if self.read_only:
            return
        witness = self._connect("ro")
        try:
            schema.identify(witness, self.path)
        except SQLiteError as error:
            # One that may only read cannot finish what a crash has left. The one that may write can, or says what is wrong.
            if not getattr(error, "sqlite_errorname", "").startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")):
                raise sqlite.translate(error, "open", self.path) from error
        finally:
            witness.close()

    def _connect(self, mode: str) -> Connection:
        return sqlite.connect(
            self._memory_name if self.is_memory else self.path,
            mode=mode,
            busy_timeout_s=self.busy_timeout_s,
            memory=self.is_memory,
        )

    def _use_wal(self, connection: Connection) -> None:
        """Switch to WAL and make sure: a switch that failed shows only when its row is fetched, and the connection that saw
        it fail believes in a WAL all the same. So a new connection is asked."""
        end = time.monotonic() + self.busy_timeout_s
        while True:
            try:
                (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
                break
            except SQLiteError as error:
                # Another process is switching too, and SQLite does not wait here by itself.
                is_busy = isinstance(sqlite.translate(error, "open", self.path), DatabaseBusy)
                if not is_busy or time.monotonic() >= end:
                    raise
                time.sleep(0.002)
        if mode == "wal":
            witness = self._connect("rw")
            try:
                (mode,) = witness.execute("PRAGMA journal_mode").fetchone()
            finally:
                witness.close()
        if mode != "wal":
            raise CannotOpen(
                self.path, "its file system cannot keep a write-ahead log (no shared memory or no locks)"
            )

    def close(self) -> None:
        """End the feeds and close every connection. Waits for a write that is going on; a second call does nothing."""
        if self._unusable is not None and self._writer is None and not self.readers.idle:
            return
        listener = self.publisher.listener
        if listener is not None:
            listener.close()
        if self._unusable is None:
            self._unusable = lambda: DatabaseClosed(self.path)
        writer, self._writer = self._writer, None
        self.readers.close_idle()
        if writer is not None:
            writer.close()

    @property
    def is_usable(self) -> bool:
        """Neither closed, nor moved, nor inherited through fork()."""
        return self._unusable is None

    def check_usable(self) -> None:
        """Raises: DatabaseClosed, ForkedDatabase, or StorageMoved, whichever is the matter."""
        if self._unusable is not None:
            raise self._unusable()

    def moved(self, trouble: str) -> StorageMoved:
        """The error that says so. From now on every use raises it."""
        message = (
            f"{trouble}: nothing is acknowledged any more; close this database and see where the file went"
        )
        self._unusable = lambda: StorageMoved(message)
        return StorageMoved(message)

    def translated(self, error: Exception, operation: str) -> ReactDBError:
        """SQLite's error as one of ours. Whatever it says, a file that was moved is the reason."""
        # Of a database that was closed, the log is gone as it should.
        trouble = "" if self.guard is None or self._unusable is not None else self.guard.look()[1]
        return self.moved(trouble) if trouble else sqlite.translate(error, operation, self.path)

    @property
    def writer(self) -> Writer | None:
        """Who writes; None where nobody may, or the database is closed."""
        return self._writer

    def abandon(self) -> None:
        """In a forked child: connections are the parent's. What `forking` has not closed must not be closed, ever."""
        for connection in self.readers.leave():
            sqlite.leave_open(connection)
        if self._writer is not None:
            self._writer.abandon()
        self._writer = None
        self._unusable = lambda: ForkedDatabase(
            f"{self.path} was opened before fork(); open it again in the child, with reactdb.connect"
        )
        self.publisher.abandon()

    # -----------------------------------------------------------------------------------------------------------
    # Reading

    def get(self, table: TableInfo, key: bytes) -> bytes | None:
        """The encoded document of a key, or None: the shortest way, one statement.

        Raises:
            TableNotFound: Another process dropped the table.
        """
        transaction = self.current_transaction()
        if transaction is not None:
            head = transaction.head(table, key)
            return None if head is None else head[1]
        reader = self._take_reader()
        try:
            row = reader.connection.execute(GET_LIVE, (table.id, key)).fetchone()
        except SQLiteError as error:
            raise self.translated(error, "read") from error
        finally:
            self._give_back(reader)
        if row is not None:
            return row[0]  # type: ignore[no-any-return]
        if not self.is_memory:
            with self.snapshot() as snapshot:
                known = snapshot.table(table.name)
                if known is None:
                    raise TableNotFound(table.name)
                if known.id != table.id:
                    # Another process has dropped the table and made it again.
                    return snapshot.get(known, key)
        return None

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Reads of one state: a read transaction, or inside a write transaction of this thread what it sees.

        Keep it short and run no user code inside: a long one keeps the write-ahead log from being emptied.
        """
        transaction = self.current_transaction()
        if transaction is not None:
            try:
                yield transaction.snapshot()
            except SQLiteError as error:
                raise self.translated(error, "read") from error
            return
        reader = self._take_reader()
        connection = reader.connection
        try:
            connection.execute("BEGIN")
            yield Snapshot(connection, self._catalogue_of(reader))
        except SQLiteError as error:
            raise self.translated(error, "read") from error
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._give_back(reader)

    @contextmanager
    def fresh_snapshot(self) -> Iterator[Snapshot]:
        """What is committed, also inside a write transaction of this thread."""
        writer, transaction = self._writer, self.current_transaction()
        if writer is None or transaction is None:
            with self.snapshot() as snapshot:
                yield snapshot
        elif self.is_memory:
            # There nobody else can read while somebody writes; but what is not committed yet can be taken back in thought.
            with self.snapshot() as snapshot:
                # Tables and indexes as committed: a table that the transaction makes may never be.
                yield as_of(Snapshot(snapshot.connection, self.catalogue), transaction.first - 1)
        else:
            with writer.set_aside(), self.snapshot() as snapshot:
                yield snapshot

    @contextmanager
    def past(self, seq: int) -> Iterator[Snapshot]:
        """The documents as of `seq`.

        Raises:
            HistoryLost: The changes since then were compacted away.
        """
        with self.snapshot() as now:
            yield as_of(now, seq)

    def _take_reader(self) -> Reader:
        if self._unusable is not None:
            raise self._unusable()
        try:
            return self.readers.idle.pop()
        except IndexError:
            return self.readers.open(self._new_reader)

    def _new_reader(self) -> Reader:
        connection = self._connect("ro" if self.read_only else "rw")
        try:
            sqlite.configure(connection, reader=True)
            # Closed in between: in memory, this connection would be the first one to a new and empty database.
            self.check_usable()
            trouble = "" if self.guard is None else self.guard.look()[1]
            if trouble:
                # It would read another file.
                raise self.moved(trouble)
        except SQLiteError as error:
            connection.close()
            raise self.translated(error, "read") from error
        except BaseException:
            connection.close()
            raise
        return Reader(connection, self.catalogue)

    def _give_back(self, reader: Reader) -> None:
        readers = self.readers
        if self._unusable is None and len(readers.idle) < IDLE_READERS:
            readers.idle.append(reader)
            if self._unusable is not None:
                # Closed in between, and perhaps after the others were.
                readers.close_idle()
        else:
            readers.close(reader)

    def _catalogue_of(self, reader: Reader) -> Catalogue:
        """The catalogue that belongs to what the reader sees. Inside its transaction.

        Asking whether anybody else has written costs 0.8 µs, the catalogue's version another 2.
        """
        connection = reader.connection
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version != reader.version or reader.catalogue is not self.catalogue:
            reader.version = version
            known = self.catalogue
            if int(schema.fact(connection, "catalogue")) == known.version:
                reader.catalogue = known
            else:
                reader.catalogue = load(connection)
                self.adopt(reader.catalogue)
        return reader.catalogue

    def adopt(self, catalogue: Catalogue) -> None:
        """Somebody has read this one from the file. It counts if it is the newest."""
        with self._catalogue_lock:
            if catalogue.version > self.catalogue.version:
                self.catalogue = catalogue

    # -----------------------------------------------------------------------------------------------------------
    # Writing

    def current_transaction(self) -> WriteTransaction | None:
        """The transaction that this thread is inside of, or None."""
        return None if self._writer is None else self._writer.current

    def write(
        self,
        work: Callable[[WriteTransaction], T],
        *,
        durability: Durability,
        busy_timeout_s: float | None = None,
        origin: str | None = None,
        is_shareable: bool = False,
    ) -> T:
        """One write, as a part of this thread's transaction or as a commit of its own. See `Writer.write`."""
        return self._writable().write(
            work,
            durability=durability,
            busy_timeout_s=busy_timeout_s,
            origin=origin,
            is_shareable=is_shareable,
        )

    def transaction(
        self, *, durability: Durability, busy_timeout_s: float | None = None, origin: str | None = None
    ) -> AbstractContextManager[WriteTransaction]:
        """Several writes as one commit. See `Writer.transaction`."""
        return self._writable().transaction(
            durability=durability, busy_timeout_s=busy_timeout_s, origin=origin
        )

    def compact(
        self, retention: Retention, *, vacuum: bool = False, busy_timeout_s: float | None = None
    ) -> Compacted:
        """Remove the history that `retention` does not keep. See `Upkeep.compact`."""
        return self._writable().upkeep.compact(retention, vacuum=vacuum, busy_timeout_s=busy_timeout_s)

    @property
    def retention(self) -> Retention | None:
        """What history is kept without being asked; None: all."""
        return None if self._writer is None else self._writer.upkeep.retention

    @retention.setter
    def retention(self, retention: Retention | None) -> None:
        self._writable().upkeep.retention = retention

    def _writable(self) -> Writer:
        self.check_usable()
        if self._writer is None:
            raise ReadOnlyDatabase(f"{self.path} was opened with read_only=True")
        return self._writer

    # -----------------------------------------------------------------------------------------------------------
    # Telling: a listener's way to the publisher

    @property
    def publish_lock(self) -> RLock:
        return self.publisher.lock

    @property
    def published(self) -> int:
        """Seq up to which the listener has been told."""
        return self.publisher.published

    @property
    def listener(self) -> CommitListener | None:
        return self.publisher.listener

    @listener.setter
    def listener(self, listener: CommitListener | None) -> None:
        self.publisher.listener = listener

    def begin_listening(self, seq: int) -> None:
        self.publisher.begin_listening(seq)

    def catch_up(self) -> bool:
        """Tell the listener what other processes have committed. Whether there was anything."""
        return self._unusable is None and self.publisher.catch_up()
