"""The difference of two versions of a document, in the form of `updateDescription`.

    difference({"a": {"b": 1}, "c": 1}, {"a": {"b": 2}})
    {"updatedFields": {"a.b": 2}, "removedFields": ["c"], "truncatedArrays": [], "disambiguatedPaths": {}}

Fields are compared in the order of both. A field at another place in the new version counts as removed and inserted. Elements of
arrays are compared by index: a longer array has new elements, a shorter one is truncated. A nested document or array is described
by its parts if these are smaller than the new value, and otherwise as a whole. Sizes are sizes in BSON, of parts in the form of
an update:

    document    {"u": changed fields, "i": new fields, "d": removed fields, "s" + name: the parts inside}
    array       {"a": true, "l": new length, "u" + index: new element, "s" + index: the parts inside}

Rule of this file: it does not know the writer of the versions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from reactdb.budget import spend_value
from reactdb.dialects.mongodb.bson_order import identical
from reactdb.dialects.mongodb.values import encode

__all__ = ["Description", "describe", "difference", "is_ambiguous"]

Description = dict[str, Any]
"""`updatedFields`, `removedFields`, `truncatedArrays` and `disambiguatedPaths`."""

_Parts = tuple[str | int, ...]


def difference(
    before: Mapping[str, Any], after: Mapping[str, Any], *, is_always: bool = False
) -> Description | None:
    """The changes, or None if their description is as large as the new version, or two paths have the same dotted form.

    Args:
        is_always: Return the description, whatever its size.
    """
    parts = _document_parts(before, after)
    if not is_always and _size(parts) >= _size(after):
        return None
    updated: dict[_Parts, Any] = {}
    removed: list[_Parts] = []
    truncated: list[tuple[_Parts, int]] = []
    _collect((), parts, updated, removed, truncated)
    paths = [*updated, *removed]
    if len(set(map(_join_path, paths))) < len(paths):
        # A name with a dot and a path through a document: `{"a.b": 1, "a": {"b": 1}}`.
        return None
    return describe(updated, removed, truncated)


def describe(
    updated: Mapping[_Parts, Any], removed: Sequence[_Parts], truncated: Sequence[tuple[_Parts, int]] = ()
) -> Description:
    """The description of changes by path.

    Args:
        updated, removed, truncated: Paths, whose components are names as str and indexes as int; values, and new lengths.
    """
    paths = [*updated, *removed, *(path for path, _ in truncated)]
    return {
        "updatedFields": {_join_path(path): value for path, value in updated.items()},
        "removedFields": [_join_path(path) for path in removed],
        "truncatedArrays": [{"field": _join_path(path), "newSize": size} for path, size in truncated],
        "disambiguatedPaths": {_join_path(path): list(path) for path in paths if is_ambiguous(path)},
    }


def is_ambiguous(path: _Parts) -> bool:
    """Whether the dotted form has another reading: a name has a dot, or a name after the first looks like an index."""
    if len(path) == 1:
        return "." in str(path[0])
    return any(
        type(part) is str and ("." in part or (number > 0 and part.isdecimal() and part.isascii()))
        for number, part in enumerate(path)
    )


def _join_path(path: _Parts) -> str:
    return str(path[0]) if len(path) == 1 else ".".join(map(str, path))


# -----------------------------------------------------------------------------------------------------------
# Parts, in the form whose size counts

_UPDATED, _INSERTED, _REMOVED, _INSIDE, _IS_ARRAY, _LENGTH = "u", "i", "d", "s", "a", "l"
_EMPTY_BYTES: Final = 5


def _size(document: Mapping[str, Any]) -> int:
    return len(encode(document)) if document else _EMPTY_BYTES


def _document_parts(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    updated: dict[str, Any] = {}
    removed: dict[str, bool] = {}
    inside: dict[str, Any] = {}
    old, new = list(before), list(after)
    place = other = 0
    while place < len(old) and other < len(new):
        name = old[place]
        place += 1
        if name != new[other]:
            removed[name] = False
            continue
        other += 1
        if not identical(before[name], after[name]):
            parts = _parts(before[name], after[name])
            if parts is None:
                updated[name] = after[name]
            else:
                inside[_INSIDE + name] = parts
    removed.update(dict.fromkeys(old[place:], False))
    inserted = {name: after[name] for name in new[other:]}
    for name in inserted:
        removed.pop(name, None)
    sections = ((_REMOVED, removed), (_UPDATED, updated), (_INSERTED, inserted))
    return {section: fields for section, fields in sections if fields} | inside


def _array_parts(before: list[Any], after: list[Any]) -> dict[str, Any]:
    made: dict[str, Any] = {_IS_ARRAY: True}
    if len(after) < len(before):
        made[_LENGTH] = len(after)
    spend_value(before)
    for index, (old, new) in enumerate(zip(before, after, strict=False)):
        if not identical(old, new):
            parts = _parts(old, new)
            if parts is None:
                made[f"{_UPDATED}{index}"] = new
            else:
                made[f"{_INSIDE}{index}"] = parts
    for index in range(len(before), len(after)):
        made[f"{_UPDATED}{index}"] = after[index]
    return made


def _parts(before: Any, after: Any) -> dict[str, Any] | None:
    """The changed parts of a value, or None if the value is described as a whole."""
    if type(before) is dict and type(after) is dict:
        parts, room = _document_parts(before, after), _size(after)
    elif type(before) is list and type(after) is list:
        parts = _array_parts(before, after)
        room = _size({str(index): value for index, value in enumerate(after)})
    else:
        return None
    return parts if _size(parts) < room else None


def _collect(
    path: _Parts,
    parts: Mapping[str, Any],
    updated: dict[_Parts, Any],
    removed: list[_Parts],
    truncated: list[tuple[_Parts, int]],
) -> None:
    if parts.get(_IS_ARRAY) is True:
        if _LENGTH in parts:
            truncated.append((path, parts[_LENGTH]))
        for name, value in parts.items():
            if name.startswith(_UPDATED):
                updated[*path, int(name[1:])] = value
            elif name.startswith(_INSIDE):
                _collect((*path, int(name[1:])), value, updated, removed, truncated)
        return
    removed += [(*path, name) for name in parts.get(_REMOVED, ())]
    for section in (_UPDATED, _INSERTED):
        for name, value in parts.get(section, {}).items():
            updated[*path, name] = value
    for name, value in parts.items():
        if name.startswith(_INSIDE):
            _collect((*path, name[1:]), value, updated, removed, truncated)
