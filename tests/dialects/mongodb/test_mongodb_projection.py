"""Projections: what is shown of a document."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Decimal128

pytest.importorskip("bson", reason="PyMongo is not installed")

from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.filters import Filter
from reactdb.dialects.mongodb.projection import Projection

DOCUMENT = {
    "_id": 1,
    "a": 1,
    "n": {"x": 1, "y": 2},
    "l": [1, 2, 3, 4],
    "d": [{"x": 1, "y": 1}, {"x": 2, "y": 2}, 7],
}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, DOCUMENT),
        ({"a": 1}, {"_id": 1, "a": 1}),
        ({"a": True, "_id": False}, {"a": 1}),
        ({"_id": 1}, {"_id": 1}),
        ({"_id": 0, "l": 0, "d": 0}, {"a": 1, "n": {"x": 1, "y": 2}}),
        ({"n.x": 1, "d.y": 1}, {"_id": 1, "n": {"x": 1}, "d": [{"y": 1}, {"y": 2}]}),
        ({"n": {"x": 1}}, {"_id": 1, "n": {"x": 1}}),
        ({"a": 0, "l": 0, "d.x": 0}, {"_id": 1, "n": {"x": 1, "y": 2}, "d": [{"y": 1}, {"y": 2}, 7]}),
        ({"l": {"$slice": 2}, "d": 0, "n": 0}, {"_id": 1, "a": 1, "l": [1, 2]}),
        ({"l": {"$slice": 1.9}, "a": 1}, {"_id": 1, "a": 1, "l": [1]}),
        ({"l": {"$slice": [-2.5, 1.5]}, "a": 1}, {"_id": 1, "a": 1, "l": [3]}),
        ({"l": {"$slice": float("nan")}, "a": 1}, {"_id": 1, "a": 1, "l": []}),
        ({"l": {"$slice": float("inf")}, "a": 1}, {"_id": 1, "a": 1, "l": [1, 2, 3, 4]}),
        ({"l": {"$slice": Decimal128("1.5")}, "a": 1}, {"_id": 1, "a": 1, "l": [1]}),
        ({"l": {"$slice": -1}, "a": 1}, {"_id": 1, "a": 1, "l": [4]}),
        ({"l": {"$slice": [1, 2]}, "_id": 1}, {"_id": 1, "l": [2, 3]}),
        ({"l": {"$slice": [-3, 2]}, "a": 1}, {"_id": 1, "a": 1, "l": [2, 3]}),
        ({"d": {"$elemMatch": {"x": 2}}}, {"_id": 1, "d": [{"x": 2, "y": 2}]}),
        ({"d": {"$elemMatch": {"x": 9}}, "a": 1}, {"_id": 1, "a": 1}),
        ({"a": {"$elemMatch": {"x": 9}}, "d": 1}, {"_id": 1, "d": DOCUMENT["d"]}),
        ({"l": {"$elemMatch": {"$gt": 2}}, "d": 1}, {"_id": 1, "d": DOCUMENT["d"], "l": [3]}),
        ({"l": {"$elemMatch": {"$gt": 2}}, "n": 0, "d": 0}, {"_id": 1, "a": 1, "l": [3]}),
        ({"l": {"$elemMatch": {"$gt": 2}}}, {"_id": 1, "l": [3]}),
        ({"s": {"$add": ["$a", 1]}, "_id": 0}, {"s": 2}),
        ({"a": 1, "b": "$n.x"}, {"_id": 1, "a": 1, "b": 1}),
    ],
)
def test_a_projection_shows_a_part(spec: dict[str, Any], expected: dict[str, Any]) -> None:
    kept = repr(DOCUMENT)
    shown = Projection(spec).apply(DOCUMENT)
    assert shown == expected
    assert list(shown) == list(expected)
    assert repr(DOCUMENT) == kept


@pytest.mark.parametrize(
    ("query", "spec", "expected"),
    [
        ({"l": {"$gte": 3}}, {"l.$": 1}, {"_id": 1, "l": [3]}),
        ({"d.x": 2}, {"d.$": 1, "_id": 0}, {"d": [{"x": 2, "y": 2}]}),
        ({"d": {"$elemMatch": {"x": 1}}}, {"d.$": 1, "a": 1}, {"_id": 1, "a": 1, "d": [{"x": 1, "y": 1}]}),
    ],
)
def test_the_element_that_the_query_has_matched_is_shown(
    query: dict[str, Any], spec: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert Projection(spec).apply(DOCUMENT, matched_filter=Filter(query)) == expected


def test_an_element_that_no_query_has_matched_cannot_be_shown() -> None:
    with pytest.raises(MongoError) as caught:
        Projection({"l.$": 1}).apply(DOCUMENT, matched_filter=Filter({"a": 1}))
    assert caught.value.code == 51246


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"a": 1, "b": 0}, 31254),
        ({"a": 0, "b": 1}, 31253),
        ({"a": 1, "a.b": 1}, 31249),
        ({"a.$": 1, "b.$": 1}, 31276),
        ({"a.$": 1, "b": 0}, 31254),
        ({"b": 0, "a.$": 1}, 31395),
        ({"a.$": "x"}, 31308),
        ({"a.$": {"$slice": 1}}, 31271),
        ({"a.$.b": 1}, 31394),
        ({"a": {"$slice": 1}, "a.b": 1}, 31249),
        ({"a": {"$slice": 1}, "a.$": 1}, 31250),
        ({"b": {"$elemMatch": {"x": 1}}, "a.$": 1}, 31256),
        ({"a": {"$elemMatch": {"x": 1}, "$slice": 1}}, 16410),
        ({"a..b": {"$elemMatch": {"x": 1}}}, 15998),
        ({"a.$": 0}, 31395),
        ({"a.$": 1, "b": {"$elemMatch": {"x": 1}}}, 31255),
        ({"a.b": {"$elemMatch": {"x": 1}}}, 31275),
        ({"a": {"$elemMatch": 1}}, 31274),
        ({"a": {"$slice": "x"}}, 28667),
        ({"a": {"$slice": [1, 0]}}, 28724),
        ({"a": {"$slice": [1, 2, 3]}}, 28724),
        ({"a": {"$foo": 1}}, 31325),
        ({"$a": 1}, 16410),
        ({"a.": 1}, 40353),
        ({"a": {"$meta": "textScore"}}, 40218),
    ],
)
def test_what_is_no_projection_is_refused_with_its_code(spec: dict[str, Any], code: int) -> None:
    with pytest.raises(MongoError) as caught:
        Projection(spec)
    assert caught.value.code == code
