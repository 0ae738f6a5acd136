"""Source: where a view's documents come from: the part of one table, or of one of its indexes, that a query begins with.

It answers the same question twice, and law 1 rests on the two answers being one: `read` says which places of a snapshot belong
to the query, `places` says which places one document has. A place is bytes; the query's order is the order of places.

    whole table, range of keys    the key
    get_all of keys               position in the list of keys
    index                         indexed value, key, number of the entry
    get_all of an index           position in the list, key, number of the entry

Rule of this file: nothing here looks past the access path; filters, maps and orders are in `pipeline`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

from reactdb.access import WHOLE, Access
from reactdb.change import Change
from reactdb.errors import MissingValue, QueryError
from reactdb.expression import (
    Expression,
    Predicate,
    as_function,
    field_path,
    implied_ranges,
    may_fail,
    route_of,
    routing_keys,
    row,
)
from reactdb.feeds.pipeline import TURNED, turned
from reactdb.feeds.position import name_of_order
from reactdb.feeds.views.base import Horizon, OneKey, OneValue, Route, Unroutable, ValueRange, WholeTable
from reactdb.query import Filter, HasFields, Limit, Step
from reactdb.store.catalogue import IndexInfo, TableInfo
from reactdb.store.snapshot import Row, Snapshot
from reactdb.store.walk import Page, Place, pages
from reactdb.values import collation

NO_PLACES: Sequence[bytes] = ()
# Bytes of a number in a place: entries of one document, or keys of one get_all.
_NUMBER_BYTES = 4
_FIRST = bytes(_NUMBER_BYTES)
# Every array's key bytes are below these.
LAST_ARRAY = collation.key_bytes([collation.maxval])


class Source:
    """See the head of this file.

    Attributes:
        table: Whose documents.
        index: That a document must be in; None for the primary key.
        needs_document: The key alone does not tell whether a document belongs here.
        is_everything: Every document of the table does.
    """

    __slots__ = (
        "_access",
        "_positions",
        "index",
        "is_everything",
        "is_reversed",
        "needs_document",
        "start",
        "stop",
        "table",
    )

    def __init__(self, access: Access) -> None:
        self.table: TableInfo = access.table
        # A detour is a shortcut of reading; the filter that it came from is still to be tested.
        self.index: IndexInfo | None = None if access.is_detour else access.index
        self.start = b"" if access.is_detour else access.range.start
        self.stop = b"\xff" if access.is_detour else access.range.stop
        self.is_reversed = access.range.reverse
        is_plain = not access.rest and access.aggregate is None
        self._access = access if is_plain else replace(access, rest=(), aggregate=None)
        self._positions: dict[bytes, list[bytes]] | None = None
        if access.keys is not None:
            self._positions = {}
            for position, key in enumerate(access.keys):
                self._positions.setdefault(key, []).append(_number(position))
        self.needs_document = self.index is not None
        self.is_everything = (
            self.index is None and self._positions is None and self.start == b"" and self.stop == b"\xff"
        )

    @property
    def keys(self) -> list[bytes] | None:
        """The different keys of a get_all; None for anything else."""
        return None if self._positions is None else list(self._positions)

    @property
    def is_empty(self) -> bool:
        """No document could ever belong here."""
        if self._positions is not None:
            return not self._positions
        return self.start >= self.stop

    # -----------------------------------------------------------------------------------------------------------
    # One document

    def places(self, key: bytes, document: Any) -> Sequence[bytes]:
        """The places of a document, in order; none for one that does not belong here. `document` may be None where
        `needs_document` is false."""
        if self.index is None:
            if self._positions is not None:
                return self._positions.get(key, NO_PLACES)
            if not self.start <= key < self.stop:
                return NO_PLACES
            return (turned(key) if self.is_reversed else key,)
        entries = self.index.entries(document)
        if not entries:
            return NO_PLACES
        if len(entries) == 1:
            value, tag = entries[0]
            return self._entry_places(value, key, tag)
        found = [place for value, tag in entries for place in self._entry_places(value, key, tag)]
        found.sort()
        return found

    def _entry_places(self, value: bytes, key: bytes, tag: int) -> Sequence[bytes]:
        if self._positions is not None:
            return [position + key + _number(tag) for position in self._positions.get(value, NO_PLACES)]
        if not self.start <= value < self.stop:
            return NO_PLACES
        place = value + key + _number(tag)
        return (turned(place) if self.is_reversed else place,)

    def known_places(self, change: Change) -> tuple[bytes | None, bytes | None] | None:
        """The place before and after the change, as the writer has found them: no document is decoded for it. None where it
        has not, or where a document may have several."""
        index, places = self.index, change.places
        if index is None or places is None or index.multi or self._positions is not None:
            return None
        values = places.get(index.id, NO_PLACES)
        if len(values) == 2:
            # As `_known_place` does it: nearly every update of a ranking comes here.
            start, stop, last = self.start, self.stop, change.key_bytes + _FIRST
            old, new = values
            place = old + last if start <= old < stop else None
            new_place = new + last if start <= new < stop else None
            if self.is_reversed:
                return place and place.translate(TURNED), new_place and new_place.translate(TURNED)
            return place, new_place
        if len(values) == 1 and change.old_bytes is None:
            return None, self._known_place(values[0], change.key_bytes)
        if len(values) == 1 and change.new_bytes is None:
            return self._known_place(values[0], change.key_bytes), None
        # The same before and after, or not in the index either before or after.
        return None

    def _known_place(self, value: bytes, key: bytes) -> bytes | None:
        if not self.start <= value < self.stop:
            return None
        place = value + key + _FIRST
        return turned(place) if self.is_reversed else place

    # -----------------------------------------------------------------------------------------------------------
    # A snapshot

    def read(self, snapshot: Snapshot, wanted: int | None = None) -> Iterator[tuple[bytes, bytes, bytes]]:
        """(place, key, encoded document) of everything that belongs here, in order.

        `wanted` is about how many will be asked for: the walk then reads that many first. None: all of them, at once.
        """
        if self._positions is not None:
            yield from self._read_keys(snapshot)
            return
        access = self._access
        if access.is_detour and not self._has_index(snapshot):
            # The shortcut was dropped since; the documents are still there.
            access = replace(access, index=None, detour=None)
        if wanted is not None:
            access = replace(access, rest=(Limit(wanted),))
        for found in access.places(snapshot):
            if self.index is None:
                yield (turned(found.key) if self.is_reversed else found.key), found.key, found.body
            else:
                assert not isinstance(found, Row)
                place = found.value + found.key + _number(found.tag)
                yield (turned(place) if self.is_reversed else place), found.key, found.body

    @property
    def order(self) -> str | None:
        """Names the order in which documents come, that of keys or of an index; None for keys as they were listed."""
        if self._positions is not None:
            return None
        index_id = None if self.index is None else self.index.id
        return name_of_order(self.table.id, index_id, is_reversed=self.is_reversed)

    @property
    def is_walked(self) -> bool:
        """Documents are found by going along the order, and not by looking for them elsewhere."""
        return self._positions is None and not self._access.is_detour

    def walk(self, snapshot: Snapshot, after: Place | None = None) -> Iterator[Page]:
        """The encoded documents of `read`, past a place, page by page where they are walked along. Only with an `order`."""
        if not self.is_walked:
            found = [row for row in self.read(snapshot) if after is None or row[1] > after]  # type: ignore[operator]
            return iter([Page([key for _, key, _ in found], [body for _, _, body in found])])
        return pages(
            snapshot, self.table, self.index, self.start, self.stop, reverse=self.is_reversed, after=after
        )

    def _has_index(self, snapshot: Snapshot) -> bool:
        table, index = snapshot.catalogue.by_id.get(self.table.id), self._access.index
        if table is None or index is None:
            return False
        known = table.indexes.get(index.name)
        return known is not None and known.id == index.id

    def _read_keys(self, snapshot: Snapshot) -> Iterator[tuple[bytes, bytes, bytes]]:
        assert self._access.keys is not None
        for number, key in enumerate(self._access.keys):
            position = _number(number)
            if self.index is None:
                body = snapshot.get(self.table, key)
                if body is not None:
                    yield position, key, body
            else:
                for entry in snapshot.entries(self.index, key, key + b"\x00"):
                    yield position + entry.key + _number(entry.tag), entry.key, entry.body

    # -----------------------------------------------------------------------------------------------------------
    # Routes

    def routes(self, steps: Sequence[Step], *, is_strict: bool = False) -> list[Route]:
        """Which changes can concern these documents, after the tests that `steps` begin with: the narrowest way to say it.

        `is_strict`: also those of documents that a test fails for, as a read would meet them.
        """
        if self.is_empty:
            return []
        table_id = self.table.id
        if self.index is None and self._positions is not None:
            return [OneKey(table_id, key) for key in self._positions]
        if self.index is not None and self._positions is not None:
            axis = IndexAxis(self.index)
            return [OneValue(table_id, axis, value) for value in self._positions]
        tested = _routes_of_tests(table_id, steps, is_strict)
        if tested is not None and (not tested or isinstance(tested[0], OneValue) or self.is_everything):
            return tested
        if self.index is not None and self.start == b"" and self.stop == b"\xff":
            # Hardly a document is not in it, and looking its value up is the view's own work: once is enough.
            return [WholeTable(table_id)]
        if self.index is not None:
            return [ValueRange(table_id, IndexAxis(self.index), self.start, self.stop)]
        if not self.is_everything:
            return [ValueRange(table_id, None, self.start, self.stop)]
        return [WholeTable(table_id)]

    def horizon(self) -> Horizon | None:
        """A route by where in the order a document is; None where that is not by a value or a key."""
        if self._positions is not None:
            return None
        axis = None if self.index is None else IndexAxis(self.index)
        return Horizon(self.table.id, axis, self.start, self.stop)

    def values_until(self, place: bytes, key: bytes) -> tuple[bytes, bytes]:
        """The range of values, or of keys, in which all places up to this one are; `key` is that of the document there."""
        last = turned(place) if self.is_reversed else place
        if self.index is not None:
            last = last[: -len(key) - _NUMBER_BYTES]
        return (last, self.stop) if self.is_reversed else (self.start, last + b"\x00")

    def describe(self) -> str:
        return self._access.reason


def _routes_of_tests(table_id: int, steps: Sequence[Step], is_strict: bool) -> list[Route] | None:
    """Routes by a field's values or range, from the filters before the first map; None where they say nothing."""
    ranged: list[Route] | None = None
    for step in steps:
        if isinstance(step, HasFields):
            continue
        if not isinstance(step, Filter) or (is_strict and may_fail(step.predicate)):
            break
        exact = _values_of(table_id, step.predicate)
        if exact is not None:
            return exact
        if ranged is None:
            ranged = _range_of(table_id, step.predicate)
    return ranged


