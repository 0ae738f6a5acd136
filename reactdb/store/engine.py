"""Engine: one open file. The engine opens and closes the file and reads from it. It has a writer for writes, and a
publisher for the delivery of commits to the feeds.

A process has one engine for a file, however often it opens the file. One connection writes; readers have their own
connections and do not wait for the writer. (A database in memory has no write-ahead log. There a commit waits for
running reads; every read ends before any other code runs, so a commit never waits for long.)

Thread safety: everything public may be called from any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import count
from threading import Lock, RLock
from typing import Any, TypeVar

from reactdb.change import TableReference
from reactdb.clock import SYSTEM, Clock, monotonic, timers
from reactdb.errors import (
    CannotOpen,
    CorruptDatabase,
    DatabaseBusy,
    DatabaseClosed,
    ForkedDatabase,
    NotADatabase,
    ReactDBError,
    ReadOnlyDatabase,
    StorageMoved,
    TableNotFound,
)
from reactdb.logs import logger
from reactdb.store import schema
from reactdb.store.blobs import BlobsInUse
from reactdb.store.catalogue import Catalogue, load
from reactdb.store.checkpoints import HEALTHY
from reactdb.store.epochs import Epochs
from reactdb.store.expiry import has_expiry
from reactdb.store.file import fork, names, sqlite
from reactdb.store.file.guard import FileGuard
from reactdb.store.file.identity import read_identity
from reactdb.store.file.immutable import IMMUTABLE, READ_ONLY, connect_to_read
from reactdb.store.file.open_checks import Probe, explain_open_failure, look, prepare, use_wal
from reactdb.store.file.sqlite import Connection, SQLiteError
from reactdb.store.log import PagesInUse
from reactdb.store.publisher import Publisher
from reactdb.store.readers import IDLE_READERS, Reader, Readers
from reactdb.store.snapshot import (
    GET_LIVE,
    LOG_END,
    Snapshot,
    UnindexedSnapshot,
    read_document,
    read_head_seq,
    view_as_of,
)
from reactdb.store.transaction import WriteTransaction
from reactdb.store.write_queue import Waiter, WriteQueue
from reactdb.store.writer import Writer

T = TypeVar("T")


# Of the databases in memory, whose names are of this process.
_numbers = count()
fork.call_in_child(timers.forget)

EMPTY = "it is empty: no database, and reading makes none"


class Engine:
    """See the head of this file.

    Attributes:
        path: Absolute path, or ":memory:".
        clock: The clock of all handles; see `reactdb.clock`.
        catalogue: Tables and indexes as last read. Replaced as a whole, and only by a newer catalogue.
        database_id: Says in tokens which file a position belongs to.
        writer: Writes; None where the file is only read, or the database is closed.
        publisher: Gives the commits to the feeds.
        readers: The connections that read.
        pages: Pages of the log that may have to read in the file again.
        blobs_in_use: Blobs that are open to read.
        guard: Notices that the file was moved; None in memory.
        unusable: Makes the error that every use raises; None while the file is open, and neither moved nor inherited by fork().
        is_immutable: The file is read as a file without writers, because no file can be made beside it. See
            `file.immutable`.
        write_queue: Which thread writes next.
        epochs: The stretches of the file's history, for tokens.
        twin: The other engine of the file in this process: one of the two writes, the other only reads. None where
            there is no other.
        opened_ms: When it was opened, in milliseconds since 1970.
    """

    def __init__(
        self,
        path: str,
        *,
        read_only: bool,
        busy_timeout_s: float,
        allow_network: bool = False,
        clock: Clock = SYSTEM,
        fill: Callable[[Connection], None] | None = None,
        cache_kib: int = sqlite.CACHE_KIB,
    ) -> None:
        """`fill`: writes the content of a new database in memory; None: it is empty. `cache_kib`: the most memory for pages of
        the first connection, and of a reader without others beside it."""
        self.path = path
        self.clock = clock
        self._allow_network = allow_network
        self.read_only = read_only
        self.busy_timeout_s = busy_timeout_s
        self.is_memory = path == ":memory:"
        self.is_immutable = False
        self._fill = fill
        self._cache_kib = cache_kib
        self._memory_name = f"reactdb-{id(self):x}-{next(_numbers):x}"
        self.write_queue = WriteQueue()
        self.readers = Readers()
        self.pages = PagesInUse()
        self.blobs_in_use = BlobsInUse()
        self.epochs = Epochs()
        self.twin: Engine | None = None
        self.opened_ms = clock.time_ns() // 1_000_000
        self.unusable: Callable[[], ReactDBError] | None = None
        # The indexes whose entries were compared with their sums: see `Snapshot.compare`.
        self._compared: set[int] = set()
        # Held while a poll uses a reader. A holder never waits for another lock, because closing waits for this lock
        # while it may hold any other. Re-entrant, because a handle may be dropped in that thread.
        self._polling = RLock()
        self.writer: Writer | None = None
        self.catalogue: Catalogue
        self._catalogue_lock = Lock()
        self.database_id: str
        self.publisher: Publisher
        self.guard: FileGuard | None = None
        self._is_closed = False
        self._open()
        fork.engines.add(self)
        self._watch_expiry()

    # -----------------------------------------------------------------------------------------------------------
    # Opening and closing

    def _open(self) -> None:
        connection, probe = self._first_connection()
        is_wal = probe is not None or self.is_memory
        try:
            # The checks that had to wait are made now. (An immutable file has neither a log nor locks.)
            is_looked_at = is_wal or self.is_immutable
            version = schema.identify(connection, self.path) if is_looked_at else look(connection, self.path)
            if self.read_only and version == 0:
                raise CannotOpen(self.path, EMPTY, is_unfinished=True)
            sqlite.configure(connection, reader=self.read_only, cache_kib=self._cache_kib)
            shown = schema.FORMAT_VERSION
            if self.read_only:
                shown = schema.show_as_today(connection)
            else:
                if not is_wal:
                    use_wal(connection, lambda: self.connect("rw"), self.path, self.busy_timeout_s)
                if not self.is_memory:
                    # Now that the connection reads in WAL mode, the log is there, and the lock stays.
                    names.claim_log(self.path)
                    names.note_log(self.path)
                if version < schema.FORMAT_VERSION:
                    # Only then: it takes the write lock, which another process may have for long.
                    schema.migrate(connection, self.path)
                if self._fill is not None:
                    # A copy is another database: a token of the original is no position in it.
                    schema.set_fact(connection, "database_id", schema.new_database_id())
                    self._fill = None
            self.catalogue = load(connection)
            self.database_id = schema.read_fact(connection, "database_id")
            self.publisher = Publisher(self, read_head_seq(connection))
            if not self.is_memory and not self.is_immutable:
                self.guard = FileGuard(self.path)
            if self.read_only:
                self.readers.lend(Reader(connection, self.catalogue, shown))
            else:
                self.writer = Writer(self, connection)
                if probe is not None and self.guard is not None and self.guard.identity == probe.identity:
                    # This connection has already done a reader's first reads, a fifth of the cost of opening a file
                    # and a first get.
                    sqlite.configure(probe.connection, reader=True, cache_kib=self._cache_kib)
                    self.readers.lend(Reader(probe.connection, self.catalogue))
                    probe = None
        except sqlite.READ_ERRORS as error:
            translated = explain_open_failure(error, self.path)
            connection.close()
            raise translated from error
        except BaseException:
            connection.close()
            raise
        finally:
            if probe is not None:
                probe.connection.close()

    def _first_connection(self) -> tuple[Connection, Probe | None]:
        """Returns: a connection to the checked file, and the connection that made the check."""
        probe = None
        if not self.is_memory:
            probe = prepare(self.connect, self.path, self.read_only, self._allow_network)
        try:
            if self.read_only:
                connection, self.guard = connect_to_read(self.connect, self.path)
                self.is_immutable = self.guard is not None
                return connection, None
            connection = self.connect("rwc")
            if self._fill is not None:
                self._fill(connection)
            return connection, probe
        except BaseException:
            if probe is not None:
                probe.connection.close()
            raise

    def connect(self, mode: str) -> Connection:
        """Another connection to the file (or memory). The caller configures and closes it."""
        try:
            connection = sqlite.connect(
                self._memory_name if self.is_memory else self.path,
                mode=mode,
                busy_timeout_s=self.busy_timeout_s,
                memory=self.is_memory,
            )
        except CannotOpen as error:
            moved = self._find_move_error()
            if moved is not None:
                raise moved from error
            raise
        if not self.is_memory:
            connection.compared = self._compared
        if self.guard is not None and read_identity(self.path) != self.guard.identity:
            # Nothing was read yet. The first read would open the -shm of this path, which the other connections have mapped, and
            # cut it off, because they are connections to another file: their next read would end the process (SIGBUS).
            connection.close()
            raise self.report_moved(f"{self.path} is another file now")
        return connection

    @property
    def read_mode(self) -> str:
        """SQLite's mode of a connection that reads."""
        if self.is_immutable:
            return IMMUTABLE
        return READ_ONLY if self.read_only else "rw"

    def close(self, *, is_lost: bool = False) -> None:
        """End the feeds and close every connection. Waits for a running write; a second call does nothing.

        Args:
            is_lost: No reference to a handle is left. Then a file has no subscriptions, and the subscriptions of a
                database in memory are lost with it: no subscriber is called, because a finalizer must not call user
                code.
        """
        if self._is_closed:
            return
        self._is_closed = True
        if has_expiry(self.catalogue) and not self.read_only:
            from reactdb.store.expirer import expirer

            expirer.unwatch(self)
        # If an error of the file was noted just now, the feeds end with that error, and do not complete.
        self.publisher.end_feeds()
        listener = self.publisher.listener
        if listener is not None and not (is_lost and self.is_memory):
            listener.close()
        if self.unusable is None:
            self.pages.complete()
            self.unusable = lambda: DatabaseClosed(self.path)
        writer, self.writer = self.writer, None
        self.readers.settle()
        self.readers.close_idle()
        with self._polling:
            # A poll that had a reader just now has closed it: no connection of ours is left when the caller
            # continues, unless another thread of the caller's is still reading.
            pass
        if writer is not None:
            writer.close()
            if not self.is_memory:
                names.forget_log(self.path)

    def __del__(self) -> None:
        """No reference is left, so no code uses the engine: it is a database in memory, or the program ends."""
        # The engine may be half opened, or half taken down with the program: then neither `suppress` nor the logger
        # may exist any more. SQLite closes the rest by itself.
        try:
            self.readers.close_idle()
            writer, self.writer = self.writer, None
            if writer is not None:
                writer.close_unused()
        except Exception:
            pass

    @property
    def is_closed(self) -> bool:
        """Closed, or inherited through fork()."""
        return self._is_closed

    @property
    def is_usable(self) -> bool:
        """Neither closed, nor moved, nor inherited through fork()."""
        return self.unusable is None

    def check_usable(self) -> None:
        """Raises: DatabaseClosed, ForkedDatabase, or StorageMoved, whichever is the matter."""
        if self.unusable is not None:
            raise self.unusable()

    def report_moved(self, trouble: str) -> StorageMoved:
        """Note that the file was moved. Returns: the error that says so. From now on every use raises it and every
        feed ends with it."""
        message = f"{trouble}: close this database and open it again"
        if not self.is_immutable:
            message = f"{trouble}: nothing is acknowledged any more; close this database and see where the file went"
        if self.unusable is None:
            self.unusable = lambda: StorageMoved(message)
            self.publisher.note(StorageMoved(message))
        return StorageMoved(message)

    def translate_error(self, error: Exception, operation: str) -> ReactDBError:
        """Translate SQLite's error. If the file was moved, the result says so, whatever SQLite says. If the first
        page is damaged, the result says so, and all later writes are refused."""
        moved = self._find_move_error()
        if moved is not None:
            return moved
        translated = sqlite.translate(error, operation, self.path)
        if self.is_memory and isinstance(translated, DatabaseBusy):
            # A read that has waited for a write of this process.
            return self.write_queue.busy(operation, self.busy_timeout_s)
        if isinstance(translated, (CorruptDatabase, NotADatabase)) and self.guard is not None:
            damage = self.damage_of_first_page(operation)
            if damage is not None:
                damage.__cause__ = error
                for engine in (self, self.twin):
                    writer = None if engine is None else engine.writer
                    if writer is not None:
                        writer.damage.note(damage)
                return damage
        return translated

    def damage_of_first_page(self, operation: str) -> CorruptDatabase | None:
        """Check the first page, from which SQLite finds all others. The connections of an open file have this page in
        memory and do not notice its damage, so another connection is opened: 0.2 ms. Returns: the damage; None where
        it cannot be known now."""
        try:
            connection = self.connect("ro")
            try:
                is_ours = schema.identify(connection, self.path) and schema.read_database_id(connection)
            finally:
                connection.close()
            trouble = "it names no database of reactdb"
        except sqlite.READ_ERRORS as error:
            translated = sqlite.translate(error, operation, self.path)
            is_ours = not isinstance(translated, (CorruptDatabase, NotADatabase))
            trouble = sqlite.message_of(error)
        except ReactDBError as error:
            is_ours = not isinstance(error, (CorruptDatabase, NotADatabase))
            trouble = str(error)
        if is_ours:
            return None
        return CorruptDatabase(
            f"{operation}: the first page of {self.path} is not what was written ({trouble}): another program has written to the "
            f"file, or it is damaged. {sqlite.ADVICE}"
        )

    def _find_move_error(self) -> ReactDBError | None:
        """StorageMoved if the opened file is missing or was replaced, whichever thread notices it first; else
        None."""
        if self.unusable is not None:
            known = self.unusable()
            # (The log of a database that was closed is gone, as it should be.)
            return known if isinstance(known, StorageMoved) else None
        trouble = "" if self.guard is None else self.guard.examine()
        return self.report_moved(trouble) if trouble else None

    def pause(self) -> EnginePause:
        """See `file.fork`."""
        return EnginePause(self)

    def abandon(self) -> None:
        """In a child of fork(): it is the parent's. `fork` has closed its connections, or leaves them open for ever."""
        self.readers = Readers()
        self.pages = PagesInUse()
        if self.writer is not None:
            self.writer.is_abandoned = True
        self.writer = None
        self._is_closed = True
        self.unusable = lambda: ForkedDatabase(
            f"{self.path} was opened before fork(); open it again in the child, with reactdb.connect"
        )
        self.publisher.abandon()

    # -----------------------------------------------------------------------------------------------------------
    # Reading

    def get(self, name: TableReference, key: bytes) -> bytes | None:
        """The encoded document of a key of a table, or None. The shortest path: one statement.

        Raises:
            TableNotFound: There is no such table.
            CorruptDatabase: The stored bytes do not match their checksum.
        """
        writer = self.writer
        is_readable = True
        if writer is not None and writer.inside is not None:
            transaction = writer.current
            if transaction is not None:
                return self.get_inside(transaction, name, key)
            is_readable = not (self.is_memory and self.has_transaction_here())
        table = self.catalogue.live.get(name)
        if table is not None and is_readable:
            reader = self._take_reader()
            try:
                head = read_document(reader.connection, table, key, GET_LIVE)
                return None if head is None else head[1]
            except TableNotFound:
                # Another process has dropped the table, and may have made another table of this name.
                pass
            except SQLiteError as error:
                raise self.translate_error(error, "read") from error
            finally:
                self._give_back(reader)
        # Another process may have made the table since.
        with self.snapshot() as snapshot:
            known = snapshot.table(name)
            if known is None:
                raise TableNotFound(str(name))
            return snapshot.get(known, key)

    def get_inside(self, transaction: WriteTransaction, name: TableReference, key: bytes) -> bytes | None:
        """The same, as a transaction of this thread sees it."""
        known = transaction.catalogue.live.get(name)
        if known is None:
            raise TableNotFound(str(name))
        head = transaction.head(known, key)
        return None if head is None else head[1]

    @contextmanager
    def snapshot(self, within: WriteTransaction | None = None) -> Iterator[Snapshot]:
        """Reads of one state: a read transaction, or inside a write transaction of this flow its own state.

        Keep the snapshot short and run no user code inside: while it is open, the write-ahead log cannot be emptied.

        Args:
            within: A transaction of this thread to read, whichever flow is running; None: the transaction of the
                running flow.
        """
        transaction = self.current_transaction() if within is None else within
        if transaction is not None:
            assert self.writer is not None
            self.writer.flush(transaction)
            try:
                yield transaction.snapshot()
            except SQLiteError as error:
                raise self.translate_error(error, "read") from error
            return
        if self.is_memory and self.writer is not None and self.writer.inside is not None:
            transaction = self.writer.of_thread
            if transaction is not None:
                # Another flow's. To wait for its end would not let it end.
                with self._read_before(transaction) as snapshot:
                    yield snapshot
                return
        reader = self._take_reader()
        connection = reader.connection
        self.readers.reading[reader] = monotonic()
        try:
            connection.execute("BEGIN")
            yield Snapshot(connection, self._catalogue_of(reader), reader.known)
        except SQLiteError as error:
            raise self.translate_error(error, "read") from error
        finally:
            del self.readers.reading[reader]
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._give_back(reader)

    def newest_catalogue(self) -> Catalogue:
        """The tables and indexes of now, as a snapshot has them: by one statement, if nothing was committed since the reader's
        last look."""
        writer = self.writer
        # A snapshot decides what a transaction shows.
        if writer is None or writer.inside is None:
            reader = self._take_reader()
            try:
                catalogue = self._known_catalogue(reader)
            except SQLiteError as error:
                raise self.translate_error(error, "read") from error
            finally:
                self._give_back(reader)
            if catalogue is not None:
                return catalogue
        with self.snapshot() as snapshot:
            return snapshot.catalogue

    def newest_seq(self) -> int:
        """The seq of the newest committed change, by one statement."""
        writer = self.writer
        if writer is not None and self.is_memory:
            # This process is the only writer.
            return writer.last_seq
        reader = self._take_reader()
        try:
            return read_head_seq(reader.connection)
        except SQLiteError as error:
            raise self.translate_error(error, "read") from error
        finally:
            self._give_back(reader)

    def fresh_snapshot(self) -> AbstractContextManager[Snapshot]:
        """A snapshot of the committed state, also inside a write transaction of this thread."""
        transaction = self.current_transaction()
        return self.snapshot() if transaction is None else self._read_before(transaction)

    def check_rows(self) -> None:
        """Called before rows that are no documents are read.

        Raises:
            TransactionOwned: Another flow of this thread has uncommitted rows, and in memory no read can leave them
                out.
        """
        writer = self.writer
        if self.is_memory and writer is not None and writer.inside is not None:
            transaction = writer.of_thread
            if transaction is not None and transaction.has_other_rows:
                writer.join("read", None)

    @contextmanager
    def _read_before(self, transaction: WriteTransaction) -> Iterator[Snapshot]:
        """A snapshot of the state before a write transaction of this thread."""
        assert self.writer is not None
        if self.is_memory:
            # No other connection can read while this connection writes. So this one reads, and leaves out the
            # uncommitted rows. Tables and indexes are those of the last commit: the transaction's new tables may be
            # rolled back, and its dropped indexes may stay.
            known = self.catalogue
            dropped = (
                known.index_ids() - transaction.catalogue.index_ids()
                if transaction.is_catalogue_changed
                else None
            )
            now = (
                UnindexedSnapshot(transaction.connection, known, dropped)
                if dropped
                else Snapshot(transaction.connection, known)
            )
            try:
                yield view_as_of(now, transaction.first - 1)
            except SQLiteError as error:
                raise self.translate_error(error, "read") from error
        else:
            with self.writer.suspend_transaction(), self.snapshot() as snapshot:
                yield snapshot

    @contextmanager
    def poll(self) -> Iterator[Snapshot]:
        """`fresh_snapshot` for the reader that publishes other processes' commits. Closing the engine waits for it to end."""
        with self._polling, self.fresh_snapshot() as snapshot:
            yield snapshot

    def check_end(self) -> None:
        """Check the end of the log before a feed begins, because a feed would wait for ever at a false end: see
        `Snapshot.check_end`.

        Raises:
            CorruptDatabase: The log seems to end early.
        """
        if not self.is_memory and LOG_END not in self._compared:
            with self.fresh_snapshot() as snapshot:
                snapshot.check_end()

    def oldest_read_s(self) -> float:
        """Seconds since the beginning of the oldest running read of this process; 0.0 without one."""
        began = [since for readers in self._all_readers() for since in readers.reading.copy().values()]
        return monotonic() - min(began) if began else 0.0

    def settle_reads(self) -> None:
        """Let no walk of this process keep the file in a past state."""
        for readers in self._all_readers():
            readers.settle()

    @contextmanager
    def hold_reads(self, end: float) -> Iterator[bool]:
        """Stop new reads in this process inside the block, and wait for running reads. Yields True when no read is
        left; new reads then wait for the end of the block. Yields False if running reads have not ended by `end`
        (monotonic): then reads continue."""
        with ExitStack() as held:
            for readers in self._all_readers():
                if not readers.pause(end):
                    # Before the caller continues: the waiting reads may begin now.
                    held.close()
                    yield False
                    return
                held.callback(readers.resume)
            yield True

    def _all_readers(self) -> list[Readers]:
        return [engine.readers for engine in (self, self.twin) if engine is not None]

    def _take_reader(self) -> Reader:
        if self.unusable is not None:
            raise self.unusable()
        if self.is_immutable:
            self._check_unchanged()
        readers = self.readers
        if not readers.is_resting:
            try:
                return readers.idle.pop()
            except IndexError:
                pass
        return readers.take(self._connect_reader)

    def _connect_reader(self) -> Reader:
        connection = self.connect(self.read_mode)
        try:
            # The reader that was returned last is lent next: a single thread always gets the first reader, whose
            # cache holds more pages. (This reader is counted already.)
            sqlite.configure(
                connection, reader=True, cache_kib=0 if len(self.readers) > 1 else self._cache_kib
            )
            shown = schema.FORMAT_VERSION
            if self.read_only:
                schema.identify(connection, self.path)
                shown = schema.show_as_today(connection)
            # Closed in between: in memory, this connection would be the first connection of a new and empty database.
            self.check_usable()
            trouble = "" if self.guard is None else self.guard.examine()
            if trouble:
                # It would read another file.
                raise self.report_moved(trouble)
        except SQLiteError as error:
            connection.close()
            raise self.translate_error(error, "read") from error
        except BaseException:
            connection.close()
            raise
        return Reader(connection, self.catalogue, shown)

    def _give_back(self, reader: Reader) -> None:
        readers = self.readers
        if self.unusable is None and len(readers.idle) < IDLE_READERS:
            readers.idle.append(reader)
            if self.unusable is not None:
                # The database was closed in between, perhaps after the other readers were.
                readers.close_idle()
        else:
            readers.close(reader)
        if self.is_immutable:
            # The result is right only if the file has not changed during the read.
            self._check_unchanged()

    def _check_unchanged(self) -> None:
        """Raises: StorageMoved, where the file is read as immutable and has been written."""
        trouble = "" if self.guard is None or self.unusable is not None else self.guard.look()[1]
        if trouble:
            raise self.report_moved(trouble)

    def _known_catalogue(self, reader: Reader) -> Catalogue | None:
        """The catalogue of the reader's last look; None if another connection has committed since, or there is a newer one."""
        (version,) = reader.connection.execute("PRAGMA data_version").fetchone()
        if version == reader.version and reader.catalogue is self.catalogue:
            return reader.catalogue
        return None

    def _catalogue_of(self, reader: Reader) -> Catalogue:
        """Returns the catalogue that matches the reader's state. Called inside the reader's transaction.

        To check for commits of other connections costs 0.8 µs; to read the catalogue's version costs 2 more.
        """
        connection = reader.connection
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version != reader.version or reader.catalogue is not self.catalogue:
            reader.known = {}
            if reader.shown < schema.FORMAT_VERSION:
                shown = schema.show_as_today(connection, reader.shown)
                if shown != reader.shown:
                    # Another process has migrated the file. The views of the older format are dropped for good: the ROLLBACK
                    # with which a read ends would bring them back.
                    connection.execute("COMMIT")
                    connection.execute("BEGIN")
                    reader.shown = shown
            reader.version = version
            known = self.catalogue
            if int(schema.read_fact(connection, "catalogue")) == known.version:
                reader.catalogue = known
            else:
                reader.catalogue = load(connection)
                self.adopt(reader.catalogue)
        return reader.catalogue

    def adopt(self, catalogue: Catalogue) -> None:
        """A catalogue was read from the file: keep it, if it is the newest."""
        with self._catalogue_lock:
            if catalogue.version > self.catalogue.version:
                self.catalogue = catalogue
        self._watch_expiry()

    def _watch_expiry(self) -> None:
        """Let the process delete the expired documents of the file, if it has such tables."""
        if has_expiry(self.catalogue) and not self.read_only and not self._is_closed:
            # Imported here because most files have no such table.
            from reactdb.store.expirer import expirer

            expirer.watch(self)
            if self._is_closed:
                expirer.unwatch(self)

    # -----------------------------------------------------------------------------------------------------------
    # Writing

    def current_transaction(self) -> WriteTransaction | None:
        """The transaction that the running flow of this thread is inside of (see `flows`), or None."""
        writer = self.writer
        return None if writer is None or writer.inside is None else writer.current

    def current_catalogue(self) -> Catalogue:
        """Tables and indexes as last seen; inside of a transaction of the running flow, as that has them."""
        writer = self.writer
        inside = None if writer is None else writer.inside
        # First, because finding the owner of the transaction takes longer.
        if writer is None or inside is None or not inside[1].is_catalogue_changed:
            return self.catalogue
        transaction = writer.current
        return self.catalogue if transaction is None else transaction.catalogue

    def has_transaction_here(self) -> bool:
        """Whether this thread has a transaction open, whichever of its flows is inside of it. Nothing that would be a commit of
        its own can be done then."""
        writer = self.writer
        return writer is not None and writer.inside is not None and writer.of_thread is not None

    def writable(self) -> Writer:
        """The writer.

        Raises:
            ReadOnlyDatabase: The file is only read.
            DatabaseClosed and its like.
        """
        self.check_usable()
        if self.writer is None:
            raise ReadOnlyDatabase(f"{self.path} was opened with read_only=True")
        return self.writer

    def before_removal(self, until: int) -> None:
        """History up to a seq is about to be removed: pages of the log that need it read it now."""
        for engine in (self, self.twin):
            if engine is not None:
                engine.pages.complete(until)

    def lowest_needed(self, oldest: int) -> int | None:
        """The lowest position, from `oldest` on, from which a feed of this process has still to read the log; None: none has. See
        `CommitListener.lowest_needed`."""
        listeners = [engine.publisher.listener for engine in (self, self.twin) if engine is not None]
        needed = [listener.lowest_needed(oldest) for listener in listeners if listener is not None]
        return min((position for position in needed if position is not None), default=None)

    def held_blobs(self) -> set[int]:
        """The numbers of the blobs that this process has open to read."""
        other = set() if self.twin is None else self.twin.blobs_in_use.numbers()
        return self.blobs_in_use.numbers() | other

    @property
    def wal_limit_bytes(self) -> int:
        """Size of the write-ahead log beyond which writes are refused, while checkpoints fail."""
        return self.writable().checkpoints.limit_bytes

    @wal_limit_bytes.setter
    def wal_limit_bytes(self, limit_bytes: int) -> None:
        self.writable().checkpoints.limit_bytes = limit_bytes

    def checkpoint_figures(self) -> dict[str, Any]:
        """How checkpoints fare. See `Checkpoints.figures`."""
        return HEALTHY if self.writer is None else self.writer.checkpoints.figures()

    # -----------------------------------------------------------------------------------------------------------
    # Commits of other processes

    def has_news(self) -> bool:
        """Whether another process may have committed since the last call: 5 µs, a quarter of the cost of `catch_up`.

        `data_version` of a connection changes when another connection commits. Any reader will do, because each
        remembers its last value, and the poll after that value has published all commits until then.
        """
        with self._polling:
            reader = self._take_reader()
            try:
                (version,) = reader.execute("PRAGMA data_version").fetchone()
                before, reader.polled_version = reader.polled_version, version
                return bool(version != before)
            finally:
                self._give_back(reader)

    def catch_up(self) -> bool:
        """Publish the commits of other processes. Returns: whether there were any."""
        return self.unusable is None and self.publisher.catch_up()


