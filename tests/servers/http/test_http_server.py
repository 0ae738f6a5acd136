"""The server over real sockets: who may ask, how much, and what clients do that go away, stop reading or ask for parts."""

from __future__ import annotations

import asyncio
import base64
import errno
import gzip
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

import reactdb
from reactdb.errors import InvalidOption, how_to_install
from reactdb.servers.couchdb.application import CouchApplication
from reactdb.servers.http import HTTPLimits, HTTPServer, couchdb, serve_in_thread
from reactdb.servers.users import Credentials
from tests.servers.http.asgi import asked
from tests.support.processes import ROOT

# Nothing that is waited for takes longer, even on a busy machine.
PATIENCE_S = 60.0
ORIGIN = {"Origin": "http://example.org"}


@pytest.fixture
def db() -> Iterator[Any]:
    with reactdb.connect(":memory:") as database:
        database.table_create("todo", primary_key="_id")
        yield database


def client_of(server: HTTPServer, **options: Any) -> httpx.Client:
    return httpx.Client(
        base_url=f"http://127.0.0.1:{server.port}", timeout=PATIENCE_S, verify=False, **options
    )


@pytest.fixture
def server(db: Any) -> Iterator[HTTPServer]:
    with serve_in_thread(db) as running:
        yield running


@pytest.fixture
def client(server: HTTPServer) -> Iterator[httpx.Client]:
    with client_of(server) as made:
        yield made


def until(condition: Any) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it never became so"
        time.sleep(0.005)


def error_of(answer: httpx.Response) -> tuple[int, str, str]:
    found = answer.json()
    return answer.status_code, found["error"], found["reason"]


class TestOrigins:
    def test_a_page_is_told_that_it_may_ask(self, client: httpx.Client) -> None:
        headers = client.get("/todo", headers=ORIGIN).headers

        assert "http://example.org" == headers["access-control-allow-origin"]
        assert "true" == headers["access-control-allow-credentials"]
        assert "etag" in headers["access-control-expose-headers"]
        assert "access-control-allow-origin" not in client.get("/todo").headers

    def test_an_error_says_it_too(self, client: httpx.Client) -> None:
        answer = client.get("/nothing", headers=ORIGIN)

        assert 404 == answer.status_code
        assert "http://example.org" == answer.headers["access-control-allow-origin"]

    def test_a_preflight_needs_no_password(self, db: Any) -> None:
        asks = {
            **ORIGIN,
            "Access-Control-Request-Method": "PUT",
            "Access-Control-Request-Headers": "content-type, x-mine",
        }
        with (
            serve_in_thread(
                db, credentials=Credentials("ann", "secret"), origins=[ORIGIN["Origin"]]
            ) as server,
            client_of(server) as client,
        ):
            answer = client.options("/todo/x", headers=asks)

        assert (204, b"") == (answer.status_code, answer.content)
        assert "content-type, x-mine" == answer.headers["access-control-allow-headers"]
        assert "GET, PUT, POST, HEAD, DELETE" == answer.headers["access-control-allow-methods"]
        assert "600" == answer.headers["access-control-max-age"]

    def test_other_origins_are_told_nothing(self, db: Any) -> None:
        with serve_in_thread(db, origins=["https://app.example.org"]) as server, client_of(server) as client:
            other = client.get("/todo", headers=ORIGIN)
            own = client.get("/todo", headers={"Origin": "https://app.example.org"})
            preflight = client.options("/todo", headers={**ORIGIN, "Access-Control-Request-Method": "GET"})

        assert "access-control-allow-origin" not in other.headers
        assert "https://app.example.org" == own.headers["access-control-allow-origin"]
        assert 405 == preflight.status_code

    @pytest.mark.parametrize("origin", ["example.org", "https://example.org/", ""])
    def test_what_is_no_origin_is_refused(self, db: Any, origin: str) -> None:
        with pytest.raises(InvalidOption, match="an origin is like"):
            couchdb(db, origins=[origin])


