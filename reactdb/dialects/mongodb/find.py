"""Reads of the documents that match a filter, from one snapshot, or page by page from the state of one moment.

    selected(snapshot, table, indexes, selection)       (key, document) of each match, within one snapshot
    Scan(session, table)                                the same of the state of now, over time

A long-lived cursor reads the state of its opening: each page has its own snapshot, and later changes are undone in it. If that
history was compacted away meanwhile, the cursor goes on with the present state.

Rule of this file: a Scan has no open snapshot while it yields a document. `select` uses its caller's snapshot, so its result
must be read at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from reactdb.budget import STEP_BYTES, spend, spend_per_element
from reactdb.dialects.mongodb.capped_collections import all_places, order_table_of
from reactdb.dialects.mongodb.entries import document_of, fields_of
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.filters import Filter
from reactdb.dialects.mongodb.indexes import CollectionIndex
from reactdb.dialects.mongodb.natural import in_natural_order, places_of, rows_in_natural_order
from reactdb.dialects.mongodb.query_plan import ReadPlan, exact_key, plan
from reactdb.dialects.mongodb.values import is_document
from reactdb.errors import HistoryLost
from reactdb.session import Session
from reactdb.store.catalogue import TableInfo
from reactdb.store.snapshot import PastSnapshot, Snapshot, read_all_changes
from reactdb.store.undo import Undo

if TYPE_CHECKING:
    from reactdb.dialects.mongodb.bson_order import TextKey
    from reactdb.dialects.mongodb.projection import Projection

__all__ = ["FilterSelection", "Scan", "projection_of", "select"]

Document = dict[str, Any]

FIRST_ROWS: Final = 128
PAGE_ROWS: Final = 1_024
ALL: Final = ((b"", b"\xff"),)
"""The range of all keys."""


def projection_of(
    fields: Mapping[str, Any], variables: Mapping[str, Any] | None, collation: TextKey | None
) -> Projection:
    """The Projection of these arguments."""
    # Imported here because it brings the expressions, and a program that writes needs none.
    from reactdb.dialects.mongodb.projection import Projection

    return Projection(fields, variables=variables, collation=collation)


class FilterSelection:
    """The filter of a statement.

    Attributes:
        spec: The filter as given.
        variables, collation: Given with the filter.
        key: The key of the only match, if the filter has nothing but an `_id`; else None.
    """

    __slots__ = ("_filter", "collation", "key", "spec", "variables")

    def __init__(
        self,
        spec: Any,
        *,
        variables: Mapping[str, Any] | None = None,
        collation: Any = None,
    ) -> None:
        """
        Raises:
            MongoError: It is no filter.
        """
        self.spec = spec
        self.variables = variables
        self.collation = collation
        if not is_document(spec):
            raise MongoError(14, "a filter has to be a document")
        self.key = exact_key(spec, has_collation=collation is not None)
        self._filter: Filter | None = None
        if self.key is None:
            self._filter = Filter(spec, variables=variables, collation=collation)

    @property
    def filter(self) -> Filter:
        """The filter, to be tested. It is compiled when it is needed."""
        if self._filter is None:
            self._filter = Filter(self.spec, variables=self.variables, collation=self.collation)
        return self._filter

    def plan(self, indexes: Iterable[CollectionIndex] = (), table: TableInfo | None = None) -> ReadPlan:
        """How the documents are read; see `query_plan`."""
        if self.key is not None:
            return ReadPlan((self.key,), is_exact=True)
        return plan(self.spec, indexes, table, has_collation=self.collation is not None)

    @property
    def point(self) -> bytes | None:
        """The only possible key; None if there may be several."""
        if self.key is not None or "_id" not in self.spec:
            return self.key
        keys = self.plan().keys
        return keys[0] if keys is not None and len(keys) == 1 else None


def select(
    snapshot: Snapshot, table: TableInfo, indexes: Sequence[CollectionIndex], selection: FilterSelection
) -> Iterator[tuple[bytes, Document]]:
    """The key and the document of each match, in natural order; for a range of `_id`s in the order of keys."""
    chosen = selection.plan(indexes, table)
    matches = None if chosen.is_exact else selection.filter.matches
    for key, body in rows_of(snapshot, table, chosen):
        spend(1 + len(body) // STEP_BYTES)
        document = document_of(table, body)
        if matches is None or matches(document):
            yield key, document


def rows_of(snapshot: Snapshot, table: TableInfo, chosen: ReadPlan) -> Iterator[tuple[bytes, bytes]]:
    """The keys and bytes of a plan's documents, within one snapshot."""
    test = test_of(chosen, table)
    rows = _rows_in_order(snapshot, table, chosen)
    if rows is not None:
        yield from rows if test is None else (row for row in rows if test(row[1]))
    else:
        for start, stop in chosen.ranges or ALL:
            while True:
                keys, bodies = snapshot.page(table, start, stop, False, PAGE_ROWS)
                rows = iter(zip(keys, bodies, strict=True))
                yield from rows if test is None else (row for row in rows if test(row[1]))
                if len(keys) < PAGE_ROWS:
                    break
                start = keys[-1] + b"\x00"


