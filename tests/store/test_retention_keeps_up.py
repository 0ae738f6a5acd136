"""Removal by itself keeps up with what is written, also where tables are made and dropped for ever, or documents are large."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb import row
from reactdb.session import session_of
from reactdb.store import retention
from tests.support.inspection import problems

ROWS_OF_TABLES = ("tables", "heads", "entries", "indexes", "marks", "graves", "log")


def rows(db: Any) -> dict[str, int]:
    """How many rows each table of the file has."""
    with session_of(db).read() as snapshot:
        return {
            name: snapshot.connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
            for name in ROWS_OF_TABLES
        }


def make_and_drop(db: Any, rounds: range, indexes: int = 0) -> None:
    for number in rounds:
        table = db.table_create(f"t{number}")
        for place in range(indexes):
            table.index_create(f"i{place}", [row["n"], row["text"]])
        for n in range(40):
            table.insert({"id": n, "n": n, "text": "x" * 20})
        db.table_drop(f"t{number}")


@pytest.mark.parametrize("indexes", [0, 3])
def test_tables_that_are_made_and_dropped_leave_nothing(path: Path, indexes: int):
    with reactdb.connect(path, durability="soft", retention=100) as db:
        make_and_drop(db, range(35), indexes)
        half = rows(db)
        make_and_drop(db, range(35, 70), indexes)
        whole = rows(db)

        # Between two looks, 250 changes apart, there are some seven tables.
        assert whole["tables"] <= 10
        assert all(whole[name] <= half[name] + 10 * 40 * max(1, indexes) for name in ROWS_OF_TABLES), (
            half,
            whole,
        )
    assert [] == problems(path)


@pytest.mark.slow
def test_a_file_of_dropped_tables_is_no_larger_than_one_of_replaced_documents(tmp_path: Path):
    with reactdb.connect(tmp_path / "dropped.db", durability="soft", retention=100) as db:
        make_and_drop(db, range(80))
        dropped = session_of(db).engine.writer.connection.execute("PRAGMA page_count").fetchone()[0]
    with reactdb.connect(tmp_path / "replaced.db", durability="soft", retention=100) as db:
        table = db.table_create("t")
        for number in range(80):
            for n in range(40):
                table.insert({"id": n, "n": n, "text": "x" * 20, "round": number}, conflict="replace")
        replaced = session_of(db).engine.writer.connection.execute("PRAGMA page_count").fetchone()[0]

    assert dropped <= 2 * replaced


def test_removal_catches_up_with_tables_that_were_dropped_before(path: Path):
    """The file was written without a bound, and is given one."""
    with reactdb.connect(path, durability="soft", retention=None) as db:
        make_and_drop(db, range(60))
        assert 60 == rows(db)["tables"]
        db.set_retention(100)
        make_and_drop(db, range(60, 180))

        assert rows(db)["tables"] <= 10


@pytest.mark.parametrize(
    "compact",
    [
        lambda db: db.compact(keep=0),
        lambda db: db.compact(keep=timedelta()),
        lambda db: db.compact(keep=1),
    ],
)
def test_compact_removes_every_row_of_them(db: Any, compact: Callable[[Any], object]):
    before = {**rows(db), "log": 0}
    make_and_drop(db, range(5), indexes=2)
    db.table_create("last")
    db.table_drop("last")
    if compact(db)["tables"] < 6:
        # The last drop is the change that `keep=1` keeps.
        db.compact(keep=0)

    after = rows(db)
    assert {name: after[name] for name in after if name != "marks"} == {
        name: before[name] for name in before if name != "marks"
    }


def test_a_position_before_a_table_that_was_removed_has_lost_its_history(path: Path):
    with reactdb.connect(path, durability="soft", retention=100) as db:
        token = db.token
        make_and_drop(db, range(30))
        oldest = db.stats()["oldest"]

        assert 0 < oldest
        for since in (token, 0, oldest - 1):
            with pytest.raises(reactdb.HistoryLost):
                db.changes(since=since).cursor()
        db.changes(since=oldest).cursor().close()
        with pytest.raises(reactdb.HistoryLost):
            db.at(oldest - 1)


@pytest.mark.parametrize("at_once", [1, 40])
def test_removal_keeps_up_with_large_documents(path: Path, at_once: int, monkeypatch: pytest.MonkeyPatch):
    """A step removes few of them, so there have to be more steps."""
    monkeypatch.setattr(retention, "CHUNK_BYTES", 20_000)
    with reactdb.connect(path, durability="soft", retention=100) as db:
        games = db.table_create("games")
        for number in range(2_000 // at_once):
            games.insert(
                [{"id": n, "round": number, "text": "x" * 1_000} for n in range(at_once)], conflict="replace"
            )

        assert db.seq - 100 - 2 * retention.RETAIN_EVERY <= db.stats()["oldest"] <= db.seq - 100
