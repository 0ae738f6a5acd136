"""Dates of BSON: milliseconds since 1970, as `datetime` without a zone, or as `DatetimeMS` beyond Python's years.

Timestamps and ObjectIds contain a time too, and are accepted as dates.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from bson.datetime_ms import DatetimeMS
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from reactdb.clock import now as read_clock
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.numeric import INT64_MAX, INT64_MIN
from reactdb.dialects.mongodb.values import date_of_ms, ms_of_date

__all__ = ["EPOCH", "from_milliseconds", "has_time", "is_date", "now", "time_of"]

EPOCH: Final = datetime(1970, 1, 1)


def now() -> datetime:
    """The time, as a BSON date has it: in whole milliseconds."""
    time = read_clock().replace(tzinfo=None)
    return time.replace(microsecond=time.microsecond // 1_000 * 1_000)


def is_date(value: Any) -> bool:
    """Whether a value is BSON's date."""
    return isinstance(value, datetime | DatetimeMS)


def has_time(value: Any) -> bool:
    """Whether a value is accepted as a date."""
    return isinstance(value, datetime | DatetimeMS | ObjectId | Timestamp)


def from_milliseconds(value: int) -> datetime | DatetimeMS:
    """The date `value` milliseconds after 1970.

    Raises:
        MongoError: They do not fit into 64 bits (15).
    """
    if not INT64_MIN <= value <= INT64_MAX:
        raise MongoError(15, "a date has at most 64 bits of milliseconds")
    return date_of_ms(value)  # type: ignore[no-any-return]


def time_of(value: Any) -> int:
    """The milliseconds since 1970 of a date, a timestamp or an ObjectId."""
    if isinstance(value, Timestamp):
        return value.time * 1_000
    if isinstance(value, ObjectId):
        # The four bytes of seconds have a sign, as MongoDB reads them.
        return int.from_bytes(value.binary[:4], "big", signed=True) * 1_000
    return ms_of_date(value)
