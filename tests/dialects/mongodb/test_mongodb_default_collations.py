"""The collation of a collection: what compares by it where a command names none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb.dialects.mongodb.filters import Filter
from tests.support.collators import CASELESS, let_collations_be
from tests.support.scaling import examples

pytest.importorskip("pymongo")

from pymongo import IndexModel, UpdateOne
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure

SIMPLE = {"locale": "simple"}


@pytest.fixture
def db() -> Iterator[reactdb.Database]:
    with reactdb.connect(":memory:") as opened:
        yield opened


@pytest.fixture
def shop(db: reactdb.Database, monkeypatch: pytest.MonkeyPatch) -> Any:
    let_collations_be(monkeypatch)
    return reactdb.mongodb(db)["shop"]


@pytest.fixture
def users(shop: Any) -> Any:
    found = shop.create_collection("users", collation=CASELESS)
    found.insert_many([{"_id": "a", "n": "x"}, {"_id": "b", "n": "X"}, {"_id": "c", "n": "Y"}])
    return found


@pytest.mark.parametrize("is_indexed", [False, True])
def test_reads_compare_by_it_unless_a_command_says_otherwise(users: Any, is_indexed: bool) -> None:
    if is_indexed:
        users.create_index("n")
    assert users.distinct("_id", {"n": "x"}) == ["a", "b"]
    assert users.distinct("n") == ["x", "Y"]
    assert users.distinct("n", collation=SIMPLE) == ["X", "Y", "x"]
    assert [one["_id"] for one in users.find({"n": {"$in": ["X"]}})] == ["a", "b"]
    assert [one["_id"] for one in users.find({"n": "x"}, collation=SIMPLE)] == ["a"]
    assert [one["_id"] for one in users.find(sort=[("n", 1)], limit=2)] == ["a", "b"]
    assert [one["_id"] for one in users.find(sort=[("n", 1)], limit=2, collation=SIMPLE)] == ["b", "c"]
    assert users.find_one({"_id": "A"})["_id"] == "a"
    assert users.find_one({"_id": "A"}, collation=SIMPLE) is None
    assert users.count_documents({"n": {"$lt": "Y"}}) == 2
    assert users.count_documents({"n": {"$lt": "Y"}}, collation=SIMPLE) == 1
    stages = [{"$match": {"n": "x"}}, {"$group": {"_id": "$n", "times": {"$sum": 1}}}]
    assert list(users.aggregate(stages)) == [{"_id": "x", "times": 2}]
    assert list(users.aggregate(stages, collation=SIMPLE)) == [{"_id": "x", "times": 1}]


def test_a_projection_compares_by_it(users: Any) -> None:
    users.update_one({"_id": "a"}, {"$set": {"list": [{"v": "y"}, {"v": "Z"}]}})
    shown = {"list": {"$elemMatch": {"v": "z"}}, "is_x": {"$eq": ["$n", "X"]}, "_id": 0}

    assert {"list": [{"v": "Z"}], "is_x": True} == users.find_one({"_id": "a"}, shown)
    assert {"is_x": False} == users.find_one({"_id": "a"}, shown, collation=SIMPLE)
    changed = users.find_one_and_update({"_id": "a"}, {"$set": {"seen": 1}}, projection=shown)
    assert {"list": [{"v": "Z"}], "is_x": True} == changed


def test_writes_compare_by_it_unless_they_say_otherwise(users: Any) -> None:
    assert users.update_many({"n": "X"}, {"$set": {"seen": 1}}).modified_count == 2
    assert users.update_many({"n": "X"}, {"$set": {"seen": 2}}, collation=SIMPLE).modified_count == 1
    assert users.find_one_and_update({"_id": "C"}, {"$set": {"seen": 3}})["_id"] == "c"
    assert users.bulk_write([UpdateOne({"n": "y"}, {"$set": {"seen": 4}})]).modified_count == 1
    assert users.delete_one({"_id": "A"}, collation=SIMPLE).deleted_count == 0
    assert users.delete_many({"n": "x"}).deleted_count == 2
    users.update_one({"_id": "c"}, {"$set": {"tags": ["U", "v"]}})
    users.update_one({"_id": "c"}, {"$pull": {"tags": "u"}})
    assert users.find_one()["tags"] == ["v"]


def test_a_collection_says_it_and_another_one_has_none(shop: Any, users: Any) -> None:
    assert users.options()["collation"] == CASELESS
    assert "collation" not in shop.create_collection("plain", collation=SIMPLE).options()
    for name in ("plain", "made"):
        shop[name].insert_many([{"n": "x"}, {"n": "X"}])
        assert shop[name].count_documents({"n": "x"}) == 1
    users.rename("people")
    assert shop["people"].count_documents({"n": "x"}) == 2
    shop["people"].drop()
    shop["people"].insert_one({"n": "X"})
    assert shop["people"].count_documents({"n": "x"}) == 0


def test_a_view_has_its_own(shop: Any, users: Any) -> None:
    shop.create_collection("plain_view", viewOn="users", pipeline=[{"$match": {"n": {"$ne": "Y"}}}])
    shop.create_collection("view", viewOn="plain_view", collation=CASELESS)
    assert shop["plain_view"].distinct("_id", {"n": "x"}) == ["a"]
    assert shop["view"].distinct("_id", {"n": "x"}) == ["a", "b"]
    assert shop["view"].distinct("_id", {"n": "x"}, collation=CASELESS) == ["a", "b"]
    for name, other in (("view", SIMPLE), ("plain_view", CASELESS)):
        with pytest.raises(OperationFailure) as refused:
            shop[name].distinct("_id", {"n": "x"}, collation=other)
        assert refused.value.code == 167
    assert [one["_id"] for one in shop["view"].aggregate([{"$match": {"n": "X"}}])] == ["a", "b"]
    assert [one["_id"] for one in shop["plain_view"].aggregate([{"$match": {"n": "X"}}])] == ["b"]


def test_what_is_written_by_a_pipeline_is_found_by_its_own_id(shop: Any, users: Any) -> None:
    source = shop["source"]
    source.insert_many([{"_id": "A", "n": 1}, {"_id": "b", "n": 2}])
    list(source.aggregate([{"$merge": {"into": "users", "whenMatched": "replace"}}]))
    assert list(users.find()) == [
        {"_id": "a", "n": "x"},
        {"_id": "b", "n": 2},
        {"_id": "c", "n": "Y"},
        {"_id": "A", "n": 1},
    ]


def test_a_transaction_sees_that_of_what_it_makes(shop: Any, users: Any) -> None:
    client = shop.client
    with client.start_session() as session, session.start_transaction():
        assert users.count_documents({"n": "X"}, session=session) == 2
        made = shop.create_collection("made", collation=CASELESS, session=session, check_exists=False)
        made.insert_one({"n": "x"}, session=session)
        assert made.update_one({"n": "X"}, {"$set": {"a": 1}}, session=session).matched_count == 1
    assert made.count_documents({"n": "X"}) == 1


# ---------------------------------------------------------------------------------------------------------------
# Indexes


def test_an_index_has_it_unless_it_names_another(users: Any) -> None:
    users.create_indexes([IndexModel("n"), IndexModel("m", collation=SIMPLE)])
    own, other = list(users.list_indexes())[1:]
    # It is listed with all that it does not say.
    assert own["collation"] == CASELESS | own["collation"]
    assert {"caseLevel": False, "numericOrdering": False}.items() <= own["collation"].items()
    assert "collation" not in other


def test_a_unique_index_compares_texts_by_it(shop: Any, users: Any) -> None:
    with pytest.raises(DuplicateKeyError):
        users.create_index("n", unique=True)
    users.delete_one({"_id": "a"})
    users.create_index([("k", 1), ("n", 1)], unique=True)
    with pytest.raises(DuplicateKeyError) as refused:
        users.insert_one({"n": "y"})
    assert refused.value.details is not None
    assert refused.value.details["keyValue"] == {"k": None, "n": "y"}
    users.insert_one({"_id": "d", "k": 1, "n": "y"})
    with pytest.raises(DuplicateKeyError):
        users.update_one({"_id": "d"}, {"$unset": {"k": 1}})
    with pytest.raises(BulkWriteError):
        users.insert_many([{"n": {"deep": ["q"]}}, {"n": {"deep": ["Q"]}}])
    users.update_one({"_id": "d"}, {"$set": {"n": "Y"}})
    users.insert_many([{"k": 1, "n": 5}, {"k": 1, "n": "z"}])
    plain = shop["plain"]
    plain.create_index("n", unique=True)
    plain.insert_many([{"n": "x"}, {"n": "X"}])


names = st.text(st.sampled_from("aAbB"), min_size=1, max_size=2)


@given(st.lists(st.tuples(st.integers(0, 1), names), max_size=8))
@settings(max_examples=examples(100), deadline=None)
def test_of_texts_that_are_equal_a_unique_index_takes_one(keys: list[tuple[int, str]]) -> None:
    with reactdb.connect(":memory:") as db, pytest.MonkeyPatch.context() as patch:
        let_collations_be(patch)
        users = reactdb.mongodb(db)["shop"].create_collection("users", collation=CASELESS)
        users.create_index([("k", 1), ("n", -1)], unique=True)
        taken = set()
        for k, n in keys:
            if (k, n.casefold()) in taken:
                with pytest.raises(DuplicateKeyError):
                    users.insert_one({"k": k, "n": n})
            else:
                users.insert_one({"k": k, "n": n})
                taken.add((k, n.casefold()))
        assert users.count_documents({}) == len(taken)


texts = names | st.integers(0, 1) | st.none()
conditions = st.one_of(
    texts,
    st.lists(texts, max_size=2).map(lambda several: {"$in": several}),
    st.builds(lambda operator, one: {operator: one}, st.sampled_from(["$gt", "$lte", "$ne"]), texts),
)
alone = st.dictionaries(st.sampled_from(["_id", "n", "m"]), conditions, min_size=1, max_size=2)
specs = alone | st.lists(alone, min_size=1, max_size=2).map(lambda parts: {"$or": parts})
stored = st.dictionaries(
    names, st.fixed_dictionaries({"n": texts | st.lists(texts, max_size=2)}, optional={"m": texts})
)


def by_key(document: dict[str, Any]) -> str:
    key: str = document["_id"]
    return key


@given(stored, st.lists(specs, min_size=1, max_size=4), st.booleans(), st.booleans())
@settings(max_examples=examples(150), deadline=None)
def test_what_is_found_is_what_the_filter_matches(
    given: dict[str, Any], asked: list[dict[str, Any]], is_indexed: bool, is_simple: bool
) -> None:
    with reactdb.connect(":memory:") as db, pytest.MonkeyPatch.context() as patch:
        let_collations_be(patch)
        users = reactdb.mongodb(db)["shop"].create_collection("users", collation=CASELESS)
        if is_indexed:
            users.create_indexes([IndexModel("n"), IndexModel([("m", 1), ("n", 1)], sparse=True)])
            db.table("shop.users").index_create("m")
        for key, document in given.items():
            users.insert_one({"_id": key, **document})
        everything = list(users.find())
        for spec in asked:
            wanted = Filter(spec, collation=None if is_simple else CASELESS)
            expected = [one for one in everything if wanted.matches(one)]
            found = list(users.find(spec, collation=SIMPLE if is_simple else None))
            # A range of keys comes in their order, everything else in the order of insertion.
            assert sorted(found, key=by_key) == sorted(expected, key=by_key)
            first = users.find(spec, limit=2, collation=SIMPLE if is_simple else None)
            assert len(list(first)) == min(2, len(expected))


# ---------------------------------------------------------------------------------------------------------------
# What cannot be, and change streams


@pytest.mark.parametrize(
    ("collation", "code"),
    [
        ({"locale": "tst", "strength": 9}, 2),
        ({"strength": 1}, 40414),
        ({"locale": "nowhere"}, 2),
        ({"locale": "tst", "wrong": 1}, 40415),
    ],
)
def test_what_is_no_collation_is_refused(shop: Any, collation: dict[str, Any], code: int) -> None:
    with pytest.raises(OperationFailure) as refused:
        shop.create_collection("users", collation=collation)
    assert refused.value.code == code
    assert shop.list_collection_names() == []


@pytest.mark.parametrize(
    "ask",
    [
        lambda shop: shop.create_collection("users", collation={"locale": "nn", "strength": 4}),
        lambda shop: shop["users"].create_index("n", unique=True, collation={"locale": "nn", "strength": 5}),
    ],
)
def test_without_icu_it_is_refused_with_what_to_install(
    db: reactdb.Database, monkeypatch: pytest.MonkeyPatch, ask: Callable[[Any], Any]
) -> None:
    monkeypatch.setitem(sys.modules, "icu", None)
    with pytest.raises(OperationFailure, match=r"reactdb\[mongodb-icu\]") as refused:
        ask(reactdb.mongodb(db)["shop"])
    assert refused.value.code == 238


def test_a_change_stream_compares_by_code_points_unless_it_says_otherwise(users: Any) -> None:
    match = [{"$match": {"fullDocument.n": "Z"}}]
    with users.watch(match) as plain, users.watch(match, collation=CASELESS) as caseless:
        users.insert_one({"_id": "z", "n": "z"})
        assert plain.try_next() is None
        event = caseless.try_next()
        assert event is not None
        assert event["documentKey"] == {"_id": "z"}


def test_a_collection_that_was_taken_back_leaves_its_collation_to_nobody(
    db: reactdb.Database, shop: Any
) -> None:
    """The next table has its number."""
    with pytest.raises(InterruptedError), db.transaction():
        shop.create_collection("taken", collation=CASELESS)
        shop["taken"].insert_one({"n": "x"})
        assert shop["taken"].count_documents({"n": "X"}) == 1
        raise InterruptedError
    shop["plain"].insert_one({"n": "x"})
    assert shop["plain"].count_documents({"n": "X"}) == 0
