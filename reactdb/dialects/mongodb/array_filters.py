"""Array filters of an update: `[{"x.grade": {"$gte": 80}}]` selects the elements of `$[x]`.

Rule of this file: it tests elements, and follows no path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.filters import Filter

__all__ = ["ArrayFilters"]

_NAME: Final = re.compile(r"[a-z][a-zA-Z0-9]*")


class ArrayFilters:
    """The filters by name."""

    def __init__(self, specs: Any, *, variables: Mapping[str, Any] | None, collation: Any) -> None:
        """
        Raises:
            MongoError: 9 or 2, a filter is invalid; 224, it has `$expr`; and errors of the query.
        """
        self._filters: dict[str, Filter] = {}
        if specs is None:
            return
        if type(specs) is not list:
            raise MongoError(14, "arrayFilters has to be an array")
        for spec in specs:
            if not isinstance(spec, Mapping):
                raise MongoError(14, "every element of arrayFilters has to be a document")
            name = _name(spec)
            if name in self._filters:
                raise MongoError(9, f"Found multiple array filters with the same top-level field name {name}")
            self._filters[name] = Filter(spec, variables=variables, collation=collation)

    def check(self, names: Sequence[str]) -> None:
        """
        Args:
            names: The names in the paths of an update.

        Raises:
            MongoError: 2, a name has no filter; 9, a filter's name is in no path.
        """
        for name in names:
            if name not in self._filters:
                raise MongoError(2, f"No array filter found for identifier '{name}'")
        for name in self._filters:
            if name not in names:
                raise MongoError(9, f"The array filter for identifier '{name}' was not used in the update")

    def matches(self, name: str, element: Any) -> bool:
        """Whether `$[name]` selects an element."""
        return self._filters[name].matches({name: element})


def _name(spec: Mapping[str, Any]) -> str:
    names = list(dict.fromkeys(_names(spec)))
    if not names:
        raise MongoError(9, "Cannot use an expression without a top-level field name in arrayFilters")
    if len(names) > 1:
        raise MongoError(
            9,
            "Error parsing array filter :: caused by :: Expected a single top-level field name, "
            f"found '{names[0]}' and '{names[1]}'",
        )
    if _NAME.fullmatch(names[0]) is None:
        raise MongoError(
            2,
            "Error parsing array filter :: caused by :: The top-level field name must be an alphanumeric string "
            f"beginning with a lowercase letter, found '{names[0]}'",
        )
    return names[0]


def _names(spec: Mapping[str, Any]) -> Iterator[str]:
    for name, operand in spec.items():
        if name == "$expr":
            raise MongoError(224, "$expr is not allowed in this context")
        if name in ("$and", "$or", "$nor") and type(operand) is list:
            for part in operand:
                yield from _names(part)
        elif not name.startswith("$"):
            yield name.partition(".")[0]
