"""Arguments that a command cannot have are refused with MongoDB's codes, and never with an error of the server's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from bson import Binary, Code, Decimal128, Int64
from pymongo import MongoClient

from reactdb.servers.mongodb import MongoDBServer
from tests.servers.mongodb.wire import Wire

Client = MongoClient[dict[str, Any]]
NAN = float("nan")
SET: dict[str, Any] = {"q": {}, "u": {"$set": {"a": 1}}}


@pytest.fixture
def wire(server: MongoDBServer) -> Iterator[Wire]:
    with Wire(server.port) as made:
        made.ask({"insert": "orders", "$db": "shop", "documents": [{"_id": i} for i in range(5)]})
        yield made


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"maxTimeMS": -1}, 2),
        ({"maxTimeMS": 2**31}, 2),
        ({"maxTimeMS": 1.5}, 9),
        ({"maxTimeMS": NAN}, 9),
        ({"maxTimeMS": Decimal128("Infinity")}, 9),
        ({"maxTimeMS": "1"}, 14),
        ({"batchSize": -1}, 2),
        ({"batchSize": "1"}, 14),
        ({"batchSize": True}, 14),
        ({"limit": -1}, 2),
        ({"hint": 5}, 9),
        ({"hint": {"$natural": "x"}}, 2),
        ({"hint": {"$natural": 1, "a": 1}}, 2),
        ({"let": {"Big": 1}}, 9),
        ({"readConcern": {"level": Code("local")}}, 14),
        ({"readConcern": 5}, 14),
        ({"readConcern": {"level": 5}}, 14),
        ({"readConcern": {"level": "Majority"}}, 2),
        ({"readConcern": {"nonsense": 1}}, 40415),
        ({"readConcern": {"afterClusterTime": 5}}, 14),
    ],
)
def test_a_find_says_what_is_wrong(wire: Wire, fields: dict[str, Any], code: int) -> None:
    reply = wire.ask({"find": "orders", "$db": "shop", **fields})
    assert code == reply.get("code"), reply


@pytest.mark.parametrize("size", [0.5, NAN, Decimal128("NaN"), Decimal128("0.5"), -0.5])
def test_a_number_of_documents_has_no_fraction(wire: Wire, size: Any) -> None:
    reply = wire.ask({"find": "orders", "$db": "shop", "batchSize": size})
    assert [] == reply["cursor"]["firstBatch"]
    more = wire.ask(
        {"getMore": reply["cursor"]["id"], "collection": "orders", "$db": "shop", "batchSize": float("inf")}
    )
    assert 5 == len(more["cursor"]["nextBatch"])


@pytest.mark.parametrize(
    ("concern", "code"),
    [
        (5, 14),
        ({"w": -1}, 9),
        ({"w": 51}, 9),
        ({"w": NAN}, 9),
        ({"w": {}}, 9),
        ({"w": {"dc": "x"}}, 9),
        ({"w": True}, 9),
        ({"w": 1, "j": "x"}, 14),
        ({"w": 1, "wtimeout": 2**31}, 9),
        ({"w": 1, "provenance": "nonsense"}, 2),
        ({"w": 1, "nonsense": 1}, 40415),
    ],
)
def test_what_is_no_write_concern_is_refused_before_anything_is_written(
    wire: Wire, concern: Any, code: int
) -> None:
    reply = wire.ask({"update": "orders", "$db": "shop", "updates": [SET], "writeConcern": concern})
    assert code == reply.get("code"), reply
    assert 0 == wire.ask({"count": "orders", "$db": "shop", "query": {"a": 1}})["n"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"insert": "orders", "documents": [{}], "ordered": 1}, 14),
        ({"update": "orders", "updates": [{**SET, "multi": True, "sort": {"a": 1}}]}, 9),
        ({"update": "orders", "updates": [{**SET, "c": {"x": 1}}]}, 51198),
        ({"update": "orders", "updates": [{"q": {}, "u": [{"$set": {"a": 1}}], "c": 5}]}, 14),
        ({"findAndModify": "orders", "query": {}, "update": {"$set": {"a": 1}}, "hint": 5}, 9),
        ({"findAndModify": Code("x"), "query": {}, "remove": True}, 73),
        ({"getMore": Int64(5), "collection": None}, 40414),
        ({"count": "orders", "limit": "x"}, 2),
        ({"count": "orders", "limit": 1.5}, 9),
        ({"count": "orders", "limit": Decimal128("NaN")}, 9),
        ({"count": "orders", "skip": -1}, 2),
        ({"aggregate": "orders", "pipeline": [], "cursor": {"batchSize": -1}}, 2),
        ({"aggregate": "orders", "pipeline": [], "cursor": {}, "hint": 5}, 9),
        ({"aggregate": "orders", "pipeline": [], "cursor": {}, "hint": None}, 9),
        ({"getMore": Int64(5), "collection": "orders", "batchSize": -1}, 2),
        ({"getMore": Int64(5), "collection": "orders", "batchSize": "x"}, 14),
    ],
)
def test_a_command_says_what_is_wrong(wire: Wire, body: dict[str, Any], code: int) -> None:
    reply = wire.ask({**body, "$db": "shop"})
    found = reply.get("code") or reply["writeErrors"][0]["code"]
    assert code == found, reply


def test_a_cursor_of_a_session_is_read_on_by_this_session_alone(wire: Wire) -> None:
    sessions = [{"id": Binary(bytes([number]) * 16, 4)} for number in range(2)]
    find = {"find": "orders", "$db": "shop", "batchSize": 1}
    more = {"collection": "orders", "$db": "shop", "batchSize": 1}
    own = wire.ask({**find, "lsid": sessions[0]})["cursor"]["id"]
    free = wire.ask(find)["cursor"]["id"]
    assert 50738 == wire.ask({"getMore": own, **more, "lsid": sessions[1]})["code"]
    assert 50737 == wire.ask({"getMore": own, **more})["code"]
    assert 50736 == wire.ask({"getMore": free, **more, "lsid": sessions[1]})["code"]
    assert 1 == len(wire.ask({"getMore": own, **more, "lsid": sessions[0]})["cursor"]["nextBatch"])
