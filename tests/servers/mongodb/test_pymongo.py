"""PyMongo against the server: reading and writing, sessions, and who may come in."""

from __future__ import annotations

import datetime
import platform
from pathlib import Path
from typing import Any

import pytest
from bson import (
    Binary,
    Code,
    DBRef,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)
from pymongo import DeleteOne, InsertOne, MongoClient, ReturnDocument, UpdateOne
from pymongo.errors import (
    BulkWriteError,
    ClientBulkWriteException,
    CollectionInvalid,
    DuplicateKeyError,
    ExecutionTimeout,
    NotPrimaryError,
    OperationFailure,
    WriteConcernError,
)
from pymongo.write_concern import WriteConcern

import reactdb
from reactdb.errors import DatabaseBusy
from reactdb.servers.mongodb import Credentials, MongoDBServer, serve_in_thread
from reactdb.session import session_of
from tests.servers.mongodb.wire import Wire, message

Client = MongoClient[dict[str, Any]]


@pytest.fixture
def orders(client: Client) -> Any:
    return client["shop"]["orders"]


class TestReadingAndWriting:
    def test_what_is_inserted_is_found(self, orders: Any) -> None:
        done = orders.insert_one({"_id": 1, "total": 5})
        assert 1 == done.inserted_id
        assert {"_id": 1, "total": 5} == orders.find_one({"_id": 1})
        assert orders.find_one({"_id": 2}) is None

    def test_a_document_without_an_id_gets_one(self, orders: Any) -> None:
        assert isinstance(orders.insert_one({"a": 1}).inserted_id, ObjectId)

    def test_what_mongoose_writes_about_names_that_begin_with_a_dollar(self, orders: Any) -> None:
        upsert = {"$set": {"$price": 5}}
        assert 1 == orders.update_one({"_id": 1}, upsert, upsert=True).upserted_id
        assert {"_id": 1, "$price": 5} == orders.find_one()
        with pytest.raises(OperationFailure) as caught:
            orders.update_one({"_id": 1}, {"$set": {"$price": 6}}, upsert=True)
        assert 52 == caught.value.code

        orders.insert_one({"_id": 2, "members": [DBRef("a", 7), DBRef("a", 8)]})
        assert 2 == orders.find_one({"members": {"$elemMatch": {"$id": 8}}})["_id"]
        orders.update_one({"_id": 2}, {"$pull": {"members": {"$id": 7}}})
        assert [DBRef("a", 8)] == orders.find_one({"_id": 2})["members"]

    def test_a_field_that_is_there_is_a_place_in_an_array(self, orders: Any) -> None:
        orders.insert_one({"_id": 1, "lines": [{}, {"tags": {"new": 1}}]})
        query = {"_id": 1, "lines.tags.new": {"$exists": True}}

        orders.find_one_and_update(query, {"$set": {"lines.$.tags": {"old": 1}}})

        assert [{}, {"tags": {"old": 1}}] == orders.find_one()["lines"]

    def test_every_type_comes_back_as_it_went(self, orders: Any) -> None:
        document = {
            "_id": ObjectId(),
            "double": 1.0,
            "int": 1,
            "long": Int64(1),
            "text": "Grüße",
            "object": {"b": 1, "a": [1, {"c": None}]},
            "data": b"bytes",
            "uuid": Binary(b"\1" * 16, 4),
            "old": Binary(b"x", 128),
            "true": True,
            "date": datetime.datetime(2026, 11, 23, 12, 0, 0, 123_000),
            "regex": Regex("^a", "im"),
            "code": Code("f()"),
            "scoped": Code("g()", {"x": 1}),
            "moment": Timestamp(7, 8),
            "decimal": Decimal128("1.10"),
            "least": MinKey(),
            "most": MaxKey(),
            "reference": DBRef("orders", 5, "shop"),
        }
        orders.insert_one(document)
        found = orders.find_one()
        assert document == found
        assert list(document) == list(found)
        assert [type(value) for value in document.values()] == [type(value) for value in found.values()]

    def test_an_id_that_is_taken_is_refused(self, orders: Any) -> None:
        orders.insert_one({"_id": 1})
        with pytest.raises(DuplicateKeyError) as caught:
            orders.insert_one({"_id": 1})
        details = caught.value.details
        assert details is not None
        assert (11000, {"_id": 1}, {"_id": 1}) == (
            details["code"],
            details["keyPattern"],
            details["keyValue"],
        )

    def test_updates_deletes_and_counts(self, orders: Any) -> None:
        orders.insert_many([{"_id": i, "n": i} for i in range(10)])
        done = orders.update_many({"n": {"$gte": 5}}, {"$inc": {"n": 10}})
        assert (5, 5) == (done.matched_count, done.modified_count)
        assert 0 == orders.update_one({"_id": 1}, {"$set": {"n": 1}}).modified_count
        assert "new" == orders.update_one({"_id": "new"}, {"$set": {"n": 1}}, upsert=True).upserted_id
        assert 1 == orders.replace_one({"_id": 0}, {"m": 1}).modified_count
        assert {"_id": 0, "m": 1} == orders.find_one({"_id": 0})
        assert 5 == orders.delete_many({"n": {"$gt": 10}}).deleted_count
        assert 6 == orders.count_documents({}) == orders.estimated_document_count()
        assert [1, 2, 3, 4] == sorted(orders.distinct("n"))

    def test_find_and_modify(self, orders: Any) -> None:
        orders.insert_one({"_id": 1, "n": 1})
        assert {"_id": 1, "n": 1} == orders.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}})
        after = orders.find_one_and_update({}, {"$inc": {"n": 1}}, return_document=ReturnDocument.AFTER)
        assert {"_id": 1, "n": 3} == after
        assert {"n": 3} == orders.find_one_and_delete({}, projection={"_id": 0})
        assert orders.find_one_and_delete({}) is None

    def test_bulk_writes(self, orders: Any) -> None:
        done = orders.bulk_write(
            [InsertOne({"_id": 1}), UpdateOne({"_id": 1}, {"$set": {"a": 1}}), DeleteOne({"_id": 1})]
        )
        assert (1, 1, 1) == (done.inserted_count, done.modified_count, done.deleted_count)
        orders.insert_one({"_id": 3})
        with pytest.raises(BulkWriteError) as caught:
            orders.insert_many([{"_id": i} for i in range(5)], ordered=False)
        assert 4 == caught.value.details["nInserted"]

    def test_bulk_writes_to_several_collections(self, client: Client) -> None:
        done = client.bulk_write(
            [
                InsertOne({"_id": 1}, namespace="shop.orders"),
                UpdateOne({"_id": 1}, {"$set": {"a": 1}}, namespace="shop.orders"),
                UpdateOne({"_id": 9}, {"$set": {"a": 1}}, upsert=True, namespace="shop.others"),
                DeleteOne({"_id": 1}, namespace="shop.orders"),
            ],
            verbose_results=True,
        )
        assert (1, 1, 1, 1) == (
            done.inserted_count,
            done.modified_count,
            done.upserted_count,
            done.deleted_count,
        )
        assert 9 == done.update_results[2].upserted_id
        with pytest.raises(ClientBulkWriteException) as caught:
            client.bulk_write([InsertOne({"_id": 9}, namespace="shop.others")])
        assert 11000 == caught.value.write_errors[0]["code"]

    def test_a_cursor_gives_everything_batch_by_batch(self, orders: Any, server: MongoDBServer) -> None:
        orders.insert_many([{"_id": i} for i in range(500)])
        assert list(range(500)) == [one["_id"] for one in orders.find(batch_size=7)]
        assert list(range(499, -1, -1)) == [one["_id"] for one in orders.find().sort("_id", -1)]
        assert [5, 6, 7] == [one["_id"] for one in orders.find().skip(5).limit(3)]
        assert 0 == len(server.deployment.cursors)

    def test_a_cursor_goes_on_in_its_own_namespace_alone(self, orders: Any) -> None:
        orders.insert_many([{"_id": number} for number in range(5)])
        shop = orders.database
        opened = shop.command("find", "orders", batchSize=2)["cursor"]["id"]
        with pytest.raises(OperationFailure) as caught:
            shop.command("getMore", opened, collection="others")
        assert 13 == caught.value.code
        assert 3 == len(shop.command("getMore", opened, collection="orders")["cursor"]["nextBatch"])

    def test_an_element_that_the_filter_has_matched_is_updated(self, orders: Any) -> None:
        orders.insert_one({"_id": 1, "items": [{"q": 1}, {"q": 2}]})
        orders.update_one({"items.q": 2}, {"$set": {"items.$.p": 5}})
        assert {"_id": 1, "items": [{"q": 1}, {"q": 2, "p": 5}]} == orders.find_one()

    def test_a_cursor_that_is_killed_is_gone(self, orders: Any, server: MongoDBServer) -> None:
        orders.insert_many([{"_id": i} for i in range(10)])
        cursor = orders.find(batch_size=2)
        next(cursor)
        assert 1 == len(server.deployment.cursors)
        cursor.close()
        assert 0 == len(server.deployment.cursors)

    def test_a_cursor_reads_the_state_of_when_it_was_opened(self, orders: Any) -> None:
        orders.insert_many([{"_id": i} for i in range(300)])
        cursor = orders.find(batch_size=2)
        next(cursor)
        orders.delete_many({})
        assert 299 == len(list(cursor))

    def test_aggregates(self, orders: Any) -> None:
        orders.insert_many([{"_id": i, "even": i % 2 == 0} for i in range(10)])
        found = orders.aggregate(
            [
                {"$match": {"_id": {"$gt": 2}}},
                {"$group": {"_id": "$even", "n": {"$sum": 1}}},
                {"$sort": {"_id": 1}},
            ]
        )
        assert [{"_id": False, "n": 4}, {"_id": True, "n": 3}] == list(found)

    def test_an_unknown_stage_and_an_unknown_operator_have_their_codes(self, orders: Any) -> None:
        orders.insert_one({})
        for code, ask in (
            (40324, lambda: list(orders.aggregate([{"$nonsense": 1}]))),
            (168, lambda: list(orders.aggregate([{"$set": {"a": {"$nonsense": 1}}}]))),
            (31325, lambda: list(orders.aggregate([{"$project": {"a": {"$nonsense": 1}}}]))),
            (2, lambda: list(orders.find({"a": {"$nonsense": 1}}))),
            (9, lambda: orders.update_one({}, {"$nonsense": {"a": 1}})),
        ):
            with pytest.raises(OperationFailure) as caught:
                ask()
            assert code == caught.value.code

    @pytest.mark.slow
    def test_a_batch_is_never_larger_than_a_reply_may_be(self, orders: Any) -> None:
        orders.insert_many([{"_id": i, "text": "x" * 6_000_000} for i in range(6)])
        assert list(range(6)) == [one["_id"] for one in orders.find()]

    def test_an_unacknowledged_write_is_carried_out(self, client: Client) -> None:
        silent = client["shop"].get_collection("orders", write_concern=WriteConcern(w=0))
        silent.insert_one({"_id": 1})
        with pytest.raises(Exception):  # noqa: B017, PT011
            client["shop"]["orders"].insert_one({"_id": 1})

    def test_a_write_concern_that_one_member_cannot_have_is_said(self, client: Client) -> None:
        twice = client["shop"].get_collection("orders", write_concern=WriteConcern(w=2))
        with pytest.raises(WriteConcernError) as caught:
            twice.insert_one({"_id": 1})
        assert 100 == caught.value.code
        assert 1 == client["shop"]["orders"].count_documents({})

    def test_a_table_made_natively_is_a_collection(self, db: Any, client: Client) -> None:
        games = db.table_create("games")
        games.insert({"id": "a", "score": 1})
        assert [{"_id": "a", "score": 1}] == list(client["reactdb"]["games"].find())
        client["reactdb"]["games"].insert_one({"_id": "b", "score": 2})
        assert {"id": "b", "score": 2} == games.get("b").run()


