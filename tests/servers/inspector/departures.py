"""A board of departures in a file: real flights, written by several origins, for tests and pictures of the inspector."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

from reactdb import Database
from reactdb.demo.flights import FlightStep, day_steps

DAY = date(2013, 1, 1)
ORIGINS = {"EWR": "tower-newark", "JFK": "tower-kennedy", "LGA": "tower-laguardia"}
AIRLINES = {
    "AA": "American Airlines",
    "B6": "JetBlue Airways",
    "DL": "Delta Air Lines",
    "EV": "ExpressJet Airlines",
    "MQ": "Envoy Air",
    "UA": "United Air Lines",
    "US": "US Airways",
    "WN": "Southwest Airlines",
}
STATES = {"scheduled": "scheduled", "departed": "in the air", "arrived": "landed", "cancelled": "cancelled"}


def make_tables(db: Database) -> None:
    """The tables `flights`, `airlines` and `airports`, with two indexes."""
    flights = db.table_create("flights")
    flights.index_create("scheduled")
    flights.index_create("state")
    airlines = db.table_create("airlines")
    with db.transaction(origin="import"):
        airlines.insert([{"id": code, "name": name} for code, name in AIRLINES.items()])
    destinations = sorted({step.fields["dest"] for step in day_steps(DAY) if step.kind == "scheduled"})
    airports = db.table_create("airports")
    with db.transaction(origin="import"):
        airports.insert(
            [{"id": code, "gates": 4 + i * 7 % 31} for i, code in enumerate([*ORIGINS, *destinations])]
        )


def play(db: Database, steps: list[FlightStep]) -> Iterator[FlightStep]:
    """Writes one step after the other, each as a commit of the tower of its airport."""
    flights = db.table("flights")
    for step in steps:
        with db.transaction(origin=ORIGINS[step.id[-3:]]):
            if step.kind == "scheduled":
                flights.insert(document_of(step))
            else:
                flights.get(flight_id(step)).update(shown_fields(step))
        yield step


def flight_id(step: FlightStep) -> str:
    return step.id.split("-", 3)[3]


def document_of(step: FlightStep) -> dict[str, Any]:
    fields = step.fields
    return {
        "id": flight_id(step),
        "time": f"{fields['scheduled']:%H:%M}",
        "to": fields["dest"],
        "state": STATES[fields["state"]],
        "delay": 0,
        "gate": f"{'ABC'[fields['flight'] % 3]}{fields['flight'] % 28 + 1}",
        "from": fields["origin"],
        "miles": fields["distance_miles"],
        "scheduled": fields["scheduled"],
        "aircraft": {"tail": fields.get("tailnum"), "airline": fields["carrier"]},
    }


def shown_fields(step: FlightStep) -> dict[str, Any]:
    fields: dict[str, Any] = {"state": STATES[step.fields["state"]]}
    if "delay_min" in step.fields:
        fields["delay"] = step.fields["delay_min"]
        fields["departed"] = step.fields["closed"]
    if "arrived" in step.fields:
        fields["landed"] = step.fields["arrived"]
    return fields


def morning_steps() -> tuple[list[FlightStep], list[FlightStep]]:
    """The steps up to some minutes before eleven, and those of the next hours."""
    steps = day_steps(DAY)
    noon = next(step.at for step in steps if step.kind == "departed").replace(hour=10, minute=50, second=0)
    return [step for step in steps if step.at < noon], [
        step for step in steps if noon <= step.at < noon + timedelta(hours=5)
    ]
