"""The newest entry of each document, with its metadata: a page of them by key, or by seq, also below the low-water mark.

The entry that a head leads to is never compacted away. So whoever wants to know only where each document stands today can read
from any position, where the log itself, with all that was superseded, may not reach back that far.

Rule of this file: every entry is verified before it is given to anybody. Deletions have no head, and are not among them; and the
document before is not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from reactdb.change import Change
from reactdb.store.catalogue import TableInfo
from reactdb.store.log import ENTRY, changes_of, verified
from reactdb.store.snapshot import GREATEST, LEAST, Snapshot

BY_KEY: Final = (
    f"SELECT {ENTRY} FROM heads h CROSS JOIN log l ON l.seq = h.seq"
    " WHERE h.table_id = ? AND h.key >= ? AND h.key < ? ORDER BY h.key {} LIMIT ?"
)
# From the log, because heads are not ordered by seq.
OF_TABLES: Final = (
    "FROM log l CROSS JOIN heads h ON h.table_id = l.table_id AND h.key = l.key AND h.seq = l.seq"
    " WHERE l.seq > ? AND l.seq <= ? AND l.table_id IN ({})"
)
BY_SEQ: Final = f"SELECT {ENTRY} {OF_TABLES} ORDER BY l.seq {{}} LIMIT ?"
COUNT: Final = f"SELECT count(DISTINCT l.key) {OF_TABLES}"

COUNT_RANGE: Final = "SELECT count(*) FROM heads WHERE table_id = ? AND key >= ? AND key < ?"


def newest_by_key(
    snapshot: Snapshot,
    table: TableInfo,
    start: bytes = LEAST,
    stop: bytes = GREATEST,
    *,
    reverse: bool = False,
    limit: int = -1,
) -> list[Change]:
    """The newest entries of the documents with start <= key < stop, in key order; at most `limit` where that is not negative.

    Raises:
        CorruptDatabase: They are not what was written.
    """
    text = BY_KEY.format("DESC" if reverse else "ASC")
    return _changes(snapshot, snapshot.connection.execute(text, (table.id, start, stop, limit)).fetchall())


def newest_by_seq(
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
        CorruptDatabase: They are not what was written.
    """
    text = BY_SEQ.format(_ids(tables), "DESC" if reverse else "ASC")
    return _changes(snapshot, snapshot.connection.execute(text, (since, until, limit)).fetchall())


def count_newest(snapshot: Snapshot, tables: Sequence[TableInfo], since: int, until: int) -> int:
    """How many keys have their newest entry, in one of these tables, in since < seq <= until."""
    found = snapshot.connection.execute(COUNT.format(_ids(tables)), (since, until)).fetchone()
    return int(found[0])


def count_range(snapshot: Snapshot, table: TableInfo, start: bytes, stop: bytes) -> int:
    """How many documents of a table have start <= key < stop."""
    found = snapshot.connection.execute(COUNT_RANGE, (table.id, start, stop)).fetchone()
    return int(found[0])


def _ids(tables: Sequence[TableInfo]) -> str:
    # Numbers of our own list of tables.
    return ", ".join(str(table.id) for table in tables)


def _changes(snapshot: Snapshot, rows: list[tuple[object, ...]]) -> list[Change]:
    if not rows:
        return []
    entries = verified(rows, snapshot.catalogue, is_complete=False)
    return list(changes_of(entries._replace(olds=[None] * len(rows)), snapshot.catalogue))
