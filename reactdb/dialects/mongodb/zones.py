"""Time zones and calendars: the parts of a date in a zone, and the date of such parts.

A zone is a name of the Olson database (`Europe/Berlin`), `UTC`, `GMT` or `Z`, or an offset (`+02:00`, `+0200`, `+02`).

Rule of this file: local times are `datetime`s without a zone, in the proleptic Gregorian calendar.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

from reactdb.dialects.mongodb.bson_order import is_text
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.times import EPOCH

__all__ = ["MILLISECOND", "Zone", "days_of", "local_milliseconds", "zone_of"]

MILLISECOND: Final = timedelta(milliseconds=1)
_OFFSET: Final = re.compile(r"([+-])(\d\d)(?::?(\d\d))?\Z", re.ASCII)


class Zone:
    """A time zone: from UTC to the local time, and back."""

    def __init__(
        self,
        name: str,
        find_offset: Callable[[datetime], timedelta],
        find_back: Callable[[datetime], timedelta],
    ) -> None:
        self.name = name
        self._find_offset = find_offset
        self._find_back = find_back

    def offset(self, utc: datetime) -> timedelta:
        """The offset of the local time at a time of UTC."""
        return self._find_offset(utc)

    def local(self, utc: datetime) -> datetime:
        """The local time at a time of UTC."""
        try:
            return utc + self._find_offset(utc)
        except OverflowError:
            raise MongoError(2, f"{utc} in {self.name} is outside of the years 1 to 9999") from None

    def utc_milliseconds(self, local: int) -> int:
        """UTC at a local time, both in milliseconds since 1970. Where the clock was put back, the first time of the two."""
        try:
            offset = self._find_back(EPOCH + local * MILLISECOND)
        except OverflowError:
            offset = self._find_back(EPOCH)
        return local - offset // MILLISECOND


@lru_cache(maxsize=256)
def _named_zone(name: str) -> Zone:
    if name in {"UTC", "GMT"}:
        return _fixed_zone(name, timedelta())
    match = _OFFSET.match(name)
    if match:
        sign, hours, minutes = match.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
        return _fixed_zone(name, -offset if sign == "-" else offset)
    try:
        zone = ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise MongoError(40485, f'unrecognized time zone identifier: "{name}"') from None

    def offset_at(utc: datetime) -> timedelta:
        return utc.replace(tzinfo=UTC).astimezone(zone).utcoffset() or timedelta()

    def offset_of_local(local: datetime) -> timedelta:
        return local.replace(tzinfo=zone).utcoffset() or timedelta()

    return Zone(name, offset_at, offset_of_local)


def _fixed_zone(name: str, offset: timedelta) -> Zone:
    return Zone(name, lambda _time: offset, lambda _time: offset)


def zone_of(value: Any) -> Zone:
    """The zone of a name.

    Raises:
        MongoError: It is no text (40517), or no zone has this name (40485).
    """
    if not is_text(value):
        raise MongoError(40517, "a time zone is a text, such as 'Europe/Berlin' or '+02:00'")
    return _named_zone(value)


def days_of(year: int, month: int, day: int) -> int:
    """Days since 1970 of a date. Its month and day may be out of bounds: they carry over."""
    year += (month - 1) // 12
    month = (month - 1) % 12 + 1
    # Counted from 1 March, so that the leap day is the last day of its year; in eras of 400 years.
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5
    return (
        era * 146_097
        + year_of_era * 365
        + year_of_era // 4
        - year_of_era // 100
        + day_of_year
        - 719_468
        + day
        - 1
    )


def local_milliseconds(days: int, hour: int, minute: int, second: int, millisecond: int) -> int:
    """Milliseconds since 1970 of days since 1970 and a time of the day."""
    return (((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000 + millisecond
