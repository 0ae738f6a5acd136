"""The file, or its write-ahead log, is removed while a process uses it: no write is acknowledged afterwards, and none hangs.

The usual operations of other processes on the file must not cause a false alarm.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb.session import session_of
from reactdb.store.file.sqlite import sqlite3
from tests.support.processes import run_python

PATIENCE_S = 20

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there an open file cannot be moved")


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def rename(path: Path) -> None:
    path.rename(beside(path, ".away"))


def rename_all(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        beside(path, suffix).rename(path.with_name(f"b.db{suffix}"))


def unlink(path: Path) -> None:
    path.unlink()


def unlink_all(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        beside(path, suffix).unlink()


def replace(path: Path) -> None:
    """By another database that is whole."""
    with reactdb.connect(path.with_name("other.db")) as other:
        other.table_create("games").insert({"id": "of the other"})
    os.replace(path.with_name("other.db"), path)


def replace_by_a_copy(path: Path) -> None:
    """A backup put back by hand: the same database, in another file."""
    with sqlite3.connect(path.with_name("backup.db")) as backup, sqlite3.connect(path) as source:
        source.backup(backup)
    backup.close()
    source.close()
    os.replace(path.with_name("backup.db"), path)


def unlink_log(path: Path) -> None:
    beside(path, "-wal").unlink()


def empty_log(path: Path) -> None:
    """Only the log, by another that is empty."""
    beside(path, "-wal").unlink()
    beside(path, "-wal").touch()


def replace_log(path: Path) -> None:
    """Only the log, by a copy of itself."""
    shutil.copy(beside(path, "-wal"), beside(path, "-copy"))
    os.replace(beside(path, "-copy"), beside(path, "-wal"))


def remove_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("gone"))


DEEDS: list[Callable[[Path], None]] = [
    rename,
    rename_all,
    unlink,
    unlink_all,
    replace,
    replace_by_a_copy,
    unlink_log,
    empty_log,
    replace_log,
    remove_folder,
]


@pytest.fixture(params=DEEDS, ids=lambda deed: deed.__name__)
def deed(request: Any) -> Any:
    return request.param


@pytest.fixture(params=["hard", "soft"])
def db(request: Any, tmp_path: Path) -> Any:
    folder = tmp_path / "folder"
    folder.mkdir()
    database = reactdb.connect(folder / "a.db", durability=request.param)
    database.table_create("games").insert([{"id": n} for n in range(3)])
    yield database
    database.close()


def test_a_write_is_refused(db, deed):
    deed(Path(db.path))

    for _ in range(2):
        with pytest.raises(reactdb.errors.StorageMoved):
            db.table("games").insert({"id": "new"})


def test_a_transaction_around_it_is_refused(db, deed):
    games = db.table("games")
    with pytest.raises(reactdb.errors.StorageMoved), db.transaction():
        games.insert({"id": "new"})
        deed(Path(db.path))
        games.insert({"id": "newer"})


def test_a_write_of_many_and_a_compaction_are_refused(db, deed):
    deed(Path(db.path))

    with pytest.raises(reactdb.errors.StorageMoved):
        db.compact(keep=0)
    with pytest.raises(reactdb.errors.StorageMoved):
        db.table("games").insert([{"id": f"many-{n}"} for n in range(500)])


def test_writers_that_share_a_commit_are_all_refused(db, deed):
    games = db.table("games")
    games.insert({"id": "before"})
    deed(Path(db.path))
    acknowledged: list[int] = []
    refused: list[BaseException] = []

    def write(number: int) -> None:
        try:
            games.insert({"id": f"thread-{number}"})
            acknowledged.append(number)
        except reactdb.errors.StorageMoved as error:
            refused.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert [] == acknowledged
    assert 6 == len(refused)


@pytest.mark.slow
@pytest.mark.parametrize("is_reader", [True, False])
def test_who_only_follows_is_told_too(db, deed, is_reader):
    """Nothing will ever come from the file that it has open."""
    with (
        reactdb.connect(db.path, read_only=is_reader) as follower,
        follower.table("games").changes().cursor() as cursor,
    ):
        deed(Path(db.path))

        with pytest.raises(reactdb.errors.StorageMoved):
            cursor.next(timeout=PATIENCE_S)


def test_nothing_that_was_acknowledged_is_lost_by_renaming(tmp_path):
    """What was written before, and only that, is where the files went."""
    path = tmp_path / "a.db"
    db = reactdb.connect(path)
    games = db.table_create("games")
    acknowledged = []
    for n in range(50):
        if n == 30:
            rename_all(path)
        try:
            games.insert({"id": n})
            acknowledged.append(n)
        except reactdb.errors.StorageMoved:
            pass
    db.close()

    assert list(range(30)) == acknowledged
    with reactdb.connect(tmp_path / "b.db") as moved:
        found = {document["id"] for document in moved.table("games")}
        assert set(acknowledged) <= found
        # The one that noticed may be there; it was not acknowledged.
        assert found <= {*acknowledged, 30}


OTHERS = """
import sys, reactdb
for n in range(10):
    with reactdb.connect(sys.argv[1], durability="soft", busy_timeout=30, read_only=n % 3 == 2) as db:
        games = db.table("games")
        games.count().run()
        if n % 3 != 2:
            games.insert({"from": sys.argv[2]})
            writer = db._session.engine.writer
            writer.run_in_turn(writer.checkpoints.run)
        if n == 4:
            db.compact(keep=100_000, vacuum=True)
