"""Data files of a lake's table: Parquet files that are written from a stream, searched by key, and rewritten.

A table of Delta or Iceberg is a list of Parquet files, and a commit replaces some of them. The libraries of these formats can
merge rows by themselves, but they hold all the table's columns in memory meanwhile (1 GB for a table of 400 MB), and change
values on the way: pyiceberg 0.12 makes empty lists of null ones, and delta-rs 1.6 cannot merge a column with a backtick in its
name. So the rows go from Arrow to Parquet and back here, and the libraries only list and commit files.

A file holds one or more row groups of bounded size. A search looks at the bounds of the keys of each row group and then reads
the keys alone. A file without a match is left as it is; any other is copied without the matching rows, one row group at a time.

Rule of this file: Arrow and Parquet only. It names files as its caller tells it, and commits nothing.
"""

from __future__ import annotations

import errno
import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types as kinds

from reactdb.arrow.casting import InexactNumber
from reactdb.errors import DiskFull, ReactDBError, StorageError
from reactdb.lake.parts import flush
from reactdb.lake.schemas import conform

# What a writer and a reader hold in memory at a time; readers of Parquet skip row groups by their bounds.
ROW_GROUP_BYTES: Final = 16 << 20
ROW_GROUP_ROWS: Final = 131_072
# A file ends at the first row group beyond this size. A change of one row copies one file, so larger files make changes dearer.
FILE_BYTES: Final = 64 << 20
# Each commit may leave a small file. When there are more than so many, the next merge copies them into one.
SMALL_FILE_BYTES: Final = 8 << 20
SMALL_FILES: Final = 8
ROWS_PER_READ: Final = 8_192


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that was written, and is complete and flushed."""

    path: str
    bytes: int
    metadata: pq.FileMetaData


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file that a table lists. `entry`: as the library of its format has it."""

    path: str
    bytes: int
    entry: Any = None


