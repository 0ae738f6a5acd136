"""Documents with revisions: single ones, many at once, conflicts, deletions and what is read of old revisions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb import row
from reactdb.database import Database
from reactdb.dialects.couchdb.changes import ChangesRequest
from reactdb.dialects.couchdb.couch import Couch
from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.store.tools.doctor import examine


def refused(status: int, reason: str, call: Any, *arguments: Any, **options: Any) -> CouchError:
    with pytest.raises(CouchError) as caught:
        call(*arguments, **options)
    assert (caught.value.status, caught.value.reason) == (status, reason)
    return caught.value


def graft(notes: CouchDatabase, id: str, ids: list[str], **fields: Any) -> None:
    revisions = {"start": int(ids[0].partition("-")[0]), "ids": [one.partition("-")[2] for one in ids]}
    notes.put({"_id": id, "_revisions": revisions, **fields}, new_edits=False)


def test_a_document_is_written_read_changed_and_deleted(notes: CouchDatabase) -> None:
    first = notes.put({"_id": "a", "text": "one"})
    assert first["ok"] is True
    assert first["rev"].startswith("1-")
    assert notes.get("a") == {"_id": "a", "_rev": first["rev"], "text": "one"}
    second = notes.put({"_id": "a", "_rev": first["rev"], "text": "two"})
    assert second["rev"].startswith("2-")
    refused(409, "Document update conflict.", notes.put, {"_id": "a", "_rev": first["rev"], "text": "no"})
    refused(409, "Document update conflict.", notes.put, {"_id": "a", "text": "no"})
    assert notes.get("a", rev=first["rev"])["text"] == "one"
    third = notes.delete("a", second["rev"])
    assert third["rev"].startswith("3-")
    refused(404, "deleted", notes.get, "a")
    refused(404, "deleted", notes.delete, "a", third["rev"])
    refused(404, "missing", notes.get, "b")
    assert notes.get("a", rev=third["rev"]) == {"_id": "a", "_rev": third["rev"], "_deleted": True}
    refused(409, "Document update conflict.", notes.put, {"_id": "a", "_rev": third["rev"]})
    fourth = notes.put({"_id": "a", "text": "again"})
    assert fourth["rev"].startswith("4-")
    found = notes.get("a", revs=True, revs_info=True)
    assert found["_revisions"] == {
        "start": 4,
        "ids": [one["rev"][2:] for one in (fourth, third, second, first)],
    }
    assert [one["status"] for one in found["_revs_info"]] == [
        "available",
        "deleted",
        "available",
        "available",
    ]


def test_the_same_edit_has_the_same_revision_in_every_database(couch: Couch, db: Database) -> None:
    db.table_create("plain")
    revs = []
    for name in ("plain", "other"):
        database = couch.open(name) if name == "plain" else couch.create(name)
        rev = database.put({"_id": "a", "x": 1, "y": [1.5, None]})["rev"]
        revs.append((rev, database.put({"_id": "a", "_rev": rev, "y": 2, "x": 1})["rev"]))
    assert revs[0] == revs[1]


@pytest.mark.parametrize(
    ("greater", "lesser"),
    [
        # 16 bytes from 170 on, and a letter, which is byte 122.
        ("1-" + "a" * 32, "1-z"),
        ("1-z", "1-" + "7" * 32),
        ("1-A", "1-" + "3" * 32),
        ("1-" + "F" * 32, "1-" + "e" * 32),
        ("1-" + "a" * 31, "1-" + "9" * 31 + "z"),
        ("1-a", "1-A"),
        ("10-0", "9-" + "f" * 32),
        # What CouchDB takes for the same hash.
        ("1-zzzzzzzzzzzzzzzz", "1-" + "7a" * 16),
    ],
)
def test_the_greater_hash_wins_as_bytes(notes: CouchDatabase, greater: str, lesser: str) -> None:
    for id, revs in (("a", (greater, lesser)), ("b", (lesser, greater))):
        for rev in revs:
            notes.put({"_id": id, "_rev": rev}, new_edits=False)
        assert notes.get(id, conflicts=True) == {
            "_id": id,
            "_rev": greater.lower() if len(greater) == 34 else greater,
            "_conflicts": [lesser],
        }


def test_a_losing_branch_is_kept_and_natively_not_seen(notes: CouchDatabase, db: Database) -> None:
    graft(notes, "a", ["2-b", "1-a"], text="winner")
    before = db.seq
    graft(notes, "a", ["2-a", "1-a"], text="loser")
    assert db.table("notes").run() == [{"_id": "a", "text": "winner"}]
    assert [change.table for change in db.log(since=before)] == []
    assert notes.get("a", conflicts=True) == {
        "_id": "a",
        "_rev": "2-b",
        "text": "winner",
        "_conflicts": ["2-a"],
    }
    assert [one["ok"]["_rev"] for one in notes.open_revs("a", "all")] == ["2-b", "2-a"]
    notes.delete("a", "2-b")
    assert db.table("notes").run() == [{"_id": "a", "text": "loser"}]
    found = notes.get("a", deleted_conflicts=True)
    assert found["_rev"] == "2-a"
    assert [rev.partition("-")[0] for rev in found["_deleted_conflicts"]] == ["3"]
    notes.delete("a", "2-a")
    assert db.table("notes").run() == []
    refused(404, "deleted", notes.get, "a")
    assert notes.info()["doc_del_count"] == 1
    assert notes.info()["doc_count"] == 0


def test_native_writes_are_edits_of_the_winner(notes: CouchDatabase, db: Database) -> None:
    table = db.table("notes")
    table.insert({"_id": "a", "n": 1})
    first = notes.get("a")["_rev"]
    table.get("a").update({"n": 2})
    found = notes.get("a", revs=True)
    assert found["_rev"].startswith("2-")
    assert found["_revisions"]["ids"][1] == first[2:]
    graft(notes, "a", ["1-zzz"], n=9)
    table.get("a").delete()
    refused(404, "deleted", notes.get, "a")
    assert all(one["ok"]["_deleted"] for one in notes.open_revs("a", "all"))
    assert len(notes.open_revs("a", "all")) == 2
    table.insert({"_id": "a", "n": 3})
    assert notes.get("a")["_rev"].startswith("4-")


def test_a_table_that_was_written_before_has_deterministic_revisions(couch: Couch, db: Database) -> None:
    db.table_create("old", primary_key="key")
    db.table("old").insert({"key": 5, "n": 1})
    old = couch.open("old")
    found = old.get("=5")
    assert found == {"_id": "=5", "_rev": found["_rev"], "n": 1}
    assert found["_rev"].startswith("1-")
    made = old.put({**found, "n": 2})
    assert db.table("old").run() == [{"key": 5, "n": 2}]
    assert old.get("=5", revs=True)["_revisions"]["ids"][1] == found["_rev"][2:]
    assert made["rev"].startswith("2-")


def test_many_documents_are_written_at_once(notes: CouchDatabase) -> None:
    rows = notes.bulk_docs([{"_id": "a"}, {"_id": "a"}, {"n": 1}, {"_id": "b", "_rev": "1-made-up"}])
    assert [row.get("ok", row.get("error")) for row in rows] == [True, "conflict", True, "conflict"]
    given = [{"_id": "c", "_rev": "1-c"}, {"_id": "c", "_revisions": {"start": 2, "ids": ["d", "c"]}}]
    assert notes.bulk_docs(given, new_edits=False) == []
    assert notes.get("c", revs=True)["_revisions"] == {"start": 2, "ids": ["d", "c"]}
    seq = notes.info()["update_seq"]
    assert notes.bulk_docs(given, new_edits=False) == []
    assert notes.info()["update_seq"] == seq
    refused(400, "Document must be a JSON object", notes.bulk_docs, [1])
    refused(400, "Bad special document member: _x", notes.bulk_docs, [{"_id": "z", "_x": 1}])


def test_what_is_missing_is_told(notes: CouchDatabase) -> None:
    graft(notes, "a", ["3-c", "2-b", "1-a"])
    graft(notes, "a", ["2-x", "1-a"])
    asked = {"a": ["2-b", "4-d", "1-a", "3-y"], "b": ["1-a"], "c": []}
    assert notes.revs_diff(asked) == {
        "a": {"missing": ["4-d", "3-y"], "possible_ancestors": ["3-c", "2-x"]},
        "b": {"missing": ["1-a"]},
    }
    refused(400, "Invalid rev format", notes.revs_diff, {"a": ["x"]})


def test_revisions_are_got_in_bulk(notes: CouchDatabase) -> None:
    graft(notes, "a", ["3-c", "2-b", "1-a"], n=3)
    graft(notes, "a", ["2-x", "1-a"], n=2)
    found = notes.bulk_get(
        [{"id": "a", "rev": "2-b"}, {"id": "a"}, {"id": "b"}, {"rev": "1-a"}, {"id": "a", "rev": "x"}],
        revs=True,
        latest=True,
    )
    assert found[0]["docs"] == [
        {"ok": {"_id": "a", "_rev": "3-c", "n": 3, "_revisions": {"start": 3, "ids": ["c", "b", "a"]}}}
    ]
    assert [one["ok"]["_rev"] for one in found[1]["docs"]] == ["3-c", "2-x"]
    assert found[2]["docs"] == [
        {"error": {"id": "b", "rev": "undefined", "error": "not_found", "reason": "missing"}}
    ]
    assert found[3]["docs"][0]["error"]["reason"] == "document id missed"
    assert found[4]["docs"][0]["error"]["reason"] == "Invalid rev format"


@pytest.mark.parametrize("count", [15, 16, 17, 33, 64, 100])
def test_a_long_history_is_kept_in_chunks(notes: CouchDatabase, count: int) -> None:
    rev = None
    revs = []
    for number in range(count):
        document = {"_id": "a", "n": number} if rev is None else {"_id": "a", "n": number, "_rev": rev}
        rev = notes.put(document)["rev"]
        revs.append(rev)
    found = notes.get("a", revs=True)["_revisions"]
    assert found == {"start": count, "ids": [one.partition("-")[2] for one in reversed(revs)]}
    assert notes.revs_diff({"a": revs}) == {}
    notes.revs_limit = 10
    assert notes.get("a", revs=True)["_revisions"]["ids"] == found["ids"][:10]
    notes.compact()
    refused(404, "missing", notes.get, "a", rev=revs[-2])
    assert notes.get("a")["n"] == count - 1


def test_a_long_history_is_grafted(notes: CouchDatabase, couch: Couch) -> None:
    ids = [f"{number}-h{number}" for number in range(100, 0, -1)]
    graft(notes, "a", ids, n=1)
    assert notes.get("a", revs=True)["_revisions"]["ids"] == [one.partition("-")[2] for one in ids]
    # Less is told than is known, then a branch far below.
    graft(notes, "a", ["101-x", "100-h100"], n=2)
    assert len(notes.get("a", revs=True)["_revisions"]["ids"]) == 101
    graft(notes, "a", ["40-y", "39-h39"], n=3)
    branch = notes.get("a", rev="40-y", revs=True)
    assert branch["_revisions"]["ids"] == ["y", *(f"h{number}" for number in range(39, 0, -1))]
    # More is told than is known.
    other = couch.create("other")
    graft(other, "a", ids[:50], n=1)
    graft(other, "a", ids[30:], n=1)
    assert other.get("a", revs=True)["_revisions"]["ids"] == [one.partition("-")[2] for one in ids]


def test_local_documents_are_kept_apart(notes: CouchDatabase) -> None:
    seq = notes.info()["update_seq"]
    refused(404, "missing", notes.get_local, "_local/x")
    assert notes.put_local({"_id": "_local/x", "n": 1}) == {"ok": True, "id": "_local/x", "rev": "0-1"}
    assert notes.put_local({"_id": "_local/x", "_rev": "0-5", "n": 2})["rev"] == "0-6"
    assert notes.get("_local/x") == {"_id": "_local/x", "_rev": "0-6", "n": 2}
    assert [row["id"] for row in notes.local_docs()["rows"]] == ["_local/x"]
    assert notes.info()["update_seq"] == seq
    assert notes.info()["doc_count"] == 0
    notes.delete_local("x")
    refused(404, "missing", notes.get_local, "_local/x")


def test_all_documents_are_listed_in_the_order_of_bytes(notes: CouchDatabase) -> None:
    ids = ["1", "B", "Z", "_design/x", "a", "b", "é"]
    for id in reversed(ids):
        notes.put({"_id": id})
    notes.delete("b", notes.get("b")["_rev"])
    left = [id for id in ids if id != "b"]

    def told(**options: Any) -> list[str]:
        return [row["id"] for row in notes.all_docs(**options)["rows"]]

    assert told() == left
    assert told(descending=True) == left[::-1]
    assert told(startkey="B", endkey="a") == ["B", "Z", "_design/x", "a"]
    assert told(startkey="B", endkey="a", inclusive_end=False) == ["B", "Z", "_design/x"]
    assert told(startkey="a", endkey="B", descending=True) == ["a", "_design/x", "Z", "B"]
    assert told(startkey="a", endkey="B", descending=True, inclusive_end=False) == ["a", "_design/x", "Z"]
    assert told(limit=2, skip=1) == ["B", "Z"]
    assert notes.all_docs(startkey="Z", limit=1)["offset"] == 2
    rows = notes.all_docs(keys=["a", "b", "nope"], include_docs=True)["rows"]
    assert rows[0]["doc"]["_id"] == "a"
    assert rows[1]["value"]["deleted"] is True
    assert rows[1]["doc"] is None
    assert rows[2] == {"key": "nope", "error": "not_found"}


def test_databases_are_made_listed_and_dropped(couch: Couch, db: Database) -> None:
    couch.create("a/b+c")
    assert couch.databases() == ["a/b+c"]
    assert db.table_list() == ["a.2fb.2bc"]
    refused(412, "The database could not be created, the file already exists.", couch.create, "a/b+c")
    with pytest.raises(CouchError) as caught:
        couch.create("A")
    assert caught.value.error == "illegal_database_name"
    database = couch.open("a/b+c")
    couch.drop("a/b+c")
    refused(404, "Database does not exist.", couch.drop, "a/b+c")
    refused(404, "Database does not exist.", couch.open, "a/b+c")
    refused(404, "Database does not exist.", database.info)


def test_values_that_json_lacks_come_back(couch: Couch, db: Database) -> None:
    from datetime import UTC, datetime
    from decimal import Decimal

    db.table_create("t")
    stored = {
        "id": 1,
        "d": Decimal("1.10"),
        "t": datetime(2020, 1, 1, tzinfo=UTC),
        "b": b"x",
        "_own": 1,
        "=_o": 2,
    }
    db.table("t").insert(stored)
    database = couch.open("t")
    shown = database.get("=1")
    assert shown["=_own"] == 1
    assert shown["==_o"] == 2
    assert shown["d"] == {"$reactdb_type$": "decimal", "value": "1.10"}
    database.put({**shown, "n": 5})
    assert db.table("t").get(1).run() == {**stored, "n": 5}


def test_a_file_that_is_only_read_is_served_and_not_written(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    with reactdb.connect(path) as db:
        db.table_create("plain")
        db.table("plain").insert({"id": "a", "n": 1})
        rev = Couch(db).create("notes").put({"_id": "a", "n": 1})["rev"]
        expected = Couch(db).open("notes").info()
    with reactdb.connect(path, read_only=True) as db:
        couch = Couch(db)
        notes = couch.open("notes")
        assert notes.info() == expected
        assert notes.get("a", revs=True)["_rev"] == rev
        assert couch.open("plain").get("a")["n"] == 1
        assert couch.open("plain").info()["doc_count"] == 1
        assert [row["id"] for row in couch.open("plain").changes(ChangesRequest()).rows()] == ["a"]
        for write in (
            lambda: notes.put({"_id": "b"}),
            lambda: notes.put_local({"_id": "_local/b"}),
            lambda: couch.open("plain").delete("a", "1-x"),
            lambda: couch.create("new"),
            lambda: couch.drop("notes"),
        ):
            with pytest.raises(CouchError) as caught:
                write()
            assert caught.value.status == 403


def test_a_table_that_is_kept_by_another_hook_is_served_as_it_is(db: Database, couch: Couch) -> None:
    db.table_create("games")
    db.table("games").insert({"id": "a", "n": 1})
    db.materialize(db.table("games").filter({"n": 1}), into="kept")
    kept = couch.open("kept")
    assert [row["id"] for row in kept.all_docs()["rows"]] == ["a"]
    with pytest.raises(CouchError) as caught:
        kept.put({"_id": "b"})
    assert caught.value.status == 403


def test_a_document_that_is_too_large_is_refused_alone(notes: CouchDatabase) -> None:
    rows = notes.bulk_docs([{"_id": "a"}, {"_id": "b", "x": "x" * 17_000_000}, {"_id": "c"}])
    assert [row.get("error") for row in rows] == [None, "document_too_large", None]
    assert notes.info()["doc_count"] == 2


def test_what_is_purged_leaves_no_trace(notes: CouchDatabase, db: Database) -> None:
    graft(notes, "a", ["2-b", "1-a"], n="b")
    graft(notes, "a", ["2-a", "1-a"], n="a")
    rev = notes.put({"_id": "gone"})["rev"]
    tombstone = notes.delete("gone", rev)["rev"]
    assert notes.purge({"a": ["2-b", "1-a"], "gone": [tombstone], "x": ["1-a"]}) == {
        "a": ["2-b"],
        "gone": [tombstone],
        "x": [],
    }
    assert db.table("notes").run() == [{"_id": "a", "n": "a"}]
    assert [row["id"] for row in notes.changes(ChangesRequest()).rows()] == ["a"]
    notes.purge({"a": ["2-a"]})
    refused(404, "missing", notes.get, "a")
    assert notes.changes(ChangesRequest()).rows() == []
    assert notes.put({"_id": "a"})["rev"].startswith("1-")
    db.table("notes").insert({"_id": "gone"})
    assert notes.get("gone")["_rev"].startswith("1-")


def test_a_revision_that_another_path_began_with_joins_the_two_paths(notes: CouchDatabase) -> None:
    graft(notes, "d", ["1-a"])
    # Nobody knew what came before 2-b.
    graft(notes, "d", ["3-c", "2-b"])
    graft(notes, "d", ["2-b", "1-a"])

    (leaf,) = notes.open_revs("d", "all", revs=True)
    assert {"start": 3, "ids": ["c", "b", "a"]} == leaf["ok"]["_revisions"]


def test_a_shared_chunk_keeps_what_another_leaf_needs(notes: CouchDatabase) -> None:
    def ids(top: str, newest: int) -> list[str]:
        return [f"{newest}-{top}", *(f"{number}-h{number}" for number in range(newest - 1, 0, -1))]

    graft(notes, "a", ids("low", 34))
    notes.revs_limit = 4
    # Of this one, only what is just above the older one's is kept; both have the chunk that ends with 32.
    graft(notes, "a", ids("high", 35))
    notes.revs_limit = 1000
    path = [one.partition("-")[2] for one in ids("low", 34)]
    assert notes.get("a", rev="34-low", revs=True)["_revisions"]["ids"] == path


def test_an_id_may_be_longer_than_native_keys(tmp_path: Path) -> None:
    id = "é" * 1_500
    with reactdb.connect(tmp_path / "a.db") as db:
        notes, table = Couch(db).create("notes"), db.table("notes")
        heard: list[Any] = []
        table.filter(row["n"] > 0).changes().subscribe(heard.append)
        rev = notes.put({"_id": id, "n": 0})["rev"]
        for n in range(1, 40):
            rev = notes.put({"_id": id, "_rev": rev, "n": n})["rev"]
        assert 39 == len(heard)
        # What is there can be changed natively.
        assert 1 == table.update({"seen": True})["replaced"]
        assert 1 == table.filter(row["n"] == 39).replace({"_id": id, "n": 40})["replaced"]
        assert 42 == len(notes.get(id, revs=True)["_revisions"]["ids"])
        assert [id] == [found["id"] for found in notes.changes(ChangesRequest()).rows()]
        assert [id] == [found["id"] for found in notes.all_docs(startkey="é")["rows"]]
        notes.compact()
        notes.delete(id, notes.get(id)["_rev"])
        refused(404, "deleted", notes.get, id)
    findings = [one for _, found in examine(str(tmp_path / "a.db")) for one in found]
    assert [] == [one for one in findings if one.level == "problem"]


def test_an_id_that_is_too_long_is_refused(notes: CouchDatabase) -> None:
    refused(400, "Document id is too long", notes.put, {"_id": "x" * 5_000})
    assert [] == notes.changes(ChangesRequest()).rows()


def test_a_compaction_that_runs_is_listed(
    notes: CouchDatabase, couch: Couch, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    other = couch.create("other")

    def look(keep: object) -> None:
        seen.append((notes.info()["compact_running"], other.info()["compact_running"], couch.active_tasks()))

    monkeypatch.setattr(notes.session, "compact", look)
    notes.compact()
    ((mine, others, (task,)),) = seen
    assert (True, False) == (mine, others)
    assert ("database_compaction", "notes") == (task["type"], task["database"])
    assert (False, []) == (notes.info()["compact_running"], couch.active_tasks())
