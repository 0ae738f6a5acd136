"""Partial indexes: whether a partial index has all documents that match a query.

    {n: {$gt: 5}, a: 1}    implies    {n: {$gte: 0}}

A condition on a path requires a value, or an element of an array, with a property: above 5. It implies another condition on the
path if every value with the first property has the second. So conditions are compared in pairs, and never several with one: in an
array, each may hold for another element.

Rule of this file: only a certain implication counts. Without it the index is not used, which costs time and no document.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import ge, gt, le, lt
from typing import Any, Final

from bson.regex import Regex

from reactdb.dialects.mongodb.bson_order import bracket, is_nan, sort_key
from reactdb.dialects.mongodb.filters import is_demanded, is_operators

__all__ = ["implies"]

Conditions = Mapping[str, Sequence[tuple[str, Any]]]
"""By path, operators with their arguments; all of them hold."""

_NUMBER, _TEXT = 10, 15
_ORDERED: Final = frozenset((_NUMBER, _TEXT, 35, 40, 45, 47))
"""The brackets of the types with a closed range: numbers, texts, ObjectIds, booleans, dates, timestamps."""
_TOLD: Final[Mapping[str, Callable[[Any, Any], bool]]] = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}
_WITHOUT_TEXT: Final = ("$exists", "$type")


def implies(
    conditions: Conditions,
    partial: Mapping[str, Any],
    has_collation: bool,
    demands: Callable[[str], bool],
) -> bool:
    """Whether each document that meets the conditions passes an index's filter.

    Args:
        has_collation: The conditions compare texts by a collation; the filter compares code points.
        demands: Whether the conditions require the field to exist.
    """
    for name, value in partial.items():
        if name == "$and":
            holds = all(implies(conditions, part, has_collation, demands) for part in value)
        elif name == "$or":
            holds = any(implies(conditions, part, has_collation, demands) for part in value)
        elif name.startswith("$"):
            holds = False
        else:
            own = conditions.get(name, ())
            wanted = value.items() if is_operators(value) else [("$eq", value)]
            holds = all(
                (operator == "$exists" and is_demanded(operand) and demands(name))
                or any(_follows(one, (operator, operand), has_collation) for one in own)
                for operator, operand in wanted
            )
        if not holds:
            return False
    return True


def _follows(given: tuple[str, Any], wanted: tuple[str, Any], has_collation: bool) -> bool:
    """Whether a condition follows from another condition on the same path."""
    operator, value = given
    if operator in _WITHOUT_TEXT or wanted[0] in _WITHOUT_TEXT:
        return operator == wanted[0] and sort_key(value) == sort_key(wanted[1])
    if operator == "$eq":
        return _is_single(value, has_collation) and _holds_of(value, wanted)
    if operator == "$in":
        return (
            isinstance(value, list | tuple)
            and bool(value)
            and all(_is_single(one, has_collation) and _holds_of(one, wanted) for one in value)
        )
    if operator not in _TOLD or wanted[0] not in _TOLD or not _is_single(value, has_collation):
        return False
    if operator[:3] != wanted[0][:3] or not _is_in_order(value, wanted[1]):
        return False
    # Where the ends are the same, only "at least" does not follow into "above".
    is_strict = operator in ("$gt", "$lt") or wanted[0] in ("$gte", "$lte")
    compare = (ge if is_strict else gt) if operator[:3] == "$gt" else (le if is_strict else lt)
    return bool(compare(sort_key(value), sort_key(wanted[1])))


def _is_single(value: Any, has_collation: bool) -> bool:
    """Whether equality with a value excludes all other values, and missing fields."""
    if isinstance(value, Regex | Mapping | list | tuple) or value is None:
        return False
    return (
        bracket(value) in _ORDERED and not is_nan(value) and not (has_collation and bracket(value) == _TEXT)
    )


def _holds_of(value: Any, wanted: tuple[str, Any]) -> bool:
    """Whether a condition holds for every value equal to the given one."""
    operator, operand = wanted
    if operator == "$eq":
        return _is_in_order(value, operand) and sort_key(value) == sort_key(operand)
    if operator == "$in":
        return isinstance(operand, list | tuple) and any(_holds_of(value, ("$eq", one)) for one in operand)
    compare = _TOLD.get(operator)
    return (
        compare is not None and _is_in_order(value, operand) and compare(sort_key(value), sort_key(operand))
    )


def _is_in_order(value: Any, other: Any) -> bool:
    """Whether a single value and another value are in the same order."""
    return bracket(value) == bracket(other) and not is_nan(other)
