"""Pipelines: results from a log, by Spark SQL over change rows: histories, rates, audits.

    write_history   every version of every document, with its validity   written once
    write_rates     how many changes in each bucket of time               written once
    write_audit     which fields change, how often, and by whom           written once

The rows come from a folder that `reactdb export --changes --parquet` wrote. If the source is database files, their changes are
exported to such a folder for the time of the run: so the rows are the same, also of compacted logs. Tables that are kept up to
date need no Spark: see `reactdb.lake`.

Rule of this file: a pipeline is a query of `queries` and a target.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from reactdb.errors import UsageError
from reactdb.lake.data_files import storage_errors
from reactdb.lake.exporter import export_changes
from reactdb.lake.outcome import Outcome
from reactdb.lake.parts import Manifest, PartFolder, parquet_rows, whole_folder
from reactdb.spark import queries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Paths = str | Sequence[str]
CHANGES = "changes"
CANCELLED_S = 5.0


def write_history(
    session: SparkSession,
    source: Paths,
    target: str,
    *,
    table: str | None = None,
    overwrite: bool = False,
    path_glob: str = "*.db",
) -> Outcome:
    """Every version of every document, with its validity, as Parquet: a slowly changing dimension of type 2.

    Args:
        source: Database files, or a folder of exported changes.
        table: Its versions alone. Documents of one table are structs, those of several are JSON text.
        overwrite: Replace a folder that was written so before.
        path_glob: Which files of a folder are databases.

    Returns:
        The outcome; its rows are those of `queries.history`. Documents from before a compacted log begins have no `valid_from`.

    Raises:
        UsageError: The target exists, and is not to be overwritten or was not written by a pipeline; the folder of changes has
            another table's.
        TableNotFound, CannotOpen, ...: What is wrong with the source.
    """
    return _write("history", queries.history, session, source, target, table, overwrite, path_glob)


def write_rates(
    session: SparkSession,
    source: Paths,
    target: str,
    *,
    table: str | None = None,
    bucket: str = "1 hour",
    by: str | Sequence[str] = ("table",),
    overwrite: bool = False,
    path_glob: str = "*.db",
) -> Outcome:
    """How many changes there were in each bucket of time, as Parquet.

    Args: `bucket` and `by` as in `queries.rates`, which makes the rows (a str has names separated by commas).
    Others and Raises: as `write_history`.
    """
    names = [name.strip() for name in by.split(",")] if isinstance(by, str) else list(by)
    queries.check_rates(bucket, names)
    return _write(
        "rates", lambda rows: queries.rates(rows, bucket, names), session, source, target, table, overwrite,
        path_glob, as_text=True,
    )  # fmt: skip


def write_audit(
    session: SparkSession,
    source: Paths,
    target: str,
    *,
    table: str | None = None,
    overwrite: bool = False,
    path_glob: str = "*.db",
) -> Outcome:
    """Which fields change, how often and by whom, as Parquet: the rows of `queries.audit`.

    Args and Raises: as `write_history`. Of exported changes of one table, a field that was null counts as missing.
    """
    return _write("audit", queries.audit, session, source, target, table, overwrite, path_glob, as_text=True)


@contextmanager
def change_rows(
    session: SparkSession,
    source: Paths,
    table: str | None = None,
    *,
    path_glob: str = "*.db",
    as_text: bool = False,
    beside: str | None = None,
) -> Iterator[tuple[DataFrame, Outcome]]:
    """The change rows of the tables that still exist, and how far they go.

    Args:
        as_text: Documents of database files as JSON text, which tells a field that is null from one that is missing.
        beside: The path beside which changes are exported; None: the system's folder for temporary files.

    Raises:
        UsageError: The folder has another table's changes, or there are none; on a cluster, `beside` is None.
    """
    folder = exported_changes(source, table)
    if folder is not None:
        manifest = folder.newest()
        assert manifest is not None
        seqs = {position.path: position.seq for position in manifest.positions.values()}
        yield _rows_of(session, folder, manifest, table), Outcome(folder.path, positions=seqs)
        return
    if beside is None and not str(session.sparkContext.master).startswith("local"):
        raise UsageError(
            "the executors of a cluster must see the rows: give a folder that `reactdb export --changes --parquet` wrote"
        )
    parent = None if beside is None else os.path.dirname(os.path.abspath(beside))
    with storage_errors(beside or tempfile.gettempdir(), "written"):
        if parent is not None:
            os.makedirs(parent, exist_ok=True)
        temporary = tempfile.TemporaryDirectory(prefix=".changes-", dir=parent)
    with temporary as scratch:
        outcome = export_changes(source, table, os.path.join(scratch, CHANGES), path_glob, as_text=as_text)
        folder = PartFolder(os.path.join(scratch, CHANGES), CHANGES)
        manifest = folder.newest()
        if manifest is None:
            raise UsageError(f"there are no changes in {source}")
        yield _rows_of(session, folder, manifest, table), outcome


def exported_changes(source: Paths, table: str | None = None) -> PartFolder | None:
    """The folder of exported changes that the source is; None if it is database files.

    Raises:
        UsageError: It has another table's changes.
        TableNotFound: None of its databases has the table now.
    """
    if not isinstance(source, str) or not os.path.isdir(source):
        return None
    folder = PartFolder(source, CHANGES)
    if not folder.numbers():
        return None
    manifest = folder.newest()
    held = None if manifest is None else manifest.settings["table"]
    if table is not None and held not in (None, table):
        raise UsageError(f"{source} holds the changes of table `{held}` alone")
    if table is not None and manifest is not None:
        names = {name for position in manifest.positions.values() for name in position.tables}
        if table not in names:
            from reactdb.guessed_words import missing_table

            raise missing_table(table, sorted(names))
    return folder


def _rows_of(session: SparkSession, folder: PartFolder, manifest: Manifest, table: str | None) -> DataFrame:
    """The rows of a folder, without those of dropped tables, also if a new table has the same name."""
    # The parts are listed by name, because a part that is committed meanwhile belongs to the next run.
    numbers = [number for number in folder.numbers() if number <= manifest.number]
    rows = session.read.parquet(*map(folder.folder_of, numbers))
    tables = [
        (database, name, created)
        for database, position in manifest.positions.items()
        for name, created in position.tables.items()
        if table in (None, name)
    ]
    live = session.createDataFrame(tables, "database string, table string, created long")
    joined = rows.join(live.hint("broadcast"), ["database", "table"])
    return joined.where("seq > created OR op = 'read'").select(*rows.columns)


def _write(
    kind: str,
    query: Callable[[DataFrame], DataFrame],
    session: SparkSession,
    source: Paths,
    target: str,
    table: str | None,
    overwrite: bool,
    path_glob: str,
    as_text: bool = False,
) -> Outcome:
    with (
        whole_folder(target, overwrite) as (staged, commit),
        change_rows(session, source, table, path_glob=path_glob, as_text=as_text, beside=target) as (
            rows,
            read,
        ),
    ):
        count = write_parquet(query(rows), staged)
        commit(Manifest(kind, 1, count, {"table": table}, {}, [], {}))
    return Outcome(os.path.abspath(target), count, positions=read.positions, begins_late=read.begins_late)


def write_parquet(rows: DataFrame, folder: str) -> int:
    """Write rows as Parquet, and count the rows in the files."""
    try:
        rows.write.parquet(folder)
    except BaseException:
        # After an interrupt, tasks that still run would write files into the folder that is being removed. So they are given a
        # moment to stop.
        with suppress(Exception):
            context = rows.sparkSession.sparkContext
            context.cancelAllJobs()
            deadline = time.monotonic() + CANCELLED_S
            while context.statusTracker().getActiveStageIds() and time.monotonic() < deadline:
                time.sleep(0.05)
        raise
    return parquet_rows(folder)


__all__ = ["change_rows", "write_audit", "write_history", "write_rates"]
