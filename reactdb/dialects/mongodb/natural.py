"""Natural order: documents without a sort come in the order in which they were inserted.

A table gives its documents in the order of their keys. While each document that is inserted has a greater `_id` than all that
are there, as with the ObjectIds of one program, both orders are one, and nothing is kept. The first document that has not begins
a hidden table of places beside the collection: from then on each document that is inserted has a row there, by its key, with a
number that grows. An update changes no place.

Documents without a row come first, in the order of their keys: those that were there before the table of places, and those that
others than this dialect insert.

Rule of this file: places are written in the commit that inserts or deletes the documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import le
from typing import Any, Final

from reactdb.change import DELETE, INSERT, REPLACE, HiddenTable
from reactdb.dialects.mongodb.capped import order_of
from reactdb.dialects.mongodb.namespaces import PLACES, hidden, place_table
from reactdb.dialects.mongodb.targets import Target
from reactdb.store.catalogue import Catalogue, TableInfo
from reactdb.store.snapshot import Snapshot
from reactdb.store.transaction import WriteTransaction
from reactdb.values import codec, collation

__all__ = ["drop_place", "in_natural_order", "is_place_table", "keep_places", "needs_places", "places_of"]

FEW: Final = 256
"""The places of so many documents are looked up. Of more, all that the collection has are read."""
PAGE_ROWS: Final = 1_024


def places_of(catalogue: Catalogue, table: TableInfo) -> TableInfo | None:
    """The hidden table of places; None where the order of keys is that of insertion."""
    return catalogue.live.get(place_table(table.id))


def is_place_table(table: TableInfo) -> bool:
    """Whether this is a hidden table of places."""
    return isinstance(table.reference, HiddenTable) and table.name.startswith(PLACES)


# ---------------------------------------------------------------------------------------------------------------
# Writing


def needs_places(target: Target, table: TableInfo, keys: Sequence[bytes]) -> bool:
    """Whether documents that are about to be inserted need places. A capped collection has an order of its own."""
    if places_of(target.catalogue, table) is None:
        if not isinstance(target, WriteTransaction):
            # A transaction of the dialect keeps its writes, and the commit asks again.
            return False
        if keys[0] > target.greatest_key(table) and not (len(keys) > 1 and any(map(le, keys[1:], keys))):
            return False
    return order_of(target.catalogue, table) is None


def keep_places(target: Target, table: TableInfo, keys: Sequence[bytes]) -> None:
    """Give documents that were inserted the next places."""
    rows = places_of(target.catalogue, table)
    if rows is None:
        assert isinstance(target, WriteTransaction)
        rows = hidden(target, place_table(table.id))
    bodies = [
        codec.encode({"id": key, "place": number})
        for number, key in enumerate(keys, target.first + target.count)
    ]
    if len(keys) > 1 and isinstance(target, WriteTransaction):
        row_keys = [collation.key_bytes(key) for key in keys]
        # Somebody else may have deleted documents, and left their places.
        if next(target.snapshot().pick(rows, sorted(row_keys)), None) is None:
            target.insert_many(rows, row_keys, bodies)
            return
    for key, body in zip(keys, bodies, strict=True):
        _put(target, rows, key, body)


def drop_place(target: Target, table: TableInfo, key: bytes) -> None:
    """Forget the place of a document that is deleted, if it has one."""
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
    """Sorted keys of documents in the order in which these were inserted.

    Args:
        rows: The table of places.
    """
    if len(keys) <= FEW:
        found = snapshot.pick(rows, [collation.key_bytes(key) for key in keys])
        places = _places_in([body for _, body in found])
    else:
        places = {}
        start = b""
        while True:
            row_keys, bodies = snapshot.page(rows, start, b"\xff", False, PAGE_ROWS)
            places.update(_places_in(bodies))
            if len(row_keys) < PAGE_ROWS:
                break
            start = row_keys[-1] + b"\x00"
    return sorted(keys, key=lambda key: places.get(key, 0))


def _places_in(bodies: Sequence[bytes]) -> dict[bytes, int]:
    rows: Sequence[Any] = codec.decode_many(bodies)
    return {row["id"]: row["place"] for row in rows}
