"""Servers of uvicorn as a user starts them, with streams open: each way of stopping ends within two seconds, feeds first."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.processes import ROOT
from tests.web.server import SOON_S, Client, Program, follow

pytestmark = pytest.mark.slow
PATIENCE_S = 20.0
CLIENTS = 50

PROGRAM = """
import sys
from contextlib import asynccontextmanager
import reactdb, reactdb.web
from reactdb.feeds.hub import hub_of
from reactdb.servers.http import inspector
from starlette.applications import Starlette
from starlette.routing import Mount, Route
import uvicorn

db = reactdb.connect(__file__ + ".db")
table = db.table_create("t", exist_ok=True)

@asynccontextmanager
async def lifespan(app):
    yield
    print("feeds are closed:", hub_of(db._session.engine).is_clean, flush=True)
    db.close()

async def live(request):
    return reactdb.web.sse(table, request)

app = Starlette(routes=[Route("/live", live), Mount("/inspector", inspector(db))], lifespan=lifespan)
if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")
"""


@contextmanager
def running(path: Path, *command: str) -> Iterator[tuple[subprocess.Popen[str], Program]]:
    """The process, which answers, and where it answers."""
    path.write_text(PROGRAM)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = Program()
    program.port = port
    with subprocess.Popen(
        [sys.executable, *(part.format(port=port) for part in command)],
        cwd=path.parent,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{path.parent}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            wait_for(program, process)
            yield process, program
        finally:
            process.kill()


def wait_for(program: Program, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and process.poll() is None:
        try:
            httpx.head(f"{program.url}/live", verify=False)
        except httpx.TransportError:
            time.sleep(0.02)
        else:
            return
    process.kill()
    raise AssertionError(process.communicate()[1])


def open_all(stack: ExitStack, program: Program, count: int = CLIENTS) -> list[Client]:
    return [stack.enter_context(follow(program)).ready() for _ in range(count)]


def open_inspector(stack: ExitStack, program: Program) -> Iterator[str]:
    """The lines of a stream of the inspector that has begun."""
    own = {"X-Reactdb-Inspector": "1"}
    address = f"{program.url}/inspector/api/stream"
    answer = stack.enter_context(httpx.stream("GET", address, headers=own, timeout=PATIENCE_S, verify=False))
    lines = answer.iter_lines()
    assert '"tables":' in next(lines)
    return lines


UVICORN = ("-m", "uvicorn", "live_program:app", "--port", "{port}", "--log-level", "warning")


@pytest.mark.parametrize(
    ("command", "signal_number"),
    [(UVICORN, signal.SIGTERM), (("live_program.py", "{port}"), signal.SIGINT)],
    ids=["command, SIGTERM", "uvicorn.run, Ctrl-C"],
)
def test_a_server_that_is_told_to_stop_ends_in_order_with_fifty_streams_open(
    tmp_path, command, signal_number
):
    with running(tmp_path / "live_program.py", *command) as (process, program), ExitStack() as stack:
        clients, lines = open_all(stack, program), open_inspector(stack, program)
        began = time.monotonic()
        process.send_signal(signal_number)
        output, errors = process.communicate(timeout=PATIENCE_S)
        assert time.monotonic() - began < SOON_S
        assert "feeds are closed: True\n" == output
        assert "ERROR" not in errors, errors
        assert all(client.next() is None for client in clients)
        assert [line for line in lines if line] == []


def test_a_server_that_reloads_begins_again_and_the_streams_come_back(tmp_path):
    path = tmp_path / "live_program.py"
    with (
        running(path, *UVICORN, "--reload", "--reload-delay", "0.1") as (process, program),
        ExitStack() as stack,
    ):
        clients, lines = open_all(stack, program, 5), open_inspector(stack, program)
        began = time.monotonic()
        path.write_text(PROGRAM + "\n# changed\n")
        assert all(client.next() is None for client in clients)
        assert [line for line in lines if line] == []
        # A watcher looks every quarter of a second.
        assert time.monotonic() - began < SOON_S
        wait_for(program, process)
        with follow(program, clients[0].last_id) as client:
            assert "ready" == client.next().event
        process.terminate()
        output, _ = process.communicate(timeout=PATIENCE_S)
        assert ["feeds are closed: True"] * 2 == output.splitlines()
