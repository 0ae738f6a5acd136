"""Room: how much of a file history takes, and the low-water mark at which it takes as much as it may.

No counter exists, so that a commit pays nothing for it, and the result is the same after reopening and in every
process. SQLite knows how many pages are in use: a file with fewer pages than history alone may take needs no second
look. In a larger file, each change past the low-water mark keeps its superseded entry, and a deletion keeps itself,
too; a sample of the changes gives the bytes of one. Dropped tables are counted, some documents at a time.

Rule of this file: it looks, and removes nothing. No call reads more than some thousand rows.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from reactdb.store.file.sqlite import Connection
from reactdb.store.log import read_low_water
from reactdb.store.snapshot import read_head_seq

# The least limit of history: 256 MB.
LEAST_BYTES = 256_000_000
# A sample is this number of stretches of the log, with as many changes each as the next figure says.
STRETCHES = 32
STRETCH_CHANGES = 8
# The sample is taken again when the history has grown by a part of this.
PART = 64
# Documents of dropped tables that are counted at once.
COUNTED_DOCUMENTS = 2_000
# Bytes of an entry beside its key, document and meta.
ENTRY_BYTES = 40

# Rows that can be removed once the low-water mark has passed a change: the entry before, with the blobs that the
# change itself does not name; and a deletion, or a change of the catalogue, itself.
BYTES_OF_CHANGES = f"""
SELECT count(*), total(
  CASE WHEN p.body IS NULL THEN 0 ELSE {ENTRY_BYTES} + length(p.key) + length(p.body) + ifnull(length(p.meta), 0) +
    (SELECT total(b.size) FROM blob_refs r JOIN blobs b ON b.id = r.blob
     WHERE r.seq = p.seq AND NOT EXISTS (SELECT 1 FROM blob_refs n WHERE n.seq = c.seq AND n.blob = r.blob)) END +
  CASE WHEN c.body IS NULL OR c.table_id = 0 THEN {ENTRY_BYTES} + length(c.key) + ifnull(length(c.body), 0) ELSE 0 END)
FROM (SELECT seq, table_id, key, prev, body FROM log WHERE seq > ? AND seq <= ?) c LEFT JOIN log p ON p.seq = c.prev
"""
DROPPED = "SELECT id, dropped FROM tables WHERE dropped IS NOT NULL"
DOCUMENTS = (
    "SELECT h.key, length(h.key) + length(l.body) +"
    " (SELECT total(b.size) FROM blob_refs r JOIN blobs b ON b.id = r.blob WHERE r.seq = h.seq)"
    " FROM heads h JOIN log l ON l.seq = h.seq"
    " WHERE h.table_id = ? AND h.key > ? ORDER BY h.key LIMIT ?"
)


class History(NamedTuple):
    """The size of history.

    Attributes:
        low: The low-water mark.
        head: The newest seq.
        change_bytes: Bytes that one change past the mark keeps, on average.
        dropped: For each dropped table: the seq of the drop, or the mark if it is past the drop; and its bytes.
    """

    low: int
    head: int
    change_bytes: float
    dropped: list[tuple[int, int]]

    @property
    def bytes(self) -> int:
        """All of it."""
        return int(self.change_bytes * (self.head - self.low)) + sum(size for _, size in self.dropped)

    def mark_without(self, excess: float) -> int:
        """The lowest low-water mark at which history takes `excess` bytes less; the newest seq where there is none."""
        mark = self.low
        for seq, size in sorted(self.dropped):
            if excess <= 0 or excess <= (seq - mark) * self.change_bytes:
                break
            excess -= (seq - mark) * self.change_bytes + size
            mark = seq
        if excess <= 0 or not self.change_bytes:
            return mark
        return min(self.head, mark + ceil(excess / self.change_bytes))


def measure_used_bytes(connection: Connection) -> int:
    """The pages of the file in use. Free pages are filled before the file grows."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    return int((pages - free) * page_bytes)


def compute_history_limit(used: int, history: int) -> int:
    """The limit of history in a file: as much as all other data, or LEAST_BYTES, whichever is more."""
    return max(used - history, LEAST_BYTES)


def change_bytes(connection: Connection, low: int, head: int) -> float:
    """How many bytes a change in low < seq <= head keeps: on average over a sample, which is all of them where they are few."""
    span = head - low
    starts, length = [low], span
    if span > STRETCHES * STRETCH_CHANGES:
        # Not at even distances, because writes may follow the same rhythm.
        each, length = span / STRETCHES, STRETCH_CHANGES
        starts = [low + int(each * n + (each - length) * (n * 0.618 % 1)) for n in range(STRETCHES)]
    count, size = 0, 0.0
    for start in starts:
        sums = connection.execute(BYTES_OF_CHANGES, (start, start + length)).fetchone()
        count, size = count + sums[0], size + sums[1]
    return size / count if count else 0.0


class Room:
    """This process's estimate of the room in a file. The next look corrects any error.

    Thread safety: none; used by the thread at the head of the write queue, or by a thread that has the object alone.
    """

    def __init__(self) -> None:
        # For each dropped table: the bytes counted so far, and the key to continue from; None after the last.
        self._counted: dict[int, tuple[int, bytes | None]] = {}
        self._target = 0
        # The seq with which the next sample is due.
        self._due = 0

    def target(self, connection: Connection) -> int:
        """The low-water mark at which history fits its room: never below the present mark."""
        used = measure_used_bytes(connection)
        head, low = read_head_seq(connection), read_low_water(connection)
        if used <= LEAST_BYTES:
            self._due = 0
        elif head >= self._due:
            history = self.history(connection)
            is_counted = all(key is None for _, key in self._counted.values())
            self._due = head + ((head - low) // PART if is_counted else 0)
            self._target = history.mark_without(history.bytes - compute_history_limit(used, history.bytes))
        return max(low, self._target) if used > LEAST_BYTES else low

    def history(self, connection: Connection, most: int = COUNTED_DOCUMENTS) -> History:
        """The size of history as far as it is known, after counting `most` documents more of dropped tables."""
        head, low = read_head_seq(connection), read_low_water(connection)
        dropped_tables = connection.execute(DROPPED).fetchall()
        dropped = []
        for table_id, seq in dropped_tables:
            if seq <= low:
                # Being removed.
                self._counted.pop(table_id, None)
            most = self._count(connection, table_id, most)
            dropped.append((max(seq, low), self._counted[table_id][0]))
        known = {table_id for table_id, _ in dropped_tables}
        self._counted = {table_id: one for table_id, one in self._counted.items() if table_id in known}
        return History(low, head, change_bytes(connection, low, head), dropped)

    def _count(self, connection: Connection, table_id: int, most: int) -> int:
        """Continue counting a dropped table. Returns: how many documents may still be counted."""
        size, key = self._counted.setdefault(table_id, (0, b""))
        if key is None or not most:
            return most
        rows = connection.execute(DOCUMENTS, (table_id, key, most)).fetchall()
        size += sum(ENTRY_BYTES + int(length) for _, length in rows)
        self._counted[table_id] = size, rows[-1][0] if len(rows) == most else None
        return most - len(rows)
