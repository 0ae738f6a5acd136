"""JSON text of documents for analytics: what Spark's `from_json` and its functions on strings read without help.

    value             text
    ----------------  ------------------------------------------------------------------
    datetime          "2026-01-31T12:00:00.5+02:00": ISO 8601, with its offset
    date, time        "2026-01-31", "12:00:00"
    timedelta         a number of seconds, with its fraction
    Decimal, int      a number, with all of its digits
    float             a number, the shortest that is it; "NaN", "Infinity", "-Infinity"
    bytes             base64, in a string
    UUID              a string

This is for reading. Exports that come back without loss are `reactdb export`'s.

Rule of this file: pure functions, and no option.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from reactdb.values.scalars import decimal_text, microseconds_of

_PLAIN = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":"))
_quoted = json.encoder.encode_basestring


def json_of(value: Any) -> str:
    """The JSON text of a document or a value."""
    if _quick is not None and _is_plain(value):
        data: bytes = _quick(value)
        # It writes null for a NaN, too.
        if b"null" not in data:
            return data.decode()
    try:
        return _PLAIN.encode(value)
    except (TypeError, ValueError):
        # Something that JSON has no word for, or a float that is no number.
        return _written(value)


def _quick_encoder() -> Callable[[Any], bytes] | None:
    """msgspec's, where it is installed: a tenth of the time. It has other texts for dates and such, so those are not its."""
    try:
        from msgspec.json import Encoder
    except ImportError:
        return None
    encode: Callable[[Any], bytes] = Encoder().encode
    return encode


_SIMPLE = frozenset((str, int, float, bool, type(None)))


def _is_plain(value: Any) -> bool:
    """Whether there is nothing in it that JSON has no word for."""
    kind = type(value)
    if kind is dict:
        value = value.values()
    elif kind is not list:
        return kind in _SIMPLE
    kinds = set(map(type, value))
    return kinds <= _SIMPLE or all(map(_is_plain, value))


_quick = _quick_encoder()


def text_of(value: Any) -> str:
    """A value in a column of strings: a string as it is, everything else as in JSON, but dates and such without quotes."""
    if type(value) is str:
        return value
    write = _WORDS.get(type(value))
    return json_of(value) if write is None else write(value)


def _written(value: Any) -> str:
    if type(value) is dict:
        return "{" + ",".join([f"{_quoted(name)}:{_written(inner)}" for name, inner in value.items()]) + "}"
    if type(value) is list:
        return "[" + ",".join(map(_written, value)) + "]"
    if type(value) is str:
        return str(_quoted(value))
    if type(value) is Decimal:
        return decimal_text(value)
    if type(value) is timedelta:
        return seconds_of(value)
    write = _WORDS.get(type(value))
    if write is not None:
        text = write(value)
        return text if type(value) is float and text[-1].isdigit() else f'"{text}"'
    return _PLAIN.encode(value)


def seconds_of(value: timedelta) -> str:
    return decimal_text(Decimal(microseconds_of(value)).scaleb(-6).normalize()) if value else "0"


def _float_text(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


_WORDS: dict[type, Callable[[Any], str]] = {
    float: _float_text,
    datetime: datetime.isoformat,
    date: date.isoformat,
    time: time.isoformat,
    timedelta: seconds_of,
    Decimal: decimal_text,
    UUID: str,
    bytes: lambda value: b64encode(value).decode(),
}
