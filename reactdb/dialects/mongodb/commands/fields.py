"""Fields: checks of field values for several commands.

Rule of this file: a value in, a value out. It knows no request, so code without a request can call it, too.
"""

from __future__ import annotations

from typing import Any

from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.numeric import INT32_MAX, INT64_MAX, INT64_MIN, as_float, is_number, whole
from reactdb.dialects.mongodb.ordering import type_name

__all__ = ["boolean_of", "checked_ms", "flag_of"]


def flag_of(command: str, name: str, found: Any) -> bool:
    """A field with a boolean or a number as its value; false for null.

    Raises:
        MongoError: 14.
    """
    if found is None or isinstance(found, bool):
        return bool(found)
    if is_number(found):
        return bool(as_float(found))
    raise MongoError(
        14,
        f"BSON field '{command}.{name}' is the wrong type '{type_name(found)}', expected types "
        "'[bool, long, int, decimal, double]'",
    )


def boolean_of(command: str, name: str, found: Any) -> bool:
    """A field with a boolean as its value; null is an error, too.

    Raises:
        MongoError: 14.
    """
    if not isinstance(found, bool):
        raise MongoError(
            14,
            f"BSON field '{command}.{name}' is the wrong type '{type_name(found)}', expected type 'bool'",
        )
    return found


def checked_ms(found: Any) -> int | None:
    """`maxTimeMS`; None of None.

    Raises:
        MongoError: 14, it is no number; 9, it is not whole; 2, it is not within 0 and 2^31 - 1.
    """
    if found is None or (type(found) is int and 0 <= found <= INT32_MAX):
        return found
    if not is_number(found):
        raise MongoError(14, f"maxTimeMS is a number, not {type_name(found)}")
    number = whole(found)
    if number is None or not INT64_MIN <= number <= INT64_MAX:
        raise MongoError(9, f"Expected an integer: maxTimeMS: {found}")
    if not 0 <= number <= INT32_MAX:
        raise MongoError(2, f"{number} value for maxTimeMS is out of range [0, {INT32_MAX}]")
    return number
