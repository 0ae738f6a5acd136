"""Changes: the log as rows of Arrow batches, on the executors.

`ChangeRows` turns a slice of the log into batches. It reads each page in a short transaction, verifies it, and decodes only the
columns of the schema.

Rule of this file: rows leave in log order within a slice, and every change of the slice leaves exactly once, or an error does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import sub
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

from reactdb.arrow.arrays import Column, moments, texts_by_index
from reactdb.arrow.decoding import without_collector
from reactdb.arrow.documents import DocumentColumn, Rows, finish_batch, value_array
from reactdb.arrow.keys import key_values, texts
from reactdb.change import DELETE, INSERT, KINDS
from reactdb.errors import InvalidOption
from reactdb.lake.fleet import open_file
from reactdb.spark.options import Options
from reactdb.spark.partitions import ChangeSlice
from reactdb.spark.schema import CHANGE_COLUMNS, IMAGES, mode_of
from reactdb.spark.types import arrow_schema, check_type, column_for, document_column, document_columns
from reactdb.store import exports
from reactdb.store.engine import Engine
from reactdb.store.log import Entries

DEBEZIUM_OPS = ("c", "u", "u", "d")
DELTA_TYPES = ("insert", "update_preimage", "update_postimage", "delete")


# Makes the array of one column from a page of the log.
Fill = Callable[["ChangePage"], Any]


class ChangePage:
    """One page of the log, with the values that several columns share."""

    __slots__ = ("columns", "keys", "names", "path", "rows")

    def __init__(self, columns: Entries, names: dict[int, str], path: str) -> None:
        self.columns = columns
        self.names = names
        self.path = path
        self.keys: list[Any] | None = None
        self.rows = Rows(len(columns.seqs))

    def key_values(self) -> list[Any]:
        if self.keys is None:
            self.keys = key_values(self.columns.keys)
        return self.keys

    def describe(self, row: int) -> str:
        name = self.names.get(self.columns.table_ids[row], "?")
        return (
            f"{self.path}, seq {self.columns.seqs[row]} (table `{name}`, key {self.key_values()[row]!r:.100})"
        )


class ChangeRows:
    """Slices of the log as batches of one schema. Each executor creates its own.

    Args:
        schema: The wanted columns, in any order.
        is_inferred: The schema comes from `schema.infer`, so a field that is missing in it is a misfit.

    Raises:
        InvalidOption: It has an unknown column, or a column of a wrong type.
    """

    def __init__(self, schema: spark.StructType, options: Options, *, is_inferred: bool = False) -> None:
        self.options = options
        self.mode = mode_of(options, schema)
        self.arrow = arrow_schema(schema)
        self.is_inferred = is_inferred
        self._schema = schema
        names = schema.fieldNames()
        # Columns without documents need none of them read.
        self.with_old = self.with_new = False
        self._corrupt = names.index(options.corrupt_column) if options.corrupt_column in names else None
        if options.shape == "delta":
            self._columns: DocumentColumn | None = self._field_columns()
            self._fills: list[Fill] = []
            self.with_old = self.with_new = not set(names) <= set(self._names_beside_documents())
        else:
            self.with_old = IMAGES[options.shape][0] in names
            self.with_new = self.with_old or IMAGES[options.shape][1] in names
            self._columns = None
            self._fills = [self._fill_of(field) for field in schema.fields]

    def batches(self, slices: Iterable[ChangeSlice]) -> Iterator[Any]:
        """Record batches of all changes of these slices, in order.

        Raises:
            HistoryDiverged: A file is not the planned one.
            HistoryLost: Compaction has removed changes since the plan was made.
            SchemaMismatch: With FAILFAST.
            CorruptDatabase.
        """
        for part in slices:
            yield from self._slice(part)

    def _slice(self, part: ChangeSlice) -> Iterator[Any]:
        with open_file(part.path, self.options.files) as engine:
            position = part.since
            while position < part.until:
                with without_collector():
                    made, position = self._next_batch(engine, part, position)
                if made is not None:
                    yield made
                    # The next page is read without this batch in memory, unless the caller keeps it.
                    del made

    def _next_batch(self, engine: Engine, part: ChangeSlice, since: int) -> tuple[Any, int]:
        """(the batch of the next page, or None; the position after it). Nothing else of the page stays in memory."""
        with engine.snapshot() as snapshot:
            if since == part.since:
                exports.check_same(engine, snapshot, part.database_id, part.until)
            ids = None
            if self.options.table is not None:
                ids = exports.find_table_ids(snapshot, self.options.table)
                if not ids:
                    return None, part.until
            names = {info.id: info.name for info in snapshot.catalogue.by_id.values()}
            page, position = exports.changes(
                snapshot, since, part.until, table_ids=ids, with_new=self.with_new, with_old=self.with_old
            )
        if page is None:
            return None, position
        try:
            return self.batch(page, names, part.path), position
        except Exception:
            # Keys that were read without their documents are not verified, and a damaged key may not be decoded or fit. A read
            # with the documents raises the error that names it.
            while not self.with_new and since < position:
                with engine.snapshot() as snapshot:
                    _, since = exports.changes(snapshot, since, position, table_ids=ids, with_old=False)
            raise

    def batch(self, columns: Entries, names: dict[int, str], path: str) -> Any:
        """One page as a batch."""
        page = ChangePage(columns, names, path)
        if self._columns is not None:
            return self._delta(page, self._columns)
        arrays = [fill(page) for fill in self._fills]
        return finish_batch(arrays, self.arrow, page.rows, self._corrupt, self.mode)

    # -----------------------------------------------------------------------------------------------------------
    # Columns

    def _fill_of(self, field: spark.StructField) -> Fill:
        name, type_ = field.name, field.dataType
        options = self.options
        if name == options.source_column:
            check_type(field, spark.StringType)
            return lambda page: pa.repeat(page.path, len(page.columns.seqs))
        if name == options.corrupt_column:
            check_type(field, spark.StringType)
            # `finish_batch` fills it when all others are done.
            return lambda page: None
        images = IMAGES[options.shape]
        if name in images:
            column = document_column(name, type_, self.mode, is_complete=self.is_inferred)
            if name == images[0]:
                return lambda page: column.array(page.columns.olds, page.rows, page.describe)
            return lambda page: column.array(page.columns.bodies, page.rows, page.describe)
        if name == "key_bytes":
            check_type(field, spark.BinaryType)
            return lambda page: pa.array(page.columns.keys, pa.binary())
        if name == "key":
            key_column = column_for(type_)
            is_text = type_ == spark.StringType()

            def fill_keys(page: ChangePage) -> Any:
                keys = texts(page.columns.keys) if is_text else None
                if keys is not None:
                    return keys
                return value_array("key", key_column, page.key_values(), self.mode, page.rows, page.describe)

            return fill_keys
        if name not in CHANGE_COLUMNS[options.shape]:
            raise InvalidOption(
                f"changes have no column {name}; there are {', '.join((*CHANGE_COLUMNS[options.shape], 'key', *images))}, "
                f"{options.source_column} and {options.corrupt_column}"
            )
        return _fixed_column(field, options.shape)

    # -----------------------------------------------------------------------------------------------------------
    # Delta's shape has a row per image

    def _field_columns(self) -> DocumentColumn:
        """The columns of the documents' fields, or the single column of whole documents."""
        fixed = CHANGE_COLUMNS["delta"]
        for field in self._schema.fields:
            if field.name in fixed:
                check_type(field, type(fixed[field.name]))
        others = self._names_beside_documents()
        return document_columns(self._schema, self.options, self.mode, others, is_complete=self.is_inferred)

    def _names_beside_documents(self) -> list[str]:
        """The columns of Delta's shape that do not come from the documents."""
        names = [*CHANGE_COLUMNS["delta"], self.options.source_column, self.options.corrupt_column]
        return names if self.options.document == "struct" else [*names, "key"]

    def _delta(self, page: ChangePage, column: DocumentColumn) -> Any:
        columns = page.columns
        places: list[int] = []
        types: list[int] = []
        bodies: list[Any] = []
        nothing = [None] * len(columns.seqs)
        for place, (kind, old, new) in enumerate(
            zip(columns.kinds, columns.olds or nothing, columns.bodies or nothing, strict=True)
        ):
            if kind in (INSERT, DELETE):
                places.append(place)
                types.append(0 if kind == INSERT else 3)
                bodies.append(new if kind == INSERT else old)
            else:
                places += (place, place)
                types += (1, 2)
                bodies += (old, new)
        rows = Rows(len(places))

        def describe(row: int) -> str:
            return page.describe(places[row])

        made = column.named_arrays(self.options.document, bodies, rows, describe)
        arrays = []
        take = pa.array(places, pa.int32())
        for field in self._schema.fields:
            name = field.name
            if name in made:
                arrays.append(made[name])
            elif name == "_change_type":
                arrays.append(texts_by_index(types, DELTA_TYPES))
            elif name == "_commit_version":
                commits = pa.array(list(map(sub, columns.seqs, columns.steps)), pa.int64())
                arrays.append(commits.take(take))
            elif name == "_commit_timestamp":
                arrays.append(moments(columns.times).take(take))
            elif name == self.options.source_column:
                arrays.append(pa.repeat(page.path, len(places)))
            elif name == "key":
                keys = [page.key_values()[place] for place in places]
                arrays.append(value_array(name, column_for(field.dataType), keys, self.mode, rows, describe))
            else:
                arrays.append(None)
        return finish_batch(arrays, self.arrow, rows, self._corrupt, self.mode)


