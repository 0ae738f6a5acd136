"""Stores that break a promise on purpose: the sweep must find each of them, or it proves nothing.

They are put into the process whose system calls fail, because they show only there. `tests/crash/broken.py` does the same for
kills, `tests/crash/mutants.py` for power cuts; `tests/mutants` changes the text of a copy of the project, for the ordinary tests.

`python -m tests.faults --break NAME` runs with one, and must then end with exit code 1.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import reactdb
from reactdb import blobs
from reactdb.store import checkpoints, engine, writer
from reactdb.store.file.sqlite import SQLiteError
from reactdb.store.transaction import WriterMemory


class Wrapped:
    """A connection, or a cursor of one, with another `execute`."""

    def __init__(self, inner: Any, execute: Callable[[Any, str], Any], connection: Any = None) -> None:
        self._inner = inner
        self._execute = execute
        # Of a cursor.
        self.connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def keep_cursor(self) -> Wrapped:
        return Wrapped(self._inner.keep_cursor(), self._execute, self)

    def execute(self, statement: str, *parameters: Any) -> Any:
        if parameters:
            return self._inner.execute(statement, *parameters)
        return self._execute(self._inner, statement)


def wrap_writer(execute: Callable[[Any, str], Any]) -> None:
    begin = writer.Writer.__init__

    def __init__(self: Any, opened: Any, connection: Any) -> None:
        begin(self, opened, Wrapped(connection, execute))

    writer.Writer.__init__ = __init__  # type: ignore[assignment, method-assign]


def swallow() -> None:
    """An error of COMMIT, of its sync for one, is taken for success."""

    def execute(connection: Any, statement: str) -> Any:
        try:
            return connection.execute(statement)
        except SQLiteError:
            if statement != "COMMIT":
                raise
            own = getattr(connection, "connection", connection)
            return connection.execute("ROLLBACK") if own.in_transaction else None

    wrap_writer(execute)


def remember_too_much() -> None:
    """What the writer remembers of a write that was taken back is kept."""
    WriterMemory.forget = lambda self: None  # type: ignore[method-assign]


def leak_errors() -> None:
    """SQLite's errors come out as they are."""
    engine.Engine.translate_error = lambda self, error, operation: error  # type: ignore[assignment, method-assign, return-value]


def tell_before() -> None:
    """Feeds are told before COMMIT has succeeded."""
    commit = writer.Writer._commit

    def early(self: Any, transactions: Any, operation: str) -> None:
        last = transactions[-1]
        self.engine.publisher.publish(transactions, last.first + last.count - 1)
        self.engine.publisher.drain()
        commit(self, transactions, operation)

    writer.Writer._commit = early  # type: ignore[method-assign]


def leave_ghosts() -> None:
    """What a failed COMMIT left in the write-ahead log stays there, to be found after a crash."""
    checkpoints.Checkpoints.after_failure = lambda self, error: None  # type: ignore[method-assign]


def hide_checkpoints() -> None:
    """A checkpoint that fails is taken for one that succeeded."""
    checkpoints.Checkpoints._has_failed = lambda self, reason: None  # type: ignore[method-assign]


def keep_half_put() -> None:
    """A `put` that fails on the way is taken for one that went on: the blob gets its digest with the pieces that are there."""
    add, errors = blobs._Unfinished.add, (reactdb.errors.DiskFull, reactdb.errors.StorageError)

    def one(self: Any, pieces: list[bytes]) -> None:
        with suppress(*errors):
            add(self, pieces)

    blobs._Unfinished.add = one  # type: ignore[method-assign]


# What each is, and a scenario that must find it.
MUTANTS = {
    "swallow": (swallow, "sweep insert"),
    "remember-too-much": (remember_too_much, "sweep insert"),
    "leak-errors": (leak_errors, "sweep insert"),
    "tell-before": (tell_before, "sweep insert"),
    "leave-ghosts": (leave_ghosts, "sweep insert"),
    "hide-checkpoints": (hide_checkpoints, "sweep checkpoint"),
    "keep-half-put": (keep_half_put, "sweep a blob is put"),
}
