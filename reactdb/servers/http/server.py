"""HTTPServer: a port for the clients of CouchDB, of Aidbox, or of both, in front of one database: applications and uvicorn.

A single dialect is at the root; several are under `/couchdb` and `/aidbox`.

A server that closes ends its feeds first, each with its last line, so that clients have a position to continue from.

Rule of this file: it listens, starts and stops. It is called on the loop, but for `serve_in_thread`.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, Self

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp

from reactdb.database import Database
from reactdb.errors import InvalidOption, format_value
from reactdb.servers.aidbox.application import AidboxApplication
from reactdb.servers.couchdb.application import CouchApplication
from reactdb.servers.http.application import HTTPApplication, mount
from reactdb.servers.http.connections import HTTPConnection, LimitedConnection, Port, bound_heads
from reactdb.servers.http.limits import HTTPLimits
from reactdb.servers.places import Places
from reactdb.servers.server import in_thread
from reactdb.servers.sockets import BACKLOG, check_access, is_loopback, listen
from reactdb.servers.users import Credentials
from reactdb.servers.workers import Workers

__all__ = ["DEFAULT_PORT", "HTTPServer", "serve_in_thread"]

DEFAULT_PORT: Final = 5984
STOP_S: Final = 2
"""Seconds for clients to take their answers when the server stops."""
CARRY_OUT_S: Final = 1.0
"""Seconds for requests in progress when the server stops. Then they are cancelled, and answered with 503."""


class HTTPServer:
    """`async with HTTPServer(db) as server: ...`, or `start` and `close`.

    Attributes:
        host, port: The server's address, after the start.
        applications: The applications, by dialect.
    """

    # Whether there are threads that end with the server. Those of an application end with that.
    _owns_workers = False

    def __init__(
        self,
        database: Database,
        *,
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        dialects: Iterable[str] = ("couchdb",),
        credentials: Credentials | None = None,
        origins: Iterable[str] | None = None,
        hosts: Iterable[str] | None = None,
        allow_anonymous: bool = False,
        read_only: bool = False,
        limits: HTTPLimits | None = None,
        connections: int = 1_024,
        strangers: int = 512,
        tls: ssl.SSLContext | None = None,
        workers: Workers | None = None,
    ) -> None:
        """`port` 0 takes any free port; `dialects` are some of `couchdb` and `aidbox`;
        `connections` limits the connections, beyond which the answer is 503, and `strangers` limits the connections without an
        accepted request; `hosts` are by default the loopback's names if there are no `credentials`; `allow_anonymous` gives
        access to everybody who reaches `host`, and accepts every name; the others: see `couchdb`.

        Raises:
            InvalidOption: A dialect, an origin, a host or a limit is wrong, or `host` gives other machines access without
                `credentials`.
        """
        check_access(host, credentials, allow_anonymous=allow_anonymous)
        if hosts is None and credentials is None and is_loopback(host):
            # With DNS rebinding a page could reach the loopback under its own name, as a page of the server's own origin.
            hosts = ()
        # All have the same threads.
        self._workers = workers or Workers((limits or HTTPLimits()).requests)
        self._owns_workers = workers is None
        applications = {
            name: application_of(name)(
                database,
                credentials=credentials,
                origins=origins,
                hosts=hosts,
                read_only=read_only,
                limits=limits,
                workers=self._workers,
            )
            for name in dict.fromkeys(dialects)
        }
        if not applications:
            raise InvalidOption(f"dialects: name some of {', '.join(APPLICATIONS)}")
        self.set_up(applications, limits or HTTPLimits(), host, port, Places(connections, strangers), tls)

    def set_up(
        self,
        applications: dict[str, HTTPApplication],
        limits: HTTPLimits,
        host: str,
        port: int,
        places: Places,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """The rest of the creation, which servers of other applications share."""
        self.host = host
        self.port = port
        self.applications = applications
        self._tls = tls
        self._limits = limits
        self._places = places
        self._server: Quiet | None = None
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen.

        Raises:
            CannotListen: The address is not this machine's, or the port is in use.
        """
        listening = listen(self.host, self.port)
        self.host, self.port = listening.getsockname()[:2]
        port = Port(self._places, self._limits, self._tls)
        config = uvicorn.Config(
            bound_heads(together(self.applications), self._limits.head_bytes),
            http=partial(HTTPConnection, port),  # type: ignore[arg-type]
            # A WebSocket would have no limits; the application refuses it with 404.
            ws="none",
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            h11_max_incomplete_event_size=self._limits.head_bytes,
            timeout_keep_alive=self._limits.idle_s,  # type: ignore[arg-type]
            timeout_graceful_shutdown=STOP_S,
        )
        self._server = Quiet(config, self._places)
        self._serving = asyncio.create_task(self._server.serve(sockets=[listening]))
        await self._server.is_up.wait()

    async def close(self) -> None:
        """Stop listening, end the feeds, cancel requests that take longer than `CARRY_OUT_S`, and disconnect every client within
        some seconds."""
        if self._server is None or self._serving is None:
            return
        self._server.end()
        for application in self.applications.values():
            application.end_feeds()
        cancelling = asyncio.get_running_loop().call_later(CARRY_OUT_S, self._cancel_requests)
        await self._serving
        cancelling.cancel()
        self._server = None
        for application in self.applications.values():
            application.close()
        if self._owns_workers:
            self._workers.close()

    def _cancel_requests(self) -> None:
        for application in self.applications.values():
            application.cancel_requests()

    @property
    def connection_count(self) -> int:
        return len(self._places)

    @property
    def feed_count(self) -> int:
        """Open feeds of all clients."""
        return sum(application.feed_count for application in self.applications.values())

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


