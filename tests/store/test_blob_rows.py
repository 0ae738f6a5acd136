"""The rows of blobs: which are used, and what a put whose commit has failed takes back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from reactdb.blobs import write_rows
from reactdb.session import session_of
from reactdb.store.blobs import (
    PIECE_BYTES,
    add_pieces,
    begin_blob,
    blob_totals,
    finish_blob,
    give_up_blob,
    remove_unused,
)
from reactdb.values.blob import Blob, blobs_in, filter_blob_candidates, may_have_blobs
from reactdb.values.codec import encode


def rows_of(db: Any, statement: str) -> list[Any]:
    with session_of(db).read() as snapshot:
        found: list[Any] = snapshot.connection.execute(statement).fetchall()
        return found


def test_a_blob_is_used_as_long_as_one_entry_refers_to_it(db: Any, games: Any):
    blob = db.blobs.put(b"shared")
    assert [(0,)] == rows_of(db, "SELECT used FROM blobs")
    games.insert([{"id": 1, "blob": blob}, {"id": 2, "blobs": [blob, blob]}])
    assert [(1,)] == rows_of(db, "SELECT used FROM blobs")
    assert [(db.seq - 1, 1), (db.seq, 1)] == rows_of(db, "SELECT seq, blob FROM blob_refs")

    games.get(1).delete()
    db.compact(0)
    assert [(1,)] == rows_of(db, "SELECT used FROM blobs")
    games.get(2).delete()
    db.compact(0)
    assert [(0,)] == rows_of(db, "SELECT used FROM blobs")
    assert [] == rows_of(db, "SELECT seq, blob FROM blob_refs")


def test_documents_without_blobs_refer_to_nothing_whatever_their_bytes(db: Any, games: Any):
    """What a blob begins with can stand in a string, in bytes and in numbers."""
    looks = {"id": 1, "bytes": bytes((0xC7, 40, 64)) * 3, "text": "\u01c7", "number": 0xC72840}
    games.insert([looks, {"id": 2}])
    games.get(1).update({"n": 1})

    assert may_have_blobs(encode(looks))
    assert [] == blobs_in(encode(looks))
    assert [] == rows_of(db, "SELECT * FROM blob_refs")


def test_bodies_that_may_have_blobs_are_found():
    blob = Blob("ab" * 32, 7)
    documents = [{"id": 1}, {"id": 2, "a": [{"b": blob}]}, {"id": 3, "x": b"\xc7"}, {"id": blob}]
    bodies = [encode(document) for document in documents]

    assert [1, 3] == filter_blob_candidates(bodies)
    assert [False, True, False, True] == [may_have_blobs(body) for body in bodies]
    assert [[], [blob], [], [blob]] == [blobs_in(body) for body in bodies]


def test_a_blob_that_is_whole_is_not_given_up(db: Any):
    """As where the last commit of a put is there although it has raised."""
    blob = db.blobs.put(b"whole")

    assert not write_rows(session_of(db), lambda rows, _: give_up_blob(rows, 1), None, "test")
    assert not write_rows(session_of(db), lambda rows, _: give_up_blob(rows, 2), None, "test")
    assert b"whole" == db.blobs.read(blob)


def test_a_put_whose_last_commit_fails_keeps_what_is_whole(db: Any, monkeypatch: pytest.MonkeyPatch):
    """The commit is made, and then an error is raised: the outcome is unknown."""
    data = bytes(6 * PIECE_BYTES)

    def then_fail(session: Any, work: Any, durability: Any, operation: str) -> Any:
        result = write_rows(session, work, durability, operation)
        if result is True:
            monkeypatch.undo()
            raise ZeroDivisionError
        return result

    monkeypatch.setattr("reactdb.blobs.write_rows", then_fail)
    with pytest.raises(ZeroDivisionError):
        db.blobs.put(data)

    (blob,) = db.blobs
    assert data == db.blobs.read(blob)


def test_what_is_finished_twice_is_given_up(db: Any):
    def twice(rows: Any, now: int) -> tuple[bool, bool]:
        one, other = begin_blob(rows, now), begin_blob(rows, now)
        for number in (one, other):
            add_pieces(rows, number, 0, [b"x"], now)
        return finish_blob(rows, one, bytes(32), 1, now), finish_blob(rows, other, bytes(32), 1, now)

    assert (True, False) == write_rows(session_of(db), twice, None, "test")
    assert (1, 1) == db.blobs.totals()
    removed = write_rows(
        session_of(db), lambda rows, now: remove_unused(rows, now, unused_ms=10**6), None, "test"
    )
    assert (0, False) == removed
    assert [(1,)] == rows_of(db, "SELECT count(*) FROM pieces")


def test_held_blobs_do_not_keep_the_others(db: Any):
    blobs = [db.blobs.put(bytes([number])) for number in range(5)]
    files = [db.blobs.open(blob) for blob in blobs[:4]]

    assert 1 == db.blobs.remove_unused(timedelta(0))
    assert set(blobs[:4]) == set(db.blobs)
    for file in files:
        file.close()
    with session_of(db).read() as snapshot:
        assert (4, 4) == blob_totals(snapshot.connection)
