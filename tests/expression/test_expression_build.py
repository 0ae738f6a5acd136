"""Building expressions: operators, functions, immediate errors, and equality."""

from __future__ import annotations

import copy
from datetime import datetime
from typing import Any

import pytest

import reactdb.expression as expression_package
from reactdb.errors import InvalidDocument, MissingValue, QueryError
from reactdb.expression import (
    MAX_TREE_DEPTH,
    Call,
    Expression,
    branch,
    call,
    compile_value,
    evaluate,
    expr,
    from_data,
    literal,
    maxval,
    minval,
    r,
    row,
    to_data,
)
from reactdb.values.codec import FrozenDict


def test_an_expression_called_with_a_document_gives_its_value() -> None:
    assert (row["a"] > 1)({"a": 2}) is True
    assert row["a"]["b"]({"a": {"b": [1]}}) == [1]


def test_a_missing_field_is_told_with_the_document() -> None:
    with pytest.raises(MissingValue) as raised:
        row["score"]({"id": 1})

    assert 'No attribute `score` in object:\n{\n\t"id":\t1\n}' == str(raised.value)


def test_an_error_of_an_expression_has_no_trace_of_the_generated_code() -> None:
    with pytest.raises(MissingValue) as raised:
        row["score"]({})

    assert raised.value.__context__ is None


@pytest.mark.parametrize(
    "use", [bool, iter, len, lambda it: 1 in it, lambda it: it and True, lambda it: not it]
)
def test_what_python_cannot_be_taught_is_refused_with_advice(use: Any) -> None:
    with pytest.raises(QueryError, match=r"use |cannot be|combine"):
        use(row["a"])


def test_forgotten_parentheses_are_noticed() -> None:
    with pytest.raises(QueryError, match="Calling '>' on result of infix bitwise operator"):
        _ = row["a"] > 1 & row["b"]
    with pytest.raises(QueryError, match="Calling '==' on result of infix bitwise operator"):
        _ = row["a"] == 1 & row["b"] == 2
    with pytest.raises(QueryError, match="neither true nor false"):
        _ = 1 < row["a"] < 2


def test_methods_may_compare_what_operators_may_not() -> None:
    assert row["a"].and_(row["b"]).eq(3)({"a": 1, "b": 3}) is True


def test_a_dict_or_list_may_hold_expressions() -> None:
    document = {"a": 1, "b": [2]}

    assert {"x": 1, "y": [2, {"z": [2]}]} == expr({"x": row["a"], "y": [2, {"z": row["b"]}]})(document)


def test_a_function_is_called_once_with_expressions() -> None:
    calls = []
    expression = expr([1, 2, 3]).map(lambda it: calls.append(it) or it * 2)

    assert [2, 4, 6] == expression(None)
    assert 1 == len(calls)


def test_functions_see_the_document_and_the_variables_around_them() -> None:
    expression = row["a"].map(lambda x: row["b"].map(lambda y: x + y + row["c"]))

    assert [[111, 121], [112, 122]] == expression({"a": [1, 2], "b": [10, 20], "c": 100})


def test_row_means_the_element_where_nothing_else_can_be_meant() -> None:
    assert [2, 3] == expr([1, 2]).map(row + 1)(None)
    with pytest.raises(QueryError, match=r"Cannot use r\.row in nested queries"):
        row["a"].map(row + 1)


def test_contains_and_merge_look_at_the_same_document() -> None:
    assert expr([1, 2]).contains(row["a"])({"a": 2}) is True
    assert {"a": 2, "b": 3} == row.merge({"b": row["a"] + 1})({"a": 2})


def test_constants_are_copied_when_they_are_written() -> None:
    tags = ["a"]
    expression = expr({"tags": tags})
    tags.append("b")

    assert {"tags": ["a"]} == expression(None)


def test_nobody_can_change_a_constant_through_a_result() -> None:
    expression = expr({"tags": ["a"]})["tags"]

    with pytest.raises(TypeError):
        expression(None).append("b")
    assert ["a"] == expression(None)


def test_what_no_document_can_hold_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidDocument, match=r'document\["a"\]\[0\]|document\[\'a\'\]\[0\]'):
        expr({"a": [datetime(2020, 1, 1)]})
    with pytest.raises(InvalidDocument):
        _ = row["a"] == object()


def test_equal_structure_is_one_key() -> None:
    one = (row["a"] > 1) & row["b"].map(lambda x: x + 1).contains(2)
    other = (row["a"] > 1) & row["b"].map(lambda y: y + 1).contains(2)

    assert one.key == other.key
    assert hash(one) == hash(other)
    assert expr({"a": 1, "b": 2}).key == expr({"b": 2, "a": 1}).key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (row["a"] == 1, row["a"] == 1.0),
        (row["a"] == 1, row["a"] == True),  # noqa: E712
        (row["a"], row["b"]),
        (row["ab"]["c"], row["a"]["bc"]),
        (row["a"] > 1, row["a"] >= 1),
        (expr([row["a"], 1]), expr([[row["a"]], 1])),
        (
            row["x"].map(lambda a: row["y"].map(lambda b: a)),
            row["x"].map(lambda a: row["y"].map(lambda b: b)),
        ),
        (expr({"a": row}), expr([row])),
        (expr([row, minval]), expr([row, maxval])),
    ],
)
def test_different_structure_is_another_key(one: Any, other: Any) -> None:
    assert one.key != other.key