def _rows_in_order(
    snapshot: Snapshot, table: TableInfo, chosen: ReadPlan
) -> Iterator[tuple[bytes, bytes]] | None:
    """A plan's keys and bytes, in natural order; None if the table is read through in the order of keys."""
    if chosen.is_whole and not isinstance(snapshot, PastSnapshot):
        places = places_of(snapshot.catalogue, table)
        if places is not None and order_table_of(snapshot.catalogue, table) is None:
            return rows_in_natural_order(snapshot, table, places)
    keys = keys_of(snapshot, table, chosen)
    return None if keys is None else in_order(snapshot, table, keys)


def keys_of(snapshot: Snapshot, table: TableInfo, chosen: ReadPlan) -> Sequence[bytes] | None:
    """A plan's keys, in natural order; None if the table is read through in the order of keys."""
    if chosen.keys is not None:
        return chosen.keys
    order = order_table_of(snapshot.catalogue, table)
    if order is not None:
        return [place.key for place in all_places(snapshot, order)]
    is_led = chosen.by is not None or bool(chosen.parts)
    # A range of `_id`s is read in their order.
    places = None if chosen.ranges and not is_led else places_of(snapshot.catalogue, table)
    if places is None:
        return _keys(snapshot, table, chosen) if is_led else None
    return in_natural_order(snapshot, places, _keys(snapshot, table, chosen))


def _keys(snapshot: Snapshot, table: TableInfo, chosen: ReadPlan) -> Sequence[bytes]:
    """A plan's keys, sorted."""
    if chosen.parts:
        return sorted({key for part in chosen.parts for key in _keys(snapshot, table, part)})
    if chosen.keys is not None:
        return chosen.keys
    if chosen.by is not None:
        return snapshot.candidates(chosen.by, chosen.ranges)
    if not chosen.ranges:
        return snapshot.keys(table)
    return [key for start, stop in chosen.ranges for key in snapshot.page(table, start, stop, False, -1)[0]]


