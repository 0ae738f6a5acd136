"""`reactdb tail`: the change log on a terminal or in a pipe, to its end or until Ctrl-C.

The changes that are printed come from the log; a feed only signals that there are more. So nothing is lost if printing is slow:
the events that the feed drops are still in the log. With a condition or an order, the events of that selection's feed are
printed instead (see `watching`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from reactdb.cli import watching
from reactdb.cli.files import SEQ, file_argument, json_option, open_database, parsed_by, where_option
from reactdb.errors import TableNotFound

if TYPE_CHECKING:
    from reactdb.change import Change
    from reactdb.database import Database

# Events that the feed queues while the log is being read; one would be enough.
QUEUE_EVENTS = 100


@click.command()
@file_argument
@click.argument("table", metavar="[TABLE]", required=False)
@click.option(
    "--since", type=SEQ, help="Only changes past this seq.  [default: all; with --follow, from now on]"
)
@click.option(
    "--follow", "-f", "is_following", is_flag=True, help="Go on until Ctrl-C, also with what others write."
)
@where_option
@click.option(
    "--order",
    metavar="FIELD",
    callback=parsed_by("parse_field"),
    help="What happens to the list in order of FIELD, and where in it, counted from 0.",
)
@click.option("--desc", "is_descending", is_flag=True, help="The greatest first.")
@click.option("--limit", type=click.IntRange(min=0), help="Only the first so many of that list.")
@json_option("One JSON object a line.")
def tail(
    file: str,
    table: str | None,
    since: int | None,
    is_following: bool,
    where: Any,
    order: Any,
    is_descending: bool,
    limit: int | None,
    as_json: bool,
) -> None:
    """Print the changes of a table, or of all tables.

    Each with its time, its seq, what it was, the key and the fields that changed. With --where or --order, what comes into
    that part of the table, changes in it, and leaves it.
    """
    if order is None and (is_descending or limit is not None):
        raise click.UsageError("--desc and --limit are of an order: say --order.")
    if table is None and (where is not None or order is not None):
        raise click.UsageError("--where and --order are of one table: say which.")

    with open_database(file) as database:
        try:
            if where is None and order is None:
                _print_changes(database, table, since, is_following, as_json)
            else:
                assert table is not None
                selection = watching.selected(
                    database, table, where, order, is_descending=is_descending, limit=limit
                )
                found = watching.events(
                    database, selection, since, is_ordered=order is not None, is_following=is_following
                )
                _print_events(found, database.table(table).primary_key, as_json)
        except KeyboardInterrupt:
            if not is_following:
                raise
            # Ctrl-C is the only way to end it, and so no error.


def _print_changes(
    database: Database, table: str | None, since: int | None, is_following: bool, as_json: bool
) -> None:
    from reactdb.cli import changelines
    from reactdb.cli.terminal import write_line

    for change in follow(database, table, since) if is_following else past(database, table, since):
        if as_json:
            write_line(changelines.as_json(change))
        else:
            click.echo(changelines.as_line(change, with_table=table is None))


def _print_events(found: Iterator[dict[str, Any]], primary_key: str, as_json: bool) -> None:
    from reactdb.cli.terminal import write_line

    for event in found:
        if as_json:
            write_line(watching.as_json(event))
        else:
            click.echo(watching.as_line(event, primary_key))


def past(database: Database, table: str | None, since: int | None) -> Iterator[Change]:
    """The changes that the log has now."""
    if since is None:
        since = database.stats()["oldest"]
    return database.log(since, table=table)


def follow(database: Database, table: str | None, since: int | None) -> Iterator[Change]:
    """The changes after `since` (default: after this moment), and then every new one, without end.

    Raises:
        HistoryLost: Compaction overtook the reader. FeedAborted: The table was dropped.
    """
    source = database if table is None else database.table(table)
    # The feed is opened before the log is read, so that no change falls between the two.
    with source.changes(include_seq=True, changefeed_queue_size=QUEUE_EVENTS).cursor() as feed:
        position = database.seq if since is None else since
        head = database.seq
        yield from between(database, position, head, table)
        position = max(position, head)
        for event in feed:
            # An event without a seq says that events were dropped.
            if event.get("seq", position + 1) <= position:
                continue
            head = database.seq
            yield from between(database, position, head, table)
            position = head


def between(database: Database, since: int, until: int, table: str | None) -> Iterator[Change]:
    """The changes with since < seq <= until, also of a table that was dropped meanwhile.

    Raises:
        TableNotFound: The table was dropped; raised after its last changes.
    """
    try:
        yield from database.log(since, until, table)
    except TableNotFound:
        yield from (change for change in database.log(since, until) if change.table == table)
        raise
