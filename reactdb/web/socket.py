"""WebSockets: the same stream as JSON messages.

    from the page    {"after": id}                                      the first message, or `?after=id` in the address
    to the page      {"event": "message", "id": "...", "data": ...}     a change; with several feeds, `event` is the name
                     {"event": "ready" | "reset" | "error" | "ping", ...}

Codes of the end: see `CODES`. A socket that is closed before it was accepted shows the page no code but 1006, so it is accepted
first in any case.

Source:
    RFC 6455, section 7.4.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any, Final

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

import reactdb.json
from reactdb.errors import DatabaseClosed, ReactDBError
from reactdb.servers.open_streams import remember_stuck
from reactdb.web import positions
from reactdb.web.sources import check_connection, check_interval, feeds_of
from reactdb.web.streams import (
    CLOSED,
    FAILED,
    GONE,
    SLOW,
    STOPPING,
    UNAVAILABLE,
    ClientStream,
    StreamMessage,
)

MISUNDERSTOOD: Final = 'a message of the page is JSON such as {"after": null}, and after is an id or null'
CODES: Final = {
    STOPPING: 1012,
    CLOSED: 1012,
    SLOW: 1013,
    UNAVAILABLE: 1013,
    MISUNDERSTOOD: 4400,
    FAILED: 4410,
}
"""Why a socket is closed -> its code. Codes below 4000 mean: come back with the last id."""

# A page without `?after=` has so long to say where it begins.
FIRST_MESSAGE_S: Final = 1.0
# A close frame is a few bytes, but a client that does not read does not take them.
CLOSE_S: Final = 0.5
# A reason has at most 123 bytes in UTF-8.
MOST_REASON: Final = 123


async def websocket(
    source: Any,
    websocket: WebSocket,
    *,
    heartbeat_s: float = 15.0,
    send_timeout_s: float = 30.0,
) -> None:
    """Stream changes over a WebSocket, until the page goes or the server stops. The counterpart of `sse`.

    The page says where it begins: with `?after=ID` in the address, or with a first message `{"after": ID}`. A page that says
    nothing for a second begins at the beginning, as with `{"after": null}`. `ID` is the id of its last message.

    Each message is a JSON object with `event`, `id` and `data`. `event` is "message" for a change, or the name of the feed
    if there are several; and ready, reset, error as for `sse`, or ping.

    Args:
        source: As for `sse`.
        websocket: The socket of the route. It is accepted if the route has not done it.
        heartbeat_s: A ping is sent if nothing else was for so many seconds.
        send_timeout_s: A page that takes nothing for so many seconds is cut off.

    Raises:
        As `sse`. If the feed itself is refused, such as for a table that is gone, the page gets the code 4410 before.
    """
    check_interval("heartbeat_s", heartbeat_s)
    check_interval("send_timeout_s", send_timeout_s)
    check_connection("websocket", websocket, "application_state")
    try:
        feeds = feeds_of(source)
    except ReactDBError as error:
        # A page that only sees 1006 would come back for ever, to a table that is gone.
        await _accept(websocket)
        await _close(websocket, CODES[CLOSED if isinstance(error, DatabaseClosed) else FAILED], str(error))
        raise
    await _accept(websocket)
    after = websocket.query_params.get("after")
    stream = ClientStream(feeds, after, heartbeat_s=heartbeat_s, send_timeout_s=send_timeout_s)
    has_begun = asyncio.Event()
    if after is not None:
        has_begun.set()
    listener = asyncio.create_task(_listen(websocket, stream, has_begun))
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_MESSAGE_S):
                await has_begun.wait()
        if after == positions.END:
            stream.end(FAILED)
        stream.begin()
        await _send_all(websocket, stream)
        if stream.over is SLOW:
            remember_stuck(websocket.scope.get("client"), asyncio.get_running_loop())
    finally:
        stream.close()
        listener.cancel()
    if stream.over in CODES:
        await _close(websocket, CODES[stream.over], stream.sentence or stream.over)


async def _accept(websocket: WebSocket) -> None:
    if websocket.application_state is WebSocketState.CONNECTING:
        await websocket.accept()


async def _send_all(websocket: WebSocket, stream: ClientStream) -> None:
    while stream.over is None:
        messages = stream.take()
        if not messages and not await stream.wait():
            messages = [StreamMessage("ping", "null", stream.id)]
        for message in messages:
            if stream.over in (None, CLOSED, FAILED, UNAVAILABLE):
                await stream.deliver(_send(websocket, write(message)))
        if messages:
            await asyncio.sleep(0)


async def _send(websocket: WebSocket, text: str) -> None:
    try:
        await websocket.send_text(text)
    except (WebSocketDisconnect, RuntimeError) as error:
        # RuntimeError: the server has closed it, since it is stopping.
        raise ConnectionError(*error.args) from None


async def _listen(websocket: WebSocket, stream: ClientStream, has_begun: asyncio.Event) -> None:
    """Read what the page sends, and notice when it goes."""
    while True:
        try:
            after = _read(await websocket.receive_text())
        except (WebSocketDisconnect, RuntimeError):
            stream.end(GONE)
        except (ValueError, LookupError):
            stream.end(MISUNDERSTOOD)
        else:
            if after == positions.END:
                stream.end(FAILED)
            stream.move(after)
            has_begun.set()
            continue
        has_begun.set()
        return


def _read(text: str) -> str | None:
    """The id in a message of the page. Raises: ValueError, LookupError."""
    message = json.loads(text)
    if not isinstance(message, dict) or not isinstance(message["after"], (str, type(None))):
        raise ValueError(text)
    return message["after"]


def write(message: StreamMessage) -> str:
    """The message as JSON."""
    event, place = (reactdb.json.dumps(text) for text in (message.event or "message", message.id))
    return f'{{"event":{event},"id":{place},"data":{message.data}}}'


async def _close(websocket: WebSocket, code: int, reason: str) -> None:
    reason = reason.encode()[:MOST_REASON].decode(errors="ignore")
    with suppress(TimeoutError, RuntimeError, WebSocketDisconnect, OSError):
        async with asyncio.timeout(CLOSE_S):
            await websocket.close(code, reason)
