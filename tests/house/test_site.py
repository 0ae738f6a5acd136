"""The site that `python -m docs.build` makes of the pages: its navigation, its links, and the check of these."""

from __future__ import annotations

import functools
import importlib.util
import re
import threading
import tomllib
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from docs import build
from tests.support.chromium import needs_chromium, open_chromium


def pages_of(entries: list[dict[str, Any]]) -> Iterator[str]:
    for entry in entries:
        for content in entry.values():
            yield from pages_of(content) if isinstance(content, list) else [content]


def test_every_page_is_in_the_navigation_once():
    listed = list(pages_of(build.navigation()))

    assert len(set(listed)) == len(listed)
    assert {page.relative_to(build.DOCS).as_posix() for page in build.DOCS.rglob("*.md")} <= set(listed)


def test_the_settings_are_toml(tmp_path):
    written = build.settings(tmp_path / "pages", tmp_path / "site")

    assert written == tomllib.loads(build.toml(written))


def test_a_link_out_of_the_pages_leads_to_a_page_of_that_file():
    page = build.DOCS / "how-to" / "outbox.md"

    assert "[a](../changelog.md#x)" == build.with_links_of_the_site("[a](../../CHANGELOG.md#x)", page)
    assert "[a](../examples/outbox/index.md)" == build.with_links_of_the_site(
        "[a](../../examples/outbox)", page
    )


def test_a_link_in_code_is_left_alone():
    text = "```python\nx = [a](../../CHANGELOG.md)\n```"

    assert text == build.with_links_of_the_site(text, build.DOCS / "how-to" / "outbox.md")


def test_the_name_of_a_file_becomes_the_title_of_its_code():
    text = "```python file=rooms.py\nx = 1\n```"

    assert '```python title="rooms.py"\nx = 1\n```' == build.with_links_of_the_site(
        text, build.DOCS / "index.md"
    )


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ('<a href="other.html#there">', None),
        ('<a href="https://example.org/">', None),
        ('<a href="gone.html">', "index.html links to gone.html, which does not exist"),
        (
            '<a href="other.html#gone">',
            "index.html links to other.html#gone, but that page has no such heading",
        ),
        ('<img src="gone.png">', "index.html links to gone.png, which does not exist"),
        ('<script src="https://example.org/x.js">', "index.html loads https://example.org/x.js"),
    ],
)
def test_a_wrong_link_is_found(tmp_path, link, problem):
    (tmp_path / "other.html").write_text('<h2 id="there">')
    (tmp_path / "index.html").write_text(link)

    assert ([problem] if problem else []) == list(build.problems_of(tmp_path))


def test_a_style_that_fetches_a_font_is_found(tmp_path):
    (tmp_path / "index.html").write_text("")
    (tmp_path / "a.css").write_text("@import url('https://example.org/font.css');")

    assert ["a.css loads https://example.org/font.css"] == list(build.problems_of(tmp_path))


@pytest.mark.parametrize(
    "picture", sorted((build.DOCS / "pictures").glob("*.svg")), ids=lambda path: path.stem
)
def test_a_picture_is_small_whole_and_fetches_nothing(picture):
    text = picture.read_text(encoding="utf-8")

    assert len(text) < 1_000_000
    assert ElementTree.fromstring(text).find("{http://www.w3.org/2000/svg}title") is not None
    assert set() == set(re.findall(r"https?://[^\"' ]+", text)) - {"http://www.w3.org/2000/svg"}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The address of the built site."""
    if importlib.util.find_spec("zensical") is None:
        pytest.skip("the builder of the site is missing: python -m pip install -e '.[site]'")
    folder: Path = tmp_path_factory.mktemp("site")
    assert [] == build.build(folder / "site")
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder / "site")))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def page(site):
    with open_chromium() as browser:
        page = browser.new_page(viewport={"width": 400, "height": 800})
        page.set_default_timeout(20_000)
        page.fetched = []
        page.on("request", lambda request: page.fetched.append(request.url))
        yield page


# What a reader searches, and the pages that help.
WANTED = {
    "asyncio": ("how-to/asyncio/",),
    "undo": ("how-to/undo/",),
    "FastAPI": ("how-to/web/", "examples/fastapi_live_page/"),
    "PySide6": ("how-to/qt/", "how-to/user-interfaces/"),
    "Textual": ("how-to/textual/", "how-to/user-interfaces/"),
    "marimo": ("how-to/notebook/", "how-to/user-interfaces/"),
    "backup": ("how-to/backup/",),
}


class TestInABrowser:
    pytestmark = needs_chromium

    @pytest.mark.parametrize("word", WANTED)
    def test_a_word_is_found_at_the_first_try(self, site, page, word):
        """Among the first five results, which a reader sees without scrolling, also on a telephone."""
        page.goto(site)
        # The script of the search has begun when its element is there.
        page.wait_for_function("[...document.querySelectorAll('div')].some(element => element.shadowRoot)")
        page.locator("label[for=__search]").first.click()
        page.get_by_role("combobox", name="Search").fill(word)
        results = page.locator("a[role=option]")
        results.first.wait_for()

        found = [link.get_attribute("href") or "" for link in results.all()[:5]]
        assert any(page in link for link in found for page in WANTED[word]), found

    def test_a_narrow_page_does_not_scroll_sideways_and_fetches_nothing_from_elsewhere(self, site, page):
        for path in (
            "",
            "how-to/outbox/",
            "reference/names/",
            "reference/command-line/",
            "explanation/alternatives/",
        ):
            page.goto(site + path)

            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), path
        assert [] == [url for url in page.fetched if not url.startswith((site, "data:", "blob:"))]
