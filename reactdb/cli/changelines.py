"""One change of the log as a line: JSON for programs, fields with their old and new values for people.

Rule of this file: a change in, text out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from reactdb.change import Change
from reactdb.cli.files import instant, timestamp
from reactdb.cli.terminal import cut, safe
from reactdb.json import readable, to_json
from reactdb.values.codec import same

COLORS: Final = {"insert": "green", "update": "yellow", "replace": "magenta", "delete": "red"}
ABSENT: Final = object()
# The most columns for one value; `--json` prints it whole.
LONGEST_VALUE: Final = 60
_PLAIN_NAME: Final = re.compile(r"[^\W\d]\w*")


def as_json(change: Change) -> dict[str, Any]:
    """A change as JSON values, documents in `reactdb.json`'s form. `time` is ISO 8601 in UTC, to the millisecond. A change of
    tables or indexes also has its details in `catalogue`."""
    line = {
        "seq": change.seq,
        "table": change.table,
        "key": to_json(change.key),
        "kind": change.kind,
        "commit": change.commit,
        "time": timestamp(change.time),
        "origin": change.origin,
        "old_val": to_json(change.old_val),
        "new_val": to_json(change.new_val),
    }
    return line if change.catalogue is None else line | {"catalogue": to_json(change.catalogue)}


def as_line(change: Change, *, with_table: bool = False) -> str:
    """A change as a line for people, in local time, with terminal colours; without a terminal, `click.echo` strips them."""
    moment = instant(change.time).astimezone().replace(tzinfo=None).isoformat(" ", timespec="milliseconds")
    parts = [
        click.style(moment, dim=True),
        f"{change.seq:>6}",
        click.style(f"{change.kind:<7}", fg=COLORS.get(change.kind, "blue")),
        *([safe(change.table)] if with_table else []),
        click.style(format_value(change.key), bold=True),
    ]
    new = change.new_val if change.catalogue is None else details(change.catalogue)
    steps = ", ".join(differences(change.old_val, new)) if new is not None else ""
    if steps:
        parts.append(steps)
    if change.origin is not None:
        parts.append(click.style(f"({safe(change.origin)})", dim=True))
    return "  ".join(parts)


def details(catalogue: Mapping[str, Any]) -> dict[str, Any]:
    """The details of a change of tables or indexes, without its subject."""
    return {
        name: value
        for name, value in catalogue.items()
        if name in ("primary_key", "new_name", "multi", "unique", "hook")
    }


def format_value(value: Any) -> str:
    """A value on one line for people, shortened if it is long."""
    return cut(safe(readable(value)), LONGEST_VALUE)


def differences(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> Iterator[str]:
    """The fields that differ, also inside dicts: `score: 1 -> 2`, `+ tag: "new"`, `- tag: "old"`; all fields of a new document.

    They come in the order of the new document, removed fields at the end.
    """
    if old is None:
        yield from (f"{name_of((field,))}: {format_value(value)}" for field, value in new.items())
        return
    yield from _steps(old, new, ())


def _steps(old: Mapping[str, Any], new: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    for field in [*new, *(field for field in old if field not in new)]:
        before, after = old.get(field, ABSENT), new.get(field, ABSENT)
        name = name_of((*path, field))
        if before is ABSENT:
            yield f"+ {name}: {format_value(after)}"
        elif after is ABSENT:
            yield f"- {name}: {format_value(before)}"
        elif isinstance(before, dict) and isinstance(after, dict):
            yield from _steps(before, after, (*path, field))
        elif not same(before, after):
            yield f"{name}: {format_value(before)} -> {format_value(after)}"


def name_of(path: tuple[str, ...]) -> str:
    """A path as `address.city`, with names that are not words in JSON."""
    return ".".join(field if _PLAIN_NAME.fullmatch(field) else format_value(field) for field in path)
