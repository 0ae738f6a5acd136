"""Values on the wire: JSON, with pseudotypes for values that JSON lacks.

    TIME      {"$reql_type$": "TIME", "epoch_time": seconds, "timezone": "+hh:mm"}      a datetime
    BINARY    {"$reql_type$": "BINARY", "data": base64}                                bytes
    GEOMETRY  stays an ordinary object: it can be stored and read

Native values that RethinkDB lacks are written as the nearest type: a Decimal or a timedelta (in seconds) as a number, a UUID, a
date, a time of day and a value of a registered type as text, and numbers that JSON lacks as null. A datetime is cut to its
millisecond, and its offset to the minute. Rounded up, the last moment of the year 9999 would be in the year 10000.
A primary key of such a type is shown as a text that stands for the key: see `keys`.

A field `$reql_type$` of a plain object is written as `=$reql_type$`, because drivers convert every object with that field, and
fail if they cannot. The fields `=$reql_type$`, `==$reql_type$` and so on get a further `=`. Reading removes one `=`.

Rule of this file: it only reads and writes values.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any, Final
from uuid import UUID

from reactdb.budget import current, spend
from reactdb.errors import QueryError, ResourceLimit
from reactdb.expression.markers import Grouped
from reactdb.expression.operations.times import YEAR_SENTENCE, read_zone
from reactdb.json import encode
from reactdb.values.blob import Blob
from reactdb.values.collation import maxval, minval
from reactdb.values.pseudotypes import REQL, binary_object, time_object
from reactdb.values.scalars import EPOCH, microseconds_of
from reactdb.values.shown_values import Respelling
from reactdb.values.value_types import text_of

# ReQL's numbers are doubles, and not every larger whole number is exact in a double.
EXACT_INTEGERS: Final = 2**53

MAX_ANSWER_VALUES: Final = 10_000_000
"""All nested elements and fields of one value of an answer. Such an answer takes about a gigabyte while it is made."""

ENCODED_AT_ONCE: Final = 4_096
"""Values for one call of the encoder: half a millisecond."""


def read_number(value: int | float) -> int | float:
    """A number of ReQL. A float without a fraction becomes the equal int."""
    if isinstance(value, int):
        if -EXACT_INTEGERS <= value <= EXACT_INTEGERS:
            return value
        try:
            return float(value)
        except OverflowError:
            raise QueryError(f"Non-finite number: {'-' if value < 0 else ''}inf") from None
    if not isfinite(value):
        raise QueryError(f"Non-finite number: {value}")
    if value.is_integer() and -EXACT_INTEGERS <= value <= EXACT_INTEGERS:
        return int(value)
    return value


def read_pseudotype(value: Mapping[str, Any]) -> Any:
    """The value of an object with a `$reql_type$`."""
    kind = value[REQL]
    if kind == "TIME":
        return _read_time(value)
    if kind == "BINARY":
        return _read_binary(value)
    if kind == "GEOMETRY":
        return dict(value)
    raise QueryError(f"Unknown $reql_type$ `{kind}`.")


def _read_time(value: Mapping[str, Any]) -> datetime:
    seconds, zone = value.get("epoch_time"), value.get("timezone")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not isinstance(zone, str):
        raise QueryError("Invalid time object constructed (`epoch_time` and `timezone` are needed).")
    try:
        # The time is rounded to milliseconds, the precision of ReQL's times.
        return datetime.fromtimestamp(0, UTC).astimezone(read_zone(zone)) + timedelta(
            milliseconds=round(seconds * 1_000)
        )
    except OverflowError:
        raise QueryError(YEAR_SENTENCE) from None


def _read_binary(value: Mapping[str, Any]) -> bytes:
    data = value.get("data")
    if not isinstance(data, str):
        raise QueryError("Invalid binary pseudotype: lacking `data` key.")
    try:
        return b64decode(data, validate=True)
    except (Base64Error, ValueError):
        raise QueryError("Invalid binary pseudotype: `data` is not base64.") from None


_SPELLED: Final = re.compile(r"=+" + re.escape(REQL))


def read_names(value: dict[str, Any]) -> dict[str, Any]:
    """An object from a driver, with the stored names of its fields."""
    if REQL not in "".join(value):
        return value
    return {name[1:] if _SPELLED.fullmatch(name) else name: inner for name, inner in value.items()}


def _escape_name(name: str, document: Mapping[str, Any]) -> str:
    """The name of a field for a driver."""
    if name == REQL:
        return name if document[REQL] == "GEOMETRY" else f"={name}"
    return f"={name}" if _SPELLED.fullmatch(name) else name


def render(value: Any) -> Any:
    """The value as JSON values, with names sorted as in RethinkDB."""
    kind = type(value)
    if kind is str or kind is int or value is None or kind is bool:
        return value
    if isinstance(value, dict):
        budget = current.get()
        if budget is not None:
            budget.spend(len(value))
        names = sorted(value)
        if REQL in "".join(names):
            return {_escape_name(name, value): render(value[name]) for name in names}
        return {name: render(value[name]) for name in names}
    if isinstance(value, (list, tuple)):
        budget = current.get()
        if budget is not None:
            budget.spend(len(value))
        return [render(inner) for inner in value]
    if isinstance(value, float):
        if not isfinite(value):
            return None
        return int(value) if value.is_integer() and abs(value) <= EXACT_INTEGERS else value
    return _render_rare(value)


def _render_rare(value: Any) -> Any:
    if isinstance(value, (str, int)):
        return value
    if isinstance(value, Grouped):
        return {REQL: "GROUPED_DATA", "data": [render(pair) for pair in value.groups]}
    if isinstance(value, datetime):
        return time_object(value, _seconds(value))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return binary_object(value)
    if isinstance(value, Decimal):
        return render(float(value))
    if isinstance(value, timedelta):
        return render(value.total_seconds())
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, (date, time)):
        return value.isoformat()
    if value is minval or value is maxval:
        raise QueryError(f"Cannot convert `r.{value!r}` to JSON.")
    if isinstance(value, Blob):
        return {"digest": value.digest, "size": value.size}
    text = text_of(value)
    if text is None:
        raise QueryError(f"Cannot convert a {type(value).__name__} to JSON.")
    return text


def _seconds(moment: datetime) -> int | float:
    milliseconds = microseconds_of(moment - EPOCH) // 1_000
    return milliseconds / 1_000 if milliseconds % 1_000 else milliseconds // 1_000


# ---------------------------------------------------------------------------------------------------------------
# Values that come back


def is_exact(value: Any) -> bool:
    """Whether drivers see a stored value, with everything in it, unchanged. False if finding out takes longer."""
    kind = type(value)
    if kind is str or kind is bool or value is None or kind is bytes:
        return True
    if kind is int:
        return bool(-EXACT_INTEGERS <= value <= EXACT_INTEGERS)
    if kind is dict:
        return all(map(is_exact, value.values()))
    return kind is list and all(map(is_exact, value))


def _as_stored(value: Any) -> Any:
    """The stored form of a value that comes back as a driver saw it."""
    return _read_back(render(value))


def _read_back(value: Any) -> Any:
    if isinstance(value, dict):
        fields = read_names({name: _read_back(inner) for name, inner in value.items()})
        return read_pseudotype(fields) if REQL in value else fields
    if isinstance(value, list):
        return [_read_back(inner) for inner in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return read_number(value)
    return value


def _round_times(value: Any) -> Any:
    """A value from a driver, with its times rounded to milliseconds."""
    if isinstance(value, datetime):
        return _read_time(time_object(value, round(microseconds_of(value - EPOCH) / 1_000) / 1_000))
    if isinstance(value, dict):
        return {name: _round_times(inner) for name, inner in value.items()}
    return [_round_times(inner) for inner in value] if isinstance(value, list) else value


RESPELLING: Final = Respelling(is_exact, _as_stored, _round_times)


# ---------------------------------------------------------------------------------------------------------------
# Bytes


def to_json(value: Any) -> bytes:
    """A rendered value as the bytes of a frame."""
    # UTF-8 cannot encode a lone surrogate. Documents never have one, but messages about a bad request may.
    return encode(value).encode("utf-8", "replace")


def encode_computed(value: Any) -> bytes:
    """A computed value of a query, as the bytes of a frame.

    A variable can be used more than once, so a few terms can make a value with the same array ten million times.

    Raises:
        ResourceLimit: It has more than MAX_ANSWER_VALUES.
    """
    left = _left_of(MAX_ANSWER_VALUES, value)
    if left < 0:
        raise ResourceLimit(f"Answer over size limit: it holds more than {MAX_ANSWER_VALUES} values.")
    json_value = render(value)
    if MAX_ANSWER_VALUES - left <= ENCODED_AT_ONCE:
        return to_json(json_value)
    return "".join(_pieces(json_value)).encode("utf-8", "replace")


def _left_of(left: int, value: Any) -> int:
    """`left` minus the number of values in this value; negative as soon as there are too many."""
    if isinstance(value, dict):
        value = value.values()
    elif isinstance(value, Grouped):
        value = value.groups
    elif not isinstance(value, (list, tuple)):
        return left
    spend(len(value))
    left -= len(value)
    for inner in value:
        if left < 0:
            return left
        if isinstance(inner, (dict, list, tuple, Grouped)):
            left = _left_of(left, inner)
    return left


def _pieces(value: Any) -> Iterator[str]:
    """The JSON of a large value in parts, because the encoder in C lets no other thread run until it is done."""
    if isinstance(value, list):
        opening = "["
        for start in range(0, len(value), ENCODED_AT_ONCE):
            spend(ENCODED_AT_ONCE)
            part = value[start : start + ENCODED_AT_ONCE]
            if any(isinstance(inner, (list, dict)) for inner in part):
                for inner in part:
                    yield opening
                    yield from _pieces(inner)
                    opening = ","
            else:
                yield opening + encode(part)[1:-1]
                opening = ","
        yield "]" if value else "[]"
    elif isinstance(value, dict) and (
        len(value) > ENCODED_AT_ONCE or any(isinstance(inner, (list, dict)) for inner in value.values())
    ):
        opening = "{"
        for name, inner in value.items():
            yield f"{opening}{encode(name)}:"
            yield from _pieces(inner)
            opening = ","
        yield "}"
    else:
        yield encode(value)
