"""Streams that are found by the values that their `$match` asks for: who is woken, and what is evaluated."""

import subprocess
import sys
import threading
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from bson import Decimal128, Int64

import reactdb
from reactdb.dialects.mongodb import MongoError, natives, stream_waiters, streams
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.namespaces import Namespaces
from reactdb.dialects.mongodb.routing import EVERYTHING
from reactdb.dialects.mongodb.scopes import StreamScope
from reactdb.dialects.mongodb.stream_stages import StreamPipeline
from reactdb.dialects.mongodb.streams import ChangeStreams
from reactdb.session import session_of

ORDERS = MongoNamespace("shop", "orders")
SHOP = MongoNamespace("shop")


@pytest.fixture
def spaces(db):
    return Namespaces(session_of(db))


@pytest.fixture
def orders(db, spaces):
    spaces.create(ORDERS)
    return db.table("shop.orders")


class Waiting:
    """A stream that notes when it is woken."""

    def __init__(self, stream):
        self.stream = stream
        self.times = 0
        stream.on_ready(self.wake)

    def wake(self):
        self.times += 1

    def woken(self):
        """Whether it was, since it was last asked."""
        times, self.times = self.times, 0
        return bool(times)

    def keys(self):
        return [event.get("documentKey", {}).get("_id") for event in self.stream.batch().events]


@pytest.fixture
def watch(spaces):
    """Opens streams with these stages and waits for them."""
    owner = ChangeStreams(spaces)
    opened = []

    def open_one(*stages, namespace=ORDERS, collation=None, **options):
        stages = [one if "$set" in one else {"$match": one} for one in stages]
        stream = owner.open(
            StreamScope(namespace), [{"$changeStream": options}, *stages], collation=collation
        )
        opened.append(stream)
        return Waiting(stream)

    yield open_one
    for stream in opened:
        stream.close()
    assert not owner.wakers.is_reading


def test_only_whom_a_document_may_concern_is_woken(orders, watch):
    five, six = watch({"fullDocument.user": 5}), watch({"fullDocument.user": 6})
    key, other = watch({"documentKey._id": 1}), watch({"documentKey._id": {"$in": [7, 8]}})
    above = watch({"fullDocument.user": {"$gt": 6}})

    orders.insert({"_id": 1, "user": 5})

    assert five.woken()
    assert key.woken()
    assert not (six.woken())
    assert not (other.woken())
    assert not (above.woken())
    assert [1] == five.keys() == key.keys()
    assert [] == six.keys() == other.keys() == above.keys()


def test_an_update_that_leaves_a_match_is_no_event_and_one_that_enters_it_is(orders, watch):
    five = watch({"fullDocument.user": 5}, fullDocument="whenAvailable")
    looked_up = watch({"fullDocument.user": 5}, fullDocument="updateLookup")
    orders.insert({"_id": 1, "user": 5})
    assert five.woken()
    assert looked_up.woken()
    assert [1] == five.keys() == looked_up.keys()

    orders.get(1).update({"user": 6})
    assert not five.woken()
    assert not looked_up.woken()
    orders.get(1).update({"user": 5})
    assert looked_up.woken()
    assert [1] == looked_up.keys()[-1:]


@pytest.mark.parametrize(
    "wanted", [5, 5.0, Int64(5), Decimal128("5.0"), {"$gte": 5, "$lt": 6}, {"$in": [5, "x"]}]
)
def test_a_number_is_found_in_each_way_that_it_can_be_written(orders, watch, wanted):
    waiting = watch({"fullDocument.a.b": wanted})
    for number, written in enumerate([5, 5.0, natives.Int64(5), Decimal("5.00"), [1, 5], [[1], 5.0]]):
        orders.insert({"_id": number, "a": {"b": written}})
        assert waiting.woken()
        assert [number] == waiting.keys()
        orders.insert({"_id": number + 100, "a": [7, {"b": written}]})
        assert waiting.woken()
        assert [number + 100] == waiting.keys()
    orders.insert([{"_id": -1, "a": {"b": "5"}}, {"_id": -2, "a": {"b": 3}}, {"_id": -3, "b": 5}])
    assert not waiting.woken()


