"""Schemas: the columns of a read, and their meaning.

A read of documents has the documents' fields as its columns, or the key and the document in one piece. A read of changes has one
of three shapes, which are never mixed:

    reactdb     seq, table, key, op, ts, commit, old, new, origin             one row a change
    delta       the fields; _change_type, _commit_version, _commit_timestamp  one row for an insert or a delete, two for others
    debezium    seq, table, key, op (c, u, d), ts_ms, before, after           one row a change

All may have a column with the row's file (`_source`), and a column for misfits (`_corrupt`).

Rule of this file: it names columns. `batches` fills them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, Final

from pyspark.sql import types as spark

from reactdb.arrow.decoding import decode_many
from reactdb.arrow.keys import key_values
from reactdb.errors import InvalidOption
from reactdb.lake import fleet
from reactdb.spark.options import NOW, Options
from reactdb.spark.plan import FileSlice, plan_slices
from reactdb.spark.types import WHOLE_TYPES, infer_documents, scalar_type, spark_field
from reactdb.store import exports
from reactdb.store.catalogue import TableInfo
from reactdb.store.exports import END, FIRST, Pin
from reactdb.store.snapshot import Snapshot

logger = logging.getLogger("reactdb.spark")

LONG, TEXT, TIME = spark.LongType(), spark.StringType(), spark.TimestampType()
SOURCE, CORRUPT = "_source", "_corrupt"
# The shape -> its columns and their types; of those without a type, the values decide.
SHAPES: Final[dict[str, dict[str, spark.DataType | None]]] = {
    "reactdb": {
        "seq": LONG,
        "table": TEXT,
        "key": None,
        "op": TEXT,
        "ts": TIME,
        "commit": LONG,
        "old": None,
        "new": None,
        "origin": TEXT,
    },
    "debezium": {
        "seq": LONG,
        "table": TEXT,
        "key": None,
        "op": TEXT,
        "ts_ms": LONG,
        "before": None,
        "after": None,
    },
    "delta": {"_change_type": TEXT, "_commit_version": LONG, "_commit_timestamp": TIME},
}
# The columns with the documents before and after.
OLDS, NEWS = frozenset({"old", "before"}), frozenset({"new", "after"})
# Columns of only this shape: naming one of them in a schema chooses the shape.
OWN_NAMES = {"delta": frozenset(SHAPES["delta"]), "debezium": frozenset({"ts_ms", "before", "after"})}
# How many documents of all files a sample has, and how many at least of each; from so many places in a file.
SAMPLE, LEAST, PLACES = 1_000, 50, 10


def complete_options(
    options: Options, given: AbstractSet[str], names: AbstractSet[str], *, is_stream: bool = False
) -> Options:
    """The options, completed from the user's schema: a column of only one shape chooses that shape, and a stream with only
    columns of changes reads changes.

    Args:
        given: Names of the user's options, in lower case.
        names: Names of the wanted columns.
    """
    shapes = [] if "shape" in given else list(OWN_NAMES)
    shape = next((shape for shape in shapes if not OWN_NAMES[shape].isdisjoint(names)), options.shape)
    is_open = is_stream and not options.is_changes and options.as_of == NOW and "read" not in given
    if is_open and (shape == "delta" or names <= {*SHAPES[shape], SOURCE, CORRUPT, "key_bytes"}):
        options = replace(options, read="changes")
    return replace(options, shape=shape) if options.is_changes else options


def infer(options: Options) -> tuple[Options, spark.StructType, list[FileSlice]]:
    """The schema of a read without a user's schema, inferred from a sample of each file.

    Returns:
        The options with the form of the documents; the schema; the slices of the read, from the same look at the files.
    """
    sample = DocumentSample(options)
    slices = plan_slices(options, sample)
    if options.document is None:
        # Documents of several tables have no structure in common.
        form = (
            "variant" if options.is_changes and options.table is None and len(sample.tables) > 1 else "struct"
        )
        options = replace(options, document=form)
    fixed = SHAPES[options.shape] if options.is_changes else {}
    if "key" in fixed:
        inner = sample.fields() if options.document == "struct" else []
        image = WHOLE_TYPES.get(options.form) or (spark.StructType(inner) if inner else TEXT)
        known = {"key": sample.key_type()} | dict.fromkeys((*OLDS, *NEWS), image)
        fields = [spark.StructField(name, type_ or known[name]) for name, type_ in fixed.items()]
    else:
        fields = (
            sample.fields()
            if options.document == "struct"
            else [
                spark.StructField("key", sample.key_type()),
                spark.StructField("document", WHOLE_TYPES[options.form]),
            ]
        )
        fields += [spark.StructField(name, type_ or TEXT) for name, type_ in fixed.items()]
    if not fleet.is_one_file(options.paths):
        fields.append(spark.StructField(SOURCE, TEXT))
    if options.document == "struct" and options.mode in (None, "PERMISSIVE"):
        fields.append(spark.StructField(CORRUPT, TEXT))
    check_names([field.name for field in fields])
    sample.log_conflicts()
    return options, spark.StructType(fields), slices


def check_names(names: Sequence[str]) -> None:
    """Raises: InvalidOption: A field of the documents has the name of a column beside it."""
    folded: dict[str, str] = {}
    for number, name in enumerate(names):
        if name in names[:number]:
            raise InvalidOption(
                f"the documents have a field {name} of their own: name the columns with .schema(...), or read the documents in "
                "one piece with option document"
            )
        other = folded.setdefault(name.lower(), name)
        if other != name:
            logger.warning(
                "fields %r and %r differ in case alone: set spark.sql.caseSensitive=true to tell them apart",
                other,
                name,
            )


class DocumentSample:
    """Documents and keys from all files.

    Attributes:
        tables: The names of the tables that the log has.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._inference = infer_documents()
        self._keys: set[bytes] = set()
        self.tables: set[str] = set()

    def fields(self) -> list[spark.StructField]:
        return list(map(spark_field, self._inference.fields()))

    def key_type(self) -> spark.DataType:
        """The type of the keys; STRING if they have none in common."""
        type_ = scalar_type(key_values(sorted(self._keys))) if self._keys else TEXT
        return type_ if isinstance(type_, spark.AtomicType) else TEXT

    def log_conflicts(self) -> None:
        """Log the fields in conflict, and those with open sets of keys."""
        if self._inference.open_fields:
            logger.warning(
                "%s: fields with open sets of keys are read as MAP, or as VARIANT if the values have several types: %s",
                ", ".join(self._options.paths),
                ", ".join(self._inference.open_fields),
            )
        if self._inference.conflicts:
            logger.warning(
                "%s: fields with values of several types are read as VARIANT: %s",
                ", ".join(self._options.paths),
                ", ".join(map(str, self._inference.conflicts)),
            )

    def take_changes(self, snapshot: Snapshot, pin: Pin, files: int) -> None:
        infos = [info for info in snapshot.catalogue.by_id.values() if info.owner is None]
        self.tables.update(info.name for info in infos)
        ids = None
        if self._options.table is not None:
            ids = exports.find_table_ids(snapshot, self._options.table)
            if not ids:
                return
        self._keys |= exports.read_outer_keys(snapshot, ids or [info.id for info in infos])
        count = max(LEAST, SAMPLE // files)
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
                self._add(page.keys, [*page.bodies, *page.olds])

    def take_documents(self, snapshot: Snapshot, table: TableInfo, seq: int, files: int) -> None:
        self._keys |= exports.read_outer_keys(snapshot, [table.id])
        count, total = max(LEAST, SAMPLE // files), snapshot.count(table)
        starts = [FIRST]
        if total > count:
            starts += exports.split_keys(snapshot, table, -(-total // PLACES))[: PLACES - 1]
        for start in starts:
            limit = max(2, -(-count // len(starts)))
            page = exports.documents(snapshot, table, seq, start, END, limit=limit)
            self._add(page.keys, page.bodies)

    def _add(self, keys: Iterable[bytes], bodies: Iterable[Any]) -> None:
        self._keys.update(keys)
        self._inference.add(decode_many([body for body in bodies if body is not None]))
