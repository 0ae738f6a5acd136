"""Open streams: all streams of an event loop, of `reactdb.web` and of mounted applications. They end when its server stops.

A server waits for its responses before it ends the program's lifespan, and a stream has no end of its own. No server says that it
is about to stop. So this file listens to uvicorn: its `Server.shutdown` is the one place that every way passes: SIGTERM, Ctrl-C,
`--reload`, a worker that is replaced, and `should_exit` of a server in a thread. The streams end first, their feeds close, and
then the program's own shutdown closes the database. With other servers a program calls `stop`.

Commits come from any thread. The streams that a commit concerns are collected, and the loop is woken once for all of them.

Rule of this file: it knows of a stream only that it has `end`, and `wake` if it rings.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, Protocol

__all__ = [
    "STOP_GRACE_S",
    "OpenStream",
    "OpenStreams",
    "RingingStream",
    "enter",
    "leave",
    "listen_to_uvicorn",
    "remember_stuck",
    "ring",
    "stop",
]

# Connections of clients that do not read are cut off so long after the server has begun to stop: their unsent bytes would keep
# the server waiting for ever.
CUT_OFF_S: Final = 1.0
# Before, a client that does not read has so long to take the end of its stream.
STOP_GRACE_S: Final = 0.5
# The addresses of such clients that are remembered.
MOST_STUCK: Final = 1_000

_lock = threading.Lock()
_loops: dict[asyncio.AbstractEventLoop, OpenStreams] = {}


class OpenStream(Protocol):
    """What ends. `end` is called in the loop, and returns at once."""

    def end(self) -> None: ...


class RingingStream(OpenStream, Protocol):
    """What also waits for commits. `wake` is called in the loop."""

    def wake(self) -> None: ...


class OpenStreams:
    """The streams of one loop.

    Attributes:
        stopping: Servers of this loop that are stopping.
        stuck: Addresses of clients that did not take what was sent to them.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.streams: set[OpenStream] = set()
        self.stopping = 0
        self.stuck: dict[tuple[str, int], None] = {}
        self._rung: list[RingingStream] = []

    def ring(self, stream: RingingStream) -> None:
        with _lock:
            self._rung.append(stream)
            is_first = len(self._rung) == 1
        if is_first:
            self.call(self._wake)

    def _wake(self) -> None:
        with _lock:
            rung, self._rung = self._rung, []
        for stream in rung:
            stream.wake()

    def call(self, function: Callable[[], None]) -> None:
        """Call it in the loop. Any thread."""
        try:
            self.loop.call_soon_threadsafe(function)
        except RuntimeError:
            # The loop is closed, and its streams with it.
            with _lock:
                _loops.pop(self.loop, None)

    def end(self) -> None:
        for stream in list(self.streams):
            stream.end()


def stop() -> None:
    """End all streams of the process, so that a server can stop. The browsers come back by themselves.

    You need it only with another server than uvicorn: call it where the server is told to stop. Any thread.
    """
    with _lock:
        loops = list(_loops.values())
    for streams in loops:
        streams.call(streams.end)


def enter(stream: OpenStream, loop: asyncio.AbstractEventLoop) -> None:
    """The stream is open. It ends at once if the server is stopping."""
    listen_to_uvicorn()
    with _lock:
        for other in [one for one in _loops if one.is_closed()]:
            del _loops[other]
        streams = _loops.setdefault(loop, OpenStreams(loop))
        streams.streams.add(stream)
    if streams.stopping:
        stream.end()


def leave(stream: OpenStream, loop: asyncio.AbstractEventLoop) -> None:
    """The stream is closed."""
    with _lock:
        streams = _loops.get(loop)
        if streams is not None:
            streams.streams.discard(stream)
            _forget_if_idle(streams)


def ring(stream: RingingStream, loop: asyncio.AbstractEventLoop) -> None:
    """Wake the stream, in its loop. Any thread."""
    streams = _loops.get(loop)
    if streams is not None:
        streams.ring(stream)


def remember_stuck(client: Any, loop: asyncio.AbstractEventLoop) -> None:
    """This client does not read. `client`: its address, as ASGI gives it."""
    with _lock:
        streams = _loops.get(loop)
        if streams is not None and client is not None:
            while len(streams.stuck) >= MOST_STUCK:
                del streams.stuck[next(iter(streams.stuck))]
            streams.stuck[tuple(client)] = None


def _forget_if_idle(streams: OpenStreams) -> None:
    if not (streams.streams or streams.stopping or streams.stuck):
        _loops.pop(streams.loop, None)


def listen_to_uvicorn() -> None:
    """Have streams end when a server of uvicorn stops, if the program uses it. A second call does nothing."""
    module = sys.modules.get("uvicorn.server")
    server = getattr(module, "Server", None)
    shutdown = getattr(server, "shutdown", None)
    if server is None or shutdown is None or hasattr(shutdown, "ends_streams"):
        return

    @wraps(shutdown)
    async def end_streams_and_shut_down(self: Any, *arguments: Any, **options: Any) -> Any:
        if getattr(self, "ends_its_streams", False):
            # A server of this library. It has ended those of its own applications, and others of the loop go on.
            return await shutdown(self, *arguments, **options)
        loop = asyncio.get_running_loop()
        with _lock:
            streams = _loops.setdefault(loop, OpenStreams(loop))
            streams.stopping += 1
        # With two servers in a loop the streams of both end. The browsers of the other one come back.
        streams.end()
        timer = loop.call_later(CUT_OFF_S, cut_off, self, streams)
        try:
            return await shutdown(self, *arguments, **options)
        finally:
            timer.cancel()
            with _lock:
                streams.stopping -= 1
                streams.stuck.clear()
                _forget_if_idle(streams)

    end_streams_and_shut_down.ends_streams = True  # type: ignore[attr-defined]
    server.shutdown = end_streams_and_shut_down


def cut_off(server: Any, streams: OpenStreams) -> None:
    """Drop the unsent bytes of clients that do not read."""
    for connection in list(getattr(getattr(server, "server_state", None), "connections", ())):
        transport = getattr(connection, "transport", None)
        if transport is None:
            continue
        # Of a Unix socket it is an empty text.
        peer = transport.get_extra_info("peername")
        if peer and tuple(peer[:2]) in streams.stuck:
            transport.abort()
