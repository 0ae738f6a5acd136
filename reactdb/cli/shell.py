"""`reactdb shell`: a Python prompt on a file. Results are printed as tables, and feeds until Ctrl-C.

A terminal gets a prompt with history and completion. Otherwise the code of `-c`, or of standard input, is run, and results
are JSON lines.

Rule of this file: Python's own `code` runs what the user types.
"""

from __future__ import annotations

import ast
import codeop
import os
import shlex
import shutil
import subprocess
import sys
import traceback
from code import InteractiveConsole
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

import click

import reactdb
from reactdb.cli import documentlines
from reactdb.cli.changelines import differences, format_value
from reactdb.cli.files import documents, file_argument, open_database, read_standard_input
from reactdb.cli.groups import nearest
from reactdb.cli.shellnames import ShellCompleter, ShellNames
from reactdb.cli.terminal import echo_lines, is_terminal, note, safe, safe_json, screen_width
from reactdb.database import Database
from reactdb.errors import InvalidDocument, ReactDBError, ReadOnlyDatabase, TableNotFound
from reactdb.feeds.feed import Feed
from reactdb.feeds.livelist import LiveList
from reactdb.feeds.livevalue import LiveValue
from reactdb.json import dumps
from reactdb.observation import Observation
from reactdb.table import Selection, Table

# Without a pager, so many documents of a result are printed.
SHOWN: Final = 100
HISTORY_LINES: Final = 2_000
NAMES: Final = ("asc", "branch", "desc", "literal", "maxval", "minval", "r", "reactdb", "row")
COLORS: Final = {"initial": "cyan", "add": "green", "change": "yellow", "remove": "red"}


@click.command()
@file_argument
@click.option("--write", "is_writing", is_flag=True, help="Also change the file.  [default: only read]")
@click.option("-c", "--code", "source", metavar="CODE", help="Run this, print its results, and end.")
def shell(file: str, is_writing: bool, source: str | None) -> None:
    """Open a Python prompt on a file.

    `db` is the database, and each table has its name: games.filter(row["score"] > 10). A selection is run and printed as a
    table; a feed, games.changes(), prints its events until Ctrl-C. The Tab key completes tables, fields and methods.

    In Python: db = reactdb.connect("arena.db", read_only=True)
    """
    with open_database(file, write=is_writing) as database:
        names = ShellNames(database, {"db": database, "__name__": "__console__", "__doc__": None})
        names.update({name: reactdb if name == "reactdb" else getattr(reactdb, name) for name in NAMES})
        with displayed_by(Display(names)):
            if source is not None:
                Prompt(names, is_writing).run_all(source, "-c")
            elif not is_terminal(sys.stdin):
                Prompt(names, is_writing).run_all(read_standard_input(), "standard input")
            else:
                with line_editing(names):
                    Prompt(names, is_writing).interact(banner(database, is_writing), exitmsg="")


def banner(database: Database, is_writing: bool) -> str:
    tables = ", ".join(database) or "none yet"
    mode = "" if is_writing else " to read only; --write to change it"
    return (
        f"reactdb {reactdb.__version__}: {safe(database.path)}{mode}\n"
        f"tables: {tables}\n"
        "db is the database; Tab completes; Ctrl-D ends"
    )


