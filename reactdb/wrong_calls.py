"""Wrong calls: better errors for arguments that do not fit a public method.

Python's TypeError names only the wrong option. These errors name the right option, too: see `guessed_words`. Each method
keeps its signature, for type checkers and for `help`.

Rule of this file: a call that fits costs one more call of Python, a tenth of a microsecond. So methods that are quicker
than ten microseconds stay as they are (`DIRECT`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any, Final, TypeVar, cast

from reactdb.errors import ReactDBError

F = TypeVar("F", bound=Callable[..., Any])

DIRECT: Final = frozenset({"get", "run", "table"})
"""Methods that are left as they are."""


def explained(function: F) -> F:
    """The function, which raises InvalidOption where its arguments do not fit."""

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except TypeError as error:
            # Our own errors have their sentences.
            wrong = None if isinstance(error, ReactDBError) else explain(function, arguments, options)
            if wrong is None:
                raise
        raise wrong

    return cast("F", call)


def explain(
    function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]
) -> Exception | None:
    """The error for these arguments; None where they fit, and the TypeError has another cause."""
    # Imported here because only mistakes need them.
    import inspect

    from reactdb.guessed_words import wrong_call

    signature = inspect.signature(function)
    try:
        signature.bind(*arguments, **options)
    except TypeError as reason:
        names = [name for name in signature.parameters if name != "self"]
        given = len(arguments) - ("self" in signature.parameters)
        return wrong_call(function.__name__, names, given, options, f"{function.__name__}(): {reason}")
    return None


def explain_wrong_calls(*classes: type) -> None:
    """Explain wrong calls of the public methods that these classes define."""
    for one in classes:
        for name, value in list(vars(one).items()):
            if isinstance(value, FunctionType) and not name.startswith("_") and name not in DIRECT:
                setattr(one, name, explained(value))
