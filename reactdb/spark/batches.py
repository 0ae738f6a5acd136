"""Batches: slices of files as Arrow batches with the columns of a schema, on the executors.

Each page is read in a short transaction and verified, and only the columns of the schema are decoded. If documents are read, the
transaction undoes the changes after the planned seq in SQLite, key by key, so all partitions agree while a writer works.

Rule of this file: every row of a slice leaves exactly once, changes in the order of the log and documents in that of their keys,
or an error does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import sub
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as spark

from reactdb.arrow.arrays import moments, texts_by_index
from reactdb.arrow.decoding import without_collector
from reactdb.arrow.documents import DocumentColumn, Rows, finish_batch, value_array
from reactdb.arrow.keys import key_values, texts
from reactdb.change import DELETE, INSERT, KINDS, REPLACE, UPDATE
from reactdb.errors import HistoryDiverged, InvalidOption
from reactdb.lake.fleet import open_file
from reactdb.spark.options import Options
from reactdb.spark.plan import FileSlice
from reactdb.spark.schema import CORRUPT, NEWS, OLDS, SHAPES, SOURCE
from reactdb.spark.types import arrow_schema, check_type, column_for, document_column, document_columns
from reactdb.store import exports
from reactdb.store.engine import Engine
from reactdb.store.log import NO_ENTRIES, Entries, name_of

DEBEZIUM_OPS: Final = ("c", "u", "u", "d")
DELTA_TYPES: Final = ("insert", "update_preimage", "update_postimage", "delete")
# The kind of a change -> the indexes of the words of its rows.
IMAGES: Final = {INSERT: (0,), UPDATE: (1, 2), REPLACE: (1, 2), DELETE: (3,)}


@dataclass
class SourcePage:
    """The rows of one page, with the values that several columns share.

    Attributes:
        keys, bodies: Of each row, the key and the document.
        names: The names of tables by their numbers.
        entries: The entries of the log; without any if documents were read.
        places, types: In the shape `delta`: of each row, the place of its entry, and the index of its word in `DELTA_TYPES`.
        rows: Collects the misfits.
    """

    path: str
    keys: Sequence[bytes]
    bodies: Sequence[bytes | None]
    names: dict[int, str]
    entries: Entries = NO_ENTRIES
    places: Sequence[int] | None = None
    types: Sequence[int] = ()

    def __post_init__(self) -> None:
        self.rows = Rows(len(self.keys))

    @cached_property
    def key_values(self) -> list[Any]:
        return key_values(self.keys)

    def describe(self, row: int) -> str:
        key = f"key {self.key_values[row]!r:.100}"
        if not self.entries.seqs:
            (name,) = self.names.values()
            return f"{self.path}, table `{name}`, {key}"
        place = row if self.places is None else self.places[row]
        name = self.names[self.entries.table_ids[place]]
        return f"{self.path}, seq {self.entries.seqs[place]} (table `{name}`, {key})"


def image_page(path: str, names: dict[int, str], entries: Entries) -> SourcePage:
    """A page in the shape `delta`: a row for the document before each change, and one for the document after it."""
    types = [type_ for kind in entries.kinds for type_ in IMAGES[kind]]
    places = [place for place, kind in enumerate(entries.kinds) for _ in IMAGES[kind]]
    # Documents that no column needs were not read.
    nothing = [None] * len(entries.seqs)
    news, olds = entries.bodies or nothing, entries.olds or nothing
    # Of the words in DELTA_TYPES, every second one is of the document before.
    bodies = [olds[place] if type_ % 2 else news[place] for place, type_ in zip(places, types, strict=True)]
    keys = list(map(entries.keys.__getitem__, places))
    return SourcePage(path, keys, bodies, names, entries, places, types)


# Makes the array of one column from a page.
Fill = Callable[[SourcePage], Any]


class BatchMaker:
    """Makes batches of one schema. Each executor creates its own.

    Args:
        schema: The wanted columns, in any order.
        is_inferred: The schema comes from `schema.infer`, so a field that is missing in it is a misfit.

    Raises:
        InvalidOption: It has an unknown column, or a column of a wrong type.
    """

    def __init__(self, schema: spark.StructType, options: Options, *, is_inferred: bool = False) -> None:
        self.options = options
        self.arrow = arrow_schema(schema)
        self._is_inferred = is_inferred
        names = schema.fieldNames()
        self._corrupt = names.index(CORRUPT) if CORRUPT in names else None
        # By default, a document that does not fit goes to the column `_corrupt`. Without it, the read raises SchemaMismatch.
        self.mode = options.mode or ("FAILFAST" if self._corrupt is None else "PERMISSIVE")
        self._is_delta = options.is_changes and options.shape == "delta"
        # The columns that come from the documents, if each of their fields is one.
        self._documents: DocumentColumn | None = None
        shape = SHAPES[options.shape] if options.is_changes else {}
        others = {SOURCE, CORRUPT, *shape} | ({"key", "key_bytes"} if options.form != "struct" else set())
        if self._is_delta or not options.is_changes:
            self._documents = document_columns(schema, options, self.mode, others, is_complete=is_inferred)
        self._fills = {
            field.name: self._fill_of(field)
            for field in schema.fields
            if self._documents is None or field.name in others
        }
        self._names = names
        # Columns without documents need none of them read.
        self._with_old = not (others.issuperset(names) if self._is_delta else OLDS.isdisjoint(names))
        self._with_new = self._with_old or not NEWS.isdisjoint(names)

    def batches(self, slices: Iterable[FileSlice]) -> Iterator[Any]:
        """Record batches of all rows of these slices, in order.

        Raises:
            HistoryDiverged: A file is not the planned one.
            HistoryLost: Compaction has removed needed history since the plan was made.
            SchemaMismatch: With FAILFAST.
            CorruptDatabase.
        """
        for part in slices:
            with open_file(part.path, self.options.files) as engine:
                read = self._read_changes if part.table_id is None else self._read_documents
                position: Any = part.since if part.table_id is None else part.start
                while position is not None:
                    with without_collector():
                        made, position = read(engine, part, position)
                    if made is not None:
                        yield made
                        # The next page is read without this batch in memory, unless the caller keeps it.
                        del made

    def _read_changes(self, engine: Engine, part: FileSlice, since: int) -> tuple[Any, int | None]:
        """(the batch of a page of changes, or None; the position of the next page, or None). Nothing else of it is kept."""
        with engine.snapshot() as snapshot:
            if since == part.since:
                exports.check_same(engine, snapshot, part.database_id, part.until)
            ids = None
            if self.options.table is not None:
                ids = exports.find_table_ids(snapshot, self.options.table)
                if not ids:
                    return None, None
            catalogue = snapshot.catalogue
            entries, position = exports.changes(
                snapshot,
                since,
                part.until,
                table_ids=ids,
                with_new=self._with_new,
                with_old=self._with_old,
            )
        following = position if position < part.until else None
        if entries is None:
            return None, following
        names = {number: str(name_of(number, catalogue)) for number in set(entries.table_ids)}
        try:
            if self._is_delta:
                return self._batch(image_page(part.path, names, entries)), following
            return self._batch(SourcePage(part.path, entries.keys, entries.bodies, names, entries)), following
        except Exception:
            # Keys that were read without their documents are not verified, and a damaged key may not be decoded or fit. A read
            # with the documents raises the error that names it.
            while not self._with_new and since < position:
                with engine.snapshot() as snapshot:
                    _, since = exports.changes(snapshot, since, position, table_ids=ids, with_old=False)
            raise

    def _read_documents(self, engine: Engine, part: FileSlice, start: bytes) -> tuple[Any, bytes | None]:
        """(the batch of a page of documents, or None; the first key of the next page, or None). Nothing else of it is kept."""
        assert part.table_id is not None
        with engine.snapshot() as snapshot:
            if start == part.start:
                exports.check_same(engine, snapshot, part.database_id, part.until)
            table = snapshot.catalogue.by_id.get(part.table_id)
            if table is None:
                raise HistoryDiverged(
                    f"{part.path}: the table was dropped, and compaction has removed it since"
                )
            found = exports.documents(snapshot, table, part.until, start, part.stop)
        page = SourcePage(part.path, found.keys, found.bodies, {table.id: table.name})
        return self._batch(page) if found.keys else None, found.next_start

    def _batch(self, page: SourcePage) -> Any:
        """One page as a batch."""
        made: dict[str, Any] = {}
        if self._documents is not None:
            bodies: Any = page.bodies
            made = self._documents.named_arrays(self.options.form, bodies, page.rows, page.describe)
        arrays = [made[name] if name in made else self._fills[name](page) for name in self._names]
        return finish_batch(arrays, self.arrow, page.rows, self._corrupt, self.mode)

    # -----------------------------------------------------------------------------------------------------------
    # Columns

    def _fill_of(self, field: spark.StructField) -> Fill:
        name, type_ = field.name, field.dataType
        if name == SOURCE:
            check_type(field, spark.StringType)
            return lambda page: pa.repeat(page.path, len(page.keys))
        if name == CORRUPT:
            check_type(field, spark.StringType)
            # `finish_batch` fills it when all others are done.
            return lambda page: None
        if name == "key_bytes":
            check_type(field, spark.BinaryType)
            return lambda page: pa.array(page.keys, pa.binary())
        if name == "key":
            return self._key_fill(type_)
        shape = SHAPES[self.options.shape]
        if name not in shape:
            raise InvalidOption(
                f"changes have no column {name}; there are {', '.join(shape)}, key_bytes, {SOURCE} and {CORRUPT}"
            )
        if name in OLDS or name in NEWS:
            column = document_column(name, type_, self.mode, is_complete=self._is_inferred)
            if name in NEWS:
                return lambda page: column.array(page.bodies, page.rows, page.describe)
            return lambda page: column.array(page.entries.olds, page.rows, page.describe)
        if name == "_change_type":
            check_type(field, spark.StringType)
            return lambda page: texts_by_index(page.types, DELTA_TYPES)
        fill = entry_fill(field, self.options.shape)
        if self._is_delta:
            return lambda page: fill(page).take(pa.array(page.places, pa.int32()))
        return fill

    def _key_fill(self, type_: spark.DataType) -> Fill:
        column = column_for(type_)
        is_text = type_ == spark.StringType()

        def fill(page: SourcePage) -> Any:
            keys = texts(page.keys) if is_text else None
            if keys is not None:
                return keys
            return value_array("key", column, page.key_values, self.mode, page.rows, page.describe)

        return fill


def entry_fill(field: spark.StructField, shape: str) -> Fill:
    """The function that fills a column of the log's entries, a value for each entry."""
    name = field.name
    # The numbers of entries are whole, because their checksums were verified.
    is_long = field.dataType == spark.LongType()
    numbers = partial(pa.array, type=pa.int64()) if is_long else column_for(field.dataType).convert
    if name == "seq":
        return lambda page: numbers(page.entries.seqs)
    if name in ("commit", "_commit_version"):
        return lambda page: numbers(list(map(sub, page.entries.seqs, page.entries.steps)))
    if name == "ts_ms":
        return lambda page: numbers(page.entries.times)
    if name in ("ts", "_commit_timestamp"):
        check_type(field, spark.TimestampType)
        return lambda page: moments(page.entries.times)
    check_type(field, spark.StringType)
    if name == "table":
        return tables_of
    if name == "origin":
        return lambda page: pa.array(page.entries.origins, pa.string())
    ops = KINDS if shape == "reactdb" else DEBEZIUM_OPS
    return lambda page: texts_by_index(page.entries.kinds, ops)


def tables_of(page: SourcePage) -> Any:
    """The names of the tables. Most pages have one."""
    if len(page.names) == 1:
        return pa.repeat(*page.names.values(), len(page.entries.table_ids))
    return pa.array(list(map(page.names.__getitem__, page.entries.table_ids)), pa.string())
