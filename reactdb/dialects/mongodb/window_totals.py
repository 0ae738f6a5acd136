"""Totals for windows only: covariances, integrals, ranges, deviations of sliding windows.

Rule of this file: as in `totals`, a total holds as little as it needs, and `result` may be called at any time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from reactdb.dialects.mongodb.bson_order import TextKey
from reactdb.dialects.mongodb.numeric import (
    add_numbers,
    as_float,
    decimal_of,
    divide_numbers,
    is_number,
    multiply_numbers,
    subtract_numbers,
)
from reactdb.dialects.mongodb.totals import (
    DeviationOfAll,
    DeviationOfSample,
    Greatest,
    Least,
    RunningTotal,
)

__all__ = ["SLIDING", "CovarianceOfAll", "CovarianceOfSample", "Integral", "LeastAndGreatest"]


class CovarianceOfAll:
    """The covariance of a whole population. Other values than pairs of numbers do not count; null without a pair.

    A pair with an infinity or a NaN does not count either, but beside at least two other pairs, the result is the sum of such
    numbers. For a single pair it is the double 0, also for Decimal128. MongoDB does the same.
    """

    __slots__ = ("_both", "_count", "_endless", "_left", "_right")
    _least = 1

    def __init__(self, _text: TextKey | None = None) -> None:
        self._count = 0
        self._left: Any = 0
        self._right: Any = 0
        self._both: Any = 0.0
        self._endless: Any = None

    def add(self, pair: Any) -> None:
        if not isinstance(pair, list) or len(pair) != 2 or not all(map(is_number, pair)):
            return
        left, right = pair
        if not (_is_finite(left) and _is_finite(right)):
            for number in (left, right):
                if not _is_finite(number):
                    self._endless = number if self._endless is None else add_numbers(self._endless, number)
            return
        # Welford's algorithm, with one mean before the pair and the other after it. The means are means of sums.
        mean = divide_numbers(self._left, self._count) if self._count else left
        self._count += 1
        self._left, self._right = add_numbers(self._left, left), add_numbers(self._right, right)
        rest = subtract_numbers(right, divide_numbers(self._right, self._count))
        self._both = add_numbers(self._both, multiply_numbers(subtract_numbers(left, mean), rest))

    def result(self) -> Any:
        if self._count < self._least:
            return None
        if self._count == 1:
            return 0.0
        if self._endless is not None:
            return self._endless
        return divide_numbers(self._both, self._count - self._least + 1)


class CovarianceOfSample(CovarianceOfAll):
    """The covariance of a sample; null for fewer than two pairs."""

    __slots__ = ()
    _least = 2


def _is_finite(number: Any) -> bool:
    return decimal_of(number).is_finite() if hasattr(number, "to_decimal") else math.isfinite(number)


class Integral:
    """The area under a line through points, by trapezoids. Null without a point, 0 for a single point.

    `unit_ms` divides the left values, which are milliseconds.
    """

    __slots__ = ("_area", "_last", "_unit_ms")

    def __init__(self, unit_ms: int = 1) -> None:
        self._unit_ms = unit_ms
        self._last: tuple[Any, Any] | None = None
        self._area: Any = 0.0

    def add(self, point: Any) -> None:
        if self._last is not None:
            before, height = self._last
            width = subtract_numbers(point[0], before)
            self._area = add_numbers(
                self._area, divide_numbers(multiply_numbers(add_numbers(height, point[1]), width), 2)
            )
        self._last = point

    def result(self) -> Any:
        return None if self._last is None else divide_numbers(self._area, self._unit_ms)


class LeastAndGreatest:
    """The least and the greatest of numbers; None without a number."""

    __slots__ = ("_greatest", "_least")

    def __init__(self) -> None:
        self._least, self._greatest = Least(), Greatest()

    def add(self, value: Any) -> None:
        self._least.add(value)
        self._greatest.add(value)

    def result(self) -> Any:
        least = self._least.result()
        return None if least is None else (least, self._greatest.result())


class _Sliding:
    """A deviation of a sliding window: null if a number is not finite; the int32 0 for a single number."""

    __slots__ = ("_count", "_deviation", "_is_endless")

    def __init__(self, deviation: RunningTotal) -> None:
        self._deviation = deviation
        self._count = 0
        self._is_endless = False

    def add(self, value: Any) -> None:
        if is_number(value):
            self._count += 1
            self._is_endless = self._is_endless or not math.isfinite(as_float(value))
            self._deviation.add(value)

    def result(self) -> Any:
        if self._is_endless:
            return None
        deviation = self._deviation.result()
        return 0 if self._count == 1 and deviation is not None else deviation


SLIDING: Final[Mapping[str, Callable[[TextKey | None], RunningTotal]]] = {
    "$stdDevPop": lambda text: _Sliding(DeviationOfAll(text)),
    "$stdDevSamp": lambda text: _Sliding(DeviationOfSample(text)),
}
"""Other totals for windows that do not begin with the partition, by the names of their operators."""
