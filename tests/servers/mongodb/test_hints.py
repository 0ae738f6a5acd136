"""PyMongo against the server: hints, bounds in an index, plans, and the time that a cursor has."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import ExecutionTimeout, OperationFailure

Client = MongoClient[dict[str, Any]]


@pytest.fixture
def orders(client: Client) -> Any:
    found = client["shop"]["orders"]
    found.insert_many([{"_id": n, "n": 9 - n} for n in range(10)])
    found.create_index("n")
    found.create_index("p", partialFilterExpression={"n": {"$gt": 4}}, name="partial", background=False)
    return found


def test_documents_come_in_the_order_of_the_index_within_its_bounds(orders: Any) -> None:
    found = orders.find({"_id": {"$ne": 6}}).hint("n_1").min([("n", 2)]).max([("n", 5)])
    assert [2, 4] == [one["n"] for one in found]
    assert [{"n": 0}] == list(orders.find({}, hint="n_1", return_key=True, limit=1))


@pytest.mark.parametrize(
    ("code", "options"),
    [
        (51173, {"min": {"n": 1}}),
        (51174, {"min": {"x": 1}, "hint": "n_1"}),
        (14, {"min": 1, "hint": "n_1"}),
        (238, {"showRecordId": True}),
        (2, {"hint": "missing"}),
    ],
)
def test_what_does_not_fit_is_refused(
    client: Client, orders: Any, code: int, options: dict[str, Any]
) -> None:
    with pytest.raises(OperationFailure) as caught:
        client["shop"].command("find", "orders", **options)
    assert code == caught.value.code


def test_a_write_with_a_hint_needs_the_index(orders: Any) -> None:
    orders.update_one({"n": 1}, {"$set": {"a": 1}}, hint="n_1")
    for write in (
        lambda: orders.update_one({"n": 1}, {"$set": {"a": 1}}, hint="x_1"),
        lambda: orders.delete_one({"n": 1}, hint="x_1"),
        lambda: orders.find_one_and_delete({"n": 1}, hint="x_1"),
    ):
        with pytest.raises(OperationFailure) as caught:
            write()
        assert 2 == caught.value.code


def test_a_write_is_about_the_first_document_in_the_order_of_the_index(orders: Any) -> None:
    orders.delete_one({}, hint=[("$natural", -1)])
    orders.update_one({}, {"$set": {"a": 1}}, hint="n_1")
    assert 1 == orders.delete_many({"_id": {"$in": [4, 5]}}, hint="partial").deleted_count

    assert [{"_id": 8, "n": 1, "a": 1}] == list(orders.find({"a": 1}))
    assert [0, 1, 2, 3, 5, 6, 7, 8] == [one["_id"] for one in orders.find()]


class TestPlans:
    def plan(self, found: dict[str, Any]) -> dict[str, Any]:
        plan: dict[str, Any] = found["queryPlanner"]["winningPlan"]
        return plan

    def test_it_says_what_is_read(self, client: Client, orders: Any) -> None:
        by_index = self.plan(orders.find({"n": {"$gt": 3}}).explain())
        assert ("FETCH", "IXSCAN", "n_1") == (
            by_index["stage"],
            by_index["inputStage"]["stage"],
            by_index["inputStage"]["indexName"],
        )
        assert "IDHACK" == self.plan(orders.find({"_id": 1}).explain())["stage"]
        assert "COLLSCAN" == self.plan(orders.find({"x": 1}).explain())["stage"]
        choice = {"$or": [{"n": None}, {"_id": {"$gt": 8}}, {"_id": 3}]}
        read = self.plan(orders.find(choice).explain())["inputStage"]
        assert ("OR", ["IXSCAN", "CLUSTERED_IXSCAN", "IDHACK"]) == (
            read["stage"],
            [one["stage"] for one in read["inputStages"]],
        )
        assert [3, 9] == [one["_id"] for one in orders.find(choice)]
        assert "EOF" == self.plan(client["shop"]["missing"].find().explain())["stage"]
        partial = self.plan(orders.find({"p": 1, "n": {"$gt": 5}}).explain())["inputStage"]
        assert (partial["indexName"] == "partial") == partial["isPartial"]

    def test_it_says_in_which_order_an_index_is_read(self, client: Client, orders: Any) -> None:
        read = self.plan(orders.find({"n": {"$gt": 3}}).sort("n", -1).limit(2).explain())["inputStage"]
        assert ("IXSCAN", "n_1", "backward") == (read["stage"], read["indexName"], read["direction"])
        assert [9, 8] == [one["n"] for one in orders.find({"n": {"$gt": 3}}).sort("n", -1).limit(2)]
        assert [4, 5] == [one["n"] for one in orders.find({"n": {"$gt": 3}}, limit=2)]
        assert 4 == orders.find_one({"n": {"$gt": 3}})["n"]
        log = client["shop"].create_collection("log", capped=True, size=4_096)
        log.insert_many([{"n": 2}, {"n": 1}])
        log.create_index("n")
        read = self.plan(log.find({"n": {"$gt": 0}}).explain())
        assert ("COLLSCAN", "forward") == (read["stage"], read["direction"])
        read = self.plan(log.find().sort("$natural", -1).limit(1).explain())
        assert ("COLLSCAN", "backward") == (read["stage"], read["direction"])
        assert [2, 1] == [one["n"] for one in log.find({"n": {"$gt": 0}}, limit=2)]

    def test_it_says_how_much_comes_of_it_where_that_is_asked_for(self, client: Client, orders: Any) -> None:
        assert 4 == orders.find({"n": {"$lt": 5}}).limit(4).explain()["executionStats"]["nReturned"]
        told = client["shop"].command(
            "explain", {"count": "orders", "query": {"n": 1}}, verbosity="queryPlanner"
        )
        assert "executionStats" not in told

    def test_of_writes_only_the_plan_is_told(self, client: Client, orders: Any) -> None:
        told = client["shop"].command(
            "explain", {"delete": "orders", "deletes": [{"q": {"n": 1}, "limit": 0}]}
        )
        assert "IXSCAN" == self.plan(told)["inputStage"]["stage"]
        assert 10 == orders.count_documents({})
        piped = client["shop"].command("aggregate", "orders", pipeline=[{"$match": {"_id": 1}}], explain=True)
        assert "IDHACK" == self.plan(piped)["stage"]

    def test_what_cannot_be_explained_is_refused(self, client: Client, orders: Any) -> None:
        for code, asked in (
            (59, {"explain": {"nonsense": 1}}),
            (20, {"explain": {"ping": 1}}),
            (2, {"explain": {"find": "orders"}, "verbosity": "much"}),
            (2, {"explain": {"find": "orders", "hint": "x_1"}}),
        ):
            with pytest.raises(OperationFailure) as caught:
                client["shop"].command(asked)
            assert code == caught.value.code


def test_an_index_is_listed_with_the_options_that_it_was_given(orders: Any) -> None:
    assert orders.index_information()["partial"]["background"] is False


def test_what_a_find_may_take_is_for_all_of_its_batches(client: Client, orders: Any) -> None:
    cursor = orders.find(batch_size=2).max_time_ms(60_000)
    next(cursor)
    client.admin.command("configureFailPoint", "maxTimeAlwaysTimeOut", mode="alwaysOn")
    with pytest.raises(ExecutionTimeout):
        list(cursor)
    client.admin.command("configureFailPoint", "maxTimeAlwaysTimeOut", mode="off")
