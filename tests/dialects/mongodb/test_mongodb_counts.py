"""Counts of MongoDB's dialect: a number from the entries of an index is the number of documents that match.

Whatever the documents (arrays, NaN, dates outside of Python's years), the filter and the index; in and outside of a transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest
from bson.binary import Binary
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.timestamp import Timestamp
from hypothesis import example, given, settings
from hypothesis import strategies as st

import reactdb
from reactdb.dialects.mongodb.collection import CollectionWork
from tests.support.scaling import examples

MOMENT = datetime(2020, 1, 2, 3, 4, 5, 6_000)
VALUES: list[Any] = [
    *[None, 0, -0.0, 1, 1.0, Int64(1), Decimal128("1"), Decimal128("1.5"), 1.5, 2, 2**53 + 1, 2.0**53, -3],
    *[float("nan"), float("inf"), float("-inf"), Decimal128("NaN"), Decimal128("Infinity")],
    *["", "a", "a\0", "ab", "b", True, False, MOMENT, DatetimeMS(-(2**50)), DatetimeMS(2**60)],
    *[ObjectId(bytes(12)), ObjectId(b"\xff" * 12), Binary(b"a", 3), b"a", {}, {"x": 1}, Timestamp(1, 1)],
    *[MinKey(), MaxKey(), [], [1], [1, 3], [1, 1.0], ["a", 2], [[1], 2], [None], [{"x": 1}]],
]
values = st.sampled_from(VALUES)
asked_values = st.sampled_from([one for one in VALUES if not isinstance(one, (list, dict))])
documents = st.fixed_dictionaries({}, optional={"a": values, "b": values, "c": values})
operators = st.dictionaries(
    st.sampled_from(["$eq", "$gt", "$gte", "$lt", "$lte", "$in", "$ne", "$exists"]),
    asked_values,
    min_size=1,
    max_size=2,
).map(lambda one: {name: _argument(name, value) for name, value in one.items()})
filters = st.dictionaries(st.sampled_from(["a", "b", "_id"]), asked_values | operators, max_size=2)

INDEXES: list[tuple[list[tuple[str, int]], dict[str, Any]]] = [
    ([("a", 1)], {}),
    ([("a", 1), ("b", -1)], {}),
    ([("b", 1)], {"sparse": True}),
    ([("a", 1)], {"partialFilterExpression": {"b": 1}, "name": "partial"}),
]


def _argument(name: str, value: Any) -> Any:
    return [value, 1, "a"] if name == "$in" else bool(value) if name == "$exists" else value


@contextmanager
def one_collection(indexes: list[int]) -> Iterator[Any]:
    with reactdb.connect(":memory:") as db:
        client = reactdb.mongodb(db)
        for number in indexes:
            keys, options = INDEXES[number]
            client["shop"]["orders"].create_index(keys, **options)
        yield client


def counts_of(orders: Any, condition: dict[str, Any], **options: Any) -> list[Any]:
    """The count of a filter, in all ways."""
    match, group = {"$match": condition}, {"$group": {"_id": None, "n": {"$sum": 1}}}
    return [
        orders.count_documents(condition, **options),
        orders.count_documents(condition, skip=1, limit=2, **options),
        list(orders.aggregate([match, {"$count": "n"}], **options)),
        list(orders.aggregate([match, {"$skip": 1}, {"$limit": 3}, group], **options)),
        list(orders.aggregate([match, group, {"$project": {"_id": 0, "m": {"$add": ["$n", 1]}}}], **options)),
    ]


@settings(max_examples=examples(120))
@given(
    st.lists(documents, max_size=7),
    st.lists(documents, max_size=2),
    st.lists(filters, min_size=1, max_size=4),
    st.lists(st.sampled_from(range(len(INDEXES))), max_size=3, unique=True),
)
@example([{"a": one} for one in VALUES], [], [{"a": {"$lt": 5}}, {"a": {"$gt": 0, "$lt": 3}}], [0])
@example([{"a": 1, "b": one} for one in VALUES], [], [{"a": 1, "b": {"$gte": MOMENT}}], [1])
@example([{"a": [1, 1.0]}, {"a": [1, 2]}], [], [{"a": {"$in": [1, 2]}}], [0])
@example([{"a": [1, 3]}], [], [{"a": {"$gt": 2, "$lt": 2.5}}], [0])
def test_a_count_is_the_number_of_matches(
    before: list[dict[str, Any]], after: list[dict[str, Any]], asked: list[dict[str, Any]], indexes: list[int]
) -> None:
    with one_collection(indexes) as client:
        orders = client["shop"]["orders"]
        if before:
            orders.insert_many([dict(one) for one in before])

        def check_all(**options: Any) -> None:
            for condition in asked:
                short = counts_of(orders, condition, **options)
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(CollectionWork, "count_matches", lambda *ignored: None)
                    assert counts_of(orders, condition, **options) == short
                assert short[0] == len(list(orders.find(condition, {"_id": 1}, **options)))

        check_all()
        with client.start_session() as session, session.start_transaction():
            if after:
                orders.insert_many([dict(one) for one in after], session=session)
            check_all(session=session)


@pytest.mark.parametrize(
    "condition",
    [
        {},
        {"a": 5},
        {"a": {"$in": [5, "x"]}},
        {"a": {"$gt": 5}},
        {"a": {"$gte": 5, "$lt": 9}},
        {"a": 5, "b": {"$lte": "x"}},
    ],
)
def test_no_document_is_read_for_a_count(condition: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    with one_collection([0, 1]) as client:
        orders = client["shop"]["orders"]
        orders.insert_many([{"a": 5, "b": "a"}, {"a": 7, "b": "x"}])
        expected = len(list(orders.find(condition)))
        monkeypatch.setattr(CollectionWork, "matching", None)

        assert expected == orders.count_documents(condition)
        assert [{"n": expected}] == list(orders.aggregate([{"$match": condition}, {"$count": "n"}]))
