"""Laws of MongoDB's change streams: whatever happens, and wherever a stream is resumed, each event comes once and in order."""

import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb.dialects.mongodb import MongoError
from reactdb.dialects.mongodb.embedded.resuming_stream import ResumingStream
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.namespaces import Namespaces
from reactdb.dialects.mongodb.scopes import StreamScope
from reactdb.dialects.mongodb.streams import ChangeStreams
from reactdb.session import session_of
from tests.support.scaling import examples

pytestmark = pytest.mark.examples

A, B, C = (MongoNamespace(*name) for name in (("shop", "a"), ("shop", "b"), ("bank", "a")))
SCOPES = [
    (StreamScope(A), {}),
    (StreamScope(A), {"showExpandedEvents": True}),
    (StreamScope(MongoNamespace("shop")), {}),
    (StreamScope(MongoNamespace("admin")), {"allChangesForCluster": True, "showExpandedEvents": True}),
]
COLLECTIONS = st.sampled_from([A, B, C])
KEYS = st.integers(0, 2)
WRITES = st.tuples(
    st.sampled_from(["insert", "update", "replace", "delete"]), COLLECTIONS, KEYS, st.integers(0, 3)
)
STEPS = st.one_of(
    WRITES,
    WRITES,
    st.tuples(st.just("transaction"), st.lists(WRITES, min_size=1, max_size=5)),
    st.tuples(st.just("aborted"), st.lists(WRITES, min_size=1, max_size=3)),
    st.tuples(st.just("drop"), COLLECTIONS),
    st.tuples(st.just("create"), COLLECTIONS),
    st.tuples(st.just("options"), COLLECTIONS, st.integers(0, 2)),
    st.tuples(st.just("rename"), COLLECTIONS, COLLECTIONS, st.booleans()),
    st.tuples(st.just("drop_database"), st.sampled_from(["shop", "bank"])),
    st.tuples(st.just("together"), COLLECTIONS, COLLECTIONS),
    st.tuples(st.just("restart")),
)
STORIES = st.lists(STEPS, max_size=14)


class Shop:
    """A file, and what is done to it."""

    def __init__(self, path):
        self.path = path
        self._open()

    def _open(self):
        self.db = reactdb.connect(self.path, durability="soft")
        self.spaces = Namespaces(session_of(self.db))
        self.streams = ChangeStreams(self.spaces)

    def close(self):
        self.db.close()

    def do(self, step):
        kind, *said = step
        try:
            getattr(self, f"_{kind}", self._write)(*(said if hasattr(self, f"_{kind}") else step))
        except MongoError as error:
            if error.code not in (20, 26, 48):
                raise

    def _write(self, kind, namespace, key, value):
        table = self.db.table(self.spaces.names.table(namespace))
        self.spaces.ensure(namespace)
        document = {"_id": key, "v": value, "a": {"b": [value, key]}}
        if kind == "insert":
            table.insert(document, conflict="replace")
        elif kind == "update":
            table.get(key).update({"v": value})
        elif kind == "replace":
            table.get(key).replace({"_id": key, "w": value})
        else:
            table.get(key).delete()

    def _transaction(self, writes):
        with self.db.transaction():
            for write in writes:
                self._write(*write)

    def _aborted(self, writes):
        with pytest.raises(KeyError), self.db.transaction():
            for write in writes:
                self._write(*write)
            raise KeyError

    def _drop(self, namespace):
        self.spaces.drop(namespace)

    def _create(self, namespace):
        self.spaces.create(namespace)

    def _options(self, namespace, value):
        self.spaces.modify(namespace, {"validator": {"unused": {"$ne": value}}})

    def _rename(self, source, target, drop_target):
        self.spaces.rename(source, target, drop_target=drop_target)

    def _drop_database(self, name):
        self.spaces.drop_database(name)

    def _together(self, first, second):
        """Collections that go and come back inside of one commit."""
        with self.db.transaction():
            self._write("insert", first, 0, 1)
            self.spaces.drop(first)
            self._write("insert", first, 1, 2)
            self._write("insert", second, 1, 2)

    def _restart(self):
        self.close()
        self._open()

    def open(self, scope, options, **more):
        return self.streams.open(scope, [{"$changeStream": {**options, **more}}])


