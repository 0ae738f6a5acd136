"""Access paths: how the documents of a query are read: by keys, by a range of keys or of an index, in index order.

Rule of this file: a better access path changes the cost of a result, never the result. So a filter with an index is
still tested on each document, documents come in the order of a scan, and no index is used where it would hide a
document on which a filter fails with an error.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from operator import itemgetter
from sys import maxsize
from typing import Any

from reactdb.budget import STEP_BYTES, Budget, current, spend_bytes
from reactdb.change import TableReference
from reactdb.errors import IndexNotFound, QueryError, TableNotFound
from reactdb.expression import (
    Expression,
    KeyRange,
    OrderKey,
    Predicate,
    find_ranges_of_indexes,
    may_fail,
    row,
    sort_documents,
)
from reactdb.query import (
    Aggregate,
    Between,
    ConcatMap,
    Distinct,
    DistinctOfIndex,
    Filter,
    Get,
    GetAll,
    Group,
    GroupOfIndex,
    HasFields,
    Limit,
    Map,
    Nth,
    OrderBy,
    Query,
    Skip,
    Step,
)
from reactdb.store.catalogue import Catalogue, IndexInfo, TableInfo
from reactdb.store.snapshot import Entry, Row, Snapshot
from reactdb.store.sums import Tally
from reactdb.values import codec, collation
from reactdb.values.value import Value

# Index entries that are read at a time while a limit still needs documents that pass its filters.
PAGE_PLACES = 512
# Documents that are decoded at a time.
DECODED = 256
# The most index ranges for one filter: beyond that, a scan is likely to be as quick.
MOST_RANGES = 64
# The same for ranges that each hold one value: each of them is one look-up.
MOST_POINTS = 1_000
# Up to this many documents of an index are read one by one. Where the index has more, and more than half of the
# table, a scan is quicker: reading in key order takes a third of the time for a document.
FEW_FOUND = 1_000


class Range(Value):
    """Where an access path begins and ends, in key bytes: start <= bytes < stop; and its direction."""

    __slots__ = ("reverse", "start", "stop")

    def __init__(self, start: bytes = b"", stop: bytes = b"\xff", reverse: bool = False) -> None:
        self.start = start
        self.stop = stop
        self.reverse = reverse

    @property
    def is_point(self) -> bool:
        """Whether the range holds only one value."""
        return self.stop == self.start + b"\x00"

    @property
    def is_everything(self) -> bool:
        """Whether it holds all values."""
        return self.start == b"" and self.stop == b"\xff"


WHOLE = Range()
"""The whole key space. One shared object, because each feed keeps its range."""


class Access(Value):
    """How documents are read, and which steps remain to be done.

    Attributes:
        index: The walked index; None for the primary key.
        keys: For `get_all`: the encoded keys, in the order of the query and repeated as in the query.
        range: The range to read in all other cases.
        detour: Ranges of the index, with its hidden entries, that contain every document that passes the filters; without
            an index, single primary keys. They only narrow the search: documents still come in primary key order, and some
            of them may not pass the filters.
        rest: The steps that remain.
        offset: Documents at the beginning that are not read, because steps skip them. See `with_offset`.
        before_nth: How many of them are those before the element of the `Nth` that is the first of `rest`.
        aggregate: The last step, where it is an aggregate.
        reason: The choice in words, for `explain()`.
        is_point: Whether this reads one primary key.
        ties: The order among documents with equal values in the index.
    """

    __slots__ = (
        "aggregate",
        "before_nth",
        "detour",
        "index",
        "is_point",
        "keys",
        "offset",
        "range",
        "reason",
        "rest",
        "table",
        "ties",
    )

    def __init__(
        self,
        table: TableInfo,
        index: IndexInfo | None,
        keys: tuple[bytes, ...] | None,
        range: Range,
        rest: tuple[Step, ...],
        aggregate: Aggregate | None,
        reason: str,
        is_point: bool = False,
        detour: tuple[Range, ...] | None = None,
        ties: tuple[OrderKey, ...] = (),
        offset: int = 0,
        before_nth: int = 0,
    ) -> None:
        self.table = table
        self.index = index
        self.keys = keys
        self.range = range
        self.rest = rest
        self.aggregate = aggregate
        self.reason = reason
        self.is_point = is_point
        self.detour = detour
        self.ties = ties
        self.offset = offset
        self.before_nth = before_nth

    def with_offset(self) -> Access:
        """The same path, with the leading skips as its `offset`, so that no document is read for them. The offset also has the
        elements before that of a leading `nth`, which stays a step.

        Feeds do not use it: for them, a skip is a step.
        """
        if not self.rest or self.keys is not None or self.detour is not None or self.ties:
            return self
        skipped = before_nth = 0
        rest = self.rest
        while rest and isinstance(rest[0], Skip):
            skipped += rest[0].count
            rest = rest[1:]
        if rest and isinstance(rest[0], Nth):
            before_nth = max(0, rest[0].place)
        offset = min(skipped + before_nth, maxsize)
        return self.copy_with(rest=rest, offset=offset, before_nth=before_nth) if offset else self

    def describe(self, snapshot: Snapshot) -> str:
        """How the documents are read from this snapshot, in words."""
        texts = [self.reason]
        is_by_key = self.is_point or (self.keys is not None and self.index is None)
        if is_by_key and snapshot.follows_chains:
            texts.append(f"reads the later changes of {'its key' if self.is_point else 'its keys'} alone")
        if self.offset and snapshot.skips_unread:
            places = "keys" if self.index is None else f"entries of {format_index(self.index)}"
            texts.append(f"skips {self.offset:,} {places} without reading their documents")
        return ", ".join(texts)

    @property
    def is_detour(self) -> bool:
        return self.detour is not None

    @property
    def is_whole_table(self) -> bool:
        return self.index is None and self.keys is None and self.range.is_everything

    def documents(self, snapshot: Snapshot) -> Iterator[dict[str, Any]]:
        """The documents, decoded lazily (with ties: one index value at a time)."""
        if self.ties:
            return self._sort_ties(snapshot)
        if self.keys is None and self.detour is None:
            limit, is_exact = self._rows_needed()
            if limit is None or is_exact:
                if self.index is None:
                    return self._in_key_order(snapshot, limit)
                span = self.range
                bodies = snapshot.entry_bodies(
                    self.index,
                    self.table,
                    span.start,
                    span.stop,
                    span.reverse,
                    -1 if limit is None else limit,
                    self.offset,
                )
                return decode_in_batches(bodies)
        return (codec.decode(place.body) for place in spend_on_places(self.places(snapshot)))

    def encoded(self, snapshot: Snapshot) -> Iterator[Sequence[bytes]] | None:
        """The same documents, encoded, in pages; None where they have to be sorted first."""
        if self.ties:
            return None
        limit, is_exact = self._rows_needed()
        if self.keys is None and self.detour is None and self.index is None and (limit is None or is_exact):
            return self._encoded_in_key_order(snapshot, limit)
        return iter([[place.body for place in spend_on_places(self.places(snapshot))]])

    def _encoded_in_key_order(self, snapshot: Snapshot, limit: int | None) -> Iterator[Sequence[bytes]]:
        for _, bodies in self._key_pages(snapshot, limit):
            spend_bytes(sum(map(len, bodies)))
            yield bodies

    def _in_key_order(self, snapshot: Snapshot, limit: int | None) -> Iterator[dict[str, Any]]:
        """Read in primary key order, one page at a time."""
        for _, bodies in self._key_pages(snapshot, limit):
            spend_bytes(sum(map(len, bodies)))
            yield from codec.decode_many(bodies)

    def _key_pages(
        self, snapshot: Snapshot, limit: int | None
    ) -> Iterator[tuple[Sequence[bytes], Sequence[bytes]]]:
        """The keys and the encoded documents, in primary key order."""
        start, stop, reverse = self.range.start, self.range.stop, self.range.reverse
        size = snapshot.page_rows if limit is None else min(limit, snapshot.page_rows)
        offset = self.offset
        tally = Tally() if self.is_whole_table and not offset else None
        while True:
            keys, bodies = snapshot.page(self.table, start, stop, reverse, size, tally, offset)
            yield keys, bodies
            if len(keys) < size or size == limit:
                return
            offset = 0
            if reverse:
                stop = keys[-1]
            else:
                start = keys[-1] + b"\x00"

    def _sort_ties(self, snapshot: Snapshot) -> Iterator[dict[str, Any]]:
        for _, equals in groupby(self.places(snapshot), key=itemgetter(0)):
            yield from sort_documents(
                [codec.decode(place.body) for place in spend_on_places(equals)], self.ties
            )

    def places(self, snapshot: Snapshot) -> Iterator[Row | Entry]:
        """The rows or index entries, in order. They are read in pages where a limit may end the reading early."""
        if self.keys is not None:
            for key in self.keys:
                if self.index is None:
                    body = snapshot.get(self.table, key)
                    if body is not None:
                        yield Row(key, body)
                else:
                    yield from snapshot.entries(self.index, key, key + b"\x00")
            return
        if self.detour is not None:
            yield from self._detour_rows(snapshot, self.detour)
            return
        limit, _ = self._rows_needed()
        if limit is None:
            yield from self._page(snapshot, self.range.start, self.range.stop, -1, self.offset)
            return
        yield from self._pages(snapshot, min(max(limit, 1), PAGE_PLACES * 16))

    def _detour_rows(self, snapshot: Snapshot, ranges: tuple[Range, ...]) -> Iterator[Row | Entry]:
        if self.index is None:
            yield from snapshot.pick(self.table, sorted({one.start for one in ranges}))
            return
        scan = self.copy_with(index=None, detour=None)
        limit, _ = self._rows_needed()
        if limit is not None and limit <= PAGE_PLACES and not all(one.is_point for one in ranges):
            # Sorting all keys of a wide range for ten documents would be slow. Where one document in ten passes, a
            # short scan is likely to find enough; where it does not, little time was lost.
            few = min(max(limit, 1) * 16, PAGE_PLACES * 8)
            first = snapshot.rows(self.table, limit=few)
            yield from first
            if len(first) < few:
                return
            scan = scan.copy_with(range=Range(first[-1].key + b"\x00"))
        keys = snapshot.candidates(self.index, [(one.start, one.stop) for one in ranges])
        keys = keys[bisect_left(keys, scan.range.start) :]
        if len(keys) > FEW_FOUND and len(keys) * 2 > snapshot.count(self.table):
            for page in scan._key_pages(snapshot, None):
                yield from map(Row, *page)
        else:
            yield from snapshot.pick(self.table, keys, index=self.index)

    def _rows_needed(self) -> tuple[int | None, bool]:
        """(how many documents the remaining steps can use, whether that many suffice). None where there is no bound."""
        skipped = 0
        is_exact = True
        for step in self.rest:
            if isinstance(step, Skip):
                skipped += step.count
            elif isinstance(step, Limit):
                return min(skipped + step.count, maxsize), is_exact
            elif isinstance(step, Nth):
                if step.place < 0:
                    return None, False
                return min(skipped + step.place - self.before_nth + 1, maxsize), is_exact
            elif isinstance(step, (Filter, HasFields)):
                is_exact = False
            elif not isinstance(step, Map) and not is_in_order(step):
                break
        return None, False

    def _page(
        self, snapshot: Snapshot, start: bytes, stop: bytes, limit: int, offset: int
    ) -> list[Row] | list[Entry]:
        reverse = self.range.reverse
        if self.index is None:
            return snapshot.rows(self.table, start, stop, reverse=reverse, limit=limit, offset=offset)
        return snapshot.entries(self.index, start, stop, reverse=reverse, limit=limit, offset=offset)

    def _pages(self, snapshot: Snapshot, first: int) -> Iterator[Row | Entry]:
        """Read in growing pages. Each page begins at the last value of the page before, because more entries with that value may
        follow; entries that were yielded before are left out."""
        start, stop, size, offset = self.range.start, self.range.stop, first, self.offset
        edge: bytes | None = None
        seen: set[tuple[Any, ...]] = set()
        while True:
            page = self._page(snapshot, start, stop, size, offset)
            for place in page:
                # Without the document: the key, or value, key and tag.
                if place[:-1] not in seen:
                    yield place
            if len(page) < size:
                return
            last = page[-1][0]
            if last != edge:
                edge = last
                seen.clear()
            seen.update(place[:-1] for place in page if place[0] == edge)
            if page[0][0] == edge:
                # A page that holds only one value must grow until it is larger than the number of entries with that value. It
                # begins where it began: the offset may be inside of the value.
                size *= 4
                continue
            size = min(size * 4, PAGE_PLACES * 16)
            offset = 0
            if self.range.reverse:
                stop = edge + b"\x00"
            else:
                start = edge


def spend_on_places(places: Iterable[Row | Entry]) -> Iterable[Row | Entry]:
    """The places; where there is a budget, each of them spends the size of its document."""
    budget = current.get()
    return places if budget is None else spend_each_place(budget, places)


def spend_each_place(budget: Budget, places: Iterable[Row | Entry]) -> Iterator[Row | Entry]:
    for place in places:
        budget.spend(len(place.body) // STEP_BYTES)
        yield place


def decode_in_batches(bodies: Sequence[bytes]) -> Iterator[dict[str, Any]]:
    """The decoded documents. They are decoded in batches small enough to be in the processor's cache when they are used."""
    spend_bytes(sum(map(len, bodies)))
    if len(bodies) <= DECODED:
        return iter(codec.decode_many(bodies))
    parts = (bodies[place : place + DECODED] for place in range(0, len(bodies), DECODED))
    return chain.from_iterable(map(codec.decode_many, parts))


