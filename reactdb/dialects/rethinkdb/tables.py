"""Databases and tables: the mapping of names to the file, and the lists of both.

A table `x.y` of the file is the driver's db("x").table("y"); tables of `test` have plain names. A database exists if one of
its tables does, or if `db_create` has put a document into the table `rethinkdb.db_config`; `test` always exists. Native
code sees all of these as tables.

`db("rethinkdb")` has `_debug_scratch`, an ordinary table that is created on first use, and the computed tables: see `system`.

Rule of this file: names and existence. It reads and writes only the list of databases.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID, uuid5

from reactdb.change import HiddenTable
from reactdb.database import Database as NativeDatabase
from reactdb.dialects.rethinkdb.errors import OperationFailed
from reactdb.dialects.rethinkdb.values import TableName
from reactdb.errors import InvalidName, QueryError, TableExists
from reactdb.query import Query
from reactdb.session import session_of
from reactdb.store.catalogue import TableInfo
from reactdb.table import Table as NativeTable

SYSTEM: Final = "rethinkdb"
DATABASES: Final = "rethinkdb.db_config"
SCRATCH: Final = "_debug_scratch"
COMPUTED: Final = (
    "current_issues",
    "db_config",
    "jobs",
    "logs",
    "server_config",
    "server_status",
    "stats",
    "table_config",
    "table_status",
)
MAX_INDEX_NAME: Final = 255
_SPACE: Final = UUID("6d3a91a2-2f0c-4c67-8f50-5b1f2f4a7c11")


class TableNotes:
    """Notes on tables, beside their documents: a hidden table whose key is the table's name in the file.

    Before there were hidden tables the notes were in an ordinary table, `rethinkdb.NAME`. They are moved at their first use.
    """

    def __init__(self, name: str) -> None:
        self._home = HiddenTable(SYSTEM, name)
        self._before = f"{SYSTEM}.{name}"

    def all(self, native: NativeDatabase) -> NativeTable | None:
        """The table of notes; None if it does not exist yet."""
        session = session_of(native)
        if session.find_cached(self._before) is not None:
            if session.engine.read_only:
                return native.table(self._before)
            self._take_over(native)
        if session.find_cached(self._home) is None:
            return None
        return NativeTable(session, Query(self._home))

    def get(self, native: NativeDatabase, table: TableName) -> dict[str, Any] | None:
        notes = self.all(native)
        note: dict[str, Any] | None = None if notes is None else notes.get(table.file_name).run()
        return note

    def put(self, native: NativeDatabase, table: TableName, fields: dict[str, Any]) -> None:
        """Keep these fields; others of an earlier note stay."""
        with native.transaction():
            notes = self.all(native)
            if notes is None:
                notes = self._made(native)
            notes.insert({**fields, "table": table.file_name}, conflict="update")

    def forget(self, native: NativeDatabase, table: TableName) -> None:
        # Another process may have made it a moment ago.
        session_of(native).find(self._home)
        notes = self.all(native)
        if notes is not None:
            notes.get(table.file_name).delete()

    def move(self, native: NativeDatabase, old: TableName, new: TableName) -> None:
        """Keep the note of a table that is renamed."""
        note = self.get(native, old)
        if note is not None:
            with native.transaction():
                self.forget(native, old)
                self.put(native, new, note)

    def _made(self, native: NativeDatabase) -> NativeTable:
        session_of(native).make_hidden(self._home, "table")
        return NativeTable(session_of(native), Query(self._home))

    def _take_over(self, native: NativeDatabase) -> None:
        with native.transaction():
            if self._before in native.table_list():
                self._made(native).insert(native.table(self._before).run(), conflict="replace")
                native.table_drop(self._before)


HOOKS: Final = TableNotes("table_hooks")
SETTINGS: Final = TableNotes("table_settings")


def check_name(kind: str, name: str) -> str:
    """A name of a database or a table.

    Raises:
        QueryError: The name is not allowed; with ReQL's message.
    """
    if not name:
        raise QueryError(f"{kind} name `{name}` invalid (Name must not be empty).")
    if len(name) > 127 or not all(
        letter.isascii() and (letter.isalnum() or letter in "_-") for letter in name
    ):
        raise QueryError(f"{kind} name `{name}` invalid (Use A-Z, a-z, 0-9, _ and - only).")
    return name


def databases(native: NativeDatabase) -> list[str]:
    """The names of the databases, sorted."""
    names = {"test", SYSTEM}
    for name in native.table_list():
        database, dot, _ = name.partition(".")
        if dot:
            names.add(database)
    if DATABASES in native.table_list():
        names.update(document["name"] for document in native.table(DATABASES))
    return sorted(names)


def check_database(native: NativeDatabase, name: str) -> None:
    if name not in ("test", SYSTEM) and name not in databases(native):
        raise OperationFailed(f"Database `{name}` does not exist.")


def create_database(native: NativeDatabase, name: str) -> dict[str, Any]:
    check_name("Database", name)
    if name in databases(native):
        raise OperationFailed(f"Database `{name}` already exists.")
    native.table_create(DATABASES, exist_ok=True)
    document = {"id": database_id(native, name), "name": name}
    native.table(DATABASES).insert(document, conflict="replace")
    return {"config_changes": [{"new_val": document, "old_val": None}], "dbs_created": 1}


def drop_database(native: NativeDatabase, name: str) -> dict[str, Any]:
    if name == SYSTEM:
        raise OperationFailed("Database `rethinkdb` is special; you can't delete it.")
    check_database(native, name)
    document = {"id": database_id(native, name), "name": name}
    dropped = tables(native, name)
    for table in dropped:
        native.table_drop(TableName(name, table).file_name)
    if DATABASES in native.table_list():
        native.table(DATABASES).get(document["id"]).delete()
    return {
        "config_changes": [{"new_val": None, "old_val": document}],
        "dbs_dropped": 1,
        "tables_dropped": len(dropped),
    }


def tables(native: NativeDatabase, database: str) -> list[str]:
    """The names of a database's tables, sorted."""
    if database == SYSTEM:
        return sorted((*COMPUTED, SCRATCH))
    names = native.table_list()
    if database == "test":
        return [name for name in names if "." not in name]
    start = f"{database}."
    return [name[len(start) :] for name in names if name.startswith(start)]


