"""Query plans: how the candidates for a filter are read: by keys, through an index, or all documents.

    {_id: 5}, {_id: {$in: [...]}}       the keys
    an index of MongoDB's               equalities with its first fields, and a range of the next
    the primary key, a native index     the ranges of `native_filters`, if no index of MongoDB's serves
    $or                                 the plans of all its parts, if each part has a plan
    everything else                     all documents whose bytes could match (`raw_filter`)

A plan may read too many documents and never too few: the filter is tested on each document. So conditions that an index cannot
decide alone are skipped: arrays, regular expressions, and text under a collation. Documents without a field have the key of null
in an index, and are missing from a sparse index.

Rule of this file: it reads conditions and returns ranges; it touches no document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from bson.dbref import DBRef
from bson.int64 import Int64
from bson.objectid import ObjectId
from bson.regex import Regex

from reactdb.dialects.mongodb.entries import exchange_name, key_of
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.field_names import format_name
from reactdb.dialects.mongodb.filters import is_demanded, is_operators
from reactdb.dialects.mongodb.index_keys import (
    ANY_VALUE,
    NO_NULL,
    FieldBound,
    bracket_range,
    has_order,
    range_of,
    value_bytes,
)
from reactdb.dialects.mongodb.indexes import CollectionIndex
from reactdb.dialects.mongodb.native_filters import merge_ranges, native_conditions
from reactdb.dialects.mongodb.partial_index import implies
from reactdb.dialects.mongodb.raw_filter import byte_test
from reactdb.dialects.mongodb.values import native_value
from reactdb.expression import field_path
from reactdb.expression.tree import Call
from reactdb.key_spelling import SIGN
from reactdb.store.catalogue import IndexInfo, TableInfo

ID: Final = "_id"

__all__ = [
    "Demand",
    "NativeIndex",
    "ReadPlan",
    "bounds_of",
    "conditions_of",
    "demands_field",
    "exact_key",
    "holds_matches",
    "native_indexes",
    "plan",
    "points_of",
    "ranges_in",
]

MOST_POINTS: Final = 200
"""The most ranges for one filter."""

Conditions = dict[str, list[tuple[str, Any]]]


class ReadPlan(NamedTuple):
    """How documents are read.

    Attributes:
        keys: The keys to look up, sorted; None for a plan by ranges or of all documents.
        by: The store's index for `ranges`; None for the primary key.
        ranges: Byte ranges of the index, start <= entry < stop, in order and disjoint.
        is_exact: Every document of the plan matches, so no test is needed.
        test: A test of a document's bytes. If it fails, the document does not match.
        parts: The plan reads the union of these plans, which have no parts themselves. If it is empty, the fields above are the
            plan.
    """

    keys: Sequence[bytes] | None = None
    by: IndexInfo | None = None
    ranges: Sequence[tuple[bytes, bytes]] = ()
    is_exact: bool = False
    test: Callable[[bytes], bool] | None = None
    parts: Sequence[ReadPlan] = ()

    @property
    def is_whole(self) -> bool:
        """All documents are read."""
        return self.keys is None and self.by is None and not self.ranges and not self.parts


_ALL: Final = ReadPlan(is_exact=True)
# Among these types, equal keys mean equality in BSON, and no value of another type equals them.
_EXACT: Final = frozenset({str, int, bytes, bool, Int64, ObjectId})
_NO_ID: Final = frozenset({52, 53, 17280})
"""The error codes for an invalid `_id`: a name with a dollar, an array, a regular expression, a key of too many bytes."""


def exact_key(spec: Mapping[str, Any], *, has_collation: bool = False) -> bytes | None:
    """The key of the only possible match, which is also sure to match: for `{_id: 5}`; otherwise None."""
    if len(spec) != 1 or ID not in spec:
        return None
    kind = type(spec[ID])
    return (
        None if kind not in _EXACT or (has_collation and kind is str) else next(_keys_of((spec[ID],)), None)
    )


def _keys_of(ids: Iterable[Any]) -> Iterator[bytes]:
    """The keys of the valid `_id`s; no document can have another value as its `_id`."""
    for id in ids:
        try:
            yield key_of(id)
        except MongoError as error:
            if error.code not in _NO_ID:
                raise


def plan(
    spec: Mapping[str, Any],
    indexes: Iterable[CollectionIndex] = (),
    table: TableInfo | None = None,
    *,
    has_collation: bool = False,
) -> ReadPlan:
    """The plan for a filter: how its candidates are read.

    Args:
        spec: The filter.
        indexes: MongoDB's indexes.
        table: The table for native indexes and the primary key; None leaves these out.
        has_collation: Text is not compared by its bytes.
    """
    if not spec:
        return _ALL
    demand = Demand.of(spec)
    ranked = _best_plan(demand, list(indexes), table, has_collation)
    return (
        ReadPlan(test=byte_test(demand.conditions, has_collation=has_collation))
        if ranked is None
        else ranked[1]
    )


Ranked = tuple[int, ReadPlan]
"""A plan after its rank: 0 for keys; 1 for values; 2 for ranges; more for ranges with most of the documents."""
_OF_KEYS, _OF_VALUES, _OF_RANGES, _OF_MOST = range(4)


def _best_plan(
    demand: Demand, indexes: Sequence[CollectionIndex], table: TableInfo | None, has_collation: bool
) -> Ranked | None:
    """The best plan that does not read all documents; None if there is none."""
    conditions = demand.conditions
    points = points_of(conditions.get(ID, ()), has_collation)
    if points is not None and len(points) <= MOST_POINTS * 50:
        return _OF_KEYS, ReadPlan(sorted(set(_keys_of(points))))
    best: tuple[tuple[int, int], ReadPlan] | None = None
    for index in indexes:
        candidate = _of_index(index, conditions, has_collation)
        if candidate is not None:
            cost = candidate[0], -len(index.key)
            if best is None or cost < best[0]:
                best = cost, candidate[1]
    ranked = None if best is None else (best[0][0], best[1])
    if ranked is None and table is not None:
        ranked = _of_native(table, conditions, has_collation)
    for choice in demand.choices:
        if ranked is not None and ranked[0] <= _OF_VALUES:
            break
        parts = [_best_plan(one, indexes, table, has_collation) for one in demand.branches(choice)]
        served = [part for part in parts if part is not None]
        if len(served) < len(parts):
            continue
        rank = max(rank for rank, _ in served)
        if ranked is None or rank < ranked[0]:
            joined = _join([part for _, part in served])
            ranked = ranked if joined is None else (rank, joined)
    return ranked


def _join(plans: Sequence[ReadPlan]) -> ReadPlan | None:
    """The union of the plans; None if it has too many ranges."""
    keys: set[bytes] = set()
    of_keys = False
    ranges: dict[IndexInfo | None, set[tuple[bytes, bytes]]] = {}
    for one in (part for each in plans for part in each.parts or (each,)):
        if one.keys is not None:
            of_keys = True
            keys.update(one.keys)
        else:
            ranges.setdefault(one.by, set()).update(one.ranges)
    if sum(map(len, ranges.values())) > MOST_POINTS:
        return None
    parts = [ReadPlan(by=by, ranges=merge_ranges(own)) for by, own in ranges.items()]
    if of_keys:
        parts.append(ReadPlan(sorted(keys)))
    return parts[0] if len(parts) == 1 else ReadPlan(parts=parts)


class NativeIndex(NamedTuple):
    """A native index, or the primary key, that can serve a query.

    Attributes:
        fields: The names of its fields, in the order of the index.
        by: The index; None for the primary key.
    """

    fields: tuple[str, ...]
    by: IndexInfo | None = None

    @property
    def is_of_elements(self) -> bool:
        return self.by is not None and self.by.multi


def native_indexes(table: TableInfo) -> list[NativeIndex]:
    """The primary key and the usable native indexes, in this order: on one field, on the elements of one field, on several
    fields.

    Indexes on nested fields are left out: `row["a"]["b"]` has no value if `a` is an array of documents and other values.
    """
    indexes = [NativeIndex((table.primary_key,))]
    for info in table.indexes.values():
        node = info.expression.node
        is_several = isinstance(node, Call) and node.operation == "make_array"
        parts = node.arguments if isinstance(node, Call) and is_several else (node,)
        paths = [field_path(part) for part in parts]
        is_of_names = bool(paths) and all(path is not None and len(path) == 1 for path in paths)
        # In an index of several fields, `multi` concerns the array that contains them.
        if is_of_names and not (is_several and info.multi):
            indexes.append(NativeIndex(tuple(path[0] for path in paths if path is not None), info))
    return sorted(indexes, key=lambda one: (len(one.fields), one.is_of_elements))


def _of_native(table: TableInfo, conditions: Conditions, has_collation: bool) -> Ranked | None:
    """The ranges of the primary key, or of a native index, for these conditions."""
    own = table.primary_key
    best: Ranked | None = None
    for index in native_indexes(table):
        paths = [format_name(exchange_name(name, own)) for name in index.fields]
        # A document without one of several fields has no entry.
        if paths[0] not in conditions or not all(
            _demands_field(path, conditions.get(path, ()), has_collation) for path in paths[1:]
        ):
            continue
        for condition in native_conditions(
            {paths[0]: conditions[paths[0]]},
            own,
            has_collation=has_collation,
            is_of_elements=index.is_of_elements,
        ):
            if best is None or condition.rank < best[0]:
                ranges = condition.ranges(is_first=len(paths) > 1)
                test = byte_test(conditions, has_collation=has_collation) if index.by is None else None
                best = condition.rank, ReadPlan(None, index.by, ranges, test=test)
    return None if best is None else (min(_OF_VALUES + best[0], _OF_RANGES), best[1])


class Demand(NamedTuple):
    """The conditions of a filter on single fields: every matching document meets them.

    Attributes:
        conditions: By path, operators with their arguments; all of them must hold.
        choices: The parts of each `$or`; at least one part must hold.
    """

    conditions: Conditions
    choices: list[Sequence[Any]]

    @classmethod
    def of(cls, *specs: Mapping[str, Any]) -> Demand:
        """The demand of several filters together."""
        demand = cls({}, [])
        for spec in specs:
            demand._add(spec)
        return demand

    def _add(self, spec: Mapping[str, Any]) -> None:
        for name, value in spec.items():
            if name == "$and" and isinstance(value, (list, tuple)):
                for part in value:
                    if isinstance(part, Mapping):
                        self._add(part)
            elif name == "$or" and isinstance(value, (list, tuple)):
                self.choices.append(value)
            elif not name.startswith("$"):
                conditions = self.conditions.setdefault(name, [])
                if is_operators(value):
                    conditions.extend(value.items())
                else:
                    conditions.append(("$eq", value))

    def branches(self, choice: Sequence[Any]) -> Iterator[Demand]:
        """One demand for each part of a choice: these conditions and the part's own."""
        for part in choice:
            branch = Demand({path: [*conditions] for path, conditions in self.conditions.items()}, [])
            branch._add(part)
            yield branch


