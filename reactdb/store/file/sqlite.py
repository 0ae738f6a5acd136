"""The one SQLite module of the process, connections to it, and the translation of its errors into ours.

That module is pysqlite3 where it is installed and the standard library's elsewhere. It is the choice of
`sqlite_utils.utils`, made here in the same way, because importing that module takes longer than opening a file. Two
copies of SQLite on one file in one process drop each other's locks, so every connection of reactdb comes from here.

Checkpoints are never SQLite's own: before 3.51.3 a checkpoint by one connection can corrupt a write-ahead log to
which another commits, unless commits are impossible during the checkpoint. `checkpoints` makes sure of that.
https://sqlite.org/wal.html, section "The WAL-Reset Bug".
"""

from __future__ import annotations

import errno
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from reactdb.clock import monotonic
from reactdb.errors import (
    CannotOpen,
    CorruptDatabase,
    DatabaseBusy,
    DatabaseClosed,
    DiskFull,
    IncompatibleFormat,
    NotADatabase,
    ReactDBError,
    ReadOnlyDatabase,
    StorageError,
    how_to_install,
)

if TYPE_CHECKING:
    import sqlite3
else:
    try:
        sqlite3 = import_module("pysqlite3")
        import_module("pysqlite3.dbapi2")
    except ImportError:
        sqlite3 = import_module("sqlite3")

Connection = Any  # sqlite3.Connection of whichever module was found
Cursor = Any  # and its cursors
SQLiteError: type[Exception] = sqlite3.Error
# Errors of the first statement that reads the schema. If the schema is damaged, even SQLite's message may not be
# UTF-8.
READ_ERRORS: tuple[type[Exception], ...] = (sqlite3.Error, UnicodeDecodeError)
IntegrityError: type[Exception] = sqlite3.IntegrityError
VERSION: tuple[int, ...] = tuple(int(part) for part in sqlite3.sqlite_version.split("."))

# WITHOUT ROWID tables, upserts and the memdb VFS that shares an in-memory database between connections.
OLDEST_VERSION = (3, 37, 0)

PAGE_BYTES = 4096
# 64 MiB: with the default of 2 MiB, a join over more rows than fit takes ten times as long a row.
CACHE_KIB = 65536
# For readers beside the first one. They exist for moments in which several threads read.
READER_CACHE_KIB = 16384


# Messages of SQLite, or of its Python module, that mean damage without saying so: text that is not UTF-8, an
# unreadable schema, a missing table, a value of an impossible type for its column.
SIGNS_OF_DAMAGE = (
    "malformed",
    "Could not decode to UTF-8",
    "no such table",
    "no such column",
    "datatype mismatch",
)
ADVICE = (
    "`reactdb doctor FILE` says what is wrong, `reactdb export --salvage FILE` exports the readable documents"
)


