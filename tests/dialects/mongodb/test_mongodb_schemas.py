"""`$jsonSchema`: which documents are as a schema says."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("bson", reason="PyMongo is not installed")

from bson.int64 import Int64

from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.filters import Filter


def of_a(schema: dict[str, Any]) -> dict[str, Any]:
    return {"$jsonSchema": {"properties": {"a": schema}}}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"bsonType": "int"}, [1], [Int64(1), "x"]),
        ({"bsonType": ["int", "string"]}, [1, "x"], [1.5]),
        ({"type": "number"}, [1, 1.5], ["x"]),
        ({"enum": [1, "x", {"b": 1}]}, [1.0, "x", {"b": 1}], [2, {"b": 2}]),
        ({"minimum": 2}, [2, 3, "x"], [1]),
        ({"minimum": 2, "exclusiveMinimum": True}, [3], [2]),
        ({"maximum": 2, "exclusiveMaximum": True}, [1], [2]),
        ({"multipleOf": 3}, [9, 0, "x"], [4, 9.5]),
        ({"multipleOf": 0.5}, [1.5], [1.25]),
        ({"multipleOf": 0.1}, [0.3, 0.5, 1], [0.25, float("nan"), float("inf")]),
        ({"minLength": 2, "maxLength": 3}, ["ab", 5], ["a", "abcd"]),
        ({"pattern": "^a"}, ["ab", 5], ["ba"]),
        ({"minItems": 1, "maxItems": 2}, [[1], "x"], [[], [1, 2, 3]]),
        ({"uniqueItems": True}, [[1, 2]], [[1, 1.0]]),
        ({"items": {"bsonType": "int"}}, [[1], [], "x"], [["x"]]),
        ({"items": [{"bsonType": "int"}], "additionalItems": False}, [[1], []], [["x"], [1, 2]]),
        ({"minProperties": 1, "maxProperties": 1}, [{"x": 1}], [{}, {"x": 1, "y": 2}]),
        ({"required": ["x"]}, [{"x": 1}, 5], [{}]),
        (
            {"properties": {"x": {"bsonType": "int"}}, "additionalProperties": False},
            [{"x": 1}, {}],
            [{"y": 1}],
        ),
        (
            {"patternProperties": {"^n": {"bsonType": "int"}}, "additionalProperties": False},
            [{"n1": 1}],
            [{"n1": "x"}, {"m": 1}],
        ),
        ({"dependencies": {"x": ["y"]}}, [{"x": 1, "y": 1}, {}], [{"x": 1}]),
        ({"dependencies": {"x": {"required": ["y"]}}}, [{"x": 1, "y": 1}], [{"x": 1}]),
        ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, [1], [3]),
        ({"anyOf": [{"bsonType": "int"}, {"bsonType": "string"}]}, [1, "x"], [1.5]),
        ({"oneOf": [{"minimum": 1}, {"minimum": 5}]}, [2], [0, 6]),
        ({"not": {"bsonType": "int"}}, ["x"], [1]),
        ({"title": "t", "description": "d"}, [1, None], []),
    ],
)
def test_values_are_as_the_schema_says_or_not(
    schema: dict[str, Any], good: list[Any], bad: list[Any]
) -> None:
    matches = Filter(of_a(schema)).matches
    for value in good:
        assert matches({"a": value}), value
    for value in bad:
        assert not matches({"a": value}), value
    assert matches({})


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        (5, 14),
        ({"foo": 1}, 9),
        ({"$ref": "x"}, 9),
        ({"type": "integer"}, 9),
        ({"type": "foo"}, 2),
        ({"type": "string", "bsonType": "string"}, 9),
        ({"required": []}, 9),
        ({"required": "x"}, 14),
        ({"minLength": -1}, 9),
        ({"minimum": "x"}, 14),
        ({"enum": []}, 14),
        ({"allOf": []}, 14),
        ({"multipleOf": 0}, 9),
        ({"multipleOf": "x"}, 14),
        ({"minLength": "x"}, 9),
        ({"bsonType": "integer"}, 9),
        ({"required": ["x", "x"]}, 9),
        ({"title": 5}, 14),
        ({"additionalItems": 5}, 14),
        ({"patternProperties": {"[": {}}}, 2),
    ],
)
def test_what_is_no_schema_is_refused_with_its_code(schema: Any, code: int) -> None:
    with pytest.raises(MongoError) as caught:
        Filter({"$jsonSchema": schema})
    assert caught.value.code == code
