"""Updates: the rows of `_db_updates`: created, changed and deleted databases, in the order of the log.

    feed = couch.updates(since="0")
    feed.rows(100)          [{"db_name": "todo", "type": "created", "seq": ...}, ...]; an empty list if there are none now
    feed.on_ready(wake)     called once when there may be rows again
    feed.close()

As in CouchDB there is one row for each type of a database's events, at the place of the newest: a late reader gets a single row
for all changes of a database. A rename of a table is a deleted database and a created database.

The list of tables shows when a table was made and dropped, and one look-up its last change. Renames are read from the log, as far
as it reaches back.

Rule of this file: it never waits, and has no thread. Its shape is that of `changes.ChangesFeed`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from reactdb.budget import CALL_STEPS, spend
from reactdb.change import CATALOGUE, TABLE_RENAME
from reactdb.dialects.couchdb.names import RESERVED, database_name
from reactdb.dialects.couchdb.sequences import Sequences
from reactdb.dialects.couchdb.states import tables_of
from reactdb.errors import DatabaseClosed
from reactdb.query import ALL_TABLES, Query
from reactdb.session import Session
from reactdb.store.log import make_changes, read, read_low_water
from reactdb.store.snapshot import Snapshot

if TYPE_CHECKING:
    from reactivex.abc import DisposableBase

__all__ = ["DatabaseUpdates"]

# The order of events in one commit, which can only be a rename: first the end of the old name.
ORDER: Final = ("deleted", "created", "updated")
# A commit is delivered at once, and its changes are not read.
WATCHING: Final = {"batches": True, "on_overflow": "drop"}


class Event(NamedTuple):
    seq: int
    type: str
    name: str


class DatabaseUpdates:
    """See the head of this file. One thread at a time, and `on_ready` from any."""

    pending: Final = None
    """Not counted, as in CouchDB."""

    def __init__(self, session: Session, since: str = "0", *, descending: bool = False) -> None:
        """
        Args:
            since: Begin after this position: "0", "now", a seq or a time.
            descending: The newest first, of the present databases. `since` does not count.

        Raises:
            CouchError: 400, `since` is no position of this file.
        """
        self._session = session
        self._sequences = Sequences(session)
        self._is_descending = descending
        self._is_finished = False
        self._lock = threading.Lock()
        self._on_ready: Callable[[], object] | None = None
        self._is_woken = False
        # Subscriptions by the number of their table. The subscription to all visible tables has the number of the catalogue.
        self._subscriptions: dict[int, DisposableBase] = {}
        self._listens_to = -1
        self._waiting: deque[Event] = deque()
        with session.read() as snapshot:
            self._position = 0 if descending else self._sequences.file_seq(snapshot, since)
            self.last_seq = self._sequences.file_text(snapshot, self._position)
            if descending:
                self._take(snapshot)

    @property
    def passed_seq(self) -> str:
        """The position up to which all rows were returned."""
        return self.last_seq

    @property
    def is_finished(self) -> bool:
        """No more rows will come: a descending feed is at its end, or the file was closed."""
        return self._is_finished

    # -----------------------------------------------------------------------------------------------------------
    # Reading

    def rows(self, most: int = 1000) -> list[dict[str, Any]]:
        """The next present rows, at most `most`; but the two rows of a rename stay together, because they have one seq."""
        with self._lock:
            self._is_woken = False
        try:
            if self._subscriptions:
                # Before the log is read, so that a later commit wakes the reader.
                self._listen()
            with self._session.read() as snapshot:
                if not self._waiting and not self._is_descending and snapshot.seq > self._position:
                    self._take(snapshot)
                return self._take_rows(snapshot, most)
        except DatabaseClosed:
            self._is_finished = True
            return []

    def _take(self, snapshot: Snapshot) -> None:
        """Collect the events past the position."""
        events = sorted(
            _events(snapshot, self._position), key=lambda event: (event.seq, ORDER.index(event.type))
        )
        self._waiting.extend(reversed(events) if self._is_descending else events)
        if not events and not self._is_descending:
            # Other writes, such as `_local` documents, are no events.
            self._move(snapshot, snapshot.seq)

    def _take_rows(self, snapshot: Snapshot, most: int) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        while self._waiting and (len(rows) < most or self._waiting[0].seq == self._position):
            event = self._waiting.popleft()
            self._move(snapshot, event.seq)
            rows.append({"db_name": event.name, "type": event.type, "seq": self.last_seq})
        self._is_finished = self._is_finished or (self._is_descending and not self._waiting)
        return rows

    def _move(self, snapshot: Snapshot, seq: int) -> None:
        if seq != self._position:
            self._position, self.last_seq = seq, self._sequences.file_text(snapshot, seq)

    # -----------------------------------------------------------------------------------------------------------
    # Waiting

    def on_ready(self, callback: Callable[[], object]) -> None:
        """Call `callback` when there may be rows, or the file was closed: once, and again only after `rows` was called. The call
        is immediate if that is so already. It runs where a commit is delivered: it should set an event, and return."""
        with self._lock:
            self._on_ready = callback
        try:
            self._listen()
            with self._session.read() as snapshot:
                has_more = self._is_finished or bool(self._waiting) or snapshot.seq > self._position
        except DatabaseClosed:
            has_more = self._is_finished = True
        if has_more:
            self._wake()

    def _listen(self) -> None:
        """Subscribe to every change, also to changes of losing branches in hidden tables."""
        with self._session.read() as snapshot:
            catalogue = snapshot.catalogue
        if catalogue.version == self._listens_to:
            return
        self._listens_to = catalogue.version
        wanted: dict[int, Any] = {CATALOGUE: ALL_TABLES}
        for table in catalogue.ordinary().values():
            tables = tables_of(catalogue, table.id)
            if tables is not None and tables.conflicts is not None:
                wanted[tables.conflicts.id] = tables.conflicts.reference
        for number in self._subscriptions.keys() - wanted.keys():
            self._subscriptions.pop(number).dispose()
        for number in wanted.keys() - self._subscriptions.keys():
            options = {**WATCHING, "include_catalogue": True} if number == CATALOGUE else WATCHING
            feed = self._session.watch(Query(wanted[number]), options, "couchdb")
            self._subscriptions[number] = feed.subscribe(self._on_change, self._on_change, self._wake)

    def _on_change(self, _: object) -> None:
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            callback = self._on_ready
            if callback is None or self._is_woken:
                return
            self._is_woken = True
        callback()

    def close(self) -> None:
        """End it. A second call does nothing."""
        with self._lock:
            self._on_ready = None
        self._is_finished = True
        while self._subscriptions:
            self._subscriptions.popitem()[1].dispose()


def _events(snapshot: Snapshot, since: int) -> Iterator[Event]:
    """The newest event of each type of each database past a position."""
    newest: dict[tuple[str, str], int] = {}
    for type, table, seq in _read_events(snapshot, since):
        name = database_name(table)
        if seq > since and name not in RESERVED:
            newest[type, name] = max(seq, newest.get((type, name), 0))
    return (Event(seq, type, name) for (type, name), seq in newest.items())


def _read_events(snapshot: Snapshot, since: int) -> Iterator[tuple[str, str, int]]:
    catalogue, low = snapshot.catalogue, read_low_water(snapshot.connection)
    for table in catalogue.by_id.values():
        spend(CALL_STEPS)
        # A table that was dropped below the low-water mark is being removed. Another table may have its name by now, after a
        # rename that the log no longer has.
        if table.owner is not None or (table.dropped is not None and table.dropped <= low):
            continue
        yield "created", table.name, table.created
        if table.dropped is not None:
            yield "deleted", table.name, table.dropped
            continue
        tables = tables_of(catalogue, table.id)
        for watched in () if tables is None else tables.watched:
            seq = snapshot.newest_seq(watched)
            if seq > watched.created:
                yield "updated", table.name, seq
    position, until = max(since, low), snapshot.seq
    while position < until:
        spend(CALL_STEPS)
        entries, position = read(snapshot.connection, catalogue, position, until, table_ids=(CATALOGUE,))
        for change in make_changes(entries, catalogue):
            details = change.catalogue
            if change.kind_code == TABLE_RENAME and details is not None and "owner" not in details:
                yield "deleted", details["table"], change.seq
                yield "created", details["new_name"], change.seq
