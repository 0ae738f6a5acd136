"""Values that only exist while an expression is evaluated: `literal` and groups. No document can hold them.

Rule of this file: they only hold values.
"""

from __future__ import annotations

from typing import Any, Final, final


@final
class Absent:
    """Marks a missing value where None would be a value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "absent"


absent: Final = Absent()


@final
class Literal:
    """`r.literal(value)`: put this in whole instead of merging it. Without a value: take the field away."""

    __slots__ = ("value",)

    def __init__(self, value: Any = absent) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "literal()" if self.value is absent else f"literal({self.value!r})"


@final
class Grouped:
    """ReQL's grouped data: pairs of a group and its value, in the order of the groups.

    Operations that are applied to it are applied to each value, until `ungroup`.
    """

    __slots__ = ("groups",)

    def __init__(self, groups: list[tuple[Any, Any]]) -> None:
        self.groups = groups

    def __repr__(self) -> str:
        return "GROUPED DATA"
