"""`python -m benchmarks.mongodb_in_process`: MongoDB's collections in the process, against mongomock, on what that has, too.

    insert_one, insert_many           documents of eight fields
    find_one                          by `_id`, and by a field that has an index
    find                              everything; a range; sorted and limited
    update_one, update_many           $set and $inc, by `_id` and by a range
    delete_one, replace_one           by `_id`
    count_documents, distinct
    aggregate                         $match and $group, $unwind and $sortByCount, $lookup, $sort and $limit, expressions

The same calls go to both: PyMongo's names. mongomock keeps Python objects in memory, so this database is in memory, too; a file
in the mode "soft" is measured beside it. Processor time of this process in microseconds for one document or one call: the median
of rounds that take turns.

Rule of this file: it prints, checks that both gave the same results, and fails where mongomock is faster.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import mongomock

import reactdb

ROUNDS = 5
CITIES = ("Oslo", "Rome", "Bern", "Riga", "Nice", "York", "Linz", "Cork")


def documents(count: int) -> Iterator[dict[str, Any]]:
    chance = random.Random(7)
    for number in range(count):
        yield {
            "_id": number,
            "name": f"name {number % 997}",
            "n": chance.randrange(count),
            "price": round(chance.random() * 100, 2),
            "city": CITIES[number % len(CITIES)],
            "tags": [f"t{chance.randrange(20)}", f"t{chance.randrange(20)}"],
            "at": {"x": number % 10, "y": 1.5},
            "open": number % 3 == 0,
        }


class Work(NamedTuple):
    """A workload: what is prepared and not measured, what is, and how many units that are."""

    prepare: Callable[[Any, int], Any]
    run: Callable[[Any, int], Any]
    units: Callable[[int], int]


def filled(database: Any, count: int) -> Any:
    orders = database["orders"]
    orders.insert_many(documents(count))
    return database


def indexed(database: Any, count: int) -> Any:
    filled(database, count)
    database["orders"].create_index("n")
    database["orders"].create_index("city")
    database["cities"].insert_many([{"_id": city, "country": city[:1]} for city in CITIES])
    return database


def nothing(database: Any, count: int) -> Any:
    return database


def each(call: Callable[[Any, int, int], Any]) -> Callable[[Any, int], Any]:
    """A hundredth of the documents, each in a call of its own."""

    def run(database: Any, count: int) -> Any:
        orders = database["orders"]
        return [call(orders, number, count) for number in range(0, count, 100)]

    return run


def hundredth(count: int) -> int:
    return len(range(0, count, 100))


def whole(count: int) -> int:
    return count


def insert_each(database: Any, count: int) -> int:
    orders = database["orders"]
    for document in documents(count):
        orders.insert_one(document)
    return int(orders.count_documents({}))


def aggregated(pipeline: list[Any]) -> Callable[[Any, int], Any]:
    return lambda database, count: list(database["orders"].aggregate(pipeline))


def by_id(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: str(row["_id"]))


TOTALS = {"_id": "$city", "n": {"$sum": 1}, "mean": {"$avg": "$price"}, "most": {"$max": "$n"}}
LOOKUP = {"from": "cities", "localField": "city", "foreignField": "_id", "as": "of"}
COMPUTED = {
    "total": {"$add": ["$n", {"$multiply": ["$at.x", 2]}]},
    "label": {"$concat": ["$city", "-", "$name"]},
}

WORKLOADS: dict[str, Work] = {
    "insert_one": Work(nothing, insert_each, whole),
    "insert_many": Work(
        nothing, lambda database, count: filled(database, count)["orders"].count_documents({}), whole
    ),
    "find_one by _id": Work(indexed, each(lambda o, i, n: o.find_one({"_id": i})), hundredth),
    "find_one by an index": Work(
        indexed, each(lambda o, i, n: bool(o.find_one({"n": {"$gte": i}}))), hundredth
    ),
    "find everything": Work(indexed, lambda d, n: len(list(d["orders"].find())), whole),
    "find a range": Work(
        indexed, lambda d, n: len(list(d["orders"].find({"price": {"$gt": 50, "$lt": 75}}))), whole
    ),
    "find sorted, limited": Work(
        indexed,
        lambda d, n: [row["_id"] for row in d["orders"].find().sort([("price", 1), ("_id", 1)]).limit(10)],
        whole,
    ),
    "update_one $set by _id": Work(
        indexed,
        each(lambda o, i, n: o.update_one({"_id": i}, {"$set": {"at.y": i}}).modified_count),
        hundredth,
    ),
    "update_one $inc by _id": Work(
        indexed,
        each(lambda o, i, n: o.update_one({"_id": i}, {"$inc": {"price": 1}}).modified_count),
        hundredth,
    ),
    "update_many by a range": Work(
        indexed,
        lambda d, n: (
            d["orders"].update_many({"n": {"$lt": n // 10}}, {"$push": {"tags": "x"}}).modified_count
        ),
        lambda count: count // 10,
    ),
    "replace_one by _id": Work(
        indexed,
        each(lambda o, i, n: o.replace_one({"_id": i}, {"name": "new", "n": i}).modified_count),
        hundredth,
    ),
    "delete_one by _id": Work(
        indexed, each(lambda o, i, n: o.delete_one({"_id": i}).deleted_count), hundredth
    ),
    "count_documents": Work(
        indexed, lambda d, n: d["orders"].count_documents({"open": True, "at.x": {"$in": [1, 2]}}), whole
    ),
    "distinct": Work(indexed, lambda d, n: sorted(d["orders"].distinct("tags")), whole),
    "aggregate $match $group": Work(
        indexed,
        lambda d, n: [
            (row["_id"], row["n"], round(row["mean"], 6), row["most"])
            for row in by_id(aggregated([{"$match": {"open": True}}, {"$group": TOTALS}])(d, n))
        ],
        whole,
    ),
    "aggregate $unwind $group": Work(
        indexed,
        lambda d, n: by_id(
            aggregated([{"$unwind": "$tags"}, {"$group": {"_id": "$tags", "n": {"$sum": 1}}}])(d, n)
        ),
        whole,
    ),
    "aggregate $lookup": Work(
        indexed,
        lambda d, n: [
            row["of"][0]["country"] for row in aggregated([{"$limit": n // 10}, {"$lookup": LOOKUP}])(d, n)
        ],
        lambda count: count // 10,
    ),
    "aggregate $sort $limit": Work(
        indexed,
        lambda d, n: [
            r["_id"] for r in aggregated([{"$sort": {"price": -1, "_id": 1}}, {"$limit": 10}])(d, n)
        ],
        whole,
    ),
    "aggregate $project": Work(
        indexed,
        lambda d, n: sum(row["total"] for row in aggregated([{"$project": COMPUTED}])(d, n)),
        whole,
    ),
}


def spent_us(work: Work, database: Any, count: int) -> tuple[float, Any]:
    prepared = work.prepare(database, count)
    # What the peer before has left is not this one's.
    gc.collect()
    begin = time.process_time()
    result = work.run(prepared, count)
    return (time.process_time() - begin) / work.units(count) * 1e6, result


def in_memory(_folder: Path) -> Any:
    return reactdb.mongodb(reactdb.connect(":memory:"))["shop"]


def in_a_file(folder: Path) -> Any:
    path = folder / f"{time.monotonic_ns()}.db"
    return reactdb.mongodb(reactdb.connect(path, durability="soft"))["shop"]


def mocked(_folder: Path) -> Any:
    return mongomock.MongoClient()["shop"]


PEERS: dict[str, Callable[[Path], Any]] = {
    "in memory": in_memory,
    "in a file": in_a_file,
    "mongomock": mocked,
}


def measure(name: str, work: Work, count: int, rounds: int, folder: Path) -> bool:
    taken: dict[str, list[float]] = {peer: [] for peer in PEERS}
    results: dict[str, Any] = {}
    for _ in range(rounds):
        for peer, begin in PEERS.items():
            spent, results[peer] = spent_us(work, begin(folder), count)
            taken[peer].append(spent)
    assert results["in memory"] == results["in a file"] == results["mongomock"], (name, results)
    found = {peer: statistics.median(times) for peer, times in taken.items()}
    ratio = found["mongomock"] / found["in memory"]
    times = "  ".join(f"{found[peer]:9.1f}" for peer in PEERS)
    print(f"  {name:<26} {times}   x {ratio:.2f}{'' if ratio >= 1 else '   slower'}", flush=True)
    return ratio >= 1


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mongodb_in_process",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=5_000, help="documents; default: 5,000")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="default: %(default)s")
    parser.add_argument(
        "--workload", nargs="+", default=[], metavar="NAME", help="those that begin so; default: all"
    )
    given = parser.parse_args()
    chosen = {
        name: work
        for name, work in WORKLOADS.items()
        if not given.workload or any(name.startswith(start) for start in given.workload)
    }
    print(f"  {'microseconds':<26} {'  '.join(f'{peer:>9}' for peer in PEERS)}   times as fast as mongomock")
    with tempfile.TemporaryDirectory() as folder:
        ahead = [
            measure(name, work, given.count, given.rounds, Path(folder)) for name, work in chosen.items()
        ]
    return 0 if all(ahead) else 1


if __name__ == "__main__":
    sys.exit(main())
