"""HTTPApplication: the ASGI applications for the clients of a dialect: `couchdb(db)`, `aidbox(db)`.

    app.mount("/db", reactdb.servers.http.couchdb(db))        inside of a Starlette or FastAPI program
    uvicorn.run(reactdb.servers.http.couchdb(db))             by itself

A request is read and sent on the event loop, and executed in one of a bounded number of threads. A waiting feed uses only the
loop. An error in one request harms no other: it becomes a status, and an unforeseen exception becomes 500. A thread works within
the request's budget, which is cancelled when the client disconnects or the server stops.

Rule of this file: ASGI, limits and order of the checks. The meaning of a path is in `servers.couchdb.routes` or
`servers.aidbox.routes`, the meaning of a request in the dialect.
"""

from __future__ import annotations

import asyncio
import logging
import re
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import IO, Any, Final, TypeVar

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from reactdb.budget import MOST_WRITING_S, Budget, MemoryFull, Stopped, WritesTooLong, current
from reactdb.dialects.couchdb.attachments import limit_unpacked
from reactdb.dialects.couchdb.headers import header_text
from reactdb.servers.http.client import RequestClient
from reactdb.servers.http.encodings import is_compressed, most_compressed_bytes, too_large, unpack
from reactdb.servers.http.limits import HTTPLimits
from reactdb.servers.http.long_poll import LongPoll
from reactdb.servers.http.origins import Origins
from reactdb.servers.http.protocol import ADMIT, Bodies, Deferred, Opened, Route, Speaker, Stream
from reactdb.servers.http.request_parts import Asking, RequestRefused, parameters_of, parts_of
from reactdb.servers.http.responses import Answer
from reactdb.servers.http.served_stream import ServedStream
from reactdb.servers.users import Credentials
from reactdb.servers.workers import Workers

__all__ = ["HTTPApplication", "application_options", "mount", "mountable"]

T = TypeVar("T")

IN_MEMORY_BYTES: Final = 1024 * 1024
"""The part of an attachment, or of a compressed body, in memory; the rest goes to a temporary file."""

GUESSES: Final = 2
"""Passwords that are checked at a time, at 30 ms each. A known right password takes none of these."""

MOST_DIGITS: Final = 18
"""The digits of a header with a number."""

MOST_STRANGER_BYTES: Final = 8 * 1024
"""The bytes of a stranger's request body. In the other protocols a message of the handshake has as much."""

logger = logging.getLogger(__name__)


def application_options(
    credentials: Credentials | None,
    origins: Iterable[str] | None,
    hosts: Iterable[str] | None,
    read_only: bool,
    limits: HTTPLimits | None,
) -> dict[str, Any]:
    return {
        "credentials": credentials,
        "origins": origins,
        "hosts": hosts,
        "read_only": read_only,
        "limits": limits,
    }


