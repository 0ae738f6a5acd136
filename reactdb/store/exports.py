"""Exports: the log and the documents in bulk, as columns of bytes, for readers that want all of it, such as Spark.

A reader of millions of rows gets pages. Each page is one short read transaction: it keeps the write-ahead log from
being emptied for milliseconds only, and holds some megabytes, however long the log is. The pages agree with each
other all the same, because their data does not change: the log between two seqs stays as it is, and the documents as
of a seq are today's documents without the later changes of their keys. If compaction removes a needed entry in
between, the reader gets `HistoryLost`, never a gap.

Rule of this file: every row is verified as in any other read, and an error names the first damaged row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import compress
from typing import Any, NamedTuple

from reactdb.change import CATALOGUE, DELETE, INSERT
from reactdb.errors import CorruptDatabase, HistoryDiverged, HistoryLost, InvalidOption
from reactdb.store import registry
from reactdb.store.catalogue import TableInfo
from reactdb.store.checksums import are_steps_whole
from reactdb.store.damage import missing_entry_error
from reactdb.store.engine import Engine
from reactdb.store.file.sqlite import ADVICE, READER_CACHE_KIB, file_bytes
from reactdb.store.log import Entries, fetch, read, read_low_water
from reactdb.store.retention import find_newest_older_than
from reactdb.store.snapshot import Snapshot, read_head_seq

# Rows of a page: half of them cost 5% more each, twice as many 3% less, and hold the memory of two.
PAGE_ROWS = 2_000
# A page of changes ends before the row with which its documents would have more bytes, a page of documents after that row.
PAGE_BYTES = 8 * 1024 * 1024
# Every key is at or after FIRST and before END, because no key begins with FF.
FIRST, END = b"", b"\xff"

LAST_COMMIT = "SELECT seq FROM log WHERE seq > ? AND seq <= ? AND step = 0 ORDER BY seq DESC LIMIT 1"
NEXT_COMMIT = "SELECT seq FROM log WHERE seq > ? AND step = 0 ORDER BY seq LIMIT 1"

# A key with more later changes than this is reverted by itself, row by row.
LONG_HISTORY = 20_000
# Keys in the first batch to revert.
FIRST_KEYS = 4

# Today's documents. Of a document that changed after ?4, the row has the key and the newest seq, and no body.
STATE = (
    "SELECT h.key, l.body, l.seal, h.seq FROM heads h LEFT JOIN log l ON l.seq = h.seq AND h.seq <= ?4"
    " WHERE h.table_id = ?1 AND h.key >= ?2 AND h.key < ?3 ORDER BY h.key LIMIT ?5"
)
DELETED_SINCE = (
    "SELECT key FROM graves WHERE table_id = ?1 AND key >= ?2 AND key < ?3 AND seq > ?4 ORDER BY key LIMIT ?5"
)
# All entries past ?4 of the keys from ?2 to ?3, and for each such key the entry before; with the sizes of the
# documents instead of the documents, because most are not needed.
BACK = (
    "WITH RECURSIVE back(seq) AS ("
    " SELECT seq FROM heads WHERE table_id = ?1 AND key >= ?2 AND key <= ?3 AND seq > ?4"
    " UNION ALL SELECT seq FROM graves WHERE table_id = ?1 AND key >= ?2 AND key <= ?3 AND seq > ?4"
    " UNION ALL SELECT l.prev FROM back b JOIN log l ON l.seq = b.seq WHERE b.seq > ?4 AND l.prev IS NOT NULL)"
    " SELECT l.seq, l.kind, l.step, l.prev, l.time, l.origin, l.meta, l.seal, l.table_id, l.key, length(l.body)"
    " FROM back b CROSS JOIN log l ON l.seq = b.seq LIMIT ?5"
)
SPLIT = "SELECT key FROM heads WHERE table_id = ? AND key >= ? ORDER BY key LIMIT 1 OFFSET ?"


@dataclass(frozen=True, slots=True)
class Pin:
    """The state of one file at one moment.

    Attributes:
        path: Absolute.
        database: Its id, which stays when the file moves.
        epoch: The stretch of its history that `seq` belongs to.
        seq: The newest change.
        oldest: The oldest position that the log can be read from.
        size_bytes: Of the file and its write-ahead log.
    """

    path: str
    database: str
    epoch: str
    seq: int
    oldest: int
    size_bytes: int

    @property
    def bytes_a_change(self) -> float:
        """On average, with all that belongs to it."""
        return self.size_bytes / max(1, self.seq - self.oldest)


@contextmanager
def open_to_read(path: str, *, busy_timeout_s: float = 5.0, allow_network: bool = False) -> Iterator[Engine]:
    """Open a file to read only. Other handles may have it open to write."""
    # A reader of everything comes back to few pages, so a large cache would only take memory.
    engine = registry.open_engine(path, True, busy_timeout_s, allow_network, cache_kib=READER_CACHE_KIB)
    try:
        yield engine
    finally:
        registry.release(engine)


def pin_snapshot(engine: Engine, snapshot: Snapshot) -> Pin:
    """The state of the file as of a snapshot."""
    connection = snapshot.connection
    seq = read_head_seq(connection)
    return Pin(
        engine.path,
        engine.database_id,
        engine.epochs.at(connection, seq),
        seq,
        read_low_water(connection),
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
    head = read_head_seq(snapshot.connection)
    if head < seq:
        raise HistoryDiverged(
            f"{engine.path} ends at seq {head} now, and had seq {seq} when the read was planned: it was replaced"
        )


def find_table_ids(snapshot: Snapshot, name: str) -> tuple[int, ...]:
    """The numbers of all tables with this name in the log: a table that was dropped and made again has several."""
    return tuple(info.id for info in snapshot.catalogue.by_id.values() if info.reference == name)


def find_newest_seq(snapshot: Snapshot, time_ms: int) -> int:
    """The newest seq that was written at or before this time; where there is none, the oldest remaining position."""
    connection = snapshot.connection
    return find_newest_older_than(connection, read_low_water(connection), read_head_seq(connection), time_ms)


def find_seq_as_of(
    snapshot: Snapshot, path: str, newest: int, *, seq: int | None, time_ms: int | None
) -> int:
    """The seq of the state at a seq, or at a time.

    Args:
        newest: The newest seq to read.

    Raises:
        InvalidOption: The seq is in the future.
        HistoryLost: Compaction has removed the state.
    """
    oldest = read_low_water(snapshot.connection)
    if seq is None:
        assert time_ms is not None
        seq = min(newest, find_newest_seq(snapshot, time_ms))
        if seq <= oldest and oldest:
            entry = snapshot.entry(oldest)
            if entry is None or entry.time > time_ms:
                raise HistoryLost(oldest - 1, oldest + 1)
    elif seq > newest:
        raise InvalidOption(f"seq {seq} is in the future of {path}: its newest change has seq {newest}")
    elif seq < oldest:
        raise HistoryLost(seq, oldest + 1)
    return seq


def find_commit_start(snapshot: Snapshot, seq: int) -> int:
    """The first seq at or after `seq` that begins a commit; one past the newest where there is none."""
    row = snapshot.connection.execute(NEXT_COMMIT, (seq - 1,)).fetchone()
    return read_head_seq(snapshot.connection) + 1 if row is None else int(row[0])


def find_commit_end(snapshot: Snapshot, since: int, until: int) -> int | None:
    """The last seq with since < seq <= until that ends a commit; None where one commit covers them all.

    The newest change of the log ends a commit, too, but `until` is assumed to be before it.
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
    with_new: bool = True,
    with_old: bool,
    limit: int = PAGE_ROWS,
) -> tuple[Entries | None, int]:
    """A page of the changes of documents with since < seq <= until, oldest first.

    Args:
        table_ids: Of these tables alone; None: of all that users see.
        with_new: Read the documents. If not, the tables and keys of the entries are not verified (see `log.read`).
        with_old: Read the documents before, too. Without the documents they are not read.

    Returns:
        (the entries, or None; the position for the next page: `until` after the last page).

    Raises:
        HistoryLost: Some of them were compacted away.
        CorruptDatabase: Entries do not match their checksums.
    """
    entries, position = read(
        snapshot.connection,
        snapshot.catalogue,
        since,
        until,
        table_ids=table_ids,
        has_new=with_new,
        has_old=with_new and with_old,
        limit=limit,
        most_bytes=PAGE_BYTES,
    )
    if entries is None or table_ids is not None:
        return entries, position
    left_out = _hidden_table_ids(snapshot)
    if left_out.isdisjoint(entries.table_ids):
        return entries, position
    chosen = [table_id not in left_out for table_id in entries.table_ids]
    if not any(chosen):
        return None, position
    # A column that was not read is empty, and stays so.
    columns: list[Any] = [list(compress(column, chosen)) for column in entries]
    return Entries(*columns), position


