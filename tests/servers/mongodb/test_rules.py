"""PyMongo against the server: validators and capped collections."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pymongo import CursorType, InsertOne, MongoClient
from pymongo.errors import (
    BulkWriteError,
    ClientBulkWriteException,
    DuplicateKeyError,
    OperationFailure,
    WriteError,
)

Client = MongoClient[dict[str, Any]]


class TestBecomingUnique:
    def test_an_index_becomes_unique_when_no_two_documents_have_one_key(self, client: Client) -> None:
        shop = client["shop"]
        users = shop["users"]
        users.insert_many([{"_id": n, "n": n // 2} for n in range(5)])
        users.create_index("n")

        def modify(**said: Any) -> Any:
            return shop.command("collMod", "users", index={"name": "n_1", **said.pop("index", {})}, **said)

        with pytest.raises(OperationFailure) as refused:
            modify(index={"unique": True})
        assert 72 == refused.value.code
        changed = modify(index={"prepareUnique": True})
        assert (False, True) == (changed["prepareUnique_old"], changed["prepareUnique_new"])
        with pytest.raises(DuplicateKeyError):
            users.insert_one({"n": 0})
        for dry in ({"dryRun": True}, {}):
            with pytest.raises(OperationFailure) as caught:
                modify(index={"unique": True}, **dry)
            assert caught.value.details is not None
            assert (359, [{"ids": [0, 1]}, {"ids": [2, 3]}]) == (
                caught.value.code,
                caught.value.details["violations"],
            )
        users.delete_many({"_id": {"$in": [1, 3]}})
        modify(index={"unique": True}, dryRun=True)
        assert "unique" not in users.index_information()["n_1"]
        with users.watch(show_expanded_events=True, max_await_time_ms=50) as stream:
            assert modify(index={"unique": True})["unique_new"] is True
            event = stream.next()
        assert {"name": "n_1", "unique": True} == event["operationDescription"]["index"]
        assert {"v": 2, "key": [("n", 1)], "unique": True} == users.index_information()["n_1"]
        with pytest.raises(DuplicateKeyError):
            users.insert_one({"n": 0})
        with pytest.raises(OperationFailure) as never:
            modify(index={"unique": False})
        assert 2 == never.value.code


class TestIndexesOfTransactions:
    def test_an_index_that_is_there_is_counted_once(self, client: Client) -> None:
        shop = client["shop"]
        with client.start_session() as session, session.start_transaction():
            counts = []
            for name in ("a_1", "a_1", "b_1"):
                indexes = [{"key": {name[0]: 1}, "name": name}, {"key": {"_id": 1}, "name": "_id_"}]
                said = shop.command("createIndexes", "made", indexes=indexes, session=session)
                counts.append(
                    (
                        said["numIndexesBefore"],
                        said["numIndexesAfter"],
                        said["createdCollectionAutomatically"],
                    )
                )
            assert [(1, 2, True), (2, 2, False), (2, 3, False)] == counts
        assert ["_id_", "a_1", "b_1"] == list(shop["made"].index_information())
        with client.start_session() as session:
            session.start_transaction()
            shop.command(
                "createIndexes", "other", indexes=[{"key": {"a": 1}, "name": "a_1"}], session=session
            )
            with pytest.raises(OperationFailure) as refused:
                again = [{"key": {"a": 1}, "name": "a_1", "unique": True}]
                shop.command("createIndexes", "other", indexes=again, session=session)
            session.abort_transaction()
        assert 86 == refused.value.code
        assert ["made"] == shop.list_collection_names()


class TestValidators:
    @pytest.fixture
    def orders(self, client: Client) -> Any:
        return client["shop"].create_collection("orders", validator={"n": {"$gte": 3}})

    def test_a_write_is_refused_with_the_reason(self, orders: Any) -> None:
        with pytest.raises(WriteError) as caught:
            orders.insert_one({"_id": 1, "n": 1})
        told = caught.value.details
        assert told is not None
        assert (121, 1) == (caught.value.code, told["errInfo"]["failingDocumentId"])
        assert "$gte" == told["errInfo"]["details"]["operatorName"]

    def test_find_and_modify_says_it_too(self, orders: Any) -> None:
        orders.insert_one({"_id": 1, "n": 3})
        with pytest.raises(OperationFailure) as caught:
            orders.find_one_and_update({"_id": 1}, {"$set": {"n": 1}})
        told = caught.value.details
        assert told is not None
        assert (121, "DocumentValidationFailure", 1) == (
            caught.value.code,
            told["codeName"],
            told["errInfo"]["failingDocumentId"],
        )

    def test_bulk_writes_say_it_by_operation(self, client: Client, orders: Any) -> None:
        with pytest.raises(BulkWriteError) as caught:
            orders.bulk_write([InsertOne({"_id": 1, "n": 3}), InsertOne({"_id": 2})])
        (error,) = caught.value.details["writeErrors"]
        assert (1, 121, 2) == (error["index"], error["code"], error["errInfo"]["failingDocumentId"])
        with pytest.raises(ClientBulkWriteException) as of_client:
            client.bulk_write([InsertOne({"_id": 3}, namespace="shop.orders")])
        assert 121 == of_client.value.write_errors[0]["code"]

    def test_every_way_of_writing_can_bypass_it(self, client: Client, orders: Any) -> None:
        orders.insert_one({"_id": 1}, bypass_document_validation=True)
        orders.update_one({"_id": 1}, {"$set": {"a": 1}}, bypass_document_validation=True)
        orders.replace_one({"_id": 1}, {"a": 2}, bypass_document_validation=True)
        orders.find_one_and_update({"_id": 1}, {"$set": {"a": 3}}, bypassDocumentValidation=True)
        orders.bulk_write([InsertOne({"_id": 2})], bypass_document_validation=True)
        client.bulk_write([InsertOne({"_id": 3}, namespace="shop.orders")], bypass_document_validation=True)
        client["shop"]["from"].insert_one({"_id": 4})
        client["shop"]["from"].aggregate([{"$merge": "orders"}], bypassDocumentValidation=True)
        assert 4 == orders.count_documents({})

    def test_coll_mod_changes_it(self, client: Client, orders: Any) -> None:
        client["shop"].command("collMod", "orders", validator={"m": 1}, validationLevel="moderate")
        assert {"validator": {"m": 1}, "validationLevel": "moderate"} == orders.options()
        orders.insert_one({"m": 1})
        with pytest.raises(WriteError):
            orders.insert_one({"n": 5})
        client["shop"].command("collMod", "orders", validationAction="warn")
        orders.insert_one({"n": 5})

    def test_a_transaction_ends_with_what_it_refuses(self, client: Client, orders: Any) -> None:
        with client.start_session() as session:
            session.start_transaction()
            orders.insert_one({"_id": 1, "n": 3}, session=session)
            with pytest.raises(WriteError) as caught:
                orders.insert_one({"_id": 2}, session=session)
            assert 121 == caught.value.code
            session.abort_transaction()
        assert orders.find_one() is None


class TestCapped:
    @pytest.fixture
    def log(self, client: Client) -> Any:
        return client["shop"].create_collection("log", capped=True, size=1000, max=3)

    def test_it_says_what_caps_it(self, client: Client, log: Any) -> None:
        assert {"capped": True, "size": 1024, "max": 3} == log.options()
        (staged,) = log.aggregate([{"$collStats": {"storageStats": {}}}])
        for told in (client["shop"].command("collStats", "log"), staged["storageStats"]):
            assert (True, 3, 1024) == (told["capped"], told["max"], told["maxSize"])

    def test_the_newest_are_there_in_their_order(self, log: Any) -> None:
        log.insert_many([{"_id": id} for id in (5, 1, 4, 2)])
        assert [1, 4, 2] == [one["_id"] for one in log.find()]

    def test_coll_mod_changes_how_much_it_holds(self, client: Client, log: Any) -> None:
        log.insert_many([{"_id": id} for id in range(3)])
        client["shop"].command("collMod", "log", cappedMax=2, cappedSize=5000)
        assert {"capped": True, "size": 5120, "max": 2} == log.options()
        log.insert_one({"_id": 3})
        assert [2, 3] == [one["_id"] for one in log.find()]
        client["shop"]["other"].insert_one({})
        with pytest.raises(OperationFailure) as caught:
            client["shop"].command("collMod", "other", cappedMax=2)
        assert 72 == caught.value.code


def test_coll_mod_changes_a_view(client: Client) -> None:
    shop = client["shop"]
    shop["orders"].insert_many([{"_id": 1, "n": 1}, {"_id": 2, "n": 2}])
    view = shop.create_collection("view", viewOn="orders", pipeline=[{"$match": {"n": 1}}])
    assert [1] == view.distinct("_id")
    shop.command("collMod", "view", viewOn="orders", pipeline=[{"$match": {"n": 2}}])
    assert [2] == view.distinct("_id")
    for name, options in (("view", {"validator": {"a": 1}}), ("orders", {"pipeline": []})):
        with pytest.raises(OperationFailure) as caught:
            shop.command("collMod", name, **options)
        assert 72 == caught.value.code


class TestTailing:
    @pytest.fixture
    def log(self, client: Client) -> Any:
        return client["shop"].create_collection("log", capped=True, size=4096, max=3)

    def test_it_goes_on_with_what_was_inserted_meanwhile(self, log: Any) -> None:
        log.insert_many([{"_id": 5}, {"_id": 3}])
        with log.find(cursor_type=CursorType.TAILABLE) as cursor:
            assert [5, 3] == [one["_id"] for one in cursor]
            assert cursor.alive
            log.insert_one({"_id": 1})
            assert {"_id": 1} == cursor.next()

    def test_one_that_awaits_data_is_woken_by_it(self, client: Client, log: Any) -> None:
        log.insert_one({"_id": 1})
        cursor = log.find(cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(60_000)
        assert {"_id": 1} == cursor.next()
        heard: list[Any] = []
        waiter = threading.Thread(target=lambda: heard.append(cursor.next()))
        waiter.start()
        client["shop"]["other"].insert_one({"_id": 1})
        log.insert_one({"_id": 2})
        waiter.join(30)
        assert [{"_id": 2}] == heard
        cursor.close()

    def test_one_that_waits_in_vain_stays_alive(self, log: Any) -> None:
        log.insert_one({"_id": 1})
        cursor = log.find(cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(1)
        assert [{"_id": 1}] == list(cursor)
        assert cursor.alive

    def test_what_it_has_not_seen_and_is_gone_is_an_error(self, log: Any) -> None:
        log.insert_one({"_id": 0})
        cursor = log.find(cursor_type=CursorType.TAILABLE)
        cursor.next()
        log.insert_many([{"_id": id} for id in range(1, 5)])
        # PyMongo ends a tailable cursor whose position is lost without an error.
        assert [] == list(cursor)
        assert not cursor.alive

    def test_large_documents_come_in_several_batches(self, client: Client) -> None:
        log = client["shop"].create_collection("large", capped=True, size=100_000_000)
        text = "x" * 6_000_000
        log.insert_many([{"_id": id, "text": text} for id in range(4)])
        cursor = log.find(cursor_type=CursorType.TAILABLE)
        assert [0, 1, 2, 3] == [one["_id"] for one in cursor]

    def test_of_an_empty_collection_there_is_nothing_to_tail(self, client: Client, log: Any) -> None:
        cursor = log.find(cursor_type=CursorType.TAILABLE)
        assert [] == list(cursor)
        assert not cursor.alive
        with pytest.raises(OperationFailure) as caught:
            client["shop"].command("find", "log", awaitData=True)
        assert 9 == caught.value.code
