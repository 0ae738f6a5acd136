"""Operations: arrays as values: their ends, places, slices and sets.

Sets are arrays without equal elements; equality follows the total order, so 1 and 1.0 are the same element.

Source: RethinkDB 2.4, terms/arr.cc.
"""

from __future__ import annotations

from typing import Any

from reactdb.errors import MissingValue, QueryError
from reactdb.expression.checks import array, check_array, format_value, integer, kind, sequence, sort_key
from reactdb.expression.registry import operation


@operation("append", 2)
def append(values: Any, value: Any) -> list[Any]:
    return check_array([*array(values), value])


@operation("prepend", 2)
def prepend(values: Any, value: Any) -> list[Any]:
    return check_array([value, *array(values)])


# ---------------------------------------------------------------------------------------------------------------
# Slices


def is_closed(bound: Any, name: str) -> bool:
    """The meaning of the option `left_bound` or `right_bound`."""
    if bound not in ("open", "closed"):
        raise QueryError(f"Expected `open` or `closed` for optarg `{name}` (got `{format_value(bound)}`).")
    return bool(bound == "closed")


@operation("slice", 2, 3, options=("left_bound", "right_bound"))
def slice_(value: Any, *places: Any, left_bound: Any = "closed", right_bound: Any = "open") -> Any:
    """The part from one place to another; places below zero count from the end. Of arrays, strings and binaries."""
    left_is_closed = is_closed(left_bound, "left_bound")
    left = integer(places[0])
    if len(places) == 2:
        right_is_closed, right = is_closed(right_bound, "right_bound"), integer(places[1])
    else:
        right_is_closed, right = True, -1
    if not isinstance(value, (list, str, bytes)):
        raise QueryError(f"Expected ARRAY, BINARY, or STRING, but found {kind(value)}.")
    start = _edge(left, len(value), one_more=not left_is_closed)
    stop = _edge(right, len(value), one_more=right_is_closed)
    # A plain slice also of a frozen list: its class is no part of its value.
    return list(value[start:stop]) if isinstance(value, list) else value[start:stop]


def _edge(index: int, size: int, *, one_more: bool) -> int:
    if index < 0:
        if -index > size:
            return 0
        index += size
    return index + one_more


@operation("skip", 2)
def skip(values: Any, count: Any) -> Any:
    return slice_(values, count, -1, right_bound="closed")


@operation("limit", 2)
def limit(values: Any, count: Any) -> list[Any]:
    elements, most = sequence(values), integer(count)
    if most < 0:
        raise QueryError(f"LIMIT takes a non-negative argument (got {most})")
    return list(elements[:most])


# ---------------------------------------------------------------------------------------------------------------
# Changes at a position


def _existing(index: Any, size: int) -> int:
    """The position counted from the start. The caller checks that it is not beyond the end."""
    at = integer(index)
    if at >= 0:
        return at
    if -at > size:
        raise MissingValue(f"Index out of bounds: {at}")
    return at + size


def _within(at: int, size: int, last: int) -> None:
    if at > last:
        raise MissingValue(f"Index `{at}` out of bounds for array of size: `{size}`.")


@operation("insert_at", 3)
def insert_at(values: Any, index: Any, value: Any) -> list[Any]:
    elements = array(values)
    # Places here are the gaps between elements: one more than the elements.
    at = _existing(index, len(elements) + 1)
    _within(at, len(elements), len(elements))
    return check_array([*elements[:at], value, *elements[at:]])


@operation("splice_at", 3)
def splice_at(values: Any, index: Any, inserted: Any) -> list[Any]:
    elements = array(values)
    at = _existing(index, len(elements) + 1)
    _within(at, len(elements), len(elements))
    return check_array([*elements[:at], *array(inserted), *elements[at:]])


@operation("change_at", 3)
def change_at(values: Any, index: Any, value: Any) -> list[Any]:
    elements = array(values)
    at = _existing(index, len(elements))
    _within(at, len(elements), len(elements) - 1)
    return [*elements[:at], value, *elements[at + 1 :]]


@operation("delete_at", 2, 3)
def delete_at(values: Any, index: Any, *end: Any) -> list[Any]:
    """Without the element at that place, or without those from there up to `end`."""
    elements = array(values)
    size = len(elements)
    start = _existing(index, size)
    if not end:
        _within(start, size, size - 1)
        return [*elements[:start], *elements[start + 1 :]]
    stop = _existing(end[0], size)
    _within(start, size, size)
    _within(stop, size, size)
    if start > stop:
        raise QueryError(f"Start index `{start}` is greater than end index `{stop}`.")
    return [*elements[:start], *elements[stop:]]


# ---------------------------------------------------------------------------------------------------------------
# Sets


def distinct_by_key(values: list[Any]) -> dict[bytes, Any]:
    """The first of the equal elements each, by its place in the order."""
    elements: dict[bytes, Any] = {}
    for value in values:
        elements.setdefault(sort_key(value), value)
    return elements


@operation("set_insert", 2)
def set_insert(values: Any, value: Any) -> list[Any]:
    return check_array(list(distinct_by_key([*array(values), value]).values()))


@operation("set_union", 2)
def set_union(values: Any, others: Any) -> list[Any]:
    return check_array(list(distinct_by_key([*array(values), *array(others)]).values()))


@operation("set_intersection", 2)
def set_intersection(values: Any, others: Any) -> list[Any]:
    first, second = distinct_by_key(array(values)), distinct_by_key(array(others))
    return [value for key, value in second.items() if key in first]


@operation("set_difference", 2)
def set_difference(values: Any, others: Any) -> list[Any]:
    first, second = distinct_by_key(array(values)), distinct_by_key(array(others))
    return [value for key, value in first.items() if key not in second]


@operation("difference", 2)
def difference(values: Any, others: Any) -> list[Any]:
    """The elements that are not among the others; repeated elements stay repeated."""
    elements = sequence(values)
    unwanted = distinct_by_key(sequence(others)) if elements else {}
    return [value for value in elements if sort_key(value) not in unwanted]
