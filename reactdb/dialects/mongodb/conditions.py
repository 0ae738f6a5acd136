"""Conditions: the test of one query operator on one value.

    test = comparison("$gt", 5)        test(6) is True, test("6") is False

A value may be MISSING. `filters` decides whether an operator is also tested on the elements of an array.

Rule of this file: it sees one value at a time, and no path.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final

from bson.binary import Binary
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.regex import Regex

from reactdb.dialects.mongodb.bson_order import (
    MISSING,
    TYPE_CODES,
    TextKey,
    is_nan,
    number_of,
    sort_key,
    type_code,
)
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.numeric import NUMBERS, decimal_of, whole

__all__ = [
    "Test",
    "among",
    "bits",
    "comparison",
    "equals",
    "has_remainder",
    "has_type",
    "matches_pattern",
]

Test = Callable[[Any], bool]


# -----------------------------------------------------------------------------------------------------------
# Comparing

_PLAIN_NUMBERS: Final[frozenset[type]] = frozenset({int, Int64, float})


def equals(operand: Any, text: TextKey | None = None) -> Test:
    """Whether a value has the operand's place in the order. A missing field equals null."""
    kind = type(operand)
    if operand is None:
        return lambda value: value is None or value is MISSING
    if kind is str and text is None:
        return lambda value: type(value) is str and value == operand
    if kind is bool:
        return lambda value: value is operand
    if kind is ObjectId:
        return lambda value: type(value) is ObjectId and value == operand
    if kind in NUMBERS and not is_nan(operand):
        number = number_of(operand)

        def is_number(value: Any) -> bool:
            value_type = type(value)
            if value_type in _PLAIN_NUMBERS:
                return bool(value == number)
            return value_type is Decimal128 and bool(decimal_of(value) == number)

        return is_number
    key = sort_key(operand, text)
    return lambda value: sort_key(value, text) == key


_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def comparison(name: str, operand: Any, text: TextKey | None = None) -> Test:
    """Whether a value of the operand's type is above (`$gt`, `$gte`) or below (`$lt`, `$lte`) it.

    MinKey and MaxKey are compared with all types, and with a missing field as with null. Null is only equal to null, NaN only to
    NaN.
    """
    kind = type(operand)
    holds = _COMPARE[name]
    or_equal = name in ("$gte", "$lte")
    if operand is None:
        return equals(None) if or_equal else _never
    if kind in NUMBERS:
        if is_nan(operand):
            return (lambda value: type(value) in NUMBERS and is_nan(value)) if or_equal else _never
        number: Any = number_of(operand)

        def compare_number(value: Any) -> bool:
            value_type = type(value)
            if value_type in _PLAIN_NUMBERS:
                # A Decimal would refuse to be compared with NaN.
                return value == value and holds(value, number)
            if value_type is not Decimal128:
                return False
            decimal = decimal_of(value)
            return not decimal.is_nan() and holds(decimal, number)

        return compare_number
    if (kind is str and text is None) or (kind is datetime and operand.tzinfo is None):
        # Dates outside Python's range have another type, and are compared by their keys below.
        is_date = kind is datetime
        key = sort_key(operand)
        return lambda value: (
            holds(value, operand)
            if type(value) is kind
            else is_date and (found := sort_key(value))[0] == key[0] and holds(found, key)
        )
    key = sort_key(operand, text)
    if kind is MinKey or kind is MaxKey:
        return lambda value: holds(sort_key(None if value is MISSING else value, text), key)

    def compare(value: Any) -> bool:
        value_key = sort_key(value, text)
        return value_key[0] == key[0] and holds(value_key, key)

    return compare


def _never(value: Any) -> bool:
    return False


def among(operands: Iterable[Any], text: TextKey | None = None) -> Test:
    """Whether a value equals an operand, or matches a regular expression among the operands."""
    operands = list(operands)
    patterns = [matches_pattern(one) for one in operands if type(one) is Regex]
    keys = {sort_key(one, text) for one in operands}
    if any(one is None for one in operands):
        keys.add(sort_key(MISSING))
    if text is None and not patterns and set(map(type, operands)) <= {str}:
        texts = frozenset(operands)
        return lambda value: type(value) is str and value in texts

    def is_among(value: Any) -> bool:
        return sort_key(value, text) in keys or any(test(value) for test in patterns)

    return is_among


# -----------------------------------------------------------------------------------------------------------
# Texts


def matches_pattern(pattern: Any, options: str | None = None) -> Test:
    """Whether a text has a match, or a value is the same regular expression.

    Args:
        pattern: A Regex or a text.
        options: Letters of `imsxu`, instead of the Regex's own.

    Raises:
        MongoError: 2, it is no pattern; 51091, it has a syntax error; 51108, an option is unknown.
    """
    # Imported here because most queries have no regular expression.
    from reactdb.dialects.mongodb.patterns import UnreadablePattern, compile_pattern, option_letters

    letters = options or ""
    if isinstance(pattern, Regex):
        letters = option_letters(pattern.flags) or letters
        source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode()
    elif type(pattern) is str:
        source = pattern
    else:
        raise MongoError(2, "$regex has to be a string")
    if "\0" in source:
        raise MongoError(2, "Regular expression cannot contain an embedded null byte")
    for letter in letters:
        if letter not in "imsxu":
            raise MongoError(51108, f"invalid flag in regex options: {letter}")
    try:
        search = compile_pattern(source, letters).search
    except UnreadablePattern as error:
        raise MongoError(51091, f"Regular expression is invalid: {error}") from None
    ordered = "".join(sorted(letters))

    def matches(value: Any) -> bool:
        if type(value) is str:
            return search(value) is not None
        if type(value) is Regex:
            return value.pattern == source and "".join(sorted(option_letters(value.flags))) == ordered
        return False

    return matches


