"""What is in a database file: its problems, as `reactdb doctor` prints them, and the documents of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import reactdb
from reactdb.store.tools import doctor


def problems(path: str | Path) -> list[str]:
    """Everything that the doctor calls a problem; empty if the file is whole."""
    return [
        finding.message
        for _, findings in doctor.examine(str(path))
        for finding in findings
        if finding.level == "problem"
    ]


def documents(path: str | Path, table: str = "games") -> list[dict[str, Any]]:
    """The documents of a table, read by a handle that only reads."""
    with reactdb.connect(path, read_only=True) as db:
        return list(db.table(table).run())
