"""`reactdb index`: the indexes of a table."""

from __future__ import annotations

import sys
from typing import Any

import click

from reactdb.cli.files import (
    file_argument,
    json_option,
    open_database,
    optional_table_argument,
    parse_with,
    table_argument,
    unknown_fields,
)
from reactdb.cli.groups import Verbs
from reactdb.cli.terminal import columns, echo_lines, is_terminal, note, plural, safe, write_line
from reactdb.condition_text import parse_field
from reactdb.errors import TableNotFound
from reactdb.expression import row
from reactdb.store.tools.figures import measure


@click.group(cls=Verbs)
def index() -> None:
    """Create, drop and list the indexes of a table."""


@index.command()
@file_argument
@table_argument
@click.argument("name", metavar="NAME")
@click.option(
    "--field",
    "fields",
    metavar="FIELD",
    multiple=True,
    help="The indexed field, such as address.city; several make a compound index.  [default: NAME]",
)
@click.option("--multi", is_flag=True, help="The field is a list: an entry for each of its elements.")
@click.option("--unique", is_flag=True, help="At most one document for each value.")
def create(file: str, table: str, name: str, fields: tuple[str, ...], multi: bool, unique: bool) -> None:
    """Create an index and fill it.

    In Python: db.table("games").index_create("score")
    """
    read = parse_with(parse_field)
    context = click.get_current_context()
    parameter = next(one for one in context.command.params if one.name == "fields")
    expressions = [read(context, parameter, field) for field in fields] or [row[name]]
    with open_database(file, write=True) as database:
        target = database.table(table)
        for sentence in unknown_fields(target, expressions, []):
            note(sentence)
        target.index_create(
            name, expressions if len(expressions) > 1 else expressions[0], multi=multi, unique=unique
        )
        count = target.count().run()
    click.echo(f"created index {name} of table {table}, from {plural(count, 'document')}")


@index.command()
@file_argument
@table_argument
@click.argument("name", metavar="NAME")
def drop(file: str, table: str, name: str) -> None:
    """Remove an index; documents stay.

    In Python: db.table("games").index_drop("score")
    """
    with open_database(file, write=True) as database:
        database.table(table).index_drop(name)
    click.echo(f"dropped index {name} of table {table}")


@index.command("list")
@file_argument
@optional_table_argument
@json_option("One JSON object a line.  [default: where the output is no terminal]")
def list_(file: str, table: str | None, as_json: bool) -> None:
    """List the indexes of a table, or of all tables.

    In Python: db.table("games").index_list()
    """
    with open_database(file) as database:
        if table is not None and table not in database:
            raise TableNotFound(table)
        unique = {
            (name, one["index"])
            for name in database
            for one in database.table(name).index_wait()
            if one.get("unique")
        }
        found: list[dict[str, Any]] = [
            {
                "table": figures.name,
                "name": one.name,
                "expression": one.expression,
                "multi": one.multi,
                "unique": (figures.name, one.name) in unique,
                "entries": one.entries,
            }
            for figures in measure(database.path).tables
            if table in (None, figures.name)
            for one in figures.indexes
        ]
    if as_json or not is_terminal(sys.stdout):
        for line in found:
            write_line(line)
        return
    if not found:
        note("no indexes" if table is None else f"table {table} has no indexes")
        return
    cells = [
        [
            one["table"],
            safe(one["name"]),
            safe(one["expression"]),
            "yes" if one["multi"] else "no",
            "yes" if one["unique"] else "no",
            f"{one['entries']:,}",
        ]
        for one in found
    ]
    title, *body = columns(
        ["table", "index", "expression", "multi", "unique", "entries"], cells, [*[False] * 5, True]
    )
    echo_lines([click.style(title, bold=True), *body])
