"""Edits: the shortest path from one ordered list to another, as deletes and inserts with offsets.

A reader holds the last delivered list. Its next deltas must, item by item, delete at `old_offset` and then insert at
`new_offset`, and end with the present list, whatever happened in between.

    left the list        delete          paired with an arrival where there is one: the list never grows past its limit
    came into it         insert
    changed its rank     delete and insert
    changed its value    delete and insert at the same offset

The longest sequence of elements that keep their values and their order stays, so no event reports an unchanged element.

Where the caller knows the changes behind the items, the items come in the order of these changes. So the items of one
commit have the order of its writes, whether its changes are delivered one by one or as a net difference.

Rule of this file: lists in, items out. It knows neither feeds nor documents.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, Protocol


class Element(Protocol):
    """The element at one offset."""

    @property
    def identity(self) -> Hashable:
        """The name of the element: in one list, no two elements have the same."""

    @property
    def value(self) -> Any:
        """The value for the reader."""


class Edit(NamedTuple):
    """Delete `leaving` at `old_offset`, then insert `entering` at `new_offset`; either may be None, with its offset."""

    old_offset: int | None
    new_offset: int | None
    leaving: Element | None
    entering: Element | None


def of_one_change(element: Any) -> int:
    return 0


def compute_edits(
    before: Sequence[Element],
    after: Sequence[Element],
    same: Callable[[Any, Any], bool],
    moment_of: Callable[[Any], int] = of_one_change,
) -> list[Edit]:
    """The items that turn `before` into `after`, as few as possible, in the order of their changes.

    Args:
        same: Compares values.
        moment_of: The seq of the change by which an element of `before` left its place, or an element of `after` took
            its place.
    """

    def is_unchanged(old: Element, new: Element) -> bool:
        return old is new or (old.identity == new.identity and same(old.value, new.value))

    start = 0
    shorter = min(len(before), len(after))
    while start < shorter and is_unchanged(before[start], after[start]):
        start += 1
    end = 0
    while end < shorter - start and is_unchanged(before[-1 - end], after[-1 - end]):
        end += 1
    old = before[start : len(before) - end]
    new = after[start : len(after) - end]
    return _Script(old, new, start, same, moment_of).items() if old or new else []


class _Script:
    """The edits of the middle part, worked out by carrying them out on `current`."""

    def __init__(
        self,
        old: Sequence[Element],
        new: Sequence[Element],
        offset: int,
        same: Callable[[Any, Any], bool],
        moment_of: Callable[[Any], int],
    ) -> None:
        self.old = {element.identity: element for element in old}
        self.new = new
        self.rank = {element.identity: rank for rank, element in enumerate(new)}
        self.offset = offset
        self.same = same
        self.moment_of = moment_of
        self.current: list[Hashable] = [element.identity for element in old]
        # Ranks of the elements that are in the right order relative to each other.
        self.settled = self._find_unmoved()
        self._edits: list[Edit] = []

    def _find_unmoved(self) -> list[int]:
        """The most elements that can stay among those with an unchanged value: each other element costs an item,
        wherever it is. Then the changed elements that fit between them."""
        staying = [self.rank[identity] for identity in self.current if identity in self.rank]
        kept = find_longest_rise([rank for rank in staying if not self._is_altered(rank)])
        ranks, following, last = [], iter([*kept, len(self.new)]), -1
        bound = next(following)
        for rank in staying:
            if rank == bound:
                bound = next(following)
            elif not (last < rank < bound and self._is_altered(rank)):
                continue
            ranks.append(rank)
            last = rank
        return ranks

    def _is_altered(self, rank: int) -> bool:
        new = self.new[rank]
        return not self.same(self.old[new.identity].value, new.value)

    def items(self) -> list[Edit]:
        settled = set(self.settled)
        gone = [identity for identity in self.current if identity not in self.rank]
        arrived = [element.identity for element in self.new if element.identity not in self.old]
        moved = [
            identity
            for identity in self.current
            if identity in self.rank and self.rank[identity] not in settled
        ]
        altered = {self.new[rank].identity for rank in self.settled if self._is_altered(rank)}
        pairs, gone, arrived = self._paired(gone, arrived)
        # The list never grows past its limit: unpaired elements either all leave or all enter.
        moves: list[tuple[Hashable, Hashable]] = [
            *((identity, None) for identity in gone),
            *pairs,
            *((identity, identity) for identity in moved),
            *((identity, identity) for identity in self.current if identity in altered),
            *((None, identity) for identity in arrived),
        ]
        for leaving, entering in sorted(moves, key=self._moment_of_move):
            if entering in altered:
                place = self.current.index(entering) + self.offset
                self._edits.append(Edit(place, place, self.old[entering], self.new[self.rank[entering]]))
            else:
                self._edit(leaving, entering)
        return self._edits

    def _paired(
        self, gone: Sequence[Hashable], arrived: Sequence[Hashable]
    ) -> tuple[list[tuple[Hashable, Hashable]], list[Hashable], list[Hashable]]:
        """Pair each leaving element with an entering one: first those of the same change, then others. Returns the
        pairs, and the elements without a partner."""
        waiting: defaultdict[int, deque[Hashable]] = defaultdict(deque)
        for entering in arrived:
            waiting[self._moment_entered(entering)].append(entering)
        pairs: list[tuple[Hashable, Hashable]] = []
        alone: list[Hashable] = []
        for leaving in gone:
            partners = waiting[self._moment_left(leaving)]
            if partners:
                pairs.append((leaving, partners.popleft()))
            else:
                alone.append(leaving)
        alone.sort(key=self._moment_left)
        rest = [entering for moment in sorted(waiting) for entering in waiting[moment]]
        count = min(len(alone), len(rest))
        pairs += zip(alone, rest[:count], strict=False)
        return pairs, alone[count:], rest[count:]

    def _moment_left(self, identity: Hashable) -> int:
        return self.moment_of(self.old[identity])

    def _moment_entered(self, identity: Hashable) -> int:
        return self.moment_of(self.new[self.rank[identity]])

    def _moment_of_move(self, move: tuple[Hashable, Hashable]) -> int:
        leaving, entering = move
        if entering is None:
            return self._moment_left(leaving)
        if leaving is None or leaving == entering:
            return self._moment_entered(entering)
        return max(self._moment_left(leaving), self._moment_entered(entering))

    def _edit(self, leaving: Hashable, entering: Hashable) -> None:
        old_offset = new_offset = None
        if leaving is not None:
            place = self.current.index(leaving)
            del self.current[place]
            old_offset = place + self.offset
        if entering is not None:
            place = self._place_for(self.rank[entering])
            self.current.insert(place, entering)
            insort(self.settled, self.rank[entering])
            new_offset = place + self.offset
        self._edits.append(
            Edit(
                old_offset,
                new_offset,
                None if leaving is None else self.old[leaving],
                None if entering is None else self.new[self.rank[entering]],
            )
        )

    def _place_for(self, rank: int) -> int:
        """The place behind the nearest earlier element that is in the right order."""
        place = bisect_left(self.settled, rank)
        if place == 0:
            return 0
        return self.current.index(self.new[self.settled[place - 1]].identity) + 1


def find_longest_rise(numbers: Sequence[int]) -> list[int]:
    """A longest increasing row of different numbers, in their order (patience sorting)."""
    tails: list[int] = []
    tail_places: list[int] = []
    previous: list[int] = []
    for place, number in enumerate(numbers):
        pile = bisect_left(tails, number)
        previous.append(tail_places[pile - 1] if pile else -1)
        if pile == len(tails):
            tails.append(number)
            tail_places.append(place)
        else:
            tails[pile] = number
            tail_places[pile] = place
    rise: list[int] = []
    place = tail_places[-1] if tail_places else -1
    while place >= 0:
        rise.append(numbers[place])
        place = previous[place]
    rise.reverse()
    return rise
