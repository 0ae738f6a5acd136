"""Files and tables for all commands: arguments, opening, keys from a command line, documents page by page.

Rule of this file: no output.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from math import isfinite
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from reactdb.cli.groups import nearest
from reactdb.condition_text import parse_condition
from reactdb.database import Database, ReadableDatabase, connect
from reactdb.errors import (
    CannotOpen,
    IndexNotFound,
    InvalidDocument,
    QueryError,
    ReactDBError,
    TableNotFound,
)
from reactdb.expression import Expression
from reactdb.expression.analyse import fields_read
from reactdb.json import loads
from reactdb.store.file.sqlite import file_bytes
from reactdb.table import Selection, Table
from reactdb.values.collation import maxval, minval

F = TypeVar("F", bound=Callable[..., Any])

# The number of documents in memory at a time, for any size of the table.
PAGE_DOCUMENTS = 500
# The number of documents whose fields are known, where a field of the command line is compared with them.
SAMPLE_DOCUMENTS = 1_000

SEQ = click.IntRange(min=0)


def complete_file(context: click.Context, parameter: click.Parameter, word: str) -> list[CompletionItem]:
    """For the completion of a shell: names of files, which the shell itself knows."""
    return [CompletionItem(word, type="file")]


def complete_table(context: click.Context, parameter: click.Parameter, word: str) -> list[CompletionItem]:
    """For the completion of a shell: the tables of FILE that begin with a word."""
    try:
        with connect(context.params["file"], read_only=True) as database:
            return [CompletionItem(name) for name in database if name.startswith(word)]
    except (KeyError, TypeError, ReactDBError, OSError):
        # A shell that completes a word has no place for an error.
        return []


file_argument = click.argument("file", metavar="FILE", shell_complete=complete_file)
table_argument = click.argument("table", metavar="TABLE", shell_complete=complete_table)
optional_table_argument = click.argument(
    "table", metavar="[TABLE]", required=False, shell_complete=complete_table
)


# click 8.1 has no parameter here.
class SeqOrTime(click.ParamType):  # type: ignore[type-arg]
    """A seq, or a time in ISO 8601; without an offset, the time is in the time zone of this machine."""

    name = "seq or time"

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> int | datetime:
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        if value.isdecimal():
            return int(value)
        try:
            moment = datetime.fromisoformat(value)
            # In the first year of all, the time zone may lead before it.
            return moment if moment.tzinfo is not None else moment.astimezone()
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is neither a seq nor a time, such as 2026-07-21T14:30.", parameter, context)


MOMENT = SeqOrTime()


class Finite(click.FloatRange):
    """A number within bounds. `nan` is beyond none of them, so click's own range lets it pass."""

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> float:
        number: float = super().convert(value, param, context)
        if not isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, context)
        return number


def read_standard_input() -> str:
    """The whole text of standard input.

    Raises:
        ClickException: It is not UTF-8.
    """
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.ClickException(f"standard input is not UTF-8: byte {error.start + 1}") from None


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


@contextmanager
def open_database(
    file: str, *, write: bool = False, create: bool = False, advice: str = ""
) -> Iterator[Database]:
    """Open an existing file, for reading only unless `write`, and close it at the end. A missing or empty file becomes a
    database only if `create`.

    Inside of the block, an error about a missing table or index gets the nearest name.

    Args:
        advice: The advice if there is no database, for the end of the error message.

    Raises:
        CannotOpen: There is no database, or `reactdb.connect` raised it.
    """
    # An empty file with a write-ahead log has lost data; `connect` raises an error for it.
    path = os.path.realpath(file)
    if not create and not os.path.exists(path):
        raise CannotOpen(os.path.abspath(file), f"it does not exist{advice}{nearest_file(path)}")
    if not create and os.path.isfile(path) and not file_bytes(path) and not file_bytes(path + "-wal"):
        raise CannotOpen(path, f"it is empty: no database{advice}")
    with connect(file, read_only=not write) as database:
        try:
            yield database
        except TableNotFound as error:
            # A table that exists now may be missing in the past.
            others = [name for name in database if name != error.name]
            raise click.ClickException(f"{error}{nearest(error.name, others)}") from error
        except IndexNotFound as error:
            known = database.table(error.table).index_list() if error.table in database else []
            raise click.ClickException(f"{error}{nearest(error.index, known)}") from error


