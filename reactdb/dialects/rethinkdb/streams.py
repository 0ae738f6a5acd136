"""Streams: feeds as a query describes them, and what can happen to each element on its way.

A stage takes one element and gives those that come of it, so that the same stages serve a table that is read and a feed that
never ends. What needs all elements at once is no stage, and is refused on a feed.

Rule of this file: stages know nothing of terms; they are given Python functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from reactdb.dialects.rethinkdb.values import Sequence, StageFactory
from reactdb.query import Query

# Notes of a response that belongs to a feed.
SEQUENCE_FEED, ATOM_FEED, ORDER_BY_LIMIT_FEED, UNIONED_FEED, INCLUDES_STATES = 1, 2, 3, 4, 5
NOTHING: Final[tuple[Any, ...]] = ()


@dataclass(frozen=True, slots=True)
class FeedMember:
    """One feed, or the elements of something that ends; and what happens to them before they join the others.

    Attributes:
        query, options: Of a feed: the query to watch, and options of `Selection.changes` by name.
        elements: Otherwise: gives the elements.
        squash_s: Seconds that the server waits with each batch but the first.
    """

    query: Query | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    elements: Callable[[], Iterator[Any]] | None = None
    stages: tuple[StageFactory, ...] = ()
    squash_s: float = 0.0


@dataclass(frozen=True, slots=True)
class FeedPlan:
    """What a feed is made of, and what the driver is told about its kind."""

    members: tuple[FeedMember, ...]
    kind: int
    has_states: bool = False

    @property
    def notes(self) -> list[int]:
        return [self.kind, INCLUDES_STATES] if self.has_states else [self.kind]


def united(sequences: Iterable[tuple[Sequence, Callable[[], Iterator[Any]]]]) -> FeedPlan:
    """The union of feeds and of sequences that end. States are not merged: each feed tells its own."""
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
            FeedMember(one.query, one.options, one.elements, (*one.stages, *sequence.stages), one.squash_s)
            for one in sequence.feed.members
        )
    kind = kinds.pop() if len(kinds) == 1 else UNIONED_FEED
    return FeedPlan(tuple(members), kind, has_states)


# ---------------------------------------------------------------------------------------------------------------
# Stages


class Mapped:
    """Each element becomes a value."""

    is_done = False

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def push(self, element: Any) -> Iterable[Any]:
        return (self._function(element),)


class Filtered:
    """Only elements that pass."""

    is_done = False

    def __init__(self, test: Callable[[Any], bool]) -> None:
        self._test = test

    def push(self, element: Any) -> Iterable[Any]:
        return (element,) if self._test(element) else NOTHING


class Flattened:
    """Each element becomes those of a sequence."""

    is_done = False

    def __init__(self, function: Callable[[Any], Iterable[Any]]) -> None:
        self._function = function

    def push(self, element: Any) -> Iterable[Any]:
        return self._function(element)


class Sliced:
    """Elements from one place to another; None for no end."""

    def __init__(self, start: int, stop: int | None) -> None:
        self._start = start
        self._stop = stop
        self._place = 0
        self.is_done = stop is not None and stop <= start

    def push(self, element: Any) -> Iterable[Any]:
        place = self._place
        self._place = place + 1
        if self._stop is not None and place + 1 >= self._stop:
            self.is_done = True
        return (element,) if place >= self._start and (self._stop is None or place < self._stop) else NOTHING


class OffsetsOf:
    """The places of the elements that pass."""

    is_done = False

    def __init__(self, test: Callable[[Any], bool]) -> None:
        self._test = test
        self._place = -1

    def push(self, element: Any) -> Iterable[Any]:
        self._place += 1
        return (self._place,) if self._test(element) else NOTHING


class Folded:
    """An accumulator that takes in each element, and what is emitted on the way."""

    is_done = False

    def __init__(
        self, base: Any, join: Callable[[Any, Any], Any], emit: Callable[[Any, Any, Any], Iterable[Any]]
    ) -> None:
        self.result = base
        self._join = join
        self._emit = emit

    def push(self, element: Any) -> Iterable[Any]:
        before, self.result = self.result, self._join(self.result, element)
        return self._emit(before, element, self.result)
