"""Terms that make one value of many: counting, adding, reducing, minimum and maximum, groups.

Rule of this file: handlers only. They read all elements, keep only as many as they need, and use reactdb's operation of the same
name. A feed has no end, and so gets RethinkDB's error for terminals.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product
from typing import Any, Final

from reactdb.budget import spend_per_element
from reactdb.dialects.rethinkdb import tables
from reactdb.dialects.rethinkdb.errors import with_path
from reactdb.dialects.rethinkdb.evaluator import TERMINAL, TermCall, exact, handles
from reactdb.dialects.rethinkdb.functions import Function
from reactdb.dialects.rethinkdb.terms_order import as_expression
from reactdb.dialects.rethinkdb.terms_select import single
from reactdb.dialects.rethinkdb.values import SELECTION, TABLE, Sequence, Single, expected
from reactdb.dialects.rethinkdb.write_checks import find_index
from reactdb.documents.access_path import find_index as find_stored_index
from reactdb.documents.access_path import find_table
from reactdb.errors import MissingValue, QueryError, ResourceLimit
from reactdb.expression import OPERATIONS
from reactdb.expression.checks import check_array_size, equal, sort_key
from reactdb.expression.markers import Grouped
from reactdb.expression.operations.arrays import distinct_by_key
from reactdb.expression.operations.logic import passes_filter
from reactdb.expression.operations.numbers import add
from reactdb.expression.operations.sequences import contains as contains_all
from reactdb.expression.operations.sequences import numbers_of
from reactdb.query import Aggregate, Limit, OrderBy
from reactdb.session import session_of
from reactdb.store.snapshot import GREATEST, LEAST
from reactdb.values import collation

PART: Final = 1_000
"""Elements that are processed together. A stream may have more than fit into memory."""


def is_sized(value: Any) -> bool:
    return isinstance(value, (str, bytes, dict))


@handles("count")
def count(call: TermCall) -> Any:
    source = call.values[0]
    if len(call) == 1:
        if isinstance(source, Sequence) and source.query is not None and source.feed is None:
            return session_of(call.evaluator.native).run(source.query.then(Aggregate("count")))
        if isinstance(source, Single):
            source = call.datum(0)
        if is_sized(source):
            return len(source)
        return sum(1 for _ in call.elements(0))
    wanted = call.evaluator.as_argument(call.values[1], call.paths[1])
    if isinstance(wanted, Function):
        return sum(1 for element in call.elements(0) if passes_filter(element, wanted.test))
    return sum(1 for element in call.elements(0) if equal(element, wanted))


def _by(call: TermCall) -> tuple[Any, ...]:
    """The second argument of `sum` and similar terms: the name of a field, or a function."""
    return tuple(
        call.evaluator.as_argument(value, path)
        for value, path in zip(call.values[1:], call.paths[1:], strict=True)
    )


@handles("sum")
def sum_(call: TermCall) -> Any:
    return exact(total(call)[0])


def total(call: TermCall) -> tuple[Any, int]:
    """The sum of the numbers and their count, computed without keeping them."""
    elements, by = call.elements(0), _by(call)
    result, count = 0, 0
    for part in parts(elements):
        numbers = numbers_of(part, by)
        result = add(result, *numbers)
        count += len(numbers)
    return result, count


def parts(elements: Iterator[Any]) -> Iterator[list[Any]]:
    """The elements in chunks."""
    while part := list(islice(elements, PART)):
        yield part


@handles("avg")
def avg(call: TermCall) -> Any:
    numerator, count = total(call)
    return exact(OPERATIONS["div"].function(numerator, count) if count else OPERATIONS["avg"].function([]))


@handles("min")
def min_(call: TermCall) -> Any:
    return extreme(call, "min")


@handles("max")
def max_(call: TermCall) -> Any:
    return extreme(call, "max")


def extreme(call: TermCall, name: str) -> Any:
    """The first or last by an index, which can be watched; or the minimum or maximum of the read elements."""
    source = call.values[0]
    index_name = call.string_option("index")
    is_whole = isinstance(source, Sequence) and source.kind == TABLE and source.query is not None
    if index_name is not None and not is_whole:
        raise with_path(expected("TABLE", source), call.paths[0])
    if not isinstance(source, Sequence) or not is_whole or len(call) > 1:
        return best(call, name)
    index = find_index(call.evaluator, source, index_name)
    ordered = source.then(OrderBy((), index, name == "max"), SELECTION).then(Limit(1))
    assert source.table is not None
    assert ordered.query is not None
    return single(call.evaluator, source.table, call.path, ordered.query, None, is_first=True)


def best(call: TermCall, name: str) -> Any:
    """The minimum or maximum element, found in chunks that are compared with the best so far."""
    elements, by, extreme_of = call.elements(0), _by(call), OPERATIONS[name].function
    kept: list[Any] = []
    for part in parts(elements):
        try:
            kept = [extreme_of([*kept, *part], *by)]
        except MissingValue:
            # No element of the chunk has the field.
            continue
    return extreme_of(kept, *by)


@handles("reduce")
def reduce(call: TermCall) -> Any:
    elements, join = call.elements(0), call.function(1)
    result = next(elements, call)
    if result is call:
        return OPERATIONS["reduce"].function([], join)
    for element in elements:
        result = join(result, element)
    return result


@handles("contains")
def contains(call: TermCall) -> Any:
    return contains_all(call.elements(0), *_by(call))


@handles("distinct")
def distinct(call: TermCall) -> Any:
    source = call.values[0]
    index_name = call.string_option("index")
    if index_name is not None:
        if (
            not isinstance(source, Sequence)
            or source.table is None
            or source.kind not in (TABLE, "TABLE_SLICE")
        ):
            raise with_path(expected("TABLE_SLICE", source), call.paths[0])
        return distinct_of_index(call, source, index_name)
    if not isinstance(source, Sequence) and not isinstance(source, list):
        list(call.elements(0))
    limit = call.evaluator.options.array_limit
    values_by_key: dict[bytes, Any] = {}
    for element in call.elements(0):
        values_by_key.setdefault(sort_key(element), element)
        if len(values_by_key) > limit:
            check_array_size(len(values_by_key))
    return [values_by_key[key] for key in sorted(values_by_key)]


def distinct_of_index(call: TermCall, source: Sequence, name: str) -> list[Any]:
    """The different values of an index, in order."""
    assert source.table is not None
    index = find_index(call.evaluator, source, name)
    info = tables.table_info(call.evaluator.native, source.table)
    if index is None:
        values = [document[info.primary_key] for document in call.elements(0)]
    elif source.query is not None and not source.query.steps and source.feed is None:
        # The whole table: the entries of the index have its values, and no document is read.
        with session_of(call.evaluator.native).read() as snapshot:
            own = find_stored_index(index, find_table(source.query.table, snapshot))
            counts = snapshot.value_counts(own, LEAST, GREATEST)
        return [collation.key_value(one.value) for one in spend_per_element(counts)]
    else:
        known = info.indexes[index]
        values = [
            collation.key_value(value)
            for document in call.elements(0)
            for value, _ in known.entries(document)
        ]
    values_by_key = distinct_by_key(values)
    return [values_by_key[key] for key in sorted(values_by_key)]


@handles("group")
def group(call: TermCall) -> Any:
    source = call.values[0]
    if isinstance(source, Sequence) and source.feed is not None:
        raise with_path(QueryError(TERMINAL), call.path)
    finders = [finder(call, place) for place in range(1, len(call))]
    index_name = call.string_option("index")
    if index_name is not None:
        if not isinstance(source, Sequence) or source.table is None:
            raise with_path(expected("TABLE_SLICE", source), call.paths[0])
        index = find_index(call.evaluator, source, index_name)
        info = tables.table_info(call.evaluator.native, source.table)
        if index is None:
            finders.append(lambda document: document[info.primary_key])
        else:
            finders.append(info.indexes[index].expression)
    if not finders:
        raise QueryError("Cannot group by nothing.")
    is_multi = call.flag("multi")
    limit = call.evaluator.options.array_limit
    groups: dict[bytes, tuple[Any, list[Any]]] = {}
    for element in call.elements(0):
        parts = [_value_or_none(find, element) for find in finders]
        columns = [part if is_multi and isinstance(part, list) else [part] for part in parts]
        for choice in product(*columns):
            key = choice[0] if len(choice) == 1 else list(choice)
            groups.setdefault(sort_key(key), (key, []))[1].append(element)
        if len(groups) > limit:
            raise ResourceLimit(f"Too many groups (> {limit}).")
    return Grouped([groups[key] for key in sorted(groups)])


def finder(call: TermCall, place: int) -> Any:
    value = call.values[place]
    if isinstance(value, Function):
        return as_expression(value)
    name = call.string(place)
    return lambda element: OPERATIONS["get_field"].function(element, name)


def _value_or_none(find: Any, element: Any) -> Any:
    try:
        return find(element)
    except MissingValue:
        return None
