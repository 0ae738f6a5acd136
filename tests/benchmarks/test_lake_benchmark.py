"""The benchmark of the lake runs, and compares the tables that it makes with the documents."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.slow
def test_the_benchmark_of_the_lake_reports_stages_and_sources():
    command = "-m benchmarks.lake --documents 200 --files 3 --repeat 1 --only parquet sources --markdown"
    done = subprocess.run(
        [sys.executable, *command.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )

    assert 0 == done.returncode, done.stdout + done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
    found = [row[0].removeprefix("| ") for row in rows if row[0] not in ("| ", "| ---", "| to Parquet")]
    stages = ["first export", "merge of 1 %", "merge of all", "nothing new"]
    assert [f"parquet, {stage}" for stage in stages for _ in (1, 2)] == found[:8]
    assert {"changes", "versions", "1 misfit in 20", "3 files", "3 files, nothing new"} <= set(found[8:])
    # Processor time is shown in hundredths of a second, and so few documents may take less.
    assert all(float(row[4]) > 0 for row in rows if row[0].startswith("| parquet"))
