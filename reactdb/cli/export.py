"""`reactdb export`: documents, or changes, as text that `reactdb import` or another program reads, or as a table of a lake.

A text gets its file name when it is complete, so a file with the name is whole. `lake` has the tables.
"""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, BinaryIO, NamedTuple

import click

from reactdb.change import Change
from reactdb.cli import changelines, csvform
from reactdb.cli.blobfiles import write_blobs_beside
from reactdb.cli.files import (
    MOMENT,
    SEQ,
    complete_file,
    complete_table,
    documents,
    file_argument,
    json_option,
    open_database,
    refuse_database,
)
from reactdb.cli.terminal import Progress, plural, write_line
from reactdb.database import Database, PastDatabase
from reactdb.json import dumps, dumps_deleted, encode

FORMATS = {".csv": "csv"}
# The ending of an unfinished export's name.
PART = ".part"


LAKE_OPTIONS = (
    click.option("--parquet", metavar="FOLDER", help="Write a table of Parquet files to this folder."),
    click.option("--delta", metavar="FOLDER", help="Write a table of Delta Lake to this folder."),
    click.option("--iceberg", metavar="FOLDER", help="Write a table of Iceberg to this folder."),
    click.option(
        "--current",
        is_flag=True,
        help="Of a lake: the documents as they are now.  [default, without --changes]",
    ),
    click.option(
        "--scd2",
        is_flag=True,
        help="Of a lake: every version of each document, with when it began and ended.",
    ),
    click.option(
        "--contract",
        type=click.Choice(["evolve", "freeze", "discard"]),
        help="Of a lake: take new fields and types, refuse them, or leave them out.  [default: evolve]",
    ),
    click.option("--overwrite", is_flag=True, help="Of a lake: write the table anew."),
    click.option(
        "--files", metavar="GLOB", help="Of a lake: which files of a folder are databases.  [default: *.db]"
    ),
    click.option(
        "--ignore-corrupt-files", is_flag=True, help="Of a lake: leave out files that are no databases."
    ),
    click.option("--ignore-missing-files", is_flag=True, help="Of a lake: leave out files that are gone."),
)
FORMATS_OF_LAKES = ("parquet", "delta", "iceberg")


def lake_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(LAKE_OPTIONS):
        function = option(function)
    return function


def check_lake(given: dict[str, Any]) -> bool:
    """Whether the export is for a lake.

    Raises:
        click.UsageError: It is not, and has options of such an export; or it is for two.
    """
    formats = [name for name in FORMATS_OF_LAKES if given[name] is not None]
    if len(formats) > 1:
        raise click.UsageError(f"--{formats[0]} and --{formats[1]} write two tables: give one.")
    others = [name for name, value in given.items() if value and name not in FORMATS_OF_LAKES]
    if others and not formats:
        raise click.UsageError(
            f"--{others[0].replace('_', '-')} is for a table of a lake: give --parquet, --delta or --iceberg."
        )
    return bool(formats)


def export_to_lake(
    file: str,
    table: str | None,
    changes: bool,
    at: int | datetime | None,
    as_json: bool,
    *,
    current: bool,
    scd2: bool,
    contract: str | None,
    files: str | None,
    **given: Any,
) -> None:
    from reactdb.cli import lake

    modes = [
        mode for mode, is_given in (("changes", changes), ("current", current), ("scd2", scd2)) if is_given
    ]
    if len(modes) > 1:
        raise click.UsageError(f"--{modes[0]} and --{modes[1]} are two kinds of tables: give one.")
    mode = modes[0] if modes else "current"
    if at is not None and mode != "current":
        raise click.UsageError(f"--at is of the documents: it does not go with --{mode}.")
    lake.run_export(
        file, table, mode, at, as_json, contract=contract or "evolve", path_glob=files or "*.db", **given
    )


class Deleted(NamedTuple):
    """A deleted document, in an export of changes."""

    key: Any


