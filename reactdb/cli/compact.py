"""`reactdb compact`: less history, and a smaller file."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta

import click

from reactdb.cli.files import Finite, file_argument, json_option, open_database
from reactdb.cli.terminal import plural, size, write_line
from reactdb.errors import DiskFull
from reactdb.store.tools.figures import measure


@click.command()
@file_argument
@click.option(
    "--keep", type=click.IntRange(min=0), help="Keep the newest so many changes; 0 keeps no history."
)
@click.option("--keep-days", type=Finite(min=0, max=100_000), help="Keep the changes of so many days.")
@click.option(
    "--vacuum/--no-vacuum",
    default=False,
    show_default=True,
    help="Give the room back to the file system; nobody can write meanwhile.",
)
@json_option("The figures as one JSON object.")
def compact(file: str, keep: int | None, keep_days: float | None, vacuum: bool, as_json: bool) -> None:
    """Remove history and give room back.

    Superseded versions, deletions and dropped tables go; documents, and old values of changes that are kept, stay.
    Say what is kept: nothing is removed by default.

    In Python: db.compact(1_000)
    """
    kept = keep if keep_days is None else timedelta(days=keep_days)
    if kept is None or None not in (keep, keep_days):
        raise click.UsageError("Say what to keep: --keep or --keep-days, one of them.")
    with open_database(file, write=True) as database:
        before = measure(file)
        try:
            removed = database.compact(kept, vacuum=vacuum)
        except DiskFull as error:
            # The error's advice names the Python argument.
            raise DiskFull(str(error).replace("vacuum=True", "--vacuum")) from error
        after = measure(file)
    if as_json:
        write_line({"removed": removed, "before": asdict(before), "after": asdict(after)})
        return
    click.echo(f"removed {plural(removed['entries'], 'entry')} and {plural(removed['tables'], 'table')}")
    click.echo(f"log   {before.log_entries:,} -> {plural(after.log_entries, 'entry')}")
    click.echo(
        f"file  {size(before.file_bytes)} -> {size(after.file_bytes)}, {size(after.free_bytes)} of it free"
    )
    click.echo(f"WAL   {size(before.wal_bytes)} -> {size(after.wal_bytes)}")
    click.echo(f"the log can be read since seq {removed['oldest']}")
