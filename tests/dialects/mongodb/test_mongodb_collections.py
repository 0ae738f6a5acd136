"""Collections in the process: PyMongo's names, arguments and results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import reactdb
from reactdb import Database

pymongo = pytest.importorskip("pymongo")
bson = pytest.importorskip("bson")

from bson import DBRef, Int64, ObjectId  # noqa: E402
from pymongo import DeleteMany, InsertOne, ReplaceOne, ReturnDocument, UpdateMany, UpdateOne  # noqa: E402
from pymongo.errors import (  # noqa: E402
    BulkWriteError,
    CollectionInvalid,
    DuplicateKeyError,
    InvalidName,
    InvalidOperation,
    OperationFailure,
    WriteError,
)


@pytest.fixture
def db() -> Iterator[Database]:
    with reactdb.connect(":memory:") as opened:
        yield opened


@pytest.fixture
def shop(db: Database) -> Any:
    return reactdb.mongodb(db)["shop"]


@pytest.fixture
def orders(shop: Any) -> Any:
    return shop["orders"]


def kinds(db: Database, table: str = "shop.orders") -> list[str]:
    return [change.kind for change in db.log(table=table)]


class TestNames:
    @pytest.mark.parametrize("name", ["", "a b", "a.b", "$a", "a/b", 'a"', "a\0"])
    def test_what_pymongo_refuses_as_a_database_is_refused(self, shop: Any, name: str) -> None:
        with pytest.raises(InvalidName):
            shop.client[name]

    @pytest.mark.parametrize("name", ["", "a..b", ".a", "a.", "a$b", "a\0"])
    def test_what_pymongo_refuses_as_a_collection_is_refused(self, shop: Any, name: str) -> None:
        with pytest.raises(InvalidName):
            shop[name]

    def test_a_name_is_a_text(self, shop: Any) -> None:
        with pytest.raises(TypeError, match="name must be an instance of str"):
            shop[5]
        with pytest.raises(TypeError, match="name must be an instance of str"):
            shop.client[5]

    def test_an_argument_that_find_does_not_have_is_refused(self, orders: Any) -> None:
        with pytest.raises(TypeError, match="projecton"):
            orders.find({}, projecton={"a": 1})


class TestInserting:
    def test_an_inserted_document_is_found_by_its_id(self, orders: Any) -> None:
        document = {"item": "tea", "n": 2}
        result = orders.insert_one(document)
        assert isinstance(result.inserted_id, ObjectId)
        assert document["_id"] == result.inserted_id
        assert orders.find_one(result.inserted_id) == document

    def test_the_id_comes_first(self, orders: Any) -> None:
        orders.insert_one({"item": "tea", "_id": 1})
        assert list(orders.find_one(1)) == ["_id", "item"]

    def test_a_taken_id_is_a_duplicate_key(self, orders: Any) -> None:
        orders.insert_one({"_id": "a"})
        with pytest.raises(DuplicateKeyError) as refused:
            orders.insert_one({"_id": "a", "n": 1})
        assert refused.value.code == 11000
        assert refused.value.details is not None
        assert refused.value.details["keyPattern"] == {"_id": 1}
        assert refused.value.details["keyValue"] == {"_id": "a"}
        assert str(refused.value).startswith(
            'E11000 duplicate key error collection: shop.orders index: _id_ dup key: { _id: "a" }'
        )
        assert orders.find_one("a") == {"_id": "a"}

    def test_many_documents_are_one_commit(self, db: Database, orders: Any) -> None:
        assert orders.insert_many([{"_id": 1}, {"_id": 2}]).inserted_ids == [1, 2]
        assert len({change.commit for change in db.log(table="shop.orders")}) == 1

    @pytest.mark.parametrize(("ordered", "expected"), [(True, [1, 2]), (False, [1, 2, 3])])
    def test_an_ordered_insert_ends_at_the_first_error(
        self, orders: Any, ordered: bool, expected: list[int]
    ) -> None:
        orders.insert_one({"_id": 1})
        with pytest.raises(BulkWriteError) as refused:
            orders.insert_many([{"_id": 2}, {"_id": 1}, {"_id": 3}], ordered=ordered)
        details = refused.value.details
        assert details["nInserted"] == len(expected) - 1
        assert [(error["index"], error["code"], error["op"]) for error in details["writeErrors"]] == [
            (1, 11000, {"_id": 1})
        ]
        assert orders.distinct("_id") == expected

    def test_two_documents_of_one_insert_cannot_have_one_id(self, orders: Any) -> None:
        with pytest.raises(BulkWriteError):
            orders.insert_many([{"_id": 1}, {"_id": 1}])
        assert orders.count_documents({}) == 1

    @pytest.mark.parametrize("id", [None, {"a": 1, "b": [2]}, float("nan"), Int64(5), 1.5, b"x", True])
    def test_ids_of_all_types_are_found(self, orders: Any, id: Any) -> None:
        orders.insert_one({"_id": id, "n": 1})
        found = orders.find_one({"_id": id})
        assert found["n"] == 1
        assert type(found["_id"]) is type(id)

    @pytest.mark.parametrize("id", [[1], bson.Regex("a")])
    def test_an_id_is_neither_an_array_nor_a_regular_expression(self, orders: Any, id: Any) -> None:
        with pytest.raises(WriteError) as refused:
            orders.insert_one({"_id": id})
        assert refused.value.code == 53

    def test_equal_numbers_are_one_id(self, orders: Any) -> None:
        orders.insert_one({"_id": 1})
        with pytest.raises(DuplicateKeyError):
            orders.insert_one({"_id": 1.0})

    def test_what_is_found_is_the_callers_own(self, orders: Any) -> None:
        given = {"_id": 1, "tags": ["a"]}
        orders.insert_one(given)
        given["tags"].append("b")
        orders.find_one(1)["tags"].append("c")
        assert orders.find_one(1) == {"_id": 1, "tags": ["a"]}

    def test_references_are_dbrefs(self, orders: Any) -> None:
        orders.insert_one({"_id": 1, "of": DBRef("people", 7), "all": [{"in": DBRef("people", 8)}]})
        assert orders.find_one(1) == {"_id": 1, "of": DBRef("people", 7), "all": [{"in": DBRef("people", 8)}]}

    @pytest.mark.parametrize("given", [None, 5, [1]])
    def test_what_is_no_document_is_a_type_error(self, orders: Any, given: Any) -> None:
        with pytest.raises(TypeError, match="document must be"):
            orders.insert_one(given)

    def test_insert_many_wants_a_list_with_something_in_it(self, orders: Any) -> None:
        for given in ([], {}, 5):
            with pytest.raises(TypeError, match="non-empty list"):
                orders.insert_many(given)


class TestUpdating:
    def test_an_update_counts_what_matches_and_what_changes(self, orders: Any) -> None:
        orders.insert_many([{"_id": 1, "n": 1}, {"_id": 2, "n": 2}])
        result = orders.update_many({}, {"$set": {"n": 2}})
        assert (result.matched_count, result.modified_count, result.upserted_id) == (2, 1, None)

    def test_a_write_that_changes_nothing_is_not_logged(self, db: Database, orders: Any) -> None:
        orders.insert_one({"_id": 1, "n": 1})
        assert orders.update_one({"_id": 1}, {"$set": {"n": 1}}).modified_count == 0
        assert orders.replace_one({"_id": 1}, {"n": 1}).modified_count == 0
        assert orders.delete_one({"_id": 2}).deleted_count == 0
        assert kinds(db) == ["insert"]

    def test_the_order_of_fields_is_a_change(self, db: Database, orders: Any) -> None:
        orders.insert_one({"_id": 1, "a": 1, "b": 2})
        assert orders.replace_one({"_id": 1}, {"b": 2, "a": 1}).modified_count == 1
        assert list(orders.find_one(1)) == ["_id", "b", "a"]
        assert kinds(db) == ["insert", "replace"]

    def test_an_update_and_a_replacement_are_told_apart(self, db: Database, orders: Any) -> None:
        orders.insert_one({"_id": 1})
        orders.update_one({"_id": 1}, {"$set": {"a": 1}})
        orders.replace_one({"_id": 1}, {"b": 1})
        orders.delete_one({"b": 1})
        assert kinds(db) == ["insert", "update", "replace", "delete"]

    def test_an_upsert_is_an_insert(self, db: Database, orders: Any) -> None:
        result = orders.update_one({"_id": 7, "item": "tea"}, {"$inc": {"n": 2}}, upsert=True)
        assert (result.matched_count, result.upserted_id, result.did_upsert) == (0, 7, True)
        assert orders.find_one(7) == {"_id": 7, "item": "tea", "n": 2}
        assert kinds(db) == ["insert"]

    def test_an_upsert_without_an_id_makes_one(self, orders: Any) -> None:
        result = orders.replace_one({"item": "tea"}, {"n": 1}, upsert=True)
        assert isinstance(result.upserted_id, ObjectId)
        assert orders.find_one() == {"_id": result.upserted_id, "n": 1}

    def test_an_id_cannot_be_changed(self, orders: Any) -> None:
        orders.insert_one({"_id": 1})
        with pytest.raises(WriteError) as refused:
            orders.update_one({"_id": 1}, {"$set": {"_id": 2}})
        assert refused.value.code == 66
        assert orders.find_one() == {"_id": 1}

    def test_one_update_takes_the_first_in_the_order_that_is_asked_for(self, orders: Any) -> None:
        orders.insert_many([{"_id": n, "n": n} for n in range(3)])
        orders.update_one({}, {"$set": {"hit": True}}, sort={"n": -1})
        assert orders.find_one({"hit": True})["_id"] == 2

    def test_an_update_has_operators_and_a_replacement_has_none(self, orders: Any) -> None:
        with pytest.raises(ValueError, match="only works with"):
            orders.update_one({}, {"a": 1})
        with pytest.raises(ValueError, match="can not include"):
            orders.replace_one({}, {"$set": {"a": 1}})
        with pytest.raises(ValueError, match="cannot be empty"):
            orders.update_many({}, {})

    def test_documents_before_the_one_that_fails_stay_changed(self, orders: Any) -> None:
        orders.insert_many([{"_id": 1, "n": 1}, {"_id": 2, "n": "x"}, {"_id": 3, "n": 3}])
        with pytest.raises(WriteError) as refused:
            orders.update_many({}, {"$inc": {"n": 1}})
        assert refused.value.code == 14
        assert [one["n"] for one in orders.find()] == [2, "x", 3]


class TestFindAndModify:
    def test_the_document_before_or_after(self, orders: Any) -> None:
        orders.insert_one({"_id": 1, "n": 1})
        assert orders.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}}) == {"_id": 1, "n": 1}
        after = orders.find_one_and_update(
            {"_id": 1}, {"$inc": {"n": 1}}, return_document=ReturnDocument.AFTER
        )
        assert after == {"_id": 1, "n": 3}
        assert orders.find_one_and_replace({"_id": 1}, {"m": 1}) == {"_id": 1, "n": 3}
        assert orders.find_one_and_delete({"_id": 1}) == {"_id": 1, "m": 1}
        assert orders.find_one_and_delete({"_id": 1}) is None

    def test_the_first_in_an_order(self, orders: Any) -> None:
        orders.insert_many([{"_id": n, "n": -n} for n in range(3)])
        assert orders.find_one_and_delete({}, sort=[("n", 1)])["_id"] == 2

    def test_an_upsert_gives_nothing_or_what_is_new(self, orders: Any) -> None:
        assert orders.find_one_and_update({"_id": 1}, {"$set": {"a": 1}}, upsert=True) is None
        found = orders.find_one_and_update(
            {"_id": 2}, {"$set": {"a": 1}}, upsert=True, return_document=ReturnDocument.AFTER
        )
        assert found == {"_id": 2, "a": 1}


class TestFinding:
    def test_order_skip_and_limit(self, orders: Any) -> None:
        orders.insert_many([{"_id": n, "n": n % 3, "x": 1} for n in range(9)])
        found = orders.find({"n": {"$gt": 0}}).sort([("n", -1), ("_id", 1)]).skip(1).limit(3)
        assert [one["_id"] for one in found] == [5, 8, 1]

    def test_projections(self, orders: Any) -> None:
        orders.insert_one({"_id": 1, "n": 1, "x": {"a": 1, "b": 2}})
        assert orders.find_one({}, {"n": 1}) == {"_id": 1, "n": 1}
        assert orders.find_one({}, ["x.a"]) == {"_id": 1, "x": {"a": 1}}
        assert orders.find_one_and_update({}, {"$inc": {"n": 1}}, projection={"_id": 0, "x": 0}) == {"n": 1}

    def test_a_cursor_reads_the_state_of_its_beginning(self, orders: Any) -> None:
        orders.insert_many([{"_id": n} for n in range(500)])
        cursor = orders.find()
        first = next(cursor)
        orders.delete_many({"_id": {"$gte": 300}})
        orders.insert_one({"_id": 1000})
        orders.update_one({"_id": 250}, {"$set": {"late": True}})
        assert [first, *cursor] == [{"_id": n} for n in range(500)]
        assert orders.count_documents({}) == 301

    def test_a_cursor_on_a_dropped_collection_says_so(self, orders: Any) -> None:
        orders.insert_many([{"_id": n} for n in range(500)])
        cursor = orders.find()
        next(cursor)
        orders.drop()
        with pytest.raises(OperationFailure) as refused:
            list(cursor)
        assert refused.value.code == 175

    def test_slices_clones_and_rewinding(self, orders: Any) -> None:
        orders.insert_many([{"_id": n} for n in range(5)])
        cursor = orders.find()
        assert cursor[2] == {"_id": 2}
        assert [one["_id"] for one in orders.find()[1:3]] == [1, 2]
        assert cursor.to_list(2) == [{"_id": 0}, {"_id": 1}]
        assert len(list(cursor.clone())) == 5
        with pytest.raises(InvalidOperation):
            cursor.sort("a")
        assert len(cursor.rewind().to_list()) == 5
        assert not cursor.alive

    def test_counts_and_distinct_values(self, orders: Any) -> None:
        orders.insert_many([{"_id": 1, "t": [2, 1]}, {"_id": 2, "t": 1.0}, {"_id": 3}, {"_id": 4, "t": "x"}])
        assert orders.estimated_document_count() == 4
        assert orders.count_documents({"t": {"$exists": True}}, skip=1) == 2
        assert orders.count_documents({}, limit=2) == 2
        assert orders.distinct("t") == [1, 2, "x"]
        assert orders.distinct("t", {"_id": {"$gt": 2}}) == ["x"]

    def test_distinct_values_are_those_of_the_documents_that_are_found(self, db: Any, orders: Any) -> None:
        inside = {"a": [{"b": 1}, {"b": [2, 2**40]}, 3], "c": {"b": None}}
        orders.insert_many([{"_id": None, **inside}, {"_id": {"x": 1}}, {"_id": 2, "a": {"b": 2.0}}])
        db.table_create("shop.natives", primary_key="name").insert([{"name": "n", "_id": 5, "a": 1}])
        natives = reactdb.mongodb(db)["shop"]["natives"]
        assert orders.distinct("_id") == [None, 2, {"x": 1}]
        assert orders.distinct("a.b") == [1, 2, 2**40]
        assert orders.distinct("a.1.b") == [2, 2**40]
        assert orders.distinct("c.b") == [None]
        assert orders.distinct("c") == [{"b": None}]
        assert (natives.distinct("_id"), natives.distinct("name"), natives.distinct("a")) == (["n"], [5], [1])

    def test_a_collection_that_is_not_there_is_empty(self, shop: Any) -> None:
        nothing = shop["nothing"]
        assert list(nothing.find()) == []
        assert nothing.find_one() is None
        assert nothing.count_documents({}) == 0
        assert nothing.distinct("a") == []
        assert nothing.update_many({}, {"$set": {"a": 1}}).matched_count == 0
        assert nothing.delete_many({}).deleted_count == 0
        assert nothing.find_one_and_delete({}) is None
        assert list(nothing.list_indexes()) == []
        assert shop.list_collection_names() == []

    def test_a_hint_names_an_index_that_is_there(self, orders: Any) -> None:
        orders.insert_one({"_id": 1})
        assert len(list(orders.find({}).hint([("_id", 1)]))) == 1
        with pytest.raises(OperationFailure) as refused:
            list(orders.find().hint("a_1"))
        assert refused.value.code == 2


class TestBulkWrites:
    def test_results_are_added_up(self, orders: Any) -> None:
        result = orders.bulk_write(
            [
                InsertOne({"_id": 1, "n": 1}),
                InsertOne({"_id": 2, "n": 1}),
                UpdateMany({"n": 1}, {"$inc": {"n": 1}}),
                UpdateOne({"_id": 9}, {"$set": {"a": 1}}, upsert=True),
                ReplaceOne({"_id": 2}, {"b": 1}),
                DeleteMany({"n": 2}),
            ]
        )
        assert (result.inserted_count, result.matched_count, result.modified_count) == (2, 3, 3)
        assert (result.deleted_count, result.upserted_count, result.upserted_ids) == (1, 1, {3: 9})
        assert list(orders.find()) == [{"_id": 2, "b": 1}, {"_id": 9, "a": 1}]

    @pytest.mark.parametrize(("ordered", "expected"), [(True, [1]), (False, [1, 3])])
    def test_an_ordered_one_ends_at_the_first_error(
        self, orders: Any, ordered: bool, expected: list[int]
    ) -> None:
        requests = [InsertOne({"_id": 1}), InsertOne({"_id": 1}), InsertOne({"_id": 3})]
        with pytest.raises(BulkWriteError) as refused:
            orders.bulk_write(requests, ordered=ordered)
        assert refused.value.details["writeErrors"][0]["index"] == 1
        assert orders.distinct("_id") == expected

    def test_what_is_no_request_is_a_type_error(self, orders: Any) -> None:
        with pytest.raises(TypeError, match="not a valid request"):
            orders.bulk_write([{"insert": 1}])
        with pytest.raises(InvalidOperation):
            orders.bulk_write([])


class TestDatabasesAndCollections:
    def test_collections_come_with_their_first_document(self, shop: Any, orders: Any) -> None:
        assert shop.client.list_database_names() == []
        orders.insert_one({})
        shop.create_collection("empty")
        assert shop.client.list_database_names() == ["shop"]
        assert shop.list_collection_names() == ["empty", "orders"]
        with pytest.raises(CollectionInvalid):
            shop.create_collection("empty")
        shop.client.drop_database("shop")
        assert shop.list_collection_names() == []

    def test_a_renamed_collection_keeps_its_documents(self, shop: Any, orders: Any) -> None:
        orders.insert_one({"_id": 1})
        orders.rename("sales")
        assert shop["sales"].find_one() == {"_id": 1}
        assert orders.find_one() is None

    def test_a_native_table_is_a_collection_of_the_default_database(self, db: Database) -> None:
        games = db.table_create("games")
        games.insert({"id": 1, "score": 12})
        found = reactdb.mongodb(db, default="arena")["arena"]["games"]
        assert found.find_one({"score": 12}) == {"_id": 1, "score": 12}
        found.insert_one({"_id": 2, "score": 3})
        found.update_one({"_id": 1}, {"$inc": {"score": 1}})
        assert list(games) == [{"id": 1, "score": 13}, {"id": 2, "score": 3}]

    def test_a_database_is_no_truth_value(self, shop: Any, orders: Any) -> None:
        for one in (shop, orders):
            with pytest.raises(NotImplementedError):
                bool(one)
