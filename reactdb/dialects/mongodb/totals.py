"""Running totals of values: sums, means, extremes, deviations, quantiles.

Values other than numbers do not count; for the extremes, null and missing values do not count.

Rule of this file: a total holds as little as it needs, and `result` may be called at any time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, Protocol

from bson.decimal128 import Decimal128
from bson.int64 import Int64

from reactdb.budget import spend_value
from reactdb.dialects.mongodb.bson_order import MISSING, TextKey, is_text, sort_key, type_name
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.numeric import (
    DECIMAL,
    as_float,
    decimal128,
    decimal_of,
    integer,
    is_number,
    rank,
)

__all__ = ["TOTALS", "TOTALS_OF_ARGUMENTS", "RunningTotal", "quantiles"]

_INT64, _DOUBLE, _DECIMAL = 1, 2, 3


class RunningTotal(Protocol):
    """A total."""

    def add(self, value: Any) -> None:
        """Adds a value."""

    def result(self) -> Any:
        """The total of the values so far."""


class RunningSum:
    """The sum, of the widest type among the numbers. The rounding errors of double additions are summed up, too."""

    __slots__ = ("_decimals", "_doubles", "_kind", "_lost", "_whole", "count")

    def __init__(self, _text: TextKey | None = None) -> None:
        self.count = 0
        self._kind = 0
        self._whole = 0
        self._doubles = 0.0
        self._lost = 0.0
        self._decimals = Decimal(0)

    def add(self, value: Any) -> None:
        kind = type(value)
        if kind is int:
            self._whole += value
            self.count += 1
        elif kind is float:
            self._add_double(value)
            self.count += 1
        elif is_number(value):
            self._kind = max(self._kind, rank(value))
            self.count += 1
            if kind is Decimal128:
                self._decimals = DECIMAL.add(self._decimals, decimal_of(value))
            else:
                self._whole += int(value)

    def _add_double(self, value: float) -> None:
        self._kind = max(self._kind, _DOUBLE)
        self._doubles, lost = _add_doubles(self._doubles, value)
        self._lost += lost

    def result(self) -> Any:
        if self._kind == _DECIMAL:
            # Doubles are summed up as doubles, and their exact sum is added to the decimals.
            rest = DECIMAL.add(Decimal(self._whole), Decimal(self._double_total()))
            return decimal128(DECIMAL.add(self._decimals, rest))
        if self._kind == _DOUBLE:
            return self.nearest_double()
        return integer(self._whole, self._kind)

    def nearest_double(self) -> float:
        """The sum without the Decimal128 values, rounded once."""
        if not self._whole:
            return self._double_total()
        # An integer beyond 53 bits is a double and a remainder, which is a double, too.
        upper = float(self._whole)
        total, lost = _add_doubles(self._doubles, upper)
        return total + (self._lost + lost + (self._whole - int(upper)))

    def _double_total(self) -> float:
        return self._doubles + self._lost


def _add_doubles(left: float, right: float) -> tuple[float, float]:
    """The sum, and its rounding error."""
    total = left + right
    if not math.isfinite(total):
        return total, 0.0
    return total, (left - total) + right if abs(left) >= abs(right) else (right - total) + left


class Average:
    """The mean: a double, or a Decimal128 if there is one among the numbers. Null without numbers.

    It is rounded in the division, so that the greatest and the least int64 have the mean -0.5.
    """

    __slots__ = ("_sum",)

    def __init__(self, _text: TextKey | None = None) -> None:
        self._sum = RunningSum()

    def add(self, value: Any) -> None:
        self._sum.add(value)

    def result(self) -> Any:
        count = self._sum.count
        if not count:
            return None
        total = self._sum.result()
        if isinstance(total, Decimal128):
            return decimal128(DECIMAL.divide(decimal_of(total), Decimal(count)))
        return self._sum.nearest_double() / count


class AverageOfArguments(Average):
    """The mean in an expression: each integer becomes a double first, as in MongoDB."""

    __slots__ = ()

    def add(self, value: Any) -> None:
        self._sum.add(float(value) if type(value) is int or type(value) is Int64 else value)


class _Extreme:
    __slots__ = ("_key", "_text", "_value")

    def __init__(self, text: TextKey | None = None) -> None:
        self._text = text
        self._key: Any = None
        self._value: Any = None

    def result(self) -> Any:
        return self._value


class Least(_Extreme):
    """The least value; null without a value."""

    __slots__ = ()

    def add(self, value: Any) -> None:
        if value is not None and value is not MISSING:
            key = sort_key(value, self._text)
            if self._key is None or key < self._key:
                self._key, self._value = key, value


class Greatest(_Extreme):
    """The greatest value; null without a value."""

    __slots__ = ()

    def add(self, value: Any) -> None:
        if value is not None and value is not MISSING:
            key = sort_key(value, self._text)
            if self._key is None or key > self._key:
                self._key, self._value = key, value


class _Deviation:
    """Welford's algorithm: the mean and the sum of the squared differences from it."""

    __slots__ = ("_count", "_mean", "_squares")
    _least = 1

    def __init__(self, _text: TextKey | None = None) -> None:
        self._count = 0
        self._mean = 0.0
        self._squares = 0.0

    def add(self, value: Any) -> None:
        if is_number(value):
            number = as_float(value)
            self._count += 1
            step = number - self._mean
            self._mean += step / self._count
            self._squares += step * (number - self._mean)

    def result(self) -> Any:
        if self._count < self._least:
            return None
        return (
            math.sqrt(self._squares / (self._count - self._least + 1))
            if self._squares == self._squares
            else math.nan
        )


