"""Pipelines: from database files to Parquet. Each reads change rows, runs one of `queries`, and leaves a folder.

    snapshot         the documents of a table as of one seq                          written once
    append_changes   the changes since the last run, each exactly once               grows by parts
    update_current   the newest document of each key                                 replaced as a whole
    write_history    all versions of all documents, with their validity              written once
    write_rates      how many changes in each bucket of time                         written once
    write_audit      which fields change, how often, by whom                         written once

A source is database files (a path, a folder, a glob, a list), or for all but `snapshot` and `append_changes` a folder that
`append_changes` wrote: then the files are not needed any more. A target is a folder that the driver and all executors see under
the same path, on a file system with atomic renames.

A run is atomic: if it is killed, either all of its result is there or nothing, and the next run goes on from there. See `parts`.

Rule of this file: a pipeline is a query and a target. Rows are made in `rows`, positions in `reach`, folders in `parts`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as spark

from reactdb.errors import StorageError, UsageError
from reactdb.lake.parts import (
    GENERATION,
    DatabasePosition,
    Extent,
    Manifest,
    PartFolder,
    parquet_rows,
    whole_folder,
)
from reactdb.lake.reach import Reach, check_has, document_changes, unread
from reactdb.spark import queries
from reactdb.spark.options import parse
from reactdb.spark.rows import (
    EXPORT,
    Documents,
    PipelineSource,
    all_rows,
    of_live_tables,
    ranges,
    read_export,
    reader,
    rows_of,
    since,
    source_of,
    type_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CURRENT = "current"
CANCELLED_S = 5.0
Paths = str | Sequence[str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a pipeline.

    Attributes:
        path: The folder to read.
        rows: The number of rows written; 0 if there was nothing new.
        positions: How far each database is contained in it: path -> seq.
        begins_late: Files whose oldest changes were removed before they could be read.
    """

    path: str
    rows: int
    positions: dict[str, int] = field(default_factory=dict)
    begins_late: list[str] = field(default_factory=list)


def snapshot(
    session: SparkSession,
    source: Paths,
    target: str,
    *,
    table: str | None = None,
    as_of: int | str | None = None,
    document: str = "struct",
    schema: str | None = None,
    overwrite: bool = False,
    options: Mapping[str, str] | None = None,
) -> Outcome:
    """The documents of a table as of one seq, as Parquet.

    Args:
        table: Can be omitted if there is only one table.
        as_of: A seq, or a time in ISO 8601; None: now, each file pinned when the plan is made.
        document: `struct`: the fields are the columns. `json`, `variant`, `binary`: columns `key` and `document`.
        schema: With struct: the wanted fields, as "id string, score long"; None: inferred from a sample.
        overwrite: Replace a pipeline's earlier folder.
        options: Options of the data source, such as `pathGlobFilter`.

    Returns:
        The outcome; its `positions` are empty if `as_of` is a time.

    Raises:
        UsageError: The target exists, and is not to be overwritten or was not written by a pipeline.
        TableNotFound, HistoryLost, CannotOpen, ...: As the data source raises them.
    """
    documents = Documents(document, schema)
    given = source_of_files(source, table, options)
    with whole_folder(target, overwrite) as (staged, commit):
        read = reader(session, given, documents)
        # The plan and its outcome must be of the same moment.
        extents = [unread(reach, None) for reach in given.reaches]
        if as_of is None:
            read = read.option("ranges", ranges(extents))
        else:
            read = read.option("paths", given.options["paths"]).option("asOf", str(as_of))
        if table is not None:
            read = read.option("table", table)
        if schema is not None:
            read = read.schema(schema)
        rows = read.option("document", document).load()
        if "_corrupt" in rows.columns and "_corrupt" not in (schema or ""):
            rows = rows.drop("_corrupt")
        count = write_parquet(rows, staged)
        settings = {"table": table, "as_of": as_of, "document": document}
        commit(_manifest("snapshot", None, count, settings, rows, [], given.positions))
    seqs = {extent.path: extent.until for extent in extents} if as_of is None else {}
    if isinstance(as_of, int):
        seqs = {extent.path: as_of for extent in extents}
    return Outcome(os.path.abspath(target), count, seqs)


