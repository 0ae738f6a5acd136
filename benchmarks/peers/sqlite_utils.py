"""sqlite-utils: Python dicts into SQLite tables, a column for each field. No log, no feeds.

It is used as its manual shows: `insert_all` for many, `insert` and `update` for one, each a transaction of its own. `soft` sets
`synchronous` to NORMAL; both write to a write-ahead log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import sqlite_utils

from benchmarks.documents import Document
from benchmarks.peers import Durability, Key, Layout, Peer, Store


class SqliteUtilsStore(Store):
    def __init__(self, folder: Path, layout: Layout, durability: Durability) -> None:
        self.database = sqlite_utils.Database(folder / "sqlite-utils.db")
        self.database.enable_wal()
        self.database.execute(f"PRAGMA synchronous={'FULL' if durability == 'hard' else 'NORMAL'}")
        self.table = self.database.table("documents", pk="id")
        self.indexed = layout.indexed

    def insert_all(self, documents: Sequence[Document]) -> None:
        self.table.insert_all(documents)
        if self.indexed:
            self.table.create_index(["score"], if_not_exists=True)

    def insert_each(self, documents: Sequence[Document]) -> None:
        for document in documents:
            self.table.insert(document)

    def add_to_each(self, keys: Sequence[Key]) -> None:
        for key in keys:
            self.table.update(key, {"score": self.table.get(key)["score"] + 1})

    def add_to_all(self, keys: Sequence[Key]) -> None:
        with self.database.atomic():
            self.add_to_each(keys)

    def score_each(self, scores: Sequence[tuple[Key, int]]) -> None:
        for key, score in scores:
            self.table.update(key, {"score": score})

    @contextmanager
    def score_all(self, scores: Sequence[tuple[Key, int]]) -> Iterator[None]:
        with self.database.atomic():
            self.score_each(scores)
            yield

    def get_each(self, keys: Sequence[Key]) -> int:
        return sum(self.table.get(key)["score"] for key in keys)

    def get_ranges(self, ranges: Sequence[tuple[int, int]]) -> int:
        where = "score >= ? and score < ?"
        return sum(len(list(self.table.rows_where(where, bounds, order_by="score"))) for bounds in ranges)

    def count_ranges(self, ranges: Sequence[tuple[int, int]]) -> int:
        where = "score >= ? and score < ?"
        return sum(self.table.count_where(where, bounds) for bounds in ranges)

    def top(self, count: int) -> list[int]:
        return [found["score"] for found in self.table.rows_where(order_by="score desc", limit=count)]

    def scan(self) -> int:
        return sum(document["score"] for document in list(self.table.rows_where(order_by="id")))

    def close(self) -> None:
        self.database.close()


class SqliteUtils(Peer):
    name = "sqlite-utils"
    imports = "import sqlite_utils"
    imports_to_open = imports

    def open(self, folder: Path, layout: Layout, durability: Durability) -> Store:
        return SqliteUtilsStore(folder, layout, durability)


PEERS: tuple[Peer, ...] = (SqliteUtils(),)
