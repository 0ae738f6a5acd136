"""Inference: a Spark type for every value of a sample.

The types of each field are collected first and decided on at the end, so the order of the documents does not matter:

    seen                              type
    --------------------------------  -----------------------------------------------------------------------------------
    bool                              BOOLEAN
    int                               BIGINT; beyond 64 bits DECIMAL(38, 0)
    float, or float and int           DOUBLE, where it holds all of the ints
    Decimal, or Decimal and int       DECIMAL(38, 18), or with as many places behind the point as were seen
    str, UUID, time, registered types STRING
    bytes, date, datetime             BINARY, DATE, TIMESTAMP
    timedelta                         INTERVAL DAY TO SECOND
    dict, list                        STRUCT, ARRAY
    nothing but null, {} or []        STRING, which takes anything, as text; for [], an array of STRING
    any other combination             a conflict: VARIANT, or STRING with option conflicts=string

Rule of this file: values in, types out. The caller reports conflicts to the user.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from pyspark.sql import types as spark

from reactdb.spark.columns import ANYTHING
from reactdb.values.value_types import is_registered

# A dict with more fields is used as a map, and its struct would be as wide as the table is long.
MOST_FIELDS = 1_000
# A double holds every int of up to this number of bits.
EXACT_BITS = 53
MOST_DIGITS, USUAL_SCALE = 38, 18

SIMPLE: dict[frozenset[type], spark.DataType] = {
    frozenset({bool}): spark.BooleanType(),
    frozenset({float}): spark.DoubleType(),
    frozenset({str}): spark.StringType(),
    frozenset({UUID}): spark.StringType(),
    frozenset({str, UUID}): spark.StringType(),
    frozenset({time}): spark.StringType(),
    frozenset({bytes}): spark.BinaryType(),
    frozenset({date}): spark.DateType(),
    frozenset({datetime}): spark.TimestampType(),
    frozenset({timedelta}): spark.DayTimeIntervalType(),
}


@dataclass(slots=True)
class Seen:
    """The values at one place of the documents.

    Attributes:
        kinds: Their Python types, without None.
        bits, digits, scale: The bits of the largest int; the most digits before, and after the decimal point.
        fields: The fields of dicts.
        element: The elements of lists.
    """

    kinds: set[type] = field(default_factory=set)
    bits: int = 0
    digits: int = 0
    scale: int = 0
    fields: dict[str, Seen] = field(default_factory=dict)
    element: Seen | None = None

    def add(self, value: Any) -> None:
        """Note one more value."""
        kind = type(value)
        if value is None:
            return
        # A value of a registered type is its text.
        self.kinds.add(str if is_registered(kind) else kind)
        if kind is dict:
            fields = self.fields
            for name, inner in value.items():
                seen = fields.get(name)
                if seen is None:
                    seen = fields[name] = Seen()
                seen.add(inner)
        elif kind is list:
            if self.element is None:
                self.element = Seen()
            for inner in value:
                self.element.add(inner)
        elif kind is int:
            bits = value.bit_length()
            if bits > self.bits:
                self.bits = bits
                # 2^b has about 0.301 b + 1 digits. Counting those of the text would be slow for numbers with thousands of digits.
                self.digits = max(self.digits, bits * 30103 // 100000 + 1)
        elif kind is Decimal:
            _, digits, exponent = value.as_tuple()
            assert isinstance(exponent, int)
            self.scale = max(self.scale, -exponent)
            self.digits = max(self.digits, len(digits) + exponent)


@dataclass(slots=True)
class TypeConflict:
    """A field whose values have no common type."""

    path: str
    kinds: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.path} ({', '.join(self.kinds)})"


class Inference:
    """Collects the documents of a sample and infers their schema.

    Attributes:
        conflicts: The fields without a common type; filled by `fields`.
    """

    def __init__(self, conflict_type: spark.DataType | None = None) -> None:
        self._seen = Seen()
        self._conflict_type = spark.VariantType() if conflict_type is None else conflict_type
        self.conflicts: list[TypeConflict] = []

    def add(self, documents: Iterable[dict[str, Any]]) -> None:
        for document in documents:
            self._seen.add(document)

    def fields(self) -> list[spark.StructField]:
        """The fields of the documents, in the order in which they were first seen."""
        self.conflicts = []
        return self._fields(self._seen, "")

    def _fields(self, seen: Seen, path: str) -> list[spark.StructField]:
        fields = []
        for name, inner in seen.fields.items():
            before = len(self.conflicts)
            type_ = self._type(inner, f"{path}{name}")
            metadata: dict[str, Any] = {}
            if len(self.conflicts) > before and self.conflicts[-1].path.rstrip("[]") == f"{path}{name}":
                metadata = {"reactdb.conflict": ", ".join(self.conflicts[-1].kinds), ANYTHING: True}
            elif is_unseen(inner):
                metadata = {ANYTHING: True}
            fields.append(spark.StructField(name, type_, True, metadata))
        return fields

    def _type(self, seen: Seen, path: str) -> spark.DataType:
        kinds = frozenset(seen.kinds)
        simple = SIMPLE.get(kinds)
        if simple is not None:
            return simple
        if not kinds:
            return spark.StringType()
        if kinds == {dict}:
            if not seen.fields:
                return spark.StringType()
            if len(seen.fields) <= MOST_FIELDS:
                return spark.StructType(self._fields(seen, path + "."))
        elif kinds == {list} and seen.element is not None:
            return spark.ArrayType(self._type(seen.element, path + "[]"))
        elif kinds <= {int, float, Decimal}:
            number = _number(kinds, seen)
            if number is not None:
                return number
        self.conflicts.append(TypeConflict(path, tuple(sorted(kind.__name__ for kind in kinds))))
        return self._conflict_type


def is_unseen(seen: Seen) -> bool:
    """Whether there were only nulls, {} and [], so that STRING stands for an unknown type."""
    if seen.kinds == {list}:
        return seen.element is None or is_unseen(seen.element)
    return not seen.kinds or (seen.kinds == {dict} and not seen.fields)


def _number(kinds: frozenset[type], seen: Seen) -> spark.DataType | None:
    if kinds == {int} and seen.bits < 64:
        return spark.LongType()
    if float in kinds:
        return spark.DoubleType() if Decimal not in kinds and seen.bits <= EXACT_BITS else None
    if kinds == {int}:
        return spark.DecimalType(MOST_DIGITS, 0) if seen.digits <= MOST_DIGITS else None
    digits = max(seen.digits, 0)
    if seen.scale <= USUAL_SCALE and digits <= MOST_DIGITS - USUAL_SCALE:
        return spark.DecimalType(MOST_DIGITS, USUAL_SCALE)
    return spark.DecimalType(MOST_DIGITS, seen.scale) if digits + seen.scale <= MOST_DIGITS else None


def scalar_type(values: Iterable[Any]) -> spark.DataType:
    """The type for these values, keys for example; STRING if they have no common type."""
    inference = Inference(spark.StringType())
    inference.add({"value": value} for value in values)
    fields = inference.fields()
    return fields[0].dataType if fields else spark.StringType()
