"""Inference: one type for every field of some documents.

The types of each field are collected first and decided on at the end. So the order of the documents changes no type, except that
it decides which sets of keys are open (see below).

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
    dict with an open set of keys     map, if the values have a common type; otherwise a conflict
    nothing but null, {} or []        string, which takes anything, as text; for [], a list of strings
    any other combination             a conflict, for which the caller chose the type

A set of keys is open if it has many and the newer half of the dicts still brings new ones, as with `{"by_user": {"u17": 1}}`. The
keys are forgotten then, and their values are counted as those of one field. Of whole documents with an open set of fields, those
that occur regularly stay fields, and the others are in one more, `_other`; a field `_other` of the documents is one of the others
then. Where documents have more than MOST_FIELDS fields in all, the dicts with the most fields become maps, too.

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
from pyarrow import types as arrow_kinds

from reactdb.arrow.variant import is_variant
from reactdb.values.value_types import is_registered

ANYTHING = "reactdb.anything"
"""Marks, in a field's metadata, a text that was chosen because no other type fits the values, or because there were none."""
CONFLICT = "reactdb.conflict"
"""Has, in a field's metadata, the types of the values without a common type."""

OTHER_MARK = "reactdb.other"
"""Marks, in a field's metadata, the field of a document's other fields."""
OTHER = "_other"

# Fields of a schema, those of structs in it included.
MOST_FIELDS = 300
# The most fields of a struct, round by round until there are at most MOST_FIELDS in all; None: any number.
MOST_OF_A_STRUCT = (None, 100, 50, 25, 10, 0)
# A set of keys can be open if it has more than MANY_KEYS, and LEAST_DICTS were seen. It is open if of the newer half of the dicts
# at least one in NEW_OF, and at least LEAST_NEW, had a new key.
MANY_KEYS, LEAST_DICTS, NEW_OF, LEAST_NEW = 100, 32, 100, 3
# A field is regular if at least one document in this many has it.
REGULAR_OF = 10
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
        count: The dicts that have this field.
        kinds: How many of the values are of each Python type, without None.
        bits, digits, scale: The bits of the largest int; the most digits before, and after the decimal point.
        fields: The fields of dicts.
        element: The elements of lists.
        others: The values of all keys that are not in `fields`, if the set of keys is open.
        new: The dicts with a new key, since their number was a power of two.
        is_whole: The values are whole documents, whose regular fields stay fields.
    """

    count: int = 0
    kinds: dict[type, int] = field(default_factory=dict)
    bits: int = 0
    digits: int = 0
    scale: int = 0
    fields: dict[str, Seen] = field(default_factory=dict)
    element: Seen | None = None
    others: Seen | None = None
    new: int = 0
    is_whole: bool = False

    def add(self, value: Any) -> None:
        """Note one more value."""
        kind = type(value)
        if value is None:
            return
        # A value of a registered type is its text.
        said = str if is_registered(kind) else kind
        self.kinds[said] = self.kinds.get(said, 0) + 1
        if kind is dict:
            self._add_dict(value)
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

    def _add_dict(self, value: dict[str, Any]) -> None:
        fields, others = self.fields, self.others
        before = len(fields)
        for name, inner in value.items():
            seen = fields.get(name)
            if seen is None:
                seen = others
                if seen is None:
                    seen = fields[name] = Seen()
            seen.count += 1
            seen.add(inner)
        if others is None:
            self.new += len(fields) > before
            count = self.kinds[dict]
            if count >= LEAST_DICTS and count & (count - 1) == 0:
                if self._is_open(count // 2):
                    self.forget_keys(count)
                self.new = 0

    def _is_open(self, newer: int) -> bool:
        """Whether the keys are an open set, judged by this many newer dicts."""
        return len(self.fields) > MANY_KEYS and self.new >= max(LEAST_NEW, newer // NEW_OF)

    @property
    def is_open(self) -> bool:
        """Whether the keys are an open set."""
        if self.others is not None:
            return True
        count = self.kinds.get(dict, 0)
        newer = count - (1 << count.bit_length() >> 1)
        return count >= LEAST_DICTS and self._is_open(newer)

    def forget_keys(self, count: int, most: int = MOST_FIELDS - 1) -> None:
        """Make one field of all values. Of whole documents, at most `most` regular fields stay."""
        regular: list[str] = []
        if self.is_whole:
            regular = [
                name
                for name, seen in self.fields.items()
                if seen.count * REGULAR_OF >= count and name != OTHER
            ]
            # The most frequent, of which the first stay where several are equally frequent.
            regular = sorted(regular, key=lambda name: -self.fields[name].count)[:most]
        kept = set(regular)
        others = Seen() if self.others is None else self.others
        for name, seen in self.fields.items():
            if name not in kept:
                others.merge(seen)
        self.fields = {name: seen for name, seen in self.fields.items() if name in kept}
        self.others = others

    def merge(self, other: Seen) -> None:
        """Note all values of another place."""
        self.count += other.count
        for kind, count in other.kinds.items():
            self.kinds[kind] = self.kinds.get(kind, 0) + count
        self.bits, self.digits = max(self.bits, other.bits), max(self.digits, other.digits)
        self.scale = max(self.scale, other.scale)
        if other.others is not None and self.others is None:
            self.forget_keys(0)
        if other.others is not None and self.others is not None:
            self.others.merge(other.others)
        before = len(self.fields)
        for name, seen in other.fields.items():
            mine = self.fields.get(name, self.others)
            if mine is None:
                mine = self.fields[name] = Seen()
            mine.merge(seen)
        self.new += len(self.fields) > before
        if self.others is None and len(self.fields) > MOST_FIELDS:
            self.forget_keys(0)
        if other.element is not None:
            if self.element is None:
                self.element = Seen()
            self.element.merge(other.element)


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
        has_other: Documents with an open set of fields get the field `_other`. False: the caller has chosen the fields.

    Attributes:
        conflicts: The fields without a common type; filled by `fields`.
        open_fields: The fields with open sets of keys; filled by `fields`.
    """

    def __init__(self, conflict_type: Any = TEXT, *, has_other: bool = True) -> None:
        self._seen = Seen(is_whole=has_other)
        self._has_other = has_other
        self._conflict_type = conflict_type
        self._most_of_a_struct: int | None = None
        self.conflicts: list[TypeConflict] = []
        self.open_fields: list[str] = []

    def add(self, documents: Iterable[dict[str, Any]]) -> None:
        if self._has_other:
            for document in documents:
                self._seen.add(document)
            return
        # The caller has chosen the fields.
        fields = self._seen.fields
        for document in documents:
            for name, value in document.items():
                fields.setdefault(name, Seen()).add(value)

    def fields(self) -> list[Any]:
        """The fields of the documents, in the order in which they were first seen."""
        seen = self._seen
        if self._has_other and seen.others is None and (seen.is_open or len(seen.fields) > MOST_FIELDS):
            seen.forget_keys(seen.kinds[dict] if seen.is_open else 0)
        fields: list[Any] = []
        for most in MOST_OF_A_STRUCT:
            self._most_of_a_struct = most
            self.conflicts, self.open_fields = [], []
            fields = self._fields(seen, "")
            if sum(map(_count_fields, fields)) <= MOST_FIELDS:
                break
        return fields

    def _fields(self, seen: Seen, path: str) -> list[Any]:
        fields = [self._field(name, inner, f"{path}{name}") for name, inner in seen.fields.items()]
        if seen.others is not None:
            field = self._field(OTHER, _as_map(seen.others), OTHER)
            fields.append(field.with_metadata({**(field.metadata or {}), OTHER_MARK: "True"}))
        return fields

    def _field(self, name: str, seen: Seen, path: str) -> Any:
        before = len(self.conflicts)
        type_ = self._type(seen, path)
        metadata: dict[str, Any] = {}
        if len(self.conflicts) > before and self.conflicts[-1].path.rstrip("[]{}") == path:
            metadata = {CONFLICT: ", ".join(self.conflicts[-1].kinds)}
            if self._conflict_type is not None:
                metadata[ANYTHING] = True
        elif is_unseen(seen):
            metadata = {ANYTHING: True}
        return make_field(name, type_, metadata)

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

    def _map(self, seen: Seen, path: str) -> Any:
        """The map for dicts of any keys; None if the values have no common type."""
        values = seen.others
        if values is None:
            values = Seen()
            for inner in seen.fields.values():
                values.merge(inner)
        found = len(self.conflicts)
        inner_path = f"{path}{{}}"
        item = self._type(values, inner_path)
        is_common = len(self.conflicts) == found or self.conflicts[-1].path.rstrip("[]") != inner_path
        if self._conflict_type is not None and (not is_common or is_unseen(values)):
            # The map itself is in conflict, under its own name.
            del self.conflicts[found:]
            return None
        return pa.map_(pa.string(), item)

    def _common_type(self, kinds: frozenset[type], seen: Seen, path: str) -> Any:
        """The one type that holds values of all these Python types; None if no type holds them all."""
        simple = SIMPLE.get(kinds)
        if simple is not None:
            return simple
        if not kinds:
            return TEXT
        if kinds == {dict}:
            if not seen.fields and seen.others is None:
                return TEXT
            most = self._most_of_a_struct
            if not seen.is_open and (most is None or len(seen.fields) <= most):
                return pa.struct(self._fields(seen, path + "."))
            self.open_fields.append(path)
            return self._map(seen, path)
        if kinds == {list} and seen.element is not None:
            return pa.list_(self._type(seen.element, path + "[]"))
        if kinds <= {int, float, Decimal}:
            return _number(kinds, seen)
        return None


