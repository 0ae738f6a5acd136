"""`_changes`: rows in commit order, one a document, from any position, live, and after compaction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb.database import Database
from reactdb.dialects.couchdb import changes
from reactdb.dialects.couchdb.changes import ChangesRequest
from reactdb.dialects.couchdb.couch import Couch
from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.filters import DocumentFilter, SelectorFilter
from reactdb.dialects.couchdb.mango import Selector


def rows(notes: CouchDatabase, **options: Any) -> list[dict[str, Any]]:
    return notes.changes(ChangesRequest(**options)).rows()


def ids(notes: CouchDatabase, **options: Any) -> list[str]:
    return [row["id"] for row in rows(notes, **options)]


@pytest.fixture
def filled(notes: CouchDatabase) -> CouchDatabase:
    rev = notes.put({"_id": "alpha", "n": 1})["rev"]
    notes.put({"_id": "beta", "n": 2})
    notes.put({"_id": "alpha", "n": 3, "_rev": rev})
    rev = notes.put({"_id": "gamma"})["rev"]
    notes.delete("gamma", rev)
    for rev in ("2-bbb", "2-aaa"):
        notes.put(
            {"_id": "conf", "_revisions": {"start": 2, "ids": [rev[2:], "x"]}, "r": rev}, new_edits=False
        )
    return notes


def test_a_document_has_one_row_at_its_newest_change(filled: CouchDatabase) -> None:
    found = rows(filled)
    assert [row["id"] for row in found] == ["beta", "alpha", "gamma", "conf"]
    assert list(found[0]) == ["seq", "id", "changes"]
    assert found[2]["deleted"] is True
    assert found[3]["changes"] == [{"rev": "2-bbb"}]
    assert rows(filled, style="all_docs")[3]["changes"] == [{"rev": "2-bbb"}, {"rev": "2-aaa"}]
    assert [row["id"] for row in rows(filled, since=found[1]["seq"])] == ["gamma", "conf"]
    assert rows(filled, since="now") == []
    assert ids(filled, descending=True, limit=2) == ["conf", "gamma"]
    assert ids(filled, doc_ids=["gamma", "nope", "beta"]) == ["beta", "gamma"]
    assert ids(filled, doc_ids=[]) == []


def test_a_feed_says_where_it_stands(filled: CouchDatabase) -> None:
    feed = filled.changes(ChangesRequest(limit=2))
    first = feed.rows()
    assert feed.last_seq == first[-1]["seq"]
    assert feed.pending == 2
    assert feed.is_finished
    feed = filled.changes(ChangesRequest())
    assert len(feed.rows(3)) == 3
    assert len(feed.rows(3)) == 1
    assert feed.rows(3) == []
    assert feed.pending == 0
    assert feed.last_seq == filled.info()["update_seq"]
    down = filled.changes(ChangesRequest(descending=True, limit=3))
    assert down.last_seq == filled.info()["update_seq"]
    assert down.last_seq != (last := down.rows()[-1]["seq"])
    assert down.last_seq == last
    assert down.is_finished


def test_documents_come_along(filled: CouchDatabase) -> None:
    found = rows(filled, include_docs=True, conflicts=True)
    assert found[1]["doc"] == {"_id": "alpha", "_rev": found[1]["changes"][0]["rev"], "n": 3}
    assert found[2]["doc"]["_deleted"] is True
    assert found[3]["doc"]["_conflicts"] == ["2-aaa"]


def test_a_filter_sees_revisions_and_the_position_goes_past_what_it_rejects(filled: CouchDatabase) -> None:
    class Passes(DocumentFilter):
        def passes(self, document: dict[str, Any]) -> bool:
            return document.get("r") == "2-aaa" or document.get("n") == 2

    feed = filled.changes(ChangesRequest(filter=Passes(), style="all_docs"))
    found = feed.rows()
    assert [(row["id"], len(row["changes"])) for row in found] == [("beta", 1), ("conf", 1)]
    assert found[1]["changes"] == [{"rev": "2-aaa"}]
    assert ids(filled, filter=Passes()) == ["beta"]
    assert feed.last_seq == filled.info()["update_seq"]


def test_after_compaction_the_same_is_told(filled: CouchDatabase, db: Database) -> None:
    before = rows(filled, style="all_docs", include_docs=True)
    middle = before[0]["seq"]
    filled.compact()
    db.compact(0)
    assert rows(filled, style="all_docs", include_docs=True) == before
    assert [row["id"] for row in rows(filled, since=middle)] == [row["id"] for row in before[1:]]


def test_a_position_of_another_history_is_refused(filled: CouchDatabase, couch: Couch) -> None:
    history = rows(filled)[0]["seq"].rpartition(".")[0]
    for since in ("1", "x", "", "-1", "1-abc.def", "1-abc.def.1", f"{history}.99999", "1-"):
        with pytest.raises(CouchError) as caught:
            rows(filled, since=since)
        assert caught.value.reason == "Malformed sequence supplied in 'since' parameter."


def numbers(notes: CouchDatabase) -> list[int]:
    return [int(row["seq"].partition("-")[0]) for row in rows(notes)]


def test_seqs_of_each_database_begin_with_1(couch: Couch, db: Database) -> None:
    for name in ("first", "second"):
        notes = couch.create(name)
        assert notes.info()["update_seq"].startswith("0-")
        notes.bulk_docs([{"_id": id} for id in "abc"])
        assert numbers(notes) == [1, 2, 3]
        assert notes.info()["update_seq"] == rows(notes)[-1]["seq"]
    assert numbers(couch.open("first")) == [1, 2, 3]
    assert rows(couch.open("first"), since=rows(couch.open("first"))[1]["seq"])[0]["id"] == "c"


def test_seqs_of_a_table_with_a_past_go_on_from_it(couch: Couch, db: Database) -> None:
    table = db.table_create("old", primary_key="_id")
    table.insert([{"_id": "a"}, {"_id": "b"}])
    db.table_create("other").insert([{"id": number} for number in range(100)])
    notes = couch.open("old")
    assert numbers(notes) == [1, 2]
    assert notes.info()["update_seq"].startswith("2-")
    table.insert({"_id": "c"})
    assert numbers(notes) == [1, 2, 3]


def test_a_seq_without_its_number_is_the_same_position(filled: CouchDatabase) -> None:
    second = rows(filled)[1]["seq"]
    for since in (second.partition("-")[2], "0-" + second.partition("-")[2]):
        assert ids(filled, since=since) == ["gamma", "conf"]


def test_a_token_of_the_native_database_is_a_position(filled: CouchDatabase, db: Database) -> None:
    token = db.token
    filled.put({"_id": "new"})
    assert ids(filled, since=token) == ["new"]


def test_seqs_are_left_out_between_intervals(filled: CouchDatabase) -> None:
    assert [row["seq"] is None for row in rows(filled, seq_interval=2)] == [False, True, False, True]


def test_a_live_feed_is_woken_once_until_it_is_read(notes: CouchDatabase, db: Database) -> None:
    feed = notes.changes(ChangesRequest(since="now"))
    woken: list[int] = []
    feed.on_ready(lambda: woken.append(1))
    assert woken == []
    notes.put({"_id": "a"})
    notes.put({"_id": "b"})
    assert len(woken) == 1
    assert [row["id"] for row in feed.rows()] == ["a", "b"]
    db.table("notes").get("a").delete()
    assert len(woken) == 2
    assert feed.rows()[0]["deleted"] is True
    notes.put_local({"_id": "_local/x"})
    assert len(woken) == 2
    notes.put({"_id": "b", "_rev": "1-000"}, new_edits=False)
    assert len(woken) == 3
    feed.close()
    notes.put({"_id": "c"})
    assert len(woken) == 3


def test_a_feed_of_some_documents_is_woken_for_these(notes: CouchDatabase) -> None:
    feed = notes.changes(ChangesRequest(since="now", doc_ids=["b"]))
    woken: list[int] = []
    feed.on_ready(lambda: woken.append(1))
    notes.put({"_id": "a"})
    assert woken == []
    notes.put({"_id": "b"})
    assert woken == [1]
    assert [row["id"] for row in feed.rows()] == ["b"]
    feed.close()


def test_a_feed_ends_with_its_database(notes: CouchDatabase, couch: Couch) -> None:
    feed = notes.changes(ChangesRequest(since="now"))
    woken: list[int] = []
    feed.on_ready(lambda: woken.append(1))
    couch.drop("notes")
    assert woken == [1]
    assert feed.rows() == []
    assert feed.is_finished


def woken_by(notes: CouchDatabase, **options: Any) -> list[int]:
    """What is appended to whenever a feed that waits is woken; it reads at once."""
    feed = notes.changes(ChangesRequest(since="now", **options))
    woken: list[int] = []
    feed.on_ready(lambda: woken.append(len(feed.rows())))
    return woken


def test_thousands_who_wait_for_other_documents_are_not_woken(notes: CouchDatabase, db: Database) -> None:
    others = [woken_by(notes, doc_ids=[f"k{number}"]) for number in range(1000)]
    others += [
        woken_by(notes, filter=SelectorFilter(Selector({"room": number, "on": True})))
        for number in range(1000)
    ]
    mine = woken_by(notes, filter=SelectorFilter(Selector({"a.b": "x"})))
    notes.put({"_id": "a", "a": {"b": "x"}, "room": 1.5})
    db.table("notes").insert({"_id": "b", "a": {"b": "y"}, "room": True})
    notes.put({"_id": "c", "_deleted": True, "a": {"b": "x"}})
    assert mine == [1, 1]
    assert not any(others)
    notes.put({"_id": "d", "room": 5.0})
    assert [number for number, woken in enumerate(others) if woken] == [1005]


def test_who_waits_for_an_element_of_a_list_is_woken(notes: CouchDatabase) -> None:
    woken = [woken_by(notes, filter=SelectorFilter(Selector({field: "x"}))) for field in ("a.1", "a.+1")]
    notes.put({"_id": "a", "a": ["w", "x"]})
    assert woken == [[1], [1]]


def test_a_new_losing_branch_wakes_who_waits_for_the_winner(notes: CouchDatabase) -> None:
    graft = {"_id": "a", "_revisions": {"start": 2, "ids": ["b", "a"]}, "t": "x"}
    notes.put(graft, new_edits=False)
    woken = woken_by(notes, filter=SelectorFilter(Selector({"t": "x"})))
    notes.put({"_id": "a", "_rev": "1-z", "t": "y"}, new_edits=False)
    assert woken == [1]


def test_a_selector_projects_what_comes_along(filled: CouchDatabase) -> None:
    found = rows(filled, filter=SelectorFilter(Selector({"n": 3}), ["_id", "n"]), include_docs=True)
    assert [row["doc"] for row in found] == [{"_id": "alpha", "n": 3}]


def test_large_documents_are_read_a_few_at_a_time(
    notes: CouchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in memory at a time is bounded by bytes, and all is told nevertheless."""
    monkeypatch.setattr(changes, "PAGE_BYTES", 10_000)
    monkeypatch.setattr(changes, "FIRST_PAGE", 2)
    notes.bulk_docs([{"_id": f"{number:03}", "text": "x" * 3_000} for number in range(100)])
    feed = notes.changes(ChangesRequest(include_docs=True))
    told: list[str] = []
    while found := feed.rows(1_000):
        assert len(found) <= 10
        told += [row["id"] for row in found]
    assert [f"{number:03}" for number in range(100)] == told


