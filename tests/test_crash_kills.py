"""Kills: the bounded form of `python -m tests.crash --kills`, and that it would notice what it is there to notice."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from crash.__main__ import main
from crash.broken import MUTANTS
from crash.check import check
from crash.consumer import FEEDS, feed_of, line_of, read_lines
from crash.kills import Nursery, noticed, run, run_scenario
from crash.lanes import Holding, Lane, found
from crash.raw import look
from crash.records import Life, Memory

import reactdb

# Kills in each of the scenarios. A round may kill up to four processes, so that there are a few more.
SCENARIOS = {seed: 16 for seed in (11, 12, 13, 14)}
# Those that need few kills; `python -m tests.crash --prove` has the others too.
QUICKLY_NOTICED = ("acknowledged_before_commit", "index_not_maintained", "feed_told_before_commit", "token_one_ahead")


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """Where the processes come from that are killed."""
    nursery = Nursery()
    yield nursery
    nursery.close()


class TestKills:
    @pytest.mark.parametrize("seed", SCENARIOS)
    def test_nothing_acknowledged_is_lost_and_nothing_is_there_in_part(self, nursery, seed):
        outcome = run_scenario(seed, SCENARIOS[seed], span_s=0.15, nursery=nursery)

        assert [] == outcome.losses
        assert outcome.kills >= SCENARIOS[seed]
        assert outcome.acknowledged

    def test_there_are_enough_of_them(self):
        assert sum(SCENARIOS.values()) >= 60

    @pytest.mark.parametrize("mutant", QUICKLY_NOTICED)
    def test_a_broken_store_is_noticed(self, nursery, mutant):
        assert noticed(mutant, 1, 60, nursery).losses

    @pytest.mark.long
    @pytest.mark.parametrize("mutant", MUTANTS)
    def test_every_broken_store_is_noticed(self, nursery, mutant):
        assert noticed(mutant, 100, 400, nursery).losses


class TestTheCommand:
    def test_the_exit_code_says_whether_anything_was_lost(self, capsys):
        assert 0 == run(2, seed=3, jobs=1)
        assert "nothing lost" in capsys.readouterr().out

        assert 1 == run(60, seed=3, jobs=1, mutant="acknowledged_before_commit")
        assert "LOSS" in capsys.readouterr().out

    def test_it_must_be_said_what_to_do(self, capsys):
        with pytest.raises(SystemExit) as caught:
            main([])

        assert 2 == caught.value.code
        assert "--kills N" in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------------------------
# The checker, on a file that nobody killed


class Written:
    """A file that two lanes wrote to, what they told, and two feeds that were followed."""

    def __init__(self, folder: Path, keep: int | None) -> None:
        self.folder = folder
        self.path = folder / "kills.db"
        self.life = Life(None)
        with reactdb.connect(self.path, durability="soft") as db:
            found(db, self.life.take, "1")
            start = db.token
            lanes = [Lane(name, db, Holding(), Random(name), self.life.take, "1") for name in ("L1", "L2")]
            for _ in range(60):
                for lane in lanes:
                    lane.step()
            for lane in lanes:
                while not any(table == "docs" for table, _ in lane.holding.indexes):
                    lane.step()
                while not lane.holding.tables["docs"]:
                    lane.step()
            self._follow(db, start)
            if keep is not None:
                db.compact(keep)
                self.life.take({"op": "upkeep", "kind": "compact", "keep": keep})

    def _follow(self, db: Any, start: str) -> None:
        for name in FEEDS:
            with (self.folder / f"{name}.feed").open("w", encoding="utf-8") as file:
                lines = [{"begin": True, "token": start}]
                feed = feed_of(db, name, start)
                with feed.cursor() as cursor:
                    try:
                        while True:
                            lines.append(line_of(cursor.next(timeout=0.05), feed.token))
                    except TimeoutError:
                        pass
                file.writelines(reactdb_json(line) for line in lines)

    def execute(self, *statements: str) -> None:
        connection = sqlite3.connect(self.path)
        with connection:
            for statement in statements:
                assert connection.execute(statement).rowcount > 0, statement
        connection.close()

    def losses(self) -> list[str]:
        import json

        to = self.folder / "rows.json"
        look({"path": str(self.path), "to": str(to)})
        raw = json.loads(to.read_bytes())
        return check(self.path, raw, Memory(), [self.life], self.folder)


def reactdb_json(line: dict[str, Any]) -> str:
    import json

    return json.dumps(line) + "\n"


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path, None)


NEWEST_DOCUMENT = "(SELECT max(h.seq) FROM heads h WHERE h.table_id = (SELECT id FROM tables WHERE name = 'docs'))"
# What is done to the file -> what is said of it.
DAMAGE = {
    "an index entry is missing": ["DELETE FROM entries WHERE rowid_of = 1"],
}


class TestTheChecker:
    @pytest.mark.parametrize("keep", [None, 100, 5, 0])
    def test_says_nothing_where_all_is_well(self, tmp_path, keep):
        assert [] == Written(tmp_path, keep).losses()
