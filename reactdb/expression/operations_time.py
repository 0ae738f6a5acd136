"""Operations: times.

A time is an aware datetime; its offset is what ReQL calls its time zone. Durations are numbers of seconds.

Source: RethinkDB 2.4, terms/time.cc, pseudo_time.cc.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final, TypeVar

from reactdb.errors import QueryError
from reactdb.expression.checks import fail, integer, kind, number, string
from reactdb.expression.operations_array import is_closed
from reactdb.expression.registry import operation
from reactdb.values.pseudotypes import zone_text
from reactdb.values.scalars import EPOCH

T = TypeVar("T")

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
    found = _ZONE.fullmatch(name)
    if found is None:
        raise QueryError(
            f"Invalid time zone string `{name}`. Valid time zones are `+hh:mm`, `-hh:mm`, `+hhmm`, `-hhmm`, `+hh`, "
            "`-hh` and `Z`."
        )
    hours, minutes = int(found[2]), int(found[3] or 0)
    if hours > 23:
        raise QueryError(f"Hours out of range in `{name}`.")
    if minutes > 59:
        raise QueryError(f"Minutes out of range in `{name}`.")
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if found[1] == "-" else offset)


def computed_time(calculate: Callable[[], T]) -> T:
    """What `calculate` gives, or ReQL's error where there is no such time."""
    try:
        return calculate()
    except (OverflowError, ValueError) as error:
        raise QueryError(f"Error in time logic: {error}.") from None


@operation("now", 0, is_deterministic=False)
def now() -> datetime:
    """This moment, to the millisecond. A condition or a query sees one `now` only: see `with_fixed_now`."""
    moment = datetime.now(UTC)
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
    zone = read_zone(parts[-1])
    return computed_time(
        lambda: datetime(year, month, day, hours, minutes, tzinfo=zone) + timedelta(seconds=float(seconds))
    )


@operation("epoch_time", 1)
def epoch_time(seconds: Any) -> datetime:
    number(seconds)
    return computed_time(lambda: EPOCH + timedelta(seconds=float(seconds)))


@operation("to_epoch_time", 1)
def to_epoch_time(time: Any) -> float:
    return time_(time).timestamp()


@operation("iso8601", 1, options=("default_timezone",))
def iso8601(text: Any, default_timezone: Any = None) -> datetime:
    source = string(text)
    zone = None if default_timezone is None else read_zone(default_timezone)
    try:
        time = datetime.fromisoformat(source)
    except ValueError as error:
        raise QueryError(f"Failed to parse `{source}` as ISO 8601 time: {error}.") from None
    if time.tzinfo is not None:
        return time
    if zone is None:
        raise QueryError("ISO 8601 string has no time zone, and no default time zone was provided.")
    return time.replace(tzinfo=zone)


@operation("to_iso8601", 1)
def to_iso8601(time: Any) -> str:
    """The time in ISO 8601, with milliseconds if it has any fraction of a second."""
    moment = time_(time)
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds")


@operation("in_timezone", 2)
def in_timezone(time: Any, zone: Any) -> datetime:
    moment, zone_wanted = time_(time), read_zone(zone)
    return computed_time(lambda: moment.astimezone(zone_wanted))


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
    """Seconds of the minute; of its last millisecond, too, they are below 60."""
    moment = time_(time)
    return (moment.second * 1_000 + moment.microsecond // 1_000) / 1_000
