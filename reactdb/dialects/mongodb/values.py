"""BSON documents and reactdb's own, exact inverses of each other, and BSON's bytes.

A *BSON document* is the dialect's form: a plain dict in the order of its fields, with PyMongo's values as `bson.decode` returns
them. A plain int is an int32, a `bson.int64.Int64` an int64, bytes are binary of subtype 0, dates are naive datetimes in UTC.
There are no DBRefs: a reference is a plain document in the order of its fields. A *native document* is reactdb's stored form: see
`natives`. `to_bson(to_native(x))` has the bytes of `x`, for every `x` of BSON.

A native document may have values without a BSON type, since any program may write to a table. They appear as the nearest value:
an int beyond 64 bits and a Decimal beyond 34 digits as a rounded Decimal128, a datetime as its millisecond, a date and a time as
their ISO text, a timedelta as seconds in a double, a blob as its text, a value of an unknown extension type as binary of subtype
128. A field name with a NUL is shown in the form of `field_names`, and is stored unchanged.
A primary key that BSON cannot say is shown as a text: see `entries`.

Rule of this file: both ways may share parts of their argument with the result, so neither is changed afterwards.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import bson
from bson.binary import Binary
from bson.code import Code
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.datetime_ms import DatetimeMS
from bson.dbref import DBRef
from bson.decimal128 import Decimal128, create_decimal128_context
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument
from bson.regex import Regex
from bson.timestamp import Timestamp

from reactdb.dialects.mongodb import natives
from reactdb.dialects.mongodb.errors import TOO_DEEP, MongoError
from reactdb.dialects.mongodb.field_names import NUL, SIGN, format_name, parse_name
from reactdb.errors import describe_type
from reactdb.values.codec import FrozenDict, FrozenList, UnknownValue
from reactdb.values.extension_types import EXTENSION_WRITERS
from reactdb.values.scalars import EPOCH, seconds_of
from reactdb.values.shown_values import Respelling
from reactdb.values.value_types import is_registered, text_of

__all__ = [
    "CODEC",
    "MAX_BSON_BYTES",
    "PLAIN_WRITERS",
    "RESPELLING",
    "date_of_ms",
    "decode",
    "decode_given",
    "encode",
    "is_document",
    "ms_of_date",
    "native_value",
    "normalise",
    "to_bson",
    "to_native",
    "value_to_bson",
]

MAX_BSON_BYTES: Final = 16 * 1024 * 1024
"""The size limit of one document."""

CODEC: Final[CodecOptions[dict[str, Any]]] = CodecOptions(
    datetime_conversion=DatetimeConversion.DATETIME_AUTO
)
"""How bytes become BSON documents. Dates beyond Python's are a `DatetimeMS`."""

_RAW: Final[CodecOptions[Any]] = CodecOptions(
    document_class=RawBSONDocument, datetime_conversion=DatetimeConversion.DATETIME_AUTO
)


# -----------------------------------------------------------------------------------------------------------
# Bytes


def encode(document: Mapping[str, Any]) -> bytes:
    """The BSON of a document, `_id` first.

    Raises:
        MongoError: 2, a value has no BSON form.
    """
    try:
        return bson.encode(document, codec_options=CODEC)
    except (bson.errors.BSONError, OverflowError, TypeError, ValueError, RecursionError) as error:
        raise MongoError(2, f"this cannot be written as BSON: {error}") from None


def decode(data: bytes) -> dict[str, Any]:
    """The document of these bytes.

    Raises:
        MongoError: 22 if they are none; 15 if they are nested more than a thousand levels deep.
    """
    try:
        return decode_given(data)
    except (bson.errors.BSONError, ValueError, TypeError, RecursionError) as error:
        # PyMongo raises both for the same reason.
        if isinstance(error, RecursionError) or "recursion" in str(error):
            raise MongoError(15, TOO_DEEP) from None
        raise MongoError(22, f"these bytes are no BSON document: {error}") from None


def decode_given(data: bytes) -> dict[str, Any]:
    """The same for bytes from PyMongo's encoder. Errors are PyMongo's."""
    if b"$ref\x00" not in data:
        return bson.decode(data, CODEC)
    # PyMongo turns every document that begins with `$ref` into a DBRef, and loses the order of its fields. Raw documents are not
    # decoded so.
    return {name: _decode_raw(value) for name, value in RawBSONDocument(data, _RAW).items()}


def _decode_raw(value: Any) -> Any:
    kind = type(value)
    if kind is RawBSONDocument:
        return {name: _decode_raw(inner) for name, inner in value.items()}
    if kind is list:
        return [_decode_raw(inner) for inner in value]
    if kind is Code and value.scope is not None:
        return Code(str(value), _decode_raw(value.scope))
    return value


