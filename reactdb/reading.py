"""Reading: what a query gives, from one snapshot.

A query is read in two parts. The access path is how documents leave the file: by keys, by a range of keys or of an index, in
index order. The other steps are ordinary list work on decoded documents. `access` chooses the path and says what is left.

Rule of this file: a better access path changes the cost of an answer, never the answer (law 6). It reads through `Snapshot`
and knows neither SQL nor feeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from reactdb import codec, collation
from reactdb.errors import IndexNotFound, MissingValue, QueryError, TableNotFound, UsageError
from reactdb.expression import as_function, implied_ranges, sort_documents
from reactdb.query import (
    Aggregate,
    Between,
    ConcatMap,
    Distinct,
    Filter,
    Get,
    GetAll,
    Group,
    HasFields,
    Limit,
    Map,
    OrderBy,
    Query,
    Skip,
    Step,
    Union,
)
from reactdb.store.catalogue import IndexInfo, TableInfo
from reactdb.store.snapshot import Entry, Row, Snapshot

# Index places that are read at a time while a limit waits for enough documents that pass its filters.
PAGE_PLACES = 512


def run(query: Query, snapshot: Snapshot) -> Any:
    """The query's answer: a document or None for a point query, a value for an aggregate, a list for a sequence.

    Raises:
        TableNotFound, IndexNotFound, QueryError: As the query deserves.
    """
    table = find_table(query.table, snapshot)
    path = access(query, table)
    if path.is_point:
        get = query.steps[0]
        assert isinstance(get, Get)
        body = snapshot.get(table, get.key_bytes)
        return apply_to_one(None if body is None else codec.decode(body), query.steps[1:])
    if (
        not path.rest
        and path.is_whole_table
        and isinstance(path.aggregate, Aggregate)
        and path.aggregate.kind == "count"
    ):
        return snapshot.count(table)
    documents: Any = path.documents(snapshot)
    for step in path.rest:
        documents = apply(step, documents, snapshot)
    if path.aggregate is not None:
        return aggregate(path.aggregate, documents)
    return grouped(documents) if isinstance(documents, dict) else list(documents)


def find_table(name: str, snapshot: Snapshot) -> TableInfo:
    table = snapshot.table(name)
    if table is None:
        raise TableNotFound(name)
    return table


def find_index(name: str, table: TableInfo) -> IndexInfo:
    index = table.indexes.get(name)
    if index is None:
        raise IndexNotFound(name, table.name)
    return index


# ---------------------------------------------------------------------------------------------------------------
# Access paths


@dataclass(frozen=True, slots=True)
class Range:
    """Where an access path begins and ends, in key bytes: start <= bytes < stop; and its direction."""

    start: bytes = b""
    stop: bytes = b"\xff"
    reverse: bool = False


@dataclass(frozen=True, slots=True)
class Access:
    """How documents leave the file, and the steps that are left to do.

    Attributes:
        index: The index that is walked; None for the primary key.
        keys: For `get_all`: the keys' bytes, in the order asked for, repeated as asked for.
        range: For everything else.
        rest: The steps after.
        aggregate: The last step, where it makes one value of all.
        reason: In words, for `explain()`.
        is_point: One key of the primary key.
        is_detour: The index is only a shortcut: documents come out in primary key order all the same.
    """

    table: TableInfo
    index: IndexInfo | None
    keys: tuple[bytes, ...] | None
    range: Range
    rest: tuple[Step, ...]
    aggregate: Aggregate | None
    reason: str
    is_point: bool = False
    is_detour: bool = False

    @property
    def is_whole_table(self) -> bool:
        return (
            self.index is None
            and self.keys is None
            and self.range.start == b""
            and self.range.stop == b"\xff"
        )

    def documents(self, snapshot: Snapshot) -> Iterator[dict[str, Any]]:
        """The documents, decoded one by one as they are asked for."""
        for place in self.places(snapshot):
            yield codec.decode(place.body)

    def places(self, snapshot: Snapshot) -> Iterator[Row | Entry]:
        """The places in the file, in order. Read in pages where a limit may end the walk early."""
        if self.keys is not None:
            for key in self.keys:
                if self.index is None:
                    body = snapshot.get(self.table, key)
                    if body is not None:
                        yield Row(key, body)
                else:
                    yield from snapshot.entries(self.index, key, key + b"\x00")
            return
        if self.is_detour:
            places: list[Row | Entry] = [*self._page(snapshot, self.range.start, self.range.stop, -1)]
            yield from sorted(places, key=lambda place: place.key)
            return
        limit = self._rows_needed()
        if limit is None or limit > PAGE_PLACES * 8:
            yield from self._page(snapshot, self.range.start, self.range.stop, -1)
            return
        yield from self._pages(snapshot, max(limit, 1))

    def _rows_needed(self) -> int | None:
        """How many documents the steps after can use at most, or None where nothing bounds it."""
        skipped = 0
        for step in self.rest:
            if isinstance(step, Skip):
                skipped += step.count
            elif isinstance(step, Limit):
                return skipped + step.count
            elif not isinstance(step, (Filter, HasFields, Map)):
                return None
        return None

    def _page(self, snapshot: Snapshot, start: bytes, stop: bytes, limit: int) -> list[Row] | list[Entry]:
        if self.index is None:
            return snapshot.rows(self.table, start, stop, reverse=self.range.reverse, limit=limit)
        return snapshot.entries(self.index, start, stop, reverse=self.range.reverse, limit=limit)

    def _pages(self, snapshot: Snapshot, first: int) -> Iterator[Row | Entry]:
        """The walk in growing pages. A page that ends among equal index values is read again from that value on."""
        start, stop, size = self.range.start, self.range.stop, first
        told: set[tuple[bytes, ...] | bytes] = set()
        while True:
            page = self._page(snapshot, start, stop, size)
            for place in page:
                name = (
                    place.key
                    if isinstance(place, Row)
                    else (place.value, place.key, bytes(str(place.tag), "ascii"))
                )
                if name not in told:
                    told.add(name)
                    yield place
            if len(page) < size:
                return
            last = page[-1]
            edge = last.key if isinstance(last, Row) else last.value
            if self.range.reverse:
                stop = edge + b"\x00"
            else:
                start = edge
            size = min(size * 4, PAGE_PLACES * 16) if page[0] is not last else size * 4


def access(query: Query, table: TableInfo) -> Access:
    """Choose the access path of a query.

    Raises:
        IndexNotFound: The query names an index that is not there.
        QueryError: ReQL's sentence for an order or a range that contradicts an earlier one.
    """
    steps = query.steps
    last = steps[-1] if steps and isinstance(steps[-1], Aggregate) else None
    if last is not None:
        steps = steps[:-1]
        if last.index is not None:
            find_index_or_primary(last.index, table)
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
            steps[1:],
            last,
            f"get_all: {len(first.keys)} keys of {shown(index)}",
        )
    place = 0
    index = None
    span = Range()
    reason = "every document"
    if isinstance(first, Between):
        index = index_named(first.index, table)
        span = Range(first.start, first.stop)
        reason = f"a range of {shown(index)}"
        place = 1
    following = steps[place] if place < len(steps) else None
    if (
        isinstance(following, OrderBy)
        and not following.keys
        and (following.index is not None or first is None or place)
    ):
        name = following.index
        if name is None or name == table.primary_key:
            wanted, is_usable = None, index is None
        else:
            wanted = find_index(name, table)
            is_usable = place == 0 or index is wanted
        if is_usable:
            span = Range(span.start, span.stop, following.index_descending)
            return Access(
                table, wanted, None, span, steps[place + 1 :], last, f"{reason}, in order of {shown(wanted)}"
            )
    if place == 0:
        found = index_for_filters(steps, table)
        if found is not None:
            index, span = found
            # The filters stay: the range only shrinks what they are asked about. Key order is restored, because an
            # answer must not depend on which indexes there are.
            reason = f"a range of {shown(index)}, implied by the filter"
            return Access(table, index, None, span, steps, last, reason, is_detour=True)
    return Access(table, index, None, span, steps[place:], last, reason)


def shown(index: IndexInfo | None) -> str:
    return "the primary key" if index is None else f"index `{index.name}`"


def index_named(name: str | None, table: TableInfo) -> IndexInfo | None:
    return None if name is None or name == table.primary_key else find_index(name, table)


def find_index_or_primary(name: str, table: TableInfo) -> IndexInfo | None:
    return index_named(name, table)


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


def index_for_filters(steps: tuple[Step, ...], table: TableInfo) -> tuple[IndexInfo, Range] | None:
    """An index range that holds every document that the leading filters let pass, or None."""
    for step in steps:
        if not isinstance(step, Filter):
            return None
        expression = step.predicate.expression
        if expression is None or step.predicate.default is not False:
            continue
        for path, start, stop in implied_ranges(expression):
            for index in table.indexes.values():
                if not index.multi and index.expression.key == path.key:
                    return index, Range(start, stop)
    return None


# ---------------------------------------------------------------------------------------------------------------
# The other steps


def apply(step: Step, documents: Iterable[Any], snapshot: Snapshot) -> Any:
    """One step of list work. `documents` may be a dict of groups, and then so is what comes out."""
    if isinstance(documents, dict):
        return {key: (group, list(apply(step, found, snapshot))) for key, (group, found) in documents.items()}
    if isinstance(step, (Filter, HasFields)):
        return filter(step.predicate.test, documents)
    if isinstance(step, Map):
        return map(as_function(step.function), documents)
    if isinstance(step, Limit):
        return islice(documents, step.count)
    if isinstance(step, Skip):
        return islice(documents, step.count, None)
    if isinstance(step, OrderBy):
        return ordered(list(documents), step, snapshot)
    if isinstance(step, ConcatMap):
        function = as_function(step.function)
        return (element for document in documents for element in elements(function(document)))
    if isinstance(step, Union):
        return chain_queries(documents, step, snapshot)
    if isinstance(step, Distinct):
        return distinct(documents, step)
    if isinstance(step, Group):
        return group(documents, step)
    if isinstance(step, Between):
        raise QueryError("Expected type TABLE_SLICE but found SEQUENCE.")
    raise UsageError(f"`{type(step).__name__.lower()}` cannot stand here in a query")


def apply_to_one(document: Any, steps: tuple[Step, ...]) -> Any:
    """The steps after `get(key)`: a filter turns a document into None, a map maps it; None stays None."""
    for step in steps:
        if document is None:
            return None
        if isinstance(step, (Filter, HasFields)):
            document = document if step.predicate.test(document) else None
        elif isinstance(step, Map):
            document = as_function(step.function)(document)
        else:
            raise QueryError("Expected type SEQUENCE but found SINGLE_SELECTION.")
    return document


def elements(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise QueryError(f"Cannot convert {collation.type_name(value)} to SEQUENCE")
    return value


def chain_queries(documents: Iterable[Any], step: Union, snapshot: Snapshot) -> Iterator[Any]:
    yield from documents
    for other in step.others:
        yield from run(other, snapshot)


def ordered(documents: list[Any], step: OrderBy, snapshot: Snapshot) -> list[Any]:
    """Sorted by the step's keys; equal ones stay in the order in which they came (by primary key, from a table)."""
    if not step.keys:
        return documents
    return sort_documents(documents, step.keys)


