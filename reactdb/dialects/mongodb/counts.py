"""Counts: how many documents match a filter, from the entries of an index.

    {}                                    the documents of the collection
    {team: "a"}, {team: {$in: [...]}}     the entries of an index on `team`, or that begins with it
    {team: "a", score: {$gt: 5}}          of an index on `team` and `score`
    {score: {$gt: 5, $lt: 9}}             if no document has several entries in the index: one element of an array may be
                                          above 5, and another element below 9

A comparison concerns values of its own type, and an array matches if an element matches. The entries of an index follow the
same rules: see `index_keys`. Only values with exact keys are counted: texts without a collation, numbers, booleans,
ObjectIds and dates.

Rule of this file: a count here equals the number of matching documents. If this is not certain, there is no count, and the
documents are read and tested. No document is read here, so a damaged document is not noticed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from math import isfinite
from typing import Any, Final

from bson.objectid import ObjectId

from reactdb.dialects.mongodb.filters import is_operators
from reactdb.dialects.mongodb.find import FilterSelection
from reactdb.dialects.mongodb.index_keys import MARKS, FieldBound, bracket_range, range_of, value_bytes
from reactdb.dialects.mongodb.indexes import CollectionIndex, indexes_of
from reactdb.dialects.mongodb.native_filters import merge_ranges
from reactdb.dialects.mongodb.numeric import integer
from reactdb.dialects.mongodb.query_plan import ID, MOST_POINTS
from reactdb.dialects.mongodb.values import native_value
from reactdb.store.catalogue import TableInfo
from reactdb.store.snapshot import Snapshot

__all__ = ["count_matches", "counting_stages"]

Document = dict[str, Any]
Ranges = list[tuple[bytes, bytes]]

# The first byte of numbers, and a bound above NaN: no comparison of a number holds for NaN.
_NUMBERS: Final = value_bytes(0)[:1]
_AFTER_NAN: Final = _NUMBERS + b"\x01"


def count_matches(snapshot: Snapshot, table: TableInfo, selection: FilterSelection) -> int | None:
    """The number of matching documents, without a read of documents; None if they have to be read."""
    if not selection.spec:
        return snapshot.count(table)
    conditions = _conditions_of(selection)
    if conditions is None or table.primary_key != ID:
        return None
    for index in indexes_of(table):
        if not index.serves or index.is_partial:
            continue
        ranges = _ranges_in(index, conditions)
        if ranges is None:
            continue
        # A document with several entries has a mark.
        is_single = index.has_marks and not snapshot.count_entries(index.info, *MARKS)
        if is_single:
            return sum(snapshot.count_entries(index.info, *one) for one in ranges)
        if all(len(own) == 1 for own in conditions.values()):
            return snapshot.count_indexed(index.info, ranges)
    return None


def _conditions_of(selection: FilterSelection) -> dict[str, list[tuple[str, Any]]] | None:
    """The operators of each field, with their values; None if the filter has anything else."""
    conditions: dict[str, list[tuple[str, Any]]] = {}
    for path, value in selection.spec.items():
        if path == ID or "." in path or path.startswith("$"):
            return None
        own = list(value.items()) if is_operators(value) else [("$eq", value)]
        for operator, operand in own:
            values = operand if operator == "$in" and type(operand) is list else [operand]
            if operator not in ("$eq", "$in", *_COMPARED) or (
                operator == "$in" and type(operand) is not list
            ):
                return None
            if not all(_is_exact(one, selection.collation is not None) for one in values):
                return None
        conditions[path] = own
    return conditions


def _is_exact(value: object, has_collation: bool) -> bool:
    """Whether the bytes of an index decide about equality with this value, and about the order in its type."""
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, datetime):
        return value.tzinfo is None and value.microsecond % 1_000 == 0
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return isinstance(value, ObjectId) or (isinstance(value, str) and not has_collation)


def _ranges_in(index: CollectionIndex, conditions: Mapping[str, Sequence[tuple[str, Any]]]) -> Ranges | None:
    """The ranges of an index with exactly the entries that meet the conditions; None if its first fields are not those of the
    conditions, or several of them have ranges."""
    first, last = index.key[: len(conditions) - 1], index.key[len(conditions) - 1 : len(conditions)]
    if {*first, *last} != set(conditions):
        return None
    prefixes = [b""]
    for path in first:
        points = _points(conditions[path])
        if points is None or len(prefixes) * len(points) > MOST_POINTS:
            return None
        prefixes = [prefix + point for prefix in prefixes for point in points]
    bounds = _bounds(conditions[last[0]])
    if len(prefixes) * len(bounds) > MOST_POINTS:
        return None
    return merge_ranges(range_of(prefix, bound) for prefix in prefixes for bound in bounds)


def _points(own: Sequence[tuple[str, Any]]) -> list[bytes] | None:
    if len(own) != 1 or own[0][0] in _COMPARED:
        return None
    values = own[0][1] if own[0][0] == "$in" else [own[0][1]]
    return list({value_bytes(native_value(value)) for value in values})


def _bounds(own: Sequence[tuple[str, Any]]) -> list[FieldBound]:
    """The ranges of one field, apart from each other, in which all of its conditions hold."""
    bounds = [FieldBound(b"", b"\xff")]
    for operator, operand in own:
        found = [_bound(operator, value) for value in (operand if operator == "$in" else [operand])]
        pairs = [(max(one[0], other[0]), min(one[1], other[1])) for one in bounds for other in set(found)]
        bounds = [FieldBound(start, stop) for start, stop in pairs if start < stop]
    return bounds


_COMPARED: Final = ("$gt", "$gte", "$lt", "$lte")


def _bound(operator: str, value: Any) -> FieldBound:
    data = value_bytes(native_value(value))
    start, stop = bracket_range(data)
    if start == _NUMBERS:
        start = _AFTER_NAN
    # No byte of an index is this one behind a value.
    after = data + b"\xff"
    return {
        "$eq": FieldBound(data, after),
        "$in": FieldBound(data, after),
        "$gt": FieldBound(after, stop),
        "$gte": FieldBound(data, stop),
        "$lt": FieldBound(start, data),
        "$lte": FieldBound(start, after),
    }[operator]


# ---------------------------------------------------------------------------------------------------------------
# Pipelines


class CountingStages:
    """The stages of a pipeline that only count: `$skip` and `$limit`, then `$count`, or `$group` with a constant and `{$sum: 1}`.

    Attributes:
        number: How many stages.
    """

    def __init__(self, number: int, cuts: Sequence[tuple[str, int]], name: str, rest: Document) -> None:
        self.number = number
        self._cuts = cuts
        self._name = name
        self._rest = rest

    def documents(self, count: int) -> list[Document]:
        """Their result for so many documents."""
        for stage, given in self._cuts:
            count = min(count, given) if stage == "$limit" else max(0, count - given)
        return [{**self._rest, self._name: integer(count)}] if count else []


def counting_stages(stages: Sequence[Mapping[str, Any]]) -> CountingStages | None:
    """The first stages, if they only count. They are valid: the pipeline has been compiled."""
    cuts: list[tuple[str, int]] = []
    for number, stage in enumerate(stages, 1):
        (name, spec), *_ = stage.items()
        if name in ("$skip", "$limit") and type(spec) is int:
            cuts.append((name, spec))
            continue
        if name == "$count":
            return CountingStages(number, cuts, spec, {})
        if name != "$group" or len(spec) != 2 or not (spec["_id"] is None or type(spec["_id"]) is int):
            return None
        ((field, total),) = ((one, value) for one, value in spec.items() if one != "_id")
        is_count = isinstance(total, Mapping) and dict(total) == {"$sum": 1} and type(total["$sum"]) is int
        return CountingStages(number, cuts, field, {"_id": spec["_id"]}) if is_count else None
    return None
