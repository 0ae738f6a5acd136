"""A server that is killed in the middle of a stream: the driver resumes, no event is lost and none told twice."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import AutoReconnect, DuplicateKeyError

from tests.support.processes import ROOT

PATIENCE_S = 60.0


@contextmanager
def served(path: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """`reactdb serve --mongodb` in its own process, killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "reactdb.cli", "serve", str(path), "--mongodb", "--port", str(port)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert process.stdout is not None
        assert "MongoDB drivers" in process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.slow
def test_no_event_is_lost_and_none_told_twice(tmp_path: Path) -> None:
    path, port = tmp_path / "a.db", free_port()
    count = 300
    uri = f"mongodb://127.0.0.1:{port}/"
    heard: list[int] = []
    client: MongoClient[dict[str, Any]]
    with MongoClient(uri, serverSelectionTimeoutMS=int(PATIENCE_S * 1000)) as client:
        orders = client["shop"]["orders"]
        is_watching = threading.Event()

        def listen() -> None:
            with orders.watch(max_await_time_ms=100) as stream:
                is_watching.set()
                for event in stream:
                    heard.append(event["documentKey"]["_id"])
                    if heard[-1] == count - 1:
                        return

        listener = threading.Thread(target=listen, daemon=True)
        written = 0
        # Three lives of one file on one port, each but the last ended in the middle of the writes.
        for life in range(3):
            with served(path, port):
                if life == 0:
                    listener.start()
                    assert is_watching.wait(PATIENCE_S)
                until = count * (life + 1) // 3
                while written < until:
                    try:
                        orders.insert_one({"_id": written})
                    except DuplicateKeyError:
                        # It was written, and the answer was lost with the server.
                        pass
                    except AutoReconnect:
                        continue
                    written += 1
                if life == 2:
                    listener.join(PATIENCE_S)
        assert list(range(count)) == heard
