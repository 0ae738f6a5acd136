"""A table of a lake kept up to date with a few lines by hand, as a baseline of `benchmarks.lake`.

Each function brings the table in `folder` up to date with the table `players` of the file: the log since the last run, the newest
change of each key, merged. The position is in the same commit. That is all: one file, keys that are text, one process at a time,
the types of the first rows, and a value that does not fit is an error or is rounded.

Rule of this file: no reactdb.lake and no checks, because it shows what the checks cost.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import reactdb

CHUNK = 50_000


def newest_since(db: Any, since: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """(seq of the last change, newest document or None by key) of each chunk of the log."""
    log = db.log(since=since, table="players")
    while chunk := list(islice(log, CHUNK)):
        yield chunk[-1].seq, {change.key: change.new_val for change in chunk}


def parquet(path: str, folder: str) -> None:
    """One file, which is written anew as a whole."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    target = Path(folder, "table.parquet")
    table = pq.read_table(target) if target.exists() else None
    began = seq = int(table.schema.metadata[b"seq"]) if table is not None else 0
    with reactdb.connect(path, read_only=True) as db:
        for until, newest in newest_since(db, began):
            seq = until
            rows = pa.Table.from_pylist(
                [dict(document) for document in newest.values() if document is not None]
            )
            if table is not None:
                stays = pc.invert(pc.is_in(table["id"], pa.array(list(newest))))
                rows = pa.concat_tables([table.filter(stays), rows], promote_options="default")
            table = rows
    if table is not None and seq > began:
        os.makedirs(folder, exist_ok=True)
        pq.write_table(table.replace_schema_metadata({"seq": str(seq)}), f"{target}.new")
        os.replace(f"{target}.new", target)


def delta(path: str, folder: str) -> None:
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

    there = DeltaTable.is_deltatable(folder)
    began = (DeltaTable(folder).transaction_version("players") or 0) if there else 0
    with reactdb.connect(path, read_only=True) as db:
        for seq, newest in newest_since(db, began):
            receipt = CommitProperties(app_transactions=[Transaction("players", seq)])
            rows = pa.Table.from_pylist(
                [{**(document or {"id": key}), "_gone": document is None} for key, document in newest.items()]
            )
            if not DeltaTable.is_deltatable(folder):
                write_deltalake(folder, rows.drop_columns(["_gone"]), commit_properties=receipt)
                continue
            merge = DeltaTable(folder).merge(rows, "t.id = s.id", "s", "t", commit_properties=receipt)
            merge = merge.when_matched_delete("s._gone").when_matched_update_all(except_cols=["_gone"])
            merge.when_not_matched_insert_all("not s._gone", except_cols=["_gone"]).execute()


def iceberg(path: str, folder: str) -> None:
    import pyarrow as pa
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.expressions import In

    os.makedirs(folder, exist_ok=True)
    catalog = SqlCatalog("by_hand", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace_if_not_exists("by_hand")
    there = catalog.table_exists("by_hand.players")
    began = int(catalog.load_table("by_hand.players").properties["seq"]) if there else 0
    with reactdb.connect(path, read_only=True) as db:
        for seq, newest in newest_since(db, began):
            rows = pa.Table.from_pylist(
                [dict(document) for document in newest.values() if document is not None]
            )
            table = catalog.create_table_if_not_exists("by_hand.players", rows.schema)
            with table.transaction() as change:
                if there:
                    change.delete(In("id", list(newest)))
                change.append(rows)
                change.set_properties({"seq": str(seq)})
            there = True
