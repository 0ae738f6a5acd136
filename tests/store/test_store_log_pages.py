"""Pages of the log: a document before is looked up when it is asked for, and is still there whatever happens meanwhile."""

from __future__ import annotations

import copy
import pickle
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import reactdb
from reactdb.change import Change
from reactdb.store import log_pages

COUNT = 10


@pytest.fixture(params=["file", "memory"])
def db(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[reactdb.Database]:
    """Ten documents, each inserted and updated, and one deleted; pages of four entries."""
    monkeypatch.setattr(log_pages, "PAGE_CHANGES", 4)
    monkeypatch.setattr(log_pages, "PICKED", 2)
    monkeypatch.setattr(log_pages, "PICK_OLD", log_pages.PICK_OLD.split("(")[0] + "(?, ?)")
    path = ":memory:" if request.param == "memory" else tmp_path / "a.db"
    with reactdb.connect(path, durability="soft") as db:
        games = db.table_create("games")
        games.insert([{"id": number, "score": number} for number in range(COUNT)])
        for number in range(COUNT):
            games.get(number).update({"score": -number - 1})
        games.get(3).delete()
        games.insert({"id": 3, "score": 0})
        yield db


EXPECTED = [
    *(None for _ in range(COUNT)),
    *({"id": number, "score": number} for number in range(COUNT)),
    {"id": 3, "score": -4},
    None,
]


def keep_out_where_nobody_else_can_be(db: reactdb.Database) -> None:
    if db.session.engine.is_memory:
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
    log = db.log(since=COUNT)
    changes = [next(log)]
    db.compact(keep=0)
    assert EXPECTED[COUNT : COUNT + 1] == before(changes)
    # Of what is left of the page, too; after it, history has overtaken the reader, as ever.
    rest = [next(log) for _ in range(3)]
    assert EXPECTED[COUNT + 1 : COUNT + 4] == before(rest)
    with pytest.raises(reactdb.HistoryLost):
        next(log)


def test_they_are_there_after_retention_removed_them(db):
    changes = list(db.log())
    db.session.engine.before_removal(db.seq)
    for page in {change._page for change in changes}:
        assert page._found is not None


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
    change = next(db.log(since=COUNT))
    with sqlite3.connect(db.path) as other:
        other.execute("DELETE FROM log WHERE seq <= ?", (COUNT,))
        other.execute("UPDATE facts SET value = ? WHERE name = 'low_water'", (db.seq,))
    other.close()
    assert change.new_val == {"id": 0, "score": -1}
    with pytest.raises(reactdb.HistoryLost):
        _ = change.old_val


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE log SET body = (SELECT body FROM log WHERE seq = 2) WHERE seq = 1",
        "UPDATE log SET body = NULL WHERE seq = 1",
        "DELETE FROM log WHERE seq = 1",
    ],
)
def test_a_damaged_one_is_not_told(db, damage):
    keep_out_where_nobody_else_can_be(db)
    first, second = list(db.log(since=COUNT))[:2]
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
    assert len(changes) == len(db.session.engine.readers.pages._pages) * 4 - 2
    del changes
    assert 0 == len(db.session.engine.readers.pages._pages)


def test_other_attributes_are_missing_as_of_any_change(db):
    change = next(db.log())
    with pytest.raises(AttributeError, match="colour"):
        _ = change.colour