def access(query: Query, table: TableInfo) -> Access:
    """Choose the access path of a query.

    Raises:
        IndexNotFound: The query names a missing index.
        QueryError: ReQL's sentence for an order or a range that contradicts an earlier one.
    """
    steps = query.steps
    last = steps[-1] if steps and isinstance(steps[-1], Aggregate) else None
    if last is not None:
        steps = steps[:-1]
        if last.index is not None:
            index_named(last.index, table)
            steps = (*steps, OrderBy((), last.index, last.kind == "max"), Limit(1))
    check_indexed_steps(steps, table)
    first = steps[0] if steps else None
    if isinstance(first, Get):
        return Access(table, None, None, Range(), steps[1:], last, "get: one key", is_point=True)
    if isinstance(first, GetAll):
        index = index_named(first.index, table)
        return Access(
            table,
            index,
            first.keys_bytes,
            Range(),
            replace_empty_orders(steps[1:], table),
            last,
            f"get_all: {len(first.keys)} keys of {format_index(index)}",
        )
    place = 0
    index = None
    span = WHOLE
    reason = "every document"
    if isinstance(first, Between):
        index = index_named(first.index, table)
        span = Range(first.start, first.stop)
        reason = f"a range of {format_index(index)}"
        place = 1
    following = steps[place] if place < len(steps) else None
    if isinstance(following, OrderBy) and (following.index is not None or not following.keys):
        wanted = index_named(following.index, table)
        if wanted is index or place == 0:
            span = Range(span.start, span.stop, following.index_descending)
            reason = f"{reason}, in order of {format_index(wanted)}"
            if following.keys and wanted is not None:
                # The step stays although it has nothing left to do: a feed finds the steps that it cannot follow there.
                rest, ties = replace_empty_orders(steps[place:], table), following.keys
                return Access(table, wanted, None, span, rest, last, reason, ties=ties)
            return Access(
                table, wanted, None, span, replace_empty_orders(steps[place + 1 :], table), last, reason
            )
    steps = replace_empty_orders(steps, table)
    if place == 0:
        best_index = index_for_filters(steps, table)
        if best_index is not None:
            index, ranges = best_index
            reason = f"{len(ranges)} ranges" if len(ranges) != 1 else "a range"
            reason = f"{reason} of {format_index(index)}, implied by the filter"
            if index is None and len(ranges) == 1:
                return Access(table, None, None, ranges[0], steps, last, reason)
            return Access(table, index, None, Range(), steps, last, reason, detour=ranges)
    return Access(table, index, None, span, steps[place:], last, reason)


