"""Partial indexes: which queries are read from them, and which are not."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

pytest.importorskip("bson")

from bson import DatetimeMS, Decimal128, Int64, ObjectId, Regex

import reactdb
from reactdb.dialects.mongodb.partial_index import implies

DAY = datetime(2024, 1, 1)
KEY = ObjectId(b"k" * 12)


@pytest.fixture
def orders(db: Any) -> Any:
    return reactdb.mongodb(db)["shop"]["orders"]


def _reads(orders: Any, query: dict[str, Any], **options: Any) -> str:
    """Which index a query is read from, or `COLLSCAN`."""
    command = {"find": "orders", "filter": query, **options}
    plan = orders.database.command("explain", command, verbosity="queryPlanner")["queryPlanner"][
        "winningPlan"
    ]
    found: str = plan.get("inputStage", {}).get("indexName", plan["stage"])
    return found


IMPLIED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"n": 5}, {"n": 5}),
    ({"n": 5}, {"n": {"$eq": 5.0}}),
    ({"n": 5}, {"n": {"$in": [Int64(5)]}}),
    ({"n": {"$in": [1, 2, 3]}}, {"n": {"$in": [3, 1]}}),
    ({"n": {"$gt": 0}}, {"n": 1}),
    ({"n": {"$gt": 0}}, {"n": {"$gt": 0}}),
    ({"n": {"$gt": 0}}, {"n": {"$gt": 1}}),
    ({"n": {"$gt": 0}}, {"n": {"$gte": 1}}),
    ({"n": {"$gte": 0}}, {"n": {"$gte": 0}}),
    ({"n": {"$gte": 0}}, {"n": {"$gt": 0}}),
    ({"n": {"$gte": 0}}, {"n": {"$in": [0, Decimal128("1.5")]}}),
    ({"n": {"$lt": 5}}, {"n": {"$lte": 4}}),
    ({"n": {"$lte": 5}}, {"n": {"$lt": 5}}),
    ({"n": {"$gte": 0, "$lt": 10}}, {"n": {"$gt": 2, "$lte": 9}}),
    ({"n": {"$gt": 0}}, {"$and": [{"n": {"$gt": 3}}, {"b": 1}]}),
    ({"n": {"$gt": "m"}}, {"n": "z"}),
    ({"n": {"$gte": DAY}}, {"n": {"$gt": DAY}}),
    ({"n": {"$lte": KEY}}, {"n": KEY}),
    ({"n": True}, {"n": True}),
    ({"n": {"$exists": True}}, {"n": 1}),
    ({"n": {"$exists": True}}, {"n": {"$gt": 1}}),
    ({"n": {"$exists": True}}, {"n": {"$exists": True}}),
    ({"n": {"$exists": True}}, {"n": {"$ne": None}}),
    ({"n": {"$type": "number"}}, {"n": {"$type": "number"}}),
    ({"$and": [{"n": {"$gt": 0}}, {"m": 1}]}, {"m": 1, "n": 2}),
    ({"$or": [{"n": {"$gt": 0}}, {"m": 1}]}, {"m": 1}),
]
NOT_IMPLIED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"n": 5}, {}),
    ({"n": 5}, {"n": 6}),
    ({"n": 5}, {"n": {"$in": [5, 6]}}),
    ({"n": 5}, {"n": {"$in": []}}),
    ({"n": 5}, {"n": {"$gte": 5, "$lte": 5}}),
    ({"n": {"$gt": 0}}, {"n": {"$gte": 0}}),
    ({"n": {"$gt": 0}}, {"n": {"$gt": -1}}),
    ({"n": {"$gt": 0}}, {"n": {"$lt": 5}}),
    ({"n": {"$gt": 0}}, {"n": {"$gt": "a"}}),
    ({"n": {"$gt": 0}}, {"n": float("nan")}),
    ({"n": {"$gt": float("nan")}}, {"n": 1}),
    ({"n": {"$gt": 0}}, {"n": None}),
    ({"n": {"$gt": 0}}, {"n": [1]}),
    ({"n": {"$gt": 0}}, {"n": {"$elemMatch": {"$gt": 1}}}),
    ({"n": {"$gt": 0}}, {"n": {"$not": {"$lte": 0}}}),
    ({"n": {"$gt": ""}}, {"n": Regex("^a")}),
    ({"n": {"$gt": 0}}, {"$or": [{"n": 1}, {"m": 1}]}),
    ({"n": {"$gt": 0}}, {"$nor": [{"n": {"$lte": 0}}]}),
    ({"n": {"$exists": True}}, {"n": None}),
    ({"n": {"$exists": True}}, {"n": {"$in": [1, None]}}),
    ({"n": {"$type": "number"}}, {"n": {"$type": "string"}}),
    ({"n": {"$type": "number"}}, {"n": 1}),
    ({"n": 1, "m": 1}, {"n": 1}),
    ({"$or": [{"n": 1}, {"m": 1}]}, {"n": 2}),
    ({"n": None}, {"n": None}),
]


@pytest.mark.parametrize(("partial", "query"), IMPLIED, ids=repr)
def test_a_query_that_implies_the_condition_is_read_from_the_index(orders, partial, query):
    orders.create_index("a", partialFilterExpression=partial)

    assert "a_1" == _reads(orders, {"a": 1, **query})


@pytest.mark.parametrize(("partial", "query"), NOT_IMPLIED, ids=repr)
def test_a_query_that_does_not_surely_imply_it_is_not(orders, partial, query):
    orders.create_index("a", partialFilterExpression=partial)

    assert "COLLSCAN" == _reads(orders, {"a": 1, **query})


def test_each_part_of_an_or_may_imply_it(orders):
    orders.insert_many([{"_id": 1, "a": 1, "n": 1}, {"_id": 2, "a": 2, "n": 9}, {"_id": 3, "a": 1}])
    orders.create_index("a", partialFilterExpression={"n": {"$gt": 0}})

    query = {"$or": [{"a": 1, "n": 1}, {"a": 2, "n": {"$gt": 5}}]}
    assert [1, 2] == [one["_id"] for one in orders.find(query)]
    assert "a_1" == _reads(orders, query)
    assert "COLLSCAN" == _reads(orders, {"$or": [{"a": 1, "n": 1}, {"a": 2}]})


@pytest.mark.parametrize(("value", "holds"), [("x", False), (5, True), ({"b": "x"}, False)], ids=repr)
def test_a_collation_compares_texts_otherwise_than_the_condition(value, holds):
    conditions = {"n": [("$eq", value)]}

    assert holds is implies(conditions, {"n": value}, True, lambda path: False)


def test_a_sort_is_read_from_a_partial_index_that_has_all_that_is_wanted(orders):
    orders.insert_many([{"_id": number, "a": -number, "n": number % 3} for number in range(30)])
    orders.create_index("a", partialFilterExpression={"n": {"$gte": 1}})

    wanted = {"n": {"$gte": 1}}
    assert "a_1" == _reads(orders, wanted, sort={"a": 1}, limit=3)
    assert [29, 28, 26] == [one["_id"] for one in orders.find(wanted).sort("a", 1).limit(3)]
    assert [29, 28, 27] == [one["_id"] for one in orders.find().sort("a", 1).limit(3)]


def test_an_array_passes_by_one_of_its_elements(orders):
    """Of an array, one element may be above 5 and another one below 8, and none in between."""
    orders.insert_many([{"_id": 1, "a": 1, "n": [1, 9]}, {"_id": 2, "a": 1, "n": 6}])
    orders.create_index("a", partialFilterExpression={"n": {"$gt": 5, "$lt": 8}})

    query = {"a": 1, "n": {"$gt": 5, "$lt": 8}}
    assert "a_1" == _reads(orders, query)
    assert [1, 2] == [one["_id"] for one in orders.find(query)]


def test_writes_find_by_a_partial_index_what_they_are_about(orders):
    orders.insert_many([{"_id": number, "a": number % 2, "n": number} for number in range(6)])
    orders.create_index("a", partialFilterExpression={"n": {"$gte": 2}})

    assert 2 == orders.update_many({"a": 1, "n": {"$gt": 2}}, {"$set": {"seen": True}}).modified_count
    assert 1 == orders.delete_many({"a": 1, "n": 5}).deleted_count
    assert [0, 1, 2, 3, 4] == [one["_id"] for one in orders.find()]


def test_a_condition_and_a_validator_may_name_a_date_that_python_has_not(orders):
    """A collection could not be read any more once its record had one."""
    far = DatetimeMS(-(10**15))
    orders.database.create_collection("orders", validator={"at": {"$gt": far}})
    orders.insert_one({"_id": 1, "a": 1, "at": DAY})

    orders.create_index("a", partialFilterExpression={"at": {"$gt": far}})

    assert [{"_id": 1, "a": 1, "at": DAY}] == list(orders.find({"a": 1, "at": DAY}))
    assert {"at": {"$gt": far}} == orders.index_information()["a_1"]["partialFilterExpression"]
    assert {"at": {"$gt": far}} == orders.options()["validator"]
