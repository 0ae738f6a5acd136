"""Arguments of the methods in the process: a document that a caller gave is what its BSON says, and is the caller's to change."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reactdb.dialects.mongodb.embedded.shaping import given_document
from reactdb.dialects.mongodb.values import decode_given
from tests.dialects.mongodb.documents import scalars
from tests.support.scaling import examples

NAMES = st.text(st.sampled_from("a$_.\0é\ud800"), max_size=3) | st.just("_id") | st.integers(0, 1)
VALUES = st.recursive(
    scalars() | st.integers() | st.text(st.characters(), max_size=3) | st.just(Ellipsis),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


def typed(value: Any) -> Any:
    """A value with its types, and with the order of its fields."""
    if isinstance(value, dict):
        return type(value), [(name, typed(one)) for name, one in value.items()]
    if isinstance(value, list):
        return type(value), list(map(typed, value))
    return type(value), repr(value)


def outcome(function: Any, document: Any) -> Any:
    """What it gives, or the error."""
    try:
        return typed(function(document))
    except Exception as error:
        return type(error), str(error)


@settings(max_examples=examples(500), deadline=None)
@given(st.dictionaries(NAMES, VALUES, max_size=4))
@example({"a": [2**31, -(2**31) - 1]})
@example({"a": 2**63})
def test_a_document_is_what_its_bson_says(document: dict[Any, Any]) -> None:
    assert outcome(lambda one: decode_given(bson.encode(one)), document) == outcome(given_document, document)


def test_one_that_holds_itself_is_refused_as_by_the_driver() -> None:
    document: dict[str, Any] = {"a": [1]}
    document["a"].append(document)
    for function in (bson.encode, given_document):
        with pytest.raises((RecursionError, bson.errors.InvalidDocument)):
            function(document)


def test_nothing_is_shared_with_the_caller() -> None:
    document: dict[str, Any] = {"a": {"b": [1, {"c": 2}]}, "d": [[3]], "e": 4}
    found = given_document(document)
    document["a"]["b"][1]["c"] = 0
    document["a"]["b"].append(0)
    document["d"][0].append(0)
    document["e"] = 0
    assert {"a": {"b": [1, {"c": 2}]}, "d": [[3]], "e": 4} == found