def with_indexed_values(query: Query, table: TableInfo) -> Query:
    """The query, with `distinct(index=)` and `group(index=)` written as an order by the index and the indexed value.

    Raises:
        IndexNotFound, QueryError: There is no such index, or it has several values for a document to be grouped by.
    """
    for place, step in enumerate(query.steps):
        if isinstance(step, (DistinctOfIndex, GroupOfIndex)):
            index = index_named(step.index, table)
            value = row[table.primary_key] if index is None else index.expression
            before = Query(query.table, query.steps[:place]).in_index_order(OrderBy((), step.index))
            steps: tuple[Step, ...]
            if index is None or not index.multi:
                steps = (Group(value) if isinstance(step, Group) else Distinct(value),)
            elif isinstance(step, Group):
                raise QueryError(
                    f"group takes an index with one value for a document, and `{index.name}` is multi"
                )
            else:
                steps = (ConcatMap(IndexedValues(value)), Distinct(None))
            return Query(query.table, (*before.steps, *steps, *query.steps[place + 1 :]))
    return query


class IndexedValues:
    """A function that returns the values under which a document is in a multi index on an expression."""

    __slots__ = ("expression",)

    def __init__(self, expression: Expression) -> None:
        self.expression = expression

    def __call__(self, document: Any) -> list[Any]:
        value = self.expression(document)
        elements = value if isinstance(value, list) else [value]
        return [element for element in elements if collation.index_key_bytes(element) is not None]


