"""Change streams over the log, natively written."""

import pytest
from bson import Timestamp

import reactdb
from reactdb.dialects.mongodb import MongoError
from reactdb.dialects.mongodb.collection import CollectionWork
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.namespaces import Namespaces
from reactdb.dialects.mongodb.scopes import StreamScope
from reactdb.dialects.mongodb.streams import ChangeStreams
from reactdb.session import session_of
from reactdb.store.engine import Engine

ORDERS = MongoNamespace("shop", "orders")
PAID = MongoNamespace("shop", "paid")
SHOP = MongoNamespace("shop")
ADMIN = MongoNamespace("admin")


@pytest.fixture
def spaces(db):
    return Namespaces(session_of(db))


@pytest.fixture
def open_stream(spaces):
    """Opens streams, which are closed afterwards."""
    streams = ChangeStreams(spaces)
    opened = []

    def open_one(namespace=ORDERS, *stages, collation=None, **options):
        scope = StreamScope(namespace)
        stream = streams.open(scope, [{"$changeStream": options}, *stages], collation=collation)
        opened.append(stream)
        return stream

    yield open_one
    for stream in opened:
        stream.close()


@pytest.fixture
def orders(db, spaces):
    spaces.create(ORDERS)
    return db.table("shop.orders")


def kinds(batch):
    return [event["operationType"] for event in batch.events]


def test_the_events_of_documents_have_their_fields(orders, open_stream):
    stream = open_stream()
    orders.insert({"_id": 1, "a": {"b": 1, "c": "x" * 20}})
    orders.get(1).update({"a": {"b": 2}})
    orders.get(1).replace({"_id": 1, "z": 1})
    orders.get(1).delete()

    events = stream.batch().events

    common = ["_id", "operationType", "clusterTime", "wallTime"]
    assert [*common, "fullDocument", "ns", "documentKey"] == list(events[0]) == list(events[2])
    assert [*common, "ns", "documentKey", "updateDescription"] == list(events[1])
    assert [*common, "ns", "documentKey"] == list(events[3])
    assert {"updatedFields": {"a.b": 2}, "removedFields": [], "truncatedArrays": []} == events[1][
        "updateDescription"
    ]
    assert ["insert", "update", "replace", "delete"] == [event["operationType"] for event in events]
    assert all({"db": "shop", "coll": "orders"} == event["ns"] for event in events)
    assert all({"_id": 1} == event["documentKey"] for event in events)
    assert {"_id": 1, "z": 1} == events[2]["fullDocument"]
    tokens = [event["_id"]["_data"] for event in events]
    assert sorted(set(tokens)) == tokens


def test_a_commit_has_one_cluster_time(db, orders, open_stream):
    stream = open_stream()
    with db.transaction():
        orders.insert([{"_id": 1}, {"_id": 2}])
        orders.get(1).delete()

    events = stream.batch().events

    assert 3 == len(events)
    assert 1 == len({event["clusterTime"] for event in events})


def test_each_scope_is_told_of_its_own(db, spaces, open_stream):
    one, shop, everything = open_stream(), open_stream(SHOP), open_stream(ADMIN, allChangesForCluster=True)
    for name in (
        ORDERS,
        PAID,
        MongoNamespace("bank", "orders"),
        MongoNamespace("admin", "x"),
        MongoNamespace("shop", "system.js"),
    ):
        spaces.create(name)
        db.table(spaces.names.table(name)).insert({"_id": 1})
    db.table_create("native").insert({"id": 1})

    def seen(stream):
        return [f"{event['ns']['db']}.{event['ns']['coll']}" for event in stream.batch().events]

    assert ["shop.orders"] == seen(one)
    assert ["shop.orders", "shop.paid"] == seen(shop)
    assert ["shop.orders", "shop.paid", "bank.orders", "reactdb.native"] == seen(everything)


def test_a_stream_begins_after_what_was_written_before(orders, open_stream):
    orders.insert({"_id": 1})
    stream = open_stream()

    assert [] == stream.batch().events
    orders.insert({"_id": 2})
    assert [{"_id": 2}] == [event["documentKey"] for event in stream.batch().events]


def test_a_stream_on_nothing_makes_nothing(db, spaces, open_stream):
    stream = open_stream()

    assert [] == stream.batch().events
    assert [] == spaces.databases()
    spaces.create(ORDERS)
    db.table("shop.orders").insert({"_id": 1})
    assert ["insert"] == kinds(stream.batch())


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (lambda spaces: spaces.drop(ORDERS), "drop"),
        (lambda spaces: spaces.rename(ORDERS, MongoNamespace("shop", "new")), "rename"),
        (lambda spaces: spaces.rename(PAID, ORDERS, drop_target=True), "rename"),
        (lambda spaces: spaces.drop_database("shop"), "drop"),
    ],
)
def test_a_collection_that_goes_invalidates_its_stream(spaces, orders, open_stream, act, expected):
    spaces.create(PAID)
    stream = open_stream()
    act(spaces)

    batch = stream.batch()

    assert ([expected, "invalidate"], True, True) == (kinds(batch), batch.is_closed, stream.is_closed)
    assert batch.token == batch.events[-1]["_id"]
    assert ["_id", "operationType", "clusterTime", "wallTime"] == list(batch.events[-1])
    assert ([], True) == stream.batch()[::2]


