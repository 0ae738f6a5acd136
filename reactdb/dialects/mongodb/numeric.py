"""Arithmetic on BSON's four kinds of numbers: int32, int64, double and Decimal128.

The result has the widest kind of its operands; an int32 that leaves its range becomes an int64, an int64 that leaves its range a
double. A plain `int` beyond 32 bits is an int64, as BSON writes it. A double beside a Decimal128 counts with its first 15 digits.

Rule of this file: operands are numbers. The caller has checked them with `is_number`; only `whole` checks its argument.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from typing import Any, Final

from bson.decimal128 import Decimal128, create_decimal128_context
from bson.int64 import Int64

__all__ = [
    "DECIMAL",
    "INT32_MAX",
    "INT32_MIN",
    "INT64_MAX",
    "INT64_MIN",
    "NUMBERS",
    "add_numbers",
    "as_decimal",
    "as_float",
    "decimal128",
    "decimal_of",
    "divide_numbers",
    "integer",
    "is_number",
    "multiply_numbers",
    "rank",
    "remainder",
    "subtract_numbers",
    "truncate",
    "whole",
]

INT32_MIN: Final = -(2**31)
INT32_MAX: Final = 2**31 - 1
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
DECIMAL: Final = create_decimal128_context()
"""The arithmetic of Decimal128: 34 digits, halves to the even neighbour, and no exceptions."""

NUMBERS: Final[frozenset[type]] = frozenset({int, Int64, float, Decimal128})
"""The number types. (A bool is no number.)"""

_INT32, _INT64, _DOUBLE, _DECIMAL = range(4)


def is_number(value: Any) -> bool:
    """Whether a value is of a number type. A bool is not."""
    return type(value) in NUMBERS


def rank(value: Any) -> int:
    """The kind of a number: 0 int32, 1 int64, 2 double, 3 Decimal128."""
    kind = type(value)
    if kind is int:
        return _INT32 if INT32_MIN <= value <= INT32_MAX else _INT64
    if kind is float:
        return _DOUBLE
    return _INT64 if kind is Int64 else _DECIMAL


def integer(value: int, least_rank: int = _INT32) -> Any:
    """An integer result in the smallest type for it, with at least the rank `least_rank`."""
    if least_rank == _INT32 and INT32_MIN <= value <= INT32_MAX:
        return value
    if INT64_MIN <= value <= INT64_MAX:
        return Int64(value)
    return float(value)


def decimal_of(value: Decimal128) -> Decimal:
    """The number of a Decimal128. A signaling NaN becomes a quiet one, because Python refuses to compare the former."""
    number = value.to_decimal()
    return _QUIET_NAN if number.is_snan() else number


_QUIET_NAN: Final = Decimal("NaN")


def as_decimal(value: Any) -> Decimal:
    """A number as a Decimal; a double by its first 15 digits."""
    if type(value) is Decimal128:
        return decimal_of(value)
    if type(value) is float:
        return Decimal(f"{value:.14e}") if math.isfinite(value) and value else Decimal(value)
    return Decimal(value)


def decimal128(value: Decimal) -> Decimal128:
    """The Decimal128 nearest to a Decimal."""
    with localcontext(DECIMAL) as context:
        return Decimal128(context.create_decimal(value))


def as_float(value: Any) -> float:
    """A number as a double; numbers out of its range are infinite."""
    if type(value) is Decimal128:
        return float(decimal_of(value))
    return float(value)


def whole(value: Any) -> int | None:
    """The equal integer of a value, or None if it has a fraction, or is no number."""
    kind = type(value)
    if kind is float:
        return int(value) if value.is_integer() else None
    if kind is Decimal128:
        decimal = decimal_of(value)
        # No caller needs an integer of more than 400 digits, and Python does not write one of 4,300.
        is_whole = decimal.is_finite() and decimal.adjusted() < 400 and decimal == decimal.to_integral_value()
        return int(decimal) if is_whole else None
    return int(value) if kind in NUMBERS else None


def truncate(value: Any) -> int:
    """A number as an integer: a double without its fraction, a Decimal128 rounded, within 64 bits. NaN is 0."""
    kind = type(value)
    if kind is not float and kind is not Decimal128:
        return int(value)
    number = decimal_of(value) if kind is Decimal128 else value
    if number != number:
        return 0
    if not INT64_MIN < number < INT64_MAX:
        return INT64_MAX if number > 0 else INT64_MIN
    return int(number.to_integral_value()) if kind is Decimal128 else int(number)


def add_numbers(left: Any, right: Any) -> Any:
    """The sum."""
    kind = max(rank(left), rank(right))
    if kind == _DOUBLE:
        return float(left) + float(right)
    if kind == _DECIMAL:
        return decimal128(DECIMAL.add(as_decimal(left), as_decimal(right)))
    return integer(int(left) + int(right), kind)


def subtract_numbers(left: Any, right: Any) -> Any:
    """The difference."""
    kind = max(rank(left), rank(right))
    if kind == _DOUBLE:
        return float(left) - float(right)
    if kind == _DECIMAL:
        return decimal128(DECIMAL.subtract(as_decimal(left), as_decimal(right)))
    return integer(int(left) - int(right), kind)


def multiply_numbers(left: Any, right: Any) -> Any:
    """The product."""
    kind = max(rank(left), rank(right))
    if kind == _DOUBLE:
        return float(left) * float(right)
    if kind == _DECIMAL:
        return decimal128(DECIMAL.multiply(as_decimal(left), as_decimal(right)))
    return integer(int(left) * int(right), kind)


def divide_numbers(left: Any, right: Any) -> Any:
    """The quotient, a double or a Decimal128. The divisor is not zero."""
    if rank(left) == _DECIMAL or rank(right) == _DECIMAL:
        return decimal128(DECIMAL.divide(as_decimal(left), as_decimal(right)))
    return float(left) / float(right)


def remainder(left: Any, right: Any) -> Any:
    """The remainder of a division towards zero: it has the sign of the dividend. The divisor is not zero."""
    kind = max(rank(left), rank(right))
    if kind == _DOUBLE:
        return math.fmod(left, right) if math.isfinite(left) and not math.isnan(right) else math.nan
    if kind == _DECIMAL:
        return decimal128(_decimal_remainder(as_decimal(left), as_decimal(right)))
    result = abs(int(left)) % abs(int(right))
    return integer(-result if left < 0 else result, kind)


def _decimal_remainder(left: Decimal, right: Decimal) -> Decimal:
    if left.is_finite() and right.is_finite():
        # The quotient may have more digits than a Decimal128; a context of 34 digits cannot hold them.
        with localcontext() as context:
            context.prec = 12_400
            return left % right
    return DECIMAL.remainder(left, right)
