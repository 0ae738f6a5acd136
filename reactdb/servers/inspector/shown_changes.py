"""Shown changes: a change of the log as JSON: seq, time, table, key, kind, origin, old and new.

Rule of this file: one value in, one dict out.
"""

from __future__ import annotations

from typing import Any

from reactdb.change import Change
from reactdb.clock import time_text
from reactdb.key_spelling import key_text

__all__ = ["show_change", "size_of_change"]


def show_change(change: Change) -> dict[str, Any]:
    """The change. For one of a table or an index itself, `key` is its name, and `new` has its data."""
    shown: dict[str, Any] = {
        "seq": change.seq,
        "time": time_text(change.time),
        "table": str(change.table),
        "key": key_text(change.key) if change.catalogue is None else str(change.table),
        "kind": change.kind,
        "origin": change.origin,
        "commit": change.commit,
    }
    if change.catalogue is None:
        shown["old"], shown["new"] = change.documents()
    else:
        shown["old"], shown["new"] = None, {**change.catalogue}
    return shown


def size_of_change(change: Change) -> int:
    """About how many bytes of documents it has."""
    return len(change.old_bytes or b"") + len(change.new_bytes or b"")
