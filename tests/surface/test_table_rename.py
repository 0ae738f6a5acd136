"""`table_rename`: the table keeps everything but its name, for every reader and for the past."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb import row
from reactdb.dialects.rethinkdb import tables as rethinkdb_tables
from reactdb.dialects.rethinkdb.values import TableName
from reactdb.errors import InvalidName, TableExists, TableNotFound, UsageError


@pytest.fixture
def named(db: Any, games: Any) -> Any:
    """A database with three documents in `games`, which has an index."""
    games.index_create("score")
    games.insert([{"id": key, "score": key * 10} for key in range(3)])
    return db


def test_documents_indexes_and_history_stay(named: Any) -> None:
    assert {"tables_renamed": 1} == named.table_rename("games", "matches")

    matches = named["matches"]
    assert ["matches"] == named.table_list()
    assert [0, 1, 2] == matches["id"].run()
    assert "score" == matches.filter(score=10).explain()["index"]
    assert ["matches"] == [change.table for change in matches.get(1).history()]


def test_the_old_name_is_gone_and_free(named: Any) -> None:
    old = named["games"]
    named.table_rename("games", "matches")

    for use in (old.run, lambda: old.insert({"id": 9}), lambda: old.get(1).run(), old.changes):
        with pytest.raises(TableNotFound):
            use()
    named.table_create("games")
    assert [] == named["games"].run()


def test_a_rename_is_one_commit_and_can_be_rolled_back(named: Any) -> None:
    with pytest.raises(ValueError, match="no"), named.transaction() as transaction:
        transaction.table_rename("games", "matches")
        assert "matches" in transaction
        assert 3 == transaction["matches"].count().run()
        raise ValueError("no")

    assert ["games"] == named.table_list()
    assert 3 == named["games"].count().run()


def test_the_past_has_the_name_of_its_time_and_the_log_the_new_one(named: Any) -> None:
    before = named.seq
    named.table_rename("games", "matches")

    past = named.at(before)
    assert (True, False) == ("games" in past, "matches" in past)
    assert 3 == past["games"].count().run()
    assert {"matches"} == {change.table for change in named.log(table="matches")}
    assert [{"table": "games", "table_id": 1, "new_name": "matches"}] == [
        dict(change.catalogue) for change in named.log() if change.kind == "table_rename"
    ]


def test_feeds_of_the_table_continue(named: Any) -> None:
    heard: list[Any] = []
    games = named["games"]
    for selection in (games, games.get(9), games.filter(score=90), games.order_by(index="score").limit(9)):
        selection.changes().subscribe(heard.append, heard.append)

    named.table_rename("games", "matches")
    named["matches"].insert({"id": 9, "score": 90})

    assert [{"old_val": None, "new_val": {"id": 9, "score": 90}}] * 4 == heard


def test_a_feed_of_all_tables_moves_the_documents(named: Any) -> None:
    copy = {("games", document["id"]): document for document in named["games"]}

    def apply(event: Any) -> None:
        for side in ("old_val", "new_val"):
            if event[side] is not None:
                copy[event["table"], event[side]["id"]] = event["new_val"]

    named.changes().subscribe(apply)
    named.table_rename("games", "matches")

    assert {("matches", 0), ("matches", 1), ("matches", 2)} == {key for key, new in copy.items() if new}


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("nope", "matches", TableNotFound),
        ("games", "others", TableExists),
        ("games", "games", TableExists),
        ("games", "a b", InvalidName),
        ("games", "", InvalidName),
        (5, "matches", InvalidName),
        ("games", None, InvalidName),
    ],
)
def test_what_cannot_be_renamed_stays(named: Any, old: Any, new: Any, error: type[Exception]) -> None:
    named.table_create("others")

    with pytest.raises(error):
        named.table_rename(old, new)
    assert ["games", "others"] == named.table_list()


def test_the_past_cannot_be_renamed(named: Any) -> None:
    with pytest.raises(reactdb.errors.PastIsReadOnly, match="table_rename"):
        named.at(named.seq).table_rename("games", "matches")


def test_a_table_that_is_kept_equal_to_a_selection_keeps_its_name(named: Any) -> None:
    with named.materialize(named["games"].count(), "counts"):
        with pytest.raises(UsageError, match="kept equal to a selection by"):
            named.table_rename("counts", "totals")

        assert ["counts", "games"] == named.table_list()


def test_a_view_of_a_renamed_table_is_built_again_with_the_new_name(named: Any) -> None:
    named.materialize(named["games"].count(), "counts").close()
    named.table_rename("games", "matches")
    named["matches"].insert({"id": 9})

    with named.materialize(named["matches"].count(), "counts", rebuild=True):
        assert [4] == named["counts"]["count"].run()


def test_a_consumer_continues_from_its_position_with_the_new_name(named: Any) -> None:
    consumer = named.consumer("mail", named["games"])
    named["games"].insert({"id": 7})
    named.table_rename("games", "matches")

    with pytest.raises(TableNotFound):
        next(iter(consumer.batches(max_wait_s=0)))
    position = consumer.status()[0]["seq"]
    again = named.consumer("mail", named["matches"], reset=True, since=position)
    batch = next(iter(again.batches(max_wait_s=0)))
    assert [7] == [change["new_val"]["id"] for change in batch]


def test_notes_of_rethinkdbs_tables_move_along(named: Any) -> None:
    settings = rethinkdb_tables.SETTINGS
    settings.put(named, TableName("test", "games"), {"durability": "soft"})

    named.table_rename("games", "matches")

    note = settings.get(named, TableName("test", "matches"))
    assert note is not None
    assert ("soft", "matches") == (note["durability"], note["table"])
    assert settings.get(named, TableName("test", "games")) is None


PROGRAM = """
import sys, reactdb
db = reactdb.connect(sys.argv[1])
games = db["games"]
with games.changes().cursor() as cursor:
    print("ready", flush=True)
    print(cursor.next(timeout=60)["new_val"], flush=True)
print(db.table_list())
try:
    games.insert({"id": 5})
except reactdb.TableNotFound as error:
    print(error)
"""


def test_another_process_notices_the_new_name(path: Path) -> None:
    with reactdb.connect(path) as db:
        db.table_create("games")
        command = [sys.executable, "-c", PROGRAM, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            assert "ready\n" == other.stdout.readline()
            db.table_rename("games", "matches")
            db["matches"].insert({"id": 1})
            lines = other.stdout.read().splitlines()

        assert ["{'id': 1}", "['matches']", "Table `games` does not exist."] == lines
        assert 0 == other.returncode
        assert 1 == db["matches"].filter(row["id"] == 1).count().run()
