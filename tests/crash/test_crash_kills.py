"""Kills: the short form of `python -m tests.crash --kills`, and a proof that it notices broken stores."""

from __future__ import annotations

import copy
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import reactdb
from reactdb import row
from tests.crash.__main__ import main
from tests.crash.broken import MUTANTS
from tests.crash.check import check
from tests.crash.consumer import FEEDS, feed_of, line_of, read_lines
from tests.crash.kills import Nursery, Outcome, noticed, run_scenario
from tests.crash.lanes import Holding, Lane, found
from tests.crash.raw import look
from tests.crash.records import Life, Memory, Op

if not hasattr(os, "fork"):
    pytest.skip("processes are made with fork() here", allow_module_level=True)

# Kills in each of the scenarios. A round may kill up to four processes, so that there are a few more.
SCENARIOS = dict.fromkeys((11, 12, 13, 14), 15)
# Those that need few kills; `python -m tests.crash --prove` has the others too.
QUICKLY_NOTICED = (
    "acknowledged_before_commit",
    "transaction_in_two_halves",
    "index_not_maintained",
    "feed_told_before_commit",
    "token_one_ahead",
)


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """Where the processes come from that are killed."""
    nursery = Nursery()
    yield nursery
    nursery.close()


class TestKills:
    @pytest.mark.parametrize(
        "seed",
        [
            seed if seed == min(SCENARIOS) else pytest.param(seed, marks=pytest.mark.slow)
            for seed in SCENARIOS
        ],
    )
    def test_nothing_acknowledged_is_lost_and_nothing_is_there_in_part(self, nursery, seed):
        outcome = run_scenario(seed, SCENARIOS[seed], span_s=0.15, nursery=nursery)

        assert [] == outcome.losses
        assert outcome.kills >= SCENARIOS[seed]
        assert outcome.acknowledged

    @pytest.mark.slow
    def test_so_it_is_where_history_goes_beside_the_writers(self, nursery):
        """The short form of `python -m tests.crash --auto-kills 2000`."""
        outcome = run_scenario(21, 40, span_s=0.2, is_auto=True, nursery=nursery)

        assert [] == outcome.losses
        assert outcome.acknowledged

    def test_there_are_enough_of_them(self):
        assert sum(SCENARIOS.values()) >= 60

    @pytest.mark.slow
    @pytest.mark.parametrize("mutant", QUICKLY_NOTICED)
    def test_a_broken_store_is_noticed(self, nursery, mutant):
        assert noticed(mutant, 1, 100, nursery).losses

    @pytest.mark.long
    @pytest.mark.parametrize("mutant", MUTANTS)
    def test_every_broken_store_is_noticed(self, nursery, mutant):
        assert noticed(mutant, 100, 400, nursery).losses


class TestTheCommand:
    @pytest.mark.parametrize(("losses", "status", "words"), [([], 0, "nothing lost"), (["gone"], 1, "gone")])
    def test_the_exit_code_says_whether_anything_was_lost(self, monkeypatch, capsys, losses, status, words):
        def scenario(seed: int, kills: int, **_: Any) -> Outcome:
            return Outcome(seed, kills, losses=list(losses))

        monkeypatch.setattr("tests.crash.kills.run_scenario", scenario)

        assert status == main(["--kills", "50", "--seed", "3"])
        printed = capsys.readouterr().out
        assert words in printed
        assert "seed 5: 10 kills" in printed
        assert "50 kills" in printed

    def test_it_must_be_said_what_to_do(self, capsys):
        with pytest.raises(SystemExit) as caught:
            main([])

        assert 2 == caught.value.code
        assert "--kills N" in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------------------------
# The checker, on files that nobody killed


class Written:
    """A file that two lanes wrote to, what they told of it, and two feeds that were followed."""

    def __init__(self, folder: Path, keep: int | None = None) -> None:
        self.folder = folder
        self.path = folder / "kills.db"
        self.life = Life(None)
        with reactdb.connect(self.path, durability="soft") as db:
            found(db, self.life.take, "1")
            start = db.token
            lanes = [Lane(name, db, Holding(), Random(name), self.life.take, "1") for name in ("L1", "L2")]
            for _ in range(40):
                for lane in lanes:
                    lane.step()
            while not self.is_rich(lanes[0]):
                lanes[0].step()
            self.follow(db, start)
            if keep is not None:
                db.compact(keep)
                self.life.take({"op": "upkeep", "kind": "compact", "keep": keep})

    def is_rich(self, lane: Lane) -> bool:
        """There is something of everything that is going to be damaged."""
        newest = list(self.life.ops.values())[-1]
        indexed = {table for table, _ in lane.holding.indexes if lane.holding.tables[table]}
        return newest.kind == "transaction" and len(newest.changes) > 1 and "docs" in indexed

    def follow(self, db: Any, start: str) -> None:
        for name in FEEDS:
            lines = [{"begin": True, "token": start}]
            feed = feed_of(db, name, start)
            with feed.cursor() as cursor:
                try:
                    while True:
                        lines.append(line_of(cursor.next(timeout=0.05), feed.token))
                except TimeoutError:
                    self.write_lines(name, lines)

    def write_lines(self, name: str, lines: list[dict[str, Any]]) -> None:
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (self.folder / f"{name}.feed").write_text(text, encoding="utf-8")

    @property
    def newest(self) -> Op:
        return list(self.life.ops.values())[-1]

    def losses(self) -> list[str]:
        to = self.folder / "rows.json"
        look({"path": str(self.path), "to": str(to)})
        return check(self.path, json.loads(to.read_bytes()), Memory(), [self.life], self.folder)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return Written(tmp_path_factory.mktemp("written"))


