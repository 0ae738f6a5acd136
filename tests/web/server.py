"""A program with routes of `reactdb.web` behind a real port, and clients that read it piece by piece."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

import reactdb.web

PATIENCE_S = 30.0
# Two seconds are promised, and it takes a tenth of them; a busy machine gets more. A server that waits for streams never ends.
SOON_S = 10.0


class Program:
    """The routes `/live` and `/socket` of whatever source and options are set at the moment."""

    def __init__(self, **application: Any) -> None:
        self.source: Any = None
        self.options: dict[str, Any] = {}
        self.app = Starlette(
            routes=[Route("/live", self._live), WebSocketRoute("/socket", self._socket)], **application
        )
        self.server: uvicorn.Server | None = None
        self.thread: threading.Thread | None = None
        self.port = 0

    def serve(self, source: Any, **options: Any) -> None:
        self.source, self.options = source, options

    async def _live(self, request: Request) -> Response:
        return reactdb.web.sse(self._make_source(), request, **self.options)

    async def _socket(self, websocket: WebSocket) -> None:
        await reactdb.web.websocket(self._make_source(), websocket, **self.options)

    def _make_source(self) -> Any:
        # A function makes a source for each request.
        return self.source() if callable(self.source) else self.source

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """Stop the server, and wait for its end."""
        assert self.server is not None
        assert self.thread is not None
        self.server.should_exit = True
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()


@contextmanager
def serving(program: Program) -> Iterator[Program]:
    """The program behind a port, in a thread."""
    listener = socket.create_server(("127.0.0.1", 0))
    program.port = listener.getsockname()[1]
    program.server = uvicorn.Server(uvicorn.Config(program.app, log_level="critical", ws="websockets-sansio"))
    program.thread = threading.Thread(target=program.server.run, kwargs={"sockets": [listener]})
    program.thread.start()
    try:
        yield program
    finally:
        program.stop()


class Block(NamedTuple):
    """What stands between two empty lines: an event with data, or an id alone."""

    event: str | None
    id: str | None
    data: Any


class Client:
    """An EventSource in Python: `next()` waits for the next event."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.last_id: str | None = None
        self._blocks = self._read()

    def _read(self) -> Iterator[Block]:
        fields: dict[str, str] = {}
        for line in self.response.iter_lines():
            if line:
                name, _, text = line.partition(":")
                fields[name] = text.removeprefix(" ")
                continue
            data = json.loads(fields["data"]) if "data" in fields else None
            self.last_id = fields.get("id", self.last_id)
            yield Block(fields.get("event"), fields.get("id"), data)
            fields = {}

    def next_block(self) -> Block | None:
        """The next block, also one without an event; None at the end of the stream."""
        return next(self._blocks, None)

    def next(self) -> Block | None:
        """The next event; None at the end of the stream."""
        return next((block for block in self._blocks if block.data is not None), None)

    def until(self, found: Callable[[Block], bool]) -> Block:
        block = next((one for one in self._blocks if found(one)), None)
        assert block is not None
        return block

    def ready(self) -> Client:
        self.until(lambda block: block.event == "ready")
        return self


@contextmanager
def follow(program: Program, after: str | None = None, query: str = "", **options: Any) -> Iterator[Client]:
    """A client of `/live`. `after`: its Last-Event-ID."""
    # No certificates are read: that takes longer than a whole test.
    headers = {} if after is None else {"Last-Event-ID": after}
    with (
        httpx.Client(timeout=PATIENCE_S, verify=False) as http,
        http.stream("GET", f"{program.url}/live{query}", headers=headers, **options) as response,
    ):
        yield Client(response)
