"""TTL sweep: how the documents of TTL indexes expire.

They are deleted like all documents with an end (see `reactdb.store.expiry`): by any process that has the file open to
write, within about a second. A sweep deletes all ended documents at once, before it returns.

Rule of this file: a document expires by the date in the field, or the least date in an array, plus the seconds of the index;
without a date it never expires.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from reactdb.change import DELETE
from reactdb.dialects.mongodb.index_keys import OPERATION, FieldBound, bracket_range, range_of, value_bytes
from reactdb.dialects.mongodb.indexes import indexes_of
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.namespaces import Namespaces
from reactdb.dialects.mongodb.natural import drop_place
from reactdb.dialects.mongodb.rules import write_options
from reactdb.store.catalogue import IndexInfo, TableInfo
from reactdb.store.expiry import ExpiryRule, register_expiry, steps
from reactdb.store.transaction import WriteTransaction

__all__ = ["sweep", "sweep_all"]


def _delete(transaction: WriteTransaction, table: TableInfo, key: bytes) -> None:
    options = write_options(table, None, bypasses=False)
    transaction.write(table, key, DELETE, transaction.head(table, key), None, asked=options)
    drop_place(transaction, table, key)


def _make_rule(table: TableInfo, info: IndexInfo) -> ExpiryRule | None:
    found = next((index for index in indexes_of(table) if index.info.id == info.id), None)
    if found is None or found.expires_s is None:
        return None
    duration = timedelta(seconds=float(found.expires_s))

    def bounds(now: datetime) -> tuple[bytes, bytes]:
        last = value_bytes(now - duration)
        return range_of(b"", FieldBound(bracket_range(last)[0], last + b"\x00"))

    return ExpiryRule(table, info, bounds, _delete)


register_expiry(OPERATION, _make_rule)


def sweep_all(spaces: Namespaces) -> Iterator[int]:
    """Delete what has ended in all collections and native tables. Each step is one commit, and yields the number of its
    deletions."""
    yield from steps(spaces.session.engine)


def sweep(spaces: Namespaces, namespace: MongoNamespace, now: datetime | None = None) -> int:
    """Delete the expired documents of a collection.

    Args:
        now: An aware datetime; the clock's, unless given.

    Returns:
        The number of documents that this call has deleted.
    """
    return sum(steps(spaces.session.engine, now, spaces.names.table(namespace)))
