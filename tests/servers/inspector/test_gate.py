"""The gate over a real port: no page of another origin, no other name of the server, and no user without the token gets in,
on any route; and what the answers say to a browser."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

import reactdb
from reactdb.errors import InvalidOption
from reactdb.servers.http import inspector
from reactdb.servers.inspector import gate
from reactdb.servers.inspector.application import InspectorApplication
from reactdb.servers.inspector.page_files import file_names
from reactdb.servers.inspector.routes import ROUTES, WRITES
from reactdb.servers.inspector.server import InspectorServer
from reactdb.servers.server import in_thread
from tests.servers.http.asgi import asked
from tests.servers.inspector.service import OWN, PATIENCE_S, TOKEN, send_raw

BEARER = f"Authorization: Bearer {TOKEN}"
OWN_LINE = "X-Reactdb-Inspector: 1"
JSON_LINE = "Content-Type: application/json"
# Parameters with which each route answers 200.
PARAMETERS = {
    "rows": "?table=games",
    "document": "?table=games&key=%3D1",
    "seq_at": "?time=2200-01-01T00:00:00Z",
}
BODIES: dict[str, dict[str, Any]] = {
    "insert": {"table": "games", "doc": {"id": 7}},
    "replace": {"table": "games", "key": "=1", "doc": {"id": 1}},
    "update": {"table": "games", "key": "=1", "patch": {"a": 1}},
    "delete": {"table": "games", "key": "=1"},
    "undo": {},
    "redo": {},
}
ODD = [
    "//api/rows?table=games",
    "/x/../api/overview",
    "/api/%2e%2e/api/rows",
    "/%61pi/overview",
    "/api/overview/",
    "/nothing",
]


@pytest.fixture(scope="module")
def db() -> Iterator[Any]:
    with reactdb.connect(":memory:") as database:
        database.table_create("games").insert({"id": 1, "name": "first"})
        yield database


@pytest.fixture(scope="module")
def server(db: Any) -> Iterator[InspectorServer]:
    """With a token."""
    running = InspectorServer(db, token=TOKEN, write=True)
    with in_thread(running):
        yield running


@pytest.fixture(scope="module")
def open_server(db: Any) -> Iterator[InspectorServer]:
    """Without a token, as a program mounts it behind its own login."""
    running = InspectorServer(db, token=None, write=True)
    with in_thread(running):
        yield running


def all_requests() -> list[tuple[str, str, bytes]]:
    """(method, path, body) of every route, and of odd paths."""
    reads = [("GET", f"/api/{name}{PARAMETERS.get(name, '')}", b"") for name in ROUTES]
    writes = [("POST", f"/api/{name}", json.dumps(BODIES[name]).encode()) for name in WRITES]
    pages = [("GET", f"/{name}", b"") for name in ["", *sorted(file_names())]]
    odd = [(method, path, b"{}" if method == "POST" else b"") for path in ODD for method in ("GET", "POST")]
    return [*reads, *writes, *pages, *odd]


def lines_of(port: int, body: bytes, *more: str, host: str | None = "") -> list[str]:
    lines = [] if host is None else [f"Host: {host or f'127.0.0.1:{port}'}"]
    return [*lines, *([JSON_LINE, f"Content-Length: {len(body)}"] if body else []), *more]


STRANGE = {
    "a name of somebody else": {"host": "evil.example"},
    "a name that begins like ours": {"host": "localhost.evil.example"},
    "an address of the network": {"host": "192.168.0.7"},
    "no name": {"host": None},
    "a foreign origin": {"more": ["Origin: http://evil.example"]},
    "another port of this machine": {"more": ["Origin: http://127.0.0.1:1"]},
    "the origin null": {"more": ["Origin: null"]},
    "a page of another site": {"more": ["Sec-Fetch-Site: cross-site"]},
    "a page of the same site": {"more": ["Sec-Fetch-Site: same-site"]},
}


@pytest.mark.parametrize("strange", STRANGE, ids=lambda name: name.replace(" ", "-"))
def test_no_route_answers_a_page_or_a_name_that_is_not_its_own(
    server: InspectorServer, db: Any, strange: str
) -> None:
    seq = db.seq
    for method, path, body in all_requests():
        given = STRANGE[strange]
        lines = lines_of(
            server.port, body, BEARER, OWN_LINE, *given.get("more", []), host=given.get("host", "")
        )
        answer = send_raw(server.port, method, path, lines, body)
        assert 400 <= answer.status < 500, (method, path)
        assert b"first" not in answer.body
    assert db.seq == seq


def test_no_route_answers_without_the_token(server: InspectorServer, db: Any) -> None:
    seq = db.seq
    for method, path, body in all_requests():
        for more in (
            [],
            ["Authorization: Bearer wrong"],
            [f"Authorization: Basic {TOKEN}"],
            ["Cookie: reactdb=1"],
        ):
            answer = send_raw(server.port, method, path, lines_of(server.port, body, OWN_LINE, *more), body)
            assert answer.status == 401, (method, path)
            assert json.loads(answer.body)["error"].endswith(".")
    assert db.seq == seq


def test_every_route_answers_a_user_with_the_token(server: InspectorServer) -> None:
    for name in ROUTES:
        path = f"/api/{name}{PARAMETERS.get(name, '')}"
        assert send_raw(server.port, "GET", path, lines_of(server.port, b"", BEARER)).status == 200, path
    for name in file_names():
        assert send_raw(server.port, "GET", f"/{name}", lines_of(server.port, b"", BEARER)).status == 200


def test_a_write_needs_its_own_header_and_json(server: InspectorServer, db: Any) -> None:
    seq = db.seq
    for name, members in BODIES.items():
        body = json.dumps(members).encode()
        without = send_raw(server.port, "POST", f"/api/{name}", lines_of(server.port, body, BEARER), body)
        assert without.status == 403
        form = [f"Host: 127.0.0.1:{server.port}", f"Content-Length: {len(body)}", BEARER, OWN_LINE]
        for content_type in (
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
        ):
            answer = send_raw(
                server.port, "POST", f"/api/{name}", [*form, f"Content-Type: {content_type}"], body
            )
            assert answer.status == 415
        for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS"):
            lines = lines_of(server.port, body, BEARER, OWN_LINE)
            assert send_raw(server.port, method, f"/api/{name}", lines, body).status == 405
    assert db.seq == seq


def test_without_a_token_data_needs_a_header_that_no_foreign_page_can_send(
    open_server: InspectorServer,
) -> None:
    port = open_server.port
    for method, path, body in all_requests():
        is_page = method == "GET" and path.count("/") == 1 and path != "/nothing"
        answer = send_raw(port, method, path, lines_of(port, body), body)
        assert answer.status == 200 if is_page else 400 <= answer.status < 500, (method, path)
    for name in ROUTES:
        path = f"/api/{name}{PARAMETERS.get(name, '')}"
        assert send_raw(port, "GET", path, lines_of(port, b"", OWN_LINE)).status == 200, path


def test_no_answer_permits_another_page_or_inline_code(server: InspectorServer) -> None:
    for method, path, body in all_requests():
        for more in (
            [],
            [BEARER],
            [BEARER, "Origin: http://evil.example", "Access-Control-Request-Method: POST"],
        ):
            for verb in {method, "OPTIONS"}:
                answer = send_raw(server.port, verb, path, lines_of(server.port, body, *more), body)
                head = answer.head.lower()
                assert "access-control-" not in head
                for name, value in gate.HEADERS.items():
                    assert f"\r\n{name}: {value}".lower() in head, (verb, path, name)
    assert "unsafe" not in gate.POLICY


def test_the_token_becomes_a_cookie_and_leaves_the_address(server: InspectorServer) -> None:
    with httpx.Client(base_url=server.url, timeout=PATIENCE_S) as client:
        assert client.get("./").status_code == 401
        assert client.get("./", params={"token": TOKEN[:-1]}).status_code == 401
        assert client.get("./page.css", params={"token": TOKEN}).status_code == 401
        login = client.get("./", params={"token": TOKEN})
        assert login.status_code == 303
        assert login.headers["location"] == "./"
        cookie = login.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert str(server.port) in cookie.partition("=")[0]
        assert "Path=/;" in cookie
        assert TOKEN not in cookie
        assert client.get("./").status_code == 200
        assert client.get("api/overview").status_code == 200


def test_a_one_time_token_logs_in_once(db: Any) -> None:
    application = InspectorApplication(db, token=TOKEN)
    once = application.make_one_time_token()

    def status() -> int:
        return asyncio.run(asked(application, "GET", f"/?token={once}", headers={"Host": "localhost"})).status

    assert [status(), status()] == [303, 401]
    application.close()


def test_names_and_origins_can_be_added(db: Any) -> None:
    application = InspectorApplication(db, hosts=["db.example.org"], origins=["https://db.example.org"])

    def status(host: str, **more: str) -> int:
        headers = {"Host": host, **OWN, **more}
        return asyncio.run(asked(application, "GET", "/api/overview", headers=headers)).status

    assert status("db.example.org") == 200
    assert status("DB.example.org:443", Origin="https://db.example.org") == 200
    assert status("[::1]:80", Origin="http://[::1]:80") == 200
    assert status("db.example.org", Origin="https://other.example.org") == 403
    assert status("other.example.org") == 403
    application.close()


@pytest.mark.parametrize(
    "wrong",
    [
        {"token": "short"},
        {"token": "with a space in the middle"},
        {"token": 12345678901234567},
        {"hosts": ["*"]},
        {"hosts": "db.example.org"},
        {"origins": ["db.example.org"]},
        {"write": 1},
    ],
    ids=str,
)
def test_wrong_options_are_refused(db: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption) as raised:
        inspector(db, **wrong)
    assert str(wrong.get("token", "no token")) not in str(raised.value)


def test_the_server_listens_on_this_machine_alone(db: Any) -> None:
    with pytest.raises(InvalidOption):
        InspectorServer(db, token=TOKEN, host="0.0.0.0")


def test_a_websocket_is_refused_before_it_is_accepted(db: Any) -> None:
    sent: list[Any] = []

    async def connect() -> None:
        async def receive() -> Any:
            return {"type": "websocket.connect"}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "websocket", "path": "/api/stream", "headers": [(b"host", b"localhost")]}
        await InspectorApplication(db)(scope, receive, send)

    asyncio.run(connect())
    assert [message["type"] for message in sent] == ["websocket.close"]


def test_a_mounted_page_has_a_cookie_of_its_own_path_and_no_token_is_logged(db: Any, caplog: Any) -> None:
    application = Starlette(routes=[Mount("/tools/db", inspector(db, token=TOKEN))])
    running = uvicorn.Server(
        uvicorn.Config(application, port=0, log_config=None, log_level="info", lifespan="off")
    )
    with caplog.at_level(logging.DEBUG):
        thread = threading.Thread(target=running.run)
        thread.start()
        try:
            while not running.started:
                thread.join(0.01)
            port = running.servers[0].sockets[0].getsockname()[1]
            with httpx.Client(base_url=f"http://127.0.0.1:{port}/tools/db/", timeout=PATIENCE_S) as client:
                login = client.get("./", params={"token": TOKEN})
                assert login.status_code == 303
                assert "Path=/tools/db/;" in login.headers["set-cookie"]
                assert client.get("./").status_code == 200
                assert client.get("api/overview").json()["file"] == ":memory:"
                client.cookies.clear()
                assert client.get("./", params={"token": "wrong-" + TOKEN}).status_code == 401
        finally:
            running.should_exit = True
            thread.join()
    ours = [
        record.getMessage() for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))
    ]
    assert any("/tools/db/" in line for line in ours)
    assert not any(TOKEN in line for line in ours)
