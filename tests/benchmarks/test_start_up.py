"""The benchmark of start-up runs, and compares two copies in one run."""

from __future__ import annotations

import pytest

from benchmarks import start_up
from benchmarks.harness import ROOT


@pytest.mark.slow
def test_two_copies_are_compared_phase_by_phase(capsys):
    assert 0 == start_up.main([str(ROOT), "--repeat", "1", "--file"])

    header, other, here, ratio = capsys.readouterr().out.splitlines()
    assert all(phase in header for phase in start_up.PHASES)
    assert len(start_up.PHASES) + 1 == len(other.split()[1:]) == len(here.split()[1:])
    assert ratio.startswith("here / other")
