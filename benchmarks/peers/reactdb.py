"""reactdb through its public API with all features; feeds are open only in the workloads about them. Its users could write
everything here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import reactdb
from benchmarks.documents import Document
from benchmarks.peers import Durability, Hear, Key, Layout, Peer, Store
from benchmarks.peers.raw import in_threads
from reactdb import desc, row

FILE = "reactdb.db"


class ReactStore(Store):
    def __init__(self, folder: Path, layout: Layout, durability: Durability) -> None:
        path = folder / FILE
        is_new = not path.exists()
        self.database = reactdb.connect(path, durability=durability)
        self.players = self.database.table("players")
        self.indexed = layout.indexed
        self.handles: list[Any] = []
        if is_new:
            self.database.table_create("players")
            if layout.indexed:
                self.players.index_create("score")

    def insert_all(self, documents: Sequence[Document]) -> None:
        self.players.insert(documents)

    def insert_each(self, documents: Sequence[Document]) -> None:
        insert = self.players.insert
        for document in documents:
            insert(document)

    def insert_from_threads(self, batches: Sequence[Sequence[Document]]) -> None:
        in_threads(self.insert_each, batches)

    def add_to_each(self, keys: Sequence[Key]) -> None:
        get, patch = self.players.get, {"score": row["score"] + 1}
        for key in keys:
            get(key).update(patch)

    def add_to_all(self, keys: Sequence[Key]) -> None:
        with self.database.transaction():
            self.add_to_each(keys)

    def score_each(self, scores: Sequence[tuple[Key, int]]) -> None:
        get = self.players.get
        for key, score in scores:
            get(key).update({"score": score})

    @contextmanager
    def score_all(self, scores: Sequence[tuple[Key, int]]) -> Iterator[None]:
        with self.database.transaction():
            self.score_each(scores)
            yield

    def get_each(self, keys: Sequence[Key]) -> int:
        get = self.players.get
        return sum(get(key).run()["score"] for key in keys)

    def get_ranges(self, ranges: Sequence[tuple[int, int]]) -> int:
        between, order = self.players.between, "score"
        return sum(len(between(low, high, index=order).order_by(index=order).run()) for low, high in ranges)

    def page(self, skip: int, count: int) -> list[int]:
        page = self.players.order_by(index="score").skip(skip).limit(count)
        return [document["score"] for document in page.run()]

    def get_each_then(self, keys: Sequence[Key]) -> int:
        at, middle = self.database.at, self.database.seq // 2
        return sum(at(middle).table("players").get(key).run()["score"] for key in keys)

    def scan(self) -> int:
        return sum(document["score"] for document in self.players)

    def replay(self, *, decode: bool) -> int:
        count = 0
        for change in self.database.log():
            if decode:
                before, after = change.old_val, change.new_val
                assert before is not after or change.catalogue
            count += 1
        # That the table and its index were made is in the log, too, and is no change of a document.
        return count - 1 - self.indexed

    def by_score(self) -> Any:
        if self.indexed:
            return self.players.order_by(index=desc("score"))
        return self.players.order_by(desc("score"))

    def top(self, count: int) -> list[int]:
        return [document["score"] for document in self.by_score().limit(count).run()]

    def hear(self, selection: Any, hear: Hear, **options: Any) -> None:
        self.handles.append(selection.changes(**options).subscribe(hear))

    def hear_table(self, hear: Hear) -> None:
        self.hear(self.players, hear)

    def hear_key(self, key: Key, hear: Hear) -> None:
        self.hear(self.players.get(key), hear)

    def hear_rating(self, rating: float, hear: Hear) -> None:
        self.hear(self.players.filter({"rating": rating}), hear)

    def hear_top(self, count: int, hear: Hear) -> None:
        self.hear(self.by_score().limit(count), hear)

    def hear_net(self, hear: Hear) -> None:
        self.hear(self.players, hear, squash=3600.0)

    def hear_all(self, hear: Hear) -> None:
        first = next(iter(self.database.log()))
        self.hear(self.players, hear, since=first.seq - 1)

    def hear_present(self, hear: Hear) -> None:
        self.hear(self.players, hear, include_initial=True)

    def hush(self) -> None:
        for handle in self.handles:
            handle.dispose()
        self.handles.clear()

    def close(self) -> None:
        self.database.close()


class React(Peer):
    name = "reactdb"
    imports = "import reactdb"
    imports_to_open = "import reactdb; reactdb.connect"

    def open(self, folder: Path, layout: Layout, durability: Durability) -> Store:
        return ReactStore(folder, layout, durability)


PEERS: tuple[Peer, ...] = (React(),)
