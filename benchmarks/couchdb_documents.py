"""`python -m benchmarks.couchdb_documents`: what revisions cost, and what `_changes` gives, without any server.

    native updates          of a table that CouchDB's dialect never served, and of one that it serves
    edits                   of a document with 10 and with 1,000 revisions before: time, and bytes of the file
    bulk_docs               10,000 new documents; the same grafted elsewhere, and grafted once more
    _changes                rows a second, with and without documents
    listeners               an edit while 100 and 10,000 feeds wait for other documents, and for other values

Processor time of this process, the median of some rounds that take turns. Every write is "soft": the disk is not measured.

Rule of this file: it prints, and checks that the work was done.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import reactdb
from reactdb.database import Database
from reactdb.dialects.couchdb.changes import ChangesRequest
from reactdb.dialects.couchdb.couch import Couch
from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.filters import SelectorFilter
from reactdb.dialects.couchdb.mango import Selector

ROUNDS = 5


def document(number: int) -> dict[str, Any]:
    return {"_id": f"k{number:06d}", "name": "a name", "n": number, "tags": ["a", "b"], "at": {"x": 1.5}}


def spent_us(work: Callable[[], object], count: int) -> float:
    begin = time.process_time()
    work()
    return (time.process_time() - begin) / count * 1e6


def compared(works: dict[str, Callable[[], object]], count: int, unit: str) -> None:
    """Print what each takes, in turns, and as a multiple of the first."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            taken[name].append(spent_us(work, count))
    first = statistics.median(next(iter(taken.values())))
    for name, times in taken.items():
        found = statistics.median(times)
        print(f"  {name:<44} {found:8.1f} µs {unit}   x {found / first:.2f}")


def native_updates(db: Database, count: int) -> None:
    print("native updates")
    db.table_create("plain", primary_key="_id")
    Couch(db).create("served")
    number = 0

    def update(name: str) -> Callable[[], None]:
        table = db.table(name)
        table.insert([document(one) for one in range(count)])

        def work() -> None:
            nonlocal number
            number += 1
            for one in range(count):
                table.get(f"k{one:06d}").update({"n": -number})

        return work

    compared({"never served": update("plain"), "served": update("served")}, count, "an update")


def edits(db: Database, path: Path, count: int) -> None:
    print("edits, by the revisions before")
    notes = Couch(db).create("edits")

    def edit(before: int) -> Callable[[], None]:
        id = f"h{before}"
        rev = notes.put({"_id": id, "n": 0})["rev"]
        for number in range(before):
            rev = notes.put({"_id": id, "_rev": rev, "n": number})["rev"]

        def work() -> None:
            nonlocal rev
            # From the same length of history in every round.
            for number in range(count):
                rev = notes.put({"_id": id, "_rev": rev, "n": number})["rev"]

        return work

    few, many = edit(10), edit(1000)
    compared({"10": few, "1,000": many}, count, "an edit")
    for name, work in (("10", few), ("1,000", many)):
        before = path.stat().st_size
        for _ in range(10):
            work()
        print(f"  {name:<44} {(path.stat().st_size - before) / count / 10:8.0f} bytes of the file an edit")


def bulk(db: Database, count: int) -> CouchDatabase:
    print(f"bulk_docs of {count:,}")
    couch = Couch(db)
    notes, copy = couch.create("bulk"), couch.create("copy")
    documents = [document(number) for number in range(count)]
    print(f"  {'new':<44} {spent_us(lambda: notes.bulk_docs(documents), count):8.1f} µs a document")
    asked = [
        {"id": row["id"], "rev": row["changes"][0]["rev"]}
        for row in notes.changes(ChangesRequest()).rows(count)
    ]
    found: list[dict[str, Any]] = []
    got = spent_us(lambda: found.extend(notes.bulk_get(asked, revs=True, latest=True)), count)
    print(f"  {'bulk_get of them':<44} {got:8.1f} µs a document")
    given = [one["docs"][0]["ok"] for one in found]
    for name in ("grafted elsewhere", "grafted once more"):
        print(
            f"  {name:<44} {spent_us(lambda: copy.bulk_docs(given, new_edits=False), count):8.1f} µs a document"
        )
    if copy.info()["doc_count"] != count:
        raise SystemExit("the documents are not there")
    return notes


def changes(notes: CouchDatabase, count: int) -> None:
    print("_changes")
    for name, request in (
        ("rows", ChangesRequest()),
        ("rows with documents", ChangesRequest(include_docs=True)),
    ):
        times = [spent_us(lambda: notes.changes(request).rows(count), count) for _ in range(ROUNDS)]  # noqa: B023
        print(f"  {name:<44} {1e6 / statistics.median(times):8,.0f} a second")


def listeners(db: Database, sizes: tuple[int, int], count: int) -> None:
    print("an edit while others wait")
    waiting: dict[str, Callable[[], object]] = {}
    woken: list[int] = []
    for kind in ("documents", "values"):
        for size in sizes:
            notes = Couch(db).create(f"{kind}-{size}")
            for number in range(size):
                if kind == "documents":
                    request = ChangesRequest("now", doc_ids=[f"other-{number}"])
                else:
                    request = ChangesRequest("now", filter=SelectorFilter(Selector({"room": f"r{number}"})))
                notes.changes(request).on_ready(lambda: woken.append(1))

            def edit(notes: CouchDatabase = notes) -> None:
                rows = notes.bulk_docs([{"room": "mine"}])
                for _ in range(count):
                    rows = notes.bulk_docs([{"_id": rows[0]["id"], "_rev": rows[0]["rev"], "room": "mine"}])

            waiting[f"{size:,} feeds of other {kind}"] = edit
    compared(waiting, count, "an edit")
    if woken:
        raise SystemExit("a feed of something else was woken")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.couchdb_documents", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--quick", action="store_true", help="a hundredth of the size: not a measurement")
    part = 100 if parser.parse_args().quick else 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "couchdb.db"
        with reactdb.connect(path, durability="soft", retention=None) as db:
            native_updates(db, 2_000 // part)
            edits(db, path, 400 // part)
            changes(bulk(db, 10_000 // part), 10_000 // part)
            listeners(db, (100 // part, 10_000 // part), 400 // part)


if __name__ == "__main__":
    main()
