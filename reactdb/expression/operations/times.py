"""Operations: times.

A time is an aware datetime; its offset is ReQL's time zone. Durations are numbers of seconds.

ReQL's times are of the years 1400 to 10000, and a datetime ends with 9999. A term that makes a time refuses other years. A stored
datetime may be older, and its parts can be read and computed with.

Source: RethinkDB 2.4, terms/time.cc, pseudo_time.cc.
"""

from __future__ import annotations

import re
from calendar import isleap, monthrange
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any, Final

from reactdb.clock import now as read_clock
from reactdb.errors import QueryError
from reactdb.expression.checks import fail, integer, kind, number, string
from reactdb.expression.operations.arrays import is_closed
from reactdb.expression.registry import operation
from reactdb.values.pseudotypes import zone_text
from reactdb.values.scalars import EPOCH

MIDNIGHT: Final = datetime.min.time()
_ZONE: Final = re.compile(r"([+-])(\d\d)(?::?(\d\d))?", re.ASCII)


def time_(value: Any) -> datetime:
    if not isinstance(value, datetime):
        fail(value, f"Not a TIME pseudotype: `{kind(value)}`.")
    return value


def read_zone(text: Any) -> timezone:
    """The time zone that ReQL writes as `+hh:mm`, `+hhmm`, `+hh` or `Z`."""
    name = string(text)
    if name == "Z":
        return UTC
    if name in ("-00", "-00:00"):
        raise QueryError(f"`{name}` is not a valid time offset.")
    if not name.startswith(("+", "-")):
        raise QueryError(f"Timezone `{name}` does not start with `-` or `+`.")
    match = _ZONE.fullmatch(name)
    if match is None:
        raise QueryError(
            f"Invalid time zone string `{name}`. Valid time zones are `+hh:mm`, `-hh:mm`, `+hhmm`, `-hhmm`, `+hh`, "
            "`-hh` and `Z`."
        )
    hours, minutes = int(match[2]), int(match[3] or 0)
    if hours > 23:
        raise QueryError(f"Hours out of range in `{name}`.")
    if minutes > 59:
        raise QueryError(f"Minutes out of range in `{name}`.")
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if match[1] == "-" else offset)


YEARS: Final = range(1400, 10_000)
# The bounds in the sentence are RethinkDB's.
YEAR_SENTENCE: Final = "Error in time logic: Year is out of valid range: 1400..10000."


def compute_time(calculate: Callable[[], datetime]) -> datetime:
    """The result of `calculate`.

    Raises:
        QueryError: A datetime cannot hold it.
    """
    try:
        return calculate()
    except OverflowError:
        raise QueryError(YEAR_SENTENCE) from None


def check_year(time: datetime) -> datetime:
    """The time, if ReQL has its year."""
    if time.year not in YEARS:
        raise QueryError(YEAR_SENTENCE)
    return time


def move_time(time: datetime, move: Callable[[datetime], datetime]) -> datetime:
    """The result of `move` for a time. It must have a year of ReQL's, unless the argument has none either."""
    result = compute_time(lambda: move(time))
    return check_year(result) if time.year in YEARS else result


def instant(seconds: Any) -> datetime:
    """The time so many seconds after the epoch, of whatever year."""
    return compute_time(lambda: EPOCH + timedelta(seconds=float(seconds)))


def date_of(year: int, month: int, day: int) -> date:
    """The date.

    Raises:
        QueryError: There is no such date.
    """
    if year not in YEARS:
        raise QueryError(YEAR_SENTENCE)
    if not 1 <= month <= 12:
        raise QueryError("Error in time logic: Month number is out of range 1..12.")
    if not 1 <= day <= 31:
        raise QueryError("Error in time logic: Day of month value is out of range 1..31.")
    if day > monthrange(year, month)[1]:
        raise QueryError("Error in time logic: Day of month is not valid for year.")
    return date(year, month, day)