def test_a_database_stream_ends_with_its_database_alone(spaces, orders, open_stream):
    stream, everything = open_stream(SHOP), open_stream(ADMIN, allChangesForCluster=True)
    spaces.create(PAID)
    spaces.drop(ORDERS)
    spaces.drop_database("shop")

    batch = stream.batch()

    assert ["drop", "drop", "dropDatabase", "invalidate"] == kinds(batch)
    assert {"db": "shop"} == batch.events[2]["ns"]
    assert ["drop", "drop", "dropDatabase"] == kinds(everything.batch())
    assert not everything.is_closed


def test_a_rename_onto_another_collection_is_one_event_with_its_target(spaces, orders, open_stream):
    target = spaces.create(PAID)
    stream = open_stream(SHOP, showExpandedEvents=True)
    spaces.rename(ORDERS, PAID, drop_target=True)

    (event,) = stream.batch().events

    assert {"db": "shop", "coll": "paid"} == event["to"]
    assert {"to": event["to"], "dropTarget": target.uuid} == event["operationDescription"]


def test_expanded_events_tell_of_collections_and_options(db, spaces, open_stream):
    stream = open_stream(showExpandedEvents=True)
    made = spaces.create(ORDERS, {"validator": {"x": 1}})
    spaces.modify(ORDERS, {"validator": {"x": 2}})

    create, modify = stream.batch().events

    assert ("create", made.uuid, "collection") == (
        create["operationType"],
        create["collectionUUID"],
        create["nsType"],
    )
    assert {"validator": {"x": 1}, "idIndex": {"v": 2, "key": {"_id": 1}, "name": "_id_"}} == create[
        "operationDescription"
    ]
    assert {"validator": {"x": 2}} == modify["operationDescription"]
    assert {"collectionOptions": {"uuid": made.uuid, "validator": {"x": 1}}} == modify["stateBeforeChange"]


@pytest.mark.parametrize(("documents", "expected"), [(0, [["a_1"], ["b_1"]]), (1, [["a_1", "b_1"]])])
def test_indexes_of_an_empty_collection_are_told_of_one_by_one(
    db, spaces, orders, open_stream, documents, expected
):
    orders.insert([{"_id": number} for number in range(documents)])
    stream = open_stream(showExpandedEvents=True)
    indexes = [{"key": {"a": 1}, "name": "a_1"}, {"key": {"b": 1}, "name": "b_1"}]
    CollectionWork(spaces, ORDERS).create_indexes(indexes)

    events = stream.batch().events

    assert {"createIndexes"} == {event["operationType"] for event in events}
    told = [[one["name"] for one in event["operationDescription"]["indexes"]] for event in events]
    assert expected == told
    assert len(told) == len({event["_id"]["_data"] for event in events})
    assert ["_id_", "a_1", "b_1"] == [one["name"] for one in CollectionWork(spaces, ORDERS).list_indexes()]
    after = open_stream(showExpandedEvents=True, resumeAfter=events[0]["_id"]).batch().events
    assert events[1:] == after

    CollectionWork(spaces, ORDERS).drop_indexes("*")
    dropped = stream.batch().events
    assert {"dropIndexes"} == {event["operationType"] for event in dropped}
    assert expected == [
        [one["name"] for one in event["operationDescription"]["indexes"]] for event in dropped
    ]


