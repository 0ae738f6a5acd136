"""Locks: whether locks on this file can be trusted, and which process holds one.

SQLite relies on locks. On a network file system they may hold on one machine and not on the next, or not at all; then
every write is acknowledged and the file is ruined. So a file on a network file system is refused by the name of that
system. On every other system a lock is taken, and the kernel must report it.

Rule of this file: it looks and reports. It never opens the database file (see `identity`).
"""

from __future__ import annotations

import os

from reactdb.errors import CannotOpen
from reactdb.logs import logger
from reactdb.store.file.identity import FLOCK, find_descriptors

try:
    import fcntl
except ImportError:
    # Windows: there a network drive is refused by SQLite, which cannot map its shared memory.
    fcntl = None  # type: ignore[assignment]


MOUNTS = "/proc/self/mountinfo"

# File systems with writers on other machines, by their names in the table of mounts. Those of virtual machines (9p,
# vboxsf, vmhgfs, prl_fs) are shared with the host, which does not see the guest's locks.
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

# The bytes of SQLite's locks: every process with the file open in WAL mode holds a read lock on these bytes of it,
# and on one byte of its -shm. Source: https://github.com/sqlite/sqlite, src/os.h, SHARED_FIRST and SHARED_SIZE;
# src/os_unix.c, UNIX_SHM_DMS.
SHARED_FIRST = 0x40000000 + 2
SHARED_SIZE = 510
SHM_IN_USE = 128
# A byte behind them that SQLite does not use, in a page without data.
SPARE = SHARED_FIRST + SHARED_SIZE


def refuse_network(path: str) -> None:
    """Raises: CannotOpen: The file is, or would be, on a network file system."""
    kind = read_file_system(path)
    if is_network(kind):
        raise CannotOpen(
            path,
            f"it is on a network file system ({kind}), where locks cannot be relied on and a database gets damaged; "
            "keep it on a local disk, or insist with allow_network=True",
        )


def is_network(kind: str) -> bool:
    """Whether this is the name of a network file system, as the table of mounts has it."""
    return kind in NETWORK or (kind.startswith("fuse.") and kind[5:] in NETWORK_FUSE)


def read_file_system(path: str) -> str:
    """The name of the file system of the file, or of its folder where it is missing; "" where that cannot be
    known."""
    for place in (path, os.path.dirname(path)):
        try:
            device = os.stat(place).st_dev
            break
        except OSError:
            continue
    else:
        return ""
    # A file system with a device of its own is on this machine. Most are, and need no look at the table.
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
    """Make sure that locks on the file hold, and that this process still has SQLite's locks. Called while a
    connection of this process reads the file.

    This takes a lock, and queries the kernel about it as an open file description, for which the locks of the process
    are foreign. It opens nothing and never waits. Where the kernel has no such query (elsewhere than on Linux),
    nothing is checked.

    SQLite may believe in lost locks, because this program opened and closed the file by itself. SQLite takes no other
    locks while a connection of that time is open. So they are taken here; that changes nothing if they exist.

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
    # The answer names the lock in the way, a read lock. A query that comes back unchanged names none.
    if FLOCK.unpack(answer)[0] != fcntl.F_RDLCK:
        raise CannotOpen(
            path,
            "locks on it have no effect (a granted lock was not reported back), so that two writers would damage it; "
            "keep it on a file system whose locks work",
        )


def find_lock_holder(path: str, *, is_any: bool = False) -> int | None:
    """The process whose lock keeps this one from reading the file (with `is_any`: from having the file to itself).
    None without such a process, or where it cannot be known. Called while this process has a connection to the
    file."""
    (descriptor,) = find_descriptors(path)
    if fcntl is None or descriptor is None:
        return None
    kind = fcntl.F_WRLCK if is_any else fcntl.F_RDLCK
    question = FLOCK.pack(kind, os.SEEK_SET, SHARED_FIRST, SHARED_SIZE, 0)
    try:
        lock_type, _, _, _, process = FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, question))
    except OSError:
        return None
    # A process on another machine, or outside of this container, has no number here.
    return process if lock_type != fcntl.F_UNLCK and process > 0 else None
