"""Axes: the properties of documents by which a change finds the views that it concerns: a field, an expression, an
index.

Rule of this file: an axis returns the values of a change, and `routes_of_tests` the values that a query needs. The
router brings the two together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reactdb.change import Change
from reactdb.errors import MissingValue, QueryError
from reactdb.expression import (
    Expression,
    Predicate,
    as_function,
    field_path,
    find_implied_ranges,
    may_fail,
    route_of,
    routing_keys,
    row,
)
from reactdb.feeds.views.base import OneValue, Route, Unroutable, ValueRange
from reactdb.query import Filter, HasFields, Step
from reactdb.store.catalogue import IndexInfo
from reactdb.values import collation
from reactdb.values.value import Value

# Every array's key bytes are below these.
LAST_ARRAY = collation.key_bytes([collation.maxval])


def routes_of_tests(table_id: int, steps: Sequence[Step], is_strict: bool) -> list[Route] | None:
    """Routes by the values or the range of a field that the filters before the first map need; None if they need
    none."""
    ranged: list[Route] | None = None
    for step in steps:
        if isinstance(step, HasFields):
            continue
        if not isinstance(step, Filter) or (is_strict and may_fail(step.predicate)):
            break
        exact = _values_of(table_id, step.predicate)
        if exact is not None:
            return exact
        if ranged is None:
            ranged = _range_of(table_id, step.predicate)
    return ranged


def _values_of(table_id: int, predicate: Predicate) -> list[Route] | None:
    keys = routing_keys(predicate)
    if keys is None:
        return None
    path, values = keys
    axis = FieldAxis(path)
    return [OneValue(table_id, axis, value) for value in values]


def _range_of(table_id: int, predicate: Predicate) -> list[Route] | None:
    if predicate.node is None:
        return None
    for expression, start, stop in find_implied_ranges(predicate):
        path = field_path(expression)
        # A field of an array is an array of the fields, which no walk along the path would find.
        is_walk = path is not None and (len(path) == 1 or start > LAST_ARRAY)
        axis = FieldAxis(path) if path is not None and is_walk else ExpressionAxis(expression)
        return [ValueRange(table_id, axis, start, stop)]
    return None


class FieldAxis(Value):
    """The value of a field, or of a field in a field."""

    __slots__ = ("path",)
    looks_inside = True

    def __init__(self, path: tuple[str, ...]) -> None:
        self.path = path

    def values(self, change: Change) -> Sequence[bytes]:
        path = self.path
        old, new = change.documents()
        before = None if old is None else route_of(old, path)
        if old is not None and new is not None and len(path) == 1 and path[0] in old:
            # Often the very same object, because the write has changed other fields.
            (name,) = path
            if old[name] is new.get(name):
                return () if before is None else (before,)
        after = route_of(new, path)
        if after is None and len(path) > 1:
            error = _path_error(new, path)
            if error is not None:
                raise Unroutable(() if before is None else (before,), error)
        if before is None or before == after:
            return () if after is None else (after,)
        return (before,) if after is None else (before, after)

    def __str__(self) -> str:
        return ".".join(self.path)


def _path_error(document: Any, path: tuple[str, ...]) -> QueryError | None:
    """The error of a path that leads through something other than an object; None if a field is only missing."""
    value = document
    for name in path:
        if value is None:
            return None
        if not isinstance(value, dict):
            break
        value = value.get(name)
    else:
        return None
    expression: Expression = row
    for name in path:
        expression = expression[name]
    try:
        expression(document)
    except MissingValue:
        return None
    except QueryError as error:
        return error
    return None


class ExpressionAxis:
    """The value of an expression."""

    __slots__ = ("_function", "expression")

    looks_inside = True

    def __init__(self, expression: Expression) -> None:
        self.expression = expression
        self._function = as_function(expression)

    def values(self, change: Change) -> Sequence[bytes]:
        keys = []
        failed: Exception | None = None
        for document, is_new in ((change.old_val, False), (change.new_val, True)):
            if document is not None:
                try:
                    keys.append(collation.key_bytes(self._function(document)))
                except MemoryError:
                    raise
                except MissingValue:
                    # A condition on a missing field is not met.
                    pass
                except Exception as error:
                    # Nor does a condition that cannot be computed. For the old document, this failure was noted at
                    # its write.
                    failed = error if is_new else failed
        if failed is not None:
            raise Unroutable(keys, failed)
        return keys

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExpressionAxis) and other.expression.key == self.expression.key

    def __hash__(self) -> int:
        return hash(self.expression.key)

    def __str__(self) -> str:
        return repr(self.expression)


class IndexAxis:
    """The values under which a document is in an index."""

    __slots__ = ("_id", "index")

    looks_inside = False

    def __init__(self, index: IndexInfo) -> None:
        self.index = index
        self._id = index.id

    def values(self, change: Change) -> Sequence[bytes]:
        # The writer has found them already, so that no document need be decoded.
        places = change.places
        keys = None if places is None else places.get(self._id)
        if keys is None:
            documents = (change.old_val, change.new_val)
            entries = [self.index.entries(document) for document in documents if document is not None]
            keys = [value for some in entries for value, _ in some]
        return keys

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IndexAxis) and other.index.id == self.index.id

    def __hash__(self) -> int:
        return hash((IndexAxis, self.index.id))

    def __str__(self) -> str:
        return f"index {self.index.name}"
