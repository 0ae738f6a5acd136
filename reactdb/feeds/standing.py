"""Standing: where a subscription is in the log, and its figures.

    position    everything up to it has been told, or did not concern it
    told, queued, dropped, oldest_time

They are asked for by any thread while another one tells, so the order of looking matters: what has left one place is in the next.

Rule of this file: it looks, and changes nothing.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from reactdb.feeds.failures import Failing
from reactdb.feeds.queue import Queue
from reactdb.feeds.request import Request
from reactdb.feeds.views.base import AnyDelta

if TYPE_CHECKING:
    from reactdb.feeds.fan import Fan


NO_PACE = (0, 0.0)
NO_FAILURES: tuple[Failing | None, int, int] = (None, 0, 0)


class Standing:
    """See the head of this file.

    Attributes:
        queue: What it is still to be told; None where a fan has that.
        request: What it asked for.
        since: Changes up to this seq are in what it began with.
    """

    __slots__ = (
        "_base",
        "_batch",
        "_dropped_told",
        "_failed",
        "_fan",
        "_fan_from",
        "_final",
        "_pace",
        "_taken",
        "_told",
        "queue",
        "request",
        "since",
    )

    def __init__(self, request: Request) -> None:
        self.request = request
        self.since = 0
        self.queue: Queue | None = None
        self._fan: Fan | None = None
        # The fan's figures when it came, and how many changes the fan had when this feed ended.
        self._fan_from = (0, 0, 0, 0)
        # What was taken from the queue to be told as one; empty while it is being taken.
        self._batch: deque[AnyDelta] | None = None
        self._told = 0
        self._dropped_told = 0
        # Everything up to here is told or in the queue; None while that is whatever was published.
        self._base: int | None = None
        # Of who is told net differences: everything up to here was told before the batch was begun, which is told whole or not at
        # all; and when the next one is due, on the consumer's clock. One field, because most have no need of it.
        self._pace = NO_PACE
        # The newest change that was taken from the queue: while it is being published, it is told already.
        self._taken = 0
        self._final: int | None = None
        # What counts documents that could not be computed, its count to begin from, and how many there were before.
        self._failed = NO_FAILURES

    def _routed(self) -> int:
        return self.request.hub.engine.published

    @property
    def position(self) -> int:
        """Every change up to this seq has been told, or did not concern it."""
        if self._final is not None:
            return self._final
        # In this order: what is taken, or published, later than here is in the queue or the batch, or above what this says. The
        # queue before the batch: what goes from the one to the other meanwhile is seen in one of them.
        fan = self._fan
        taken = self._taken if fan is None else fan.taken
        base = self._base
        if base is None:
            base = max(self._routed(), self.since)
        if fan is not None:
            base = max(base, taken)
            waiting = fan.first(self)
            return base if waiting is None else max(self.since, min(base, waiting.seq - 1))
        queue = self.queue
        first = None if queue is None else queue.first_seq
        if self._batch is not None:
            return min(base, self._pace[0])
        base = max(base, taken)
        return base if first is None else min(base, first - 1)

    @property
    def queued(self) -> int:
        """Deltas that wait to be told."""
        fan = self._fan
        if fan is not None:
            return fan.waiting(self, self._fan_from[0])
        queue = self.queue
        return (0 if queue is None else len(queue)) + len(self._batch or ())

    @property
    def dropped(self) -> int:
        """Deltas that were never told."""
        fan, queue = self._fan, self.queue
        if fan is not None:
            return self._dropped_told + fan.dropped - self._fan_from[1]
        return self._dropped_told if queue is None else queue.dropped

    @property
    def failed(self) -> int:
        """Documents that could not be computed, and were passed over."""
        source, begin, before = self._failed
        return before if source is None else before + source.failed - begin

    def count_failures_of(self, source: Failing | None, begin: int | None = None) -> None:
        """From now on, what `source` fails for is counted, where it has more than `begin`; None: more than it has now."""
        if source is not self._failed[0]:
            self._failed = (source, self._begin_of(source, begin), self.failed)

    @staticmethod
    def _begin_of(source: Failing | None, begin: int | None) -> int:
        if begin is not None or source is None:
            return begin or 0
        return source.failed

    @property
    def told(self) -> int:
        """Events that it was told."""
        fan = self._fan
        if fan is None:
            return self._told
        added, dropped, notes, _ = self._fan_from
        changes = fan.added - added - (fan.dropped - dropped) - fan.waiting(self, added)
        return self._told + max(0, changes) + fan.notes - notes

    @property
    def oldest_time(self) -> int | None:
        """When the first change that waits to be told was made, in milliseconds since 1970."""
        fan = self._fan
        if fan is not None:
            first = fan.first(self)
            return None if first is None or first.seq <= self.since else first.time
        queue = self.queue
        time = None if queue is None else queue.first_time
        try:
            # Of what is being told; it may be told any moment.
            return self._batch[0].time  # type: ignore[index]
        except (IndexError, TypeError):
            return time
