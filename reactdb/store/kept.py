"""Kept tables: those that `materialize` keeps equal to a selection, and that nothing else may write.

The table names the write hook of this file, which is known to every process: so every writer is refused, native or of a dialect,
unless the write is the keeper's. What the file knows beside the table, a lease and a position, goes with it when it is dropped.

Rule of this file: it refuses, and derives nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from reactdb.errors import UsageError
from reactdb.store.catalogue import TableInfo
from reactdb.store.file.sqlite import Connection
from reactdb.store.hooks import Derived, Draft, register_hook
from reactdb.store.leases import CONSUMER, read_lease
from reactdb.store.positions import read_positions, remove_position
from reactdb.store.transaction import WriteTransaction

KEPT: Final = "reactdb.materialized"
"""The name of the hook in the catalogue."""

MATERIALIZED: Final = "materialized"
"""A position of this kind says as of which seq a kept table is equal to its selection, and to which."""

# What the keeper asks of the hook.
_KEEPER: Any = object()


def kept(draft: Draft) -> Derived:
    """Refuses every write but the keeper's."""
    if draft.asked is not _KEEPER:
        raise UsageError(
            f"table `{draft.table.name}` is kept equal to a selection by db.materialize, so nothing else may write it: write "
            "what it is selected from, or another table"
        )
    return Derived(None)


register_hook(KEPT, kept)


def write_kept(
    transaction: WriteTransaction, table: TableInfo, documents: Iterable[tuple[bytes, bytes | None]]
) -> None:
    """Make these the contents of their keys (None: nothing), whatever is there."""
    for key, body in documents:
        transaction.put(table, key, body, asked=_KEEPER)


def consumer_of(name: str) -> str:
    """The durable consumer whose lease the keeper of the table of this name has."""
    return f"{MATERIALIZED}.{name}"


def stopped_views(connection: Connection) -> dict[str, str]:
    """Why a kept table is no longer kept up to date, by its name; nothing of those that follow."""
    found = {}
    for view in read_positions(connection, MATERIALIZED):
        lease = read_lease(connection, consumer_of(view.name), 0)
        if lease is not None and lease.error is not None:
            found[view.name] = lease.error
    return found


def drop_table(transaction: WriteTransaction, table: TableInfo) -> None:
    """Drop a table, whether or not it is a kept one, for all who drop tables by their names."""
    transaction.drop_table(table)
    if table.hook == KEPT:
        forget(transaction, table.name)


def forget(transaction: WriteTransaction, name: str) -> None:
    """Remove what the file knows of the kept table of this name: the position, and the lease."""
    remove_position(transaction, MATERIALIZED, name)
    remove_position(transaction, CONSUMER, consumer_of(name))
