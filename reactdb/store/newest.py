"""The newest entry of each document, with its metadata: of given keys, or a page by key or by seq, also below the low-water mark.

Compaction never removes the entry of a head. So a reader of the present documents can start from any position, while
the log itself, with its superseded entries, may not reach back that far.

Rule of this file: every entry is verified before it is given to anybody. Deletions have no head, and are not among them; and the
document before is not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice, repeat
from operator import itemgetter
from typing import Any, Final

from reactdb.budget import STEP_BYTES, STEPS, current, spend
from reactdb.change import Change
from reactdb.store.catalogue import TableInfo
from reactdb.store.damage import missing_entry_error
from reactdb.store.log import ENTRY, make_changes, read_low_water, verify_rows
from reactdb.store.schema import BLOCK_BITS
from reactdb.store.snapshot import GREATEST, LEAST, Snapshot

BY_KEY: Final = (
    f"SELECT {ENTRY} FROM heads h CROSS JOIN log l ON l.seq = h.seq"
    " WHERE h.table_id = ? AND h.key >= ? AND h.key < ? ORDER BY h.key {} LIMIT ?"
)
ENTRY_STEPS: Final = 8
"""The steps of a budget for reading one entry, beside its bytes."""
# Keys that one statement looks up.
PICKED: Final = 100
OF_KEYS: Final = (
    f"SELECT {ENTRY}, h.seq FROM heads h LEFT JOIN log l ON l.seq = h.seq"
    f" WHERE h.table_id = ? AND h.key IN ({', '.join('?' * PICKED)})"
)
# By seq they are read from the log, because heads are not ordered by it.
IS_NEWEST: Final = "CROSS JOIN heads h ON h.table_id = l.table_id AND h.key = l.key AND h.seq = l.seq"
OF_TABLES: Final = f"FROM log l {IS_NEWEST} WHERE l.seq > ? AND l.seq <= ? AND l.table_id IN ({{}})"
# The blocks that have entries of the table, as `log.TABLE_CHANGES` walks them.
OF_TABLE: Final = (
    f"FROM marks m CROSS JOIN log l ON l.seq >= (m.block << {BLOCK_BITS}) AND l.seq < ((m.block + 1) << {BLOCK_BITS})"
    f" {IS_NEWEST} WHERE m.table_id = ?1 AND m.block >= (?2 >> {BLOCK_BITS}) AND m.block <= (?3 >> {BLOCK_BITS})"
    " AND l.table_id = ?1 AND +l.seq > ?2 AND +l.seq <= ?3"
)
BY_SEQ: Final = f"SELECT {{columns}} {OF_TABLES.format('{tables}')} ORDER BY l.seq {{way}} LIMIT ?"
BY_SEQ_OF_TABLE: Final = f"SELECT {{columns}} {OF_TABLE} ORDER BY m.block {{way}}, l.seq {{way}} LIMIT ?4"
KEYS: Final = f"SELECT l.key {OF_TABLES}"
KEYS_OF_TABLE: Final = f"SELECT l.key {OF_TABLE}"


def read_newest_by_key(
    snapshot: Snapshot,
    table: TableInfo,
    start: bytes = LEAST,
    stop: bytes = GREATEST,
    *,
    reverse: bool = False,
    limit: int = -1,
) -> list[Change]:
    """The newest entries of the documents with start <= key < stop, in key order; at most `limit` if it is not
    negative.

    Raises:
        CorruptDatabase: The entries do not match their checksums.
    """
    text = BY_KEY.format("DESC" if reverse else "ASC")
    return _changes(snapshot, snapshot.connection.execute(text, (table.id, start, stop, limit)).fetchall())


def read_newest_of_keys(snapshot: Snapshot, table: TableInfo, keys: Iterable[bytes]) -> dict[bytes, Change]:
    """The newest entries of these keys, by key; keys without a document are left out.

    Raises:
        CorruptDatabase: The entries do not match their checksums, or one is missing.
    """
    changes: dict[bytes, Change] = {}
    wanted = iter(keys)
    while some := list(islice(wanted, PICKED)):
        # The placeholder for missing keys is no key.
        arguments = (table.id, *some, *repeat(None, PICKED - len(some)))
        rows = snapshot.connection.execute(OF_KEYS, arguments).fetchall()
        for row in rows:
            if row[0] is None:
                raise missing_entry_error(row[-1])
        changes.update(
            (change.key_bytes, change) for change in _changes(snapshot, [row[:-1] for row in rows])
        )
    return changes


def read_newest_by_seq(
    snapshot: Snapshot,
    tables: Sequence[TableInfo],
    since: int,
    until: int,
    *,
    reverse: bool = False,
    limit: int = -1,
) -> list[Change]:
    """The newest entries of the documents of these tables with since < seq <= until, in the order of the log.

    Raises:
        CorruptDatabase: The entries do not match their checksums.
    """
    return _changes(snapshot, _read_by_seq(snapshot, tables, since, until, reverse, limit, ENTRY))


def read_keys_by_seq(
    snapshot: Snapshot, table: TableInfo, since: int, until: int, limit: int
) -> list[tuple[int, bytes]]:
    """(seq, key) of the newest entries of a table with since < seq <= until, in the order of the log, at most `limit`.
    The entries themselves are not looked at."""
    return _read_by_seq(snapshot, (table,), since, until, False, limit, "l.seq, l.key")


def _read_by_seq(
    snapshot: Snapshot,
    tables: Sequence[TableInfo],
    since: int,
    until: int,
    reverse: bool,
    limit: int,
    columns: str,
) -> list[tuple[Any, ...]]:
    """Columns of newest entries; the first is the seq."""
    fields = {"columns": columns, "tables": _format_ids(tables), "way": "DESC" if reverse else "ASC"}
    marked = _find_indexed_start(snapshot, since, until)
    rows: list[tuple[Any, ...]] = []

    def read(text: str, *arguments: int) -> None:
        rows.extend(snapshot.connection.execute(text.format(**fields), (*arguments, limit)).fetchall())

    def with_marks() -> None:
        for table in tables:
            read(BY_SEQ_OF_TABLE, table.id, marked, until)
        rows.sort(key=itemgetter(0), reverse=reverse)

    if reverse:
        with_marks()
    if marked > since and (not reverse or limit < 0 or len(rows) < limit):
        read(BY_SEQ, since, marked)
    if not reverse and marked < until and (limit < 0 or len(rows) < limit):
        below = rows[:]
        rows.clear()
        with_marks()
        rows[:0] = below
    return rows if limit < 0 else rows[:limit]


def count_newest(snapshot: Snapshot, tables: Sequence[TableInfo], since: int, until: int) -> int:
    """How many keys have their newest entry, in these tables, in since < seq <= until."""
    execute = snapshot.connection.execute
    marked = _find_indexed_start(snapshot, since, until)
    seen: set[tuple[Any, ...]] = set()
    statements: list[tuple[str, tuple[int, ...]]] = [
        (KEYS_OF_TABLE, (table.id, marked, until)) for table in tables
    ]
    if marked > since:
        statements.append((KEYS.format(_format_ids(tables)), (since, marked)))
    for text, arguments in statements:
        cursor = execute(text, arguments)
        while rows := cursor.fetchmany(STEPS):
            spend(STEPS)
            seen.update(rows)
    return len(seen)


def _find_indexed_start(snapshot: Snapshot, since: int, until: int) -> int:
    """The position from which on the blocks of a table are known. Before it, compaction has left the newest entries alone, of all
    tables."""
    begin = (read_low_water(snapshot.connection) >> BLOCK_BITS) << BLOCK_BITS
    return min(max(since, begin - 1), until)


def _format_ids(tables: Sequence[TableInfo]) -> str:
    # Numbers of our own list of tables.
    return ", ".join(str(table.id) for table in tables)


def _changes(snapshot: Snapshot, rows: list[tuple[object, ...]]) -> list[Change]:
    if not rows:
        return []
    entries = verify_rows(rows, snapshot.catalogue, is_complete=False)
    changes = list(make_changes(entries._replace(olds=[None] * len(rows)), snapshot.catalogue))
    budget = current.get()
    if budget is not None:
        budget.spend(sum(ENTRY_STEPS + len(change.new_bytes or b"") // STEP_BYTES for change in changes))
    return changes
