"""`python -m benchmarks.recorded_answers PORT`: a server that answers with bytes which another one has answered before.

It asks the server at PORT of this machine what it has not been asked yet, and remembers the answer by method, path and body. So a
client that asks the same again gets it as soon as any server could give it: what remains of the time is the client's own. The
documents below `_local/`, which differ from run to run, are kept here.

Rule of this file: each connection brings one request, as PouchDB's do in Node. It checks nothing.
"""

from __future__ import annotations

import asyncio
import json
import sys


class Recorded(asyncio.Protocol):
    """One connection."""

    answers: dict[bytes, bytes]
    local: dict[bytes, bytes]
    port: int

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.received = b""

    def data_received(self, data: bytes) -> None:
        self.received += data
        head, end, body = self.received.partition(b"\r\n\r\n")
        if not end or len(body) < length_of(head):
            return
        method, path, _ = head.split(b" ", 2)
        if b"/_local/" in path:
            self.answer(self.answer_local(method, path, body))
            return
        key = b"\n".join((method, path, body))
        known = self.answers.get(key)
        if known is not None:
            self.answer(known)
        else:
            self.asking = asyncio.ensure_future(self.ask(key))

    def answer(self, data: bytes) -> None:
        self.transport.write(data)
        self.transport.close()

    def answer_local(self, method: bytes, path: bytes, body: bytes) -> bytes:
        if method == b"PUT":
            self.local[path] = json.dumps({**json.loads(body), "_rev": "0-1"}).encode()
            return response(b"201 Created", b'{"ok":true,"id":"_local/x","rev":"0-1"}')
        if path in self.local:
            return response(b"200 OK", self.local[path])
        return response(b"404 Object Not Found", b'{"error":"not_found","reason":"missing"}')

    async def ask(self, key: bytes) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(self.received)
        self.answers[key] = await reader.read(-1)
        writer.close()
        self.answer(self.answers[key])


def length_of(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def response(status: bytes, body: bytes) -> bytes:
    return (
        b"HTTP/1.1 %b\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b"
        % (status, len(body), body)
    )


async def main() -> None:
    Recorded.answers, Recorded.local, Recorded.port = {}, {}, int(sys.argv[1])
    server = await asyncio.get_running_loop().create_server(Recorded, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
