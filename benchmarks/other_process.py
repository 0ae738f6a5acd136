"""The latency between processes: from the write in this process to the subscriber in another.

    python -m benchmarks.other_process            # 300 commits at each pace, about ten seconds
    python -m benchmarks.other_process --json

There are two figures for each pace, in microseconds: from before the write, and from its return (an event that arrives before the
write returns counts as 0). Both processes read CLOCK_MONOTONIC, which is the same for the whole machine. The CPU time of the idle
listener, and what the listener costs the writer, are measured too.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import reactdb

# Milliseconds between two commits.
PACES_MS = (0.5, 5, 100)
IDLE_S = 2.0


def listen(path: str) -> None:
    """The other process: what it has heard of and when; on a word, what CPU time it has used."""
    heard: list[tuple[int, int]] = []
    with reactdb.connect(path, durability="soft") as db:

        def note(change: dict[str, Any]) -> None:
            heard.append((change["new_val"]["id"], time.monotonic_ns()))

        db.table("games").changes().subscribe(note)
        print("ready", flush=True)
        for word in sys.stdin:
            if word.strip() == "cpu":
                print(time.process_time(), flush=True)
            else:
                # Emptied first: whoever has the answer goes on writing.
                answer = json.dumps(heard)
                heard.clear()
                print(answer, flush=True)


def percentile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def measure(
    commits: int, durability: Any, paces_ms: Sequence[float] = PACES_MS, idle_s: float = IDLE_S
) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.db")
        with reactdb.connect(path, durability=durability) as db:
            games = db.table_create("games")
            other = subprocess.Popen(
                [sys.executable, os.path.abspath(__file__), "--listen", path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert other.stdin is not None
            assert other.stdout is not None

            def ask(word: str) -> Any:
                print(word, file=other.stdin, flush=True)
                return json.loads(other.stdout.readline())  # type: ignore[union-attr]

            assert other.stdout.readline() == "ready\n"
            found = []
            number = 0
            try:
                for pace_ms in paces_ms:
                    time.sleep(0.5)
                    ask("heard")
                    written: dict[int, tuple[int, int]] = {}
                    spent_s = 0.0
                    for _ in range(max(20, int(min(commits, 8000 / pace_ms)))):
                        number += 1
                        before_s = _cpu_s()
                        start = time.monotonic_ns()
                        games.insert({"id": number, "name": "Bob", "score": number})
                        written[number] = (start, time.monotonic_ns())
                        spent_s += _cpu_s() - before_s
                        time.sleep(pace_ms / 1000)
                    time.sleep(0.2)
                    heard = dict(ask("heard"))
                    assert heard.keys() == written.keys()
                    whole = [(heard[n] - start) / 1000 for n, (start, _) in written.items()]
                    after = [max(0.0, (heard[n] - end) / 1000) for n, (_, end) in written.items()]
                    found.append(
                        {
                            "pace_ms": pace_ms,
                            "commits": len(written),
                            "durability": durability,
                            "p50_us": percentile(whole, 0.5),
                            "p99_us": percentile(whole, 0.99),
                            "after_p50_us": percentile(after, 0.5),
                            "after_p99_us": percentile(after, 0.99),
                            "writer_cpu_us": spent_s * 1e6 / len(written),
                        }
                    )
                before_s, start_s = ask("cpu"), time.monotonic()
                time.sleep(idle_s)
                idle = (ask("cpu") - before_s) / (time.monotonic() - start_s)
            finally:
                other.stdin.close()
                other.wait(10)
            return [one | {"idle_cpu_percent": idle * 100} for one in found]


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--listen", metavar="PATH", help=argparse.SUPPRESS)
    parser.add_argument("--commits", type=int, default=300, help="at each pace")
    parser.add_argument("--durability", choices=["soft", "hard"], default="soft")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.listen:
        listen(options.listen)
        return
    found = measure(options.commits, options.durability)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    print(
        "pace ms  commits  p50 µs  p99 µs  after its return: p50  p99  writer's CPU µs  idle listener's CPU %"
    )
    for one in found:
        print(
            f"{one['pace_ms']:7g} {one['commits']:8} {one['p50_us']:7.0f} {one['p99_us']:7.0f} {one['after_p50_us']:22.0f}"
            f" {one['after_p99_us']:4.0f} {one['writer_cpu_us']:16.1f} {one['idle_cpu_percent']:22.2f}"
        )


if __name__ == "__main__":
    main()
