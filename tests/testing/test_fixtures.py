"""The fixtures that give data: a copy of a filled database for each test, and servers."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb.testing.clock import START

calls: list[str] = []


@pytest.fixture(scope="session")
def reactdb_seed() -> Any:
    """As a user would define it."""

    def fill(db: Any) -> None:
        calls.append(db.path)
        players = db.table_create("players")
        players.index_create("team")
        players.insert([{"id": number, "team": number % 3} for number in range(30)])

    return fill


class TestSeeded:
    @pytest.mark.parametrize("turn", [1, 2])
    def test_each_test_has_a_copy_of_its_own_and_the_function_runs_once(self, reactdb_seeded, turn):
        players = reactdb_seeded.table("players")
        assert 30 == players.count().run()

        players.delete()

        assert 0 == players.count().run()
        assert 1 == len(calls)

    def test_a_copy_has_its_own_id(self, reactdb_seeded, reactdb_templates):
        (template,) = reactdb_templates.values()

        assert template.token.split(".")[0] != reactdb_seeded.token.split(".")[0]
        assert template.seq == reactdb_seeded.seq

    def test_it_follows_the_clock_of_the_test(self, reactdb_seeded, reactdb_clock):
        out: list[Any] = []
        players = reactdb_seeded.table("players")
        players.changes(squash=60).subscribe(out.append)
        players.get(1).update({"team": 9})
        assert [] == out

        reactdb_clock.advance_by(60)

        assert 1 == len(out)

    def test_its_data_has_the_time_with_which_virtual_clocks_begin(self, reactdb_seeded):
        assert {round(START.timestamp() * 1000)} == {change.time for change in reactdb_seeded.log()}

    def test_without_a_virtual_clock_new_changes_have_the_systems_time(self, reactdb_seeded):
        reactdb_seeded.table("players").get(1).update({"team": 9})

        (change,) = reactdb_seeded.log(since=reactdb_seeded.seq - 1)
        assert change.time > (START + timedelta(days=1)).timestamp() * 1000


def test_a_test_without_a_seed_is_told_what_to_define(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.testing.conftest import *\n", encoding="utf-8")
    (tmp_path / "test_it.py").write_text("def test_it(reactdb_seeded):\n    pass\n", encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=Path(reactdb.__file__).parent.parent,
    )

    assert 1 == done.returncode, done.stdout
    assert "reactdb_seeded needs a fixture of yours, reactdb_seed with scope='session'" in done.stdout


class TestCouchDB:
    def test_a_client_of_http_has_an_empty_couchdb(self, reactdb_couchdb):
        assert "Welcome" == reactdb_couchdb.get("/").json()["couchdb"]
        assert 201 == reactdb_couchdb.put("/notes").status_code
        assert reactdb_couchdb.put("/notes/a", json={"text": "hello"}).json()["ok"]

        assert ["a"] == [line["id"] for line in reactdb_couchdb.get("/notes/_changes").json()["results"]]

    def test_other_clients_find_it_by_its_url(self, reactdb_couchdb):
        assert str(reactdb_couchdb.base_url).startswith("http://127.0.0.1:")

    def test_generated_ids_follow_the_clock(self, reactdb_couchdb, reactdb_clock):
        reactdb_clock.advance_by(5)
        reactdb_couchdb.put("/notes")
        name = reactdb_couchdb.post("/notes", json={}).json()["id"]

        moment = START + timedelta(seconds=5)
        assert round(moment.timestamp() * 1000) == int(name.replace("-", "")[:12], 16)
