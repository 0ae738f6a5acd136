"""KeyRange: values between two bounds, and whether an index has all of them.

An index leaves documents out: where the value is missing, null, an object, NaN or an infinity, or an array with
one of those. Comparisons do not: `row["a"] > 5` holds for objects, which are above all numbers. So an index may
stand for a range only if nothing that it leaves out could be inside: when both ends are finite numbers, say, or
when the lower end is a binary or above, after which nothing is left out any more:

    MINVAL  ARRAY  BOOL  NULL  NUMBER  OBJECT  BINARY .. STRING  MAXVAL
            some         all   some    all     none is left out

Rule of this file: bounds are values, compared by their key bytes; `minval` and `maxval` say that there is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

from reactdb.collation import index_key_bytes, key_bytes, maxval, minval, type_name


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Values from `lower` to `upper`, which may be `minval` and `maxval`."""

    lower: Any
    upper: Any
    lower_closed: bool = True
    upper_closed: bool = True

    @property
    def start(self) -> bytes:
        """The first key bytes that are in it."""
        return key_bytes(self.lower) + (b"" if self.lower_closed else b"\x00")

    @property
    def stop(self) -> bytes:
        """The first key bytes that are above it."""
        return key_bytes(self.upper) + (b"\x00" if self.upper_closed else b"")

    @property
    def is_point(self) -> bool:
        """Whether only one value is in it."""
        return self.lower_closed and self.upper_closed and key_bytes(self.lower) == key_bytes(self.upper)

    @property
    def is_empty(self) -> bool:
        low, high = key_bytes(self.lower), key_bytes(self.upper)
        return low > high or (low == high and not (self.lower_closed and self.upper_closed))

    def intersection(self, other: KeyRange) -> KeyRange:
        """The values that are in both."""
        lower, lower_closed = _later_start(self, other)
        upper, upper_closed = _earlier_end(self, other)
        return KeyRange(lower, upper, lower_closed, upper_closed)

    @property
    def is_indexed(self) -> bool:
        """Whether an index has all values in it: nothing of what indexes leave out is inside."""
        if self.is_empty:
            return True
        if self.is_point:
            return (
                self.lower is not minval
                and self.lower is not maxval
                and index_key_bytes(self.lower) is not None
            )
        if self.lower is minval or self.lower is maxval:
            return False
        low = type_name(self.lower)
        if low == "STRING" or low.startswith("PTYPE<"):
            return True
        high = "MAXVAL" if self.upper is maxval else type_name(self.upper)
        if low == high == "NUMBER":
            return _is_inside(self.lower, self.lower_closed, -1) and _is_inside(
                self.upper, self.upper_closed, 1
            )
        return low == high == "BOOL"


def _later_start(one: KeyRange, other: KeyRange) -> tuple[Any, bool]:
    first, second = key_bytes(one.lower), key_bytes(other.lower)
    if first == second:
        return one.lower, one.lower_closed and other.lower_closed
    return (one.lower, one.lower_closed) if first > second else (other.lower, other.lower_closed)


def _earlier_end(one: KeyRange, other: KeyRange) -> tuple[Any, bool]:
    first, second = key_bytes(one.upper), key_bytes(other.upper)
    if first == second:
        return one.upper, one.upper_closed and other.upper_closed
    return (one.upper, one.upper_closed) if first < second else (other.upper, other.upper_closed)


def _is_inside(end: Any, is_closed: bool, sign: int) -> bool:
    """Whether a range of numbers that ends here has no infinity, nor NaN, at this end."""
    if not isinstance(end, float) or isfinite(end):
        return True
    return not is_closed and end == sign * float("inf")
