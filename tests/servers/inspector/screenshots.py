"""Pictures of the inspector for the README and the documentation: `python -m tests.servers.inspector.screenshots [FOLDER]`.

It writes inspector.png and inspector-dark.png, a board of departures while it changes, and inspector-past.png, the board at an
earlier moment, into `docs/pictures` or the folder given.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import reactdb
from reactdb import row
from reactdb.servers.inspector.server import InspectorServer
from reactdb.servers.server import in_thread
from tests.servers.inspector.departures import ORIGINS, make_tables, morning_steps, play
from tests.servers.inspector.watched_page import WatchedPage, watched_page
from tests.support.chromium import open_chromium

FOLDER = Path(__file__).parents[3] / "docs" / "pictures"
MOST_BYTES = 300_000
SIZE = {"width": 1280, "height": 720}
TOKEN = "a-token-of-the-pictures"
QUERY = "#table=flights&order=time&where=from+%3D+JFK+and+time+%3E%3D+"


def make_pictures(folder: Path) -> list[Path]:
    """All pictures, anew."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, reactdb.connect(Path(temporary) / "departures.db") as db:
        make_tables(db)
        before, after = morning_steps()
        for _ in play(db, before):
            pass
        flights = db.table("flights")
        boards = [
            flights.order_by(index="scheduled")
            .filter((row["from"] == origin) & (row["state"] == "scheduled"))
            .limit(12)
            for origin in ORIGINS
        ]
        lists = [board.live() for board in boards]
        db.consumer("mail-late-flights", flights.filter(row["delay"] > 60))
        late = flights.filter(row["delay"] > 60).changes()
        server = InspectorServer(db, token=TOKEN)
        steps = play(db, after)
        with late.subscribe(lambda event: None), in_thread(server), open_chromium() as browser:
            url = f"{server.url}?token={TOKEN}"
            pictures = []
            for name, scheme, time in (("inspector", "light", "10:15"), ("inspector-dark", "dark", "11:15")):
                with watched_page(browser, url + QUERY + time, viewport=SIZE, color_scheme=scheme) as page:
                    show_changes(page, steps)
                    pictures.append(take(page, folder / f"{name}.png"))
            with watched_page(browser, url + QUERY + "11:30", viewport=SIZE, color_scheme="light") as page:
                show_changes(page, steps)
                page.tab.evaluate(
                    "(seq) => { const slider = document.getElementById('slider'); slider.value = String(seq);"
                    " slider.dispatchEvent(new Event('input', {bubbles: true})); }",
                    db.seq - 240,
                )
                page.wait_for_text("#past", "changes before now")
                page.tab.wait_for_timeout(2000)
                pictures.append(take(page, folder / "inspector-past.png"))
        for each in lists:
            each.close()
    return pictures


def show_changes(page: WatchedPage, steps: Any) -> None:
    """A document with a history is open, and the last changes are still marked."""
    page.wait_for_row(8)
    page.wait_for_text("#connection", "Live")
    go_on(page, steps, 100)
    page.tab.click(".grid-body .grid-row[aria-rowindex='6'] .t-key")
    page.wait_for_text("#panel .steps", "tower-kennedy")
    for _ in range(60):
        if len(page.tab.query_selector_all(".cell.changed")) >= 3:
            break
        go_on(page, steps, 1)


def go_on(page: WatchedPage, steps: Any, number: int) -> None:
    for _ in range(number):
        next(steps, None)
        page.tab.wait_for_timeout(110)


def take(page: WatchedPage, path: Path) -> Path:
    page.tab.mouse.move(640, 4)
    page.tab.screenshot(path=path)
    size = path.stat().st_size
    if size > MOST_BYTES or page.errors:
        raise SystemExit(f"{path.name} has {size} bytes; errors: {page.errors}")
    return path


if __name__ == "__main__":
    for made in make_pictures(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER):
        print(made)
