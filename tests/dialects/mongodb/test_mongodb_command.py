"""Commands in the process: `database.command`, and what PyMongo makes of commands."""

from __future__ import annotations

from typing import Any

import pytest
from bson.dbref import DBRef
from pymongo.errors import InvalidOperation, OperationFailure

import reactdb
from reactdb import Database

pytestmark = pytest.mark.parametrize("db", ["memory"], indirect=True)


@pytest.fixture
def shop(db: Database) -> Any:
    return reactdb.mongodb(db)["shop"]


@pytest.mark.parametrize(
    ("given", "options"), [("ping", {}), ({"ping": 1}, {}), ({"ping": 1}, {"comment": "why"})]
)
def test_a_command_is_a_name_or_a_document(shop: Any, given: Any, options: dict[str, Any]) -> None:
    assert 1.0 == shop.command(given, **options)["ok"]


def test_a_command_does_what_it_does_over_a_socket(shop: Any) -> None:
    shop.command("insert", "orders", documents=[{"_id": 1, "item": "tea"}, {"_id": 2}])

    first = shop.command({"find": "orders", "batchSize": 1})["cursor"]
    rest = shop.command("getMore", first["id"], collection="orders")["cursor"]

    assert [{"_id": 1, "item": "tea"}] == first["firstBatch"]
    assert [{"_id": 2}] == rest["nextBatch"]
    assert {"_id": 1, "item": "tea"} == shop["orders"].find_one(1)


def test_a_stream_that_is_asked_for_more_is_told_by_a_write_of_the_same_thread(shop: Any) -> None:
    stream = shop.command("aggregate", "orders", pipeline=[{"$changeStream": {}}], cursor={})["cursor"]
    shop["orders"].insert_one({"_id": 1})

    told = shop.command("getMore", stream["id"], collection="orders", maxTimeMS=10_000)["cursor"]

    assert ["insert"] == [event["operationType"] for event in told["nextBatch"]]


def test_a_stream_with_nothing_to_tell_answers_when_its_time_is_over(shop: Any) -> None:
    stream = shop.command("aggregate", "orders", pipeline=[{"$changeStream": {}}], cursor={})["cursor"]

    told = shop.command("getMore", stream["id"], collection="orders", maxTimeMS=1)["cursor"]

    assert [] == told["nextBatch"]


def test_an_answer_that_is_an_error_is_raised_unless_it_is_allowed(shop: Any) -> None:
    with pytest.raises(OperationFailure, match="no such command: 'nothing'") as caught:
        shop.command("nothing")

    assert 59 == caught.value.code
    assert 59 == shop.command("nothing", check=False)["code"]
    assert 59 == shop.command("nothing", allowable_errors=[59])["code"]
    assert 59 == shop.command("nothing", allowable_errors=["no such command: 'nothing'"])["code"]
    with pytest.raises(OperationFailure):
        shop.command("nothing", allowable_errors=[58])


def test_a_command_of_a_transaction_is_undone_with_it(shop: Any) -> None:
    shop["orders"].insert_one({"_id": 1})

    with shop.client.start_session() as session:
        session.start_transaction()
        shop.command("insert", "orders", documents=[{"_id": 2}], session=session)
        inside = shop.command("find", "orders", session=session)["cursor"]["firstBatch"]
        outside = shop.command("find", "orders")["cursor"]["firstBatch"]
        session.abort_transaction()

    assert [{"_id": 1}, {"_id": 2}] == inside
    assert [{"_id": 1}] == outside == list(shop["orders"].find())


def test_what_cannot_be_in_a_transaction_is_refused(shop: Any) -> None:
    with shop.client.start_session() as session, session.start_transaction():
        with pytest.raises(OperationFailure) as caught:
            shop.command("dropIndexes", "orders", index="*", session=session)

        assert 263 == caught.value.code


def test_an_error_ends_the_transaction_as_over_a_socket(shop: Any) -> None:
    shop["orders"].insert_one({"_id": 1})

    with shop.client.start_session() as session:
        session.start_transaction()
        with pytest.raises(OperationFailure):
            shop.command("find", "orders", filter={"$nothing": 1}, session=session)
        with pytest.raises(OperationFailure) as caught:
            session.commit_transaction()

    assert 251 == caught.value.code


