"""A write-ahead log of another database, or one that was cut off: it is noticed before it is read or appended to, and closing
loses nothing.

The first commit of every log names its database, however the log was restarted.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import reactdb
from reactdb.cli import main
from reactdb.database import Database
from reactdb.session import Session, session_of
from reactdb.store import checkpoints, schema
from reactdb.store.engine import Engine
from reactdb.store.file import wal_check
from reactdb.store.file.sqlite import sqlite3
from reactdb.testing import Recorder
from tests.support.processes import run_python
from tests.support.threads import PATIENCE_S
from tests.support.wal import FRAME_BYTES, HEADER_BYTES, first_commit, used_bytes

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="there an open log cannot be cut off or replaced"
)
on_linux = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="SQLite's index cannot be read here")


@pytest.fixture
def db(path: Path) -> Iterator[Any]:
    with reactdb.connect(path, durability="soft") as database:
        database.table_create("games").insert([{"id": n, "text": "x" * 200} for n in range(50)])
        yield database


def another_engine(db: Any) -> Database:
    """The file opened once more, by an engine that knows nothing of the first: to SQLite, another process."""
    return Database(Session(Engine(str(db.path), read_only=False, busy_timeout_s=5.0), "soft"))


def plain(db: Any) -> Any:
    """A connection of another program."""
    return sqlite3.connect(db.path, isolation_level=None)


# ---------------------------------------------------------------------------------------------------------------
# Every way in which a log is begun anew; the next write of ours may be the first in it.


def when_due(db: Any, patch: pytest.MonkeyPatch) -> None:
    before = stray_salts(db.path)
    session_of(db).engine.writer.checkpoints.due_bytes = 1
    session_of(db).engine.writer.checkpoints._room_bytes = 1
    patch.setattr(checkpoints, "SMALL_BYTES", 0)
    db.table("games").insert({"id": "due"})
    assert before != stray_salts(db.path)


def when_asked_for(db: Any, patch: pytest.MonkeyPatch) -> None:
    writer = session_of(db).engine.writer
    assert writer.run_in_turn(writer.checkpoints.run)


def when_nothing_could_be_written_over(db: Any, patch: pytest.MonkeyPatch) -> None:
    """The log was copied, and then there was no room for the commit that begins it anew."""

    def fail(connection: Any) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    writer = session_of(db).engine.writer
    with patch.context() as inner:
        inner.setattr(schema, "name_log", fail)
        writer.run_in_turn(writer.checkpoints.run)


def by_vacuum(db: Any, patch: pytest.MonkeyPatch) -> None:
    db.compact(keep=0, vacuum=True)


def after_a_write_that_was_taken_back(db: Any, patch: pytest.MonkeyPatch) -> None:
    when_nothing_could_be_written_over(db, patch)
    with pytest.raises(ZeroDivisionError), db.transaction():
        db.table("games").insert({"id": "taken back"})
        raise ZeroDivisionError
    db.table("games").get(1).update({"text": "x" * 200})


def by_another_program(mode: str) -> Callable[[Any, pytest.MonkeyPatch], None]:
    def restart(db: Any, patch: pytest.MonkeyPatch) -> None:
        connection = plain(db)
        assert (0,) == connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()[:1]
        connection.close()

    restart.__name__ = f"by_another_program_{mode.lower()}"
    return restart


def by_another_process(db: Any, patch: pytest.MonkeyPatch) -> None:
    other = another_engine(db)
    writer = session_of(other).engine.writer
    assert writer is not None
    assert writer.run_in_turn(writer.checkpoints.run)
    other.close()


def by_a_write_in_the_middle_of_another_process_s_checkpoint(db: Any, patch: pytest.MonkeyPatch) -> None:
    other = another_engine(db)
    writer = session_of(other).engine.writer
    assert writer is not None
    begin = checkpoints.Checkpoints._begin_log_anew

    def too_late(self: Any, keep_bytes: int) -> str:
        db.table("games").insert({"id": "between"})
        return begin(self, keep_bytes)

    with patch.context() as inner:
        inner.setattr(checkpoints.Checkpoints, "_begin_log_anew", too_late)
        writer.run_in_turn(writer.checkpoints.run)
    other.close()


def after_a_reader_was_in_the_way(db: Any, patch: pytest.MonkeyPatch) -> None:
    writer = session_of(db).engine.writer
    with session_of(db).engine.snapshot() as snapshot:
        snapshot.connection.execute("SELECT count(*) FROM log").fetchone()
        db.table("games").insert({"id": "meanwhile"})
        assert not writer.run_in_turn(writer.checkpoints.run)
    assert writer.run_in_turn(writer.checkpoints.run)


ALONE = [
    when_due,
    when_asked_for,
    when_nothing_could_be_written_over,
    by_vacuum,
    after_a_write_that_was_taken_back,
]
WITH_OTHERS = [
    *(by_another_program(mode) for mode in ("PASSIVE", "FULL", "RESTART", "TRUNCATE")),
    by_another_process,
    by_a_write_in_the_middle_of_another_process_s_checkpoint,
    after_a_reader_was_in_the_way,
]


def stray_salts(path: Any) -> bytes:
    return Path(f"{path}-wal").read_bytes()[16:24]


def names(path: Any, database_id: str) -> bool:
    """Whether the first commit in the log has the row with this id."""
    return any(b"database_id" + database_id.encode() in page for page in first_commit(path))


@pytest.mark.parametrize("restart", [*ALONE, *WITH_OTHERS], ids=lambda one: one.__name__)
@pytest.mark.parametrize("durability", ["soft", "hard"])
def test_the_first_commit_of_a_log_that_was_begun_anew_names_its_database(
    db, restart, durability, monkeypatch
):
    before = stray_salts(db.path)
    restart(db, monkeypatch)
    db.table("games").insert({"id": "first"}, durability=durability)

    assert before != stray_salts(db.path)
    assert names(db.path, session_of(db).engine.database_id)
    assert session_of(db).engine.database_id == wal_check.read_id_of_log(f"{db.path}-wal")


def test_the_first_commit_of_a_new_file_and_of_one_that_was_opened_again_names_it(path):
    for n in range(3):
        with reactdb.connect(path) as db:
            db.table_create("games", exist_ok=True).insert({"id": n})

            assert names(path, session_of(db).engine.database_id)


def test_a_log_that_another_program_began_anew_names_the_database_after_our_next_write(db):
    connection = plain(db)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute("CREATE TABLE other (number)")
    connection.execute("DROP TABLE other")
    assert wal_check.read_id_of_log(f"{db.path}-wal") is None
    db.table("games").insert({"id": "next"})

    assert session_of(db).engine.database_id == wal_check.read_id_of_log(f"{db.path}-wal")
    connection.close()


def test_the_row_is_written_again_only_after_the_log_was_begun_anew(db):
    """It costs a commit a page of the log, and others nothing."""
    games = db.table("games")
    games.insert({"id": 100})
    before = Path(f"{db.path}-wal").read_bytes().count(b"database_id")
    for n in range(101, 120):
        games.insert({"id": n})

    assert before == Path(f"{db.path}-wal").read_bytes().count(b"database_id")


# ---------------------------------------------------------------------------------------------------------------
# A stray log


def make(folder: Path, name: str, restart: Any, patch: pytest.MonkeyPatch, *, has_log: bool) -> Path:
    """A database whose documents say whose they are: closed, or left with a log that was begun anew, as after a crash."""
    path, copy = folder / f"{name}.db", folder / f"copy of {name}.db"
    with reactdb.connect(path, durability="soft") as db:
        games = db.table_create("games")
        games.insert([{"id": n, "of": name, "text": "x" * 100} for n in range(100)])
        restart(db, patch)
        for n in range(100):
            games.get(n).update({"seen": True})
        if has_log:
            for suffix in ("", "-wal", "-shm"):
                shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
    return copy if has_log else path


@pytest.mark.parametrize("restart", [*ALONE, *WITH_OTHERS], ids=lambda one: one.__name__)
def test_a_log_that_was_begun_anew_is_refused_beside_another_database(tmp_path, restart, monkeypatch):
    """And nothing is touched, so that the file is as it was when the right log is put back, or none."""
    mine = make(tmp_path, "mine", when_asked_for, monkeypatch, has_log=False)
    other = make(tmp_path, "other", restart, monkeypatch, has_log=True)
    before = mine.read_bytes()
    shutil.copy(f"{other}-wal", f"{mine}-wal")
    log = Path(f"{mine}-wal").read_bytes()

    for options in ({}, {"read_only": True}):
        with pytest.raises(reactdb.CorruptDatabase, match="is of database"):
            reactdb.connect(mine, **options)
    for command in ("doctor", "inspect"):
        result = CliRunner().invoke(main, [command, str(mine)])
        assert 1 == result.exit_code
        assert "is of database" in result.stderr
    assert (before, log) == (mine.read_bytes(), Path(f"{mine}-wal").read_bytes())
    # SQLite has not even seen the log.
    assert not Path(f"{mine}-shm").exists()

    Path(f"{mine}-wal").unlink()
    with reactdb.connect(mine) as db:
        assert [("mine", True)] * 100 == [(one["of"], one["seen"]) for one in db.table("games")]


@pytest.mark.parametrize("with_index", [False, True])
def test_a_log_in_the_place_of_one_that_a_crash_has_left_is_refused(tmp_path, with_index, monkeypatch):
    mine = make(tmp_path, "mine", when_asked_for, monkeypatch, has_log=True)
    other = make(tmp_path, "other", when_asked_for, monkeypatch, has_log=True)
    shutil.copy(f"{mine}-wal", tmp_path / "kept")
    for suffix in ("-wal", "-shm") if with_index else ("-wal",):
        shutil.copy(f"{other}{suffix}", f"{mine}{suffix}")

    with pytest.raises(reactdb.CorruptDatabase, match="is of database"):
        reactdb.connect(mine)
    shutil.copy(tmp_path / "kept", f"{mine}-wal")
    Path(f"{mine}-shm").unlink(missing_ok=True)
    with reactdb.connect(mine) as db:
        assert [("mine", True)] * 100 == [(one["of"], one["seen"]) for one in db.table("games")]


def test_a_log_that_names_no_database_is_judged_by_what_is_read_through_it(tmp_path, monkeypatch):
    """As versions of reactdb left it that did not name it. Beside its own file it is as good as any."""
    monkeypatch.setattr(schema, "name_log", lambda connection: None)
    mine = make(tmp_path, "mine", when_asked_for, monkeypatch, has_log=True)
    assert wal_check.read_id_of_log(f"{mine}-wal") is None

    with reactdb.connect(mine) as db:
        assert [True] * 100 == [one["seen"] for one in db.table("games")]


def test_a_document_or_a_key_that_looks_like_the_row_names_no_database(path):
    row = b"\x1e\x03\x23\x2ddatabase_id0123456789abcdef"
    with reactdb.connect(path, durability="soft") as db:
        games = db.table_create("games")
        writer = session_of(db).engine.writer
        assert writer is not None
        writer.run_in_turn(writer.checkpoints.run)
        games.insert([{"id": row.decode() + str(n), "data": row * 20} for n in range(50)])
        shutil.copy(path, path.with_name("b.db"))
        shutil.copy(f"{path}-wal", path.with_name("b.db-wal"))
    with reactdb.connect(path.with_name("b.db")) as db:
        assert 50 == db.table("games").count().run()


@pytest.mark.parametrize("size", [0, 10, HEADER_BYTES, HEADER_BYTES + 100, HEADER_BYTES + FRAME_BYTES])
def test_what_is_no_log_names_no_database(path, size):
    Path(f"{path}-wal").write_bytes(b"\x37\x7f\x06\x82".ljust(size, b"\xff")[:size])
    assert wal_check.read_id_of_log(f"{path}-wal") is None
    assert wal_check.read_id_of_log(f"{path}-missing") is None


# ---------------------------------------------------------------------------------------------------------------
# A log that was cut off under an open handle


CUT = """
import os, sys, reactdb
path, size = sys.argv[1], sys.argv[2]
db = reactdb.connect(path, durability=sys.argv[3])
games = db.table_create("games")
writer = db._session.engine.writer
assert writer.run_in_turn(writer.checkpoints.run)
acknowledged = []
for n in range(20):
    games.insert({"id": n, "text": "x" * 2000})
