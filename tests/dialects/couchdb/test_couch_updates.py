"""`_db_updates`: which databases were made, changed and deleted, and which tables are no databases."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import reactdb
from reactdb.database import Database
from reactdb.dialects.couchdb.couch import Couch
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.names import RESERVED, SYSTEM
from reactdb.servers.couchdb.routes import REFUSED, SERVER
from reactdb.session import session_of
from reactdb.store.log import read_low_water
from reactdb.store.retention import compact_step
from reactdb.store.transaction import WriteTransaction


def rename(db: Database, old: str, new: str) -> None:
    """As RethinkDB's and MongoDB's clients do it."""
    session_of(db).transact(
        lambda transaction: transaction.rename_table(transaction.catalogue.live[old], new), operation="rename"
    )


def told(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    assert all(["db_name", "type", "seq"] == list(row) for row in rows)
    return [(row["db_name"], row["type"]) for row in rows]


def test_each_type_of_a_databases_events_is_told_once(couch: Couch, db: Database) -> None:
    couch.create("a")
    for number in range(3):
        couch.open("a").put({"_id": str(number)})
    db.table_create("b").insert({"id": 1})
    couch.create("c")
    couch.drop("c")
    feed = couch.updates()

    expected = [
        ("a", "created"),
        ("a", "updated"),
        ("b", "created"),
        ("b", "updated"),
        ("c", "created"),
        ("c", "deleted"),
    ]
    assert expected == told(feed.rows())
    assert [] == feed.rows()
    assert expected[::-1] == told(couch.updates(descending=True).rows())


def test_a_feed_goes_on_from_any_seq(couch: Couch, db: Database) -> None:
    couch.create("a")
    db.table_create("b").insert({"id": 1})
    couch.create("c")
    rows = couch.updates().rows()

    for place, row in enumerate(rows):
        assert rows[place + 1 :] == couch.updates(row["seq"]).rows()
    assert [] == couch.updates("now").rows()
    with pytest.raises(CouchError, match="Malformed sequence"):
        couch.updates("nonsense")


def test_the_next_rows_are_as_many_as_are_asked_for(couch: Couch) -> None:
    for name in "abc":
        couch.create(name)
    feed = couch.updates()
    found = []
    while rows := feed.rows(1):
        assert 1 == len(rows)
        found += rows

    assert ["a", "b", "c"] == [row["db_name"] for row in found]


def test_a_renamed_table_is_a_database_less_and_one_more(couch: Couch, db: Database) -> None:
    db.table_create("old")
    feed = couch.updates("now")
    rename(db, "old", "new")

    # The two have one seq: a client that went on from the first alone would never hear of the second.
    rows = feed.rows(1)
    assert [("old", "deleted"), ("new", "created")] == told(rows)
    assert rows[0]["seq"] == rows[1]["seq"]


def test_a_listener_is_woken_by_what_it_then_reads(couch: Couch, db: Database) -> None:
    """By native writes, by branches that lose, and by databases that were made after it began; once until it reads."""
    notes = couch.create("notes")
    notes.put({"_id": "x", "_rev": "1-b"}, new_edits=False)
    feed = couch.updates("now")
    woken: list[None] = []
    feed.on_ready(lambda: woken.append(None))

    def happens(work: Any) -> list[tuple[str, str]]:
        woken.clear()
        work()
        assert 1 == len(woken)
        rows = feed.rows()
        assert [] == feed.rows()
        return told(rows)

    assert [("notes", "updated")] == happens(lambda: notes.put({"_id": "x", "_rev": "1-a"}, new_edits=False))
    assert [("notes", "updated")] == happens(lambda: db.table("notes").insert({"_id": "y"}))
    assert [("late", "created")] == happens(lambda: couch.create("late"))
    late = couch.open("late")
    assert [("late", "updated")] == happens(lambda: late.put({"_id": "x", "_rev": "1-b"}, new_edits=False))
    assert [("late", "updated")] == happens(lambda: late.put({"_id": "x", "_rev": "1-a"}, new_edits=False))
    assert [("late", "deleted")] == happens(lambda: couch.drop("late"))
    feed.close()
    woken.clear()
    notes.put({"_id": "z"})
    assert [] == woken


def test_what_is_no_event_is_not_told(couch: Couch, db: Database) -> None:
    notes = couch.create("notes")
    feed = couch.updates("now")
    notes.put_local({"_id": "_local/x", "position": 1})
    db.table_create("_users").insert({"id": "ann"})

    assert [] == feed.rows()
    assert feed.last_seq == couch.updates("now").last_seq


def test_a_feed_ends_with_the_file() -> None:
    with reactdb.connect(":memory:") as db:
        feed = Couch(db).updates()
        woken: list[None] = []
        feed.on_ready(lambda: woken.append(None))
    feed.rows()

    assert feed.is_finished
    assert [] != woken


def applied(known: set[str], rows: list[dict[str, Any]]) -> set[str]:
    for row in rows:
        known = known - {row["db_name"]} if row["type"] == "deleted" else known | {row["db_name"]}
    return known


def happen(random: Random, couch: Couch, db: Database) -> None:
    """Something that happens to a database."""
    names = [f"n{number}" for number in range(6)]
    name, live = random.choice(names), couch.databases()
    free = [other for other in names if other not in live]
    if name not in live:
        couch.create(name)
    elif (what := random.randrange(4)) == 0:
        couch.drop(name)
    elif what == 1 and free:
        rename(db, name, random.choice(free))
    else:
        db.table(name).insert({"_id": str(random.randrange(4))}, conflict="replace")


@pytest.mark.parametrize("seed", range(4))
def test_applying_the_events_gives_the_databases(couch: Couch, db: Database, seed: int) -> None:
    """Whatever happens between two readings, wherever a reader goes on, and also with a log that was compacted."""
    random = Random(seed)
    known: set[str] = set()
    since = "0"
    for _ in range(60):
        for _ in range(random.randrange(4)):
            happen(random, couch, db)
        feed = couch.updates(since)
        rows = feed.rows(random.choice((1, 2, 100)))
        known, since = applied(known, rows), feed.last_seq
        if not feed.rows():
            assert set(couch.databases()) == known
            since = feed.last_seq
            if random.randrange(8) == 0:
                db.compact(keep=0)
        feed.close()

    assert set(couch.databases()) == applied(known, couch.updates(since).rows())
    assert set(couch.databases()) == applied(set(), couch.updates().rows())


def test_a_table_that_is_being_removed_ends_nobody_elses_name(couch: Couch, db: Database) -> None:
    """Retention has forgotten that `a` was renamed to `b`, and not yet removed the `b` before it, which has more documents."""
    db.table_create("b").insert([{"id": number} for number in range(50)])
    db.table_create("a")
    db.table_drop("b")
    rename(db, "a", "b")
    goal = db.seq

    def work(transaction: WriteTransaction) -> None:
        # Without a change of its own it would be taken back.
        transaction.create_table("c", "id")
        for _ in range(goal):
            compact_step(transaction.connection, goal, 1)

    session_of(db).transact(work, operation="compact")

    with session_of(db).read() as snapshot:
        assert goal == read_low_water(snapshot.connection)
        assert 1 == len([table for table in snapshot.catalogue.by_id.values() if table.dropped is not None])
    assert [("b", "created"), ("c", "created")] == told(couch.updates().rows())


class TestReservedNames:
    @pytest.mark.parametrize("name", sorted(SYSTEM))
    def test_a_table_of_such_a_name_is_no_database(self, couch: Couch, db: Database, name: str) -> None:
        db.table_create(name).insert({"id": "ann", "password": "secret"})

        assert [] == couch.databases()
        for ask in (couch.open, couch.create, couch.drop, couch.info):
            with pytest.raises(CouchError) as caught:
                ask(name)
            assert (501, "not_implemented") == (caught.value.status, caught.value.error)
        assert [{"id": "ann", "password": "secret"}] == db.table(name).run()

    def test_such_a_table_can_be_synchronised_and_stays_unseen(self, couch: Couch, db: Database) -> None:
        db.table_create("_users", primary_key="_id")
        couch.open_table("_users").put({"_id": "ann"})

        assert [{"_id": "ann"}] == db.table("_users").run()
        assert [] == couch.databases()
        assert [] == couch.updates().rows()

    def test_every_path_of_the_server_is_reserved(self) -> None:
        """Otherwise `_all_dbs` would list a table that nobody can reach."""
        paths = {path for path in (*SERVER, *REFUSED) if path.startswith("_")}

        assert paths <= RESERVED
