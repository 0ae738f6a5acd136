"""Schemas: the columns of a read, and their meaning.

A read of documents has the documents' fields as its columns, or the key and the document in one piece. A read of changes has one
of three shapes, which are never mixed:

    reactdb     seq, table, key, op, ts, commit, old, new, origin             one row a change
    delta       the fields; _change_type, _commit_version, _commit_timestamp  one row for an insert or a delete, two for others
    debezium    seq, table, key, op (c, u, d), ts_ms, before, after           one row a change

All may have a column with the row's file (`_source`), and a column for misfits (`_corrupt`).

Rule of this file: it names columns. `changes` and `snapshot` fill them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from pyspark.sql import types as spark

from reactdb.arrow.decoding import decode_many
from reactdb.arrow.keys import key_values
from reactdb.errors import HistoryLost, InvalidOption, TableNotFound
from reactdb.spark.fleet import open_snapshot, range_of
from reactdb.spark.options import Instant, Options
from reactdb.spark.types import infer_with, scalar_type, spark_field
from reactdb.store import exports
from reactdb.store.exports import Pin
from reactdb.store.snapshot import Snapshot

logger = logging.getLogger("reactdb.spark")

LONG, TEXT, TIME = spark.LongType(), spark.StringType(), spark.TimestampType()
# Name -> type of the columns that do not depend on the documents' fields.
CHANGE_COLUMNS: dict[str, dict[str, spark.DataType]] = {
    "reactdb": {"seq": LONG, "table": TEXT, "op": TEXT, "ts": TIME, "commit": LONG, "origin": TEXT},
    "delta": {"_change_type": TEXT, "_commit_version": LONG, "_commit_timestamp": TIME},
    "debezium": {"seq": LONG, "table": TEXT, "op": TEXT, "ts_ms": LONG},
}
# The columns with the documents before and after.
IMAGES: dict[str, tuple[str, str]] = {"reactdb": ("old", "new"), "debezium": ("before", "after")}
ORDER = {
    "reactdb": ("seq", "table", "key", "op", "ts", "commit", "old", "new", "origin"),
    "debezium": ("seq", "table", "key", "op", "ts_ms", "before", "after"),
}
# Columns of only this shape: naming one of them in a schema chooses the shape.
OWN_NAMES = {"delta": frozenset(CHANGE_COLUMNS["delta"]), "debezium": frozenset({"ts_ms", "before", "after"})}
FORMS: dict[str, spark.DataType] = {
    "json": spark.StringType(),
    "variant": spark.VariantType(),
    "binary": spark.BinaryType(),
}
# The number of places in a file from which a sample is taken.
PLACES = 10


def mode_of(options: Options, schema: spark.StructType) -> str:
    """The treatment of documents that do not fit: by default, they go to the column for misfits, or raise if there is none."""
    if options.mode is not None:
        return options.mode
    return "PERMISSIVE" if options.corrupt_column in schema.fieldNames() else "FAILFAST"


def complete_options(
    options: Options, given: AbstractSet[str], names: AbstractSet[str], *, is_stream: bool = False
) -> Options:
    """The options, completed from the user's schema: a column of only one shape chooses that shape, and a stream with only
    columns of changes reads changes.

    Args:
        given: Names of the user's options, in lower case.
        names: Names of the wanted columns.
    """
    shapes = [] if given & {"shape", "readchangefeed"} else list(OWN_NAMES)
    shape = next((shape for shape in shapes if not OWN_NAMES[shape].isdisjoint(names)), options.shape)
    if is_stream and not options.is_changes and options.as_of is None and "read" not in given:
        sides = (options.source_column, options.corrupt_column, "key_bytes")
        if shape == "delta" or names <= {*ORDER[shape], *sides}:
            options = replace(options, read="changes")
    return replace(options, shape=shape) if options.is_changes else options


def side_columns(options: Options, *, with_source: bool) -> list[spark.StructField]:
    """The further columns of an inferred schema, beside the data."""
    columns = []
    if with_source:
        columns.append(spark.StructField(options.source_column, TEXT))
    if options.document == "struct" and options.mode in (None, "PERMISSIVE"):
        columns.append(spark.StructField(options.corrupt_column, TEXT))
    return columns


def infer(options: Options, pins: Sequence[Pin], *, with_source: bool) -> spark.StructType:
    """The schema of a read without a user's schema, inferred from a sample of each file."""
    sample = SchemaSample(options, pins)
    sides = side_columns(options, with_source=with_source)
    if options.is_changes and options.shape != "delta":
        fields = _of_changes(options, sample)
    else:
        fields = sample.document_fields() if options.document == "struct" else _in_one_piece(options, sample)
        if options.is_changes:
            fields = [
                *fields,
                *(spark.StructField(name, type_) for name, type_ in CHANGE_COLUMNS["delta"].items()),
            ]
    schema = spark.StructType([*fields, *sides])
    _check_names(options, schema.fieldNames())
    sample.log_conflicts()
    return schema


