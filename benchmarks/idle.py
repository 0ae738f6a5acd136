"""What a process with open feeds costs while nothing is written, and how soon it hears of the first commit after a silence.

    python -m benchmarks.idle                # about two minutes
    python -m benchmarks.idle --seconds 3 --commits 10

CPU is user and system time of the whole process, in milliseconds a second; a wake-up is a voluntary context switch of one of
its threads. The mark is 1 ms a second, with any number of feeds, alone and beside other processes.
The latency is from before a commit of another process, after a silence of 1 to 2 seconds, until the subscriber is called; both
processes read the monotonic clock, which is the same for the whole machine.

Rule of this file: it goes through the public names only.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import reactdb
from reactdb import row

# Seconds until the pauses of a new feed have grown. (Without reports of the system: `SLOW_S / SHARE` of `store.follow`.)
SETTLE_S = 2.0
MARK_MS = 1.0


def listen(path: str, feeds: int) -> None:
    """The measured process. On a line of input it prints what it has used so far, and the times of the events."""
    heard: list[tuple[int, int]] = []
    with reactdb.connect(path, durability="soft") as db:
        table = db.table("games")
        for number in range(feeds):
            table.filter(row["score"] >= number).changes().subscribe(
                lambda change: heard.append((change["new_val"]["id"], time.monotonic_ns()))
            )
        print("ready", flush=True)
        for _ in sys.stdin:
            used = resource.getrusage(resource.RUSAGE_SELF)
            print(json.dumps([used.ru_utime + used.ru_stime, used.ru_nvcsw, heard]), flush=True)
            heard.clear()


@contextmanager
def listener(path: str, feeds: int) -> Iterator[Callable[[], Any]]:
    """Start the measured process. Yields a function that asks it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.idle", "--listen", path, "--feeds", str(feeds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def ask() -> Any:
        print("now", file=process.stdin, flush=True)
        return json.loads(process.stdout.readline())  # type: ignore[union-attr]

    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(SETTLE_S)
        yield ask
    finally:
        process.stdin.close()
        process.wait(10)


def measure_idle(
    path: str, feeds: int, seconds: float, beside: Callable[[], None] | None
) -> tuple[float, float]:
    """(CPU ms a second, wake-ups a second). `beside`: called once a second by this process."""
    with listener(path, feeds) as ask:
        start = time.monotonic()
        cpu_s, switches, _ = ask()
        while time.monotonic() - start < seconds:
            time.sleep(1.0)
            if beside is not None:
                beside()
        later_cpu_s, later_switches, _ = ask()
        took_s = time.monotonic() - start
    return (later_cpu_s - cpu_s) * 1e3 / took_s, (later_switches - switches) / took_s


def measure_latency(path: str, table: reactdb.Table, commits: int) -> list[float]:
    """Milliseconds of each commit, ascending."""
    chance = random.Random(1)
    written = {}
    with listener(path, 1) as ask:
        for number in range(commits):
            time.sleep(1 + chance.random())
            written[number] = time.monotonic_ns()
            table.insert({"id": number, "score": 1})
        time.sleep(1)
        heard = dict(ask()[2])
    return sorted((heard[number] - start) / 1e6 for number, start in written.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--listen", metavar="PATH", help=argparse.SUPPRESS)
    parser.add_argument("--feeds", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each row")
    parser.add_argument("--commits", type=int, default=30)
    options = parser.parse_args()
    if options.listen:
        listen(options.listen, options.feeds)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.db")
        with reactdb.connect(path) as db:
            db.table_create("games")
        print(f"{'CPU ms a second, wake-ups a second':44}   the mark: {MARK_MS:g} ms")

        def show(name: str, feeds: int, beside: Callable[[], None] | None = None) -> None:
            cpu_ms, wakes = measure_idle(path, feeds, options.seconds, beside)
            print(f"{name:44} {cpu_ms:6.2f} {wakes:6.1f}", flush=True)

        show("no feed", 0)
        show("one feed", 1)
        show("1,000 feeds", 1_000)
        for durability in ("soft", "hard"):
            with reactdb.connect(path, durability=durability) as db:
                table = db.table("games")
                if durability == "soft":
                    show("one feed, beside an idle process", 1)
                show(
                    f"one feed, beside one {durability} commit a second",
                    1,
                    lambda table=table: table.insert({"score": 1}),  # type: ignore[misc]
                )
        for durability in ("soft", "hard"):
            with reactdb.connect(path, durability=durability) as db:
                table = db.table("games")
                table.delete()
                waits = measure_latency(path, table, options.commits)
                p50, p99 = (waits[int((len(waits) - 1) * part)] for part in (0.5, 0.99))
                print(
                    f"a {durability} commit after a silence: p50 {p50:.2f} ms, p99 {p99:.2f} ms", flush=True
                )


if __name__ == "__main__":
    main()