def append_changes(
    session: SparkSession,
    source: Paths,
    target: str,
    *,
    table: str | None = None,
    document: str = "json",
    schema: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Outcome:
    """Append the changes since the last run to a folder of Parquet, each exactly once.

    The folder grows by one part for each run, `increment=000001` and so on, each with a manifest. If a run is killed, its part
    exists as a whole, with its positions, or not at all. Read the folder with `spark.read.parquet(target)`.

    Args:
        source: Database files. New files are read from the beginning; the position of a missing file is kept.
        table: The only table to read; None: all.
        document: The form of `old` and `new`: `json`, `variant`, `binary` or `struct`. JSON text fits any later document.
        schema: With struct: the wanted fields; None: inferred by the first run, kept by the others.
        options: Options of the data source.

    Returns:
        The outcome; `rows` counts the changes of this run, and the documents with which a compacted log begins (`op` is `read`).

    Raises:
        HistoryLost: Compaction removed changes after the last run before they were read.
        HistoryDiverged: A file was replaced, or restored from a backup from before the last run.
        UsageError: The folder holds something else, or was begun with another table or another form of documents.
        DatabaseBusy: Another run is writing to the folder.
    """
    documents = Documents(document, schema)
    given = source_of_files(source, table, options)
    folder = PartFolder(target, EXPORT)
    settings = {"table": table, "document": document, "schema": schema}
    with folder.lock():
        before, known, first = read_progress(folder, settings, given)
        extents = [unread(reach, known.get(reach.database)) for reach in given.reaches]
        if not any(extent.since < extent.until for extent in extents) and not any(
            each.oldest for each in first
        ):
            return _outcome(folder.path, 0, known, first)
        type_ = type_of(session, given, documents) if before is None else _stored_type(before)
        rows = rows_of(session, given, extents, documents, first, type_)
        # Where all tables are read from the beginning, it is known how many changes there are.
        is_all = table is None and not any(reach.oldest for reach in first)
        expected = document_changes(extents, parse(given.options).files) if is_all else None
        with folder.stage() as staged:
            count = write_parquet(rows, staged)
            if expected not in (None, count):
                raise StorageError(f"{count} rows were written of {expected} changes; nothing was committed")
            positions = known | given.positions
            folder.commit(staged, _manifest(EXPORT, before, count, settings, rows, extents, positions))
    return _outcome(folder.path, count, positions, first)


def update_current(
    session: SparkSession,
    source: Paths,
    target: str,
    *,
    table: str | None = None,
    document: str = "json",
    schema: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Outcome:
    """Keep a folder of Parquet with the newest document of each key: apply the changes since the last run.

    The link `latest` in the folder points to the newest state, and moves to the next state when that is complete, so a reader
    sees one state or the other. The state before stays until the next run, for its readers.

    Args:
        source: Database files, or a folder that `append_changes` wrote.
        table, document, schema, options: As in `append_changes`; the documents of a folder of changes keep their form.

    Returns:
        The outcome; `path` leads to the newest state: `database, table, key, key_bytes, seq, ts, document`; `rows` is its size.

    Raises:
        As `append_changes`.
    """
    given = source_of(source, table, options)
    documents = Documents(document, schema)
    folder = PartFolder(target, CURRENT, GENERATION)
    settings = {"table": table, "document": document, "schema": schema}
    if given.export is not None:
        settings |= {name: given.export.settings[name] for name in ("document", "schema")}
    with folder.lock():
        before, known, first = read_progress(folder, settings, given)
        if before is not None and not _has_news(given, known):
            return _outcome(folder.point_to_newest(), 0, known, first)
        if before is None:
            rows = queries.current(all_rows(session, given, documents))
        else:
            rows = _apply_changes(session, given, documents, before, folder)
        with folder.stage() as staged:
            count = write_parquet(rows, staged)
            positions = known | given.positions
            folder.commit(staged, _manifest(CURRENT, before, count, settings, rows, [], positions))
        path = folder.point_to_newest()
    return _outcome(path, count, positions, first)


def write_history(
    session: SparkSession,
    source: Paths,
    target: str,
    *,
    table: str | None = None,
    document: str = "json",
    schema: str | None = None,
    overwrite: bool = False,
    options: Mapping[str, str] | None = None,
) -> Outcome:
    """Every version of every document, with its validity, as Parquet: a slowly changing dimension of type 2.

    Returns:
        The outcome; its rows are those of `queries.history`. Documents from before a compacted log begins have no `valid_from`.

    Args and Raises: as `update_current`; the target as in `snapshot`.
    """
    given = source_of(source, table, options)
    rows = queries.history(all_rows(session, given, Documents(document, schema)))
    return _write("history", rows, given, target, overwrite, {"table": table, "document": document})


def write_rates(
    session: SparkSession,
    source: Paths,
    target: str,
    *,
    table: str | None = None,
    bucket: str = "1 hour",
    by: str | Sequence[str] = ("table",),
    overwrite: bool = False,
    options: Mapping[str, str] | None = None,
) -> Outcome:
    """How many changes there were in each bucket of time, as Parquet. The documents are not read.

    Args: `bucket` and `by` as in `queries.rates`, which makes the rows (a str has names separated by commas).
    Others and Raises: as `snapshot`.
    """
    given = source_of(source, table, options)
    by = [name.strip() for name in by.split(",")] if isinstance(by, str) else by
    rows = rates(session, given, bucket, by)
    return _write("rates", rows, given, target, overwrite, {"table": table, "bucket": bucket, "by": list(by)})


def write_audit(
    session: SparkSession,
    source: Paths,
    target: str,
    *,
    table: str | None = None,
    overwrite: bool = False,
    options: Mapping[str, str] | None = None,
) -> Outcome:
    """Which fields change, how often and by whom, as Parquet: the rows of `queries.audit`.

    Args and Raises: as `write_rates`.
    """
    given = source_of(source, table, options)
    return _write("audit", audit(session, given), given, target, overwrite, {"table": table})


def rates(session: SparkSession, given: PipelineSource, bucket: str, by: Sequence[str]) -> DataFrame:
    """The rows of `write_rates`."""
    return queries.rates(all_rows(session, given, None, with_base=False), bucket, by)


def audit(session: SparkSession, given: PipelineSource) -> DataFrame:
    """The rows of `write_audit`."""
    return queries.audit(all_rows(session, given, Documents("json"), with_base=False))


# ---------------------------------------------------------------------------------------------------------------
# Shared by the pipelines


def source_of_files(source: Paths, table: str | None, options: Mapping[str, str] | None) -> PipelineSource:
    """Database files; a folder of changes is refused.

    Raises:
        UsageError.
    """
    given = source_of(source, table, options)
    if given.export is not None:
        raise UsageError(f"{given.folder} holds changes that were exported; this takes database files")
    return given


def write_parquet(rows: DataFrame, folder: str) -> int:
    """Write rows as Parquet, and count the rows in the files."""
    try:
        rows.write.parquet(folder)
    except BaseException:
        # After an interrupt, tasks that still run would write files into the folder that is being removed.
        with suppress(Exception):
            stop_jobs(rows.sparkSession)
        raise
    return parquet_rows(folder)


def stop_jobs(session: SparkSession) -> None:
    """Cancel the session's jobs, and wait a moment until the tasks have stopped."""
    context = session.sparkContext
    tracker = context.statusTracker()
    deadline = time.monotonic() + CANCELLED_S
    context.cancelAllJobs()
    while tracker.getActiveStageIds() and time.monotonic() < deadline:
        time.sleep(0.05)


def read_progress(
    folder: PartFolder, settings: Mapping[str, Any], given: PipelineSource
) -> tuple[Manifest | None, dict[str, DatabasePosition], list[Reach]]:
    """The newest part of a folder, how far it has read each database, and the files without a position in it.

    Raises:
        UsageError: The settings differ from those of the folder's first run.
    """
    before = folder.newest()
    known = {} if before is None else before.positions
    first = [reach for reach in given.reaches if reach.database not in known]
    for name, value in settings.items():
        if before is not None and before.settings.get(name) != value:
            raise UsageError(
                f"{folder.path} was begun with {name} {before.settings.get(name)!r} and cannot go on with {value!r}"
            )
    return before, known, first


def _manifest(
    kind: str,
    before: Manifest | None,
    count: int,
    settings: dict[str, Any],
    rows: DataFrame,
    extents: list[Extent],
    positions: dict[str, DatabasePosition],
) -> Manifest:
    """The manifest of the part after `before`."""
    number = 1 if before is None else before.number + 1
    return Manifest(kind, number, count, settings, rows.schema.jsonValue(), extents, positions)


def _stored_type(before: Manifest) -> spark.DataType:
    return spark.StructType.fromJson(before.schema)["new"].dataType


def _has_news(given: PipelineSource, known: Mapping[str, DatabasePosition]) -> bool:
    """Whether any document or table has changed. Raises: as `reach.check_has`."""
    for reach in given.reaches:
        before = known.get(reach.database)
        if before is not None:
            check_has(reach, before)
    return any(
        database not in known
        or known[database].seq != position.seq
        or known[database].tables != position.tables
        for database, position in given.positions.items()
    )


def _apply_changes(
    session: SparkSession, given: PipelineSource, documents: Documents, before: Manifest, folder: PartFolder
) -> DataFrame:
    """The state of the last run with the later changes applied."""
    known = before.positions
    kept_schema = spark.StructType.fromJson(before.schema)
    state = session.read.schema(kept_schema).parquet(folder.folder_of(before.number))
    now = given.positions
    # The rows of dropped tables are removed, also if a new table has the same name.
    kept = {
        database: DatabasePosition(
            position.path,
            position.epoch,
            position.seq,
            {
                name: created
                for name, created in position.tables.items()
                if database not in now or now[database].tables.get(name) == created
            },
        )
        for database, position in known.items()
    }
    tables = [(database, name) for database, position in kept.items() for name in position.tables]
    if any(len(kept[database].tables) < len(position.tables) for database, position in known.items()):
        live = session.createDataFrame(tables, "database string, table string")
        state = state.join(live.hint("broadcast"), ["database", "table"], "left_semi")
    if given.export is not None:
        rows = since(session, read_export(session, given), known)
    else:
        extents = [unread(reach, known.get(reach.database)) for reach in given.reaches]
        first = [reach for reach in given.reaches if reach.database not in known]
        rows = rows_of(session, given, extents, documents, first, kept_schema["document"].dataType)
    return queries.upsert(state, of_live_tables(session, rows, now))


def _write(
    kind: str, rows: DataFrame, given: PipelineSource, target: str, overwrite: bool, settings: dict[str, Any]
) -> Outcome:
    with whole_folder(target, overwrite) as (staged, commit):
        count = write_parquet(rows, staged)
        commit(_manifest(kind, None, count, settings, rows, [], given.positions))
    return _outcome(os.path.abspath(target), count, given.positions, given.reaches)


def _outcome(path: str, rows: int, at: Mapping[str, DatabasePosition], first: Sequence[Reach]) -> Outcome:
    seqs = {position.path: position.seq for position in at.values()}
    return Outcome(path, rows, seqs, [reach.path for reach in first if reach.oldest])


__all__ = [
    "Outcome",
    "append_changes",
    "audit",
    "rates",
    "snapshot",
    "update_current",
    "write_audit",
    "write_history",
    "write_rates",
]
