"""A server that is killed in the middle of a stream: each driver resumes, no event is lost and none told twice."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import pytest
from pymongo import MongoClient
from pymongo.errors import AutoReconnect, DuplicateKeyError

from tests.servers.mongodb.node import PATIENCE_S, needs_node, run_node
from tests.servers.mongodb.test_async_drivers import maybe, motor_client, pymongo_client
from tests.support.processes import ROOT

pytestmark = pytest.mark.slow

LIVES = 3
COUNT = 300
"""How many documents are inserted, in all of a file's lives."""
# A driver that is told by its own monitor, and later than by its socket, that a server is gone clears its connections while it
# tries again, and a driver tries once: so the monitor has nothing to tell.
OPTIONS = (
    f"serverSelectionTimeoutMS={int(PATIENCE_S * 1000)}&serverMonitoringMode=poll&heartbeatFrequencyMS=60000"
)

Watch = Callable[[str, Callable[[], None]], list[int]]
"""Gives the ids of the inserts that a stream of `shop.orders` at an address tells, until the last one. It calls the function when
the stream is open."""


@pytest.fixture
def uri() -> Iterator[str]:
    """Where the server is in each of its lives: a socket whose name nobody else takes, and which is short enough for one."""
    with TemporaryDirectory(prefix="reactdb-", dir="/tmp") as folder:
        yield f"mongodb://{quote(f'{folder}/s.sock', safe='')}/?{OPTIONS}"


@contextmanager
def served(path: Path, uri: str, *options: str) -> Iterator[None]:
    """`reactdb serve --mongodb` in its own process, killed at the end."""
    socket = uri.split("/")[2].replace("%2F", "/")
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "reactdb.cli",
            "serve",
            str(path),
            "--mongodb",
            "--mongodb-socket",
            socket,
            *options,
        ],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert process.stdout is not None
        assert "MongoDB drivers" in process.stdout.readline()
        yield
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def heard_by_pymongo(uri: str, opened: Callable[[], None]) -> list[int]:
    heard: list[int] = []
    client: MongoClient[dict[str, Any]]
    with MongoClient(uri) as client, client["shop"]["orders"].watch(max_await_time_ms=100) as stream:
        opened()
        for event in stream:
            heard.append(event["documentKey"]["_id"])
            if heard[-1] == COUNT - 1:
                break
    return heard


def heard_by(connect: Callable[[str], Any]) -> Watch:
    """What an asynchronous driver hears."""

    async def listen(uri: str, opened: Callable[[], None]) -> list[int]:
        heard: list[int] = []
        client = connect(uri)
        async with await maybe(client["shop"]["orders"].watch(max_await_time_ms=100)) as stream:
            # Motor sends the aggregate with the first read.
            assert await stream.try_next() is None
            opened()
            async for event in stream:
                heard.append(event["documentKey"]["_id"])
                if heard[-1] == COUNT - 1:
                    break
        await maybe(client.close())
        return heard

    return lambda uri, opened: asyncio.run(listen(uri, opened))


def heard_by_node(uri: str, opened: Callable[[], None]) -> list[int]:
    program = f"""
    let stream = orders.watch([], {{maxAwaitTimeMS: 100}}), token;
    const next = async () => {{
      for (;;) {{
        try {{
          return await stream.next();
        }} catch (error) {{
          // The driver goes on by itself after what it knows for an error of the network, and hands these on.
          if (!["EPIPE", "ECONNRESET"].includes(error.code)) throw error;
          token = stream.resumeToken ?? token;
          await stream.close().catch(() => undefined);
          stream = orders.watch([], {{maxAwaitTimeMS: 100, resumeAfter: token}});
        }}
      }}
    }};
    const first = next();
    await isWatching(2);
    await client.db("shop").collection("watching").insertOne({{}});
    const heard = [(await first).documentKey._id];
    while (heard.at(-1) !== {COUNT - 1}) heard.push((await next()).documentKey._id);
    print(heard);
    await stream.close();
    """

    def wait() -> None:
        # The other one of the two cursors.
        client: MongoClient[dict[str, Any]]
        with MongoClient(uri) as client, client["shop"]["watching"].watch() as stream:
            stream.next()
        opened()

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    (heard,) = run_node(program, uri)
    return list(heard)


@pytest.mark.parametrize(
    "watch",
    [
        pytest.param(heard_by_pymongo, id="PyMongo"),
        pytest.param(heard_by(pymongo_client), id="asynchronous PyMongo"),
        pytest.param(heard_by(motor_client), id="Motor"),
        pytest.param(heard_by_node, id="Node", marks=needs_node),
    ],
)
def test_no_event_is_lost_and_none_told_twice(tmp_path: Path, uri: str, watch: Watch) -> None:
    heard: list[int] = []
    is_open = threading.Event()
    listener = threading.Thread(target=lambda: heard.extend(watch(uri, is_open.set)), daemon=True)
    client: MongoClient[dict[str, Any]]
    with MongoClient(uri) as client:
        orders = client["shop"]["orders"]
        written = 0
        # Each life but the last is ended in the middle of the writes.
        for life in range(LIVES):
            with served(tmp_path / "a.db", uri):
                if life == 0:
                    orders.create_index("n")
                    listener.start()
                    assert is_open.wait(PATIENCE_S)
                until = COUNT * (life + 1) // LIVES
                while written < until:
                    try:
                        orders.insert_one({"_id": written})
                    except DuplicateKeyError:
                        # It was written, and the answer was lost with the server.
                        pass
                    except AutoReconnect:
                        continue
                    written += 1
                if life == LIVES - 1:
                    listener.join(PATIENCE_S)
    assert list(range(COUNT)) == heard
