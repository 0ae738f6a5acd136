"""`reactdb top`: the size of a database file and the rate of its changes, refreshed each second.

Documents are counted in SQLite's indexes; only the changes of the last second are read. The file is opened for reading only, so
it never blocks a writer, and no writer blocks it.

Rule of this file: `Observer` knows no screen, and drawing knows no database.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any, Final

import click

from reactdb.cli.files import file_argument, json_option, open_database
from reactdb.cli.terminal import NO_RICH, columns, format_age, is_terminal, safe, size, write_line
from reactdb.database import Database
from reactdb.errors import HistoryLost

REFRESH_S: Final = 1.0

Draw = Callable[[list[str]], None]
pause = time.sleep


@dataclass(frozen=True, slots=True)
class TableLine:
    """One table. `changes_per_s` is since the previous look; None at the first look, or if compaction has removed the changes."""

    name: str
    documents: int
    changes_per_s: float | None


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a file at one look. Ages are in seconds by this machine's clock; None if the log has no changes any more.

    Attributes:
        seq: The newest change. oldest: The log begins after this seq.
        changes_per_s: The rate of all tables, also of tables dropped meanwhile; None at the first look.
        tables: The busiest first, then by name.
    """

    path: str
    seq: int
    oldest: int
    changes_per_s: float | None
    newest_age_s: float | None
    file_bytes: int
    wal_bytes: int
    tables: tuple[TableLine, ...]


class Observer:
    """Reads the figures of a database, and remembers them until the next time.

    Args:
        monotonic, wall: Clocks in seconds, for rates and for ages.
    """

    def __init__(
        self,
        database: Database,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._monotonic = monotonic
        self._wall = wall
        self._before: tuple[float, int] | None = None

    def look(self) -> Figures:
        """The present figures."""
        stats = self._database.stats()
        now, seq = self._monotonic(), stats["seq"]
        rate, rates = self._rates(now, seq)
        self._before = (now, seq)
        tables = [
            TableLine(name, documents, None if rates is None else rates.get(name, 0.0))
            for name, documents in stats["tables"].items()
        ]
        tables.sort(key=lambda table: (-(table.changes_per_s or 0.0), table.name))
        return Figures(
            path=stats["path"],
            seq=seq,
            oldest=stats["oldest"],
            changes_per_s=rate,
            newest_age_s=self._age(seq),
            file_bytes=stats["file_bytes"],
            wal_bytes=stats["wal_bytes"],
            tables=tuple(tables),
        )

    def _rates(self, now: float, seq: int) -> tuple[float | None, dict[str, float] | None]:
        """Changes per second since the look before: of all tables, and by table."""
        if self._before is None or now <= self._before[0]:
            return None, None
        then, since = self._before
        elapsed_s = now - then
        rate = (seq - since) / elapsed_s
        try:
            counts = Counter(change.table for change in self._database.log(since, seq))
        except HistoryLost:
            return rate, None
        return rate, {name: count / elapsed_s for name, count in counts.items()}

    def _age(self, seq: int) -> float | None:
        if not seq:
            return None
        try:
            newest = next(self._database.log(seq - 1, seq), None)
        except HistoryLost:
            return None
        return None if newest is None else max(0.0, self._wall() - newest.time / 1000)


@click.command()
@file_argument
@click.option("--count", type=click.IntRange(min=1), help="End after so many refreshes.  [default: Ctrl-C]")
@json_option("One JSON object a refresh.")
def top(file: str, count: int | None, as_json: bool) -> None:
    """Show a file at work, refreshed each second.

    Tables with their documents and changes per second, the newest change, the size of the file and of its write-ahead log.
    """
    with open_database(file) as database:
        try:
            if as_json:
                for figures in refreshes(Observer(database), count):
                    write_line(asdict(figures))
                return
            with open_screen() as draw:
                for figures in refreshes(Observer(database), count):
                    draw(figure_lines(figures))
        except KeyboardInterrupt:
            # Without --count, Ctrl-C is the only way to end it, and so no error.
            return


def refreshes(observer: Observer, count: int | None) -> Iterator[Figures]:
    """Figures once a second, `count` times or without end. If reading them takes longer, the next reading follows at once."""
    due = time.monotonic()
    done = 0
    while True:
        yield observer.look()
        done += 1
        if done == count:
            return
        due = max(due + REFRESH_S, time.monotonic())
        pause(due - time.monotonic() if due > time.monotonic() else 0.0)


# ---------------------------------------------------------------------------------------------------------------
# Drawing


def figure_lines(figures: Figures) -> list[str]:
    """The picture as lines of text; the fourth line is the header of the tables."""
    age = "" if figures.newest_age_s is None else f", the newest {format_age(figures.newest_age_s)} ago"
    body = [
        [table.name, f"{table.documents:,}", format_rate(table.changes_per_s)] for table in figures.tables
    ]
    return [
        click.style(safe(figures.path), bold=True),
        f"seq {figures.seq:,}; {format_rate(figures.changes_per_s)} changes a second{age}",
        f"file {size(figures.file_bytes)}, WAL {size(figures.wal_bytes)}; the log can be read past seq {figures.oldest:,}",
        "",
        *(columns(["table", "documents", "changes/s"], body, [False, True, True]) if body else ["no tables"]),
    ]


def format_rate(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:,.1f}"


def open_screen() -> AbstractContextManager[Draw]:
    """The function that draws a picture: over the previous picture if there is a terminal and rich; otherwise below it."""
    if is_terminal(sys.stdout):
        try:
            return TextScreen()
        except ImportError:
            click.echo(NO_RICH, err=True)
    return nullcontext(print_lines)


def print_lines(lines: list[str]) -> None:
    click.echo("\n".join(lines) + "\n")


class TextScreen(AbstractContextManager[Draw]):
    """Draws each picture over the previous picture, cut to the size of the terminal; the last picture stays."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(), auto_refresh=False)

    def __enter__(self) -> Draw:
        self._live.__enter__()
        return self._draw

    def __exit__(self, *error: Any) -> None:
        self._live.__exit__(*error)

    def _draw(self, lines: list[str]) -> None:
        from rich.text import Text

        text = Text("\n", no_wrap=True, overflow="ellipsis").join(map(Text.from_ansi, lines))
        self._live.update(text, refresh=True)
