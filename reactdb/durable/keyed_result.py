"""Keyed results: the result of a selection as documents by key, so that a table can hold it, and the effect of changes on
them.

    KeyedRows      a document for each of the source, by its primary key: tables, ranges, filters, maps
    KeyedValues    a document for each value: of a group, of distinct, or of an aggregate without groups
    KeyedList      the first of an order, and the least and the greatest: a short list, compared as a whole

A document of a row or of a list is the selection's result for it, with the primary key added where the selection
leaves it out. A value that is no document is put into the field `value`. A group is {"id": group, "sum": 30}, by the
name of the aggregate, or {"id": group, "games": 3, "points": 30}, by the names of several; without groups the `id` is
"all". A group that cannot be a primary key (null, an object; bytes, too) is in the field `group`, and a digest of it is
the `id`.

Rule of this file: it is as pure as the views below it. Its results are encoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2s
from itertools import islice
from typing import Any, Final, Protocol

from reactdb.change import Change
from reactdb.errors import InvalidKey, UnsupportedFeed
from reactdb.feeds.compiler import Plan
from reactdb.feeds.log_reader import LogReader
from reactdb.feeds.views.aggregate import AggregateView, GroupView
from reactdb.feeds.views.base import AnyDelta, Delta
from reactdb.feeds.views.distinct import DistinctView
from reactdb.feeds.views.group_list import GroupListView
from reactdb.feeds.views.select import PairingView, PointView, SelectView
from reactdb.feeds.views.source import KeySource, Source
from reactdb.feeds.views.window import WindowView
from reactdb.query import Aggregate, Aggregates, Group, Query
from reactdb.session import PastSession
from reactdb.store.walk import pages
from reactdb.values import codec, collation

Keyed = tuple[bytes, bytes | None]
"""Key bytes, and the encoded document; None: there is none any more."""

# Documents that are given together.
STEP = 1_000
# The `id` of the one document of an aggregate without groups.
ALL: Final = "all"

UNION = (
    "a union may have several documents of one key, and a table has one: materialize each part into a table of its own, or "
    "group or aggregate the union"
)
ON_GROUPS = "each group is kept as one document: filter, order and cut the table of groups, and materialize group and aggregate"
NO_AGGREGATE = (
    "a group is kept as one document, so an aggregate has to follow it: count, sum, avg, min or max"
)


class Shape(Protocol):
    """The form of a view's result in a table.

    Attributes:
        primary_key: Of the table.
    """

    primary_key: str

    def initial(self, reader: LogReader, past: PastSession) -> Iterator[Sequence[Keyed]]:
        """The whole result, a part at a time, as of the seq of both; the reader's view is seeded with it."""

    def compute_writes(self, deltas: Sequence[AnyDelta]) -> Iterable[Keyed]:
        """The writes after the view has advanced by these deltas; of a repeated key, the last counts."""

    def note_seeded(self) -> None:
        """The view was seeded by itself, and its result is in the table already."""


def shape_of(query: Query, plan: Plan) -> Shape:
    """The shape of a query's result.

    Raises:
        UnsupportedFeed: It has no key to be kept by.
    """
    view = plan.view
    last = query.steps[-1] if query.steps else None
    if isinstance(view, PairingView):
        return KeyedRows(view)
    if isinstance(view, WindowView):
        return KeyedList(view, last.kind if isinstance(last, Aggregate) else None)
    if isinstance(view, GroupView) and isinstance(last, Group):
        raise UnsupportedFeed(NO_AGGREGATE)
    if isinstance(view, GroupListView):
        raise UnsupportedFeed(ON_GROUPS)
    taken = {name for name, _ in last.parts} & {"id", "group"} if isinstance(last, Aggregates) else set()
    if taken:
        raise UnsupportedFeed(f"the field `{min(taken)}` names the group: give the aggregate another name")
    if isinstance(view, (AggregateView, GroupView, DistinctView)):
        return KeyedValues(view, last.kind if isinstance(last, Aggregate) else None)
    raise UnsupportedFeed(UNION)


# ---------------------------------------------------------------------------------------------------------------
# The documents


def row_of(primary_key: str, key: bytes, value: Any) -> bytes:
    """The selection's result for a document, as a document of the same key."""
    if not isinstance(value, dict):
        return codec.encode({primary_key: collation.key_value(key), _free_name(primary_key): value})
    if primary_key not in value:
        return codec.encode({primary_key: collation.key_value(key), **value})
    if collation.key_bytes(value[primary_key]) != key:
        return codec.encode({**value, primary_key: collation.key_value(key)})
    return codec.encode(dict(value))


def _free_name(primary_key: str) -> str:
    return "value" if primary_key != "value" else "result"