def mountable(application: HTTPApplication) -> Starlette:
    """The application in a form that others can mount; it is closed when they end."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            application.close()

    return Starlette(routes=[mount("/", application)], lifespan=lifespan)


def mount(path: str, app: ASGIApp) -> Mount:
    """The application below a path, with all ids in it: Starlette's pattern ends at a line's end, but an id may contain one."""
    made = Mount(path, app=app)
    made.path_regex = re.compile(made.path_regex.pattern, re.DOTALL)
    return made


class HTTPApplication:
    """See the head of this file, and `couchdb`.

    Attributes:
        feed_count: Open feeds, and waiting long polls.

    Thread safety: all of it is called on one event loop.
    """

    def __init__(
        self,
        speaker: Speaker,
        *,
        origins: Iterable[str] | None = None,
        hosts: Iterable[str] | None = None,
        read_only: bool = False,
        limits: HTTPLimits | None = None,
        workers: Workers | None = None,
    ) -> None:
        """`workers`: the threads of other servers on the loop, or its own by default; the others: see `couchdb`."""
        self.limits = limits or HTTPLimits()
        self._speaker = speaker
        if origins is None:
            # A browser sends the user's credentials by itself: a cookie, or a password from an earlier prompt.
            origins = ("*",) if speaker.authenticator.is_open else ()
        self._origins = Origins(origins, ("*",) if hosts is None else hosts)
        self._read_only = read_only
        self._workers = workers or Workers(self.limits.requests)
        self._owns_workers = workers is None
        # Strangers may send any number of passwords; threads are left for the others.
        self._guesses = asyncio.Semaphore(GUESSES)
        # Ends each open feed early.
        self._open: set[Stream | LongPoll] = set()
        self._is_ending = False
        # Ends each request of a thread early.
        self._budgets: set[Budget] = set()
        self._is_stopped = False

    @property
    def feed_count(self) -> int:
        return len(self._open)

    def end_feeds(self) -> None:
        """End every open feed as if its time were over, before a server stops. A later request on the same connection also gets
        its answer at once."""
        self._is_ending = True
        for one in list(self._open):
            one.end()

    def cancel_requests(self) -> None:
        """End every request in a thread, and all later requests: a server that stops has waited long enough. The clients receive
        503."""
        self._is_stopped = True
        for budget in list(self._budgets):
            budget.cancel()

    def close(self) -> None:
        self.end_feeds()
        self.cancel_requests()
        if self._owns_workers:
            self._workers.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            # Such as a WebSocket: it is refused in the server's own way.
            await Response(status_code=404)(scope, receive, send)
            return
        headers = Headers(scope=scope)
        cors = self._origins.headers(headers)
        allowed = self._origins.preflight(headers) if scope["method"] == "OPTIONS" else None
        if allowed is not None:
            await Response(status_code=204, headers=allowed)(scope, receive, send)
            return
        spools: list[IO[bytes]] = []
        client = RequestClient(receive, self._budget())
        self._budgets.add(client.budget)
        try:
            answer = await self._respond(Request(scope, receive), headers, client, spools)
            if isinstance(answer, Deferred):
                answer = await self._wait(answer, client, scope.get("client"))
            answer_headers = {**answer.headers, **cors}
            if not isinstance(answer, Answer):
                await self._stream(answer, answer_headers, client, scope.get("client"), send)
            else:
                await self._send(answer, answer_headers, scope["method"], client, send)
        except (ClientDisconnect, TimeoutError):
            # The client is gone. A server that sees no end of the answer closes the connection.
            logger.debug("a client has gone in the middle of a request")
        except RequestRefused as refused:
            # The status was sent already, so the client can only learn that this answer is incomplete.
            logger.info("an answer was cut off: %s", refused)
        finally:
            client.close()
            self._budgets.discard(client.budget)
            for spool in spools:
                spool.close()

    def _budget(self) -> Budget:
        limits = self.limits
        budget = Budget(limits.request_s, crowd=self._workers.crowd, most_bytes=limits.memory_bytes or None)
        if self._is_stopped:
            budget.cancel()
        return budget

    # -----------------------------------------------------------------------------------------------------------
    # One request

    async def _respond(
        self, request: Request, headers: Headers, client: RequestClient, spools: list[IO[bytes]]
    ) -> Answer | Opened | Deferred:
        try:
            self._origins.check(request.method, request.scope.get("scheme", "http"), headers)
            asking = self._parse_request(request, headers)
            route = self._speaker.route(request.method, asking.parts, headers)
            if route.writes and self._read_only:
                raise RequestRefused(403, "forbidden", "This server only reads.")
            is_open = self._speaker.authenticator.is_open
            if not route.is_public and not is_open:
                async with self._guesses if self._speaker.authenticator.is_guess(asking) else nullcontext():
                    await self._run(client, self._speaker.authenticator.must_be_known, asking)
            if is_open or not route.is_public:
                request.scope.get("state", {}).get(ADMIT, do_nothing)()
            await self._read_body(request, asking, route, spools)
            if route.bodies is not Bodies.NONE or not has_body(headers):
                # An unused body is not requested.
                client.watch()
            is_login = route.is_public and route.bodies is not Bodies.NONE and not is_open
            async with self._guesses if is_login else nullcontext():
                return await self._carry_out(route, asking, client)
        except (ClientDisconnect, asyncio.CancelledError):
            raise
        except Exception as error:
            return self._speaker.error_of(error)

    def _parse_request(self, request: Request, headers: Mapping[str, str]) -> Asking:
        scope = request.scope
        mounted_at = scope.get("root_path", "")
        raw_path = scope.get("raw_path") or scope["path"].encode()
        base = f"{scope.get('scheme', 'http')}://{headers.get('host', 'localhost')}{mounted_at}"
        return Asking(
            request.method,
            parts_of(raw_path, mounted_at),
            parameters_of(scope.get("query_string", b"")),
            headers,
            base,
        )

    async def _read_body(
        self, request: Request, asking: Asking, route: Route, spools: list[IO[bytes]]
    ) -> None:
        """
        Raises:
            RequestRefused: 413, it is too large; 408, it does not come; 415, its encoding is not known.
        """
        if route.bodies is Bodies.NONE:
            return
        packed = is_compressed(asking.headers)
        is_spooled = route.bodies is Bodies.SPOOLED
        most = self._most_bytes(route)
        most_here = most_compressed_bytes(most) if packed else most
        length = asking.headers.get("content-length", "")
        # Python reads no number of thousands of digits, and each of more than MOST_DIGITS is too large.
        if length.isdecimal() and (len(length) > MOST_DIGITS or int(length) > most_here):
            raise too_large(most)
        size, pieces = 0, []
        if is_spooled:
            asking.spool = _spool(spools)
            asking.most_json_bytes = self.limits.body_bytes
        if packed:
            asking.packed = _spool(spools)
        file = asking.packed or asking.spool
        try:
            async with asyncio.timeout(self.limits.body_s):
                async for piece in request.stream():
                    size += len(piece)
                    if size > most_here:
                        raise too_large(most)
                    if file is not None:
                        file.write(piece)
                    else:
                        pieces.append(piece)
        except TimeoutError:
            sentence = f"The request did not come within {self.limits.body_s:g} s."
            raise RequestRefused(408, "request_timeout", sentence) from None
        asking.body = b"".join(pieces)

    def _most_bytes(self, route: Route) -> int:
        """How large a body may be, when it is unpacked."""
        if route.is_public and not self._speaker.authenticator.is_open:
            # The server reads it before the user is authenticated: a name and a password.
            return min(MOST_STRANGER_BYTES, self.limits.body_bytes)
        return self.limits.attachment_bytes if route.bodies is Bodies.SPOOLED else self.limits.body_bytes

    async def _carry_out(
        self, route: Route, asking: Asking, client: RequestClient
    ) -> Answer | Opened | Deferred:
        answer = await self._run(client, self._unpack_and_call, route, asking)
        if not isinstance(answer, Answer) and len(self._open) >= self.limits.feeds:
            if not isinstance(answer, Deferred):
                await self._run(client, answer.close)
            sentence = f"There are {self.limits.feeds} open feeds already, which is the limit."
            raise RequestRefused(503, "service_unavailable", sentence)
        return answer  # type: ignore[no-any-return]

    def _unpack_and_call(self, route: Route, asking: Asking) -> Answer | Opened | Deferred:
        """In a thread."""
        unpack(asking, self._most_bytes(route))
        with limit_unpacked(self._most_bytes(route)):
            return self._speaker.call(route, asking)

    async def _run(self, client: RequestClient, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of the function, which runs in a thread, within the request's budget. Its time begins with each call.

        Raises:
            ClientDisconnect: The client has gone.
            RequestRefused: 500, it took too long, or too much memory; 503, the server stops.
        """
        try:
            return await asyncio.wrap_future(
                self._workers.submit(within, client.budget, function, *arguments)
            )
        except MemoryFull:
            sentence = f"The request was stopped, because it filled more than {self.limits.memory_bytes} bytes of memory."
            raise RequestRefused(500, "too_much_memory", sentence) from None
        except WritesTooLong:
            sentence = (
                f"Nothing was written: one transaction may keep other writers waiting for {MOST_WRITING_S:g} s."
                " Send it in several requests."
            )
            raise RequestRefused(500, "timeout", sentence) from None
        except Stopped:
            if client.is_gone:
                raise ClientDisconnect from None
            if client.budget.is_cancelled:
                raise RequestRefused(503, "service_unavailable", "The server is stopping.") from None
            sentence = "The request could not be processed in a reasonable amount of time."
            raise RequestRefused(500, "timeout", sentence) from None

    # -----------------------------------------------------------------------------------------------------------
    # Sending

    async def _send(
        self, answer: Answer, headers: dict[str, str], method: str, client: RequestClient, send: Send
    ) -> None:
        if isinstance(answer.body, bytes):
            if answer.status != 304 or "content-length" not in headers:
                headers["content-length"] = str(len(answer.body))
            await self._begin(send, answer.status, headers, answer.content_type)
            body = b"" if method == "HEAD" else answer.body
            await send({"type": "http.response.body", "body": body, "more_body": False})
            return
        await self._begin(send, answer.status, headers, answer.content_type)
        client.watch()
        pieces = iter(answer.body)
        try:
            while method != "HEAD":
                piece = await self._run(client, next, pieces, None)
                if piece is None:
                    break
                await self._push(send, piece)
                del piece
                await self._push(send, b"")
        finally:
            if isinstance(pieces, Iterator) and hasattr(pieces, "close"):
                await asyncio.wrap_future(self._workers.submit(pieces.close))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _begin(
        self, send: Send, status: int, headers: dict[str, str], content_type: str | None
    ) -> None:
        if content_type is not None:
            headers["content-type"] = content_type
        headers.setdefault("cache-control", "must-revalidate")
        raw = [
            (name.encode("latin-1"), header_text(value).encode("latin-1", "replace"))
            for name, value in headers.items()
        ]
        await send({"type": "http.response.start", "status": status, "headers": raw})

    async def _push(self, send: Send, piece: bytes) -> None:
        """
        Raises:
            TimeoutError: The client has not taken anything for too long.
        """
        async with asyncio.timeout(self.limits.write_s):
            await send({"type": "http.response.body", "body": piece, "more_body": True})

    async def _stream(
        self, opened: Opened, headers: dict[str, str], client: RequestClient, address: Any, send: Send
    ) -> None:
        """A feed's bytes, until it ends or the client has gone, whichever is first."""
        # A filter may let pass nothing of a long history. It is searched for as long as the client is there.
        client.budget.seconds = None
        client.watch()
        stream = opened.stream(partial(self._run, client))
        try:
            await self._until_gone(stream, self._feed(stream, headers, send), client, address)
        finally:
            opened.close()

    async def _wait(self, deferred: Deferred, client: RequestClient, address: Any) -> Answer:
        """The answer of a long poll.

        Raises:
            ClientDisconnect: The client is gone.
        """
        client.watch()
        poll = LongPoll(deferred, partial(self._run, client))
        try:
            return await self._until_gone(poll, poll.answer(), client, address)
        except ClientDisconnect:
            raise
        except Exception as error:
            return self._speaker.error_of(error)

    async def _until_gone(
        self, one: Stream | LongPoll, work: Coroutine[Any, Any, T], client: RequestClient, address: Any
    ) -> T:
        """The result of `work`.

        Raises:
            ClientDisconnect: The client has gone before.
        """
        self._open.add(one)
        if self._is_ending:
            one.end()
        try:
            with ServedStream(one, client, address):
                return await client.until_gone(work)
        finally:
            self._open.discard(one)

    async def _feed(self, stream: Stream, headers: dict[str, str], send: Send) -> None:
        await self._begin(send, 200, headers, stream.content_type)
        async for piece in stream.chunks():
            await self._push(send, piece)
            # The connection holds the piece now. A message without bytes waits until the client has taken all. Only then the next
            # rows are read, so nothing is made ahead for a client that does not read.
            del piece
            await self._push(send, b"")
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _spool(spools: list[IO[bytes]]) -> IO[bytes]:
    """A temporary file that is closed with the request."""
    made = tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES)  # noqa: SIM115
    spools.append(made)
    return made


def has_body(headers: Mapping[str, str]) -> bool:
    """Whether a body comes with the request."""
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def within(budget: Budget, function: Callable[..., T], *arguments: Any) -> T:
    """The result of the function, called within a budget. In a thread.

    Raises:
        Stopped: The budget is spent, or was cancelled.
    """
    outer = current.set(budget)
    budget.begin()
    try:
        # It may have been cancelled while it waited for the thread. From here on its memory is counted.
        budget.check()
        return function(*arguments)
    finally:
        budget.end()
        current.reset(outer)


def do_nothing() -> None:
    """The hook for another server than ours when a client is authenticated."""
