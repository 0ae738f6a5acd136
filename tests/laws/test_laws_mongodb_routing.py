"""Laws of streams with a `$match`: that they are found by values, and pass over the rest, changes nothing of what they tell.

The brute force is a stream of the same `$match` that evaluates every event.
"""

import tempfile
from contextlib import ExitStack
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from bson import Decimal128, Int64, ObjectId
from hypothesis import given, settings
from hypothesis import strategies as st

from reactdb.dialects.mongodb import MongoError, natives
from reactdb.dialects.mongodb.ids import IdValue
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.routing import EVERYTHING
from reactdb.dialects.mongodb.scopes import StreamScope
from reactdb.session import session_of
from tests.laws.test_laws_mongodb_streams import A, B, C, Shop
from tests.support.scaling import examples

pytestmark = pytest.mark.examples

COLLECTIONS = st.sampled_from([A, A, B, C])
KEYS = st.sampled_from([0, 1, 2, "k", natives.ObjectId(b"k" * 12), IdValue(None), IdValue({"x": 1})])
# Numbers of each type, what sorts beside them, and what BSON does not have.
ONES = [1, 1.0, natives.Int64(1), Decimal("1.0"), natives.Decimal128(Decimal128("1.00").bid[::-1])]
NATIVE = st.recursive(
    st.sampled_from(
        [*ONES, None, True, 0, 2, -0.0, float("nan"), "", "x", "2026-01-02", date(2026, 1, 2), 10**40]
    )
    | st.just(datetime(2026, 1, 2, microsecond=1_500, tzinfo=UTC)),
    lambda inner: st.lists(inner, max_size=3) | st.fixed_dictionaries({}, optional={"b": inner, "c": inner}),
    max_leaves=4,
)
WANTED = st.sampled_from(
    [
        *[1, 1.0, Int64(1), Decimal128("1.0"), None, True, 0, 2, float("nan"), "", "x", "2026-01-02"],
        *[
            datetime(2026, 1, 2, microsecond=1_000),
            Decimal128("1E+40"),
            [1],
            {"b": 1},
            "k",
            ObjectId(b"k" * 12),
        ],
    ]
)
OPERATORS = st.sampled_from(["$gt", "$gte", "$lt", "$lte", "$eq", "$ne"])
CONDITIONS = (
    WANTED.filter(lambda one: not isinstance(one, dict))
    | st.builds(lambda operator, one: {operator: one}, OPERATORS, WANTED)
    | st.lists(WANTED, min_size=1, max_size=3).map(lambda several: {"$in": several})
    | st.builds(lambda low, high: {"$gte": low, "$lt": high}, WANTED, WANTED)
    | st.booleans().map(lambda is_there: {"$exists": is_there})
    | WANTED.map(lambda one: {"$not": {"$eq": one}})
)
PATHS = [
    *["fullDocument.v", "fullDocument.v.b", "fullDocument.v.0", "fullDocument.v.b.c", "fullDocument._id"],
    *["documentKey._id", "documentKey._id.x", "updateDescription.updatedFields.v"],
]
KINDS = st.sampled_from(["insert", "update", "replace", "delete", "drop"])
ALONE = st.one_of(
    st.dictionaries(st.sampled_from(PATHS), CONDITIONS, min_size=1, max_size=2),
    st.dictionaries(st.sampled_from(PATHS[:2]), CONDITIONS, min_size=1, max_size=1),
    st.fixed_dictionaries({"operationType": KINDS | st.lists(KINDS).map(lambda several: {"$in": several})}),
    st.fixed_dictionaries(
        {"ns.coll": st.sampled_from(["a", "b", {"$in": ["a", "x"]}, {"$ne": "a"}])},
        optional={
            "ns.db": st.sampled_from(["shop", "bank"]),
            "fullDocument.v": CONDITIONS,
            "operationType": KINDS,
        },
    ),
    st.fixed_dictionaries(
        {"$and": st.lists(st.dictionaries(st.sampled_from(PATHS), CONDITIONS), min_size=1)}
    ),
)
MATCHES = st.one_of(
    ALONE,
    ALONE,
    st.builds(
        lambda parts, beside: {"$or": parts, **beside},
        st.lists(ALONE, min_size=1, max_size=3),
        st.just({}) | ALONE,
    ),
    st.lists(ALONE, min_size=1, max_size=2).map(lambda parts: {"$and": [{"$or": parts}, {"$or": parts[:1]}]}),
)
SCOPES = st.sampled_from([StreamScope(A), StreamScope(MongoNamespace("shop")), StreamScope(None)])
IMAGES = st.sampled_from(
    [
        {},
        {"fullDocument": "whenAvailable"},
        {"fullDocument": "required"},
        {"fullDocument": "updateLookup"},
        {"fullDocumentBeforeChange": "required"},
    ]
)
WRITES = st.tuples(st.sampled_from(["insert", "update", "replace", "delete"]), COLLECTIONS, KEYS, NATIVE)
STEPS = st.one_of(
    WRITES,
    WRITES,
    WRITES,
    st.tuples(st.just("transaction"), st.lists(WRITES, min_size=1, max_size=4)),
    st.tuples(st.just("drop"), COLLECTIONS),
    st.tuples(st.just("create"), COLLECTIONS),
    st.tuples(st.just("rename"), COLLECTIONS, COLLECTIONS, st.booleans()),
    st.tuples(st.just("drop_database"), st.sampled_from(["shop", "bank"])),
    st.tuples(st.just("together"), COLLECTIONS, COLLECTIONS),
    st.tuples(st.just("native"), NATIVE, NATIVE),
)
STORIES = st.lists(STEPS, min_size=1, max_size=14)