def _hidden_table_ids(snapshot: Snapshot) -> set[int]:
    """The numbers of tables whose entries are no changes of documents for users."""
    return {CATALOGUE, *(info.id for info in snapshot.catalogue.by_id.values() if info.owner is not None)}


# ---------------------------------------------------------------------------------------------------------------
# Documents as of a seq


class DocumentPage(NamedTuple):
    """Documents in order of their keys, and where the next page begins; None after the last."""

    keys: Sequence[bytes]
    bodies: Sequence[bytes]
    next_start: bytes | None


def documents(
    snapshot: Snapshot, table: TableInfo, seq: int, start: bytes, stop: bytes, *, limit: int = PAGE_ROWS
) -> DocumentPage:
    """A page of the documents as of `seq` with start <= key < stop, in order of their keys.

    Raises:
        HistoryLost: The changes since then were compacted away.
        CorruptDatabase: Documents do not match their checksums.
    """
    connection = snapshot.connection
    oldest = read_low_water(connection)
    if seq < oldest:
        raise HistoryLost(seq, oldest + 1)
    rows, is_all = fetch(
        connection.execute(STATE, (table.id, start, stop, seq, limit)), limit, PAGE_BYTES, body=1
    )
    end = None if is_all else rows[-1][0]
    gone = connection.execute(DELETED_SINCE, (table.id, start, stop, seq, limit)).fetchall()
    if len(gone) == limit:
        end = gone[-1][0] if end is None else min(end, gone[-1][0])
    if end is not None:
        rows = [row for row in rows if row[0] <= end]
        gone = [row for row in gone if row[0] <= end]
    now = [row for row in rows if row[3] <= seq]
    keys, bodies = snapshot.whole(table, [row[:3] for row in now])
    if len(now) < len(rows) or gone:
        changed = sorted([row[0] for row in rows if row[3] > seq] + [key for (key,) in gone])
        back, stopped = _read_documents_as_of(snapshot, table, seq, changed)
        then = dict(zip(keys, bodies, strict=True)) | back
        if stopped is not None:
            end = stopped
        keys = sorted(then if end is None else [key for key in then if key <= end])
        bodies = [then[key] for key in keys]
    return DocumentPage(keys, bodies, None if end is None else end + b"\0")


