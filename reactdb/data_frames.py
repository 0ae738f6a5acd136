"""Data frames: the result of a selection as a table of Arrow, pandas or polars, and frames as documents to insert.

The documents leave the file as bytes, from one snapshot, which ends then. A few hundred of them, from all over the table, give a
first schema. Then part after part is decoded straight into columns. A part that does not fit is decoded to documents and
improves the schema; parts that were made with an older schema are made again. So the result is the same as if all documents had
been looked at first, and usually few are.

Rule of this file: pyarrow, pandas and polars are imported where they are used. `reactdb.arrow` has the types.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from reactdb.change import CATALOGUE, Change
from reactdb.documents.read import encoded_documents, evaluate
from reactdb.errors import (
    InvalidDocument,
    InvalidOption,
    MissingExtra,
    QueryError,
    SchemaMismatch,
    format_value,
)
from reactdb.query import Query
from reactdb.session import Session
from reactdb.store.catalogue import TableInfo
from reactdb.store.log import is_shown, make_changes, read

if TYPE_CHECKING:
    import pyarrow as pa

    from reactdb.arrow.arrays import Struct
    from reactdb.arrow.inference import TypeInference

logger = logging.getLogger("reactdb.arrow")

# Documents that are made into arrays together.
PART: Final = 4_096
# A batch of changes has at most this many rows, and ends with the row that brings it to this number of bytes of documents.
PAGE_ROWS: Final = 2_000
PAGE_BYTES: Final = 8 * 1024 * 1024
# Documents that give the first schema.
SAMPLE: Final = 400
# Rounds in which parts are made again, before all parts are looked at.
MOST_ROUNDS: Final = 3
# The name of the column of a result of values that are no documents.
VALUE: Final = "value"

# Encoded documents, or dicts.
Part = Sequence[Any]


# ---------------------------------------------------------------------------------------------------------------
# From a selection to a frame


def read_arrow(
    session: Session, query: Query, fields: Any = None, schema: Any = None, at: int | datetime | None = None
) -> pa.Table:
    """The result of a query as a table of Arrow: see `Selection.to_arrow`."""
    check_installed("to_arrow", "pyarrow", "arrow")
    names, wanted = check_columns(fields, schema)
    if at is not None:
        session = session.at(at)
    with session.read() as snapshot:
        encoded = session.timed(encoded_documents)(query, snapshot)
        if encoded is not None:
            documents: list[Any] = [body for page in encoded for body in page]
        else:
            result = session.timed(evaluate)(query, snapshot)
            documents = list(result) if isinstance(result, Iterator) else result
    if encoded is None:
        documents = rows_of(documents)
    return make_table(documents, names, wanted, query.table, is_encoded=encoded is not None)


def rows_of(result: Any) -> list[dict[str, Any]]:
    """The rows of a result: its documents; a single document; or a column of values.

    Raises:
        QueryError: It is one value.
    """
    if result is None:
        return []
    if isinstance(result, dict):
        return [result]
    if not isinstance(result, list):
        raise QueryError(
            f"a frame has the rows of a sequence, and this selection is one value, {format_value(result)}: read it with run()"
        )
    if set(map(type, result)) <= {dict}:
        return result
    return [{VALUE: value} for value in result]


def to_pandas(table: pa.Table) -> Any:
    """A table of Arrow as a DataFrame of pandas. Integers and booleans with nulls get pandas' own types with nulls, because
    otherwise they would become floats and objects. Inside of dicts and lists, integers beside nulls are Python's own: a float
    has 53 bits, so large ones would change."""
    import pandas
    import pyarrow as pa

    with_nulls = {
        pa.bool_(): pandas.BooleanDtype(),
        pa.int8(): pandas.Int8Dtype(),
        pa.int16(): pandas.Int16Dtype(),
        pa.int32(): pandas.Int32Dtype(),
        pa.int64(): pandas.Int64Dtype(),
        pa.uint8(): pandas.UInt8Dtype(),
        pa.uint16(): pandas.UInt16Dtype(),
        pa.uint32(): pandas.UInt32Dtype(),
        pa.uint64(): pandas.UInt64Dtype(),
    }
    special = [
        number
        for number, column in enumerate(table.columns)
        if column.null_count and column.type in with_nulls
    ]
    if not special:
        return table.to_pandas(integer_object_nulls=True)
    names = [table.column_names[number] for number in special]
    plain = table.drop_columns(names).to_pandas(integer_object_nulls=True)
    columns = {
        name: table.column(number).to_pandas(types_mapper=with_nulls.get)
        if number in special
        else plain[name]
        for number, name in enumerate(table.column_names)
    }
    return pandas.DataFrame(columns)


def to_polars(table: pa.Table) -> Any:
    """A table of Arrow as a DataFrame of polars."""
    import polars

    return polars.from_arrow(table)


def check_installed(what: str, package: str, extra: str) -> None:
    """Raises: MissingExtra."""
    for one in (package, "pyarrow"):
        if find_spec(one) is None:
            raise MissingExtra(what, one, extra)


def check_columns(fields: Any, schema: Any) -> tuple[list[str] | None, pa.Schema | None]:
    """The names of the wanted fields, and the schema; None for all fields, and for an inferred schema.

    Raises:
        InvalidOption.
    """
    import pyarrow as pa

    if schema is not None:
        if fields is not None:
            raise InvalidOption("schema names the fields already: give fields or schema, not both")
        if isinstance(schema, pa.Schema):
            return list(schema.names), schema
        if not isinstance(schema, Mapping):
            raise InvalidOption(
                f"schema is a pyarrow.Schema, or a dict of field names and types, not {format_value(schema)}"
            )
        return list(schema), pa.schema([(name, _type_named(name, type_)) for name, type_ in schema.items()])
    if fields is None:
        return None, None
    if isinstance(fields, (str, bytes)) or not isinstance(fields, Iterable):
        raise InvalidOption(f'fields is a list of names, such as ["id", "score"], not {format_value(fields)}')
    names = list(fields)
    for name in names:
        if not isinstance(name, str):
            raise InvalidOption(
                f'fields is a list of names, such as ["id", "score"], not of {format_value(name)}'
            )
        if names.count(name) > 1:
            raise InvalidOption(f"fields has {name!r} twice")
    return names, None


def _type_named(name: str, type_: Any) -> pa.DataType:
    import pyarrow as pa

    if isinstance(type_, pa.DataType):
        return type_
    try:
        return pa.type_for_alias(type_)
    except (ValueError, TypeError):
        raise InvalidOption(
            f"schema: the type of {name} is a type of pyarrow, or its name such as 'int64', not {format_value(type_)}"
        ) from None


# ---------------------------------------------------------------------------------------------------------------
# Making the table


def make_table(
    documents: Part,
    names: list[str] | None = None,
    schema: pa.Schema | None = None,
    table: str = "",
    *,
    is_encoded: bool = False,
) -> pa.Table:
    """Documents as a table of Arrow.

    Args:
        names: The wanted fields, in this order; None: all.
        schema: Their types; None: inferred.
        table: The table's name, for errors.
        is_encoded: They are bytes. Otherwise dicts.

    Raises:
        SchemaMismatch: A document does not fit the schema.
    """
    from reactdb.arrow.decoding import without_collector

    parts = [documents[start : start + PART] for start in range(0, len(documents), PART)]
    with without_collector():
        if schema is not None:
            return _with_schema(parts, schema, table, is_encoded=is_encoded)
        return InferredTable(parts, names, is_encoded=is_encoded).make()


def _with_schema(parts: Sequence[Part], schema: pa.Schema, table: str, *, is_encoded: bool) -> pa.Table:
    from reactdb.arrow.arrays import Misfit
    from reactdb.arrow.types import struct_of

    struct = struct_of(list(schema))
    convert = _converter(struct, is_encoded=is_encoded)
    made = []
    for part in parts:
        arrays = convert(part)
        if arrays is None:
            for document in _decode(part, is_encoded=is_encoded):
                try:
                    struct.arrays([document])
                except Misfit as misfit:
                    raise SchemaMismatch(
                        f"table {table!r}, document {format_value(document, 200)}",
                        str(misfit),
                        "give another schema",
                    ) from None
            arrays = struct.arrays(_decode(part, is_encoded=is_encoded))
        made.append(arrays)
    return _join(made, schema)


def _join(made: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    import pyarrow as pa

    batches = [pa.RecordBatch.from_arrays(arrays, schema=schema) for arrays in made]
    return pa.Table.from_batches(batches, schema)


def _decode(part: Part, *, is_encoded: bool) -> list[dict[str, Any]]:
    from reactdb.arrow.decoding import decode_many

    return decode_many(part) if is_encoded else list(part)


def _converter(struct: Struct, *, is_encoded: bool) -> Callable[[Part], list[Any] | None]:
    """A function that gives the arrays of a part; None where some document may not fit."""
    from reactdb.arrow.arrays import Misfit
    from reactdb.arrow.decoding import column_decoder

    is_straight = is_encoded and struct.names and struct.other is None
    columns = column_decoder(struct.names, is_complete=struct.is_complete) if is_straight else None

    def convert(part: Part) -> list[Any] | None:
        if columns is not None:
            try:
                return struct.arrays_of(columns(part))
            except Exception:
                # Damaged bytes, too: decoding them raises the right error.
                return None
        try:
            return struct.arrays(_decode(part, is_encoded=is_encoded))
        except Misfit:
            return None

    return convert


class InferredTable:
    """Parts of documents that become one table. See the head of this file."""

    def __init__(self, parts: Sequence[Part], names: list[str] | None, *, is_encoded: bool) -> None:
        from reactdb.arrow.inference import TypeInference

        self._parts = parts
        self._names = names
        self._is_encoded = is_encoded
        self._inference = TypeInference(has_other=names is None)
        # The parts that inference has seen as a whole: they fit every later schema.
        self._known: set[int] = set()
        self._version = 0
        self._schema = self._infer()

    def make(self) -> pa.Table:
        """The table."""
        total = sum(map(len, self._parts))
        step = max(1, total // SAMPLE)
        for part in self._parts:
            self._learn(part[::step])
        self._adopt()
        made: list[Any] = [None] * len(self._parts)
        versions = [-1] * len(self._parts)
        rounds = 0
        while stale := [number for number, one in enumerate(versions) if one != self._version]:
            rounds += 1
            if rounds > MOST_ROUNDS:
                for number in set(stale) - self._known:
                    self._learn(self._parts[number], number)
                self._adopt()
            for number in stale:
                made[number] = self._convert(number)
                versions[number] = self._version
        if self._inference.open_fields:
            _log_open_fields(self._inference.open_fields)
        return _join(made, self._schema)

    def _convert(self, number: int) -> list[Any]:
        part = self._parts[number]
        if number not in self._known:
            arrays = self._strict(part)
            if arrays is not None:
                return arrays
            self._learn(part, number)
            self._adopt()
        arrays = self._loose(part)
        # Inference has seen all of it. (Damaged documents have raised an error there.)
        assert arrays is not None
        return arrays

    def _learn(self, part: Part, number: int | None = None) -> None:
        documents = _decode(part, is_encoded=self._is_encoded)
        names = self._names
        if names is not None:
            documents = [
                {name: document[name] for name in names if name in document} for document in documents
            ]
        self._inference.add(documents)
        if number is not None:
            self._known.add(number)

    def _adopt(self) -> None:
        """Take the present schema of inference."""
        schema = self._infer()
        if not schema.equals(self._schema, check_metadata=True) or not self._version:
            self._schema = schema
            self._version += 1
            self._strict = self._make_converter(is_complete=True)
            self._loose = self._make_converter(is_complete=False)

    def _infer(self) -> pa.Schema:
        import pyarrow as pa

        from reactdb.arrow.types import unseen_field

        fields = self._inference.fields()
        if self._names is not None:
            known = {field.name: field for field in fields}
            fields = [known[name] if name in known else unseen_field(name) for name in self._names]
        return pa.schema(fields)

    def _make_converter(self, *, is_complete: bool) -> Callable[[Part], list[Any] | None]:
        from reactdb.arrow.types import ColumnRules, struct_of

        struct = struct_of(list(self._schema), ColumnRules(is_complete=is_complete))
        if self._names is not None:
            # Fields that are not wanted may be there.
            struct.is_complete = False
        return _converter(struct, is_encoded=self._is_encoded)


def _log_open_fields(fields: Sequence[str]) -> None:
    logger.info("fields with open sets of keys are read as maps or as text: %s", ", ".join(fields))


# ---------------------------------------------------------------------------------------------------------------
# The log


def check_change_schema(schema: Any, table: str | None) -> pa.Schema | None:
    """The schema of the documents of changes.

    Raises:
        InvalidOption.
    """
    if schema is not None and table is None:
        raise InvalidOption("schema has the fields of one table's documents: give table, too")
    return check_columns(None, schema)[1]


def read_changes(
    session: Session, since: int, until: int, info: TableInfo | None, schema: pa.Schema | None
) -> pa.RecordBatchReader:
    """Entries of the log as batches of Arrow: see `ReadableDatabase.changes_to_arrow`."""
    import pyarrow as pa

    log = ChangeBatches(session, since, until, info, schema)
    return pa.RecordBatchReader.from_batches(log.schema, log.batches())


class ChangeBatches:
    """A range of the log as batches of one schema. The first pass over the range finds the types, and the second makes the
    batches. The log between two seqs does not change, so both see the same.

    Thread safety: one thread at a time.
    """

    def __init__(
        self, session: Session, since: int, until: int, info: TableInfo | None, schema: pa.Schema | None
    ) -> None:
        import pyarrow as pa

        from reactdb.arrow.documents import DocumentColumn
        from reactdb.arrow.types import column_of, struct_of, unseen_field

        self._session = session
        self._range = (since, until)
        self._info = info
        keys, documents = self._infer(knows_documents=schema is not None)
        key_field = next(iter(keys.fields()), None) or unseen_field("key")
        fields = list(schema) if schema is not None else documents.fields()
        struct = struct_of(fields)
        is_text = info is None or not fields
        # All documents were looked at, so all fit. Those of a given schema may not.
        self._documents = DocumentColumn("", column_of(pa.string()) if is_text else struct, "FAILFAST")
        self._keys = column_of(key_field.type)
        image = pa.string() if is_text else struct.arrow
        self.schema = pa.schema(
            [
                pa.field("seq", pa.int64()),
                pa.field("table", pa.string()),
                key_field.with_name("key"),
                pa.field("op", pa.string()),
                pa.field("ts", pa.timestamp("us", "UTC")),
                pa.field("commit", pa.int64()),
                pa.field("old", image),
                pa.field("new", image),
                pa.field("origin", pa.string()),
            ]
        )
        if documents.open_fields:
            _log_open_fields(documents.open_fields)

    def _infer(self, *, knows_documents: bool) -> tuple[TypeInference, TypeInference]:
        """The types of the keys, and of the documents of one table."""
        from reactdb.arrow.decoding import decode_many, without_collector
        from reactdb.arrow.inference import TypeInference

        keys, documents = TypeInference(), TypeInference()
        for page in self._pages():
            with without_collector():
                keys.add({"key": key} for key in _keys(page))
                if self._info is not None and not knows_documents:
                    for bodies in _images(page):
                        documents.add(decode_many([body for body in bodies if body is not None]))
        return keys, documents

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The batches, made one by one.

        Raises:
            SchemaMismatch: A document does not fit a given schema.
            HistoryLost, CorruptDatabase.
        """
        from reactdb.arrow.decoding import without_collector

        for page in self._pages():
            with without_collector():
                batch = self._batch(page)
            yield batch

    def _batch(self, page: list[Change]) -> pa.RecordBatch:
        import pyarrow as pa

        from reactdb.arrow.arrays import moments
        from reactdb.arrow.documents import Rows

        def describe(row: int) -> str:
            change = page[row]
            return f"table {change.table!r}, seq {change.seq}, key {_keys([change])[0]!r:.100}"

        olds, news = _images(page)
        rows = Rows(len(page))
        return pa.RecordBatch.from_arrays(
            [
                pa.array([change.seq for change in page], pa.int64()),
                pa.array([str(change.table) for change in page], pa.string()),
                self._keys.convert(_keys(page)),
                pa.array([change.kind for change in page], pa.string()),
                moments([change.time for change in page]),
                pa.array([change.commit for change in page], pa.int64()),
                self._documents.array(olds, rows, describe),
                self._documents.array(news, rows, describe),
                pa.array([change.origin for change in page], pa.string()),
            ],
            schema=self.schema,
        )

    def _pages(self) -> Iterator[list[Change]]:
        """The changes, in pages of bounded bytes. Each is read in a snapshot of its own."""
        since, until = self._range
        ids = None if self._info is None else (self._info.id,)
        while since < until:
            with self._session.read() as snapshot:
                entries, since = read(
                    snapshot.connection,
                    snapshot.catalogue,
                    since,
                    until,
                    table_ids=ids,
                    limit=PAGE_ROWS,
                    most_bytes=PAGE_BYTES,
                )
                page = [change for change in make_changes(entries, snapshot.catalogue) if is_shown(change)]
            if page:
                yield page


