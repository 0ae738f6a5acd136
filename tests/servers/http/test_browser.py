"""A real browser: the page at `/_reactdb`, EventSource from another origin, and PouchDB with IndexedDB that was offline."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb.servers.http import serve_in_thread
from tests.servers.http.browser import Page, chromium, needs_chromium
from tests.servers.http.pouch import FOLDER

pytestmark = needs_chromium
PACKED = FOLDER / "node_modules" / "pouchdb" / "dist" / "pouchdb.min.js"


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    with chromium(tmp_path / "profile") as made:
        yield made


@pytest.fixture
def db(path: Path) -> Iterator[Any]:
    with reactdb.connect(path) as database:
        database.table_create("todo", primary_key="_id").insert(
            [{"_id": "milk"}, {"_id": "bread", "done": True}]
        )
        database.table_create("other", primary_key="_id")
        yield database


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[str]:
    """Another origin, with a page of its own."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "index.html").write_text("<!doctype html><title>Elsewhere</title>", encoding="utf-8")
    if PACKED.exists():
        (folder / "pouchdb.js").write_bytes(PACKED.read_bytes())
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_page_shows_tables_changes_and_revisions_while_they_happen(
    db: Any, page: Page, tmp_path: Path
) -> None:
    todo = db.table("todo")
    with serve_in_thread(db) as server:
        page.open(f"http://127.0.0.1:{server.port}/_reactdb#todo")
        page.until("document.querySelectorAll('#changes button').length === 2")
        page.until("document.getElementById('state').textContent === 'live'")
        tables = page.run(
            "[...document.querySelectorAll('#tables button')].map(button => button.dataset.table)"
        )
        todo.insert({"_id": "<b>eggs</b>", "text": "<script>alert(1)</script>"})
        page.until("document.querySelector('#changes button').dataset.id === '<b>eggs</b>'")
        page.run("document.querySelector('#changes button').click()")
        page.until("document.querySelectorAll('#document code').length === 1")
        todo.get("<b>eggs</b>").update({"n": 2})
        page.until("document.querySelectorAll('#document code').length === 2")
        todo.get("milk").delete()
        page.until("document.querySelector('#changes button').dataset.id === 'milk'")
        text = page.run("document.querySelector('#document pre').textContent")
        scripts = page.run("document.querySelectorAll('#document script, #changes b').length")
        gone = page.run("document.querySelector('#changes .gone').textContent")
        page.screenshot(tmp_path / "page.png")

    assert ["other", "todo"] == tables
    assert '"n": 2' in text
    assert (0, "milk") == (scripts, gone)
    assert (tmp_path / "page.png").stat().st_size > 10_000


def test_an_event_source_of_another_origin_goes_on_after_a_restart(
    db: Any, page: Page, elsewhere: str
) -> None:
    with serve_in_thread(db) as server:
        port = server.port
        page.open(elsewhere)
        page.run(
            "window.heard = []; window.source = new EventSource("
            f"'http://127.0.0.1:{port}/todo/_changes?feed=eventsource&heartbeat=1000', {{withCredentials: true}});"
            "source.onmessage = event => event.data && heard.push(JSON.parse(event.data).id)"
        )
        page.until("heard.length === 2")
    db.table("todo").insert({"_id": "eggs"})
    with serve_in_thread(db, port=port):
        page.until("heard.length === 3")
        heard = page.run("heard")

    # What was told before the restart is not told again.
    assert ["milk", "bread", "eggs"] == heard


@pytest.mark.skipif(not PACKED.exists(), reason="PouchDB is missing: run `npm ci` in tests/pouchdb")
def test_a_pouchdb_in_the_browser_that_was_offline_catches_up(db: Any, page: Page, elsewhere: str) -> None:
    todo = db.table("todo")
    with serve_in_thread(db) as server:
        port = server.port
        page.open(elsewhere)
        page.run(
            "new Promise((done, failed) => { const script = document.createElement('script'); script.src = 'pouchdb.js';"
            " script.onload = () => done(true); script.onerror = failed; document.head.append(script); })"
        )
        page.run(
            f"window.local = new PouchDB('todo'); window.sync = local.sync('http://127.0.0.1:{port}/todo',"
            " {live: true, retry: true, back_off_function: () => 100}); window.ids = async () =>"
            " (await local.allDocs()).rows.map(row => row.id).join(); true"
        )
        page.until("ids().then(found => found === 'bread,milk')")
    page.run(
        "local.put({_id: 'offline', n: 1}).then(() => local.get('milk')).then(doc => local.put({...doc, done: true}))"
    )
    todo.insert({"_id": "meanwhile"})
    with serve_in_thread(db, port=port):
        page.until("ids().then(found => found === 'bread,meanwhile,milk,offline')")
        page.until(f"fetch('http://127.0.0.1:{port}/todo/offline').then(answer => answer.ok)")
        page.until(
            f"fetch('http://127.0.0.1:{port}/todo/milk').then(answer => answer.json()).then(doc => doc.done)"
        )

    assert {"_id": "offline", "n": 1} == todo.get("offline").run()
    assert {"_id": "milk", "done": True} == todo.get("milk").run()
