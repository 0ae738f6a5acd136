"""A page of another origin in a real browser, which sends to a server what browsers send without asking."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb.servers.http import HTTPServer, serve_in_thread
from reactdb.servers.users import Credentials
from tests.servers.http.browser import Page, chromium, needs_chromium

pytestmark = needs_chromium
APP = "https://app.example.org"
JSON = {"headers": "{'content-type': 'application/json'}"}
BUNDLE = (
    '{"resourceType": "Bundle", "type": "transaction",'
    ' "entry": [{"request": {"method": "DELETE", "url": "Patient/pt-1"}}]}'
)
# A form with `text/plain` sends `name=value`: the `=` lies in a text, so that the whole is JSON.
FORM = """
new Promise((done, failed) => {
  setTimeout(failed, 30000);
  const frame = document.body.appendChild(Object.assign(document.createElement("iframe"), {name: "target"}));
  const form = document.body.appendChild(document.createElement("form"));
  Object.assign(form, {method: "POST", action: %s, enctype: "text/plain", target: "target"});
  form.append(Object.assign(document.createElement("input"), {type: "hidden", name: %s, value: %s}));
  frame.onload = () => { form.remove(); frame.remove(); done(true); };
  form.submit();
})
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with chromium(tmp_path_factory.mktemp("browser") / "profile") as made:
        yield made


@pytest.fixture
def db() -> Iterator[Any]:
    with reactdb.connect(":memory:") as database:
        database.table_create("Patient").insert({"id": "pt-1"})
        database.table_create("todo", primary_key="_id").insert({"_id": "milk"})
        yield database


class Elsewhere(BaseHTTPRequestHandler):
    """A site with one page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>Elsewhere</title><body></body>")

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[str]:
    """Another site: `localhost` and `127.0.0.1` are two to a browser."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://localhost:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def url_of(server: HTTPServer) -> str:
    return f"http://127.0.0.1:{server.port}"


def text(value: str) -> str:
    """As a text of JavaScript."""
    return json.dumps(value)


def submit(page: Page, url: str, body: str) -> None:
    """Send a form with `text/plain`, whose body is `body` and an equals sign within its last text."""
    name, value = body[:-1] + ', "rest": "', '"}'
    assert page.run(FORM % (text(url), text(name), text(value)))


def sent(page: Page, url: str, body: str, **options: str) -> Any:
    """What a script hears of a request that it sends: `opaque` where the browser tells nothing, `refused` where it fails."""
    members = ", ".join(f"{name}: {value}" for name, value in options.items())
    return page.run(
        f"fetch({text(url)}, {{method: 'POST', body: {body}, {members}}})"
        ".then(answer => answer.type === 'opaque' ? 'opaque' : answer.status, () => 'refused')"
    )


def documents(db: Any) -> dict[str, list[Any]]:
    return {name: db.table(name).run() for name in ("Patient", "todo")}


