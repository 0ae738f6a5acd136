"""Immutable: reading a file in a folder where no file can be made.

To read a file in WAL mode SQLite needs two files beside it, and makes them if they are missing. On a read-only
medium, or in another user's folder, it cannot. With `immutable=1` it reads the file alone: without locks, without the
write-ahead log, and without ever checking whether the file has changed (https://sqlite.org/uri.html#uriimmutable).
That is right as long as the file has no writer. This is checked before the file is opened, and at the beginning and
the end of every read.

Rule of this file: a file that cannot be read in this way is refused with the reason. Commits in a write-ahead log are never
skipped.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from reactdb.errors import CannotOpen
from reactdb.store.file import locks, names, sqlite
from reactdb.store.file.guard import FileGuard
from reactdb.store.file.open_checks import explain_open_failure
from reactdb.store.file.sqlite import Connection

READ_ONLY = "ro"
IMMUTABLE = "ro&immutable=1"
COPY = "copy all that belongs to it to a folder where files can be made"


class ImmutableGuard(FileGuard):
    """Checks that the file is still the opened one, and was not written."""

    __slots__ = ("_state",)

    def __init__(self, path: str) -> None:
        super().__init__(path, has_log=False)
        self._state = _state_of(path)

    def look(self) -> tuple[int, str]:
        """(0, the trouble). The second is empty without trouble."""
        if sqlite.file_bytes(self._wal_path):
            return 0, f"{self._path} was opened as a file without writers, and has a writer now"
        state = _state_of(self._path)
        if state != self._state:
            is_there = "has changed" if state is not None else "is gone"
            return 0, f"{self._path} was opened as a file without writers, and {is_there}"
        return 0, ""

    @property
    def has_lost_its_log(self) -> bool:
        """It has no log."""
        return False


def connect_to_read(
    connect: Callable[[str], Connection], path: str
) -> tuple[Connection, ImmutableGuard | None]:
    """A read connection; and if the file is read as immutable, the guard that checks it at each read.

    Args:
        connect: Makes a connection in one of SQLite's modes.

    Raises:
        CannotOpen: SQLite cannot make its files, and the file cannot be read without them. Any other error that
        `explain_open_failure` makes of the first failure.
    """
    connection = connect(READ_ONLY)
    try:
        # The first statement for which SQLite looks at the write-ahead log.
        connection.execute("PRAGMA schema_version").fetchone()
        names.claim_log(path)
        return connection, None
    except CannotOpen:
        connection.close()
        raise
    except sqlite.READ_ERRORS as error:
        refusal = explain_open_failure(error, path)
        if not isinstance(refusal, CannotOpen) or not may_make_nothing(path):
            connection.close()
            raise refusal from error
        # Before the check: later changes are noticed.
        guard = ImmutableGuard(path)
        trouble = check_immutable(path)
        connection.close()
        if trouble:
            raise CannotOpen(path, trouble) from error
    return connect(IMMUTABLE), guard


def may_make_nothing(path: str) -> bool:
    """Whether it is a file that may be read, in a folder where no file can be made."""
    folder = os.path.dirname(os.path.abspath(path))
    return os.path.isfile(path) and os.access(path, os.R_OK) and not os.access(folder, os.W_OK)


def check_immutable(path: str) -> str:
    """Why a file cannot be read alone; empty where it can. Called while this process has a connection to it."""
    folder = os.path.dirname(os.path.abspath(path))
    process = locks.find_lock_holder(path, is_any=True)
    if process is not None:
        return f"process {process} has it open, and the files beside it may not be read"
    if sqlite.file_bytes(path + "-wal"):
        return (
            f"its write-ahead log {path}-wal may hold commits that are not in the file yet, and to read them SQLite needs one "
            f"more file in {folder}, which may not be written; {COPY}, or let a user with write access open and close it"
        )
    if sqlite.file_bytes(path + "-journal"):
        return (
            f"a crash left it half-made, and {folder} may not be written; {COPY}, and open it once to write"
        )
    return ""


def _state_of(path: str) -> tuple[int, ...] | None:
    """A value that changes with every write; None where there is no file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
