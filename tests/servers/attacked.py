"""A server of each protocol that is attacked, in the clear or over TLS, with limits that are soon reached; and its good clients.

Rule of this file: sockets of the tests' own, because no driver does what an attacker does.
"""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, Final

import reactdb
from reactdb.servers.http import HTTPLimits
from reactdb.servers.http import serve_in_thread as serve_http
from reactdb.servers.limits import Limits
from reactdb.servers.mongodb import serve_in_thread as serve_mongodb
from reactdb.servers.rethinkdb import serve_in_thread as serve_rethinkdb
from reactdb.servers.tls import tls_context
from tests.servers.mongodb.wire import Wire, query
from tests.support.certificates import Certificate
from tests.support.rethinkdb import Raw
from tests.support.threads import PATIENCE_S

PROTOCOLS: Final = ("http", "mongodb", "rethinkdb")
GOOD_S: Final = 0.5
"""A good client beside an attack is served within this time."""
TRIES: Final = 5
"""Another program of the machine may have had the processor."""


class Attacked:
    """See the head of this file. Sockets that it has opened are closed with it."""

    def __init__(self, protocol: str, server: Any, tls: ssl.SSLContext | None) -> None:
        self.protocol = protocol
        self.server = server
        self.tls = tls
        self.sockets: list[socket.socket] = []

    def connect(self) -> socket.socket:
        """A connection over which nothing was sent, not even the beginning of TLS."""
        found = socket.socket()
        # What the system holds for a client is small, so that it is the server that has to keep the rest.
        found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        found.settimeout(PATIENCE_S)
        found.connect(("127.0.0.1", self.server.port))
        self.sockets.append(found)
        return found

    def open(self) -> socket.socket:
        """A connection over which the protocol can be spoken."""
        plain = self.connect()
        if self.tls is None:
            return plain
        found = self.tls.wrap_socket(plain, server_hostname="127.0.0.1")
        self.sockets[-1] = found
        return found

    def ask(self, line: socket.socket) -> None:
        """Do what every client does first; over HTTP and MongoDB's protocol, again and again."""
        if self.protocol == "rethinkdb":
            client = Raw.__new__(Raw)
            client.socket = line
            client.shake_hands()
        elif self.protocol == "mongodb":
            wire = Wire.__new__(Wire)
            wire.socket = line
            wire.send(query({"hello": 1}))
            assert 1.0 == wire.receive()[1]["ok"]
        else:
            assert b"HTTP/1.1 200 OK" == asked(line, b"GET /todo HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")[0]

    def known(self) -> socket.socket:
        """A connection that has done so."""
        line = self.open()
        self.ask(line)
        return line

    def serve_a_good_client(self) -> float:
        """Seconds from connecting to the answer."""
        began = time.perf_counter()
        with closing(self.open()) as line:
            self.ask(line)
        return time.perf_counter() - began

    def serves_others(self) -> bool:
        return any(self.serve_a_good_client() < GOOD_S for _ in range(TRIES))


def asked(line: socket.socket, request: bytes) -> tuple[bytes, bytes]:
    """(the first line of the answer to an HTTP request, its body, which has a length)."""
    with suppress(ConnectionError, ssl.SSLError):
        # The answer may come before the request is over.
        line.sendall(request)
    return answer_of(line)


def answer_of(line: socket.socket) -> tuple[bytes, bytes]:
    found = bytearray()
    while b"\r\n\r\n" not in found:
        piece = line.recv(65_536)
        assert piece, found
        found += piece
    head, _, body = found.partition(b"\r\n\r\n")
    lines = bytes(head).split(b"\r\n")
    names = dict(part.lower().split(b": ", 1) for part in lines[1:])
    while len(body) < int(names[b"content-length"]):
        piece = line.recv(65_536)
        assert piece, lines
        body += piece
    return lines[0], bytes(body)


def is_closed_within(line: socket.socket, seconds: float) -> bool:
    """Whether the server closes the connection; what it sends before is read."""
    line.settimeout(seconds)
    try:
        while line.recv(65_536):
            pass
    except TimeoutError:
        return False
    except (ConnectionError, ssl.SSLError):
        pass
    return True


@contextmanager
def attacked(
    protocol: str,
    certificate: Certificate | None = None,
    *,
    handshake_s: float = PATIENCE_S,
    message_s: float = PATIENCE_S,
    connections: int = 1_024,
    strangers: int = 512,
    http: dict[str, Any] | None = None,
    **options: Any,
) -> Iterator[Attacked]:
    """A server with limits. `certificate`: it speaks TLS; `http`: more of HTTPLimits; `options`: of every server."""
    tls = None if certificate is None else tls_context(certificate.certificate, certificate.key)
    with reactdb.connect(":memory:") as database:
        database.table_create("todo", primary_key="_id")
        limits = Limits(
            connections=connections,
            strangers=strangers,
            handshake_s=handshake_s,
            message_s=message_s,
            stop_s=0.2,
        )
        if protocol == "http":
            own = HTTPLimits(**{"head_s": handshake_s, "idle_s": PATIENCE_S, **(http or {})})
            serving: Any = serve_http(
                database, tls=tls, limits=own, connections=connections, strangers=strangers, **options
            )
        else:
            serve: Any = serve_mongodb if protocol == "mongodb" else serve_rethinkdb
            serving = serve(database, tls=tls, limits=limits, **options)
        with serving as server:
            found = Attacked(protocol, server, None if certificate is None else certificate.client())
            try:
                yield found
            finally:
                for line in found.sockets:
                    line.close()


def error_of(body: bytes) -> str:
    found: str = json.loads(body)["error"]
    return found