class TestCollectionsAndIndexes:
    def test_collections_come_and_go(self, client: Client) -> None:
        shop = client["shop"]
        shop.create_collection("a")
        shop["b"].insert_one({})
        assert {"a", "b"} == set(shop.list_collection_names())
        assert ["shop"] == client.list_database_names()
        with pytest.raises(CollectionInvalid):
            shop.create_collection("a")
        shop["b"].rename("c")
        assert ["a"] == shop.list_collection_names(filter={"name": "a"})
        shop.drop_collection("a")
        shop.drop_collection("a")
        assert ["c"] == shop.list_collection_names()
        client.drop_database("shop")
        assert [] == client.list_database_names()

    def test_options_are_listed(self, client: Client) -> None:
        client["shop"].create_collection("a", changeStreamPreAndPostImages={"enabled": True})
        (found,) = client["shop"].list_collections()
        assert {"changeStreamPreAndPostImages": {"enabled": True}} == found["options"]
        client["shop"].command("collMod", "a", changeStreamPreAndPostImages={"enabled": False})
        (found,) = client["shop"].list_collections()
        assert {"changeStreamPreAndPostImages": {"enabled": False}} == found["options"]

    def test_an_index_is_hidden_and_shown_again(self, client: Client, orders: Any) -> None:
        orders.create_index("at", expireAfterSeconds=10)
        shop = client["shop"]
        changed = shop.command("collMod", "orders", index={"name": "at_1", "hidden": True})
        assert (False, True) == (changed["hidden_old"], changed["hidden_new"])
        changed = shop.command("collMod", "orders", index={"keyPattern": {"at": 1}, "expireAfterSeconds": 20})
        assert (10, 20) == (changed["expireAfterSeconds_old"], changed["expireAfterSeconds_new"])
        found = orders.index_information()["at_1"]
        assert (True, 20) == (found["hidden"], found["expireAfterSeconds"])
        for code, said in ((27, {"index": {"name": "b_1", "hidden": True}}), (40415, {"nothing": 1})):
            with pytest.raises(OperationFailure) as caught:
                shop.command("collMod", "orders", **said)
            assert code == caught.value.code

    def test_a_view_is_read_and_not_written(self, client: Client, orders: Any) -> None:
        orders.insert_many([{"_id": i, "n": i} for i in range(5)])
        client["shop"].create_collection("large", viewOn="orders", pipeline=[{"$match": {"n": {"$gt": 2}}}])
        large = client["shop"]["large"]
        assert [{"_id": 4, "n": 4}, {"_id": 3, "n": 3}] == list(large.find().sort("_id", -1))
        assert [{"n": 3}] == list(large.find({"n": 3}, {"_id": 0}))
        assert 2 == large.count_documents({}) == large.estimated_document_count()
        assert [3, 4] == large.distinct("n")
        assert "view" == next(client["shop"].list_collections(filter={"name": "large"}))["type"]
        for code, ask in (
            (166, lambda: large.insert_one({})),
            (166, lambda: large.update_one({}, {"$set": {"a": 1}})),
            (166, lambda: large.create_index("n")),
            (166, lambda: large.watch()),
        ):
            with pytest.raises(OperationFailure) as caught:
                ask()
            assert code == caught.value.code
        large.drop()
        assert ["orders"] == client["shop"].list_collection_names()

    def test_indexes(self, orders: Any) -> None:
        assert "n_1" == orders.create_index("n", unique=True)
        assert {"_id_", "n_1"} == set(orders.index_information())
        orders.insert_one({"n": 1})
        with pytest.raises(DuplicateKeyError) as caught:
            orders.insert_one({"n": 1})
        assert caught.value.details is not None
        assert {"n": 1} == caught.value.details["keyPattern"]
        orders.drop_index("n_1")
        orders.insert_one({"n": 1})
        assert {"_id_"} == set(orders.index_information())


