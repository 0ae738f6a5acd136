"""Damage: the errors that name a damaged document or entry.

Rule of this file: it runs only after damage was met, so it may take its time; and it trusts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reactdb.change import TableReference
from reactdb.errors import CorruptDatabase
from reactdb.store.catalogue import TableInfo
from reactdb.store.checksums import is_whole
from reactdb.store.file.sqlite import ADVICE, Connection, SQLiteError
from reactdb.values import collation


def damaged_document_error(connection: Connection, table: TableInfo, key: Any, body: Any) -> CorruptDatabase:
    """The error of a key whose stored document does not match its checksum."""
    try:
        row = connection.execute(
            "SELECT seq FROM heads WHERE table_id = ? AND key = ?", (table.id, key)
        ).fetchone()
        seq = None if row is None else row[0]
        entry = connection.execute("SELECT table_id, key FROM log WHERE seq = ?", (seq,)).fetchone()
    except SQLiteError:
        seq = entry = None
    if body is None:
        trouble = "is missing" if entry is None else "has no document"
    elif entry is not None and entry != (table.id, key):
        trouble = "is another document's"
    else:
        trouble = "does not match its checksum: it is not what was written"
    return corruption_error(f"its log entry {seq} {trouble}", table.name, key, seq)


def find_first_damaged(
    connection: Connection,
    table: TableInfo,
    keys: Sequence[Any],
    bodies: Sequence[Any],
    checksums: Sequence[Any],
) -> CorruptDatabase:
    """The error of the first damaged document among several."""
    for key, body, checksum in zip(keys, bodies, checksums, strict=True):
        if not is_whole(table.id, key, body, checksum):
            return damaged_document_error(connection, table, key, body)
    return CorruptDatabase(
        f"table `{table.name}`: documents do not match their checksums. {ADVICE}", table=table.name
    )


def damaged_entry_error(table: TableReference, key: Any, seq: Any) -> CorruptDatabase:
    """The error of a log entry, or of its superseded document, that does not match its checksum."""
    return corruption_error(
        f"log entry {seq} does not match its checksum: it is not what was written", table, key, seq
    )


def corruption_error(trouble: str, table: TableReference, key: Any, seq: Any) -> CorruptDatabase:
    """An error about one key, or one entry, of a table."""
    return CorruptDatabase(
        f"table `{table}`, key {format_key(key)}: {trouble}. {ADVICE}",
        table=str(table),
        key=decode_key_or_bytes(key),
        seq=seq,
    )


def missing_entry_error(seq: int) -> CorruptDatabase:
    """The log has no such entry, and should have."""
    return CorruptDatabase(
        f"log entry {seq} is missing: another program has changed the file, or it is damaged. {ADVICE}",
        seq=seq,
    )


def unfiled_entry_error(table: str, key: Any, seq: Any) -> CorruptDatabase:
    """The error of a newest entry that its key does not lead to."""
    return corruption_error(
        f"log entry {seq} is not filed under its key: another program has changed the file, or it is damaged",
        table,
        key,
        seq,
    )


def decode_key_or_bytes(key: Any) -> Any:
    """The primary key; its encoded bytes if they are damaged."""
    try:
        return collation.key_value(key)
    except Exception:
        return key


def format_key(key: Any) -> str:
    """The primary key for a message, cut off at 100 characters; its encoded bytes if they are damaged."""
    try:
        return repr(collation.key_value(key))[:100]
    except Exception:
        return f"x'{key.hex()[:100]}'" if isinstance(key, bytes) else repr(key)[:100]