APPLICATIONS: Final[dict[str, type[HTTPApplication]]] = {
    "couchdb": CouchApplication,
    "aidbox": AidboxApplication,
}


def application_of(name: str) -> Any:
    """
    Raises:
        InvalidOption: There is no such dialect.
    """
    if name not in APPLICATIONS:
        raise InvalidOption(
            f"a dialect over HTTP is one of {', '.join(APPLICATIONS)}, not {format_value(name)}"
        )
    return APPLICATIONS[name]


def together(applications: Mapping[str, HTTPApplication]) -> ASGIApp:
    """A single application at the root, or several under their names."""
    if len(applications) == 1:
        return next(iter(applications.values()))
    return Starlette(routes=[mount(f"/{name}", one) for name, one in applications.items()])


class Quiet(uvicorn.Server):
    """uvicorn without its own signal handlers: the program decides when to stop, and `close` of HTTPServer ends the streams."""

    # For `servers.open_streams`.
    ends_its_streams: Final = True

    def __init__(self, config: uvicorn.Config, places: Places) -> None:
        super().__init__(config)
        self.is_up = asyncio.Event()
        self._is_ending = asyncio.Event()
        self._places = places

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()

    async def main_loop(self) -> None:
        """Until `end`. uvicorn's own looks ten times a second whether to end; once a second is enough for the header Date."""
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._is_ending.wait()

    def end(self) -> None:
        self.should_exit = True
        self._is_ending.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._places.is_closed = True
        for one in self._places.members:
            # uvicorn does not know connections during their TLS handshake.
            if isinstance(one, LimitedConnection) and not one.is_open:
                one.abort()
        await super().shutdown(sockets)


@contextmanager
def serve_in_thread(database: Database, **options: Any) -> Iterator[HTTPServer]:
    """Run a server on an event loop in a thread of its own until the block ends. `options`: see HTTPServer.

    Raises:
        CannotListen, InvalidOption: See HTTPServer.
    """
    options.setdefault("port", 0)
    server = HTTPServer(database, **options)
    with in_thread(server):
        yield server
