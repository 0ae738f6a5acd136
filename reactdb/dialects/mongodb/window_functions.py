"""Window functions: a value for each document of `$setWindowFields`, from the documents around it.

    {"$sum": "$n", "window": {...}}     an accumulator over a window
    {"$rank": {}}                       a function of the whole partition

A window function is compiled once, into a function that returns the value of each document of a partition, in order. An
accumulator over a window that only grows at its end keeps its running total; over any other window it starts again, so a sliding
window of w documents costs w per document.

Rule of this file: `windows` finds the documents of a window, and `accumulators` and the totals compute their total.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from bson.decimal128 import Decimal128

from reactdb.budget import spend
from reactdb.dialects.mongodb.accumulators import ACCUMULATORS, OF_ONE_VALUE, GroupAccumulator
from reactdb.dialects.mongodb.bson_order import MISSING, sort_key, type_name
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions import Evaluate, Scope
from reactdb.dialects.mongodb.expressions.compile import compile_value, constant_of, is_nullish
from reactdb.dialects.mongodb.expressions.dates import UNIT_MS, is_unit
from reactdb.dialects.mongodb.numeric import (
    INT32_MAX,
    INT32_MIN,
    add_numbers,
    as_float,
    divide_numbers,
    is_number,
    multiply_numbers,
    subtract_numbers,
    whole,
)
from reactdb.dialects.mongodb.sort import Order
from reactdb.dialects.mongodb.times import is_date
from reactdb.dialects.mongodb.values import ms_of_date
from reactdb.dialects.mongodb.window_totals import (
    SLIDING,
    CovarianceOfAll,
    CovarianceOfSample,
    Integral,
    LeastAndGreatest,
)
from reactdb.dialects.mongodb.windows import Partition, Window, read_window

__all__ = ["WINDOW_FUNCTIONS", "Over", "carry_forward", "compile_window_function", "interpolate"]

Over = Callable[[Partition], Iterable[Any]]
"""The values of a partition's documents, one after the other."""


@dataclass(slots=True, frozen=True)
class FunctionCall:
    """A window function in the stage's document.

    Attributes:
        name: Its name, such as `$sum`.
        argument: The value of the field with that name.
        spec: The whole object, including `window`.
        order: The order of the stage's documents.
        scope: The scope of expressions.
    """

    name: str
    argument: Any
    spec: Mapping[str, Any]
    order: Order | None
    scope: Scope

    def expression(self, spec: Any) -> Evaluate:
        return compile_value(spec, self.scope)

    def window(self) -> Window:
        return read_window(self.spec["window"], self.order) if "window" in self.spec else Window()

    def refuse_window(self) -> None:
        if "window" in self.spec:
            raise MongoError(9, f"{self.name} takes no 'window'")

    def arguments(self, known: tuple[str, ...], needed: tuple[str, ...]) -> Mapping[str, Any]:
        """The named arguments of the function, checked."""
        if not isinstance(self.argument, Mapping):
            raise MongoError(9, f"{self.name} takes an object of named arguments")
        for given in self.argument:
            if given not in known:
                raise MongoError(9, f"{self.name} has no argument '{given}'")
        for name in needed:
            if name not in self.argument:
                raise MongoError(9, f"{self.name} needs the argument '{name}'")
        return self.argument


Compiler = Callable[[FunctionCall], Over]
WINDOW_FUNCTIONS: Final[dict[str, Compiler]] = {}
"""The compiler of a window function, by its name."""


def _function(*names: str) -> Callable[[Compiler], Compiler]:
    def register(compiler: Compiler) -> Compiler:
        WINDOW_FUNCTIONS.update(dict.fromkeys(names, compiler))
        return compiler

    return register


_RANKS: Final = ("$rank", "$denseRank", "$documentNumber")


def compile_window_function(spec: Any, order: Order | None, scope: Scope, *, path: str) -> Over:
    """The function of `{"$sum": "$n", "window": {...}}`.

    Raises:
        MongoError: It is no object, has no known function, or has another field (9, for ranks 5371601); or its arguments are
            invalid.
    """
    if not isinstance(spec, Mapping):
        raise MongoError(9, f"'{path}' takes an object with a window function")
    name = next((name for name in spec if name.startswith("$")), None)
    if name is None:
        raise MongoError(9, f"'{path}' needs a window function, whose name begins with '$'")
    compiler = WINDOW_FUNCTIONS.get(name)
    if compiler is None:
        raise MongoError(9, f"Unrecognized window function, {name}")
    if name not in _RANKS:
        for other in spec:
            if other not in (name, "window"):
                raise MongoError(9, f"a window function takes no field '{other}'")
    return compiler(FunctionCall(name, spec[name], spec, order, scope))


