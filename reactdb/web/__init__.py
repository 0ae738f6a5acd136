"""web: feeds for browsers, in programs of Starlette and FastAPI.

    @app.get("/todos/live")
    async def live(request: Request):
        return reactdb.web.sse(todos, request)

    @app.websocket("/todos/socket")
    async def socket(websocket: WebSocket):
        await reactdb.web.websocket(todos, websocket)

    sources         what a program gives: a feed, a selection, or several by name
    positions       the id of a message: the positions of all feeds of a stream as one text
    streams         the messages of one client: changes, ready, reset, error
    event_stream    server-sent events
    socket          WebSockets

All streams of an event loop end when its server stops: `reactdb.servers.open_streams`.

Rule of this folder: nothing waits for a client but the task of that client, and nothing is kept in memory for a slow one beyond a
short queue: the rest is read from the log.
"""

from __future__ import annotations

from reactdb.errors import MissingExtra

try:
    import starlette as _  # noqa: F401
except ImportError:
    raise MissingExtra("reactdb.web", "starlette", "web") from None

from reactdb.servers.open_streams import stop
from reactdb.web.event_stream import sse
from reactdb.web.socket import websocket

__all__ = ["sse", "stop", "websocket"]