class Prompt(InteractiveConsole):
    """Python's prompt, with errors of the library in one line."""

    def __init__(self, names: ShellNames, is_writing: bool) -> None:
        super().__init__(names, "<shell>")
        self._names = names
        self._is_writing = is_writing
        self._error: BaseException | None = None
        self._is_interactive = True

    def run_all(self, source: str, where: str) -> None:
        """Run the statements of a text, and print the values of expressions among them.

        Raises:
            ClickException: A statement raised an error.
        """
        self._is_interactive = False
        try:
            tree = ast.parse(source, where)
            code = codeop.Compile()(ast.Interactive(tree.body), where, "single")  # type: ignore[arg-type]
        except (SyntaxError, ValueError, OverflowError) as error:
            raise click.ClickException(f"{where}: {type(error).__name__}: {error}") from None
        self.runcode(code)
        raised, self._error = self._error, None
        if raised is None:
            return
        if isinstance(raised, (KeyboardInterrupt, BrokenPipeError, click.ClickException)):
            raise raised
        lines = [
            frame.lineno for frame in traceback.extract_tb(raised.__traceback__) if frame.filename == where
        ]
        place = f", line {lines[0]}" if lines and "\n" in source.strip() else ""
        raise click.ClickException(f"{where}{place}: {self.sentence(raised)}")

    def showtraceback(self) -> None:
        error = sys.exc_info()[1]
        assert error is not None
        if not self._is_interactive:
            self._error = error
        elif isinstance(error, KeyboardInterrupt):
            self.write("\ninterrupted\n")
        elif isinstance(error, (ReactDBError, NameError)):
            self.write(f"{self.sentence(error)}\n")
        else:
            super().showtraceback()

    def sentence(self, error: BaseException) -> str:
        """An error as one line, with the nearest name or what to do."""
        text = f"{type(error).__name__}: {error}".removesuffix(": ")
        if isinstance(error, NameError) and error.name is not None:
            return f"{text}.{nearest(error.name, [*self._names.tables(), *self._names])}"
        if isinstance(error, TableNotFound):
            return text + nearest(error.name, self._names.tables())
        if isinstance(error, ReadOnlyDatabase) and not self._is_writing:
            return f"{text}; start the shell with --write to change the file"
        return text

    def write(self, data: str) -> None:
        # Messages have values of documents.
        click.echo("\n".join(map(safe, data.split("\n"))), err=True, nl=False)


# ---------------------------------------------------------------------------------------------------------------
# Results


@contextmanager
def displayed_by(display: Display) -> Iterator[None]:
    """Inside of the block, Python prints the values of expressions by this."""
    before = sys.displayhook
    sys.displayhook = display
    try:
        yield
    finally:
        sys.displayhook = before


class Display:
    """Prints the value of an expression: documents as a table on a terminal and as JSON lines elsewhere."""

    def __init__(self, names: ShellNames) -> None:
        self._names = names

    def __call__(self, value: Any) -> None:
        if value is None:
            return
        self._names["_"] = value
        if isinstance(value, Feed):
            print_feed(value)
            return
        primary_key = None
        if isinstance(value, Table):
            primary_key = value.primary_key
            # A large table is printed page by page.
            value = documents(self._names["db"], value.name)
        elif isinstance(value, Selection):
            value = value.run()
        elif isinstance(value, LiveList):
            value = list(value)
        elif isinstance(value, (LiveValue, Observation)):
            value = value.value
        if value is None:
            click.echo("None")
        elif not is_terminal(sys.stdout):
            echo_lines(map(as_text, value) if isinstance(value, (list, Iterator)) else [as_text(value)], str)
        elif isinstance(value, (list, Iterator)):
            print_list(iter(value), primary_key)
        elif isinstance(value, Mapping) and value and all(isinstance(name, str) for name in value):
            print_lines(documentlines.as_records([value]))
        else:
            click.echo(safe(repr(value)))


def as_text(value: Any) -> str:
    """JSON where the value has it, else its `repr`."""
    try:
        return dumps(value)
    except InvalidDocument:
        return repr(value)


def print_list(values: Iterator[Any], primary_key: str | None) -> None:
    """Print documents as a table, and anything else a line each."""
    first = list(islice(values, SHOWN))
    if not first:
        click.echo("nothing")
        return
    is_cut = False
    if pager() is None:
        # One more value shows whether there are more.
        is_cut = next(values, None) is not None
        values = iter(())
    everything = chain(first, values)
    if all(isinstance(value, Mapping) for value in first):
        if primary_key is None and all("id" in value for value in first):
            primary_key = "id"
        lines = documentlines.as_columns(everything, primary_key, screen_width())
    else:
        lines = (safe_json(as_text(value)) for value in everything)
    print_lines(lines)
    if is_cut:
        click.echo(
            click.style(f"the first {SHOWN}; .count() counts them, and PAGER=less shows all", dim=True)
        )


