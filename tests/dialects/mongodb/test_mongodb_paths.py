"""Where dotted paths lead, in queries and in expressions."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("bson", reason="PyMongo is not installed")

from reactdb.dialects.mongodb.bson_order import MISSING
from reactdb.dialects.mongodb.paths import candidates, ends, is_index, split, value_at


@pytest.mark.parametrize(
    ("document", "path", "expected"),
    [
        ({"a": 1}, "a", [1]),
        ({"a": {"b": 1}}, "a.b", [1]),
        ({"a": 1}, "a.b", [MISSING]),
        ({}, "a.b", [MISSING]),
        ({"a": [{"b": 1}, {"b": [2]}, {}, 5]}, "a.b", [1, [2], MISSING]),
        ({"a": []}, "a.b", []),
        ({"a": [1]}, "a.b", []),
        ({"a": [5, {"1": 4}]}, "a.1", [{"1": 4}, 4]),
        ({"a": [[{"b": 1}]]}, "a.b", []),
        ({"a": [[{"b": 1}]]}, "a.0.b", [1]),
    ],
)
def test_a_query_goes_through_arrays_of_documents(
    document: dict[str, Any], path: str, expected: list[Any]
) -> None:
    assert ends(document, split(path)) == expected


def test_a_comparison_sees_the_elements_and_the_array() -> None:
    assert candidates({"a": [1, [2]]}, ("a",)) == [1, [2], [1, [2]]]
    assert candidates({"a": 1}, ("a",)) == [1]


@pytest.mark.parametrize(
    ("document", "path", "expected"),
    [
        ({"a": {"b": 1}}, "a.b", 1),
        ({"a": 1}, "a.b", MISSING),
        ({"a": [{"b": 1}, {}, {"b": 2}, 7]}, "a.b", [1, 2]),
        ({"a": [[{"b": 1}]]}, "a.b", []),
        ({"a": [1, 2]}, "a.0", []),
    ],
)
def test_an_expression_makes_an_array_of_what_it_finds_in_one(
    document: dict[str, Any], path: str, expected: Any
) -> None:
    assert value_at(document, split(path)) == expected


def test_an_index_has_no_zeros_before_it() -> None:
    assert [is_index(part) for part in ("0", "10", "01", "", "a", "-1", "²")] == [True, True] + [False] * 5