def test_what_is_changed_of_an_index_is_told_with_what_it_was(spaces, orders, open_stream):
    work = CollectionWork(spaces, ORDERS)
    work.create_indexes([{"key": {"a": 1}, "name": "a_1", "expireAfterSeconds": 10, "unique": True}])
    uuid = spaces.find(ORDERS).uuid
    stream = open_stream(showExpandedEvents=True)

    assert {"expireAfterSeconds_old": 10, "expireAfterSeconds_new": 20} == work.modify_index(
        {"keyPattern": {"a": 1}, "expireAfterSeconds": 20}
    )
    assert {"hidden_old": False, "hidden_new": True} == work.modify_index({"name": "a_1", "hidden": True})
    assert {} == work.modify_index({"name": "a_1", "hidden": True})
    assert {"hidden_old": True, "hidden_new": False} == work.modify_index({"name": "a_1", "hidden": False})

    assert {
        "v": 2,
        "key": {"a": 1},
        "name": "a_1",
        "expireAfterSeconds": 20,
        "unique": True,
    } == work.list_indexes()[1]
    events = stream.batch().events
    assert [
        ("modify", {"index": {"name": "a_1", "expireAfterSeconds": 20}}, {"expireAfterSeconds": 10}),
        ("modify", {"index": {"name": "a_1", "hidden": True}}, {"hidden": False}),
        ("modify", {"index": {"name": "a_1", "hidden": False}}, {"hidden": True}),
    ] == [
        (event["operationType"], event["operationDescription"], event["stateBeforeChange"]["indexOptions"])
        for event in events
    ]
    assert {"uuid": uuid} == events[0]["stateBeforeChange"]["collectionOptions"]


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        (27, {"name": "b_1", "hidden": True}),
        (27, {"keyPattern": {"b": 1}, "hidden": True}),
        (2, {"name": "_id_", "hidden": True}),
        (72, {"hidden": True}),
        (72, {"name": "a_1", "keyPattern": {"a": 1}, "hidden": True}),
        (72, {"name": "a_1"}),
        (72, {"name": "a_1", "unique": True}),
        (40415, {"name": "a_1", "sparse": True}),
        (72, {"name": "a_1", "expireAfterSeconds": -1}),
    ],
)
def test_what_cannot_be_changed_of_an_index_has_its_code(spaces, orders, code, wanted):
    work = CollectionWork(spaces, ORDERS)
    work.create_indexes([{"key": {"a": 1}, "name": "a_1"}])

    with pytest.raises(MongoError) as caught:
        work.modify_index(wanted)
    assert code == caught.value.code


def test_a_unique_index_that_was_changed_is_still_unique(spaces, orders):
    work = CollectionWork(spaces, ORDERS)
    work.create_indexes([{"key": {"a": 1}, "name": "a_1", "unique": True}])
    work.insert([{"_id": 1, "a": 1}])
    work.modify_index({"name": "a_1", "hidden": True})

    (error,) = work.insert([{"_id": 2, "a": 1}])["writeErrors"]
    assert 11000 == error["code"]


def test_resuming_after_each_token_gives_the_rest(db, spaces, orders, open_stream):
    stream = open_stream(SHOP)
    begin = stream.token
    orders.insert([{"_id": number} for number in range(3)])
    with db.transaction():
        orders.get(1).delete()
        orders.get(2).update({"x": 1})
    spaces.drop(ORDERS)
    spaces.create(ORDERS)
    db.table("shop.orders").insert({"_id": 9})
    events = stream.batch().events

    for place, event in enumerate(events):
        assert events[place + 1 :] == open_stream(SHOP, resumeAfter=event["_id"]).batch().events
        assert events[place + 1 :] == open_stream(SHOP, startAfter=event["_id"]).batch().events
    assert events == open_stream(SHOP, resumeAfter=begin).batch().events
    assert events == open_stream(SHOP, startAtOperationTime=events[0]["clusterTime"]).batch().events


def test_the_token_of_a_quiet_stream_moves_on(db, orders, open_stream):
    stream = open_stream()
    db.table_create("other").insert({"id": 1})
    before = stream.token
    batch = stream.batch()

    assert ([], True) == (batch.events, before["_data"] < batch.token["_data"])
    orders.insert({"_id": 1})
    assert ["insert"] == kinds(open_stream(resumeAfter=batch.token).batch())


def test_a_batch_that_was_cut_is_followed_by_the_token_of_all_that_was_read(
    db, orders, open_stream, monkeypatch
):
    db.table_create("shop.others")
    stream = open_stream()
    orders.insert({"_id": 1})
    db.table("shop.others").insert({"id": 1})

    event = stream.batch(1)
    quiet = stream.batch(1)
    # Then no snapshot is needed to know that there is nothing.
    monkeypatch.setattr(Engine, "fresh_snapshot", None)
    again = stream.batch(1)

    assert event.token == event.events[0]["_id"]
    assert ([], True) == (quiet.events, event.token["_data"] < quiet.token["_data"])
    assert ([], quiet.token) == (again.events, again.token)


def test_the_token_of_a_batch_is_that_of_its_last_event(db, orders, open_stream):
    stream = open_stream()
    with db.transaction():
        orders.insert([{"_id": number} for number in range(3)])
        db.table_create("other").insert({"id": 1})

    batch = stream.batch(2)

    assert batch.token == batch.events[1]["_id"]
    assert [{"_id": 2}] == [
        event["documentKey"] for event in open_stream(resumeAfter=batch.token).batch().events
    ]
    rest = stream.batch()
    assert ["insert"] == kinds(rest)
    orders.insert({"_id": 9})
    last = stream.batch()
    assert last.token == last.events[-1]["_id"]
    assert rest.token["_data"] > rest.events[0]["_id"]["_data"]


