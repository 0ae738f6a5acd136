"""Indexes of collections: what they lead to, what they refuse, and what expires."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import nan
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import reactdb
from reactdb import Database
from tests.support.scaling import examples

pytest.importorskip("pymongo")

from bson import Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from pymongo import IndexModel
from pymongo.errors import DuplicateKeyError, OperationFailure

from reactdb.dialects.mongodb import MongoError, index_keys, index_walk, natives, query_plan
from reactdb.dialects.mongodb.bson_order import compare
from reactdb.dialects.mongodb.filters import Filter
from reactdb.dialects.mongodb.find import FilterSelection
from reactdb.dialects.mongodb.ids import IdValue
from reactdb.dialects.mongodb.index_walk import walk_of
from reactdb.dialects.mongodb.indexes import indexes_of
from reactdb.dialects.mongodb.native_filters import native_conditions
from reactdb.dialects.mongodb.sort import Order
from reactdb.dialects.mongodb.values import native_value, normalise
from reactdb.expression import call, fields_read, row
from reactdb.session import session_of
from reactdb.store import expiry
from reactdb.store.expirer import expirer
from reactdb.values import collation
from tests.support.threads import wait_until


@pytest.fixture
def db() -> Iterator[Database]:
    with reactdb.connect(":memory:") as opened:
        yield opened


@pytest.fixture
def orders(db: Database) -> Any:
    return reactdb.mongodb(db)["shop"]["orders"]


# ---------------------------------------------------------------------------------------------------------------
# Keys

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-3, 3).map(Int64),
    st.floats(allow_nan=True),
    st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-9, max_value=9).map(Decimal128),
    st.text(max_size=3),
    st.datetimes(datetime(1, 1, 1), datetime(9999, 1, 1)),
    st.binary(min_size=12, max_size=12).map(ObjectId),
    st.sampled_from([MinKey(), MaxKey(), Timestamp(1, 2), Regex("a"), b"\x01"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(scalars, scalars)
@settings(max_examples=examples(300), deadline=None)
def test_key_bytes_sort_as_bson_does(left: Any, right: Any) -> None:
    left, right = (normalise({"": one})[""] for one in (left, right))
    one, other = (index_keys.value_bytes(native_value(value)) for value in (left, right))
    expected = compare(left, right)
    assert (one > other) - (one < other) == expected


numbers = st.one_of(
    st.integers(-2, 2), st.sampled_from([0.0, -0.0, 1.0, Int64(1), Decimal128("1"), Decimal128("1.0")])
)
documents = st.fixed_dictionaries({}, optional={"a": values | numbers, "b": scalars | numbers, "c": values})
OTHER_NAN = struct.unpack("<d", bytes.fromhex("010000000000f8ff"))[0]
comparisons = st.sampled_from(["$eq", "$gt", "$gte", "$lt", "$lte"])
conditions = st.one_of(
    values,
    numbers,
    st.lists(numbers, max_size=2).map(lambda found: {"$in": found}),
    st.builds(lambda operator, value: {operator: value}, comparisons, scalars),
    st.builds(lambda low, high: {"$gt": low, "$lt": high}, scalars, scalars),
    st.lists(scalars, max_size=3).map(lambda found: {"$in": found}),
    st.sampled_from(
        [None, {"$exists": True}, {"$exists": False}, {"$ne": None}, {"$gt": 0, "$exists": True}]
    ),
)
alone = st.dictionaries(st.sampled_from(["a", "b", "a.b", "c.a", "_id"]), conditions, min_size=1, max_size=3)
filters = st.recursive(
    alone,
    lambda inner: st.builds(
        lambda name, parts, beside: {**beside, name: parts},
        st.sampled_from(["$or", "$or", "$and"]),
        st.lists(inner, min_size=1, max_size=3),
        st.just({}) | alone,
    ),
    max_leaves=4,
)


@given(st.lists(documents, max_size=12), st.lists(filters, min_size=1, max_size=6))
@example([{"c": []}, {"c": [1]}, {"c": [{}]}], [{"c.a": {"$ne": None}}, {"c.a": None}])
@settings(max_examples=examples(150), deadline=None)
def test_an_index_never_changes_an_answer(stored: list[dict[str, Any]], asked: list[dict[str, Any]]) -> None:
    with reactdb.connect(":memory:") as db:
        shop = reactdb.mongodb(db)["shop"]
        for name in ("plain", "indexed"):
            for number, document in enumerate(stored):
                shop[name].insert_one({"_id": number, **document})
        shop["indexed"].create_indexes(
            [
                IndexModel("a"),
                IndexModel([("b", -1), ("a", 1)]),
                IndexModel("a.b"),
                IndexModel("c.a", sparse=True),
                IndexModel([("c.a", 1), ("b", 1)], sparse=True),
            ]
        )
        for spec in asked:
            try:
                expected = list(shop["plain"].find(spec))
            except OperationFailure:
                continue
            assert repr(list(shop["indexed"].find(spec))) == repr(expected)


orders_asked = st.none() | st.sampled_from(
    [
        [("a", 1)],
        [("a", -1)],
        [("b", -1), ("a", -1)],
        [("b", 1), ("a", 1)],
        [("b", 1)],
        [("a", 1), ("b", 1)],
        [("a.b", 1)],
    ]
)
singles = st.fixed_dictionaries({}, optional={"a": scalars | numbers, "b": scalars | numbers, "c": scalars})


@given(
    st.lists(documents, max_size=12) | st.lists(singles, max_size=12),
    st.lists(
        st.tuples(st.just({}) | filters, orders_asked, st.integers(0, 2), st.integers(1, 6)), max_size=6
    ),
)
@example([{"a": [1, 10]}, {"a": 6}, {"a": 7}], [({"a": {"$gt": 5}}, [("a", 1)], 0, 1)])
@example([{"a": {}}, {"a": {"b": 1}}, {"a": {"a": 2}}], [({}, [("a", 1)], 0, 3)])
@example([{"a": 1, "b": 2}, {"a": 1, "b": 1}], [({"b": {"$gt": 0, "$lt": 2}}, None, 0, 1)])
@settings(max_examples=examples(300), deadline=None)
def test_the_first_documents_are_those_of_all(
    stored: list[dict[str, Any]], asked: list[tuple[Any, Any, int, int]]
) -> None:
    with reactdb.connect(":memory:") as db:
        collection = reactdb.mongodb(db)["shop"]["orders"]
        for number, document in enumerate(stored):
            collection.insert_one({"_id": number, **document})
        collection.create_indexes(
            [IndexModel("a"), IndexModel([("b", 1), ("a", -1)]), IndexModel("a.b", sparse=True)]
        )
        for spec, order, skip, limit in asked:
            try:
                everything = list(collection.find(spec))
            except OperationFailure:
                continue
            found = list(collection.find(spec, sort=order).skip(skip).limit(limit))
            assert len(found) == min(limit, max(0, len(everything) - skip))
            ids = [one["_id"] for one in found]
            assert len(set(ids)) == len(ids)
            assert {*ids} <= {one["_id"] for one in everything}
            if order is not None:
                places = Order(dict(order))
                expected = places.sorted(everything)[skip : skip + limit]
                assert [places.key(one) for one in found] == [places.key(one) for one in expected]


def walk_for(db: Database, spec: dict[str, Any], order: dict[str, int] | None = None) -> Any:
    with session_of(db).read() as now:
        table = now.table("shop.orders")
        assert table is not None
        return walk_of(now.catalogue, table, FilterSelection(spec), None if order is None else Order(order))


def test_of_a_range_no_more_is_read_than_is_asked_for(
    db: Database, orders: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.insert_many([{"_id": n, "user": n % 3, "at": 2_000 - n} for n in range(2_000)])
    orders.create_indexes([IndexModel("at"), IndexModel([("user", 1), ("at", -1)])])
    read = []
    decode = index_walk.document_of
    monkeypatch.setattr(
        index_walk, "document_of", lambda table, body: read.append(body) or decode(table, body)
    )

    def asked(spec: dict[str, Any], limit: int = 2, **options: Any) -> tuple[list[int], int]:
        read.clear()
        found = [one["_id"] for one in orders.find(spec, limit=limit, **options)]
        return found, len(read)

    assert asked({"at": {"$gt": 100}}) == ([1899, 1898], 3)
    assert asked({"at": {"$gt": 100}}, sort=[("at", -1)]) == ([0, 1], 2)
    assert asked({}, sort=[("at", 1)], skip=5) == ([1994, 1993], 2)
    assert asked({}, sort=[("at", 1)], skip=1_500) == ([499, 498], 2)
    assert asked({}, sort=[("at", -1)], skip=1_998) == ([1998, 1999], 2)
    assert asked({}, sort=[("at", -1)], skip=2_000) == ([], 0)
    assert asked({"at": {"$gt": 100}}, sort=[("at", 1)], skip=5) == ([1894, 1893], 8)
    assert asked({"user": 1}, sort={"at": -1}) == ([1, 4], 2)
    assert asked({"user": 1, "at": {"$lt": 50, "$gte": 49}}, 5) == ([1951], 1)
    assert orders.find_one({"at": {"$lt": 50}})["_id"] == 1999
    # No index has these orders, nor would one be read as a whole where another leads to less.
    for spec, order in (
        ({}, {"at": 1, "_id": 1}),
        ({}, {"user": 1, "at": -1}),
        ({"user": 1}, {"user": 1, "x": 1}),
    ):
        assert walk_for(db, spec, order) is None
    assert walk_for(db, {"user": 1}, {"at": 1}).by.key == ["user", "at"]
    assert walk_for(db, {"user": {"$in": [1, 2]}}, {"at": 1}) is None
    assert walk_for(db, {"x": 1}, {"at": 1}).by.key == ["at"]
    # An array has several places, and one of them is that of sorting.
    orders.insert_one({"_id": -1, "user": 1, "at": [0, 500]})
    assert asked({"at": {"$gt": 499}}, 1, sort={"at": 1}) == ([-1], 0)
    assert asked({"at": {"$gt": 499}}, 1)[1] == 2
    orders.delete_one({"_id": -1})
    assert asked({"at": {"$gt": 499}}, 1, sort={"at": 1})[1] == 2


def test_an_index_that_has_no_marks_gives_no_order(db: Database, orders: Any) -> None:
    orders.insert_many([{"_id": 1, "a": [1, 9]}, {"_id": 2, "a": 5}, {"_id": 3, "a": 6}])
    constant = {
        "name": "a_1",
        "key": {"a": 1},
        "paths": [["a"]],
        "partial": None,
        "expires": None,
        "primary_key": "_id",
    }
    constant |= dict.fromkeys(("unique", "sparse", "hidden"), False)
    db.table("shop.orders").index_create("a_1", call(index_keys.OPERATION, row, constant), multi=True)
    assert [one["_id"] for one in orders.find({"a": {"$gt": 2}}, sort={"a": 1}, limit=1)] == [1]
    assert [one["_id"] for one in orders.find({"a": {"$gt": 2, "$lt": 7}}, limit=5)] == [2, 3, 1]


@given(st.lists(documents, max_size=12), st.lists(filters, min_size=1, max_size=6))
@example([{"a": 0.0}], [{"a": -0.0}, {"a": {"$in": [-0.0]}}])
@example([{"a": 0}, {"a": -0.0}, {"a": [0.0]}], [{"a": 0}, {"a": 0.0}, {"a": Int64(0)}])
@example([{"a": OTHER_NAN}, {"a": nan}], [{"a": nan}, {"a": OTHER_NAN}, {"a": {"$in": [nan, 1]}}])
@settings(max_examples=examples(150), deadline=None)
def test_what_is_found_is_what_the_filter_matches(
    stored: list[dict[str, Any]], asked: list[dict[str, Any]]
) -> None:
    with reactdb.connect(":memory:") as db:
        collection = reactdb.mongodb(db)["shop"]["orders"]
        for number, document in enumerate(stored):
            collection.insert_one({"_id": number, **document})
        everything = list(collection.find())
        for spec in asked:
            try:
                wanted = Filter(normalise(spec))
            except MongoError:
                continue
            assert repr(list(collection.find(spec))) == repr(
                [one for one in everything if wanted.matches(one)]
            )


@given(st.lists(documents, min_size=2, max_size=5), filters)
@settings(max_examples=examples(150), deadline=None)
def test_an_index_follows_updates(versions: list[dict[str, Any]], spec: dict[str, Any]) -> None:
    with reactdb.connect(":memory:") as db:
        shop = reactdb.mongodb(db)["shop"]
        paths = [IndexModel("a"), IndexModel([("b", -1), ("a", 1)]), IndexModel("c.a", sparse=True)]
        shop["indexed"].create_indexes(paths)
        for version in versions:
            for name in ("plain", "indexed"):
                shop[name].replace_one({"_id": 1}, version, upsert=True)
            try:
                expected = list(shop["plain"].find(spec))
            except OperationFailure:
                continue
            assert repr(list(shop["indexed"].find(spec))) == repr(expected)


def test_what_decides_the_keys_is_known(orders: Any) -> None:
    index = {"paths": [["a", "b"], ["c"]], "partial": None}
    assert fields_read(call(index_keys.OPERATION, row, index)) == {"a", "c"}
    for other in ({**index, "partial": {"n": 1}}, row["a"]):
        assert fields_read(call(index_keys.OPERATION, row, other)) is None


ONES = [1, 1.0, Int64(1), Decimal128("1"), Decimal128("1.00")]


@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize("wanted", [*ONES, {"$in": [7, 1.0]}])
def test_a_number_is_found_in_each_way_that_it_can_be_stored(
    orders: Any, wanted: Any, is_indexed: bool
) -> None:
    if is_indexed:
        orders.create_index("a.b")
    stored = [{"b": one} for one in ONES]
    documents = [*stored, *({"b": [one["b"], 5]} for one in stored), *([{"b": 9}, one] for one in stored)]
    orders.insert_many([{"_id": number, "a": a} for number, a in enumerate(documents)])
    orders.insert_many([{"_id": -1, "a": {"b": 2}}, {"_id": -2, "a": {"b": "1"}}, {"_id": -3}])
    assert orders.distinct("_id", {"a.b": wanted}) == list(range(len(documents)))


@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize(
    ("operator", "expected"),
    [("$lt", [3, 4]), ("$lte", [3, 4, 5]), ("$gt", [6, 7]), ("$gte", [5, 6, 7]), ("$eq", [5])],
)
def test_a_range_ends_where_it_should(
    orders: Any, operator: str, expected: list[int], is_indexed: bool
) -> None:
    if is_indexed:
        orders.create_index([("k", 1), ("a", -1)])
    orders.insert_many([{"_id": n, "k": 1, "a": n} for n in range(3, 8)])
    orders.insert_many([{"_id": -1, "k": 2, "a": 5}, {"_id": -2, "k": 1, "a": "5"}, {"_id": -3, "k": 1}])
    assert orders.distinct("_id", {"k": 1, "a": {operator: 5}}) == expected


@pytest.mark.parametrize("by", ["nothing", "an index", "a native index"])
@pytest.mark.parametrize(
    "value",
    [
        date(2026, 1, 2),
        time(1, 2, 3),
        timedelta(seconds=1.5),
        datetime(2026, 1, 2, microsecond=1_999, tzinfo=UTC),
        datetime(1960, 1, 2, microsecond=1, tzinfo=UTC),
        10**50,
        Decimal("1E+9000"),
        Decimal("5." + 40 * "0" + "1"),
    ],
)
def test_values_that_a_program_wrote_natively_are_found_by_what_they_are_shown_as(
    db: Database, value: Any, by: str
) -> None:
    table = db.table_create("shop.native", primary_key="_id")
    table.insert([{"_id": 1, "a": value}, {"_id": 2, "a": [0, {"b": value}]}, {"_id": 3}])
    collection = reactdb.mongodb(db)["shop"]["native"]
    if by == "an index":
        collection.create_index("a")
        collection.create_index("a.b")
    elif by == "a native index":
        table.index_create("a")
    shown = collection.find_one({"_id": 1})["a"]
    assert collection.distinct("_id", {"a": shown}) == [1]
    assert collection.distinct("_id", {"a": {"$lte": shown, "$gte": shown}}) == [1]
    assert collection.distinct("_id", {"a.b": shown}) == [2]
    table.insert({"_id": 4, "a": [None, value]})
    assert collection.distinct("_id", {"a": shown}) == [1, 4]


def test_a_letter_that_looks_like_a_number_is_no_place_in_an_array(orders: Any) -> None:
    orders.create_index("a.²")
    orders.insert_one({"_id": 1, "a": [{"²": 5}, 7]})
    assert orders.distinct("_id", {"a.²": 5}) == [1]


def is_scan(chosen: query_plan.ReadPlan) -> bool:
    return chosen.keys is None and chosen.by is None and not chosen.parts


def test_an_equality_is_read_from_an_index(db: Database, orders: Any) -> None:
    orders.insert_many([{"_id": n, "a": n % 10, "b": n} for n in range(100)])
    orders.create_index([("a", 1), ("b", 1)])
    indexes = indexes_of(session_of(db).info("shop.orders"))
    chosen = query_plan.plan({"a": 3, "b": {"$gte": 50}}, indexes)
    assert chosen.by is indexes[0].info
    assert chosen.ranges is not None
    assert is_scan(query_plan.plan({"b": 3}, indexes))
    assert is_scan(query_plan.plan({"a": [3]}, indexes))
    assert is_scan(query_plan.plan({"a": "x"}, indexes, has_collation=True))
    assert [one["_id"] for one in orders.find({"a": 3, "b": {"$gte": 80}})] == [83, 93]


def test_null_and_what_is_missing_are_read_from_an_index(db: Database, orders: Any) -> None:
    orders.insert_many([{"_id": n} if n % 10 else {"_id": n, "a": n, "b": 1} for n in range(100)])
    orders.insert_many(
        [{"_id": 100, "a": None, "b": 2}, {"_id": 101, "a": [], "b": 1}, {"_id": 102, "a": [None]}]
    )
    orders.create_indexes([IndexModel("a"), IndexModel([("b", 1), ("a", 1)], sparse=True)])
    plain, sparse = indexes_of(session_of(db).info("shop.orders"))

    def chosen(spec: dict[str, Any], *indexes: Any) -> query_plan.ReadPlan:
        return query_plan.plan(spec, indexes)

    for spec in ({"a": None}, {"a": {"$exists": False}}, {"a": {"$in": [None, 5]}}, {"a": {"$ne": None}}):
        assert chosen(spec, plain).by is plain.info
    assert is_scan(chosen({"a": {"$exists": True}}, plain))
    # What has neither field is not in the sparse one.
    for spec in ({"b": None}, {"b": {"$exists": False}}, {"a": 5}, {"b": None, "a": None}):
        assert is_scan(chosen(spec, sparse))
    for spec in ({"b": {"$exists": True}}, {"b": {"$ne": None}}, {"b": None, "a": 5}, {"b": 1, "a": None}):
        assert chosen(spec, sparse).by is sparse.info
    assert [one["_id"] for one in orders.find({"a": None, "b": {"$exists": True}})] == [100]
    assert [one["_id"] for one in orders.find({"a": {"$ne": None}, "_id": {"$gte": 80}})] == [80, 90, 101]
    assert orders.count_documents({"a": None}) == 92
    assert orders.count_documents({"a": {"$exists": False}}) == 90
    assert orders.distinct("_id", {"b": {"$exists": True}, "_id": {"$gt": 90}}) == [100, 101]


def test_a_choice_is_read_from_what_serves_its_parts(db: Database, orders: Any) -> None:
    orders.insert_many([{"_id": n, "a": n % 10, "b": n, "c": n} for n in range(100)])
    orders.create_index("a")
    db.table("shop.orders").index_create("b")
    info = session_of(db).info("shop.orders")
    own, native = indexes_of(info)[0].info, info.indexes["b"]

    def chosen(spec: dict[str, Any]) -> query_plan.ReadPlan:
        return query_plan.plan(spec, indexes_of(info), info)

    one = chosen({"$or": [{"a": 3}, {"a": {"$in": [4, 3]}}, {"$and": [{"a": None}]}]})
    assert (one.by, len(one.ranges), one.parts) == (own, 3, ())
    parts = chosen({"$or": [{"a": 3}, {"b": 5}, {"_id": {"$in": [7, 8]}}, {"_id": {"$gt": 98}}]}).parts
    assert [(part.by, part.keys is None) for part in parts] == [
        (own, True),
        (native, True),
        (None, True),
        (None, False),
    ]
    # What holds beside serves a part that says nothing itself.
    assert chosen({"a": 3, "$or": [{"b": 5}, {"c": 6}]}).by is own
    assert chosen({"b": {"$gt": 3}, "$or": [{"a": 5, "c": 1}, {"a": 6}]}).by is own
    assert chosen({"$or": [{"$or": [{"a": 5}, {"a": 6}]}, {"a": {"$gt": 8}}]}).by is own
    for spec in ({"$or": [{"a": 5}, {"c": 1}]}, {"$nor": [{"a": 5}]}, {"$or": [{"a": {"$ne": 1}}]}):
        assert is_scan(chosen(spec))
        assert not chosen(spec).ranges
    assert [
        one["_id"]
        for one in orders.find({"$or": [{"b": 50}, {"a": 3, "c": {"$lt": 20}}, {"_id": {"$gt": 98}}]})
    ] == [
        3,
        13,
        50,
        99,
    ]
    assert orders.update_many({"$or": [{"b": 50}, {"_id": 1}]}, {"$set": {"c": -1}}).matched_count == 2
    assert orders.count_documents({"$or": [{"a": None}, {"_id": {"$lt": 2}}]}) == 2


def test_native_indexes_and_the_primary_key_serve_where_no_other_index_does(
    db: Database, orders: Any
) -> None:
    orders.insert_many([{"_id": n, "a": n % 10, "b": n} for n in range(100)])
    table = db.table("shop.orders")
    table.index_create("b")
    table.index_create("each", lambda order: order["c"], multi=True)
    info = session_of(db).info("shop.orders")

    def chosen(spec: dict[str, Any], **options: Any) -> query_plan.ReadPlan:
        return query_plan.plan(spec, indexes_of(info), info, **options)

    assert chosen({"b": 3}).by is info.indexes["b"]
    assert chosen({"b": {"$in": [3, "x"]}, "_id": {"$gt": 5}}).by is info.indexes["b"]
    key = chosen({"b": {"$gt": 3}, "_id": {"$gt": 5, "$lt": 8}})
    assert key.by is None
    assert key.ranges
    assert chosen({"c": 3}).by is info.indexes["each"]
    for spec in ({"b": None}, {"b": {"$ne": 3}}, {"b.c": 3}, {"a": 3}, {"c": None}, {"b": MinKey()}):
        assert is_scan(chosen(spec))
        assert not chosen(spec).ranges
    assert is_scan(chosen({"b": "x"}, has_collation=True))
    orders.create_index([("b", 1), ("a", 1)])
    info = session_of(db).info("shop.orders")
    assert chosen({"b": 3}).by is indexes_of(info)[0].info

    assert [one["_id"] for one in orders.find({"_id": {"$gte": 97}})] == [97, 98, 99]
    assert orders.update_many({"_id": {"$lt": 3}}, {"$set": {"a": "seen"}}).matched_count == 3
    assert orders.count_documents({"_id": {"$gt": 1, "$lt": 1.5}}) == 0


def test_native_indexes_of_several_fields_and_of_elements_serve(db: Database, orders: Any) -> None:
    orders.insert_many([{"_id": n, "a": n % 10, "b": n, "c": [n, -n, "x"]} for n in range(100)])
    orders.insert_many(
        [{"_id": 100, "a": 3}, {"_id": 101, "a": [3, 4], "b": None}, {"_id": 102, "a": 3, "b": {}}]
    )
    table = db.table("shop.orders")
    table.index_create("both", [row["a"], row["b"]])
    table.index_create("each", row["c"], multi=True)
    table.index_create("inner", row["d"]["e"])
    info = session_of(db).info("shop.orders")

    def by(spec: dict[str, Any]) -> str | None:
        chosen = query_plan.plan(spec, (), info)
        return None if chosen.by is None else chosen.by.name

    for spec in (
        {"a": 3, "b": 5},
        {"a": {"$in": [3, 4]}, "b": {"$exists": True}},
        {"a": {"$gt": 8}, "b": {"$ne": None}},
    ):
        assert by(spec) == "both"
    # What has only one of the fields is not there.
    for spec in ({"a": 3}, {"b": 3}, {"a": 3, "b": None}, {"a": 3, "b": {"$ne": 5}}, {"d.e": 5}):
        assert by(spec) is None
    assert by({"c": "x"}) == by({"c": {"$gt": 5, "$lt": 3}}) == "each"
    assert orders.distinct("_id", {"a": 3, "b": {"$exists": True}, "_id": {"$gte": 80}}) == [83, 93, 101, 102]
    assert orders.distinct("_id", {"a": 3, "b": {"$exists": True}}) == [*range(3, 100, 10), 101, 102]
    assert orders.distinct("_id", {"a": {"$gte": 9}, "b": {"$lt": 20}}) == [9, 19]
    # A range of numbers is a little wider than it says; one of texts ends with what the second field has.
    orders.insert_many([{"_id": 200 + n, "a": "text", "b": n} for n in range(3)])
    assert orders.distinct("_id", {"a": "text", "b": {"$exists": True}}) == [200, 201, 202]
    assert orders.distinct("_id", {"c": {"$gt": 98, "$lt": -98}}) == [99]
    assert orders.find({"c": 7}).explain()["queryPlanner"]["winningPlan"]["inputStage"]["keyPattern"] == {
        "c": 1
    }
    both = orders.find({"a": 7, "b": 7}).explain()["queryPlanner"]["winningPlan"]["inputStage"]
    assert both["keyPattern"] == {"a": 1, "b": 1}


@pytest.mark.parametrize(
    ("spec", "document"),
    [
        ({"_id": {"$gt": 5}}, {"_id": IdValue(float("inf"))}),
        ({"a": {"$in": [5, "x"]}}, {"_id": 1, "a": [[], "x"]}),
        ({"a": {"$gt": "a"}}, {"_id": 1, "a": "b"}),
        ({"a": {"$lte": False}}, {"_id": 1, "a": False}),
        ({"a": {"$lt": datetime(2026, 1, 1)}}, {"_id": 1, "a": natives.DateMs(-(10**15))}),
        ({"a": {"$lt": ObjectId(b"b" * 12)}}, {"_id": 1, "a": natives.ObjectId(b"a" * 12)}),
        ({"a": 1, "b": {"$exists": True}}, {"_id": 1, "a": Decimal("1.0"), "b": 1}),
    ],
)
def test_native_ranges_lead_to_what_the_filter_matches(spec: Any, document: Any) -> None:
    (native,) = native_conditions(query_plan.conditions_of(spec))

    def is_led_to(value: Any) -> bool:
        data = collation.key_bytes(value)
        return any(start <= data < stop for start, stop in native.ranges())

    assert is_led_to(document[native.field])
    assert not is_led_to(None)


@pytest.mark.parametrize(
    "spec",
    [
        {"a": None},
        {"a": {"$in": [5, None]}},
        {"a.b": 5},
        {"a": {"$ne": 5}},
        {"a": {"$not": {"$eq": 5}}},
        {"a": [5]},
        {"a": {"b": 5}},
        {"a": Regex("x")},
        {"a": float("nan")},
        {"a": {"$gt": b"x"}},
    ],
)
def test_where_the_native_order_is_another_one_nothing_is_said(spec: Any) -> None:
    assert [] == native_conditions(query_plan.conditions_of(spec))


def test_native_writes_keep_the_index(db: Database, orders: Any) -> None:
    orders.create_index("a")
    db.table("shop.orders").insert({"_id": 5, "a": [1, 2]})
    assert [one["_id"] for one in orders.find({"a": 2})] == [5]
    db.table("shop.orders").get(5).delete()
    assert list(orders.find({"a": 2})) == []


# ---------------------------------------------------------------------------------------------------------------
# Unique ones


def test_a_unique_index_refuses_a_second_document(orders: Any) -> None:
    orders.create_index("email", unique=True)
    orders.insert_one({"_id": 1, "email": "a"})
    with pytest.raises(DuplicateKeyError) as refused:
        orders.insert_one({"_id": 2, "email": "a"})
    assert refused.value.details is not None
    assert refused.value.details["keyPattern"] == {"email": 1}
    assert refused.value.details["keyValue"] == {"email": "a"}
    assert 'index: email_1 dup key: { email: "a" }' in str(refused.value)
    orders.insert_one({"_id": 2, "email": "b"})
    with pytest.raises(DuplicateKeyError):
        orders.update_one({"_id": 2}, {"$set": {"email": "a"}})
    with pytest.raises(DuplicateKeyError):
        orders.find_one_and_replace({"_id": 2}, {"email": "a"})
    with pytest.raises(DuplicateKeyError):
        orders.update_one({"_id": 3}, {"$set": {"email": "a"}}, upsert=True)
    orders.update_one({"_id": 1}, {"$set": {"email": "a", "n": 1}})
    orders.delete_one({"_id": 1})
    orders.update_one({"_id": 2}, {"$set": {"email": "a"}})
    assert list(orders.find()) == [{"_id": 2, "email": "a"}]


def test_a_missing_field_is_null_once(orders: Any) -> None:
    orders.create_index("a", unique=True)
    orders.insert_one({"_id": 1})
    with pytest.raises(DuplicateKeyError):
        orders.insert_one({"_id": 2, "a": None})
    orders.insert_one({"_id": 3, "a": []})


def test_a_sparse_index_leaves_out_what_has_no_such_field(orders: Any) -> None:
    orders.create_index("a", unique=True, sparse=True)
    orders.insert_many([{"_id": 1}, {"_id": 2}, {"_id": 3, "a": 1}])
    with pytest.raises(DuplicateKeyError):
        orders.insert_one({"a": 1.0})


def test_a_partial_index_leaves_out_what_its_filter_does(orders: Any) -> None:
    orders.create_index("a", unique=True, partialFilterExpression={"n": {"$gt": 0}})
    orders.insert_many([{"a": 1, "n": 0}, {"a": 1, "n": 0}, {"a": 1, "n": 1}])
    with pytest.raises(DuplicateKeyError):
        orders.insert_one({"a": 1, "n": 2})


def test_elements_of_arrays_are_keys_of_their_own(orders: Any) -> None:
    orders.create_index("tags", unique=True)
    orders.insert_one({"_id": 1, "tags": ["a", "b", "a"]})
    with pytest.raises(DuplicateKeyError) as refused:
        orders.insert_one({"_id": 2, "tags": ["c", "b"]})
    assert refused.value.details is not None
    assert refused.value.details["keyValue"] == {"tags": "b"}


def test_a_unique_index_is_not_made_over_duplicates(orders: Any) -> None:
    orders.insert_many([{"a": 1}, {"a": 1}])
    with pytest.raises(DuplicateKeyError):
        orders.create_index("a", unique=True)
    assert list(orders.index_information()) == ["_id_"]


def test_many_documents_with_a_unique_index(orders: Any) -> None:
    orders.create_index("a", unique=True)
    orders.insert_many([{"a": n} for n in range(20)])
    with pytest.raises(OperationFailure):
        orders.insert_many([{"a": 20}, {"a": 20}])
    assert orders.count_documents({}) == 21


# ---------------------------------------------------------------------------------------------------------------
# Making, listing, dropping


def test_indexes_are_listed_as_they_were_made(orders: Any) -> None:
    assert orders.create_index([("a", 1), ("b", -1)]) == "a_1_b_-1"
    assert orders.create_index("c", name="own", expireAfterSeconds=10) == "own"
    assert orders.create_indexes([IndexModel("d"), IndexModel("e", unique=True)]) == ["d_1", "e_1"]
    assert orders.create_index("d") == "d_1"
    assert orders.index_information() == {
        "_id_": {"v": 2, "key": [("_id", 1)]},
        "a_1_b_-1": {"v": 2, "key": [("a", 1), ("b", -1)]},
        "own": {"v": 2, "key": [("c", 1)], "expireAfterSeconds": 10},
        "d_1": {"v": 2, "key": [("d", 1)]},
        "e_1": {"v": 2, "key": [("e", 1)], "unique": True},
    }
    orders.drop_index("own")
    orders.drop_index([("d", 1)])
    assert list(orders.index_information()) == ["_id_", "a_1_b_-1", "e_1"]
    orders.drop_indexes()
    assert list(orders.index_information()) == ["_id_"]


def test_the_index_of_a_clustered_collection_is_listed_as_that(orders: Any) -> None:
    shop = orders.database
    clustered = {"key": {"_id": 1}, "unique": True, "name": "by id"}
    made = shop.create_collection("clustered", clusteredIndex=clustered)
    made.insert_many([{"_id": 2}, {"_id": 1}])

    assert list(made.list_indexes()) == [{"v": 2, **clustered, "clustered": True}]
    assert made.options() == {"clusteredIndex": {"v": 2, **clustered}}
    assert [one["_id"] for one in made.find().hint("by id")] == [1, 2]


@pytest.mark.parametrize(
    ("key", "options", "code"),
    [
        ({"a": 0}, {}, 67),
        ({"a": "text"}, {}, 67),
        ({"a": "2dsphere"}, {}, 67),
        ({"a": 1}, {"wrong": 1}, 197),
        ({"a": 1, "b": 1}, {"expireAfterSeconds": 1}, 67),
        ({"a": 1}, {"expireAfterSeconds": -1}, 67),
        ({"a": 1}, {"sparse": True, "partialFilterExpression": {}}, 67),
        ({"a": 1}, {"name": "*"}, 2),
        ({"c": 1}, {"unique": True, "name": "c_1"}, 86),
        ({"c": 1}, {"expireAfterSeconds": 5, "name": "c_1"}, 85),
        ({"b": 1}, {"unique": "x"}, 14),
        ({"b": 1}, {"hidden": 1}, 14),
        ({"_id": 1}, {"sparse": True}, 197),
        ({"_id": 1}, {"expireAfterSeconds": 5}, 197),
        ({"_id": 1}, {"unique": True}, 197),
        ({"_id": 1}, {"unique": False}, 197),
        ({"_id": 1}, {"background": True}, 197),
        ({"_id": 1}, {"sparse": False}, 197),
        ({"$**": 1}, {"unique": True}, 67),
        ({"b": 1}, {"partialFilterExpression": {"b": {"$ne": 1}}}, 67),
        ({"b": 1}, {"partialFilterExpression": {"b": {"$exists": False}}}, 67),
        ({"b": 1}, {"partialFilterExpression": {"$or": [{"b": 1}, {"$nor": [{"b": 2}]}]}}, 67),
        ({"b": 1}, {"name": "c_1"}, 86),
        ({"c": 1}, {"name": "other"}, 85),
    ],
)
def test_an_index_that_cannot_be_is_refused(
    orders: Any, key: Any, options: dict[str, Any], code: int
) -> None:
    orders.create_index("c")
    with pytest.raises(OperationFailure) as refused:
        orders.create_index(key, **options)
    assert refused.value.code == code


def test_the_index_of_ids_may_be_asked_for_as_it_is(orders: Any) -> None:
    assert "own" == orders.create_index("_id", name="own")
    assert "_id_1" == orders.create_index("_id", hidden=False)
    assert "_id_" == orders.create_index("_id", name="_id_", unique=True, clustered=True)
    assert ["_id_"] == list(orders.index_information())


def test_an_index_of_nothing_is_refused(orders: Any) -> None:
    with pytest.raises(OperationFailure) as caught:
        orders.database.command("createIndexes", orders.name, indexes=[{"key": {}, "name": "nothing"}])
    assert 67 == caught.value.code


def test_an_index_that_is_not_there_cannot_be_dropped(orders: Any) -> None:
    # PyMongo takes MongoDB's refusal for an answer where there is no collection.
    orders.drop_index("a_1")
    with pytest.raises(OperationFailure) as refused:
        orders.database.command("dropIndexes", orders.name, index="a_1")
    assert refused.value.code == 26
    orders.insert_one({})
    with pytest.raises(OperationFailure) as refused:
        orders.drop_index("a_1")
    assert refused.value.code == 27
    with pytest.raises(OperationFailure) as refused:
        orders.drop_index("_id_")
    assert refused.value.code == 72


def test_names_that_the_store_cannot_have(orders: Any) -> None:
    orders.insert_one({"_id": 1, "ä b": 5})
    assert orders.create_index("ä b") == "ä b_1"
    assert orders.create_index([("$**", 1)]) == "$**_1"
    assert orders.find_one({"ä b": 5}) == {"_id": 1, "ä b": 5}
    orders.drop_index("ä b_1")
    assert list(orders.index_information()) == ["_id_", "$**_1"]


# ---------------------------------------------------------------------------------------------------------------
# Expiry


def test_documents_expire_when_they_are_swept(
    db: Database, orders: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reactdb.dialects.mongodb.ttl_sweep import sweep

    monkeypatch.setattr(expirer, "watch", lambda engine: None)

    now = datetime(2026, 1, 1, tzinfo=UTC)
    orders.create_index("at", expireAfterSeconds=60)
    orders.insert_many(
        [
            {"_id": "old", "at": now - timedelta(seconds=61)},
            {"_id": "just", "at": now - timedelta(seconds=60)},
            {"_id": "new", "at": now - timedelta(seconds=59)},
            {"_id": "array", "at": [now, now - timedelta(days=1)]},
            {"_id": "text", "at": "2020"},
            {"_id": "none"},
        ]
    )
    assert orders.count_documents({}) == 6
    client = orders.database.client
    assert sweep(client.spaces, orders._namespace, now) == 3
    assert orders.distinct("_id") == ["new", "none", "text"]
    assert sweep(client.spaces, orders._namespace, now) == 0
    assert orders.sweep() == 1


def test_a_sweep_goes_on_until_nothing_is_left(orders: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expirer, "watch", lambda engine: None)
    monkeypatch.setattr(expiry, "MOST_DELETIONS", 2)
    orders.create_index("at", expireAfterSeconds=60)
    orders.insert_many([{"_id": number, "at": datetime(2020, 1, 1)} for number in range(5)])

    assert orders.sweep() == 5
    assert orders.count_documents({}) == 0


def test_documents_expire_by_themselves_with_the_reason(db: Database, orders: Any) -> None:
    orders.create_index("at", expireAfterSeconds=60)
    orders.insert_many([{"_id": "old", "at": [datetime(2020, 1, 1)]}, {"_id": "none"}])

    wait_until(lambda: orders.distinct("_id") == ["none"])
    assert "expiry" == next(change for change in db.log() if change.kind == "delete").origin


def test_a_native_write_expires_by_a_ttl_index(db: Database, orders: Any) -> None:
    orders.create_index("at", expireAfterSeconds=60)
    table = db.table(f"{orders.database.name}.{orders.name}")
    table.insert([{"_id": 1, "at": datetime(2020, 1, 1, tzinfo=UTC)}, {"_id": 2}])

    wait_until(lambda: table.count().run() == 1)


def test_indexes_of_one_key_are_apart_where_they_hold_or_refuse_other_documents(orders: Any) -> None:
    orders.insert_many([{"_id": n, "a": n} for n in range(3)])
    orders.create_index("a")
    orders.create_index("a", name="unique", unique=True)
    orders.create_index("a", name="sparse", sparse=True)
    orders.create_index("a", name="partial", partialFilterExpression={"a": {"$gt": 1}})
    assert ["_id_", "a_1", "partial", "sparse", "unique"] == sorted(orders.index_information())
    with pytest.raises(OperationFailure) as refused:
        orders.insert_one({"a": 1})
    assert 11000 == refused.value.code
    orders.drop_index("unique")
    orders.insert_one({"a": 1})
    assert 2 == len(list(orders.find({"a": 1})))
