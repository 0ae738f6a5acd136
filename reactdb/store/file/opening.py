"""Opening: everything that is looked at before a connection may write to a file.

Rule of this file: it changes nothing but that it makes an empty file where there is none.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from reactdb.errors import DatabaseBusy, ReactDBError, StorageError
from reactdb.store import schema
from reactdb.store.file import files, flush, fork, guards, sqlite
from reactdb.store.file.identity import Identity, identity_of
from reactdb.store.file.sqlite import Connection
from reactdb.store.file.wal_check import check_log_belongs, check_log_is_own


class Witness(NamedTuple):
    """A connection that has looked at a file in WAL mode, and may only read; and which file that was, None where it cannot be
    told."""

    connection: Connection
    identity: Identity | None


def prepare(
    connect: Callable[[str], Connection], path: str, read_only: bool, allow_network: bool
) -> Witness | None:
    """Everything that can be wrong with a file before a connection may write to it. Gives who has looked at it; None where
    nobody could, or it is not in WAL mode. `connect` makes a connection in one of SQLite's modes."""
    files.check_path(path, read_only=read_only)
    if not allow_network:
        guards.refuse_network(path)
    try:
        flush.close_left(path)
    except StorageError:
        # Whoever only reads relies on no flush.
        if not read_only:
            raise
    guards.refuse_unfit(path)
    fork.check_path(path)
    named = check_log_is_own(path)
    if read_only:
        return None
    is_new = files.make(path)
    try:
        return _look_before_writing(connect, path, named)
    except BaseException:
        if is_new and not files.size(path):
            os.unlink(path)
        raise


def _look_before_writing(
    connect: Callable[[str], Connection], path: str, named: str | None
) -> Witness | None:
    """Whose file it is comes first: a connection that may write would, when it is closed, empty the write-ahead log of
    another program's database into it."""
    identity = identity_of(path)
    witness, is_wal = connect("ro"), False
    try:
        look(witness, path, named)
        (mode,) = witness.execute("PRAGMA journal_mode").fetchone()
        is_wal = mode == "wal"
    except sqlite.READ_ERRORS as error:
        # One that may only read cannot finish what a crash has left. The one that may write can, or says what is wrong.
        if not getattr(error, "sqlite_errorname", "").startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")):
            raise not_opened(error, path) from error
    finally:
        if not is_wal:
            witness.close()
    return Witness(witness, identity) if is_wal else None


def look(connection: Connection, path: str, named: str | None = None) -> int:
    """The format version, whether the log is the file's own, and whether locks hold. `named`: by the log, where it is known."""
    # In a transaction: so long SQLite keeps its lock.
    connection.execute("BEGIN")
    version = schema.identify(connection, path)
    if version:
        check_log_belongs(connection, path, named)
    guards.make_sure_of_locks(path)
    connection.execute("ROLLBACK")
    return version


def not_opened(error: Exception, path: str) -> ReactDBError:
    """The error of a connection that could not read the file, while it is still open."""
    translated = sqlite.translate(error, "open", path)
    process = guards.who_locks(path) if isinstance(translated, DatabaseBusy) else None
    if process is None:
        return translated
    return DatabaseBusy(
        f"open: {path} is locked by another process, {process}, which keeps the file to itself, or has been busy with it for "
        "long: close it there"
    )
