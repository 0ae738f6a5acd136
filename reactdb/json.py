"""reactdb.json: documents, events and whatever else a document can hold as JSON text and back, without loss.

JSON has null, true, false, strings, arrays and objects; numbers with a point or an exponent are floats here, others
are integers of any size. A value that JSON lacks becomes an object with a type, ReQL's if ReQL has one:

    value                     JSON
    ------------------------  -----------------------------------------------------------------------------------
    datetime                  {"$reql_type$": "TIME", "epoch_time": 1376436769.923, "timezone": "+00:00"}
    bytes                     {"$reql_type$": "BINARY", "data": "<base64>"}
    Decimal                   {"$reactdb_type$": "decimal", "value": "1.10"}
    UUID                      {"$reactdb_type$": "uuid", "value": "00000000-0000-0000-0000-000000000000"}
    date, time                {"$reactdb_type$": "date", "value": "2013-01-31"}, {..."time", "value": "12:30:00"}
    timedelta                 {"$reactdb_type$": "duration", "value": "90.5"}, in seconds
    NaN, the infinities       {"$reactdb_type$": "float", "value": "nan"}, "inf" or "-inf"; "nan:<16 hex digits>" where the
                              bits of a NaN differ from the usual ones
    datetime, otherwise       {"$reactdb_type$": "datetime", "value": "9999-12-31T23:59:59.999999+00:00"}: where a float
                              of seconds is not exact (past the year 2255), or the offset is not in whole minutes
    of a registered type      {"$reactdb_type$": "mongodb.objectid", "value": <its text>}
    UnknownValue              {"$reactdb_type$": "extension", "code": 32, "data": "<base64>"}: read back as its type has it, if it
                              is registered then
    dict that has one of the  {"$reactdb_type$": "object", "value": {...}}: the keys inside mean nothing special
    two keys with a dollar
    a deleted document        {"$reactdb_type$": "deleted", "value": <its key>}: a whole line, in exports of changes

Reading is strict: a duplicate key, NaN or Infinity as a bare word, a number beyond a float's range, an unlisted type,
or a typed object with other fields than these is refused, because accepting it would store something else.

If msgspec is installed, it writes values without typed objects in a fraction of the time. The text is the same.
"""

from __future__ import annotations

import json
import math
import re
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, Final, cast
from uuid import UUID

import reactdb.values.blob  # noqa: F401 - it registers the library's own type, which is read here also where no file is open
from reactdb.document_types import document_type, is_object
from reactdb.errors import InvalidDocument, UsageError, describe_type
from reactdb.plain_json import to_plain
from reactdb.values.codec import MAX_DEPTH, FrozenDict, FrozenList, UnknownValue
from reactdb.values.extension_types import REGISTERED, is_extension, not_registered_error
from reactdb.values.pseudotypes import REQL, binary_object, time_object
from reactdb.values.scalars import EPOCH, EXACT, decimal_text, microseconds_of, seconds_of
from reactdb.values.value_types import BY_KIND, NAMED, TEXTS

__all__ = ["dumps", "loads"]

OURS: Final = "$reactdb_type$"

MOST_LEVELS: Final = MAX_DEPTH + 50
"""How deeply JSON of other programs may be nested. A document may have MAX_DEPTH levels, and a request or a response
around documents a few more. Reading is recursive, so more levels would end in a RecursionError somewhere."""

_USUAL_NAN: Final = struct.pack(">d", math.nan)
_JSON_TYPES: Final = frozenset({str, int, bool, type(None)})
_TEXT: Final = frozenset({str})
_PLAIN: Final = frozenset({str, int, float, bool, type(None)})

encode: Final = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")
).encode


def _msgspec() -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]] | tuple[None, None]:
    try:
        from msgspec.json import Decoder, Encoder
    except ImportError:
        return None, None
    return Encoder().encode, Decoder().decode


quick_encode, quick_decode = _msgspec()
"""msgspec's functions, where it is installed: JSON's own values, as bytes and back. Both refuse some values that
`json` takes."""
# Finds text that msgspec may write differently: it writes null for NaN and the infinities, has its own form for small and large
# floats, and does not know the keys that mark a typed object.
_DIFFERENT: Final = re.compile(r'null|[0-9]e[-0-9]|0\.0000|_type\$"')
# Finds text with numbers that JavaScript may not read exactly.
_INEXACT: Final = re.compile(r"[0-9]{16}")


# ---------------------------------------------------------------------------------------------------------------
# Writing