@pytest.fixture
def written(original: Written, tmp_path: Path) -> Written:
    """A copy, to be damaged."""
    shutil.copytree(original.folder, tmp_path / "copy")
    copied = copy.deepcopy(original)
    copied.folder = tmp_path / "copy"
    copied.path = copied.folder / "kills.db"
    return copied


Damage = Callable[[Written], None]


def by_sql(statement: str) -> Damage:
    def damage(written: Written) -> None:
        connection = sqlite3.connect(written.path)
        with connection:
            assert connection.execute(statement).rowcount > 0
        connection.close()

    return damage


def by_reactdb(change: Callable[[Any], Any]) -> Damage:
    def damage(written: Written) -> None:
        with reactdb.connect(written.path, durability="soft") as db:
            change(db)

    return damage


def by_lines(name: str, change: Callable[[list[dict[str, Any]]], None]) -> Damage:
    def damage(written: Written) -> None:
        lines = read_lines(written.folder / f"{name}.feed")
        change(lines)
        written.write_lines(name, lines)

    return damage


def tell_of_a_write_that_is_not_there(written: Written) -> None:
    document = {"id": "L1:x", "lane": "L1", "op": "L1-1.999", "score": 1, "room": 1, "tags": [], "pad": ""}
    steps = [["put", "docs", "L1:x", "insert", document]]
    written.life.take({"op": "L1-1.999", "lane": "L1", "kind": "single", "steps": steps})
    written.life.take({"done": "L1-1.999", "seq": None})


def announce_one_more_step_of_an_open_write(written: Written) -> None:
    newest = written.newest
    newest.state, newest.seq = "open", None
    newest.steps.append(["put", "docs", "L1:x", "insert", {"id": "L1:x"}])


def call_the_newest_write_refused(written: Written) -> None:
    written.newest.state = "failed"


def acknowledge_the_newest_before_the_first_began(written: Written) -> None:
    written.newest.ended = 0


def acknowledge_at_another_place(written: Written) -> None:
    assert written.newest.seq is not None
    written.newest.seq -= 1


# One superseded entry of a document.
SUPERSEDED = "(SELECT max(l.prev) FROM log l JOIN log p ON p.seq = l.prev WHERE p.body IS NOT NULL AND l.body IS NOT NULL)"
DAMAGES: dict[str, Damage] = {
    "an acknowledged write is missing": tell_of_a_write_that_is_not_there,
    "a write under way is there in part": announce_one_more_step_of_an_open_write,
    "a refused write is there": call_the_newest_write_refused,
    "the log's order is not that of time": acknowledge_the_newest_before_the_first_began,
    "a write has another place than was said": acknowledge_at_another_place,
    "a log entry is missing": by_sql(f"DELETE FROM log WHERE seq = {SUPERSEDED}"),
    "a head is that of before": by_sql(
        f"UPDATE heads SET seq = {SUPERSEDED} WHERE seq = (SELECT seq FROM log WHERE prev = {SUPERSEDED})"
    ),
    "a head is missing": by_sql("DELETE FROM heads WHERE seq = (SELECT max(seq) FROM heads)"),
    "a grave is missing": by_sql("DELETE FROM graves WHERE seq = (SELECT max(seq) FROM graves)"),
    "an index entry is missing": by_sql(
        "DELETE FROM entries WHERE (index_id, value, key, tag) IN (SELECT * FROM entries LIMIT 1)"
    ),
    "the low-water mark is too high": by_sql("UPDATE facts SET value = value + 9 WHERE name = 'low_water'"),
    "history is gone that nobody removed": by_reactdb(lambda db: db.compact(0)),
    "money is gone": by_reactdb(lambda db: db.table("accounts").get("1").update({"euros": 0})),
    "a document is there that nobody wrote": by_reactdb(
        lambda db: db.table("docs").insert(
            {"id": "L1:x", "lane": "L1", "op": "L1-1.999", "score": 1, "room": 1, "tags": []}
        )
    ),
    "a table is there that nobody made": by_reactdb(lambda db: db.table_create("own_L1_c")),
    "an index is there that nobody made": by_reactdb(
        lambda db: db.table("docs").index_create("L2_pair", [row["room"], row["score"]])
    ),
    "a feed was not told of one change": by_lines("all", lambda lines: lines.pop(5)),
    "a feed was told twice": by_lines("all", lambda lines: lines.insert(5, lines[5])),
    "a feed was told something else": by_lines("all", lambda lines: lines[5].update(new=1)),
    "a filtered feed was not told of one change": by_lines("high", lambda lines: lines.pop(5)),
    "a filtered feed was told of too many": by_lines(
        "high", lambda lines: lines[5].update(seq=lines[5]["seq"] - 1)
    ),
}


class TestTheChecker:
    @pytest.mark.parametrize("keep", [None, 100, 5, 0])
    def test_it_says_nothing_where_all_is_well(self, tmp_path, keep):
        assert [] == Written(tmp_path, keep).losses()

    def test_a_write_under_way_may_be_there_whole(self, written):
        written.newest.state, written.newest.seq = "open", None

        assert [] == written.losses()

    @pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
    def test_it_notices_that(self, written, damage):
        damage(written)

        assert written.losses()

    def test_it_notices_that_there_is_no_database_any_more(self, original):
        assert check(original.path, None, Memory(), [original.life], original.folder)
