"""ChangeStreams and LogStream: change streams of a file, which are asked for their events and never wait.

    streams = ChangeStreams(namespaces)
    stream = streams.open(StreamScope(MongoNamespace("shop", "orders")), [{"$changeStream": {}}, {"$match": {...}}])
    stream.on_ready(event.set)
    batch = stream.batch(most=100)          events, the token after them, whether the stream has ended

A stream reads the log where it stands, its own tables alone. What it has not been asked for is nowhere but in the log: nothing
can overflow, and a stream that is opened again with any of its tokens gives the rest exactly. One that is up to date but for the
commit that has woken it finds the changes in memory (`recent`).

Where its `$match` is about some values only (`routing`), a stream evaluates the changes that have them: it finds them in the
pages that it reads, and while it is woken (`waking`) it does not read those before the first that it was woken by.

Rule of this file: the position moves on with what was given, and a token says what was seen, never more.
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
from reactdb.dialects.mongodb.events import StreamEvent, StreamReading
from reactdb.dialects.mongodb.images import with_image
from reactdb.dialects.mongodb.namespaces import COLLECTIONS, DATABASES, Namespaces
from reactdb.dialects.mongodb.pages import LogPage, LogPages
from reactdb.dialects.mongodb.recent import LateSnapshot
from reactdb.dialects.mongodb.routing import EVERYTHING, interest_of
from reactdb.dialects.mongodb.scopes import StreamScope, names_at
from reactdb.dialects.mongodb.splitting import fragments
from reactdb.dialects.mongodb.stream_options import StreamOptions, check_options
from reactdb.dialects.mongodb.stream_stages import CHANGE_STREAM, StreamPipeline
from reactdb.dialects.mongodb.tokens import Token, TokenOrigin, mark
from reactdb.dialects.mongodb.variables import values_of
from reactdb.dialects.mongodb.waking import StreamWakers, TableWait
from reactdb.errors import HistoryLost
from reactdb.feeds.views.base import Route
from reactdb.store.log import changes_of, read
from reactdb.store.snapshot import Snapshot

Document = dict[str, Any]
MAX_EVENT_BYTES: Final = 16 * 1024 * 1024
"""The most that an event may have where a batch is bounded in bytes, which a reply is."""
# An event has a document three times at most, and an array of small numbers has eleven times as many bytes in BSON as here.
BYTES_OF_ONE: Final = 33
# Changes that are read from the log at once, and pages that one batch reads before it says how far it has come.
PAGE: Final = 200
PAGE_BYTES: Final = 8 << 20
MOST_PAGES: Final = 50


class StreamBatch(NamedTuple):
    """What a stream has given.

    Attributes:
        events: As documents. They may share parts with each other, and are not to be changed.
        token: That of the point after them, from which a stream goes on.
        is_closed: The stream was invalidated: these are its last events.
    """

    events: list[Document]
    token: Document
    is_closed: bool


class _Told(NamedTuple):
    """An event that was read, as it goes out.

    Attributes:
        document: None where the stages have dropped it.
        size: A bound of its bytes.
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
        # Streams of observables, whose subscribers need not keep anything.
        self.observed: set[object] = set()
        self._mark: tuple[int, Token] | None = None
        self._faults: deque[Exception] = deque()

    def mark_after(self, snapshot: Snapshot, seq: int) -> Token:
        """The high-water mark after a seq. That of the newest is asked for by all quiet streams."""
        known = self._mark
        if known is None or known[0] != seq:
            self._mark = known = (seq, points.mark_after(self.spaces.session.engine, snapshot, seq))
        return known[1]

    def fail(self, *errors: Exception) -> None:
        """Let the next batches of any streams fail, each with one of these: for tests of their readers."""
        self._faults.extend(errors)

    def strike(self) -> None:
        """Raise the next of the errors that `fail` was given."""
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
        """A stream.

        Args:
            scope: What it is about. `allChangesForCluster` makes it everything.
            pipeline: The stages, of which the first is `$changeStream`.
            let: Variables of the stages, as expressions.

        Raises:
            MongoError: What cannot be asked for, or cannot be resumed.
        """
        if not pipeline or CHANGE_STREAM not in pipeline[0]:
            raise MongoError(40602, "$changeStream is only valid as the first stage in a pipeline")
        said = pipeline[0][CHANGE_STREAM]
        options = check_options(said, scope)
        if said.get("allChangesForCluster"):
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
        scope, options: What it was opened with.
        interest: Which changes of documents it evaluates.
        is_closed: It has ended, or was closed.

    Thread safety: one thread at a time asks for batches; any closes it.
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
        # The version of the catalogue as of the position, where it is known.
        self._version: int | None = None
        self._ready: deque[_Told] = deque()
        self._error: Exception | None = None
        # The token that is looked for, on the way to the first event.
        self._sought: Token | None = None
        self._on_ready: Callable[[], object] | None = None
        self._listening: TableWait | None = None
        self._forgetting: finalize[..., LogStream] | None = None
        self._listens_to: list[int] | None = None
        # Of these tables it was known up to this change of tables that they are its own.
        self._listens_as_of = -1
        # Its tables, and since which change of tables and for which purpose they are these.
        self._own: tuple[tuple[int, bool], list[int]] = (-1, False), []
        # It has read of tables that came or went, which it may not listen to yet.
        self._is_unsure = False
        owner.spaces.session.check_open()
        # The point before which nothing is told; None once something after it was.
        self._point: Token | None
        with self._engine.fresh_snapshot() as snapshot:
            snapshot.check_end()
            self._position, self._point = self._start(snapshot)
            if self._position == snapshot.seq:
                self._version = snapshot.catalogue.version
            # Of the newest event that was given, or the point at which the stream stands.
            self._token: Token = self._point
            self._given: Document = (options.after or self._point).document()
            self._given_seq = self._position
            self._reading = StreamReading(
                scope,
                owner.spaces.names,
                names_at(snapshot, self._position),
                self._engine.database_id,
                is_expanded=options.is_expanded,
            )

    def _start(self, snapshot: Snapshot) -> tuple[int, Token]:
        """The position from which the log is read, and the point before which nothing is told."""
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
        """Where the stream stands: the token of its last batch, and at first the one that it began at."""
        return self._given

    def batch(self, most: int | None = None, most_bytes: int | None = None) -> StreamBatch:
        """The events that there are, oldest first. It never waits for one.

        Args:
            most: The greatest number of events. None: all there are; with 0 nothing is read.
            most_bytes: The most bytes of BSON of all events together. The first may have more, up to 16 MB; it is alone then.

        Raises:
            MongoError: 280 and 286, the stream cannot go on from its token; 136, what it has not read was compacted away; 47, a
                required image is missing; 10334, an event is too large; what a stage says. The stream is closed by it.
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
                self._owner.strike()
                # A stream that is woken because the file is being closed may look before that is done, and nobody wakes it again.
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
        """All that there is was given, and the token says so. Most streams that are asked are quiet, so it takes no snapshot."""
        has_more = self._ready or self._changes or self._position > self._given_seq
        return not has_more and head <= self._position

    def _snapshot(self, head: int) -> AbstractContextManager[Snapshot]:
        """What a batch reads. Where it is up to date but for what has woken it, nothing is read of the file."""
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
        """Put what there is into `events`. Whether the stream has ended."""
        left = most_bytes
        pages = 0
        head = snapshot.seq
        while most is None or len(events) < most:
            while not self._ready:
                if self._changes:
                    self._take_in(self._changes.popleft(), snapshot)
                elif pages == MOST_PAGES and self._position < head:
                    # A reader that waits is to come back at once.
                    self.tell()
                    return False
                elif not self._read(snapshot, head):
                    self._has_read_all(snapshot)
                    return False
                else:
                    pages += 1
            told = self._ready[0]
            if told.document is not None and left is not None:
                size = _size(told, left, is_first=not events)
                if size > left and events:
                    return False
                left -= size
            self._ready.popleft()
            self._given = told.token
            if told.document is not None:
                self._given_seq = told.seq
                events.append(told.document)
            if told.ends:
                return True
        return False

    def _has_read_all(self, snapshot: Snapshot) -> None:
        """Nothing is left: the token is that of the newest change, if that was not an event that was given."""
        if self._sought is not None:
            if points.position_at(snapshot, self._sought) < self._position:
                raise points.not_found("the log goes on after it, and no event of this stream has it")
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
            self._position = self._listening.passed_over(self._position, head)
        if head <= self._position:
            return False
        try:
            self._read_until(snapshot, head)
        except HistoryLost as lost:
            raise MongoError(
                136,
                f"the change stream was overtaken by compaction: it stands at {lost.since}, and the log begins later",
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
        self._changes.extend(self._interesting(page, snapshot))
        self._position = page.end
        self._version = snapshot.catalogue.version if page.end == head else None

    def _tables(self, *, is_seeking: bool = False) -> list[int]:
        """The numbers of the tables that it reads; to find a place, all in its scope."""
        of = self._reading.times_changed, is_seeking
        if self._own[0] != of:
            interest = self.interest
            found = self.scope.tables(self._owner.spaces.names, self._reading.tables)
            if interest.has_names and not is_seeking:
                found = [table for table in found if interest.is_in(self._reading.namespace(table))]
            self._own = of, found
        return self._own[1]

    def _interesting(self, page: LogPage, snapshot: Snapshot) -> Sequence[Change]:
        """The changes of a page that it evaluates. To find its place, it evaluates all."""
        lookups = self.interest.lookups
        if lookups is None or self._sought is not None:
            return page.changes
        found: dict[int, Change] = {}
        for lookup in lookups:
            by_value, others = page.by_value(lookup.axis, snapshot.catalogue)
            found |= {change.seq: change for change in (*others, *lookup.found(by_value))}
        if self.options.full_document == "updateLookup" and self.interest.is_of_documents:
            # Their events have the document of now.
            found |= {change.seq: change for change in page.changes if change.kind_code == UPDATE}
        return [found[seq] for seq in sorted(found)]

    def _page(self, snapshot: Snapshot, head: int, own: Sequence[int]) -> LogPage:
        since = self._position
        if isinstance(snapshot, LateSnapshot):
            known = [one for one in snapshot.recent if one.table_id in own and one.seq > since]
            return LogPage(known, (), head, self._origin(snapshot, head), is_recent=True)
        catalogue, connection = snapshot.catalogue, snapshot.connection
        is_same = self._version == catalogue.version
        # A database is dropped with its tables, so that DATABASES has changed with the catalogue.
        numbers = [] if is_same else [CATALOGUE]
        for hidden in () if is_same and not self.options.is_expanded else (DATABASES, COLLECTIONS):
            table = snapshot.table(hidden)
            if table is not None and (hidden is DATABASES or self.options.is_expanded):
                numbers.append(table.id)
        beside: list[Change] = []
        for number in numbers:
            entries, _ = read(connection, catalogue, since, head, table_ids=(number,), limit=-1)
            beside += changes_of(entries, catalogue)
        beside.sort(key=_seq)
        # A change of the catalogue may change which tables these are: until there, and then again.
        end = min((change.seq for change in beside if change.table_id == CATALOGUE), default=head)
        found: list[Change] = []
        if own:
            entries, end = read(
                connection, catalogue, since, end, table_ids=own, limit=PAGE, most_bytes=PAGE_BYTES
            )
            found = list(changes_of(entries, catalogue))
        found += [change for change in beside if change.seq <= end]
        found.sort(key=_seq)
        return LogPage(found, beside, end, self._origin(snapshot, end))

    def _origin(self, snapshot: Snapshot, end: int) -> TokenOrigin | None:
        """That of all changes from the position to a seq; None where there are several."""
        start = self._position + 1
        first = points.origin_at(self._engine, snapshot, start)
        return first if end == start or first == points.origin_at(self._engine, snapshot, end) else None

    def _take_in(self, change: Change, snapshot: Snapshot) -> None:
        """Make what there is to tell of a change."""
        page = self._page_read
        events = page.events.get(change.seq)
        if events is None:
            table = snapshot.catalogue.by_id.get(change.table_id)
            origin = page.origin or points.origin_at(self._engine, snapshot, change.seq)
            events = self._reading.events(change, table, origin)
            if table is not None and table.owner is None:
                page.events[change.seq] = events
        for event in events:
            self._tell_of(event, change.seq, snapshot, ends=False)
            if event.invalidates:
                self._tell_of(event.invalidate(), change.seq, snapshot, ends=True)

    def _tell_of(self, event: StreamEvent, seq: int, snapshot: Snapshot, *, ends: bool) -> None:
        """Put an event where it goes out, if it comes after the place at which the stream begins."""
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
            # Tokens sort as the events come, so all that follow are after it as well.
            self._point = None
        self._token = event.token
        document = self._shown(event, snapshot)
        change = event.change
        size = 0 if change is None else len(change.new_bytes or b"") + len(change.old_bytes or b"")
        bound = BYTES_OF_ONE * size + 4_096
        parts = [document]
        if document is not None and self._pipeline.splits and bound > MAX_EVENT_BYTES:
            parts = list(fragments(document, event.token, MAX_EVENT_BYTES))
        if skipped and (len(parts) == 1 or len(parts) < skipped):
            raise points.not_found("the event is not split as it was")
        for part in parts[skipped:]:
            # One of its own: the event is the caller's.
            token = event.token.document() if part is None else dict(part["_id"])
            self._ready.append(_Told(part, token, seq, bound, ends))

    def _shown(self, event: StreamEvent, snapshot: Snapshot) -> Document | None:
        pipeline = self._pipeline
        for image in self._lookups:
            if not pipeline.takes(event.document(), image):
                return None
            event = with_image(event, image, self.options, snapshot)
        return pipeline.apply(event.document())

    # -----------------------------------------------------------------------------------------------------------
    # Waking

    def on_ready(self, call: Callable[[], object] | None) -> None:
        """Have `call` called when there may be something for `batch`: after a commit that changes a table of this stream, or when
        the file is closed. It runs where the commit is delivered: it should set an event, and return. None: nobody is called.

        Whether there is something is seen by asking: ask once after this, too.
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
        # Before the other one ends, so that nobody misses anything.
        listening = self._owner.wakers.listen(
            own, _teller(ref(self)), None if interest.lookups is None else routes
        )
        self._listening = listening
        # A stream that was forgotten is not kept by its being woken.
        forgotten, self._forgetting = self._forgetting, finalize(self, listening.forget)
        self._forgetting.atexit = False
        if forgotten is not None:
            forgotten.detach()
        if before is not None:
            before.end()
            # Something may have happened to a table that was not listened to yet.
            self.tell()
        if self.is_closed:
            self._stop_listening()

    def tell(self) -> None:
        """Call who waits."""
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
        """End it. A second call does nothing. A reader that waits is called."""
        self.is_closed = True
        self._stop_listening()
        self.tell()
        self._on_ready = None


def _teller(stream: ReferenceType[LogStream]) -> Callable[[], None]:
    def tell() -> None:
        found = stream()
        if found is not None:
            found.tell()

    return tell


_seq = attrgetter("seq")


def _size(told: _Told, left: int, *, is_first: bool) -> int:
    """The bytes of an event, or where they surely fit, a bound of them.

    Raises:
        MongoError: 10334.
    """
    if told.size <= left // 4 and told.size < MAX_EVENT_BYTES // 4:
        return told.size
    assert told.document is not None
    size = len(bson.encode(told.document))
    if size > MAX_EVENT_BYTES:
        raise MongoError(
            10334,
            f"BSONObj size: {size} is invalid. Size must be between 0 and {MAX_EVENT_BYTES} (16MB). "
            f"First element: _id: {told.token}",
        )
    return size
