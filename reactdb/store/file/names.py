"""Names: a database has one name, and so one write-ahead log.

SQLite names the log after the path by which a file was opened. A file with two names (a hard link, or a bind mount of the file
alone) would have two logs. Each of them is whole, and knows nothing of the other: commits of both get the same numbers, and what
one log has is lost as soon as the other is copied into the file. So a file with more than one link is refused, to write and to
read: nobody can see whether a log lies beside another name, which may be in any folder.

The number of links says nothing about bind mounts, and a link may be made or removed while the file is open. Therefore every
process that has the file open says which log it uses, by a read lock on one byte of the file, far behind every page. Which byte
that is follows from the folder and the name that the log stands in, and not from the inode of the log, because each time that the
last process closes the file SQLite removes the log, and the next one makes another. Whoever finds a lock on another byte is
refused. The locks of a process that dies are free at once.

Symbolic links are no names: they are followed before a file is opened.

Rule of this file: it looks at names and locks. It opens nothing (see `identity`).
"""

from __future__ import annotations

import os
import zlib

from reactdb.errors import CannotOpen
from reactdb.logs import logger
from reactdb.store.file.identity import find_descriptors
from reactdb.store.file.locks import FLOCK
from reactdb.store.file.sqlite import file_bytes

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

# Where the bytes of the logs begin, and how many there are: as many as a CRC-32 has values. Locks reach beyond the end of a file.
# Two logs that share a byte, one pair in four thousand million, are not told apart.
LOGS = 1 << 62
LOG_COUNT = 1 << 32
# How many other names of a file an error lists.
MOST_NAMES = 3


def check_names(path: str) -> None:
    """Called before a file is opened, to write or to read. A missing file is no fault.

    Raises:
        CannotOpen: It has more than one link.
    """
    try:
        status = os.stat(path)
    except OSError:
        return
    if status.st_nlink > 1 and os.path.isfile(path):
        others = _others(path, status.st_ino)
        known = f", also {', '.join(others)}" if others else ""
        with_log = [name for name in (path, *others) if file_bytes(name + "-wal")]
        keep = f"keep {with_log[0]}, which has" if len(with_log) == 1 else "keep the one that has"
        raise CannotOpen(
            path,
            f"it has {status.st_nlink} names (hard links{known}), and SQLite keeps a write-ahead log for each name, so that "
            f"commits would be lost; close it everywhere and remove the other name ({keep} a -wal beside it), or copy the file "
            "together with that -wal (`cp`) and open the copy",
        )


def _others(path: str, inode: int) -> list[str]:
    """Some other names of the file in its folder. The rest may be anywhere on its disk."""
    found = []
    try:
        with os.scandir(os.path.dirname(path)) as entries:
            for entry in entries:
                if len(found) == MOST_NAMES:
                    break
                if entry.inode() == inode and entry.path != path and not entry.is_symlink():
                    found.append(entry.path)
    except OSError:
        pass
    return sorted(found)


def hold_log(path: str) -> None:
    """Say which log this process uses, for as long as it has the file open, and look that nobody uses another one. Called while a
    connection of this process has the file open, the last time while it reads a file in WAL mode, and before anything is written.

    The lock belongs to the process. SQLite sees to it that it stays: it closes no descriptor of the file, and takes back no lock
    on all of it, as long as a connection of this process has the file open in WAL mode. Elsewhere than on Linux nothing is done.

    Raises:
        CannotOpen: Another process has the file open by another name.
    """
    (file,) = find_descriptors(path)
    if fcntl is None or file is None:
        return
    own = log_byte(path)
    try:
        fcntl.fcntl(file, fcntl.F_SETLK, FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, own, 1, 0))
        for first, end in ((LOGS, own), (own + 1, LOGS + LOG_COUNT)):
            if first == end:
                continue
            # A lock that nobody could have beside a read lock: so the answer names one that is there. (Not one of this process.)
            question = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, first, end - first, 0)
            found, _, _, _, process = FLOCK.unpack(fcntl.fcntl(file, fcntl.F_GETLK, question))
            if found != fcntl.F_UNLCK:
                raise CannotOpen(path, _other_log(process))
    except OSError as error:
        # SQLite's own attempts come to the same, and say so.
        logger.debug("the log of %s cannot be named by a lock: %s", path, error)


def log_byte(path: str) -> int:
    """The byte that stands for the log of this name: a bind mount of the folder is the same folder."""
    folder, name = os.path.split(path)
    status = os.stat(folder)
    place = b"%d:%d:%b" % (status.st_dev, status.st_ino, os.fsencode(name))
    return LOGS + zlib.crc32(place)


def _other_log(process: int) -> str:
    # A process outside of this container has no number here.
    who = f"process {process}" if process > 0 else "another process"
    return (
        f"{who} has it open by another name (a hard link, or a bind mount of the file without its folder), and SQLite keeps a "
        "write-ahead log for each name, so that commits would be lost; open it by that name, or close it there first; mount "
        "its whole folder in the place of the file"
    )