@click.command()
@file_argument
@click.argument("table", metavar="TABLE", required=False, shell_complete=complete_table)
@click.argument("target", metavar="[TARGET]", default="-", shell_complete=complete_file)
@click.option(
    "--format", "form", type=click.Choice(["jsonl", "csv"]), help="[default: by TARGET's ending, or jsonl]"
)
@click.option("--since", type=SEQ, help="Only what changed past this seq; deletions too.")
@click.option(
    "--at",
    type=MOMENT,
    metavar="WHEN",
    help="As it was when this seq was the newest, or at this time (2026-01-31T12:00:00Z).",
)
@click.option(
    "--changes", is_flag=True, help="Every change of the log instead of documents, as `tail --json` has them."
)
@lake_options
@click.option(
    "--strings", is_flag=True, help="CSV: no quotes for strings that look like numbers; types are lost."
)
@click.option(
    "--blobs", metavar="FOLDER", help="Also write the blobs of the documents, each as a file of its own."
)
@click.option(
    "--salvage",
    is_flag=True,
    help="Export what is still readable of a damaged file; of all tables if none is named.",
)
@json_option("The summary as one JSON object, on standard error.")
def export(
    file: str,
    table: str | None,
    target: str,
    form: str | None,
    since: int | None,
    at: int | datetime | None,
    changes: bool,
    strings: bool,
    blobs: str | None,
    salvage: bool,
    as_json: bool,
    **lake: Any,
) -> None:
    """Write a table's documents, or changes, as text or for a lake.

    As JSON lines or CSV, to TARGET or standard output, all as of one moment. A summary on standard error tells the seq
    from which a later export with --since goes on.

    With --parquet, --delta or --iceberg: as a table of a lake, which the next such export brings up to date. FILE may be a
    folder or a glob in quotes then. Needs the extra lake.

    In Python: for document in db.table("games"): print(reactdb.json.dumps(document)), and reactdb.lake.export(db, "games",
    delta=folder)
    """
    if check_lake(lake):
        others = (form, strings, blobs, salvage)
        if any(others) or since is not None or target != "-":
            raise click.UsageError(
                "a table of a lake goes with --changes, --current, --scd2 and --at, and with no TARGET, --format, --since, "
                "--strings, --blobs or --salvage."
            )
        export_to_lake(file, table, changes, at, as_json, **lake)
        return
    if salvage:
        from reactdb.cli import salvage as cli_salvage

        if form == "csv" or strings or changes or since is not None or at is not None or blobs is not None:
            raise click.UsageError(
                "--salvage writes all documents as JSON lines: it goes with no other option but --json."
            )
        cli_salvage.salvage(file, table, target, as_json)
        return
    if table is None:
        raise click.UsageError("Missing argument 'TABLE'.")
    if not target:
        raise click.UsageError("TARGET is empty: give the name of a file, or - for standard output.")
    if form is None and target.lower().endswith(".parquet"):
        raise click.UsageError(
            f"TARGET gets JSON lines or CSV: give `--parquet FOLDER` for Parquet, or --format to write {target} all the same."
        )
    chosen = form or FORMATS.get(os.path.splitext(target)[1].lower(), "jsonl")
    if chosen == "csv" and (changes or since is not None):
        raise click.UsageError("CSV has no form for changes and deletions: use JSON lines.")
    if blobs is not None and (changes or chosen == "csv"):
        raise click.UsageError("--blobs is for documents as JSON lines.")
    if strings and chosen != "csv":
        raise click.UsageError("--strings is for CSV.")
    if target != "-":
        refuse_database(file, target)
    with open_database(file) as database, Progress("documents") as progress:
        seq = database.seq if at is None else database.seq_at(at) if isinstance(at, datetime) else at
        then = database.at(seq)
        if since is not None and since > seq:
            raise click.UsageError(f"--since {since} is past the newest change, which has seq {seq}.")
        primary_key = then.table(table).primary_key
        counts = {"documents": 0, "deletions": 0}
        with open_target(target) as out:
            if changes:
                counts = {"changes": write_changes(database, table, since, seq, out, progress)}
            elif since is not None:
                items = newest_states(database, table, since, seq)
                write_json(write_blobs_beside(database.blobs, items, blobs, counts), out, counts, progress)
            elif chosen == "csv":
                write_csv(then, table, primary_key, strings, out, counts, progress)
            else:
                all_ = documents(then, table)
                write_json(write_blobs_beside(database.blobs, all_, blobs, counts), out, counts, progress)
    if as_json:
        write_line({"table": table, **counts, "seq": seq}, err=True)
    else:
        beside = f"; {plural(counts.pop('blobs', 0), 'new blob')} in {blobs}" if blobs is not None else ""
        words = " and ".join(plural(count, word.removesuffix("s")) for word, count in counts.items() if count)
        click.echo(
            f"exported {words or 'nothing'} of {table} as of seq {seq}; --since {seq} goes on from here{beside}",
            err=True,
        )


