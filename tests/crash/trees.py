"""CouchDB's revision trees under kills: processes edit, graft, delete, attach, write natively and compact, until they are killed.

What a process has done it says in a file of its own, a line for each revision that was acknowledged. Each process has documents
of its own, and one that all of them write.

After each round of kills: the doctor finds no problem; every revision that was acknowledged is known; no two tables disagree
about a document; each attachment has its bytes; and what `_changes` tells, grafted into an empty database, gives the same trees.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import reactdb
from reactdb.dialects.couchdb.changes import ChangesRequest
from reactdb.dialects.couchdb.couch import Couch
from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.store.newest import read_newest_by_key
from reactdb.store.tools import doctor

from .killing import Say, rounds, told

SHARED = "shared"
# Of one file. After each round all of it is looked at, with all attachments: in one file for all kills that would be quadratic.
KILLS_OF_ONE = 45


def work(db: reactdb.Database, say: Say, name: str, random: Random) -> None:
    """What a process does until it is killed."""
    notes = Couch(db).open("notes")
    while True:
        id = random.choice((f"{name}-a", f"{name}-b", SHARED))
        try:
            say(id, *one_step(db, notes, id, random))
        except CouchError as error:
            # Somebody else was quicker with the document that all of them write.
            if error.status not in (404, 409):
                raise


def one_step(db: Any, notes: CouchDatabase, id: str, random: Random) -> list[str]:
    """The revisions that it has made."""
    what = random.random()
    leaves = alive(notes, id)
    if what < 0.35:
        document = {"_id": id, "n": random.random()}
        if leaves:
            document["_rev"] = random.choice(leaves)
        return [notes.put(document)["rev"]]
    if what < 0.6:
        ids = ["h"]
        for _ in range(random.choice((1, 2, 5, 40))):
            # As a hash says of which parent it is.
            ids.insert(0, f"{ids[0]}{random.randrange(2)}" if random.random() < 0.2 else f"{ids[0]}-")
        start = len(ids)
        ids = ids[: random.choice((1, 2, 100))]
        given = {"_id": id, "_revisions": {"start": start, "ids": ids}, "_deleted": random.random() < 0.3}
        assert notes.bulk_docs([given], new_edits=False) == []
        return [f"{start}-{ids[0]}"]
    if what < 0.75:
        data = random.randbytes(random.choice((10, 5_000, 400_000)))
        return [notes.put_attachment(id, "x", data, "a/b", random.choice(leaves) if leaves else None)["rev"]]
    if what < 0.85 and leaves:
        return [notes.delete(id, random.choice(leaves))["rev"]]
    if what < 0.95:
        db.table("notes").insert({"_id": id, "native": random.random()}, conflict="replace")
        return []
    db.compact(keep=random.randrange(20))
    return []


def alive(notes: CouchDatabase, id: str) -> list[str]:
    try:
        leaves = notes.open_revs(id, "all")
    except CouchError:
        return []
    return [one["ok"]["_rev"] for one in leaves if "_deleted" not in one["ok"]]


def run(folder: Path, *, seed: int, kills: int, workers: int = 3) -> Iterator[str]:
    """So many kills, and what was wrong after any of them."""
    for begun in range(0, kills, KILLS_OF_ONE):
        inside = folder / str(begun)
        inside.mkdir()
        yield from one_file(
            inside, seed=seed + begun, kills=min(KILLS_OF_ONE, kills - begun), workers=workers
        )


def one_file(folder: Path, *, seed: int, kills: int, workers: int) -> Iterator[str]:
    random = Random(seed)
    path = folder / "notes.db"
    with reactdb.connect(path) as db:
        Couch(db).create("notes")
    expected: dict[str, set[str]] = {}
    for said, failed in rounds(work, path, random, kills=kills, workers=workers):
        yield from failed
        for id, *revs in said:
            expected.setdefault(id, set()).update(revs)
        yield from wrong(path, expected)


def main(kills: int, *, seed: int) -> int:
    return told(run, kills, seed, "processes with revisions: nothing was lost")


def wrong(path: Path, expected: dict[str, set[str]]) -> Iterator[str]:
    with reactdb.connect(path) as db:
        for _, findings in doctor.examine(str(path)):
            yield from (f"doctor: {one.message}" for one in findings if one.level == "problem")
        notes = Couch(db).open("notes")
        missing = notes.revs_diff({id: sorted(revs) for id, revs in expected.items()})
        if missing:
            yield f"these revisions were acknowledged, and are not there: {missing}"
        yield from wrong_tables(notes)
        with reactdb.connect(":memory:") as other:
            copy = Couch(other).create("copy")
            ids = [row["id"] for row in notes.changes(ChangesRequest()).rows(10_000)]
            for id in ids:
                for one in notes.open_revs(id, "all", revs=True, attachments=True):
                    copy.put(one["ok"], new_edits=False)
            for id in ids:
                leaves = notes.open_revs(id, "all", revs=True, attachments=True)
                if copy.open_revs(id, "all", revs=True, attachments=True) != leaves:
                    yield f"the tree of {id} is another one where it is made anew"


def wrong_tables(notes: CouchDatabase) -> Iterator[str]:
    """Where the table and the rows beside do not agree."""
    with notes.reading() as reading:
        tables, snapshot = reading.tables, reading.snapshot
        main, conflicts, tombstones = (
            {change.key_bytes for change in read_newest_by_key(snapshot, table)} for table in tables.watched
        )
        if main & tombstones:
            yield f"{main & tombstones} are both alive and deleted"
        if conflicts - main:
            yield f"{conflicts - main} have conflicts and no winner"
        for key in main | tombstones:
            state = reading.state_of(key)
            assert state is not None
            ranks = [leaf.rank for leaf in state.leaves]
            if ranks != sorted(ranks, reverse=True) or (key in tombstones) is ranks[0][0]:
                yield f"{key!r} does not have the winner first: {ranks}"
            paths = [reading.path(state, leaf.lineage) for leaf in state.leaves]
            for path in paths:
                if sum(other.has(path.rev) for other in paths) != 1:
                    yield f"{path.rev} of {key!r} is a leaf and an ancestor"
