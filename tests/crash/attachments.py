"""Blobs under kills: processes put blobs, write documents with them, delete and compact, until they are killed.

What a process has done it says in a file of its own, a line for each write that was acknowledged: a blob that it put, a document
that it wrote, one that it deleted. Keys belong to one process each, so its newest line of a key is what must be there, or what it
had begun after that.

After each round of kills: the doctor finds no problem; each document that was acknowledged is there with every byte of its blob;
each blob that was put within the hour is there; and a clean-up leaves the blobs of the documents and no piece besides.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import reactdb
from reactdb import Blob, blobs
from reactdb.session import session_of
from reactdb.store import blobs as stored_blobs
from reactdb.store.tools import doctor

from .killing import Say, rounds, told
from .settings import set_in_store

PIECE_BYTES = 4_096


def content(number: int) -> bytes:
    """Of the blob of this number; some are alike."""
    random = Random(number % 20)
    return random.randbytes(random.choice((0, 10, 4_096, 30_000, 200_000)))


def work(db: reactdb.Database, say: Say, name: str, random: Random) -> None:
    """What a process does until it is killed."""
    set_in_store("PIECE_BYTES", PIECE_BYTES)
    notes = db.table("notes")
    while True:
        key, number = f"{name} {random.randrange(5)}", random.randrange(1_000)
        what = random.random()
        if what < 0.6:
            blob = db.blobs.put(content(number))
            say("put", number)
            say("begins", key, number)
            notes.insert({"id": key, "blob": blob, "number": number}, conflict="replace")
            say("has", key, number)
        elif what < 0.8:
            say("begins", key, None)
            notes.get(key).delete()
            say("has", key, None)
        elif what < 0.9:
            db.compact(keep=random.randrange(5))
        else:
            with db.transaction():
                blob = db.blobs.put(content(number))
                say("begins", key, number)
                notes.insert({"id": key, "blob": blob, "number": number}, conflict="replace")
            say("has", key, number)


def run(folder: Path, *, seed: int, kills: int, workers: int = 3) -> Iterator[str]:
    """So many kills, and what was wrong after any of them."""
    random = Random(seed)
    path = folder / "notes.db"
    with reactdb.connect(path) as db:
        db.table_create("notes")
    expected: dict[str, set[int | None]] = {}
    for said, failed in rounds(work, path, random, kills=kills, workers=workers):
        yield from failed
        put: set[int] = set()
        for words in said:
            take_in(words, expected, put)
        yield from wrong(path, expected, put, is_last=random.random() < 0.3)


def main(kills: int, *, seed: int) -> int:
    return told(run, kills, seed, "processes with blobs: nothing was lost, nothing was left")


def take_in(words: list[Any], expected: dict[str, set[int | None]], put: set[int]) -> None:
    what, *rest = words
    if what == "put":
        put.add(rest[0])
    elif what == "begins":
        expected.setdefault(rest[0], {None}).add(rest[1])
    else:
        expected[rest[0]] = {rest[1]}


def wrong(path: Path, expected: dict[str, set[int | None]], put: set[int], *, is_last: bool) -> Iterator[str]:
    """`is_last`: clean up as well."""
    with reactdb.connect(path) as db:
        for _, findings in doctor.examine(str(path)):
            yield from (f"doctor: {one.message}" for one in findings if one.level == "problem")
        for number in put:
            if blob_of(number) not in db.blobs:
                yield f"blob {number} was put, and is not there"
        found = {one["id"]: one for one in db.table("notes")}
        for key, numbers in expected.items():
            number = found[key]["number"] if key in found else None
            if number not in numbers:
                yield f"{key} has {number}, and should have one of {numbers}"
            elif number is not None and db.blobs.read(found[key]["blob"]) != content(number):
                yield f"{key} has another blob than {number}"
            expected[key] = {number}
        if is_last:
            yield from wrong_left(db, {one["blob"] for one in found.values()})


def wrong_left(db: Any, used: set[Blob]) -> Iterator[str]:
    """What is left when all history is removed, and two hours have gone by."""
    db.compact(0)
    engine, hours = session_of(db).engine, 2 * stored_blobs.GRACE_MS
    work = lambda rows, now: stored_blobs.remove_unused(rows, now + hours)  # noqa: E731
    while blobs.write_rows(session_of(db), work, None, "clean").has_more:
        pass
    if set(db.blobs) != used:
        yield f"{set(db.blobs) ^ used} are not the blobs of the documents"
    with engine.snapshot() as snapshot:
        (pieces,) = snapshot.connection.execute("SELECT count(*) FROM pieces").fetchone()
        (rows,) = snapshot.connection.execute("SELECT count(*) FROM blobs").fetchone()
    if (rows, pieces) != (len(used), sum(-(-blob.size // PIECE_BYTES) for blob in used)):
        yield f"{rows} rows and {pieces} pieces are left of {len(used)} blobs"
    db.blobs.remove_unused(timedelta(0))


def blob_of(number: int) -> Blob:
    data = content(number)
    return Blob(sha256(data).hexdigest(), len(data))
