"""Operations: arrays as sequences: operations on each element, and results computed from all.

Functions arrive as Python callables. Where ReQL forgives an element that lacks a field (`filter`, `sum`, `min`, `group`
and their like), so is it here; `map`, `contains` and `reduce` forgive nothing.

Source: RethinkDB 2.4, terms/seq.cc, sort.cc, shards.cc.
"""

from __future__ import annotations

import random as chance
from collections.abc import Callable
from itertools import product
from typing import Any

from reactdb.errors import MissingValue, QueryError, ResourceLimit
from reactdb.expression.checks import (
    array,
    array_limit,
    check_array,
    check_array_size,
    each,
    equal,
    function,
    integer,
    number,
    order,
    sequence,
    sort_key,
    string,
    truth,
)
from reactdb.expression.markers import Grouped
from reactdb.expression.operations.arrays import distinct_by_key
from reactdb.expression.operations.logic import passes_filter
from reactdb.expression.operations.numbers import add, div
from reactdb.expression.operations.objects import bracket, filter_match, get_field, merge_patch
from reactdb.expression.order import sort_by_keys
from reactdb.expression.registry import operation


def _as_function(value: Any) -> Callable[..., Any]:
    """A function; the name of a field gives the function that reads it."""
    if callable(value):
        called: Callable[..., Any] = value
        return called
    return lambda element: get_field(element, value)


# ---------------------------------------------------------------------------------------------------------------
# Each element


@operation("map", 2, None)
def map_(*arguments: Any) -> list[Any]:
    """The function's value for each element; of several arrays, for their elements side by side."""
    columns = [each(values) for values in arguments[:-1]]
    made = function(arguments[-1])
    return [made(*elements) for elements in zip(*columns, strict=False)]


@operation("concat_map", 2)
def concat_map(values: Any, makes: Any) -> list[Any]:
    """The elements of the function's values."""
    results: list[Any] = []
    for element in each(values):
        results.extend(sequence(function(makes)(element)))
        check_array_size(len(results))
    return results


@operation("filter", 2, options=("default",))
def filter_(values: Any, wanted: Any, default: Any = False) -> list[Any]:
    """The elements for which a function is true, or that match a pattern.

    `default` is the result where something is missing: a value, or a function without parameters.
    """
    otherwise = default if callable(default) else lambda: default
    test = wanted if callable(wanted) else lambda element: filter_match(element, wanted)
    return [element for element in each(values) if passes_filter(element, test, otherwise)]


@operation("contains", 1, None)
def contains(values: Any, *wanted: Any) -> bool:
    """Whether every value is an element, and every function is true for one; each by an element of its own."""
    elements = each(values)
    wanted_values = [one for one in wanted if not callable(one)]
    tests = [one for one in wanted if callable(one)]
    for element in elements:
        for index, value in enumerate(wanted_values):
            if equal(value, element):
                del wanted_values[index]
                break
        for index, test in enumerate(tests):
            if truth(test(element)):
                del tests[index]
                break
        if not wanted_values and not tests:
            return True
    return False


@operation("includes", 1, None)
def includes(values: Any, *wanted: Any) -> bool:
    """`contains`, which has ReQL's meaning for ever, and for a text also whether it has every one of the texts in it."""
    if isinstance(values, str):
        text, parts = string(values), [string(one) for one in wanted]
        return all(part in text for part in parts)
    return bool(contains(values, *wanted))


@operation("offsets_of", 2)
def offsets_of(values: Any, wanted: Any) -> list[int]:
    def is_wanted(element: Any) -> Any:
        return wanted(element) if callable(wanted) else equal(element, wanted)

    return [index for index, element in enumerate(each(values)) if passes_filter(element, is_wanted)]


@operation("is_empty", 1)
def is_empty(values: Any) -> bool:
    return not sequence(values)


@operation("count", 1, 2)
def count(values: Any, *wanted: Any) -> int:
    """The number of elements, fields, characters or bytes; of elements that equal a value, or pass a function."""
    if not wanted:
        return len(values) if isinstance(values, (str, bytes, dict)) else len(sequence(values))
    return len(offsets_of(values, wanted[0]))


@operation("union", 0, None, options=("interleave",))
def union(*arrays: Any, interleave: Any = True) -> list[Any]:
    """The elements of all, one array after the other; ordered among each other if `interleave` names a key for
    that."""
    results = [element for values in arrays for element in each(values)]
    check_array_size(len(results))
    if isinstance(interleave, bool):
        return results
    keys = interleave if isinstance(interleave, list) else [interleave]
    return sort_by_keys(results, [(_as_function(key), False) for key in keys])


@operation("zip", 1)
def zip_(values: Any) -> list[Any]:
    """Joined pairs as one object each: right merged into left."""
    results = []
    for pair in sequence(values):
        left = bracket(pair, "left")
        results.append(merge_patch(left, pair["right"]) if "right" in pair else left)
    return results


@operation("inner_join", 3)
def inner_join(left: Any, right: Any, test: Any) -> list[Any]:
    return _join(left, right, test, outer=False)


@operation("outer_join", 3)
def outer_join(left: Any, right: Any, test: Any) -> list[Any]:
    return _join(left, right, test, outer=True)


def _join(left: Any, right: Any, test: Any, *, outer: bool) -> list[Any]:
    results = []
    for one in each(left):
        pairs = [{"left": one, "right": other} for other in each(right) if truth(function(test)(one, other))]
        results.extend(pairs or ([{"left": one}] if outer else []))
        check_array_size(len(results))
    return results


@operation("range", 0, 2)
def range_(*bounds: Any) -> list[int]:
    """The ints from the first bound, or 0, up to the last one, which is not among them."""
    if not bounds:
        raise ResourceLimit("`range` needs an end here: nothing reads only the beginning of an array.")
    start, stop = (0, integer(bounds[0])) if len(bounds) == 1 else (integer(bounds[0]), integer(bounds[1]))
    check_array_size(max(0, stop - start))
    return list(range(start, stop))


