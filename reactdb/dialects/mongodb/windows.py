"""Windows of `$setWindowFields`: the documents of a partition that belong to each document's window.

    {documents: [-2, "current"]}            by place: the two before it, and the document itself
    {range: [-1, 0], unit: "day"}           by value: all with a sort value at most a day less

A partition is in order, so the documents of a window are consecutive, and a window is a pair of places: the first, and the place
after the last. For a range, both are found by binary search in the keys of the values.

Rule of this file: it knows no function. It reads a window, and computes its bounds.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from reactdb.budget import spend_value
from reactdb.dialects.mongodb.bson_order import compare, sort_key, type_name
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions import Evaluate
from reactdb.dialects.mongodb.expressions.dates import is_unit, move_date
from reactdb.dialects.mongodb.numeric import add_numbers, is_number, whole
from reactdb.dialects.mongodb.paths import split, value_at
from reactdb.dialects.mongodb.sort import Order
from reactdb.dialects.mongodb.times import is_date

__all__ = ["Partition", "Window", "read_window"]

Document = dict[str, Any]
Span = tuple[int, int]


@dataclass(slots=True, frozen=True)
class Partition:
    """The documents of one partition, in order.

    Attributes:
        documents: The documents.
        order: Their order; None without a `sortBy`.
        variables: The values of variables by name.
    """

    documents: list[Document]
    order: Order | None
    variables: dict[str, Any]

    def __len__(self) -> int:
        return len(self.documents)

    def values(self, evaluate: Evaluate) -> list[Any]:
        """The value of an expression for each document."""
        variables = self.variables
        spend_value(self.documents)
        return [evaluate(document, variables) for document in self.documents]

    def places(self) -> list[Any]:
        """The sort value of each document. There is only one sort field."""
        assert self.order is not None
        path = split(self.order.fields[0][0])
        spend_value(self.documents)
        return [value_at(document, path) for document in self.documents]


@dataclass(slots=True, frozen=True)
class Window:
    """A parsed window.

    Attributes:
        lower: The distance to its lower end, as a number; None for the first document.
        upper: The distance to its upper end; None for the last document.
        is_range: Whether the distances are about values, and not places.
        unit: The unit of time of a range of dates.
    """

    lower: Any = None
    upper: Any = None
    is_range: bool = False
    unit: str | None = None

    def spans(self, partition: Partition) -> Iterator[Span]:
        """The place of the first document in the window, and the place after the last one, for each document.

        Raises:
            MongoError: For a range, a document has no number (5429414; 5429413 if it is a date); with a unit, no date (5429513).
        """
        count = len(partition)
        if self.lower is None and self.upper is None:
            for _ in range(count):
                yield 0, count
        elif self.is_range:
            yield from self._ranges(partition)
        else:
            for place in range(count):
                start = 0 if self.lower is None else min(max(place + self.lower, 0), count)
                end = count if self.upper is None else min(max(place + self.upper + 1, 0), count)
                yield start, max(start, end)

    def _ranges(self, partition: Partition) -> Iterator[Span]:
        places = partition.places()
        for value in places:
            self._check(value)
        keys = [sort_key(value) for value in places]
        move = self._mover()
        for value in places:
            start = 0 if self.lower is None else bisect_left(keys, sort_key(move(value, self.lower)))
            end = len(keys) if self.upper is None else bisect_right(keys, sort_key(move(value, self.upper)))
            yield start, max(start, end)

    def _check(self, value: Any) -> None:
        if self.unit is not None:
            if not is_date(value):
                raise MongoError(
                    5429513, f"a range with a unit wants a date to order by, not {type_name(value)}"
                )
        elif is_date(value):
            raise MongoError(5429413, "a range of dates wants a unit")
        elif not is_number(value):
            raise MongoError(5429414, f"a range wants a number to order by, not {type_name(value)}")

    def _mover(self) -> Callable[[Any, Any], Any]:
        unit = self.unit
        if unit is None:
            return add_numbers
        return lambda value, amount: move_date("$setWindowFields", value, unit, amount)


_WINDOW: Final = ("documents", "range", "unit")


def read_window(spec: Any, order: Order | None) -> Window:
    """The window of a `window` document. An empty object is the whole partition.

    Raises:
        MongoError: It is invalid (9), its lower end is above its upper end (5339900), or it needs another `sortBy`: any for
            places (5339901), with one field for ranges (5339902), ascending (8947401).
    """
    if not isinstance(spec, Mapping):
        raise MongoError(9, "'window' is an object")
    for name in spec:
        if name not in _WINDOW:
            raise MongoError(9, f"'window' knows no '{name}'")
    if "documents" in spec and "range" in spec:
        raise MongoError(9, "a window has bounds of 'documents' or of 'range', not both")
    if "unit" in spec and "range" not in spec:
        raise MongoError(9, "'unit' is for bounds of 'range'")
    if "documents" in spec:
        window = _of_places(spec["documents"])
        if not (window.lower is None and window.upper is None) and order is None:
            raise MongoError(5339901, "bounds of 'documents' need a sortBy")
    elif "range" in spec:
        window = _of_values(spec["range"], spec)
        if order is None or len(order.fields) != 1:
            raise MongoError(5339902, "bounds of 'range' need a sortBy of one field")
        if order.fields[0][1]:
            raise MongoError(8947401, "bounds of 'range' need a sortBy that goes up")
    else:
        return Window()
    if window.lower is not None and window.upper is not None and compare(window.lower, window.upper) > 0:
        raise MongoError(5339900, "the lower bound of a window is not above the upper one")
    return window


def _of_places(bounds: Any) -> Window:
    def number(value: Any) -> int:
        number = whole(value) if is_number(value) else None
        if number is None:
            raise MongoError(9, "bounds of 'documents' are whole numbers")
        return number

    lower, upper = _bounds("documents", bounds, number)
    return Window(lower, upper)


def _of_values(bounds: Any, spec: Mapping[str, Any]) -> Window:
    unit = spec.get("unit")
    if "unit" in spec and not is_unit(unit):
        raise MongoError(9, "'unit' is a unit of time")

    def number(value: Any) -> Any:
        if not is_number(value):
            raise MongoError(9, "bounds of 'range' are numbers")
        if unit is None:
            return value
        amount = whole(value)
        if amount is None:
            raise MongoError(9, "bounds of 'range' with a 'unit' are whole numbers")
        return amount

    lower, upper = _bounds("range", bounds, number)
    return Window(lower, upper, is_range=True, unit=unit)


def _bounds(name: str, bounds: Any, number: Callable[[Any], Any]) -> tuple[Any, Any]:
    if not isinstance(bounds, list | tuple) or len(bounds) != 2:
        raise MongoError(9, f"'{name}' takes an array of two bounds")
    lower, upper = [
        None if bound == "unbounded" else 0 if bound == "current" else number(bound) for bound in bounds
    ]
    return lower, upper
