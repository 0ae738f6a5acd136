"""Conversions of values to other types: `$convert`, `$toInt` and similar operators.

Rule of this file: every failed conversion is one error, 241. A wrong format or byte order has its own code.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from collections.abc import Callable, Mapping
from decimal import ROUND_DOWN, Decimal, InvalidOperation
from typing import Any, Final
from uuid import UUID

from bson.binary import Binary
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.objectid import ObjectId

from reactdb.dialects.mongodb.bson_order import is_text, type_name
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions.dates import date_text, parse_date
from reactdb.dialects.mongodb.expressions.logic import is_true
from reactdb.dialects.mongodb.expressions.number_text import number_text
from reactdb.dialects.mongodb.numeric import (
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    as_decimal,
    as_float,
    decimal128,
    decimal_of,
    is_number,
)
from reactdb.dialects.mongodb.times import from_milliseconds, has_time, is_date, time_of
from reactdb.dialects.mongodb.values import ms_of_date

__all__ = ["CONVERTERS", "binary_number", "binary_text", "to_binary", "to_uuid"]


def _impossible(value: Any, target: str) -> MongoError:
    return MongoError(
        241, f"Unsupported conversion from {type_name(value)} to {target} in $convert with no onError value"
    )


def _failure(value: Any, target: str, reason: str) -> MongoError:
    return MongoError(
        241, f"Failed to convert '{value}' to {target} in $convert with no onError value: {reason}"
    )


# --- Numbers ---

_WHOLE_TEXT: Final = re.compile(r"[+-]?\d+\Z", re.ASCII)
_NUMBER_TEXT: Final = re.compile(
    r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|inf(?:inity)?|nan)\Z",
    re.ASCII | re.IGNORECASE,
)


def _whole_number(value: Any, target: str, least: int, most: int) -> int:
    if isinstance(value, bool):
        return int(value)
    if is_text(value):
        if not _WHOLE_TEXT.match(value):
            raise _failure(value, target, "it does not write a whole number")
        digits = value.lstrip("+-").lstrip("0")
        if len(digits) > 19:
            raise _failure(value[:40], target, "it does not fit")
        number = int(digits or "0") * (-1 if value.startswith("-") else 1)
    elif is_number(value):
        decimal = decimal_of(value) if isinstance(value, Decimal128) else Decimal(value)
        if not decimal.is_finite():
            raise _failure(value, target, "it is not finite")
        number = int(decimal.to_integral_value(ROUND_DOWN))
    else:
        raise _impossible(value, target)
    if not least <= number <= most:
        raise _failure(value, target, "it does not fit")
    return number


def _to_int(value: Any) -> int:
    return _whole_number(value, "int", INT32_MIN, INT32_MAX)


def _to_long(value: Any) -> Int64:
    if is_date(value):
        return Int64(ms_of_date(value))
    return Int64(_whole_number(value, "long", INT64_MIN, INT64_MAX))


def _to_double(value: Any) -> float:
    if isinstance(value, bool):
        return float(value)
    if is_date(value):
        return float(ms_of_date(value))
    if is_number(value):
        number = as_float(value)
        if math.isinf(number) and isinstance(value, Decimal128) and decimal_of(value).is_finite():
            raise _failure(value, "double", "it does not fit")
        return number
    if is_text(value):
        if not _NUMBER_TEXT.match(value):
            raise _failure(value, "double", "it does not write a number")
        number = float(value)
        if math.isinf(number) and "n" not in value.lower():
            raise _failure(value, "double", "it does not fit")
        return number
    raise _impossible(value, "double")


def _to_decimal(value: Any) -> Decimal128:
    if isinstance(value, bool):
        return Decimal128(str(int(value)))
    if is_date(value):
        return Decimal128(str(ms_of_date(value)))
    if is_number(value):
        return value if isinstance(value, Decimal128) else decimal128(as_decimal(value))
    if is_text(value):
        if not _NUMBER_TEXT.match(value):
            raise _failure(value, "decimal", "it does not write a number")
        try:
            return decimal128(Decimal(value))
        except InvalidOperation:
            raise _failure(value, "decimal", "it does not write a number") from None
    raise _impossible(value, "decimal")


# --- Others ---


def _to_text(value: Any) -> str:
    if is_text(value):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if is_number(value):
        return number_text(value)
    if isinstance(value, ObjectId):
        return str(value)
    if is_date(value):
        return date_text(value)
    raise _impossible(value, "string")


def _to_date(value: Any) -> Any:
    if has_time(value):
        return value if is_date(value) else from_milliseconds(time_of(value))
    if is_text(value):
        return parse_date(value)
    is_int32 = isinstance(value, int) and not isinstance(value, Int64) and INT32_MIN <= value <= INT32_MAX
    if is_number(value) and not is_int32:
        decimal = decimal_of(value) if isinstance(value, Decimal128) else Decimal(value)
        if not decimal.is_finite() or not INT64_MIN <= decimal <= INT64_MAX:
            raise _failure(value, "date", "it does not fit")
        return from_milliseconds(int(decimal.to_integral_value(ROUND_DOWN)))
    raise _impossible(value, "date")


def _to_object_id(value: Any) -> ObjectId:
    if isinstance(value, ObjectId):
        return value
    if is_text(value):
        if not re.fullmatch("[0-9a-fA-F]{24}", value):
            raise _failure(value, "objectId", "it does not have 24 hexadecimal digits")
        return ObjectId(value)
    raise _impossible(value, "objectId")


def _unchanged(target: str) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if type_name(value) != target:
            raise _impossible(value, target)
        return value

    return convert


CONVERTERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "double": _to_double,
    "string": _to_text,
    "object": _unchanged("object"),
    "array": _unchanged("array"),
    "objectId": _to_object_id,
    "bool": is_true,
    "date": _to_date,
    "int": _to_int,
    "long": _to_long,
    "decimal": _to_decimal,
}
"""The function that converts a value to a type, by the type's name. Binary data need a format: see below."""

