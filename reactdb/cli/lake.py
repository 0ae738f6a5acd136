"""`reactdb export ... --parquet|--delta|--iceberg FOLDER`: documents or changes as a table of a lake.

Rule of this file: options, progress and output. `reactdb.lake.export` does the work.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from reactdb.cli.terminal import Progress, plural, safe, write_line
from reactdb.logs import logger

if TYPE_CHECKING:
    from reactdb.lake.outcome import Outcome

WORDS = {"current": "document", "changes": "change", "scd2": "version"}


def run_export(
    source: str, table: str | None, mode: str, at: int | datetime | None, as_json: bool, **given: Any
) -> None:
    """Run the exporter with a progress bar, and print its outcome."""
    with Progress(f"{WORDS[mode]}s") as bar:
        outcome = call_exporter(source, table, bar, mode=mode, at=at, **given)
    print_outcome(outcome, WORDS[mode], as_json)


def call_exporter(source: str, table: str | None, bar: Progress, **given: Any) -> Outcome:
    from reactdb.errors import HistoryDiverged, HistoryLost
    from reactdb.lake import export

    try:
        with unlogged_files():
            return export(source, table, progress=reporter(bar), **given)
    except (HistoryDiverged, HistoryLost) as error:
        raise click.ClickException(
            f"{error}: `reactdb export ... --overwrite` writes the table anew"
        ) from error


@contextmanager
def unlogged_files() -> Iterator[None]:
    """Log no line about the files that are left out, because the outcome names each of them, and is printed."""

    def is_other(record: logging.LogRecord) -> bool:
        return record.module != "fleet"

    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)


def reporter(bar: Progress) -> Callable[[int, int], None]:
    """A function that shows how much is done, how fast, and how long the rest will take."""
    began = time.monotonic()

    def report(done: int, total: int) -> None:
        bar.set_total(total)
        bar.update(done, note=describe_rate(done, total, time.monotonic() - began))

    return report


def describe_rate(done: int, total: int, elapsed_s: float) -> str:
    """Such as `1,200/s, 2:05 left`."""
    if elapsed_s <= 0 or done <= 0:
        return ""
    rate = done / elapsed_s
    left_s = round((total - done) / rate)
    minutes, seconds = divmod(left_s, 60)
    hours, minutes = divmod(minutes, 60)
    left = f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
    return f"{rate:,.0f}/s, {left} left"


def print_outcome(outcome: Outcome, word: str, as_json: bool) -> None:
    """Print an outcome as text or as one JSON object."""
    if as_json:
        write_line(asdict(outcome))
        return
    steps = [
        f"{count:,} {name}"
        for name, count in (
            ("inserted", outcome.inserted),
            ("updated" if word == "document" else "ended", outcome.updated),
            ("deleted", outcome.deleted),
        )
        if count
    ]
    if outcome.was_rewritten:
        click.echo(f"{safe(outcome.path)} was written anew")
    if outcome.rows:
        beside = f": {', '.join(steps)}" if steps else ""
        click.echo(f"{plural(outcome.rows, word)} written to {safe(outcome.path)}{beside}")
    elif not outcome.was_rewritten and not os.path.exists(outcome.path):
        click.echo(f"there are no {word}s yet, so there is no {safe(outcome.path)}")
    elif not outcome.was_rewritten:
        click.echo(f"nothing new for {safe(outcome.path)}")
    for path, seq in outcome.positions.items():
        click.echo(f"  {safe(path)} up to seq {seq}")
    for path in outcome.begins_late:
        click.echo(
            f"  {safe(path)}: earlier history was removed; it begins with the documents as they were then"
        )
    for reason in outcome.ignored.values():
        click.echo(f"  left out: {safe(reason)}")
    for words, names in (("new", outcome.new_fields), ("now with fractions", outcome.widened_fields)):
        if names:
            click.echo(f"  {plural(len(names), 'field')} {words}: {safe(', '.join(names))}")
    for path, count in outcome.conflicts.items():
        click.echo(
            f"  {safe(path)}: {plural(count, 'value')} in column _conflicts, because no column takes it"
        )
    for path, count in outcome.discarded.items():
        click.echo(f"  {safe(path)}: {plural(count, 'value')} left out")
