"""`reactdb top`: the size of a database file, the rate of its changes, and who follows them, refreshed each second.

Documents are counted in SQLite's indexes; only the changes of the last second are read. The file is opened for reading only, so
it never blocks a writer, and no writer blocks it. The processes that have feeds on the file answer for themselves.

Rule of this file: `Observer` knows no screen, and drawing knows no database.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any, Final

import click

from reactdb.cli import consumers
from reactdb.cli.files import file_argument, json_option, open_database
from reactdb.cli.terminal import (
    NO_RICH,
    columns,
    cut,
    format_age,
    is_terminal,
    plural,
    safe,
    size,
    text_width,
    write_line,
)
from reactdb.database import Database
from reactdb.errors import HistoryLost
from reactdb.store.activity import ONLY_THIS

REFRESH_S: Final = 1.0
# How long other processes have for their answer; it is a part of the second.
ANSWERS_S: Final = 0.3
# Fewer columns of a terminal would show nothing of a selection.
NARROWEST_SELECTION: Final = 12

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
        processes, consumers, holds, others: As `Database.activity` has them.
    """

    path: str
    seq: int
    oldest: int
    changes_per_s: float | None
    newest_age_s: float | None
    file_bytes: int
    wal_bytes: int
    tables: tuple[TableLine, ...]
    processes: list[dict[str, Any]]
    consumers: list[dict[str, Any]]
    holds: list[dict[str, Any]]
    others: str


