"""A client that speaks MongoDB's protocol by hand: for what no driver sends."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Any

import bson

from tests.support.threads import PATIENCE_S

OP_MSG = 2013
OP_QUERY = 2004


def message(
    body: dict[str, Any],
    *,
    flags: int = 0,
    sequences: dict[str, list[dict[str, Any]]] | None = None,
    request_id: int = 7,
) -> bytes:
    """An OP_MSG."""
    sections = b"\0" + bson.encode(body)
    for name, documents in (sequences or {}).items():
        content = name.encode() + b"\0" + b"".join(map(bson.encode, documents))
        sections += b"\1" + struct.pack("<i", 4 + len(content)) + content
    return framed(struct.pack("<I", flags) + sections, OP_MSG, request_id)


def query(body: dict[str, Any], collection: str = "admin.$cmd") -> bytes:
    """An OP_QUERY."""
    content = (
        struct.pack("<i", 0) + collection.encode() + b"\0" + struct.pack("<ii", 0, -1) + bson.encode(body)
    )
    return framed(content, OP_QUERY)


def framed(content: bytes, opcode: int, request_id: int = 7) -> bytes:
    return struct.pack("<iiii", 16 + len(content), request_id, 0, opcode) + content


class Wire:
    """A socket to a server."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)

    def __enter__(self) -> Wire:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> tuple[int, dict[str, Any]]:
        """(opcode, document) of the next answer.

        Raises:
            EOFError: The server has closed the connection.
        """
        length, _, answered, opcode = struct.unpack("<iiii", self._exactly(16))
        data = self._exactly(length - 16)
        assert answered == 7
        return opcode, bson.decode(data[5:] if opcode == OP_MSG else data[20:])

    def ask(self, body: dict[str, Any], **options: Any) -> dict[str, Any]:
        """What an OP_MSG is answered."""
        self.send(message({**body, "$db": body.get("$db", "admin")}, **options))
        return self.receive()[1]

    def is_closed(self) -> bool:
        """Whether the server closes the connection, without a word."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            part = self.socket.recv(count - len(found))
            if not part:
                raise EOFError
            found += part
        return found
