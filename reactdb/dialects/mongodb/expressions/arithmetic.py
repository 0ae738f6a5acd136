"""Operators on numbers: sums and products, rounding, powers and logarithms, angles, bits.

A null or missing argument makes the result null. Sums and differences also accept dates.

Rule of this file: `numeric` decides the type of a result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Any, Final

from bson.decimal128 import Decimal128
from bson.int64 import Int64

from reactdb.dialects.mongodb.bson_order import type_name
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions.compile import (
    Evaluate,
    Scope,
    compile_value,
    function,
    is_nullish,
    syntax,
)
from reactdb.dialects.mongodb.numeric import (
    DECIMAL,
    INT64_MAX,
    INT64_MIN,
    add_numbers,
    as_decimal,
    as_float,
    decimal128,
    decimal_of,
    divide_numbers,
    integer,
    is_number,
    multiply_numbers,
    rank,
    remainder,
    subtract_numbers,
    whole,
)
from reactdb.dialects.mongodb.times import from_milliseconds, is_date
from reactdb.dialects.mongodb.values import ms_of_date

__all__: list[str] = []

_DOUBLE, _DECIMAL = 2, 3


def _not_numeric(name: str, value: Any, code: int = 14) -> MongoError:
    return MongoError(code, f"{name} only supports numeric types, not {type_name(value)}")


@function("$add", 0, None)
def add(*values: Any) -> Any:
    """The sum of numbers; with a date among them, the date plus the sum of the others, in milliseconds."""
    total: Any = 0
    date = None
    for value in values:
        if is_number(value):
            total = add_numbers(total, value)
        elif is_nullish(value):
            return None
        elif is_date(value):
            if date is not None:
                raise MongoError(16612, "only one date allowed in an $add expression")
            date = value
        else:
            raise MongoError(14, f"$add only supports numeric or date types, not {type_name(value)}")
    return total if date is None else from_milliseconds(ms_of_date(date) + _milliseconds_of(total))


def _milliseconds_of(amount: Any) -> int:
    """A number as an amount of milliseconds, rounded."""
    if rank(amount) == _DOUBLE:
        if not math.isfinite(amount):
            raise MongoError(15, "a date cannot be moved by an amount that is not finite")
        return int(math.copysign(math.floor(abs(amount) + 0.5), amount))
    if rank(amount) == _DECIMAL:
        decimal = decimal_of(amount)
        if not decimal.is_finite():
            raise MongoError(15, "a date cannot be moved by an amount that is not finite")
        return int(decimal.to_integral_value(ROUND_HALF_EVEN))
    return int(amount)


@function("$subtract", 2)
def subtract(left: Any, right: Any) -> Any:
    """A difference of numbers; of two dates, its milliseconds; of a date and a number, the earlier date."""
    if is_nullish(left) or is_nullish(right):
        return None
    if is_number(left) and is_number(right):
        return subtract_numbers(left, right)
    if is_date(left):
        if is_date(right):
            return integer(ms_of_date(left) - ms_of_date(right), 1)
        if is_number(right):
            return from_milliseconds(ms_of_date(left) - _milliseconds_of(right))
    raise MongoError(14, f"can't $subtract {type_name(right)} from {type_name(left)}")


@function("$multiply", 0, None)
def multiply(*values: Any) -> Any:
    """The product."""
    product: Any = 1
    for value in values:
        if is_number(value):
            product = multiply_numbers(product, value)
        elif is_nullish(value):
            return None
        else:
            raise _not_numeric("$multiply", value)
    return product


@function("$divide", 2)
def divide(left: Any, right: Any) -> Any:
    """The quotient, a double or a Decimal128."""
    if is_number(left) and is_number(right):
        if as_decimal(right) == 0:
            raise MongoError(2, "can't $divide by zero")
        return divide_numbers(left, right)
    if is_nullish(left) or is_nullish(right):
        return None
    raise MongoError(14, f"$divide only supports numeric types, not {type_name(left)} and {type_name(right)}")


@function("$mod", 2)
def modulo(left: Any, right: Any) -> Any:
    """The remainder of a division, with the sign of the dividend."""
    if is_number(left) and is_number(right):
        if as_decimal(right) == 0:
            raise MongoError(
                5733415 if max(rank(left), rank(right)) == _DECIMAL else 16610, "can't $mod by zero"
            )
        return remainder(left, right)
    if is_nullish(left) or is_nullish(right):
        return None
    raise MongoError(16611, f"$mod only supports numeric types, not {type_name(left)} and {type_name(right)}")


# --- Functions of one number ---


def unary(
    name: str,
    of_float: Callable[[float], Any],
    of_decimal: Callable[[Decimal], Any],
    *,
    keeps_integers: bool,
) -> None:
    """Registers a function of one number. An integer is returned unchanged, or counts as a double."""

    @function(name, 1)
    def work(value: Any) -> Any:
        kind = type(value)
        if kind is float:
            return of_float(value)
        if kind is int or kind is Int64:
            return value if keeps_integers else of_float(float(value))
        if kind is Decimal128:
            made = of_decimal(decimal_of(value))
            return decimal128(made) if isinstance(made, Decimal) else made
        if is_nullish(value):
            return None
        raise _not_numeric(name, value, 28765)


def _rounded_float(rounding: Callable[[float], int]) -> Callable[[float], float]:
    # copysign: a negative number that is rounded to zero becomes -0.0.
    return lambda value: math.copysign(float(rounding(value)), value) if math.isfinite(value) else value


def _rounded_decimal(rounding: str) -> Callable[[Decimal], Decimal]:
    return lambda value: (
        value.quantize(Decimal(1), rounding, DECIMAL) if value.is_finite() else Decimal("NaN")
    )


unary("$ceil", _rounded_float(math.ceil), _rounded_decimal(ROUND_CEILING), keeps_integers=True)
unary("$floor", _rounded_float(math.floor), _rounded_decimal(ROUND_FLOOR), keeps_integers=True)


@function("$abs", 1)
def absolute(value: Any) -> Any:
    """The number without its sign."""
    if is_nullish(value):
        return None
    if not is_number(value):
        raise _not_numeric("$abs", value, 28765)
    if type(value) is float:
        return abs(value)
    if type(value) is Decimal128:
        return decimal128(decimal_of(value).copy_abs())
    if value == INT64_MIN:
        raise MongoError(28680, "can't take $abs of long long min")
    return integer(abs(int(value)), rank(value))


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


unary("$exp", _exp, DECIMAL.exp, keeps_integers=False)


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value >= 0 else _exp(value) / (1 + _exp(value))


@syntax("$sigmoid")
def _compile_sigmoid(spec: Any, scope: Scope) -> Evaluate:
    part = compile_value(spec, scope)

    def evaluate(document: Any, variables: dict[str, Any]) -> Any:
        value = part(document, variables)
        if is_nullish(value):
            return None
        if not is_number(value):
            raise _not_numeric("$sigmoid", value)
        if type(value) is Decimal128:
            number = decimal_of(value)
            if number.is_nan():
                return value
            power = DECIMAL.exp(number.copy_negate())
            return decimal128(DECIMAL.divide(Decimal(1), DECIMAL.add(Decimal(1), power)))
        return _sigmoid(float(value))

    return evaluate


def _root(value: float) -> float:
    if value < 0:
        raise MongoError(28714, "$sqrt's argument must be greater than or equal to 0")
    return math.sqrt(value)


def _decimal_root(value: Decimal) -> Decimal:
    # Python does not compare NaN with anything.
    if not value.is_nan() and value < 0:
        raise MongoError(28714, "$sqrt's argument must be greater than or equal to 0")
    return DECIMAL.sqrt(value)


unary("$sqrt", _root, _decimal_root, keeps_integers=False)


def _logarithm(
    name: str, code: int, of_float: Callable[[float], float], of_decimal: Callable[[Decimal], Decimal]
) -> None:
    def floats(value: float) -> float:
        if value <= 0:
            raise MongoError(code, f"{name}'s argument must be a positive number, but is {value}")
        return of_float(value)

    def decimals(value: Decimal) -> Any:
        if value.is_nan():
            # As in MongoDB: NaN becomes a double, whatever its type was.
            return math.nan
        if value <= 0:
            raise MongoError(code, f"{name}'s argument must be a positive number, but is {value}")
        return of_decimal(value)

    unary(name, floats, decimals, keeps_integers=False)


_logarithm("$ln", 28766, math.log, DECIMAL.ln)
_logarithm("$log10", 28761, math.log10, DECIMAL.log10)


@function("$log", 2)
def logarithm(value: Any, base: Any) -> Any:
    """The logarithm of a number to a base."""
    if is_nullish(value) or is_nullish(base):
        return None
    if not is_number(value):
        raise MongoError(28756, f"$log's argument must be numeric, not {type_name(value)}")
    if not is_number(base):
        raise MongoError(28757, f"$log's base must be numeric, not {type_name(base)}")
    decimal, decimal_base = as_decimal(value), as_decimal(base)
    if not decimal.is_nan() and decimal <= 0:
        raise MongoError(28758, f"$log's argument must be a positive number, but is {value}")
    if not decimal_base.is_nan() and (decimal_base <= 0 or decimal_base == 1):
        raise MongoError(28759, f"$log's base must be a positive number not equal to 1, but is {base}")
    if decimal.is_nan() or decimal_base.is_nan():
        return math.nan
    if max(rank(value), rank(base)) == _DECIMAL:
        return decimal128(DECIMAL.divide(DECIMAL.ln(decimal), DECIMAL.ln(decimal_base)))
    return math.log(float(value)) / math.log(float(base))


@function("$pow", 2)
def power(base: Any, exponent: Any) -> Any:
    """A power; of whole numbers with an exponent of at least 0 a whole number, as long as it fits."""
    if is_nullish(base) or is_nullish(exponent):
        return None
    if not is_number(base):
        raise MongoError(28762, f"$pow's base must be numeric, not {type_name(base)}")
    if not is_number(exponent):
        raise MongoError(28763, f"$pow's exponent must be numeric, not {type_name(exponent)}")
    if as_decimal(base) == 0 and not as_decimal(exponent).is_nan() and as_decimal(exponent) < 0:
        raise MongoError(28764, "$pow cannot take a base of 0 and a negative exponent")
    kind = max(rank(base), rank(exponent))
    if kind == _DECIMAL:
        return decimal128(_pad(DECIMAL.power(as_decimal(base), as_decimal(exponent))))
    if kind != _DOUBLE and base in (1, -1):
        return integer(int(base) ** (int(exponent) % 2), kind)
    if kind == _DOUBLE or exponent < 0:
        return _float_power(float(base), float(exponent))
    if abs(int(base)) > 1 and exponent > 64:
        return _float_power(float(base), float(exponent))
    return integer(int(base) ** int(exponent), kind)


def _pad(value: Decimal) -> Decimal:
    """A power has all 34 digits."""
    if not value.is_finite() or not value:
        return value
    return value.quantize(Decimal((0, (1,), max(value.adjusted() - 33, -6_176))), context=DECIMAL)


def _float_power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf
    except ValueError:
        return math.nan


# --- Rounding to places ---


def _rounds(name: str, rounding: str) -> None:
    @function(name, 1, 2)
    def work(value: Any, place: Any = 0) -> Any:
        if is_nullish(value) or is_nullish(place):
            return None
        if not is_number(value):
            raise _not_numeric(name, value, 51081)
        if not is_number(place):
            raise MongoError(16004, f"{name} takes a number of places, not {type_name(place)}")
        if as_decimal(place).is_nan() and type(place) is Decimal128:
            raise MongoError(51082, f"{name} takes a whole number of places, and not NaN")
        if not as_decimal(place).is_finite():
            raise MongoError(31109, f"{name} takes a finite number of places")
        places = whole(place)
        if places is None:
            raise MongoError(51082, f"{name} takes a whole number of places")
        if not -20 <= places <= 100:
            raise MongoError(51083, f"{name} rounds to -20 up to 100 places, not {places}")
        return _round(value, places, rounding)


def _round(value: Any, places: int, rounding: str) -> Any:
    kind = rank(value)
    if kind < _DOUBLE:
        if places >= 0:
            return value
        rounded = int(Decimal(int(value)).scaleb(places).to_integral_value(rounding)) * 10**-places
        if not INT64_MIN <= rounded <= INT64_MAX:
            raise MongoError(51080, "the rounded number does not fit into 64 bits")
        return integer(rounded, kind)
    decimal = decimal_of(value) if kind == _DECIMAL else Decimal(value)
    if not decimal.is_finite():
        return value
    unit = Decimal((0, (1,), -places))
    if kind == _DECIMAL:
        rounded_decimal = decimal.quantize(unit, rounding, DECIMAL)
        # A result with more than 34 digits at these places has no digits behind them.
        return value if rounded_decimal.is_nan() else decimal128(rounded_decimal)
    return float(decimal.quantize(unit, rounding, _WIDE))


_WIDE: Final = DECIMAL.copy()
_WIDE.prec = 1_500
# A double written out in full has up to 1,075 digits.

_rounds("$round", ROUND_HALF_EVEN)
_rounds("$trunc", ROUND_DOWN)


# --- Angles ---


def _angle(
    name: str, of_float: Callable[[float], float], *, least: float = -math.inf, most: float = math.inf
) -> None:
    def work(value: float) -> float:
        # Sine and similar functions have no value for an infinite argument, nor outside of their bounds.
        if math.isnan(value):
            return value
        if not least <= value <= most or (math.isinf(value) and name in {"$sin", "$cos", "$tan"}):
            raise MongoError(50989, f"cannot apply {name} to {value}: it takes {least} up to {most}")
        try:
            return of_float(value)
        except OverflowError:
            return math.copysign(math.inf, value) if name == "$sinh" else math.inf

    unary(name, work, lambda value: Decimal(repr(work(float(value)))), keeps_integers=False)


def _hyperbolic_arctangent(value: float) -> float:
    return math.copysign(math.inf, value) if abs(value) == 1 else math.atanh(value)


for _name, _work, _least, _most in (
    ("$sin", math.sin, -math.inf, math.inf),
    ("$cos", math.cos, -math.inf, math.inf),
    ("$tan", math.tan, -math.inf, math.inf),
    ("$asin", math.asin, -1.0, 1.0),
    ("$acos", math.acos, -1.0, 1.0),
    ("$atan", math.atan, -math.inf, math.inf),
    ("$sinh", math.sinh, -math.inf, math.inf),
    ("$cosh", math.cosh, -math.inf, math.inf),
    ("$tanh", math.tanh, -math.inf, math.inf),
    ("$asinh", math.asinh, -math.inf, math.inf),
    ("$acosh", math.acosh, 1.0, math.inf),
    ("$atanh", _hyperbolic_arctangent, -1.0, 1.0),
):
    _angle(_name, _work, least=_least, most=_most)

_PI: Final = Decimal("3.141592653589793238462643383279502884")
unary(
    "$degreesToRadians",
    math.radians,
    lambda value: DECIMAL.multiply(value, DECIMAL.divide(_PI, Decimal(180))),
    keeps_integers=False,
)
unary(
    "$radiansToDegrees",
    math.degrees,
    lambda value: DECIMAL.multiply(value, DECIMAL.divide(Decimal(180), _PI)),
    keeps_integers=False,
)


@function("$atan2", 2)
def arctangent(y: Any, x: Any) -> Any:
    """The angle of the point (x, y), in radians."""
    if is_nullish(y) or is_nullish(x):
        return None
    for value in (y, x):
        if not is_number(value):
            raise MongoError(51044, f"$atan2 only supports numeric types, not {type_name(value)}")
    angle = math.atan2(as_float(y), as_float(x))
    return decimal128(Decimal(repr(angle))) if max(rank(y), rank(x)) == _DECIMAL else angle


# --- Bits ---


def _bits(name: str, start: int, combine: Callable[[int, int], int]) -> None:
    @function(name, 0, None)
    def work(*values: Any) -> Any:
        result, kind = start, 0
        for value in values:
            if is_nullish(value):
                return None
            if not is_number(value) or rank(value) >= _DOUBLE:
                raise MongoError(14, f"{name} only supports int and long operands, not {type_name(value)}")
            result, kind = combine(result, int(value)), max(kind, rank(value))
        return integer(result, kind)


_bits("$bitAnd", -1, lambda left, right: left & right)
_bits("$bitOr", 0, lambda left, right: left | right)
_bits("$bitXor", 0, lambda left, right: left ^ right)


@function("$bitNot", 1)
def bit_not(value: Any) -> Any:
    """All bits of a whole number turned over."""
    if is_nullish(value):
        return None
    if not is_number(value) or rank(value) >= _DOUBLE:
        raise MongoError(14, f"$bitNot only supports int and long, not {type_name(value)}")
    return integer(~int(value), rank(value))
