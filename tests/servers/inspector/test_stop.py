"""A mounted inspector in a program of uvicorn: its streams end when the program's server stops, so that it can."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

import reactdb
import reactdb.web
from reactdb.servers import open_streams
from reactdb.servers.http import couchdb, inspector
from tests.servers.inspector.service import OWN, PATIENCE_S
from tests.support.threads import wait_until
from tests.web.server import SOON_S, Program, follow, serving

MEBIBYTE = "x" * (1 << 20)


@pytest.fixture
def db() -> Iterator[Any]:
    with reactdb.connect(":memory:") as database:
        database.table_create("games")
        yield database


@contextmanager
def program_of(db: Any) -> Iterator[Program]:
    """The inspector and CouchDB's paths in a program that also has a stream of `reactdb.web`."""
    program = Program()
    app: Starlette = program.app
    app.mount("/inspector", inspector(db))
    app.mount("/couchdb", couchdb(db))
    program.serve(db.table("games"))
    with serving(program):
        wait_until(lambda: program.server is not None and program.server.started)
        yield program


@contextmanager
def stream_of(program: Program) -> Iterator[Iterator[str]]:
    """The lines of a stream that has begun."""
    address = f"{program.url}/inspector/api/stream"
    with httpx.stream("GET", address, headers=OWN, timeout=PATIENCE_S, verify=False) as answer:
        lines = (line for line in answer.iter_lines() if line)
        assert json.loads(next(lines))["tables"] == {"games": 0}
        yield lines


def has_unsent(program: Program) -> bool:
    """Whether a client of the server does not take what is sent to it."""
    assert program.server is not None
    connections: set[Any] = program.server.server_state.connections
    return any(connection.transport.get_write_buffer_size() for connection in list(connections))


def test_its_streams_end_with_those_of_the_program(db: Any) -> None:
    with (
        program_of(db) as program,
        stream_of(program) as first,
        stream_of(program) as second,
        follow(program) as client,
    ):
        client.ready()
        began = time.monotonic()
        program.stop()
        assert time.monotonic() - began < SOON_S
        assert list(first) == list(second) == []
        assert client.next() is None
    assert not open_streams._loops


def test_stop_ends_them_and_the_server_goes_on(db: Any) -> None:
    with program_of(db) as program:
        with stream_of(program) as lines:
            reactdb.web.stop()
            assert list(lines) == []
        with stream_of(program):
            pass


def test_a_long_poll_of_couchdb_ends_with_its_answer(db: Any) -> None:
    with program_of(db) as program:
        with socket.create_connection(("127.0.0.1", program.port), timeout=PATIENCE_S) as client:
            client.sendall(
                b"GET /couchdb/games/_changes?feed=longpoll&since=now HTTP/1.1\r\nHost: localhost\r\n\r\n"
            )
            wait_until(lambda: any(one.streams for one in open_streams._loops.values()))
            program.stop()
            answer = b""
            while piece := client.recv(65_536):
                answer += piece
        assert answer.startswith(b"HTTP/1.1 200")
        assert b'"results":[' in answer


def test_a_client_that_does_not_read_keeps_no_server_from_stopping(db: Any) -> None:
    with program_of(db) as program, socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
        deaf.connect(("127.0.0.1", program.port))
        deaf.sendall(
            b"GET /inspector/api/stream HTTP/1.1\r\nHost: localhost\r\nX-Reactdb-Inspector: 1\r\n\r\n"
        )
        wait_until(lambda: any(one.streams for one in open_streams._loops.values()))
        # More than the buffers of both sides hold.
        for number in range(12):
            db.table("games").insert({"id": number, "text": MEBIBYTE})
        wait_until(lambda: has_unsent(program))
        began = time.monotonic()
        program.stop()
        assert time.monotonic() - began < SOON_S
    assert not open_streams._loops
