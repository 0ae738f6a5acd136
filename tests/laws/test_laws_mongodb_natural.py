"""Law of natural order: whatever is written, documents without a sort come in the order in which they were inserted."""

import tempfile
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pymongo.errors import BulkWriteError, DuplicateKeyError

import reactdb
from reactdb.change import HiddenTable
from reactdb.dialects.mongodb import natural
from reactdb.dialects.mongodb.namespaces import PLACES, place_table
from reactdb.session import session_of
from tests.support.scaling import examples

pytestmark = pytest.mark.examples

KEYS = st.sampled_from([0, 1, 2, 3, "a", "b", "c", "d"])
VALUES = st.integers(0, 2)
WRITES = st.one_of(
    st.tuples(st.just("insert"), KEYS, VALUES),
    st.tuples(st.just("insert"), KEYS, VALUES),
    st.tuples(st.just("upsert"), KEYS, VALUES),
    st.tuples(st.just("update"), KEYS, VALUES),
    st.tuples(st.just("replace"), KEYS, VALUES),
    st.tuples(st.just("delete"), KEYS, VALUES),
)
STEPS = st.one_of(
    WRITES,
    WRITES,
    st.tuples(st.just("many"), st.lists(KEYS, min_size=1, max_size=5), st.booleans()),
    st.tuples(st.just("update_all"), VALUES, VALUES),
    st.tuples(st.just("delete_all"), VALUES),
    st.tuples(st.just("delete_first"), VALUES),
    st.tuples(st.just("transaction"), st.lists(WRITES, min_size=1, max_size=4), st.booleans()),
    st.tuples(st.just("bulk"), st.lists(WRITES, min_size=1, max_size=4)),
    st.just(("index",)),
    st.just(("unique",)),
    st.just(("rename",)),
    st.just(("drop",)),
    st.just(("compact",)),
    st.just(("restart",)),
)


