"""Conflicts: the documents with several live leaves, now and from now on, and how to resolve them.

    conflicts(database).subscribe(print)        {"id", "winner": document, "others": [document, ...]}
    resolve(database, document, others)         the document in place of the winner and of these

A conflict is a row in a hidden table, so a subscription to that table receives each conflict with its commit.

Rule of this file: it decides nothing. The caller chooses the document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.names import id_of
from reactdb.dialects.couchdb.revisions import hidden_table
from reactdb.query import Query
from reactdb.values import collation

if TYPE_CHECKING:
    from reactivex import Observable


def in_conflict(database: CouchDatabase, id: str) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """(a document, its other live leaves), each in CouchDB's form; (None, []) if it was deleted."""
    try:
        winner = database.get(id, conflicts=True)
        others = [database.get(id, rev=rev) for rev in winner.pop("_conflicts", [])]
    except CouchError as error:
        if error.status != 404:
            raise
        return None, []
    return winner, others


def ids_in_conflict(database: CouchDatabase) -> list[str]:
    """The ids of documents with other leaves now, alive or deleted."""
    with database.reading() as reading:
        table = reading.tables.conflicts
        rows = [] if table is None else reading.snapshot.rows(table)
        return [id_of(collation.key_value(row.key)) for row in rows]


def conflicts(database: CouchDatabase) -> Observable[dict[str, Any]]:
    """The documents in conflict, and then each document that enters, changes in or leaves a conflict.

    Each subscription begins with the present conflicts. Events come where the commit is delivered, and show the document as of
    then.

    Returns:
        An Observable of `{"id", "winner", "others"}`; `winner` is None if the document was deleted.
    """
    from reactivex import operators

    def is_about_some(event: Mapping[str, Any]) -> bool:
        rows = (event.get("old_val"), event.get("new_val"))
        return any(not leaf["deleted"] for row in rows if row is not None for leaf in row["leaves"])

    def told(event: Mapping[str, Any]) -> dict[str, Any]:
        id = id_of((event.get("new_val") or event["old_val"])["id"])
        winner, others = in_conflict(database, id)
        return {"id": id, "winner": winner, "others": others}

    feed = database.session.watch(
        Query(hidden_table("conflicts", database.table_id)),
        {"include_initial": True, "on_overflow": "spill"},
        "couchdb",
    )
    return feed.pipe(operators.filter(is_about_some), operators.map(told))


def resolve(
    database: CouchDatabase, document: Mapping[str, Any], others: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Let a document replace the winner, whose `_rev` it has, and other leaves, which are deleted: in one commit.

    Returns:
        `{"ok": True, "id", "rev"}`.

    Raises:
        CouchError: 409, a leaf has changed meanwhile; then nothing was written.
    """
    return database.put(dict(document), losers=[other["_rev"] for other in others])
