"""RethinkDB's driver in the process, without a server: `reactdb.rethinkdb(db)`.

    connection = reactdb.rethinkdb(db)
    r.table("games").insert({"id": 1}).run(connection)
    feed = r.table("games").changes().run(connection)

The connection is the driver's own, with its own cursors. Only its bytes go to a session in the same thread instead of to a
server. A wait for a feed ends when a write of another thread wakes it.

Rule of this file: the driver is imported where it is used, because reactdb does not need it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from reactdb.clock import monotonic
from reactdb.database import Database
from reactdb.dialects.rethinkdb.session import HEADER, Session
from reactdb.errors import InvalidOption, MissingExtra, format_value


def rethinkdb(db: Database, database: str = "test") -> Any:
    """A connection of the `rethinkdb` driver to the tables of a file, in the process. A context manager.

        r = rethinkdb.RethinkDB()
        connection = reactdb.rethinkdb(db)
        r.table("games").run(connection)
        connection.run(r.table("games").count())    the same, the other way round

    A connection is for one thread at a time, as the driver's connections to a server are; several are cheap.

    Args:
        db: The database, which stays open as long as it is used here.
        database: RethinkDB's database for tables without `r.db(...)`. Those of "test" are the tables with plain names.

    Raises:
        MissingExtra: The driver is not installed.
        InvalidOption: It is no open Database.
    """
    return open_connection(db, database, SessionWire)


def open_connection(db: Database, database: str, wire: type[SessionWire]) -> Any:
    """The same with a subclass of SessionWire, which may see or change the messages."""
    if find_spec("rethinkdb") is None:
        raise MissingExtra("reactdb.rethinkdb", "rethinkdb", "rethinkdb")
    if not isinstance(db, Database):
        raise InvalidOption(
            f"rethinkdb takes an open Database, as `connect` returns it, not {format_value(db)}"
        )
    from rethinkdb import RethinkDB
    from rethinkdb.errors import ReqlDriverError, ReqlTimeoutError
    from rethinkdb.net import Connection, ConnectionInstance

    class Wire(wire):  # type: ignore[valid-type, misc]
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

    class EmbeddedConnection(Connection):  # type: ignore[misc]
        """The driver's connection, which can also be asked to run a term."""

        def run(self, term: Any, **options: Any) -> Any:
            """What `term.run(connection, **options)` gives: a value, a cursor or a feed."""
            return term.run(self, **options)

    connection = EmbeddedConnection(Instance, "localhost", 28015, database, None, "admin", "", 20, {}, 10)
    connection._r = RethinkDB()
    connection.reconnect(noreply_wait=False)
    return connection


class SessionWire:
    """The replacement of the driver's socket: `sendall` carries out requests, `recvall` returns the answers.

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
                self._out += frame.pack()

    def recvall(self, length: int, deadline: float | None) -> bytes:
        """The next `length` bytes of the answers; waits for a feed until the deadline, a moment of `time.time`."""
        # freezegun stops `time.time`, and the wait is real.
        until = None if deadline is None else monotonic() + deadline - time.time()
        while len(self._out) < length:
            if self.is_closed:
                raise self.closed_error("Connection is closed.")
            self._is_woken.clear()
            frames = self.session.poll()
            if not frames:
                self._wait(until)
                continue
            for frame in frames:
                self._out += frame.pack()
        found = bytes(self._out[:length])
        del self._out[:length]
        return found

    def _wait(self, until: float | None) -> None:
        if not self.session.is_waiting:
            # No answer will ever come, because all requests have been answered.
            raise self.timeout_error("localhost", 28015)
        left = None if until is None else until - monotonic()
        if left is not None and left <= 0:
            raise self.timeout_error("localhost", 28015)
        due = self.session.wait_s
        waits = [one for one in (left, due) if one is not None]
        self._is_woken.wait(min(waits) if waits else None)
