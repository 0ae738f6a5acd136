"""Exporter: documents, or changes, of one file or a fleet as a table of a lake, each exactly once.

    mode      first run                                       later runs
    --------  ----------------------------------------------  ---------------------------------------------------------
    current   the documents as of now, in one commit           changed documents replace theirs, deleted ones go
    changes   all changes, in chunks                           the changes since, in chunks
    scd2      all versions, in one commit                      new versions come, and those that ended are closed

Rule of this file: it checks the arguments. `run` does the work, and nothing of it is imported before it is needed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from reactdb.errors import InvalidOption, MissingExtra, UsageError, format_value
from reactdb.lake.fleet import FileOptions, is_one_file
from reactdb.lake.outcome import Outcome

if TYPE_CHECKING:
    from reactdb.database import Database

MODES: Final = ("current", "changes", "scd2")
CONTRACTS: Final = ("evolve", "freeze", "discard")


def export(
    source: Database | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    table: str | None = None,
    *,
    parquet: str | os.PathLike[str] | None = None,
    delta: str | os.PathLike[str] | None = None,
    iceberg: str | os.PathLike[str] | None = None,
    mode: str = "current",
    at: int | datetime | str | None = None,
    contract: str = "evolve",
    overwrite: bool = False,
    ignore_corrupt_files: bool = False,
    ignore_missing_files: bool = False,
    path_glob: str = "*.db",
    recursive: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Write a table's documents or changes to a table of a lake, or bring that table up to date.

    Args:
        source: An open database, a file, a folder, a glob, or a list of those.
        table: The table to export; None: the only one, and for `changes` all of them, if there are several.
        parquet, delta, iceberg: The folder to write to, in one of these formats.
        mode: `current`: the documents as they are. `changes`: each change, appended. `scd2`: each version of each document, with
            when it began and ended.
        at: Of `current`: the documents as of this seq or moment (a datetime with a time zone, or "now"), written once.
        contract: What becomes of a field that the table lacks, or a value that does not fit its column: `evolve`: the table gets
            the field, and the value goes to `_conflicts`; `freeze`: SchemaMismatch, and nothing is written; `discard`: both are
            left out.
        overwrite: Write the table anew, although there is one.
        ignore_corrupt_files, ignore_missing_files: Leave out files that are no databases, or that are gone.
        path_glob, recursive: Which files of a folder are databases, and whether those of folders within it are.
        progress: Called with the number of rows read so far, and of all rows to read.

    Returns:
        What was done.

    Raises:
        MissingExtra: A package is not installed: the extra `lake`.
        UsageError: The folder holds something else, or was begun with another mode or table; the table exists, and `at` is given;
            the database is in memory.
        SchemaMismatch: With `freeze`.
        HistoryLost: Compaction removed changes before they were read (`changes`, `scd2`).
        HistoryDiverged: A file was replaced, or restored from a backup from before the last run. Of `changes`, also: a table was
            renamed to or from this name.
        DatabaseBusy: Another run is writing to the table.
        TableNotFound, CannotOpen, ...: What is wrong with the source.
    """
    folders = {"parquet": parquet, "delta": delta, "iceberg": iceberg}
    given = {name: folder for name, folder in folders.items() if folder is not None}
    if len(given) != 1:
        raise InvalidOption("give exactly one of parquet=, delta= and iceberg=: the folder to write to")
    ((format_, given_folder),) = given.items()
    folder = _path_text(given_folder)
    if folder is None:
        raise InvalidOption(
            f"{format_} is the path of a folder to write to, in UTF-8, not {format_value(given_folder)}"
        )
    if "://" in folder:
        raise InvalidOption(
            f"{format_} is a folder of this machine, not {format_value(folder)}: write to one, and copy it there"
        )
    for name, value, words in (("mode", mode, MODES), ("contract", contract, CONTRACTS)):
        if value not in words:
            raise InvalidOption(f"{name} is one of {', '.join(words)}, not {format_value(value)}")
    if table is not None and not (isinstance(table, str) and table):
        raise InvalidOption(f"table is the name of a table, not {format_value(table)}")
    if not isinstance(path_glob, str) or not path_glob:
        raise InvalidOption(
            f"path_glob is a pattern for the names of files, such as *.db, not {format_value(path_glob)}"
        )
    flags = {
        "overwrite": overwrite,
        "ignore_corrupt_files": ignore_corrupt_files,
        "ignore_missing_files": ignore_missing_files,
        "recursive": recursive,
    }
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise InvalidOption(f"{name} is True or False, not {format_value(flag)}")
    if progress is not None and not callable(progress):
        raise InvalidOption(f"progress is a function of two numbers, not {format_value(progress)}")
    if at is not None:
        if mode != "current":
            raise InvalidOption("at goes with mode 'current' only: leave one of them out")
        is_seq = isinstance(at, int) and not isinstance(at, bool) and at >= 0
        is_moment = isinstance(at, datetime) and at.utcoffset() is not None
        if not (is_seq or is_moment or at == "now"):
            raise InvalidOption(f"at is a seq, a datetime with a time zone, or 'now', not {format_value(at)}")
    paths = _paths_of(source)
    files = FileOptions(
        paths,
        path_glob=path_glob,
        is_recursive=recursive,
        ignore_corrupt_files=ignore_corrupt_files,
        ignore_missing_files=ignore_missing_files,
    )
    check_packages(format_)
    from reactdb.lake.run import ExportRun

    run = ExportRun(files, not is_one_file(paths), table, mode, contract, progress)
    if at is not None:
        return run.write_once(
            make_target(format_, folder, mode, run.table, at is not None, overwrite), at, overwrite
        )
    return run.update(make_target(format_, folder, mode, run.table), overwrite)


