"""Terms: orders, elements by place, and elements by their fields.

Rule of this file: as in `terms_select`.
"""

from __future__ import annotations

import random as chance
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, Final, NoReturn

from reactdb.dialects.rethinkdb import tables
from reactdb.dialects.rethinkdb.errors import with_path
from reactdb.dialects.rethinkdb.evaluator import TermCall, handles
from reactdb.dialects.rethinkdb.functions import Function, LocatedExpression
from reactdb.dialects.rethinkdb.keys import stored_key
from reactdb.dialects.rethinkdb.terms import Path
from reactdb.dialects.rethinkdb.terms_select import (
    AFTER_LIMIT,
    NOT_DETERMINISTIC,
    index_name,
    is_closed_bound,
    single,
)
from reactdb.dialects.rethinkdb.values import (
    ARRAY_SELECTION,
    EAGER,
    SELECTION,
    STREAM,
    TABLE,
    TABLE_SLICE,
    Sequence,
    Single,
    expected_kind,
)
from reactdb.dialects.rethinkdb.write_checks import find_index, primary_key
from reactdb.documents.steps import Convert, Expand, Slice
from reactdb.errors import MissingValue, QueryError, ReactDBError
from reactdb.expression import OPERATIONS, Call, Constant, Expression, OrderKey, Predicate, Row
from reactdb.expression.checks import integer
from reactdb.expression.operations.objects import bracket as bracket_of
from reactdb.query import Between, Filter, Get, Limit, Map, OrderBy, Query, Skip
from reactdb.values import collation

UNORDERED_LIMIT: Final = "Cannot get changes on the first elements of an unordered stream."
SLICE_OF_UNION: Final = "Cannot call `changes` on a slice of a union."
NO_LIMIT: Final = 2**62
MISPLACED_ORDER: Final = (
    "Indexed order_by can only be performed on a TABLE or TABLE_SLICE. Make sure order_by comes before any "
    "transformations (such as map) or filters."
)


# ---------------------------------------------------------------------------------------------------------------
# By order


@handles("asc")
def asc(call: TermCall) -> Any:
    return Direction(call.values[0], False, call.paths[0])


@handles("desc")
def desc(call: TermCall) -> Any:
    return Direction(call.values[0], True, call.paths[0])


class Direction:
    """A sort key with its direction. It occurs only inside `order_by`."""

    __slots__ = ("descending", "path", "value")

    def __init__(self, value: Any, descending: bool, path: Path) -> None:
        self.value = value
        self.descending = descending
        self.path = path

    def __call__(self, *_: Any) -> NoReturn:
        """Makes it callable, because other terms must refuse it as they refuse a function, which is not a datum."""
        raise QueryError("Expected type DATUM but found FUNCTION.")


@handles("order_by")
def order_by(call: TermCall) -> Any:
    source = call.values[0]
    keys = [order_key(call, place) for place in range(1, len(call))]
    index_term = call.term.options.get("index")
    if index_term is None:
        if not keys:
            raise QueryError("Must specify something to order by.")
        return sort_by_keys(call, source, keys)
    named = call.evaluator.run(index_term, call.scope)
    descending = isinstance(named, Direction) and named.descending
    name = named.value if isinstance(named, Direction) else named
    if not isinstance(name, str):
        raise with_path(
            expected_kind("STRING", call.evaluator.as_datum(name, index_term.path)), index_term.path
        )
    if not isinstance(source, Sequence) or source.kind not in (TABLE, TABLE_SLICE) or source.query is None:
        raise QueryError(MISPLACED_ORDER)
    index = find_index(call.evaluator, source, name)
    steps = source.query.steps
    if any(isinstance(step, OrderBy) for step in steps):
        raise with_path(
            QueryError("Cannot perform multiple indexed ORDER_BYs on the same table."), source.origin
        )
    ranged = next((step for step in steps if isinstance(step, Between)), None)
    if ranged is not None and ranged.index != index:
        error = QueryError(
            f"Cannot order by index `{name}` after calling BETWEEN on index "
            f"`{index_name(call, source, ranged.index)}`."
        )
        raise with_path(error, source.origin)
    ordered = replace(
        source.then(OrderBy((), index, descending), TABLE_SLICE), is_ordered=True, path=call.path
    )
    if not keys:
        return ordered
    # It is read in the order of the index and sorted batch by batch, so it is not an array.
    tied = source.then(OrderBy(tuple(keys), index, descending), SELECTION, path=call.path)
    return tied.refuse_changes(EAGER, call.path)


