"""Aggregates: one value from all documents, or one from each group.

Rule of this file: each aggregate takes documents in parts, so that several aggregates need only one pass over them.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, Protocol

from reactdb.documents.steps import number_of, sort_key_of
from reactdb.query import Aggregate, Aggregates

# Documents that every one of several aggregates takes in turn: few enough to be in the processor's cache.
PART = 256


def aggregate(step: Aggregate, documents: Any) -> Any:
    """One value from all; from groups, a list of `{"group", "reduction"}`.

    The sum of nothing is 0; avg, min and max of nothing give None (ReQL raises; a live view needs a value for an empty table).
    A document where the field is missing, or null for sum and avg, does not take part.
    """
    if isinstance(documents, dict):
        return [
            {"group": value, "reduction": aggregate(step, members)} for value, members in documents.values()
        ]
    if not isinstance(step, Aggregates):
        so_far = aggregate_so_far(step)
        so_far.take(documents)
        return so_far.result
    several = [(name, aggregate_so_far(part)) for name, part in step.parts]
    elements = iter(documents)
    while part := list(islice(elements, PART)):
        for _, so_far in several:
            so_far.take(part)
    return {name: so_far.result for name, so_far in several}


class AggregateSoFar(Protocol):
    """An aggregate of the documents so far."""

    def take(self, documents: Iterable[Any]) -> None:
        """Raises: QueryError: A document cannot take part, such as a text in a sum."""

    @property
    def result(self) -> Any: ...


def aggregate_so_far(step: Aggregate) -> AggregateSoFar:
    """One aggregate of no documents yet."""
    if step.kind == "count":
        return CountSoFar()
    return ExtremeSoFar(step) if step.kind in ("min", "max") else SumSoFar(step)


class CountSoFar:
    """How many."""

    __slots__ = ("result",)

    def __init__(self) -> None:
        self.result = 0

    def take(self, documents: Iterable[Any]) -> None:
        self.result += len(documents) if isinstance(documents, (list, range)) else sum(1 for _ in documents)


class SumSoFar:
    """The sum of a field, or its mean."""

    __slots__ = ("_is_mean", "_number", "_total")

    def __init__(self, step: Aggregate) -> None:
        # Imported here because only sums need fractions.
        from reactdb.values.totals import Total

        self._is_mean = step.kind == "avg"
        self._number = number_of(step)
        self._total = Total()

    def take(self, documents: Iterable[Any]) -> None:
        number, total = self._number, self._total
        for document in documents:
            value = number(document)
            if value is not None:
                total.add(value)

    @property
    def result(self) -> Any:
        return self._total.mean if self._is_mean else self._total.sum


class ExtremeSoFar:
    """The first of the documents with the least, or the greatest, value."""

    __slots__ = ("_is_min", "_key", "_key_of", "result")

    def __init__(self, step: Aggregate) -> None:
        self._is_min = step.kind == "min"
        self._key_of = sort_key_of(step.expression)
        self._key: bytes | None = None
        self.result: Any = None

    def take(self, documents: Iterable[Any]) -> None:
        key_of, is_min, best = self._key_of, self._is_min, self._key
        for document in documents:
            key = key_of(document)
            if key is not None and (best is None or (key < best if is_min else key > best)):
                best, self.result = key, document
        self._key = best