def _fixed_column(field: spark.StructField, shape: str) -> Fill:
    """The function that fills a column that is independent of the documents' fields."""
    name = field.name
    if name == "ts":
        check_type(field, spark.TimestampType)
        return lambda page: moments(page.columns.times)
    if name in ("table", "op", "origin"):
        check_type(field, spark.StringType)
        if name == "table":
            return _tables
        if name == "origin":
            return lambda page: pa.array(page.columns.origins, pa.string())
        ops = KINDS if shape == "reactdb" else DEBEZIUM_OPS
        return lambda page: texts_by_index(page.columns.kinds, ops)
    column: Column = column_for(field.dataType)
    is_long = field.dataType == spark.LongType()
    if name == "seq":
        return lambda page: seqs_of(page) if is_long else column.convert(page.columns.seqs)
    if name == "ts_ms":
        return lambda page: column.convert(page.columns.times)
    if is_long:
        return lambda page: pc.subtract(seqs_of(page), pa.array(page.columns.steps, pa.int64()))
    return lambda page: column.convert(list(map(sub, page.columns.seqs, page.columns.steps)))


def seqs_of(page: ChangePage) -> Any:
    """The seqs. All are whole numbers, because the checksums of the entries were verified."""
    seqs = page.columns.seqs
    if isinstance(seqs, range) and _arange is not None:
        return _arange(seqs.start, seqs.stop)
    return pa.array(list(seqs), pa.int64())


# pyarrow has it since version 21.
_arange = getattr(pa, "arange", None)


def _tables(page: ChangePage) -> Any:
    ids = page.columns.table_ids
    if ids.count(ids[0]) == len(ids):
        return pa.repeat(page.names.get(ids[0], f"#{ids[0]}"), len(ids))
    known = list(dict.fromkeys(ids))
    names = [page.names.get(number, f"#{number}") for number in known]
    place = {number: index for index, number in enumerate(known)}
    return texts_by_index(list(map(place.__getitem__, ids)), names)
