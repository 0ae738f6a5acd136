"""The departures board on a terminal: drawn by rich, each picture over the previous picture.

Rule of this file: it reads a scene and changes nothing. It needs rich, so it is imported only if rich is installed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from itertools import zip_longest
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from reactdb.demo.board import Document
from reactdb.demo.flights import STATES
from reactdb.demo.render import format_date, format_duration
from reactdb.demo.replay import LAST_LIMIT, NEXT_LIMIT, Scene

_STATE_STYLES = {"scheduled": "", "departed": "green", "arrived": "dim", "cancelled": "red"}
_AIRPORT_NAMES = {"EWR": "EWR Newark", "JFK": "JFK Kennedy", "LGA": "LGA LaGuardia"}

# Three columns of this width with a space between them exactly fill a terminal of 80 columns.
_COLUMN = 26

# Airlines and the source of the data call a flight late from 15 minutes on.
_LATE_MIN = 15

# People do not notice faster updates, and they would slow the replay down.
_REDRAW_EVERY_S = 1 / 15


class Screen(AbstractContextManager["Screen"]):
    """Draws scenes at a limited rate, each over the previous scene; the last stays.

    It keeps the scene and not a picture: the boards are live, so the last drawing shows how everything ended.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._live = Live(console=self._console, auto_refresh=False)
        self._drawn_at = float("-inf")
        self._last: Scene | None = None

    def __enter__(self) -> Screen:
        self._live.__enter__()
        return self

    def __call__(self, scene: Scene) -> None:
        self._last = scene
        if time.monotonic() - self._drawn_at >= _REDRAW_EVERY_S:
            self._draw(scene)
            self._drawn_at = time.monotonic()

    def __exit__(self, *error: Any) -> None:
        if self._last is not None:
            self._draw(self._last)
        self._live.__exit__(*error)

    def _draw(self, scene: Scene) -> None:
        self._live.update(picture(scene, self._console.width), refresh=True)


def picture(scene: Scene, width: int = 80) -> Group:
    """The whole picture, with as many airports as fit. Its height is always the same, so that the next picture covers it."""
    result = scene.result
    written = f"{result.changes:,} changes in {result.commits:,} commits; {result.feeds} feeds"
    shown = max(1, min(len(scene.next_boards), (width + 1) // (_COLUMN + 1)))
    airports = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
    for _ in range(shown):
        airports.add_column(width=_COLUMN, no_wrap=True, overflow="crop")
    columns = [
        airport_lines(next_.origin, next_.documents(), last.documents(), scene.now)
        for next_, last in zip(scene.next_boards[:shown], scene.last_boards[:shown], strict=True)
    ]
    for row in zip(*columns, strict=True):
        airports.add_row(*row)
    return Group(
        Text(f"{format_date(scene.now)}, {scene.now:%H:%M} in New York", "bold", no_wrap=True),
        Text("   ", no_wrap=True).join(
            Text(f"{scene.states[state]} {state}", _STATE_STYLES[state]) for state in STATES
        ),
        Text(f"{written} received the last event in {format_duration(scene.lag_us)}", "dim", no_wrap=True),
        Text(),
        airports,
    )


def airport_lines(
    origin: str, waiting: Sequence[Document], closed: Sequence[Document], now: datetime
) -> list[Text]:
    """One airport's column."""
    return [
        Text(_AIRPORT_NAMES.get(origin, origin), "cyan"),
        *(flight_line(flight, now) for flight, _ in zip_longest(waiting, range(NEXT_LIMIT))),
        Text("just now", "dim"),
        *(flight_line(flight, now) for flight, _ in zip_longest(closed, range(LAST_LIMIT))),
    ]


def flight_line(flight: Document | None, now: datetime) -> Text:
    """As `05:15 UA1545 IAH on time`; an empty line where there is no flight."""
    if flight is None:
        return Text()
    start = f"{flight['scheduled']:%H:%M} {flight['carrier']}{flight['flight']:<4} {flight['dest']} "
    return Text.assemble(start, status(flight, now))


def status(flight: Document, now: datetime) -> tuple[str, str]:
    """The status of a flight on the board, in nine letters at most, and its style."""
    if flight["state"] == "cancelled":
        return "cancelled", "red"
    if flight["state"] == "scheduled":
        # The delay is known only when the plane leaves; until then the board only knows that it has not left.
        late_min = int((now - flight["scheduled"]).total_seconds() // 60)
        return (f"late {late_min}", "yellow") if late_min > 0 else ("on time", "")
    delay_min = flight["delay_min"]
    return f"left {delay_min:+d}" if delay_min else "left", "yellow" if delay_min >= _LATE_MIN else "green"
