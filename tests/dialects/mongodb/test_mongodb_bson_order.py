"""The order and equality of BSON values."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings

pytest.importorskip("bson", reason="PyMongo is not installed")

from bson.binary import Binary
from bson.code import Code
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp

from reactdb.dialects.mongodb.bson_order import (
    MISSING,
    compare,
    equal,
    identical,
    sort_key,
    type_code,
    type_name,
)
from reactdb.dialects.mongodb.sort import Order
from reactdb.dialects.mongodb.values import decode, encode
from tests.dialects.mongodb.documents import bson_values
from tests.support.scaling import examples

IN_ORDER: list[Any] = [
    MinKey(),
    MISSING,
    None,
    float("nan"),
    float("-inf"),
    Decimal128("-1E+3000"),
    -5,
    0.5,
    Int64(1),
    Decimal128("1.1"),
    2**40,
    float("inf"),
    "",
    "A",
    "a",
    "a\0",
    "é",
    {},
    {"a": 1},
    {"b": 1},
    {"a": "x"},
    {"a": "x", "b": None},
    [],
    [1],
    [1, 2],
    [2],
    ["x"],
    b"",
    b"b",
    Binary(b"a", 5),
    b"aa",
    ObjectId(b"a" * 12),
    ObjectId(b"b" * 12),
    False,
    True,
    DatetimeMS(-(2**60)),
    datetime(1960, 1, 1),
    datetime(2026, 1, 1),
    DatetimeMS(2**60),
    Timestamp(0, 5),
    Timestamp(1, 0),
    Regex("a"),
    Regex("b"),
    Code("a"),
    Code("a", {}),
    MaxKey(),
]


def test_values_are_ordered_by_type_and_then_by_what_they_are() -> None:
    for lower, higher in pairwise(IN_ORDER):
        assert compare(lower, higher) == -1, (lower, higher)
        assert compare(higher, lower) == 1


def test_numbers_of_all_types_are_equal_where_they_are_one_number() -> None:
    ones = [1, Int64(1), 1.0, Decimal128("1.00")]
    for left in ones:
        for right in ones:
            assert equal(left, right)
            assert hash(sort_key(left)) == hash(sort_key(right))
            assert identical(left, right) == (left is right)
    assert equal(float("nan"), Decimal128("NaN"))
    assert equal(0.0, -0.0)
    assert not identical(0.0, -0.0)
    assert not equal(1, True)


def test_documents_are_equal_only_with_their_fields_in_the_same_order() -> None:
    assert equal({"a": 1, "b": 2}, {"a": 1.0, "b": 2})
    assert not equal({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert not identical({"a": 1, "b": 2}, {"b": 2, "a": 1})


def test_a_collation_is_for_texts_at_any_depth_and_not_for_names() -> None:
    assert equal(["A"], ["a"], str.casefold)
    assert equal({"x": "A"}, {"x": "a"}, str.casefold)
    assert not equal({"X": "a"}, {"x": "a"}, str.casefold)


def test_types_have_bsons_numbers_and_names() -> None:
    assert [type_code(value) for value in (1, 2**40, 1.5, True)] == [16, 18, 1, 8]
    assert type_name(Code("x", {})) == "javascriptWithScope"


@settings(max_examples=examples(200), deadline=None)
@given(bson_values(), bson_values(), bson_values())
def test_the_order_is_total(a: Any, b: Any, c: Any) -> None:
    first, second, third = sorted([a, b, c], key=sort_key)
    assert compare(first, second) <= 0
    assert compare(second, third) <= 0
    assert compare(first, third) <= 0
    assert compare(a, b) == -compare(b, a)


@settings(max_examples=examples(200), deadline=None)
@given(bson_values(), bson_values())
def test_identical_values_have_the_same_bytes(a: Any, b: Any) -> None:
    assert identical(a, decode(encode({"": a}))[""])
    assert identical(a, b) == (encode({"": a}) == encode({"": b}))


@pytest.mark.parametrize(
    ("path", "documents"),
    [
        pytest.param("a.0.b", [{"a": [{"b": 1}]}, {"a": [{"b": 2}, {"b": 0}]}], id="a place in an array"),
        pytest.param("a.1", [{"a": [9]}, {"a": [9, 1]}, {"a": [0, 2]}], id="a place at the end, and none"),
        pytest.param("a.b.0", [{"a": {"b": [1, 0]}}, {"a": {"b": [2]}}], id="a place further in"),
        pytest.param("a.0.0", [{"a": [[1, 5]]}, {"a": [[2, 0]]}], id="a place of a place"),
        pytest.param("a.0", [{"a": {"0": 1}}, {"a": [2]}, {"a": {"0": 3}}], id="a number as a name"),
        pytest.param("a.b", [{"a": [7, {"b": 2}]}, {"a": [{"b": 3}]}], id="what is no document has null"),
        pytest.param("a.b", [{"a": []}, {"a": [{"b": 1}]}], id="an empty array has null"),
    ],
)
def test_a_sort_follows_its_path_through_arrays(path: str, documents: list[Any]) -> None:
    assert Order({path: 1}).sorted(reversed(documents)) == documents
    assert Order({path: -1}).sorted(documents)[0] == documents[-1]
