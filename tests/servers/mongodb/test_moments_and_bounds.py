"""Snapshot reads beside compaction, and bounds of depth and size: over a socket and in the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from bson import Timestamp
from pymongo.errors import OperationFailure

import reactdb
from reactdb.servers.mongodb import MongoDBServer
from tests.servers.mongodb.wire import Wire


@pytest.fixture(params=["socket", "process"])
def orders(request: pytest.FixtureRequest, db: Any) -> Any:
    client = reactdb.mongodb(db) if request.param == "process" else request.getfixturevalue("client")
    return client["shop"]["orders"]


def code(work: Any, *arguments: Any, **options: Any) -> Any:
    with pytest.raises(OperationFailure) as refused:
        work(*arguments, **options)
    return refused.value.code


def nested(levels: int, name: str, inner: Any, wrap: Callable[[Any], Any] = lambda value: value) -> Any:
    for _ in range(levels):
        inner = {name: wrap(inner)}
    return inner


class TestSnapshotsBesideCompaction:
    def test_the_newest_state_is_read_though_nothing_before_it_is_left(self, db: Any, orders: Any) -> None:
        """Also where the newest commit has several changes, of which the first are gone."""
        orders.insert_many([{"_id": 1}, {"_id": 2}])
        db.compact(keep=0)

        with orders.database.client.start_session(snapshot=True) as session:
            assert [1, 2] == [one["_id"] for one in orders.find(session=session)]
        read = orders.database.command("find", "orders", readConcern={"level": "snapshot"})
        assert [{"_id": 1}, {"_id": 2}] == list(read["cursor"]["firstBatch"])

    def test_a_stream_begins_after_the_newest_commit(self, db: Any, orders: Any) -> None:
        orders.insert_many([{"_id": 1}, {"_id": 2}])
        db.compact(keep=0)
        newest = orders.database.command("ping")["operationTime"]

        with orders.watch(start_at_operation_time=Timestamp(newest.time, newest.inc + 1)) as stream:
            orders.insert_one({"_id": 3})
            assert 3 == stream.next()["documentKey"]["_id"]

    @pytest.mark.parametrize(
        "read",
        [
            lambda orders, cursor, session: orders.count_documents({}, session=session),
            lambda orders, cursor, session: list(orders.find(session=session)),
            lambda orders, cursor, session: list(orders.aggregate([], session=session)),
            lambda orders, cursor, session: list(cursor),
        ],
        ids=["count", "find", "aggregate", "cursor"],
    )
    def test_a_moment_that_is_gone(self, db: Any, orders: Any, read: Any) -> None:
        orders.insert_many([{"_id": n} for n in range(300)])
        with orders.database.client.start_session(snapshot=True) as session:
            cursor = orders.find(session=session, batch_size=2)
            next(cursor)
            orders.delete_one({"_id": 250})
            orders.insert_one({})
            db.compact(keep=0)

            assert 239 == code(read, orders, cursor, session)


class TestWhatIsNestedTooDeeply:
    def test_a_document(self, orders: Any) -> None:
        assert 2 == code(orders.insert_one, nested(150, "a", 1))
        # Beyond what Python goes down into.
        assert 15 == code(orders.insert_one, nested(400, "a", 1))
        assert 0 == orders.count_documents({})

    def test_a_query(self, orders: Any) -> None:
        assert 15 == code(lambda: list(orders.find(nested(250, "$or", {"a": 1}, lambda value: [value]))))

    def test_an_expression(self, orders: Any) -> None:
        orders.insert_one({"_id": 1, "x": -1})

        assert [{"_id": 1, "x": 1}] == list(orders.aggregate([{"$set": {"x": nested(100, "$abs", "$x")}}]))
        assert 15 == code(lambda: list(orders.aggregate([{"$set": {"x": nested(198, "$abs", "$x")}}])))


@pytest.mark.parametrize("db", ["memory"], indirect=True)
def test_a_result_has_at_most_16_mb(client: Any) -> None:
    orders = client["shop"]["orders"]
    orders.insert_many([{"_id": n, "s": "x" * 1_000_000} for n in range(18)])
    together = {"$group": {"_id": None, "all": {"$push": "$s"}}}

    assert 10334 == code(lambda: list(orders.aggregate([together])))
    assert 16 == len(next(orders.aggregate([{"$match": {"_id": {"$lt": 16}}}, together]))["all"])


class TestWhatAServerIsTold:
    def test_a_cluster_time_that_is_none(self, server: MongoDBServer) -> None:
        with Wire(server.port) as wire:
            for wrong in ({}, 5, {"clusterTime": {}}, {"clusterTime": 5}):
                assert 14 == wire.ask({"ping": 1, "$clusterTime": wrong})["code"]
            assert 1.0 == wire.ask({"ping": 1, "$clusterTime": {"clusterTime": Timestamp(1, 1)}})["ok"]

    def test_raw_data_says_nothing_where_there_are_no_time_series(self, server: MongoDBServer) -> None:
        with Wire(server.port) as wire:
            assert 1.0 == wire.ask({"find": "orders", "rawData": True, "$db": "shop"})["ok"]

    def test_errors_of_fail_points_have_the_labels_that_a_server_adds(self, client: Any) -> None:
        def labels(command: str, error: int, work: Any) -> Any:
            data = {"failCommands": [command], "errorCode": error}
            client.admin.command("configureFailPoint", "failCommand", mode={"times": 2}, data=data)
            with pytest.raises(OperationFailure) as failed:
                work()
            client.admin.command("configureFailPoint", "failCommand", mode="off")
            return failed.value.details["errorLabels"]  # type: ignore[index]

        orders = client["shop"]["orders"]
        assert ["RetryableWriteError"] == labels("insert", 262, lambda: orders.insert_one({}))
        with client.start_session() as session:
            session.start_transaction()
            assert ["TransientTransactionError"] == labels(
                "insert", 262, lambda: orders.insert_one({}, session=session)
            )
        for error, label in ((251, "TransientTransactionError"), (262, "RetryableWriteError")):
            with client.start_session() as session:
                session.start_transaction()
                orders.insert_one({}, session=session)
                assert label in labels("commitTransaction", error, session.commit_transaction)


def test_a_format_that_ends_in_a_sign_and_the_third_argument_of_a_slice(orders: Any) -> None:
    orders.insert_one({"_id": 1})

    def computed(expression: Any) -> Any:
        return list(orders.aggregate([{"$set": {"x": expression}}]))

    assert 18535 == code(computed, {"$dateToString": {"date": "$$NOW", "format": "a%"}})
    assert 28727 == code(computed, {"$slice": [[1, 2, 3], 1, "x"]})
    assert 28728 == code(computed, {"$slice": [[1, 2, 3], 0, 1.5]})
