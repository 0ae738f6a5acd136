"""Copying: whether a process is making a backup of a file.

A backup reads one state from its beginning to its end, and a checkpoint cannot empty the write-ahead log past that state. If
a checkpoint waited for the backup, a writer would have to wait, too. So a backup announces itself by a read lock on one byte
of the file, far behind every page, and writers postpone their checkpoints meanwhile. The lock of a dead process is free at once.

Rule of this file: the lock is a hint. Without it, writers only wait longer. (On other systems than Linux, other processes do
not see it.)
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

from reactdb.logs import logger
from reactdb.store.file.identity import FLOCK, find_descriptors

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

# No byte of `names`, which begin at 1 << 62.
COPIED: Final = 1 << 61

_lock = Lock()
# How many backups of each file this process is making: a process does not see its own locks.
_own: Counter[str] = Counter()


@contextmanager
def announce_copy(path: str) -> Iterator[None]:
    """Inside the block, a connection of this process has the file open, and copies it."""
    with _lock:
        _own[path] += 1
        _lock_byte(path)
    try:
        yield
    finally:
        with _lock:
            _own[path] -= 1
            if not _own[path]:
                del _own[path]
                _lock_byte(path)


def is_being_copied(path: str) -> bool:
    """Whether a backup of this file is under way, by any process."""
    if path in _own:
        return True
    (file,) = find_descriptors(path)
    if fcntl is None or file is None:
        return False
    try:
        question = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, COPIED, 1, 0)
        return bool(FLOCK.unpack(fcntl.fcntl(file, fcntl.F_GETLK, question))[0] != fcntl.F_UNLCK)
    except OSError:
        return False


def _lock_byte(path: str) -> None:
    (file,) = find_descriptors(path)
    if fcntl is None or file is None:
        return
    kind = fcntl.F_RDLCK if path in _own else fcntl.F_UNLCK
    try:
        fcntl.fcntl(file, fcntl.F_SETLK, FLOCK.pack(kind, os.SEEK_SET, COPIED, 1, 0))
    except OSError as error:
        logger.debug("a backup of %s cannot be announced: %s", path, error)
