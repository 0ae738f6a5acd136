"""Index keys: the bytes of a document in an index of MongoDB's. They sort as BSON sorts values.

    a value          the byte of its type's place in BSON's order, then bytes that sort within the type; no value is a
                     prefix of another
    several fields   their bytes, one after the other
    an array         an entry for each different element; of several arrays, for each combination
    missing field    as null; an empty array is below null
    a mark           for a document whose entries do not give its sort position: it has several, or values with another byte order

They are the values of an index of the store, whose expression is the operation below. Its constant describes their parts. The
keys are made of native values: a program that writes to such a table natively keeps its indexes up to date, too. A value without
a BSON type has the key of its shown form (see `values`): a date the key of its text, a moment the key of its millisecond.

Rule of this file: bytes in existing files keep their form for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal
from itertools import product
from math import nan
from typing import Any, Final, NamedTuple

from reactdb.errors import InvalidKey
from reactdb.expression.registry import operation
from reactdb.values import collation
from reactdb.values.scalars import seconds_of
from reactdb.values.value_types import is_registered, text_of

__all__ = [
    "ANY_VALUE",
    "NO_NULL",
    "OPERATION",
    "FieldBound",
    "IndexKey",
    "bracket_range",
    "has_order",
    "index_keys",
    "index_keys_of",
    "range_of",
    "value_bytes",
]

OPERATION: Final = "mongodb.index_keys"

_PLACES: Final = {
    "PTYPE<MONGODB.MINKEY>": 0x01,
    "PTYPE<MONGODB.UNDEFINED>": 0x04,
    "NULL": 0x05,
    "NUMBER": 0x0A,
    "PTYPE<MONGODB.DECIMAL128>": 0x0A,
    "PTYPE<MONGODB.INT64>": 0x0A,
    "STRING": 0x0F,
    "OBJECT": 0x14,
    "ARRAY": 0x19,
    "PTYPE<BINARY>": 0x1E,
    "PTYPE<UUID>": 0x1E,
    "PTYPE<MONGODB.BINARY>": 0x1E,
    "PTYPE<MONGODB.OBJECTID>": 0x23,
    "BOOL": 0x28,
    "PTYPE<TIME>": 0x2D,
    "PTYPE<MONGODB.DATE>": 0x2D,
    "PTYPE<MONGODB.TIMESTAMP>": 0x2F,
    "PTYPE<MONGODB.REGEX>": 0x32,
    "PTYPE<MONGODB.CODE>": 0x3C,
    "PTYPE<MONGODB.MAXKEY>": 0x7F,
}
"""By the name of a native type: BSON's order of types. Types without BSON are between code and MaxKey."""

_UNKNOWN: Final = 0x6F
_EMPTY_ARRAY: Final = b"\x04"
_NULL: Final = b"\x05"
_NUMBER: Final = b"\x0a"
_NAN: Final = _NUMBER + b"\x00"
_STRING: Final = b"\x0f"
_END: Final = b"\x00"
# Within these types, the order of the store is the order of BSON.
_ORDERED: Final = frozenset((0x0A, 0x0F, 0x23, 0x28, 0x2D))
# The types with that order, or with a single value. (An empty array differs from null only when it is shown.)
_PLACED: Final = _ORDERED | {0x01, 0x05, 0x7F}
# No value begins with this byte.
_MARK: Final = b"\x00"


# Rounded as in a Decimal128: numbers of any length are shown so.
_ROUNDING: Final = Context(prec=34, rounding=ROUND_HALF_EVEN, Emin=-6143, Emax=6144, clamp=1, traps=[])


def _round(value: Any) -> Any:
    number = _ROUNDING.create_decimal(value)
    return number if number.is_finite() else float(number)


