"""The order and the equality of BSON values: MongoDB's, which differ from reactdb's keys.

Values of different types are ordered by type: MinKey, missing, null, numbers, texts, documents, arrays, binary, ObjectIds,
booleans, dates, timestamps, regular expressions, code, code with scope, MaxKey. Numbers of all types are one line, with NaN at
its lower end. Documents and arrays are compared field by field in their own order: type, name, value.

`sort_key` makes tuples for Python's comparison and hash: two values are equal in this order if their keys are equal. With a
collation, `text` makes the keys of texts; names of fields are never collated.

Rule of this file: there is only this order. All comparisons of BSON values call it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, TypeGuard
from uuid import UUID

from bson.binary import Binary
from bson.code import Code
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp

from reactdb.budget import spend_value
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.numeric import decimal_of
from reactdb.dialects.mongodb.values import ms_of_date
from reactdb.errors import describe_type

__all__ = [
    "INTEGERS",
    "MISSING",
    "TYPE_CODES",
    "Missing",
    "TextKey",
    "bracket",
    "compare",
    "equal",
    "identical",
    "is_nan",
    "is_text",
    "number_of",
    "sort_key",
    "type_code",
    "type_name",
]


class Missing:
    """The value of a missing field. There is one instance: `MISSING`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING: Final = Missing()

TextKey = Callable[[str], Any]
"""A collation: a function from a text to a comparable and hashable key."""

# -----------------------------------------------------------------------------------------------------------
# Types

TYPE_CODES: Final[dict[str, int]] = {
    "double": 1,
    "string": 2,
    "object": 3,
    "array": 4,
    "binData": 5,
    "undefined": 6,
    "objectId": 7,
    "bool": 8,
    "date": 9,
    "null": 10,
    "regex": 11,
    "dbPointer": 12,
    "javascript": 13,
    "symbol": 14,
    "javascriptWithScope": 15,
    "int": 16,
    "timestamp": 17,
    "long": 18,
    "decimal": 19,
    "minKey": -1,
    "maxKey": 127,
}
"""The BSON number of each type, by its name in `$type`."""

_BRACKETS: Final[dict[type, tuple[str, int]]] = {
    Missing: ("missing", 0),
    MinKey: ("minKey", -1),
    type(None): ("null", 5),
    int: ("int", 10),
    Int64: ("long", 10),
    float: ("double", 10),
    Decimal128: ("decimal", 10),
    str: ("string", 15),
    dict: ("object", 20),
    list: ("array", 25),
    tuple: ("array", 25),
    bytes: ("binData", 30),
    Binary: ("binData", 30),
    UUID: ("binData", 30),
    ObjectId: ("objectId", 35),
    bool: ("bool", 40),
    datetime: ("date", 45),
    DatetimeMS: ("date", 45),
    Timestamp: ("timestamp", 47),
    Regex: ("regex", 50),
    Code: ("javascript", 60),
    MaxKey: ("maxKey", 127),
}
# The name, and the place of its bracket in the order.

_TYPES: Final = {kind: (TYPE_CODES.get(name, 0), name, place) for kind, (name, place) in _BRACKETS.items()}


def _type(value: Any) -> tuple[int, str, int]:
    kind = type(value)
    known = _TYPES.get(kind)
    if known is None:
        known = next((_TYPES[base] for base in kind.__mro__ if base in _TYPES), None)
        if known is None and isinstance(value, Mapping):
            known = _TYPES[dict]
        if known is None:
            raise MongoError(2, f"BSON has no value {describe_type(value)}")
    if kind is Code and value.scope is not None:
        return TYPE_CODES["javascriptWithScope"], "javascriptWithScope", 65
    if kind is int and not -0x80000000 <= value <= 0x7FFFFFFF:
        return _TYPES[Int64]
    return known


def type_code(value: Any) -> int:
    """The number of the value's type in BSON, such as 16 of an int32; 0 of MISSING."""
    return _type(value)[0]


INTEGERS: Final = frozenset({"int", "long"})
"""The accepted types for MongoDB's `long` arguments: commands written by programs have a plain `int`."""


def type_name(value: Any) -> str:
    """The name of the value's type as `$type` has it, such as `objectId`; `missing` of MISSING."""
    return _type(value)[1]


def is_text(value: Any) -> TypeGuard[str]:
    """Whether it is a text. Code is none, though PyMongo's class of it is a subclass of `str`."""
    return type(value) is str or (isinstance(value, str) and not isinstance(value, Code))


def bracket(value: Any) -> int:
    """The place of the value's type in the order: values in the same bracket are compared by their contents."""
    return _type(value)[2]


# -----------------------------------------------------------------------------------------------------------
# Keys

_Key = tuple[Any, ...]


def sort_key(value: Any, text: TextKey | None = None) -> _Key:
    """A tuple with the order of the value in Python's comparison and hash.

    Args:
        value: Any BSON value, or MISSING, which is below everything except MinKey.
        text: The collation, if there is one.

    Raises:
        MongoError: 2, BSON has no such value.
    """
    make = _KEYS.get(type(value))
    if make is None:
        make = next((_KEYS[base] for base in type(value).__mro__ if base in _KEYS), None)
        if make is None:
            make = _document_key if isinstance(value, Mapping) else _refuse_key
    return make(value, text)