def _values_of(table_id: int, predicate: Predicate) -> list[Route] | None:
    found = routing_keys(predicate)
    if found is None:
        return None
    path, values = found
    axis = FieldAxis(path)
    return [OneValue(table_id, axis, value) for value in values]


def _range_of(table_id: int, predicate: Predicate) -> list[Route] | None:
    if predicate.expression is None:
        return None
    for expression, start, stop in implied_ranges(predicate):
        path = field_path(expression)
        # A field of an array is an array of the fields, which no walk along the path would find.
        is_walk = path is not None and (len(path) == 1 or start > LAST_ARRAY)
        axis = FieldAxis(path) if path is not None and is_walk else ExpressionAxis(expression)
        return [ValueRange(table_id, axis, start, stop)]
    return None


@dataclass(frozen=True, slots=True)
class FieldAxis:
    """The value of a field, or of a field in a field."""

    path: tuple[str, ...]

    looks_inside: ClassVar[bool] = True

    def values(self, change: Change) -> Sequence[bytes]:
        old, new, path = change.old or change.old_val, change.new or change.new_val, self.path
        before = route_of(old, path)
        if old is not None and new is not None and len(path) == 1 and path[0] in old:
            # Often the very same object, where the one who writes has changed other fields.
            (name,) = path
            if old[name] is new.get(name):
                return () if before is None else (before,)
        after = route_of(new, path)
        if after is None and len(path) > 1:
            error = _blocked(new, path)
            if error is not None:
                raise Unroutable(() if before is None else (before,), error)
        if before is None or before == after:
            return () if after is None else (after,)
        return (before,) if after is None else (before, after)

    def __str__(self) -> str:
        return ".".join(self.path)


