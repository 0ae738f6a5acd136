"""Waking: a stream that waits for events of some tables is called when one of them, or the catalogue, has changed.

One reader a file serves all who wait. It is told of each change, and decodes nothing; who waits for a table is found by its
number. So an insert into another collection costs a stream nothing, however many there are.

Who waits for some values only is found by a router, as native feeds are. A document is decoded once for each property that is
looked up, for however many streams. What is found is noted, a place in the log and no more: so a stream knows up to where it need
not read.

Rule of this file: a callback runs where the commit is delivered. It says that there may be something, and reads nothing.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from reactdb.change import CATALOGUE, Change
from reactdb.dialects.mongodb.namespaces import COLLECTIONS
from reactdb.dialects.mongodb.recent import RecentChanges
from reactdb.errors import INTERRUPTS
from reactdb.feeds.events import Render
from reactdb.feeds.reader import FeedReader
from reactdb.feeds.request import Request
from reactdb.feeds.router import Router
from reactdb.feeds.views.base import Route, change_of
from reactdb.logs import logger
from reactdb.query import ALL_TABLES, Query
from reactdb.session import Session

Wake = Callable[[], object]

# Changes that wait to be looked at. Where more come at once, everybody is woken.
MOST_QUEUED = 1_000


class WholeChangesRequest(Request):
    """A feed whose events are the changes themselves."""

    __slots__ = ()

    def render(self, is_ordered: bool) -> Render:
        return cast("Render", change_of)


class TableWait:
    """That somebody waits for tables, or for what routes lead to. By its identity: one function can be called for several.

    Attributes:
        routes: Where the router has it; empty where it waits for whole tables.
        since: From this seq on the router misses nothing for it; None before that is known, and where it has no routes.
        first, last: Of what it was called for and has not read, the first seq of the oldest commit and the newest seq; or None.
    """

    __slots__ = ("_owner", "first", "last", "places", "routes", "since", "wake")

    def __init__(
        self, owner: StreamWakers, wake: Wake, places: tuple[int | None, ...], routes: Sequence[Route]
    ) -> None:
        self._owner = owner
        self.wake = wake
        self.places = places
        self.routes = routes
        self.since: int | None = None
        self.first: int | None = None
        self.last: int | None = None

    def note(self, change: Change) -> None:
        """It is called for this change."""
        if self.first is None:
            self.first = change.commit
        self.last = change.seq

    def passed_over(self, position: int, head: int) -> int:
        """A position from `position` up to `head`, before which there is nothing for it."""
        return position if self.since is None else self._owner.passed_over(self, position, head)

    def end(self) -> None:
        self._owner.end(self)

    def forget(self) -> None:
        self._owner.forget(self)


class StreamWakers:
    """Those who wait for changes of a file. Any thread.

    Attributes:
        recent: The newest changes of all tables that users see, and of the catalogue, as long as somebody waits.
        put_off: Asked to do something a little later, so that the answer to a write need not wait for who is told of it; it says
            whether it does so. None: nobody is asked.
    """

    def __init__(self, session: Session) -> None:
        self.recent = RecentChanges()
        self.put_off: Callable[[Callable[[], None]], bool] | None = None
        self._session = session
        self._lock = threading.Lock()
        # By the number of a table; None for all of them, and CATALOGUE for those of tables themselves.
        self._waiting: dict[int | None, dict[TableWait, None]] = {}
        self._router: Router[TableWait] = Router()
        # The seq up to which changes were routed; and from which on none was passed over, None while that is not known.
        self._routed = 0
        self._unbroken_from: int | None = None
        self._forgotten: deque[TableWait] = deque()
        self._readers: list[FeedReader] = []
        # That of all tables.
        self._main: FeedReader | None = None
        # Readers that have something, and whose turn it is to look: changes are routed in order.
        self._ringing: deque[tuple[FeedReader, bool]] = deque()
        self._turn = threading.Lock()
        self._has_rows = False

    @property
    def is_reading(self) -> bool:
        """Commits are looked at, because somebody waits."""
        return bool(self._readers)

    def listen(
        self, tables: Iterable[int] | None, wake: Wake, routes: Sequence[Route] | None = None
    ) -> TableWait:
        """Have `wake` called after each commit that changes one of these tables, or the catalogue, and when the file is closed.

        Args:
            tables: Their numbers; None for all.
            routes: Which changes of these tables concern it; None for all.
        """
        places = (None,) if tables is None else (*(tables if routes is None else ()), CATALOGUE)
        listening = TableWait(self, wake, places, routes or ())
        with self._lock:
            self._sweep()
            for place in listening.places:
                self._waiting.setdefault(place, {})[listening] = None
            self._router.add(listening, listening.routes)
        self._watch()
        if routes is not None:
            with self._session.engine.fresh_snapshot() as snapshot:
                listening.since = snapshot.seq
        return listening

    def passed_over(self, listening: TableWait, position: int, head: int) -> int:
        """As `TableWait.passed_over`."""
        with self._lock:
            since, start = listening.since, self._unbroken_from
            if since is None or start is None or position < max(since, start):
                return position
            first, last = listening.first, listening.last
            if first is None or last is None:
                return max(position, min(self._routed, head))
            if last > position:
                return max(position, min(first - 1, head))
            listening.first = listening.last = None
            return max(position, min(self._routed, head))

    def end(self, listening: TableWait) -> None:
        """Nobody listens there any more."""
        self.forget(listening)
        self._close_unused()

    def _close_unused(self) -> None:
        with self._lock:
            self._sweep()
            readers: list[FeedReader] = []
            if not self._waiting:
                readers, self._readers, self._main, self._has_rows = self._readers, [], None, False
        for reader in readers:
            reader.close()

    def forget(self, listening: TableWait) -> None:
        """The same, a little later: by the garbage collector, which may interrupt any thread."""
        self._forgotten.append(listening)

    def _sweep(self) -> None:
        while self._forgotten:
            listening = self._forgotten.popleft()
            for place in listening.places:
                waiting = self._waiting.get(place, {})
                waiting.pop(listening, None)
                if not waiting:
                    self._waiting.pop(place, None)
            self._router.remove(listening, listening.routes)

    def _watch(self) -> None:
        """Have what somebody waits for read, unless it is already."""
        if self._main is None:
            self._read(Query(ALL_TABLES), include_catalogue=True)
        if not self._has_rows and self._session.find(COLLECTIONS) is not None:
            self._has_rows = True
            self._read(Query(COLLECTIONS))

    def _read(self, query: Query, **options: Any) -> None:
        options |= {"on_overflow": "drop", "changefeed_queue_size": MOST_QUEUED, "include_meta": True}
        reader = self._session.reader(query, options, request_type=WholeChangesRequest)
        is_of_rows = query.table != ALL_TABLES
        with self._session.engine.fresh_snapshot() as snapshot:
            start = snapshot.seq
        with self._lock:
            is_wanted = bool(self._waiting) and (is_of_rows or self._main is None)
            if is_wanted:
                self._readers.append(reader)
                if not is_of_rows:
                    self._main, self._unbroken_from = reader, start
                    self.recent.clear()
        if not is_wanted:
            # Whoever listened has gone meanwhile, or somebody else was quicker.
            reader.close()
            return
        reader.on_ready = lambda: self._ring(reader, is_of_rows=is_of_rows)

    def _ring(self, reader: FeedReader, *, is_of_rows: bool) -> None:
        """A reader has something. Whoever has the turn looks at it, so that who comes meanwhile need not wait."""
        self._ringing.append((reader, is_of_rows))
        if self.put_off is None or not self.put_off(self._look):
            self._look()

    def _look(self) -> None:
        while self._ringing and self._turn.acquire(blocking=False):
            try:
                while self._ringing:
                    self._take_in(*self._ringing.popleft())
            finally:
                self._turn.release()

    def _take_in(self, reader: FeedReader, is_of_rows: bool) -> None:
        """Route what there is, and call those whom it concerns."""
        found: dict[TableWait, None] = {}
        is_of_tables = is_broken = False
        try:
            has_more = True
            while has_more and (changes := reader.poll(MOST_QUEUED)):
                # Fewer are all that there were: it rings for the next. What a reader ends with is asked for.
                has_more = len(changes) >= MOST_QUEUED or reader.is_ending
                with self._lock:
                    self._sweep()
                    is_of_tables |= self._find(changes, found, is_of_rows=is_of_rows)
        except Exception as error:
            logger.debug("the reader of change streams has ended", exc_info=error)
            is_broken = True
        if is_broken or reader.is_finished:
            with self._lock:
                if reader.is_finished and reader in self._readers:
                    self._readers.remove(reader)
                    self._main = None if reader is self._main else self._main
                self._miss(found)
        for listening in found:
            try:
                listening.wake()
            except INTERRUPTS:
                raise
            except BaseException:
                logger.exception("what a change stream is woken by has failed")
        if not self._waiting:
            self._close_unused()
        elif is_of_tables and not self._has_rows:
            self._watch()

    def _find(self, changes: Sequence[Any], found: dict[TableWait, None], *, is_of_rows: bool) -> bool:
        """Find those whom changes concern. Whether some are of tables themselves."""
        places: set[int | None] = {None}
        is_whole = not is_of_rows
        for change in changes:
            if not isinstance(change, Change):
                self._miss(found)
                is_whole = False
                continue
            place = CATALOGUE if is_of_rows else change.table_id
            places.add(place)
            if is_of_rows:
                continue
            concerned: Iterable[TableWait] = ()
            if place == CATALOGUE:
                concerned = self._waiting.get(CATALOGUE, ())
            elif place in self._router.tables:
                concerned = self._router.find(change)
            for listening in concerned:
                listening.note(change)
                found[listening] = None
            if self._unbroken_from is None:
                self._unbroken_from = change.seq - 1
            self._routed = change.seq
        if is_whole:
            self.recent.add(changes)
        for changed in places:
            found |= self._waiting.get(changed, {})
        return CATALOGUE in places

    def _miss(self, found: dict[TableWait, None]) -> None:
        """Some changes were passed over: they may be anybody's."""
        self.recent.clear()
        self._unbroken_from = None
        for waiting in self._waiting.values():
            found |= waiting
