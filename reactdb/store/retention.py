"""Retention: how much history is kept, and how the rest is removed.

The low-water mark L is the oldest position from which the log can be read. Raising L to L' may remove entries at or
below L' that were superseded at or below L'. So the following always stay: every entry past L', every live document,
and the old value of every change past L' (its `prev`). A deletion at or below L' is removed with its tombstone.

The work is proportional to the changes between L and L', not to the file. Small transactions do it, so that a waiting
writer does not notice. L never passes the position of an open feed of this process or of a durable consumer of any
process, up to `read_hold` changes; the feeds of other processes are unknown here.

The file itself has the setting of how much history stays, the same for every process. Without a setting, history may
take as much room as `room` allows.

Thread safety: `Compaction.compact` from any thread; everything else only by the thread at the head of the write queue.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from threading import get_ident
from typing import Any, Literal

from reactdb.budget import check
from reactdb.errors import DiskFull, InvalidOption, ReactDBError, UsageError, format_value
from reactdb.logs import logger
from reactdb.store.blobs import drop_references, has_unused, remove_unused
from reactdb.store.catalogue import load
from reactdb.store.checkpoints import Checkpoints
from reactdb.store.clock import DAY_MS, measure_clock_lag_ms
from reactdb.store.epochs import remove_epochs
from reactdb.store.file.sqlite import Connection, SQLiteError
from reactdb.store.log import read_low_water
from reactdb.store.open_file import FileWriter
from reactdb.store.room import Room, compute_history_limit, measure_used_bytes
from reactdb.store.schema import BLOCK_BITS, read_fact, set_fact, write_catalogue_checksum
from reactdb.store.snapshot import read_head_seq
from reactdb.store.sums import NEWEST_BLOCK, SET_SUMS, complete, has_unsummed_tables, newest, unpack
from reactdb.store.transaction import DROP_ENTRY, WriteTransaction
from reactdb.values.value import Value

# Changes, or documents of dropped tables, that one write transaction removes: 2 to 15 ms of work, so that a waiting
# writer does not notice. The worst case has each of them on another page.
CHUNK_CHANGES = 500
# Bytes of documents that one transaction removes, if it removes more than one change.
CHUNK_BYTES = 2 * 1024 * 1024
# A compaction without free room continues in steps of as few changes as this: some 100 kB of log.
FEWEST_CHANGES = 50
MAKE_ROOM = (
    "removing history needs some 100 kB of room itself; make that much on this disk by removing something else, then compact "
    "again, and with vacuum=True when there is room for a copy of the documents"
)
# Changes between two checks of retention.
RETAIN_EVERY = 250
# Changes that removal leaves, beyond the setting, to feeds and consumers that still need them. A forgotten reader
# must not fill the disk: a million changes of ordinary documents are some 300 MB.
MOST_HELD_CHANGES = 1_000_000
# The fact that names another number, for the file.
HELD_CHANGES = "held_changes"
# The fact with the retention setting, as text: "all", or a unit and a number. Missing for "auto".
RETENTION = "retention"
MILLISECOND = timedelta(milliseconds=1)
# The longest that a timedelta holds. Some files name a millisecond more.
MOST_AGE_MS = timedelta.max // MILLISECOND


Setting = int | timedelta | Literal["auto"] | None
"""The type of `connect`'s argument."""