def test_rows_of_several_openings_of_the_file_have_the_seqs_that_they_have_alone(tmp_path: Path) -> None:
    """Each opening begins an epoch, which is in the seqs of what it writes."""
    for number in range(3):
        with reactdb.connect(tmp_path / "a.db") as db:
            couch = Couch(db)
            (couch.open("notes") if number else couch.create("notes")).put({"_id": str(number)})
    with reactdb.connect(tmp_path / "a.db") as db:
        notes = Couch(db).open("notes")
        together = [row["seq"] for row in notes.changes(ChangesRequest()).rows()]
        alone, since = [], "0"
        while rows := notes.changes(ChangesRequest(since, limit=1)).rows():
            since = rows[0]["seq"]
            alone.append(since)

    assert alone == together
    assert 1 < len({seq.split(".")[1] for seq in together})


@pytest.mark.parametrize("attachments", [False, True])
def test_of_a_document_only_the_fields_that_were_asked_for_are_told(
    notes: CouchDatabase, attachments: bool
) -> None:
    rev = notes.put({"_id": "a", "n": 1, "m": 2})["rev"]
    notes.put_attachment("a", "file", b"bytes", "text/plain", rev)
    for fields in (["n"], ["n", "_attachments"]):
        filter = SelectorFilter(Selector({"n": 1}), fields)
        request = ChangesRequest(filter=filter, include_docs=True, attachments=attachments)
        (row,) = notes.changes(request).rows()

        assert set(fields) == row["doc"].keys()
    assert attachments is ("data" in row["doc"]["_attachments"]["file"])
