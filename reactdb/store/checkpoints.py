"""Checkpoints: copying the write-ahead log into the file, and the messages to users while that fails.

Commits succeed while a checkpoint fails, because they write to the log only: a full disk, or a reader that does not
end, shows nowhere but in a growing log. So each change of state is logged, once; `db.stats()` has the figures; and
past a limit writes are refused, before the log fills the disk.

A checkpoint has two steps. First a connection of its own copies the pages (PASSIVE), while the writer's connection
holds the write lock. So no commit happens during the copy, which keeps it safe before SQLite 3.51.3 (see
`file.sqlite`). FULL and TRUNCATE would take the lock themselves, but continue without it when they do not get it in
time, and make writers wait for readers. After a complete copy, a commit without changes begins the log again from its
start. Where reads are in the way, the two steps are tried again while this process does not read: feeds read their
initial data into memory, other reads may end, and new reads wait, for half a second at most. Reads of other programs
that began before the copy was complete may end between the two steps: the commit of the second step would put the reads
that begin after it in the way, too. A reader that is still in the way belongs to another program, or takes longer, or is
no read of reactdb. Messages say which, as far as the system knows it.

The log keeps the room that it had when the checkpoint was due, so that the next commits use it; a checkpoint on
request gives the room back.

Thread safety: `figures` from any thread; everything else only by the thread at the head of the write queue.
"""

from __future__ import annotations

import time
from typing import Any

from reactdb.clock import monotonic
from reactdb.errors import DiskFull, InvalidOption, OutcomeUnknown, ReactDBError, WalTooLarge
from reactdb.logs import logger
from reactdb.store import schema, wal_room
from reactdb.store.file.copying import is_being_copied
from reactdb.store.file.sqlite import PAGE_BYTES, SQLiteError
from reactdb.store.open_file import FileWriter

# Bytes in the write-ahead log that start a checkpoint: 16 MiB. At 4 MiB one commit in a hundred waits for it.
CHECKPOINT_BYTES = 16 * 1024 * 1024
# After a failure: bytes by which the log grows between two tries, or seconds between two commits that try, whichever
# comes first.
RETRY_BYTES = 4 * 1024 * 1024
AGAIN_S = 5.0
# Seconds that it waits for readers, for each CHECKPOINT_BYTES in the log; and the most.
WAIT_S = 0.1
MOST_WAIT_S = 0.5
# Seconds between two looks whether the reads of other programs have ended: at first, then longer.
SHORT_S = 0.0005
# Seconds to wait for the write lock. Other processes hold it for milliseconds.
LOCK_WAIT_S = 1.0
# A log with this in it is as good as empty.
SMALL_BYTES = 64 * 1024
FRAME_BYTES = 24 + PAGE_BYTES
# A log of this size is warned of.
WARN_BYTES = 64 * 1024 * 1024
# Beyond this, writes are refused, unless `connect(wal_limit_bytes=)` says otherwise: 4 GiB.
LIMIT_BYTES = 4 * 1024 * 1024 * 1024
# Seconds between two tries while writes are refused.
RETRY_S = 1.0


def check_limit_bytes(limit_bytes: object) -> None:
    """Raises: InvalidOption."""
    if limit_bytes is not None and (
        isinstance(limit_bytes, bool) or not isinstance(limit_bytes, int) or limit_bytes < 1
    ):
        raise InvalidOption("wal_limit_bytes is a number of bytes, at least 1, or None")


