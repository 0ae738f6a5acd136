"""What the demo shows: a departures board that redraws itself in place, and the figures at the end.

A picture is a list of lines, a line a list of (text, style) pairs. It is composed once, here, and painted
either by rich, if that is installed, or with plain terminal codes.

Rule of this file: looks at a scene and changes nothing.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from itertools import zip_longest
from types import TracebackType
from typing import ClassVar, Literal, Protocol, TextIO

from reactdb.demo.board import Document
from reactdb.demo.flights import STATES
from reactdb.demo.replay import LAST_LIMIT, NEXT_LIMIT, TABLE, Result, Scene

Style = Literal["", "dim", "bold", "green", "yellow", "red", "cyan"]
Segment = tuple[str, Style]
Line = list[Segment]

_STATE_STYLES: dict[str, Style] = {"scheduled": "", "departed": "green", "arrived": "dim", "cancelled": "red"}
_AIRPORT_NAMES = {"EWR": "EWR Newark", "JFK": "JFK Kennedy", "LGA": "LGA LaGuardia"}
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip

# Three of these and two spaces between them fill a terminal of 80 columns to the last one.
_COLUMN = 26

# Airlines call a flight late from 15 minutes on; so does the source of the data.
_LATE_MIN = 15

# About as often as an eye can tell apart; drawing more costs the replay its pace.
_REDRAW_EVERY_S = 1 / 15


# ------------------------------------------------------------------------------------------------------------
# Composing


def compose(scene: Scene, width: int = 80) -> list[Line]:
    """The whole picture; always of the same height, so that it can be painted over itself."""
    shown = max(1, min(len(scene.next_boards), (width + 1) // (_COLUMN + 1)))
    columns = [
        airport_lines(next_.origin, next_.documents(), last.documents(), scene.now)
        for next_, last in zip(scene.next_boards[:shown], scene.last_boards[:shown], strict=True)
    ]
    result = scene.result
    written = f"{result.changes:,} changes in {result.commits:,} commits; {result.feeds} feeds"
    lines: list[Line] = [
        [(f"{_date(scene.now)}, {scene.now:%H:%M} in New York", "bold")],
        [(f"{scene.states[state]} {state}   ", _STATE_STYLES[state]) for state in STATES],
        [(f"{written} heard the last one in {_duration(scene.lag_us)}", "dim")],
        [],
    ]
    for parts in zip(*columns, strict=True):
        line: Line = []
        for part in parts:
            if line:
                line.append((" ", ""))
            line += padded(part, _COLUMN)
        lines.append(line)
    return lines


def airport_lines(
    origin: str, waiting: Sequence[Document], closed: Sequence[Document], now: datetime
) -> list[Line]:
    """One airport's column, without its padding."""
    lines: list[Line] = [[(_AIRPORT_NAMES.get(origin, origin), "cyan")]]
    lines += [flight_line(flight, now) if flight else [] for flight in _filled(waiting, NEXT_LIMIT)]
    lines.append([("just now", "dim")])
    lines += [flight_line(flight, now) if flight else [] for flight in _filled(closed, LAST_LIMIT)]
    return lines


def _filled(flights: Sequence[Document], count: int) -> list[Document | None]:
    return [flight for flight, _ in zip_longest(flights, range(count))]


def flight_line(flight: Document, now: datetime) -> Line:
    """As `05:15 UA1545 IAH on time`."""
    text, style = status(flight, now)
    return [
        (f"{flight['scheduled']:%H:%M} {flight['carrier']}{flight['flight']:<4} {flight['dest']} ", ""),
        (text, style),
    ]


