"""`$$CLUSTER_TIME`, and the time in the place of an empty timestamp: over a socket, and in the process."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Timestamp
from pymongo import InsertOne, MongoClient, ReplaceOne, UpdateOne
from pymongo.errors import OperationFailure, WriteError

import reactdb

EMPTY = Timestamp(0, 0)
LATE = Timestamp(2**32 - 1, 0)
BEFORE_NOW = {"$expr": {"$lt": ["$t", "$$CLUSTER_TIME"]}}


@pytest.fixture(params=["socket", "process"])
def shop(request: pytest.FixtureRequest, db: Any) -> Any:
    """A database."""
    if request.param == "process":
        return reactdb.mongodb(db)["shop"]
    client: MongoClient[Any] = request.getfixturevalue("client")
    return client["shop"]


def _now(shop: Any) -> Timestamp:
    found: Timestamp = shop.command("ping")["operationTime"]
    return found


def _code(refused: pytest.ExceptionInfo[Any]) -> int:
    code: int = refused.value.code
    return code


# --- Empty timestamps ---


def test_an_empty_timestamp_of_an_inserted_document_is_given_the_time(shop: Any) -> None:
    orders = shop["orders"]
    orders.insert_one({"_id": 0})
    before = _now(shop)

    orders.insert_many([{"_id": 1, "t": EMPTY, "u": EMPTY}, {"_id": 2, "t": EMPTY}])

    first, second = orders.find({"_id": {"$gt": 0}}).sort("_id")
    assert before < first["t"] < first["u"] < second["t"]


def test_what_lies_deeper_and_the_id_stay_empty(shop: Any) -> None:
    document = {"_id": EMPTY, "a": {"t": EMPTY}, "b": [EMPTY], "c": Timestamp(0, 1)}

    shop["orders"].insert_one(dict(document))

    assert document == shop["orders"].find_one()


def test_a_document_that_was_given_is_not_changed(shop: Any) -> None:
    document = {"_id": 1, "t": EMPTY}

    shop["orders"].insert_one(document)

    assert {"_id": 1, "t": EMPTY} == document


def test_a_replacement_and_an_upsert_of_one_are_given_the_time(shop: Any) -> None:
    orders = shop["orders"]
    orders.insert_many([{"_id": 1}, {"_id": 2}])

    orders.replace_one({"_id": 1}, {"t": EMPTY})
    orders.find_one_and_replace({"_id": 2}, {"t": EMPTY})
    orders.replace_one({"_id": 3}, {"t": EMPTY}, upsert=True)
    orders.bulk_write([InsertOne({"_id": 4, "t": EMPTY}), ReplaceOne({"_id": 5}, {"t": EMPTY}, upsert=True)])

    assert 5 == orders.count_documents({"t": {"$gt": Timestamp(1_000_000, 0)}})


def test_what_an_operator_writes_stays_empty(shop: Any) -> None:
    orders = shop["orders"]

    orders.update_one({"_id": 1}, {"$set": {"t": EMPTY}}, upsert=True)

    assert {"_id": 1, "t": EMPTY} == orders.find_one()


def test_a_command_may_ask_for_empty_timestamps(shop: Any) -> None:
    shop.command("insert", "orders", documents=[{"_id": 1, "t": EMPTY}], bypassEmptyTsReplacement=True)
    replacement = {"q": {"_id": 2}, "u": {"t": EMPTY}, "upsert": True}
    shop.command("update", "orders", updates=[replacement], bypassEmptyTsReplacement=True)

    assert 2 == shop["orders"].count_documents({"t": EMPTY})


# --- $$CLUSTER_TIME ---


def test_the_cluster_time_is_that_of_the_newest_commit_in_every_stage(shop: Any) -> None:
    shop["orders"].insert_many([{"_id": 1}, {"_id": 2}])

    made = shop["orders"].aggregate(
        [
            {"$set": {"a": "$$CLUSTER_TIME"}},
            {"$lookup": {"from": "orders", "pipeline": [{"$set": {"t": "$$CLUSTER_TIME"}}], "as": "b"}},
            {"$facet": {"c": [{"$project": {"a": 1, "b.t": 1, "d": "$$CLUSTER_TIME"}}]}},
        ]
    )

    (result,) = made
    times = {
        time for one in result["c"] for time in (one["a"], one["d"], *[inner["t"] for inner in one["b"]])
    }
    assert {_now(shop)} == times


def test_queries_updates_and_projections_know_the_cluster_time(shop: Any) -> None:
    orders = shop["orders"]
    orders.insert_many([{"_id": 1, "t": Timestamp(1, 1)}, {"_id": 2, "t": LATE}])
    before = _now(shop)

    assert [1] == [one["_id"] for one in orders.find(BEFORE_NOW)]
    assert before == orders.find_one({}, {"at": "$$CLUSTER_TIME"})["at"]
    assert 1 == orders.count_documents(BEFORE_NOW)
    assert 1 == orders.update_many(BEFORE_NOW, [{"$set": {"at": "$$CLUSTER_TIME"}}]).modified_count
    assert before == orders.find_one({"_id": 1})["at"]
    found = orders.find_one_and_update(BEFORE_NOW, [{"$set": {"late": {"$gt": ["$t", "$$CLUSTER_TIME"]}}}])
    assert 1 == found["_id"]
    assert 1 == orders.delete_many(BEFORE_NOW).deleted_count


def test_a_view_has_the_cluster_time_of_its_reading(shop: Any) -> None:
    shop["orders"].insert_one({"_id": 1})
    shop.command("create", "seen", viewOn="orders", pipeline=[{"$set": {"at": "$$CLUSTER_TIME"}}])
    first = next(shop["seen"].aggregate([]))["at"]
    shop["orders"].insert_one({"_id": 2})

    assert first < next(shop["seen"].aggregate([]))["at"] == _now(shop)


def test_a_validator_has_the_cluster_time_of_each_write(shop: Any) -> None:
    shop.create_collection("orders", validator={"$and": [{"t": {"$exists": True}}, BEFORE_NOW]})

    shop["orders"].insert_one({"_id": 1, "t": Timestamp(1, 1)})
    shop["orders"].insert_one({"_id": 2, "t": EMPTY})
    with pytest.raises(WriteError) as refused:
        shop["orders"].insert_one({"_id": 3, "t": LATE})

    assert 121 == _code(refused)
    assert [1, 2] == [one["_id"] for one in shop["orders"].find()]


def test_a_stream_has_the_cluster_time_at_which_it_was_opened(shop: Any) -> None:
    shop["orders"].insert_one({"_id": 1})
    opened = _now(shop)

    with shop["orders"].watch([{"$set": {"at": "$$CLUSTER_TIME"}}]) as stream:
        shop["orders"].insert_one({"_id": 2})
        assert opened == stream.next()["at"]


def test_a_transaction_has_the_cluster_time(shop: Any) -> None:
    shop["orders"].insert_one({"_id": 1})
    before = _now(shop)

    with shop.client.start_session() as session, session.start_transaction():
        shop["orders"].update_one({"_id": 1}, [{"$set": {"at": "$$CLUSTER_TIME"}}], session=session)
        shop["orders"].insert_one({"_id": 2, "t": EMPTY}, session=session)

    assert before == shop["orders"].find_one({"_id": 1})["at"]
    assert before < shop["orders"].find_one({"_id": 2})["t"]


@pytest.mark.parametrize(
    ("database", "command"),
    [
        ("shop", {"count": "orders", "query": BEFORE_NOW}),
        ("shop", {"distinct": "orders", "key": "t", "query": BEFORE_NOW}),
        ("shop", {"listCollections": 1, "filter": BEFORE_NOW}),
        ("admin", {"listDatabases": 1, "filter": BEFORE_NOW}),
    ],
    ids=repr,
)
def test_commands_without_a_cluster_time_say_so(shop: Any, database: str, command: dict[str, Any]) -> None:
    with pytest.raises(OperationFailure) as refused:
        shop.client[database].command(command)

    assert 51144 == _code(refused)


# --- $currentDate ---


def test_no_two_timestamps_of_updates_are_equal(shop: Any) -> None:
    stamps = {"$currentDate": {"t": {"$type": "timestamp"}, "u": {"$type": "timestamp"}}}
    orders = shop["orders"]
    orders.insert_many([{"_id": id} for id in range(3)])
    before = _now(shop)
    seen: list[Timestamp] = []
    for write in (
        lambda: orders.update_many({}, stamps),
        lambda: orders.update_one({"_id": 3}, stamps, upsert=True),
        lambda: orders.find_one_and_update({"_id": 3}, stamps),
        lambda: orders.bulk_write([UpdateOne({"_id": 3}, stamps)]),
        lambda: orders.insert_one({"_id": 4, "t": EMPTY, "u": EMPTY}),
    ):
        write()
        seen += [
            one[name]
            for one in orders.find({"t": {"$gt": max([before, *seen])}}).sort("_id")
            for name in "tu"
        ]

    assert 2 * (3 + 4) == len(seen)
    assert sorted(set(seen)) == seen
