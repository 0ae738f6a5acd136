"""JSON for browsers and other readers that know JSON only: `reactdb.json.dumps(value, plain=True)`.

    value                     JSON
    ------------------------  ----------------------------------------------------------------------------------------
    datetime                  "2026-01-02T12:30:00Z", or with the offset: "2026-01-02T14:30:00.250000+02:00"
    date, time                "2026-01-02", "12:30:00"
    timedelta                 90.5: seconds
    Decimal, UUID             "1.10", "00000000-0000-0000-0000-000000000000"
    bytes                     "AQID": base64
    NaN, the infinities       null
    int beyond 2**53 - 1      "9007199254740993": JavaScript would read another number
    of a registered type      its text, such as "507f1f77bcf86cd799439011"

JSON.parse reads every text. `loads` cannot restore the values, because a text does not say whether it was a date.

Rule of this file: it writes, and reads nothing.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from reactdb.values.codec import FrozenDict, FrozenList, UnknownValue
from reactdb.values.scalars import decimal_text
from reactdb.values.value_types import BY_KIND

MOST_EXACT: Final = 2**53 - 1
"""The greatest integer up to which a float, the only number of JavaScript, has all integers."""

_SAME: Final = frozenset({str, bool, type(None)})


def to_plain(value: Any) -> Any:
    """The value in JSON's own types.

    Raises:
        KeyError: It has a type that no document has.
        TypeError: It has a key that is no text.
    """
    kind = type(value)
    if kind in _SAME:
        return value
    if kind is dict or kind is FrozenDict:
        plain = {}
        for name, inner in value.items():
            if not isinstance(name, str):
                raise TypeError("a key that is not a string")
            plain[name] = to_plain(inner)
        return plain
    if kind is list or kind is FrozenList or kind is tuple:
        return [to_plain(inner) for inner in value]
    write = _WRITERS.get(kind)
    if write is not None:
        return write(value)
    known = BY_KIND[kind]
    text = known.text_or_none(value)
    return _base64(known.encode(value)) if text is None else text


def _int(value: int) -> int | str:
    return value if -MOST_EXACT <= value <= MOST_EXACT else str(value)


def _float(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _datetime(value: datetime) -> str:
    offset = value.utcoffset()
    if offset is None:
        raise KeyError(datetime)
    if offset % timedelta(minutes=1):
        # JavaScript's offsets have no seconds.
        value = value.astimezone(UTC)
    text = value.isoformat()
    return f"{text[:-6]}Z" if text.endswith("+00:00") else text


def _base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")


_WRITERS: Final[dict[type, Callable[[Any], Any]]] = {
    int: _int,
    float: _float,
    bytes: _base64,
    datetime: _datetime,
    date: date.isoformat,
    time: time.isoformat,
    timedelta: timedelta.total_seconds,
    Decimal: decimal_text,
    UUID: str,
    UnknownValue: lambda value: _base64(value.data),
}
