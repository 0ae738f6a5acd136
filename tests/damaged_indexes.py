"""Damaged indexes: damages single pages of the tree that has all index entries, and reads by each index. `test_damaged_indexes`
judges the results.

    python -m tests.damaged_indexes [--cases N] [--seed N]      many more cases than the suite has; prints what is wrong

Each read gives the right answer, or raises CorruptDatabase. After a wrong answer nobody could rely on an index.

Rule of this file: the damage is a function of the seed, and the right answers are known before it.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlite_utils.utils import sqlite3

import reactdb
from reactdb import desc, row
from reactdb.store.tools.doctor import examine

PAGE = 4096
DOCUMENTS = 300
# The kinds of page of a tree that is ordered by a key, as SQLite's file format has them.
INNER = 2


def make(path: Path) -> None:
    """A file whose index entries fill some twenty pages: simple, compound and multi indexes, and those of MongoDB's dialect."""
    with reactdb.connect(path) as db:
        people = db.table_create("people")
        people.index_create("age")
        people.index_create("place", [row["city"], row["age"]])
        people.index_create("tags", multi=True)
        people.insert(
            [
                {
                    "id": n,
                    "age": n % 23,
                    "city": f"city {n % 7}" + "y" * 20,
                    "tags": [n % 5, f"tag {n % 11}", None],
                }
                for n in range(DOCUMENTS)
            ]
        )
        people.filter(row["age"] == 3).update({"age": 30})
        for n in range(0, DOCUMENTS, 17):
            people.get(n).delete()
        orders = reactdb.mongodb(db)["shop"]["orders"]
        orders.create_index("n")
        orders.create_index([("who", 1), ("at", -1)])
        orders.create_index("parts.name")
        orders.insert_many(
            [
                {
                    "_id": n,
                    "n": n % 29,
                    "who": f"w{n % 6}",
                    "at": n * 37 % 101,
                    "parts": [{"name": n % 8}, {"name": "p"}],
                }
                for n in range(DOCUMENTS)
            ]
        )
        orders.update_many({"n": 4}, {"$set": {"n": 40}})
        orders.delete_many({"n": 5})


def reads() -> dict[str, Callable[[Any, Any], Any]]:
    """Of the table and the collection: what is read, in words, and how. No read is of a whole index."""
    found: dict[str, Callable[[Any, Any], Any]] = {}
    for age in range(0, 31, 3):
        found[f"get_all age {age}"] = lambda people, _, age=age: people.get_all(age, index="age").run()
        found[f"filter age {age}"] = lambda people, _, age=age: people.filter(row["age"] == age).run()
    for low in range(0, 20, 6):
        found[f"between age {low}"] = lambda people, _, low=low: people.between(
            low, low + 5, index="age"
        ).run()
        found[f"count between age {low}"] = lambda people, _, low=low: (
            people.between(low, low + 5, index="age").count().run()
        )
        found[f"filter above {low}"] = lambda people, _, low=low: people.filter(row["age"] > low).run()
    for n in range(7):
        city = f"city {n}" + "y" * 20
        found[f"get_all place {n}"] = lambda people, _, city=city, n=n: people.get_all(
            [city, n], index="place"
        ).run()
        found[f"between place {n}"] = lambda people, _, city=city: people.between(
            [city, 0], [city, 15], index="place"
        ).run()
    for tag in (0, 1, 2, 3, 4, *(f"tag {n}" for n in range(11))):
        found[f"get_all tags {tag}"] = lambda people, _, tag=tag: people.get_all(tag, index="tags").run()
        found[f"contains {tag}"] = lambda people, _, tag=tag: people.filter(row["tags"].contains(tag)).run()
    found["first of age"] = lambda people, _: people.order_by(index="age").limit(20).run()
    found["last of place"] = lambda people, _: people.order_by(index=desc("place")).limit(20).run()
    found["least"] = lambda people, _: people.min(index="age").run()
    found["greatest"] = lambda people, _: people.max(index="age").run()
    for n in range(0, 41, 4):
        found[f"find n {n}"] = lambda _, orders, n=n: list(orders.find({"n": n}))
    for n in range(6):
        found[f"find who {n}"] = lambda _, orders, n=n: list(orders.find({"who": f"w{n}", "at": {"$gt": 50}}))
        found[f"sorted who {n}"] = lambda _, orders, n=n: list(
            orders.find({"who": f"w{n}"}).sort("at", -1).limit(9)
        )
    for n in range(8):
        found[f"find part {n}"] = lambda _, orders, n=n: list(orders.find({"parts.name": n}))
    found["find in"] = lambda _, orders: list(orders.find({"n": {"$in": [1, 7, 28]}}))
    found["count"] = lambda _, orders: orders.count_documents({"n": {"$gte": 10, "$lt": 14}})
    found["sorted"] = lambda _, orders: list(orders.find({"n": {"$gt": 20}}).sort("n", 1).limit(12))
    return found


READS = reads()


