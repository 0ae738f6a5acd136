"""`db.copy()`: a database in memory with the content of another."""

from __future__ import annotations

import io
import threading
from typing import Any

import pytest

import reactdb
from reactdb import row
from reactdb.session import session_of
from reactdb.testing import VirtualClock


@pytest.fixture
def notes(db: Any) -> Any:
    """A table with 100 documents, an index, a deletion and an update."""
    notes = db.table_create("notes")
    notes.index_create("team")
    notes.insert([{"id": number, "team": number % 3} for number in range(101)])
    notes.get(100).delete()
    notes.get(0).update({"team": 7})
    return notes


def test_it_has_the_documents_the_log_and_the_indexes(db, notes):
    with db.copy() as copy:
        same = copy.table("notes")

        assert ":memory:" == copy.path
        assert notes.order_by("id").run() == same.order_by("id").run()
        assert [0] == [note["id"] for note in same.get_all(7, index="team").run()]
        assert [*map(repr, db.log())] == [*map(repr, copy.log())]
        assert [change.new_val for change in notes.get(0).history()] == [
            change.new_val for change in same.get(0).history()
        ]
        assert db.seq == copy.seq
        assert 0 == copy.at(db.seq - 1).table("notes").get(0).run()["team"]


def test_neither_sees_the_others_writes(db, notes):
    with db.copy() as copy:
        notes.get(1).update({"of": "original"})
        copy.table("notes").get(1).update({"of": "copy"})

        assert "original" == notes.get(1).run()["of"]
        assert "copy" == copy.table("notes").get(1).run()["of"]


def test_a_copy_outlives_the_original(tmp_path):
    with reactdb.connect(tmp_path / "a.db") as db:
        db.table_create("notes").insert({"id": 1})
        copy = db.copy()
    with copy:
        assert {"id": 1} == copy.table("notes").get(1).run()


def test_a_token_of_the_original_is_refused(db, notes):
    with db.copy() as copy, pytest.raises(reactdb.HistoryDiverged):
        copy.table("notes").changes(since=db.token).cursor()


def test_a_copy_of_a_copy_has_an_id_of_its_own_too(db, notes):
    with db.copy() as copy, copy.copy() as other:
        ids = {one.token.split(".")[0] for one in (db, copy, other)}

    assert 3 == len(ids)


def test_feeds_of_the_copy_begin_with_its_documents(db, notes):
    heard: list[Any] = []
    with db.copy() as copy:
        same = copy.table("notes")
        same.filter(row["team"] == 7).changes(include_initial=True).subscribe(heard.append)
        same.get(1).update({"team": 7})

    assert [0, 1] == [event["new_val"]["id"] for event in heard]


def test_large_values_are_copied(db):
    content = bytes(range(256)) * 4_000
    blob = db.blobs.put(io.BytesIO(content))
    db.table_create("files").insert({"id": 1, "content": blob})

    with db.copy() as copy, copy.blobs.open(copy.table("files").get(1).run()["content"]) as file:
        assert content == file.read()


def test_hidden_data_of_a_dialect_is_copied(db):
    couch = reactdb.couchdb(db).create("notes")
    couch.put({"_id": "a", "text": "hello"})

    with db.copy() as copy:
        again = reactdb.couchdb(copy)["notes"]
        assert couch.get("a") == again.get("a")


def test_leases_of_consumers_are_free_in_the_copy(db, notes):
    consumer = db.consumer("mail", notes, since=0)
    with consumer.batches(max_wait_s=0) as batches:
        with next(batches):
            pass
        assert db.consumers()[0]["holder"] is not None

        with db.copy() as copy:
            assert copy.consumers()[0]["holder"] is None
            assert db.consumers()[0]["seq"] == copy.consumers()[0]["seq"]
            copy.table("notes").insert({"id": "new"})
            with copy.consumer("mail", copy.table("notes")).batches(max_wait_s=0) as own:
                assert ["new"] == [change["key"] for change in own.poll()]


def test_it_has_the_clock_of_the_original_or_another():
    clock, other = VirtualClock(), VirtualClock()
    with reactdb.connect(":memory:", clock=clock) as db, db.copy() as copy, db.copy(clock=other) as separate:
        assert [clock, other] == [session_of(one).clock for one in (copy, separate)]


def test_a_transaction_cannot_be_copied(db, notes):
    with db.transaction(), pytest.raises(reactdb.UsageError, match="cannot be part of a transaction"):
        db.copy()


def test_a_closed_database_cannot_be_copied(db):
    db.close()

    with pytest.raises(reactdb.errors.DatabaseClosed):
        db.copy()


def test_a_file_opened_to_read_can_be_copied_and_the_copy_written(path):
    with reactdb.connect(path) as db:
        db.table_create("notes").insert({"id": 1})

    with reactdb.connect(path, read_only=True) as db, db.copy() as copy:
        copy.table("notes").insert({"id": 2})

        assert 2 == copy.table("notes").count().run()


def test_a_copy_is_of_whole_commits_while_others_write(db):
    pairs = db.table_create("pairs")
    pairs.insert([{"id": 1, "n": 0}, {"id": 2, "n": 0}])
    done = threading.Event()

    def write() -> None:
        number = 0
        # Bounded, because each commit makes the next copy larger.
        while not done.is_set() and number < 2_000:
            number += 1
            with db.transaction():
                pairs.get(1).update({"n": number})
                pairs.get(2).update({"n": number})

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(30):
            with db.copy() as copy:
                first, second = copy.table("pairs").order_by("id").run()
                assert first["n"] == second["n"]
                (one, two) = list(copy.log())[-2:]
                assert copy.seq == two.seq == one.seq + 1
    finally:
        done.set()
        thread.join()
