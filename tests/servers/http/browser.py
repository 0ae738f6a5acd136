"""A tab of a real Chromium, in which tests run scripts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.chromium import ARGUMENTS, CHROMIUM, needs_chromium, open_playwright

__all__ = ["Page", "chromium", "needs_chromium"]


class Page:
    """One tab."""

    def __init__(self, page: Any) -> None:
        self._page = page
        # As a person would in the console: Playwright's own `evaluate` calls a script whose value is a function.
        self._console = page.context.new_cdp_session(page)

    def open(self, url: str) -> None:
        self._page.goto(url)

    def run(self, script: str) -> Any:
        """The value of an expression, or of what its promise promises."""
        answer = self._console.send(
            "Runtime.evaluate", {"expression": script, "awaitPromise": True, "returnByValue": True}
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, condition: str) -> Any:
        """The value of an expression, once it is one that counts as true."""
        found = self.run(
            "new Promise((done, failed) => { const end = Date.now() + 60000; const look = async () => {"
            f" const value = await ({condition}); if (value) done(value);"
            " else if (Date.now() > end) failed(new Error('never')); else setTimeout(look, 20); }; look(); })"
        )
        assert found, condition
        return found

    def screenshot(self, path: Path) -> None:
        self._page.screenshot(path=path)


@contextmanager
def chromium(profile: Path, *options: str) -> Iterator[Page]:
    """
    Args:
        profile: The folder of the browser's data, which stays after a restart of the browser.
        options: Further options of Chromium's command line.
    """
    with (
        open_playwright() as playwright,
        playwright.chromium.launch_persistent_context(
            profile,
            executable_path=CHROMIUM,
            args=[*ARGUMENTS, *options],
            viewport={"width": 1200, "height": 700},
        ) as context,
    ):
        yield Page(context.pages[0])
