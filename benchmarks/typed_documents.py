"""What a type costs: reads and inserts of a table with a type, against the same of dicts, in one run.

    python -m benchmarks.typed_documents
    python -m benchmarks.typed_documents --documents 100000 --rounds 9

Plain and typed work take turns, so that both have the same noise, and the least times are compared. The mark: to read a
Struct costs 1.2 times a dict at most.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable
from dataclasses import dataclass, field
from time import process_time
from typing import Any, TypedDict

import msgspec
from pydantic import BaseModel

import reactdb

MOST_FOR_A_STRUCT = 1.2


class StructPlace(msgspec.Struct):
    city: str
    zip: int


class StructTodo(msgspec.Struct):
    id: int
    title: str
    done: bool
    rank: int
    score: float
    owner: str
    note: str | None
    tags: list[str]
    place: StructPlace


@dataclass
class DataclassPlace:
    city: str
    zip: int


@dataclass
class DataclassTodo:
    id: int
    title: str
    done: bool
    rank: int
    score: float
    owner: str
    note: str | None
    place: DataclassPlace
    tags: list[str] = field(default_factory=list)


class DictPlace(TypedDict):
    city: str
    zip: int


class DictTodo(TypedDict):
    id: int
    title: str
    done: bool
    rank: int
    score: float
    owner: str
    note: str | None
    tags: list[str]
    place: DictPlace


class ModelPlace(BaseModel):
    city: str
    zip: int


class ModelTodo(BaseModel):
    id: int
    title: str
    done: bool
    rank: int
    score: float
    owner: str
    note: str | None
    tags: list[str]
    place: ModelPlace


TYPES: dict[str, Any] = {
    "dict": None,
    "Struct": StructTodo,
    "dataclass": DataclassTodo,
    "TypedDict": DictTodo,
    "pydantic": ModelTodo,
}


def make(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "title": f"buy milk {number}",
        "done": number % 2 == 0,
        "rank": number * 7919 % 1000,
        "score": number / 3,
        "owner": "bob",
        "note": None,
        "tags": ["home", "shop"],
        "place": {"city": "Ulm", "zip": 89073},
    }


def table_of(db: reactdb.Database, kind: Any) -> reactdb.Table[Any]:
    return db.table("todos") if kind is None else db.table("todos", type=kind)


def measure(works: dict[str, Callable[[], int]], rounds: int) -> dict[str, float]:
    """Microseconds of CPU for each of the things that a call does: it returns their number."""
    times: dict[str, list[float]] = {name: [] for name in works}
    names = list(works)
    for number in range(rounds):
        # Each begins once, because the first of a round may find a slower processor.
        for name in names[number % len(names) :] + names[: number % len(names)]:
            work = works[name]
            # So that none pays for what another has left.
            gc.collect()
            began = process_time()
            count = work()
            times[name].append((process_time() - began) / count * 1e6)
    return {name: min(found) for name, found in times.items()}


def scans(db: reactdb.Database) -> dict[str, Callable[[], int]]:
    return {name: lambda kind=kind: len(table_of(db, kind).run()) for name, kind in TYPES.items()}  # type: ignore[misc]


def gets(db: reactdb.Database, count: int) -> dict[str, Callable[[], int]]:
    def get_all(table: reactdb.Table[Any]) -> int:
        get = table.get
        for number in range(count):
            get(number).run()
        return count

    return {name: lambda kind=kind: get_all(table_of(db, kind)) for name, kind in TYPES.items()}  # type: ignore[misc]


def inserts(count: int) -> dict[str, Callable[[], int]]:
    def insert_all(kind: Any) -> int:
        with reactdb.connect(":memory:") as db:
            db.table_create("todos")
            table_of(db, kind).insert([make(number) for number in range(count)])
        return count

    return {name: lambda kind=kind: insert_all(kind) for name, kind in TYPES.items()}  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    with reactdb.connect(":memory:") as db:
        db.table_create("todos").insert([make(number) for number in range(given.documents)])
        tables = {
            "read all": measure(scans(db), given.rounds),
            "get": measure(gets(db, min(given.documents, 5_000)), given.rounds),
            "insert of dicts": measure(inserts(min(given.documents, 5_000)), given.rounds),
        }
    print(f"{'µs of CPU per document':24}" + "".join(f"{name:>18}" for name in TYPES))
    for work, found in tables.items():
        cells = "".join(f"{took:>10.2f} ({took / found['dict']:4.2f}x)" for took in found.values())
        print(f"{work:24}{cells}")
    for work in ("read all", "get"):
        ratio = tables[work]["Struct"] / tables[work]["dict"]
        verdict = "pass" if ratio <= MOST_FOR_A_STRUCT else "miss"
        print(f"{verdict}: {work} as Struct costs {ratio:.2f} times a dict, at most {MOST_FOR_A_STRUCT}")


if __name__ == "__main__":
    main()
