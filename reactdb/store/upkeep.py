"""Upkeep: what a writer does beside writing: empty the write-ahead log, remove history that retention does not keep, vacuum.

It happens after a commit was acknowledged, or because somebody asked. In the first case nothing that goes wrong here may look
as if the write had failed: it is logged, and tried again later.

Thread safety: `compact` from any thread; everything else only by the thread whose turn it is.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from reactdb.errors import ReactDBError, UsageError
from reactdb.store import sqlite
from reactdb.store.catalogue import load
from reactdb.store.retention import CHUNK_CHANGES, Compacted, Retention, compact_step
from reactdb.store.snapshot import low_water
from reactdb.store.sqlite import SQLiteError

if TYPE_CHECKING:
    from reactdb.store.writer import Writer

logger = logging.getLogger("reactdb")

# Bytes in the write-ahead log that start a checkpoint: 16 MiB. At 4 MiB one commit in a hundred waits for it.
CHECKPOINT_BYTES = 16 * 1024 * 1024
# Seconds that a checkpoint waits for the write lock, which others have for milliseconds.
LOCK_WAIT_S = 1.0
# Seconds that it waits for readers, for each CHECKPOINT_BYTES in the log; and the most.
WAIT_S = 0.1
MOST_WAIT_S = 0.5
# A log of this size is as good as empty.
SMALL_BYTES = 64 * 1024
# Changes between two looks at what retention does not keep any more.
RETAIN_EVERY = 500


class Upkeep:
    """See the head of this file.

    Attributes:
        retention: What history is kept; None: all.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self.retention: Retention | None = None
        self._checkpoint_at = CHECKPOINT_BYTES
        # The newest seq when retention was last looked at; None: not yet.
        self._retained: int | None = None

    def after_commit(self, wal_bytes: int) -> None:
        """What is due. Raises nothing of ours: the commit has been acknowledged."""
        if wal_bytes > self._checkpoint_at:
            self.checkpoint()
        if self.retention is not None:
            try:
                self._retain(self.retention)
            except ReactDBError as error:
                logger.warning(
                    "removing old history of %s failed: %s", self._writer.path, error, exc_info=True
                )

    def checkpoint(self) -> bool:
        """Copy the write-ahead log into the file and empty it. Whether it succeeded.

        With the write lock in hand it waits for nobody; without, a moment for readers to end, the longer the more the log has
        grown. Where one does not end, or somebody else has the write lock, the next try comes when the log has grown again.
        """
        writer = self._writer
        if writer.guard is None:
            return True
        wal_bytes, _ = writer.guard.look()
        wait_s = WAIT_S * max(0.2, wal_bytes / CHECKPOINT_BYTES)
        end = time.monotonic() + min(MOST_WAIT_S, wait_s)
        pause_s = 0.0
        try:
            while True:
                reason = self._copy_log()
                # Whoever begins to read now reads all of it from the file, and is not in the way.
                time.sleep(pause_s)
                reason = reason or self._begin_log_anew()
                if not reason:
                    self._checkpoint_at = CHECKPOINT_BYTES
                    return True
                left_s = end - time.monotonic()
                if left_s <= 0:
                    break
                pause_s = min(left_s, 0.003 if not pause_s else 3 * pause_s)
        except (ReactDBError, SQLiteError) as error:
            reason = str(error)
        self._checkpoint_at = writer.guard.look()[0] + CHECKPOINT_BYTES
        logger.warning(
            "checkpoint of %s failed: %s; the write-ahead log grows until it succeeds", writer.path, reason
        )
        return False

    def _copy_log(self) -> str:
        """Copy what nobody reads any more into the file. Why that was not all; empty where it was.

        FULL and TRUNCATE would take the write lock themselves, but go on without it when they do not get it in time. So the
        writer's connection holds it, and another one copies: nobody can commit, or begin the log anew, meanwhile.
        """
        writer = self._writer
        copier = sqlite.connect(writer.path, mode="rw", busy_timeout_s=0)
        try:
            trouble = "" if writer.guard is None else writer.guard.look()[1]
            if trouble:
                # It would copy another file's.
                return trouble
            copier.execute("PRAGMA synchronous=FULL")
            writer.wait_at_most(LOCK_WAIT_S)
            writer.connection.execute("BEGIN IMMEDIATE")
            try:
                busy, pages, done = copier.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            finally:
                writer.connection.execute("ROLLBACK")
        finally:
            copier.close()
        if busy:
            return "another program is at it"
        return "" if done >= pages else f"a reader kept {pages - done} of {pages} pages"

    def _begin_log_anew(self) -> str:
        """Empty the log: the next commit does that if nobody reads in it, so make one. Why that did not work, if it did not."""
        writer = self._writer
        connection = writer.connection
        assert writer.guard is not None
        before = writer.guard.look()[0]
        writer.wait_at_most(LOCK_WAIT_S)
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Not an UPDATE: of a row that stays as it is, SQLite writes nothing.
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            connection.execute(f"PRAGMA user_version={version}")
            connection.execute("COMMIT")
        except BaseException:
            writer.roll_back()
            raise
        # Where it was small already, there is nothing to see.
        is_anew = before <= SMALL_BYTES or writer.guard.look()[0] < before
        return "" if is_anew else "a reader was still in it"

    def compact(
        self, retention: Retention, *, vacuum: bool = False, busy_timeout_s: float | None = None
    ) -> Compacted:
        """Remove the history that `retention` does not keep, in small transactions, and give the room back with `vacuum`."""
        writer = self._writer
        waits_s = writer.busy_timeout_s if busy_timeout_s is None else busy_timeout_s
        writer.check_writable()
        if writer.current is not None:
            raise UsageError("compact() cannot be part of a transaction")
        removed = Compacted()
        target = writer.in_turn(lambda: retention.target(writer.connection), waits_s)
        more = True
        while more:
            more = writer.in_turn(lambda: self._step(target, removed, waits_s=waits_s), waits_s)
        if vacuum:
            writer.in_turn(lambda: self._vacuum(waits_s), waits_s)
        return removed

    def _step(
        self, target: int, removed: Compacted, most: int = CHUNK_CHANGES, waits_s: float | None = None
    ) -> bool:
        """One transaction's worth of compaction. Whether more is left."""
        writer = self._writer
        connection = writer.connection
        writer.begin_upkeep(writer.busy_timeout_s if waits_s is None else waits_s)
        try:
            more, step = compact_step(connection, target, most)
            connection.execute("COMMIT")
            writer.has_own_epoch = True
        except BaseException as error:
            writer.roll_back()
            if isinstance(error, SQLiteError):
                raise writer.translated(error, "compact") from error
            raise
        removed.entries += step.entries
        removed.tables += step.tables
        if step.tables:
            writer.adopt(load(connection))
        wal_bytes = writer.check_same_file()
        if wal_bytes > self._checkpoint_at:
            self.checkpoint()
        return more

    def _vacuum(self, waits_s: float) -> None:
        try:
            self._writer.wait_at_most(waits_s)
            self._writer.connection.execute("VACUUM")
        except SQLiteError as error:
            raise self._writer.translated(error, "vacuum") from error
        self._writer.check_same_file()
        self.checkpoint()

    def _retain(self, retention: Retention) -> None:
        """A little at a time, but more than has been written since the last time: so it catches up, whatever the pace."""
        writer = self._writer
        written = RETAIN_EVERY if self._retained is None else writer.last_seq - self._retained
        if written < RETAIN_EVERY:
            return
        self._retained = writer.last_seq
        try:
            target = retention.target(writer.connection)
            is_due = target > low_water(writer.connection)
        except SQLiteError as error:
            raise writer.translated(error, "compact") from error
        if is_due:
            self._step(target, Compacted(), max(CHUNK_CHANGES, 2 * written))
