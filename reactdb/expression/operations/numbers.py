"""Operations: arithmetic.

ReQL has one type of number, the double. Here a number is an int, a float or a Decimal, and arithmetic keeps the exact
type where it can: ints are exact, and a quotient of ints without a remainder is an int, because 4 / 2 is 2; a float
among ints makes a float, and a float with a Decimal makes a float, as in SQL. Decimals are computed to 34 digits.
Results that are not finite are errors, as in ReQL.

Source: RethinkDB 2.4, terms/arith.cc.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from math import ceil, floor, trunc
from typing import Any, Final

from reactdb.errors import QueryError, ResourceLimit
from reactdb.expression.checks import (
    array,
    check_array_size,
    check_number,
    check_string,
    fail_type,
    integer,
    is_number,
    number,
    string,
)
from reactdb.expression.operations.times import move_time
from reactdb.expression.registry import operation
from reactdb.values.codec import MAX_INT_BITS

_DECIMAL: Final = Context(prec=34, rounding=ROUND_HALF_EVEN, Emin=-6143, Emax=6144, traps=[])
_MAX_BIT_INTEGER: Final = 2**53


def _match_types(left: Any, right: Any) -> tuple[Any, Any]:
    """Both numbers in a type that Python's arithmetic accepts together."""
    if isinstance(left, Decimal) and isinstance(right, float):
        return float(left), right
    if isinstance(left, float) and isinstance(right, Decimal):
        return left, float(right)
    return left, right


def _has_decimal(left: Any, right: Any) -> bool:
    return isinstance(left, Decimal) or isinstance(right, Decimal)


def _plus(left: Any, right: Any) -> Any:
    left, right = _match_types(left, right)
    return _DECIMAL.add(left, right) if _has_decimal(left, right) else left + right


def _minus(left: Any, right: Any) -> Any:
    left, right = _match_types(left, right)
    return _DECIMAL.subtract(left, right) if _has_decimal(left, right) else left - right


def _times(left: Any, right: Any) -> Any:
    left, right = _match_types(left, right)
    are_ints = isinstance(left, int) and isinstance(right, int)
    # Checked before and not after: the product of products grows faster than anything.
    if are_ints and left.bit_length() + right.bit_length() > MAX_INT_BITS + 1:
        raise ResourceLimit(f"Number over size limit of {MAX_INT_BITS} bits.")
    return _DECIMAL.multiply(left, right) if _has_decimal(left, right) else left * right


def _quotient(left: Any, right: Any) -> Any:
    left, right = _match_types(left, right)
    if isinstance(left, int) and isinstance(right, int) and left % right == 0:
        return left // right
    return _DECIMAL.divide(left, right) if _has_decimal(left, right) else left / right


def compute_number(function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """The result of a calculation with two numbers, or an error for an impossible number."""
    try:
        return check_number(function(left, right))
    except OverflowError:
        # Only an int too large for the float beside it, or for the quotient.
        raise QueryError("Non-finite number: inf") from None


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, (datetime, timedelta)) or isinstance(right, (datetime, timedelta)):
        return (
            _shift_time(right, left, operator.add)
            if isinstance(right, datetime)
            else _shift_time(left, right, operator.add)
        )
    if is_number(left):
        return compute_number(_plus, left, number(right))
    if isinstance(left, str):
        return check_string(left + string(right))
    if isinstance(left, list):
        check_array_size(len(left) + len(array(right)))
        return [*left, *right]
    return fail_type("NUMBER", left)


def _subtract(left: Any, right: Any) -> Any:
    if isinstance(left, datetime) and isinstance(right, datetime):
        return (left - right).total_seconds()
    if isinstance(left, (datetime, timedelta)):
        return _shift_time(left, right, operator.sub)
    return compute_number(_minus, number(left), number(right))


def _shift_time(time: Any, duration: Any, function: Callable[[Any, timedelta], Any]) -> Any:
    """The time or the duration, later or earlier by seconds or by a duration."""
    if not isinstance(duration, timedelta):
        number(duration)
    elif not isinstance(time, (datetime, timedelta)):
        fail_type("PTYPE<TIME>", time)

    def move(time: Any) -> Any:
        return function(
            time, duration if isinstance(duration, timedelta) else timedelta(seconds=float(duration))
        )

    if isinstance(time, datetime):
        return move_time(time, move)
    try:
        return move(time)
    except OverflowError:
        raise QueryError("Error in time logic: Duration is out of valid range.") from None


