"""EventStream: the changes of a type as server-sent events, one per answer of `$changes`.

    id: 7
    data: {"version": 7, "changes": [...]}

The id is the version to continue from: a browser that reconnects sends it as `Last-Event-ID`. A page is read when the client has
taken the page before, so a client that stops reading costs one page and continues from the log.

Rule of this file: the time of each event. The dialect has the content.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from reactdb.dialects.aidbox.changes import VersionedPage
from reactdb.dialects.aidbox.errors import AidboxError
from reactdb.servers.http.loop_waiter import LoopWaiter
from reactdb.servers.http.protocol import Closable, Run
from reactdb.servers.http.responses import encode_json

__all__ = ["EventStream", "OpenedEvents"]

HEARTBEAT_S: Final = 30.0


class OpenedEvents:
    """The answer to a request for server-sent events.

    Attributes:
        page: The page after a version; None: nothing has changed.
        since: The version to begin after.
        watch: As of `Deferred`.
    """

    def __init__(
        self,
        page: Callable[[int], VersionedPage | None],
        since: int,
        watch: Callable[[Callable[[], None]], Closable],
    ) -> None:
        self.page = page
        self.since = since
        self.watch = watch
        self.headers = {"cache-control": "no-cache"}

    def stream(self, run: Run) -> EventStream:
        return EventStream(self, run)

    def close(self) -> None:
        """The stream closes its subscription."""


class EventStream(LoopWaiter):
    """See the head of this file. `chunks` is iterated once; `end` lets it end early."""

    content_type: Final = "text/event-stream"

    def __init__(self, opened: OpenedEvents, run: Run) -> None:
        super().__init__()
        self._opened = opened
        self._run = run

    async def chunks(self) -> AsyncIterator[bytes]:
        opened = self._opened
        try:
            watched = await self._run(opened.watch, self._wake)
        except AidboxError as error:
            # The type, or the file, has gone since the status was sent.
            yield _event("error", error.outcome)
            return
        since = opened.since
        try:
            # The client sees that the server works.
            yield b":\n\n"
            while True:
                self._changed.clear()
                if self._is_ending:
                    return
                try:
                    page: VersionedPage | None = await self._run(opened.page, since)
                except AidboxError as error:
                    # Such as lost history: the client has to read the resources again.
                    yield _event("error", error.outcome)
                    return
                if page is not None:
                    since = page.version
                    if page.changes:
                        yield b"id: %d\n" % since + _event(None, page.body)
                    if page.has_more:
                        continue
                try:
                    async with asyncio.timeout(HEARTBEAT_S):
                        await self._changed.wait()
                except TimeoutError:
                    # A client of filtered changes continues from here.
                    yield b"id: %d\nevent: heartbeat\ndata: \n\n" % since
        finally:
            watched.close()


def _event(name: str | None, value: Any) -> bytes:
    head = b"" if name is None else f"event: {name}\n".encode()
    return head + b"data: " + encode_json(value) + b"\n\n"
