"""EmbeddedChangeStream: a change stream in the process, with PyMongo's interface.

    with orders.watch([{"$match": {"operationType": "insert"}}]) as stream:
        for event in stream:
            ...

Rule of this file: a `ResumingStream` delivers the events, batch by batch; this file waits for them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from bson.timestamp import Timestamp

from reactdb.clock import monotonic
from reactdb.dialects.mongodb.embedded import driver
from reactdb.dialects.mongodb.embedded.argument_checks import check_list, collation_document
from reactdb.dialects.mongodb.embedded.codecs import Codec
from reactdb.dialects.mongodb.embedded.resuming_stream import ResumingStream
from reactdb.dialects.mongodb.embedded.statements import session_of, transaction_of
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.scopes import StreamScope
from reactdb.dialects.mongodb.streams import ChangeStreams

Document = dict[str, Any]
# The default number of events per read.
BATCH = 101


class EmbeddedChangeStream:
    """See the head of this file. One thread at a time reads it; any thread closes it.

    It iterates over the events as documents, and waits for the next one. After an invalidation it ends with its last event.
    """

    def __init__(
        self,
        stream: ResumingStream,
        start: Mapping[str, Any] | None,
        *,
        first: int,
        most: int,
        await_s: float,
        codec: Codec,
    ) -> None:
        """
        Args:
            start: The token of its starting point, if given.
            first: The size of its first batch at most; it is read here.
            most: The size of later batches at most.
            await_s: The longest wait of `try_next`.
            codec: The conversion of events.
        """
        self._stream = stream
        self._most = most
        self._await_s = await_s
        self._codec = codec
        self._events: deque[Document] = deque(stream.first_batch(first).events)
        # After a first batch with events there is no token yet, as in PyMongo.
        self._token = start if self._events else stream.token
        self._is_closed = False
        self._woken = threading.Event()
        self._is_listening = False

    @property
    def alive(self) -> bool:
        """It was not closed, nor invalidated: more events may come."""
        return not self._is_closed

    @property
    def resume_token(self) -> Any:
        """The value for `resume_after` to continue after the last delivered event, or after the last read of an idle stream. None
        before the first event of a stream with a start time."""
        return None if self._token is None else self._codec.read(dict(self._token))

    def try_next(self) -> Any:
        """The next event; None without one after `max_await_time_ms`, or at once without this option.

        Raises:
            OperationFailure: The stream cannot go on.
            RemovedToken: The pipeline has removed the token of an event.
        """
        deadline = monotonic() + self._await_s
        while True:
            self._woken.clear()
            event = self._next()
            left = deadline - monotonic()
            if event is not None or self._is_closed or left <= 0:
                return event
            self._wait(left)

    def next(self) -> Any:
        """The next event. It waits for it.

        Raises:
            StopIteration: The stream was closed, or has ended.
            OperationFailure: As `try_next`.
        """
        while not self._is_closed:
            self._woken.clear()
            event = self._next()
            if event is not None:
                return event
            if not self._is_closed:
                self._wait(None)
        raise StopIteration

    __next__ = next

    def __iter__(self) -> EmbeddedChangeStream:
        return self

    def _next(self) -> Any:
        if self._is_closed:
            return None
        if not self._events:
            try:
                self._events.extend(self._stream.batch(self._most).events)
            except BaseException:
                self._is_closed = self._stream.is_closed
                raise
        if not self._events:
            self._token = dict(self._stream.token)
            self._is_closed = self._is_closed or self._stream.is_closed
            return None
        event = self._events.popleft()
        self._token = dict(event["_id"] if self._events else self._stream.token)
        self._is_closed = self._is_closed or (self._stream.is_closed and not self._events)
        return own_event(event, self._codec)

    def _wait(self, seconds: float | None) -> None:
        try:
            if self._is_listening:
                self._woken.wait(seconds)
            else:
                # Registered only now, because a reader that only polls needs no wake-ups. An event may be ready by now.
                self._is_listening = True
                self._stream.on_ready(self._woken.set)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End it, and any wait for its next event. A second call does nothing."""
        self._is_closed = True
        self._stream.close()
        self._woken.set()

    def __enter__(self) -> EmbeddedChangeStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def own_event(event: Document, codec: Codec) -> Any:
    """An event in PyMongo's form. The receiver may change it, so it is a copy: other streams share its parts."""
    return codec.read(_copy(event))


