"""A real Chromium without a window, driven through its DevTools protocol over two pipes."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
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


class Page:
    """One tab."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._out = os.fdopen(to_browser, "wb", buffering=0)
        self._in = os.fdopen(from_browser, "rb")
        self._next = 0
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")

    def call(self, method: str, **params: Any) -> Any:
        self._next += 1
        message: dict[str, Any] = {"id": self._next, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._next:
                assert "error" not in answer, answer
                return answer["result"]

    def _read(self) -> Any:
        found = bytearray()
        while (byte := self._in.read(1)) != b"\0":
            assert byte, "the browser has ended"
            found += byte
        return json.loads(found)

    def close(self) -> None:
        self._out.close()
        self._in.close()

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.run(
            "new Promise(done => document.readyState === 'complete' ? done() : addEventListener('load', done))"
        )

    def run(self, script: str) -> Any:
        """The value of an expression, or of what its promise promises."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
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
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))


@contextmanager
def chromium(profile: Path, *options: str) -> Iterator[Page]:
    assert CHROMIUM is not None
    browser_reads, we_write = os.pipe()
    we_read, browser_writes = os.pipe()

    def pipes() -> None:
        # DevTools reads from 3 and writes to 4.
        first, second = os.dup(browser_reads), os.dup(browser_writes)
        os.dup2(first, 3)
        os.dup2(second, 4)

    process = subprocess.Popen(
        [
            CHROMIUM,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--remote-debugging-pipe",
            "--window-size=1200,700",
            f"--user-data-dir={profile}",
            *options,
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        close_fds=False,
        preexec_fn=pipes,
    )
    os.close(browser_reads)
    os.close(browser_writes)
    watchdog = threading.Timer(300, process.kill)
    watchdog.start()
    page = None
    try:
        page = Page(we_write, we_read)
        yield page
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
        if page is not None:
            page.close()
