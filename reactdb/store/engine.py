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
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import RLock
from typing import TypeVar

from reactdb.errors import (
    CannotOpen,
    DatabaseClosed,
    ForkedDatabase,
    ReactDBError,
    ReadOnlyDatabase,
    TableNotFound,
)
from reactdb.store import schema, sqlite
from reactdb.store.catalogue import Catalogue, TableInfo, load
from reactdb.store.publisher import CommitListener, Publisher
from reactdb.store.retention import Compacted, Retention
from reactdb.store.snapshot import Snapshot, as_of, head_seq
from reactdb.store.sqlite import Connection, SQLiteError
from reactdb.store.transaction import WriteTransaction
from reactdb.store.writer import Durability, Writer

T = TypeVar("T")

logger = logging.getLogger("reactdb")

# Reader connections that are kept open. More are made when more threads read at once, and closed again.
IDLE_READERS = 8

GET_LIVE = (
    "SELECT l.body FROM heads h CROSS JOIN log l ON l.seq = h.seq CROSS JOIN tables t ON t.id = h.table_id"
    " WHERE h.table_id = ? AND h.key = ? AND t.dropped IS NULL"
)


class Reader:
    """A connection that only reads, with the catalogue that it last saw."""

    __slots__ = ("catalogue", "connection", "version")

    def __init__(self, connection: Connection, catalogue: Catalogue) -> None:
        self.connection = connection
        self.catalogue = catalogue
        # `PRAGMA data_version` when the catalogue was last compared with the file's.
        self.version: int | None = None


