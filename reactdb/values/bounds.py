"""`minval` and `maxval`: the bounds below and above every value.

Rule of this file: there are exactly two, and code distinguishes them by identity.
"""

from __future__ import annotations

from typing import Final, final

__all__ = ["Bound", "maxval", "minval"]


@final
class Bound:
    """`minval` or `maxval`: below and above every value. Only a bound of a range, never stored."""

    __slots__ = ("_name",)

    refused_as_value = "`r.minval` and `r.maxval` cannot be written to disk."

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __reduce__(self) -> str:
        # Copied or unpickled, it is still the only one of its name.
        return self._name


minval: Final = Bound("minval")
maxval: Final = Bound("maxval")
