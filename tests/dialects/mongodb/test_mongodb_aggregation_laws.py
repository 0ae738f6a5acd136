"""Laws of aggregation, with whatever documents: each stage and operator against what Python says in its own words."""

from __future__ import annotations

import copy
import functools
from datetime import datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("bson")

import bson
from bson import Int64
from hypothesis import given, settings
from hypothesis import strategies as st

from reactdb.dialects.mongodb.bson_order import MISSING, compare, identical, sort_key
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions import OPERATORS, compile_expression
from reactdb.dialects.mongodb.numeric import INT64_MAX, INT64_MIN
from reactdb.dialects.mongodb.stages import Pipeline, Setting
from tests.dialects.mongodb.documents import bson_values
from tests.support.scaling import examples

small = st.integers(-5, 5)
values = st.one_of(
    small, st.none(), st.booleans(), st.sampled_from(["a", "b", ""]), small.map(float), small.map(Int64)
)
documents = st.dictionaries(
    st.sampled_from("abcd"), st.one_of(values, st.lists(values, max_size=3)), max_size=4
)
collections = st.lists(documents, max_size=12).map(
    lambda rows: [{"_id": number, **row} for number, row in enumerate(rows)]
)


def run(stages: list[Any], rows: list[Any], setting: Setting | None = None) -> list[Any]:
    return list(Pipeline(stages, setting).run(rows))


def value_of(expression: Any, document: Any = None) -> Any:
    return compile_expression(expression)(document or {}, {})


class Beside:
    """One collection beside, of whatever name."""

    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def documents(self, namespace: str) -> list[Any]:
        return self.rows


# --- Expressions ---


def arithmetic() -> st.SearchStrategy[tuple[Any, Any]]:
    """Pairs of an expression on whole numbers and Python's value of it."""
    leaves = st.integers(-1_000, 1_000).map(lambda number: (number, number))

    def larger(inner: Any) -> Any:
        return st.one_of(
            st.lists(inner, max_size=4).map(
                lambda parts: ({"$add": [p[0] for p in parts]}, sum(p[1] for p in parts))
            ),
            st.tuples(inner, inner).map(lambda p: ({"$subtract": [p[0][0], p[1][0]]}, p[0][1] - p[1][1])),
            st.tuples(inner, inner).map(lambda p: ({"$multiply": [p[0][0], p[1][0]]}, p[0][1] * p[1][1])),
            inner.map(lambda p: ({"$abs": p[0]}, abs(p[1]))),
            st.tuples(inner, inner, inner).map(
                lambda p: (
                    {"$cond": [{"$gt": [p[0][0], 0]}, p[1][0], p[2][0]]},
                    p[1][1] if p[0][1] > 0 else p[2][1],
                )
            ),
            st.lists(inner, min_size=1, max_size=4).map(
                lambda parts: ({"$max": [p[0] for p in parts]}, max(p[1] for p in parts))
            ),
            st.tuples(inner, inner).map(
                lambda p: (
                    {"$let": {"vars": {"x": p[0][0]}, "in": {"$add": ["$$x", p[1][0]]}}},
                    p[0][1] + p[1][1],
                )
            ),
        )

    return st.recursive(leaves, larger, max_leaves=12)


@given(arithmetic())
@settings(max_examples=examples(300))
def test_arithmetic_on_whole_numbers_is_pythons_as_long_as_it_fits(pair):
    expression, expected = pair

    actual = value_of(expression)

    if INT64_MIN <= expected <= INT64_MAX and not isinstance(actual, float):
        assert expected == actual
        assert (type(actual) is int) == (-(2**31) <= expected < 2**31) or type(actual) is Int64


@given(st.lists(values, max_size=6), st.lists(values, max_size=6))
@settings(max_examples=examples(200))
def test_sets_are_those_of_the_keys_of_their_elements(left, right):
    keys = lambda array: {sort_key(value) for value in array}  # noqa: E731
    literal = [{"$literal": left}, {"$literal": right}]

    assert keys(left) | keys(right) == keys(value_of({"$setUnion": literal}))
    assert keys(left) & keys(right) == keys(value_of({"$setIntersection": literal}))
    assert keys(left) - keys(right) == keys(value_of({"$setDifference": literal}))
    assert (keys(left) <= keys(right)) is value_of({"$setIsSubset": literal})
    assert (keys(left) == keys(right)) is value_of({"$setEquals": literal})
    for operator in ("$setUnion", "$setIntersection", "$setDifference"):
        made = value_of({operator: literal})
        assert len(keys(made)) == len(made)