def test_native_tables_have_the_name_that_the_client_gives_them(db: Database) -> None:
    db.table_create("games").insert({"id": 1})

    found = reactdb.mongodb(db, default="play")["play"].command("find", "games")["cursor"]

    assert ("play.games", [{"_id": 1}]) == (found["ns"], found["firstBatch"])


def test_what_the_server_is_and_what_it_finds_valid(shop: Any) -> None:
    shop["orders"].insert_one({"_id": 1})

    assert shop.client.server_info()["version"].startswith("8.")
    assert 1 == shop.validate_collection("orders")["nrecords"]
    assert shop.validate_collection(shop["orders"])["valid"]


def test_a_query_is_explained(shop: Any) -> None:
    shop["orders"].insert_one({"_id": 1})

    planner = shop["orders"].find({"_id": 1}).sort("_id").explain()["queryPlanner"]

    assert ("shop.orders", {"_id": 1}) == (planner["namespace"], planner["parsedQuery"])


def test_what_serves_a_query_is_explained(db: Any, shop: Any) -> None:
    orders = shop["orders"]
    orders.insert_one({"_id": 1, "a": {"b": 1}, "user": 5})
    orders.create_index([("a.b", -1)], name="by_b")
    db.table("shop.orders").index_create("user")

    def plan(query: Any) -> Any:
        return orders.find(query).explain()["queryPlanner"]["winningPlan"]

    assert "COLLSCAN" == plan({"user": {"$ne": 5}})["stage"]
    assert "CLUSTERED_IXSCAN" == plan({"_id": {"$gt": 1}})["stage"]
    assert "by_b" == plan({"a.b": 1, "user": 5})["inputStage"]["indexName"]
    native = plan({"user": {"$gt": 4}})
    assert ("FETCH", "IXSCAN") == (native["stage"], native["inputStage"]["stage"])
    assert ({"user": 1}, "user") == (native["inputStage"]["keyPattern"], native["inputStage"]["indexName"])
    for command in (
        {"update": "orders", "updates": [{"q": {"user": 5}, "u": {"$set": {"n": 1}}}]},
        {"delete": "orders", "deletes": [{"q": {"user": 5}, "limit": 0}]},
        {"aggregate": "orders", "pipeline": [{"$match": {"user": 5}}], "cursor": {}},
        {"count": "orders", "query": {"user": 5}},
        {"distinct": "orders", "key": "n", "query": {"user": 5}},
    ):
        found = shop.command("explain", command)["queryPlanner"]["winningPlan"]
        assert "user" == found["inputStage"]["indexName"]


def test_a_reference_is_followed(shop: Any) -> None:
    shop["orders"].insert_one({"_id": 1, "item": "tea"})

    assert {"_id": 1, "item": "tea"} == shop.dereference(DBRef("orders", 1))
    assert shop.dereference(DBRef("orders", 2)) is None
    with pytest.raises(ValueError, match="another database"):
        shop.dereference(DBRef("orders", 1, "farm"))


@pytest.mark.parametrize(
    ("call", "method", "owner"),
    [
        (lambda shop: shop.nothing(), "nothing", "Database"),
        (lambda shop: shop["orders"].nothing(1), "nothing", "Collection"),
        (lambda shop: shop.client.nothing(), "nothing", "MongoClient"),
    ],
)
def test_a_method_that_does_not_exist_is_said_to_be_none(
    shop: Any, call: Any, method: str, owner: str
) -> None:
    with pytest.raises(TypeError, match=f"the '{method}' method on a '{owner}' object"):
        call(shop)


def test_a_client_knows_that_there_is_no_server(shop: Any) -> None:
    """These names gave databases, each of which a program would take for something."""
    client = shop.client
    assert (None, None, True, False) == (
        client.address,
        client.primary,
        client.is_primary,
        client.is_mongos,
    )
    assert not client.nodes | client.secondaries | client.arbiters


def test_a_command_that_gives_a_cursor_is_read_to_its_end(shop: Any) -> None:
    shop["orders"].insert_many([{"_id": number} for number in range(5)])

    found = shop.cursor_command("find", "orders", filter={"_id": {"$gt": 0}}, batchSize=2)

    assert [1, 2, 3, 4] == [one["_id"] for one in found]
    with pytest.raises(InvalidOperation):
        shop.cursor_command("ping")
