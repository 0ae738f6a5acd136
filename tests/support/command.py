"""The command `reactdb` in this process: its output in two streams, neither of them a terminal."""

from __future__ import annotations

from typing import Any

from click.testing import CliRunner, Result

from reactdb.cli import main


def run(*arguments: object, **options: Any) -> Result:
    """One call of the command."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments], **options)


def done(result: Result) -> Result:
    """The result of a call that must have succeeded."""
    assert 0 == result.exit_code, result.output
    return result


def error_of(result: Result) -> str:
    """The one line of an error, after a look that it is one and that nothing else was printed."""
    assert "" == result.stdout
    (line,) = result.stderr.splitlines()
    assert line.startswith("reactdb: ")
    return str(line.removeprefix("reactdb: "))
