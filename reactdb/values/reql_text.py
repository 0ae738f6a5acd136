"""Values as ReQL prints them inside its messages.

An error about a value or a refused key shows it as RethinkDB's server would: as JSON with tabs, its names sorted. The
text is for people and is never parsed, so values that JSON lacks (times, bytes, UUIDs) are shown as the pseudotypes
of ReQL's wire, and a value of a foreign type by its `repr`.

Rule of this file: it makes no decisions. The caller has decided already whether the value may be stored or be a key.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from typing import Any
from uuid import UUID

from reactdb import errors
from reactdb.budget import spend
from reactdb.values.scalars import MAX_INT_BITS, NAIVE_EPOCH, decimal_text, microseconds_of, seconds_of

__all__ = ["pretty"]


def pretty(value: Any) -> str:
    """The value as ReQL prints it in messages: JSON with tabs and sorted keys, `{\\n\\t"id":\\t1\\n}`.

    ReQL has one type of number: 1.0 is printed as `1`. A value that JSON lacks is a pseudotype, as on ReQL's wire.
    """
    return _pretty(value, "\n")


def _pretty(value: Any, newline: str) -> str:
    if isinstance(value, dict):
        if not value:
            return "{}"
        spend(len(value))
        inward = newline + "\t"
        items = [f"{_json(str(key))}:\t{_pretty(value[key], inward)}" for key in sorted(value)]
        return "{" + inward + ("," + inward).join(items) + newline + "}"
    if isinstance(value, (list, tuple)):
        if not value:
            return "[]"
        spend(len(value))
        inward = newline + "\t"
        return "[" + inward + ("," + inward).join([_pretty(inner, inward) for inner in value]) + newline + "]"
    if value is None or isinstance(value, (bool, str)):
        return _json(value)
    if isinstance(value, float):
        # An exact integer is printed as one, as far as all of its digits mean something.
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(float(value))
    if isinstance(value, (int, Decimal)):
        return _number_text(value)
    return _pretty_pseudotype(value, newline)


def _json(value: Any) -> str:
    return _encoder()(value)


@cache
def _encoder() -> Callable[[Any], str]:
    # Imported late: a program without mistakes does not need it.
    import json

    return json.JSONEncoder(ensure_ascii=False).encode


def _number_text(value: int | Decimal) -> str:
    if isinstance(value, int):
        return int.__repr__(value) if value.bit_length() <= MAX_INT_BITS else hex(value)
    return decimal_text(value)


def _seconds_of(duration: timedelta) -> Decimal | int:
    seconds = seconds_of(duration)
    return seconds if duration.microseconds else int(seconds)


def _pretty_pseudotype(value: Any, newline: str) -> str:
    shown: dict[str, Any]
    if isinstance(value, datetime):
        offset = value.utcoffset() or timedelta(0)
        # Rounded to a millisecond, as ReQL keeps its times.
        seconds = round(microseconds_of(value.replace(tzinfo=None) - NAIVE_EPOCH - offset) / 1_000_000, 3)
        zone = value.strftime("%z") or "+0000"
        name, shown = "TIME", {"epoch_time": seconds, "timezone": f"{zone[:3]}:{zone[3:5]}"}
    elif isinstance(value, (bytes, bytearray, memoryview)):
        name, shown = "BINARY", {"data": binascii.b2a_base64(value, newline=False).decode()}
    elif isinstance(value, UUID):
        name, shown = "UUID", {"uuid": str(value)}
    elif isinstance(value, date):
        name, shown = "DATE", {"date": value.isoformat()}
    elif isinstance(value, time):
        name, shown = "LOCALTIME", {"time": value.isoformat()}
    elif isinstance(value, timedelta):
        name, shown = "DURATION", {"seconds": _seconds_of(value)}
    else:
        return errors.format_value(value, 200)
    return _pretty({"$reql_type$": name, **shown}, newline)