# ---------------------------------------------------------------------------------------------------------------
# All elements


@operation("reduce", 2, options=("base",))
def reduce(values: Any, joins: Any, base: Any = None) -> Any:
    """The elements combined into one by a function of two, from the left. `base` is accepted and ignored, as in
    ReQL."""
    elements, join = sequence(values), function(joins)
    if not elements:
        raise MissingValue("Cannot reduce over an empty stream.")
    result = elements[0]
    for element in each(elements[1:]):
        result = join(result, element)
    return result


@operation("fold", 3, options=("emit", "final_emit"))
def fold(values: Any, base: Any, joins: Any, emit: Any = None, final_emit: Any = None) -> Any:
    """The result of a function of two over `base` and one element after the other.

    With `emit`, a function of the value before, the element and the value after: an array of all that it gave.
    """
    join, result, emitted = function(joins), base, []
    for element in each(values):
        before, result = result, join(result, element)
        if emit is not None:
            emitted.extend(array(function(emit)(before, element, result)))
            check_array_size(len(emitted))
    if final_emit is None:
        return result if emit is None else emitted
    last = function(final_emit)(result)
    return last if emit is None else check_array([*emitted, *array(last)])


def _pair_with_values(values: Any, by: tuple[Any, ...]) -> list[tuple[Any, Any]]:
    """Pairs of an element and its value by a field or function, for elements with such a value."""
    if not by:
        return [(element, element) for element in each(values)]
    find = _as_function(by[0])
    pairs = []
    for element in each(values):
        try:
            pairs.append((element, find(element)))
        except MissingValue:
            continue
    return pairs


def numbers_of(values: Any, by: tuple[Any, ...]) -> list[Any]:
    return [number(value) for _, value in _pair_with_values(values, by) if value is not None]


@operation("sum", 1, 2)
def sum_(values: Any, *by: Any) -> Any:
    """The sum of the numbers, or of a field or a function of each element; missing and null values are left out."""
    return add(0, *numbers_of(values, by))


@operation("avg", 1, 2)
def avg(values: Any, *by: Any) -> Any:
    numbers = numbers_of(values, by)
    if not numbers:
        raise _empty_sequence_error("average", "avg")
    return div(add(0, *numbers), len(numbers))


@operation("min", 1, 2)
def min_(values: Any, *by: Any) -> Any:
    """The first of the least elements, by a field or function if there is one."""
    return _find_best(values, by, "min", -1)


@operation("max", 1, 2)
def max_(values: Any, *by: Any) -> Any:
    return _find_best(values, by, "max", 1)


def _find_best(values: Any, by: tuple[Any, ...], name: str, wanted: int) -> Any:
    pairs = _pair_with_values(values, by)
    if not pairs:
        raise _empty_sequence_error(name, name)
    best, best_value = pairs[0]
    for element, value in pairs[1:]:
        if order(value, best_value) == wanted:
            best, best_value = element, value
    return best


def _empty_sequence_error(what: str, name: str) -> MissingValue:
    return MissingValue(
        f"Cannot take the {what} of an empty stream.  (If you passed `{name}` a field name, it may be that no "
        "elements of the stream had that field.)"
    )


@operation("distinct", 1)
def distinct(values: Any) -> list[Any]:
    """Different elements only, in order."""
    elements = distinct_by_key(sequence(values))
    return [elements[key] for key in sorted(elements)]


# ---------------------------------------------------------------------------------------------------------------
# Order and groups


@operation("order_by", 1, None, options=("descending",))
def order_by(values: Any, *keys: Any, descending: Any = ()) -> list[Any]:
    """The elements in order of fields or functions. `descending` is an array: whether each key descends."""
    if not keys:
        raise QueryError("Must specify something to order by.")
    directions = [truth(one) for one in descending] if isinstance(descending, list) else []
    directions += [False] * len(keys)
    elements = sequence(values)
    return sort_by_keys(elements, list(zip(map(_as_function, keys), directions, strict=False)))


@operation("group", 2, None, options=("multi",))
def group(values: Any, *by: Any, multi: Any = False) -> Grouped:
    """The elements by the values of fields or functions; with `multi`, by each element of a value that is an array."""
    finders = [_as_function(one) for one in by]
    groups: dict[bytes, tuple[Any, list[Any]]] = {}
    for element in each(values):
        parts = [_call_or_null(find, element) for find in finders]
        columns = [part if truth(multi) and isinstance(part, list) else [part] for part in parts]
        for choice in product(*columns):
            key = choice[0] if len(choice) == 1 else list(choice)
            groups.setdefault(sort_key(key), (key, []))[1].append(element)
        if len(groups) > array_limit.get():
            raise ResourceLimit(f"Too many groups (> {array_limit.get()}).")
    return Grouped([groups[key] for key in sorted(groups)])


def _call_or_null(find: Callable[[Any], Any], element: Any) -> Any:
    try:
        return find(element)
    except MissingValue:
        return None


@operation("ungroup", 1, acts_on_groups=True)
def ungroup(values: Any) -> list[Any]:
    if not isinstance(values, Grouped):
        raise QueryError("Expected type GROUPED_DATA but found DATUM.")
    return [{"group": key, "reduction": value} for key, value in values.groups]


@operation("sample", 2, is_deterministic=False)
def sample(values: Any, size: Any) -> list[Any]:
    """That many elements, chosen at random."""
    elements, most = sequence(values), integer(size)
    if most < 0:
        raise QueryError(f"Number of items to sample must be non-negative, got `{most}`.")
    return chance.sample(elements, min(most, len(elements)))