class RoutedShop(Shop):
    """Documents of all kinds, also in a table whose primary key has another name."""

    def _write(self, kind, namespace, key, value):
        table = self.db.table(self.spaces.names.table(namespace))
        self.spaces.ensure(namespace)
        if kind == "insert":
            table.insert({"_id": key, "v": value}, conflict="replace")
        elif kind == "update":
            table.get(key).update({"v": value, "n": 1})
        elif kind == "replace":
            table.get(key).replace({"_id": key, "v": value})
        else:
            table.get(key).delete()

    def _native(self, first, second):
        """In the table, `_id` is what MongoDB knows as `v`."""
        if session_of(self.db).find("plain") is None:
            self.db.table_create("plain", primary_key="v")
        self.db.table("plain").insert({"v": 1, "_id": first, "n": second}, conflict="replace")

    def streams_of(self, scope, options, match, **more):
        """One that is routed and one that is not."""
        stages = [{"$changeStream": {**options, **more}}, {"$match": match}]
        if scope.namespace is None:
            scope, stages[0]["$changeStream"]["allChangesForCluster"] = (
                StreamScope(MongoNamespace("admin")),
                True,
            )
        routed, plain = (self.streams.open(scope, stages) for _ in range(2))
        plain.interest = EVERYTHING
        return routed, plain


def told(stream, most=None):
    """What a stream has: its events, written out because NaN is not equal to itself, and the error that it ends with."""
    events, code = [], None
    try:
        while True:
            batch = stream.batch(most)
            events += map(repr, batch.events)
            if batch.is_closed or not batch.events:
                break
    except MongoError as error:
        code = error.code
    return events, code


@given(STORIES, SCOPES, IMAGES, MATCHES, st.integers(1, 3))
@settings(max_examples=examples(80), deadline=None)
def test_from_each_token_a_routed_stream_tells_what_one_tells_that_evaluates_everything(
    story, scope, options, match, most
):
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        shop = RoutedShop(Path(directory) / "shop.db")
        stack.callback(lambda: shop.close())
        start = shop.open(StreamScope(MongoNamespace("admin")), {"allChangesForCluster": True}).token
        for step in story:
            shop.do(step)
        routed, plain = shop.streams_of(scope, options, match, startAfter=start)
        wanted = told(plain)
        assert told(routed, most) == wanted
        everything = shop.open(
            StreamScope(MongoNamespace("admin")), {"allChangesForCluster": True}, startAfter=start
        )
        for event in everything.batch().events:
            if not scope.is_collection or "coll" in event.get("ns", {}):
                routed, plain = shop.streams_of(scope, options, match, startAfter=event["_id"])
                assert told(routed, most) == told(plain)


def resumed(shop, scope, options, match, token):
    """What the two tell from a token on, and another one that has gone on from there by itself."""
    routed, plain = shop.streams_of(scope, options, match, startAfter=token)
    found = told(routed)
    assert found == told(plain)
    return found


@given(STORIES, SCOPES, IMAGES.filter(lambda one: "updateLookup" not in one.values()), MATCHES, st.data())
@settings(max_examples=examples(80), deadline=None)
def test_a_routed_stream_that_is_woken_tells_the_same_at_any_time(story, scope, options, match, data):
    shop = RoutedShop(":memory:")
    try:
        shop.do(("create", A))
        routed, plain = shop.streams_of(scope, options, match)
        woken, seen, expected = [], [], []
        routed.on_ready(lambda: woken.append(1))
        for step in [*story, None]:
            if step is not None:
                shop.do(step)
            if step is not None and data.draw(st.booleans(), "lags"):
                continue
            events, code = told(plain)
            # Who was not woken has nothing to tell, whether it is asked or not.
            if woken or step is None or data.draw(st.booleans(), "is asked"):
                woken.clear()
                mine, own_code = told(routed)
                seen += mine
            else:
                own_code = None
            expected += events
            assert (seen, own_code) == (expected, code)
            if code is not None or plain.is_closed:
                break
            # From its token on, nothing is lost and nothing is told again.
            assert resumed(shop, scope, options, match, routed.token) == resumed(
                shop, scope, options, match, plain.token
            )
    finally:
        shop.close()


@given(STORIES, SCOPES, MATCHES)
@settings(max_examples=examples(50), deadline=None)
def test_a_routed_stream_that_looks_documents_up_tells_the_same_after_each_commit(story, scope, match):
    shop = RoutedShop(":memory:")
    try:
        shop.do(("create", A))
        routed, plain = shop.streams_of(scope, {"fullDocument": "updateLookup"}, match)
        woken = []
        routed.on_ready(lambda: woken.append(1))
        for step in story:
            woken.clear()
            shop.do(step)
            events, code = told(plain)
            assert woken or not events
            if woken:
                assert (events, code) == told(routed)
            if plain.is_closed or code is not None:
                break
    finally:
        shop.close()


@given(STORIES, MATCHES)
@settings(max_examples=examples(30), deadline=None)
def test_the_token_of_a_stream_that_nothing_concerns_goes_on(story, match):
    shop = RoutedShop(":memory:")
    try:
        shop.do(("create", B))
        routed, plain = shop.streams_of(StreamScope(B), {}, {"documentKey._id": "nothing", **match})
        routed.on_ready(lambda: None)
        for step in story:
            before = routed.token
            shop.do(step)
            _, code = told(routed)
            told(plain)
            assert routed.token == plain.token
            assert routed.token["_data"] >= before["_data"]
            if routed.is_closed or code is not None:
                break
    finally:
        shop.close()
