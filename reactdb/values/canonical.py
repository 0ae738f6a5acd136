"""Canonical forms: the choice among several values that are equal in the order, where only one can be shown.

    distinct of 1.0, 1 and 1.0    [1]
    distinct of 0.0 and -0.0      [0.0]

The value with the shortest encoding is shown, and of several the one whose bytes come first. So the result does not
depend on their sequence, and an incrementally kept result equals a result computed from scratch.

Rule of this file: it never decides whether values are equal. The caller has used `collation` for that.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any
from uuid import UUID

from reactdb.values import codec

# Two equal values of one of these types are stored alike.
_ONE_SPELLING = frozenset({int, str, bool, type(None), bytes, date, timedelta, UUID})


def spelling(value: Any) -> tuple[int, bytes]:
    """Equal for values that are stored alike; the least is shown."""
    data = codec.encode_value(codec.with_sorted_keys(value))
    return len(data), data


def is_alike(one: Any, other: Any) -> bool:
    """Whether two values that the order calls equal are spelled alike."""
    if one is other or (type(one) is type(other) and type(one) in _ONE_SPELLING):
        return True
    return spelling(one) == spelling(other)


def plainest(one: Any, other: Any) -> Any:
    """Choose the shown value of two that are equal in the order."""
    if one is other or (type(one) is type(other) and type(one) in _ONE_SPELLING):
        return one
    return other if spelling(other) < spelling(one) else one


class Spellings:
    """Equal values that come and go.

    Attributes:
        value: The shown value.
        count: How many there are.
    """

    __slots__ = ("_counts", "count", "value")

    def __init__(self) -> None:
        self.value: Any = None
        self.count = 0
        # How often each spelling is there, where there are several.
        self._counts: dict[tuple[int, bytes], tuple[Any, int]] | None = None

    def add(self, value: Any, count: int = 1) -> None:
        if not self.count:
            self.value = value
        self._change(value, count)

    def remove(self, value: Any) -> None:
        """Take out a value that was added."""
        self._change(value, -1)

    def _change(self, value: Any, step: int) -> None:
        before = self.count
        self.count += step
        counts = self._counts
        if counts is None:
            if is_alike(self.value, value):
                return
            counts = self._counts = {spelling(self.value): (self.value, before)}
        name = spelling(value)
        known = counts[name][1] if name in counts else 0
        if known + step:
            counts[name] = (value, known + step)
        else:
            del counts[name]
        self.value = counts[min(counts)][0]
        if len(counts) == 1:
            self._counts = None