def distinct(documents: Iterable[Any], step: Distinct) -> list[Any]:
    function = None if step.expression is None else as_function(step.expression)
    found: dict[bytes, Any] = {}
    for document in documents:
        try:
            value = document if function is None else function(document)
        except MissingValue:
            continue
        found.setdefault(collation.key_bytes(value), value)
    return [found[key] for key in sorted(found)]


def group(documents: Iterable[Any], step: Group) -> dict[bytes, tuple[Any, list[Any]]]:
    """Key bytes of the group -> (the group, its documents), in the collation's order. A missing value groups as None."""
    function = as_function(step.expression)
    found: dict[bytes, tuple[Any, list[Any]]] = {}
    for document in documents:
        try:
            value = function(document)
        except MissingValue:
            value = None
        found.setdefault(collation.key_bytes(value), (value, []))[1].append(document)
    return {key: found[key] for key in sorted(found)}


def grouped(groups: dict[bytes, tuple[Any, Any]]) -> list[dict[str, Any]]:
    return [{"group": value, "reduction": reduction} for value, reduction in groups.values()]


def aggregate(step: Aggregate, documents: Any) -> Any:
    """One value from all; from groups, a list of `{"group", "reduction"}`.

    sum of nothing is 0; avg, min and max of nothing give None (ReQL raises; a live view needs a value for an empty table).
    A document where the field is missing, or null for sum and avg, does not take part.
    """
    if isinstance(documents, dict):
        return [{"group": value, "reduction": aggregate(step, found)} for value, found in documents.values()]
    if step.kind == "count":
        return sum(1 for _ in documents)
    if step.kind in ("min", "max"):
        return extreme(step, documents)
    function = (lambda value: value) if step.expression is None else as_function(step.expression)
    total: Any = 0
    count = 0
    for document in documents:
        try:
            value = function(document)
        except MissingValue:
            continue
        if isinstance(value, bool) or collation.type_name(value) != "NUMBER":
            raise QueryError(f"Expected type NUMBER but found {collation.type_name(value)}.")
        total = total + value
        count += 1
    if step.kind == "sum":
        return total
    return total / count if count else None


def extreme(step: Aggregate, documents: Iterable[Any]) -> Any:
    best: Any = None
    best_place: bytes | None = None
    function = (lambda value: value) if step.expression is None else as_function(step.expression)
    for document in documents:
        try:
            place = collation.key_bytes(function(document))
        except MissingValue:
            continue
        if best_place is None or (place < best_place if step.kind == "min" else place > best_place):
            best, best_place = document, place
    return best
