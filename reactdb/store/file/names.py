"""Names: a database has one name, and so one write-ahead log.

SQLite names the log after the path by which a file was opened. A file with two names (a hard link, or a bind mount of
the file alone) would have two logs. Each log is whole, and knows nothing of the other: commits of both get the same
numbers, and copying one log into the file loses the commits of the other. So a file with more than one link is
refused, to write and to read: it cannot be known whether a log lies beside another name, in any folder.

The number of links says nothing about bind mounts, and a link may be made or removed while the file is open.
Therefore every process with the file open announces its log, by a read lock on one byte of the file, far behind every
page. The byte follows from the folder and the name of the log. It does not follow from the log's inode, because
SQLite removes the log when the last process closes the file, and the next process makes another. A process that finds
a lock on another byte is refused. The locks of a dead process are free at once.

A process that dies, or whose file is renamed while it is open, leaves a log behind, and SQLite does not find that log
by another name. Therefore the path of the log is noted in an extended attribute of the file, before anything is
written. A process that opens the file by another name, while that log exists, is refused. The note is removed with
the log.

Symbolic links are no names: they are followed before a file is opened.

Rule of this file: it looks at names, locks and attributes, and never opens the database file (see `identity`).
"""

from __future__ import annotations

import os
import zlib

from reactdb.errors import CannotOpen
from reactdb.logs import logger
from reactdb.store.file.identity import FLOCK, find_descriptors, read_identity
from reactdb.store.file.sqlite import file_bytes
from reactdb.store.file.wal_check import read_id_of_log, read_id_without_log

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

# The place of the first such byte, and their number: as many as a CRC-32 has values. Locks reach beyond the end of a
# file. Two logs that share a byte, one pair in four thousand million, are not told apart.
LOGS = 1 << 62
LOG_COUNT = 1 << 32
# The attribute: the inodes of the file and of the log, and the log's path. (No devices: they may have other numbers after the
# machine was started again.)
NOTE = "user.reactdb.log"
# How many other names of a file an error lists.
MOST_NAMES = 3


def check_names(path: str) -> None:
    """Called before a file is opened, to write or to read. A missing file is no fault.

    Raises:
        CannotOpen: The file has more than one link.
    """
    try:
        status = os.stat(path)
    except OSError:
        return
    if status.st_nlink > 1 and os.path.isfile(path):
        others = _find_other_names(path, status.st_ino)
        known = f", also {', '.join(others)}" if others else ""
        with_log = [name for name in (path, *others) if file_bytes(name + "-wal")]
        keep = f"keep {with_log[0]}, which has" if len(with_log) == 1 else "keep the one that has"
        raise CannotOpen(
            path,
            f"it has {status.st_nlink} names (hard links{known}), and SQLite keeps a write-ahead log for each name, so that "
            f"commits would be lost; close it everywhere and remove the other name ({keep} a -wal beside it), or copy the file "
            "together with that -wal (`cp`) and open the copy",
        )


def _find_other_names(path: str, inode: int) -> list[str]:
    """Some other names of the file in its folder. The rest may be anywhere on its disk."""
    paths: list[str] = []
    try:
        with os.scandir(os.path.dirname(path)) as entries:
            for entry in entries:
                if len(paths) == MOST_NAMES:
                    break
                if entry.inode() == inode and entry.path != path and not entry.is_symlink():
                    paths.append(entry.path)
    except OSError:
        pass
    return sorted(paths)


def note_log(path: str) -> None:
    """Note in the file where its log is. Called by a writer, while the log exists, and before anything is written."""
    status, log = os.stat(path), path + "-wal"
    if hasattr(os, "setxattr") and _read_noted_log(path, status) != log:
        try:
            note = b"%d %d %b" % (status.st_ino, os.stat(log).st_ino, os.fsencode(log))
            os.setxattr(path, NOTE, note)
        except OSError as error:
            logger.debug("where the log of %s is cannot be noted: %s", path, error)


