"""The one SQLite module of the process, connections to it, and its errors in our words.

`sqlite_utils.utils.sqlite3` is pysqlite3 where that is installed and the standard library's module elsewhere. Two copies
of SQLite on one file in one process drop each other's locks, so every connection of reactdb comes from here.

Checkpoints are never SQLite's own: before 3.51.3 a checkpoint by one connection can corrupt a write-ahead log that another
is committing to, unless it holds the write lock (modes FULL and TRUNCATE with a long busy timeout do).
https://sqlite.org/wal.html, section "The WAL-Reset Bug".
"""

from __future__ import annotations

import errno
import os
from typing import Any
from urllib.parse import quote

from sqlite_utils.utils import sqlite3  # type: ignore[attr-defined]

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

Connection = Any  # sqlite3.Connection of whichever module was found
SQLiteError: type[Exception] = sqlite3.Error
IntegrityError: type[Exception] = sqlite3.IntegrityError
VERSION: tuple[int, ...] = tuple(int(part) for part in sqlite3.sqlite_version.split("."))

# WITHOUT ROWID tables, upserts and the memdb VFS that shares an in-memory database between connections.
OLDEST_VERSION = (3, 37, 0)

PAGE_BYTES = 4096
# 64 MiB: the default of 2 MiB makes joins over more rows than it holds ten times slower a row.
CACHE_KIB = 65536
READER_CACHE_KIB = 16384


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
    uri = f"file:/{path}?vfs=memdb" if memory else f"file:{quote(os.fsencode(path))}?mode={mode}"
    try:
        connection = sqlite3.connect(
            uri,
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
            timeout=busy_timeout_s,
        )
        # Never SQLite's own checkpoints: see the head of this file.
        connection.execute("PRAGMA wal_autocheckpoint=0")
        # On macOS, fsync() leaves the data in the drive's cache, which a power cut empties. Elsewhere this changes nothing.
        connection.execute("PRAGMA fullfsync=ON")
    except SQLiteError as error:
        raise translate(error, "open", path) from error
    return connection


def configure(connection: Connection, *, reader: bool) -> None:
    """The settings of every connection. Each costs a statement, so they are made once, when it is opened."""
    execute = connection.execute
    execute(f"PRAGMA cache_size=-{READER_CACHE_KIB if reader else CACHE_KIB}")
    execute("PRAGMA temp_store=MEMORY")
    # A file from somewhere else may carry views and triggers that call functions; ours has none.
    execute("PRAGMA trusted_schema=OFF")
    execute("PRAGMA cell_size_check=ON")
    execute("PRAGMA mmap_size=0")
    if reader:
        execute("PRAGMA query_only=ON")


def leave_open(connection: Connection) -> None:
    """Let go of a connection that must not be closed, not even at the end of the process: SQLite would write what is left in its
    log into the file, over what others have written there since, or give up locks that are another process's."""
    try:
        import ctypes

        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
    except (ImportError, AttributeError):
        # Not CPython: then it is closed at the end of the process, if at all.
        left_open.append(connection)


left_open: list[Connection] = []


def translate(error: Exception, operation: str, path: str) -> ReactDBError:
    """SQLite's error as one of ours. The original stays as `__cause__` where the caller raises from it."""
    name = getattr(error, "sqlite_errorname", "") or ""
    text = str(error)
    if (
        name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))
        or "database is locked" in text
        or "database table is locked" in text
    ):
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
        or (is_read_only and operation == "open")
    ):
        return CannotOpen(path, reason_not_opened(path))
    if name == "SQLITE_NOTADB" or "file is not a database" in text:
        return NotADatabase(path)
    if name.startswith("SQLITE_CORRUPT") or "malformed" in text:
        return CorruptDatabase(f"{operation}: {path} is damaged ({text}); `reactdb doctor` says where")
    if name == "SQLITE_FULL" or "disk is full" in text:
        return DiskFull(f"{operation}: no room left for {path}; nothing was written")
    if is_read_only:
        return ReadOnlyDatabase(f"{operation}: {path} cannot be written ({text})")
    return StorageError(f"{operation}: {path}: {text}" + (f" ({name})" if name else ""))


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
    if not os.access(path, os.R_OK):
        return "it may not be read (permission denied)"
    if not os.access(path, os.W_OK) or not os.access(folder, os.W_OK):
        return (
            f"it, or its folder {folder}, may not be written (permission denied); "
            "also to read, SQLite needs two files beside it: copy it to a folder where they can be made"
        )
    return "SQLite could not open it (too many open files, or no permission for the files beside it)"