@pytest.mark.parametrize(
    "match",
    [
        {"fullDocument.user": {"$ne": 5}},
        {"fullDocument.user": {"$exists": True}},
        {"fullDocument": None},
        {"$or": [{"fullDocument.user": 5}, {"fullDocument.a": {"$ne": 5}}]},
        {"updateDescription.updatedFields.x": 1},
    ],
)
def test_what_no_value_says_is_tested_on_each_event(orders, watch, match):
    waiting = watch(match)
    assert EVERYTHING == waiting.stream.interest
    orders.insert({"_id": 1})
    assert waiting.woken()
    orders.get(1).update({"x": 1})
    assert waiting.woken()


@pytest.mark.parametrize("wanted", [None, {"$exists": False}, {"$in": [5, None]}])
def test_null_is_found_in_documents_without_the_field_and_events_without_a_document(orders, watch, wanted):
    waiting = watch({"fullDocument.user": wanted})
    inserts = watch({"operationType": {"$in": ["insert", "drop"]}, "fullDocument.user": wanted})
    orders.insert({"_id": 1, "user": 6})
    assert not waiting.woken()
    assert not inserts.woken()
    orders.insert([{"_id": 2}, {"_id": 3, "user": 7}])
    assert waiting.woken()
    assert inserts.woken()
    assert [2] == waiting.keys() == inserts.keys()
    orders.get(1).update({"user": 8})
    orders.get(3).delete()
    assert waiting.woken()
    assert not inserts.woken()
    # The event of an update has no document without `fullDocument`, and so no such field.
    assert [1, 3] == waiting.keys()
    assert [] == inserts.keys()


def test_a_key_that_is_asked_for_in_documents_may_be_missing_with_the_document(orders, watch):
    waiting = watch({"fullDocument._id": None})
    orders.insert({"_id": 1})
    assert not waiting.woken()
    orders.get(1).update({"a": 1})
    assert waiting.woken()
    assert [1] == waiting.keys()


def test_that_a_field_is_not_null_is_a_range(orders, watch):
    waiting = watch({"fullDocument.paid": {"$ne": None}})
    orders.insert([{"_id": 1}, {"_id": 2, "paid": None}])
    assert not waiting.woken()
    for number, value in enumerate([0, "", [], natives.MinKey(), {"a": 1}, natives.MaxKey()], 10):
        orders.insert({"_id": number, "paid": value})
        assert waiting.woken()
        assert [number] == waiting.keys()
    orders.get(10).delete()
    assert not waiting.woken()


def test_each_part_of_a_choice_is_found_by_what_it_asks_for(orders, watch):
    choice = {"$or": [{"fullDocument.user": 5}, {"fullDocument.n": {"$gt": 7}}, {"operationType": "delete"}]}
    waiting = watch(choice)
    inserted = watch({"operationType": "insert", **choice})
    orders.insert([{"_id": 1, "user": 6, "n": 6}, {"_id": 2, "n": "8"}])
    assert not waiting.woken()
    orders.insert([{"_id": 3, "user": 5, "n": 8}, {"_id": 4, "n": 8}, {"_id": 5, "user": [5]}])
    assert waiting.woken()
    assert [3, 4, 5] == waiting.keys()
    orders.get(1).delete()
    assert waiting.woken()
    assert [1] == waiting.keys()
    assert inserted.woken()
    assert [3, 4, 5] == inserted.keys()
    within = watch(
        {"fullDocument.a": {"$ne": 1}, "$and": [{"$or": [{"fullDocument.b": 1}, {"fullDocument.c": 1}]}]}
    )
    orders.insert({"_id": 6, "a": 2, "d": 1})
    assert not within.woken()
    orders.insert([{"_id": 7, "a": 2, "c": 1}, {"_id": 8, "a": 1, "c": 1}])
    assert within.woken()
    assert [7] == within.keys()


def test_texts_under_a_collation_are_tested_on_each_event(orders, watch):
    pytest.importorskip("icu")
    waiting = watch({"fullDocument.user": "ABC"}, collation={"locale": "en", "strength": 2})
    orders.insert({"_id": 1, "user": "abc"})
    assert waiting.woken()
    assert [1] == waiting.keys()


