"""SelectView: a table, or a part of it, through filters and maps. PointView: one document. AllTablesView: every table
as it is.

A document counts as often as it has sort keys in the source: `get_all(k, k)` has it twice, a multi index once an
entry. Its results before and after a change are paired: a pair is a change, an unpaired result was added or removed.

Rule of this file: no state. Both documents are in the change; held documents would only be copies.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from operator import itemgetter
from typing import Any

from reactdb.budget import sort_with_budget
from reactdb.change import (
    CAME_WITH_NAME,
    CATALOGUE,
    GONE_WITH_TABLE,
    TABLE_DROP,
    TABLE_RENAME,
    Change,
)
from reactdb.documents.counts import EntryCount
from reactdb.feeds.failures import Failures
from reactdb.feeds.pipeline import Pipeline, Sorted, same_value
from reactdb.feeds.views.base import AnyDelta, Delta, Everywhere, Initial, Route, StateReader
from reactdb.feeds.views.source import KeySource, Source, SourceView
from reactdb.store.catalogue import TableInfo
from reactdb.store.log import is_shown
from reactdb.store.snapshot import Snapshot
from reactdb.store.walk import Page, Place
from reactdb.values import codec


class PairingView(SourceView):
    """The common part of SelectView and PointView: the results before and after a change are paired.

    Attributes:
        is_verbatim: Every change of its table is delivered as it is.
    """

    __slots__ = ("is_verbatim",)

    is_stateful = False
    documents_held = 0

    def __init__(self, source: Source | KeySource, pipeline: Pipeline, failures: Failures) -> None:
        super().__init__(source, pipeline, failures)
        self.is_verbatim = source.is_everything and pipeline.is_identity

    def seed(self, snapshot: Snapshot) -> None:
        pass

    def advance(self, change: Change, reader: StateReader) -> Sequence[AnyDelta]:
        source, pipeline = self.source, self.pipeline
        if change.table_id != source.table.id:
            return ()
        if self.is_verbatim:
            return (change,)
        if pipeline.is_identity and not source.needs_document:
            # A key never moves. So for a document that occurs once the change itself is the delta, without decoding.
            copies = source.sort_keys(change.key_bytes, None)
            if len(copies) < 2:
                return (change,) if copies else ()
        has_old, has_new = change.old_bytes is not None, change.new_bytes is not None
        old = self.results(change, is_new=False) if has_old else ()
        new = self.results(change, is_new=True) if has_new else ()
        if not old and not new:
            return ()
        if pipeline.only_tests and len(old) == has_old and len(new) == has_new:
            # The documents are in the result as they are, and the store logs no change that changes nothing.
            return (change,)
        return self._pair_copies(change, old, new)

    def _pair_copies(self, change: Change, old: Sequence[Sorted], new: Sequence[Sorted]) -> list[AnyDelta]:
        deltas: list[AnyDelta] = []
        for copy in range(max(len(old), len(new))):
            old_val = old[copy][0] if copy < len(old) else None
            new_val = new[copy][0] if copy < len(new) else None
            if old_val is not None and new_val is not None and same_value(old_val, new_val):
                continue
            # The first copy has the document's own name, the same name as where the change is the delta.
            identity = None if copy == 0 else (change.table_id, change.key_bytes, copy)
            deltas.append(Delta(change, old_val, new_val, identity=identity))
        return deltas


class SelectView(PairingView):
    """See the head of this file. Ordered or not: without offsets, an order only says how the initial values come."""

    __slots__ = ("is_ordered",)

    source: Source
    kind = "range"

    def __init__(
        self, source: Source, pipeline: Pipeline, failures: Failures, *, is_ordered: bool = False
    ) -> None:
        """`is_ordered`: initial values are put in the order that the pipeline's order_by gives."""
        super().__init__(source, pipeline, failures)
        self.is_ordered = is_ordered

    @property
    def order(self) -> str | None:
        """The name of the order of the documents behind the result; None where the result has another order."""
        return None if self.is_ordered else self.source.order

    def values(self, page: Page) -> Iterator[tuple[Place, Any]]:
        """The part of the result that these documents are, each value with its document's place."""
        documents = zip(page.places, codec.decode_many_frozen(page.bodies), strict=True)
        if self.pipeline.is_identity:
            return documents
        results = ((place, self.pipeline(document, b"")) for place, document in documents)
        return ((place, result[0]) for place, result in results if result is not None)

    def result(self, snapshot: Snapshot) -> Iterable[Initial]:
        return self._result(list(self.source.read(snapshot)))

    def read(self, snapshot: Snapshot) -> Generator[Initial, None, None]:
        """`result` in any order, for a caller that takes it before the snapshot ends. With a walk, one page at a time
        is in memory."""
        if not self.source.is_walked:
            yield from self._result(self.source.read(snapshot))
            return
        # The statement must be at its end when this is.
        with closing(self.source.walk(snapshot)) as walked:  # type: ignore[type-var]
            for page in walked:
                documents = codec.decode_many_frozen(page.bodies)
                for place, document in zip(page.places, documents, strict=True):
                    result = self.pipeline(document, self.source.sort_key_of(place))
                    if result is not None:
                        yield Initial(result[0])

    def find_count(self, tables: Mapping[int, TableInfo]) -> EntryCount | None:
        """The count of the result; None if its documents have to be read. `tables`: the present tables, by number."""
        table = tables.get(self.source.table.id)
        return None if table is None else self.source.find_count(table, self.pipeline.steps)

    def _result(self, rows: Iterable[tuple[bytes, bytes, bytes]]) -> Iterator[Initial]:
        computed = (self.pipeline(codec.decode_frozen(body), sort_key) for sort_key, _, body in rows)
        results: Iterable[Sorted] = (result for result in computed if result is not None)
        if self.is_ordered:
            results = sort_with_budget(results, key=itemgetter(1))
        for value, _ in results:
            yield Initial(value)


