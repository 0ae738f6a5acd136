"""Hints: the named index of a find or a write, and the options of a find for it: `min`, `max`, `returnKey`.

    index = hinted(listed(kept.indexes), table, {"a": 1, "b": -1})
    IndexWalk(index, {"min": {"a": 3, "b": 0}}).documents(documents)

With a hint, documents come in the order of the index, and only if they have an entry in it: a sparse or partial index leaves
others out. `min` and `max` are bounds in that order, the first inclusive and the second exclusive. An array has an entry for each
of its elements; its document comes once, at its first entry within the bounds.

Rule of this file: the planner chooses the index to read. This file defines the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple, TypeVar

from reactdb.dialects.mongodb.bson_order import MISSING, equal, is_text, sort_key, type_name
from reactdb.dialects.mongodb.entries import exchange_names
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.index_keys import index_keys_of
from reactdb.dialects.mongodb.indexes import indexes_of
from reactdb.dialects.mongodb.numeric import as_float, is_number, whole
from reactdb.dialects.mongodb.paths import ends, split
from reactdb.dialects.mongodb.sort import Downwards
from reactdb.dialects.mongodb.values import to_native
from reactdb.store.catalogue import TableInfo

__all__ = ["HintedIndex", "IndexWalk", "check_bounds", "hinted"]

Row = TypeVar("Row")
Document = dict[str, Any]
NATURAL = "$natural"


class HintedIndex(NamedTuple):
    """The index of a hint.

    Attributes:
        pattern: Its paths with 1 and -1. Empty for the order of the collection itself.
        stored: The specification by which a document has an entry; None if each document has one.
        is_backwards: `{$natural: -1}`.
    """

    pattern: Mapping[str, Any]
    stored: Mapping[str, Any] | None = None
    is_backwards: bool = False

    def holds(self, document: Document) -> bool:
        """Whether a document has an entry."""
        return self.stored is None or bool(
            index_keys_of(to_native(exchange_names(document, self.stored["primary_key"])), self.stored)
        )

    def entries(self, document: Document) -> list[tuple[Any, ...]]:
        """The values of a document's entries."""
        return list(product(*(_column(document, path) for path in self.pattern)))

    def place(self, entry: Sequence[Any]) -> tuple[Any, ...]:
        """The sort key of an entry."""
        keys = [sort_key(None if value is MISSING else value) for value in entry]
        return tuple(
            Downwards(key) if _goes_down(way) else key
            for key, way in zip(keys, self.pattern.values(), strict=True)
        )


def _goes_down(way: Any) -> bool:
    return is_number(way) and as_float(way) < 0


def _column(document: Document, path: str) -> list[Any]:
    """The values of a document at a path of the index."""
    values: list[Any] = []
    for end in ends(document, split(path)):
        values += end if type(end) is list and end else [end]
    return values or [MISSING]


def hinted(known: Iterable[Mapping[str, Any]], table: TableInfo | None, hint: Any) -> HintedIndex:
    """The index of a hint.

    Args:
        known: The specifications of the indexes, including the `_id` index.
        hint: A name, or the keys of an index, or `{$natural: 1}`.

    Raises:
        MongoError: 2, there is no such index, or it is hidden; 9, the hint has the wrong type.
    """
    if not isinstance(hint, Mapping) and not is_text(hint):
        raise MongoError(9, f"Hint must be a string or an object, not {type_name(hint)}")
    if isinstance(hint, Mapping) and NATURAL in hint:
        if len(hint) > 1 or not is_number(hint[NATURAL]) or whole(hint[NATURAL]) not in (1, -1):
            raise MongoError(2, f"{NATURAL} hint may only accept 1 or -1, alone: {dict(hint)}")
        return HintedIndex({}, is_backwards=_goes_down(hint[NATURAL]))
    for spec in known:
        is_meant = spec["name"] == hint if is_text(hint) else equal(dict(spec["key"]), hint)
        if not is_meant or spec.get("hidden"):
            continue
        own = [one for one in ([] if table is None else indexes_of(table)) if one.name == spec["name"]]
        if own and not own[0].spec["paths"]:
            # A wildcard index has no entries here.
            return HintedIndex({})
        leaves_out = bool(own) and (own[0].is_partial or own[0].spec["sparse"])
        return HintedIndex(spec["key"], own[0].spec if leaves_out else None)
    raise MongoError(
        2,
        "error processing query: planner returned error :: caused by :: hint provided does not correspond to an existing index",
    )


