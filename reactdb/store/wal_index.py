"""WalIndex: what SQLite's own index of the write-ahead log says about the log: how many frames of it are committed, and how many
of them were copied into the file.

The index lies in memory that all processes share, the file -shm. It is read through the descriptor that SQLite itself has on it,
because to open and close the file here would drop the locks that this process has on it.

Source: https://sqlite.org/walformat.html, sections 2.1 and 2.3: versions of SQLite that share a file agree about it.

Rule of this file: it reads. Where the index cannot be read (not on Linux; with exclusive=True, where SQLite keeps it in memory of
its own), it says so.
"""

from __future__ import annotations

import struct
from os import pread
from typing import NamedTuple

from reactdb.store import guards

# The header, which is there twice; frames copied.
STATE = struct.Struct("=48s48sI")
STATE_BYTES = STATE.size
# Version, whether it was initialised, page size, frames, salts.
HEADER = struct.Struct("=I8xBxHI12x8s8x")
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


# Of a NamedTuple the quickest way, which takes a third.
new_state = tuple.__new__


class WalIndex:
    """See the head of this file. Any thread, while this process has a connection to the file."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, path: str) -> None:
        """`path`: of the database."""
        self._path = path + "-shm"
        self._descriptor = -1

    def read(self) -> LogState | None:
        """The state of the log; None where it cannot be known. It stands still while this process has the write lock, but for
        `copied`, which may grow."""
        return read_state(self._descriptor) or self._search()

    def _search(self) -> LogState | None:
        """Look for the descriptor, which is not known yet; or somebody was writing to the index just now."""
        (found,) = guards.find_descriptors(self._path)
        if found is None:
            return None
        self._descriptor = found
        return read_state(found)

    def read_anew(self) -> LogState | None:
        """The same, where it would be bad news: after making sure that it is the index of this file."""
        if not guards.is_of(self._descriptor, self._path):
            self._descriptor = -1
        return self.read()


def read_state(descriptor: int) -> LogState | None:
    """None: There is no index here, or somebody was writing to it just now."""
    try:
        one, two, copied = STATE.unpack(pread(descriptor, STATE_BYTES, 0))
    except (OSError, struct.error):
        return None
    if one != two:
        return None
    version, is_made, page_bytes, frames, salts = HEADER.unpack(one)
    if version != VERSION or not is_made:
        return None
    if frames:
        frame_bytes = FRAME_HEADER_BYTES + (65536 if page_bytes == 1 else page_bytes)
        return new_state(LogState, (frames, copied, salts, LOG_HEADER_BYTES + frames * frame_bytes))
    return LogState(0, copied, salts, 0)
