"""LMDB with its Python binding: a memory-mapped tree of bytes. No log, no feeds; documents are MessagePack, by their key.

The index is a second tree, from the score to the key, maintained in the same transaction, as LMDB's users do. `soft` is
`sync=False`: like a write-ahead log that is not flushed, except that a power cut may damage the file (LMDB's manual).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb
import msgpack

from benchmarks.documents import Document
from benchmarks.peers import Durability, Key, Layout, Peer, Store
from benchmarks.peers.raw import in_threads

MAP_BYTES = 4 << 30
SCORE = struct.Struct(">q")


def key_bytes(key: Key) -> bytes:
    return key.to_bytes(8, "big") if isinstance(key, int) else key.encode()


class LmdbStore(Store):
    def __init__(self, folder: Path, layout: Layout, durability: Durability) -> None:
        self.environment = lmdb.open(
            str(folder / "lmdb"), map_size=MAP_BYTES, max_dbs=2, sync=durability == "hard", writemap=False
        )
        self.documents = self.environment.open_db(b"documents")
        self.scores = self.environment.open_db(b"scores", dupsort=True) if layout.indexed else None

    def put(self, transaction: Any, pack: Any, document: Document) -> None:
        key = key_bytes(document["id"])
        transaction.put(key, pack(document), db=self.documents)
        if self.scores is not None:
            transaction.put(SCORE.pack(document["score"]), key, db=self.scores)

    def insert_all(self, documents: Sequence[Document]) -> None:
        pack = msgpack.Packer().pack
        with self.environment.begin(write=True) as transaction:
            for document in documents:
                self.put(transaction, pack, document)

    def insert_each(self, documents: Sequence[Document]) -> None:
        pack = msgpack.Packer().pack
        for document in documents:
            with self.environment.begin(write=True) as transaction:
                self.put(transaction, pack, document)

    def insert_from_threads(self, batches: Sequence[Sequence[Document]]) -> None:
        in_threads(self.insert_each, batches)

    def change(self, transaction: Any, pack: Any, key: Key, score: int | None) -> None:
        """A new score; None for one more than the old."""
        encoded = key_bytes(key)
        document = msgpack.unpackb(transaction.get(encoded, db=self.documents))
        before = document["score"]
        document["score"] = before + 1 if score is None else score
        transaction.put(encoded, pack(document), db=self.documents)
        if self.scores is not None:
            transaction.delete(SCORE.pack(before), encoded, db=self.scores)
            transaction.put(SCORE.pack(document["score"]), encoded, db=self.scores)

    def add_to_each(self, keys: Sequence[Key]) -> None:
        pack = msgpack.Packer().pack
        for key in keys:
            with self.environment.begin(write=True) as transaction:
                self.change(transaction, pack, key, None)

    def add_to_all(self, keys: Sequence[Key]) -> None:
        pack = msgpack.Packer().pack
        with self.environment.begin(write=True) as transaction:
            for key in keys:
                self.change(transaction, pack, key, None)

    def score_each(self, scores: Sequence[tuple[Key, int]]) -> None:
        pack = msgpack.Packer().pack
        for key, score in scores:
            with self.environment.begin(write=True) as transaction:
                self.change(transaction, pack, key, score)

    @contextmanager
    def score_all(self, scores: Sequence[tuple[Key, int]]) -> Iterator[None]:
        pack = msgpack.Packer().pack
        with self.environment.begin(write=True) as transaction:
            for key, score in scores:
                self.change(transaction, pack, key, score)
            yield

    def get_each(self, keys: Sequence[Key]) -> int:
        unpack, total = msgpack.unpackb, 0
        for key in keys:
            with self.environment.begin(buffers=True) as transaction:
                total += unpack(transaction.get(key_bytes(key), db=self.documents))["score"]
        return total

    def get_ranges(self, ranges: Sequence[tuple[int, int]]) -> int:
        assert self.scores is not None
        unpack, count = msgpack.unpackb, 0
        for low, high in ranges:
            end = SCORE.pack(high)
            with self.environment.begin() as transaction:
                cursor = transaction.cursor(self.scores)
                if not cursor.set_range(SCORE.pack(low)):
                    continue
                for score, key in cursor:
                    if score >= end:
                        break
                    unpack(transaction.get(key, db=self.documents))
                    count += 1
        return count

    def top(self, count: int) -> list[int]:
        unpack = msgpack.unpackb
        with self.environment.begin() as transaction:
            if self.scores is None:
                cursor = transaction.cursor(self.documents)
                return sorted((unpack(body)["score"] for _, body in cursor), reverse=True)[:count]
            found: list[int] = []
            cursor = transaction.cursor(self.scores)
            for _, key in cursor.iterprev():
                found.append(unpack(transaction.get(key, db=self.documents))["score"])
                if len(found) == count:
                    break
            return found

    def scan(self) -> int:
        unpack = msgpack.unpackb
        with self.environment.begin() as transaction:
            cursor = transaction.cursor(self.documents)
            return sum(document["score"] for document in [unpack(body) for _, body in cursor])

    def close(self) -> None:
        self.environment.close()


class Lmdb(Peer):
    name = "lmdb"
    imports = "import lmdb, msgpack"
    imports_to_open = imports

    def open(self, folder: Path, layout: Layout, durability: Durability) -> Store:
        return LmdbStore(folder, layout, durability)


PEERS: tuple[Peer, ...] = (Lmdb(),)