class Retention(Value):
    """The retention setting: keep the newest `changes`, and all younger than `age_ms`; None: no bound. Both must
    allow removal. With `is_auto`, the room in the file decides, and neither counts."""

    __slots__ = ("age_ms", "changes", "is_auto")

    def __init__(
        self, changes: int | None = None, age_ms: int | None = None, *, is_auto: bool = False
    ) -> None:
        self.changes = changes
        self.age_ms = age_ms
        self.is_auto = is_auto

    @classmethod
    def of(cls, value: object, name: str = "keep") -> Retention:
        """Make a Retention from the argument of `compact(keep=)`: a number of changes, or a timedelta. `name` is the
        caller's name of the argument.

        Raises:
            InvalidOption: The value is negative, or of another type.
        """
        if isinstance(value, timedelta):
            if value < timedelta():
                raise InvalidOption(f"{name} of {value} is negative")
            return cls(age_ms=value // MILLISECOND)
        if isinstance(value, int) and not isinstance(value, bool):
            if value < 0:
                raise InvalidOption(f"{name} of {value} changes is negative")
            return cls(changes=value)
        words = "a number of changes or a timedelta"
        if name == RETENTION:
            words = "'auto', None, a number of changes or a timedelta"
        raise InvalidOption(f"{name} is {words}, not {format_value(value)}")

    @classmethod
    def setting(cls, value: object) -> Retention | None:
        """Make a Retention from the argument of `connect(retention=)`: as for `of`, "auto", or None for all history.

        Raises:
            InvalidOption: The value is negative, or of another type.
        """
        if value is None:
            return None
        return AUTO if isinstance(value, str) and value == "auto" else cls.of(value, RETENTION)

    @property
    def value(self) -> Setting:
        """As `connect` takes it."""
        if self.is_auto:
            return "auto"
        return self.age_ms * MILLISECOND if self.age_ms is not None else self.changes

    def target(self, connection: Connection, now_ms: int, log_ms: int) -> int:
        """The low-water mark of this retention as of now: never below the present mark, never past the head.

        Args:
            now_ms: The time of this machine, in milliseconds since 1970.
            log_ms: That of the log: see `LogClock`.
        """
        head, low = read_head_seq(connection), read_low_water(connection)
        target = head
        if self.changes is not None:
            target = min(target, head - self.changes)
        if self.age_ms is not None:
            target = min(target, find_newest_of_age(connection, low, head, self.age_ms, now_ms, log_ms))
        return max(target, low)


AUTO = Retention(is_auto=True)


def read_retention(connection: Connection) -> Retention | None:
    """The file's retention setting; None: all history."""
    name, _, number = str(read_fact(connection, RETENTION) or "auto").partition(" ")
    if name == "auto":
        return AUTO
    if name == "changes":
        return Retention(changes=int(number))
    # A newer version may have written this setting, and only that version can read it. Until then nothing is removed.
    return Retention(age_ms=min(int(number), MOST_AGE_MS)) if name == "age_ms" else None


def name_retention(transaction: WriteTransaction, retention: Retention | None) -> None:
    """Write the retention setting into the file."""
    transaction.secure()
    text = "all"
    if retention is not None:
        bounds = (("changes", retention.changes), ("age_ms", retention.age_ms))
        text = next((f"{name} {number}" for name, number in bounds if number is not None), "auto")
    set_fact(transaction.connection, RETENTION, text)
    transaction.has_other_rows = True


def read_hold(connection: Connection) -> int:
    """How many changes, beyond the setting, stay for readers that still need them: the file's number, or else
    MOST_HELD_CHANGES."""
    named = read_fact(connection, HELD_CHANGES)
    return MOST_HELD_CHANGES if named is None else int(named)


def set_hold(transaction: WriteTransaction, changes: int) -> None:
    """Write into the file how many changes stay for readers that still need them."""
    transaction.secure()
    set_fact(transaction.connection, HELD_CHANGES, changes)
    transaction.has_other_rows = True


def find_newest_of_age(
    connection: Connection, low: int, head: int, age_ms: int, now_ms: int, log_ms: int
) -> int:
    """The newest seq in low..head of this age; `low` where there is none. Arguments as for `Retention.target`.

    The age of an entry counts from this machine's time. But where the log has a time of its own, entries after the
    jump have the log's time. Entries before the jump expire when they are old by the machine's time, or when an entry
    after them is old: a wrong clock makes nothing older.
    """
    seq = find_newest_older_than(connection, low, head, now_ms - age_ms)
    if log_ms > now_ms:
        before_jump = find_newest_older_than(connection, low, head, now_ms + DAY_MS)
        after_jump = find_newest_older_than(connection, low, head, log_ms - age_ms)
        if after_jump > before_jump:
            seq = max(seq, after_jump)
    return seq


def find_newest_older_than(connection: Connection, low: int, head: int, time_ms: int) -> int:
    """The newest seq in low..head that was written at or before `time_ms`; `low` where there is none.

    The search is a bisection, because times never decrease along the log. If a seq was removed, the next existing seq is read.
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


def find_seq_at(connection: Connection, low: int, head: int, time_ms: int) -> int | None:
    """The newest seq that was written at or before `time_ms`; 0 where the first is later. None where the removed history had it.

    Args:
        low: The seq up to which history was removed.
    """
    seq = find_newest_older_than(connection, low, head, time_ms)
    if seq > low or low == 0:
        return seq
    row = connection.execute("SELECT time FROM log WHERE seq = ?", (low,)).fetchone()
    return low if row is not None and row[0] <= time_ms else None


def measure_history(
    connection: Connection, feeds_need: Callable[[int], int | None], now_ms: int
) -> dict[str, Any]:
    """For `db.stats()` and `reactdb inspect`: the retention setting, and the size of history. Reads the keys of
    dropped tables.

    Args:
        feeds_need: The lowest position, from the given one on, needed by a feed.
        now_ms: The wall time, in milliseconds since 1970.
    """
    from reactdb.store import leases

    retention = read_retention(connection)
    history = Room().history(connection, most=sys.maxsize)
    behind: dict[str, int] = {}
    for seq, name in leases.positions_from(connection, history.low):
        behind[f"consumer {name!r}"] = min(seq, behind.get(f"consumer {name!r}", seq))
    feed = feeds_need(history.low)
    if feed is not None:
        behind["a feed of this process"] = feed
    holds = sorted((seq, reader) for reader, seq in behind.items() if seq < history.head)
    is_auto = retention is not None and retention.is_auto
    behind_by = measure_clock_lag_ms(connection, now_ms)
    return {
        "retention": None if retention is None else retention.value,
        "bytes": history.bytes,
        "limit_bytes": compute_history_limit(measure_used_bytes(connection), history.bytes)
        if is_auto
        else None,
        "holds": [{"by": reader, "from": seq} for seq, reader in holds],
        "clock_behind_s": None if behind_by is None else behind_by / 1_000,
    }


class Compaction:
    """Removes history: on request, or after a commit, where the setting no longer keeps it.

    After a commit nothing that goes wrong here may look as if the write had failed: it is logged, and tried again later.

    Attributes:
        look_at: At this seq the next check of retention is due.
        owed: Changes, or rows of dropped tables, that the thread of a commit has still to remove, in steps, after its turn. Twice
            as many are removed as are written: so removal catches up, whatever the pace.
    """

    def __init__(self, writer: FileWriter, checkpoints: Checkpoints) -> None:
        self._writer = writer
        self._checkpoints = checkpoints
        self._room = Room()
        self.look_at = 0
        self.owed = 0
        # The thread that owes them.
        self._debtor = 0
        # Counts of the rows that the connection has written: those before the last check, and those of compaction
        # steps.
        self._seen_rows = 0
        self._last_step = Compacted()

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
                # Then a read is necessary: compaction stops there, and reports the error itself.
                logger.debug(
                    "reading the commits of other processes to %s failed", writer.path, exc_info=True
                )
        removed = Compacted()
        target = writer.run_in_turn(lambda: self._target(retention), waits_s)
        most, more = CHUNK_CHANGES, True
        while more:
            # A request whose client leaves, or whose time is over, leaves the rest to the next compaction.
            check()
            try:
                more = writer.run_in_turn(partial(self._step, target, removed, most, waits_s), waits_s)
                if most < CHUNK_CHANGES:
                    writer.run_in_turn(self._checkpoints.run, waits_s)
            except DiskFull as error:
                # A smaller step needs less room, and gives its own back before the next.
                if most <= FEWEST_CHANGES:
                    raise DiskFull(f"{error}: {MAKE_ROOM}") from error
                most = max(FEWEST_CHANGES, most // 10)
        if vacuum:
            writer.run_in_turn(lambda: self._vacuum(waits_s), waits_s)
        return removed

    def after_commit(self, written: int) -> None:
        """Check retention after a commit, and remove some of the expired history. `written`: the changes of the
        commit."""
        self.look_at = self._writer.last_seq + RETAIN_EVERY
        connection = self._writer.connection
        rows = connection.total_changes - self._seen_rows
        self._seen_rows = connection.total_changes
        if not self._try_step(is_in_commit=True):
            return
        step, owed = self._last_step, 0
        if step.leaves_changes:
            # A step through large documents is short. So the next step comes sooner.
            self.look_at = self._writer.last_seq + min(RETAIN_EVERY, max(1, step.changes // 2))
            owed = 2 * written - step.changes
        if step.leaves_tables:
            # A dropped table leaves more rows than its changes, one for each index, too. Counted by changes, a
            # program that makes and drops tables would be ahead of the steps for ever.
            owed = max(owed, 2 * rows - step.table_rows)
        if owed > 0:
            self.owed = max(owed, self.owed)
            self._debtor = get_ident()

    def pay(self) -> None:
        """Remove the share of history that this thread's commit owes, outside its turn: after each step a waiting
        writer goes first."""
        while self.owed and self._debtor == get_ident():
            try:
                if not self._writer.run_in_turn(self._try_step):
                    self.owed = 0
            except ReactDBError:
                # The engine was closed, or another writer takes long.
                logger.debug("removing old history of %s was given up", self._writer.path, exc_info=True)
                self.owed = 0
            step = self._last_step
            self.owed = max(0, self.owed - max(1, step.changes + step.table_rows))

    def _try_step(self, is_in_commit: bool = False) -> bool:
        """Take one step, if some history has expired. Returns: whether more is left."""
        writer = self._writer
        try:
            try:
                retention = read_retention(writer.connection)
                if retention is None:
                    return False
                target, low = self._target(retention), read_low_water(writer.connection)
                is_due = (
                    self._limit_by_readers(target) > low
                    or has_dropped(writer.connection, low)
                    or has_unused(writer.connection, self._log_ms())
                )
            except SQLiteError as error:
                raise writer.engine.translate_error(error, "compact") from error
            return is_due and self._step(
                target, Compacted(), CHUNK_CHANGES, writer.busy_timeout_s, is_in_commit
            )
        except ReactDBError as error:
            logger.warning("removing old history of %s failed: %s", writer.path, error, exc_info=True)
            return False

    def _target(self, retention: Retention) -> int:
        """The low-water mark of the setting."""
        connection = self._writer.connection
        try:
            if retention.is_auto:
                return self._room.target(connection)
            return retention.target(connection, self._now_ms(), self._log_ms())
        except SQLiteError as error:
            raise self._writer.engine.translate_error(error, "compact") from error

    def _log_ms(self) -> int:
        """The time of the log, in milliseconds since 1970."""
        return self._writer.clock.now(self._writer.connection, self._now_ms())

    def _now_ms(self) -> int:
        return self._writer.engine.clock.time_ns() // 1_000_000

    def _limit_by_readers(self, target: int) -> int:
        """The low-water mark of the setting, or a lower one that leaves feeds and durable consumers their unread
        changes. A reader that is further behind than the limit holds nothing back."""
        writer = self._writer
        try:
            left = self._limit_by_consumers(target)
            needed = writer.engine.lowest_needed(target - read_hold(writer.connection))
        except SQLiteError as error:
            raise writer.engine.translate_error(error, "compact") from error
        return left if needed is None else min(left, needed)

    def _limit_by_consumers(self, target: int) -> int:
        """The same for durable consumers alone."""
        from reactdb.store import leases

        connection = self._writer.connection
        behind = leases.find_lowest_position(connection, target - read_hold(connection))
        return target if behind is None else min(target, behind[0])

    def _step(
        self, target: int, removed: Compacted, most: int, waits_s: float, is_in_commit: bool = False
    ) -> bool:
        """Take one step of compaction, in one transaction. Returns: whether more is left.

        Args:
            is_in_commit: A user's commit waits for this step. A checkpoint that has become due is left to the next
                step.
        """
        writer = self._writer
        connection = writer.connection
        goal = self._limit_by_readers(target)
        rows = connection.total_changes
        writer.engine.before_removal(goal)
        try:
            writer.begin_upkeep("compact", waits_s)
            # Again: another process may have made a consumer, or moved one back, while this step waited for the write
            # lock.
            goal = min(goal, self._limit_by_consumers(target))
            more, step = compact_step(connection, goal, most)
            blobs = remove_unused(connection, self._log_ms(), held=writer.engine.held_blobs())
            connection.execute("COMMIT")
            writer.note_commit()
        except BaseException as error:
            writer.roll_back()
            if isinstance(error, SQLiteError):
                raise self._failed(error, "compact") from error
            raise
        self._seen_rows += connection.total_changes - rows
        self._last_step = step
        removed.entries += step.entries
        removed.tables += step.tables
        removed.oldest = step.oldest
        if step.tables:
            writer.adopt(load(connection))
        wal_bytes = writer.check_same_file()
        if not is_in_commit:
            self._checkpoints.after_commit(wal_bytes)
        return more or blobs.has_more

    def _vacuum(self, waits_s: float) -> None:
        writer = self._writer
        try:
            # While everybody waits anyway.
            if has_unsummed_tables(writer.connection):
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
            complete(writer.connection, load(writer.connection), read_head_seq(writer.connection))
            writer.connection.execute("COMMIT")
            writer.note_commit()
        except BaseException:
            writer.roll_back()
            raise

    def _failed(self, error: Exception, operation: str) -> ReactDBError:
        writer = self._writer
        writer.doubt(error)
        translated = writer.engine.translate_error(error, operation)
        self._checkpoints.after_failure(translated)
        return translated


class Compacted:
    """The rows removed by a compaction, or by a step.

    Attributes:
        entries: Removed rows of the log, including those of dropped tables.
        tables: Dropped tables of which nothing is left.
        oldest: The position from which the log can be read since.
        changes: By how many the low-water mark was raised.
        table_rows: Rows of dropped tables, among the entries.
        leaves_changes: The mark has not reached its target yet.
        leaves_tables: A table that was dropped before the mark has rows left.
    """

    __slots__ = ("changes", "entries", "leaves_changes", "leaves_tables", "oldest", "table_rows", "tables")

    def __init__(self, oldest: int = 0) -> None:
        self.entries = 0
        self.tables = 0
        self.oldest = oldest
        self.changes = 0
        self.table_rows = 0
        self.leaves_changes = False
        self.leaves_tables = False


def _keep_sums(connection: Connection, low: int, goal: int) -> None:
    """Rewrite the sums that would otherwise be rolled forward through the removed changes."""
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


def has_dropped(connection: Connection, low: int) -> bool:
    """Whether there is something left of a table that was dropped at or below the low-water mark."""
    return (
        connection.execute("SELECT 1 FROM tables WHERE dropped <= ? LIMIT 1", (low,)).fetchone() is not None
    )


def compact_step(connection: Connection, target: int, most: int = CHUNK_CHANGES) -> tuple[bool, Compacted]:
    """Raise the low-water mark towards `target` by at most `most` changes, and remove as many documents of tables that were
    dropped below it, inside the caller's transaction.

    Returns:
        (whether more is left, the removed rows).
    """
    low = read_low_water(connection)
    goal = _limit_by_bytes(connection, low, min(target, low + most))
    removed = Compacted(oldest=max(goal, low))
    removed.changes = removed.oldest - low
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
        # body IS NULL: a deletion. Its tombstone is in `graves` unless the key came back, and then points to another
        # entry. Row by row, because with `(table_id, key) IN` SQLite would scan all tombstones of the table.
        connection.executemany(
            "DELETE FROM graves WHERE table_id = ? AND key = ? AND seq = ?",
            connection.execute(
                "SELECT table_id, key, seq FROM log WHERE seq > ? AND seq <= ? AND body IS NULL", window
            ).fetchall(),
        )
        _note_newest(connection, *window)
        removed.entries += connection.execute(
            "DELETE FROM log WHERE seq > ? AND seq <= ? AND (body IS NULL OR table_id = 0)", window
        ).rowcount
        # Marks serve reads past the low-water mark only. But format 3 keeps two more: the newest mark of each table,
        # and the newest mark before the low-water mark, because it says how far history of the table was lost.
        connection.execute(
            "DELETE FROM marks WHERE block < ?1 AND table_id IN (SELECT id FROM tables UNION ALL SELECT 0) AND block <"
            " (SELECT n.block FROM marks n WHERE n.table_id = marks.table_id AND n.block <= ?1"
            " AND (n.block < ?1 OR n.newest <= ?2) ORDER BY n.block DESC LIMIT 1)",
            (goal >> BLOCK_BITS, goal),
        )
        set_fact(connection, "low_water", goal)
        remove_epochs(connection, goal)
    dropped = [
        row[0]
        for row in connection.execute(
            "SELECT id FROM tables WHERE dropped IS NOT NULL AND dropped <= ? ORDER BY id", (goal,)
        ).fetchall()
    ]
    # Some always: or a table would never go while changes are made as quickly as they are removed.
    left = max(most - removed.changes, most // 4, 1)
    for table_id in dropped:
        if left <= 0:
            break
        before = connection.total_changes
        if _shrink_dropped(connection, table_id, left):
            connection.execute("DELETE FROM indexes WHERE table_id = ?", (table_id,))
            connection.execute("DELETE FROM graves WHERE table_id = ?", (table_id,))
            connection.execute("DELETE FROM tables WHERE id = ?", (table_id,))
            removed.tables += 1
        else:
            left = 0
        count = connection.total_changes - before
        removed.table_rows += count
        left -= count
    if removed.tables:
        set_fact(connection, "catalogue", int(read_fact(connection, "catalogue")) + 1)
        write_catalogue_checksum(connection)
    removed.entries += removed.table_rows
    removed.leaves_changes, removed.leaves_tables = goal < target, removed.tables < len(dropped)
    return removed.leaves_changes or removed.leaves_tables, removed


def _limit_by_bytes(connection: Connection, low: int, goal: int) -> int:
    """A mark up to `goal` that removes not much more than CHUNK_BYTES of documents; at least one change further than
    `low`."""
    size = 0
    for seq, length in connection.execute(
        "SELECT l.seq, length(p.body) FROM log l JOIN log p ON p.seq = l.prev WHERE l.seq > ? AND l.seq <= ?",
        (low, goal),
    ):
        size += length or 0
        if size > CHUNK_BYTES:
            return int(seq)
    return goal


def _shrink_dropped(connection: Connection, table_id: int, most: int) -> bool:
    """Remove up to `most` index entries or documents of a dropped table. Whether none is left."""
    # Sums and marks first: they are of the whole table.
    connection.execute("DELETE FROM marks WHERE table_id = ?", (table_id,))
    for (index_id,) in connection.execute(
        "SELECT id FROM indexes WHERE table_id = ?1 UNION ALL SELECT -id FROM indexes WHERE table_id = ?1",
        (table_id,),
    ).fetchall():
        entries = connection.execute(
            "SELECT index_id, value, key, tag FROM entries WHERE index_id = ? LIMIT ?",
            (index_id, max(0, most)),
        ).fetchall()
        connection.executemany(DROP_ENTRY, entries)
        most -= len(entries)
    size, count, upto = 0, 0, b""
    for key, length in connection.execute(
        "SELECT h.key, length(l.body) FROM heads h JOIN log l ON l.seq = h.seq WHERE h.table_id = ? ORDER BY h.key LIMIT ?",
        (table_id, max(0, most)),
    ):
        size, count, upto = size + (length or 0), count + 1, key
        if size > CHUNK_BYTES:
            break
    # Below the low-water mark only the entries of live documents are left.
    written = "SELECT seq FROM heads WHERE table_id = ? AND key <= ?"
    drop_references(connection, written, (table_id, upto))
    connection.execute(f"DELETE FROM log WHERE seq IN ({written})", (table_id, upto))
    connection.execute("DELETE FROM heads WHERE table_id = ? AND key <= ?", (table_id, upto))
    return count < most and size <= CHUNK_BYTES


def _note_newest(connection: Connection, low: int, goal: int) -> None:
    """For tables that changed in low < seq <= goal, note the newest of these changes in the marks: its other record
    may be about to be removed."""
    newest = connection.execute(
        "SELECT table_id, max(seq) FROM log WHERE seq > ? AND seq <= ? GROUP BY table_id", (low, goal)
    ).fetchall()
    connection.executemany(
        f"UPDATE marks SET newest = ?2 WHERE table_id = ?1 AND block = (?2 >> {BLOCK_BITS})", newest
    )