def conditions_of(*specs: Mapping[str, Any]) -> Conditions:
    """The required conditions on single fields, by path: operators with their arguments."""
    return Demand.of(*specs).conditions


def _is_plain(value: Any, has_collation: bool) -> bool:
    """Whether the index decides equality with this value, and the order within its type."""
    if value is None or isinstance(value, (list, tuple, Regex, DBRef)) or hasattr(value, "pattern"):
        return False
    return not (has_collation and isinstance(value, (str, Mapping)))


def points_of(conditions: Sequence[tuple[str, Any]], has_collation: bool) -> list[Any] | None:
    """The possible values of a field if the conditions name them. None among them also means a missing field."""
    for operator, value in conditions:
        if operator == "$eq" and (value is None or _is_plain(value, has_collation)):
            return [value]
        if (
            operator == "$in"
            and isinstance(value, (list, tuple))
            and all(one is None or _is_plain(one, has_collation) for one in value)
        ):
            return list(value)
    is_absent = any(operator == "$exists" and not is_demanded(value) for operator, value in conditions)
    return [None] if is_absent else None


def _of_index(index: CollectionIndex, conditions: Conditions, has_collation: bool) -> Ranked | None:
    """The ranges of an index for these conditions."""
    if not holds_matches(index, conditions, has_collation):
        return None
    rank, ranges = ranges_in(index, conditions, has_collation)
    return None if ranges is None else (rank, ReadPlan(by=index.info, ranges=ranges))