def export_changes(
    source: str | Sequence[str], table: str | None, folder: str, path_glob: str, *, as_text: bool
) -> Outcome:
    """All changes of some files as a folder of Parquet, for queries over them.

    Args:
        as_text: Documents as JSON text; otherwise only if they are of several tables.
    """
    from reactdb.lake.run import ExportRun

    check_packages("parquet")
    paths = _paths_of(source)
    files = FileOptions(paths, path_glob=path_glob)
    run = ExportRun(files, not is_one_file(paths), table, "changes", "evolve", None, as_text=as_text)
    return run.update(make_target("parquet", folder, "changes", table), overwrite=False)


def make_target(
    format_: str, folder: str, mode: str, table: str | None, is_once: bool = False, overwrite: bool = False
) -> Any:
    """The table of the lake in this folder."""
    if format_ == "parquet":
        from reactdb.lake.parquet import ParquetSnapshot, ParquetTarget

        return ParquetSnapshot(folder, overwrite) if is_once else ParquetTarget(folder, mode)
    if format_ == "delta":
        from reactdb.lake.delta import DeltaTarget

        return DeltaTarget(folder)
    from reactdb.lake.iceberg import IcebergTarget

    return IcebergTarget(folder, table or mode)


def check_packages(format_: str) -> None:
    """Raises: MissingExtra."""
    packages = {"delta": ("pyarrow", "deltalake"), "iceberg": ("pyarrow", "pyiceberg")}
    for package in packages.get(format_, ("pyarrow",)):
        if find_spec(package) is None:
            raise MissingExtra(f"an export to {format_.capitalize()}", package, "lake")


def _paths_of(source: Any) -> tuple[str, ...]:
    if hasattr(source, "table_list"):
        if source.path == ":memory:":
            raise UsageError(
                "an export reads a file, and this database is in memory: write it to one with db.backup(path)"
            )
        return (source.path,)
    is_list = isinstance(source, Iterable) and not isinstance(source, (str, bytes))
    given = tuple(source) if is_list else (source,)
    if not given:
        raise InvalidOption("no file: give a file, a folder, a glob or a list of those")
    paths = []
    for path in given:
        text = _path_text(path)
        if text is None:
            wrong = path if isinstance(source, (list, tuple)) else source
            raise InvalidOption(
                f"source is an open database, a file, a folder, a glob, or a list of them, in UTF-8, not {format_value(wrong)}"
            )
        paths.append(text)
    return tuple(paths)


def _path_text(path: Any) -> str | None:
    """A path as text; None if it is none that files have, or not in UTF-8, which tables of a lake need."""
    try:
        text = os.fspath(path)
        return text if isinstance(text, str) and text and b"\0" not in text.encode() else None
    except (TypeError, UnicodeEncodeError):
        return None
