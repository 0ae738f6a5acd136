"""Bulk inserts: the statements by which many new documents come into the log, and the heads from there.

What a row costs is not what is stored but that it is a statement's: to begin one, bind and end it. So there are many rows to a
statement, and what is the same in all of them is written into it instead of being bound again and again.

Rule of this file: the statements and nothing else. `WriteTransaction.insert_many` says what they are about.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice, repeat
from operator import add, le

from reactdb.change import INSERT
from reactdb.store.sqlite import Connection

Row = tuple[int, bytes, bytes, int]
"""Seq, key, body and seal."""

# Rows to a statement: of 32 each costs a fifth less than alone, of more not less than that.
ROWS = 32
# Rows for which it pays to prepare a statement of their own.
MANY = 1_000
COLUMNS = "INSERT INTO log (seq, table_id, kind, step, time, key, body, seal, origin) VALUES "
BOUND = f"{COLUMNS}(?1, ?5, {INSERT}, ?1 - ?6, ?7, ?2, ?3, ?4, ?8)"
ADD_HEADS = (
    "INSERT INTO heads (table_id, key, seq) SELECT table_id, key, seq FROM log WHERE seq >= ? ORDER BY "
)


def append_inserts(
    connection: Connection,
    rows: Iterator[Row],
    count: int,
    table_id: int,
    commit: int,
    time: int,
    origin: str | None,
) -> None:
    """Append so many rows, of the transaction whose first seq is `commit`, to the log."""
    if count >= MANY and origin is None:
        texts = [
            f"(?{place}, {table_id}, {INSERT}, ?{place} - {commit}, {time}, ?{place + 1}, ?{place + 2}, ?{place + 3}, NULL)"
            for place in range(1, 4 * ROWS, 4)
        ]
        even = count - count % ROWS
        values = chain.from_iterable(islice(rows, even))
        connection.executemany(COLUMNS + ", ".join(texts), zip(*[values] * (4 * ROWS), strict=True))
    # The rest, or all.
    connection.executemany(BOUND, map(add, rows, repeat((table_id, commit, time, origin))))


def heads_of_inserts(keys: Sequence[bytes]) -> str:
    """The statement that makes heads of all entries from a seq on, given the keys of these.

    In key order: a head appended at the end of its tree costs half of one put in the middle.
    """
    is_sorted = all(map(le, keys, islice(keys, 1, None)))
    # As they are in the log already, nothing needs to be sorted.
    return ADD_HEADS + ("seq" if is_sorted else "key")