def test_a_long_chain_is_not_a_deep_tree() -> None:
    condition = row["id"] == 0
    for number in range(1, 1_000):
        condition = condition | (row["id"] == number)

    assert condition({"id": 999}) is True
    assert condition({"id": 1_000}) is False


def test_a_tree_that_is_too_deep_is_refused() -> None:
    expression = row["a"]
    with pytest.raises(QueryError, match=f"nested too deeply: more than {MAX_TREE_DEPTH} levels"):
        for _ in range(MAX_TREE_DEPTH):
            expression = expression["a"]


def test_the_deepest_tree_can_be_compiled_and_evaluated() -> None:
    document: Any = {"a": 1}
    expression = row
    for _ in range(MAX_TREE_DEPTH - 1):
        expression = call("default", expression, 0)

    assert document == expression(document)
    assert document == evaluate(expression, document)


def test_many_branches_and_deep_ones_work() -> None:
    pairs = [value for number in range(200) for value in (row["n"] == number, number * 10)]
    wide = branch(*pairs, "none")
    deep: Any = "none"
    for number in range(60):
        deep = branch(row["n"] == number, number * 10, deep)

    assert [0, 1990, "none"] == [wide({"n": n}) for n in (0, 199, 200)]
    assert [0, 590, "none"] == [deep({"n": n}) for n in (0, 59, 60)]


def test_a_stray_literal_is_refused_before_any_document_is_seen() -> None:
    for stray in (
        literal(1),
        row["a"] == literal(1),
        row.merge(literal(1)),
        row.merge({"a": literal(literal(1))}),
    ):
        with pytest.raises(QueryError, match="Stray literal keyword found"):
            compile_value(stray)
        with pytest.raises(QueryError, match="Stray literal keyword found"):
            evaluate(stray, {})


def test_user_text_is_never_part_of_the_generated_source() -> None:
    nasty = '"] or __import__("os").abort() or ["'
    document = {nasty: nasty}

    assert (row[nasty] == nasty)(document) is True
    assert {nasty: nasty} == expr({nasty: row[nasty]})(document)
    assert row.has_fields(nasty)(document) is True


def test_an_expression_works_on_frozen_documents() -> None:
    document = FrozenDict({"a": FrozenDict({"b": 1})})

    assert 1 == row["a"]["b"](document)
    assert {"a": {"b": 1}, "c": 2} == row.merge({"c": 2})(document)
    assert {} == row.without("a")(document)


def test_an_expression_is_shown_as_it_was_written() -> None:
    condition = (row["a"]["b"] > 10) & ~row["tags"].contains("x", "y") | (
        row["n"] + 1 == r.branch(row["z"], 1, 2)
    )

    assert (
        "((row['a']['b'] > 10) & ~row['tags'].contains('x', 'y')) | ((row['n'] + 1) == r.branch(row['z'], 1, 2))"
        == repr(condition)
    )
    assert "r.expr([1, 2]).map(lambda x" in repr(expr([1, 2]).map(lambda it: {"a": it}))


def test_a_tree_as_data_comes_back_the_same() -> None:
    expression = row["tags"].map(lambda tag: [tag, row["a"]]).filter(lambda it: it[0] > minval)

    assert expression.key == from_data(to_data(expression)).key


def test_dialects_may_build_calls_of_their_own() -> None:
    with pytest.raises(QueryError, match="there is no operation `nonsense`"):
        call("nonsense")
    assert isinstance(call("add", 1, 2).node, Call)


def test_the_namespace_has_every_method_and_nothing_else() -> None:
    assert 3 == r.add(1, 2)(None)
    assert [1] == r.filter([1, 2], lambda it: it == 1)(None)
    assert 1 == r.monday
    with pytest.raises(AttributeError):
        r.nonsense  # noqa: B018


def test_expressions_cannot_be_copied_into_something_else() -> None:
    expression = row["a"] + 1

    assert 2 == copy.copy(expression)({"a": 1})
    assert isinstance(copy.deepcopy(expression), Expression)


def test_the_public_names_are_sorted_and_there() -> None:
    names = expression_package.__all__

    assert sorted(names, key=lambda name: (not name.isupper(), name[0].islower(), name)) == names
    assert all(hasattr(expression_package, name) for name in names)


def test_a_deep_expression_is_shown_once_through():
    """Not twice a level: at sixty levels that would never end."""
    expression = row["a"]
    for _ in range(60):
        expression = ~expression.default(False)

    assert 60 == repr(expression).count("default(False)")
