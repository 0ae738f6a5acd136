"""How filter, update and order_by use an expression."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from reactdb.errors import InvalidDocument, MissingValue, QueryError, RaisedError
from reactdb.expression import (
    Literal,
    OrderKey,
    as_function,
    as_order_key,
    as_patch,
    as_predicate,
    asc,
    compile_predicate,
    desc,
    literal,
    merge_document,
    r,
    row,
    sort_documents,
)
from reactdb.values.codec import freeze

# ---------------------------------------------------------------------------------------------------------------
# Predicates


@pytest.mark.parametrize("value", [0, "", [], {}, 0.0, "x", 5])
def test_everything_but_null_and_false_is_true(value: Any) -> None:
    assert compile_predicate(row["a"])({"a": value}) is True


@pytest.mark.parametrize("value", [None, False])
def test_null_and_false_are_false(value: Any) -> None:
    assert compile_predicate(row["a"])({"a": value}) is False


def test_a_missing_field_gives_the_default() -> None:
    condition = row["a"] > 5

    assert compile_predicate(condition)({}) is False
    assert compile_predicate(condition, default=True)({}) is True
    assert compile_predicate(condition, default=True)({"a": 1}) is False
    assert compile_predicate(row["a"]["b"] > 5, default=True)({"a": None}) is True


def test_the_default_may_be_an_error() -> None:
    with pytest.raises(MissingValue, match="No attribute `a`"):
        compile_predicate(row["a"] > 5, default=r.error())({})
    with pytest.raises(RaisedError, match="no a"):
        compile_predicate(row["a"] > 5, default=r.error("no a"))({})
    assert compile_predicate(row["a"] > 5, default=r.error("no a"))({"a": 6}) is True


@pytest.mark.parametrize("second", [row["b"] < 2, ~row["b"], {"b": 1}, lambda document: document["b"] == 1])
def test_a_second_condition_is_not_taken_for_the_default(second: object) -> None:
    with pytest.raises(QueryError, match="default is the result of a filter"):
        as_predicate(row["a"] > 5, second)
    with pytest.raises(QueryError, match="default is the result of a filter"):
        as_predicate(lambda document: True, second)


def test_the_default_may_be_an_expression_of_the_document() -> None:
    predicate = compile_predicate(row["a"] > 5, default=row["b"])

    assert [True, False] == [predicate({"b": True}), predicate({"b": False})]


def test_other_mistakes_are_errors() -> None:
    with pytest.raises(QueryError, match="Cannot divide by zero"):
        compile_predicate(1 / row["a"] > 5, default=True)({"a": 0})


def test_a_dict_is_equality_of_its_fields() -> None:
    predicate = compile_predicate({"a": 1, "b": {"c": [2]}})

    assert predicate({"a": 1.0, "b": {"c": [2], "d": 3}, "e": 4}) is True
    assert predicate({"a": 1, "b": {"c": [2, 3]}}) is False
    assert predicate({"a": 1, "b": 5}) is False
    assert predicate({"a": True, "b": {"c": [2]}}) is False
    assert predicate({"a": 1}) is False


def test_a_dict_may_hold_expressions_and_literals() -> None:
    assert compile_predicate({"a": row["b"]})({"a": 1, "b": 1}) is True
    assert compile_predicate({"a": literal({"b": 1})})({"a": {"b": 1, "c": 2}}) is False
    assert compile_predicate({"a": literal({"b": 1})})({"a": {"b": 1}}) is True


def test_a_field_that_a_dict_names_may_be_missing_by_default() -> None:
    assert compile_predicate({"a": 1}, default=True)({}) is True
    with pytest.raises(MissingValue, match=r"^No attribute `a` in object\.$"):
        compile_predicate({"a": 1}, default=r.error())({})


def test_a_python_function_gets_the_document() -> None:
    predicate = as_predicate(lambda document: document.get("a", 0) > 1)

    assert predicate.test({"a": 2}) is True
    assert predicate.test({}) is False
    assert "Python function" in predicate.explain()


def test_an_expression_that_a_function_returns_is_tested_on_its_document() -> None:
    predicate = as_predicate(lambda document: row["a"] > 1)

    assert predicate.test({"a": 2}) is True
    assert predicate.test({"a": 1}) is False
    assert predicate.test({}) is False


def test_true_and_false_are_all_and_none() -> None:
    assert compile_predicate(True)({}) is True
    assert compile_predicate(False)({}) is False


@pytest.mark.parametrize("value", [5, "score", None, ["a"]])
def test_what_is_no_condition_is_refused(value: Any) -> None:
    with pytest.raises(QueryError, match="filter takes"):
        as_predicate(value)


def test_a_dict_that_no_document_could_match_is_refused() -> None:
    with pytest.raises(InvalidDocument):
        as_predicate({"a": object()})


def test_equal_predicates_are_equal() -> None:
    assert as_predicate(row["a"] > 5) == as_predicate(row["a"] > 5)
    assert as_predicate({"a": 1, "b": 2}) == as_predicate({"b": 2, "a": 1})
    assert as_predicate(row["a"] > 5) != as_predicate(row["a"] > 5, default=True)
    assert as_predicate(row["a"] > 5) != as_predicate(row["a"] > 5.0)
    assert 1 == len({as_predicate({"a": 1}), as_predicate({"a": 1})})


def test_now_is_fixed_when_a_predicate_is_made() -> None:
    predicate = as_predicate(row["at"] < r.now())

    assert predicate.key == as_predicate(predicate).key
    assert "now" not in predicate.explain()


def test_has_fields_as_a_predicate() -> None:
    predicate = as_predicate(row.has_fields("a", {"b": "c"}))

    assert [True, False, False] == [
        predicate.test({"a": 0, "b": {"c": 1}}),
        predicate.test({"a": 0, "b": {"c": None}}),
        predicate.test({"a": 0}),
    ]


# ---------------------------------------------------------------------------------------------------------------
# Updates

OLD = {"id": 1, "score": 1, "meta": {"a": 1, "b": {"c": 2}}, "tags": ["x"]}


@pytest.mark.parametrize(
    ("patch", "changed"),
    [
        ({"score": 2}, {"score": 2}),
        ({"score": row["score"] + 1}, {"score": 2}),
        ({"meta": {"b": {"d": 3}}}, {"meta": {"a": 1, "b": {"c": 2, "d": 3}}}),
        ({"meta": literal({"b": 1})}, {"meta": {"b": 1}}),
        ({"meta": {"b": literal({"d": 3})}}, {"meta": {"a": 1, "b": {"d": 3}}}),
        ({"new": {"deep": {"er": literal([1])}}}, {"new": {"deep": {"er": [1]}}}),
        ({"tags": row["tags"].append("y")}, {"tags": ["x", "y"]}),
        ({"meta": 5}, {"meta": 5}),
        ({"score": {"now": "an object"}}, {"score": {"now": "an object"}}),
        (lambda document: {"score": document["score"] * 10}, {"score": 10}),
        (lambda document: {"meta": literal({"z": document["score"]})}, {"meta": {"z": 1}}),
        (r.branch(row["score"] > 0, {"score": -1}, {}), {"score": -1}),
    ],
)
def test_an_update_merges_a_patch(patch: Any, changed: dict[str, Any]) -> None:
    before = copy.deepcopy(OLD)

    assert {**OLD, **changed} == merge_document(OLD, as_patch(patch)(OLD))
    assert {**OLD, **changed} == merge_document(freeze(OLD), as_patch(patch)(OLD))
    assert before == OLD


def test_a_literal_without_a_value_takes_the_field_away() -> None:
    new = merge_document(OLD, as_patch({"meta": {"b": literal()}, "tags": literal(), "none": literal()})(OLD))

    assert {"id": 1, "score": 1, "meta": {"a": 1}} == new


def test_a_patch_must_be_an_object() -> None:
    with pytest.raises(QueryError, match=r"^Inserted value must be an OBJECT \(got NUMBER\):\n5$"):
        merge_document(OLD, as_patch(5)(OLD))
    with pytest.raises(QueryError, match="Stray literal"):
        as_patch(literal({"a": 1}))


def test_a_patch_is_computed_first_and_merged_later() -> None:
    patch = as_patch({"meta": literal({"z": 1})})(OLD)

    assert isinstance(patch["meta"], Literal)
    assert {"z": 1} == merge_document(OLD, patch)["meta"]


def test_what_map_takes_is_a_function_of_a_document() -> None:
    assert 2 == as_function(row["a"] + 1)({"a": 1})
    assert {"x": 1} == as_function({"x": row["a"]})({"a": 1})
    assert 5 == as_function(lambda document: 5)({})


# ---------------------------------------------------------------------------------------------------------------
# Order


def test_documents_are_sorted_by_several_keys() -> None:
    documents = [{"id": 1, "a": 1, "b": 1}, {"id": 2, "a": 1, "b": 2}, {"id": 3, "a": 0}, {"id": 4, "b": 9}]

    assert [4, 3, 2, 1] == [d["id"] for d in sort_documents(documents, [asc("a"), desc("b")])]
    assert [1, 2, 3, 4] == [d["id"] for d in sort_documents(documents, [desc("a")])]


def test_an_order_key_is_made_of_whatever_names_one() -> None:
    keys = [as_order_key(one) for one in ("a", row["a"], lambda document: document["a"], asc("a"))]

    assert 1 == len(set(keys))
    assert "desc(row['a'])" == repr(desc("a"))
    assert ("desc", "asc") == (desc("a").direction, asc(desc("a")).direction)
    with pytest.raises(QueryError, match="an order's key"):
        as_order_key(5)  # type: ignore[arg-type]


def test_types_are_ordered_by_name_and_what_lacks_the_key_comes_first() -> None:
    key = as_order_key("a")
    values = [[], False, True, None, -1, 2, {}, b"", "", "a"]
    documents: list[dict[str, Any]] = [{}, *({"a": value} for value in values)]

    assert documents == sort_documents(reversed(documents), [key])
    assert b"" == key.sort_key({})


def test_a_key_that_cannot_be_computed_is_an_error() -> None:
    with pytest.raises(QueryError, match="Expected type NUMBER"):
        OrderKey(row["a"] + 1).sort_key({"a": True})
