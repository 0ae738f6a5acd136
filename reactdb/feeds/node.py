"""Node: one view, shared by all who subscribed to equal queries: it is advanced once for a change, however many they are.

    the first      has a queue of its own: most views have one subscriber, who needs no more
    from two on    those who are told the same share a queue: see `fan` and `chain`
    others alone   have a queue each: who is told net differences, or must not lose a change, or has not begun yet

Rule of this file: not thread safe; the hub holds the publish lock.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from reactdb.change import Change
from reactdb.feeds.chain import Chain
from reactdb.feeds.events import Render
from reactdb.feeds.failures import Failures
from reactdb.feeds.fan import Fan
from reactdb.feeds.router import Lane
from reactdb.feeds.subscription import Subscription, without_moves
from reactdb.feeds.views.base import AnyDelta, Delta, View


class Node:
    """One view and those who subscribed to its result.

    Attributes:
        key: What equal queries have in common.
        seq: The newest change that the view has taken in, or was seeded with.
        failures: The documents that the view could not compute.
        lanes: Where it is found by a value that may fail to be computed; the documents that it fails for never come here.
        is_verbatim: Each change that it hears of is told as it is.
        direct: The only subscriber, where it takes every step as it comes; None elsewhere.
        is_called: It is a function that is called where the commit is told.
        sole: What all subscribers share; None where they do not.
    """

    __slots__ = (
        "_one",
        "_others",
        "_shared",
        "direct",
        "failures",
        "is_called",
        "is_verbatim",
        "key",
        "lanes",
        "seq",
        "sole",
        "view",
    )

    def __init__(self, key: Hashable, view: View, seq: int, failures: Failures) -> None:
        self.failures = failures
        self.lanes: Sequence[Lane[Node]] = ()
        self.key = key
        self.view = view
        self.seq = seq
        self.is_verbatim: bool = getattr(view, "is_verbatim", False)
        # A dict for it would take more room than the subscription.
        self._one: Subscription | None = None
        self._others: dict[Subscription, None] | None = None
        self._shared: dict[tuple[bool, bool, int, Render], Fan | Chain] | None = None
        self.direct: Subscription | None = None
        self.is_called = False
        self.sole: Fan | Chain | None = None

    @property
    def failed(self) -> int:
        """How many documents could not be computed, here or on the way here."""
        return self.failures.count + sum(lane.failed for lane in self.lanes)

    @property
    def subscriptions(self) -> list[Subscription]:
        """A copy: who is told may leave."""
        found = [] if self._one is None else [self._one]
        if self._others:
            found += self._others
        if self._shared:
            for shared in self._shared.values():
                found += shared.members
        return found

    def offer(self, deltas: Sequence[AnyDelta], seq: int) -> bool:
        """Tell all of them what the change `seq` does. False: not all could take it."""
        one = self.direct
        if one is not None and one.end is None and seq > one.since:
            # As `Subscription.offer` and `FeedQueue.add`, where nothing is to be left out or dropped.
            queue: Any = one.queue
            held = queue.held
            if held is not None and len(held) + len(deltas) <= queue.limit:
                for delta in deltas:
                    if type(delta) is Delta and delta.is_move:
                        break
                else:
                    held.extend(deltas)
                    if not one.is_woken:
                        one.is_woken = True
                        if self.is_called:
                            one.request.hub.is_ready(one)
                        else:
                            one.consumer.wake(one)
                    return True
        took = True
        if self._one is not None:
            try:
                took = self._one.offer(deltas, seq)
            except Exception as error:
                took = self._one.fail(error)
        if self._others:
            self._share_settled(seq)
            for subscription in self._others:
                try:
                    took &= subscription.offer(deltas, seq)
                except Exception as error:
                    took = subscription.fail(error)
        if self._shared:
            took &= self._publish(deltas)
        return took

    def offer_all(self, changes: Sequence[Change]) -> bool:
        """Tell all of them these changes of one commit, as if by `offer` one after the other. False: not all could take it."""
        took = True
        if self._one is not None:
            took = self._offer_all_to(self._one, changes)
        if self._others:
            self._share_settled(changes[0].seq)
            for subscription in self._others:
                took &= self._offer_all_to(subscription, changes)
        if self._shared:
            took &= self._publish(changes)
        return took

    @staticmethod
    def _offer_all_to(subscription: Subscription, changes: Sequence[Change]) -> bool:
        try:
            return subscription.offer_all(changes)
        except Exception as error:
            return subscription.fail(error)

    def _publish(self, deltas: Sequence[AnyDelta]) -> bool:
        took = True
        assert self._shared is not None
        for (_, has_moves, _, _), shared in self._shared.items():
            try:
                told = deltas if has_moves else without_moves(deltas)
                if told:
                    shared.publish(told)
            except Exception as error:
                took = self.fail_shared(shared, error)
        return took

    @staticmethod
    def fail_shared(shared: Fan | Chain, error: Exception) -> bool:
        """End those who share what failed. Returns False, as `offer`."""
        for subscription in shared.members:
            subscription.fail(error)
        return False

    def _share_settled(self, seq: int) -> None:
        """Those that were alone to begin with, and have begun."""
        assert self._others is not None
        settled = [one for one in self._others if one.may_share and one.is_settled(seq - 1)]
        if settled:
            self._take_the_long_way()
            for subscription in settled:
                self._share(subscription)
                del self._others[subscription]
            self._look()

    def _share(self, subscription: Subscription) -> None:
        if self._shared is None:
            self._shared = {}
        kind = subscription.kind
        shared = self._shared.get(kind)
        if shared is None:
            is_called, _, room, render = kind
            teller = subscription.request.hub.teller
            shared = self._shared[kind] = Fan(teller, render, room) if is_called else Chain(room)
        shared.add(subscription)

    @property
    def is_empty(self) -> bool:
        return self._one is None and not self._others and not self._shared

    def __len__(self) -> int:
        """For figures: any thread may ask, while others come and go."""
        count = (self._one is not None) + len(self._others or ())
        return count + sum([len(shared.members) for shared in list((self._shared or {}).values())])

    def add(self, subscription: Subscription, seq: int) -> None:
        """`seq` is the newest that was published.

        Ctrl-C may strike in any line: then somebody may be in two places, and is told so when he hears of it, but never in none.
        """
        self._take_the_long_way()
        one = self._one
        if one is None and not self._shared:
            self._one = subscription
        elif subscription.may_share and subscription.is_settled(seq):
            if one is not None and one.may_share and one.is_settled(seq) and one.kind == subscription.kind:
                self._share(one)
                self._one = None
            # Who looks before it sleeps need not be woken before that.
            subscription.is_woken = subscription.consumer.way == "looking"
            self._share(subscription)
        else:
            if self._others is None:
                self._others = {}
            self._others[subscription] = None
        self._look()

    def _look(self) -> None:
        """For those who go the shortest way."""
        one, shared = self._one, self._shared
        is_direct = one is not None and not self._others and not shared and one.may_share
        self.is_called = is_direct and one is not None and one.is_plain
        if is_direct:
            self.direct = one
        elif one is None and not self._others and shared and len(shared) == 1:
            (self.sole,) = shared.values()

    def _take_the_long_way(self) -> None:
        """Until it has been looked again who is there."""
        self.direct = self.sole = None

    def remove(self, subscription: Subscription) -> None:
        self._take_the_long_way()
        if self._one is subscription:
            self._one = None
        if self._others is not None:
            self._others.pop(subscription, None)
        if self._shared is not None:
            for kind, shared in list(self._shared.items()):
                if subscription in shared.members:
                    shared.remove(subscription)
                if shared.is_empty:
                    del self._shared[kind]
        self._look()
