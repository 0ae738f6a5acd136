"""Wake-ups of change streams: a waiting stream is called when one of its tables, or the catalogue, has changed.

One reader of the log serves all waiting streams of a file. It receives each change and decodes nothing; the waiting streams are
indexed by table number. So an insert into another collection costs a stream nothing, however many streams there are.

Streams that wait for certain values are indexed by a router, like native feeds. A document is decoded once for each routed
property, however many streams there are. A match is noted as a position in the log and nothing more: from it a stream knows up to
where it need not read.

Rule of this file: a callback runs where the commit is delivered. It signals possible events, and reads nothing.
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

# The limit of queued changes. If more arrive at once, all streams are woken.
MOST_QUEUED = 1_000


class WholeChangesRequest(Request):
    """A feed of the changes themselves."""

    __slots__ = ()

    def render(self, is_ordered: bool) -> Render:
        return cast("Render", change_of)


class TableWait:
    """The wait of one stream for tables, or for its routes. It has an identity, because one function can be called for several
    waits.

    Attributes:
        routes: Its entries in the router; empty if it waits for whole tables.
        since: The seq from which on the router misses nothing; None until it is known, and without routes.
        first, last: The unread matches: the first seq of the oldest commit and the newest seq; or None.
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

    def skip_to(self, position: int, head: int) -> int:
        """A position from `position` up to `head` before which there is nothing for this stream."""
        return position if self.since is None else self._owner.skip_to(self, position, head)

    def end(self) -> None:
        self._owner.end(self)

    def forget(self) -> None:
        self._owner.forget(self)


class StreamWakers:
    """The waiting streams of a file. Any thread.

    Attributes:
        recent: The newest changes of all visible tables and of the catalogue, as long as a stream waits.
        put_off: A function that runs some work a little later, so that the reply to a write need not wait for the wake-ups; it
            returns whether it accepts the work. None: the work runs at once.
    """

    def __init__(self, session: Session) -> None:
        self.recent = RecentChanges()
        self.put_off: Callable[[Callable[[], None]], bool] | None = None
        self._session = session
        self._lock = threading.Lock()
        # By table number; None for all tables, and CATALOGUE for creating and dropping tables.
        self._waiting: dict[int | None, dict[TableWait, None]] = {}
        self._router: Router[TableWait] = Router()
        # The seq up to which changes were routed; and the seq from which on none was skipped, None until it is known.
        self._routed = 0
        self._unbroken_from: int | None = None
        self._forgotten: deque[TableWait] = deque()
        self._readers: list[FeedReader] = []
        # The reader of all tables.
        self._main: FeedReader | None = None
        # Readers with changes, and whether a thread is reading them: changes are routed in order.
        self._ringing: deque[tuple[FeedReader, bool]] = deque()
        self._turn = threading.Lock()
        self._has_rows = False

    @property
    def is_reading(self) -> bool:
        """Commits are read, because a stream waits."""
        return bool(self._readers)

    def listen(
        self, tables: Iterable[int] | None, wake: Wake, routes: Sequence[Route] | None = None
    ) -> TableWait:
        """Have `wake` called after each commit that changes one of these tables, or the catalogue, and when the file is closed.

        Args:
            tables: Their numbers; None for all.
            routes: The relevant changes of these tables; None for all.
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

    def skip_to(self, listening: TableWait, position: int, head: int) -> int:
        """As `TableWait.skip_to`."""
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
        """End a wait."""
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
        """End a wait a little later: for the garbage collector, which may interrupt any thread."""
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
        """Start the readers of the log, unless they run already."""
        if self._main is None:
            self._read(Query(ALL_TABLES), include_catalogue=True)
        if not self._has_rows and self._session.find(COLLECTIONS) is not None:
            self._has_rows = True
            self._read(Query(COLLECTIONS))

    def _read(self, query: Query, **options: Any) -> None:
        options |= {"on_overflow": "drop", "changefeed_queue_size": MOST_QUEUED, "include_meta": True}
        reader = self._session.reader(query, options, request_type=WholeChangesRequest, purpose="mongodb")
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
            # The last wait has ended meanwhile, or another thread was faster.
            reader.close()
            return
        reader.on_ready = lambda: self._on_ready(reader, is_of_rows=is_of_rows)

    def _on_ready(self, reader: FeedReader, *, is_of_rows: bool) -> None:
        """A reader has changes. The thread whose turn it is reads them, so that other threads need not wait."""
        self._ringing.append((reader, is_of_rows))
        if self.put_off is None or not self.put_off(self._run_turn):
            self._run_turn()

    def _run_turn(self) -> None:
        while self._ringing and self._turn.acquire(blocking=False):
            try:
                while self._ringing:
                    self._handle_changes(*self._ringing.popleft())
            finally:
                self._turn.release()

    def _handle_changes(self, reader: FeedReader, is_of_rows: bool) -> None:
        """Route the reader's changes, and call the waiting streams they match."""
        waiters: dict[TableWait, None] = {}
        is_of_tables = is_broken = False
        try:
            has_more = True
            while has_more and (changes := reader.poll(MOST_QUEUED)):
                # A smaller batch is the last one: the reader calls again for the next. The reader's end is polled, too.
                has_more = len(changes) >= MOST_QUEUED or reader.is_ending
                with self._lock:
                    self._sweep()
                    is_of_tables |= self._find(changes, waiters, is_of_rows=is_of_rows)
        except Exception as error:
            logger.debug("the reader of change streams has ended", exc_info=error)
            is_broken = True
        if is_broken or reader.is_finished:
            with self._lock:
                if reader.is_finished and reader in self._readers:
                    self._readers.remove(reader)
                    self._main = None if reader is self._main else self._main
                self._wake_all(waiters)
        for listening in waiters:
            try:
                listening.wake()
            except INTERRUPTS:
                raise
            except BaseException:
                logger.exception("the wake-up of a change stream failed")
        if not self._waiting:
            self._close_unused()
        elif is_of_tables and not self._has_rows:
            self._watch()

    def _find(self, changes: Sequence[Any], waiters: dict[TableWait, None], *, is_of_rows: bool) -> bool:
        """Collect the waits for some changes. Returns: whether a change is about tables themselves."""
        places: set[int | None] = {None}
        is_whole = not is_of_rows
        for change in changes:
            if not isinstance(change, Change):
                self._wake_all(waiters)
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
                waiters[listening] = None
            if self._unbroken_from is None:
                self._unbroken_from = change.seq - 1
            self._routed = change.seq
        if is_whole:
            self.recent.add(changes)
        for changed in places:
            waiters |= self._waiting.get(changed, {})
        return CATALOGUE in places

    def _wake_all(self, waiters: dict[TableWait, None]) -> None:
        """Some changes were skipped and may be relevant to every stream."""
        self.recent.clear()
        self._unbroken_from = None
        for waiting in self._waiting.values():
            waiters |= waiting
