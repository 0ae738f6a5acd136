"""The inspector as its tests use it: without a socket, and on a port of its own with raw requests."""

from __future__ import annotations

import asyncio
import json
import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from reactdb.servers.inspector.application import InspectorApplication
from tests.servers.http.asgi import asked

TOKEN = "a-token-for-the-tests-of-the-inspector"
OWN = {"X-Reactdb-Inspector": "1"}
# Nothing that is waited for takes longer, even on a busy machine.
PATIENCE_S = 60.0


class Inspector:
    """Requests to an application without a socket."""

    def __init__(self, db: Any, *, write: bool = False) -> None:
        self.application = InspectorApplication(db, write=write)

    def ask(self, name: str, expected: int = 200, **parameters: Any) -> Any:
        """The JSON of `GET api/NAME`."""
        given = {key: value for key, value in parameters.items() if value is not None}
        return self._send("GET", f"/api/{name}?{urlencode(given)}", b"", expected)

    def write(self, name: str, expected: int = 200, **members: Any) -> Any:
        """The JSON of `POST api/NAME`."""
        return self._send("POST", f"/api/{name}", json.dumps(members).encode(), expected)

    def _send(self, method: str, path: str, body: bytes, expected: int) -> Any:
        headers = {"Host": "localhost", **OWN}
        if body:
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        answer = asyncio.run(asked(self.application, method, path, headers=headers, body=body))
        assert answer.status == expected, answer.body
        return json.loads(answer.body)


@dataclass
class Raw:
    """An answer, byte for byte."""

    status: int
    head: str
    body: bytes


def send_raw(port: int, method: str, path: str, lines: list[str], body: bytes = b"") -> Raw:
    """Send exactly these header lines on a connection of its own, and read the answer to its end, or the head of a stream."""
    request = "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "Connection: close", "", ""])
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.sendall(request.encode("latin-1") + body)
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65_536)
            if not piece:
                break
            data += piece
        head, _, rest = data.partition(b"\r\n\r\n")
        if b"application/x-ndjson" not in head:
            while piece := connection.recv(65_536):
                rest += piece
    text = head.decode("latin-1")
    return Raw(int(text.split(" ", 2)[1]), text, rest)
