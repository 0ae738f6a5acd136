"""Retention: how much history is kept, and how the rest is removed.

The low-water mark L is the oldest position from which the log can be read. Raising it to L' may remove, of the entries at or
below L', those that are superseded at or below L'. So these always stay: every entry past L', every live document, and the
old value of every change past L' (its `prev`). A deletion at or below L' goes, and its tombstone with it.

The work is proportional to the changes between L and L', not to the file. It is done in small transactions, so that a writer
who waits does not notice. L is not raised past what an open feed of this process has still to read, up to MOST_HELD_CHANGES;
nobody here knows of the feeds of other processes.

Thread safety: `Compaction.compact` from any thread; everything else only by the thread at the head of the write queue.
"""

from __future__ import annotations

import time
from datetime import timedelta
from functools import partial

from reactdb.errors import DiskFull, InvalidOption, ReactDBError, UsageError
from reactdb.logs import logger
from reactdb.store.blobs import drop_references, remove_unused
from reactdb.store.catalogue import load
from reactdb.store.checkpoints import Checkpoints
from reactdb.store.epochs import remove_epochs
from reactdb.store.file.sqlite import Connection, SQLiteError
from reactdb.store.open_file import FileWriter
from reactdb.store.schema import BLOCK_BITS, fact, set_fact, write_catalogue_checksum
from reactdb.store.snapshot import head_seq, low_water
from reactdb.store.sums import NEWEST_BLOCK, SET_SUMS, complete, lacks_sums, newest, unpack
from reactdb.store.transaction import WriteTransaction, remove_dropped
from reactdb.values.value import Value

# Changes that one write transaction removes: about 10 ms of work, so that a writer who waits does not notice.
CHUNK_CHANGES = 5_000
# A compaction that finds no room goes on in steps of as few changes as this: some 100 kB of log.
FEWEST_CHANGES = 50
MAKE_ROOM = (
    "removing history needs some 100 kB of room itself; make that much on this disk by removing something else, then compact "
    "again, and with vacuum=True when there is room for a copy of the documents"
)
# Changes between two looks at what retention does not keep any more.
RETAIN_EVERY = 500
# Changes that removal leaves, beyond what was asked for, to the feeds of this process that have still to read them. A reader
# that was forgotten must not fill the disk: a million changes of ordinary documents are some 300 MB.
MOST_HELD_CHANGES = 1_000_000
# The fact that names another number, for the file.
HELD_CHANGES = "held_changes"


