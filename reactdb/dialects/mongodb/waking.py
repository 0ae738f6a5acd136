"""Waking: a stream that waits for events of some tables is called when one of them, or the catalogue, has changed.

One reader a file serves all who wait. It is told which tables a commit has changed, and decodes nothing; who waits for a table is
found by its number. So an insert into another collection costs a stream nothing, however many there are.

Rule of this file: a callback runs where the commit is delivered. It says that there may be something, and reads nothing.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from reactdb.change import CATALOGUE
from reactdb.dialects.mongodb.namespaces import COLLECTIONS
from reactdb.feeds.events import Render
from reactdb.feeds.reader import FeedReader
from reactdb.feeds.request import Request
from reactdb.logs import logger
from reactdb.query import ALL_TABLES, Query
from reactdb.session import Session

Wake = Callable[[], object]

# Changes that wait to be looked at. Where more come at once, everybody is woken.
MOST_QUEUED = 1_000


class TableRequest(Request):
    """A feed whose events are numbers of tables."""

    __slots__ = ()

    def render(self, is_ordered: bool) -> Render:
        return lambda delta: getattr(delta, "table_id", None)


class TableWait:
    """That somebody waits for some tables. By its identity, so that one function can be called for several."""

    __slots__ = ("_owner", "places", "wake")

    def __init__(self, owner: StreamWakers, wake: Wake, places: tuple[int | None, ...]) -> None:
        self._owner = owner
        self.wake = wake
        self.places = places

    def end(self) -> None:
        self._owner.end(self)

    def forget(self) -> None:
        self._owner.forget(self)


class StreamWakers:
    """Those who wait for changes of a file. Any thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        # By the number of a table; None for all of them, and CATALOGUE for those of tables themselves.
        self._waiting: dict[int | None, dict[TableWait, None]] = {}
        self._forgotten: deque[TableWait] = deque()
        self._readers: list[FeedReader] = []
        self._has_rows = False

    @property
    def is_reading(self) -> bool:
        """Commits are looked at, because somebody waits."""
        return bool(self._readers)

    def listen(self, tables: Iterable[int] | None, wake: Wake) -> TableWait:
        """Have `wake` called after each commit that changes one of these tables, or the catalogue, and when the file is closed.

        Args:
            tables: Their numbers; None for all.
        """
        listening = TableWait(self, wake, (None,) if tables is None else (*tables, CATALOGUE))
        with self._lock:
            self._sweep()
            for place in listening.places:
                self._waiting.setdefault(place, {})[listening] = None
        self._watch()
        return listening

    def end(self, listening: TableWait) -> None:
        """Nobody listens there any more."""
        self.forget(listening)
        self._close_unused()

    def _close_unused(self) -> None:
        with self._lock:
            self._sweep()
            readers: list[FeedReader] = []
            if not self._waiting:
                readers, self._readers, self._has_rows = self._readers, [], False
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

    def _watch(self) -> None:
        """Have what somebody waits for read, unless it is already."""
        if not self._readers:
            self._read(Query(ALL_TABLES), include_catalogue=True)
        if not self._has_rows and self._session.find(COLLECTIONS) is not None:
            self._has_rows = True
            self._read(Query(COLLECTIONS))

    def _read(self, query: Query, **options: Any) -> None:
        options |= {"on_overflow": "drop", "changefeed_queue_size": MOST_QUEUED, "include_meta": True}
        reader = self._session.reader(query, options, request_type=TableRequest)
        with self._lock:
            is_wanted = bool(self._waiting)
            if is_wanted:
                self._readers.append(reader)
        if not is_wanted:
            # Whoever listened has gone meanwhile.
            reader.close()
            return
        reader.on_ready = lambda: self._wake(reader, is_of_rows=query.table != ALL_TABLES)

    def _wake(self, reader: FeedReader, *, is_of_rows: bool) -> None:
        try:
            changed = set(map(self._place, reader.poll(MOST_QUEUED)))
            while len(more := reader.poll(MOST_QUEUED)):
                changed.update(map(self._place, more))
        except Exception as error:
            logger.debug("the reader of change streams has ended", exc_info=error)
            changed = {None}
        if reader.is_finished:
            changed.add(None)
            with self._lock:
                if reader in self._readers:
                    self._readers.remove(reader)
        if is_of_rows:
            changed.add(CATALOGUE)
        self._call(changed)
        if not self._waiting:
            self._close_unused()
        elif CATALOGUE in changed and not self._has_rows:
            self._watch()

    def _place(self, event: Any) -> int | None:
        """The number that an event is; None where some were passed over."""
        return event if type(event) is int else None

    def _call(self, changed: set[int | None]) -> None:
        with self._lock:
            self._sweep()
            if None in changed:
                found = {one: None for waiting in self._waiting.values() for one in waiting}
            else:
                found = dict(self._waiting.get(None, {})) if changed else {}
                for place in changed:
                    found |= self._waiting.get(place, {})
        for listening in found:
            try:
                listening.wake()
            except Exception:
                logger.exception("what a change stream is woken by has failed")
