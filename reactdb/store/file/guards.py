"""Guards: what is looked at before a file is trusted: where it lies, and whether locks on it hold.

SQLite is right only where locks are. On a network file system they may hold on one machine and not on the next, or not at all,
and then every write is acknowledged and the file is ruined. So a file on one is refused by the name of the file system, and
everywhere the kernel is asked whether the lock that SQLite has just taken is there.

Rule of this file: it looks and says what it saw. It never opens the database file: closing it again would drop the locks of
every connection that this process has on it (https://sqlite.org/howtocorrupt.html, section 2.2).
"""

from __future__ import annotations

import os
import struct

from reactdb.errors import CannotOpen, StorageMoved
from reactdb.logs import logger
from reactdb.store.file import sqlite

try:
    import fcntl
except ImportError:
    # Windows: there a network drive is refused by SQLite, which cannot map its shared memory.
    fcntl = None  # type: ignore[assignment]


MOUNTS = "/proc/self/mountinfo"
DESCRIPTORS = "/proc/self/fd"

# File systems that other machines can write to behind the kernel's back, by their names in the table of mounts. Those of
# virtual machines (9p, vboxsf, vmhgfs, prl_fs) are shared with the host, which does not see the guest's locks.
NETWORK = frozenset(
    [
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "davfs",
        "fhgfs",
        "gpfs",
        "lustre",
        "ncp",
        "ncpfs",
        "nfs",
        "nfs3",
        "nfs4",
        "orangefs",
        "prl_fs",
        "pvfs2",
        "smb2",
        "smb3",
        "smbfs",
        "vboxsf",
        "vmhgfs",
    ]
)
# The same through FUSE, whose other kinds keep their files on this machine. The part after `fuse.`.
NETWORK_FUSE = frozenset(
    [
        "afp",
        "beegfs",
        "blobfuse",
        "blobfuse2",
        "ceph",
        "ceph-fuse",
        "curlftpfs",
        "davfs",
        "davfs2",
        "gcsfuse",
        "glusterfs",
        "goofys",
        "grpcfuse",
        "gvfsd-fuse",
        "hdfs",
        "juicefs",
        "lizardfs",
        "mfs",
        "moosefs",
        "mount-s3",
        "mountpoint-s3",
        "osxfs",
        "quobyte",
        "rclone",
        "s3backer",
        "s3fs",
        "saunafs",
        "seaweedfs",
        "smbnetfs",
        "sshfs",
        "vmhgfs-fuse",
        "weed",
        "webdavfs",
    ]
)

# Where SQLite keeps its locks: those who have a file open in WAL mode hold a read lock on these bytes of it, and on one byte of
# its -shm. Source: https://github.com/sqlite/sqlite, src/os.h, SHARED_FIRST and SHARED_SIZE; src/os_unix.c, UNIX_SHM_DMS.
SHARED_FIRST = 0x40000000 + 2
SHARED_SIZE = 510
SHM_IN_USE = 128
# Behind them, in a page that never holds data, a byte that SQLite does not use.
SPARE = SHARED_FIRST + SHARED_SIZE
# struct flock: type, whence, start, length, process.
FLOCK = struct.Struct("@hhqqi4x")


def refuse_network(path: str) -> None:
    """Raises: CannotOpen: The file is, or would be, on a network file system."""
    kind = file_system(path)
    if is_network(kind):
        raise CannotOpen(
            path,
            f"it is on a network file system ({kind}), where locks cannot be relied on and a database gets damaged; "
            "keep it on a local disk, or insist with allow_network=True",
        )


def is_network(kind: str) -> bool:
    """Whether this is the name of a network file system, as the table of mounts has it."""
    return kind in NETWORK or (kind.startswith("fuse.") and kind[5:] in NETWORK_FUSE)


def file_system(path: str) -> str:
    """The name of the file system that the file, or its folder where it is missing, lies on; "" where that cannot be known."""
    for place in (path, os.path.dirname(path)):
        try:
            device = os.stat(place).st_dev
            break
        except OSError:
            continue
    else:
        return ""
    # What has a device of its own is on this machine. That is most of them, and saves reading the table.
    if not hasattr(os, "major") or os.major(device):
        return ""
    try:
        with open(MOUNTS, "rb") as file:
            table = file.read()
    except OSError:
        return ""
    return find_mount(table, device, os.fsencode(os.path.realpath(path)))


def find_mount(table: bytes, device: int, path: bytes) -> str:
    """The file system's name from a table of mounts: by its device, or (Btrfs has several) by the longest folder above.

    Source: proc(5), "/proc/pid/mountinfo": number, parent, major:minor, root, folder, options, tags..., "-", name, source.
    """
    wanted = b"%d:%d" % (os.major(device), os.minor(device))
    longest, by_folder = -1, b""
    for line in table.splitlines():
        before, dash, after = line.partition(b" - ")
        fields = before.split(b" ")
        if not dash or len(fields) < 5:
            continue
        kind = after.split(b" ", 1)[0]
        if fields[2] == wanted:
            return kind.decode("ascii", "replace")
        folder = unescape(fields[4]).rstrip(b"/")
        # A later mount on the same folder covers the earlier.
        if len(folder) >= longest and (path == folder or path.startswith(folder + b"/")):
            longest, by_folder = len(folder), kind
    return by_folder.decode("ascii", "replace")


def unescape(folder: bytes) -> bytes:
    """Blanks, tabs, newlines and backslashes are octal in the table."""
    for code, character in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
        folder = folder.replace(code, character)
    return folder


