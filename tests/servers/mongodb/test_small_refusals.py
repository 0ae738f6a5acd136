"""Small refusals with their codes: hidden indexes, keys of several indexes, streams in transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from bson import Int64, Timestamp
from pymongo import IndexModel
from pymongo.errors import OperationFailure

import reactdb
from reactdb.servers.mongodb import MongoDBServer
from tests.servers.mongodb.wire import Wire


@pytest.fixture
def wire(server: MongoDBServer) -> Iterator[Wire]:
    with Wire(server.port) as made:
        made.ask({"insert": "orders", "$db": "shop", "documents": [{"_id": n} for n in range(3)]})
        yield made


@pytest.fixture(params=["socket", "process"])
def mongo(request: pytest.FixtureRequest, db: Any) -> Any:
    if request.param == "process":
        return reactdb.mongodb(db)
    return request.getfixturevalue("client")


def _refusal(work: Any, *arguments: Any, **options: Any) -> tuple[Any, Any]:
    with pytest.raises(OperationFailure) as refused:
        work(*arguments, **options)
    assert refused.value.details is not None
    # The error of a statement has no name.
    return refused.value.code, refused.value.details.get("codeName")


@pytest.mark.parametrize("hint", ["a_1", {"a": 1}])
def test_a_hint_to_a_hidden_index_is_refused(mongo: Any, hint: Any) -> None:
    orders = mongo["shop"]["orders"]
    orders.insert_one({"_id": 1, "a": 1})
    orders.create_index([("a", 1)], hidden=True)

    bad = (2, "BadValue")
    assert bad == _refusal(lambda: list(orders.find({"a": 1}, hint=hint)))
    assert bad == _refusal(orders.count_documents, {"a": 1}, hint=hint)
    assert bad == _refusal(lambda: list(orders.aggregate([{"$match": {"a": 1}}], hint=hint)))
    assert 2 == _refusal(orders.update_one, {"a": 1}, {"$set": {"b": 1}}, hint=hint)[0]
    assert 2 == _refusal(orders.delete_one, {"a": 1}, hint=hint)[0]
    assert bad == _refusal(orders.find_one_and_delete, {"a": 1}, hint=hint)
    mongo["shop"].command("collMod", "orders", index={"name": "a_1", "hidden": False})
    assert [{"_id": 1, "a": 1}] == list(orders.find({"a": 1}, hint=hint))
    assert [{"_id": 1, "a": 1}] == list(orders.aggregate([], hint=hint))


def test_a_hint_of_an_aggregate_names_an_index_and_gives_what_that_has(mongo: Any) -> None:
    orders = mongo["shop"]["orders"]
    orders.insert_many([{"_id": 1, "a": 1}, {"_id": 2}])
    orders.create_index("a", sparse=True)

    assert (2, "BadValue") == _refusal(lambda: list(orders.aggregate([], hint="b_1")))
    assert [1] == [one["_id"] for one in orders.aggregate([], hint="a_1")]
    assert [1] == [one["_id"] for one in orders.aggregate([{"$match": {}}], hint="a_1")]


def test_the_key_of_several_indexes_does_not_say_which_to_drop(mongo: Any) -> None:
    orders = mongo["shop"]["orders"]
    orders.create_indexes(
        [IndexModel("a", name="one"), IndexModel("a", name="two", sparse=True), IndexModel("b")]
    )

    assert (181, "AmbiguousIndexKeyPattern") == _refusal(
        mongo["shop"].command, "dropIndexes", "orders", index={"a": 1}
    )
    assert {"_id_", "one", "two", "b_1"} == set(orders.index_information())
    mongo["shop"].command("dropIndexes", "orders", index="two")
    mongo["shop"].command("dropIndexes", "orders", index={"a": 1})
    assert {"_id_", "b_1"} == set(orders.index_information())


def test_all_indexes_may_be_named_in_a_list_and_those_of_a_view_are_not_dropped(mongo: Any) -> None:
    mongo["shop"]["orders"].create_index("a")
    mongo["shop"].command("create", "seen", viewOn="orders", pipeline=[])

    assert (166, "CommandNotSupportedOnView") == _refusal(
        mongo["shop"].command, "dropIndexes", "seen", index="*"
    )
    assert 2 == mongo["shop"].command("dropIndexes", "orders", index=["*"])["nIndexesWas"]
    assert {"_id_"} == set(mongo["shop"]["orders"].index_information())


@pytest.mark.parametrize("name", ["Cluster_Time", "CLUSTERTIME", "CLUSTER_TIMES", "nonsense"])
def test_a_variable_that_is_not_there_is_undefined_however_it_is_spelled(mongo: Any, name: str) -> None:
    stage = {"$set": {"a": f"$${name}"}}

    assert (17276, "Location17276") == _refusal(lambda: list(mongo["shop"]["orders"].aggregate([stage])))


@pytest.mark.parametrize("place", ["client", "database", "collection"])
def test_to_watch_in_a_transaction_ends_the_transaction(mongo: Any, place: str) -> None:
    orders = mongo["shop"]["orders"]
    orders.insert_one({"_id": 1})
    watched = {"client": mongo, "database": mongo["shop"], "collection": orders}[place]
    with mongo.start_session() as session:
        session.start_transaction()
        orders.insert_one({"_id": 2}, session=session)

        with pytest.raises(OperationFailure) as refused:
            watched.watch(session=session)
        assert 263 == refused.value.code
        assert session.in_transaction
        with pytest.raises(OperationFailure) as gone:
            session.commit_transaction()
        assert 251 == gone.value.code
        assert gone.value.has_error_label("TransientTransactionError")

        with session.start_transaction():
            orders.insert_one({"_id": 3}, session=session)
    assert [1, 3] == [one["_id"] for one in orders.find()]


def test_a_transaction_that_watched_can_be_aborted(mongo: Any) -> None:
    with mongo.start_session() as session:
        session.start_transaction()
        mongo["shop"]["orders"].insert_one({"_id": 1}, session=session)
        with pytest.raises(OperationFailure):
            mongo.watch(session=session)

        session.abort_transaction()

    assert 0 == mongo["shop"]["orders"].count_documents({})


def test_the_first_statement_alone_has_a_read_concern(client: Any) -> None:
    orders = client["shop"]["orders"]
    orders.insert_one({"_id": 1})
    with client.start_session() as session:

        def find(number: int, **said: Any) -> Any:
            return client["shop"].command(
                "find", "orders", lsid=session.session_id, txnNumber=Int64(number), autocommit=False, **said
            )

        find(1, startTransaction=True, readConcern={"level": "snapshot"})
        assert (72, "InvalidOptions") == _refusal(find, 1, readConcern={"level": "snapshot"})
        assert [{"_id": 1}] == find(1)["cursor"]["firstBatch"]
        refused = _refusal(find, 2, startTransaction=True, readConcern={"level": "linearizable"})
        assert (72, "InvalidOptions") == refused


def test_what_is_read_after_has_to_have_been(wire: Wire) -> None:
    """A moment that nobody has heard of is refused; one of which the driver has heard has nothing to be waited for."""
    now = wire.ask({"find": "orders", "$db": "shop"})["operationTime"]
    later = Timestamp(now.time + 60, 1)
    find = {"find": "orders", "$db": "shop"}

    assert wire.ask({**find, "readConcern": {"afterClusterTime": now}})["ok"]
    assert 72 == wire.ask({**find, "readConcern": {"afterClusterTime": later}})["code"]
    for heard, code in ((now, 72), (later, None)):
        told = {"clusterTime": heard, "signature": {"hash": b"\0" * 20, "keyId": Int64(0)}}
        reply = wire.ask({**find, "readConcern": {"afterClusterTime": later}, "$clusterTime": told})
        assert code == reply.get("code")


def test_a_tailable_cursor_stays_open_at_its_limit(wire: Wire) -> None:
    wire.ask({"create": "log", "$db": "shop", "capped": True, "size": 10_000})
    wire.ask({"insert": "log", "$db": "shop", "documents": [{"_id": 1}, {"_id": 2}]})
    first = wire.ask({"find": "log", "$db": "shop", "tailable": True, "limit": 2})["cursor"]
    wire.ask({"insert": "log", "$db": "shop", "documents": [{"_id": 3}]})
    more = wire.ask({"getMore": first["id"], "collection": "log", "$db": "shop"})["cursor"]

    assert [1, 2] == [one["_id"] for one in first["firstBatch"]]
    assert first["id"]
    assert (first["id"], []) == (more["id"], more["nextBatch"])


def test_a_delete_may_be_told_to_pass_validators_by(wire: Wire) -> None:
    """It validates nothing, but drivers say it of each part of a bulk write."""
    wire.ask({"insert": "orders", "$db": "shop", "documents": [{"_id": "own"}]})
    deletes = [{"q": {"_id": "own"}, "limit": 1}]
    reply = wire.ask(
        {"delete": "orders", "$db": "shop", "deletes": deletes, "bypassDocumentValidation": True}
    )
    assert 1 == reply["n"]


def test_a_count_looks_at_its_collation(wire: Wire) -> None:
    for query in ({}, {"_id": 1}):
        reply = wire.ask({"count": "orders", "$db": "shop", "query": query, "collation": {"nonsense": 1}})
        assert 40415 == reply.get("code")


@pytest.mark.parametrize(
    ("projection", "code"),
    [
        ({"tags": {"$elemMatch": {"$gt": 1}}}, 31325),
        ({"tags": {"$slice": 1}}, 28667),
        ({"tags": {"$slice": [1, 1]}}, 28724),
        ({"tags.$": 1}, 31324),
        ({"tags": {"$slice": ["$tags", 1]}}, None),
        ({"tags": 1}, None),
    ],
)
def test_the_projection_of_a_view_is_that_of_a_stage(mongo: Any, projection: Any, code: int | None) -> None:
    shop = mongo["shop"]
    shop["orders"].insert_one({"_id": 1, "tags": [1, 2]})
    view = shop.create_collection("cheap", viewOn="orders", pipeline=[])
    if code is None:
        assert 1 == len(list(view.find({"tags": 2}, projection)))
    else:
        assert code == _refusal(lambda: list(view.find({"tags": 2}, projection)))[0]
        assert 1 == len(list(shop["orders"].find({"tags": 2}, projection)))


def test_options_of_the_index_of_ids_are_refused_in_mongodb_s_words(mongo: Any) -> None:
    orders = mongo["shop"]["orders"]
    with pytest.raises(
        OperationFailure, match=r"The field 'unique' is not valid for an _id index specification"
    ):
        orders.create_index("_id", unique=True)
    with pytest.raises(OperationFailure, match=r"BSON field 'collation\.arndom' is an unknown field"):
        mongo["shop"].command(
            "createIndexes",
            "orders",
            indexes=[{"key": {"n": 1}, "name": "n_1", "collation": {"arndom": "en"}}],
        )


def test_a_view_that_would_stand_on_itself_is_refused(mongo: Any) -> None:
    shop = mongo["shop"]
    circle, cycle = [{"$unionWith": "seen"}], (5, "GraphContainsCycle")
    assert cycle == _refusal(shop.command, "create", "seen", viewOn="orders", pipeline=circle)
    shop.command("create", "seen", viewOn="orders", pipeline=[])
    assert cycle == _refusal(shop.command, "collMod", "seen", viewOn="orders", pipeline=circle)
    assert (166, "CommandNotSupportedOnView") == _refusal(lambda: list(shop["seen"].list_indexes()))
    assert (166, "CommandNotSupportedOnView") == _refusal(shop.command, "collStats", "seen")


def test_what_is_the_servers_own_is_not_read_in_a_transaction(mongo: Any) -> None:
    mongo["shop"]["orders"].create_index("a")
    with mongo.start_session() as session:
        for place in (
            mongo["config"]["transactions"],
            mongo["local"]["oplog.rs"],
            mongo["shop"]["system.profile"],
        ):
            for read in (
                lambda place=place: list(place.find(session=session)),
                lambda place=place: list(place.aggregate([], session=session)),
                lambda place=place: place.distinct("a", session=session),
            ):
                session.start_transaction()
                assert (263, "OperationNotSupportedInTransaction") == _refusal(read)
                session.abort_transaction()
        with session.start_transaction():
            assert [] == list(mongo["admin"]["kept"].find(session=session))
            # It is there, so that nothing is made.
            assert "a_1" == mongo["shop"]["orders"].create_index("a", session=session)
