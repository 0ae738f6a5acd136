"""The one total order over all values: comparing them, and the values that may be keys.

`key_bytes(value)` is compared with memcmp and agrees with ReQL's order everywhere: in SQLite's indexes, in
views, in comparisons of an expression. ReQL orders values of different types by the name of the type:

    MINVAL < ARRAY < BOOL < NULL < NUMBER < OBJECT < PTYPE<BINARY> < PTYPE<DATE> < PTYPE<DURATION>
           < PTYPE<LOCALTIME> < PTYPE<TIME> < PTYPE<UUID> < registered types by number < STRING < MAXVAL

`key_format` makes the bytes; this file states their guarantees. They agree with `compare`, and no key's bytes begin
another's, so keys written one after the other sort as arrays do.

Rule of this file: one order. All code that compares values of documents compares these bytes or calls `compare`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any, Final
from uuid import UUID

from reactdb.errors import InvalidKey
from reactdb.values.bounds import Bound, maxval, minval
from reactdb.values.extension_types import UnknownValue, find_for_base
from reactdb.values.frozen import FrozenDict, FrozenList
from reactdb.values.key_format import REGISTERED_TAGS, key_bytes, key_value, many_key_bytes
from reactdb.values.reql_text import pretty
from reactdb.values.scalars import EPOCH

# Names of the modules below are exported from here too, so that the library imports everything about order from one module.
__all__ = [
    "EQUALS",
    "MAX_KEY_BYTES",
    "TYPE_NAMES",
    "Bound",
    "compare",
    "index_key_bytes",
    "key_bytes",
    "key_value",
    "maxval",
    "minval",
    "primary_key_bytes",
    "primary_keys_bytes",
    "type_name",
]

MAX_KEY_BYTES: Final = 1_024
"""The size limit of an encoded primary key. Each log entry and each index entry repeats the key; ReQL's limit is 127."""


# -----------------------------------------------------------------------------------------------------------
# Comparing values

# Among values of one of these types, Python's order is this order.
_ORDERED_ALIKE: Final = frozenset({str, int, bool, bytes, date, timedelta, UUID})


def compare(left: Any, right: Any) -> int:
    """-1, 0 or 1: whether the left value is below, equal to or above the right one.

    Raises:
        InvalidKey: One of them is not a value.
    """
    kind = type(left)
    if kind is type(right) and kind in _ORDERED_ALIKE:
        return -1 if left < right else 1 if left > right else 0
    if (kind is float or kind is int) and (type(right) is float or type(right) is int):
        if left < right:
            return -1
        if left > right:
            return 1
        if left == right:
            return 0
        # At least one is NaN.
    elif kind is datetime and type(right) is datetime and left.tzinfo is UTC and right.tzinfo is UTC:
        return -1 if left < right else 1 if left > right else 0
    left_bytes, right_bytes = key_bytes(left), key_bytes(right)
    return -1 if left_bytes < right_bytes else 1 if left_bytes > right_bytes else 0


def type_name(value: Any) -> str:
    """ReQL's name of the value's type, such as `NUMBER` or `PTYPE<TIME>`.

    Raises:
        InvalidKey: It is not a value.
    """
    name = TYPE_NAMES.get(type(value)) or find_for_base(TYPE_NAMES, type(value))
    if name is None:
        raise InvalidKey(f"a value of type {type(value).__qualname__} has no place in the order")
    return name if name != "BOUND" else ("MINVAL" if value is minval else "MAXVAL")


TYPE_NAMES: dict[type, str] = {
    bool: "BOOL",
    type(None): "NULL",
    int: "NUMBER",
    str: "STRING",
    float: "NUMBER",
    list: "ARRAY",
    tuple: "ARRAY",
    dict: "OBJECT",
    FrozenList: "ARRAY",
    FrozenDict: "OBJECT",
    datetime: "PTYPE<TIME>",
    Decimal: "NUMBER",
    bytes: "PTYPE<BINARY>",
    bytearray: "PTYPE<BINARY>",
    memoryview: "PTYPE<BINARY>",
    UUID: "PTYPE<UUID>",
    date: "PTYPE<DATE>",
    time: "PTYPE<LOCALTIME>",
    timedelta: "PTYPE<DURATION>",
    Bound: "BOUND",
    UnknownValue: "PTYPE<UNKNOWN>",
}

