"""The one SQLite module of the process, connections to it, and its errors in our words.

That module is pysqlite3 where it is installed and the standard library's elsewhere: the one that `sqlite_utils.utils` chooses,
chosen here in the same way, because importing that takes longer than opening a file. Two copies of SQLite on one file in one
process drop each other's locks, so every connection of reactdb comes from here.

Checkpoints are never SQLite's own: before 3.51.3 a checkpoint by one connection can corrupt a write-ahead log that another
is committing to, unless nobody can commit meanwhile. `checkpoints` sees to that.
https://sqlite.org/wal.html, section "The WAL-Reset Bug".
"""

from __future__ import annotations

import errno
import os
import threading
import weakref
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

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
SQLiteError: type[Exception] = sqlite3.Error
# Where a connection first reads the schema: of a damaged one, SQLite's message itself can be no text.
READ_ERRORS: tuple[type[Exception], ...] = (sqlite3.Error, UnicodeDecodeError)
IntegrityError: type[Exception] = sqlite3.IntegrityError
VERSION: tuple[int, ...] = tuple(int(part) for part in sqlite3.sqlite_version.split("."))

# WITHOUT ROWID tables, upserts and the memdb VFS that shares an in-memory database between connections.
OLDEST_VERSION = (3, 37, 0)

PAGE_BYTES = 4096
# 64 MiB: the default of 2 MiB makes joins over more rows than it holds ten times slower a row.
CACHE_KIB = 65536
# Of the readers after the first, which are there for moments in which several threads read.
READER_CACHE_KIB = 16384


# What SQLite, or its module, says of a damaged file without calling it corrupt: text that is no UTF-8, a schema that cannot be
# read, a table that is not there, a value of another type than a column can have.
SIGNS_OF_DAMAGE = (
    "malformed",
    "Could not decode to UTF-8",
    "no such table",
    "no such column",
    "datatype mismatch",
)
ADVICE = "`reactdb doctor FILE` says what is wrong, `reactdb export --salvage FILE` gets out what is readable"


