"""Bulk: the statements by which many entries of one transaction come into the log together, and heads from there.

What an entry costs is not so much what is stored as that it is a statement's: to begin one, to bind and to end it. So there are
many to a statement, and what they have in common is bound once with it; their seqs follow each other.

Rule of this file: the statements and nothing else. `WriteTransaction` says what they are about.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain, islice, repeat
from operator import add, le
from typing import Any

from reactdb.change import INSERT
from reactdb.store.file.sqlite import Connection

# Entries to a statement: of 32 each costs a fifth less than alone, of more not less than that.
ENTRIES = 32
# What each entry has for itself: of inserts of keys that were never there, and of others.
OF_INSERTS = ("table_id", "key", "body", "seal")
OF_ANY = ("table_id", "kind", "prev", "key", "body", "meta", "seal")
ADD_HEADS = (
    "INSERT INTO heads (table_id, key, seq) SELECT table_id, key, seq FROM log WHERE seq >= ? ORDER BY "
)


@cache
def statement(names: tuple[str, ...], entries: int) -> str:
    """It binds seq and step of the first entry, time, origin, and then the entries' own columns."""
    kind = () if "kind" in names else ("kind",)
    rows = []
    for place in range(entries):
        own = [f"?{5 + place * len(names) + column}" for column in range(len(names))]
        rows.append(f"(?1 + {place}, ?2 + {place}, ?3, ?4, {', '.join([str(INSERT)] * len(kind) + own)})")
    return f"INSERT INTO log (seq, step, time, origin, {', '.join(kind + names)}) VALUES {', '.join(rows)}"


def append_many(
    connection: Connection,
    names: tuple[str, ...],
    count: int,
    seq: int,
    step: int,
    time: int,
    origin: str | None,
    columns: Sequence[Iterable[Any]],
) -> None:
    """Append so many entries, the first with the given seq and step, of these columns: `OF_INSERTS` or `OF_ANY`."""
    rows = zip(*columns, strict=False)
    even = count - count % ENTRIES
    seqs, steps = range(seq, seq + count), range(step, step + count)
    if even:
        # The same iterator in the place of each column: one after the other they take their values from it.
        values = chain.from_iterable(islice(rows, even))
        own = repeat(values, len(columns) * ENTRIES)
        firsts = seqs[:even:ENTRIES], steps[:even:ENTRIES]
        connection.executemany(
            statement(names, ENTRIES), zip(*firsts, repeat(time), repeat(origin), *own, strict=False)
        )
    if even < count:
        common = zip(seqs[even:], steps[even:], repeat(time), repeat(origin), strict=False)
        connection.executemany(statement(names, 1), map(add, common, rows))


def heads_of_inserts(keys: Sequence[bytes]) -> str:
    """The statement that makes heads of all entries from a seq on, given the keys of these.

    In key order: a head appended at the end of its tree costs half of one put in the middle.
    """
    is_sorted = all(map(le, keys, islice(keys, 1, None)))
    # As they are in the log already, nothing needs to be sorted.
    return ADD_HEADS + ("seq" if is_sorted else "key")