class TestEntrance:
    @pytest.fixture
    def client(self, db: Any) -> Iterator[httpx.Client]:
        with (
            serve_in_thread(db, credentials=Credentials("ann", "secret")) as server,
            client_of(server) as made,
        ):
            yield made

    def test_a_stranger_may_look_at_the_door_only(self, client: httpx.Client) -> None:
        assert (401, "unauthorized", "You are not authorized to access this db.") == error_of(
            client.get("/todo")
        )
        assert 401 == client.put("/todo/x", json={}).status_code
        assert [200, 200, 200] == [client.get(path).status_code for path in ("/", "/_up", "/_session")]
        assert {"name": None, "roles": []} == client.get("/_session").json()["userCtx"]

    def test_a_password_with_each_request(self, client: httpx.Client) -> None:
        assert 200 == client.get("/todo", auth=("ann", "secret")).status_code
        wrong = (401, "unauthorized", "Name or password is incorrect.")
        assert wrong == error_of(client.get("/todo", auth=("ann", "no")))
        assert wrong == error_of(client.get("/todo", auth=("bob", "secret")))
        session = client.get("/_session", auth=("ann", "secret")).json()
        assert ({"name": "ann", "roles": ["_admin"]}, "default") == (
            session["userCtx"],
            session["info"]["authenticated"],
        )

    @pytest.mark.parametrize("kind", ["data", "json"])
    def test_a_cookie_for_a_while(self, client: httpx.Client, kind: str) -> None:
        answer = client.post("/_session", **{kind: {"name": "ann", "password": "secret"}})

        assert {"ok": True, "name": "ann", "roles": ["_admin"]} == answer.json()
        assert "HttpOnly" in answer.headers["set-cookie"]
        assert 200 == client.get("/todo").status_code
        assert "cookie" == client.get("/_session").json()["info"]["authenticated"]
        client.delete("/_session")
        assert 401 == client.get("/todo").status_code

    def test_a_cookie_that_somebody_made_up(self, client: httpx.Client) -> None:
        client.post("/_session", json={"name": "ann", "password": "secret"})
        good = client.cookies["AuthSession"]
        client.cookies.clear()
        for cookie in (
            good[:-2] + "AA",
            "",
            "x",
            good.swapcase(),
            "====",
            base64.b64encode(b"0" * 60).decode(),
        ):
            assert 401 == client.get("/todo", headers={"Cookie": f"AuthSession={cookie}"}).status_code

    def test_a_wrong_password_gets_no_cookie(self, client: httpx.Client) -> None:
        answer = client.post("/_session", data={"name": "ann", "password": "no"})

        assert 401 == answer.status_code
        assert "set-cookie" not in answer.headers

    def test_a_header_that_is_none(self, client: httpx.Client) -> None:
        for value in ("Basic", "Basic !!!", "Basic " + base64.b64encode(b"no colon").decode()):
            assert 400 == client.get("/todo", headers={"Authorization": value}).status_code
        assert 401 == client.get("/todo", headers={"Authorization": "Bearer x"}).status_code


class TestReadOnly:
    def test_what_would_write_is_refused_and_all_else_is_answered(self, db: Any) -> None:
        db.table("todo").insert({"_id": "a"})
        with serve_in_thread(db, read_only=True) as server, client_of(server) as client:
            refused = [
                client.put("/new"),
                client.delete("/todo"),
                client.post("/todo", json={}),
                client.put("/todo/b", json={}),
                client.delete("/todo/a?rev=1-a"),
                client.put("/todo/_local/x", json={}),
                client.post("/todo/_bulk_docs", json={"docs": [{}]}),
                client.put("/todo/a/file", content=b"x"),
                client.post("/todo/_compact", json={}),
                client.post("/todo/_index", json={"index": {"fields": ["a"]}}),
            ]
            answered = [
                client.get("/todo/a"),
                client.get("/todo/_changes"),
                client.post("/todo/_bulk_get", json={"docs": [{"id": "a"}]}),
                client.post("/todo/_revs_diff", json={}),
                client.post("/todo/_all_docs", json={"keys": ["a"]}),
                client.post("/todo/_find", json={"selector": {}}),
            ]

        assert {(403, "forbidden", "This server only reads.")} == set(map(error_of, refused))
        assert {200} == {answer.status_code for answer in answered}
        assert [{"_id": "a"}] == db.table("todo").run()


