"""MongoDBServer: a port, or a Unix socket, for MongoDB's drivers, in front of one database.

Rule of this file: it connects the parts. Bytes are in `conversation`, connections and limits in `reactdb.servers`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from reactdb.database import Database
from reactdb.dialects.mongodb.commands import Deployment
from reactdb.dialects.mongodb.ttl_sweep import sweep_all
from reactdb.errors import InvalidOption, format_value
from reactdb.logs import logger
from reactdb.servers.limits import Limits
from reactdb.servers.mongodb.conversation import MongoDBConversation
from reactdb.servers.mongodb.messages import MOST_BYTES
from reactdb.servers.scram import Scram
from reactdb.servers.server import Server, in_thread
from reactdb.servers.sockets import check_access
from reactdb.servers.users import Credentials
from reactdb.servers.workers import Workers

DEFAULT_PORT: Final = 27017
MOST_SWEEP_S: Final = 86_400


class MongoDBServer(Server):
    """A server for one database. `async with MongoDBServer(db) as server: ...`, or `start` and `close`.

    Attributes:
        uri: The connection string for drivers.
    """

    def __init__(
        self,
        database: Database,
        *,
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        path: str | None = None,
        credentials: Credentials | None = None,
        limits: Limits | None = None,
        tls: ssl.SSLContext | None = None,
        workers: Workers | None = None,
        for_testing: bool = False,
        sweep_s: float | None = None,
        allow_anonymous: bool = False,
    ) -> None:
        """`port` 0 takes any free port; `path` is a Unix socket in place of host and port; without `credentials` every client may
        connect; `for_testing` allows fail points; every `sweep_s` seconds, expired documents are deleted, besides once a second
        (None: never); `allow_anonymous` admits every client that reaches `host`; `tls`, `workers`: see Server.

        Raises:
            InvalidOption: `sweep_s` is not above 0, or is more than a day; `host` is open to others without `credentials`.
        """
        if path is None:
            check_access(host, credentials, allow_anonymous=allow_anonymous)
        if sweep_s is not None:
            is_number = isinstance(sweep_s, int | float) and not isinstance(sweep_s, bool)
            if not is_number or not 0 < sweep_s <= MOST_SWEEP_S:
                raise InvalidOption(
                    f"sweep_s is a number of seconds above 0, up to {MOST_SWEEP_S:,}, or None, not {format_value(sweep_s)}"
                )
        super().__init__(host, port, path=path, limits=limits, tls=tls, workers=workers)
        exchange = None if credentials is None else lambda: Scram(credentials)
        self.deployment = Deployment(
            database,
            exchange,
            for_testing=for_testing,
            message_bytes=min(MOST_BYTES, self.limits.message_bytes),
            most_cursors=self.limits.streams,
        )
        self.deployment.streams.wakers.put_off = self.workers.put_off
        self._sweep_s = sweep_s
        self._sweeper: asyncio.Task[None] | None = None
        self._is_stopping = False

    @property
    def uri(self) -> str:
        if self.path is not None:
            return f"mongodb://{self.path.replace('/', '%2F')}/?directConnection=true"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"mongodb://{host}:{self.port}/"

    async def start(self) -> None:
        await super().start()
        host = f"[{self.host}]" if ":" in self.host else self.host
        self.deployment.address = self.path or f"{host}:{self.port}"
        if self._sweep_s is not None:
            self._sweeper = asyncio.create_task(self._sweep_every(self._sweep_s))

    async def _sweep_every(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            await asyncio.wrap_future(self.workers.submit(self._sweep))

    def _sweep(self) -> None:
        """Runs in a worker's thread. Closing the workers waits for its end."""
        try:
            for _ in sweep_all(self.deployment.spaces):
                if self._is_stopping:
                    break
        except Exception:
            # Any error may be gone at the next sweep.
            logger.warning("the sweep of expired documents failed; it is tried again", exc_info=True)

    async def close(self) -> None:
        self._is_stopping = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        await super().close()
        self.deployment.close()

    def converse(self, wake: Callable[[], None], client: tuple[str, int]) -> MongoDBConversation:
        return MongoDBConversation(self.deployment, self.limits, self.workers, wake, client)

    def refusal(self, sentence: str) -> bytes:
        # There can be no reply before a request, because a reply contains the request's id.
        return b""


@contextmanager
def serve_in_thread(
    database: Database,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    path: str | None = None,
    credentials: Credentials | None = None,
    limits: Limits | None = None,
    tls: ssl.SSLContext | None = None,
    for_testing: bool = False,
    sweep_s: float | None = None,
    allow_anonymous: bool = False,
) -> Iterator[MongoDBServer]:
    """Run a server on its own event loop in its own thread until the block ends."""
    server = MongoDBServer(
        database,
        host=host,
        port=port,
        path=path,
        credentials=credentials,
        limits=limits,
        tls=tls,
        for_testing=for_testing,
        sweep_s=sweep_s,
        allow_anonymous=allow_anonymous,
    )
    with in_thread(server):
        yield server
