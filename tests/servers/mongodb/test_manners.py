"""Over a socket and in the process, the same calls give the same results, errors and events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from pymongo import (
    DeleteMany,
    DeleteOne,
    IndexModel,
    InsertOne,
    ReplaceOne,
    UpdateMany,
    UpdateOne,
)
from pymongo.collation import Collation
from pymongo.errors import (
    ClientBulkWriteException,
    ConfigurationError,
    InvalidName,
    InvalidOperation,
    OperationFailure,
    PyMongoError,
)

import reactdb


@pytest.fixture(params=["socket", "process"])
def mongo(request: pytest.FixtureRequest, db: Any) -> Any:
    if request.param == "process":
        return reactdb.mongodb(db)
    return request.getfixturevalue("client")


@pytest.fixture
def orders(mongo: Any) -> Any:
    found = mongo["shop"]["orders"]
    found.insert_one({"_id": 1, "n": 1})
    return found


ONE = {"_id": 1}
SET = {"$set": {"n": 2}}


@pytest.mark.parametrize(
    ("kind", "work"),
    [
        # Without operators it is no update: it would take the place of the document.
        (ValueError, lambda orders: orders.bulk_write([UpdateOne(ONE, {"m": 2})])),
        (ValueError, lambda orders: orders.bulk_write([UpdateMany(ONE, {"m": 2})])),
        (ValueError, lambda orders: orders.bulk_write([UpdateOne(ONE, {})])),
        (ValueError, lambda orders: orders.bulk_write([UpdateOne(ONE, [])])),
        (ValueError, lambda orders: orders.bulk_write([ReplaceOne(ONE, SET)])),
        (TypeError, lambda orders: orders.bulk_write([ReplaceOne(ONE, [SET])])),
        (TypeError, lambda orders: orders.bulk_write([UpdateOne(ONE, 5)])),
        (TypeError, lambda orders: orders.bulk_write([InsertOne(5)])),
        (TypeError, lambda orders: orders.bulk_write((InsertOne({"_id": 2}),))),
        (TypeError, lambda orders: orders.update_one(ONE, SET, upsert=1)),
        (TypeError, lambda orders: orders.replace_one(ONE, {"n": 2}, upsert="yes")),
        (TypeError, lambda orders: orders.find_one_and_update(ONE, SET, upsert=1)),
        (TypeError, lambda orders: orders.find_one_and_update(ONE, SET, return_document="after")),
        (TypeError, lambda orders: orders.find_one_and_replace(ONE, {"n": 2}, return_document="after")),
        (TypeError, lambda orders: orders.update_one(ONE, SET, collation=5)),
        (TypeError, lambda orders: orders.delete_one(ONE, collation="de")),
        (TypeError, lambda orders: orders.update_one([], SET)),
        (TypeError, lambda orders: orders.update_one(ONE, SET, array_filters={})),
        (TypeError, lambda orders: orders.update_one(ONE, SET, sort=[("n", 1)])),
        (TypeError, lambda orders: orders.replace_one([], {"n": 2})),
        (TypeError, lambda orders: orders.delete_many([])),
        (TypeError, lambda orders: orders.find_one_and_delete([])),
        (TypeError, lambda orders: orders.find_one_and_update([], SET)),
        (TypeError, lambda orders: orders.find_one_and_update(ONE, SET, array_filters=5)),
        (TypeError, lambda orders: orders.database.validate_collection(5)),
        (InvalidName, lambda orders: orders.database.client.drop_database("")),
        (ValueError, lambda orders: orders.create_index([])),
        (TypeError, lambda orders: orders.create_indexes([5])),
        (ValueError, lambda orders: orders.find().sort([])),
        (ValueError, lambda orders: orders.find().to_list(0)),
        (ConfigurationError, lambda orders: orders.aggregate([], explain=True)),
        (InvalidName, lambda orders: orders.rename("")),
        (InvalidName, lambda orders: orders.rename("a$b")),
        (TypeError, lambda orders: orders.rename(5)),
        (TypeError, lambda orders: orders.database.client.drop_database(5)),
    ],
)
def test_what_pymongo_refuses_is_not_carried_out(
    mongo: Any, orders: Any, kind: type[Exception], work: Callable[[Any], Any]
) -> None:
    with pytest.raises(kind):
        work(orders)
    assert [{"_id": 1, "n": 1}] == list(orders.find())
    assert ["orders"] == mongo["shop"].list_collection_names()


@pytest.mark.parametrize(
    ("code", "work"),
    [
        (40415, lambda orders: list(orders.aggregate([], sorted=True))),
        (40415, lambda orders: orders.count_documents({}, sorted=True)),
        (40415, lambda orders: orders.estimated_document_count(sorted=True)),
        (40415, lambda orders: orders.distinct("n", sorted=True)),
        (40415, lambda orders: orders.rename("others", drop=True)),
        (40415, lambda orders: orders.find_one_and_update(ONE, SET, arrayFilter=[])),
        (40415, lambda orders: orders.database.aggregate([{"$documents": []}], sorted=True)),
        (40415, lambda orders: orders.database.list_collection_names(sorted=True)),
        (40415, lambda orders: orders.database.list_collections(sorted=True)),
        (40415, lambda orders: orders.create_indexes([IndexModel("n")], sorted=True)),
        (197, lambda orders: orders.create_index("n", commitQuorum=1)),
        (14, lambda orders: orders.aggregate([], maxTimeMS="1")),
        (14, lambda orders: orders.aggregate([], allowDiskUse=1)),
        (14, lambda orders: orders.aggregate([], bypassDocumentValidation="no")),
        (2, lambda orders: orders.count_documents({}, maxTimeMS=-1)),
        (14, lambda orders: orders.distinct("n", maxTimeMS="1")),
        (14, lambda orders: orders.find_one_and_delete(ONE, maxTimeMS="1")),
        (14, lambda orders: orders.create_index("n", maxTimeMS="1")),
        (14, lambda orders: orders.update_one(ONE, SET, array_filters=[5])),
        (14, lambda orders: orders.distinct("n", 5)),
        (14, lambda orders: orders.distinct("n", [])),
        (40415, lambda orders: orders.count_documents({}, collation={"locale": "simple", "order": 1})),
        (
            40415,
            lambda orders: orders.database.command(
                "count", "orders", collation={"locale": "simple", "order": 1}
            ),
        ),
        (14, lambda orders: orders.find_one(collation={"locale": "simple", "strength": "1"})),
        (14, lambda orders: orders.aggregate([], collation={"locale": "simple", "strength": "1"})),
        (2, lambda orders: orders.delete_one({}, collation={"locale": "simple", "strength": 9})),
        (2, lambda orders: orders.update_one({}, SET, collation={"locale": "simple", "strength": 9})),
        (15959, lambda orders: orders.count_documents(None)),
        (15959, lambda orders: orders.count_documents([])),
        (15958, lambda orders: orders.count_documents({}, limit=0)),
        (5107201, lambda orders: orders.count_documents({}, limit=-1)),
        (5107200, lambda orders: orders.count_documents({}, skip=-1)),
    ],
)
def test_what_mongodb_refuses_of_the_options_is_refused(
    orders: Any, code: int, work: Callable[[Any], Any]
) -> None:
    with pytest.raises(OperationFailure) as caught:
        work(orders)
    assert code == caught.value.code
    assert [{"_id": 1, "n": 1}] == list(orders.find())


def test_options_of_reading_are_kept_to(mongo: Any, orders: Any) -> None:
    orders.insert_many([{"_id": 2, "n": 2}, {"_id": 3, "n": 2}])
    assert 1 == orders.count_documents({"n": 2}, skip=1)
    assert 2 == orders.count_documents({}, limit=2, hint="_id_")
    assert 0 == orders.count_documents({"n": 5}, limit=2)
    # Nothing that is named is no projection.
    for nothing in ({}, []):
        assert {"_id": 1, "n": 1} == orders.find_one(1, nothing)
        assert {"_id": 1, "n": 1} == orders.find_one_and_update(ONE, {"$inc": {"n": 0}}, projection=nothing)
    assert [{"name": "orders", "type": "collection"}] == list(mongo["shop"].list_collections(nameOnly=True))
    assert [{"name": "shop"}] == list(mongo.list_databases(nameOnly=True, filter={"name": {"$in": ["shop"]}}))
    assert [] == list(mongo.list_databases(filter={"name": "store"}))


def test_an_index_is_made_with_a_collation(orders: Any) -> None:
    orders.create_index("n", collation=Collation("simple"), maxTimeMS=1_000)
    assert {"v": 2, "key": [("n", 1)]} == orders.index_information()["n_1"]


def test_an_index_of_no_collection_can_be_dropped(mongo: Any, orders: Any) -> None:
    mongo["shop"]["others"].drop_index("n_1")
    assert ["orders"] == mongo["shop"].list_collection_names()


def told(result: Any) -> dict[str, Any]:
    counts = ("inserted_count", "matched_count", "modified_count", "deleted_count", "upserted_count")
    return {name: getattr(result, name) for name in counts if getattr(result, name)}


class TestBulkWritesOfTheClient:
    """Over the socket: in the process a transaction of several collections needs no command of its own."""

    @pytest.fixture
    def mongo(self, client: Any) -> Any:
        return client

    def test_several_collections_are_written_in_the_order_of_the_requests(
        self, mongo: Any, orders: Any
    ) -> None:
        requests = [
            InsertOne({"_id": 2, "n": [1, 2]}, namespace="shop.orders"),
            InsertOne({"_id": 1}, namespace="store.stock"),
            UpdateOne({"_id": 2}, {"$set": {"n.$[e]": 5}}, array_filters=[{"e": 2}], namespace="shop.orders"),
            ReplaceOne({"_id": 9}, {"m": 1}, upsert=True, namespace="store.stock"),
            UpdateMany({}, [{"$set": {"v": "$$v"}}], namespace="store.stock"),
            UpdateOne({}, {"$set": {"last": True}}, sort={"_id": -1}, namespace="store.stock"),
            DeleteOne({"_id": 1}, namespace="store.stock"),
            DeleteMany({}, namespace="store.none"),
        ]
        with mongo.watch(max_await_time_ms=1_000) as stream:
            result = mongo.bulk_write(requests, verbose_results=True, let={"v": 7})
            events = [stream.next() for _ in range(8)]
        assert {
            "inserted_count": 2,
            "matched_count": 4,
            "modified_count": 4,
            "deleted_count": 1,
            "upserted_count": 1,
        } == told(result)
        assert {0: 2, 1: 1} == {place: one.inserted_id for place, one in result.insert_results.items()}
        assert {2: None, 3: 9, 4: None, 5: None} == {
            place: one.upserted_id for place, one in result.update_results.items()
        }
        assert {6: 1, 7: 0} == {place: one.deleted_count for place, one in result.delete_results.items()}
        assert [
            ("insert", "orders", 2),
            ("insert", "stock", 1),
            ("update", "orders", 2),
            ("insert", "stock", 9),
            ("update", "stock", 1),
            ("update", "stock", 9),
            ("update", "stock", 9),
            ("delete", "stock", 1),
        ] == [(one["operationType"], one["ns"]["coll"], one["documentKey"]["_id"]) for one in events]
        assert [{"_id": 9, "m": 1, "v": 7, "last": True}] == list(mongo["store"]["stock"].find())
        assert {"_id": 2, "n": [1, 5]} == orders.find_one(2)

    @pytest.mark.parametrize(
        ("ordered", "errors", "counts"),
        [
            (True, [(1, 11000)], {"inserted_count": 1}),
            (False, [(1, 11000), (3, 66)], {"inserted_count": 2, "deleted_count": 1}),
        ],
    )
    def test_those_that_fail_are_told(
        self, mongo: Any, orders: Any, ordered: bool, errors: Any, counts: Any
    ) -> None:
        requests = [
            InsertOne({"_id": 2}, namespace="shop.orders"),
            InsertOne({"_id": 1}, namespace="shop.orders"),
            InsertOne({"_id": 1}, namespace="shop.stock"),
            UpdateOne({"_id": 1}, {"$set": {"_id": 2}}, namespace="shop.orders"),
            DeleteOne({"_id": 1}, namespace="shop.orders"),
        ]
        with pytest.raises(ClientBulkWriteException) as caught:
            mongo.bulk_write(requests, ordered=ordered)
        assert errors == [(one["idx"], one["code"]) for one in caught.value.write_errors]
        assert {"insert": 0, "document": {"_id": 1}} == caught.value.write_errors[0]["op"]
        assert counts == told(caught.value.partial_result)
        assert caught.value.error is None

    def test_one_that_cannot_be_carried_out_at_all_has_its_error(self, mongo: Any, orders: Any) -> None:
        with pytest.raises(ClientBulkWriteException) as caught:
            mongo.bulk_write([InsertOne({}, namespace="shop")])
        assert caught.value.error is not None
        assert caught.value.partial_result is None

    @pytest.mark.parametrize(
        ("kind", "requests"),
        [
            (InvalidOperation, []),
            (InvalidOperation, [InsertOne({})]),
            (TypeError, [5]),
            (TypeError, (InsertOne({}, namespace="shop.orders"),)),
            (ValueError, [UpdateOne(ONE, {"m": 1}, namespace="shop.orders")]),
            (ValueError, [ReplaceOne(ONE, SET, namespace="shop.orders")]),
            (TypeError, [InsertOne(5, namespace="shop.orders")]),
        ],
    )
    def test_what_is_none_is_refused(self, mongo: Any, orders: Any, kind: Any, requests: Any) -> None:
        with pytest.raises(kind):
            mongo.bulk_write(requests)
        assert [{"_id": 1, "n": 1}] == list(orders.find())

    def test_it_is_a_part_of_a_transaction(self, mongo: Any, orders: Any) -> None:
        requests = [InsertOne({"_id": 2}, namespace="shop.orders"), DeleteOne(ONE, namespace="shop.orders")]
        with mongo.start_session() as session:
            session.start_transaction()
            mongo.bulk_write(requests, session=session)
            assert [2] == orders.distinct("_id", session=session)
            assert [1] == orders.distinct("_id")
            session.abort_transaction()
            session.start_transaction()
            with pytest.raises(ClientBulkWriteException):
                mongo.bulk_write([*requests, *requests], session=session)
            with pytest.raises(PyMongoError) as after:
                session.commit_transaction()
        assert after.value.has_error_label("TransientTransactionError")
        assert [1] == orders.distinct("_id")


class TestPipelines:
    """A server reads the first batch of a pipeline with the command."""

    DIVIDES: Final = [{"$set": {"n": {"$divide": [6, "$n"]}}}]

    @pytest.fixture
    def numbers(self, mongo: Any) -> Any:
        """Documents of which the one in place 101, counted from 0, cannot be divided by."""
        found = mongo["shop"]["numbers"]
        found.insert_many([{"_id": id, "n": 101 - id} for id in range(103)])
        return found

    def test_an_error_in_the_first_batch_is_one_of_the_call(self, mongo: Any, numbers: Any) -> None:
        for pipeline in (
            [{"$match": {"_id": {"$gt": 0}}}, *self.DIVIDES],
            [*self.DIVIDES, {"$group": {"_id": 1}}],
        ):
            with pytest.raises(OperationFailure) as caught:
                numbers.aggregate(pipeline)
            assert 2 == caught.value.code
        with pytest.raises(OperationFailure):
            mongo["shop"].aggregate([{"$documents": [{"n": 0}]}, *self.DIVIDES])

    def test_an_error_beyond_it_is_one_of_the_document(self, numbers: Any) -> None:
        for sizes in ({}, {"batchSize": 1}, {"batchSize": 50}):
            cursor = numbers.aggregate(self.DIVIDES, **sizes)
            assert {"_id": 0, "n": 6 / 101} == cursor.next()
            with pytest.raises(OperationFailure):
                list(cursor)
            assert not cursor.alive

    def test_empty_documents_are_documents(self, numbers: Any) -> None:
        found = list(numbers.aggregate([{"$limit": 3}, {"$project": {"_id": 0, "m": 1}}], batchSize=1))
        assert [{}, {}, {}] == found

    def test_of_an_empty_first_batch_nothing_is_read(self, numbers: Any) -> None:
        cursor = numbers.aggregate([{"$match": {"_id": 101}}, *self.DIVIDES], batchSize=0)
        assert cursor.alive
        with pytest.raises(OperationFailure):
            cursor.next()

    @pytest.mark.parametrize("size", [-1, "some", 1.5])
    def test_a_size_that_is_none_is_refused(self, mongo: Any, numbers: Any, size: Any) -> None:
        for of in (numbers, mongo["shop"]):
            with pytest.raises((TypeError, ValueError)):
                of.aggregate([{"$documents": []}], batchSize=size)

    def test_an_error_ends_the_transaction(self, mongo: Any, numbers: Any) -> None:
        with mongo.start_session() as session:
            session.start_transaction()
            numbers.insert_one({"_id": 200, "n": 0}, session=session)
            with pytest.raises(OperationFailure):
                numbers.aggregate([{"$match": {"_id": 200}}, *self.DIVIDES], session)
            with pytest.raises(OperationFailure) as caught:
                session.commit_transaction()
            assert 251 == caught.value.code


class TestAlive:
    def test_a_cursor_is_alive_as_long_as_there_is_more(self, orders: Any) -> None:
        orders.insert_one({"_id": 2})
        found = orders.find()
        assert found.alive
        assert {"_id": 1, "n": 1} == found.next()
        assert found.alive
        assert found.alive
        assert {"_id": 2} == found.next()
        assert not found.alive
        assert [] == list(found)
        for cursor in (orders.aggregate([]), orders.find()):
            seen = []
            while cursor.alive:
                seen.append(cursor.next()["_id"])
            assert [1, 2] == seen

    def test_one_of_nothing_is_not(self, mongo: Any, orders: Any) -> None:
        assert not orders.aggregate([{"$match": {"_id": 5}}]).alive
        assert not mongo["shop"]["others"].list_indexes().alive
        query = orders.find({"_id": 5})
        # Nobody has asked yet.
        assert query.alive
        assert [] == list(query)
        assert not query.alive


def test_what_is_counted_can_be_limited(orders: Any) -> None:
    orders.insert_many([{"_id": 2}, {"_id": 3}])
    assert 3 == orders.estimated_document_count()
    assert 1 == orders.estimated_document_count(skip=2)
    assert 2 == orders.estimated_document_count(limit=2)
    assert 3 == orders.estimated_document_count(hint="_id_", maxTimeMS=60_000)
    for options, code in (({"skip": -1}, 2), ({"limit": "1"}, 2), ({"hint": "n_1"}, 2)):
        with pytest.raises(OperationFailure) as caught:
            orders.estimated_document_count(**options)
        assert code == caught.value.code
    with pytest.raises(ConfigurationError):
        orders.estimated_document_count(session=None)


def answered(answer: Any) -> dict[str, Any]:
    """An answer without the times in it."""
    assert {"operationTime", "$clusterTime"} <= set(answer)
    return {name: value for name, value in answer.items() if name not in ("operationTime", "$clusterTime")}


def test_answers_of_commands_are_those_of_the_server(mongo: Any, orders: Any) -> None:
    shop, store = mongo["shop"], mongo["store"]
    assert {"ok": 1.0} == answered(orders.rename("sold"))
    store["sold"].insert_one({"_id": 5})
    # A collection names one of the database that is asked.
    told = answered(store.drop_collection(shop["sold"]))
    assert {"nIndexesWas": 1, "ns": "store.sold", "ok": 1.0} == told
    assert ["sold"] == shop.list_collection_names()
    assert {"ok": 1.0} == answered(store.drop_collection("sold"))
    for none in (5, None):
        with pytest.raises(TypeError):
            shop.drop_collection(none)
    with pytest.raises(TypeError):
        shop.dereference("sold")
    with pytest.raises(OperationFailure) as caught:
        shop["sold"].rename("system.sold")
    assert 20 == caught.value.code
    with mongo.start_session() as session:
        session.start_transaction()
        for work in (lambda: shop["sold"].rename("other", session), lambda: shop["sold"].drop(session)):
            with pytest.raises(OperationFailure) as caught:
                work()
            assert 263 == caught.value.code
        session.abort_transaction()


@pytest.mark.parametrize(
    ("sentence", "work"),
    [
        (
            "Invalid $project :: caused by :: ",
            lambda orders: orders.aggregate([{"$project": {"a": 1, "b": 0}}]),
        ),
        ("Invalid $project :: caused by :: ", lambda orders: orders.aggregate([{"$project": {}}])),
        ("Invalid $set :: caused by :: ", lambda orders: orders.aggregate([{"$set": {"a": {"$b": 1}}}])),
        (
            "Invalid $addFields :: caused by :: ",
            lambda orders: orders.aggregate([{"$addFields": {"a": 1, "a.b": 1}}]),
        ),
        (
            "$unwind is not allowed to be used within an update",
            lambda orders: orders.update_one({}, [{"$unwind": "$a"}]),
        ),
    ],
)
def test_what_is_wrong_in_a_stage_names_it(orders: Any, sentence: str, work: Callable[[Any], Any]) -> None:
    with pytest.raises(OperationFailure) as caught:
        work(orders)
    assert str(caught.value).startswith(sentence)