def replace_empty_orders(steps: tuple[Step, ...], table: TableInfo) -> tuple[Step, ...]:
    """The steps, with each order that names neither keys nor an index replaced by order of the primary key."""
    if OrderBy not in map(type, steps):
        return steps
    key = OrderKey(row[table.primary_key])
    return tuple(
        OrderBy((key,), None) if isinstance(step, OrderBy) and not step.keys and step.index is None else step
        for step in steps
    )


def is_in_order(step: Step) -> bool:
    """Whether the access path already reads in the order of this step, because the step names an index."""
    return isinstance(step, OrderBy) and step.index is not None


def format_index(index: IndexInfo | None) -> str:
    return "the primary key" if index is None else f"index `{index.name}`"


def index_named(name: str | None, table: TableInfo) -> IndexInfo | None:
    return None if name is None or name == table.primary_key else find_index(name, table)


def check_indexed_steps(steps: tuple[Step, ...], table: TableInfo) -> None:
    """ReQL's rules: a range and an indexed order come first, once, and on one index."""
    between: str | None = None
    has_between = has_order = is_transformed = False
    for step in steps:
        if isinstance(step, Between):
            if has_between:
                raise QueryError("Cannot perform multiple BETWEENs on the same table.")
            if is_transformed:
                raise QueryError("Expected type TABLE_SLICE but found SELECTION.")
            has_between, between = True, step.index or table.primary_key
            index_named(step.index, table)
        elif isinstance(step, OrderBy) and step.index is not None:
            if has_order:
                raise QueryError("Cannot perform multiple indexed ORDER_BYs on the same table.")
            if is_transformed:
                raise QueryError(
                    "Indexed order_by can only be performed on a TABLE or TABLE_SLICE. Make sure order_by comes before any "
                    "transformations (such as map) or filters."
                )
            if has_between and between != step.index:
                raise QueryError(
                    f"Cannot order by index `{step.index}` after calling BETWEEN on index `{between}`."
                )
            index_named(step.index, table)
            has_order = True
        else:
            if isinstance(step, GetAll):
                index_named(step.index, table)
            is_transformed = True


