"""Checkpoints: what shows, and what is refused, while the write-ahead log cannot be emptied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb.store import checkpoints, sqlite
from reactdb.store.sqlite import Connection


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a file; the log is due at 64 KiB and warned of at 256."""
    for name, value in {
        "CHECKPOINT_BYTES": 65_536,
        "RETRY_BYTES": 65_536,
        "WARN_BYTES": 262_144,
        "SMALL_BYTES": 8_192,
        "RETRY_S": 0.0,
    }.items():
        monkeypatch.setattr(checkpoints, name, value)
    return tmp_path / "a.db"


@pytest.fixture
def reader(path: Path) -> Iterator[Connection]:
    """A connection that nobody in reactdb knows of."""
    reactdb.connect(path).close()
    with closing(sqlite.connect(str(path), mode="rw", busy_timeout_s=0)) as connection:
        yield connection


def begin_to_read(connection: Connection) -> None:
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM log").fetchone()


def insert(db: reactdb.Database, count: int) -> None:
    """20 kB a document."""
    for _ in range(count):
        db.table("games").insert({"text": "x" * 20_000})


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
        insert(db, 40)
        figures = db.stats()

        assert not figures["checkpoint"]["is_healthy"]
        assert "a reader of another program keeps" in figures["checkpoint"]["error"]
        assert figures["checkpoint"]["failed"] > 1
        assert ["failed", "has grown"] == [
            word for record in caplog.records for word in ("failed", "has grown") if word in record.message
        ]
        reader.execute("ROLLBACK")
        insert(db, 5)
        assert db.stats()["checkpoint"]["is_healthy"]
        assert db.stats()["wal_bytes"] < 131_072
        assert "succeed again" in caplog.text


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
        assert db.stats()["wal_bytes"] < 65_536


def test_writes_are_refused_beyond_the_limit_until_the_log_can_be_emptied(path, reader):
    with reactdb.connect(path, durability="soft", wal_limit_bytes=500_000) as db:
        games = db.table_create("games")
        begin_to_read(reader)
        with pytest.raises(
            reactdb.WalTooLarge, match=r"^insert: .*limit of 500000.*nothing was written"
        ) as caught:
            insert(db, 100)
        written = games.count().run()
        with pytest.raises(reactdb.WalTooLarge, match=r"^transaction: "), db.transaction():
            insert(db, 1)

        assert isinstance(caught.value, reactdb.StorageError)
        assert 500_000 == caught.value.limit_bytes < caught.value.wal_bytes < 700_000
        assert db.stats()["checkpoint"]["is_refusing_writes"]
        assert written == games.count().run() < 40
        reader.execute("ROLLBACK")
        insert(db, 1)
        assert not db.stats()["checkpoint"]["is_refusing_writes"]


def test_a_read_of_this_process_has_an_age(path):
    with reactdb.connect(path) as db:
        with db._engine.snapshot():
            assert db.stats()["oldest_read_s"] > 0

        assert 0.0 == db.stats()["oldest_read_s"]


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "1 GB"])
def test_a_limit_is_a_number_of_bytes(path, limit: Any):
    with pytest.raises(reactdb.InvalidOption, match="wal_limit_bytes"):
        reactdb.connect(path, wal_limit_bytes=limit)


def test_checkpoints_lose_nothing_between_two_writers(path):
    """Each empties the log that the other writes to."""
    from reactdb.store.engine import Engine

    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games")
        other = reactdb.Database(Engine(str(path), read_only=False, busy_timeout_s=5.0), "soft")
        with other:
            for _ in range(30):
                insert(db, 2)
                insert(other, 2)
            assert 120 == db.table("games").count().run() == other.table("games").count().run()
            assert list(range(1, 121)) == [change.seq for change in other.log()]


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
        connection = db._engine._writer.connection
        (used,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count={used + 4}").fetchone()

        with pytest.raises(reactdb.DiskFull, match=f"^{operation}: "):
            act(db)
        assert 100 == db.table("games").count().run()
