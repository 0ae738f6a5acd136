"""Doorbell: hears that somebody writes to a write-ahead log, where the system can tell (Linux, inotify). Elsewhere it is deaf.

A ring is a hint and no more. It comes while the commit is being written, before anybody can read it, and also for commits of this
very process; on a file system of another machine it does not come at all. So whoever listens asks the file, and goes on asking
now and then without it.

Source: inotify(7).

Thread safety: `wake` from any thread; everything else by the one who waits.
"""

from __future__ import annotations

import errno
import os
import select
import sys
from typing import Any, Final

from reactdb.logs import logger

IN_MODIFY: Final = 0x2
EVENTS_BYTES = 16384


class Doorbell:
    """See the head of this file. `close` it: it has two file descriptors.

    Raises:
        OSError: The system has none, or no more of them.
    """

    __slots__ = ("_bell", "_libc", "_poll", "_wake", "_watches")

    def __init__(self) -> None:
        if not sys.platform.startswith("linux"):
            raise OSError(errno.ENOSYS, "no inotify here")
        try:
            # Imported here because it takes longer than opening a file, and only some processes are not alone.
            import ctypes

            self._libc: Any = ctypes.CDLL(None, use_errno=True)
            self._bell: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except (ImportError, AttributeError) as error:
            raise OSError(errno.ENOSYS, "no inotify here") from error
        if self._bell < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        try:
            self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        except OSError:
            os.close(self._bell)
            raise
        # Path -> number of the watch.
        self._watches: dict[str, int] = {}
        self._poll = select.poll()
        for descriptor in (self._bell, self._wake):
            self._poll.register(descriptor, select.POLLIN)

    def listen(self, path: str) -> bool:
        """Ring when this file is written to. Whether that can be had; where it was already, the file may be another one now."""
        watch = self._libc.inotify_add_watch(self._bell, os.fsencode(path), IN_MODIFY)
        if watch < 0:
            return False
        self._watches[path] = watch
        return True

    def listen_only(self, paths: set[str]) -> None:
        """Ignore all other files."""
        for path in self._watches.keys() - paths:
            watch = self._watches.pop(path)
            if watch not in self._watches.values():
                # Fails where the file is gone, and the watch with it.
                self._libc.inotify_rm_watch(self._bell, watch)

    @property
    def is_listening(self) -> bool:
        return bool(self._watches)

    def wait(self, timeout_s: float) -> bool:
        """Wait for a ring, or for `wake`. Whether it rang."""
        rang = False
        for descriptor, _ in self._poll.poll(timeout_s * 1000):
            try:
                os.read(descriptor, EVENTS_BYTES if descriptor == self._bell else 8)
            except BlockingIOError:
                continue
            rang = rang or descriptor == self._bell
        return rang

    def wake(self) -> None:
        """Let `wait` return."""
        try:
            os.eventfd_write(self._wake, 1)
        except OSError:
            # Full: it will wake. Or closed meanwhile: nobody waits.
            pass

    def close(self) -> None:
        for descriptor in (self._bell, self._wake):
            os.close(descriptor)


def doorbell() -> Doorbell | None:
    """One, where the system has any to give."""
    try:
        return Doorbell()
    except OSError as error:
        logger.debug("no doorbell: %s", error)
        return None
