"""The switch to a write-ahead log, made sure of."""

from __future__ import annotations

import time
from collections.abc import Callable

from reactdb.errors import CannotOpen
from reactdb.store.file.sqlite import Connection, SQLiteError, is_busy


def use_wal(connection: Connection, another: Callable[[], Connection], path: str, timeout_s: float) -> None:
    """Switch to WAL and make sure: a switch that failed shows only when its row is fetched, and the connection that saw it fail
    believes in a WAL all the same. So `another` connection is asked.

    Raises:
        CannotOpen: The file system cannot keep one.
        SQLiteError: Another process is at it for longer than `timeout_s`, and what else may be.
    """
    end = time.monotonic() + timeout_s
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
            break
        except SQLiteError as error:
            # Another process is switching too, and SQLite does not wait here by itself.
            if not is_busy(error) or time.monotonic() >= end:
                raise
            time.sleep(0.002)
    if mode == "wal":
        witness = another()
        try:
            (mode,) = witness.execute("PRAGMA journal_mode").fetchone()
        finally:
            witness.close()
    if mode != "wal":
        raise CannotOpen(path, "its file system cannot keep a write-ahead log (no shared memory or no locks)")