EQUALS: dict[type, Callable[[Any], Any]] = {}
"""For registered types without a place of their own: the value of the core that equals theirs."""


def _equal_value(value: Any) -> Any:
    equal = find_for_base(EQUALS, type(value))
    return value if equal is None else equal(value)


# -----------------------------------------------------------------------------------------------------------
# Valid keys


def primary_key_bytes(value: Any, most: int = MAX_KEY_BYTES) -> bytes:
    """The bytes of a document's primary key, at most `most`.

    Raises:
        InvalidKey: Null, an object, NaN, an infinity, a bound, an array with one of those inside, or too
        long.

    Source:
        RethinkDB 2.4's sentences, with our own length.
    """
    data = key_bytes(value)
    if data[0] not in _ALWAYS_KEYS and type(value) is not int:
        _check_primary_key(value, within_array=False)
    if len(data) > most:
        shown = pretty(value)
        shown = shown if len(shown) <= 100 else shown[:100] + "..."
        raise InvalidKey(f"Primary key too long (max {most} bytes): {shown}")
    return data


def primary_keys_bytes(values: list[Any]) -> list[bytes]:
    """`primary_key_bytes` of each."""
    if set(map(type, values)) <= _ALWAYS_KEYS_TYPES:
        keys = many_key_bytes(values)
        if max(map(len, keys), default=0) <= MAX_KEY_BYTES:
            return keys
    return list(map(primary_key_bytes, values))


_ALWAYS_KEYS_TYPES: Final = frozenset({str, int, bool, bytes})


# Tags of the types of which every value can be a key, by an example of each of the core's.
_ALWAYS_KEYS: Final = frozenset(REGISTERED_TAGS).union(
    key_bytes(example)[0]
    for example in (False, True, b"", date.min, timedelta(0), time.min, EPOCH, UUID(int=0), "")
)


def _check_primary_key(value: Any, *, within_array: bool) -> None:
    if EQUALS:
        value = _equal_value(value)
    if isinstance(value, (list, tuple)):
        for inner in value:
            _check_primary_key(inner, within_array=True)
    elif value is None or isinstance(value, dict):
        if within_array:
            raise InvalidKey(
                # The two spaces are RethinkDB's.
                "Array keys can only contain numbers, strings, bools,  pseudotypes, or arrays "
                f"(got {pretty(value)} of type {type_name(value)})."
            )
        raise InvalidKey(
            "Primary keys must be either a number, string, bool, pseudotype or array "
            f"(got type {type_name(value)}):\n{pretty(value)}"
        )
    elif isinstance(value, Bound):
        raise InvalidKey(Bound.refused_as_value)
    elif isinstance(value, float) and not isfinite(value):
        raise InvalidKey(f"Non-finite number: {float.__repr__(value)}")


def index_key_bytes(value: Any) -> bytes | None:
    """The bytes of a secondary index's entry, or None where ReQL leaves the document out of the index.

    Left out are null, objects and arrays with one of those inside, and values that ReQL lacks: NaN, the infinities.

    Raises:
        InvalidKey: It is not a value that a document could hold.
    """
    data = key_bytes(value)
    return data if data[0] in _ALWAYS_KEYS or type(value) is int or _may_be_indexed(value) else None


def _may_be_indexed(value: Any) -> bool:
    if EQUALS:
        value = _equal_value(value)
    if isinstance(value, (list, tuple)):
        return all(map(_may_be_indexed, value))
    if isinstance(value, float):
        return isfinite(value)
    return value is not None and not isinstance(value, (dict, Bound))
