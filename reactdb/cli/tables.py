"""`reactdb tables` and `reactdb table`: the tables of a file, and making, renaming and dropping them."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import click

from reactdb.change import Change
from reactdb.cli.files import file_argument, json_option, open_database, table_argument, timestamp
from reactdb.cli.groups import Verbs
from reactdb.cli.terminal import (
    columns,
    echo_lines,
    format_age,
    is_terminal,
    note,
    plural,
    safe,
    size,
    write_line,
)
from reactdb.database import Database
from reactdb.store.catalogue import check_name
from reactdb.store.tools.figures import measure


@click.command()
@file_argument
@json_option("One JSON object a line.  [default: where the output is no terminal]")
def tables(file: str, as_json: bool) -> None:
    """List the tables of a file.

    With the number of their documents, their size, their indexes, and their newest change.

    In Python: db.table_list(), db.stats()["tables"]
    """
    print_tables(file, as_json)


def print_tables(file: str, as_json: bool) -> None:
    with open_database(file) as database:
        found = list_tables(database)
    if as_json or not is_terminal(sys.stdout):
        for one in found:
            write_line({**one, "changed": one["changed"] and timestamp(one["changed"])})
        return
    if not found:
        note(f"no tables yet: reactdb table create {safe(file)} NAME")
        return
    now = time.time()
    cells = [
        [
            one["name"],
            f"{one['documents']:,}",
            size(one["bytes"]),
            "-" if one["changed"] is None else f"{format_age(max(0.0, now - one['changed'] / 1000))} ago",
            safe(", ".join(one["indexes"])),
        ]
        for one in found
    ]
    title, *body = columns(
        ["table", "documents", "size", "last change", "indexes"], cells, [False, True, True, True]
    )
    echo_lines([click.style(title, bold=True), *body])


def list_tables(database: Database) -> list[dict[str, Any]]:
    """The tables by name: dicts of `name`, `primary_key`, `documents`, `bytes` of the encoded documents, `indexes`, and
    `seq` and `changed` (in milliseconds) of the newest change in the log; both None if the log has none."""
    sizes = {one.name: one.document_bytes for one in measure(database.path).tables}
    found = []
    for name, documents in database.stats()["tables"].items():
        table = database.table(name)
        change = newest_change(database, name)
        found.append(
            {
                "name": name,
                "primary_key": table.primary_key,
                "documents": documents,
                "bytes": sizes.get(name, 0),
                "indexes": table.index_list(),
                "seq": change and change.seq,
                "changed": change and change.time,
            }
        )
    return found


def newest_change(database: Database, table: str) -> Change | None:
    """The newest change of a table in the log.

    The log is halved until the change is found, because a table may have its only changes at the beginning of a long log.
    """
    high = database.seq
    newest = next(database.log(database.stats()["oldest"], high, table), None)
    while newest is not None and newest.seq < high:
        middle = (newest.seq + high) // 2
        later = next(database.log(middle, high, table), None)
        if later is None:
            high = middle
        else:
            newest = later
    return newest


# ---------------------------------------------------------------------------------------------------------------
# Making, renaming and dropping


@click.group(cls=Verbs)
def table() -> None:
    """Create, rename, drop and list tables."""


@table.command()
@file_argument
@click.argument("table", metavar="TABLE")
@click.option("--primary-key", default="id", show_default=True, help="The field with the key.")
def create(file: str, table: str, primary_key: str) -> None:
    """Create a table, and the file if it is missing.

    In Python: db.table_create("games")
    """
    # Before the file is made: a failing command leaves no file behind.
    check_name("Table", table)
    is_new = not os.path.exists(file)
    with open_database(file, write=True, create=True) as database:
        database.table_create(table, primary_key)
    click.echo(f"created table {table}{f' in the new file {safe(file)}' if is_new else ''}")


@table.command()
@file_argument
@table_argument
@click.argument("name", metavar="NEW_NAME")
def rename(file: str, table: str, name: str) -> None:
    """Give a table another name.

    In Python: db.table_rename("games", "matches")
    """
    with open_database(file, write=True) as database:
        database.table_rename(table, name)
    click.echo(f"renamed table {table} to {name}")


@table.command()
@file_argument
@table_argument
@click.option("--yes", "-y", "is_sure", is_flag=True, help="Do not ask.")
def drop(file: str, table: str, is_sure: bool) -> None:
    """Remove a table with its documents and indexes.

    A terminal is asked first; elsewhere --yes is needed. The documents stay in the log until a compaction.

    In Python: db.table_drop("games")
    """
    with open_database(file, write=True) as database:
        count = database.table(table).count().run()
        if not is_sure:
            if not is_terminal(sys.stdin):
                raise click.UsageError(
                    f"this removes table {table} with {plural(count, 'document')}: give --yes to do it."
                )
            click.confirm(f"Remove table {table} with {plural(count, 'document')}?", abort=True, err=True)
        database.table_drop(table)
    click.echo(f"dropped table {table} with {plural(count, 'document')}")


@table.command("list")
@file_argument
@json_option("One JSON object a line.  [default: where the output is no terminal]")
def list_(file: str, as_json: bool) -> None:
    """List the tables, as `reactdb tables` does.

    In Python: db.table_list()
    """
    print_tables(file, as_json)