# --- Totals over windows ---


def _over_windows(accumulator: GroupAccumulator, window: Window) -> Over:
    begin = accumulator.begin

    def over(partition: Partition) -> Iterator[Any]:
        values = partition.values(accumulator.of_document)
        total, result = begin(None), MISSING
        first, until = 0, 0
        for start, end in window.spans(partition):
            if start != first or end < until:
                total, result = begin(None), MISSING
                first = until = start
            spend(1 + max(end - until, 0))
            if end > until or result is MISSING:
                for value in values[until:end]:
                    total.add(value)
                until = end
                result = total.result()
            yield result

    return over


def _accumulator(call: FunctionCall) -> Over:
    window, begin = call.window(), OF_ONE_VALUE.get(call.name)
    if begin is None:
        return _over_windows(ACCUMULATORS[call.name](call.argument, call.scope), window)
    if window.lower is not None:
        begin = SLIDING.get(call.name, begin)
    # Here an array is the value, but $group refuses it: its accumulators take only one expression.
    total = partial(begin, call.scope.text)
    return _over_windows(GroupAccumulator(call.expression(call.argument), lambda _key: total()), window)


# In MongoDB only $group has this accumulator.
_function(*(ACCUMULATORS.keys() - {"$mergeObjects"}))(_accumulator)


@_function("$covariancePop", "$covarianceSamp")
def _covariance(call: FunctionCall) -> Over:
    begin = CovarianceOfAll if call.name == "$covariancePop" else CovarianceOfSample
    pair = call.expression(call.argument)
    return _over_windows(GroupAccumulator(pair, lambda _key: begin()), call.window())


# --- Places between the least and the greatest value of a window ---


@_function("$minMaxScaler")
def _scaler(call: FunctionCall) -> Over:
    given, least, most = call.argument, 0, 1
    # `{$add: [...]}` is an expression, as it is in the place of other functions' arguments.
    if isinstance(given, Mapping) and not next(iter(given), "").startswith("$"):
        arguments = call.arguments(("input", "min", "max"), ("input",))
        given = arguments["input"]
        least, most = [
            _constant_number(call, name, arguments.get(name, default))
            for name, default in (("min", 0), ("max", 1))
        ]
    if not sort_key(least) < sort_key(most):
        raise MongoError(9, f"{call.name} takes a 'min' below its 'max'")
    source, window, width = call.expression(given), call.window(), subtract_numbers(most, least)

    def over(partition: Partition) -> Iterator[Any]:
        values = [_scale_number(call, value) for value in partition.values(source)]
        reader = iter(values)
        total = GroupAccumulator(lambda *_: next(reader), lambda _key: LeastAndGreatest())
        for value, ends in zip(values, _over_windows(total, window)(partition), strict=True):
            if ends is None:
                yield None
                continue
            extent = subtract_numbers(ends[1], ends[0])
            if sort_key(extent) == sort_key(0):
                yield least
                continue
            share = divide_numbers(subtract_numbers(value, ends[0]), extent)
            yield add_numbers(multiply_numbers(share, width), least)

    return over


def _constant_number(call: FunctionCall, name: str, spec: Any) -> Any:
    value = constant_of(call.expression(spec))
    if not is_number(value):
        raise MongoError(9, f"{call.name} takes a constant number as '{name}'")
    return value


def _scale_number(call: FunctionCall, value: Any) -> Any:
    if not is_number(value):
        raise MongoError(14, f"{call.name} wants a number as input, not {type_name(value)}")
    return value


# --- Places in the order ---


@_function(*_RANKS)
def _rank(call: FunctionCall) -> Over:
    if len(call.spec) > 1:
        raise MongoError(5371601, f"{call.name} takes no other field, and no window")
    if call.argument != {} or not isinstance(call.argument, Mapping):
        raise MongoError(5371603, f"{call.name} takes no arguments: write {{{call.name}: {{}}}}")
    order = call.order
    if order is None or len(order.fields) != 1:
        raise MongoError(5371602, f"{call.name} needs a sortBy of one field")
    if call.name == "$documentNumber":
        return lambda partition: range(1, len(partition) + 1)
    is_dense = call.name == "$denseRank"

    def over(partition: Partition) -> Iterator[int]:
        before, rank = None, 0
        for number, document in enumerate(partition.documents, 1):
            key = order.key(document)
            if number == 1 or key != before:
                rank = rank + 1 if is_dense else number
            before = key
            yield rank

    return over


