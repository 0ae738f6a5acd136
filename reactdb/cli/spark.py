"""`reactdb spark`: from the log to Parquet, with Spark.

Mistakes in a command line are reported before Spark is started, because starting it takes some seconds. Spark's log goes to a
file, or nowhere; an error of Spark's becomes one line. The session is always stopped.

Rule of this file: options, progress and output. `reactdb.spark.pipelines` does the work.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from reactdb.cli.files import json_option, timestamp
from reactdb.cli.groups import Verbs
from reactdb.cli.terminal import columns, is_terminal, plural, safe, write_line
from reactdb.spark.options import FORMS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from reactdb.spark.pipelines import Outcome

    # Starts Spark, and stops it at the end of the block.
    Start = Callable[[], AbstractContextManager[Any]]

# The most printed rows; a larger result belongs into a folder.
MOST_ROWS = 1_000


def read_pairs(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", context, parameter)
        pairs[name.strip()] = value.strip()
    return pairs


source_argument = click.argument("source", metavar="SOURCE")
target_argument = click.argument("target", metavar="TARGET")
report_argument = click.argument("target", metavar="[TARGET]", required=False)
table_option = click.option("--table", metavar="TABLE", help="Of this table alone.")
overwrite_option = click.option(
    "--overwrite", is_flag=True, help="Replace a TARGET that was written so before."
)


def document_options(default: str) -> Callable[[Any], Any]:
    """The options `--document` and `--schema`."""
    form = click.option(
        "--document",
        type=click.Choice(FORMS),
        default=default,
        show_default=True,
        help="The form of documents: typed columns, text, Spark's VARIANT, or bytes.",
    )
    schema = click.option(
        "--schema",
        metavar="FIELDS",
        help="The fields that are wanted of documents, as 'id string, score long'; needs --document struct.",
    )
    return lambda function: form(schema(function))


SESSION_OPTIONS = (
    click.option("--files", metavar="GLOB", help="Which files of a folder are databases.  [default: *.db]"),
    click.option(
        "--master",
        metavar="URL",
        help="Spark's master, as spark://host:7077.  [default: the environment's MASTER, or all cores of this machine]",
    ),
    click.option(
        "--conf",
        "settings",
        metavar="NAME=VALUE",
        multiple=True,
        callback=read_pairs,
        help="A setting of Spark's.",
    ),
    click.option(
        "--log",
        metavar="FILE",
        type=click.Path(dir_okay=False),
        help="Where Spark's own log goes.  [default: nowhere]",
    ),
)


@click.group(cls=Verbs)
def spark() -> None:
    """Analyse files with Spark: from the log to Parquet.

    SOURCE is a database file, a folder of them, a glob, or a folder that `reactdb spark changes` wrote; TARGET a folder. Needs
    Java 17, and the extra spark: python -m pip install 'reactdb[spark]', or in a checkout: python -m pip install -e '.[spark]'.
    """


def command(
    word: str,
    *own: Callable[[Any], Any],
    takes_files: bool = False,
    prints: str = "What was done as one JSON object.",
) -> Callable[[Callable[..., Any]], click.Command]:
    """A command of the group: its own arguments and options, then the shared ones.

    The function enters `start()` for a session, and returns its result. Its arguments have the names of a pipeline's in
    `reactdb.spark.pipelines`, and are checked as far as that is possible without Spark.

    Args:
        word: The noun for the result's count.
        takes_files: SOURCE must be database files, and no folder of changes.
    """

    def make(function: Callable[..., Any]) -> click.Command:
        @wraps(function)
        def call(
            files: str | None, master: str | None, settings: dict[str, str], log: str | None, as_json: bool, **given: Any
        ) -> None:  # fmt: skip
            from reactdb.cli.sparkrun import run_session
            from reactdb.spark import environment

            if given.get("schema") is not None and given["document"] != "struct":
                raise click.UsageError("--schema needs --document struct.")
            environment.check()
            given["options"] = {} if files is None else {"pathGlobFilter": files}
            check(takes_files=takes_files, **given)
            print_result(function(start=lambda: run_session(master, settings, log), **given), word, as_json)

        decorated: Any = call
        for option in reversed((*own, *SESSION_OPTIONS, json_option(prints))):
            decorated = option(decorated)
        return spark.command()(decorated)

    return make


def check(
    *,
    source: str,
    table: str | None,
    target: str | None,
    options: dict[str, str],
    overwrite: bool | None = None,
    takes_files: bool,
    **others: Any,
) -> None:
    """Check SOURCE, and TARGET if it is written once. `overwrite` is None if the command lacks the option."""
    from reactdb.lake import parts
    from reactdb.spark import pipelines, rows

    find = pipelines.source_of_files if takes_files else rows.source_of
    find(source, table, options)
    if target is not None and overwrite is not None:
        parts.refuse_taken(target, overwrite)
    elif overwrite:
        raise click.UsageError("--overwrite needs a TARGET.")


@command(
    "document",
    source_argument,
    click.argument("table", metavar="TABLE"),
    target_argument,
    click.option(
        "--at", metavar="WHEN", help="As it was at this seq, or at this time (2026-01-31T12:00:00Z)."
    ),
    document_options("struct"),
    overwrite_option,
    takes_files=True,
)
def snapshot(start: Start, at: str | None, **given: Any) -> Outcome:
    """Write a table's documents as Parquet, all as of one moment."""
    from reactdb.spark import options, pipelines

    if at is not None:
        options.parse({"asOf": at})
    as_of = int(at) if at is not None and at.isdecimal() else at
    with start() as session:
        return pipelines.snapshot(session, as_of=as_of, **given)


