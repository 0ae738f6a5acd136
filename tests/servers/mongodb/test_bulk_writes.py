"""`bulkWrite`, the command of several collections, as PyMongo's client sends it; and what commands say beside their work."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import DeleteMany, DeleteOne, InsertOne, MongoClient, ReplaceOne, UpdateMany, UpdateOne
from pymongo.errors import ClientBulkWriteException, OperationFailure, WriteError

Client = MongoClient[dict[str, Any]]


def test_operations_of_several_collections_are_carried_out_and_each_is_told_of(client: Client) -> None:
    done = client.bulk_write(
        [
            InsertOne({"_id": 1, "a": 1}, namespace="shop.orders"),
            InsertOne({"_id": 2, "a": 1}, namespace="shop.orders"),
            InsertOne({"_id": 1}, namespace="shop.items"),
            UpdateMany({"a": 1}, {"$inc": {"a": 1}}, namespace="shop.orders"),
            UpdateOne({"_id": 9}, {"$set": {"b": 1}}, upsert=True, namespace="shop.items"),
            ReplaceOne({"_id": 2}, {"c": 1}, namespace="shop.orders"),
            DeleteOne({"_id": 1}, namespace="shop.items"),
            DeleteMany({"a": 2}, namespace="shop.orders"),
        ],
        verbose_results=True,
    )
    counts = (
        done.inserted_count,
        done.upserted_count,
        done.matched_count,
        done.modified_count,
        done.deleted_count,
    )
    assert counts == (3, 1, 3, 3, 2)
    assert [done.insert_results[place].inserted_id for place in (0, 1, 2)] == [1, 2, 1]
    assert done.update_results[3].modified_count == 2
    assert done.update_results[4].upserted_id == 9
    assert list(client["shop"]["orders"].find()) == [{"_id": 2, "c": 1}]
    assert list(client["shop"]["items"].find()) == [{"_id": 9, "b": 1}]


@pytest.mark.parametrize(("ordered", "expected"), [(True, [1]), (False, [1, 2])])
def test_an_operation_that_fails_ends_the_others_only_in_order(
    client: Client, ordered: bool, expected: list[int]
) -> None:
    operations = [
        InsertOne({"_id": 1}, namespace="shop.orders"),
        InsertOne({"_id": 1}, namespace="shop.orders"),
        InsertOne({"_id": 2}, namespace="shop.orders"),
    ]
    with pytest.raises(ClientBulkWriteException) as caught:
        client.bulk_write(operations, ordered=ordered)
    assert [(one["idx"], one["code"]) for one in caught.value.write_errors] == [(1, 11000)]
    assert [one["_id"] for one in client["shop"]["orders"].find()] == expected


def test_variables_of_a_command_are_expressions(client: Client) -> None:
    orders = client["shop"]["orders"]
    orders.insert_one({"_id": 1, "a": 5})
    query = {"$expr": {"$eq": ["$a", "$$n"]}}
    let = {"n": {"$add": [2, 3]}, "text": {"$literal": "$a"}}
    assert orders.find_one(query, let=let) == {"_id": 1, "a": 5}
    orders.update_one(query, [{"$set": {"t": "$$text"}}], let=let)
    assert orders.find_one({"_id": 1}) == {"_id": 1, "a": 5, "t": "$a"}
    assert orders.delete_one(query, let=let).deleted_count == 1


def test_a_pipeline_that_writes_cannot_be_linearizable(client: Client) -> None:
    command = {"aggregate": "orders", "pipeline": [{"$out": "others"}], "cursor": {}}
    with pytest.raises(OperationFailure) as caught:
        client["shop"].command({**command, "readConcern": {"level": "linearizable"}})
    assert caught.value.code == 72


def test_an_id_has_no_names_of_operators(client: Client) -> None:
    with pytest.raises(WriteError) as caught:
        client["shop"]["orders"].insert_one({"_id": {"$a": 1}})
    assert caught.value.code == 52
