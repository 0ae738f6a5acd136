"""A skip gives the rest of what the same read gives without it, whether the skipped documents are read or not."""

from __future__ import annotations

from typing import Any

import pytest

import reactdb
from reactdb.dialects.mongodb.embedded.client import EmbeddedClient


@pytest.fixture(params=["in order", "out of order", "capped", "with arrays", "written since"])
def things(request: pytest.FixtureRequest) -> Any:
    with reactdb.connect(":memory:") as db:
        shop = EmbeddedClient(db)["shop"]
        if request.param == "capped":
            shop.create_collection("things", capped=True, size=1_000_000, max=30)
        numbers = (
            list(range(40))
            if request.param in ("in order", "written since")
            else [*range(39, 0, -3), *range(0, 39, 3)]
        )
        things = shop["things"]
        things.create_index("a")
        things.create_index("b", sparse=True)
        for number in dict.fromkeys(numbers):
            a = [number % 5, 2] if request.param == "with arrays" and number % 7 == 0 else number % 5
            things.insert_one({"_id": number, "a": a, "n": number, **({"b": number} if number % 2 else {})})
        if request.param == "written since":
            things.update_many({"_id": {"$lt": 20}}, {"$set": {"a": 9}})
            things.delete_many({"_id": {"$in": [3, 4, 30]}})
        yield things


FILTERS: list[dict[str, Any]] = [
    {},
    {"_id": {"$gt": 5}},
    {"_id": {"$gte": 5, "$lt": 30}},
    {"_id": {"$in": [1, 4, 7, 99]}},
    {"_id": 5},
    {"a": 2},
    {"a": {"$gt": 1}},
    {"b": {"$gt": 4}},
    {"n": {"$gt": 4}},
    {"$or": [{"_id": {"$lt": 5}}, {"a": 3}]},
]


@pytest.mark.parametrize("spec", FILTERS, ids=str)
def test_a_skip_gives_the_rest(things: Any, spec: dict[str, Any]) -> None:
    whole = list(things.find(spec))
    for skip in (0, 1, 3, 17, 50):
        assert list(things.find(spec).skip(skip)) == whole[skip:]
        assert list(things.find(spec).skip(skip).limit(4)) == whole[skip:][:4] or spec.keys() & {"a", "b"}
        for pipeline in (
            [{"$match": spec}, {"$skip": skip}],
            [{"$match": spec}, {"$skip": 1}, {"$skip": skip}],
        ):
            assert list(things.aggregate(pipeline)) == whole[skip + len(pipeline) - 2 :]
        assert (
            list(things.aggregate([{"$skip": skip}, {"$match": spec}, {"$limit": 3}]))
            == [one for one in list(things.find())[skip:] if one in whole][:3]
        )


@pytest.mark.parametrize(
    "sort", [{"a": 1}, {"a": -1}, {"_id": -1}, {"b": 1}, {"n": -1}, {"$natural": -1}], ids=str
)
def test_a_skip_in_an_order_gives_the_rest(things: Any, sort: dict[str, Any]) -> None:
    name = next(iter(sort))
    for spec in ({}, {"a": {"$gt": 1}}):
        whole = list(things.find(spec, sort=sort))
        for skip in (0, 1, 7, 25, 60):
            found = list(things.find(spec, sort=sort, skip=skip, limit=5))
            # Documents that are equal in the order may come in any order.
            assert [one.get(name) for one in found] == [one.get(name) for one in whole[skip : skip + 5]]
            assert list(things.find(spec, sort=sort, skip=skip)) == whole[skip:]
        pages = [one for skip in range(0, 45, 5) for one in things.find(spec, sort=sort, skip=skip, limit=5)]
        assert sorted(one["_id"] for one in pages) == sorted(one["_id"] for one in whole)


def test_a_skip_in_a_transaction_gives_the_rest(things: Any) -> None:
    client = things.database.client
    if things.options().get("capped"):
        pytest.skip("no writes of capped collections in transactions")
    with client.start_session() as session, session.start_transaction():
        things.insert_one({"_id": 1_000, "a": 1, "n": 0}, session=session)
        things.delete_one({"_id": 12}, session=session)
        whole = list(things.find({}, session=session))
        assert {"_id": 1_000, "a": 1, "n": 0} in whole
        for skip in (1, 10, 90):
            assert list(things.find({}, session=session).skip(skip)) == whole[skip:]
            assert list(things.aggregate([{"$skip": skip}], session=session)) == whole[skip:]
