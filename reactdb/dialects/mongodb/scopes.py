"""Scopes: the collections of a change stream, and their tables at a position in the log.

    StreamScope(MongoNamespace("shop", "orders"))     a collection: any table with its name
    StreamScope(MongoNamespace("shop"))               a database: every collection of it
    StreamScope(None)                                 everything but the internal databases

A stream follows the log, and tables are created, dropped and renamed along it. `TableNames` are the names at one position:
today's names with the later renames undone.

Rule of this file: it knows names and numbers of tables, and no document.
"""

from __future__ import annotations

from typing import NamedTuple

from reactdb.change import CATALOGUE, TABLE_RENAME
from reactdb.dialects.mongodb.names import INTERNAL, MongoNamespace, Names
from reactdb.store.log import make_changes, read
from reactdb.store.snapshot import Snapshot

TableNames = dict[int, str]
"""The names of the existing tables by number, without hidden tables."""


class StreamScope(NamedTuple):
    """See the head of this file."""

    namespace: MongoNamespace | None = None

    @property
    def is_collection(self) -> bool:
        return self.namespace is not None and self.namespace.coll is not None

    @property
    def is_database(self) -> bool:
        return self.namespace is not None and self.namespace.coll is None

    def has(self, namespace: MongoNamespace | None) -> bool:
        """Whether a stream has events about this collection, or about this database as a whole."""
        own = self.namespace
        if namespace is None:
            return False
        if own is None:
            return namespace.db not in INTERNAL and not namespace.is_of_system
        if own.coll is None:
            return namespace.db == own.db and not namespace.is_of_system
        return namespace == own

    def ends(self, uuid: bytes | None) -> bool:
        """Whether dropping or renaming the collection of this UUID (None: dropping the database) ends the stream."""
        return self.is_collection or (self.is_database and uuid is None)

    def tables(self, names: Names, tables: TableNames) -> list[int]:
        """The numbers of its tables."""
        if self.is_collection:
            assert self.namespace is not None
            wanted = names.table(self.namespace)
            return [number for number, name in tables.items() if name == wanted]
        return [number for number, name in tables.items() if self.has(names.namespace(name))]


def names_at(snapshot: Snapshot, seq: int) -> TableNames:
    """The names of the tables as of a seq. The log must be readable from there."""
    names: dict[int, str] = {}
    if seq < snapshot.seq:
        entries, _ = read(
            snapshot.connection, snapshot.catalogue, seq, snapshot.seq, table_ids=(CATALOGUE,), limit=-1
        )
        for change in make_changes(entries, snapshot.catalogue):
            fields = change.catalogue
            if fields is not None and change.kind_code == TABLE_RENAME:
                # The first rename after the seq has the old name.
                names.setdefault(fields["table_id"], fields["table"])
    return {
        info.id: names.get(info.id, info.name)
        for info in snapshot.catalogue.by_id.values()
        if info.owner is None and info.created <= seq and (info.dropped is None or seq < info.dropped)
    }