def _of_changes(options: Options, sample: SchemaSample) -> list[spark.StructField]:
    fixed = CHANGE_COLUMNS[options.shape]
    images = IMAGES[options.shape]
    if options.document == "struct":
        inner = sample.document_fields()
        image: spark.DataType = spark.StructType(inner) if inner else spark.StringType()
    else:
        image = FORMS[options.document]
    key = sample.key_type()
    return [
        spark.StructField(name, key if name == "key" else image if name in images else fixed[name])
        for name in ORDER[options.shape]
    ]


def _in_one_piece(options: Options, sample: SchemaSample) -> list[spark.StructField]:
    return [
        spark.StructField("key", sample.key_type()),
        spark.StructField("document", FORMS[options.document]),
    ]


def _check_names(options: Options, names: Sequence[str]) -> None:
    for number, name in enumerate(names):
        if name in names[:number]:
            ours = {options.source_column: "sourceColumn", options.corrupt_column: "corruptColumn"}
            raise InvalidOption(
                f"the documents have a field {name} of their own: give the column another name with option {ours[name]}"
                if name in ours
                else f"the documents have a field {name} of their own: read them with another shape"
            )
    folded: dict[str, str] = {}
    for name in names:
        other = folded.setdefault(name.lower(), name)
        if other != name:
            logger.warning(
                "fields %r and %r differ in case alone: set spark.sql.caseSensitive=true to tell them apart",
                other,
                name,
            )


