"""Real time: a separate database behind the real server on a separate port, and clients with sockets.

The results do not depend on the load of the machine: to find out whether there are more events, a client sends a request that is
answered after them. Seconds count only for feeds that wait (`squash=n`), as in the recording; such feeds get no such request,
because any request may wake a server that sleeps for too long.
"""

from __future__ import annotations

import json
import select
import socket
import time
from contextlib import ExitStack
from typing import Any

import reactdb
from reactdb.servers.rethinkdb import serve_in_thread
from tests.dialects.rethinkdb.acceptance.client import Batches
from tests.support.rethinkdb import Raw

# Tokens of the questions that are asked to be answered.
PINGS = 1_000_000
TIMEOUT_S = 60.0


class RealTime:
    """As `probes.VirtualTime`, over TCP."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self.db = self._open.enter_context(reactdb.connect(":memory:", durability="soft"))
        server = self._open.enter_context(serve_in_thread(self.db))
        self.address = (server.host, server.port)
        self._clients: list[SocketClient] = []
        self._querist: Querist | None = None

    def __enter__(self) -> RealTime:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.socket.close()
        self._open.close()

    def client(self, *, is_automatic: bool = True) -> SocketClient:
        self._clients.append(SocketClient(self.address, is_automatic=is_automatic))
        return self._clients[-1]

    def querist(self) -> SocketClient:
        """One connection for all queries: to connect takes longer than most of them."""
        if self._querist is None:
            self._querist = Querist(self.address)
            self._clients.append(self._querist)
        self._querist.batches = []
        return self._querist

    def wait(self, clients: list[Any], seconds: float, *, is_timed: bool) -> None:
        """Until there is nothing more to come; where feeds wait for a moment, so many seconds."""
        until = time.monotonic() + seconds
        while True:
            for client in clients:
                client.pump()
            left = until - time.monotonic()
            if not is_timed or left <= 0:
                return
            listening = [client.socket for client in clients if not client.is_closed]
            select.select(listening, [], [], left)


class SocketClient(Batches):
    """A driver's side of one connection, with one query at a time. As `client.Client`."""

    def __init__(self, address: tuple[str, int], *, is_automatic: bool = True) -> None:
        super().__init__(is_automatic=is_automatic)
        self._raw = Raw(address, timeout_s=TIMEOUT_S)
        self.socket = self._raw.socket
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._raw.shake_hands()
        self.is_closed = False
        self.is_timed = False
        self._pings = PINGS

    def open(self, wire: Any, database: str = "test", **options: Any) -> None:
        self._token += 1
        self._raw.frame(self._token, json.dumps([1, wire, {"db": [14, [database]], **options}]).encode())
        self._take(self._raw.response()[1])

    def _ask(self) -> None:
        self._raw.frame(self._token, b"[2]")

    def stop(self) -> None:
        self._raw.frame(self._token, b"[3]")
        self.is_automatic = False
        self.pump()

    def pump(self) -> bool:
        """Take what has come, and what comes of asking for more, until a question is answered before anything else is."""
        if self.is_timed:
            return self._listen()
        found = False
        while not self.is_closed and self._hear():
            found = True
        return found

    def _hear(self) -> bool:
        self._pings += 1
        self._raw.frame(self._pings, b"[1,[86,[[2,[]]]]]")
        found = False
        while True:
            token, response = self._raw.response()
            if token == self._pings:
                return found
            found = True
            self._take(response)

    def _listen(self) -> bool:
        """Take what is there, without asking."""
        found = False
        while not self.is_closed and select.select([self.socket], [], [], 0)[0]:
            self._take(self._raw.response()[1])
            found = True
        return found

    def drain(self) -> list[Any]:
        """Every item of a stream that ends."""
        while self.batches[-1]["t"] == 3:
            assert self.pump(), "a stream of which nothing more comes"
        return [item for one in self.batches for item in one["r"]]

    def close(self) -> None:
        self.is_closed = True
        self.socket.close()


class Querist(SocketClient):
    """Asks one query after the other. Who is done with one does not close it."""

    def close(self) -> None:
        pass
