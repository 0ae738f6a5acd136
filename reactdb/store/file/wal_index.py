"""WalIndex: SQLite's index of the write-ahead log: how many frames are committed, and how many of them have been
copied into the file.

The index is in memory that all processes share, the file -shm. It is read through SQLite's own descriptor of it,
because opening and closing the file here would drop this process's locks on it.

Source: https://sqlite.org/walformat.html, sections 2.1 and 2.3. Versions of SQLite that share a file agree about this format.

Rule of this file: it reads. Where the index cannot be read (elsewhere than on Linux), it says so.
"""

from __future__ import annotations

import os
import struct
from os import pread
from typing import NamedTuple

from reactdb.store.file.identity import find_descriptors, is_of

# The two copies of the header; frames copied.
STATE = struct.Struct("=48s48sI")
# In the header: version, whether it is initialised, page size, frames, salts.
HEADER = struct.Struct("=I8xBxHI12x8s8x")
# Read before each commit: version, frames, salts; frames copied.
QUICK = struct.Struct("=I12xI12x8s56xI")
STATE_BYTES = QUICK.size
VERSION = 3_007_000
LOG_HEADER_BYTES = 32
# Readers of the log each lock one of these five bytes of the index: UNIX_SHM_BASE is 120, and WAL_READ_LOCK(0) is 3.
READ_LOCKS = (123, 5)
# The first is of readers that began when all of the log was in the file. They are not in the way of its restart.
LOG_READ_LOCKS = (124, 4)
# The writer locks this byte from before its first write into the log until its commit can be read: WAL_WRITE_LOCK is 0.
WRITE_LOCK = (120, 1)
# `struct flock` of Linux: type, whence, start, length, process.
LOCK = struct.Struct("@hhqqi4x")
FRAME_HEADER_BYTES = 24


class LogState(NamedTuple):
    """A log, as its index describes it.

    Attributes:
        frames: How many frames are committed since the log was begun.
        copied: How many of the frames have been copied into the file. After the last, the next commit may restart the
            log.
        salts: The salts in the log's header. They change at each restart of the log.
        bytes: The least size of the log. It may be larger: see `wal_room`.
    """

    frames: int
    copied: int
    salts: bytes
    bytes: int


class WalIndex:
    """See the head of this file. Thread safety: any thread, while this process has a connection to the file.

    Attributes:
        descriptor: A descriptor of the index; -1 until it was found.
        frame_bytes: The size of a frame of the log; 0 until it is known.
    """

    __slots__ = ("_path", "descriptor", "frame_bytes")

    def __init__(self, path: str) -> None:
        """`path`: the path of the database."""
        self._path = path + "-shm"
        self.descriptor = -1
        self.frame_bytes = 0

    def read(self) -> LogState | None:
        """The state of the log; None where it cannot be known. With the write lock held, only `copied` can change."""
        state = self._read()
        if state is None:
            # The descriptor is not known yet, or another process was writing to the index just now.
            (descriptor,) = find_descriptors(self._path)
            if descriptor is not None:
                self.descriptor = descriptor
                state = self._read()
        return state

    def read_anew(self) -> LogState | None:
        """The same, after making sure that the descriptor is of this file's index. Called before bad news is believed."""
        if not is_of(self.descriptor, self._path):
            self.descriptor = -1
        return self.read()

    def is_locked_elsewhere(self, locks: tuple[int, int]) -> bool | None:
        """Whether another process has one of these locks now; None where that cannot be known. It asks the system who
        has the locks, and takes none: the system names only processes other than this one."""
        if self.descriptor < 0:
            return None
        try:
            # Imported here because not every system has it.
            import fcntl

            asked = LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, *locks, 0)
            found = LOCK.unpack(fcntl.fcntl(self.descriptor, fcntl.F_GETLK, asked))
        except (ImportError, OSError, struct.error):
            return None
        return bool(found[0] != fcntl.F_UNLCK)

    def _read(self) -> LogState | None:
        try:
            one, two, copied = STATE.unpack(pread(self.descriptor, STATE_BYTES, 0))
        except (OSError, struct.error):
            return None
        version, is_made, page_bytes, frames, salts = HEADER.unpack(one)
        if one != two or version != VERSION or not is_made:
            return None
        self.frame_bytes = FRAME_HEADER_BYTES + (65536 if page_bytes == 1 else page_bytes)
        return LogState(frames, copied, salts, LOG_HEADER_BYTES + frames * self.frame_bytes if frames else 0)