class TestSessions:
    def test_a_transaction_is_one_commit(self, client: Client, orders: Any, db: Any) -> None:
        orders.insert_one({"_id": 0})
        before = len(list(db.log()))
        with client.start_session() as session, session.start_transaction():
            orders.insert_one({"_id": 1}, session=session)
            orders.update_one({"_id": 0}, {"$set": {"a": 1}}, session=session)
            assert 1 == orders.count_documents({"_id": 1}, session=session)
            assert 0 == orders.count_documents({"_id": 1})
        assert [{"_id": 0, "a": 1}, {"_id": 1}] == list(orders.find())
        written = list(db.log())[before:]
        assert 2 == len(written)
        assert 1 == len({change.commit for change in written} if hasattr(written[0], "commit") else {0})

    @pytest.mark.parametrize("command", ["dropIndexes", "drop", "collMod", "count", "listCollections"])
    def test_a_command_that_cannot_be_in_a_transaction_is_refused(
        self, client: Client, orders: Any, command: str
    ) -> None:
        with client.start_session() as session, session.start_transaction():
            orders.insert_one({"_id": 1}, session=session)
            with pytest.raises(OperationFailure) as caught:
                client["shop"].command(command, "orders", session=session)
            assert 263 == caught.value.code

    def test_an_aborted_transaction_leaves_nothing(self, client: Client, orders: Any) -> None:
        orders.insert_one({"_id": 0})
        with client.start_session() as session:
            session.start_transaction()
            orders.insert_one({"_id": 1}, session=session)
            session.abort_transaction()
        assert [{"_id": 0}] == list(orders.find())

    def test_the_second_writer_of_a_document_is_told_to_try_again(self, client: Client, orders: Any) -> None:
        orders.insert_one({"_id": 0, "n": 0})
        with client.start_session() as one, client.start_session() as other:
            one.start_transaction()
            other.start_transaction()
            orders.update_one({"_id": 0}, {"$inc": {"n": 1}}, session=one)
            with pytest.raises(OperationFailure) as caught:
                orders.update_one({"_id": 0}, {"$inc": {"n": 1}}, session=other)
            assert 112 == caught.value.code
            assert caught.value.has_error_label("TransientTransactionError")
            one.commit_transaction()
        assert {"_id": 0, "n": 1} == orders.find_one()

    def test_a_snapshot_session_reads_one_moment(self, client: Client, orders: Any) -> None:
        orders.insert_many([{"_id": i} for i in range(3)])
        with client.start_session(snapshot=True) as session:
            assert 3 == len(list(orders.find(session=session)))
            orders.insert_one({"_id": 9})
            orders.delete_one({"_id": 0})
            assert [0, 1, 2] == [one["_id"] for one in orders.find(session=session, batch_size=2)]
            assert [0, 1, 2] == orders.distinct("_id", session=session)
            assert [{"n": 3}] == list(orders.aggregate([{"$count": "n"}], session=session))
        assert [1, 2, 9] == [one["_id"] for one in orders.find()]

    def test_with_transaction(self, client: Client, orders: Any) -> None:
        orders.insert_one({"_id": 0, "n": 0})
        with client.start_session() as session:
            session.with_transaction(
                lambda inside: orders.update_one({"_id": 0}, {"$inc": {"n": 1}}, session=inside)
            )
        assert {"_id": 0, "n": 1} == orders.find_one()

    def test_a_write_that_is_sent_again_is_not_carried_out_again(
        self, server: MongoDBServer, client: Client
    ) -> None:
        session = {"id": Binary(b"s" * 16, 4)}
        with Wire(server.port) as wire:
            body = {
                "update": "orders",
                "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}, "upsert": True}],
                "$db": "shop",
                "lsid": session,
            }
            first = wire.ask({**body, "txnNumber": Int64(1)})
            again = wire.ask({**body, "txnNumber": Int64(1)})
            assert (1, first["upserted"]) == (again["n"], again["upserted"])
            assert 1 == wire.ask({**body, "txnNumber": Int64(2)})["nModified"]
            assert 225 == wire.ask({**body, "txnNumber": Int64(1)})["code"]
        assert {"_id": 1, "n": 2} == client["shop"]["orders"].find_one()

    @pytest.mark.slow
    def test_a_lost_answer_is_asked_for_again_by_the_driver(self, client: Client, orders: Any) -> None:
        client.admin.command(
            "configureFailPoint",
            "failCommand",
            mode={"times": 1},
            data={"failCommands": ["insert"], "closeConnection": True},
        )
        orders.insert_one({"_id": 1})
        assert 1 == orders.count_documents({})


