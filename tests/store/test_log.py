"""Reading the log: in pages, with each entry verified. The old document is looked up on first use, and is still there whatever
happens meanwhile."""

from __future__ import annotations

import copy
import pickle
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reactdb
from reactdb.change import Change
from reactdb.session import session_of
from reactdb.store import log as store_log

COUNT = 10
# The newest of those that inserted them.
INSERTED = COUNT + 1


@pytest.fixture(params=["file", "memory"])
def db(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[reactdb.Database]:
    """Ten documents, each inserted and updated, and one deleted; pages of four entries."""
    monkeypatch.setattr(store_log, "PAGE_CHANGES", 4)
    monkeypatch.setattr(store_log, "PICKED", 2)
    monkeypatch.setattr(store_log, "PICK_OLD", store_log.PICK_OLD.split("(")[0] + "(?, ?)")
    path = ":memory:" if request.param == "memory" else tmp_path / "a.db"
    with reactdb.connect(path, durability="soft") as db:
        games = db.table_create("games")
        games.insert([{"id": number, "score": number} for number in range(COUNT)])
        for number in range(COUNT):
            games.get(number).update({"score": -number - 1})
        games.get(3).delete()
        games.insert({"id": 3, "score": 0})
        yield db


# Also of the entry that made the table.
EXPECTED = [
    None,
    *(None for _ in range(COUNT)),
    *({"id": number, "score": number} for number in range(COUNT)),
    {"id": 3, "score": -4},
    None,
]


def keep_out_where_nobody_else_can_be(db: reactdb.Database) -> None:
    if session_of(db).engine.is_memory:
        pytest.skip("nobody else has it")


def before(changes: list[Change]) -> list[object]:
    return [change.old_val for change in changes]


def test_documents_before_are_what_was_superseded(db):
    assert EXPECTED == [change.old_val for change in db.log()]


def test_they_may_be_asked_for_at_the_end(db):
    assert EXPECTED == before(list(db.log()))


def test_they_are_there_after_the_log_was_compacted(db):
    changes = list(db.log())
    db.compact(keep=0)
    assert EXPECTED == before(changes)


def test_they_are_there_after_the_log_was_compacted_in_the_middle_of_a_page(db):
    log = db.log(since=INSERTED)
    changes = [next(log)]
    db.compact(keep=0)
    assert EXPECTED[INSERTED : INSERTED + 1] == before(changes)
    # Of what is left of the page, too; after it, history has overtaken the reader, as ever.
    rest = [next(log) for _ in range(3)]
    assert EXPECTED[INSERTED + 1 : INSERTED + 4] == before(rest)
    with pytest.raises(reactdb.HistoryLost):
        next(log)


def test_they_are_there_after_retention_removed_them(db):
    changes = list(db.log())
    session_of(db).engine.before_removal(db.seq)
    assert 0 == len(session_of(db).engine.pages._pages)
    assert EXPECTED == before(changes)


def test_they_are_there_after_the_database_was_closed(db):
    changes = list(db.log())
    db.close()
    assert EXPECTED == before(changes)


def test_they_are_there_in_a_copy(db):
    changes = list(db.log())
    assert EXPECTED == before(copy.deepcopy(changes))
    assert EXPECTED == before(pickle.loads(pickle.dumps(list(db.log()))))


def test_those_of_a_transaction_are_what_it_saw(db):
    games = db.table("games")
    try:
        with db.transaction():
            games.get(1).update({"score": 70})
            games.get(1).update({"score": 71})
            seq = db.seq
            changes = list(db.log(since=seq - 2))
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    assert [{"id": 1, "score": -2}, {"id": 1, "score": 70}] == before(changes)


def test_those_of_the_past_are_the_same(db):
    assert EXPECTED[:15] == [change.old_val for change in db.at(15).log()]


def test_those_of_one_table_are_the_same(db):
    others = db.table_create("others")
    others.insert([{"id": number} for number in range(5)])
    others.update({"x": 1})
    assert [None] * 5 + [{"id": number} for number in range(5)] == before(list(db.log(table="others")))


def test_one_that_another_process_compacted_away_is_history_lost(db):
    keep_out_where_nobody_else_can_be(db)
    change = next(db.log(since=INSERTED))
    with sqlite3.connect(db.path) as other:
        other.execute("DELETE FROM log WHERE seq <= ?", (INSERTED,))
        other.execute("UPDATE facts SET value = ? WHERE name = 'low_water'", (db.seq,))
    other.close()
    assert change.new_val == {"id": 0, "score": -1}
    with pytest.raises(reactdb.HistoryLost):
        _ = change.old_val


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE log SET body = (SELECT body FROM log WHERE seq = 3) WHERE seq = 2",
        "UPDATE log SET body = NULL WHERE seq = 2",
        "DELETE FROM log WHERE seq = 2",
    ],
)
def test_a_damaged_one_is_not_told(db, damage):
    keep_out_where_nobody_else_can_be(db)
    first, second = list(db.log(since=INSERTED))[:2]
    with sqlite3.connect(db.path) as other:
        other.execute(damage)
    other.close()
    with pytest.raises(reactdb.CorruptDatabase):
        _ = first.old_val
    assert {"id": 1, "score": 1} == second.old_val


