"""Cursors and transactions, sorts by `$natural`, and what cannot be an `_id`: over a socket and in the process."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Code, MinKey
from pymongo.errors import OperationFailure

import reactdb


@pytest.fixture(params=["socket", "process"])
def orders(request: pytest.FixtureRequest, db: Any) -> Any:
    client = reactdb.mongodb(db) if request.param == "process" else request.getfixturevalue("client")
    found = client["shop"]["orders"]
    found.insert_many([{"_id": n, "a": n} for n in range(300)])
    return found


def code(work: Any, *arguments: Any, **options: Any) -> Any:
    with pytest.raises(OperationFailure) as refused:
        work(*arguments, **options)
    return refused.value.code


def ids(documents: Any) -> list[Any]:
    return [document["_id"] for document in documents]


class TestACursorGoesOnOnlyInItsTransaction:
    @pytest.mark.parametrize("end", ["abort_transaction", "commit_transaction"])
    def test_not_after_it(self, orders: Any, end: str) -> None:
        """It would give documents that never were."""
        with orders.database.client.start_session() as session:
            session.start_transaction()
            orders.insert_one({"_id": "new"}, session=session)
            cursor = orders.find(batch_size=2, session=session)
            first = [next(cursor)["_id"], next(cursor)["_id"]]
            getattr(session, end)()

            assert [0, 1] == first
            assert 50740 == code(list, cursor)

    def test_not_in_one_that_was_begun_later(self, orders: Any) -> None:
        with orders.database.client.start_session() as session:
            cursor = orders.find(batch_size=2, session=session)
            next(cursor)
            next(cursor)
            session.start_transaction()
            orders.find_one(session=session)

            assert 50739 == code(list, cursor)
            # It is an error of the cursor and not of the transaction.
            orders.insert_one({"_id": "new"}, session=session)
            session.commit_transaction()
        assert 301 == orders.count_documents({})

    def test_not_in_the_next_one(self, orders: Any) -> None:
        with orders.database.client.start_session() as session:
            session.start_transaction()
            cursor = orders.aggregate([], batchSize=2, session=session)
            next(cursor)
            next(cursor)
            session.abort_transaction()
            session.start_transaction()
            orders.find_one(session=session)

            assert 50741 == code(list, cursor)

    def test_what_came_with_the_answer_is_there(self, orders: Any) -> None:
        with orders.database.client.start_session() as session:
            with session.start_transaction():
                cursor = orders.find(session=session).limit(50)
                first = next(cursor)["_id"]

            assert list(range(50)) == [first, *ids(cursor)]

    def test_it_goes_on_within(self, orders: Any) -> None:
        with orders.database.client.start_session() as session, session.start_transaction():
            assert list(range(300)) == ids(orders.find(batch_size=2, session=session))
            assert list(range(300)) == ids(orders.aggregate([], batchSize=7, session=session))


class TestNaturalOrder:
    @pytest.mark.parametrize(
        ("sort", "hint"),
        [
            ({"$natural": "x"}, None),
            ({"$natural": 2}, None),
            ({"$natural": 1, "a": 1}, None),
            ({"a": 1, "$natural": 1}, None),
            ({"$natural": 1}, {"a": 1}),
            ({"$natural": 1}, "a_1"),
            ({"$natural": -1}, {"$natural": 1}),
        ],
    )
    def test_what_cannot_be_sorted_by_it(self, orders: Any, sort: Any, hint: Any) -> None:
        orders.create_index("a")

        assert 2 == code(lambda: list(orders.find(sort=list(sort.items()), hint=hint)))
        assert 2 == code(
            orders.database.command, "explain", {"find": "orders", "sort": sort, "hint": hint or {}}
        )

    def test_from_the_end(self, orders: Any) -> None:
        down = [("$natural", -1)]

        assert [299, 298] == ids(orders.find(sort=down).limit(2))
        assert [299, 298] == ids(orders.find(sort=down, hint=down).limit(2))


class TestWhatCannotBeAnId:
    @pytest.mark.parametrize("id", [{"$gt": MinKey()}, {"a": 1, "$b": 2}, "x" * 100_000])
    def test_is_found_nowhere(self, orders: Any, id: Any) -> None:
        equal = {"_id": {"$eq": id}}

        assert orders.find_one(equal) is None
        assert 0 == orders.count_documents(equal)
        assert 0 == orders.update_one(equal, {"$set": {"b": 1}}).matched_count
        assert 0 == orders.delete_many(equal).deleted_count
        assert [1] == ids(orders.find({"$or": [equal, {"_id": 1}]}))

    def test_a_long_text_is_found_nowhere(self, orders: Any) -> None:
        assert orders.find_one({"_id": "x" * 100_000}) is None
        assert [1] == ids(orders.find({"_id": {"$in": ["x" * 100_000, 1]}}))

    def test_a_replacement_is_not_made_from_a_part_of_one(self, orders: Any) -> None:
        part = {"_id.x": 1}

        assert 111 == code(orders.replace_one, part, {"q": 1}, upsert=True)
        assert 111 == code(orders.find_one_and_replace, part, {"q": 1}, upsert=True)
        assert {"x": 1} == orders.update_one(part, {"$set": {"q": 1}}, upsert=True).upserted_id


class TestWrongArguments:
    @pytest.mark.parametrize(
        ("expression", "expected"),
        [
            ({"$median": {"input": [1, 2], "method": ["approximate"]}}, 14),
            ({"$percentile": {"input": [1, 2], "p": [0.5], "method": {}}}, 14),
            ({"$map": {"input": [1], "as": Code("x"), "in": 1}}, 9),
            ({"$filter": {"input": [1], "as": Code("x"), "cond": 1}}, 9),
        ],
    )
    def test_of_expressions(self, orders: Any, expression: Any, expected: int) -> None:
        assert expected == code(lambda: list(orders.aggregate([{"$project": {"x": expression}}])))

    @pytest.mark.parametrize(
        ("name", "value", "expected"), [("skip", "x", 14), ("limit", ["a"], 14), ("skip", -1, 2)]
    )
    def test_of_a_tail(self, orders: Any, name: str, value: Any, expected: int) -> None:
        shop = orders.database
        shop.create_collection("log", capped=True, size=1_000)

        for collection in ("log", "none"):
            assert expected == code(shop.command, {"find": collection, "tailable": True, name: value})
