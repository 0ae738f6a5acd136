"""HTTPConnection: one connection of an HTTP client: uvicorn's protocol, with limits that uvicorn lacks.

    places      the client is a stranger until the application accepts a request; see `reactdb.servers.places`. Without a place,
                503
    time        `head_s` from connecting to the end of the first request's head, with the handshake of TLS; the same from the
                first byte of a later request; between them `idle_s`; `write_s` to read an answer
    size        `head_bytes` of the request line and the headers together, in any number of pieces: 431

uvicorn parses requests with httptools if it is installed, and with h11 otherwise. Both have a subclass here.

Rule of this file: connections, no requests. All of it is called on the loop.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from reactdb.servers.http.limits import HTTPLimits
from reactdb.servers.http.protocol import ADMIT
from reactdb.servers.places import Places

try:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
except ImportError:
    HttpToolsProtocol = None  # type: ignore[assignment, misc]

__all__ = ["HTTPConnection", "LimitedConnection", "Port", "bound_heads"]

PIECE_BYTES: Final = 4 * 1024
"""Bytes to parse at a time before a request is executed, so that a head is refused soon after it is too long."""
CLOSING_S: Final = 5.0
"""How long a refused client may take to read the answer, and to stop sending."""
HEAD_TOO_LONG: Final = "The request line and the headers are too long: at most {} bytes together."


@dataclass(frozen=True, slots=True)
class Port:
    """The common data of all connections of one port."""

    places: Places
    limits: HTTPLimits
    tls: ssl.SSLContext | None


class LimitedConnection:
    """The common part of both subclasses: see the head of this file. It comes before one of uvicorn's protocols in the bases."""

    # Of uvicorn's protocols.
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    cycle: Any
    app_state: dict[str, Any]
    timeout_keep_alive_task: asyncio.TimerHandle | None
    # asyncio's transport for the socket, under TLS.
    _raw: asyncio.Transport

    def __init__(self, port: Port, **options: Any) -> None:
        """`options`: uvicorn's arguments for its protocols."""
        super().__init__(**options)
        self.app_state = {**self.app_state, ADMIT: self._admit}
        self._port = port
        self._limits = port.limits
        self._connected: asyncio.Transport | None = None
        self._opening: asyncio.Task[None] | None = None
        self._early = b""
        self._is_open = False
        self._is_lost = False
        self._is_refused = False
        self._deadline: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._unread_bytes = 0

    # -----------------------------------------------------------------------------------------------------------
    # From connecting to the first byte

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._raw = self._connected = transport
        if self._port.places.is_closed:
            # uvicorn has asked its connections to end, and would wait for this one.
            transport.abort()
            return
        if not self._port.places.enter(self):
            self._turn_away(transport)
            return
        self._deadline = self.loop.call_later(self._limits.head_s, self.abort)
        if self._port.tls is None:
            self._open(transport)
        else:
            transport.pause_reading()
            self._opening = self.loop.create_task(self._open_tls(transport, self._port.tls))

    async def _open_tls(self, transport: asyncio.Transport, tls: ssl.SSLContext) -> None:
        try:
            encrypted = await self.loop.start_tls(
                transport,
                self,  # type: ignore[arg-type]
                tls,
                server_side=True,
                ssl_handshake_timeout=self._limits.head_s,
                # Bytes that were written before the end may still have to be read.
                ssl_shutdown_timeout=self._limits.write_s,
            )
        except (OSError, asyncio.CancelledError):
            # The client speaks no TLS, or has gone; an SSLError is an OSError.
            self.connection_lost(None)
            return
        if encrypted is None or encrypted.is_closing() or self._is_lost:
            # The connection was aborted meanwhile. During a handshake asyncio does not report that.
            self.connection_lost(None)
            return
        self._open(encrypted)

    def _open(self, transport: asyncio.Transport) -> None:
        self._connected = transport
        self._is_open = True
        super().connection_made(transport)  # type: ignore[misc]
        # uvicorn would hold 64 KiB for a client that does not read, beside the current message. The limit is not 0, because over
        # TLS asyncio pauses at the limit, and without TLS above it.
        transport.set_write_buffer_limits(high=1, low=0)
        if self._early:
            self.data_received(self._early)
            self._early = b""

    def _turn_away(self, transport: asyncio.Transport) -> None:
        if self._port.tls is None:
            most = self._port.places.most
            sentence = f"There are {most} connections already, which is the limit."
            transport.write(answer_bytes(HTTPStatus.SERVICE_UNAVAILABLE, sentence))
        transport.close()

    @property
    def is_open(self) -> bool:
        """Whether uvicorn knows it."""
        return self._is_open

    # -----------------------------------------------------------------------------------------------------------
    # Requests

    @property
    def _is_busy(self) -> bool:
        """Whether a request is in progress, with at least its head received."""
        return self.cycle is not None and not self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            # It is read away, because a reset would take the answer from the client.
            return
        if not self._is_open:
            # The client sent these bytes directly after its TLS handshake, before `_open_tls` knows of the handshake's end.
            self._early += data
            return
        self._port.places.touch(self)
        at = 0
        while at < len(data) and not self._is_refused and not self.transport.is_closing():
            end = len(data) if self._is_busy else at + PIECE_BYTES
            self._parse(data[at:end])
            at = end
        self._watch()

    def _parse(self, data: bytes) -> None:
        super().data_received(data)  # type: ignore[misc]

    def _watch(self) -> None:
        """A request has to arrive in time; after the end of its head the application has its own limits."""
        if self._is_refused:
            return
        if self._is_busy:
            self._set_deadline(None)
        elif self._deadline is None:
            self._set_deadline(self._limits.head_s)

    def on_response_complete(self) -> None:
        super().on_response_complete()  # type: ignore[misc]
        if not self._is_busy:
            self._port.places.rest(self)
        if self._write_timer is None and self._count_unread():
            # Over TLS asyncio does not pause a writer for the bytes that wait under it.
            self._watch_reading()

    def timeout_keep_alive_handler(self) -> None:
        """The connection was silent for `idle_s`. A client that still reads its answer gets more time."""
        if self._count_unread():
            self.timeout_keep_alive_task = self.loop.call_later(
                self._limits.idle_s, self.timeout_keep_alive_handler
            )
            return
        super().timeout_keep_alive_handler()  # type: ignore[misc]

    def _admit(self) -> None:
        self._port.places.admit(self)

    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn where it cannot read a request."""
        if self._is_head_too_long():
            self._refuse_head()
        else:
            self._refuse(HTTPStatus.BAD_REQUEST, msg)

    def _is_head_too_long(self) -> bool:
        raise NotImplementedError

    def _refuse_head(self) -> None:
        sentence = HEAD_TOO_LONG.format(self._limits.head_bytes)
        self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, sentence)

    def _refuse(self, status: HTTPStatus, sentence: str) -> None:
        if self._is_refused:
            return
        self._is_refused = True
        is_busy = self._is_busy
        if is_busy and self.cycle.response_started:
            # Nothing can be said in the middle of an answer.
            self.abort()
            return
        self.transport.write(answer_bytes(status, sentence))
        if is_busy or not self.transport.can_write_eof():
            self.transport.close()
            return
        # The client reads the answer and then closes; or it does not, and its time is over.
        self.transport.write_eof()
        self._set_deadline(CLOSING_S)

    # -----------------------------------------------------------------------------------------------------------
    # Answers

    def pause_writing(self) -> None:
        super().pause_writing()  # type: ignore[misc]
        self._watch_reading()

    def resume_writing(self) -> None:
        self._stop_watching()
        super().resume_writing()  # type: ignore[misc]

    def _count_unread(self) -> int:
        """The written bytes that the system has not taken."""
        count = self.transport.get_write_buffer_size()
        return count if self._raw is self.transport else count + self._raw.get_write_buffer_size()

    def _watch_reading(self) -> None:
        self._stop_watching()
        self._unread_bytes = self._count_unread()
        self._write_timer = self.loop.call_later(self._limits.write_s, self._see_whether_it_reads)

    def _stop_watching(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _see_whether_it_reads(self) -> None:
        left = self._count_unread()
        if left >= self._unread_bytes:
            # A graceful close would wait for the client as well.
            self.abort()
        elif left:
            self._watch_reading()
        else:
            self._write_timer = None

    # -----------------------------------------------------------------------------------------------------------
    # The end

    def abort(self) -> None:
        """End at once."""
        if self._opening is not None:
            self._opening.cancel()
        if self._connected is not None:
            self._connected.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        self._set_deadline(None)
        self._stop_watching()
        self._port.places.leave(self)
        if self._is_open:
            super().connection_lost(exc)  # type: ignore[misc]

    def _set_deadline(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self.abort)


class H11Connection(LimitedConnection, H11Protocol):
    """h11 counts the bytes of an incomplete head; `h11_max_incomplete_event_size` is `head_bytes`."""

    def _is_head_too_long(self) -> bool:
        return len(self.conn.trailing_data[0]) > self._limits.head_bytes


if HttpToolsProtocol is not None:

    class HttpToolsConnection(LimitedConnection, HttpToolsProtocol):
        """httptools has no limit of its own. This class counts the bytes before a body or an end, and headers together with
        trailers behind a body."""

        def __init__(self, port: Port, **options: Any) -> None:
            super().__init__(port, **options)
            self._unfinished_bytes = 0
            self._header_bytes = 0
            self._has_come_to_something = False

        def _parse(self, data: bytes) -> None:
            self._has_come_to_something = False
            super()._parse(data)
            self._unfinished_bytes = 0 if self._has_come_to_something else self._unfinished_bytes + len(data)
            if self._unfinished_bytes > self._limits.head_bytes:
                self._refuse_head()

        def on_message_begin(self) -> None:
            self._header_bytes = 0
            super().on_message_begin()

        def on_header(self, name: bytes, value: bytes) -> None:
            self._header_bytes += len(name) + len(value)
            if self._header_bytes > self._limits.head_bytes:
                raise ValueError("the headers are too long")
            super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self._has_come_to_something = True
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self._has_come_to_something = True
            super().on_body(body)

        def on_message_complete(self) -> None:
            self._has_come_to_something = True
            super().on_message_complete()

        def _is_head_too_long(self) -> bool:
            return self._header_bytes > self._limits.head_bytes


HTTPConnection: Callable[..., Any] = H11Connection if HttpToolsProtocol is None else HttpToolsConnection


def answer_bytes(status: HTTPStatus, sentence: str) -> bytes:
    """The last answer before the connection ends."""
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"content-type: text/plain; charset=utf-8\r\ncontent-length: {len(sentence.encode())}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + sentence.encode()


def bound_heads(application: ASGIApp, most: int) -> ASGIApp:
    """The application, for requests whose request line and headers have at most `most` bytes. A parser passes on a head of any
    length if it arrives at once."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and head_bytes_of(scope) > most:
            headers = {"connection": "close"}
            await PlainTextResponse(HEAD_TOO_LONG.format(most), 431, headers)(scope, receive, send)
            return
        await application(scope, receive, send)

    return call


def head_bytes_of(scope: Scope) -> int:
    """The bytes of a request's line and headers, without the empty line at the end."""
    line = len(scope["method"]) + len(scope["raw_path"]) + len(scope["query_string"]) + len(" ? HTTP/1.1\r\n")
    return line + sum(len(name) + len(value) + len(": \r\n") for name, value in scope["headers"])
