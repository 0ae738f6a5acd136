"""Tailable queries: a query of a capped collection that continues with later inserts.

    tail = open_tail(spaces, MongoNamespace("shop", "log"), {"filter": {"level": "error"}})
    tail.batch(100)                     the next documents, in the order of their insertion. It never waits
    wakers.listen([tail.table_id], ...) the callback for when there may be more

Its position is the last document that it has read. If that document is deleted, to make room or by another writer, it has lost
its position and ends: code 136, as in MongoDB.

Rule of this file: it returns an inserted document once, or raises because it has lost its position.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from reactdb.dialects.mongodb.capped_collections import (
    PAGE_PLACES,
    has_place,
    order_table_of,
    places,
    totals_in,
)
from reactdb.dialects.mongodb.clock import ClusterClock
from reactdb.dialects.mongodb.collation import text_key
from reactdb.dialects.mongodb.collection import count_of
from reactdb.dialects.mongodb.entries import document_of
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.filters import Filter
from reactdb.dialects.mongodb.find import in_order, projection_of
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.namespaces import Namespaces
from reactdb.dialects.mongodb.variables import values_of
from reactdb.session import Session
from reactdb.store.catalogue import TableInfo
from reactdb.store.snapshot import Snapshot

__all__ = ["Tail", "check_tailable", "open_tail"]

Document = dict[str, Any]
NOT_CAPPED: Final = "error processing query: tailable cursor requested on non capped collection"


def check_tailable(command: Mapping[str, Any]) -> bool:
    """Whether a find is tailable.

    Raises:
        MongoError: 9 and 2, its options do not fit together.
    """
    if not command.get("tailable"):
        if command.get("awaitData"):
            raise MongoError(9, "Cannot set 'awaitData' without also setting 'tailable'")
        return False
    if command.get("singleBatch"):
        raise MongoError(2, "cannot use tailable option with the 'singleBatch' option")
    if command.get("sort") and command["sort"] != {"$natural": 1}:
        raise MongoError(2, "cannot use tailable option with a sort other than {$natural: 1}")
    for name in ("skip", "limit"):
        count_of(name, command.get(name))
    return True


def open_tail(
    spaces: Namespaces, namespace: MongoNamespace, command: Mapping[str, Any], collation: Any = None
) -> Tail | None:
    """The tail of a find; None without a collection.

    Raises:
        MongoError: 2, the collection is not capped; and as a find.
    """
    check_tailable(command)
    if spaces.view(namespace) is not None:
        raise MongoError(168, "Option tailable not supported in aggregation")
    table = spaces.table(namespace)
    if table is None:
        return None
    if order_table_of(spaces.session.engine.catalogue, table) is None:
        raise MongoError(2, NOT_CAPPED)
    return Tail(spaces.session, table, command, spaces.collation(namespace, collation))


class Tail:
    """See the head of this file. One thread at a time.

    Attributes:
        table_id: The number of its table.
        is_over: The collection had no documents.
        is_at_limit: It has reached its limit. It stays open and returns nothing.
    """

    def __init__(
        self, session: Session, table: TableInfo, command: Mapping[str, Any], collation: Any
    ) -> None:
        self.table_id = table.id
        self.is_over = False
        self.is_at_limit = False
        self._session = session
        self._table = table
        expressions = command.get("filter"), command.get("projection")
        variables = values_of(command.get("let"), ClusterClock(session), expressions)
        text = text_key(collation)
        self._filter = Filter(command.get("filter") or {}, variables=variables, collation=text)
        fields = command.get("projection")
        self._shape = projection_of(fields, variables, text) if fields else None
        self._skip = count_of("skip", command.get("skip")) or 0
        self._left = count_of("limit", command.get("limit")) or None
        # The last read position, or the position before the first document; None before the first batch.
        self._seen: int | None = None
        self._stands_at_one = False

    def batch(self, most: int) -> list[Document]:
        """The next matching documents, at most `most`.

        Raises:
            MongoError: 136, the next documents were deleted to make room; 175, the collection was dropped.
        """
        if self._left is not None:
            most = min(most, self._left)
        documents: list[Document] = []
        with self._session.read() as now:
            self._check(now)
            order = order_table_of(now.catalogue, self._table)
            assert order is not None
            totals = totals_in(now, order)
            if self._seen is None:
                self._seen = totals.first - 1
                self.is_over = not totals.held
            elif totals.first > self._seen + 1 or (
                self._stands_at_one and not has_place(now, order, self._seen)
            ):
                raise MongoError(
                    136,
                    "CollectionScan died due to position in capped collection being deleted: read it anew",
                )
            while len(documents) < most and self._read(now, order, most, documents):
                pass
        if self._left is not None:
            self._left -= len(documents)
            self.is_at_limit = not self._left
        return documents

    def _read(self, now: Snapshot, order: TableInfo, most: int, documents: list[Document]) -> bool:
        """Look at a page. Returns: whether there may be more."""
        assert self._seen is not None
        page = places(now, order, self._seen)
        bodies = dict(in_order(now, self._table, [place.key for place in page]))
        for place in page:
            if len(documents) >= most:
                return False
            self._seen, self._stands_at_one = place.number, True
            document = document_of(self._table, bodies[place.key])
            if not self._filter.matches(document):
                continue
            if self._skip:
                self._skip -= 1
            else:
                documents.append(self._project_document(document))
        return len(page) == PAGE_PLACES

    def _project_document(self, document: Document) -> Document:
        if self._shape is None:
            return document
        matched = self._filter if self._shape.is_positional else None
        shaped: Document = self._shape.apply(document, matched_filter=matched)
        return shaped

    def _check(self, now: Snapshot) -> None:
        live = now.catalogue.by_id.get(self.table_id)
        if live is None or live.dropped is not None:
            raise MongoError(175, f"collection dropped. UUID of the table {self.table_id}")
        self._table = live