# What a URI may have as it is. (Importing urllib for it would take longer than opening a file.)
PLAIN = frozenset(b"/._-~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


class Tracked(sqlite3.Connection):
    """A connection that `fork` can find.

    Attributes:
        path: Of its file; None in memory.
    """

    path: str | None = None

    @property
    def is_open(self) -> bool:
        try:
            return self.in_transaction is not None
        except SQLiteError:
            return False


# Every connection of this process that somebody still has; only looked through where there is one thread.
tracked: weakref.WeakSet[Tracked] = weakref.WeakSet()
# Held while one is made.
opening = threading.Lock()


def has_wal_reset_bug(version: tuple[int, ...] = VERSION) -> bool:
    """Whether this SQLite can lose a commit when another connection checkpoints at the wrong moment."""
    return not (version >= (3, 51, 3) or (version[:2] == (3, 50) and version >= (3, 50, 7)))


def connect(path: str, *, mode: str, busy_timeout_s: float, memory: bool = False) -> Connection:
    """Open a connection. `mode` is SQLite's: `ro`, `rw` or `rwc`.

    Raises:
        CannotOpen: With the reason in words, as far as the file system tells it.
        IncompatibleFormat: The SQLite library is too old.
    """
    if VERSION < OLDEST_VERSION:
        needed = ".".join(map(str, OLDEST_VERSION))
        raise IncompatibleFormat(
            f"reactdb needs SQLite {needed} or newer and found {sqlite3.sqlite_version}; "
            "`pip install reactdb[sqlite]` brings one"
        )
    # By bytes: a file's name need not be UTF-8.
    uri = f"file:/{path}?vfs=memdb" if memory else f"file:{quoted(path)}?mode={mode}"
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
def quoted(path: str) -> str:
    """A path as SQLite's URIs have it."""
    return "".join([chr(byte) if byte in PLAIN else f"%{byte:02X}" for byte in os.fsencode(path)])


def configure(connection: Connection, *, reader: bool, cache_kib: int = 0) -> None:
    """The settings of every connection. Each costs a statement, so they are made once, when it is opened.

    Args:
        cache_kib: Room for pages, taken as they are read; 0: the writer's, or that of a reader among others.
    """
    hearing = hear_signals()
    # To where it waits inside its `try`.
    next(hearing)
    connection.set_progress_handler(hearing.__next__, STEPS)
    execute = connection.execute
    execute(f"PRAGMA cache_size=-{cache_kib or (READER_CACHE_KIB if reader else CACHE_KIB)}")
    execute("PRAGMA temp_store=MEMORY")
    # A file from somewhere else may carry views and triggers that call functions; ours has none.
    execute("PRAGMA trusted_schema=OFF")
    execute("PRAGMA cell_size_check=ON")
    execute("PRAGMA mmap_size=0")
    if reader:
        execute("PRAGMA query_only=ON")


def is_busy(error: Exception) -> bool:
    """Whether another connection's lock was in the way."""
    text = str(error)
    return (
        (getattr(error, "sqlite_errorname", "") or "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))
        or "database is locked" in text
        or "database table is locked" in text
    )


def hear_signals() -> Iterator[int]:
    """What SQLite calls now and then inside a long statement: it goes on after 0, and stops after 1.

    A signal's handler, Ctrl-C's too, runs in the main thread between two steps of Python, of which a long statement has none but
    these. What the handler raises would be lost in SQLite, so it is kept for `translate`, which raises it instead of SQLite's
    "interrupted". A generator, because it goes on inside its `try`: in a function, the handler would run before it.
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


# Steps of SQLite's machine between two looks at signals: 10 to 50 ms. Under a statement that is not long, it costs nothing.
STEPS = 1_000_000
# What handlers of signals have raised and nobody has heard yet. Only ever used by the main thread.
struck: list[BaseException] = []


def leave_open(connection: Connection) -> None:
    """Let go of a connection that must not be closed, not even at the end of the process: SQLite would write what is left in its
    log into the file, over what others have written there since, or give up locks that are another process's."""
    try:
        ctypes = import_ctypes()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
    except (AttributeError, TypeError):
        # Not CPython: then it is closed at the end of the process, if at all.
        left_open.append(connection)


left_open: list[Connection] = []


def import_ctypes() -> Any:
    """The module, which takes 4 ms to import and is hardly ever needed; None where there is none."""
    try:
        import ctypes
    except ImportError:
        return None
    return ctypes


def translate(error: Exception, operation: str, path: str) -> ReactDBError:
    """SQLite's error as one of ours. The original stays as `__cause__` where the caller raises from it.

    Raises:
        What a signal's handler has raised, KeyboardInterrupt as a rule: see `hear_signals`.
    """
    name = getattr(error, "sqlite_errorname", "") or ""
    if name == "SQLITE_INTERRUPT":
        raise struck.pop() if struck else KeyboardInterrupt
    text = words_of(error)
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
            path, "a crash left it half-made, and reading cannot finish that: open it once to write"
        )
    is_read_only = name.startswith("SQLITE_READONLY") or "readonly database" in text
    # In a folder where nothing can be made, SQLite says that it cannot write even where it would only read.
    if (
        name.startswith("SQLITE_CANTOPEN")
        or "unable to open" in text
        or (is_read_only and operation in ("open", "read"))
    ):
        return CannotOpen(path, reason_not_opened(path))
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
        return NotADatabase(
            path,
            "it is not an SQLite file (if it was one, `reactdb export --salvage FILE` looks for what is left)",
        )
    if name.startswith("SQLITE_CORRUPT") or any(words in text for words in SIGNS_OF_DAMAGE):
        return CorruptDatabase(
            f"{operation}: {path} is damaged, or the disk cannot read it ({text}). {ADVICE}"
        )
    if name == "SQLITE_FULL" or "disk is full" in text:
        return DiskFull(f"{operation}: no room left for {path}; nothing was written")
    if is_read_only:
        return ReadOnlyDatabase(f"{operation}: {path} cannot be written ({text})")
    return StorageError(f"{operation}: {path}: {text}" + (f" ({name})" if name else ""))


def words_of(error: Exception) -> str:
    """What an error says, also where it wanted to say something that is no text."""
    if isinstance(error, UnicodeDecodeError):
        return error.object.decode(errors="backslashreplace")
    return str(error)


def reason_not_opened(path: str) -> str:
    """Why a file cannot be opened, from what the file system says of it and its folder."""
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
            "nobody writes it, or copy it to a folder where files can be made"
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
