"""A real Chromium without a window, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))),
    None,
)
needs_chromium = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing: apt-get install chromium"),
]
# Without these, Chromium looks up hosts of its own at every start.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


_drivers: list[Any] = []


@contextmanager
def open_playwright() -> Iterator[Any]:
    """Playwright's driver. Two at a time in one thread are refused by Playwright, so an inner one is the outer one.

    While it is open, asyncio takes the thread for one with a running loop: `asyncio.run` works in other threads only.
    """
    if _drivers:
        yield _drivers[0]
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        _drivers.append(driver)
        try:
            yield driver
        finally:
            _drivers.clear()


@contextmanager
def open_chromium(**options: Any) -> Iterator[Any]:
    """A browser of Playwright's synchronous API: `browser.new_context()`, `browser.new_page()`.

    Args:
        options: Further options of `chromium.launch`.
    """
    with open_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS), **options)
        try:
            yield browser
        finally:
            browser.close()
