"""OrderedQueue: squashing for results that are lists.

Offsets cannot be folded delta by delta: each counts in the list that the one before it left. So two lists are kept, the one that
the reader was last told and the present one, and what is told is the way from the one to the other (law 4).

Who asked for no offsets hears of values alone: what goes at one offset and comes at another is nothing to tell.

It needs no bound of its own: both lists are as long as the result. Rule of this file: as for `queue`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from reactdb.change import Change
from reactdb.feeds.edits import edits
from reactdb.feeds.pipeline import same_value
from reactdb.feeds.queue import net_sides, paired
from reactdb.feeds.views.base import AnyDelta, Delta, Initial


class Place:
    """What stands at one offset of a list that somebody was told.

    `name` is the view's, of the document; `identity` is this queue's. They are not the same, because a view need not tell that
    one document took the place of another with an equal value, so a name may be out of date, and be met twice.
    """

    __slots__ = ("identity", "name", "value")

    def __init__(self, name: Hashable, value: Any, identity: Hashable) -> None:
        self.name = name
        self.value = value
        self.identity = identity


class OrderedQueue:
    """The list last told and the list now."""

    __slots__ = ("_away", "_first", "_has_offsets", "_last", "_lock", "_now", "_steps", "_told", "dropped")

    is_squashed = True

    def __init__(self, items: Iterable[Initial], *, has_offsets: bool) -> None:
        # Re-entrant, because a finalizer may look at the queue while this very thread adds to it.
        self._lock = threading.RLock()
        self._told = [Place(item.identity, item.value, object()) for item in items]
        self._now = list(self._told)
        # Name -> identity of what left the list since it was told: if it comes back, it was only away.
        self._away: dict[Hashable, Hashable] = {}
        self._has_offsets = has_offsets
        self._first: Change | None = None
        self._last: Change | None = None
        self._steps = 0
        self.dropped = 0

    def __len__(self) -> int:
        return self._steps

    def has_room(self, deltas: Sequence[AnyDelta]) -> bool:
        return True

    def add(self, deltas: Sequence[AnyDelta]) -> None:
        with self._lock:
            for delta in deltas:
                assert isinstance(delta, Delta)
                if delta.old_offset is not None:
                    left = self._now.pop(delta.old_offset)
                    self._away[left.name] = left.identity
                if delta.new_offset is not None:
                    name = delta.identity
                    self._now.insert(
                        delta.new_offset, Place(name, delta.new_val, self._away.pop(name, None) or object())
                    )
                if self._first is None:
                    self._first = delta.change
                self._last = delta.change
                self._steps += 1

    put = add

    def take(self) -> deque[AnyDelta] | None:
        with self._lock:
            change, told, now = self._last, self._told, self._now
            if change is None:
                return None
            self._told, self._now = now, list(now)
            self._away = {}
            self._first = self._last = None
            self._steps = 0
        if len(told) == len(now) and all(
            old is new or same_value(old.value, new.value) for old, new in zip(told, now, strict=True)
        ):
            # Elements that look alike may have changed places: to the reader it is the list that it was.
            return None
        found: deque[AnyDelta] = deque()
        for edit in edits(told, now, same_value):
            old_val = None if edit.leaving is None else edit.leaving.value
            new_val = None if edit.entering is None else edit.entering.value
            # To who asked for no offsets, a null is no value: it comes and goes unseen.
            is_move = same_value(old_val, new_val)
            if is_move and (not self._has_offsets or edit.old_offset == edit.new_offset):
                # Another document, or another place, but to the reader the same.
                continue
            identity = edit.entering.identity if edit.entering is not None else None
            found.append(
                Delta(change, old_val, new_val, edit.old_offset, edit.new_offset, identity, is_move=is_move)
            )
        if not self._has_offsets:
            old, new = net_sides(found)
            if max(len(old), len(new)) < len(found):
                # As the last one moved up, say, where a null went and another came: the steps may have told of nothing.
                found = deque(paired(old, new))
        return found or None

    @property
    def first_seq(self) -> int | None:
        first = self._first
        return None if first is None else first.seq

    @property
    def first_time(self) -> int | None:
        first = self._first
        return None if first is None else first.time

    def clear(self) -> None:
        with self._lock:
            self._first = self._last = None
            self._steps = 0
