"""Fork: what a child of fork() does with the files that its parent has open.

SQLite keeps one list of the locks that a process has on a file, for all its connections. A child inherits the list and none of
the locks. A file that it opened now would be used under locks that are not there, and another process would remove the
write-ahead log, or its index, under the child's feet. So the child first closes what it has inherited. That closes its copies of
the descriptors; the parent's stay open, and so do the parent's locks.

Only idle connections can be closed like that. To close one that is in a transaction would undo, in memory that both share, what
the parent is doing. So fork() lets every file rest: what goes on may end, and what begins waits, for a second at most. What is
still busy then (a transaction around the fork, for instance) the child leaves as it is for ever, and refuses to open that file.

Everything else that the child inherits raises ForkedDatabase when it is used: handles, feeds and cursors know that they are the
parent's by `generation`, or by their engine (`Engine.abandon`).

This is the only place that registers with the interpreter. Whoever has state that a child must not keep says so with `in_child`.

Thread safety: the hooks run in the thread that forks, and remember what they do for that thread alone.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Protocol

from reactdb.errors import ForkedDatabase
from reactdb.store.file import identity, sqlite
from reactdb.store.file.sqlite import Connection

# Seconds that fork() waits for what other threads are doing with the database.
WAIT_S = 1.0


class Pause(Protocol):
    """One open file in which nothing goes on while its process forks, if that can be had in time."""

    def begin(self, end: float) -> None:
        """Wait until `end` (monotonic) for what other threads are doing."""

    def end(self) -> None:
        """In the parent: everything goes on."""

    def close_inherited(self) -> None:
        """In the child: close what was idle."""


class ForkedFile(Protocol):
    """One file that this process has open: an engine."""

    is_memory: bool

    def rest(self) -> Pause:
        """How nothing goes on in it; not begun yet."""

    def abandon(self) -> None:
        """In the child: it is the parent's."""


# Every engine of this process that somebody still has.
engines: weakref.WeakSet[ForkedFile] = weakref.WeakSet()
# How many forks lie between the process that imported this and this one. What was made in another generation is the parent's.
generation = 0
# What else a child has to forget.
_forget: list[Callable[[], object]] = []


def in_child(forget: Callable[[], object]) -> Callable[[], object]:
    """Have this called in every child. It replaces locks, because a thread that did not come along may hold them."""
    _forget.append(forget)
    return forget


class Fork(threading.local):
    """What this thread has stopped for its fork."""

    def __init__(self) -> None:
        self.rests: list[Pause] = []
        self.has_opening = False


_fork = Fork()


def _before() -> None:
    if engines:
        # The child needs it, and there a thread that is importing it now would be waited for in vain.
        sqlite.import_ctypes()
    end = time.monotonic() + WAIT_S
    for engine in _all_engines():
        if not engine.is_memory:
            rest = engine.rest()
            _fork.rests.append(rest)
            rest.begin(end)
    # Last: what is waited for above may have to open a connection first.
    _fork.has_opening = sqlite.opening.acquire(timeout=max(0.0, end - time.monotonic()))


def _all_engines() -> list[ForkedFile]:
    while True:
        try:
            return list(engines)
        except RuntimeError:
            # Another thread has just opened one.
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
                _leave(connection)
    finally:
        # Whatever went wrong above: a handle that went on here would write into the parent's transaction.
        for engine in list(engines):
            engine.abandon()
        engines.clear()
        for forget in _forget:
            forget()


def _leave(connection: Connection) -> None:
    """A connection that the child cannot close."""
    sqlite.leave_open(connection)
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