def dumps(value: Any, *, plain: bool = False) -> str:
    """The value as one line of JSON; `loads` reads it back as an equal value.

    Args:
        value: A document, an event of a feed, or any value that a document can hold; dicts that refuse changes, too.
            A tuple becomes a list, and an object of a typed table its document.
        plain: Write JSON for browsers, without typed objects: times in ISO 8601, Decimals, UUIDs and integers beyond
            2**53 - 1 as texts, timedeltas in seconds, bytes in base64, NaN and the infinities as null. `loads` does not
            give the value back.

    Raises:
        InvalidDocument: It contains a value that no document can have; `path` says where.
    """
    try:
        try:
            return _dumps(value, to_plain if plain else to_json)
        except KeyError:
            documents = _replace_objects(value)
            if documents is value:
                raise
        return _dumps(documents, to_plain if plain else to_json)
    except (KeyError, RecursionError, TypeError, UnicodeError):
        raise _find_refused_part(value, []) from None


def _dumps(value: Any, convert: Callable[[Any], Any]) -> str:
    if quick_encode is not None and _is_plain(value):
        text = quick_encode(value).decode()
        if (_DIFFERENT if convert is to_json else _INEXACT).search(text) is None:
            return text
    return encode(convert(value))


def _replace_objects(value: Any) -> Any:
    """The value with documents in place of objects of typed tables; the value itself where it has none."""
    if isinstance(value, dict):
        fields = {name: _replace_objects(inner) for name, inner in value.items()}
        return value if all(fields[name] is value[name] for name in fields) else fields
    if isinstance(value, (list, tuple)):
        elements = [_replace_objects(inner) for inner in value]
        return value if all(new is old for new, old in zip(elements, value, strict=True)) else elements
    if type(value).__module__ == "builtins" or not is_object(value):
        return value
    try:
        return document_type(type(value)).write(value)
    except UsageError:
        return value


def _is_plain(value: Any) -> bool:
    """Whether JSON has all types in the value. NaN and the infinities are not checked."""
    kind = type(value)
    if kind is dict:
        if not _TEXT.issuperset(map(type, value)):
            return False
        value = value.values()
    elif kind is not list:
        return kind in _PLAIN
    kinds = set(map(type, value))
    return kinds <= _PLAIN or all(map(_is_plain, value))


def _find_refused_part(value: Any, path: list[str | int]) -> InvalidDocument:
    """The error for the first part of a value that cannot be written; there must be one."""
    if len(path) > MAX_DEPTH:
        return InvalidDocument(f"nested deeper than {MAX_DEPTH} levels", tuple(path[:3]))
    parts: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, (list, tuple)):
        parts = enumerate(value)
    for place, part in parts:
        if type(place) not in (str, int) or (isinstance(value, dict) and type(place) is int):
            return InvalidDocument(
                f"a key {describe_type(place)} cannot be written, only strings", tuple(path)
            )
        try:
            encode(to_json(part)).encode()
        except (KeyError, RecursionError, TypeError, UnicodeError):
            return _find_refused_part(part, [*path, place])
    return InvalidDocument(f"a value {describe_type(value)} cannot be written", tuple(path))


def dumps_deleted(key: Any) -> str:
    """The line for a deleted document in an export of changes."""
    return encode({OURS: "deleted", "value": to_json(key)})


def to_json(value: Any) -> Any:
    """The value in types that `json` can write. Accepts any value that a document can have."""
    kind = type(value)
    if kind in _JSON_TYPES:
        return value
    if kind is dict or kind is FrozenDict:
        if not _TEXT.issuperset(map(type, value)):
            raise TypeError("a key that is not a string")
        inner = {key: to_json(part) for key, part in value.items()}
        return {OURS: "object", "value": inner} if REQL in value or OURS in value else inner
    if kind is list or kind is FrozenList or kind is tuple:
        return [to_json(part) for part in value]
    write = _WRITERS.get(kind)
    if write is not None:
        return write(value)
    known = BY_KIND[kind]
    text = known.text_or_none(value)
    if text is None:
        # Its bytes are read back as the value, too.
        return _write_unknown(UnknownValue(known.code, known.encode(value)))
    return {OURS: known.name, "value": text}


def _write_unknown(value: UnknownValue) -> Any:
    return {OURS: "extension", "code": value.code, "data": b64encode(value.data).decode("ascii")}


def _write_float(value: float) -> Any:
    if math.isfinite(value):
        return value
    bits = struct.pack(">d", value)
    text = f"nan:{bits.hex()}" if math.isnan(value) and bits != _USUAL_NAN else str(value)
    return {OURS: "float", "value": text}


