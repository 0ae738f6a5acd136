"""Dotted paths, and what of a document they lead to.

There are two ways to follow `a.b`, and MongoDB has both. A *query* goes through arrays of documents, and takes a number for an
index as well as for a name: `ends` gives whatever it arrives at. An *expression* (`"$a.b"`) goes through arrays too, but makes an
array of what it finds there, and a number is a name like others: `value_at` gives that one value.

Rule of this file: it reads. Updates follow paths in their own way, since they make what is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from reactdb.budget import spend_value
from reactdb.dialects.mongodb.ordering import MISSING

__all__ = ["candidates", "ends", "is_index", "is_place", "sort_ends", "split", "value_at"]


MOST_DIGITS: Final = 18


def split(path: str) -> tuple[str, ...]:
    """The components of a dotted path."""
    return tuple(path.split("."))


def is_index(part: str) -> bool:
    """Whether a component can be the index of an array: digits, without zeros before them."""
    return is_place(part) and (part == "0" or part[0] != "0")


def is_place(part: str) -> bool:
    """Whether a component is a number that an array may have elements for. Python reads none of thousands of digits."""
    return part.isdecimal() and part.isascii() and len(part) <= MOST_DIGITS


def ends(value: Any, parts: Sequence[str], start: int = 0) -> list[Any]:
    """What a query's path arrives at, from `parts[start]` on.

    A document without the field, and a scalar in the middle of the path, give MISSING. Elements of an array that are no documents
    give nothing, nor does an empty array: "b" is in none of the documents of `{a: []}`.
    """
    last = len(parts)
    while start < last:
        if type(value) is dict:
            value = value.get(parts[start], MISSING)
            start += 1
        elif type(value) is list:
            return _through(value, parts, start)
        else:
            return [MISSING]
    return [value]


def _through(values: list[Any], parts: Sequence[str], start: int) -> list[Any]:
    spend_value(values)
    found: list[Any] = []
    part = parts[start]
    if is_index(part) and int(part) < len(values):
        found += ends(values[int(part)], parts, start + 1)
    for value in values:
        if type(value) is dict:
            found += ends(value, parts, start)
    return found


def sort_ends(value: Any, parts: Sequence[str], start: int = 0) -> list[Any]:
    """What a sort's path arrives at: as in a query, but where a number is an index of an array, only that element counts, and
    elements of an array that are no documents have nothing there."""
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
            found: list[Any] = []
            for inner in value:
                found += sort_ends(inner, parts, start) if type(inner) is dict else [MISSING]
            return found
        else:
            return [MISSING]
    return [value]


def candidates(value: Any, parts: Sequence[str]) -> list[Any]:
    """The values that a comparison in a query looks at: `ends`, and the elements of those that are arrays."""
    found = ends(value, parts)
    if len(found) == 1 and type(found[0]) is not list:
        return found
    every: list[Any] = []
    for end in found:
        if type(end) is list:
            spend_value(end)
            every += end
        every.append(end)
    return every


def value_at(value: Any, parts: Sequence[str], start: int = 0) -> Any:
    """What an expression's path has as its value, or MISSING. Of an array it is an array of what its documents have there."""
    for number in range(start, len(parts)):
        if type(value) is dict:
            value = value.get(parts[number], MISSING)
        elif type(value) is list:
            spend_value(value)
            found = [value_at(inner, parts, number) for inner in value if type(inner) is dict]
            return [inner for inner in found if inner is not MISSING]
        else:
            return MISSING
    return value
