"""Checkpoints: the write-ahead log is emptied without anybody having to wait for it, and never without the write lock; what
shows, and what is refused, while it cannot be emptied."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb.session import Session, session_of
from reactdb.store import checkpoints
from reactdb.store.engine import Engine
from reactdb.store.file import sqlite
from reactdb.store.file.sqlite import Connection
from reactdb.store.writer import Writer
from tests.support.threads import PATIENCE_S, in_thread, started, wait_until

MIB = 1 << 20


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a file; the log is due at 64 KiB and warned of at 256, and readers are not waited for long."""
    for name, value in {
        "CHECKPOINT_BYTES": 65_536,
        "RETRY_BYTES": 65_536,
        "WARN_BYTES": 262_144,
        "SMALL_BYTES": 8_192,
        "RETRY_S": 0.0,
        "MOST_WAIT_S": 0.02,
    }.items():
        monkeypatch.setattr(checkpoints, name, value)
    return tmp_path / "a.db"


@pytest.fixture
def reader(path: Path) -> Iterator[Connection]:
    """A connection that nobody in reactdb knows of."""
    reactdb.connect(path).close()
    with closing(sqlite.connect(str(path), mode="rw", busy_timeout_s=0)) as connection:
        yield connection
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def begin_to_read(connection: Connection) -> None:
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM log").fetchone()


def insert(db: reactdb.Database, count: int) -> None:
    """20 kB a document."""
    for _ in range(count):
        db.table("games").insert({"text": "x" * 20_000})


def fill(db: reactdb.Database, count: int) -> None:
    """1 kB a document, in one commit."""
    db.table("games").insert([{"text": "x" * 1000} for _ in range(count)])


def writer_of(db: reactdb.Database) -> Writer:
    writer = session_of(db).engine.writer
    assert writer is not None
    return writer


def wal_bytes(path: Path) -> int:
    return os.stat(f"{path}-wal").st_size


