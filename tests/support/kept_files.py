"""Kept files of each format, `files/format-N-*.db.gz`, and a JSON beside each with the content that must be read from it.

A file is made once, by the code of its time, and never again, because later versions must read what earlier ones wrote.

    python -m tests.support.kept_files FOLDER      makes the files of today's format, with their JSON, in FOLDER

Rule of this file: the code may change with the library; the kept files never change.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import reactdb
from reactdb import row
from reactdb.cli import changelines
from reactdb.json import dumps
from reactdb.session import session_of
from reactdb.store import schema
from reactdb.store.positions import give_receipt

FILES = Path(__file__).parent / "files"

VALUES: list[Any] = [
    None, False, True, 0, -1, 2**53 + 1, 2**63, -(2**80), 0.0, -0.0, 1.5, 1e308, float("inf"), "", "Grüße 🙂", "a\x00b",
    b"", b"\x00\xff", [], [1, [2, [3]]], {}, {"a": {"b": None}}, Decimal("1.500"), UUID(int=7), date(2026, 7, 21),
    time(12, 30, 0, 5), timedelta(days=-1, microseconds=3), datetime(2026, 7, 21, 12, 30, tzinfo=UTC),
    datetime(2026, 7, 21, 12, 30, 0, 7, tzinfo=timezone(timedelta(hours=-3, minutes=-30))),
]  # fmt: skip


def use(path: Path) -> None:
    """Write a bit of everything, opening the file three times, so that there are three epochs; the second time compacts."""
    with reactdb.connect(path, origin="first sitting") as db:
        people = db.table_create("people")
        people.index_create("age")
        people.index_create("tags", multi=True)
        people.index_create("both", [row["name"], row["age"]])
        people.index_create("lower", row["name"].downcase())
        people.insert([{"id": n, "name": f"P{n}", "age": n % 7, "tags": ["a", n]} for n in range(40)])
        people.insert({"id": "hidden", "name": "H", "age": {"years": 4}, "tags": [None, 1]})
        people.filter(row["age"] == 3).update({"age": row["age"] + 10})
        db.table_create("values").insert([{"id": n, "value": value} for n, value in enumerate(VALUES)])
        db.table_create("keys", primary_key="key").insert(
            [
                {"key": key}
                for key in (
                    "",
                    "text",
                    2**53 + 1,
                    1.5,
                    True,
                    b"\x00",
                    [1, "a"],
                    date(2026, 7, 21),
                    UUID(int=9),
                )
            ]
        )
        gone = db.table_create("gone")
        gone.insert([{"id": n} for n in range(5)])
        people.get(5).delete()
        people.get(6).delete()
    with reactdb.connect(path) as db:
        people = db.table("people")
        people.insert({"id": 5, "name": "back"})
        people.get(7).replace({"id": 7, "name": "other"})
        db.compact(keep=30)
        db.table_drop("gone")
        db.table_create("empty")
    with reactdb.connect(path) as db:
        people = db.table("people")
        with db.transaction(origin="both at once"):
            db.table("values").get(3).update({"value": "changed"})
            people.get(8).update({"age": 99})
        people.get(9).delete()
        # The document is longer than a page, so it continues on overflow pages.
        db.table("values").insert({"id": "long", "value": "long " * 2000})


def use_long(path: Path) -> None:
    """What a file has after a longer life: tables and indexes renamed and dropped, a unique index, receipts, a hook of the
    RethinkDB dialect, many epochs, blobs, and tables that nobody has written to since compaction, one of which ends with
    a deletion."""
    with reactdb.connect(path, origin="maker") as db:
        idle = db.table_create("idle")
        idle.insert([{"id": n, "score": n % 3} for n in range(4)])
        idle.index_create("score")
        ended = db.table_create("ended")
        ended.insert([{"id": n} for n in range(3)])
        ended.get(2).delete()
        db.table_create("dropped").insert({"id": 1})
        matches = db.table_create("matches")
        info = session_of(db).info(matches.name)
        session_of(db).transact(lambda transaction: transaction.rename_table(info, "people"))
        people = db.table("people")
        people.insert({"id": 8, "age": 8})
        people.index_create("a")
        people.index_create("b")
        info = session_of(db).info("people")
        session_of(db).transact(lambda transaction: transaction.rename_index(info, "a", "score"))
        people.index_drop("b")
        people.index_create("badge", unique=True)
        people.insert([{"id": 9, "badge": "A"}, {"id": 10, "badge": None}, {"id": 11, "badge": None}])
        db.table_create("rethinkdb.table_hooks", primary_key="table").insert(
            {"table": "people", "function": json.dumps([69, [[2, [1, 2, 3]], [10, [3]]]])}
        )
    for n in range(12):
        with reactdb.connect(path, durability="soft") as db:
            people = db.table("people")
            people.insert([{"id": f"{n}/{m}", "score": m} for m in range(10)])
            people.filter(row["score"] > 7).delete()
            give(db, "a stream people", n)
            if n == 6:
                db.compact(keep=0)
            if n == 7:
                db.table_drop("dropped")
    with reactdb.connect(path) as db:
        give(db, "another stream people", 0)
        with db.transaction(origin="two tables"):
            db.table("people").get("11/0").update({"score": -1})
            db.table_create("last").insert({"id": 1})
        large, small = db.blobs.put(bytes(300_000)), db.blobs.put(b"a small one")
        db.table("last").insert([{"id": 2, "scan": large}, {"id": 3, "scans": [small, large]}])


def give(db: Any, sender: str, number: int) -> None:
    """Leave a receipt, as the sink of Spark does."""
    session_of(db).transact(lambda transaction: give_receipt(transaction, sender, number))


def contents(path: Path, *, read_only: bool = True) -> dict[str, Any]:
    """Everything that the library reads from a file, as plain JSON."""
    with reactdb.connect(path, read_only=read_only) as db:
        oldest = db.stats()["oldest"]
        return {
            "database_id": db.token.split(".")[0],
            "seq": db.seq,
            "oldest": oldest,
            "tables": {name: [dumps(document) for document in db.table(name)] for name in db.table_list()},
            "indexes": {
                f"{name}.{index}": [dumps(document) for document in db.table(name).order_by(index=index)]
                for name in db.table_list()
                for index in db.table(name).index_list()
            },
            "log": [json.loads(json.dumps(changelines.as_json(change))) for change in db.log(oldest)],
        }


def unpack(name: str, folder: Path) -> Path:
    """Unpack a kept file, with its write-ahead log if it has one, to work with it."""
    path = folder / f"{name}.db"
    for suffix in ("", "-wal"):
        packed = FILES / f"{name}.db{suffix}.gz"
        if packed.exists():
            (folder / f"{name}.db{suffix}").write_bytes(gzip.decompress(packed.read_bytes()))
    return path


def expected(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FILES / f"{name}.json").read_text(encoding="utf-8"))
    return found


def kept() -> Iterator[str]:
    """The names of all kept files."""
    for file in sorted(FILES.glob("*.json")):
        yield file.stem


def make(folder: Path) -> None:
    """Make three files of the present format: one that was closed, one with all of its changes in the write-ahead log, and one
    that has lived for longer."""
    folder.mkdir(parents=True, exist_ok=True)
    work = folder / "work.db"
    for variant in ("closed", "wal", "long"):
        name = f"format-{schema.FORMAT_VERSION}-{variant}"
        if variant == "closed":
            use(work)
        elif variant == "long":
            use_long(work)
        else:
            # A reader prevents the checkpoint when the writers close; the copy is made meanwhile.
            reactdb.connect(work).close()
            with reactdb.connect(work, read_only=True):
                use(work)
                for suffix in ("", "-wal"):
                    shutil.copy(f"{work}{suffix}", folder / f"copy.db{suffix}")
            for suffix in ("", "-wal"):
                shutil.move(folder / f"copy.db{suffix}", f"{work}{suffix}")
            pack(work, folder, name, "-wal")
        pack(work, folder, name, "")
        text = json.dumps(contents(work), ensure_ascii=False, indent=1)
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        for suffix in ("", "-wal", "-shm"):
            Path(f"{work}{suffix}").unlink(missing_ok=True)


def pack(work: Path, folder: Path, name: str, suffix: str) -> None:
    data = Path(f"{work}{suffix}").read_bytes()
    assert data, f"{name}: nothing in {work}{suffix}"
    (folder / f"{name}.db{suffix}.gz").write_bytes(gzip.compress(data, mtime=0))


if __name__ == "__main__":
    make(Path(sys.argv[1]))