@given(st.lists(values, max_size=6), st.integers(-8, 8), st.integers(1, 8))
@settings(max_examples=examples(200))
def test_arrays_are_cut_as_lists_are(array, start, count):
    literal = {"$literal": array}
    first = max(len(array) + start, 0) if start < 0 else start

    assert identical(array[first : first + count], value_of({"$slice": [literal, start, count]}))
    assert identical(array[::-1], value_of({"$reverseArray": literal}))
    assert identical(array + array, value_of({"$concatArrays": [literal, literal]}))
    assert len(array) == value_of({"$size": literal})
    expected = array[start] if -len(array) <= start < len(array) else MISSING
    assert expected is MISSING or identical(expected, value_of({"$arrayElemAt": [literal, start]}))
    doubled = value_of({"$map": {"input": literal, "in": ["$$this"]}})
    assert identical([[value] for value in array], doubled)
    counted = value_of({"$reduce": {"input": literal, "initialValue": 0, "in": {"$add": ["$$value", 1]}}})
    assert len(array) == counted


@given(st.lists(bson_values(), max_size=5), bson_values())
@settings(max_examples=examples(150))
def test_what_is_in_an_array_is_found_where_it_compares_equal(array, value):
    places = [place for place, element in enumerate(array) if compare(element, value) == 0]
    document = {"array": array, "value": value}

    assert bool(places) is value_of({"$in": ["$value", "$array"]}, document)
    assert bool(places) is value_of({"$in": ["$value", {"$literal": array}]}, document)
    assert (places[0] if places else -1) == value_of({"$indexOfArray": ["$array", "$value"]}, document)


@given(
    st.text("ab,", max_size=8), st.text("ab,", min_size=1, max_size=2), st.integers(0, 9), st.integers(0, 9)
)
@settings(max_examples=examples(200))
def test_texts_are_cut_and_joined_as_pythons(text, part, start, count):
    literal = {"$literal": text}

    assert text.split(part) == value_of({"$split": [literal, {"$literal": part}]})
    assert text[start : start + count] == value_of({"$substrCP": [literal, start, count]})
    assert text.find(part) == value_of({"$indexOfCP": [literal, {"$literal": part}]})
    assert text.replace(part, "-") == value_of(
        {"$replaceAll": {"input": literal, "find": part, "replacement": "-"}}
    )
    assert text.strip(part) == value_of({"$trim": {"input": literal, "chars": part}})
    assert text + part == value_of({"$concat": [literal, {"$literal": part}]})


moments = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)).map(
    lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)
)


@given(moments, st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "+05:30", "-11"]))
@settings(max_examples=examples(150))
def test_a_date_is_the_date_of_its_parts_and_of_its_text(moment, zone):
    parts = value_of({"$dateToParts": {"date": moment, "timezone": zone}})
    made = value_of({"$dateFromParts": {**parts, "timezone": zone}})
    text = value_of({"$dateToString": {"date": moment, "timezone": zone, "format": "%Y-%m-%dT%H:%M:%S.%L%z"}})

    # An hour that a clock shows twice is the first of the two.
    assert abs(moment - made) in (timedelta(0), timedelta(hours=1))
    if moment.year >= 1950:
        # Before that, zones were ahead by odd seconds, which %z does not write.
        assert moment == value_of({"$dateFromString": {"dateString": text}})


@given(moments, st.integers(-500, 500), st.sampled_from(["second", "minute", "hour", "day", "week"]))
@settings(max_examples=examples(150))
def test_a_date_that_was_moved_is_that_far_away(moment, amount, unit):
    moved = value_of({"$dateAdd": {"startDate": moment, "unit": unit, "amount": amount}})

    assert amount == value_of({"$dateDiff": {"startDate": moment, "endDate": moved, "unit": unit}})
    assert moment == value_of({"$dateSubtract": {"startDate": moved, "unit": unit, "amount": amount}})


