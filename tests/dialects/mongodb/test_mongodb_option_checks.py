"""What `create`, `collMod` and `createIndexes` may say, and what they are told where they may not."""

from __future__ import annotations

from typing import Any, Final

import pytest

pytest.importorskip("pymongo")

from bson import Binary, Code, Decimal128, Int64, Regex

import reactdb
from reactdb import Database

pytestmark = pytest.mark.parametrize("db", ["memory"], indirect=True)

NAN: Final = float("nan")
CAPPED: Final[dict[str, Any]] = {"capped": True, "size": 4096}
CLUSTERED: Final[dict[str, Any]] = {"key": {"_id": 1}, "unique": True}


@pytest.fixture
def shop(db: Database) -> Any:
    made = reactdb.mongodb(db)["shop"]
    made["orders"].insert_one({"_id": 1, "n": 1})
    made["orders"].create_index("n", name="n", expireAfterSeconds=100)
    made.create_collection("log", **CAPPED)
    made.create_collection("cheap", viewOn="orders", pipeline=[])
    return made


def code(shop: Any, body: dict[str, Any]) -> int | None:
    found: int | None = shop.command(body, check=False).get("code")
    return found


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({**CAPPED, "max": Decimal128("10")}, None),
        ({**CAPPED, "max": -5}, None),
        ({**CAPPED, "max": NAN}, None),
        ({**CAPPED, "max": True}, 14),
        ({"capped": Decimal128("0")}, None),
        ({"capped": True, "size": Decimal128("4096")}, None),
        ({"storageEngine": 5}, 14),
        ({"storageEngine": {}}, None),
        ({"indexOptionDefaults": "x"}, 14),
        ({"validator": [1]}, 14),
        ({"validationLevel": 5}, 14),
        ({"validationLevel": "some"}, 2),
        ({"validationAction": "errorAndLog"}, None),
        ({"changeStreamPreAndPostImages": {"enabled": None}}, 40414),
        ({"changeStreamPreAndPostImages": {"enabled": 1}}, 14),
        ({"changeStreamPreAndPostImages": {"enabled": True, "x": 1}}, 40415),
        ({"collation": {}}, 40414),
        ({"collation": {"locale": Code("en")}}, 14),
        ({"collation": {"locale": "simple", "strength": NAN}}, 2),
        ({"collation": {"locale": "simple", "strength": True}}, 14),
        ({"collation": {"locale": "simple", "strength": 2.9, "caseLevel": None}}, None),
        ({"expireAfterSeconds": 5}, 72),
        ({"expireAfterSeconds": 5, "clusteredIndex": CLUSTERED}, None),
        ({"clusteredIndex": True}, 5979703),
        ({"clusteredIndex": None}, 14),
        ({"clusteredIndex": {"key": {"_id": 1}}}, 40414),
        ({"clusteredIndex": {"key": {"x": 1}, "unique": True}}, 197),
        ({"clusteredIndex": {"key": {"_id": 1}, "unique": 0}}, 5979700),
        ({"clusteredIndex": {**CLUSTERED, "v": 1}}, 5979704),
        ({"clusteredIndex": {**CLUSTERED, "x": 1}}, 40415),
        ({"clusteredIndex": {**CLUSTERED, "name": 5}}, 14),
        ({"clusteredIndex": CLUSTERED, **CAPPED}, 6049200),
        ({"clusteredIndex": CLUSTERED, **CAPPED, "max": 5}, 6049204),
        ({"clusteredIndex": CLUSTERED, "viewOn": "orders"}, 6026500),
        ({"clusteredIndex": CLUSTERED}, None),
        ({"idIndex": 5}, 14),
        ({"idIndex": {"key": {"_id": 1}}}, 9),
        ({"idIndex": {"key": {"_id": -1}, "name": "x"}}, 2),
        ({"idIndex": {"key": {"_id": 1}, "name": ""}}, 67),
        ({"idIndex": {"key": {"_id": 1}, "name": 5}}, 14),
        ({"idIndex": {"key": {"_id": 1}, "name": "x", "v": 3}}, 67),
        ({"idIndex": {"key": {"_id": 1}, "name": "x", "v": 1.5}}, 2),
        ({"idIndex": {"key": {"_id": 1}, "name": "x", "unique": True}}, 197),
        ({"idIndex": {"key": {"_id": 1}, "name": "x"}, "viewOn": "orders"}, 72),
        ({"idIndex": {"key": {"_id": 1}, "name": "x"}}, None),
        ({"viewOn": Code("orders")}, 14),
        ({"viewOn": "$orders"}, 73),
        ({"viewOn": "orders", "pipeline": [{"$documents": []}]}, 73),
        ({"viewOn": "orders", "pipeline": [{"$changeStream": {}}]}, 167),
        ({"viewOn": "orders", "changeStreamPreAndPostImages": {"enabled": False}}, None),
        ({"viewOn": "orders", "changeStreamPreAndPostImages": {"enabled": True}}, 72),
    ],
)
def test_the_options_of_a_new_collection_are_checked(
    shop: Any, options: dict[str, Any], expected: int | None
) -> None:
    assert expected == code(shop, {"create": "made", **options})
    assert (expected is None) == ("made" in shop.list_collection_names())


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"collMod": "log", "cappedSize": 0}, 2),
        ({"collMod": "log", "cappedSize": "x"}, 14),
        ({"collMod": "log", "cappedSize": None}, None),
        ({"collMod": "log", "cappedMax": Int64(2**31)}, 2),
        ({"collMod": "log", "cappedMax": -1}, None),
        ({"collMod": "orders", "cappedMax": 5}, 72),
        ({"collMod": "orders", "expireAfterSeconds": 5}, 72),
        ({"collMod": "orders", "viewOn": None, "pipeline": None}, None),
        ({"collMod": "orders", "viewOn": "x"}, 72),
        ({"collMod": "cheap"}, None),
        ({"collMod": "cheap", "viewOn": ""}, 2),
        ({"collMod": "cheap", "viewOn": False}, 14),
        ({"collMod": "cheap", "validator": {}}, 72),
        ({"collMod": "orders", "dryRun": "x"}, 14),
        ({"collMod": "orders", "index": {"name": 5, "hidden": True}}, 14),
        ({"collMod": "orders", "index": {"name": None, "hidden": True}}, 72),
        ({"collMod": "orders", "index": {"name": "n", "hidden": None}}, 72),
        ({"collMod": "orders", "index": {"name": "n", "hidden": "x"}}, 14),
        ({"collMod": "orders", "index": {"name": "n", "expireAfterSeconds": "x"}}, 14),
        ({"collMod": "orders", "index": {"name": "n", "expireAfterSeconds": -1}}, 72),
        ({"collMod": "orders", "index": {"name": "n", "unique": 0}}, 2),
        ({"collMod": "orders", "index": {"name": "n", "prepareUnique": True, "hidden": True}}, 72),
        ({"collMod": "orders", "index": {"name": "_id_", "hidden": True}}, 2),
        ({"collMod": "orders", "index": {"keyPattern": {"_id": 1}, "hidden": True}}, 2),
    ],
)
def test_what_changes_a_collection_is_checked(shop: Any, body: dict[str, Any], expected: int | None) -> None:
    assert expected == code(shop, body)