# Bytes that need no escape in a URI. (To import urllib for this would take longer than opening a file.)
PLAIN = frozenset(b"/._-~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


class Tracked(sqlite3.Connection):
    """A connection that `fork` can find.

    Attributes:
        path: The path of its file; None in memory.
        kept: A cursor for the connection's whole life; None before its first use.
        compared: The numbers of the indexes whose entries were compared with their sums, while the file is open (see
            `store.sums`), and 0 where the end of the log was; one set for all connections of an engine. None where
            nothing is compared.
    """

    path: str | None = None
    kept: Cursor | None = None
    compared: set[int] | None = None

    def keep_cursor(self) -> Cursor:
        """The cursor for all statements without rows. `execute` of the connection makes a new cursor for each, which
        takes 0.4 µs."""
        if self.kept is None:
            self.kept = self.cursor()
        return self.kept

    def close(self) -> None:
        """Close the connection, and its cursor first: SQLite keeps the files open while a cursor has a statement,
        even a failed one."""
        if self.kept is not None:
            # A signal handler may close the connection inside a statement of the cursor. SQLite then closes it afterwards.
            with suppress(SQLiteError):
                self.kept.close()
        super().close()

    @property
    def is_open(self) -> bool:
        try:
            return self.in_transaction is not None
        except SQLiteError:
            return False


# Every connection of this process that still has a reference. Only a child of fork() iterates over it, while the
# child has one thread.
tracked: weakref.WeakSet[Tracked] = weakref.WeakSet()
# Held while a connection is made, and by a fork, so that no connection is half made in a child.
opening = threading.Lock()


def has_wal_reset_bug() -> bool:
    """Whether this SQLite can lose a commit when another connection checkpoints at the wrong moment."""
    return not (VERSION >= (3, 51, 3) or (VERSION[:2] == (3, 50) and VERSION >= (3, 50, 7)))


def connect(path: str, *, mode: str, busy_timeout_s: float, memory: bool = False) -> Connection:
    """Open a connection. `mode` is SQLite's: `ro`, `rw` or `rwc`.

    Raises:
        CannotOpen: With the reason in words, as far as the file system shows it.
        IncompatibleFormat: The SQLite library is too old.
    """
    if VERSION < OLDEST_VERSION:
        needed = ".".join(map(str, OLDEST_VERSION))
        raise IncompatibleFormat(
            f"reactdb needs SQLite {needed} or newer and found {sqlite3.sqlite_version}; "
            f"to get one: {how_to_install('sqlite')}"
        )
    # By bytes: a file's name need not be UTF-8.
    uri = f"file:/{path}?vfs=memdb" if memory else f"file:{quote_path(path)}?mode={mode}"
    try:
        with opening:
            connection = sqlite3.connect(
                uri,
                uri=True,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=256,
                timeout=busy_timeout_s,
                factory=Tracked,
            )
            connection.path = None if memory else path
            tracked.add(connection)
        # Never SQLite's own checkpoints: see the head of this file.
        connection.execute("PRAGMA wal_autocheckpoint=0")
        # On macOS, fsync() leaves the data in the drive's cache, which a power cut empties. Elsewhere this changes nothing.
        connection.execute("PRAGMA fullfsync=ON")
    except SQLiteError as error:
        raise translate(error, "open", path) from error
    return connection


@lru_cache(maxsize=16)
def quote_path(path: str) -> str:
    """A path as SQLite's URIs have it."""
    return "".join([chr(byte) if byte in PLAIN else f"%{byte:02X}" for byte in os.fsencode(path)])


def configure(connection: Connection, *, reader: bool, cache_kib: int = 0) -> None:
    """Make the settings of a connection. Each costs a statement, so they are made once, when it is opened.

    Args:
        cache_kib: The most memory for pages. 0: the amount of the writer, or of a reader beside others.
    """
    hearing = watch_signals()
    # Up to the `yield` inside its `try`.
    next(hearing)
    connection.set_progress_handler(hearing.__next__, STEPS)
    execute = connection.execute
    execute(f"PRAGMA cache_size=-{cache_kib or (READER_CACHE_KIB if reader else CACHE_KIB)}")
    execute("PRAGMA temp_store=MEMORY")
    # A file of unknown origin may have views and triggers that call functions; a file of reactdb has none.
    execute("PRAGMA trusted_schema=OFF")
    execute("PRAGMA cell_size_check=ON")
    execute("PRAGMA mmap_size=0")
    if reader:
        execute("PRAGMA query_only=ON")


def copy_pages(
    source: Connection, target: Connection, step_pages: int, progress: Callable[[int, int], object] | None
) -> None:
    """Copy a whole database into an empty file: the state that the source's open read sees.

    Args:
        step_pages: Pages that are copied at a time; -1: all.
        progress: Called after each step with the copied bytes and all bytes.
    """
    (page_bytes,) = source.execute("PRAGMA page_size").fetchone()

    def tell(_: int, remaining: int, total: int) -> None:
        if progress is not None:
            progress((total - remaining) * page_bytes, total * page_bytes)

    source.backup(target, pages=step_pages, progress=tell)


def copy_content(source: Connection, target: Connection, *, is_wal: bool) -> None:
    """Copy a whole database into an empty one in memory. `is_wal`: the source is a file with a write-ahead log."""
    if not is_wal:
        source.backup(target)
        return
    with closing(sqlite3.connect(":memory:")) as middle:
        source.backup(middle)
        content = bytearray(middle.serialize())
        # The header says that there is a write-ahead log, which a shared database in memory cannot have.
        # https://sqlite.org/fileformat.html#file_format_version_numbers
        content[18:20] = b"\1\1"
        middle.deserialize(content)
        middle.backup(target)


def is_whole(connection: Connection) -> bool:
    """Whether SQLite finds no damage: it reads all pages."""
    try:
        return bool(connection.execute("PRAGMA integrity_check(1)").fetchall() == [("ok",)])
    except READ_ERRORS:
        return False


def is_busy(error: Exception) -> bool:
    """Whether another connection's lock was in the way."""
    text = str(error)
    return (
        (getattr(error, "sqlite_errorname", "") or "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))
        or "database is locked" in text
        or "database table is locked" in text
    )


def watch_signals() -> Iterator[int]:
    """A progress handler: SQLite calls it now and then inside a long statement, and stops the statement when it gives 1.

    A signal handler, Ctrl-C's too, runs in the main thread between two steps of Python. A long statement has no such
    steps except the calls of this handler. SQLite would lose an exception of the signal handler, so it is kept for
    `translate`, which raises it in place of SQLite's "interrupted". This is a generator because it resumes inside its
    `try`; a function would be interrupted before it could enter the `try`.
    """
    answer = 0
    while True:
        try:
            while True:
                yield answer
                answer = 0
        except GeneratorExit:
            return
        except BaseException as error:
            struck.append(error)
            answer = 1


# Steps of SQLite's virtual machine between two calls of the progress handler: 10 to 50 ms. A short statement makes no call.
STEPS = 1_000_000
# Exceptions of signal handlers, from the moment when SQLite is stopped until `translate` raises them. One list for
# the process, because only the main thread runs signal handlers.
struck: list[BaseException] = []


def keep_open(connection: Connection) -> None:
    """Give up a connection that must not be closed, not even at the end of the process. At its close, SQLite would
    write the rest of its log into the file, over newer data of others, or change memory that a parent process
    shares."""
    try:
        ctypes = import_ctypes()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
    except (AttributeError, TypeError):
        # Not CPython. A list is emptied when the interpreter ends, so there the connection may be closed then.
        left_open.append(connection)


# Connections that `keep_open` could not keep in another way.
left_open: list[Connection] = []


def import_ctypes() -> Any:
    """The module; None where there is none. It is hardly ever needed, and takes 4 ms to import."""
    try:
        import ctypes
    except ImportError:
        return None
    return ctypes


def translate(error: Exception, operation: str, path: str) -> ReactDBError:
    """Turn SQLite's error into one of ours. The caller raises it `from` the original.

    Raises:
        KeyboardInterrupt, or another exception of a signal handler: see `watch_signals`.
    """
    name = getattr(error, "sqlite_errorname", "") or ""
    if name == "SQLITE_INTERRUPT":
        raise struck.pop() if struck else KeyboardInterrupt
    text = message_of(error)
    if isinstance(error, UnicodeDecodeError):
        name = "SQLITE_CORRUPT"
    if is_busy(error):
        return DatabaseBusy(
            f"{operation}: {path} is locked by another writer, or the file system's locks do not work; nothing was written"
        )
    if "closed database" in text:
        return DatabaseClosed(path)
    if name == "SQLITE_READONLY_ROLLBACK":
        return CannotOpen(
            path,
            "a crash left it half-made, and reading cannot finish that: open it once to write",
            is_unfinished=True,
        )
    is_read_only = name.startswith("SQLITE_READONLY") or "readonly database" in text
    # SQLite also complains that it cannot write when it would only read, in a folder where no file can be made.
    if (
        name.startswith("SQLITE_CANTOPEN")
        or "unable to open" in text
        or (is_read_only and operation in ("open", "read"))
    ):
        return CannotOpen(path, explain_unreadable_path(path))
    if name == "SQLITE_PROTOCOL" or "locking protocol" in text:
        return DatabaseBusy(
            f"{operation}: {path}: the file system's locks do not work, or too many fight for them ({text}); nothing was written"
        )
    if name.startswith("SQLITE_IOERR_SHM"):
        return StorageError(
            f"{operation}: the shared memory of {path}, {path}-shm, cannot be used: no memory or no room left, or a file system "
            f"that cannot share memory ({text}, {name})"
        )
    if name == "SQLITE_NOTADB" or "file is not a database" in text:
        advice = " (if it was one, `reactdb export --salvage FILE` looks for what is left)"
        return NotADatabase(path, advice=advice)
    if name.startswith("SQLITE_CORRUPT") or any(words in text for words in SIGNS_OF_DAMAGE):
        return CorruptDatabase(
            f"{operation}: {path} is damaged, or the disk cannot read it ({text}). {ADVICE}"
        )
    if name == "SQLITE_FULL" or "disk is full" in text:
        return DiskFull(f"{operation}: no room left for {path}; nothing was written")
    if is_read_only:
        return ReadOnlyDatabase(f"{operation}: {path} cannot be written ({text})")
    return StorageError(f"{operation}: {path}: {text}" + (f" ({name})" if name else ""))


def message_of(error: Exception) -> str:
    """The message of an error, even if it is not UTF-8."""
    if isinstance(error, UnicodeDecodeError):
        return error.object.decode(errors="backslashreplace")
    return str(error)


def explain_unreadable_path(path: str) -> str:
    """Why a file cannot be opened, as far as the file system shows it."""
    folder = os.path.dirname(os.path.abspath(path))
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        return f"{os.strerror(error.errno or errno.EIO).lower()} ({error.filename})"
    if os.path.isdir(path):
        return "it is a folder"
    if not os.path.isdir(folder):
        return (
            f"the folder {folder} does not exist"
            if not os.path.exists(folder)
            else f"{folder} is not a folder"
        )
    if not os.path.exists(path):
        return "it does not exist" if os.access(folder, os.W_OK) else f"the folder {folder} cannot be written"
    if not os.path.isfile(path):
        return "it is not a regular file"
    if not os.access(path, os.R_OK):
        return "it may not be read (permission denied)"
    if not os.access(path, os.W_OK) or not os.access(folder, os.W_OK):
        return (
            f"it, or its folder {folder}, may not be written (permission denied); with read_only=True it can be read while "
            "it has no writer, or copy it to a folder where files can be made"
        )
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return os.strerror(error.errno or errno.EIO).lower()
    return "SQLite could not open it (too many open files, or no permission for the files beside it)"


def file_bytes(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


class LockWait:
    """How long a connection's statements wait for another process's write lock.

    SQLite waits for a lock in C, where Ctrl-C has no effect. So a long wait is made of short ones. Not in memory:
    there a commit waits for running reads, and no other process has the lock.
    """

    # Seconds that one statement waits, as a part of a long wait.
    PIECE_S = 0.25

    __slots__ = ("_asked_s", "_connection", "_cursor", "_is_in_pieces", "_set_s")

    def __init__(self, cursor: Cursor, *, is_in_pieces: bool, set_s: float) -> None:
        """`set_s`: the connection's busy timeout as it is."""
        self._cursor = cursor
        self._connection = cursor.connection
        self._is_in_pieces = is_in_pieces
        self._set_s = set_s
        # The last argument of `begin_immediate`; None where another wait was set since.
        self._asked_s: float | None = None

    def at_most(self, seconds: float, *, in_one_piece: bool = False) -> None:
        """Set how long each statement waits from now on."""
        self._asked_s = None
        if self._is_in_pieces and seconds > self.PIECE_S and not in_one_piece:
            seconds = self.PIECE_S
        if seconds != self._set_s:
            self._connection.execute(f"PRAGMA busy_timeout={max(0, int(seconds * 1000))}")
            self._set_s = seconds

    def begin_immediate(self, timeout_s: float) -> float:
        """BEGIN IMMEDIATE, tried for `timeout_s` as long as another process has the write lock.

        Returns:
            The waited seconds; 0.0 for a wait in one piece.

        Raises:
            SQLiteError: The last error.
        """
        if timeout_s != self._asked_s:
            self.at_most(timeout_s)
            self._asked_s = timeout_s
        end: float | None = None
        while True:
            try:
                self._cursor.execute("BEGIN IMMEDIATE")
                return 0.0 if end is None else monotonic() - end + timeout_s
            except SQLiteError as error:
                if not self._is_in_pieces or not is_busy(error):
                    raise
                now = monotonic()
                if end is None:
                    end = now + timeout_s - self._set_s
                if now >= end:
                    raise
                self.at_most(end - now)