def order_key(call: TermCall, place: int) -> OrderKey:
    value = call.values[place]
    descending = isinstance(value, Direction) and value.descending
    inner = value.value if isinstance(value, Direction) else value
    if isinstance(inner, Function):
        return OrderKey(as_expression(inner), descending)
    datum = call.evaluator.as_datum(inner, call.paths[place])
    if not isinstance(datum, str):
        raise with_path(expected_kind("STRING", datum), call.paths[place])
    return OrderKey(Expression(Call("bracket", (Row(), Constant(datum)))), descending)


def as_expression(function: Function) -> Expression:
    """A function as an expression, also if no equivalent expression exists."""
    expression = function.expression
    return expression if expression is not None else WalkedExpression(function)


class WalkedExpression(Expression):
    """A function without an expression tree, in the place of an expression. It equals only itself."""

    __slots__ = ("_walk",)

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__(Call("make_array", (Constant("walked"), Constant(id(function)))))
        self._walk = function

    def __call__(self, document: Any) -> Any:
        return self._walk(document)


def sort_by_keys(call: TermCall, source: Any, keys: list[OrderKey]) -> Any:
    if isinstance(source, Sequence) and source.query is not None and source.kind != STREAM:
        ordered = source.then(OrderBy(tuple(keys), None), ARRAY_SELECTION, path=call.path, is_array=True)
        return replace(ordered, refusal=(EAGER, call.path))
    values = call.array(0)
    for key in reversed(keys):
        values.sort(key=key.sort_key, reverse=key.descending)
    return values


# ---------------------------------------------------------------------------------------------------------------
# By place


@handles("limit")
def limit(call: TermCall) -> Any:
    source = call.values[0]
    count = call.integer(1)
    if count < 0:
        raise QueryError(f"LIMIT takes a non-negative argument (got {count})")
    if not isinstance(source, Sequence):
        return list(islice(call.elements(0), count))
    return slice_elements(call, source, 0, count)


@handles("skip")
def skip(call: TermCall) -> Any:
    source = call.values[0]
    count = call.integer(1)
    if count < 0:
        if not isinstance(source, Sequence):
            return OPERATIONS["slice"].function(call.array(0), count, -1, right_bound="closed")
        raise with_path(QueryError("Cannot use a negative left index on a stream."), call.path)
    if not isinstance(source, Sequence):
        return list(islice(call.elements(0), count, None))
    return slice_elements(call, source, count, None)


@handles("slice")
def slice_(call: TermCall) -> Any:
    source = call.values[0]
    if not isinstance(source, Sequence):
        options = {name: call.option(name) for name in call.term.options}
        return OPERATIONS["slice"].function(call.datum(0), *call.datums(1), **options)
    left_closed, right_closed = is_closed_bound(call, "left", True), is_closed_bound(call, "right", False)
    left = call.integer(1) if len(call) > 1 else 0
    right: int | None = call.integer(2) if len(call) > 2 else None
    if left < 0:
        raise QueryError("Cannot use a negative left index on a stream.")
    start = left if left_closed else left + 1
    if right is None or (right == -1 and right_closed):
        return slice_elements(call, source, start, None)
    if right == -1:
        raise QueryError("Cannot slice to an open right index of -1 on a stream.")
    if right < 0:
        raise QueryError("Cannot use a right index < -1 on a stream.")
    return slice_elements(call, source, start, max(right + 1 if right_closed else right, start))


def slice_elements(call: TermCall, source: Sequence, start: int, stop: int | None) -> Sequence:
    """The elements from one place to another; if `start` is 0, a limit."""
    if source.query is None:
        result = source.select(lambda: Slice(start, stop), lambda: call.evaluator.read(source))
        return replace(result, is_endless=result.is_endless and stop is None)
    kind = source.selection_kind
    result = source
    if not start and stop is None:
        # RethinkDB treats skip(0) as a limit without an end, and the error of `changes` says so.
        return replace(result.then(Limit(NO_LIMIT), kind), is_limited=True)
    if start:
        result = result.then(Skip(start), kind).refuse_changes(EAGER, source.path)
    if stop is not None:
        result = result.then(Limit(max(0, stop - start)), kind)
        if source.members:
            result = result.refuse_changes(SLICE_OF_UNION, source.path)
        elif source.is_limited:
            result = result.refuse_changes(EAGER, source.path)
        elif not source.is_ordered:
            result = result.refuse_changes(UNORDERED_LIMIT)
    return replace(result, is_limited=True)


@handles("nth")
def nth(call: TermCall) -> Any:
    return element_at(call, call.values[0], call.integer(1))


