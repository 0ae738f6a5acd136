"""`python -m benchmarks.unique_indexes`: what a unique index costs a write, beside a plain index and none.

The three tables take turns in each repeat, so a ratio is formed within a repeat; the median of the ratios is printed. Figures
are CPU µs a write. Durability is soft, the file is on the disk of temporary files.

    insert      single inserts, each with a new value
    bulk        one insert of many documents
    other       single updates of a field that is not indexed: a unique index should cost nothing more here
    value       single updates of the indexed field
    swap        transactions of two updates that swap two values

Expect one search of the index a changed value: a few microseconds. Options: `--count N` (5,000), `--repeat N` (7).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import reactdb

KINDS: dict[str, dict[str, bool] | None] = {"none": None, "plain": {}, "unique": {"unique": True}}


@contextmanager
def table_of(kind: str, count: int) -> Iterator[tuple[Any, Any]]:
    """A table with `count` documents, and an index of this kind on `email`."""
    with TemporaryDirectory() as folder, reactdb.connect(Path(folder) / "a.db", durability="soft") as db:
        users = db.table_create("users")
        options = KINDS[kind]
        if options is not None:
            users.index_create("email", **options)
        if count:
            users.insert([{"id": id, "email": f"{id}@x", "name": "N", "n": 0} for id in range(count)])
        yield db, users


def insert(db: Any, users: Any, count: int) -> None:
    for id in range(count, 2 * count):
        users.insert({"id": id, "email": f"{id}@x", "name": "N", "n": 0})


def bulk(db: Any, users: Any, count: int) -> None:
    users.insert([{"id": id, "email": f"{id}@x", "name": "N", "n": 0} for id in range(count, 2 * count)])


def other(db: Any, users: Any, count: int) -> None:
    for id in range(count):
        users.get(id).update({"n": 1})


def value(db: Any, users: Any, count: int) -> None:
    for id in range(count):
        users.get(id).update({"email": f"{id}@y"})


def swap(db: Any, users: Any, count: int) -> None:
    for id in range(0, count - 1, 2):
        with db.transaction():
            users.get(id).update({"email": f"{id + 1}@x"})
            users.get(id + 1).update({"email": f"{id}@x"})


WORK: list[Callable[[Any, Any, int], None]] = [insert, bulk, other, value, swap]


def measure(kind: str, work: Callable[[Any, Any, int], None], count: int) -> float:
    """CPU µs for one of `count` writes."""
    with table_of(kind, count) as (db, users):
        start = time.process_time()
        work(db, users, count)
        return (time.process_time() - start) / count * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.unique_indexes", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--count", type=int, default=5_000)
    parser.add_argument("--repeat", type=int, default=7)
    options = parser.parse_args()
    names = list(KINDS)
    print(f"{'CPU µs per write':18}" + "".join(f"{name:>10}" for name in names) + f"{'unique/plain':>14}")
    for work in WORK:
        samples: dict[str, list[float]] = {name: [] for name in names}
        for turn in range(options.repeat):
            for place in range(len(names)):
                name = names[(turn + place) % len(names)]
                samples[name].append(measure(name, work, options.count))
        ratios = [one / plain for one, plain in zip(samples["unique"], samples["plain"], strict=True)]
        cells = "".join(f"{median(samples[name]):10.1f}" for name in names)
        print(f"{work.__name__:18}{cells}{median(ratios):14.2f}")


if __name__ == "__main__":
    main()
