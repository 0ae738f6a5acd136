"""Operations: comparison, logic and control.

Comparisons hold between all types, by the one order; with more than two arguments they hold between neighbours. `and`
and `or` return the deciding value, as ReQL does.

Source: RethinkDB 2.4, terms/pred.cc, control.cc, error.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from reactdb.errors import MissingValue, QueryError, RaisedError
from reactdb.expression.checks import array, equal, order, string, truth
from reactdb.expression.registry import operation
from reactdb.values.collation import key_bytes

Later = Callable[[], Any]


class EmptyError(RaisedError):
    """`r.error()` without a message. Inside `default` it means: let the first error through."""

    def __init__(self) -> None:
        super().__init__("Empty ERROR term outside a default block.")


@operation("eq", 2, None, never_fails=True)
def eq(*values: Any) -> bool:
    return all(equal(left, right) for left, right in pairwise(values))


@operation("ne", 2, None, never_fails=True)
def ne(*values: Any) -> bool:
    # Not equal to each other, all of them: the opposite of `eq`, not a chain of its own.
    return not eq(*values)


@operation("lt", 2, None, never_fails=True)
def lt(*values: Any) -> bool:
    return all(order(left, right) < 0 for left, right in pairwise(values))


@operation("le", 2, None, never_fails=True)
def le(*values: Any) -> bool:
    return all(order(left, right) <= 0 for left, right in pairwise(values))


@operation("gt", 2, None, never_fails=True)
def gt(*values: Any) -> bool:
    return all(order(left, right) > 0 for left, right in pairwise(values))


@operation("ge", 2, None, never_fails=True)
def ge(*values: Any) -> bool:
    return all(order(left, right) >= 0 for left, right in pairwise(values))


@operation("not", 1, never_fails=True)
def not_(value: Any) -> bool:
    return not truth(value)


@operation("and", 0, None, is_lazy=True, never_fails=True)
def and_(*arguments: Later) -> Any:
    value: Any = True
    for argument in arguments:
        value = argument()
        if not truth(value):
            break
    return value


@operation("or", 0, None, is_lazy=True, never_fails=True)
def or_(*arguments: Later) -> Any:
    value: Any = False
    for argument in arguments:
        value = argument()
        if truth(value):
            break
    return value


@operation("branch", 3, None, is_lazy=True, never_fails=True)
def branch(*arguments: Later) -> Any:
    if len(arguments) % 2 == 0:
        raise QueryError("Cannot call `branch` term with an even number of arguments.")
    for test, value in zip(arguments[0:-1:2], arguments[1:-1:2], strict=True):
        if truth(test()):
            return value()
    return arguments[-1]()


@operation("default", 2, is_lazy=True, never_fails=True, acts_on_groups=True)
def default(value: Later, otherwise: Later) -> Any:
    """`otherwise` where the value is null or not there. A function gets the error's message, or null."""
    error: MissingValue | None = None
    reason: Any = None
    try:
        result = value()
        if result is not None:
            return result
    except MissingValue as missing:
        error, reason = missing, str(missing)
    try:
        other = otherwise()
        return other(reason) if callable(other) else other
    except EmptyError:
        if error is None:
            return None
    raise error


def passes_filter(element: Any, test: Callable[[Any], Any], otherwise: Later | None = None) -> bool:
    """ReQL's filter: whether a test holds for an element; a missing value gives the default.

    Args:
        element: The element.
        test: Gives a value, of which the truth counts.
        otherwise: Gives the default's value; None for false. `r.error()` lets the error through.
    """
    try:
        return truth(test(element))
    except MissingValue:
        if otherwise is None:
            return False
        try:
            return truth(otherwise())
        except EmptyError:
            pass
        raise


def _prepare_is_in(values: Any) -> Callable[[Any], Any]:
    known = {key_bytes(value) for value in array(values)}

    def is_known(value: Any) -> bool:
        # A function has no bytes, and `equal` has the sentence about it.
        return is_in(value, values) if callable(value) else key_bytes(value) in known

    return is_known


@operation("is_in", 2, prepare=_prepare_is_in)
def is_in(value: Any, values: Any) -> bool:
    """Whether the value equals an element of the list."""
    return any(equal(value, element) for element in array(values))


@operation("error", 0, 1)
def error(message: Any = ...) -> Any:
    if message is ...:
        raise EmptyError
    raise RaisedError(string(message))


@operation("funcall", 1, None)
def funcall(function: Any, *values: Any) -> Any:
    """ReQL's `do`: the function's value; anything else is its own value."""
    if any(callable(value) for value in values):
        raise QueryError("Expected type DATUM but found FUNCTION.")
    return function(*values) if callable(function) else function


@operation("args", 1)
def args(values: Any) -> Any:
    # The evaluation of a Call splices these in; they are never evaluated by themselves.
    raise QueryError("`args` can only be used inside of the arguments of a term.")
