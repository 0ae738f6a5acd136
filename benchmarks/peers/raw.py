"""raw: bare sqlite3 statements that a careful programmer writes for exactly this work. All others are compared with it.

Careful means: WAL, prepared statements from sqlite3's cache, explicit transactions, one reused packer, the key as
the table's own key (WITHOUT ROWID for strings, the rowid itself for integers), a page cache that holds the table, and a
checkpoint every 16 MiB as in reactdb. It does not check that documents can be stored, nor that the file still exists.

`raw+log` writes a change log in the same transaction, with the documents before and after. It can replay the log, and
it calls listeners: with loops and dicts, as a programmer writes them who knows beforehand which listeners there are. For
listeners to a limit it selects again after a commit with a score that may be in it.

`raw+log-plain` is the same from a programmer who has not measured: in bulk it fills both tables with one `executemany` each, in
the order of the documents. It differs only there, so it has no other workloads.
"""

from __future__ import annotations

import sqlite3
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from heapq import nlargest
from itertools import zip_longest
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

    def rate_each(self, ratings: Sequence[tuple[Key, float]]) -> None:
        execute, pack = self.connection.execute, msgpack.Packer().pack
        for key, rating in ratings:
            execute("BEGIN IMMEDIATE")
            (body,) = execute("SELECT body FROM documents WHERE key = ?", (key,)).fetchone()
            document = msgpack.unpackb(body)
            document["rating"] = rating
            execute("UPDATE documents SET body = ? WHERE key = ?", (pack(document), key))
            execute("COMMIT")

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

    def count_all(self) -> int:
        count: int = self.connection.execute("SELECT count(*) FROM documents").fetchone()[0]
        return count

    def count_ranges(self, ranges: Sequence[tuple[int, int]]) -> int:
        execute, text = (
            self.connection.execute,
            "SELECT count(*) FROM documents WHERE score >= ? AND score < ?",
        )
        return sum(execute(text, bounds).fetchone()[0] for bounds in ranges)

    def skip(self, offset: int, count: int) -> list[int]:
        rows = self.connection.execute(
            "SELECT body FROM documents ORDER BY score LIMIT ? OFFSET ?", (count, offset)
        )
        return [msgpack.unpackb(body)["score"] for (body,) in rows]

    def scan(self) -> int:
        unpack = msgpack.unpackb
        rows = self.connection.execute("SELECT body FROM documents ORDER BY key")
        return sum(document["score"] for document in [unpack(body) for (body,) in rows])

    def close(self) -> None:
        self.connection.close()


class RawLimit:
    """The `count` documents with the least scores of a range, as they were when they were selected last, packed."""

    TEXT = "SELECT body FROM documents WHERE score >= ? AND score < ? ORDER BY score LIMIT ?"
    __slots__ = ("bodies", "hear", "high", "parameters")

    def __init__(self, connection: Any, count: int, low: int, high: int, hear: Hear) -> None:
        self.high, self.hear = high, hear
        self.parameters = (low, high, count)
        self.bodies = self.select(connection)

    def select(self, connection: Any) -> list[bytes]:
        return [body for (body,) in connection.execute(self.TEXT, self.parameters)]