def test_after_the_drop_comes_the_invalidate_and_after_that_the_next_collection(
    db, spaces, orders, open_stream
):
    stream = open_stream()
    spaces.drop(ORDERS)
    drop, invalidate = stream.batch().events
    spaces.create(ORDERS)
    db.table("shop.orders").insert({"_id": 1})

    assert [invalidate] == open_stream(resumeAfter=drop["_id"]).batch().events
    again = open_stream(startAfter=invalidate["_id"])
    assert (["insert"], False) == (kinds(batch := again.batch()), batch.is_closed)
    with pytest.raises(MongoError) as caught:
        open_stream(resumeAfter=invalidate["_id"])
    assert 260 == caught.value.code


def test_a_token_that_this_stream_never_gave_is_not_found(db, spaces, orders, open_stream):
    other = open_stream(PAID)
    spaces.create(PAID)
    db.table("shop.paid").insert({"_id": 1})
    token = other.batch().events[0]["_id"]
    stream = open_stream(resumeAfter=token)

    # Until the log goes on after it, it may be found yet.
    assert ([], token, False) == stream.batch()
    assert ([], token, False) == stream.batch()
    db.table("shop.paid").insert({"_id": 2})
    for late in (stream, open_stream(resumeAfter=token)):
        with pytest.raises(MongoError) as caught:
            late.batch()
        assert (280, ("NonResumableChangeStreamError",)) == (caught.value.code, caught.value.labels)


def test_a_token_within_a_commit_is_not_found_where_the_commit_goes_on(db, spaces, orders, open_stream):
    spaces.create(PAID)
    everything = open_stream(None)
    with db.transaction() as transaction:
        for number, name in enumerate(["shop.orders", "shop.paid", "shop.orders"]):
            transaction.table(name).insert({"_id": number})
    first, of_paid, last = everything.batch().events

    assert [last] == open_stream(resumeAfter=first["_id"]).batch().events
    with pytest.raises(MongoError) as caught:
        open_stream(resumeAfter=of_paid["_id"]).batch()
    assert 280 == caught.value.code


def test_a_token_in_the_future_is_silent(orders, open_stream):
    stream = open_stream(resumeAfter={"_data": "827FFFFFFF" + open_stream().token["_data"][10:]})
    orders.insert({"_id": 1})
    late = open_stream(startAtOperationTime=Timestamp(2**31 - 1, 1))
    orders.insert({"_id": 2})

    assert [] == stream.batch().events
    assert [] == late.batch().events


def test_a_time_before_everything_is_the_beginning(orders, open_stream):
    orders.insert({"_id": 1})

    assert ["insert"] == kinds(open_stream(startAtOperationTime=Timestamp(1, 1)).batch())


def test_history_that_was_compacted_away_is_lost(db, orders, open_stream):
    stream = open_stream()
    orders.insert([{"_id": 1}, {"_id": 2}])
    lost = open_stream()
    start = stream.batch(1).token
    orders.get(1).delete()
    db.compact(0)
    now = open_stream().token
    orders.insert({"_id": 3})

    for options in ({"resumeAfter": start}, {"startAtOperationTime": Timestamp(1, 1)}):
        with pytest.raises(MongoError) as caught:
            open_stream(**options)
        assert (286, ("NonResumableChangeStreamError",)) == (caught.value.code, caught.value.labels)
    with pytest.raises(MongoError) as caught:
        lost.batch()
    assert (136, True) == (caught.value.code, lost.is_closed)
    assert ["insert"] == kinds(open_stream(resumeAfter=now).batch())


def test_a_token_leads_on_where_its_event_alone_was_compacted_away(db, orders, open_stream):
    stream = open_stream()
    orders.insert({"_id": 1})
    orders.get(1).delete()
    token = stream.batch().token
    db.compact(0)
    orders.insert({"_id": 2})

    assert ["insert"] == kinds(open_stream(resumeAfter=token).batch())
    db.table_drop("shop.orders")
    drop = open_stream(SHOP, resumeAfter=token).batch().events[-1]["_id"]
    db.compact(0)
    for options in ({"resumeAfter": drop}, {"startAfter": drop}):
        with pytest.raises(MongoError) as caught:
            open_stream(**options)
        assert 286 == caught.value.code
    assert [] == open_stream(SHOP, resumeAfter=drop).batch().events


def test_compaction_under_a_stream_that_has_read_so_far_is_not_noticed(db, orders, open_stream):
    stream = open_stream()
    orders.insert([{"_id": 1}, {"_id": 2}])
    stream.batch()
    db.compact(0)
    orders.insert({"_id": 3})

    assert [{"_id": 3}] == [event["documentKey"] for event in stream.batch().events]