def print_feed(feed: Feed[Any]) -> None:
    """Print the events of a feed until Ctrl-C."""
    is_for_people = is_terminal(sys.stdout)
    if is_for_people:
        click.echo(click.style("events until Ctrl-C", dim=True))
    try:
        with feed.cursor() as cursor:
            for event in cursor:
                if is_for_people:
                    click.echo(event_line(event))
                else:
                    echo_lines([as_text(event)], str)
    except KeyboardInterrupt:
        if is_for_people:
            click.echo()


def event_line(event: Any) -> str:
    """An event as a line for people: its type, and the different fields."""
    if not isinstance(event, Mapping) or not ("old_val" in event or "new_val" in event):
        return safe(as_text(event))
    old, new = event.get("old_val"), event.get("new_val")
    kind = event.get("type") or ("add" if old is None else "remove" if new is None else "change")
    title = click.style(f"{kind:<7}", fg=COLORS.get(kind))
    if isinstance(new, Mapping) and isinstance(old, (Mapping, type(None))):
        key = f"{format_value(new['id'])}  " if old is not None and "id" in new else ""
        return f"{title}  {key}{', '.join(differences(old, new))}"
    if isinstance(old, Mapping) and new is None:
        return f"{title}  {', '.join(differences(None, old))}"
    return f"{title}  {format_value(old)} -> {format_value(new)}"


def pager() -> list[str] | None:
    """The words of the variable PAGER, if a terminal can show it; None for none."""
    try:
        words = shlex.split(os.environ.get("PAGER", ""))
    except ValueError:
        return None
    is_there = words and is_terminal(sys.stdout) and is_terminal(sys.stdin) and shutil.which(words[0])
    return words if is_there else None


def print_lines(lines: Iterable[str]) -> None:
    """Print lines, by the pager if there are more than the screen has."""
    words = pager()
    height = shutil.get_terminal_size((100, 24)).lines
    first = list(islice(lines, height - 1))
    rest = iter(lines) if isinstance(lines, Iterator) else iter(list(lines)[len(first) :])
    following = next(rest, None)
    if words is None or following is None:
        echo_lines(chain(first, [] if following is None else [following], rest))
        return
    # `less` shows colours only with this option.
    environment = {"LESS": "FRX", **os.environ}
    try:
        child = subprocess.Popen(
            words, stdin=subprocess.PIPE, env=environment, text=True, errors="backslashreplace"
        )
    except OSError as error:
        note(f"PAGER {words[0]}: {error.strerror}")
        echo_lines(chain(first, [following], rest))
        return
    assert child.stdin is not None
    with suppress(BrokenPipeError, KeyboardInterrupt):
        for line in chain(first, [following], rest):
            child.stdin.write(f"{line}\n")
    with suppress(BrokenPipeError):
        child.stdin.close()
    while True:
        # Ctrl-C is for the pager.
        with suppress(KeyboardInterrupt):
            child.wait()
            return


# ---------------------------------------------------------------------------------------------------------------
# The line of input


def history_file() -> Path:
    """Where lines are kept: the folder for states of programs, and never the folder of a project.

    Source: https://specifications.freedesktop.org/basedir-spec/latest/
    """
    given = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(given) if os.path.isabs(given) else Path.home() / ".local" / "state"
    return folder / "reactdb" / "shell_history"


@contextmanager
def line_editing(names: ShellNames) -> Iterator[None]:
    """Inside of the block, input has history and completion, where this Python has readline."""
    try:
        import readline
    except ImportError:
        yield
        return
    completer = readline.get_completer()
    readline.set_completer(ShellCompleter(names).complete)
    is_editline = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_editline else "tab: complete")
    file: Path | None = None
    # A home that cannot be written, or an unreadable history, must not keep the user from the data.
    with suppress(OSError, RuntimeError):
        file = history_file()
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            readline.read_history_file(file)
    readline.set_history_length(HISTORY_LINES)
    try:
        yield
    finally:
        readline.set_completer(completer)
        if file is not None:
            with suppress(OSError):
                readline.write_history_file(file)
                # Lines may have values of documents.
                file.chmod(0o600)