def _read_documents_as_of(
    snapshot: Snapshot, table: TableInfo, seq: int, keys: Sequence[bytes]
) -> tuple[dict[bytes, bytes], bytes | None]:
    """The documents of these keys as of `seq`. The keys are sorted and all have changed since; keys without a
    document at `seq` are left out.

    A few keys first, then twice as many, and so on: where documents are large, few keys are looked at in vain.

    Returns:
        (the documents, the key after which it stopped because they have PAGE_BYTES; None where these are all).
    """
    bodies: dict[bytes, bytes] = {}
    size, start, count = 0, 0, FIRST_KEYS
    while start < len(keys):
        part = keys[start : start + count]
        for key, body in _read_versions_as_of(snapshot, table, seq, part, PAGE_BYTES - size):
            if body is not None:
                bodies[key] = body
                size += len(body)
                if size >= PAGE_BYTES:
                    return bodies, key
        start, count = start + count, count * 2
    return bodies, None


def _read_versions_as_of(
    snapshot: Snapshot, table: TableInfo, seq: int, keys: Sequence[bytes], most_bytes: int
) -> Iterator[tuple[bytes, bytes | None]]:
    """Each of these keys, in order, with its document as of `seq`, up to the document that reaches `most_bytes`."""
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
        raise _find_damage(snapshot, seq)
    # For each key the last row is its oldest entry: the entry at or before `seq`, or else the key's first entry.
    oldest = dict(zip(entry_keys, range(len(rows)), strict=True))
    wanted: dict[int, bytes] = {}
    size = 0
    for key in keys:
        place = oldest.get(key)
        if place is None or (sizes[place] is None) != (kinds[place] == DELETE):
            raise _find_damage(snapshot, seq)
        if seqs[place] > seq:
            if kinds[place] != INSERT:
                raise missing_entry_error(prevs[place])
        elif sizes[place] is not None:
            wanted[seqs[place]] = key
            size += sizes[place]
            if size >= most_bytes:
                break
    # Numbers of our own log.
    among = ", ".join(map(str, wanted))
    bodies = snapshot.connection.execute(f"SELECT seq, body, seal FROM log WHERE seq IN ({among})")
    whole = snapshot.whole(table, [(wanted[number], body, checksum) for number, body, checksum in bodies])
    yield from sorted(zip(*whole, strict=True))


def split_keys(snapshot: Snapshot, table: TableInfo, documents_each: int) -> list[bytes]:
    """Keys that cut the table of today into ranges of `documents_each` documents: the beginnings of all but the first."""
    starts: list[bytes] = []
    start = b""
    while True:
        row = snapshot.connection.execute(SPLIT, (table.id, start, documents_each)).fetchone()
        if row is None:
            return starts
        start = row[0]
        starts.append(start)


def read_outer_keys(snapshot: Snapshot, table_ids: Sequence[int]) -> set[bytes]:
    """For each table its least and its greatest key, past or present: if both have the same type, all keys have."""
    keys: set[bytes] = set()
    for table_id in table_ids:
        for tree in ("heads", "graves"):
            for order in ("ASC", "DESC"):
                row = snapshot.connection.execute(
                    f"SELECT key FROM {tree} WHERE table_id = ? ORDER BY key {order} LIMIT 1", (table_id,)
                ).fetchone()
                if row is not None:
                    keys.add(row[0])
    return keys


def _find_damage(snapshot: Snapshot, since: int) -> CorruptDatabase:
    """Find the first damaged entry past a seq, and return the error of the read that names it."""
    head = read_head_seq(snapshot.connection)
    position = since
    while position < head:
        page = snapshot.changes(position, head)
        if not page:
            break
        position = page[-1].seq
    return CorruptDatabase(f"log entries {since + 1} to {head} do not match their checksums. {ADVICE}")