@pytest.mark.parametrize("mode", ["whenAvailable", "required"])
def test_images_are_shown_where_the_option_was_on(db, spaces, open_stream, mode):
    spaces.create(ORDERS, {"changeStreamPreAndPostImages": {"enabled": True}})
    orders = db.table("shop.orders")
    stream = open_stream(fullDocument=mode, fullDocumentBeforeChange=mode)
    orders.insert({"_id": 1, "x": 1})
    orders.get(1).update({"x": 2})
    orders.get(1).update({"x": 3})
    orders.get(1).delete()

    insert, first, second, delete = stream.batch().events

    assert "fullDocumentBeforeChange" not in insert
    assert ({"_id": 1, "x": 1}, {"_id": 1, "x": 2}) == (
        first["fullDocumentBeforeChange"],
        first["fullDocument"],
    )
    assert ({"_id": 1, "x": 2}, {"_id": 1, "x": 3}) == (
        second["fullDocumentBeforeChange"],
        second["fullDocument"],
    )
    assert ({"_id": 1, "x": 3}, False) == (delete["fullDocumentBeforeChange"], "fullDocument" in delete)


def test_images_are_not_shown_where_the_option_was_off_then(spaces, orders, open_stream):
    stream = open_stream(fullDocument="whenAvailable", fullDocumentBeforeChange="whenAvailable")
    required = open_stream(fullDocument="required")
    orders.insert({"_id": 1, "x": 1})
    orders.get(1).update({"x": 2})
    spaces.modify(ORDERS, {"changeStreamPreAndPostImages": {"enabled": True}})
    orders.get(1).update({"x": 3})

    _, off, on = stream.batch().events

    assert (None, None) == (off["fullDocument"], off["fullDocumentBeforeChange"])
    assert ({"_id": 1, "x": 3}, {"_id": 1, "x": 2}) == (on["fullDocument"], on["fullDocumentBeforeChange"])
    assert ["insert"] == kinds(required.batch())
    with pytest.raises(MongoError) as caught:
        required.batch()
    assert (47, True) == (caught.value.code, required.is_closed)


def test_a_lookup_finds_the_document_of_now(db, spaces, orders, open_stream):
    stream = open_stream(SHOP, fullDocument="updateLookup")
    orders.insert({"_id": 1, "x": 1})
    orders.get(1).update({"x": 2})
    orders.get(1).update({"x": 3})

    assert [1, 3, 3] == [event["fullDocument"]["x"] for event in stream.batch().events]
    orders.get(1).update({"x": 4})
    spaces.drop(ORDERS)
    spaces.create(ORDERS)
    db.table("shop.orders").insert({"_id": 1})
    assert stream.batch().events[0]["fullDocument"] is None


def test_a_match_sees_the_event_and_lookups(orders, open_stream):
    by_kind = open_stream(ORDERS, {"$match": {"operationType": "update"}}, fullDocument="updateLookup")
    by_document = open_stream(ORDERS, {"$match": {"fullDocument.x": 3}}, fullDocument="updateLookup")
    by_field = open_stream(ORDERS, {"$match": {"updateDescription.updatedFields.x": {"$exists": True}}})
    orders.insert({"_id": 1, "x": 1})
    orders.get(1).update({"x": 3})

    assert [["update"]] * 3 == [kinds(stream.batch()) for stream in (by_kind, by_document, by_field)]


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        ({"$project": {"operationType": 1}}, {"operationType": "insert"}),
        ({"$project": {"x": "$fullDocument.x"}}, {"x": 1}),
        (
            {"$unset": ["clusterTime", "wallTime", "ns", "documentKey", "operationType"]},
            {"fullDocument": {"_id": 1, "x": 1}},
        ),
        ({"$replaceRoot": {"newRoot": {"_id": "$_id", "y": "$fullDocument.x"}}}, {"y": 1}),
        ({"$replaceWith": {"_id": "$_id", "k": "$documentKey"}}, {"k": {"_id": 1}}),
        ({"$match": {"$expr": {"$eq": ["$fullDocument.x", 2]}}}, None),
        ({"$redact": {"$cond": [{"$eq": ["$operationType", "delete"]}, "$$KEEP", "$$PRUNE"]}}, None),
    ],
)
def test_each_stage_for_streams_makes_of_the_event_what_it_makes_of_a_document(
    orders, open_stream, stage, expected
):
    stream = open_stream(ORDERS, stage)
    orders.insert({"_id": 1, "x": 1})

    found = [
        {name: value for name, value in event.items() if name != "_id"} for event in stream.batch().events
    ]

    assert found == ([] if expected is None else [expected])


def test_fields_can_be_added_and_filled(orders, open_stream):
    stream = open_stream(
        ORDERS,
        {"$addFields": {"seen": True}},
        {"$set": {"fullDocument.y": {"$add": ["$fullDocument.x", 1]}}},
        {"$fill": {"output": {"note": {"value": "none"}}}},
    )
    other = open_stream()
    orders.insert({"_id": 1, "x": 1})

    (event,) = stream.batch().events

    assert (True, {"_id": 1, "x": 1, "y": 2}, "none") == (event["seen"], event["fullDocument"], event["note"])
    assert {"_id": 1, "x": 1} == other.batch().events[0]["fullDocument"]


