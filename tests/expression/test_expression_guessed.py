"""Conditions as Python programs write them: `is_in`, `startswith`, `endswith`, `contains` of a text, and their like."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

import reactdb
from reactdb import row
from reactdb.errors import MissingValue, QueryError
from reactdb.expression import find_index_ranges, may_fail, routing_keys
from reactdb.expression.analyse import KeyRange, texts_with_prefix
from reactdb.values.collation import maxval


@pytest.mark.parametrize(
    ("expression", "document", "expected"),
    [
        (row["a"].is_in([1, 2]), {"a": 2.0}, True),
        (row["a"].is_in([1, 2]), {"a": True}, False),
        (row["a"].is_in([None]), {"a": None}, True),
        (row["a"].is_in([[1], {"x": 1}]), {"a": {"x": 1}}, True),
        (row["a"].is_in(range(3)), {"a": 2}, True),
        (row["a"].is_in({1, 2}), {"a": 2}, True),
        (row["a"].is_in(one for one in "ab"), {"a": "b"}, True),
        (row["a"].is_in(row["b"]), {"a": 1, "b": [1]}, True),
        (row["a"].is_in([row["b"], 7]), {"a": 1, "b": 1}, True),
        (row["a"].is_in([]), {"a": 1}, False),
        (row["a"].startswith("ab"), {"a": "abc"}, True),
        (row["a"].startswith("b"), {"a": "abc"}, False),
        (row["a"].startswith("ab"), {"a": 5}, False),
        (row["a"].startswith(row["b"]), {"a": "abc", "b": "a"}, True),
        (row["a"].endswith("bc"), {"a": "abc"}, True),
        (row["a"].endswith("bc"), {"a": ["bc"]}, False),
        (row["a"].contains("milk"), {"a": "buy milk"}, True),
        (row["a"].contains("milk", "bread"), {"a": "buy milk"}, False),
        (row["a"].contains(""), {"a": ""}, True),
        (row["a"].contains("milk"), {"a": ["milk"]}, True),
        (row["a"].contains("milk"), {"a": ["buy milk"]}, False),
        (row["a"].upper(), {"a": "aé"}, "Aé"),
        (row["a"].lower(), {"a": "AÉ"}, "aÉ"),
        (row["a"].len(), {"a": "abc"}, 3),
        (row["a"].len(), {"a": [1, 2]}, 2),
        (abs(row["a"]), {"a": -3}, 3),
        (row["a"].abs(), {"a": Decimal("-1.2345678901234567890123456789012345")}, None),
        (round(row["a"]), {"a": 2.5}, 3),
    ],
)
def test_a_condition_means_what_python_means(
    expression: Any, document: dict[str, Any], expected: Any
) -> None:
    if isinstance(document["a"], Decimal):
        # Exact: Python's abs would round it to 28 digits.
        expected = Decimal("1.2345678901234567890123456789012345")

    assert expected == expression(document)
    assert expected == expression(document)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: len(row["a"]), "use its method len"),
        (lambda: "x" in row["a"], "is_in for a value in a list"),
        (lambda: row["a"].is_in(1, 2), "write is_in([1, 2]) and not is_in(1, 2)"),
        (lambda: row["a"].is_in("abc"), "is_in takes a list of values"),
        (lambda: row["a"].is_in({"a": 1}), "is_in takes a list of values"),
        (lambda: row["a"].is_in(None), "is_in takes a list of values"),
        (lambda: row["a"].startswith(1), "startswith takes a text, not 1"),
        (lambda: row["a"].endswith(("a", "b")), "endswith takes a text"),
        (lambda: round(row["a"], 2), '(row["a"] * 100).round() / 100'),
        (lambda: row["a"].contains("x")({"a": 5}), "Cannot convert NUMBER to SEQUENCE"),
        (lambda: row["a"].contains(1)({"a": "1"}), "Expected type STRING but found NUMBER."),
        (lambda: row["a"].is_in(row["b"])({"a": 1, "b": 1}), "Expected type ARRAY but found NUMBER."),
    ],
)
def test_a_mistake_is_told_with_the_right_form(make: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(QueryError) as caught:
        make()

    assert sentence in str(caught.value)


def test_a_selection_is_no_list_of_values_because_it_would_be_read_when_the_condition_is_written(
    db: reactdb.Database,
) -> None:
    with pytest.raises(QueryError, match="run the selection first"):
        row["a"].is_in(db.table_create("t")["a"])


def test_a_missing_field_is_missing_in_each_of_them() -> None:
    for condition in (
        row["a"].is_in([1]),
        row["a"].startswith("x"),
        row["a"].endswith("x"),
        row["a"].contains("x"),
    ):
        with pytest.raises(MissingValue):
            condition({})


def test_equal_sets_make_equal_conditions() -> None:
    assert row["a"].is_in({"b", "a", "c"}).key == row["a"].is_in({"c", "b", "a"}).key


def test_contains_is_shown_as_it_is_written() -> None:
    assert repr(row["a"].contains("milk")) == "row['a'].contains('milk')"


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("ab", KeyRange("ab", "ac", True, False)),
        ("a\ud7ff", KeyRange("a\ud7ff", "a\ue000", True, False)),
        ("a\U0010ffff", KeyRange("a\U0010ffff", "b", True, False)),
        ("\U0010ffff", KeyRange("\U0010ffff", maxval)),
        ("", KeyRange("", maxval)),
    ],
)
def test_the_texts_with_a_prefix_are_a_range(prefix: str, expected: KeyRange) -> None:
    assert expected == texts_with_prefix(prefix)
    assert (expected,) == find_index_ranges(row["a"].startswith(prefix), row["a"])


def test_is_in_is_as_many_points_and_so_routes_a_feed() -> None:
    condition = row["a"].is_in([2, 1, 2.0])

    assert find_index_ranges(condition, row["a"]) == (KeyRange(2.0, 2.0), KeyRange(1, 1))
    route = routing_keys(condition)
    assert route is not None
    assert (route[0], len(route[1])) == (("a",), 2)


def test_only_conditions_that_can_fail_keep_an_index_from_being_used() -> None:
    assert not may_fail(row["a"].is_in([1, None]))
    assert not may_fail(row["a"].is_in([row["b"], 1]))
    assert may_fail(row["a"].is_in(row["b"]))
    assert not may_fail(row["a"].startswith("x") & row["a"].endswith("y"))
    assert may_fail(row["a"].contains("x"))