def _write_datetime(value: datetime) -> Any:
    microseconds = microseconds_of(value - EPOCH)
    seconds: int | float = (
        microseconds // 1_000_000 if microseconds % 1_000_000 == 0 else microseconds / 1_000_000
    )
    if (value.utcoffset() or timedelta()) % timedelta(minutes=1) or _microseconds(seconds) != microseconds:
        return {OURS: "datetime", "value": value.isoformat()}
    return time_object(value, seconds)


def _write_duration(value: timedelta) -> Any:
    return {OURS: "duration", "value": f"{seconds_of(value):f}"}


def _tag_own_type(name: str, text: Callable[[Any], str]) -> Callable[[Any], Any]:
    return lambda value: {OURS: name, "value": text(value)}


_WRITERS: Final[dict[type, Callable[[Any], Any]]] = {
    float: _write_float,
    bytes: binary_object,
    datetime: _write_datetime,
    Decimal: _tag_own_type("decimal", decimal_text),
    UUID: _tag_own_type("uuid", str),
    date: _tag_own_type("date", date.isoformat),
    time: _tag_own_type("time", time.isoformat),
    timedelta: _write_duration,
    UnknownValue: _write_unknown,
}


# ---------------------------------------------------------------------------------------------------------------
# Writing without typed objects, for people and for analytics; reactdb does not read these texts back

Words = dict[type, Callable[[Any], str]]


def readable(value: Any) -> str:
    """The value on one line for people: JSON, with plain text for values of types that JSON lacks."""
    write = _FOR_PEOPLE.get(type(value)) or TEXTS.get(type(value))
    return encode(_replace_by_texts(value)) if write is None else write(value)


def _replace_by_texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _replace_by_texts(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_replace_by_texts(part) for part in value]
    if type(value) is float and math.isfinite(value):
        return value
    write = _FOR_PEOPLE.get(type(value)) or TEXTS.get(type(value))
    return value if write is None else write(value)


def encode_plain(value: Any) -> str | bytes:
    """The text of `dumps_plain`, as UTF-8 where that is quicker."""
    if quick_encode is not None and _is_plain(value):
        data: bytes = quick_encode(value)
        # A null may also be a NaN.
        if b"null" not in data:
            return data
    try:
        return encode(value)
    except (TypeError, ValueError):
        # The value has a type that JSON lacks, or a float that is NaN or infinite.
        return _plain(value)


def dumps_plain(value: Any) -> str:
    """The JSON text of a value for analytics, which Spark's `from_json` and its functions on strings read without help.

    A datetime, a date and a time are strings in ISO 8601; a Decimal and a timedelta (in seconds) are numbers with all of their
    digits; bytes are base64 in a string, and a UUID, NaN and the infinities are strings with their usual text.
    """
    text = encode_plain(value)
    return text if isinstance(text, str) else text.decode()


def plain_text(value: Any) -> str:
    """The text of a value in a column of strings: as in `dumps_plain`, but without quotes around strings, dates and similar."""
    kind = type(value)
    if kind is str:
        return cast(str, value)
    write = _FOR_ANALYTICS.get(kind) or TEXTS.get(kind)
    return dumps_plain(value) if write is None else write(value)


def _plain(value: Any) -> str:
    kind = type(value)
    if kind is dict:
        return "{" + ",".join([f"{encode(name)}:{_plain(inner)}" for name, inner in value.items()]) + "}"
    if kind is list:
        return "[" + ",".join(map(_plain, value)) + "]"
    write = _FOR_ANALYTICS.get(kind) or TEXTS.get(kind)
    if write is None:
        return encode(value)
    is_number = kind is Decimal or kind is timedelta or (kind is float and math.isfinite(value))
    return write(value) if is_number else encode(write(value))


def _plain_float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return repr(value) if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def _plain_seconds(value: timedelta) -> str:
    return decimal_text(seconds_of(value))


_FOR_PEOPLE: Final[Words] = {
    float: str,
    datetime: lambda value: value.isoformat(" "),
    date: str,
    time: str,
    timedelta: str,
    Decimal: str,
    UUID: str,
    bytes: lambda value: f"0x{value.hex()}",
}
_FOR_ANALYTICS: Final[Words] = {
    float: _plain_float,
    datetime: datetime.isoformat,
    date: date.isoformat,
    time: time.isoformat,
    timedelta: _plain_seconds,
    Decimal: decimal_text,
    UUID: str,
    bytes: lambda value: b64encode(value).decode("ascii"),
}


