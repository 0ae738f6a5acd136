"""Expiry of tables: the arguments `expire_after` and `field`, and how a table's expiry is set.

Rule of this file: it checks arguments and makes or drops one index. `store.expiry` has the rest.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from reactdb.errors import IndexExists, InvalidOption, UsageError, format_value
from reactdb.store.catalogue import TableInfo
from reactdb.store.expiry import (
    INDEX,
    ExpirySettings,
    expiry_expression,
    find_index,
    measure_expiry,
    native_expiry,
)
from reactdb.store.materialized_tables import KEPT
from reactdb.store.snapshot import Snapshot
from reactdb.store.transaction import WriteTransaction


def check_expiry(expire_after: object, field: object) -> ExpirySettings | None:
    """The expiry that these arguments mean; None: no document expires.

    Raises:
        InvalidOption.
    """
    if expire_after is None:
        if field is not None:
            raise InvalidOption(
                "field needs expire_after, a timedelta: how long after the time in the field the document ends"
            )
        return None
    if not isinstance(expire_after, timedelta) or expire_after < timedelta(0):
        raise InvalidOption(
            f"expire_after is a timedelta from 0, such as timedelta(hours=1), not {format_value(expire_after)}"
        )
    if not isinstance(field, str) or not field:
        raise InvalidOption(
            f"field is the name of the field with the time from which expire_after counts, not {format_value(field)}"
        )
    return ExpirySettings(field, expire_after)


def put_expiry(transaction: WriteTransaction, table: TableInfo, settings: ExpirySettings | None) -> None:
    """Give a table this expiry; None: none.

    Raises:
        IndexExists: Another index has the name of the index for the ends.
        UsageError: The table is kept by `materialize`, and only it deletes documents of this table.
    """
    if native_expiry(table) == settings:
        return
    known = find_index(table)
    if known is not None:
        transaction.drop_index(table, known.name)
        table = transaction.catalogue.by_id[table.id]
    if settings is None:
        return
    if table.hook == KEPT:
        raise UsageError(
            f"table `{table.name}` is kept equal to a selection by db.materialize: set the expiry of the tables of that selection"
        )
    name = INDEX if known is None else known.name
    if name in table.indexes or name == table.primary_key:
        raise IndexExists(name, table.name)
    transaction.create_index(table, name, expiry_expression(settings), multi=False)


def show_expiry(snapshot: Snapshot) -> dict[str, dict[str, Any]]:
    """The expiry of each table that has one, by its name, for `Database.stats`."""
    shown = {}
    for name, table in snapshot.catalogue.ordinary().items():
        figures = measure_expiry(snapshot, table)
        if figures is not None:
            shown[name] = {
                "field": figures.settings.field,
                "expire_after": figures.settings.duration,
                "next": figures.next_end,
                "never": figures.without_end,
            }
    return shown
