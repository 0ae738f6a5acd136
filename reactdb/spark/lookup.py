"""Lookup: which documents can pass the conditions of a read, by the primary key and by indexes.

Spark tests every filter again on what is read, so it is enough to leave out no document that could pass. What makes that
harder than it looks is that Spark compares what a column shows, and the store orders what was stored. So only those comparisons
are looked up for which the two agree:

    column                   comparisons           because
    -----------------------  --------------------  ------------------------------------------------------------------------
    BIGINT, INT, DOUBLE, ... = in < <= > >=         numbers of all types have one order; NaN is the greatest to both
    TIMESTAMP, DATE          = in < <= > >=         so have moments, and days
    BINARY                   = in < <= > >=         bytes are compared as bytes
    BOOLEAN                  = in
    STRING                   = in < <= > >= prefix  both compare strings by their UTF-8. What else a column shows as text is
                                                   looked for as well: UUIDs and times of day in one that was inferred, everything
                                                   that is no string in others

A STRING with a collation of its own compares in another way; nothing is looked up by it.

Rule of this file: bytes and ranges. What it returns may be too much, and never too little.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from pyspark.sql import types as spark

from reactdb.collation import key_bytes
from reactdb.errors import InvalidKey
from reactdb.expression import row, to_data
from reactdb.spark.columns import ANYTHING
from reactdb.store import document_pages
from reactdb.store.catalogue import IndexInfo, TableInfo
from reactdb.store.snapshot import Snapshot

# More documents than this are quicker read in order.
MOST_KEYS = 10_000
# Values of IN that are looked up.
MOST_VALUES = 1_000
# More ranges of keys than this are looked into beforehand, on the driver.
MOST_RANGES = 16
FIRST, END = b"", b"\xff"
COMPARISONS = ("=", "in", "<", "<=", ">", ">=")
ORDERED: tuple[tuple[tuple[type[spark.DataType], ...], tuple[type, ...]], ...] = (
    (
        (
            spark.ByteType,
            spark.ShortType,
            spark.IntegerType,
            spark.LongType,
            spark.FloatType,
            spark.DoubleType,
            spark.DecimalType,
        ),
        (int, float, Decimal),
    ),
    ((spark.TimestampType,), (datetime,)),
    ((spark.DateType,), (date,)),
    ((spark.BinaryType,), (bytes,)),
)
Range = tuple[bytes, bytes]
STRINGS, UUIDS, TIMES = (key_bytes(example)[:1] for example in ("", UUID(int=0), time.min))
UUID_TEXT = str(UUID(int=0))


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of a field, `("home", "city")` for one inside of another. `word` is as in `pushdown.WORDS`."""

    attribute: tuple[str, ...]
    word: str
    value: Any


class Lookup:
    """The conditions of one read, all of which must hold.

    Args:
        key_column: The column that shows the primary key where it is no field of the document's.
    """

    def __init__(
        self,
        conditions: Sequence[Condition],
        schema: spark.StructType,
        *,
        is_inferred: bool,
        key_column: str | None = None,
    ) -> None:
        self._key_column = key_column
        self._found: dict[tuple[str, ...], list[Range]] = {}
        for condition in conditions:
            ranges = ranges_of(condition, schema, is_inferred=is_inferred)
            if ranges is not None:
                before = self._found.get(condition.attribute)
                self._found[condition.attribute] = merged(ranges) if before is None else both(before, ranges)

    def key_ranges(self, table: TableInfo) -> list[Range]:
        """Ranges of keys, sorted and apart, which have those of all documents that can pass."""
        return self._found.get((self._key_column or table.primary_key,), [(FIRST, END)])

    def wanted_keys(self) -> list[Range] | None:
        """As `key_ranges`, of the column that shows the key; None where nothing is said of it."""
        return None if self._key_column is None else self._found.get((self._key_column,))

    def keys(self, snapshot: Snapshot, table: TableInfo, seq: int) -> list[bytes] | None:
        """Sorted keys, among them those of all documents that can pass as of `seq`; None where ranges of keys are better."""
        best: list[bytes] | None = None
        for attribute, ranges in self._found.items():
            found: Iterable[bytes] | None = None
            if attribute == (self._key_column or table.primary_key,):
                if are_exact(ranges):
                    found = (low for low, _ in ranges)
                elif len(ranges) > MOST_RANGES:
                    found = document_pages.keys_within(snapshot, table.id, ranges, MOST_KEYS)
            elif self._key_column is None:
                index = index_of(table, attribute)
                if index is not None:
                    found = document_pages.candidates(snapshot, index, ranges, MOST_KEYS)
                    # The index is of now; of what has changed since nobody knows where it was.
                    changed = document_pages.changed_keys(snapshot, table, seq, MOST_KEYS)
                    found = None if found is None or changed is None else {*found, *changed}
            if found is not None:
                listed = sorted(found)
                if len(listed) <= MOST_KEYS and (best is None or len(listed) < len(best)):
                    best = listed
        return best


