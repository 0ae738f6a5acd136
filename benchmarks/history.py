"""`python -m benchmarks.history`: a file that is written to for ever under `retention="auto"`. It must stop growing.

python -m benchmarks.history                         10,000,000 updates of 1,000 documents: some half an hour
python -m benchmarks.history --updates 3000000       a line each twentieth, and each million at least

Documents of some 500 bytes are updated one by one, each in its own commit. What counts is the size of the file and of the log
beside it, and how much of one commit's turn removal has taken: processor time, so that a busy machine does not count. Wall times
are printed, and judged by whoever reads them.

Rule of this file: it exits with 1 where the file grows, or where one commit gave removal 20 ms of processor time.
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
from reactdb.session import session_of
from reactdb.store import room

DOCUMENT_PADDING = "x" * 400
EVERY = 1_000_000
MOST_REMOVAL_MS = 20.0


class Moment(NamedTuple):
    """How things stand after so many updates. Times are in milliseconds, and of the updates since the moment before: the most of
    one commit that removal took, of processor time; the longest update and the mean one, of wall time."""

    updates: int
    file_bytes: int
    wal_bytes: int
    history_bytes: int
    oldest: int
    removal_ms: float
    longest_ms: float
    mean_ms: float


class Removal:
    """The processor time that commits give to the removal of history."""

    def __init__(self, db: Any) -> None:
        self.longest_s = 0.0
        self._compaction = session_of(db).engine.writer.compaction
        self._after_commit = self._compaction.after_commit
        self._compaction.after_commit = self._timed

    def _timed(self, written: int) -> None:
        began = time.thread_time()
        self._after_commit(written)
        self.longest_s = max(self.longest_s, time.thread_time() - began)

    def since_last_ms(self) -> float:
        longest, self.longest_s = self.longest_s, 0.0
        return 1_000 * longest


def written(path: Path, updates: int, documents: int = 1_000) -> Iterator[Moment]:
    """Write, and look after each twentieth of the updates, and each million at least. Which document is next is drawn, always in
    the same way."""
    drawn = random.Random(1)
    with reactdb.connect(path, durability="soft") as db:
        games = db.table_create("games")
        games.insert([{"id": n, "n": 0, "text": DOCUMENT_PADDING} for n in range(documents)])
        removal = Removal(db)
        each = max(1, min(EVERY, updates // 20))
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
                removal.since_last_ms(),
                1_000 * longest,
                1_000 * (last - began) / each,
            )


def has_stopped_growing(moments: list[Moment], limit: int) -> bool:
    """Whether the file was, at the end, as large as when its history had first taken all its room, give or take a tenth."""
    full = [moment.file_bytes for moment in moments if moment.oldest]
    return len(full) > 1 and full[-1] <= 1.1 * full[0] and full[-1] <= 1.5 * limit


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.history",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--updates", type=int, default=10_000_000)
    parser.add_argument("--documents", type=int, default=1_000)
    parser.add_argument("--limit-mb", type=int, default=room.LEAST_BYTES // 1_000_000)
    given = parser.parse_args()
    room.LEAST_BYTES = given.limit_mb * 1_000_000
    moments = []
    print("   updates   file MB    WAL MB  history MB     oldest  removal ms  longest ms  mean ms")
    with tempfile.TemporaryDirectory() as folder:
        for now in written(Path(folder) / "a.db", given.updates, given.documents):
            moments.append(now)
            sizes = [size / 1e6 for size in (now.file_bytes, now.wal_bytes, now.history_bytes)]
            print(
                f"{now.updates:>10,} {sizes[0]:>9.1f} {sizes[1]:>9.1f} {sizes[2]:>11.1f} {now.oldest:>10,}"
                f" {now.removal_ms:>11.1f} {now.longest_ms:>11.1f} {now.mean_ms:>8.3f}",
                flush=True,
            )
    has_stopped = has_stopped_growing(moments, room.LEAST_BYTES)
    longest = max(moment.removal_ms for moment in moments)
    print("the file stopped growing" if has_stopped else "THE FILE GROWS")
    print(f"removal took {longest:.1f} ms of one commit at most")
    return 0 if has_stopped and longest < MOST_REMOVAL_MS else 1


if __name__ == "__main__":
    sys.exit(main())
