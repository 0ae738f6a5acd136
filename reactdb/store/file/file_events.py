"""File events: a wait that ends early when the system reports that a watched file was written.

On Linux the reports come from inotify (https://man7.org/linux/man-pages/man7/inotify.7.html), which is called through
`ctypes`, because Python has no module for it. Elsewhere, and where the limits of the user are reached, `watch` says so,
and the wait is a plain wait.

A report is a hint. It comes before the written commit can be read, it also comes for commits of this process, and it
can be missing. So the caller looks into the file after a report, and after a while without a report.

A watch ends with its first report, because each report costs the writer time, and a second report before the next look
would be of no use.

The write-ahead log is watched for writes, and not the folder: a folder reports the writes of all files in it, and each
report wakes a thread. Writes to the -shm file are not reported, because they go through shared memory.

Rule of this file: it waits and reports. It never opens a file (see `identity`).
"""

from __future__ import annotations

import errno
import math
import os
import select
import struct
import sys
import threading
from contextlib import suppress
from typing import Any, Final

from reactdb.logs import logger
from reactdb.store.file import sqlite

# From <sys/inotify.h>, the same on every processor.
IN_MODIFY: Final = 0x2
IN_ATTRIB: Final = 0x4
IN_MOVE_SELF: Final = 0x800
IN_Q_OVERFLOW: Final = 0x4000
IN_IGNORED: Final = 0x8000
IN_ONESHOT: Final = 0x8000_0000
# Of a file that was removed while it is open, the system reports changed attributes: the number of its names.
TOUCHED: Final = IN_ATTRIB | IN_MOVE_SELF
# `struct inotify_event`: watch, what happened, cookie, length of the name. Only a watch of a folder reports names.
EVENT: Final = struct.Struct("=iIII")
# The reports that are read at once.
MOST_BYTES: Final = EVENT.size * 4_096


class Inotify:
    """The system's functions, as methods: a test replaces them. All raise OSError."""

    def __init__(self) -> None:
        ctypes = sqlite.import_ctypes()
        if not sys.platform.startswith("linux") or ctypes is None or not hasattr(os, "eventfd"):
            raise OSError(errno.ENOSYS, "this system has no inotify")
        self._ctypes = ctypes
        library = ctypes.CDLL(None, use_errno=True)
        try:
            self._add, self._remove = library.inotify_add_watch, library.inotify_rm_watch
            open_ = library.inotify_init1
        except AttributeError:
            raise OSError(errno.ENOSYS, "this system has no inotify") from None
        self._add.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32]
        self.descriptor: int = self._check(open_(os.O_CLOEXEC | os.O_NONBLOCK))

    def add(self, path: str, mask: int) -> int:
        """Watch a file. Returns: the number of the watch; a file that is watched already keeps its number."""
        return self._check(self._add(self.descriptor, os.fsencode(path), mask))

    def remove(self, watch: int) -> None:
        """End a watch."""
        self._check(self._remove(self.descriptor, watch))

    def read(self) -> bytes:
        """The next reports; empty where there are none."""
        try:
            return os.read(self.descriptor, MOST_BYTES)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        """End all watches."""
        os.close(self.descriptor)

    def _check(self, result: int) -> int:
        if result < 0:
            number = self._ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result


class FileEvents:
    """See the head of this file. A database is named by a number that the caller chooses.

    Thread safety: any thread may call `wake`. All else belongs to the waiting thread.
    """

    def __init__(self) -> None:
        # Guards the descriptor of `wake` against its end. Re-entrant, because a finalizer or a signal handler may call
        # `wake` in the midst of another call.
        self._lock = threading.RLock()
        # Released by `wake`. Not an event, whose lock is not re-entrant.
        self._sleep = threading.Lock()
        self._sleep.acquire()
        self._inotify: Any = None
        # Readable after `wake`; negative while nothing is watched.
        self._bell = -1
        self._poll: Any = None
        # The databases of each watch: two engines of this process may have one file.
        self._watches: dict[int, set[int]] = {}
        self._names: set[int] = set()

    def watch(self, name: int, path: str) -> bool:
        """Let the system report the next write to the database at this path, and then no more: writers pay for each report.
        Returns: whether it does from now on."""
        try:
            if self._inotify is None:
                self._open()
            watch = self._inotify.add(f"{path}-wal", IN_MODIFY | TOUCHED | IN_ONESHOT)
            self._watches.setdefault(watch, set()).add(name)
        except OSError as error:
            # No such system, or no more watches for this user, or no log yet.
            logger.debug("no file events of %s: %s", path, error)
            return False
        self._names.add(name)
        return True

    def _open(self) -> None:
        inotify = Inotify()
        try:
            bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        except OSError:
            inotify.close()
            raise
        self._poll = select.poll()
        for descriptor in (inotify.descriptor, bell):
            self._poll.register(descriptor, select.POLLIN)
        with self._lock:
            self._inotify, self._bell = inotify, bell

    def is_watched(self, name: int) -> bool:
        """Whether the system reports the next write to this database."""
        return name in self._names

    def unwatch(self, name: int) -> None:
        """End the reports of a database, if there are any."""
        self._names.discard(name)
        for watch, names in list(self._watches.items()):
            names.discard(name)
            if not names:
                del self._watches[watch]
                with suppress(OSError):
                    self._inotify.remove(watch)

    def wait(self, timeout_s: float, *, listens: bool) -> dict[int, bool]:
        """Wait for `timeout_s`, or until `wake`, or, if the caller `listens`, until a report comes.

        Returns:
            The databases that may have changed; True where a file may have been moved or removed, too.
        """
        if not listens or self._bell < 0:
            self._sleep.acquire(timeout=timeout_s)
        else:
            self._poll.poll(math.ceil(timeout_s * 1_000))
            self._sleep.acquire(blocking=False)
        if self._bell < 0:
            return {}
        with suppress(BlockingIOError):
            os.eventfd_read(self._bell)
        return self._read()

    def _read(self) -> dict[int, bool]:
        reports: dict[int, bool] = {}
        for watch, mask, _, _ in EVENT.iter_unpack(self._inotify.read()):
            if mask & IN_Q_OVERFLOW:
                # The system dropped reports, perhaps the report of a watch's end. So the next look begins every watch anew.
                names, self._names = self._names, set()
                return dict.fromkeys(names, True)
            for name in self._watches.get(watch, ()):
                reports[name] = reports.get(name, False) or bool(mask & TOUCHED)
            if mask & IN_IGNORED:
                # After the first report; or the file is gone, or its file system.
                self._names.difference_update(self._watches.pop(watch, ()))
        return reports

    def wake(self) -> None:
        """End the wait, or the next one."""
        with suppress(RuntimeError):
            # It is released already.
            self._sleep.release()
        with self._lock:
            if self._bell >= 0:
                # It fails where it has been readable for 2 ** 64 calls.
                with suppress(BlockingIOError):
                    os.eventfd_write(self._bell, 1)

    def close(self) -> None:
        """End all watches. A later `watch` begins anew."""
        with self._lock:
            inotify, bell = self._inotify, self._bell
            self._inotify, self._bell, self._poll = None, -1, None
            self._watches, self._names = {}, set()
        if inotify is not None:
            inotify.close()
            os.close(bell)

    def abandon(self) -> None:
        """In a child of fork(): the watches are the parent's, and stay. Another thread may have had the lock."""
        self._lock = threading.RLock()
        self.close()