@pytest.mark.parametrize(
    "stage",
    [
        {"$project": {"_id": 0}},
        {"$unset": "_id"},
        {"$project": {"_id._data": 0}},
        {"$addFields": {"_id.more": 1}},
        {"$replaceWith": {"x": 1}},
        {"$set": {"_id": "x"}},
    ],
)
def test_a_pipeline_that_changes_the_token_ends_the_stream(orders, open_stream, stage):
    stream = open_stream(ORDERS, stage)
    orders.insert({"_id": 1})

    with pytest.raises(MongoError) as caught:
        stream.batch()
    assert (280, ("NonResumableChangeStreamError",), True) == (
        caught.value.code,
        caught.value.labels,
        stream.is_closed,
    )


def test_a_token_that_was_copied_there_and_back_is_the_same(orders, open_stream):
    stream = open_stream(
        ORDERS,
        {"$set": {"copy": "$_id"}},
        {"$set": {"_id": 1}},
        {"$set": {"_id": "$copy"}},
        {"$unset": "copy"},
    )
    orders.insert({"_id": 1})

    assert ["insert"] == kinds(stream.batch())


def test_a_match_before_images_keeps_those_that_are_missing_from_being_an_error(
    spaces, db, orders, open_stream
):
    spaces.create(PAID, {"changeStreamPreAndPostImages": {"enabled": True}})
    stream = open_stream(SHOP, {"$match": {"ns.coll": "paid"}}, fullDocumentBeforeChange="required")
    for table in (orders, db.table("shop.paid")):
        table.insert({"_id": 1})
        table.get(1).delete()

    assert ["insert", "delete"] == kinds(stream.batch())


POST, PRE = {"fullDocument": "required"}, {"fullDocumentBeforeChange": "required"}


@pytest.mark.parametrize(
    ("options", "stages"),
    [
        (POST, [{"ns.coll": "paid", "fullDocument.x": 1}]),
        (POST, [{"fullDocument.x": 1, "ns.coll": "paid"}]),
        (POST, [{"fullDocument.x": 1}, {"ns.coll": "paid"}]),
        (POST, [{"$and": [{"fullDocument.x": 1}, {"$and": [{"ns.coll": "paid"}]}]}]),
        (POST, [{"fullDocument.x": 1, "$or": [{"ns.coll": "paid"}, {"operationType": "drop"}]}]),
        (POST, [{"$nor": [{"fullDocument.x": 2}, {"ns.coll": "orders"}]}]),
        (POST, [{"fullDocument.x": 1, "$expr": {"$eq": ["$ns.coll", "paid"]}}]),
        (POST, [{"$expr": {"$eq": ["$$ROOT.fullDocument.x", 1]}, "ns.coll": "paid"}]),
        (POST, [{"$expr": {"$gt": [{"$divide": [2, "$fullDocument.y"]}, 1]}, "ns.coll": "paid"}]),
        (POST, [{"fullDocumentBeforeChange": {"$exists": False}, "ns.coll": "paid", "fullDocument.x": 1}]),
        (PRE, [{"ns.coll": "paid", "fullDocumentBeforeChange.x": 0}]),
        ({**PRE, **POST}, [{"fullDocument.x": 1}, {"fullDocumentBeforeChange.x": 0, "ns.coll": "paid"}]),
    ],
)
def test_a_condition_on_the_event_keeps_images_that_another_one_needs_from_being_missed(
    spaces, db, orders, open_stream, options, stages
):
    spaces.create(PAID, {"changeStreamPreAndPostImages": {"enabled": True}})
    paid = db.table("shop.paid")
    for table in (orders, paid):
        table.insert({"_id": 1, "x": 0, "y": 1})
    stream = open_stream(SHOP, *({"$match": one} for one in stages), **options)
    for table in (orders, paid):
        table.get(1).update({"x": 1})

    assert ["paid"] == [event["ns"]["coll"] for event in stream.batch().events]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (POST, {"fullDocument.x": 1, "operationType": "insert"}),
        (PRE, {"fullDocument.x": 1}),
        (PRE, {"fullDocument": {"$exists": True}}),
        ({**POST, "fullDocumentBeforeChange": "whenAvailable"}, {"fullDocumentBeforeChange.x": 1}),
    ],
)
def test_an_event_that_is_dropped_by_what_it_has_needs_no_image(orders, open_stream, options, match):
    orders.insert({"_id": 1})
    stream = open_stream(ORDERS, {"$match": match}, **options)
    orders.get(1).update({"x": 1})

    assert [] == stream.batch().events
    assert not stream.is_closed


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (POST, {"ns.coll": "orders", "fullDocument.x": 2}),
        (POST, {"$or": [{"ns.coll": "paid"}, {"fullDocument.x": 2}]}),
        (POST, {"$expr": {"$eq": ["$$ROOT.ns.coll", "paid"]}}),
        (POST, {"$expr": {"$eq": [{"$getField": "ns"}, "paid"]}}),
        # MongoDB looks the document before the change up first.
        ({**PRE, "fullDocument": "updateLookup"}, {"fullDocument.x": 2}),
    ],
)
def test_an_image_is_missed_where_a_condition_may_need_it(orders, open_stream, options, match):
    orders.insert({"_id": 1})
    stream = open_stream(ORDERS, {"$match": match}, **options)
    orders.get(1).update({"x": 1})

    with pytest.raises(MongoError) as caught:
        stream.batch()
    assert 47 == caught.value.code


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        ({"fullDocument.x": 2, "$expr": {"$divide": [1, "$documentKey._id"]}}, None),
        ({"fullDocument.x": 1, "$expr": {"$divide": [1, "$documentKey._id"]}}, 2),
        ({"$expr": {"$divide": [1, "$documentKey._id"]}, "fullDocument.x": 2}, 2),
    ],
)
def test_a_condition_that_is_tested_early_is_an_error_only_where_it_would_be_one_later(
    orders, open_stream, match, expected
):
    orders.insert({"_id": 0})
    stream = open_stream(ORDERS, {"$match": match}, fullDocument="updateLookup")
    orders.get(0).update({"x": 1})

    if expected is None:
        assert [] == stream.batch().events
    else:
        with pytest.raises(MongoError) as caught:
            stream.batch()
        assert expected == caught.value.code