def table_info(native: NativeDatabase, table: TableName) -> TableInfo:
    """The table's entry in the catalogue.

    Raises:
        OperationFailed: There is no such database or table.
    """
    info = session_of(native).find(table.file_name)
    if info is not None:
        return info
    check_database(native, table.database)
    if table.database == SYSTEM and table.name == SCRATCH:
        native.table_create(table.file_name, exist_ok=True)
        return table_info(native, table)
    raise OperationFailed(f"Table `{table}` does not exist.")


def is_made_natively(native: NativeDatabase, table: TableName) -> bool:
    """Whether the table exists with a dot in its name, which drivers cannot give: `rooms.old` of the database `arena`."""
    return "." in table.name and table.database != "test" and table.file_name in native.table_list()


def is_computed(table: TableName | None) -> bool:
    """Whether the table's documents are computed when they are read: see `system`."""
    return table is not None and table.database == SYSTEM and table.name in COMPUTED


def create_table(native: NativeDatabase, table: TableName, primary_key: str) -> TableInfo:
    check_database(native, table.database)
    if table.database == SYSTEM:
        raise OperationFailed("Database `rethinkdb` is special; you can't create new tables in it.")
    check_name("Table", table.name)
    try:
        native.table_create(table.file_name, primary_key)
    except TableExists:
        raise OperationFailed(f"Table `{table}` already exists.") from None
    except InvalidName:
        raise QueryError(f"Table name `{table.name}` invalid (Use A-Z, a-z, 0-9, _ and - only).") from None
    return table_info(native, table)


def check_index_name(name: str) -> None:
    """Check the name of an index. RethinkDB accepts any text, and its tool for rebuilding indexes makes names like
    `$reql_temp_index$_score`. A name is only a value in the catalogue, so it must only be short and printable.

    Raises:
        QueryError: It is empty, too long, or has control characters.
    """
    if not name or len(name) > MAX_INDEX_NAME or not name.isprintable():
        raise QueryError(
            f"Index name `{name[:64]}` invalid (Use 1 to {MAX_INDEX_NAME} characters that can be printed)."
        )


def database_id(native: NativeDatabase, name: str) -> str:
    return str(uuid5(_SPACE, f"{session_of(native).database_id}/{name}"))


def table_id(native: NativeDatabase, info: TableInfo) -> str:
    return str(uuid5(_SPACE, f"{session_of(native).database_id}//{info.id}"))