def make_sure_of_locks(path: str) -> None:
    """See that locks on the file hold, and that this process has those that SQLite believes it has. Called while a connection of
    this process is reading the file.

    A lock is taken, and the kernel asked for it as an open file description asks: to those the process's own locks are somebody
    else's. That opens nothing and waits for nobody. Where it cannot be asked (not Linux, an old kernel) nothing is said.

    SQLite may believe in locks that are gone: those of the parent, in a child of fork(), and those of a process that has opened
    and closed the file by itself. It takes no others as long as a connection of that time is left. So they are taken here,
    which changes nothing where they are there.

    Raises:
        CannotOpen: A lock that was granted is not there.
    """
    if fcntl is None or not hasattr(fcntl, "F_OFD_GETLK"):
        return
    file, shm = find_descriptors(path, path + "-shm")
    if file is None:
        return
    try:
        fcntl.fcntl(file, fcntl.F_SETLK, FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, SPARE, 1, 0))
        question = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, SPARE, 1, 0)
        try:
            answer = fcntl.fcntl(file, fcntl.F_OFD_GETLK, question)
        finally:
            fcntl.fcntl(file, fcntl.F_SETLK, FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, SPARE, 1, 0))
        fcntl.fcntl(file, fcntl.F_SETLK, FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, SHARED_FIRST, SHARED_SIZE, 0))
        if shm is not None:
            fcntl.fcntl(shm, fcntl.F_SETLK, FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, SHM_IN_USE, 1, 0))
    except OSError as error:
        # SQLite's own attempts come to the same, and say so.
        logger.debug("the locks on %s cannot be tested: %s", path, error)
        return
    # It names the lock that is in the way: a read lock. The question come back as it was is no answer.
    if FLOCK.unpack(answer)[0] != fcntl.F_RDLCK:
        raise CannotOpen(
            path,
            "locks on it have no effect (one that was granted is not there), so that two writers would damage it; "
            "keep it on a file system whose locks work",
        )


def find_descriptors(*paths: str) -> list[int | None]:
    """For each file a descriptor that this process has on it, whoever opened it; None where there is none, or no list."""
    wanted: dict[tuple[int, int], int] = {}
    found: list[int | None] = [None] * len(paths)
    try:
        for place, path in enumerate(paths):
            status = os.stat(path)
            wanted[status.st_ino, status.st_dev] = place
    except OSError:
        pass
    try:
        names = os.listdir(DESCRIPTORS)
    except OSError:
        return found
    # The newest are likely to have the highest numbers.
    for name in reversed(names):
        if not wanted:
            break
        try:
            status = os.fstat(int(name))
        except (OSError, ValueError):
            continue
        place_found = wanted.pop((status.st_ino, status.st_dev), None)
        if place_found is not None:
            found[place_found] = int(name)
    return found


def who_locks(path: str, *, is_any: bool = False, descriptor: int | None = None) -> int | None:
    """The process that keeps this one from reading the file (with `is_any`: from having it alone), by its lock; None where there
    is none, or that cannot be known. Called while this process has a connection to it; `descriptor`: that one's, if known."""
    if descriptor is None:
        (descriptor,) = find_descriptors(path)
    if fcntl is None or descriptor is None:
        return None
    kind = fcntl.F_WRLCK if is_any else fcntl.F_RDLCK
    question = FLOCK.pack(kind, os.SEEK_SET, SHARED_FIRST, SHARED_SIZE, 0)
    try:
        found, _, _, _, process = FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, question))
    except OSError:
        return None
    # Of a process of another machine, or outside of this container, there is no number.
    return process if found != fcntl.F_UNLCK and process > 0 else None


def is_of(descriptor: int | None, path: str) -> bool:
    """Whether a descriptor is one of this file (still)."""
    try:
        return descriptor is not None and os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False


# Files that this process cannot use any more, by inode and device. A connection is left open on each of them, so
# that no other file gets that inode.
_lost: set[tuple[int, int]] = set()


def note_lost_log(path: str) -> None:
    """A connection that was not closed has a write-ahead log that is gone."""
    _note(path, _lost)


def _note(path: str, noted: set[tuple[int, int]]) -> None:
    try:
        status = os.stat(path)
    except OSError:
        return
    noted.add((status.st_ino, status.st_dev))


def refuse_unfit(path: str) -> None:
    """What this process cannot do with the file for as long as it lives.

    Raises:
        StorageMoved: SQLite would go on with a log that is gone.
    """
    if not _lost:
        return
    try:
        status = os.stat(path)
    except OSError:
        return
    identity = (status.st_ino, status.st_dev)
    if identity in _lost:
        raise StorageMoved(
            f"{path} cannot be opened again by this process, which had it open when its write-ahead log was taken away; "
            "start the program again"
        )


class WalResetNotice:
    """Says once a process that this SQLite has the WAL-reset bug, and only where that matters: when somebody else writes too.

    reactdb checkpoints around the bug (see `sqlite`), so a process alone, or several that use reactdb, are safe. Another
    program on the same file, with SQLite's own automatic checkpoints, is not, and reactdb cannot know which it is. So it is a
    warning in the log of whoever keeps one, and never a line on the screen of all the others.
    """

    def __init__(self) -> None:
        self.is_given = False

    def another_wrote(self, path: str) -> None:
        if self.is_given or not sqlite.has_wal_reset_bug():
            return
        self.is_given = True
        import logging

        # Worth a line in a log, and not one on the screen of a program that keeps none.
        quiet_logger = logging.getLogger("reactdb.sqlite")
        quiet_logger.addHandler(logging.NullHandler())
        quiet_logger.warning(
            "%s is written by another process too, and SQLite %s has the WAL-reset bug (mended in 3.51.3): reactdb's own "
            "checkpoints avoid it, those of another program that opens the file with such an SQLite can damage it; "
            "`pip install reactdb[sqlite]` brings a newer SQLite",
            path,
            ".".join(map(str, sqlite.VERSION)),
        )


wal_reset = WalResetNotice()
