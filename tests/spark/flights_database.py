"""A database of flights, written by the demo's own steps, on the clock of 2013.

Rule of this file: the log has the times of the events themselves, so that the CSV answers questions about time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import reactdb
from reactdb.demo import flights

TABLE = "flights"
BATCH_COMMITS = 2_000


@contextmanager
def clock() -> Iterator[list[int]]:
    """`time.time_ns` as the only element of a list says, which is in nanoseconds."""
    now = [0]
    real = time.time_ns
    time.time_ns = lambda: now[0]  # type: ignore[assignment]
    try:
        yield now
    finally:
        time.time_ns = real


def steps(source: str | None = None) -> list[flights.Step]:
    """Everything that happened, in order; of the week in the package where there is no source."""
    found = [step for record in flights.read_records(source) for step in flights.flight_steps(record)]
    found.sort(key=attrgetter("at", "id"))
    return found


def write(path: Path, found: Iterable[flights.Step]) -> int:
    """Write the steps into a file, as its first or its next ones, and give the newest seq.

    What happened in one minute is one transaction.
    """
    with clock() as now, reactdb.connect(path, durability="soft") as db:
        table = db.table_create(TABLE, exist_ok=True)
        for at, minute in groupby(found, key=attrgetter("at")):
            now[0] = int(at.timestamp()) * 1_000_000_000
            with db.transaction(origin=writer(at)):
                for kind, same in groupby(minute, key=lambda step: step.kind == "scheduled"):
                    if kind:
                        table.insert([step.fields for step in same])
                    else:
                        for step in same:
                            table.get(step.id).update(step.fields)
        return db.seq


def writer(at: datetime) -> str:
    """Each month has its own, in UTC."""
    return f"{at.astimezone(UTC):%Y-%m}"
