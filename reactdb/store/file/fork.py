"""Forking: what a child of fork() inherits, and how it gets rid of it.

SQLite keeps one list of the locks that a process has on a file, for all its connections. A child has a copy of the list but none
of the locks: what it opens would believe in locks that it has not, and another process would remove the write-ahead log, or
its index, under its feet. So a child closes what it has inherited, before it does anything else; its copies of the files, not
the parent's, whose locks stay.

That is safe for connections that do nothing. So fork() waits a moment for what other threads are doing. Where something goes
on all the same (a transaction around the fork, say), the child leaves everything as it is, and cannot open that file.

Thread safety: `_alone` is held from before a fork until after it.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Protocol

from reactdb.errors import ForkedDatabase
from reactdb.logs import logger
from reactdb.store.file import sqlite
from reactdb.store.file.sqlite import Connection, SQLiteError

if TYPE_CHECKING:
    from reactdb.store.engine import Engine
    from reactdb.store.write_queue import Waiter


# Seconds that fork() waits for what other threads are doing with the database.
WAIT_S = 1.0


class Follower(Protocol):
    """Who has connections of its own to the files of engines: the tail of other processes' commits."""

    def pause(self, engine: Engine, timeout_s: float) -> bool:
        """Touch none of them any more. Whether it came to that in time."""

    def resume(self, engine: Engine) -> None: ...

    def close_inherited(self, engine: Engine) -> None:
        """In the child, where it was paused."""


engines: weakref.WeakSet[Engine] = weakref.WeakSet()
followers: list[Follower] = []
# (device, inode) of files that this process, a child, cannot open.
_closed_to_us: set[tuple[int, int]] = set()
_alone = threading.Lock()
_paused: list[Pause] = []
_is_mine = threading.local()


class Pause:
    """One engine that does nothing while a fork is going on, if that could be had in time."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        # Kept here: another thread may close the engine meanwhile.
        self._writer = engine.writer
        self.is_complete = False
        self._turn: Waiter | None = None
        self._followers: list[Follower] = []

    def begin(self, end: float) -> None:
        """Wait until `end`, by the monotonic clock, for what other threads are doing."""
        engine = self.engine
        engine.readers.settle()
        engine.readers.pages.complete()
        if self._writer is not None:
            self._turn = self._writer.stop(max(0.0, end - time.monotonic()))
            if self._turn is None:
                return
        if not engine.readers.pause(end):
            return
        for follower in followers:
            if not follower.pause(engine, max(0.0, end - time.monotonic())):
                return
            self._followers.append(follower)
        self.is_complete = True

    def end(self) -> None:
        """In the parent: everything goes on."""
        for follower in self._followers:
            follower.resume(self.engine)
        self.engine.readers.resume()
        if not self.engine.is_usable:
            # Closed meanwhile, when they were not to be had.
            self.engine.readers.close_idle()
        if self._turn is not None and self._writer is not None:
            self._writer.go_on(self._turn)

    def close_inherited(self) -> None:
        """In the child: what did nothing is closed."""
        if not self.is_complete:
            return
        engine, writer = self.engine, self._writer
        for follower in self._followers:
            follower.close_inherited(engine)
        for connection in engine.readers.leave():
            close_idle(connection)
        # The last of a file writes what is in its log into the file; into one that is not the log's, it must not.
        if writer is not None and (writer.guard is None or not writer.guard.has_lost_its_log):
            close_idle(writer.connection)


def close_idle(connection: Connection) -> None:
    """Close a connection that was inherited, unless it is in the middle of something after all."""
    try:
        if not connection.in_transaction:
            connection.close()
    except SQLiteError:
        logger.debug("an inherited connection cannot be closed", exc_info=True)


def check_path(path: str) -> None:
    """Raises: ForkedDatabase, where this process was forked while its parent was in the middle of something with the file."""
    if _closed_to_us and _identity(path) in _closed_to_us:
        raise ForkedDatabase(
            f"{path} was being used, in a transaction or by another thread, while this process was forked: it cannot be opened "
            "here; fork at another moment, or start processes with the method `spawn`"
        )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _before() -> None:
    if engines:
        # What the child needs of it: there, a thread that is importing it now would be waited for in vain.
        sqlite.import_ctypes()
    end = time.monotonic() + WAIT_S
    if not _alone.acquire(timeout=WAIT_S):
        return
    _is_mine.value = True
    for engine in _all_engines():
        if not engine.is_memory:
            pause = Pause(engine)
            _paused.append(pause)
            pause.begin(end)
    # Last: what is waited for above may have to open a connection first.
    _is_mine.opening = sqlite.opening.acquire(timeout=max(0.0, end - time.monotonic()))


def _all_engines() -> list[Engine]:
    while True:
        try:
            return list(engines)
        except RuntimeError:
            # Another thread has just opened one.
            continue


def _after_in_parent() -> None:
    if not getattr(_is_mine, "value", False):
        return
    try:
        for pause in _paused:
            pause.end()
    finally:
        _paused.clear()
        if getattr(_is_mine, "opening", False):
            sqlite.opening.release()
            _is_mine.opening = False
        _is_mine.value = False
        _alone.release()


def _after_in_child() -> None:
    global _alone
    _alone = threading.Lock()
    sqlite.opening = threading.Lock()
    try:
        for pause in _paused if getattr(_is_mine, "value", False) else ():
            try:
                pause.close_inherited()
            except Exception:
                logger.debug("what was inherited of %s stays open", pause.engine.path, exc_info=True)
        for connection in list(sqlite.tracked):
            if connection.is_open:
                sqlite.leave_open(connection)
                identity = None if connection.path is None else _identity(connection.path)
                if identity is not None:
                    _closed_to_us.add(identity)
    finally:
        # Whatever went wrong above: a handle that went on here would write into the parent's transaction.
        for engine in list(engines):
            engine.abandon()
        engines.clear()
        _paused.clear()
        _is_mine.value = _is_mine.opening = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
