"""The bytes of a key: values written so that memcmp sorts them, and read back.

The bytes are one tag and its contents:

    tag   type            then
    ----  --------------  ------------------------------------------------------------------------------------
    01    MINVAL
    10    ARRAY           the elements' bytes, 00. No tag is 00, so the shorter array comes first
    20    BOOL            false; true is 21
    28    NULL
    30    NUMBER          the nearest double, 8 bytes made to sort; 80 if that is exact, else the rest (below)
    40    OBJECT          name and value of each field by name, each name as STRING; 00
    50    BINARY          as STRING
    58    DATE            u32, days; 0001-01-01 is 1
    60    DURATION        u32 days + 2**31, u32 seconds, u32 microseconds
    68    LOCALTIME       u64, microseconds since midnight
    70    TIME            u64, microseconds since 1970-01-01 UTC, + 2**63: the moment, whatever the offset
    78    UUID            16 bytes
    80    a registered    as STRING, its bytes in a document; where those do not sort as the values do, before them bytes that do,
          type            each 00 in them as 00 FF, 00 02. 80 is extension type 32; the last, DF, is 127
    F0    STRING          the UTF-8, each 00 in it as 00 FF; 00 01
    FE    MAXVAL

int, float and Decimal are one NUMBER and compare by value to the last digit: 0 = 0.0 = -0.0, and 2**53 + 1 lies
between the doubles around it. The rest beyond the nearest double follows in decimal: 40 if it is negative or C0 if it
is positive; the exponent of its first digit as u32 + 2**31; its digits without trailing zeros, two to a byte (BCD)
plus one; 00. All after 40 has its bits inverted. Finite numbers beyond the doubles are written as the largest double
(those within the smallest as zero), with the number itself as the rest: so they come before the real infinity. NaN,
which ReQL lacks, comes last among the numbers.

Rule of this file: the order is the format. Bytes that are in a file are never written another way, or its
indexes would no longer be sorted.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, Inexact, InvalidOperation
from math import isinf, nan
from typing import Any, Final
from uuid import UUID

from reactdb.budget import current, spend_bytes
from reactdb.errors import CorruptDatabase, IncompatibleFormat, InvalidKey
from reactdb.values.bounds import Bound, maxval, minval
from reactdb.values.codec import MAX_DEPTH
from reactdb.values.extension_types import REGISTERED, UnknownValue, find_for_base, read_extension
from reactdb.values.frozen import FrozenDict, FrozenList
from reactdb.values.scalars import (
    EPOCH,
    MAX_DECIMAL_DIGITS,
    MAX_DECIMAL_EXPONENT,
    MAX_INT_BITS,
    Refused,
    check_decimal,
    check_int,
    instant_and_offset,
    microseconds_since_midnight,
    time_of_day,
)

__all__ = ["ENCODERS", "REGISTERED_TAGS", "key_bytes", "key_value", "many_key_bytes", "registered_key"]


# -----------------------------------------------------------------------------------------------------------
# Values to bytes

_MINVAL: Final = b"\x01"
_ARRAY: Final = b"\x10"
_FALSE: Final = b"\x20"
_TRUE: Final = b"\x21"
_NULL: Final = b"\x28"
_NUMBER: Final = b"\x30"
_OBJECT: Final = b"\x40"
_BINARY: Final = b"\x50"
_DATE: Final = b"\x58"
_DURATION: Final = b"\x60"
_LOCALTIME: Final = b"\x68"
_TIME: Final = b"\x70"
_UUID: Final = b"\x78"
_STRING: Final = b"\xf0"
_MAXVAL: Final = b"\xfe"

_CONTAINER_END: Final = b"\x00"
_TEXT_END: Final = b"\x00\x01"
_ORDER_END: Final = b"\x00\x02"

REGISTERED_TAGS: Final = range(0x80, 0x80 + len(REGISTERED))
_FROM_CODE_TO_TAG: Final = REGISTERED_TAGS[0] - REGISTERED[0]

# A double's bits already sort, once the sign bit is turned for the positive and every bit for the negative.
# The negative of a positive double is just that, so `pack` alone makes the bytes: 0.25 µs instead of 0.45.
_pack_positive: Callable[[bytes, float, bytes], bytes] = struct.Struct(">cdc").pack
_pack_double = struct.Struct(">d").pack
_unpack_double = struct.Struct(">d").unpack
_INVERT: Final = bytes(255 - byte for byte in range(256))

_EXACT: Final = b"\x80"
_LESS: Final = b"\x40"
_MORE: Final = b"\xc0"

_ZERO: Final = _NUMBER + b"\x80" + bytes(7) + _EXACT
_NAN: Final = _NUMBER + b"\xff" * 8 + _EXACT
_MAX_EXACT_INT: Final = 2**53
_LARGEST: Final = sys.float_info.max
_LARGEST_DECIMAL: Final = Decimal.from_float(_LARGEST)
# The least double above zero begins at 10**-324 and ends at 10**-1074, and a Decimal has so many digits.
_LEAST_EXPONENT_OF_REST: Final = -1_100 - MAX_DECIMAL_DIGITS


def key_bytes(value: Any) -> bytes:
    """The bytes that sort as the value does; `minval` and `maxval` count as values, also inside arrays.

    Raises:
        InvalidKey: It is not a value that a document could hold.
    """
    kind = type(value)
    if kind is str:
        try:
            text: bytes = value.encode()
        except UnicodeEncodeError:
            raise InvalidKey("the text has a lone surrogate; UTF-8 has none") from None
        if 0 in text:
            text = text.replace(b"\x00", b"\x00\xff")
        return _STRING + text + _TEXT_END
    if (kind is int and -_MAX_EXACT_INT <= value <= _MAX_EXACT_INT) or kind is float:
        if value > 0:
            return _pack_positive(_NUMBER, -value, _EXACT)
        if value < 0:
            return _NUMBER + _pack_double(value).translate(_INVERT) + _EXACT
        return _ZERO if value == 0 else _NAN
    try:
        return _encode(value, MAX_DEPTH)
    except Refused as refused:
        raise InvalidKey(str(refused)) from None
    except (InvalidKey, IncompatibleFormat, RecursionError):
        raise
    except Exception as error:  # a method of the caller's class, or another thread's change
        raise InvalidKey(f"a value of type {kind.__qualname__} failed: {type(error).__name__}") from error


def many_key_bytes(values: list[Any]) -> list[bytes]:
    """`key_bytes` of each: in half the time where all are strings, or all are integers."""
    kinds = set(map(type, values))
    if kinds == {str} and "\x00" not in "".join(values):
        try:
            return [_STRING + text.encode() + _TEXT_END for text in values]
        except UnicodeEncodeError:
            pass
    elif kinds == {int} and min(values) >= 0 and max(values) <= _MAX_EXACT_INT:
        pack = _pack_positive
        return [pack(_NUMBER, -number, _EXACT) if number else _ZERO for number in values]
    return list(map(key_bytes, values))


def _encode(value: Any, depth: int) -> bytes:
    kind = type(value)
    if kind is str or kind is float:
        return key_bytes(value)
    encode = ENCODERS.get(kind)
    if encode is None:
        encode = find_for_base(ENCODERS, kind)
        if encode is None:
            raise InvalidKey(
                f"a value of type {kind.__module__}.{kind.__qualname__} has no place in the order"
            )
    if encode is _encode_array or encode is _encode_object:
        if depth == 0:
            raise InvalidKey(f"nested more than {MAX_DEPTH} levels deep, or inside itself")
        return encode(value, depth - 1)
    return encode(value, depth)


def _encode_array(value: Any, depth: int) -> bytes:
    budget = current.get()
    if budget is not None:
        budget.spend(len(value))
    return _ARRAY + b"".join([_encode(inner, depth) for inner in value]) + _CONTAINER_END


def _encode_object(value: Any, depth: int) -> bytes:
    budget = current.get()
    if budget is not None:
        budget.spend(len(value))
    parts = [_OBJECT]
    try:
        names = sorted(value)  # by code point, which is the order of their UTF-8
    except TypeError:
        raise InvalidKey("an object's names are str") from None
    for name in names:
        if not isinstance(name, str):
            raise InvalidKey("an object's names are str")
        parts.append(key_bytes(str.__str__(name)))
        parts.append(_encode(value[name], depth))
    parts.append(_CONTAINER_END)
    return b"".join(parts)


def _encode_int(value: int, depth: int) -> bytes:
    value = int.__int__(value)
    if -_MAX_EXACT_INT <= value <= _MAX_EXACT_INT:
        return key_bytes(value)
    check_int(value)
    try:
        nearest = float(value)
    except OverflowError:
        return key_bytes(_LARGEST if value > 0 else -_LARGEST)[:-1] + _rest_bytes(Decimal(value))
    rest = value - int(nearest)
    return key_bytes(nearest) if not rest else key_bytes(nearest)[:-1] + _rest_bytes(Decimal(rest))


def _encode_decimal(value: Decimal, depth: int) -> bytes:
    value = Decimal(value)
    check_decimal(value)
    if not value:
        return _ZERO
    nearest = float(value)
    if nearest == 0 or isinf(nearest):
        # A difference would have millions of digits; and next to the number, the double does not count.
        return key_bytes(max(-_LARGEST, min(nearest, _LARGEST)))[:-1] + _rest_bytes(value)
    rest = _EXACT_ARITHMETIC.subtract(value, Decimal.from_float(nearest))
    return key_bytes(nearest) if not rest else key_bytes(nearest)[:-1] + _rest_bytes(rest)


# Between a number and its nearest double: both have a bounded number of digits, and where the double is
# neither zero nor infinite their exponents are near each other, so nothing here grows beyond some ten
# thousand digits. The caller's own context, which may round or trap anything, has no part in it.
_EXACT_ARITHMETIC: Final = Context(
    prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[Inexact, InvalidOperation]
)


def _rest_bytes(rest: Decimal) -> bytes:
    digits, exponent = f"{rest.copy_abs():E}".split("E")
    digits = digits.replace(".", "").rstrip("0")
    pairs = bytes.fromhex(digits + "0" * (len(digits) % 2)).translate(_ONE_MORE)
    magnitude = struct.pack(">I", int(exponent) + 2**31) + pairs + b"\x00"
    return _LESS + magnitude.translate(_INVERT) if rest.is_signed() else _MORE + magnitude


_ONE_MORE: Final = bytes((byte + 1) % 256 for byte in range(256))
_ONE_LESS: Final = bytes((byte - 1) % 256 for byte in range(256))


def _encode_bytes(value: Any, depth: int) -> bytes:
    spend_bytes(len(value))
    return _BINARY + bytes(memoryview(value)).replace(b"\x00", b"\x00\xff") + _TEXT_END


def _encode_date(value: date, depth: int) -> bytes:
    return _DATE + struct.pack(">I", value.toordinal())


def _encode_duration(value: timedelta, depth: int) -> bytes:
    return _DURATION + struct.pack(">III", value.days + 2**31, value.seconds, value.microseconds)


def _encode_local_time(value: time, depth: int) -> bytes:
    return _LOCALTIME + struct.pack(">Q", microseconds_since_midnight(value))


def _encode_time(value: datetime, depth: int) -> bytes:
    instant, _offset_seconds = instant_and_offset(value)
    return _TIME + struct.pack(">Q", instant + 2**63)


def _encode_bound(value: Bound, depth: int) -> bytes:
    return _MINVAL if value is minval else _MAXVAL


def _encode_unknown(value: UnknownValue, depth: int) -> bytes:
    return _encode(value.resolve(), depth)


def registered_key(code: int, data: bytes, order: bytes | None) -> bytes:
    """The bytes of a value of a registered type: `data` is its form in documents, `order` the sorting bytes if they
    differ."""
    tag = bytes((code + _FROM_CODE_TO_TAG,))
    if order is not None:
        tag += order.replace(b"\x00", b"\x00\xff") + _ORDER_END
    return tag + data.replace(b"\x00", b"\x00\xff") + _TEXT_END


# By type; a subclass is encoded as the nearest of its base classes.
ENCODERS: dict[type, Callable[[Any, int], bytes]] = {
    bool: lambda value, depth: _TRUE if value else _FALSE,
    type(None): lambda value, depth: _NULL,
    int: _encode_int,
    str: lambda value, depth: key_bytes(str.__str__(value)),
    float: lambda value, depth: key_bytes(float.__float__(value)),
    list: _encode_array,
    tuple: _encode_array,
    dict: _encode_object,
    FrozenList: _encode_array,
    FrozenDict: _encode_object,
    datetime: _encode_time,
    Decimal: _encode_decimal,
    bytes: _encode_bytes,
    bytearray: _encode_bytes,
    memoryview: _encode_bytes,
    UUID: lambda value, depth: _UUID + value.int.to_bytes(16, "big"),
    date: _encode_date,
    time: _encode_local_time,
    timedelta: _encode_duration,
    Bound: _encode_bound,
    UnknownValue: _encode_unknown,
}


# -----------------------------------------------------------------------------------------------------------
# Bytes to values


def key_value(data: bytes) -> Any:
    """The value of these `key_bytes`, in the plainest exact form.

    A number is an int if it is integral and one that a document could hold, else a float, else a Decimal that a
    document could hold; a time is in UTC.

    Raises:
        CorruptDatabase: These are not a key's bytes.
    """
    try:
        value, end = _read(data, 0)
    except (IndexError, ValueError, ArithmeticError, struct.error, RecursionError) as error:
        raise CorruptDatabase(f"these bytes are not a key: {error!s:.200}") from error
    if end != len(data):
        raise CorruptDatabase("there are bytes behind the end of the key")
    return value


def _read(data: bytes, at: int) -> tuple[Any, int]:
    """The value that begins at `at`, and where it ends."""
    tag = data[at : at + 1]
    read = _READERS.get(tag)
    if read is None:
        raise ValueError(f"unknown tag {tag!r} at byte {at}")
    return read(data, at + 1)


def _read_text(data: bytes, at: int) -> tuple[bytes, int]:
    # Each 00 is followed by FF inside the text and by 01 at its end, so the first 00 01 is the end.
    end = data.index(_TEXT_END, at)
    return data[at:end].replace(b"\x00\xff", b"\x00"), end + 2


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    text, end = _read_text(data, at)
    return text.decode(), end


def _read_array(data: bytes, at: int) -> tuple[list[Any], int]:
    array = []
    while data[at]:
        value, at = _read(data, at)
        array.append(value)
    return array, at + 1


def _read_object(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    fields: dict[str, Any] = {}
    while data[at]:
        if data[at] != _STRING[0]:
            raise ValueError(f"an object's name is no string at byte {at}")
        name, at = _read_string(data, at + 1)
        fields[name], at = _read(data, at)
    return fields, at + 1


def _read_number(data: bytes, at: int) -> tuple[int | float | Decimal, int]:
    bits = data[at : at + 8]
    if bits == _NAN[1:9]:
        nearest = nan
    elif bits[0] & 0x80:
        nearest = -_unpack_double(bits)[0]
    else:
        nearest = _unpack_double(bits.translate(_INVERT))[0]
    marker = data[at + 8 : at + 9]
    at += 9
    if marker == _EXACT:
        return (int(nearest) if nearest.is_integer() else nearest), at
    rest, at = _read_rest(data, marker, at)
    is_itself = nearest == 0 or rest.copy_abs() > _LARGEST_DECIMAL
    if not is_itself and int(rest.as_tuple().exponent) < _LEAST_EXPONENT_OF_REST:
        # The sum would have as many digits as lie between the two.
        raise ValueError("the rest of a number is too small for it")
    exact = rest if is_itself else _EXACT_ARITHMETIC.add(Decimal.from_float(nearest), rest)
    # 2,466 digits may already be more than the limit on ints; far more must not be made to find out.
    if exact.adjusted() < 2_470 and exact == (whole := int(exact)) and whole.bit_length() <= MAX_INT_BITS:
        return whole, at
    return _as_documents_hold_it(exact), at


def _as_documents_hold_it(number: Decimal) -> Decimal:
    """The same number with as many zeros at its end as the limit on exponents needs.

    The bytes have no trailing zeros, because equal numbers have equal bytes. So `10E+2000000`, which a document may
    hold, is read as `1E+2000001`, which no document may hold, and gets its zero back here.
    """
    sign, digits, exponent = number.as_tuple()
    zeros = int(exponent) - MAX_DECIMAL_EXPONENT
    # Damaged bytes may ask for a billion zeros, so the number of digits is looked at first.
    if 0 < zeros <= MAX_DECIMAL_DIGITS - len(digits):
        return Decimal((sign, digits + (0,) * zeros, MAX_DECIMAL_EXPONENT))
    check_decimal(number)
    return number


def _read_rest(data: bytes, marker: bytes, at: int) -> tuple[Decimal, int]:
    if marker == _LESS:
        end = data.index(b"\xff", at + 4)
        magnitude = data[at:end].translate(_INVERT)
    elif marker == _MORE:
        end = data.index(b"\x00", at + 4)
        magnitude = data[at:end]
    else:
        raise ValueError(f"unknown marker {marker!r} of a number")
    adjusted = struct.unpack(">I", magnitude[:4])[0] - 2**31
    digits = magnitude[4:].translate(_ONE_LESS).hex().rstrip("0")
    sign = "-" if marker == _LESS else ""
    return Decimal(f"{sign}{digits}E{adjusted - len(digits) + 1}"), end + 1


def _read_time(data: bytes, at: int) -> tuple[datetime, int]:
    (instant,) = struct.unpack_from(">Q", data, at)
    return EPOCH + timedelta(microseconds=instant - 2**63), at + 8


def _read_date(data: bytes, at: int) -> tuple[date, int]:
    (days,) = struct.unpack_from(">I", data, at)
    return date.fromordinal(days), at + 4


def _read_duration(data: bytes, at: int) -> tuple[timedelta, int]:
    days, seconds, microseconds = struct.unpack_from(">III", data, at)
    return timedelta(days - 2**31, seconds, microseconds), at + 12


def _read_local_time(data: bytes, at: int) -> tuple[time, int]:
    (microseconds,) = struct.unpack_from(">Q", data, at)
    return time_of_day(microseconds), at + 8


def _read_uuid(data: bytes, at: int) -> tuple[UUID, int]:
    return UUID(bytes=data[at : at + 16]), at + 16


def _read_registered(data: bytes, at: int) -> tuple[Any, int]:
    code, text_end = data[at - 1] - _FROM_CODE_TO_TAG, data.index(_TEXT_END, at)
    # Not beyond the end: each of many values would look through all the others.
    order_end = data.find(_ORDER_END, at, text_end)
    if order_end >= 0:
        at = order_end + 2
    text, end = _read_text(data, at)
    return read_extension(code, text), end


_READERS: dict[bytes, Callable[[bytes, int], tuple[Any, int]]] = {
    _MINVAL: lambda data, at: (minval, at),
    _ARRAY: _read_array,
    _FALSE: lambda data, at: (False, at),
    _TRUE: lambda data, at: (True, at),
    _NULL: lambda data, at: (None, at),
    _NUMBER: _read_number,
    _OBJECT: _read_object,
    _BINARY: _read_text,
    _DATE: _read_date,
    _DURATION: _read_duration,
    _LOCALTIME: _read_local_time,
    _TIME: _read_time,
    _UUID: _read_uuid,
    _STRING: _read_string,
    _MAXVAL: lambda data, at: (maxval, at),
    **{bytes((tag,)): _read_registered for tag in REGISTERED_TAGS},
}
