"""The departures board on a terminal: drawn by rich, each picture over the previous picture.

    title, and how to stop
    what one sees
    flights by state, and how far the day is
    the boards of as many airports as fit, each with its next and its last departures; beside them the events of their feeds
    figures

Rule of this file: it reads a scene and changes nothing. It needs rich, so it is imported only if rich is installed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from itertools import islice, zip_longest
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from reactdb.demo.board import Document
from reactdb.demo.flights import STATES
from reactdb.demo.render import format_date, format_duration
from reactdb.demo.replay import LAST_LIMIT, NEXT_LIMIT, BoardEvent, Scene

_STATE_STYLES = {"scheduled": "", "departed": "green", "arrived": "dim", "cancelled": "red"}
_AIRPORT_NAMES = {"EWR": "EWR Newark", "JFK": "JFK Kennedy", "LGA": "LGA LaGuardia"}
_EVENT_STYLES = {"add": "green", "remove": "red", "move": "magenta", "change": "yellow"}
_TITLE_STYLE = "bold white on dark_blue"

# Two columns of this width and the events beside them, with two spaces between, exactly fill a terminal of 80 columns.
_COLUMN = 25
# In a column of this width a status has whole words.
_WIDE_COLUMN = 34
_GAP = 2
_NARROWEST_EVENTS = 26
_WIDEST_EVENTS = 60
# The lines around the boards.
_OTHER_LINES = 10

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
        self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="crop")
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

    def limits(self) -> tuple[int, int]:
        """How many next and last departures the window has room for."""
        return limits(self._console.height - 1)

    def _draw(self, scene: Scene) -> None:
        # The last line is for the cursor.
        self._live.update(picture(scene, self._console.width, self._console.height - 1), refresh=True)


def limits(height: int) -> tuple[int, int]:
    """How many next and last departures a picture of this height shows, at least those of a small window."""
    rows = max(NEXT_LIMIT + LAST_LIMIT, height - _OTHER_LINES)
    last = rows * LAST_LIMIT // (NEXT_LIMIT + LAST_LIMIT)
    return rows - last, last


def picture(scene: Scene, width: int = 80, height: int = 23) -> Group:
    """The whole picture, with as many airports as fit. Its height is always the same, so that the next picture covers it."""
    next_limit, last_limit = limits(height)
    # The events have their place before a second airport has.
    room = width - _NARROWEST_EVENTS
    shown = max(1, min(len(scene.next_boards), room // (_COLUMN + _GAP)))
    has_events = width >= _COLUMN + _GAP + _NARROWEST_EVENTS
    column = min(40, (room if has_events else width) // shown - _GAP)
    column = max(_COLUMN, column) if has_events else min(_COLUMN, width)
    events = min(_WIDEST_EVENTS, width - shown * (column + _GAP))
    grid = Table.grid(padding=(0, _GAP, 0, 0), pad_edge=False)
    for _ in range(shown):
        grid.add_column(width=column, no_wrap=True, overflow="crop")
    columns = [
        airport_lines(
            next_.origin,
            next_.documents()[:next_limit],
            last.documents()[:last_limit],
            scene.now,
            (next_limit, last_limit),
            column,
        )
        for next_, last in zip(scene.next_boards[:shown], scene.last_boards[:shown], strict=True)
    ]
    if has_events:
        grid.add_column(width=events, no_wrap=True, overflow="crop")
        columns.append(event_lines(scene.events, next_limit + last_limit + 2, events))
    for row in zip(*columns, strict=True):
        grid.add_row(*row)
    result = scene.result
    figures = (
        f"{result.changes:,} changes in {result.commits:,} commits; "
        f"{result.feeds} feeds had the last event after {format_duration(scene.lag_us)}"
    )
    return Group(
        title_line(scene.now, width),
        Text("Each departure, arrival and cancellation is a write to one database file.", no_wrap=True),
        Text("Each list is a live query: a commit changes it at once, and nothing polls.", no_wrap=True),
        Text(),
        state_line(scene, width),
        Text(),
        grid,
        Text(),
        Text(figures, "dim", no_wrap=True),
    )


def title_line(now: datetime, width: int) -> Text:
    """The title at the left, the simulated time, and at the right how to stop; over the whole width."""
    title, moment, end = " reactdb demo", f"{format_date(now)}, {now:%H:%M} in New York", "Ctrl-C stops "
    if len(title) + len(moment) + len(end) + 4 > width:
        title, moment = " demo", f"{now:%H:%M}"
    room = max(2, width - len(title) - len(moment) - len(end))
    line = title + " " * (room // 2) + moment + " " * (room - room // 2) + end
    return Text(line[:width], _TITLE_STYLE, no_wrap=True)


def state_line(scene: Scene, width: int) -> Text:
    """The flights by state, and a bar for the changes of the day."""
    line = Text("   ", no_wrap=True).join(
        Text(f"{scene.states[state]} {state}", _STATE_STYLES[state]) for state in STATES
    )
    room = width - line.cell_len - 3
    if room >= 10:
        done = round(room * min(1.0, scene.result.changes / max(1, scene.result.changes_planned)))
        line.append("   ").append("━" * done, "cyan").append("━" * (room - done), "bright_black")
    return line


def airport_lines(
    origin: str,
    waiting: Sequence[Document],
    closed: Sequence[Document],
    now: datetime,
    most: tuple[int, int] = (NEXT_LIMIT, LAST_LIMIT),
    width: int = _COLUMN,
) -> list[Text]:
    """One airport's column."""
    next_limit, last_limit = most
    return [
        Text.assemble((_AIRPORT_NAMES.get(origin, origin), "bold cyan"), ("  next", "dim")),
        *(flight_line(flight, now, width) for flight, _ in zip_longest(waiting, range(next_limit))),
        Text("just now", "dim"),
        *(flight_line(flight, now, width) for flight, _ in zip_longest(closed, range(last_limit))),
    ]


