"""Requests whose bodies come compressed: `Content-Encoding: gzip`, over real sockets."""

from __future__ import annotations

import base64
import gzip
import io
import json
import zlib
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import reactdb
from reactdb.dialects.couchdb.attachments import UNZIPPED_BYTES, ZIPPED_BYTES, unzip
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.servers.http import HTTPLimits, HTTPServer, serve_in_thread
from reactdb.servers.users import Credentials

PATIENCE_S = 60.0
MIB = 2**20
LIMITS = HTTPLimits(body_bytes=MIB, attachment_bytes=2 * MIB)
JSON_GZIP = {"Content-Type": "application/json", "Content-Encoding": "gzip"}


@pytest.fixture
def db() -> Iterator[Any]:
    with reactdb.connect(":memory:") as database:
        database.table_create("todo", primary_key="_id")
        yield database


def client_of(server: HTTPServer) -> httpx.Client:
    return httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=PATIENCE_S, verify=False)


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Any, httpx.Client]]:
    """One server for all, because to start one takes longer than a test."""
    with (
        reactdb.connect(":memory:") as database,
        serve_in_thread(database, limits=LIMITS) as server,
        client_of(server) as made,
    ):
        yield database, made


@pytest.fixture
def client(served: tuple[Any, httpx.Client]) -> Iterator[httpx.Client]:
    """Of a database `todo` without documents."""
    database, made = served
    database.table_create("todo", primary_key="_id")
    yield made
    database.table_drop("todo")


def error_of(answer: httpx.Response) -> tuple[int, str, str]:
    found = answer.json()
    return answer.status_code, found["error"], found["reason"]


def packed(value: Any) -> bytes:
    # Without the time, because tests are named by what they are given.
    return gzip.compress(json.dumps(value).encode(), mtime=0)


