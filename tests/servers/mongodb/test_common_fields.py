"""Fields that many commands have: a session's, concerns, `hint`, `let`, `cursor`. Each says what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from bson import Binary, Code, Decimal128, Int64, Timestamp
from pymongo import MongoClient

from reactdb.servers.mongodb import MongoDBServer
from tests.servers.mongodb.wire import Wire

pytestmark = pytest.mark.parametrize("db", ["memory"], indirect=True)

ID: Final = Binary(bytes(range(16)), 4)
SESSION: Final = {"id": ID}
INSERT: Final = {"insert": "orders", "documents": [{}]}
AGGREGATE: Final = {"aggregate": "orders", "pipeline": [], "cursor": {}}
FIND: Final = {"find": "orders"}
COMMIT: Final = {"commitTransaction": 1, "$db": "admin"}


@pytest.fixture
def wire(server: MongoDBServer) -> Iterator[Wire]:
    with Wire(server.port) as made:
        made.ask({"insert": "orders", "$db": "shop", "documents": [{"_id": i, "n": 9 - i} for i in range(5)]})
        yield made


def code(wire: Wire, body: dict[str, Any]) -> int | None:
    found: int | None = wire.ask({**body, "$db": body.get("$db", "shop")}).get("code")
    return found


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({**COMMIT, "autocommit": 0}, 14),
        ({**COMMIT, "autocommit": None}, 125),
        ({**COMMIT, "autocommit": True}, 72),
        ({**COMMIT, "startTransaction": True}, 72),
        ({**COMMIT, "txnNumber": None}, 125),
        ({**COMMIT, "txnNumber": 1.0, "lsid": SESSION}, 14),
        ({**COMMIT, "txnNumber": Int64(-1), "lsid": SESSION}, 72),
        ({**COMMIT, "txnNumber": Int64(1), "lsid": SESSION}, 50768),
        ({**FIND, "txnNumber": Int64(1), "lsid": SESSION}, 50768),
        ({**INSERT, "txnNumber": Int64(1)}, 72),
        ({**INSERT, "txnNumber": Int64(1), "lsid": SESSION, "startTransaction": True}, 72),
        ({**INSERT, "txnNumber": Int64(1), "lsid": SESSION, "autocommit": 1}, 14),
        ({**INSERT, "txnNumber": Int64(1), "lsid": SESSION}, None),
        ({"killSessions": [{}]}, 40414),
        ({"killSessions": [{"id": None}]}, 40414),
        ({"killSessions": [{"id": "x"}]}, 14),
        ({"killSessions": [{"id": bytes(16)}]}, 14),
        ({"killSessions": [{"id": Binary(bytes(8), 4)}]}, 207),
        ({"killSessions": [{"id": ID, "nonsense": 1}]}, 40415),
        ({"killSessions": None}, 40414),
        ({"killSessions": [None, SESSION]}, None),
        ({"killAllSessions": [5]}, 14),
        ({"killAllSessions": [{"user": "ann"}]}, 40414),
        ({"killAllSessions": [{"user": 5, "db": "admin"}]}, 14),
        ({"killAllSessions": [{"user": "ann", "db": "admin", "nonsense": 1}]}, 40415),
        ({"killAllSessions": []}, None),
    ],
)
def test_the_fields_of_a_session_are_checked(wire: Wire, body: dict[str, Any], expected: int | None) -> None:
    assert expected == code(wire, body)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"killCursors": "orders", "cursors": [Int64(1)]}, 263),
        ({"aggregate": "orders", "pipeline": [{"$unionWith": "paid"}], "cursor": {}}, 263),
        ({"aggregate": "orders", "pipeline": [{"$collStats": {}}], "cursor": {}}, 263),
        ({"aggregate": 1, "pipeline": [{"$currentOp": {}}], "cursor": {}, "$db": "admin"}, 263),
        ({**INSERT, "$db": "local"}, 263),
        ({**INSERT, "writeConcern": {"w": 1}}, 72),
        (AGGREGATE, None),
    ],
)
def test_a_transaction_begins_with_what_it_may_have(
    wire: Wire, body: dict[str, Any], expected: int | None
) -> None:
    first = {"lsid": SESSION, "txnNumber": Int64(1), "autocommit": False, "startTransaction": True}
    assert expected == code(wire, {**body, **first})


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"ping": 1, "writeConcern": {"w": 1}}, 72),
        ({**FIND, "writeConcern": {"w": 1}}, 72),
        ({**AGGREGATE, "writeConcern": {"w": 1}}, None),
        ({**AGGREGATE, "writeConcern": {"w": 1}, "explain": True}, 9),
        ({**INSERT, "writeConcern": {"w": 1}}, None),
        ({"ping": 1, "readConcern": {"level": "majority"}}, 72),
        ({"ping": 1, "readConcern": {"level": "local"}}, None),
        ({"ping": 1, "readConcern": {"level": None}}, None),
        ({"count": "orders", "readConcern": {"level": "snapshot"}}, 72),
        ({"count": "orders", "readConcern": {"level": "majority"}}, None),
        ({"collMod": "orders", "readConcern": {"level": "majority"}}, 72),
        ({**FIND, "readConcern": {"atClusterTime": Timestamp(1, 1)}}, 72),
        ({**FIND, "readConcern": {"level": "snapshot", "atClusterTime": Timestamp(0, 0)}}, 72),
        ({**FIND, "readConcern": {"afterClusterTime": Timestamp(0, 0)}}, 72),
        (
            {
                "aggregate": 1,
                "pipeline": [{"$currentOp": {}}],
                "cursor": {},
                "$db": "admin",
                "readConcern": {"level": "majority"},
            },
            72,
        ),
    ],
)
def test_a_concern_is_for_commands_that_know_it(
    wire: Wire, body: dict[str, Any], expected: int | None
) -> None:
    assert expected == code(wire, body)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({**AGGREGATE, "pipeline": None}, 14),
        ({**AGGREGATE, "cursor": None}, 14),
        ({**AGGREGATE, "cursor": {"size": 5}}, 40415),
        ({**AGGREGATE, "cursor": {"batchSize": -1}, "explain": True}, 2),
        ({**AGGREGATE, "allowDiskUse": 1}, 14),
        ({**AGGREGATE, "allowDiskUse": None}, 14),
        ({**AGGREGATE, "explain": 1}, 14),
        ({**AGGREGATE, "explain": True, "pipeline": [{"$nonsense": 1}]}, 40324),
        ({**AGGREGATE, "explain": True, "let": {"x": "$n"}}, 4890500),
        ({**AGGREGATE, "hint": None}, 9),
        ({**AGGREGATE, "hint": Code("x")}, 9),
        ({**AGGREGATE, "hint": ""}, 2),
        ({**AGGREGATE, "hint": "n_1"}, 2),
        ({**AGGREGATE, "hint": {"_id": -1}}, 2),
        ({**AGGREGATE, "hint": {"_id": Decimal128("1")}}, None),
        ({**AGGREGATE, "let": {"x": "$$NOW"}}, 51144),
        ({**AGGREGATE, "let": {"x": "$$REMOVE"}}, None),
        ({**AGGREGATE, "let": {"NOW": 1}}, 4738901),
        ({**AGGREGATE, "bypassDocumentValidation": Decimal128("0")}, None),
        ({**AGGREGATE, "bypassDocumentValidation": "no"}, 14),
        ({"aggregate": 2, "pipeline": [{"$documents": []}], "cursor": {}}, 2),
        ({"aggregate": Decimal128("1"), "pipeline": [{"$documents": []}], "cursor": {}}, None),
        ({**AGGREGATE, "pipeline": [{"$documents": []}]}, 73),
        ({"count": "orders", "hint": None}, 9),
        ({"count": "orders", "limit": None}, 2),
        ({"count": "orders", "limit": 1e300}, 9),
        ({"distinct": "orders", "key": "n", "hint": None}, 9),
        ({"distinct": "orders", "key": Code("n")}, 14),
        ({"distinct": "orders", "key": None}, 40414),
        ({"distinct": "orders", "key": "n\0"}, 31032),
        ({"distinct": "orders", "key": ""}, None),
        ({"count": "orders", "maxTimeMS": Decimal128("1E30")}, 9),
    ],
)
def test_arguments_of_reading_are_checked(wire: Wire, body: dict[str, Any], expected: int | None) -> None:
    assert expected == code(wire, body)


def test_who_is_named_by_nobody_keeps_their_cursors(wire: Wire) -> None:
    cursor = wire.ask({**FIND, "$db": "shop", "batchSize": 1, "lsid": SESSION})["cursor"]["id"]
    more = {"getMore": cursor, "collection": "orders", "batchSize": 1, "lsid": SESSION}

    assert code(wire, {"killAllSessions": [{"user": "ann", "db": "admin"}]}) is None
    assert code(wire, more) is None
    assert code(wire, {"killAllSessions": []}) is None
    assert 43 == code(wire, more)


def test_what_is_different_has_to_fit_into_one_answer(client: MongoClient[dict[str, Any]]) -> None:
    client["shop"]["large"].insert_many([{"a": f"{i}" + "x" * 17_000} for i in range(1_000)])

    reply = client["shop"].command("distinct", "large", key="a", check=False)

    assert 17217 == reply["code"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"getMore": 5.0}, 14),
        ({"getMore": 5}, 43),
        ({"getMore": None}, 40414),
        ({"term": 5.0}, 14),
        ({"term": None, "maxTimeMS": None}, None),
        ({"maxTimeMS": 100}, 2),
        ({}, None),
    ],
)
def test_the_fields_of_getting_more_are_checked(
    wire: Wire, fields: dict[str, Any], expected: int | None
) -> None:
    cursor = wire.ask({**FIND, "$db": "shop", "batchSize": 1})["cursor"]["id"]
    assert expected == code(wire, {"getMore": cursor, "collection": "orders", **fields})


def test_a_cursor_is_killed_whatever_collection_is_named(wire: Wire) -> None:
    cursor = wire.ask({**FIND, "$db": "shop", "batchSize": 1})["cursor"]["id"]

    reply = wire.ask({"killCursors": "paid", "cursors": [None, cursor], "$db": "shop"})

    assert ([cursor], []) == (reply["cursorsKilled"], reply["cursorsNotFound"])
    assert 14 == code(wire, {"killCursors": "paid", "cursors": [5.0]})
    assert [5] == wire.ask({"killCursors": "paid", "cursors": [5], "$db": "shop"})["cursorsNotFound"]
    assert 73 == code(wire, {"killCursors": "", "cursors": []})


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({**FIND, "filter": None}, 14),
        ({"findAndModify": "orders", "query": {}, "remove": "x"}, 14),
        (
            {"findAndModify": "orders", "query": {"_id": 9}, "remove": Decimal128("0"), "update": {"a": 1}},
            None,
        ),
        (
            {
                "bulkWrite": 1,
                "ops": [{"insert": 0, "document": 5}],
                "nsInfo": [{"ns": "a.b"}],
                "$db": "admin",
            },
            14,
        ),
        ({"bulkWrite": 1, "ops": [{"insert": 0}], "nsInfo": [{"ns": "a.b"}], "$db": "admin"}, 40414),
        *(
            ({"bulkWrite": 1, "ops": [op], "nsInfo": [{"ns": "shop.orders"}], "$db": "admin"}, expected)
            for op, expected in (
                ({"update": 0, "filter": 5, "updateMods": {}}, 14),
                ({"update": 0, "updateMods": {}}, 40414),
                ({"update": 0, "filter": None, "updateMods": {}}, 40414),
                ({"update": 0, "filter": {}, "updateMods": None}, 9),
                ({"update": 0, "filter": {}, "updateMods": {}, "multi": 1}, 14),
                ({"update": 0, "filter": {}, "updateMods": {}, "hint": None}, 9),
                ({"update": 0, "filter": {}, "updateMods": {}, "arrayFilters": {}}, 14),
                ({"update": 0, "filter": {}, "updateMods": {}, "constants": []}, 14),
                ({"delete": 0, "filter": {}, "hint": Code("x")}, 9),
                ({"delete": 0, "filter": {}, "collation": "x"}, 14),
                ({"delete": 0, "filter": {"_id": 99}, "collation": None, "multi": None}, None),
            )
        ),
        ({"bulkWrite": 1, "ops": [{"insert": 0, "document": {}}], "nsInfo": [], "$db": "admin"}, 2),
        ({**INSERT, "writeConcern": {"w": 1.9}}, None),
        ({**INSERT, "writeConcern": {"w": -0.5}}, None),
    ],
)
def test_arguments_of_writing_are_checked(wire: Wire, body: dict[str, Any], expected: int | None) -> None:
    assert expected == code(wire, body)


def test_a_write_concern_that_cannot_be_met_is_told_beside_an_error(wire: Wire) -> None:
    update = {"findAndModify": "orders", "query": {}, "update": {"$unknown": 1}, "$db": "shop"}
    answer = wire.ask({**update, "writeConcern": {"w": 2}})
    assert (0.0, 9, 100) == (answer["ok"], answer["code"], answer["writeConcernError"]["code"])
    assert "writeConcernError" not in wire.ask(update)


def test_a_fraction_of_a_member_is_not_waited_for(wire: Wire) -> None:
    assert "writeConcernError" not in wire.ask({**INSERT, "$db": "shop", "writeConcern": {"w": 1.9}})


def test_a_document_has_at_most_16_mb_of_bson(client: MongoClient[dict[str, Any]]) -> None:
    orders = client["shop"]["orders"]
    orders.insert_one({"_id": "long", "a": "x" * (9 << 20)})

    reply = client["shop"].command(
        "update", "orders", updates=[{"q": {"_id": "long"}, "u": [{"$set": {"b": "$a"}}]}]
    )

    assert [10334] == [error["code"] for error in reply["writeErrors"]]
    assert ["_id", "a"] == [*orders.find_one({"_id": "long"})]
