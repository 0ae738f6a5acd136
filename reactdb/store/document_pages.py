"""Document pages: the documents in bulk, as of any seq. Beside `exports`, whose rules hold here.

Rule of this file: the documents as of a seq are today's with the later changes of their keys taken back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from reactdb.change import DELETE, INSERT
from reactdb.errors import HistoryLost
from reactdb.store.catalogue import TableInfo
from reactdb.store.checksums import are_steps_whole, are_whole
from reactdb.store.damage import first_damaged, missing_entry
from reactdb.store.exports import PAGE_BYTES, PAGE_ROWS, fetch, not_whole
from reactdb.store.snapshot import Snapshot, head_seq, low_water

# A key that changed more often than this since is taken back by itself, row by row.
LONG_HISTORY = 20_000
# Keys that are taken back first.
FIRST_KEYS = 4

# The documents of today; of those that have changed since ?4, only that they have.
STATE = (
    "SELECT h.key, l.body, l.seal, h.seq FROM heads h LEFT JOIN log l ON l.seq = h.seq AND h.seq <= ?4"
    " WHERE h.table_id = ?1 AND h.key >= ?2 AND h.key < ?3 ORDER BY h.key LIMIT ?5"
)
DELETED_SINCE = (
    "SELECT key FROM graves WHERE table_id = ?1 AND key >= ?2 AND key < ?3 AND seq > ?4 ORDER BY key LIMIT ?5"
)
# All entries past ?4 of the keys from ?2 to ?3 that have some, and of each the one before those; how large their documents are,
# and not the documents: of most, nobody wants them.
BACK = (
    "WITH RECURSIVE back(seq) AS ("
    " SELECT seq FROM heads WHERE table_id = ?1 AND key >= ?2 AND key <= ?3 AND seq > ?4"
    " UNION ALL SELECT seq FROM graves WHERE table_id = ?1 AND key >= ?2 AND key <= ?3 AND seq > ?4"
    " UNION ALL SELECT l.prev FROM back b JOIN log l ON l.seq = b.seq WHERE b.seq > ?4 AND l.prev IS NOT NULL)"
    " SELECT l.seq, l.kind, l.step, l.prev, l.time, l.origin, l.meta, l.seal, l.table_id, l.key, length(l.body)"
    " FROM back b CROSS JOIN log l ON l.seq = b.seq LIMIT ?5"
)
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
        changed = sorted([row[0] for row in rows if row[3] > seq] + [key for (key,) in gone])
        back, stopped = _taken_back(snapshot, table, seq, changed)
        then = dict(zip(keys, bodies, strict=True)) | back
        if stopped is not None:
            end = stopped
        keys = sorted(then if end is None else [key for key in then if key <= end])
        bodies = [then[key] for key in keys]
    return Documents(keys, bodies, None if end is None else end + b"\0")


def _whole(
    snapshot: Snapshot, table: TableInfo, rows: Sequence[tuple[Any, ...]]
) -> tuple[Sequence[bytes], Sequence[bytes]]:
    if not rows:
        return (), ()
    keys, bodies, seals, _ = zip(*rows, strict=True)
    if not are_whole(table.id, keys, bodies, seals):
        raise first_damaged(snapshot.connection, table, keys, bodies, seals)
    return keys, bodies


def _taken_back(
    snapshot: Snapshot, table: TableInfo, seq: int, keys: Sequence[bytes]
) -> tuple[dict[bytes, bytes], bytes | None]:
    """The documents as of `seq` of these keys, which are sorted and all have changed since; without those that were not there.

    A few keys first, then twice as many, and so on: where documents are large, few keys are looked at in vain.

    Returns:
        (the documents, the key after which it stopped because they have PAGE_BYTES; None where these are all).
    """
    found: dict[bytes, bytes] = {}
    size, start, count = 0, 0, FIRST_KEYS
    while start < len(keys):
        part = keys[start : start + count]
        for key, body in _then(snapshot, table, seq, part, PAGE_BYTES - size):
            if body is not None:
                found[key] = body
                size += len(body)
                if size >= PAGE_BYTES:
                    return found, key
        start, count = start + count, count * 2
    return found, None


def _then(
    snapshot: Snapshot, table: TableInfo, seq: int, keys: Sequence[bytes], most_bytes: int
) -> Iterator[tuple[bytes, bytes | None]]:
    """Each of these keys, in order, with its document as of `seq`; the last is the one that reaches so many bytes."""
    rows = snapshot.connection.execute(BACK, (table.id, keys[0], keys[-1], seq, LONG_HISTORY)).fetchall()
    if len(rows) >= LONG_HISTORY:
        for key in keys:
            steps = snapshot.history(table, key)
            yield key, next((step.new_bytes for step in steps if step.seq <= seq), None)
        return
    rows.sort(reverse=True)
    columns: list[Sequence[Any]] = [*zip(*rows, strict=True)] or [()] * 11
    seqs, kinds, _, prevs, _, _, _, _, table_ids, entry_keys, sizes = columns
    if not are_steps_whole(columns[:8]) or set(table_ids) != {table.id}:
        raise not_whole(snapshot, seq, head_seq(snapshot.connection))
    # Of each key the last row, which is its oldest entry: the one at or before `seq`, or else the first that it ever had.
    oldest = dict(zip(entry_keys, range(len(rows)), strict=True))
    wanted: dict[int, bytes] = {}
    size = 0
    for key in keys:
        place = oldest.get(key)
        if place is None or (sizes[place] is None) != (kinds[place] == DELETE):
            raise not_whole(snapshot, seq, head_seq(snapshot.connection))
        if seqs[place] > seq:
            if kinds[place] != INSERT:
                raise missing_entry(prevs[place])
        elif sizes[place] is not None:
            wanted[seqs[place]] = key
            size += sizes[place]
            if size >= most_bytes:
                break
    # Numbers of our own log.
    among = ", ".join(map(str, wanted))
    bodies = snapshot.connection.execute(f"SELECT seq, body, seal FROM log WHERE seq IN ({among})")
    whole = _whole(snapshot, table, [(wanted[number], body, seal, number) for number, body, seal in bodies])
    yield from sorted(zip(*whole, strict=True))


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
