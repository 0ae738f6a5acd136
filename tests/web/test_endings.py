"""Streams end with their clients, with the server and with the database, in this order; slow clients cost the others nothing."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from itertools import pairwise
from typing import Any

import pytest
import uvicorn.server
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.gzip import GZipMiddleware

import reactdb
import reactdb.web
from reactdb.feeds.feed import flow_of
from reactdb.servers import open_streams
from reactdb.web.sources import QUEUE_SIZE, feeds_of
from tests.support.feeds import hub, is_clean
from tests.web.server import SOON_S, Program, follow, serving

MEBIBYTE = "x" * (1 << 20)


def test_a_client_that_goes_closes_its_feed(program, db, games):
    program.serve(games)
    with follow(program) as client:
        client.ready()
        assert not hub(db).is_clean
    assert is_clean(db)


@pytest.mark.parametrize("clients", [50])
def test_a_server_in_a_thread_stops_within_two_seconds_and_feeds_close_before_the_database(
    db, games, clients
):
    found: list[bool] = []

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        found.append(hub(db).is_clean)
        db.close()

    with serving(Program(lifespan=lifespan)) as program, ExitStack() as stack:
        program.serve(games)
        all_clients = [stack.enter_context(follow(program)).ready() for _ in range(clients)]
        began = time.monotonic()
        program.stop()
        assert time.monotonic() - began < SOON_S
        assert [None] * clients == [client.next() for client in all_clients]
    assert [True] == found
    assert not open_streams._loops


def test_a_stream_that_begins_while_the_server_stops_ends_at_once(db, games):
    async def scenario() -> str | None:
        from reactdb.web.streams import ClientStream

        loop = asyncio.get_running_loop()
        stream = ClientStream(feeds_of(games), None, heartbeat_s=15, send_timeout_s=30)
        first = ClientStream(feeds_of(games), None, heartbeat_s=15, send_timeout_s=30)
        first.begin()
        streams = open_streams._loops[loop]
        streams.stopping += 1
        try:
            stream.begin()
            return stream.over
        finally:
            streams.stopping -= 1
            stream.close()
            first.close()

    assert "the server stops" == asyncio.run(scenario())
    assert not open_streams._loops


def test_stop_ends_all_streams_and_the_server_goes_on(program, db, games):
    program.serve(games)
    with follow(program) as client, follow(program) as other:
        client.ready()
        other.ready()
        reactdb.web.stop()
        assert (None, None) == (client.next(), other.next())
    with follow(program) as client:
        client.ready()
    assert is_clean(db)


def test_uvicorn_is_listened_to_once(db):
    before = uvicorn.server.Server.shutdown
    open_streams.listen_to_uvicorn()
    once = uvicorn.server.Server.shutdown
    open_streams.listen_to_uvicorn()
    assert once is uvicorn.server.Server.shutdown
    assert before is once or once.__wrapped__ is before


@contextmanager
def deaf_client(program: Program) -> Iterator[socket.socket]:
    """It asks for the stream and reads nothing."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
        sock.connect(("127.0.0.1", program.port))
        sock.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        yield sock


def test_a_client_that_never_reads_is_cut_off_and_the_server_still_stops(db, games):
    with serving(Program()) as program:
        program.serve(games, send_timeout_s=0.2)
        with deaf_client(program), follow(program) as client:
            client.ready()
            # More than the buffers of both sides hold.
            for number in range(12):
                games.insert({"id": number, "text": MEBIBYTE})
            assert list(range(12)) == [client.next().data[0]["new_val"]["id"] for _ in range(12)]
            client.response.close()
            assert is_clean(db)
            began = time.monotonic()
            program.stop()
            assert time.monotonic() - began < SOON_S


def test_a_late_client_is_read_from_the_log_and_misses_nothing(program, db, games):
    program.serve(games)
    with follow(program) as client:
        client.ready()
        # The server's thread sends nothing while this transaction is delivered: then there are more changes than are queued.
        for first in range(0, 3 * QUEUE_SIZE, 500):
            with db.transaction():
                games.insert([{"id": number} for number in range(first, first + 500)])
        ids = [event["new_val"]["id"] for _ in range(6) for event in client.next().data]
        assert list(range(3 * QUEUE_SIZE)) == ids


def test_a_client_has_a_short_queue_unless_the_feed_says_otherwise(games):
    def size_of(feed: Any) -> int:
        return flow_of(feeds_of(feed)[None]).request.options.queue_size

    assert QUEUE_SIZE == size_of(games)
    assert QUEUE_SIZE == size_of(games.changes())
    assert 10 == size_of(games.changes(changefeed_queue_size=10))
    assert 100_000 == size_of(games.changes(on_overflow="drop"))


def test_a_feed_that_overflows_begins_anew(program, db, games):
    program.serve(games.changes(on_overflow="error", changefeed_queue_size=2, include_initial=True))
    with follow(program) as client:
        client.ready()
        with db.transaction():
            games.insert([{"id": number} for number in range(50)])
        # Either the stream was quicker than the commit, or it is reset; never is something missing.
        seen = {client.next().data["new_val"]["id"]}
        while len(seen) < 50:
            block = client.next()
            if block.event == "reset":
                seen.clear()
            elif block.event is None:
                seen.add(block.data["new_val"]["id"])


def test_middleware_that_wraps_responses_leaves_the_stream_alone(db, games):
    async def pass_on(request: Any, call_next: Any) -> Any:
        return await call_next(request)

    middleware = [Middleware(GZipMiddleware), Middleware(BaseHTTPMiddleware, dispatch=pass_on)]
    with serving(Program(middleware=middleware)) as program:
        program.serve(games)
        with follow(program) as client:
            client.ready()
            games.insert({"id": 1})
            assert [{"old_val": None, "new_val": {"id": 1}}] == client.next().data
        assert is_clean(db)


def test_a_quiet_stream_has_one_task_to_notice_its_client_and_none_to_wait(db, games):
    tasks: list[int] = []

    class Counting(Program):
        async def _live(self, request: Any) -> Any:
            tasks.append(len(asyncio.all_tasks()))
            return await super()._live(request)

    with serving(Counting()) as program, ExitStack() as stack:
        program.serve(games)
        clients = [stack.enter_context(follow(program)).ready() for _ in range(5)]
        assert 5 == len(clients)
    # Uvicorn has one for each request, too.
    assert [2, 2, 2, 2] == [after - before for before, after in pairwise(tasks)]
