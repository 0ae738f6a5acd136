"""Connection: one client over TCP, in any protocol. Conversation: the part that each protocol supplies.

A protocol is a subclass of Conversation: bytes in, requests out of them, bytes out. It has no socket, no thread, no clock, and no
limit except the size of a message. The connection calls its methods in this order, one request after the other:

    receive(data)          bytes have come
    next_request()         the next whole request, None if it needs more bytes; or LastAnswer, if no request can follow
    is_quick(request)      whether to execute it on the loop, while all clients wait, or in a thread
    answer(request)        execute it; the bytes to send, perhaps none
    poll()                 bytes that are ready without a request: called after `wake`, or after `wait_s` seconds
    close()                the client is gone; before that `cancel`, so that a running request ends soon

The connection does this for every protocol:

    back-pressure   While a client has more than HIGH_WATER_BYTES to read, none of its requests is executed; after it has sent
                    `message_bytes` ahead, the connection stops reading. So a client that does not read uses bounded memory, and
                    its feeds drop events.
    slow clients    Authentication, sending a request and reading a reply each have a time limit.
    strangers       A client before its authentication is a stranger. The number of strangers is limited; see `places`.
    threads         Requests of one client are executed one after the other; a long request blocks neither the loop nor others.
    the end         When a client disconnects, its request is cancelled. `stop` executes and answers all received requests.
                    LastAnswer arrives also while the client is still sending (not over TLS: asyncio cannot close one direction of
                    it).

Rule of this file: all of it runs on the loop; only `wake` may be called by any thread. Numbers are in `limits`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final

from reactdb.logs import logger
from reactdb.servers.limits import Limits
from reactdb.servers.places import Places
from reactdb.servers.workers import Workers

__all__ = ["Connection", "Conversation", "LastAnswer"]

HIGH_WATER_BYTES: Final = 1024 * 1024
LOW_WATER_BYTES: Final = HIGH_WATER_BYTES // 4
CLOSING_S: Final = 5.0
"""How long an ended connection waits for its client to read the last answer."""
REQUESTS_IN_A_ROW: Final = 16
"""Quick requests of one client before others have their turn. Each takes up to a millisecond."""


class LastAnswer(Exception):
    """The connection ends after these bytes: the client broke the protocol, or it said goodbye."""

    def __init__(self, data: bytes, reason: str = "") -> None:
        super().__init__(reason)
        self.data = data


class Conversation:
    """One client's side of a protocol. Subclasses write `receive`, `next_request` and `answer`, and the other methods if they
    need them.

    Attributes:
        is_admitted: Whether the client is authenticated. Until then `handshake_s` runs, and afterwards `message_s` for each
            request.
        may_stay_outside: Whether each answer restarts the handshake's time for a client without authentication. A MongoDB driver
            watches the server over such a connection: it sends a request every ten seconds, and never authenticates.
        buffered_bytes: Received bytes that belong to no complete request yet.
        is_answering: Whether the last answer goes on, by `poll`, so that the next request has to wait.
        polls_heavily: Whether `poll` may compute something, and so needs a thread.
        here: The server's address and port that the client uses. The connection sets it.
        wait_s: Seconds until `poll` may have something without any `wake`; None if there is no such moment. The connection reads
            it again after each use.

    Thread safety: one thread at a time, but for `receive` and `cancel`. `next_request`, `answer` and `poll` may raise LastAnswer;
    any other exception is logged and ends the connection.
    """

    is_admitted = True
    may_stay_outside = False
    is_answering = False
    here: tuple[str, int] = ("", 0)

    @property
    def buffered_bytes(self) -> int:
        raise NotImplementedError

    @property
    def polls_heavily(self) -> bool:
        return False

    @property
    def wait_s(self) -> float | None:
        return None

    def receive(self, data: bytes) -> None:
        """Keep received bytes. A thread may still be executing a request."""
        raise NotImplementedError

    def next_request(self) -> Any:
        """The next whole request, in the protocol's own form; None if it is incomplete. The request before it is answered."""
        raise NotImplementedError

    def is_quick(self, request: Any) -> bool:
        """Whether the request takes less than a millisecond and waits for nothing, as far as this is known at once."""
        return False

    def answer(self, request: Any) -> bytes:
        """Execute the request. Also called in a thread."""
        raise NotImplementedError

    def poll(self) -> bytes:
        """The bytes that are ready; b"" if there are none. If there is more than one piece can hold, call `wake` and return a
        part: the connection polls again when the client has read it."""
        return b""

    def last_bytes(self) -> bytes:
        """The last bytes before the server stops: they complete an unfinished answer."""
        return b""

    def cancel(self) -> None:
        """End the running request soon: its answer is not needed any more. Any thread may call it."""

    def close(self) -> None:
        """Let go of everything. Called in a thread, after the last request."""


