"""RethinkDB's driver with a reactdb database in one process: over a real port, or without any socket.

    with reactdb.testing.rethinkdb_server(db) as (host, port):
        connection = r.connect(host, port)

    with reactdb.testing.rethinkdb_connection(db) as connection:
        r.table("games").changes().run(connection)

The connection without a socket is the driver's own, with its own cursors; only its bytes go to a session in the same thread
instead of to a server. So a test needs no port, and a wait for a feed ends when a write of another thread wakes it.

Rule of this file: the driver is imported where it is used, because reactdb does not need it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from reactdb.database import Database
from reactdb.dialects.rethinkdb.session import HEADER, Session


@contextmanager
def rethinkdb_server(
    db: Database, *, host: str = "127.0.0.1", port: int = 0, user: str = "admin", password: str = ""
) -> Iterator[tuple[str, int]]:
    """Run a RethinkDB server for the database during the block; gives (host, port). Any free port by default."""
    from reactdb.servers.rethinkdb import Credentials, serve_in_thread

    with serve_in_thread(db, host=host, port=port, credentials=Credentials(user, password)) as server:
        yield server.host, server.port


def rethinkdb_connection(
    db: Database, database: str = "test", *, wire: type[SessionWire] | None = None
) -> Any:
    """A connection of the `rethinkdb` driver without a server. A context manager.

    Args:
        database: The database of tables without `r.db(...)`.
        wire: A subclass of SessionWire, to see or change the messages.

    Raises:
        ImportError: The driver is not installed: `pip install rethinkdb`.
    """
    import rethinkdb
    from rethinkdb.errors import ReqlDriverError, ReqlTimeoutError
    from rethinkdb.net import Connection, ConnectionInstance

    class Wire(wire or SessionWire):  # type: ignore[misc]
        closed_error = ReqlDriverError
        timeout_error = ReqlTimeoutError

    class Instance(ConnectionInstance):  # type: ignore[misc]
        """The driver's connection, with a session in place of the socket."""

        def connect(self, timeout: float) -> Any:
            self._socket = Wire(db)
            return self._parent

        def client_port(self) -> None:
            return None

        def client_address(self) -> None:
            return None

    connection = Connection(Instance, "localhost", 28015, database, None, "admin", "", 20, {}, 10)
    connection._r = rethinkdb.RethinkDB()
    connection.reconnect(noreply_wait=False)
    return connection


class SessionWire:
    """The replacement of the driver's socket: `sendall` executes requests, `recvall` returns the answers.

    Attributes:
        closed_error, timeout_error: The driver's exceptions.
    """

    closed_error: type[Exception] = ConnectionError
    timeout_error: Callable[..., Exception] = TimeoutError

    def __init__(self, db: Database) -> None:
        self._is_woken = threading.Event()
        self.session = Session(db, self._is_woken.set)
        self._in = bytearray()
        self._out = bytearray()
        self.is_closed = False

    def is_open(self) -> bool:
        return not self.is_closed

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.session.close()

    def sendall(self, data: bytes) -> None:
        """Requests, whole or in parts."""
        if self.is_closed:
            raise self.closed_error("Connection is closed.")
        self._in += data
        while len(self._in) >= HEADER.size:
            token, length = HEADER.unpack_from(self._in)
            end = HEADER.size + length
            if len(self._in) < end:
                return
            body = bytes(self._in[HEADER.size : end])
            del self._in[:end]
            # The events of a write are delivered at once, as by a server, also to feeds that are not being read.
            for frame in [*self.session.receive(token, body), *self.session.poll()]:
                self._out += frame.packed()

    def recvall(self, length: int, deadline: float | None) -> bytes:
        """The next `length` bytes of the answers; waits for a feed until the deadline, a moment of `time.time`."""
        while len(self._out) < length:
            if self.is_closed:
                raise self.closed_error("Connection is closed.")
            self._is_woken.clear()
            frames = self.session.poll()
            if not frames:
                self._wait(deadline)
                continue
            for frame in frames:
                self._out += frame.packed()
        found = bytes(self._out[:length])
        del self._out[:length]
        return found

    def _wait(self, deadline: float | None) -> None:
        if not self.session.is_waiting:
            # No answer will ever come, because all requests have been answered.
            raise self.timeout_error("localhost", 28015)
        left = None if deadline is None else deadline - time.time()
        if left is not None and left <= 0:
            raise self.timeout_error("localhost", 28015)
        due = self.session.wait_s
        waits = [one for one in (left, due) if one is not None]
        self._is_woken.wait(min(waits) if waits else None)