# -----------------------------------------------------------------------------------------------------------
# Types

_CODES: Final = frozenset(TYPE_CODES.values())
_NUMBER_CODES: Final = frozenset({1, 16, 18, 19})


def has_type(operand: Any) -> Test:
    """Whether a value has one of the types: numbers, names, or `number`, also several in an array.

    Raises:
        MongoError: 2, the type is unknown; 9, the array is empty.
    """
    wanted: set[int] = set()
    operands = operand if type(operand) is list else [operand]
    if not operands:
        raise MongoError(9, "$type must match at least one type")
    for one in operands:
        wanted |= _codes(one)
    return lambda value: value is not MISSING and type_code(value) in wanted


def _codes(one: Any) -> frozenset[int]:
    if type(one) is str:
        if one == "number":
            return _NUMBER_CODES
        if one in TYPE_CODES:
            return frozenset((TYPE_CODES[one],))
        raise MongoError(2, f"Unknown type name alias: {one}")
    code = whole(one)
    if code is None or code not in _CODES:
        if type(one) not in NUMBERS:
            raise MongoError(14, "type must be represented as a number or a string")
        raise MongoError(2, f"Invalid numerical type code: {one}")
    return frozenset((code,))


# -----------------------------------------------------------------------------------------------------------
# Numbers


def _truncated(value: Any) -> int | None:
    """A number without its fraction; None if it has more than 64 bits, or is no number."""
    if type(value) not in NUMBERS or is_nan(value):
        return None
    number: Any = number_of(value)
    return int(number) if -(2**63) <= number < 2**63 else None


def has_remainder(operand: Any) -> Test:
    """Whether a number, without its fraction, has the remainder: `[divisor, remainder]`.

    Raises:
        MongoError: 2 if these are not two numbers, or the divisor is zero.
    """
    if type(operand) is not list:
        raise MongoError(2, "malformed mod, needs to be an array")
    if len(operand) != 2:
        words = "not enough" if len(operand) < 2 else "too many"
        raise MongoError(2, f"malformed mod, {words} elements")
    if type(operand[0]) not in NUMBERS:
        raise MongoError(2, "malformed mod, divisor not a number")
    if type(operand[1]) not in NUMBERS:
        raise MongoError(2, "malformed mod, remainder not a number")
    divisor, remainder = _truncated(operand[0]), _truncated(operand[1])
    if divisor is None or remainder is None:
        raise MongoError(2, "malformed mod, divisor and remainder must be representable as 64-bit integers")
    if divisor == 0:
        raise MongoError(2, "divisor cannot be 0")

    def has(value: Any) -> bool:
        number = _truncated(value)
        if number is None:
            return False
        rest = abs(number) % abs(divisor)
        return (-rest if number < 0 else rest) == remainder

    return has


_BIT_TESTS: Final[dict[str, Callable[[int, int], bool]]] = {
    "$bitsAllSet": lambda found, mask: found & mask == mask,
    "$bitsAllClear": lambda found, mask: found & mask == 0,
    "$bitsAnySet": lambda found, mask: found & mask != 0,
    "$bitsAnyClear": lambda found, mask: found & mask != mask,
}


def bits(name: str, operand: Any) -> Test:
    """Whether bits of an integer or of binary data are set: a mask as a number or binary data, or positions from 0 in an array.

    Raises:
        MongoError: 2 or 9, the mask is invalid.
    """
    mask = _mask(name, operand)
    holds = _BIT_TESTS[name]

    def test(value: Any) -> bool:
        if type(value) in (bytes, Binary):
            return holds(_bits_of(value), mask)
        number = whole(value)
        return number is not None and -(2**63) <= number < 2**63 and holds(number, mask)

    return test


def _bits_of(data: bytes) -> int:
    """Binary data as a number: the lowest bit is in the first byte, and bits beyond the last byte are clear."""
    # BSON writes the length once more before the bytes of the old subtype 2, and that counts.
    length = len(data).to_bytes(4, "little") if isinstance(data, Binary) and data.subtype == 2 else b""
    return int.from_bytes(length + data, "little")


def _mask(name: str, operand: Any) -> int:
    if type(operand) in (bytes, Binary):
        return _bits_of(operand)
    if type(operand) is list:
        mask = 0
        for position in operand:
            number = whole(position)
            if number is None:
                raise MongoError(2, f"Failed to parse bit position. Expected an integer: {position!r:.60}")
            if not 0 <= number < 2**31:
                raise MongoError(2, f"bit positions must be >= 0 and below 2^31 but got {number}")
            mask |= 1 << number
        return mask
    if type(operand) not in NUMBERS:
        raise MongoError(2, f"{name} takes an Array, a number, or a BinData but received: {operand!r:.60}")
    number = whole(operand)
    if number is None or number >= 2**63:
        raise MongoError(9, f"Expected an integer: {name}: {operand!r:.60}")
    if number < 0:
        raise MongoError(9, f"Expected a non-negative number in: {name}: {number}")
    return number
