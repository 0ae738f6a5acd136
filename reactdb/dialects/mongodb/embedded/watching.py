"""EmbeddedChangeStream: a change stream in the process, with the manners of PyMongo's.

    with orders.watch([{"$match": {"operationType": "insert"}}]) as stream:
        for event in stream:
            ...

Rule of this file: events come from a `ResumingStream`, batch by batch; here is who waits for them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from time import monotonic
from types import TracebackType
from typing import Any

from bson.timestamp import Timestamp
from pymongo.collation import validate_collation_or_none
from pymongo.common import validate_list, validate_non_negative_integer_or_none, validate_string_or_none
from pymongo.errors import OperationFailure

from reactdb.dialects.mongodb.embedded.codecs import Codec
from reactdb.dialects.mongodb.embedded.resuming import ResumingStream
from reactdb.dialects.mongodb.embedded.statements import session_of, transaction_of
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.scopes import StreamScope
from reactdb.dialects.mongodb.streams import ChangeStreams

Document = dict[str, Any]
# Events that are read at once where nobody says how many.
BATCH = 101


class EmbeddedChangeStream:
    """See the head of this file. One thread at a time reads it; any closes it.

    It iterates over the events as documents, and waits for the next one. It ends, after the last event, where it was invalidated.
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
            start: The token that it begins at, where one was given.
            first: Events of its first batch, which is read here, at most.
            most: The same of the others.
            await_s: How long `try_next` waits.
            codec: What events are given as.
        """
        self._stream = stream
        self._most = most
        self._await_s = await_s
        self._codec = codec
        self._events: deque[Document] = deque(stream.first_batch(first).events)
        # Of a first batch with events nothing is said, as PyMongo does it.
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
        """What `resume_after` takes to go on after the event that was given last, or after what was seen of a quiet stream. None
        before the first event where it began at a time."""
        return None if self._token is None else self._codec.read(dict(self._token))

    def try_next(self) -> Any:
        """The next event; None where there is none, after `max_await_time_ms`, or at once where that was not said.

        Raises:
            OperationFailure: The stream cannot go on.
            RemovedToken: The pipeline has removed the token of an event.
        """
        deadline = monotonic() + self._await_s
        while True:
            self._woken.clear()
            found = self._next()
            left = deadline - monotonic()
            if found is not None or self._is_closed or left <= 0:
                return found
            self._wait(left)

    def next(self) -> Any:
        """The next event. It waits until there is one.

        Raises:
            StopIteration: The stream was closed, or has ended.
            OperationFailure: As `try_next`.
        """
        while not self._is_closed:
            self._woken.clear()
            found = self._next()
            if found is not None:
                return found
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
                # Only now, because who looks now and then needs not to be woken. There may be something by now.
                self._is_listening = True
                self._stream.on_ready(self._woken.set)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End it, and whoever waits for its next event. A second call does nothing."""
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
    """An event as PyMongo gives it, which its receiver may change: other streams have parts of the same."""
    return codec.read(_copied(event))


def _copied(value: Any) -> Any:
    if type(value) is dict:
        return {name: _copied(inner) for name, inner in value.items()}
    return [_copied(inner) for inner in value] if type(value) is list else value


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
        codec: How arguments become BSON, and what events are given as.
        max_await_time_ms: How long `try_next` waits for an event. Without it, it does not wait.
        batch_size: Events that are read from the log at once.

    Raises:
        TypeError, ValueError: As PyMongo's.
        OperationFailure: Whatever MongoDB refuses, with its code; what it is to begin with cannot be read.
    """
    validate_non_negative_integer_or_none("batchSize", batch_size)
    if type(batch_size) is not int and batch_size is not None:
        raise OperationFailure("BSON field 'cursor.batchSize' is the wrong type", 14)
    if not isinstance(max_await_time_ms, int | None):
        raise TypeError(f"max_await_time_ms must be an integer or None, not {type(max_await_time_ms)}")
    session = session_of(session, client)
    transaction = transaction_of(session)
    if session is not None and session.options.snapshot:
        raise OperationFailure(
            "$changeStream cannot run with a readConcern level of snapshot: it is majority", 72
        )
    if transaction is not None:
        # A command that fails ends its transaction: what it has written is not committed later.
        transaction.abort()
        raise OperationFailure("Operation not permitted in transaction :: caused by :: $changeStream", 263)
    stream = opened(
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


def opened(
    streams: ChangeStreams,
    codec: Codec,
    namespace: MongoNamespace | None,
    pipeline: Any,
    *,
    collation: Any = None,
    **said: Any,
) -> ResumingStream:
    """The stream of these options of `$changeStream`, of which those that are None are not said. Errors as for `watch`."""
    stages = validate_list("pipeline", [] if pipeline is None else pipeline)
    validate_string_or_none("full_document", said.get("fullDocument"))
    texts = validate_collation_or_none(collation)
    options = {name: value for name, value in said.items() if value is not None}
    for name in {"resumeAfter", "startAfter"} & options.keys():
        if isinstance(options[name], Mapping):
            options[name] = codec.given(options[name])
    # As PyMongo does it: of several places to begin at, one is said.
    if "startAfter" in options:
        options.pop("resumeAfter", None)
    if "startAfter" in options or "resumeAfter" in options:
        options.pop("startAtOperationTime", None)
    if namespace is None:
        namespace = MongoNamespace("admin")
        options["allChangesForCluster"] = True
    stages = [codec.given(stage) if isinstance(stage, Mapping) else stage for stage in stages]
    return ResumingStream(streams, StreamScope(namespace), options, stages, texts)
