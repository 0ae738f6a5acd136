"""Direct: the short way from a subscriber's queue to the function that is called with each event as it is.

Most feeds have one listener, who is called where the commit is told, with one event. What `Subscription.poll` and a consumer do
for everybody, step by step, is written out here for them: after a commit, nothing is in the processor's cache, and each call that
finds its code cold costs 0.3 µs.

Rule of this file: it tells what is queued, and nothing else. How a feed begins and ends, and whatever fails, is for the consumer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from reactdb.feeds.events import Event, Render
from reactdb.feeds.queue import FeedQueue
from reactdb.feeds.request import Request
from reactdb.feeds.standing import Standing

if TYPE_CHECKING:
    from reactdb.feeds.hearing import Called, Consumer
    from reactdb.feeds.log_reader import LogReader
    from reactdb.feeds.subscription import Subscription

# Events told to one subscriber before the next one gets its turn.
EVENTS_IN_A_TURN = 1_000
TURN = range(EVENTS_IN_A_TURN)


Spilled = Literal["spilled"]
SPILLED: Final = "spilled"
"""Its queue was full, and nothing may be lost."""


class Direct(Standing):
    """See the head of this file. What a subscription is apart from that is in `subscription`.

    Attributes:
        consumer: Who polls.
        end: COMPLETED, or the error, once nothing more will be queued.
        is_closed: It hears nothing more.
        is_woken: The consumer has been told that there is something.
        reader: Reads on from the log for it, or SPILLED before it is made; None while it is live.
    """

    __slots__ = (
        "_is_prepared",
        "_opening",
        "_render",
        "consumer",
        "end",
        "is_closed",
        "is_woken",
        "reader",
    )

    _render: Render

    def __init__(self, request: Request, consumer: Consumer) -> None:
        super().__init__(request)
        self.consumer = consumer
        self.reader: LogReader | Spilled | None = None
        self.end: Any = None
        self.is_closed = False
        self.is_woken = False
        self._opening: Iterator[Event] | None = None
        self._is_prepared = True

    def wake(self) -> None:
        """There is something new."""
        if not self.is_woken:
            self.is_woken = True
            self.consumer.wake(cast("Subscription", self))

    @property
    def is_plain(self) -> bool:
        """Whether a function is called with each of its events as it is, where the commit is told."""
        return self.consumer.way == "called" and cast("Called", self.consumer).is_plain(
            cast("Subscription", self)
        )

    def run(self) -> None:
        """Tell what is queued."""
        consumer: Any = self.consumer
        queue = self.queue
        if (
            type(queue) is FeedQueue
            and self._opening is None
            and self._is_prepared
            and not self.is_closed
            and self.reader is None
            and consumer.error is None
        ):
            # Whoever adds from now on wakes.
            self.is_woken = False
            try:
                held, render, tell = queue.held, self._render, consumer.on_next
                for _ in TURN:
                    if not held or queue.dropped != self._dropped_told:
                        break
                    try:
                        delta = held.popleft()
                    except IndexError:
                        # Dropped just now.
                        break
                    self._taken = delta.seq
                    try:
                        event = render(delta)
                    except Exception:
                        # It cannot be decoded, and so the feed ends.
                        held.appendleft(delta)
                        break
                    if event is not None:
                        self._told += 1
                        tell(event)
                        if self.is_closed:
                            return
                else:
                    # The others first.
                    self.wake()
                    return
            except Exception as error:
                consumer.broken(error)
                return
            except BaseException:
                consumer.interrupted()
                raise
            if not held and self.end is None and queue.dropped == self._dropped_told and self.reader is None:
                return
        consumer.run()
