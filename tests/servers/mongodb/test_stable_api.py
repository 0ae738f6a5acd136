"""Version 1 of the stable API, over a socket and in the process: what is strict is refused what MongoDB may change."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure
from pymongo.server_api import ServerApi

import reactdb
from reactdb.dialects.mongodb.commands.stable_api import STABLE_COMMANDS
from reactdb.dialects.mongodb.commands.table import COMMANDS
from reactdb.servers.mongodb import MongoDBServer

STRICT: dict[str, Any] = {"apiVersion": "1", "apiStrict": True}


@pytest.fixture(params=["socket", "process"])
def mongo(request: pytest.FixtureRequest, db: Any) -> Any:
    if request.param == "process":
        return reactdb.mongodb(db)
    return request.getfixturevalue("client")


def _refusal(mongo: Any, body: dict[str, Any], database: str = "shop") -> tuple[int, str]:
    with pytest.raises(OperationFailure) as refused:
        mongo[database].command(body)
    assert refused.value.code is not None
    assert refused.value.details is not None
    return refused.value.code, refused.value.details["codeName"]


def _aggregate(*stages: Any, **options: Any) -> dict[str, Any]:
    return {"aggregate": "orders", "pipeline": list(stages), "cursor": {}, **options}


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"apiVersion": "2"}, (322, "APIVersionError")),
        ({"apiVersion": ""}, (322, "APIVersionError")),
        ({"apiVersion": "2", "apiStrict": True}, (322, "APIVersionError")),
        ({"apiVersion": 1}, (14, "TypeMismatch")),
        ({"apiStrict": True}, (4886600, "Location4886600")),
        ({"apiDeprecationErrors": False}, (4886600, "Location4886600")),
        ({"apiVersion": "1", "apiStrict": 1}, (14, "TypeMismatch")),
    ],
    ids=repr,
)
def test_a_version_that_is_not_there_is_refused(mongo: Any, fields: dict[str, Any], refusal: Any) -> None:
    assert refusal == _refusal(mongo, {"ping": 1, **fields})


@pytest.mark.parametrize(
    "body",
    [
        {"distinct": "orders", "key": "a"},
        {"collStats": "orders"},
        {"serverStatus": 1},
        {"renameCollection": "shop.orders", "to": "shop.others"},
        {"startSession": 1},
        {"create": "others", "capped": True, "size": 4_096},
        {"createIndexes": "orders", "indexes": [{"key": {"a": 1}, "name": "a_1", "sparse": True}]},
        {"find": "orders", "tailable": True},
        {"find": "orders", "returnKey": True},
        {"explain": {"distinct": "orders", "key": "a"}},
        _aggregate(explain=True),
        _aggregate({"$currentOp": {}}),
        _aggregate({"$indexStats": {}}),
        _aggregate({"$planCacheStats": {}}),
        _aggregate({"$search": {}}),
        _aggregate({"$collStats": {"storageStats": {}}}),
        _aggregate({"$collStats": {"count": {}, "latencyStats": {}}}),
        _aggregate(
            {"$facet": {"a": [{"$lookup": {"from": "x", "as": "y", "pipeline": [{"$indexStats": {}}]}}]}}
        ),
        _aggregate({"$unionWith": {"coll": "x", "pipeline": [{"$collStats": {"storageStats": {}}}]}}),
        {"create": "seen", "viewOn": "orders", "pipeline": [{"$indexStats": {}}]},
    ],
    ids=repr,
)
def test_what_is_not_in_version_1_is_refused_where_it_is_strict(mongo: Any, body: dict[str, Any]) -> None:
    mongo["shop"]["orders"].insert_one({"_id": 1})

    assert (323, "APIStrictError") == _refusal(mongo, {**body, **STRICT})


@pytest.mark.parametrize(
    "body",
    [
        {"find": "orders", "filter": {}, "sort": {"a": 1}},
        {"count": "orders"},
        {"createIndexes": "orders", "indexes": [{"key": {"a": 1}, "name": "a_1", "unique": True}]},
        {"create": "others"},
        {"explain": {"find": "orders"}},
        _aggregate({"$collStats": {"count": {}}}),
        _aggregate({"$setWindowFields": {"output": {"n": {"$count": {}}}}}),
        _aggregate({"$changeStream": {}}),
    ],
    ids=repr,
)
def test_what_is_in_version_1_is_carried_out(mongo: Any, body: dict[str, Any]) -> None:
    mongo["shop"]["orders"].insert_one({"_id": 1})

    assert 1.0 == mongo["shop"].command({**body, **STRICT, "apiDeprecationErrors": True})["ok"]


def test_what_is_not_strict_may_be_anything(mongo: Any) -> None:
    assert 1.0 == mongo["admin"].command({"serverStatus": 1, "apiVersion": "1"})["ok"]


def test_a_driver_with_the_strict_api_works_and_is_told_what_is_not_in_it(server: MongoDBServer) -> None:
    with MongoClient[Any](server.uri, server_api=ServerApi("1", strict=True)) as client:
        orders = client["shop"]["orders"]
        with orders.watch() as stream:
            orders.insert_many([{"_id": number} for number in range(200)])
            assert 1 == orders.update_one({"_id": 1}, {"$set": {"a": 1}}).modified_count
            assert 200 == len(list(orders.find(batch_size=50)))
            assert 200 == orders.count_documents({})
            with client.start_session() as session, session.start_transaction():
                orders.delete_one({"_id": 0}, session=session)
            assert 0 == stream.next()["documentKey"]["_id"]
        with pytest.raises(OperationFailure) as refused:
            orders.distinct("a")
    assert 323 == refused.value.code


def test_the_commands_say_of_which_version_they_are(mongo: Any) -> None:
    commands = mongo["admin"].command("listCommands")["commands"]

    assert ["1"] == commands["find"]["apiVersions"]
    assert [] == commands["distinct"]["apiVersions"]


def test_every_command_of_version_1_is_there() -> None:
    assert set() == STABLE_COMMANDS - {command.name for command in COMMANDS.values()}
