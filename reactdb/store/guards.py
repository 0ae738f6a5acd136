"""Guards: what is looked at before a file is trusted: where it lies, and whether locks on it hold.

SQLite is right only where locks are. On a network file system they may hold on one machine and not on the next, or not at all,
and then every write is acknowledged and the file is ruined. So a file on one is refused by the name of the file system, and
everywhere the kernel is asked whether the lock that SQLite has just taken is there.

Rule of this file: it looks and says what it saw. It never opens the database file: closing it again would drop the locks of
every connection that this process has on it (https://sqlite.org/howtocorrupt.html, section 2.2).
"""

from __future__ import annotations

import logging
import os
import struct

from reactdb.errors import CannotOpen
from reactdb.store import sqlite

try:
    import fcntl
except ImportError:
    # Windows: there a network drive is refused by SQLite, which cannot map its shared memory.
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger("reactdb")

MOUNTS = "/proc/self/mountinfo"
DESCRIPTORS = "/proc/self/fd"

# File systems that other machines can write to behind the kernel's back, by their names in the table of mounts. Those of
# virtual machines (9p, vboxsf, vmhgfs, prl_fs) are shared with the host, which does not see the guest's locks.
NETWORK = frozenset(
    "9p afs beegfs ceph cifs coda davfs fhgfs gpfs lustre ncp ncpfs nfs nfs3 nfs4 orangefs prl_fs pvfs2 smb2 smb3 smbfs vboxsf"
    " vmhgfs".split()
)
# The same through FUSE, whose other kinds keep their files on this machine. The part after `fuse.`.
NETWORK_FUSE = frozenset(
    "afp beegfs blobfuse blobfuse2 ceph ceph-fuse curlftpfs davfs davfs2 gcsfuse glusterfs goofys grpcfuse gvfsd-fuse hdfs"
    " juicefs lizardfs mfs moosefs mount-s3 mountpoint-s3 osxfs quobyte rclone s3backer s3fs saunafs seaweedfs smbnetfs sshfs"
    " vmhgfs-fuse weed webdavfs".split()
)

# Where SQLite keeps its locks in a file: those who read hold a read lock on these bytes.
# Source: https://github.com/sqlite/sqlite, src/os.h, SHARED_FIRST and SHARED_SIZE.
SHARED_FIRST = 0x40000000 + 2
SHARED_SIZE = 510
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


def refuse_broken_locks(path: str) -> None:
    """Ask the kernel for the lock that SQLite holds on the file. Called while a connection of this process is reading it.

    The question is an open file description's: to those the process's own locks are somebody else's. It takes no lock and
    opens nothing. Where it cannot be asked (not Linux, an old kernel) nothing is said.

    Raises:
        CannotOpen: The lock is not there, though SQLite was told that it has it.
    """
    if fcntl is None or not hasattr(fcntl, "F_OFD_GETLK"):
        return
    descriptor = find_descriptor(path)
    if descriptor is None:
        return
    question = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, SHARED_FIRST, SHARED_SIZE, 0)
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, question)
    except OSError as error:
        logger.debug("the locks on %s cannot be tested: %s", path, error)
        return
    # It names the lock that is in the way. SQLite's is a read lock; the question come back as it was is no answer.
    if FLOCK.unpack(answer)[0] != fcntl.F_RDLCK:
        raise CannotOpen(
            path,
            "locks on it have no effect (a lock that was granted is not there), so that two writers would damage it; "
            "keep it on a file system whose locks work",
        )


def find_descriptor(path: str) -> int | None:
    """A descriptor that this process has on the file, whoever opened it; None where there is none, or no list of them."""
    try:
        wanted = os.stat(path)
        names = os.listdir(DESCRIPTORS)
    except OSError:
        return None
    # The newest are likely to have the highest numbers.
    for name in reversed(names):
        try:
            status = os.fstat(int(name))
        except (OSError, ValueError):
            continue
        if (status.st_ino, status.st_dev) == (wanted.st_ino, wanted.st_dev):
            return int(name)
    return None


class WalResetNotice:
    """Says once a process that this SQLite has the WAL-reset bug, and only where that matters: when somebody else writes too.

    reactdb checkpoints around the bug (see `sqlite`), so a process alone, or several that use reactdb, are safe. Another
    program on the same file, with SQLite's own automatic checkpoints, is not, and reactdb cannot know which it is.
    """

    def __init__(self) -> None:
        self.is_given = False

    def another_wrote(self, path: str) -> None:
        if self.is_given or not sqlite.has_wal_reset_bug():
            return
        self.is_given = True
        logger.warning(
            "%s is written by another process too, and SQLite %s has the WAL-reset bug (mended in 3.51.3): reactdb's own "
            "checkpoints avoid it, those of another program that opens the file with such an SQLite can damage it; "
            "`pip install reactdb[sqlite]` brings a newer SQLite",
            path,
            ".".join(map(str, sqlite.VERSION)),
        )


wal_reset = WalResetNotice()
