"""A synchronisation that is killed: one process brings a file and a database behind HTTP to the same state, until it is killed.

Before each kill both sides are edited: documents and their conflicts, deletions, attachments. The process has small batches, so
that it is killed in the middle of one, between the documents and the checkpoint, or behind it.

After every few kills one synchronisation comes to its end. Then both sides have the same trees with the same bytes, the doctor
finds no problem in either file, and one more finds nothing to read: it has gone on from the checkpoint of the one before.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import reactdb
from reactdb.dialects.couchdb.changes import ChangesRequest
from reactdb.dialects.couchdb.couch import Couch
from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.servers.http import serve_in_thread
from reactdb.store.tools import doctor

from .killing import PATIENCE_S, connect, context_of, told

KILLS_OF_ONE = 20
KILLS_OF_A_CHECK = 4
LONGEST_S = 0.4
BATCH = 3


def work(path: str, url: str, begun: str) -> None:
    """What the process does until it is killed."""
    db = connect(path)
    Path(begun).touch()
    while True:
        reactdb.sync(db, "notes", url, batch_size=BATCH)


def edit(notes: CouchDatabase, random: Random) -> None:
    """One edit; both sides have the same ids, so that conflicts come of them."""
    id = f"d{random.randrange(12)}"
    try:
        leaves = [one["ok"] for one in notes.open_revs(id, "all")]
    except reactdb.ReactDBError:
        leaves = []
    alive = [leaf["_rev"] for leaf in leaves if "_deleted" not in leaf]
    rev = random.choice(alive) if alive else None
    what = random.random()
    if what < 0.2 and rev is not None:
        notes.delete(id, rev)
    elif what < 0.4:
        notes.put_attachment(id, "x", random.randbytes(random.choice((10, 30_000))), "a/b", rev)
    else:
        notes.put({"_id": id, "n": random.random(), **({} if rev is None else {"_rev": rev})})


def state(notes: CouchDatabase) -> dict[str, Any]:
    """The leaves of every document, with their ancestors and bytes."""
    rows = notes.changes(ChangesRequest()).rows(10_000)
    return {
        row["id"]: notes.open_revs(row["id"], "all", revs=True, attachments=True)
        for row in sorted(rows, key=lambda row: str(row["id"]))
    }


def run(folder: Path, *, seed: int, kills: int) -> Iterator[str]:
    """So many kills, and what was wrong after any of them."""
    for begun in range(0, kills, KILLS_OF_ONE):
        inside = folder / str(begun)
        inside.mkdir()
        yield from two_files(inside, seed=seed + begun, kills=min(KILLS_OF_ONE, kills - begun))


def two_files(folder: Path, *, seed: int, kills: int) -> Iterator[str]:
    random = Random(seed)
    paths = [folder / "here.db", folder / "there.db"]
    with connect(paths[0]) as here, connect(paths[1]) as there:
        sides = [Couch(db).create("notes") for db in (here, there)]
        with serve_in_thread(there) as server:
            url = f"http://127.0.0.1:{server.port}/notes"
            for number in range(1, kills + 1):
                for _ in range(random.randrange(40)):
                    edit(random.choice(sides), random)
                yield from kill_one(folder / f"begun-{number}", str(paths[0]), url, random)
                if number % KILLS_OF_A_CHECK == 0 or number == kills:
                    yield from wrong(here, url, sides, paths)


def kill_one(begun: Path, path: str, url: str, random: Random) -> Iterator[str]:
    process = context_of(__name__).Process(target=work, args=(path, url, str(begun)))
    process.start()
    end = time.monotonic() + PATIENCE_S
    while not begun.exists() and process.is_alive():
        assert time.monotonic() < end, "a process has not begun"
        time.sleep(0.002)
    time.sleep(random.random() * LONGEST_S)
    process.kill()
    process.join()
    if process.exitcode != -signal.SIGKILL:
        yield f"a process ended by itself: {process.exitcode}"


def wrong(here: Any, url: str, sides: list[CouchDatabase], paths: list[Path]) -> Iterator[str]:
    reactdb.sync(here, "notes", url)
    left, right = map(state, sides)
    if left != right:
        yield f"the two sides differ in {[id for id in left | right if left.get(id) != right.get(id)]}"
    # What was pulled is a change of this side, of which the first one may not have told the other that it has it.
    reactdb.sync(here, "notes", url)
    again = reactdb.sync(here, "notes", url)
    for one in (again.push, again.pull):
        if one is not None and one.docs_read:
            yield f"it has not gone on from its checkpoint: {one}"
    for path in paths:
        for _, findings in doctor.examine(str(path)):
            yield from (f"doctor: {one.message}" for one in findings if one.level == "problem")


def main(kills: int, *, seed: int) -> int:
    return told(run, kills, seed, "synchronisations: both sides came to the same")
