"""`reactdb rows`: a table's documents, as columns for people and as JSON lines for programs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import click

from reactdb.cli.files import (
    SEQ,
    documents,
    file_argument,
    json_option,
    open_database,
    table_argument,
    where_option,
)
from reactdb.cli.terminal import columns, cut, is_terminal, safe, screen_width, write_line
from reactdb.json import readable, to_json

# So many documents together decide the columns and their width.
LAID_OUT_TOGETHER = 100
WIDEST_CELL = 40


@click.command()
@file_argument
@table_argument
@where_option
@click.option("--limit", type=click.IntRange(min=0), help="At most so many documents.")
@click.option("--at", type=SEQ, help="As they were when this seq was the newest.")
@json_option("One JSON object a line.  [default: where the output is no terminal]")
def rows(file: str, table: str, where: Any, limit: int | None, at: int | None, as_json: bool) -> None:
    """Print a table's documents.

    In order of their keys, all as of one moment.
    """
    with open_database(file) as database:
        then = database.at(database.seq if at is None else at)
        selected = documents(then, table, limit, where)
        if as_json or not is_terminal(sys.stdout):
            for document in selected:
                write_line(to_json(document))
        else:
            for line in as_columns(selected, then.table(table).primary_key, screen_width()):
                click.echo(line)


def as_columns(documents: Iterable[dict[str, Any]], primary_key: str, screen: int) -> Iterator[str]:
    """Lines of a table, the primary key first, cut to the screen's width, with a header for every hundred documents."""
    pending = iter(documents)
    while page := list(islice(pending, LAID_OUT_TOGETHER)):
        names = list(dict.fromkeys([primary_key, *(name for document in page for name in document)]))
        cells = [[cell(document[name]) if name in document else "" for name in names] for document in page]
        numbers = [all(is_number(document.get(name, 0)) for document in page) for name in names]
        header, *body = columns([cut(safe(name), WIDEST_CELL) for name in names], cells, numbers)
        yield click.style(cut(header, screen), bold=True)
        yield from (cut(line, screen) for line in body)


def cell(value: Any) -> str:
    """The text of a value in a column: strings unchanged, others as `readable` writes them."""
    return cut(safe(value if isinstance(value, str) else readable(value)), WIDEST_CELL)


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