# ---------------------------------------------------------------------------------------------------------------
# Reading


def deleted_key(parsed: Any) -> tuple[Any] | None:
    """(key,) if `dumps_deleted` wrote the line; None if it is a document."""
    if isinstance(parsed, dict) and parsed.get(OURS) == "deleted" and parsed.keys() == {OURS, "value"}:
        return (read(parsed["value"], ["value"]),)
    return None


def loads(text: str) -> Any:
    """The value of one JSON text.

    Raises:
        InvalidDocument: It is not JSON, or not in the strict sense above; `path` says where, if known.
    """
    return read(parse(text), [])


def parse(text: str) -> Any:
    """The value of strict JSON, in which typed objects are not yet converted.

    Raises:
        InvalidDocument.
    """
    try:
        return _decoder.decode(text)
    except json.JSONDecodeError as error:
        raise InvalidDocument(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise InvalidDocument("nested too deeply") from None
    except InvalidDocument:
        raise
    except ValueError as error:
        # Python does not convert an integer with more digits than its limit.
        raise InvalidDocument(f"not a number: {error}") from None


def read_plain(text: str | bytes) -> Any:
    """The value of JSON as other programs write it: without typed objects, and the last of equal keys counts.

    Raises:
        InvalidDocument: It is nested more than MOST_LEVELS levels deep.
        ValueError: It is not JSON in UTF-8, or has NaN, an infinity or a number beyond the range of a float.
    """
    try:
        value = _read_quickly(text)
    except RecursionError:
        raise too_deep() from None
    if is_deeper(value, MOST_LEVELS):
        raise too_deep()
    return value


def _read_quickly(text: str | bytes) -> Any:
    if quick_decode is not None:
        try:
            return quick_decode(text.encode() if isinstance(text, str) else text)
        except ValueError:
            # Values that it refuses, such as half of a surrogate pair, are read below, or refused there, too.
            pass
    return _plain_decoder.decode(text if isinstance(text, str) else text.decode())


def is_deeper(value: Any, levels: int) -> bool:
    """Whether lists and dicts are nested more than so many levels deep. Of any value: it does not go down by calls."""
    inside = [value] if type(value) is dict or type(value) is list else []
    for _ in range(levels):
        inside = [
            part
            for outer in inside
            for part in (outer.values() if type(outer) is dict else outer)
            if type(part) is dict or type(part) is list
        ]
        if not inside:
            return False
    return bool(inside)


def too_deep() -> InvalidDocument:
    return InvalidDocument(f"nested more than {MOST_LEVELS} levels deep")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise InvalidDocument(f"the key {encode(key)} comes twice in one object")
            seen.add(key)
    return fields


def _refuse_constant(word: str) -> Any:
    raise InvalidDocument(f'{word} is not JSON; it is written as {{"{OURS}": "float", "value": ...}}')


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise InvalidDocument(f"{text} is beyond the range of a float")
    return value


_decoder: Final = json.JSONDecoder(
    object_pairs_hook=_without_repeats, parse_constant=_refuse_constant, parse_float=_finite
)


def refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def finite_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text:.40} is beyond the range of a float")
    return value


_plain_decoder: Final = json.JSONDecoder(parse_constant=refuse_constant, parse_float=finite_float)


def read(parsed: Any, path: list[str | int]) -> Any:
    """The value behind strict JSON: as `from_json`, also where it is nested too deeply for that.

    Raises:
        InvalidDocument.
    """
    try:
        return from_json(parsed, path)
    except RecursionError:
        raise InvalidDocument("nested too deeply") from None


def from_json(value: Any, path: list[str | int]) -> Any:
    """The value that `to_json` wrote. `path` leads to it; it changes during the call and is restored.

    Raises:
        InvalidDocument: A typed object is wrong.
    """
    if isinstance(value, dict):
        if REQL in value or OURS in value:
            return _read_typed(value, path)
        return _read_fields(value, path)
    if isinstance(value, list):
        elements = []
        for place, part in enumerate(value):
            path.append(place)
            elements.append(from_json(part, path))
            path.pop()
        return elements
    return value


def _read_fields(value: dict[str, Any], path: list[str | int]) -> dict[str, Any]:
    fields = {}
    for key, part in value.items():
        path.append(key)
        fields[key] = from_json(part, path)
        path.pop()
    return fields


