"""`reactdb rows`: a table's documents, as columns for people and as JSON lines for programs."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain
from typing import Any, Final

import click

from reactdb.cli import documentlines, tables
from reactdb.cli.documentlines import Document
from reactdb.cli.files import (
    MOMENT,
    documents,
    file_argument,
    json_option,
    open_database,
    optional_table_argument,
    parse_with,
    unknown_fields,
    where_option,
)
from reactdb.cli.terminal import echo_lines, is_terminal, note, safe_json, safe_table, screen_width
from reactdb.condition_text import parse_field
from reactdb.database import PastDatabase
from reactdb.expression import Expression, asc, desc
from reactdb.table import Selection

FORMS: Final = ("csv", "tsv", "json", "long")
DELIMITERS: Final = {"csv": ",", "tsv": "\t"}


def parse_columns(context: click.Context, parameter: click.Parameter, words: tuple[str, ...]) -> list[str]:
    """`("id,name", "score")` as `["id", "name", "score"]`."""
    return [name for word in words for name in next(csv.reader([word], skipinitialspace=True), []) if name]


@click.command()
@file_argument
@optional_table_argument
@where_option
@click.option(
    "--order", metavar="FIELD", callback=parse_with(parse_field), help="In order of a field, not of the keys."
)
@click.option("--desc", "is_descending", is_flag=True, help="The greatest first.")
@click.option("--limit", type=click.IntRange(min=0), help="At most so many documents.")
@click.option("--offset", type=click.IntRange(min=0), default=0, help="Leave out the first so many.")
@click.option(
    "--column",
    "names",
    metavar="NAME",
    multiple=True,
    callback=parse_columns,
    help="Only this field, such as id or address.city. Can be repeated: --column id,name.",
)
@click.option("--count", "is_count", is_flag=True, help="Print the number of documents instead.")
@click.option(
    "--at", metavar="SEQ|TIME", type=MOMENT, help="As they were then, such as 17 or 2026-07-21T14:30."
)
@click.option("--csv", "form", flag_value="csv", help="Comma-separated values, with a header.")
@click.option("--tsv", "form", flag_value="tsv", help="The same with tabs.")
@click.option("--long", "form", flag_value="long", help="A line for each field, with the whole value.")
@json_option("One JSON object a line.  [default: where the output is no terminal]")
def rows(
    file: str,
    table: str | None,
    where: Any,
    order: Any,
    is_descending: bool,
    limit: int | None,
    offset: int,
    names: list[str],
    is_count: bool,
    at: int | datetime | None,
    form: str | None,
    as_json: bool,
) -> None:
    """Print a table's documents.

    In order of their keys, all as of one moment. Without TABLE, it lists the tables.

    In Python: db.table("games").filter(player="Bob").limit(5).run()
    """
    if as_json and form is not None:
        raise click.UsageError(f"--json and --{form} are two forms: give one of them.")
    form = "json" if as_json else form
    if order is None and is_descending:
        raise click.UsageError("--desc needs an order: give --order.")
    if table is None:
        if (
            where is not None
            or order is not None
            or names
            or is_count
            or at is not None
            or form in DELIMITERS
        ):
            raise click.UsageError("Missing argument 'TABLE'.")
        tables.print_tables(file, as_json)
        return
    if is_count and (order is not None or limit is not None or offset or names or form not in (None, "json")):
        raise click.UsageError(
            "--count counts the documents of --where and --at, and takes no other options."
        )
    with open_database(file) as database:
        then = database.at(database.seq if at is None else at)
        source = then.table(table)
        for sentence in unknown_fields(
            source, [one for one in (where, order) if one is not None], [name.split(".")[0] for name in names]
        ):
            note(sentence)
        if is_count:
            click.echo((source if where is None else source.filter(where)).count().run())
            return
        keys = None if order is None else desc(order) if is_descending else asc(order)
        print_documents(then, table, where, keys, limit, offset, names, form)


def print_documents(
    then: PastDatabase,
    table: str,
    where: Expression | None,
    order: Any,
    limit: int | None,
    offset: int,
    names: list[str],
    form: str | None,
) -> None:
    """Print the documents in a form: one of FORMS, or None for columns on a terminal and JSON lines elsewhere."""

    def selected() -> Iterator[Document]:
        if order is None:
            found: Iterable[Document] = documents(then, table, limit, where, offset)
        else:
            found = in_order(then.table(table), where, order, limit, offset)
        return documentlines.only(found, names) if names else iter(found)

    if form in DELIMITERS:
        primary_key = then.table(table).primary_key
        # Without --column the documents are read twice: the header has to have all fields.
        fields = names or list(dict.fromkeys([primary_key, *(name for one in selected() for name in one)]))
        echo_lines(documentlines.as_csv(selected(), fields, DELIMITERS[form]), safe_table)
    elif form == "long":
        echo_lines(documentlines.as_records(selected(), names))
    elif form == "json" or not is_terminal(sys.stdout):
        echo_lines(documentlines.as_json(selected()), safe_json)
    else:
        primary_key = then.table(table).primary_key
        shown = documentlines.as_columns(selected(), primary_key, screen_width(), names, "--long shows all")
        first = next(shown, None)
        if first is None:
            note("no documents")
        else:
            echo_lines(chain([first], shown))


def in_order(
    source: Selection, where: Expression | None, order: Any, limit: int | None, offset: int
) -> list[dict[str, Any]]:
    selection = (source if where is None else source.filter(where)).order_by(order)
    if offset:
        selection = selection.skip(offset)
    if limit is not None:
        selection = selection.limit(limit)
    return selection.run()