def bomb(size: int) -> bytes:
    """`size` zeros, a thousandth as many bytes."""
    written = io.BytesIO()
    with gzip.GzipFile(fileobj=written, mode="wb") as file:
        for _ in range(size // MIB):
            file.write(bytes(MIB))
    return written.getvalue()


class TestBodies:
    @pytest.mark.parametrize("coding", ["gzip", "GZIP", "x-gzip", "identity, gzip"])
    def test_a_document(self, client: httpx.Client, coding: str) -> None:
        put = client.put("/todo/a", content=packed({"n": 1}), headers={"Content-Encoding": coding})

        assert 201 == put.status_code
        assert 1 == client.get("/todo/a").json()["n"]

    @pytest.mark.parametrize(
        ("method", "path", "body"),
        [
            ("POST", "/todo", {"_id": "x"}),
            ("POST", "/todo/_bulk_docs", {"docs": [{"_id": "x"}]}),
            ("POST", "/todo/_all_docs", {"keys": ["x"]}),
            ("POST", "/todo/_find", {"selector": {}}),
            ("POST", "/todo/_revs_diff", {"x": ["1-a"]}),
            ("POST", "/todo/_changes?filter=_doc_ids", {"doc_ids": ["x"]}),
            ("PUT", "/todo/_local/x", {"n": 1}),
            ("PUT", "/todo/_revs_limit", 500),
        ],
    )
    def test_every_body_means_the_same_as_plain(
        self, client: httpx.Client, method: str, path: str, body: Any
    ) -> None:
        packed_answer = client.request(method, path, content=packed(body), headers=JSON_GZIP)
        plain = client.request(method, path, json=body)

        assert packed_answer.status_code in (200, 201)
        if not path.endswith(("/todo", "_bulk_docs", "_local/x")):
            assert plain.json() == packed_answer.json()

    def test_chunks_that_cut_it_anywhere(self, client: httpx.Client) -> None:
        body = packed({"docs": [{"_id": f"d{number}"} for number in range(50)]})
        pieces = (body[at : at + 7] for at in range(0, len(body), 7))
        answer = client.post("/todo/_bulk_docs", content=pieces, headers=JSON_GZIP)

        assert [201, 50] == [answer.status_code, len(answer.json())]

    def test_several_members_are_one_body(self, client: httpx.Client) -> None:
        parts = [b'{"docs": [{"_id": "a"},', b"", b'{"_id": "b"}]}']
        body = b"".join(map(gzip.compress, parts))
        answer = client.post("/todo/_bulk_docs", content=body, headers=JSON_GZIP)

        assert ["a", "b"] == [row["id"] for row in answer.json()]

    def test_a_body_without_bytes_stays_one(self, client: httpx.Client) -> None:
        answer = client.post("/todo/_changes", content=b"", headers=JSON_GZIP)

        assert 200 == answer.status_code

    def test_an_attachment_is_kept_as_it_was_before(self, client: httpx.Client) -> None:
        data = b"hello " * 1_000
        headers = {"Content-Encoding": "gzip", "Content-Type": "text/plain"}
        put = client.put("/todo/a/f.txt", content=gzip.compress(data), headers=headers)
        found = client.get("/todo/a/f.txt")

        assert 201 == put.status_code
        assert (data, "text/plain") == (found.content, found.headers["content-type"])
        assert "content-encoding" not in found.headers

    def test_a_document_with_attachments_as_parts(self, client: httpx.Client) -> None:
        document = {"_attachments": {"f": {"follows": True, "content_type": "text/plain", "length": 3}}}
        lines = [b"--xx", b"Content-Type: application/json", b"", json.dumps(document).encode()]
        body = b"\r\n".join([*lines, b"--xx", b"", b"abc", b"--xx--"])
        headers = {"Content-Type": "multipart/related; boundary=xx", "Content-Encoding": "gzip"}
        put = client.put("/todo/a", content=gzip.compress(body), headers=headers)

        assert 201 == put.status_code
        assert b"abc" == client.get("/todo/a/f").content

    def test_of_aidbox_too(self, db: Any) -> None:
        db.table_create("Patient")
        with serve_in_thread(db, dialects=["aidbox"], limits=LIMITS) as server, client_of(server) as client:
            put = client.put("/Patient/p", content=packed({"active": True}), headers=JSON_GZIP)
            cut_off = client.put("/Patient/q", content=packed({"active": True})[:-1], headers=JSON_GZIP)
            other = client.put("/Patient/q", json={}, headers={"Content-Encoding": "br"})
            large = client.put("/Patient/q", content=bomb(4 * MIB), headers=JSON_GZIP)

        assert [201, 400, 415, 413] == [
            put.status_code,
            cut_off.status_code,
            other.status_code,
            large.status_code,
        ]
        assert {"id": "p", "active": True} == db.table("Patient").get("p").run()
        assert 1 == db.table("Patient").count().run()


class TestRefusals:
    @pytest.mark.parametrize("coding", ["br", "deflate", "zstd", "gzip, gzip", "br, gzip", "nonsense"])
    @pytest.mark.parametrize("path", ["/todo/a", "/todo/a/f.txt"])
    def test_another_encoding(self, client: httpx.Client, coding: str, path: str) -> None:
        answer = client.put(path, json={}, headers={"Content-Encoding": coding})

        assert (415, "bad_content_type", f"{coding} is not a supported content encoding.") == error_of(answer)
        assert 404 == client.get("/todo/a").status_code

    @pytest.mark.parametrize("coding", ["identity", "", "IDENTITY"])
    def test_none_is_no_other_encoding(self, client: httpx.Client, coding: str) -> None:
        assert 201 == client.put("/todo/a", json={}, headers={"Content-Encoding": coding}).status_code

    WHOLE = packed({"n": "x" * 1_000})

    @pytest.mark.parametrize(
        "body",
        [
            pytest.param(b'{"n": 1}', id="plain"),
            pytest.param(WHOLE[:-1], id="without its last byte"),
            pytest.param(WHOLE[:-8], id="without its check sum"),
            pytest.param(WHOLE[: len(WHOLE) // 2], id="half"),
            pytest.param(WHOLE[:5], id="half of its head"),
            pytest.param(WHOLE + b"more", id="more"),
            pytest.param(WHOLE + WHOLE[:10], id="one and the head of another"),
            pytest.param(WHOLE[:-8] + bytes(8), id="another check sum"),
            pytest.param(zlib.compress(b'{"n": 1}'), id="zlib"),
        ],
    )
    @pytest.mark.parametrize("path", ["/todo/a", "/todo/a/f.txt"])
    def test_what_is_not_whole(self, client: httpx.Client, body: bytes, path: str) -> None:
        answer = client.put(path, content=body, headers=JSON_GZIP)

        assert (400, "bad_request", "Request body is not properly gzipped.") == error_of(answer)
        assert 404 == client.get("/todo/a").status_code

    def test_a_stranger_is_told_nothing_of_it(self, db: Any) -> None:
        with (
            serve_in_thread(db, credentials=Credentials("ann", "secret")) as server,
            client_of(server) as client,
        ):
            assert 401 == client.put("/todo/a", json={}, headers={"Content-Encoding": "br"}).status_code


class TestSizes:
    @pytest.mark.parametrize("members", [1, 4])
    @pytest.mark.parametrize("path", ["/todo/a", "/todo/a/f.txt"])
    def test_a_bomb_is_refused(self, client: httpx.Client, path: str, members: int) -> None:
        """A few kilobytes that would become four times what a body, and twice what an attachment, may have."""
        answer = client.put(path, content=bomb(4 * MIB // members) * members, headers=JSON_GZIP)

        assert (413, "too_large") == error_of(answer)[:2]
        assert 404 == client.get("/todo/a").status_code

    def test_a_bomb_is_not_unpacked_to_its_end(self) -> None:
        """Of what would be a gibibyte, each piece is made when it is asked for."""
        pieces = unzip(iter([bomb(64 * MIB)] * 16))

        assert {UNZIPPED_BYTES} >= {len(next(pieces)) for _ in range(8)}

    def test_the_limit_is_on_what_is_unpacked(self, client: httpx.Client) -> None:
        text = "x" * (MIB - 9)
        fits = client.put("/todo/a", content=packed({"n": text}), headers=JSON_GZIP)
        is_larger = client.put("/todo/b", content=packed({"n": text + "x"}), headers=JSON_GZIP)

        assert [201, 413] == [fits.status_code, is_larger.status_code]
        assert MIB == len(json.dumps({"n": text}))

    def test_what_grows_by_being_compressed_fits_all_the_same(self, db: Any) -> None:
        with serve_in_thread(db, limits=HTTPLimits(body_bytes=10)) as server, client_of(server) as client:
            put = client.put("/todo/a", content=packed({"n": 123}), headers=JSON_GZIP)
            larger = client.put("/todo/b", content=packed({"n": 1234}), headers=JSON_GZIP)

        assert len(packed({"n": 123})) > 10
        assert [201, 413] == [put.status_code, larger.status_code]

    def test_more_than_can_be_in_it_is_refused_before_it_is_unpacked(self, client: httpx.Client) -> None:
        """Empty members, of which any number becomes nothing."""
        answer = client.put("/todo/a", content=gzip.compress(b"") * (MIB // 10), headers=JSON_GZIP)

        assert (413, "too_large") == error_of(answer)[:2]

    def test_an_attachment_that_is_compressed_within_json(self, client: httpx.Client) -> None:
        data = base64.b64encode(bomb(4 * MIB)).decode()
        document = {"_attachments": {"f": {"data": data, "encoding": "gzip"}}}
        answer = client.put("/todo/a", json=document)
        rows = client.post("/todo/_bulk_docs", json={"docs": [{"_id": "b"}, {"_id": "a", **document}]})

        assert (413, "attachment_too_large") == error_of(answer)[:2]
        assert [None, "attachment_too_large"] == [row.get("error") for row in rows.json()]

    def test_an_attachment_that_is_compressed_within_parts(self, client: httpx.Client) -> None:
        document = {"_attachments": {"f": {"follows": True, "content_type": "text/plain"}}}
        lines = [b"--xx", b"Content-Type: application/json", b"", json.dumps(document).encode()]
        part = [b"--xx", b"Content-Encoding: gzip", b"", bomb(4 * MIB), b"--xx--"]
        headers = {"Content-Type": "multipart/related; boundary=xx"}
        answer = client.put("/todo/a", content=b"\r\n".join([*lines, *part]), headers=headers)

        assert (413, "attachment_too_large") == error_of(answer)[:2]

    def test_an_attachment_with_another_encoding_within_json(self, client: httpx.Client) -> None:
        answer = client.put("/todo/a", json={"_attachments": {"f": {"data": "YWJj", "encoding": "br"}}})

        assert (415, "bad_content_type") == error_of(answer)[:2]

    def test_json_within_parts_is_no_larger_than_json_may_be(self, client: httpx.Client) -> None:
        document = json.dumps({"n": "x" * MIB}).encode()
        body = b"\r\n".join([b"--xx", b"Content-Type: application/json", b"", document, b"--xx--"])
        headers = {"Content-Type": "multipart/related; boundary=xx"}

        assert 413 == client.put("/todo/a", content=body, headers=headers).status_code
        answer = client.put(
            "/todo/a", content=gzip.compress(body), headers={**headers, "Content-Encoding": "gzip"}
        )
        assert (413, "too_large") == error_of(answer)[:2]


class TestUnzipped:
    @pytest.mark.parametrize(
        "size", [0, 1, UNZIPPED_BYTES - 1, UNZIPPED_BYTES, UNZIPPED_BYTES + 1, 3 * UNZIPPED_BYTES]
    )
    @pytest.mark.parametrize("members", [1, 2])
    def test_all_of_it_comes_back(self, size: int, members: int) -> None:
        data = bytes(size)

        assert data * members == b"".join(unzip(gzip.compress(data) * members))

    def test_a_member_that_ends_where_a_piece_does(self) -> None:
        """The end of one member, and the whole of the next, in whatever pieces the source gives."""
        head = gzip.compress(bytes(range(256)) * 64, compresslevel=0)
        for cut in range(len(head) - 10, len(head) + 3):
            source = head + gzip.compress(b"tail")
            assert b"tail" == b"".join(unzip(iter([source[:cut], source[cut:]])))[-4:]

    def test_thousands_of_members_cost_what_their_bytes_do(self) -> None:
        member = gzip.compress(b"")
        count = 8 * ZIPPED_BYTES // len(member)

        assert b"" == b"".join(unzip(member * count))

    @pytest.mark.parametrize("source", [b"", b"x"])
    def test_what_is_no_gzip(self, source: bytes) -> None:
        with pytest.raises(CouchError, match="not compressed with gzip"):
            b"".join(unzip(source))
