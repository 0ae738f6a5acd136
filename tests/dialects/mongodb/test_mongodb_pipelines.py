"""Aggregation pipelines: what each stage gives, how stages stand together, and how a wrong one is refused."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

pytest.importorskip("bson")

from bson import Code, Decimal128, Int64

from reactdb.dialects.mongodb.accumulators import ACCUMULATORS
from reactdb.dialects.mongodb.bson_order import identical
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions import OPERATORS
from reactdb.dialects.mongodb.stages import UPDATE_STAGES, Pipeline, Setting
from reactdb.dialects.mongodb.stages.stage import STAGES
from reactdb.dialects.mongodb.window_functions import WINDOW_FUNCTIONS

ROOT = Path(__file__).parents[3]

SALES = [
    {"_id": 1, "item": "apple", "n": 2, "tags": ["fruit", "red"], "at": {"city": "Oslo"}},
    {"_id": 2, "item": "pear", "n": 5, "tags": ["fruit"], "at": {"city": "Rome"}},
    {"_id": 3, "item": "apple", "n": 3, "tags": []},
    {"_id": 4, "item": "leek", "n": 5},
]
PRICES = [{"_id": "a", "name": "apple", "price": 10}, {"_id": "b", "name": "pear", "price": 7}, {"_id": "c"}]
STAFF = [{"_id": 1, "name": "Ann"}, {"_id": 2, "name": "Bob", "boss": 1}, {"_id": 3, "name": "Cy", "boss": 2}]


class Shop:
    """Collections beside, as lists."""

    def __init__(self):
        self.collections = {"shop.sales": SALES, "shop.prices": PRICES, "shop.staff": STAFF}
        self.merged = []

    def documents(self, namespace):
        return list(self.collections.get(namespace, ()))

    def replace(self, namespace, documents):
        self.collections[namespace] = list(documents)

    def merge(self, merging, documents):
        self.merged.append((merging, list(documents)))

    def statistics(self, stage, spec):
        return [{"stage": stage, "spec": dict(spec)}]


def run(stages, documents=SALES, **setting):
    return list(Pipeline(stages, Setting(Shop(), "shop.sales", **setting)).run(documents))


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ([], SALES),
        (
            [{"$match": {"n": {"$gt": 3}}}, {"$project": {"item": 1, "_id": 0}}],
            [{"item": "pear"}, {"item": "leek"}],
        ),
        (
            [{"$match": {"$expr": {"$eq": ["$n", {"$add": ["$_id", 1]}]}}}, {"$project": {"_id": 1}}],
            [{"_id": 1}, {"_id": 4}],
        ),
        (
            [{"$sort": {"n": -1, "_id": -1}}, {"$limit": 2}, {"$project": {"n": 1}}],
            [{"_id": 4, "n": 5}, {"_id": 2, "n": 5}],
        ),
        (
            [{"$sort": {"at.city": 1, "_id": 1}}, {"$skip": 2}, {"$project": {"_id": 1}}],
            [{"_id": 1}, {"_id": 2}],
        ),
        (
            [{"$sort": {"_id": -1}}, {"$skip": 1}, {"$limit": 1}, {"$unset": ["tags", "n"]}],
            [{"_id": 3, "item": "apple"}],
        ),
        (
            [
                {
                    "$group": {
                        "_id": "$item",
                        "total": {"$sum": "$n"},
                        "mean": {"$avg": "$n"},
                        "ids": {"$push": "$_id"},
                    }
                }
            ],
            [
                {"_id": "apple", "total": 5, "mean": 2.5, "ids": [1, 3]},
                {"_id": "pear", "total": 5, "mean": 5.0, "ids": [2]},
                {"_id": "leek", "total": 5, "mean": 5.0, "ids": [4]},
            ],
        ),
        (
            [{"$group": {"_id": None, "n": {"$max": "$n"}, "c": {"$count": {}}}}],
            [{"_id": None, "n": 5, "c": 4}],
        ),
        (
            [
                {
                    "$group": {
                        "_id": None,
                        "t": {"$topN": {"n": 2, "sortBy": {"n": -1, "_id": 1}, "output": "$_id"}},
                    }
                }
            ],
            [{"_id": None, "t": [2, 4]}],
        ),
        (
            [{"$group": {"_id": None, "b": {"$bottom": {"sortBy": {"n": 1}, "output": "$item"}}}}],
            [{"_id": None, "b": "leek"}],
        ),
        (
            # The greatest and the least int64: their sum is -1, which a sum of doubles would lose.
            [
                {"$set": {"long": {"$cond": [{"$lt": ["$_id", 3]}, Int64(2**63 - 1), Int64(-(2**63))]}}},
                {"$match": {"_id": {"$in": [2, 3]}}},
                {"$group": {"_id": None, "mean": {"$avg": "$long"}, "sum": {"$sum": "$long"}}},
            ],
            [{"_id": None, "mean": -0.5, "sum": Int64(-1)}],
        ),
        (
            # A double among them loses nothing either, nor does an infinity become another number.
            [
                {"$set": {"a": {"$cond": [{"$eq": ["$_id", 1]}, Int64(2**63 - 1), 0]}}},
                {"$set": {"a": {"$cond": [{"$eq": ["$_id", 2]}, -(2.0**63), "$a"]}}},
                {"$match": {"_id": {"$lt": 3}}},
                {"$group": {"_id": None, "mean": {"$avg": "$a"}, "sum": {"$sum": "$a"}}},
            ],
            [{"_id": None, "mean": -0.5, "sum": -1.0}],
        ),
        (
            [{"$group": {"_id": {"c": "$at.city"}}}],
            [{"_id": {"c": "Oslo"}}, {"_id": {"c": "Rome"}}, {"_id": {}}],
        ),
        (
            [{"$unwind": "$tags"}, {"$sortByCount": "$tags"}],
            [{"_id": "fruit", "count": 2}, {"_id": "red", "count": 1}],
        ),
        (
            [
                {"$unwind": {"path": "$tags", "includeArrayIndex": "i", "preserveNullAndEmptyArrays": True}},
                {"$project": {"i": 1, "tags": 1}},
            ],
            [
                {"_id": 1, "tags": "fruit", "i": Int64(0)},
                {"_id": 1, "tags": "red", "i": Int64(1)},
                {"_id": 2, "tags": "fruit", "i": Int64(0)},
                {"_id": 3, "i": None},
                {"_id": 4, "i": None},
            ],
        ),
        ([{"$match": {"item": "apple"}}, {"$count": "apples"}], [{"apples": 2}]),
        ([{"$match": {"item": "none"}}, {"$count": "nothing"}], []),
        (
            [
                {"$addFields": {"at.zip": "$n", "double": {"$multiply": ["$n", 2]}}},
                {"$match": {"_id": 1}},
                {"$unset": "tags"},
            ],
            [{"_id": 1, "item": "apple", "n": 2, "at": {"city": "Oslo", "zip": 2}, "double": 4}],
        ),
        (
            [{"$match": {"_id": 2}}, {"$project": {"at.city": 0, "tags": 0}}],
            [{"_id": 2, "item": "pear", "n": 5, "at": {}}],
        ),
        (
            [{"$match": {"_id": 2}}, {"$project": {"item": "$$REMOVE", "c": "$at.city"}}],
            [{"_id": 2, "c": "Rome"}],
        ),
        ([{"$match": {"_id": 2}}, {"$replaceRoot": {"newRoot": "$at"}}], [{"city": "Rome"}]),
        ([{"$limit": 1}, {"$replaceWith": {"x": "$n"}}], [{"x": 2}]),
        (
            [
                {"$match": {"_id": {"$in": [1, 4]}}},
                {"$lookup": {"from": "prices", "localField": "item", "foreignField": "name", "as": "p"}},
                {"$project": {"p.price": 1}},
            ],
            [{"_id": 1, "p": [{"price": 10}]}, {"_id": 4, "p": []}],
        ),
        (
            [
                {"$match": {"_id": {"$lte": 2}}},
                {
                    "$lookup": {
                        "from": "prices",
                        "let": {"wanted": "$item"},
                        "pipeline": [
                            {"$match": {"$expr": {"$eq": ["$name", "$$wanted"]}}},
                            {"$project": {"price": 1, "w": "$$wanted"}},
                        ],
                        "as": "p",
                    }
                },
                {"$project": {"p": 1}},
            ],
            [
                {"_id": 1, "p": [{"_id": "a", "price": 10, "w": "apple"}]},
                {"_id": 2, "p": [{"_id": "b", "price": 7, "w": "pear"}]},
            ],
        ),
        (
            [
                {"$limit": 1},
                {"$lookup": {"from": "prices", "localField": "none", "foreignField": "name", "as": "p"}},
                {"$project": {"p": 1}},
            ],
            [{"_id": 1, "p": [{"_id": "c"}]}],
        ),
        (
            [
                {"$project": {"_id": 1}},
                {"$unionWith": {"coll": "prices", "pipeline": [{"$match": {"price": 7}}]}},
                {"$skip": 3},
            ],
            [{"_id": 4}, {"_id": "b", "name": "pear", "price": 7}],
        ),
        (
            [{"$facet": {"n": [{"$count": "n"}], "first": [{"$limit": 1}, {"$project": {"_id": 1}}]}}],
            [{"n": [{"n": 4}], "first": [{"_id": 1}]}],
        ),
        (
            [
                {
                    "$bucket": {
                        "groupBy": "$n",
                        "boundaries": [0, 3, 5],
                        "default": "more",
                        "output": {"ids": {"$push": "$_id"}},
                    }
                }
            ],
            [{"_id": 0, "ids": [1]}, {"_id": 3, "ids": [3]}, {"_id": "more", "ids": [2, 4]}],
        ),
        (
            [{"$bucketAuto": {"groupBy": "$n", "buckets": 2}}],
            [{"_id": {"min": 2, "max": 5}, "count": 2}, {"_id": {"min": 5, "max": 5}, "count": 2}],
        ),
        (
            [
                {"$match": {"_id": 1}},
                {"$redact": {"$cond": [{"$eq": ["$city", "Oslo"]}, "$$PRUNE", "$$DESCEND"]}},
            ],
            [{"_id": 1, "item": "apple", "n": 2, "tags": ["fruit", "red"]}],
        ),
        ([{"$indexStats": {}}], [{"stage": "$indexStats", "spec": {}}]),
        ([{"$documents": [{"a": 1}]}, {"$addFields": {"b": "$a"}}], [{"a": 1, "b": 1}]),
    ],
    ids=repr,
)
def test_a_pipeline_gives_these_documents(stages, expected):
    actual = run(stages)

    assert identical(expected, actual), actual


def test_a_graph_is_followed_as_deep_as_asked():
    stages = [
        {"$match": {"_id": 3}},
        {
            "$graphLookup": {
                "from": "staff",
                "startWith": "$boss",
                "connectFromField": "boss",
                "connectToField": "_id",
                "as": "above",
                "depthField": "depth",
            }
        },
        {"$project": {"above.name": 1, "above.depth": 1}},
    ]

    made = run(stages, STAFF)

    assert [{"_id": 3, "above": [{"name": "Bob", "depth": 0}, {"name": "Ann", "depth": 1}]}] == made


def test_missing_values_are_filled():
    documents = [{"t": 0, "v": 0, "w": 1}, {"t": 1, "v": None}, {"t": 4, "v": 8}]
    stages = [
        {
            "$fill": {
                "sortBy": {"t": 1},
                "output": {"v": {"method": "linear"}, "w": {"method": "locf"}, "x": {"value": 9}},
            }
        }
    ]

    assert [
        {"t": 0, "v": 0, "w": 1, "x": 9},
        {"t": 1, "v": 2.0, "x": 9, "w": 1},
        {"t": 4, "v": 8, "x": 9, "w": 1},
    ] == run(stages, documents)


def test_documents_in_between_are_made():
    day = lambda number: {"at": datetime(2024, 1, number)}  # noqa: E731

    made = run(
        [{"$densify": {"field": "at", "range": {"step": 1, "unit": "day", "bounds": "full"}}}],
        [day(1), day(4)],
    )

    assert [day(1), day(2), day(3), day(4)] == made


def test_a_number_where_a_whole_one_is_wanted_is_made_whole():
    for size in (1.9, Decimal128("1.4"), Decimal128("0.6")):
        assert 1 == len(run([{"$sample": {"size": size}}]))
    everything = run([{"$sort": {"_id": 1}}])
    assert (
        everything
        == run([{"$sort": {"_id": 1.9}}])
        == run([{"$sample": {"size": float("inf")}}, {"$sort": {"_id": 1}}])
    )
    assert everything[::-1] == run([{"$sort": {"_id": Decimal128("-0.51")}}])


def test_a_pipeline_may_have_a_thousand_stages():
    longest = [{"$set": {"n": number}} for number in range(998)]
    assert {997} == {one["n"] for one in run(longest)}
    assert [{"_id": None, "n": 997}] == run(
        [
            {"$facet": {"all": longest}},
            {"$unwind": "$all"},
            {"$group": {"_id": None, "n": {"$max": "$all.n"}}},
        ]
    )


def test_a_sample_has_as_many_as_asked_and_no_document_twice():
    made = run([{"$sample": {"size": 3}}])

    assert 3 == len({document["_id"] for document in made}) == len(made)


def test_what_comes_out_replaces_a_collection_or_is_merged_into_one():
    shop = Shop()
    setting = Setting(shop, "shop.sales")

    assert [] == list(Pipeline([{"$project": {"_id": 1}}, {"$out": "ids"}], setting).run(SALES))
    merge = {"into": "totals", "on": ["_id"], "whenMatched": "replace"}
    assert [] == list(Pipeline([{"$limit": 1}, {"$merge": merge}], setting).run(SALES))

    assert [{"_id": 1}, {"_id": 2}, {"_id": 3}, {"_id": 4}] == shop.collections["shop.ids"]
    ((merging, documents),) = shop.merged
    assert (
        ("shop.totals", ("_id",), "replace", "insert") == merging[:4] if isinstance(merging, tuple) else True
    )
    assert ("shop.totals", ("_id",), "replace", "insert") == (
        merging.namespace,
        merging.on,
        merging.when_matched,
        merging.when_not_matched,
    )
    assert SALES[:1] == documents


@pytest.mark.parametrize(
    ("stages", "code"),
    [
        ([{"$nope": 1}], 40324),
        ([{"$match": {}, "$limit": 1}], 40323),
        ([1], 14),
        ([{"$match": 1}], 15959),
        ([{"$limit": 0}], 15958),
        ([{"$limit": -1}], 5107201),
        ([{"$skip": -1}], 5107200),
        ([{"$sort": {}}], 15976),
        ([{"$sort": {"a": 2}}], 15975),
        ([{"$project": {}}], 51272),
        ([{"$project": {"a": 1, "b": 0}}], 31254),
        ([{"$project": {"a": 0, "b": 1}}], 31253),
        ([{"$project": {"a": 1, "a.b": 1}}], 31249),
        ([{"$project": {"a.b": 1, "a": 1}}], 31250),
        ([{"$addFields": {"a": 1, "a.b": 1}}], 40176),
        ([{"$group": {"n": {"$sum": 1}}}], 15955),
        ([{"$group": {"_id": 1, "n": {"$nope": 1}}}], 15952),
        ([{"$group": {"_id": 1, "n": 1}}], 40234),
        ([{"$unwind": "tags"}], 28818),
        ([{"$replaceWith": "$n"}], 40228),
        ([{"$lookup": {"from": "x", "as": "y"}}], 9),
        ([{"$lookup": {"from": "x", "as": "y", "pipeline": [{"$out": "z"}]}}], 51047),
        ([{"$facet": {"a": [{"$out": "x"}]}}], 40600),
        ([{"$out": "x"}, {"$limit": 1}], 40601),
        ([{"$limit": 1}, {"$indexStats": {}}], 40602),
        ([{"$limit": 1}, {"$changeStream": {}}], 40602),
        ([{"$bucket": {"groupBy": "$n", "boundaries": [0, 3]}}], 7158303),
        ([{"$count": ""}], 40157),
        ([{"$count": Code("f", {})}], 40156),
        ([{"$fill": {"partitionByFields": [1], "sortBy": {"_id": 1}, "output": {"a": {"value": 1}}}}], 14),
        ([{"$unset": []}], 31119),
    ],
    ids=repr,
)
def test_a_wrong_pipeline_is_refused_with_mongodb_s_code(stages, code):
    with pytest.raises(MongoError) as refused:
        run(stages)

    assert code == refused.value.code


def test_a_pipeline_of_stages_that_work_on_one_document_can_be_applied_to_one():
    pipeline = Pipeline(
        [{"$match": {"a": 1}}, {"$set": {"b": {"$add": ["$a", "$$more"]}}}], Setting(variables={"more": 2})
    )

    assert pipeline.is_of_one
    assert {"a": 1, "b": 3} == pipeline.apply({"a": 1})
    assert pipeline.apply({"a": 2}) is None


def test_stages_that_are_not_allowed_are_refused_with_the_code_of_the_caller():
    with pytest.raises(MongoError) as refused:
        Pipeline([{"$set": {"a": 1}}, {"$group": {"_id": 1}}], allowed=UPDATE_STAGES, refusal=72)

    assert 72 == refused.value.code


def test_a_sort_that_holds_too_much_says_so():
    setting = Setting(max_memory_bytes=10_000)

    with pytest.raises(MongoError) as refused:
        list(Pipeline([{"$sort": {"a": 1}}], setting).run({"a": "x" * 1_000} for _ in range(100)))

    assert 292 == refused.value.code


def test_documents_are_read_as_they_are_asked_for():
    read = []

    def documents():
        for number in range(1_000):
            read.append(number)
            yield {"n": number}

    made = Pipeline([{"$match": {"n": {"$gte": 2}}}, {"$limit": 1}]).run(documents())

    assert [{"n": 2}] == list(made)
    assert [0, 1, 2] == read


def test_a_document_is_never_changed():
    document = {"_id": 1, "a": {"b": 1}, "list": [{"x": 1}]}
    stages = [{"$set": {"a.c": 2, "list.y": 3}}, {"$unset": "a.b"}, {"$project": {"a": 1, "list.x": 1}}]

    made = Pipeline(stages).apply(document)

    assert {"_id": 1, "a": {"c": 2}, "list": [{"x": 1}]} == made
    assert {"_id": 1, "a": {"b": 1}, "list": [{"x": 1}]} == document


@pytest.mark.parametrize(
    "names",
    [OPERATORS, STAGES, ACCUMULATORS, WINDOW_FUNCTIONS],
    ids=["operators", "stages", "accumulators", "windows"],
)
def test_every_name_is_on_the_page_of_aggregation(names):
    page = (ROOT / "docs/reference/mongodb-aggregation.md").read_text(encoding="utf-8")

    assert set() == {name for name in names if f"`{name}`" not in page}