class Retention(Value):
    """What history to keep: the newest `changes`, and those younger than `age_ms`; None: no bound. Both must allow removal."""

    __slots__ = ("age_ms", "changes")

    def __init__(self, changes: int | None = None, age_ms: int | None = None) -> None:
        self.changes = changes
        self.age_ms = age_ms

    @classmethod
    def of(cls, value: object, name: str = "retention") -> Retention | None:
        """From what `connect(retention=)` and `compact(keep=)` take: None, a number of changes, a timedelta, or a Retention.
        `name` is what the caller calls it.

        Raises:
            InvalidOption: Something else, or a negative one.
        """
        if value is None or isinstance(value, Retention):
            return value
        if isinstance(value, timedelta):
            if value < timedelta():
                raise InvalidOption(f"{name} of {value} is negative")
            return cls(age_ms=int(value.total_seconds() * 1000))
        if isinstance(value, int) and not isinstance(value, bool):
            if value < 0:
                raise InvalidOption(f"{name} of {value} changes is negative")
            return cls(changes=value)
        raise InvalidOption(f"{name} is a number of changes or a timedelta, not {type(value).__name__}")

    def target(self, connection: Connection) -> int:
        """The low-water mark that this retention asks for now: never below the present one, never past the head."""
        head, low = head_seq(connection), low_water(connection)
        target = head
        if self.changes is not None:
            target = min(target, head - self.changes)
        if self.age_ms is not None:
            target = min(
                target, newest_older_than(connection, low, head, time.time_ns() // 1_000_000 - self.age_ms)
            )
        return max(target, low)


def held_changes(connection: Connection) -> int:
    """How many changes, beyond what is asked for, stay for those who have still to read them: as the file says, or else
    MOST_HELD_CHANGES."""
    named = fact(connection, HELD_CHANGES)
    return MOST_HELD_CHANGES if named is None else int(named)


def hold_changes(transaction: WriteTransaction, changes: int) -> None:
    """Let the file name how many changes stay for those who have still to read them."""
    transaction.secure()
    set_fact(transaction.connection, HELD_CHANGES, changes)
    transaction.has_other_rows = True


def newest_older_than(connection: Connection, low: int, head: int, time_ms: int) -> int:
    """The newest seq in low..head that was written at or before `time_ms`; `low` where there is none.

    By bisection: times never go back along the log, and a seq that compaction removed stands for the next one left.
    """
    while low < head:
        middle = (low + head + 1) // 2
        row = connection.execute(
            "SELECT seq, time FROM log WHERE seq >= ? AND seq <= ? LIMIT 1", (middle, head)
        ).fetchone()
        if row is not None and row[1] <= time_ms:
            low = max(middle, int(row[0]))
        else:
            head = middle - 1
    return low


class Compaction:
    """Removes history: because somebody asked, or after a commit, where `retention` does not keep it any more.

    After a commit nothing that goes wrong here may look as if the write had failed: it is logged, and tried again later.

    Attributes:
        retention: What history is kept without being asked; None: all.
    """

    def __init__(self, writer: FileWriter, checkpoints: Checkpoints) -> None:
        self._writer = writer
        self._checkpoints = checkpoints
        self.retention: Retention | None = None
        # The newest seq when retention was last looked at; None: not yet.
        self._retained: int | None = None

    def compact(
        self, retention: Retention, *, vacuum: bool = False, busy_timeout_s: float | None = None
    ) -> Compacted:
        """Remove the history that `retention` does not keep, and give the room back to the disk with `vacuum`."""
        writer = self._writer
        waits_s = writer.busy_timeout_s if busy_timeout_s is None else busy_timeout_s
        writer.check_writable()
        if writer.current is not None:
            raise UsageError("compact() cannot be part of a transaction")
        if not writer.engine.is_memory:
            # The commits of other processes are published first, or the feeds would still have to read all of them.
            try:
                writer.engine.catch_up()
            except ReactDBError:
                # Then they have to: compaction stops there, and says itself what is wrong.
                logger.debug("reading what others wrote to %s failed", writer.path, exc_info=True)
        removed = Compacted()
        target, _ = writer.in_turn(lambda: self._target(retention), waits_s)
        most, more = CHUNK_CHANGES, True
        while more:
            try:
                more = writer.in_turn(partial(self._step, target, removed, most, waits_s), waits_s)
                if most < CHUNK_CHANGES:
                    writer.in_turn(self._checkpoints.run, waits_s)
            except DiskFull as error:
                # A smaller step needs less room, and gives its own back before the next.
                if most <= FEWEST_CHANGES:
                    raise DiskFull(f"{error}: {MAKE_ROOM}") from error
                most = max(FEWEST_CHANGES, most // 10)
        if vacuum:
            writer.in_turn(lambda: self._vacuum(waits_s), waits_s)
        return removed

    def after_commit(self, retention: Retention) -> None:
        """Remove a little, but more than has been written since the last time: so it catches up, whatever the pace."""
        writer = self._writer
        written = RETAIN_EVERY if self._retained is None else writer.last_seq - self._retained
        if written < RETAIN_EVERY:
            return
        self._retained = writer.last_seq
        try:
            target, low = self._target(retention)
            if self._held_back(target) > low:
                self._step(target, Compacted(), max(CHUNK_CHANGES, 2 * written), writer.busy_timeout_s)
        except ReactDBError as error:
            logger.warning("removing old history of %s failed: %s", writer.path, error, exc_info=True)

    def _target(self, retention: Retention) -> tuple[int, int]:
        """The low-water mark that is asked for, and the present one."""
        connection = self._writer.connection
        try:
            return retention.target(connection), low_water(connection)
        except SQLiteError as error:
            raise self._writer.engine.translated(error, "compact") from error

    def _held_back(self, target: int) -> int:
        """The low-water mark that is asked for, or a lower one that leaves feeds and durable consumers what they have still to
        read. One that is further behind than the limit holds nothing back."""
        from reactdb.store import leases

        writer = self._writer
        try:
            oldest = target - held_changes(writer.connection)
            needed = (writer.engine.lowest_needed(oldest), leases.lowest_needed(writer.connection, oldest))
        except SQLiteError as error:
            raise writer.engine.translated(error, "compact") from error
        return min([target, *(position for position in needed if position is not None)])

    def _step(self, target: int, removed: Compacted, most: int, waits_s: float) -> bool:
        """One transaction's worth of compaction. Whether more is left."""
        writer = self._writer
        connection = writer.connection
        target = self._held_back(target)
        writer.engine.before_removal(target)
        try:
            writer.begin_upkeep("compact", waits_s)
            more, step = compact_step(connection, target, most)
            blobs = remove_unused(connection, time.time_ns() // 1_000_000, held=writer.engine.held_blobs())
            connection.execute("COMMIT")
            writer.note_commit()
        except BaseException as error:
            writer.roll_back()
            if isinstance(error, SQLiteError):
                raise self._failed(error, "compact") from error
            raise
        removed.entries += step.entries
        removed.tables += step.tables
        removed.oldest = step.oldest
        if step.tables:
            writer.adopt(load(connection))
        self._checkpoints.after_commit(writer.check_same_file())
        return more or blobs.has_more

    def _vacuum(self, waits_s: float) -> None:
        writer = self._writer
        try:
            # While everybody waits anyway.
            if lacks_sums(writer.connection):
                self._take_stock(waits_s)
            writer.lock_wait.at_most(waits_s, in_one_piece=True)
            writer.connection.execute("VACUUM")
        except SQLiteError as error:
            raise self._failed(error, "vacuum") from error
        writer.check_same_file()
        self._checkpoints.run()

    def _take_stock(self, waits_s: float) -> None:
        writer = self._writer
        try:
            writer.begin_upkeep("vacuum", waits_s)
            complete(writer.connection, load(writer.connection), head_seq(writer.connection))
            writer.connection.execute("COMMIT")
            writer.note_commit()
        except BaseException:
            writer.roll_back()
            raise

    def _failed(self, error: Exception, operation: str) -> ReactDBError:
        writer = self._writer
        writer.doubt(error)
        translated = writer.engine.translated(error, operation)
        self._checkpoints.after_failure(translated)
        return translated


class Compacted:
    """What a compaction removed, and the position from which the log can be read since."""

    __slots__ = ("entries", "oldest", "tables")

    def __init__(self, entries: int = 0, tables: int = 0, oldest: int = 0) -> None:
        self.entries = entries
        self.tables = tables
        self.oldest = oldest


def _keep_sums(connection: Connection, low: int, goal: int) -> None:
    """Write the sums anew that would be rolled forward through changes which are removed now."""
    changed = "SELECT DISTINCT table_id FROM log WHERE seq > ? AND seq <= ?"
    tables = None
    for (table_id,) in connection.execute(changed, (low, goal)).fetchall():
        newest_block = connection.execute(NEWEST_BLOCK, (table_id,)).fetchone()
        if newest_block is None or newest_block[1] is None:
            continue
        tables = tables or load(connection).by_id
        table = tables[table_id]
        if unpack(table, *newest_block).seq < goal:
            block, sums = newest(connection, table, tuple(table.indexes.values()))
            assert block is not None
            assert sums is not None
            connection.execute(SET_SUMS, (sums.pack(table_id, block), table_id, block))


def compact_step(connection: Connection, target: int, most: int = CHUNK_CHANGES) -> tuple[bool, Compacted]:
    """Raise the low-water mark towards `target` by at most `most` changes, inside the caller's transaction.

    Returns:
        (whether more is left to do, what was removed).
    """
    low = low_water(connection)
    goal = min(target, low + most)
    removed = Compacted(oldest=max(goal, low))
    if goal > low:
        window = (low, goal)
        _keep_sums(connection, low, goal)
        drop_references(
            connection, "SELECT prev FROM log WHERE seq > ? AND seq <= ? AND prev IS NOT NULL", window
        )
        removed.entries += connection.execute(
            "DELETE FROM log WHERE seq IN (SELECT prev FROM log WHERE seq > ? AND seq <= ? AND prev IS NOT NULL)",
            window,
        ).rowcount
        # body IS NULL: a deletion. Its grave is there unless the key came back, and then points to another entry.
        connection.execute(
            "DELETE FROM graves WHERE (table_id, key) IN"
            " (SELECT table_id, key FROM log WHERE seq > ?1 AND seq <= ?2 AND body IS NULL) AND seq <= ?2",
            window,
        )
        _note_newest(connection, *window)
        removed.entries += connection.execute(
            "DELETE FROM log WHERE seq > ? AND seq <= ? AND (body IS NULL OR table_id = 0)", window
        ).rowcount
        # Marks serve reads past the low-water mark only. But the newest of each table says where its newest change was.
        connection.execute(
            "DELETE FROM marks WHERE block < ?1 AND table_id IN (SELECT id FROM tables UNION ALL SELECT 0) AND block <"
            " (SELECT max(n.block) FROM marks n WHERE n.table_id = marks.table_id)",
            (goal >> BLOCK_BITS,),
        )
        set_fact(connection, "low_water", goal)
        remove_epochs(connection, goal)
    dropped = [
        row[0]
        for row in connection.execute(
            "SELECT id FROM tables WHERE dropped IS NOT NULL AND dropped <= ?", (goal,)
        ).fetchall()
    ]
    if dropped:
        before = connection.total_changes
        remove_dropped(connection, dropped)
        removed.entries += connection.total_changes - before
        removed.tables = len(dropped)
        set_fact(connection, "catalogue", int(fact(connection, "catalogue")) + 1)
        write_catalogue_checksum(connection)
    return goal < target, removed


def _note_newest(connection: Connection, low: int, goal: int) -> None:
    """Of tables whose newest change is a deletion that is about to be removed: note in the newest mark where that was."""
    deletions = connection.execute(
        "SELECT table_id, max(seq) FROM log WHERE seq > ? AND seq <= ? AND body IS NULL GROUP BY table_id",
        (low, goal),
    ).fetchall()
    for table_id, seq in deletions:
        connection.execute(
            f"UPDATE marks SET newest = ?2 WHERE table_id = ?1 AND block = (?2 >> {BLOCK_BITS})"
            " AND NOT EXISTS (SELECT 1 FROM marks n WHERE n.table_id = ?1 AND n.block > marks.block)"
            f" AND NOT EXISTS (SELECT 1 FROM log WHERE seq > ?2 AND seq < ((marks.block + 1) << {BLOCK_BITS})"
            " AND table_id = ?1)",
            (table_id, seq),
        )
