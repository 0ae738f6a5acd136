"""Namespaces: the databases and collections of a file, and the record of each collection beside its documents.

    spaces = Namespaces(session_of(db))
    spaces.create(MongoNamespace("shop", "orders"), {"changeStreamPreAndPostImages": {"enabled": True}})
    spaces.find(MongoNamespace("shop", "orders"))            a CollectionInfo, or None

A collection is a table (`names` converts the name), and its UUID is made of the file's identity and the table's number: a
collection that is dropped and made again has another UUID. A table has no options of MongoDB and no specifications of its
indexes, so they are a row of the hidden table COLLECTIONS, with the table's number as its key. A native table has no such row at
first.

Everything is in the log: tables as entries of the catalogue, options and indexes as entries of COLLECTIONS, and dropped databases
as entries of DATABASES. Change streams read it there.

Rule of this file: all changes of one command are one commit, or a part of the thread's transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID, uuid5

import bson
from bson.binary import UUID_SUBTYPE, Binary
from bson.codec_options import CodecOptions, DatetimeConversion

from reactdb.change import HiddenTable
from reactdb.dialects.mongodb.clock import ClusterClock
from reactdb.dialects.mongodb.collation import simple
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.names import MongoNamespace, Names, check_new_name
from reactdb.dialects.mongodb.targets import Target
from reactdb.errors import ReadOnlyDatabase
from reactdb.session import Session
from reactdb.store.catalogue import TableInfo
from reactdb.store.materialized_tables import drop_table
from reactdb.store.snapshot import Snapshot
from reactdb.store.transaction import WriteTransaction
from reactdb.values import codec, collation

T = TypeVar("T")

OWNER: Final = "mongodb"
COLLECTIONS: Final = HiddenTable(OWNER, "collections")
DATABASES: Final = HiddenTable(OWNER, "databases")
PLACES: Final = "places."
"""Tables of places are called so, with the number of the table of documents behind."""
ID_INDEX: Final[Mapping[str, Any]] = {"v": 2, "key": {"_id": 1}, "name": "_id_"}
"""The specification of the `_id` index of every collection."""
MODIFIABLE: Final = ("expireAfterSeconds", "hidden", "prepareUnique", "unique")
"""The options of an index for `collMod`."""
IMAGES: Final = "changeStreamPreAndPostImages"
RULES: Final = "mongodb.rules"
"""The write hook of tables with rules for their documents (`rules`)."""
VIEW_KEY: Final = "viewOn"
"""The primary key of a view's table, which has no documents. It marks the view, so its options need not be read for that."""

_UUIDS: Final = UUID("6d0f1f7e-5d5c-4f0b-9a3e-0c2c2f6f8f11")
# A condition or a validator may contain a date outside Python's years.
_CODEC: Final[CodecOptions[dict[str, Any]]] = CodecOptions(
    tz_aware=False, datetime_conversion=DatetimeConversion.DATETIME_AUTO
)


@lru_cache(maxsize=4_096)
def place_table(table_id: int) -> HiddenTable:
    """The hidden table with the insertion order of a collection (`natural`)."""
    return HiddenTable(OWNER, f"{PLACES}{table_id}")


def order_table(table_id: int) -> HiddenTable:
    """The hidden table with the order of a capped collection (`capped_collections`)."""
    return HiddenTable(OWNER, f"order.{table_id}")


class CollectionRecord(NamedTuple):
    """The record of a collection beside its documents.

    Attributes:
        options: Set by `create` and `collMod`.
        indexes: The specifications of its indexes without the `_id` index, in the order of their creation.
        is_native: Its table is native.
        times_modified: The number of `collMod` commands. Change streams report each of them, also without any change.
        modified: The arguments of the last `collMod`.
    """

    options: dict[str, Any]
    indexes: tuple[dict[str, Any], ...] = ()
    is_native: bool = False
    times_modified: int = 0
    modified: Mapping[str, Any] = {}

    @property
    def is_view(self) -> bool:
        return "viewOn" in self.options

    @property
    def has_images(self) -> bool:
        """Change streams have the documents before and after updates: if the option is on, and for a native table unless it is
        off. The log has both in any case."""
        images = self.options.get(IMAGES)
        return images.get("enabled") is True if isinstance(images, dict) else self.is_native


