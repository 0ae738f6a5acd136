"""Dot expressions: `.name.0.family=Wood` selects the resources with this text at this path.

    .active=true           booleans and numbers are compared as their JSON text
    .name.0.family=Wood    a number is a place in an array (-1: the last), or a field of that name
    .a=1&.b=2              several: all of them

A missing value, and null, equals nothing. An object or array equals its JSON text in PostgreSQL's form: fields sorted by length
and then by bytes, a space after each colon and comma. Source: Aidbox evaluates `resource #>> '{name,0,family}' = 'Wood'` in
PostgreSQL (https://www.postgresql.org/docs/current/functions-json.html, `#>>`).

Rule of this file: a resource in, yes or no out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from reactdb.dialects.aidbox.errors import AidboxError

_NOTHING: Final = object()
_PLACE: Final = re.compile(r"-?[0-9]{1,9}", re.ASCII)


class DotExpression:
    """One dot expression.

    Attributes:
        path: Names of fields and places in arrays, as texts.
        text: The required text.
    """

    __slots__ = ("path", "text")

    def __init__(self, path: tuple[str, ...], text: str) -> None:
        self.path = path
        self.text = text

    def passes(self, resource: Mapping[str, Any]) -> bool:
        value = value_at(resource, self.path)
        return value is not _NOTHING and value is not None and text_of(value) == self.text


def dot_expressions(parameters: Iterable[tuple[str, str]]) -> list[DotExpression]:
    """The dot expressions of a query: parameters with a dot at the beginning of the name.

    Raises:
        AidboxError: 400, a name is no path, or asks for another comparison than equality.
    """
    expressions = []
    for name, text in parameters:
        if not name.startswith("."):
            continue
        path = tuple(name[1:].split("."))
        if not all(path):
            raise AidboxError(
                400, "invalid", f"{name} is no path: names and numbers are separated by one dot"
            )
        if "$" in path[-1] or "::" in path[-1]:
            raise AidboxError(
                400, "not-supported", f"{name}: only equality is supported, such as .name.0.family=Wood"
            )
        expressions.append(DotExpression(path, text))
    return expressions


def passes(resource: Mapping[str, Any], expressions: Iterable[DotExpression]) -> bool:
    return all(one.passes(resource) for one in expressions)


def value_at(value: Any, path: Iterable[str]) -> Any:
    """The value at a path of a JSON value; a special object if it is missing."""
    for step in path:
        if isinstance(value, Mapping):
            value = value.get(step, _NOTHING)
        elif isinstance(value, (list, tuple)) and _PLACE.fullmatch(step):
            place = int(step)
            value = value[place] if -len(value) <= place < len(value) else _NOTHING
        else:
            return _NOTHING
    return value


def text_of(value: Any) -> str:
    """The text of a JSON value that is not null, as from PostgreSQL's `#>>`."""
    return value if isinstance(value, str) else _json_text(value)


def _json_text(value: Any) -> str:
    if isinstance(value, Mapping):
        fields = sorted(value.items(), key=lambda field: (len(field[0].encode()), field[0].encode()))
        return (
            "{"
            + ", ".join(f"{json.dumps(name, ensure_ascii=False)}: {_json_text(one)}" for name, one in fields)
            + "}"
        )
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_json_text, value)) + "]"
    if isinstance(value, float):
        # A number has its written digits, and no exponent.
        return format(Decimal(repr(value)), "f")
    return json.dumps(value, ensure_ascii=False)