# --- Binary data ---

_UUID_TEXT: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
_FORMATS: Final = frozenset({"auto", "base64", "base64url", "hex", "utf8", "uuid"})
_WIDTHS: Final = {"int": (4, "i"), "long": (8, "q"), "double": (8, "d")}


def to_binary(value: Any, pattern: Any, subtype: int, byte_order: str = "little") -> Any:
    """Binary data of a text in a format, of a number's bytes, or of other binary data.

    Raises:
        MongoError: There is no format (4341115) or it is unknown (4341125), or the value cannot be converted (241).
    """
    if isinstance(value, bytes):
        if getattr(value, "subtype", 0) != subtype:
            raise _failure(value, "binData", "it has another subtype")
        return value
    kind = type_name(value)
    if kind in _WIDTHS:
        code = _WIDTHS[kind][1]
        return _binary(struct.pack(("<" if byte_order == "little" else ">") + code, value), subtype)
    if not is_text(value):
        raise _impossible(value, "binData")
    _check_format(pattern)
    if (pattern == "uuid") != (subtype == 4) or pattern == "auto":
        raise _failure(value, "binData", f"the format '{pattern}' does not make subtype {subtype}")
    try:
        return _binary(_bytes_of(value, pattern), subtype)
    except (ValueError, binascii.Error):
        raise _failure(value, "binData", f"it is not in the format '{pattern}'") from None


def _check_format(pattern: Any) -> None:
    if pattern is None:
        raise MongoError(4341115, "$convert needs the argument 'format' between texts and binary data")
    if not is_text(pattern):
        raise MongoError(4341114, f"$convert takes a text as format, not {type_name(pattern)}")
    if pattern not in _FORMATS:
        raise MongoError(4341125, f"$convert knows no format '{pattern}'")


def _bytes_of(text: str, pattern: str) -> bytes:
    if pattern == "uuid":
        if not _UUID_TEXT.match(text):
            raise ValueError(text)
        return UUID(text).bytes
    if pattern == "hex":
        return binascii.unhexlify(text)
    if pattern == "utf8":
        return text.encode()
    if pattern == "base64":
        return base64.b64decode(text, validate=True)
    if not re.fullmatch(r"[A-Za-z0-9_-]*=*", text):
        raise ValueError(text)
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _binary(data: bytes, subtype: int) -> Any:
    return Binary(data, subtype) if subtype else data


def binary_text(value: bytes, pattern: Any) -> str:
    """Binary data as a text in a format."""
    _check_format(pattern)
    subtype = getattr(value, "subtype", 0)
    if pattern == "auto":
        pattern = "uuid" if subtype == 4 else "base64"
    if pattern == "uuid":
        if subtype != 4 or len(value) != 16:
            raise _failure(value, "string", "it is no UUID")
        return str(UUID(bytes=bytes(value)))
    if pattern == "hex":
        return bytes(value).hex().upper()
    if pattern == "base64":
        return base64.b64encode(value).decode()
    if pattern == "base64url":
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    try:
        return bytes(value).decode()
    except UnicodeDecodeError:
        raise _failure(value, "string", "it is not UTF-8") from None


def binary_number(value: bytes, target: str, byte_order: str = "little") -> Any:
    """The number in these bytes: 1, 2, 4 or 8 of an integer, 4 or 8 of a double."""
    order = "<" if byte_order == "little" else ">"
    codes = {4: "f", 8: "d"} if target == "double" else {1: "b", 2: "h", 4: "i", 8: "q"}
    if len(value) not in codes or (target == "int" and len(value) == 8):
        raise _failure(value, target, "it has another number of bytes")
    (number,) = struct.unpack(order + codes[len(value)], bytes(value))
    return Int64(number) if target == "long" else number


def to_uuid(value: Any) -> Any:
    """A UUID, of a text or of itself."""
    return to_binary(value, "uuid", 4)
