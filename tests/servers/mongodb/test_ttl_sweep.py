"""A server that deletes what has expired by a TTL index."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from click.testing import CliRunner
from pymongo import MongoClient

import reactdb
from reactdb.cli import main
from reactdb.servers.mongodb import MongoDBServer, serve_in_thread
from reactdb.servers.mongodb import server as module
from reactdb.store.expirer import expirer

LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
LATER = datetime(2201, 1, 1, tzinfo=UTC)


def deleted(stream: Any, count: int) -> list[Any]:
    """The `_id`s of the next deletions. It waits for them."""
    found = []
    while len(found) < count:
        event = next(stream)
        if event["operationType"] == "delete":
            found.append(event["documentKey"]["_id"])
    return found


@pytest.fixture
def sweep_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread of `reactdb.store.expirer` deletes nothing."""
    monkeypatch.setattr(expirer, "watch", lambda engine: None)


@pytest.mark.usefixtures("sweep_alone")
def test_what_has_expired_is_deleted_in_all_databases_again_and_again(db: Any) -> None:
    with serve_in_thread(db, sweep_s=0.01) as server, MongoClient(server.uri) as client:
        for name in ("shop", "other"):
            client[name]["sessions"].create_index("until", expireAfterSeconds=0)
        client["shop"]["plain"].insert_one({"_id": "stays", "until": LONG_AGO})
        with client.watch() as stream:
            client["shop"]["sessions"].insert_many(
                [{"_id": "a", "until": LONG_AGO}, {"_id": "b", "until": LATER}, {"_id": "c"}]
            )
            assert ["a"] == deleted(stream, 1)
            client["other"]["sessions"].insert_one({"_id": "d", "until": LONG_AGO})
            assert ["d"] == deleted(stream, 1)
        assert ["b", "c"] == client["shop"]["sessions"].distinct("_id")
        assert ["stays"] == client["shop"]["plain"].distinct("_id")


def test_without_a_sweep_documents_expire_as_in_any_process(db: Any) -> None:
    with serve_in_thread(db) as server, MongoClient(server.uri) as client:
        sessions = client["shop"]["sessions"]
        sessions.create_index("until", expireAfterSeconds=0)
        with sessions.watch() as stream:
            sessions.insert_one({"_id": "a", "until": LONG_AGO})
            assert ["a"] == deleted(stream, 1)
        assert server._sweeper is None


@pytest.mark.usefixtures("sweep_alone")
def test_after_an_error_it_is_tried_again(
    db: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    once = [reactdb.errors.DatabaseBusy("another process writes")]
    swept = module.sweep_all

    def failing(spaces: Any) -> Iterator[int]:
        if once:
            raise once.pop()
        return swept(spaces)

    monkeypatch.setattr(module, "sweep_all", failing)
    with serve_in_thread(db, sweep_s=0.01) as server, MongoClient(server.uri) as client:
        sessions = client["shop"]["sessions"]
        sessions.create_index("until", expireAfterSeconds=0)
        with sessions.watch() as stream:
            sessions.insert_one({"_id": "a", "until": LONG_AGO})
            assert ["a"] == deleted(stream, 1)
    assert "the sweep of expired documents failed; it is tried again" in caplog.text


def test_a_server_that_is_closed_waits_for_one_commit_of_a_sweep(
    db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    def endless(spaces: Any) -> Iterator[int]:
        while True:
            steps.append("commit")
            # What was begun is ended, and the file is still open then.
            db.seq  # noqa: B018
            yield 1

    monkeypatch.setattr(module, "sweep_all", endless)
    with serve_in_thread(db, sweep_s=0.001) as server, MongoClient(server.uri) as client:
        while not steps:
            client["shop"].command("ping")
    count = len(steps)
    db.table_create("after")
    assert count == len(steps)


def test_on_a_loop_of_ones_own_nothing_goes_on_after_the_server(db: Any) -> None:
    async def program() -> set[asyncio.Task[Any]]:
        async with MongoDBServer(db, port=0, sweep_s=60):
            pass
        return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[operator]

    assert set() == asyncio.run(program())


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 86_401, "60", True])
def test_what_is_no_time_is_refused(db: Any, seconds: Any) -> None:
    with pytest.raises(reactdb.errors.InvalidOption, match="sweep_s is a number of seconds above 0"):
        MongoDBServer(db, sweep_s=seconds)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--rethinkdb", "--sweep", "60"], "need --mongodb"),
        (["--mongodb", "--sweep", "0"], "Invalid value for '--sweep'"),
    ],
)
def test_the_command_line_says_what_is_wrong(tmp_path: Any, arguments: list[str], sentence: str) -> None:
    found = CliRunner().invoke(main, ["serve", str(tmp_path / "x.db"), *arguments])
    assert 2 == found.exit_code
    assert sentence in found.output
