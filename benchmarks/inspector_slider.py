"""`python -m benchmarks.inspector_slider`: what the inspector's slider through time costs a program that writes.

    python -m benchmarks.inspector_slider                  1,000,000 changes of 100,000 documents, about three minutes
    python -m benchmarks.inspector_slider --changes 50000 --rounds 1 --seconds 2

`reactdb open` runs in a process of its own. Another process asks it for a page as of a random seq, again and again without a
pause, and this process writes: at a pace of 1,000 updates a second, and as fast as it can. In each round it writes alone, beside
the slider, and beside a process that only computes, in another order each time. A ratio is formed within a round. What the slider
costs beyond the process that computes is what the two share in the file: locks and checkpoints.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from statistics import median
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import reactdb

DOCUMENTS: Final = 100_000
RATE: Final = 1_000
REST, BUSY, END = 0, 1, 2


def flight(number: int, chosen: random.Random) -> dict[str, Any]:
    airline = f"airline {chosen.randrange(30)}"
    return {
        "id": number,
        "airline": airline,
        "gate": chosen.randrange(60),
        "delay": chosen.random(),
        "note": "x" * 80,
    }


def make(path: Path, changes: int) -> None:
    """A file with so many changes; an earlier run may have left it."""
    if path.exists():
        return
    chosen, unfinished = random.Random(3), path.with_suffix(".unfinished")
    documents = min(DOCUMENTS, changes // 10)
    with reactdb.connect(unfinished, durability="soft", retention=None) as db:
        flights = db.table_create("flights")
        for first in range(0, documents, 5_000):
            flights.insert([flight(number, chosen) for number in range(first, min(documents, first + 5_000))])
        while db.seq < changes:
            some = [flight(chosen.randrange(documents), chosen) for _ in range(2_000)]
            flights.insert(some, conflict="replace")
    unfinished.rename(path)


@contextmanager
def opened(path: Path) -> Iterator[tuple[int, str]]:
    """`reactdb open` in another process: its port and token."""
    command = [sys.executable, "-m", "reactdb.cli", "open", str(path), "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        address = urlsplit(process.stdout.readline().strip())
        assert address.port is not None
        yield address.port, parse_qs(address.query)["token"][0]
    finally:
        process.terminate()
        process.wait(10)


def drag(port: int, token: str, head: int, state: Synchronized[int], took_s: Any) -> None:
    """The hand at the slider, in a process of its own."""
    chosen = random.Random(5)
    connection = HTTPConnection("127.0.0.1", port)
    while state.value != END:
        if state.value == REST:
            # The server ends idle connections.
            connection.close()
            time.sleep(0.02)
            continue
        began = time.perf_counter()
        at = chosen.randrange(1, head)
        connection.request(
            "GET",
            f"/api/rows?table=flights&at={at}&offset=500&limit=50",
            headers={"Authorization": f"Bearer {token}", "X-Reactdb-Inspector": "1"},
        )
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        assert json.loads(body)["at"] == at
        took_s.put(time.perf_counter() - began)


def write(
    flights: Any, seconds: float, rate: int | None, chosen: random.Random, documents: int
) -> tuple[float, float]:
    """(writes a second, CPU microseconds of a write)."""
    began, cpu, written = time.perf_counter(), time.process_time(), 0
    while (now := time.perf_counter()) < began + seconds:
        if rate is not None and now < began + written / rate:
            time.sleep(began + written / rate - now)
        flights.get(chosen.randrange(documents)).update({"delay": chosen.random()})
        written += 1
    return written / (time.perf_counter() - began), (time.process_time() - cpu) * 1e6 / written


def percentile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def burn(state: Synchronized[int]) -> None:
    """A process that only computes."""
    while state.value != END:
        if state.value == REST:
            time.sleep(0.02)
        else:
            sum(range(10_000))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.inspector_slider")
    parser.add_argument("--changes", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    path = Path(tempfile.gettempdir()) / f"reactdb-slider-{options.changes}.db"
    make(path, options.changes)
    documents, chosen = min(DOCUMENTS, options.changes // 10), random.Random(7)
    context = multiprocessing.get_context("spawn")
    took_s: Any = context.Queue()
    states: dict[str, Any] = {name: context.Value("i", REST) for name in ("slider", "computing")}
    with reactdb.connect(path, durability="soft", retention=None) as db, opened(path) as (port, token):
        flights = db.table("flights")
        others = [
            context.Process(target=drag, args=(port, token, db.seq, states["slider"], took_s), daemon=True),
            context.Process(target=burn, args=(states["computing"],), daemon=True),
        ]
        for process in others:
            process.start()
        print(f"{db.seq:,} changes, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
        try:
            for pace, rate in (("paced", RATE), ("unpaced", None)):
                found: dict[str, list[tuple[float, float]]] = {"alone": [], "slider": [], "computing": []}
                for number in range(options.rounds):
                    names = list(found)
                    for name in names[number % 3 :] + names[: number % 3]:
                        for other, state in states.items():
                            state.value = BUSY if other == name else REST
                        # What was asked last is answered.
                        time.sleep(0.7)
                        assert all(process.is_alive() for process in others)
                        found[name].append(write(flights, options.seconds, rate, chosen, documents))
                for name, figures in found.items():
                    rates, costs = zip(*figures, strict=True)
                    line = f"{pace}, {name}: {median(rates):,.0f} writes/s, {median(costs):.0f} us CPU each"
                    if name != "alone":
                        ratios = [
                            beside[0] / alone[0]
                            for alone, beside in zip(found["alone"], figures, strict=True)
                        ]
                        every = " ".join(f"{ratio:.2f}" for ratio in ratios)
                        line += f", ratio {median(ratios):.3f} ({every})"
                    print(line)
            times: list[float] = []
            while not took_s.empty():
                times.append(took_s.get() * 1000)
            print(
                f"{len(times)} questions: p50 {percentile(times, 0.5):.0f} ms, p90 {percentile(times, 0.9):.0f}, "
                f"longest {max(times):.0f}; load {os.getloadavg()[0]:.1f}"
            )
        finally:
            for state in states.values():
                state.value = END
            for process in others:
                process.join(10)


if __name__ == "__main__":
    main()
