"""The example `fastapi_live_page` in a real browser: two tabs in step, a server that is killed, a page that is loaded anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.chromium import needs_chromium, open_chromium
from tests.support.processes import ROOT
from tests.web.example_server import ExampleServer

pytestmark = needs_chromium
PROGRAM = ROOT / "examples" / "fastapi_live_page" / "program.py"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ExampleServer]:
    server = ExampleServer(PROGRAM, tmp_path)
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_chromium() as browser:
        yield browser


def wait_until_live(page: Any) -> None:
    page.wait_for_selector("#state.live")


def wait_for(page: Any, text: str) -> None:
    page.wait_for_function("text => copy.changes[0] === text", arg=text)


def test_two_tabs_are_in_step_over_a_killed_server_and_a_reload_and_no_change_is_missing_or_told_twice(
    server, browser
):
    context = browser.new_context()
    one, two = context.new_page(), context.new_page()
    problems: list[str] = []
    for page in (one, two):
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(server.url)
        wait_until_live(page)

    one.fill("#text", "bread <b>")
    one.click("form button")
    wait_for(two, "added: bread <b>")
    two.check("#todos input")
    wait_for(one, "done: bread <b>")
    for number in range(20):
        server.add(f"task {number}")
    server.kill()
    server.start()
    server.add("while the pages were away")
    wait_for(one, "added: while the pages were away")
    one.reload()
    wait_until_live(one)
    server.add("after the reload")
    two.click("#todos li.done button")

    expected = [
        "removed: bread <b>",
        "added: after the reload",
        "added: while the pages were away",
        *(f"added: task {number}" for number in reversed(range(20))),
        "done: bread <b>",
        "added: bread <b>",
    ]
    for page in (one, two):
        wait_for(page, expected[0])
        assert expected == page.evaluate("copy.changes")
        assert 22 == page.locator("#todos li").count()
    assert [] == problems
    context.close()


def test_a_page_with_a_copy_of_another_file_replaces_it(server, browser):
    server.add("old")
    context = browser.new_context()
    page = context.new_page()
    page.goto(server.url)
    page.wait_for_selector("#todos li")
    server.kill()
    server.forget_file()
    server.start()
    server.add("new")
    page.wait_for_function("document.querySelector('#todos').innerText.includes('new')")
    assert ["new"] == page.locator("#todos span").all_inner_texts()
    context.close()