def _as_map(values: Seen) -> Seen:
    """Dicts with these values, of any keys."""
    return Seen(kinds={dict: max(1, values.count)}, others=values)


def _count_fields(field: Any) -> int:
    """The number of fields that a field has, itself included."""
    return 1 + _count_inner(field.type)


def _count_inner(type_: Any) -> int:
    if arrow_kinds.is_struct(type_) and not is_variant(type_):
        return sum(map(_count_fields, type_))
    if arrow_kinds.is_list(type_):
        return _count_inner(type_.value_type)
    return _count_inner(type_.item_type) if arrow_kinds.is_map(type_) else 0


def make_field(name: str, type_: Any, metadata: dict[str, Any]) -> Any:
    """A field of Arrow, whose metadata are texts."""
    return pa.field(name, type_, metadata={key: str(value) for key, value in metadata.items()} or None)


def is_unseen(seen: Seen) -> bool:
    """Whether the documents had only nulls, {} and [] here, which show no type. The field becomes a text, which can hold any
    value."""
    kinds = seen.kinds.keys()
    if kinds == {list}:
        return seen.element is None or is_unseen(seen.element)
    return not kinds or (kinds == {dict} and not seen.fields and seen.others is None)


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
    "MOST_FIELDS",
    "OTHER",
    "OTHER_MARK",
    "Seen",
    "TypeConflict",
    "TypeInference",
    "is_unseen",
    "make_field",
]
