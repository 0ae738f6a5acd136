"""Operators on types: `$type`, `$convert` and its short forms, sizes in BSON, and the two that make random numbers.

Rule of this file: a conversion that is not possible is one error, 241, which `onError` catches.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from decimal import ROUND_DOWN, Decimal, InvalidOperation
from typing import Any, Final
from uuid import UUID

import bson
from bson.binary import Binary
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.objectid import ObjectId

from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions.compiling import (
    Evaluate,
    NamedArguments,
    Scope,
    compiled,
    function,
    is_nullish,
    named_parts,
    syntax,
)
from reactdb.dialects.mongodb.expressions.dates import date_text, parsed_date
from reactdb.dialects.mongodb.expressions.logic import is_true
from reactdb.dialects.mongodb.expressions.writing import number_text
from reactdb.dialects.mongodb.numeric import (
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    as_decimal,
    as_float,
    decimal128,
    is_number,
    whole,
)
from reactdb.dialects.mongodb.ordering import is_text, type_name
from reactdb.dialects.mongodb.times import from_milliseconds, has_time, is_date, time_of
from reactdb.dialects.mongodb.values import ms_of_date

__all__: list[str] = []

Variables = dict[str, Any]


@function("$type", 1)
def type_of(value: Any) -> str:
    """The name of the type; `missing` of what is not there."""
    return type_name(value)


@function("$isNumber", 1)
def is_a_number(value: Any) -> bool:
    """Whether it is a number."""
    return is_number(value)


@function("$bsonSize", 1)
def bson_size(value: Any) -> Any:
    """The bytes of an object in BSON."""
    if is_nullish(value):
        return None
    if not isinstance(value, dict):
        raise MongoError(31393, f"$bsonSize requires a document input, found: {type_name(value)}")
    return len(bson.encode(value))


@function("$binarySize", 1)
def binary_size(value: Any) -> Any:
    """The bytes of a text or of binary data."""
    if is_nullish(value):
        return None
    if is_text(value):
        return len(value.encode())
    if isinstance(value, bytes):
        return len(value)
    raise MongoError(51276, f"$binarySize requires a string or BinData argument, found: {type_name(value)}")


@syntax("$rand")
def _rand(spec: Any, _scope: Scope) -> Evaluate:
    if not isinstance(spec, dict | list):
        raise MongoError(10065, "$rand takes an empty object")
    if spec:
        raise MongoError(3040501, "$rand takes no arguments")
    return lambda _document, _variables: random.random()


# --- Conversions ---

_NAMES: Final = {
    "double": 1,
    "string": 2,
    "object": 3,
    "array": 4,
    "binData": 5,
    "objectId": 7,
    "bool": 8,
    "date": 9,
    "int": 16,
    "long": 18,
    "decimal": 19,
}
_BY_NUMBER: Final = {number: name for name, number in _NAMES.items()}
_OTHERS: Final = {
    "minKey": -1,
    "undefined": 6,
    "null": 10,
    "regex": 11,
    "dbPointer": 12,
    "javascript": 13,
    "symbol": 14,
    "javascriptWithScope": 15,
    "timestamp": 17,
    "maxKey": 127,
    "missing": 0,
}


def _impossible(value: Any, target: str) -> MongoError:
    return MongoError(
        241, f"Unsupported conversion from {type_name(value)} to {target} in $convert with no onError value"
    )


def _failed(value: Any, target: str, reason: str) -> MongoError:
    return MongoError(
        241, f"Failed to convert '{value}' to {target} in $convert with no onError value: {reason}"
    )


def _whole_number(value: Any, target: str, least: int, most: int) -> int:
    if isinstance(value, bool):
        return int(value)
    if is_text(value):
        try:
            if (
                not value
                or not (value[-1].isdigit() and value.isascii())
                or "_" in value
                or value[0].isspace()
            ):
                raise ValueError(value)
            number = int(value)
        except ValueError:
            raise _failed(value, target, "it does not write a whole number") from None
    elif is_number(value):
        decimal = value.to_decimal() if isinstance(value, Decimal128) else Decimal(value)
        if not decimal.is_finite():
            raise _failed(value, target, "it is not finite")
        number = int(decimal.to_integral_value(ROUND_DOWN))
    else:
        raise _impossible(value, target)
    if not least <= number <= most:
        raise _failed(value, target, "it does not fit")
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
        if math.isinf(number) and isinstance(value, Decimal128) and value.to_decimal().is_finite():
            raise _failed(value, "double", "it does not fit")
        return number
    if is_text(value):
        try:
            if not value or value != value.strip() or "_" in value:
                raise ValueError(value)
            number = float(value)
        except ValueError:
            raise _failed(value, "double", "it does not write a number") from None
        if math.isinf(number) and value.strip("+-")[:1].isdigit():
            raise _failed(value, "double", "it does not fit")
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
        try:
            if not value or value != value.strip() or "_" in value:
                raise InvalidOperation(value)
            return decimal128(Decimal(value))
        except (InvalidOperation, ValueError):
            raise _failed(value, "decimal", "it does not write a number") from None
    raise _impossible(value, "decimal")


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
    if isinstance(value, Binary) and value.subtype == 4:
        return str(UUID(bytes=bytes(value)))
    raise _impossible(value, "string")


def _to_date(value: Any) -> Any:
    if has_time(value):
        return value if is_date(value) else from_milliseconds(time_of(value))
    if is_text(value):
        return parsed_date(value)
    if is_number(value) and not (
        isinstance(value, int) and not isinstance(value, Int64) and abs(value) <= INT32_MAX
    ):
        decimal = value.to_decimal() if isinstance(value, Decimal128) else Decimal(value)
        if not decimal.is_finite() or not INT64_MIN <= decimal <= INT64_MAX:
            raise _failed(value, "date", "it does not fit")
        return from_milliseconds(int(decimal.to_integral_value(ROUND_DOWN)))
    raise _impossible(value, "date")


def _to_object_id(value: Any) -> ObjectId:
    if isinstance(value, ObjectId):
        return value
    if is_text(value):
        try:
            if len(value) != 24:
                raise ValueError(value)
            return ObjectId(bytes.fromhex(value))
        except ValueError:
            raise _failed(value, "objectId", "it does not have 24 hexadecimal digits") from None
    raise _impossible(value, "objectId")


def _to_bool(value: Any) -> bool:
    return is_true(value)


def _unchanged(target: str) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if type_name(value) != target:
            raise _impossible(value, target)
        return value

    return convert


_CONVERTERS: Final[dict[str, Callable[[Any], Any]]] = {
    "double": _to_double,
    "string": _to_text,
    "object": _unchanged("object"),
    "array": _unchanged("array"),
    "binData": _unchanged("binData"),
    "objectId": _to_object_id,
    "bool": _to_bool,
    "date": _to_date,
    "int": _to_int,
    "long": _to_long,
    "decimal": _to_decimal,
}

_CONVERT: Final = NamedArguments(
    9, 9, {"input": 9, "to": 9}, ("onError", "onNull", "format", "byteOrder", "base")
)


@syntax("$convert")
def _convert(spec: Any, scope: Scope) -> Evaluate:
    parts = {key: compiled(value, scope) for key, value in named_parts("$convert", spec, _CONVERT).items()}

    def evaluate(document: Any, variables: Variables) -> Any:
        value, target = parts["input"](document, variables), parts["to"](document, variables)
        if is_nullish(value):
            if not is_nullish(target):
                _target(target)
            return parts["onNull"](document, variables) if "onNull" in parts else None
        if is_nullish(target):
            return None
        name, subtype = _target(target)
        try:
            if name == "binData" and (is_text(value) or subtype is not None):
                pattern = parts["format"](document, variables) if "format" in parts else None
                return _to_binary(value, pattern, subtype)
            if name == "string" and isinstance(value, bytes) and "format" in parts:
                return _binary_text(value, parts["format"](document, variables))
            return _CONVERTERS[name](value)
        except MongoError as error:
            if "onError" in parts and error.code == 241:
                return parts["onError"](document, variables)
            raise

    return evaluate


def _target(target: Any) -> tuple[str, int | None]:
    """The name of the type that is asked for, and the subtype of binary data, where one is."""
    subtype = None
    if isinstance(target, dict):
        if "type" not in target:
            raise MongoError(40414, "$convert's 'to' needs the field 'type'")
        subtype = whole(target["subtype"]) if is_number(target.get("subtype")) else None
        target = target["type"]
    if is_text(target):
        if target in _OTHERS:
            raise MongoError(241, f"Unsupported conversion to {target} in $convert with no onError value")
        if target not in _NAMES:
            raise MongoError(2, f"Unknown type name: {target}")
        return target, subtype
    number = whole(target) if is_number(target) else None
    if number is None:
        raise MongoError(9, "$convert's 'to' argument must be a string or number")
    if number in _OTHERS.values():
        raise MongoError(241, f"Unsupported conversion to type {number} in $convert with no onError value")
    if number not in _BY_NUMBER:
        raise MongoError(
            9, f"In $convert, numeric value for 'to' does not correspond to a BSON type: {number}"
        )
    return _BY_NUMBER[number], subtype


def _to_binary(value: Any, pattern: Any, subtype: int | None) -> Any:
    import base64
    import binascii

    if isinstance(value, bytes):
        return value if subtype is None or getattr(value, "subtype", 0) == subtype else _refuse(value)
    if not is_text(value):
        raise _impossible(value, "binData")
    if pattern is None:
        raise MongoError(4341115, "$convert needs the argument 'format' to make binary data of a text")
    try:
        if pattern == "uuid":
            return Binary(UUID(value).bytes, 4)
        if pattern == "hex":
            data = bytes.fromhex(value)
        elif pattern in {"base64", "base64url", "auto"}:
            altchars = b"-_" if pattern == "base64url" else None
            data = base64.b64decode(
                value + "=" * (-len(value) % 4 if altchars else 0), altchars, validate=True
            )
        elif pattern == "utf8":
            data = value.encode()
        else:
            raise MongoError(4341125, f"$convert knows no format '{pattern}'")
    except (ValueError, binascii.Error):
        raise _failed(value, "binData", f"it is not in the format '{pattern}'") from None
    return data if not subtype else Binary(data, subtype)


def _refuse(value: Any) -> Any:
    raise _failed(value, "binData", "its subtype is another one")


def _binary_text(value: bytes, pattern: Any) -> str:
    import base64

    subtype = getattr(value, "subtype", 0)
    if pattern == "uuid" or (pattern == "auto" and subtype == 4):
        if subtype != 4:
            raise _failed(value, "string", "it is no UUID")
        return str(UUID(bytes=bytes(value)))
    if pattern == "hex":
        return bytes(value).hex().upper()
    if pattern in {"base64", "auto"}:
        return base64.b64encode(value).decode()
    if pattern == "base64url":
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    if pattern == "utf8":
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            raise _failed(value, "string", "it is not UTF-8") from None
    raise MongoError(4341125, f"$convert knows no format '{pattern}'")


def _short_form(name: str, convert: Callable[[Any], Any]) -> None:
    @syntax(name)
    def compiler(spec: Any, scope: Scope) -> Evaluate:
        if isinstance(spec, list | tuple):
            if len(spec) != 1:
                raise MongoError(50723, f"{name} requires a single argument, got {len(spec)}")
            spec = spec[0]
        part = compiled(spec, scope)

        def evaluate(document: Any, variables: Variables) -> Any:
            value = part(document, variables)
            return None if is_nullish(value) else convert(value)

        return evaluate


def _to_uuid(value: Any) -> Binary:
    if isinstance(value, Binary) and value.subtype == 4:
        return value
    return _to_binary(value, "uuid", 4)  # type: ignore[no-any-return]


_short_form("$toBool", _to_bool)
_short_form("$toDate", _to_date)
_short_form("$toDecimal", _to_decimal)
_short_form("$toDouble", _to_double)
_short_form("$toInt", _to_int)
_short_form("$toLong", _to_long)
_short_form("$toObjectId", _to_object_id)
_short_form("$toString", _to_text)
_short_form("$toUUID", _to_uuid)
