"""Updates: what they make of a document, what they say of it, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("bson", reason="PyMongo is not installed")

from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.timestamp import Timestamp

from reactdb.dialects.mongodb.bson_order import identical
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.filters import Filter
from reactdb.dialects.mongodb.updates import Update
from tests.dialects.mongodb.naive import described_version, naive_update
from tests.support.scaling import examples

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def applied(
    document: dict[str, Any], update: Any, query: dict[str, Any] | None = None, filters: Any = None
) -> Any:
    made = Update(update, filters, variables={"NOW": NOW}).apply(
        document, matched_filter=None if query is None else Filter(query)
    )
    if made.description is not None:
        assert identical(described_version(document, made.description), made.document)
    return made


@pytest.mark.parametrize(
    ("document", "update", "expected", "updated", "removed"),
    [
        ({"a": 1}, {"$set": {"a": 2, "b": 3}}, {"a": 2, "b": 3}, {"a": 2, "b": 3}, []),
        ({}, {"$mul": {"a": Decimal128("3")}}, {"a": Decimal128("0")}, {"a": Decimal128("0")}, []),
        (
            {"a": [{"x": 1}, {"x": 5}, 1]},
            {"$pull": {"a": {"$or": [{"x": {"$lt": 2}}, {"x": 9}]}}},
            {"a": [{"x": 5}, 1]},
            {"a": [{"x": 5}, 1]},
            [],
        ),
        (
            {"a": [{"$ref": "x", "$id": 1}, {"$ref": "x", "$id": 2}]},
            {"$pull": {"a": {"$id": 1}}},
            {"a": [{"$ref": "x", "$id": 2}]},
            {"a": [{"$ref": "x", "$id": 2}]},
            [],
        ),
        ({}, {"$set": {"b": 1, "a": 2}}, {"a": 2, "b": 1}, {"a": 2, "b": 1}, []),
        ({"a": 1}, {"$set": {"a": Int64(1)}}, {"a": Int64(1)}, {"a": Int64(1)}, []),
        ({}, {"$set": {"n.$x": 5}}, {"n": {"$x": 5}}, {"n": {"$x": 5}}, []),
        ({}, {"$set": {"n.x.y": 5}}, {"n": {"x": {"y": 5}}}, {"n": {"x": {"y": 5}}}, []),
        ({}, {"$set": {"n.x": 5, "n.y": 6}}, {"n": {"x": 5, "y": 6}}, {"n": {"x": 5, "y": 6}}, []),
        ({"n": {"x": 1}}, {"$set": {"n.y": 6}}, {"n": {"x": 1, "y": 6}}, {"n.y": 6}, []),
        ({"a": [{}]}, {"$set": {"a.0.c": 1}}, {"a": [{"c": 1}]}, {"a.0.c": 1}, []),
        ({"a": []}, {"$set": {"a.0.c": 1}}, {"a": [{"c": 1}]}, {"a.0": {"c": 1}}, []),
        ({"a": [1]}, {"$set": {"a.3": 5}}, {"a": [1, None, None, 5]}, {"a.3": 5}, []),
        ({"a": [1, 2, 3]}, {"$set": {"a": [1]}}, {"a": [1]}, {"a": [1]}, []),
        ({"a": 1, "b": {"c": 2}}, {"$unset": {"a": "", "b.c": 1}}, {"b": {}}, {}, ["a", "b.c"]),
        ({"a": [1, 2]}, {"$unset": {"a.1": ""}}, {"a": [1, None]}, {"a.1": None}, []),
        ({"a": 1}, {"$inc": {"a": 2, "b": 3}}, {"a": 3, "b": 3}, {"a": 3, "b": 3}, []),
        ({"a": 2**31 - 1}, {"$inc": {"a": 1}}, {"a": Int64(2**31)}, {"a": Int64(2**31)}, []),
        ({"a": 1}, {"$inc": {"a": 0.5}}, {"a": 1.5}, {"a": 1.5}, []),
        (
            {"a": 1},
            {"$inc": {"a": Decimal128("0.1")}},
            {"a": Decimal128("1.1")},
            {"a": Decimal128("1.1")},
            [],
        ),
        ({"a": 3}, {"$mul": {"a": 2, "b": 5.0}}, {"a": 6, "b": 0.0}, {"a": 6, "b": 0.0}, []),
        ({"a": 3}, {"$min": {"a": 2}, "$max": {"b": 5}}, {"a": 2, "b": 5}, {"a": 2, "b": 5}, []),
        ({"a": 3}, {"$max": {"a": "x"}}, {"a": "x"}, {"a": "x"}, []),
        ({"a": 1}, {"$rename": {"a": "b.c"}}, {"b": {"c": 1}}, {"b": {"c": 1}}, ["a"]),
        ({"a": 1, "b": 2}, {"$rename": {"a": "b"}}, {"b": 1}, {"b": 1}, ["a"]),
        ({}, {"$currentDate": {"a": True}}, {"a": datetime(2026, 1, 2)}, {"a": datetime(2026, 1, 2)}, []),
        (
            {},
            {"$currentDate": {"a": {"$type": "timestamp"}}},
            {"a": Timestamp(1767312000, 1)},
            {"a": Timestamp(1767312000, 1)},
            [],
        ),
        ({"a": 5}, {"$bit": {"a": {"and": 4, "or": 3}}}, {"a": 7}, {"a": 7}, []),
        ({"a": [1]}, {"$push": {"a": 2}}, {"a": [1, 2]}, {"a.1": 2}, []),
        ({"a": [1]}, {"$push": {"a": {"$each": [2, 3]}}}, {"a": [1, 2, 3]}, {"a.1": 2, "a.2": 3}, []),
        ({"a": []}, {"$push": {"a": 2}}, {"a": [2]}, {"a": [2]}, []),
        ({}, {"$push": {"a": {"b": 2}}}, {"a": [{"b": 2}]}, {"a": [{"b": 2}]}, []),
        ({"a": [3]}, {"$push": {"a": {"$each": [1], "$sort": 1}}}, {"a": [1, 3]}, {"a": [1, 3]}, []),
        ({"a": [3]}, {"$push": {"a": {"$each": [1], "$position": 0}}}, {"a": [1, 3]}, {"a": [1, 3]}, []),
        (
            {"a": [3, 4]},
            {"$push": {"a": {"$each": [1], "$position": -1}}},
            {"a": [3, 1, 4]},
            {"a": [3, 1, 4]},
            [],
        ),
        ({"a": [3]}, {"$push": {"a": {"$each": [1], "$position": 9}}}, {"a": [3, 1]}, {"a.1": 1}, []),
        ({"a": [3]}, {"$push": {"a": {"$each": [1], "$slice": -1}}}, {"a": [1]}, {"a": [1]}, []),
        ({"a": [3]}, {"$push": {"a": {"$each": [1], "$slice": 5}}}, {"a": [3, 1]}, {"a.1": 1}, []),
        (
            {"a": [{"x": 2}]},
            {"$push": {"a": {"$each": [{"x": 1}], "$sort": {"x": 1}}}},
            {"a": [{"x": 1}, {"x": 2}]},
            {"a": [{"x": 1}, {"x": 2}]},
            [],
        ),
        ({"a": [1]}, {"$addToSet": {"a": {"$each": [1.0, 2, 2]}}}, {"a": [1, 2]}, {"a": [1, 2]}, []),
        ({"a": [1, 5, 3]}, {"$pull": {"a": {"$gte": 3}}}, {"a": [1]}, {"a": [1]}, []),
        (
            {"a": [{"x": 1, "y": 1}, {"x": 2}]},
            {"$pull": {"a": {"x": 1}}},
            {"a": [{"x": 2}]},
            {"a": [{"x": 2}]},
            [],
        ),
        ({"a": [1, 2, 1.0]}, {"$pull": {"a": 1}}, {"a": [2]}, {"a": [2]}, []),
        ({"a": [1, 2, 3]}, {"$pullAll": {"a": [1, 3]}}, {"a": [2]}, {"a": [2]}, []),
        ({"a": [1, 2, 3]}, {"$pop": {"a": 1}}, {"a": [1, 2]}, {"a": [1, 2]}, []),
        ({"a": [1, 2, 3]}, {"$pop": {"a": -1}}, {"a": [2, 3]}, {"a": [2, 3]}, []),
        ({"a": [[1]]}, {"$push": {"a.0": 2}}, {"a": [[1, 2]]}, {"a.0.1": 2}, []),
    ],
)
def test_operators_change_values_and_say_what_they_have_touched(
    document: dict[str, Any],
    update: dict[str, Any],
    expected: dict[str, Any],
    updated: dict[str, Any],
    removed: list[str],
) -> None:
    kept = repr(document)
    made = applied(document, update)
    assert repr(document) == kept
    assert identical(made.document, expected), made.document
    assert made.description == {
        "updatedFields": updated,
        "removedFields": removed,
        "truncatedArrays": [],
        "disambiguatedPaths": {},
    }
    assert not made.is_replacement


@pytest.mark.parametrize(
    ("document", "update"),
    [
        ({"a": 1}, {"$set": {"a": 1}}),
        ({"a": 1}, {"$inc": {"a": 0}}),
        ({"a": -0.0}, {"$inc": {"a": 0.0}}),
        ({"a": Decimal128("-0")}, {"$mul": {"a": -1}}),
        ({"a": 1}, {"$rename": {"$x": "y"}}),
        ({"a": 1}, {"$min": {"a": 1.0}}),
        ({"a": 1}, {"$unset": {"b": 1, "a.b": 1, "c.d": 1}}),
        ({"a": [1]}, {"$addToSet": {"a": 1.0}}),
        ({"a": [1]}, {"$push": {"a": {"$each": []}}}),
        ({"a": [1]}, {"$pull": {"a": 5, "b": 1, "c.x": 1}}),
        ({"a": []}, {"$pop": {"a": 1, "b": 1}}),
        ({"a": 1}, {"$rename": {"x": "y"}}),
        ({"a": 1}, {"$setOnInsert": {"b": 1}}),
        ({"a": 1}, {"$set": {}}),
    ],
)
def test_what_changes_nothing_gives_the_same_document(
    document: dict[str, Any], update: dict[str, Any]
) -> None:
    made = applied(document, update)
    assert made.document is document
    assert made.description is None


@pytest.mark.parametrize(
    ("document", "query", "update", "filters", "updated"),
    [
        ({"a": [1, 2]}, {"a": 2}, {"$set": {"a.$": 9}}, None, {"a.1": 9}),
        ({"a": [{}, {"x": 2}]}, {"a.x": {"$exists": True}}, {"$set": {"a.$.x": 9}}, None, {"a.1.x": 9}),
        ({"a": [{"x": 1}, {"x": 2}]}, {"a.x": 2}, {"$inc": {"a.$.x": 5}}, None, {"a.1.x": 7}),
        ({"a": [1], "b": [0, 2]}, {"a": 1, "b": 2}, {"$set": {"b.$": 9}}, None, {"b.1": 9}),
        ({"a": [1, 2]}, {}, {"$inc": {"a.$[]": 1}}, None, {"a.0": 2, "a.1": 3}),
        ({"a": [1, 5, 9]}, {}, {"$set": {"a.$[x]": 0}}, [{"x": {"$gte": 5}}], {"a.1": 0, "a.2": 0}),
        (
            {"a": [{"q": [1, 2]}, {"q": [2]}]},
            {},
            {"$set": {"a.$[].q.$[y]": 0}},
            [{"y": 2}],
            {"a.0.q.1": 0, "a.1.q.0": 0},
        ),
        (
            {"a": [{"g": 1, "m": 5}, {"g": 2, "m": 5}]},
            {},
            {"$set": {"a.$[e].m": 0}},
            [{"$and": [{"e.g": {"$gt": 1}}, {"e.m": 5}]}],
            {"a.1.m": 0},
        ),
    ],
)
def test_a_path_may_mean_elements_of_arrays(
    document: dict[str, Any],
    query: dict[str, Any],
    update: dict[str, Any],
    filters: Any,
    updated: dict[str, Any],
) -> None:
    assert applied(document, update, query, filters).description["updatedFields"] == updated


def test_a_path_with_numbers_as_names_is_told_part_by_part() -> None:
    made = applied({"o": {"0": 1}, "a": [{"1": 2}]}, {"$set": {"o.0": 5, "a.0.1": 6}})
    assert made.description["disambiguatedPaths"] == {"o.0": ["o", "0"], "a.0.1": ["a", 0, "1"]}
    assert applied({"a": [1]}, {"$set": {"a.0": 5}}).description["disambiguatedPaths"] == {}
    assert applied({"0": 1}, {"$set": {"0": 5}}).description["disambiguatedPaths"] == {}


@pytest.mark.parametrize(
    ("document", "update", "filters", "code"),
    [
        ({}, {"$set": {"a": 1}, "$inc": {"a": 1}}, None, 40),
        ({}, {"$set": {"a": 1, "a.b": 1}}, None, 40),
        ({}, {"$set": {"a.b": 1}, "$unset": {"a": 1}}, None, 40),
        ({}, {"$rename": {"a": "b"}, "$set": {"b": 1}}, None, 40),
        ({"a": [1]}, {"$set": {"a.$[]": 1, "a.0": 2}}, None, 40),
        ({"_id": 1}, {"$set": {"_id": 2}}, None, 66),
        ({"_id": 1}, {"$unset": {"_id": 2}}, None, 66),
        ({"_id": 1}, {"_id": 2, "a": 1}, None, 66),
        ({}, {"$foo": {"a": 1}}, None, 9),
        ({}, {"$set": {"a": 1}, "b": 1}, None, 9),
        ({}, {"$set": 5}, None, 9),
        ({}, 5, None, 9),
        ({}, {"a": 1, "$set": {"b": 1}}, None, 52),
        ({}, {"$set": {"": 1}}, None, 56),
        ({}, {"$set": {"a.": 1}}, None, 56),
        ({}, {"$set": {"$x": 1}}, None, 52),
        ({}, {"$inc": {"$x.a": 1}}, None, 52),
        ({}, {"$rename": {"a": "$x"}}, None, 52),
        ({}, {"$set": {"a\0": 1}}, None, 9867600),
        ({}, {"$set": {"$": 1}}, None, 2),
        ({"a": [1]}, {"$set": {"a.$": 1}}, None, 2),
        ({"a": 1}, {"$set": {"a.$[]": 1}}, None, 2),
        ({}, {"$set": {"a.$[]": 1}}, None, 2),
        ({"a": [1]}, {"$set": {"a.$[x]": 1}}, None, 2),
        ({"a": [1]}, {"$set": {"b": 1}}, [{"x": 1}], 9),
        ({"a": [1]}, {"$set": {"a.$[x]": 1}}, [{"x": 1}, {"x": 2}], 9),
        ({"a": [1]}, {"$set": {"a.$[x]": 1}}, [{"x": 1, "y": 2}], 9),
        ({"a": [1]}, {"$set": {"a.$[X]": 1}}, [{"X": 1}], 2),
        ({"a": 1}, {"$set": {"a.b": 1}}, None, 28),
        ({"a": [1]}, {"$set": {"a.b": 1}}, None, 28),
        ({"a": [1]}, {"$set": {"a.2000000": 1}}, None, 2),
        ({"a": "x"}, {"$inc": {"a": 1}}, None, 14),
        ({}, {"$inc": {"a": "x"}}, None, 14),
        ({"a": Int64(2**63 - 1)}, {"$inc": {"a": 1}}, None, 2),
        ({"a": "x"}, {"$mul": {"a": 1}}, None, 14),
        ({"a": 1}, {"$push": {"a": 1}}, None, 2),
        ({}, {"$push": {"a": {"$each": 1}}}, None, 2),
        ({}, {"$push": {"a": {"$each": [], "$x": 1}}}, None, 2),
        ({"a": 1}, {"$addToSet": {"a": 1}}, None, 2),
        ({"a": 1}, {"$pull": {"a": 1}}, None, 2),
        ({}, {"$pullAll": {"a": 1}}, None, 2),
        ({"a": 1}, {"$pop": {"a": 1}}, None, 14),
        ({"a": "x"}, {"$pop": {"a.b": 1}}, None, 28),
        ({"a": [{"b": [1]}]}, {"$pop": {"a.b": 1}}, None, 28),
        ({}, {"$pop": {"a": 3}}, None, 9),
        ({}, {"$rename": {"a": 1}}, None, 2),
        ({"_id": 1, "a": 1}, {"$rename": {"a": "_id"}}, None, 66),
        ({"a": 1}, {"$rename": {"a.b": "c"}}, None, 28),
        ({}, {"$rename": {"a": "a"}}, None, 2),
        ({}, {"$rename": {"a": "a.b"}}, None, 2),
        ({"a": [{"b": 1}]}, {"$rename": {"a.0.b": "c"}}, None, 2),
        ({}, {"$currentDate": {"a": 1}}, None, 2),
        ({}, {"$currentDate": {"a": {"$type": "x"}}}, None, 2),
        ({}, {"$bit": {"a": 1}}, None, 2),
        ({}, {"$bit": {"a": {"nand": 1}}}, None, 2),
        ({"a": 1.5}, {"$bit": {"a": {"and": 1}}}, None, 2),
        ({}, [{"$match": {}}], None, 72),
    ],
)
def test_what_is_no_update_of_this_document_is_refused_with_its_code(
    document: dict[str, Any], update: Any, filters: Any, code: int
) -> None:
    with pytest.raises(MongoError) as caught:
        applied(document, update, {}, filters)
    assert caught.value.code == code, caught.value


def test_a_replacement_keeps_the_id_and_has_no_description() -> None:
    made = applied({"_id": 1, "a": 1}, {"b": 2})
    assert made.document == {"_id": 1, "b": 2}
    assert made.description is None
    assert made.is_replacement


def test_a_pipeline_makes_a_version_and_says_how_it_differs() -> None:
    before = {"_id": 1, "pad": "x" * 60, "a": 1, "array": ["foo", {"a": "bar"}, 1, 2, 3]}
    made = applied(before, [{"$set": {"array": ["foo", {"a": "bar"}]}}, {"$unset": "a"}])
    assert made.document == {"_id": 1, "pad": "x" * 60, "array": ["foo", {"a": "bar"}]}
    assert made.description == {
        "updatedFields": {},
        "removedFields": ["a"],
        "truncatedArrays": [{"field": "array", "newSize": 2}],
        "disambiguatedPaths": {},
    }
    assert not made.is_replacement


def test_a_pipeline_whose_difference_is_no_smaller_than_its_version_replaces() -> None:
    made = applied({"_id": 1, "a": 1}, [{"$replaceWith": {"b": 2}}])
    assert made.document == {"_id": 1, "b": 2}
    assert made.description is None
    assert made.is_replacement


def test_a_pipeline_has_the_commands_variables_and_begins_an_upsert_as_operators_do() -> None:
    update = Update([{"$set": {"b": {"$add": ["$a", "$$n"]}}}], variables={"n": 5})
    assert update.upserted(Filter({"a": 1})) == {"a": 1, "b": 6}
    assert update.apply({"a": 1, "b": 6}).description is None


def test_an_upsert_begins_with_what_the_query_demands() -> None:
    query = Filter({"a": 1, "n.x": {"$eq": 2}, "b": {"$gt": 1}, "_id": 7})
    made = Update({"$set": {"c": 3}, "$setOnInsert": {"d": 4}, "$inc": {"a": 1}}).upserted(query)
    assert made == {"_id": 7, "a": 2, "n": {"x": 2}, "c": 3, "d": 4}
    assert next(iter(made)) == "_id"
    assert Update({"z": 1}).upserted(query) == {"_id": 7, "z": 1}
    assert Update({"$set": {"_id": 5}}).upserted(Filter({"a": 1})) == {"_id": 5, "a": 1}


def test_only_a_document_that_is_inserted_may_have_names_that_begin_with_a_dollar() -> None:
    update = Update({"$set": {"$price": 5, "$stock.n": 1}, "$inc": {"$sold": 2}})

    assert update.upserted(Filter({"_id": 1})) == {"_id": 1, "$price": 5, "$sold": 2, "$stock": {"n": 1}}
    with pytest.raises(MongoError, match=r"'\$price' in '\$price' is not valid for storage") as caught:
        update.apply({"_id": 1}, matched_filter=Filter({"_id": 1}))
    assert caught.value.code == 52


def test_an_upsert_of_a_query_with_two_values_for_a_path_is_refused() -> None:
    with pytest.raises(MongoError) as caught:
        Update({"$set": {"c": 3}}).upserted(Filter({"a": 1, "$and": [{"a": 2}]}))
    assert caught.value.code == 54
    with pytest.raises(MongoError) as caught:
        Update({"$set": {"_id": 3}}).upserted(Filter({"_id": 1}))
    assert caught.value.code == 66


_NAMES = st.sampled_from(["a", "b", "0", "1"])
_SCALARS = st.sampled_from([None, 0, 1, 2, 1.5, Int64(3), "x", True])
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=2),
    max_leaves=5,
)
_DOCUMENTS = st.dictionaries(st.sampled_from(["a", "b", "c"]), _VALUES, max_size=3)
_PATHS = st.lists(_NAMES, min_size=1, max_size=3).map(".".join)
_EACH = st.fixed_dictionaries(
    {"$each": st.lists(_VALUES, max_size=2)},
    optional={
        "$position": st.integers(-2, 3),
        "$slice": st.integers(-2, 3),
        "$sort": st.sampled_from([1, -1]),
    },
)
_OPERATORS = {
    "$set": _VALUES,
    "$unset": st.just(""),
    "$inc": st.sampled_from([1, 0, 2.5, Int64(1)]),
    "$mul": st.sampled_from([1, 0, 2.5]),
    "$min": _SCALARS,
    "$max": _SCALARS,
    "$push": _VALUES | _EACH,
    "$addToSet": _VALUES,
    "$pull": _SCALARS,
    "$pullAll": st.lists(_SCALARS, max_size=2),
    "$pop": st.sampled_from([1, -1]),
    "$rename": _PATHS,
}
_UPDATES = st.fixed_dictionaries(
    {},
    optional={
        name: st.dictionaries(_PATHS, operand, min_size=1, max_size=2) for name, operand in _OPERATORS.items()
    },
).filter(bool)


@settings(max_examples=examples(800), deadline=None)
@given(_DOCUMENTS, _UPDATES)
def test_an_update_agrees_with_a_naive_one_and_its_description_leads_to_the_new_version(
    document: dict[str, Any], update: dict[str, Any]
) -> None:
    try:
        made = Update(update).apply(document)
    except MongoError:
        return  # Not every path is possible.
    assert identical(made.document, naive_update(document, update))
    if made.description is None:
        assert made.document is document
    else:
        assert identical(described_version(document, made.description), made.document)
