"""KeyRange: values between two bounds.

What a comparison with a constant says of a value. It is about all types, as comparisons are: above 5 are the greater
numbers, and objects and strings.

Rule of this file: bounds are values, compared by their key bytes; `minval` and `maxval` say that there is none.
"""

from __future__ import annotations

from typing import Any

from reactdb.values.collation import key_bytes, maxval, minval
from reactdb.values.value import Value


class KeyRange(Value):
    """Values from `lower` to `upper`, which may be `minval` and `maxval`."""

    __slots__ = ("lower", "lower_closed", "upper", "upper_closed")

    def __init__(self, lower: Any, upper: Any, lower_closed: bool = True, upper_closed: bool = True) -> None:
        self.lower = lower
        self.upper = upper
        self.lower_closed = lower_closed
        self.upper_closed = upper_closed

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
    def has_ends(self) -> bool:
        """Whether it is bounded on both sides; of arrays, whether their first elements are."""
        return _first(self.lower) is not minval and _first(self.upper) is not maxval


def _first(end: Any) -> Any:
    return end[0] if isinstance(end, list) and end else end


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