def _keys(page: Sequence[Change]) -> list[Any]:
    """The keys of the documents; None for an entry about a table, which has none."""
    from reactdb.arrow.keys import key_values

    keys = iter(key_values([change.key_bytes for change in page if change.table_id != CATALOGUE]))
    return [None if change.table_id == CATALOGUE else next(keys) for change in page]


def _images(page: Sequence[Change]) -> tuple[list[bytes | None], list[bytes | None]]:
    """The documents before and after, encoded."""
    return [change.old_bytes for change in page], [change.new_bytes for change in page]


# ---------------------------------------------------------------------------------------------------------------
# From a frame to documents


def documents_of_frame(frame: Any) -> list[dict[str, Any]] | None:
    """The rows of a frame of pandas, polars or pyarrow as documents; None for any other value.

    Raises:
        InvalidDocument, InvalidOption: A value, or a type, that documents lack.
    """
    kind = type(frame)
    library = kind.__module__.partition(".")[0]
    if library == "pandas" and kind.__name__ == "DataFrame":
        return _documents_of_pandas(frame)
    if library == "polars" and kind.__name__ in ("DataFrame", "LazyFrame"):
        check_installed("insert of a frame", "pyarrow", "polars")
        return _documents_of_arrow((frame.collect() if kind.__name__ == "LazyFrame" else frame).to_arrow())
    if library == "pyarrow" and kind.__name__ in ("Table", "RecordBatch", "RecordBatchReader"):
        import pyarrow as pa

        if kind.__name__ == "RecordBatchReader":
            frame = frame.read_all()
        return _documents_of_arrow(
            pa.Table.from_batches([frame]) if kind.__name__ == "RecordBatch" else frame
        )
    return None


