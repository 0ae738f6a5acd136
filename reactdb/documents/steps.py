"""Steps: the effect of each step of a query on one element, and on a sequence of elements.

    step                 operator
    -------------------  ---------------------------------------------------------
    Filter, HasFields    Keep       only elements that pass a test
    Map                  Convert    another element in the place of each
    ConcatMap            Expand     several elements, or none, in the place of each
    Skip, Limit          Slice      only elements at some positions
    OrderBy              Sort       all elements, in order
    Distinct             Unique     each different value once, in order
    Sample               Choose     some elements, by chance

All code that executes steps takes the operators from this table, and so all of it agrees: `read` applies them to
the documents of a snapshot, views to the documents before and after a change, feeds to the events after `changes()`,
and the streams of a dialect to their elements.

Rule of this file: an operator knows elements and functions. It knows no file, no table and no feed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

from reactdb.errors import MissingValue, QueryError, UsageError
from reactdb.expression import OrderKey, compile_function, sort_documents
from reactdb.expression.markers import absent
from reactdb.query import (
    Aggregate,
    ConcatMap,
    Distinct,
    Filter,
    Group,
    HasFields,
    Limit,
    Map,
    OrderBy,
    Sample,
    Skip,
    Step,
)
from reactdb.values import collation
from reactdb.values.canonical import plainest

Function = Callable[[Any], Any]
# Makes a function of an element from a step's argument: an expression, or a callable.
Prepare = Callable[[Any], Function]


class Operator(Protocol):
    """The effect of a step, for one run over elements. An operator that counts keeps its count from one `over` to the
    next.

    Attributes:
        is_finished: No element will come out any more, whatever comes in.
    """

    @property
    def is_finished(self) -> bool: ...

    def over(self, elements: Iterable[Any]) -> Iterator[Any]:
        """The results for these elements. Lazy: no element is taken before it is needed.

        Raises, while it is iterated:
            QueryError: The step fails for an element.
        """


class Keep:
    """Only the elements that pass a test."""

    __slots__ = ("test",)

    is_finished = False

    def __init__(self, test: Function) -> None:
        self.test = test

    def over(self, elements: Iterable[Any]) -> Iterator[Any]:
        test = self.test
        return (element for element in elements if test(element))


class Convert:
    """Each element becomes the value of a function."""

    __slots__ = ("function",)

    is_finished = False

    def __init__(self, function: Function) -> None:
        self.function = function

    def over(self, elements: Iterable[Any]) -> Iterator[Any]:
        function = self.function
        # Not `map(function, elements)`: it would take a StopIteration of the user's function for the end of the elements.
        return (function(element) for element in elements)


class Expand:
    """Each element becomes the elements that a function returns for it."""

    __slots__ = ("function",)

    is_finished = False

    def __init__(self, function: Callable[[Any], Iterable[Any]]) -> None:
        self.function = function

    def over(self, elements: Iterable[Any]) -> Iterator[Any]:
        function = self.function
        return (inner for element in elements for inner in function(element))


class Slice:
    """The elements at positions start <= position < stop; all from `start` on where `stop` is None."""

    __slots__ = ("_position", "_start", "_stop")

    def __init__(self, start: int, stop: int | None) -> None:
        is_empty = stop is not None and stop <= start
        self._start, self._stop = (0, 0) if is_empty else (start, stop)
        self._position = 0

    @property
    def is_finished(self) -> bool:
        return self._stop is not None and self._position >= self._stop

    def over(self, elements: Iterable[Any]) -> Iterator[Any]:
        if self.is_finished:
            return
        for element in elements:
            self._position += 1
            if self._position > self._start:
                yield element
            if self.is_finished:
                # The element after the last one is not taken: computing it may be slow, or fail.
                return


class Sort:
    """All elements, in the order of some keys. Elements with equal keys keep their order."""

    __slots__ = ("_keys",)

    is_finished = False

    def __init__(self, keys: Sequence[OrderKey]) -> None:
        self._keys = keys

    def over(self, elements: Iterable[Any]) -> Iterator[Any]:
        return iter(sort_documents(elements, self._keys))


class Choose:
    """Some elements by chance, each at most once."""

    __slots__ = ("_count",)

    is_finished = False

    def __init__(self, count: int) -> None:
        self._count = count

    def over(self, elements: Iterable[Any]) -> Iterator[Any]:
        # Imported here because it takes as long as a tenth of this library, and few programs sample.
        import random

        found = list(elements)
        return iter(random.sample(found, min(self._count, len(found))))


class Unique:
    """The different values of a function, in the collation's order. An element for which it returns `absent` has
    none."""

    __slots__ = ("_function",)

    is_finished = False

    def __init__(self, function: Function) -> None:
        self._function = function

    def over(self, elements: Iterable[Any]) -> Iterator[Any]:
        values: dict[bytes, Any] = {}
        for element in elements:
            value = self._function(element)
            if value is not absent:
                key = collation.key_bytes(value)
                values[key] = plainest(values[key], value) if key in values else value
        for key in sorted(values):
            yield values[key]


OPERATORS: dict[type[Step], Callable[[Any, Prepare], Operator]] = {
    Filter: lambda step, prepare: Keep(step.predicate.test),
    HasFields: lambda step, prepare: Keep(step.predicate.test),
    Map: lambda step, prepare: Convert(prepare(step.function)),
    ConcatMap: lambda step, prepare: Expand(elements_of(prepare(step.function))),
    Skip: lambda step, prepare: Slice(step.count, None),
    Limit: lambda step, prepare: Slice(0, step.count),
    OrderBy: lambda step, prepare: Sort(step.keys),
    Sample: lambda step, prepare: Choose(step.count),
    Distinct: lambda step, prepare: Unique(value_or(absent, step.expression, prepare)),
}


def operator_of(step: Step, prepare: Prepare = compile_function) -> Operator:
    """The operator of a step, for one run over elements.

    Args:
        prepare: Makes a function of the step's argument. Callers that share values pass one whose values are frozen.

    Raises:
        UsageError: The step has no effect on elements: it is a source of them, or makes one value of them.
    """
    make = OPERATORS.get(type(step))
    if make is None:
        raise UsageError(f"`{type(step).__name__.lower()}` cannot stand here in a query")
    return make(step, prepare)


class Run:
    """Operators one after the other, for elements that come one by one, as the events of a feed do."""

    __slots__ = ("_operators",)

    def __init__(self, operators: Iterable[Operator]) -> None:
        self._operators = list(operators)

    @property
    def is_finished(self) -> bool:
        """Whether no element will come out any more."""
        return any(operator.is_finished for operator in self._operators)

    def push(self, element: Any) -> Iterable[Any]:
        """The results for one element. The operators run while it is iterated.

        Raises, while it is iterated:
            QueryError: A step fails for the element.
        """
        elements: Iterable[Any] = (element,)
        for operator in self._operators:
            elements = operator.over(elements)
        return elements


# ---------------------------------------------------------------------------------------------------------------
# Values of one element


def value_or(otherwise: Any, expression: Any, prepare: Prepare = compile_function) -> Function:
    """A function that returns an expression's value for an element (None: the element itself), and `otherwise` for an
    element without the field."""
    if expression is None:
        return identity
    function = prepare(expression)

    def value(element: Any) -> Any:
        try:
            return function(element)
        except MissingValue:
            return otherwise

    return value


def identity(element: Any) -> Any:
    return element


def elements_of(function: Function) -> Function:
    """The function of a `concat_map`; its value must be a list."""

    def elements(element: Any) -> Any:
        value = function(element)
        if not isinstance(value, (list, tuple)):
            raise QueryError(f"Cannot convert {collation.type_name(value)} to SEQUENCE")
        return value

    return elements


def element_at(place: int, elements: Iterable[Any], start: int = 0) -> Any:
    """The element at a place, from 0; below zero it counts from the end.

    Args:
        start: The place of the first of these elements.

    Raises:
        MissingValue: There are not so many.
    """
    if place >= 0:
        found = list(islice(elements, place - start, place - start + 1))
    else:
        end = deque(elements, maxlen=-place)
        found = list(end) if len(end) == -place else []
    if not found:
        raise MissingValue(f"Index out of bounds: {place}")
    return found[0]


def group_of(step: Group, prepare: Prepare = compile_function) -> Function:
    """A function that returns the group of an element. An element without the field is in the group of None."""
    return value_or(None, step.expression, prepare)


def number_of(step: Aggregate, prepare: Prepare = compile_function) -> Callable[[Any], Any]:
    """A function that returns an element's part of a sum or a mean: a number. An element with a missing or null field
    gives None: it takes no part.

    Raises, when called:
        QueryError: The value is no number.
    """
    value_of = value_or(None, step.expression, prepare)

    def number(element: Any) -> Any:
        value = value_of(element)
        if value is not None and collation.type_name(value) != "NUMBER":
            raise QueryError(f"Expected type NUMBER but found {collation.type_name(value)}.")
        return value

    return number


def sort_key_of(expression: Any, prepare: Prepare = compile_function) -> Callable[[Any], bytes | None]:
    """A function that returns the key bytes by which `min` and `max` compare elements; None for an element without
    the field."""
    value_of = value_or(absent, expression, prepare)

    def sort_key(element: Any) -> bytes | None:
        value = value_of(element)
        return None if value is absent else collation.key_bytes(value)

    return sort_key