class TestLimits:
    def test_a_body_that_is_too_large(self, db: Any) -> None:
        limits = HTTPLimits(body_bytes=100, attachment_bytes=200)
        with serve_in_thread(db, limits=limits) as server, client_of(server) as client:
            assert 413 == client.put("/todo/a", content=b"{" + b" " * 100 + b"}").status_code
            chunked = client.put("/todo/a", content=iter([b"{", b" " * 100, b"}"]))
            assert (413, "too_large") == error_of(chunked)[:2]
            assert 413 == client.put("/todo/a/file", content=b"x" * 201).status_code
            assert 201 == client.put("/todo/a/file", content=b"x" * 200).status_code

    def test_a_body_that_does_not_come(self, db: Any) -> None:
        with (
            serve_in_thread(db, limits=HTTPLimits(body_s=0.05)) as server,
            closing(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)) as line,
        ):
            line.sendall(b"PUT /todo/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
            answer = line.recv(4096)

        assert answer.startswith(b"HTTP/1.1 408 ")

    def test_more_feeds_than_there_may_be(self, db: Any) -> None:
        with serve_in_thread(db, limits=HTTPLimits(feeds=1)) as server, client_of(server) as client:
            with client.stream("GET", "/todo/_changes?feed=continuous&heartbeat=1000"):
                until(lambda: server.feed_count == 1)
                answer = client.get("/todo/_changes?feed=longpoll")
            until(lambda: server.feed_count == 0)
            after = client.get("/todo/_changes?feed=longpoll&timeout=0")

        assert (503, "service_unavailable") == error_of(answer)[:2]
        assert 200 == after.status_code

    @pytest.mark.parametrize("option", ["body_bytes", "write_s", "feeds"])
    @pytest.mark.parametrize("value", [0, -1, "5", None, True])
    def test_what_is_no_limit_is_refused(self, option: str, value: Any) -> None:
        with pytest.raises(InvalidOption, match=f"the limit {option} is a number above 0"):
            HTTPLimits(**{option: value})


class TestFeeds:
    def test_a_client_that_goes_away_is_noticed_at_once(
        self, server: HTTPServer, client: httpx.Client
    ) -> None:
        for _ in range(3):
            with client.stream("GET", "/todo/_changes?feed=longpoll"):
                until(lambda: server.feed_count == 1)
            until(lambda: server.feed_count == 0)

    def test_a_filtered_feed_can_tell_how_far_it_got(self, db: Any, client: httpx.Client) -> None:
        body = {"selector": {"kind": "rare"}}
        query = "feed=continuous&filter=_selector&heartbeat_seq=20"
        db.table("todo").insert([{"_id": "a", "kind": "usual"}, {"_id": "b", "kind": "rare"}])
        with client.stream("POST", f"/todo/_changes?{query}", json=body) as feed:
            lines = map(json.loads, filter(None, feed.iter_lines()))
            assert "b" == next(lines)["id"]
            db.table("todo").insert({"_id": "c", "kind": "usual"})
            newest = client.get("/todo").json()["update_seq"]
            told = next(line for line in lines if line["seq"] == newest)
        assert {"seq": newest, "id": None, "changes": []} == told
        assert [] == client.get("/todo/_changes", params={"since": told["seq"]}).json()["results"]

    def test_what_is_told_beyond_couchdb_is_asked_for_by_parameters(
        self, db: Any, client: httpx.Client
    ) -> None:
        def rows(**query: str) -> list[dict[str, Any]]:
            query = {"filter": "_selector", **query}
            answer = client.post("/todo/_changes", params=query, json={"selector": {"kind": "rare"}})
            return list(answer.json()["results"])

        table = db.table("todo")
        table.insert([{"_id": "a", "kind": "rare"}, {"_id": "b", "kind": "rare"}])
        first, second = rows(include_log="true")
        assert "create" == first["log"]["op"]
        assert ["a"] == [row["id"] for row in rows(until=first["seq"])]
        assert [] == rows(since=second["log"]["time"])
        table.get("a").update({"kind": "usual"})
        table.get("b").delete()
        assert [("a", True), ("b", True)] == [
            (row["id"], row["removed"]) for row in rows(since=json.dumps(second["seq"]), removals="true")
        ]
        plain = client.get("/todo/_changes", params={"deletions_after": "now"}).json()
        assert (["a"], 0) == ([row["id"] for row in plain["results"]], plain["pending"])
        refused = client.get("/todo/_changes", params={"until": "x"})
        assert (400, "Malformed sequence supplied in 'since' parameter.") == error_of(refused)[::2]

    def test_changes_of_the_program_and_of_others_arrive(self, db: Any, client: httpx.Client) -> None:
        with client.stream(
            "GET", "/todo/_changes?feed=continuous&since=now&heartbeat=60000&include_docs=true"
        ) as feed:
            lines = (line for line in feed.iter_lines() if line)
            db.table("todo").insert({"_id": "native"})
            first = json.loads(next(lines))
            client.put("/todo/over", json={"n": 1})
            second = json.loads(next(lines))

        assert ("native", {"_id", "_rev"}) == (first["id"], first["doc"].keys())
        assert ("over", 1) == (second["id"], second["doc"]["n"])

    def test_page_after_page_tells_how_many_there_are_to_come(self, db: Any, client: httpx.Client) -> None:
        db.table("todo").insert([{"_id": f"{number:02}"} for number in range(20)])
        since: Any = 0
        found = []
        while True:
            page = client.get("/todo/_changes", params={"limit": 6, "since": since}).json()
            found.append((len(page["results"]), page["pending"]))
            since = page["last_seq"]
            if len(found) == 2:
                # One that was told comes again, at the end.
                db.table("todo").get("00").update({"n": 1})
            if not page["pending"]:
                break

        assert [(6, 14), (6, 8), (6, 3), (3, 0)] == found
        assert 21 == client.get("/todo/_changes?limit=0").json()["pending"] + 1

    def test_an_event_source_goes_on_where_it_was(self, db: Any, client: httpx.Client) -> None:
        db.table("todo").insert([{"_id": name} for name in "abc"])
        url = "/todo/_changes?feed=eventsource&timeout=0"
        text = client.get(url).text
        ids = re.findall(r"^id: (.*)$", text, re.MULTILINE)
        assert 3 == len(ids)

        for id in (ids[1], json.loads(ids[1])):
            rest = client.get(url, headers={"Last-Event-ID": id}).text
            assert ["c"] == [
                json.loads(data)["id"] for data in re.findall(r"^data: (.*)$", rest, re.MULTILINE)
            ]

    def test_a_feed_ends_when_its_database_is_deleted(self, client: httpx.Client) -> None:
        client.put("/other")
        with client.stream("GET", "/other/_changes?feed=continuous&heartbeat=60000") as feed:
            lines = feed.iter_lines()
            next(lines)
            client.delete("/other")
            rest = [json.loads(line) for line in lines if line]

        assert 1 == len(rest)
        assert "last_seq" in rest[0]

    def test_feeds_end_with_their_last_line_when_the_server_stops(self, db: Any) -> None:
        rest: list[str] = []
        begun = threading.Event()

        def listen(port: int) -> None:
            url = f"http://127.0.0.1:{port}/todo/_changes?feed=continuous&heartbeat=60000"
            with httpx.Client(timeout=PATIENCE_S, verify=False) as client, client.stream("GET", url) as feed:
                for line in feed.iter_lines():
                    begun.set()
                    rest.append(line)

        with serve_in_thread(db) as server:
            listener = threading.Thread(target=listen, args=(server.port,))
            listener.start()
            assert begun.wait(PATIENCE_S)
        listener.join(PATIENCE_S)

        assert "last_seq" in json.loads("".join(rest))

    def test_who_asks_again_while_the_server_stops_is_answered(self, db: Any) -> None:
        application = CouchApplication(db)

        async def run() -> Any:
            application.end_feeds()
            return await asked(application, "GET", "/todo/_changes?feed=longpoll&since=now&heartbeat=60000")

        answer = asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
        application.close()
        assert [] == json.loads(answer.body)["results"]

    def test_a_filter_function_that_fails_is_told_with_a_status(self, client: httpx.Client) -> None:
        pytest.importorskip("quickjs")
        client.put("/todo/a", json={})
        client.put("/todo/_design/d", json={"filters": {"bad": "function(doc) { return doc.a.b; }"}})

        assert 500 == client.get("/todo/_changes?filter=d/bad").status_code

    @pytest.mark.slow
    def test_a_thousand_clients_that_stop_reading_cost_little_and_lose_nothing(self, db: Any) -> None:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < 8192 <= hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (8192, hard))
        count, table = 1_000, db.table("todo")
        path = b"/todo/_changes?feed=continuous&since=now&heartbeat=60000&include_docs=true"
        request = b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with serve_in_thread(db, connections=2 * count, strangers=2 * count) as server:
            lines = []
            for _ in range(count):
                line = socket.socket()
                # What the network holds for a client is small, so that it is the server that has to keep the rest.
                line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                line.connect(("127.0.0.1", server.port))
                line.sendall(request)
                lines.append(line)
            until(lambda: server.feed_count == count)
            before = memory()
            for number in range(60):
                table.insert({"_id": f"{number:04}", "text": "x" * 40_000})
            last = lines[-1]
            last.settimeout(PATIENCE_S)
            heard = b""
            while b'"id":"0059"' not in heard:
                piece = last.recv(65536)
                assert piece
                heard += piece
            # Not before: until then the server may not have begun with any of them.
            grown = memory() - before
            for line in lines:
                line.close()
            until(lambda: server.feed_count == 0)

        ids = re.findall(rb'"id":"(\d{4})"', heard)
        assert [b"%04d" % number for number in range(60)] == ids
        # 2,400 MB wait for them; one or two documents each are under way. The network's buffers are the system's.
        assert grown < 500 * 2**20


