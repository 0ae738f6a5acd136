"""Flushes: what of the write-ahead log is on the disk for certain, and what to do when a flush has failed.

A system that cannot write what it was told to flush says so once, and takes it for written from then on: the next flush succeeds
and contains nothing of it (https://wiki.postgresql.org/wiki/Fsync_Errors). SQLite takes back the commit that met the error and
writes over what it had put into the log. But soft commits before it, which wait in the log for a flush, are not written again.
Commits after them, flushed in good faith, would stand behind a hole in the log; and a checkpoint would overwrite the file with
no log on the disk to repair it from.

So after an error nothing relies on the log until all of it has been written once more, byte for byte, and flushed.

A writer that is closed in doubt leaves its connection open, because the last to close copies the log. It is closed by whoever
opens the file next in this process, when the log can be written again: a connection that begins anew would rely on a log that
it knows nothing of.
"""

from __future__ import annotations

import os

from reactdb.errors import ReactDBError, StorageError
from reactdb.logs import logger
from reactdb.store.file import guards, sqlite
from reactdb.store.file.identity import FileGuard
from reactdb.store.file.sqlite import Connection, SQLiteError

CHUNK_BYTES = 1024 * 1024


class Flushes:
    """The state of the log of the file at `path`, as far as its writer knows. Without a `guard`, in memory, there is none.

    Attributes:
        is_complete: Everything that is committed has been flushed. False where nobody knows.
        is_doubtful: A flush has failed, and nothing was done about it yet.
    """

    __slots__ = ("_guard", "_path", "is_complete", "is_doubtful")

    def __init__(self, path: str, guard: FileGuard | None) -> None:
        self._path = path
        self._guard = guard
        self.is_complete = False
        self.is_doubtful = False

    def notice(self, error: BaseException) -> bool:
        """Whether this error of SQLite's may be that of a flush. Then the log is doubtful."""
        if self._guard is None or not getattr(error, "sqlite_errorname", "").startswith("SQLITE_IOERR"):
            return False
        self.is_doubtful = True
        return True

    def make_sure(self, operation: str) -> None:
        """If the log is doubtful, write it again. The caller holds the write lock, so that nobody else writes to it.

        SQLite has no locks on the log itself (they are on the file, and in shared memory), so it can be opened and closed here.

        Raises:
            StorageError: It fails again. The message begins with the `operation` that cannot go on without.
        """
        self.is_complete = False
        if not self.is_doubtful or self._guard is None:
            return
        trouble = self._guard.examine()
        if trouble:
            # Whatever is at the path now, it is not ours to write to.
            raise StorageError(f"{operation}: an earlier flush of {self._path} has failed, and now {trouble}")
        try:
            log = os.open(self._path + "-wal", os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
            try:
                write_again(log)
                os.fsync(log)
            finally:
                os.close(log)
        except OSError as error:
            raise StorageError(
                f"{operation}: {self._path}-wal: {error.strerror}: an earlier flush has failed, and what it was to make sure of"
                " still cannot be written; nothing was written now"
            ) from error
        self.is_doubtful = False

    def settle(self, connection: Connection, operation: str) -> None:
        """As `make_sure`, outside of a transaction: before a checkpoint. Raises: StorageError, or SQLite's."""
        if self.is_doubtful:
            connection.execute("BEGIN IMMEDIATE")
            try:
                self.make_sure(operation)
            finally:
                connection.execute("ROLLBACK")

    def close(self, connection: Connection) -> None:
        """Close the writer's connection: the last one empties the log into the file. In doubt, leave the log for others."""
        try:
            self.settle(connection, "close")
        except (ReactDBError, SQLiteError) as error:
            logger.warning("%s: its write-ahead log is left as it is: %s", self._path, error)
            sqlite.leave_open(connection)
            _left.append((os.getpid(), self, connection))
        else:
            connection.close()

    def close_again(self, connection: Connection) -> None:
        """A connection that `close` has left open. Raises: StorageError: The log cannot be made sure of now either."""
        assert self._guard is not None
        if self._guard.examine():
            # What is at the path now is another file, and it stays open for good.
            if self._guard.has_lost_its_log:
                guards.note_lost_log(self._path)
            return
        try:
            self.settle(connection, "open")
        except SQLiteError as error:
            raise sqlite.translate(error, "open", self._path) from error
        connection.close()

    def is_of(self, path: str) -> bool:
        return self._path == path


# Connections that were left open: of which process, and what is to be made sure of before they are closed.
_left: list[tuple[int, Flushes, Connection]] = []


def close_left(path: str) -> None:
    """Close what earlier writers of this process had to leave open of a file. Nearly always there is none.

    Raises:
        StorageError: Its log cannot be made sure of now either.
    """
    for one in _left.copy():
        process, flushes, connection = one
        if flushes.is_of(path) and process == os.getpid():
            flushes.close_again(connection)
            _left.remove(one)


def write_again(file: int) -> None:
    """Every byte of an open file, where it is."""
    place = 0
    while chunk := os.pread(file, CHUNK_BYTES, place):
        done = 0
        while done < len(chunk):
            done += os.pwrite(file, chunk[done:], place + done)
        place += done
