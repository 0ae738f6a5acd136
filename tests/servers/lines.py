"""A protocol of lines, on the ground that all servers share: as small as a protocol can be, with one command for each thing that
a protocol may do.

    hello            lets the client in
    echo TEXT        is answered at once
    count TEXT       is answered with the length of TEXT
    think TEXT       is answered by a thread
    wait             is answered by a thread, once `Room.gate` is open or the client has gone
    block            the same on the loop, which a protocol must not do
    listen           tells from now on what others shout
    shout TEXT       wakes those who listen
    later TEXT       says TEXT a tenth of a second later, without any request
    pour COUNT       an answer in COUNT pieces of 64 KiB, made when the client has read those before
    bye              says goodbye
    crash            is a mistake of the protocol's
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from reactdb.servers.connection import Conversation, LastAnswer
from reactdb.servers.server import Server
from tests.support.threads import PATIENCE_S

PIECE = b"x" * 65_535 + b"\n"
QUICK = frozenset(
    (b"hello", b"echo", b"count", b"listen", b"shout", b"later", b"pour", b"bye", b"crash", b"block")
)


class Room:
    """What the clients of one server share."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.listeners: list[Lines] = []
        self.conversations: list[Lines] = []
        self.done: list[bytes] = []

    def shout(self, text: bytes) -> None:
        for listener in list(self.listeners):
            listener.heard.append(text)
            listener.wake()


class Lines(Conversation):
    def __init__(self, room: Room, wake: Callable[[], None], most_bytes: int) -> None:
        self.room = room
        self.wake = wake
        self.is_admitted = False
        self.heard: deque[bytes] = deque()
        self.pieces = 0
        self.poured = 0
        self.is_cancelled = threading.Event()
        self.is_closed = threading.Event()
        self._later: tuple[float, bytes] | None = None
        self._most_bytes = most_bytes
        self._buffer = bytearray()
        room.conversations.append(self)

    @property
    def buffered_bytes(self) -> int:
        return len(self._buffer)

    @property
    def wait_s(self) -> float | None:
        return None if self._later is None else self._later[0] - time.monotonic()

    def receive(self, data: bytes) -> None:
        self._buffer += data

    def next_request(self) -> Any:
        line, end, _ = self._buffer.partition(b"\n")
        if len(line) > self._most_bytes:
            raise LastAnswer(b"too long\n")
        if not end:
            return None
        del self._buffer[: len(line) + 1]
        return bytes(line)

    def is_quick(self, request: Any) -> bool:
        return request.split(b" ")[0] in QUICK

    def answer(self, request: Any) -> bytes:
        command, _, text = request.partition(b" ")
        found: bytes = getattr(self, command.decode())(text)
        self.room.done.append(request)
        return found

    def hello(self, _: bytes) -> bytes:
        self.is_admitted = True
        return b"hello\n"

    def echo(self, text: bytes) -> bytes:
        return text + b"\n"

    def count(self, text: bytes) -> bytes:
        return b"%d\n" % len(text)

    think = echo

    def wait(self, _: bytes) -> bytes:
        end = time.monotonic() + PATIENCE_S
        while not self.room.gate.wait(0.002) and not self.is_cancelled.is_set():
            assert time.monotonic() < end
        return b"waited\n"

    def block(self, _: bytes) -> bytes:
        assert self.room.gate.wait(PATIENCE_S)
        return b"blocked\n"

    def listen(self, _: bytes) -> bytes:
        self.room.listeners.append(self)
        return b"listening\n"

    def shout(self, text: bytes) -> bytes:
        self.room.shout(text)
        return b"shouted\n"

    def later(self, text: bytes) -> bytes:
        self._later = (time.monotonic() + 0.1, text)
        return b""

    def pour(self, count: bytes) -> bytes:
        self.pieces = int(count)
        self.is_answering = True
        self.wake()
        return b""

    def bye(self, _: bytes) -> bytes:
        raise LastAnswer(b"bye\n")

    def crash(self, _: bytes) -> bytes:
        raise RuntimeError("a mistake of the protocol's")

    def poll(self) -> bytes:
        found = b""
        if self.pieces:
            self.pieces -= 1
            self.poured += 1
            self.is_answering = bool(self.pieces)
            self.wake()
            found = PIECE
        if self._later is not None and time.monotonic() >= self._later[0]:
            found += self._later[1] + b"\n"
            self._later = None
        while self.heard:
            found += self.heard.popleft() + b"\n"
        return found

    def last_bytes(self) -> bytes:
        return b"the server stops\n"

    def cancel(self) -> None:
        self.is_cancelled.set()

    def close(self) -> None:
        self.is_closed.set()


class LinesServer(Server):
    def __init__(self, room: Room, **options: Any) -> None:
        super().__init__(**options)
        self.room = room

    def converse(self, wake: Callable[[], None], client: tuple[str, int]) -> Lines:
        return Lines(self.room, wake, self.limits.message_bytes)

    def refusal(self, sentence: str) -> bytes:
        return sentence.encode() + b"\n"
