"""`reactdb consumers`: the durable consumers of a file, their state, and the actions on them."""

from __future__ import annotations

from typing import Any

import click

from reactdb.cli.files import SEQ, file_argument, json_option, open_database
from reactdb.cli.terminal import columns, cut, one_line, plural, safe, write_line
from reactdb.durable import consumer
from reactdb.session import session_of

# The columns of a terminal for an error.
ERROR_COLUMNS = 60


@click.command()
@file_argument
@click.option("--reset", metavar="NAME", help="Let this consumer go on from --since.")
@click.option("--since", type=SEQ, help="For --reset: after this seq; 0 is the start of the log. Else now.")
@click.option("--skip", metavar="NAME", help="Set the change aside that fails, without further attempts.")
@click.option("--remove", metavar="NAME", help="Forget this consumer and its position.")
@click.option(
    "--hold", type=click.IntRange(min=0), help="Hold so many changes for partitions that are behind."
)
@json_option("One JSON object a line, for each partition.")
def consumers(
    file: str,
    reset: str | None,
    since: int | None,
    skip: str | None,
    remove: str | None,
    hold: int | None,
    as_json: bool,
) -> None:
    """Show the durable consumers of a file.

    For each partition: position, how far it is behind, who has it, and what fails. With one of the options, something is done
    first. Workers of a consumer that is reset or removed lose it.

    In Python: db.consumers()
    """
    wanted = [one for one in (reset, skip, remove, hold) if one is not None]
    if len(wanted) > 1:
        raise click.UsageError("One thing at a time: --reset, --skip, --remove or --hold.")
    if since is not None and reset is None:
        raise click.UsageError("--since is the position for --reset.")
    with open_database(file, write=bool(wanted)) as database:
        if reset is not None:
            consumer.reset(session_of(database), reset, since)
        if skip is not None:
            consumer.skip(session_of(database), skip)
        if remove is not None:
            consumer.remove(session_of(database), remove)
        if hold is not None:
            database.hold(hold)
        rows = database.consumers()
    if as_json:
        for one in rows:
            write_line(one)
        return
    for line in lines(rows):
        click.echo(line)


def lines(consumers: list[dict[str, Any]]) -> list[str]:
    """The consumers for people."""
    if not consumers:
        return ["no consumers"]
    header = ["consumer", "seq", "behind", "age", "attempts", "dead letters", "holder"]
    cells = [
        [
            safe(one["name"])
            + (f" {one['partition'] + 1}/{one['partitions']}" if one["partitions"] > 1 else ""),
            f"{one['seq']:,}",
            "lost" if one["is_lost"] else f"{one['lag']:,}",
            f"{one['lag_s']:.1f} s",
            f"{one['attempts']:,}",
            f"{one['dead_letters']:,}",
            safe(one["holder"] or "-"),
        ]
        for one in consumers
    ]
    return columns(header, cells, [False, True, True, True, True, True, False]) + [
        f"{safe(one['name'])}: {_describe_failure(one)}: {cut(one_line(one['error'] or ''), ERROR_COLUMNS)}"
        for one in consumers
        if one["failing"] is not None or one["error"] is not None
    ]


def _describe_failure(one: dict[str, Any]) -> str:
    if one["failing"] is None:
        # A materialized view: no attempt can go past its error.
        return "stopped"
    return f"seq {one['failing']} has failed {plural(one['attempts'], 'time')}"
