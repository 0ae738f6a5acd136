"""Blobs under kills: processes put blobs, write documents with them, delete and compact, until they are killed.

What a process has done it says in a file of its own, a line for each write that was acknowledged: a blob that it put, a document
that it wrote, one that it deleted. Keys belong to one process each, so its newest line of a key is what must be there, or what it
had begun after that.

After each round of kills: the doctor finds no problem; each document that was acknowledged is there with every byte of its blob;
each blob that was put within the hour is there; and a clean-up leaves the blobs of the documents and no piece besides.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

import reactdb
from reactdb import Blob, blobs
from reactdb.store import blobs as stored_blobs
from reactdb.store.tools import doctor

PIECE_BYTES = 4_096
PATIENCE_S = 60.0


def content(number: int) -> bytes:
    """Of the blob of this number; some are alike."""
    random = Random(number % 20)
    return random.randbytes(random.choice((0, 10, 4_096, 30_000, 200_000)))


def set_small_pieces() -> None:
    for module in (blobs, stored_blobs):
        module.PIECE_BYTES = PIECE_BYTES  # type: ignore[misc]


def work(path: str, said: str, seed: int) -> None:
    """One process's life, until it is killed."""
    set_small_pieces()
    random = Random(seed)
    with open(said, "a", encoding="utf-8") as out:

        def say(*words: Any) -> None:
            out.write(json.dumps(words) + "\n")
            out.flush()

        db = reactdb.connect(path, durability="soft", busy_timeout=PATIENCE_S)
        notes = db.table("notes")
        while True:
            key, number = f"{os.path.basename(said)} {random.randrange(5)}", random.randrange(1_000)
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
    set_small_pieces()
    random = Random(seed)
    path = folder / "notes.db"
    with reactdb.connect(path) as db:
        db.table_create("notes")
    context = get_context("forkserver")
    context.set_forkserver_preload(["tests.crash.attachments"])
    killed = 0
    expected: dict[str, set[int | None]] = {}
    while killed < kills:
        said = [folder / f"said-{killed + number}" for number in range(workers)]
        children = [
            context.Process(target=work, args=(str(path), str(one), random.randrange(2**32))) for one in said
        ]
        for child in children:
            child.start()
        end = time.monotonic() + PATIENCE_S
        while not all(one.exists() and one.stat().st_size > 300 for one in said) and time.monotonic() < end:
            time.sleep(0.002)
        for child in children:
            # Each at a moment of its own, while the others go on.
            time.sleep(random.random() * 0.02)
            assert child.pid is not None
            os.kill(child.pid, signal.SIGKILL)
            child.join()
            killed += 1
        put: set[int] = set()
        for one in said:
            for line in one.read_text(encoding="utf-8").splitlines():
                take_in(json.loads(line), expected, put)
        yield from wrong(path, expected, put, is_last=random.random() < 0.3)


def main(kills: int, *, seed: int) -> int:
    """Print what was wrong. Returns: the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        losses = list(run(Path(folder), seed=seed, kills=kills))
    print("\n".join(losses) or f"{kills} kills of processes with blobs: nothing was lost, nothing was left")
    return 1 if losses else 0


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
    engine, hours = db.session.engine, 2 * stored_blobs.GRACE_MS
    work = lambda rows, now: stored_blobs.remove_unused(rows, now + hours)  # noqa: E731
    while blobs.write_rows(db.session, work, None, "clean").has_more:
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
