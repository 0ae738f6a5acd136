"""Checkpoints: how the write-ahead log gets into the file, and what is told while it does not.

Commits go on where a checkpoint fails, because they write to the log only: a full disk, or a reader that does not end, shows
nowhere but in a log that grows. So each change of state is logged, once; `db.stats()` has the figures; and past a limit writes
are refused, before the disk is full of it.

Two steps. First the pages are copied (PASSIVE) by a connection of its own, while the writer's holds the write lock: nobody can
commit meanwhile, which keeps it safe before SQLite 3.51.3 (see `sqlite`), and it does not wait for readers while writers wait
for it. Only where all was copied, TRUNCATE empties the log; then there is nothing left that a reader could keep.

Thread safety: `figures` from any thread; everything else only by the thread whose turn it is.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from reactdb.errors import ReactDBError, WalTooLarge
from reactdb.store.sqlite import Connection, SQLiteError

if TYPE_CHECKING:
    from reactdb.store.writer import Writer

logger = logging.getLogger("reactdb")

# Bytes in the write-ahead log that start a checkpoint: 16 MiB. At 4 MiB one commit in a hundred waits for it.
CHECKPOINT_BYTES = 16 * 1024 * 1024
# While it fails: bytes that the log grows between two tries.
RETRY_BYTES = 4 * 1024 * 1024
# Reads are short. One that is still there after this is not waited for: the next try comes later.
READERS_S = 0.25
# TRUNCATE must not give up early: without the write lock it is not safe before SQLite 3.51.3.
CHECKPOINT_TIMEOUT_S = 10.0
# A log of this size is warned of.
WARN_BYTES = 64 * 1024 * 1024
# Beyond this, writes are refused, unless `connect(wal_limit_bytes=)` says otherwise: 4 GiB.
LIMIT_BYTES = 4 * 1024 * 1024 * 1024
# Seconds between two tries while writes are refused.
RETRY_S = 1.0


class Checkpoints:
    """See the head of this file.

    Attributes:
        limit_bytes: Size of the log beyond which writes are refused while checkpoints fail.
        is_over: They are.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self.limit_bytes = LIMIT_BYTES
        self.is_over = False
        self._is_large = False
        self._due_bytes = CHECKPOINT_BYTES
        self._wal_bytes = 0
        self._error = ""
        self._failed = 0
        # Monotonic times: the wall clock may be set back.
        self._failing_since: float | None = None
        self._tried_at = 0.0

    def after_commit(self, wal_bytes: int) -> None:
        """A checkpoint, where the log has grown enough for one. Raises nothing."""
        if wal_bytes <= self._due_bytes:
            return
        self._wal_bytes = wal_bytes
        if self.run():
            return
        self._due_bytes = wal_bytes + RETRY_BYTES
        if wal_bytes > self.limit_bytes:
            self.is_over = True
            logger.error(
                "the write-ahead log of %s has %d bytes, more than its limit of %d: writes are refused until a checkpoint "
                "succeeds (%s)",
                self._writer.path,
                wal_bytes,
                self.limit_bytes,
                self._error,
            )
        elif wal_bytes > WARN_BYTES and not self._is_large:
            self._is_large = True
            logger.warning(
                "the write-ahead log of %s has grown to %d bytes: %s",
                self._writer.path,
                wal_bytes,
                self._error,
            )

    def check_limit(self, operation: str) -> None:
        """Before a write, where the log was over its limit: is it still? Tries again, but not too often.

        Raises:
            WalTooLarge: Nothing was written.
        """
        if time.monotonic() - self._tried_at >= RETRY_S and self.run():
            return
        raise WalTooLarge(operation, self._writer.path, self._wal_bytes, self.limit_bytes, self._error)

    def run(self) -> bool:
        """Copy the log into the file and empty it. Whether it succeeded."""
        if self._writer.guard is None:
            return True
        reason = self._try()
        self._tried_at = time.monotonic()
        if reason:
            self._has_failed(reason)
            return False
        if self._failing_since is not None:
            seconds = self._tried_at - self._failing_since
            logger.warning("checkpoints of %s succeed again, after %.1f s", self._writer.path, seconds)
        self._failing_since = None
        self._error, self._failed = "", 0
        self._due_bytes, self._is_large, self.is_over = CHECKPOINT_BYTES, False, False
        return True

    def _has_failed(self, reason: str) -> None:
        self._error = reason
        self._failed += 1
        if self._failing_since is None:
            self._failing_since = time.monotonic()
            logger.warning(
                "checkpoint of %s failed: %s; the write-ahead log grows until it succeeds",
                self._writer.path,
                reason,
            )

    def _try(self) -> str:
        """Why it failed; empty where it did not."""
        writer = self._writer
        connection = writer.connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                reason = self._copy()
            finally:
                connection.execute("ROLLBACK")
            if reason:
                return reason
            connection.execute(f"PRAGMA busy_timeout={int(CHECKPOINT_TIMEOUT_S * 1000)}")
            try:
                busy, pages, done = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                connection.execute(f"PRAGMA busy_timeout={int(writer.busy_timeout_s * 1000)}")
            return self._kept(pages, done) if busy else ""
        except SQLiteError as error:
            return str(writer.translated(error, "checkpoint"))
        except ReactDBError as error:
            return f"checkpoint: {error}"

    def _copy(self) -> str:
        """All pages that no reader keeps, into the file. Why there are others; empty where there are none."""
        copier: Connection = self._writer.another_connection()
        try:
            end = time.monotonic() + READERS_S
            while True:
                _, pages, done = copier.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                if pages == done:
                    return ""
                if time.monotonic() > end:
                    return self._kept(pages, done)
                time.sleep(READERS_S / 50)
        finally:
            copier.close()

    def _kept(self, pages: int, done: int) -> str:
        age = self._writer.oldest_read_s()
        whose = (
            f"a read of this process that began {age:.1f} s ago"
            if age >= READERS_S
            else "a reader of another process, or one beside reactdb,"
        )
        return f"checkpoint: {whose} keeps {pages - done} of {pages} pages of the write-ahead log"

    def figures(self) -> dict[str, Any]:
        """For `db.stats()`: whether the last one succeeded, and if not: why, how often and for how many seconds."""
        since = self._failing_since
        return {
            "is_healthy": since is None,
            "error": self._error or None,
            "failed": self._failed,
            "failing_s": 0.0 if since is None else time.monotonic() - since,
            "is_refusing_writes": self.is_over,
        }


HEALTHY: dict[str, Any] = {
    "is_healthy": True,
    "error": None,
    "failed": 0,
    "failing_s": 0.0,
    "is_refusing_writes": False,
}