NATIVE: Final = CollectionRecord({}, is_native=True)
"""The record of a native table without a row in COLLECTIONS."""


class CollectionInfo(NamedTuple):
    """A collection as it is now.

    Attributes:
        table: Its table.
        options, indexes: As in `CollectionRecord`.
    """

    namespace: MongoNamespace
    table: TableInfo
    uuid: Binary
    record: CollectionRecord

    @property
    def options(self) -> dict[str, Any]:
        return self.record.options

    @property
    def indexes(self) -> tuple[dict[str, Any], ...]:
        return self.record.indexes

    @property
    def cap(self) -> dict[str, Any]:
        """The bounds of a capped collection, for statistics."""
        if not self.options.get("capped"):
            return {"capped": False}
        return {"capped": True, "max": self.options.get("max", 0), "maxSize": self.options["size"]}


class Namespaces:
    """See the head of this file. Any thread."""

    def __init__(self, session: Session, names: Names | None = None) -> None:
        self.session = session
        self.names = names or Names()
        self.clock = ClusterClock(session)
        # By table number: the table, because a rolled-back table leaves its number to the next one, and its collation.
        self._collations: dict[int, tuple[TableInfo, dict[str, Any] | None]] = {}

    # -----------------------------------------------------------------------------------------------------------
    # Reading

    def uuid(self, table_id: int) -> Binary:
        """The UUID of the present or former collection with this table number."""
        return uuid_of(self.session.database_id, table_id)

    def databases(self) -> list[str]:
        """The sorted names of the databases with a collection."""
        return sorted({namespace.db for namespace, _ in self._tables()})

    def collections(self, db: str) -> list[CollectionInfo]:
        """The collections of a database, by name."""
        tables = sorted((namespace, table) for namespace, table in self._tables() if namespace.db == db)
        return [self._collection(namespace, self.session.info(table)) for namespace, table in tables]

    def find(self, namespace: MongoNamespace) -> CollectionInfo | None:
        """A collection by its name, or None.

        Raises:
            MongoError: 73, there can be none of this name.
        """
        table = self.session.find(self.names.table(namespace))
        return None if table is None else self._collection(namespace, table)

    def table(self, namespace: MongoNamespace) -> TableInfo | None:
        """The table of a collection, or None: the shortest way. Errors as for `find`."""
        return self.session.find(self.names.table(namespace))

    def view(self, namespace: MongoNamespace) -> tuple[MongoNamespace, list[dict[str, Any]]] | None:
        """The source of a view: a collection or view, and the pipeline. None if it is no view."""
        table = self.table(namespace)
        if table is None or table.primary_key != VIEW_KEY:
            return None
        options = self.record(table).options
        if "viewOn" not in options:
            return None
        return MongoNamespace(namespace.db, options["viewOn"]), options.get("pipeline", [])

    def record(self, table: TableInfo) -> CollectionRecord:
        """The record of a collection."""
        if self.session.find(COLLECTIONS) is None:
            return NATIVE
        body = self.session.get(COLLECTIONS, row_key(table.id))
        return NATIVE if body is None else record_of(body)

    def collation(self, namespace: MongoNamespace, given: Any = None) -> Any:
        """The collation of a command, or else of its collection or view; None for the simple collation."""
        if given:
            return simple(given)
        table = self.table(namespace)
        if table is None:
            return None
        known = self._collations.get(table.id)
        if known is None or known[0] is not table:
            # It is set at the creation of a collection, and stays.
            known = self._collations[table.id] = table, self.record(table).options.get("collation")
        return known[1]

    def _tables(self) -> list[tuple[MongoNamespace, str]]:
        tables = [(self.names.namespace(name), name) for name in self.session.tables()]
        return [(namespace, name) for namespace, name in tables if namespace is not None]

    def _collection(self, namespace: MongoNamespace, table: TableInfo) -> CollectionInfo:
        return CollectionInfo(namespace, table, self.uuid(table.id), self.record(table))

    # -----------------------------------------------------------------------------------------------------------
    # Changes

    def create(self, namespace: MongoNamespace, options: Mapping[str, Any] | None = None) -> CollectionInfo:
        """Make a collection.

        Args:
            options: The options of `create` to keep.

        Raises:
            MongoError: 48, it exists; 73, the name is invalid; 13, the file cannot be written.
        """
        name = self.names.table(namespace)

        def work(transaction: WriteTransaction) -> TableInfo:
            if name in transaction.catalogue.live:
                raise MongoError(48, f"Collection {namespace} already exists. NS: {namespace}")
            check_new_name(namespace)
            return self._make(transaction, name, CollectionRecord(dict(options or {})))

        return self._collection(namespace, self._transact(work))

    def within(
        self,
        transaction: WriteTransaction,
        namespace: MongoNamespace,
        options: Mapping[str, Any] | None = None,
    ) -> TableInfo:
        """The table of a collection, for a write in this transaction: if it is missing, it is made with these options. Errors as
        for `create`."""
        name = self.names.table(namespace)
        there = transaction.catalogue.live.get(name)
        if there is not None:
            return there
        check_new_name(namespace)
        return self._make(transaction, name, CollectionRecord(dict(options or {})))

    def ensure(self, namespace: MongoNamespace) -> TableInfo:
        """The same by itself."""
        return self.table(namespace) or self._transact(
            lambda transaction: self.within(transaction, namespace)
        )

    def drop(self, namespace: MongoNamespace) -> bool:
        """Drop a collection. Returns: whether it existed."""
        name = self.names.table(namespace)

        def work(transaction: WriteTransaction) -> bool:
            table = transaction.catalogue.live.get(name)
            if table is not None:
                self._drop(transaction, table)
            return table is not None

        return self._transact(work)

    def drop_database(self, db: str) -> bool:
        """Drop all collections of a database. Returns: whether there were any; without, nothing is logged."""

        def work(transaction: WriteTransaction) -> bool:
            tables = [
                (namespace, table)
                for name, table in transaction.catalogue.ordinary().items()
                if (namespace := self.names.namespace(name)) is not None and namespace.db == db
            ]
            for _, table in sorted(tables, key=lambda one: one[0]):
                self._drop(transaction, table)
            if tables:
                rows = hidden(transaction, DATABASES)
                key = collation.key_bytes(db)
                head = transaction.head(rows, key)
                times = 0 if head is None else codec.decode(head[1])["times"]
                transaction.put(rows, key, codec.encode({"id": db, "times": times + 1}))
            return bool(tables)

        return self._transact(work)

    def rename(self, source: MongoNamespace, target: MongoNamespace, *, drop_target: bool = False) -> None:
        """Give a collection another name, also in another database.

        Raises:
            MongoError: 26, there is no source; 48, the target is there, unless `drop_target`; 20, they are the same; 73.
        """
        old, new = self.names.table(source), self.names.table(target)

        def work(transaction: WriteTransaction) -> None:
            table, there = transaction.catalogue.live.get(old), transaction.catalogue.live.get(new)
            if table is None:
                raise MongoError(26, f"Source collection {source} does not exist")
            if old == new:
                raise MongoError(20, "Can't rename a collection to itself")
            if read_record(transaction, table).is_view:
                raise MongoError(166, f"cannot rename view: {source}")
            if there is not None:
                if not drop_target or read_record(transaction, there).is_view:
                    raise MongoError(48, "target namespace exists")
                self._drop(transaction, there)
            transaction.rename_table(transaction.catalogue.by_id[table.id], new)

        self._transact(work)

    def modify(
        self,
        namespace: MongoNamespace,
        options: Mapping[str, Any],
        *,
        modified: Mapping[str, Any] | None = None,
    ) -> CollectionInfo:
        """Set some options of a collection, as `collMod` does; None removes an option.

        Args:
            `modified`: The options in the event of change streams, if they differ.

        Raises:
            MongoError: 26, it does not exist.
        """
        name = self.names.table(namespace)

        def work(transaction: WriteTransaction) -> TableInfo:
            table = transaction.catalogue.live.get(name)
            if table is None:
                raise MongoError(26, f"ns does not exist: {namespace}")
            record = read_record(transaction, table)
            merged = {
                name: value for name, value in (record.options | dict(options)).items() if value is not None
            }
            changed = record._replace(
                options=merged,
                times_modified=record.times_modified + 1,
                modified=dict(options if modified is None else modified),
            )
            write_record(transaction, table, changed)
            self._set_rules(transaction, table, changed)
            return table

        return self._collection(namespace, self._transact(work))

    def _make(self, transaction: WriteTransaction, name: str, record: CollectionRecord) -> TableInfo:
        hidden(transaction, COLLECTIONS)
        table = transaction.create_table(name, VIEW_KEY if "viewOn" in record.options else "_id")
        write_record(transaction, table, record)
        self._set_rules(transaction, table, record)
        if record.options.get("capped"):
            hidden(transaction, order_table(table.id))
        return transaction.catalogue.by_id[table.id]

    @staticmethod
    def _set_rules(transaction: WriteTransaction, table: TableInfo, record: CollectionRecord) -> None:
        """Set or remove the write hook of a table, depending on its options."""
        wanted = RULES if record.options.get("validator") or record.options.get("capped") else None
        if wanted is not None and table.hook not in (None, RULES):
            raise MongoError(
                72, f"the table has the write hook `{table.hook}`, so it cannot have a validator"
            )
        if table.hook != wanted and RULES in (table.hook, wanted):
            transaction.set_hook(table, wanted)

    def _drop(self, transaction: WriteTransaction, table: TableInfo) -> None:
        drop_table(transaction, table)
        rows = transaction.catalogue.live.get(COLLECTIONS)
        if rows is not None:
            transaction.put(rows, row_key(table.id), None)
        for hidden_table in (order_table(table.id), place_table(table.id)):
            beside = transaction.catalogue.live.get(hidden_table)
            if beside is not None:
                transaction.drop_table(beside)

    def _transact(self, work: Callable[[WriteTransaction], T]) -> T:
        try:
            return self.session.transact(work)
        except ReadOnlyDatabase as error:
            raise MongoError(13, str(error)) from None


