"""A file that is written to for ever under `retention="auto"`: it must stop growing. `python -m tests.soak.history`.

Documents of some 500 bytes are updated one by one, each in a commit of its own. The figures that count are the size of the file
and of the log beside it; times are printed, and judged by whoever reads them.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import reactdb
from reactdb.store import room

DOCUMENT_PADDING = "x" * 400


class Moment(NamedTuple):
    """How things stand after so many updates. Times are in milliseconds: the longest of one update since the moment before."""

    updates: int
    file_bytes: int
    wal_bytes: int
    history_bytes: int
    oldest: int
    longest_ms: float
    mean_ms: float


def written(path: Path, updates: int, documents: int = 1_000, moments: int = 20) -> Iterator[Moment]:
    """Write, and look so many times. Which document is next is drawn, always in the same way."""
    drawn = random.Random(1)
    with reactdb.connect(path, durability="soft") as db:
        games = db.table_create("games")
        games.insert([{"id": n, "n": 0, "text": DOCUMENT_PADDING} for n in range(documents)])
        each = max(1, updates // moments)
        for start in range(0, updates, each):
            longest, began = 0.0, time.perf_counter()
            last = began
            for n in range(start, min(start + each, updates)):
                games.get(drawn.randrange(documents)).update({"n": n + 1})
                now = time.perf_counter()
                longest, last = max(longest, now - last), now
            found: dict[str, Any] = db.stats()
            yield Moment(
                min(start + each, updates),
                os.stat(path).st_size,
                found["wal_bytes"],
                found["history"]["bytes"],
                found["oldest"],
                1_000 * longest,
                1_000 * (last - began) / each,
            )


def has_stopped_growing(moments: list[Moment], limit: int) -> bool:
    """Whether the file was, at the end, as large as when its history had first taken all its room, give or take a tenth."""
    full = [moment.file_bytes for moment in moments if moment.oldest]
    return len(full) > 1 and full[-1] <= 1.1 * full[0] and full[-1] <= 1.5 * limit


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.history")
    parser.add_argument("--updates", type=int, default=10_000_000)
    parser.add_argument("--documents", type=int, default=1_000)
    parser.add_argument("--limit-mb", type=int, default=room.LEAST_BYTES // 1_000_000)
    given = parser.parse_args()
    room.LEAST_BYTES = given.limit_mb * 1_000_000
    moments = []
    print("   updates   file MB    WAL MB  history MB     oldest  mean ms  longest ms")
    with tempfile.TemporaryDirectory() as folder:
        for now in written(Path(folder) / "a.db", given.updates, given.documents):
            moments.append(now)
            sizes = [size / 1e6 for size in (now.file_bytes, now.wal_bytes, now.history_bytes)]
            print(
                f"{now.updates:>10,} {sizes[0]:>9.1f} {sizes[1]:>9.1f} {sizes[2]:>11.1f} {now.oldest:>10,}"
                f" {now.mean_ms:>8.3f} {now.longest_ms:>11.1f}",
                flush=True,
            )
    is_well = has_stopped_growing(moments, room.LEAST_BYTES)
    print("the file stopped growing" if is_well else "THE FILE GROWS")
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
