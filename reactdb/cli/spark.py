"""`reactdb spark`: from the log to Parquet, with Spark.

What can be wrong with the words of a command is found out before Spark is started, which takes some seconds. Spark's own log goes
to a file, or nowhere; what it has to say that matters comes as one line. Whatever happens, the session is stopped.

Rule of this file: options, progress and words. What the commands do is in `reactdb.spark.pipelines`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import click

from reactdb.cli.files import json_option
from reactdb.cli.terminal import columns, is_terminal, plural, safe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from reactdb.spark.pipelines import Outcome

F = TypeVar("F", bound=Callable[..., Any])

FORMS = ("struct", "json", "variant", "binary")
# Rows that are printed at most: what does not fit a screen belongs into a folder.
MOST_ROWS = 1_000

table_option = click.option("--table", metavar="TABLE", help="Of this table alone.")
overwrite_option = click.option(
    "--overwrite", is_flag=True, help="Replace a TARGET that was written so before."
)
schema_option = click.option(
    "--schema",
    metavar="FIELDS",
    help="The fields that are wanted of documents, as 'id string, score long'; needs --document struct.",
)


def document_option(default: str) -> Callable[[F], F]:
    return click.option(
        "--document",
        type=click.Choice(FORMS),
        default=default,
        show_default=True,
        help="What becomes of documents: columns of types, text, Spark's VARIANT, or bytes.",
    )


def session_options(function: F) -> F:
    """Where to run, and what each command can be told of it."""
    for option in reversed(
        (
            click.option(
                "--files",
                metavar="GLOB",
                help="Which files of a folder are databases.  [default: *.db]",
            ),
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
    ):
        function = option(function)
    return function


def read_pairs(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", context, parameter)
        found[name.strip()] = value.strip()
    return found


@click.group()
def spark() -> None:
    """Analyse files with Spark: from the log to Parquet.

    SOURCE is a database file, a folder of them, a glob, or a folder that `reactdb spark changes` wrote; TARGET a folder. Needs
    Java 17, and pip install 'reactdb[spark]'.
    """


@spark.command()
@click.argument("source", metavar="SOURCE")
@click.argument("table", metavar="TABLE")
@click.argument("target", metavar="TARGET")
@click.option("--at", metavar="WHEN", help="As it was at this seq, or at this time (2026-01-31T12:00:00Z).")
@document_option("struct")
@schema_option
@overwrite_option
@session_options
@json_option("What was done as one JSON object.")
def snapshot(
    source: str, table: str, target: str, at: str | None, document: str, schema: str | None, overwrite: bool,
    files: str | None, as_json: bool, **how: Any,
) -> None:  # fmt: skip
    """Write a table's documents as Parquet, all as of one moment."""
    when = int(at) if at is not None and at.isdecimal() else at

    def check() -> None:
        from reactdb.spark.parts import refuse_taken
        from reactdb.spark.pipelines import source_of_files

        source_of_files(source, table, filter_of(files))
        refuse_taken(target, overwrite)

    def work(session: Any) -> Outcome:
        from reactdb.spark import pipelines

        return pipelines.snapshot(
            session, source, target, table=table, as_of=when, document=document, schema=schema,
            overwrite=overwrite, options=filter_of(files),
        )  # fmt: skip

    tell(run(check, work, document, schema, **how), "document", as_json)


@spark.command()
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="TARGET")
@table_option
@document_option("json")
@schema_option
@session_options
@json_option("What was done as one JSON object.")
def changes(
    source: str,
    target: str,
    table: str | None,
    document: str,
    schema: str | None,
    files: str | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Append the changes since the last time to Parquet, each exactly once.

    TARGET remembers how far each database was read. It can be interrupted, or killed, and called again.
    """

    def check() -> None:
        from reactdb.spark.parts import PartFolder
        from reactdb.spark.pipelines import source_of_files

        source_of_files(source, table, filter_of(files))
        PartFolder(target, "changes").newest()

    def work(session: Any) -> Outcome:
        from reactdb.spark import pipelines

        return pipelines.append_changes(
            session, source, target, table=table, document=document, schema=schema, options=filter_of(files)
        )

    tell(run(check, work, document, schema, **how), "change", as_json)


@spark.command()
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="TARGET")
@table_option
@document_option("json")
@schema_option
@session_options
@json_option("What was done as one JSON object.")
def current(
    source: str,
    target: str,
    table: str | None,
    document: str,
    schema: str | None,
    files: str | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Keep the newest document of each key as Parquet: what changed since the last time is put in.

    TARGET/latest is what to read.
    """

    def check() -> None:
        from reactdb.spark.parts import GENERATION, PartFolder
        from reactdb.spark.rows import source_of

        source_of(source, table, filter_of(files))
        PartFolder(target, "current", GENERATION).newest()

    def work(session: Any) -> Outcome:
        from reactdb.spark import pipelines

        return pipelines.update_current(
            session, source, target, table=table, document=document, schema=schema, options=filter_of(files)
        )

    tell(run(check, work, document, schema, **how), "document", as_json)


@spark.command()
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="TARGET")
@table_option
@document_option("json")
@schema_option
@overwrite_option
@session_options
@json_option("What was done as one JSON object.")
def history(
    source: str, target: str, table: str | None, document: str, schema: str | None, overwrite: bool,
    files: str | None, as_json: bool, **how: Any,
) -> None:  # fmt: skip
    """Write every version of every document, with when it held, as Parquet."""

    def check() -> None:
        from reactdb.spark.parts import refuse_taken
        from reactdb.spark.rows import source_of

        source_of(source, table, filter_of(files))
        refuse_taken(target, overwrite)

    def work(session: Any) -> Outcome:
        from reactdb.spark import pipelines

        return pipelines.write_history(
            session,
            source,
            target,
            table=table,
            document=document,
            schema=schema,
            overwrite=overwrite,
            options=filter_of(files),
        )

    tell(run(check, work, document, schema, **how), "version", as_json)