def index_for_filters(
    steps: tuple[Step, ...], table: TableInfo
) -> tuple[IndexInfo | None, tuple[Range, ...]] | None:
    """An index (None: the primary key) and ranges of it that hold every document that passes the leading filters; or
    None.

    A filter that may fail with an error ends the search: it might fail on a document that the index does not contain.
    """
    best: tuple[IndexInfo | None, tuple[KeyRange, ...]] | None = None
    # The filters before this place cannot fail. This is only checked if an index could serve, because the check takes longer.
    checked = 0
    for place, step in enumerate(steps):
        if not isinstance(step, Filter):
            break
        candidates = list_index_candidates(step.predicate, table)
        if not candidates:
            continue
        if any(may_fail(one.predicate) for one in steps[checked : place + 1] if isinstance(one, Filter)):
            break
        checked = place + 1
        for index, ranges in candidates:
            most = MOST_RANGES if len(ranges) <= MOST_RANGES or cost(ranges)[0] else MOST_POINTS
            if len(ranges) <= most and (best is None or cost(ranges) < cost(best[1])):
                best = index, ranges
    if best is None:
        return None
    return best[0], tuple(Range(one.start, one.stop) for one in best[1])


def list_index_candidates(
    predicate: Predicate, table: TableInfo
) -> list[tuple[IndexInfo | None, tuple[KeyRange, ...]]]:
    """The indexes (None: the primary key) that could serve a filter, each with its ranges."""
    indexes = list(table.indexes.values())
    of_key, *others = find_ranges_of_indexes(
        predicate,
        [(row[table.primary_key], False), *[(index.expression, index.multi) for index in indexes]],
    )
    candidates: list[tuple[IndexInfo | None, tuple[KeyRange, ...]]] = []
    if of_key is not None and (len(of_key) == 1 or all(one.is_point for one in of_key)):
        candidates.append((None, of_key))
    candidates += [
        (index, ranges) for index, ranges in zip(indexes, others, strict=True) if ranges is not None
    ]
    return candidates


def cost(ranges: tuple[KeyRange, ...]) -> tuple[int, int]:
    """A rank for paths; paths that probably read fewer documents come first: points, ranges with two ends, ranges
    with one end."""
    width = max((0 if one.is_point else 1 if one.has_ends else 2 for one in ranges), default=0)
    return (width, len(ranges))


def find_table(name: TableReference, state: Snapshot | Catalogue) -> TableInfo:
    """Raises: TableNotFound."""
    table = state.table(name)
    if table is None:
        raise TableNotFound(str(name))
    return table


def find_index(name: str, table: TableInfo) -> IndexInfo:
    index = table.indexes.get(name)
    if index is None:
        raise IndexNotFound(name, table.name)
    index.check()
    return index
