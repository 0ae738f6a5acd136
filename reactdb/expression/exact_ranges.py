"""Exact ranges: the ranges of an index that hold exactly the documents that pass conditions.

`analyse` finds ranges that hold at least these documents, and each document is tested afterwards. Entries are counted
without a test, so the ranges have to be exact. They are known for these conditions:

    row["a"] > 5, == , != ...        the indexed value and a constant
    row["a"].is_in([1, 2])           a list of constants
    row["a"].startswith("x")         a constant text
    row.has_fields("a")              fields of the document; not after ~
    {"a": 1, "b": 2}                 the dict of a filter, without dicts inside
    &, |, ~                          of these, about one value; & also about all parts of a compound index

Values of different types are compared, too, and their key bytes have the same order. A document without the value passes
none of these conditions, and has no entry.

Rule of this file: it never evaluates a document. Any other condition has no exact ranges.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from reactdb.expression.analyse import (
    constant_of,
    fields_of_pattern,
    key_of_row,
    may_fail,
    texts_with_prefix,
)
from reactdb.expression.build import Expression
from reactdb.expression.compile import COMPARISONS, FLIPPED
from reactdb.expression.evaluate import is_spliced
from reactdb.expression.predicate import Predicate
from reactdb.expression.tree import Call, Constant, Node, Row, key_of_field, node_key, walk
from reactdb.values.collation import key_bytes

LEAST: Final = b""
GREATEST: Final = b"\xff"
# No key is the beginning of another key, and no tag of a value is this byte. So a key with this byte appended is greater than
# all bytes that begin with the key.
AFTER: Final = b"\xff"
# The first byte of an array, before its elements.
ARRAY: Final = key_bytes([])[:1]

# For more ranges, a read of the documents is as quick as a count of each range.
MOST_RANGES: Final = 1_000

Ranges = tuple[tuple[bytes, bytes], ...]
"""Ranges of key bytes, start <= bytes < stop, in order, without overlaps."""

EVERYTHING: Final[Ranges] = ((LEAST, GREATEST),)

# By the key of the node of a value: its ranges. The condition holds if each value is in its ranges.
_Exact = dict[bytes, Ranges]


def find_exact_ranges(conditions: Sequence[Predicate], index: Expression) -> Ranges | None:
    """The ranges of an index that hold exactly the documents that pass every condition; None if they are not known, or are
    more than MOST_RANGES.

    Args:
        index: The indexed expression of `row`; for a compound index, `make_array` of its parts. The index has one entry,
            hidden or not, for a document.
    """
    exact = find_exact_values(conditions)
    return None if exact is None else ranges_of_index(exact, index)


def find_exact_values(conditions: Sequence[Predicate]) -> _Exact | None:
    """The ranges of each value in the conditions, by the key of its node: the conditions hold exactly if all these values are
    in their ranges. None if that is not known.

    It is not known for a condition that can fail with an error, because a count has to fail with it.
    """
    exact: _Exact = {}
    for condition in conditions:
        expression = condition.expression
        if expression is None or condition.default is not False or may_fail(expression):
            return None
        found = _find(expression.node)
        if found is None:
            return None
        exact = _intersect_all(exact, found)
    return exact if all(len(ranges) <= MOST_RANGES for ranges in exact.values()) else None


def ranges_of_index(exact: _Exact, index: Expression) -> Ranges | None:
    """The ranges of an index that hold exactly the documents with these values; None if a value is not in the index."""
    if set(exact) == {index.key}:
        return exact[index.key]
    node = index.node
    if not isinstance(node, Call) or node.operation != "make_array" or is_spliced(node):
        return None
    parts = [node_key(part) for part in node.arguments]
    if len(parts) < 2 or set(exact) != set(parts) or len(set(parts)) < len(parts):
        return None
    # Each part but the last needs a single value, because entries are in order of the first part, then of the next.
    start = ARRAY
    for part in parts[:-1]:
        if not exact[part]:
            return ()
        point = _point(exact[part])
        if point is None:
            return None
        start += point
    return tuple((start + low, start + high) for low, high in exact[parts[-1]])


def _point(ranges: Ranges) -> bytes | None:
    """The key bytes of the only value in the ranges; None if there may be several."""
    if len(ranges) != 1:
        return None
    start, stop = ranges[0]
    return start if start and stop == start + AFTER else None


def intersect(first: Ranges, second: Ranges) -> Ranges:
    """The intersection of two sets of ranges."""
    crossings: list[tuple[bytes, bytes]] = []
    mine, theirs = iter(first), iter(second)
    one, other = next(mine, None), next(theirs, None)
    while one is not None and other is not None:
        start, stop = max(one[0], other[0]), min(one[1], other[1])
        if start < stop:
            crossings.append((start, stop))
        if one[1] <= other[1]:
            one = next(mine, None)
        else:
            other = next(theirs, None)
    return tuple(crossings)


def unite(ranges: Iterable[tuple[bytes, bytes]]) -> Ranges:
    """The union of ranges, which may overlap and be in any order."""
    united: list[tuple[bytes, bytes]] = []
    for start, stop in sorted(ranges):
        if start >= stop:
            continue
        if united and start <= united[-1][1]:
            united[-1] = united[-1][0], max(stop, united[-1][1])
        else:
            united.append((start, stop))
    return tuple(united)


def _complement(ranges: Ranges) -> Ranges:
    edges = [LEAST, *(edge for one in ranges for edge in one), GREATEST]
    return tuple((start, stop) for start, stop in zip(edges[::2], edges[1::2], strict=True) if start < stop)


def _intersect_all(exact: _Exact, more: _Exact) -> _Exact:
    return exact | {key: intersect(exact.get(key, EVERYTHING), ranges) for key, ranges in more.items()}


# ---------------------------------------------------------------------------------------------------------------
# The conditions


def _find(node: Node) -> _Exact | None:
    if not isinstance(node, Call) or is_spliced(node) or not node.arguments:
        return None
    if node.operation == "and":
        exact: _Exact = {}
        for part in map(_find, node.arguments):
            if part is None:
                return None
            exact = _intersect_all(exact, part)
        return exact
    if node.operation == "or":
        parts = list(map(_find, node.arguments))
        return None if None in parts else _unite_all([part for part in parts if part is not None])
    if node.operation == "not":
        inner = _find(node.arguments[0])
        # With several values, the opposite holds already if one of them is outside of its ranges. And without the field,
        # `has_fields` is false and its opposite true, while every other condition and its opposite do not hold.
        if inner is None or len(inner) != 1 or _has_operation(node, "has_fields"):
            return None
        return {key: _complement(ranges) for key, ranges in inner.items()}
    if node.operation == "has_fields":
        return _find_in_fields(*node.arguments)
    if node.operation == "filter_match":
        return _find_in_pattern(*node.arguments)
    value, ranges = _find_test(node)
    key = key_of_row(value)
    return None if ranges is None or key is None else {key: ranges}


def _has_operation(node: Node, name: str) -> bool:
    return any(isinstance(inner, Call) and inner.operation == name for inner in walk(node))


def _unite_all(parts: list[_Exact]) -> _Exact | None:
    """The union of parts about the same value; None for parts about several values. (If the value is missing, the first part
    ends the condition, so no later part can hold.)"""
    keys = {key for part in parts for key in part}
    if len(keys) != 1 or not all(parts):
        return None
    (key,) = keys
    return {key: unite(one for part in parts for one in part[key])}


def _find_test(node: Call) -> tuple[Node, Ranges | None]:
    """The tested value, and the ranges in which the test holds; None in their place if it is no such test."""
    first = node.arguments[0]
    if len(node.arguments) != 2:
        return first, None
    second = node.arguments[1]
    if node.operation in COMPARISONS:
        name = node.operation
        if not first.uses_row:
            first, second, name = second, first, FLIPPED[name]
        constant = constant_of(second)
        return first, None if constant is None else _compare(name, key_bytes(constant[0]))
    constant = constant_of(second)
    if constant is None:
        return first, None
    (given,) = constant
    if node.operation == "is_in" and isinstance(given, list):
        return first, unite((key, key + AFTER) for key in map(key_bytes, given))
    if node.operation == "startswith" and isinstance(given, str):
        texts = texts_with_prefix(given)
        return first, ((texts.start, texts.stop),)
    return first, None


def _compare(name: str, key: bytes) -> Ranges:
    after = key + AFTER
    ranges = {
        "eq": ((key, after),),
        "ne": ((LEAST, key), (after, GREATEST)),
        "lt": ((LEAST, key),),
        "le": ((LEAST, after),),
        "gt": ((after, GREATEST),),
        "ge": ((key, GREATEST),),
    }[name]
    return unite(ranges)


def _find_in_pattern(value: Node, pattern: Node) -> _Exact | None:
    if not isinstance(value, Row):
        return None
    exact: _Exact = {}
    for name, wanted in fields_of_pattern(pattern):
        constant = constant_of(wanted)
        # A dict in the pattern also matches objects with more fields.
        if constant is None or isinstance(constant[0], dict):
            return None
        exact[key_of_field(name)] = _compare("eq", key_bytes(constant[0]))
    return exact or None


def _find_in_fields(value: Node, *names: Node) -> _Exact | None:
    if not isinstance(value, Row):
        return None
    exact: _Exact = {}
    for name in names:
        if not isinstance(name, Constant) or not isinstance(name.value, str):
            return None
        exact[key_of_field(name.value)] = _compare("ne", key_bytes(None))
    return exact or None