def manual(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints only where a test asks for one."""
    monkeypatch.setattr(checkpoints, "CHECKPOINT_BYTES", 1 << 40)


def test_the_log_is_emptied_where_nobody_is_in_the_way(path, monkeypatch):
    manual(monkeypatch)
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games")
        fill(db, 5000)
        assert wal_bytes(path) > 5 * MIB
        writer = writer_of(db)

        assert writer.run_in_turn(writer.checkpoints.run)
        assert wal_bytes(path) < 64 * 1024
        assert 5000 == db.table("games").count().run()


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 40])
def test_the_log_stays_small_where_many_write_and_read(path, size, monkeypatch):
    """Readers come and go all the time; there is always a moment in which the log can begin anew."""
    monkeypatch.setattr(checkpoints, "CHECKPOINT_BYTES", MIB)
    monkeypatch.setattr(checkpoints, "MOST_WAIT_S", 0.5)
    with reactdb.connect(path, durability="soft") as db:
        games = db.table_create("games")
        fill(db, size)
        done = threading.Event()

        def read() -> None:
            while not done.is_set():
                games.run()

        readers = [threading.Thread(target=read) for _ in range(2)]
        for thread in readers:
            thread.start()
        try:
            most = 0
            for _ in range(80):
                fill(db, 40)
                games.limit(40).delete()
                most = max(most, wal_bytes(path))
        finally:
            done.set()
            for thread in readers:
                thread.join(30)
    # Without checkpoints, it has 8 MiB in the end.
    assert MIB // 2 < most < 4 * MIB


def test_a_log_that_is_emptied_is_healthy(path):
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games")
        insert(db, 20)
        figures = db.stats()

    assert {
        "is_healthy": True,
        "error": None,
        "failed": 0,
        "failing_s": 0.0,
        "is_refusing_writes": False,
    } == figures["checkpoint"]
    assert 0.0 == figures["oldest_read_s"]
    assert figures["wal_bytes"] < 131_072


@pytest.mark.parametrize("options", [{}, {"read_only": True}])
def test_who_writes_nothing_is_healthy(path, options):
    reactdb.connect(path).close()
    with reactdb.connect(path, **options) as db:
        assert db.stats()["checkpoint"]["is_healthy"]
    with reactdb.connect(":memory:") as db:
        assert db.stats()["checkpoint"]["is_healthy"]


def test_a_reader_that_does_not_end_is_warned_of_once_and_not_waited_for(path, reader, caplog):
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games")
        begin_to_read(reader)
        slowest = 0.0
        for _ in range(40):
            started = time.monotonic()
            insert(db, 1)
            slowest = max(slowest, time.monotonic() - started)
        figures = db.stats()

        assert slowest < 5.0
        assert figures["wal_bytes"] > 40 * 20_000

        assert not figures["checkpoint"]["is_healthy"]
        # Only Linux tells whose lock it is.
        name = (
            "another SQLite connection of this process"
            if sys.platform == "linux"
            else "a reader of another program"
        )
        assert name in figures["checkpoint"]["error"]
        assert figures["checkpoint"]["failed"] > 1
        assert ["failed", "has grown"] == [
            word for record in caplog.records for word in ("failed", "has grown") if word in record.message
        ]
        reader.execute("ROLLBACK")
        insert(db, 5)
        assert db.stats()["checkpoint"]["is_healthy"]
        assert db.stats()["wal_bytes"] < 131_072
        assert "succeed again" in caplog.text


READ_IN_A_PROCESS = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("BEGIN")
connection.execute("SELECT count(*) FROM log").fetchone()
print("reading", flush=True)
sys.stdin.read()
"""


def test_another_program_is_named_where_it_reads(path):
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games")
        with subprocess.Popen(
            [sys.executable, "-c", READ_IN_A_PROCESS, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as program:
            assert program.stdout.readline() == b"reading\n"
            insert(db, 40)
            error = db.stats()["checkpoint"]["error"]
            program.communicate()
        insert(db, 5)

        assert "a reader of another program keeps" in error
        assert db.stats()["checkpoint"]["is_healthy"]


READ_AGAIN_AND_AGAIN = """
import sqlite3, sys
connections = [sqlite3.connect(sys.argv[1], isolation_level=None) for _ in range(2)]
for number, _ in enumerate(sys.stdin):
    connections[number % 2].execute("BEGIN")
    connections[number % 2].execute("SELECT count(*) FROM log").fetchone()
    if number:
        connections[1 - number % 2].execute("ROLLBACK")
    print("reading", flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system does not say who reads")
def test_the_log_is_emptied_although_another_program_always_reads(path, monkeypatch):
    """Each of its reads ends after the next has begun, and during a checkpoint."""
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games")
        with subprocess.Popen(
            [sys.executable, "-c", READ_AGAIN_AND_AGAIN, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as program:

            def read_again(seconds: float = 0) -> None:
                program.stdin.write(b"\n")
                program.stdin.flush()
                assert program.stdout.readline() == b"reading\n"

            monkeypatch.setattr(checkpoints, "MOST_WAIT_S", 5.0)
            monkeypatch.setattr(checkpoints, "WAIT_S", 5.0)
            monkeypatch.setattr(checkpoints.time, "sleep", read_again)
            read_again()
            for number in range(10):
                insert(db, 10)
                if number % 3 == 0:
                    read_again()
                assert db.stats()["checkpoint"]["failed"] == 0
            monkeypatch.undo()
            program.communicate()


def test_a_read_of_this_process_is_named_although_another_connection_is_idle(path, reader):
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games")
        reader.execute("SELECT count(*) FROM log").fetchone()
        with session_of(db).engine.snapshot():
            insert_in_a_thread(db, 20)
            error = db.stats()["checkpoint"]["error"]

        assert "a read of this process that began" in error


def insert_in_a_thread(db: reactdb.Database, count: int) -> None:
    thread = threading.Thread(target=insert, args=(db, count))
    thread.start()
    thread.join()


def test_a_reader_keeps_what_it_saw_while_the_log_is_copied_under_it(path, reader):
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games")
        insert(db, 1)
        begin_to_read(reader)
        before = reader.execute("SELECT seq FROM log").fetchall()
        insert(db, 40)

        assert before == reader.execute("SELECT seq FROM log").fetchall()


def test_a_read_of_this_process_is_told_from_one_of_another_program(path):
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games")
        with session_of(db).engine.snapshot() as snapshot:
            assert 1 == snapshot.seq
            insert(db, 6)
            error = db.stats()["checkpoint"]["error"]

    assert "a read of this process that began" in error


def before_the_first_copy(monkeypatch: pytest.MonkeyPatch, work: Callable[[], Any]) -> None:
    """Have another thread do the work when a checkpoint has begun, and has copied nothing yet."""
    copy = checkpoints.Checkpoints._copy_log
    is_done = threading.Event()

    def copy_after_work(self: checkpoints.Checkpoints) -> str:
        if not is_done.is_set():
            is_done.set()
            in_thread(work)
        return copy(self)

    monkeypatch.setattr(checkpoints.Checkpoints, "_copy_log", copy_after_work)


def test_a_feed_that_begins_while_the_log_is_being_emptied_does_not_keep_it(path, monkeypatch, caplog):
    manual(monkeypatch)
    with reactdb.connect(path, durability="soft") as db:
        games = db.table_create("games")
        fill(db, 600)
        cursors: list[Any] = []

        def begin() -> None:
            cursors.append(games.changes(include_initial=True).cursor())
            cursors[0].next(timeout=20)

        before_the_first_copy(monkeypatch, begin)
        writer = writer_of(db)

        assert writer.run_in_turn(writer.checkpoints.run)
        assert wal_bytes(path) < 64 * 1024
        assert 599 == sum("new_val" in cursors[0].next(timeout=20) for _ in range(599))
        cursors[0].close()
    assert "" == caplog.text


def test_a_read_of_this_process_that_began_during_a_checkpoint_is_not_taken_for_another_programs(
    path, monkeypatch
):
    manual(monkeypatch)
    with reactdb.connect(path, durability="soft") as db, ExitStack() as reading:
        db.table_create("games")
        fill(db, 200)
        before_the_first_copy(
            monkeypatch, lambda: reading.enter_context(session_of(db).engine.snapshot()).seq
        )
        writer = writer_of(db)

        assert not writer.run_in_turn(writer.checkpoints.run)
        assert "a read of this process that began" in db.stats()["checkpoint"]["error"]


@pytest.mark.parametrize("is_twin", [False, True], ids=["the same handle", "a handle that only reads"])
def test_reads_that_follow_each_other_without_a_gap_do_not_keep_the_log(path, is_twin, monkeypatch):
    manual(monkeypatch)
    monkeypatch.setattr(checkpoints, "MOST_WAIT_S", 5.0)
    monkeypatch.setattr(checkpoints, "WAIT_S", 100 * PATIENCE_S)
    with (
        reactdb.connect(path, durability="soft") as db,
        reactdb.connect(path, read_only=is_twin) as other,
        ExitStack() as reading,
    ):
        games = db.table_create("games")
        fill(db, 200)
        engine, writer = session_of(other).engine, writer_of(db)
        assert 201 == reading.enter_context(engine.snapshot()).seq
        # That one does not see this, and so keeps it in the log.
        fill(db, 200)
        emptying, outcome = started(lambda: writer.run_in_turn(writer.checkpoints.run))
        wait_until(lambda: engine.readers.is_resting)
        next_read, found = started(other.table("games").count().run)
        reading.close()
        for thread in (emptying, next_read):
            thread.join(PATIENCE_S)

        assert ([True], [400]) == (outcome, found)
        assert wal_bytes(path) < 64 * 1024
        assert 400 == games.count().run()


def test_that_it_is_over_is_noticed_by_a_small_write_too(path, reader, monkeypatch):
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games")
        begin_to_read(reader)
        insert(db, 6)
        assert not db.stats()["checkpoint"]["is_healthy"]
        reader.execute("ROLLBACK")
        monkeypatch.setattr(checkpoints, "AGAIN_S", 0.0)
        db.table("games").insert({})

        assert db.stats()["checkpoint"]["is_healthy"]
        assert db.stats()["wal_bytes"] <= 65_536


def test_writes_are_refused_beyond_the_limit_until_the_log_can_be_emptied(path, reader):
    with reactdb.connect(path, durability="soft", wal_limit_bytes=500_000) as db:
        games = db.table_create("games")
        begin_to_read(reader)
        with pytest.raises(
            reactdb.errors.WalTooLarge, match=r"^insert: .*limit of 500000.*nothing was written"
        ) as caught:
            insert(db, 100)
        written = games.count().run()
        with pytest.raises(reactdb.errors.WalTooLarge, match=r"^transaction: "), db.transaction():
            insert(db, 1)

        assert isinstance(caught.value, reactdb.errors.StorageError)
        assert 500_000 == caught.value.limit_bytes < caught.value.wal_bytes < 700_000
        assert db.stats()["checkpoint"]["is_refusing_writes"]
        assert written == games.count().run() < 40
        reader.execute("ROLLBACK")
        insert(db, 1)
        assert not db.stats()["checkpoint"]["is_refusing_writes"]


def test_a_read_of_this_process_has_an_age(path):
    with reactdb.connect(path) as db:
        with session_of(db).engine.snapshot():
            assert db.stats()["oldest_read_s"] > 0

        assert 0.0 == db.stats()["oldest_read_s"]


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "1 GB"])
def test_a_limit_is_a_number_of_bytes(path, limit: Any):
    with pytest.raises(reactdb.InvalidOption, match="wal_limit_bytes"):
        reactdb.connect(path, wal_limit_bytes=limit)


def test_checkpoints_lose_nothing_between_two_writers(path):
    """Each empties the log that the other writes to."""
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games")
        other = reactdb.Database(Session(Engine(str(path), read_only=False, busy_timeout_s=5.0), "soft"))
        with other:
            for _ in range(30):
                insert(db, 2)
                insert(other, 2)
            assert 120 == db.table("games").count().run() == other.table("games").count().run()
            assert list(range(1, 122)) == [change.seq for change in other.log()]


@pytest.mark.parametrize(
    ("operation", "act"),
    [
        ("insert", lambda db: db.table("games").insert([{"text": "x" * 3_000} for _ in range(200)])),
        ("update", lambda db: db.table("games").update({"text": "x" * 90_000})),
        ("replace", lambda db: db.table("games").get(1).replace({"id": 1, "text": "x" * 900_000})),
        ("index_create", lambda db: db.table("games").index_create("text")),
    ],
)
def test_an_error_begins_with_what_was_being_done(path, operation, act):
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games").insert([{"id": n, "text": f"{n} " * 200} for n in range(100)])
        connection = session_of(db).engine.writer.connection
        (used,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count={used + 4}").fetchone()

        with pytest.raises(reactdb.errors.DiskFull, match=f"^{operation}: "):
            act(db)
        assert 100 == db.table("games").count().run()


# ---------------------------------------------------------------------------------------------------------------
# The write lock


def test_another_writer_can_write_while_a_reader_keeps_the_log_from_being_emptied(path, reader, monkeypatch):
    """A checkpoint that waited for the reader with the write lock in hand would lock everybody out."""
    manual(monkeypatch)
    monkeypatch.setattr(checkpoints, "MOST_WAIT_S", 0.5)
    monkeypatch.setattr(checkpoints, "WAIT_S", 2.5)
    with (
        reactdb.connect(path, durability="soft") as db,
        closing(sqlite.connect(str(path), mode="rw", busy_timeout_s=0)) as other,
    ):
        db.table_create("games")
        fill(db, 100)
        begin_to_read(reader)
        fill(db, 100)
        writer = writer_of(db)
        taken: list[float] = []
        is_looking, done = threading.Event(), threading.Event()

        def write() -> None:
            while not done.is_set():
                try:
                    other.execute("BEGIN IMMEDIATE")
                    other.execute("ROLLBACK")
                    taken.append(time.monotonic())
                except sqlite.SQLiteError:
                    pass
                is_looking.set()

        thread = threading.Thread(target=write)
        thread.start()
        try:
            assert is_looking.wait(30)
            began = time.monotonic()
            assert not writer.run_in_turn(writer.checkpoints.run)
            ended = time.monotonic()
        finally:
            done.set()
            thread.join(30)

    assert ended - began > 0.3
    assert any(began < moment < ended for moment in taken)


def test_without_the_write_lock_nothing_is_copied(path, reader, monkeypatch):
    """SQLite itself would go on without the lock, which can damage the file (before 3.51.3)."""
    manual(monkeypatch)
    monkeypatch.setattr(checkpoints, "LOCK_WAIT_S", 0.05)
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games")
        fill(db, 1000)
        writer = writer_of(db)
        reader.execute("BEGIN IMMEDIATE")
        before = os.stat(path).st_size

        assert not writer.run_in_turn(writer.checkpoints.run)
        assert before == os.stat(path).st_size
        reader.execute("ROLLBACK")
        assert writer.run_in_turn(writer.checkpoints.run)
        assert os.stat(path).st_size > before + MIB


def test_while_the_log_is_copied_nobody_can_write(path, reader, monkeypatch):
    manual(monkeypatch)
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games")
        fill(db, 1000)
        writer = writer_of(db)
        seen: list[str] = []
        refused: list[str] = []
        connect = writer.engine.connect

        def connect_copier(mode: str) -> Connection:
            copier = connect(mode)

            def trace(statement: str) -> None:
                if "wal_checkpoint" in statement:
                    seen.append(statement)
                    try:
                        reader.execute("BEGIN IMMEDIATE")
                    except sqlite.SQLiteError as error:
                        refused.append(str(error))

            copier.set_trace_callback(trace)
            return copier

        monkeypatch.setattr(writer.engine, "connect", connect_copier)
        assert writer.run_in_turn(writer.checkpoints.run)

    assert ["PRAGMA wal_checkpoint(PASSIVE)"] == seen
    assert ["database is locked"] == refused


def test_after_a_checkpoint_writes_wait_for_others_as_long_as_before(path, reader, monkeypatch):
    monkeypatch.setattr(checkpoints, "LOCK_WAIT_S", 0.05)
    with reactdb.connect(path, durability="soft", busy_timeout=0.6) as db:
        db.table_create("games")
        fill(db, 10)
        writer = writer_of(db)
        assert writer.run_in_turn(writer.checkpoints.run)
        reader.execute("BEGIN IMMEDIATE")
        started = time.monotonic()

        with pytest.raises(reactdb.DatabaseBusy, match=r"^insert: "):
            fill(db, 10)
        assert time.monotonic() - started > 0.55


def test_a_checkpoint_waits_for_the_lock_its_own_time_whatever_the_last_write_waited(
    path, reader, monkeypatch
):
    """Also where an earlier flush is in doubt, and the log has to be written again first."""
    monkeypatch.setattr(checkpoints, "LOCK_WAIT_S", 0.05)
    with reactdb.connect(path, durability="soft", busy_timeout=0.6) as db:
        db.table_create("games")
        writer = writer_of(db)
        writer.lock_wait.at_most(60.0, in_one_piece=True)
        writer.flushes.is_doubtful = True
        reader.execute("BEGIN IMMEDIATE")
        started = time.monotonic()

        assert not writer.run_in_turn(writer.checkpoints.run)
        assert time.monotonic() - started < 30
        reader.execute("ROLLBACK")
        assert writer.run_in_turn(writer.checkpoints.run)
        assert not writer.flushes.is_doubtful


def test_vacuum_gives_the_room_back_also_of_the_log(path):
    with reactdb.connect(path, durability="soft") as db:
        games = db.table_create("games")
        fill(db, 3000)
        games.delete()
        db.compact(keep=0, vacuum=True)

        assert os.stat(path).st_size < MIB
        assert wal_bytes(path) < 64 * 1024
