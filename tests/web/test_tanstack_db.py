"""The collection of TanStack DB in a real browser: ready, errors, writes, and a server that begins anew."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.chromium import open_chromium
from tests.support.processes import ROOT
from tests.web.clients import bundle, needs_clients
from tests.web.example_server import ExampleServer

pytestmark = needs_clients
FOLDER = ROOT / "examples" / "tanstack_db"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExampleServer]:
    folder: Path = tmp_path_factory.mktemp("tanstack")
    (folder / "pages").mkdir()
    shutil.copy(FOLDER / "index.html", folder / "pages")
    bundle(FOLDER / "app.js", folder / "pages" / "bundle.js")
    server = ExampleServer(FOLDER / "program.py", folder, "pages")
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_chromium() as browser:
        yield browser


@pytest.fixture
def page(server: ExampleServer, browser: Any) -> Iterator[Any]:
    page = browser.new_page()
    page.goto(server.url)
    page.wait_for_function("window.todos && todos.status === 'ready'")
    yield page
    page.close()


def test_an_empty_table_becomes_ready_and_writes_end_when_they_have_come_back(server, page):
    assert 0 == page.evaluate("todos.size")
    # `syncedData` has what the server has sent, without what is only shown in advance.
    assert [True, "eggs"] == page.evaluate(
        """async () => {
            const write = todos.insert({id: "a", text: "eggs", done: false});
            const isShownAtOnce = todos.has("a");
            await write.isPersisted.promise;
            return [isShownAtOnce, todos._state.syncedData.get("a").text];
        }"""
    )
    assert [True, False] == page.evaluate(
        """async () => {
            await todos.update("a", draft => { draft.done = true; }).isPersisted.promise;
            const isDone = todos._state.syncedData.get("a").done;
            await todos.delete("a").isPersisted.promise;
            return [isDone, todos._state.syncedData.has("a")];
        }"""
    )


def test_edits_of_others_and_of_the_page_are_in_the_list(server, page):
    httpx.post(f"{server.url}/todos", json={"id": "b", "text": "of another", "done": False}, verify=False)
    page.fill("#text", "of the page")
    page.click("button")
    page.wait_for_function("document.querySelectorAll('#list li').length === 2")
    page.click("text=of another")
    page.wait_for_function("todos._state.syncedData.get('b').done")
    assert ["✓ of another", "of the page"] == page.locator("#list li").all_inner_texts()


def test_a_write_that_is_refused_is_taken_back(server, page):
    httpx.post(f"{server.url}/todos", json={"id": "c", "text": "there", "done": False}, verify=False)
    page.route("**/todos/*", lambda route: route.fulfill(status=403, body="{}"))
    page.wait_for_function("todos.has('c')")
    assert [False, "there"] == page.evaluate(
        """async () => {
            const write = todos.update("c", draft => { draft.text = "changed"; });
            const isKept = await write.isPersisted.promise.then(() => true, () => false);
            return [isKept, todos.get("c").text];
        }"""
    )


def test_a_failed_start_becomes_an_error(page):
    assert ["error", "nothing cannot be read"] == page.evaluate(
        """async () => {
            const failing = createCollection(reactdbCollection({live: "nothing", url: "nothing"}));
            const reason = await failing.preload().then(() => "none", error => error.message);
            return [failing.status, reason];
        }"""
    )


def test_a_server_with_another_file_resets_the_collection(server, page, tmp_path_factory):
    page.evaluate("todos.insert({id: 'old', text: 'old', done: false}).isPersisted.promise.then(() => 1)")
    server.kill()
    server.forget_file()
    server.start()
    httpx.post(f"{server.url}/todos", json={"id": "new", "text": "new", "done": False}, verify=False)
    page.wait_for_function("todos.has('new')")
    assert ["new"] == page.evaluate("[...todos.keys()]")
    page.evaluate("todos.insert({id: 'z', text: 'z', done: false}).isPersisted.promise.then(() => 1)")
    assert 2 == page.evaluate("todos._state.syncedData.size")