class TestWhoMayComeIn:
    def test_a_password_is_proven(self, db: Any) -> None:
        with serve_in_thread(db, credentials=Credentials("ann", "secret")) as server:
            with MongoClient(server.uri, username="ann", password="secret") as client:
                client["shop"]["orders"].insert_one({"_id": 1})
                assert (
                    "ann"
                    == client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"][0]["user"]
                )
            with MongoClient(server.uri) as stranger, pytest.raises(OperationFailure) as caught:
                stranger["shop"]["orders"].find_one()
            assert 13 == caught.value.code
            with (
                MongoClient(server.uri, username="ann", password="wrong") as wrong,
                pytest.raises(OperationFailure) as failed,
            ):
                wrong["shop"]["orders"].find_one()
            assert 18 == failed.value.code

    def test_without_the_first_message_in_hello_it_works_as_well(self, db: Any) -> None:
        with (
            serve_in_thread(db, credentials=Credentials("ann", "secret")) as server,
            Wire(server.port) as wire,
        ):
            assert 17 == wire.ask({"saslContinue": 1, "conversationId": 1, "payload": b""})["code"]
            assert 334 == wire.ask({"saslStart": 1, "mechanism": "PLAIN", "payload": b""})["code"]
            assert (
                18 == wire.ask({"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": b"nonsense"})["code"]
            )
            begun = wire.ask({"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": b"n,,n=ann,r=abc"})
            assert (1.0, False) == (begun["ok"], begun["done"])
            assert begun["payload"].startswith(b"r=abc")

    def test_who_has_proven_nothing_sends_no_long_messages(self, db: Any) -> None:
        credentials = Credentials("ann", "secret")
        with serve_in_thread(db, credentials=credentials) as server, Wire(server.port) as wire:
            wire.send(message({"ping": 1, "$db": "admin", "comment": "x" * 60_000}))
            assert wire.is_closed()

    def test_a_server_without_users_wants_no_password(self, server: MongoDBServer) -> None:
        with (
            MongoClient(server.uri, username="ann", password="secret") as client,
            pytest.raises(OperationFailure) as caught,
        ):
            client.admin.command("ping")
        assert 18 == caught.value.code


