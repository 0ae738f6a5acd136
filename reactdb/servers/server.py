"""Server: one port of one protocol. `connection` handles each connection.

Several servers run on one loop, perhaps in a thread of its own (`in_thread`): so all ports of a process have one listening
thread. A server that closes stops listening, answers all received requests, sends last bytes and disconnects its clients.
Requests that take longer than `stop_s` seconds are cancelled.

Rule of this file: it listens, counts, starts and stops. Methods are called on the loop, but for `in_thread`.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, suppress
from typing import Self

from reactdb.servers.connection import Connection, Conversation
from reactdb.servers.limits import Limits
from reactdb.servers.places import Places
from reactdb.servers.sockets import BACKLOG, as_cannot_listen, check_path
from reactdb.servers.workers import Workers

__all__ = ["Server", "in_thread"]

# In how many rounds of its loop, at most, asyncio gives an accepted client its connection and its transport: four in Python 3.11
# to 3.14. Nothing but rounds can wait for it.
ACCEPTING_ROUNDS = 8


class Server:
    """A port. `async with server: ...`, or `start` and `close`. Subclasses supply the protocol: `converse` and `refusal`.

    Attributes:
        host, port: The address, after the start.
        path: The Unix socket in place of them, or None.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        path: str | None = None,
        limits: Limits | None = None,
        tls: ssl.SSLContext | None = None,
        workers: Workers | None = None,
    ) -> None:
        """`port` 0 takes any free port; `path` is a Unix socket in place of both; `tls` comes from `tls_context`; `workers` are
        shared with the other servers on the loop, or its own by default."""
        self.host = host
        self.port = port
        self.path = path
        self.limits = limits or Limits()
        self.tls = tls
        self.workers = workers or Workers(self.limits.queries)
        self._owns_workers = workers is None
        self._places = Places(self.limits.connections, self.limits.strangers)
        self._listening: asyncio.Server | None = None
        self._connections: set[Connection] = set()
        # Set while there is no connection.
        self._is_deserted = asyncio.Event()
        self._is_deserted.set()

    def converse(self, wake: Callable[[], None], client: tuple[str, int]) -> Conversation:
        """The protocol's side of a new connection. `wake`: see Conversation; `client`: the address and port."""
        raise NotImplementedError

    def refusal(self, sentence: str) -> bytes:
        """The sentence as an error message that a client understands before its first message."""
        raise NotImplementedError

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    async def start(self) -> None:
        """Listen.

        Raises:
            CannotListen: The address is not this machine's, or the port or the path is in use.
        """
        loop = asyncio.get_running_loop()
        if self.path is not None:
            check_path(self.path)
            with as_cannot_listen(f"the socket {self.path}", self.path):
                self._listening = await loop.create_unix_server(self._accept, self.path, backlog=BACKLOG)
            return
        with as_cannot_listen(f"port {self.port} on {self.host}", self.host, self.port):
            self._listening = await loop.create_server(self._accept, self.host, self.port, backlog=BACKLOG)
        self.host, self.port = self._listening.sockets[0].getsockname()[:2]

    async def close(self) -> None:
        """Stop listening and end every connection, within `limits.stop_s` and the time that a query needs to notice it."""
        if self._listening is not None:
            await self._accept_no_more(self._listening)
            self._listening.close()
        for connection in list(self._connections):
            connection.stop()
        try:
            async with asyncio.timeout(self.limits.stop_s):
                await self._is_deserted.wait()
        except TimeoutError:
            for connection in list(self._connections):
                connection.abort()
            await self._is_deserted.wait()
        if self._listening is not None:
            await self._listening.wait_closed()
            if self.path is not None:
                # asyncio does so itself from Python 3.13 on.
                with suppress(OSError):
                    os.unlink(self.path)
        if self._owns_workers:
            self.workers.close()

    @staticmethod
    async def _accept_no_more(listening: asyncio.Server) -> None:
        """Let asyncio finish with accepted clients: if the server closed meanwhile, asyncio would drop their sockets without
        closing them, and without a call of `Connection`."""
        loop = asyncio.get_running_loop()
        for listener in listening.sockets:
            with suppress(NotImplementedError):
                # Windows' loop has no readers.
                loop.remove_reader(listener)
        for _ in range(ACCEPTING_ROUNDS):
            await asyncio.sleep(0)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _accept(self) -> asyncio.Protocol:
        connection = Connection(
            self.converse, self.workers, self.limits, self._places, self._forget, self.tls
        )
        if not self._places.enter(connection):
            most = self.limits.connections
            sentence = f"There are {most} connections already, which is the limit."
            # With TLS only TLS may be sent, and there is no room for a handshake.
            return TurnedAway(b"" if self.tls is not None else self.refusal(sentence))
        self._connections.add(connection)
        self._is_deserted.clear()
        return connection

    def _forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._places.leave(connection)
        if not self._connections:
            self._is_deserted.set()


class TurnedAway(asyncio.Protocol):
    """A connection without a place: it receives the reason, and is closed."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._answer)
        transport.close()


@contextmanager
def in_thread(*servers: AbstractAsyncContextManager[object]) -> Iterator[None]:
    """Run servers on an event loop in a thread of their own until the block ends."""
    is_up = threading.Event()
    trouble: list[BaseException] = []
    loops: list[asyncio.AbstractEventLoop] = []
    stop = asyncio.Event()

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        async with AsyncExitStack() as stack:
            try:
                for server in servers:
                    await stack.enter_async_context(server)
            except BaseException as error:
                trouble.append(error)
                return
            finally:
                is_up.set()
            await stop.wait()

    # `run` ends the unfinished requests when the servers have stopped waiting for them.
    thread = threading.Thread(target=lambda: asyncio.run(main()), name="reactdb-servers", daemon=True)
    thread.start()
    is_up.wait()
    if trouble:
        thread.join()
        raise trouble[0]
    try:
        yield
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join()
