"""Changes: the log as rows of Arrow batches, on the driver a plan and on the executors a reader.

`ChangePlan` turns options and pinned files into slices of the log. `ChangeRows` turns a slice into batches: page by page, each
read in a short transaction, verified, and made into columns as the schema asks, with nothing decoded that it does not ask for.

Rule of this file: rows leave in log order within a slice, and every change of the slice leaves exactly once, or an error does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import sub
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from reactdb.change import DELETE, INSERT, KINDS
from reactdb.errors import HistoryLost, InvalidOption, TableNotFound
from reactdb.spark.columns import Column, Struct, arrow_schema, check_type, column_for, moments, words
from reactdb.spark.documents import DocumentColumn, Rows, finished, value_array, without_collector
from reactdb.spark.fleet import range_of
from reactdb.spark.keys import STRING, key_values
from reactdb.spark.options import Instant, Options, Version
from reactdb.spark.partitions import ChangeSlice, Split, cut, packed, piece_bytes
from reactdb.spark.schema import CHANGE_COLUMNS, IMAGES, mode_of
from reactdb.store import exports
from reactdb.store.exports import Columns, Pin
from reactdb.store.snapshot import Snapshot

# Changes that are looked up by their keys; more are quicker read in order.
MOST_LOOKED_UP = 10_000
DEBEZIUM_OPS = ("c", "u", "u", "d")
DELTA_TYPES = ("insert", "update_preimage", "update_postimage", "delete")


# ---------------------------------------------------------------------------------------------------------------
# On the driver


def change_slices(options: Options, pins: Iterable[Pin]) -> list[ChangeSlice]:
    """For each file the changes that the options ask for, as one slice; none where a file has none of them.

    Raises:
        HistoryLost: Some of them were compacted away, and `failOnDataLoss` is not false.
        TableNotFound: No file has, or had, the table.
    """
    found = []
    is_known = options.table is None
    for pin in pins:
        with (
            exports.opened(
                pin.path, busy_timeout_s=options.busy_timeout_s, allow_network=options.allow_network
            ) as engine,
            engine.snapshot() as snapshot,
        ):
            is_known = is_known or bool(exports.tables_named(snapshot, str(options.table)))
            since, until = since_of(options, pin, snapshot), until_of(options, pin, snapshot)
        part = slice_of(pin, since, until)
        if part is not None:
            found.append(part)
    if not is_known:
        raise TableNotFound(str(options.table))
    return found


def slice_of(pin: Pin, since: int, until: int) -> ChangeSlice | None:
    """A range of a file's changes, with about what it weighs; None of an empty one."""
    until = min(until, pin.seq)
    if since >= until:
        return None
    return ChangeSlice(pin.path, pin.database_id, since, until, int((until - since) * pin.bytes_a_change) + 1)


