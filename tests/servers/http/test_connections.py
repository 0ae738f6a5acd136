"""Connections of HTTP: how long a head may take and be, who has a place, and what is parsed in one pass.

Each test is made for both parsers that uvicorn has, where httptools is installed, in the clear and over TLS.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

import reactdb
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.multipart import boundary_of, parameters_of_header
from reactdb.replication.peers import SourceFailed
from reactdb.replication.remote import RemotePeer
from reactdb.servers.http import HTTPLimits, connections, serve_in_thread, server
from reactdb.servers.http.application import GUESSES
from reactdb.servers.http.sessions import cookie_of
from reactdb.servers.users import Credentials, User
from tests.servers.attacked import answer_of, asked, attacked, error_of, is_closed_within
from tests.support.certificates import Certificate, make_certificate
from tests.support.threads import PATIENCE_S, wait_until

SOON_S = 0.2
ANN = Credentials("ann", "secret")
BASIC = b"Authorization: Basic " + base64.b64encode(b"ann:secret") + b"\r\n"
TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large"
HOST = b"Host: 127.0.0.1\r\n"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: Any) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificates"))


# The others are slow: what differs between the two parsers, and between the two forms, is tried by these.
@pytest.fixture(
    params=[
        "h11-plain",
        pytest.param("h11-tls", marks=pytest.mark.slow),
        pytest.param("httptools-plain", marks=pytest.mark.slow),
        "httptools-tls",
    ]
)
def opened(request: Any, certificate: Certificate, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    parser, _, form = request.param.partition("-")
    if parser == "httptools":
        pytest.importorskip("httptools")
    kind = connections.H11Connection if parser == "h11" else connections.HttpToolsConnection
    monkeypatch.setattr(server, "HTTPConnection", kind)
    return lambda **options: attacked("http", certificate if form == "tls" else None, **options)


# ---------------------------------------------------------------------------------------------------------------
# The size of a head

HEADS = {
    "one header": b"GET /todo HTTP/1.1\r\n" + HOST + b"X: " + b"x" * 17_000 + b"\r\n\r\n",
    "many headers": b"GET /todo HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 4_000 + b"\r\n",
    "a long path": b"GET /todo/" + b"x" * 17_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    "a long query": b"GET /todo?" + b"x" * 17_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    "no end": b"GET /todo HTTP/1.1\r\n" + HOST + b"X: " + b"x" * 100_000,
}


@pytest.mark.parametrize("head", HEADS)
def test_a_head_that_is_too_long_is_refused(opened: Callable[..., Any], head: str) -> None:
    """In whichever pieces it comes, while other clients are served."""
    data = HEADS[head]
    with opened() as server:
        for piece_bytes in (1_000, 1_000_000):
            line = server.open()
            # The server may have closed before all was sent.
            with suppress(OSError):
                for at in range(0, len(data), piece_bytes):
                    line.sendall(data[at : at + piece_bytes])

            assert TOO_LONG == answer_of(line)[0]
            assert is_closed_within(line, PATIENCE_S)
        assert server.serves_others()


def test_a_head_of_a_later_request_is_bounded_too(opened: Callable[..., Any]) -> None:
    with opened() as server:
        line = server.known()

        assert TOO_LONG == asked(line, HEADS["many headers"])[0]


def test_a_head_of_nearly_sixteen_kilobytes_is_served(opened: Callable[..., Any]) -> None:
    head = b"GET /todo HTTP/1.1\r\n" + HOST + b"X: " + b"x" * 16_300 + b"\r\n\r\n"
    with opened() as server:
        assert b"HTTP/1.1 200 OK" == asked(server.open(), head)[0]


def test_a_body_that_is_longer_than_a_head_may_be_is_served(opened: Callable[..., Any]) -> None:
    body = json.dumps({"text": "x" * 100_000}).encode()
    length = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with opened() as server:
        line = server.open()
        first = asked(line, b"PUT /todo/a HTTP/1.1\r\n" + HOST + length + body)[0]
        second = asked(line, b"GET /todo/a HTTP/1.1\r\n" + HOST + b"\r\n")

    assert b"HTTP/1.1 201 Created" == first
    assert 100_000 == len(json.loads(second[1])["text"])


def test_requests_that_come_together_are_answered_one_after_the_other(opened: Callable[..., Any]) -> None:
    with opened() as server:
        line = server.open()
        line.sendall((b"GET /todo/a HTTP/1.1\r\n" + HOST + b"\r\n") * 3)
        found = b""
        while found.count(b"HTTP/1.1 404") < 3:
            piece = line.recv(65_536)
            assert piece
            found += piece


def test_what_is_no_http_is_refused(opened: Callable[..., Any]) -> None:
    with opened() as server, closing(server.open()) as line:
        line.sendall(b"\x16\x03 hello\r\n\r\n")

        assert b"HTTP/1.1 400 Bad Request" == answer_of(line)[0]
        assert is_closed_within(line, PATIENCE_S)


# ---------------------------------------------------------------------------------------------------------------
# Time


def test_half_a_head_of_a_later_request_does_not_hold_a_connection(opened: Callable[..., Any]) -> None:
    with opened(http={"head_s": SOON_S}) as server:
        line = server.known()
        line.sendall(b"GET /to")

        assert is_closed_within(line, PATIENCE_S)


def test_a_connection_that_is_silent_after_an_answer_is_closed(opened: Callable[..., Any]) -> None:
    with opened(http={"idle_s": SOON_S}) as server:
        assert is_closed_within(server.known(), PATIENCE_S)


def test_a_body_that_comes_after_the_answer_does_not_hold_a_connection(opened: Callable[..., Any]) -> None:
    """The stranger was refused before its body came, and goes on sending it byte by byte."""
    head = (
        b"PUT /todo/a HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\nContent-Length: 9999\r\n\r\n"
    )
    with opened(credentials=ANN, http={"head_s": SOON_S, "idle_s": SOON_S}) as server:
        line = server.open()
        assert b"HTTP/1.1 401 Unauthorized" == asked(line, head)[0]

        end, is_closed = time.monotonic() + PATIENCE_S, False
        while not is_closed and time.monotonic() < end:
            try:
                line.sendall(b" ")
            except OSError:
                break
            is_closed = is_closed_within(line, 0.02)
        assert time.monotonic() < end


@pytest.mark.slow
def test_a_client_that_reads_nothing_of_an_answer_is_sent_away(opened: Callable[..., Any]) -> None:
    """An answer that is made whole, in the memory: neither the application nor a graceful close would ever end it."""
    with opened(http={"write_s": SOON_S, "idle_s": SOON_S}) as server:
        body = json.dumps({"text": "x" * 6_000_000}).encode()
        length = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        assert (
            b"HTTP/1.1 201 Created"
            == asked(server.open(), b"PUT /todo/a HTTP/1.1\r\n" + HOST + length + body)[0]
        )
        server.sockets.pop().close()
        wait_until(lambda: server.server.connection_count == 0)
        line = server.open()
        line.sendall(b"GET /todo/a HTTP/1.1\r\n" + HOST + b"\r\n")
        wait_until(lambda: server.server.connection_count == 1)

        wait_until(lambda: server.server.connection_count == 0)


def test_a_client_that_reads_an_answer_slowly_gets_all_of_it(opened: Callable[..., Any]) -> None:
    """Neither the silence after the answer nor the end of TLS comes before it has been read."""
    with opened(http={"write_s": PATIENCE_S, "idle_s": 0.05}) as server:
        body = json.dumps({"text": "x" * 6_000_000}).encode()
        length = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        asked(server.open(), b"PUT /todo/a HTTP/1.1\r\n" + HOST + length + body)
        line = server.open()
        line.sendall(b"GET /todo/a HTTP/1.1\r\n" + HOST + b"\r\n")
        # The whole answer has been made, nothing of it is read, and `idle_s` has passed, at least twice.
        wait_until(lambda: any(one.is_open and one._count_unread() for one in server.server._places.members))
        (one,) = (one for one in server.server._places.members if one._count_unread())
        for _ in range(2):
            timer = one.timeout_keep_alive_task
            wait_until(lambda timer=timer: one.timeout_keep_alive_task is not timer)

        assert len(answer_of(line)[1]) > 6_000_000


@pytest.mark.slow
def test_a_feed_may_stay_for_longer_than_a_head(opened: Callable[..., Any]) -> None:
    with opened(http={"head_s": SOON_S, "idle_s": SOON_S}) as server:
        line = server.open()
        line.sendall(b"GET /todo/_changes?feed=continuous&heartbeat=60000 HTTP/1.1\r\n" + HOST + b"\r\n")
        wait_until(lambda: server.server.feed_count == 1)

        assert not is_closed_within(line, 2 * SOON_S)


# ---------------------------------------------------------------------------------------------------------------
# Places


def test_a_feed_keeps_its_place_while_strangers_come(opened: Callable[..., Any]) -> None:
    with opened(connections=4, strangers=2, credentials=ANN) as server:
        line = server.open()
        line.sendall(
            b"GET /todo/_changes?feed=continuous&heartbeat=60000 HTTP/1.1\r\n" + HOST + BASIC + b"\r\n"
        )
        wait_until(lambda: server.server.feed_count == 1)
        for _ in range(10):
            server.connect()

        assert not is_closed_within(line, 0.05)
        assert (
            b"HTTP/1.1 401 Unauthorized"
            == asked(server.open(), b"GET /todo HTTP/1.1\r\n" + HOST + b"\r\n")[0]
        )


def test_whoever_was_refused_is_still_a_stranger(opened: Callable[..., Any]) -> None:
    with opened(connections=8, strangers=2, credentials=ANN) as server:
        first = server.open()
        assert b"HTTP/1.1 401 Unauthorized" == asked(first, b"GET /todo HTTP/1.1\r\n" + HOST + b"\r\n")[0]
        known = server.open()
        assert b"HTTP/1.1 200 OK" == asked(known, b"GET /todo HTTP/1.1\r\n" + HOST + BASIC + b"\r\n")[0]
        for _ in range(3):
            server.connect()

        assert is_closed_within(first, PATIENCE_S)
        assert not is_closed_within(known, 0.05)


def test_where_all_places_have_requests_one_more_is_told_so(opened: Callable[..., Any]) -> None:
    with opened(connections=2) as server:
        for count in (1, 2):
            server.open().sendall(
                b"GET /todo/_changes?feed=continuous&heartbeat=60000 HTTP/1.1\r\n" + HOST + b"\r\n"
            )
            wait_until(lambda count=count: server.server.feed_count == count)
        if server.tls is None:
            line = server.open()
            assert b"HTTP/1.1 503 Service Unavailable" == answer_of(line)[0]
            assert is_closed_within(line, PATIENCE_S)
        else:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                server.open()


def test_a_connection_between_two_requests_gives_its_place_up_where_it_is_needed(
    opened: Callable[..., Any],
) -> None:
    with opened(connections=2, strangers=1) as server:
        oldest, newer = server.known(), server.known()

        assert server.serve_a_good_client() < PATIENCE_S
        assert is_closed_within(oldest, PATIENCE_S)
        assert not is_closed_within(newer, 0.05)


# ---------------------------------------------------------------------------------------------------------------
# What is parsed


def test_a_cookie_of_backslashes_is_refused_at_once(opened: Callable[..., Any]) -> None:
    """Python's parser of cookies takes the square of their number: eight seconds for 60,000."""
    for count, status in ((60_000, TOO_LONG), (16_000, b"HTTP/1.1 401 Unauthorized")):
        cookie = b'Cookie: AuthSession="' + b"\\" * count + b'"\r\n'
        request = b"GET /todo HTTP/1.1\r\n" + HOST + cookie + b"\r\n"
        with opened(credentials=ANN) as server:
            took = []
            for _ in range(3):
                began = time.perf_counter()
                assert status == asked(server.open(), request)[0]
                took.append(time.perf_counter() - began)
        assert min(took) < 0.25