@pytest.mark.parametrize(
    ("match", "source"),
    [
        ({"$sampleRate": 0.5}, "filters.random"),
        ({"$expr": {"$lt": [{"$rand": {}}, 0.5]}}, "expressions.types.random.random"),
    ],
)
def test_a_condition_on_chance_is_tested_once(orders, open_stream, monkeypatch, match, source):
    asked = []
    monkeypatch.setattr(f"reactdb.dialects.mongodb.{source}", lambda: asked.append(1) or 0.0)
    stream = open_stream(ORDERS, {"$match": match}, fullDocument="updateLookup")
    orders.insert({"_id": 0})

    assert ["insert"] == kinds(stream.batch())
    assert [1] == asked


def test_a_stream_whose_invalidate_is_filtered_out_ends_all_the_same(spaces, orders, open_stream):
    stream = open_stream(ORDERS, {"$match": {"operationType": "insert"}})
    spaces.drop(ORDERS)

    batch = stream.batch()

    assert ([], True) == (batch.events, batch.is_closed)
    assert batch.token == open_stream(startAfter=batch.token).token


@pytest.mark.parametrize(
    ("code", "options"),
    [
        (40415, {"fullDocuments": "default"}),
        (14, {"fullDocument": 1}),
        (2, {"fullDocument": "Default"}),
        (2, {"fullDocumentBeforeChange": ""}),
        (14, {"showExpandedEvents": None}),
        (14, {"showExpandedEvents": 1}),
        (14, {"resumeAfter": "x"}),
        (14, {"startAtOperationTime": 1}),
        (40647, {"resumeAfter": {}}),
        (40647, {"resumeAfter": {"$literal": 1}}),
        (72, {"allChangesForCluster": True}),
    ],
)
def test_a_wrong_option_has_its_code(open_stream, code, options):
    with pytest.raises(MongoError) as caught:
        open_stream(**options)

    assert code == caught.value.code


def test_tokens_and_times_exclude_each_other(open_stream):
    token = open_stream().token
    for code, options in (
        (50865, {"resumeAfter": token, "startAfter": token}),
        (40674, {"resumeAfter": token, "startAtOperationTime": Timestamp(1, 1)}),
    ):
        with pytest.raises(MongoError) as caught:
            open_stream(**options)
        assert code == caught.value.code
    nothing = {"startAfter": None, "startAtOperationTime": None, "fullDocument": None}
    open_stream(resumeAfter=token, fullDocumentBeforeChange=None, **nothing)


@pytest.mark.parametrize("said", [None, [], 1, "x"])
def test_the_stage_is_an_object(spaces, said):
    with pytest.raises(MongoError) as caught:
        ChangeStreams(spaces).open(StreamScope(ORDERS), [{"$changeStream": said}])

    assert 6188500 == caught.value.code


@pytest.mark.parametrize(
    "namespace",
    [ADMIN, MongoNamespace("local"), MongoNamespace("config", "x"), MongoNamespace("shop", "system.x")],
)
def test_what_is_internal_has_no_stream(open_stream, namespace):
    with pytest.raises(MongoError) as caught:
        open_stream(namespace)

    assert 73 == caught.value.code


@pytest.mark.parametrize(
    ("code", "stages"),
    [
        (40324, [{"$nothing": {}}]),
        (20, [{"$group": {"_id": 1}}]),
        (20, [{"$out": "x"}]),
        (20, [{"$setWindowFields": {}}]),
        (20, [{"$fill": {"sortBy": {"x": 1}}}]),
        (40602, [{"$match": {}}, {"$changeStream": {}}]),
        (7182802, [{"$changeStreamSplitLargeEvent": {}}, {"$match": {}}]),
        (7182800, [{"$changeStreamSplitLargeEvent": {"x": 1}}]),
        (40323, [{"$match": {}, "$project": {}}]),
        (14, [1]),
    ],
)
def test_a_stage_that_is_not_for_streams_has_its_code(open_stream, code, stages):
    with pytest.raises(MongoError) as caught:
        open_stream(ORDERS, *stages)

    assert code == caught.value.code