class Engine:
    """See the head of this file.

    Attributes:
        path: Absolute path, or ":memory:".
        catalogue: Tables and indexes as last seen. Replaced whole.
        database_id, epoch: For tokens: which file, and which stretch of its history.
        publisher: Who hears of commits.
    """

    def __init__(self, path: str, *, read_only: bool, busy_timeout_s: float) -> None:
        self.path = path
        self.read_only = read_only
        self.busy_timeout_s = busy_timeout_s
        self.is_memory = path == ":memory:"
        self._memory_name = f"reactdb-{id(self):x}-{time.monotonic_ns():x}"
        self._readers: deque[Reader] = deque()
        self._unusable: Callable[[], ReactDBError] | None = None
        self._writer: Writer | None = None
        self.catalogue: Catalogue
        self.database_id: str
        self.epoch: str
        self.publisher: Publisher
        self._open()
        engines.add(self)

    # -----------------------------------------------------------------------------------------------------------
    # Opening and closing

    def _open(self) -> None:
        if not self.is_memory:
            self._check_path()
        connection = self._connect("ro" if self.read_only else "rwc")
        try:
            # Whose file it is comes first: nothing is written to a foreign one.
            version = schema.identify(connection, self.path)
            if self.read_only and version == 0:
                raise CannotOpen(self.path, "it is empty, and read_only=True makes no database")
            sqlite.configure(connection, reader=self.read_only)
            if not self.read_only:
                if not self.is_memory:
                    self._use_wal(connection)
                schema.migrate(connection, self.path)
            self.catalogue = load(connection)
            self.database_id = schema.fact(connection, "database_id")
            self.epoch = schema.newest_epoch(connection)
            self.publisher = Publisher(self, head_seq(connection))
            if self.read_only:
                self._readers.append(Reader(connection, self.catalogue))
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
        (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
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
        if self._unusable is not None and self._writer is None and not self._readers:
            return
        listener = self.publisher.listener
        if listener is not None:
            listener.close()
        if self._unusable is None:
            self._unusable = lambda: DatabaseClosed(self.path)
        writer, self._writer = self._writer, None
        while self._readers:
            self._readers.pop().connection.close()
        if writer is not None:
            writer.close()

    def check_usable(self) -> None:
        """Raises: DatabaseClosed, ForkedDatabase, or StorageMoved, whichever is the matter."""
        if self._unusable is not None:
            raise self._unusable()

    def refuse(self, why: Callable[[], ReactDBError]) -> None:
        """From now on every use raises what `why` gives."""
        self._unusable = why

    def abandon(self) -> None:
        """In a forked child: the parent's connections must not be used, nor closed, which would drop the parent's locks."""
        inherited.append((self._writer, list(self._readers)))
        self._readers = deque()
        self._writer = None
        self._unusable = lambda: ForkedDatabase(
            f"{self.path} was opened before fork(); open it again in the child, with reactdb.connect"
        )

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
            raise sqlite.translate(error, "read", self.path) from error
        finally:
            self._give_back(reader)
        if row is not None:
            return row[0]  # type: ignore[no-any-return]
        if not self.is_memory:
            with self.snapshot() as snapshot:
                known = snapshot.catalogue.by_id.get(table.id)
                if known is None or known.dropped is not None:
                    raise TableNotFound(table.name)
        return None

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Reads of one state: a read transaction, or inside a write transaction of this thread what it sees.

        Keep it short and run no user code inside: a long one keeps the write-ahead log from being emptied.
        """
        transaction = self.current_transaction()
        if transaction is not None:
            yield transaction.snapshot()
            return
        reader = self._take_reader()
        connection = reader.connection
        try:
            connection.execute("BEGIN")
            yield Snapshot(connection, self._catalogue_of(reader))
        except SQLiteError as error:
            raise sqlite.translate(error, "read", self.path) from error
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._give_back(reader)

    @contextmanager
    def fresh_snapshot(self) -> Iterator[Snapshot]:
        """What is committed, also inside a write transaction of this thread."""
        if self._writer is None:
            with self.snapshot() as snapshot:
                yield snapshot
        else:
            with self._writer.set_aside(), self.snapshot() as snapshot:
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
            return self._readers.pop()
        except IndexError:
            connection = self._connect("ro" if self.read_only else "rw")
            sqlite.configure(connection, reader=True)
            return Reader(connection, self.catalogue)

    def _give_back(self, reader: Reader) -> None:
        if self._unusable is None and len(self._readers) < IDLE_READERS:
            self._readers.append(reader)
        else:
            reader.connection.close()

    def _catalogue_of(self, reader: Reader) -> Catalogue:
        """The catalogue that belongs to what the reader sees. Inside its transaction.

        Asking whether anybody else has written costs 0.8 µs, the catalogue's version another 2.
        """
        connection = reader.connection
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version != reader.version or reader.catalogue is not self.catalogue:
            reader.version = version
            if int(schema.fact(connection, "catalogue")) == self.catalogue.version:
                reader.catalogue = self.catalogue
            else:
                reader.catalogue = load(connection)
                if reader.catalogue.version > self.catalogue.version:
                    self.catalogue = reader.catalogue
        return reader.catalogue

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
        origin: str | None = None,
        is_shareable: bool = False,
    ) -> T:
        """One write, as a part of this thread's transaction or as a commit of its own. See `Writer.write`."""
        return self._writable().write(work, durability=durability, origin=origin, is_shareable=is_shareable)

    def transaction(
        self, *, durability: Durability, origin: str | None = None
    ) -> AbstractContextManager[WriteTransaction]:
        """Several writes as one commit. See `Writer.transaction`."""
        return self._writable().transaction(durability=durability, origin=origin)

    def compact(self, retention: Retention, *, vacuum: bool = False) -> Compacted:
        """Remove the history that `retention` does not keep. See `Writer.compact`."""
        return self._writable().compact(retention, vacuum=vacuum)

    @property
    def retention(self) -> Retention | None:
        """What history is kept without being asked; None: all."""
        return None if self._writer is None else self._writer.retention

    @retention.setter
    def retention(self, retention: Retention | None) -> None:
        self._writable().retention = retention

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


engines: weakref.WeakSet[Engine] = weakref.WeakSet()
inherited: list[object] = []


def _after_fork_in_child() -> None:
    for engine in list(engines):
        engine.abandon()
    engines.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
