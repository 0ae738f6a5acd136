"""raw: bare sqlite3 statements that a careful programmer writes for exactly this work. All others are compared with it.

Careful means: WAL, prepared statements from sqlite3's cache, explicit transactions, one reused packer, the key as
the table's own key (WITHOUT ROWID for strings, the rowid itself for integers), a page cache that holds the table, and a
checkpoint every 16 MiB as in reactdb. It does not check that documents can be stored, nor that the file still exists.

`raw+log` writes a change log in the same transaction, with the documents before and after. It can replay the log, and
it calls listeners: with loops and dicts, as a programmer writes them who knows beforehand which listeners there are.

`raw+log-plain` is the same from a programmer who has not measured: in bulk it fills both tables with one `executemany` each, in
the order of the documents. It differs only there, so it has no other workloads.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from heapq import nlargest
from pathlib import Path
from typing import Any

import msgpack

from benchmarks.documents import Document
from benchmarks.peers import Durability, Hear, Key, Layout, NotOffered, Peer, Store

CHECKPOINT_PAGES = 4_000
CACHE_KIB = 65_536


class RawStore(Store):
    file = "raw.db"

    def connect(self, path: Path) -> Any:
        return sqlite3.connect(path, isolation_level=None, check_same_thread=False)

    def __init__(self, folder: Path, layout: Layout, durability: Durability) -> None:
        path = folder / self.file
        is_new = not path.exists()
        self.connection = self.connect(path)
        execute = self.connection.execute
        execute("PRAGMA journal_mode=WAL").fetchone()
        execute(f"PRAGMA synchronous={'FULL' if durability == 'hard' else 'NORMAL'}")
        execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
        execute(f"PRAGMA cache_size=-{CACHE_KIB}")
        self.indexed = layout.indexed
        self.insert_text = "INSERT INTO documents (key, body) VALUES (?, ?)"
        if layout.indexed:
            self.insert_text = "INSERT INTO documents (key, body, score) VALUES (?, ?, ?)"
        if is_new:
            key = "key INTEGER PRIMARY KEY" if layout.integer_keys else "key TEXT PRIMARY KEY"
            score = ", score INTEGER" if layout.indexed else ""
            tail = "" if layout.integer_keys else " WITHOUT ROWID"
            execute(f"CREATE TABLE documents ({key}, body BLOB NOT NULL{score}){tail}")
            if layout.indexed:
                execute("CREATE INDEX by_score ON documents (score)")

    def parameters(self, documents: Sequence[Document]) -> Any:
        """What `insert_text` binds, one document after the other."""
        pack = msgpack.Packer().pack
        if self.indexed:
            return ((document["id"], pack(document), document["score"]) for document in documents)
        return ((document["id"], pack(document)) for document in documents)

    def insert_all(self, documents: Sequence[Document]) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany(self.insert_text, self.parameters(documents))
        self.connection.execute("COMMIT")

    def insert_each(self, documents: Sequence[Document]) -> None:
        execute, text = self.connection.execute, self.insert_text
        # One statement is a transaction of its own: nothing shorter is there.
        for parameters in self.parameters(documents):
            execute(text, parameters)

    def insert_from_threads(self, batches: Sequence[Sequence[Document]]) -> None:
        # One connection under a lock: connections of their own would wait for each other asleep, which is much slower.
        execute, text = self.connection.execute, self.insert_text
        lock = threading.Lock()

        def insert(documents: Sequence[Document]) -> None:
            for parameters in self.parameters(documents):
                with lock:
                    execute(text, parameters)

        in_threads(insert, batches)

    def add_to_each(self, keys: Sequence[Key]) -> None:
        execute, pack = self.connection.execute, msgpack.Packer().pack
        for key in keys:
            execute("BEGIN IMMEDIATE")
            self.add(execute, pack, key)
            execute("COMMIT")

    def add_to_all(self, keys: Sequence[Key]) -> None:
        execute, pack = self.connection.execute, msgpack.Packer().pack
        execute("BEGIN IMMEDIATE")
        for key in keys:
            self.add(execute, pack, key)
        execute("COMMIT")

    def score_each(self, scores: Sequence[tuple[Key, int]]) -> None:
        execute, pack = self.connection.execute, msgpack.Packer().pack
        for key, score in scores:
            execute("BEGIN IMMEDIATE")
            self.put(execute, pack, key, score)
            execute("COMMIT")

    @contextmanager
    def score_all(self, scores: Sequence[tuple[Key, int]]) -> Iterator[None]:
        execute, pack = self.connection.execute, msgpack.Packer().pack
        execute("BEGIN IMMEDIATE")
        for key, score in scores:
            self.put(execute, pack, key, score)
        yield
        execute("COMMIT")

    def add(self, execute: Any, pack: Any, key: Key) -> None:
        self.put(execute, pack, key, None)

    def put(self, execute: Any, pack: Any, key: Key, score: int | None) -> None:
        """A new score; None for one more than the old."""
        (body,) = execute("SELECT body FROM documents WHERE key = ?", (key,)).fetchone()
        document = msgpack.unpackb(body)
        document["score"] = document["score"] + 1 if score is None else score
        if self.indexed:
            execute(
                "UPDATE documents SET body = ?, score = ? WHERE key = ?",
                (pack(document), document["score"], key),
            )
        else:
            execute("UPDATE documents SET body = ? WHERE key = ?", (pack(document), key))

    def top(self, count: int) -> list[int]:
        execute, unpack = self.connection.execute, msgpack.unpackb
        if self.indexed:
            rows = execute("SELECT body FROM documents ORDER BY score DESC LIMIT ?", (count,))
            return [unpack(body)["score"] for (body,) in rows]
        return nlargest(count, (unpack(body)["score"] for (body,) in execute("SELECT body FROM documents")))

    def get_each(self, keys: Sequence[Key]) -> int:
        execute, unpack = self.connection.execute, msgpack.unpackb
        total = 0
        for key in keys:
            (body,) = execute("SELECT body FROM documents WHERE key = ?", (key,)).fetchone()
            total += unpack(body)["score"]
        return total

    def get_ranges(self, ranges: Sequence[tuple[int, int]]) -> int:
        execute, unpack = self.connection.execute, msgpack.unpackb
        text = "SELECT body FROM documents WHERE score >= ? AND score < ? ORDER BY score"
        return sum(len([unpack(body) for (body,) in execute(text, bounds)]) for bounds in ranges)

    def page(self, skip: int, count: int) -> list[int]:
        unpack = msgpack.unpackb
        text = "SELECT body FROM documents ORDER BY score LIMIT ? OFFSET ?"
        rows = self.connection.execute(text, (count, skip))
        return [unpack(body)["score"] for (body,) in rows]

    def scan(self) -> int:
        unpack = msgpack.unpackb
        rows = self.connection.execute("SELECT body FROM documents ORDER BY key")
        return sum(document["score"] for document in [unpack(body) for (body,) in rows])

    def close(self) -> None:
        self.connection.close()


class RawLogStore(RawStore):
    """A document table and a log with both documents, in one transaction."""

    LOG = "INSERT INTO log (key, old, new) VALUES (?, ?, ?)"

    def __init__(self, folder: Path, layout: Layout, durability: Durability) -> None:
        if layout.indexed:
            # Reading by an index does not touch the log: raw says it all.
            raise NotOffered
        super().__init__(folder, layout, durability)
        self.hush()
        self.connection.execute(
            "CREATE TABLE IF NOT EXISTS log (seq INTEGER PRIMARY KEY, key, old BLOB, new BLOB)"
        )

    def insert_all(self, documents: Sequence[Document]) -> None:
        execute = self.connection.execute
        execute("BEGIN IMMEDIATE")
        (before,) = execute("SELECT coalesce(max(seq), 0) FROM log").fetchone()
        # The log first, and the documents from it inside of SQLite in key order: every body is bound once, and the tree
        # is filled from left to right. Two executemany cost a fifth more, with shuffled keys a third.
        self.connection.executemany(
            "INSERT INTO log (key, new) VALUES (?, ?)",
            self.parameters(documents),
        )
        execute(
            "INSERT INTO documents (key, body) SELECT key, new FROM log WHERE seq > ? ORDER BY key", (before,)
        )
        execute("COMMIT")

    def insert_each(self, documents: Sequence[Document]) -> None:
        execute = self.connection.execute
        if not self.is_heard:
            for key, body in self.parameters(documents):
                self.insert_one(execute, key, body)
            return
        pack = msgpack.Packer().pack
        for document in documents:
            self.insert_one(execute, document["id"], pack(document))
            self.untold.append((document["id"], {"old_val": None, "new_val": document}))
            self.tell()

    def insert_from_threads(self, batches: Sequence[Sequence[Document]]) -> None:
        execute = self.connection.execute
        lock = threading.Lock()

        def insert(documents: Sequence[Document]) -> None:
            for key, body in self.parameters(documents):
                with lock:
                    self.insert_one(execute, key, body)

        in_threads(insert, batches)

    def insert_one(self, execute: Any, key: Key, body: bytes) -> None:
        execute("BEGIN IMMEDIATE")
        execute(self.insert_text, (key, body))
        execute(self.LOG, (key, None, body))
        execute("COMMIT")

    def put(self, execute: Any, pack: Any, key: Key, score: int | None) -> None:
        (old,) = execute("SELECT body FROM documents WHERE key = ?", (key,)).fetchone()
        document = msgpack.unpackb(old)
        before = document.copy() if self.is_heard else None
        document["score"] = document["score"] + 1 if score is None else score
        new = pack(document)
        execute("UPDATE documents SET body = ? WHERE key = ?", (new, key))
        execute(self.LOG, (key, old, new))
        if self.is_heard:
            self.untold.append((key, {"old_val": before, "new_val": document}))

    def score_each(self, scores: Sequence[tuple[Key, int]]) -> None:
        execute, pack = self.connection.execute, msgpack.Packer().pack
        for key, score in scores:
            execute("BEGIN IMMEDIATE")
            self.put(execute, pack, key, score)
            execute("COMMIT")
            self.tell()

    @contextmanager
    def score_all(self, scores: Sequence[tuple[Key, int]]) -> Iterator[None]:
        with super().score_all(scores):
            yield
        self.tell()

    def tell(self) -> None:
        for key, event in self.untold:
            for hear in self.of_table:
                hear(event)
            for hear in self.of_key.get(key, ()):
                hear(event)
            if self.of_rating:
                # Ratings never change here; otherwise the old one would have to be looked up too.
                for hear in self.of_rating.get(event["new_val"]["rating"], ()):
                    hear(event)
            if self.net is not None:
                first = self.net.get(key)
                self.net[key] = (event if first is None else first[0], event)
        self.untold.clear()

    def hear_table(self, hear: Hear) -> None:
        self.is_heard = True
        self.of_table.append(hear)

    def hear_key(self, key: Key, hear: Hear) -> None:
        self.is_heard = True
        self.of_key.setdefault(key, []).append(hear)

    def hear_rating(self, rating: float, hear: Hear) -> None:
        self.is_heard = True
        self.of_rating.setdefault(rating, []).append(hear)

    def hear_net(self, hear: Hear) -> None:
        self.is_heard = True
        self.net: dict[Key, tuple[Any, Any]] | None = {}

    def hear_all(self, hear: Hear) -> None:
        unpack = msgpack.unpackb
        for old, new in self.connection.execute("SELECT old, new FROM log ORDER BY seq"):
            hear({"old_val": None if old is None else unpack(old), "new_val": unpack(new)})

    def hear_present(self, hear: Hear) -> None:
        unpack = msgpack.unpackb
        for (body,) in self.connection.execute("SELECT body FROM documents ORDER BY key"):
            hear({"new_val": unpack(body)})

    def hush(self) -> None:
        self.is_heard = False
        self.untold: list[tuple[Key, Any]] = []
        self.of_table: list[Hear] = []
        self.of_key: dict[Key, list[Hear]] = {}
        self.of_rating: dict[float, list[Hear]] = {}
        # The first event and the last one of each document that changed.
        self.net = None

    def replay(self, *, decode: bool) -> int:
        unpack = msgpack.unpackb
        count = 0
        for _seq, _key, old, new in self.connection.execute(
            "SELECT seq, key, old, new FROM log ORDER BY seq"
        ):
            if decode:
                before = None if old is None else unpack(old)
                after = None if new is None else unpack(new)
                assert before is not after
            count += 1
        return count


class PlainLogStore(RawLogStore):
    def insert_all(self, documents: Sequence[Document]) -> None:
        execute = self.connection.execute
        rows = list(self.parameters(documents))
        execute("BEGIN IMMEDIATE")
        self.connection.executemany(self.insert_text, rows)
        self.connection.executemany("INSERT INTO log (key, new) VALUES (?, ?)", rows)
        execute("COMMIT")


def in_threads(work: Any, batches: Sequence[Sequence[Document]]) -> None:
    """Call `work` with each batch in a thread of its own, and wait for all."""
    threads = [threading.Thread(target=work, args=(batch,)) for batch in batches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Raw(Peer):
    name = "raw"
    imports = "import sqlite3, msgpack"
    imports_to_open = imports

    def open(self, folder: Path, layout: Layout, durability: Durability) -> Store:
        return RawStore(folder, layout, durability)


class RawLog(Peer):
    name = "raw+log"

    def open(self, folder: Path, layout: Layout, durability: Durability) -> Store:
        return RawLogStore(folder, layout, durability)


class PlainLog(Peer):
    name = "raw+log-plain"

    def open(self, folder: Path, layout: Layout, durability: Durability) -> Store:
        return PlainLogStore(folder, layout, durability)

    def figures(self, workload: str, scale: float) -> dict[str, float] | None:
        if workload.partition("-")[0] != "W1":
            raise NotOffered
        return None


PEERS: tuple[Peer, ...] = (Raw(), RawLog(), PlainLog())
