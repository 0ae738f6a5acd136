"""The order of JSON values in views and selectors."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactdb.dialects.couchdb import collation
from reactdb.dialects.couchdb.collation import collation_key, identity, raw_key, text_key
from tests.support.scaling import examples

# In ascending order; that of the texts is the root collation's: the accents of a word count before its capitals.
VALUES = [
    *[None, False, True, -1, 0, 0.5, 1, 10, 2**70],
    *[
        "",
        " ",
        "_",
        "-",
        ",",
        "!",
        ".",
        "'",
        "(",
        "@",
        "*",
        "#",
        "`",
        "+",
        "<",
        "~",
        "€",
        "0",
        "1",
        "10",
        "2",
    ],
    *[
        "a",
        "A",
        "ä",
        "Ä",
        "a_b",
        "aa",
        "ab",
        "aB",
        "Ab",
        "áb",
        "b",
        "B",
        "ba",
        "resume",
        "résumé",
        "Résumé",
        "résumés",
    ],
    *["z", "α", "Α", "β", "а", "б"],  # noqa: RUF001
    *[[], [None], [1], [1, 2], [2], ["a"], [[]], [{}]],
    *[{}, {"a": 1}, {"a": 2}, {"a": 2, "b": 1}, {"b": 0}, {"b": 2, "a": 1}, {"b": 2, "c": 0}],
]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1.0])
    | st.text("aAäbB _1", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abA"), inner, max_size=3),
    max_leaves=6,
)


def rank(value: Any) -> int:
    kinds = (type(None), bool, int | float, str, list, dict)
    return next(place for place, kind in enumerate(kinds) if isinstance(value, kind))


def compared(left: Any, right: Any) -> int:
    """The order as the specification has it: -1, 0 or 1."""
    if rank(left) != rank(right):
        return -1 if rank(left) < rank(right) else 1
    if isinstance(left, list | dict):
        parts = [
            [*value] if isinstance(value, list) else [part for item in value.items() for part in item]
            for value in (left, right)
        ]
        for one, other in zip(*parts, strict=False):
            if difference := compared(one, other):
                return difference
        return (len(left) > len(right)) - (len(left) < len(right))
    if isinstance(left, str):
        left, right = text_key(left), text_key(right)
    if left is None:
        return 0
    return (left > right) - (left < right)


@pytest.mark.parametrize(("smaller", "greater"), list(pairwise(VALUES)))
def test_the_order_of_values(smaller, greater):
    assert collation_key(smaller) < collation_key(greater)


@settings(max_examples=examples(200))
@given(JSON, JSON)
def test_the_order_of_keys_is_the_order_of_the_specification(left, right):
    keys = collation_key(left), collation_key(right)

    assert compared(left, right) == (keys[0] > keys[1]) - (keys[0] < keys[1])


@settings(max_examples=examples(200))
@given(JSON, JSON)
def test_values_are_identical_if_their_keys_are_equal(left, right):
    assert (collation_key(left) == collation_key(right)) == (identity(left) == identity(right))


@settings(max_examples=examples(200))
@given(st.text(), st.text())
def test_texts_have_equal_keys_only_if_they_are_the_same_text(left, right):
    assert (left == right) == (text_key(left) == text_key(right))


def test_one_and_one_point_zero_are_one_value():
    assert collation_key(1) == collation_key(1.0)
    assert identity(1) == identity(1.0) != identity(True)


def test_a_text_is_next_to_the_same_text_in_another_spelling():
    assert sorted(["f", "e\u0301", "e", "\u00e9"], key=text_key) == ["e", "e\u0301", "\u00e9", "f"]


def test_identifiers_have_the_order_of_their_bytes_and_come_after_other_values():
    assert sorted(["é", "a", "_design/x", "B", "1", "Z"], key=raw_key) == [
        "1",
        "B",
        "Z",
        "_design/x",
        "a",
        "é",
    ]
    assert all(raw_key(value) < raw_key("") for value in (None, True, 1, [1], {"a": 1}))


@settings(max_examples=examples(300))
@given(st.text(st.characters(codec="ascii"), max_size=6))
def test_the_short_way_for_ascii_gives_the_same_key(text):
    """A letter beyond ASCII at the end makes the long way; up to there, the keys are the same."""
    short, long = collation.key_without_icu(text), collation.key_without_icu(text + "é")

    assert short[0] == long[0][:-1]
    assert short[2] == long[2]
