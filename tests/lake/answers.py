"""What a lake's table must hold, in plain Python, and what it does hold, with documents put together again.

A null field of a document is as a missing one in a column, so both sides are compared without them.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import reactdb
from reactdb.arrow.widening import restore
from reactdb.json import dumps, loads

OWN = {"_database", "_source", "_key", "_conflicts", "increment"}


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in sorted(value.items()) if inner is not None}
    if isinstance(value, list):
        return [without_nulls(inner) for inner in value]
    return value


def text(value: Any) -> str:
    """A text that is equal for equal documents only: 1 and 1.0 differ in it, as do 1 and True."""
    return dumps(without_nulls(value))


def as_numbers(value: Any) -> Any:
    """The value with its whole numbers as floats, or as ints if they are too large: a column of doubles, or of decimals, has all
    of its numbers so."""
    if isinstance(value, dict):
        return {name: as_numbers(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [as_numbers(inner) for inner in value]
    if type(value) is Decimal and value == value.to_integral_value():
        value = int(value)
    if type(value) is int and float(value) == value and abs(value) <= 2**53:
        return float(value)
    return value


def number_text(value: Any) -> str:
    return text(as_numbers(value))


def read(path: str, kind: str = "parquet", table: str = "games") -> list[dict[str, Any]]:
    """The rows of a table of the lake."""
    if kind == "delta":
        from deltalake import DeltaTable

        return DeltaTable(path).to_pyarrow_table().to_pylist(maps_as_pydicts="strict")
    if kind == "iceberg":
        return read_iceberg(path, table).to_pylist(maps_as_pydicts="strict")
    from pyarrow.parquet import read_table

    return read_table(path).to_pylist(maps_as_pydicts="strict")


def read_iceberg(path: str, table: str) -> Any:
    """The files that pyiceberg lists, read by Arrow: pyiceberg 0.12 itself reads null lists as empty ones."""
    import pyarrow as pa
    from pyarrow.parquet import read_table
    from pyiceberg.catalog.sql import SqlCatalog

    catalogue = SqlCatalog("reactdb", uri=f"sqlite:///{path}/catalog.db")
    try:
        found = catalogue.load_table(("reactdb", table))
        tables = [read_table(task.file.file_path) for task in found.scan().plan_files()]
        empty = found.schema().as_arrow().empty_table()
    finally:
        catalogue.close()
    return pa.concat_tables(tables, promote_options="default") if tables else empty


def current(rows: list[dict[str, Any]]) -> list[str]:
    """The documents of a table of the mode `current`."""
    found = []
    for row in rows:
        rest = row.get("_conflicts")
        columns = {name: value for name, value in row.items() if name not in OWN}
        found.append(number_text(restore(without_nulls(columns), None if rest is None else loads(rest))))
    return sorted(found)


def wanted_current(db: reactdb.Database, table: str = "games") -> list[str]:
    return sorted(number_text(dict(document)) for document in db.table(table).run())


def document(row: dict[str, Any], name: str) -> str | None:
    """A document of a row of changes or versions; None if the row has none."""
    rest = loads(row["_conflicts"]).get(name) if row.get("_conflicts") else None
    # Text as long as no field of any document could be a column.
    value = loads(row[name]) if isinstance(row[name], str) else row[name]
    return None if value is None else number_text(restore(without_nulls(value), rest))


def changes(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The rows of a table of the mode `changes`, in the order of the log."""
    rows = sorted(rows, key=lambda row: (row["database"], row["seq"], row["key_bytes"]))
    return [
        (row["seq"], row["table"], row["key_bytes"], row["op"], document(row, "old"), document(row, "new"))
        for row in rows
    ]


def wanted_changes(db: reactdb.Database, table: str = "games") -> list[tuple[Any, ...]]:
    def shown(value: Any) -> str | None:
        return None if value is None else number_text(dict(value))

    return [
        (one.seq, table, one.key_bytes, one.kind, shown(one.old_val), shown(one.new_val))
        for one in db.log()
        # Those of a dropped table of the same name, too.
        if one.table == table and one.kind in ("insert", "update", "replace", "delete")
    ]


def versions(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The rows of a table of the mode `scd2`."""
    found = []
    for row in rows:
        assert row["is_current"] == (row["next_seq"] is None) == (row["valid_to"] is None)
        found.append((row["seq"], row["key_bytes"], row["next_seq"], row["op"], document(row, "document")))
    return sorted(found, key=repr)


def wanted_versions(db: reactdb.Database, table: str = "games") -> list[tuple[Any, ...]]:
    by_key: dict[bytes, list[Any]] = {}
    for one in db.log(table=table):
        by_key.setdefault(one.key_bytes, []).append(one)
    wanted = []
    for key, steps in by_key.items():
        for place, step in enumerate(steps):
            if step.new_val is not None:
                after = steps[place + 1].seq if place + 1 < len(steps) else None
                wanted.append((step.seq, key, after, step.kind, number_text(dict(step.new_val))))
    return sorted(wanted, key=repr)