def memory() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class TestAttachments:
    def test_a_part_of_one(self, client: httpx.Client) -> None:
        client.put("/todo/a/file", content=b"0123456789", headers={"Content-Type": "text/plain"})

        def part(range: str) -> tuple[int, bytes, str | None]:
            answer = client.get("/todo/a/file", headers={"Range": range})
            return answer.status_code, answer.content, answer.headers.get("content-range")

        assert (206, b"234", "bytes 2-4/10") == part("bytes=2-4")
        assert (206, b"789", "bytes 7-9/10") == part("bytes=7-")
        assert (206, b"89", "bytes 8-9/10") == part("bytes=-2")
        assert (206, b"56789", "bytes 5-9/10") == part("bytes=5-100")
        assert (200, b"0123456789", None) == part("bytes=1-2,4-5")
        assert (200, b"0123456789", None) == part("lines=1-2")
        assert 416 == part("bytes=10-")[0]

    def test_a_client_that_has_it_is_sent_nothing(self, client: httpx.Client) -> None:
        client.put("/todo/a/file", content=b"0123456789")
        first = client.get("/todo/a/file")
        again = client.get("/todo/a/file", headers={"If-None-Match": first.headers["etag"]})

        assert (304, b"") == (again.status_code, again.content)
        assert "sandbox" == first.headers["content-security-policy"]

    def test_names_with_slashes_and_everything_else(self, client: httpx.Client) -> None:
        for id, name in (("a", "b/c"), ("_design/d", "x.html"), ("ä/ö", "ü ?#%&")):
            path = f"/todo/{quoted(id)}/{quoted(name, safe='/')}"
            assert 201 == client.put(path, content=name.encode()).status_code
            assert name.encode() == client.get(path).content
            assert [name] == list(client.get(f"/todo/{quoted(id)}").json()["_attachments"])

    def test_a_document_with_its_attachments_as_parts(self, client: httpx.Client) -> None:
        stubs = {
            "one": {"follows": True, "content_type": "text/plain", "length": 3},
            "two": {"follows": True, "content_type": "text/plain", "length": 5},
        }
        document = json.dumps({"_attachments": stubs, "n": 1}).encode()
        lines = [b"--xx", b"Content-Type: application/json", b"", document]
        for name, data in (("two", b"\r\nTWO"), ("one", b"ONE")):
            lines += [b"--xx", f'Content-Disposition: attachment; filename="{name}"'.encode(), b"", data]
        put = client.put(
            "/todo/a",
            content=b"\r\n".join([*lines, b"--xx--"]),
            headers={"Content-Type": 'multipart/related; boundary="xx"'},
        )
        assert 201 == put.status_code, put.text
        assert (b"ONE", b"\r\nTWO") == tuple(client.get(f"/todo/a/{name}").content for name in ("one", "two"))

        related = client.get("/todo/a?attachments=true", headers={"Accept": "multipart/related"})
        mixed = client.get("/todo/a?open_revs=all", headers={"Accept": "multipart/mixed"})
        assert related.headers["content-type"].startswith("multipart/related; boundary=")
        assert mixed.headers["content-type"].startswith("multipart/mixed; boundary=")
        for body in (related.content, mixed.content):
            assert b'"follows":true' in body
            assert b"\r\n\r\nONE\r\n--" in body
            assert b"\r\n\r\n\r\nTWO\r\n--" in body
        # What is sent can be put again elsewhere.
        client.put("/other")
        again = client.put(
            "/other/a?new_edits=false",
            content=related.content,
            headers={"Content-Type": related.headers["content-type"]},
        )
        assert (201, put.json()["rev"]) == (again.status_code, again.json()["rev"])
        assert b"\r\nTWO" == client.get("/other/a/two").content

    def test_only_newer_attachments_are_sent_to_who_has_the_others(self, client: httpx.Client) -> None:
        old = client.put("/todo/a/old", content=b"OLD").json()["rev"]
        client.put(f"/todo/a/new?rev={old}", content=b"NEW")
        since = json.dumps([old])
        body = client.get(
            "/todo/a", params={"open_revs": "all", "atts_since": since}, headers={"Accept": "multipart/mixed"}
        ).content

        related = client.get(
            "/todo/a",
            params={"attachments": "true", "atts_since": since},
            headers={"Accept": "multipart/related"},
        ).content

        assert b"\r\n\r\nNEW\r\n--" in body
        assert b"\r\n\r\nNEW\r\n--" in related
        assert b"OLD" not in body + related
        assert b"_revisions" not in body + related
        # The bytes come once: what follows is not in the document besides.
        assert b'"data"' not in body + related

    @pytest.mark.parametrize("said", [{}, {"encoding": "gzip", "encoded_length": 1}])
    def test_what_comes_compressed_is_kept_as_it_was_before(
        self, client: httpx.Client, said: dict[str, Any]
    ) -> None:
        """CouchDB's own replicator sends texts so, with the digest of the compressed bytes."""
        data = gzip.compress(b"hello " * 100)
        stub = {
            "follows": True,
            "content_type": "text/plain",
            "revpos": 1,
            "digest": "md5-x",
            "length": 600,
            **said,
        }
        document = {"_attachments": {"f.txt": stub}, "_revisions": {"start": 1, "ids": ["a"]}, "_rev": "1-a"}
        head = b'Content-Disposition: attachment; filename="f.txt"\r\nContent-Encoding: gzip'
        lines = [b"--xx", b"Content-Type: application/json", b"", json.dumps(document).encode()]
        put = client.put(
            "/todo/a?new_edits=false",
            content=b"\r\n".join([*lines, b"--xx", head, b"", data, b"--xx--"]),
            headers={"Content-Type": "multipart/related; boundary=xx"},
        )
        alone = client.put("/todo/b/f.txt", content=data, headers={"Content-Encoding": "gzip"})

        assert (201, "1-a", 201) == (put.status_code, put.json()["rev"], alone.status_code)
        digest = base64.b64encode(hashlib.md5(b"hello " * 100).digest()).decode()
        for id in ("a", "b"):
            assert b"hello " * 100 == client.get(f"/todo/{id}/f.txt").content
            stored = client.get(f"/todo/{id}").json()["_attachments"]["f.txt"]
            assert (600, f"md5-{digest}") == (stored["length"], stored["digest"])

    @pytest.mark.parametrize(
        "body", [b"", b"--xx--", b"--xx\r\n\r\n{}", b"--xx\r\n\r\n{}\r\n--xx\r\n\r\nmore\r\n--xx--"]
    )
    def test_parts_that_are_not_those_of_the_document(self, client: httpx.Client, body: bytes) -> None:
        headers = {"Content-Type": "multipart/related; boundary=xx"}

        assert 400 == client.put("/todo/a", content=body, headers=headers).status_code
        assert 404 == client.get("/todo/a").status_code

    @pytest.mark.slow
    @pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
    @pytest.mark.parametrize("how", ["alone", "as parts", "again"])
    def test_a_hundred_megabytes_go_through_thirty(self, tmp_path: Path, how: str) -> None:
        size = 100 * 2**20
        command = [
            sys.executable,
            "-m",
            "reactdb.cli",
            "serve",
            str(tmp_path / "a.db"),
            "--couchdb",
            "--http-port",
            "0",
        ]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            url = re.search(r"http://\S+", process.stdout.readline())[0]  # type: ignore[index]
            with httpx.Client(base_url=url, timeout=120) as client:
                client.put("todo")
                client.put("todo/small/file", content=b"x" * 1_000).raise_for_status()
                client.get("todo/small/file")
                if how == "again":
                    # What is there already is written, and removed when that is known.
                    client.put("todo/a/big", content=many_bytes(size)).raise_for_status()
                before = peak(process.pid)
                if how == "as parts":
                    put = client.put("todo/c", content=as_parts(size), headers=RELATED)
                    got = length_of(client, "todo/c?attachments=true", {"Accept": "multipart/related"})
                else:
                    put = client.put("todo/c/big", content=many_bytes(size))
                    got = size if how == "again" else length_of(client, "todo/c/big", {})
                stub = client.get("todo/c").json()["_attachments"]["big"]
                after = peak(process.pid)
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE_S)

        assert (201, size) == (put.status_code, stub["length"])
        assert size <= got < size + 1_000
        assert (after - before) / 2**20 < 30