class Observer:
    """Reads the figures of a database, and remembers them until the next time.

    Args:
        monotonic, wall: Clocks in seconds, for rates and for ages.
        answers_s: How long other processes have for their answers; 0: they are not asked.
    """

    def __init__(
        self,
        database: Database,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        answers_s: float = 0.0,
    ) -> None:
        self._database = database
        self._monotonic = monotonic
        self._wall = wall
        self._answers_s = answers_s
        self._before: tuple[float, int] | None = None

    def look(self) -> Figures:
        """The present figures."""
        # First, because it takes a part of the second, and the other figures are then of one moment.
        activity = self._database.activity(wait_s=self._answers_s)
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
            processes=activity["processes"],
            consumers=activity["consumers"],
            holds=activity["holds"],
            others=activity["others"],
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

    Changes per second, the size of the file and of its write-ahead log, tables with their documents, the feeds of every
    process and the durable consumers with the changes that they are behind, and the readers that hold history.

    In Python: db.stats(), db.activity()
    """
    with open_database(file) as database:
        observer = Observer(database, answers_s=ANSWERS_S)
        try:
            if as_json:
                for figures in refreshes(observer, count):
                    write_line(asdict(figures))
                return
            with open_screen() as draw:
                for figures in refreshes(observer, count):
                    draw(figure_lines(figures, *screen_shape()))
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


def figure_lines(figures: Figures, width: int | None = None, height: int | None = None) -> list[str]:
    """The picture as lines of text, in at most so many columns and lines; None: without a limit."""
    age = "" if figures.newest_age_s is None else f", the newest {format_age(figures.newest_age_s)} ago"
    title = safe(figures.path)
    if width is not None:
        end = "Ctrl-C ends"
        title = cut(title, width - len(end) - 2)
        title += " " * (width - text_width(title) - len(end)) + end
    head = [
        click.style(title, bold=True),
        f"seq {figures.seq:,}; {format_rate(figures.changes_per_s)} changes a second{age}",
        f"file {size(figures.file_bytes)}, WAL {size(figures.wal_bytes)}; the log can be read past seq {figures.oldest:,}",
        *(
            click.style(
                f"held by {safe(str(one['by']))}: the history past seq {one['from']:,}"
                f" ({plural(figures.seq - one['from'], 'change')})",
                fg="yellow",
            )
            for one in figures.holds[:3]
        ),
    ]
    parts = [one for one in (table_part(figures), feed_part(figures, width), consumer_part(figures)) if one]
    if figures.others not in ("asked", ONLY_THIS):
        head.append(f"other processes: {safe(figures.others)}")
    if height is not None:
        shorten(parts, height - len(head) - len(parts))
    lines = head + [line for part in parts for line in ("", *part)]
    return lines if width is None else [cut_styled(line, width) for line in lines]


def table_part(figures: Figures) -> list[str]:
    """The tables, with a header."""
    if not figures.tables:
        return ["no tables"]
    body = [
        [table.name, f"{table.documents:,}", format_rate(table.changes_per_s)] for table in figures.tables
    ]
    return with_header(columns(["table", "documents", "changes/s"], body, [False, True, True]))


def feed_part(figures: Figures, width: int | None) -> list[str]:
    """The feeds of all processes, those that are behind most first, with a header; empty where there are none."""
    found = [(process, feed) for process in figures.processes for feed in process["feeds"]]
    if not found:
        return []
    found.sort(key=lambda one: (-one[1]["lag"], -one[1]["queued"], one[0]["process"]))
    header = ["process", "purpose", "selection", "state", "behind", "queued", "dropped", "delivered"]
    cells = [
        [
            cut(f"{process['process']} {safe(process['program'])}", 18),
            safe(feed["purpose"]),
            safe(feed["selection"]),
            feed["state"],
            f"{feed['lag']:,}",
            f"{feed['queued']:,}",
            f"{feed['dropped']:,}",
            f"{feed['delivered']:,}",
        ]
        for process, feed in found
    ]
    if not any(feed["dropped"] for _, feed in found):
        for row in (header, *cells):
            del row[6]
    if width is not None:
        others = [max(map(text_width, texts)) for texts in zip(header, *cells, strict=True)]
        room = max(NARROWEST_SELECTION, width - sum(others) + others[2] - 2 * (len(header) - 1))
        for row in cells:
            row[2] = cut(row[2], room)
    title, *body = columns(header, cells, [False, False, False, False, *[True] * 4])
    lines = [
        click.style(line, fg="red" if feed["dropped"] else "yellow")
        if feed["lag"] or feed["dropped"]
        else line
        for line, (_, feed) in zip(body, found, strict=True)
    ]
    more = sum(process["feed_count"] - len(process["feeds"]) for process in figures.processes)
    return with_header([title, *lines, *([f"and {more:,} more"] if more else [])])


def consumer_part(figures: Figures) -> list[str]:
    """The durable consumers, with a header; empty where there are none."""
    return with_header(consumers.lines(figures.consumers)) if figures.consumers else []


def with_header(lines: list[str]) -> list[str]:
    return [click.style(lines[0], bold=True), *lines[1:]]


def shorten(parts: list[list[str]], height: int) -> None:
    """Cut the parts so that together they have at most so many lines. A part that needs less leaves its lines to the others."""
    wanted = [len(part) for part in parts]
    given = [min(2, want) for want in wanted]
    while sum(given) < height and given != wanted:
        place = min((one for one in range(len(parts)) if given[one] < wanted[one]), key=given.__getitem__)
        given[place] += 1
    for part, lines in zip(parts, given, strict=True):
        if lines < len(part):
            more = len(part) - lines + 1
            part[lines - 1 :] = [click.style(f"and {more:,} more", dim=True)]


def cut_styled(line: str, width: int) -> str:
    """A line in at most so many columns; one that is too long loses its style."""
    bare = click.unstyle(line)
    if text_width(bare) <= width:
        return line
    return line.replace(bare, cut(bare, width)) if bare in line else cut(bare, width)


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


def screen_shape() -> tuple[int | None, int | None]:
    """The columns and the lines of a picture; None where it is not for a terminal."""
    if not is_terminal(sys.stdout):
        return None, None
    columns, lines = shutil.get_terminal_size((100, 24))
    # The last line is for the cursor.
    return columns, lines - 1


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
