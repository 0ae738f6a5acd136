"""What analysis concludes from a condition without any document. The laws test that it never concludes too much."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from reactdb.expression import (
    KeyRange,
    as_predicate,
    branch,
    expr,
    field_path,
    fields_read,
    find_conjuncts,
    find_implied_ranges,
    find_index_ranges,
    is_deterministic,
    may_fail,
    r,
    route_of,
    routing_keys,
    row,
)
from reactdb.values.collation import key_bytes, maxval, minval

a, b = row["a"], row["b"]


def ranges_of_a(condition: Any) -> tuple[KeyRange, ...] | None:
    return find_index_ranges(as_predicate(condition), a)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (a == 5, KeyRange(5, 5)),
        (expr(5) == a, KeyRange(5, 5)),
        ({"a": 5, "b": 1}, KeyRange(5, 5)),
        ((a > 5) & (a < 10), KeyRange(5, 10, False, False)),
        ((a >= 5) & (b == 1) & (a <= 10), KeyRange(5, 10)),
        ((expr(5) < a) & (expr(10) >= a), KeyRange(5, 10, False, True)),
        (r.lt(1, a, 10), KeyRange(1, 10, False, False)),
        ((a > 5) & (a < float("inf")), KeyRange(5, float("inf"), False, False)),
        (a > 5, KeyRange(5, maxval, False, True)),
        (a < "x", KeyRange(minval, "x", True, False)),
        (a == None, KeyRange(None, None)),  # noqa: E711
        (a == {"x": 1}, KeyRange({"x": 1}, {"x": 1})),
        (a == [1, None], KeyRange([1, None], [1, None])),
        (a == float("inf"), KeyRange(float("inf"), float("inf"))),
        ((a >= [1]) & (a <= [2]), KeyRange([1], [2])),
        ((a > 5) & (a < "x"), KeyRange(5, "x", False, False)),
        ((a > 1) & (a > 3) & (a >= 3) & (a < 9), KeyRange(3, 9, False, False)),
        (a >= "m", KeyRange("m", maxval)),
        (a > b"x", KeyRange(b"x", maxval, False, True)),
        ((a >= False) & (a <= True), KeyRange(False, True)),
        (a == [1, 2], KeyRange([1, 2], [1, 2])),
        (a == expr(2) + 3, KeyRange(5, 5)),
    ],
)
def test_comparisons_with_constants_are_a_range_of_an_index(condition: Any, expected: KeyRange) -> None:
    assert (expected,) == ranges_of_a(condition)


@pytest.mark.parametrize(
    "condition",
    [
        a != 5,
        ~(a == 5),
        ~(a > 5),  # true of what has no a, if it has a default
        (a > 5).default(True),
        (a > 5) | row.has_fields("b"),
        (a == 5) | (b == 5),
        a.default(5) == 5,
        a == b,
        a + 1 == 5,
        a == r.random(5),
        b == 5,
    ],
)
def test_a_range_that_an_index_may_not_have_whole_is_not_used(condition: Any) -> None:
    assert ranges_of_a(condition) is None


def test_a_default_of_true_forbids_an_index_and_a_route() -> None:
    for default in (True, r.error()):
        predicate = as_predicate({"a": 5}, default)

        assert [] == find_conjuncts(predicate)
        assert find_index_ranges(predicate, a) is None
        assert routing_keys(predicate) is None


def test_a_python_function_says_nothing() -> None:
    predicate = as_predicate(lambda document: True)

    assert ([], None, None) == (
        find_conjuncts(predicate),
        find_index_ranges(predicate, a),
        routing_keys(predicate),
    )


def test_alternatives_are_several_ranges() -> None:
    points = (KeyRange(1, 1), KeyRange(2, 2))

    assert points == ranges_of_a((a == 1) | (a == 2))
    assert points == ranges_of_a(expr([1, 2]).contains(a))
    assert (KeyRange(1, 1),) == ranges_of_a(((a == 1) | (a == 2)) & (a < 2) & (a > 0))


def test_a_contradiction_is_no_range_at_all() -> None:
    assert () == ranges_of_a((a == 1) & (a == 2))
    assert () == ranges_of_a((a > 5) & (a < 5))
    assert (("a",), []) == routing_keys((a == 1) & (a == 2))


def test_a_compound_index_is_used_for_equality_and_then_a_range() -> None:
    index = expr([a, b, row["c"]])
    equal = (a == 1) & (b == 2)

    assert (KeyRange([1, 2, 3], [1, 2, 3]),) == find_index_ranges(equal & (row["c"] == 3), index)
    assert (KeyRange([1, 2, "x"], [1, 2, maxval, maxval]),) == find_index_ranges(
        equal & (row["c"] >= "x"), index
    )
    assert (KeyRange([1, 5, maxval], [1, 9]),) == find_index_ranges(
        (a == 1) & (b > 5) & (b < 9) & (row["c"] == 3), index
    )
    assert (KeyRange([5, maxval], [maxval, maxval]),) == find_index_ranges((a > 5) & (b > 1), expr([a, b]))
    assert (KeyRange([1, None], [1, None]),) == find_index_ranges((a == 1) & (b == None), expr([a, b]))  # noqa: E711
    # c could be missing, and then the document would not be in the index.
    assert find_index_ranges(equal, index) is None


def test_a_compound_index_has_no_place_for_what_nests_too_deep() -> None:
    deep: Any = 1
    for _ in range(100):
        deep = [deep]

    assert (KeyRange(deep, deep),) == ranges_of_a(a == deep)
    assert find_index_ranges((a == deep) & (b == 1), expr([a, b])) is None


def test_a_multi_index_is_used_for_contains() -> None:
    condition = (row["n"] > 1) & row["tags"].contains(4, 5)

    assert (KeyRange(4, 4),) == find_index_ranges(condition, row["tags"], multi=True)
    assert find_index_ranges(condition, row["tags"]) is None
    assert (KeyRange(None, None),) == find_index_ranges(row["tags"].contains(None), row["tags"], multi=True)
    assert find_index_ranges(row["tags"].contains(lambda it: it == 1), row["tags"], multi=True) is None


def test_a_multi_index_is_not_used_for_contains_of_a_text_because_a_text_may_contain_it_too() -> None:
    condition = row["tags"].contains("x", 4)

    assert (KeyRange(4, 4),) == find_index_ranges(condition, row["tags"], multi=True)
    assert find_index_ranges(row["tags"].contains("x"), row["tags"], multi=True) is None


def test_implied_ranges_are_key_bytes_and_the_narrowest_come_first() -> None:
    found = find_implied_ranges((b >= "m") & (a == 5) & (row["c"] > 1) & (row["c"] <= 2))

    assert [
        (a.key, key_bytes(5), key_bytes(5) + b"\x00"),
        (row["c"].key, key_bytes(1) + b"\x00", key_bytes(2) + b"\x00"),
        (b.key, key_bytes("m"), key_bytes(maxval) + b"\x00"),
    ] == [(path.key, start, stop) for path, start, stop in found]


def test_a_range_of_a_conjunct_may_have_one_end() -> None:
    (found,) = find_conjuncts(a < 5)

    assert a.key == found.expression.key
    assert (KeyRange(minval, 5, True, False),) == found.ranges


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (a == 5, (("a",), [5])),
        ({"a": 5}, (("a",), [5])),
        ({"user": {"id": 7}}, (("user", "id"), [7])),
        (row["user"]["id"] == 7, (("user", "id"), [7])),
        (row.get_field("a") == 5, (("a",), [5])),
        ((a == 5) & (b > 1), (("a",), [5])),
        ((a == 1) | (a == 2), (("a",), [1, 2])),
        (((a == 1) | (a == 2)) & (b == 3), (("b",), [3])),
        (((a == 1) & (b == 1)) | ((a == 2) & (b > 2)), (("a",), [1, 2])),
        (expr([1, 1.0, 2]).contains(a), (("a",), [1, 2])),
        (a == None, (("a",), [None])),  # noqa: E711
        (a == {"x": 1}, (("a",), [{"x": 1}])),
        (a == [1], (("a",), [[1]])),
        (a > 5, None),
        (a == b, None),
        ((a == 1) | (b == 2), None),
        (a[0] == 1, None),
        (row["user"]["ids"] == [7], None),
        (True, None),
    ],
)
def test_equality_of_a_field_is_a_route(condition: Any, expected: Any) -> None:
    if expected is not None:
        expected = (expected[0], [key_bytes(value) for value in expected[1]])

    assert expected == routing_keys(as_predicate(condition))


def test_a_document_is_routed_by_the_same_bytes() -> None:
    assert key_bytes(7) == route_of({"user": {"id": 7.0}}, ("user", "id"))
    assert route_of({"user": 5}, ("user", "id")) is None
    assert route_of({}, ("a",)) is None


def test_a_field_path_is_a_chain_of_names() -> None:
    assert ("a", "b") == field_path(a["b"])
    assert [None, None, None, None] == [field_path(one) for one in (row, a[0], a + 1, row[a])]


def test_what_gives_something_new_every_time_is_not_deterministic() -> None:
    steady = [a, r.uuid("x"), a.map(lambda it: it + 1)]
    unsteady = [r.random(), r.uuid(), a.sample(1), a + r.random(1, 2), a.map(lambda it: r.random(2))]

    assert all(is_deterministic(one) for one in steady)
    assert not any(is_deterministic(one) for one in unsteady)
    assert not is_deterministic(r.now())
    assert is_deterministic(r.now(), allow_now=True)
    assert is_deterministic(as_predicate(row["at"] > r.now()))
    assert not is_deterministic(as_predicate({"a": r.random()}))


def test_what_may_fail_for_some_document_is_known() -> None:
    safe = [
        a == 1,
        {"a": {"b": 1}},
        (a > 1) & ~(b == "x"),
        row.has_fields("a"),
        a.type_of() == "NUMBER",
        True,
    ]
    unsafe = [a["b"] == 1, a + 1 > 2, row.has_fields(1), r.error("x"), a.match("x")]

    assert not any(may_fail(as_predicate(one)) for one in safe)
    assert all(may_fail(as_predicate(one)) for one in unsafe)
    assert may_fail(as_predicate(lambda document: True))


def test_the_fields_that_decide_a_value_are_known() -> None:
    for value, fields in [
        (a, {"a"}),
        (a["x"]["y"], {"a"}),
        (expr([a, b.downcase()]), {"a", "b"}),
        (branch(a > 1, b, row.get_field("c")), {"a", "b", "c"}),
        (a.map(lambda one: one["x"] + b), {"a", "b"}),
        (expr(1), set()),
    ]:
        assert fields_read(value) == fields, value
    for value in (
        row.keys(),
        row.has_fields("a"),
        row[a],
        row[0],
        a.map(lambda one: row["b"]) + row.count(),
    ):
        assert fields_read(value) is None, value


def test_a_range_knows_what_is_in_it() -> None:
    moment = datetime(2020, 1, 1, tzinfo=UTC)

    assert KeyRange(1, 1.0).is_point
    assert not KeyRange(1, 1, False, True).is_point
    assert KeyRange(2, 1).is_empty
    assert KeyRange(1, 5).intersection(KeyRange(2, 9, False, True)) == KeyRange(2, 5, False, True)
    assert KeyRange(moment, "x").has_ends
    assert not KeyRange(moment, maxval).has_ends
    assert KeyRange([1, minval], [1, maxval]).has_ends
    assert not KeyRange([1, maxval], [maxval, maxval]).has_ends
    assert not KeyRange(minval, "x").has_ends