@pytest.mark.parametrize(
    ("name", "parse"),
    [
        ("cookie", lambda: cookie_of('AuthSession="' + "\\" * 500_000)),
        ("cookies", lambda: cookie_of("AuthSession=;" * 50_000)),
        ("quoted", lambda: parameters_of_header('a; filename="' * 50_000)),
        ("escaped", lambda: parameters_of_header('a; filename="' + "\\" * 500_000)),
        ("semicolons", lambda: parameters_of_header('a; b="' + ";" * 500_000)),
        ("names", lambda: parameters_of_header("a" + ";b" * 250_000)),
        ("equals", lambda: parameters_of_header("a;" + "=" * 500_000)),
    ],
)
def test_a_header_is_read_in_one_pass(name: str, parse: Callable[[], object]) -> None:
    """With half a million characters, anything that looks at a place twice would take minutes."""
    began = time.perf_counter()
    parse()

    assert time.perf_counter() - began < 5


def test_a_cookie_is_found_among_others() -> None:
    assert "abc" == cookie_of("a=b; AuthSession=abc; c=d")
    assert "abc" == cookie_of('AuthSession="abc"')
    assert "new" == cookie_of("AuthSession=old; AuthSession=new")
    assert "" == cookie_of("XAuthSession=abc; a=AuthSession=abc")


