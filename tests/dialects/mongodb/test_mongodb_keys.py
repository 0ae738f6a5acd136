"""Primary keys that BSON cannot say, in the process: each is shown as an `_id` of its own, and stands for its document."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pymongo.errors import DuplicateKeyError

import reactdb
from reactdb.dialects.mongodb import natives

MOMENT = datetime(2026, 1, 31, tzinfo=UTC)
DATE = '={"$reactdb_type$":"date","value":"2026-01-31"}'
# Some of these would be shown alike, or found by each other's `_id`.
KEYS: dict[str, Any] = {
    "zero": 0,
    "no time": timedelta(),
    "date": date(2026, 1, 31),
    "text of the date": "2026-01-31",
    "spelling of the date": DATE,
    "spelling of the spelling": f"={DATE}",
    "moment": MOMENT,
    "microsecond": MOMENT + timedelta(microseconds=1),
    "great": 2**63 - 1,
    "greater": 10**40 + 1,
    "double": 1.5,
    "decimal": Decimal("0.1"),
    "array": ["a", 1],
    "array of an array": [["a", 1]],
    "array of a date": ["a", date(2026, 1, 31)],
    "regular expression": natives.Regex("a"),
    "object id": natives.ObjectId(bytes(12)),
    "text": "a",
    "other text": "z",
}
# What a query for a text under no other name is compared with.
BOUNDS = [
    "",
    "=",
    "==",
    DATE,
    f"={DATE}",
    '={"$r',
    ">",
    "a",
    "2026-01-31",
    0,
    1.5,
    MOMENT.replace(tzinfo=None),
]


@pytest.fixture
def db() -> Iterator[Any]:
    with reactdb.connect(":memory:") as db:
        yield db


@pytest.fixture
def table(db: Any) -> Any:
    table = db.table_create("shop.things", primary_key="key")
    table.insert([{"key": key, "name": name} for name, key in KEYS.items()])
    return table


@pytest.fixture
def things(db: Any, table: Any) -> Any:
    return reactdb.mongodb(db)["shop"]["things"]


@pytest.fixture
def shown(things: Any) -> dict[str, Any]:
    return {one["name"]: one["_id"] for one in things.find()}


@pytest.fixture
def copies(db: Any, shown: Any) -> Any:
    """The shown keys in another field, which no key serves."""
    copies = reactdb.mongodb(db)["shop"]["copies"]
    copies.insert_many([{"_id": name, "key": key} for name, key in shown.items() if name != "array"])
    return copies


def stored(table: Any) -> dict[str, str]:
    # With their types: 0.1 is no Decimal.
    return {one["name"]: repr(one["key"]) for one in table.run()}


def test_each_key_is_shown_as_an_id_of_its_own(shown: Any) -> None:
    assert len(set(map(repr, shown.values()))) == len(KEYS)


def test_keys_that_bson_has_are_shown_as_they_are(shown: Any) -> None:
    names = ("zero", "text of the date", "double", "array", "text", "other text")
    assert [shown[name] for name in names] == [0, "2026-01-31", 1.5, ["a", 1], "a", "z"]
    assert (shown["moment"], str(shown["object id"])) == (MOMENT.replace(tzinfo=None), "0" * 24)


def test_other_keys_are_shown_as_texts_that_stand_for_them(shown: Any) -> None:
    assert (shown["date"], shown["spelling of the date"]) == (DATE, f"={DATE}")
    assert shown["greater"] == f"={10**40 + 1}"
    assert shown["array of an array"] == '=[["a",1]]'


@pytest.mark.parametrize(
    "query",
    [
        lambda key: key,
        lambda key: {"$eq": key},
        lambda key: {"$in": [key, "nothing"]},
        lambda key: {"$in": [key] * 201},
    ],
)
def test_a_shown_key_finds_its_document_alone(things: Any, shown: Any, query: Any) -> None:
    found = {name: [one["name"] for one in things.find({"_id": query(key)})] for name, key in shown.items()}
    assert found == {name: [name] for name in KEYS}


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("operator", ["$lt", "$lte", "$gt", "$gte", "$ne"])
def test_a_condition_on_the_key_finds_what_it_finds_on_any_field(
    things: Any, copies: Any, operator: str, bound: Any
) -> None:
    wanted = {one["_id"] for one in copies.find({"key": {operator: bound}})}
    assert {one["name"] for one in things.find({"_id": {operator: bound}})} - {"array"} == wanted


@pytest.mark.parametrize("limit", [0, 5])
@pytest.mark.parametrize("way", [1, -1])
def test_a_sort_by_the_key_is_by_what_is_shown(things: Any, copies: Any, way: int, limit: int) -> None:
    query = {"name": {"$ne": "array"}}
    wanted = [one["_id"] for one in copies.find(sort=[("key", way)], limit=limit)]
    assert [one["name"] for one in things.find(query, sort=[("_id", way)], limit=limit)] == wanted


@pytest.mark.parametrize(
    "write",
    [
        lambda things, name, key: things.update_one({"_id": key}, {"$set": {"new": name}}),
        lambda things, name, key: things.update_many({"_id": key}, {"$set": {"new": name}}),
        lambda things, name, key: things.replace_one({"_id": key}, {"_id": key, "name": name, "new": name}),
        lambda things, name, key: things.replace_one({"_id": key}, {"name": name, "new": name}),
        lambda things, name, key: things.find_one_and_update({"_id": key}, {"$set": {"new": name}}),
        lambda things, name, key: things.update_one({"_id": key}, [{"$set": {"new": name}}]),
    ],
)
def test_a_write_under_a_shown_key_changes_its_document_alone(
    table: Any, things: Any, shown: Any, write: Any
) -> None:
    before = stored(table)
    for name, key in shown.items():
        write(things, name, key)
    assert stored(table) == before
    assert {one["name"]: one["new"] for one in table.run()} == {name: name for name in KEYS}


def test_a_delete_under_a_shown_key_deletes_its_document_alone(table: Any, things: Any, shown: Any) -> None:
    left = set(KEYS)
    for name, key in shown.items():
        assert things.delete_many({"_id": key}).deleted_count == 1
        left.remove(name)
        assert stored(table).keys() == left


def test_an_insert_under_a_key_that_is_taken_is_refused(things: Any, shown: Any) -> None:
    for name, key in shown.items():
        if name != "array":
            with pytest.raises(DuplicateKeyError):
                things.insert_one({"_id": key})


def test_a_document_that_is_inserted_under_a_spelling_has_the_key(
    table: Any, things: Any, shown: Any
) -> None:
    before = stored(table)
    table.delete()
    for name, key in shown.items():
        if name != "array":
            things.insert_one({"_id": key, "name": name})
    del before["array"]
    found = stored(table)
    # Of keys that are equal, any is stored: this one as its bytes give it back.
    assert Decimal("0.1") == {one["name"]: one["key"] for one in table.run()}["decimal"]
    assert {**found, "decimal": ""} == {**before, "decimal": ""}


def test_an_index_that_has_the_key_too_finds_it(things: Any, shown: Any) -> None:
    things.create_index([("name", 1), ("_id", 1)])
    for name, key in shown.items():
        query = {"name": name, "_id": key}
        assert [one["_id"] for one in things.find(query, hint=[("name", 1), ("_id", 1)])] == [key]
        assert [one["_id"] for one in things.find(query, sort=[("name", 1)], limit=1)] == [key]


def test_events_have_the_key_as_it_is_shown(things: Any, shown: Any) -> None:
    with things.watch([{"$match": {"documentKey._id": DATE}}]) as stream:
        for name, key in shown.items():
            things.update_one({"_id": key}, {"$set": {"new": name}})
        event = next(stream)
        assert (event["documentKey"], stream.try_next()) == ({"_id": DATE}, None)


def test_a_spelling_is_a_key_only_as_an_id(table: Any, things: Any) -> None:
    things.insert_one({"_id": 5, "other": DATE, "in": {"_id": DATE}})
    assert things.find_one({"other": DATE}) == {"_id": 5, "other": DATE, "in": {"_id": DATE}}
    assert table.get(5).run() == {"key": 5, "other": DATE, "in": {"_id": DATE}}