@contextmanager
def open_target(target: str) -> Iterator[BinaryIO]:
    """The stream to write to: standard output for `-`; otherwise a new file that gets the name when it is complete.

    Raises:
        OSError: With the target's name, also if a write fails, as on a full disk.
    """
    try:
        with _stream(target) as stream:
            yield stream
    except OSError as error:
        # The error of a failed write has no file name, and the error of a missing folder has the name of the temporary file.
        if error.filename in (None, os.path.realpath(target) + PART) and error.strerror:
            error.filename = "standard output" if target == "-" else target
        raise


@contextmanager
def _stream(target: str) -> Iterator[BinaryIO]:
    if target == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if os.path.exists(target) and not os.path.isfile(target):
        # The target is a named pipe or a device, and must not be replaced.
        with open(target, "wb") as stream:
            yield stream
        return
    target = os.path.realpath(target)
    part = target + PART
    try:
        with open(part, "wb") as stream:
            yield stream
        os.replace(part, target)
    except BaseException:
        if os.path.exists(part):
            os.unlink(part)
        raise


def newest_states(
    database: Database, table: str, since: int, until: int
) -> Iterator[dict[str, Any] | Deleted]:
    """The newest state of each document that changed in since < seq <= until, in the order of those changes."""
    # The log is read twice, so that only seqs are kept in memory and no documents.
    newest = {change.key_bytes: change.seq for change in entries(database, table, since, until)}
    for change in entries(database, table, since, until):
        if newest[change.key_bytes] == change.seq:
            yield Deleted(change.key) if change.new_val is None else change.new_val


def entries(database: Database, table: str, since: int | None, until: int) -> Iterator[Change]:
    return database.log(database.stats()["oldest"] if since is None else since, until, table)


def write_json(
    items: Iterator[dict[str, Any] | Deleted] | Iterator[dict[str, Any]],
    out: BinaryIO,
    counts: dict[str, int],
    progress: Progress,
) -> None:
    for one in items:
        if isinstance(one, Deleted):
            counts["deletions"] += 1
            line = dumps_deleted(one.key)
        else:
            counts["documents"] += 1
            line = dumps(one)
        out.write(line.encode() + b"\n")
        progress.update(counts["documents"] + counts["deletions"])


def write_changes(
    database: Database, table: str, since: int | None, until: int, out: BinaryIO, progress: Progress
) -> int:
    count = 0
    for count, change in enumerate(entries(database, table, since, until), 1):
        out.write(encode(changelines.as_json(change)).encode() + b"\n")
        progress.update(count)
    return count


def write_csv(
    then: PastDatabase,
    table: str,
    primary_key: str,
    strings: bool,
    out: BinaryIO,
    counts: dict[str, int],
    progress: Progress,
) -> None:
    """Write a table as CSV, reading it twice: once for its columns, once for its documents."""
    names = list(
        dict.fromkeys([primary_key, *(name for document in documents(then, table) for name in document)])
    )
    cell: Callable[[Any], str] = csvform.write_text if strings else csvform.write_cell
    text = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=False)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([csvform.write_name(name) for name in names])
    for document in documents(then, table):
        writer.writerow([cell(document.get(name, csvform.ABSENT)) for name in names])
        counts["documents"] += 1
        progress.update(counts["documents"])
    # The stream below belongs to the caller and stays open.
    text.detach()
