"""The file size of the write-ahead log: what it keeps at a restart, what is allocated ahead, and when all of it is released."""

from __future__ import annotations

import errno
import os
import shutil
from operator import sub
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb.session import Session, session_of
from reactdb.store import checkpoints, wal_room
from reactdb.store.engine import Engine
from tests.support.wal import FRAME_BYTES, used_bytes

KIB = 1024
FULL_BYTES = 1024 * KIB
MOST_BYTES = 128 * KIB


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a file whose log is due at 1 MiB, and gets room from 16 KiB on, 128 KiB at a time at the most."""
    for module, name, value in (
        (checkpoints, "CHECKPOINT_BYTES", FULL_BYTES),
        (checkpoints, "SMALL_BYTES", 8 * KIB),
        (checkpoints, "MOST_WAIT_S", 0.02),
        (wal_room, "FIRST_BYTES", 16 * KIB),
        (wal_room, "MOST_BYTES", MOST_BYTES),
    ):
        monkeypatch.setattr(module, name, value)
    return tmp_path / "a.db"


def wal_bytes(path: Path) -> int:
    return os.stat(f"{path}-wal").st_size


def insert(db: reactdb.Database, count: int, **options: Any) -> None:
    """4 kB a document, so that each takes some frames of the log."""
    for _ in range(count):
        db.table("games").insert({"text": "x" * 4_000}, **options)


def test_a_log_that_begins_anew_keeps_its_room_and_is_still_emptied_whenever_it_is_full(path):
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games")
        generations, most, least_used = [wal_room.read_generation(str(path))], 0, 1 << 40
        for n in range(400):
            insert(db, 1)
            most = max(most, wal_bytes(path))
            now = wal_room.read_generation(str(path))
            if now != generations[-1]:
                generations.append(now)
                least_used = min(least_used, used_bytes(path))
                assert FULL_BYTES == wal_bytes(path), n

        # Some 6 MiB went through it.
        assert 5 < len(generations) == len(set(generations))
        assert least_used < 4 * FRAME_BYTES
        assert most < FULL_BYTES + 8 * FRAME_BYTES
        assert os.stat(path).st_size > FULL_BYTES
        assert 400 == db.table("games").count().run()
    assert not os.path.exists(f"{path}-wal")


def test_a_log_that_grows_under_hard_commits_has_room_ahead(path):
    with reactdb.connect(path) as db:
        db.table_create("games")
        sizes: list[int] = []
        while used_bytes(path) < FULL_BYTES - MOST_BYTES // 2:
            insert(db, 1)
            sizes.append(wal_bytes(path))
            assert used_bytes(path) <= sizes[-1] <= FULL_BYTES

    # In a few steps, and to the size at which it is due.
    steps = sorted(set(sizes))
    assert 3 <= len(steps) < 12 < len(sizes)
    assert FULL_BYTES == steps[-1]
    assert max(map(sub, steps[1:], steps)) <= MOST_BYTES + 8 * FRAME_BYTES


def test_a_log_that_grows_under_soft_commits_has_none(path):
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games")
        insert(db, 20)

        assert used_bytes(path) == wal_bytes(path)


def test_where_no_room_can_be_made_ahead_the_log_is_as_it_was_and_commits_go_on(path, monkeypatch):
    class FullDisk:
        """`os`, with a disk on which half of what is asked for can be written."""

        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def write(self, file: int, data: bytes) -> int:
            if len(data) < 10_000:
                raise OSError(errno.ENOSPC, "No space left on device")
            return os.write(file, data[: len(data) // 2])

    monkeypatch.setattr(wal_room, "os", FullDisk())
    with reactdb.connect(path) as db:
        db.table_create("games")
        insert(db, 20)

        assert used_bytes(path) == wal_bytes(path)
        assert db.stats()["checkpoint"]["is_healthy"]
        assert 20 == db.table("games").count().run()


def test_another_process_that_writes_meanwhile_loses_nothing_to_the_zeros(path):
    with reactdb.connect(path) as db:
        db.table_create("games")
        other = reactdb.Database(Session(Engine(str(path), read_only=False, busy_timeout_s=5.0), "hard"))
        with other:
            for n in range(150):
                (db, other)[n % 2].table("games").insert({"id": n, "text": "x" * 4_000})

            assert 150 == db.table("games").count().run() == other.table("games").count().run()


def test_a_crash_leaves_a_log_with_room_that_is_read_to_its_last_commit(path, tmp_path):
    with reactdb.connect(path) as db:
        db.table_create("games")
        for count in (1, 19, 200, 3, 100):
            insert(db, count)
            for suffix in ("", "-wal"):
                shutil.copyfile(f"{path}{suffix}", f"{tmp_path / 'copy.db'}{suffix}")
            with reactdb.connect(tmp_path / "copy.db") as copy:
                assert db.seq == copy.seq == copy.table("games").count().run() + 1
                copy.table("games").insert({})


def test_who_asks_for_a_checkpoint_gets_the_room_back(path):
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games")
        insert(db, 150)
        assert FULL_BYTES == wal_bytes(path)
        writer = session_of(db).engine.writer
        assert writer is not None

        assert writer.run_in_turn(writer.checkpoints.run)
        assert wal_bytes(path) < 4 * FRAME_BYTES
        insert(db, 150)
        assert FULL_BYTES == wal_bytes(path)


def test_a_full_disk_gets_the_room_back(path):
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games")
        insert(db, 150)
        writer = session_of(db).engine.writer
        assert writer is not None

        writer.run_in_turn(
            lambda: writer.checkpoints.after_failure(reactdb.errors.DiskFull("insert: no room"))
        )
        assert wal_bytes(path) < 4 * FRAME_BYTES


def test_room_that_is_kept_does_not_count_towards_the_limit(path, monkeypatch):
    """A reader that is in the way when little is in the log."""
    monkeypatch.setattr(checkpoints, "AGAIN_S", 0.0)
    with reactdb.connect(path, durability="soft", wal_limit_bytes=1) as db:
        db.table_create("games")
        insert(db, 150)
        assert db.stats()["checkpoint"]["is_healthy"]
        reader = session_of(db).engine.connect("rw")
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM log").fetchone()
        insert(db, 5)
        writer = session_of(db).engine.writer
        assert writer is not None
        assert not writer.run_in_turn(writer.checkpoints.run)

        insert(db, 5)
        assert not db.stats()["checkpoint"]["is_refusing_writes"]
        reader.close()
        insert(db, 5)
        assert db.stats()["checkpoint"]["is_healthy"]