def answers(path: Path) -> dict[str, Any]:
    """What each read gives; None where it raises CorruptDatabase."""
    found: dict[str, Any] = {}
    with reactdb.connect(path) as db:
        people, orders = db.table("people"), reactdb.mongodb(db)["shop"]["orders"]
        for words, read in READS.items():
            try:
                found[words] = read(people, orders)
            except reactdb.CorruptDatabase:
                found[words] = None
    return found


def pages_of(data: bytes, root: int) -> list[int]:
    """The numbers of all pages of a tree, without those that have the rest of a long entry."""
    found, waiting = [], [root]
    while waiting:
        number = waiting.pop()
        found.append(number)
        start = (number - 1) * PAGE
        if data[start] == INNER:
            waiting.append(int.from_bytes(data[start + 8 : start + 12]))
            for cell in range(int.from_bytes(data[start + 3 : start + 5])):
                place = start + int.from_bytes(data[start + 12 + 2 * cell : start + 14 + 2 * cell])
                waiting.append(int.from_bytes(data[place : place + 4]))
    return found


@dataclass
class Sound:
    """A file that is whole, the pages of its index entries, and the right answers."""

    path: Path
    pages: list[int]
    expected: dict[str, Any]

    @classmethod
    def make(cls, folder: Path) -> Sound:
        path = folder / "sound.db"
        make(path)
        connection = sqlite3.connect(path)
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'entries'").fetchone()
        connection.close()
        return cls(path, pages_of(path.read_bytes(), root), answers(path))


def damage(data: bytearray, pages: list[int], chance: random.Random) -> str:
    """Change one page; says how. Most of it is about what SQLite does not notice: cells, their number and their places."""
    number = chance.choice(pages)
    start = (number - 1) * PAGE
    way = chance.randrange(8)
    if way < 3:
        place, bit = chance.randrange(PAGE), chance.randrange(8)
        data[start + place] ^= 1 << bit
        return f"page {number}: bit {bit} of byte {place} flipped"
    if way == 3:
        place, bit = chance.randrange(120), chance.randrange(8)
        data[start + place] ^= 1 << bit
        return f"page {number}: bit {bit} of byte {place} flipped"
    if way == 4:
        cells = int.from_bytes(data[start + 3 : start + 5])
        left = chance.randrange(max(cells, 1))
        data[start + 3 : start + 5] = left.to_bytes(2)
        return f"page {number}: {left} of {cells} cells left"
    if way == 5:
        other = chance.choice(pages)
        data[start : start + PAGE] = data[(other - 1) * PAGE : other * PAGE]
        return f"page {number} replaced by page {other}"
    if way == 6:
        header = 12 if data[start] == INNER else 8
        cells = int.from_bytes(data[start + 3 : start + 5])
        one, two = (start + header + 2 * chance.randrange(max(cells, 1)) for _ in range(2))
        data[one : one + 2], data[two : two + 2] = data[two : two + 2], data[one : one + 2]
        return f"page {number}: two cells of {cells} change places"
    data[start : start + PAGE] = bytes(PAGE)
    return f"page {number}: zeros"


@dataclass
class Outcome:
    """What the reads of one damaged copy gave: `wrong`, the reads with another answer than the right one."""

    words: str
    wrong: list[str] = field(default_factory=list)
    raised: int = 0
    is_found: bool = False
    is_found_afterwards: bool = False


def has_problems(path: Path) -> bool:
    return any(finding.level == "problem" for _, found in examine(str(path)) for finding in found)


def try_case(sound: Sound, folder: Path, seed: int) -> Outcome:
    """Damage a copy, and read."""
    path = folder / f"case{seed}.db"
    data = bytearray(sound.path.read_bytes())
    outcome = Outcome(damage(data, sound.pages, random.Random(seed)))
    path.write_bytes(data)
    try:
        for words, answer in answers(path).items():
            if answer is None:
                outcome.raised += 1
            elif answer != sound.expected[words]:
                outcome.wrong.append(words)
        if outcome.wrong:
            outcome.is_found_afterwards = has_problems(path)
            path.write_bytes(data)
            outcome.is_found = has_problems(path)
    finally:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
    return outcome


def cases(folder: Path, seeds: range) -> Iterator[tuple[int, Outcome]]:
    sound = Sound.make(folder)
    for seed in seeds:
        yield seed, try_case(sound, folder, seed)


def run(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.damaged_indexes")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed, outcome in cases(Path(folder), range(given.seed, given.seed + given.cases)):
            found["wrong" if outcome.wrong else "told" if outcome.raised else "without effect"] += 1
            if outcome.wrong:
                print(
                    f"seed {seed}, {outcome.words}: WRONG {len(outcome.wrong)}, {outcome.wrong[:3]}; {outcome.raised} told;"
                    f" the doctor sees it: {outcome.is_found}, and after the reads: {outcome.is_found_afterwards}"
                )
    print(f"{given.cases} cases: {dict(found)}")
    return bool(found["wrong"])


if __name__ == "__main__":
    sys.exit(run())