def holds_matches(index: CollectionIndex, conditions: Conditions, has_collation: bool) -> bool:
    """Whether an index has an entry of each document that meets the conditions."""
    if not index.serves:
        return False
    partial = index.partial
    if partial is not None and not implies(
        conditions,
        partial,
        has_collation,
        lambda path: demands_field(path, conditions, has_collation),
    ):
        return False
    return not index.spec["sparse"] or any(
        _demands_field(path, conditions.get(path, ()), has_collation) for path in index.key
    )


def ranges_in(
    index: CollectionIndex, conditions: Conditions, has_collation: bool, *, is_single: bool = False
) -> tuple[int, list[tuple[bytes, bytes]] | None]:
    """The ranges of an index for equalities on its first fields and a range on the next field; and their rank.

    Args:
        is_single: Each document has one entry, so all comparisons are about the same value.
    """
    prefixes: list[bytes] = [b""]
    ranges: list[tuple[bytes, bytes]] | None = None
    rank = _OF_VALUES
    for path in index.key:
        own = conditions.get(path, ())
        values = points_of(own, has_collation)
        if values is not None and path == ID and any(map(_may_be_spelled, values)):
            # An index has such keys as what they are in other fields.
            values, own = None, ()
        if values is not None and len(prefixes) * len(values) <= MOST_POINTS:
            ends = {value_bytes(native_value(value)) for value in values}
            prefixes = [prefix + end for prefix in prefixes for end in ends]
            ranges = [range_of(prefix) for prefix in prefixes]
            continue
        bounds = bounds_of(path, own, has_collation, is_single=is_single)
        if bounds:
            rank = _OF_MOST if ranges is None and len(bounds) > 1 else _OF_RANGES
        elif ranges is None and index.spec["sparse"] and _demands_field(path, own, has_collation):
            # Documents without the field are not in the index.
            bounds, rank = (ANY_VALUE,), _OF_MOST
        if bounds:
            ranges = [range_of(prefix, bound) for prefix in prefixes for bound in bounds]
        break
    return rank, None if ranges is None else merge_ranges(ranges)


