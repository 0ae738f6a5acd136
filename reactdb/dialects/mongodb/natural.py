"""Natural order: documents without a sort come in the order of their insertion.

A table has its documents in the order of their keys. As long as each inserted document has a greater `_id` than all others, as
with the ObjectIds of one program, both orders are the same, and nothing is kept. The first exception starts a hidden table of
places beside the collection: from then on each inserted document has a row there, by its key, with a growing number. An update
changes no place. So the rows are in the log in the order of their numbers, and the first documents are read without the rest.

If there are only a few older documents, they get rows, too. Otherwise one row with their greatest key says: up to this key,
documents without a row come first, in the order of their keys. Further documents without a row come from other writers. They are
last, in the order of their keys.

Rule of this file: places are written in the commit that inserts or deletes the documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import le
from typing import Any, Final

from reactdb.change import DELETE, INSERT, REPLACE, HiddenTable
from reactdb.dialects.mongodb.capped_collections import order_table_of
from reactdb.dialects.mongodb.namespaces import PLACES, hidden, place_table
from reactdb.dialects.mongodb.targets import Target
from reactdb.store.catalogue import Catalogue, TableInfo
from reactdb.store.newest import read_keys_by_seq
from reactdb.store.snapshot import GREATEST, LEAST, Snapshot
from reactdb.store.transaction import WriteTransaction
from reactdb.values import codec, collation

__all__ = [
    "drop_place",
    "in_natural_order",
    "is_place_table",
    "keep_places",
    "needs_places",
    "places_of",
    "rows_in_natural_order",
]

FEW: Final = 256
"""Up to this number of documents, places are looked up one by one. For more, all places of the collection are read."""
FIRST_ROWS: Final = 64
PAGE_ROWS: Final = 1_024
UNTIL: Final = b""
"""The key of the row with the limit for documents without a row. No document has this key."""
LAST: Final = 1 << 63
_UNTIL_KEY: Final = collation.key_bytes(UNTIL)


def places_of(catalogue: Catalogue, table: TableInfo) -> TableInfo | None:
    """The hidden table of places; None if the order of keys is the order of insertion."""
    return catalogue.live.get(place_table(table.id))


def is_place_table(table: TableInfo) -> bool:
    """Whether this is a hidden table of places."""
    return isinstance(table.reference, HiddenTable) and table.name.startswith(PLACES)


# ---------------------------------------------------------------------------------------------------------------
# Writing


def needs_places(target: Target, table: TableInfo, keys: Sequence[bytes]) -> bool:
    """Whether documents need places for their insertion. A capped collection has its own order."""
    if places_of(target.catalogue, table) is None and (
        keys[0] > target.greatest_key(table) and not (len(keys) > 1 and any(map(le, keys[1:], keys)))
    ):
        return False
    return order_table_of(target.catalogue, table) is None


def keep_places(target: Target, table: TableInfo, keys: Sequence[bytes]) -> None:
    """Give inserted documents the next places."""
    rows = places_of(target.catalogue, table)
    if rows is None:
        rows = hidden(target, place_table(table.id))
        # Only the statements of a transaction see its buffered writes. The commit assigns the places.
        if isinstance(target, WriteTransaction):
            keys = [*_write_until(target, table, rows, keys), *keys]
    bodies = [
        codec.encode({"id": key, "place": number})
        for number, key in enumerate(keys, target.first + target.count)
    ]
    if len(keys) > 1 and isinstance(target, WriteTransaction):
        row_keys = [collation.key_bytes(key) for key in keys]
        # Other writers may have deleted documents, and left their places.
        if next(target.snapshot().pick(rows, sorted(row_keys)), None) is None:
            target.insert_many(rows, row_keys, bodies)
            return
    for key, body in zip(keys, bodies, strict=True):
        _put(target, rows, key, body)


def _write_until(
    target: WriteTransaction, table: TableInfo, rows: TableInfo, keys: Sequence[bytes]
) -> Sequence[bytes]:
    """Write the row with the limit for documents without a row.

    Args:
        keys: The keys of the documents just inserted.

    Returns:
        The keys of the older documents that get rows, in their order.
    """
    snapshot = target.snapshot()
    is_few = snapshot.count(table) - len(keys) <= FEW
    until = LEAST if is_few else target.greatest_key(table)
    target.write(rows, _UNTIL_KEY, INSERT, None, codec.encode({"id": UNTIL, "place": 0, "until": until}))
    new = set(keys)
    return [key for key in snapshot.keys(table) if key not in new] if is_few else []


def drop_place(target: Target, table: TableInfo, key: bytes) -> None:
    """Delete the place of a deleted document, if it has one."""
    rows = places_of(target.catalogue, table)
    if rows is not None:
        _put(target, rows, key, None)


def _put(target: Target, rows: TableInfo, key: bytes, body: bytes | None) -> None:
    row_key = collation.key_bytes(key)
    old = target.head(rows, row_key)
    if body is not None:
        target.write(rows, row_key, INSERT if old is None else REPLACE, old, body)
    elif old is not None:
        target.write(rows, row_key, DELETE, old, None)


# ---------------------------------------------------------------------------------------------------------------
# Reading


def in_natural_order(snapshot: Snapshot, rows: TableInfo, keys: Sequence[bytes]) -> list[bytes]:
    """Sorted keys of documents in the order of their insertion.

    Args:
        rows: The table of places.
    """
    if len(keys) <= FEW:
        picked = snapshot.pick(rows, [collation.key_bytes(key) for key in keys])
        places = _places_in([body for _, body in picked])
    else:
        places = {}
        start = b""
        while True:
            row_keys, bodies = snapshot.page(rows, start, b"\xff", False, PAGE_ROWS)
            places.update(_places_in(bodies))
            if len(row_keys) < PAGE_ROWS:
                break
            start = row_keys[-1] + b"\x00"
    until = _until(snapshot, rows)
    # All numbers are greater than 0.
    return sorted(keys, key=lambda key: places.get(key, 0 if key <= until else LAST))


def rows_in_natural_order(
    snapshot: Snapshot, table: TableInfo, rows: TableInfo
) -> Iterator[tuple[bytes, bytes]]:
    """The keys and bytes of all documents in the order of their insertion, lazily.

    Args:
        snapshot: A snapshot of now: only the newest entries are in the log in this order.
        rows: The table of places.
    """
    until = _until(snapshot, rows)
    yield from _before_rows(snapshot, table, rows, until)
    given: set[bytes] = set()
    since, newest, size = 0, snapshot.seq, FIRST_ROWS
    while page := read_keys_by_seq(snapshot, rows, since, newest, size):
        keys: list[bytes] = [collation.key_value(row_key) for _, row_key in page]
        yield from _pick(snapshot, table, keys)
        given.update(keys)
        since, size = page[-1][0], PAGE_ROWS
    others = [key for key in snapshot.keys(table) if key > until and key not in given]
    for place in range(0, len(others), PAGE_ROWS):
        yield from _pick(snapshot, table, others[place : place + PAGE_ROWS])


def _before_rows(
    snapshot: Snapshot, table: TableInfo, rows: TableInfo, until: bytes
) -> Iterator[tuple[bytes, bytes]]:
    """The keys and bytes of the documents without a row up to a key, in the order of keys."""
    if until == LEAST:
        return
    placed = _placed_keys(snapshot, rows)
    # Rows, too, are in the order of the documents' keys.
    next_placed = next(placed, None)
    start = LEAST
    while start <= until:
        keys, bodies = snapshot.page(table, start, until + b"\x00", False, PAGE_ROWS)
        for row in zip(keys, bodies, strict=True):
            while next_placed is not None and next_placed < row[0]:
                next_placed = next(placed, None)
            if row[0] != next_placed:
                yield row
        if len(keys) < PAGE_ROWS:
            return
        start = keys[-1] + b"\x00"


def _placed_keys(snapshot: Snapshot, rows: TableInfo) -> Iterator[bytes]:
    """The keys of the documents with a row, in order."""
    start = LEAST
    while True:
        row_keys, bodies = snapshot.page(rows, start, GREATEST, False, PAGE_ROWS)
        yield from _places_in(bodies)
        if len(row_keys) < PAGE_ROWS:
            return
        start = row_keys[-1] + b"\x00"


def _pick(snapshot: Snapshot, table: TableInfo, keys: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """The keys and bytes of the documents of some keys, in the order of these."""
    bodies = dict(snapshot.pick(table, sorted(keys)))
    return ((key, bodies[key]) for key in keys if key in bodies)


def _until(snapshot: Snapshot, rows: TableInfo) -> bytes:
    """Up to this key, documents without a row come first."""
    body = snapshot.get(rows, _UNTIL_KEY)
    # In older files, and within a transaction of the dialect, this row is missing, and any document may be without a row.
    until: bytes = GREATEST if body is None else codec.decode(body)["until"]
    return until


def _places_in(bodies: Sequence[bytes]) -> dict[bytes, int]:
    rows: Sequence[Any] = codec.decode_many(bodies)
    return {row["id"]: row["place"] for row in rows}