# ---------------------------------------------------------------------------------------------------------------
# Rows of COLLECTIONS


@lru_cache(maxsize=4_096)
def uuid_of(database_id: str, table_id: int) -> Binary:
    """The UUID of a collection."""
    return Binary(uuid5(_UUIDS, f"{database_id}/{table_id}").bytes, UUID_SUBTYPE)


def row_key(table_id: int) -> bytes:
    return collation.key_bytes(table_id)


def record_of(body: bytes) -> CollectionRecord:
    """The record in a row."""
    row = codec.decode(body)
    options, indexes = (
        bson.decode(row["options"], _CODEC),
        [bson.decode(one, _CODEC) for one in row["indexes"]],
    )
    modified = bson.decode(row["said"], _CODEC) if "said" in row else {}
    return CollectionRecord(options, tuple(indexes), row["native"], row.get("modified", 0), modified)


def is_view(snapshot: Snapshot, table: TableInfo) -> bool:
    """Whether a table is, or was, the table of a view."""
    rows = snapshot.table(COLLECTIONS) if table.primary_key == VIEW_KEY else None
    if rows is None:
        return False
    body = snapshot.get(rows, row_key(table.id))
    if body is None:
        dropped = next(iter(snapshot.history(rows, row_key(table.id))), None)
        body = None if dropped is None else dropped.old_bytes
    return body is not None and record_of(body).is_view


