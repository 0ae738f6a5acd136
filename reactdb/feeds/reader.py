"""FeedReader: a feed that is polled and never waits: the basis of servers and event loops.

    reader = feed.reader(on_ready=event.set)
    reader.poll()                   the pending events, oldest first
    reader.position                 a token, for `since`: everything up to there was polled
    reader.close()

`on_ready` is called once when there is something to poll, by the committing thread or another one, and again only
after `poll` has found nothing more. So poll until nothing is left, and then wait.

Rule of this file: it connects. How events are taken from subscriptions is in `consumers`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from reactdb.errors import InvalidOption, UsageError, format_value
from reactdb.feeds.consumers import Flow, ReaderConsumer
from reactdb.feeds.handles import ListeningInBlock
from reactdb.feeds.request import Request
from reactdb.type_variables import Event, Generic

MAX_EVENTS = 1_000


class FeedReader(ListeningInBlock[ReaderConsumer], Generic[Event]):
    """A subscription that is polled and never waits.

    See the head of this file, and `Feed.reader`. A context manager; an unreferenced reader is closed.

    While a long beginning is read in a thread, `poll` returns nothing, and `position` is the position of the call of
    `reader` (None with initial values). `on_ready` is called when the feed has begun, also where it could not begin: then
    `poll` raises why.

    Thread safety: any method from any thread. Two threads that poll get different events.
    """

    def __init__(
        self,
        flow: Flow,
        on_ready: Callable[[], object] | None,
        clock: Callable[[], float] | None = None,
        *,
        is_background: bool = False,
    ) -> None:
        """
        Args:
            clock: Seconds, for the times of net differences; None: the clock of the database.
            is_background: Long reads are done in a thread: see `BaseConsumer.open_in_thread`.

        Raises:
            InvalidOption: `on_ready` cannot be called. Also any error that keeps the feed from beginning.
        """
        super().__init__(ReaderConsumer(check_on_ready(on_ready), clock), flow.copy_with(with_spill))
        if is_background:
            self._consumer.open_in_thread(self._flow)
        else:
            self._consumer.open(self._flow)
            self._consumer.run()

    def poll(self, max: int = MAX_EVENTS) -> list[Event]:
        """The pending events, oldest first; an empty list where there are none. It never waits.

        Args:
            max: The greatest number of events. Where as many come, there may be more, and `on_ready` is not called for them:
                poll again.

        Raises:
            InvalidOption: `max` is no number from 1 on.
            ForkedDatabase: It was opened before fork().
            Exception: The error that ended the feed, once, after the last event.
        """
        if isinstance(max, bool) or not isinstance(max, int) or max < 1:
            raise InvalidOption(f"max is a number of events from 1 on, not {format_value(max)}")
        return self._consumer.poll(max)

    @property
    def on_ready(self) -> Callable[[], object] | None:
        """The callback, without arguments, for new events and for the end of the feed; None: no callback.

        If events are pending when it is set, it is called at once. It runs where the commit is delivered: it should
        set an event, and return. Its exceptions are logged.
        """
        return self._consumer.on_ready

    @on_ready.setter
    def on_ready(self, on_ready: Callable[[], object] | None) -> None:
        self._consumer.on_ready = check_on_ready(on_ready)
        self._consumer.rearm()
        self._consumer.run()

    @property
    def position(self) -> str | None:
        """The token up to which everything was polled, for `since`, also in another process. As `Cursor.token`.

        Raises:
            UsageError: It reads a union of feeds of several databases.
        """
        return self._flow.token(self._consumer)

    @property
    def queued(self) -> int:
        """Changes that wait to be polled, in memory."""
        return self._consumer.queued

    @property
    def is_reading(self) -> bool:
        """A thread reads the beginning, or missed changes: until `on_ready` is called, `poll` returns nothing."""
        return self._consumer.is_reading

    @property
    def is_ending(self) -> bool:
        """The feed has ended: queued events can still be polled."""
        return self._consumer.is_ending

    @property
    def is_finished(self) -> bool:
        """The feed has ended, or was closed, and everything was polled."""
        return self._consumer.is_finished

    def rest(self) -> None:
        """Have `on_ready` called for the next change, though not everything was polled."""
        self._consumer.rearm()

    def __reduce__(self) -> NoReturn:
        raise UsageError(
            "a reader belongs to its process and cannot be pickled or copied: pass its position, and open another"
        )


def check_on_ready(on_ready: object) -> Any:
    """Raises: InvalidOption."""
    if on_ready is not None and not callable(on_ready):
        raise InvalidOption(
            f"on_ready is a callable without arguments, or None, not {format_value(on_ready)}"
        )
    return on_ready


def with_spill(request: Request) -> Request:
    """The request of a reader: a late reader continues from the log, unless the caller has set `on_overflow`."""
    return request if request.options.is_overflow_asked else request.copy_with(on_overflow="spill")
