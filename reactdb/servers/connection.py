"""Connection: one client over TCP, whatever protocol it speaks; and Conversation, which is all that a protocol has to bring.

A protocol is a subclass of Conversation: bytes in, requests out of them, bytes out. It has no socket, no thread, no clock and no
limit but the size of a message. The connection asks it like this, one request after the other:

    receive(data)          bytes have come
    next_request()         the next whole request, None if it needs more bytes; or LastAnswer, if they can be none
    is_quick(request)      whether to carry it out on the loop, while all clients wait, or in a thread
    answer(request)        carry it out; the bytes to send, perhaps none
    poll()                 what has become ready without a request: asked after `wake` was called, or after `wait_s` seconds
    close()                the client is gone; before that `cancel`, by which a request that still runs ends soon

What the connection sees to, for every protocol alike:

    back-pressure   Nothing is carried out for a client that has more than HIGH_WATER_BYTES to read, and nothing is read of a
                    client that has sent `message_bytes` ahead. So a client that does not read is bounded, and its feeds drop.
    slow clients    Each of these has a time limit: to be let in, to send a request, to read what was sent.
    strangers       A client that is not let in is a stranger, of whom there are only so many; see `places`.
    threads         Requests of one client are carried out one after the other; a long one blocks neither the loop nor others.
    the end         A client that goes away cancels its request. `stop` carries out and answers what has been received. LastAnswer
                    arrives also if the client is still sending (not over TLS: asyncio cannot close one direction of it).

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
"""How long a connection that is over waits for its client to read the last answer."""
REQUESTS_IN_A_ROW: Final = 16
"""Quick requests of one client before others have their turn. Each takes up to a millisecond."""


class LastAnswer(Exception):
    """The connection ends after these bytes: the client broke the protocol, or it said goodbye."""

    def __init__(self, data: bytes, reason: str = "") -> None:
        super().__init__(reason)
        self.data = data


class Conversation:
    """One client's side of a protocol. Subclasses write `receive`, `next_request` and `answer`, and what they need of the rest.

    Attributes:
        is_admitted: Whether the client is let in. Until then `handshake_s` runs, and afterwards `message_s` for each request.
        may_stay_outside: Whether each answer gives a client that is not let in the time of the handshake again: the connection by
            which a MongoDB driver watches the server asks every ten seconds, and never proves who it is.
        buffered_bytes: Bytes that have come and are in no request yet.
        is_answering: Whether the last answer goes on, by `poll`, so that the next request has to wait.
        polls_heavily: Whether `poll` may compute something, and so needs a thread.
        here: The address and port that the client has connected to. The connection sets it.
        wait_s: Seconds until `poll` may have something without any `wake`; None if there is no such moment. Asked anew after
            each use.

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
        """Keep bytes that have come. Perhaps a request is still being carried out, in a thread."""
        raise NotImplementedError

    def next_request(self) -> Any:
        """The next whole request, in a form of the protocol's own; None if its end has not come. The one before is answered."""
        raise NotImplementedError

    def is_quick(self, request: Any) -> bool:
        """Whether the request takes less than a millisecond and waits for nothing, as far as can be told at once."""
        return False

    def answer(self, request: Any) -> bytes:
        """Carry out the request. Also called in a thread."""
        raise NotImplementedError

    def poll(self) -> bytes:
        """What has become ready; b"" if nothing has. If there is more than fits into one piece, call `wake` and give a part:
        the rest is asked for when the client has read it."""
        return b""

    def farewell(self) -> bytes:
        """What to send at last, because the server stops: what ends an answer that was under way."""
        return b""

    def cancel(self) -> None:
        """End the request that is being carried out, soon: nobody waits for its answer. Any thread may call it."""

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
        """`converse` makes the conversation, from `wake` and the client's address; `places`: it has one already."""
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
        # What a thread does for this client.
        self._job: Future[Any] | None = None
        # Whether `poll` may have something; any thread may set it.
        self._is_woken = False
        self._was_polled = False
        self._is_writing_paused = False
        self._is_reading_paused = False
        # Whether all that has come is carried out, but for the beginning of a request.
        self._needs_bytes = True
        self._is_stopping = False
        self._is_ending = False
        self._is_lost = False
        self._is_stranger = True
        # Whether it had to leave before asyncio has told it its transport.
        self._is_unwanted = False
        self._unread_bytes = 0
        # By name: handshake, message, write, wait, end.
        self._timers: dict[str, asyncio.TimerHandle] = {}
        # The moment at which `poll` may have something without any `wake`; the timer "wait" rings then, or earlier.
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
            # The connection was aborted meanwhile, of which asyncio tells nobody in the middle of a handshake.
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
            # What comes after the last answer is read away, because a reset would take the answer from the client.
            return
        if self._is_stranger:
            self._places.touch(self)
        if conversation is None:
            # The client has sent this right behind its TLS handshake, whose end `_open_tls` is about to hear of.
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
        # Not here: asyncio, in the middle of writing, would notice a connection that is closed in this call twice.
        self._loop.call_soon(self.advance)

    def eof_received(self) -> None:
        """The client sends nothing more, so it counts as gone. asyncio closes, once what has been written is sent; a client that
        does not read it does not hold the connection."""
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
        # A query that still runs in a thread ends when it next checks its budget.
        self._conversation.cancel()
        if self._job is None:
            self._close_conversation()
        else:
            # `_done` closes the conversation; it is called also for a job that never began.
            self._job.cancel()

    def _close_conversation(self) -> None:
        assert self._conversation is not None
        self._job = self._workers.submit(self._conversation.close)
        self._job.add_done_callback(lambda job: self._on_loop(self._closed, job))

    def _closed(self, job: Future[Any]) -> None:
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
        """Carry out what is due, until something has to be waited for: a thread, the client's reading, its next bytes."""
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
        """On the loop, when woken by another client's request: send what is ready. It is put off while the conversation is in use
        or the client does not read."""
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
        """Poll, or carry out one request. Whether more can be done at once. Polls and requests take turns."""
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
            # A server that stops has polled once more by now; it waits for no answer that goes on.
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
            self._used(conversation, conversation.answer(request))
        finally:
            self._workers.end_on_loop()
        return True

    def _poll(self, conversation: Conversation) -> None:
        # The note goes before the look: what comes in between leaves another one.
        self._is_woken = False
        self._used(conversation, conversation.poll())

    def _in_thread(self, function: Callable[..., bytes], *arguments: Any) -> None:
        self._job = self._workers.submit(function, *arguments)
        self._job.add_done_callback(lambda job: self._on_loop(self._done, job))

    def _done(self, job: Future[bytes]) -> None:
        """On the loop, when a thread has carried out a request."""
        self._job = None
        conversation = self._conversation
        assert conversation is not None
        if self._is_lost:
            self._close_conversation()
            return
        if self._is_ending:
            # The client has gone, but not all that was written before has been sent.
            return
        try:
            self._used(conversation, job.result())
        except LastAnswer as last:
            self._end(last.data)
        except Exception:
            self._break_off()
        self.advance()

    def _used(self, conversation: Conversation, data: bytes) -> None:
        """Every use of the conversation ends here: its bytes are sent, and the next moment is noted at which it has something to
        send without a request. Any use may change that moment, so it is asked for anew each time."""
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
        # One that rings too early is left: most waits end before their time, and to set a timer for each would cost more than to
        # hear one in vain now and then.
        if timer is None or timer.when() > due_at:
            self._set_timer("wait", wait_s, self._due)

    def _see_who_it_is(self, conversation: Conversation, *, has_answered: bool) -> None:
        """Take note where the client was let in, or has given that up."""
        if conversation.is_admitted:
            self._is_stranger = False
            self._places.admit(self)
            self._cancel_timer("handshake")
            return
        if not self._is_stranger:
            self._is_stranger = True
            self._places.estrange(self)
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
        """Nothing can be done until more bytes come, or somebody calls `wake`."""
        if self._is_stopping:
            self._end(conversation.farewell())
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
        """End when what has been received is answered and what is ready is sent. Nothing more is read."""
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
        # Bytes that have come and were not looked at, because a feed was computed or the client did not read, may be the rest of
        # the request. When they have been looked at, the time begins anew if they are not.
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
