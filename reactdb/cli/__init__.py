"""The command `reactdb`: a database file from the shell.

Each command is a module of its own, imported when it is called: `reactdb --help` imports none of them, nor the database.

    rows, tail, top, inspect_          the content of a file, its changes, its size
    tables, index, document            tables, indexes, and documents by their keys
    shell, shellnames                  a Python prompt on a file; its completion
    import_, sources, export, salvage  documents from text and to text; the readable part of a damaged file
    lake                               documents and changes as a table of a lake
    undo, backup                       taking commits back; a copy of a file
    doctor, compact, consumers         looking after a file
    serve, sync                        other databases' clients; another database
    open_                              a page in the browser
    spark, sparkrun                    from the log to Parquet; running Spark for a command
    demo                               a day at New York's airports

What commands share:

    groups, completion                 groups of commands, and the nearest names; completion in a shell
    files                              files, tables and keys from a command line
    terminal, changelines              output for people; a change as a line
    documentlines, csvform, blobfiles  documents as lines; as CSV; blobs as files beside an export

Exit codes: 0 done (also a `tail` or `top` that was ended by Ctrl-C), 1 an error or a finding, 2 a mistake in the command line,
130 interrupted. Errors are one line on standard error, `reactdb: what is wrong`; there is never a traceback.

Rule of this package: it uses the public library and the store's tools, and no SQL.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from reactdb.cli.groups import Verbs
from reactdb.cli.terminal import one_line
from reactdb.errors import ReactDBError

INTERRUPTED = 130
# click's `'x' is not a valid integer range` names a class of click.
_NO_NUMBER = re.compile(r"is not a valid (integer|float)(?: range)?(?=\.|$)")

# Name -> (module, attribute, help line of `reactdb --help`). A test compares the help line with the command's docstring.
COMMANDS = {
    "backup": ("reactdb.cli.backup", "backup", "Copy a file while others write to it."),
    "compact": ("reactdb.cli.compact", "compact", "Remove history and give room back."),
    "completion": ("reactdb.cli.completion", "completion", "Print the script for completion in a shell."),
    "consumers": ("reactdb.cli.consumers", "consumers", "Show the durable consumers of a file."),
    "delete": ("reactdb.cli.document", "delete", "Delete the documents of keys, all in one commit."),
    "demo": ("reactdb.cli.demo", "demo", "Watch a real day of departures go through a reactive database."),
    "doctor": ("reactdb.cli.doctor", "doctor", "Check a database file for damage."),
    "export": (
        "reactdb.cli.export",
        "export",
        "Write a table's documents, or changes, as text or for a lake.",
    ),
    "get": ("reactdb.cli.document", "get", "Print the documents of keys."),
    "import": ("reactdb.cli.import_", "import_", "Store documents from JSON, CSV or TSV."),
    "index": ("reactdb.cli.index", "index", "Create, drop and list the indexes of a table."),
    "inspect": (
        "reactdb.cli.inspect_",
        "inspect",
        "Show the content of a file, a table or a document's history.",
    ),
    "open": ("reactdb.cli.open_", "open_", "See a file at work, in the browser."),
    "put": ("reactdb.cli.document", "put", "Store documents, all in one commit."),
    "rows": ("reactdb.cli.rows", "rows", "Print a table's documents."),
    "serve": ("reactdb.cli.serve", "serve", "Let other databases' clients use a file."),
    "shell": ("reactdb.cli.shell", "shell", "Open a Python prompt on a file."),
    "spark": ("reactdb.cli.spark", "spark", "Analyse files with Spark: from the log to Parquet."),
    "sync": ("reactdb.cli.sync", "sync", "Synchronise a table with CouchDB, PouchDB or another reactdb."),
    "table": ("reactdb.cli.tables", "table", "Create, rename, drop and list tables."),
    "tables": ("reactdb.cli.tables", "tables", "List the tables of a file."),
    "tail": ("reactdb.cli.tail", "tail", "Print the changes of a table, or of all tables."),
    "top": ("reactdb.cli.top", "top", "Show a file at work, refreshed each second."),
    "undo": ("reactdb.cli.undo", "undo", "Take back the newest commits."),
}


class Commands(Verbs):
    """A group that imports its commands when they are called, and prints their errors as one line."""

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[name]
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, _, words) in sorted(COMMANDS.items())])

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [
            CompletionItem(name, help=words)
            for name, (_, _, words) in sorted(COMMANDS.items())
            if name.startswith(incomplete)
        ]
        # The options; click's own list of commands would import each of them.
        return [*found, *click.Command.shell_complete(self, context, incomplete)]

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except BrokenPipeError:
            # The reader of a pipe, such as `head`, has read enough. The interpreter flushes standard output at its end, which
            # would fail once more.
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0

    def main(self, *args: Any, standalone_mode: bool = True, **options: Any) -> Any:
        run: Any = super().main
        if not standalone_mode:
            return run(*args, standalone_mode=False, **options)
        try:
            result = run(*args, standalone_mode=False, **options)
        except click.UsageError as error:
            where = error.ctx.command_path if error.ctx is not None else "reactdb"
            message = _NO_NUMBER.sub(_number_words, error.format_message())
            fail(
                f"{message}{'' if message.endswith(('.', '?')) else '.'} Try `{where} --help`.",
                error.exit_code,
            )
        except click.ClickException as error:
            fail(error.format_message(), error.exit_code)
        except click.Abort:
            fail("interrupted", INTERRUPTED)
        except ReactDBError as error:
            fail(str(error))
        except OSError as error:
            fail(
                f"{error.filename}: {error.strerror}"
                if error.filename and error.strerror
                else error.strerror or str(error)
            )
        # After `--help` and `--version`, the result is the exit code.
        sys.exit(result if isinstance(result, int) and not isinstance(result, bool) else 0)


def _number_words(found: re.Match[str]) -> str:
    return "is not a whole number" if found[1] == "integer" else "is not a number"


def fail(message: str, exit_code: int = 1) -> NoReturn:
    click.echo(f"reactdb: {one_line(message)}", err=True)
    sys.exit(exit_code)


def print_version(context: click.Context, parameter: click.Parameter, is_asked: bool) -> None:
    if not is_asked or context.resilient_parsing:
        return
    from reactdb import __version__
    from reactdb.store.file import sqlite

    click.echo(
        f"reactdb {__version__}, SQLite {'.'.join(map(str, sqlite.VERSION))}, Python {sys.version.split()[0]}"
    )
    context.exit()


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=print_version,
    help="Show the versions of reactdb, SQLite and Python, and exit.",
)
@click.pass_context
def main(context: click.Context) -> None:
    """The embedded database that a Python process can subscribe to.

    FILE is always the path of a database file; `sync` takes FILE/TABLE. Other processes may be writing to it meanwhile.
    """
    # https://no-color.org: no colours if the variable is set and not empty.
    if os.environ.get("NO_COLOR"):
        context.color = False
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal lacks is printed as its number instead of raising an error.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


__all__ = ["main"]