def status(flight: Document, now: datetime) -> Segment:
    """What the board says of a flight, in nine letters at most."""
    if flight["state"] == "cancelled":
        return "cancelled", "red"
    if flight["state"] == "scheduled":
        # Nobody knows of a delay until the plane leaves; what the board does know is that it has not.
        late_min = int((now - flight["scheduled"]).total_seconds() // 60)
        return (f"late {late_min}", "yellow") if late_min > 0 else ("on time", "")
    delay_min = flight["delay_min"]
    return f"left {delay_min:+d}" if delay_min else "left", "yellow" if delay_min >= _LATE_MIN else "green"


def padded(line: Line, width: int) -> Line:
    """Cut or filled to exactly that many characters."""
    result: Line = []
    left = width
    for text, style in line:
        result.append((text[:left], style))
        left -= len(text[:left])
    return [*result, (" " * left, "")]


def _date(moment: datetime) -> str:
    """In English whatever the locale, like the rest of the board."""
    return f"{_DAYS[moment.weekday()]} {moment.day} {_MONTHS[moment.month - 1]} {moment.year}"


def _duration(microseconds: float) -> str:
    return f"{microseconds / 1_000:,.2f} ms" if microseconds >= 1_000 else f"{microseconds:.0f} µs"


# ------------------------------------------------------------------------------------------------------------
# Painting


class Screen(AbstractContextManager["Screen"], Protocol):
    """Draws scenes, at most so many a second, each over the one before; the last one stays."""

    def __call__(self, scene: Scene) -> None: ...


class _Throttled:
    """Decides when to draw; how is the subclass's business.

    A scene is kept and not a picture of it: its boards are live, so on leaving it shows how everything ended.
    """

    def __init__(self) -> None:
        self._drawn_at = float("-inf")
        self._last: Scene | None = None

    def __call__(self, scene: Scene) -> None:
        self._last = scene
        if time.monotonic() - self._drawn_at >= _REDRAW_EVERY_S:
            self._draw(scene)
            self._drawn_at = time.monotonic()

    def _draw_last(self) -> None:
        if self._last is not None:
            self._draw(self._last)

    def _draw(self, scene: Scene) -> None:
        raise NotImplementedError


class PlainScreen(_Throttled):
    """For a terminal without rich: moves the cursor up and writes over the lines."""

    _CODES: ClassVar[dict[Style, str]] = {
        "dim": "2",
        "bold": "1",
        "green": "32",
        "yellow": "33",
        "red": "31",
        "cyan": "36",
    }

    def __init__(self, stream: TextIO, *, color: bool = True) -> None:
        super().__init__()
        self._stream = stream
        self._color = color
        self._height = 0

    def __enter__(self) -> PlainScreen:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._draw_last()

    def _draw(self, scene: Scene) -> None:
        width = shutil.get_terminal_size().columns
        lines = compose(scene, width)
        up = f"\x1b[{self._height}F" if self._height else ""
        # A line that is longer than the terminal would wrap, and the cursor would go up too little.
        text = "".join(self._paint(_cut(line, width)) + "\x1b[K\n" for line in lines)
        self._stream.write(up + text)
        self._stream.flush()
        self._height = len(lines)

    def _paint(self, line: Line) -> str:
        return "".join(
            f"\x1b[{self._CODES[style]}m{text}\x1b[0m" if style and self._color else text
            for text, style in line
        )


class RichScreen(_Throttled):
    """For a terminal with rich, which knows more of terminals than we do."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__()
        self._console = Console()
        self._live = Live(console=self._console, auto_refresh=False)

    def __enter__(self) -> RichScreen:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._draw_last()
        self._live.__exit__(kind, error, trace)

    def _draw(self, scene: Scene) -> None:
        from rich.text import Text

        lines = [Text.assemble(*line) for line in compose(scene, self._console.width)]
        self._live.update(Text("\n").join(lines), refresh=True)


def _cut(line: Line, width: int) -> Line:
    text_length = sum(len(text) for text, _ in line)
    return padded(line, width) if text_length > width else line


def open_screen(stream: TextIO | None = None, *, color: bool = True) -> Screen:
    """With rich if it is installed, with plain terminal codes if not."""
    try:
        return RichScreen()
    except ImportError:
        return PlainScreen(stream or sys.stdout, color=color)


# ------------------------------------------------------------------------------------------------------------
# The end


def summary(result: Result) -> str:
    """The figures, one idea a line."""
    states = ", ".join(f"{result.states.get(state, 0):,} {state}" for state in STATES)
    lines = [
        f"flights    {result.flights:,}: {states}",
        f"written    {result.changes:,} changes in {result.commits:,} commits, "
        f"{result.busy_s:.2f} s at the database ({result.changes_per_s:,.0f} changes a second)",
        f"heard      {result.events:,} events by {result.feeds} live feeds; from commit to subscriber "
        f"{_duration(result.lag_p50_us)} (median), {_duration(result.lag_p99_us)} (99 %)",
        f"file       {result.file_bytes / 1e6:.2f} MB, position {result.seq:,}",
        f"took       {result.duration_s:.1f} s",
    ]
    if result.was_stopped:
        until = f" at {result.until:%H:%M} on {_date(result.until)}" if result.until else ""
        lines.append(
            f"stopped    by you{until}, {result.changes_planned - result.changes:,} changes before the end"
        )
    if result.is_right:
        lines.append(f"checked    {result.checks} times: boards and counters equal a fresh read of the table")
    else:
        shown = result.mistakes[:3] or ["nothing was compared"]
        more = f" (and {len(result.mistakes) - 3} more)" if len(result.mistakes) > 3 else ""
        lines += [f"WRONG      {mistake}" for mistake in shown[:-1]] + [f"WRONG      {shown[-1]}{more}"]
    return "\n".join(lines)


def next_steps(file: str | None) -> str:
    """What to try next; `file` is None if the database was a temporary one."""
    if file is None:
        return (
            "Next: keep the file, and watch it from a second terminal while the replay runs:\n"
            "  reactdb demo --db flights.db\n"
            f"  reactdb tail flights.db {TABLE}"
        )
    file = _quoted(file)
    commands = (f"reactdb rows {file} {TABLE}", f"reactdb tail {file} {TABLE}", f"reactdb inspect {file}")
    return "Next:\n" + "\n".join(f"  {command}" for command in commands)


def _quoted(file: str) -> str:
    return f'"{file}"' if " " in file else file
