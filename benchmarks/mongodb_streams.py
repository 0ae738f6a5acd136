"""`python -m benchmarks.mongodb_streams`: what an insert costs while many filtered change streams wait on its collection.

    {"fullDocument.user": k}     each stream waits for documents of a user
    {"documentKey._id": k}       or for one document

Each insert concerns one stream, or by its key none, and who is concerned is told of it. The same filters are measured written as
`{"$or": [filter]}`, which says no value, so that each stream evaluates each event, as all did before. Both are
in the process, in memory, as observables of `changes()`. Processor time in microseconds for one insert with its event: the median
of rounds that take turns.

Rule of this file: it prints, and checks that each event was told once.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import Any

import reactdb

FIELDS = ("fullDocument.user", "documentKey._id")


def spent_us(field: str, count: int, number: int, *, is_found_by_value: bool) -> float:
    """The processor time of one insert, with so many streams."""
    with reactdb.connect(":memory:") as db:
        orders: Any = reactdb.mongodb(db)["shop"]["orders"]
        orders.insert_one({"_id": -1})
        told: list[Any] = []
        for one in range(count):
            match = {field: one}
            stages = [{"$match": match if is_found_by_value else {"$or": [match]}}]
            orders.changes(stages).subscribe(told.append)
        begin = time.process_time()
        for one in range(number):
            orders.insert_one({"_id": one, "user": one % count, "name": "a name"})
        spent = (time.process_time() - begin) / number * 1e6
        expected = number if field == FIELDS[0] else min(number, count)
        assert len(told) == expected, (len(told), expected)
        return spent


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mongodb_streams",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 50, 1_000])
    parser.add_argument("--inserts", type=int, default=100, help="of one round; default: %(default)s")
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    given = parser.parse_args()
    print(f"  {'microseconds of an insert':<40} {'by value':>10} {'each event':>10}   ratio")
    for field in FIELDS:
        for count in given.streams:
            rounds = [
                [spent_us(field, count, given.inserts, is_found_by_value=way) for way in (True, False)]
                for _ in range(given.rounds)
            ]
            by_value, each = (statistics.median(times) for times in zip(*rounds, strict=True))
            ratio = statistics.median(other / own for own, other in rounds)
            name = f"{count:,} streams of {field}"
            print(f"  {name:<40} {by_value:10,.0f} {each:10,.0f}   {ratio:5.1f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