def normalise(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document as a client would send it: a new BSON document, without the caller's own types.

    Raises:
        MongoError: 2, a value has no BSON form.
    """
    return decode(encode(document))


# -----------------------------------------------------------------------------------------------------------
# From BSON

_SAME: Final[frozenset[type]] = frozenset({str, int, float, bool, type(None), bytes})
_all_same: Final = _SAME.issuperset


def to_native(document: Mapping[str, Any]) -> dict[str, Any]:
    """The stored form of a BSON document. If it has only texts, int32s, doubles, booleans and nulls, it is the same object.

    Raises:
        MongoError: 2, a value has no BSON type.
    """
    if SIGN in "".join(document):
        document = {parse_name(name): value for name, value in document.items()}
    if type(document) is dict and _all_same(map(type, document.values())):
        return document
    same = _SAME
    return {name: value if type(value) in same else native_value(value) for name, value in document.items()}


def is_document(value: Any) -> bool:
    """Whether a value is a document: quicker than the check for a mapping, for most values."""
    kind = type(value)
    return kind is dict or (kind not in _SAME and isinstance(value, Mapping))


def native_value(value: Any) -> Any:
    """The stored form of one value of a BSON document."""
    make = _TO_NATIVE.get(type(value))
    if make is None:
        for kind in type(value).__mro__:
            if kind in _TO_NATIVE:
                return _TO_NATIVE[kind](value)
        raise MongoError(2, f"BSON has no value {describe_type(value)}")
    return make(value)


def _itself(value: Any) -> Any:
    return value


def _native_list(values: Any) -> list[Any]:
    same = _SAME
    if type(values) is list and _all_same(map(type, values)):
        return values
    return [value if type(value) in same else native_value(value) for value in values]


def _native_int64(value: int) -> Any:
    plain = int(value)
    return natives.Int64(plain) if -(2**31) <= plain < 2**31 else plain


def _native_date(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _native_decimal(value: Decimal128) -> Any:
    number = value.to_decimal()
    # A Decimal keeps only the usual bits of a number.
    if number.is_finite() and Decimal128(number).bid == value.bid:
        return number
    return natives.Decimal128(value.bid[::-1])


def _native_binary(value: Binary) -> Any:
    subtype = value.subtype
    if subtype == 0:
        return bytes(value)
    if subtype == 4 and len(value) == 16:
        return UUID(bytes=bytes(value))
    return natives.Binary(bytes(value), subtype)


_OPTION_BITS: Final = dict(zip(natives.REGEX_OPTIONS, (2, 4, 8, 16, 32, 64), strict=True))
# The numbers of Python's flags in `re`, as PyMongo uses them.


def _native_regex(value: Regex[Any]) -> natives.Regex:
    pattern = value.pattern if isinstance(value.pattern, str) else value.pattern.decode()
    flags = int(value.flags)
    return natives.Regex(pattern, "".join(letter for letter, bit in _OPTION_BITS.items() if flags & bit))


def _native_code(value: Code) -> natives.Code:
    return natives.Code(str(value), None if value.scope is None else to_native(value.scope))


def _native_date_ms(value: DatetimeMS) -> Any:
    ms = int(value)
    if natives.MIN_DATE_MS <= ms <= natives.MAX_DATE_MS:
        return EPOCH + timedelta(milliseconds=ms)
    return natives.DateMs(ms)


_TO_NATIVE: Final[dict[type, Callable[[Any], Any]]] = {
    **dict.fromkeys(_SAME, _itself),
    dict: to_native,
    Mapping: to_native,
    list: _native_list,
    tuple: _native_list,
    ObjectId: lambda value: natives.ObjectId(value.binary),
    Int64: _native_int64,
    datetime: _native_date,
    DatetimeMS: _native_date_ms,
    Decimal128: _native_decimal,
    Binary: _native_binary,
    UUID: _itself,
    Timestamp: lambda value: natives.Timestamp(value.time, value.inc),
    Regex: _native_regex,
    MinKey: lambda value: natives.MinKey(),
    MaxKey: lambda value: natives.MaxKey(),
    Code: _native_code,
    DBRef: lambda value: to_native(value.as_doc()),
}


def _write_object_id(value: ObjectId) -> Any:
    return EXTENSION_WRITERS[natives.ObjectId](natives.ObjectId(value.binary))


def _write_date(value: datetime) -> Any:
    """Raises: TypeError, it has a time zone, which may be of a program's own class."""
    if value.tzinfo is not None:
        raise TypeError
    whole_ms = value.microsecond // 1_000 * 1_000
    return EXTENSION_WRITERS[datetime](value.replace(microsecond=whole_ms, tzinfo=UTC, fold=0))


PLAIN_WRITERS: Final[Mapping[type, Callable[[Any], Any]]] = {
    ObjectId: _write_object_id,
    datetime: _write_date,
}
"""Types beside the base types that are written without BSON, with the writer of each extension type."""


# -----------------------------------------------------------------------------------------------------------
# To BSON

_SAME_IN_BSON: Final[frozenset[type]] = frozenset({str, float, bool, type(None), bytes})


def to_bson(document: Mapping[str, Any]) -> dict[str, Any]:
    """The BSON document of a stored document."""
    names = "".join(document)
    if NUL in names or SIGN in names:
        document = {format_name(name): value for name, value in document.items()}
    same = _SAME_IN_BSON
    return {
        name: value
        if (kind := type(value)) in same or (kind is int and -0x80000000 <= value <= 0x7FFFFFFF)
        else value_to_bson(value)
        for name, value in document.items()
    }


def value_to_bson(value: Any) -> Any:
    """The BSON value of a stored value."""
    make = _TO_BSON.get(type(value))
    if make is not None:
        return make(value)
    return text_of(value) if is_registered(type(value)) else str(value)


def _bson_list(values: Any) -> list[Any]:
    same = _SAME_IN_BSON
    return [
        value
        if (kind := type(value)) in same or (kind is int and -0x80000000 <= value <= 0x7FFFFFFF)
        else value_to_bson(value)
        for value in values
    ]


def _bson_int(value: int) -> Any:
    if -0x80000000 <= value <= 0x7FFFFFFF:
        return value
    return Int64(value) if -(2**63) <= value < 2**63 else _bson_decimal(Decimal(value))


_ROUNDING: Final = create_decimal128_context()


def _bson_decimal(value: Decimal) -> Decimal128:
    with decimal.localcontext(_ROUNDING):
        return Decimal128(_ROUNDING.create_decimal(value))


def _bson_date(value: datetime) -> Any:
    return date_of_ms(ms_of_date(value))


def ms_of_date(value: datetime | DatetimeMS) -> int:
    """The milliseconds since 1970-01-01 UTC of a BSON date or a stored date. Microseconds are cut off."""
    if isinstance(value, DatetimeMS):
        return int(value)
    since = value.replace(tzinfo=UTC) - EPOCH if value.tzinfo is None else value - EPOCH
    return since.days * 86_400_000 + since.seconds * 1_000 + since.microseconds // 1_000


_NAIVE_EPOCH: Final = datetime(1970, 1, 1)


def date_of_ms(ms: int) -> Any:
    """The BSON date `ms` milliseconds after 1970-01-01 UTC: a naive datetime, or a DatetimeMS where Python ends."""
    if natives.MIN_DATE_MS <= ms <= natives.MAX_DATE_MS:
        return _NAIVE_EPOCH + timedelta(milliseconds=ms)
    return DatetimeMS(ms)


def is_exact(value: Any) -> bool:
    """Whether BSON represents a stored value exactly, including its inner values. False also if the check would take too long."""
    kind = type(value)
    if kind in _EXACT:
        return True
    if kind is int:
        return bool(-(2**63) <= value < 2**63)
    if kind is datetime:
        return value.microsecond % 1_000 == 0 and not value.utcoffset()
    if kind is dict or kind is FrozenDict:
        return all(map(is_exact, value.values()))
    return (kind is list or kind is FrozenList) and all(map(is_exact, value))


_EXACT: Final[frozenset[type]] = _SAME_IN_BSON | {
    UUID,
    natives.ObjectId,
    natives.Int64,
    natives.Timestamp,
    natives.Regex,
    natives.Binary,
    natives.MinKey,
    natives.MaxKey,
    natives.DateMs,
}

RESPELLING: Final = Respelling(is_exact, lambda value: native_value(value_to_bson(value)))
"""The stored form of a value that a driver sends back as it was shown."""


def _bson_regex(value: natives.Regex) -> Regex[str]:
    return Regex(value.pattern, sum(_OPTION_BITS[letter] for letter in value.options))


_TO_BSON: Final[dict[type, Callable[[Any], Any]]] = {
    **dict.fromkeys(_SAME_IN_BSON, _itself),
    int: _bson_int,
    dict: to_bson,
    list: _bson_list,
    FrozenDict: to_bson,
    FrozenList: _bson_list,
    natives.ObjectId: lambda value: ObjectId(value.data),
    natives.Int64: lambda value: Int64(value.value),
    natives.Decimal128: lambda value: Decimal128.from_bid(value.bits[::-1]),
    natives.Timestamp: lambda value: Timestamp(value.time, value.inc),
    natives.Regex: _bson_regex,
    natives.Binary: lambda value: Binary(value.data, value.subtype),
    natives.MinKey: lambda value: MinKey(),
    natives.MaxKey: lambda value: MaxKey(),
    natives.Code: lambda value: Code(value.text, None if value.scope is None else to_bson(value.scope)),
    natives.DateMs: lambda value: DatetimeMS(value.ms),
    Decimal: _bson_decimal,
    datetime: _bson_date,
    UUID: lambda value: Binary(value.bytes, 4),
    date: date.isoformat,
    time: time.isoformat,
    timedelta: lambda value: float(seconds_of(value)),
    UnknownValue: lambda value: Binary(value.data, 128),
}