class EnginePause:
    """Stops one engine while its process forks, if it can be stopped in time."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        # Kept here: another thread may close the engine.
        self._writer = engine.writer
        self._turn: Waiter | None = None
        self.is_complete = False

    def begin(self, end: float) -> None:
        """Wait until `end` (monotonic) for the work of other threads."""
        readers = self.engine.readers
        readers.settle()
        self.engine.pages.complete()
        writer = self._writer
        if writer is not None:
            if writer.of_thread is None:
                self._turn = writer.queue.stop(max(0.0, end - monotonic()))
            if self._turn is None:
                # A thread writes, perhaps this thread.
                return
        self.is_complete = readers.pause(end)

    def end(self) -> None:
        """Continue, in the parent."""
        if self.is_complete:
            self.engine.readers.resume()
        if self._turn is not None and self._writer is not None:
            self._writer.queue.resume(self._turn)

    def close_inherited(self) -> None:
        """Close the idle connections, in the child."""
        readers, writer = self.engine.readers, self._writer
        if not self.is_complete or not readers.is_idle:
            return
        connections = [reader.connection for reader in readers.idle]
        # The last connection to close copies the log into the file, and SQLite does not check whether it is still the
        # same log.
        if writer is not None and (writer.guard is None or not writer.guard.has_lost_its_log):
            connections.append(writer.connection)
        for connection in connections:
            try:
                if not connection.in_transaction:
                    connection.close()
            except SQLiteError:
                logger.debug("an inherited connection cannot be closed", exc_info=True)
