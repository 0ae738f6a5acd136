"""PointSelection: one document, by primary key. What is asked for most often, by the shortest way.

Rule of this file: as of `selection`. What is here is only quicker than what a Selection of the same query does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reactdb.access import find_table
from reactdb.change import Change
from reactdb.query import Get, Query
from reactdb.selection import Selection, as_given, is_users, live_table
from reactdb.store.transaction import WriteTransaction
from reactdb.writing import NOTHING, Tally, check_return_changes, update_one

if TYPE_CHECKING:
    from reactdb.database import Database


class PointSelection(Selection):
    """One document, by primary key; it may not be there."""

    __slots__ = ("_key", "_key_bytes", "_table")

    def __init__(self, database: Database, table: str, key: Any, key_bytes: bytes) -> None:
        self._database = database
        self._table = table
        self._key = key
        self._key_bytes = key_bytes

    def __getattr__(self, name: str) -> Any:
        # To make a Query takes as long as to answer this one: it is made when it is needed.
        if name != "_query":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._query = query = Query(self._table, (Get(self._key, self._key_bytes),))
        return query

    def run(self) -> Any:
        """Read it: the document, or None. It is yours to change.

        Raises:
            TableNotFound.
        """
        return self._database._get(self._table, self._key_bytes)

    def update(
        self, patch: Any, *, durability: str | None = None, return_changes: bool | str = False
    ) -> dict[str, Any]:
        """Merge a patch into the document, at once and as one commit. As `Selection.update`."""
        given = as_given(patch, is_for_one=True)
        runs_user_code = is_users(patch)
        if return_changes is not False:
            check_return_changes(return_changes)
        name, key = self._table, self._key_bytes

        def one(transaction: WriteTransaction) -> dict[str, Any]:
            table = transaction.catalogue.live.get(name) or live_table(transaction, name)
            outcome = update_one(transaction, table, key, given, runs_user_code)
            if return_changes is False:
                counts: dict[str, Any] = NOTHING.copy()
                counts[outcome[0]] = 1
                return counts
            tally = Tally(return_changes)
            tally.add(*outcome)
            return tally.result()

        return self._database._write(one, durability, not runs_user_code, "update")

    def history(self) -> list[Change]:
        """Every log entry of this key that retention has left, oldest first; also of a key that is deleted now."""
        with self._database._snapshot() as snapshot:
            table = find_table(self._table, snapshot)
            found = list(snapshot.history(table, self._key_bytes))
        return found[::-1]
