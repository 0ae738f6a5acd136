"""Tables and indexes in the log: who asked for them is told of them in their place, nobody else is, and the past has them as they
were."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb import row
from reactdb.session import session_of
from tests.support.inspection import problems
from tests.support.processes import another_process

TOLD = {"include_catalogue": True, "include_seq": True}


def rename(db: Any, old: str, new: str) -> None:
    info = session_of(db).info(old)
    session_of(db).transact(lambda transaction: transaction.rename_table(info, new))


def everything(db: Any) -> None:
    """Each kind of change to tables and indexes, with documents in between."""
    games = db.table_create("games")
    games.insert({"id": 1})
    games.index_create("n", row["a"] + 1)
    info = session_of(db).info("games")
    session_of(db).transact(lambda transaction: transaction.rename_index(info, "n", "m"))
    rename(db, "games", "matches")
    db.table("matches").insert({"id": 2})
    db.table("matches").index_drop("m")
    db.table_drop("matches")


NAMED: dict[str, Any] = {"table": "games", "table_id": 1}
INDEX: dict[str, Any] = {"index": "n", "index_id": 1}
EVENTS = [
    {"kind": "table_create", **NAMED, "primary_key": "id", "seq": 1},
    {"table": "games", "old_val": None, "new_val": {"id": 1}, "seq": 2},
    {
        "kind": "index_create",
        **NAMED,
        **INDEX,
        "expression": [
            "call",
            "add",
            [["call", "bracket", [["row"], ["constant", "a"]], {}], ["constant", 1]],
            {},
        ],
        "multi": False,
        "seq": 3,
    },
    {"kind": "index_rename", **NAMED, **INDEX, "new_name": "m", "seq": 4},
    {"kind": "table_rename", **NAMED, "new_name": "matches", "seq": 5},
    {"table": "matches", "old_val": None, "new_val": {"id": 2}, "seq": 6},
    {"kind": "index_drop", **NAMED, "table": "matches", **INDEX, "index": "m", "seq": 7},
    {"kind": "table_drop", **NAMED, "table": "matches", "seq": 8},
]


@pytest.mark.parametrize("squash", [False, True])
def test_they_are_told_in_their_place(db: Any, squash: bool):
    told: list[Any] = []
    db.changes(**TOLD, squash=squash).subscribe(told.append)

    everything(db)

    assert EVENTS == told


def test_squashed_together_none_of_them_is_left_out(db: Any):
    with db.changes(**TOLD, squash=True).cursor() as cursor:
        with db.transaction():
            everything(db)
        events = [cursor.next(timeout=5) for _ in EVENTS]

    assert [event for event in EVENTS if "kind" in event] == [event for event in events if "kind" in event]


def test_from_the_log_they_are_the_same_from_every_position(db: Any):
    everything(db)

    for seq in range(len(EVENTS)):
        with db.changes(**TOLD, since=seq).cursor() as cursor:
            found = [cursor.next(timeout=5) for _ in EVENTS[seq:]]
        # A document's table has its present name there.
        assert [
            event | {"table": "matches"} if "new_val" in event else event for event in EVENTS[seq:]
        ] == found


def test_another_process_sees_them_in_order(path: Path):
    with reactdb.connect(path) as db, another_process(path) as other:
        with other.changes(**TOLD).cursor() as cursor:
            everything(db)
            found = [cursor.next(timeout=20) for _ in EVENTS]
        assert [event["seq"] for event in EVENTS] == [event["seq"] for event in found]
        assert [event.get("kind") for event in EVENTS] == [event.get("kind") for event in found]
        assert other.seq == db.seq
    assert [] == problems(path)


def test_their_type_says_what_they_are(db: Any):
    told: list[Any] = []
    db.changes(include_catalogue=True, include_types=True).subscribe(told.append)
    db.table_create("games").insert({"id": 1})

    assert ["catalogue", "add"] == [event["type"] for event in told]


def test_who_did_not_ask_is_not_told(db: Any):
    every: list[Any] = []
    games: list[Any] = []
    db.changes().subscribe(every.append)
    db.table_create("games").changes().subscribe(games.append, lambda error: None)
    db.table("games").index_create("n")
    db.table("games").insert({"id": 1})
    db.table("games").index_drop("n")

    assert [{"table": "games", "old_val": None, "new_val": {"id": 1}}] == every
    assert [{"old_val": None, "new_val": {"id": 1}}] == games
    assert ["insert"] == [change.kind for change in db.log(table="games")]


def test_only_a_feed_of_all_tables_has_them(db: Any):
    games = db.table_create("games")

    with pytest.raises(TypeError):
        games.changes(include_catalogue=True)
    with pytest.raises(reactdb.InvalidOption):
        db.changes(include_catalogue=1)


def test_a_token_names_the_position_before_and_after_one(db: Any):
    tokens = [db.token]
    db.table_create("games")
    tokens.append(db.token)
    db.table("games").index_create("n")
    tokens.append(db.token)

    assert 3 == len(set(tokens))
    for number, token in enumerate(tokens[:2]):
        with db.changes(**TOLD, since=token).cursor() as cursor:
            assert ["table_create", "index_create"][number:] == [
                cursor.next(timeout=5)["kind"] for _ in tokens[number + 1 :]
            ]


def test_what_was_taken_back_was_never_there(db: Any):
    told: list[Any] = []
    db.changes(**TOLD).subscribe(told.append)
    with pytest.raises(ZeroDivisionError), db.transaction():
        everything(db)
        raise ZeroDivisionError
    with db.transaction():
        db.table_create("kept")
        with pytest.raises(ZeroDivisionError), db.transaction():
            everything(db)
            raise ZeroDivisionError
        db.table("kept").insert({"id": 1})

    assert [(1, "table_create"), (2, None)] == [(event["seq"], event.get("kind")) for event in told]
    assert (["kept"], 2, 2) == (db.table_list(), db.seq, len(list(db.log())))


def test_an_entry_travels(db: Any):
    everything(db)
    entries = list(db.log())
    copies = pickle.loads(pickle.dumps(entries))

    assert [(one.seq, one.kind, one.table, one.key, one.catalogue) for one in entries] == [
        (one.seq, one.kind, one.table, one.key, one.catalogue) for one in copies
    ]
    assert ["games", ["games", "n"]] == [entries[0].key, entries[2].key]
    assert {(None, None, None, None)} == {
        (one.old_val, one.new_val, one.old_bytes, one.new_bytes)
        for one in entries
        if one.catalogue is not None
    }


def test_the_past_has_the_tables_and_names_of_then(db: Any):
    everything(db)
    names: list[list[str]] = [[], *[["games"]] * 4, *[["matches"]] * 3, []]

    assert names == [db.at(seq).table_list() for seq in range(9)]
    assert [{"id": 1}] == db.at(4).table("games").run()
    assert [{"id": 1}, {"id": 2}] == db.at(7).table("matches").run()
    for seq, name in ((0, "games"), (4, "matches"), (5, "games"), (8, "matches")):
        with pytest.raises(reactdb.TableNotFound):
            db.at(seq).table(name).run()


def test_compaction_removes_them_below_the_mark(path: Path):
    with reactdb.connect(path) as db:
        everything(db)
        db.table_create("kept")
        db.compact(keep=1)
        assert [(9, "table_create")] == [(one.seq, one.kind) for one in db.log(8)]
        db.compact(keep=0)
        with session_of(db).read() as snapshot:
            assert [] == snapshot.connection.execute("SELECT seq FROM log").fetchall()
        assert (9, ["kept"]) == (db.seq, db.table_list())
    with reactdb.connect(path) as db:
        db.table("kept").insert({"id": 1})
        assert 10 == db.seq
    assert [] == problems(path)
