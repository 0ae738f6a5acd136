"""The files of a database: their names, how a new database is made, and how all its files are removed.

    a.db            the database
    a.db-wal        its write-ahead log: commits on their way to the file
    a.db-shm        an index of that log, shared by all its processes
    a.db-journal    only while the file is made

They belong together. A write-ahead log without its file is of no use, and beside another file of that name it is the
history of a lost database.
"""

from __future__ import annotations

import os

from reactdb.errors import CannotOpen, DatabaseBusy, NotADatabase, StorageError
from reactdb.store.file import sqlite
from reactdb.store.file.sqlite import SQLiteError, file_bytes
from reactdb.store.schema import APPLICATION_ID

# In the order of removal. An interrupted removal leaves files that `check_path` refuses, because the database goes
# first.
SUFFIXES = ("", "-wal", "-shm", "-journal")


def check_path(path: str, *, read_only: bool) -> None:
    """Raises: CannotOpen: There is no file at the path and none can be made, or only a write-ahead log without its
    database; or the path is a folder, a device, a pipe or a socket."""
    folder = os.path.dirname(path)
    if os.path.isdir(path) or not os.path.isdir(folder):
        raise CannotOpen(path, sqlite.explain_unreadable_path(path))
    is_there = os.path.exists(path)
    # The file is not opened, because to open a pipe is to wait for its other end.
    is_fit = os.path.isfile(path) if is_there else not read_only and os.access(folder, os.W_OK)
    if not is_fit:
        raise CannotOpen(path, sqlite.explain_unreadable_path(path))
    wal = path + "-wal"
    if file_bytes(wal) and not file_bytes(path):
        raise CannotOpen(
            path,
            f"it is missing or empty, but its write-ahead log {wal} is not: restore the file, or delete both "
            "with reactdb.delete_database(path)",
            is_unfinished=is_there,
        )


def make(path: str) -> bool:
    """Make an empty file where there is none, with the permissions that the umask gives it; SQLite gives the two files beside it
    the same. Whether it was made."""
    if os.path.exists(path):
        return False
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666))
    except FileExistsError:
        # Another process was quicker.
        return False
    except OSError as error:
        reason = sqlite.explain_unreadable_path(path)
        raise CannotOpen(path, os.strerror(error.errno).lower() if error.errno else reason) from error
    return True


def remove(path: str) -> None:
    """Remove a database: all of its files. The caller has made sure that this process does not have it open.

    Raises:
        CannotOpen: The path has nothing to remove, or no regular file, or the file cannot be opened to check its
            owner.
        DatabaseBusy: Another process has it open.
        NotADatabase: It is not a reactdb database.
    """
    is_other = os.path.exists(path) and not os.path.isfile(path)
    if is_other or not any(os.path.lexists(path + suffix) for suffix in SUFFIXES):
        raise CannotOpen(path, sqlite.explain_unreadable_path(path))
    if file_bytes(path):
        _check_nobody_has_it(path)
    for suffix in SUFFIXES:
        try:
            os.unlink(path + suffix)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise StorageError(f"delete_database: {path + suffix}: {error.strerror}") from error


def _check_nobody_has_it(path: str) -> None:
    """Make sure that it is a database of reactdb, and that no connection is open on it: each open connection has a
    lock, and an exclusive lock does not get past it."""
    connection = sqlite.connect(path, mode="rw", busy_timeout_s=0)
    try:
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        (application_id,) = connection.execute("PRAGMA application_id").fetchone()
        if application_id != APPLICATION_ID:
            raise NotADatabase(path, "it was not deleted")
        connection.execute("BEGIN EXCLUSIVE")
    except SQLiteError as error:
        translated = sqlite.translate(error, "delete_database", path)
        if isinstance(translated, DatabaseBusy):
            raise DatabaseBusy(
                f"delete_database: {path} is open in another process; nothing was deleted"
            ) from error
        raise translated from error
    finally:
        connection.close()
