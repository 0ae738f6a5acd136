"""Schedules: the short form of `python -m tests.schedules`, and a proof that it finds known mistakes.

They run in processes of their own, because Python's locks, threads and clock are replaced there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ACCEPTANCE

ROOT = Path(__file__).parents[2]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280
    )


@pytest.mark.slow
def test_no_schedule_of_the_short_form_breaks_a_law() -> None:
    done = run("-m", "tests.schedules", "--short")

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_mistakes_of_the_samples_are_found_and_no_others() -> None:
    done = run("-m", "tests.schedules", "--prove")

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_a_schedule_is_the_same_in_each_process() -> None:
    """So that one that was found can be looked at, line by line."""
    words = ("queue: two hard", "--replay", "12:1,20:0")

    first, second = (run("-m", "tests.schedules", *words).stdout for _ in range(2))

    assert "thread 0:" in first
    assert "thread 1:" in first
    assert first == second


@pytest.mark.slow
@pytest.mark.parametrize("race", ["turns_race.py 2 --switch 1e-6", "silent.py 2 --patience 60"])
def test_a_race_that_was_reported_does_not_happen(race: str) -> None:
    """Threads as the system runs them. What these once showed, the schedules above show for certain."""
    name, *options = race.split()
    path = ACCEPTANCE / "races" / name
    if not path.is_file():
        pytest.skip("needs the reproductions of races that are kept beside the project")

    done = run(str(path), *options)

    assert done.returncode == 0, done.stdout + done.stderr
