"""The file's format: its tables, step by step from nothing. docs/reference/format.md explains each byte.

A new file is made in one go as all steps would leave it, because each ALTER TABLE costs as much as several tables.
For an older file, `migrations` takes the steps with sqlite-utils, whose import costs more than all other work of
opening a file. Both have the same statements.

The names in the file that other files have other words for:

    log              each row is an entry (a change); `seal` is its checksum, as in other tables
    heads, graves    the seq of the newest entry of each document; of each deleted document (its tombstone)
    marks            the blocks of 32 seqs with changes of a table, and its running sums as of a block
    entries          index entries: one for each value under which an index has a document. No log entries

Rule of this file: a released step is never edited; the next format is another step. All steps run inside one BEGIN
IMMEDIATE of ours, so that a crash leaves the old format or the new one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from reactdb.clock import now
from reactdb.errors import CorruptDatabase, IncompatibleFormat, NotADatabase
from reactdb.store.checksums import checksum_or_none, values_checksum
from reactdb.store.file.sqlite import ADVICE, Connection

# "rDB" and a format family. `file(1)` and foreign programs can identify the file by it.
APPLICATION_ID = 0x72444231
FORMAT_VERSION = 4

# A mark says "this table has entries among these 32 seqs". Reading one table's changes then touches at most 31
# entries of other tables beside each of its own, and reads none of their documents. An index on (table, seq) touches
# no others, but costs a bulk insert 40% and each small commit another page; marks cost a row in 32.
BLOCK_BITS = 5

# The rows of the tables, and of the indexes, in the order of their numbers.
CatalogueRows = tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]

DAMAGED_LISTS = f"the lists of tables, indexes and settings do not match their checksum. {ADVICE}"

LOG_1 = "seq, table_id, kind, step, prev, time, key, body, origin, meta"
CHECKSUM_COLUMNS = 10
CHECKSUM = f"reactdb_seal({LOG_1})"


# Of format 1. In braces: where SQLite puts the columns that later formats have added (ADDED).
TABLES_1 = (
    # The log is the database: each document version once, in the entry that wrote it.
    # Not AUTOINCREMENT: seqs are given by the writer, and `snapshot.read_head_seq` says why none is given twice.
    """CREATE TABLE log (
            seq INTEGER PRIMARY KEY,
            table_id INTEGER NOT NULL,
            kind INTEGER NOT NULL,
            step INTEGER NOT NULL,
            prev INTEGER,
            time INTEGER NOT NULL,
            key BLOB NOT NULL,
            body BLOB,
            origin TEXT,
            meta BLOB
        {log})""",
    "CREATE TABLE heads (table_id INTEGER, key BLOB, seq INTEGER NOT NULL, PRIMARY KEY (table_id, key)) WITHOUT ROWID",
    "CREATE TABLE graves (table_id INTEGER, key BLOB, seq INTEGER NOT NULL, PRIMARY KEY (table_id, key)) WITHOUT ROWID",
    "CREATE TABLE marks (table_id INTEGER, block INTEGER{marks}, PRIMARY KEY (table_id, block)) WITHOUT ROWID",
    """CREATE TABLE entries (
            index_id INTEGER, value BLOB, key BLOB, tag INTEGER,
            PRIMARY KEY (index_id, value, key, tag)
        ) WITHOUT ROWID""",
    """CREATE TABLE tables (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            name TEXT NOT NULL,
            primary_key TEXT NOT NULL,
            created INTEGER NOT NULL,
            dropped INTEGER
        {tables})""",
    """CREATE TABLE indexes (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            table_id INTEGER NOT NULL,
            name TEXT NOT NULL,
            expression BLOB NOT NULL,
            multi INTEGER NOT NULL{indexes},
            UNIQUE (table_id, name)
        )""",
    "CREATE TABLE epochs (epoch TEXT PRIMARY KEY, since INTEGER NOT NULL, position INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value{facts}) WITHOUT ROWID",
)
# (format, table, column) in order.
ADDED = (
    (2, "log", "seal INTEGER"),
    (3, "facts", "seal INTEGER"),
    (3, "tables", "owner TEXT"),
    (3, "tables", "hook TEXT"),
    (3, "marks", "newest INTEGER"),
    (3, "marks", "sums BLOB"),
    (4, "indexes", "is_unique INTEGER NOT NULL DEFAULT 0"),
)
TABLES_3 = (
    "CREATE UNIQUE INDEX tables_by_name ON tables (ifnull(owner, ''), name) WHERE dropped IS NULL",
    "CREATE INDEX epochs_by_since ON epochs (since, position)",
    """CREATE TABLE positions (
            kind TEXT, name TEXT, part INTEGER,
            position INTEGER,
            epoch TEXT,
            fence INTEGER NOT NULL,
            holder TEXT,
            leased INTEGER,
            attempts INTEGER NOT NULL,
            value BLOB,
            seal INTEGER NOT NULL,
            PRIMARY KEY (kind, name, part)
        ) WITHOUT ROWID""",
    # Not WITHOUT ROWID, because pieces are found by the number; AUTOINCREMENT, so that a late writer of a piece
    # cannot add it to another blob.
    """CREATE TABLE blobs (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            digest BLOB UNIQUE,
            size INTEGER NOT NULL,
            piece_bytes INTEGER NOT NULL,
            time INTEGER NOT NULL,
            used INTEGER NOT NULL,
            seal INTEGER NOT NULL
        )""",
    "CREATE INDEX blobs_unused ON blobs (time) WHERE used = 0",
    # By a number that combines the blob's and the piece's: a tree ordered by a key has large rows in its inner pages,
    # too, and a tree by row ids with an index is two trees.
    "CREATE TABLE pieces (id INTEGER PRIMARY KEY, seal INTEGER NOT NULL, bytes BLOB NOT NULL)",
    "CREATE TABLE blob_refs (seq INTEGER, blob INTEGER, PRIMARY KEY (seq, blob)) WITHOUT ROWID",
    "CREATE INDEX blob_refs_by_blob ON blob_refs (blob)",
)


def log_heads_indexes(connection: Connection) -> None:
    """Format 1, from nothing."""
    _make_tables(connection, 1)
    connection.execute("CREATE UNIQUE INDEX tables_by_name ON tables (name) WHERE dropped IS NULL")
    connection.executemany("INSERT INTO facts (name, value) VALUES (?, ?)", _make_first_facts())
    _begin_epoch(connection)


def _make_tables(connection: Connection, version: int) -> None:
    """Make the tables of format 1, with the columns of a later format."""
    columns = {table: "" for _, table, _ in ADDED}
    for first, table, column in ADDED:
        if first <= version:
            columns[table] += f", {column}"
    for statement in TABLES_1:
        connection.execute(statement.format_map(columns))


def _add_columns(connection: Connection, version: int) -> None:
    for first, table, column in ADDED:
        if first == version:
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {column}")


def new_database_id() -> str:
    """An identity that no other database has."""
    return os.urandom(8).hex()


def _make_first_facts() -> list[tuple[str, Any]]:
    return [("database_id", new_database_id()), ("low_water", 0), ("catalogue", 0)]


def _begin_epoch(connection: Connection) -> None:
    connection.execute("INSERT INTO epochs (epoch, since, position) VALUES (?, 0, 1)", [os.urandom(6).hex()])


def add_checksums(connection: Connection) -> None:
    """Format 2: each log entry has a checksum. Existing entries get a checksum of their present content: a mistake
    that format 1 let in stays."""
    connection.create_function("reactdb_seal", CHECKSUM_COLUMNS, checksum_or_none, deterministic=True)
    _add_columns(connection, 2)
    connection.execute(f"UPDATE log SET seal = {CHECKSUM}")
    connection.create_function("reactdb_seal", CHECKSUM_COLUMNS, None)
    connection.execute("INSERT INTO facts (name, value) VALUES ('seal', ?)", (_sum_format_2(connection),))


def add_positions_and_blobs(connection: Connection) -> None:
    """Format 3: facts and positions have a checksum each; tables have owners and hooks; the newest seq of a table and
    the epoch of a position take one look-up; blobs. No rewrite grows with the documents.

    Raises:
        CorruptDatabase: The rows that get checksums here do not match the older checksum.
    """
    check_format_2(connection)
    _add_columns(connection, 3)
    connection.execute("DROP INDEX tables_by_name")
    for statement in TABLES_3:
        connection.execute(statement)
    receipts = "SELECT name, value FROM facts WHERE name >= 'receipt ' AND name < 'receipt!'"
    for name, number in connection.execute(receipts).fetchall():
        row = ("receipt", name.removeprefix("receipt "), 0, number, None, 0, None, None, 0, None)
        connection.execute(
            "INSERT INTO positions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, values_checksum(*row))
        )
        connection.execute("DELETE FROM facts WHERE name = ?", (name,))
    for name, value in connection.execute("SELECT name, value FROM facts").fetchall():
        set_fact(connection, name, value)
    _note_newest(connection)
    set_fact(connection, "seal", _sum_format_3(connection))


def _note_newest(connection: Connection) -> None:
    """For tables whose newest entries compaction has removed: no change of theirs is newer than the low-water
    mark."""
    low = int(read_fact(connection, "low_water"))
    if not low:
        return
    for (table_id,) in connection.execute("SELECT id FROM tables ORDER BY id").fetchall():
        (block,) = connection.execute(
            "SELECT max(block) FROM marks WHERE table_id = ?", (table_id,)
        ).fetchone()
        if block is None:
            connection.execute(
                "INSERT INTO marks (table_id, block, newest) VALUES (?, ?, ?)",
                (table_id, low >> BLOCK_BITS, low),
            )
            continue
        first, end = block << BLOCK_BITS, (block + 1) << BLOCK_BITS
        where = "FROM log WHERE seq >= ? AND seq < ? AND table_id = ?"
        if connection.execute(f"SELECT 1 {where}", (first, end, table_id)).fetchone() is None:
            connection.execute(
                "UPDATE marks SET newest = ? WHERE table_id = ? AND block = ?",
                (min(low, end - 1), table_id, block),
            )


def add_unique_indexes(connection: Connection) -> None:
    """Format 4: an index can be unique. An older program would not keep such an index, so it must not open the file.

    Raises:
        CorruptDatabase: The lists of tables and indexes do not match the older checksum.
    """
    # Imported here because only an older file needs it.
    from reactdb.store.mongodb_indexes import set_older_unique_indexes

    check_format_3(connection)
    _add_columns(connection, 4)
    set_older_unique_indexes(connection)
    # A process of an older version that has the file open reads the lists again, finds a checksum that it does not expect, and
    # stops writing.
    set_fact(connection, "catalogue", int(read_fact(connection, "catalogue")) + 1)
    write_catalogue_checksum(connection)


# Format -> its name in the list of migrations, and the step that makes it from the format before.
STEPS: dict[int, tuple[str, Callable[[Connection], None]]] = {
    1: ("m001_log_heads_indexes", log_heads_indexes),
    2: ("m002_seals", add_checksums),
    3: ("m003_positions_and_blobs", add_positions_and_blobs),
    4: ("m004_unique_indexes", add_unique_indexes),
}
# The list in which sqlite-utils notes executed migrations, in its words.
MIGRATIONS_LIST = (
    """CREATE TABLE "_sqlite_migrations" (
   "id" INTEGER PRIMARY KEY,
   "migration_set" TEXT,
   "name" TEXT,
   "applied_at" TEXT
)""",
    """CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name")""",
)


