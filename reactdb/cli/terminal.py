"""Output for people: one-line errors, safe text, sizes, columns and progress.

Text from documents is escaped before it is printed: an escape sequence in it could repaint the screen.

rich (extra `cli`) measures the width of text and draws bars. Without rich no bar is drawn.

Rule of this file: it knows text, widths and streams, and nothing of databases.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Final

import click

from reactdb.errors import how_to_install

try:
    from rich.cells import cell_len as width
    from rich.cells import set_cell_size as set_width
except ImportError:
    # Without the extra `cli`, each character counts as one column, which is wrong for East Asian characters.
    width = len  # type: ignore[assignment]

    def set_width(text: str, total: int) -> str:  # type: ignore[misc]
        return text[:total].ljust(total)


# A message with a document of megabytes must stay one line.
LONGEST_MESSAGE: Final = 600
# So many lines are written at once, after the first line: each write costs a call of the system.
LINES_TOGETHER: Final = 500
# People do not notice faster updates.
REDRAW_EVERY_S: Final = 0.1
NO_RICH: Final = f"without rich nothing is drawn in place: {how_to_install('cli')}"


def one_line(message: str) -> str:
    """The message without line breaks and control characters, shortened if it is long."""
    return cut(safe(" ".join(message.split())), LONGEST_MESSAGE)


def safe(text: str) -> str:
    """The text with escaped control characters: a terminal would act on them instead of showing them."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def text_width(text: str) -> int:
    """The number of a terminal's columns that a text takes."""
    return width(text)


def cut(text: str, longest: int) -> str:
    """The text in at most `longest` columns of a terminal, with `…` in place of the cut part."""
    return text if width(text) <= longest else set_width(text, longest - 1).rstrip() + "…"


def size(count: int) -> str:
    """A number of bytes as `12.3 MB`."""
    if count < 1000:
        return f"{count} B"
    units = ["kB", "MB", "GB", "TB"]
    amount = count / 1000
    while amount >= 999.95 and len(units) > 1:
        amount /= 1000
        del units[0]
    return f"{amount:.1f} {units[0]}"


def format_age(age_s: float) -> str:
    """As `0.4 s`, `12 min`, `3 h`, `20 days`."""
    for seconds, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if age_s >= 2 * seconds:
            return f"{age_s / seconds:,.0f} {unit}"
    return f"{age_s:.1f} s"


def plural(count: int, word: str) -> str:
    """As `1 change`, `2,000 changes`."""
    ending = "" if count == 1 else "es" if word.endswith(("x", "s")) else "s"
    return f"{count:,} {word.removesuffix('y') + 'ies' if ending == 's' and word.endswith('y') else word + ending}"


def screen_width() -> int:
    return shutil.get_terminal_size((100, 24)).columns


def columns(header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[bool] = ()) -> list[str]:
    """Lines of a table with two spaces between the columns; columns of `numbers` are right-aligned."""
    right = [*numbers, *[False] * (len(header) - len(numbers))]
    # (rich's own Table takes a fifth of a millisecond for each line, and a table of documents can have many.)
    widths = [max(width(row[place]) for row in (header, *rows)) for place in range(len(header))]

    def fill_cell(cell: str, place: int) -> str:
        return " " * (widths[place] - width(cell)) + cell if right[place] else set_width(cell, widths[place])

    return [
        "  ".join([fill_cell(cell, place) for place, cell in enumerate(row)]).rstrip()
        for row in (header, *rows)
    ]


class Progress:
    """A progress bar on standard error: only on a terminal, drawn by rich, and removed at the end.

    `total` is the last `position`, in any unit; None if it is unknown.
    """

    def __init__(self, word: str, total: int | None = None) -> None:
        self._word = word
        self._total = total
        self._bar: Any = None
        self._next = time.monotonic() + REDRAW_EVERY_S

    def __enter__(self) -> Progress:
        if is_terminal(sys.stderr):
            try:
                from rich.console import Console
                from rich.progress import BarColumn, TaskProgressColumn, TextColumn
                from rich.progress import Progress as Bar
            except ImportError:
                return self
            words = TextColumn("{task.description}", markup=False)
            console = Console(stderr=True)
            self._bar = Bar(BarColumn(30), TaskProgressColumn(), words, console=console, transient=True)
            self._task = self._bar.add_task("", total=self._total)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def update(self, count: int, position: int | None = None, note: str = "") -> None:
        """Show that `count` things are done, at `position` of `total` (default: the count itself), and a remark."""
        if self._bar is None or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + REDRAW_EVERY_S
        done = count if position is None else position
        words = f"{count:,} {self._word}" + (f", {note}" if note else "")
        self._bar.update(self._task, completed=done, total=self._total, description=words)

    def show(self, text: str) -> None:
        """Show this text instead, at once."""
        if self._bar is not None:
            self._bar.update(self._task, description=text, refresh=True)

    def set_total(self, total: int) -> None:
        """Set the last `position`, if it becomes known only later."""
        self._total = total


def is_terminal(stream: object) -> bool:
    """Whether the stream is a terminal with lines that can be redrawn."""
    asks = getattr(stream, "isatty", None)
    return bool(asks is not None and asks()) and os.environ.get("TERM") != "dumb"


def write_line(value: Any, *, err: bool = False) -> None:
    """Print plain JSON values as one line, in UTF-8 for any encoding of the terminal, and flush it."""
    from reactdb.json import encode

    text = encode(value)
    click.echo(
        (safe_json(text) if is_terminal(sys.stderr if err else sys.stdout) else text).encode(), err=err
    )


def echo_lines(lines: Iterable[str], escape: Callable[[str], str] | None = None) -> None:
    """Print lines, which may come lazily: the first at once, later ones several at a time. A pipe gets UTF-8.

    Args:
        escape: For lines of documents: makes them safe for a terminal; a pipe gets them unchanged. None: the lines are safe
            already, and may have colours, which a pipe does not get.
    """
    if is_terminal(sys.stdout):
        for line in lines:
            click.echo(line if escape is None else escape(line))
        return
    pending: list[str] = []
    room = 1
    for line in lines:
        pending.append(click.unstyle(line) if escape is None else line)
        if len(pending) >= room:
            click.echo("\n".join(pending).encode())
            pending.clear()
            room = min(room * 2, LINES_TOGETHER)
    if pending:
        click.echo("\n".join(pending).encode())


def safe_json(text: str) -> str:
    """The same JSON with escapes for all characters that a terminal does not show. JSON itself leaves some control
    characters as they are."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else json.dumps(character)[1:-1] for character in text
    )


def safe_table(text: str) -> str:
    """A line of CSV or TSV with escaped control characters, but for the tabs and line ends of the form."""
    return "\n".join("\t".join(map(safe, line.split("\t"))) for line in text.split("\n"))


def note(sentence: str) -> None:
    """A remark on standard error, beside a result."""
    click.echo(f"reactdb: {one_line(sentence)}", err=True)
