"""ClientStream: the messages of one client, from one feed or several.

    a change    an event of a feed, or a list of them with `batches`; the message has the feed's name, if it has one
    ready       everything up to now was delivered: the initial values, or what the client has missed
    reset       the client replaces its data: its position is too old, or of another history. Initial values follow
    error       the feed has ended, and why

    while not stream.is_over:
        messages = stream.take()
        ... send them with `stream.deliver(send(...))`
        if not messages: await stream.wait()

Rule of this file: it knows no protocol. All methods but `ring` and `end_soon` are called in the loop's thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, Final, NamedTuple

import reactdb.json
from reactdb.errors import (
    DatabaseClosed,
    FeedError,
    FeedOverflow,
    HistoryDiverged,
    HistoryLost,
    InvalidOption,
    ReactDBError,
    StorageError,
)
from reactdb.feeds.feed import Feed
from reactdb.feeds.reader import FeedReader
from reactdb.logs import logger
from reactdb.servers.open_streams import STOP_GRACE_S, enter, leave, ring
from reactdb.web import positions
from reactdb.web.sources import Feeds, continued

# Characters that one `take` collects, so that a client that catches up costs few writes, and the others have their turn.
ENOUGH: Final = 1 << 16

GONE, STOPPING, SLOW, CLOSED, FAILED, UNAVAILABLE = (
    "the client has gone",
    "the server stops",
    "the client does not read",
    "the database was closed",
    "the feed has ended with an error",
    "the feed cannot be read now",
)


class StreamMessage(NamedTuple):
    """`event`: the name, None for a change of a single feed. `data`: JSON in one line. `id`: the position after it."""

    event: str | None
    data: str
    id: str


class FollowedFeed:
    """One feed of a stream.

    Attributes:
        token: The position up to which it was polled; None where no token leads to the rest, or nothing was opened. It is never
            a text of the client, which may have any characters.
        is_reset: The client has not yet been told to replace its data.
        is_ready: What there was at the beginning was delivered.
    """

    def __init__(self, name: str | None, feed: Feed[Any], token: str | None) -> None:
        self.name = name
        self._feed = feed
        self.is_reset = token == positions.NEW
        self.is_ready = False
        self._start = None if self.is_reset else token
        self._reader: FeedReader[Any] | None = None
        # It has been reset, and nothing was delivered since.
        self._is_anew = False

    def open(self, ring: Any) -> FeedReader[Any]:
        """Raises: every error that keeps a feed from beginning."""
        if self._reader is None:
            feed = self._feed if self._start is None else continued(self._feed, self._start)
            self._reader = feed.reader(ring)
        return self._reader

    def poll(self, ring: Any) -> list[Any]:
        """The next event, or none. Raises: why the feed has ended."""
        reader = self.open(ring)
        was_reading = reader.is_reading
        events = reader.poll(1)
        while not events and was_reading and not reader.is_reading:
            # The thread that read has finished after the poll: what it has read is there now.
            was_reading = False
            events = reader.poll(1)
        if events:
            self._is_anew = False
        elif not (self.is_ready or was_reading or reader.is_reading) and is_past_initial(reader.position):
            self.is_ready, self._is_anew = True, False
            events = [READY]
        return events

    def begin_anew(self) -> bool:
        """Open the feed at its beginning, and send the client a reset. False: the stream has just tried this, and it failed."""
        if self._is_anew or (self._start is None and self._reader is None):
            return False
        self.close()
        self._start, self.is_reset, self.is_ready, self._is_anew = None, True, False, True
        return True

    @property
    def token(self) -> str | None:
        return None if self._reader is None else self._reader.position

    @property
    def is_finished(self) -> bool:
        return self._reader is not None and self._reader.is_finished

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


READY: Final = object()


def is_past_initial(token: str | None) -> bool:
    """Whether a token is past the initial values."""
    return token is not None and token.count(".") == 2


class ClientStream:
    """See the head of this file.

    Attributes:
        over: Why it is over, one of the sentences above; None while it goes on.
        sentence: What the client is told of an error.
    """

    def __init__(self, feeds: Feeds, after: str | None, *, heartbeat_s: float, send_timeout_s: float) -> None:
        self._feeds = feeds
        self._heartbeat_s = heartbeat_s
        self._send_timeout_s = send_timeout_s
        self._parts = self._make_parts(after)
        self._pending: list[StreamMessage] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiter: asyncio.Future[bool] | None = None
        self._limit: asyncio.Timeout | None = None
        self._is_rung = False
        self.over: str | None = None
        self.sentence = ""

    def _make_parts(self, after: str | None) -> list[FollowedFeed]:
        tokens = positions.split(after, self._feeds)
        return [FollowedFeed(name, feed, tokens[name]) for name, feed in self._feeds.items()]

    def begin(self) -> None:
        """Open the feeds. What cannot be opened is told by the first `take`."""
        self._loop = asyncio.get_running_loop()
        enter(self, self._loop)
        for part in self._parts:
            with suppress(ReactDBError):
                part.open(self.ring)

    def move(self, after: str | None) -> None:
        """Go on from another position."""
        self._close_parts()
        self._parts = self._make_parts(after)
        self.wake()

    @property
    def id(self) -> str:
        """The position up to which everything was taken."""
        return positions.join({part.name: part.token for part in self._parts})

    # -----------------------------------------------------------------------------------------------------------
    # Taking

    def take(self) -> list[StreamMessage]:
        """The messages that there are, some 64 KiB of them at most. It never waits."""
        self._is_rung = False
        messages: list[StreamMessage] = []
        room = ENOUGH
        for part in self._parts:
            while room > 0 and self.over is None:
                try:
                    part.open(self.ring)
                    if part.is_reset:
                        part.is_reset = False
                        messages.append(self._note("reset", part))
                    events = part.poll(self.ring)
                    # In the block, because a function of the feed may return what JSON has not.
                    data = (
                        reactdb.json.dumps(events[0], plain=True) if events and events[0] is not READY else ""
                    )
                except Exception as error:
                    self._meet(part, error, messages)
                    continue
                if not events:
                    break
                if events[0] is READY:
                    messages.append(self._note("ready", part))
                    continue
                room -= len(data)
                messages.append(StreamMessage(part.name, data, self.id))
            if part.is_finished and self.over is None:
                self.over = CLOSED
        # In turn: no feed keeps the others waiting for ever.
        self._parts.append(self._parts.pop(0))
        return messages

    def _note(self, event: str, part: FollowedFeed, **fields: str) -> StreamMessage:
        names = {} if part.name is None else {"feed": part.name}
        return StreamMessage(event, reactdb.json.dumps(names | fields), self.id)

    def _meet(self, part: FollowedFeed, error: Exception, messages: list[StreamMessage]) -> None:
        """The feed of a part has ended with an error."""
        if isinstance(error, DatabaseClosed):
            self.over = CLOSED
            return
        has_lost = isinstance(error, (HistoryLost, HistoryDiverged, FeedOverflow, InvalidOption))
        if has_lost and part.begin_anew():
            return
        is_passing = isinstance(error, (StorageError, OSError)) or not isinstance(error, ReactDBError)
        self.over = UNAVAILABLE if is_passing else FAILED
        # The sentences of other errors may name values and files, which are no business of the client.
        self.sentence = str(error) if isinstance(error, FeedError) else f"{self.over}: {type(error).__name__}"
        if not isinstance(error, FeedError):
            logger.error("a feed of a browser has ended", exc_info=error)
        note = self._note("error", part, error=type(error).__name__, message=self.sentence)
        messages.append(note if is_passing else note._replace(id=positions.END))

    # -----------------------------------------------------------------------------------------------------------
    # Waiting

    def ring(self) -> None:
        """There may be something to take. Any thread."""
        if self._loop is not None:
            ring(self, self._loop)

    def wake(self, is_rung: bool = True) -> None:
        """Let `wait` return. `is_rung`: there may be something."""
        if is_rung:
            self._is_rung = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(is_rung)

    async def wait(self) -> bool:
        """Wait until there may be something to take. False: nothing came in the time of a heartbeat."""
        if self._is_rung or self.over is not None:
            return True
        assert self._loop is not None
        self._waiter = self._loop.create_future()
        # A timer is an entry in the loop's heap, and no task.
        timer = self._loop.call_later(self._heartbeat_s, self.wake, False)
        try:
            return await self._waiter
        finally:
            timer.cancel()
            self._waiter = None

    async def deliver(self, sending: Awaitable[None]) -> None:
        """Await what sends; the stream is over if the client takes nothing in time, or has gone."""
        try:
            async with asyncio.timeout(self._send_timeout_s) as self._limit:
                if self.over is STOPPING:
                    self._hurry()
                await sending
        except TimeoutError:
            self.over = SLOW
        except OSError:
            # A server of ASGI 2.4 says so.
            self.over = GONE
        finally:
            self._limit = None

    def _hurry(self) -> None:
        if self._limit is not None and self._loop is not None:
            soon = self._loop.time() + STOP_GRACE_S
            when = self._limit.when()
            if when is None or when > soon:
                self._limit.reschedule(soon)

    # -----------------------------------------------------------------------------------------------------------
    # Ending

    def end(self, why: str = STOPPING) -> None:
        """It is over; a message that is being sent is given a moment."""
        if self.over is None:
            self.over = why
            self._hurry()
            self.wake()

    def close(self) -> None:
        """Close the feeds. A second call does nothing."""
        self._close_parts()
        if self._loop is not None:
            leave(self, self._loop)

    def _close_parts(self) -> None:
        for part in self._parts:
            part.close()
