"""Source: the documents of a view: the part of one table, or of one of its indexes, that a query begins with.

It has two ways to the same keys: `read` returns the sort keys of all documents of a snapshot that belong to the
query, `sort_keys` returns the sort keys of one document. Because both agree, a feed's events add up to the query's
result. A sort key is bytes; the query's order is the order of sort keys.

    whole table, range of keys    the key
    get_all of keys               position in the list of keys
    index                         indexed value, key, number of the entry
    get_all of an index           position in the list, key, number of the entry

SourceView is the common part of all views over such documents.

Rule of this file: nothing here looks past the access path; filters, maps and orders are in `pipeline`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import lru_cache
from typing import Any

from reactdb.change import Change
from reactdb.documents.access_path import WHOLE, Access
from reactdb.documents.counts import EntryCount, find_count
from reactdb.documents.index_values import read_spelled_counts
from reactdb.expression import Expression
from reactdb.feeds.failures import Failures
from reactdb.feeds.pipeline import Pipeline, Sorted, invert
from reactdb.feeds.position import name_of_order
from reactdb.feeds.views.axes import IndexAxis, routes_of_tests
from reactdb.feeds.views.base import MovingRange, OneKey, OneValue, Route, ValueRange, WholeTable
from reactdb.query import Limit, Step
from reactdb.store.catalogue import IndexInfo, TableInfo
from reactdb.store.snapshot import Row, Snapshot
from reactdb.store.walk import Page, Place, pages

NO_KEYS: Sequence[bytes] = ()
# Bytes of a number in a sort key: entries of one document, or keys of one get_all.
_NUMBER_BYTES = 4
_FIRST = bytes(_NUMBER_BYTES)


class Source:
    """See the head of this file.

    Attributes:
        table: The table of the documents.
        index: The index that a document must be in; None for the primary key.
        needs_document: The key alone does not say whether a document belongs here.
        is_everything: Every document of the table belongs here.
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
        # A detour only makes reading quicker: the filter that it was derived from is tested all the same.
        self.index: IndexInfo | None = None if access.is_detour else access.index
        self.start = b"" if access.is_detour else access.range.start
        self.stop = b"\xff" if access.is_detour else access.range.stop
        self.is_reversed = access.range.reverse
        is_plain = not access.rest and access.aggregate is None
        self._access = access if is_plain else access.copy_with(rest=(), aggregate=None)
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

    def sort_keys(self, key: bytes, document: Any) -> Sequence[bytes]:
        """The sort keys of a document, in order; none for a document that does not belong here. `document` may be
        None where `needs_document` is false."""
        positions = self._positions
        if self.index is None:
            if positions is not None:
                return positions.get(key, NO_KEYS)
            if not self.start <= key < self.stop:
                return NO_KEYS
            return (invert(key) if self.is_reversed else key,)
        entries = self.index.entries(document)
        if positions is not None:
            keys = [
                position + key + _number(tag)
                for value, tag in entries
                for position in positions.get(value, NO_KEYS)
            ]
        else:
            inside = [self._inside(value, value + key + _number(tag)) for value, tag in entries]
            keys = [sort_key for sort_key in inside if sort_key is not None]
        keys.sort()
        return keys

    def _inside(self, value: bytes, sort_key: bytes) -> bytes | None:
        """The sort key in the direction of the order; None for a value outside of the range."""
        if not self.start <= value < self.stop:
            return None
        return invert(sort_key) if self.is_reversed else sort_key

    def known_sort_keys(self, change: Change) -> tuple[bytes | None, bytes | None] | None:
        """The sort key before and after the change, from the index values that the writer has found: no document is decoded for
        it. None where the writer has found none, or where a document may have several."""
        index, known = self.index, change.places
        if index is None or known is None or index.multi or self._positions is not None:
            return None
        values = known.get(index.id, NO_KEYS)
        old: bytes | None
        new: bytes | None
        if len(values) == 2:
            old, new = values
        elif len(values) == 1 and change.old_bytes is None:
            old, new = None, values[0]
        elif len(values) == 1 and change.new_bytes is None:
            old, new = values[0], None
        else:
            # The same before and after, or not in the index either before or after.
            return None
        rest = change.key_bytes + _FIRST
        return (
            None if old is None else self._inside(old, old + rest),
            None if new is None else self._inside(new, new + rest),
        )

    # -----------------------------------------------------------------------------------------------------------
    # A snapshot

    def read(self, snapshot: Snapshot, wanted: int | None = None) -> Iterator[tuple[bytes, bytes, bytes]]:
        """(sort key, key, encoded document) of all that belongs here, in order.

        `wanted` is about how many documents the caller will use, and that number is read first. None: all of them, page by
        page: a list of them all would cost the garbage collector, and so every thread, a tenth of a second.
        """
        if self._positions is not None:
            yield from self._read_keys(snapshot)
            return
        if wanted is None and self.is_walked:
            # The statement must be at its end when this is.
            with closing(self.walk(snapshot)) as walked:  # type: ignore[type-var]
                for page in walked:
                    for place, body in zip(page.places, page.bodies, strict=True):
                        yield self.sort_key_of(place), place if isinstance(place, bytes) else place[1], body
            return
        access = self._access
        table = snapshot.catalogue.by_id.get(self.table.id)
        if access.is_detour and access.index is not None and not (table and _has_index(table, access.index)):
            # The index was dropped in between; the documents are found without it.
            access = access.copy_with(index=None, detour=None)
        if wanted is not None:
            access = access.copy_with(rest=(Limit(wanted),))
        for row in access.places(snapshot):
            place = row.key if isinstance(row, Row) else row[:3]
            yield self.sort_key_of(place), row.key, row.body

    def find_count(self, table: TableInfo, steps: Sequence[Step]) -> EntryCount | None:
        """The count of the documents of this source that pass the steps; None if they have to be read.

        Args:
            table: The table with its present indexes.
        """
        access = self._access
        if not access.is_detour and access.index is not None and not _has_index(table, access.index):
            return None
        return find_count(access.copy_with(table=table), steps)

    def read_values(self, snapshot: Snapshot, expression: Any) -> list[tuple[bytes, Any, int]] | None:
        """(key bytes, value, number of documents) of each value of an expression among the documents of this source, from the
        entries of its index; None if they do not have it."""
        index, table = self.index, snapshot.catalogue.by_id.get(self.table.id)
        if index is None or table is None or self._positions is not None or not _has_index(table, index):
            return None
        if not isinstance(expression, Expression) or expression.key != index.expression.key:
            return None
        return read_spelled_counts(index, self.start, self.stop, snapshot)

    @property
    def order(self) -> str | None:
        """The name of the order of documents, by keys or by an index; None for keys in the order of a list."""
        if self._positions is not None:
            return None
        index_id = None if self.index is None else self.index.id
        return name_of_order(self.table.id, index_id, is_reversed=self.is_reversed)

    @property
    def is_walked(self) -> bool:
        """Whether documents are read in their order, page by page, instead of being looked up."""
        return self._positions is None and not self._access.is_detour

    def walk(self, snapshot: Snapshot, after: Place | None = None) -> Iterator[Page]:
        """The encoded documents of `read` past a place, page by page if they are walked. Only with an `order`."""
        if not self.is_walked:
            rows = [row for row in self.read(snapshot) if after is None or row[1] > after]  # type: ignore[operator]
            return iter([Page([key for _, key, _ in rows], [body for _, _, body in rows])])
        return pages(
            snapshot, self.table, self.index, self.start, self.stop, reverse=self.is_reversed, after=after
        )

    def sort_key_of(self, place: Place) -> bytes:
        """The sort key of a document that was walked to."""
        sort_key = place if isinstance(place, bytes) else place[0] + place[1] + _number(place[2])
        return invert(sort_key) if self.is_reversed else sort_key

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
        """The narrowest routes on which a change can concern these documents, given the tests at the beginning of
        `steps`.

        `is_strict`: also changes of documents that a test fails for, because a read would fail for them too.
        """
        if self.is_empty:
            return []
        table_id = self.table.id
        if self.index is None and self._positions is not None:
            return [OneKey(table_id, key) for key in self._positions]
        if self.index is not None and self._positions is not None:
            axis = IndexAxis(self.index)
            return [OneValue(table_id, axis, value) for value in self._positions]
        tested = routes_of_tests(table_id, steps, is_strict)
        if tested is not None and (not tested or isinstance(tested[0], OneValue) or self.is_everything):
            return tested
        if self.index is not None and self.start == b"" and self.stop == b"\xff":
            # Nearly every document is in the index, and the view looks its value up itself: once is enough.
            return [WholeTable(table_id)]
        if self.index is not None:
            return [ValueRange(table_id, IndexAxis(self.index), self.start, self.stop)]
        if not self.is_everything:
            return [ValueRange(table_id, None, self.start, self.stop)]
        return [WholeTable(table_id)]

    def moving_range(self) -> MovingRange | None:
        """A route by the sort position of a document; None if the order is neither by a value nor by a key."""
        if self._positions is not None:
            return None
        axis = None if self.index is None else IndexAxis(self.index)
        return MovingRange(self.table.id, axis, self.start, self.stop)

    def values_until(self, sort_key: bytes, key: bytes) -> tuple[bytes, bytes]:
        """The range of values, or of keys, whose sort keys are all up to this one; `key` is the key of its
        document."""
        last = invert(sort_key) if self.is_reversed else sort_key
        if self.index is not None:
            last = last[: -len(key) - _NUMBER_BYTES]
        return (last, self.stop) if self.is_reversed else (self.start, last + b"\x00")

    def describe(self) -> str:
        return self._access.reason


