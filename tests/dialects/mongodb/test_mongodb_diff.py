"""The difference of two versions: what is told by its parts, and what whole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("bson", reason="PyMongo is not installed")

from reactdb.dialects.mongodb.bson_order import equal
from reactdb.dialects.mongodb.diff import difference
from tests.dialects.mongodb.naive import described_version
from tests.support.scaling import examples

LONG = "x" * 40


def told(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    found = difference({"pad": LONG, **before}, {"pad": LONG, **after})
    assert found is not None
    return {name: value for name, value in found.items() if value}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": 2}, {"updatedFields": {"a": 2}}),
        ({"a": 1, "b": 2}, {"b": 2}, {"removedFields": ["a"]}),
        (
            {"a": {"b": 1, "c": LONG}},
            {"a": {"b": 2, "c": LONG}},
            {"updatedFields": {"a.b": 2}},
        ),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, {"updatedFields": {"a": {"b": 2}}}),
        (
            {"a": [LONG, {"q": 1}, 1, 2, 3]},
            {"a": [LONG, {"q": 1}]},
            {"truncatedArrays": [{"field": "a", "newSize": 2}]},
        ),
        (
            {"a": [LONG, 1, 2, 3]},
            {"a": [LONG, 9]},
            {"truncatedArrays": [{"field": "a", "newSize": 2}], "updatedFields": {"a.1": 9}},
        ),
        ({"a": [LONG]}, {"a": [LONG, 1]}, {"updatedFields": {"a.1": 1}}),
        ({"a": 1, "b": 1}, {"b": 1, "a": 1}, {"updatedFields": {"a": 1}}),
        (
            {"a.b": 1, "o": {"0": 1, "p": LONG}},
            {"a.b": 2, "o": {"0": 2, "p": LONG}},
            {
                "updatedFields": {"a.b": 2, "o.0": 2},
                "disambiguatedPaths": {"a.b": ["a.b"], "o.0": ["o", "0"]},
            },
        ),
        ({"a": 1}, {"a": 1.0}, {"updatedFields": {"a": 1.0}}),
    ],
)
def test_what_has_changed_is_told_where_that_takes_less_room(
    before: dict[str, Any], after: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert told(before, after) == expected


def test_what_takes_as_much_room_as_the_new_version_is_not_told() -> None:
    assert difference({"a": 1}, {"b": 2}) is None
    assert difference({"a": 1}, {"b": 2}, is_always=True) == {
        "updatedFields": {"b": 2},
        "removedFields": ["a"],
        "truncatedArrays": [],
        "disambiguatedPaths": {},
    }


def test_two_paths_that_are_written_alike_are_not_told() -> None:
    before = {"pad": LONG, "a.b": 1, "a": {"b": 1, "pad": LONG}}
    assert difference(before, {"pad": LONG, "a.b": 2, "a": {"b": 2, "pad": LONG}}) is None


_NAMES = st.sampled_from(["a", "b", "0", "c.d", "long name"])
_SCALARS = st.sampled_from([None, 0, 1, 1.5, "x", LONG, True])
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=8,
)
_DOCUMENTS = st.dictionaries(_NAMES, _VALUES, max_size=4)


def _sorted(value: Any) -> Any:
    if type(value) is dict:
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(inner) for inner in value] if type(value) is list else value


@settings(max_examples=examples(400), deadline=None)
@given(_DOCUMENTS, _DOCUMENTS)
def test_the_difference_leads_from_one_version_to_the_other_but_for_the_order_of_fields(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    found = difference(before, after, is_always=True)
    assert found is not None
    assert equal(_sorted(described_version(before, found)), _sorted(after))
