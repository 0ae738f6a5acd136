"""Faults: each system call under each operation fails in turn, and the promises of the store hold. See `tests/faults/`.

This is the short form, with some of the calls of each operation. `python -m tests.faults` has all of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import shim
from tests.faults.mutants import MUTANTS

REPOSITORY = Path(__file__).resolve().parent.parent.parent

pytestmark = pytest.mark.skipif(bool(shim.why_not()), reason=shim.why_not() or "it can be done")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.faults", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=250,
    )


@pytest.mark.parametrize("part", [pytest.param("sweep", marks=pytest.mark.long), "scenario"])
def test_no_fault_breaks_a_promise(part):
    found = run("--quick", "--only", part)

    assert 0 == found.returncode, found.stdout + found.stderr
    assert " 0 scenarios broken" in found.stdout


@pytest.mark.parametrize(
    "name",
    [name if name == "swallow" else pytest.param(name, marks=pytest.mark.slow) for name in sorted(MUTANTS)],
)
def test_a_store_that_breaks_a_promise_is_found(name):
    found = run("--quick", "--break", name, "--only", MUTANTS[name][1])

    assert 1 == found.returncode, found.stdout + found.stderr
    assert found.stdout.startswith("BROKEN")
