"""Sweeping: documents that have expired by a TTL index are deleted.

Nothing expires by itself: whoever keeps such a collection calls this, as often as documents should go, or lets a server do so.

Rule of this file: a date in the field, or the least of those in an array, and the seconds of the index say when a document
expires; one without a date never does.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from reactdb.dialects.mongodb.index_keys import FieldBound, bracket_range, range_of, value_bytes
from reactdb.dialects.mongodb.indexes import CollectionIndex, indexes_of
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.namespaces import Namespaces
from reactdb.dialects.mongodb.writing import DocumentWriter
from reactdb.store.transaction import WriteTransaction

__all__ = ["sweep", "swept_everywhere"]

AT_ONCE: Final = 1_000
"""The most documents that are deleted by one commit."""


def swept_everywhere(spaces: Namespaces) -> Iterator[int]:
    """Delete the documents of all collections that have expired. Each step is one commit, and gives how many it has deleted."""
    for database in spaces.databases():
        for found in spaces.collections(database):
            if any(index.expires_s is not None for index in indexes_of(found.table)):
                yield from _steps(spaces, found.namespace, datetime.now(UTC))


def sweep(spaces: Namespaces, namespace: MongoNamespace, now: datetime | None = None) -> int:
    """Delete the documents of a collection that have expired.

    Args:
        now: An aware datetime; the clock's, unless given.

    Returns:
        How many there were.
    """
    return sum(_steps(spaces, namespace, now or datetime.now(UTC)))


def _steps(spaces: Namespaces, namespace: MongoNamespace, now: datetime) -> Iterator[int]:
    while True:
        count = spaces.session.transact(
            lambda transaction: _swept(transaction, spaces, namespace, now), operation="sweep"
        )
        yield count
        if count < AT_ONCE:
            return


def _swept(
    transaction: WriteTransaction, spaces: Namespaces, namespace: MongoNamespace, now: datetime
) -> int:
    table = transaction.catalogue.live.get(spaces.names.table(namespace))
    if table is None:
        return 0
    writer = DocumentWriter(transaction, table, namespace)
    expired: dict[bytes, None] = {}
    for index in indexes_of(table):
        if index.expires_s is not None:
            expired.update(dict.fromkeys(_expired(transaction, index, now)))
    keys = list(expired)[:AT_ONCE]
    for key in keys:
        writer.remove(key)
    return len(keys)


def _expired(transaction: WriteTransaction, index: CollectionIndex, now: datetime) -> list[bytes]:
    """The keys of documents with a date that is old enough. Their entries are no longer there than the documents."""
    assert index.expires_s is not None
    last = value_bytes(now - timedelta(seconds=float(index.expires_s)))
    found = range_of(b"", FieldBound(bracket_range(last)[0], last + b"\x00"))
    return transaction.snapshot().candidates(index.info, [found])
