"""Shared by the tests of RxDB, PouchDB and TanStack DB: their packages, bundles, a site for the pages, and the server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from tests.support.chromium import needs_chromium
from tests.support.processes import ROOT

PACKAGES = ROOT / "tests" / "web_clients" / "node_modules"
PATIENCE_S = 30.0

needs_clients = [
    *needs_chromium,
    pytest.mark.node,
    pytest.mark.skipif(
        shutil.which("node") is None or not (PACKAGES / "esbuild").exists(),
        reason="Node or its packages are missing: run `npm ci` in tests/web_clients",
    ),
]


def bundle(entry: Path, target: Path) -> None:
    """The script and all that it imports as one file."""
    subprocess.run(
        [
            # Not by node: where npm runs install scripts, this is a program, and otherwise a script of node.
            str(PACKAGES / ".bin" / "esbuild"),
            str(entry),
            "--bundle",
            "--format=esm",
            "--log-level=warning",
            f"--outfile={target}",
        ],
        env={**os.environ, "NODE_PATH": str(PACKAGES)},
        check=True,
    )


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def site(folder: Path) -> Iterator[str]:
    """The URL of a folder with pages."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def couchdb(path: Path) -> Iterator[str]:
    """`reactdb serve FILE --couchdb` in a process, and its URL."""
    with subprocess.Popen(
        [sys.executable, "-m", "reactdb.cli", "serve", str(path), "--couchdb", "--port", "0"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            url = next(
                word.rstrip("/")
                for line in process.stdout
                for word in line.split()
                if word.startswith("http://")
            )
            end = time.monotonic() + PATIENCE_S
            while time.monotonic() < end:
                try:
                    httpx.get(url, verify=False)
                    break
                except httpx.TransportError:
                    time.sleep(0.02)
            yield url
        finally:
            process.terminate()
            process.communicate()
