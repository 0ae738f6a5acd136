"""Session: one connection's queries, without the connection: frames in, frames out.

    START         evaluates a query, and answers with a value, the first batch of a stream, or an error
    CONTINUE      requests the next batch; a feed answers when it has a batch
    STOP          ends a stream
    NOREPLY_WAIT  is answered when all queries without a reply are done; they always are
    SERVER_INFO   is answered with the server's name and id

Every request has exactly one response, with the token of the request.

Every request may take `query_timeout_s` to evaluate and fill `query_bytes` of memory meanwhile: a query, and each further batch
of a stream or a feed. A waiting feed evaluates nothing, so it may stay open without limit.

Thread safety: `receive`, `poll` and `close` from one thread at a time; `cancel` from any. Feeds call `wake` from any thread; it
only leaves a note and calls the given function. Rule of this file: no socket, no thread, no waiting.
"""

from __future__ import annotations

import json
import struct
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

from reactdb.budget import Budget, Crowd, MemoryFull, Stopped, current
from reactdb.clock import monotonic
from reactdb.database import Database
from reactdb.dialects.rethinkdb import tables
from reactdb.dialects.rethinkdb.errors import ClientError, CompileError, Terminated, as_failure
from reactdb.dialects.rethinkdb.evaluator import Evaluator, RunOptions, check_limit, raise_at_first_read
from reactdb.dialects.rethinkdb.jobs import TERMINATED, Job, jobs_of
from reactdb.dialects.rethinkdb.open_feed import EARLY_S, OpenFeed
from reactdb.dialects.rethinkdb.parse import parse
from reactdb.dialects.rethinkdb.profiling import Profiler
from reactdb.dialects.rethinkdb.system import SERVER_NAME
from reactdb.dialects.rethinkdb.values import Database as DatabaseValue
from reactdb.dialects.rethinkdb.values import Sequence, Single, literal_type, stray_literal
from reactdb.dialects.rethinkdb.wire import encode_computed, render, to_json
from reactdb.errors import QueryError, ReactDBError, ResourceLimit
from reactdb.expression import array_limit
from reactdb.expression.markers import Grouped, Literal
from reactdb.query import ConcatMap, Group, Map, Query
from reactdb.session import session_of

T = TypeVar("T")

START, CONTINUE, STOP, NOREPLY_WAIT, SERVER_INFO = 1, 2, 3, 4, 5
ATOM, SEQUENCE, PARTIAL, WAIT_COMPLETE, SERVER = 1, 2, 3, 4, 5
HEADER: Final = struct.Struct("<qL")

MAX_BATCH_ROWS: Final = 2_000
MAX_BATCH_BYTES: Final = 1024 * 1024
MAX_STREAMS: Final = 10_000
"""Open streams of one connection. A feed costs about 10 kB."""

MAX_ARRAY_LIMIT: Final = 10_000_000
"""A client cannot raise `array_limit` above this, because arrays are in memory."""

# The options of `run`. Options for a cluster or for the driver are accepted and ignored.
RUN_OPTIONS: Final = frozenset(
    (
        "array_limit", "binary_format", "changefeed_queue_size", "db", "durability", "first_batch_scaledown_factor",
        "geo_system", "group_format", "identifier_format", "max_batch_bytes", "max_batch_rows", "max_batch_seconds",
        "max_dist", "max_results", "min_batch_rows", "noreply", "profile", "read_mode", "time_format", "use_outdated",
    )
)  # fmt: skip


class Frame(NamedTuple):
    """The token of a request, and the JSON of its response."""

    token: int
    body: bytes

    def pack(self) -> bytes:
        return HEADER.pack(self.token, len(self.body)) + self.body