def test_large_batches_and_events_are_bounded_where_asked(db, spaces, open_stream):
    spaces.create(ORDERS, {"changeStreamPreAndPostImages": {"enabled": True}})
    orders = db.table("shop.orders")
    stream = open_stream(fullDocumentBeforeChange="required")
    large = "x" * (7 << 20)
    orders.insert([{"_id": number, "x": large} for number in range(3)])

    sizes = [len(stream.batch(most_bytes=16 << 20).events) for _ in range(3)]

    assert [2, 1, 0] == sizes
    orders.get(1).replace({"_id": 1, "y": large + large})
    with pytest.raises(MongoError) as caught:
        stream.batch(most_bytes=16 << 20)
    assert (10334, ()) == (caught.value.code, caught.value.labels)


def test_an_event_that_is_too_large_comes_in_fragments_and_resumes_between_them(db, spaces, open_stream):
    spaces.create(ORDERS, {"changeStreamPreAndPostImages": {"enabled": True}})
    orders = db.table("shop.orders")
    split = {"$changeStreamSplitLargeEvent": {}}
    stream = open_stream(ORDERS, split, fullDocumentBeforeChange="required")
    large = "x" * (10 << 20)
    orders.insert({"_id": 1, "x": large})
    orders.get(1).replace({"_id": 1, "y": large})

    insert, first, second = stream.batch().events

    assert "splitEvent" not in insert
    assert [{"fragment": 1, "of": 2}, {"fragment": 2, "of": 2}] == [first["splitEvent"], second["splitEvent"]]
    assert {"_id", "splitEvent"} == first.keys() & second.keys()
    resumed = open_stream(ORDERS, split, fullDocumentBeforeChange="required", resumeAfter=first["_id"])
    assert [second] == resumed.batch().events
    with pytest.raises(MongoError) as caught:
        open_stream(resumeAfter=first["_id"]).batch()
    assert 280 == caught.value.code


def test_who_waits_is_called_for_his_own_tables_and_the_catalogue(db, spaces, orders, open_stream):
    called = []
    for name, stream in (("orders", open_stream()), ("paid", open_stream(PAID)), ("shop", open_stream(SHOP))):
        stream.on_ready(lambda name=name: called.append(name))

    orders.insert({"_id": 1})
    assert ["orders", "shop"] == sorted(called)
    called.clear()
    db.table_create("native")
    assert ["orders", "paid", "shop"] == sorted(called)
    called.clear()
    db.table("native").insert({"id": 1})
    assert [] == called


def test_a_collection_that_is_made_later_is_waited_for_too(db, spaces, open_stream):
    stream, called = open_stream(), []
    stream.on_ready(lambda: called.append(1))
    spaces.create(ORDERS)
    assert called
    stream.batch()
    called.clear()

    db.table("shop.orders").insert({"_id": 1})

    assert [1] == called
    assert ["insert"] == kinds(stream.batch())


def test_an_event_has_the_same_token_whoever_opens_the_file_later(tmp_path):
    read = []
    start = None
    for _ in range(3):
        with reactdb.connect(tmp_path / "a.db") as db:
            streams = ChangeStreams(Namespaces(session_of(db)))
            table = db.table_create("t", exist_ok=True)
            start = (
                start
                or streams.open(StreamScope(MongoNamespace("reactdb", "t")), [{"$changeStream": {}}]).token
            )
            table.insert({})
            stream = streams.open(
                StreamScope(MongoNamespace("reactdb", "t")), [{"$changeStream": {"resumeAfter": start}}]
            )
            read.append(stream.batch().events)

    assert read[0] == read[1][:1] == read[2][:1]
    assert read[1] == read[2][:2]


def test_who_waits_is_called_when_the_stream_or_the_file_is_closed(tmp_path):
    called = []
    with reactdb.connect(tmp_path / "a.db") as db:
        streams = ChangeStreams(Namespaces(session_of(db)))
        first, second = (streams.open(StreamScope(ORDERS), [{"$changeStream": {}}]) for _ in range(2))
        first.on_ready(lambda: called.append("first"))
        second.on_ready(lambda: called.append("second"))
        first.close()
        assert ["first"] == called
    assert ["first", "second"] == called


def test_nobody_who_waits_costs_a_writer_nothing(spaces, orders):
    streams = ChangeStreams(spaces)
    stream = streams.open(StreamScope(ORDERS), [{"$changeStream": {}}])
    assert not streams.wakers.is_reading
    stream.on_ready(lambda: None)
    assert streams.wakers.is_reading
    stream.on_ready(None)

    assert not streams.wakers.is_reading