class DeviationOfAll(_Deviation):
    """The standard deviation of a whole population."""

    __slots__ = ()


class DeviationOfSample(_Deviation):
    """The standard deviation of a sample; null for fewer than two numbers."""

    __slots__ = ()
    _least = 2


TOTALS: Final[Mapping[str, Callable[[TextKey | None], RunningTotal]]] = {
    "$sum": RunningSum,
    "$avg": Average,
    "$min": Least,
    "$max": Greatest,
    "$stdDevPop": DeviationOfAll,
    "$stdDevSamp": DeviationOfSample,
}
"""The totals by the names of their operators."""

TOTALS_OF_ARGUMENTS: Final[Mapping[str, Callable[[TextKey | None], RunningTotal]]] = {
    **TOTALS,
    "$avg": AverageOfArguments,
}
"""The same, as expressions have them."""


def quantiles(wanted: Any, method: Any) -> Callable[[list[Any]], list[Any]]:
    """A function from values to their quantiles, as doubles.

    Args:
        wanted: Numbers from 0 to 1.
        method: `approximate` or `discrete`, whose results are values here, or `continuous`, which interpolates.

    Raises:
        MongoError: `wanted` is no array of such numbers (7750301, 7750303), or the method is unknown (2).
    """
    if not isinstance(wanted, list) or not wanted:
        raise MongoError(7750301, "'p' is an array of numbers from 0 to 1")
    for part in wanted:
        if not is_number(part) or not 0 <= as_float(part) <= 1:
            raise MongoError(7750303, "'p' is an array of numbers from 0 to 1")
    if not is_text(method):
        raise MongoError(14, f"'method' is the wrong type '{type_name(method)}', expected type 'string'")
    if method not in {"approximate", "discrete", "continuous"}:
        raise MongoError(2, "'method' is 'approximate', 'discrete' or 'continuous'")
    parts = [as_float(part) for part in wanted]

    def compute(values: list[Any]) -> list[Any]:
        spend_value(values)
        numbers = sorted(as_float(value) for value in values if is_number(value))
        if not numbers:
            return [None] * len(parts)
        return [_between(numbers, part) if method == "continuous" else _at(numbers, part) for part in parts]

    return compute


def _at(numbers: list[float], part: float) -> float:
    return numbers[max(0, math.ceil(part * len(numbers)) - 1)]


def _between(numbers: list[float], part: float) -> float:
    place = part * (len(numbers) - 1)
    below = math.floor(place)
    if below + 1 >= len(numbers):
        return numbers[-1]
    return numbers[below] + (numbers[below + 1] - numbers[below]) * (place - below)
