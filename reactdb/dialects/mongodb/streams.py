"""ChangeStreams and LogStream: change streams of a file. A reader polls a stream, and a poll never waits.

    streams = ChangeStreams(namespaces)
    stream = streams.open(StreamScope(MongoNamespace("shop", "orders")), [{"$changeStream": {}}, {"$match": {...}}])
    stream.on_ready(event.set)
    batch = stream.batch(most=100)          events, the token after them, whether the stream has ended

A stream reads the log from its position, and only the changes of its own tables. Unread events are only in the log: nothing
can overflow, and a stream that is reopened with any of its tokens continues exactly there. If a stream has read everything before
the commit that woke it, the changes come from memory (`recent`).

If the `$match` selects by values (`routing`), a stream evaluates only the changes with these values: it looks them up in the
pages of the log. While it waits (`stream_waiters`), it skips all changes before the first one that woke it.

Rule of this file: the position advances with the delivered events, and a token never covers more than the stream has read.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from operator import attrgetter
from typing import Any, Final, NamedTuple
from weakref import ReferenceType, finalize, ref

import bson

from reactdb.change import CATALOGUE, UPDATE, Change
from reactdb.dialects.mongodb import points
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.events import EventBuilder, StreamEvent
from reactdb.dialects.mongodb.images import with_image
from reactdb.dialects.mongodb.namespaces import COLLECTIONS, DATABASES, Namespaces
from reactdb.dialects.mongodb.pages import LogPage, LogPages
from reactdb.dialects.mongodb.recent import LateSnapshot
from reactdb.dialects.mongodb.routing import EVERYTHING, interest_of
from reactdb.dialects.mongodb.scopes import StreamScope, names_at
from reactdb.dialects.mongodb.split_events import fragments
from reactdb.dialects.mongodb.stream_options import StreamOptions, check_options
from reactdb.dialects.mongodb.stream_stages import CHANGE_STREAM, StreamPipeline
from reactdb.dialects.mongodb.stream_waiters import StreamWakers, TableWait
from reactdb.dialects.mongodb.tokens import Token, TokenOrigin, mark
from reactdb.dialects.mongodb.variables import values_of
from reactdb.errors import HistoryLost
from reactdb.feeds.views.base import Route
from reactdb.store.log import make_changes, read
from reactdb.store.snapshot import Snapshot

Document = dict[str, Any]
MAX_EVENT_BYTES: Final = 16 * 1024 * 1024
"""The size limit of an event in a batch with a limit in bytes, such as a reply."""
# An event has a document three times at most, and an array of small numbers has eleven times as many bytes in BSON as here.
BYTES_OF_ONE: Final = 33
# Changes per read of the log, and pages per batch before the batch reports its position.
PAGE: Final = 200
PAGE_BYTES: Final = 8 << 20
MOST_PAGES: Final = 50


class StreamBatch(NamedTuple):
    """A batch of a stream.

    Attributes:
        events: The event documents. They may share parts with each other: do not change them.
        token: The resume token after the last event.
        is_closed: The stream was invalidated: these are its last events.
    """

    events: list[Document]
    token: Document
    is_closed: bool


class _QueuedEvent(NamedTuple):
    """An event before its delivery.

    Attributes:
        document: None if the stages have dropped the event.
        size: An upper bound of its bytes.
        ends: The stream ends with it.
    """

    document: Document | None
    token: Document
    seq: int
    size: int
    ends: bool


class ChangeStreams:
    """The change streams of one file. Any thread."""

    def __init__(self, spaces: Namespaces) -> None:
        self.spaces = spaces
        self.wakers = StreamWakers(spaces.session)
        self.pages = LogPages()
        # Observables' streams are held here, because a subscriber need not hold its subscription.
        self.observed: set[object] = set()
        self._mark: tuple[int, Token] | None = None
        self._faults: deque[Exception] = deque()

    def mark_after(self, snapshot: Snapshot, seq: int) -> Token:
        """The high-water mark after a seq. It is cached, because all idle streams need the mark of the newest seq."""
        known = self._mark
        if known is None or known[0] != seq:
            self._mark = known = (seq, points.mark_after(self.spaces.session.engine, snapshot, seq))
        return known[1]

    def fail(self, *errors: Exception) -> None:
        """Let the next batches of any streams fail, each with one of these errors: for tests of readers."""
        self._faults.extend(errors)

    def raise_failure(self) -> None:
        """Raise the next error of `fail`."""
        if not self._faults:
            return
        try:
            error = self._faults.popleft()
        except IndexError:
            return
        raise error

    def open(
        self,
        scope: StreamScope,
        pipeline: Sequence[Mapping[str, Any]],
        *,
        collation: Mapping[str, Any] | None = None,
        let: Mapping[str, Any] | None = None,
    ) -> LogStream:
        """Open a stream.

        Args:
            scope: The collection or database. `allChangesForCluster` widens it to everything.
            pipeline: The stages, beginning with `$changeStream`.
            let: Variables of the stages, as expressions.

        Raises:
            MongoError: The options or stages are invalid, or the stream cannot be resumed.
        """
        if not pipeline or CHANGE_STREAM not in pipeline[0]:
            raise MongoError(40602, "$changeStream is only valid as the first stage in a pipeline")
        given = pipeline[0][CHANGE_STREAM]
        options = check_options(given, scope)
        if given.get("allChangesForCluster"):
            scope = StreamScope(None)
        place = scope.namespace
        if place is not None and place.coll is not None and self.spaces.view(place) is not None:
            raise MongoError(166, f"Namespace {place} is a view, not a collection")
        values = values_of(let, self.spaces.clock, pipeline[1:])
        stages = StreamPipeline(pipeline[1:], collation, values, lookups=options.lookups)
        return LogStream(self, scope, options, stages, has_collation=bool(collation))


class LogStream:
    """See the head of this file.

    Attributes:
        scope, options: The arguments of `open`.
        interest: The changes of documents to evaluate.
        is_closed: The stream has ended, or was closed.

    Thread safety: one thread at a time reads batches; any thread closes it.
    """

    def __init__(
        self,
        owner: ChangeStreams,
        scope: StreamScope,
        options: StreamOptions,
        pipeline: StreamPipeline,
        *,
        has_collation: bool,
    ) -> None:
        self.scope = scope
        self.options = options
        self.interest = interest_of(pipeline.matches, options, has_collation=has_collation)
        self.is_closed = False
        self._owner = owner
        self._engine = owner.spaces.session.engine
        self._pipeline = pipeline
        self._lookups = options.lookups
        self._lock = threading.RLock()
        self._changes: deque[Change] = deque()
        self._page_read = LogPage((), (), 0, None)
        # The version of the catalogue as of the position, if known.
        self._version: int | None = None
        self._ready: deque[_QueuedEvent] = deque()
        self._error: Exception | None = None
        # The resume token, until its event is read.
        self._sought: Token | None = None
        self._on_ready: Callable[[], object] | None = None
        self._listening: TableWait | None = None
        self._forgetting: finalize[..., LogStream] | None = None
        self._listens_to: list[int] | None = None
        # These tables were known as the stream's own as of this change of tables.
        self._listens_as_of = -1
        # The stream's tables, after the change of tables and the purpose for which they were computed.
        self._own: tuple[tuple[int, bool], list[int]] = (-1, False), []
        # The stream has read about new or dropped tables and may not have subscribed to them yet.
        self._is_unsure = False
        owner.spaces.session.check_open()
        # The point before which no event is delivered; None after the first event behind it.
        self._point: Token | None
        with self._engine.fresh_snapshot() as snapshot:
            snapshot.check_end()
            self._position, self._point = self._start(snapshot)
            if self._position == snapshot.seq:
                self._version = snapshot.catalogue.version
            # The token of the newest delivered event, or the starting point.
            self._token: Token = self._point
            self._given: Document = (options.after or self._point).document()
            self._given_seq = self._position
            self._reading = EventBuilder(
                scope,
                owner.spaces.names,
                names_at(snapshot, self._position),
                self._engine.database_id,
                is_expanded=options.is_expanded,
            )

    def _start(self, snapshot: Snapshot) -> tuple[int, Token]:
        """The first position in the log, and the point before which no event is delivered."""
        after, at = self.options.after, self.options.at
        if after is None and at is None:
            return snapshot.seq, points.mark_after(self._engine, snapshot, snapshot.seq)
        if at is not None:
            position = points.position_before(snapshot, (at.time, at.inc))
            return position, mark(at.time, at.inc, points.origin_at(self._engine, snapshot, position))
        assert after is not None
        points.check_origin(self._engine, snapshot, after)
        if not after.is_event:
            return points.position_before(snapshot, (after.seconds, after.increment)), after
        position, is_sought = points.position_of_event(snapshot, after)
        if is_sought:
            self._sought = after
        elif after.fragment or (after.may_end and self.scope.ends(after.uuid)):
            # Its other fragments, or its invalidate event, were compacted away with it.
            raise points.history_lost()
        return position, after

    # -----------------------------------------------------------------------------------------------------------
    # Batches

    @property
    def token(self) -> Document:
        """The resume token of the last batch, and before the first batch the token of the starting point."""
        return self._given

    def batch(self, most: int | None = None, most_bytes: int | None = None) -> StreamBatch:
        """The ready events, oldest first. It never waits for an event.

        Args:
            most: The greatest number of events. None: all ready events; with 0 nothing is read.
            most_bytes: The limit of all events together, in bytes of BSON. A first event beyond it comes alone, up to 16 MB.

        Raises:
            MongoError: 280 and 286, the stream cannot go on from its token; 136, unread changes were compacted away; 47, a
                required image is missing; 10334, an event is too large; errors of the stages. Any error closes the stream.
        """
        with self._lock:
            if self._error is not None:
                error, self._error = self._error, None
                self.close()
                raise error
            if self.is_closed or most == 0:
                return StreamBatch([], self._given, self.is_closed)
            events: list[Document] = []
            try:
                self._owner.raise_failure()
                # Closing the file wakes the stream and may not be complete at this read, and there is no second wake-up.
                self._owner.spaces.session.check_open()
                ended = False
                head = self._engine.newest_seq()
                if not self._is_quiet(head):
                    with self._snapshot(head) as snapshot:
                        ended = self._fill(events, snapshot, most, most_bytes)
            except Exception as error:
                if not events:
                    self.close()
                    raise
                self._error = error
                ended = False
            if ended:
                self.close()
            elif self._on_ready is not None:
                self._listen()
            return StreamBatch(events, self._given, ended)

    def _is_quiet(self, head: int) -> bool:
        """All events are delivered, and the token covers them. Most polls find an idle stream, so this takes no snapshot."""
        has_more = self._ready or self._changes or self._position > self._given_seq
        return not has_more and head <= self._position

    def _snapshot(self, head: int) -> AbstractContextManager[Snapshot]:
        """The snapshot of a batch. If only the commit that woke the stream is unread, the file is not read."""
        engine = self._engine
        catalogue = engine.catalogue
        if self._version == catalogue.version and not self.options.is_expanded:
            recent = self._owner.wakers.recent.between(self._position, head)
            if recent is not None and engine.current_transaction() is None:
                return LateSnapshot(engine, head, catalogue, recent)
        return engine.fresh_snapshot()

    def _fill(
        self, events: list[Document], snapshot: Snapshot, most: int | None, most_bytes: int | None
    ) -> bool:
        """Append the ready events to `events`. Returns: whether the stream has ended."""
        left = most_bytes
        pages = 0
        head = snapshot.seq
        while most is None or len(events) < most:
            while not self._ready:
                if self._changes:
                    self._handle_changes(self._changes.popleft(), snapshot)
                elif pages == MOST_PAGES and self._position < head:
                    # A waiting reader must come back at once.
                    self.notify()
                    return False
                elif not self._read(snapshot, head):
                    self._has_read_all(snapshot)
                    return False
                else:
                    pages += 1
            item = self._ready[0]
            if item.document is not None and left is not None:
                size = _size(item, left, is_first=not events)
                if size > left and events:
                    return False
                left -= size
            self._ready.popleft()
            self._given = item.token
            if item.document is not None:
                self._given_seq = item.seq
                events.append(item.document)
            if item.ends:
                return True
        return False

    def _has_read_all(self, snapshot: Snapshot) -> None:
        """Everything is read: the token moves to the newest change, unless that change was delivered as an event."""
        if self._sought is not None:
            if points.position_at(snapshot, self._sought) < self._position:
                raise points.not_found(
                    "the log continues after it, and no event of this stream has this token"
                )
            return
        if self._position <= self._given_seq:
            return
        token = self._owner.mark_after(snapshot, self._position)
        if token.place >= self._token.place:
            self._token = token
            self._given, self._given_seq = token.document(), self._position

    # -----------------------------------------------------------------------------------------------------------
    # Reading

    def _read(self, snapshot: Snapshot, head: int) -> bool:
        """Read the next page of the log up to its head. Whether there was any."""
        if self._listening is not None and self._sought is None and not self._is_unsure:
            self._position = self._listening.skip_to(self._position, head)
        if head <= self._position:
            return False
        try:
            self._read_until(snapshot, head)
        except HistoryLost as lost:
            raise MongoError(
                136,
                f"compaction has removed changes that the stream has not read: it is at {lost.since}, and the log begins later",
            ) from None
        return True

    def _read_until(self, snapshot: Snapshot, head: int) -> None:
        own = tuple(self._tables(is_seeking=self._sought is not None))
        place = (self._position, head, snapshot.catalogue.version, own, self.options.is_expanded)
        pages = self._owner.pages
        page = pages.find(place)
        if page is None:
            page = self._page(snapshot, head, own)
            pages.keep(place, page)
        self._reading.look_ahead(page.beside, snapshot)
        if page.beside:
            self._is_unsure |= any(change.table_id == CATALOGUE for change in page.beside)
        self._page_read = page
        self._changes.extend(self._select_changes(page, snapshot))
        self._position = page.end
        self._version = snapshot.catalogue.version if page.end == head else None

    def _tables(self, *, is_seeking: bool = False) -> list[int]:
        """The ids of the stream's tables; all tables in its scope while it looks for its starting point."""
        of = self._reading.times_changed, is_seeking
        if self._own[0] != of:
            interest = self.interest
            tables = self.scope.tables(self._owner.spaces.names, self._reading.tables)
            if interest.has_names and not is_seeking:
                tables = [table for table in tables if interest.is_in(self._reading.namespace(table))]
            self._own = of, tables
        return self._own[1]

    def _select_changes(self, page: LogPage, snapshot: Snapshot) -> Sequence[Change]:
        """The changes of a page to evaluate: all of them while it looks for its starting point."""
        lookups = self.interest.lookups
        if lookups is None or self._sought is not None:
            return page.changes
        changes: dict[int, Change] = {}
        for lookup in lookups:
            by_value, others = page.by_value(lookup.axis, snapshot.catalogue)
            changes |= {change.seq: change for change in (*others, *lookup.find_changes(by_value))}
        if self.options.full_document == "updateLookup" and self.interest.is_of_documents:
            # Their events have the document of now.
            changes |= {change.seq: change for change in page.changes if change.kind_code == UPDATE}
        return [changes[seq] for seq in sorted(changes)]

    def _page(self, snapshot: Snapshot, head: int, own: Sequence[int]) -> LogPage:
        since = self._position
        if isinstance(snapshot, LateSnapshot):
            known = [one for one in snapshot.recent if one.table_id in own and one.seq > since]
            return LogPage(known, (), head, self._origin(snapshot, head), is_recent=True)
        catalogue, connection = snapshot.catalogue, snapshot.connection
        is_same = self._version == catalogue.version
        # Dropping a database drops its tables, so DATABASES changes together with the catalogue.
        numbers = [] if is_same else [CATALOGUE]
        for hidden in () if is_same and not self.options.is_expanded else (DATABASES, COLLECTIONS):
            table = snapshot.table(hidden)
            if table is not None and (hidden is DATABASES or self.options.is_expanded):
                numbers.append(table.id)
        beside: list[Change] = []
        for number in numbers:
            entries, _ = read(connection, catalogue, since, head, table_ids=(number,), limit=-1)
            beside += make_changes(entries, catalogue)
        beside.sort(key=_seq)
        # A change of the catalogue may change the set of tables: read until there, and then again.
        end = min((change.seq for change in beside if change.table_id == CATALOGUE), default=head)
        changes: list[Change] = []
        if own:
            entries, end = read(
                connection, catalogue, since, end, table_ids=own, limit=PAGE, most_bytes=PAGE_BYTES
            )
            changes = list(make_changes(entries, catalogue))
        changes += [change for change in beside if change.seq <= end]
        changes.sort(key=_seq)
        return LogPage(changes, beside, end, self._origin(snapshot, end))

    def _origin(self, snapshot: Snapshot, end: int) -> TokenOrigin | None:
        """The origin of all changes from the position to a seq; None if there are several origins."""
        start = self._position + 1
        first = points.origin_at(self._engine, snapshot, start)
        return first if end == start or first == points.origin_at(self._engine, snapshot, end) else None

    def _handle_changes(self, change: Change, snapshot: Snapshot) -> None:
        """Make the events of a change."""
        page = self._page_read
        events = page.events.get(change.seq)
        if events is None:
            table = snapshot.catalogue.by_id.get(change.table_id)
            origin = page.origin or points.origin_at(self._engine, snapshot, change.seq)
            events = self._reading.events(change, table, origin)
            if table is not None and table.owner is None:
                page.events[change.seq] = events
        for event in events:
            self._queue_event(event, change.seq, snapshot, ends=False)
            if event.invalidates:
                self._queue_event(event.invalidate(), change.seq, snapshot, ends=True)

    def _queue_event(self, event: StreamEvent, seq: int, snapshot: Snapshot, *, ends: bool) -> None:
        """Queue an event, if it comes after the starting point of the stream."""
        sought = self._sought
        skipped = 0
        if sought is not None:
            if event.token == sought._replace(fragment=0):
                self._sought = None
                if not sought.fragment:
                    return
                skipped = sought.fragment
            elif event.token.place > sought.place:
                raise points.not_found("another event comes where it was")
            else:
                return
        elif self._point is not None:
            if event.token.place < self._point.place:
                return
            # Tokens sort in the order of events, so all later events are after the point as well.
            self._point = None
        self._token = event.token
        document = self._read_document(event, snapshot)
        change = event.change
        size = 0 if change is None else len(change.new_bytes or b"") + len(change.old_bytes or b"")
        bound = BYTES_OF_ONE * size + 4_096
        parts = [document]
        if document is not None and self._pipeline.splits and bound > MAX_EVENT_BYTES:
            parts = list(fragments(document, event.token, MAX_EVENT_BYTES))
        if skipped and (len(parts) == 1 or len(parts) < skipped):
            raise points.not_found("the event is not split as it was")
        for part in parts[skipped:]:
            # A copy: the caller owns the event and may change it.
            token = event.token.document() if part is None else dict(part["_id"])
            self._ready.append(_QueuedEvent(part, token, seq, bound, ends))

    def _read_document(self, event: StreamEvent, snapshot: Snapshot) -> Document | None:
        pipeline = self._pipeline
        for image in self._lookups:
            if not pipeline.takes(event.document(), image):
                return None
            event = with_image(event, image, self.options, snapshot)
        return pipeline.apply(event.document())

    # -----------------------------------------------------------------------------------------------------------
    # Waking

    def on_ready(self, call: Callable[[], object] | None) -> None:
        """Have `call` called when `batch` may return events: after a commit that changes a table of this stream, and when the
        file is closed. It runs where the commit is delivered: set an event there, and return. None removes the callback.

        Events may be ready already: call `batch` once after this, too.
        """
        with self._lock:
            self._on_ready = call
            if call is None or self.is_closed:
                self._stop_listening()
            else:
                self._listen()

    def _listen(self) -> None:
        if not self._changes:
            self._is_unsure = False
        as_of = self._reading.times_changed
        if self._listening is not None and self._listens_as_of == as_of:
            return
        interest = self.interest
        is_everything = self.scope.namespace is None and interest == EVERYTHING
        own = None if is_everything else self._tables()
        self._listens_as_of = as_of
        if self._listening is not None and own == self._listens_to:
            return
        before, self._listens_to = self._listening, own
        routes: list[Route] = []
        if own is not None and interest.lookups is not None:
            tables = self._engine.catalogue.by_id
            for table in own:
                routes += interest.routes(table, tables[table].primary_key)
        # Before the old subscription ends, so that no change is missed.
        listening = self._owner.wakers.listen(
            own, _notifier(ref(self)), None if interest.lookups is None else routes
        )
        self._listening = listening
        # The subscription holds only a weak reference to the stream.
        forgotten, self._forgetting = self._forgetting, finalize(self, listening.forget)
        self._forgetting.atexit = False
        if forgotten is not None:
            forgotten.detach()
        if before is not None:
            before.end()
            # A table without a subscription may have changed before.
            self.notify()
        if self.is_closed:
            self._stop_listening()

    def notify(self) -> None:
        """Call the callback of `on_ready`."""
        call = self._on_ready
        if call is not None:
            call()

    def _stop_listening(self) -> None:
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.end()
        forgotten, self._forgetting = self._forgetting, None
        if forgotten is not None:
            forgotten.detach()

    def close(self) -> None:
        """End it and call a waiting reader. A second call does nothing."""
        self.is_closed = True
        self._stop_listening()
        self.notify()
        self._on_ready = None


def _notifier(stream: ReferenceType[LogStream]) -> Callable[[], None]:
    def notify() -> None:
        live = stream()
        if live is not None:
            live.notify()

    return notify


_seq = attrgetter("seq")


def _size(item: _QueuedEvent, left: int, *, is_first: bool) -> int:
    """The bytes of an event, or where they surely fit, a bound of them.

    Raises:
        MongoError: 10334.
    """
    if item.size <= left // 4 and item.size < MAX_EVENT_BYTES // 4:
        return item.size
    assert item.document is not None
    size = len(bson.encode(item.document))
    if size > MAX_EVENT_BYTES:
        raise MongoError(
            10334,
            f"BSONObj size: {size} is invalid. Size must be between 0 and {MAX_EVENT_BYTES} (16MB). "
            f"First element: _id: {item.token}",
        )
    return size
