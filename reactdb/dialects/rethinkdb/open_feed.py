"""OpenFeed: one open feed of one connection, with its readers, their operators, and the time of the next batch.

RethinkDB's feeds are pulled: a change waits in the server until the driver asks for the next batch, and is squashed
meanwhile. So reactdb's feeds are read here, not pushed; with `squash=n` every batch but the first waits n
seconds after the request, or until the queue is half full.

The owner polls it after `wake`, and at the moment `due_at`, even if nothing is queued by then. A request for a batch sets that
moment, and `items` clears it after polling; nothing in between moves it.

Thread safety: `wake` is called by any thread; everything else by the session's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from reactdb.database import Database
from reactdb.dialects.rethinkdb.commit_difference import DeltaRequest, Netting, is_limit
from reactdb.dialects.rethinkdb.keys import Show, shown_event, shown_part
from reactdb.dialects.rethinkdb.streams import FeedMember, FeedPlan
from reactdb.dialects.rethinkdb.values import MakeOperator
from reactdb.documents.steps import Run
from reactdb.feeds.reader import FeedReader
from reactdb.query import Query
from reactdb.session import session_of

# Clocks round, so a timer may fire so much too early.
EARLY_S: Final = 0.0005


class Member:
    """One feed of the union, or a finite sequence."""

    def __init__(
        self, member: FeedMember, database: Database, wake: Callable[[], None], clock: Callable[[], float]
    ) -> None:
        self.squash_s = member.squash_s
        self.run = Run(make() for make in member.operators)
        self.due_at = 0.0
        self._show: Show | None = None
        self._queue_size = member.options.get("changefeed_queue_size", 0)
        self._reader: FeedReader | None = None
        self._netting: Netting | None = None
        self._elements: Iterator[Any] = iter(())
        if member.query is None:
            assert member.elements is not None
            self._elements = member.elements()
        else:
            self._reader = self._watch(member.query, dict(member.options), database, wake, clock)

    def _watch(
        self,
        query: Query,
        options: dict[str, Any],
        database: Database,
        wake: Callable[[], None],
        clock: Callable[[], float],
    ) -> FeedReader:
        session = session_of(database)
        table = session.find(query.table)
        primary_key = "id" if table is None else table.primary_key
        self._show = shown_part(query, primary_key)
        if options.get("squash") or not is_limit(query):
            return session.reader(query, options, wake, clock, purpose="rethinkdb")
        self._netting = Netting(
            query,
            primary_key,
            has_offsets=bool(options.get("include_offsets")),
            has_types=bool(options.get("include_types")),
        )
        options |= {"include_offsets": True, "batches": True}
        return session.reader(query, options, wake, clock, DeltaRequest, "rethinkdb")

    def events(self) -> Iterator[Any]:
        """The present events, one by one.

        Raises:
            The error that ends the feed.
        """
        reader, netting = self._reader, self._netting
        if reader is None:
            yield from self._elements
            return
        # One by one, because the rest can still be squashed or dropped.
        while found := reader.poll(1):
            events = found if netting is None else netting.events(found[0])
            show = self._show
            yield from events if show is None else (shown_event(event, show) for event in events)

    @property
    def is_finished(self) -> bool:
        """No events come after those of `events`."""
        return self.run.is_finished or self._reader is None or self._reader.is_finished

    def is_due(self, now: float) -> bool:
        reader = self._reader
        if reader is None or now + EARLY_S >= self.due_at:
            # The wait is over even if nothing is queued: the next change is then sent at once.
            self.due_at = 0.0
            return True
        if 2 * reader.queued > self._queue_size or reader.is_ending:
            return True
        # The reader must call for further events, because the queue may become half full.
        reader.rest()
        return False

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()


class OpenFeed:
    """See the head of this file."""

    def __init__(
        self,
        plan: FeedPlan,
        operators: Iterable[MakeOperator],
        database: Database,
        wake: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self._clock = clock
        self._run = Run(make() for make in operators)
        self._is_first = True
        self.notes = plan.notes
        self._members: list[Member] = []
        try:
            for member in plan.members:
                self._members.append(Member(member, database, wake, clock))
        except BaseException:
            self.close()
            raise

    def note_request(self) -> None:
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
                continue
            yield from self._items_of(member)
            if self._run.is_finished:
                self.close()
                return

    def _items_of(self, member: Member) -> Iterator[Any]:
        try:
            for event in () if member.run.is_finished else member.events():
                for one in member.run.push(event):
                    yield from self._run.push(one)
                    if self._run.is_finished:
                        return
                if member.run.is_finished:
                    break
        except Exception:
            self.close()
            raise
        if member.is_finished:
            self._members.remove(member)
            member.close()

    @property
    def is_finished(self) -> bool:
        """Whether the feed has ended."""
        return not self._members or self._run.is_finished

    @property
    def due_at(self) -> float | None:
        """The earliest moment, by the given clock, at which a member has waited long enough; None if no member waits."""
        return min((member.due_at for member in self._members if member.due_at), default=None)

    def close(self) -> None:
        """End all readers."""
        for member in self._members:
            member.close()
        self._members = []
