"""The profiler, as PyMongo asks for it: what `profile` takes and says, and what `system.profile` tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from bson import Decimal128, Int64
from pymongo import InsertOne, MongoClient, UpdateOne
from pymongo.errors import DuplicateKeyError, OperationFailure

import reactdb
from reactdb.servers.mongodb import MongoDBServer, serve_in_thread

Client = MongoClient[dict[str, Any]]


def _told(shop: Any, **query: Any) -> list[dict[str, Any]]:
    """What is told, without the reading of it."""
    return list(shop["system.profile"].find({"ns": {"$ne": "shop.system.profile"}, **query}))


def _settings(shop: Any) -> dict[str, Any]:
    said = shop.command("profile", -1)
    return {name: said[name] for name in ("was", "slowms", "sampleRate", "filter") if name in said}


@pytest.mark.parametrize(
    ("do", "told"),
    [
        (lambda orders: list(orders.find({"n": 1}, comment="why")), {"op": "query", "nreturned": 1}),
        (lambda orders: orders.count_documents({}), {"op": "command", "nreturned": 1}),
        (lambda orders: orders.distinct("n"), {"op": "command"}),
        (lambda orders: orders.insert_many([{}, {}]), {"op": "insert", "ninserted": 2}),
        (lambda orders: orders.update_many({}, {"$set": {"n": 1}}), {"op": "update", "nMatched": 3, "nModified": 2}),
        (lambda orders: orders.update_one({"_id": 9}, {"$set": {"n": 1}}, upsert=True), {"op": "update", "nUpserted": 1}),
        (lambda orders: orders.delete_many({}), {"op": "remove", "ndeleted": 3}),
        (lambda orders: orders.find_one_and_delete({}), {"op": "command"}),
        (lambda orders: orders.drop(), {"op": "command"}),
        (lambda orders: orders.create_index("n"), {"op": "command"}),
    ],
)  # fmt: skip
def test_an_operation_is_told_of_once(client: Client, do: Callable[[Any], Any], told: dict[str, Any]) -> None:
    shop = client["shop"]
    shop["orders"].insert_many([{"_id": n, "n": n} for n in range(3)])
    shop.command("profile", 2)
    do(shop["orders"])

    (found,) = _told(shop)
    assert {**found, **told, "ns": "shop.orders"} == found
    assert {"command", "millis", "ts", "client", "appName", "user"} <= found.keys()


def test_what_is_told_is_the_command(client: Client) -> None:
    shop = client["shop"]
    shop["orders"].create_index("n")
    shop.command("profile", 2)
    list(shop["orders"].find({"n": {"$gt": 1}}, hint="n_1").comment("why"))
    shop["orders"].update_one({"n": 1}, {"$set": {"n": 2}}, hint="n_1", comment="because")
    shop["orders"].insert_one({"n": 5})

    query, update, insert = (one["command"] for one in _told(shop))
    assert ("orders", {"n": {"$gt": 1}}, "n_1", "why") == tuple(
        query[name] for name in ("find", "filter", "hint", "comment")
    )
    assert {
        "q": {"n": 1},
        "u": {"$set": {"n": 2}},
        "multi": False,
        "upsert": False,
        "hint": {"$hint": "n_1"},
        "comment": "because",
    } == update
    assert "orders" == insert["insert"]
    assert "documents" not in insert


def test_each_statement_and_each_batch_is_told_of(client: Client) -> None:
    shop = client["shop"]
    shop["orders"].insert_many([{"_id": n} for n in range(150)])
    shop.command("profile", 2)
    list(shop["orders"].find())
    shop["orders"].bulk_write([InsertOne({}), *(UpdateOne({"_id": n}, {"$set": {"n": n}}) for n in range(2))])

    found = _told(shop)
    assert ["query", "getmore", "insert", "update", "update"] == [one["op"] for one in found]
    assert [101, 49] == [one["nreturned"] for one in found[:2]]
    assert found[0]["cursorid"]
    assert found[1]["cursorExhausted"]


def test_errors_are_told(client: Client) -> None:
    shop = client["shop"]
    shop.command("profile", 2)
    with pytest.raises(OperationFailure):
        list(shop["orders"].find({"$nonsense": 1}))
    with pytest.raises(OperationFailure):
        shop.command("nonsense")
    shop["orders"].insert_one({"_id": 1})
    with pytest.raises(DuplicateKeyError):
        shop["orders"].insert_one({"_id": 1})

    assert [("shop.orders", 2, "BadValue"), ("shop.$cmd", 59, "CommandNotFound")] == [
        (one["ns"], one["errCode"], one["errName"]) for one in _told(shop, errCode={"$exists": True})
    ]
    assert [1, 0] == [one["ninserted"] for one in _told(shop, op="insert")]


def test_reading_it_is_told_of_afterwards(client: Client) -> None:
    shop = client["shop"]
    shop.command("profile", 2)
    profile = shop["system.profile"]

    assert [0, 1, 2] == [profile.count_documents({}) for _ in range(3)]
    assert 3 == len(list(profile.aggregate([{"$match": {"command.aggregate": "system.profile"}}])))
    assert "query" == [profile.find_one({}, sort=[("$natural", -1)]) for _ in range(2)][1]["op"]  # type: ignore[index]


def test_levels_are_of_a_database_and_the_rest_is_of_all(client: Client) -> None:
    shop, farm = client["shop"], client["farm"]
    shop.command("profile", 2)
    farm.command("profile", 0, slowms=20, sampleRate=0.5)
    farm["cows"].insert_one({})
    assert [] == list(farm["system.profile"].find())
    shop["orders"].insert_one({})

    assert {"was": 2, "slowms": 20, "sampleRate": 0.5} == _settings(shop)
    assert {"was": 0, "slowms": 20, "sampleRate": 0.5} == _settings(farm)
    assert 1 == len(_told(shop))
    assert 2 == shop.command("profile", 0)["was"]
    shop["orders"].insert_one({})
    assert 1 == len(_told(shop))


def test_level_1_tells_what_is_slow_or_what_a_query_matches(client: Client) -> None:
    shop = client["shop"]
    shop.command("profile", 1, slowms=1_000_000)
    shop["orders"].insert_one({})
    shop.command("profile", 1, slowms=0)
    shop["orders"].insert_one({})
    shop.command("profile", 1, slowms=0, sampleRate=0.0)
    shop["orders"].insert_one({})
    assert 1 == len(_told(shop, op="insert"))

    shop.command("profile", 1, filter={"op": "remove"})
    shop["orders"].insert_one({})
    shop["orders"].delete_one({})
    assert {"filter": {"op": {"$eq": "remove"}}, "was": 1, "slowms": 0, "sampleRate": 0.0} == _settings(shop)
    assert "filter" in shop.command("profile", -1)["note"]
    assert ["insert", "remove"] == [one["op"] for one in _told(shop, op={"$in": ["insert", "remove"]})]
    shop.command("profile", 1, filter="unset")
    assert "filter" not in _settings(shop)


@pytest.mark.parametrize(
    ("level", "then"),
    [(0, 0), (1, 1), (2.9, 2), (Int64(2), 2), (Decimal128("1"), 1), (3, 0), (-1, 0), (-2, 0), (100, 0)],
)
def test_what_is_a_level(client: Client, level: Any, then: int) -> None:
    client["shop"].command("profile", level)
    assert {"was": then, "slowms": 100, "sampleRate": 1.0} == _settings(client["shop"])


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"profile": None}, 40414),
        ({"profile": True}, 14),
        ({"profile": "2"}, 14),
        ({"profile": 2, "slowms": "1"}, 14),
        ({"profile": 2, "slowms": True}, 14),
        ({"profile": 2, "sampleRate": []}, 14),
        ({"profile": 2, "sampleRate": 1.1}, 2),
        ({"profile": 2, "sampleRate": -0.1}, 2),
        ({"profile": 2, "filter": "Unset"}, 2),
        ({"profile": 2, "filter": None}, 2),
        ({"profile": 2, "filter": {"$nonsense": 1}}, 2),
        ({"profile": 2, "nonsense": 1}, 40415),
    ],
)
def test_what_cannot_be_profiled_is_refused_and_changes_nothing(
    client: Client, asked: dict[str, Any], code: int
) -> None:
    with pytest.raises(OperationFailure) as refused:
        client["shop"].command(asked)
    assert code == refused.value.code
    assert {"was": 0, "slowms": 100, "sampleRate": 1.0} == _settings(client["shop"])


def test_it_is_dropped_only_while_nothing_writes_it(client: Client) -> None:
    shop = client["shop"]
    shop.command("profile", 2)
    shop["orders"].insert_one({})
    with pytest.raises(OperationFailure) as refused:
        shop["system.profile"].drop()
    assert 20 == refused.value.code
    shop.command("profile", 0)
    shop["system.profile"].drop()
    assert [] == _told(shop)

    shop.command("profile", 2)
    shop["orders"].insert_one({})
    assert 1 == len(_told(shop))


@pytest.mark.parametrize("stage", [{"$out": "copy"}, {"$unionWith": "orders"}])
def test_a_pipeline_that_leads_elsewhere_is_refused(client: Client, stage: dict[str, Any]) -> None:
    shop = client["shop"]
    shop["copy"].insert_one({"_id": 1})
    shop.command("profile", 2)
    with pytest.raises(OperationFailure) as refused:
        shop["system.profile"].aggregate([stage])
    assert 115 == refused.value.code
    assert [{"_id": 1}] == list(shop["copy"].find())


def test_what_is_told_is_not_in_the_file(db: Any, client: Client) -> None:
    client["shop"].command("profile", 2)
    with client["shop"].watch() as stream:
        client["shop"]["orders"].insert_one({"_id": 1})
        assert "orders" == stream.next()["ns"]["coll"]
        assert 2 <= client["shop"]["system.profile"].count_documents({})
        assert stream.try_next() is None
    assert ["shop.orders"] == db.table_list()


def test_a_long_command_is_told_in_short(client: Client) -> None:
    shop = client["shop"]
    shop.command("profile", 2)
    list(shop["orders"].find({"text": "x" * 100_000}, comment="long"))

    (found,) = _told(shop)
    assert {"$truncated", "comment"} == found["command"].keys()
    assert 50_000 < len(found["command"]["$truncated"]) < 60_000


def test_the_oldest_make_room(client: Client) -> None:
    shop = client["shop"]
    shop.command("profile", 2)
    for number in range(60):
        shop.command("count", "orders", query={"n": number, "text": "x" * 40_000})

    found = [one["command"]["query"]["n"] for one in _told(shop, **{"command.count": "orders"})]
    assert 20 < len(found) < 30
    assert found == list(range(60 - len(found), 60))


def test_each_server_has_its_own(db: Any, client: Client) -> None:
    client["shop"].command("profile", 2)
    with serve_in_thread(db) as other, MongoClient[dict[str, Any]](other.uri) as second:
        assert {"was": 0, "slowms": 100, "sampleRate": 1.0} == _settings(second["shop"])
        second["shop"]["orders"].insert_one({})
    assert [] == _told(client["shop"])


def test_nothing_is_profiled_in_the_process(db: Any) -> None:
    shop = reactdb.mongodb(db)["shop"]
    assert 0 == shop.command("profile", 0)["was"]
    with pytest.raises(OperationFailure) as refused:
        shop.command("profile", 2)
    assert 115 == refused.value.code


def test_a_server_that_ends_lets_go_of_it(db: Any, server: MongoDBServer) -> None:
    with MongoClient[dict[str, Any]](server.uri) as client:
        client["shop"].command("profile", 2)
    side = server.deployment.profiles.side
    server.deployment.close()
    assert server.deployment.profiles.side is None
    with pytest.raises(reactdb.DatabaseClosed):
        side.database.table_list()