@spark.command()
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="[TARGET]", required=False)
@table_option
@click.option(
    "--bucket", metavar="LENGTH", default="1 hour", show_default=True, help="Such as '10 minutes' or '1 day'."
)
@click.option(
    "--by",
    metavar="NAMES",
    default="table",
    show_default=True,
    help="Counted by these: table, key, origin, op; with commas.",
)
@overwrite_option
@session_options
@json_option("The rows, or what was done, as JSON objects.")
def rates(
    source: str, target: str | None, table: str | None, bucket: str, by: str, overwrite: bool,
    files: str | None, as_json: bool, **how: Any,
) -> None:  # fmt: skip
    """Count changes by table and time, or by key or writer; print it, or write it as Parquet."""
    names = [name.strip() for name in by.split(",")]

    def check() -> None:
        from reactdb.spark import queries

        queries.check_rates(bucket, names)
        check_report(source, table, target, overwrite, files)

    def work(session: Any) -> Outcome | list[dict[str, Any]]:
        from reactdb.spark import pipelines
        from reactdb.spark.rows import source_of

        if target is not None:
            return pipelines.write_rates(
                session,
                source,
                target,
                table=table,
                bucket=bucket,
                by=names,
                overwrite=overwrite,
                options=filter_of(files),
            )
        found = pipelines.rates(session, source_of(source, table, filter_of(files)), bucket, names)
        return collected(found.orderBy("bucket", "database", *names))

    tell(run(check, work, **how), "row", as_json)


@spark.command()
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="[TARGET]", required=False)
@table_option
@overwrite_option
@session_options
@json_option("The rows, or what was done, as JSON objects.")
def audit(
    source: str,
    target: str | None,
    table: str | None,
    overwrite: bool,
    files: str | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Count which fields change, how often and by whom; print it, or write it as Parquet."""

    def check() -> None:
        check_report(source, table, target, overwrite, files)

    def work(session: Any) -> Outcome | list[dict[str, Any]]:
        from reactdb.spark import pipelines
        from reactdb.spark.rows import source_of

        if target is not None:
            return pipelines.write_audit(
                session, source, target, table=table, overwrite=overwrite, options=filter_of(files)
            )
        found = pipelines.audit(session, source_of(source, table, filter_of(files)))
        return collected(found.orderBy("database", "table", "field", "origin"))

    tell(run(check, work, **how), "row", as_json)


# ---------------------------------------------------------------------------------------------------------------
# What they share


def run(
    check: Callable[[], None],
    work: Callable[[Any], Any],
    document: str = "json",
    schema: str | None = None,
    *,
    master: str | None,
    settings: Mapping[str, str],
    log: str | None,
) -> Any:
    """Check what was asked, start Spark, do it and stop Spark."""
    from reactdb.spark import environment

    if schema is not None and document != "struct":
        raise click.UsageError("--schema needs --document struct.")
    environment.check()
    check()
    from reactdb.cli.sparkrun import running

    with running(master, settings, log) as session:
        return work(session)


def check_report(
    source: str, table: str | None, target: str | None, overwrite: bool, files: str | None
) -> None:
    from reactdb.spark.parts import refuse_taken
    from reactdb.spark.rows import source_of

    source_of(source, table, filter_of(files))
    if target is not None:
        refuse_taken(target, overwrite)
    elif overwrite:
        raise click.UsageError("--overwrite needs a TARGET.")


def filter_of(files: str | None) -> dict[str, str]:
    return {} if files is None else {"pathGlobFilter": files}


def collected(rows: DataFrame) -> list[dict[str, Any]]:
    """The rows, if a person can still read them; times as `2026-07-21T12:03:04.123Z`."""
    from reactdb.cli.files import timestamp

    times = [name for name, type_ in rows.dtypes if type_ == "timestamp"]
    # As numbers: Python would get datetimes of the machine's time zone.
    as_numbers = [f"unix_millis({name}) AS {name}" if name in times else name for name in rows.columns]
    found = [row.asDict() for row in rows.selectExpr(*as_numbers).limit(MOST_ROWS + 1).collect()]
    if len(found) > MOST_ROWS:
        raise click.ClickException(f"there are more than {MOST_ROWS:,} rows: give a TARGET to write them to")
    return [
        {
            name: timestamp(value) if name in times and value is not None else value
            for name, value in row.items()
        }
        for row in found
    ]


def tell(found: Any, word: str, as_json: bool) -> None:
    """What was done, in words or as JSON; or rows, as a table on a terminal and as JSON lines elsewhere."""
    import sys

    from reactdb.cli.terminal import write_line

    if isinstance(found, list):
        if as_json or not is_terminal(sys.stdout):
            for row in found:
                write_line(row)
        elif found:
            numbers = [isinstance(value, (int, float)) for value in found[0].values()]
            cells = [[cell(value) for value in row.values()] for row in found]
            click.echo("\n".join(columns(list(found[0]), cells, numbers)))
        else:
            click.echo("no changes", err=True)
        return
    if as_json:
        write_line(asdict(found))
        return
    if found.rows:
        click.echo(f"{plural(found.rows, word)} written to {found.path}")
    else:
        click.echo(f"nothing new for {found.path}")
    for path, seq in found.positions.items():
        click.echo(f"  {path} up to seq {seq}")
    for path in found.begins_late:
        click.echo(f"  {path}: earlier history was removed; it begins with the documents as they were then")


def cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else safe(str(value))
