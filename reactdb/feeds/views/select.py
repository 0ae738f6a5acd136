"""SelectView: a table, or a part of it, through filters and maps; and AllTablesView, every table as it is.

A document counts as often as it has places in the source: `get_all(k, k)` has it twice, a multi index once an entry. The
places that it had and has are paired off: a pair is a change, what is left over was added or removed.

Rule of this file: no state. Both documents are in the change; what is held here would only be a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from reactdb.change import Change
from reactdb.feeds.failures import Failures
from reactdb.feeds.pipeline import Pipeline, same_value
from reactdb.feeds.views.base import AnyDelta, Delta, Everywhere, Initial, Route, StateReader
from reactdb.feeds.views.source import Source
from reactdb.store.catalogue import TableInfo
from reactdb.store.snapshot import Snapshot
from reactdb.store.walk import Page, Place
from reactdb.values import codec


class SelectView:
    """See the head of this file. Ordered or not: without offsets, an order only says how the initial values come."""

    __slots__ = ("failures", "is_ordered", "is_verbatim", "only_tests", "pipeline", "source")

    kind = "range"
    is_stateful = False
    documents_held = 0

    def __init__(
        self, source: Source, pipeline: Pipeline, failures: Failures, *, is_ordered: bool = False
    ) -> None:
        """`is_ordered`: initial values are put in the order that the pipeline's order_by gives."""
        self.failures = failures
        self.source = source
        self.pipeline = pipeline
        self.is_ordered = is_ordered
        # Each change of the table is told as it is.
        self.is_verbatim = source.is_everything and pipeline.is_identity
        self.only_tests = source.is_everything and pipeline.only_tests

    def tables(self) -> Sequence[TableInfo]:
        return (self.source.table,)

    def indexes(self) -> Sequence[tuple[int, str]]:
        index = self.source.index
        return () if index is None else ((self.source.table.id, index.name),)

    def routes(self) -> Sequence[Route]:
        return self.source.routes(self.pipeline.steps, is_strict=self.failures.raises)

    def seed(self, snapshot: Snapshot) -> None:
        pass

    @property
    def order(self) -> str | None:
        """Names the order of the documents that the result is made of, one after the other; None where it is another's."""
        return None if self.is_ordered else self.source.order

    def values(self, page: Page) -> Iterator[tuple[Place, Any]]:
        """The result's part that these documents are, each value with its document's place."""
        documents = zip(page.places, codec.decode_many_frozen(page.bodies), strict=True)
        if self.pipeline.is_identity:
            return documents
        found = ((place, self.pipeline(document, b"")) for place, document in documents)
        return ((place, result[0]) for place, result in found if result is not None)

    def result(self, snapshot: Snapshot) -> Iterable[Initial]:
        return self._result(list(self.source.read(snapshot)))

    def _result(self, rows: list[tuple[bytes, bytes, bytes]]) -> Iterator[Initial]:
        found = (self.pipeline(codec.decode_frozen(body), place) for place, _, body in rows)
        results: Iterable[tuple[Any, bytes]] = (result for result in found if result is not None)
        if self.is_ordered:
            results = sorted(results, key=_place_of)
        for value, _ in results:
            yield Initial(value)

    def advance(self, change: Change, reader: StateReader) -> Sequence[AnyDelta]:
        source, pipeline = self.source, self.pipeline
        if change.table_id != source.table.id:
            return ()
        if self.is_verbatim:
            return (change,)
        if self.only_tests:
            return self._tested(change)
        old = self._values(change.key_bytes, change, is_new=False)
        new = self._values(change.key_bytes, change, is_new=True)
        if not old and not new:
            return ()
        if pipeline.only_tests and len(old) == len(new) == 1:
            # The store logs no change that changes nothing.
            return (change,)
        return self._paired(change, old, new)

    def _tested(self, change: Change) -> Sequence[AnyDelta]:
        """What tests of the documents of a whole table make of it: the rest of `advance`, in fewer steps."""
        tests = self.pipeline.tests
        old, new = change.old or change.old_val, change.new or change.new_val
        was = old is not None
        try:
            for test in tests:
                if not was:
                    break
                was = bool(test(old))
        except MemoryError:
            raise
        except Exception:
            # A document that cannot be computed is not in the result. When it was written, that was noted.
            was = False
        is_now = new is not None
        try:
            for test in tests:
                if not is_now:
                    break
                is_now = bool(test(new))
        except MemoryError:
            raise
        except Exception as error:
            is_now = False
            pipeline = self.pipeline
            self.failures.note(error, change.key_bytes, change.seq, lambda: pipeline.failing_step(new, b""))
        if was and is_now:
            return (change,)
        if was or is_now:
            return (Delta(change, old if was else None, new if is_now else None),)
        return ()

    def _values(self, key: bytes, change: Change, *, is_new: bool) -> Sequence[Any]:
        """The result values of one side of the change, one for each place."""
        if (change.new_bytes if is_new else change.old_bytes) is None:
            return ()
        source, pipeline = self.source, self.pipeline
        if pipeline.is_identity and not source.needs_document:
            count = len(source.places(key, None))
            return (change,) * count
        document = change.new_val if is_new else change.old_val
        places = source.places(key, document)
        if not places:
            return ()
        if pipeline.boxed:
            found = [self._computed(document, place, change, is_new) for place in places]
            return [result[0] for result in found if result is not None]
        # The value depends on the document only, so all its places have the same one.
        result = self._computed(document, b"", change, is_new)
        return () if result is None else (result[0],) * len(places)

    def _computed(
        self, document: Any, place: bytes, change: Change, is_new: bool
    ) -> tuple[Any, bytes] | None:
        if is_new:
            return self.pipeline.noting(document, place, self.failures, change.key_bytes, change.seq)
        return self.pipeline.quietly(document, place)

    def _paired(self, change: Change, old: Sequence[Any], new: Sequence[Any]) -> list[AnyDelta]:
        deltas: list[AnyDelta] = []
        for copy in range(max(len(old), len(new))):
            old_val = old[copy] if copy < len(old) else None
            new_val = new[copy] if copy < len(new) else None
            if old_val is change:
                old_val = change.old_val
            if new_val is change:
                new_val = change.new_val
            if old_val is not None and new_val is not None and same_value(old_val, new_val):
                continue
            # The first copy has the document's own name, so that it is the same one as where the change is the delta.
            identity = None if copy == 0 else (change.table_id, change.key_bytes, copy)
            deltas.append(Delta(change, old_val, new_val, identity=identity))
        return deltas

    def describe(self) -> dict[str, Any]:
        index = self.source.index
        return {"access": self.source.describe(), "index": None if index is None else index.name}


def _place_of(result: tuple[Any, bytes]) -> bytes:
    return result[1]


class AllTablesView:
    """Every change of every table, also of tables that are made later."""

    __slots__ = ()

    kind = "database"
    is_stateful = False
    documents_held = 0

    def tables(self) -> Sequence[TableInfo]:
        return ()

    def indexes(self) -> Sequence[tuple[int, str]]:
        return ()

    def routes(self) -> Sequence[Route]:
        return (Everywhere(),)

    def seed(self, snapshot: Snapshot) -> None:
        pass

    def result(self, snapshot: Snapshot) -> Iterable[Initial]:
        tables = sorted(snapshot.catalogue.live.items())
        return self._result([(name, snapshot.rows(info)) for name, info in tables])

    def _result(self, tables: list[tuple[str, list[Any]]]) -> Iterator[Initial]:
        for name, rows in tables:
            for found in rows:
                yield Initial(codec.decode_frozen(found.body), table=name)

    def advance(self, change: Change, reader: StateReader) -> Sequence[AnyDelta]:
        return (change,)

    def describe(self) -> dict[str, Any]:
        return {"access": "every document of every table", "index": None}
