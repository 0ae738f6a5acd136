"""Exports: the log in bulk, as columns of bytes, for readers that want all of it and nothing of the rest. What `document_pages`
does for the documents.

A reader of millions of rows is served in pages. Each page is one short read transaction, so that the longest read keeps the
write-ahead log from being emptied for milliseconds only, and holds some megabytes, however long the log is. Pages agree all the
same, because what they read stands still: the log between two seqs never changes, and the documents as of a seq are today's with
the later changes of their keys taken back. What compaction removes meanwhile is `HistoryLost`, never a gap.

Rule of this file: every row is verified as any read verifies it; where one is not whole, the ordinary read of the same rows is
asked, and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from reactdb.change import INSERT
from reactdb.errors import CorruptDatabase, HistoryDiverged, HistoryLost
from reactdb.store import registry
from reactdb.store.checksums import are_entries_whole
from reactdb.store.engine import Engine
from reactdb.store.file.sqlite import ADVICE, file_bytes
from reactdb.store.retention import newest_older_than
from reactdb.store.schema import BLOCK_BITS
from reactdb.store.snapshot import Snapshot, head_seq, low_water

# Rows of a page: half of them cost 5% more each, twice as many 3% less, and hold the memory of two.
PAGE_ROWS = 2_000
# A page ends early with the row that brings it to so many bytes of documents.
PAGE_BYTES = 8 * 1024 * 1024

LOG = "l.seq, l.table_id, l.kind, l.step, l.prev, l.time, l.key, l.body, l.origin, l.meta, l.seal"
OLD = ", p.body, p.seal"
JOIN_OLD = " LEFT JOIN log p ON p.seq = l.prev"
# The same, as far as the whole log is read (then seqs follow each other) and nobody asks for labels. `prev` is negative where
# there is one of those, and the row is read again.
BARE_LOG = (
    "l.table_id, l.kind, l.step, CASE WHEN l.origin IS NULL AND l.meta IS NULL THEN ifnull(l.prev, 0) ELSE -1 END, l.time,"
    " l.key, l.body, l.seal"
)
CHANGES = "SELECT {columns} FROM log l{join} WHERE l.seq > ? AND l.seq <= ?{where} ORDER BY l.seq LIMIT ?"
# As `snapshot.TABLE_CHANGES`: by the marks of one table.
TABLE_CHANGES = (
    f"SELECT {{columns}} FROM marks m CROSS JOIN log l ON l.seq >= (m.block << {BLOCK_BITS})"
    f" AND l.seq < ((m.block + 1) << {BLOCK_BITS}){{join}}"
    " WHERE m.table_id = ?1 AND m.block >= ?2 AND m.block <= ?3 AND l.table_id = ?1 AND +l.seq > ?4 AND +l.seq <= ?5"
    " ORDER BY m.block, l.seq LIMIT ?6"
)
LAST_COMMIT = "SELECT seq FROM log WHERE seq > ? AND seq <= ? AND step = 0 ORDER BY seq DESC LIMIT 1"
NEXT_COMMIT = "SELECT seq FROM log WHERE seq > ? AND step = 0 ORDER BY seq LIMIT 1"


@dataclass(frozen=True, slots=True)
class Pin:
    """One file as it was at one moment.

    Attributes:
        path: Absolute.
        database_id: Which database it is.
        epoch: The stretch of its history that `seq` belongs to.
        seq: The newest change.
        oldest: The oldest position that the log can be read from.
        size_bytes: Of the file and its write-ahead log.
    """

    path: str
    database_id: str
    epoch: str
    seq: int
    oldest: int
    size_bytes: int

    @property
    def bytes_a_change(self) -> float:
        """On average, with all that belongs to it."""
        return self.size_bytes / max(1, self.seq - self.oldest)


class Columns(NamedTuple):
    """Log entries, column by column. `olds` is empty where they were not asked for."""

    seqs: Sequence[int]
    table_ids: Sequence[int]
    kinds: Sequence[int]
    steps: Sequence[int]
    prevs: Sequence[int | None]
    times: Sequence[int]
    keys: Sequence[bytes]
    bodies: Sequence[bytes | None]
    origins: Sequence[str | None]
    metas: Sequence[bytes | None]
    olds: Sequence[bytes | None]


@contextmanager
def opened(path: str, *, busy_timeout_s: float = 5.0, allow_network: bool = False) -> Iterator[Engine]:
    """A file, to read only, whoever has it open to write."""
    engine = registry.engine_for(path, True, busy_timeout_s, allow_network)
    try:
        yield engine
    finally:
        registry.release(engine)


def pin(engine: Engine) -> Pin:
    """Where the file stands now."""
    with engine.snapshot() as snapshot:
        return pin_of(engine, snapshot)


def pin_of(engine: Engine, snapshot: Snapshot) -> Pin:
    """Where the file stands as of a snapshot."""
    connection = snapshot.connection
    seq = head_seq(connection)
    return Pin(
        engine.path,
        engine.database_id,
        engine.epochs.at(connection, seq),
        seq,
        low_water(connection),
        file_bytes(engine.path) + file_bytes(engine.path + "-wal"),
    )


def check_same(engine: Engine, snapshot: Snapshot, database_id: str, seq: int) -> None:
    """Whether it is still the file that a plan was made for, with all of its changes up to `seq`.

    Raises:
        HistoryDiverged: It was replaced, or is shorter.
    """
    if engine.database_id != database_id:
        raise HistoryDiverged(
            f"{engine.path} is database {engine.database_id} now, and was {database_id} when the read was planned"
        )
    head = head_seq(snapshot.connection)
    if head < seq:
        raise HistoryDiverged(
            f"{engine.path} ends at seq {head} now, and had seq {seq} when the read was planned: it was replaced"
        )


def tables_named(snapshot: Snapshot, name: str) -> tuple[int, ...]:
    """The numbers of all tables that have this name in the log: one that was dropped and made again has several."""
    return tuple(info.id for info in snapshot.catalogue.by_id.values() if info.name == name)


def newest_at(snapshot: Snapshot, time_ms: int) -> int:
    """The newest seq that was written at or before this time; the oldest position that is left where there is none."""
    connection = snapshot.connection
    return newest_older_than(connection, low_water(connection), head_seq(connection), time_ms)


def first_of_commit(snapshot: Snapshot, seq: int) -> int:
    """The first seq at or after `seq` that begins a commit; one past the newest where there is none."""
    row = snapshot.connection.execute(NEXT_COMMIT, (seq - 1,)).fetchone()
    return head_seq(snapshot.connection) + 1 if row is None else int(row[0])


def last_commit_end(snapshot: Snapshot, since: int, until: int) -> int | None:
    """The last seq with since < seq <= until that ends a commit; None where one commit goes on through all of them.

    The newest change of the log ends one, too, but `until` is taken to be before it.
    """
    row = snapshot.connection.execute(LAST_COMMIT, (since + 1, until + 1)).fetchone()
    return None if row is None else int(row[0]) - 1


def time_of(snapshot: Snapshot, seq: int) -> int | None:
    """When the first change at or after `seq` was written, in milliseconds since 1970; None where there is none."""
    row = snapshot.connection.execute(
        "SELECT time FROM log WHERE seq >= ? ORDER BY seq LIMIT 1", (seq,)
    ).fetchone()
    return None if row is None else int(row[0])


# ---------------------------------------------------------------------------------------------------------------
# The log


def changes(
    snapshot: Snapshot,
    since: int,
    until: int,
    *,
    table_ids: Sequence[int] | None = None,
    with_old: bool,
    with_origin: bool = True,
    limit: int = PAGE_ROWS,
) -> tuple[Columns | None, int]:
    """A page of the log with since < seq <= until, oldest first.

    Args:
        table_ids: Of these tables alone.
        with_old: Read the documents before, too.
        with_origin: Of the others, `prevs`, `origins` and `metas` may be missing.

    Returns:
        (the entries, None where there are none; the position from which to go on: `until` after the last page).

    Raises:
        HistoryLost: Some of them were compacted away.
        CorruptDatabase: Some are not what was written.
    """
    connection = snapshot.connection
    oldest = low_water(connection)
    if since < oldest:
        raise HistoryLost(since, oldest + 1)
    if table_ids is None and not with_origin:
        found = _bare_changes(snapshot, since, until, with_old, limit)
        if found is not None:
            return found
    columns, join = (LOG + OLD, JOIN_OLD) if with_old else (LOG, "")
    if table_ids is not None and len(table_ids) == 1:
        cursor = connection.execute(
            TABLE_CHANGES.format(columns=columns, join=join),
            (table_ids[0], since >> BLOCK_BITS, until >> BLOCK_BITS, since, until, limit),
        )
    else:
        # Numbers of our own list of tables.
        where = "" if table_ids is None else f" AND l.table_id IN ({', '.join(map(str, table_ids))})"
        cursor = connection.execute(
            CHANGES.format(columns=columns, join=join, where=where), (since, until, limit)
        )
    rows, is_all = fetch(cursor, limit, body=7, old=11 if with_old else None)
    last = int(rows[-1][0]) if rows else since
    position = until if is_all else last
    if table_ids is None and position - since != len(rows):
        raise not_whole(snapshot, since, until)
    if not rows:
        return None, until
    return _verified(snapshot, since, last, list(zip(*rows, strict=True)), with_old), position


def _bare_changes(
    snapshot: Snapshot, since: int, until: int, with_old: bool, limit: int
) -> tuple[Columns | None, int] | None:
    """A page of the whole log with fewer columns: four fifths of the time. None where some have labels."""
    columns, join = (BARE_LOG + OLD, JOIN_OLD) if with_old else (BARE_LOG, "")
    cursor = snapshot.connection.execute(
        CHANGES.format(columns=columns, join=join, where=""), (since, until, limit)
    )
    rows, is_all = fetch(cursor, limit, body=6, old=8 if with_old else None)
    if is_all and until - since != len(rows):
        raise not_whole(snapshot, since, until)
    if not rows:
        return None, until
    table_ids, kinds, steps, prevs, times, keys, bodies, seals, *old = zip(*rows, strict=True)
    if -1 in prevs:
        return None
    # A seq is in its entry's seal, so one that is missing shows in all that follow.
    last = since + len(rows)
    none = (None,) * len(rows)
    found: list[Sequence[Any]] = [
        range(since + 1, last + 1),
        table_ids,
        kinds,
        steps,
        prevs,
        times,
        keys,
        bodies,
    ]
    found += (none, none, seals, *old)
    return _verified(snapshot, since, last, found, with_old), until if is_all else last


def _verified(
    snapshot: Snapshot, since: int, until: int, found: list[Sequence[Any]], with_old: bool
) -> Columns:
    if not with_old:
        found += ((), ())
    if not are_entries_whole(found) or (with_old and found[2].count(INSERT) != found[11].count(None)):
        raise not_whole(snapshot, since, until)
    return Columns._make((*found[:10], found[11]))


def fetch(cursor: Any, limit: int, body: int, old: int | None = None) -> tuple[list[tuple[Any, ...]], bool]:
    """Rows of a cursor: at most `limit`, which its statement has too, and none after those that have PAGE_BYTES of documents.

    Row by row, because only a row that is there says how large it is: any of the next hundred may have a document of 16 MB.
    That costs as much as calls for hundreds of rows.

    Args:
        body, old: The places of the columns that have documents.

    Returns:
        (the rows, whether there are surely no more).
    """
    rows: list[tuple[Any, ...]] = []
    size = 0
    for row in cursor:
        rows.append(row)
        try:
            size += len(row[body] or b"")
            if old is not None:
                size += len(row[old] or b"")
        except TypeError:
            # Damage, which is found when it is verified.
            pass
        if size >= PAGE_BYTES:
            cursor.close()
            return rows, False
    return rows, len(rows) < limit


def not_whole(snapshot: Snapshot, since: int, until: int) -> CorruptDatabase:
    """What is wrong with these entries, in the words of the read that names the first."""
    position = since
    while position < until:
        page = snapshot.changes(position, until)
        if not page:
            break
        position = page[-1].seq
    return CorruptDatabase(f"log entries {since + 1} to {until} do not match their checksums. {ADVICE}")