def test_flags_of_an_index_may_be_numbers(shop: Any) -> None:
    changed = shop.command("collMod", "orders", index={"name": "n", "prepareUnique": 1.5})
    unchanged = shop.command("collMod", "orders", index={"name": "n", "prepareUnique": Decimal128("2")})

    assert {"prepareUnique_old": False, "prepareUnique_new": True}.items() <= changed.items()
    assert "prepareUnique_new" not in unchanged


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"key": {"a": 1}}, 9),
        ({"key": {"a": 1}, "name": 5}, 14),
        ({"key": {"a": 1}, "name": "_id_"}, 2),
        ({"key": {"_id": -1}, "name": "x"}, 2),
        ({"key": {"$a": 1}, "name": "x"}, 67),
        ({"key": {"a..b": 1}, "name": "x"}, 67),
        ({"key": {"a.$id": 1}, "name": "x"}, None),
        ({"key": {"a": Decimal128("1")}, "name": "x"}, None),
        ({"key": {"a": NAN}, "name": "x"}, 67),
        ({"key": {"a": "wildcard"}, "name": "x"}, 7246202),
        ({"key": {"a": "hashed", "b": "hashed"}, "name": "x"}, 31303),
        ({"key": {"a": "hashed"}, "name": "x", "unique": True}, 16764),
        ({"key": {f"f{i}": 1 for i in range(33)}, "name": "x"}, 13103),
        ({"key": {"a": 1}, "name": "x", "collation": {}}, 2),
        ({"key": {"a": 1}, "name": "x", "expireAfterSeconds": "5"}, 67),
        ({"key": {"a": 1}, "name": "x", "expireAfterSeconds": None}, 67),
        ({"key": {"a": 1}, "name": "x", "expireAfterSeconds": NAN}, 67),
        ({"key": {"a": 1}, "name": "x", "expireAfterSeconds": 2**31}, 67),
        ({"key": {"a": 1}, "name": "x", "expireAfterSeconds": Decimal128("-1")}, 67),
        ({"key": {"a": 1}, "name": "x", "wildcardProjection": {"b": 1}}, 2),
        ({"key": {"$**": 1}, "name": "x", "wildcardProjection": "b"}, 14),
        ({"key": {"$**": 1}, "name": "x", "wildcardProjection": {"a": 1, "b": 0}}, 31254),
        ({"key": {"a.$**": 1}, "name": "x", "wildcardProjection": {"b": 1}}, 9),
    ],
)
def test_what_is_said_of_an_index_is_checked(shop: Any, spec: dict[str, Any], expected: int | None) -> None:
    assert expected == code(shop, {"createIndexes": "orders", "indexes": [spec]})


