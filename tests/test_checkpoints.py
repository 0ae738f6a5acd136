"""Checkpoints: the write-ahead log is emptied without anybody having to wait for it, and never without the write lock."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb.store import sqlite, upkeep

MIB = 1 << 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


@contextmanager
def bare(path: Path) -> Iterator[Any]:
    """Another program: the store's own copy of SQLite, and plain SQL."""
    connection = sqlite.connect(str(path), mode="rw", busy_timeout_s=0)
    try:
        yield connection
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.close()


def wal_bytes(path: Path) -> int:
    return os.stat(f"{path}-wal").st_size


def fill(db: Any, count: int, size: int = 1000) -> None:
    db.table("games").insert([{"text": "x" * size} for _ in range(count)])


def test_the_log_is_emptied_where_nobody_is_in_the_way(path):
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games")
        fill(db, 5000)
        assert wal_bytes(path) > 5 * MIB
        writer = db._engine.writer

        assert writer.in_turn(writer.upkeep.checkpoint)
        assert wal_bytes(path) < 64 * 1024
        assert 5000 == db.table("games").count().run()


@pytest.mark.parametrize("size", [1, 40])
def test_the_log_stays_small_where_many_write_and_read(path, size, monkeypatch):
    """Readers come and go all the time; there is always a moment in which the log can begin anew."""
    monkeypatch.setattr(upkeep, "CHECKPOINT_BYTES", MIB)
    with reactdb.connect(path, durability="soft") as db:
        games = db.table_create("games")
        db._engine.writer.upkeep._checkpoint_at = MIB
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
    assert most < 8 * MIB


def test_a_reader_that_does_not_end_makes_nobody_wait(path, monkeypatch, caplog):
    """The log grows, which is said; writes go on at their pace; when the reader ends, the log is emptied."""
    monkeypatch.setattr(upkeep, "CHECKPOINT_BYTES", MIB)
    with reactdb.connect(path, durability="soft") as db, bare(path) as reader:
        db.table_create("games")
        db._engine.writer.upkeep._checkpoint_at = MIB
        fill(db, 10)
        reader.execute("BEGIN")
        (count,) = reader.execute("SELECT count(*) FROM heads").fetchone()
        slowest = 0.0
        with caplog.at_level(logging.WARNING, "reactdb"):
            for _ in range(40):
                start = time.monotonic()
                fill(db, 100)
                slowest = max(slowest, time.monotonic() - start)
        grown = wal_bytes(path)

        assert count == reader.execute("SELECT count(*) FROM heads").fetchone()[0]
        assert "a reader kept" in caplog.text
        assert grown > 3 * MIB
        assert slowest < 5.0
        reader.execute("ROLLBACK")
        for _ in range(30):
            fill(db, 100)
        assert wal_bytes(path) < grown


def test_another_writer_can_write_while_a_reader_keeps_the_log_from_being_emptied(path):
    """A checkpoint that waited for the reader with the write lock in hand would lock everybody out."""
    with reactdb.connect(path, durability="soft") as db, bare(path) as reader, bare(path) as other:
        db.table_create("games")
        fill(db, 100)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM heads").fetchone()
        fill(db, 100)
        writer = db._engine.writer
        refused: list[Exception] = []
        done = threading.Event()

        def write() -> None:
            other.execute("PRAGMA busy_timeout=3000")
            while not done.is_set():
                try:
                    other.execute("BEGIN IMMEDIATE")
                    other.execute("ROLLBACK")
                except sqlite.SQLiteError as error:
                    refused.append(error)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            assert not writer.in_turn(writer.upkeep.checkpoint)
        finally:
            done.set()
            thread.join(30)

        assert [] == refused


def test_without_the_write_lock_nothing_is_copied(path, monkeypatch):
    """SQLite itself would go on without the lock, which can damage the file (before 3.51.3)."""
    monkeypatch.setattr(upkeep, "LOCK_WAIT_S", 0.05)
    with reactdb.connect(path, durability="soft") as db, bare(path) as holder:
        db.table_create("games")
        fill(db, 1000)
        writer = db._engine.writer
        holder.execute("BEGIN IMMEDIATE")
        before = os.stat(path).st_size

        assert not writer.in_turn(writer.upkeep.checkpoint)
        assert before == os.stat(path).st_size
        holder.execute("ROLLBACK")
        assert writer.in_turn(writer.upkeep.checkpoint)
        assert os.stat(path).st_size > before + MIB


def test_while_the_log_is_copied_nobody_can_write(path, monkeypatch):
    with reactdb.connect(path, durability="soft") as db, bare(path) as other:
        db.table_create("games")
        fill(db, 1000)
        writer = db._engine.writer
        seen: list[str] = []
        real = sqlite.connect

        def connect(*arguments: Any, **options: Any) -> Any:
            copier = real(*arguments, **options)

            def trace(statement: str) -> None:
                if "wal_checkpoint" in statement:
                    with pytest.raises(sqlite.SQLiteError, match="locked"):
                        other.execute("BEGIN IMMEDIATE")
                    seen.append(statement)

            copier.set_trace_callback(trace)
            return copier

        monkeypatch.setattr(upkeep.sqlite, "connect", connect)
        assert writer.in_turn(writer.upkeep.checkpoint)
        assert ["PRAGMA wal_checkpoint(PASSIVE)"] == seen


def test_after_a_checkpoint_writes_wait_for_others_as_long_as_before(path):
    with reactdb.connect(path, durability="soft", busy_timeout=7.5) as db:
        db.table_create("games")
        fill(db, 10)
        writer = db._engine.writer
        writer.in_turn(writer.upkeep.checkpoint)
        fill(db, 10)

        assert (7500,) == writer.connection.execute("PRAGMA busy_timeout").fetchone()


def test_vacuum_gives_the_room_back_also_of_the_log(path):
    with reactdb.connect(path, durability="soft") as db:
        games = db.table_create("games")
        fill(db, 3000)
        games.delete()
        db.compact(keep=0, vacuum=True)

        assert os.stat(path).st_size < MIB
        assert wal_bytes(path) < 64 * 1024