log = path + "-wal"
os.truncate(log, eval(size))
for n in range(100, 105):
    try:
        games.insert({"id": n})
        acknowledged.append(n)
    except reactdb.errors.StorageMoved as error:
        assert not isinstance(error, reactdb.OutcomeUnknown), error
        assert "was cut off at" in str(error), error
print(acknowledged, flush=True)
if sys.argv[4] == "close":
    db.close()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "end"),
    [
        ("0", "close"),
        ("32", "crash"),
        ("32 + 4120 * 3 + 2000", "close"),
        ("os.stat(log).st_size // 2", "crash"),
        ("used_bytes - 1", "close"),
    ],
)
@on_linux
def test_nothing_is_acknowledged_behind_a_log_that_was_cut_off(path, size, end):
    script = CUT.replace("eval(size)", "eval(size, {'os': os, 'log': log, 'used_bytes': used_bytes(path)})")
    script = "from tests.support.wal import used_bytes\n" + script
    told = run_python(script, path, size, "hard" if end == "close" else "soft", end)

    assert "[]" == told.strip()
    # It is as after a power cut: whole, and without the newest.
    with reactdb.connect(path) as db:
        found = [document["id"] for document in db.table("games")]
        assert list(range(len(found))) == found
        db.table("games").insert({"id": "again"})
    assert 0 == CliRunner().invoke(main, ["doctor", str(path)]).exit_code


