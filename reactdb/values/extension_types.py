"""Values for which MessagePack has no type, as extension types of this format.

Their numbers and layouts are part of the file format and never change (all big-endian):

    ext  value                 layout
    ---  --------------------  ----------------------------------------------------------------------------
    1    int beyond 64 bits    two's complement, as few bytes as hold the sign; at most 1,024
    2    Decimal               its text in ASCII: sign, digits and exponent as given, trailing zeros included
    3    UUID                  16 bytes
    4    date                  u32, days; 0001-01-01 is 1
    5    time                  u64, microseconds since midnight; without a time zone
    6    timedelta             i32 days, u32 seconds, u32 microseconds, normalised as Python does
    7    datetime              i64, microseconds since 1970-01-01 UTC; then, unless it is zero, the offset
                               from UTC as i32 seconds. Comes back with a fixed offset

Each value has one spelling: a reader refuses bytes that its writer would not have written.

Rule of this file: a new type takes the next number. One that has been in a file is neither reused nor
rewritten.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

from msgpack import ExtType

from reactdb.values.scalars import (
    EPOCH,
    MAX_INSTANT,
    MAX_INT_BITS,
    MIN_INSTANT,
    NAIVE_EPOCH,
    Refused,
    check_decimal,
    check_int,
    decimal_text,
    instant_and_offset,
    microseconds_since_midnight,
    time_of_day,
)

__all__ = ["EXTENSION_WRITERS", "read_extension"]

_INT, _DECIMAL, _UUID, _DATE, _TIME, _TIMEDELTA, _DATETIME = range(1, 8)


# -----------------------------------------------------------------------------------------------------------
# Writing


def _int(value: int) -> Any:
    plain = int.__int__(value)
    if -(2**63) <= plain < 2**64:
        return plain
    check_int(plain)
    return ExtType(_INT, _int_bytes(plain))


def _int_bytes(value: int) -> bytes:
    # One bit for the sign; ~value because -2**63 needs no more bits than 2**63 - 1.
    bits = (value if value >= 0 else ~value).bit_length() + 1
    return value.to_bytes((bits + 7) // 8, "big", signed=True)


def _decimal(value: Decimal) -> Any:
    plain = Decimal(value)
    check_decimal(plain)
    return ExtType(_DECIMAL, decimal_text(plain).encode())


def _datetime(value: datetime) -> Any:
    instant, offset_seconds = instant_and_offset(value)
    data = _PACK_ZONED(instant, offset_seconds) if offset_seconds else _PACK_INSTANT(instant)
    return ExtType(_DATETIME, data)


def _time(value: time) -> Any:
    return ExtType(_TIME, _PACK_TIME(microseconds_since_midnight(value)))


def _timedelta(value: timedelta) -> Any:
    if getattr(value, "nanoseconds", 0):
        raise Refused("a timedelta is exact to the microsecond; this one has nanoseconds")
    return ExtType(_TIMEDELTA, _PACK_TIMEDELTA(value.days, value.seconds, value.microseconds))


_PACK_INSTANT = struct.Struct(">q").pack
_PACK_ZONED = struct.Struct(">qi").pack
_PACK_TIME = struct.Struct(">Q").pack
_PACK_DATE = struct.Struct(">I").pack
_PACK_TIMEDELTA = struct.Struct(">iII").pack

# A datetime is also a date, so code that tests with `isinstance` goes through these in this order.
EXTENSION_WRITERS: dict[type, Callable[[Any], Any]] = {
    int: _int,
    datetime: _datetime,
    Decimal: _decimal,
    UUID: lambda value: ExtType(_UUID, value.int.to_bytes(16, "big")),
    date: lambda value: ExtType(_DATE, _PACK_DATE(value.toordinal())),
    time: _time,
    timedelta: _timedelta,
}
"""What a value of the type, or of a subclass, is to the packer: an extension type, or a plain int if it is small.

They raise `scalars.Refused` for what could not come back equal."""


# -----------------------------------------------------------------------------------------------------------
# Reading


def read_extension(code: int, data: bytes) -> Any:
    """The value of an extension type; ValueError if its writer has not written these bytes."""
    try:
        read = _READERS[code]
    except KeyError:
        raise ValueError(f"unknown extension type {code}") from None
    try:
        return read(data)
    except (struct.error, UnicodeDecodeError, ArithmeticError, ValueError) as error:
        raise ValueError(f"extension type {code} with {bytes(data[:40])!r}: {error}") from None


def _read_int(data: bytes) -> int:
    value = int.from_bytes(data, "big", signed=True)
    if -(2**63) <= value < 2**64 or value.bit_length() > MAX_INT_BITS or _int_bytes(value) != data:
        raise ValueError("not the shortest form of a big int")
    return value


def _read_decimal(data: bytes) -> Decimal:
    text = data.decode("ascii")
    value = Decimal(text)
    if not value.is_finite() or decimal_text(value) != text:
        raise ValueError("not a Decimal's own text")
    return value


def _read_uuid(data: bytes) -> UUID:
    return UUID(bytes=data)


def _read_date(data: bytes) -> date:
    (days,) = struct.unpack(">I", data)
    return date.fromordinal(days)


def _read_time(data: bytes) -> time:
    (microseconds,) = struct.unpack(">Q", data)
    return time_of_day(microseconds)


def _read_timedelta(data: bytes) -> timedelta:
    days, seconds, microseconds = struct.unpack(">iII", data)
    if seconds >= 86_400 or microseconds >= 1_000_000:
        raise ValueError("not normalised")
    return timedelta(days, seconds, microseconds)


def _read_datetime(data: bytes) -> datetime:
    if len(data) == 8:
        (instant,) = struct.unpack(">q", data)
        return EPOCH + timedelta(microseconds=instant)
    instant, seconds = struct.unpack(">qi", data)
    if not seconds:
        raise ValueError("an offset of zero is not written")
    if not MIN_INSTANT <= instant <= MAX_INSTANT:
        raise ValueError("outside the years 1 to 9999 in UTC")
    offset = timedelta(seconds=seconds)
    wall = NAIVE_EPOCH + (timedelta(microseconds=instant) + offset)
    return wall.replace(tzinfo=timezone(offset))


_READERS: dict[int, Callable[[bytes], Any]] = {
    _INT: _read_int,
    _DECIMAL: _read_decimal,
    _UUID: _read_uuid,
    _DATE: _read_date,
    _TIME: _read_time,
    _TIMEDELTA: _read_timedelta,
    _DATETIME: _read_datetime,
}
