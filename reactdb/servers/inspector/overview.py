"""Overview: the file, its tables and indexes; the feeds, consumers and readers.

Rule of this file: figures only, each of which is read without a scan.
"""

from __future__ import annotations

import os
from typing import Any, Final

import reactdb
from reactdb.change import DELETE, INSERT
from reactdb.clock import time_text
from reactdb.database import Database
from reactdb.errors import HistoryLost
from reactdb.expiry import show_expiry
from reactdb.session import session_of
from reactdb.store.catalogue import TableInfo
from reactdb.store.key_pages import count_changes, count_documents
from reactdb.store.log import read_low_water, read_time_at
from reactdb.store.materialized_tables import read_stopped_views
from reactdb.store.retention import measure_history
from reactdb.store.snapshot import Snapshot
from reactdb.store.tools.figures import describe_retention

__all__ = ["read_activity", "read_counts", "read_overview"]

WAIT_S: Final = 0.4
"""Seconds that other processes have for their answers."""


def read_overview(db: Database, can_write: bool, at: int | None) -> dict[str, Any]:
    """The figures of the file. `at`: tables and counts as of this seq; None: now."""
    session = session_of(db)
    session.check_open()
    engine = session.engine
    with engine.fresh_snapshot() as snapshot:
        seq, oldest = snapshot.seq, read_low_water(snapshot.connection)
        if at is not None and at < oldest:
            raise HistoryLost(at, oldest + 1)
        first = snapshot.entry(oldest + 1)
        history = measure_history(
            snapshot.connection, engine.lowest_needed, engine.clock.time_ns() // 1_000_000
        )
        expiry = show_expiry(snapshot)
        stopped = read_stopped_views(snapshot.connection)
        counts = read_counts(snapshot)
        tables = snapshot.catalogue.ordinary()
        if at is not None and at < seq:
            tables, counts = tables_at(snapshot, at)
        shown = [
            show_table(snapshot, table, name, counts[name], expiry, stopped)
            for name, table in sorted(tables.items())
        ]
        newest_time = time_text(read_time_at(snapshot.connection, seq)) if seq else None
        at_time = None if at is None else time_text(read_time_at(snapshot.connection, min(at, seq)))
    is_memory = engine.is_memory
    return {
        "file": ":memory:" if is_memory else os.path.basename(engine.path),
        "path": engine.path,
        "version": reactdb.__version__,
        "database_id": session.database_id,
        "write": can_write,
        "seq": seq,
        "at": at,
        "at_time": at_time,
        "oldest": oldest,
        "oldest_time": None if first is None else time_text(first.time),
        "newest_time": newest_time,
        "file_bytes": 0 if is_memory else size_of(engine.path),
        "wal_bytes": 0 if is_memory else size_of(engine.path + "-wal"),
        "history": {**history, "retention": describe_retention(history["retention"])},
        "tables": shown,
    }


def read_counts(snapshot: Snapshot) -> dict[str, int]:
    """The number of documents of each table now, by name."""
    return {name: count_documents(snapshot, table) for name, table in snapshot.catalogue.ordinary().items()}


def tables_at(snapshot: Snapshot, at: int) -> tuple[dict[str, TableInfo], dict[str, int]]:
    """The tables that were there at an earlier seq, and how many documents each had: the present number without the later
    changes."""
    later = count_changes(snapshot, at, snapshot.seq, (INSERT, DELETE))
    tables: dict[str, TableInfo] = {}
    counts: dict[str, int] = {}
    for info in snapshot.catalogue.by_id.values():
        if info.owner is None and snapshot.catalogue.at(info.name, at) is info:
            kinds = later.get(info.id, {})
            tables[info.name] = info
            counts[info.name] = count_documents(snapshot, info) - kinds.get(INSERT, 0) + kinds.get(DELETE, 0)
    return tables, counts


def show_table(
    snapshot: Snapshot,
    table: TableInfo,
    name: str,
    count: int,
    expiry: dict[str, Any],
    stopped: dict[str, str],
) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": name,
        "count": count,
        "primary_key": table.primary_key,
        "indexes": [
            {
                "name": index.name,
                "ready": True,
                "unique": index.is_unique,
                "multi": index.multi,
                "expression": str(index.expression),
            }
            for _, index in sorted(table.indexes.items())
        ],
        "last_seq": snapshot.newest_seq(table),
    }
    if name in expiry:
        shown["expiry"] = expiry[name]
    if name in stopped:
        shown["stopped"] = stopped[name]
    return shown


def size_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def read_activity(db: Database) -> dict[str, Any]:
    """Feeds of every process, durable consumers, and the readers that hold history: see `Database.activity`."""
    session = session_of(db)
    return {
        **db.activity(wait_s=WAIT_S),
        "oldest_read_s": session.engine.oldest_read_s(),
        "checkpoint": session.engine.checkpoint_figures(),
    }
