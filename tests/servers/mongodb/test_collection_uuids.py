"""`collectionUUID`: a command is carried out on the collection that is meant. Over the socket, and in the process."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from bson import Binary

import reactdb

ANOTHER = Binary(bytes(16), 4)


@pytest.fixture(params=["socket", "process"])
def mongo(request: pytest.FixtureRequest, db: Any) -> Any:
    found = reactdb.mongodb(db) if request.param == "process" else request.getfixturevalue("client")
    found["shop"]["orders"].insert_one({"_id": 1, "n": 1})
    found["shop"]["log"].insert_one({"_id": 1})
    return found


def uuid_of(mongo: Any, name: str) -> Any:
    (found,) = mongo["shop"].list_collections(filter={"name": name})
    uuid = found["info"]["uuid"]
    return Binary.from_uuid(uuid) if isinstance(uuid, UUID) else uuid


COMMANDS: list[dict[str, Any]] = [
    {"find": "orders"},
    {"find": "orders", "tailable": True},
    {"aggregate": "orders", "pipeline": [], "cursor": {}},
    {"createIndexes": "orders", "indexes": [{"key": {"n": 1}, "name": "n"}]},
    {"dropIndexes": "orders", "index": "*"},
    {"collMod": "orders", "validator": {}},
    {"drop": "orders"},
]
WRITES: list[dict[str, Any]] = [
    {"insert": "orders", "documents": [{"_id": 2}, {"_id": 3}]},
    {
        "update": "orders",
        "updates": [{"q": {}, "u": {"$set": {"n": 2}}}, {"q": {}, "u": {"$unset": {"n": 1}}}],
    },
    {"delete": "orders", "deletes": [{"q": {}, "limit": 0}, {"q": {"_id": 1}, "limit": 1}]},
]


def refusal(error: dict[str, Any]) -> tuple[Any, ...]:
    names = ("code", "db", "collectionUUID", "expectedCollection", "actualCollection")
    return tuple(error[name] for name in names)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: next(iter(one)))
def test_a_command_is_about_the_collection_that_has_the_uuid(mongo: Any, command: dict[str, Any]) -> None:
    log = uuid_of(mongo, "log")
    for uuid, actual in ((ANOTHER, None), (log, "log")):
        reply = mongo["shop"].command({**command, "collectionUUID": uuid}, check=False)
        assert (361, "shop", uuid, "orders", actual) == refusal(reply)
        assert "CollectionUUIDMismatch" == reply["codeName"]
    assert 14 == mongo["shop"].command({**command, "collectionUUID": "x"}, check=False)["code"]
    for code, wrong in ((14, bytes(16)), (14, Binary(bytes(16), 3)), (207, Binary(b"x", 4))):
        assert code == mongo["shop"].command({**command, "collectionUUID": wrong}, check=False)["code"]
    assert [{"_id": 1, "n": 1}] == list(mongo["shop"]["orders"].find())

    if "tailable" not in command:
        assert 1 == mongo["shop"].command({**command, "collectionUUID": uuid_of(mongo, "orders")})["ok"]


@pytest.mark.parametrize("command", WRITES, ids=lambda one: next(iter(one)))
def test_a_statement_that_writes_is_refused_with_its_place(mongo: Any, command: dict[str, Any]) -> None:
    shop = mongo["shop"]
    log = uuid_of(mongo, "log")
    for more, places in ({}, [0]), ({"ordered": False}, [0, 1]):
        reply = shop.command({**command, **more, "collectionUUID": log}, check=False)
        assert (1, 0) == (reply["ok"], reply["n"])
        assert places == [error["index"] for error in reply["writeErrors"]]
        assert (361, "shop", log, "orders", "log") == refusal(reply["writeErrors"][0])
    assert [{"_id": 1, "n": 1}] == list(shop["orders"].find())

    assert "writeErrors" not in shop.command({**command, "collectionUUID": uuid_of(mongo, "orders")})


def test_what_has_another_uuid_is_not_made(mongo: Any) -> None:
    orders = uuid_of(mongo, "orders")
    insert = {"insert": "gone", "documents": [{}], "collectionUUID": orders}

    reply = mongo["shop"].command(insert, check=False)

    assert (361, "shop", orders, "gone", "orders") == refusal(reply["writeErrors"][0])
    assert ["log", "orders"] == sorted(mongo["shop"].list_collection_names())


def test_an_operation_of_a_bulk_write_is_refused_alone(mongo: Any) -> None:
    orders, log = uuid_of(mongo, "orders"), uuid_of(mongo, "log")
    spaces = [{"ns": "shop.orders", "collectionUUID": orders}, {"ns": "shop.log", "collectionUUID": orders}]
    operations = [
        {"insert": 1, "document": {"_id": 2}},
        {"insert": 0, "document": {"_id": 2}},
        {"delete": 1, "filter": {}, "multi": True},
        {"update": 1, "filter": {}, "updateMods": {"$set": {"n": 1}}},
    ]
    command = {"bulkWrite": 1, "ops": operations, "nsInfo": spaces, "ordered": False}

    reply = mongo["admin"].command(command)

    found = reply["cursor"]["firstBatch"]
    assert [0.0, 1.0, 0.0, 0.0] == [one["ok"] for one in found]
    assert {(361, "shop", orders, "log", "orders")} == {refusal(one) for one in found if not one["ok"]}
    assert (3, 1) == (reply["nErrors"], reply["nInserted"])
    spaces[1]["collectionUUID"] = log
    assert 1 == mongo["admin"].command({**command, "ops": operations[2:]})["nDeleted"]


def test_a_whole_database_has_no_uuid(mongo: Any) -> None:
    body = {"aggregate": 1, "pipeline": [{"$documents": []}], "cursor": {}, "collectionUUID": ANOTHER}
    assert 72 == mongo["shop"].command(body, check=False)["code"]


def test_a_transaction_that_is_refused_has_written_nothing(mongo: Any) -> None:
    shop = mongo["shop"]
    with mongo.start_session() as session:
        session.start_transaction()
        shop["orders"].insert_one({"_id": 2}, session=session)
        body = {"insert": "orders", "documents": [{"_id": 3}], "collectionUUID": ANOTHER}
        reply = shop.command(body, session=session, check=False)
        assert 361 == reply["writeErrors"][0]["code"]
        session.abort_transaction()
    assert 1 == shop["orders"].count_documents({})