def test_kinds_of_operations_are_told_apart(orders, watch):
    inserts, deletes = (
        watch({"operationType": "insert"}),
        watch({"operationType": {"$in": ["delete", "drop"]}}),
    )
    changed = watch({"operationType": "update"})
    orders.insert({"_id": 1})
    assert inserts.woken()
    assert not (deletes.woken())
    assert not (changed.woken())
    orders.get(1).update({"a": 1})
    assert changed.woken()
    assert not (inserts.woken())
    assert not (deletes.woken())
    orders.get(1).delete()
    assert deletes.woken()
    assert not (inserts.woken())
    assert not (changed.woken())
    assert [1] == inserts.keys() == deletes.keys() == changed.keys()


def test_an_update_that_no_description_is_found_for_is_a_replacement(orders, watch):
    replaced = watch({"operationType": "replace"})
    # Two paths would be written alike.
    orders.insert({"_id": 1, "a.b": 0, "a": {"b": 0, "c": "x" * 50}})
    orders.get(1).update({"a.b": 1, "a": {"b": 1}})
    assert replaced.woken()
    assert [1] == replaced.keys()


def test_a_required_image_that_is_missing_is_an_error_of_what_does_not_match_too(orders, watch):
    orders.insert({"_id": 1, "user": 6})
    waiting = watch({"fullDocument.user": 5}, fullDocument="required")
    orders.get(1).update({"a": 1})
    assert waiting.woken()
    with pytest.raises(MongoError, match="post-image was not found") as caught:
        waiting.keys()
    assert 47 == caught.value.code


def test_a_resumed_stream_that_looks_documents_up_finds_them_as_they_are(orders, watch):
    start = watch({"operationType": "insert"}).stream.token
    orders.insert({"_id": 1, "user": 1})
    for user in (2, 3, 5):
        orders.get(1).update({"user": user})
    again = watch({"fullDocument.user": 5}, fullDocument="updateLookup", resumeAfter=start)
    assert [1, 1, 1] == again.keys()


def test_a_name_of_a_collection_says_which_tables_are_read(db, spaces, watch):
    waiting = watch({"ns.coll": "orders", "fullDocument.n": 1}, namespace=SHOP)
    named = watch({"ns.coll": {"$in": ["orders", "x"]}}, namespace=SHOP)
    for name in ("orders", "paid"):
        spaces.create(MongoNamespace("shop", name))
    for one in (waiting, named):
        assert one.woken()
        assert [] == one.keys()
        # Once it listens to the new tables, too.
        assert one.woken()

    db.table("shop.paid").insert({"_id": 1, "n": 1})
    assert not (waiting.woken())
    assert not (named.woken())
    db.table("shop.orders").insert({"_id": 2, "n": 1})
    assert [2] == waiting.keys() == named.keys()


def test_events_of_collections_go_to_everybody(orders, spaces, watch):
    waiting = watch({"fullDocument.user": 5})
    spaces.drop(ORDERS)
    assert waiting.woken()
    assert [] == waiting.keys()
    assert waiting.stream.is_closed
    dropped = watch({"$or": [{"operationType": "drop"}, {"operationType": "invalidate"}]})
    spaces.create(ORDERS)
    spaces.drop(ORDERS)
    assert [None, None] == dropped.keys()
    assert dropped.stream.is_closed


def test_a_table_with_another_primary_key_is_found_by_what_is_shown(db, watch):
    db.table_create("native", primary_key="id")
    shown = watch({"fullDocument.id": 5}, namespace=MongoNamespace("reactdb", "native"))
    key = watch({"fullDocument._id": 5}, namespace=MongoNamespace("reactdb", "native"))
    db.table("native").insert({"id": 1, "_id": 5})
    assert shown.woken()
    assert not key.woken()
    db.table("native").insert({"id": 5, "_id": 1})
    assert key.woken()
    assert not shown.woken()
    assert [1] == shown.keys()
    assert [5] == key.keys()


def test_a_moment_is_found_by_its_millisecond(orders, watch):
    waiting = watch({"fullDocument.at": datetime(2026, 1, 2, microsecond=1_000)})
    orders.insert({"_id": 1, "at": datetime(2026, 1, 2, microsecond=1_999, tzinfo=UTC)})
    assert waiting.woken()
    assert [1] == waiting.keys()