def value_of(value: Any, field: str, fields: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
    """The key and the document of a group or a distinct value. `field`: where a value goes that cannot be a key."""
    try:
        if not isinstance(value, bytes):
            return collation.primary_key_bytes(value), {"id": value, **fields}
    except InvalidKey:
        pass
    # Bytes, too: one group must not have the digest of another as its own key.
    digest = blake2s(collation.key_bytes(value), digest_size=32).digest()
    return collation.key_bytes(digest), {"id": digest, field: value, **fields}


# ---------------------------------------------------------------------------------------------------------------
# The shapes


class KeyedRows:
    """One document for each of the source. A document that the selection has several times counts once."""

    def __init__(self, view: PairingView) -> None:
        self._view = view
        self.primary_key = view.source.table.primary_key

    def note_seeded(self) -> None:
        """There is no state."""

    def initial(self, reader: LogReader, past: PastSession) -> Iterator[Sequence[Keyed]]:
        source = self._view.source
        if isinstance(self._view, SelectView) and isinstance(source, Source):
            if source.index is None and source.keys is None:
                # Also where an index would lead to few of them: the index could lead to many.
                yield from self._walk(source, past)
            else:
                with past.read() as snapshot:
                    rows = [(key, body) for _, key, body in source.read(snapshot)]
                yield from _split(self._rows(rows))
        elif isinstance(self._view, PointView) and isinstance(source, KeySource):
            with past.read() as snapshot:
                body = snapshot.get(source.table, source.key)
            yield list(self._rows([] if body is None else [(source.key, body)]))

    def _walk(self, source: Source, past: PastSession) -> Iterator[Sequence[Keyed]]:
        """In the order of keys, with a snapshot for each part: writes of the meantime are reverted in each."""
        after: Any = None
        while True:
            with past.read() as snapshot:
                walk = pages(
                    snapshot,
                    source.table,
                    None,
                    source.start,
                    source.stop,
                    reverse=source.is_reversed,
                    after=after,
                )
                page = next(walk, None)
                walk.close()  # type: ignore[attr-defined]
            if page is None:
                return
            after = page.places[-1]
            yield list(self._rows(zip(page.places, page.bodies, strict=True)))  # type: ignore[arg-type]

    def _rows(self, documents: Iterable[tuple[bytes, bytes]]) -> Iterator[Keyed]:
        view = self._view
        if view.pipeline.is_identity:
            yield from documents
            return
        for key, body in documents:
            result = view.pipeline.attempt(codec.decode_frozen(body), key, view.failures, key, key)
            if result is not None:
                yield key, row_of(self.primary_key, key, result[0])

    def compute_writes(self, deltas: Sequence[AnyDelta]) -> Iterator[Keyed]:
        for delta in deltas:
            if isinstance(delta, Change):
                yield delta.key_bytes, delta.new_bytes
            elif delta.identity is None:
                # Others are about further copies of the same.
                key, value = delta.change.key_bytes, delta.new_val
                yield key, None if value is None else row_of(self.primary_key, key, value)


class KeyedValues:
    """One document for each group, or each distinct value; or one in all."""

    primary_key = "id"

    def __init__(self, view: AggregateView | GroupView | DistinctView, kind: str | None) -> None:
        self._view = view
        self._kind = kind
        self._is_grouped = isinstance(view, GroupView)

    def note_seeded(self) -> None:
        """All state is the view's."""

    def initial(self, reader: LogReader, past: PastSession) -> Iterator[Sequence[Keyed]]:
        with past.engine.fresh_snapshot() as snapshot:
            reader.seed(snapshot)
            results = list(self._view.result(snapshot))
        documents = (self._key_value(one.value, one.value, one.group) for one in results)
        yield from _split(one for one in documents if one[1] is not None)

    def compute_writes(self, deltas: Sequence[AnyDelta]) -> Iterator[Keyed]:
        for delta in deltas:
            assert isinstance(delta, Delta)
            known = delta.old_val if delta.new_val is None else delta.new_val
            yield self._key_value(delta.new_val, known, delta.group)

    def _key_value(self, value: Any, known: Any, group: Sequence[Any] | None) -> Keyed:
        """`known`: the value before, where there is none any more."""
        if self._kind is None:
            key, document = value_of(known, "value", {})
        elif self._is_grouped:
            assert group is not None
            key, document = value_of(group[0], "group", self._fields_of(value))
        else:
            key, document = value_of(ALL, "group", self._fields_of(value))
        return key, None if value is None else codec.encode(document)

    def _fields_of(self, value: Any) -> dict[str, Any]:
        """The fields that an aggregate is kept in: of several aggregates, each in the field of its name."""
        assert self._kind is not None
        return dict(value or {}) if self._kind == "aggregate" else {self._kind: value}


class KeyedList:
    """A short list, held by the view: compared with its former state."""

    def __init__(self, view: WindowView, kind: str | None) -> None:
        """`kind`: "min" or "max", for the one document of that; None for the first of an order."""
        self._view = view
        self._kind = kind
        self.primary_key = view.source.table.primary_key if kind is None else "id"
        self._before: dict[bytes, bytes] = {}

    def note_seeded(self) -> None:
        self._before = self._present()

    def initial(self, reader: LogReader, past: PastSession) -> Iterator[Sequence[Keyed]]:
        with past.engine.fresh_snapshot() as snapshot:
            reader.seed(snapshot)
        self.note_seeded()
        yield from _split(self._before.items())

    def compute_writes(self, deltas: Sequence[AnyDelta]) -> Iterator[Keyed]:
        if not deltas:
            return
        before, self._before = self._before, self._present()
        for key in before.keys() - self._before.keys():
            yield key, None
        for key, body in self._before.items():
            if before.get(key) != body:
                yield key, body

    def _present(self) -> dict[bytes, bytes]:
        items = self._view.items()
        if self._kind is not None:
            documents = (value_of(ALL, "group", {self._kind: item.value}) for item in items)
            return {key: codec.encode(document) for key, document in documents}
        return {
            item.identity[0]: row_of(self.primary_key, item.identity[0], item.value)  # type: ignore[index]
            for item in items
        }


def _split(documents: Iterable[Keyed]) -> Iterator[Sequence[Keyed]]:
    rest = iter(documents)
    while chunk := list(islice(rest, STEP)):
        yield chunk
