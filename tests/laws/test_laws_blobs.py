"""The laws of blobs, as a state machine against a model: what documents refer to can be read, now and in the past that is kept,
and nothing else stays for long.

Two handles write, and to SQLite they are two processes. Others die in the middle of a put.
"""

from __future__ import annotations

import shutil
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import reactdb
from reactdb.blobs import write_rows
from reactdb.session import session_of
from reactdb.store.blobs import PIECE_BYTES, add_pieces, begin_blob
from reactdb.store.tools import doctor
from reactdb.values.blob import Blob
from tests.support.processes import another_process
from tests.support.scaling import examples

# Around the ends of pieces and of commits: four of one, and up to two more.
SIZES = st.sampled_from(
    [0, 1, 1000, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 4 * PIECE_BYTES, 5 * PIECE_BYTES + 7]
)
SEEDS = st.integers(0, 2)
KEYS = st.integers(0, 4)
HANDLES = st.sampled_from([0, 1])


def content(seed: int, size: int) -> bytes:
    return bytes((seed, 1, 2, 3, 5, 7, 11)) * (size // 7) + bytes(size % 7)


class BlobLaws(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="reactdb-laws-")
        self.path = Path(self.folder) / "a.db"
        self.open()
        self.handles[0].table_create("notes")
        # What each blob holds that was ever put; of each key its document; the documents as of each seq.
        self.contents: dict[Blob, bytes] = {}
        self.documents: dict[int, dict[str, Any]] = {}
        self.past: dict[int, dict[int, dict[str, Any]]] = {0: {}}
        self.oldest = 0

    def open(self) -> None:
        self.other = another_process(self.path)
        self.handles = [reactdb.connect(self.path, durability="soft"), self.other.__enter__()]

    def close(self) -> None:
        self.other.__exit__(None, None, None)
        self.handles[0].close()

    def teardown(self) -> None:
        problems = [
            finding
            for _, findings in doctor.examine(str(self.path))
            for finding in findings
            if finding.check != "sqlite"
        ]
        self.close()
        shutil.rmtree(self.folder)
        assert [] == problems

    def remember(self) -> None:
        self.past[self.handles[0].seq] = dict(self.documents)

    @rule(handle=HANDLES, seed=SEEDS, size=SIZES, how=st.sampled_from(["bytes", "parts", "transaction"]))
    def put(self, handle: int, seed: int, size: int, how: str) -> None:
        db, data = self.handles[handle], content(seed, size)
        if how == "bytes":
            blob = db.blobs.put(data)
        elif how == "parts":
            step = 100_003
            blob = db.blobs.put(data[start : start + step] for start in range(0, size, step))
        else:
            with db.transaction():
                blob = db.blobs.put(data)
        assert size == blob.size
        self.contents[blob] = data

    @rule(handle=HANDLES, seed=SEEDS, size=SIZES)
    def put_that_is_taken_back(self, handle: int, seed: int, size: int) -> None:
        db, known = self.handles[handle], set(self.handles[handle].blobs)
        with pytest.raises(ZeroDivisionError), db.transaction():
            db.blobs.put(content(seed, size))
            raise ZeroDivisionError
        assert known == set(db.blobs)

    @rule(handle=HANDLES, seed=SEEDS, count=st.integers(0, 3))
    def die_in_the_middle(self, handle: int, seed: int, count: int) -> None:
        db, known = self.handles[handle], set(self.handles[handle].blobs)
        number = write_rows(session_of(db), begin_blob, None, "put")
        pieces = [content(seed, PIECE_BYTES)] * count
        write_rows(
            session_of(db),
            lambda connection, now: add_pieces(connection, number, 0, pieces, now),
            None,
            "put",
        )
        assert known == set(db.blobs)

    @precondition(lambda self: self.contents)
    @rule(handle=HANDLES, key=KEYS, data=st.data(), how=st.sampled_from(["one", "many", "transaction"]))
    def refer(self, handle: int, key: int, data: st.DataObject, how: str) -> None:
        db = self.handles[handle]
        blobs = data.draw(st.lists(st.sampled_from(sorted(self.contents, key=str)), min_size=1, max_size=3))
        document = {"id": key, "first": blobs[0], "others": [{"blob": blob} for blob in blobs[1:]]}
        table = db.table("notes")
        if any(blob not in db.blobs for blob in blobs):
            before = db.seq
            with pytest.raises(reactdb.errors.BlobNotFound):
                table.insert(document, conflict="replace")
            assert before == db.seq
            return
        if how == "one":
            table.insert(document, conflict="replace")
        elif how == "many":
            # Free keys go in by another way.
            table.get(key).delete()
            self.documents.pop(key, None)
            self.remember()
            table.insert([document, {"id": key + 100, "blob": blobs[0]}])
            self.documents[key] = document
            self.remember_at(db.seq - 1)
            self.documents[key + 100] = {"id": key + 100, "blob": blobs[0]}
            self.remember()
            table.get(key + 100).delete()
            del self.documents[key + 100]
        else:
            with db.transaction():
                with pytest.raises(ZeroDivisionError), db.transaction():
                    table.insert({"id": 50, "blob": blobs[-1]})
                    assert 1 == len(table.get_all(50).run())
                    raise ZeroDivisionError
                table.insert(document, conflict="replace")
        self.documents[key] = document
        self.remember()

    def remember_at(self, seq: int) -> None:
        self.past[seq] = dict(self.documents)

    @rule(handle=HANDLES, key=KEYS)
    def forget_one(self, handle: int, key: int) -> None:
        self.handles[handle].table("notes").get(key).update({"first": None})
        if key in self.documents:
            self.documents[key] = {**self.documents[key], "first": None}
        self.remember()

    @rule(handle=HANDLES, key=KEYS)
    def delete(self, handle: int, key: int) -> None:
        self.handles[handle].table("notes").get(key).delete()
        self.documents.pop(key, None)
        self.remember()

    @rule(handle=HANDLES, keep=st.integers(0, 6))
    def compact(self, handle: int, keep: int) -> None:
        self.oldest = self.handles[handle].compact(keep)["oldest"]

    @rule(handle=HANDLES)
    def drop(self, handle: int) -> None:
        db = self.handles[handle]
        db.table_drop("notes")
        db.table_create("notes")
        self.documents = {}
        # What the table held can still be read as of then, but by the name it is another one now.
        self.past = {seq: documents for seq, documents in self.past.items() if not documents}
        self.remember()

    @rule(handle=HANDLES)
    def remove_unused(self, handle: int) -> None:
        """Without history and grace, what is left is exactly what the documents hold."""
        db = self.handles[handle]
        self.oldest = db.compact(0)["oldest"]
        db.blobs.remove_unused(timedelta(0))
        assert self.referred(self.documents) == set(db.blobs)

    @rule(handle=HANDLES)
    def reopen(self, handle: int) -> None:
        self.close()
        self.open()

    @staticmethod
    def referred(documents: dict[int, dict[str, Any]]) -> set[Blob]:
        return {
            blob
            for document in documents.values()
            for blob in [
                document.get("first"),
                document.get("blob"),
                *(one["blob"] for one in document.get("others", [])),
            ]
            if blob is not None
        }

    @invariant()
    def documents_can_be_read(self) -> None:
        for db in self.handles:
            assert self.documents == {one["id"]: one for one in db.table("notes").run()}
            assert self.referred(self.documents) <= set(db.blobs)

    @invariant()
    def the_past_can_be_read(self) -> None:
        db = self.handles[0]
        for seq, documents in self.past.items():
            if seq >= self.oldest:
                assert self.referred(documents) <= set(db.blobs)

    @rule(handle=HANDLES, place=st.integers(0, 6 * PIECE_BYTES), length=st.integers(0, 2 * PIECE_BYTES))
    def read(self, handle: int, place: int, length: int) -> None:
        db = self.handles[handle]
        for blob in db.blobs:
            data = self.contents[blob]
            assert data == db.blobs.read(blob)
            with db.blobs.open(blob) as file:
                file.seek(place)
                assert data[place : place + length] == file.read(length)


TestBlobLaws = BlobLaws.TestCase
TestBlobLaws.settings = settings(max_examples=examples(200), stateful_step_count=25)
