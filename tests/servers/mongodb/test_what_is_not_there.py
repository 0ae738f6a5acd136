"""PyMongo against the server: what is not there is refused with MongoDB's code, and a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

Client = MongoClient[dict[str, Any]]
POINT = {"type": "Point", "coordinates": [1, 2]}


def found(query: dict[str, Any]) -> Callable[[Any], Any]:
    return lambda shop: list(shop["orders"].find(query))


def aggregated(stage: dict[str, Any]) -> Callable[[Any], Any]:
    return lambda shop: list(shop["orders"].aggregate([stage]))


@pytest.mark.parametrize(
    ("code", "name", "ask"),
    [
        (27, "IndexNotFound", found({"$text": {"$search": "tea"}})),
        (27, "IndexNotFound", aggregated({"$match": {"$text": {"$search": "tea"}}})),
        (67, "CannotCreateIndex", lambda shop: shop["orders"].create_index([("a", "text")])),
        (31138, "Location31138", lambda shop: list(shop["orders"].find(sort={"s": {"$meta": "textScore"}}))),
        (40218, "Location40218", lambda shop: list(shop["orders"].find({}, {"s": {"$meta": "textScore"}}))),
        (31082, "Location31082", aggregated({"$search": {}})),
        (291, "NoQueryExecutionPlans", found({"a": {"$near": [1, 2], "$maxDistance": 3}})),
        (291, "NoQueryExecutionPlans", found({"a": {"$nearSphere": {"$geometry": POINT}}})),
        (115, "CommandNotSupported", found({"a": {"$geoWithin": {"$box": [[0, 0], [1, 1]]}}})),
        (115, "CommandNotSupported", found({"$or": [{"a": {"$geoIntersects": {"$geometry": POINT}}}]})),
        (27, "IndexNotFound", aggregated({"$geoNear": {"near": [1, 2], "distanceField": "d"}})),
        (67, "CannotCreateIndex", lambda shop: shop["orders"].create_index([("a", "2dsphere")])),
        (67, "CannotCreateIndex", lambda shop: shop["orders"].create_index([("a", "2d")])),
        (115, "CommandNotSupported", found({"$where": "true"})),
        (59, "CommandNotFound", lambda shop: shop.command("mapReduce", "orders", map="", reduce="", out="x")),
        (115, "CommandNotSupported", lambda shop: shop.create_collection("t", timeseries={"timeField": "t"})),
        (
            72,
            "InvalidOptions",
            lambda shop: shop.command("collMod", "orders", timeseries={"granularity": "hours"}),
        ),
    ],
)
def test_it_is_refused_with_its_code(client: Client, code: int, name: str, ask: Callable[[Any], Any]) -> None:
    shop = client["shop"]
    shop["orders"].insert_one({"a": [1, 2]})
    with pytest.raises(OperationFailure) as refused:
        ask(shop)
    assert refused.value.details is not None
    assert (code, name) == (refused.value.code, refused.value.details["codeName"])
    assert " " in refused.value.details["errmsg"]