def since_of(options: Options, pin: Pin, snapshot: Snapshot) -> int:
    """The position that a read begins after: before the first change that is left, unless the options say otherwise."""
    if options.ranges is not None:
        since = range_of(options, pin)[0]
        if since < pin.oldest and options.fail_on_data_loss:
            raise HistoryLost(since, pin.oldest + 1)
        return max(since, pin.oldest)
    start = options.start
    if start is None:
        return pin.oldest
    if isinstance(start, Instant):
        # The first millisecond that is not before it.
        time_ms = -(-start.microseconds // 1000)
        since = exports.newest_at(snapshot, time_ms - 1)
        first = exports.time_of(snapshot, pin.oldest + 1)
        is_lost = since <= pin.oldest > 0 and (first is None or time_ms < first)
        since, wanted = max(since, pin.oldest), pin.oldest - 1
    else:
        since = (
            exports.first_of_commit(snapshot, start.commit) if isinstance(start, Version) else max(start, 1)
        ) - 1
        is_lost, wanted = since < pin.oldest, since
        if isinstance(start, Version) and start.commit <= pin.oldest:
            is_lost, wanted = pin.oldest > 0, max(0, start.commit - 1)
    if is_lost:
        if options.fail_on_data_loss:
            raise HistoryLost(wanted, pin.oldest + 1)
        return pin.oldest
    return since


def until_of(options: Options, pin: Pin, snapshot: Snapshot) -> int:
    """The last change that a read has: the newest, unless the options say otherwise."""
    if options.ranges is not None:
        return min(pin.seq, range_of(options, pin)[1])
    end = options.end
    if end is None:
        return pin.seq
    if isinstance(end, Instant):
        return min(pin.seq, exports.newest_at(snapshot, end.microseconds // 1000))
    if isinstance(end, Version):
        # To the end of the commit that begins there.
        return min(pin.seq, exports.first_of_commit(snapshot, end.commit + 1) - 1)
    return min(pin.seq, end)


def splits_of(options: Options, slices: Sequence[ChangeSlice]) -> list[Split]:
    """Slices as partitions of about `partitionBytes`."""
    most = piece_bytes(
        sum(part.weight_bytes for part in slices), options.partition_bytes, options.min_partitions
    )
    return packed((piece for part in slices for piece in cut(part, most)), most)


class ChangePlan:
    """A batch read of changes. See the head of this file.

    Attributes:
        slices: What is read; filters make them smaller before `splits` is asked for.
    """

    def __init__(
        self, schema: spark.StructType, options: Options, pins: Sequence[Pin], *, is_inferred: bool
    ) -> None:
        self.schema = schema
        self.options = options
        self.is_inferred = is_inferred
        # The user hears of a wrong schema now, and not from an executor.
        self.rows()
        self.slices = change_slices(options, pins)

    def rows(self) -> ChangeRows:
        return ChangeRows(self.schema, self.options, is_inferred=self.is_inferred)

    def narrow(self, since: int | None, until: int | None) -> None:
        """Read only changes with since < seq <= until of each file."""
        self.slices = [
            piece
            for part in self.slices
            if (
                piece := narrowed(
                    part, part.since if since is None else since, part.until if until is None else until
                )
            )
        ]

    def narrow_by_time(self, early_ms: int | None, late_ms: int | None) -> None:
        """Read only changes with early < time <= late, in milliseconds since 1970."""
        found = []
        for part in self.slices:
            with (
                exports.opened(
                    part.path,
                    busy_timeout_s=self.options.busy_timeout_s,
                    allow_network=self.options.allow_network,
                ) as engine,
                engine.snapshot() as snapshot,
            ):
                since = part.since if early_ms is None else exports.newest_at(snapshot, early_ms)
                until = part.until if late_ms is None else exports.newest_at(snapshot, late_ms)
            piece = narrowed(part, since, until)
            if piece is not None:
                found.append(piece)
        self.slices = found

    def narrow_by_keys(self, keys: Sequence[bytes]) -> None:
        """Read only changes of these keys, which are looked up, where there are not too many."""
        found = []
        for part in self.slices:
            with (
                exports.opened(
                    part.path,
                    busy_timeout_s=self.options.busy_timeout_s,
                    allow_network=self.options.allow_network,
                ) as engine,
                engine.snapshot() as snapshot,
            ):
                name = self.options.table
                ids = list(snapshot.catalogue.by_id) if name is None else exports.tables_named(snapshot, name)
                seqs = None
                if part.seqs is None and are_told_apart(keys, exports.first_and_last_keys(snapshot, ids)):
                    seqs = exports.seqs_of_keys(snapshot, ids, keys, part.since, part.until, MOST_LOOKED_UP)
            if seqs is None:
                found.append(part)
            elif seqs:
                piece = narrowed(part, seqs[0] - 1, seqs[-1])
                if piece is not None:
                    weight = int(len(seqs) * part.weight_bytes / (part.until - part.since)) + 1
                    found.append(replace(piece, seqs=tuple(seqs), weight_bytes=weight))
        self.slices = found

    def read_table(self, name: str) -> None:
        """Read only changes of this table."""
        self.options = replace(self.options, table=name)

    def splits(self) -> list[Split]:
        return splits_of(self.options, self.slices)


# ---------------------------------------------------------------------------------------------------------------
# On the executors

# What fills a column: from a page and the names of its tables, one array.
Fill = Callable[["Page"], Any]


class Page:
    """One page of the log, with what several columns share."""

    __slots__ = ("columns", "keys", "names", "path", "rows")

    def __init__(self, columns: Columns, names: dict[int, str], path: str) -> None:
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
    """Slices of the log as batches of one schema. Made where it is used, on an executor.

    Args:
        schema: As Spark has it; columns in any order, and only those that are wanted.
        is_inferred: It was made by `schema.infer`: then a field that it does not have is one that does not fit.

    Raises:
        InvalidOption: It has a column that there is none of, or of a type that cannot be.
    """

    def __init__(self, schema: spark.StructType, options: Options, *, is_inferred: bool = False) -> None:
        self.options = options
        self.mode = mode_of(options, schema)
        self.arrow = arrow_schema(schema)
        self.is_inferred = is_inferred
        self._schema = schema
        names = schema.fieldNames()
        self.with_old = options.shape == "delta" or IMAGES[options.shape][0] in names
        self.with_origin = "origin" in names
        self._corrupt = names.index(options.corrupt_column) if options.corrupt_column in names else None
        if options.shape == "delta":
            self._columns: DocumentColumn | None = self._field_columns()
            self._fills: list[Fill] = []
        else:
            self._columns = None
            self._fills = [self._fill_of(field) for field in schema.fields]

    def batches(self, slices: Iterable[ChangeSlice]) -> Iterator[Any]:
        """Record batches of all changes of these slices, in order.

        Raises:
            HistoryDiverged: A file is not the one that was planned for.
            HistoryLost: Compaction has removed changes since.
            SchemaMismatch: With FAILFAST.
            CorruptDatabase.
        """
        for part in slices:
            yield from self._slice(part)

    def _slice(self, part: ChangeSlice) -> Iterator[Any]:
        with exports.opened(
            part.path, busy_timeout_s=self.options.busy_timeout_s, allow_network=self.options.allow_network
        ) as engine:
            position = part.since
            is_first = True
            while position < part.until:
                with without_collector():
                    with engine.snapshot() as snapshot:
                        if is_first:
                            exports.check_same(engine, snapshot, part.database_id, part.until)
                            is_first = False
                        names = {info.id: info.name for info in snapshot.catalogue.by_id.values()}
                        ids = None
                        if self.options.table is not None:
                            ids = exports.tables_named(snapshot, self.options.table)
                            if not ids:
                                return
                        if part.seqs is not None:
                            found, position = exports.changes_at(
                                snapshot, part.seqs, position, with_old=self.with_old
                            )
                            if found is None:
                                return
                            position = part.until if position >= part.seqs[-1] else position
                        else:
                            found, position = exports.changes(
                                snapshot,
                                position,
                                part.until,
                                table_ids=ids,
                                with_old=self.with_old,
                                with_origin=self.with_origin,
                            )
                    made = None if found is None else self.batch(found, names, part.path)
                if made is not None:
                    yield made

    def batch(self, columns: Columns, names: dict[int, str], path: str) -> Any:
        """One page as a batch."""
        page = Page(columns, names, path)
        if self._columns is not None:
            return self._delta(page, self._columns)
        arrays = [fill(page) for fill in self._fills]
        return finished(arrays, self.arrow, page.rows, self._corrupt, self.mode)

    # -----------------------------------------------------------------------------------------------------------
    # What fills a column

    def _fill_of(self, field: spark.StructField) -> Fill:
        name, type_ = field.name, field.dataType
        options = self.options
        if name == options.source_column:
            check_type(field, spark.StringType)
            return lambda page: pa.repeat(page.path, len(page.columns.seqs))
        if name == options.corrupt_column:
            check_type(field, spark.StringType)
            # Filled when all others are.
            return lambda page: None
        images = IMAGES[options.shape]
        if name in images:
            column = DocumentColumn(name, type_, self.mode, is_complete=self.is_inferred)
            if name == images[0]:
                return lambda page: column.array(page.columns.olds, page.rows, page.describe)
            return lambda page: column.array(page.columns.bodies, page.rows, page.describe)
        if name == "key_bytes":
            check_type(field, spark.BinaryType)
            return lambda page: pa.array(page.columns.keys, pa.binary())
        if name == "key":
            key_column = column_for(type_)
            return lambda page: value_array(
                "key", key_column, page.key_values(), self.mode, page.rows, page.describe
            )
        if name not in CHANGE_COLUMNS[options.shape]:
            raise InvalidOption(
                f"changes have no column {name}; there are {', '.join((*CHANGE_COLUMNS[options.shape], 'key', *images))}, "
                f"{options.source_column} and {options.corrupt_column}"
            )
        return _fixed(field, options.shape)

    # -----------------------------------------------------------------------------------------------------------
    # Delta's shape: a row for each image

    def _field_columns(self) -> DocumentColumn:
        """The columns that are fields of documents, or the one that is the whole document."""
        ours = {*CHANGE_COLUMNS["delta"], self.options.source_column, self.options.corrupt_column}
        for field in self._schema.fields:
            if field.name in CHANGE_COLUMNS["delta"]:
                check_type(field, type(CHANGE_COLUMNS["delta"][field.name]))
        if self.options.document != "struct":
            ours |= {"key", "document"}
            type_: spark.DataType = next(
                (field.dataType for field in self._schema.fields if field.name == "document"),
                spark.StructType(),
            )
            unknown = [name for name in self._schema.fieldNames() if name not in ours]
            if unknown:
                raise InvalidOption(
                    f"with option document={self.options.document} there is no column {unknown[0]}"
                )
        else:
            type_ = spark.StructType([field for field in self._schema.fields if field.name not in ours])
        return DocumentColumn("", type_, self.mode, is_complete=self.is_inferred)

    def _delta(self, page: Page, column: DocumentColumn) -> Any:
        columns = page.columns
        places: list[int] = []
        types: list[int] = []
        bodies: list[Any] = []
        for place, (kind, old, new) in enumerate(
            zip(columns.kinds, columns.olds, columns.bodies, strict=True)
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
        made: dict[str, Any] = {}

        def describe(row: int) -> str:
            return page.describe(places[row])

        if self.options.document == "struct":
            assert isinstance(column.column, Struct)
            made.update(zip(column.column.names, column.arrays(bodies, rows, describe), strict=True))
        elif not isinstance(column.column, Struct):
            made["document"] = column.array(bodies, rows, describe)
        arrays = []
        take = pa.array(places, pa.int32())
        for field in self._schema.fields:
            name = field.name
            if name in made:
                arrays.append(made[name])
            elif name == "_change_type":
                arrays.append(words(types, DELTA_TYPES))
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
        return finished(arrays, self.arrow, rows, self._corrupt, self.mode)


def _fixed(field: spark.StructField, shape: str) -> Fill:
    """What fills a column that is the same whatever the documents are."""
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
        return lambda page: words(page.columns.kinds, ops)
    column: Column = column_for(field.dataType)
    if name == "seq":
        return lambda page: column.convert(page.columns.seqs)
    if name == "ts_ms":
        return lambda page: column.convert(page.columns.times)
    return lambda page: column.convert(list(map(sub, page.columns.seqs, page.columns.steps)))


def _tables(page: Page) -> Any:
    ids = page.columns.table_ids
    known = list(dict.fromkeys(ids))
    names = [page.names.get(number, f"#{number}") for number in known]
    if len(known) == 1:
        return pa.repeat(names[0], len(ids))
    place = {number: index for index, number in enumerate(known)}
    return words(list(map(place.__getitem__, ids)), names)


def are_told_apart(wanted: Sequence[bytes], ends: Iterable[bytes]) -> bool:
    """Whether no key of another type could be shown as one of these: numbers always, texts where all keys are texts."""
    texts = {key[0] == STRING for key in wanted}
    return texts == {False} or all(key[0] == STRING for key in ends)


def narrowed(part: ChangeSlice, since: int, until: int) -> ChangeSlice | None:
    """The part of a slice between two more bounds; None where there is none."""
    low, high = max(part.since, since), min(part.until, until)
    if low >= high:
        return None
    if part.seqs is not None:
        seqs = tuple(seq for seq in part.seqs if low < seq <= high)
        return replace(part, since=low, until=high, seqs=seqs) if seqs else None
    weight = part.weight_bytes * (high - low) // (part.until - part.since)
    return replace(part, since=low, until=high, weight_bytes=weight + 1)
