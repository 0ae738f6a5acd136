"""Change waiters: call the functions that wait for a database's next change.

One subscription per table and process serves all waiting functions. A function that waits for some documents only, or for
documents with a value in a field, is found by hashing the changed documents: so thousands of others cost a write nothing.

Rule of this file: a callback runs where the commit is delivered. It reads nothing; it only signals that there may be a change.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from reactdb.dialects.couchdb.states import Tables
from reactdb.errors import INTERRUPTS
from reactdb.feeds.router import Multimap
from reactdb.logs import logger
from reactdb.query import Query
from reactdb.session import Session
from reactdb.store.catalogue import TableInfo
from reactdb.values import collation

if TYPE_CHECKING:
    from reactivex.abc import DisposableBase

Wake = Callable[[], object]
Waiting = dict[Wake, None]
Fields = tuple[str, ...]
"""A path of fields."""


class Interest(NamedTuple):
    """The changes that a listener waits for; without both: any change.

    Attributes:
        keys: Of these documents alone.
        equality: Of documents with this value (a text, a number, a boolean or null) at this path of fields; it may be woken for
            others.
    """

    keys: Collection[bytes] | None = None
    equality: tuple[Fields, Any] | None = None


class Wakers:
    """The wakers of a file's tables, by table. Any thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.RLock()
        self._wakers: dict[int, Waker] = {}

    def listen(self, tables: Tables, wake: Wake, interest: Interest) -> Callable[[], None]:
        """Call `wake` after each commit that the listener waits for, and when the database is gone.

        Returns:
            A function that ends it.
        """
        with self._lock:
            known = self._wakers.get(tables.main.id)
            waker = Waker() if known is None or known.is_ended else known
            waker.add(wake, interest)
            if waker is not known:
                # Before any other listener relies on this subscription.
                waker.begin(self._session, tables)
                self._wakers[tables.main.id] = waker

        def end() -> None:
            with self._lock:
                is_last = waker.remove(wake, interest)
                if is_last and self._wakers.get(tables.main.id) is waker:
                    del self._wakers[tables.main.id]
            if is_last:
                waker.end()

        return end


class Waker:
    """The listeners of one database."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: Waiting = {}
        self._by_key: Multimap[Wake] = Multimap()
        # By a path of fields and a value there.
        self._by_value: Multimap[Wake] = Multimap()
        # How many wait for a value at each path.
        self._paths: Counter[Fields] = Counter()
        self._subscriptions: list[DisposableBase] = []
        self.is_ended = False

    def add(self, wake: Wake, interest: Interest) -> None:
        with self._lock:
            if interest.keys is not None:
                for key in interest.keys:
                    self._by_key.add(key, wake)
            elif interest.equality is not None:
                self._by_value.add(_place(*interest.equality), wake)
                self._paths[interest.equality[0]] += 1
            else:
                self._all[wake] = None

    def remove(self, wake: Wake, interest: Interest) -> bool:
        """Returns whether no listener is left."""
        with self._lock:
            self._all.pop(wake, None)
            for key in interest.keys or ():
                self._by_key.remove(key, wake)
            if interest.equality is not None:
                self._by_value.remove(_place(*interest.equality), wake)
                self._paths -= Counter([interest.equality[0]])
            return not (self._all or self._by_key.held or self._by_value.held)

    def begin(self, session: Session, tables: Tables) -> None:
        options = {"include_meta": True, "batches": True}
        for table in tables.watched:
            feed = session.watch(Query(table.reference), options, "couchdb")
            subscription = feed.subscribe(
                self._make_subscriber(tables, table), self._on_error, self._on_completed
            )
            self._subscriptions.append(subscription)

    def end(self) -> None:
        self.is_ended = True
        for subscription in self._subscriptions:
            subscription.dispose()

    def _make_subscriber(self, tables: Tables, table: TableInfo) -> Callable[[Any], None]:
        # A change of a losing leaf is delivered with the winner, and that is in another table.
        tells_values = table is not tables.conflicts

        def tell(events: list[dict[str, Any]]) -> None:
            with self._lock:
                waiting = dict(self._all)
                if self._by_key.held or self._paths:
                    for event in events:
                        new = event.get("new_val")
                        document = new or event.get("old_val")
                        if document is None:
                            # Some events were skipped: any document may have changed.
                            waiting |= self._everybody()
                            continue
                        key = collation.key_bytes(document[table.primary_key])
                        waiting |= dict.fromkeys(self._by_key.items_at(key))
                        if self._paths and not tells_values:
                            waiting |= dict.fromkeys(self._by_value.all_items())
                        elif self._paths:
                            for row in _rows_of(event, is_main=table is tables.main):
                                waiting |= self._of_values(row)
            _call(waiting)

        return tell

    def _of_values(self, document: Mapping[str, Any]) -> Waiting:
        waiting: Waiting = {}
        for path in self._paths:
            value: Any = document
            for name in path:
                value = value.get(name, _NOTHING) if isinstance(value, dict) else _NOTHING
            if isinstance(value, (str, int, float)) or value is None:
                waiting |= dict.fromkeys(self._by_value.items_at(_place(path, value)))
        return waiting

    def _everybody(self) -> Waiting:
        waiting = [*self._all, *self._by_key.all_items(), *self._by_value.all_items()]
        return dict.fromkeys(waiting)

    def _on_error(self, error: Exception) -> None:
        logger.debug("a feed of a CouchDB database has ended", exc_info=error)
        self._on_completed()

    def _on_completed(self) -> None:
        self.is_ended = True
        with self._lock:
            waiting = self._everybody()
        _call(waiting)


_NOTHING: Final = object()


def _rows_of(event: Mapping[str, Any], *, is_main: bool) -> list[Mapping[str, Any]]:
    """The documents of a change, whose values select the listeners. A listener for removals waits for the earlier document,
    too."""
    rows = [event[name] for name in ("old_val", "new_val") if event.get(name) is not None]
    return rows if is_main else [leaf["fields"] for row in rows for leaf in row["leaves"]]


def _place(path: Fields, value: Any) -> tuple[Any, ...]:
    """The key of a waiting value. Whether it is a boolean keeps True apart from 1."""
    return path, isinstance(value, bool), value


def _call(waiting: Waiting) -> None:
    for wake in waiting:
        try:
            wake()
        except INTERRUPTS:
            raise
        except BaseException:
            logger.exception("the wake-up call of a listener for changes has failed")