"""


def test_what_others_do_in_the_ordinary_way_is_no_false_alarm(tmp_path):
    """They open, write, checkpoint, compact, vacuum and close, while this process writes and is quiet in turn."""
    path = tmp_path / "a.db"
    with reactdb.connect(path, durability="soft", busy_timeout=30) as db:
        games = db.table_create("games")
        with (
            reactdb.connect(path, read_only=True) as quiet,
            quiet.table("games").changes().cursor() as cursor,
        ):
            others = [subprocess.Popen([sys.executable, "-c", OTHERS, str(path), str(n)]) for n in range(3)]
            written = 0
            while any(other.poll() is None for other in others):
                games.insert({"n": written})
                written += 1
            assert [0, 0, 0] == [other.wait(60) for other in others]
            heard = 0
            while heard < written + 3 * 7:
                cursor.next(timeout=PATIENCE_S)
                heard += 1

        assert written + 3 * 7 == games.count().run()


def test_handles_that_are_opened_and_closed_in_this_process_are_no_false_alarm(tmp_path):
    path = tmp_path / "a.db"
    with reactdb.connect(path, durability="soft") as db:
        games = db.table_create("games")
        for n in range(20):
            with reactdb.connect(path, read_only=bool(n % 2)) as other:
                assert n == other.table("games").count().run()
            games.insert({"id": n})


def test_a_folder_under_another_name_is_the_same_file(tmp_path):
    """A symbolic link that is set elsewhere changes the name, not the file that is open."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    link = tmp_path / "current"
    link.symlink_to(tmp_path / "one")
    with reactdb.connect(link / "a.db") as db:
        games = db.table_create("games")
        link.unlink()
        link.symlink_to(tmp_path / "two")

        games.insert({"id": 1})
        assert 1 == games.count().run()


@pytest.mark.parametrize(
    "deed", [rename_all, unlink_all, replace, replace_by_a_copy], ids=lambda one: one.__name__
)
@pytest.mark.parametrize("is_reader", [True, False])
def test_a_new_connection_reads_no_other_file(db, deed, is_reader):
    """Threads that read at the same time need more connections, which are opened by the file's name."""
    with reactdb.connect(db.path, read_only=is_reader) as reader:
        reader.table("games").run()
        deed(Path(db.path))
        with session_of(reader).engine.snapshot(), pytest.raises(reactdb.ReactDBError) as caught:
            reader.table("games").run()

    assert isinstance(caught.value, (reactdb.errors.StorageMoved, reactdb.errors.CannotOpen))


def test_a_checkpoint_touches_no_other_file(db):
    path = Path(db.path)
    replace(path)
    before = path.read_bytes()
    writer = session_of(db).engine.writer

    assert not writer.run_in_turn(writer.checkpoints.run)
    assert before == path.read_bytes()


def test_a_reader_of_a_file_that_nobody_writes_is_not_alarmed(tmp_path):
    path = tmp_path / "a.db"
    with reactdb.connect(path) as db:
        db.table_create("games").insert({"id": 1})
    with reactdb.connect(path, read_only=True) as reader, reader.table("games").changes().cursor() as cursor:
        # Longer than the time between two looks at the file.
        with pytest.raises(TimeoutError):
            cursor.next(timeout=0.6)
        with reactdb.connect(path) as db:
            db.table("games").insert({"id": 2})

        assert {"id": 2} == cursor.next(timeout=PATIENCE_S)["new_val"]


def test_who_looked_at_the_file_before_it_was_opened_is_the_first_that_reads(path):
    reactdb.connect(path).close()
    with reactdb.connect(path) as db:
        (reader,) = session_of(db).engine.readers.idle
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader.connection.execute("DELETE FROM log")
        assert [] == db.table_list()
        assert [reader] == list(session_of(db).engine.readers.idle)


def test_who_looked_at_another_file_before_it_was_opened_does_not_read(path, monkeypatch):
    reactdb.connect(path).close()
    # As if the file had been replaced between the look and the opening.
    monkeypatch.setattr("reactdb.store.file.open_checks.read_identity", lambda path: (0, 0))
    with reactdb.connect(path) as db:
        assert not session_of(db).engine.readers.idle
        assert [] == db.table_list()


WHILE_IT_IS_READ = """
import os, sys
import reactdb
path = sys.argv[1]
with reactdb.connect(path + ".other") as other:
    other.table_create("games").insert({"id": "of the other"})
db = reactdb.connect(path)
games = db.table_create("games")
games.insert([{"id": number, "text": "x" * 500} for number in range(2_000)])
with db._session.read() as going_on:
    os.replace(path + ".other", path)
    try:
        # The first connection is lent, so that this needs another.
        games.get(1).run()
    except reactdb.errors.StorageMoved:
        print("moved")
    try:
        reactdb.connect(path)
    except reactdb.errors.CannotOpen as error:
        print("close the database that was opened before" in str(error))
    print(len(list(going_on.rows(going_on.table("games")))))
db.close()
try:
    reactdb.connect(path)
except reactdb.errors.CorruptDatabase as error:
    print("one of the two was replaced without the other" in str(error))
"""


def test_a_file_that_is_replaced_while_it_is_read_does_not_end_the_process(tmp_path: Path):
    """A connection to the new file would cut off the index of the log that the other connections have in memory. A read of theirs
    would then end the process (SIGBUS), or give documents of the wrong file."""
    said = run_python(WHILE_IT_IS_READ, tmp_path / "a.db").splitlines()

    assert ["moved", "True", "2000", "True"] == said
