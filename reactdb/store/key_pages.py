"""Key pages: keys by their place in a table, counts that scan nothing, and sums over a part of the log, for views of a file.

    count_documents    how many documents a table has, by the running sums
    find_key_at        the key at an offset
    count_before       how many keys are smaller
    find_changes       the newest changes with a table, a kind or an origin
    count_changes      the changes past a seq, by table and kind

Rule of this file: no document is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import maxsize

from reactdb.change import DELETE, INSERT, REPLACE, UPDATE
from reactdb.store.catalogue import TableInfo
from reactdb.store.snapshot import GREATEST, KEY_AT, LEAST, Snapshot
from reactdb.store.sums import newest

COUNT_BEFORE = "SELECT count(*) FROM heads WHERE table_id = ? AND key < ?"
FOUND = "SELECT seq FROM log WHERE seq > ? AND seq <= ?"
COUNTS = "SELECT table_id, kind, count(*) FROM log WHERE seq > ? AND seq <= ? AND kind IN ({}) GROUP BY table_id, kind"


def count_documents(snapshot: Snapshot, table: TableInfo) -> int:
    """How many documents a table has now: from its running sums, so at any size at the same cost. A table without sums, of an
    older format, is counted."""
    _, sums = newest(snapshot.connection, table)
    return snapshot.count(table) if sums is None else sums.count


def find_key_at(
    snapshot: Snapshot,
    table: TableInfo,
    offset: int,
    reverse: bool = False,
    start: bytes = LEAST,
    stop: bytes = GREATEST,
) -> bytes | None:
    """The key of the document at this place, in the order of keys, among those with start <= key < stop now; None beyond
    the end."""
    text = KEY_AT.format("DESC" if reverse else "ASC")
    row = snapshot.connection.execute(text, (table.id, start, stop, min(offset, maxsize))).fetchone()
    return None if row is None else row[0]


def count_changes(
    snapshot: Snapshot, since: int, until: int, kinds: Sequence[int] = (INSERT, UPDATE, REPLACE, DELETE)
) -> dict[int, dict[int, int]]:
    """How many changes of these kinds there are with since < seq <= until: by the number of the table, then by kind."""
    counts: dict[int, dict[int, int]] = {}
    text = COUNTS.format(", ".join("?" * len(kinds)))
    for table_id, kind, count in snapshot.connection.execute(text, (since, until, *kinds)):
        counts.setdefault(table_id, {})[kind] = count
    return counts


def count_before(snapshot: Snapshot, table: TableInfo, key: bytes) -> int:
    """How many documents there are now with smaller keys."""
    (count,) = snapshot.connection.execute(COUNT_BEFORE, (table.id, key)).fetchone()
    return int(count)


def find_changes(
    snapshot: Snapshot,
    since: int,
    until: int,
    limit: int,
    *,
    table_ids: Sequence[int] | None = None,
    kinds: Sequence[int] | None = None,
    origin: str | None = None,
) -> list[int]:
    """The newest seqs with since < seq <= until, newest first, at most `limit`, of changes with these tables, kinds and origin.

    Args:
        table_ids, kinds: Numbers; None: all.
        origin: "" for changes without an origin; None: all.
    """
    text, values = FOUND, [since, until]
    for column, numbers in (("table_id", table_ids), ("kind", kinds)):
        if numbers is not None:
            text += f" AND {column} IN ({', '.join('?' * len(numbers))})"
            values += numbers
    if origin is not None:
        text += " AND ifnull(origin, '') = ?"
    given = [*values, *(() if origin is None else (origin,)), limit]
    rows = snapshot.connection.execute(f"{text} ORDER BY seq DESC LIMIT ?", given)
    return [seq for (seq,) in rows]
