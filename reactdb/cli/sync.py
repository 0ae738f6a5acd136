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
from reactdb.replication.sync import RETRIES, check_remote
from reactdb.replication.sync import sync as synchronise

WORDS = {"pull": "fetched", "push": "sent"}


def check_place(context: click.Context, parameter: click.Parameter, place: str) -> tuple[str, str]:
    """The file and the table. It runs before click counts the arguments, because two words for them are one argument too many."""
    file, _, table = place.rpartition("/")
    if not file or not table or os.path.isdir(file):
        raise click.UsageError(
            f"FILE/TABLE is one word, a file and one of its tables, such as notes.db/notes, not {place}.",
            context,
        )
    return file, table


@click.command()
@click.argument("place", metavar="FILE/TABLE", callback=check_place)
@click.argument("url", metavar="URL")
@click.option("--push", is_flag=True, help="Send only.")
@click.option("--pull", is_flag=True, help="Fetch only.")
@click.option("--live", is_flag=True, help="Continue with later changes, until Ctrl-C.")
@click.option(
    "--filter",
    "chosen",
    metavar="FILTER",
    help='Only some documents: a function design/filter of the source, or a selector as JSON, such as \'{"type": "x"}\'.',
)
@click.option("--user", help="The user at the other side, if it is not in the URL.")
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
    place: tuple[str, str],
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

    URL is that of the other database, such as http://localhost:5984/notes. Each side gets what it lacks; where something is
    fetched, a file or a table that is not there is made. The next time it goes on from where it ended.

    In Python: reactdb.sync(db, "games", "http://localhost:5984/games")
    """
    file, table = place
    if password_env is not None and password_env not in os.environ:
        raise click.UsageError(f"There is no environment variable {password_env}.")
    auth = None if user is None else (user, os.environ.get(password_env or "", ""))
    lines = SyncLines(None if live else RETRIES)
    selection = _filter(chosen)
    if not os.path.exists(file) and (pull or not push):
        # Before it is made: a failing command leaves no file behind.
        creates, retries = push or not pull, None if live else RETRIES
        check_remote(url, auth, create=creates, retries=retries, tell=lines.tell)
    with (
        open_database(file, write=True, create=pull or not push) as database,
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
            **selection,
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
    """A line whenever a direction has caught up, is refused something, or tries again.

    Args:
        retries: How often in a row it tries again; None: for ever.

    Thread safety: both directions report at the same time.
    """

    def __init__(self, retries: int | None) -> None:
        self._retries = retries
        self._told: dict[str, str] = {}
        self._lock = threading.Lock()

    def tell(self, progress: SyncProgress) -> None:
        if progress.state not in ("waiting", "complete", "retrying"):
            return
        line = line_of(progress, self._retries)
        with self._lock:
            if self._told.get(progress.direction) != line:
                self._told[progress.direction] = line
                click.echo(line)


def line_of(progress: SyncProgress, retries: int | None) -> str:
    """The progress of one direction, as a line."""
    words = f"{progress.direction}: {plural(progress.docs_written, 'revision')} {WORDS[progress.direction]}"
    failures = {"refused": progress.doc_write_failures, "not given": progress.doc_read_failures}
    counted = ", ".join(f"{count} {word}" for word, count in failures.items() if count)
    if counted:
        reason = progress.errors[-1]
        words += f", {counted} ({reason.get('id')}: {one_line(str(reason.get('reason')))})"
    if progress.state == "retrying":
        most = "" if retries is None else f" of {retries}"
        words += f"; trying again in {progress.retry_s:g} s ({progress.attempts}{most}) after: {one_line(str(progress.error))}"
    return words
