"""`reactdb import`: stores JSON, CSV or TSV in a table, in batches of one commit each, and can resume after a stop.

The position of an import is stored with its documents, as the origin of the commit:

    import people.jsonl line 5000 0f3a9c55d2a4b1e6

the source's name, the number of the last line, and the beginning of the SHA-256 of all lines up to it. So a position can
neither be lost nor be ahead of the documents, and `--resume` notices if the part of the source that was read has changed.

A wrong line ends the import: its batch is not written, and the batches before it are.
"""

from __future__ import annotations

import csv
import hashlib
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import groupby
from typing import Any, BinaryIO, NamedTuple

import click

from reactdb.cli.blobfiles import put_from
from reactdb.cli.csvform import TYPES, read_header, read_row
from reactdb.cli.export import Deleted
from reactdb.cli.files import (
    complete_file,
    file_argument,
    json_option,
    open_database,
    refuse_database,
    table_argument,
)
from reactdb.cli.groups import nearest
from reactdb.cli.sources import BadLine, LineReader, parse_delimiter, recognise
from reactdb.cli.terminal import Progress, note, plural, write_line
from reactdb.database import Database
from reactdb.errors import (
    BlobNotFound,
    DuplicateIndexKey,
    DuplicateKey,
    InvalidDocument,
    InvalidKey,
    QueryError,
    TableNotFound,
    UsageError,
)
from reactdb.json import deleted_key, parse
from reactdb.json import read as read_value
from reactdb.store.catalogue import check_name

POSITION = re.compile(r"import (.*) line (\d+) ([0-9a-f]{16})", re.DOTALL)
# An origin may have 256 characters.
LONGEST_NAME = 150
# Several times the text of the largest document. A source without line ends must not fill the memory.
LONGEST_LINE_BYTES = 128 * 1024 * 1024
LARGEST_CELL = 64 * 1024 * 1024
SEARCH_CHANGES = 2_000


class Item(NamedTuple):
    """One document or deletion of the source, and the line where it begins (a CSV row may end some lines later)."""

    line: int
    what: dict[str, Any] | Deleted


class Interrupted(click.ClickException):
    """Ctrl-C, with a message."""

    exit_code = 130


class ImportedBatch(NamedTuple):
    """A written batch, or the last batch.

    Attributes:
        after: The newest seq before it.
        origin: The origin of its changes.
        total: How many documents are stored after it.
    """

    after: int
    origin: str
    total: int

    def count_done_documents(self, database: Database, table: str, counted: int) -> int:
        """How many documents are stored; `counted` of them were counted: Ctrl-C may come between a commit and its count."""
        stored = database.log(self.after, database.seq, table)
        return self.total if any(change.origin == self.origin for change in stored) else counted


class ImportPosition(NamedTuple):
    """How far an earlier import came: its last line, the hash of the lines up to it, and the seq of its last change."""

    line: int
    fingerprint: str
    seq: int


class Lines:
    """The lines of a source as text, counted and hashed as they are read.

    The lines up to `start` were imported before and must not have changed.

    Raises:
        ClickException: They have changed. BadLine: A line is not UTF-8.
    """

    def __init__(self, stream: LineReader, start: ImportPosition | None) -> None:
        self._stream = stream
        self._start = start
        self._hash = hashlib.sha256()
        self.number = 0
        self.position = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        data = self._stream.readline(LONGEST_LINE_BYTES)
        if not data:
            if self.is_behind_start:
                raise self._other(f"it ends at line {self.number}")
            raise StopIteration
        # A last line without its line end must hash the same when other lines follow later.
        self._hash.update(data if data.endswith(b"\n") else data + b"\n")
        self.position += len(data)
        self.number += 1
        if len(data) == LONGEST_LINE_BYTES and not data.endswith(b"\n"):
            raise BadLine(self.number, f"longer than {LONGEST_LINE_BYTES:,} bytes")
        start = self._start
        if start is not None and self.number == start.line and self.fingerprint() != start.fingerprint:
            raise self._other("it has changed")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadLine(self.number, f"not UTF-8: byte {error.start + 1} of the line") from None
        # Excel marks a CSV in UTF-8 with a byte order mark.
        return text.removeprefix("\ufeff") if self.number == 1 else text

    @property
    def is_behind_start(self) -> bool:
        """Whether the next lines were imported before."""
        return self._start is not None and self.number < self._start.line

    @property
    def is_known(self) -> bool:
        """Whether the last read line was imported before."""
        return self._start is not None and self.number <= self._start.line

    def fingerprint(self) -> str:
        return self._hash.hexdigest()[:16]

    def _other(self, how: str) -> click.ClickException:
        assert self._start is not None
        return click.ClickException(
            f"the source differs from the imported part up to line {self._start.line} at seq {self._start.seq}: {how}"
        )


