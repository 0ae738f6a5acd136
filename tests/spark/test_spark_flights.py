"""The flights of the demo's week through every pipeline, compared with answers from the CSV in plain Python (`flights_answers`).

The file grows in three stages, and the incremental pipelines run after each.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from reactdb.demo.flights import read_csv
from tests.spark import flights_answers as answers
from tests.spark import flights_checks as checks
from tests.spark import flights_database as database
from tests.spark_flights import kill

pytestmark = pytest.mark.slow


@dataclass
class Week:
    """The database, what is right, and where the pipelines have written."""

    file: Path
    rows: list[answers.Row]
    out: Path
    outcomes: list[Any]


@pytest.fixture(scope="module")
def week(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Week:
    folder = tmp_path_factory.mktemp("flights")
    file, out = folder / "flights.db", folder / "out"
    steps = database.steps()
    rows = list(answers.changes(read_csv().decode()))
    thirds = [steps[: len(steps) // 3], steps[len(steps) // 3 : len(steps) // 2], steps[len(steps) // 2 :]]
    outcomes = []
    for part in thirds:
        database.write(file, part)
        outcomes.append(checks.grow(str(file), out))
    checks.write_once(spark, str(file), out)
    return Week(file, rows, out, outcomes)


def test_every_change_is_exported_once_over_three_runs(week):
    checks.changes_are_right(week.out, week.rows)

    assert [len(week.rows) // 3, None, None] == [week.outcomes[0][0].rows, None, None]
    assert len(week.rows) == sum(outcomes[0].rows for outcomes in week.outcomes)


def test_every_change_is_exported_once_although_runs_are_killed(week, tmp_path):
    kill(tmp_path / "killed", week.file, len(week.rows), kills=4)


def test_the_current_state_is_the_last_of_each_flight(week):
    checks.current_is_right(week.out, week.rows)


def test_a_snapshot_has_the_documents_of_its_moment(week):
    checks.snapshots_are_right(week.out, week.rows)


@pytest.mark.parametrize("name", ["history", "history-exported", "scd2/latest"])
def test_the_history_has_every_version_with_its_time(week, name):
    checks.history_is_right(week.out, week.rows, name)


def test_the_rates_are_those_of_the_csv(week):
    checks.rates_are_right(week.out, week.rows)


def test_the_audit_counts_the_fields_that_change_by_writer(week):
    checks.audit_is_right(week.out, week.rows)