def _copy(value: Any) -> Any:
    if type(value) is dict:
        return {name: _copy(inner) for name, inner in value.items()}
    return [_copy(inner) for inner in value] if type(value) is list else value


def watch(
    client: Any,
    codec: Codec,
    namespace: MongoNamespace | None,
    pipeline: Any = None,
    full_document: str | None = None,
    resume_after: Mapping[str, Any] | None = None,
    max_await_time_ms: int | None = None,
    batch_size: int | None = None,
    collation: Any = None,
    start_at_operation_time: Timestamp | None = None,
    session: Any = None,
    start_after: Mapping[str, Any] | None = None,
    comment: Any = None,
    full_document_before_change: str | None = None,
    show_expanded_events: bool | None = None,
) -> EmbeddedChangeStream:
    """A change stream of a collection, a database, or everything (None), with PyMongo's arguments.

    Args:
        codec: The conversion of arguments to BSON, and of events.
        max_await_time_ms: The longest wait of `try_next`. Without it, `try_next` does not wait.
        batch_size: Events per read of the log.

    Raises:
        TypeError, ValueError: As PyMongo's.
        OperationFailure: MongoDB refuses the arguments, with its code; or the starting point cannot be read.
    """
    if batch_size is not None:
        driver.validate_non_negative_integer_or_none("batchSize", batch_size)
        if type(batch_size) is not int:
            raise driver.OperationFailure("BSON field 'cursor.batchSize' is the wrong type", 14)
    if not isinstance(max_await_time_ms, int | None):
        raise TypeError(f"max_await_time_ms must be an integer or None, not {type(max_await_time_ms)}")
    session = session_of(session, client)
    transaction = transaction_of(session)
    if session is not None and session.options.snapshot:
        raise driver.OperationFailure(
            "$changeStream cannot run with a readConcern level of snapshot: it is majority", 72
        )
    if transaction is not None:
        # A failed command ends its transaction: the earlier writes are not committed later.
        transaction.abort()
        raise driver.OperationFailure(
            "Operation not permitted in transaction :: caused by :: $changeStream", 263
        )
    stream = open_stream(
        client.streams,
        codec,
        namespace,
        pipeline,
        collation=collation,
        fullDocument=full_document,
        resumeAfter=resume_after,
        startAfter=start_after,
        startAtOperationTime=start_at_operation_time,
        fullDocumentBeforeChange=full_document_before_change,
        showExpandedEvents=show_expanded_events or None,
    )
    start = resume_after if start_after is None else start_after
    # Where it begins now, there is nothing to read yet.
    is_late = start is not None or start_at_operation_time is not None
    return EmbeddedChangeStream(
        stream,
        start,
        first=(BATCH if batch_size is None else batch_size) if is_late else 0,
        most=batch_size or BATCH,
        await_s=(max_await_time_ms or 0) / 1_000,
        codec=codec,
    )


def open_stream(
    streams: ChangeStreams,
    codec: Codec,
    namespace: MongoNamespace | None,
    pipeline: Any,
    *,
    collation: Any = None,
    **given: Any,
) -> ResumingStream:
    """The stream for these options of `$changeStream`; options with None are left out. Errors as for `watch`."""
    stages = [] if pipeline is None else pipeline
    check_list("pipeline", stages)
    if given.get("fullDocument") is not None:
        driver.validate_string_or_none("full_document", given["fullDocument"])
    texts = collation_document(collation)
    options = codec.given({name: value for name, value in given.items() if value is not None})
    # As in PyMongo: only one of several starting points is sent.
    if not options.get("startAfter"):
        options.pop("startAfter", None)
    if "startAfter" in options:
        options.pop("resumeAfter", None)
    if "startAfter" in options or "resumeAfter" in options:
        options.pop("startAtOperationTime", None)
    if namespace is None:
        namespace = MongoNamespace("admin")
        options["allChangesForCluster"] = True
    stages = [codec.given(stage) if isinstance(stage, Mapping) else stage for stage in stages]
    return ResumingStream(streams, StreamScope(namespace), options, stages, texts)