def element_at(call: TermCall, source: Any, place: int) -> Any:
    """One element; if the source is of a table's documents, the selection of that document."""
    if not isinstance(source, Sequence):
        return OPERATIONS["nth"].function(call.datum(0), place)
    before = 0
    if place > 0 and source.query is not None:
        # The native query skips the elements before it, and reads none after it.
        before = place
        elements = call.elements(0, source.then(Skip(place)).then(Limit(1)))
    else:
        elements = call.elements(0)
    if place < -1:
        raise QueryError(f"Cannot use an index < -1 ({place}) on a stream.")
    if place == -1:
        last = deque(elements, maxlen=1)
        element: Any = last[0] if last else call
    else:
        element = next(islice(elements, place - before, None), call)
    if element is call:
        raise MissingValue(f"Index out of bounds: {place}")
    if source.table is None or source.kind == STREAM:
        return element
    if tables.is_computed(source.table):
        return Single(source.table, call.path, Query(source.table.file_name), lambda: element)
    info = tables.table_info(call.evaluator.native, source.table)
    value = element[info.primary_key]
    key = primary_key(value)
    query = Query(source.table.file_name, (Get(stored_key(value), key),))
    return single(call.evaluator, source.table, call.path, query, key)


@handles("bracket")
def bracket(call: TermCall) -> Any:
    """`x[place]`: a field by its name, also of each element of a sequence; an element by its number."""
    source, place = call.values[0], call.datum(1)
    if isinstance(source, Sequence):
        if isinstance(place, str):
            return field_of_each(call, source, place)
        if isinstance(place, bool) or not isinstance(place, (int, float)):
            error = (MissingValue if place is None else QueryError)(
                f"Expected NUMBER or STRING as second argument to `bracket` but found {collation.type_name(place)}."
            )
            raise error
        return element_at(call, source, integer(place))
    return of_value(call, bracket_of, place)


def of_value(call: TermCall, function: Callable[..., Any], *rest: Any) -> Any:
    """An operation on an object. If the first argument is not an object, the error blames that argument and not the term."""
    value = call.datum(0)
    try:
        return function(value, *rest)
    except ReactDBError as error:
        if not isinstance(value, dict) and getattr(error, "reql_path", None) is None:
            raise with_path(error, call.paths[0]) from None
        raise


@handles("get_field")
def get_field(call: TermCall) -> Any:
    source = call.values[0]
    if isinstance(source, Sequence):
        return field_of_each(call, source, call.string(1))
    return of_value(call, OPERATIONS["get_field"].function, call.string(1))


def field_of_each(call: TermCall, source: Sequence, name: str) -> Sequence:
    """The field of each element with this field."""
    name_node = Constant(name)
    value = Call("bracket", (Row(), name_node))
    if source.query is not None:
        # This holds if the field exists, even if it is null: comparing a missing field with itself fails.
        there = Predicate(Expression(Call("eq", (value, value))))
        values = source.then(Filter(there)).then(
            Map(LocatedExpression(value, lambda document: bracket_of(document, name)), "bracket"),
            STREAM,
            table=None,
        )
        return values.refuse_changes(AFTER_LIMIT, call.path) if source.is_limited else values

    def fields(element: Any) -> Iterator[Any]:
        try:
            yield bracket_of(element, name)
        except MissingValue:
            return
        except ReactDBError as error:
            raise with_path(error, call.path) from None

    return source.through(lambda: Expand(fields), lambda: call.evaluator.read(source))


@handles("sample")
def sample(call: TermCall) -> Any:
    source, size = call.values[0], call.integer(1)
    if size < 0:
        raise with_path(
            QueryError(f"Number of items to sample must be non-negative, got `{size}`."), call.paths[1]
        )
    chosen = sample_elements(call.elements(0), size)
    if isinstance(source, Sequence) and source.table is not None:
        return Sequence(
            ARRAY_SELECTION,
            call.path,
            source.table,
            source=lambda: iter(chosen),
            refusal=(EAGER, call.path),
            is_array=True,
        )
    return chosen


def sample_elements(elements: Iterator[Any], size: int) -> list[Any]:
    """`size` of the elements, each choice equally likely, found without keeping all of them."""
    chosen = list(islice(elements, size))
    chance.shuffle(chosen)
    for count, element in enumerate(elements, size + 1) if size else ():
        place = chance.randrange(count)
        if place < size:
            chosen[place] = element
    return chosen


def map_elements(
    call: TermCall,
    source: Sequence,
    walk: Callable[[Any], Any],
    expression: Expression | None,
    name: str,
    changing: Path | None = None,
) -> Sequence:
    """Apply a function to each element. `changing`: the path to blame if the function is not deterministic."""
    if source.query is None:
        return source.through(lambda: Convert(walk), lambda: call.evaluator.read(source))
    result = source.then(Map(walk if expression is None else expression, name), STREAM, table=None)
    if changing is not None:
        result = result.refuse_changes(NOT_DETERMINISTIC, changing)
    return result.refuse_changes(AFTER_LIMIT, call.path) if source.is_limited else result
