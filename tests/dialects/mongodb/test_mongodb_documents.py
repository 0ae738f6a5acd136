"""Arguments of the methods in the process: a document that a caller gave is what its BSON says, and is the caller's to change."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import bson
import pytest
from bson.objectid import ObjectId
from hypothesis import example, given, settings
from hypothesis import strategies as st

import reactdb
from reactdb.dialects.mongodb.embedded.documents import to_bson_document
from reactdb.dialects.mongodb.entries import body_of, plain_body_of
from reactdb.dialects.mongodb.values import decode_given
from reactdb.dialects.mongodb.write_statements import with_id
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
    assert outcome(lambda one: decode_given(bson.encode(one)), document) == outcome(
        to_bson_document, document
    )


def test_one_that_holds_itself_is_refused_as_by_the_driver() -> None:
    document: dict[str, Any] = {"a": [1]}
    document["a"].append(document)
    for function in (bson.encode, to_bson_document):
        with pytest.raises((RecursionError, bson.errors.InvalidDocument)):
            function(document)


def test_nothing_is_shared_with_the_caller() -> None:
    document: dict[str, Any] = {"a": {"b": [1, {"c": 2}]}, "d": [[3]], "e": 4}
    found = to_bson_document(document)
    document["a"]["b"][1]["c"] = 0
    document["a"]["b"].append(0)
    document["d"][0].append(0)
    document["e"] = 0
    assert {"a": {"b": [1, {"c": 2}]}, "d": [[3]], "e": 4} == found


TABLE: Any = SimpleNamespace(primary_key="_id")
ZONES = st.none() | st.just(timezone(timedelta(minutes=90)))
MOMENTS = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=ZONES)
PLAIN = st.recursive(
    st.integers(-(2**65), 2**65)
    | st.floats()
    | st.text(max_size=3)
    | st.binary(max_size=3)
    | MOMENTS
    | scalars(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab\0é", max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)
IDS = (
    st.integers(-(2**65), 2**65)
    | st.text("a\0", max_size=2)
    | st.binary(min_size=12, max_size=12).map(ObjectId)
)


@settings(max_examples=examples(500), deadline=None)
@given(st.dictionaries(st.text("ab", max_size=2), PLAIN, max_size=4), IDS, st.booleans())
@example({"a": datetime(2026, 1, 1, 0, 0, 0, 1_999, fold=1)}, 2**31, True)
@example({"a": datetime(2020, 2, 2, 2, 2, 2, 1_500)}, 1, True)
@example({"a": [2**63]}, 1, True)
@example({"a": {"b": [bytearray(b"a")]}}, 1, True)
@example({"a": (1,)}, 1, True)
@example({"a": -0.0, "b": -(2**63)}, "", False)
def test_a_document_that_is_stored_at_a_look_is_stored_as_its_bson_would_be(
    document: dict[str, Any], id: Any, is_first: bool
) -> None:
    document = {"_id": id, **document} if is_first else {**document, "_id": id}
    found = plain_body_of(TABLE, document)
    if found is not None:
        assert body_of(TABLE, with_id(decode_given(bson.encode(document)))) == found


@pytest.mark.parametrize(
    "document",
    [
        {"_id": 1, "name": "a", "n": 2**31, "price": 1.5, "open": True, "none": None, "data": b"a"},
        {"at": {"x": 1, "y": [1, {"z": "a"}]}, "_id": "a"},
        {"when": datetime(2026, 1, 1), "of": ObjectId("0" * 24), "_id": ObjectId("1" * 24)},
    ],
)
def test_a_document_of_the_usual_kinds_is_stored_at_a_look(document: dict[str, Any]) -> None:
    assert plain_body_of(TABLE, document) is not None


def test_what_was_inserted_is_not_what_the_caller_changes_later() -> None:
    document: dict[str, Any] = {"_id": 1, "a": {"b": [1]}}
    with reactdb.connect(":memory:") as db:
        orders = reactdb.mongodb(db)["shop"]["orders"]
        with orders.watch() as stream:
            orders.insert_one(document)
            document["a"]["b"].append(2)
            assert {"_id": 1, "a": {"b": [1]}} == stream.next()["fullDocument"]
        assert {"_id": 1, "a": {"b": [1]}} == orders.find_one()
