"""Rules of collections: validators, and what caps them, whoever writes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb import Database
from reactdb.errors import UsageError

bson = pytest.importorskip("bson")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from pymongo import CursorType, InsertOne, UpdateOne  # noqa: E402
from pymongo.errors import BulkWriteError, OperationFailure  # noqa: E402

from reactdb.dialects.mongodb.capped_collections import all_places, order_table_of, totals_in  # noqa: E402
from reactdb.dialects.mongodb.filters import Filter  # noqa: E402
from reactdb.dialects.mongodb.names import MongoNamespace  # noqa: E402
from reactdb.dialects.mongodb.validation_error import details  # noqa: E402
from reactdb.session import session_of  # noqa: E402
from reactdb.store.tools.doctor import examine  # noqa: E402
from tests.support.scaling import examples  # noqa: E402

SCHEMA = {"$jsonSchema": {"required": ["n"], "properties": {"n": {"bsonType": "int", "minimum": 3}}}}


@pytest.fixture
def db() -> Iterator[Database]:
    with reactdb.connect(":memory:") as opened:
        yield opened


@pytest.fixture
def client(db: Database) -> Any:
    return reactdb.mongodb(db)


@pytest.fixture
def shop(client: Any) -> Any:
    return client["shop"]


def refused(call: Any, *arguments: Any, **options: Any) -> dict[str, Any]:
    """The `errInfo` of a write that a validator refuses."""
    with pytest.raises(OperationFailure) as caught:
        call(*arguments, **options)
    assert 121 == caught.value.code
    assert "DocumentValidationFailure" == caught.value.details["codeName"]  # type: ignore[index]
    found: dict[str, Any] = caught.value.details["errInfo"]  # type: ignore[index]
    return found


class TestValidators:
    @pytest.fixture
    def orders(self, shop: Any) -> Any:
        return shop.create_collection("orders", validator=SCHEMA)

    def test_a_document_that_does_not_match_is_refused_with_the_reason(self, orders: Any) -> None:
        told = refused(orders.insert_one, {"_id": 1, "n": 1})
        (rule,) = told["details"]["schemaRulesNotSatisfied"]
        assert (1, "$jsonSchema") == (told["failingDocumentId"], told["details"]["operatorName"])
        assert "properties" == rule["operatorName"]
        assert [{"propertyName": "n", "details": [LEAST_3]}] == rule["propertiesNotSatisfied"]
        assert orders.find_one() is None

    def test_updates_replacements_upserts_and_find_and_modify_are_validated(self, orders: Any) -> None:
        orders.insert_one({"_id": 1, "n": 3})
        refused(orders.update_one, {"_id": 1}, {"$inc": {"n": -1}})
        refused(orders.update_many, {}, [{"$unset": "n"}])
        refused(orders.replace_one, {"_id": 1}, {})
        refused(orders.update_one, {"_id": 2}, {"$set": {"a": 1}}, upsert=True)
        refused(orders.find_one_and_update, {"_id": 1}, {"$set": {"n": "x"}})
        refused(orders.find_one_and_replace, {"_id": 1}, {"n": 0})
        assert [{"_id": 1, "n": 3}] == list(orders.find())

    def test_a_bulk_write_tells_which_one_was_refused(self, orders: Any) -> None:
        requests = [
            InsertOne({"_id": 1, "n": 3}),
            InsertOne({"_id": 2}),
            UpdateOne({"_id": 1}, {"$inc": {"n": 1}}),
        ]
        with pytest.raises(BulkWriteError) as caught:
            orders.bulk_write(requests, ordered=False)
        (error,) = caught.value.details["writeErrors"]
        assert (1, 121, 2) == (error["index"], error["code"], error["errInfo"]["failingDocumentId"])
        assert [{"_id": 1, "n": 4}] == list(orders.find())

    def test_insert_many_goes_on_after_a_refusal_where_it_is_not_ordered(self, orders: Any) -> None:
        with pytest.raises(BulkWriteError) as caught:
            orders.insert_many([{"_id": 1}, {"_id": 2, "n": 3}], ordered=False)
        assert 1 == caught.value.details["nInserted"]

    def test_validation_can_be_bypassed(self, orders: Any) -> None:
        orders.insert_one({"_id": 1}, bypass_document_validation=True)
        orders.insert_many([{"_id": 2}], bypass_document_validation=True)
        orders.update_one({"_id": 1}, {"$set": {"a": 1}}, bypass_document_validation=True)
        orders.replace_one({"_id": 2}, {"a": 2}, bypass_document_validation=True)
        orders.bulk_write([InsertOne({"_id": 3})], bypass_document_validation=True)
        assert 3 == orders.count_documents({})

    def test_a_moderate_validator_leaves_those_alone_that_never_matched(self, shop: Any) -> None:
        orders = shop.create_collection("orders", validator=SCHEMA, validationLevel="moderate")
        orders.insert_one({"_id": 1}, bypass_document_validation=True)
        orders.insert_one({"_id": 2, "n": 3})
        orders.update_one({"_id": 1}, {"$set": {"a": 1}})
        refused(orders.update_one, {"_id": 2}, {"$unset": {"n": 1}})
        refused(orders.insert_one, {"_id": 3})

    def test_a_strict_one_does_not(self, orders: Any) -> None:
        orders.insert_one({"_id": 1}, bypass_document_validation=True)
        refused(orders.update_one, {"_id": 1}, {"$set": {"a": 1}})

    def test_one_that_is_off_refuses_nothing(self, shop: Any) -> None:
        orders = shop.create_collection("orders", validator=SCHEMA, validationLevel="off")
        orders.insert_one({"_id": 1})

    def test_one_that_warns_writes_to_the_log_of_the_program(
        self, shop: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        orders = shop.create_collection("orders", validator=SCHEMA, validationAction="warn")
        with caplog.at_level(logging.WARNING, "reactdb"):
            orders.insert_one({"_id": 1})
        assert "does not pass the validator" in caplog.text

    def test_a_native_program_is_validated_too(self, db: Database, orders: Any) -> None:
        with pytest.raises(UsageError, match="Document failed validation"):
            db.table("shop.orders").insert({"_id": 1, "n": 1})
        db.table("shop.orders").insert({"_id": 1, "n": 3})
        with pytest.raises(UsageError):
            db.table("shop.orders").get(1).update({"n": 1})

    def test_a_transaction_is_validated_statement_by_statement(self, client: Any, orders: Any) -> None:
        with client.start_session() as session:
            session.start_transaction()
            refused(orders.insert_one, {"_id": 1}, session=session)
            session.abort_transaction()
            session.start_transaction()
            orders.insert_one({"_id": 2, "n": 3}, session=session)
            orders.insert_one({"_id": 3}, session=session, bypass_document_validation=True)
            session.commit_transaction()
        assert [2, 3] == orders.distinct("_id")

    def test_change_streams_are_told_what_an_operator_touched(self, orders: Any) -> None:
        with orders.watch() as stream:
            orders.insert_one({"_id": 1, "n": 3, "a": {"b": 1, "c": 2}})
            orders.update_one({"_id": 1}, {"$set": {"a.b": 2}})
            stream.try_next()
            assert {"a.b": 2} == stream.try_next()["updateDescription"]["updatedFields"]

    def test_merge_and_out_are_validated_unless_they_bypass_it(self, shop: Any, orders: Any) -> None:
        shop["source"].insert_one({"_id": 1})
        for stage in ({"$merge": "orders"}, {"$out": "orders"}):
            refused(shop["source"].aggregate, [stage])
            assert orders.find_one() is None
            shop["source"].aggregate([stage], bypassDocumentValidation=True)
            assert {"_id": 1} == orders.find_one()
            orders.delete_many({})

    def test_it_can_be_changed_and_removed(self, client: Any, shop: Any, orders: Any) -> None:
        place = MongoNamespace("shop", "orders")
        client.spaces.modify(place, {"validator": {"m": 1}})
        refused(orders.insert_one, {"_id": 1, "n": 3})
        orders.insert_one({"_id": 2, "m": 1})
        client.spaces.modify(place, {"validator": {}})
        orders.insert_one({"_id": 1, "n": 3})

    def test_a_native_table_can_be_given_one(self, db: Database, client: Any) -> None:
        table = db.table_create("shop.native", primary_key="id")
        client.spaces.modify(MongoNamespace("shop", "native"), {"validator": {"n": {"$gt": 1}}})
        with pytest.raises(UsageError):
            table.insert({"id": 1, "n": 1})
        table.insert({"id": 1, "n": 2})

    def test_what_is_no_validator_is_refused_when_it_is_made(self, shop: Any) -> None:
        for code, options in (
            (14, {"validator": 1}),
            (2, {"validator": {"a": {"$nonsense": 1}}}),
            (2, {"validator": {}, "validationLevel": "sometimes"}),
            (2, {"validator": {}, "validationAction": "cry"}),
            (72, {"viewOn": "b", "pipeline": [], "validator": {"a": 1}}),
        ):
            with pytest.raises(OperationFailure) as caught:
                shop.create_collection("a", **options)
            assert code == caught.value.code

    def test_it_is_there_after_the_file_was_opened_again(self, tmp_path: Any) -> None:
        with reactdb.connect(tmp_path / "a.db") as db:
            reactdb.mongodb(db)["shop"].create_collection("orders", validator=SCHEMA)
        with reactdb.connect(tmp_path / "a.db") as db, pytest.raises(UsageError):
            db.table("shop.orders").insert({"_id": 1})


LEAST_3 = {
    "operatorName": "minimum",
    "specifiedAs": {"minimum": 3},
    "reason": "comparison failed",
    "consideredValue": 1,
}


class TestReasons:
    @pytest.mark.parametrize(
        ("validator", "document", "told"),
        [
            (
                {"a": {"$gt": 3}},
                {"a": 1},
                {
                    "operatorName": "$gt",
                    "specifiedAs": {"a": {"$gt": 3}},
                    "reason": "comparison failed",
                    "consideredValue": 1,
                },
            ),
            (
                {"a": 1},
                {},
                {"operatorName": "$eq", "specifiedAs": {"a": 1}, "reason": "field was missing"},
            ),
            (
                {"a": {"$type": "string"}},
                {"a": 1},
                {
                    "operatorName": "$type",
                    "specifiedAs": {"a": {"$type": "string"}},
                    "reason": "type did not match",
                    "consideredValue": 1,
                    "consideredType": "int",
                },
            ),
            (
                {"$expr": {"$gt": ["$a", 3]}},
                {"a": 1},
                {
                    "operatorName": "$expr",
                    "specifiedAs": {"$expr": {"$gt": ["$a", 3]}},
                    "reason": "expression did not match",
                    "expressionResult": False,
                },
            ),
        ],
    )
    def test_one_condition_is_told_with_what_was_found(
        self, validator: dict[str, Any], document: dict[str, Any], told: dict[str, Any]
    ) -> None:
        assert told == details(validator, document)

    def test_of_several_those_are_told_that_failed(self) -> None:
        told = details({"a": {"$gt": 3, "$lt": 9}, "b": 1, "$or": [{"c": 1}, {"d": 1}]}, {"a": 1, "b": 1})
        assert [0, 2] == [one["index"] for one in told["clausesNotSatisfied"]]
        assert [0, 1] == [
            one["index"] for one in told["clausesNotSatisfied"][1]["details"]["clausesNotSatisfied"]
        ]

    def test_every_keyword_of_a_schema_is_told(self) -> None:
        for schema, value in (
            ({"enum": [1]}, 2),
            ({"pattern": "^a"}, "b"),
            ({"minLength": 2}, "b"),
            ({"items": {"bsonType": "int"}}, [1, "x"]),
            ({"uniqueItems": True}, [1, 1]),
            ({"allOf": [{"bsonType": "int"}]}, "x"),
            ({"anyOf": [{"bsonType": "int"}]}, "x"),
            ({"oneOf": [{"bsonType": "int"}, {"minimum": 0}]}, 3),
            ({"oneOf": [{"bsonType": "int"}]}, "x"),
            ({"not": {"bsonType": "int"}}, 3),
            ({"additionalProperties": False}, {"a": 1}),
            ({"additionalProperties": {"bsonType": "int"}}, {"a": "x"}),
            ({"patternProperties": {"^a": {"bsonType": "int"}}}, {"ab": "x"}),
            ({"dependencies": {"a": ["b"]}}, {"a": 1}),
            ({"minProperties": 2}, {"a": 1}),
        ):
            told = details({"$jsonSchema": {"properties": {"v": schema}}}, {"_id": 1, "v": value})
            ((wrong,),) = (rule["propertiesNotSatisfied"] for rule in told["schemaRulesNotSatisfied"])
            (reason,) = wrong["details"]
            assert next(iter(schema)) == reason["operatorName"]

    @given(
        st.dictionaries(
            st.sampled_from("abc"),
            st.one_of(
                st.integers(0, 3),
                st.builds(lambda x: {"$gt": x}, st.integers(0, 3)),
                st.builds(lambda x: {"$in": [x]}, st.integers(0, 3)),
                st.just({"$exists": False}),
                st.just({"$not": {"$gt": 1}}),
            ),
            min_size=1,
        ),
        st.dictionaries(st.sampled_from("abc"), st.integers(0, 3) | st.just("x")),
    )
    @settings(max_examples=examples(100))
    def test_law_what_fails_has_a_reason(self, spec: dict[str, Any], document: dict[str, Any]) -> None:
        if not Filter(spec).matches(document):
            told = details(spec, document)
            assert told["operatorName"]
            assert told.get("clausesNotSatisfied", True)


class TestCapped:
    @pytest.fixture
    def log(self, shop: Any) -> Any:
        return shop.create_collection("log", capped=True, size=4096, max=3)

    def test_the_oldest_go_and_the_others_are_found_in_the_order_in_which_they_came(self, log: Any) -> None:
        for id in (5, 3, 9, 1, 7):
            log.insert_one({"_id": id})
        assert [9, 1, 7] == [one["_id"] for one in log.find()]
        assert [7, 1, 9] == [one["_id"] for one in log.find().sort("$natural", -1)]
        assert [9, 7] == [one["_id"] for one in log.find({"_id": {"$gt": 1}})]
        assert [9, 1] == [one["_id"] for one in log.aggregate([{"$limit": 2}])]
        assert 3 == log.estimated_document_count()

    def test_bytes_are_counted(self, shop: Any) -> None:
        log = shop.create_collection("log", capped=True, size=1000)
        assert 1024 == log.options()["size"]
        for id in range(30):
            log.insert_one({"_id": id, "a": "x" * 100})
        size = len(bson.encode({"_id": 1, "a": "x" * 100}))
        assert list(range(30 - 1024 // size, 30)) == [one["_id"] for one in log.find()]

    def test_a_document_that_is_too_large_alone_takes_the_place_of_all(self, log: Any) -> None:
        log.insert_many([{"_id": 1}, {"_id": 2}])
        log.insert_one({"_id": 3, "a": "x" * 5000})
        assert [3] == [one["_id"] for one in log.find()]

    def test_insert_and_room_are_one_commit(self, db: Database, log: Any) -> None:
        log.insert_many([{"_id": id} for id in range(4)])
        first, *_, last = db.log(table="shop.log")
        assert ("delete", 0) == (last.kind, last.key)
        assert first.commit == last.commit

    def test_what_a_native_program_inserts_is_counted(self, db: Database, log: Any) -> None:
        log.insert_many([{"_id": id} for id in range(3)])
        db.table("shop.log").insert({"_id": 10})
        db.table("shop.log").get(2).delete()
        assert [1, 10] == [one["_id"] for one in log.find()]
        log.insert_one({"_id": 11})
        log.insert_one({"_id": 12})
        assert [10, 11, 12] == [one["_id"] for one in log.find()]

    def test_an_update_keeps_the_place(self, log: Any) -> None:
        log.insert_many([{"_id": id} for id in range(3)])
        log.update_one({"_id": 0}, {"$set": {"a": 1}})
        log.replace_one({"_id": 1}, {"b": 1})
        assert [0, 1, 2] == [one["_id"] for one in log.find()]
        log.insert_one({"_id": 3})
        assert [1, 2, 3] == [one["_id"] for one in log.find()]

    def test_the_first_in_order_is_the_one_that_is_meant(self, log: Any) -> None:
        log.insert_many([{"_id": 9}, {"_id": 1}])
        assert {"_id": 9} == log.find_one_and_delete({})

    def test_streams_do_not_tell_of_what_makes_room(self, log: Any) -> None:
        with log.watch() as stream:
            for id in range(4):
                log.insert_one({"_id": id})
            log.delete_one({"_id": 2})
            told = [stream.try_next() for _ in range(5)]
            assert ["insert"] * 4 + ["delete"] == [one["operationType"] for one in told]
            assert {"_id": 2} == told[-1]["documentKey"]
            assert stream.try_next() is None

    def test_streams_tell_what_a_native_update_has_changed(self, db: Database, log: Any) -> None:
        log.insert_one({"_id": 1, "a": 1})
        with log.watch() as stream:
            db.table("shop.log").get(1).update({"b": 2})
            assert {"b": 2} == stream.try_next()["updateDescription"]["updatedFields"]

    def test_it_is_not_written_in_a_transaction(self, client: Any, log: Any) -> None:
        with client.start_session() as session:
            session.start_transaction()
            with pytest.raises(OperationFailure) as caught:
                log.insert_one({"_id": 1}, session=session)
            assert 263 == caught.value.code

    def test_it_can_have_a_validator_beside(self, shop: Any) -> None:
        log = shop.create_collection("log", capped=True, size=4096, max=1, validator={"n": {"$gt": 1}})
        refused(log.insert_one, {"n": 1})
        log.insert_many([{"n": 2}, {"n": 3}])
        assert [3] == log.distinct("n")

    def test_what_caps_a_collection_has_to_make_sense(self, shop: Any) -> None:
        for code, options in (
            (72, {"capped": True}),
            (72, {"size": 100}),
            (72, {"max": 100}),
            (14, {"capped": True, "size": "x"}),
            (14, {"capped": "yes", "size": 100}),
            (14, {"capped": True, "size": True}),
            (2, {"capped": True, "size": 0}),
            (2, {"capped": True, "size": 0.9}),
            (2, {"capped": True, "size": -1}),
            (2, {"capped": True, "size": 100, "max": 2**31}),
        ):
            with pytest.raises(OperationFailure) as caught:
                shop.command("create", "a", **options)
            assert code == caught.value.code

    def test_out_cannot_take_its_place(self, shop: Any, log: Any) -> None:
        shop["a"].insert_one({})
        with pytest.raises(OperationFailure) as caught:
            shop["a"].aggregate([{"$out": "log"}])
        assert 17152 == caught.value.code

    def test_one_that_is_dropped_leaves_nothing(self, db: Database, log: Any) -> None:
        log.insert_one({})
        log.drop()
        assert not [one for one in session_of(db).engine.catalogue.live if "order." in str(one)]

    @given(
        st.integers(1, 4),
        st.lists(
            st.tuples(st.sampled_from(["insert", "native", "delete", "update"]), st.integers(0, 6)),
            max_size=25,
        ),
    )
    @settings(max_examples=examples(60), deadline=None)
    def test_law_it_has_the_newest_in_their_order(self, most: int, steps: list[tuple[str, int]]) -> None:
        with reactdb.connect(":memory:") as db:
            shop = reactdb.mongodb(db)["shop"]
            log = shop.create_collection("log", capped=True, size=4096, max=most)
            model: list[int] = []
            for what, id in steps:
                if what in ("insert", "native") and id not in model:
                    if what == "insert":
                        log.insert_one({"_id": id})
                    else:
                        db.table("shop.log").insert({"_id": id})
                    model = [*model, id][-most:]
                elif what == "delete":
                    log.delete_one({"_id": id})
                    model = [one for one in model if one != id]
                elif what == "update":
                    log.update_one({"_id": id}, {"$inc": {"n": 1}})
            assert model == [one["_id"] for one in log.find()]
            with session_of(db).read() as snapshot:
                table = snapshot.catalogue.live["shop.log"]
                order = order_table_of(snapshot.catalogue, table)
                assert order is not None
                assert len(model) == len(list(all_places(snapshot, order))) == totals_in(snapshot, order).held


class TestTailing:
    @pytest.fixture
    def log(self, shop: Any) -> Any:
        return shop.create_collection("log", capped=True, size=4096, max=3)

    def test_it_goes_on_with_what_was_inserted_meanwhile(self, log: Any) -> None:
        log.insert_many([{"_id": 5}, {"_id": 3}])
        with log.find(cursor_type=CursorType.TAILABLE) as cursor:
            assert [5, 3] == [one["_id"] for one in cursor]
            assert cursor.alive
            assert cursor.try_next() is None
            log.insert_one({"_id": 1})
            assert {"_id": 1} == cursor.next()
            assert cursor.alive
        assert not cursor.alive

    def test_it_has_the_filter_and_the_projection_of_its_find(self, log: Any) -> None:
        log.insert_many([{"_id": 1, "n": 1}, {"_id": 2, "n": 2}])
        cursor = log.find({"n": {"$gt": 1}}, {"_id": 0, "n": 1}, cursor_type=CursorType.TAILABLE)
        assert [{"n": 2}] == list(cursor)
        log.insert_many([{"_id": 3, "n": 0}, {"_id": 4, "n": 4}])
        assert [{"n": 4}] == list(cursor)

    def test_it_stops_at_its_limit(self, log: Any) -> None:
        log.insert_one({"_id": 1})
        cursor = log.find(cursor_type=CursorType.TAILABLE).skip(1).limit(1)
        assert [] == list(cursor)
        log.insert_many([{"_id": 2}, {"_id": 3}])
        assert [{"_id": 2}] == list(cursor)
        assert not cursor.alive

    def test_one_that_awaits_data_is_woken_by_it(self, log: Any) -> None:
        log.insert_one({"_id": 1})
        cursor = log.find(cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(60_000)
        assert {"_id": 1} == cursor.next()
        heard: list[Any] = []
        waiter = threading.Thread(target=lambda: heard.append(cursor.next()))
        waiter.start()
        log.insert_one({"_id": 2})
        waiter.join(30)
        assert [{"_id": 2}] == heard

    def test_one_that_awaits_data_ends_after_its_time(self, log: Any) -> None:
        log.insert_one({"_id": 1})
        cursor = log.find(cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(1)
        assert [{"_id": 1}] == list(cursor)
        assert cursor.alive

    def test_what_it_has_not_seen_and_is_gone_is_an_error(self, log: Any) -> None:
        log.insert_one({"_id": 0})
        cursor = log.find(cursor_type=CursorType.TAILABLE)
        assert {"_id": 0} == cursor.next()
        log.insert_many([{"_id": id} for id in range(1, 5)])
        with pytest.raises(OperationFailure) as caught:
            cursor.next()
        assert 136 == caught.value.code
        assert not cursor.alive

    def test_one_whose_place_was_deleted_is_at_its_end(self, log: Any) -> None:
        log.insert_many([{"_id": 1}, {"_id": 2}])
        cursor = log.find(cursor_type=CursorType.TAILABLE)
        assert [1, 2] == [one["_id"] for one in cursor]
        log.delete_one({"_id": 1})
        assert cursor.try_next() is None
        log.delete_one({"_id": 2})
        with pytest.raises(OperationFailure) as caught:
            cursor.next()
        assert 136 == caught.value.code

    def test_of_an_empty_collection_there_is_nothing_to_tail(self, shop: Any, log: Any) -> None:
        for collection in (log, shop["missing"]):
            cursor = collection.find(cursor_type=CursorType.TAILABLE)
            assert [] == list(cursor)
            assert not cursor.alive

    def test_what_cannot_be_tailed_is_refused(self, shop: Any, log: Any) -> None:
        shop["plain"].insert_one({})
        shop.create_collection("view", viewOn="log", pipeline=[])
        for code, cursor in (
            (2, shop["plain"].find(cursor_type=CursorType.TAILABLE)),
            (168, shop["view"].find(cursor_type=CursorType.TAILABLE)),
            (2, log.find(cursor_type=CursorType.TAILABLE).sort("a", 1)),
        ):
            with pytest.raises(OperationFailure) as caught:
                cursor.next()
            assert code == caught.value.code

    def test_a_collection_that_is_dropped_ends_it(self, log: Any) -> None:
        log.insert_one({})
        cursor = log.find(cursor_type=CursorType.TAILABLE)
        cursor.next()
        log.drop()
        with pytest.raises(OperationFailure) as caught:
            cursor.next()
        assert 175 == caught.value.code

    def test_it_can_begin_again(self, log: Any) -> None:
        log.insert_one({"_id": 1})
        cursor = log.find(cursor_type=CursorType.TAILABLE)
        assert [{"_id": 1}] == list(cursor)
        assert [{"_id": 1}] == list(cursor.rewind())


def test_files_with_rules_are_sound_and_a_copy_of_one_keeps_to_them(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with reactdb.connect(path) as db:
        shop = reactdb.mongodb(db)["shop"]
        log = shop.create_collection("log", capped=True, size=4096, max=3, validator={"n": {"$gt": 0}})
        log.insert_many([{"_id": id, "n": 1} for id in range(9)])
        log.update_one({"_id": 8}, {"$set": {"n": 2}})
        log.delete_one({"_id": 7})
        db.compact(keep=0)
        log.insert_one({"_id": 9, "n": 1})
        log.rename("other")
    problems = [one for _, found in examine(str(path)) for one in found if one.level == "problem"]
    assert [] == problems
    with reactdb.connect(path) as db:
        other = reactdb.mongodb(db)["shop"]["other"]
        assert [6, 8, 9] == [one["_id"] for one in other.find()]
        other.insert_many([{"_id": id, "n": 1} for id in (1, 2)])
        assert [9, 1, 2] == [one["_id"] for one in other.find()]
        refused(other.insert_one, {"n": 0})