_SHOWN: Final[dict[type, Callable[[Any], Any]]] = {
    int: _round,
    Decimal: _round,
    datetime: lambda value: value.replace(microsecond=value.microsecond // 1_000 * 1_000),
    date: date.isoformat,
    time: time.isoformat,
    timedelta: lambda value: float(seconds_of(value)),
}
"""By type: the shown form of native values that BSON lacks, or has only inexactly."""


class _Missing:
    """There is no such field."""


_MISSING: Final = _Missing()


def value_bytes(value: Any) -> bytes:
    """The bytes of a native value.

    Raises:
        InvalidKey: It is none.
    """
    kind = type(value)
    if kind is str:
        return _STRING + collation.key_bytes(value)
    if kind is float or (kind is int and -(2**63) <= value < 2**63):
        return _NAN if value != value else _NUMBER + collation.key_bytes(value)
    if value is None or value is _MISSING:
        return _NULL
    shown = _SHOWN.get(kind)
    if shown is not None:
        value = shown(value)
        kind = type(value)
    name = collation.type_name(value)
    if name == "PTYPE<MONGODB.ID>":
        return value_bytes(value.value)
    place = _PLACES.get(name, _UNKNOWN)
    if place == 0x14:
        parts = [b"\x14"]
        for field, inner in value.items():
            data = value_bytes(inner)
            # The type first, then the name: so are objects compared.
            parts += (data[:1], collation.key_bytes(field), data)
        return b"".join((*parts, _END))
    if place == 0x19:
        return b"\x19" + b"".join(map(value_bytes, value)) + _END
    if place == 0x2D and kind is not datetime:
        # A date before the year 1, or after the year 9999.
        return b"\x2d" + (b"\x01" if value.ms < 0 else b"\xfe") + collation.key_bytes(value)
    if place == 0x0A and collation.key_bytes(value) == collation.key_bytes(nan):
        return _NAN
    if place == _UNKNOWN and is_registered(kind) and name != "PTYPE<UNKNOWN>":
        return value_bytes(text_of(value))
    return bytes((place,)) + collation.key_bytes(value)


def has_order(data: bytes) -> bool:
    """Whether the values of this value's type are in BSON's order, so that a comparison is a range."""
    return data[0] in _ORDERED


def bracket_range(data: bytes) -> tuple[bytes, bytes]:
    """Where the values of the same type begin and end."""
    return data[:1], bytes((data[0] + 1,))


class FieldBound(NamedTuple):
    """A range of one field's values: start <= bytes < stop."""

    start: bytes
    stop: bytes


ANY_VALUE: Final = FieldBound(b"\x01", b"\xff")
NO_NULL: Final = FieldBound(ANY_VALUE.start, _NULL), FieldBound(bytes((_NULL[0] + 1,)), b"\xff")
"""All values but null; null is also the key of a missing field."""


def range_of(prefix: bytes, bound: FieldBound | None = None) -> tuple[bytes, bytes]:
    """The range of the store's index for all entries with this prefix and then a value within `bound`."""
    if bound is None:
        start = collation.key_bytes(prefix)[:-2]
        # No value begins with this byte.
        return start, start + b"\xff\xff"
    return collation.key_bytes(prefix + bound.start)[:-2], collation.key_bytes(prefix + bound.stop)[:-2]


MARKS: Final = range_of(_MARK)
"""The range of the marks in the store's index, if its constant has `marks`."""


# ---------------------------------------------------------------------------------------------------------------
# Of documents


class IndexKey(NamedTuple):
    """One entry of a document: its bytes, and their values."""

    data: bytes
    values: tuple[Any, ...]


def _at(value: Any, parts: Sequence[str], place: int) -> Iterator[Any]:
    """The values at a path; arrays on the way, and at its end, are expanded."""
    if place == len(parts):
        if isinstance(value, list):
            yield from value or (_EMPTY,)
        else:
            yield value
        return
    part = parts[place]
    if isinstance(value, dict):
        if part in value:
            yield from _at(value[part], parts, place + 1)
        else:
            yield _MISSING
    elif isinstance(value, list):
        is_found = False
        # Python reads no number of thousands of digits.
        if part.isascii() and part.isdigit() and len(part) <= 18 and int(part) < len(value):
            is_found = True
            yield from _at(value[int(part)], parts, place + 1)
        for inner in value:
            if isinstance(inner, dict):
                is_found = True
                yield from _at(inner, parts, place)
        if not is_found:
            yield _MISSING
    else:
        yield _MISSING


class _Empty:
    """An empty array."""


_EMPTY: Final = _Empty()


def _ends(document: Mapping[str, Any], parts: Sequence[str]) -> Sequence[Any]:
    """The same of a document; most paths lead through no array."""
    value: Any = document
    for part in parts:
        if not isinstance(value, dict):
            return list(_at(document, parts, 0))
        value = value.get(part, _MISSING)
    if isinstance(value, list):
        return value or (_EMPTY,)
    return (value,)


def _columns(document: Mapping[str, Any], index: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
    """The values of each field; each combination is an entry. Empty if the document has no entry."""
    paths = index["paths"]
    if not paths or (index.get("partial") is not None and not _passes(document, index)):
        return ()
    columns = [_ends(document, path) for path in paths]
    if index.get("sparse") and all(value is _MISSING for column in columns for value in column):
        return ()
    return columns


def _bytes_of(value: Any) -> bytes:
    return _EMPTY_ARRAY if value is _EMPTY else value_bytes(value)


def index_keys_of(document: Mapping[str, Any], index: Mapping[str, Any]) -> list[IndexKey]:
    """The entries of a native document in an index.

    Args:
        index: `paths`, each a list of names; `sparse`; `partial`, a filter, and `primary_key`.
    """
    columns = _columns(document, index)
    entries = product(*columns) if columns else ()
    keys = {b"".join(map(_bytes_of, values)): values for values in entries}
    return [IndexKey(data, tuple(map(_key_value, values))) for data, values in keys.items()]


def _key_value(value: Any) -> Any:
    return None if value is _MISSING else [] if value is _EMPTY else value


def _passes(document: Mapping[str, Any], index: Mapping[str, Any]) -> bool:
    # Imported here because few indexes are partial, and the filter needs the package bson.
    from reactdb.dialects.mongodb.partial import passes

    return passes(document, index)


def _fields(index: Mapping[str, Any]) -> Iterable[str] | None:
    return None if index.get("partial") is not None else [path[0] for path in index["paths"]]


@operation(OPERATION, 2, fields=_fields)
def index_keys(document: Any, index: Any) -> Any:
    """The keys of a document in an index, as bytes: a list of them, for an index with `multi`. The last may be a mark."""
    if not isinstance(document, dict):
        return []
    try:
        parts = [[_bytes_of(value) for value in column] for column in _columns(document, index)]
    except InvalidKey:
        return []
    if not parts:
        return []
    keys = list(dict.fromkeys(map(b"".join, product(*parts))))
    if index.get("marks") and (len(keys) > 1 or any(part[0][0] not in _PLACED for part in parts)):
        keys.append(_MARK)
    return keys