@click.command("import")
@file_argument
@table_argument
@click.argument("source", metavar="[SOURCE]", default="-", shell_complete=complete_file)
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "json", "csv", "tsv"]),
    help="[default: by SOURCE's ending and its first line]",
)
@click.option(
    "--delimiter",
    metavar="CHARACTER",
    callback=parse_delimiter,
    help="CSV: between two cells, such as ';' or tab.  [default: by the header]",
)
@click.option("--create", is_flag=True, help="Make the table, and the file, where they are missing.")
@click.option("--primary-key", help="Of the table that --create makes.  [default: id]")
@click.option(
    "--conflict",
    type=click.Choice(["error", "replace", "update"]),
    default="error",
    show_default=True,
    help="Where a key is taken: stop, replace the document, or merge into it.",
)
@click.option(
    "--batch",
    type=click.IntRange(min=1, max=100_000),
    default=1000,
    show_default=True,
    help="Documents a commit.",
)
@click.option(
    "--resume", is_flag=True, help="Go on after the last line that an import of this SOURCE stored."
)
@click.option(
    "--blobs",
    metavar="FOLDER",
    help="Where the blobs are that the documents refer to, as `export --blobs` has them.",
)
@click.option("--strings", is_flag=True, help="CSV: every cell is a string.")
@click.option(
    "--type", "types", multiple=True, metavar="COLUMN=TYPE", help="CSV: what a column holds. Can be repeated."
)
@json_option("The summary as one JSON object.")
def import_(
    file: str,
    table: str,
    source: str,
    form: str | None,
    delimiter: str | None,
    create: bool,
    primary_key: str | None,
    conflict: str,
    batch: int,
    resume: bool,
    blobs: str | None,
    strings: bool,
    types: tuple[str, ...],
    as_json: bool,
) -> None:
    """Store documents from JSON, CSV or TSV.

    From SOURCE or standard input, in batches, each one commit. JSON is an object a line, or an array of objects. A wrong line
    stops the import before its batch; --resume goes on after the last batch that was stored. Deletions in an export of
    changes are carried out.

    TYPE is auto, bool, date, datetime, decimal, float, int, json, string, time or uuid.

    In Python: db.table("games").insert(documents)
    """
    if delimiter is not None and form in ("json", "jsonl"):
        raise click.UsageError("--delimiter is for CSV.")
    if primary_key is not None and not create:
        raise click.UsageError("--primary-key is for a table that --create makes.")
    declared = parse_types(types)
    # Before the file is made: a failing command leaves no file behind.
    check_name("Table", table)
    if source != "-":
        refuse_database(file, source)
    advice = "; --create makes one, and the table in it"
    with ExitStack() as stack:
        stream, total = stack.enter_context(open_source(source))
        text = recognise(stream, source, form, delimiter)
        if (strings or types) and text.form != "csv":
            raise click.UsageError("--strings and --type are for CSV.")
        database = stack.enter_context(open_database(file, write=True, create=create, advice=advice))
        make_table(database, table, primary_key, create=create)
        name = name_of(source)
        start = position_to_resume(database, table, name) if resume else None
        if text.remarks:
            note(f"{'standard input' if source == '-' else source}: {', '.join(text.remarks)}")
        lines = Lines(text.lines, start)
        counts: Counter[str] = Counter()
        writing = ImportedBatch(database.seq, "", 0)
        with Progress("documents", total) as progress:
            try:
                items = read(lines, text.form, text.delimiter, strings, declared)
                for group in batches(items, batch):
                    put_from(database.blobs, [item.what for item in group], blobs)
                    origin = f"import {name} line {lines.number} {lines.fingerprint()}"
                    writing = ImportedBatch(database.seq, origin, count_done(counts) + len(group))
                    counts.update(write(database, table, group, conflict, origin))
                    progress.update(count_done(counts), lines.position)
            except BadLine as error:
                where = "standard input" if source == "-" else source
                reason = str(error).removesuffix(".") + so_far(count_done(counts), text.unit)
                raise click.ClickException(f"{where}, {text.unit} {error.line}: {reason}") from None
            except KeyboardInterrupt:
                count = writing.count_done_documents(database, table, count_done(counts))
                raise Interrupted(f"interrupted{so_far(count, text.unit)}") from None
        seq = database.seq
    figures = {name: counts[name] for name in ("inserted", "replaced", "unchanged", "deleted", "skipped")}
    if as_json:
        write_line(
            {
                "table": table,
                **figures,
                "lines": lines.number,
                "resumed_after": start and start.line,
                "seq": seq,
            }
        )
        return
    summary = ", ".join(f"{count:,} {name}" for name, count in figures.items() if count) or "nothing to do"
    after = f" after line {start.line:,}" if start is not None else ""
    click.echo(f"imported {plural(count_done(counts), 'document')} into {table}{after}: {summary}; seq {seq}")


