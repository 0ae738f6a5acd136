"""Flush: whether the write-ahead log is on the disk, and the repair after a failed flush.

An operating system that cannot write pages at a flush reports that once, and then takes the pages for written: the
next flush succeeds without them (https://wiki.postgresql.org/wiki/Fsync_Errors). SQLite rolls back the commit that
met the error and writes over its part of the log. But earlier soft commits, which wait in the log for a flush, are
not written again. Later commits would stand behind a hole in the log, and a checkpoint would overwrite the file with
no log on the disk to repair it from.

So after an error nothing relies on the log until every byte of it has been written once more and flushed.

The last connection to close copies the log into the file. So a writer with a doubtful log leaves its connection open
at its close. The next opening of the file in this process writes the log again and then closes that connection.

Rule of this file: it writes to the log only bytes that the log has, and only with the write lock held.
"""

from __future__ import annotations

import os

from reactdb.errors import ReactDBError, StorageError
from reactdb.logs import logger
from reactdb.store.file import fork, identity, sqlite
from reactdb.store.file.guard import FileGuard, describe_lost_log
from reactdb.store.file.sqlite import Connection, SQLiteError

CHUNK_BYTES = 1024 * 1024


class Flushes:
    """The state of a file's flushes, for its writer. A database in memory, which has no `guard`, needs none.

    Attributes:
        path: The path of the file.
        is_complete: Everything committed has been flushed. False where this is not known.
        is_doubtful: A flush has failed, and the log has not been written again yet.
    """

    __slots__ = ("_guard", "is_complete", "is_doubtful", "path")

    def __init__(self, path: str, guard: FileGuard | None) -> None:
        self.path = path
        self._guard = guard
        self.is_complete = False
        self.is_doubtful = False

    def notice(self, error: BaseException) -> bool:
        """Whether this error of SQLite's may come from a flush. If so, the log is in doubt."""
        if self._guard is None or not getattr(error, "sqlite_errorname", "").startswith("SQLITE_IOERR"):
            return False
        self.is_doubtful = True
        return True

    def make_sure(self, operation: str) -> None:
        """Write the log again if it is in doubt. The caller holds the write lock, so there is no other writer.

        The log can be opened and closed here, because SQLite's locks are on the file and in shared memory.

        Raises:
            StorageError: It fails again. The message begins with the `operation` that has to be refused.
        """
        self.is_complete = False
        if not self.is_doubtful or self._guard is None:
            return
        trouble = self._guard.examine()
        if trouble:
            # The path leads to another file now.
            raise StorageError(f"{operation}: an earlier flush of {self.path} has failed, and now {trouble}")
        try:
            log = os.open(self.path + "-wal", os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
            try:
                write_again(log)
                os.fsync(log)
            finally:
                os.close(log)
        except OSError as error:
            raise StorageError(
                f"{operation}: {self.path}-wal: {error.strerror}: an earlier flush has failed, and its data"
                " still cannot be written; nothing was written now"
            ) from error
        self.is_doubtful = False

    def settle(self, connection: Connection, operation: str) -> None:
        """As `make_sure`, outside of a transaction. Raises: StorageError, or an error of SQLite's."""
        if self.is_doubtful:
            connection.execute("BEGIN IMMEDIATE")
            try:
                self.make_sure(operation)
            finally:
                connection.execute("ROLLBACK")

    def close(self, connection: Connection) -> None:
        """Close the writer's connection, or leave it open if the log is in doubt and cannot be written again."""
        try:
            self.settle(connection, "close")
        except (ReactDBError, SQLiteError) as error:
            logger.warning("%s: its write-ahead log is left as it is: %s", self.path, error)
            sqlite.keep_open(connection)
            _left.append((self, connection))
        else:
            connection.close()

    def close_again(self, connection: Connection) -> None:
        """Close a connection that `close` has left open. Raises: StorageError: The log still cannot be written again."""
        assert self._guard is not None
        if self._guard.examine():
            # The path leads to another file now, and the connection stays open for good.
            if self._guard.has_lost_its_log:
                identity.refuse(self.path, describe_lost_log)
            return
        try:
            self.settle(connection, "open")
        except SQLiteError as error:
            raise sqlite.translate(error, "open", self.path) from error
        connection.close()


# Connections that were left open, with the repair that must come before their close. They outlive their engines.
_left: list[tuple[Flushes, Connection]] = []

# The parent closes them. To a child of fork() their files are closed.
fork.call_in_child(_left.clear)


def close_left(path: str) -> None:
    """Close the connections that earlier writers of this process had to leave open on a file. Nearly always there are none.

    Raises:
        StorageError: Its log still cannot be written again.
    """
    for one in _left.copy():
        flushes, connection = one
        if flushes.path == path:
            flushes.close_again(connection)
            _left.remove(one)


def write_again(file: int) -> None:
    """Write every byte of an open file over itself."""
    place = 0
    while chunk := os.pread(file, CHUNK_BYTES, place):
        done = 0
        while done < len(chunk):
            done += os.pwrite(file, chunk[done:], place + done)
        place += done
