"""RethinkDBConversation: one driver's bytes: the handshake, then frames.

A frame has 8 bytes of token, 4 of length, and JSON. A request for one document runs at once, on the loop, because the way to a
thread and back takes longer than the request. A write does so only if its commit does not wait for the disk, and while no thread
is running, because that might be writing.

Rule of this file: bytes, and which requests are quick. The dialect's session executes requests.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from reactdb.database import Database
from reactdb.dialects.rethinkdb.errors import ClientError
from reactdb.dialects.rethinkdb.session import HEADER, Frame, Session, failure
from reactdb.servers.connection import Conversation, LastAnswer
from reactdb.servers.limits import Limits
from reactdb.servers.rethinkdb.handshake import Handshake, HandshakeFailed
from reactdb.servers.users import Credentials
from reactdb.servers.workers import Workers
from reactdb.session import session_of

# The beginning of a request for one document by its key, or of a request for the next batch of a stream.
READ, WRITE = rb"1,\[16,", rb"1,\[(?:56|(?:53|54|55),\[\[16),"
QUICK: Final = re.compile(rb"\[(?:(" + WRITE + rb")|(" + READ + rb")|[2-5]\])")
# All terms except those with a cost that grows only with their own length: variables, functions, names of tables, values, fields,
# comparisons, arithmetic, `branch`, `default`, `merge`, and the writes and `get` themselves.
SLOW: Final = re.compile(
    rb"\[\s*(?!(?:1|2|3|10|13|14|15|16|17|18|19|20|21|22|23|24|25|26|27|28|29|31|32|33|34|35|53|54|55|56|65|66|67|69|92|94|99|103|"
    rb"137|155|169|170)\s*,)\d+\s*,\s*[\[{]"
)
# A write with a second table may read all of it.
TABLE: Final = re.compile(rb"\[\s*15\s*,")
MAX_QUICK_BYTES: Final = 8 * 1024


class RethinkDBConversation(Conversation):
    """See the head of this file. A request is bytes of the handshake, and later a token with the body of a frame."""

    def __init__(
        self,
        database: Database,
        credentials: Credentials,
        limits: Limits,
        workers: Workers,
        wake: Callable[[], None],
        client: tuple[str, int],
    ) -> None:
        self._handshake = Handshake(credentials)
        self._limits = limits
        self._workers = workers
        self._buffer = bytearray()
        self.is_admitted = False
        self._is_memory = database.path == ":memory:"
        self._is_inline = self._is_memory or session_of(database).durability == "soft"
        self.session = Session(
            database,
            wake,
            max_streams=limits.streams,
            client=client,
            query_timeout_s=limits.query_s or None,
            query_bytes=limits.query_bytes or None,
            crowd=workers.crowd,
        )

    @property
    def buffered_bytes(self) -> int:
        return len(self._buffer)

    @property
    def polls_heavily(self) -> bool:
        return self.session.polls_heavily

    @property
    def wait_s(self) -> float | None:
        return self.session.wait_s

    def receive(self, data: bytes) -> None:
        self._buffer += data

    def next_request(self) -> Any:
        buffer = self._buffer
        if not self.is_admitted:
            data = bytes(buffer)
            buffer.clear()
            return data or None
        if len(buffer) < HEADER.size:
            return None
        token, length = HEADER.unpack_from(buffer)
        most = self._limits.message_bytes
        if length > most:
            sentence = f"The query is too large ({length} bytes); the limit is {most} bytes."
            raise LastAnswer(failure(token, ClientError(sentence)).pack())
        end = HEADER.size + length
        if len(buffer) < end:
            return None
        body = bytes(buffer[HEADER.size : end])
        del buffer[:end]
        return token, body

    def is_quick(self, request: Any) -> bool:
        if not self.is_admitted:
            return True
        token, body = request
        kind = QUICK.match(body) if len(body) <= MAX_QUICK_BYTES else None
        if kind is None or SLOW.search(body) is not None:
            return False
        if self._workers.jobs and (kind[1] is not None or (self._is_memory and kind[2] is not None)):
            # A thread that writes may compute for long and hold the write lock. In memory, readers wait for it, too.
            return False
        if kind[1] is not None:
            return self._is_inline and len(TABLE.findall(body)) == 1
        return body != b"[2]" or not self.session.is_heavy(token)

    def answer(self, request: Any) -> bytes:
        if not self.is_admitted:
            return self._shaken_hands(request)
        return pack_frames(self.session.receive(*request))

    def poll(self) -> bytes:
        return pack_frames(self.session.poll())

    def cancel(self) -> None:
        self.session.cancel()

    def close(self) -> None:
        self.session.close()

    def _shaken_hands(self, data: bytes) -> bytes:
        try:
            answer = self._handshake.receive(data)
        except HandshakeFailed as error:
            raise LastAnswer(error.answer, str(error)) from None
        if self._handshake.is_done:
            self.is_admitted = True
            self.session.user = self._handshake.user
            self._buffer[:0] = self._handshake.rest
        return answer


def pack_frames(frames: list[Frame]) -> bytes:
    return b"".join([frame.pack() for frame in frames])
