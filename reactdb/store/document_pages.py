"""Document pages: the documents in bulk, as of any seq. Beside `exports`, whose rules hold here.

Rule of this file: the documents as of a seq are today's with the later changes of their keys taken back.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from reactdb.change import INSERT
from reactdb.errors import HistoryLost
from reactdb.store.catalogue import HIDDEN_VALUE_BYTES, IndexInfo, TableInfo
from reactdb.store.damage import first_damaged, missing_entry
from reactdb.store.exports import LOG, PAGE_BYTES, PAGE_ROWS, PICKED_ROWS, fetch, not_whole
from reactdb.store.seals import are_entries_whole, are_whole
from reactdb.store.snapshot import Snapshot, head_seq, low_water

# A key that changed more often than this since is taken back by itself, row by row.
LONG_HISTORY = 20_000

# The documents of today; of those that have changed since ?4, only that they have.
STATE = (
    "SELECT h.key, l.body, l.seal, h.seq FROM heads h LEFT JOIN log l ON l.seq = h.seq AND h.seq <= ?4"
    " WHERE h.table_id = ?1 AND h.key >= ?2 AND h.key < ?3 ORDER BY h.key LIMIT ?5"
)
DELETED_SINCE = (
    "SELECT key FROM graves WHERE table_id = ?1 AND key >= ?2 AND key < ?3 AND seq > ?4 ORDER BY key LIMIT ?5"
)
# All entries past ?4 of the keys from ?2 to ?3 that have some, and of each the one before those.
BACK = (
    "WITH RECURSIVE back(seq) AS ("
    " SELECT seq FROM heads WHERE table_id = ?1 AND key >= ?2 AND key <= ?3 AND seq > ?4"
    " UNION ALL SELECT seq FROM graves WHERE table_id = ?1 AND key >= ?2 AND key <= ?3 AND seq > ?4"
    " UNION ALL SELECT l.prev FROM back b JOIN log l ON l.seq = b.seq WHERE b.seq > ?4 AND l.prev IS NOT NULL)"
    f" SELECT {LOG} FROM back b JOIN log l ON l.seq = b.seq LIMIT ?5"
)
# Keys that a table has, or had.
KEYS = (
    "SELECT key FROM heads WHERE table_id = ?1 AND key >= ?2 AND key < ?3"
    " UNION ALL SELECT key FROM graves WHERE table_id = ?1 AND key >= ?2 AND key < ?3 LIMIT ?4"
)
CANDIDATES = "SELECT key FROM entries WHERE index_id = ? AND value >= ? AND value < ? LIMIT ?"
SPLIT = "SELECT key FROM heads WHERE table_id = ? AND key >= ? ORDER BY key LIMIT 1 OFFSET ?"


class Documents(NamedTuple):
    """Documents in order of their keys, and where the next page begins; None after the last."""

    keys: Sequence[bytes]
    bodies: Sequence[bytes]
    next_start: bytes | None


def documents(
    snapshot: Snapshot, table: TableInfo, seq: int, start: bytes, stop: bytes, *, limit: int = PAGE_ROWS
) -> Documents:
    """A page of the documents as of `seq` with start <= key < stop, in order of their keys.

    Raises:
        HistoryLost: The changes since then were compacted away.
        CorruptDatabase: Some are not what was written.
    """
    connection = snapshot.connection
    oldest = low_water(connection)
    if seq < oldest:
        raise HistoryLost(seq, oldest + 1)
    rows, is_all = fetch(connection.execute(STATE, (table.id, start, stop, seq, limit)), limit, body=1)
    end = None if is_all else rows[-1][0]
    gone = connection.execute(DELETED_SINCE, (table.id, start, stop, seq, limit)).fetchall()
    if len(gone) == limit:
        end = gone[-1][0] if end is None else min(end, gone[-1][0])
    if end is not None:
        rows = [row for row in rows if row[0] <= end]
        gone = [row for row in gone if row[0] <= end]
    now = [row for row in rows if row[3] <= seq]
    keys, bodies = _whole(snapshot, table, now)
    if len(now) < len(rows) or gone:
        changed = [row[0] for row in rows if row[3] > seq] + [key for (key,) in gone]
        then = dict(zip(keys, bodies, strict=True))
        then.update(_taken_back(snapshot, table, seq, changed))
        keys = sorted(then)
        bodies = [then[key] for key in keys]
    return Documents(keys, bodies, None if end is None else end + b"\0")


def picked(snapshot: Snapshot, table: TableInfo, seq: int, start: bytes, keys: Sequence[bytes]) -> Documents:
    """A page of the documents of sorted keys as of `seq`, from the first that is at or after `start`.

    Raises:
        As `documents`.
    """
    first = bisect_left(keys, start)
    found: list[bytes] = []
    bodies: list[bytes] = []
    size = 0
    for place in range(first, min(first + PICKED_ROWS, len(keys))):
        page = documents(snapshot, table, seq, keys[place], keys[place] + b"\0", limit=2)
        found += page.keys
        bodies += page.bodies
        size += sum(map(len, page.bodies))
        if size >= PAGE_BYTES:
            break
    else:
        place = first + PICKED_ROWS - 1
    return Documents(found, bodies, keys[place + 1] if place + 1 < len(keys) else None)


def changed_keys(snapshot: Snapshot, table: TableInfo, seq: int, most: int) -> set[bytes] | None:
    """The keys that have changed since `seq`; None where there are more than `most` changes to look at."""
    head = head_seq(snapshot.connection)
    if head - seq > most:
        return None
    return {
        key
        for (key,) in snapshot.connection.execute(
            "SELECT key FROM log WHERE seq > ? AND +table_id = ?", (seq, table.id)
        )
    }


def candidates(
    snapshot: Snapshot, index: IndexInfo, ranges: Iterable[tuple[bytes, bytes]], most: int
) -> set[bytes] | None:
    """As `Snapshot.candidates`, the keys of all documents with an entry in one of these ranges; None of more than `most`."""
    found: set[bytes] = set()
    for start, stop in ranges:
        for index_id, low in ((index.id, start), (-index.id, start[:HIDDEN_VALUE_BYTES])):
            found.update(
                key for (key,) in snapshot.connection.execute(CANDIDATES, (index_id, low, stop, most + 1))
            )
            if len(found) > most:
                return None
    return found


def keys_within(
    snapshot: Snapshot, table_id: int, ranges: Iterable[tuple[bytes, bytes]], most: int
) -> list[bytes] | None:
    """The keys in these ranges, which are apart, that a table has, or had as far as its log goes; None of more than `most`."""
    found: list[bytes] = []
    for start, stop in ranges:
        left = most + 1 - len(found)
        found += (key for (key,) in snapshot.connection.execute(KEYS, (table_id, start, stop, left)))
        if len(found) > most:
            return None
    return found


def _whole(
    snapshot: Snapshot, table: TableInfo, rows: Sequence[tuple[Any, ...]]
) -> tuple[Sequence[bytes], Sequence[bytes]]:
    if not rows:
        return (), ()
    keys, bodies, seals, _ = zip(*rows, strict=True)
    if not are_whole(table.id, keys, bodies, seals):
        raise first_damaged(snapshot.connection, table, keys, bodies, seals)
    return keys, bodies


def _taken_back(snapshot: Snapshot, table: TableInfo, seq: int, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    """The documents of these keys as of `seq`, which all have changed since; without those that were not there."""
    found: dict[bytes, bytes] = {}
    rows = snapshot.connection.execute(BACK, (table.id, min(keys), max(keys), seq, LONG_HISTORY)).fetchall()
    if len(rows) >= LONG_HISTORY:
        for key in keys:
            body = _one_taken_back(snapshot, table, seq, key)
            if body is not None:
                found[key] = body
        return found
    columns: list[Sequence[Any]] = [*zip(*rows, strict=True), (), ()]
    if not are_entries_whole(columns) or set(columns[1]) != {table.id}:
        raise not_whole(snapshot, seq, head_seq(snapshot.connection))
    seqs, kinds, prevs, entry_keys, bodies = columns[0], columns[2], columns[4], columns[6], columns[7]
    # The oldest entry of each key: the one at or before `seq`, or else the first that it ever had.
    oldest = dict(sorted(zip(entry_keys, seqs, strict=True), reverse=True))
    place = {number: index for index, number in enumerate(seqs)}
    for key in keys:
        if key not in oldest:
            raise not_whole(snapshot, seq, head_seq(snapshot.connection))
        index = place[oldest[key]]
        if seqs[index] > seq:
            if kinds[index] != INSERT:
                raise missing_entry(prevs[index])
        elif bodies[index] is not None:
            found[key] = bodies[index]
    return found


def _one_taken_back(snapshot: Snapshot, table: TableInfo, seq: int, key: bytes) -> bytes | None:
    for change in snapshot.history(table, key):
        if change.seq <= seq:
            return change.new_bytes
    return None


def split_keys(snapshot: Snapshot, table: TableInfo, documents_each: int) -> list[bytes]:
    """Keys that cut the table of today into ranges of so many documents: the beginnings of all but the first."""
    found: list[bytes] = []
    start = b""
    while True:
        row = snapshot.connection.execute(SPLIT, (table.id, start, documents_each)).fetchone()
        if row is None:
            return found
        start = row[0]
        found.append(start)


def first_and_last_keys(snapshot: Snapshot, table_ids: Sequence[int]) -> set[bytes]:
    """Of each table the least and the greatest key that it has, or had: if those two are of one type, all are."""
    found: set[bytes] = set()
    for table_id in table_ids:
        for tree in ("heads", "graves"):
            for order in ("ASC", "DESC"):
                row = snapshot.connection.execute(
                    f"SELECT key FROM {tree} WHERE table_id = ? ORDER BY key {order} LIMIT 1", (table_id,)
                ).fetchone()
                if row is not None:
                    found.add(row[0])
    return found