def make(connection: Connection, version: int = FORMAT_VERSION) -> None:
    """The tables of a format in an empty database, as migrations from nothing would leave them. Inside a transaction."""
    for statement in MIGRATIONS_LIST:
        connection.execute(statement)
    if version == FORMAT_VERSION:
        _make_today(connection)
    for number, (name, step) in STEPS.items():
        if number <= version:
            if version < FORMAT_VERSION:
                step(connection)
            connection.execute(
                "INSERT INTO \"_sqlite_migrations\" (migration_set, name, applied_at) VALUES ('reactdb', ?, ?)",
                (name, str(now())),
            )


def _make_today(connection: Connection) -> None:
    _make_tables(connection, FORMAT_VERSION)
    for statement in TABLES_3:
        connection.execute(statement)
    for name, value in _make_first_facts():
        set_fact(connection, name, value)
    _begin_epoch(connection)
    write_catalogue_checksum(connection)


def identify(connection: Connection, path: str) -> int:
    """The format version of the file: 0 for an empty file.

    Raises:
        NotADatabase: An SQLite file of another program.
        IncompatibleFormat: Written by a newer reactdb.
    """
    is_alone = not connection.in_transaction
    if is_alone:
        # As of one moment: another process may be making the tables just now.
        connection.execute("BEGIN")
    try:
        (application_id,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        objects = 0
        if application_id != APPLICATION_ID:
            # Only then: SQLite reads all declarations in the file for it, a tenth of the time until a first document.
            (objects,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    finally:
        if is_alone and connection.in_transaction:
            connection.execute("ROLLBACK")
    if application_id != APPLICATION_ID:
        if objects or application_id:
            raise NotADatabase(path, "it is an SQLite file of another program")
        return 0
    if version > FORMAT_VERSION:
        raise IncompatibleFormat(
            f"{path} has format {version}, written by a newer reactdb; this one reads formats up to {FORMAT_VERSION}: "
            "upgrade reactdb"
        )
    return int(version)


def migrate(connection: Connection, path: str) -> None:
    """Bring the file to today's format; nothing happens where it is there already."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Looked at again under the lock: another process may have made the tables since.
        version = identify(connection, path)
        if version < FORMAT_VERSION:
            if version:
                # Imported here because most files have today's format.
                from reactdb.store import migrations

                migrations.apply(connection, STEPS)
            else:
                make(connection)
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={FORMAT_VERSION}")
            name_log(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


# Views that show an older format to a read-only connection as today's: the first format that has the column, and the
# view.
VIEWS: dict[str, tuple[int, str]] = {
    "log": (2, f"SELECT {LOG_1}, {CHECKSUM} AS seal FROM main.log"),
    "facts": (3, "SELECT name, value, reactdb_values(name, value) AS seal FROM main.facts"),
    "tables": (
        3,
        "SELECT id, name, primary_key, created, dropped, NULL AS owner, NULL AS hook FROM main.tables",
    ),
    "indexes": (4, "SELECT id, table_id, name, expression, multi, 0 AS is_unique FROM main.indexes"),
    "marks": (3, "SELECT table_id, block, NULL AS newest, NULL AS sums FROM main.marks"),
    "positions": (
        3,
        "SELECT *, reactdb_values(kind, name, part, position, NULL, 0, NULL, NULL, 0, NULL) AS seal"
        " FROM (SELECT 'receipt' AS kind, substr(name, 9) AS name, 0 AS part, value AS position, NULL AS epoch, 0 AS fence,"
        " NULL AS holder, NULL AS leased, 0 AS attempts, NULL AS value"
        " FROM main.facts WHERE name >= 'receipt ' AND name < 'receipt!')",
    ),
    "blobs": (
        3,
        "SELECT NULL AS id, NULL AS digest, NULL AS size, NULL AS piece_bytes, NULL AS time, NULL AS used, NULL AS seal WHERE 0",
    ),
    "pieces": (3, "SELECT NULL AS id, NULL AS seal, NULL AS bytes WHERE 0"),
    "blob_refs": (3, "SELECT NULL AS seq, NULL AS blob WHERE 0"),
}


def show_as_today(connection: Connection, shown: int = 0) -> int:
    """Let a connection that may not migrate the file read an older format as if it were today's.

    Compute missing checksums when they are read: those of the log of format 1, and those of the facts of formats 1
    and 2. So no reader needs to know the format. Such checksums prove nothing.

    Args:
        shown: The format that the file had when this was done on the connection; 0 the first time. Another process may have
            migrated it since.

    Returns:
        The format that the file has.
    """
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version == shown or (version >= FORMAT_VERSION and not shown):
        return version
    connection.create_function("reactdb_seal", CHECKSUM_COLUMNS, checksum_or_none, deterministic=True)
    connection.create_function("reactdb_values", -1, values_checksum, deterministic=True)
    connection.execute("PRAGMA query_only=OFF")
    for name, (first, view) in VIEWS.items():
        connection.execute(f"DROP VIEW IF EXISTS temp.{name}")
        if version < first:
            connection.execute(f"CREATE TEMP VIEW {name} AS {view}")
    connection.execute("PRAGMA query_only=ON")
    return version


def read_catalogue_rows(connection: Connection) -> CatalogueRows:
    """The lists of tables and indexes as they are, dropped tables among them. Inside a transaction."""
    return (
        connection.execute(
            "SELECT id, name, primary_key, created, dropped, owner, hook FROM tables ORDER BY id"
        ).fetchall(),
        connection.execute(
            "SELECT id, table_id, name, expression, multi, is_unique FROM indexes ORDER BY id"
        ).fetchall(),
    )


def check_format_2(connection: Connection) -> None:
    """Raises: CorruptDatabase, if the facts, tables and indexes do not match the checksum of format 2. Inside a
    transaction."""
    row = connection.execute("SELECT value FROM facts WHERE name = 'seal'").fetchone()
    if row is None or row[0] != _sum_format_2(connection):
        raise CorruptDatabase(DAMAGED_LISTS)


def _sum_format_2(connection: Connection) -> int:
    """In format 2 the facts had no checksums of their own."""
    return values_checksum(
        *(
            connection.execute(statement).fetchall()
            for statement in (
                "SELECT name, value FROM facts WHERE name != 'seal' ORDER BY name",
                "SELECT id, name, primary_key, created, dropped FROM tables ORDER BY id",
                "SELECT id, table_id, name, expression, multi FROM indexes ORDER BY id",
            )
        )
    )


def check_format_3(connection: Connection) -> None:
    """Raises: CorruptDatabase, if the tables and indexes do not match the checksum of format 3. Inside a
    transaction."""
    if read_fact(connection, "seal") != _sum_format_3(connection):
        raise CorruptDatabase(DAMAGED_LISTS)


def _sum_format_3(connection: Connection) -> int:
    """In format 3 no index was unique."""
    return values_checksum(
        *(
            connection.execute(statement).fetchall()
            for statement in (
                "SELECT id, name, primary_key, created, dropped, owner, hook FROM tables ORDER BY id",
                "SELECT id, table_id, name, expression, multi FROM indexes ORDER BY id",
            )
        )
    )


def write_catalogue_checksum(connection: Connection) -> CatalogueRows:
    """Write the checksum of tables and indexes. Every change of a table or an index calls this afterwards, in the
    same transaction. Returns the present lists."""
    rows = read_catalogue_rows(connection)
    set_fact(connection, "seal", values_checksum(*rows))
    return rows


def check_catalogue(connection: Connection, rows: CatalogueRows | None = None) -> None:
    """Inside a transaction.

    Args:
        rows: The result of `read_catalogue_rows` in this transaction; None: it is read here.

    Raises:
        CorruptDatabase: The facts, tables and indexes do not match their checksums.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == 2:
        check_format_2(connection)
    if version < 3:
        return
    for row in connection.execute("SELECT name, value, seal FROM facts").fetchall():
        verify_fact(*row)
    if version == 3:
        check_format_3(connection)
    elif values_checksum(*(rows or read_catalogue_rows(connection))) != read_fact(connection, "seal"):
        raise CorruptDatabase(DAMAGED_LISTS)


def read_fact(connection: Connection, name: str) -> Any:
    """The value of a fact; None where the file has none of this name.

    Raises:
        CorruptDatabase: The fact does not match its checksum.
    """
    row = connection.execute("SELECT value, seal FROM facts WHERE name = ?", (name,)).fetchone()
    return None if row is None else verify_fact(name, *row)


def read_database_id(connection: Connection) -> Any:
    """The identity of the file as it is stored, in any format."""
    row = connection.execute("SELECT value FROM facts WHERE name = 'database_id'").fetchone()
    return None if row is None else row[0]


def verify_fact(name: str, value: Any, checksum: Any) -> Any:
    """The value of a fact, after a look at its checksum."""
    if values_checksum(name, value) != checksum:
        raise CorruptDatabase(
            f"the setting {name!r} does not match its checksum: it has changed since it was written. {ADVICE}"
        )
    return value


def set_fact(connection: Connection, name: str, value: Any) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO facts (name, value, seal) VALUES (?, ?, ?)",
        (name, value, values_checksum(name, value)),
    )


def name_log(connection: Connection) -> None:
    """Write the row with the database's id again. So its page is in the write-ahead log and names the log's database:
    see `file.wal_check`. Inside a transaction, which then has something to write."""
    # There and back, as in `touch`.
    for value in ("value || ' '", "substr(value, 1, length(value) - 1)"):
        connection.execute(f"UPDATE facts SET value = {value} WHERE name = 'database_id'")


def touch(connection: Connection) -> None:
    """Change nothing, but so that the transaction has something to write, and its commit a reason to flush."""
    # There and back: SQLite leaves a page alone that would be as it was.
    for step in ("+ 1", "- 1"):
        connection.execute(f"UPDATE facts SET value = value {step} WHERE name = 'low_water'")