def test_seconds_have_no_fraction(shop: Any) -> None:
    shop["orders"].create_index("a", expireAfterSeconds=10.9)
    shop["orders"].create_index("b", expireAfterSeconds=Decimal128("20"))

    found = shop["orders"].index_information()

    assert [10, 20] == [found[name]["expireAfterSeconds"] for name in ("a_1", "b_1")]
    assert {int} == {type(found[name]["expireAfterSeconds"]) for name in ("a_1", "b_1")}


def test_a_collection_has_at_most_64_indexes(shop: Any) -> None:
    for number in range(62):
        shop["orders"].create_index(f"f{number}")

    assert 67 == code(shop, {"createIndexes": "orders", "indexes": [{"key": {"g": 1}, "name": "g"}]})
    assert 64 == len(list(shop["orders"].list_indexes()))


def test_an_index_of_all_fields_is_listed_with_its_projection(shop: Any) -> None:
    shop["orders"].create_index([("$**", 1)], wildcardProjection={"a": 1})
    assert {"a": 1} == list(shop["orders"].list_indexes())[-1]["wildcardProjection"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (5, 14),
        (None, 14),
        (Regex("n"), 14),
        (["n", 5], 14),
        (["n", "n"], 27),
        ("n", None),
    ],
)
def test_an_index_to_be_dropped_is_named_once_and_by_a_text(
    shop: Any, wanted: Any, expected: int | None
) -> None:
    assert expected == code(shop, {"dropIndexes": "orders", "index": wanted})


def test_lists_say_more_where_they_are_asked_to(shop: Any) -> None:
    (own, other) = shop.command("listIndexes", "orders", includeIndexBuildInfo=True)["cursor"]["firstBatch"]

    assert ["_id_", "n"] == [one["spec"]["name"] for one in (own, other)]
    assert 72 == code(shop, {"listIndexes": "orders", "includeIndexBuildInfo": 1, "includeBuildUUIDs": 1})
    assert 14 == code(shop, {"listIndexes": "orders", "includeBuildUUIDs": "x"})
    assert 14 == code(shop, {"listCollections": 1, "nameOnly": "x"})
    assert 14 == code(shop, {"listCollections": 1, "authorizedCollections": {}})


RENAME: Final[dict[str, Any]] = {"renameCollection": "shop.orders", "to": "shop.paid"}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({**RENAME, "to": None}, 40414),
        ({**RENAME, "to": Code("shop.paid")}, 14),
        ({**RENAME, "to": "shop"}, 73),
        ({**RENAME, "to": "shop.$paid"}, 20),
        ({**RENAME, "to": "shop.system.paid"}, 20),
        ({**RENAME, "to": "SHOP.paid"}, 13297),
        ({**RENAME, "to": "shop.log"}, 48),
        ({**RENAME, "to": "shop.log", "dropTarget": 1}, 14),
        ({**RENAME, "to": "shop.log", "dropTarget": None}, 14),
        ({**RENAME, "to": "shop.log", "dropTarget": Binary(bytes(16), 4)}, 14),
        ({**RENAME, "collectionUUID": Binary(bytes(16), 4)}, 40415),
        ({**RENAME, "stayTemp": 1}, 14),
        ({**RENAME, "renameCollection": "shop.system.orders"}, 20),
        (RENAME, None),
    ],
)
def test_what_gets_another_name_is_checked(shop: Any, body: dict[str, Any], expected: int | None) -> None:
    found: int | None = shop.client["admin"].command(body, check=False).get("code")
    assert expected == found


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"dbStats": 1, "scale": "x"}, 14),
        ({"dbStats": 1, "scale": 0.5}, 2),
        ({"dbStats": 1, "freeStorage": "x"}, 14),
        ({"collStats": "orders", "scale": -1}, 2),
        ({"validate": "cheap"}, 166),
        ({"validate": "orders", "metadata": True, "full": True}, 72),
        ({"validate": "orders", "other": 1}, None),
        ({"dropIndexes": "cheap", "index": "*"}, 166),
        ({"connectionStatus": 1, "showPrivileges": "x"}, 14),
        ({"connectionStatus": 1, "other": 1}, 40415),
        ({"explain": None}, 40414),
        ({"explain": {"find": "orders"}, "verbosity": "all"}, 2),
        ({"explain": {"ping": 1}}, 20),
        ({"explain": {"nonsense": 1}}, 59),
    ],
)
def test_what_is_asked_about_a_collection_is_checked(
    shop: Any, body: dict[str, Any], expected: int | None
) -> None:
    assert expected == code(shop, body)


