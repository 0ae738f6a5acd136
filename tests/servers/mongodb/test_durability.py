"""What has to be on the disk when it is answered, of a server whose commits do not wait for it: `{j: true}`, and `fsync`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient, WriteConcern
from pymongo.errors import OperationFailure

import reactdb
from reactdb import Database
from reactdb.servers.mongodb import serve_in_thread

Client = MongoClient[dict[str, Any]]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The durability of each transaction that a flush has made."""
    found: list[str | None] = []
    plain = Database.transaction

    def noted(database: Database, *, durability: str | None = None) -> AbstractContextManager[Database]:
        found.append(durability)
        return plain(database, durability=durability)

    monkeypatch.setattr(Database, "transaction", noted)
    return found


@pytest.fixture(params=["soft", "hard"])
def durability(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(params=["socket", "process"])
def client(path: Path, durability: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    with reactdb.connect(path, durability=durability) as db:
        if request.param == "process":
            yield reactdb.mongodb(db)
            return
        with serve_in_thread(db) as server, MongoClient[dict[str, Any]](server.uri) as made:
            yield made


def code(client: Any, **command: Any) -> int | None:
    try:
        client["admin"].command(command)
    except OperationFailure as error:
        return error.code
    return None


def test_a_write_waits_for_the_disk_where_it_is_asked_to(
    client: Any, durability: str, waits: list[str | None]
) -> None:
    shop = client["shop"]
    insert = {"insert": "orders", "documents": [{}]}
    for concern in ({}, {"w": 1}, {"j": False}, {"w": "majority"}):
        shop.command({**insert, "writeConcern": concern})
    assert waits == []

    shop.command({**insert, "writeConcern": {"j": True}})
    shop.command({"create": "log", "writeConcern": {"w": "majority", "j": 1}})

    # A commit that has waited is not waited for again.
    assert waits == ["hard", "hard"] if durability == "soft" else waits == []
    assert 5 == shop["orders"].count_documents({})


def test_a_driver_says_it_of_writes_and_transactions(path: Path, waits: list[str | None]) -> None:
    with (
        reactdb.connect(path, durability="soft") as db,
        serve_in_thread(db) as server,
        MongoClient[dict[str, Any]](server.uri) as client,
        client.start_session() as session,
    ):
        journaled = WriteConcern(j=True)
        orders = client["shop"].get_collection("orders", write_concern=journaled)
        orders.insert_one({"_id": 1})
        orders.update_one({"_id": 1}, {"$set": {"n": 1}})
        assert waits == ["hard", "hard"]
        with session.start_transaction(write_concern=journaled):
            orders.insert_one({"_id": 2}, session=session)
            assert waits == ["hard", "hard"]
        assert waits == ["hard", "hard", "hard"]


def test_fsync_waits_and_locks_nothing(client: Any, durability: str, waits: list[str | None]) -> None:
    client["shop"]["orders"].insert_one({})

    assert 1 == client["admin"].command("fsync")["numFiles"]

    assert waits == ["hard"] if durability == "soft" else waits == []
    assert 115 == code(client, fsync=1, lock=True)
    assert 115 == code(client, fsync=1, lock=1.0)
    assert None is code(client, fsync=1, lock=False)
    assert 14 == code(client, fsync=1, lock="x")
    assert 14 == code(client, fsync=1, fsyncLockAcquisitionTimeoutMillis="x")
    assert 40415 == code(client, fsync=1, Lock=True)
    assert 20 == code(client, fsyncUnlock=1)
    for name in ("fsync", "fsyncUnlock"):
        with pytest.raises(OperationFailure) as refused:
            client["shop"].command(name)
        assert 13 == refused.value.code