class TestOrigins:
    """With `origins`, only pages of these may write. What is sent without asking arrives, and is refused."""

    @pytest.fixture
    def server(self, db: Any) -> Iterator[HTTPServer]:
        with serve_in_thread(db, dialects=["couchdb", "aidbox"], origins=[APP]) as running:
            yield running

    def test_a_form_writes_nothing(self, db: Any, server: HTTPServer, page: Page, elsewhere: str) -> None:
        before = documents(db)
        page.open(elsewhere)

        submit(page, f"{url_of(server)}/aidbox/", BUNDLE)
        submit(page, f"{url_of(server)}/aidbox/Patient", '{"id": "pt-2"}')
        submit(page, f"{url_of(server)}/couchdb/todo", '{"_id": "eggs"}')

        assert before == documents(db)

    @pytest.mark.parametrize("mode", ["no-cors", "cors"])
    @pytest.mark.parametrize("kind", ["text", "blob", "form"])
    def test_a_script_writes_nothing(
        self, db: Any, server: HTTPServer, page: Page, elsewhere: str, mode: str, kind: str
    ) -> None:
        before = documents(db)
        page.open(elsewhere)
        bodies = {
            "text": text(BUNDLE),
            # It has no content type.
            "blob": f"new Blob([{text(BUNDLE)}])",
            "form": f"new URLSearchParams({{a: {text(BUNDLE)}}})",
        }

        heard = [
            sent(page, f"{url_of(server)}{path}", bodies[kind], mode=f"'{mode}'", credentials="'include'")
            for path in ("/aidbox/", "/aidbox/Patient", "/couchdb/todo", "/couchdb/todo/_bulk_docs")
        ]

        assert {"opaque" if mode == "no-cors" else "refused"} == set(heard)
        assert before == documents(db)

    def test_a_script_that_has_to_ask_is_not_allowed(
        self, db: Any, server: HTTPServer, page: Page, elsewhere: str
    ) -> None:
        page.open(elsewhere)

        posted = sent(page, f"{url_of(server)}/aidbox/Patient", text('{"id": "pt-2"}'), **JSON)
        deleted = page.run(
            f"fetch('{url_of(server)}/aidbox/Patient/pt-1', {{method: 'DELETE'}}).catch(() => 'refused')"
        )

        assert ("refused", "refused") == (posted, deleted)
        assert [{"id": "pt-1"}] == db.table("Patient").run()

    def test_the_servers_own_page_writes(self, db: Any, server: HTTPServer, page: Page) -> None:
        page.open(f"{url_of(server)}/couchdb/_reactdb")

        status = sent(page, f"{url_of(server)}/aidbox/Patient", text('{"id": "pt-2"}'), **JSON)

        assert 201 == status
        assert ["pt-1", "pt-2"] == sorted(row["id"] for row in db.table("Patient").run())


def test_without_users_and_origins_a_page_has_to_ask_before_it_writes(
    db: Any, page: Page, elsewhere: str
) -> None:
    """All may, but only by what the browser asks for first: a form is refused."""
    with serve_in_thread(db, dialects=["aidbox"]) as server:
        page.open(elsewhere)
        submit(page, f"{url_of(server)}/", BUNDLE)
        before = documents(db)
        status = sent(page, f"{url_of(server)}/Patient", text('{"id": "pt-2"}'), **JSON)

    assert [{"id": "pt-1"}] == before["Patient"]
    assert 201 == status


def test_a_session_is_of_no_use_to_pages_of_other_sites(db: Any, page: Page, elsewhere: str) -> None:
    """Whoever has signed in on the server's own page has a cookie. Another site's page cannot have it sent, nor read by it."""
    login = "{method: 'POST', body: new URLSearchParams({name: 'ann', password: 'secret'})}"
    with serve_in_thread(db, credentials=Credentials("ann", "secret")) as server:
        page.open(f"{url_of(server)}/")
        signed_in = page.run(f"fetch('/_session', {login}).then(answer => answer.status)")
        own = page.run("fetch('/todo/milk').then(answer => answer.status)")
        page.open(elsewhere)
        with_cookie = {"credentials": "'include'", "mode": "'cors'"}
        read = page.run(
            f"fetch('{url_of(server)}/todo/milk', {{credentials: 'include'}}).catch(() => 'refused')"
        )
        written = sent(page, f"{url_of(server)}/todo", text('{"_id": "eggs"}'), **with_cookie)
        logged_in = sent(
            page,
            f"{url_of(server)}/_session",
            "new URLSearchParams({name: 'ann', password: 'secret'})",
            **with_cookie,
        )

    assert (200, 200) == (signed_in, own)
    assert ("refused", "refused", "refused") == (read, written, logged_in)
    assert [{"_id": "milk"}] == db.table("todo").run()


def test_a_page_whose_name_leads_here_reads_and_writes_nothing(db: Any, tmp_path: Path) -> None:
    """DNS rebinding: to the browser the page and the server are one origin, so it asks nothing and hides nothing."""
    with (
        serve_in_thread(db, dialects=["aidbox"]) as server,
        chromium(tmp_path / "profile", "--host-resolver-rules=MAP rebound.example 127.0.0.1") as page,
    ):
        page.open(f"http://rebound.example:{server.port}/")
        read = page.run("fetch('/Patient').then(answer => answer.status)")
        written = sent(page, "/Patient", text('{"id": "pt-2"}'), **JSON)

    assert (403, 403) == (read, written)
    assert [{"id": "pt-1"}] == db.table("Patient").run()
