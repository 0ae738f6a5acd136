"""Operators on dates: their parts, dates of parts, of texts and as texts, sums, differences and truncated dates.

A date, a timestamp or an ObjectId counts as a date. Null or nothing as an argument makes the result null.

Rule of this file: calendars are worked out in local time, and zones are looked up by `zones`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from bson.datetime_ms import DatetimeMS
from bson.int64 import Int64

from reactdb.dialects.mongodb.bson_order import is_text, type_name
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions.compile import (
    Evaluate,
    NamedArguments,
    Scope,
    arguments,
    check_named_parts,
    compile_value,
    is_nullish,
    syntax,
)
from reactdb.dialects.mongodb.numeric import INT64_MIN, integer, whole
from reactdb.dialects.mongodb.times import EPOCH, from_milliseconds, has_time, time_of
from reactdb.dialects.mongodb.values import ms_of_date
from reactdb.dialects.mongodb.zones import MILLISECOND, Zone, days_of, local_milliseconds, zone_of

__all__ = ["UNIT_MS", "date_text", "is_unit", "move_date", "parse_date"]

Variables = dict[str, Any]
_UTC: Final = zone_of("UTC")


def _utc(value: Any, code: int = 2) -> datetime:
    """A date as a `datetime`, for computing with it."""
    if not has_time(value):
        raise MongoError(16006, f"can't convert from BSON type {type_name(value)} to Date")
    date = from_milliseconds(time_of(value))
    if isinstance(date, DatetimeMS):
        raise MongoError(code, "this operator supports only dates of the years 1 to 9999")
    return date


# The calendar repeats itself after 400 years.
_ERA_MS: Final = 146_097 * 86_400_000


def _local(value: Any, zone: Zone) -> tuple[datetime, int]:
    """The local time of a date, and the number of years to add to it."""
    if not has_time(value):
        raise MongoError(16006, f"can't convert from BSON type {type_name(value)} to Date")
    time = time_of(value)
    eras = 0 if abs(time) < 5 * _ERA_MS - 366 * 86_400_000 and time > -4 * _ERA_MS else time // _ERA_MS
    return zone.local(EPOCH + (time - eras * _ERA_MS) * MILLISECOND), eras * 400


# --- Parts ---

_PARTS: Final[dict[str, Callable[[datetime], int]]] = {
    "$year": lambda time: time.year,
    "$month": lambda time: time.month,
    "$dayOfMonth": lambda time: time.day,
    "$dayOfYear": lambda time: time.timetuple().tm_yday,
    "$dayOfWeek": lambda time: time.isoweekday() % 7 + 1,
    "$hour": lambda time: time.hour,
    "$minute": lambda time: time.minute,
    "$second": lambda time: time.second,
    "$millisecond": lambda time: time.microsecond // 1000,
    "$week": lambda time: _week_of_year(time),
    "$isoDayOfWeek": lambda time: time.isoweekday(),
    "$isoWeek": lambda time: time.isocalendar().week,
    "$isoWeekYear": lambda time: time.isocalendar().year,
}


def _week_of_year(time: datetime) -> int:
    """The week, counted from the first Sunday; the days before it are in week 0."""
    return (time.timetuple().tm_yday + 6 - time.isoweekday() % 7) // 7


def _is_named(spec: Any) -> bool:
    # An object is the form with names, if it is not an expression.
    return isinstance(spec, Mapping) and not any(name.startswith("$") for name in spec)


def _date_and_zone(name: str, spec: Any, scope: Scope) -> tuple[Evaluate, Evaluate | None]:
    if _is_named(spec):
        for given in spec:
            if given not in {"date", "timezone"}:
                raise MongoError(40535, f"{name} has no argument '{given}'")
        if "date" not in spec:
            raise MongoError(40539, f"{name} needs the argument 'date'")
        zone = compile_value(spec["timezone"], scope) if "timezone" in spec else None
        return compile_value(spec["date"], scope), zone
    if isinstance(spec, list | tuple):
        if len(spec) != 1:
            raise MongoError(40536, f"{name} takes one argument, not {len(spec)}")
        spec = spec[0]
    return compile_value(spec, scope), None


def _part(name: str, read: Callable[[datetime], int]) -> None:
    @syntax(name)
    def compiler(spec: Any, scope: Scope) -> Evaluate:
        date, zone = _date_and_zone(name, spec, scope)

        def evaluate(document: Any, variables: Variables) -> Any:
            value = date(document, variables)
            place = _UTC
            if zone is not None:
                zone_name = zone(document, variables)
                if is_nullish(zone_name):
                    return None
                place = zone_of(zone_name)
            if is_nullish(value):
                return None
            local, years = _local(value, place)
            if name == "$isoWeekYear":
                return Int64(read(local) + years)
            return read(local) + years if name == "$year" else read(local)

        return evaluate


for _name, _read in _PARTS.items():
    _part(_name, _read)


def _zone_in(parts: Mapping[str, Evaluate], document: Any, variables: Variables) -> Zone | None:
    """The zone of an argument: UTC if it is missing, None if it is null."""
    if "timezone" not in parts:
        return _UTC
    value = parts["timezone"](document, variables)
    return None if is_nullish(value) else zone_of(value)


def _compile_parts(name: str, spec: Any, names: NamedArguments, scope: Scope) -> dict[str, Evaluate]:
    return {key: compile_value(value, scope) for key, value in check_named_parts(name, spec, names).items()}


_TO_PARTS = NamedArguments(40524, 40520, {"date": 40522}, ("timezone", "iso8601"))


@syntax("$dateToParts")
def _date_to_parts(spec: Any, scope: Scope) -> Evaluate:
    parts = _compile_parts("$dateToParts", spec, _TO_PARTS, scope)

    def evaluate(document: Any, variables: Variables) -> Any:
        value = parts["date"](document, variables)
        zone = _zone_in(parts, document, variables)
        iso = parts["iso8601"](document, variables) if "iso8601" in parts else False
        if is_nullish(value) or zone is None or is_nullish(iso):
            return None
        if not isinstance(iso, bool):
            raise MongoError(40521, f"$dateToParts takes a bool as iso8601, not {type_name(iso)}")
        time, years = _local(value, zone)
        if iso:
            year, week, day = time.isocalendar()
            fields = {"isoWeekYear": year + years, "isoWeek": week, "isoDayOfWeek": day}
        else:
            fields = {"year": time.year + years, "month": time.month, "day": time.day}
        fields |= {
            "hour": time.hour,
            "minute": time.minute,
            "second": time.second,
            "millisecond": time.microsecond // 1000,
        }
        return fields

    return evaluate


# --- Dates of parts ---

_CALENDAR = ("year", "month", "day")
_ISO = ("isoWeekYear", "isoWeek", "isoDayOfWeek")
_CLOCK = ("hour", "minute", "second", "millisecond")
_FROM_PARTS = NamedArguments(40519, 40518, {}, (*_CALENDAR, *_ISO, *_CLOCK, "timezone"))


@syntax("$dateFromParts")
def _date_from_parts(spec: Any, scope: Scope) -> Evaluate:
    parts = _compile_parts("$dateFromParts", spec, _FROM_PARTS, scope)
    is_iso = "isoWeekYear" in parts
    if any(name in parts for name in _CALENDAR) and any(name in parts for name in _ISO):
        code = 40489 if is_iso or "year" in parts else 40525
        raise MongoError(
            code, "$dateFromParts takes parts of the calendar, or of the ISO week calendar, not both"
        )
    if not is_iso and "year" not in parts:
        raise MongoError(40516, "$dateFromParts needs either 'year' or 'isoWeekYear'")

    def evaluate(document: Any, variables: Variables) -> Any:
        names = (*(_ISO if is_iso else _CALENDAR), *_CLOCK)
        numbers = []
        for name in names:
            number = _part_number(name, parts[name](document, variables)) if name in parts else _default(name)
            numbers.append(number)
        zone = _zone_in(parts, document, variables)
        if zone is None or None in numbers:
            return None
        first, second, third, *clock = (int(number) for number in numbers if number is not None)
        if not 1 <= first <= 9999:
            raise MongoError(
                40523, f"'{names[0]}' must evaluate to an integer in the range 1 to 9999, found {first}"
            )
        days = _iso_days(first, second, third) if is_iso else days_of(first, second, third)
        return from_milliseconds(zone.utc_milliseconds(local_milliseconds(days, *clock)))

    return evaluate


def _default(name: str) -> int:
    return 1 if name in {"month", "day", "isoWeek", "isoDayOfWeek"} else 0


def _part_number(name: str, value: Any) -> int | None:
    if is_nullish(value):
        return None
    number = whole(value)
    if number is None:
        raise MongoError(40515, f"'{name}' must evaluate to an integer, found {type_name(value)}")
    if name not in {"second", "millisecond", "year", "isoWeekYear"} and not -32_768 <= number <= 32_767:
        raise MongoError(
            31034, f"'{name}' must evaluate to a value in the range -32768 to 32767, found {number}"
        )
    return number


def _iso_days(year: int, week: int, day: int) -> int:
    # The 4th of January is always in the first week.
    fourth = days_of(year, 1, 4)
    monday = fourth - (fourth + 3) % 7
    return monday + (week - 1) * 7 + day - 1


# --- Dates as texts ---

_TO_STRING = NamedArguments(18629, 18534, {"date": 18628}, ("format", "timezone", "onNull"))
_MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_SPELLED: Final[dict[str, Callable[[datetime, timedelta], str]]] = {
    "Y": lambda time, _: f"{time.year:04}",
    "m": lambda time, _: f"{time.month:02}",
    "d": lambda time, _: f"{time.day:02}",
    "H": lambda time, _: f"{time.hour:02}",
    "M": lambda time, _: f"{time.minute:02}",
    "S": lambda time, _: f"{time.second:02}",
    "L": lambda time, _: f"{time.microsecond // 1000:03}",
    "j": lambda time, _: f"{time.timetuple().tm_yday:03}",
    "w": lambda time, _: f"{time.isoweekday() % 7 + 1}",
    "u": lambda time, _: f"{time.isoweekday()}",
    "U": lambda time, _: f"{_week_of_year(time):02}",
    "V": lambda time, _: f"{time.isocalendar().week:02}",
    "G": lambda time, _: f"{time.isocalendar().year:04}",
    "b": lambda time, _: _MONTHS[time.month - 1][:3],
    "B": lambda time, _: _MONTHS[time.month - 1],
    "z": lambda _, offset: _offset_text(offset),
    "Z": lambda _, offset: str(offset // timedelta(minutes=1)),
    "%": lambda _, __: "%",
}


def _offset_text(offset: timedelta) -> str:
    minutes = abs(offset) // timedelta(minutes=1)
    return f"{'-' if offset < timedelta() else '+'}{minutes // 60:02}{minutes % 60:02}"


def date_text(value: Any) -> str:
    """A date in UTC as `2026-01-31T12:00:00.000Z`."""
    return _spell(_utc(value), timedelta(), "%Y-%m-%dT%H:%M:%S.%LZ")


def _spell(time: datetime, offset: timedelta, pattern: str) -> str:
    pieces = []
    place = 0
    while place < len(pattern):
        letter = pattern[place]
        if letter == "%":
            pieces.append(_SPELLED[pattern[place + 1]](time, offset))
            place += 2
        else:
            pieces.append(letter)
            place += 1
    return "".join(pieces)


def _check_format(pattern: Any, known: Any, code_type: int, code: int) -> str:
    if not is_text(pattern):
        raise MongoError(code_type, f"a format is a text, not {type_name(pattern)}")
    place = 0
    while (place := pattern.find("%", place)) >= 0:
        if place + 1 == len(pattern):
            raise MongoError(18535, "Unmatched '%' at end of format string")
        if pattern[place + 1 : place + 2] not in known:
            raise MongoError(code, f"a format has no '{pattern[place : place + 2]}'")
        place += 2
    return pattern


@syntax("$dateToString")
def _date_to_string(spec: Any, scope: Scope) -> Evaluate:
    parts = _compile_parts("$dateToString", spec, _TO_STRING, scope)

    def evaluate(document: Any, variables: Variables) -> Any:
        value = parts["date"](document, variables)
        pattern: Any = None
        if "format" in parts:
            pattern = parts["format"](document, variables)
            if not is_nullish(pattern):
                _check_format(pattern, _SPELLED, 18533, 18536)
        zone = _zone_in(parts, document, variables)
        if is_nullish(value):
            return parts["onNull"](document, variables) if "onNull" in parts else None
        if zone is None or ("format" in parts and is_nullish(pattern)):
            return None
        utc = _utc(value, 18537)
        if pattern is None:
            pattern = "%Y-%m-%dT%H:%M:%S.%LZ" if zone is _UTC else "%Y-%m-%dT%H:%M:%S.%L"
        return _spell(zone.local(utc), zone.offset(utc), pattern)

    return evaluate


# --- Texts as dates ---

_FROM_STRING = NamedArguments(
    40540, 40541, {"dateString": 40542}, ("format", "timezone", "onNull", "onError")
)
_ISO_TEXT: Final = re.compile(
    r"(?P<year>\d{4})(?:-?(?P<month>\d{1,2})(?:-?(?P<day>\d{1,2}))?)?"
    r"(?:(?:T|t|\s+)(?P<hour>\d{1,2})(?::?(?P<minute>\d{2})(?::?(?P<second>\d{2})(?:[.,:](?P<fraction>\d+))?)?)?)?"
    r"\s*(?P<zone>Z|z|UTC|GMT|[+-]\d{2}(?::?\d{2})?|[A-Z][A-Za-z_]+/[A-Za-z_/]+)?\Z",
    re.ASCII,
)
_WRITTEN_TEXT: Final = re.compile(
    r"(?:[A-Za-z]{3,9},?\s+)?(?P<monthname>[A-Za-z]{3,9})\.?\s+(?P<day>\d{1,2}),?\s+(?P<year>\d{4})"
    r"(?:,?\s+(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d+))?)?)?"
    r"\s*(?P<zone>Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?\Z",
    re.ASCII,
)
_READ: Final = {
    "Y": r"(?P<year>\d{4})",
    "m": r"(?P<month>\d{1,2})",
    "d": r"(?P<day>\d{1,2})",
    "H": r"(?P<hour>\d{1,2})",
    "M": r"(?P<minute>\d{1,2})",
    "S": r"(?P<second>\d{1,2})",
    "L": r"(?P<fraction>\d{1,3})",
    "j": r"(?P<yearday>\d{1,3})",
    "b": r"(?P<monthname>[A-Za-z]{3})",
    "B": r"(?P<monthname>[A-Za-z]{3,9})",
    "G": r"(?P<isoyear>\d{4})",
    "V": r"(?P<isoweek>\d{1,2})",
    "u": r"(?P<isoday>\d)",
    "z": r"(?P<zone>Z|[+-]\d{2}:?\d{2})",
    "Z": r"(?P<minutes>[+-]?\d{1,4})",
    "%": "%",
}


@lru_cache(maxsize=256)
def _reader(pattern: str) -> re.Pattern[str]:
    _check_format(pattern, _READ, 40684, 18536)
    pieces = []
    place = 0
    while place < len(pattern):
        if pattern[place] == "%":
            pieces.append(_READ[pattern[place + 1]])
            place += 2
        else:
            pieces.append(re.escape(pattern[place]))
            place += 1
    try:
        return re.compile("".join(pieces) + r"\Z", re.ASCII)
    except re.error:
        raise MongoError(241, f"a format names each part once: '{pattern}'") from None


def parse_date(text: str, zone: Zone | None = None, pattern: str | None = None) -> datetime | DatetimeMS:
    """The date in a text.

    Raises:
        MongoError: It has no date, or has a zone in addition to the given one (241).
    """
    match = (
        _reader(pattern).match(text)
        if pattern is not None
        else _ISO_TEXT.match(text.strip()) or _WRITTEN_TEXT.match(text.strip())
    )
    if match is None:
        raise MongoError(241, f"Error parsing date string '{text}'")
    parts = {name: value for name, value in match.groupdict().items() if value is not None}
    written = parts.pop("zone", None)
    minutes = parts.pop("minutes", None)
    if (written or minutes) and zone is not None and zone is not _UTC:
        raise MongoError(
            241, f"the date string names a time zone, and so does the argument 'timezone': '{text}'"
        )
    try:
        days = _days_written(parts)
    except ValueError:
        raise MongoError(241, f"Error parsing date string '{text}'") from None
    hour, minute, second = (int(parts.get(name, 0)) for name in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        raise MongoError(241, f"Error parsing date string '{text}'; there is no such time of the day")
    thousandths = int(parts.get("fraction", "0").ljust(3, "0")[:3])
    local = local_milliseconds(days, hour, minute, second, thousandths)
    if minutes is not None:
        return from_milliseconds(local - int(minutes) * 60_000)
    place = zone_of("UTC" if written.upper() == "Z" else written) if written else zone or _UTC
    return from_milliseconds(place.utc_milliseconds(local))


def _days_written(parts: dict[str, str]) -> int:
    if "isoyear" in parts:
        year, week, day = int(parts["isoyear"]), int(parts.get("isoweek", 1)), int(parts.get("isoday", 1))
        return (datetime.fromisocalendar(year, week, day) - EPOCH).days
    year = int(parts["year"]) if "year" in parts else 1970
    if "yearday" in parts:
        return days_of(year, 1, 1) + int(parts["yearday"]) - 1
    month = int(parts.get("month", 1))
    if "monthname" in parts:
        starts = [name for name in _MONTHS if name.lower().startswith(parts["monthname"].lower())]
        if len(starts) != 1:
            raise ValueError(parts["monthname"])
        month = _MONTHS.index(starts[0]) + 1
    return (datetime(year, month, int(parts.get("day", 1))) - EPOCH).days


@syntax("$dateFromString")
def _date_from_string(spec: Any, scope: Scope) -> Evaluate:
    parts = _compile_parts("$dateFromString", spec, _FROM_STRING, scope)

    def evaluate(document: Any, variables: Variables) -> Any:
        text = parts["dateString"](document, variables)
        pattern = parts["format"](document, variables) if "format" in parts else None
        if not is_nullish(pattern):
            _check_format(pattern, _READ, 40684, 18536)
        zone = _zone_in(parts, document, variables)
        if is_nullish(text):
            return parts["onNull"](document, variables) if "onNull" in parts else None
        if zone is None or ("format" in parts and is_nullish(pattern)):
            return None
        try:
            if not is_text(text):
                raise MongoError(
                    241, f"$dateFromString requires that 'dateString' be a string, found: {type_name(text)}"
                )
            return parse_date(text, zone if "timezone" in parts else None, pattern)
        except MongoError as error:
            if "onError" in parts and error.code == 241:
                return parts["onError"](document, variables)
            raise

    return evaluate


# --- Sums and differences ---

UNIT_MS: Final = {
    "millisecond": 1,
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 7 * 86_400_000,
}
"""The milliseconds of the units of time with a fixed length."""
_MONTHS_OF: Final = {"month": 1, "quarter": 3, "year": 12}
_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def is_unit(value: Any) -> bool:
    """Whether it is the name of a unit of time."""
    return is_text(value) and (value in UNIT_MS or value in _MONTHS_OF)


def _unit(name: str, value: Any) -> str:
    if not is_text(value):
        raise MongoError(5439013, f"{name} takes a text as unit, not {type_name(value)}")
    if not is_unit(value):
        raise MongoError(9, f"{name} knows no unit '{value}'")
    return value


def _adds(name: str, sign: int) -> None:
    names = NamedArguments(
        5166400, 5166401, {"startDate": 5166402, "unit": 5166402, "amount": 5166402}, ("timezone",)
    )

    @syntax(name)
    def compiler(spec: Any, scope: Scope) -> Evaluate:
        parts = _compile_parts(name, spec, names, scope)

        def evaluate(document: Any, variables: Variables) -> Any:
            start, unit, amount = (parts[key](document, variables) for key in ("startDate", "unit", "amount"))
            zone = _zone_in(parts, document, variables)
            if is_nullish(start) or is_nullish(unit) or is_nullish(amount) or zone is None:
                return None
            if not has_time(start):
                raise MongoError(
                    5166403, f"{name} requires startDate to be convertible to a date, not {type_name(start)}"
                )
            unit = _unit(name, unit)
            count = whole(amount)
            if count is None:
                raise MongoError(5166405, f"{name} takes a whole number as amount")
            if sign < 0 and count == INT64_MIN:
                raise MongoError(6045000, f"{name} cannot take back so large an amount")
            return _move(name, start, unit, sign * count, zone)

        return evaluate


def move_date(name: str, start: Any, unit: str, amount: int) -> datetime | DatetimeMS:
    """The date `amount` units after another (before it for a negative amount), by the calendar of UTC.

    Raises:
        MongoError: The date is out of range (5166406, 5976500, or 2 beyond the years 1 to 9999); `name` is the operator.
    """
    return _move(name, start, unit, amount, _UTC)


def _move(name: str, start: Any, unit: str, amount: int, zone: Zone) -> datetime | DatetimeMS:
    if unit in UNIT_MS and (unit not in {"day", "week"} or zone is _UTC):
        return _in_range(name, time_of(start) + amount * UNIT_MS[unit])
    local = zone.local(_utc(start))
    if unit in UNIT_MS:
        moved = (local - EPOCH) // MILLISECOND + amount * UNIT_MS[unit]
        return _in_range(name, zone.utc_milliseconds(moved))
    months = local.year * 12 + local.month - 1 + amount * _MONTHS_OF[unit]
    if not -300_000_000 * 12 <= months <= 300_000_000 * 12:
        raise MongoError(5976500, f"{name} cannot move a date by so much")
    year, month = months // 12, months % 12 + 1
    last = days_of(year, month + 1, 1) - days_of(year, month, 1)
    days = days_of(year, month, min(local.day, last))
    clock = local_milliseconds(days, local.hour, local.minute, local.second, local.microsecond // 1000)
    return _in_range(name, zone.utc_milliseconds(clock))


def _in_range(name: str, value: int) -> datetime | DatetimeMS:
    if not INT64_MIN <= value < -INT64_MIN:
        raise MongoError(5166406, f"{name} overflowed")
    return from_milliseconds(value)


_adds("$dateAdd", 1)
_adds("$dateSubtract", -1)

_DIFF = NamedArguments(
    5166301,
    5166302,
    {"startDate": 5166303, "endDate": 5166304, "unit": 5166305},
    ("timezone", "startOfWeek"),
)


@syntax("$dateDiff")
def _date_diff(spec: Any, scope: Scope) -> Evaluate:
    parts = _compile_parts("$dateDiff", spec, _DIFF, scope)

    def evaluate(document: Any, variables: Variables) -> Any:
        start, end, unit = (parts[key](document, variables) for key in ("startDate", "endDate", "unit"))
        week = parts["startOfWeek"](document, variables) if "startOfWeek" in parts else "sunday"
        zone = _zone_in(parts, document, variables)
        if is_nullish(start) or is_nullish(end) or is_nullish(unit) or zone is None:
            return None
        unit = _unit("$dateDiff", unit)
        if unit == "week" and is_nullish(week):
            return None
        for value in (start, end):
            if not has_time(value):
                raise MongoError(5166307, f"$dateDiff takes dates, not {type_name(value)}")
        first_day = _week_day("$dateDiff", week) if unit == "week" else 0
        if unit in {"millisecond", "second", "minute", "hour"}:
            return Int64(time_of(end) // UNIT_MS[unit] - time_of(start) // UNIT_MS[unit])
        return Int64(
            _bin(zone.local(_utc(end)), unit, first_day) - _bin(zone.local(_utc(start)), unit, first_day)
        )

    return evaluate


def _week_day(name: str, value: Any) -> int:
    if not is_text(value):
        raise MongoError(5439015, f"{name} takes a text as startOfWeek, not {type_name(value)}")
    day = value.lower()
    matching = [index for index, full in enumerate(_DAYS) if day in (full, full[:3])]
    if not matching:
        raise MongoError(5439016, f"{name} knows no day '{value}'")
    return matching[0]


def _bin(local: datetime, unit: str, first_day: int) -> int:
    """The number of a time's unit, counted from 1970 (weeks: from the given day of the week before it)."""
    if unit in _MONTHS_OF:
        return ((local.year - 1970) * 12 + local.month - 1) // _MONTHS_OF[unit]
    if unit == "week":
        # 1970 began with a Thursday, the day with number 3.
        return ((local - EPOCH).days + 3 - first_day) // 7
    return ((local - EPOCH) // MILLISECOND) // UNIT_MS[unit]


_TRUNC = NamedArguments(
    5439007, 5439008, {"date": 5439009, "unit": 5439010}, ("binSize", "timezone", "startOfWeek")
)
_REFERENCE: Final = datetime(2000, 1, 1)


@syntax("$dateTrunc")
def _date_trunc(spec: Any, scope: Scope) -> Evaluate:
    parts = _compile_parts("$dateTrunc", spec, _TRUNC, scope)

    def evaluate(document: Any, variables: Variables) -> Any:
        value, unit = (parts[key](document, variables) for key in ("date", "unit"))
        size = parts["binSize"](document, variables) if "binSize" in parts else 1
        week = parts["startOfWeek"](document, variables) if "startOfWeek" in parts else "sunday"
        zone = _zone_in(parts, document, variables)
        if is_nullish(value) or is_nullish(unit) or is_nullish(size) or zone is None:
            return None
        if not has_time(value):
            raise MongoError(5166307, f"$dateTrunc takes a date, not {type_name(value)}")
        unit = _unit("$dateTrunc", unit)
        if unit == "week" and is_nullish(week):
            return None
        count = whole(size)
        if count is None:
            raise MongoError(5439017, "$dateTrunc takes a whole number as binSize")
        if count <= 0:
            raise MongoError(5439018, "$dateTrunc takes a binSize above 0")
        first_day = _week_day("$dateTrunc", week) if unit == "week" else 0
        return from_milliseconds(_truncate(_utc(value), unit, count, first_day, zone))

    return evaluate


def _truncate(utc: datetime, unit: str, size: int, first_day: int, zone: Zone) -> int:
    if unit in {"millisecond", "second", "minute", "hour"}:
        # Changes of a zone's clocks do not affect these units; they are counted from the reference there.
        reference = zone.utc_milliseconds((_REFERENCE - EPOCH) // MILLISECOND)
        step = UNIT_MS[unit] * size
        return reference + (ms_of_date(utc) - reference) // step * step
    local = zone.local(utc)
    if unit in _MONTHS_OF:
        step = _MONTHS_OF[unit] * size
        months = (local.year - 2000) * 12 + local.month - 1
        start = months // step * step
        days = days_of(2000, 1 + start, 1)
    else:
        length = size * (7 if unit == "week" else 1)
        # 1 January 2000 was a Saturday, the day with number 5; weeks are counted from the first start of a week after it.
        reference_day = (_REFERENCE - EPOCH).days + ((first_day - 5) % 7 if unit == "week" else 0)
        days = reference_day + ((local - EPOCH).days - reference_day) // length * length
    return zone.utc_milliseconds(local_milliseconds(days, 0, 0, 0, 0))


# --- Timestamps ---


def _timestamps(name: str, part: str) -> None:
    @syntax(name)
    def compiler(spec: Any, scope: Scope) -> Evaluate:
        (value,) = arguments(name, spec, scope, 1, 1)

        def evaluate(document: Any, variables: Variables) -> Any:
            timestamp = value(document, variables)
            if is_nullish(timestamp):
                return None
            number = getattr(timestamp, part, None)
            if type_name(timestamp) != "timestamp" or number is None:
                raise MongoError(
                    5687301 if part == "time" else 5687302,
                    f"{name} takes a timestamp, not {type_name(timestamp)}",
                )
            return integer(number, 1)

        return evaluate


_timestamps("$tsSecond", "time")
_timestamps("$tsIncrement", "inc")