class RawLogStore(RawStore):
    """A document table and a log with both documents, in one transaction."""

    LOG = "INSERT INTO log (key, old, new) VALUES (?, ?, ?)"

    def __init__(self, folder: Path, layout: Layout, durability: Durability) -> None:
        super().__init__(folder, layout, durability)
        self.hush()
        self.connection.execute(
            "CREATE TABLE IF NOT EXISTS log (seq INTEGER PRIMARY KEY, key, old BLOB, new BLOB)"
        )
        if layout.past:
            self.connection.execute("CREATE INDEX IF NOT EXISTS log_of_key ON log (key)")

    def insert_all(self, documents: Sequence[Document]) -> None:
        execute = self.connection.execute
        if self.indexed:
            # SQL cannot find the score in a packed document.
            self.insert_into_both(documents)
            return
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

    def insert_into_both(self, documents: Sequence[Document]) -> None:
        execute = self.connection.execute
        rows = list(self.parameters(documents))
        execute("BEGIN IMMEDIATE")
        self.connection.executemany(self.insert_text, rows)
        logged = (row[:2] for row in rows) if self.indexed else rows
        self.connection.executemany("INSERT INTO log (key, new) VALUES (?, ?)", logged)
        execute("COMMIT")

    def insert_each(self, documents: Sequence[Document]) -> None:
        execute = self.connection.execute
        if not self.is_heard:
            for parameters in self.parameters(documents):
                self.insert_one(execute, parameters)
            return
        for document, parameters in zip(documents, self.parameters(documents), strict=True):
            self.insert_one(execute, parameters)
            self.untold.append((document["id"], {"old_val": None, "new_val": document}))
            self.tell()

    def insert_from_threads(self, batches: Sequence[Sequence[Document]]) -> None:
        execute = self.connection.execute
        lock = threading.Lock()

        def insert(documents: Sequence[Document]) -> None:
            for parameters in self.parameters(documents):
                with lock:
                    self.insert_one(execute, parameters)

        in_threads(insert, batches)

    def insert_one(self, execute: Any, parameters: Any) -> None:
        execute("BEGIN IMMEDIATE")
        execute(self.insert_text, parameters)
        execute(self.LOG, (parameters[0], None, parameters[1]))
        execute("COMMIT")

    def put(self, execute: Any, pack: Any, key: Key, score: int | None) -> None:
        (old,) = execute("SELECT body FROM documents WHERE key = ?", (key,)).fetchone()
        document = msgpack.unpackb(old)
        before = document.copy() if self.is_heard else None
        document["score"] = document["score"] + 1 if score is None else score
        new = pack(document)
        if self.indexed:
            execute(
                "UPDATE documents SET body = ?, score = ? WHERE key = ?",
                (new, document["score"], key),
            )
        else:
            execute("UPDATE documents SET body = ? WHERE key = ?", (new, key))
        execute(self.LOG, (key, old, new))
        if self.is_heard:
            self.untold.append((key, {"old_val": before, "new_val": document}))

    def rate_each(self, ratings: Sequence[tuple[Key, float]]) -> None:
        execute, pack, unpack = self.connection.execute, msgpack.Packer().pack, msgpack.unpackb
        for key, rating in ratings:
            execute("BEGIN IMMEDIATE")
            (old,) = execute("SELECT body FROM documents WHERE key = ?", (key,)).fetchone()
            document = unpack(old)
            before = document.copy() if self.is_heard else None
            document["rating"] = rating
            new = pack(document)
            execute("UPDATE documents SET body = ? WHERE key = ?", (new, key))
            execute(self.LOG, (key, old, new))
            execute("COMMIT")
            if self.is_heard:
                self.untold.append((key, {"old_val": before, "new_val": document}))
                self.tell()

    def get_past(self, keys: Sequence[Key]) -> int:
        execute, unpack = self.connection.execute, msgpack.unpackb
        (head,) = execute("SELECT max(seq) FROM log").fetchone()
        text = "SELECT new FROM log WHERE key = ? AND seq <= ? ORDER BY seq DESC LIMIT 1"
        found = (execute(text, (key, head // 2)).fetchone() for key in keys)
        return sum(unpack(row[0])["score"] for row in found if row is not None)

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
        if self.limits:
            self.tell_limits()
        self.untold.clear()

    def tell_limits(self) -> None:
        """Select again what a change may be in, and tell the difference."""
        concerned: dict[int, RawLimit] = {}
        for _, event in self.untold:
            for document in filter(None, event.values()):
                score = document["score"]
                first = bisect_left(self.lows, score - self.widest)
                for place in range(first, bisect_right(self.lows, score)):
                    limit = self.limits[place]
                    if score < limit.high:
                        concerned[place] = limit
        for limit in concerned.values():
            before, limit.bodies = limit.bodies, limit.select(self.connection)
            gone = [msgpack.unpackb(body) for body in before if body not in limit.bodies]
            come = [msgpack.unpackb(body) for body in limit.bodies if body not in before]
            for old, new in zip_longest(gone, come):
                limit.hear({"old_val": old, "new_val": new})

    def hear_table(self, hear: Hear) -> None:
        self.is_heard = True
        self.of_table.append(hear)

    def hear_key(self, key: Key, hear: Hear) -> None:
        self.is_heard = True
        self.of_key.setdefault(key, []).append(hear)

    def hear_rating(self, rating: float, hear: Hear) -> None:
        self.is_heard = True
        self.of_rating.setdefault(rating, []).append(hear)

    def hear_lowest(self, count: int, low: int, high: int, hear: Hear) -> None:
        self.is_heard = True
        place = bisect_right(self.lows, low)
        self.lows.insert(place, low)
        self.limits.insert(place, RawLimit(self.connection, count, low, high, hear))
        self.widest = max(self.widest, high - low)

    def hear_count(self, hear: Hear) -> None:
        # What follows is as for a listener to the table, with a counter.
        self.hear_table(hear)
        hear({"new_val": self.count_all()})

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
        # Limits of ranges of scores, and where the ranges begin, in that order; the width of the widest.
        self.limits: list[RawLimit] = []
        self.lows: list[int] = []
        self.widest = 0

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
        self.insert_into_both(documents)


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