class DataFileWriter:
    """Writes rows to new files, and flushes them.

    Args:
        new_path: Gives the path of each new file. Its folder exists.
        schema: The schema of the files, with its metadata.
        is_one_file: All rows go to one file; otherwise a file ends at the first row group beyond `FILE_BYTES`.

    Use as a context manager: after an error, the files are removed, unless `keep` was called.
    """

    def __init__(self, new_path: Callable[[], str], schema: pa.Schema, *, is_one_file: bool = False) -> None:
        self._new_path = new_path
        self._schema = schema
        self._is_one_file = is_one_file
        self._held: list[pa.Table] = []
        self._held_bytes = 0
        self._held_rows = 0
        self._path: str | None = None
        self._sink: Any = None
        self._writer: Any = None
        self._kept = False
        self.files: list[DataFile] = []
        self.rows = 0

    def __enter__(self) -> DataFileWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is not None and not self._kept:
            self._discard()

    def finish(self) -> None:
        """Write the rest. From now on `files` has all files."""
        self._write_held()
        self._end_file()

    def keep(self) -> None:
        """Leave the files where they are from now on, also after an error: they may be part of a commit."""
        self._kept = True

    def _discard(self) -> None:
        if self._path is not None:
            with suppress(Exception):
                self._writer.close()
            with suppress(Exception):
                self._sink.close()
            with suppress(FileNotFoundError):
                os.remove(self._path)
            self._path = None
        for file in self.files:
            with suppress(FileNotFoundError):
                os.remove(file.path)
        self.files.clear()

    def write(self, rows: pa.Table) -> None:
        """Add rows, whose schema may have fewer columns and narrower types than the files'."""
        rows = conform(rows, self._schema)
        self.rows += rows.num_rows
        while rows.num_rows:
            # A batch of large documents is cut, so that a row group stays within its bounds.
            each = max(1, rows.num_rows * ROW_GROUP_BYTES // max(rows.nbytes, 1))
            part = rows.slice(0, min(each, ROW_GROUP_ROWS - self._held_rows))
            rows = rows.slice(part.num_rows)
            self._held.append(part)
            self._held_bytes += part.nbytes
            self._held_rows += part.num_rows
            if self._held_bytes >= ROW_GROUP_BYTES or self._held_rows >= ROW_GROUP_ROWS:
                self._write_held()

    def _write_held(self) -> None:
        if not self._held:
            return
        path = self._path = self._path or self._new_path()
        with storage_errors(path, "written"):
            if self._writer is None:
                self._sink = pa.OSFile(path, "wb")
                self._writer = pq.ParquetWriter(self._sink, self._schema, compression="zstd")
            self._writer.write_table(pa.concat_tables(self._held), row_group_size=ROW_GROUP_ROWS)
            self._held.clear()
            self._held_bytes = self._held_rows = 0
            if not self._is_one_file and self._sink.tell() >= FILE_BYTES:
                self._end_file()

    def _end_file(self) -> None:
        if self._path is None:
            return
        with storage_errors(self._path, "written"):
            self._writer.close()
            self._sink.close()
            # Otherwise a power cut could keep the commit and lose the rows.
            flush(self._path)
            # Reading the file's end again shows that the file can be read.
            self.files.append(DataFile(self._path, os.path.getsize(self._path), pq.read_metadata(self._path)))
        self._path = self._sink = self._writer = None


# ---------------------------------------------------------------------------------------------------------------
# Keys


class Keys:
    """Distinct keys, each of one or more columns, and a test of rows for these keys.

    Args:
        table: One row a key. Its columns have the names and the types of the table's.
    """

    def __init__(self, table: pa.Table) -> None:
        self.names: list[str] = table.schema.names
        self._types = [field.type for field in table.schema]
        self._values = [column.combine_chunks().unique() for column in table.columns]
        # A key of several columns is numbered column by column: `_pairs[i]` holds the numbers of the keys' first i + 2 columns,
        # of which a row's number is the index. So no number exceeds the number of keys times that of one column's values.
        self._pairs: list[pa.Array] = []
        codes = pc.index_in(table.column(0), value_set=self._values[0]).cast(pa.int64())
        for column, values in zip(table.columns[1:], self._values[1:], strict=True):
            pairs = self._pair(codes, column, values)
            self._pairs.append(pairs.combine_chunks().unique())
            codes = pc.index_in(pairs, value_set=self._pairs[-1]).cast(pa.int64())
        self._sorted = [_sorted_values(values) for values in self._values]

    @staticmethod
    def _pair(codes: Any, column: Any, values: pa.Array) -> Any:
        """The number of each row, null where the row is none of the keys."""
        code = pc.index_in(column, value_set=values).cast(pa.int64())
        return pc.add(pc.multiply(codes, pa.scalar(max(len(values), 1), pa.int64())), code)

    def mask(self, rows: pa.Table | pa.RecordBatch) -> Any:
        """Of each row, whether it has one of the keys."""
        columns = [
            rows.column(name) if rows.schema.field(name).type == type_ else rows.column(name).cast(type_)
            for name, type_ in zip(self.names, self._types, strict=True)
        ]
        if len(columns) == 1:
            return pc.is_in(columns[0], value_set=self._values[0])
        codes = pc.index_in(columns[0], value_set=self._values[0]).cast(pa.int64())
        for column, values, known in zip(columns[1:], self._values[1:], self._pairs, strict=True):
            codes = pc.index_in(self._pair(codes, column, values), value_set=known, skip_nulls=True).cast(
                pa.int64()
            )
        return pc.is_valid(codes)

    def may_be_in(self, group: pq.RowGroupMetaData) -> bool:
        """Whether a row group may have one of the keys, as the bounds of its columns say."""
        for name, values in zip(self.names, self._sorted, strict=True):
            if values is None:
                continue
            found = [
                group.column(index)
                for index in range(group.num_columns)
                if group.column(index).path_in_schema == name
            ]
            # A field `b` of a struct `a` has the same path as a column `a.b`.
            if len(found) != 1:
                continue
            statistics = found[0].statistics
            if statistics is None or not statistics.has_min_max:
                continue
            at = bisect_left(values, statistics.min)
            if at == len(values) or values[at] > statistics.max:
                return False
        return True


def make_keys(names: Iterable[str], schema: pa.Schema, *tables: pa.Table) -> Keys:
    """The keys of these rows, in the types of `schema`."""
    key_schema = pa.schema([schema.field(name) for name in names])
    return Keys(pa.concat_tables([conform(table.select(key_schema.names), key_schema) for table in tables]))


def _sorted_values(values: pa.Array) -> list[Any] | None:
    """The values in order, if bounds of Parquet follow the same order as Python's."""
    if not (kinds.is_integer(values.type) or kinds.is_string(values.type) or kinds.is_binary(values.type)):
        return None
    return sorted(value for value in values.to_pylist() if value is not None)


# ---------------------------------------------------------------------------------------------------------------
# Searching and copying


def find_rows(path: str, keys: Keys) -> list[pa.ChunkedArray | None] | None:
    """The rows of a file that have one of the keys: a mask for each row group, None for a group without any.

    None if the file has no such row.
    """
    masks: list[pa.ChunkedArray | None] = []
    with open_parquet(path) as file:
        for number in range(file.metadata.num_row_groups):
            mask = None
            if keys.may_be_in(file.metadata.row_group(number)):
                found = keys.mask(file.read_row_group(number, columns=keys.names))
                mask = found if pc.any(found).as_py() else None
            masks.append(mask)
    return masks if any(mask is not None for mask in masks) else None


def rows_of(path: str, masks: list[pa.ChunkedArray | None] | None, schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows of a file in pieces, without the rows of the masks. In the types of `schema`."""
    with open_parquet(path) as file:
        for number in range(file.metadata.num_row_groups):
            mask = None if masks is None else masks[number]
            at = 0
            for batch in file.iter_batches(ROWS_PER_READ, row_groups=[number]):
                # Files of delta-rs may have views of text, which Arrow casts but does not filter.
                piece = conform(pa.Table.from_batches([batch]), schema)
                if mask is not None:
                    piece = piece.filter(pc.invert(mask.slice(at, batch.num_rows)))
                at += batch.num_rows
                if piece.num_rows:
                    yield piece


def found_rows(path: str, keys: Keys, schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows of a file that have one of the keys, in the types of `schema`."""
    with open_parquet(path) as file:
        for number in range(file.metadata.num_row_groups):
            if not keys.may_be_in(file.metadata.row_group(number)):
                continue
            for batch in file.iter_batches(ROWS_PER_READ, row_groups=[number]):
                piece = conform(pa.Table.from_batches([batch]), schema)
                piece = piece.filter(keys.mask(piece))
                if piece.num_rows:
                    yield piece


def scan_files(paths: Iterable[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """All rows of these files, in the types of `schema`."""
    for path in paths:
        for piece in rows_of(path, None, schema):
            yield from piece.to_batches()


def search_files(paths: Iterable[str], keys: pa.Table, where_current: bool, schema: pa.Schema) -> pa.Table:
    """The rows of these files for `LakeTable.lookup`."""
    wanted = make_keys(keys.schema.names, schema, keys)
    found = [piece for path in paths for piece in found_rows(path, wanted, schema)]
    rows = pa.concat_tables([schema.empty_table(), *found])
    return rows.filter(rows.column("is_current")) if where_current else rows


@contextmanager
def open_parquet(path: str) -> Iterator[pq.ParquetFile]:
    # Spark writes moments as INT96, which Arrow would read as nanoseconds, and so only from 1677 to 2262.
    with storage_errors(path, "read"), pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
        yield file


def write_all(writer: DataFileWriter, batches: Iterable[pa.RecordBatch]) -> None:
    for batch in batches:
        writer.write(pa.Table.from_batches([batch]))


def rewrite(
    writer: DataFileWriter, files: Iterable[TableFile], keys: Keys, rows: pa.Table, schema: pa.Schema
) -> list[TableFile]:
    """Write what replaces the files in which rows change: their other rows, and then `rows`.

    Args:
        files: The files of the table.
        keys: The keys of the rows that go: of those in `rows`, and of the deleted ones.
        rows: The rows that come.

    Returns:
        The files that are replaced.
    """
    found = [(file, find_rows(file.path, keys)) for file in files]
    small = sum(masks is None and file.bytes < SMALL_FILE_BYTES for file, masks in found)
    most = SMALL_FILE_BYTES if small > SMALL_FILES else 0
    replaced = [(file, masks) for file, masks in found if masks is not None or file.bytes < most]
    for file, masks in replaced:
        for piece in rows_of(file.path, masks, schema):
            writer.write(piece)
    writer.write(_in_order(rows, keys.names))
    return [file for file, _ in replaced]


def _in_order(rows: pa.Table, names: list[str]) -> pa.Table:
    """The rows in the order of their keys: then the bounds of row groups are narrow, and a search reads fewer."""
    if rows.num_rows < 2 or any(kinds.is_nested(rows.schema.field(name).type) for name in names):
        return rows
    # Arrow would take a name such as `a.b` for the path of a field.
    columns = {str(at): rows.column(name) for at, name in enumerate(names)}
    return rows.take(pc.sort_indices(pa.table(columns), [(name, "ascending") for name in columns]))


# ---------------------------------------------------------------------------------------------------------------
# Errors


@contextmanager
def storage_errors(path: str, verb: str, *library: type[Exception]) -> Iterator[None]:
    """Errors of the disk and of a table's library, as errors of reactdb.

    Args:
        verb: "read" or "written", for the sentence.
        library: The errors of the library.

    Raises:
        DiskFull, StorageError.
    """
    try:
        yield
    except (ReactDBError, InexactNumber):
        raise
    except (OSError, pa.ArrowException, *library) as error:
        full = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}
        # delta-rs adds the calls of its own functions where the environment has RUST_BACKTRACE.
        text = str(error).partition("\n   0: ")[0]
        if getattr(error, "errno", None) in full or "No space left" in text or "File too large" in text:
            raise DiskFull(f"there is no room to write {path}: {text}") from error
        raise StorageError(f"{path} cannot be {verb}: {text}") from error
