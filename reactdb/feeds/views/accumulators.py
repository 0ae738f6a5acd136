"""Accumulators: count, sum, avg, min and max of values that come and go.

Each takes values in, takes them out again, and says its result as `reading.aggregate` would work it out from scratch: that is
law 1 for aggregates, and why sums are exact.

Rule of this file: `remove` undoes an `add` of the same value; order does not matter.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import Any, Protocol

from reactdb.errors import MissingValue, QueryError
from reactdb.feeds.pipeline import Boxed, turned, value_function
from reactdb.query import Aggregate
from reactdb.values import codec, collation
from reactdb.values.totals import Total


class Accumulator(Protocol):
    def add(self, box: Boxed) -> None:
        """Take in a value.

        Raises:
            QueryError: It has no place in this aggregate, such as a string in a sum. Nothing was taken in.
        """

    def remove(self, box: Boxed) -> None:
        """Take out a value that was taken in, or tried to be."""

    @property
    def result(self) -> Any: ...

    @property
    def documents_held(self) -> int: ...


class Count:
    """How many."""

    __slots__ = ("result",)

    documents_held = 0

    def __init__(self) -> None:
        self.result = 0

    def add(self, box: Boxed) -> None:
        self.result += 1

    def remove(self, box: Boxed) -> None:
        self.result -= 1


class Sum:
    """The sum of a field, or its mean. Values that miss the field take no part."""

    __slots__ = ("_function", "_is_mean", "_total")

    documents_held = 0

    def __init__(self, function: Callable[[Any], Any], *, is_mean: bool) -> None:
        self._function = function
        self._is_mean = is_mean
        self._total = Total()

    def add(self, box: Boxed) -> None:
        try:
            value = self._function(box.value)
        except MissingValue:
            return
        if value is None:
            return
        if collation.type_name(value) != "NUMBER":
            raise QueryError(f"Expected type NUMBER but found {collation.type_name(value)}.")
        self._total.add(value)

    def remove(self, box: Boxed) -> None:
        try:
            value = self._function(box.value)
        except Exception:
            # It took no part when it came.
            return
        if collation.type_name(value) == "NUMBER":
            self._total.remove(value)

    @property
    def result(self) -> Any:
        return self._total.mean if self._is_mean else self._total.sum


class Extreme:
    """The value with the least, or the greatest, field; of equal ones the first in the query's order.

    It holds all of them, encoded: when the best leaves, the next must be there.
    """

    __slots__ = ("_function", "_is_max", "_places", "_values")

    def __init__(self, function: Callable[[Any], Any], *, is_max: bool) -> None:
        self._function = function
        self._is_max = is_max
        self._places: list[bytes] = []
        self._values: dict[bytes, bytes] = {}

    def _place(self, box: Boxed) -> bytes:
        place = collation.key_bytes(self._function(box.value))
        return (turned(place) if self._is_max else place) + box.place

    def add(self, box: Boxed) -> None:
        try:
            place = self._place(box)
        except MissingValue:
            return
        if place not in self._values:
            insort(self._places, place)
        self._values[place] = codec.encode_value(box.value)

    def remove(self, box: Boxed) -> None:
        try:
            place = self._place(box)
        except Exception:
            return
        if self._values.pop(place, None) is not None:
            del self._places[bisect_left(self._places, place)]

    @property
    def result(self) -> Any:
        return codec.freeze(codec.decode_value(self._values[self._places[0]])) if self._places else None

    @property
    def documents_held(self) -> int:
        return len(self._places)


def accumulator_of(step: Aggregate) -> Callable[[], Accumulator]:
    """What makes an empty accumulator for this step."""
    if step.kind == "count":
        return Count
    function = _itself if step.expression is None else value_function(step.expression)
    if step.kind in ("sum", "avg"):
        return lambda: Sum(function, is_mean=step.kind == "avg")
    return lambda: Extreme(function, is_max=step.kind == "max")


def _itself(value: Any) -> Any:
    return value
