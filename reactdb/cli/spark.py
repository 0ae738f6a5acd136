"""`reactdb spark`: from the log to Parquet, and counts of it, with Spark.

`snapshot`, `changes` and `current` are the exporter's, and need neither Spark nor Java. For the others, mistakes in a command
line are reported before Spark is started, because starting it takes some seconds. Spark's log goes to a file, or nowhere; an
error of Spark's becomes one line. The session is always stopped.

Rule of this file: options, progress and output. `reactdb.lake` and `reactdb.spark.pipelines` do the work.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from reactdb.cli.files import MOMENT, json_option, timestamp
from reactdb.cli.groups import Verbs
from reactdb.cli.terminal import columns, is_terminal, safe, write_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from reactdb.lake.outcome import Outcome

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


files_option = click.option(
    "--files",
    metavar="GLOB",
    default="*.db",
    show_default=True,
    help="Which files of a folder are databases.",
)

SESSION_OPTIONS = (
    files_option,
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

    SOURCE is a database file, a folder of them or a glob, and for history, rates and audit also a folder that `changes` wrote;
    TARGET a folder. These three need Java 17, and the extra spark: python -m pip install 'reactdb[spark]', or in a checkout:
    python -m pip install -e '.[spark]'.
    """


def command(
    word: str, *own: Callable[[Any], Any], prints: str = "What was done as one JSON object."
) -> Callable[[Callable[..., Any]], click.Command]:
    """A command that runs Spark: its own arguments and options, then the shared ones.

    The function enters `start()` for a session, and returns its result. Its arguments have the names of a pipeline's in
    `reactdb.spark.pipelines`, and are checked as far as that is possible without Spark.

    Args:
        word: The noun for the result's count.
    """

    def make(function: Callable[..., Any]) -> click.Command:
        @wraps(function)
        def call(
            files: str, master: str | None, settings: dict[str, str], log: str | None, as_json: bool, **given: Any
        ) -> None:  # fmt: skip
            from reactdb.cli.sparkrun import run_session
            from reactdb.spark import environment

            environment.check()
            given["path_glob"] = files
            check(**given)
            print_result(function(start=lambda: run_session(master, settings, log), **given), word, as_json)

        decorated: Any = call
        for option in reversed((*own, *SESSION_OPTIONS, json_option(prints))):
            decorated = option(decorated)
        return spark.command()(decorated)

    return make


def check(
    *, source: str, table: str | None, target: str | None, overwrite: bool, path_glob: str, **others: Any
) -> None:
    """Check SOURCE, and TARGET if there is one."""
    from reactdb.lake import parts
    from reactdb.lake.file_states import check_table, read_file_states
    from reactdb.lake.fleet import FileOptions
    from reactdb.spark.pipelines import exported_changes

    if exported_changes(source, table) is None:
        files = read_file_states(FileOptions((source,), path_glob=path_glob))
        if table is not None:
            check_table(table, files)
    if target is not None:
        parts.refuse_taken(target, overwrite)
    elif overwrite:
        raise click.UsageError("--overwrite needs a TARGET.")


# ---------------------------------------------------------------------------------------------------------------
# Commands without Spark


def export_command(word: str, *own: Callable[[Any], Any]) -> Callable[[Callable[..., Any]], click.Command]:
    """A command of the exporter: its own arguments and options, then the shared ones. The function gives `export`'s arguments."""

    def make(function: Callable[..., dict[str, Any]]) -> click.Command:
        @wraps(function)
        def call(source: str, target: str, files: str, as_json: bool, **given: Any) -> None:
            from reactdb.cli.lake import call_exporter, print_outcome
            from reactdb.cli.terminal import Progress

            with Progress(f"{word}s") as bar:
                outcome = call_exporter(source, bar=bar, parquet=target, path_glob=files, **function(**given))
            print_outcome(outcome, word, as_json)

        decorated: Any = call
        for option in reversed((*own, files_option, json_option("What was done as one JSON object."))):
            decorated = option(decorated)
        return spark.command()(decorated)

    return make


@export_command(
    "document",
    source_argument,
    click.argument("table", metavar="TABLE"),
    target_argument,
    click.option(
        "--at",
        type=MOMENT,
        metavar="WHEN",
        help="As it was at this seq, or at this time (2026-01-31T12:00:00Z).",
    ),
    overwrite_option,
)
def snapshot(table: str, at: int | datetime | None, overwrite: bool) -> dict[str, Any]:
    """Write a table's documents as Parquet, all as of one moment.

    Needs no Java: it is `reactdb export --parquet TARGET --at WHEN`.
    """
    return {"table": table, "mode": "current", "at": "now" if at is None else at, "overwrite": overwrite}


@export_command("change", source_argument, target_argument, table_option)
def changes(table: str | None) -> dict[str, Any]:
    """Append the changes since the last time to Parquet, each exactly once.

    Needs no Java: it is `reactdb export --parquet TARGET --changes`. It can be interrupted, or killed, and called again.
    """
    return {"table": table, "mode": "changes", "at": None}


@export_command("document", source_argument, target_argument, table_option)
def current(table: str | None) -> dict[str, Any]:
    """Keep a table's documents as Parquet, up to date with the changes since the last time.

    Needs no Java: it is `reactdb export --parquet TARGET`. Read TARGET/latest.
    """
    return {"table": table, "mode": "current", "at": None}


# ---------------------------------------------------------------------------------------------------------------
# Commands that run Spark


@command("version", source_argument, target_argument, table_option, overwrite_option)
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
    from reactdb.spark import pipelines, queries

    names = [name.strip() for name in by.split(",")]
    queries.check_rates(bucket, names)
    with start() as session:
        if target is not None:
            return pipelines.write_rates(
                session, target=target, bucket=bucket, by=names, overwrite=overwrite, **given
            )
        with pipelines.change_rows(session, as_text=True, **given) as (rows, _):
            result = queries.rates(rows, bucket, names)
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
    from reactdb.spark import pipelines, queries

    with start() as session:
        if target is not None:
            return pipelines.write_audit(session, target=target, overwrite=overwrite, **given)
        with pipelines.change_rows(session, as_text=True, **given) as (rows, _):
            result = queries.audit(rows)
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
    from reactdb.cli.lake import print_outcome

    print_outcome(result, word, as_json)


def cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else safe(str(value))
