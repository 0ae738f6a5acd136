"""Requests that are much work, over sockets: other clients and writers are served beside them, and they end with their client."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

import reactdb

PATIENCE_S = 60.0
SERVED_S = 0.5
STOPPED_S = 3.0
DOCUMENT = b'{"a":{}}'


class Served:
    """A server in a process of its own.

    Attributes:
        slowness: How much longer than on a free machine it took to start; at least 1.
    """

    def __init__(self, path: Path, *options: str) -> None:
        began = time.monotonic()
        arguments = ["serve", str(path), "--couchdb", "--port", "0", "--durability", "soft", *options]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "reactdb.cli", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        found = re.search(r"http://127.0.0.1:(\d+)", self.process.stdout.readline())
        assert found is not None
        self.port = int(found[1])
        self.slowness = max(1.0, (time.monotonic() - began) / 1.0)

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=PATIENCE_S, verify=False)

    def post(self, path: str, body: bytes) -> socket.socket:
        """A request whose answer nobody reads."""
        sender = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        sender.sendall(head.encode() + body)
        return sender

    def stop(self) -> float:
        """How long it takes to end, in seconds of a free machine."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        output, errors = self.process.communicate(timeout=PATIENCE_S)
        assert (0, "stopped\n", "") == (self.process.returncode, output, errors)
        return (time.monotonic() - began) / self.slowness


@contextmanager
def serving(path: Path, *options: str) -> Iterator[Served]:
    server = Served(path, *options)
    try:
        with server.client() as client:
            for name in ("bulk", "good"):
                client.put(f"/{name}").raise_for_status()
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.communicate()


@contextmanager
def repeating(work: Callable[[int], object]) -> Iterator[list[float]]:
    """How long each of many calls takes, one after the other in another thread, as long as the block lasts."""
    waits: list[float] = []
    errors: list[Exception] = []
    ends = threading.Event()

    def run() -> None:
        number = 0
        try:
            while not ends.wait(0.005):
                began = time.monotonic()
                work(number)
                waits.append(time.monotonic() - began)
                number += 1
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield waits
    finally:
        ends.set()
        thread.join()
    assert not errors


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it takes too long"


def bulk(count: int) -> bytes:
    return b'{"docs":[' + b",".join([DOCUMENT] * count) + b"]}"


def mostly_served(waits: list[float], slowness: float) -> bool:
    """Almost all within half a second of a free machine; a busy one may keep one of them waiting."""
    return len(waits) >= 3 and sorted(waits)[len(waits) * 9 // 10 - 1] < SERVED_S * slowness


def count_of(path: Path) -> int:
    with reactdb.connect(str(path)) as db:
        return int(db.table("bulk").count().run())


def test_others_are_served_beside_a_large_bulk(tmp_path: Path) -> None:
    """A native writer in another process, and a client of HTTP that reads and writes."""
    path, count = tmp_path / "a.db", 12_000
    with serving(path) as server, server.client() as attacker, server.client() as good:
        with reactdb.connect(str(path), durability="soft") as db:
            table = db.table("good")
            with (
                repeating(lambda number: table.insert({"_id": f"n{number}"})) as native,
                repeating(lambda number: good.put(f"/good/h{number}", json={}).raise_for_status()) as http,
            ):
                answer = attacker.post(
                    "/bulk/_bulk_docs", content=bulk(count), headers={"Content-Type": "application/json"}
                )
                assert mostly_served(native, server.slowness), native
                assert mostly_served(http, server.slowness), http
        rows = answer.json()

        assert (201, count) == (answer.status_code, sum(row["ok"] for row in rows))
        assert server.stop() < STOPPED_S
    assert count == count_of(path)


@pytest.mark.slow
def test_a_bulk_ends_when_its_client_goes(tmp_path: Path) -> None:
    """What was committed until then stays."""
    path, count = tmp_path / "a.db", 60_000
    with serving(path, "--query-timeout", "0") as server, server.client() as good:
        sender = server.post("/bulk/_bulk_docs", bulk(count))
        until(lambda: good.get("/bulk").json()["doc_count"] > 0)
        sender.close()

        assert server.stop() < STOPPED_S
    assert 0 < count_of(path) < count


@pytest.mark.slow
def test_a_server_that_stops_ends_a_bulk(tmp_path: Path) -> None:
    path, count = tmp_path / "a.db", 60_000
    with (
        serving(path, "--query-timeout", "0") as server,
        server.client() as good,
        server.post("/bulk/_bulk_docs", bulk(count)) as sender,
    ):
        until(lambda: good.get("/bulk").json()["doc_count"] > 0)
        took_s = server.stop()
        answer = sender.recv(65_536)

    assert took_s < STOPPED_S
    assert answer.startswith(b"HTTP/1.1 503") or answer == b""
    assert count_of(path) < count


@pytest.mark.slow
def test_a_body_of_very_many_objects_is_refused_at_once(tmp_path: Path) -> None:
    """It took minutes and gigabytes, after its client had gone and through SIGTERM."""
    with serving(tmp_path / "a.db") as server, server.client() as good:
        before = peak_bytes(server.process.pid)
        with repeating(lambda _: good.get("/good").raise_for_status()) as http, server.client() as attacker:
            answer = attacker.post(
                "/bulk/_bulk_docs", content=bulk(2_000_000), headers={"Content-Type": "application/json"}
            )
        grown = peak_bytes(server.process.pid) - before

        assert (413, "too_large") == (answer.status_code, answer.json()["error"])
        assert mostly_served(http, server.slowness), http
        assert server.stop() < STOPPED_S
    assert grown < 200 * 2**20


@pytest.mark.slow
def test_a_request_that_takes_too_long_is_answered(tmp_path: Path) -> None:
    path, count = tmp_path / "a.db", 60_000
    with serving(path, "--query-timeout", "0.5") as server, server.client() as attacker:
        answer = attacker.post(
            "/bulk/_bulk_docs", content=bulk(count), headers={"Content-Type": "application/json"}
        )

        assert (500, "timeout") == (answer.status_code, answer.json()["error"])
        assert server.stop() < STOPPED_S
    assert count_of(path) < count


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_a_request_that_fills_too_much_memory_is_answered(tmp_path: Path) -> None:
    with serving(tmp_path / "a.db", "--query-memory", str(50 * 2**20)) as server, server.client() as attacker:
        docs = [{"_id": f"{number}", "text": "x" * 100_000} for number in range(300)]
        for place in range(0, 300, 30):
            attacker.post("/bulk/_bulk_docs", json={"docs": docs[place : place + 30]}).raise_for_status()

        answer = attacker.get("/bulk/_all_docs?include_docs=true")

        assert (500, "too_much_memory") == (answer.status_code, answer.json()["error"])
        assert 200 == attacker.get("/bulk").status_code


def peak_bytes(pid: int) -> int:
    if sys.platform != "linux":
        return 0
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) * 1024


def test_a_long_body_means_what_a_short_one_does(tmp_path: Path) -> None:
    """What is decoded in pieces is the same."""
    docs = [{"_id": f"{number}", "n": [number, {"ü": 'é\\"' * 20}], "x": 1e300} for number in range(3_000)]
    with serving(tmp_path / "a.db") as server, server.client() as client:
        body = json.dumps({"docs": docs}).encode()
        assert len(body) > 256 * 1024
        client.post("/bulk/_bulk_docs", content=body, headers={"Content-Type": "application/json"})

        found = client.get("/bulk/_all_docs?include_docs=true").json()["rows"]

    shown = [{name: value for name, value in row["doc"].items() if name != "_rev"} for row in found]
    assert sorted(docs, key=lambda document: document["_id"]) == shown
