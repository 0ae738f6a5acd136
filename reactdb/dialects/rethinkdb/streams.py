"""Streams: feeds as a query describes them, and the operators that only ReQL has.

The operators of `reactdb.steps` and these serve a table that is read and a feed that never ends. A term that needs all elements
at once is no operator, and is refused on a feed.

Rule of this file: operators know nothing of terms; they are given Python functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from reactdb.dialects.rethinkdb.values import MakeOperator, Sequence
from reactdb.query import Query

# Notes of a response that belongs to a feed.
SEQUENCE_FEED, ATOM_FEED, ORDER_BY_LIMIT_FEED, UNIONED_FEED, INCLUDES_STATES = 1, 2, 3, 4, 5


@dataclass(frozen=True, slots=True)
class FeedMember:
    """One feed, or a sequence that ends, as a member of a union; with the operators for its elements.

    Attributes:
        query, options: For a feed: the query to watch, and options of `Selection.changes` by name.
        elements: For a sequence that ends: gives its elements.
        squash_s: Seconds that the server waits before each batch but the first.
    """

    query: Query | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    elements: Callable[[], Iterator[Any]] | None = None
    operators: tuple[MakeOperator, ...] = ()
    squash_s: float = 0.0


@dataclass(frozen=True, slots=True)
class FeedPlan:
    """The members of a feed, and the notes by which the driver learns its kind."""

    members: tuple[FeedMember, ...]
    kind: int
    has_states: bool = False

    @property
    def notes(self) -> list[int]:
        return [self.kind, INCLUDES_STATES] if self.has_states else [self.kind]


def united(sequences: Iterable[tuple[Sequence, Callable[[], Iterator[Any]]]]) -> FeedPlan:
    """The union of feeds and of sequences that end. States are not merged: each feed sends its own."""
    members: list[FeedMember] = []
    kinds: set[int] = set()
    has_states = False
    for sequence, read in sequences:
        if sequence.feed is None:
            members.append(FeedMember(elements=read))
            continue
        kinds.add(sequence.feed.kind)
        has_states = has_states or sequence.feed.has_states
        members.extend(
            FeedMember(
                one.query, one.options, one.elements, (*one.operators, *sequence.operators), one.squash_s
            )
            for one in sequence.feed.members
        )
    kind = kinds.pop() if len(kinds) == 1 else UNIONED_FEED
    return FeedPlan(tuple(members), kind, has_states)


# ---------------------------------------------------------------------------------------------------------------
# Operators that ReQL has and native queries have not


class OffsetsOf:
    """The positions of the elements that pass a test."""

    is_finished = False

    def __init__(self, test: Callable[[Any], bool]) -> None:
        self._test = test
        self._position = -1

    def over(self, elements: Iterable[Any]) -> Iterator[Any]:
        for element in elements:
            self._position += 1
            if self._test(element):
                yield self._position


class Fold:
    """An accumulator that takes in each element, and what is emitted on the way."""

    is_finished = False

    def __init__(
        self, base: Any, join: Callable[[Any, Any], Any], emit: Callable[[Any, Any, Any], Iterable[Any]]
    ) -> None:
        self.result = base
        self._join = join
        self._emit = emit

    def over(self, elements: Iterable[Any]) -> Iterator[Any]:
        for element in elements:
            before, self.result = self.result, self._join(self.result, element)
            yield from self._emit(before, element, self.result)
