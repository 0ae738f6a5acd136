"""RxDB and TanStack DB: two reactive databases of JavaScript, under Node. Here both are in memory, without files and logs.

Each measurement is a process that times itself, so that neither the start of Node nor the transfer of documents
counts: `node/measure.mjs`, with a file for each database. `npm ci` in that folder installs them.

RxDB uses its memory storage, the only free one that runs in Node with more than 500 documents. Neither database is durable,
so they are left out of the workloads that measure a flush to the disk; and neither has a log.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.documents import documents, key_of, keys_at_random, shuffled
from benchmarks.peers import NotOffered, Peer

FOLDER = Path(__file__).parent / "node"
TABLE, SMALL = 100_000, 1_000
LONGEST_S = 300

MOST_LISTENERS = 10_000
"""A write costs them a look at every query: with 100,000 the workload would take a day."""

Task = dict[str, Any]

made = lru_cache(maxsize=2)(documents)


class Count:
    """How many, at a scale: as the harness counts."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __call__(self, in_earnest: int, least: int = 16) -> int:
        return max(least, round(in_earnest * self.scale))


def task(workload: str, scale: float) -> Task:
    """What the process is to do: the same as `workloads` and `feed_workloads` do with the others.

    Raises:
        NotOffered: They do not have this workload.
    """
    count = Count(scale)
    family, _, form = workload.partition("-")
    match family, form:
        case "W1", "":
            return {"kind": "insertAll", "documents": made(count(100_000))}
        case "W1", "shuffled":
            return {"kind": "insertAll", "documents": shuffled(made(count(100_000)))}
        case "W2", "soft" | "soft-feed":
            return {
                "kind": "insertEach",
                "documents": made(count(10_000)),
                "is_heard": form == "soft-feed",
            }
        case "W3", "each":
            keys = keys_at_random(count(5_000), count(TABLE))
            return {"kind": "addEach", "documents": made(count(TABLE)), "keys": keys}
        case "W3", "batch":
            keys = keys_at_random(count(20_000), count(TABLE))
            return {"kind": "addAll", "documents": made(count(TABLE)), "keys": keys, "each": 1_000}
        case "W4", "":
            return {"kind": "latency", "documents": made(SMALL), "scores": scores(count(3_000), SMALL)}
        case "W5", _ if form.isdecimal():
            listeners = min(int(form), count(int(form), 10))
            writes = max(10, count(40_000) // (listeners + 20))
            return {
                "kind": "fanOut",
                "documents": made(SMALL),
                "listeners": listeners,
                "scores": scores(writes + 1, SMALL),
            }
        case "W6", _:
            return silent(form, scale)
        case "W7", "top-10" | "top-100" | "top-100-hot" | "top-1000-hot":
            return live_top(form, scale)
        case "W8", "":
            transactions = [scores(count(1_000), SMALL, turn) for turn in range(24)]
            return {"kind": "squash", "documents": made(SMALL), "transactions": transactions}
        case "W10", "get":
            keys = keys_at_random(count(20_000), count(TABLE))
            return {"kind": "getEach", "documents": made(count(TABLE)), "keys": keys}
        case "W13", "":
            return {"kind": "present", "documents": made(count(TABLE))}
    raise NotOffered


def silent(form: str, scale: float) -> Task:
    count = Count(scale)
    kind, _, number = form.partition("-")
    listeners = min(int(number), count(int(number), 10))
    if listeners > MOST_LISTENERS:
        raise NotOffered(f"with {listeners:,} open queries a write takes a good part of a second")
    ratings = [document["rating"] for document in made(SMALL)]
    listens: list[tuple[str, object]]
    if kind == "points":
        listens = [("hearKey", key_of(place)) for place in range(listeners)]
    else:
        listens = [
            ("hearRating", ratings[place] if place < SMALL else 1e6 + place) for place in range(listeners)
        ]
    # Fewer writes with more listeners: a write costs them as much as there are.
    writes = min(count(2_000), max(50, 200_000 // (listeners or 1)))
    return {
        "kind": "silent",
        "documents": made(SMALL),
        "listens": listens,
        "scores": scores(20 + writes, min(100, listeners or 100)),
    }


def live_top(form: str, scale: float) -> Task:
    # Here, because the workloads import the peers.
    from benchmarks.top_workloads import hot_scores

    size = Count(scale)(TABLE)
    window = min(int(form.split("-")[1]), size // 8)
    writes = Count(scale)(500, 50)
    given = hot_scores(made(size), 2 * window, writes, 0) if form.endswith("hot") else scores(writes, size)
    return {"kind": "liveTop", "documents": made(size), "window": window, "scores": given}


def scores(count: int, among: int, seed: int = 0) -> Any:
    from benchmarks.feed_workloads import new_scores

    return new_scores(count, among, seed)


class NodePeer(Peer):
    def __init__(self, name: str, database: str, package: str) -> None:
        self.name = name
        self.database = database
        self.package = package

    def missing(self) -> str | None:
        if shutil.which("node") is None:
            return "node is not installed"
        if not (FOLDER / "node_modules" / self.package).exists():
            return f"{self.package} is not installed: npm ci in benchmarks/peers/node"
        return None

    def figures(self, workload: str, scale: float) -> dict[str, float] | None:
        what = task(workload, scale)
        with TemporaryDirectory(prefix="reactdb-benchmarks-") as folder:
            file = Path(folder) / "task.json"
            file.write_text(json.dumps(what))
            command = ["node", str(FOLDER / "measure.mjs"), self.database, str(file)]
            try:
                ended = subprocess.run(
                    command, cwd=FOLDER, capture_output=True, text=True, timeout=LONGEST_S, check=False
                )
            except subprocess.TimeoutExpired:
                raise NotOffered(f"not done within {LONGEST_S} s") from None
        if ended.returncode:
            raise RuntimeError(f"{self.name} failed at {workload}: {ended.stderr.strip()[-2_000:]}")
        found: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
        return found


PEERS: tuple[Peer, ...] = (
    NodePeer("rxdb", "rxdb", "rxdb"),
    NodePeer("tanstack-db", "tanstack", "@tanstack/db"),
)
