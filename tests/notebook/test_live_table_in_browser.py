"""The live table's module in a real browser, with a model that the test plays."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

import reactdb.notebook
from tests.support.chromium import needs_chromium, open_chromium

pytestmark = needs_chromium
FOLDER = Path(reactdb.notebook.__file__).parent

# A kernel with 100,000 rows. `fake.silent`: it answers nothing any more.
FAKE = """
async (source) => {
  const module = await import(source);
  const listeners = {};
  const row = (at) => [`=${at}`, [String(at), `<img src=x onerror="window.hacked = 1">`, String(at * 2)]];
  const fake = window.fake = {
    total: 100000, silent: false, numbers: {}, asked: [], sent: [],
    traits: { height: 5, page: { offset: 0, total: null, columns: ["id", "text", "double"], numbers: [0, 2],
      rows: [row(0), row(1)], state: "loading", error: null, at: "2026-01-02T03:04:05Z" } },
    tell(content) { for (const one of [...(listeners["msg:custom"] ?? [])]) one(content); },
    page(view, offset, count, more = {}) {
      offset = Math.max(0, Math.min(offset, this.total - count));
      this.numbers[view] = (this.numbers[view] ?? 0) + 1;
      const rows = Array.from({ length: Math.min(count, this.total) }, (_, at) => row(offset + at));
      this.tell({ ...this.traits.page, kind: "page", view, number: this.numbers[view], offset, total: this.total, rows,
        state: "live", ...more });
    },
    change(rows, more = {}) {
      for (const view of Object.keys(this.numbers)) {
        this.numbers[view] += 1;
        this.tell({ kind: "changes", view, number: this.numbers[view], total: this.total, count: 5, rows, ...more });
      }
    },
    listeners,
  };
  const model = {
    get: (name) => fake.traits[name],
    on: (name, one) => (listeners[name] ??= []).push(one),
    off: (name, one) => { listeners[name] = listeners[name].filter((other) => other !== one); },
    send(content) {
      fake.sent.push(content);
      if (content.kind === "ask") {
        fake.asked.push(content.offset);
        if (!fake.silent) setTimeout(() => fake.page(content.view, content.offset, content.count), 0);
      }
    },
  };
  fake.model = model;
  fake.show = () => {
    const el = document.createElement("div");
    document.body.append(el);
    return module.default.render({ model, el });
  };
  fake.end = fake.show();
}
"""


@pytest.fixture(scope="module")
def browser():
    with open_chromium() as browser:
        yield browser


@pytest.fixture
def page(browser):
    source = base64.b64encode((FOLDER / "live_table.js").read_bytes()).decode()
    style = (FOLDER / "live_table.css").read_text(encoding="utf-8")
    context = browser.new_context()
    page = context.new_page()
    errors: list[Any] = []
    page.on("pageerror", lambda error: errors.append(error))
    page.clock.install()
    page.set_content(f"<!doctype html><html lang=en><style>{style}</style><body></body></html>")
    page.evaluate(FAKE, f"data:text/javascript;base64,{source}")
    page.clock.run_for(50)
    yield page
    context.close()
    assert [] == errors


def rows(page: Any, table: int = 0) -> list[list[str]]:
    return page.evaluate(
        "(at) => [...document.querySelectorAll('table')[at].tBodies[0].rows]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent))",
        table,
    )


def caption(page: Any) -> str:
    return page.locator(".reactdb-live-caption").first.text_content()


def test_rows_are_shown_and_texts_are_never_html(page):
    assert ["0", '<img src=x onerror="window.hacked = 1">', "0"] == rows(page)[0]
    assert 5 == len(rows(page))
    assert ["id", "text", "double"] == page.locator("th").all_text_contents()
    assert 0 == page.locator("img").count()
    assert page.evaluate("window.hacked") is None
    assert "● live · 100,000 documents" == caption(page)


def test_scrolling_asks_for_pages_and_the_whole_list_has_its_height(page):
    scroller = page.locator(".reactdb-live-scroller")
    scroller.evaluate("(it) => { it.scrollTop = 50000 * 28; }")
    page.wait_for_function("fake.asked.length > 1")
    page.clock.run_for(50)
    assert "50000" == rows(page)[0][0]

    scroller.evaluate("(it) => { it.scrollTop = it.scrollHeight; }")
    page.wait_for_function("fake.asked.length > 2")
    page.clock.run_for(50)
    assert "99999" == rows(page)[-1][0]
    assert "100001" == page.locator("tbody tr").last.get_attribute("aria-rowindex")


def test_the_keyboard_scrolls(page):
    page.locator(".reactdb-live-scroller").focus()
    page.keyboard.press("End")
    page.wait_for_function("(fake.asked.at(-1) ?? 0) > 90000")


def test_only_the_changed_cells_are_marked_for_a_moment(page):
    page.evaluate("fake.change({ 2: ['=2', ['2', 'other', '4']] })")
    marked = page.locator(".reactdb-live-changed")
    assert ["other"] == marked.all_text_contents()

    page.clock.run_for(1_000)
    assert 0 == marked.count()


def test_a_gap_in_the_numbers_is_asked_for(page):
    page.evaluate("fake.change({ 1: ['=1', ['1', 'lost', '2']] }, { view: 'nobody' })")
    page.evaluate("fake.change({ 2: ['=2', ['2', 'other', '4']] })")
    page.clock.run_for(50)

    assert [0, 0] == page.evaluate("fake.asked")
    assert "<img" in rows(page)[2][1]


def test_a_second_view_shows_the_same(page):
    page.evaluate("void fake.show()")
    page.clock.run_for(50)
    page.evaluate("fake.change({ 0: ['=0', ['0', 'both', '0']] })")

    assert rows(page) == rows(page, 1)
    assert "both" == rows(page)[0][1]


def test_a_shorter_list_is_shown_to_its_end(page):
    page.locator(".reactdb-live-scroller").evaluate("(it) => { it.scrollTop = it.scrollHeight; }")
    page.wait_for_function("fake.asked.length > 1")
    page.clock.run_for(50)
    page.evaluate("fake.total = 3; for (const view of Object.keys(fake.numbers)) fake.page(view, 0, 5)")
    page.clock.run_for(50)

    assert ["0", "1", "2"] == [cells[0] for cells in rows(page)]


def test_without_a_kernel_the_last_page_is_shown_and_said_not_to_be_live(page):
    page.evaluate("fake.silent = true; void fake.show()")
    assert 2 == len(rows(page, 1))
    page.clock.run_for(6_000)

    captions = page.locator(".reactdb-live-caption").all_text_contents()
    assert (
        "○ not live: no kernel answers; rows as of 2026-01-02T03:04:05Z · the first 2 documents"
        == captions[1]
    )
    assert "● live" in captions[0]


def test_a_model_that_refuses_to_send_is_not_live(page):
    page.evaluate("fake.model.send = () => { throw new Error('no kernel'); }; void fake.show()")

    assert "not live" in page.locator(".reactdb-live-caption").last.text_content()


def test_a_kernel_that_comes_back_is_asked_again(page):
    page.evaluate("fake.silent = true")
    page.clock.run_for(30_000)
    assert "not live" in caption(page)

    page.evaluate(
        "fake.silent = false; for (const view of Object.keys(fake.numbers)) fake.tell({ kind: 'alive', view })"
    )
    page.clock.run_for(50)
    assert "● live" in caption(page)


def test_a_failure_is_said(page):
    page.evaluate(
        "for (const view of Object.keys(fake.numbers)) fake.page(view, 0, 5, { state: 'failed', error: 'it was dropped' })"
    )

    assert "○ not live: it was dropped · 100,000 documents" == caption(page)


def test_a_view_that_goes_says_bye_and_leaves_no_listener(page):
    page.evaluate("fake.end()")
    page.clock.run_for(60_000)

    assert "bye" == page.evaluate("fake.sent.at(-1).kind")
    assert 0 == page.evaluate("Object.values(fake.listeners).flat().length")
