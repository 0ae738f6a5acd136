"""Inference: one type for every field of some documents.

The types of each field are collected first and decided on at the end, so the order of the documents does not matter:

    seen                              type
    --------------------------------  -----------------------------------------------------------------------------------
    bool                              bool
    int                               int64; beyond 64 bits decimal128(38, 0)
    float, or float and int           double, where it holds all of the ints
    Decimal, or Decimal and int       decimal128(38, 18), or with as many places behind the point as were seen
    str, UUID, registered types       string
    bytes, date                       binary, date32
    datetime, time, timedelta         timestamp[us, UTC], time64[us], duration[us]
    dict, list                        struct, list
    nothing but null, {} or []        string, which takes anything, as text; for [], a list of strings
    any other combination             a conflict, for which the caller chose the type

Rule of this file: values in, types of Arrow out. The caller reports conflicts to the user. `reactdb.spark.types` turns the result
into Spark's types.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa

from reactdb.values.value_types import is_registered

ANYTHING = "reactdb.anything"
"""Marks, in a field's metadata, a text that was chosen because no other type fits the values, or because there were none."""
CONFLICT = "reactdb.conflict"
"""Has, in a field's metadata, the types of the values without a common type."""

# A dict with more fields is used as a map, and its struct would be as wide as the table is long.
MOST_FIELDS = 1_000
# A double holds every int of up to this number of bits.
EXACT_BITS = 53
MOST_DIGITS, USUAL_SCALE = 38, 18


TEXT, INTEGER, DOUBLE = pa.string(), pa.int64(), pa.float64()
# The types for values of exactly these Python types.
SIMPLE: dict[frozenset[type], Any] = {
    frozenset({bool}): pa.bool_(),
    frozenset({float}): DOUBLE,
    frozenset({str}): TEXT,
    frozenset({UUID}): TEXT,
    frozenset({str, UUID}): TEXT,
    frozenset({time}): pa.time64("us"),
    frozenset({bytes}): pa.binary(),
    frozenset({date}): pa.date32(),
    frozenset({datetime}): pa.timestamp("us", "UTC"),
    frozenset({timedelta}): pa.duration("us"),
}


@dataclass(slots=True)
class Seen:
    """The values at one place of the documents.

    Attributes:
        kinds: How many of them are of each Python type, without None.
        bits, digits, scale: The bits of the largest int; the most digits before, and after the decimal point.
        fields: The fields of dicts.
        element: The elements of lists.
    """

    kinds: dict[type, int] = field(default_factory=dict)
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
        said = str if is_registered(kind) else kind
        self.kinds[said] = self.kinds.get(said, 0) + 1
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


class TypeInference:
    """Collects the documents of a sample and infers their schema.

    Args:
        conflict_type: The type of a field whose values have no common type. None: the type of most of its values, for callers
            that keep the other values elsewhere.

    Attributes:
        conflicts: The fields without a common type; filled by `fields`.
    """

    def __init__(self, conflict_type: Any = TEXT) -> None:
        self._seen = Seen()
        self._conflict_type = conflict_type
        self.conflicts: list[TypeConflict] = []

    def add(self, documents: Iterable[dict[str, Any]]) -> None:
        for document in documents:
            self._seen.add(document)

    def fields(self) -> list[Any]:
        """The fields of the documents, in the order in which they were first seen."""
        self.conflicts = []
        return self._fields(self._seen, "")

    def _fields(self, seen: Seen, path: str) -> list[Any]:
        fields = []
        for name, inner in seen.fields.items():
            before = len(self.conflicts)
            type_ = self._type(inner, f"{path}{name}")
            metadata: dict[str, Any] = {}
            if len(self.conflicts) > before and self.conflicts[-1].path.rstrip("[]") == f"{path}{name}":
                metadata = {CONFLICT: ", ".join(self.conflicts[-1].kinds)}
                if self._conflict_type is not None:
                    metadata[ANYTHING] = True
            elif is_unseen(inner):
                metadata = {ANYTHING: True}
            fields.append(make_field(name, type_, metadata))
        return fields

    def _type(self, seen: Seen, path: str) -> Any:
        kinds = frozenset(seen.kinds)
        type_ = self._common_type(kinds, seen, path)
        if type_ is not None:
            return type_
        self.conflicts.append(TypeConflict(path, tuple(sorted(kind.__name__ for kind in kinds))))
        if self._conflict_type is not None:
            return self._conflict_type
        # The first of the types where two are as many.
        usual = max(seen.kinds, key=lambda kind: seen.kinds[kind])
        found = len(self.conflicts)
        type_ = self._common_type(frozenset({usual}), seen, path)
        # The conflict of this field stays the last, because `_fields` looks for it there.
        self.conflicts[found - 1 :] = [*self.conflicts[found:], self.conflicts[found - 1]]
        return pa.null() if type_ is None else type_

    def _common_type(self, kinds: frozenset[type], seen: Seen, path: str) -> Any:
        """The type for values of these kinds; None if there is none."""
        simple = SIMPLE.get(kinds)
        if simple is not None:
            return simple
        if not kinds:
            return TEXT
        if kinds == {dict}:
            if not seen.fields:
                return TEXT
            if len(seen.fields) <= MOST_FIELDS:
                return pa.struct(self._fields(seen, path + "."))
        elif kinds == {list} and seen.element is not None:
            return pa.list_(self._type(seen.element, path + "[]"))
        elif kinds <= {int, float, Decimal}:
            return _number(kinds, seen)
        return None


def make_field(name: str, type_: Any, metadata: dict[str, Any]) -> Any:
    """A field of Arrow, whose metadata are texts."""
    return pa.field(name, type_, metadata={key: str(value) for key, value in metadata.items()} or None)


def is_unseen(seen: Seen) -> bool:
    """Whether there were only nulls, {} and [], so that STRING stands for an unknown type."""
    kinds = seen.kinds.keys()
    if kinds == {list}:
        return seen.element is None or is_unseen(seen.element)
    return not kinds or (kinds == {dict} and not seen.fields)


def _number(kinds: frozenset[type], seen: Seen) -> Any:
    if kinds == {int} and seen.bits < 64:
        return INTEGER
    if float in kinds:
        return DOUBLE if Decimal not in kinds and seen.bits <= EXACT_BITS else None
    if kinds == {int}:
        return pa.decimal128(MOST_DIGITS, 0) if seen.digits <= MOST_DIGITS else None
    digits = max(seen.digits, 0)
    if seen.scale <= USUAL_SCALE and digits <= MOST_DIGITS - USUAL_SCALE:
        return pa.decimal128(MOST_DIGITS, USUAL_SCALE)
    return pa.decimal128(MOST_DIGITS, seen.scale) if digits + seen.scale <= MOST_DIGITS else None


__all__ = [
    "ANYTHING",
    "CONFLICT",
    "Seen",
    "TypeConflict",
    "TypeInference",
    "is_unseen",
    "make_field",
]
