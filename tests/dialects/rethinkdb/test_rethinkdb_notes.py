"""What the dialect keeps of tables is in hidden tables, and what is in ordinary ones is taken over when it is first asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

import reactdb
from reactdb.dialects.rethinkdb import tables
from reactdb.dialects.rethinkdb.values import TableName
from tests.support.inspection import problems
from tests.support.kept_files import expected, unpack

PEOPLE = TableName("test", "people")
BEFORE = "rethinkdb.table_hooks"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of format 2 in which a table has a hook."""
    return unpack("format-2-long", tmp_path)


def test_a_hook_of_an_older_file_is_taken_over_whole(path: Path):
    with reactdb.connect(path) as db:
        assert BEFORE in db.table_list()
        (before,) = db.table(BEFORE).run()

        assert before == tables.HOOKS.get(db, PEOPLE)
        assert BEFORE not in db.table_list()
        assert [before] == tables.HOOKS.all(db).run()  # type: ignore[union-attr]
        # Once: one commit for all, and nothing after it.
        seq = db.seq
        assert before == tables.HOOKS.get(db, PEOPLE)
        assert seq == db.seq
    with reactdb.connect(path) as db:
        assert before == tables.HOOKS.get(db, PEOPLE)
    assert [] == problems(path)


def test_who_only_reads_finds_it_where_it_is(path: Path):
    with reactdb.connect(path, read_only=True) as db:
        found = tables.HOOKS.get(db, PEOPLE)

        assert found is not None
        assert [found] == db.table(BEFORE).run()
        assert expected("format-2-long")["seq"] == db.seq


def test_no_note_shows_in_any_list(tmp_path: Path):
    with reactdb.connect(tmp_path / "a.db") as db:
        db.table_create("people")
        tables.HOOKS.put(db, PEOPLE, {"function": "[]"})
        tables.SETTINGS.put(db, PEOPLE, {"durability": "soft"})
        tables.HOOKS.move(db, PEOPLE, TableName("test", "persons"))

        assert ["people"] == db.table_list() == tables.tables(db, "test")
        assert tables.HOOKS.get(db, PEOPLE) is None
        assert {"table": "persons", "function": "[]"} == tables.HOOKS.get(db, TableName("test", "persons"))
        tables.SETTINGS.forget(db, PEOPLE)
        assert tables.SETTINGS.get(db, PEOPLE) is None
        assert ["table_create"] == [change.kind for change in db.log()]