def test_what_is_explained_keeps_to_its_limit(shop: Any) -> None:
    shop["orders"].insert_many([{"_id": 10 + i} for i in range(5)])
    for query in ({}, {"filter": {}}):
        told = shop.command("explain", {"find": "orders", "limit": 2, **query}, verbosity="executionStats")
        assert 2 == told["executionStats"]["nReturned"]
    assert 1024 == shop.command("dbStats", scale=1024.9)["scaleFactor"]
    assert [] == shop.command("connectionStatus", showPrivileges=1)["authInfo"]["authenticatedUserPrivileges"]


@pytest.mark.parametrize("name", ["$log", "a$b", "system.log"])
def test_no_collection_is_made_that_is_called_so(shop: Any, name: str) -> None:
    for body in (
        {"create": name},
        {"insert": name, "documents": [{}]},
        {"createIndexes": name, "indexes": [{"key": {"a": 1}, "name": "a"}]},
    ):
        assert 73 == code(shop, body)
    assert name not in shop.list_collection_names()
    assert code(shop, {"create": "system.js"}) is None


@pytest.mark.parametrize(("given", "kept"), [(2**40, 2**31 - 1), (NAN, 0), (-0.5, 0), (Decimal128("7.5"), 8)])
def test_seconds_that_are_changed_are_brought_into_their_range(shop: Any, given: Any, kept: int) -> None:
    changed = shop.command("collMod", "orders", index={"name": "n", "expireAfterSeconds": given})

    assert (100, kept) == (changed["expireAfterSeconds_old"], changed["expireAfterSeconds_new"])
    assert {Int64} == {type(changed[f"expireAfterSeconds_{which}"]) for which in ("old", "new")}
    assert kept == shop["orders"].index_information()["n"]["expireAfterSeconds"]


def test_what_is_larger_than_all_may_be_stays_until_the_next_comes(shop: Any) -> None:
    shop["log"].insert_one({"_id": 1, "text": "x" * 10_000})
    first = [one["_id"] for one in shop["log"].find()]
    shop["log"].insert_one({"_id": 2})

    assert ([1], [2]) == (first, [one["_id"] for one in shop["log"].find()])


def test_a_view_does_not_stand_on_itself(shop: Any) -> None:
    assert 5 == code(shop, {"create": "own", "viewOn": "own"})
    shop.create_collection("upper", viewOn="cheap")
    assert 5 == code(shop, {"collMod": "cheap", "viewOn": "upper"})
    before = "upper"
    for number in range(18):
        shop.create_collection(f"v{number}", viewOn=before)
        before = f"v{number}"
    assert 165 == code(shop, {"create": "last", "viewOn": before})
    assert [{"_id": 1, "n": 1}] == list(shop[before].find())


def test_to_make_a_collection_again_changes_nothing(shop: Any) -> None:
    for options in ({"storageEngine": {}}, {"changeStreamPreAndPostImages": {"enabled": False}}):
        assert code(shop, {"create": "orders", **options}) is None
    assert 48 == code(shop, {"create": "orders", "changeStreamPreAndPostImages": {"enabled": True}})


def test_what_is_dropped_is_told_as_much_as_it_had(shop: Any) -> None:
    assert {"nIndexesWas", "ns", "ok"} == shop.command("drop", "orders").keys() - {
        "$clusterTime",
        "operationTime",
    }
    assert "nIndexesWas" not in shop.command("drop", "cheap")
    assert [40414, 14, 14] == [code(shop, {"dropDatabase": value}) for value in (None, "x", True)]
    assert "shop" == shop.command("dropDatabase")["dropped"]
    assert "dropped" not in shop.command("dropDatabase")
