"""Dotted paths, and their values in a document.

There are two ways to follow `a.b`, and MongoDB has both. A *query* goes through arrays of documents, and a number is an index as
well as a name: `ends` returns all values at the end. An *expression* (`"$a.b"`) goes through arrays too, but makes an array of
their values, and a number is only a name: `value_at` returns that single value.

Rule of this file: it reads. Updates follow paths in their own way, because they make missing fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from reactdb.budget import spend_value
from reactdb.dialects.mongodb.bson_order import MISSING

__all__ = ["candidates", "ends", "is_index", "is_place", "sort_ends", "split", "value_at"]


MOST_DIGITS: Final = 18


def split(path: str) -> tuple[str, ...]:
    """The components of a dotted path."""
    return tuple(path.split("."))


def is_index(part: str) -> bool:
    """Whether a component can be the index of an array: digits, without zeros before them."""
    return is_place(part) and (part == "0" or part[0] != "0")


def is_place(part: str) -> bool:
    """Whether a component may be the index of an array. Python refuses to parse thousands of digits."""
    return part.isdecimal() and part.isascii() and len(part) <= MOST_DIGITS


def ends(value: Any, parts: Sequence[str], start: int = 0) -> list[Any]:
    """The values at the end of a query's path, from `parts[start]` on.

    For a document without the field, and for a scalar in the middle of the path, the value is MISSING. Scalars in an array give
    no value, and neither does an empty array: no document in `{a: []}` has a "b".
    """
    last = len(parts)
    while start < last:
        if type(value) is dict:
            value = value.get(parts[start], MISSING)
            start += 1
        elif type(value) is list:
            return _walk_array(value, parts, start)
        else:
            return [MISSING]
    return [value]


def _walk_array(values: list[Any], parts: Sequence[str], start: int) -> list[Any]:
    spend_value(values)
    values_below: list[Any] = []
    part = parts[start]
    if is_index(part) and int(part) < len(values):
        values_below += ends(values[int(part)], parts, start + 1)
    for value in values:
        if type(value) is dict:
            values_below += ends(value, parts, start)
    return values_below


def sort_ends(value: Any, parts: Sequence[str], start: int = 0) -> list[Any]:
    """The values at the end of a sort's path: as in a query, but a number that is an index of an array selects only that element,
    and scalars in an array are MISSING."""
    last = len(parts)
    while start < last:
        part = parts[start]
        if type(value) is dict:
            value = value.get(part, MISSING)
            start += 1
        elif type(value) is list:
            if is_index(part) and int(part) < len(value):
                value = value[int(part)]
                start += 1
                continue
            spend_value(value)
            values: list[Any] = []
            for inner in value:
                values += sort_ends(inner, parts, start) if type(inner) is dict else [MISSING]
            return values
        else:
            return [MISSING]
    return [value]


def candidates(value: Any, parts: Sequence[str]) -> list[Any]:
    """The values for a comparison in a query: `ends`, and the elements of arrays among them."""
    values = ends(value, parts)
    if len(values) == 1 and type(values[0]) is not list:
        return values
    every: list[Any] = []
    for end in values:
        if type(end) is list:
            spend_value(end)
            every += end
        every.append(end)
    return every


def value_at(value: Any, parts: Sequence[str], start: int = 0) -> Any:
    """The value of an expression's path, or MISSING. For an array it is an array of its documents' values."""
    for number in range(start, len(parts)):
        if type(value) is dict:
            value = value.get(parts[number], MISSING)
        elif type(value) is list:
            spend_value(value)
            values = [value_at(inner, parts, number) for inner in value if type(inner) is dict]
            return [inner for inner in values if inner is not MISSING]
        else:
            return MISSING
    return value
