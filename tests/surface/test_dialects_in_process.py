"""`reactdb.mongodb(db)`, `couchdb(db)`, `aidbox(db)` and `rethinkdb(db)`: one form, each the dialect without a server."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest
import rethinkdb

import reactdb

r = rethinkdb.RethinkDB()


def by_mongodb(db: Any) -> None:
    reactdb.mongodb(db)["reactdb"]["Note"].insert_one({"_id": "a", "n": 1})


def by_couchdb(db: Any) -> None:
    reactdb.couchdb(db).create("notes").put({"_id": "a", "n": 1})


def by_aidbox(db: Any) -> None:
    reactdb.aidbox(db)["Note"].create({"id": "a", "n": 1})


def by_rethinkdb(db: Any) -> None:
    with reactdb.rethinkdb(db) as connection:
        r.table_create("Note").run(connection)
        r.table("Note").insert({"id": "a", "n": 1}).run(connection)


WAYS: dict[str, Callable[[Any], None]] = {
    "mongodb": by_mongodb,
    "couchdb": by_couchdb,
    "aidbox": by_aidbox,
    "rethinkdb": by_rethinkdb,
}


@pytest.mark.parametrize("name", WAYS)
def test_a_document_that_a_dialect_writes_is_in_the_table(db, name):
    WAYS[name](db)

    # A database of CouchDB has a small letter first, a resource type of Aidbox a capital one.
    (table,) = db.table_list()
    assert [1] == [document["n"] for document in db.table(table)]


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("wrong", ["arena.db", None, 5])
def test_a_dialect_takes_an_open_database_only(name, wrong):
    with pytest.raises(
        reactdb.InvalidOption, match=f"{name} takes an open Database, as `connect` returns it"
    ):
        getattr(reactdb, name)(wrong)


@pytest.mark.parametrize(("name", "package"), [("mongodb", "pymongo"), ("rethinkdb", "rethinkdb")])
def test_a_driver_that_is_missing_is_named_with_its_extra(db, monkeypatch, name, package):
    there = importlib.util.find_spec
    for module in ("mongodb.mongodb", "rethinkdb.embedded"):
        monkeypatch.setattr(
            importlib.import_module(f"reactdb.dialects.{module}"),
            "find_spec",
            lambda asked: None if asked == package else there(asked),
        )

    with pytest.raises(reactdb.errors.MissingExtra, match=rf"pip install 'reactdb\[{name}\]'"):
        getattr(reactdb, name)(db)


class TestRethinkDB:
    def test_a_term_runs_either_way_round(self, db):
        db.table_create("games").insert([{"id": n} for n in range(3)])
        connection = reactdb.rethinkdb(db)

        assert 3 == r.table("games").count().run(connection) == connection.run(r.table("games").count())

    def test_a_feed_has_the_events_of_native_writes(self, db):
        games = db.table_create("games")
        feed = reactdb.rethinkdb(db).run(r.table("games").changes())

        games.insert({"id": 1})

        assert {"old_val": None, "new_val": {"id": 1}} == feed.next(wait=5)

    def test_tables_without_a_database_are_those_of_the_one_that_was_named(self, db):
        db.table_create("arena.games").insert({"id": 1})

        assert [{"id": 1}] == list(r.table("games").run(reactdb.rethinkdb(db, "arena")))


class TestCouchDB:
    def test_a_database_that_is_there_is_reached_by_its_name(self, db):
        couch = reactdb.couchdb(db)
        rev = couch.create("notes").put({"_id": "a"})["rev"]

        assert {"_id": "a", "_rev": rev} == couch["notes"].get("a")
        assert ["notes"] == couch.databases()

    def test_a_database_that_is_not_there_is_refused(self, db):
        with pytest.raises(Exception, match="Database does not exist") as caught:
            reactdb.couchdb(db)["nope"]

        assert 404 == caught.value.status

    def test_changes_are_asked_for_by_name(self, db):
        notes = reactdb.couchdb(db).create("notes")
        notes.put({"_id": "a"})
        feed = notes.changes(since="0", include_docs=True)

        assert ["a"] == [row["doc"]["_id"] for row in feed.rows()]
        assert [] == feed.rows()
        notes.put({"_id": "b"})
        assert ["b"] == [row["id"] for row in feed.rows()]
        feed.close()
