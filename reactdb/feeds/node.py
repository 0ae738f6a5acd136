"""Node: one view, shared by all who subscribed to equal queries: it is advanced once for a change, however many they are.

Rule of this file: not thread safe; the hub holds the publish lock.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from reactdb.feeds.subscription import Subscription
from reactdb.feeds.view import AnyDelta, View


class Node:
    """One view and those who subscribed to its result.

    Attributes:
        key: What equal queries have in common.
        seq: The newest change that the view has taken in, or was seeded with.
    """

    __slots__ = ("_one", "_others", "key", "seq", "view")

    def __init__(self, key: Hashable, view: View, seq: int) -> None:
        self.key = key
        self.view = view
        self.seq = seq
        # Most views have one subscriber, and a dict for it would take more room than the subscription.
        self._one: Subscription | None = None
        self._others: dict[Subscription, None] | None = None

    @property
    def subscriptions(self) -> list[Subscription]:
        """A copy: who is told may leave."""
        found = [] if self._one is None else [self._one]
        if self._others:
            found += self._others
        return found

    def offer(self, deltas: Sequence[AnyDelta], seq: int) -> bool:
        """Tell all of them what the change `seq` does. False: not all could take it."""
        took = True
        if self._one is not None:
            try:
                took = self._one.offer(deltas, seq)
            except Exception as error:
                took = self._one.fail(error)
        if self._others:
            for subscription in self._others:
                try:
                    took &= subscription.offer(deltas, seq)
                except Exception as error:
                    took = subscription.fail(error)
        return took

    @property
    def is_empty(self) -> bool:
        return self._one is None and not self._others

    def __len__(self) -> int:
        return (self._one is not None) + len(self._others or ())

    def add(self, subscription: Subscription) -> None:
        if self._one is None:
            self._one = subscription
        else:
            if self._others is None:
                self._others = {}
            self._others[subscription] = None

    def remove(self, subscription: Subscription) -> None:
        if self._one is subscription:
            self._one = None
        elif self._others is not None:
            self._others.pop(subscription, None)
