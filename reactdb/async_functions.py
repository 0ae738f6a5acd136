"""Async functions. They are refused wherever a result is needed at once, because nothing would await it.

Rule of this file: it looks at a function and never calls it.
"""

from __future__ import annotations

from typing import Any, Final

from reactdb.errors import InvalidOption

ASYNC: Final = 0x80 | 0x200
"""`inspect.CO_COROUTINE` and `CO_ASYNC_GENERATOR`: to import that module takes as long as the rest of a small program."""


def is_async(function: Any) -> bool:
    """Whether a call returns a coroutine or an async generator: of `async def`, of a method or a partial of one, or of an
    object with such a `__call__`."""
    for _ in range(8):
        code = getattr(function, "__code__", None)
        if code is not None:
            return bool(code.co_flags & ASYNC)
        # A functools.partial has `func`; an object that can be called has its class's `__call__`.
        inner = getattr(function, "func", None)
        if inner is None:
            inner = getattr(type(function), "__call__", None)  # noqa: B004 - it is not asked whether there is one
            return bool(getattr(getattr(inner, "__code__", None), "co_flags", 0) & ASYNC)
        function = inner
    return False


def refuse_async(function: Any, method: str, advice: str = "write a plain function") -> None:
    """Raises: InvalidOption: `method` was given an async function."""
    if is_async(function):
        raise InvalidOption(f"{method} was given an async function, which nobody would await: {advice}")


def refuse_awaitable(value: Any, method: str) -> None:
    """The same for the result of a function: a lambda may return a coroutine.

    Raises: InvalidOption.
    """
    if hasattr(value, "__await__"):
        if hasattr(value, "close"):
            # Otherwise Python warns about it a second time.
            value.close()
        raise InvalidOption(
            f"the function given to {method} returned something to await, and nothing would await it: write a plain function"
        )