@given(
    moments,
    st.integers(1, 9),
    st.sampled_from(["second", "minute", "hour", "day", "week", "month", "quarter", "year"]),
)
@settings(max_examples=examples(150))
def test_a_truncated_date_is_the_last_start_of_a_bin(moment, size, unit):
    spec = {"unit": unit, "binSize": size}
    start = value_of({"$dateTrunc": {"date": moment, **spec}})
    following = value_of({"$dateAdd": {"startDate": start, "unit": unit, "amount": size}})

    assert start <= moment < following
    assert start == value_of({"$dateTrunc": {"date": start, **spec}})


wild = st.one_of(
    bson_values().map(lambda value: {"$literal": value}),
    st.sampled_from(["$a", "$b.c", "$$ROOT", "x", "%Y", "day", "UTC", 0, 1, -1, 2.5, None]),
)


@given(
    st.sampled_from(sorted(OPERATORS)),
    st.one_of(wild, st.lists(wild, max_size=4)),
    st.dictionaries(st.sampled_from("abc"), bson_values(), max_size=3),
)
@settings(max_examples=examples(2_000))
def test_whatever_an_operator_is_given_it_gives_a_bson_value_or_mongodbs_error(operator, argument, document):
    try:
        value = value_of({operator: argument}, document)
    except MongoError:
        return
    if value is not MISSING:
        bson.encode({"value": value})


@given(
    st.sampled_from(
        [
            "$dateToString",
            "$dateAdd",
            "$dateSubtract",
            "$dateDiff",
            "$dateTrunc",
            "$dateFromParts",
            "$dateToParts",
        ]
    ),
    st.dictionaries(
        st.sampled_from(
            [
                "date",
                "startDate",
                "endDate",
                "unit",
                "amount",
                "timezone",
                "binSize",
                "format",
                "year",
                "month",
                "day",
                "iso8601",
            ]
        ),
        st.one_of(wild, st.datetimes(), st.sampled_from(["month", "week", "year", "%G-%V", 10**6, True])),
    ),
)
@settings(max_examples=examples(1_000))
def test_whatever_an_operator_of_dates_is_given_it_gives_a_bson_value_or_mongodbs_error(operator, parts):
    try:
        value = value_of({operator: parts}, {"a": datetime(2024, 1, 1)})
    except MongoError:
        return
    if value is not MISSING:
        bson.encode({"value": value})


# --- Stages ---


def is_smaller(way: int, left: Any, right: Any) -> int:
    """Of arrays, the least or the greatest element counts."""

    def value(document: Any) -> Any:
        found = document.get("a")
        if not isinstance(found, list):
            return found
        if not found:
            return MISSING
        key = functools.cmp_to_key(compare)
        return min(found, key=key) if way > 0 else max(found, key=key)

    return way * compare(value(left), value(right))


@given(collections, st.sampled_from([1, -1]), st.integers(0, 4), st.integers(1, 5))
@settings(max_examples=examples(200))
def test_a_sort_is_stable_and_a_limit_after_it_takes_its_first_ones(rows, way, skip, most):
    expected = sorted(rows, key=functools.cmp_to_key(functools.partial(is_smaller, way)))

    assert identical(expected, run([{"$sort": {"a": way}}], rows))
    limited = run([{"$sort": {"a": way}}, {"$skip": skip}, {"$limit": most}], rows)
    assert identical(expected[skip : skip + most], limited)


@given(collections)
@settings(max_examples=examples(200))
def test_groups_are_those_of_equal_keys_and_their_totals_those_of_their_members(rows):
    totals = {"n": {"$sum": 1}, "ids": {"$push": "$_id"}, "sum": {"$sum": "$b"}, "low": {"$min": "$_id"}}
    groups = run(
        [{"$group": {"_id": "$a", **totals, "first": {"$first": "$_id"}, "last": {"$last": "$_id"}}}], rows
    )

    expected: dict[Any, list[Any]] = {}
    for row in rows:
        expected.setdefault(sort_key(row.get("a")), []).append(row)
    assert list(expected) == [sort_key(group["_id"]) for group in groups]
    for group, members in zip(groups, expected.values(), strict=True):
        ids = [row["_id"] for row in members]
        assert (len(ids), ids, ids[0], ids[-1], min(ids)) == (
            group["n"],
            group["ids"],
            group["first"],
            group["last"],
            group["low"],
        )
        numbers = [row["b"] for row in members if type(row.get("b")) in (int, float, Int64)]
        assert sum(numbers) == group["sum"]


