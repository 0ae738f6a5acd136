"""File identity: the file behind a path, or behind a descriptor.

A file may have several names, and a name may later belong to another file. So everything that a process knows about a
file (its open engine, its descriptors, the reason not to open it) is keyed by device and inode, everywhere.

Rule of this file: it never opens a file. To close it again would drop the locks of every connection that this process has on it
(https://sqlite.org/howtocorrupt.html, section 2.2).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable

from reactdb.errors import ReactDBError

# (device, inode)
FileIdentity = tuple[int, int]

# The files that this process has open, by descriptor: on Linux.
DESCRIPTORS = "/proc/self/fd"
# struct flock, of the locks on these descriptors: type, whence, start, length, process.
FLOCK = struct.Struct("@hhqqi4x")


def read_identity(path: str) -> FileIdentity | None:
    """Which file has this name now; None where none has."""
    try:
        return identity_of_status(os.stat(path))
    except OSError:
        return None


def identity_of_status(status: os.stat_result) -> FileIdentity:
    """Which file this is the status of."""
    return status.st_dev, status.st_ino


def is_of(descriptor: int, path: str) -> bool:
    """Whether a descriptor belongs to the file of this name now. Negative: no descriptor."""
    try:
        return identity_of_status(os.fstat(descriptor)) == read_identity(path)
    except OSError:
        return False


def find_descriptors(*paths: str) -> list[int | None]:
    """For each file a descriptor of this process, from whichever code opened it; None where there is none, or no
    list."""
    places = {read_identity(path): place for place, path in enumerate(paths)}
    places.pop(None, None)
    descriptors: list[int | None] = [None] * len(paths)
    try:
        names = os.listdir(DESCRIPTORS)
    except OSError:
        return descriptors
    # The newest are likely to have the highest numbers.
    for name in reversed(names):
        if not places:
            break
        try:
            identity = identity_of_status(os.fstat(int(name)))
        except (OSError, ValueError):
            continue
        place = places.pop(identity, None)
        if place is not None:
            descriptors[place] = int(name)
    return descriptors


# Files that this process must not open for the rest of its life, with a function that makes the error. A connection
# of this process stays open on each of them, so that no other file gets that inode.
_refused: dict[FileIdentity, Callable[[str], ReactDBError]] = {}


def refuse(path: str, make_error: Callable[[str], ReactDBError]) -> None:
    """Let `check_fit` refuse the file from now on. The first reason counts."""
    identity = read_identity(path)
    if identity is not None:
        _refused.setdefault(identity, make_error)


def check_fit(path: str) -> None:
    """Called before a file is opened. Raises: StorageMoved, ForkedDatabase: Whatever `refuse` was given."""
    if not _refused:
        return
    identity = read_identity(path)
    if identity in _refused:
        raise _refused[identity](path)