class TestTheServer:
    def test_it_looks_like_a_replica_set(self, client: Client, server: MongoDBServer) -> None:
        hello = client.admin.command("hello")
        assert ("rs0", [f"127.0.0.1:{server.port}"]) == (hello["setName"], hello["hosts"])
        assert client.is_primary
        with MongoClient(server.uri, replicaSet="rs0") as other:
            assert 1.0 == other.admin.command("ping")["ok"]

    def test_a_unix_socket(self, db: Any, tmp_path: Path) -> None:
        path = str(tmp_path / "s.sock")
        with serve_in_thread(db, path=path) as server, MongoClient(server.uri) as client:
            client["shop"]["orders"].insert_one({"_id": 1})
            assert {"_id": 1} == client["shop"]["orders"].find_one()
        assert not Path(path).exists()

    def test_what_was_acknowledged_is_there_when_it_starts_again(self, tmp_path: Path) -> None:
        path = tmp_path / "a.db"
        with reactdb.connect(path) as db, serve_in_thread(db) as server, MongoClient(server.uri) as client:
            client["shop"]["orders"].insert_one({"_id": 1})
        with reactdb.connect(path) as db, serve_in_thread(db) as server, MongoClient(server.uri) as client:
            assert [{"_id": 1}] == list(client["shop"]["orders"].find())

    def test_a_command_that_may_not_take_so_long_is_stopped(self, client: Client, orders: Any) -> None:
        orders.insert_many([{"_id": i} for i in range(30_000)])
        with pytest.raises(ExecutionTimeout):
            orders.count_documents({"$expr": {"$eq": [{"$add": ["$_id", 1]}, -1]}}, maxTimeMS=1)

    def test_an_ordered_failure_is_told_as_such(self, client: Client) -> None:
        client.admin.command(
            "configureFailPoint",
            "failCommand",
            mode={"times": 2},
            data={"failCommands": ["ping"], "errorCode": 10107},
        )
        with pytest.raises(NotPrimaryError):
            client.admin.command("ping")

    def test_what_a_collection_has_is_told(self, client: Client) -> None:
        client["shop"]["orders"].insert_many([{"_id": i} for i in range(3)])
        client["shop"]["orders"].create_index("n")
        assert 3 == client["shop"].command("collStats", "orders")["count"]
        assert 3 == client["shop"].command("dbStats")["objects"]
        assert client["shop"].validate_collection("orders")["valid"]
        assert (
            "IDHACK"
            == client["shop"]["orders"].find({"_id": 1}).explain()["queryPlanner"]["winningPlan"]["stage"]
        )

    def test_statistics_and_versions(self, client: Client) -> None:
        assert client.server_info()["version"].startswith("8.")
        assert client.admin.command("serverStatus")["repl"]["setName"] == "rs0"
        less = client.admin.command("serverStatus", repl=0, mem=None, host=False)
        assert {"host"} == {"repl", "mem", "host"} & less.keys()
        assert {"repl", "mem"} <= client.admin.command("serverStatus", repl=1, mem="x").keys()
        assert {"insert", "find", "aggregate"} <= client.admin.command("listCommands")["commands"].keys()

    def test_the_machine_and_the_logs_are_described(self, client: Client) -> None:
        told = client.admin.command("hostInfo")
        assert told["system"]["numCores"] >= 1
        assert told["system"]["cpuArch"]
        assert told["os"]["type"] == platform.system()
        assert ["global", "startupWarnings"] == client.admin.command("getLog", "*")["names"]
        assert [] == client.admin.command("getLog", "startupWarnings")["log"]

    @pytest.mark.parametrize(
        ("code", "database", "body"),
        [
            (96, "admin", {"getLog": "rs"}),
            (14, "admin", {"getLog": 1}),
            (13, "shop", {"getLog": "global"}),
            (40415, "admin", {"getLog": "global", "lines": 1}),
        ],
    )
    def test_a_log_that_is_not_there_is_refused(
        self, client: Client, code: int, database: str, body: dict[str, Any]
    ) -> None:
        with pytest.raises(OperationFailure) as refused:
            client[database].command(body)
        assert code == refused.value.code

    def test_what_was_asked_for_is_counted(self, client: Client) -> None:
        orders = client["shop"]["orders"]
        before = client.admin.command("serverStatus")
        orders.insert_many([{"_id": n} for n in range(3)])
        assert 3 == len(list(orders.find(batch_size=2)))
        orders.update_one({}, {"$set": {"n": 1}})
        orders.delete_one({})
        client["shop"].command("ping")
        client["shop"].command("ping")
        after = client.admin.command("serverStatus")

        done = {name: number - before["opcounters"][name] for name, number in after["opcounters"].items()}
        assert 2 <= done.pop("command")
        assert done == {"insert": 1, "query": 1, "update": 1, "delete": 1, "getmore": 1}
        assert 2 == after["metrics"]["commands"]["ping"]["total"]
        assert after["connections"]["totalCreated"] >= after["connections"]["current"] > 0

    def test_the_fixture_of_the_plugin(self, reactdb_mongodb: Client) -> None:
        reactdb_mongodb["shop"]["orders"].insert_one({"_id": 1})
        assert 1 == reactdb_mongodb["shop"]["orders"].count_documents({})


def test_a_pipeline_that_is_explained_writes_nothing(client: Client) -> None:
    client["shop"]["orders"].insert_one({"_id": 1})

    client["shop"].command("aggregate", "orders", pipeline=[{"$out": "copy"}], explain=True)

    assert client["shop"]["copy"].count_documents({}) == 0


def test_an_answer_is_given_also_where_the_newest_moment_cannot_be_read(
    db: reactdb.Database, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client["shop"]["orders"].insert_one({})
    known = client.admin.command("ping")["operationTime"]

    def busy(*_arguments: Any) -> Any:
        raise DatabaseBusy("somebody writes")

    monkeypatch.setattr(type(session_of(db).engine), "newest_seq", busy)
    assert known == client.admin.command("ping")["operationTime"]
    monkeypatch.undo()
