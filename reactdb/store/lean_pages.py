"""Lean pages: a page of the log in five columns instead of eleven, which takes three fifths of the time.

Most pages are of one table, and of changes without origin and meta. Of such a page SQLite gives

    key, body, seal     as they are
    dated               time + DATED * kind
    placed              step + PLACED * prev

with the document before as one more where it is wanted, and the seqs are those that were asked for, because a page is lean only
where all of them are there. The two factors are greater than what they leave room for, so each number can be taken apart again.
And they are, modulo the seal's modulus, the weights that the columns have in it: so the sums of the two numbers are what the
seals are compared with, and nothing is taken apart for that.

Rule of this file: a page that is not as it must be, whatever the reason, is none. Who gets none reads all columns, and says why.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress, repeat
from typing import Any
from zlib import adler32

from reactdb.store.checksums import KIND, LOW, MODULUS, ONE_HIGH, PREV, SEQ, STEP
from reactdb.store.file.sqlite import Connection

# Times are below 2^44 (the year 2527), steps below MODULUS, and so are the seqs of a lean page: all fits in 63 bits.
MOST_TIME = 1 << 44
DATED = KIND + MODULUS * (MOST_TIME // MODULUS + 1)
PLACED = PREV * pow(STEP, -1, MODULUS) % MODULUS + MODULUS

PAGE = " WHERE l.seq > ? AND l.seq <= ? AND +l.table_id = ? AND l.origin IS NULL AND l.meta IS NULL ORDER BY l.seq"
NUMBERS = f"l.time + {DATED} * l.kind, l.step + {PLACED} * ifnull(l.prev, 0)"
ROWS = f"SELECT l.key, l.body, l.seal, {NUMBERS} FROM log l{PAGE}"
# With the documents before, and what is theirs of their seals: a seal leaves room for it.
ROWS_WITH_OLD = (
    f"SELECT l.key, l.body, l.seal + CASE WHEN p.body IS NULL THEN 0 ELSE p.seal & {LOW} END, {NUMBERS}, p.body"
    f" FROM log l LEFT JOIN log p ON p.seq = l.prev{PAGE}"
)
TABLE = "SELECT table_id FROM log WHERE seq = ?"

Rows = list[tuple[Any, ...]]


def table_at(connection: Connection, seq: int) -> int | None:
    """The table of an entry."""
    row = connection.execute(TABLE, (seq,)).fetchone()
    return None if row is None else row[0]


def lean_rows(
    connection: Connection, since: int, until: int, table_id: int, *, has_old: bool = False
) -> Rows | None:
    """The entries with since < seq <= until, oldest first, every one as it was written, and with `has_old` the document that it
    superseded as one more column; None where they have no lean page."""
    if until >= MODULUS:
        return None
    count = until - since
    rows = connection.execute(ROWS_WITH_OLD if has_old else ROWS, (since, until, table_id)).fetchall()
    if len(rows) != count:
        return None
    keys, bodies, seals, dated, placed, *before = zip(*rows, strict=True)
    try:
        seeds: Iterable[int] = map(adler32, keys, repeat(table_id))
        low = 0
        if before:
            (olds,) = before
            # Only inserts have none.
            if olds.count(None) != sum(map(DATED.__gt__, dated)):
                return None
            seeds = list(seeds)
            low = sum(map(adler32, filter(None, olds), compress(seeds, olds)))
        # Deletions have no document.
        low += sum(map(adler32, [body or b"" for body in bodies] if None in bodies else bodies, seeds))
        high, remainder = divmod(sum(seals) - low, ONE_HIGH)
        rest = SEQ * (count * (since + 1 + until) // 2) + sum(dated) + STEP * sum(placed)
        # Of a page that SQLite had to make a real number in, the sum is one.
        is_whole = type(high - rest) is int and not remainder and not (high - rest) % MODULUS
    except TypeError:
        # A column of another type.
        is_whole = False
    return rows if is_whole else None


def taken_apart(row: tuple[Any, ...]) -> tuple[int, int, int | None, int]:
    """Time, kind, prev and step of a row."""
    kind, time = divmod(row[3], DATED)
    prev, step = divmod(row[4], PLACED)
    return time, kind, prev or None, step


def prevs_of(rows: Rows) -> list[int]:
    """The entries that these supersede; 0 for none."""
    return [row[4] // PLACED for row in rows]