def test_parameters_of_a_header_are_found() -> None:
    assert {"boundary": "x y", "a": "1"} == parameters_of_header('multipart/related; Boundary="x y"; a=1')
    assert {"filename": 'a"b;c\\.txt'} == parameters_of_header('attachment; filename="a\\"b;c\\\\.txt"')
    assert {"b": "2"} == parameters_of_header("x; flag; b = 2")
    assert {} == parameters_of_header("text/plain")
    with pytest.raises(CouchError, match="no boundary"):
        boundary_of("multipart/related; boundary=" + "x" * 1_000)


@contextmanager
def client_of(**options: Any) -> Iterator[httpx.Client]:
    with reactdb.connect(":memory:") as db:
        db.table_create("todo", primary_key="_id")
        with (
            serve_in_thread(db, **options) as server,
            httpx.Client(
                base_url=f"http://127.0.0.1:{server.port}", timeout=PATIENCE_S, verify=False
            ) as client,
        ):
            yield client


def test_a_request_has_a_thousand_parameters_at_most() -> None:
    with client_of() as client:
        assert 200 == client.get("/todo?" + "&".join("a=b" for _ in range(1_000))).status_code
        answer = client.get("/todo?" + "&".join("a=b" for _ in range(1_001)))

    assert (400, "bad_request") == (answer.status_code, error_of(answer.content))


