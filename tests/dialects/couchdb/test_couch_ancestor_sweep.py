"""Chunks of ancestors that no path reaches are removed with history, and the trees stay as they are."""

from __future__ import annotations

import pytest

import reactdb
from reactdb.database import Database
from reactdb.dialects.couchdb import ancestor_sweep
from reactdb.dialects.couchdb.couch import Couch
from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.revisions import CHUNK
from reactdb.store.newest import read_newest_by_key


def chunks(notes: CouchDatabase) -> int:
    with notes.reading() as reading:
        assert reading.tables.ancestors is not None
        return len(read_newest_by_key(reading.snapshot, reading.tables.ancestors))


def edited(notes: CouchDatabase, id: str, count: int, rev: str | None = None) -> str:
    for number in range(count):
        document = {"_id": id, "n": number}
        rev = notes.put(document if rev is None else {**document, "_rev": rev})["rev"]
    assert rev is not None
    return rev


def trees(notes: CouchDatabase, *ids: str) -> list[object]:
    return [notes.open_revs(id, "all", revs=True) for id in ids]


@pytest.mark.parametrize("limit", [10, 100])
def test_a_document_that_is_edited_for_ever_takes_as_much_room_as_its_revisions(
    db: Database, notes: CouchDatabase, limit: int
):
    _edits_take_bounded_room(db, notes, limit, 600, every=200)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [10, 1_000])
def test_so_it_does_after_10_000_edits(db: Database, notes: CouchDatabase, limit: int):
    _edits_take_bounded_room(db, notes, limit, 10_000, every=2_500)


def _edits_take_bounded_room(
    db: Database, notes: CouchDatabase, limit: int, count: int, *, every: int
) -> None:
    notes.revs_limit = limit
    notes.put({"_id": "other"})
    rev = None
    for _ in range(0, count, every):
        rev = edited(notes, "a", every, rev)
        before = trees(notes, "a", "other")
        info = notes.info()
        db.compact(0)
        assert trees(notes, "a", "other") == before
        assert (notes.info()["doc_count"], notes.info()["update_seq"]) == (2, info["update_seq"])
        assert limit // CHUNK - 1 <= chunks(notes) <= limit // CHUNK + 1
    assert len(notes.get("a", revs=True)["_revisions"]["ids"]) == limit
    assert rev is not None
    assert notes.revs_diff({"a": [f"{count - limit}-{'0' * 32}", rev]})["a"]["missing"] == [
        f"{count - limit}-{'0' * 32}"
    ]


def test_what_any_leaf_reaches_stays(db: Database, notes: CouchDatabase):
    notes.revs_limit = 40
    rev = edited(notes, "a", 50)
    trunk = notes.get("a", revs=True)["_revisions"]
    # A branch that leaves the trunk early, and one that says nothing of it.
    start = trunk["start"] - 20
    for branch in ({"start": start + 1, "ids": ["b", *trunk["ids"][20:]]}, {"start": 70, "ids": ["c"]}):
        assert notes.bulk_docs([{"_id": "a", "_revisions": branch}], new_edits=False) == []
    edited(notes, "a", 30, rev)
    before = trees(notes, "a")

    notes.compact()

    assert trees(notes, "a") == before
    again = chunks(notes)
    notes.compact()
    assert chunks(notes) == again
    assert len(before[0]) == 3  # type: ignore[arg-type]


def test_nothing_is_left_of_what_was_purged_and_all_of_what_was_deleted(notes: CouchDatabase):
    purged, deleted = edited(notes, "p", 40), edited(notes, "d", 40)
    notes.delete("d", deleted)
    assert notes.purge({"p": [purged]}) == {"p": [purged]}
    before = trees(notes, "d")
    assert chunks(notes) == 4

    notes.compact()

    assert (trees(notes, "d"), chunks(notes)) == (before, 2)


def test_documents_on_many_pages_of_chunks_are_all_looked_at(
    notes: CouchDatabase, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("reactdb.dialects.couchdb.ancestor_sweep.PAGE", 3)
    monkeypatch.setattr("reactdb.session.SWEPT", 2)
    ids = [f"k{number}" for number in range(5)]
    for id in ids:
        edited(notes, id, 70)
    before = trees(notes, *ids)
    notes.compact()
    assert (trees(notes, *ids), chunks(notes)) == (before, 5 * 4)
    notes.revs_limit = 20
    short = trees(notes, *ids)

    notes.compact()

    assert (trees(notes, *ids), chunks(notes)) == (short, 5)


def test_what_is_needed_again_by_the_time_it_is_removed_stays(notes: CouchDatabase):
    edited(notes, "a", 70)
    before, count = trees(notes, "a"), chunks(notes)
    notes.revs_limit = 20
    with notes.session.read() as snapshot:
        table = notes.tables(snapshot.catalogue).main
        found, _ = ancestor_sweep.find(snapshot, table, b"")
    notes.revs_limit = 1_000

    notes.session.transact(lambda transaction: ancestor_sweep.remove(table, found, transaction))

    assert found
    assert (trees(notes, "a"), chunks(notes)) == (before, count)


def test_all_history_stays_where_it_was_asked_for_but_not_these(path: str):
    with reactdb.connect(path, retention=None) as db:
        notes = Couch(db).create("notes")
        notes.revs_limit = 10
        edited(notes, "a", 50)
        notes.compact()
        assert chunks(notes) <= 1
        assert [one.kind for one in db.log() if one.key == "a"] == ["insert", *["replace"] * 49]
