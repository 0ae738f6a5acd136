"""Retryable writes that are sent again after the server has begun anew: they are answered, and not carried out again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bson import Binary, Int64
from pymongo import MongoClient, monitoring
from pymongo.errors import AutoReconnect, OperationFailure
from pymongo.write_concern import WriteConcern

import reactdb
from reactdb import Database
from reactdb.dialects.mongodb import retries
from reactdb.dialects.mongodb.retries import KIND
from reactdb.servers.mongodb import serve_in_thread
from reactdb.session import session_of
from reactdb.store.positions import read_positions
from tests.servers.mongodb.test_killed_server import served, uri
from tests.servers.mongodb.wire import Wire

__all__ = ["uri"]

SESSION = {"id": Binary(b"s" * 16, 4)}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with reactdb.connect(tmp_path / "a.db", durability="soft") as opened:
        yield opened


def asked(db: Database, *bodies: dict[str, Any]) -> list[dict[str, Any]]:
    """What a server of its own answers, without the moments."""
    with serve_in_thread(db) as server, Wire(server.port) as wire:
        answers = [
            wire.ask({**body, "$db": body.get("$db", "shop"), "lsid": body.get("lsid", SESSION)})
            for body in bodies
        ]
    return [
        {name: value for name, value in one.items() if name not in ("$clusterTime", "operationTime")}
        for one in answers
    ]


def rows(db: Database) -> list[str]:
    """The sessions that are remembered."""
    with session_of(db).read() as snapshot:
        return [row.name for row in read_positions(snapshot.connection, KIND)]


WRITES: list[dict[str, Any]] = [
    {"insert": "orders", "documents": [{"_id": 3}]},
    {"insert": "orders", "documents": [{"_id": 3}, {"_id": 1}, {"_id": 4}], "ordered": False},
    {"update": "orders", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}]},
    {"update": "orders", "updates": [{"q": {"n": 7}, "u": {"$inc": {"n": 1}}, "upsert": True}]},
    {"update": "orders", "updates": [{"q": {"_id": 1}, "u": [{"$set": {"n": {"$add": ["$n", 1]}}}]}]},
    {"delete": "orders", "deletes": [{"q": {}, "limit": 1}]},
    {"findAndModify": "orders", "query": {"_id": 1}, "update": {"$inc": {"n": 1}}, "new": True},
    {"findAndModify": "orders", "query": {}, "sort": {"_id": 1}, "remove": True},
    {
        "bulkWrite": 1,
        "ops": [
            {"insert": 0, "document": {"_id": 5}},
            {"update": 0, "filter": {"_id": 1}, "updateMods": {"$inc": {"n": 1}}},
        ],
        "nsInfo": [{"ns": "shop.orders"}],
        "$db": "admin",
    },
]


class TestWrites:
    @pytest.fixture
    def orders(self, db: Database) -> Any:
        found = reactdb.mongodb(db)["shop"]["orders"]
        found.insert_many([{"_id": 1, "n": 1}, {"_id": 2, "n": 1}])
        return found

    @pytest.mark.parametrize("body", WRITES, ids=lambda body: next(iter(body)))
    def test_a_write_that_is_sent_again_is_answered_and_not_done_again(
        self, db: Database, orders: Any, body: dict[str, Any]
    ) -> None:
        (first,) = asked(db, {**body, "txnNumber": Int64(1)})
        written, seq = list(orders.find()), db.seq
        assert [{"_id": 1, "n": 1}, {"_id": 2, "n": 1}] != written
        again, third = asked(db, {**body, "txnNumber": Int64(1)}, {**body, "txnNumber": Int64(1)})
        assert first == again == third
        assert (written, seq) == (list(orders.find()), db.seq)

    def test_the_next_number_is_a_write_of_its_own(self, db: Database, orders: Any) -> None:
        body = {"update": "orders", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}]}
        asked(db, {**body, "txnNumber": Int64(1)})
        asked(db, {**body, "txnNumber": Int64(2)})
        assert 3 == orders.find_one(1)["n"]

    def test_an_older_number_is_refused(self, db: Database, orders: Any) -> None:
        body = {"insert": "orders", "documents": [{"_id": 3}]}
        asked(db, {**body, "txnNumber": Int64(5)})
        assert [225] == [one["code"] for one in asked(db, {**body, "txnNumber": Int64(4)})]

    def test_a_write_that_did_nothing_is_not_remembered(self, db: Database, orders: Any) -> None:
        asked(db, {"delete": "orders", "deletes": [{"q": {"_id": 9}, "limit": 1}], "txnNumber": Int64(1)})
        assert [] == rows(db)

    def test_a_write_of_no_session_is_not_remembered(self, db: Database, orders: Any) -> None:
        with serve_in_thread(db) as server, MongoClient(server.uri, retryWrites=False) as client:
            client["shop"]["orders"].insert_one({})
        assert [] == rows(db)

    def test_of_an_answer_that_is_too_large_it_is_known_that_it_was_given(
        self, db: Database, orders: Any
    ) -> None:
        orders.insert_one({"_id": 3, "text": "x" * 100_000})
        body = {
            "findAndModify": "orders",
            "query": {"_id": 3},
            "update": {"$inc": {"n": 1}},
            "txnNumber": Int64(1),
        }
        assert [1.0] == [one["ok"] for one in asked(db, body)]
        assert [217] == [one["code"] for one in asked(db, body)]
        assert 1 == orders.find_one(3)["n"]


def test_in_memory_the_server_alone_remembers() -> None:
    body = {"update": "orders", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}, "upsert": True}]}
    with reactdb.connect(":memory:") as db:
        first, again, other = asked(db, *[{**body, "txnNumber": Int64(number)} for number in (1, 1, 2)])
        assert (first, [], 2) == (again, rows(db), db.table("shop.orders").get(1).run()["n"])
    assert "upserted" not in other


class TestHowLong:
    def insert(self, db: Database, session: int, number: int = 1) -> None:
        lsid = {"id": Binary(bytes([session]) * 16, 4)}
        asked(db, {"insert": "orders", "documents": [{}], "txnNumber": Int64(number), "lsid": lsid})

    def test_a_session_has_one_row(self, db: Database) -> None:
        for number in range(3):
            self.insert(db, 1, number)
        self.insert(db, 2)
        assert 2 == len(rows(db))

    def test_what_is_too_old_is_removed_with_a_later_write(
        self, db: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(retries, "KEPT_MS", -1)
        monkeypatch.setattr(retries, "SWEEP_MS", 1 << 60)
        self.insert(db, 1)
        assert [(bytes([1]) * 16).hex()] == rows(db)
        monkeypatch.undo()
        self.insert(db, 2)
        assert [(bytes([2]) * 16).hex()] == rows(db)

    def test_what_is_too_old_is_not_believed(self, db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(retries, "KEPT_MS", -1)
        monkeypatch.setattr(retries, "SWEEP_MS", 1 << 60)
        self.insert(db, 1)
        self.insert(db, 1)
        assert 2 == db.table("shop.orders").count().run()

    def test_there_are_no_more_than_so_many(self, db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(retries, "MOST_KEPT", 2)
        for session in range(4):
            self.insert(db, session)
        assert [(bytes([one]) * 16).hex() for one in (2, 3)] == rows(db)


class TestTransactions:
    def insert(self, id: int, number: int = 1, **more: Any) -> dict[str, Any]:
        body = {"insert": "orders", "documents": [{"_id": id}], "txnNumber": Int64(number)}
        return {**body, "autocommit": False, **more}

    def test_a_commit_that_is_sent_again_has_been_done(self, db: Database) -> None:
        commit = {"commitTransaction": 1, "txnNumber": Int64(1), "autocommit": False, "$db": "admin"}
        first = asked(db, self.insert(1, startTransaction=True), commit)[-1]
        seq = db.seq
        assert [first] == asked(db, commit)
        assert (1, seq) == (db.table("shop.orders").count().run(), db.seq)

    def test_one_that_was_never_carried_out_is_unknown(self, db: Database) -> None:
        commit = {"commitTransaction": 1, "txnNumber": Int64(1), "autocommit": False, "$db": "admin"}
        asked(db, self.insert(1, startTransaction=True))
        (answer,) = asked(db, commit)
        assert (251, ["TransientTransactionError"]) == (answer["code"], answer["errorLabels"])

    def test_a_statement_of_it_is_refused(self, db: Database) -> None:
        commit = {"commitTransaction": 1, "txnNumber": Int64(1), "autocommit": False, "$db": "admin"}
        asked(db, self.insert(1, startTransaction=True), commit)
        assert [251] == [one["code"] for one in asked(db, self.insert(2))]
        assert [1.0] == [one["ok"] for one in asked(db, self.insert(3, 2, startTransaction=True))]


@pytest.mark.slow
def test_the_fail_point_of_writes_counts_statements_that_are_carried_out(client: MongoClient[Any]) -> None:
    orders = client["shop"]["orders"]
    point = "onPrimaryTransactionalWrite"
    # One that is answered again is not carried out: the second write meets the second failure.
    client.admin.command("configureFailPoint", point, mode={"times": 2})
    orders.insert_one({"_id": 1})
    orders.insert_one({"_id": 2})
    assert 2 == client.admin.command("configureFailPoint", point, mode="off")["count"]
    client.admin.command(
        "configureFailPoint", point, mode={"skip": 3}, data={"failBeforeCommitExceptionCode": 1}
    )
    orders.insert_many([{"_id": id} for id in (3, 4, 5)])
    with pytest.raises(AutoReconnect):
        orders.insert_one({"_id": 6})
    client.admin.command("configureFailPoint", point, mode="off")
    assert [1, 2, 3, 4, 5] == orders.distinct("_id")


class Restarting(monitoring.CommandListener):
    """Kills the server when a write of it has failed, and starts the next one, before the driver sends the write again."""

    def __init__(self, path: Path, uri: str) -> None:
        self._path = path
        self._uri = uri
        self.lives = [served(path, uri, "--fail-points")]
        self.lives[0].__enter__()

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        if event.command_name in ("insert", "findAndModify"):
            self.lives.pop().__exit__(None, None, None)
            self.lives.append(served(self._path, self._uri))
            self.lives[-1].__enter__()

    def started(self, event: monitoring.CommandStartedEvent) -> None: ...

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None: ...


@pytest.mark.slow
@pytest.mark.parametrize("write", ["insert", "findAndModify"])
def test_a_server_that_is_killed_between_the_commit_and_the_answer(
    tmp_path: Path, uri: str, write: str
) -> None:
    listener = Restarting(tmp_path / "a.db", uri)
    try:
        client: MongoClient[dict[str, Any]]
        with MongoClient(uri, event_listeners=[listener]) as client:
            orders = client["shop"].get_collection("orders", write_concern=WriteConcern(w="majority"))
            orders.insert_one({"_id": 0, "n": 0})
            client.admin.command("configureFailPoint", "onPrimaryTransactionalWrite", mode={"times": 1})
            if write == "insert":
                assert 1 == orders.insert_one({"_id": 1}).inserted_id
            else:
                assert {"_id": 0, "n": 1} == orders.find_one_and_update(
                    {"_id": 0}, {"$inc": {"n": 1}}, return_document=True
                )
            assert ([0, 1] if write == "insert" else [0]) == orders.distinct("_id")
            assert (0 if write == "insert" else 1) == orders.find_one({"_id": 0})["n"]
            # The new one has no fail points: it is the second life.
            with pytest.raises(OperationFailure):
                client.admin.command("configureFailPoint", "onPrimaryTransactionalWrite", mode="off")
    finally:
        for life in listener.lives:
            life.__exit__(None, None, None)
