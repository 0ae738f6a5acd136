"""The difference of two versions of a document, as `updateDescription` has it: for updates by a pipeline, and for native ones.

Fields that changed are listed by themselves, inside of documents and arrays too, wherever that is shorter, in BSON, than the
whole value around them. An array that lost its tail is truncated, and its other changes are listed by index. Fields that are not
in the order in which they were are added again, at the end.

Rule of this file: applied to the old document, the description makes the new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import bson

Document = dict[str, Any]
Parts = tuple[str | int, ...]


class _Difference(NamedTuple):
    """What changed inside of one value.

    Attributes:
        updated, removed, truncated: By their paths from here; of an array that was cut its new size.
        shape: The same as a document, whose BSON is compared with the value's.
    """

    updated: list[tuple[Parts, Any]]
    removed: list[Parts]
    truncated: list[tuple[Parts, int]]
    shape: Document


def describe(old: Document, new: Document, *, is_replaced_if_shorter: bool = False) -> Document | None:
    """The description of what makes `new` of `old`.

    Args:
        is_replaced_if_shorter: Where the difference is not shorter than the new document, there is none: it is a replacement.

    Returns:
        `updatedFields`, `removedFields`, `truncatedArrays` and `disambiguatedPaths`; None for a replacement.
    """
    found = _of_documents(old, new)
    if is_replaced_if_shorter and _size(found.shape) >= _size(new):
        return None
    paths = [parts for parts, _ in (*found.updated, *found.truncated)] + found.removed
    return {
        "updatedFields": {dotted(parts): value for parts, value in found.updated},
        "removedFields": [dotted(parts) for parts in found.removed],
        "truncatedArrays": [{"field": dotted(parts), "newSize": size} for parts, size in found.truncated],
        "disambiguatedPaths": {dotted(parts): list(parts) for parts in paths if is_ambiguous(parts)},
    }


def dotted(parts: Parts) -> str:
    """A path as text."""
    return ".".join(map(str, parts))


def is_ambiguous(parts: Parts) -> bool:
    """Whether the text of a path does not say what it is: a name has a dot, or one after the first looks like an index."""
    return any(
        type(part) is str and ("." in part or (place > 0 and part.isascii() and part.isdigit()))
        for place, part in enumerate(parts)
    )


def _of_documents(old: Document, new: Document) -> _Difference:
    found = _Difference([], [], [], {})
    kept = set(_kept(old, new))
    changed: Document = {}
    added: Document = {}
    for name, value in new.items():
        if name not in kept:
            added[name] = value
            found.updated.append(((name,), value))
        elif not _is_same(old[name], value) and not _inside(found, name, old[name], value, f"s{name}"):
            changed[name] = value
            found.updated.append(((name,), value))
    gone = [name for name in old if name not in new]
    found.removed.extend((name,) for name in gone)
    for letter, listed in (("u", changed), ("i", added), ("d", dict.fromkeys(gone, False))):
        if listed:
            found.shape[letter] = listed
    return found


def _kept(old: Document, new: Document) -> Iterator[str]:
    """The fields at the beginning of `new` that are in `old` in the same order: the others come after all that stays."""
    places = {name: place for place, name in enumerate(old)}
    last = -1
    for name in new:
        place = places.get(name, -1)
        if place < last or name not in places:
            return
        last = place
        yield name


def _of_arrays(old: list[Any], new: list[Any]) -> _Difference:
    found = _Difference([], [], [], {"a": True})
    if len(new) < len(old):
        found.truncated.append(((), len(new)))
        found.shape["l"] = len(new)
    for place, value in enumerate(new):
        if place < len(old) and (
            _is_same(old[place], value) or _inside(found, place, old[place], value, f"s{place}")
        ):
            continue
        found.updated.append(((place,), value))
        found.shape[f"u{place}"] = value
    return found


def _inside(found: _Difference, part: str | int, old: Any, new: Any, name: str) -> bool:
    """Put what changed inside of a value into the difference around it, if that is shorter than the value. Whether it is."""
    if isinstance(old, dict) and isinstance(new, dict):
        inner = _of_documents(old, new)
    elif isinstance(old, list) and isinstance(new, list):
        inner = _of_arrays(old, new)
    else:
        return False
    if _size(inner.shape) >= _size({"": new}) - 7:
        return False
    found.updated.extend(((part, *parts), value) for parts, value in inner.updated)
    found.removed.extend((part, *parts) for parts in inner.removed)
    found.truncated.extend(((part, *parts), size) for parts, size in inner.truncated)
    found.shape[name] = inner.shape
    return True


def _is_same(old: Any, new: Any) -> bool:
    """Whether two values have the same BSON."""
    if type(old) is not type(new):
        return False
    if type(old) is str or type(old) is int:
        return bool(old == new)
    return bson.encode({"": old}) == bson.encode({"": new})


def _size(document: Document) -> int:
    return len(bson.encode(document))
