"""`python -m benchmarks.aidbox_changes`: what polls of `$changes` cost, and how soon a change is told.

    polls that find nothing     in process, over 1,000 and 1,000,000 changes of the log; over HTTP
    changes                     a second that one client reads over HTTP: polls in pages of 500, and server-sent events
    commit to client            to a long poll, and to a client of server-sent events: p50 and p99

Polls in process are processor time. What goes over HTTP is the time on the clock, with client and server on this machine.

Rule of this file: it prints, and checks that the work was done.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from pathlib import Path

import httpx

import reactdb
from reactdb.database import Database
from reactdb.servers.http import serve_in_thread

BATCH = 10_000


def patient(number: int) -> dict[str, object]:
    return {
        "id": f"p{number:07}",
        "name": [{"family": f"F{number % 100}", "given": ["A"]}],
        "active": number % 2 == 0,
    }


def filled(path: Path, count: int) -> Database:
    db = reactdb.connect(path, durability="soft")
    db.set_retention(None)
    table = db.table_create("Patient")
    for first in range(0, count, BATCH):
        table.insert([patient(number) for number in range(first, min(count, first + BATCH))])
    return db


def idle_polls(db: Database, log: int, polls: int) -> None:
    patients = reactdb.aidbox(db)["Patient"]
    version = patients.version()
    begin = time.process_time()
    for _ in range(polls):
        assert patients.changes(version) is None
    spent = time.process_time() - begin
    print(f"  over {log:>9,} changes, {polls:>9,} polls in process   {spent / polls * 1e6:8.1f} µs a poll")


def idle_polls_over_http(port: int, version: int, polls: int) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        begin = time.perf_counter()
        for _ in range(polls):
            assert client.get("/Patient/$changes", params={"version": version}).status_code == 304
        print(
            f"  over HTTP, one client                            {polls / (time.perf_counter() - begin):8,.0f} polls/s"
        )


def changes_over_http(port: int, count: int) -> None:
    version, found = 1, 0
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        begin = time.perf_counter()
        while True:
            answer = client.get("/Patient/$changes", params={"version": version, "_count": 500})
            if answer.status_code == 304:
                break
            body = answer.json()
            version, found = body["version"], found + len(body["changes"])
        spent = time.perf_counter() - begin
    assert found == count
    print(f"  {found:,} changes, pages of 500                      {found / spent:8,.0f} changes/s")


def changes_streamed(port: int, count: int) -> None:
    found = 0
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        begin = time.perf_counter()
        headers = {"Accept": "text/event-stream"}
        with client.stream("GET", "/Patient/$changes?version=1&_count=500", headers=headers) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    found += len(json.loads(line[6:])["changes"])
                if found >= count:
                    break
        spent = time.perf_counter() - begin
    assert found == count
    print(f"  the same, as server-sent events                  {found / spent:8,.0f} changes/s")


class Follower:
    """A client that notes when it was told of each change."""

    def __init__(self, port: int, version: int) -> None:
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
        self.version = version
        self.told: dict[str, float] = {}
        self.is_there = threading.Event()

    def note(self, body: dict[str, object]) -> None:
        now = time.perf_counter()
        changes = body["changes"]
        assert isinstance(changes, list)
        for change in changes:
            self.told[change["resource"]["id"]] = now

    def poll(self, count: int) -> None:
        while len(self.told) < count:
            self.is_there.set()
            answer = self.client.get("/Patient/$changes", params={"version": self.version, "wait": 30})
            if answer.status_code == 200:
                self.note(answer.json())
                self.version = answer.json()["version"]

    def follow(self, count: int) -> None:
        headers = {"Accept": "text/event-stream"}
        path = f"/Patient/$changes?version={self.version}"
        with self.client.stream("GET", path, headers=headers) as answer:
            for line in answer.iter_lines():
                self.is_there.set()
                if line.startswith("data: {"):
                    self.note(json.loads(line[6:]))
                if len(self.told) >= count:
                    return


def latency(db: Database, port: int, name: str, count: int) -> None:
    follower = Follower(port, reactdb.aidbox(db)["Patient"].version())
    work = follower.poll if name == "long poll" else follower.follow
    thread = threading.Thread(target=work, args=(count,))
    thread.start()
    follower.is_there.wait(60)
    committed: dict[str, float] = {}
    for number in range(count):
        time.sleep(0.01)
        id = f"{name}-{number}".replace(" ", "-")
        db.table("Patient").insert({"id": id})
        committed[id] = time.perf_counter()
    thread.join(60)
    follower.client.close()
    late = sorted((follower.told[id] - at) * 1e3 for id, at in committed.items())
    print(
        f"  {name:<24} p50 {statistics.median(late):6.2f} ms   p99 {late[int(len(late) * 0.99)]:6.2f} ms   of {count}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.aidbox_changes", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--quick", action="store_true", help="a hundredth of the size: not a measurement")
    scale = 100 if parser.parse_args().quick else 1
    with tempfile.TemporaryDirectory() as folder:
        print("polls that find nothing")
        with filled(Path(folder) / "small.db", 1_000) as db:
            idle_polls(db, 1_000, 100_000 // scale)
        with filled(Path(folder) / "large.db", 1_000_000 // scale) as db:
            idle_polls(db, 1_000_000 // scale, 1_000_000 // scale)
            with serve_in_thread(db, dialects=["aidbox"]) as server:
                idle_polls_over_http(server.port, reactdb.aidbox(db)["Patient"].version(), 5_000 // scale)
        with (
            filled(Path(folder) / "read.db", 50_000 // scale) as db,
            serve_in_thread(db, dialects=["aidbox"]) as server,
        ):
            print("changes")
            changes_over_http(server.port, 50_000 // scale)
            changes_streamed(server.port, 50_000 // scale)
            print("commit to client")
            for name in ("long poll", "server-sent events"):
                latency(db, server.port, name, max(20, 1_000 // scale))


if __name__ == "__main__":
    main()