@_function("$shift")
def _shift(call: FunctionCall) -> Over:
    call.refuse_window()
    if call.order is None:
        raise MongoError(9, "$shift needs a sortBy")
    arguments = call.arguments(("output", "by", "default"), ("output", "by"))
    by = whole(arguments["by"]) if is_number(arguments["by"]) else None
    if by is None or not INT32_MIN <= by <= INT32_MAX:
        raise MongoError(9, "$shift takes a whole number as 'by'")
    output = call.expression(arguments["output"])
    default = constant_of(call.expression(arguments.get("default")))
    if default is MISSING:
        raise MongoError(9, "$shift takes a constant as 'default'")

    def over(partition: Partition) -> Iterator[Any]:
        documents, variables = partition.documents, partition.variables
        for place in range(len(documents)):
            there = place + by
            if 0 <= there < len(documents):
                value = output(documents[there], variables)
                yield None if value is MISSING else value
            else:
                yield default

    return over


# --- Moving averages ---


@_function("$expMovingAvg")
def _moving(call: FunctionCall) -> Over:
    call.refuse_window()
    if call.order is None:
        raise MongoError(9, "$expMovingAvg needs a sortBy")
    arguments = call.arguments(("input", "N", "alpha"), ("input",))
    if len(arguments) != 2:
        raise MongoError(9, "$expMovingAvg takes 'input', and either 'N' or 'alpha'")
    if "N" in arguments:
        count = whole(arguments["N"]) if is_number(arguments["N"]) else None
        if count is None or count <= 0:
            raise MongoError(9, "$expMovingAvg takes a whole number above 0 as 'N'")
        weight: Any = 2 / (count + 1)
        exact: Any = divide_numbers(Decimal128("2"), Decimal128(str(count + 1)))
    else:
        weight = exact = arguments["alpha"]
        if not is_number(weight) or not 0 < as_float(weight) < 1:
            raise MongoError(9, "$expMovingAvg takes a number between 0 and 1 as 'alpha'")
    source = call.expression(arguments["input"])

    def over(partition: Partition) -> Iterator[Any]:
        mean: Any = None
        for value in partition.values(source):
            if not is_number(value):
                yield None
                continue
            if mean is None:
                mean = value if type(value) is Decimal128 else float(value)
            else:
                # After a Decimal128 all values are Decimal128, so the weight has the same precision.
                share = exact if Decimal128 in (type(value), type(mean)) else weight
                mean = add_numbers(
                    multiply_numbers(value, share), multiply_numbers(mean, subtract_numbers(1, share))
                )
            yield mean

    return over


# --- Along the order ---


def _unit_of(call: FunctionCall, arguments: Mapping[str, Any]) -> int | None:
    """The milliseconds of the argument `unit`, or None without one."""
    order, unit = call.order, arguments.get("unit")
    if order is None or len(order.fields) != 1:
        raise MongoError(9, f"{call.name} needs a sortBy of one field")
    if "unit" not in arguments:
        return None
    if not is_unit(unit):
        raise MongoError(9, f"{call.name} takes a unit of time as 'unit'")
    if unit not in UNIT_MS:
        raise MongoError(5490710, f"{call.name} takes 'week' or a shorter unit of time")
    return UNIT_MS[unit]


def _position(call: FunctionCall, place: Any, unit_ms: int | None, codes: tuple[int, int, int]) -> Any:
    """The sort value as a number; dates as milliseconds.

    `codes` are the errors of a value that is no date despite a unit, of a date without a unit, and of other types.
    """
    if unit_ms is not None:
        if not is_date(place):
            raise MongoError(
                codes[0], f"{call.name} with a unit wants a date in sortBy, not {type_name(place)}"
            )
        return ms_of_date(place)
    if is_date(place):
        raise MongoError(codes[1], f"{call.name} wants a unit where sortBy is a date")
    if not is_number(place):
        raise MongoError(codes[2], f"{call.name} wants a number in sortBy, not {type_name(place)}")
    return place