class Shop:
    """A file with one collection, and a dict that says what has to be in it, in its order."""

    def __init__(self, path):
        self.path = path
        self.name = "a"
        self.model = {}
        self.db = None
        self.restart()

    @property
    def collection(self):
        return self.client["shop"][self.name]

    def do(self, step):
        kind, *said = step
        getattr(self, kind)(*said)

    def write(self, kind, key, value, model, session=None):
        """Carry out one write there and in the model."""
        there = self.collection
        if kind == "insert":
            if key in model:
                # In a transaction it would end it.
                if session is None:
                    with pytest.raises(DuplicateKeyError):
                        there.insert_one({"_id": key, "v": value})
                return
            there.insert_one({"_id": key, "v": value}, session=session)
            model[key] = value
        elif kind == "delete":
            there.delete_one({"_id": key}, session=session)
            model.pop(key, None)
        else:
            if kind == "replace":
                there.replace_one({"_id": key}, {"v": value}, session=session)
            else:
                there.update_one(
                    {"_id": key}, {"$set": {"v": value}}, upsert=kind == "upsert", session=session
                )
            if kind == "upsert" or key in model:
                model[key] = value

    def insert(self, key, value):
        self.write("insert", key, value, self.model)

    def upsert(self, key, value):
        self.write("upsert", key, value, self.model)

    def update(self, key, value):
        self.write("update", key, value, self.model)

    def replace(self, key, value):
        self.write("replace", key, value, self.model)

    def delete(self, key, value):
        self.write("delete", key, value, self.model)

    def many(self, keys, ordered):
        fails = len({*keys}) < len(keys) or any(key in self.model for key in keys)
        try:
            self.collection.insert_many([{"_id": key, "v": 0} for key in keys], ordered=ordered)
        except BulkWriteError:
            assert fails
        else:
            assert not fails
        for key in keys:
            if key in self.model and ordered:
                break
            self.model.setdefault(key, 0)

    def bulk(self, writes):
        """Several writes of one kind each as one command."""
        requests = [
            {"q": {"_id": key}, "u": {"$set": {"v": value}}, "upsert": True} for _, key, value in writes
        ]
        self.client["shop"].command({"update": self.name, "updates": requests})
        for _, key, value in writes:
            self.model[key] = value

    def update_all(self, old, new):
        self.collection.update_many({"v": old}, {"$set": {"v": new}})
        self.model = {key: new if value == old else value for key, value in self.model.items()}

    def delete_all(self, value):
        self.collection.delete_many({"v": value})
        self.model = {key: one for key, one in self.model.items() if one != value}

    def delete_first(self, value):
        first = next((key for key, one in self.model.items() if one == value), None)
        gone = self.collection.find_one_and_delete({"v": value})
        assert (None if gone is None else gone["_id"]) == first
        if gone is not None:
            del self.model[first]

    def transaction(self, writes, is_kept):
        model = dict(self.model)
        with self.client.start_session() as session:
            session.start_transaction()
            for kind, key, value in writes:
                self.write(kind, key, value, model, session)
                assert [row["_id"] for row in self.collection.find(session=session)] == list(model)
            if not is_kept:
                session.abort_transaction()
                return
            session.commit_transaction()
        self.model = model

    def index(self):
        self.collection.create_index("v")

    def unique(self):
        self.collection.create_index([("_id", 1), ("v", 1)], unique=True)

    def rename(self):
        if self.model:
            target = "b" if self.name == "a" else "a"
            self.collection.rename(target, dropTarget=True)
            self.name = target

    def drop(self):
        self.collection.drop()
        self.model = {}

    def compact(self):
        self.db.compact(keep=0)

    def restart(self):
        if self.db is not None:
            self.db.close()
        self.db = reactdb.connect(self.path, durability="soft")
        self.client = reactdb.mongodb(self.db)

    def check(self):
        keys = list(self.model)
        there = self.collection
        assert [row["_id"] for row in there.find()] == keys
        assert [row["_id"] for row in there.find().sort("$natural", -1)] == keys[::-1]
        assert [row["_id"] for row in there.aggregate([{"$match": {"v": {"$gte": 0}}}])] == keys
        first = there.find_one()
        assert (None if first is None else first["_id"]) == (keys[0] if keys else None)
        for value in range(3):
            matching = [key for key, one in self.model.items() if one == value]
            assert [row["_id"] for row in there.find({"v": value})] == matching
            assert [row["_id"] for row in there.find({"v": value}).limit(2)] == matching[:2]
            by_value = [key for one in range(3) for key in keys if self.model[key] == one]
        assert [row["_id"] for row in there.aggregate([{"$sort": {"v": 1}}])] == by_value
        self.check_places()

    def check_places(self):
        """No place is left of what is gone."""
        with session_of(self.db).read() as now:
            collection = now.catalogue.live.get(f"shop.{self.name}")
            for reference, table in now.catalogue.live.items():
                if isinstance(reference, HiddenTable) and reference.name.startswith(PLACES):
                    assert collection is not None
                    assert reference == place_table(collection.id)
                    # One row says up to which key documents have none.
                    assert now.count(table) <= len(self.model) + 1


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(STEPS, max_size=14), st.sampled_from([0, 2, natural.FEW]))
@example([("insert", "b", 0), ("insert", "a", 0), ("update", "a", 1), ("restart",), ("insert", 0, 0)], 256)
@example([("insert", "b", 0), ("delete", "b", 0), ("insert", "a", 0), ("many", ["b", "a"], False)], 256)
@example([("transaction", [("insert", "b", 0), ("insert", "a", 0)], True), ("compact",)], 256)
@example([("many", ["c", "b", "a"], True), ("drop",), ("many", ["a", "b"], True), ("insert", 0, 1)], 256)
@example([("insert", "b", 1), ("insert", "a", 1), ("index",), ("rename",), ("delete_first", 1)], 256)
@example([("transaction", [("insert", 1, 0), ("insert", 0, 0), ("upsert", 0, 1)], True)], 256)
@example([("many", [1, 2, 3, "b"], True), ("insert", 0, 1), ("delete", 2, 0), ("insert", 2, 0)], 0)
@example([("many", ["c", "d"], True), ("many", ["b", 1], True), ("compact",), ("delete", "c", 0)], 2)
def test_documents_come_in_the_order_in_which_they_were_inserted(steps, few):
    """`few`: of how many documents that were there before places are kept. Pages are small, so that there are several."""
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.multiple(natural, FEW=few, FIRST_ROWS=1, PAGE_ROWS=2),
    ):
        shop = Shop(Path(folder) / "shop.db")
        try:
            for step in steps:
                shop.do(step)
                shop.check()
        finally:
            shop.db.close()
