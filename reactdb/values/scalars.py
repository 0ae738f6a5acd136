"""Scalars: the valid ints, Decimals, dates and times, and the exact integers that represent them.

The format of documents and the format of keys have the same rules for an int, a Decimal and a moment. The limits of
both, and the microseconds that both write, are therefore defined once, here.

Rule of this file: it sees one scalar at a time and knows neither its bytes nor its path. It raises `Refused`; the
caller, knowing the path, turns that into a public error.
"""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Final

__all__ = [
    "EPOCH",
    "EXACT",
    "MAX_DECIMAL_DIGITS",
    "MAX_DECIMAL_EXPONENT",
    "MAX_INSTANT",
    "MAX_INT_BITS",
    "MIN_INSTANT",
    "NAIVE_EPOCH",
    "Refused",
    "check_decimal",
    "check_int",
    "decimal_text",
    "instant_and_offset",
    "microseconds_of",
    "microseconds_since_midnight",
    "seconds_of",
    "time_of_day",
]

MAX_INT_BITS: Final = 8_191
"""1,024 bytes with the sign. That is 2,466 digits; Python prints up to 4,300."""

MAX_DECIMAL_DIGITS: Final = 4_096
MAX_DECIMAL_EXPONENT: Final = 2_000_000
"""Twice what Python's default context can compute with: any result of decimal arithmetic may be stored."""


class Refused(ValueError):
    """Why a value cannot be stored. The code that knows its path turns this into a public error."""


# -----------------------------------------------------------------------------------------------------------
# Numbers


def check_int(value: int) -> None:
    if value.bit_length() > MAX_INT_BITS:
        raise Refused(f"an int of {value.bit_length():,} bits; the limit is {MAX_INT_BITS:,}")


# Not str(): whether that writes E or e is up to the context of the thread.
decimal_text = Context(capitals=1).to_sci_string


EXACT: Final = Context(prec=40)
"""For arithmetic with microseconds, which have at most 20 digits: the context of the thread may round to fewer."""


def check_decimal(value: Decimal) -> None:
    _sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise Refused(f"a Decimal is a finite number; {value!s:.20} is not")
    if len(digits) > MAX_DECIMAL_DIGITS:
        raise Refused(f"a Decimal of {len(digits):,} digits; the limit is {MAX_DECIMAL_DIGITS:,}")
    if abs(exponent) > MAX_DECIMAL_EXPONENT:
        raise Refused(f"a Decimal with exponent {exponent:,}; the limit is ±{MAX_DECIMAL_EXPONENT:,}")


# -----------------------------------------------------------------------------------------------------------
# Dates and times


def microseconds_of(duration: timedelta) -> int:
    return (duration.days * 86_400 + duration.seconds) * 1_000_000 + duration.microseconds


def seconds_of(duration: timedelta) -> Decimal:
    """The seconds, exactly, without zeros at the end."""
    return Decimal(microseconds_of(duration)).scaleb(-6, EXACT).normalize(EXACT)


NAIVE_EPOCH: Final = datetime(1970, 1, 1)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MIN_INSTANT: Final = microseconds_of(datetime.min - NAIVE_EPOCH)
MAX_INSTANT: Final = microseconds_of(datetime.max - NAIVE_EPOCH)
"""The years 1 to 9999 in UTC, which is how far Python's datetime goes."""


def instant_and_offset(value: datetime) -> tuple[int, int]:
    """Microseconds since 1970-01-01 UTC, and the offset in seconds; `Refused` if there is no such thing."""
    if value.tzinfo is UTC and type(value) is datetime:  # the common case, and the only case after decoding
        return microseconds_of(value - EPOCH), 0
    if getattr(value, "nanosecond", 0):
        raise Refused("a datetime is exact to the microsecond; this one has nanoseconds")
    try:
        offset = value.utcoffset()
    except Exception as error:  # the caller's own tzinfo
        raise Refused(f"the datetime's time zone failed: {error!r}") from None
    if not isinstance(offset, timedelta):
        raise Refused("a datetime without a time zone names no moment; set tzinfo, e.g. timezone.utc")
    if offset.microseconds:
        raise Refused("a datetime's offset from UTC is whole seconds")
    # Not `value - EPOCH`: that calls the time zone a second time, at the cost of all the rest.
    instant = microseconds_of(value.replace(tzinfo=None) - NAIVE_EPOCH - offset)
    if not MIN_INSTANT <= instant <= MAX_INSTANT:
        raise Refused("the datetime is outside the years 1 to 9999 in UTC")
    return instant, offset.days * 86_400 + offset.seconds


def microseconds_since_midnight(value: time) -> int:
    if value.tzinfo is not None:
        raise Refused("a time of day has no time zone here, since its offset may depend on the date")
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def time_of_day(microseconds: int) -> time:
    """The time `microseconds` after midnight; ValueError beyond the day."""
    seconds, microsecond = divmod(microseconds, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return time(hour, minute, second, microsecond)
