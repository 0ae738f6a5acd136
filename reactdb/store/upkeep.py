"""Upkeep: what a writer does beside writing: empty the write-ahead log, remove history that retention does not keep, vacuum.

It happens after a commit was acknowledged, or because somebody asked. In the first case nothing that goes wrong here may look
as if the write had failed: it is logged, and tried again later.

Thread safety: `compact` from any thread; everything else only by the thread whose turn it is.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from reactdb.errors import ReactDBError, UsageError
from reactdb.store.catalogue import load
from reactdb.store.retention import CHUNK_CHANGES, Compacted, Retention, compact_step
from reactdb.store.snapshot import low_water
from reactdb.store.sqlite import SQLiteError

if TYPE_CHECKING:
    from reactdb.store.writer import Writer

logger = logging.getLogger("reactdb")

# Bytes in the write-ahead log that start a checkpoint: 16 MiB. At 4 MiB one commit in a hundred waits for it.
CHECKPOINT_BYTES = 16 * 1024 * 1024
# A checkpoint must not give up early: without the write lock it is not safe before SQLite 3.51.3.
CHECKPOINT_TIMEOUT_S = 10.0
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

        TRUNCATE takes the write lock and keeps it: the mode that is safe on every SQLite. A reader that does not end (another
        process's) makes it give up after a while; then the next try comes when the log has doubled.
        """
        writer = self._writer
        connection = writer.connection
        if writer.guard is None:
            return True
        try:
            writer.flushes.settle(connection)
            connection.execute(f"PRAGMA busy_timeout={int(CHECKPOINT_TIMEOUT_S * 1000)}")
            busy, pages, done = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            reason = f"a reader kept {pages - done} of {pages} pages" if busy else ""
        except (SQLiteError, ReactDBError) as error:
            reason = str(error)
            writer.doubt(error)
        finally:
            writer.wait_as_ever()
        if not reason:
            self._checkpoint_at = CHECKPOINT_BYTES
            return True
        self._checkpoint_at *= 2
        logger.warning(
            "checkpoint of %s failed: %s; the write-ahead log grows until it succeeds", writer.path, reason
        )
        return False

    def compact(self, retention: Retention, *, vacuum: bool = False) -> Compacted:
        """Remove the history that `retention` does not keep, in small transactions, and give the room back with `vacuum`."""
        writer = self._writer
        writer.check_writable()
        writer.check_undamaged()
        if writer.current is not None:
            raise UsageError("compact() cannot be part of a transaction")
        removed = Compacted()
        target = writer.in_turn(lambda: retention.target(writer.connection))
        more = True
        while more:
            more = writer.in_turn(lambda: self._step(target, removed))
        if vacuum:
            writer.in_turn(self._vacuum)
        return removed

    def _step(self, target: int, removed: Compacted, most: int = CHUNK_CHANGES) -> bool:
        """One transaction's worth of compaction. Whether more is left."""
        writer = self._writer
        connection = writer.connection
        try:
            writer.begin_upkeep()
            more, step = compact_step(connection, target, most)
            connection.execute("COMMIT")
            writer.has_own_epoch = True
        except BaseException as error:
            writer.roll_back()
            if isinstance(error, SQLiteError):
                writer.doubt(error)
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

    def _vacuum(self) -> None:
        writer = self._writer
        connection = writer.connection
        try:
            connection.execute(f"PRAGMA busy_timeout={int(writer.busy_timeout_s * 1000)}")
            connection.execute("VACUUM")
        except SQLiteError as error:
            writer.doubt(error)
            raise writer.translated(error, "vacuum") from error
        finally:
            writer.wait_as_ever()
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