def event_lines(events: Sequence[BoardEvent], count: int, width: int) -> list[Text]:
    """The column of events, the newest first."""
    newest = (line for one in reversed(events) for line in reversed(steps_of(one, width)))
    lines = list(islice(newest, count - 1))
    return [
        Text("events of these lists", "bold cyan"),
        *(line if line is not None else Text() for line, _ in zip_longest(lines, range(count - 1))),
    ]


def steps_of(one: BoardEvent, width: int) -> list[Text]:
    """The event as a line; as two lines where a flight leaves the list and another one takes the free place."""
    event: dict[str, Any] = one.event
    old: Any
    new: Any
    old, new = event.get("old_offset"), event.get("new_offset")
    left: Any
    entered: Any
    left, entered = event.get("old_val"), event.get("new_val")
    if left is not None and entered is not None and left["id"] != entered["id"]:
        return [event_line(one, "remove", old, left, width), event_line(one, "add", new, entered, width)]
    if old is None or new is None:
        return [
            event_line(
                one, "add" if old is None else "remove", new if old is None else old, entered or left, width
            )
        ]
    return [event_line(one, "change" if old == new else "move", new, entered, width)]


def event_line(one: BoardEvent, kind: str, place: int, flight: Document, width: int) -> Text:
    """As `05:15 EWR remove  0 UA1545`: the event, its place in the list, and the flight."""
    line = Text(no_wrap=True)
    line.append(f"{one.at:%H:%M} ", "dim").append(f"{one.origin} ").append(f"{kind:<6}", _EVENT_STYLES[kind])
    line.append(f" {place:>2} {flight['carrier']}{flight['flight']}")
    if width >= _WIDE_COLUMN:
        line.append(f" to {flight['dest']}", "dim")
    return line


def flight_line(flight: Document | None, now: datetime, width: int = _COLUMN) -> Text:
    """As `05:15 UA1545 IAH on time`; an empty line where there is no flight."""
    if flight is None:
        return Text()
    start = f"{flight['scheduled']:%H:%M} {flight['carrier']}{flight['flight']:<4} {flight['dest']} "
    words, style = status(flight, now)
    if width >= _WIDE_COLUMN and words[-1:].isdigit():
        word, _, minutes = words.partition(" ")
        words = (
            f"left {minutes.lstrip('+-')} min {'early' if '-' in minutes else 'late'}"
            if word == "left"
            else f"{words} min"
        )
    return Text.assemble(start, (words, style))


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
