"""The operations of the sweep: each is prepared once and then repeated, with another call failing each time.

Rule of this file: an operation is deterministic, also in its ids, so that the state after it can be compared.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import reactdb
from reactdb import Blob, blobs, row
from reactdb.database import Database
from reactdb.session import session_of
from reactdb.store import blobs as stored_blobs
from reactdb.store import checkpoints, schema

State = dict[str, Any]

FILES = Path(__file__).resolve().parent.parent / "support" / "files"


def state_of(db: Database) -> State:
    """All that a user can see of the present: documents, indexes and what they find, blobs, and the position."""
    found: State = {"seq": db.seq}
    whole = {str(blob): db.blobs.read(blob) for blob in db.blobs}
    if whole:
        found["blobs"] = whole
    for name in db.table_list():
        table = db.table(name)
        indexes = table.index_list()
        found[name] = {
            "documents": table.order_by().run(),
            **{index: table.order_by(index=index).run() for index in indexes},
        }
    return found


def document(n: int) -> dict[str, Any]:
    return {"id": n, "n": n % 7, "tags": [n % 3, n % 5], "text": f"{n:04} " * 120}


def fill(path: Path) -> None:
    """Where the operations begin: three tables, two indexes, some history, and a file that is closed."""
    with reactdb.connect(path, durability="soft") as db:
        games = db.table_create("games")
        games.insert([document(n) for n in range(40)])
        games.index_create("n")
        games.index_create("tags", multi=True)
        more = db.table_create("more")
        more.insert([document(n) for n in range(20)])
        db.table_create("empty")
        for turn in range(3):
            games.filter(row["n"] == turn).update({"turn": turn})
        games.between(30, 35).delete()


BLOB = bytes(range(256)) * 90


@contextmanager
def small_pieces() -> Iterator[None]:
    """Inside, a blob has pieces of a page."""
    modules = (blobs, stored_blobs)
    before = blobs.PIECE_BYTES
    for module in modules:
        module.PIECE_BYTES = 4_096  # type: ignore[misc]
    try:
        yield
    finally:
        for module in modules:
            module.PIECE_BYTES = before  # type: ignore[misc]


def put(db: Database, path: Path | None = None) -> Blob:
    with small_pieces():
        return db.blobs.put(BLOB)


def attach(db: Database, path: Path) -> None:
    blob = Blob(sha256(BLOB).hexdigest(), len(BLOB))
    db.table("games").get(1).update({"blob": blob})


def nothing(db: Database) -> None:
    pass


@dataclass(frozen=True)
class Operation:
    """One thing that a user does.

    Attributes:
        words: One of these is in the message of its failure: what was going on.
        act: Does it, to a database that `fill` has filled and that was opened a moment ago.
        before: Done first, without faults.
        opens: It opens the file itself; `act` gets None.
        is_new: The file is not there yet.
        has_log: The file was left behind by a process that died.
        kept: The file is this one, of an older format, compressed, perhaps with its write-ahead log beside it.
        closes: The database is closed afterwards.
    """

    name: str
    words: tuple[str, ...]
    act: Callable[[Database, Path], Any]
    before: Callable[[Database], Any] = nothing
    opens: bool = False
    is_new: bool = False
    has_log: bool = False
    kept: Path | None = None
    closes: bool = False


def transaction(db: Database, path: Path) -> None:
    with db.transaction():
        db.table("games").get(1).update({"n": 100})
        db.table("more").insert([document(n) for n in range(50, 60)])
        db.table("more").get(3).delete()
        db.table("empty").insert({"id": "x", "text": "y" * 9_000})


def updates(db: Database, path: Path) -> None:
    """Some that are written when something else is read, and some that are when the transaction ends."""
    with db.transaction():
        for n in range(12):
            db.table("more").get(n).update({"n": row["n"] + 100})
        assert db.table("more").count().run() == 20
        for n in range(6, 18):
            db.table("more").get(n).update({"n": n, "turn": 7})


def create(db: Database, path: Path) -> None:
    with reactdb.connect(path, busy_timeout=0.02) as made:
        made.table_create("games").insert(document(1))


def open_and_read(db: Database, path: Path) -> None:
    with reactdb.connect(path, busy_timeout=0.02) as opened:
        opened.table("games").get(1).run()


def open_and_read_all(db: Database, path: Path) -> None:
    with reactdb.connect(path, busy_timeout=0.02) as opened:
        state_of(opened)


def kept_files() -> list[Path]:
    """Files of formats that are brought to today's when they are opened."""
    found = sorted(FILES.glob("format-*-*.db.gz"))
    return [file for file in found if int(file.name.split("-")[1]) < schema.FORMAT_VERSION]


