"""Reads a file with only SQLite and msgpack, as docs/reference/format.md describes it, without any code of reactdb.

Rule of this file: it reads rows and returns them. It runs in a process of its own, because a damaged file may crash it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgpack
from sqlite_utils.utils import sqlite3


def look(config: dict[str, Any]) -> None:
    """Write what is in the file `path` into the file `to`, as JSON; null where no database was made yet."""
    to = Path(config["to"])
    if not Path(config["path"]).exists():
        to.write_text("null", encoding="utf-8")
        return
    connection = sqlite3.connect(config["path"])
    connection.execute("PRAGMA wal_autocheckpoint=0")
    if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        to.write_text("null", encoding="utf-8")
        return
    # One state for all of them.
    connection.execute("BEGIN")

    def rows(query: str) -> list[list[Any]]:
        return [
            [value.hex() if isinstance(value, bytes) else value for value in row]
            for row in connection.execute(query)
        ]

    log = [
        [seq, table, kind, step, prev, key.hex(), None if body is None else msgpack.unpackb(body), origin]
        for seq, table, kind, step, prev, key, body, origin in connection.execute(
            "SELECT seq, table_id, kind, step, prev, key, body, origin FROM log ORDER BY seq"
        )
    ]
    found = {
        "integrity": [message for (message,) in connection.execute("PRAGMA integrity_check")],
        "facts": dict(connection.execute("SELECT name, value FROM facts").fetchall()),
        "tables": rows("SELECT id, name, created, dropped FROM tables"),
        "heads": rows("SELECT table_id, key, seq FROM heads"),
        "graves": rows("SELECT table_id, key, seq FROM graves"),
        "log": log,
    }
    connection.execute("ROLLBACK")
    connection.close()
    to.write_text(json.dumps(found), encoding="utf-8")
