"""TTL sweep: deletes the expired documents of TTL indexes.

Nothing expires by itself: a program with such a collection calls this as often as it wants, or its server does.

Rule of this file: a document expires by the date in the field, or the least date in an array, plus the seconds of the index;
without a date it never expires.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from reactdb.dialects.mongodb.index_keys import FieldBound, bracket_range, range_of, value_bytes
from reactdb.dialects.mongodb.indexes import CollectionIndex, indexes_of
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.namespaces import Namespaces
from reactdb.dialects.mongodb.write_statements import DocumentWriter
from reactdb.store.transaction import WriteTransaction

__all__ = ["sweep", "sweep_all"]

AT_ONCE: Final = 1_000
"""The most deletions per commit."""


def sweep_all(spaces: Namespaces) -> Iterator[int]:
    """Delete the expired documents of all collections. Each step is one commit, and yields the number of its deletions."""
    for database in spaces.databases():
        for info in spaces.collections(database):
            if any(index.expires_s is not None for index in indexes_of(info.table)):
                yield from _steps(spaces, info.namespace, datetime.now(UTC))


def sweep(spaces: Namespaces, namespace: MongoNamespace, now: datetime | None = None) -> int:
    """Delete the expired documents of a collection.

    Args:
        now: An aware datetime; the clock's, unless given.

    Returns:
        The number of deleted documents.
    """
    return sum(_steps(spaces, namespace, now or datetime.now(UTC)))


def _steps(spaces: Namespaces, namespace: MongoNamespace, now: datetime) -> Iterator[int]:
    while True:
        count = spaces.session.transact(
            lambda transaction: _sweep(transaction, spaces, namespace, now), operation="sweep"
        )
        yield count
        if count < AT_ONCE:
            return


def _sweep(
    transaction: WriteTransaction, spaces: Namespaces, namespace: MongoNamespace, now: datetime
) -> int:
    table = transaction.catalogue.live.get(spaces.names.table(namespace))
    if table is None:
        return 0
    writer = DocumentWriter(transaction, table, namespace)
    expired: dict[bytes, None] = {}
    for index in indexes_of(table):
        if index.expires_s is not None:
            expired.update(dict.fromkeys(_expired_keys(transaction, index, now)))
    keys = list(expired)[:AT_ONCE]
    for key in keys:
        writer.remove(key)
    return len(keys)


def _expired_keys(transaction: WriteTransaction, index: CollectionIndex, now: datetime) -> list[bytes]:
    """The keys of documents with an old enough date. Their entries go together with the documents."""
    assert index.expires_s is not None
    last = value_bytes(now - timedelta(seconds=float(index.expires_s)))
    expired = range_of(b"", FieldBound(bracket_range(last)[0], last + b"\x00"))
    return transaction.snapshot().candidates(index.info, [expired])
