"""Open checks: all checks before a connection may write to a file, and the switch to a write-ahead log.

The order matters. Cheap checks without a connection come first. Then a read-only connection, the probe connection,
finds out whose file it is and whether locks hold: a connection that may write would, at its close, empty another
program's write-ahead log into the file. The probe connection later serves as the first reader.

Rule of this file: checks change nothing, but that an empty file is made where there is none.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import NamedTuple

from reactdb.clock import monotonic
from reactdb.errors import CannotOpen, DatabaseBusy, ReactDBError, StorageError
from reactdb.store import schema
from reactdb.store.file import files, flush, locks, names, sqlite
from reactdb.store.file.identity import FileIdentity, check_fit, read_identity
from reactdb.store.file.sqlite import Connection, SQLiteError
from reactdb.store.file.wal_check import check_log_belongs, check_log_is_own


class Probe(NamedTuple):
    """A connection that has checked a file in WAL mode, and may only read; and the file, None where that cannot be
    known."""

    connection: Connection
    identity: FileIdentity | None


def prepare(
    connect: Callable[[str], Connection], path: str, read_only: bool, allow_network: bool
) -> Probe | None:
    """Check a file before a connection may write to it.

    Args:
        connect: Makes a connection in one of SQLite's modes.

    Returns:
        The probe connection. None with `read_only`, where the file is not in WAL mode, and where only a write
        connection can repair the state after a crash.
    """
    files.check_path(path, read_only=read_only)
    names.check_names(path)
    if not allow_network:
        locks.refuse_network(path)
    try:
        flush.close_left(path)
    except StorageError:
        # A read-only handle relies on no flush.
        if not read_only:
            raise
    check_fit(path)
    named = check_log_is_own(path)
    if read_only:
        return None
    is_new = files.make(path)
    try:
        return _probe(connect, path, named)
    except BaseException:
        if is_new and not sqlite.file_bytes(path):
            os.unlink(path)
        raise


def _probe(connect: Callable[[str], Connection], path: str, named: str | None) -> Probe | None:
    identity = read_identity(path)
    connection, is_wal = connect("ro"), False
    try:
        look(connection, path, named)
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        is_wal = mode == "wal"
    except sqlite.READ_ERRORS as error:
        # A read-only connection cannot finish the recovery after a crash. A write connection can, or raises the
        # error.
        if not getattr(error, "sqlite_errorname", "").startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")):
            raise explain_open_failure(error, path) from error
    finally:
        if not is_wal:
            connection.close()
    return Probe(connection, identity) if is_wal else None


def look(connection: Connection, path: str, named: str | None = None) -> int:
    """Check whose file it is, whether the write-ahead log is its own, and whether locks hold.

    Args:
        named: The database id in the log, where it is known.

    Returns:
        The format version.
    """
    # First: by another name a file without its log may look like anything.
    names.claim_log(path)
    # In a transaction, because SQLite keeps its lock as long as that.
    connection.execute("BEGIN")
    version = schema.identify(connection, path)
    if version:
        check_log_belongs(connection, path, named)
    locks.make_sure_of_locks(path)
    connection.execute("ROLLBACK")
    return version


def explain_open_failure(error: Exception, path: str) -> ReactDBError:
    """The error of a connection that could not read the file. Called while that connection is still open."""
    translated = sqlite.translate(error, "open", path)
    process = locks.find_lock_holder(path) if isinstance(translated, DatabaseBusy) else None
    if process is None:
        return translated
    return DatabaseBusy(
        f"open: {path} is locked by another process, {process}, which keeps the file to itself, or has been busy with it for "
        "long: close it there"
    )


def use_wal(connection: Connection, another: Callable[[], Connection], path: str, timeout_s: float) -> None:
    """Switch to a write-ahead log, and make sure of it. A switch can fail without an error until its row is fetched,
    and the failed connection believes in a log all the same. So `another` connection makes the check.

    Raises:
        CannotOpen: The file system cannot keep a write-ahead log.
        SQLiteError: Another process is switching for longer than `timeout_s`, or something else is wrong.
    """
    end = monotonic() + timeout_s
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
            break
        except SQLiteError as error:
            # Another process is switching too, and SQLite does not wait here by itself.
            if not sqlite.is_busy(error) or monotonic() >= end:
                raise
            time.sleep(0.002)
    if mode == "wal":
        probe = another()
        try:
            (mode,) = probe.execute("PRAGMA journal_mode").fetchone()
        finally:
            probe.close()
    if mode != "wal":
        raise CannotOpen(path, "its file system cannot keep a write-ahead log (no shared memory or no locks)")
