"""Fields: checks of field values for several commands, and a default.

Rule of this file: a value in, a value out. It knows no request, so code without a request can call it, too.
"""

from __future__ import annotations

from typing import Any, Final

from reactdb.dialects.mongodb.bson_order import type_name
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.numeric import INT32_MAX, INT64_MAX, INT64_MIN, as_float, is_number, whole

__all__ = ["FIRST_BATCH", "boolean_of", "check_ms", "flag_of"]

FIRST_BATCH: Final = 101
"""The default size of a first batch, in documents."""


def flag_of(command: str, name: str, value: Any) -> bool:
    """A field with a boolean or a number as its value; false for null.

    Raises:
        MongoError: 14.
    """
    if value is None or isinstance(value, bool):
        return bool(value)
    if is_number(value):
        return bool(as_float(value))
    raise MongoError(
        14,
        f"BSON field '{command}.{name}' is the wrong type '{type_name(value)}', expected types "
        "'[bool, long, int, decimal, double]'",
    )


def boolean_of(command: str, name: str, value: Any) -> bool:
    """A field with a boolean as its value; null is an error, too.

    Raises:
        MongoError: 14.
    """
    if not isinstance(value, bool):
        raise MongoError(
            14,
            f"BSON field '{command}.{name}' is the wrong type '{type_name(value)}', expected type 'bool'",
        )
    return value


def check_ms(value: Any) -> int | None:
    """`maxTimeMS`; None of None.

    Raises:
        MongoError: 14, it is no number; 9, it is not whole; 2, it is not within 0 and 2^31 - 1.
    """
    if value is None or (type(value) is int and 0 <= value <= INT32_MAX):
        return value
    if not is_number(value):
        raise MongoError(14, f"maxTimeMS is a number, not {type_name(value)}")
    number = whole(value)
    if number is None or not INT64_MIN <= number <= INT64_MAX:
        raise MongoError(9, f"Expected an integer: maxTimeMS: {value}")
    if not 0 <= number <= INT32_MAX:
        raise MongoError(2, f"{number} value for maxTimeMS is out of range [0, {INT32_MAX}]")
    return number
