"""Waking: who waits for a database's next change is called when there is one.

One subscription a table and process serves all who wait there. Who waits for some documents only is found by the key of what has
changed: so thousands who wait for others cost a write nothing.

Rule of this file: a callback runs where the commit is delivered. It says that there may be something, and reads nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from reactdb.dialects.couchdb.states import Tables
from reactdb.logs import logger
from reactdb.query import Query
from reactdb.session import Session
from reactdb.values import collation

if TYPE_CHECKING:
    from reactivex.abc import DisposableBase

Wake = Callable[[], object]


class Wakers:
    """The wakers of a file's tables, by table. Any thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._wakers: dict[int, Waker] = {}

    def listen(self, tables: Tables, wake: Wake, keys: Collection[bytes] | None = None) -> Callable[[], None]:
        """Have `wake` called after each commit that changes the database, and when it is gone.

        Args:
            keys: Only where one of these documents changes; None: any.

        Returns:
            What ends it.
        """
        with self._lock:
            waker = self._wakers.get(tables.main.id)
            if waker is None or waker.is_ended:
                waker = self._wakers[tables.main.id] = Waker()
                begins = True
            else:
                begins = False
            waker.add(wake, keys)
        if begins:
            waker.begin(self._session, tables)
        found = waker

        def end() -> None:
            with self._lock:
                is_last = found.remove(wake, keys)
                if is_last and self._wakers.get(tables.main.id) is found:
                    del self._wakers[tables.main.id]
            if is_last:
                found.end()

        return end


class Waker:
    """Those who wait for changes of one database."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: dict[Wake, None] = {}
        self._by_key: dict[bytes, dict[Wake, None]] = {}
        self._subscriptions: list[DisposableBase] = []
        self.is_ended = False

    def add(self, wake: Wake, keys: Collection[bytes] | None) -> None:
        with self._lock:
            if keys is None:
                self._all[wake] = None
            for key in keys or ():
                self._by_key.setdefault(key, {})[wake] = None

    def remove(self, wake: Wake, keys: Collection[bytes] | None) -> bool:
        """Whether nobody is left."""
        with self._lock:
            self._all.pop(wake, None)
            for key in keys or ():
                waiting = self._by_key.get(key, {})
                waiting.pop(wake, None)
                if not waiting:
                    self._by_key.pop(key, None)
            return not (self._all or self._by_key)

    def begin(self, session: Session, tables: Tables) -> None:
        options = {"include_meta": True, "batches": True}
        for table in tables.told:
            feed = session.watch(Query(table.reference), options)
            subscription = feed.subscribe(self._teller(table.primary_key), self._failed, self._completed)
            self._subscriptions.append(subscription)

    def end(self) -> None:
        self.is_ended = True
        for subscription in self._subscriptions:
            subscription.dispose()

    def _teller(self, primary_key: str) -> Callable[[Any], None]:
        def tell(events: list[dict[str, Any]]) -> None:
            with self._lock:
                waiting = dict(self._all)
                if self._by_key:
                    for event in events:
                        document = event.get("new_val") or event.get("old_val")
                        if document is None:
                            # Some were passed over: it may be any.
                            for some in self._by_key.values():
                                waiting |= some
                        else:
                            key = collation.key_bytes(document[primary_key])
                            waiting |= self._by_key.get(key, {})
            _call(waiting)

        return tell

    def _failed(self, error: Exception) -> None:
        logger.debug("a feed of a CouchDB database has ended", exc_info=error)
        self._completed()

    def _completed(self) -> None:
        self.is_ended = True
        with self._lock:
            waiting = dict(self._all)
            for some in self._by_key.values():
                waiting |= some
        _call(waiting)


def _call(waiting: dict[Wake, None]) -> None:
    for wake in waiting:
        try:
            wake()
        except Exception:
            logger.exception("what a listener of changes is woken by has failed")
