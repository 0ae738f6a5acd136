"""Streams: descriptions of feeds, and operators that only ReQL has.

The operators of `reactdb.documents.steps` and of this file work on a table's documents and on an endless feed. A term that needs
all elements at once is not an operator, and is refused on a feed.

Rule of this file: operators know nothing of terms; they get Python functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from reactdb.dialects.rethinkdb.values import MakeOperator, Sequence
from reactdb.query import Query

# The notes in the responses of a feed.
SEQUENCE_FEED, ATOM_FEED, ORDER_BY_LIMIT_FEED, UNIONED_FEED, INCLUDES_STATES = 1, 2, 3, 4, 5


@dataclass(frozen=True, slots=True)
class FeedMember:
    """One feed, or a finite sequence, as a member of a union, with the operators for its elements.

    Attributes:
        query, options: For a feed: the query to watch, and options of `Selection.changes` by name.
        elements: For a finite sequence: returns its elements.
        squash_s: How many seconds the server waits before each batch but the first.
    """

    query: Query | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    elements: Callable[[], Iterator[Any]] | None = None
    operators: tuple[MakeOperator, ...] = ()
    squash_s: float = 0.0


@dataclass(frozen=True, slots=True)
class FeedPlan:
    """The members of a feed, and the notes that name the kind of feed for the driver."""

    members: tuple[FeedMember, ...]
    kind: int
    has_states: bool = False

    @property
    def notes(self) -> list[int]:
        return [self.kind, INCLUDES_STATES] if self.has_states else [self.kind]


def unite(sequences: Iterable[tuple[Sequence, Callable[[], Iterator[Any]]]]) -> FeedPlan:
    """The union of feeds and of finite sequences. Each feed sends its own states; they are not merged."""
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
# Operators that native queries lack


class OffsetsOf:
    """Yields the positions of elements that pass a test."""

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
    """Feeds each element to an accumulator, and yields the query's values for it."""

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
