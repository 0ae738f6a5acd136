"""Exact sums of numbers: a number that was added can be removed again, and the order does not matter.

    0.1 + 0.2 + 0.3 - 0.1      as floats: 0.5000000000000001, or 0.5, by the order
    the same here              0.5

An incrementally kept sum must equal a sum computed from scratch, digit by digit. So numbers are added as fractions
and rounded once, when the sum is read.

    ints only                  an int
    a float among them         a float: the nearest to the true sum
    Decimals, but no float     a Decimal: the true sum

Rule of this file: it adds numbers. The caller decides which values take part.
"""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction
from math import inf, isinf, isnan, nan
from typing import Any

# Digits of a mean of Decimals; a sum is exact.
_MEAN = Context(prec=50)


class Total:
    """A sum and a count. Thread safety: none."""

    __slots__ = ("_decimals", "_exact", "_floats", "_infinities", "_nans", "count")

    def __init__(self) -> None:
        self.count = 0
        # An int as long as only ints take part, which is much quicker.
        self._exact: int | Fraction = 0
        self._floats = 0
        self._decimals = 0
        self._infinities = [0, 0]
        self._nans = 0

    def add(self, number: int | float | Decimal) -> None:
        self._change(number, 1)

    def remove(self, number: int | float | Decimal) -> None:
        """Take away a number that was added before."""
        self._change(number, -1)

    def _change(self, number: int | float | Decimal, sign: int) -> None:
        self.count += sign
        if isinstance(number, int):
            self._exact += sign * number
            return
        if isinstance(number, Decimal):
            self._decimals += sign
        else:
            self._floats += sign
            if isnan(number):
                self._nans += sign
                return
            if isinf(number):
                self._infinities[number > 0] += sign
                return
        self._exact += sign * Fraction(number)
        if not self._floats and not self._decimals:
            self._exact = int(self._exact)

    @property
    def sum(self) -> Any:
        """The sum of all numbers; 0 where there are none."""
        odd = self._sum_special()
        if odd is not None:
            return odd
        if self._floats:
            return _nearest_float(self._exact)
        if self._decimals:
            return _exact_decimal(Fraction(self._exact))
        return int(self._exact)

    @property
    def mean(self) -> Any:
        """The mean of all numbers; None where there are none."""
        if not self.count:
            return None
        odd = self._sum_special()
        if odd is not None:
            return odd
        mean = Fraction(self._exact) / self.count
        if self._decimals and not self._floats:
            return _MEAN.normalize(_MEAN.divide(Decimal(mean.numerator), Decimal(mean.denominator)))
        return _nearest_float(mean)

    def _sum_special(self) -> float | None:
        """The sum where infinities or NaN take part; None where none does."""
        negative, positive = self._infinities
        if self._nans or (negative and positive):
            return nan
        if positive:
            return inf
        return -inf if negative else None


def _nearest_float(value: int | Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def _exact_decimal(value: Fraction) -> Decimal:
    """A fraction whose denominator divides a power of ten, as a Decimal."""
    digits = 0
    denominator = value.denominator
    while denominator % 10 == 0:
        denominator //= 10
        digits += 1
    while denominator != 1:
        factor = 2 if denominator % 2 == 0 else 5
        denominator //= factor
        digits += 1
    scaled = value.numerator * 10**digits // value.denominator
    return Decimal(scaled).scaleb(-digits, Context(prec=max(1, len(str(abs(scaled))))))