def goes_backwards(order: Mapping[str, Any], hint: Any) -> bool | None:
    """Whether a sort is by natural order from its end; None if it is not by natural order.

    Raises:
        MongoError: 2, its direction is invalid, it has other fields, or the hint has another order.
    """
    if NATURAL not in order:
        return None
    if len(order) > 1:
        raise MongoError(2, f"Cannot include '{NATURAL}' in compound sort: {dict(order)}")
    way = order[NATURAL]
    if not is_number(way) or whole(way) not in (1, -1):
        raise MongoError(2, f"{NATURAL} sort cannot be set to a value other than -1 or 1.")
    if hint or hint == "":
        if not isinstance(hint, Mapping) or NATURAL not in hint:
            raise MongoError(2, f"index hint not allowed with {NATURAL} sort order")
        if _goes_down(hint[NATURAL]) != _goes_down(way):
            raise MongoError(
                2, f"{NATURAL} hint must be in the same direction as {NATURAL} sort order: {dict(hint)}"
            )
    return _goes_down(way)


def check_bounds(command: Mapping[str, Any]) -> bool:
    """Whether a find has bounds in an index.

    Raises:
        MongoError: 51173, it names no index; 51176, the bounds are of other fields than each other; 14.
    """
    least, most = command.get("min") or {}, command.get("max") or {}
    for name, bound in (("min", least), ("max", most)):
        if not isinstance(bound, Mapping):
            raise MongoError(14, f"BSON field 'find.{name}' is the wrong type, expected type 'object'")
    if not least and not most:
        return False
    if not command.get("hint"):
        raise MongoError(51173, "When using min()/max() a hint of which index to use must be provided")
    if least and most and list(least) != list(most):
        raise MongoError(51176, "min and max have to have the same field names in the same order")
    return True


class IndexWalk:
    """The documents of a find in the order of an index. See the head of this file."""

    def __init__(self, index: HintedIndex, command: Mapping[str, Any]) -> None:
        """
        Raises:
            MongoError: 51174, the bounds have other fields than the index; 51175, the upper bound is not above the lower bound.
        """
        self._index = index
        self._least = self._bound(command.get("min"))
        self._most = self._bound(command.get("max"))
        if self._least is not None and self._most is not None and not self._least < self._most:
            raise MongoError(51175, "max() must be greater than min()")

    def _bound(self, given: Mapping[str, Any] | None) -> tuple[Any, ...] | None:
        if not given:
            return None
        if list(given) != list(self._index.pattern):
            raise MongoError(51174, "The index chosen is not compatible with min/max")
        return self._index.place(list(given.values()))

    def documents(self, documents: Iterable[Document]) -> Iterator[Document]:
        """The documents with an entry within the bounds, in the order of the index."""
        return self.rows(documents, lambda document: document)

    def rows(self, rows: Iterable[Row], document_of: Callable[[Row], Document]) -> Iterator[Row]:
        """The same for rows; `document_of` returns a row's document."""
        if not self._index.pattern:
            yield from reversed(list(rows)) if self._index.is_backwards else rows
            return
        placed = []
        for row in rows:
            entries = self._index.entries(document_of(row))
            places = list(filter(self._is_within, map(self._index.place, entries)))
            if places:
                placed.append((min(places), row))
        placed.sort(key=_place)
        yield from (row for _, row in placed)

    def _is_within(self, place: tuple[Any, ...]) -> bool:
        return (self._least is None or not place < self._least) and (self._most is None or place < self._most)

    def key_of(self, document: Document) -> Document:
        """A document's fields of the index, in the form of `returnKey`."""
        entries = {self._index.place(entry): entry for entry in self._index.entries(document)}
        within = [place for place in entries if self._is_within(place)]
        entry = entries[min(within)] if within else ()
        return {
            name: value
            for name, value in zip(self._index.pattern, entry, strict=False)
            if value is not MISSING
        }


def _place(placed: tuple[tuple[Any, ...], Any]) -> tuple[Any, ...]:
    return placed[0]
