"""Pages of a browser: which may write, under which names a server answers, and who may reach one that knows no users."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest

import reactdb
from reactdb.errors import InvalidOption
from reactdb.servers.couchdb import routes
from reactdb.servers.http import HTTPServer, aidbox, couchdb, serve_in_thread
from reactdb.servers.http.protocol import Bodies
from reactdb.servers.mongodb import MongoDBServer
from reactdb.servers.rethinkdb import RethinkDBServer
from reactdb.servers.users import Credentials
from tests.servers.http.asgi import asked
from tests.support.command import run

# Nothing that is waited for takes longer, even on a busy machine.
PATIENCE_S = 60.0
APP = "https://app.example.org"
EVIL = {"Origin": "https://evil.example"}
JSON = {"Content-Type": "application/json"}
BOTH = ["couchdb", "aidbox"]
BUNDLE = {
    "resourceType": "Bundle",
    "type": "transaction",
    "entry": [{"request": {"method": "DELETE", "url": "Patient/pt-1"}}],
}
FORMS = [
    "text/plain",
    "text/plain;charset=UTF-8",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    None,
]
"""Content types that a browser sends to another origin without asking; None: a body without one, which it sends, too."""


@pytest.fixture
def db() -> Iterator[Any]:
    with reactdb.connect(":memory:") as database:
        database.table_create("todo", primary_key="_id").insert({"_id": "milk"})
        database.table_create("Patient").insert({"id": "pt-1"})
        yield database


def client_of(server: HTTPServer, **options: Any) -> httpx.Client:
    return httpx.Client(
        base_url=f"http://127.0.0.1:{server.port}", timeout=PATIENCE_S, verify=False, **options
    )


def typed(kind: str | None) -> dict[str, str]:
    return {} if kind is None else {"Content-Type": kind}


def state(db: Any) -> dict[str, list[Any]]:
    return {name: db.table(name).run() for name in db.table_list()}


WRITES = [
    ("PUT", "/couchdb/other", None),
    ("DELETE", "/couchdb/todo", None),
    ("POST", "/couchdb/todo", {}),
    ("PUT", "/couchdb/todo/eggs", {}),
    ("POST", "/couchdb/todo/_bulk_docs", {"docs": [{"_id": "eggs"}]}),
    ("PUT", "/couchdb/todo/eggs/file", {}),
    ("PUT", "/couchdb/todo/_local/mine", {}),
    ("POST", "/couchdb/todo/_purge", {}),
    ("POST", "/couchdb/todo/_index", {"index": {"fields": ["a"]}}),
    ("PUT", "/couchdb/todo/_revs_limit", 5),
    ("POST", "/couchdb/_session", {"name": "ann", "password": "secret"}),
    ("DELETE", "/couchdb/_session", None),
    ("POST", "/aidbox/", BUNDLE),
    ("POST", "/aidbox/Patient", {"id": "pt-2"}),
    ("PUT", "/aidbox/Patient/pt-2", {}),
    ("PATCH", "/aidbox/Patient/pt-1", {"a": 1}),
    ("DELETE", "/aidbox/Patient/pt-1", None),
]


class TestWrites:
    def test_a_page_of_another_origin_writes_nothing(self, db: Any) -> None:
        before = state(db)
        with serve_in_thread(db, dialects=BOTH, origins=[APP]) as server, client_of(server) as client:
            answers = [
                client.request(method, path, content=json.dumps(body), headers=EVIL | JSON)
                for method, path, body in WRITES
            ]

        assert {403} == {answer.status_code for answer in answers}
        assert all("https://evil.example" in answer.text for answer in answers)
        assert not any("set-cookie" in answer.headers for answer in answers)
        assert before == state(db)

    @pytest.mark.parametrize("headers", [{}, {"Origin": APP}, {"Sec-Fetch-Site": "none"}])
    def test_programs_and_pages_that_are_allowed_write(self, db: Any, headers: dict[str, str]) -> None:
        with serve_in_thread(db, dialects=BOTH, origins=[APP]) as server, client_of(server) as client:
            put = client.put("/couchdb/todo/eggs", json={}, headers=headers)
            created = client.post("/aidbox/Patient", json={"id": "pt-2"}, headers=headers)

        assert (201, 201) == (put.status_code, created.status_code)

    def test_a_page_of_the_servers_own_origin_writes(self, db: Any) -> None:
        with serve_in_thread(db, origins=()) as server, client_of(server) as client:
            own = {"Origin": f"http://127.0.0.1:{server.port}"}
            other_port = {"Origin": f"http://127.0.0.1:{server.port + 1}"}
            other_scheme = {"Origin": f"https://127.0.0.1:{server.port}"}
            found = [
                client.put(f"/todo/{place}", json={}, headers=headers).status_code
                for place, headers in enumerate((own, other_port, other_scheme))
            ]

        assert [201, 403, 403] == found

    def test_behind_a_proxy_with_tls_the_browser_says_that_the_page_is_the_servers_own(self, db: Any) -> None:
        """The application hears of http and of a name of the proxy's, and the page is at https."""
        app = couchdb(db, origins=())
        own = {"Origin": "https://todo.example.org", "Sec-Fetch-Site": "same-origin", "Host": "backend:8000"}

        async def put(id: str, site: str) -> int:
            headers = own | JSON | {"Sec-Fetch-Site": site}
            return (await asked(app, "PUT", f"/todo/{id}", headers=headers, body=b"{}")).status

        sites = ("same-origin", "same-site", "cross-site")
        found = [asyncio.run(put(site, site)) for site in sites]

        assert [201, 403, 403] == found

    @pytest.mark.parametrize("site", ["cross-site", "same-site"])
    def test_a_request_of_another_page_that_hides_its_origin_is_refused(self, db: Any, site: str) -> None:
        with serve_in_thread(db, origins=[APP]) as server, client_of(server) as client:
            hidden = client.put("/todo/a", json={}, headers={"Sec-Fetch-Site": site})
            null = client.put("/todo/b", json={}, headers={"Origin": "null"})

        assert (403, 403) == (hidden.status_code, null.status_code)

    def test_without_users_and_without_origins_every_page_may_write(self, db: Any) -> None:
        with serve_in_thread(db) as server, client_of(server) as client:
            answer = client.put("/todo/eggs", json={}, headers=EVIL)

        assert 201 == answer.status_code
        assert EVIL["Origin"] == answer.headers["access-control-allow-origin"]

    def test_reading_changes_nothing(self, db: Any) -> None:
        """Every path that answers GET, asked as a page of another origin asks. What a table needs to be served, it has before."""
        tables = [
            *routes.SERVER.values(),
            routes.DATABASE,
            *routes.DATABASES.values(),
            *routes.TABLES.values(),
        ]
        writing = [table["GET"] for table in tables if "GET" in table and table["GET"].writes]
        paths = [f"/{name}" for name in routes.SERVER if name != "_db_updates"]
        paths += ["/todo", "/todo/milk", "/todo/missing", *(f"/todo/{name}" for name in routes.DATABASES)]
        with serve_in_thread(db, origins=[APP]) as server, client_of(server) as client:
            client.get("/todo")
            before = db.seq
            found = {client.get(path, headers=EVIL).status_code for path in paths}
            after = db.seq

        assert [] == writing
        assert {200, 404, 405} == found
        assert before == after