def _read_typed(value: dict[str, Any], path: list[str | int]) -> Any:
    family = REQL if REQL in value else OURS
    name = value[family]
    known = _reader(family, name) if isinstance(name, str) else None
    if known is None:
        raise InvalidDocument(f"unknown {family} {encode(name)}", tuple(path))
    fields, read = known
    if value.keys() != {family, *fields}:
        raise InvalidDocument(f"a {name} has the fields {', '.join(fields)} and no others", tuple(path))
    if name == "object":
        if not isinstance(value["value"], dict):
            raise InvalidDocument("the value of an object is an object", tuple(path))
        return _read_fields(value["value"], path)
    try:
        return read(*(value[field] for field in fields))
    except (ValueError, TypeError, ArithmeticError) as error:
        shown = encode({field: value[field] for field in fields})
        raise InvalidDocument(f"not a {name}: {shown[:200]} ({error})", tuple(path)) from None


def _reader(family: str, name: str) -> tuple[tuple[str, ...], Callable[..., Any]] | None:
    """The fields of a typed object, and the function that reads them."""
    if family == OURS and "." in name:
        if name not in NAMED:
            raise not_registered_error(f"{OURS} {encode(name)}", name.partition(".")[0])
        return ("value",), lambda text: NAMED[name].parse(_text(text))
    return _READERS.get((family, name))


def _microseconds(seconds: int | float) -> int:
    """The microseconds of the shortest decimal that reads as this float, because that decimal was written."""
    return int(Decimal(repr(seconds)).scaleb(6, EXACT).to_integral_value(context=EXACT))


_ZONE: Final = re.compile(r"([+-])(\d\d):([0-5]\d)", re.ASCII)


def _read_time(seconds: Any, zone: Any) -> datetime:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError("epoch_time is a number")
    match = _ZONE.fullmatch("+00:00" if zone == "Z" else zone)
    if match is None:
        raise ValueError('timezone is "Z" or like "+00:00"')
    sign, hours, minutes = match.groups()
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    moment = EPOCH + timedelta(microseconds=_microseconds(seconds))
    return moment.astimezone(timezone(-offset if sign == "-" else offset))


def read_datetime(text: Any) -> datetime:
    """The datetime of an ISO 8601 text. Raises: ValueError, TypeError."""
    value = datetime.fromisoformat(text)
    if value.tzinfo is None:
        raise ValueError("it has no time zone")
    return value


_FLOAT: Final = re.compile(r"nan|-?inf|nan:([0-9a-f]{16})", re.ASCII)


def _read_float(text: Any) -> float:
    match = _FLOAT.fullmatch(text)
    if match is None:
        raise ValueError('"nan", "inf", "-inf" or "nan:" and 16 hex digits')
    if match[1] is None:
        return float(text)
    (value,) = struct.unpack(">d", bytes.fromhex(match[1]))
    if not math.isnan(value):
        raise ValueError("these bits are a number")
    return float(value)


_DURATION: Final = re.compile(r"-?\d{1,15}(\.\d{1,6})?", re.ASCII)


def _read_duration(text: Any) -> timedelta:
    if _DURATION.fullmatch(text) is None:
        raise ValueError("seconds with at most six decimals")
    return timedelta(microseconds=int(Decimal(text).scaleb(6, EXACT)))


def _read_unknown(code: Any, text: Any) -> Any:
    if type(code) is not int or code not in REGISTERED:
        raise ValueError(f"code is an integer from {REGISTERED[0]} to {REGISTERED[-1]}")
    value = UnknownValue(code, _read_binary(text))
    return value.resolve() if is_extension(code) else value


def _read_binary(text: Any) -> bytes:
    return b64decode(_text(text).encode("ascii"), validate=True)


_READERS: Final[dict[tuple[str, str], tuple[tuple[str, ...], Callable[..., Any]]]] = {
    (REQL, "TIME"): (("epoch_time", "timezone"), _read_time),
    (REQL, "BINARY"): (("data",), _read_binary),
    (OURS, "datetime"): (("value",), read_datetime),
    (OURS, "decimal"): (("value",), lambda text: Decimal(_text(text))),
    (OURS, "uuid"): (("value",), lambda text: UUID(_text(text))),
    (OURS, "date"): (("value",), lambda text: date.fromisoformat(_text(text))),
    (OURS, "time"): (("value",), lambda text: time.fromisoformat(_text(text))),
    (OURS, "duration"): (("value",), _read_duration),
    (OURS, "float"): (("value",), _read_float),
    (OURS, "extension"): (("code", "data"), _read_unknown),
    (OURS, "object"): (("value",), dict),
}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("it is a string")
    return value
