"""Intervals: finds the ranges that hold a given value, in time that depends on the number of matches.

Ranges are kept sorted by their start, with a tree of the greatest stops over them: among the ranges that start at or
before the value, the tree leads to those that stop after it, without a look at the others. A few new ranges wait in a
list until there are enough to be worth sorting in, and removed ranges are skipped until there are many.

Rule of this file: bytes and opaque tokens. It is not thread safe; the router holds the lock.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Generic, TypeVar

T = TypeVar("T")

# New ranges that are checked singly, at least, before all are sorted again.
_FEW = 32


class Intervals(Generic[T]):
    """Ranges with start <= value < stop, each with an item.

    Attributes:
        lowest, highest: No range holds a value below `lowest`, or from `highest` on.
    """

    __slots__ = (
        "_entries",
        "_is_stale",
        "_next",
        "_recent",
        "_starts",
        "_tokens",
        "_tree",
        "_width",
        "highest",
        "lowest",
    )

    def __init__(self) -> None:
        self.lowest = self.highest = b""
        self._entries: dict[int, tuple[bytes, bytes, T]] = {}
        self._next = 0
        self._recent: list[int] = []
        # There are so many new or removed ranges that the next search sorts first.
        self._is_stale = False
        self._starts: list[bytes] = []
        self._tokens: list[int] = []
        # A full binary tree as in a heap: the leaves, from `_width` on, are the stops in the order of the starts.
        self._tree: list[bytes] = []
        self._width = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, start: bytes, stop: bytes, item: T) -> int:
        """Returns a token to remove it by."""
        token = self._next
        self._next += 1
        if self._entries:
            self.lowest, self.highest = min(start, self.lowest), max(stop, self.highest)
        else:
            self.lowest, self.highest = start, stop
        self._entries[token] = (start, stop, item)
        self._recent.append(token)
        if len(self._recent) > _FEW + len(self._tokens) // 16:
            self._is_stale = True
        return token

    def remove(self, token: int) -> None:
        self._entries.pop(token, None)
        if not self._entries:
            self.lowest = self.highest = b""
        if len(self._tokens) > 2 * len(self._entries) + _FEW:
            self._is_stale = True

    def items(self) -> list[T]:
        """The items of all ranges, in no order."""
        return [item for _, _, item in self._entries.values()]

    def find(self, value: bytes, items: list[T]) -> None:
        """Add the items of all ranges that hold the value to `items`, in no order."""
        if self._is_stale:
            self._sort()
        entries = self._entries
        for token in self._recent:
            entry = entries.get(token)
            if entry is not None and entry[0] <= value < entry[1]:
                items.append(entry[2])
        if self._tokens:
            self._search(value, items)

    def _search(self, value: bytes, items: list[T]) -> None:
        """Leaves before `end` start in time; go down only where some stop is late enough."""
        end = bisect_right(self._starts, value)
        tree, width, tokens, entries = self._tree, self._width, self._tokens, self._entries
        # (node, its first leaf, the number of its leaves)
        pending = [(1, 0, width)]
        while pending:
            node, first, count = pending.pop()
            if first >= end or tree[node] <= value:
                continue
            if count == 1:
                entry = entries.get(tokens[first])
                if entry is not None:
                    items.append(entry[2])
                continue
            half = count // 2
            pending.append((2 * node + 1, first + half, half))
            pending.append((2 * node, first, half))

    def _sort(self) -> None:
        self._tokens = sorted(self._entries, key=lambda token: self._entries[token][0])
        self._starts = [self._entries[token][0] for token in self._tokens]
        self._recent = []
        self._is_stale = False
        width = 1
        while width < len(self._tokens):
            width *= 2
        stops = [self._entries[token][1] for token in self._tokens]
        self.lowest, self.highest = min(self._starts, default=b""), max(stops, default=b"")
        tree = [b""] * width + stops + [b""] * (width - len(stops))
        for node in range(width - 1, 0, -1):
            tree[node] = max(tree[2 * node], tree[2 * node + 1])
        self._tree, self._width = tree, width
