"""Waiting for another process's write lock, so that it can be interrupted.

SQLite waits for a lock in C, where Ctrl-C is not heard. So a long wait is made of short ones.
(In a long statement SQLite calls Python now and then: see `sqlite.hear_signals`.)
"""

from __future__ import annotations

import time

from reactdb.store.sqlite import Connection, SQLiteError, is_busy

# Seconds that one statement waits for a lock.
PATIENCE_S = 0.25


def wait_at_most(connection: Connection, seconds: float) -> None:
    """How long each statement from now on waits for another connection's lock, if that is less than `PATIENCE_S`."""
    connection.execute(f"PRAGMA busy_timeout={int(min(seconds, PATIENCE_S) * 1000)}")


def begin_immediate(connection: Connection, timeout_s: float) -> None:
    """BEGIN IMMEDIATE: tried for `timeout_s` as long as another process has the write lock.

    Raises:
        SQLiteError: The last one.
    """
    try:
        connection.execute("BEGIN IMMEDIATE")
        return
    except SQLiteError as error:
        if not is_busy(error) or timeout_s <= PATIENCE_S:
            raise
        last = error
    end = time.monotonic() + timeout_s - PATIENCE_S
    try:
        while (left_s := end - time.monotonic()) > 0:
            wait_at_most(connection, left_s)
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except SQLiteError as error:
                if not is_busy(error):
                    raise
                last = error
    finally:
        wait_at_most(connection, timeout_s)
    raise last
