"""Accumulators: count, sum, avg, min and max of values that come and go.

Each adds values, removes them again, and returns the result that `reading.aggregate` would compute from scratch. So a
feed of an aggregate delivers the same as the query returns; this is the reason for exact sums.

Rule of this file: `remove` undoes an `add` of the same value; order does not matter.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import Any, Protocol

from reactdb.documents.steps import number_of, sort_key_of
from reactdb.feeds.pipeline import Boxed, invert, value_function
from reactdb.query import Aggregate, Aggregates
from reactdb.values import codec
from reactdb.values.totals import Total


class Accumulator(Protocol):
    def add(self, box: Boxed) -> None:
        """Add a value.

        Raises:
            QueryError: It cannot take part in this aggregate, such as a string in a sum. Nothing was added.
        """

    def remove(self, box: Boxed) -> None:
        """Remove a value for which `add` was called, even if that failed."""

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

    __slots__ = ("_is_mean", "_number", "_total")

    documents_held = 0

    def __init__(self, number: Callable[[Any], Any], *, is_mean: bool) -> None:
        self._number = number
        self._is_mean = is_mean
        self._total = Total()

    def add(self, box: Boxed) -> None:
        number = self._number(box.value)
        if number is not None:
            self._total.add(number)

    def remove(self, box: Boxed) -> None:
        try:
            number = self._number(box.value)
        except Exception:
            # It took no part when it came.
            return
        if number is not None:
            self._total.remove(number)

    @property
    def result(self) -> Any:
        return self._total.mean if self._is_mean else self._total.sum


class Extreme:
    """The value with the least, or the greatest, field; of equal ones the first in the query's order.

    It holds all values, encoded, because when the best one leaves, the next must be known.
    """

    __slots__ = ("_is_max", "_key_of", "_sort_keys", "_values")

    def __init__(self, key_of: Callable[[Any], bytes | None], *, is_max: bool) -> None:
        self._key_of = key_of
        self._is_max = is_max
        self._sort_keys: list[bytes] = []
        self._values: dict[bytes, bytes] = {}

    def _sort_key(self, box: Boxed) -> bytes | None:
        sort_key = self._key_of(box.value)
        return None if sort_key is None else (invert(sort_key) if self._is_max else sort_key) + box.sort_key

    def add(self, box: Boxed) -> None:
        sort_key = self._sort_key(box)
        if sort_key is None:
            return
        if sort_key not in self._values:
            insort(self._sort_keys, sort_key)
        self._values[sort_key] = codec.encode_value(box.value)

    def remove(self, box: Boxed) -> None:
        try:
            sort_key = self._sort_key(box)
        except Exception:
            return
        if sort_key is not None and self._values.pop(sort_key, None) is not None:
            del self._sort_keys[bisect_left(self._sort_keys, sort_key)]

    @property
    def result(self) -> Any:
        return codec.freeze(codec.decode_value(self._values[self._sort_keys[0]])) if self._sort_keys else None

    @property
    def documents_held(self) -> int:
        return len(self._sort_keys)


class Several:
    """Several aggregates: a dict of their results, by name."""

    __slots__ = ("_parts",)

    def __init__(self, parts: dict[str, Accumulator]) -> None:
        self._parts = parts

    def add(self, box: Boxed) -> None:
        """As `Accumulator.add`; the aggregates that the value can take part in have it then."""
        failed: Exception | None = None
        for part in self._parts.values():
            try:
                part.add(box)
            except MemoryError:
                raise
            except Exception as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def remove(self, box: Boxed) -> None:
        for part in self._parts.values():
            part.remove(box)

    @property
    def result(self) -> Any:
        return codec.freeze({name: part.result for name, part in self._parts.items()})

    @property
    def documents_held(self) -> int:
        return sum(part.documents_held for part in self._parts.values())


def accumulator_of(step: Aggregate) -> Callable[[], Accumulator]:
    """A function that makes an empty accumulator for the step."""
    if isinstance(step, Aggregates):
        makes = {name: accumulator_of(part) for name, part in step.parts}
        return lambda: Several({name: make() for name, make in makes.items()})
    if step.kind == "count":
        return Count
    if step.kind in ("sum", "avg"):
        number = number_of(step, value_function)
        return lambda: Sum(number, is_mean=step.kind == "avg")
    key_of = sort_key_of(step.expression, value_function)
    return lambda: Extreme(key_of, is_max=step.kind == "max")