class TestContentTypes:
    """A body that a browser sends without asking is no JSON, whatever is in it."""

    @pytest.mark.parametrize("kind", FORMS)
    @pytest.mark.parametrize(
        ("method", "path"),
        [("POST", "/"), ("POST", "/Patient"), ("PUT", "/Patient/pt-1"), ("PATCH", "/Patient/pt-1")],
    )
    def test_aidbox_takes_json_and_yaml_only(self, db: Any, kind: str | None, method: str, path: str) -> None:
        before = state(db)
        with serve_in_thread(db, dialects=["aidbox"]) as server, client_of(server) as client:
            answer = client.request(method, path, content=json.dumps(BUNDLE), headers=typed(kind))

        assert (415, "not-supported") == (answer.status_code, answer.json()["issue"][0]["code"])
        assert before == state(db)

    @pytest.mark.parametrize(
        "kind",
        [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/fhir+json",
            "application/merge-patch+json",
            "text/yaml",
        ],
    )
    def test_aidbox_takes_every_type_of_json(self, db: Any, kind: str) -> None:
        with serve_in_thread(db, dialects=["aidbox"]) as server, client_of(server) as client:
            answer = client.patch("/Patient/pt-1", content='{"a": 1}', headers=typed(kind))

        assert 200 == answer.status_code
        assert [{"id": "pt-1", "a": 1}] == db.table("Patient").run()

    @pytest.mark.parametrize("kind", FORMS)
    def test_couchdb_posts_json_only(self, db: Any, kind: str | None) -> None:
        """Each path that takes a body by POST. A browser asks before a PUT, whatever its type is: curl sends forms there."""
        paths = ["/todo", *(f"/todo/{name}" for name, table in routes.DATABASES.items() if "POST" in table)]
        paths += [f"/todo/{name}/queries" for name in routes.QUERIES]
        paths += [
            "/_dbs_info",
            "/todo/_index/_bulk_delete",
            "/todo/_design/a/_view/b",
            "/todo/_design/a/_view/b/queries",
        ]
        for table in (*routes.DATABASES.values(), *routes.QUERIES.values()):
            assert "POST" not in table or Bodies.WHOLE is table["POST"].bodies
        before = state(db)
        with serve_in_thread(db) as server, client_of(server) as client:
            found = {
                path: client.post(path, content=b'{"docs":[],"keys":[]}', headers=typed(kind)).status_code
                for path in paths
            }

        assert dict.fromkeys(paths, 415) == found
        assert before == state(db)

    @pytest.mark.parametrize("kind", ["application/json", "application/x-www-form-urlencoded", None])
    def test_a_document_is_put_by_curl_as_to_couchdb(self, db: Any, kind: str | None) -> None:
        with serve_in_thread(db) as server, client_of(server) as client:
            answer = client.put("/todo/eggs", content=b'{"n":1}', headers=typed(kind))

        assert 201 == answer.status_code
        assert {"_id": "eggs", "n": 1} == db.table("todo").get("eggs").run()