def test_what_does_not_concern_it_is_not_evaluated(orders, watch, monkeypatch):
    evaluated = []
    apply = StreamPipeline.apply
    monkeypatch.setattr(
        StreamPipeline, "apply", lambda self, event: evaluated.append(event) or apply(self, event)
    )
    waiting = watch({"fullDocument.user": 5})
    start = waiting.stream.token
    orders.insert([{"_id": number, "user": number % 100} for number in range(300)])
    orders.insert([{"_id": number, "user": 0} for number in range(300, 310)])

    assert [5, 105, 205] == waiting.keys()
    # The newest of each page is, too, whose token says how far the stream has come.
    assert len(evaluated) <= 6
    evaluated.clear()
    again = watch({"fullDocument.user": 5}, resumeAfter=start)
    assert [5, 105, 205] == again.keys()
    assert len(evaluated) <= 6
    orders.insert([{"_id": number, "user": 0} for number in range(400, 500)])
    evaluated.clear()
    assert [] == waiting.keys() == again.keys()
    assert [] == evaluated


def test_the_token_goes_on_while_nothing_is_found(orders, watch, monkeypatch):
    monkeypatch.setattr(streams, "PAGE", 5)
    monkeypatch.setattr(streams, "MOST_PAGES", 2)
    waiting = watch({"fullDocument.user": 5})
    start = waiting.stream.token["_data"]
    for _ in range(3):
        orders.insert([{"user": 0} for number in range(40)])
        # A resumed one is not listening, and reads so many pages.
        reader = watch({"fullDocument.user": 5}, resumeAfter={"_data": start})
        tokens = [start]
        for _ in range(4):
            assert [] == reader.keys()
            tokens.append(reader.stream.token["_data"])
        assert sorted(set(tokens)) == tokens
        start = tokens[-1]
    assert not waiting.woken()
    assert [] == waiting.keys()
    assert waiting.stream.token["_data"] >= start


def test_changes_that_were_too_many_to_be_looked_at_wake_everybody(orders, watch, monkeypatch):
    monkeypatch.setattr(stream_waiters, "MOST_QUEUED", 3)
    waiting, other = watch({"fullDocument.user": 5}), watch({"fullDocument.user": 6})
    for one in (waiting, other):
        assert [] == one.keys()
    orders.insert([{"_id": number, "user": number} for number in range(20)])
    assert waiting.woken()
    assert other.woken()
    assert [5] == waiting.keys()
    assert [6] == other.keys()
    # From there on they are found by values again.
    orders.insert({"_id": 20, "user": 5})
    assert waiting.woken()
    assert not other.woken()
    assert [20] == waiting.keys()
    assert [] == other.keys()


def test_what_another_process_writes_finds_streams_by_values_too(tmp_path):
    path = tmp_path / "shop.db"
    with reactdb.connect(path, durability="soft") as db:
        spaces = Namespaces(session_of(db))
        spaces.create(ORDERS)
        five, six = (
            ChangeStreams(spaces).open(
                StreamScope(ORDERS), [{"$changeStream": {}}, {"$match": {"fullDocument.user": user}}]
            )
            for user in (5, 6)
        )
        woken, others = threading.Event(), threading.Event()
        five.on_ready(woken.set)
        six.on_ready(others.set)
        script = f"""
import reactdb
with reactdb.connect({str(path)!r}, durability="soft") as db:
    db.table("shop.orders").insert([{{"_id": number, "user": number}} for number in range(6)])
"""
        subprocess.run([sys.executable, "-c", script], check=True)
        assert woken.wait(30)
        assert [5] == [event["documentKey"]["_id"] for event in five.batch().events]
        assert not others.is_set()
        assert [] == six.batch().events


def test_what_another_stage_made_of_an_event_is_not_looked_up(orders, watch):
    waiting = watch({"$set": {"fullDocument.user": 5}}, {"fullDocument.user": 5})
    assert EVERYTHING == waiting.stream.interest
    orders.insert({"_id": 1, "user": 6})
    assert [1] == waiting.keys()


def test_a_forgotten_stream_leaves_no_route(db, orders, watch, spaces):
    owner = ChangeStreams(spaces)
    stream = owner.open(StreamScope(ORDERS), [{"$changeStream": {}}, {"$match": {"fullDocument.user": 5}}])
    stream.on_ready(lambda: None)
    assert owner.wakers.is_reading
    del stream
    orders.insert({"_id": 1, "user": 5})
    assert not owner.wakers.is_reading
