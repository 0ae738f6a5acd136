"""`$setWindowFields` over a socket, and in the process: the same documents and the same errors."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

import reactdb

STAGE: dict[str, Any] = {
    "$setWindowFields": {
        "partitionBy": "$state",
        "sortBy": {"day": 1},
        "output": {
            "so_far": {"$sum": "$n", "window": {"documents": ["unbounded", "current"]}},
            "week": {"$avg": "$n", "window": {"range": [-6, 0], "unit": "day"}},
            "rank": {"$rank": {}},
            "before": {"$shift": {"output": "$n", "by": -1, "default": 0}},
        },
    }
}
SALES = [
    {"_id": number, "state": state, "day": datetime(2024, 1, day), "n": n}
    for number, (state, day, n) in enumerate([("CA", 1, 10), ("WA", 1, 7), ("CA", 3, 20), ("CA", 20, 30)])
]


@pytest.fixture(params=["socket", "process"])
def sales(request: pytest.FixtureRequest, db: Any) -> Any:
    if request.param == "process":
        return reactdb.mongodb(db)["shop"]["sales"]
    client: MongoClient[Any] = request.getfixturevalue("client")
    return client["shop"]["sales"]


def test_windows_are_computed(sales: Any) -> None:
    sales.insert_many(SALES)

    made = list(sales.aggregate([STAGE, {"$project": {"state": 0, "day": 0, "n": 0}}]))

    assert [
        {"_id": 0, "so_far": 10, "week": 10.0, "rank": 1, "before": 0},
        {"_id": 2, "so_far": 30, "week": 15.0, "rank": 2, "before": 10},
        {"_id": 3, "so_far": 60, "week": 30.0, "rank": 3, "before": 20},
        {"_id": 1, "so_far": 7, "week": 7.0, "rank": 1, "before": 0},
    ] == made


def test_a_wrong_window_is_an_error_with_its_code(sales: Any) -> None:
    def wrong(output: Any) -> Any:
        return sales.aggregate([{"$setWindowFields": {"output": {"r": output}}}])

    with pytest.raises(OperationFailure) as refused:
        wrong({"$sum": "$n", "window": {"documents": [0, 1]}})
    assert (5339901, "Location5339901") == (refused.value.code, refused.value.details["codeName"])  # type: ignore[index]
    with pytest.raises(OperationFailure) as refused:
        wrong({"$nope": "$n"})
    assert (9, "FailedToParse") == (refused.value.code, refused.value.details["codeName"])  # type: ignore[index]
