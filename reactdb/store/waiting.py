"""Waiting for another process's write lock, for as long as each handle says, and so that it can be interrupted.

SQLite waits for a lock in C, where Ctrl-C is not heard. So a long wait is made of short ones.
(In a long statement SQLite calls Python now and then: see `sqlite.hear_signals`.)
"""

from __future__ import annotations

import time

from reactdb.store.file.sqlite import Connection, SQLiteError, is_busy

# Seconds that one statement waits for a lock, where a wait is made of pieces.
PATIENCE_S = 0.25


class Waiting:
    """How long a connection waits.

    Not in pieces in memory: there a commit waits for the reads that are going on, and nobody else has the lock.
    """

    __slots__ = ("_connection", "_is_in_pieces", "_set_s")

    def __init__(self, connection: Connection, *, is_in_pieces: bool, set_s: float) -> None:
        """`set_s`: the connection's busy timeout as it is."""
        self._connection = connection
        self._is_in_pieces = is_in_pieces
        self._set_s = set_s

    def at_most(self, seconds: float, *, in_one_piece: bool = False) -> None:
        """How long each statement waits from now on."""
        if self._is_in_pieces and not in_one_piece:
            seconds = min(seconds, PATIENCE_S)
        if seconds != self._set_s:
            self._connection.execute(f"PRAGMA busy_timeout={max(0, int(seconds * 1000))}")
            self._set_s = seconds

    def begin_immediate(self, timeout_s: float) -> None:
        """BEGIN IMMEDIATE: tried for `timeout_s` as long as another process has the write lock.

        Raises:
            SQLiteError: The last one.
        """
        self.at_most(timeout_s)
        end: float | None = None
        while True:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                return
            except SQLiteError as error:
                if not self._is_in_pieces or not is_busy(error):
                    raise
                now = time.monotonic()
                if end is None:
                    end = now + timeout_s - self._set_s
                if now >= end:
                    raise
                self.at_most(end - now)
