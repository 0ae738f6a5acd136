"""Index walks: the first documents of a query in the order of an index, without reading the rest of the index.

    find({"a": {"$gt": 5}}).limit(3)                        an index on `a`, from 5 on
    find({"user": 5}).sort("at", -1).limit(3)               an index on `user` and `at`, from the end of this user's back

A sort uses only one value of an array, and an index has them all. So a sort walks an index only if it has no marks (see
`index_keys`): then each document has one entry in it, at its sort position.

Rule of this file: a walk reads within one snapshot, and the filter is tested on each document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from reactdb.budget import spend_per_element
from reactdb.dialects.mongodb.capped_collections import order_table_of
from reactdb.dialects.mongodb.entries import document_of
from reactdb.dialects.mongodb.find import FilterSelection
from reactdb.dialects.mongodb.index_keys import ANY_VALUE, MARKS, range_of
from reactdb.dialects.mongodb.indexes import CollectionIndex, indexes_of
from reactdb.dialects.mongodb.natural import places_of
from reactdb.dialects.mongodb.query_plan import Demand, holds_matches, points_of, ranges_in
from reactdb.dialects.mongodb.sort import Order
from reactdb.documents.access_path import Access, Range, spend_on_places
from reactdb.query import Limit
from reactdb.store.catalogue import Catalogue, TableInfo
from reactdb.store.snapshot import Snapshot

__all__ = ["MOST_WALKED", "OrderedRead", "walk_of"]

Document = dict[str, Any]

MOST_WALKED: Final = 1_000
"""The most documents in memory at once."""
WHOLE: Final = [range_of(b"", ANY_VALUE)]


class OrderedRead(NamedTuple):
    """A walk along an index.

    Attributes:
        by: The index.
        ranges: Its ranges, if each document has one entry.
        others: The ranges otherwise; None: then the index is not walked.
        is_backwards: From the end to the beginning.
        is_whole: All documents match, and all have an entry in the index.
    """

    by: CollectionIndex
    ranges: Sequence[tuple[bytes, bytes]]
    others: Sequence[tuple[bytes, bytes]] | None = None
    is_backwards: bool = False
    is_whole: bool = False

    def after(self, snapshot: Snapshot, table: TableInfo, skip: int, limit: int) -> list[Document] | None:
        """The matching documents from a place on, at most `limit`, without reading those before it; None if the index
        does not know the place."""
        if not self.is_whole or not self._has_one_entry_each(snapshot):
            return None
        start, stop = WHOLE[0]
        entries = snapshot.entries(
            self.by.info, start, stop, reverse=self.is_backwards, limit=limit, offset=skip
        )
        return [document_of(table, entry.body) for entry in spend_on_places(entries)]

    def _has_one_entry_each(self, snapshot: Snapshot) -> bool:
        """Whether no document has an array in an indexed field."""
        return self.by.has_marks and not snapshot.entries(self.by.info, *MARKS, limit=1)

    def first(
        self, snapshot: Snapshot, table: TableInfo, matches: Callable[[Any], bool], count: int
    ) -> list[Document] | None:
        """The first matching documents, at most `count`; None if the index is not walked."""
        ranges: Sequence[tuple[bytes, bytes]] | None = self.ranges
        if not self._has_one_entry_each(snapshot):
            ranges = self.others
        if ranges is None:
            return None
        documents: dict[bytes, Document] = {}
        for key, body in spend_per_element(self._rows(snapshot, table, ranges, count)):
            if key in documents:
                continue
            document = document_of(table, body)
            if matches(document):
                documents[key] = document
                if len(documents) == count:
                    break
        return list(documents.values())

    def _rows(
        self, snapshot: Snapshot, table: TableInfo, ranges: Sequence[tuple[bytes, bytes]], count: int
    ) -> Iterator[tuple[bytes, bytes]]:
        for start, stop in reversed(ranges) if self.is_backwards else ranges:
            span = Range(start, stop, self.is_backwards)
            access = Access(table, self.by.info, None, span, (Limit(count),), None, "")
            for place in access.places(snapshot):
                yield place.key, place.body


def walk_of(
    catalogue: Catalogue, table: TableInfo, selection: FilterSelection, order: Order | None
) -> OrderedRead | None:
    """The walk for the first documents of a selection; None if no index has one.

    Args:
        order: The wanted order; None: any order.
    """
    indexes = indexes_of(table) if table.indexes else []
    # A capped collection has an order of its own.
    if not indexes or order_table_of(catalogue, table) is not None:
        return None
    chosen = selection.plan(indexes, table)
    has_collation = selection.collation is not None
    demand = Demand.of(selection.spec)
    conditions = demand.conditions
    if order is None:
        index = next((one for one in indexes if one.info is chosen.by), None)
        if index is None:
            return None
        fixed = [points_of(conditions.get(path, ()), has_collation) for path in index.key]
        if all(map(_is_one, fixed)) and places_of(catalogue, table) is not None:
            # All have the same value in the index, and come in natural order.
            return None
        _, ranges = ranges_in(index, conditions, has_collation, is_single=True)
        # A choice may have led to less.
        return OrderedRead(
            index, chosen.ranges if ranges is None or demand.choices else ranges, chosen.ranges
        )
    ways = {goes_down for _, goes_down in order.fields}
    if has_collation or len(ways) != 1:
        return None
    names = [name for name, _ in order.fields]
    count = len(names)
    for index in indexes:
        if not index.has_marks or not holds_matches(index, conditions, has_collation):
            continue
        key = index.key
        before = next((place for place in range(len(key)) if key[place : place + count] == names), None)
        if before is None:
            continue
        fixed = [points_of(conditions.get(path, ()), has_collation) for path in key[:before]]
        _, ranges = ranges_in(index, conditions, has_collation, is_single=True)
        # If it reads the whole index and another plan does not, either may be quicker.
        if all(map(_is_one, fixed)) and (ranges is not None or chosen.is_whole):
            is_whole = ranges is None and chosen.is_whole and chosen.is_exact
            ranges = WHOLE if ranges is None else ranges
            return OrderedRead(index, ranges, is_backwards=ways.pop(), is_whole=is_whole)
    return None


def _is_one(values: Sequence[Any] | None) -> bool:
    return values is not None and len(values) == 1
