"""Terms: what may stand after `changes()`. They are applied to each event on its way to the subscriber.

State documents and overflow documents are ordinary items to them, as in ReQL: `.limit(3)` counts them, `["new_val"]` passes
them over.

    filter      a field that is missing counts as the default; other errors end the feed
    ["field"]   passes over events that lack the field, like with_fields and has_fields; map does not
    limit       ends the feed after so many items

Rule of this file: a term is a value and is shared; a Chain is one subscriber's run of terms, and may count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from reactdb.errors import InvalidOption, MissingValue, QueryError
from reactdb.expression import Expression, as_function, as_predicate, row
from reactdb.values import codec
from reactdb.values.collation import type_name

TERMINAL = "Cannot call a terminal (`reduce`, `count`, etc.) on an infinite stream (such as a changefeed)."

Apply = Callable[[Any], Iterable[Any]]


class Term:
    """One term. `make` gives what is done to one event for one subscriber: what comes out for it, none to many."""

    __slots__ = ("make", "name")

    def __init__(self, name: str, make: Callable[[], Step]) -> None:
        self.name = name
        self.make = make


class Step:
    """A term at work for one subscriber."""

    __slots__ = ("apply", "is_finished")

    def __init__(self, apply: Apply, *, is_finished: bool = False) -> None:
        self.apply = apply
        self.is_finished = is_finished


class Chain:
    """Several terms at work, one after the other. `is_finished`: nothing will come out any more."""

    __slots__ = ("_steps",)

    def __init__(self, terms: Iterable[Term]) -> None:
        self._steps = [term.make() for term in terms]

    @property
    def is_finished(self) -> bool:
        return any(step.is_finished for step in self._steps)

    def __call__(self, event: Any) -> list[Any]:
        """What comes out for one event.

        Raises:
            QueryError: A term fails for it.
        """
        events = [event]
        for step in self._steps:
            if not events:
                break
            events = [after for before in events for after in step.apply(before)]
        return events


def refuse(*_arguments: Any, **_options: Any) -> NoReturn:
    """For everything that would have to wait for the end of the feed."""
    raise QueryError(TERMINAL)


def _steady(name: str, apply: Apply) -> Term:
    return Term(name, lambda: Step(apply))


def filter_term(predicate: Any, default: Any = False) -> Term:
    test = as_predicate(predicate, default).test
    return _steady("filter", lambda event: (event,) if test(event) else ())


def map_term(function: Any, name: str = "map") -> Term:
    compute = _function(function)
    return _steady(name, lambda event: (compute(event),))


def concat_map_term(function: Any) -> Term:
    compute = _function(function)

    def apply(event: Any) -> Iterable[Any]:
        found = compute(event)
        if not isinstance(found, (list, tuple)):
            raise QueryError(f"Cannot convert {type_name(found)} to SEQUENCE")
        return found

    return _steady("concat_map", apply)


def pluck_term(fields: tuple[Any, ...]) -> Term:
    return map_term(row.pluck(*fields), "pluck")


def without_term(fields: tuple[Any, ...]) -> Term:
    return map_term(row.without(*fields), "without")


def merge_term(others: tuple[Any, ...]) -> Term:
    return map_term(row.merge(*(as_function(other) for other in others)), "merge")


def has_fields_term(fields: tuple[Any, ...]) -> Term:
    test = as_predicate(row.has_fields(*fields)).test
    return _steady("has_fields", lambda event: (event,) if test(event) else ())


def with_fields_term(fields: tuple[Any, ...]) -> Term:
    test = as_predicate(row.has_fields(*fields)).test
    pluck = _function(row.pluck(*fields))
    return _steady("with_fields", lambda event: (pluck(event),) if test(event) else ())


def field_term(name: str) -> Term:
    compute = _function(row[name])

    def apply(event: Any) -> Iterable[Any]:
        try:
            return (compute(event),)
        except MissingValue:
            if isinstance(event, dict) and name not in event:
                return ()
            raise

    return _steady("bracket", apply)


def default_term(value: Any) -> Term:
    """What an item that is null becomes. A feed itself is never missing."""
    compute = _function(value) if isinstance(value, Expression) else lambda event: value
    return _steady("default", lambda event: (compute(event) if event is None else event,))


def limit_term(count: Any) -> Term:
    number = _count("LIMIT", count)

    def make() -> Step:
        left = number

        def apply(event: Any) -> Iterable[Any]:
            nonlocal left
            if left <= 0:
                return ()
            left -= 1
            step.is_finished = left == 0
            return (event,)

        step = Step(apply, is_finished=number == 0)
        return step

    return Term("limit", make)


def skip_term(count: Any) -> Term:
    number = _count("SKIP", count)

    def make() -> Step:
        left = number

        def apply(event: Any) -> Iterable[Any]:
            nonlocal left
            if left > 0:
                left -= 1
                return ()
            return (event,)

        return Step(apply)

    return Term("skip", make)


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidOption(f"Expected type NUMBER but found {type_name(value)}.")
    if isinstance(value, float) and not value.is_integer():
        raise InvalidOption(f"Number not an integer: {value}")
    if value < 0:
        raise InvalidOption(f"{name} takes a non-negative argument (got {int(value)})")
    return int(value)


def _function(function: Any) -> Callable[[Any], Any]:
    """An expression's results are frozen, because they may be parts of shared documents; a callable's are its own."""
    compute = as_function(function)
    if isinstance(compute, Expression):
        return lambda event: codec.freeze(compute(event))
    return compute