def index_of(table: TableInfo, attribute: tuple[str, ...]) -> IndexInfo | None:
    """A simple index over just this field, however deep inside; None where there is none."""
    wanted: Any = row
    for name in attribute:
        wanted = wanted[name]
    data = to_data(wanted)
    for index in table.indexes.values():
        if not index.multi and to_data(index.expression) == data:
            return index
    return None


# ---------------------------------------------------------------------------------------------------------------
# Ranges


def merged(ranges: Iterable[Range]) -> list[Range]:
    """The same ranges, sorted, with a gap between any two."""
    found: list[Range] = []
    for low, high in sorted(ranges):
        if low >= high:
            continue
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return found


def both(one: Iterable[Range], other: Iterable[Range]) -> list[Range]:
    """What is in both."""
    rest = merged(other)
    found = []
    for low, high in merged(one):
        found += [(max(low, start), min(high, stop)) for start, stop in rest if start < high and low < stop]
    return found


def are_exact(ranges: Sequence[Range]) -> bool:
    """Whether each of them has one key at most."""
    return all(high == low + b"\0" for low, high in ranges)


def ranges_of(condition: Condition, schema: spark.StructType, *, is_inferred: bool) -> list[Range] | None:
    """Ranges of collation bytes that have every value for which the condition can hold; None where that cannot be said."""
    path = fields_of(schema, condition.attribute)
    if not path:
        return None
    word = condition.word
    values = list(condition.value) if word == "in" else [condition.value]
    if word not in (*COMPARISONS, "starts") or not 0 < len(values) <= MOST_VALUES:
        return None
    type_ = path[-1].dataType
    kinds = {type(value) for value in values}
    try:
        # Of another collation than the default, the two are not equal.
        if type_ == spark.StringType():
            if kinds != {str}:
                return None
            is_strict = is_inferred and not any((field.metadata or {}).get(ANYTHING, False) for field in path)
            return [found for value in values for found in ranges_of_texts(word, value, is_strict=is_strict)]
        if word == "starts":
            return None
        if isinstance(type_, spark.BooleanType) and word in ("=", "in"):
            return [exactly(value) for value in values] if kinds == {bool} else None
        for types, taken in ORDERED:
            if isinstance(type_, types) and kinds <= set(taken):
                if any(value != value for value in values):
                    return None
                return [range_of(word, value) for value in values]
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
    return (key, after(key[:1])) if word in (">", ">=") else (key[:1], key + b"\0")


def ranges_of_texts(word: str, text: str, *, is_strict: bool) -> list[Range]:
    """All values that a column of strings shows as a text that passes. `is_strict`: it shows strings, UUIDs and times alone."""
    if word == "starts":
        # Without what ends a text.
        begin = key_bytes(text)[:-2]
        strings = begin, after(begin)
    else:
        strings = range_of(word, text)
    if not is_strict:
        # Numbers are shown as text, too, in an order that is not theirs.
        return [(FIRST, STRINGS), strings]
    if word in ("=", "in"):
        return [exactly(value) for value in shown_as(text)]
    return [(TIMES, after(TIMES)), uuids_of(word, text), strings]


def uuids_of(word: str, text: str) -> Range:
    """UUIDs among which are all those whose texts pass: the texts have the order of the bytes."""
    whole = UUIDS, after(UUIDS)
    if word == "starts":
        shape = UUID_TEXT[: len(text)]
        digits = text.replace("-", "")
        if (
            len(text) > len(UUID_TEXT)
            or [c == "-" for c in text] != [c == "-" for c in shape]
            or not set(digits) <= set("0123456789abcdef")
        ):
            return UUIDS, UUIDS
        return UUIDS + bytes.fromhex(digits.ljust(32, "0")), UUIDS + bytes.fromhex(
            digits.ljust(32, "f")
        ) + b"\0"
    found = next((value for value in shown_as(text) if isinstance(value, UUID)), None)
    return whole if found is None else range_of(word, found)


def after(begin: bytes) -> bytes:
    """The least bytes that are greater than all that begin with these. No key begins with FF."""
    begin = begin.rstrip(b"\xff")
    return begin[:-1] + bytes([begin[-1] + 1])


def shown_as(text: str) -> list[Any]:
    """All values that an inferred STRING shows as this text."""
    found: list[Any] = [text]
    for read in (UUID, time.fromisoformat):
        try:
            value = read(text)
        except ValueError:
            continue
        if str(value) == text or (isinstance(value, time) and value.isoformat() == text):
            found.append(value)
    return found


def fields_of(schema: spark.StructType, attribute: tuple[str, ...]) -> list[spark.StructField]:
    """The fields of a path, from the column down; empty where there is none."""
    found: list[spark.StructField] = []
    type_: spark.DataType = schema
    for name in attribute:
        if not isinstance(type_, spark.StructType) or name not in type_.fieldNames():
            return []
        found.append(type_[name])
        type_ = found[-1].dataType
    return found