def _refuse_key(value: Any, text: TextKey | None) -> _Key:
    raise MongoError(2, f"BSON has no value {describe_type(value)}")


def _document_key(value: Any, text: TextKey | None) -> _Key:
    fields = []
    spend_value(value)
    for name, inner in value.items():
        key = sort_key(inner, text)
        fields.append((key[0], name, key))
    return 20, tuple(fields)


def _array_key(value: Any, text: TextKey | None) -> _Key:
    spend_value(value)
    return 25, tuple([sort_key(inner, text) for inner in value])


def _float_key(value: float, text: TextKey | None) -> _Key:
    return (10, 1, value) if value == value else _NAN


def _decimal_key(value: Decimal128, text: TextKey | None) -> _Key:
    number = decimal_of(value)
    return (10, 1, number) if not number.is_nan() else _NAN


_NAN: Final = (10, 0, 0)


def _text_key(value: str, text: TextKey | None) -> _Key:
    if text is None:
        return 15, value
    spend_value(value)
    return 15, text(value)


def _binary_key(value: Any, text: TextKey | None) -> _Key:
    return 30, len(value), getattr(value, "subtype", 0), bytes(value)


def _code_key(value: Code, text: TextKey | None) -> _Key:
    if value.scope is None:
        return 60, str(value)
    return 65, str(value), _document_key(value.scope, text)


_KEYS: Final[dict[type, Callable[[Any, TextKey | None], _Key]]] = {
    Missing: lambda value, text: (0,),
    MinKey: lambda value, text: (-1,),
    type(None): lambda value, text: (5,),
    int: lambda value, text: (10, 1, value),
    Int64: lambda value, text: (10, 1, int(value)),
    float: _float_key,
    Decimal128: _decimal_key,
    str: _text_key,
    dict: _document_key,
    list: _array_key,
    tuple: _array_key,
    bytes: _binary_key,
    Binary: _binary_key,
    UUID: lambda value, text: (30, 16, 4, value.bytes),
    ObjectId: lambda value, text: (35, value.binary),
    bool: lambda value, text: (40, value),
    datetime: lambda value, text: (45, ms_of_date(value)),
    DatetimeMS: lambda value, text: (45, int(value)),
    Timestamp: lambda value, text: (47, value.time, value.inc),
    Regex: lambda value, text: (50, value.pattern, value.flags),
    Code: _code_key,
    MaxKey: lambda value, text: (127,),
}


# -----------------------------------------------------------------------------------------------------------
# Comparing

# Within each of these types, Python's order and equality are the same.
_ALIKE: Final[frozenset[type]] = frozenset({str, int, bool, Int64})


def compare(left: Any, right: Any, text: TextKey | None = None) -> int:
    """-1, 0 or 1: whether the left value is below, equal to or above the right value."""
    kind = type(left)
    if kind is type(right) and kind in _ALIKE and (text is None or kind is not str):
        return -1 if left < right else 1 if left > right else 0
    left_key, right_key = sort_key(left, text), sort_key(right, text)
    return -1 if left_key < right_key else 1 if left_key > right_key else 0


def equal(left: Any, right: Any, text: TextKey | None = None) -> bool:
    """Whether two values have the same place in the order, like 1, Int64(1) and 1.0. The order of a document's fields counts."""
    kind = type(left)
    if kind is type(right) and kind in _ALIKE and (text is None or kind is not str):
        return bool(left == right)
    return sort_key(left, text) == sort_key(right, text)


def identical(left: Any, right: Any) -> bool:
    """Whether two values are the same to the bit: of the same type, 0.0 apart from -0.0, fields in the same order."""
    kind = type(left)
    if kind is not type(right):
        return False
    if kind is dict:
        return len(left) == len(right) and all(
            name == other and identical(inner, right[other])
            for (name, inner), other in zip(left.items(), right, strict=True)
        )
    if kind is list:
        return len(left) == len(right) and all(map(identical, left, right))
    if kind is float:
        return bool(left.hex() == right.hex())
    if kind is Decimal128:
        return bool(left.bid == right.bid)
    if kind is Binary:
        return left.subtype == right.subtype and bytes(left) == bytes(right)
    if kind is Code:
        return str(left) == str(right) and identical(left.scope, right.scope)
    return bool(left == right)


# -----------------------------------------------------------------------------------------------------------
# Numbers


def is_nan(value: Any) -> bool:
    """Whether it is NaN."""
    if type(value) is Decimal128:
        return bool(decimal_of(value).is_nan())
    return bool(value != value)


def number_of(value: Any) -> int | float | Decimal | None:
    """The number as Python computes with it, or None if the value is no number."""
    kind = type(value)
    if kind is int or kind is float:
        return value  # type: ignore[no-any-return]
    if kind is Int64:
        return int(value)
    return decimal_of(value) if kind is Decimal128 else None
