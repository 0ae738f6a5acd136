"""Hints: the order of an index, bounds in it, and what it leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import reactdb
from reactdb import Database

pytest.importorskip("pymongo")

from hypothesis import given, settings
from hypothesis import strategies as st
from pymongo import DeleteOne, UpdateOne
from pymongo.errors import BulkWriteError, InvalidOperation, OperationFailure

from tests.support.scaling import examples


@pytest.fixture
def db() -> Iterator[Database]:
    with reactdb.connect(":memory:") as opened:
        yield opened


@pytest.fixture
def orders(db: Database) -> Any:
    found = reactdb.mongodb(db)["shop"]["orders"]
    found.insert_many([{"_id": n, "n": (n * 3) % 7, "m": n % 2} for n in range(7)])
    found.create_index("n")
    found.create_index([("m", 1), ("n", -1)])
    return found


def values(documents: Any, name: str = "n") -> list[Any]:
    return [one[name] for one in documents]


class TestOrder:
    def test_documents_come_in_the_order_of_the_index(self, orders: Any) -> None:
        assert [0, 1, 2, 3, 4, 5, 6] == values(orders.find().hint("n_1"))
        found = [(one["m"], one["n"]) for one in orders.find().hint([("m", 1), ("n", -1)])]
        assert found == sorted(found, key=lambda one: (one[0], -one[1]))

    def test_the_order_of_the_collection_can_be_turned_round(self, orders: Any) -> None:
        assert [6, 5, 4, 3, 2, 1, 0] == values(orders.find(hint=[("$natural", -1)]), "_id")

    def test_a_sort_goes_before(self, orders: Any) -> None:
        assert [6, 5] == values(orders.find(hint="n_1").sort("n", -1).limit(2))

    def test_an_index_that_leaves_documents_out_gives_none_of_them(self, orders: Any) -> None:
        orders.create_index("s", sparse=True)
        orders.create_index("p", partialFilterExpression={"n": {"$gt": 4}})
        orders.update_one({"_id": 3}, {"$set": {"s": 1}})
        assert [3] == values(orders.find(hint="s_1"), "_id")
        assert [5, 6] == sorted(values(orders.find(hint="p_1")))
        assert 1 == orders.count_documents({}, hint="s_1")
        assert [3] == orders.distinct("_id", hint="s_1")

    def test_neither_does_it_in_a_transaction(self, orders: Any) -> None:
        orders.create_index("s", sparse=True)
        orders.update_one({"_id": 3}, {"$set": {"s": 1}})
        with orders.database.client.start_session() as session, session.start_transaction():
            orders.update_one({"_id": 4}, {"$set": {"s": 2}}, session=session)
            assert [3, 4] == values(orders.find(hint="s_1", session=session), "_id")
            assert 2 == orders.count_documents({}, hint="s_1", session=session)
            assert [3, 4] == orders.distinct("_id", hint="s_1", session=session)

    def test_a_document_of_one_id_is_given_if_the_index_has_it(self, orders: Any) -> None:
        orders.create_index("s", sparse=True)
        orders.update_one({"_id": 3}, {"$set": {"s": 1}})
        assert [[3], []] == [values(orders.find({"_id": id}, hint="s_1"), "_id") for id in (3, 4)]

    def test_an_array_s_document_comes_once(self, orders: Any) -> None:
        orders.insert_one({"_id": 9, "n": [2, 9, 2]})
        assert 8 == len(list(orders.find(hint="n_1")))


class TestOrderOfWrites:
    def test_the_first_is_that_of_the_index(self, orders: Any) -> None:
        orders.delete_one({}, hint=[("n", 1)])
        orders.delete_one({"n": {"$lt": 6}}, hint=[("m", 1), ("n", -1)])
        assert [1, 2, 3, 4, 6] == values(orders.find(hint="n_1"))
        orders.update_one({"n": {"$gt": 1}}, {"$set": {"x": 1}}, hint="n_1")
        assert [2] == values(orders.find({"x": 1}))
        assert 1 == orders.find_one_and_delete({}, hint="n_1")["n"]
        assert 6 == orders.find_one_and_update({}, {"$inc": {"x": 1}}, sort=[("n", -1)], hint="n_1")["n"]

    def test_the_order_of_the_collection_is_turned_round(self, orders: Any) -> None:
        backwards = [("$natural", -1)]
        orders.delete_one({}, hint=backwards)
        orders.update_one({}, {"$set": {"x": 1}}, hint=backwards)
        assert 4 == orders.find_one_and_delete({"x": {"$exists": False}}, hint=backwards)["_id"]
        assert [5] == values(orders.find({"x": 1}), "_id")
        assert [0, 1, 2, 3, 5] == values(orders.find(), "_id")
        orders.delete_one({}, hint=[("$natural", 1)])
        assert [1, 2, 3, 5] == values(orders.find(), "_id")

    def test_what_the_index_does_not_have_is_left_alone(self, orders: Any) -> None:
        orders.create_index("s", sparse=True)
        orders.update_one({"_id": 3}, {"$set": {"s": 1}})
        assert 1 == orders.update_many({}, {"$set": {"x": 1}}, hint="s_1").matched_count
        assert 0 == orders.delete_one({"_id": 4}, hint="s_1").deleted_count
        assert 1 == orders.delete_many({}, hint="s_1").deleted_count
        assert [0, 1, 2, 4, 5, 6] == values(orders.find(), "_id")

    def test_neither_is_it_in_a_transaction(self, orders: Any) -> None:
        with orders.database.client.start_session() as session, session.start_transaction():
            orders.delete_one({}, hint=[("$natural", -1)], session=session)
            orders.bulk_write([DeleteOne({}, hint="n_1")], session=session)
        assert [1, 2, 3, 4, 5] == values(orders.find(), "_id")


class TestBounds:
    def test_the_first_is_inclusive_and_the_second_is_not(self, orders: Any) -> None:
        assert [3, 4, 5, 6] == values(orders.find().min([("n", 3)]).hint("n_1"))
        assert [0, 1, 2] == values(orders.find().max([("n", 3)]).hint("n_1"))
        assert [2, 3] == values(orders.find({"n": {"$ne": 1}}, hint="n_1", min=[("n", 1)], max=[("n", 4)]))

    def test_they_are_in_the_order_of_the_index(self, orders: Any) -> None:
        found = orders.find(hint="m_1_n_-1", min=[("m", 0), ("n", 5)], max=[("m", 1), ("n", 3)])
        assert [(0, 5), (0, 4), (0, 0)] == [(one["m"], one["n"]) for one in found]

    def test_of_an_array_some_entry_has_to_be_within(self, orders: Any) -> None:
        orders.insert_one({"_id": 9, "n": [1, 50]})
        assert [9] == values(orders.find(hint="n_1", min=[("n", 10)]), "_id")
        assert [] == values(orders.find(hint="n_1", min=[("n", 10)], max=[("n", 20)]), "_id")

    @pytest.mark.parametrize(
        ("code", "options"),
        [
            (51174, {"hint": "n_1", "min": {"m": 1}}),
            (51174, {"hint": "m_1_n_-1", "min": {"n": 1, "m": 1}}),
            (51175, {"hint": "n_1", "min": {"n": 3}, "max": {"n": 3}}),
            (51176, {"hint": "n_1", "min": {"n": 3}, "max": {"m": 3}}),
            (2, {"hint": "missing", "min": {"n": 3}}),
            (2, {"hint": {"x": 1}}),
            (238, {"show_record_id": True}),
        ],
    )
    def test_what_does_not_fit_is_refused(self, orders: Any, code: int, options: dict[str, Any]) -> None:
        with pytest.raises(OperationFailure) as caught:
            list(orders.find({}, **options))
        assert code == caught.value.code

    def test_they_need_a_hint(self, orders: Any) -> None:
        with pytest.raises(InvalidOperation):
            list(orders.find().min([("n", 3)]))
        with pytest.raises(TypeError):
            orders.find().min({"n": 3})

    @given(
        st.lists(st.integers(0, 5) | st.lists(st.integers(0, 5), max_size=3), max_size=8),
        st.integers(0, 5),
        st.integers(0, 6),
        st.sampled_from([1, -1]),
    )
    @settings(max_examples=examples(40), deadline=None)
    def test_law_they_are_what_the_entries_say(
        self, given: list[Any], least: int, most: int, way: int
    ) -> None:
        with reactdb.connect(":memory:") as db:
            orders = reactdb.mongodb(db)["shop"]["orders"]
            orders.create_index([("n", way)], name="n")
            orders.insert_many([{"_id": "x"}, *({"_id": place, "n": n} for place, n in enumerate(given))])
            low, high = (least, most) if way == 1 else (most, least)
            if least >= most:
                return
            found = list(orders.find(hint="n", min={"n": low}, max={"n": high}))

            def entries(n: Any) -> list[int]:
                own = n if isinstance(n, list) else [n]
                return [one for one in own if (least <= one < most if way == 1 else least < one <= most)]

            assert {place for place, n in enumerate(given) if entries(n)} == set(values(found, "_id"))
            firsts = [min(entries(one["n"])) if way == 1 else -max(entries(one["n"])) for one in found]
            assert sorted(firsts) == firsts


class TestKeys:
    def test_the_fields_of_the_index_alone_are_given(self, orders: Any) -> None:
        assert [{"n": 0}, {"n": 1}] == list(orders.find(hint="n_1", return_key=True).limit(2))
        assert [{"m": 0, "n": 4}] == list(orders.find({"_id": 6}, hint="m_1_n_-1", return_key=True))

    def test_without_an_index_there_are_none(self, orders: Any) -> None:
        assert [{}] == list(orders.find({"m": 1}, return_key=True).limit(1))


class TestWrites:
    def test_a_hint_of_a_write_has_to_be_an_index(self, orders: Any) -> None:
        for write in (
            lambda hint: orders.update_one({"n": 1}, {"$set": {"a": 1}}, hint=hint),
            lambda hint: orders.update_many({"n": 1}, {"$set": {"a": 1}}, hint=hint),
            lambda hint: orders.replace_one({"n": 1}, {"n": 1}, hint=hint),
            lambda hint: orders.find_one_and_update({"n": 1}, {"$set": {"a": 1}}, hint=hint),
            lambda hint: orders.find_one_and_delete({"n": 100}, hint=hint),
            lambda hint: orders.delete_one({"n": 100}, hint=hint),
            lambda hint: orders.bulk_write([UpdateOne({"n": 1}, {"$set": {"a": 1}}, hint=hint)]),
            lambda hint: orders.bulk_write([DeleteOne({"n": 100}, hint=hint)]),
        ):
            write("n_1")
            write([("n", 1)])
            with pytest.raises((OperationFailure, BulkWriteError)) as caught:
                write("missing")
            details = caught.value.details
            assert details is not None
            assert 2 in (details.get("code"), *(one["code"] for one in details.get("writeErrors", ())))

    def test_where_there_is_no_collection_nothing_is_asked(self, db: Database) -> None:
        missing = reactdb.mongodb(db)["shop"]["missing"]
        assert 0 == missing.update_one({}, {"$set": {"a": 1}}, hint="n_1").matched_count
        assert [] == list(missing.find(hint="n_1"))
