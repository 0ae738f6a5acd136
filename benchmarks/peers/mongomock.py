"""mongomock: MongoDB's Python interface on dicts in memory. No files, no log, no feeds.

It has no transactions and does not use its indexes: every update loops over all documents. Workloads that would take minutes
are omitted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import mongomock

from benchmarks.documents import Document
from benchmarks.peers import Durability, Key, Layout, NotOffered, Peer, Store

MOST_STEPS = 20_000_000
"""Documents looked at in one run, all queries together."""


class MongomockStore(Store):
    """The store writes its content to a file when it is closed, and reads it when it is opened, because the workloads
    begin with a filled database."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "mongomock.json"
        self.documents = mongomock.MongoClient().benchmark.documents
        if self.path.exists():
            self.documents.insert_many(json.loads(self.path.read_text()))

    def check(self, queries: int) -> None:
        if queries * self.documents.estimated_document_count() > MOST_STEPS:
            raise NotOffered

    def insert_all(self, documents: Sequence[Document]) -> None:
        self.documents.insert_many([{**document, "_id": document["id"]} for document in documents])

    def insert_each(self, documents: Sequence[Document]) -> None:
        for document in documents:
            self.documents.insert_one({**document, "_id": document["id"]})

    def add_to_each(self, keys: Sequence[Key]) -> None:
        self.check(len(keys))
        for key in keys:
            self.documents.update_one({"_id": key}, {"$inc": {"score": 1}})

    def score_each(self, scores: Sequence[tuple[Key, int]]) -> None:
        self.check(len(scores))
        for key, score in scores:
            self.documents.update_one({"_id": key}, {"$set": {"score": score}})

    def get_each(self, keys: Sequence[Key]) -> int:
        return sum(self.documents.find_one({"_id": key})["score"] for key in keys)

    def scan(self) -> int:
        return sum(document["score"] for document in self.documents.find({}))

    def close(self) -> None:
        self.path.write_text(json.dumps(list(self.documents.find({}))))


class Mongomock(Peer):
    name = "mongomock"
    imports = "import mongomock"
    imports_to_open = imports
    most_documents = 100_000

    def open(self, folder: Path, layout: Layout, durability: Durability) -> Store:
        if durability == "hard" or layout.indexed:
            raise NotOffered
        return MongomockStore(folder)


PEERS: tuple[Peer, ...] = (Mongomock(),)