def read_all(shop, scope, options, start, most=None):
    """The events from a token on, and after each batch the place in them and the token; over invalidations to the end."""
    events, tokens = [], [(0, start)]
    stream = shop.open(scope, options, startAfter=start)
    while True:
        batch = stream.batch(most)
        events += batch.events
        tokens.append((len(events), batch.token))
        if batch.is_closed:
            stream = shop.open(scope, options, startAfter=batch.token)
        elif not batch.events:
            stream.close()
            return events, tokens


@given(STORIES, st.integers(1, 3))
@settings(max_examples=examples(40), deadline=None)
def test_resuming_at_every_token_gives_the_rest_exactly(story, most):
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        shop = Shop(Path(directory) / "shop.db")
        stack.callback(lambda: shop.close())
        starts = [shop.open(scope, options).token for scope, options in SCOPES]
        for step in story:
            shop.do(step)
        for (scope, options), start in zip(SCOPES, starts, strict=True):
            events, _ = read_all(shop, scope, options, start)
            again, tokens = read_all(shop, scope, options, start, most)
            assert events == again
            data = [event["_id"]["_data"] for event in events]
            assert sorted(set(data)) == data
            times = [event["clusterTime"] for event in events]
            assert sorted(times) == times
            for place, token in tokens:
                assert events[place:] == read_all(shop, scope, options, token)[0]
            for place, event in enumerate(events):
                assert events[place + 1 :] == read_all(shop, scope, options, event["_id"])[0]
        shop.do(("restart",))
        for (scope, options), start in zip(SCOPES[:1], starts, strict=False):
            events, _ = read_all(shop, scope, options, start)
            for place, event in enumerate(events):
                assert events[place + 1 :] == read_all(shop, scope, options, event["_id"])[0]


FAULTS = st.lists(
    st.one_of(
        STEPS.filter(lambda step: step[0] != "restart"),
        st.sampled_from([("fault",), ("compact",), ("read", 1), ("read", 9)]),
    ),
    max_size=20,
)


class Follower:
    """Reads a stream that resumes by itself, over invalidations."""

    def __init__(self, shop, scope, options):
        self._open = lambda **more: ResumingStream(shop.streams, scope, {**options, **more}, [], None)
        self._stream = self._open()
        self.seen = []

    def read(self, most):
        """Whether there was anything."""
        batch = self._stream.batch(most)
        self.seen += batch.events
        if batch.is_closed:
            self._stream = self._open(startAfter=batch.token)
        return bool(batch.events) or batch.is_closed

    def read_all(self, most=None):
        while self.read(most):
            pass


@given(FAULTS, st.sampled_from(SCOPES))
@settings(max_examples=examples(80), deadline=None)
def test_a_fault_in_the_middle_and_one_resume_lose_nothing_and_repeat_nothing(story, place):
    """Streams that are read bit by bit, lose their cursor, and are overtaken by compaction up to where they stand."""
    shop = Shop(":memory:")
    try:
        whole, broken = Follower(shop, *place), Follower(shop, *place)
        for step in story:
            if step[0] == "fault":
                shop.streams.fail(MongoError(43, "the cursor was killed"))
                broken.read(1)
            elif step[0] == "read":
                broken.read(step[1])
            elif step[0] == "compact":
                whole.read_all()
                broken.read_all()
                shop.db.compact(0)
            else:
                shop.do(step)
        whole.read_all()
        broken.read_all(2)
        assert whole.seen == broken.seen
    finally:
        shop.close()


@given(STORIES)
@settings(max_examples=examples(30), deadline=None)
def test_a_stream_that_is_read_all_the_time_gives_what_is_read_afterwards(story):
    shop = Shop(":memory:")
    try:
        for scope, options in SCOPES[2:]:
            live, start = shop.open(scope, options), shop.open(scope, options).token
            woken, seen = [], []
            live.on_ready(lambda woken=woken: woken.append(1))
            for step in story:
                if step[0] == "restart":
                    continue
                woken.clear()
                shop.do(step)
                batch = live.batch()
                assert woken or not batch.events
                seen += batch.events
                if batch.is_closed:
                    live = shop.open(scope, options, startAfter=batch.token)
                    live.on_ready(lambda woken=woken: woken.append(1))
            live.close()
            assert seen == read_all(shop, scope, options, start)[0]
    finally:
        shop.close()
