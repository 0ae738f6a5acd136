"""RethinkDBServer: TCP connections in front of the dialect's sessions.

    connection   handshake, then frames in both directions: 8 bytes of token, 4 bytes of length, JSON
    requests     Requests of one connection run one after the other, in threads, so that a long query blocks neither the loop
                 nor other connections. A request that touches one document runs at once, on the loop, because the way to a
                 thread and back takes longer than the request. A write does so only where its commit does not wait for the
                 disk, and while no thread is running, which might be writing.
    feeds        A commit wakes the session, which is polled where requests run. After a commit on the loop, the other
                 connections are served before the loop's next turn: right after the answer to the writer.

A client that does not read is bounded twice. Its events wait in the queues of its feeds, which drop. And once its socket holds
more than HIGH_WATER_BYTES, nothing runs for it until it has read, or until the time limit for reading is over. Bytes that are no
frame get an error and a closed connection. A client that is too slow is disconnected, and a query that takes too long is stopped:
see `limits`. The query of a client that has disconnected is stopped, too.

Thread safety: methods are called on the loop; other threads use `serve_in_thread`.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from reactdb.budget import Crowd
from reactdb.database import Database
from reactdb.dialects.rethinkdb.errors import ClientError
from reactdb.dialects.rethinkdb.jobs import jobs_of
from reactdb.dialects.rethinkdb.session import HEADER, Frame, Session, failure
from reactdb.logs import logger
from reactdb.servers.rethinkdb.handshake import (
    UNSUPPORTED,
    Credentials,
    Handshake,
    HandshakeFailed,
    message_bytes,
)
from reactdb.servers.rethinkdb.limits import Limits

T = TypeVar("T")


DEFAULT_PORT: Final = 28015
HIGH_WATER_BYTES: Final = 1024 * 1024
LOW_WATER_BYTES: Final = HIGH_WATER_BYTES // 4
CLOSING_S: Final = 5.0
"""How long a connection that is over waits for its client to read the last answer."""
# The beginning of a request that concerns one document by its key, or continues a stream.
READ, WRITE = rb"1,\[16,", rb"1,\[(?:56|(?:53|54|55),\[\[16),"
QUICK: Final = re.compile(rb"\[(?:(" + WRITE + rb")|(" + READ + rb")|[2-5]\])")
# Any term but those whose cost grows with their own length only: variables, functions, names of tables, values, fields,
# comparisons, arithmetic, `branch`, `default`, `merge`, and the writes and `get` themselves.
SLOW: Final = re.compile(
    rb"\[\s*(?!(?:1|2|3|10|13|14|15|16|17|18|19|20|21|22|23|24|25|26|27|28|29|31|32|33|34|35|53|54|55|56|65|66|67|69|92|94|99|103|"
    rb"137|155|169|170)\s*,)\d+\s*,\s*[\[{]"
)
# A write that names a second table may read all of it.
TABLE: Final = re.compile(rb"\[\s*15\s*,")
MAX_QUICK_BYTES: Final = 8 * 1024


class Connection:
    """One client."""

    def __init__(
        self, server: RethinkDBServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._server = server
        self._limits = server.limits
        self._reader = reader
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._is_wake_sent = False
        self._timer: asyncio.TimerHandle | None = None
        # Whether no thread is using the session, so that code on the loop may.
        self._is_idle = False
        self._requests: asyncio.Queue[tuple[int, bytes] | None] = asyncio.Queue(maxsize=1_024)
        self._waiting_bytes = 0
        self._has_room = asyncio.Event()
        # What a thread is doing for this connection.
        self._job: Future[Any] | None = None
        peer = writer.get_extra_info("peername")
        self.session = Session(
            server.database,
            self._wake,
            max_streams=server.limits.streams,
            client=tuple(peer[:2]) if peer else ("", 0),
            user=server.credentials.user,
            query_timeout_s=server.limits.query_s or None,
            crowd=server.crowd,
        )

    def _wake(self) -> None:
        """Called by any thread, perhaps inside a commit: it only sets a flag."""
        if not self._is_wake_sent:
            self._is_wake_sent = True
            if self._server.inline_thread == threading.get_ident():
                self._server.woken.append(self)
                return
            with contextlib.suppress(RuntimeError):
                # The loop may be gone already.
                self._loop.call_soon_threadsafe(self._woken.set)

    def tell(self) -> None:
        """On the loop, when woken: send what is ready. It is put off while the session is in use or the client does not read."""
        transport = self._writer.transport
        is_busy = not self._is_idle or self.session.polls_heavily
        if is_busy or transport.is_closing() or transport.get_write_buffer_size():
            self._woken.set()
            return
        self._is_wake_sent = False
        self._told(self.session.poll())

    async def run(self) -> None:
        """Serve the client until it disconnects or breaks the protocol."""
        rest = await asyncio.wait_for(self._shake_hands(), self._limits.handshake_s)
        reading = asyncio.create_task(self._read(rest))
        working = asyncio.create_task(self._work())
        try:
            done, _ = await asyncio.wait((reading, working), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            if self._timer is not None:
                self._timer.cancel()
            for task in (reading, working):
                task.cancel()
            # A query that still runs in a thread for this client ends when it next checks its budget.
            self.session.cancel()
            await asyncio.gather(reading, working, return_exceptions=True)
            if self._job is not None and not self._job.cancel():
                await asyncio.wait([asyncio.wrap_future(self._job)])
            await self._in_pool(self.session.close)

    async def _shake_hands(self) -> bytes:
        handshake = Handshake(self._server.credentials)
        while not handshake.is_done:
            data = await self._reader.read(4_096)
            if not data:
                raise ConnectionResetError
            try:
                self._writer.write(handshake.receive(data))
            except HandshakeFailed as error:
                self._writer.write(error.answer)
                await self._writer.drain()
                raise ConnectionAbortedError(str(error)) from None
            await self._writer.drain()
        return handshake.rest

    # -----------------------------------------------------------------------------------------------------------
    # Frames in

    async def _read(self, rest: bytes) -> None:
        buffer = bytearray(rest)
        most = self._limits.message_bytes
        due_at: float | None = None
        while True:
            while len(buffer) >= HEADER.size:
                token, length = HEADER.unpack_from(buffer)
                if not 0 <= length <= most:
                    sentence = f"The query is too large ({length} bytes); the limit is {most} bytes."
                    self._write([failure(token, ClientError(sentence))])
                    await self._drain()
                    raise ConnectionAbortedError("oversized frame")
                end = HEADER.size + length
                if len(buffer) < end:
                    break
                body = bytes(buffer[HEADER.size : end])
                del buffer[:end]
                due_at = None
                if self._is_idle and self._requests.empty() and self._is_quick(token, body):
                    await self._carry_out(token, body)
                else:
                    await self._enqueue(token, body)
            if not buffer:
                data = await self._reader.read(64 * 1024)
            else:
                # A request has begun, so a time limit holds for the rest of its bytes, however they are spread.
                if due_at is None:
                    due_at = self._loop.time() + self._limits.message_s
                async with asyncio.timeout_at(due_at):
                    data = await self._reader.read(64 * 1024)
            if not data:
                return
            buffer += data

    async def _enqueue(self, token: int, body: bytes) -> None:
        """Queue a request for `_work`; while too many bytes are queued, nothing more is read from the socket."""
        while self._waiting_bytes and self._waiting_bytes + len(body) > self._limits.message_bytes:
            self._has_room.clear()
            await self._has_room.wait()
        self._waiting_bytes += len(body)
        await self._requests.put((token, body))
        self._woken.set()

    # -----------------------------------------------------------------------------------------------------------
    # Carrying out

    async def _work(self) -> None:
        session = self.session
        while True:
            self._is_idle = True
            await self._woken.wait()
            self._is_idle = False
            self._woken.clear()
            self._is_wake_sent = False
            await self._answer(await self._polled())
            while not self._requests.empty():
                request = self._requests.get_nowait()
                assert request is not None
                self._waiting_bytes -= len(request[1])
                self._has_room.set()
                if self._is_quick(*request):
                    await self._carry_out(*request)
                else:
                    await self._answer(await self._in_pool(session.receive, *request))
                if self._is_wake_sent:
                    self._is_wake_sent = False
                    await self._answer(await self._polled())

    def _is_quick(self, token: int, body: bytes) -> bool:
        """Whether to run the request on the loop, while all connections wait. Called while no thread uses the session."""
        kind = QUICK.match(body) if len(body) <= MAX_QUICK_BYTES else None
        if kind is None or SLOW.search(body) is not None:
            return False
        server = self._server
        if server.jobs and (kind[1] is not None or (server.is_memory and kind[2] is not None)):
            # A thread that writes may compute for long and hold the write lock. In memory, readers wait for it, too.
            return False
        if kind[1] is not None:
            return server.is_inline and len(TABLE.findall(body)) == 1
        return body != b"[2]" or not self.session.is_heavy(token)

    async def _polled(self) -> list[Frame]:
        """Poll the session. Mostly its frames are queued already, and this is quick."""
        if self.session.polls_heavily:
            return await self._in_pool(self.session.poll)
        return self.session.poll()

    async def _carry_out(self, token: int, body: bytes) -> None:
        """Run a quick request on the loop, and then serve the connections that its commit has woken."""
        server = self._server
        server.inline_thread = threading.get_ident()
        try:
            self._told(self.session.receive(token, body))
        finally:
            server.inline_thread = None
            woken, server.woken = server.woken, []
            for connection in woken:
                connection.tell()
        await self._drain()

    async def _in_pool(self, function: Callable[..., T], *arguments: Any) -> T:
        server = self._server
        self._job = job = server.pool.submit(function, *arguments)
        server.jobs.add(job)
        job.add_done_callback(server.jobs.discard)
        return await asyncio.wrap_future(job)

    async def _answer(self, frames: list[Frame]) -> None:
        self._told(frames)
        if frames:
            await self._drain()

    def _told(self, frames: list[Frame]) -> None:
        """Every use of the session ends here: its frames are written, and the timer is set to the next moment at which the
        session has something to send without a request. Any request may change that moment, so it is computed anew each time."""
        if frames:
            self._write(frames)
        if self._timer is not None:
            self._timer.cancel()
        wait_s = self.session.wait_s
        self._timer = None if wait_s is None else self._loop.call_later(wait_s, self._woken.set)

    def _write(self, frames: list[Frame]) -> None:
        self._writer.write(b"".join([frame.packed() for frame in frames]))

    async def _drain(self) -> None:
        """Wait while the client does not read; its feeds drop events meanwhile."""
        if self._writer.transport.get_write_buffer_size() <= LOW_WATER_BYTES:
            await self._writer.drain()
            return
        try:
            async with asyncio.timeout(self._limits.write_s):
                await self._writer.drain()
        except TimeoutError:
            # A graceful close would wait for the client as well.
            self._writer.transport.abort()
            raise


class RethinkDBServer:
    """A server for one database. `async with RethinkDBServer(db) as server: ...`, or `start` and `close`."""

    def __init__(
        self,
        database: Database,
        *,
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        credentials: Credentials | None = None,
        limits: Limits | None = None,
    ) -> None:
        """`port` 0 takes any free port; `credentials` is `admin` without a password by default."""
        self.database = database
        self.limits = limits or Limits()
        self.credentials = credentials or Credentials()
        self.host = host
        self.port = port
        self.pool = ThreadPoolExecutor(self.limits.queries, thread_name_prefix="reactdb-rethinkdb")
        self.crowd = Crowd()
        # Requests that run in threads, or wait for one.
        self.jobs: set[Future[Any]] = set()
        self.is_memory = database.path == ":memory:"
        self.is_inline = self.is_memory or database.session.durability == "soft"
        # The thread of the loop while a request runs there, and the connections that this request has woken.
        self.inline_thread: int | None = None
        self.woken: list[Connection] = []
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen. Afterwards `host` and `port` say where."""
        self._server = await asyncio.start_server(self._serve, self.host, self.port, limit=1024 * 1024)
        self.host, self.port = self._server.sockets[0].getsockname()[:2]
        jobs_of(self.database).port = self.port

    async def close(self) -> None:
        """Stop listening and end every connection."""
        if self._server is not None:
            self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()
        self.pool.shutdown(wait=True)

    async def __aenter__(self) -> RethinkDBServer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._connections) >= self.limits.connections:
            sentence = (
                f"There are {self.limits.connections} connections already, which is as many as there can be."
            )
            writer.write(message_bytes({"success": False, "error": sentence, "error_code": UNSUPPORTED}))
            writer.close()
            return
        self._connections.add(task)
        writer.transport.set_write_buffer_limits(high=HIGH_WATER_BYTES, low=LOW_WATER_BYTES)
        try:
            await Connection(self, reader, writer).run()
        except (ConnectionError, TimeoutError, asyncio.IncompleteReadError):
            # The client disconnected, or was disconnected after an error message.
            pass
        except asyncio.CancelledError:
            # The server closes.
            pass
        except Exception:
            logger.exception("a RethinkDB connection broke off")
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, TimeoutError, asyncio.CancelledError):
                async with asyncio.timeout(CLOSING_S):
                    await writer.wait_closed()
            writer.transport.abort()
            # This comes last, because `close` waits for the listed tasks.
            self._connections.discard(task)


@contextmanager
def serve_in_thread(
    database: Database,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    credentials: Credentials | None = None,
    limits: Limits | None = None,
) -> Iterator[RethinkDBServer]:
    """Run a server on its own event loop in its own thread until the block ends."""
    server = RethinkDBServer(database, host=host, port=port, credentials=credentials, limits=limits)
    loop = asyncio.new_event_loop()
    is_up = threading.Event()
    trouble: list[BaseException] = []
    stop = asyncio.Event()

    async def main() -> None:
        try:
            await server.start()
        except BaseException as error:
            trouble.append(error)
            return
        finally:
            is_up.set()
        await stop.wait()
        await server.close()

    def run() -> None:
        try:
            loop.run_until_complete(main())
        finally:
            loop.close()

    thread = threading.Thread(target=run, name="reactdb-rethinkdb-server", daemon=True)
    thread.start()
    is_up.wait()
    if trouble:
        thread.join()
        raise trouble[0]
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
