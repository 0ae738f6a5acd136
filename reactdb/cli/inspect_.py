"""`reactdb inspect`: the content of a file, of a table, or of a document's past."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click

from reactdb.change import Change
from reactdb.cli import changelines
from reactdb.cli.files import (
    file_argument,
    json_option,
    open_database,
    optional_table_argument,
    parse_keys,
)
from reactdb.cli.groups import nearest
from reactdb.cli.terminal import columns, plural, safe, size, write_line
from reactdb.errors import TableNotFound
from reactdb.store.tools.figures import FileFigures, TableFigures, measure


@click.command()
@file_argument
@optional_table_argument
@click.argument("key", metavar="[KEY]", required=False)
@json_option("One JSON object; for a KEY, one a line.")
def inspect(file: str, table: str | None, key: str | None, as_json: bool) -> None:
    """Show the content of a file, a table or a document's history.

    KEY is a primary key: a number or a string, or any key as JSON ('"42"' is the string).

    In Python: db.stats(), db.table("games").get(1).history()
    """
    if table is not None and key is not None:
        _inspect_document(file, table, key, as_json)
        return
    figures = measure(file)
    if table is None:
        if as_json:
            write_line(asdict(figures))
        else:
            for line in file_lines(figures):
                click.echo(line)
        return
    chosen = next((one for one in figures.tables if one.name == table), None)
    if chosen is None:
        near = nearest(table, (one.name for one in figures.tables))
        raise click.ClickException(f"{TableNotFound(table)}{near}")
    if as_json:
        write_line(asdict(chosen))
    else:
        for line in table_lines([chosen]):
            click.echo(line)


def file_lines(figures: FileFigures) -> Iterator[str]:
    """The figures of a file, a line each."""
    documents = sum(table.documents for table in figures.tables)
    yield click.style(safe(figures.path), bold=True)
    yield f"  format {figures.format}, SQLite {figures.sqlite_version}, database {figures.database_id}"
    kept = f"past seq {figures.oldest:,}" if figures.oldest else "from the beginning"
    entries, text = plural(figures.log_entries, "entry"), size(figures.log_bytes)
    yield f"  seq {figures.seq:,}; the log can be read {kept}: {entries}, {text} of documents"
    limit = figures.history_limit_bytes
    may = "" if limit is None else f" of at most {size(limit)}"
    yield f"  history {size(figures.history_bytes)}{may}; retention {figures.retention}"
    if figures.needed_from is not None:
        yield f"  {safe(str(figures.needed_by))} still needs the history past seq {figures.needed_from:,}"
    for name, reason in figures.stopped_views.items():
        yield click.style(
            f"  table {safe(name)} is no longer kept up to date: {safe(reason)}",
            fg="red",
        )
    each = f", {size(round(figures.file_bytes / documents))} a document" if documents else ""
    yield f"  file {size(figures.file_bytes)}{each}; {size(figures.free_bytes)} of it free; WAL {size(figures.wal_bytes)}"
    if figures.blobs:
        yield f"  {plural(figures.blobs, 'blob')}, {size(figures.blob_bytes)}"
    yield ""
    if figures.tables:
        yield from table_lines(figures.tables)
    else:
        yield "no tables"


def table_lines(tables: tuple[TableFigures, ...] | list[TableFigures]) -> Iterator[str]:
    """Tables as columns, then their indexes."""
    header = ["table", "primary key", "documents", "size", "a document", "log entries", "log size"]
    cells = [
        [
            table.name,
            safe(table.primary_key),
            f"{table.documents:,}",
            size(table.document_bytes),
            size(round(table.document_bytes / table.documents)) if table.documents else "-",
            f"{table.log_entries:,}",
            size(table.log_bytes),
        ]
        for table in tables
    ]
    yield from columns(header, cells, [False, False, True, True, True, True, True])
    indexes = [(table.name, index) for table in tables for index in table.indexes]
    if indexes:
        yield ""
        yield from columns(
            ["index", "of table", "multi", "entries", "expression"],
            [
                [
                    safe(index.name),
                    name,
                    "yes" if index.multi else "no",
                    f"{index.entries:,}",
                    safe(index.expression),
                ]
                for name, index in indexes
            ],
            [False, False, False, True],
        )


def _inspect_document(file: str, table: str, key: str, as_json: bool) -> None:
    history: list[Change] = []
    with open_database(file) as database:
        meant = parse_keys(key)
        for value in meant:
            history = database.table(table).get(value).history()
            if history:
                break
        if not history:
            shown = " or ".join(changelines.format_value(value) for value in meant)
            raise click.ClickException(
                f"table `{table}` has no document {shown}, and the log has no version of it"
            )
    for change in history:
        if as_json:
            write_line(changelines.as_json(change))
        else:
            click.echo(changelines.as_line(change))
    if not as_json:
        newest: Any = history[-1]
        words = "deleted" if newest.new_val is None else "the newest is"
        versions = plural(len(history), "entry")
        click.echo(
            f"{versions}; {words} seq {newest.seq}" if newest.new_val is not None else f"{versions}; {words}"
        )
