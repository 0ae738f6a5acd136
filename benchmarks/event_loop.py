"""What an event loop pays: how long it stands still while feeds begin, and awaited calls beside synchronous ones.

    python -m benchmarks.event_loop                    300,000 documents in a file, some minutes
    python -m benchmarks.event_loop --documents 30000 --place :memory:

A task sleeps for a millisecond again and again, and notes by how much it has woken late. The greatest delay is the loop's longest
stall; the mark is 50 ms for 999 of 1,000 delays. A thread that computes may keep Python's lock for 5 ms, and a busy machine adds
its own: the first line, without any work, says how much.

Rule of this file: it goes through the public names only.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from statistics import median
from typing import Any

import reactdb
from reactdb import row

PAUSE_S = 0.001
BATCH = 50_000
CALLS = 2_000


class Delays:
    """How late a task wakes that sleeps for `PAUSE_S`, in seconds."""

    def __init__(self) -> None:
        self.noted: list[float] = []
        self.all: list[float] = []

    async def watch(self) -> None:
        while True:
            start = time.perf_counter()
            await asyncio.sleep(PAUSE_S)
            self.noted.append(time.perf_counter() - start - PAUSE_S)

    async def measure(self, name: str, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Print how late it woke while this was done."""
        await asyncio.sleep(0.05)
        self.noted.clear()
        start = time.perf_counter()
        await work()
        took_s = time.perf_counter() - start
        await asyncio.sleep(0.05)
        self.all += self.noted
        show(f"{name:32} {took_s:7.2f} s", self.noted)


def show(what: str, delays: list[float]) -> None:
    noted = sorted(delays)
    p999 = noted[int(len(noted) * 0.999)]
    print(f"{what}   longest {noted[-1] * 1e3:7.1f} ms   p99.9 {p999 * 1e3:7.1f} ms   of {len(noted)}")


async def measure_stalls(adb: reactdb.AsyncDatabase, documents: int) -> None:
    table = adb.table("t")
    delays = Delays()
    watching = asyncio.create_task(delays.watch())

    def begin(feed: Any, events: int = 1) -> Callable[[], Coroutine[Any, Any, object]]:
        async def run() -> None:
            async with feed.acursor() as cursor:
                for _ in range(events):
                    await cursor.next()

        return run

    async def write_beside() -> None:
        async with table.order_by("v").limit(10).changes(include_initial=True).acursor() as cursor:
            await table.insert({"id": -1, "v": -1})
            await cursor.next()
            await table.get(-1).delete()

    async def queue() -> None:
        async def add() -> None:
            async with adb.transaction():
                n = (await table.get(0).run())["v"]
                await table.get(0).update({"v": n + 1})

        await asyncio.gather(*(add() for _ in range(100)))

    # The first feed of a program imports the feeds.
    await begin(table.get(0).changes(include_initial=True))()
    initial = {"include_initial": True}
    try:
        await delays.measure("nothing", lambda: asyncio.sleep(1))
        delays.all.clear()
        await delays.measure(
            "limit 10 without an index", begin(table.order_by("v").limit(10).changes(**initial))
        )
        await delays.measure("count", begin(table.count().changes(**initial)))
        await delays.measure(
            "count of a filter", begin(table.filter(row["v"] > 9).count().changes(**initial))
        )
        await delays.measure("count by group", begin(table.group("g").count().changes(**initial)))
        await delays.measure("all initial values", begin(table.changes(**initial), documents))
        await delays.measure("an insert beside a beginning", write_beside)
        await delays.measure("100 tasks with a transaction", queue)
        show(f"{'all of these':42}", delays.all)
    finally:
        watching.cancel()


async def measure_calls(adb: reactdb.AsyncDatabase) -> None:
    """Microseconds of one call, awaited and synchronous, one after the other; the median of each."""
    awaited, db = adb.table("t"), adb.sync
    table = db.table("t")

    async def time_awaited(work: Callable[[int], Any]) -> float:
        times = []
        for number in range(CALLS):
            start = time.perf_counter()
            await work(number)
            times.append(time.perf_counter() - start)
        return median(times) * 1e6

    def time_plain(work: Callable[[int], Any]) -> float:
        times = []
        for number in range(CALLS):
            start = time.perf_counter()
            work(number)
            times.append(time.perf_counter() - start)
        return median(times) * 1e6

    for name, awaited_work, plain_work in (
        ("get", lambda n: awaited.get(n).run(), lambda n: table.get(n).run()),
        ("insert", lambda n: awaited.insert({"id": f"a{n}"}), lambda n: table.insert({"id": f"b{n}"})),
    ):
        print(
            f"{name:32} awaited {await time_awaited(awaited_work):7.1f} µs   synchronous {time_plain(plain_work):7.1f} µs"
        )


async def main(place: str, documents: int) -> None:
    async with reactdb.aconnect(place, durability="soft", busy_timeout=60) as adb:
        table = await adb.table_create("t")
        for first in range(0, documents, BATCH):
            some = range(first, min(documents, first + BATCH))
            await table.insert([{"id": n, "v": n * 7919 % 300_007, "g": n % 10} for n in some])
        print(f"{documents} documents in {'memory' if place == ':memory:' else 'a file'}")
        await measure_stalls(adb, documents)
        await measure_calls(adb)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--documents", type=int, default=300_000)
    parser.add_argument("--place", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(options.place or str(Path(folder, "loop.db")), options.documents))
