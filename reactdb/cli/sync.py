"""`reactdb sync`: a table and a database behind CouchDB's HTTP, brought to the same state, once or live.

Rule of this file: words and options; the work is `reactdb.sync`'s.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import click

from reactdb.cli.files import open_database
from reactdb.cli.terminal import one_line, plural
from reactdb.errors import InvalidDocument
from reactdb.json import loads
from reactdb.replication.replicator import SyncProgress
from reactdb.replication.syncing import sync as synchronise

WORDS = {"pull": "fetched", "push": "sent"}


@click.command()
@click.argument("place", metavar="FILE/TABLE")
@click.argument("url", metavar="URL")
@click.option("--push", is_flag=True, help="Send only.")
@click.option("--pull", is_flag=True, help="Fetch only.")
@click.option("--live", is_flag=True, help="Go on with what changes, until Ctrl-C.")
@click.option(
    "--filter",
    "chosen",
    metavar="FILTER",
    help='Only some documents: a function design/filter of the source, or a selector as JSON, such as \'{"type": "x"}\'.',
)
@click.option("--user", help="Who is asked for at the other side, if the URL does not say it.")
@click.option(
    "--password-env", metavar="NAME", help="Name of the environment variable that holds that user's password."
)
@click.option(
    "--batch-size",
    type=click.IntRange(1, 10_000),
    default=250,
    show_default=True,
    help="Changes that are copied together.",
)
def sync(
    place: str,
    url: str,
    push: bool,
    pull: bool,
    live: bool,
    chosen: str | None,
    user: str | None,
    password_env: str | None,
    batch_size: int,
) -> None:
    """Synchronise a table with CouchDB, PouchDB or another reactdb.

    URL is that of the other database, such as http://localhost:5984/notes. Each side gets what it lacks; a file or a table that
    is not there is made. The next time it goes on from where it ended.
    """
    file, _, table = place.rpartition("/")
    if not file or not table:
        raise click.UsageError(
            f"FILE/TABLE is a file and one of its tables, such as notes.db/notes, not {place}."
        )
    if password_env is not None and password_env not in os.environ:
        raise click.UsageError(f"There is no environment variable {password_env}.")
    auth = None if user is None else (user, os.environ.get(password_env or "", ""))
    lines = SyncLines()
    with (
        open_database(file, write=True, create=True) as database,
        synchronise(
            database,
            table,
            url,
            push=push or not pull,
            pull=pull or not push,
            live=live,
            batch_size=batch_size,
            auth=auth,
            on_progress=lines.tell,
            **_filter(chosen),
        ) as running,
    ):
        if live:
            try:
                # In slices, because Ctrl-C does not end a wait without end on every system.
                while not running.wait(0.5):
                    pass
            except KeyboardInterrupt:
                running.stop()


def _filter(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    if not text.lstrip().startswith("{"):
        return {"filter": text}
    try:
        return {"selector": loads(text)}
    except (ValueError, InvalidDocument) as error:
        raise click.UsageError(f"--filter is no JSON: {error}") from None


class SyncLines:
    """A line whenever a direction has caught up, is broken off, or is refused something.

    Thread safety: both directions tell at the same time.
    """

    def __init__(self) -> None:
        self._told: dict[str, str] = {}
        self._lock = threading.Lock()

    def tell(self, progress: SyncProgress) -> None:
        if progress.state not in ("waiting", "complete", "retrying"):
            return
        line = line_of(progress)
        with self._lock:
            if self._told.get(progress.direction) != line:
                self._told[progress.direction] = line
                click.echo(line)


def line_of(progress: SyncProgress) -> str:
    """How far one direction got, as a line."""
    words = f"{progress.direction}: {plural(progress.docs_written, 'revision')} {WORDS[progress.direction]}"
    if progress.doc_write_failures:
        reason = progress.errors[-1]
        words += f", {progress.doc_write_failures} refused ({reason.get('id')}: {one_line(str(reason.get('reason')))})"
    if progress.state == "retrying":
        words += f"; trying again after: {one_line(str(progress.error))}"
    return words
