"""FileGuard: is the file still the file that was opened, and is its write-ahead log whole?

SQLite continues to write, and to acknowledge, into a file that has been unlinked, renamed or replaced, and into a
write-ahead log that was deleted or cut off. Two `stat` calls after each commit notice that a name now belongs to
another file, before the write is acknowledged. Two short reads before each commit notice a truncated log, before
anything is written behind the gap.

Two calls, and not one: either name can be taken away alone, and later writes are lost. An `fstat` of a descriptor
does not see a rename, and saves only a quarter of a `stat`, most of which is spent in Python (3.0 and 2.2 µs).

Rule of this file: it looks and reports. It opens the log, on which SQLite has no locks, and never the database file
(see `identity`).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from contextlib import suppress
from os import SEEK_END, lseek, pread, stat
from sys import is_finalizing

from reactdb.errors import StorageMoved
from reactdb.store.file.identity import FileIdentity, identity_of_status, read_identity
from reactdb.store.file.wal_index import (
    LOG_HEADER_BYTES,
    LOG_READ_LOCKS,
    QUICK,
    READ_LOCKS,
    STATE_BYTES,
    VERSION,
    WRITE_LOCK,
    WalIndex,
)

# Where a log's header has its salts: https://sqlite.org/fileformat2.html, section 4.1.
SALTS = slice(16, 24)


class FileGuard:
    """The file and its write-ahead log, as they were when the database was opened.

    Attributes:
        identity: The file.
        is_written: The file itself was written since this was last set to False: by a checkpoint, or by another
            program.
    """

    __slots__ = ("_index", "_log", "_path", "_wal", "_wal_path", "_written_ns", "identity", "is_written")

    def __init__(self, path: str, *, has_log: bool = True) -> None:
        """Without `has_log` the file is read alone: it has neither a log nor an index of a log."""
        self._path = path
        self._wal_path = path + "-wal"
        self.identity = read_identity(path)
        # When the file was last written to. Commits write to the log, and leave this as it is.
        self._written_ns = written_ns(path)
        self.is_written = False
        # A log exists from the first read in WAL mode on, as long as a connection is open.
        self._wal: FileIdentity | None = read_identity(self._wal_path)
        self._index = WalIndex(path) if has_log else None
        # A descriptor of the log, to read its size: that costs a fifth of a `stat`. Negative until the first time.
        self._log = -1

    def close(self) -> None:
        """Called before the last connection is closed, which removes the log: some systems cannot remove an open file."""
        log, self._log = self._log, -1
        if log >= 0:
            with suppress(OSError):
                os.close(log)

    def __del__(self, _is_finalizing: Callable[[], bool] = is_finalizing) -> None:
        # The end of the program closes the descriptor, and Python may have taken `os` away then.
        if not _is_finalizing():
            self.close()

    def look(self) -> tuple[int, str]:
        """Called after each commit: (size of the write-ahead log in bytes, the trouble). The second is empty without
        trouble."""
        try:
            file, wal = stat(self._path), stat(self._wal_path)
        except OSError as error:
            if self._wal is None and error.filename == self._wal_path:
                # There has been no log yet.
                return 0, ""
            return 0, f"{error.filename} is gone"
        if (file.st_dev, file.st_ino) != self.identity:
            return 0, f"{self._path} is another file now"
        if file.st_mtime_ns != self._written_ns:
            self._written_ns = file.st_mtime_ns
            self.is_written = True
        if (wal.st_dev, wal.st_ino) != self._wal:
            if self._wal is not None:
                return 0, f"{self._wal_path} is another file now"
            self._wal = identity_of_status(wal)
        return wal.st_size, ""

    def look_before(self) -> tuple[bytes | None, str]:
        """Called with the write lock held, before a write: (the log that gets the commit, the trouble).

        The first is the salts of the log: None if the next commit may restart the log, empty if that cannot be known.
        """
        index = self._index
        if index is not None:
            # The ordinary case, in two system calls and nothing else, because every commit pays for them.
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
        """`look_before`, if something is out of the ordinary or not known yet."""
        state = None if self._index is None else self._index.read()
        if state is None:
            return b"", ""
        generation = None if state.copied == state.frames else state.salts
        if state.bytes:
            try:
                if self._log < 0:
                    self._log = os.open(self._wal_path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
                if lseek(self._log, 0, SEEK_END) < state.bytes:
                    return generation, self._describe_missing_log()
            except OSError:
                # The log is gone, which `look` says after the commit; or too many files are open, and nothing is known.
                pass
        return generation, ""

    def _describe_missing_log(self) -> str:
        """The log is shorter than its index said: says so, after making sure that the index is of this file's log."""
        state = None if self._index is None else self._index.read_anew()
        size = os.stat(self._wal_path).st_size
        if state is None or size >= state.bytes:
            return ""
        return f"{self._wal_path} was cut off at {size} bytes, and had {state.bytes} bytes of commits"

    def examine(self) -> str:
        """As the second result of `look`, and two more checks: is the log as long as its index says, and does the
        index describe this log? From any thread. While others write, the result is unknown, and a later call
        decides."""
        trouble = self.look()[1]
        before = None if self._index is None or trouble else self._index.read()
        if before is None or not before.frames:
            return trouble
        assert self._index is not None
        try:
            salts = header_of(self._wal_path)[SALTS]
            missing = self._describe_missing_log()
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

    def has_foreign_reader(self) -> bool | None:
        """Whether another process has a read of the write-ahead log open now; None where that cannot be known."""
        if self._index is None or self._index.read_anew() is None:
            return None
        return self._index.is_locked_elsewhere(READ_LOCKS)

    def has_foreign_writer(self) -> bool | None:
        """Whether another process is writing to the write-ahead log now; None where that cannot be known. If not, everything
        that was written there can be read."""
        return None if self._index is None else self._index.is_locked_elsewhere(WRITE_LOCK)

    def is_log_kept(self) -> bool:
        """Whether a read of another process keeps the log from being begun anew. False where that cannot be known."""
        return self._index is not None and bool(self._index.is_locked_elsewhere(LOG_READ_LOCKS))

    @property
    def has_lost_its_log(self) -> bool:
        """The file is the same, but its write-ahead log is not. SQLite does not check that at the close of the last
        connection: it would write the old log's pages over newer data of others."""
        return (
            self.identity is not None and read_identity(self._path) == self.identity and self.examine() != ""
        )


def written_ns(path: str) -> int:
    """When a file was last written to, in nanoseconds since 1970; 0 where there is none."""
    try:
        return stat(path).st_mtime_ns
    except OSError:
        return 0


def header_of(wal_path: str) -> bytes:
    """The beginning of the write-ahead log. By `os`: a program that ends may still read, and Python has removed
    `open` by then.

    Raises:
        OSError: There is none, or it cannot be read.
    """
    log = os.open(wal_path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
    try:
        return os.read(log, LOG_HEADER_BYTES)
    finally:
        os.close(log)


def describe_lost_log(path: str) -> StorageMoved:
    """The reason for which this process cannot open the file again: it could not close a connection whose write-ahead
    log is missing."""
    return StorageMoved(
        f"{path} cannot be opened again by this process, which had it open when its write-ahead log was taken away; "
        "start the program again"
    )
