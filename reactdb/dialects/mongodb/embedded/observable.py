"""Change streams as observables: `orders.changes([...])` has the events of `orders.watch([...])`.

Cold: each subscription opens its own stream, and delivers its events at their commit, on the committing thread, unless
`subscribe` has a scheduler. An invalidated stream completes after its last event, a failed stream ends with the error, and
disposing of the subscription closes it.

Rule of this file: one event after the other, even if an observer writes.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from reactdb.dialects.mongodb.embedded.change_stream import BATCH, open_stream, own_event
from reactdb.dialects.mongodb.embedded.codecs import Codec
from reactdb.dialects.mongodb.embedded.resuming_stream import ResumingStream
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.streams import ChangeStreams
from reactdb.errors import INTERRUPTS, FeedAborted, as_end
from reactdb.logs import logger

if TYPE_CHECKING:
    from reactivex import Observable
    from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase

SPELLED: Final = {
    "full_document": "fullDocument",
    "full_document_before_change": "fullDocumentBeforeChange",
    "resume_after": "resumeAfter",
    "start_after": "startAfter",
    "start_at_operation_time": "startAtOperationTime",
    "show_expanded_events": "showExpandedEvents",
}
"""PyMongo's names of the options of `$changeStream`."""
OF_WAITING: Final = frozenset(("batch_size", "max_await_time_ms", "comment"))
"""Options of `watch` without a meaning here, because no caller waits for batches."""


def changes(
    streams: ChangeStreams,
    codec: Codec,
    namespace: MongoNamespace | None,
    pipeline: Any = None,
    **options: Any,
) -> Observable[Any]:
    """The events of a change stream of a collection, a database, or everything (None).

    Args:
        codec: The conversion of arguments to BSON, and of events.
        options: As in `watch`; the names of `$changeStream`, such as `fullDocument`, work as well.
    """
    stream_options = {
        SPELLED.get(name, name): value for name, value in options.items() if name not in OF_WAITING
    }

    # Imported here because most programs observe nothing.
    import reactivex
    from reactivex.disposable import Disposable

    def subscribe(observer: ObserverBase[Any], scheduler: SchedulerBase | None = None) -> DisposableBase:
        telling = _Delivery(
            open_stream(streams, codec, namespace, pipeline, **stream_options), codec, observer, scheduler
        )
        telling.begin(streams.observed)
        return Disposable(telling.close)

    return reactivex.create(subscribe)


class _Delivery:
    """One subscription."""

    def __init__(
        self,
        stream: ResumingStream,
        codec: Codec,
        observer: ObserverBase[Any],
        scheduler: SchedulerBase | None,
    ) -> None:
        self._stream = stream
        self._codec = codec
        self._observer = observer
        self._scheduler = scheduler
        self._lock = threading.Lock()
        self._is_telling = False
        self._is_woken = False
        self._is_over = False
        self._held: set[object] = set()

    def begin(self, held: set[object]) -> None:
        """`held`: keeps it until it has ended, because a subscriber need not."""
        self._held = held
        held.add(self)
        self._stream.on_ready(self.wake)
        self.wake()

    def wake(self) -> None:
        """There may be events. The present delivery, this thread or the scheduler delivers them."""
        with self._lock:
            self._is_woken = True
            if self._is_telling or self._is_over:
                return
            self._is_telling = True
        if self._scheduler is None:
            self._deliver()
        else:
            try:
                self._scheduler.schedule(lambda *_: self._deliver())
            except INTERRUPTS:
                raise
            except BaseException as error:
                self._end_with(as_end(error))

    def _end_with(self, error: Exception) -> None:
        self.close()
        try:
            self._observer.on_error(error)
        except INTERRUPTS:
            raise
        except BaseException:
            # As for a subscriber without `on_error`.
            logger.exception("on_error of a subscriber raised")

    def _deliver(self) -> None:
        while True:
            with self._lock:
                if not self._is_woken or self._is_over:
                    self._is_telling = False
                    return
                self._is_woken = False
            try:
                is_last = self._deliver_batch()
            except BaseException as error:
                if isinstance(error, INTERRUPTS):
                    self._end_with(
                        FeedAborted("the change stream was interrupted while an event was delivered")
                    )
                    raise
                self._end_with(as_end(error))
                continue
            if is_last:
                self._observer.on_completed()

    def _deliver_batch(self) -> bool:
        """Whether the stream has ended with it."""
        batch = self._stream.batch(BATCH)
        if batch.events:
            # There may be more than fits into a batch.
            self._is_woken = True
        for event in batch.events:
            if self._is_over:
                return False
            self._observer.on_next(own_event(event, self._codec))
        if batch.is_closed and not self._is_over:
            self.close()
            return True
        return False

    def close(self) -> None:
        self._is_over = True
        self._held.discard(self)
        self._stream.close()