class OpenStream:
    """A stream that the driver has not read to the end.

    Attributes:
        is_light: Its elements are stored documents, so a batch only needs the time for their JSON.
    """

    __slots__ = ("array_limit", "elements", "feed", "is_light", "job", "kept", "max_rows", "requests")

    def __init__(
        self, elements: Iterator[Any] | None, feed: OpenFeed | None, options: RunOptions, *, is_light: bool
    ) -> None:
        self.elements = elements
        self.feed = feed
        self.is_light = is_light
        self.max_rows = options.max_batch_rows or MAX_BATCH_ROWS
        self.array_limit = options.array_limit
        # The number of requests without a batch yet.
        self.requests = 0
        # Events of a feed without room in the last batch.
        self.kept: Iterator[Any] | None = None
        self.job: Job | None = None

    @property
    def due_at(self) -> float | None:
        """The moment at which a requested batch is due; None if no batch is requested, or it need not wait."""
        return self.feed.due_at if self.feed is not None and self.requests else None

    def close(self) -> None:
        if self.feed is not None:
            self.feed.close()


class Session:
    """See the head of this file."""

    def __init__(
        self,
        database: Database,
        wake: Callable[[], None] = lambda: None,
        *,
        clock: Callable[[], float] | None = None,
        max_streams: int = MAX_STREAMS,
        client: tuple[str, int] = ("in this process", 0),
        user: str = "admin",
        query_timeout_s: float | None = None,
        query_bytes: int | None = None,
        crowd: Crowd | None = None,
    ) -> None:
        """`wake`: called when `poll` may have frames, from any thread and perhaps under the lock of a commit. `crowd`: the
        sessions that share the threads and the memory of a server; `query_bytes` needs it.

        `clock`: seconds, for the limit of a query and for net differences; None: real seconds for the first, and the database's
        clock for the second.

        `client` and `user`: identify the client in the table of jobs.
        """
        self.database = database
        self._wake = wake
        self._clock = clock or session_of(database).clock.monotonic
        self._max_streams = max_streams
        self.client = client
        self.user = user
        self._jobs = jobs_of(database)
        self._jobs.join(self)
        # Streams that other sessions have ended in the table of jobs.
        self._killed: deque[int] = deque()
        self._streams: dict[int, OpenStream] = {}
        self._notes: deque[int] = deque()
        # Feeds with operators that compute something for each event.
        self._computing: set[int] = set()
        self._budget = Budget(query_timeout_s, clock or monotonic, crowd, query_bytes)
        # Token -> the moment at which this stream must be served even without a wake.
        self._due: dict[int, float] = {}
        self.is_closed = False

    # -----------------------------------------------------------------------------------------------------------
    # Requests

    def receive(self, token: int, body: bytes) -> list[Frame]:
        """Execute one request. Returns the responses that are available at once."""
        try:
            request = _decode_request(body)
            kind = request[0]
            if kind == START:
                return self._start(token, request)
            if kind == CONTINUE:
                return self._continue(token)
            if kind == STOP:
                return self._stop(token)
            if kind == NOREPLY_WAIT:
                return [response(token, {"t": WAIT_COMPLETE, "r": []})]
            if kind == SERVER_INFO:
                info = {
                    "id": session_of(self.database).database_id,
                    "name": SERVER_NAME,
                    "proxy": False,
                }
                return [response(token, {"t": SERVER, "r": [info]})]
            raise ClientError(f"Unrecognized QueryType {kind}.")
        except ReactDBError as error:
            return [failure(token, error)]

    def _start(self, token: int, request: list[Any]) -> list[Frame]:
        is_silent = False
        try:
            if token in self._streams:
                raise ClientError(f"ERROR: duplicate token {token}")
            given = request[2] if len(request) > 2 else {}
            if not isinstance(given, dict):
                raise ClientError("Client is buggy (the options of a query are no object).")
            is_silent = given.get("noreply") is True
            frames = [self._within_budget(self._evaluate, token, request, given, is_silent)]
        except Exception as error:
            frames = [failure(token, error)]
        return [] if is_silent else frames

    def _evaluate(self, token: int, request: list[Any], given: dict[str, Any], is_silent: bool) -> Frame:
        options = run_options(self.database, given)
        limits = array_limit.set(options.array_limit)
        try:
            term = parse(request[1] if len(request) > 1 else None, options.array_limit)
            evaluator = (Profiler if options.profile else Evaluator)(self.database, options)
            job = evaluator.job = self._jobs.begin(self, token, term)
            try:
                value = evaluator.run(term, {})
                frame = self._respond(token, evaluator, value, options, is_silent=is_silent)
                return with_profile(frame, evaluator) if isinstance(evaluator, Profiler) else frame
            finally:
                stream = self._streams.get(token)
                if stream is None:
                    self._jobs.end(job)
                else:
                    stream.job = job
        finally:
            array_limit.reset(limits)

    def _within_budget(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function within the limits of one request.

        Raises:
            ResourceLimit: It took longer, or filled more memory; Terminated: the session was cancelled.
        """
        budget = self._budget
        outer = current.set(budget)
        budget.begin()
        try:
            return function(*arguments)
        except Stopped as stopped:
            if budget.is_cancelled:
                raise Terminated("The query was stopped, because its client has gone.") from None
            if isinstance(stopped, MemoryFull):
                most = (budget.most_bytes or 0) / 2**20
                raise ResourceLimit(
                    f"The query was stopped, because it filled more than the {most:g} MiB of memory that this server allows."
                ) from None
            raise ResourceLimit(
                f"The query was stopped, because it took longer than the {budget.seconds:g} seconds that this server allows."
            ) from None
        finally:
            budget.end()
            current.reset(outer)

    def _respond(
        self, token: int, evaluator: Evaluator, value: Any, options: RunOptions, *, is_silent: bool
    ) -> Frame:
        if isinstance(value, Sequence):
            if value.feed is not None:
                if is_silent:
                    return response(token, {"t": SEQUENCE, "r": []})
                return self._open_feed(token, value, options)
            if value.is_array:
                return atom(token, list(evaluator.elements(value, ())))
            with evaluator.task("Reading the first batch."):
                stream = OpenStream(evaluator.read(value), None, options, is_light=is_stored(value.query))
                if is_silent:
                    for _ in stream.elements or ():
                        pass
                    return response(token, {"t": SEQUENCE, "r": []})
                self._check_room()
                return self._first_batch(token, stream)
        if type(value) is Single:
            # A stored document needs no evaluation.
            return response(token, {"t": ATOM, "r": [render(value.document())]})
        return atom(token, as_result(value))

    def _check_room(self) -> None:
        if len(self._streams) >= self._max_streams:
            raise ResourceLimit(f"This connection has {self._max_streams} open streams, which is the limit.")

    def _open_feed(self, token: int, value: Sequence, options: RunOptions) -> Frame:
        assert value.feed is not None
        self._check_room()
        feed = OpenFeed(value.feed, value.operators, self.database, lambda: self._note(token), self._clock)
        is_light = not value.operators and all(
            is_stored(member.query) and not member.operators for member in value.feed.members
        )
        stream = OpenStream(None, feed, options, is_light=is_light)
        feed.note_request()
        try:
            return self._first_batch(token, stream)
        except BaseException:
            feed.close()
            raise

    def _continue(self, token: int) -> list[Frame]:
        stream = self._streams.get(token)
        if stream is None:
            raise ClientError(f"Token {token} not in stream cache.")
        stream.requests += 1
        if stream.feed is not None and stream.requests == 1:
            stream.feed.note_request()
        return self._serve_requests(token, stream)

    def _stop(self, token: int) -> list[Frame]:
        stream = self._forget(token)
        if stream is None:
            raise ClientError(f"Token {token} not in stream cache.")
        stream.close()
        # Each waiting request gets a response, and so does the STOP.
        return [response(token, {"t": SEQUENCE, "r": []}) for _ in range(stream.requests + 1)]

    # -----------------------------------------------------------------------------------------------------------
    # Batches

    def poll(self) -> list[Frame]:
        """Responses to requests that waited for a feed."""
        notes: dict[int, None] = {}
        while True:
            try:
                notes[self._notes.popleft()] = None
            except IndexError:
                break
        if self._due:
            now = self._clock() + EARLY_S
            notes.update(dict.fromkeys(token for token, due_at in self._due.items() if now >= due_at))
        frames = self._end_killed()
        for token in notes:
            stream = self._streams.get(token)
            if stream is not None and stream.requests:
                frames += self._serve_requests(token, stream)
        return frames

    @property
    def wait_s(self) -> float | None:
        """Seconds until `poll` may have frames without any `wake`; None if there is no such moment.

        Any use of the session may change it, so the caller must ask again after each.
        """
        return max(0.0, min(self._due.values()) - self._clock()) if self._due else None

    @property
    def is_waiting(self) -> bool:
        """Whether some request waits for a feed."""
        return any(stream.requests for stream in self._streams.values())

    def kill(self, token: int) -> None:
        """End a stream and answer its waiting requests. Any thread may call it; the next `poll` does the work."""
        self._killed.append(token)
        self._wake()

    def _end_killed(self) -> list[Frame]:
        frames: list[Frame] = []
        while self._killed:
            token = self._killed.popleft()
            stream = self._streams.get(token)
            if stream is not None:
                stream.kept = stream.elements = raise_at_first_read(Terminated(TERMINATED))
                frames += self._serve_requests(token, stream)
        return frames

    def _note(self, token: int) -> None:
        self._notes.append(token)
        self._wake()

    def _serve_requests(self, token: int, stream: OpenStream) -> list[Frame]:
        """Answer the waiting requests of a stream, as far as there are elements."""
        frames: list[Frame] = []
        limits = array_limit.set(stream.array_limit)
        try:
            while stream.requests and token in self._streams:
                frame = self._within_budget(self._batch, token, stream)
                if frame is None:
                    break
                stream.requests -= 1
                frames.append(frame)
                if stream.requests and stream.feed is not None:
                    stream.feed.note_request()
        except Exception as error:
            self._forget(token)
            stream.close()
            frames.append(failure(token, error))
            stream.requests -= 1
        finally:
            array_limit.reset(limits)
        # The stream has ended, and more requests had been sent in advance.
        if token not in self._streams:
            missing = ClientError(f"Token {token} not in stream cache.")
            frames += [failure(token, missing) for _ in range(stream.requests)]
            stream.requests = 0
        due_at = stream.due_at
        if due_at is None:
            self._due.pop(token, None)
        else:
            self._due[token] = due_at
        return frames

    def _first_batch(self, token: int, stream: OpenStream) -> Frame:
        frame = self._batch(token, stream, is_first=True)
        assert frame is not None
        return frame

    def _batch(self, token: int, stream: OpenStream, *, is_first: bool = False) -> Frame | None:
        """The next batch as a frame; None if a feed has no events, unless this is its first batch."""
        items, size = [], 0
        is_last = True
        source = stream.elements if stream.feed is None else (stream.kept or stream.feed.items())
        assert source is not None
        try:
            for element in source:
                item = to_json(render(element)) if stream.is_light else encode_computed(element)
                items.append(item)
                size += len(item)
                if len(items) >= stream.max_rows or size >= MAX_BATCH_BYTES:
                    is_last = False
                    break
        except Exception as error:
            if not items or is_first:
                raise
            # The elements before the error are delivered first, unless the first batch cannot be made.
            stream.kept = stream.elements = raise_at_first_read(error)
            return self._partial(token, stream, items)
        if stream.feed is not None:
            stream.kept = None if is_last else source
            if is_last and not items and not is_first and not stream.feed.is_finished:
                return None
            is_last = is_last and stream.feed.is_finished
        if not is_last:
            return self._partial(token, stream, items)
        self._forget(token)
        return batch(token, SEQUENCE, items, [] if stream.feed is None else stream.feed.notes)

    def _forget(self, token: int) -> OpenStream | None:
        self._due.pop(token, None)
        self._computing.discard(token)
        stream = self._streams.pop(token, None)
        if stream is not None and stream.job is not None:
            self._jobs.end(stream.job)
        return stream

    def _partial(self, token: int, stream: OpenStream, items: list[bytes]) -> Frame:
        self._streams[token] = stream
        if stream.feed is not None and not stream.is_light:
            self._computing.add(token)
        return batch(token, PARTIAL, items, [] if stream.feed is None else stream.feed.notes)

    # -----------------------------------------------------------------------------------------------------------

    def is_heavy(self, token: int) -> bool:
        """Whether the next batch of a stream must be computed, or may be large."""
        stream = self._streams.get(token)
        return stream is not None and (stream.feed is None or not stream.is_light)

    @property
    def polls_heavily(self) -> bool:
        """Whether `poll` may compute something."""
        return bool(self._computing)

    def cancel(self) -> None:
        """Stop the evaluation soon, because the answers are not needed any more. Any thread may call it."""
        self._budget.cancel()

    def close(self) -> None:
        """End every stream, because the connection is closed."""
        self.is_closed = True
        self._jobs.leave(self)
        streams, self._streams = self._streams, {}
        self._due.clear()
        self._computing.clear()
        for stream in streams.values():
            if stream.job is not None:
                self._jobs.end(stream.job)
            stream.close()

    @property
    def stream_count(self) -> int:
        return len(self._streams)


def is_stored(query: Query | None) -> bool:
    """Whether a query returns stored documents without computing anything."""
    return query is not None and not any(isinstance(step, (Map, ConcatMap, Group)) for step in query.steps)


def _decode_request(body: bytes) -> list[Any]:
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        raise ClientError("Client is buggy (failed to deserialize query).") from None
    if not isinstance(request, list) or not request or not isinstance(request[0], int):
        raise ClientError("Client is buggy (failed to deserialize query).")
    return request


def run_options(database: Database, given: dict[str, Any]) -> RunOptions:
    """The options of `run`, checked.

    Raises:
        CompileError: An option is unknown; QueryError: its value is not allowed.
    """
    for name in given:
        if name not in RUN_OPTIONS:
            raise CompileError(f"Unrecognized global optional argument `{name}`.")
    match given:
        case {"db": [14, [str(name)]]} if len(given) == 1:
            # Most drivers send only this option, with every query.
            return RunOptions(tables.check_name("Database", name))
    plain = Evaluator(database, RunOptions())
    values = {name: plain.run(parse(value), {}) for name, value in given.items()}
    options = RunOptions()
    named = values.get("db")
    if isinstance(named, DatabaseValue):
        options.database = named.name
    elif isinstance(named, str):
        options.database = named
    if "array_limit" in values:
        options.array_limit = min(check_limit(values["array_limit"]), MAX_ARRAY_LIMIT)
    options.queue_size = values.get("changefeed_queue_size")
    rows = values.get("max_batch_rows")
    if isinstance(rows, int) and not isinstance(rows, bool) and rows > 0:
        options.max_batch_rows = min(rows, MAX_BATCH_ROWS)
    durability = values.get("durability")
    options.durability = durability if durability in ("hard", "soft") else None
    options.profile = values.get("profile") is True
    mode = values.get("read_mode")
    options.read_mode = mode if isinstance(mode, str) else None
    return options


def as_result(value: Any) -> Any:
    """A value that is not a stream, as datums and grouped data."""
    if isinstance(value, Single):
        value = value.document()
    if isinstance(value, Grouped):
        return Grouped([(group, as_result(reduction)) for group, reduction in value.groups])
    if isinstance(value, Literal):
        raise stray_literal()
    if isinstance(value, DatabaseValue) or callable(value):
        raise QueryError(
            f"Query result must be of type DATUM, GROUPED_DATA, or STREAM (got {literal_type(value)})."
        )
    return value


def atom(token: int, value: Any) -> Frame:
    return Frame(token, b'{"t":%d,"r":[%b]}' % (ATOM, encode_computed(value)))


def response(token: int, content: dict[str, Any]) -> Frame:
    return Frame(token, to_json(content))


def batch(token: int, kind: int, items: list[bytes], notes: list[int]) -> Frame:
    """A response with items that are already JSON."""
    suffix = b',"n":' + to_json(notes)
    return Frame(token, b'{"t":%d,"r":[%b]%b}' % (kind, b",".join(items), suffix))


def with_profile(frame: Frame, profiler: Profiler) -> Frame:
    """The response with the profile added."""
    return Frame(frame.token, b'%b,"p":%b}' % (frame.body[:-1], to_json(profiler.tasks)))


def failure(token: int, error: BaseException) -> Frame:
    reply = as_failure(error)
    content: dict[str, Any] = {"t": reply.type, "r": [reply.message], "b": reply.backtrace}
    if reply.kind is not None:
        content["e"] = reply.kind
    return response(token, content)