def _blocked(document: Any, path: tuple[str, ...]) -> QueryError | None:
    """The error of a path that leads through something other than an object; None where a field is only missing."""
    found = document
    for name in path:
        if found is None:
            return None
        if not isinstance(found, dict):
            break
        found = found.get(name)
    else:
        return None
    expression: Expression = row
    for name in path:
        expression = expression[name]
    try:
        expression(document)
    except MissingValue:
        return None
    except QueryError as error:
        return error
    return None


class ExpressionAxis:
    """The value of an expression."""

    __slots__ = ("_function", "expression")

    looks_inside = True

    def __init__(self, expression: Expression) -> None:
        self.expression = expression
        self._function = as_function(expression)

    def values(self, change: Change) -> Sequence[bytes]:
        found = []
        failed: Exception | None = None
        for document, is_new in ((change.old_val, False), (change.new_val, True)):
            if document is not None:
                try:
                    found.append(collation.key_bytes(self._function(document)))
                except MemoryError:
                    raise
                except MissingValue:
                    # A condition on what is not there is not met.
                    pass
                except Exception as error:
                    # Nor is one that cannot be computed. When the document was written, that was noted.
                    failed = error if is_new else failed
        if failed is not None:
            raise Unroutable(found, failed)
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExpressionAxis) and other.expression.key == self.expression.key

    def __hash__(self) -> int:
        return hash(self.expression.key)

    def __str__(self) -> str:
        return repr(self.expression)


