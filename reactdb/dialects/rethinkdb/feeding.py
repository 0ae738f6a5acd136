"""FeedReader: one open feed of one connection, with its subscriptions, their operators, and the time of the next batch.

RethinkDB's feeds are pulled: a change waits in the server until the driver asks for the next batch, and is squashed
meanwhile. So reactdb's subscriptions are polled here, not pushed; with `squash=n` every batch but the first waits n
seconds after the request, or until the queue is half full.

The owner polls it after `wake`, and at the moment `due_at`, whether or not something is queued by then. That moment is
set by a request for a batch, and cleared when `items` has polled; nothing in between moves it.

Thread safety: `wake` from any thread; everything else from the session's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from reactdb.database import Database
from reactdb.dialects.rethinkdb.netting import DeltaRequest, Netting, is_limit
from reactdb.dialects.rethinkdb.streams import FeedMember, FeedPlan
from reactdb.dialects.rethinkdb.values import MakeOperator
from reactdb.feeds.subscription import ENDED, NOTHING, Subscription, Way
from reactdb.query import Query
from reactdb.steps import Run

# Clocks round, so a timer may fire so much too early.
EARLY_S: Final = 0.0005


class Member:
    """One feed of the union, or a sequence that ends."""

    def __init__(self, member: FeedMember, reader: FeedReader, database: Database) -> None:
        self.squash_s = member.squash_s
        self.run = Run(make() for make in member.operators)
        self.due_at = 0.0
        self.subscription: Subscription | None = None
        self.elements: Iterator[Any] | None = None
        self.queue_size = 0
        self._poll: Callable[[], Any] | None = None
        if member.query is None:
            assert member.elements is not None
            self.elements = member.elements()
        else:
            self._watch(member.query, member.options, reader, database)

    def _watch(
        self, query: Query, options: Mapping[str, Any], reader: FeedReader, database: Database
    ) -> None:
        session = database.session
        if options.get("squash") or not is_limit(query):
            self.subscription = session.subscribe(query, options, reader)
            self._poll = self.subscription.poll
        else:
            every = {**options, "include_offsets": True}
            self.subscription = session.subscribe(query, every, reader, DeltaRequest)
            table = session.find(query.table)
            self._poll = Netting(
                self.subscription,
                "id" if table is None else table.primary_key,
                has_offsets=bool(options.get("include_offsets")),
                has_types=bool(options.get("include_types")),
            ).poll
        self.queue_size = self.subscription.request.options.queue_size

    def poll(self) -> Any:
        """The next event; NOTHING, ENDED."""
        if self.run.is_finished:
            return ENDED
        if self._poll is not None:
            return self._poll()
        assert self.elements is not None
        return next(self.elements, ENDED)

    def is_due(self, now: float) -> bool:
        if now + EARLY_S >= self.due_at:
            # The wait is over even if nothing is queued: the next change is then sent at once.
            self.due_at = 0.0
            return True
        subscription = self.subscription
        assert subscription is not None
        return 2 * subscription.queued > self.queue_size or subscription.end is not None

    def close(self) -> None:
        if self.subscription is not None:
            self.subscription.close()


class FeedReader:
    """See the head of this file. It is the Consumer of its subscriptions.

    Attributes:
        is_finished: Whether the feed has ended.
    """

    def __init__(
        self,
        plan: FeedPlan,
        operators: Iterable[MakeOperator],
        database: Database,
        wake: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self._wake = wake
        self._clock = clock
        self._run = Run(make() for make in operators)
        self._is_first = True
        self.notes = plan.notes
        self._members: list[Member] = []
        try:
            for member in plan.members:
                self._members.append(Member(member, self, database))
            for opened in self._members:
                if (
                    opened.subscription is not None
                    and not self._run.is_finished
                    and not opened.run.is_finished
                ):
                    opened.subscription.hub.attach(opened.subscription)
        except BaseException:
            self.close()
            raise

    # Consumer

    @property
    def way(self) -> Way:
        return "woken"

    def wake(self, subscription: Subscription) -> None:
        self._wake()

    def now(self) -> float:
        return self._clock()

    # -----------------------------------------------------------------------------------------------------------

    def asked(self) -> None:
        """Note that the driver has requested the next batch."""
        if self._is_first:
            self._is_first = False
            return
        now = self._clock()
        for member in self._members:
            if member.squash_s:
                member.due_at = now + member.squash_s

    def items(self) -> Iterator[Any]:
        """The elements that are available now, one by one.

        Raises:
            The error that ends the feed.
        """
        now = self._clock()
        for member in list(self._members):
            if not member.is_due(now):
                if member.subscription is not None:
                    # The subscription must wake it for further events, because the queue may become half full.
                    member.subscription.rest()
                continue
            yield from self._items_of(member)
            if self._run.is_finished:
                self.close()
                return

    def _items_of(self, member: Member) -> Iterator[Any]:
        if member.subscription is not None:
            member.subscription.rest()
        while True:
            event = member.poll()
            if event is NOTHING:
                return
            if event is ENDED:
                self._end(member)
                return
            for one in member.run.push(event):
                yield from self._run.push(one)
                if self._run.is_finished:
                    return

    def _end(self, member: Member) -> None:
        error = None if member.subscription is None else member.subscription.error
        self._members.remove(member)
        member.close()
        if error is not None:
            self.close()
            raise error

    @property
    def is_finished(self) -> bool:
        return not self._members or self._run.is_finished

    @property
    def due_at(self) -> float | None:
        """The earliest moment, by the given clock, at which a member has waited long enough; None if none waits."""
        return min((member.due_at for member in self._members if member.due_at), default=None)

    def close(self) -> None:
        """End all subscriptions."""
        for member in self._members:
            member.close()
        self._members = []
