"""A client of the RethinkDB server that can break the protocol."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

from rethinkdb.ast import ReQLDecoder, ReQLEncoder
from rethinkdb.handshake import HandshakeV1_0

from tests.support.feeds import hub


def subscriptions(db: Any) -> int:
    """The number of subscriptions of a database."""
    return len(hub(db).subscriptions())


class Raw:
    """A socket that can send anything."""

    def __init__(self, address: tuple[str, int], *, timeout_s: float = 5.0) -> None:
        self.socket = socket.create_connection(address, timeout=timeout_s)

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def everything(self) -> bytes:
        """All bytes that come until the other side closes."""
        found = b""
        while data := self.socket.recv(65_536):
            found += data
        return found

    def shake_hands(self) -> None:
        handshake = HandshakeV1_0(ReQLDecoder(), ReQLEncoder(), "", 0, "admin", "")
        response = None
        while (request := handshake.next_message(response)) is not None:
            if request:
                self.send(request)
            response = b""
            while (letter := self.socket.recv(1)) != b"\0":
                response += letter

    def frame(self, token: int, body: bytes) -> None:
        self.send(struct.pack("<qL", token, len(body)) + body)

    def response(self) -> tuple[int, Any]:
        header = self._exactly(12)
        token, length = struct.unpack("<qL", header)
        return token, json.loads(self._exactly(length))

    def _exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            data = self.socket.recv(count - len(found))
            assert data
            found += data
        return found
