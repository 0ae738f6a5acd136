"""Pipelines on collections: where their documents come from, and where they are written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import reactdb
from reactdb import Database

pytest.importorskip("pymongo")

from bson import Code, Timestamp
from pymongo.errors import DuplicateKeyError, OperationFailure

from reactdb.dialects.mongodb.names import MongoNamespace


@pytest.fixture
def db() -> Iterator[Database]:
    with reactdb.connect(":memory:") as opened:
        yield opened


@pytest.fixture
def shop(db: Database) -> Any:
    found = reactdb.mongodb(db)["shop"]
    found["orders"].insert_many([{"_id": n, "item": "abc"[n % 3], "n": n} for n in range(9)])
    found["items"].insert_many([{"_id": "a", "price": 2}, {"_id": "b", "price": 3}])
    return found


def test_a_pipeline_groups_sorts_and_joins(shop: Any) -> None:
    found = shop["orders"].aggregate(
        [
            {"$match": {"n": {"$gt": 0}}},
            {"$group": {"_id": "$item", "total": {"$sum": "$n"}}},
            {"$sort": {"_id": 1}},
            {"$lookup": {"from": "items", "localField": "_id", "foreignField": "_id", "as": "of"}},
        ]
    )
    assert list(found) == [
        {"_id": "a", "total": 9, "of": [{"_id": "a", "price": 2}]},
        {"_id": "b", "total": 12, "of": [{"_id": "b", "price": 3}]},
        {"_id": "c", "total": 15, "of": []},
    ]


def test_the_first_match_is_looked_up(shop: Any) -> None:
    shop["orders"].create_index("item")
    pipeline = [{"$match": {"item": "b"}}, {"$project": {"n": 1, "_id": 0}}]
    assert list(shop["orders"].aggregate(pipeline)) == [{"n": 1}, {"n": 4}, {"n": 7}]
    variables = shop["orders"].aggregate([{"$match": {"$expr": {"$eq": ["$n", "$$x"]}}}], let={"x": 4})
    assert [one["_id"] for one in variables] == [4]


def test_nothing_to_read(shop: Any) -> None:
    assert list(shop["none"].aggregate([{"$match": {}}, {"$count": "n"}])) == []
    assert list(shop.aggregate([{"$documents": [{"a": 1}]}])) == [{"a": 1}]
    with pytest.raises(OperationFailure) as refused:
        shop.aggregate([{"$match": {}}])
    assert refused.value.code == 73
    with pytest.raises(OperationFailure) as refused:
        shop["orders"].aggregate([{"$wrong": 1}])
    assert refused.value.code == 40324


def test_out_takes_the_place_of_a_collection(db: Database, shop: Any) -> None:
    shop["items"].create_index("price")
    before = db.seq
    assert list(shop["orders"].aggregate([{"$match": {"n": {"$lt": 2}}}, {"$out": "items"}])) == []
    assert shop["items"].distinct("_id") == [0, 1]
    assert list(shop["items"].index_information()) == ["_id_", "price_1"]
    assert len({change.commit for change in db.log(since=before)}) == 1
    assert sorted(shop.list_collection_names()) == ["items", "orders"]


def test_an_out_that_fails_leaves_everything(shop: Any) -> None:
    shop["items"].delete_many({})
    shop["items"].create_index("k", unique=True)
    with pytest.raises(DuplicateKeyError):
        shop["orders"].aggregate([{"$set": {"k": 1}}, {"$out": "items"}])
    assert shop["items"].count_documents({}) == 0
    assert sorted(shop.list_collection_names()) == ["items", "orders"]


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ("merge", {"_id": "a", "price": 2, "n": 5}),
        ("replace", {"_id": "a", "n": 5}),
        ("keepExisting", {"_id": "a", "price": 2}),
        ([{"$set": {"price": {"$add": ["$price", "$$new.n"]}}}], {"_id": "a", "price": 7}),
    ],
)
def test_merge_writes_into_a_collection(shop: Any, when: Any, expected: dict[str, Any]) -> None:
    source = [{"$documents": [{"_id": "a", "n": 5}, {"_id": "z", "n": 6}]}]
    shop.aggregate([*source, {"$merge": {"into": "items", "whenMatched": when}}])
    assert list(shop["items"].find({"_id": {"$in": ["a", "z"]}})) == [expected, {"_id": "z", "n": 6}]


def test_a_merge_that_fails_leaves_everything(shop: Any) -> None:
    source = {"$documents": [{"_id": "z"}, {"_id": "a"}]}
    with pytest.raises(DuplicateKeyError):
        shop.aggregate([source, {"$merge": {"into": "items", "whenMatched": "fail"}}])
    with pytest.raises(OperationFailure) as refused:
        shop.aggregate([source, {"$merge": {"into": "items", "whenNotMatched": "fail"}}])
    assert refused.value.code == 13113
    with pytest.raises(OperationFailure) as refused:
        shop.aggregate([{"$documents": [{"price": 1}]}, {"$merge": {"into": "items", "on": "price"}}])
    assert refused.value.code == 51183
    assert shop["items"].distinct("_id") == ["a", "b"]


def test_a_transaction_reads_its_own_writes_and_writes_no_collections(shop: Any) -> None:
    with shop.client.start_session() as session:
        session.start_transaction()
        shop["orders"].delete_many({"n": {"$gt": 1}}, session=session)
        assert list(shop["orders"].aggregate([{"$count": "n"}], session=session)) == [{"n": 2}]
        with pytest.raises(OperationFailure) as refused:
            shop["orders"].aggregate([{"$out": "x"}], session=session)
        assert refused.value.code == 263


def test_statistics_of_a_collection(shop: Any) -> None:
    assert [one["name"] for one in shop["orders"].aggregate([{"$indexStats": {}}])] == ["_id_"]
    assert next(shop["orders"].aggregate([{"$collStats": {"count": {}}}]))["count"] == 9


def test_a_merge_gives_an_id_to_what_has_none(shop: Any) -> None:
    shop["orders"].aggregate([{"$limit": 1}, {"$project": {"_id": 0, "n": 1}}, {"$merge": {"into": "new"}}])

    (made,) = shop["new"].find()
    assert (0, 12) == (made["n"], len(made["_id"].binary))


def test_a_merge_that_would_change_an_id_is_refused(shop: Any) -> None:
    shop["named"].create_index("name", unique=True)
    shop["named"].insert_one({"_id": "c", "name": "c"})
    pipeline = [{"$limit": 1}, {"$set": {"name": "c"}}, {"$merge": {"into": "named", "on": "name"}}]

    with pytest.raises(OperationFailure) as refused:
        shop["orders"].aggregate(pipeline)

    assert refused.value.code == 66
    assert shop["named"].find_one({"_id": "c"}) == {"_id": "c", "name": "c"}


def test_a_merge_knows_the_variables_of_the_command(shop: Any) -> None:
    merge = {"into": "items", "let": {"own": "$$given"}, "whenMatched": [{"$set": {"of": "$$own"}}]}

    shop["orders"].aggregate([{"$limit": 1}, {"$set": {"_id": "a"}}, {"$merge": merge}], let={"given": "x"})

    assert shop["items"].find_one({"_id": "a"}) == {"_id": "a", "price": 2, "of": "x"}


def test_nothing_that_is_merged_makes_no_collection(shop: Any) -> None:
    shop["orders"].aggregate([{"$match": {"n": -1}}, {"$merge": {"into": "new"}}])

    assert "new" not in shop.list_collection_names()


def test_views_that_stand_on_each_other_in_a_circle_are_refused(db: Database) -> None:
    shop = reactdb.mongodb(db)["shop"]
    shop.create_collection("a", viewOn="b")
    shop.client.spaces.create(
        MongoNamespace("shop", "b"), {"viewOn": "a", "pipeline": [{"$match": {"n": 1}}]}
    )

    with pytest.raises(OperationFailure) as caught:
        list(shop["a"].aggregate([]))
    assert 165 == caught.value.code


def test_a_hint_says_which_documents_come_and_in_which_order(shop: Any) -> None:
    orders = shop["orders"]
    orders.insert_one({"_id": 10})
    orders.create_index([("n", -1)], sparse=True)

    along = orders.aggregate([{"$match": {"item": {"$ne": "a"}}}], hint={"n": -1})
    whole = orders.aggregate([{"$project": {"_id": 1}}], hint="n_-1")

    assert [one["_id"] for one in along] == [8, 7, 5, 4, 2, 1]
    assert [one["_id"] for one in whole] == [8, 7, 6, 5, 4, 3, 2, 1, 0]


def test_a_hint_of_a_view_is_about_what_it_is_of(shop: Any) -> None:
    shop["orders"].create_index("n")
    shop.create_collection("some", viewOn="orders", pipeline=[{"$match": {"n": {"$gt": 5}}}])

    assert shop["some"].count_documents({}, hint="n_1") == 3
    assert shop["some"].distinct("n", hint="n_1") == [6, 7, 8]
    with pytest.raises(OperationFailure) as refused:
        shop["some"].count_documents({}, hint="other_1")
    assert refused.value.code == 2


def test_a_merged_text_is_no_field_of_the_target(shop: Any) -> None:
    made = [{"$match": {"n": 1}}, {"$set": {"said": {"$literal": "$n"}}}]
    shop["orders"].aggregate([*made, {"$merge": {"into": "copy"}}])
    shop["orders"].aggregate([*made, {"$merge": {"into": "copy", "whenMatched": "merge"}}])

    assert list(shop["copy"].find()) == [{"_id": 1, "item": "b", "n": 1, "said": "$n"}]


def test_the_variables_of_a_command_are_seen_by_what_merges(shop: Any) -> None:
    merging = {"into": "items", "whenMatched": [{"$set": {"by": "$$who", "was": "$$new.price"}}]}

    shop["items"].aggregate([{"$match": {"_id": "a"}}, {"$merge": merging}], let={"who": "ann"})

    assert shop["items"].find_one("a") == {"_id": "a", "price": 2, "by": "ann", "was": 2}


def test_documents_that_a_join_brings_along_are_joined_by_the_fields(shop: Any) -> None:
    brought = [{"$documents": [{"k": "a", "v": 1}, {"k": "b", "v": 2}, {"k": "a", "v": 3}]}, {"$limit": 1}]
    join = {"localField": "_id", "foreignField": "k", "pipeline": brought, "as": "of"}

    found = shop["items"].aggregate([{"$lookup": join}])

    assert [one["of"] for one in found] == [[{"k": "a", "v": 1}], [{"k": "b", "v": 2}]]


def test_what_merges_writes_null_where_it_was_looked_for(shop: Any) -> None:
    shop["copy"].create_index("k", unique=True)

    shop["items"].aggregate([{"$match": {"_id": "a"}}, {"$merge": {"into": "copy", "on": "k"}}])

    assert shop["copy"].find_one("a") == {"_id": "a", "price": 2, "k": None}


@pytest.mark.parametrize(
    ("stage", "code"),
    [
        ({"$out": {"db": "shop", "coll": "x", "timeseries": {"timeField": "t"}}}, 115),
        ({"$out": Code("x")}, 16990),
        ({"$merge": Code("x")}, 14),
        ({"$merge": {"into": Code("x")}}, 51178),
        ({"$lookup": {"from": Code("x"), "localField": "a", "foreignField": "b", "as": "c"}}, 9),
        ({"$lookup": {"From": "x", "localField": "a", "foreignField": "b", "as": "c"}}, 9),
    ],
)
def test_a_stage_about_another_collection_says_what_is_wrong(
    shop: Any, stage: dict[str, Any], code: int
) -> None:
    with pytest.raises(OperationFailure) as refused:
        shop["orders"].aggregate([stage])
    assert refused.value.code == code
    assert sorted(shop.list_collection_names()) == ["items", "orders"]


def test_buckets_without_any_output_are_their_ids(shop: Any) -> None:
    bucket = {"groupBy": "$n", "boundaries": [0, 5, 10], "output": {}}
    assert list(shop["orders"].aggregate([{"$bucket": bucket}])) == [{"_id": 0}, {"_id": 5}]


def test_what_merges_by_a_pipeline_may_have_the_cluster_time_before(shop: Any) -> None:
    merging = {"into": "items", "whenMatched": [{"$set": {"at": "$$new.at"}}]}

    shop["items"].aggregate([{"$set": {"at": "$$CLUSTER_TIME"}}, {"$merge": merging}])

    assert {Timestamp} == {type(one["at"]) for one in shop["items"].find()}