class TestUsers:
    def test_with_users_no_other_origin_may_read_or_write_unless_it_is_named(self, db: Any) -> None:
        login = {"auth": ("ann", "secret")}
        with (
            serve_in_thread(db, credentials=Credentials("ann", "secret")) as server,
            client_of(server) as client,
        ):
            read = client.get("/todo", headers=EVIL, **login)
            written = client.put("/todo/eggs", json={}, headers=EVIL, **login)
            preflight = client.options("/todo/x", headers=EVIL | {"Access-Control-Request-Method": "PUT"})
            program = client.put("/todo/bread", json={}, **login)

        for answer in (read, written, preflight):
            assert "access-control-allow-origin" not in answer.headers
        assert (403, 201) == (written.status_code, program.status_code)

    def test_origins_that_are_named_may(self, db: Any) -> None:
        credentials = Credentials("ann", "secret")
        with (
            serve_in_thread(db, credentials=credentials, origins=[APP]) as server,
            client_of(server) as client,
        ):
            answer = client.put("/todo/eggs", json={}, headers={"Origin": APP}, auth=("ann", "secret"))

        assert (201, APP) == (answer.status_code, answer.headers["access-control-allow-origin"])

    def test_the_cookie_is_not_for_other_sites(self, db: Any) -> None:
        app = couchdb(db, credentials=Credentials("ann", "secret"))
        body = json.dumps({"name": "ann", "password": "secret"}).encode()

        async def cookies() -> list[str]:
            given = await asked(app, "POST", "/_session", headers=JSON, body=body)
            taken = await asked(app, "DELETE", "/_session")
            return [answer.headers["set-cookie"] for answer in (given, taken)]

        found = asyncio.run(cookies())

        for cookie in found:
            words = cookie.split("; ")
            assert {"HttpOnly", "SameSite=Lax"} <= set(words)
            assert "Secure" not in words

    def test_a_cookie_that_was_given_over_tls_comes_over_tls_only(self, db: Any) -> None:
        app = couchdb(db, credentials=Credentials("ann", "secret"))
        body = json.dumps({"name": "ann", "password": "secret"}).encode()

        async def over_tls(scope: Any, receive: Any, send: Any) -> None:
            await app(scope | {"scheme": "https"}, receive, send)

        answer = asyncio.run(asked(over_tls, "POST", "/_session", headers=JSON, body=body))

        assert "Secure" in answer.headers["set-cookie"].split("; ")


def status_for(server: HTTPServer, host: str, path: str) -> int:
    """Of a GET whose header `Host` is this one."""
    with closing(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)) as line:
        line.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while piece := line.recv(65_536):
            answer += piece
    return int(answer.split(b" ", 2)[1])