class IndexAxis:
    """The places of a document in an index."""

    __slots__ = ("_id", "index")

    looks_inside = False

    def __init__(self, index: IndexInfo) -> None:
        self.index = index
        self._id = index.id

    def values(self, change: Change) -> Sequence[bytes]:
        # As the writer found them: no document is decoded for it.
        places = change.places
        found = None if places is None else places.get(self._id)
        if found is None:
            documents = (change.old_val, change.new_val)
            entries = [self.index.entries(document) for document in documents if document is not None]
            found = [value for some in entries for value, _ in some]
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IndexAxis) and other.index.id == self.index.id

    def __hash__(self) -> int:
        return hash((IndexAxis, self.index.id))

    def __str__(self) -> str:
        return f"index {self.index.name}"


@lru_cache(maxsize=16)
def _whole_table(table: TableInfo) -> Source:
    """Everything of a table: very many feeds may begin with it, and share this."""
    return Source(Access(table, None, None, WHOLE, (), None, "every document"))


def source_of(access: Access) -> Source:
    """The source of an access path."""
    is_whole = access.index is None and access.keys is None and access.range == WHOLE and not access.is_point
    return _whole_table(access.table) if is_whole and access.reason == "every document" else Source(access)


def _number(value: int) -> bytes:
    return value.to_bytes(_NUMBER_BYTES, "big")