@command("change", source_argument, target_argument, table_option, document_options("json"), takes_files=True)
def changes(start: Start, target: str, **given: Any) -> Outcome:
    """Append the changes since the last time to Parquet, each exactly once.

    TARGET remembers how far each database was read. It can be interrupted, or killed, and called again.
    """
    from reactdb.lake import parts
    from reactdb.spark import pipelines

    parts.PartFolder(target, "changes").newest()
    with start() as session:
        return pipelines.append_changes(session, target=target, **given)


@command("document", source_argument, target_argument, table_option, document_options("json"))
def current(start: Start, target: str, **given: Any) -> Outcome:
    """Keep the newest document of each key as Parquet: what changed since the last time is put in.

    TARGET/latest is what to read.
    """
    from reactdb.lake import parts
    from reactdb.spark import pipelines

    parts.PartFolder(target, "current", parts.GENERATION).newest()
    with start() as session:
        return pipelines.update_current(session, target=target, **given)


@command(
    "version", source_argument, target_argument, table_option, document_options("json"), overwrite_option
)
def history(start: Start, **given: Any) -> Outcome:
    """Write every version of every document, with when it held, as Parquet."""
    from reactdb.spark import pipelines

    with start() as session:
        return pipelines.write_history(session, **given)


@command(
    "row",
    source_argument,
    report_argument,
    table_option,
    click.option(
        "--bucket",
        metavar="LENGTH",
        default="1 hour",
        show_default=True,
        help="Such as '10 minutes' or '1 day'.",
    ),
    click.option(
        "--by",
        metavar="NAMES",
        default="table",
        show_default=True,
        help="Counted by these: table, key, origin, op; with commas.",
    ),
    overwrite_option,
    prints="The rows, or what was done, as JSON objects.",
)
def rates(
    start: Start, bucket: str, by: str, target: str | None, overwrite: bool, **given: Any
) -> Outcome | list[dict[str, Any]]:
    """Count changes by table and time, or by key or writer; print it, or write it as Parquet."""
    from reactdb.spark import pipelines, queries, rows

    names = [name.strip() for name in by.split(",")]
    queries.check_rates(bucket, names)
    with start() as session:
        if target is not None:
            return pipelines.write_rates(
                session, target=target, bucket=bucket, by=names, overwrite=overwrite, **given
            )
        result = pipelines.rates(session, rows.source_of(**given), bucket, names)
        return collect_rows(result.orderBy("bucket", "database", *names))


@command(
    "row",
    source_argument,
    report_argument,
    table_option,
    overwrite_option,
    prints="The rows, or what was done, as JSON objects.",
)
def audit(start: Start, target: str | None, overwrite: bool, **given: Any) -> Outcome | list[dict[str, Any]]:
    """Count which fields change, how often and by whom; print it, or write it as Parquet."""
    from reactdb.spark import pipelines, rows

    with start() as session:
        if target is not None:
            return pipelines.write_audit(session, target=target, overwrite=overwrite, **given)
        result = pipelines.audit(session, rows.source_of(**given))
        return collect_rows(result.orderBy("database", "table", "field", "origin"))


# ---------------------------------------------------------------------------------------------------------------
# Shared by the commands


def collect_rows(rows: DataFrame) -> list[dict[str, Any]]:
    """The rows, if they are few enough to print; times as `2026-07-21T12:03:04.123Z`."""
    times = [name for name, type_ in rows.dtypes if type_ == "timestamp"]
    # Times are collected as numbers, because Python would get datetimes in the machine's time zone.
    as_numbers = [f"unix_millis({name}) AS {name}" if name in times else name for name in rows.columns]
    first_rows = [row.asDict() for row in rows.selectExpr(*as_numbers).limit(MOST_ROWS + 1).collect()]
    if len(first_rows) > MOST_ROWS:
        raise click.ClickException(f"there are more than {MOST_ROWS:,} rows: give a TARGET to write them to")
    return [
        {
            name: timestamp(value) if name in times and value is not None else value
            for name, value in row.items()
        }
        for row in first_rows
    ]


def print_result(result: Any, word: str, as_json: bool) -> None:
    """Print an outcome as text or JSON, or rows as a table on a terminal and as JSON lines elsewhere."""
    if isinstance(result, list):
        if as_json or not is_terminal(sys.stdout):
            for row in result:
                write_line(row)
        elif result:
            numbers = [isinstance(value, (int, float)) for value in result[0].values()]
            cells = [[cell(value) for value in row.values()] for row in result]
            click.echo("\n".join(columns(list(result[0]), cells, numbers)))
        else:
            click.echo("no changes", err=True)
        return
    if as_json:
        write_line(asdict(result))
        return
    if result.rows:
        click.echo(f"{plural(result.rows, word)} written to {result.path}")
    else:
        click.echo(f"nothing new for {result.path}")
    for path, seq in result.positions.items():
        click.echo(f"  {path} up to seq {seq}")
    for path in result.begins_late:
        click.echo(f"  {path}: earlier history was removed; it begins with the documents as they were then")


def cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else safe(str(value))
