"""Server-sent events: a response without an end, which a page reads with `new EventSource(url)`.

    retry: 2000                                         milliseconds after which the page comes back
    id: 1ad9a9f41abd7672.c6ace8e84307.3                 where it goes on then

    id: 1ad9a9f41abd7672.c6ace8e84307.4
    data: [{"old_val":null,"new_val":{"id":1}}]

    event: ready
    ...

A block with an id and without data moves the position on, and the page sees nothing of it. So a page that was told nothing for a
day still comes back to the newest position.

Source:
    HTML Living Standard, section 9.2, Server-sent events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import HTTPConnection
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from reactdb.feeds.options import check_seconds
from reactdb.servers.open_streams import remember_stuck
from reactdb.web import positions
from reactdb.web.sources import Feeds, check_connection, check_interval, feeds_of
from reactdb.web.streams import GONE, SLOW, ClientStream, StreamMessage

HEADERS: Final = {
    # Proxies neither keep it nor compress it, since both would hold it back; nginx does not buffer it.
    "Cache-Control": "no-store, no-transform",
    "X-Accel-Buffering": "no",
}


def sse(
    source: Any,
    request: HTTPConnection,
    *,
    heartbeat_s: float = 15.0,
    retry_s: float = 2.0,
    send_timeout_s: float = 30.0,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A response that streams changes to a browser as server-sent events. A browser that comes back misses nothing, and gets
    nothing twice.

    The browser sends the id of its last message, as `Last-Event-ID`; a page that was loaded anew passes it as `?after=`. If
    the position is too old, or of another file, the stream sends an event `reset` and begins anew. The event `ready` says
    that everything up to now was delivered. Data is plain JSON, as of `reactdb.json.dumps(event, plain=True)`.

    The stream ends when the browser goes, when the database is closed, and when uvicorn stops.

    Args:
        source: A feed of `changes(...)`; or a selection, of which the stream has `changes(batches=True, include_initial=True)`,
            so that each message is a list of the changes of one commit; or a dict of feeds and selections by name, where
            each message has the name as its event. Of `connect` or `aconnect`.
        request: The request of the route.
        heartbeat_s: A comment is sent if nothing else was for so many seconds, so that no proxy ends an idle response.
        retry_s: The browser comes back so many seconds after the end of a stream.
        send_timeout_s: A browser that takes nothing for so many seconds is cut off.
        headers: More headers of the response.

    Returns:
        A response of Starlette. Its status is 204, which keeps a browser from coming back, if its last message was an `error`
        that ended the feed for good.

    Raises:
        InvalidOption: The source has no changes, `request` is none, a number is no number of seconds, or `heartbeat_s` or
            `send_timeout_s` is 0.
        UsageError: A feed cannot be continued: it has `limit` or `skip`, or unites several databases.
        Every error of `changes`, if the source is a selection.
    """
    check_interval("heartbeat_s", heartbeat_s)
    check_seconds("retry_s", retry_s)
    check_interval("send_timeout_s", send_timeout_s)
    feeds = feeds_of(source)
    check_connection("request", request, "query_params")
    after = request.headers.get("Last-Event-ID") or request.query_params.get("after")
    if after == positions.END:
        return Response(status_code=204, headers=headers)
    return EventStreamResponse(feeds, after, heartbeat_s, retry_s, send_timeout_s, headers)


class EventStreamResponse(StreamingResponse):
    """The response: see the head of this file."""

    media_type = "text/event-stream"

    def __init__(
        self,
        feeds: Feeds,
        after: str | None,
        heartbeat_s: float,
        retry_s: float,
        send_timeout_s: float,
        headers: Mapping[str, str] | None,
    ) -> None:
        super().__init__((), headers={**HEADERS, **(headers or {})})
        self._retry_ms = round(retry_s * 1_000)
        self._stream = ClientStream(feeds, after, heartbeat_s=heartbeat_s, send_timeout_s=send_timeout_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        stream = self._stream
        if scope["method"] != "HEAD":
            listener = asyncio.create_task(_listen(receive, stream))
            try:
                stream.begin()
                await self._send_all(send)
                if stream.over is SLOW:
                    remember_stuck(scope.get("client"), asyncio.get_running_loop())
            finally:
                stream.close()
                listener.cancel()
        if stream.over not in (SLOW, GONE):
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_all(self, send: Send) -> None:
        stream = self._stream
        last_id = stream.id
        text = f"retry: {self._retry_ms}\nid: {last_id}\n\n"
        while True:
            if text:
                await stream.deliver(
                    send({"type": "http.response.body", "body": text.encode(), "more_body": True})
                )
            if stream.over is not None:
                return
            messages = stream.take()
            if messages:
                text = "".join(map(write, messages))
                last_id = messages[-1].id
                # A client that catches up lets the others have their turn.
                await asyncio.sleep(0)
            elif await stream.wait():
                text = ""
            else:
                text, last_id = (":\n\n" if stream.id == last_id else f": \nid: {stream.id}\n\n"), stream.id


async def _listen(receive: Receive, stream: ClientStream) -> None:
    """End the stream when the client goes."""
    while (await receive())["type"] != "http.disconnect":
        pass
    stream.end(GONE)


def write(message: StreamMessage) -> str:
    """The message as lines."""
    event = "" if message.event is None else f"event: {message.event}\n"
    return f"{event}id: {message.id}\ndata: {message.data}\n\n"
