"""Checks of the arguments of operations, with ReQL's sentence for each kind of wrong value.

ReQL has one rule for the class of the error: if the wrong value is null, something is missing, which `default` and
`filter` may forgive (MissingValue); any other wrong value is a mistake of logic (QueryError).

Rule of this file: small functions that return a checked value, or raise. They are called for every document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from decimal import Decimal
from math import isfinite
from typing import Any, Final, NoReturn

from reactdb.budget import STEP_BYTES, STEPS, current, spend_bytes, spend_per_element, spend_value
from reactdb.errors import InvalidKey, MissingValue, QueryError, ResourceLimit
from reactdb.values.codec import MAX_DOCUMENT_BYTES, MAX_INT_BITS, pretty
from reactdb.values.collation import compare, key_bytes, type_name

array_limit: Final = ContextVar("array_limit", default=100_000)
"""The most elements of an array in an expression. ReQL's run option of that name sets it."""

_SHOWN_CHARACTERS: Final = 300
LONG_TEXT: Final = 4_096
"""A text of more characters spends the budget where it is worked on."""
_SAFE_INTEGER: Final = 2**53


def fail(value: object, sentence: str) -> NoReturn:
    """Raise the sentence about the value: MissingValue if it is null."""
    raise (MissingValue if value is None else QueryError)(sentence)


def fail_type(wanted: str, value: Any) -> NoReturn:
    fail(value, f"Expected type {wanted} but found {kind(value)}.")


def kind(value: Any) -> str:
    """ReQL's name of the value's type."""
    try:
        return type_name(value)
    except InvalidKey:
        # Only an operation's internal values come here: a function, or groups.
        return "FUNCTION" if callable(value) else type(value).__name__.upper()


def format_value(value: Any) -> str:
    """The value as messages print it, cut where it gets long."""
    text = "VALUE FUNCTION" if callable(value) else pretty(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


def truth(value: Any) -> bool:
    """ReQL's truth: everything but null and false."""
    return value is not None and value is not False


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def number(value: Any) -> Any:
    if not is_number(value):
        fail_type("NUMBER", value)
    return value


def integer(value: Any) -> int:
    """The value as a Python int, if it is a number without a fraction.

    A float beyond 2**53 is refused as ReQL does, because it does not know its own last digit; an int always knows.
    """
    if type(value) is int:
        return value
    number(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if value.is_integer() and -_SAFE_INTEGER <= value <= _SAFE_INTEGER:
            return int(value)
    elif abs(value.adjusted()) <= 400 and value == value.to_integral_value():
        return int(value)
    size = " (<-2^53)" if value < -_SAFE_INTEGER else " (>2^53)" if value > _SAFE_INTEGER else ""
    raise QueryError(f"Number not an integer{size}: {number_text(value)}")


def number_text(value: Any) -> str:
    """The number as ReQL's messages about numbers print it: up to twenty digits."""
    return f"{value:.20g}" if isinstance(value, float) else format_value(value)


def string(value: Any) -> str:
    if not isinstance(value, str):
        fail_type("STRING", value)
    if len(value) > LONG_TEXT:
        spend_value(value)
    return value


def array(value: Any) -> list[Any]:
    if not isinstance(value, list):
        fail_type("ARRAY", value)
    return sequence(value)


def sequence(value: Any) -> list[Any]:
    if not isinstance(value, list):
        fail(value, f"Cannot convert {kind(value)} to SEQUENCE")
    # As `budget.spend` does: called for every array of every document, where a call costs more than its work.
    budget = current.get()
    if budget is not None:
        budget.spend(1 + len(value))
    return value


def each(value: Any) -> Iterable[Any]:
    """The elements of a sequence, or of an unread stream, to be used singly."""
    if not isinstance(value, list):
        if isinstance(value, Iterator):
            return value
        fail(value, f"Cannot convert {kind(value)} to SEQUENCE")
    budget = current.get()
    if budget is None:
        return value
    budget.spend(1 + len(value))
    return value if len(value) <= STEPS else spend_per_element(value)


def function(value: Any) -> Callable[..., Any]:
    if not callable(value):
        fail(value, f"Expected type FUNCTION but found DATUM:\n{format_value(value)}")
    called: Callable[..., Any] = value
    return called


def check_array(values: list[Any]) -> list[Any]:
    """The list, if it is not longer than an array may be."""
    check_array_size(len(values))
    return values


def check_array_size(count: int) -> None:
    limit = array_limit.get()
    if count > limit:
        raise ResourceLimit(
            f"Array over size limit `{limit}`.  To raise the number of allowed elements, modify the `array_limit` "
            "option to `.run` (not available in the Data Explorer), or use an index."
        )


def check_string(text: str) -> str:
    """The string, if a document could hold it. Doubling in a `reduce` would fill the memory otherwise."""
    if len(text) > MAX_DOCUMENT_BYTES:
        raise ResourceLimit(f"String over size limit `{MAX_DOCUMENT_BYTES}`.")
    if len(text) >= STEP_BYTES:
        spend_bytes(len(text))
    return text


def check_number(value: Any) -> Any:
    """The result of arithmetic, if it is finite and a document could hold it."""
    if isinstance(value, int):
        if value.bit_length() > MAX_INT_BITS:
            raise ResourceLimit(f"Number over size limit of {MAX_INT_BITS} bits.")
    elif not (isfinite(value) if isinstance(value, float) else value.is_finite()):
        raise QueryError(f"Non-finite number: {number_text(float(value))}")
    return value


def order(left: Any, right: Any) -> int:
    """-1, 0 or 1, by the one order over all values."""
    try:
        return compare(left, right)
    except InvalidKey as error:
        # Functions and groups are not part of the order, nor is a too deeply nested value.
        raise QueryError(str(error)) from None


def sort_key(value: Any) -> bytes:
    """Bytes by which the value sorts; equal values share them."""
    try:
        return key_bytes(value)
    except InvalidKey as error:
        raise QueryError(str(error)) from None


def equal(left: Any, right: Any) -> bool:
    return order(left, right) == 0
