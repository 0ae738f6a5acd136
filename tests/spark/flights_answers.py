"""The right answers for the flights of a CSV, computed from the CSV in plain Python: no reactdb, no Spark.

It reads the same records in another way than the demo: times of departure come from the column in UTC, times of
arrival from the time zone database. They give all changes in order, and these give the documents at any position, every
version of every document, and the counts.

Rule of this file: it imports nothing of what it checks.
"""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

ANNOUNCED = timedelta(hours=4)
NEW_YORK = ZoneInfo("America/New_York")
# Where destinations are that do not keep New York's time.
ZONES = {
    "America/Puerto_Rico": "BQN PSE SJU STT",
    "America/Chicago": "AUS BHM BNA DFW DSM HOU IAH MCI MDW MEM MKE MSN MSP MSY OKC OMA ORD SAT STL TUL XNA",
    "America/Denver": "ABQ BZN DEN EGE HDN JAC MTJ SLC",
    "America/Phoenix": "PHX",
    "America/Los_Angeles": "BUR LAS LAX LGB OAK PDX PSP SAN SEA SFO SJC SMF SNA",
    "America/Anchorage": "ANC",
    "Pacific/Honolulu": "HNL",
}
ZONE_OF = {airport: ZoneInfo(name) for name, airports in ZONES.items() for airport in airports.split()}

Document = dict[str, Any]


@dataclass(slots=True, frozen=True)
class Row:
    """One change: `old` and `new` are the documents before and after."""

    seq: int
    key: str
    op: str
    at: datetime
    old: Document | None
    new: Document


@dataclass(slots=True, frozen=True)
class Version:
    """A document as it was from one moment to another; `to` is None while it still is so."""

    key: str
    begin: datetime
    end: datetime | None
    document: Document


def changes(text: str) -> Iterator[Row]:
    """All changes of these flights, in order, with seqs from 2: the table itself has the first."""
    steps = sorted(
        (step for record in csv.DictReader(io.StringIO(text)) for step in steps_of(record)),
        key=lambda step: (step[0], step[1]),
    )
    now: dict[str, Document] = {}
    for seq, (at, key, fields) in enumerate(steps, 2):
        old = now.get(key)
        new = {**(old or {}), **fields}
        now[key] = new
        yield Row(seq, key, "update" if old else "insert", at, old, new)


def steps_of(record: dict[str, str]) -> Iterator[tuple[datetime, str, Document]]:
    """(moment, key, fields that change) of one flight."""
    day = date(int(record["year"]), int(record["month"]), int(record["day"]))
    key = f"{day:%Y-%m-%d}-{record['carrier']}-{record['flight']}-{record['origin']}"
    hour = datetime.strptime(record["time_hour"].rstrip("Z").replace("T", " "), "%Y-%m-%d %H:%M:%S")
    scheduled = hour.replace(tzinfo=UTC) + timedelta(minutes=int(record["minute"]))
    first: Document = {
        "id": key,
        "state": "scheduled",
        "carrier": record["carrier"],
        "flight": int(record["flight"]),
        "origin": record["origin"],
        "dest": record["dest"],
        "distance_miles": int(record["distance"]),
        "scheduled": scheduled,
    }
    if is_there(record["tailnum"]):
        first["tailnum"] = record["tailnum"]
    yield scheduled - ANNOUNCED, key, first
    if not is_there(record["dep_time"]):
        yield scheduled, key, {"state": "cancelled", "closed": scheduled}
        return
    delay = int(record["dep_delay"])
    left = scheduled + timedelta(minutes=delay)
    yield left, key, {"state": "departed", "closed": left, "delay_min": delay}
    if is_there(record["arr_time"]):
        landed = landing(left, record["arr_time"], record["dest"])
        last: Document = {"state": "arrived", "arrived": landed}
        if is_there(record["arr_delay"]):
            last["arrival_delay_min"] = int(record["arr_delay"])
        yield landed, key, last


def landing(left: datetime, clock: str, airport: str) -> datetime:
    """The first moment from `left` on at which the clock of the airport shows it."""
    zone = ZONE_OF.get(airport, NEW_YORK)
    minutes = int(clock) // 100 * 60 + int(clock) % 100
    midnight = left.astimezone(zone).replace(hour=0, minute=0, tzinfo=None)
    for days in (0, 1, 2):
        wall = midnight + timedelta(days=days, minutes=minutes)
        moment = wall.replace(tzinfo=zone).astimezone(UTC)
        if moment >= left:
            return moment
    raise AssertionError(f"{airport} never shows {clock}")


def is_there(cell: str) -> bool:
    return cell not in ("", "NA")


# ---------------------------------------------------------------------------------------------------------------
# What follows from them


def state(rows: Iterable[Row], until: int | None = None) -> dict[str, Document]:
    """The documents by key, as of a position."""
    return {row.key: row.new for row in rows if until is None or row.seq <= until}


def versions(rows: Iterable[Row]) -> list[Version]:
    """Every version, by key and time."""
    of_key: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        of_key[row.key].append(row)
    return [
        Version(key, row.at, following.at if following else None, row.new)
        for key, steps in sorted(of_key.items())
        for row, following in zip(steps, [*steps[1:], None], strict=True)
    ]


def per_hour(rows: Iterable[Row]) -> dict[tuple[datetime, str], int]:
    """How many changes of each kind there were in each hour."""
    return Counter((row.at.replace(minute=0), row.op) for row in rows)


def fields_changed(rows: Iterable[Row]) -> dict[tuple[str, str], tuple[int, int]]:
    """For each field and month: in how many updates it differs, and in how many of them it is new."""
    found: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        if row.old is not None:
            for name in row.new:
                if name not in row.old or row.old[name] != row.new[name]:
                    count = found[name, origin_of(row.at)]
                    count[0] += 1
                    count[1] += name not in row.old
    return {key: (count[0], count[1]) for key, count in found.items()}


def origin_of(at: datetime) -> str:
    """Who writes at that moment, in the database that is made for the comparison: each month has its own writer."""
    return f"{at:%Y-%m}"