def _multiply(left: Any, right: Any) -> Any:
    if isinstance(left, list) or isinstance(right, list):
        values, times = (left, right) if isinstance(left, list) else (right, left)
        copies = integer(times)
        if copies < 0:
            raise QueryError("Cannot multiply an ARRAY by a negative number.")
        check_array_size(len(values) * copies)
        return list(values) * copies if values else []
    return compute_number(_times, number(left), number(right))


def _divide(left: Any, right: Any) -> Any:
    number(left)
    if number(right) == 0:
        raise QueryError("Cannot divide by zero.")
    return compute_number(_quotient, left, right)


def _left_to_right(calculate: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def function(first: Any, *rest: Any) -> Any:
        for value in rest:
            first = calculate(first, value)
        return first

    return function


add = operation("add", 1, None)(_left_to_right(_add))
sub = operation("sub", 1, None)(_left_to_right(_subtract))
mul = operation("mul", 1, None)(_left_to_right(_multiply))
div = operation("div", 1, None)(_left_to_right(_divide))


@operation("mod", 2)
def mod(left: Any, right: Any) -> int:
    """The rest of a division that rounds towards zero, as in C: it has the sign of the left number."""
    dividend, divisor = integer(left), integer(right)
    if divisor == 0:
        raise QueryError("Cannot take a number modulo 0.")
    rest = abs(dividend) % abs(divisor)
    return -rest if dividend < 0 else rest


def _round(value: Any, decimal_rounding: str, otherwise: Callable[[Any], int]) -> int:
    if isinstance(number(value), int):
        return int(value)
    check_number(value)
    if isinstance(value, Decimal):
        # A Decimal may have an exponent that no int of bearable size can follow.
        check_number(float(value))
        return int(value.to_integral_value(decimal_rounding))
    return otherwise(value)


@operation("abs", 1)
def abs_(value: Any) -> Any:
    """The number without its sign, exact: `abs` of a Decimal would round it to 28 digits."""
    return value.copy_abs() if isinstance(number(value), Decimal) else abs(value)


@operation("floor", 1)
def floor_(value: Any) -> int:
    return _round(value, ROUND_FLOOR, floor)


@operation("ceil", 1)
def ceil_(value: Any) -> int:
    return _round(value, ROUND_CEILING, ceil)


@operation("round", 1)
def round_(value: Any) -> int:
    """Halves go away from zero, as in C."""
    return _round(value, ROUND_HALF_UP, _round_half_away)


def _round_half_away(value: float) -> int:
    whole = trunc(value)
    return whole + (1 if value > 0 else -1) if abs(value - whole) >= 0.5 else whole


def _bit_integer(value: Any) -> int:
    number = integer(value)
    if not -_MAX_BIT_INTEGER <= number < _MAX_BIT_INTEGER:
        raise QueryError(f"Integer too large: {number}")
    return number


def _bitwise(function: Callable[[int, int], int], values: tuple[Any, ...]) -> int:
    result = _bit_integer(values[0])
    for value in values[1:]:
        result = function(result, _bit_integer(value))
    return result


@operation("bit_and", 1, None)
def bit_and(*values: Any) -> int:
    return _bitwise(lambda left, right: left & right, values)


@operation("bit_or", 1, None)
def bit_or(*values: Any) -> int:
    return _bitwise(lambda left, right: left | right, values)


@operation("bit_xor", 1, None)
def bit_xor(*values: Any) -> int:
    return _bitwise(lambda left, right: left ^ right, values)


@operation("bit_not", 1)
def bit_not(value: Any) -> int:
    return ~_bit_integer(value)


@operation("bit_sal", 2)
def bit_sal(left: Any, right: Any) -> int:
    value, shift = _bit_integer(left), _shift(right)
    if value and value.bit_length() + shift > 1_024:
        # ReQL computes this as a double, and so far no double goes.
        raise QueryError("Non-finite number: inf")
    return value << shift if value else 0


@operation("bit_sar", 2)
def bit_sar(left: Any, right: Any) -> int:
    value, shift = _bit_integer(left), _shift(right)
    return value >> min(shift, 64)


def _shift(value: Any) -> int:
    shift = integer(value)
    if shift < 0:
        raise QueryError("Cannot bit-shift by a negative value")
    return shift