def nearest_file(path: str) -> str:
    """`; the nearest is ...` with the file of the same folder whose name is like a wrong one; empty without one."""
    folder, name = os.path.split(path)
    try:
        names = [entry.name for entry in os.scandir(folder) if entry.is_file()]
    except OSError:
        return ""
    found = nearest(name, (one for one in names if not one.endswith(("-wal", "-shm"))))
    return f"; t{found[2:-1]}" if found else ""


def unknown_fields(table: Table, expressions: Iterable[Expression], names: Iterable[str]) -> list[str]:
    """A sentence for each field that no document has: fields that expressions read, and names of columns.

    A table has no list of its fields, so the first 1,000 documents decide; of an empty table, every field may be right.
    """
    wanted = list(names)
    for expression in expressions:
        wanted += sorted(fields_read(expression) or ())
    sample = table.limit(SAMPLE_DOCUMENTS).run() if wanted else []
    known = {name for document in sample for name in document}
    whose = (
        "no document"
        if len(sample) < SAMPLE_DOCUMENTS
        else f"none of the first {SAMPLE_DOCUMENTS:,} documents"
    )
    return [
        f"{whose} of table `{table.name}` has the field `{name}`.{nearest(name, known)}"
        for name in dict.fromkeys(wanted)
        if sample and name not in known
    ]


def refuse_database(file: str, other: str) -> None:
    """Refuse to open a database's own file as text: closing it would drop SQLite's locks on it in this process.

    Source: https://sqlite.org/howtocorrupt.html, section 2.2.
    """
    for suffix in ("", "-wal", "-shm"):
        if os.path.exists(file + suffix) and os.path.exists(other) and os.path.samefile(file + suffix, other):
            raise click.UsageError(f"{other} belongs to the database {file} itself.")


def documents(
    database: ReadableDatabase, table: str, limit: int | None = None, where: Any = None, offset: int = 0
) -> Iterator[dict[str, Any]]:
    """The documents of a table in order of their keys, all of one state, a page in memory at a time.

    Args:
        database: A view of the past (`db.at(seq)`), because it does not change between two pages.
        where: An expression for selecting documents.
        offset: So many of the selected documents are left out.

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
        rest: Selection = source.between(lower, maxval, left_bound=left_bound)  # type: ignore[arg-type]
        if where is not None:
            rest = rest.filter(where)
        page = (rest.skip(offset) if offset else rest).limit(wanted).run()
        yield from page
        if len(page) < wanted:
            return
        if limit is not None:
            limit -= wanted
        lower, left_bound, offset = page[-1][primary_key], "open", 0


def parse_keys(text: str) -> list[Any]:
    """The possible keys of a word on the command line, the likelier first: `42` is the number, or else the string.

    As JSON it has one meaning: `"42"` is the string, `{"$reactdb_type$": "uuid", "value": ...}` a UUID.
    """
    try:
        value = loads(text)
    except InvalidDocument:
        return [text]
    return [value] if isinstance(value, (str, dict)) else [value, text]


def find_document(table: Table, text: str) -> tuple[Any, dict[str, Any] | None]:
    """The key that a word of the command line means in this table, and its document, if there is one."""
    keys = parse_keys(text)
    for key in keys:
        document = table.get(key).run()
        if document is not None:
            return key, document
    return keys[0], None


def instant(time_ms: int) -> datetime:
    """A time of the log as a datetime in UTC."""
    seconds, milliseconds = divmod(time_ms, 1000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=milliseconds * 1000)


def timestamp(time_ms: int) -> str:
    """A time of the log as `2026-07-21T12:03:04.123Z`."""
    return instant(time_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")
