"""Upkeep: what a writer does beside writing: empty the write-ahead log, remove history that retention does not keep, vacuum.

It happens after a commit was acknowledged, or because somebody asked. In the first case nothing that goes wrong here may look
as if the write had failed: it is logged, and tried again later.

Thread safety: `compact` from any thread; everything else only by the thread whose turn it is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from reactdb.errors import DiskFull, OutcomeUnknown, ReactDBError, UsageError
from reactdb.logs import logger
from reactdb.store.catalogue import load
from reactdb.store.checkpoints import Checkpoints
from reactdb.store.file.sqlite import SQLiteError
from reactdb.store.retention import CHUNK_CHANGES, MOST_HELD_CHANGES, Compacted, Retention, compact_step
from reactdb.store.snapshot import low_water

if TYPE_CHECKING:
    from reactdb.store.writer import Writer


# A compaction that finds no room goes on in steps of as few changes as this: some 100 kB of log.
FEWEST_CHANGES = 50
MAKE_ROOM = (
    "removing history needs some 100 kB of room itself; make that much on this disk by removing something else, then compact "
    "again, and with vacuum=True when there is room for a copy of the documents"
)
# Changes between two looks at what retention does not keep any more.
RETAIN_EVERY = 500


class Upkeep:
    """See the head of this file.

    Attributes:
        retention: What history is kept; None: all.
        checkpoints: How the write-ahead log is emptied.
        before_removal: Called before history up to a seq is removed: who needs it still reads it now.
        lowest_needed: Gives the lowest position, from the given one on, from which a feed has still to read the log, or None.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self.retention: Retention | None = None
        self.checkpoints = Checkpoints(writer)
        self.before_removal: Callable[[int], object] = int
        self.lowest_needed: Callable[[int], int | None] = lambda oldest: None
        # The newest seq when retention was last looked at; None: not yet.
        self._retained: int | None = None

    def after_commit(self, wal_bytes: int) -> None:
        """What is due. Raises nothing of ours: the commit has been acknowledged."""
        self.checkpoints.after_commit(wal_bytes)
        if self.retention is not None:
            try:
                self._retain(self.retention)
            except ReactDBError as error:
                logger.warning(
                    "removing old history of %s failed: %s", self._writer.path, error, exc_info=True
                )

    def checkpoint(self) -> bool:
        """Empty the write-ahead log. Whether it succeeded; if not, it is logged and shown in the figures."""
        return self.checkpoints.run()

    def after_failure(self, error: ReactDBError) -> None:
        """A write failed and was rolled back. An empty log gives room back to a full disk. And where COMMIT failed when all of it
        was in the log (its flush did), a crash would bring back what everybody has read not to be there: emptied, or written
        over, the log has it no more."""
        if not isinstance(error, (DiskFull, OutcomeUnknown)) or self._writer.connection.in_transaction:
            return
        if not self.checkpoints.run() and isinstance(error, OutcomeUnknown):
            try:
                self.checkpoints.write_over()
            except SQLiteError:
                logger.debug("writing over the failed commit of %s failed", self._writer.path, exc_info=True)

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
        target, _ = writer.in_turn(lambda: self._target(retention), waits_s)
        most, more = CHUNK_CHANGES, True
        while more:
            try:
                more = writer.in_turn(partial(self._step, target, removed, most, waits_s), waits_s)
                if most < CHUNK_CHANGES:
                    writer.in_turn(self.checkpoint, waits_s)
            except DiskFull as error:
                # A smaller step needs less room, and gives its own back before the next.
                if most <= FEWEST_CHANGES:
                    raise DiskFull(f"{error}: {MAKE_ROOM}") from error
                most = max(FEWEST_CHANGES, most // 10)
        if vacuum:
            writer.in_turn(lambda: self._vacuum(waits_s), waits_s)
        return removed

    def _step(self, target: int, removed: Compacted, most: int, waits_s: float) -> bool:
        """One transaction's worth of compaction. Whether more is left."""
        writer = self._writer
        connection = writer.connection
        target = self._held_back(target)
        self.before_removal(target)
        try:
            writer.begin_upkeep("compact", waits_s)
            more, step = compact_step(connection, target, most)
            connection.execute("COMMIT")
            writer.note_commit()
        except BaseException as error:
            writer.roll_back()
            if isinstance(error, SQLiteError):
                writer.doubt(error)
                translated = writer.translated(error, "compact")
                self.after_failure(translated)
                raise translated from error
            raise
        removed.entries += step.entries
        removed.tables += step.tables
        removed.oldest = step.oldest
        if step.tables:
            writer.adopt(load(connection))
        self.checkpoints.after_commit(writer.check_same_file())
        return more

    def _vacuum(self, waits_s: float) -> None:
        writer = self._writer
        try:
            writer.waiting.at_most(waits_s, in_one_piece=True)
            writer.connection.execute("VACUUM")
        except SQLiteError as error:
            writer.doubt(error)
            translated = writer.translated(error, "vacuum")
            self.after_failure(translated)
            raise translated from error
        writer.check_same_file()
        self.checkpoint()

    def _target(self, retention: Retention) -> tuple[int, int]:
        """The low-water mark that is asked for, and the present one."""
        connection = self._writer.connection
        try:
            return retention.target(connection), low_water(connection)
        except SQLiteError as error:
            raise self._writer.translated(error, "compact") from error

    def _held_back(self, target: int) -> int:
        """The low-water mark that is asked for, or the lower one that leaves the feeds what they have still to read. A feed that
        is further behind than the limit holds nothing back."""
        needed = self.lowest_needed(target - MOST_HELD_CHANGES)
        return target if needed is None else min(target, needed)

    def _retain(self, retention: Retention) -> None:
        """A little at a time, but more than has been written since the last time: so it catches up, whatever the pace."""
        writer = self._writer
        written = RETAIN_EVERY if self._retained is None else writer.last_seq - self._retained
        if written < RETAIN_EVERY:
            return
        self._retained = writer.last_seq
        target, low = self._target(retention)
        if self._held_back(target) > low:
            self._step(target, Compacted(), max(CHUNK_CHANGES, 2 * written), writer.busy_timeout_s)
