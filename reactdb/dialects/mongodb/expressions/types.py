"""Operators on types: `$type`, `$convert` and its short forms, sizes in BSON, and both operators for random numbers.

Rule of this file: `conversions` converts; `onError` catches one error, 241: the conversion is not possible.
"""

from __future__ import annotations

import random
from typing import Any, Final

import bson

from reactdb.budget import spend_bytes, spend_value
from reactdb.dialects.mongodb.bson_order import TYPE_CODES, is_text, type_name
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions.compile import (
    Evaluate,
    NamedArguments,
    Scope,
    argument,
    check_named_parts,
    compile_value,
    function,
    is_nullish,
    syntax,
)
from reactdb.dialects.mongodb.expressions.conversions import (
    CONVERTERS,
    binary_number,
    binary_text,
    to_binary,
    to_uuid,
)
from reactdb.dialects.mongodb.numeric import is_number, whole

__all__: list[str] = []

Variables = dict[str, Any]


@function("$type", 1)
def type_of(value: Any) -> str:
    """The name of the type; `missing` for a missing value."""
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
    size = len(bson.encode(value))
    spend_bytes(size)
    return size


@function("$binarySize", 1)
def binary_size(value: Any) -> Any:
    """The bytes of a text or of binary data."""
    if is_nullish(value):
        return None
    spend_value(value)
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

_NAMES: Final = {**TYPE_CODES, "missing": 0}
_BY_NUMBER: Final = {number: name for name, number in _NAMES.items()}

_CONVERT: Final = NamedArguments(
    9, 9, {"input": 9, "to": 9}, ("onError", "onNull", "format", "byteOrder", "base")
)


@syntax("$convert")
def _convert(spec: Any, scope: Scope) -> Evaluate:
    parts = {
        key: compile_value(value, scope)
        for key, value in check_named_parts("$convert", spec, _CONVERT).items()
    }

    def given(name: str, document: Any, variables: Variables) -> Any:
        value = parts[name](document, variables) if name in parts else None
        return None if is_nullish(value) else value

    def evaluate(document: Any, variables: Variables) -> Any:
        value, target = given("input", document, variables), given("to", document, variables)
        order = given("byteOrder", document, variables)
        if order is not None and not is_text(order):
            raise MongoError(9130001, f"$convert takes a text as byteOrder, not {type_name(order)}")
        if order not in (None, "little", "big"):
            raise MongoError(9130002, f"$convert knows the byte orders 'little' and 'big', not '{order}'")
        if target is not None:
            name, subtype = _target(target)
        if value is None:
            return parts["onNull"](document, variables) if "onNull" in parts else None
        if target is None:
            return None
        try:
            return _convert_value(
                value, name, subtype, given("format", document, variables), order or "little"
            )
        except MongoError as error:
            if "onError" in parts and error.code == 241:
                return parts["onError"](document, variables)
            raise

    return evaluate


def _convert_value(value: Any, target: str, subtype: int, pattern: Any, byte_order: str) -> Any:
    spend_value(value)
    if target == "binData":
        return to_binary(value, pattern, subtype, byte_order)
    if isinstance(value, bytes):
        if target == "string":
            return binary_text(value, pattern)
        if target in {"int", "long", "double"}:
            return binary_number(value, target, byte_order)
    if target not in CONVERTERS:
        raise MongoError(
            241,
            f"Unsupported conversion from {type_name(value)} to {target} in $convert with no onError value",
        )
    return CONVERTERS[target](value)


def _target(target: Any) -> tuple[str, int]:
    """The name of the target type, and the subtype of binary data."""
    subtype = 0
    if isinstance(target, dict):
        if "type" not in target:
            raise MongoError(9, "$convert's 'to' needs the field 'type'")
        subtype = _subtype(target.get("subtype", 0))
        target = target["type"]
    if is_text(target):
        if target not in _NAMES:
            raise MongoError(2, f"Unknown type name: {target}")
        return target, subtype
    if not is_number(target):
        raise MongoError(9, "$convert's 'to' argument must be a string or number")
    number = whole(target)
    if number not in _BY_NUMBER:
        raise MongoError(
            9, f"In $convert, numeric value for 'to' does not correspond to a BSON type: {target}"
        )
    return _BY_NUMBER[number], subtype


def _subtype(value: Any) -> int:
    if not is_number(value):
        raise MongoError(4341108, f"$convert takes a number as subtype, not {type_name(value)}")
    subtype = whole(value)
    if subtype is None:
        raise MongoError(4341106, "$convert takes a whole number as subtype")
    if not 0 <= subtype <= 255 or 9 < subtype < 128:
        raise MongoError(4341107, f"$convert knows no subtype {subtype}")
    return subtype


def _short_form(name: str, target: str) -> None:
    @syntax(name)
    def compiler(spec: Any, scope: Scope) -> Evaluate:
        if isinstance(spec, list | tuple):
            if len(spec) != 1:
                raise MongoError(50723, f"{name} requires a single argument, got {len(spec)}")
            spec = spec[0]
        part = compile_value(spec, scope)

        def evaluate(document: Any, variables: Variables) -> Any:
            value = part(document, variables)
            if is_nullish(value):
                return None
            # A text is written of binary data in their own way; otherwise they are read by bytes, the lowest first.
            return _convert_value(value, target, 0, "auto", "little")

        return evaluate


_short_form("$toBool", "bool")
_short_form("$toDate", "date")
_short_form("$toDecimal", "decimal")
_short_form("$toDouble", "double")
_short_form("$toInt", "int")
_short_form("$toLong", "long")
_short_form("$toObjectId", "objectId")
_short_form("$toString", "string")


@syntax("$toUUID")
def _compile_to_uuid(spec: Any, scope: Scope) -> Evaluate:
    part = argument("$toUUID", spec, scope)

    def evaluate(document: Any, variables: Variables) -> Any:
        value = part(document, variables)
        return None if is_nullish(value) else to_uuid(value)

    return evaluate