def in_order(snapshot: Snapshot, table: TableInfo, keys: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """The keys and bytes of the documents of some keys, in the order of these."""
    start, size = 0, FIRST_ROWS
    while start < len(keys):
        page = keys[start : start + size]
        bodies = dict(snapshot.pick(table, sorted(page)))
        yield from ((key, bodies[key]) for key in page if key in bodies)
        start, size = start + size, PAGE_ROWS


def test_of(chosen: ReadPlan, table: TableInfo) -> Callable[[bytes], bool] | None:
    """A plan's test of bytes, if the stored names are the filter's names."""
    return chosen.test if table.primary_key == "_id" else None


class Scan:
    """The state of a collection at the creation of the Scan, read over time. One thread at a time."""

    def __init__(self, session: Session, table: TableInfo) -> None:
        self._session = session
        self._table = table
        self._seq: int | None = None
        self._undo: Undo | None = None
        # Documents at the beginning that are not read.
        self._skip = 0

    def documents(
        self,
        selection: FilterSelection,
        indexes: Sequence[CollectionIndex],
        *,
        field: str | None = None,
        skip: int = 0,
    ) -> Iterator[Document]:
        """The matching documents, in the order of `select`.

        Args:
            field: Only this field of the first level is needed: other fields may be missing, and documents without it.
            skip: All but the first so many. Where a plan finds matches only, skipped documents are not read.
        """
        table = self._table
        chosen = selection.plan(indexes, table)
        if skip and not self._skips_unread(chosen):
            yield from cut(self.documents(selection, indexes, field=field), skip, 0)
            return
        self._skip = skip
        if chosen.is_exact and field is not None:
            for bodies in self._pages(chosen):
                yield from spend_per_element(fields_of(table, bodies, field))
            return
        matches = None if chosen.is_exact else selection.filter.matches
        for bodies in self._pages(chosen):
            for body in bodies:
                spend(1 + len(body) // STEP_BYTES)
                document = document_of(table, body)
                if matches is None or matches(document):
                    yield document

    def _skips_unread(self, chosen: ReadPlan) -> bool:
        """Whether each key of the collection is that of a match. A capped collection has an order of its own."""
        return chosen.is_whole and chosen.is_exact and self._table.hook is None

    def _pages(self, chosen: ReadPlan) -> Iterator[Sequence[bytes]]:
        test = test_of(chosen, self._table)
        if chosen.keys is not None:
            yield from self._along(chosen.keys, test)
            return
        size = FIRST_ROWS
        is_first = True
        for start, stop in chosen.ranges or ALL:
            while True:
                with self._session.read() as now:
                    then = self._then(now)
                    # Within the first page's read, because each read takes time.
                    keys = keys_of(then, self._table, chosen) if is_first else None
                    skip = self._skip if is_first else 0
                    if keys is None:
                        page_keys, bodies = then.page(self._table, start, stop, False, size, offset=skip)
                if keys is not None:
                    yield from self._along(keys[skip:], test)
                    return
                yield bodies if test is None else [body for body in bodies if test(body)]
                is_first = False
                if len(page_keys) < size:
                    break
                start = page_keys[-1] + b"\x00"
                size = PAGE_ROWS

    def _along(
        self, keys: Sequence[bytes], test: Callable[[bytes], bool] | None
    ) -> Iterator[Sequence[bytes]]:
        """The bytes of the documents of some keys, in pages."""
        start, size = 0, FIRST_ROWS
        while start < len(keys):
            with self._session.read() as now:
                rows = list(in_order(self._then(now), self._table, keys[start : start + size]))
            yield [body for _, body in rows if test is None or test(body)]
            start, size = start + size, PAGE_ROWS

    def _then(self, now: Snapshot) -> Snapshot:
        """The Scan's state, as seen from a snapshot of now."""
        table = self._table
        if self._seq is None:
            self._seq = now.seq
            return now
        if (
            now.catalogue.live.get(table.reference) is None
            or now.catalogue.by_id[table.id].dropped is not None
        ):
            raise MongoError(175, f"collection dropped while it was read: {table.name}")
        if now.newest_seq(table) <= self._seq:
            return now
        if self._undo is None:
            self._undo = Undo(self._seq, ())
        try:
            for change in read_all_changes(now, self._undo.until, table):
                self._undo.add(change)
        except HistoryLost:
            self._seq, self._undo = now.seq, None
            return now
        self._undo.until = now.seq
        return PastSnapshot(now, self._seq, self._undo)


def cut(documents: Iterable[Document], skip: int, limit: int) -> Iterator[Document]:
    """All but the first `skip`, and at most `limit` of them; a limit of 0 is none."""
    if not skip and not limit:
        return iter(documents)
    return islice(iter(documents), skip, skip + limit if limit else None)