@given(collections)
@settings(max_examples=examples(150))
def test_what_was_unwound_is_put_together_again_by_a_group(rows):
    arrays = {row["_id"]: row["a"] for row in rows if isinstance(row.get("a"), list) and row["a"]}

    unwound = run([{"$match": {"a": {"$type": "array"}}}, {"$unwind": "$a"}], rows)
    again = run([{"$unwind": "$a"}, {"$group": {"_id": "$_id", "a": {"$push": "$a"}}}], rows)

    assert sum(map(len, arrays.values())) == len(unwound)
    for group in again:
        if group["_id"] in arrays:
            assert identical(arrays[group["_id"]], group["a"])


@given(collections, st.sets(st.sampled_from("abcd"), min_size=1))
@settings(max_examples=examples(150))
def test_what_a_projection_keeps_and_what_its_opposite_keeps_is_the_document(rows, names):
    kept = run([{"$project": dict.fromkeys(names, 1)}], rows)
    others = run([{"$project": dict.fromkeys(names, 0)}], rows)

    for row, some, rest in zip(rows, kept, others, strict=True):
        assert identical(row, {name: {**some, **rest}[name] for name in row})
        assert {"_id"} == some.keys() & rest.keys()
    assert identical(others, run([{"$unset": sorted(names)}], rows))


@given(collections, collections)
@settings(max_examples=examples(150))
def test_a_join_by_fields_is_a_loop_in_a_loop(rows, others):
    lookup = {"from": "others", "localField": "a", "foreignField": "b", "as": "found"}

    made = run([{"$lookup": lookup}], rows, Setting(Beside(others), "shop.rows"))  # type: ignore[arg-type]

    for row, joined in zip(rows, made, strict=True):
        wanted = (row["a"] or [None]) if isinstance(row.get("a"), list) else [row.get("a")]
        expected = []
        for other in others:
            theirs = other.get("b")
            candidates = [*theirs, theirs] if isinstance(theirs, list) else [theirs]
            if any(compare(one, two) == 0 for one in wanted for two in candidates):
                expected.append(other)
        assert identical(expected, joined["found"])


@given(collections)
@settings(max_examples=examples(100))
def test_a_facet_gives_what_its_pipelines_give_alone_and_a_union_gives_both(rows):
    one: list[Any] = [{"$match": {"a": {"$gte": 0}}}, {"$project": {"a": 1}}]
    two: list[Any] = [{"$sort": {"b": 1}}, {"$limit": 2}]
    setting = Setting(Beside(rows), "shop.rows")  # type: ignore[arg-type]

    assert identical(
        [{"one": run(one, rows), "two": run(two, rows)}], run([{"$facet": {"one": one, "two": two}}], rows)
    )
    union = run([*one, {"$unionWith": {"coll": "rows", "pipeline": two}}], rows, setting)
    assert identical(run(one, rows) + run(two, rows), union)


@given(documents)
@settings(max_examples=examples(200))
def test_a_pipeline_of_single_documents_gives_one_by_one_what_it_gives_of_all_and_changes_none(document):
    stages = [
        {"$match": {"a": {"$ne": 1}}},
        {"$set": {"b.x": "$a", "new": {"$type": "$c"}, "d": "$$REMOVE"}},
        {"$project": {"b": 1, "new": 1, "a": {"$ifNull": ["$a", "none"]}}},
        {"$replaceWith": {"$mergeObjects": [{"first": True}, "$$ROOT"]}},
    ]
    before = copy.deepcopy(document)
    pipeline = Pipeline(stages)

    one = pipeline.apply(document)

    assert identical([] if one is None else [one], list(pipeline.run([document])))
    assert identical(before, document)
