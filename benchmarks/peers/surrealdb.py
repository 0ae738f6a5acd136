"""SurrealDB, embedded in the process by its Python package, on its own key-value store. Documents and indexes; its live
queries are not measured, because the embedded connection does not deliver events.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from surrealdb import RecordID, Surreal

from benchmarks.documents import Document
from benchmarks.peers import Durability, Key, Layout, NotOffered, Peer, Store

TABLE = "players"


class SurrealStore(Store):
    def __init__(self, folder: Path, layout: Layout) -> None:
        path = folder / "surrealdb"
        is_new = not path.exists()
        self.database: Any = Surreal(f"surrealkv://{path}")
        self.database.use("benchmarks", "benchmarks")
        if is_new and layout.indexed:
            self.database.query(f"DEFINE INDEX by_score ON {TABLE} FIELDS score")

    def insert_all(self, documents: Sequence[Document]) -> None:
        self.database.insert(TABLE, list(documents))

    def insert_each(self, documents: Sequence[Document]) -> None:
        for document in documents:
            self.database.create(RecordID(TABLE, document["id"]), document)

    def add_to_each(self, keys: Sequence[Key]) -> None:
        for key in keys:
            self.database.query("UPDATE $record SET score += 1", {"record": RecordID(TABLE, key)})

    def score_each(self, scores: Sequence[tuple[Key, int]]) -> None:
        for key, score in scores:
            self.database.query(
                "UPDATE $record SET score = $score", {"record": RecordID(TABLE, key), "score": score}
            )

    def get_each(self, keys: Sequence[Key]) -> int:
        total = 0
        for key in keys:
            found = self.database.select(RecordID(TABLE, key))
            total += (found[0] if isinstance(found, list) else found)["score"]
        return total

    def get_ranges(self, ranges: Sequence[tuple[int, int]]) -> int:
        text = f"SELECT * FROM {TABLE} WHERE score >= $low AND score < $high ORDER BY score"
        return sum(len(self.database.query(text, {"low": low, "high": high})) for low, high in ranges)

    def top(self, count: int) -> list[int]:
        found = self.database.query(f"SELECT * FROM {TABLE} ORDER BY score DESC LIMIT {count}")
        return [document["score"] for document in found]

    def scan(self) -> int:
        return sum(document["score"] for document in self.database.select(TABLE))

    def close(self) -> None:
        self.database.close()


class Surrealdb(Peer):
    name = "surrealdb"
    imports = "import surrealdb"
    imports_to_open = imports
    most_documents = 100_000

    def open(self, folder: Path, layout: Layout, durability: Durability) -> Store:
        if durability == "hard":
            # It does not say when, or whether, a commit of the embedded store is flushed.
            raise NotOffered
        return SurrealStore(folder, layout)


PEERS: tuple[Peer, ...] = (Surrealdb(),)