def test_numbers_of_headers_with_thousands_of_digits_are_no_error() -> None:
    with client_of() as client:
        client.put("/todo/a", json={"_attachments": {"f": {"data": "YWJj"}}})
        answer = client.get("/todo/a/f", headers={"Range": f"bytes={'9' * 5_000}-"})

    assert (200, b"abc") == (answer.status_code, answer.content)


@pytest.mark.parametrize("way", ["basic", "session"])
def test_guessed_passwords_do_not_keep_known_clients_waiting(way: str, tmp_path: Path) -> None:
    """Each guess takes some milliseconds of a thread; forty clients guess at the same time."""
    path = tmp_path / "users.txt"
    path.write_text(User.of("ann", "secret", 20_000).line() + "\n", encoding="utf-8")
    wrong = base64.b64encode(b"ann:wrong").decode().encode()
    guess = b"GET /todo HTTP/1.1\r\n" + HOST + b"Authorization: Basic " + wrong + b"\r\n\r\n"
    if way == "session":
        body = b'{"name":"ann","password":"wrong"}'
        kind = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        guess = b"POST /_session HTTP/1.1\r\n" + HOST + kind + body
    with attacked("http", credentials=Credentials.from_file(str(path))) as server:
        known = server.open()
        request = b"GET /todo HTTP/1.1\r\n" + HOST + BASIC + b"\r\n"
        assert b"HTTP/1.1 200 OK" == asked(known, request)[0]
        guessing = [server.open() for _ in range(40)]
        for line in guessing:
            line.sendall(guess)
        # Each of them waits for a thread, or has one.
        (application,) = server.server.applications.values()
        wait_until(lambda: len(application._workers.jobs) >= GUESSES)
        assert b"HTTP/1.1 200 OK" == asked(known, request)[0]
        answered, _, _ = select.select(guessing, [], [], 0)

    assert len(answered) < 20


