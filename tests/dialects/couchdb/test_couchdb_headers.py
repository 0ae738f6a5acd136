"""Texts of documents that go into headers: which are refused on every way in, and what becomes of those that are stored."""

from __future__ import annotations

from typing import Any

import pytest

from reactdb.database import Database
from reactdb.dialects.couchdb import attachments
from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.headers import header_text, is_header_text
from reactdb.dialects.couchdb.multipart import part_head
from reactdb.errors import InvalidDocument

BAD = ["text/plain\r\nX-Mine: 1", "text/plain\n", "a\0b", "\x1b[2J", "a\x7f", "a\x85b", "a\tb"]


@pytest.mark.parametrize("text", BAD)
class TestWaysIn:
    def test_an_attachment_within_a_document(self, notes: CouchDatabase, text: str) -> None:
        for new_edits in (True, False):
            document = {"_id": "a", "_rev": "1-a", "_attachments": {"f": {"data": "", "content_type": text}}}
            with pytest.raises(
                CouchError, match="content type of attachment `f` has control characters"
            ) as caught:
                notes.put(document | ({"_rev": ""} if new_edits else {}), new_edits=new_edits)
            assert 400 == caught.value.status

    def test_an_attachment_whose_bytes_follow(self, notes: CouchDatabase, text: str) -> None:
        said = {"f": {"follows": True, "length": 1, "content_type": text}}
        with pytest.raises(CouchError, match="control characters"):
            notes.put({"_id": "a", "_attachments": said}, parts={"f": b"x"})

    def test_one_of_many_documents_is_refused_and_the_others_are_written(
        self, notes: CouchDatabase, text: str
    ) -> None:
        bad = {"_id": "bad", "_rev": "1-a", "_attachments": {"f": {"data": "", "content_type": text}}}

        rows = notes.bulk_docs([{"_id": "good", "_rev": "1-a"}, bad], new_edits=False)

        assert [("bad", "bad_request")] == [(row["id"], row["error"]) for row in rows]
        assert ["good"] == [row["id"] for row in notes.all_docs()["rows"]]

    def test_an_attachment_by_itself(self, notes: CouchDatabase, text: str) -> None:
        with pytest.raises(CouchError, match="content type of attachment `f` has control characters"):
            notes.put_attachment("a", "f", b"x", text)

    def test_a_name(self, notes: CouchDatabase, text: str) -> None:
        with pytest.raises(CouchError, match=r"name of attachment .* has control characters"):
            notes.put({"_id": "a", "_attachments": {text: {"data": ""}}})
        with pytest.raises(CouchError, match=r"name of attachment .* has control characters"):
            notes.put_attachment("a", text, b"x")

    def test_a_revision(self, notes: CouchDatabase, text: str) -> None:
        for document in (
            {"_id": "a", "_rev": f"1-{text}"},
            {"_id": "a", "_revisions": {"start": 2, "ids": ["b", text]}},
        ):
            with pytest.raises(CouchError, match="A revision has control characters"):
                notes.put(document, new_edits=False)
            with pytest.raises(CouchError, match="A revision has control characters"):
                notes.bulk_docs([document], new_edits=False)

    def test_a_native_write(self, notes: CouchDatabase, db: Database, text: str) -> None:
        blob = db.blobs.put(b"x")
        table = db.table("notes")

        with pytest.raises(InvalidDocument, match="content type of an attachment has control characters"):
            table.insert({"_id": "a", "_attachments": {"f": {"content_type": text, "blob": blob}}})
        with pytest.raises(InvalidDocument, match="name of an attachment has control characters"):
            table.insert({"_id": "a", "_attachments": {text: {"content_type": "text/plain", "blob": blob}}})
        table.insert({"_id": "b", "_attachments": text, "note": text})

        assert ["b"] == [row["_id"] for row in table.run()]


def test_half_of_a_surrogate_pair_is_no_revision(notes: CouchDatabase) -> None:
    with pytest.raises(CouchError, match="Invalid rev format"):
        notes.put({"_id": "a", "_rev": "1-\ud800"}, new_edits=False)


class TestStored:
    """In files of earlier versions there are any texts."""

    @pytest.fixture
    def old(self, notes: CouchDatabase, monkeypatch: pytest.MonkeyPatch) -> CouchDatabase:
        said = {"content_type": "text/html\r\nX-Mine: 1", "data": "aGk="}
        with monkeypatch.context() as patched:
            patched.setattr(attachments, "check_new", lambda *_: None)
            notes.put({"_id": "a", "_attachments": {"f\n": said, "g": said}})
        return notes

    def test_a_stub_has_a_content_type_for_a_header(self, old: CouchDatabase) -> None:
        document = old.get("a")

        assert {"text/html  X-Mine: 1"} == {
            stub["content_type"] for stub in document["_attachments"].values()
        }
        assert "text/html  X-Mine: 1" == old.attachment("a", "g")[0]["content_type"]
        assert "text/html  X-Mine: 1" == old.get("a", attachments=True)["_attachments"]["g"]["content_type"]

    def test_the_document_can_be_changed(self, old: CouchDatabase, db: Database) -> None:
        db.table("notes").get("a").update({"native": True})
        document = old.get("a")
        old.put({**document, "n": 1})

        assert (True, 1) == (old.get("a")["native"], old.get("a")["n"])
        assert {"f\n", "g"} == old.get("a")["_attachments"].keys()
        assert b"hi" == old.attachment("a", "f\n")[1]().read()

    def test_what_a_native_writer_left_out_is_there(self, notes: CouchDatabase, db: Database) -> None:
        blob = db.blobs.put(b"hello")
        table = db.table("notes")
        table.insert({"_id": "a"})
        table.get("a").update(
            {
                "_attachments": {
                    "f": {"blob": blob},
                    "g": {
                        "blob": blob,
                        "digest": "x\r\ny",
                        "length": "many",
                        "revpos": -1,
                        "content_type": 5,
                    },
                }
            }
        )

        found = notes.get("a")["_attachments"]

        stub = {
            "content_type": "application/octet-stream",
            "revpos": 2,
            "digest": f"sha256-{blob.digest}",
            "length": 5,
            "stub": True,
        }
        assert {"f": stub, "g": stub} == found


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("text/plain", "text/plain"),
        ("text/plain; charset=utf-8", "text/plain; charset=utf-8"),
        (" a ", "a"),
        ("a\r\nb", "a  b"),
        ("\n", ""),
        ("gr\u00fc\u00df \u4f60", "gr\u00fc\u00df \u4f60"),
        ("x" * 20_000, "x" * 16_384),
    ],
)
def test_a_stored_text_becomes_one_for_a_header(text: str, shown: str) -> None:
    assert shown == header_text(text)
    assert is_header_text(shown)


def test_the_head_of_a_part_has_a_line_for_each_header() -> None:
    values: dict[str, Any] = {f"X-{place}": text for place, text in enumerate(BAD)}

    head = part_head("xx", values)

    assert len(BAD) + 2 == head.count(b"\r\n")
    assert head.endswith(b"\r\n\r\n")
    assert not any(byte < 32 and byte not in b"\r\n" for byte in head)
