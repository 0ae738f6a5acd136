"""The latency of a commit to a feed in another process, and the cost of waiting for one.

    python -m tests.soak --scenario latency --minutes 1

A writer commits at odd moments, each document with the time of its commit (the monotonic clock is one for all processes of a
machine); a process with a feed, and one that runs `reactdb tail --follow`, say when they heard of it.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass

import reactdb

from .stage import ROOT

LISTENER = """
import json, resource, sys, threading, time, reactdb
db = reactdb.connect(sys.argv[1], read_only=True)
waits = []
def hear(event):
    waits.append((time.monotonic_ns() - event["new_val"]["at"]) / 1e6)
db.table("games").changes().subscribe(hear)
print("ready", flush=True)
for line in sys.stdin:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"waits": waits, "cpu": usage.ru_utime + usage.ru_stime}), flush=True)
    waits.clear()
"""


@dataclass
class Figures:
    """`latencies`: (who, p50 in ms, p99 in ms); `idle_cpu`: share of a core that a feed costs where nothing happens."""

    latencies: list[tuple[str, float, float]]
    idle_cpu: float

    def __str__(self) -> str:
        told = ", ".join(f"{name} p50 {p50:.2f} p99 {p99:.2f} ms" for name, p50, p99 in self.latencies)
        return f"{told}; idle {self.idle_cpu:.2%} of a core"


def quantiles(waits: list[float]) -> tuple[float, float]:
    waits = sorted(waits)
    if not waits:
        return float("inf"), float("inf")
    return waits[len(waits) // 2], waits[min(len(waits) - 1, int(len(waits) * 0.99))]


def measure(seconds: float, seed: int) -> Figures:
    """Three paces for a fifth of the time each: all the time, ten a second, and so seldom that polling is slow; and nothing."""
    chance = random.Random(seed)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.db")
        with reactdb.connect(path, durability="soft") as db:
            games = db.table_create("games")
            listener = subprocess.Popen(
                [sys.executable, "-c", LISTENER, path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                env=environment,
            )
            tail = subprocess.Popen(
                [sys.executable, "-m", "reactdb.cli", "tail", path, "games", "--follow", "--json"],
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                env=environment,
            )
            heard: list[float] = []

            def read_tail() -> None:
                assert tail.stdout is not None
                heard.extend(
                    (time.monotonic_ns() - json.loads(line)["new_val"]["at"]) / 1e6 for line in tail.stdout
                )

            reader = threading.Thread(target=read_tail, daemon=True)
            reader.start()
            try:
                ask = _asker(listener)
                # `tail` says nothing when it is ready: it is when it prints.
                n = 0
                end = time.monotonic() + 30
                while not heard and time.monotonic() < end:
                    n += 1
                    games.insert({"id": n, "at": time.monotonic_ns()})
                    time.sleep(0.05)
                latencies = []
                for name, pause_s in (("busy", 0.002), ("10/s", 0.1), ("seldom", 0.8)):
                    ask()
                    heard.clear()
                    end = time.monotonic() + seconds / 5
                    while time.monotonic() < end:
                        n += 1
                        games.insert({"id": n, "at": time.monotonic_ns()})
                        time.sleep(pause_s * chance.uniform(0.5, 1.5))
                    time.sleep(0.3)
                    latencies.append((f"feed {name}", *quantiles(ask()["waits"])))
                    latencies.append((f"tail {name}", *quantiles(list(heard))))
                time.sleep(1.0)
                before, start = ask()["cpu"], time.monotonic()
                time.sleep(seconds / 5)
                idle = (ask()["cpu"] - before) / (time.monotonic() - start)
            finally:
                for process in (listener, tail):
                    process.kill()
                    process.wait()
                reader.join(5)
                for process in (listener, tail):
                    for stream in (process.stdin, process.stdout):
                        if stream is not None:
                            stream.close()
    return Figures(latencies, idle)


def _asker(listener: subprocess.Popen[str]):  # type: ignore[no-untyped-def]
    assert listener.stdin is not None
    assert listener.stdout is not None
    asked, told = listener.stdin, listener.stdout
    assert told.readline().strip() == "ready"

    def ask() -> dict:  # type: ignore[type-arg]
        asked.write("\n")
        asked.flush()
        return json.loads(told.readline())  # type: ignore[no-any-return]

    return ask
