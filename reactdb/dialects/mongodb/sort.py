"""Sort orders of documents, from specifications like `{a: 1, "b.c": -1}`.

An array sorts by its least element in an ascending order, and by its greatest in a descending order; an empty array is below
null. A missing field is null. Documents with equal sort keys keep their order.

Rule of this file: it compares keys of `bson_order`, and never a value itself.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from reactdb.budget import spend_value
from reactdb.dialects.mongodb.bson_order import MISSING, TextKey, sort_key
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.numeric import NUMBERS, truncate
from reactdb.dialects.mongodb.paths import sort_ends, split

__all__ = ["MAX_SORT_FIELDS", "Downwards", "Order"]

MAX_SORT_FIELDS: Final = 32
_NULL: Final = sort_key(None)
_EMPTY: Final = sort_key(MISSING)

Key = tuple[Any, ...]


class Downwards:
    """A key with the reverse order."""

    __slots__ = ("key",)

    def __init__(self, key: Key) -> None:
        self.key = key

    def __lt__(self, other: Downwards) -> bool:
        return other.key < self.key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Downwards) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)


class Order:
    """A parsed sort order.

    Args:
        spec: Fields with 1 or -1. An empty one, in `find`, is no order.
        text: The collation, if there is one.

    Raises:
        MongoError: It is no object (15973), a direction is no number (15974) or neither 1 nor -1 (15975), a name is empty
            (15998), or there are more than 32 fields (13103).
    """

    def __init__(self, spec: Mapping[str, Any], text: TextKey | None = None) -> None:
        if not isinstance(spec, Mapping):
            raise MongoError(15973, "a sort takes an object of fields, each with 1 or -1")
        if len(spec) > MAX_SORT_FIELDS:
            raise MongoError(13103, f"a sort has at most {MAX_SORT_FIELDS} fields")
        self.fields: list[tuple[str, bool]] = [(name, _goes_down(name, way)) for name, way in spec.items()]
        self._makers = [(_key_maker(name, down, text), down) for name, down in self.fields]

    def key(self, document: Any) -> Any:
        """The sort key of a document."""
        if len(self._makers) == 1:
            make, down = self._makers[0]
            return Downwards(make(document)) if down else make(document)
        return tuple([Downwards(make(document)) if down else make(document) for make, down in self._makers])

    def sorted(self, documents: Iterable[Any]) -> list[Any]:
        """The documents in order."""
        result = list(documents)
        # From the last field to the first: sorting is stable, and Python sorts keys faster than it calls comparisons.
        for make, down in reversed(self._makers):
            result.sort(key=make, reverse=down)
        return result

    def first(self, documents: Iterable[Any], count: int) -> list[Any]:
        """The first documents in order; at most `count` are held."""
        return heapq.nsmallest(count, documents, key=self.key)

    def compare(self, left: Any, right: Any) -> int:
        """-1, 0 or 1: whether a document comes before another, with it, or after it."""
        for make, down in self._makers:
            one, other = make(left), make(right)
            if one != other:
                return -1 if (other < one) == down else 1
        return 0


def _goes_down(name: str, way: Any) -> bool:
    parts = split(name)
    if name.endswith(".") and name != ".":
        raise MongoError(40353, f"a sort has no name that ends with a dot: '{name}'")
    if not all(parts):
        raise MongoError(15998 if name else 40352, f"a sort has no empty names: '{name}'")
    if any(part.startswith("$") and part not in {"$id", "$ref", "$db"} for part in parts):
        raise MongoError(16410, f"a name in a sort must not begin with '$': '{name}'")
    if isinstance(way, Mapping):
        if "$meta" not in way or len(way) != 1:
            raise MongoError(17312, f"a sort by '{name}' takes 1 or -1, or $meta")
        raise MongoError(31138, "there are no scores to sort by here")
    if type(way) not in NUMBERS:
        raise MongoError(15974, f"a sort by '{name}' takes 1 or -1")
    if truncate(way) not in (1, -1):
        raise MongoError(15975, f"a sort by '{name}' takes 1 or -1")
    return truncate(way) == -1


def _key_maker(name: str, down: bool, text: TextKey | None) -> Callable[[Any], Key]:
    parts = split(name)
    choose = max if down else min

    def of_ends(document: Any) -> Key:
        values = sort_ends(document, parts)
        if len(values) == 1:
            return of_value(values[0])
        return choose(of_value(value) for value in values) if values else _NULL

    def of_value(value: Any) -> Key:
        if value is None or value is MISSING:
            return _NULL
        if isinstance(value, list):
            spend_value(value)
            return (
                choose(_NULL if inner is MISSING else sort_key(inner, text) for inner in value)
                if value
                else _EMPTY
            )
        return sort_key(value, text)

    if len(parts) > 1:
        return of_ends
    (only,) = parts
    return lambda document: of_value(document.get(only)) if isinstance(document, dict) else _NULL
