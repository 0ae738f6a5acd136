"""The benchmark of start-up runs, and compares two copies in one run."""

from __future__ import annotations

import pytest

from benchmarks import start_up
from benchmarks.harness import ROOT


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "beginning"),
    [((), start_up.FEED), (("--mongodb",), start_up.MONGODB)],
    ids=["feed", "mongodb"],
)
def test_two_copies_are_compared_phase_by_phase(options, beginning, capsys):
    assert 0 == start_up.main([str(ROOT), "--repeat", "1", "--file", *options])

    header, other, here, ratio = capsys.readouterr().out.splitlines()
    assert all(phase in header for phase in beginning.phases)
    assert len(beginning.phases) + 1 == len(other.split()[1:]) == len(here.split()[1:])
    assert ratio.startswith("here / other")


def test_a_copy_that_lacks_the_call_is_refused_in_one_line(tmp_path, capsys):
    (tmp_path / "reactdb.py").write_text("connect = print")

    with pytest.raises(SystemExit):
        start_up.main([str(tmp_path), "--repeat", "1", "--mongodb"])

    assert "has no attribute 'mongodb'" in capsys.readouterr().err