RELATED = {"Content-Type": 'multipart/related; boundary="xx"'}


def many_bytes(size: int) -> Iterator[bytes]:
    piece = bytes(range(256)) * 4096
    return (piece for _ in range(size // len(piece)))


def as_parts(size: int) -> Iterator[bytes]:
    """A document with an attachment `big` of so many bytes."""
    stub = {"follows": True, "content_type": "a/b", "length": size}
    document = json.dumps({"_attachments": {"big": stub}}).encode()
    yield b"--xx\r\nContent-Type: application/json\r\n\r\n" + document + b"\r\n--xx\r\n\r\n"
    yield from many_bytes(size)
    yield b"\r\n--xx--"


def length_of(client: httpx.Client, path: str, headers: dict[str, str]) -> int:
    with client.stream("GET", path, headers=headers) as answer:
        return sum(map(len, answer.raise_for_status().iter_raw()))


def peak(pid: int) -> int:
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) * 1024


def quoted(text: str, safe: str = "") -> str:
    from urllib.parse import quote

    prefix, slash, name = text.partition("/")
    if slash and prefix == "_design":
        return f"_design/{quote(name, safe='')}"
    return quote(text, safe=safe)


class TestMounted:
    def test_the_application_is_a_part_of_another_one(self, db: Any) -> None:
        from starlette.applications import Starlette
        from starlette.routing import Mount

        app = Starlette(routes=[Mount("/my/db", app=couchdb(db))])

        async def talk() -> list[Any]:
            put = await asked(app, "PUT", "/my/db/todo/a%2Fb", headers={"Host": "h"}, body=b'{"n": 1}')
            got = await asked(app, "GET", "/my/db/todo/a%2Fb?revs=true")
            root = await asked(app, "GET", "/my/db/")
            return [put, got, root]

        put, got, root = asyncio.run(talk())
        assert (201, "http://h/my/db/todo/a%2Fb") == (put.status, put.headers["location"])
        assert ("a/b", 1) == (json.loads(got.body)["_id"], json.loads(got.body)["_revisions"]["start"])
        assert "Welcome" == json.loads(root.body)["couchdb"]

    def test_what_nobody_foresaw_is_told_without_its_details(
        self, db: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        from reactdb.dialects.couchdb.couch import Couch

        def fail(self: Any, name: str) -> Any:
            raise ZeroDivisionError("with a secret in it")

        monkeypatch.setattr(Couch, "open", fail)
        answer = asyncio.run(asked(couchdb(db), "GET", "/todo"))

        assert 500 == answer.status
        assert {"error": "unknown_error", "reason": "ZeroDivisionError"} == json.loads(answer.body)
        assert "with a secret in it" in caplog.text

    @pytest.mark.parametrize(
        ("method", "path", "allowed"),
        [
            ("PUT", "/todo/_bulk_docs", "POST"),
            ("DELETE", "/todo/_changes", "GET,POST,HEAD"),
            ("POST", "/_all_dbs", "GET,HEAD"),
            ("PATCH", "/todo/a", "GET,PUT,DELETE,COPY,HEAD"),
        ],
    )
    def test_another_method_is_told_which_there_are(
        self, db: Any, method: str, path: str, allowed: str
    ) -> None:
        answer = asyncio.run(asked(couchdb(db), method, path))

        assert (405, allowed) == (answer.status, answer.headers["allow"])
        assert f"Only {allowed} allowed" == json.loads(answer.body)["reason"]

    @pytest.mark.parametrize(
        "path", ["/todo/_design/d/_list/l/v", "/todo/_design/d/_show/s/a", "/_replicate"]
    )
    def test_what_there_is_not_is_501(self, db: Any, path: str) -> None:
        assert 501 == asyncio.run(asked(couchdb(db), "POST", path, body=b"{}")).status

    @pytest.mark.parametrize("path", ["/todo/%ff", "/todo/%C3"])
    def test_a_path_that_is_no_text(self, db: Any, path: str) -> None:
        assert 400 == asyncio.run(asked(couchdb(db), "GET", path)).status


class TestPage:
    def test_it_brings_everything_with_it(self, client: httpx.Client) -> None:
        answer = client.get("/_reactdb")

        assert (200, "text/html; charset=utf-8") == (answer.status_code, answer.headers["content-type"])
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert [] == re.findall(r"(?:src|href)=|https?://", answer.text)


def command(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "reactdb.cli", "serve", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TODO_PASSWORD": "secret"},
    )


class TestCommand:
    def test_two_protocols_in_one_process(self, tmp_path: Path) -> None:
        from rethinkdb import r as rethinkdb

        server = command(
            str(tmp_path / "a.db"), "--rethinkdb", "--couchdb", "--rethinkdb-port", "0", "--http-port", "0"
        )
        try:
            assert server.stdout is not None
            ports = [int(re.search(r":(\d+)/?$", server.stdout.readline().strip())[1]) for _ in range(2)]  # type: ignore[index]
            url = f"http://127.0.0.1:{ports[1]}/todo"
            httpx.put(url, timeout=PATIENCE_S).raise_for_status()
            httpx.put(f"{url}/a", json={"n": 1}, timeout=PATIENCE_S).raise_for_status()
            with rethinkdb.connect("127.0.0.1", ports[0]) as connection:
                assert [{"_id": "a", "n": 1}] == list(rethinkdb.table("todo").run(connection))
                rethinkdb.table("todo").get("a").update({"n": 2}).run(connection)
            document = httpx.get(f"{url}/a", timeout=PATIENCE_S).json()
        finally:
            server.send_signal(signal.SIGTERM)
            output, errors = server.communicate(timeout=PATIENCE_S)

        assert (0, "", "stopped\n") == (server.returncode, errors, output)
        assert (2, "2-") == (document["n"], document["_rev"][:2])

    @pytest.mark.slow
    def test_with_a_password_and_read_only(self, tmp_path: Path) -> None:
        server = command(
            str(tmp_path / "a.db"),
            "--couchdb",
            "--port",
            "0",
            "--read-only",
            "--user",
            "ann",
            "--password-env",
            "TODO_PASSWORD",
        )
        try:
            assert server.stdout is not None
            url = re.search(r"http://\S+", server.stdout.readline())[0]  # type: ignore[index]
            with httpx.Client(base_url=url, timeout=PATIENCE_S, verify=False) as client:
                statuses = [
                    client.get("_all_dbs").status_code,
                    client.get("_all_dbs", auth=("ann", "secret")).status_code,
                    client.put("new", auth=("ann", "secret")).status_code,
                ]
        finally:
            server.send_signal(signal.SIGINT)
            server.communicate(timeout=PATIENCE_S)

        assert [401, 200, 403] == statuses

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (
                (),
                "Choose a protocol: --rethinkdb, --couchdb, --aidbox, --mongodb, or several of them.",
            ),
            (("--couchdb", "--rethinkdb-port", "1"), "--rethinkdb-port needs --rethinkdb."),
            (("--rethinkdb", "--http-port", "1"), "--http-port needs --couchdb or --aidbox."),
            (
                ("--rethinkdb", "--couchdb", "--port", "1"),
                "Of several protocols each has its port: --rethinkdb-port and --http-port.",
            ),
            (
                ("--couchdb", "--port", "1", "--http-port", "1"),
                "--port and --http-port mean the same for a single protocol; give only one.",
            ),
            (
                ("--rethinkdb", "--read-only"),
                "--read-only and --cors-origin are about HTTP; they need --couchdb or --aidbox.",
            ),
            (
                ("--rethinkdb", "--host-name", "db.example.org"),
                "--host-name is about HTTP; it needs --couchdb or --aidbox.",
            ),
        ],
    )
    def test_what_does_not_go_together_is_told(
        self, tmp_path: Path, arguments: tuple[str, ...], sentence: str
    ) -> None:
        from tests.support.command import run

        result = run("serve", tmp_path / "a.db", *arguments)

        assert 2 == result.exit_code
        assert sentence in " ".join(result.stderr.split())

    def test_a_port_in_use_is_one_line_that_says_what_to_do(self, tmp_path: Path) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            server = command(str(tmp_path / "a.db"), "--couchdb", "--port", str(port))
            output, errors = server.communicate(timeout=PATIENCE_S)

        assert (1, "") == (server.returncode, output)
        assert f"reactdb: port {port} on 127.0.0.1 is in use; choose another with --port\n" == errors

    @pytest.mark.slow
    def test_of_two_ports_the_one_in_use_is_named_and_no_file_is_made(self, tmp_path: Path) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            ports = ("--rethinkdb-port", "0", "--http-port", str(port))
            server = command(str(tmp_path / "a.db"), "--rethinkdb", "--couchdb", *ports)
            output, errors = server.communicate(timeout=20)

        assert (1, "") == (server.returncode, output)
        assert f"reactdb: port {port} on 127.0.0.1 is in use; choose another with --http-port\n" == errors
        assert [] == list(tmp_path.iterdir())

    @pytest.mark.parametrize("module", ["reactdb.servers.http", "reactdb.servers.rethinkdb"])
    def test_a_program_is_told_which_port_is_in_use(self, db: Any, module: str) -> None:
        serve = __import__(module, fromlist=["_"]).serve_in_thread
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            with pytest.raises(reactdb.errors.CannotListen) as caught, serve(db, port=port):
                pass

        assert f"port {port} on 127.0.0.1 is in use; choose another with `port=`" == str(caught.value)
        assert (port, "port", errno.EADDRINUSE) == (
            caught.value.port,
            caught.value.option,
            caught.value.errno,
        )
        assert isinstance(caught.value, OSError)

    @pytest.mark.slow
    @pytest.mark.parametrize("package", ["starlette", "uvicorn"])
    def test_what_is_missing_is_named_with_its_extra_and_no_file_is_made(
        self, tmp_path: Path, package: str
    ) -> None:
        program = (
            f"import sys; sys.modules[{package!r}] = None\n"
            "import reactdb\n"
            "try:\n    import reactdb.servers.http\n"
            "except reactdb.errors.MissingExtra as error:\n    print(error.extra, isinstance(error, ModuleNotFoundError))\n"
            "from reactdb.cli import main\n"
            "main(['serve', 'a.db', '--couchdb', '--port', '0'])"
        )
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

        assert (1, "server True\n") == (done.returncode, done.stdout)
        sentence = f"reactdb: serving HTTP needs {package}: {how_to_install('server')}\n"
        assert sentence == done.stderr
        assert [] == list(tmp_path.iterdir())

    @pytest.mark.parametrize("option", ["--timeout", "--query-timeout"])
    def test_nan_is_no_number_of_seconds(self, tmp_path: Path, option: str) -> None:
        from tests.support.command import run

        result = run("serve", tmp_path / "a.db", "--couchdb", option, "nan")

        assert 2 == result.exit_code
        assert f"'{option}': 'nan' is not a finite number." in " ".join(result.stderr.split())


