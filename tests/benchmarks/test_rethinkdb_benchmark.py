"""The benchmark over the wire runs and reports; no figure is judged here."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import over_the_wire

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.slow
def test_every_figure_is_measured_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for name, size in (("KEYS", 20), ("BULK", 200), ("BATCH", 100), ("NOTIFICATIONS", 20)):
        monkeypatch.setattr(over_the_wire, name, size)
    lines: list[str] = []
    with over_the_wire.served(tmp_path) as port:
        over_the_wire.report(over_the_wire.measure(port, 0.02), lines.append)

    assert 1 + len(over_the_wire.RETHINKDB) == len(lines)


def test_what_is_not_beaten_is_marked() -> None:
    lines: list[str] = []
    over_the_wire.report(dict(over_the_wire.RETHINKDB), lines.append)

    assert all(line.endswith("not beaten") for line in lines[1:])