class KeySource:
    """The document of one key. Very many keys may have a feed each, so this holds no more than it needs."""

    __slots__ = ("key", "table")

    index = None
    is_everything = False
    needs_document = False

    def __init__(self, table: TableInfo, key: bytes) -> None:
        self.table = table
        self.key = key

    def sort_keys(self, key: bytes, document: Any) -> Sequence[bytes]:
        return (key,) if key == self.key else NO_KEYS

    def routes(self, steps: Sequence[Step], *, is_strict: bool = False) -> list[Route]:
        return [OneKey(self.table.id, self.key)]

    def describe(self) -> str:
        return "get: one key"


class SourceView:
    """The common part of all views that apply filters and maps to the documents of one source."""

    __slots__ = ("failures", "pipeline", "source")

    source: Source | KeySource

    def __init__(self, source: Source | KeySource, pipeline: Pipeline, failures: Failures) -> None:
        self.source = source
        self.pipeline = pipeline
        self.failures = failures

    def tables(self) -> Sequence[TableInfo]:
        return (self.source.table,)

    def indexes(self) -> Sequence[tuple[int, str]]:
        index = self.source.index
        return () if index is None else ((self.source.table.id, index.name),)

    def routes(self) -> Sequence[Route]:
        return self.source.routes(self.pipeline.steps, is_strict=self.failures.raises)

    def describe(self) -> dict[str, Any]:
        index = self.source.index
        return {"access": self.source.describe(), "index": None if index is None else index.name}

    def results(self, change: Change, *, is_new: bool) -> Sequence[Sorted]:
        """(value, sort key) of each result of the document before or after the change. Documents that cannot be
        computed have none; only the document that the change writes is noted as a failure."""
        if (change.new_bytes if is_new else change.old_bytes) is None:
            return ()
        document, failures = (change.new_val, self.failures) if is_new else (change.old_val, None)
        key, attempt = change.key_bytes, self.pipeline.attempt
        pairs = []
        for sort_key in self.source.sort_keys(key, document):
            result = attempt(document, sort_key, failures, key, change.seq)
            if result is not None:
                pairs.append(result)
        return pairs


def _has_index(table: TableInfo, index: IndexInfo) -> bool:
    known = table.indexes.get(index.name)
    return known is not None and known.id == index.id


@lru_cache(maxsize=16)
def _whole_table(table: TableInfo) -> Source:
    """The source of a whole table. Very many feeds may have it, and share one object."""
    return Source(Access(table, None, None, WHOLE, (), None, "every document"))


def source_of(access: Access) -> Source:
    """The source of an access path."""
    is_whole = access.reason == "every document" and access.index is None and access.range == WHOLE
    return _whole_table(access.table) if is_whole else Source(access)


def _number(value: int) -> bytes:
    return value.to_bytes(_NUMBER_BYTES, "big")
