"""Paths: the arguments of `has_fields`, `pluck` and `without`, which name fields.

    "a"                     the field a
    ["a", "b"]              both
    {"a": True}             the field a, again
    {"a": ["b", "c"]}       b and c inside of a; in each element, where a is an array

A path is read once (`read_paths`) into a smaller shape: a str, a tuple of paths, or a dict of a name to a path.

Source: RethinkDB 2.4, pathspec.cc, also for details: where a path leads into a value that is no object, `pluck` leaves the field
out, `without` keeps it, and `has_fields` counts it as missing.
"""

from __future__ import annotations

from typing import Any

from reactdb.budget import spend
from reactdb.errors import QueryError
from reactdb.expression.checks import format_value
from reactdb.expression.markers import absent

Path = str | tuple[Any, ...] | dict[str, Any]


class _NotAnObject(Exception):
    """A path led into something without fields."""


def read_paths(arguments: list[Any] | tuple[Any, ...]) -> Path:
    """The arguments of an operation as one path.

    Raises:
        QueryError: An argument is no path.
    """
    return _read(list(arguments))


def _read(value: Any) -> Path:
    if isinstance(value, str):
        return value
    if isinstance(value, (list, dict)):
        spend(len(value))
    if isinstance(value, list):
        return _all_of([_read(inner) for inner in value])
    if isinstance(value, dict):
        names: list[Path] = [name for name in sorted(value) if value[name] is True]
        deeper = {name: _read(value[name]) for name in sorted(value) if value[name] is not True}
        if not names:
            return deeper
        return _all_of([*names, deeper] if deeper else names)
    raise QueryError(f"Invalid path argument `{format_value(value)}`.")


def _all_of(paths: list[Path]) -> Path:
    return paths[0] if len(paths) == 1 else tuple(paths)


def _field(value: Any, name: str) -> Any:
    if not isinstance(value, dict):
        raise _NotAnObject
    return value.get(name, absent)


def has(value: Any, path: Path) -> bool:
    """Whether all fields that the path names are there and not null."""
    try:
        return _has(value, path)
    except _NotAnObject:
        return False


def _has(value: Any, path: Path) -> bool:
    if isinstance(path, str):
        field = _field(value, path)
        return field is not absent and field is not None
    spend(len(path))
    if isinstance(path, tuple):
        return all(has(value, inner) for inner in path)
    for name, inner in path.items():
        field = _field(value, name)
        if field is absent or not has(field, inner):
            return False
    return True


def project(document: dict[str, Any], path: Path) -> dict[str, Any]:
    """The document with only the fields that the path names."""
    result: dict[str, Any] = _project(document, path, within=False)
    return result


def _project(value: Any, path: Path, *, within: bool) -> Any:
    if within and isinstance(value, list):
        spend(len(value))
        return [_project(inner, path, within=False) for inner in value]
    if isinstance(path, str):
        field = _field(value, path)
        return {} if field is absent else {path: field}
    spend(len(path))
    result: dict[str, Any] = {}
    if isinstance(path, tuple):
        for inner in path:
            part = _project(value, inner, within=within)
            result.update(part)
        return result
    for name, inner in path.items():
        field = _field(value, name)
        if field is not absent:
            try:
                result[name] = _project(field, inner, within=True)
            except _NotAnObject:
                continue
    return result


def unproject(document: dict[str, Any], path: Path) -> dict[str, Any]:
    """The document without the fields that the path names."""
    result: dict[str, Any] = _unproject(document, path, within=False)
    return result


def _unproject(value: Any, path: Path, *, within: bool) -> Any:
    if within and isinstance(value, list):
        spend(len(value))
        return [_unproject(inner, path, within=False) for inner in value]
    if not isinstance(value, dict):
        raise _NotAnObject
    spend(len(value))
    result = dict(value)
    _take_away(result, path)
    return result


def _take_away(result: dict[str, Any], path: Path) -> None:
    if isinstance(path, str):
        result.pop(path, None)
    elif isinstance(path, tuple):
        spend(len(path))
        for inner in path:
            _take_away(result, inner)
    else:
        for name, inner in path.items():
            if name in result:
                try:
                    result[name] = _unproject(result[name], inner, within=True)
                except _NotAnObject:
                    continue
