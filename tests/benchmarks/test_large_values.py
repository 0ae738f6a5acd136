"""The benchmark of blobs runs, and prints a line for each of those it compares."""

from __future__ import annotations

import pytest

from benchmarks import large_values


@pytest.mark.slow
def test_it_prints_what_each_costs(capsys: pytest.CaptureFixture[str]):
    assert 0 == large_values.main(["--size", "1", "--repeat", "1"])

    printed = capsys.readouterr().out
    assert all(peer in printed for peer in large_values.PEERS)
    assert 2 == printed.count("blobs / ")
