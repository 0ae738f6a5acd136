"""TinyDB: documents in one JSON file, which every write rewrites. No index, no log, no feeds.

The cost of a write grows with the file, so workloads that would take minutes are omitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tinydb
from tinydb.operations import increment

from benchmarks.documents import Document
from benchmarks.peers import Durability, Key, Layout, NotOffered, Peer, Store

MOST_STEPS = 10_000_000
"""Documents read or written in one run, all operations together."""


class TinyStore(Store):
    def __init__(self, folder: Path) -> None:
        self.database = tinydb.TinyDB(folder / "tinydb.json")

    def check(self, operations: int, documents: int) -> None:
        if operations * documents > MOST_STEPS:
            raise NotOffered

    def insert_all(self, documents: Sequence[Document]) -> None:
        self.database.insert_multiple(documents)

    def insert_each(self, documents: Sequence[Document]) -> None:
        self.check(len(documents), len(documents))
        for document in documents:
            self.database.insert(document)

    def add_to_each(self, keys: Sequence[Key]) -> None:
        self.check(len(keys), len(self.database))
        for key in keys:
            self.database.update(increment("score"), tinydb.where("id") == key)

    def get_each(self, keys: Sequence[Key]) -> int:
        self.check(len(keys), len(self.database))
        return sum(self.database.get(tinydb.where("id") == key)["score"] for key in keys)

    def scan(self) -> int:
        return sum(document["score"] for document in self.database.all())

    def close(self) -> None:
        self.database.close()


class Tiny(Peer):
    name = "tinydb"
    imports = "import tinydb"
    imports_to_open = imports
    most_documents = 100_000

    def open(self, folder: Path, layout: Layout, durability: Durability) -> Store:
        if durability == "hard" or layout.indexed:
            raise NotOffered
        return TinyStore(folder)


PEERS: tuple[Peer, ...] = (Tiny(),)
