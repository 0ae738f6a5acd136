"""FileGuard: is the file still the file that was opened?

SQLite goes on writing, and acknowledging, into a file that has been unlinked, renamed or replaced, and into a write-ahead log
that somebody has deleted. Two `stat` calls a commit, 9 µs, find out before anybody is told that the write is safe.

Rule of this file: it looks and says what it saw. It never opens the file: closing it again would drop the locks of every
connection that this process has on it.
"""

from __future__ import annotations

import os

Identity = tuple[int, int]


class FileGuard:
    """The file and its write-ahead log, as they were when the database was opened.

    Attributes:
        identity: The file.
    """

    __slots__ = ("_path", "_wal", "_wal_path", "identity")

    def __init__(self, path: str) -> None:
        self._path = path
        self._wal_path = path + "-wal"
        self.identity = identity_of(path)
        # It is there from the first read in WAL mode on, as long as a connection is open.
        try:
            self._wal: Identity | None = _identity(os.stat(self._wal_path))
        except OSError:
            self._wal = None

    def look(self) -> tuple[int, str]:
        """(size of the write-ahead log in bytes, what is wrong). The second is empty where nothing is."""
        try:
            file, wal = os.stat(self._path), os.stat(self._wal_path)
        except OSError as error:
            if self._wal is None and error.filename == self._wal_path:
                # It has not been there yet.
                return 0, ""
            return 0, f"{error.filename} is gone"
        if _identity(file) != self.identity:
            return 0, f"{self._path} is another file now"
        if _identity(wal) != self._wal:
            if self._wal is not None:
                return 0, f"{self._wal_path} is another file now"
            self._wal = _identity(wal)
        return wal.st_size, ""

    @property
    def has_lost_its_log(self) -> bool:
        """The file is the same, but its write-ahead log is not. SQLite does not look at that when it closes the last
        connection: it would write what is in the old log over what others have written since."""
        try:
            file = _identity(os.stat(self._path))
        except OSError:
            return False
        return file == self.identity and self.look()[1] != ""


def identity_of(path: str) -> Identity | None:
    """Which file has this name now; None where none has."""
    try:
        return _identity(os.stat(path))
    except OSError:
        return None


def _identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino
