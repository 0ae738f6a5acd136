"""Rows: pages of a file as rows of a lake's table, in one of three shapes.

    current    the fields of a document, one column each
    changes    one row a change, with the documents before and after
    scd2       one row a version of a document, with when it began and ended

Further columns are there only if they are needed: `_database` and `_source` if rows come from several files, `_key` if no field
identifies a document, `_conflicts` if a value did not fit its column.

Rule of this file: it makes batches. The exporter decides which rows there are, and writes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from reactdb.arrow.arrays import moments
from reactdb.arrow.documents import json_texts
from reactdb.arrow.keys import key_values, texts
from reactdb.json import dumps, plain_text
from reactdb.lake.columns import DocumentColumns
from reactdb.lake.file_reader import RowPage

DATABASE, SOURCE, KEY, CONFLICTS = "_database", "_source", "_key", "_conflicts"
TEXT, LONG, TIME = pa.string(), pa.int64(), pa.timestamp("us", "UTC")

CHANGE_COLUMNS: dict[str, pa.DataType | None] = {
    "database": TEXT,
    "seq": LONG,
    "table": TEXT,
    "key": TEXT,
    "key_bytes": pa.binary(),
    "op": TEXT,
    "ts": TIME,
    "commit": LONG,
    "origin": TEXT,
    "old": None,
    "new": None,
    "_source": TEXT,
}
VERSION_COLUMNS: dict[str, pa.DataType | None] = {
    "database": TEXT,
    "table": TEXT,
    "key": TEXT,
    "key_bytes": pa.binary(),
    "valid_from": TIME,
    "valid_to": TIME,
    "is_current": pa.bool_(),
    "seq": LONG,
    "next_seq": LONG,
    "op": TEXT,
    "origin": TEXT,
    "document": None,
}
VERSION_KEYS = ("database", "key_bytes", "seq")


def current_batch(
    columns: DocumentColumns, page: RowPage, *, is_fleet: bool, has_key: bool
) -> pa.RecordBatch:
    """The documents of a page, one column a field."""
    documents, conflicts = columns.convert(page.bodies)
    made: dict[str, Any] = {}
    if is_fleet:
        made[DATABASE] = pa.repeat(page.file.database, len(page))
        made[SOURCE] = pa.repeat(page.file.path, len(page))
    if has_key:
        made[KEY] = json_keys(page.keys)
    for field, array in zip(documents.type, documents.flatten(), strict=True):
        made[field.name] = array
    return finish(made, conflicts)


def change_batch(columns: DocumentColumns | None, page: RowPage) -> pa.RecordBatch:
    """Each change of a page. `columns`: None for documents as JSON text."""
    made = {
        "database": pa.repeat(page.file.database, len(page)),
        "seq": pa.array(page.seqs, LONG),
        "table": pa.array(page.tables, TEXT),
        "key": key_texts(page.keys),
        "key_bytes": pa.array(page.keys, pa.binary()),
        "op": pa.array(page.ops, TEXT),
        "ts": moments(page.times),
        "commit": pa.array(page.commits, LONG),
        "origin": pa.array(page.origins, TEXT),
    }
    conflicts = None
    if columns is None:
        made["old"], made["new"] = json_texts(page.olds), json_texts(page.bodies)
    else:
        # The one may widen the columns, so the first is made to fit afterwards.
        old, old_conflicts = columns.convert(page.olds)
        new, new_conflicts = columns.convert(page.bodies)
        made["old"], made["new"] = columns.cast(old), columns.cast(new)
        conflicts = conflict_texts({"old": old_conflicts, "new": new_conflicts}, len(page))
    made[SOURCE] = pa.repeat(page.file.path, len(page))
    return finish(made, conflicts)


def version_batch(
    columns: DocumentColumns,
    page: RowPage,
    ends: Sequence[tuple[int, int] | None],
) -> pa.RecordBatch:
    """The versions that the changes of a page began.

    Args:
        ends: For each row the seq and the time (milliseconds) of the change that ended it; None: the version still holds.
    """
    documents, conflicts = columns.convert(page.bodies)
    made = {
        "database": pa.repeat(page.file.database, len(page)),
        "table": pa.array(page.tables, TEXT),
        "key": key_texts(page.keys),
        "key_bytes": pa.array(page.keys, pa.binary()),
        "valid_from": moments(page.times),
        "valid_to": moments([None if end is None else end[1] for end in ends]),
        "is_current": pa.array([end is None for end in ends], pa.bool_()),
        "seq": pa.array(page.seqs, LONG),
        "next_seq": pa.array([None if end is None else end[0] for end in ends], LONG),
        "op": pa.array(page.ops, TEXT),
        "origin": pa.array(page.origins, TEXT),
        "document": documents,
    }
    return finish(made, conflict_texts({"document": conflicts}, len(page)))


def finish(made: dict[str, Any], conflicts: Sequence[str | None] | None) -> pa.RecordBatch:
    """The batch, with a column for conflicts if there are any."""
    if conflicts is not None:
        made[CONFLICTS] = pa.array(conflicts, TEXT)
    return pa.RecordBatch.from_arrays(list(made.values()), names=list(made))


def conflict_texts(parts: Mapping[str, Sequence[str | None] | None], count: int) -> list[str | None] | None:
    """The conflicts of several documents of a row as one JSON object, by the names of their columns."""
    present = {name: texts_ for name, texts_ in parts.items() if texts_ is not None}
    if not present:
        return None
    rows: list[str | None] = []
    for number in range(count):
        inner = [
            f'"{name}":{texts_[number]}' for name, texts_ in present.items() if texts_[number] is not None
        ]
        rows.append("{" + ",".join(inner) + "}" if inner else None)
    return rows


# ---------------------------------------------------------------------------------------------------------------
# Columns


def key_texts(keys: Sequence[bytes]) -> Any:
    """The keys as text for people; `key_bytes` tells the number 1 from the text "1"."""
    made = texts(keys)
    return pa.array(list(map(plain_text, key_values(keys))), TEXT) if made is None else made


def json_keys(keys: Sequence[bytes]) -> Any:
    """The keys as JSON text that loses nothing."""
    return pa.array(list(map(dumps, key_values(keys))), TEXT)
