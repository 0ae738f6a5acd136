"""WalIndex: what SQLite's own index of the write-ahead log says about the log: how many frames of it are committed, and how many
of them were copied into the file.

The index lies in memory that all processes share, the file -shm. It is read through the descriptor that SQLite itself has on it,
because to open and close the file here would drop the locks that this process has on it.

Source: https://sqlite.org/walformat.html, sections 2.1 and 2.3: versions of SQLite that share a file agree about it.

Rule of this file: it reads. Where the index cannot be read (not on Linux), it says so.
"""

from __future__ import annotations

import struct
from os import pread
from typing import NamedTuple

from reactdb.store.file import guards

# The header, which is there twice; frames copied.
STATE = struct.Struct("=48s48sI")
# Of the header: version, whether it was initialised, page size, frames, salts.
HEADER = struct.Struct("=I8xBxHI12x8s8x")
# What is asked for before each commit: version, frames, salts; frames copied.
QUICK = struct.Struct("=I12xI12x8s56xI")
STATE_BYTES = QUICK.size
VERSION = 3_007_000
LOG_HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24


class LogState(NamedTuple):
    """A log as its index has it.

    Attributes:
        frames: That are committed since it was begun.
        copied: Of these, into the file. Where that is all of them, the next commit may begin the log anew.
        salts: In its header; others each time that it is begun anew.
        bytes: That its file has at least. It may have more: see `wal_room`.
    """

    frames: int
    copied: int
    salts: bytes
    bytes: int


class WalIndex:
    """See the head of this file. Any thread, while this process has a connection to the file.

    Attributes:
        descriptor: Of the index; -1 until it was found.
        frame_bytes: Of each frame of the log; 0 until it was read.
    """

    __slots__ = ("_path", "descriptor", "frame_bytes")

    def __init__(self, path: str) -> None:
        """`path`: of the database."""
        self._path = path + "-shm"
        self.descriptor = -1
        self.frame_bytes = 0

    def read(self) -> LogState | None:
        """The state of the log; None where it cannot be known. It stands still while this process has the write lock, but for
        `copied`, which may grow."""
        state = self._read()
        if state is None:
            # It was not looked for yet; or somebody was writing there just now.
            (found,) = guards.find_descriptors(self._path)
            if found is not None:
                self.descriptor = found
                state = self._read()
        return state

    def read_anew(self) -> LogState | None:
        """The same, where it would be bad news: after making sure that it is the index of this file."""
        if not guards.is_of(self.descriptor, self._path):
            self.descriptor = -1
        return self.read()

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
