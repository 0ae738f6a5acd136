"""`python -m benchmarks.mongodb_wire`: PyMongo over a socket, to a server in a process of its own.

    insert_one, update_one, find_one      by `_id`, one after the other
    insert_many, find                     many documents with one call
    insert to event                       from the call of insert_one to the event of a stream that waits: median, and 99 of 100
    with N streams                        insert_one, while N streams wait for other collections, and for this one

Calls a second, and the server's processor time for one call, which a busy machine changes less.

Rule of this file: it prints. The database is in memory, so no disk is measured.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pymongo import MongoClient

ROOT = Path(__file__).resolve().parents[1]
SERVER = """
import sys, reactdb
from reactdb.servers.mongodb import serve_in_thread

sys.setswitchinterval(0.0005)
with reactdb.connect(":memory:") as db, serve_in_thread(db, path=sys.argv[1] or None) as server:
    print(server.uri, flush=True)
    sys.stdin.read()
"""
EVENTS = 500


def processor_s(process: int) -> float:
    """The processor time that a process has taken; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))


def measure(name: str, process: int, units: int, work: Callable[[], object]) -> None:
    before, began = processor_s(process), time.perf_counter()
    work()
    took = time.perf_counter() - began
    spent = processor_s(process) - before
    print(f"  {name:<44} {units / took:10,.0f}/s   {spent / units * 1e6:8.1f} µs of the server", flush=True)


def to_event(orders: Any) -> None:
    """How long an event takes to who waits for it."""
    heard = threading.Event()
    taken: list[float] = []
    with orders.watch(max_await_time_ms=5_000) as stream:

        def listen() -> None:
            for _ in range(EVENTS):
                stream.next()
                heard.set()

        listener = threading.Thread(target=listen)
        listener.start()
        for _ in range(EVENTS):
            heard.clear()
            began = time.perf_counter()
            orders.insert_one({})
            heard.wait()
            taken.append(time.perf_counter() - began)
        listener.join()
    taken.sort()
    median, most = taken[EVENTS // 2] * 1e3, taken[EVENTS * 99 // 100] * 1e3
    print(f"  {'insert to event':<44} {median:10.2f} ms   {most:8.2f} ms, 99 of 100", flush=True)


def with_streams(client: Any, process: int, count: int, collection: str, number: int) -> None:
    """Inserts while streams of a collection wait, each for something that does not come."""
    shop = client["shop"]
    with ExitStack() as stack:
        stops = threading.Event()
        opened = threading.Semaphore(0)

        def wait_for(place: int) -> None:
            match = {"$match": {"fullDocument.none": place}}
            with shop[collection].watch([match], max_await_time_ms=1_000) as stream:
                opened.release()
                while not stops.is_set():
                    stream.try_next()

        threads = [threading.Thread(target=wait_for, args=(place,)) for place in range(count)]
        stack.callback(lambda: [thread.join() for thread in threads])
        stack.callback(stops.set)
        for thread in threads:
            thread.start()
        for _ in threads:
            opened.acquire()
        which = "of this collection" if collection == "orders" else "of another"
        measure(
            f"insert_one, with {count:,} streams {which}",
            process,
            number,
            lambda: [shop["orders"].insert_one({}) for _ in range(number)],
        )


def run(uri: str, process: int, number: int, streams: list[int]) -> None:
    with MongoClient(uri, maxPoolSize=None) as client:
        orders = client["shop"]["orders"]
        orders.insert_one({"_id": "first"})
        measure(
            "insert_one",
            process,
            number,
            lambda: [orders.insert_one({"_id": i, "n": i, "name": "a name"}) for i in range(number)],
        )
        measure(
            "update_one",
            process,
            number,
            lambda: [orders.update_one({"_id": i}, {"$set": {"n": -i}}) for i in range(number)],
        )
        measure("find_one", process, number, lambda: [orders.find_one({"_id": i}) for i in range(number)])
        many = [{"n": i, "name": "a name", "tags": ["a", "b"]} for i in range(10 * number)]
        measure(
            "insert_many, documents", process, len(many), lambda: client["shop"]["many"].insert_many(many)
        )
        measure("find, documents", process, len(many), lambda: list(client["shop"]["many"].find()))
        to_event(orders)
        for count in streams:
            with_streams(client, process, count, "others", number // 4)
        for count in streams:
            with_streams(client, process, count, "orders", number // 4)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mongodb_wire",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=2_000, help="calls; default: %(default)s")
    parser.add_argument("--streams", type=int, nargs="*", default=[1, 10, 50, 1_000])
    parser.add_argument("--socket", default="", metavar="PATH", help="a Unix socket in place of TCP")
    given = parser.parse_args()
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, given.socket],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    with server:
        run(server.stdout.readline().strip(), server.pid, given.count, given.streams)
        server.stdin.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
