"""The curves are measured, summarised and drawn. No figure is judged here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import growth
from benchmarks.growth import Curve, exponent


def power(of: float) -> list[tuple[int, float]]:
    return [(size, 3.0 * size**of) for size in (1_000, 10_000, 100_000)]


@pytest.mark.parametrize("of", [0.0, 0.5, 1.0, 2.0])
def test_the_exponent_is_how_fast_a_curve_grows(of: float) -> None:
    assert exponent(power(of)) == pytest.approx(of, abs=1e-9)


def test_the_exponent_looks_at_the_last_two_decades_only() -> None:
    assert exponent([(10, 1e6), (100, 1e6), *power(0.5)]) == pytest.approx(0.5)


def test_only_ours_is_pointed_out_and_only_where_an_index_serves() -> None:
    served = Curve("served", "", "", "", True, {"reactdb: a": power(0.5), "raw: a": power(0.5)})
    unserved = Curve("unserved", "", "", "", False, {"reactdb: a": power(0.5)})

    assert served.is_steep("reactdb: a")
    assert not served.is_steep("raw: a")
    assert not unserved.is_steep("reactdb: a")


def test_a_logarithm_is_not_pointed_out() -> None:
    tree = [(10**exponent, float(exponent)) for exponent in range(3, 8)]

    assert not Curve("served", "", "", "", True, {"reactdb: a": tree}).is_steep("reactdb: a")


def test_curves_are_kept_and_those_measured_again_replace_the_old(tmp_path: Path) -> None:
    file = tmp_path / "growth.json"
    old = [Curve("log", "old", "", ""), Curve("feeds", "old", "", "", True, {"reactdb: a": [(1, 2.0)]})]
    file.write_text(json.dumps(growth.data(old)))

    found = growth.merged(growth.read(file), [Curve("log", "new", "", "")])

    assert [("log", "new"), ("feeds", "old")] == [(one.name, one.title) for one in found]
    assert old[1] == found[1]


def test_sizes_are_powers_of_ten_and_the_greatest() -> None:
    assert [1_000, 10_000, 100_000] == growth.sizes(100_000)
    assert [10_000, 100_000, 500_000] == growth.sizes(500_000, 10_000)
    assert [] == growth.sizes(10, 1_000)


@pytest.mark.slow
def test_curves_of_large_tables_share_their_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    file = tmp_path / "growth.json"
    names = ["documents", "questions", "counts", "room"]

    assert 0 == growth.main(["--curve", *names, "--most", "20000", "--json", str(file)])

    curves = growth.read(file)
    assert names == [one.name for one in curves]
    for one in curves:
        for name, points in one.series.items():
            assert ([20_000] if "skip" in name else [10_000, 20_000]) == [size for size, _ in points], name
            assert all(cost > 0 for _, cost in points), name
    # One folder for each peer and size, though each curve needs it.
    assert 4 == len([folder for folder in tmp_path.glob("reactdb-benchmarks-kept/*/*") if folder.is_dir()])


def test_a_curve_is_measured_and_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    file, folder, temporary = tmp_path / "growth.json", tmp_path / "plots", tmp_path / "temporary"
    temporary.mkdir()
    # tempfile has looked at TMPDIR before.
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    arguments = ["--curve", "log", "--most", "1000", "--json", str(file), "--plot", str(folder)]

    assert 0 == growth.main(arguments)

    [curve] = json.loads(file.read_text())["curves"]
    assert {"reactdb: open and get", "reactdb: come back", "reactdb: write"} <= curve["series"].keys()
    assert "changes in the log" in capsys.readouterr().out
    assert (folder / "log.png").read_bytes().startswith(b"\x89PNG")
