"""Figures of a file: its tables, and the room that it takes. `reactdb inspect` and `compact` print them.

Rule of this file: it counts, on its own connection and as of one moment. The doctor judges whether the file is right.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from reactdb.clock import time_ns
from reactdb.errors import CannotOpen, StorageMoved
from reactdb.store import schema
from reactdb.store.blobs import blob_totals
from reactdb.store.catalogue import load
from reactdb.store.file import sqlite
from reactdb.store.file.immutable import connect_to_read
from reactdb.store.file.names import check_names
from reactdb.store.file.sqlite import Connection, file_bytes
from reactdb.store.file.wal_check import check_log_belongs, check_log_is_own
from reactdb.store.log import read_low_water
from reactdb.store.materialized_tables import read_stopped_views
from reactdb.store.retention import Setting, measure_history
from reactdb.store.snapshot import read_head_seq

BUSY_TIMEOUT_S: Final = 5.0


@contextmanager
def open_file(path: str) -> Iterator[Connection]:
    """A read-only connection to an existing reactdb file, in a read transaction.

    Raises:
        CannotOpen, NotADatabase, IncompatibleFormat, DatabaseBusy: It cannot be opened.
    """
    path = os.path.realpath(path)
    if not os.path.isfile(path):
        raise CannotOpen(path, sqlite.explain_unreadable_path(path))
    check_names(path)
    named = check_log_is_own(path)
    connection, guard = connect_to_read(
        lambda mode: sqlite.connect(path, mode=mode, busy_timeout_s=BUSY_TIMEOUT_S), path
    )
    try:
        sqlite.configure(connection, reader=True)
        version = schema.identify(connection, path)
        if version == 0:
            raise CannotOpen(path, "it is empty")
        if guard is None:
            check_log_belongs(connection, path, named)
        schema.show_as_today(connection)
        connection.execute("BEGIN")
        yield connection
        trouble = "" if guard is None else guard.look()[1]
        if trouble:
            raise StorageMoved(f"{trouble}: look again")
    except sqlite.READ_ERRORS as error:
        raise sqlite.translate(error, "read", path) from error
    finally:
        connection.close()


@dataclass(frozen=True, slots=True)
class IndexFigures:
    """One index: its expression in a user's notation, and the number of its entries."""

    name: str
    expression: str
    multi: bool
    entries: int


@dataclass(frozen=True, slots=True)
class TableFigures:
    """One table: its documents, and its part of the log, which includes them. Sizes are of encoded documents, in
    bytes."""

    name: str
    primary_key: str
    documents: int
    document_bytes: int
    log_entries: int
    log_bytes: int
    indexes: tuple[IndexFigures, ...]


@dataclass(frozen=True, slots=True)
class FileFigures:
    """A file, as of one moment. The log can be read past `oldest`; `log_bytes` counts encoded documents, `blob_bytes`
    large values, each once.

    History takes about `history_bytes`; `history_limit_bytes` is None where `retention` is not "auto". The consumer `needed_by`
    has still to read past `needed_from`; both are None where none has.
    `read_stopped_views` says of each kept table that no longer follows its selection, why.
    """

    path: str
    database_id: str
    format: int
    sqlite_version: str
    seq: int
    oldest: int
    log_entries: int
    log_bytes: int
    file_bytes: int
    free_bytes: int
    wal_bytes: int
    blobs: int
    blob_bytes: int
    retention: str
    history_bytes: int
    history_limit_bytes: int | None
    needed_from: int | None
    needed_by: str | None
    stopped_views: dict[str, str]
    tables: tuple[TableFigures, ...]


def describe_retention(setting: Setting) -> str:
    """The setting in the form of `connect`'s argument, as text: "auto", "all", a number of changes, or a time."""
    if isinstance(setting, int):
        return f"{setting:,} changes"
    return "all" if setting is None else str(setting)


def measure(path: str) -> FileFigures:
    """The figures of a file. Reads every row of the log but not the documents in them: a second for millions.

    Raises:
        CannotOpen, NotADatabase, IncompatibleFormat, DatabaseBusy, CorruptDatabase.
    """
    with open_file(path) as connection:
        path = os.path.realpath(path)
        catalogue = load(connection)
        log = {
            table_id: (entries, size)
            for table_id, entries, size in connection.execute(
                "SELECT table_id, count(*), total(length(body)) FROM log GROUP BY table_id"
            ).fetchall()
        }
        tables = []
        for table in catalogue.ordinary().values():
            documents, document_bytes = connection.execute(
                "SELECT count(*), total(length(l.body)) FROM heads h JOIN log l ON l.seq = h.seq WHERE h.table_id = ?",
                (table.id,),
            ).fetchone()
            entries, size = log.get(table.id, (0, 0))
            indexes = tuple(
                IndexFigures(
                    name,
                    str(index.expression),
                    index.multi,
                    connection.execute(
                        "SELECT count(*) FROM entries WHERE index_id = ?", (index.id,)
                    ).fetchone()[0],
                )
                for name, index in sorted(table.indexes.items())
            )
            tables.append(
                TableFigures(
                    table.name, table.primary_key, documents, int(document_bytes), entries, int(size), indexes
                )
            )
        # Feeds are known to their processes alone.
        history = measure_history(connection, lambda oldest: None, time_ns() // 1_000_000)
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        (free_pages,) = connection.execute("PRAGMA freelist_count").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        blobs, blob_bytes = blob_totals(connection)
        return FileFigures(
            path=path,
            database_id=str(schema.read_fact(connection, "database_id")),
            format=version,
            sqlite_version=".".join(map(str, sqlite.VERSION)),
            seq=read_head_seq(connection),
            oldest=read_low_water(connection),
            log_entries=sum(entries for entries, _ in log.values()),
            log_bytes=int(sum(size for _, size in log.values())),
            file_bytes=file_bytes(path),
            free_bytes=page_bytes * free_pages,
            wal_bytes=file_bytes(path + "-wal"),
            blobs=blobs,
            blob_bytes=blob_bytes,
            retention=describe_retention(history["retention"]),
            history_bytes=history["bytes"],
            history_limit_bytes=history["limit_bytes"],
            needed_from=next((hold["from"] for hold in history["holds"]), None),
            needed_by=next((hold["by"] for hold in history["holds"]), None),
            stopped_views=read_stopped_views(connection),
            tables=tuple(tables),
        )
