"""Snapshots: the documents of a table as of one seq, as rows of Arrow batches.

When the plan is made, it pins a seq for each file, so all partitions agree while a writer works: the short transaction that reads
a page undoes later changes in SQLite, key by key.

Rule of this file: rows leave in order of their keys within a slice; the slices of a file cover every key once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from reactdb.arrow.decoding import without_collector
from reactdb.arrow.documents import Rows, finish_batch, value_array
from reactdb.arrow.keys import key_values
from reactdb.errors import HistoryDiverged
from reactdb.lake.fleet import open_file, open_snapshot
from reactdb.spark.options import Options
from reactdb.spark.partitions import DocumentSlice, Split, pack_slices, piece_bytes
from reactdb.spark.schema import mode_of, seq_as_of
from reactdb.spark.types import arrow_schema, check_type, column_for, document_columns
from reactdb.store import exports
from reactdb.store.engine import Engine
from reactdb.store.exports import Pin
from reactdb.store.snapshot import Snapshot

# Every key is at or after FIRST and before END, because no key begins with FF.
FIRST, END = b"", b"\xff"


def document_splits(options: Options, name: str, pins: Sequence[Pin]) -> list[Split]:
    """The documents of a table as partitions of about `partitionBytes`."""
    most = piece_bytes(options, sum(pin.size_bytes for pin in pins))
    slices: list[DocumentSlice] = []
    for pin in pins:
        with open_snapshot(pin.path, options.files) as snapshot:
            slices += slices_of(options, name, pin, snapshot, most)
    return pack_slices(slices, most)


def slices_of(
    options: Options, name: str, pin: Pin, snapshot: Snapshot, most_bytes: int
) -> list[DocumentSlice]:
    """The documents of a table of one file, cut if they are more than `most_bytes`."""
    seq = seq_as_of(options, pin, snapshot)
    table = snapshot.catalogue.at(name, seq)
    if table is None:
        return []
    cuts: list[bytes] = []
    count = 0
    # No executor sees the whole table, so damage that hides documents is noticed here.
    counted = snapshot.count(table)
    if pin.size_bytes > most_bytes:
        count = counted
        each = max(1, int(most_bytes / max(1.0, pin.bytes_a_change)))
        if count > each:
            pieces = -(-count // each)
            cuts = exports.split_keys(snapshot, table, -(-count // pieces))
    weight = min(pin.size_bytes, int(count * pin.bytes_a_change) or pin.size_bytes) // (len(cuts) + 1) + 1
    return [
        DocumentSlice(pin.path, pin.database_id, table.id, seq, start, stop, weight)
        for start, stop in pairwise([FIRST, *cuts, END])
    ]


class DocumentRows:
    """Slices of documents as batches of one schema. Each executor creates its own."""

    def __init__(self, schema: spark.StructType, options: Options, *, is_inferred: bool = False) -> None:
        self.options = options
        self.mode = mode_of(options, schema)
        self.arrow = arrow_schema(schema)
        self._schema = schema
        names = schema.fieldNames()
        sides = {options.source_column, options.corrupt_column}
        self._corrupt = names.index(options.corrupt_column) if options.corrupt_column in names else None
        for field in schema.fields:
            if field.name in sides:
                check_type(field, spark.StringType)
        keys = () if options.document == "struct" else ("key", "key_bytes")
        self._column = document_columns(schema, options, self.mode, (*sides, *keys), is_complete=is_inferred)

    def batches(self, slices: Iterable[DocumentSlice]) -> Iterator[Any]:
        """Record batches of all documents of these slices.

        Raises:
            HistoryDiverged: A file is not the planned one.
            HistoryLost: Compaction has removed needed history.
            SchemaMismatch: With FAILFAST.
            CorruptDatabase.
        """
        for part in slices:
            yield from self._slice(part)

    def _slice(self, part: DocumentSlice) -> Iterator[Any]:
        with open_file(part.path, self.options.files) as engine:
            start: bytes | None = part.start
            while start is not None:
                with without_collector():
                    made, start = self._next_batch(engine, part, start)
                if made is not None:
                    yield made
                    # The next page is read without this batch in memory, unless the caller keeps it.
                    del made

    def _next_batch(self, engine: Engine, part: DocumentSlice, start: bytes) -> tuple[Any, bytes | None]:
        """(the batch of the next page, or None; the key where the page after it begins, or None). Nothing else of the page stays
        in memory."""
        with engine.snapshot() as snapshot:
            if start == part.start:
                exports.check_same(engine, snapshot, part.database_id, part.seq)
            table = snapshot.catalogue.by_id.get(part.table_id)
            if table is None:
                raise HistoryDiverged(
                    f"{part.path}: the table was dropped, and compaction has removed it since"
                )
            page = exports.documents(snapshot, table, part.seq, start, part.stop)
        made = self.batch(page.keys, page.bodies, table.name, part.path) if page.keys else None
        return made, page.next_start

    def batch(self, keys: Sequence[bytes], bodies: Sequence[bytes], table: str, path: str) -> Any:
        """One page as a batch."""
        rows = Rows(len(keys))

        def describe(row: int) -> str:
            return f"{path}, table `{table}`, key {key_values(keys[row : row + 1])[0]!r:.100}"

        made = self._column.named_arrays(self.options.document, bodies, rows, describe)
        arrays: list[Any] = []
        for field in self._schema.fields:
            if field.name in made:
                arrays.append(made[field.name])
            elif field.name == self.options.source_column:
                arrays.append(pa.repeat(path, len(keys)))
            elif field.name == "key_bytes":
                arrays.append(pa.array(keys, pa.binary()))
            elif field.name == "key":
                arrays.append(
                    value_array(
                        "key", column_for(field.dataType), key_values(keys), self.mode, rows, describe
                    )
                )
            else:
                arrays.append(None)
        return finish_batch(arrays, self.arrow, rows, self._corrupt, self.mode)
