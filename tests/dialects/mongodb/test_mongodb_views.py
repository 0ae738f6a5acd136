"""Views in the process: they are read as collections are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import reactdb
from reactdb import Database

pytest.importorskip("pymongo")

from pymongo.errors import OperationFailure

from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.view_graph import check_views


@pytest.fixture
def db() -> Iterator[Database]:
    with reactdb.connect(":memory:") as opened:
        yield opened


@pytest.fixture
def shop(db: Database) -> Any:
    return reactdb.mongodb(db)["shop"]


@pytest.fixture
def cheap(shop: Any) -> Any:
    shop["orders"].insert_many(
        [{"_id": n, "n": n, "tags": ["a", "b"][: n % 3], "in": {"x": n % 2}} for n in range(6)]
    )
    return shop.create_collection("cheap", viewOn="orders", pipeline=[{"$match": {"n": {"$lt": 5}}}])


def ids(documents: Any) -> list[Any]:
    return [one["_id"] for one in documents]


def test_it_is_found_with_all_that_a_find_has(cheap: Any) -> None:
    assert [0, 1, 2, 3, 4] == ids(cheap.find())
    assert [2, 3, 4] == ids(cheap.find({"n": {"$gt": 1}}))
    assert [3, 2] == ids(cheap.find({"n": {"$gt": 1}}).sort("n", -1).skip(1).limit(2))
    assert [{"_id": 1, "n": 1}] == list(cheap.find({"_id": 1}, {"n": 1}))
    assert {"_id": 4} == cheap.find_one(4, {"_id": 1})
    assert cheap.find_one(5) is None


def test_it_is_counted(cheap: Any) -> None:
    assert 5 == cheap.count_documents({})
    assert 5 == cheap.estimated_document_count()
    assert 2 == cheap.count_documents({"n": {"$gt": 1}}, limit=2)
    assert 1 == cheap.count_documents({"_id": {"$gt": 1}}, skip=2)


def test_its_values_are_told_apart(cheap: Any) -> None:
    assert ["a", "b"] == cheap.distinct("tags")
    assert [0, 1] == cheap.distinct("in.x")
    assert [1, 3] == cheap.distinct("n", {"in.x": 1})


def test_a_view_of_a_view_is_read(shop: Any, cheap: Any) -> None:
    second = shop.create_collection(
        "odd", viewOn="cheap", pipeline=[{"$match": {"in.x": 1}}, {"$sort": {"n": -1}}]
    )
    assert [3, 1] == ids(second.find())
    assert 2 == second.count_documents({})


def test_it_shows_what_a_transaction_has_written(db: Database, shop: Any, cheap: Any) -> None:
    client = shop.client
    with client.start_session() as session, session.start_transaction():
        shop["orders"].insert_one({"_id": 9, "n": -1}, session=session)
        assert 6 == cheap.count_documents({}, session=session)
        assert 5 == cheap.count_documents({})


def test_it_is_not_written(cheap: Any) -> None:
    for write in (
        lambda: cheap.insert_one({}),
        lambda: cheap.update_one({}, {"$set": {"a": 1}}),
        lambda: cheap.delete_many({}),
    ):
        with pytest.raises(OperationFailure) as caught:
            write()
        assert 166 == caught.value.code


def test_one_that_stands_on_itself_is_refused_when_it_is_read(shop: Any) -> None:
    shop.create_collection("a", viewOn="b", pipeline=[])
    with pytest.raises(OperationFailure) as cycle:
        shop.create_collection("b", viewOn="a", pipeline=[])
    assert 5 == cycle.value.code
    shop.client.spaces.create(MongoNamespace("shop", "b"), {"viewOn": "a", "pipeline": []})
    for read in (lambda: list(shop["a"].find()), lambda: shop["a"].count_documents({})):
        with pytest.raises(OperationFailure) as caught:
            read()
        assert 165 == caught.value.code


def test_variables_are_values_in_it(shop: Any, cheap: Any) -> None:
    found = cheap.find({"$expr": {"$eq": ["$n", "$$wanted"]}}, let={"wanted": {"$add": [1, 2]}})
    assert [3] == ids(found)


@pytest.mark.parametrize(
    ("pipeline", "code"),
    [
        ([{"$out": "others"}], 167),
        ([{"$merge": "others"}], 167),
        ([{"$nonsense": 1}], 40324),
        ([{"$set": {"a": {"$nonsense": 1}}}], 168),
        ([5], 14),
    ],
)
def test_one_that_could_not_be_read_is_not_made(shop: Any, pipeline: list[Any], code: int) -> None:
    with pytest.raises(OperationFailure) as caught:
        shop.command("create", "view", viewOn="orders", pipeline=pipeline)
    assert code == caught.value.code
    assert [] == shop.list_collection_names()
    shop.command("create", "view", viewOn="orders", pipeline=[{"$set": {"at": "$$NOW"}}])


REFERENCES = [
    {"$lookup": {"from": "a2", "localField": "n", "foreignField": "n", "as": "found"}},
    {"$lookup": {"from": "orders", "pipeline": [{"$unionWith": "a2"}], "as": "found"}},
    {"$unionWith": "a2"},
    {"$unionWith": {"coll": "a2"}},
    {"$unionWith": {"coll": "orders", "pipeline": [{"$unionWith": "a2"}]}},
    {"$facet": {"one": [{"$lookup": {"from": "a2", "pipeline": [], "as": "found"}}]}},
    {
        "$graphLookup": {
            "from": "a2",
            "startWith": "$n",
            "connectFromField": "n",
            "connectToField": "n",
            "as": "found",
        }
    },
]


def refused(work: Any, *arguments: Any, **options: Any) -> Any:
    with pytest.raises(OperationFailure) as caught:
        work(*arguments, **options)
    return caught.value.code


@pytest.mark.parametrize("stage", REFERENCES)
class TestWhatAPipelineReadsBeside:
    """A view stands on it as it does on what it is of."""

    def test_it_is_not_the_view_itself(self, shop: Any, stage: Any) -> None:
        assert 5 == refused(shop.command, "create", "a2", viewOn="orders", pipeline=[stage])
        shop.command("create", "a2", viewOn="orders", pipeline=[])
        assert 5 == refused(shop.command, "collMod", "a2", viewOn="orders", pipeline=[stage])

    def test_it_does_not_become_a_view_on_this_one(self, shop: Any, stage: Any) -> None:
        shop["orders"].insert_one({"_id": 1})
        shop["a2"].insert_one({"_id": 2})
        shop.command("create", "a1", viewOn="orders", pipeline=[stage])
        assert list(shop["a1"].find())
        shop["a2"].drop()

        assert 5 == refused(shop.command, "create", "a2", viewOn="a1", pipeline=[])
        assert 5 == refused(shop.command, "create", "a2", viewOn="orders", pipeline=[{"$unionWith": "a1"}])
        shop.command("create", "a2", viewOn="orders", pipeline=[])
        assert 5 == refused(shop.command, "collMod", "a2", viewOn="a1", pipeline=[])
        assert list(shop["a1"].find())

    def test_a_circle_that_came_about_all_the_same_is_not_read(self, shop: Any, stage: Any) -> None:
        shop["orders"].insert_one({"_id": 1})
        # Many stages after it, so that each turn of the circle would be deep for Python.
        pipeline = [stage, *[{"$set": {"a": 1}}] * 90]
        shop.client.spaces.create(MongoNamespace("shop", "a2"), {"viewOn": "orders", "pipeline": pipeline})

        for read in (
            lambda: list(shop["a2"].find()),
            lambda: shop["a2"].count_documents({}),
            lambda: shop["a2"].distinct("n"),
            lambda: list(shop["orders"].aggregate([stage])),
        ):
            assert 165 == refused(read)


def test_views_that_read_each_other_count_for_the_depth(shop: Any) -> None:
    shop["orders"].insert_one({"_id": 1})
    below = "orders"
    for number in range(20):
        lookup = {"$lookup": {"from": below, "pipeline": [], "as": "found"}}
        # Some stand on the one below by what they are of, and others by what they read.
        of, stage = [(below, {"$limit": 1}), ("orders", {"$unionWith": below}), ("orders", lookup)][
            number % 3
        ]
        shop.command("create", f"v{number}", viewOn=of, pipeline=[stage, {"$limit": 1}])
        below = f"v{number}"

    assert 1 == len(list(shop["v19"].find()))
    assert 165 == refused(shop.command, "create", "v20", viewOn="orders", pipeline=[{"$unionWith": "v19"}])
    assert 165 == refused(shop.command, "create", "v20", viewOn="v19", pipeline=[])
    # What reads the highest one is no view.
    assert 2 == len(list(shop["orders"].aggregate([{"$unionWith": "v19"}])))


def test_a_view_counts_by_the_longest_way_to_it_whichever_is_looked_at_first(shop: Any) -> None:
    below = "orders"
    for number in range(20):
        shop.command("create", f"v{number}", viewOn=below, pipeline=[])
        below = f"v{number}"
    high, low = (MongoNamespace("shop", name) for name in ("v19", "v11"))

    for ways in ([low, high], [high, low]):
        check_views(shop.client.spaces, ways)
        with pytest.raises(MongoError) as caught:
            check_views(shop.client.spaces, ways, made=MongoNamespace("shop", "v20"))
        assert 165 == caught.value.code


def test_a_view_of_another_database_is_read_beside_and_may_have_the_same_name(shop: Any) -> None:
    other = {"$lookup": {"from": {"db": "other", "coll": "a1"}, "pipeline": [], "as": "found"}}
    shop.command("create", "a1", viewOn="orders", pipeline=[other])

    back = {"$lookup": {"from": {"db": "shop", "coll": "a1"}, "pipeline": [], "as": "found"}}
    assert 5 == refused(shop.client["other"].command, "create", "a1", viewOn="x", pipeline=[back])
    shop.client["other"].command("create", "a1", viewOn="x", pipeline=[])


def test_it_has_no_indexes_and_no_statistics(cheap: Any) -> None:
    database = cheap.database
    for command in ("listIndexes", "collStats"):
        with pytest.raises(
            OperationFailure, match=r"Namespace shop\.cheap is a view, not a collection"
        ) as caught:
            database.command(command, "cheap")
        assert 166 == caught.value.code
    assert 166 == refused(cheap.list_indexes)
    assert ["_id_"] == list(database["orders"].index_information())
