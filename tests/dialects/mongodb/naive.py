"""Models of queries and updates, as simple as the rules are said in words, to compare the dialect with.

Rule of this file: nothing of the dialect is used but the order of values, which has laws of its own.
"""

from __future__ import annotations

from typing import Any

from reactdb.dialects.mongodb.ordering import MISSING, bracket, compare, is_nan

__all__ = ["naive_matches"]


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
