"""Kept tables: those that `materialize` keeps equal to a selection, and that nothing else may write.

The table names the write hook of this file, which is known to every process: so every writer is refused, native or of a dialect,
unless the write is the keeper's.

Rule of this file: it refuses, and derives nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from reactdb.change import DELETE, REPLACE
from reactdb.errors import UsageError
from reactdb.store.catalogue import TableInfo
from reactdb.store.hooks import Derived, Draft, register_hook
from reactdb.store.transaction import WriteTransaction

KEPT: Final = "reactdb.materialized"
"""The name of the hook in the catalogue."""

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
        old = transaction.head(table, key)
        if body != (None if old is None else old[1]):
            kind = DELETE if body is None else REPLACE
            transaction.write(table, key, kind, old, body, asked=_KEEPER)
