"""The examples run as a newcomer runs them, each in a process of its own, and print what they are meant to show."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reactdb.errors import SparkUnavailable
from reactdb.spark import check

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

# Name of the example -> lines that it must print, in this order, others between them allowed.
OUTPUT: dict[str, list[str]] = {
    "async_consumer": [
        "order 1: 500 euros",
        "that was the present; now for what comes",
        "order 5: 100 euros",
        "order 7: 140 euros",
        "the watcher goes home",
        "7 orders in all",
    ],
    "follow_a_table": [
        "It gets warmer.",
        "  attic came in, 26 degrees",
        "  attic: 26 -> 31 degrees",
        "  attic is fine again",
    ],
    "import_csv_and_query": [
        "7 summits",
        "Highest: ['Puncak Jaya', 'Mauna Kea']",
        "3,500 to 4,000 m: ['Teide', 'Fuji']",
        "First climbed in the 19th century: ['Kinabalu', 'Pico Duarte']",
        "Nobody knows when: ['Sicily', 'Hawaii']",
        "above 4,000 m: 3",
        "below: 4",
        "Read by: a range of index `metres`, implied by the filter",
    ],
    "leaderboard": [
        "To begin with: Cem 70, Dia 60, Ann 50",
        "Bob has a good day: Bob 140, Cem 70, Dia 60",
        "Eve for Cem: Bob 140, Eve 65, Dia 60",
        "The board is what the query gives.",
    ],
    "outbox": [
        "the server has 29 orders, in order: True",
        "it knew some by their ids: True",
        "order 13 is a dead letter after 8 attempts: HTTPError: HTTP Error 422: Unprocessable Entity",
    ],
    "materialized_totals": [
        "one order later it is 0 changes behind",
        "second life: [{'id': 'Bergen', 'sum': 3660}, {'id': 'Oslo', 'sum': 3238}, {'id': 'Rome', 'sum': 2907}]",
        "as if counted just now: True",
        "refused: table `totals` is kept equal to a selection by db.materialize",
    ],
    "rethinkdb_chat": [
        "lobby:  hello",
        "lobby:  anybody there?",
        "newest: 'who took my cup?' came, 'nothing' went",
        "newest: 'anybody there?' came, 'hello' went",
        "native: 3 messages",
    ],
    "resume_after_restart": [
        "first life: order 1 is new",
        "first life: order 2 is new",
        "second life: order 1 is paid",
        "second life: order 3 is new",
        "second life: order 1 is sent",
    ],
    "spark_report": [
        "EV: 116 flights, 33 minutes late on average",
        "insert: 842",
        "update: 1679",
        "The longest way was to HNL: 681 minutes from gate to gate",
    ],
    "squash_for_a_ui": [
        "500 writes in 5 seconds",
        "at most 4 repaints a second: True",
        "repaints in all: 21",
        "The last picture is what the query gives: True",
    ],
    "time_travel": [
        "  seq 4: insert {'id': 'cake', 'cents': 420}",
        "  seq 9: delete None",
        "Everything as of seq 5:",
        "  tea: 260",
        "Prices now: [('cake', 420), ('coffee', 300), ('tea', 260)]",
        "Changes by the undoing: 5",
    ],
}


def run(example: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Warnings are errors, and the library is the one beside the examples, installed or not."""
    return subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        # Spark takes some seconds to start, and more where others are busy.
        timeout=240 if example.stem.startswith("spark_") else 60,
        check=False,
    )


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(path, marks=[pytest.mark.spark, pytest.mark.slow])
        if path.stem.startswith("spark_")
        else path
        for path in EXAMPLES
    ],
    ids=lambda path: path.stem,
)
def test_an_example_prints_what_it_shows(example, tmp_path):
    if example.stem.startswith("spark_"):
        try:
            check()
        except SparkUnavailable as missing:
            pytest.skip(str(missing))
    done = run(example, tmp_path)

    assert 0 == done.returncode, done.stderr
    # Java and Spark's launcher have their say before anybody can ask them to be quiet.
    assert done.stderr == "" or example.stem.startswith("spark_")
    printed = iter(done.stdout.splitlines())
    # `in` on an iterator goes on where it stopped: so the order is tested too.
    missing = [line for line in OUTPUT[example.stem] if line not in printed]
    assert [] == missing, done.stdout
    assert [] == list(tmp_path.iterdir()), "an example leaves nothing behind"


def test_every_example_has_its_output_here():
    assert sorted(OUTPUT) == [example.stem for example in EXAMPLES]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_says_what_it_is(example):
    text = example.read_text(encoding="utf-8")

    assert len(text.splitlines()) < 80
    assert text.startswith('"""')
    assert f"Run: python examples/{example.name}" in text
