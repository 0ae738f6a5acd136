"""Values for which MessagePack has no type, as extension types of this format.

The numbers and layouts of the core's are part of the file format and never change (all big-endian):

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

    8 to 31                    kept for the core
    32 to 63                   for the dialect `mongodb`
    64 to 71                   the library's own registered types: 64 is a `Blob`
    72 to 95                   kept for dialects to come
    96 to 127                  a program's own

Each value has one spelling: a reader refuses bytes that its writer would not have written. Types from 32 on are
registered by `value_types`, at the import of their module. A process without that import reads such a value as an
`UnknownValue`, which keeps the bytes.

Rule of this file: a new type of the core takes the next number. A number that has been in a file is neither reused
nor rewritten.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from msgpack import ExtType

from reactdb.errors import IncompatibleFormat
from reactdb.values.scalars import (
    EPOCH,
    MAX_DECIMAL_DIGITS,
    MAX_DECIMAL_EXPONENT,
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
from reactdb.values.value import Value

__all__ = [
    "ALLOTTED",
    "EXTENSION_WRITERS",
    "PROGRAMS_OWN",
    "REGISTERED",
    "UnknownValue",
    "add_extension",
    "find_for_base",
    "is_extension",
    "not_registered_error",
    "read_extension",
]

_INT, _DECIMAL, _UUID, _DATE, _TIME, _TIMEDELTA, _DATETIME = range(1, 8)

REGISTERED: Final = range(32, 128)
"""The numbers of types that are registered by `value_types`."""
ALLOTTED: Final = {"mongodb": range(32, 64), "reactdb": range(64, 72)}
"""The numbers that only the types of one dialect, or of the library, have, by its name."""
PROGRAMS_OWN: Final = range(96, 128)
"""The numbers that the types of all others have."""


class UnknownValue(Value):
    """A value of an extension type that is unknown in this process. It is stored again with the same bytes.

    It has no place in the order before its type is registered: to compare it, or to write a document with it as a key
    or in an index, raises `IncompatibleFormat`.

    Attributes:
        code: The number of the type.
        data: The bytes that the type's writer has made.
    """

    __slots__ = ("code", "data")

    def __init__(self, code: int, data: bytes) -> None:
        self.code = code
        self.data = data

    def resolve(self) -> Any:
        """The value itself, if its type has been registered since.

        Raises:
            IncompatibleFormat: It has not.
            ValueError: These bytes are none of its.
        """
        if not is_extension(self.code):
            home = next((name for name, codes in ALLOTTED.items() if self.code in codes), "")
            raise not_registered_error(f"extension type {self.code}", home)
        return read_extension(self.code, self.data)


def not_registered_error(what: str, namespace: str = "") -> IncompatibleFormat:
    """The error about a name or number that a dialect or a program would have registered, or a newer version of the library."""
    if namespace == "reactdb":
        return IncompatibleFormat(f"this version of reactdb does not have {what}")
    home = f"import reactdb.dialects.{namespace}, or what else" if namespace else "import the module that"
    return IncompatibleFormat(f"{what} is not registered in this process: {home} registers it, first")


def find_for_base(table: dict[type, Any], kind: type) -> Any:
    """The table's entry for the nearest base class of a type, itself included; else None."""
    for base in kind.__mro__:
        if base in table:
            return table[base]
    return None


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


def _uuid(value: UUID) -> Any:
    return ExtType(_UUID, value.int.to_bytes(16, "big"))


def _date(value: date) -> Any:
    return ExtType(_DATE, _PACK_DATE(value.toordinal()))


def _unknown(value: UnknownValue) -> Any:
    if value.code not in REGISTERED:
        raise Refused(f"extension type {value.code} is none that a dialect or a program registers")
    if is_extension(value.code):
        try:
            value.resolve()
        except ValueError as error:
            raise Refused(str(error)) from None
    return ExtType(value.code, value.data)


# -----------------------------------------------------------------------------------------------------------
# Reading


def read_extension(code: int, data: bytes) -> Any:
    """The value of an extension type; ValueError if its writer has not written these bytes."""
    try:
        read = _READERS[code]
    except KeyError:
        if code in REGISTERED:
            return UnknownValue(code, bytes(data))
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
    # Larger values would pass arithmetic, and have millions of digits as an int.
    if len(text) > MAX_DECIMAL_DIGITS or abs(value.adjusted()) > MAX_DECIMAL_EXPONENT:
        check_decimal(value)
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


# -----------------------------------------------------------------------------------------------------------
# Which there are

EXTENSION_WRITERS: dict[type, Callable[[Any], Any]] = {UnknownValue: _unknown}
"""What a value of the type, or of a subclass, is to the packer: an extension type, or a plain int if it is small.

They raise `scalars.Refused` for what could not come back equal."""

_READERS: dict[int, Callable[[bytes], Any]] = {}


def add_extension(code: int, kind: type, write: Callable[[Any], Any], read: Callable[[bytes], Any]) -> None:
    EXTENSION_WRITERS[kind] = write
    _READERS[code] = read


def is_extension(code: int) -> bool:
    """Whether this process knows the extension type."""
    return code in _READERS


add_extension(_INT, int, _int, _read_int)
add_extension(_DECIMAL, Decimal, _decimal, _read_decimal)
add_extension(_UUID, UUID, _uuid, _read_uuid)
add_extension(_DATE, date, _date, _read_date)
add_extension(_TIME, time, _time, _read_time)
add_extension(_TIMEDELTA, timedelta, _timedelta, _read_timedelta)
add_extension(_DATETIME, datetime, _datetime, _read_datetime)
