"""Files and tables for all commands: arguments, opening, keys from a command line, documents page by page.

Rule of this file: no output.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from math import isfinite
from typing import Any, TypeVar

import click

from reactdb.condition_text import parse_condition
from reactdb.database import Database, PastDatabase, connect
from reactdb.errors import CannotOpen, InvalidDocument, QueryError
from reactdb.expression import Expression
from reactdb.json import loads
from reactdb.store.file.sqlite import file_bytes
from reactdb.values.collation import maxval, minval

F = TypeVar("F", bound=Callable[..., Any])

# The number of documents in memory at a time, for any size of the table.
PAGE_DOCUMENTS = 500

file_argument = click.argument("file", metavar="FILE")
table_argument = click.argument("table", metavar="TABLE")
SEQ = click.IntRange(min=0)


class Finite(click.FloatRange):
    """A number within bounds. `nan` is beyond none of them, so click's own range lets it pass."""

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> float:
        number: float = super().convert(value, param, context)
        if not isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, context)
        return number


def parse_with(
    parse: Callable[[str], Expression],
) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """The callback of an option whose value a function of `condition` parses; its errors become mistakes in the command line."""

    def read(context: click.Context, parameter: click.Parameter, text: str | None) -> Any:
        if text is None:
            return None
        try:
            return parse(text)
        except QueryError as error:
            raise click.BadParameter(str(error), context, parameter) from None

    return read


where_option = click.option(
    "--where",
    metavar="CONDITION",
    callback=parse_with(parse_condition),
    help="Only documents that it holds for, such as 'score>10 and player=Bob'.",
)


def json_option(words: str) -> Callable[[F], F]:
    return click.option("--json", "as_json", is_flag=True, help=words)


def open_database(file: str, *, write: bool = False, create: bool = False, advice: str = "") -> Database:
    """Open an existing file, for reading only unless `write`. A missing or empty file becomes a database only if `create`.

    Args:
        advice: The advice if there is no database, for the end of the error message.

    Raises:
        CannotOpen: There is no database, or `reactdb.connect` raised it.
    """
    if write and not create and not os.path.exists(file):
        raise CannotOpen(os.path.abspath(file), f"it does not exist{advice}")
    # An empty file with a write-ahead log has lost data; `connect` raises an error for it.
    path = os.path.realpath(file)
    if not create and os.path.isfile(path) and not file_bytes(path) and not file_bytes(path + "-wal"):
        raise CannotOpen(path, f"it is empty: no database{advice}")
    return connect(file, read_only=not write)


def refuse_database(file: str, other: str) -> None:
    """Refuse to open a database's own file as text: closing it would drop SQLite's locks on it in this process.

    Source: https://sqlite.org/howtocorrupt.html, section 2.2.
    """
    for suffix in ("", "-wal", "-shm"):
        if os.path.exists(file + suffix) and os.path.exists(other) and os.path.samefile(file + suffix, other):
            raise click.UsageError(f"{other} belongs to the database {file} itself.")


def documents(
    database: PastDatabase, table: str, limit: int | None = None, where: Any = None
) -> Iterator[dict[str, Any]]:
    """The documents of a table in order of their keys, all of one state, a page in memory at a time.

    Args:
        database: A view of the past (`db.at(seq)`), because it does not change between two pages.
        where: An expression for selecting documents.

    Raises:
        TableNotFound; HistoryLost: Compaction has removed that state meanwhile.
    """
    source = database.table(table)
    if limit is None:
        # No page sees the whole table; a count shows where damage hides documents.
        source.count().run()
    primary_key = source.primary_key
    lower: Any = minval
    left_bound = "closed"
    while limit is None or limit > 0:
        wanted = PAGE_DOCUMENTS if limit is None else min(PAGE_DOCUMENTS, limit)
        rest = source.between(lower, maxval, left_bound=left_bound)  # type: ignore[arg-type]
        page = (rest if where is None else rest.filter(where)).limit(wanted).run()
        yield from page
        if len(page) < wanted:
            return
        if limit is not None:
            limit -= wanted
        lower, left_bound = page[-1][primary_key], "open"


def parse_keys(text: str) -> list[Any]:
    """The possible keys of a word on the command line, the likelier first: `42` is the number, or else the string.

    As JSON it has one meaning: `"42"` is the string, `{"$reactdb_type$": "uuid", "value": ...}` a UUID.
    """
    try:
        value = loads(text)
    except InvalidDocument:
        return [text]
    return [value] if isinstance(value, (str, dict)) else [value, text]


def instant(time_ms: int) -> datetime:
    """A time of the log as a datetime in UTC."""
    seconds, milliseconds = divmod(time_ms, 1000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=milliseconds * 1000)


def timestamp(time_ms: int) -> str:
    """A time of the log as `2026-07-21T12:03:04.123Z`."""
    return instant(time_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")