class SchemaSample:
    """Documents and keys from all files, up to `samplingSize` of each; fewer if there are many files."""

    def __init__(self, options: Options, pins: Sequence[Pin]) -> None:
        self._options = options
        self._pins = pins
        self._inference = infer_with(options.conflicts)
        self._keys: set[bytes] = set()
        self._is_taken = False

    def document_fields(self) -> list[spark.StructField]:
        self._take()
        return list(map(spark_field, self._inference.fields()))

    def key_type(self) -> spark.DataType:
        """The type of the keys; STRING if they have none in common."""
        self._take()
        type_ = scalar_type(key_values(sorted(self._keys))) if self._keys else TEXT
        return type_ if isinstance(type_, spark.AtomicType) else TEXT

    def log_conflicts(self) -> None:
        """Log the fields in conflict, and those with open sets of keys."""
        if self._inference.open_fields:
            logger.warning(
                "%s: fields with open sets of keys are read as MAP, or as %s if the values have several types: %s",
                ", ".join(self._options.paths),
                self._options.conflicts.upper(),
                ", ".join(self._inference.open_fields),
            )
        if self._inference.conflicts:
            logger.warning(
                "%s: fields with values of several types are read as %s: %s",
                ", ".join(self._options.paths),
                self._options.conflicts.upper(),
                ", ".join(map(str, self._inference.conflicts)),
            )

    def _take(self) -> None:
        if self._is_taken:
            return
        self._is_taken = True
        each = max(50, self._options.sampling_size // max(1, len(self._pins)))
        take: Callable[[Pin, Snapshot, int], Iterator[tuple[Sequence[bytes], Sequence[Any]]]] = (
            self._of_log if self._options.is_changes else self._of_tables
        )
        for pin in self._pins:
            with open_snapshot(pin.path, self._options) as snapshot:
                self._keys |= exports.read_outer_keys(snapshot, self._tables(snapshot))
                for keys, bodies in take(pin, snapshot, min(each, self._options.sampling_size)):
                    self._keys.update(keys)
                    self._inference.add(decode_many([body for body in bodies if body is not None]))

    def _tables(self, snapshot: Snapshot) -> Sequence[int]:
        """The ids of tables that may have rows; perhaps of more."""
        if self._options.table is not None:
            return exports.find_table_ids(snapshot, self._options.table)
        return [info.id for info in snapshot.catalogue.by_id.values() if info.owner is None]

    def _of_log(
        self, pin: Pin, snapshot: Snapshot, count: int
    ) -> Iterator[tuple[Sequence[bytes], Sequence[Any]]]:
        ids = None if self._options.table is None else exports.find_table_ids(snapshot, self._options.table)
        if ids == ():
            return
        changes = pin.seq - pin.oldest
        places = 1 if changes <= count else PLACES
        for place in range(places):
            since = pin.oldest + changes * place // places
            # A sample ends at the next place, so that nothing is read twice.
            until = pin.oldest + changes * (place + 1) // places
            page, _ = exports.changes(
                snapshot, since, until, table_ids=ids, with_old=True, limit=-(-count // places)
            )
            if page is not None:
                yield page.keys, [*page.bodies, *page.olds]

    def _of_tables(
        self, pin: Pin, snapshot: Snapshot, count: int
    ) -> Iterator[tuple[Sequence[bytes], Sequence[Any]]]:
        seq = seq_as_of(self._options, pin, snapshot)
        table = snapshot.catalogue.at(table_of(self._options, self._pins), seq)
        if table is None:
            return
        total = snapshot.count(table)
        starts = [b""]
        if total > count:
            starts += exports.split_keys(snapshot, table, -(-total // PLACES))[: PLACES - 1]
        for start in starts:
            page = exports.documents(
                snapshot, table, seq, start, b"\xff", limit=max(2, -(-count // len(starts)))
            )
            yield page.keys, page.bodies


def seq_as_of(options: Options, pin: Pin, snapshot: Snapshot) -> int:
    """The seq of the state that a read of documents takes from one file.

    Raises:
        InvalidOption: It is in the future.
        HistoryLost: Compaction has removed it.
    """
    given = options.as_of
    if options.ranges is not None:
        given = range_of(options, pin)[1]
    if given is None:
        return pin.seq
    if isinstance(given, Instant):
        time_ms = given.microseconds // 1000
        seq = min(pin.seq, exports.find_newest_seq(snapshot, time_ms))
        if seq <= pin.oldest and pin.oldest:
            entry = snapshot.entry(pin.oldest)
            if entry is None or entry.time > time_ms:
                raise HistoryLost(pin.oldest - 1, pin.oldest + 1)
        return seq
    if given > pin.seq:
        raise InvalidOption(
            f"asOf {given} is in the future of {pin.path}: its newest change has seq {pin.seq}"
        )
    if given < pin.oldest:
        raise HistoryLost(given, pin.oldest + 1)
    return given


def table_of(options: Options, pins: Iterable[Pin]) -> str:
    """The table of a read of documents: the table in the options, or the only table.

    Raises:
        TableNotFound: No file has the named table.
        InvalidOption: None is named, and there are none or several.
    """
    names: set[str] = set()
    for pin in pins:
        with open_snapshot(pin.path, options) as snapshot:
            seq = seq_as_of(options, pin, snapshot)
            present = {info.name for info in snapshot.catalogue.by_id.values() if info.owner is None}
            names |= {name for name in present if snapshot.catalogue.at(name, seq) is not None}
        if options.table in names:
            return str(options.table)
    if options.table is not None:
        raise TableNotFound(options.table)
    if len(names) == 1:
        return names.pop()
    raise InvalidOption(
        f"option table is missing: there are {', '.join(sorted(names))}"
        if names
        else "there is no table to read"
    )
