"""Materialized tables: tables that `materialize` keeps equal to a selection; all other writers are refused.

The table names the write hook of this file, and every process knows the hook. So every writer is refused, native or
of a dialect, unless the write is the keeper's. The file's rows beside the table, a lease and a position, are removed
when it is dropped.

Rule of this file: it refuses, and derives nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from reactdb.change import HiddenTable
from reactdb.errors import UsageError
from reactdb.store.catalogue import TableInfo
from reactdb.store.file.sqlite import Connection
from reactdb.store.hooks import Derived, Draft, register_hook
from reactdb.store.leases import CONSUMER, read_lease
from reactdb.store.positions import read_positions, remove_position
from reactdb.store.transaction import WriteTransaction
from reactdb.values import codec, collation

KEPT: Final = "reactdb.materialized"
"""The name of the hook in the catalogue."""

MATERIALIZED: Final = "materialized"
"""A position of this kind names the selection of a kept table, and the seq of its state."""

NOTES_BY_NAME: Final = (HiddenTable("rethinkdb", "table_hooks"), HiddenTable("rethinkdb", "table_settings"))
"""The hidden tables of dialects in which the name of a table is the key. All others have its number, which stays."""

# The keeper's argument for the hook.
_KEEPER: Any = object()


def refuse_other_writers(draft: Draft) -> Derived:
    """Refuses every write but the keeper's."""
    if draft.asked is not _KEEPER:
        raise UsageError(
            f"table `{draft.table.name}` is kept equal to a selection by db.materialize, so nothing else may write it: write "
            "the tables of that selection, or another table"
        )
    return Derived(None)


register_hook(KEPT, refuse_other_writers)


def write_kept(
    transaction: WriteTransaction, table: TableInfo, documents: Iterable[tuple[bytes, bytes | None]]
) -> None:
    """Make these the contents of their keys (None: nothing), whatever is there."""
    for key, body in documents:
        transaction.put(table, key, body, asked=_KEEPER)


def consumer_of(name: str) -> str:
    """The name of the durable consumer with the lease of this table's keeper."""
    return f"{MATERIALIZED}.{name}"


def read_stopped_views(connection: Connection) -> dict[str, str]:
    """Why kept tables are no longer kept up to date, by their names; tables without trouble are left out."""
    errors = {}
    for view in read_positions(connection, MATERIALIZED):
        lease = read_lease(connection, consumer_of(view.name), 0)
        if lease is not None and lease.error is not None:
            errors[view.name] = lease.error
    return errors


def drop_table(transaction: WriteTransaction, table: TableInfo) -> None:
    """Drop a table, kept or not, for every caller that drops tables by name."""
    transaction.drop_table(table)
    if table.hook == KEPT:
        forget_view(transaction, table.name)


def rename_table(transaction: WriteTransaction, table: TableInfo, name: str) -> None:
    """Rename an ordinary table for a user, with the notes that are kept under its name. The caller has checked that
    `name` is free.

    Raises:
        UsageError: The table is kept.
    """
    if table.hook == KEPT:
        raise UsageError(
            f"table `{table.name}` is kept equal to a selection by db.materialize, which knows it by its name: materialize "
            "into the new name, and drop this one"
        )
    old = table.name
    transaction.rename_table(table, name)
    for reference in NOTES_BY_NAME:
        notes = transaction.catalogue.live.get(reference)
        if notes is None:
            continue
        before, after = collation.key_bytes(old), collation.key_bytes(name)
        # A note under the new name is of a table that is gone.
        transaction.put(notes, after, None)
        head = transaction.head(notes, before)
        if head is not None:
            transaction.put(notes, after, codec.encode({**codec.decode(head[1]), notes.primary_key: name}))
            transaction.put(notes, before, None)


def forget_view(transaction: WriteTransaction, name: str) -> None:
    """Remove the file's rows about the kept table of this name: the position, and the lease."""
    remove_position(transaction, MATERIALIZED, name)
    remove_position(transaction, CONSUMER, consumer_of(name))
