"""Facts about change streams that are at the edge of others: views, `$out`, writes that change nothing, labels, null options."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import reactdb
from reactdb import Database

bson = pytest.importorskip("bson")

from pymongo import InsertOne, UpdateMany  # noqa: E402
from pymongo.errors import OperationFailure  # noqa: E402

from reactdb.dialects.mongodb import MongoError  # noqa: E402


@pytest.fixture
def db() -> Iterator[Database]:
    with reactdb.connect(":memory:") as opened:
        yield opened


@pytest.fixture
def client(db: Database) -> Any:
    return reactdb.mongodb(db)


@pytest.fixture
def orders(client: Any) -> Any:
    found = client["shop"]["orders"]
    found.insert_many([{"_id": 1, "n": 1, "list": [1]}, {"_id": 2, "n": 2}])
    return found


def kinds(stream: Any) -> list[str]:
    found: list[str] = []
    while (event := stream.try_next()) is not None:
        found.append(event["operationType"])
    return found


class TestViews:
    def test_a_view_that_is_made_where_a_stream_is_yields_nothing(self, client: Any, orders: Any) -> None:
        with client["shop"]["view"].watch() as plain, client["shop"].watch() as whole:
            client["shop"].create_collection("view", viewOn="orders", pipeline=[])
            assert plain.try_next() is None
            assert whole.try_next() is None

    def test_what_becomes_of_a_view_is_told_to_expanded_streams_of_databases_alone(
        self, client: Any, orders: Any
    ) -> None:
        shop = client["shop"]
        plain, whole, expanded = (
            shop["view"].watch(show_expanded_events=True),
            client.watch(),
            shop.watch(show_expanded_events=True),
        )
        shop.create_collection("view", viewOn="orders", pipeline=[])
        shop.command("collMod", "view", viewOn="orders", pipeline=[{"$match": {}}])
        shop["view"].drop()
        shop.create_collection("view", viewOn="orders", pipeline=[])
        client.drop_database("shop")

        of_view = [
            event for event in iter(expanded.try_next, None) if event.get("ns", {}).get("coll") == "view"
        ]
        assert ["create", "modify", "drop", "create", "drop"] == [event["operationType"] for event in of_view]
        assert ["drop", "dropDatabase"] == kinds(whole)
        assert (None, True) == (plain.try_next(), plain.alive)

    def test_a_view_cannot_be_renamed_nor_its_name_taken(self, client: Any, orders: Any) -> None:
        client["shop"].create_collection("view", viewOn="orders", pipeline=[])
        for source, target, code in (("view", "other", 166), ("orders", "view", 48)):
            with pytest.raises(OperationFailure) as caught:
                client["shop"][source].rename(target, dropTarget=True)
            assert code == caught.value.code

    def test_a_view_has_no_stream(self, client: Any, orders: Any) -> None:
        client["shop"].create_collection("view", viewOn="orders", pipeline=[])
        for watch in (
            lambda: client["shop"].command("aggregate", "view", pipeline=[{"$changeStream": {}}], cursor={}),
            client["shop"]["view"].watch,
        ):
            with pytest.raises(OperationFailure) as caught:
                watch()
            assert 166 == caught.value.code


@pytest.mark.parametrize(
    "write",
    [
        lambda orders: orders.update_one({"_id": 1}, {"$set": {"n": 1}}),
        lambda orders: orders.update_one({"_id": 1}, {"$unset": {"missing": 1}}),
        lambda orders: orders.update_one({"_id": 1}, {"$inc": {"n": 0}}),
        lambda orders: orders.update_one({"_id": 1}, {"$addToSet": {"list": 1}}),
        lambda orders: orders.update_one({"_id": 1}, [{"$set": {"n": 1}}]),
        lambda orders: orders.replace_one({"_id": 1}, {"n": 1, "list": [1]}),
        lambda orders: orders.update_one({"_id": 9}, {"$set": {"n": 1}}),
        lambda orders: orders.delete_one({"_id": 9}),
        lambda orders: orders.database["missing"].drop(),
    ],
)
def test_a_write_that_changes_nothing_has_no_event(
    client: Any, orders: Any, write: Callable[[Any], object]
) -> None:
    with client["shop"].watch() as stream:
        write(orders)
        assert stream.try_next() is None


def test_a_write_of_many_has_an_event_for_each_in_the_order_of_the_writes(orders: Any) -> None:
    with orders.watch() as stream:
        orders.bulk_write([InsertOne({"_id": 3}), UpdateMany({}, {"$inc": {"n": 1}})])
        orders.delete_many({})
        assert ["insert", *["update"] * 3, *["delete"] * 3] == kinds(stream)


def test_out_is_a_rename_onto_its_target_and_ends_its_streams(client: Any, orders: Any) -> None:
    target = client["shop"]["target"]
    target.insert_one({})
    with target.watch() as stream, client["shop"].watch() as whole:
        orders.aggregate([{"$out": "target"}])
        event = stream.try_next()
        assert ("rename", {"db": "shop", "coll": "target"}) == (event["operationType"], event["to"])
        assert ["invalidate"] == kinds(stream)
        assert not stream.alive
        assert "rename" == kinds(whole)[-1]


def test_an_upsert_is_an_insert(orders: Any) -> None:
    with orders.watch(full_document="updateLookup") as stream:
        orders.update_one({"_id": 5}, {"$set": {"n": 5}}, upsert=True)
        event = stream.try_next()
        assert ("insert", {"_id": 5, "n": 5}) == (event["operationType"], event["fullDocument"])


@pytest.mark.parametrize("mode", ["default", "updateLookup", "whenAvailable"])
def test_a_deletion_never_has_a_document_and_an_insert_never_one_before(orders: Any, mode: str) -> None:
    with orders.watch(full_document=mode, full_document_before_change="whenAvailable") as stream:
        orders.insert_one({"_id": 7})
        orders.delete_one({"_id": 7})
        inserted, deleted = stream.try_next(), stream.try_next()
    assert "fullDocumentBeforeChange" not in inserted
    assert "fullDocument" not in deleted
    assert deleted["fullDocumentBeforeChange"] is None


def test_a_lookup_of_a_collection_that_was_made_again_finds_nothing(orders: Any) -> None:
    with orders.database.watch(full_document="updateLookup") as stream:
        orders.update_one({"_id": 1}, {"$inc": {"n": 1}})
        orders.drop()
        orders.insert_one({"_id": 1})
        assert stream.try_next()["fullDocument"] is None


def opened(client: Any, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = client["shop"].command(
        "aggregate", "orders", pipeline=[{"$changeStream": options}], cursor={}
    )
    return found


@pytest.mark.parametrize(
    "name",
    ["fullDocument", "fullDocumentBeforeChange", "resumeAfter", "startAfter", "startAtOperationTime"],
)
def test_an_option_that_is_null_is_absent_and_conflicts_with_nothing(
    client: Any, orders: Any, name: str
) -> None:
    token = opened(client)["cursor"]["postBatchResumeToken"]
    others = {"resumeAfter": token} if name != "resumeAfter" else {"startAfter": token}
    assert opened(client, **{name: None}, **others)["cursor"]["id"]


def test_errors_that_end_a_stream_for_good_are_labelled_and_others_are_not(
    db: Database, client: Any, orders: Any
) -> None:
    old = opened(client)["cursor"]["postBatchResumeToken"]
    orders.insert_one({"_id": 3})
    db.compact(keep=0)
    with pytest.raises(OperationFailure) as lost:
        opened(client, resumeAfter=old)
    assert (286, ["NonResumableChangeStreamError"]) == (lost.value.code, lost.value.details["errorLabels"])  # type: ignore[index]
    with orders.watch() as stream:
        orders.drop()
        stream.try_next()
        invalidate = stream.try_next()["_id"]
    with pytest.raises(OperationFailure) as ended:
        opened(client, resumeAfter=invalidate)
    assert 260 == ended.value.code
    assert "errorLabels" not in ended.value.details  # type: ignore[operator]
    assert ("NonResumableChangeStreamError",) == MongoError(280, "").labels
    assert () == MongoError(10334, "").labels


def test_a_batch_of_nothing_reads_nothing_and_its_cursor_lives(client: Any, orders: Any) -> None:
    start = opened(client)["operationTime"]
    orders.insert_one({"_id": 3})
    cursor = client["shop"].command(
        "aggregate",
        "orders",
        pipeline=[{"$changeStream": {"startAtOperationTime": start}}],
        cursor={"batchSize": 0},
    )["cursor"]
    assert ([], True) == (cursor["firstBatch"], bool(cursor["id"]))
    more = client["shop"].command("getMore", cursor["id"], collection="orders")["cursor"]
    assert 3 == more["nextBatch"][-1]["documentKey"]["_id"]


def test_the_fields_of_an_event_come_in_their_order(client: Any) -> None:
    orders = client["shop"].create_collection("orders", changeStreamPreAndPostImages={"enabled": True})
    stream = orders.watch(
        full_document="whenAvailable", full_document_before_change="required", show_expanded_events=True
    )
    with client.start_session() as session, session.start_transaction():
        orders.insert_one({"_id": 1}, session=session)
        orders.update_one({"_id": 1}, {"$set": {"a": 1}}, session=session)
    orders.delete_one({"_id": 1})
    orders.rename("paid")

    head = ["_id", "operationType", "clusterTime"]
    tail = ["collectionUUID", "wallTime", "fullDocument", "ns", "documentKey"]
    assert [
        [*head, "lsid", "txnNumber", *tail],
        [*head, "lsid", "txnNumber", *tail, "updateDescription", "fullDocumentBeforeChange"],
        [*head, *[name for name in tail if name != "fullDocument"], "fullDocumentBeforeChange"],
        ["to", *head, "collectionUUID", "wallTime", "ns", "operationDescription"],
        [*head, "wallTime"],
    ] == [list(event) for event in iter(stream.try_next, None)]


@pytest.mark.parametrize(
    ("code", "images"),
    [(40414, {}), (40415, {"enabled": True, "x": 1}), (14, {"enabled": 1}), (14, True), (14, [])],
)
def test_what_images_are_asked_for_is_checked(client: Any, orders: Any, code: int, images: Any) -> None:
    for ask in (
        lambda: client["shop"].create_collection("other", changeStreamPreAndPostImages=images),
        lambda: client["shop"].command("collMod", "orders", changeStreamPreAndPostImages=images),
    ):
        with pytest.raises(OperationFailure) as caught:
            ask()
        assert code == caught.value.code


def test_what_was_modified_is_told_as_it_was_asked_for(client: Any, orders: Any) -> None:
    stream = orders.watch(show_expanded_events=True)
    for _ in range(2):
        client["shop"].command("collMod", "orders", changeStreamPreAndPostImages={"enabled": True})
    client["shop"].command("collMod", "orders")

    told = [event["operationDescription"] for event in iter(stream.try_next, None)]
    images = {"changeStreamPreAndPostImages": {"enabled": True}}
    assert [images, images, {}] == told


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("log", {"cappedMax": 2}),
        ("log", {"cappedMax": -1}),
        ("log", {"cappedSize": 5000}),
        ("log", {"cappedSize": 5000, "cappedMax": 2, "validationLevel": "off"}),
        ("orders", {"validator": {"x": 1}, "validationLevel": "moderate", "validationAction": "warn"}),
        ("orders", {"changeStreamPreAndPostImages": {"enabled": False}}),
        ("orders", {"index": {"name": "a_1", "hidden": True}}),
        ("orders", {"index": {"name": "a_1", "hidden": False}}),
        ("clustered", {"expireAfterSeconds": 5}),
    ],
)
def test_a_modification_is_told_with_the_fields_of_its_command(client: Any, name: str, said: Any) -> None:
    shop = client["shop"]
    shop.create_collection("log", capped=True, size=1000, max=3)
    shop.create_collection("orders").create_index("a")
    shop.create_collection("clustered", clusteredIndex={"key": {"_id": 1}, "unique": True})
    stream = shop.watch(show_expanded_events=True)
    shop.command("collMod", name, comment="why", **said)

    (event,) = iter(stream.try_next, None)
    assert ("modify", said) == (event["operationType"], event["operationDescription"])


def test_a_view_that_was_modified_is_told_as_a_whole(client: Any, orders: Any) -> None:
    shop = client["shop"]
    shop.create_collection("view", viewOn="orders", pipeline=[{"$match": {"a": 1}}])
    stream = shop.watch(show_expanded_events=True)
    shop.command("collMod", "view", pipeline=[])

    (event,) = iter(stream.try_next, None)
    assert {"viewOn": "orders", "pipeline": []} == event["operationDescription"]


@pytest.mark.parametrize("stage", ["$score", "$listSampledQueries", "$group"])
def test_a_stage_of_other_pipelines_is_not_allowed(orders: Any, stage: str) -> None:
    with pytest.raises(OperationFailure) as caught:
        orders.watch([{stage: {}}])
    assert 20 == caught.value.code
