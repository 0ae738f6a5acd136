"""The inspector's page while its server is killed and comes back."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import reactdb
from tests.servers.inspector.watched_page import watched_page
from tests.support.chromium import needs_chromium, open_chromium

pytestmark = needs_chromium
TOKEN = "a-token-of-the-tests-of-the-page"
SERVE = """
import sys, reactdb
from reactdb.servers.inspector.server import InspectorServer
from reactdb.servers.server import in_thread
path, port, token = sys.argv[1:]
with reactdb.connect(path) as db, in_thread(InspectorServer(db, token=token, port=int(port))):
    print("ready", flush=True)
    sys.stdin.read()
"""


def serve(path: Path, port: int, token: str = TOKEN) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(path), str(port), token],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


@pytest.fixture
def port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        found: int = listener.getsockname()[1]
    return found


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_the_page_comes_back_after_its_server_was_killed_and_shows_what_a_query_shows(
    tmp_path: Path, port: int
) -> None:
    path = tmp_path / "games.db"
    with reactdb.connect(path) as db:
        games = db.table_create("games")
        games.insert([{"id": f"g{i:03}", "score": i} for i in range(100)])
        process = serve(path, port)
        try:
            with (
                open_chromium() as browser,
                watched_page(browser, f"http://127.0.0.1:{port}/?token={TOKEN}") as page,
            ):
                page.wait_for_row(3)
                page.wait_for_text("#connection", "Live")
                page.tab.click(".grid-body .t-key:text-is('g001')")
                page.wait_for_text("#panel .fields", "g001")
                kill(process)
                page.wait_for_text("#connection", "Reconnecting")
                page.wait_for_text("#problem", "comes back by itself")
                games.get("g000").delete()
                games.get("g001").update({"score": 777})
                games.insert({"id": "after", "score": 1})
                process = serve(path, port)
                page.wait_for_text("#connection", "Live")
                page.wait_for_text("#panel .fields", "777")
                expected = [
                    (row["id"], str(row["score"])) for row in games.order_by(index="id").limit(10).run()
                ]
                page.wait(
                    "(count) => document.querySelector('.summary').textContent === `${count} documents`",
                    games.count().run(),
                )
                page.press("Escape")
                page.wait_for_row(1)
                assert [(key, cells[2]) for _, key, cells in page.visible_rows()][:10] == expected
                assert not page.tab.is_visible("#problem")
                games.get("after").update({"score": 55})
                page.wait_for_text(".grid-body", "55")
                kill(process)
                process = serve(path, port, "another-token-than-the-page-has")
                page.wait_for_text("#connection", "No access")
                page.wait_for_text("#problem", "reactdb open")
        finally:
            kill(process)