def read_record(transaction: Target, table: TableInfo) -> CollectionRecord:
    """The record of a collection, as a transaction sees it."""
    rows = transaction.catalogue.live.get(COLLECTIONS)
    head = None if rows is None else transaction.head(rows, row_key(table.id))
    return NATIVE if head is None else record_of(head[1])


def write_record(transaction: WriteTransaction, table: TableInfo, record: CollectionRecord) -> None:
    """Keep this of a collection from now on."""
    rows = hidden(transaction, COLLECTIONS)
    row = {
        "id": table.id,
        "options": bson.encode(record.options),
        "indexes": list(map(bson.encode, record.indexes)),
        "native": record.is_native,
        "modified": record.times_modified,
    }
    if record.modified:
        row["said"] = bson.encode(record.modified)
    transaction.put(rows, row_key(table.id), codec.encode(row))


def keep_indexes(
    transaction: WriteTransaction, table: TableInfo, indexes: Sequence[Mapping[str, Any]]
) -> None:
    """Store these specifications of indexes, in this order, without the `_id` index."""
    record = read_record(transaction, table)
    write_record(transaction, table, record._replace(indexes=tuple(map(dict, indexes))))


def hidden(target: Target, table: HiddenTable) -> TableInfo:
    """A hidden table. It is made if it is missing."""
    known = target.catalogue.live.get(table)
    return known or target.create_table(table.name, "id", table.owner)