def make_table(database: Database, table: str, primary_key: str | None, *, create: bool) -> None:
    """Make the table where it is missing.

    Raises:
        ClickException: It is missing, and none is to be made; or it has another primary key.
    """
    if table in database.table_list():
        there = database.table(table).primary_key
        if primary_key not in (None, there):
            raise click.ClickException(f"table `{table}` has the primary key {there!r}, not {primary_key!r}")
    elif create:
        database.table_create(table, primary_key or "id", exist_ok=True)
    else:
        raise click.ClickException(
            f"{TableNotFound(table)}{nearest(table, database)} With --create the import makes it."
        )


def count_done(counts: Counter[str]) -> int:
    return sum(counts[name] for name in ("inserted", "replaced", "unchanged", "deleted", "skipped"))


def so_far(count: int, unit: str) -> str:
    if not count:
        return "; nothing was stored"
    before = "of the lines before" if unit == "line" else "before it"
    return f"; {plural(count, 'document')} {before} are stored, and --resume goes on after them"


def parse_types(types: Iterable[str]) -> dict[str, str]:
    """`("price=decimal",)` as `{"price": "decimal"}`."""
    kinds = {}
    for declaration in types:
        column, equals, kind = declaration.rpartition("=")
        if not equals or not column or kind not in TYPES:
            raise click.BadParameter(
                f"{declaration!r} is not COLUMN=TYPE with a TYPE of {', '.join(TYPES)}", param_hint="--type"
            )
        kinds[column] = kind
    return kinds


@contextmanager
def open_source(source: str) -> Iterator[tuple[BinaryIO, int | None]]:
    """The source as bytes, and its size if that is known."""
    if source == "-":
        yield sys.stdin.buffer, None
        return
    with open(source, "rb") as stream:
        # A named pipe has no size.
        yield stream, os.fstat(stream.fileno()).st_size or None


# ---------------------------------------------------------------------------------------------------------------
# Reading


def read(lines: Lines, form: str, delimiter: str, strings: bool, declared: dict[str, str]) -> Iterator[Item]:
    """The items of the source, after the position where an earlier import stopped.

    Raises:
        BadLine: When the reading reaches it.
    """
    if form == "csv":
        yield from read_csv(lines, delimiter, strings, declared)
    else:
        yield from read_json(lines)


def read_json(lines: Lines) -> Iterator[Item]:
    for text in lines:
        if lines.is_known or not text.strip():
            continue
        try:
            parsed = parse(text)
            key = deleted_key(parsed)
            value = Deleted(*key) if key is not None else read_value(parsed, [])
        except InvalidDocument as error:
            is_csv = lines.number == 1 and text.lstrip()[:1] not in ("{", "[", "")
            hint = "; if it is CSV, give --format csv" if is_csv else ""
            raise BadLine(lines.number, describe_error(error) + hint) from None
        if not isinstance(value, (dict, Deleted)):
            raise BadLine(lines.number, f"a line is one JSON object, not {type(value).__name__}")
        yield Item(lines.number, value)


def read_csv(lines: Lines, delimiter: str, strings: bool, declared: dict[str, str]) -> Iterator[Item]:
    csv.field_size_limit(LARGEST_CELL)
    reader = csv.reader(lines, strict=True, delimiter=delimiter)
    names: list[str] | None = None
    readers: list[Any] = []
    while True:
        first = lines.number + 1
        try:
            cells = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            raise BadLine(first, f"not CSV: {error}") from None
        if not cells:
            continue
        try:
            if names is None:
                names = read_header(cells)
                for column in declared:
                    if column not in names:
                        near = nearest(column, names).removesuffix(".")
                        raise InvalidDocument(
                            f"there is no column {column!r}, which --type names.{near}".removesuffix(".")
                        )
                usual = "string" if strings else "auto"
                readers = [TYPES[declared.get(name, usual)] for name in names]
                continue
            if lines.is_known:
                continue
            yield Item(first, read_row(names, readers, cells))
        except InvalidDocument as error:
            raise BadLine(first, describe_error(error)) from None


