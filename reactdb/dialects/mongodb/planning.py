"""Planning: which documents a filter has to be tested on: those of some keys, those that an index leads to, or all.

    {_id: 5}, {_id: {$in: [...]}}       the keys
    an index of MongoDB's               equalities with its first fields, and a range of the next
    the primary key, a native index     what `native_filters` says of it, where no index of MongoDB's serves
    everything else                     all documents whose bytes could match (`scanning`)

What is read may hold more than what matches, and never less: the filter is tested on each document. So a condition that an index
cannot decide alone is passed over: null (which missing fields match), arrays, regular expressions, and text under a collation.

Rule of this file: it reads conditions and gives ranges; it touches no document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from bson.dbref import DBRef
from bson.int64 import Int64
from bson.objectid import ObjectId
from bson.regex import Regex

from reactdb.dialects.mongodb.entries import exchanged_name, key_of
from reactdb.dialects.mongodb.index_keys import FieldBound, bracket_range, has_order, range_of, value_bytes
from reactdb.dialects.mongodb.indexes import CollectionIndex
from reactdb.dialects.mongodb.native_filters import native_conditions
from reactdb.dialects.mongodb.scanning import byte_test
from reactdb.dialects.mongodb.values import native_value
from reactdb.expression import field_path
from reactdb.store.catalogue import IndexInfo, TableInfo

ID: Final = "_id"

__all__ = ["ReadPlan", "bound_of", "conditions_of", "exact_key", "plan", "points_of"]

MOST_POINTS: Final = 200
"""The most ranges that one filter is answered by."""


class ReadPlan(NamedTuple):
    """How documents are read.

    Attributes:
        keys: The keys to look up, sorted; None where a range or all are read.
        by: The index of the store that leads to them; None for the keys, or for all documents.
        ranges: Ranges of that index in bytes, start <= entry < stop; without one, of the primary key, in order and apart.
        is_exact: What is read is what matches: nothing has to be tested.
        test: Of all documents, those whose bytes do not pass this do not match.
    """

    keys: Sequence[bytes] | None = None
    by: IndexInfo | None = None
    ranges: Sequence[tuple[bytes, bytes]] = ()
    is_exact: bool = False
    test: Callable[[bytes], bool] | None = None


_ALL: Final = ReadPlan(is_exact=True)
# Two of these are equal in BSON where they are one key, and nothing else is equal to them.
_EXACT: Final = frozenset({str, int, bytes, bool, Int64, ObjectId})


def exact_key(spec: Mapping[str, Any], *, has_collation: bool = False) -> bytes | None:
    """The key of the only document that a filter can match, and that surely matches it: of `{_id: 5}`; else None."""
    if len(spec) != 1 or ID not in spec:
        return None
    kind = type(spec[ID])
    return None if kind not in _EXACT or (has_collation and kind is str) else key_of(spec[ID])


def plan(
    spec: Mapping[str, Any],
    indexes: Iterable[CollectionIndex] = (),
    table: TableInfo | None = None,
    *,
    has_collation: bool = False,
) -> ReadPlan:
    """How the documents are read that may match a filter.

    Args:
        spec: The filter.
        indexes: Those of MongoDB's.
        table: What has native ones, and a primary key; None: they are not looked at.
        has_collation: Text is not compared by its bytes.
    """
    if not spec:
        return _ALL
    conditions = conditions_of(spec)
    points = points_of(conditions.get(ID, ()), has_collation)
    if points is not None and len(points) <= MOST_POINTS * 50:
        return ReadPlan(sorted({key_of(value) for value in points}))
    best: tuple[tuple[bool, int], ReadPlan] | None = None
    for index in indexes:
        found = _of_index(index, conditions, has_collation)
        if found is not None:
            cost = (not all(stop.startswith(start) for start, stop in found.ranges), -len(index.key))
            if best is None or cost < best[0]:
                best = cost, found
    if best is not None:
        return best[1]
    native = None if table is None else _of_native(table, conditions, has_collation)
    return native or ReadPlan(test=byte_test(conditions))


def _of_native(
    table: TableInfo, conditions: Mapping[str, list[tuple[str, Any]]], has_collation: bool
) -> ReadPlan | None:
    """What the conditions say natively, as ranges of the primary key or of a native index."""
    own = table.primary_key
    serving: dict[str, IndexInfo | None] = {own: None}
    for index in table.indexes.values():
        path = field_path(index.expression)
        # In an index of elements, one element of an array may be above and another one below.
        if path is not None and len(path) == 1 and not index.multi:
            serving.setdefault(path[0], index)
    asked = {path: found for path, found in conditions.items() if exchanged_name(path, own) in serving}
    best: tuple[int, ReadPlan] | None = None
    for said in native_conditions(asked, own, has_collation=has_collation):
        if best is None or said.rank < best[0]:
            by = serving[said.field]
            best = (
                said.rank,
                ReadPlan(None, by, said.ranges(), test=byte_test(conditions) if by is None else None),
            )
    return None if best is None else best[1]


def conditions_of(*specs: Mapping[str, Any]) -> dict[str, list[tuple[str, Any]]]:
    """The conditions on single fields that all have to hold, by path: operators with their arguments."""
    found: dict[str, list[tuple[str, Any]]] = {}
    for spec in specs:
        _collect(spec, found)
    return found


def _collect(spec: Mapping[str, Any], conditions: dict[str, list[tuple[str, Any]]]) -> None:
    for name, value in spec.items():
        if name == "$and" and isinstance(value, (list, tuple)):
            for part in value:
                if isinstance(part, Mapping):
                    _collect(part, conditions)
        elif not name.startswith("$"):
            found = conditions.setdefault(name, [])
            if (
                isinstance(value, Mapping)
                and value
                and next(iter(value)).startswith("$")
                and "$ref" not in value
            ):
                found.extend(value.items())
            else:
                found.append(("$eq", value))


def _is_plain(value: Any, has_collation: bool) -> bool:
    """Whether the index decides equality with this value, and what is in its bracket."""
    if value is None or isinstance(value, (list, tuple, Regex, DBRef)) or hasattr(value, "pattern"):
        return False
    return not (has_collation and isinstance(value, (str, Mapping)))


def points_of(conditions: Iterable[tuple[str, Any]], has_collation: bool) -> list[Any] | None:
    """The values of which the field has one, where the conditions say so."""
    for operator, value in conditions:
        if operator == "$eq" and (value is None or _is_plain(value, has_collation)):
            return [value]
        if (
            operator == "$in"
            and isinstance(value, (list, tuple))
            and all(one is None or _is_plain(one, has_collation) for one in value)
        ):
            return list(value)
    return None


def _of_index(
    index: CollectionIndex, conditions: Mapping[str, list[tuple[str, Any]]], has_collation: bool
) -> ReadPlan | None:
    """The ranges of an index, where the conditions have equalities on its first fields, or a range on the next."""
    if not index.serves or index.is_partial:
        return None
    prefixes: list[bytes] = [b""]
    ranges: list[tuple[bytes, bytes]] | None = None
    for path in index.key:
        own = conditions.get(path, ())
        values = points_of(own, has_collation)
        if values is not None and None not in values and len(prefixes) * len(values) <= MOST_POINTS:
            ends = [value_bytes(native_value(value)) for value in values]
            prefixes = [prefix + end for prefix in prefixes for end in ends]
            ranges = [range_of(prefix) for prefix in prefixes]
            continue
        bound = bound_of(own, has_collation)
        if bound is not None:
            ranges = [range_of(prefix, bound) for prefix in prefixes]
        break
    return None if ranges is None else ReadPlan(by=index.info, ranges=ranges)


_BELOW: Final = ("$lt", "$lte")
_ABOVE: Final = ("$gt", "$gte")


def bound_of(conditions: Iterable[tuple[str, Any]], has_collation: bool) -> FieldBound | None:
    """What one comparison leaves of the values. Not what two do: of an array, one element may be above and another one below."""
    for operator, value in conditions:
        if operator not in _BELOW and operator not in _ABOVE:
            continue
        if not _is_plain(value, has_collation):
            continue
        data = value_bytes(native_value(value))
        if has_order(data):
            start, stop = bracket_range(data)
            return FieldBound(start, data + b"\xff") if operator in _BELOW else FieldBound(data, stop)
    return None
