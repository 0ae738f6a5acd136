"""Lookup: which documents can pass the conditions of a read, by the primary key and by indexes.

Spark tests every filter again on what is read, so it is enough to leave out no document that could pass. What makes that
harder than it looks is that Spark compares what a column shows, and the store orders what was stored. So only those comparisons
are looked up for which the two agree:

    column                   comparisons           because
    -----------------------  --------------------  ------------------------------------------------------------------------
    BIGINT, INT, DOUBLE, ... = in < <= > >=         numbers of all types have one order; NaN is the greatest to both
    TIMESTAMP, DATE          = in < <= > >=         so have moments, and days
    BOOLEAN                  = in
    STRING, inferred         = in                  it shows strings, UUIDs and times of day: all that would show this text are
                                                   looked for. Of one that may show anything, nothing is looked up

Rule of this file: bytes and ranges. What it returns may be too much, and never too little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any
from uuid import UUID

from pyspark.sql import types as spark

from reactdb.collation import key_bytes
from reactdb.errors import InvalidKey
from reactdb.expression import row
from reactdb.spark.columns import ANYTHING
from reactdb.store import document_pages
from reactdb.store.catalogue import IndexInfo, TableInfo
from reactdb.store.snapshot import Snapshot

# More documents than this are quicker read in order.
MOST_KEYS = 10_000
# Values of IN that are looked up.
MOST_VALUES = 1_000
FIRST, END = b"", b"\xff"
ORDERED: tuple[tuple[tuple[type[spark.DataType], ...], tuple[type, ...]], ...] = (
    (
        (
            spark.ByteType,
            spark.ShortType,
            spark.IntegerType,
            spark.LongType,
            spark.FloatType,
            spark.DoubleType,
        ),
        (int, float),
    ),
    ((spark.TimestampType,), (datetime,)),
    ((spark.DateType,), (date,)),
)
Range = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of a field, `("home", "city")` for one inside of another. `word` is as in `pushdown.WORDS`."""

    attribute: tuple[str, ...]
    word: str
    value: Any


class Lookup:
    """The conditions of one read, all of which must hold."""

    def __init__(
        self, conditions: Sequence[Condition], schema: spark.StructType, *, is_inferred: bool
    ) -> None:
        self._found: list[tuple[tuple[str, ...], list[Range]]] = []
        for condition in conditions:
            ranges = ranges_of(condition, schema, is_inferred=is_inferred)
            if ranges is not None:
                self._found.append((condition.attribute, ranges))

    def key_range(self, table: TableInfo) -> Range:
        """One range of keys, which has those of all documents that can pass."""
        start, stop = FIRST, END
        for attribute, ranges in self._found:
            if attribute == (table.primary_key,):
                start = max(start, min(low for low, _ in ranges))
                stop = min(stop, max(high for _, high in ranges))
        return start, stop

    def keys(self, snapshot: Snapshot, table: TableInfo, seq: int) -> list[bytes] | None:
        """Sorted keys, among them those of all documents that can pass as of `seq`; None where an index does not help."""
        best: list[bytes] | None = None
        for attribute, ranges in self._found:
            found: list[bytes] | None = None
            if attribute == (table.primary_key,) and all(high == low + b"\0" for low, high in ranges):
                found = sorted({low for low, _ in ranges})
            else:
                index = index_of(table, attribute)
                if index is not None:
                    found = snapshot.candidates(index, ranges)
                    # The index is of now; of what has changed since nobody knows where it was.
                    changed = document_pages.changed_keys(snapshot, table, seq, MOST_KEYS)
                    found = None if changed is None else sorted({*found, *changed})
            if found is not None and len(found) <= MOST_KEYS and (best is None or len(found) < len(best)):
                best = found
        return best


def index_of(table: TableInfo, attribute: tuple[str, ...]) -> IndexInfo | None:
    """A simple index over just this field; None where there is none."""
    wanted = row
    for name in attribute:
        wanted = wanted[name]
    for index in table.indexes.values():
        if not index.multi and same_expression(index, wanted):
            return index
    return None


def same_expression(index: IndexInfo, wanted: Any) -> bool:
    from reactdb.expression import to_data

    return bool(to_data(index.expression) == to_data(wanted))


def ranges_of(condition: Condition, schema: spark.StructType, *, is_inferred: bool) -> list[Range] | None:
    """Ranges of collation bytes that have every value for which the condition can hold; None where that cannot be said."""
    field = field_of(schema, condition.attribute)
    if field is None:
        return None
    values = list(condition.value) if condition.word == "in" else [condition.value]
    if condition.word not in ("=", "in", "<", "<=", ">", ">=") or not 0 < len(values) <= MOST_VALUES:
        return None
    type_ = field.dataType
    try:
        if isinstance(type_, spark.BooleanType) and condition.word in ("=", "in"):
            return (
                [exactly(value) for value in values] if {type(value) for value in values} == {bool} else None
            )
        if type_ == spark.StringType() and condition.word in ("=", "in"):
            if not is_inferred or (field.metadata or {}).get(ANYTHING, False):
                return None
            return [exactly(each) for value in values for each in shown_as(value)]
        for types, taken in ORDERED:
            if isinstance(type_, types) and {type(value) for value in values} <= set(taken):
                if any(isinstance(value, float) and value != value for value in values):
                    return None
                return [range_of(condition.word, value) for value in values]
    except (InvalidKey, ValueError):
        pass
    return None


def exactly(value: Any) -> Range:
    key = key_bytes(value)
    return key, key + b"\0"


def range_of(word: str, value: Any) -> Range:
    """The range within the values of this type. The bound itself is in it: Spark tests again."""
    if word in ("=", "in"):
        return exactly(value)
    key = key_bytes(value)
    # Each type has a tag, the first byte.
    return (key, bytes([key[0] + 1])) if word in (">", ">=") else (key[:1], key + b"\0")


def shown_as(text: Any) -> list[Any]:
    """All values that an inferred STRING shows as this text."""
    if type(text) is not str:
        raise ValueError("no text")
    found: list[Any] = [text]
    for read in (UUID, time.fromisoformat):
        try:
            value = read(text)
        except ValueError:
            continue
        if str(value) == text or (isinstance(value, time) and value.isoformat() == text):
            found.append(value)
    return found


def field_of(schema: spark.StructType, attribute: tuple[str, ...]) -> spark.StructField | None:
    """The field of a path; None where there is none."""
    found: spark.StructField | None = None
    type_: spark.DataType = schema
    for name in attribute:
        if not isinstance(type_, spark.StructType) or name not in type_.fieldNames():
            return None
        found = type_[name]
        type_ = found.dataType
    return found
