"""What the page writes: one document at a time, with the version that was seen, and undo."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb.servers.inspector.routes import WRITES
from tests.servers.inspector.service import Inspector


@pytest.fixture
def db() -> Iterator[Any]:
    with reactdb.connect(":memory:") as database:
        database.table_create("notes").insert({"id": 1, "text": "first", "day": date(2026, 1, 2)})
        yield database


@pytest.fixture
def page(db: Any) -> Iterator[Inspector]:
    inspector = Inspector(db, write=True)
    yield inspector
    inspector.application.close()


def test_a_write_to_a_closed_database_says_so(
    db: Any, page: Inspector, caplog: pytest.LogCaptureFixture
) -> None:
    key = {"table": "notes", "key": "=1"}
    written: dict[str, dict[str, Any]] = {
        "insert": {"table": "notes", "doc": {}},
        "replace": {**key, "doc": {"id": 1}},
        "update": {**key, "patch": {}},
        "delete": key,
        "undo": {},
        "redo": {},
    }
    assert WRITES.keys() == written.keys()
    db.close()
    for name, members in written.items():
        assert "closed" in page.write(name, 503, **members)["error"]
    assert [] == caplog.records


def test_a_document_is_inserted_with_all_types(db: Any, page: Inspector) -> None:
    tagged = {"$reactdb_type$": "date", "value": "2026-03-04"}
    done = page.write("insert", table="notes", doc={"id": "x", "day": tagged})
    assert done["key"] == "x"
    assert db.table("notes").get("x").run() == {"id": "x", "day": date(2026, 3, 4)}
    assert next(db.log(done["seq"] - 1)).origin == "inspector"


def test_a_document_without_a_key_gets_one(db: Any, page: Inspector) -> None:
    key = page.write("insert", table="notes", doc={"text": "no key"})["key"]
    assert db.table("notes").get(key).run()["text"] == "no key"


def test_a_taken_key_is_a_conflict(db: Any, page: Inspector) -> None:
    assert "1" in page.write("insert", 409, table="notes", doc={"id": 1})["error"]
    assert db.table("notes").get(1).run()["text"] == "first"


def test_the_exact_json_of_a_document_replaces_it_without_loss(db: Any, page: Inspector) -> None:
    before = db.table("notes").get(1).run()
    shown = page.ask("document", table="notes", key="=1")
    seq = db.seq
    page.write("replace", table="notes", key="=1", doc=json.loads(shown["json"]), expect_seq=seq)
    assert db.table("notes").get(1).run() == before
    assert db.seq == seq


@pytest.mark.parametrize("operation", ["replace", "update", "delete"])
def test_a_version_that_was_not_seen_is_a_conflict(db: Any, page: Inspector, operation: str) -> None:
    content = {"replace": {"doc": {"id": 1}}, "update": {"patch": {"a": 1}}, "delete": {}}[operation]
    seen = page.ask("document", table="notes", key="=1")["history"][0]["seq"]
    with db.transaction(origin="phone"):
        db.table("notes").get(1).update({"text": "second"})
    error = page.write(operation, 409, table="notes", key="=1", expect_seq=seen, **content)["error"]
    assert "changed by phone" in error
    assert db.table("notes").get(1).run()["text"] == "second"
    page.write(operation, table="notes", key="=1", expect_seq=db.seq, **content)


@pytest.mark.parametrize("operation", ["replace", "update", "delete"])
def test_a_deleted_document_is_a_conflict(db: Any, page: Inspector, operation: str) -> None:
    content = {"replace": {"doc": {"id": 1}}, "update": {"patch": {"a": 1}}, "delete": {}}[operation]
    db.table("notes").get(1).delete()
    assert "deleted" in page.write(operation, 409, table="notes", key="=1", **content)["error"]


def test_edits_are_undone_and_made_again(db: Any, page: Inspector) -> None:
    notes = db.table("notes")
    page.write("update", table="notes", key="=1", patch={"text": "second"})
    done = page.write("delete", table="notes", key="=1")
    assert done["undo"] == {
        "undo": True,
        "redo": False,
        "undo_text": "Deletion of notes =1",
        "redo_text": None,
    }
    page.write("undo")
    assert notes.get(1).run()["text"] == "second"
    assert page.write("undo")["restored"] == 1
    assert notes.get(1).run()["text"] == "first"
    assert page.write("undo")["restored"] == 0
    assert page.write("redo")["undo"]["redo_text"] == "Deletion of notes =1"
    assert notes.get(1).run()["text"] == "second"
    assert page.ask("overview")["undo"]["undo_text"] == "Edit of notes =1"


def test_an_undo_leaves_the_edits_of_others(db: Any, page: Inspector) -> None:
    page.write("update", table="notes", key="=1", patch={"text": "second"})
    db.table("notes").get(1).update({"text": "third"})
    assert "changed by another writer" in page.write("undo", 409)["error"]
    assert db.table("notes").get(1).run()["text"] == "third"


@pytest.mark.parametrize(
    ("operation", "members", "words"),
    [
        ("insert", {"table": "notes"}, "lacks `doc`"),
        ("insert", {"table": "notes", "doc": [1]}, "doc is a JSON object"),
        ("insert", {"table": 1, "doc": {}}, "table is a text"),
        ("replace", {"table": "notes", "key": "=1", "doc": {"id": 2}}, ""),
        ("replace", {"table": "notes", "key": "=1", "doc": {"id": 1}, "expect_seq": "x"}, "expect_seq"),
        ("update", {"table": "notes", "key": "=1", "patch": {}, "other": 1}, "unknown member `other`"),
        ("undo", {"table": "notes"}, "unknown member"),
    ],
    ids=str,
)
def test_a_wrong_body_writes_nothing(
    db: Any, page: Inspector, operation: str, members: dict[str, Any], words: str
) -> None:
    seq = db.seq
    assert words in page.write(operation, 400, **members)["error"]
    assert db.seq == seq


def test_an_unknown_type_in_the_json_is_named(page: Inspector) -> None:
    wrong = {"$reactdb_type$": "nothing", "value": 1}
    assert "cannot be read" in page.write("insert", 400, table="notes", doc={"a": wrong})["error"]


def test_without_write_no_route_changes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with reactdb.connect(path) as database:
        database.table_create("notes").insert({"id": 1})

    def digest() -> str:
        return hashlib.sha256(path.read_bytes()).hexdigest()

    before = digest()
    with reactdb.connect(path, read_only=True) as database:
        inspector = Inspector(database)
        for name in WRITES:
            assert (
                "only reads"
                in inspector.write(name, 403, table="notes", key="=1", doc={"id": 2}, patch={})["error"]
            )
        for name, parameters in {
            "overview": {},
            "rows": {"table": "notes", "order": "id"},
            "document": {"table": "notes", "key": "=1"},
            "log": {},
            "activity": {},
        }.items():
            inspector.ask(name, **parameters)
        inspector.application.close()
    assert digest() == before
    wal = Path(f"{path}-wal")
    assert not wal.exists() or wal.stat().st_size == 0
