"""The benchmarks run, check their own results, and report in one format. No figure is judged here, because a test run does
not measure well."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import report
from benchmarks.__main__ import main
from benchmarks.readme import README, placed

ROOT = Path(__file__).resolve().parent.parent.parent


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """What one tiny workload prints, and what it writes."""
    file = tmp_path_factory.mktemp("benchmarks") / "figures.json"
    ended = run(
        "--quick",
        "--repeat",
        "2",
        "--peer",
        "raw+log",
        "reactdb",
        "--workload",
        "W10-get",
        "--json",
        str(file),
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout, json.loads(file.read_text())


def test_the_json_names_machine_and_options(quick: tuple[str, dict[str, Any]]) -> None:
    _, found = quick

    assert {"python", "sqlite", "cpus"} <= found["machine"].keys()
    assert {"repeat": 2, "scale": 0.01} == found["options"]


def test_the_json_has_every_sample_of_every_peer(quick: tuple[str, dict[str, Any]]) -> None:
    _, found = quick
    [workload] = found["workloads"]

    assert ("W10-get", "µs per get") == (workload["name"], workload["unit"])
    assert {"raw", "raw+log", "reactdb"} <= workload["peers"].keys()
    for metrics in workload["peers"].values():
        assert {"cpu", "wall"} == metrics.keys()
        for metric in metrics.values():
            assert {"median", "spread", "speed_of_raw", "speed_of_raw_log", "samples"} == metric.keys()
            assert len(metric["samples"]) == 2
            assert min(metric["samples"]) > 0


def test_what_was_kept_is_reported_as_it_was(
    quick: tuple[str, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, found = quick
    file = tmp_path / "figures.json"
    file.write_text(json.dumps(found))

    assert 0 == main(["--from", str(file)])
    assert text == capsys.readouterr().out


def test_what_another_run_has_of_other_peers_is_put_beside_and_of_the_same_peer_replaces(
    quick: tuple[str, dict[str, Any]], tmp_path: Path
) -> None:
    _, found = quick
    [workload] = found["workloads"]
    peers = workload["peers"]
    earlier, later = tmp_path / "earlier.json", tmp_path / "later.json"
    kept = {**peers, "another": peers["raw"], "reactdb": peers["raw"]}
    earlier.write_text(json.dumps({**found, "workloads": [{**workload, "peers": kept}]}))
    later.write_text(json.dumps(found))

    _, _, [outcome] = report.read([earlier, later])

    assert {*peers, "another"} == outcome.peers.keys()
    assert peers["raw"]["cpu"]["samples"] == outcome.peers["another"].samples["cpu"]
    assert peers["reactdb"]["cpu"]["samples"] == outcome.peers["reactdb"].samples["cpu"]


def test_a_table_takes_its_place_in_a_page_and_replaces_the_old_one() -> None:
    page = placed("# Page\n\n<!-- a -->\n<!-- end of a -->\n\nThe end.\n", "a", "| old |\n")

    assert "# Page\n\n<!-- a -->\n\n| new |\n\n<!-- end of a -->\n\nThe end.\n" == placed(
        page, "a", "| new |"
    )
    with pytest.raises(ValueError, match="no place called b"):
        placed(page, "b", "")


def test_the_readme_has_every_place() -> None:
    for name in ("figures", "growth", "profile"):
        assert f"<!-- end of {name} -->" in README.read_text()


def test_raw_has_the_speed_of_raw(quick: tuple[str, dict[str, Any]]) -> None:
    _, found = quick

    assert found["workloads"][0]["peers"]["raw"]["cpu"]["speed_of_raw"] == 1.0


def test_a_mark_is_told_with_what_was_measured(quick: tuple[str, dict[str, Any]]) -> None:
    text, found = quick
    [mark] = found["marks"]

    assert ("W10-get", "cpu") == (mark["workload"], mark["metric"])
    assert mark["pass"] is (mark["measured"] <= 1.0)
    assert mark["cost"].keys() == {"raw", "raw+log"}
    assert ("pass" if mark["pass"] else "MISS") in text


def test_a_workload_with_feeds_runs_and_tells_its_cost_and_that_of_opening_one(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    ended = run("--quick", "--peer", "raw+log", "reactdb", "--workload", "W6-points-100", "--json", str(file))
    assert ended.returncode == 0, ended.stderr
    [workload] = json.loads(file.read_text())["workloads"]

    assert {"raw+log", "reactdb"} <= workload["peers"].keys()
    assert {"cpu", "wall", "subscribe"} == workload["peers"]["reactdb"].keys()


def test_a_mark_beside_another_figure_is_their_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.harness import Figures, Outcome, Summary, Workload
    from benchmarks.marks import Mark, verdicts

    def nothing(_: object) -> Figures:
        return {}

    def outcome(name: str, figure: float) -> Outcome:
        return Outcome(Workload(name, "µs", nothing), {"reactdb": Summary({"cpu": [figure]})})

    outcomes = [outcome("few", 100.0), outcome("many", 140.0)]
    flat = Mark("many", "cpu", beside=("few", "cpu"), most_times=1.5)
    each = Mark("many", "cpu", beside=("few", "cpu"), most_more=0.3, share=100)

    assert [(1.4, True), (0.4, False)] == [
        (verdict.figure, verdict.is_pass) for verdict in verdicts(outcomes, (flat, each))
    ]


def test_a_mark_on_cost_is_ours_divided_by_what_it_is_measured_against(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.harness import Figures, Outcome, Summary, Workload, take_in
    from benchmarks.marks import Mark, verdicts

    def nothing(_: object) -> Figures:
        return {}

    summaries = {name: Summary() for name in ("raw", "raw+log", "reactdb")}
    take_in({"raw": {"cpu": 10.0}, "raw+log": {"cpu": 20.0}, "reactdb": {"cpu": 25.0}}, summaries)
    [verdict] = verdicts(
        [Outcome(Workload("W", "µs", nothing), summaries)], [Mark("W", "cpu", most_cost=1.2)]
    )

    assert (1.25, False) == (verdict.figure, verdict.is_pass)
    assert {"raw": 2.5, "raw+log": 1.25} == verdict.costs


def test_a_peer_that_cannot_do_a_workload_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.harness import Bench, Figures, Workload, run_in_turns
    from benchmarks.peers import NotOffered, Peer

    class Unwilling(Peer):
        name = "unwilling"

        def figures(self, workload: str, scale: float) -> Figures | None:
            raise NotOffered("it does not want to")

    def nothing(_: object) -> Figures:
        return {}

    outcome = run_in_turns(Workload("W", "µs", nothing), [Bench(Unwilling(), 1.0, tmp_path)], 1)

    assert {"unwilling": "it does not want to"} == outcome.left_out
    assert {} == outcome.peers


def test_every_workload_has_a_name_of_its_own_and_says_what_it_asks_and_what_to_expect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import feed_workloads
    from benchmarks.workloads import WORKLOADS

    feed_workloads.register()
    assert len(WORKLOADS) == len({workload.name for workload in WORKLOADS})
    for workload in WORKLOADS:
        about = workload.run.__doc__ or ""
        assert "Answers:" in about, workload.name
        assert "Expect" in about, workload.name


def test_a_name_stands_for_its_family_too() -> None:
    listed = run("--list", "--workload", "W2").stdout

    assert ["W2-soft", "W2-hard", "W2-soft-feed", "W2-threads"] == [
        line.split()[0] for line in listed.splitlines() if line.startswith("W")
    ]


def test_an_unknown_workload_is_refused_in_one_line() -> None:
    ended = run("--workload", "W99")

    assert ended.returncode == 2
    assert "there is no workload 'W99'" in ended.stderr


def test_workloads_and_peers_may_be_named_one_by_one_and_in_any_capitalisation() -> None:
    listed = run("--list", "--workload", "w10", "--workload", "Scan", "W12-Open").stdout

    assert [
        "W10-get",
        "W10-range",
        "W10-count",
        "W10-count-feed",
        "W12-open",
        "W12-open-million",
        "scan",
    ] == [line.split()[0] for line in listed.split("\n\n")[0].splitlines()]
    assert 0 == run("--list", "--peer", "Raw", "--peer", "REACTDB").returncode


def test_json_without_a_file_is_standard_output(
    quick: tuple[str, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, found = quick
    file = tmp_path / "figures.json"
    file.write_text(json.dumps(found))

    for options in (["--json"], ["--json", "-"]):
        assert 0 == main(["--from", str(file), *options])
        assert found["workloads"] == json.loads(capsys.readouterr().out)["workloads"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--json", "nowhere/figures.json"], "--json cannot write nowhere/figures.json"),
        (["--from", "nothing.json"], "--from cannot read nothing.json: No such file or directory"),
        (["--from", "README.md"], "--from takes files that --json wrote"),
        (["--others", "0"], "--others is a number from 1"),
    ],
)
def test_a_wrong_option_is_told_before_anything_is_measured(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "README.md").write_text("# not figures")
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert 2 == ended.value.code
    assert words in capsys.readouterr().err
