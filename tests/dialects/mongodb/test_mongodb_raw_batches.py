"""Raw batches in the process are cut where those of a server are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import reactdb

pytest.importorskip("pymongo")

from bson import decode_all
from pymongo import CursorType, MongoClient
from pymongo.errors import InvalidOperation, OperationFailure

from reactdb.servers.mongodb import serve_in_thread

HELD = 250


@pytest.fixture(params=["in the process", "over a socket"])
def orders(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A collection here, and PyMongo's own, which says what is right."""
    with reactdb.connect(":memory:") as db:
        reactdb.mongodb(db)["shop"]["orders"].insert_many([{"_id": n, "n": n % 2} for n in range(HELD)])
        if request.param == "in the process":
            yield reactdb.mongodb(db)["shop"]["orders"]
            return
        with serve_in_thread(db) as server, MongoClient[Any](server.uri) as client:
            yield client["shop"]["orders"]


def sizes(cursor: Any) -> list[int]:
    return [len(decode_all(piece)) for piece in cursor]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [101, 149]),
        ({"batch_size": 100}, [100, 100, 50]),
        ({"batch_size": 1, "limit": 3}, [1, 1, 1]),
        ({"limit": 120}, [101, 19]),
        ({"limit": 120, "batch_size": 50}, [50, 50, 20]),
        ({"filter": {"n": 5}}, []),
        ({"skip": 240}, [10]),
        ({"filter": {"n": 1}, "sort": [("_id", -1)], "projection": ["n"]}, [101, 24]),
    ],
)
def test_a_query_is_given_in_pieces(orders: Any, options: dict[str, Any], expected: list[int]) -> None:
    assert expected == sizes(orders.find_raw_batches(**options))


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, [250]), ({"batchSize": 100}, [100, 100, 50]), ({"batchSize": 1}, [2] * 125)],
)
def test_a_pipeline_is_given_in_pieces(orders: Any, options: dict[str, Any], expected: list[int]) -> None:
    assert expected == sizes(orders.aggregate_raw_batches([], **options))


def test_the_bytes_are_those_of_the_documents(orders: Any) -> None:
    query: dict[str, Any] = {"n": 1}
    found = decode_all(b"".join(orders.find_raw_batches(query).sort("_id")))
    computed = decode_all(
        b"".join(orders.aggregate_raw_batches([{"$match": query}, {"$set": {"x": "$$v"}}], let={"v": 3}))
    )

    assert list(orders.find(query).sort("_id")) == found
    assert [{**one, "x": 3} for one in found] == computed


def test_large_documents_fill_a_piece(orders: Any) -> None:
    """16 MiB, as the answers of a server have."""
    orders.delete_many({})
    orders.insert_many([{"_id": n, "text": "x" * 6_000_000} for n in range(5)])

    assert [2, 2, 1] == sizes(orders.find_raw_batches())
    assert [2, 2, 1] == sizes(orders.aggregate_raw_batches([]))


def test_pieces_have_no_places(orders: Any) -> None:
    with pytest.raises(InvalidOperation):
        orders.find_raw_batches()[0]
    with pytest.raises(InvalidOperation):
        orders.aggregate_raw_batches([])[0]


def test_a_wrong_query_is_refused(orders: Any) -> None:
    with pytest.raises(OperationFailure):
        next(orders.find_raw_batches({"$nonsense": 1}))
    with pytest.raises(OperationFailure):
        orders.aggregate_raw_batches([{"$nonsense": 1}])


def test_a_transaction_is_read_in_pieces(orders: Any) -> None:
    with orders.database.client.start_session() as session, session.start_transaction():
        orders.insert_one({"_id": HELD}, session=session)
        inside = sizes(orders.find_raw_batches(session=session))
        counted = sizes(orders.aggregate_raw_batches([], session=session))
        session.abort_transaction()

    assert [101, 150] == inside
    assert [251] == counted
    assert [101, 149] == sizes(orders.find_raw_batches())


def test_a_capped_collection_is_tailed_in_pieces(orders: Any) -> None:
    log = orders.database.create_collection("log", capped=True, size=10_000)
    log.insert_many([{"_id": 1}, {"_id": 2}])
    cursor = log.find_raw_batches(cursor_type=CursorType.TAILABLE)

    first = sizes(cursor)
    log.insert_one({"_id": 3})

    assert ([2], [1]) == (first, sizes(cursor))


def test_a_cursor_that_is_used_again_begins_again(orders: Any) -> None:
    cursor = orders.find_raw_batches(batch_size=200)
    assert [200, 50] == sizes(cursor)
    assert [200, 50] == sizes(cursor.rewind())
    assert [200, 50] == sizes(cursor.clone())
