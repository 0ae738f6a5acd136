"""Models of queries and updates, as simple as the rules are said in words, to compare the dialect with.

Rule of this file: of the dialect, only the order of values and arithmetic are used, which have laws of their own.
"""

from __future__ import annotations

import copy
import functools
from typing import Any

from reactdb.dialects.mongodb.bson_order import MISSING, bracket, compare, is_nan
from reactdb.dialects.mongodb.numeric import add_numbers, multiply_numbers

__all__ = ["described_version", "naive_matches", "naive_update"]


def naive_matches(query: dict[str, Any], document: Any) -> bool:
    """Whether a query matches: the operators of equality, comparison, arrays, existence and logic."""
    for name, operand in query.items():
        if name == "$and":
            holds = all(naive_matches(part, document) for part in operand)
        elif name == "$or":
            holds = any(naive_matches(part, document) for part in operand)
        elif name == "$nor":
            holds = not any(naive_matches(part, document) for part in operand)
        else:
            holds = _field(operand, _reached(document, name.split(".")), looks_inside=True)
        if not holds:
            return False
    return True


def _reached(value: Any, parts: list[str]) -> list[Any]:
    if not parts:
        return [value]
    first, rest = parts[0], parts[1:]
    if isinstance(value, dict):
        return _reached(value[first], rest) if first in value else [MISSING]
    if isinstance(value, list):
        by_index = [value[int(first)]] if first.isdigit() and int(first) < len(value) else []
        found = [one for element in by_index for one in _reached(element, rest)]
        for element in value:
            if isinstance(element, dict):
                found += _reached(element, parts)
        return found
    return [MISSING]


def _field(operand: Any, found: list[Any], *, looks_inside: bool) -> bool:
    if not (isinstance(operand, dict) and any(name.startswith("$") for name in operand)):
        operand = {"$eq": operand}
    every = list(found)
    if looks_inside:
        every += [element for value in found if isinstance(value, list) for element in value]
    return all(_operator(name, value, found, every, looks_inside) for name, value in operand.items())


def _operator(name: str, operand: Any, found: list[Any], every: list[Any], looks_inside: bool) -> bool:
    if name == "$ne":
        return not any(_equal(value, operand) for value in every)
    if name == "$in":
        return any(_equal(value, one) for value in every for one in operand)
    if name == "$nin":
        return not _operator("$in", operand, found, every, looks_inside)
    if name == "$all":
        return bool(operand) and all(any(_equal(value, one) for value in every) for one in operand)
    if name == "$exists":
        return any(value is not MISSING for value in found) == operand
    if name == "$size":
        return any(isinstance(value, list) and len(value) == operand for value in found)
    if name == "$not":
        return not _field(operand, found, looks_inside=looks_inside)
    if name == "$elemMatch":
        return any(
            _element(operand, element) for value in found if isinstance(value, list) for element in value
        )
    return any(_comparison(name, value, operand) for value in every)


def _element(query: dict[str, Any], element: Any) -> bool:
    if any(name.startswith("$") and name not in ("$and", "$or", "$nor") for name in query):
        return _field(query, [element], looks_inside=False)
    if isinstance(element, list):
        element = {str(index): value for index, value in enumerate(element)}
    return isinstance(element, dict) and naive_matches(query, element)


def _equal(value: Any, operand: Any) -> bool:
    value = None if value is MISSING else value
    return compare(value, operand) == 0


def _comparison(name: str, value: Any, operand: Any) -> bool:
    value = None if value is MISSING else value
    if name == "$eq":
        return _equal(value, operand)
    if bracket(value) != bracket(operand):
        return False
    if bracket(value) == 10 and (is_nan(value) or is_nan(operand)):
        return is_nan(value) and is_nan(operand) and name in ("$gte", "$lte")
    order = compare(value, operand)
    return {"$gt": order > 0, "$gte": order >= 0, "$lt": order < 0, "$lte": order <= 0}[name]


# -----------------------------------------------------------------------------------------------------------
# Updates


def naive_update(document: dict[str, Any], update: dict[str, Any]) -> dict[str, Any]:
    """What an update that is possible makes of a document: each operator carried out on a whole copy, path after path."""
    made = copy.deepcopy(document)
    changes = [
        ((operand if name == "$rename" else path).split("."), name, path, operand)
        for name, fields in update.items()
        for path, operand in fields.items()
    ]
    changes.sort(
        key=lambda one: [(not part.isdigit(), int(part) if part.isdigit() else part) for part in one[0]]
    )
    for _, name, path, operand in changes:
        if name == "$rename":
            value = _read(made, path.split("."))
            if value is not MISSING:
                _write(made, operand.split("."), value)
                _write(made, path.split("."), MISSING)
            continue
        old = _read(made, path.split("."))
        if old is MISSING and name in ("$unset", "$pull", "$pullAll", "$pop"):
            continue
        _write(made, path.split("."), _naive_operator(name, old, copy.deepcopy(operand)))
    return made


def _naive_operator(name: str, old: Any, operand: Any) -> Any:
    if name == "$set":
        return operand
    if name == "$unset":
        return MISSING
    if name == "$inc":
        return operand if old is MISSING else add_numbers(old, operand)
    if name == "$mul":
        return multiply_numbers(type(operand)(0) if old is MISSING else old, operand)
    if name in ("$min", "$max"):
        wins = old is MISSING or (compare(operand, old) < 0 if name == "$min" else compare(operand, old) > 0)
        return operand if wins else old
    array = [] if old is MISSING else list(old)
    if name == "$addToSet":
        return array if any(_equal(one, operand) for one in array) else [*array, operand]
    if name == "$pull":
        return [one for one in array if not _equal(one, operand)]
    if name == "$pullAll":
        return [one for one in array if not any(_equal(one, other) for other in operand)]
    if name == "$pop":
        return array[:-1] if operand == 1 else array[1:]
    return _naive_push(array, operand)


def _naive_push(array: list[Any], operand: Any) -> list[Any]:
    if not (isinstance(operand, dict) and "$each" in operand):
        return [*array, operand]
    place = operand.get("$position", len(array))
    array[place:place] = operand["$each"]
    if "$sort" in operand:
        array.sort(key=functools.cmp_to_key(compare), reverse=operand["$sort"] == -1)
    most = operand.get("$slice")
    if most is None:
        return array
    return array[:most] if most >= 0 else array[-min(-most, len(array)) :]


def _read(value: Any, parts: list[str]) -> Any:
    for part in parts:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return MISSING
    return value


def _write(value: Any, parts: list[str], new: Any) -> None:
    for part in parts[:-1]:
        if _read(value, [part]) is MISSING:
            _write(value, [part], {})
        value = _read(value, [part])
    last = parts[-1]
    if isinstance(value, dict):
        if new is MISSING:
            value.pop(last, None)
        else:
            value[last] = new
        return
    index = int(last)
    value.extend([None] * (index + 1 - len(value)))
    value[index] = None if new is MISSING else new


def described_version(document: dict[str, Any], description: dict[str, Any]) -> dict[str, Any]:
    """The new version of a document, from the old one and a description: as somebody does who only hears of changes."""
    made = copy.deepcopy(document)
    parts_of = description["disambiguatedPaths"]

    def parts(path: str) -> list[str]:
        return [str(part) for part in parts_of.get(path, path.split("."))]

    for path in description["removedFields"]:
        _write(made, parts(path), MISSING)
    for cut in description["truncatedArrays"]:
        del _read(made, parts(cut["field"]))[cut["newSize"] :]
    for path, value in description["updatedFields"].items():
        _write(made, parts(path), copy.deepcopy(value))
    return made