class PointView(PairingView):
    """`get(key)`: its result is one value, or None."""

    __slots__ = ()

    source: KeySource
    kind = "point"

    def result(self, snapshot: Snapshot) -> Iterable[Initial]:
        return self._result(snapshot.get(self.source.table, self.source.key))

    def _result(self, body: bytes | None) -> Iterator[Initial]:
        result = None if body is None else self.pipeline(codec.decode_frozen(body), b"")
        yield Initial(None if result is None else result[0])


class AllTablesView:
    """Every change of every table, also of tables that are made later.

    Without the catalogue it reports documents and nothing else, so their deltas must be complete: where a table is
    dropped or renamed, each of its documents is removed, and for a renamed table added under the new name.

    Attributes:
        tells_names: Of changes that are read from the log it needs the names of then.
    """

    __slots__ = ("_has_catalogue", "tells_names")

    kind = "database"
    is_stateful = False
    documents_held = 0

    def __init__(self, *, has_catalogue: bool) -> None:
        """`has_catalogue`: also changes of tables and indexes themselves."""
        self._has_catalogue = has_catalogue
        self.tells_names = not has_catalogue

    def tables(self) -> Sequence[TableInfo]:
        return ()

    def indexes(self) -> Sequence[tuple[int, str]]:
        return ()

    def routes(self) -> Sequence[Route]:
        return (Everywhere(),)

    def seed(self, snapshot: Snapshot) -> None:
        pass

    def result(self, snapshot: Snapshot) -> Iterable[Initial]:
        tables = snapshot.catalogue.ordinary().items()
        return self._result([(name, snapshot.rows(info)) for name, info in tables])

    def _result(self, tables: list[tuple[str, list[Any]]]) -> Iterator[Initial]:
        for name, rows in tables:
            for row in rows:
                yield Initial(codec.decode_frozen(row.body), table=name)

    def advance(self, change: Change, reader: StateReader) -> Sequence[AnyDelta]:
        if not is_shown(change):
            return ()
        if change.table_id != CATALOGUE or self._has_catalogue:
            return (change,)
        return expand_table_change(change, reader) if change.kind_code in (TABLE_DROP, TABLE_RENAME) else ()

    def describe(self) -> dict[str, Any]:
        return {"access": "every document of every table", "index": None}


def expand_table_change(change: Change, reader: StateReader) -> list[Change]:
    """The deltas of a table's documents when it is dropped or renamed: each document is removed, and for a renamed
    table added under the new name.

    Raises:
        HistoryLost: Compaction in another process has overtaken it.
    """
    details = change.catalogue
    assert details is not None
    table_id, new_name = details["table_id"], details.get("new_name")
    # The documents of a table stay in the file until compaction passes its end.
    before = reader.at(change.seq - 1)
    seq, commit, time, origin = change.seq, change.commit, change.time, change.origin
    changes: list[Change] = []
    for key, body in before.rows(before.catalogue.by_id[table_id]):
        changes.append(
            Change(
                seq, details["table"], table_id, key, GONE_WITH_TABLE, None, body, None, commit, time, origin
            )
        )
        if new_name is not None:
            changes.append(
                Change(seq, new_name, table_id, key, CAME_WITH_NAME, None, None, body, commit, time, origin)
            )
    return changes
