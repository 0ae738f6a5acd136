"""RxDB and PouchDB in a real browser as copies of a file, while Python reads and writes the same documents."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import reactdb
from tests.support.chromium import open_chromium
from tests.support.processes import ROOT
from tests.web.clients import PACKAGES, PATIENCE_S, bundle, couchdb, needs_clients, site

pytestmark = needs_clients


class Rig:
    """A browser, a site with both pages, and a server with a file that Python has open, too."""

    def __init__(self, browser: Any, pages: str, server: str, db: Any) -> None:
        self.browser, self.pages, self.server, self.db = browser, pages, server, db


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    folder: Path = tmp_path_factory.mktemp("copies")
    for name in ("rxdb", "pouchdb"):
        shutil.copytree(ROOT / "examples" / f"{name}_browser", folder / name)
    bundle(ROOT / "examples" / "rxdb_browser" / "app.js", folder / "rxdb" / "bundle.js")
    shutil.copy(PACKAGES / "pouchdb" / "dist" / "pouchdb.min.js", folder / "pouchdb")
    path = folder / "todo.db"
    with (
        reactdb.connect(path) as db,
        couchdb(path) as server,
        site(folder) as pages,
        open_chromium() as browser,
    ):
        db.table_create("todos", primary_key="_id")
        yield Rig(browser, pages, server, db)


@pytest.fixture
def todos(rig: Rig) -> Any:
    table = rig.db.table("todos")
    table.delete()
    return table


def wait_until(condition: Any, what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


# The documents of the page as `{id: [text, done]}`.
CONTENT = {
    "rxdb": "todos.find().exec().then(found => Object.fromEntries(found.map(one => [one.id, [one.text, one.done]])))",
    "pouchdb": "db.allDocs({include_docs: true}).then(found => Object.fromEntries("
    "found.rows.map(({doc}) => [doc._id, [doc.text, doc.done]])))",
}
INSERT = {
    "rxdb": "([id, text]) => todos.insert({id, text, done: false}).then(() => 1)",
    "pouchdb": "([id, text]) => db.put({_id: id, text, done: false}).then(() => 1)",
}
CHANGE = {
    "rxdb": "([id, text]) => todos.findOne(id).exec().then(one => one.incrementalPatch({text})).then(() => 1)",
    "pouchdb": "([id, text]) => db.get(id).then(one => db.put({...one, text})).then(() => 1)",
}
REMOVE = {
    "rxdb": "id => todos.findOne(id).exec().then(one => one.remove()).then(() => 1)",
    "pouchdb": "id => db.get(id).then(one => db.remove(one)).then(() => 1)",
}


def content(todos: Any) -> dict[str, Any]:
    return {one["_id"]: [one["text"], one["done"]] for one in todos.run()}


def wait_until_equal(page: Any, kind: str, todos: Any, expected: dict[str, Any] | None = None) -> None:
    """Until both sides have the same documents, which are the expected ones."""

    def is_equal() -> bool:
        here = content(todos)
        return here == page.evaluate(CONTENT[kind]) and expected in (None, here)

    wait_until(is_equal, f"{kind} and the table never became equal")


@pytest.mark.parametrize("kind", ["rxdb", "pouchdb"])
def test_a_browser_has_a_copy_that_is_edited_on_both_sides_and_offline(rig, todos, kind):
    todos.insert([{"_id": f"{number:03}", "text": f"task {number}", "done": False} for number in range(200)])
    context = rig.browser.new_context()
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(f"{rig.pages}/{kind}/page.html?server={rig.server}")
    page.wait_for_function("document.querySelectorAll('#list li').length === 200")
    wait_until_equal(page, kind, todos)

    # Live, both ways.
    todos.insert({"_id": "py", "text": "of Python", "done": False})
    page.evaluate(INSERT[kind], ["js", "of the page"])
    todos.get("000").delete()
    page.evaluate(REMOVE[kind], "001")
    todos.get("002").update({"done": True})
    page.evaluate(CHANGE[kind], ["003", "changed by the page"])
    expected = {f"{number:03}": [f"task {number}", False] for number in range(4, 200)} | {
        "py": ["of Python", False],
        "js": ["of the page", False],
        "002": ["task 2", True],
        "003": ["changed by the page", False],
    }
    wait_until_equal(page, kind, todos, expected)
    assert [] == problems

    # Offline: both sides change the same document, and each deletes one that the other has changed.
    context.set_offline(True)
    page.evaluate(INSERT[kind], ["off", "written offline"])
    page.evaluate(CHANGE[kind], ["004", "of the page"])
    page.evaluate(CHANGE[kind], ["005", "of the page"])
    page.evaluate(REMOVE[kind], "006")
    todos.get("004").update({"text": "of Python"})
    todos.get("005").delete()
    todos.get("006").update({"text": "of Python"})
    todos.get("007").delete()
    context.set_offline(False)
    wait_until(lambda: "off" in content(todos), "what was written offline never arrived")
    wait_until_equal(page, kind, todos)
    found = content(todos)
    assert found["004"][0] in ("of the page", "of Python")
    assert "007" not in found

    # A page that is loaded anew goes on with its copy.
    page.reload()
    page.wait_for_function(f"document.querySelectorAll('#list li').length === {len(found)}")
    todos.insert({"_id": "last", "text": "after the reload", "done": False})
    wait_until_equal(page, kind, todos, found | {"last": ["after the reload", False]})
    # A request that the missing network or the reload has cut may end as a rejection that the page does not handle.
    assert {"Failed to fetch"} >= set(problems)
    context.close()


@pytest.mark.parametrize("kind", ["rxdb", "pouchdb"])
def test_two_tabs_have_one_copy(rig, todos, kind):
    todos.insert({"_id": "a", "text": "a", "done": False})
    context = rig.browser.new_context()
    one, two = context.new_page(), context.new_page()
    for page in (one, two):
        page.goto(f"{rig.pages}/{kind}/page.html?server={rig.server}")
        page.wait_for_function("document.querySelectorAll('#list li').length === 1")
    one.evaluate(INSERT[kind], ["b", "of the first tab"])
    two.evaluate(INSERT[kind], ["c", "of the second tab"])
    todos.insert({"_id": "d", "text": "of Python", "done": False})
    for page in (one, two):
        wait_until_equal(page, kind, todos)
        page.wait_for_function("document.querySelectorAll('#list li').length === 4")
    context.close()


def test_seven_collections_replicate_with_short_polls(rig, tmp_path):
    names = "abcdefg"
    for name in names:
        rig.db.table_create(name, primary_key="_id").insert({"_id": "of Python"})
    bundle(ROOT / "tests" / "web_clients" / "seven_collections.js", tmp_path / "bundle.js")
    (tmp_path / "page.html").write_text('<!doctype html><script type="module" src="bundle.js"></script>')
    with site(tmp_path) as pages:
        context = rig.browser.new_context()
        page = context.new_page()
        page.goto(f"{pages}/page.html?server={rig.server}")
        page.wait_for_function(
            "window.isReady && Promise.all(Object.values(collections).map(one => one.find().exec()))"
            ".then(all => all.every(found => found.length === 1))"
        )
        page.evaluate(
            "Promise.all(Object.values(collections).map(one => one.insert({id: 'of the page'}))).then(() => 1)"
        )
        wait_until(
            lambda: all(rig.db.table(name).count().run() == 2 for name in names),
            "a collection was not pushed",
        )
        context.close()