def test_a_damaged_entry_is_not_told(db):
    keep_out_where_nobody_else_can_be(db)
    with sqlite3.connect(db.path) as other:
        other.execute("UPDATE log SET time = time + 1 WHERE seq = 7")
    other.close()
    log = db.log()
    assert [1, 2, 3, 4] == [next(log).seq for _ in range(4)]
    with pytest.raises(reactdb.CorruptDatabase):
        next(log)


def test_what_nobody_asks_for_is_not_read(db):
    changes = list(db.log())
    assert len(changes) == len(session_of(db).engine.pages._pages) * 4 - 1
    del changes
    assert 0 == len(session_of(db).engine.pages._pages)


def test_other_attributes_are_missing_as_of_any_change(db):
    change = next(db.log())
    with pytest.raises(AttributeError, match="colour"):
        _ = change.colour


COLUMNS = [name for name in Change.__slots__ if name not in ("_old_bytes", "old", "new")]

steps = st.lists(
    st.tuples(
        st.sampled_from(["insert", "update", "replace", "delete", "together"]),
        st.sampled_from(["games", "games", "games", "others"]),
        st.integers(0, 3),
        st.sampled_from([None, None, "somebody"]),
    ),
    max_size=25,
)


def write(db: reactdb.Database, kind: str, name: str, key: int, origin: str | None) -> None:
    table, document = db.table(name), {"id": key, "kind": kind, "tags": [key, {"a": None}]}
    with db.transaction(origin=origin):
        if kind == "insert":
            table.insert(document, conflict="replace")
        elif kind == "update":
            table.get(key).update({"score": key})
        elif kind == "replace":
            table.get(key).replace(document)
        elif kind == "delete":
            table.get(key).delete()
        else:
            table.insert([{"id": number} for number in range(4)], conflict="replace")


def columns_of(changes: Any) -> list[list[Any]]:
    return [[getattr(change, name) for name in COLUMNS] for change in changes]


def documents_of(changes: Any) -> list[Any]:
    return [(change.old_bytes, change.old_val, change.new_val) for change in changes]


@given(steps, st.integers(1, 7))
def test_the_log_says_the_same_however_it_is_read(given_steps, size):
    with pytest.MonkeyPatch.context() as patch, reactdb.connect(":memory:", durability="soft") as db:
        patch.setattr(store_log, "PAGE_CHANGES", size)
        for name in ("games", "others"):
            db.table_create(name)
        for step in given_steps:
            write(db, *step)
        with session_of(db).read() as snapshot:
            expected = snapshot.changes(0, limit=1_000)
        assert columns_of(expected) == columns_of(db.log())
        assert columns_of(expected) == columns_of(list(db.log()))
        assert documents_of(expected) == documents_of(db.log())
        assert documents_of(expected) == documents_of(list(db.log()))
        assert [change.new_val for change in expected] == [change.new_val for change in db.log()]
        both = [(change.new_val, change.old_val, *columns_of([change])[0]) for change in db.log()]
        assert [(change.new_val, change.old_val, *columns_of([change])[0]) for change in expected] == both


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.db"
    with reactdb.connect(path, durability="soft") as db:
        games = db.table_create("games")
        games.insert([{"id": number, "score": number} for number in range(10)])
        games.update({"score": 100})
        games.get(3).delete()
    return path


@pytest.mark.parametrize("seq", [2, 12, 21])
@pytest.mark.parametrize(
    "damage",
    [
        "step = step + 1",
        "step = -1",
        "kind = (kind + 1) % 4",
        "kind = 9",
        "prev = ifnull(prev, 0) + 1",
        "prev = 9223372036854775807",
        "time = time + 256",
        "time = -time",
        "time = 9223372036854775807",
        "time = x'00'",
        "key = (SELECT key FROM log l WHERE l.seq = log.seq - 1)",
        "key = 'text'",
        "body = x'80'",
        "body = 7",
        "origin = 'nobody'",
        "meta = x'00'",
        "table_id = table_id + 1",
        "seal = seal + 1",
        "seal = seal + 4294967296",
        "seal = 'text'",
        "seal = 1.5",
    ],
)
def test_a_column_that_changed_on_the_disk_is_told(path, damage, seq):
    with sqlite3.connect(path) as other:
        other.execute(f"UPDATE log SET {damage} WHERE seq = ?", (seq,))
    other.close()
    with reactdb.connect(path) as db:
        with pytest.raises(reactdb.CorruptDatabase):
            list(db.log())
        with pytest.raises(reactdb.CorruptDatabase):
            [(change.old_val, change.new_val) for change in db.log()]


def test_an_entry_that_is_missing_is_told(path):
    with sqlite3.connect(path) as other:
        other.execute("DELETE FROM log WHERE seq = 5")
    other.close()
    with reactdb.connect(path) as db, pytest.raises(reactdb.CorruptDatabase, match="5"):
        list(db.log())


@pytest.mark.parametrize("damage", ["body = x'80'", "body = NULL", "seal = seal + 1", "seal = NULL"])
def test_a_document_before_that_changed_on_the_disk_is_told(path, damage):
    with sqlite3.connect(path) as other:
        other.execute(f"UPDATE log SET {damage} WHERE seq = 3")
    other.close()
    with reactdb.connect(path) as db:
        # Read without the documents before, and with them.
        change = next(db.log(since=12))
        with pytest.raises(reactdb.CorruptDatabase):
            _ = change.old_val
        with session_of(db).read() as snapshot, pytest.raises(reactdb.CorruptDatabase):
            snapshot.changes(10, 20)
