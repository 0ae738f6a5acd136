"""A tab that shows the inspector, and keeps what went wrong in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

# The first row below the titles: its key, its place on the screen in pixels, and its number.
FIRST_ROW = """() => {
  const top = document.querySelector('.grid-top').getBoundingClientRect().bottom;
  let first = null;
  for (const row of document.querySelectorAll('.grid-body .grid-row:not(.away):not(.waiting)')) {
    const box = row.getBoundingClientRect();
    if (box.bottom > top + 1 && (first === null || box.top < first.y)) {
      first = {key: row.querySelector('.t-key').textContent, y: Math.round(box.top), row: Number(row.ariaRowIndex) - 1};
    }
  }
  return first;
}"""

# The rows that are visible: [number, key, text of each cell].
VISIBLE_ROWS = """() => {
  const top = document.querySelector('.grid-top').getBoundingClientRect().bottom;
  const rows = [...document.querySelectorAll('.grid-body .grid-row:not(.away):not(.waiting)')]
    .filter((row) => row.getBoundingClientRect().bottom > top + 1)
    .map((row) => [Number(row.ariaRowIndex) - 1, row.querySelector('.t-key').textContent,
      [...row.children].map((cell) => cell.textContent)]);
  return rows.sort((a, b) => a[0] - b[0]);
}"""

_WATCH = """
window.violations = [];
document.addEventListener('securitypolicyviolation', (event) => {
  violations.push(`${event.violatedDirective} ${event.blockedURI}`);
});
"""


class WatchedPage:
    """A tab with the inspector.

    Attributes:
        tab: The page of Playwright.
        errors: Errors of scripts and of the console.
        foreign: Requests to another host.
    """

    def __init__(self, tab: Any, url: str) -> None:
        self.tab = tab
        self.errors: list[str] = []
        self.foreign: list[str] = []
        tab.add_init_script(_WATCH)
        tab.on("pageerror", lambda error: self.errors.append(str(error)))
        own = urlsplit(url).netloc

        def read_console(message: Any) -> None:
            if message.type == "error":
                self.errors.append(message.text)

        def read_request(request: Any) -> None:
            if urlsplit(request.url).netloc != own:
                self.foreign.append(request.url)

        tab.on("console", read_console)
        tab.on("request", read_request)

    def wait(self, condition: str, argument: Any = None) -> None:
        """Until the JavaScript expression is true."""
        self.tab.wait_for_function(condition, arg=argument, timeout=15_000)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.tab.keyboard.press(key)

    def type(self, text: str) -> None:
        self.tab.keyboard.type(text)

    def text(self, selector: str) -> str:
        found: str = self.tab.inner_text(selector)
        return found

    def wait_for_text(self, selector: str, part: str) -> None:
        self.wait(
            "([selector, part]) => [...document.querySelectorAll(selector)].some((one) => one.innerText.includes(part))",
            [selector, part],
        )

    def wait_for_row(self, number: int) -> None:
        """Until the row of this number, from 1, is loaded and visible."""
        self.wait(
            "(index) => [...document.querySelectorAll('.grid-row:not(.away):not(.waiting)')]"
            ".some((row) => row.ariaRowIndex === index)",
            str(number + 1),
        )

    def first_row(self) -> dict[str, Any]:
        found: dict[str, Any] = self.tab.evaluate(FIRST_ROW)
        return found

    def visible_rows(self) -> list[Any]:
        found: list[Any] = self.tab.evaluate(VISIBLE_ROWS)
        return found

    def violations(self) -> list[str]:
        found: list[str] = self.tab.evaluate("violations")
        return found


@contextmanager
def watched_page(browser: Any, url: str, **options: Any) -> Iterator[WatchedPage]:
    """The page in a tab of its own profile, once it shows data. `options` are those of `browser.new_context`."""
    context = browser.new_context(**{"viewport": {"width": 1200, "height": 700}, **options})
    try:
        page = WatchedPage(context.new_page(), url)
        page.tab.goto(url)
        page.tab.wait_for_selector("[data-ready]", state="attached", timeout=15_000)
        yield page
    finally:
        context.close()
