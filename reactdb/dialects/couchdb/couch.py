"""Couch: a file as a CouchDB server sees it, with its databases: `reactdb.couchdb(db)`.

    couch = reactdb.couchdb(db)
    couch.create("notes")
    notes = couch["notes"]                  a CouchDatabase, as `couch.open("notes")`

Every table is a database. When it is first opened here, it gets the write hook of revisions, so that from then on every writer of
every process keeps revisions. If the file cannot be written, or the table has another write hook, it is served unchanged: a
document has a revision made of its content, and cannot be written.

A table with a special name of CouchDB, such as `_users`, is no database: CouchDB would hash and hide its content.

Rule of this file: the list of databases. `database` has the content of each.
"""

from __future__ import annotations

from hashlib import md5
from typing import Any

from reactdb.budget import CALL_STEPS, spend, spend_per_element
from reactdb.clock import time_ns
from reactdb.database import Database
from reactdb.dialects.couchdb import settings
from reactdb.dialects.couchdb.change_waiters import Wakers
from reactdb.dialects.couchdb.database import CouchDatabase, Counts
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.names import (
    RESERVED,
    check_name,
    check_name_is_served,
    database_name,
    table_name,
)
from reactdb.dialects.couchdb.reader import call_write, no_database
from reactdb.dialects.couchdb.revisions import HOOK, KINDS, hidden_table
from reactdb.dialects.couchdb.tasks import active_tasks
from reactdb.dialects.couchdb.updates import DatabaseUpdates
from reactdb.errors import InvalidOption, format_value
from reactdb.session import session_of
from reactdb.store.catalogue import TableInfo
from reactdb.store.materialized_tables import drop_table
from reactdb.store.transaction import WriteTransaction


def couchdb(db: Database) -> Couch:
    """A database as CouchDB has it: its tables are databases with revisions. `couchdb(db).create("notes").put({"_id": "a"})`.

    Raises:
        InvalidOption: It is no open Database.
    """
    if not isinstance(db, Database):
        raise InvalidOption(
            f"couchdb takes an open Database, as `connect` returns it, not {format_value(db)}"
        )
    return Couch(db)


class Couch:
    """See the head of this file. Any thread."""

    def __init__(self, db: Database, *, most_attachment_bytes: int | None = None) -> None:
        """`most_attachment_bytes`: how large an attachment may be, when it is unpacked; None: as large as a blob."""
        self._native = db
        self._most_attachment_bytes = most_attachment_bytes
        self._session = session_of(db)
        self._wakers = Wakers(session_of(db))
        self._counts: Counts = {}

    def __repr__(self) -> str:
        return f"<Couch of {self._session.engine.path}>"

    def __getitem__(self, name: str) -> CouchDatabase:
        """A database that is there, as `open` gives it."""
        return self.open(name)

    @property
    def uuid(self) -> str:
        """Names this file: 32 hexadecimal digits."""
        return md5(self._session.database_id.encode(), usedforsecurity=False).hexdigest()

    @property
    def database_id(self) -> str:
        """As reactdb has it."""
        return self._session.database_id

    def active_tasks(self) -> list[dict[str, Any]]:
        """Running compactions and synchronisations of the file in this process."""
        return active_tasks(self._session)

    def databases(self) -> list[str]:
        """The names of all databases, sorted."""
        spend(CALL_STEPS)
        names = map(database_name, spend_per_element(self._session.tables()))
        return sorted(name for name in names if name not in RESERVED)

    def create(self, name: str) -> CouchDatabase:
        """Make a database, and its table.

        Raises:
            CouchError: 400, no database can have this name; 412, it is there; 403, the file cannot be written; 501, CouchDB has
                a meaning for it.
        """
        check_name_is_served(name)
        check_name(name)

        spend(CALL_STEPS)

        def work(transaction: WriteTransaction) -> TableInfo:
            if table_name(name) in transaction.catalogue.live:
                raise CouchError(
                    412, "file_exists", "The database could not be created, the file already exists."
                )
            table = transaction.create_table(table_name(name), "_id")
            serve(transaction, table)
            return table

        table = call_write(lambda: self._session.transact(work, operation="table_create"))
        return self._database(name, table)

    def drop(self, name: str) -> None:
        """Delete a database with its table, and the hidden tables beside it.

        Raises:
            CouchError: 404, it does not exist; 403, the file cannot be written; 501, CouchDB has a special meaning for it.
        """
        check_name_is_served(name)
        spend(CALL_STEPS)

        def work(transaction: WriteTransaction) -> None:
            table = transaction.catalogue.live.get(table_name(name))
            if table is None:
                raise no_database()
            drop_table(transaction, table)
            for kind in KINDS:
                beside = transaction.catalogue.live.get(hidden_table(kind, table.id))
                if beside is not None:
                    transaction.drop_table(beside)

        call_write(lambda: self._session.transact(work, operation="table_drop"))

    def open(self, name: str) -> CouchDatabase:
        """An existing database. Its table gets the write hook, unless it has one.

        Raises:
            CouchError: 404, it does not exist; 501, CouchDB has a special meaning for it.
        """
        check_name_is_served(name)
        return self.open_table(name)

    def open_table(self, name: str) -> CouchDatabase:
        """The same by the name from `database_name`, also if `databases` does not list it: a native table may have any name, and
        be synchronised.

        Raises:
            CouchError: 404, it does not exist.
        """
        table = self._session.find(table_name(name))
        if table is None:
            raise no_database()
        if table.hook is None and not self._session.engine.read_only:

            def work(transaction: WriteTransaction) -> None:
                table = transaction.catalogue.live.get(table_name(name))
                if table is None:
                    raise no_database()
                serve(transaction, table)

            self._session.transact(work, operation="set hook")
        return self._database(name, table)

    def info(self, name: str) -> dict[str, Any]:
        """The answer of `GET /{db}`. The table stays unchanged: it gets no write hook.

        Raises:
            CouchError: 404, it does not exist; 501, CouchDB has a special meaning for it.
        """
        check_name_is_served(name)
        table = self._session.find(table_name(name))
        if table is None:
            raise no_database()
        return self._database(name, table).info()

    def updates(self, since: str = "0", *, descending: bool = False) -> DatabaseUpdates:
        """A feed of created, changed and deleted databases.

        Raises:
            CouchError: 400, `since` is no position of this file.
        """
        spend(CALL_STEPS)
        return DatabaseUpdates(self._session, since, descending=descending)

    def _database(self, name: str, table: TableInfo) -> CouchDatabase:
        database = CouchDatabase(self._native, name, table, self._wakers, self._counts)
        database.most_attachment_bytes = self._most_attachment_bytes
        return database


def serve(transaction: WriteTransaction, table: TableInfo) -> None:
    """Let a table have revisions from now on, unless it has."""
    live = transaction.catalogue.live
    if settings.SETTINGS not in live:
        transaction.create_table(settings.SETTINGS.name, "id", settings.SETTINGS.owner)
    for kind in KINDS:
        beside = hidden_table(kind, table.id)
        if beside not in live:
            transaction.create_table(beside.name, "id", beside.owner)
    current = transaction.catalogue.by_id[table.id]
    if current.hook is None:
        transaction.set_hook(current, HOOK)
        older = max(0, transaction.snapshot().newest_seq(current) - current.created)
        served = transaction.first + transaction.count
        created = str(read_second())
        settings.change(transaction, table_id=table.id, created=created, served=served, older=older)


def read_second() -> int:
    """The wall time in seconds since 1970."""
    return time_ns() // 1_000_000_000
