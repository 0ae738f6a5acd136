"""What a count by entries notices of damage, as docs/explanation/promises.md says it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb import CorruptDatabase, row
from reactdb.store.tools import doctor

COUNT = 40
ASKED: dict[str, Any] = {
    "range": lambda games: games.between(0, 5, index="score"),
    "filter": lambda games: games.filter(row["score"] < 5),
    "keys": lambda games: games.between(0, 20),
}


def damage(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    assert connection.execute(statement).rowcount == 1
    connection.commit()
    connection.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "games.db"
    with reactdb.connect(path) as db:
        games = db.table_create("games")
        games.index_create("score")
        games.insert([{"id": n, "score": n % 10} for n in range(COUNT)])
    return path


@pytest.mark.parametrize("name", ASKED)
def test_a_damaged_document_is_counted_and_noticed_when_it_is_read(path: Path, name: str) -> None:
    damage(
        path,
        "UPDATE log SET body = x'81a16101' WHERE seq = (SELECT max(seq) FROM log WHERE body IS NOT NULL) - 39",
    )
    with reactdb.connect(path) as db:
        games = db.table("games")
        selection = ASKED[name](games)

        assert selection.count().run() == 20
        with pytest.raises(CorruptDatabase):
            selection.run()
    assert [one for _, found in doctor.examine(str(path)) for one in found if one.level == "problem"]


@pytest.mark.parametrize("name", ["range", "filter"])
def test_a_missing_entry_of_a_small_index_is_noticed_by_a_count(path: Path, name: str) -> None:
    damage(path, "DELETE FROM entries WHERE (value, key) = (SELECT value, key FROM entries LIMIT 1)")
    with reactdb.connect(path) as db, pytest.raises(CorruptDatabase):
        ASKED[name](db.table("games")).count().run()


def test_a_missing_entry_of_a_large_index_is_noticed_by_a_count_of_all_of_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reactdb.store.sums.MOST_COMPARED", 0)
    damage(path, "DELETE FROM entries WHERE (value, key) = (SELECT value, key FROM entries LIMIT 1)")
    with reactdb.connect(path) as db:
        games = db.table("games")

        assert games.between(0, 5, index="score").count().run() == 19
        for whole in (games.order_by(index="score").count(), games.group(index="score").count()):
            with pytest.raises(CorruptDatabase):
                whole.run()