class TestValidation:
    FUNCTION = """function (doc, old, user, security) {
        if (doc.secret) throw({forbidden: 'no secrets'});
        if (doc._deleted && old && old.kept) throw({unauthorized: 'it is kept, ' + user.name});
        if (doc.wrong) doc.no.such;
    }"""

    @pytest.fixture
    def client(self, client: httpx.Client) -> httpx.Client:
        pytest.importorskip("quickjs")
        client.put("/todo/before", json={"secret": True, "kept": True}).raise_for_status()
        client.put("/todo/_design/v", json={"validate_doc_update": self.FUNCTION}).raise_for_status()
        return client

    def test_a_function_may_refuse_a_document(self, db: Any, client: httpx.Client) -> None:
        assert (403, "forbidden", "no secrets") == error_of(client.put("/todo/a", json={"secret": 1}))
        assert 403 == client.post("/todo", json={"secret": 1}).status_code
        assert 500 == client.put("/todo/a", json={"wrong": 1}).status_code
        assert 201 == client.put("/todo/a", json={"public": 1}).status_code
        rev = client.get("/todo/before").json()["_rev"]
        assert (401, "unauthorized", "it is kept, null") == error_of(client.delete(f"/todo/before?rev={rev}"))
        assert {"_design/v", "a", "before"} == {document["_id"] for document in db.table("todo").run()}

    def test_of_many_documents_the_others_are_written(self, db: Any, client: httpx.Client) -> None:
        docs = [{"_id": "x"}, {"_id": "y", "secret": 1}, {"_id": "z"}]
        rows = client.post("/todo/_bulk_docs", json={"docs": docs}).json()
        grafted = [{"_id": "g", "_rev": "1-a"}, {"_id": "h", "_rev": "1-b", "secret": 1}]
        failures = client.post("/todo/_bulk_docs", json={"docs": grafted, "new_edits": False}).json()

        assert ["x", "y", "z"] == [row["id"] for row in rows]
        assert [True, None, True] == [row.get("ok") for row in rows]
        refusal = {"id": "h", "rev": "1-b", "error": "forbidden", "reason": "no secrets"}
        assert [refusal] == failures
        assert db.table("todo").get("g").run() is not None
        assert db.table("todo").get("h").run() is None

    def test_what_replicators_keep_for_themselves_is_not_asked_about(self, client: httpx.Client) -> None:
        assert 201 == client.put("/todo/_local/a", json={"secret": 1}).status_code
        assert 201 == client.put("/todo/_design/w", json={"secret": 1}).status_code

    def test_without_javascript_nothing_is_written_unchecked(
        self, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "quickjs", None)

        answer = client.put("/todo/a", json={})
        assert 501 == answer.status_code
        assert "couchdb-js" in answer.json()["reason"]
