"""`reactdb doctor`: prints the findings of `reactdb.store.tools.doctor`, which checks a file's consistency."""

from __future__ import annotations

import sys

import click

from reactdb.cli.files import file_argument, json_option
from reactdb.cli.terminal import one_line, plural, write_line
from reactdb.store.file import sqlite
from reactdb.store.tools.doctor import Level, examine

COLORS: dict[Level, str] = {"problem": "red", "warning": "yellow"}


@click.command()
@file_argument
@json_option("One JSON object.")
def doctor(file: str, as_json: bool) -> None:
    """Check a database file for damage.

    Checks that SQLite is a safe version, that the file is intact, and that log, documents, indexes and checksums agree.
    Prints one line for each finding. The exit code is 1 if there is a problem, 0 if there are only warnings. Writes nothing.

    In Python: list(reactdb.store.tools.doctor.examine("arena.db"))
    """
    examined = []
    findings = []
    for check, of_check in examine(file):
        examined.append(check)
        findings += of_check
        if as_json:
            continue
        if not of_check:
            click.echo(f"{click.style('ok     ', fg='green')}  {check}")
        for finding in of_check:
            level = click.style(finding.level, fg=COLORS[finding.level])
            click.echo(f"{level}  {check}: {one_line(finding.message)}")
    problems = sum(finding.level == "problem" for finding in findings)
    warnings = len(findings) - problems
    if as_json:
        write_line(
            {
                "path": file,
                "sqlite_version": ".".join(map(str, sqlite.VERSION)),
                "is_healthy": not problems,
                "checks": examined,
                "findings": [
                    {"level": finding.level, "check": finding.check, "message": finding.message}
                    for finding in findings
                ],
            }
        )
    else:
        verdict = "healthy" if not problems else plural(problems, "problem")
        click.echo(verdict + (f", {plural(warnings, 'warning')}" if warnings else ""))
    sys.exit(1 if problems else 0)
