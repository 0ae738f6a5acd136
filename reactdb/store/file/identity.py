"""FileGuard: is the file still the file that was opened, and is its write-ahead log whole?

SQLite goes on writing, and acknowledging, into a file that has been unlinked, renamed or replaced, and into a write-ahead log
that somebody has deleted or cut off. Two `stat` calls a commit find out the former before anybody is told that the write is safe;
two short reads before a commit find out the latter before anything is written behind what is missing.

Rule of this file: it looks and says what it saw. It never opens the file: closing it again would drop the locks of every
connection that this process has on it. (On the log there are none.)
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from os import SEEK_END, lseek, pread, stat

from reactdb.store.file.wal_index import LOG_HEADER_BYTES, QUICK, STATE_BYTES, VERSION, WalIndex

Identity = tuple[int, int]
# Where a log's header has its salts: https://sqlite.org/fileformat2.html, section 4.1.
SALTS = slice(16, 24)


class FileGuard:
    """The file and its write-ahead log, as they were when the database was opened.

    Attributes:
        identity: The file.
    """

    __slots__ = ("_index", "_log", "_path", "_wal", "_wal_path", "identity")

    def __init__(self, path: str, *, has_log: bool = True) -> None:
        """Not `has_log`: it is read as a file without a write-ahead log, so that there is no index of one either."""
        self._path = path
        self._wal_path = path + "-wal"
        self.identity = identity_of(path)
        # It is there from the first read in WAL mode on, as long as a connection is open.
        try:
            self._wal: Identity | None = _identity(os.stat(self._wal_path))
        except OSError:
            self._wal = None
        self._index = WalIndex(path) if has_log else None
        # The log, opened to ask for its size: a fifth of what `stat` costs.
        self._log = -1

    def close(self) -> None:
        """Before the last connection is closed, which removes the log: some systems remove nothing that is open."""
        log, self._log = self._log, -1
        if log >= 0:
            with suppress(OSError):
                os.close(log)

    def __del__(self) -> None:
        self.close()

    def look(self) -> tuple[int, str]:
        """(size of the write-ahead log in bytes, what is wrong). The second is empty where nothing is."""
        try:
            file, wal = stat(self._path), stat(self._wal_path)
        except OSError as error:
            if self._wal is None and error.filename == self._wal_path:
                # It has not been there yet.
                return 0, ""
            return 0, f"{error.filename} is gone"
        if (file.st_dev, file.st_ino) != self.identity:
            return 0, f"{self._path} is another file now"
        if (wal.st_dev, wal.st_ino) != self._wal:
            if self._wal is not None:
                return 0, f"{self._wal_path} is another file now"
            self._wal = _identity(wal)
        return wal.st_size, ""

    def look_before(self) -> tuple[bytes | None, str]:
        """Called by who has the write lock and has written nothing yet: (which log it is that is written to, what is wrong).

        The first is None where the log may be begun anew by the next commit, and says nothing where that cannot be known.
        """
        index = self._index
        if index is not None:
            # Nearly always. (Two calls of the system and nothing else, because every commit pays for it.)
            try:
                version, frames, salts, copied = QUICK.unpack(pread(index.descriptor, STATE_BYTES, 0))
                if version == VERSION and (
                    lseek(self._log, 0, SEEK_END) >= frames * index.frame_bytes + LOG_HEADER_BYTES
                ):
                    return None if copied == frames else salts, ""
            except (OSError, struct.error):
                pass
        return self._look_closely()

    def _look_closely(self) -> tuple[bytes | None, str]:
        """`look_before`, where something is not as it nearly always is, or is not known yet."""
        state = None if self._index is None else self._index.read()
        if state is None:
            return b"", ""
        generation = None if state.copied == state.frames else state.salts
        if state.bytes:
            try:
                if self._log < 0:
                    self._log = os.open(self._wal_path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
                if lseek(self._log, 0, SEEK_END) < state.bytes:
                    return generation, self._what_is_missing()
            except OSError:
                # It is gone, which the look after the commit says; or this process has too many files open, and nothing is known.
                pass
        return generation, ""

    def _what_is_missing(self) -> str:
        """The log is shorter than its index said. Is that the index of this file's log?"""
        state = None if self._index is None else self._index.read_anew()
        size = os.stat(self._wal_path).st_size
        if state is None or size >= state.bytes:
            return ""
        return f"{self._wal_path} was cut off at {size} bytes, and had {state.bytes} bytes of commits"

    def examine(self) -> str:
        """As `look`, and besides whether the log is as long as its index says, and the one that the index describes. Any thread:
        where others write just now, the log says nothing, and is looked at again another time."""
        trouble = self.look()[1]
        before = None if self._index is None or trouble else self._index.read()
        if before is None or not before.frames:
            return trouble
        assert self._index is not None
        try:
            with open(self._wal_path, "rb", buffering=0) as log:
                salts = log.read(SALTS.stop)[SALTS]
            missing = self._what_is_missing()
        except OSError:
            return ""
        after = self._index.read()
        if after is None or (after.frames, after.salts) != (before.frames, before.salts):
            return ""
        if missing:
            return missing
        if salts != before.salts and self._index.read_anew() == after:
            return f"{self._wal_path} has the content of another write-ahead log"
        return ""

    @property
    def has_lost_its_log(self) -> bool:
        """The file is the same, but its write-ahead log is not. SQLite does not look at that when it closes the last
        connection: it would write what is in the old log over what others have written since."""
        try:
            file = _identity(os.stat(self._path))
        except OSError:
            return False
        return file == self.identity and self.examine() != ""


def identity_of(path: str) -> Identity | None:
    """Which file has this name now; None where none has."""
    try:
        return _identity(os.stat(path))
    except OSError:
        return None


def _identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino
