"""ServedStream: a feed or a long poll and its client. It ends when the server of the program stops.

A mounted application is told too late that its server stops, so it enters its streams in `servers.open_streams`.

Rule of this file: it is called on the loop.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from reactdb.servers.http.client import RequestClient
from reactdb.servers.http.long_poll import LongPoll
from reactdb.servers.http.protocol import Stream
from reactdb.servers.open_streams import STOP_GRACE_S, enter, leave, remember_stuck

__all__ = ["ServedStream"]


class ServedStream:
    """`with ServedStream(stream, client, address): ...` while it is open."""

    def __init__(self, stream: Stream | LongPoll, client: RequestClient, address: Any) -> None:
        """`address`: of the client, as ASGI gives it."""
        self._stream: Final = stream
        self._client: Final = client
        self._address: Final = address
        self._loop: Final = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def end(self) -> None:
        """End the stream as if its time were over. A client that does not take the rest is given a moment."""
        self._stream.end()
        if self._timer is None:
            self._timer = self._loop.call_later(STOP_GRACE_S, self._cut_off)

    def _cut_off(self) -> None:
        remember_stuck(self._address, self._loop)
        self._client.leave()

    def __enter__(self) -> ServedStream:
        enter(self, self._loop)
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        leave(self, self._loop)
