"""The schedule of the swarm, and its referee, which is shown right and wrong histories. Long: `python -m tests.swarm`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from sqlite3 import connect as connect_to_sqlite
from typing import Any

import pytest

import reactdb
from tests.faults import shim
from tests.one_story.story import TABLE
from tests.one_story.ways import WAYS, Native, Way
from tests.swarm import mistakes, schedule
from tests.swarm.schedule import TASK, WORKERS, round_of

ROOT = Path(__file__).resolve().parents[2]

needs_dialects = pytest.mark.skipif(len(WAYS) < 5, reason="it needs the clients of all dialects")


def test_a_seed_gives_the_same_schedule_each_time_and_another_seed_another():
    assert [round_of(7, number) for number in range(20)] == [round_of(7, number) for number in range(20)]
    assert round_of(7, 1) != round_of(8, 1)
    assert round_of(7, 1) != round_of(7, 2)


def test_the_schedule_does_everything_to_everybody():
    rounds = [round_of(1, number) for number in range(100)]
    actions = [action for round in rounds for action in round.actions]
    kinds = {schedule.KILL, schedule.STOP, schedule.GO_ON, schedule.DISK_FULL, schedule.DISK_FREE}
    kinds |= {schedule.SLOW_FLUSHES, schedule.CLOCK, *schedule.TASKS}

    assert {action.what for action in actions} == kinds
    assert {action.who for action in actions if action.what == schedule.KILL} == {*WORKERS, TASK}
    assert {action.who for action in actions if action.what == schedule.STOP} == set(WORKERS)
    assert {round.is_killed for round in rounds} == {True, False}
    assert all(
        list(round.actions) == sorted(round.actions, key=lambda action: action.at_s) for round in rounds
    )


# ---------------------------------------------------------------------------------------------------------------
# The referee

LANE = "native-a.1.1.1"
ONE, TWO = f"{LANE}.0", f"{LANE}.1"


class Round:
    """A round of one lane, which is written here and told to a referee."""

    def __init__(self, folder: Path, ways: Sequence[type[Way]]) -> None:
        from tests.swarm.referee import Referee

        self.referee = Referee(folder, ways)
        self.referee.prepare()
        self.path = folder / "here.db"
        self.db = reactdb.connect(self.path)
        self.table = self.db.table(TABLE)

    def say(self, *words: Any) -> None:
        self.referee.hear(list(words))

    def put(self, *keys: str, number: int) -> None:
        with self.db.transaction():
            for key in keys:
                self.table.insert({"_id": key, "n": number}, conflict="replace")

    def judge(self) -> list[str]:
        self.db.close()
        return self.referee.judge()


@pytest.fixture
def ways():
    return [Native]


@pytest.fixture
def round_(tmp_path, ways):
    """Three writes: of one document, of two, and its deletion."""
    played = Round(tmp_path, ways)
    played.say("begin", LANE, 1, [[ONE, 1]])
    played.put(ONE, number=1)
    played.say("done", LANE, 1)
    played.say("begin", LANE, 2, [[ONE, 2], [TWO, 2]])
    played.put(ONE, TWO, number=2)
    played.say("done", LANE, 2)
    played.say("begin", LANE, 3, [[TWO, None]])
    played.table.get(TWO).delete()
    played.say("done", LANE, 3)
    yield played
    played.db.close()


@pytest.mark.slow
@needs_dialects
@pytest.mark.parametrize("ways", [WAYS], ids=["all dialects"])
def test_a_right_round_is_right_and_the_next_one_begins(round_):
    round_.say("begin", LANE, 4, [[ONE, 4]])
    round_.put(ONE, number=4)
    first = round_.judge()

    assert [] == first
    assert [] == round_.judge()


def announced_and_not_made(round_: Round) -> None:
    round_.say("begin", LANE, 4, [[ONE, 4]])
    round_.say("done", LANE, 4)


def made_and_not_announced(round_: Round) -> None:
    round_.put(ONE, number=5)


def made_by_nobody(round_: Round) -> None:
    round_.put("native-a.1.9.9.0", number=1)


def half_of_one_in_doubt(round_: Round) -> None:
    round_.say("begin", LANE, 4, [[ONE, 4], [TWO, 4]])
    round_.put(ONE, number=4)


def refused_and_made(round_: Round) -> None:
    round_.say("begin", LANE, 4, [[ONE, 4]])
    round_.put(ONE, number=4)
    round_.say("failed", LANE, 4)


def made_in_another_order(round_: Round) -> None:
    for number, key in ((4, ONE), (5, TWO)):
        round_.say("begin", LANE, number, [[key, number]])
        round_.say("done", LANE, number)
    round_.put(TWO, number=5)
    round_.put(ONE, number=4)


def not_given_to_the_outside(round_: Round) -> None:
    from tests.swarm.workers import OUTBOX, consumer

    with consumer(round_.db, OUTBOX) as worker, worker.poll() as batch:
        list(batch)


def noted_twice(round_: Round) -> None:
    round_.db.table("done").insert({"seqs": [round_.db.seq]})


def told_twice(round_: Round) -> None:
    for _ in range(2):
        round_.say("told", first_change(round_), ONE, None, 1, round_.db.token)


def told_of_another_change(round_: Round) -> None:
    round_.say("told", first_change(round_), ONE, None, 7, round_.db.token)


def first_change(round_: Round) -> int:
    return next(change.seq for change in round_.db.log(table=TABLE))


def another_backup(round_: Round) -> None:
    copy = round_.path.with_name("backup.copy")
    with closing(connect_to_sqlite(round_.path)) as source, closing(connect_to_sqlite(copy)) as target:
        source.backup(target)
    # Nobody's write, in the copy alone: then it has one change more than the file had at its position.
    with reactdb.connect(copy) as db:
        db.table(TABLE).get(ONE).delete()
    round_.say("backup", str(copy))


def another_document_at_the_other_side(round_: Round) -> None:
    with reactdb.connect(round_.path.with_name("there.db")) as db:
        db.table(TABLE).insert({"_id": "there.1.1.1.0", "n": 1})


def a_process_that_failed(round_: Round) -> None:
    round_.say("error", "it ended by itself")


WRONG: list[tuple[Callable[[Round], None], str]] = [
    (announced_and_not_made, "lane native-a.1.1.1 has 4 changes, and should have 5"),
    (made_and_not_announced, "lane native-a.1.1.1 has 5 changes, and should have 4"),
    (made_by_nobody, "nobody announced what lane native-a.1.9.9 wrote"),
    (
        half_of_one_in_doubt,
        "lane native-a.1.1.1 has 5 changes, and should have 4, or with the one in doubt 6",
    ),
    (refused_and_made, "lane native-a.1.1.1 has 5 changes, and should have 4"),
    (made_in_another_order, "first difference: in place 4"),
    (not_given_to_the_outside, "the consumer to the outside was not given each change"),
    (noted_twice, "the ledger does not have each change once"),
    (told_twice, "the follower was not told each change once"),
    (told_of_another_change, "where others have"),
    (another_backup, "a backup at"),
    (another_document_at_the_other_side, "nobody announced what lane there.1.1.1 wrote"),
    (a_process_that_failed, "it ended by itself"),
]


@needs_dialects
@pytest.mark.parametrize(("wrong", "sentence"), WRONG, ids=[wrong.__name__ for wrong, _ in WRONG])
def test_what_is_wrong_is_noticed(round_, wrong, sentence):
    wrong(round_)

    assert any(sentence in problem for problem in round_.judge())


# ---------------------------------------------------------------------------------------------------------------
# All of it


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.swarm", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=280,
    )


@pytest.mark.slow
@needs_dialects
@pytest.mark.skipif(bool(shim.why_not()), reason=shim.why_not() or "it can be done")
def test_a_round_of_everything_at_once_breaks_no_promise():
    found = run("--rounds", "2", "--seed", "3")

    assert 0 == found.returncode, found.stdout + found.stderr
    assert "2 rounds" in found.stdout


@pytest.mark.slow
@needs_dialects
@pytest.mark.skipif(bool(shim.why_not()), reason=shim.why_not() or "it can be done")
@pytest.mark.parametrize("mistake", [mistakes.NOT_WRITTEN, mistakes.NOT_DELIVERED, mistakes.FORGOTTEN])
def test_a_mistake_is_noticed(mistake):
    found = run("--rounds", "3", "--break", mistake)

    assert 1 == found.returncode, found.stdout + found.stderr
    assert "BROKEN" in found.stdout
