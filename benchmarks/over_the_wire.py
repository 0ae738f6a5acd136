"""Over the wire: the figures of RethinkDB's official driver with `reactdb serve`, beside those with a real RethinkDB.

    python -m benchmarks.over_the_wire [--seconds 3]

The server is a process of its own with a file with soft durability; the clients are in this process. A real RethinkDB 2.4.4 on
a similar machine did 1,090, 966 and 180 updates a second with 0, 100 and 1,000 open feeds, delivered a write in 0.57 ms
(p50) and 4.2 ms (p99), and inserted 9,800 documents a second in bulk.

Measure on an idle machine, because three processes share two processors here.

Rule of this file: one client writes, one listens, both with the official driver. Needs `pip install rethinkdb`.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rethinkdb

from benchmarks.machine import describe, line

r = rethinkdb.RethinkDB()
games = r.table("games")

KEYS = 1_000
BULK = 20_000
BATCH = 1_000
NOTIFICATIONS = 1_000

RETHINKDB = {
    "updates/s, no feeds": 1_090.0,
    "updates/s, 100 filter feeds": 966.0,
    "updates/s, 1,000 filter feeds": 180.0,
    "write to notification, p50 ms": 0.57,
    "write to notification, p99 ms": 4.2,
    "bulk insert, documents/s": 9_800.0,
}


@contextmanager
def served(folder: Path) -> Iterator[int]:
    """The port of a server on an empty file."""
    command = [
        *(sys.executable, "-m", "reactdb.cli", "serve", str(folder / "bench.db")),
        *("--rethinkdb", "--port", "0", "--durability", "soft"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.search(r":(\d+)$", server.stdout.readline().strip())
            assert found is not None, "the server did not say where it listens"
            yield int(found[1])
        finally:
            server.terminate()


def updates_per_second(writer: Any, seconds: float) -> float:
    """Sequential updates of one field of one document each, every one acknowledged before the next.

    Answers: what do silent feeds cost a writer? Expect no difference: feeds are found by the value that they ask for.
    """
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        games.get(count % KEYS).update({"n": count}).run(writer)
        count += 1
    return count / (time.perf_counter() - start)


def notifications_ms(writer: Any, listener: Any) -> list[float]:
    """Milliseconds from before a write to after its notification was read, sorted."""
    feed = games.get(0).changes().run(listener)
    times = []
    for number in range(NOTIFICATIONS):
        start = time.perf_counter()
        games.get(0).update({"n": -1 - number}).run(writer)
        feed.next()
        times.append((time.perf_counter() - start) * 1_000)
    feed.close()
    return sorted(times)


def documents_per_second(writer: Any) -> float:
    """Documents of about 190 bytes, a thousand in a statement."""
    batches = [
        [{"id": start + place, "n": place, "text": "x" * 150} for place in range(BATCH)]
        for start in range(1_000_000, 1_000_000 + BULK, BATCH)
    ]
    start = time.perf_counter()
    for batch in batches:
        games.insert(batch).run(writer)
    return BULK / (time.perf_counter() - start)


def measure(port: int, seconds: float) -> dict[str, float]:
    writer, listener = r.connect("127.0.0.1", port), r.connect("127.0.0.1", port)
    r.table_create("games").run(writer)
    games.insert([{"id": key, "n": 0, "text": "x" * 150} for key in range(KEYS)]).run(writer)
    updates_per_second(writer, seconds / 4)
    found = {"updates/s, no feeds": updates_per_second(writer, seconds)}
    times = notifications_ms(writer, listener)
    feeds: list[Any] = []
    for count in (100, 1_000):
        while len(feeds) < count:
            feeds.append(games.filter(r.row["n"] == -10_000 - len(feeds)).changes().run(listener))
        found[f"updates/s, {count:,} filter feeds"] = updates_per_second(writer, seconds)
    found["write to notification, p50 ms"] = statistics.median(times)
    found["write to notification, p99 ms"] = times[len(times) * 99 // 100]
    found["bulk insert, documents/s"] = documents_per_second(writer)
    listener.close()
    writer.close()
    return found


def report(found: dict[str, float], print_line: Callable[[str], None] = print) -> None:
    print_line(f"{'':34}{'reactdb':>12}{'RethinkDB':>12}")
    for name, theirs in RETHINKDB.items():
        ours = found[name]
        is_better = ours < theirs if name.endswith("ms") else ours > theirs
        shown = f"{ours:,.2f}" if name.endswith("ms") else f"{ours:,.0f}"
        print_line(f"{name:34}{shown:>12}{theirs:>12,g}{'' if is_better else '   not beaten'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="how long each figure of updates is measured"
    )
    seconds = parser.parse_args().seconds
    print(line(describe()))
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as port:
        report(measure(port, seconds))


if __name__ == "__main__":
    main()
