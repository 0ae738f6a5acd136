"""`reactdb tail`: the change log on a terminal or in a pipe, to its end or until Ctrl-C.

The printed changes come from the log; a feed only signals that there are more. So nothing is lost if printing is slow: events
that the feed drops are still in the log. With a condition or an order, the events of that selection's feed are printed instead;
if printing is slow, that feed catches up from the log, so nothing is lost there either.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import click

from reactdb.change import Change
from reactdb.cli import changelines
from reactdb.cli.changelines import differences, format_value
from reactdb.cli.files import (
    SEQ,
    file_argument,
    json_option,
    open_database,
    optional_table_argument,
    parse_with,
    unknown_fields,
    where_option,
)
from reactdb.cli.terminal import note, write_line
from reactdb.condition_text import parse_field
from reactdb.database import Database
from reactdb.errors import TableNotFound
from reactdb.expression import Expression, asc, desc
from reactdb.json import to_json
from reactdb.table import Selection
from reactdb.values.codec import same

COLORS: Final = {"initial": "cyan", "add": "green", "change": "yellow", "remove": "red"}
DOCUMENTS: Final = ("old_val", "new_val")
# Events that the feed queues while the log is being read; one would be enough.
QUEUE_EVENTS = 100


@click.command()
@file_argument
@optional_table_argument
@click.option(
    "--since", type=SEQ, help="Only changes past this seq.  [default: all; with --follow, from now on]"
)
@click.option(
    "--follow",
    "-f",
    "is_following",
    is_flag=True,
    help="Continue until Ctrl-C, also with changes of other processes.",
)
@where_option
@click.option(
    "--order",
    metavar="FIELD",
    callback=parse_with(parse_field),
    help="Events of the list in order of FIELD, with their places in it, counted from 0.",
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

    In Python: db.log(since), and db.table("games").changes() for new ones
    """
    if order is None and (is_descending or limit is not None):
        raise click.UsageError("--desc and --limit need an order: give --order.")
    if table is None and (where is not None or order is not None):
        raise click.UsageError("--where and --order need a table: name one.")

    with open_database(file) as database:
        check_since(database, since, is_following)
        try:
            if where is None and order is None:
                _print_changes(database, table, since, is_following, as_json)
            else:
                assert table is not None
                fields = [one for one in (where, order) if one is not None]
                for sentence in unknown_fields(database.table(table), fields, []):
                    note(sentence)
                selection = make_selection(
                    database, table, where, order, is_descending=is_descending, limit=limit
                )
                delivered = events(
                    database, selection, since, is_ordered=order is not None, is_following=is_following
                )
                _print_events(delivered, database.table(table).primary_key, as_json)
        except KeyboardInterrupt:
            if not is_following:
                raise
            # Ctrl-C is the only way to end it, and so no error.


def check_since(database: Database, since: int | None, is_following: bool) -> None:
    """A position past the newest change is a mistake, but not where a later change is awaited.

    Raises:
        UsageError.
    """
    newest = database.seq
    if since is None or since <= newest:
        return
    if not is_following:
        raise click.UsageError(f"--since {since} is past the end: the newest change has seq {newest}.")
    note(f"the newest change has seq {newest}; changes past seq {since} are awaited")


def _print_changes(
    database: Database, table: str | None, since: int | None, is_following: bool, as_json: bool
) -> None:
    for change in follow(database, table, since) if is_following else past(database, table, since):
        if as_json:
            write_line(changelines.as_json(change))
        else:
            click.echo(changelines.as_line(change, with_table=table is None))


def _print_events(events: Iterator[dict[str, Any]], primary_key: str, as_json: bool) -> None:
    for event in events:
        if as_json:
            write_line(event_as_json(event))
        else:
            click.echo(event_as_line(event, primary_key))


def past(database: Database, table: str | None, since: int | None) -> Iterator[Change]:
    """The present changes of the log."""
    if since is None:
        since = database.stats()["oldest"]
    return database.log(since, table=table)


def follow(database: Database, table: str | None, since: int | None) -> Iterator[Change]:
    """The changes after `since` (default: after this moment), and then every new one, without end.

    Raises:
        HistoryLost: Compaction overtook the reader. FeedAborted: The table was dropped.
    """
    feed_of = (
        database.table(table).changes
        if table is not None
        else partial(database.changes, include_catalogue=True)
    )
    # The feed is opened before the log is read, so that no change falls between the two.
    with feed_of(include_seq=True, changefeed_queue_size=QUEUE_EVENTS).cursor() as feed:
        position = database.seq if since is None else since
        head = database.seq
        yield from between(database, position, head, table)
        position = max(position, head)
        for event in feed:
            # An event without a seq means that events were dropped.
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
        for change in database.log(since, until):
            if change.table == table and change.catalogue is None:
                yield change
        raise


# ---------------------------------------------------------------------------------------------------------------
# The events of a selection


def make_selection(
    database: Database,
    table: str,
    where: Expression | None,
    order: Expression | None,
    *,
    is_descending: bool,
    limit: int | None,
) -> Selection:
    """The selection of the options."""
    selection: Selection = database.table(table)
    if where is not None:
        selection = selection.filter(where)
    if order is not None:
        selection = selection.order_by(desc(order) if is_descending else asc(order))
    return selection if limit is None else selection.limit(limit)


def events(
    database: Database, selection: Selection, since: int | None, *, is_ordered: bool, is_following: bool
) -> Iterator[dict[str, Any]]:
    """The events of the selection's feed after `since`, without end if `is_following`, otherwise up to now. States are left out.

    If `since` is None, the events begin with the log. If following, they begin now, for an ordered selection with the present
    list first, because offsets mean nothing without the list.

    Raises:
        HistoryLost: Compaction has removed needed changes. FeedAborted: The table was dropped.
    """
    if since is None and not is_following:
        since = database.stats()["oldest"]
    feed = selection.changes(
        since=since,
        include_initial=since is None and is_ordered,
        include_offsets=is_ordered,
        include_states=True,
        include_types=True,
        include_seq=True,
        on_overflow="spill",
    )
    with feed.cursor() as cursor:
        for event in cursor:
            if "state" not in event:
                yield event
            elif event["state"] == "ready" and not is_following:
                return


def event_as_json(event: dict[str, Any]) -> dict[str, Any]:
    """An event as JSON values, documents as `reactdb.json` writes them."""
    return {name: to_json(value) if name in DOCUMENTS else value for name, value in event.items()}


def event_as_line(event: dict[str, Any], primary_key: str) -> str:
    """An event as a line for people: seq, type, place in the list, key, and the different fields."""
    old, new = event.get("old_val"), event.get("new_val")
    parts = [f"{event['seq']:>6}", click.style(f"{event['type']:<7}", fg=COLORS[event["type"]])]
    if "old_offset" in event or "new_offset" in event:
        parts.append(f"{place(event.get('old_offset'), event.get('new_offset')):<8}")
    keys = [document[primary_key] for document in (old, new) if document is not None]
    is_another = len(keys) == 2 and not same(*keys)
    parts.append(click.style(" -> ".join(map(format_value, keys if is_another else keys[-1:])), bold=True))
    steps = "" if new is None else ", ".join(differences(None if is_another else old, new))
    return "  ".join([*parts, steps] if steps else parts)


def place(old: int | None, new: int | None) -> str:
    """The place in the list, counted from 0: `at 3` if the document came, went or stayed there, `3 -> 0` if it moved."""
    if old is None or new is None or old == new:
        return f"at {old if new is None else new}"
    return f"{old} -> {new}"
