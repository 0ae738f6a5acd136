"""Difference: the edits that turn one list of documents into another, for a list that has read its result again.

Elements are matched by identity: the primary key of a document, or the value itself where it has none. An element that
is in both lists and in the same order stays; so as few as possible move. Removals come first, from the end on, and then
the new list is made from its beginning on. The list is never longer than the longer of the two.

Rule of this file: lists in, edits out, in n log n steps. (`edits` is for few edits of a commit, and pairs them.)
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from reactdb.feeds.edits import find_longest_rise
from reactdb.feeds.pipeline import same_value
from reactdb.values import codec, collation

Event = dict[str, Any]


def identify(documents: Sequence[Any], primary_key: str) -> list[Hashable]:
    """The identities of the elements of a list. Two equal ones are told apart by their number."""
    seen: dict[Hashable, int] = {}
    identities: list[Hashable] = []
    for document in documents:
        identity = _identity_of(document, primary_key)
        copy = seen.get(identity, 0)
        seen[identity] = copy + 1
        identities.append((identity, copy))
    return identities


def _identity_of(document: Any, primary_key: str) -> Hashable:
    if isinstance(document, dict) and primary_key in document:
        return collation.key_bytes(document[primary_key])
    try:
        # An object of a table with a type.
        return collation.key_bytes(getattr(document, primary_key))
    except Exception:
        pass
    try:
        return (codec.encode_value(document),)
    except Exception:
        # An expression may give a value that no document could hold. Such a value is never the same as another one.
        return id(document)


def compute_difference(
    old: Sequence[Any],
    new: Sequence[Any],
    old_identities: Sequence[Hashable],
    new_identities: Sequence[Hashable],
    origin: str | None = None,
) -> list[Event]:
    """The edits, as a feed with offsets and origins has them: each deletes at `old_offset`, then inserts at `new_offset`."""
    edits: list[Event] = []

    def add(old_offset: int | None, new_offset: int | None, old_val: Any, new_val: Any) -> None:
        edits.append(
            {
                "old_val": old_val,
                "new_val": new_val,
                "old_offset": old_offset,
                "new_offset": new_offset,
                "origin": origin,
            }
        )

    new_ranks = {identity: rank for rank, identity in enumerate(new_identities)}
    # The elements that are in both lists, in the old order: (rank in the new list, old value).
    common: list[tuple[int, Any]] = []
    for offset in range(len(old) - 1, -1, -1):
        rank = new_ranks.get(old_identities[offset])
        if rank is None:
            add(offset, None, old[offset], None)
        else:
            common.append((rank, old[offset]))
    common.reverse()
    kept = set(find_longest_rise([rank for rank, _ in common]))
    places = {rank: place for place, (rank, _) in enumerate(common)}
    present = _Present(len(common)) if len(kept) < len(common) else None
    # The place, among the common ones, of the last element that has not moved; the new list grows behind it.
    anchor = -1
    for rank, new_val in enumerate(new):
        place = places.get(rank)
        if place is not None and rank in kept:
            anchor = place
            old_val = common[place][1]
            if not same_value(old_val, new_val):
                offset = rank if present is None else present.count_before(place)
                add(offset, offset, old_val, new_val)
            continue
        old_offset = None
        if place is not None:
            assert present is not None
            old_offset = present.count_before(place)
            present.add(place, -1)
        new_offset = rank
        if present is not None:
            new_offset = present.count_before(anchor + 1)
            present.add(anchor, 1)
        add(old_offset, new_offset, None if place is None else common[place][1], new_val)
    return edits


class _Present:
    """How many elements the list has before a place, while some are taken out and others put in: a tree of sums (Fenwick's).

    An element that is put in counts at the place of the element behind which it was put; -1: at the beginning.
    """

    def __init__(self, count: int) -> None:
        # The beginning has place 0 here, and no element of its own.
        self._sums = [0] * (count + 2)
        for place in range(count):
            self.add(place, 1)

    def add(self, place: int, count: int) -> None:
        at = place + 2
        while at < len(self._sums):
            self._sums[at] += count
            at += at & -at

    def count_before(self, place: int) -> int:
        """Elements at lower places."""
        at, total = place + 1, 0
        while at > 0:
            total += self._sums[at]
            at -= at & -at
        return total
