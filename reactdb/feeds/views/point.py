"""PointView: one document by its key, or what filters and maps make of it.

Rule of this file: no state. Both documents are in the change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from reactdb.change import Change
from reactdb.feeds.failures import Failures
from reactdb.feeds.pipeline import Pipeline, same_value
from reactdb.feeds.views.base import AnyDelta, Delta, Initial, OneKey, Route, StateReader
from reactdb.store.catalogue import TableInfo
from reactdb.store.snapshot import Snapshot
from reactdb.values import codec


class PointView:
    """`get(key)`: its result is one value, or None."""

    __slots__ = ("failures", "is_verbatim", "key", "pipeline", "table")

    kind = "point"
    is_stateful = False
    documents_held = 0

    def __init__(self, table: TableInfo, key: bytes, pipeline: Pipeline, failures: Failures) -> None:
        self.failures = failures
        self.table = table
        self.key = key
        self.pipeline = pipeline
        self.is_verbatim = pipeline.is_identity

    def tables(self) -> Sequence[TableInfo]:
        return (self.table,)

    def indexes(self) -> Sequence[tuple[int, str]]:
        return ()

    def routes(self) -> Sequence[Route]:
        return (OneKey(self.table.id, self.key),)

    def seed(self, snapshot: Snapshot) -> None:
        pass

    def result(self, snapshot: Snapshot) -> Iterable[Initial]:
        return self._result(snapshot.get(self.table, self.key))

    def _result(self, body: bytes | None) -> Iterable[Initial]:
        found = None if body is None else self.pipeline(codec.decode_frozen(body), b"")
        yield Initial(None if found is None else found[0])

    def advance(self, change: Change, reader: StateReader) -> Sequence[AnyDelta]:
        if change.key_bytes != self.key or change.table_id != self.table.id:
            return ()
        if self.pipeline.is_identity:
            return (change,)
        old = None if change.old_bytes is None else self.pipeline.quietly(change.old_val, b"")
        new = None
        if change.new_bytes is not None:
            new = self.pipeline.noting(change.new_val, b"", self.failures, self.key, change.seq)
        old_val = None if old is None else old[0]
        new_val = None if new is None else new[0]
        if same_value(old_val, new_val):
            return ()
        return (Delta(change, old_val, new_val),)

    def describe(self) -> dict[str, Any]:
        return {"access": "get: one key", "index": None}