class Checkpoints:
    """See the head of this file.

    Attributes:
        limit_bytes: Size of the log beyond which writes are refused while checkpoints fail.
        is_over: The log is past that limit, and writes are refused.
        due_bytes: Size of the log that starts the next checkpoint. It is larger than the kept room, so that the log
            has grown.
    """

    def __init__(self, writer: FileWriter) -> None:
        self._writer = writer
        self.limit_bytes = LIMIT_BYTES
        self.is_over = False
        self._is_large = False
        self.due_bytes = CHECKPOINT_BYTES
        # The size that the log may reach before any action.
        self._room_bytes = min(wal_room.FIRST_BYTES, self.due_bytes)
        # How many frames the log had when it was last copied.
        self._frames = 0
        self._wal_bytes = 0
        self._error = ""
        self._failed = 0
        # Monotonic times: the wall clock may be set back.
        self._failing_since: float | None = None
        self._tried_at = 0.0
        # A read of this process may be in the way of this try.
        self._is_ours = True
        self._keep(CHECKPOINT_BYTES)

    def after_commit(self, wal_bytes: int) -> None:
        """Make a checkpoint, if the log has grown enough. Raises nothing."""
        if wal_bytes <= self._room_bytes and self._failing_since is None:
            return
        if wal_bytes <= self.due_bytes:
            if wal_bytes > self._room_bytes:
                self._make_room(wal_bytes)
            if self._failing_since is None or monotonic() - self._tried_at < AGAIN_S:
                return
        self._wal_bytes = wal_bytes
        if wal_bytes <= self.limit_bytes and is_being_copied(self._writer.path):
            # It could not empty the log now, and this writer would wait for nothing.
            self.due_bytes = self._room_bytes = wal_bytes + RETRY_BYTES
            return
        if self.run(keep_bytes=CHECKPOINT_BYTES):
            return
        self.due_bytes = self._room_bytes = wal_bytes + RETRY_BYTES
        # A restarted log keeps CHECKPOINT_BYTES of room, so only a larger log has grown.
        if wal_bytes > max(self.limit_bytes, CHECKPOINT_BYTES):
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
        if monotonic() - self._tried_at >= RETRY_S and self.run():
            return
        raise WalTooLarge(operation, self._writer.path, self._wal_bytes, self.limit_bytes, self._error)

    def _keep(self, keep_bytes: int) -> None:
        """How much room a restarted log keeps."""
        self._writer.connection.execute(f"PRAGMA journal_size_limit={keep_bytes}")

    def _make_room(self, wal_bytes: int) -> None:
        """The log has outgrown its room."""
        writer = self._writer
        self._room_bytes = min(wal_bytes + min(wal_bytes, wal_room.MOST_BYTES), self.due_bytes)
        if not writer.flushes.is_complete or writer.guard is None:
            # Where nothing is flushed, nothing is gained.
            return
        try:
            writer.lock_wait.at_most(LOCK_WAIT_S, in_one_piece=True)
            writer.connection.execute("BEGIN IMMEDIATE")
            try:
                found_bytes, trouble = writer.guard.look()
                if not trouble and found_bytes < self._room_bytes:
                    wal_room.fill(writer.path, found_bytes, self._room_bytes)
            finally:
                writer.connection.execute("ROLLBACK")
        except (SQLiteError, OSError):
            logger.debug("making room for the log of %s failed", writer.path, exc_info=True)

    def after_failure(self, error: ReactDBError) -> None:
        """Clean up after a write failed and was rolled back. An emptied log gives room back to a full disk. And where
        COMMIT failed after all its pages were in the log (the flush failed), a crash would bring back a write that
        readers have seen rolled back: the log is emptied, or written over, to prevent that."""
        if not isinstance(error, (DiskFull, OutcomeUnknown)) or self._writer.connection.in_transaction:
            return
        if not self.run() and isinstance(error, OutcomeUnknown):
            try:
                self.write_over()
            except SQLiteError:
                logger.debug("writing over the failed commit of %s failed", self._writer.path, exc_info=True)

    def run(self, *, keep_bytes: int = 0) -> bool:
        """Copy the log into the file and empty it, but for `keep_bytes` of room. Whether it succeeded."""
        if self._writer.guard is None:
            return True
        reason = self._try(keep_bytes)
        self._tried_at = monotonic()
        if reason:
            self._has_failed(reason)
            return False
        if self._failing_since is not None:
            seconds = self._tried_at - self._failing_since
            logger.warning("checkpoints of %s succeed again, after %.1f s", self._writer.path, seconds)
        self._failing_since = None
        self._error, self._failed = "", 0
        self.due_bytes, self._is_large, self.is_over = CHECKPOINT_BYTES, False, False
        self._room_bytes = min(max(wal_room.FIRST_BYTES, keep_bytes), self.due_bytes)
        return True

    def _has_failed(self, reason: str) -> None:
        self._error = reason
        self._failed += 1
        if self._failing_since is None:
            self._failing_since = monotonic()
            logger.warning(
                "checkpoint of %s failed: %s; the write-ahead log grows until it succeeds",
                self._writer.path,
                reason,
            )

    def _try(self, keep_bytes: int) -> str:
        """Why it failed; empty where it did not."""
        writer = self._writer
        assert writer.guard is not None
        trouble = writer.guard.examine()
        if trouble:
            return f"checkpoint: {writer.engine.report_moved(trouble)}"
        # Longer after each failure: otherwise a read that takes longer than that would let the log grow without end.
        wait_s = WAIT_S * max(0.2, writer.guard.look()[0] / CHECKPOINT_BYTES) * 2 ** min(self._failed, 3)
        end = monotonic() + min(MOST_WAIT_S, wait_s)
        pause_s = 0.003
        try:
            # Whatever the last write was to wait; the next write sets its own timeout.
            writer.lock_wait.at_most(LOCK_WAIT_S, in_one_piece=True)
            writer.flushes.settle(writer.connection, "checkpoint")
            self._is_ours = True
            reason = self._empty_log(keep_bytes, end)
            while reason:
                # First stop the reads of this process. Running reads may end, and new ones wait: reads that each
                # begin before the last one has ended would keep the log for ever.
                with writer.engine.hold_reads(end) as are_held:
                    self._is_ours = not are_held
                    reason = self._empty_log(keep_bytes, end)
                left_s = end - monotonic()
                if not reason or left_s <= 0:
                    break
                # A reader of another program that begins now finds all of it in the file, and is not in the way.
                time.sleep(min(left_s, pause_s))
                pause_s *= 3
        except SQLiteError as error:
            writer.doubt(error)
            return str(writer.engine.translate_error(error, "checkpoint"))
        except ReactDBError as error:
            message = str(error)
            return message if message.startswith("checkpoint: ") else f"checkpoint: {message}"
        return reason and f"checkpoint: {reason}"

    def _empty_log(self, keep_bytes: int, end: float) -> str:
        """One try, until `end` (monotonic). Returns: the reason of a failure; empty after success."""
        reason = self._copy_log()
        # After the copy: a feed that begins once all of it is in the file reads in the file, and is not in the way.
        self._writer.engine.settle_reads()
        if reason:
            return reason
        self._await_foreign_reads(end)
        return self._begin_log_anew(keep_bytes)

    def _await_foreign_reads(self, end: float) -> None:
        """Wait for the reads of other programs that began before the copy was complete."""
        guard = self._writer.guard
        pause_s = SHORT_S
        while guard is not None and guard.is_log_kept() and (left_s := end - monotonic()) > 0:
            time.sleep(min(left_s, pause_s))
            pause_s *= 1.5

    def _copy_log(self) -> str:
        """Copy all pages that no reader keeps into the file. Why there are others; empty where there are none."""
        writer = self._writer
        connection = writer.connection
        copier = writer.engine.connect("rw")
        try:
            trouble = "" if writer.guard is None else writer.guard.examine()
            if trouble:
                # It would copy another file's.
                return str(writer.engine.report_moved(trouble))
            connection.execute("BEGIN IMMEDIATE")
            try:
                trouble = "" if writer.guard is None else writer.guard.look_before()[1]
                if trouble:
                    raise writer.engine.report_moved(trouble)
                busy, pages, done = copier.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            finally:
                connection.execute("ROLLBACK")
        finally:
            copier.close()
        self._frames = pages
        # The next commit, of any process, may restart the log.
        writer.log_named = None
        if busy:
            return "another program is copying the write-ahead log"
        return (
            f"{self._reader()} keeps {pages - done} of {pages} pages of the write-ahead log"
            if done < pages
            else ""
        )

    def _begin_log_anew(self, keep_bytes: int) -> str:
        """Empty the log. The next commit does that, if the log has no readers; so make a commit. Returns: the reason
        of a failure; empty after success."""
        path = self._writer.path
        before = wal_room.read_generation(path)
        try:
            if keep_bytes != CHECKPOINT_BYTES:
                self._keep(keep_bytes)
            self.write_over()
        finally:
            if keep_bytes != CHECKPOINT_BYTES:
                self._keep(CHECKPOINT_BYTES)
        is_anew = self._frames <= SMALL_BYTES // FRAME_BYTES or wal_room.read_generation(path) != before
        return "" if is_anew else f"{self._reader()} is still in the write-ahead log"

    def write_over(self) -> None:
        """Make a commit without changes. It begins at the end of the last commit, or where a failed commit began.

        Raises:
            SQLiteError: COMMIT may have got as far as the failed one; but the log no longer has the failed one.
        """
        connection = self._writer.connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Not an UPDATE: SQLite writes nothing for a row that stays as it is.
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            connection.execute(f"PRAGMA user_version={version}")
            schema.name_log(connection)
            connection.execute("COMMIT")
        except BaseException:
            self._writer.roll_back()
            raise

    def _reader(self) -> str:
        """Describe the reader in the way. The system knows whether another program has one; where it does not say, another
        program is named if no read of this process was running."""
        guard = self._writer.guard
        is_foreign = None if guard is None else guard.has_foreign_reader()
        if is_foreign or (is_foreign is None and not self._is_ours):
            return "a reader of another program"
        if not self._is_ours:
            return "another SQLite connection of this process, or a reader that has just ended,"
        return f"a read of this process that began {self._writer.engine.oldest_read_s():.1f} s ago"

    def figures(self) -> dict[str, Any]:
        """For `db.stats()`: whether the last checkpoint succeeded, and if not: why, how often and for how many
        seconds."""
        since = self._failing_since
        return {
            "is_healthy": since is None,
            "error": self._error or None,
            "failed": self._failed,
            "failing_s": 0.0 if since is None else monotonic() - since,
            "is_refusing_writes": self.is_over,
        }


HEALTHY: dict[str, Any] = {
    "is_healthy": True,
    "error": None,
    "failed": 0,
    "failing_s": 0.0,
    "is_refusing_writes": False,
}
