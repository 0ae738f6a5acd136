"""The short form of the soak, and a proof that the referee sees mistakes. The long form: `python -m tests.soak --minutes 10`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak import referee
from tests.soak.stage import Usage

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.skipif(sys.platform == "win32", reason="it stops and kills with signals")
@pytest.mark.slow
def test_many_processes_lose_nothing_and_double_nothing():
    """A few seconds of each scenario that is about loss: killed and stopped at random, spawned and forked."""
    scenarios = ["kills-spawn", "kills-fork", "mixed-versions", "steady", "stopped-holder"]
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-m", "tests.soak", "--minutes", "0.35"]
    command += ["--writers", "2", "--followers", "2"]
    for scenario in scenarios:
        command += ["--scenario", scenario]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=240,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    assert 0 == done.returncode, done.stdout + done.stderr
    assert "5 scenarios, 0 failed" in done.stdout


LOG = [
    "1 games counter - aa",
    "2 games counter aa ab",
    "3 games w.0.1 - cc",
    "4 pairs w.0.2/a - dd",
    "5 pairs w.0.2/b - ee",
    "6 games w.0.1 cc -",
]
WRITER = ["life 0", "c", "+w.0.1", "=w.0.2", "-w.0.1"]


def written(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


class TestReferee:
    def test_what_is_right_is_right(self, tmp_path):
        followers = [written(tmp_path / name, LOG) for name in "ab"]
        log, problems = referee.the_log(followers, 6)
        documents, more = referee.replay(log)

        assert [] == problems + more
        assert {
            ("games", "counter"): "ab",
            ("pairs", "w.0.2/a"): "dd",
            ("pairs", "w.0.2/b"): "ee",
        } == documents
        assert (4, []) == referee.judge_writers([written(tmp_path / "w", WRITER)], log)

    @pytest.mark.parametrize(
        "lines",
        [LOG[:3] + LOG[4:], LOG[:3] + LOG[2:], LOG[:5], [*LOG[:1], LOG[2], LOG[1], *LOG[3:]], LOG[1:]],
        ids=["lost", "doubled", "the last lost", "out of order", "the first lost"],
    )
    def test_a_follower_that_is_told_less_or_more_is_found(self, tmp_path, lines):
        followers = [written(tmp_path / "a", LOG), written(tmp_path / "b", lines)]

        assert referee.the_log(followers, 6)[1]

    def test_followers_that_are_told_different_things_are_found(self, tmp_path):
        other = [*LOG[:2], LOG[2].replace("cc", "xx"), *LOG[3:]]
        followers = [written(tmp_path / "a", LOG), written(tmp_path / "b", other)]

        assert referee.the_log(followers, 6)[1]

    def test_a_line_that_was_not_finished_does_not_count(self, tmp_path):
        path = written(tmp_path / "a", LOG)
        path.write_text(path.read_text() + "7 games")

        assert len(LOG) == len(referee.lines_of(path))

    @pytest.mark.parametrize(
        ("lines", "words"),
        [
            ([*WRITER, "+w.0.9"], "acknowledged insert"),
            ([*WRITER, "-w.0.9"], "acknowledged deletion"),
            ([*WRITER, "=w.0.9"], "acknowledged pair"),
            ([*WRITER, "c"], "increments"),
        ],
    )
    def test_an_acknowledged_write_that_is_not_there_is_found(self, tmp_path, lines, words):
        log, _ = referee.the_log([written(tmp_path / "a", LOG)], 6)
        _, problems = referee.judge_writers([written(tmp_path / "w", lines)], log)

        assert any(words in problem for problem in problems)

    def test_a_half_of_a_transaction_is_found(self, tmp_path):
        log, _ = referee.the_log([written(tmp_path / "a", LOG[:4])], 4)
        _, problems = referee.judge_writers([written(tmp_path / "w", WRITER[:3])], log)

        assert any("a half is there" in problem for problem in problems)

    def test_an_old_value_that_never_was_is_found(self, tmp_path):
        lines = [*LOG[:1], "2 games counter zz ab", *LOG[2:]]
        log, _ = referee.the_log([written(tmp_path / "a", lines)], 6)

        assert referee.replay(log)[1]


class TestTrends:
    @pytest.mark.parametrize("place", [1, 2, 3])
    def test_what_grows_is_found(self, place):
        usage = Usage([(float(n), 50 << 20, 20, 5) for n in range(100)])
        assert [] == usage.trends("actor")
        for n, sample in enumerate(usage.samples):
            grown = list(sample)
            grown[place] += n * (1 << 20 if place == 1 else 1)
            usage.samples[n] = tuple(grown)  # type: ignore[call-overload]

        assert 1 == len(usage.trends("actor"))

    def test_what_is_as_large_as_it_was_is_no_trend(self):
        usage = Usage([(float(n), (50 + n % 7) << 20, 20 + n % 3, 5 + n % 2) for n in range(100)])

        assert [] == usage.trends("actor")
