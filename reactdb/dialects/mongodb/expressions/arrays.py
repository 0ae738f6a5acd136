"""Operators on arrays: elements and parts of them, searching, sorting, and `$map`, `$filter`, `$reduce`, `$let`.

Rule of this file: a negative index counts from the end; an index out of range gives a missing value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from reactdb.budget import spend, spend_value
from reactdb.dialects.mongodb.bson_order import MISSING, type_name
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions.compile import (
    Evaluate,
    NamedArguments,
    Scope,
    argument,
    arguments,
    check_named_parts,
    compile_value,
    constant_of,
    function,
    is_nullish,
    syntax,
    variable_name,
)
from reactdb.dialects.mongodb.expressions.logic import is_true
from reactdb.dialects.mongodb.numeric import INT32_MAX, INT32_MIN, is_number, whole
from reactdb.dialects.mongodb.paths import split, value_at

__all__: list[str] = []

Variables = dict[str, Any]


def _present(values: list[Any]) -> list[Any]:
    return [None if value is MISSING else value for value in values]


# --- Elements and parts ---


@function("$arrayElemAt", 2)
def array_element(array: Any, index: Any) -> Any:
    """The element at an index."""
    if is_nullish(array) or is_nullish(index):
        return None
    if not isinstance(array, list):
        raise MongoError(28689, f"$arrayElemAt's first argument must be an array, but is {type_name(array)}")
    if not is_number(index):
        raise MongoError(
            28690, f"$arrayElemAt's second argument must be a numeric value, but is {type_name(index)}"
        )
    place = whole(index)
    if place is None or not INT32_MIN <= place <= INT32_MAX:
        raise MongoError(28691, "$arrayElemAt's second argument must be representable as a 32-bit integer")
    return array[place] if -len(array) <= place < len(array) else MISSING


def _at_end(name: str, place: int) -> None:
    @function(name, 1)
    def work(array: Any) -> Any:
        if is_nullish(array):
            return None
        if not isinstance(array, list):
            raise MongoError(28689, f"{name}'s argument must be an array, but is {type_name(array)}")
        return array[place] if array else MISSING


_at_end("$first", 0)
_at_end("$last", -1)


@function("$concatArrays", 0, None)
def concatenated(*arrays: Any) -> Any:
    """The elements of all arrays."""
    result: list[Any] = []
    for array in arrays:
        if is_nullish(array):
            return None
        if not isinstance(array, list):
            raise MongoError(28664, f"$concatArrays only supports arrays, not {type_name(array)}")
        result += array
    return result


@function("$isArray", 1)
def is_array(value: Any) -> bool:
    """Whether it is an array."""
    return isinstance(value, list)


@function("$size", 1)
def size(array: Any) -> int:
    """The number of elements."""
    if not isinstance(array, list):
        raise MongoError(
            17124, f"The argument to $size must be an array, but was of type: {type_name(array)}"
        )
    return len(array)


@function("$reverseArray", 1)
def reverse_array(array: Any) -> Any:
    """The elements from the last to the first."""
    if is_nullish(array):
        return None
    if not isinstance(array, list):
        raise MongoError(
            34435, f"The argument to $reverseArray must be an array, but was of type: {type_name(array)}"
        )
    return array[::-1]


@function("$slice", 2, 3)
def sliced(array: Any, *bounds: Any) -> Any:
    """The first `n` elements, for a negative `n` the last ones, or `n` from a position."""
    if is_nullish(array) or any(is_nullish(bound) for bound in bounds):
        return None
    if not isinstance(array, list):
        raise MongoError(
            28724, f"First argument to $slice must be an array, but is of type: {type_name(array)}"
        )
    numbers = []
    for place, bound in enumerate(bounds):
        code = 28725 + 2 * place
        if not is_number(bound):
            raise MongoError(code, f"$slice takes numbers, not {type_name(bound)}")
        number = whole(bound)
        if number is None or not INT32_MIN <= number <= INT32_MAX:
            raise MongoError(code + 1, "$slice takes numbers that are whole and have 32 bits")
        numbers.append(number)
    if len(numbers) == 1:
        (count,) = numbers
        return array[:count] if count >= 0 else array[count:]
    start, count = numbers
    if count <= 0:
        raise MongoError(28729, "$slice with a position takes a number of elements above 0")
    if start < 0:
        start = max(len(array) + start, 0)
    return array[start : start + count]


@function("$range", 2, 3)
def number_range(start: Any, end: Any, step: Any = 1) -> list[int]:
    """Whole numbers from a start, before an end."""
    first = _int32("$range", start, 34443, 34444)
    last = _int32("$range", end, 34445, 34446)
    by = _int32("$range", step, 34447, 34448)
    if by == 0:
        raise MongoError(34449, "$range requires a non-zero step value")
    count = len(range(first, last, by))
    if count * 16 > 100 * 2**20:
        raise MongoError(146, f"$range would use too much memory: {count} numbers")
    return list(range(first, last, by))


def _int32(name: str, value: Any, code_type: int, code_range: int) -> int:
    if not is_number(value):
        raise MongoError(code_type, f"{name} takes numbers, not {type_name(value)}")
    number = whole(value)
    if number is None or not INT32_MIN <= number <= INT32_MAX:
        raise MongoError(code_range, f"{name} takes whole numbers of 32 bits")
    return number


_ZIP = NamedArguments(34460, 34464, {"inputs": 34465}, ("useLongestLength", "defaults"))


@syntax("$zip")
def _zip(spec: Any, scope: Scope) -> Evaluate:
    parts = check_named_parts("$zip", spec, _ZIP)
    longest = parts.get("useLongestLength", False)
    if not isinstance(longest, bool):
        raise MongoError(34463, "$zip takes a bool as useLongestLength")
    if not isinstance(parts["inputs"], list | tuple):
        raise MongoError(34461, "$zip takes an array of inputs")
    if not parts["inputs"]:
        raise MongoError(34465, "$zip needs at least one input")
    fillers: list[Evaluate] | None = None
    if "defaults" in parts:
        if not isinstance(parts["defaults"], list | tuple):
            raise MongoError(34462, "$zip takes an array of defaults")
        fillers = [compile_value(part, scope) for part in parts["defaults"]]
    if fillers is not None and not longest:
        raise MongoError(34466, "$zip's defaults are used only with useLongestLength: true")
    inputs = [compile_value(part, scope) for part in parts["inputs"]]
    if fillers is not None and len(fillers) != len(inputs):
        raise MongoError(34467, "$zip takes one default for each input")

    def evaluate(document: Any, variables: Variables) -> Any:
        arrays = [part(document, variables) for part in inputs]
        if any(is_nullish(array) for array in arrays):
            return None
        for array in arrays:
            if not isinstance(array, list):
                raise MongoError(34468, f"$zip found a non-array expression in input: {type_name(array)}")
        filled = (
            [filler(document, variables) for filler in fillers]
            if fillers is not None
            else [None] * len(arrays)
        )
        length = (max if longest else min)(len(array) for array in arrays)
        spend(length * len(arrays))
        return [
            _present(
                [
                    array[place] if place < len(array) else filler
                    for array, filler in zip(arrays, filled, strict=True)
                ]
            )
            for place in range(length)
        ]

    return evaluate


# --- Searching ---


@syntax("$in")
def _in(spec: Any, scope: Scope) -> Evaluate:
    value, array = arguments("$in", spec, scope, 2, 2)
    key = scope.identity()
    constants = constant_of(array)
    if isinstance(constants, list):
        keys = frozenset(key(element) for element in constants)
        return lambda document, variables: key(value(document, variables)) in keys

    def evaluate(document: Any, variables: Variables) -> Any:
        wanted, elements = value(document, variables), array(document, variables)
        if not isinstance(elements, list):
            raise MongoError(
                40081, f"$in requires an array as a second argument, found: {type_name(elements)}"
            )
        spend_value(elements)
        # The key of the wanted value is made once, because it may be an array.
        wanted_key = key(wanted)
        return any(key(element) == wanted_key for element in elements)

    return evaluate


@syntax("$indexOfArray")
def _index_of_array(spec: Any, scope: Scope) -> Evaluate:
    parts = arguments("$indexOfArray", spec, scope, 2, 4)
    key = scope.identity()

    def evaluate(document: Any, variables: Variables) -> Any:
        array, wanted, *bounds = [part(document, variables) for part in parts]
        if is_nullish(array):
            return None
        if not isinstance(array, list):
            raise MongoError(
                40090, f"$indexOfArray requires an array as a first argument, found: {type_name(array)}"
            )
        numbers = [_index("$indexOfArray", bound) for bound in bounds]
        start = numbers[0] if numbers else 0
        end = min(numbers[1], len(array)) if len(numbers) > 1 else len(array)
        spend(max(end - start, 0))
        wanted_key = key(wanted)
        return next((place for place in range(start, end) if key(array[place]) == wanted_key), -1)

    return evaluate


def _index(name: str, value: Any) -> int:
    place = whole(value)
    if place is None or place > INT32_MAX:
        raise MongoError(9711600, f"{name} takes whole numbers as bounds, not {type_name(value)}")
    if place < 0:
        raise MongoError(9711601, f"{name} takes bounds of at least 0")
    return place


# --- Sorting, and the first elements of an order ---

_SORT_ARRAY = NamedArguments(2942500, 2942501, {"input": 2942502, "sortBy": 2942503})


@syntax("$sortArray")
def _sort_array(spec: Any, scope: Scope) -> Evaluate:
    parts = check_named_parts("$sortArray", spec, _SORT_ARRAY)
    source = compile_value(parts["input"], scope)
    put_in_order = _sorter(parts["sortBy"], scope)

    def evaluate(document: Any, variables: Variables) -> Any:
        array = source(document, variables)
        if is_nullish(array):
            return None
        if not isinstance(array, list):
            raise MongoError(
                2942504,
                f"The input argument to $sortArray must be an array, but was of type: {type_name(array)}",
            )
        return put_in_order(array)

    return evaluate


def _sorter(spec: Any, scope: Scope) -> Callable[[list[Any]], list[Any]]:
    if isinstance(spec, Mapping):
        return _sorter_by_fields(spec, scope)
    if not is_number(spec):
        raise MongoError(2942507, "$sortArray sorts by 1, by -1 or by an object of fields")
    if whole(spec) not in (1, -1):
        raise MongoError(2942506, "$sortArray sorts by 1, by -1 or by an object of fields")
    identity, down = scope.identity(), whole(spec) == -1

    def put_in_order(array: list[Any]) -> list[Any]:
        spend_value(array)
        return sorted(array, key=identity, reverse=down)

    return put_in_order


def _sorter_by_fields(spec: Mapping[str, Any], scope: Scope) -> Callable[[list[Any]], list[Any]]:
    if not spec or any(not is_number(way) or whole(way) not in (1, -1) for way in spec.values()):
        raise MongoError(2942505, "$sortArray sorts by an object of fields, each with 1 or -1")
    identity = scope.identity()
    ways = [(split(path), whole(way) == -1) for path, way in spec.items()]

    def put_in_order(array: list[Any]) -> list[Any]:
        result = list(array)
        for parts, down in reversed(ways):
            spend_value(result)
            # Unlike `$sort` it compares arrays as they are, and missing values with null.
            result.sort(key=lambda element: identity(_or_null(value_at(element, parts))), reverse=down)
        return result

    return put_in_order


def _or_null(value: Any) -> Any:
    return None if value is MISSING else value


def _ends(name: str, *, of_order: bool, from_end: bool) -> None:
    """Registers $firstN and $lastN (of an array as it is), $minN and $maxN (of its order)."""
    names = NamedArguments(5787801, 5787901, {"n": 5787906, "input": 5787907})

    @syntax(name)
    def compiler(spec: Any, scope: Scope) -> Evaluate:
        parts = check_named_parts(name, spec, names)
        source, count = compile_value(parts["input"], scope), compile_value(parts["n"], scope)
        identity = scope.identity()

        def evaluate(document: Any, variables: Variables) -> Any:
            array = source(document, variables)
            wanted = count_of(name, count(document, variables))
            if not isinstance(array, list):
                raise MongoError(5788200, f"Input must be an array, but is {type_name(array)}")
            if not of_order:
                return array[-wanted:] if from_end else array[:wanted]
            spend_value(array)
            values = [value for value in array if value is not None]
            return sorted(values, key=identity, reverse=from_end)[:wanted]

        return evaluate


def count_of(name: str, value: Any) -> int:
    """The argument n of an operator with n results."""
    if not is_number(value):
        raise MongoError(5787902, f"{name} takes a number as n, not {type_name(value)}")
    wanted = whole(value)
    if wanted is None:
        raise MongoError(5787903, f"{name} takes a whole number as n")
    if wanted <= 0:
        raise MongoError(5787908, f"{name} takes an n above 0")
    return wanted


_ends("$firstN", of_order=False, from_end=False)
_ends("$lastN", of_order=False, from_end=True)
_ends("$minN", of_order=True, from_end=False)
_ends("$maxN", of_order=True, from_end=True)


# --- Each element ---


Elements = Callable[[Any, Variables], "Iterator[tuple[Any, Any]] | None"]


def _each(name: str, code: int, parts: Mapping[str, Any], inside: str, scope: Scope) -> Elements:
    """A function that walks over an operator's input lazily: it yields each element with the value of the expression `inside` for
    it; None if the input is null or missing. `code`: the error for other types."""
    source = compile_value(parts["input"], scope)
    element, index = _variable(parts, "as", "this"), _variable(parts, "arrayIndexAs", "IDX")
    expression = compile_value(parts[inside], scope.with_names((element, index)))

    def walk(document: Any, variables: Variables) -> Iterator[tuple[Any, Any]] | None:
        array = source(document, variables)
        if is_nullish(array):
            return None
        if not isinstance(array, list):
            raise MongoError(code, f"input to {name} must be an array not {type_name(array)}")
        spend_value(array)
        return values(array, document, dict(variables))

    def values(array: list[Any], document: Any, inner: Variables) -> Iterator[tuple[Any, Any]]:
        for inner[index], value in enumerate(array):
            inner[element] = value
            yield value, expression(document, inner)

    return walk


def _variable(parts: Mapping[str, Any], argument_name: str, otherwise: str) -> str:
    """The variable name in an argument, or the default name."""
    return variable_name(parts[argument_name]) if argument_name in parts else otherwise


_MAP = NamedArguments(16878, 16879, {"input": 16880, "in": 16882}, ("as", "arrayIndexAs"))


@syntax("$map")
def _map(spec: Any, scope: Scope) -> Evaluate:
    walk = _each("$map", 16883, check_named_parts("$map", spec, _MAP), "in", scope)

    def evaluate(document: Any, variables: Variables) -> Any:
        walked = walk(document, variables)
        return None if walked is None else _present([value for _, value in walked])

    return evaluate


_FILTER = NamedArguments(28646, 28647, {"input": 28648, "cond": 28650}, ("as", "limit", "arrayIndexAs"))


@syntax("$filter")
def _filter(spec: Any, scope: Scope) -> Evaluate:
    parts = check_named_parts("$filter", spec, _FILTER)
    walk = _each("$filter", 28651, parts, "cond", scope)
    limit = compile_value(parts.get("limit"), scope)

    def evaluate(document: Any, variables: Variables) -> Any:
        walked = walk(document, variables)
        if walked is None:
            return None
        most = _limit(limit(document, variables))
        return list(islice((element for element, value in walked if is_true(value)), most))

    return evaluate


def _limit(value: Any) -> int | None:
    """The limit of elements for `$filter`; None for all."""
    if is_nullish(value):
        return None
    limit = whole(value)
    if limit is None or not INT32_MIN <= limit <= INT32_MAX:
        raise MongoError(327391, f"$filter takes a whole number of 32 bits as limit, not {type_name(value)}")
    if limit <= 0:
        raise MongoError(327392, "$filter takes a limit above 0")
    return limit


_REDUCE = NamedArguments(
    40075, 40076, {"input": 40077, "initialValue": 40078, "in": 40079}, ("as", "valueAs", "arrayIndexAs")
)


@syntax("$reduce")
def _reduce(spec: Any, scope: Scope) -> Evaluate:
    parts = check_named_parts("$reduce", spec, _REDUCE)
    source, start = compile_value(parts["input"], scope), compile_value(parts["initialValue"], scope)
    element, total = _variable(parts, "as", "this"), _variable(parts, "valueAs", "value")
    index = _variable(parts, "arrayIndexAs", "IDX")
    step = compile_value(parts["in"], scope.with_names((element, total, index)))

    def evaluate(document: Any, variables: Variables) -> Any:
        array = source(document, variables)
        if is_nullish(array):
            return None
        if not isinstance(array, list):
            raise MongoError(40080, f"$reduce requires that 'input' be an array, found: {type_name(array)}")
        spend_value(array)
        inner = dict(variables)
        value = start(document, variables)
        for inner[index], inner[element] in enumerate(array):
            inner[total] = value
            value = step(document, inner)
        return value

    return evaluate


_LET = NamedArguments(16874, 16875, {"vars": 16876, "in": 16877})


@syntax("$let")
def _let(spec: Any, scope: Scope) -> Evaluate:
    parts = check_named_parts("$let", spec, _LET)
    if not isinstance(parts["vars"], Mapping):
        raise MongoError(10065, "$let takes an object of variables")
    defined = [
        (variable_name(name, may_be_current=True), compile_value(value, scope))
        for name, value in parts["vars"].items()
    ]
    inside = compile_value(parts["in"], scope.with_names(name for name, _ in defined))

    def evaluate(document: Any, variables: Variables) -> Any:
        inner = dict(variables)
        for name, value in defined:
            inner[name] = value(document, variables)
        if "CURRENT" in inner:
            inner.setdefault("ROOT", document)
            document = inner.pop("CURRENT")
        return inside(document, inner)

    return evaluate


# --- Sets: arrays without order and repetition ---


def _distinct(values: Any, scope: Scope) -> dict[Any, Any]:
    identity = scope.identity()
    elements: dict[Any, Any] = {}
    spend_value(values)
    for value in values:
        elements.setdefault(identity(value), value)
    return elements


def _sets(name: str, least: int, most: int | None, work: Callable[[Scope, list[Any]], Any]) -> None:
    @syntax(name)
    def compiler(spec: Any, scope: Scope) -> Evaluate:
        parts = arguments(name, spec, scope, least, most)
        return lambda document, variables: work(scope, [part(document, variables) for part in parts])


def _check_array(name: str, value: Any, code: int) -> list[Any]:
    if not isinstance(value, list):
        raise MongoError(code, f"{name} takes arrays, not {type_name(value)}")
    return value


def _set_union(scope: Scope, arrays: list[Any]) -> Any:
    elements: list[Any] = []
    for array in arrays:
        if is_nullish(array):
            return None
        elements += _check_array("$setUnion", array, 17043)
    return list(_distinct(elements, scope).values())


def _set_intersection(scope: Scope, arrays: list[Any]) -> Any:
    if any(is_nullish(array) for array in arrays):
        return None
    sets = [_distinct(_check_array("$setIntersection", array, 17047), scope) for array in arrays]
    if not sets:
        return []
    return [value for key, value in sets[0].items() if all(key in other for other in sets[1:])]


def _set_difference(scope: Scope, arrays: list[Any]) -> Any:
    if any(is_nullish(array) for array in arrays):
        return None
    left = _distinct(_check_array("$setDifference", arrays[0], 17048), scope)
    right = _distinct(_check_array("$setDifference", arrays[1], 17049), scope)
    return [value for key, value in left.items() if key not in right]


def _set_is_subset(scope: Scope, arrays: list[Any]) -> bool:
    left = _distinct(_check_array("$setIsSubset", arrays[0], 17046), scope)
    right = _distinct(_check_array("$setIsSubset", arrays[1], 17042), scope)
    return all(key in right for key in left)


def _set_equals(scope: Scope, arrays: list[Any]) -> bool:
    sets = [set(_distinct(_check_array("$setEquals", array, 17044), scope)) for array in arrays]
    return all(one == sets[0] for one in sets)


_sets("$setUnion", 0, None, _set_union)
_sets("$setIntersection", 0, None, _set_intersection)
_sets("$setDifference", 2, 2, _set_difference)
_sets("$setIsSubset", 2, 2, _set_is_subset)


@syntax("$setEquals")
def _compile_set_equals(spec: Any, scope: Scope) -> Evaluate:
    if not isinstance(spec, list | tuple) or len(spec) < 2:
        raise MongoError(17045, "$setEquals needs at least two arguments")
    parts = arguments("$setEquals", spec, scope)
    for part in parts:
        if constant_of(part) is not MISSING:
            _check_array("$setEquals", constant_of(part), 5887502)
    return lambda document, variables: _set_equals(scope, [part(document, variables) for part in parts])


def _register_quantifier(name: str, code: int, holds: Callable[[Any], bool]) -> None:
    @syntax(name)
    def compiler(spec: Any, scope: Scope) -> Evaluate:
        part = argument(name, spec, scope)

        def evaluate(document: Any, variables: Variables) -> bool:
            array = _check_array(name, part(document, variables), code)
            spend_value(array)
            return holds(is_true(element) for element in array)

        return evaluate


_register_quantifier("$allElementsTrue", 17040, all)
_register_quantifier("$anyElementTrue", 17041, any)
