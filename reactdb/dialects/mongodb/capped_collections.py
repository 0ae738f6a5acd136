"""Capped collections: their order, and the deletion of their oldest documents.

A capped collection has at most `size` bytes of BSON, and at most `max` documents, if given. An insert beyond that deletes the
oldest documents, in the same commit. A hidden table beside the collection has its order: one row for each document by its place,
counted from 1, and one row of totals. The place of a document is in the metadata of its entry, so that writers of all dialects
find its row.

Rule of this file: only the write hook (`rules`) changes the order, for all writers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from reactdb.dialects.mongodb.entries import document_of, is_map
from reactdb.dialects.mongodb.namespaces import order_table
from reactdb.dialects.mongodb.values import encode
from reactdb.store.catalogue import Catalogue, TableInfo
from reactdb.store.hooks import Derived, Draft
from reactdb.store.snapshot import Snapshot
from reactdb.values import codec, collation

__all__ = [
    "Cap",
    "CappedPlace",
    "all_places",
    "derive_place",
    "has_place",
    "is_cut",
    "order_table_of",
    "places",
    "totals_in",
]

PAGE_PLACES: Final = 1_024


class Cap(NamedTuple):
    """The limits of a capped collection: bytes of BSON, and documents (None: unlimited)."""

    size: int
    most: int | None


class CappedPlace(NamedTuple):
    """The place of a document in its collection."""

    number: int
    key: bytes


class Totals(NamedTuple):
    """The totals of a capped collection.

    Attributes:
        held, size: Documents, and their bytes of BSON.
        first: No place before it has a document.
        next: The place of the next document.
        cut: Documents up to this place are deleted to make room.
    """

    held: int = 0
    size: int = 0
    first: int = 1
    next: int = 1
    cut: int = 0


def order_table_of(catalogue: Catalogue, table: TableInfo) -> TableInfo | None:
    """The hidden table with the order of a capped collection; None for other collections."""
    return None if table.hook is None else catalogue.live.get(order_table(table.id))


def place_key(number: int) -> bytes:
    return collation.key_bytes(number)


_TOTALS: Final = 0
# The row of totals comes before the first place.


def totals_in(snapshot: Snapshot, order: TableInfo) -> Totals:
    return _totals(snapshot.get(order, place_key(_TOTALS)))


def _totals(body: bytes | None) -> Totals:
    return Totals() if body is None else Totals(*codec.decode(body)["totals"])


def places(
    snapshot: Snapshot, order: TableInfo, after: int = 0, limit: int = PAGE_PLACES
) -> list[CappedPlace]:
    """The next places of documents after `after`, in order, at most `limit`."""
    _, bodies = snapshot.page(order, place_key(after + 1), b"\xff", False, limit)
    rows = map(codec.decode, bodies)
    return [CappedPlace(row["id"], row["key"]) for row in rows]


def has_place(snapshot: Snapshot, order: TableInfo, number: int) -> bool:
    """Whether there is a document at a place."""
    return snapshot.get(order, place_key(number)) is not None


def all_places(snapshot: Snapshot, order: TableInfo) -> Iterator[CappedPlace]:
    after = 0
    while page := places(snapshot, order, after):
        yield from page
        after = page[-1].number


# ---------------------------------------------------------------------------------------------------------------
# The write hook


def derive_place(draft: Draft, cap: Cap, meta: bytes | None) -> Derived:
    """The additional writes for a version of a document in a capped collection.

    Args:
        meta: The writer's metadata of the version.
    """
    order = draft.beside(order_table(draft.table.id))
    totals = _totals(draft.read_document(order, place_key(_TOTALS)))
    old = None if draft.old_bytes is None else _place_in(draft.old_meta)
    if draft.new_bytes is None:
        return _remove_row(order, totals, old, meta)
    size = len(encode(document_of(draft.table, draft.new_bytes)))
    if old is not None:
        number, before = old
        derived = _with_place(meta, number, size)
        if size == before:
            return Derived(derived)
        totals = totals._replace(size=totals.size + size - before)
        return Derived(derived, [_totals_row(order, totals), _row(order, number, draft.key_bytes, size)])
    number = totals.next
    totals = totals._replace(held=totals.held + 1, size=totals.size + size, next=number + 1)
    totals, removed, rows = _make_room(draft, order, totals, cap)
    beside = [_totals_row(order, totals), _row(order, number, draft.key_bytes, size), *rows, *removed]
    return Derived(_with_place(meta, number, size), beside)


Written = tuple[TableInfo, bytes, bytes | None]


def _make_room(
    draft: Draft, order: TableInfo, totals: Totals, cap: Cap
) -> tuple[Totals, list[Written], list[Written]]:
    """Choose the oldest documents for deletion, to make room. Returns: the new totals, the deletions of documents, and those of
    rows of `order`."""
    removed: list[Written] = []
    rows: list[Written] = []
    count, size, first = totals.held, totals.size, totals.first
    while first < totals.next - 1 and (size > cap.size or (cap.most is not None and count > cap.most)):
        body = draft.read_document(order, place_key(first))
        if body is not None:
            row = codec.decode(body)
            count, size = count - 1, size - row["size"]
            removed.append((draft.table, row["key"], None))
            rows.append((order, place_key(first), None))
        first += 1
    cut = first - 1 if removed else totals.cut
    return totals._replace(held=count, size=size, first=first, cut=cut), removed, rows


def _remove_row(order: TableInfo, totals: Totals, old: tuple[int, int] | None, meta: bytes | None) -> Derived:
    if old is None:
        return Derived(meta)
    number, size = old
    if number <= totals.cut:
        # The insert has written these already.
        return Derived(codec.encode({"cut": True}))
    totals = totals._replace(held=totals.held - 1, size=totals.size - size)
    return Derived(meta, [_totals_row(order, totals), (order, place_key(number), None)])


def _totals_row(order: TableInfo, totals: Totals) -> Written:
    return order, place_key(_TOTALS), codec.encode({"id": _TOTALS, "totals": list(totals)})


def _row(order: TableInfo, number: int, key: bytes, size: int) -> Written:
    return order, place_key(number), codec.encode({"id": number, "key": key, "size": size})


def _with_place(meta: bytes | None, number: int, size: int) -> bytes:
    fields: Mapping[str, Any] = codec.decode(meta) if meta is not None else {"plain": True}
    return codec.encode({**fields, "place": [number, size]})


def _place_in(meta: bytes | None) -> tuple[int, int] | None:
    if not is_map(meta):
        return None
    assert meta is not None
    place = codec.decode(meta).get("place")
    return None if place is None else (place[0], place[1])


def is_cut(meta: bytes | None) -> bool:
    """Whether a deletion made room for a newer document."""
    return is_map(meta) and meta is not None and "cut" in codec.decode(meta)