def _may_be_spelled(value: Any) -> bool:
    """Whether an `_id` may be a primary key that BSON cannot say (see `entries.KEYS`)."""
    return isinstance(value, str) and value[:1] == SIGN


def demands_field(path: str, conditions: Conditions, has_collation: bool = False) -> bool:
    """Whether conditions cannot hold of a document without a field."""
    return _demands_field(path, conditions.get(path, ()), has_collation)


def _demands_field(path: str, conditions: Sequence[tuple[str, Any]], has_collation: bool) -> bool:
    """Whether the conditions cannot hold of a document without the field."""
    points = points_of(conditions, has_collation)
    if points is not None:
        return None not in points
    return bool(bounds_of(path, conditions, has_collation)) or any(
        operator == "$exists" and is_demanded(value) for operator, value in conditions
    )


_BELOW: Final = ("$lt", "$lte")
_ABOVE: Final = ("$gt", "$gte")


def bounds_of(
    path: str, conditions: Iterable[tuple[str, Any]], has_collation: bool, *, is_single: bool = False
) -> tuple[FieldBound, ...]:
    """The remaining range of values under the conditions; empty if it is unlimited. A missing field meets no condition.

    Args:
        is_single: All conditions are about the same value. Otherwise only one comparison counts, because in an array one element
            may be above a bound and another element below it.
    """
    differs = False
    bounds: FieldBound | None = None
    for operator, value in conditions:
        # If `a` is an empty array, nothing at `a.b` is null, but its key is the key of null.
        differs |= operator == "$ne" and value is None and "." not in path
        if operator not in _BELOW and operator not in _ABOVE:
            continue
        if not _is_plain(value, has_collation):
            continue
        data = value_bytes(native_value(value))
        if has_order(data):
            start, stop = bracket_range(data)
            bound = FieldBound(start, data + b"\xff") if operator in _BELOW else FieldBound(data, stop)
            if not is_single:
                return (bound,)
            bounds = (
                bound
                if bounds is None
                else FieldBound(max(bounds.start, bound.start), min(bounds.stop, bound.stop))
            )
    if bounds is not None:
        return (bounds,)
    return NO_NULL if differs else ()
