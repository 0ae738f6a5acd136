"""Operations: types, and values made from nothing.

Source: RethinkDB 2.4, terms/type_manip.cc, json.cc, uuid.cc, random.cc.
"""

from __future__ import annotations

import json
import random as chance
import re
from base64 import b64decode
from datetime import datetime, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any, Final
from uuid import UUID, uuid4, uuid5

from reactdb.budget import spend, spend_bytes
from reactdb.errors import QueryError
from reactdb.expression.checks import (
    check_number,
    fail,
    integer,
    is_number,
    kind,
    number,
    number_text,
    sequence,
    string,
    truth,
)
from reactdb.expression.markers import Grouped
from reactdb.expression.operations.numbers import compute_number
from reactdb.expression.operations.objects import collect_pairs
from reactdb.expression.operations.times import in_timezone, instant
from reactdb.expression.registry import operation
from reactdb.values.pseudotypes import REQL, binary_object, time_object
from reactdb.values.value_types import text_of

_UUID_SPACE: Final = UUID("91461c99-f89d-49d2-af96-d8e2e14e9b58")
_DECIMAL_NUMBER: Final = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_HEXADECIMAL: Final = re.compile(r"\s*[+-]?0[xX][0-9a-fA-F]+(\.[0-9a-fA-F]*)?([pP][+-]?\d+)?", re.ASCII)
TYPES: Final = frozenset(
    [
        "DB",
        "TABLE",
        "TABLE_SLICE",
        "SELECTION<STREAM>",
        "SELECTION<ARRAY>",
        "STREAM",
        "SELECTION<OBJECT>",
        "DATUM",
        "FUNCTION",
        "GROUPED_DATA",
        "NULL",
        "BINARY",
        "BOOL",
        "NUMBER",
        "STRING",
        "ARRAY",
        "OBJECT",
        "MINVAL",
        "MAXVAL",
    ]
)


@operation("type_of", 1, never_fails=True, acts_on_groups=True)
def type_of(value: Any) -> str:
    return "GROUPED_DATA" if isinstance(value, Grouped) else kind(value)


def _coercion_name(value: Any) -> str:
    """The type in the names of `coerce_to`, which knows only one pseudotype."""
    name = kind(value)
    return {"PTYPE<BINARY>": "BINARY"}.get(name, "OBJECT" if name.startswith("PTYPE<") else name)


@operation("coerce_to", 2)
def coerce_to(value: Any, type_wanted: Any) -> Any:
    """The value as another type: whatever to string or bool, string and binary, string to number, array and object."""
    wanted = string(type_wanted).upper()
    if wanted not in TYPES:
        raise QueryError(f"Unknown Type: {wanted}")
    present = _coercion_name(value)
    if present == wanted or wanted == "DATUM":
        return value
    if wanted == "BOOL":
        return truth(value)
    if wanted == "STRING":
        return _text(value) if isinstance(value, bytes) else to_json_string(value)
    if present == "STRING" and wanted == "BINARY":
        return value.encode()
    if present == "STRING" and wanted == "NUMBER":
        return _number(value)
    if isinstance(value, dict) and wanted == "ARRAY":
        return [[name, value[name]] for name in sorted(value)]
    if isinstance(value, list) and wanted == "OBJECT":
        return collect_pairs((_pair(pair) for pair in value), "in coerced object")
    return fail(value, f"Cannot coerce {present} to {wanted}.")


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        beginning = data[: min(error.start, 20)].decode(errors="replace")
        raise QueryError(
            f"String `{beginning}` (truncated) is not a UTF-8 string; invalid byte at position {error.start}."
        ) from None


def _number(text: str) -> Any:
    if _DECIMAL_NUMBER.fullmatch(text):
        digits = text.strip()
        # Python refuses to read an int of thousands of digits, because it is slow; ReQL has only doubles anyway.
        if digits.lstrip("+-").isdigit() and len(digits) <= 2_000:
            return int(digits)
        return check_number(float(digits))
    if _HEXADECIMAL.fullmatch(text):
        try:
            value = float.fromhex(text.strip())
        except OverflowError:
            raise QueryError("Non-finite number: inf") from None
        return int(value) if value.is_integer() else value
    if text.strip().lower().lstrip("+-") in ("inf", "infinity", "nan"):
        return check_number(float(text))
    raise QueryError(f"Could not coerce `{text}` to NUMBER.")


def _pair(pair: Any) -> tuple[Any, Any]:
    elements = sequence(pair)
    if len(elements) != 2:
        raise QueryError(f"Expected array of size 2, but got size {len(elements)}.")
    return elements[0], elements[1]


# ---------------------------------------------------------------------------------------------------------------
# JSON


@operation("to_json_string", 1)
def to_json_string(value: Any) -> str:
    """The value as JSON without spaces, keys sorted; values that JSON lacks as ReQL's pseudotypes."""
    return _to_json(value)


_json: Final = json.JSONEncoder(ensure_ascii=False).encode


