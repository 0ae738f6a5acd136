"""`reactdb get`, `put` and `delete`: one document, or a few, by their keys."""

from __future__ import annotations

import sys
from typing import Any

import click

from reactdb.cli import documentlines
from reactdb.cli.changelines import format_value
from reactdb.cli.files import (
    file_argument,
    find_document,
    json_option,
    open_database,
    read_standard_input,
    table_argument,
)
from reactdb.cli.terminal import echo_lines, is_terminal, plural, safe, safe_json
from reactdb.errors import InvalidDocument
from reactdb.json import loads, to_json

keys_argument = click.argument("keys", metavar="KEY...", nargs=-1, required=True)


@click.command()
@file_argument
@table_argument
@keys_argument
@json_option("One JSON object a line.  [default: where the output is no terminal]")
def get(file: str, table: str, keys: tuple[str, ...], as_json: bool) -> None:
    """Print the documents of keys.

    A terminal gets a line for each field. KEY is a number or a text, or any key as JSON ('"42"' is the text). If a
    document is missing, the exit code is 1, after the others.

    In Python: db.table("games").get(1).run()
    """
    with open_database(file) as database:
        source = database.table(table)
        found = [(text, *find_document(source, text)) for text in keys]
    documents = [document for _, _, document in found if document is not None]
    if as_json or not is_terminal(sys.stdout):
        echo_lines(documentlines.as_json(documents), safe_json)
    else:
        echo_lines(documentlines.as_records(documents))
    missing = [format_value(key) for _, key, document in found if document is None]
    if missing:
        raise click.ClickException(f"table `{table}` has no document {', '.join(missing)}")


@click.command()
@file_argument
@table_argument
@click.argument("texts", metavar="[DOCUMENT...]", nargs=-1)
@click.option(
    "--update", "is_update", is_flag=True, help="Merge into a document that exists; its other fields stay."
)
@click.option("--insert", "is_insert", is_flag=True, help="Refuse a document whose key exists.")
@click.option("--origin", help="The name of the writer in the log.")
def put(
    file: str, table: str, texts: tuple[str, ...], is_update: bool, is_insert: bool, origin: str | None
) -> None:
    """Store documents, all in one commit.

    DOCUMENT is a JSON object, such as '{"id": 1, "score": 12}'. Without one, or with `-`, JSON lines are read from standard
    input. A document with the same key is replaced.

    In Python: db.table("games").insert({"id": 1, "score": 12}, conflict="replace")
    """
    if is_update and is_insert:
        raise click.UsageError("--update and --insert are two ways: give one of them.")
    given = list(texts) if texts and texts != ("-",) else [line for line in read_lines() if line.strip()]
    documents = [parse_document(text, number) for number, text in enumerate(given, 1)]
    conflict: Any = "update" if is_update else "error" if is_insert else "replace"
    with open_database(file, write=True) as database, database.transaction(origin=origin):
        result = database.table(table).insert(documents, conflict=conflict)
    counts = [
        f"{result[word]:,} {word}" for word in ("inserted", "replaced", "unchanged") if result.get(word)
    ]
    made = "".join(f"; key {key}" for key in result.get("generated_keys", [])[:3])
    click.echo(
        f"{plural(len(documents), 'document')} in {table}: {', '.join(counts) or 'nothing to do'}{made}"
    )


def read_lines() -> list[str]:
    text = read_standard_input()
    # Not `splitlines`: texts in JSON may have the line separators of Unicode as they are.
    return text.replace("\r", "\n").split("\n")


def parse_document(text: str, number: int) -> dict[str, Any]:
    try:
        document = loads(text)
    except InvalidDocument as error:
        raise click.ClickException(f"document {number}: {str(error).removeprefix('document: ')}") from None
    if not isinstance(document, dict):
        raise click.ClickException(
            f"document {number} is {format_value(to_json(document))}, and not a JSON object, such as '{{\"id\": 1}}'"
        )
    return document


@click.command()
@file_argument
@table_argument
@keys_argument
@click.option("--origin", help="The name of the writer in the log.")
def delete(file: str, table: str, keys: tuple[str, ...], origin: str | None) -> None:
    """Delete the documents of keys, all in one commit.

    If one of them does not exist, nothing is deleted. KEY is as for `get`.

    In Python: db.table("games").get(1).delete()
    """
    with open_database(file, write=True) as database, database.transaction(origin=origin):
        target = database.table(table)
        for text in keys:
            key, document = find_document(target, text)
            if document is None:
                raise click.ClickException(
                    f"table `{table}` has no document {format_value(key)}; nothing was deleted"
                )
            target.get(key).delete()
    them = "it" if len(keys) == 1 else "them"
    click.echo(
        f"deleted {plural(len(keys), 'document')} of {table}; reactdb undo {safe(file)} brings {them} back"
    )