def test_a_stranger_sends_no_large_body() -> None:
    """`_session` is asked by strangers: its body is a name and a password."""
    with client_of(credentials=ANN) as client:
        answer = client.post("/_session", json={"name": "ann", "password": "x" * 10_000})
        known = client.post("/_session", json={"name": "ann", "password": "secret"})

    assert (413, "too_large") == (answer.status_code, error_of(answer.content))
    assert 200 == known.status_code


# ---------------------------------------------------------------------------------------------------------------
# What is compressed

MIB = 1024 * 1024


def test_compressed_attachments_of_one_request_are_counted_together() -> None:
    """Each of them is within its bound, and a small request may have thousands."""
    bomb = base64.b64encode(gzip.compress(bytes(MIB))).decode()
    limits = HTTPLimits(body_bytes=4 * MIB, attachment_bytes=8 * MIB)

    def document(id: str, count: int) -> dict[str, Any]:
        stub = {"data": bomb, "encoding": "gzip", "content_type": "text/plain"}
        return {"_id": id, "_attachments": {f"f{number}": stub for number in range(count)}}

    with client_of(limits=limits) as client:
        one = client.put("/todo/a", json=document("a", 5))
        fits = client.put("/todo/b", json=document("b", 4))
        many = client.post("/todo/_bulk_docs", json={"docs": [document(str(n), 1) for n in range(5)]})

    assert (413, "attachment_too_large") == (one.status_code, error_of(one.content))
    assert 201 == fits.status_code
    assert [None] * 4 + ["attachment_too_large"] == [row.get("error") for row in many.json()]


@contextmanager
def answering(body: bytes) -> Iterator[str]:
    """A server that gives everybody the same compressed answer."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                line, _ = listening.accept()
            except OSError:
                return
            with line:
                line.settimeout(PATIENCE_S)
                data = b""
                while b"\r\n\r\n" not in data:
                    data += line.recv(65_536)
                head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nConnection: close\r\n"
                try:
                    line.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                except OSError:
                    pass

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/notes"
    finally:
        # `close` alone would leave the thread in `accept`.
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(PATIENCE_S)


def test_an_answer_to_sync_is_counted_as_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reactdb.replication.remote.MOST_ANSWER_BYTES", MIB)
    bomb = gzip.compress(b'{"a":"' + bytes(8 * MIB) + b'"}')
    with (
        answering(bomb) as url,
        closing(RemotePeer(url)) as peer,
        pytest.raises(CouchError, match="longer than"),
    ):
        peer.prepare(create=False)


def test_an_attachment_of_another_server_is_no_longer_than_it_was_said() -> None:
    bomb = gzip.compress(bytes(8 * MIB))
    document = {"_id": "a", "_rev": "1-x", "_attachments": {"f": {"length": 10}}}
    with (
        answering(bomb) as url,
        closing(RemotePeer(url)) as peer,
        peer._pieces(document, "f")() as pieces,
        pytest.raises(SourceFailed, match="longer than"),
    ):
        list(pieces)


def test_a_connection_that_comes_while_the_server_stops_is_ended_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The system hands it over after uvicorn has told its connections to end."""
    answers: list[bytes] = []

    async def shutdown(self: uvicorn.Server, sockets: list[socket.socket] | None = None) -> None:
        assert sockets is not None
        loop = asyncio.get_running_loop()
        with socket.socket() as line:
            line.setblocking(False)
            await loop.sock_connect(line, sockets[0].getsockname())
            with suppress(ConnectionError):
                answers.append(await asyncio.wait_for(loop.sock_recv(line, 1), PATIENCE_S))
        await stop(self, sockets)

    stop = uvicorn.Server.shutdown
    monkeypatch.setattr(uvicorn.Server, "shutdown", shutdown)
    with reactdb.connect(":memory:") as db, serve_in_thread(db, limits=HTTPLimits(head_s=60.0)):
        pass

    assert answers in ([], [b""])