def forget_log(path: str) -> None:
    """Remove the note, if the log of this name is gone. Called when the file was closed."""
    try:
        if _read_noted_log(path, os.stat(path), is_gone=True) == path + "-wal":
            os.removexattr(path, NOTE)
    except OSError as error:
        logger.debug("the note in %s stays: %s", path, error)


def _read_noted_log(path: str, status: os.stat_result, *, is_gone: bool = False) -> str | None:
    """The noted log of the file, if it exists, or `is_gone`; None where none is, or the note was copied with the
    file."""
    if not hasattr(os, "getxattr"):
        return None
    try:
        inode, log_inode, name = os.getxattr(path, NOTE).split(b" ", 2)
        log = os.fsdecode(name)
        there = read_identity(log)
        is_meant = there is None if is_gone else there is not None and there[1] == int(log_inode)
        return log if int(inode) == status.st_ino and is_meant else None
    except (OSError, ValueError):
        return None


def _is_of(log: str, path: str) -> bool:
    """Whether a log may belong to the file. It does not if it names another database: the log got the inode of a
    removed one."""
    named = read_id_of_log(log)
    own = None if named is None else read_id_without_log(path)
    return named is None or own is None or own == named


def claim_log(path: str) -> None:
    """Announce this process's log for as long as it has the file open, and make sure that no other log is used, or
    was left behind. Called while a connection of this process has the file open: before it reads, and again while it
    reads in WAL mode, before anything is written.

    The lock belongs to the process. SQLite keeps it in place: it closes no descriptor of the file, and releases no
    lock on all of it, as long as a connection of this process has the file open in WAL mode. Elsewhere than on Linux
    nothing is done.

    Raises:
        CannotOpen: Another process has the file open by another name, or commits are in the log of another name.
    """
    (file,) = find_descriptors(path)
    if fcntl is None or file is None:
        return
    own = log_byte(path)
    try:
        fcntl.fcntl(file, fcntl.F_SETLK, FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, own, 1, 0))
        for first, end in ((LOGS, own), (own + 1, LOGS + LOG_COUNT)):
            if first == end:
                # A length of 0 would mean everything from there on.
                continue
            # A write lock, impossible beside a read lock: so the answer names an existing lock. (Not one of this
            # process.)
            question = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, first, end - first, 0)
            lock_type, _, _, _, process = FLOCK.unpack(fcntl.fcntl(file, fcntl.F_GETLK, question))
            if lock_type != fcntl.F_UNLCK:
                raise CannotOpen(path, _name_other_log(process))
    except OSError as error:
        # SQLite's own attempts come to the same, and say so.
        logger.debug("the log of %s cannot be named by a lock: %s", path, error)
    # Last: an unused log may be moved.
    _check_no_log_is_left(path)


def _check_no_log_is_left(path: str) -> None:
    left, own = _read_noted_log(path, os.stat(path)), path + "-wal"
    if (
        left
        and left != own
        and read_identity(left) != read_identity(own)
        and file_bytes(left)
        and _is_of(left, path)
    ):
        raise CannotOpen(
            path,
            f"its newest commits are in {left}, the write-ahead log that was left behind when the file was used by another name: "
            f"give the file that name again, or move that log to {own}"
            + (" (where there is another one now)" if file_bytes(own) else "")
            + ", or remove it to do without them",
        )


def log_byte(path: str) -> int:
    """The byte for the log of this name: a bind mount of the folder is the same folder."""
    folder, name = os.path.split(path)
    status = os.stat(folder)
    place = b"%d:%d:%b" % (status.st_dev, status.st_ino, os.fsencode(name))
    return LOGS + zlib.crc32(place)


def _name_other_log(process: int) -> str:
    # A process outside of this container has no number here.
    who = f"process {process}" if process > 0 else "another process"
    return (
        f"{who} has it open by another name (a hard link, or a bind mount of the file without its folder), and SQLite keeps a "
        "write-ahead log for each name, so that commits would be lost; open it by that name, or close it there first; mount "
        "its whole folder in the place of the file"
    )