class TestHosts:
    """A page whose name leads to this machine (DNS rebinding) is of the server's own origin, as its browser sees it."""

    @pytest.mark.parametrize("path", ["/couchdb/todo", "/couchdb/", "/couchdb/_reactdb", "/aidbox/Patient"])
    def test_without_users_a_name_that_is_not_the_loopbacks_is_refused(self, db: Any, path: str) -> None:
        with serve_in_thread(db, dialects=BOTH) as server:
            names = (
                "evil.example",
                f"evil.example:{server.port}",
                "127.0.0.1.evil.example",
                "localhost.evil.example",
                "10.0.0.1",
                "",
            )
            found = [status_for(server, name, path) for name in names]

        assert [403] * len(names) == found

    @pytest.mark.parametrize(
        "host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:1", "localhost."]
    )
    def test_the_names_of_the_loopback_are_answered(self, db: Any, host: str) -> None:
        with serve_in_thread(db) as server:
            assert 200 == status_for(server, host, "/todo")

    def test_a_page_under_another_name_writes_nothing(self, db: Any) -> None:
        before = state(db)
        with serve_in_thread(db, dialects=BOTH) as server, client_of(server) as client:
            rebound = {
                "Host": "evil.example",
                "Origin": "http://evil.example",
                "Sec-Fetch-Site": "same-origin",
            }
            found = {
                client.request(method, path, content=json.dumps(body), headers=rebound | JSON).status_code
                for method, path, body in WRITES
            }

        assert {403} == found
        assert before == state(db)

    def test_names_that_are_given_are_answered_beside_the_loopbacks(self, db: Any) -> None:
        with serve_in_thread(db, hosts=["DB.example.org"]) as server:
            found = [
                status_for(server, name, "/todo")
                for name in ("db.example.org:80", "localhost", "evil.example")
            ]

        assert [200, 200, 403] == found

    def test_with_users_every_name_is_answered_unless_some_are_given(self, db: Any) -> None:
        users = Credentials("ann", "secret")
        with serve_in_thread(db, credentials=users) as server:
            every = status_for(server, "db.example.org", "/_up")
        with serve_in_thread(db, credentials=users, hosts=["db.example.org"]) as server:
            some = [status_for(server, name, "/_up") for name in ("db.example.org", "evil.example")]

        assert (200, [200, 403]) == (every, some)

    @pytest.mark.parametrize("application", [couchdb, aidbox])
    def test_an_application_in_another_program_answers_to_the_names_that_it_is_given(
        self, db: Any, application: Any
    ) -> None:
        async def statuses(app: Any) -> list[int]:
            hosts = ("testserver", "evil.example", "app.example.org")
            return [(await asked(app, "GET", "/todo", headers={"Host": host})).status for host in hosts]

        assert [200] * 3 == asyncio.run(statuses(application(db)))
        assert [403, 403, 200] == asyncio.run(statuses(application(db, hosts=["app.example.org"])))

    @pytest.mark.parametrize("host", ["", "http://db.example.org", "db.example.org:5984", "a b", 5])
    def test_what_is_no_name_is_refused(self, db: Any, host: Any) -> None:
        with pytest.raises(InvalidOption, match="host"):
            couchdb(db, hosts=[host])


class TestAddresses:
    """A server that lets everybody in listens on the loopback, unless it is said that it is for everybody."""

    SERVERS = (HTTPServer, MongoDBServer, RethinkDBServer)

    @pytest.mark.parametrize("server", SERVERS)
    @pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.1.5", "db.example.org"])
    @pytest.mark.parametrize("credentials", [None, Credentials("ann")])
    def test_another_address_needs_a_password(
        self, db: Any, server: Any, host: str, credentials: Any
    ) -> None:
        with pytest.raises(
            InvalidOption, match="gives other machines access: give credentials with a password"
        ):
            server(db, host=host, credentials=credentials)

    @pytest.mark.parametrize("server", SERVERS)
    @pytest.mark.parametrize(
        "options",
        [{"credentials": Credentials("ann", "secret")}, {"allow_anonymous": True}],
        ids=["users", "everybody"],
    )
    def test_with_a_password_or_for_everybody_it_listens_there(
        self, db: Any, server: Any, options: Any
    ) -> None:
        async def listens() -> str:
            async with server(db, host="0.0.0.0", port=0, **options) as made:
                return str(made.host)

        assert "0.0.0.0" == asyncio.run(listens())

    @pytest.mark.parametrize("server", SERVERS)
    @pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost", "::1"])
    def test_the_loopback_needs_none(self, db: Any, server: Any, host: str) -> None:
        server(db, host=host)

    def test_a_socket_of_the_file_system_needs_none(self, db: Any) -> None:
        MongoDBServer(db, path="/nowhere/socket", host="0.0.0.0")

    def test_one_that_is_for_everybody_answers_to_every_name(self, db: Any) -> None:
        with serve_in_thread(db, host="0.0.0.0", allow_anonymous=True) as server:
            assert 200 == status_for(server, "db.example.org", "/todo")


def test_the_command_says_who_may_and_under_which_names(tmp_path: Any) -> None:
    shown = " ".join(run("serve", "--help").stdout.split())

    assert "with users none" in shown
    assert "--host-name NAME" in shown
