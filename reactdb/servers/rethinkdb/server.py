"""RethinkDBServer: a port for RethinkDB's drivers, in front of one database.

Rule of this file: it puts together. Bytes are in `conversation`, connections and limits in `reactdb.servers`.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from reactdb.database import Database
from reactdb.dialects.rethinkdb.jobs import jobs_of
from reactdb.servers.limits import Limits
from reactdb.servers.rethinkdb.conversation import RethinkDBConversation
from reactdb.servers.rethinkdb.handshake import UNSUPPORTED, message_bytes
from reactdb.servers.server import Server, in_thread
from reactdb.servers.sockets import check_access
from reactdb.servers.users import Credentials
from reactdb.servers.workers import Workers

DEFAULT_PORT: Final = 28015


class RethinkDBServer(Server):
    """A server for one database. `async with RethinkDBServer(db) as server: ...`, or `start` and `close`."""

    def __init__(
        self,
        database: Database,
        *,
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        credentials: Credentials | None = None,
        limits: Limits | None = None,
        tls: ssl.SSLContext | None = None,
        workers: Workers | None = None,
        allow_anonymous: bool = False,
    ) -> None:
        """`port` 0 takes any free port; `credentials` is `admin` without a password by default; `allow_anonymous` gives access to
        everybody who reaches `host`; `tls`, `workers`: see Server.

        Raises:
            InvalidOption: `host` lets others in without a password.
        """
        check_access(host, credentials, allow_anonymous=allow_anonymous)
        super().__init__(host, port, limits=limits, tls=tls, workers=workers)
        self.database = database
        self.credentials = credentials or Credentials()

    async def start(self) -> None:
        await super().start()
        jobs_of(self.database).port = self.port

    def converse(self, wake: Callable[[], None], client: tuple[str, int]) -> RethinkDBConversation:
        return RethinkDBConversation(self.database, self.credentials, self.limits, self.workers, wake, client)

    def refusal(self, sentence: str) -> bytes:
        return message_bytes({"success": False, "error": sentence, "error_code": UNSUPPORTED})


@contextmanager
def serve_in_thread(
    database: Database,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    credentials: Credentials | None = None,
    limits: Limits | None = None,
    tls: ssl.SSLContext | None = None,
    allow_anonymous: bool = False,
) -> Iterator[RethinkDBServer]:
    """Run a server on its own event loop in its own thread until the block ends."""
    server = RethinkDBServer(
        database,
        host=host,
        port=port,
        credentials=credentials,
        limits=limits,
        tls=tls,
        allow_anonymous=allow_anonymous,
    )
    with in_thread(server):
        yield server