class Connection(asyncio.Protocol):
    """One client."""

    _transport: asyncio.Transport

    def __init__(
        self,
        converse: Callable[[Callable[[], None], tuple[str, int]], Conversation],
        workers: Workers,
        limits: Limits,
        places: Places,
        on_closed: Callable[[Connection], None],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`converse` makes the conversation, from `wake` and the client's address; `places` has a place for this connection
        already."""
        self._converse = converse
        self._workers = workers
        self._limits = limits
        self._places = places
        self._on_closed = on_closed
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._conversation: Conversation | None = None
        self._opening: asyncio.Task[None] | None = None
        self._early = b""
        # The work of a thread for this client.
        self._job: Future[Any] | None = None
        # Whether `poll` may have something; any thread may set it.
        self._is_woken = False
        self._was_polled = False
        self._is_writing_paused = False
        self._is_reading_paused = False
        # Whether all complete requests are executed, so that only the beginning of a request may be buffered.
        self._needs_bytes = True
        self._is_stopping = False
        self._is_ending = False
        self._is_lost = False
        self._is_stranger = True
        # Whether the connection had to end before asyncio called `connection_made`.
        self._is_unwanted = False
        self._unread_bytes = 0
        # By name: handshake, message, write, wait, end.
        self._timers: dict[str, asyncio.TimerHandle] = {}
        # The moment at which `poll` may have something without any `wake`; the timer "wait" runs out then, or earlier.
        self._due_at: float | None = None

    # -----------------------------------------------------------------------------------------------------------
    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self._is_unwanted:
            transport.abort()
            return
        self._set_timer("handshake", self._limits.handshake_s, self.abort)
        if self._tls is None:
            self._open()
        else:
            # A client counts, and its time runs, before it has said anything.
            transport.pause_reading()
            self._opening = self._loop.create_task(self._open_tls(self._tls))

    async def _open_tls(self, tls: ssl.SSLContext) -> None:
        try:
            transport = await self._loop.start_tls(
                self._transport,
                self,
                tls,
                server_side=True,
                ssl_handshake_timeout=self._limits.handshake_s,
                ssl_shutdown_timeout=CLOSING_S,
            )
        except (OSError, asyncio.CancelledError) as error:
            # The client speaks no TLS, or has gone; an SSLError is an OSError.
            self.connection_lost(error if isinstance(error, OSError) else None)
            return
        if transport is None or transport.is_closing() or self._is_lost:
            # The connection was aborted meanwhile. During a handshake asyncio does not report that.
            self.connection_lost(None)
            return
        self._transport = transport
        self._open()

    def _open(self) -> None:
        self._transport.set_write_buffer_limits(high=HIGH_WATER_BYTES, low=LOW_WATER_BYTES)
        peer = self._transport.get_extra_info("peername")
        try:
            self._conversation = self._converse(self.wake, tuple(peer[:2]) if peer else ("", 0))
        except Exception:
            self._break_off()
            return
        here = self._transport.get_extra_info("sockname")
        if isinstance(here, tuple):
            self._conversation.here = here[:2]
        if self._early:
            self.data_received(self._early)
            self._early = b""

    def data_received(self, data: bytes) -> None:
        conversation = self._conversation
        if self._is_ending:
            # Bytes after the last answer are read and dropped, because a reset would take the answer from the client.
            return
        if self._is_stranger:
            self._places.touch(self)
        if conversation is None:
            # The client sent these bytes directly after its TLS handshake, before `_open_tls` knows of the handshake's end.
            self._early += data
            return
        conversation.receive(data)
        self._needs_bytes = False
        self.advance()
        is_ahead = conversation.buffered_bytes > self._limits.message_bytes
        if is_ahead and not self._needs_bytes and not self._is_ending:
            self._pause_reading()

    def pause_writing(self) -> None:
        self._is_writing_paused = True
        self._unread_bytes = self._transport.get_write_buffer_size()
        self._set_timer("write", self._limits.write_s, self._see_whether_it_reads)

    def resume_writing(self) -> None:
        self._is_writing_paused = False
        self._cancel_timer("write")
        # Not here: if the connection is closed in this call, asyncio, in the middle of writing, would notice it twice.
        self._loop.call_soon(self.advance)

    def eof_received(self) -> None:
        """The client sends nothing more, so it counts as gone. asyncio closes the connection after it has sent the written bytes;
        a client that does not read does not keep the connection open."""
        self._is_ending = True
        self._set_timer("end", CLOSING_S, self.abort)

    def connection_lost(self, error: Exception | None) -> None:
        if self._is_lost:
            return
        self._is_lost = self._is_ending = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self._conversation is None:
            self._on_closed(self)
            return
        # A query in a thread ends when it next checks its budget.
        self._conversation.cancel()
        if self._job is None:
            self._close_conversation()
        else:
            # `_on_answer` closes the conversation; it is called also for a job that never began.
            self._job.cancel()

    def _close_conversation(self) -> None:
        assert self._conversation is not None
        self._job = self._workers.submit(self._conversation.close)
        self._job.add_done_callback(lambda job: self._on_loop(self._on_conversation_closed, job))

    def _on_conversation_closed(self, job: Future[Any]) -> None:
        error = job.exception()
        if error is not None:
            logger.error("a connection could not be closed in order", exc_info=error)
        self._on_closed(self)

    # -----------------------------------------------------------------------------------------------------------
    # One thing after the other

    def wake(self) -> None:
        """`poll` may have something. Called by any thread, perhaps inside a commit: it only leaves a note."""
        if not self._is_woken:
            self._is_woken = True
            self._workers.wake(self._loop, self)

    @property
    def _may_go_on(self) -> bool:
        return self._job is None and not self._is_writing_paused and not self._is_ending

    def advance(self) -> None:
        """Do all that is due, until the connection must wait: for a thread, for the client to read, or for its next bytes."""
        try:
            for _ in range(REQUESTS_IN_A_ROW):
                if not self._may_go_on or self._conversation is None or not self._step(self._conversation):
                    return
            self._loop.call_soon(self.advance)
        except LastAnswer as last:
            self._end(last.data)
        except Exception:
            self._break_off()

    def tell(self) -> None:
        """On the loop, when another client's request woke this connection: send what is ready. This is delayed while the
        conversation is in use or the client does not read."""
        conversation = self._conversation
        if conversation is None or not self._may_go_on:
            return
        if conversation.polls_heavily or self._transport.get_write_buffer_size():
            self._loop.call_soon(self.advance)
            return
        try:
            self._poll(conversation)
        except LastAnswer as last:
            self._end(last.data)
        except Exception:
            self._break_off()

    def _step(self, conversation: Conversation) -> bool:
        """Poll, or execute one request. Returns whether more can be done at once. Polls and requests take turns."""
        if self._is_woken and not self._was_polled:
            self._was_polled = True
            if conversation.polls_heavily:
                self._is_woken = False
                self._in_thread(conversation.poll)
                return False
            self._poll(conversation)
            return True
        self._was_polled = False
        request = None if conversation.is_answering else conversation.next_request()
        if request is None:
            # A server that stops has polled once more by now; it does not wait for an answer that continues.
            goes_on = self._is_woken and not self._is_stopping
            if not goes_on:
                self._await_more(conversation)
            return goes_on
        if "message" in self._timers:
            self._cancel_timer("message")
        if not conversation.is_quick(request):
            self._in_thread(conversation.answer, request)
            return False
        self._workers.begin_on_loop()
        try:
            self._after_use(conversation, conversation.answer(request))
        finally:
            self._workers.end_on_loop()
        return True

    def _poll(self, conversation: Conversation) -> None:
        # The note is removed before the poll: an event in between leaves another note.
        self._is_woken = False
        self._after_use(conversation, conversation.poll())

    def _in_thread(self, function: Callable[..., bytes], *arguments: Any) -> None:
        self._job = self._workers.submit(function, *arguments)
        self._job.add_done_callback(lambda job: self._on_loop(self._on_answer, job))

    def _on_answer(self, job: Future[bytes]) -> None:
        """On the loop, when a thread has executed a request."""
        self._job = None
        conversation = self._conversation
        assert conversation is not None
        if self._is_lost:
            self._close_conversation()
            return
        if self._is_ending:
            # The client is gone, but the transport has not sent all written bytes.
            return
        try:
            self._after_use(conversation, job.result())
        except LastAnswer as last:
            self._end(last.data)
        except Exception:
            self._break_off()
        self.advance()

    def _after_use(self, conversation: Conversation, data: bytes) -> None:
        """Every use of the conversation ends here: send its bytes, and note the next moment at which it has something to send
        without a request. Any use may change that moment, so it is read again each time."""
        if data:
            self._transport.write(data)
        if self._is_stranger or not conversation.is_admitted:
            self._see_who_it_is(conversation, has_answered=bool(data))
        wait_s = conversation.wait_s
        if wait_s is None:
            self._due_at = None
            return
        self._due_at = due_at = self._loop.time() + wait_s
        timer = self._timers.get("wait")
        # A timer that is too early stays: most waits end before their time, and a new timer for each would cost more than a timer
        # that runs out for nothing now and then.
        if timer is None or timer.when() > due_at:
            self._set_timer("wait", wait_s, self._due)

    def _see_who_it_is(self, conversation: Conversation, *, has_answered: bool) -> None:
        """Take note if the client was authenticated, or has given up."""
        if conversation.is_admitted:
            self._is_stranger = False
            self._places.admit(self)
            self._cancel_timer("handshake")
            return
        if not self._is_stranger:
            self._is_stranger = True
            self._places.demote(self)
            self._set_timer("handshake", self._limits.handshake_s, self.abort)
        elif has_answered and conversation.may_stay_outside:
            self._set_timer("handshake", self._limits.handshake_s, self.abort)

    def _due(self) -> None:
        due_at = self._due_at
        if due_at is None:
            return
        left_s = due_at - self._loop.time()
        if left_s > 0:
            self._set_timer("wait", left_s, self._due)
            return
        self._is_woken = True
        self.advance()

    def _await_more(self, conversation: Conversation) -> None:
        """Wait until more bytes arrive, or `wake` is called: resume reading, and set the time limits of this wait. End, if the
        server is stopping."""
        if self._is_stopping:
            self._end(conversation.last_bytes())
            return
        self._needs_bytes = not conversation.is_answering
        if self._is_reading_paused and self._needs_bytes:
            self._is_reading_paused = False
            self._transport.resume_reading()
        if self._needs_bytes and conversation.buffered_bytes and conversation.is_admitted:
            # A request has begun, so a time limit holds for the rest of its bytes, however they are spread.
            if "message" not in self._timers:
                self._set_timer("message", self._limits.message_s, self._see_whether_it_sends)
        elif "message" in self._timers:
            self._cancel_timer("message")

    # -----------------------------------------------------------------------------------------------------------
    # The end

    def stop(self) -> None:
        """End after all received requests are answered and all ready bytes are sent. Nothing more is read."""
        if self._is_stopping or self._is_ending:
            return
        self._is_stopping = self._is_woken = True
        if self._conversation is None:
            self.abort()
            return
        self._pause_reading()
        self.advance()

    def abort(self) -> None:
        """End at once."""
        if self._opening is not None:
            self._opening.cancel()
        self._is_unwanted = True
        if hasattr(self, "_transport"):
            self._transport.abort()

    def _end(self, data: bytes) -> None:
        if self._is_ending:
            return
        self._is_ending = True
        if data:
            self._transport.write(data)
        self._set_timer("end", CLOSING_S, self.abort)
        if self._is_stopping or not self._transport.can_write_eof():
            self._transport.close()
            return
        # The client reads the answer and then closes; or it does not, and its time is over.
        self._transport.write_eof()
        if self._is_reading_paused:
            self._transport.resume_reading()

    def _break_off(self) -> None:
        logger.exception("a connection broke off")
        self._is_ending = True
        self._transport.abort()

    # -----------------------------------------------------------------------------------------------------------

    def _see_whether_it_sends(self) -> None:
        # Some received bytes may not be parsed yet, because a feed was computed or the client did not read. They may complete the
        # request, so the time starts again if they do not.
        if self._needs_bytes:
            self._transport.abort()

    def _see_whether_it_reads(self) -> None:
        left = self._transport.get_write_buffer_size()
        if left >= self._unread_bytes:
            # A graceful close would wait for the client as well.
            self._transport.abort()
            return
        self._unread_bytes = left
        self._set_timer("write", self._limits.write_s, self._see_whether_it_reads)

    def _pause_reading(self) -> None:
        if not self._is_reading_paused and not self._transport.is_closing():
            self._is_reading_paused = True
            self._transport.pause_reading()

    def _set_timer(self, name: str, seconds: float, then: Callable[[], None]) -> None:
        timer = self._timers.get(name)
        if timer is not None:
            timer.cancel()
        self._timers[name] = self._loop.call_later(seconds, self._run_timer, name, then)

    def _run_timer(self, name: str, then: Callable[[], None]) -> None:
        del self._timers[name]
        then()

    def _cancel_timer(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def _on_loop(self, function: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):
            # The loop may be gone already.
            self._loop.call_soon_threadsafe(function, *arguments)