def _documents_of_arrow(table: pa.Table) -> list[dict[str, Any]]:
    from reactdb.arrow.rows import ROWS_AT_ONCE, check_names, dicts
    from reactdb.arrow.types import values_of

    names = check_names(list(table.column_names), "the rows")
    makers = [values_of(field.type, field.name) for field in table.schema]
    documents: list[dict[str, Any]] = []
    for batch in table.to_batches(max_chunksize=ROWS_AT_ONCE):
        columns = [make(column) for make, column in zip(makers, batch.columns, strict=True)]
        documents += dicts(names, columns, batch.num_rows, False)
    return documents


def _documents_of_pandas(frame: Any) -> list[dict[str, Any]]:
    check_installed("insert of a DataFrame", "pyarrow", "pandas")
    import pyarrow as pa

    from reactdb.arrow.rows import check_names, dicts
    from reactdb.arrow.types import values_of

    names = list(frame.columns)
    for name in names:
        if not isinstance(name, str):
            raise InvalidOption(
                f"a column of the frame is named {format_value(name)}, and a field has a text as its name: rename the column"
            )
    check_names(names, "the rows")
    columns = []
    for place, name in enumerate(names):
        series = frame.iloc[:, place]
        if series.dtype == object:
            columns.append([plain_value(value) for value in series.tolist()])
            continue
        try:
            array = pa.Array.from_pandas(series)
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise InvalidDocument(f"column {name} cannot be read: {error}") from None
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        columns.append(values_of(array.type, name)(array))
    return dicts(names, columns, len(frame), False)


def plain_value(value: Any) -> Any:
    """A value of a column of objects as a document has it: missing values of pandas become None, numbers of NumPy Python's."""
    kind = type(value)
    if kind is float:
        return None if value != value else value
    if kind is dict:
        return {name: plain_value(inner) for name, inner in value.items()}
    if kind is list:
        return [plain_value(inner) for inner in value]
    library = kind.__module__.partition(".")[0]
    if library == "numpy":
        return plain_value(value.tolist())
    if library == "pandas":
        if kind.__name__ in ("NaTType", "NAType"):
            return None
        if kind.__name__ == "Timestamp":
            return value.to_pydatetime()
        if kind.__name__ == "Timedelta":
            return value.to_pytimedelta()
    return value


__all__ = [
    "check_change_schema",
    "check_installed",
    "documents_of_frame",
    "make_table",
    "read_arrow",
    "read_changes",
    "to_pandas",
    "to_polars",
]
