"""Fork: what a child of fork() does with its parent's open files.

SQLite keeps one list of a process's locks on a file, for all its connections. A child inherits the list and none of
the locks. If the child opened a file now, it would use the file under missing locks, and another process could remove
the write-ahead log, or its index, while the child uses it. So the child first closes the inherited connections. That
closes its copies of the descriptors; the parent's stay open, and so do the parent's locks.

Only idle connections can be closed like that. Closing a connection inside a transaction would undo the parent's work,
in memory that both share. So fork() pauses every file: running work may end, and new work waits, for a second at
most. Files that are still busy then (a transaction around the fork, for instance) stay as they are in the child for
ever, and the child refuses to open them.

Every other inherited object raises ForkedDatabase at its use: handles, feeds and cursors recognize the parent by
`generation`, or by their engine (`Engine.abandon`).

This is the only place that registers with the interpreter. Other files register here, with `call_in_child`, the state that
a child must not keep.

Thread safety: the hooks run in the forking thread, and keep state for that thread alone.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Protocol

from reactdb.clock import monotonic
from reactdb.errors import ForkedDatabase
from reactdb.store.file import identity, sqlite
from reactdb.store.file.sqlite import Connection

# Seconds that fork() waits for other threads' work with the database.
WAIT_S = 1.0


class Pause(Protocol):
    """Pauses one open file while its process forks, if it can be paused in time."""

    def begin(self, end: float) -> None:
        """Wait until `end` (monotonic) for the work of other threads."""

    def end(self) -> None:
        """Continue, in the parent."""

    def close_inherited(self) -> None:
        """Close the idle connections, in the child."""


class ForkedFile(Protocol):
    """One open file of this process: an engine."""

    is_memory: bool

    def pause(self) -> Pause:
        """A pause for this file; not begun yet."""

    def abandon(self) -> None:
        """In the child: it is the parent's."""


# Every engine of this process that still has a reference.
engines: weakref.WeakSet[ForkedFile] = weakref.WeakSet()
# How many forks lie between the process of the first import and this one. An object of another generation belongs to
# the parent.
generation = 0
# Other state that a child has to drop.
_forget: list[Callable[[], object]] = []


def call_in_child(forget: Callable[[], object]) -> Callable[[], object]:
    """Have this called in every child. It replaces locks, because a thread that did not come along may hold them."""
    _forget.append(forget)
    return forget


class Fork(threading.local):
    """The pauses of this thread for its fork."""

    def __init__(self) -> None:
        self.rests: list[Pause] = []
        self.has_opening = False


_fork = Fork()


def _before() -> None:
    if engines:
        # The child needs it, and there a wait for a thread that imports it now would never end.
        sqlite.import_ctypes()
    end = monotonic() + WAIT_S
    for engine in _all_engines():
        if not engine.is_memory:
            rest = engine.pause()
            _fork.rests.append(rest)
            rest.begin(end)
    # Last: a thread in the waits above may have to open a connection first.
    _fork.has_opening = sqlite.opening.acquire(timeout=max(0.0, end - monotonic()))


def _all_engines() -> list[ForkedFile]:
    while True:
        try:
            return list(engines)
        except RuntimeError:
            # Another thread has just opened a file.
            continue


def _after_in_parent() -> None:
    rests, _fork.rests = _fork.rests, []
    if _fork.has_opening:
        _fork.has_opening = False
        sqlite.opening.release()
    for rest in rests:
        rest.end()


def _after_in_child() -> None:
    global generation
    generation += 1
    sqlite.opening = threading.Lock()
    rests, _fork.rests, _fork.has_opening = _fork.rests, [], False
    try:
        for rest in rests:
            rest.close_inherited()
        for connection in list(sqlite.tracked):
            if connection.is_open:
                _leak_connection(connection)
    finally:
        # Whatever went wrong above: a handle that went on here would write into the parent's transaction.
        for engine in list(engines):
            engine.abandon()
        engines.clear()
        for forget in _forget:
            forget()


def _leak_connection(connection: Connection) -> None:
    """A connection that the child cannot close."""
    sqlite.keep_open(connection)
    if connection.path is not None:
        identity.refuse(connection.path, was_in_use)


def was_in_use(path: str) -> ForkedDatabase:
    """Why this process, a child, cannot open the file."""
    return ForkedDatabase(
        f"{path} was being used, in a transaction or by another thread, while this process was forked: it cannot be opened "
        "here; fork at another moment, or start processes with the method `spawn`"
    )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
