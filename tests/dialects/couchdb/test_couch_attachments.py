"""Attachments: inline, as streams, as stubs, and natively."""

from __future__ import annotations

import tracemalloc
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb.database import Database
from reactdb.dialects.couchdb.couch import Couch
from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.errors import MissingValue
from tests.support.processes import run_python

HELLO = b64encode(b"hello").decode()
DIGEST = "md5-XUFAKrxLKna5cZ2REBfFkg=="


def test_inline_bytes_become_a_stub(notes: CouchDatabase, db: Database) -> None:
    given = {"_id": "a", "_attachments": {"h.txt": {"content_type": "text/plain", "data": HELLO}}}
    rev = notes.put(given)["rev"]
    stub = {"content_type": "text/plain", "revpos": 1, "digest": DIGEST, "length": 5, "stub": True}
    found = notes.get("a")
    assert found["_attachments"] == {"h.txt": stub}
    assert notes.get("a", attachments=True)["_attachments"] == {
        "h.txt": {"content_type": "text/plain", "revpos": 1, "digest": DIGEST, "data": HELLO}
    }
    shown, read = notes.attachment("a", "h.txt")
    assert shown == stub
    with read() as file:
        assert file.read() == b"hello"
    changed = notes.put({**found, "n": 1})
    assert notes.get("a")["_attachments"] == {"h.txt": stub}
    assert notes.get("a", atts_since=[changed["rev"]])["_attachments"]["h.txt"]["stub"] is True
    assert "data" in notes.get("a", atts_since=[])["_attachments"]["h.txt"]
    native = db.table("notes").get("a").run()
    assert db.blobs.read(native["_attachments"]["h.txt"]["blob"]) == b"hello"
    db.table("notes").get("a").update({"n": 2})
    assert notes.get("a")["_attachments"] == {"h.txt": stub}
    assert rev != changed["rev"]


def test_an_attachment_is_put_replaced_and_deleted(notes: CouchDatabase) -> None:
    rev = notes.put_attachment("a", "x", iter([b"he", b"llo"]), "text/plain")["rev"]
    rev = notes.put_attachment("a", "y", b"other", None, rev)["rev"]
    found = notes.get("a")["_attachments"]
    assert found["x"]["revpos"] == 1
    assert found["y"] == {
        "content_type": "application/octet-stream",
        "revpos": 2,
        "digest": found["y"]["digest"],
        "length": 5,
        "stub": True,
    }
    with pytest.raises(CouchError) as caught:
        notes.put_attachment("a", "z", b"", None, "1-nope")
    assert caught.value.status == 409
    rev = notes.delete_attachment("a", "x", rev)["rev"]
    assert list(notes.get("a")["_attachments"]) == ["y"]
    with pytest.raises(CouchError) as caught:
        notes.attachment("a", "x")
    assert caught.value.reason == "Document is missing attachment"
    rev = notes.delete_attachment("a", "y", rev)["rev"]
    assert "_attachments" not in notes.get("a")


@pytest.mark.parametrize(
    ("attachments", "status"),
    [
        ({"a": {"data": "!"}}, 400),
        ({"a": {}}, 400),
        ({"_a": {"data": HELLO}}, 400),
        ({"a": {"stub": True}}, 412),
        ([], 201),
        ([1], 400),
        ({"a": {"follows": True}}, 400),
    ],
)
def test_what_cannot_be_attached_is_refused(notes: CouchDatabase, attachments: Any, status: int) -> None:
    document = {"_id": "a", "_attachments": attachments}
    if status == 201:
        assert notes.put(document)["ok"]
        return
    with pytest.raises(CouchError) as caught:
        notes.put(document)
    assert caught.value.status == status


def test_a_grafted_revision_brings_its_attachments(notes: CouchDatabase) -> None:
    stub = {"content_type": "text/plain", "revpos": 2, "digest": DIGEST}
    path = {"start": 3, "ids": ["c", "b", "a"]}
    notes.put(
        {"_id": "a", "_revisions": path, "_attachments": {"h": {**stub, "data": HELLO}}}, new_edits=False
    )
    assert notes.get("a")["_attachments"]["h"]["revpos"] == 2
    later = {"start": 4, "ids": ["d", "c", "b", "a"]}
    notes.put(
        {"_id": "a", "_revisions": later, "_attachments": {"h": {**stub, "stub": True}}}, new_edits=False
    )
    assert notes.get("a", attachments=True)["_attachments"]["h"]["data"] == HELLO


def test_bytes_follow_compressed_or_not(notes: CouchDatabase) -> None:
    import gzip

    said = {"content_type": "text/plain", "follows": True, "length": 5}
    notes.put(
        {"_id": "a", "_attachments": {"p": said, "z": {**said, "encoding": "gzip", "encoded_length": 25}}},
        parts={"p": b"hello", "z": iter([gzip.compress(b"hello")])},
    )
    found = notes.get("a", attachments=True)["_attachments"]
    assert found["p"]["data"] == found["z"]["data"] == HELLO
    assert found["z"]["digest"] == DIGEST


def test_bytes_go_when_nothing_refers_to_them(notes: CouchDatabase, db: Database) -> None:
    from datetime import timedelta

    rev = notes.put_attachment("a", "x", b"hello", "text/plain")["rev"]
    notes.put({"_id": "a", "_revisions": {"start": 1, "ids": ["0"]}}, new_edits=False)
    db.compact(0)
    assert db.blobs.remove_unused(timedelta()) == 0
    notes.delete("a", rev)
    db.compact(0)
    assert db.blobs.remove_unused(timedelta()) == 1


def test_a_native_reader_opens_an_attachment(notes: CouchDatabase, db: Database) -> None:
    notes.put_attachment("a", "x", b"hello", "text/plain")
    with db.table("notes").get("a").attachment("x") as file:
        assert file.read() == b"hello"
    for key, name in (("a", "y"), ("b", "x")):
        with pytest.raises(MissingValue, match=f"Nothing is attached to document '{key}' as '{name}'."):
            db.table("notes").get(key).attachment(name)


def test_a_large_attachment_goes_through_in_pieces(tmp_path: Path) -> None:
    megabytes = 40
    with reactdb.connect(tmp_path / "large.db", durability="soft") as db:
        notes = Couch(db).create("notes")
        # What is imported and cached with the first one is not counted.
        notes.put_attachment("small", "x", b"hello", "text/plain")
        tracemalloc.start()
        notes.put_attachment("a", "x", (bytes([number % 251]) * 2**20 for number in range(megabytes)), "x/y")
        stub, read = notes.attachment("a", "x")
        assert stub["length"] == megabytes * 2**20
        with read() as file:
            file.seek(-5, 2)
            assert file.read() == bytes([(megabytes - 1) % 251]) * 5
        assert tracemalloc.get_traced_memory()[1] < 10 * 2**20
        tracemalloc.stop()


def test_whoever_writes_in_another_process_keeps_to_revisions(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    with reactdb.connect(path) as db:
        notes = Couch(db).create("notes")
        rev = notes.put({"_id": "a", "n": 1})["rev"]
        run_python(
            "import reactdb, sys\n"
            "with reactdb.connect(sys.argv[1]) as db:\n"
            "    db.table('notes').get('a').update({'n': 2})\n"
            "    assert 'reactdb.dialects.couchdb.database' not in sys.modules",
            path,
        )
        found = notes.get("a", revs=True)
        assert found["n"] == 2
        assert found["_revisions"]["ids"][1] == rev[2:]