def insert_some(db: Database) -> None:
    """So many that the next change begins another of the log's blocks (see `schema.BLOCK_BITS`)."""
    db.table("more").insert([document(n) for n in range(100, 112)])


def checkpoint(db: Database, path: Path) -> None:
    writer = session_of(db).engine.writer
    assert writer is not None
    is_done = writer.run_in_turn(writer.checkpoints.run)
    left = os.stat(f"{path}-wal").st_size
    figures = session_of(db).engine.checkpoint_figures()
    if (
        is_done != figures["is_healthy"]
        or is_done == bool(figures["error"])
        or (is_done and left > checkpoints.SMALL_BYTES)
    ):
        raise AssertionError(
            f"the checkpoint gave {is_done}, {left} bytes are left, and the figures are {figures}"
        )


def bulk(db: Database, path: Path) -> None:
    db.table("games").insert([document(n) for n in range(100, 200)])


OPERATIONS = [
    Operation("create", ("cannot open", "open", "table_create", "insert"), create, opens=True, is_new=True),
    Operation("open", ("cannot open", "open", "read"), open_and_read, opens=True),
    Operation("open after a crash", ("cannot open", "open", "read"), open_and_read, opens=True, has_log=True),
    Operation("read", ("read",), lambda db, path: state_of(db)),
    Operation(
        "insert", ("insert",), lambda db, path: db.table("games").insert(document(100)), before=insert_some
    ),
    Operation(
        "soft insert",
        ("insert",),
        lambda db, path: db.table("games").insert(document(100), durability="soft"),
    ),
    Operation("bulk insert", ("insert",), bulk),
    Operation("update", ("update",), lambda db, path: db.table("games").update({"n": row["n"] + 1})),
    Operation("replace", ("replace",), lambda db, path: db.table("games").get(1).replace({"id": 1})),
    Operation("delete", ("delete",), lambda db, path: db.table("games").filter(row["n"] < 3).delete()),
    Operation("transaction", ("transaction", "insert", "update", "delete"), transaction),
    Operation("updates in a transaction", ("transaction", "update", "read"), updates),
    Operation("table create", ("table_create",), lambda db, path: db.table_create("new")),
    Operation("table drop", ("table_drop",), lambda db, path: db.table_drop("more")),
    Operation("index build", ("index_create",), lambda db, path: db.table("more").index_create("text")),
    Operation("index drop", ("index_drop",), lambda db, path: db.table("games").index_drop("tags")),
    Operation("compaction", ("compact",), lambda db, path: db.compact(keep=0)),
    Operation("vacuum", ("compact", "vacuum"), lambda db, path: db.compact(keep=0, vacuum=True)),
    Operation("a blob is put", ("blobs.put",), put),
    Operation("a blob is referred to", ("update",), attach, before=put),
    Operation("a blob is read", ("read",), lambda db, path: state_of(db), before=put),
    Operation("checkpoint", ("checkpoint",), checkpoint, before=insert_some),
    *(
        Operation(
            f"migration of {file.name.removesuffix('.db.gz')}",
            ("cannot open", "open", "read", "the file has format"),
            open_and_read_all,
            opens=True,
            kept=file,
        )
        for file in kept_files()
    ),
    Operation("close", ("close",), lambda db, path: db.close(), before=insert_some, closes=True),
]