@operation("now", 0, is_deterministic=False)
def now() -> datetime:
    """This moment, to the millisecond. A condition or a query sees one `now` only: see `with_fixed_now`."""
    moment = read_clock()
    return moment.replace(microsecond=moment.microsecond // 1_000 * 1_000)


@operation("time", 4, 7)
def time_of(*parts: Any) -> datetime:
    """A time of year, month, day and zone, or also of hours, minutes and seconds before the zone."""
    if len(parts) not in (4, 7):
        raise QueryError(f"Got {len(parts)} arguments to TIME (expected 4 or 7).")
    year, month, day = (integer(part) for part in parts[:3])
    hours, minutes, seconds = (0, 0, 0)
    if len(parts) == 7:
        hours, minutes, seconds = integer(parts[3]), integer(parts[4]), number(parts[5])
    midnight = datetime.combine(date_of(year, month, day), MIDNIGHT, read_zone(parts[-1]))
    # Hours and minutes are added, so that there may be any number of them, as on a real server.
    return move_time(
        midnight, lambda time: time + timedelta(hours=hours, minutes=minutes, seconds=float(seconds))
    )


@operation("epoch_time", 1)
def epoch_time(seconds: Any) -> datetime:
    return check_year(instant(number(seconds)))


@operation("to_epoch_time", 1)
def to_epoch_time(time: Any) -> float:
    return time_(time).timestamp()


@operation("iso8601", 1, options=("default_timezone",))
def iso8601(text: Any, default_timezone: Any = None) -> datetime:
    """The time of an ISO 8601 text. See `read_date` and `read_time` for the forms of its parts."""
    zone = None if default_timezone is None else read_zone(default_timezone)
    date_text, mark, rest = string(text).partition("T")
    day = read_date(date_text)
    since_midnight = timedelta()
    if mark:
        sign = next((rest.index(sign) for sign in "-+Z" if sign in rest), len(rest))
        since_midnight = read_time(rest[:sign])
        if sign < len(rest):
            zone = read_zone(rest[sign:])
    if zone is None:
        raise QueryError("ISO 8601 string has no time zone, and no default time zone was provided.")
    return datetime.combine(day, MIDNIGHT, zone) + since_midnight


class DigitReader:
    """Reads numbers with a fixed count of digits from a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.rest = text

    def number(self, count: int) -> int:
        """The number that the next `count` characters are."""
        digits = self.rest[:count]
        for letter in digits:
            if letter not in "0123456789":
                raise QueryError(f"Invalid date string `{self._text}` (got `{letter}` but expected a digit).")
        if len(digits) < count:
            raise QueryError(f"Truncated date string `{self._text}`.")
        self.rest = self.rest[count:]
        return int(digits)

    def skip(self, mark: str) -> bool:
        """Whether the mark comes next; then it is read."""
        has_mark = self.rest.startswith(mark)
        self.rest = self.rest.removeprefix(mark)
        return has_mark

    def end(self, what: str) -> None:
        if self.rest:
            raise QueryError(f"Garbage characters `{self.rest}` at end of {what} string `{self._text}`.")


def read_date(text: str) -> date:
    """The date of YYYY, YYYY-MM, YYYY-MM-DD, YYYY-DDD (day of the year) or YYYY-Www-D (week), also without hyphens."""
    reader = DigitReader(text)
    year = reader.number(4)
    if not reader.rest:
        return date_of(year, 1, 1)
    has_hyphen = reader.skip("-")
    if reader.skip("W"):
        week = reader.number(2)
        reader.skip("-")
        weekday = reader.number(1) if reader.rest else 1
        result = date_of_week(year, week, weekday)
    elif len(reader.rest) == 3:
        result = date_of_year_day(year, reader.number(3))
    else:
        month = reader.number(2)
        day = 1
        if reader.rest or not has_hyphen:
            if reader.skip("-") != has_hyphen:
                raise QueryError(f"Date string `{text}` must have 0 or 2 hyphens.")
            day = reader.number(2)
        result = date_of(year, month, day)
    reader.end("date")
    return result


def date_of_year_day(year: int, day: int) -> date:
    first = date_of(year, 1, 1)
    if not 1 <= day <= 365 + isleap(year):
        raise QueryError("Error in time logic: Day of year value is out of range 1..366.")
    return first + timedelta(days=day - 1)


def date_of_week(year: int, week: int, weekday: int) -> date:
    try:
        calendar_day = date.fromisocalendar(year, week, weekday)
    except ValueError:
        raise QueryError("Error in time logic: Week or day of week is out of range.") from None
    return date_of(calendar_day.year, calendar_day.month, calendar_day.day)


def read_time(text: str) -> timedelta:
    """The time since midnight of hh, hh:mm, hh:mm:ss or hh:mm:ss.fraction, also without colons."""
    reader = DigitReader(text)
    hours, minutes, seconds, microseconds = reader.number(2), 0, 0, 0
    if reader.rest:
        has_colon = reader.skip(":")
        minutes = reader.number(2)
        if reader.rest:
            if reader.skip(":") != has_colon:
                raise QueryError(f"Time string `{text}` must have 0 or 2 colons.")
            seconds = reader.number(2)
            if reader.skip("."):
                places = min(len(reader.rest), 6)
                microseconds = reader.number(places) * 10 ** (6 - places) if places else 0
                while reader.rest:
                    # Finer than a datetime is.
                    reader.number(1)
    reader.end("time")
    for value, bound, name in ((hours, 23, "Hour"), (minutes, 59, "Minute"), (seconds, 59, "Second")):
        if value > bound:
            raise QueryError(f"Error in time logic: {name} value is out of range 0..{bound}.")
    return timedelta(hours=hours, minutes=minutes, seconds=seconds, microseconds=microseconds)


@operation("to_iso8601", 1)
def to_iso8601(time: Any) -> str:
    """The time in ISO 8601, with milliseconds if it has any fraction of a second."""
    moment = time_(time)
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds")


@operation("in_timezone", 2)
def in_timezone(time: Any, zone: Any) -> datetime:
    moment, zone_wanted = time_(time), read_zone(zone)
    return move_time(moment, lambda time: time.astimezone(zone_wanted))


@operation("timezone", 1)
def timezone_(time: Any) -> str:
    return zone_text(time_(time))


@operation("during", 3, options=("left_bound", "right_bound"))
def during(time: Any, start: Any, end: Any, left_bound: Any = "closed", right_bound: Any = "open") -> bool:
    """Whether the time is between two others."""
    moment, first, last = time_(time), time_(start), time_(end)
    after = first <= moment if is_closed(left_bound, "left_bound") else first < moment
    before = moment <= last if is_closed(right_bound, "right_bound") else moment < last
    return after and before


@operation("date", 1)
def date_(time: Any) -> datetime:
    """The midnight before, in the time's own zone."""
    return time_(time).replace(hour=0, minute=0, second=0, microsecond=0)


@operation("time_of_day", 1)
def time_of_day(time: Any) -> float:
    """Seconds since that midnight."""
    moment = time_(time)
    return timedelta(
        hours=moment.hour, minutes=moment.minute, seconds=moment.second, microseconds=moment.microsecond
    ).total_seconds()


@operation("year", 1)
def year(time: Any) -> int:
    return time_(time).year


@operation("month", 1)
def month(time: Any) -> int:
    return time_(time).month


@operation("day", 1)
def day(time: Any) -> int:
    return time_(time).day


@operation("day_of_week", 1)
def day_of_week(time: Any) -> int:
    """Monday is 1."""
    return time_(time).isoweekday()


@operation("day_of_year", 1)
def day_of_year(time: Any) -> int:
    return time_(time).timetuple().tm_yday


@operation("hours", 1)
def hours(time: Any) -> int:
    return time_(time).hour


@operation("minutes", 1)
def minutes(time: Any) -> int:
    return time_(time).minute


@operation("seconds", 1)
def seconds(time: Any) -> float:
    """Seconds of the minute, cut to milliseconds. They are not rounded, so they are always below 60."""
    moment = time_(time)
    return (moment.second * 1_000 + moment.microsecond // 1_000) / 1_000