def cut(db: Any) -> None:
    os.truncate(f"{db.path}-wal", used_bytes(db.path) - FRAME_BYTES)


@on_linux
def test_a_checkpoint_copies_nothing_of_a_log_that_was_cut_off(db):
    cut(db)
    before = Path(db.path).read_bytes()
    writer = session_of(db).engine.writer

    assert not writer.run_in_turn(writer.checkpoints.run)
    assert before == Path(db.path).read_bytes()
    with pytest.raises(reactdb.errors.StorageMoved, match="was cut off"):
        db.table("games").insert({"id": "new"})


@on_linux
def test_who_only_follows_is_told_that_the_log_was_cut_off(db):
    with reactdb.connect(db.path, read_only=True) as reader:
        ear = Recorder(reader.table("games").changes())
        cut(db)

        ear.wait_for_end(PATIENCE_S)
    assert [reactdb.errors.StorageMoved] == [type(error) for error in ear.errors]


@on_linux
def test_a_log_that_was_written_over_with_another_one_is_not_copied_into_the_file(db, tmp_path):
    """In place, so that it is still the same file."""
    with reactdb.connect(tmp_path / "other.db", durability="soft") as other:
        other.table_create("games").insert([{"id": n, "text": "y" * 2000} for n in range(100)])
        content = Path(f"{other.path}-wal").read_bytes()
    with open(f"{db.path}-wal", "r+b") as log:
        log.write(content)
    before = Path(db.path).read_bytes()
    writer = session_of(db).engine.writer

    assert not writer.run_in_turn(writer.checkpoints.run)
    with pytest.raises(reactdb.errors.StorageMoved, match="has the content of another"):
        db.table("games").insert({"id": "new"})
    db.close()
    assert before == Path(db.path).read_bytes()


def test_a_log_that_was_begun_anew_by_others_and_is_smaller_now_is_no_false_alarm(db):
    games = db.table("games")
    for n in range(200, 230):
        games.insert([{"id": f"{n}-{m}", "text": "x" * 500} for m in range(30)])
        by_another_program(("TRUNCATE", "RESTART", "PASSIVE")[n % 3])(db, pytest.MonkeyPatch())
        assert n % 7 or session_of(db).engine.guard.examine() == ""

    assert 50 + 30 * 30 == games.count().run()