def _to_json(value: Any) -> str:
    if isinstance(value, (dict, list)):
        spend(len(value))
    if isinstance(value, dict):
        return "{" + ",".join(f"{_json(name)}:{_to_json(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_to_json, value)) + "]"
    if isinstance(value, float):
        check_number(value)
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    if isinstance(value, (str, bytes)):
        spend_bytes(len(value))
    if value is None or isinstance(value, (bool, int, str)):
        return _json(value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return _to_json(binary_object(value))
    if isinstance(value, datetime):
        return _to_json(time_object(value, value.timestamp()))
    if isinstance(value, (timedelta, UUID)) or hasattr(value, "isoformat"):
        return _json(value.isoformat() if hasattr(value, "isoformat") else str(value))
    if callable(value):
        raise QueryError("Expected type DATUM but found FUNCTION.")
    text = text_of(value)
    if text is None:
        raise QueryError(f"Cannot convert `r.{value}` to JSON.")
    return _json(text)


@operation("json", 1)
def json_(text: Any) -> Any:
    """The value of a JSON text."""
    source = string(text)
    try:
        value = json.loads(
            source, object_pairs_hook=_from_pairs, parse_float=_finite, parse_constant=_refuse_constant
        )
    except json.JSONDecodeError as error:
        reason = _json_reason(source, error)
    except ValueError:
        # Python refuses to read an int of thousands of digits, because it is slow.
        reason = _TOO_BIG
    except RecursionError:
        reason = "Nesting depth limit exceeded."
    except _WrongJson as error:
        reason = str(error)
    else:
        if not _SURROGATE.search(source) or _has_no_surrogates(value):
            return value
        reason = "The surrogate pair in string is invalid."
    start = source if len(source) <= 40 else source[:37] + "..."
    raise QueryError(f'Failed to parse "{start}" as JSON: {reason}')


class _WrongJson(Exception):
    """The text is JSON, and its value is none of ReQL's. The message says why."""


_TOO_BIG: Final = "Number too big to be stored in double."
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_JSON_BRACKET: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
# Python's message, with RethinkDB's.
_JSON_REASONS: Final = {
    "Expecting value": "Invalid value.",
    "Expecting property name enclosed in double quotes": "Missing a name for object member.",
    "Illegal trailing comma before end of object": "Missing a name for object member.",
    "Expecting ':' delimiter": "Missing a colon after a name of object member.",
    "Unterminated string starting at": "Missing a closing quotation mark in string.",
    "Invalid control character at": "Invalid encoding in string.",
    "Invalid \\escape": "Invalid escape character in string.",
    "Invalid \\uXXXX escape": "Incorrect hex digit after \\u escape in string.",
    "Extra data": "The document root must not be followed by other values.",
}


def _json_reason(source: str, error: json.JSONDecodeError) -> str:
    """RethinkDB's sentence about a text without valid JSON."""
    if not source.strip(" \t\r\n"):
        return "The document is empty."
    if error.msg != "Expecting ',' delimiter":
        # Python adds the character to some of its messages.
        return next(
            (reason for known, reason in _JSON_REASONS.items() if error.msg.startswith(known)),
            "Invalid value.",
        )
    opened: list[str] = []
    for bracket in _JSON_BRACKET.findall(source[: error.pos]):
        if bracket in "[{":
            opened.append(bracket)
        elif bracket in "]}":
            opened.pop()
    if opened[-1] == "[":
        return "Missing a comma or ] after an array element."
    return "Missing a comma or } after an object member."


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise _WrongJson(_TOO_BIG)
    return number


def _refuse_constant(_name: str) -> Any:
    raise _WrongJson("Invalid value.")


def _has_no_surrogates(value: Any) -> bool:
    """Whether UTF-8 can say all strings of the value: a half of a surrogate pair is no character."""
    try:
        _to_json(value).encode()
    except UnicodeEncodeError:
        return False
    return True


def _from_pairs(pairs: list[tuple[str, Any]]) -> Any:
    document: dict[str, Any] = {}
    for name, value in pairs:
        if name in document:
            raise _WrongJson(f"Duplicate key {_json(name)} in JSON.")
        document[name] = value
    if document.get(REQL) == "TIME" and is_number(document.get("epoch_time")):
        return in_timezone(instant(document["epoch_time"]), document.get("timezone", "Z"))
    if document.get(REQL) == "BINARY" and isinstance(document.get("data"), str):
        try:
            return b64decode(document["data"])
        except ValueError:
            raise QueryError("Invalid binary pseudotype: `data` is not base64.") from None
    return document


@operation("binary", 1)
def binary(value: Any) -> bytes:
    """A string's UTF-8, or a binary as it is."""
    return value if isinstance(value, bytes) else string(value).encode()


# ---------------------------------------------------------------------------------------------------------------
# From nothing


@operation("uuid", 0, 1, is_deterministic=False)
def uuid(*name: Any) -> str:
    """A random UUID as a string; of a string, always the same one."""
    return str(uuid5(_UUID_SPACE, string(name[0])) if name else uuid4())


@operation("random", 0, 2, options=("float",), is_deterministic=False)
def random(*bounds: Any, **options: Any) -> Any:
    """A number from the first bound, or 0, up to the last one: a float between 0 and 1, or an int if there are bounds.

    `float=True` gives floats within bounds too.
    """
    if truth(options.get("float", not bounds)):
        low, high = (
            (0.0, 1.0)
            if not bounds
            else (0.0, number(bounds[0]))
            if len(bounds) == 1
            else map(number, bounds)
        )
        return compute_number(lambda one, other: _between(float(one), float(other)), low, high)
    if not bounds:
        raise QueryError("Generating a random integer requires one or two bounds.")
    lower = 0 if len(bounds) == 1 else _bound(bounds[0], "Lower")
    upper = _bound(bounds[-1], "Upper")
    if lower >= upper:
        raise QueryError(f"Lower bound ({lower}) is not less than upper bound ({upper}).")
    return chance.randrange(lower, upper)


def _between(low: float, high: float) -> float:
    return low + chance.random() * (high - low)


def _bound(value: Any, name: str) -> int:
    number(value)
    try:
        return integer(value)
    except QueryError:
        raise QueryError(
            f"{name} bound ({number_text(value)}) could not be safely converted to an integer."
        ) from None