def _height(call: FunctionCall, value: Any) -> Any:
    if not is_number(value):
        raise MongoError(5423900, f"{call.name} wants a number as input, not {type_name(value)}")
    return value


@_function("$derivative")
def _derivative(call: FunctionCall) -> Over:
    if "window" not in call.spec:
        raise MongoError(9, "$derivative needs a window")
    arguments = call.arguments(("input", "unit"), ("input",))
    unit_ms = _unit_of(call, arguments)
    source, window = call.expression(arguments["input"]), call.window()

    def over(partition: Partition) -> Iterator[Any]:
        places, values = partition.places(), partition.values(source)
        for start, end in window.spans(partition):
            if end - start < 2:
                yield None
                continue
            (x1, y1), (x2, y2) = [
                (
                    _position(call, places[end_], unit_ms, (5624900, 5624901, 5624902)),
                    _height(call, values[end_]),
                )
                for end_ in (start, end - 1)
            ]
            run = subtract_numbers(x2, x1)
            if sort_key(run) == sort_key(0):
                yield None
                continue
            slope = divide_numbers(subtract_numbers(y2, y1), run)
            yield slope if unit_ms is None else multiply_numbers(slope, unit_ms)

    return over


@_function("$integral")
def _integral(call: FunctionCall) -> Over:
    arguments = call.arguments(("input", "unit"), ("input",))
    unit_ms = _unit_of(call, arguments)
    source, window = call.expression(arguments["input"]), call.window()

    def over(partition: Partition) -> Iterable[Any]:
        points = [
            (_position(call, place, unit_ms, (5423901, 5423902, 5423902)), _height(call, value))
            for place, value in zip(partition.places(), partition.values(source), strict=True)
        ]
        reader = iter(points)
        accumulator = GroupAccumulator(lambda *_: next(reader), lambda _key: Integral(unit_ms or 1))
        return _over_windows(accumulator, window)(partition)

    return over


# --- Missing values ---


@_function("$locf")
def _locf(call: FunctionCall) -> Over:
    call.refuse_window()
    source = call.expression(call.argument)
    return lambda partition: carry_forward(partition.values(source))


@_function("$linearFill")
def _linear_fill(call: FunctionCall) -> Over:
    if call.order is None or len(call.order.fields) != 1:
        raise MongoError(605001, "$linearFill needs a sortBy of one field")
    call.refuse_window()
    source = call.expression(call.argument)
    return lambda partition: interpolate(partition.values(source), partition.places())


def carry_forward(values: Iterable[Any]) -> Iterator[Any]:
    """Values, with the last value before in place of null and missing values; null without a value before."""
    last: Any = None
    for value in values:
        last = last if is_nullish(value) else value
        yield last


def interpolate(values: list[Any], places: list[Any]) -> list[Any]:
    """Values, with a linear interpolation between both neighbours in place of null and missing values.

    Null without a value before or after. `places` are the positions of the values, in order.

    Raises:
        MongoError: A value is no number, a place neither number nor date, or there are both (14); a place occurs twice (6050106).
    """
    along = _numbers_of(places)
    made = [None if value is MISSING else value for value in values]
    before: int | None = None
    for number, value in enumerate(made):
        if value is None:
            continue
        if not is_number(value):
            raise MongoError(14, f"a value to fill must be a number or null, not {type_name(value)}")
        if before is not None and number - before > 1:
            rise, run = subtract_numbers(value, made[before]), subtract_numbers(along[number], along[before])
            for between in range(before + 1, number):
                share = divide_numbers(subtract_numbers(along[between], along[before]), run)
                made[between] = add_numbers(made[before], multiply_numbers(rise, share))
        before = number
    return made


def _numbers_of(places: list[Any]) -> list[Any]:
    kinds = set()
    numbers, before = [], None
    for place in places:
        if not is_number(place) and not is_date(place):
            raise MongoError(14, f"it is filled along numbers or dates, not {type_name(place)}")
        kinds.add(is_date(place))
        if len(kinds) > 1:
            raise MongoError(14, "the values of the sortBy field must be numbers or dates, not both")
        number = ms_of_date(place) if is_date(place) else place
        key = sort_key(number)
        if key == before:
            raise MongoError(6050106, "the values of the sortBy field must all differ")
        before = key
        numbers.append(number)
    return numbers
