"""A document of the past is found by its key's own entries. Damage to one of them is an error; damage to others is not met."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

import reactdb
from reactdb.errors import CorruptDatabase, HistoryLost

KEPT = 3
"""The seq at which the documents have their first content."""


@pytest.fixture
def path(tmp_path: Any) -> str:
    """Seqs: 1 the table; 2 and 3 the first contents of "a" and "b"; then "b" has the even seqs, and "a" the odd ones, up to 9;
    10 and 11 delete and insert "b"."""
    where = str(tmp_path / "past.db")
    with reactdb.connect(where) as db:
        table = db.table_create("t")
        table.insert([{"id": "a", "n": 0}, {"id": "b", "n": 0}])
        for n in range(1, 4):
            table.get("b").update({"n": n})
            table.get("a").update({"n": n})
        table.get("b").delete()
        table.insert({"id": "b", "n": 99})
    return where


def change_file(path: str, statement: str) -> None:
    with sqlite3.connect(path) as other:
        other.execute(statement)
    other.close()


def test_the_document_is_found_at_every_seq(path: str) -> None:
    with reactdb.connect(path) as db:
        found = [db.at(seq).table("t").get("b").run() for seq in range(1, 12)]

    assert found == [
        None if n is None else {"id": "b", "n": n} for n in (None, None, 0, 1, 1, 2, 2, 3, 3, None, 99)
    ]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE log SET body = x'80' WHERE seq = 6",
        "UPDATE log SET prev = 3 WHERE seq = 8",
        "UPDATE log SET prev = 10 WHERE seq = 6",
        "UPDATE log SET prev = 'text' WHERE seq = 6",
        "UPDATE log SET seal = seal + 1 WHERE seq = 4",
        "UPDATE log SET kind = 0 WHERE seq = 4",
        "UPDATE log SET body = x'80' WHERE seq = 3",
        "UPDATE log SET body = NULL WHERE seq = 3",
        "DELETE FROM log WHERE seq = 3",
        "DELETE FROM log WHERE seq = 6",
        "DELETE FROM log WHERE seq = 11",
        # The list of current versions leads to the entry of another document, or to none.
        "UPDATE heads SET seq = 9 WHERE seq = 11",
        "UPDATE heads SET seq = 99 WHERE seq = 11",
        "UPDATE heads SET seq = 'text' WHERE seq = 11",
    ],
)
def test_damage_to_an_entry_of_the_key_is_an_error(path: str, damage: str) -> None:
    change_file(path, damage)
    with reactdb.connect(path) as db:
        with pytest.raises(CorruptDatabase):
            db.at(KEPT).table("t").get("b").run()
        with pytest.raises(CorruptDatabase):
            db.at(KEPT).table("t").get_all("a", "b").run()
        # The key `a` has other entries.
        assert db.at(KEPT).table("t").get("a").run() == {"id": "a", "n": 0}


def test_a_chain_longer_than_a_page_is_followed_to_its_end(path: str) -> None:
    with reactdb.connect(path) as db:
        with db.transaction():
            for n in range(1_200):
                db.table("t").get("a").update({"n": 100 + n})
        for seq in (2, 9, 12, 500, 711, 712, 1_210, db.seq):
            wanted = db.at(seq).table("t").run()
            found = [db.at(seq).table("t").get(key).run() for key in "ab"]
            assert found == [next((one for one in wanted if one["id"] == key), None) for key in "ab"]
    change_file(path, "UPDATE log SET seal = seal + 1 WHERE seq = 600")
    with reactdb.connect(path) as db:
        assert db.at(700).table("t").get("a").run() == {"id": "a", "n": 788}
        with pytest.raises(CorruptDatabase):
            db.at(599).table("t").get("a").run()


def test_history_that_was_removed_is_lost_to_views_of_the_past_too(path: str) -> None:
    with reactdb.connect(path) as db:
        unread, used, kept = db.at(4), db.at(4), db.at(9)
        assert 2 == len(used.table("t").run())
        db.compact(keep=2)

        with pytest.raises(HistoryLost, match="4"):
            unread.table("t").get("a").run()
        # It has read all changes since.
        assert used.table("t").get("b").run() == {"id": "b", "n": 1}
        assert kept.table("t").get("b").run() == {"id": "b", "n": 3}
        assert db.at(10).table("t").get("b").run() is None


def test_a_get_of_a_renamed_table_of_the_past(path: str) -> None:
    with reactdb.connect(path) as db:
        db.table_rename("t", "u")
        renamed = db.seq
        db.table_create("t").insert({"id": "a", "n": -1})
        db.table("u").get("a").update({"n": 50})
        db.table_drop("u")

        assert db.at(KEPT).table("t").get("a").run() == {"id": "a", "n": 0}
        assert db.at(renamed).table("u").get("a").run() == {"id": "a", "n": 3}
        assert db.at(db.seq - 1).table("u").get("a").run() == {"id": "a", "n": 50}
        assert db.at(db.seq - 1).table("t").get("a").run() == {"id": "a", "n": -1}
