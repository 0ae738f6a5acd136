"""`reactdb backup`: a copy of a file while others write to it."""

from __future__ import annotations

import os

import click

from reactdb.cli.files import complete_file, file_argument, json_option, open_database
from reactdb.cli.terminal import Progress, safe, size, write_line


@click.command()
@file_argument
@click.argument("target", metavar="TARGET", shell_complete=complete_file)
@click.option("--overwrite", is_flag=True, help="Replace TARGET if it exists.")
@json_option("The result as one JSON object.")
def backup(file: str, target: str, overwrite: bool, as_json: bool) -> None:
    """Copy a file while others write to it.

    TARGET is the state of the last commit, whole or not at all. It is a database file, and can take the place of FILE.

    In Python: db.backup("copy.db")
    """
    if not overwrite and os.path.lexists(target):
        raise click.ClickException(f"{target} exists: name another TARGET, or replace it with --overwrite")
    with open_database(file) as database, Progress("bytes") as progress:

        def show(done: int, total: int) -> None:
            progress.set_total(total)
            progress.update(done)

        result = database.backup(target, progress=show, overwrite=overwrite)
    if as_json:
        write_line(result)
    else:
        click.echo(f"copied {size(result['bytes'])} as of seq {result['seq']} to {safe(target)}")
