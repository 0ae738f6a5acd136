"""Texts of documents in headers, over a real socket: none that is stored can break an answer, or add a header to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from email import message_from_bytes
from email.policy import HTTP
from typing import Any

import httpx
import pytest

import reactdb
from reactdb.dialects.couchdb import attachments, database
from reactdb.dialects.couchdb.couch import Couch
from reactdb.servers.http import serve_in_thread

# Nothing that is waited for takes longer, even on a busy machine.
PATIENCE_S = 60.0
TYPE = "text/plain\r\nX-Mine: 1\r\n\r\n<b>"
SHOWN = "text/plain  X-Mine: 1    <b>"


@pytest.fixture
def db() -> Iterator[Any]:
    with reactdb.connect(":memory:") as made:
        Couch(made).create("notes")
        made.table_create("Patient")
        yield made


@pytest.fixture
def client(db: Any) -> Iterator[httpx.Client]:
    with (
        serve_in_thread(db, dialects=["couchdb", "aidbox"]) as server,
        httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=PATIENCE_S, verify=False) as made,
    ):
        yield made


class TestStored:
    """What a file of an earlier version has."""

    @pytest.fixture
    def rev(self, db: Any, monkeypatch: pytest.MonkeyPatch) -> str:
        with monkeypatch.context() as patched:
            patched.setattr(attachments, "check_new", lambda *_: None)
            patched.setattr(database, "check_text", lambda *_: None)
            said = {
                "f\r\nX-Mine: 1": {"data": "aGk=", "content_type": TYPE},
                "gr\u00fc\u4f60": {"data": "aGk="},
            }
            document = {"_id": "a", "_rev": "1-x\r\nX-Mine: 1\u4f60", "_attachments": said}
            return str(Couch(db).open("notes").put(document, new_edits=False)["rev"])

    def test_an_attachment_is_read(self, client: httpx.Client, rev: str) -> None:
        answer = client.get("/couchdb/notes/a/f%0D%0AX-Mine%3A%201")

        assert (200, b"hi", SHOWN) == (answer.status_code, answer.content, answer.headers["content-type"])
        assert "x-mine" not in answer.headers

    def test_a_document_is_read_by_its_revision(self, client: httpx.Client, rev: str) -> None:
        answer = client.get("/couchdb/notes/a", params={"rev": rev})

        assert (200, rev) == (answer.status_code, answer.json()["_rev"])
        assert '"1-x  X-Mine: 1?"' == answer.headers["etag"]
        assert "x-mine" not in answer.headers

    @pytest.mark.parametrize("several", [False, True])
    def test_the_parts_of_a_document_have_their_own_headers_only(
        self, client: httpx.Client, rev: str, several: bool
    ) -> None:
        asks = {"open_revs": "all"} if several else {"attachments": "true"}
        accept = "multipart/mixed" if several else "multipart/related"
        answer = client.get("/couchdb/notes/a", params=asks, headers={"Accept": accept})

        kind = answer.headers["content-type"]
        whole = message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + answer.content, policy=HTTP)
        parts = [part for part in whole.walk() if not part.is_multipart()]
        assert ["application/json", SHOWN, "application/octet-stream"] == [
            part["content-type"] for part in parts
        ]
        assert not any("x-mine" in part for part in whole.walk())
        assert [b"hi", b"hi"] == [part.get_payload(decode=True) for part in parts[1:]]

    def test_what_was_read_can_be_written_back(self, client: httpx.Client, rev: str) -> None:
        document = client.get("/couchdb/notes/a").json()

        answer = client.put("/couchdb/notes/a", json={**document, "n": 1})

        assert 201 == answer.status_code
        assert 1 == client.get("/couchdb/notes/a").json()["n"]


class TestWaysIn:
    def test_every_way_in_refuses_a_content_type_with_a_line_end(self, db: Any, client: httpx.Client) -> None:
        inline = {"_id": "a", "_attachments": {"f": {"data": "aGk=", "content_type": TYPE}}}
        follows = {"_attachments": {"f": {"follows": True, "length": 2, "content_type": TYPE}}}
        related = (
            b"--xx\r\nContent-Type: application/json\r\n\r\n"
            + json.dumps(follows).encode()
            + b"\r\n--xx\r\n\r\nhi\r\n--xx--"
        )
        replicated = {**inline, "_rev": "1-a"}
        answers = [
            client.post("/couchdb/notes", json=inline),
            client.put("/couchdb/notes/a", json=inline),
            client.put("/couchdb/notes/a?new_edits=false", json=replicated),
            client.put(
                "/couchdb/notes/a",
                content=related,
                headers={"Content-Type": "multipart/related; boundary=xx"},
            ),
        ]
        rows = [
            client.post("/couchdb/notes/_bulk_docs", json={"docs": [inline]}).json()[0],
            client.post("/couchdb/notes/_bulk_docs", json={"docs": [replicated], "new_edits": False}).json()[
                0
            ],
        ]

        assert {400} == {answer.status_code for answer in answers}
        sentence = (
            "The content type of attachment `f` has control characters, which are not allowed in a header"
        )
        assert {("bad_request", sentence)} == {
            (said["error"], said["reason"]) for said in [*(answer.json() for answer in answers), *rows]
        }
        assert [] == db.table("notes").run()

    def test_a_tab_in_the_header_of_an_attachment_is_refused(self, client: httpx.Client) -> None:
        headers = {"Content-Type": "text/plain;\tcharset=utf-8"}

        answer = client.put("/couchdb/notes/a/f", content=b"hi", headers=headers)

        assert 400 == answer.status_code

    @pytest.mark.parametrize("id", ["a\r\nX-Mine: 1", "a\0", "gr\u00fc\u4f60", 'a"b'])
    def test_an_id_is_in_a_location_as_part_of_a_url(self, client: httpx.Client, id: str) -> None:
        made = client.post("/couchdb/notes", json={"_id": id})

        assert 201 == made.status_code
        assert "x-mine" not in made.headers
        assert id == client.get(made.headers["location"]).json()["_id"]

    def test_an_id_of_a_resource_has_no_such_characters(self, client: httpx.Client) -> None:
        assert 422 == client.post("/aidbox/Patient", json={"id": "a\r\nX-Mine: 1"}).status_code

    def test_a_users_name_is_not_in_the_cookie_as_it_is(self, db: Any) -> None:
        from reactdb.servers.users import Credentials

        name = "ann\r\nX-Mine: 1\u4f60"
        with (
            serve_in_thread(db, credentials=Credentials(name, "secret")) as server,
            httpx.Client(
                base_url=f"http://127.0.0.1:{server.port}", timeout=PATIENCE_S, verify=False
            ) as client,
        ):
            answer = client.post("/_session", json={"name": name, "password": "secret"})
            session = client.get("/_session").json()

        assert "x-mine" not in answer.headers
        assert name == session["userCtx"]["name"]