def describe_error(error: Exception) -> str:
    """The error's message without the path in the document."""
    return error.reason if isinstance(error, InvalidDocument) and not error.path else str(error)


def batches(items: Iterator[Item], most: int) -> Iterator[list[Item]]:
    group: list[Item] = []
    for item in items:
        group.append(item)
        if len(group) == most:
            yield group
            group = []
    if group:
        yield group


# ---------------------------------------------------------------------------------------------------------------
# Writing


def write(database: Database, table: str, group: list[Item], conflict: str, origin: str) -> Counter[str]:
    """Store one batch as one commit. Returns ReQL's counters.

    Raises:
        BadLine: A document cannot be stored, or its key is taken; then nothing of the batch is stored.
    """
    counts: Counter[str] = Counter()
    target = database.table(table)
    try:
        with database.transaction(origin=origin):
            for is_deletion, some in groupby(group, key=lambda item: isinstance(item.what, Deleted)):
                if is_deletion:
                    for item in some:
                        assert isinstance(item.what, Deleted)
                        counts.update(numbers(target.get(item.what.key).delete()))
                else:
                    documents = [item.what for item in some]
                    counts.update(numbers(target.insert(documents, conflict=conflict)))  # type: ignore[arg-type]
    except (BlobNotFound, InvalidDocument, InvalidKey, DuplicateKey, QueryError) as error:
        bad_line = find_bad_line(database, table, group, conflict)
        raise bad_line or BadLine(find_line(error, group, target.primary_key), str(error)) from error
    return counts


def find_line(error: Exception, group: list[Item], primary_key: str) -> int:
    """The line of the document that an error names; else the first line. Only the end of the batch's transaction
    shows a duplicate in a unique index."""
    if isinstance(error, DuplicateIndexKey):
        for item in reversed(group):
            if not isinstance(item.what, Deleted) and item.what.get(primary_key) == error.key:
                return int(item.line)
    return group[0].line


def numbers(result: dict[str, Any]) -> dict[str, int]:
    return {name: count for name, count in result.items() if isinstance(count, int)}


def find_bad_line(database: Database, table: str, group: list[Item], conflict: str) -> BadLine | None:
    """The line for which a batch was refused: found by storing its items one by one in a transaction that is rolled back."""
    target = database.table(table)
    try:
        with database.transaction():
            for item in group:
                try:
                    if isinstance(item.what, Deleted):
                        target.get(item.what.key).delete()
                    else:
                        target.insert(item.what, conflict=conflict)  # type: ignore[arg-type]
                except UsageError as error:
                    raise BadLine(item.line, describe_error(error)) from error
            raise BadLine(group[0].line, "")
    except BadLine as bad_line:
        return bad_line if str(bad_line) else None


# ---------------------------------------------------------------------------------------------------------------
# Where an earlier import stopped


def name_of(source: str) -> str:
    """The name of a source in origins, without its folder, so that the source can be moved."""
    return os.path.basename(source)[-LONGEST_NAME:] if source != "-" else "-"


def position_to_resume(database: Database, table: str, name: str) -> ImportPosition | None:
    """The position where the newest import of a source with this name into this table stopped; None at the first import.

    Raises:
        ClickException: The log has no such import, but its beginning was removed, and the table has documents, so an import
            may be among the removed changes.
    """
    position = last_position(database, table, name)
    if position is not None:
        return position
    shown = "standard input" if name == "-" else name
    if database.stats()["oldest"] and database.table(table).count().run():
        raise click.ClickException(
            f"the log knows of no import of {shown} into table `{table}`, and its beginning was removed: to import all of the "
            "source, leave out --resume"
        )
    note(f"no earlier import of {shown} into table {table}: it begins at the first line")
    return None


def last_position(database: Database, table: str, name: str) -> ImportPosition | None:
    """The newest position of an import in the log, searched from the log's end."""
    top, oldest = database.seq, database.stats()["oldest"]
    while top > oldest:
        bottom = max(oldest, top - SEARCH_CHANGES)
        position = None
        for change in database.log(bottom, top, table):
            match = POSITION.fullmatch(change.origin) if change.origin is not None else None
            if match is not None and match[1] == name:
                position = ImportPosition(int(match[2]), match[3], change.seq)
        if position is not None:
            return position
        top = bottom
    return None
