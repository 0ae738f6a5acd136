"""Terms: steps after `changes()`, applied to each event on its way to the subscriber.

State documents and overflow documents are ordinary items to them, as in ReQL: `.limit(3)` counts them, `["new_val"]` passes
them over.

    filter      a missing field counts as the default; other errors end the feed
    ["field"]   skips events without the field, like with_fields and has_fields; map does not
    limit       ends the feed after n items

Rule of this file: a term is a step like those of a query, and `steps` defines its effect. Here arguments become
terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from reactdb.documents.steps import Run, operator_of
from reactdb.errors import InvalidOption, MissingValue, QueryError
from reactdb.expression import Expression, compile_function, expr, has_expression, row
from reactdb.query import ConcatMap, Map, Step
from reactdb.values import codec
from reactdb.values.collation import type_name

TERMINAL = "Cannot call a terminal (`reduce`, `count`, etc.) on an infinite stream (such as a changefeed)."


def run_of(terms: Iterable[Step]) -> Run:
    """The terms at work for one subscriber: a `limit` counts the events of that subscriber."""
    return Run(operator_of(term, event_function) for term in terms)


def event_function(function: Any) -> Callable[[Any], Any]:
    """An expression's values are frozen, because they may be parts of shared documents; a callable's belong to the subscriber."""
    compute = compile_function(function)
    if isinstance(compute, Expression):
        return lambda event: codec.freeze(compute(event))
    return compute


def refuse(*_arguments: Any, **_options: Any) -> NoReturn:
    """For everything that would have to wait for the end of the feed."""
    raise QueryError(TERMINAL)


def field_term(name: str) -> Step:
    value = event_function(row[name])

    def field(event: Any) -> Iterable[Any]:
        try:
            return (value(event),)
        except MissingValue:
            if isinstance(event, dict) and name not in event:
                return ()
            raise

    return ConcatMap(field)


def default_term(value: Any) -> Step:
    """The replacement of an item that is null. A feed itself is never missing."""
    compute = event_function(expr(value)) if has_expression(value) else lambda event: value
    return Map(lambda event: compute(event) if event is None else event, "default")


def count_of(name: str, value: Any) -> int:
    """How many items `limit` or `skip` is about."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidOption(f"Expected type NUMBER but found {type_name(value)}.")
    if isinstance(value, float) and not value.is_integer():
        raise InvalidOption(f"Number not an integer: {value}")
    if value < 0:
        raise InvalidOption(f"{name} takes a non-negative argument (got {int(value)})")
    return int(value)
