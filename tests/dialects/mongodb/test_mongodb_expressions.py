"""Aggregation expressions: what each operator gives, and how a wrong one is refused."""

from __future__ import annotations

from datetime import datetime

import pytest

pytest.importorskip("bson")

from bson import Binary, Decimal128, Int64, ObjectId, Regex, Timestamp

from reactdb.dialects.mongodb.bson_order import MISSING, identical
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions import compile_expression

NEW_YEAR = datetime(2024, 1, 1)
LEAP_DAY = datetime(2024, 2, 29, 12, 30, 15, 250_000)
DOCUMENT = {
    "a": 1,
    "b": {"c": 2, "d": [1, 2, 3]},
    "items": [{"q": 1, "p": 2.5}, {"q": 2}, "none"],
    "text": "Straße",
    "null": None,
    "when": LEAP_DAY,
    "long": Int64(5),
}


def value_of(expression, document=DOCUMENT, variables=None):
    return compile_expression(expression, variables or ())(document, variables or {})


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # Literals, paths, variables
        ("$a", 1),
        ("$b.c", 2),
        ("$items.q", [1, 2]),
        ("$items.0", []),
        ("$none", MISSING),
        ("$$ROOT.b.c", 2),
        ("$$CURRENT.a", 1),
        ("$$REMOVE", MISSING),
        ({"x": "$a", "y": "$none"}, {"x": 1}),
        (["$a", "$none"], [1, None]),
        ({"$literal": "$a"}, "$a"),
        ({"$let": {"vars": {"x": {"$add": ["$a", 1]}}, "in": {"$multiply": ["$$x", "$$x"]}}}, 4),
        ({"$let": {"vars": {"CURRENT": "$b"}, "in": ["$c", "$$ROOT.a"]}}, [2, 1]),
        # Numbers
        ({"$add": ["$a", 2]}, 3),
        ({"$add": [2**31 - 1, 1]}, Int64(2**31)),
        ({"$add": [Int64(2**63 - 1), 1]}, float(2**63)),
        ({"$add": ["$long", 1]}, Int64(6)),
        ({"$add": [1, 0.5]}, 1.5),
        ({"$add": [Decimal128("0.1"), Decimal128("0.2")]}, Decimal128("0.3")),
        ({"$add": ["$none", 1]}, None),
        ({"$add": [NEW_YEAR, 86_400_000]}, datetime(2024, 1, 2)),
        ({"$subtract": [datetime(2024, 1, 2), NEW_YEAR]}, Int64(86_400_000)),
        ({"$divide": [6, 3]}, 2.0),
        ({"$mod": [-7, 3]}, -1),
        ({"$sigmoid": Decimal128("NaN")}, Decimal128("NaN")),
        ({"$sqrt": Decimal128("NaN")}, Decimal128("NaN")),
        ({"$pow": [0, Decimal128("NaN")]}, Decimal128("NaN")),
        ({"$pow": [2, 10]}, 1024),
        ({"$pow": [2, -1]}, 0.5),
        ({"$round": [2.5]}, 2.0),
        ({"$round": [Decimal128("1E+6144"), 2]}, Decimal128("1E+6144")),
        ({"$trunc": [Decimal128("9.99E+100")]}, Decimal128("9.99E+100")),
        ({"$mergeObjects": [[{"a": 1}, {"a": 2, "b": 3}]]}, {"a": 2, "b": 3}),
        ({"$toUpper": Timestamp(0, 7)}, "JAN  1 00:00:00:7"),
        ({"$substrCP": [Timestamp(1_721_500_800, 1), 0, 30]}, "Jul 20 18:40:00:1"),
        ({"$indexOfBytes": ["hello", "llo", 0, 4]}, -1),
        ({"$indexOfBytes": ["hello", "llo", 0, 5]}, 2),
        ({"$indexOfCP": ["hello", "llo", 0, 4]}, 2),
        ({"$round": [1234, -2]}, 1200),
        ({"$trunc": [-1.79, 1]}, -1.7),
        ({"$abs": -3}, 3),
        ({"$ceil": -0.5}, -0.0),
        ({"$bitXor": [6, 3]}, 5),
        # Truth and comparisons
        ({"$and": [1, "$text", True]}, True),
        ({"$or": [0, "$none", None]}, False),
        ({"$not": ["$null"]}, True),
        ({"$eq": ["$none", None]}, False),
        ({"$lt": ["$none", None]}, True),
        ({"$gt": ["a", 1]}, True),
        ({"$cmp": [1, 1.0]}, 0),
        ({"$cond": [{"$gt": ["$a", 0]}, "yes", "no"]}, "yes"),
        ({"$cond": {"if": False, "then": {"$divide": [1, 0]}, "else": 1}}, 1),
        ({"$ifNull": ["$none", "$null", 7]}, 7),
        ({"$switch": {"branches": [{"case": False, "then": 1}, {"case": True, "then": 2}]}}, 2),
        # Arrays and sets
        ({"$arrayElemAt": ["$b.d", -1]}, 3),
        ({"$arrayElemAt": ["$b.d", 9]}, MISSING),
        ({"$first": "$b.d"}, 1),
        ({"$slice": ["$b.d", -2]}, [2, 3]),
        ({"$slice": ["$b.d", 1, 1]}, [2]),
        ({"$map": {"input": "$b.d", "as": "n", "in": {"$multiply": ["$$n", "$a", 2]}}}, [2, 4, 6]),
        ({"$filter": {"input": "$b.d", "cond": {"$gt": ["$$this", 1]}, "limit": 1}}, [2]),
        ({"$reduce": {"input": "$b.d", "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}}, 6),
        ({"$reduce": {"input": "$b.d", "initialValue": 0, "in": {"$add": ["$$value", "$$IDX"]}}}, 3),
        (
            {
                "$reduce": {
                    "input": "$b.d",
                    "initialValue": [],
                    "as": "x",
                    "valueAs": "sum",
                    "arrayIndexAs": "i",
                    "in": {"$concatArrays": ["$$sum", [{"$subtract": ["$$x", "$$i"]}]]},
                }
            },
            [1, 1, 1],
        ),
        ({"$range": [0, 10, 4]}, [0, 4, 8]),
        ({"$in": [2.0, "$b.d"]}, True),
        ({"$in": ["$none", [1, None]]}, False),
        ({"$indexOfArray": ["$b.d", 3]}, 2),
        ({"$concatArrays": ["$b.d", [4]]}, [1, 2, 3, 4]),
        (
            {"$zip": {"inputs": [[1, 2], ["a"]], "useLongestLength": True, "defaults": [0, "z"]}},
            [[1, "a"], [2, "z"]],
        ),
        ({"$sortArray": {"input": [3, 1, 2], "sortBy": -1}}, [3, 2, 1]),
        ({"$sortArray": {"input": [{"x": 2}, {"x": 1}], "sortBy": {"x": 1}}}, [{"x": 1}, {"x": 2}]),
        ({"$maxN": {"n": 2, "input": [1, 5, 3]}}, [5, 3]),
        ({"$setDifference": [[1, 2, 2], [2.0]]}, [1]),
        ({"$setEquals": [[1, 2], [2, 1, 1]]}, True),
        ({"$setIsSubset": [[1], [1, 2]]}, True),
        ({"$anyElementTrue": [[0, 1]]}, True),
        # Objects
        ({"$mergeObjects": [{"x": 1}, "$none", {"y": 2, "x": 3}]}, {"x": 3, "y": 2}),
        ({"$objectToArray": {"x": 1}}, [{"k": "x", "v": 1}]),
        ({"$arrayToObject": [[["x", 1], ["y", 2]]]}, {"x": 1, "y": 2}),
        ({"$getField": "a"}, 1),
        ({"$setField": {"field": "a.b", "input": {"x": 1}, "value": 2}}, {"x": 1, "a.b": 2}),
        ({"$unsetField": {"field": "x", "input": {"x": 1, "y": 2}}}, {"y": 2}),
        # Texts
        ({"$concat": ["$text", "!"]}, "Straße!"),
        ({"$concat": ["$text", "$none"]}, None),
        ({"$toUpper": "$text"}, "STRAßE"),
        ({"$strLenCP": "$text"}, 6),
        ({"$strLenBytes": "$text"}, 7),
        ({"$substrCP": ["$text", 4, 1]}, "ß"),
        ({"$substrBytes": ["$text", 0, 4]}, "Stra"),
        ({"$split": ["a-b-c", "-"]}, ["a", "b", "c"]),
        ({"$trim": {"input": "  x  "}}, "x"),
        ({"$replaceAll": {"input": "aba", "find": "a", "replacement": "c"}}, "cbc"),
        ({"$indexOfCP": ["$text", "ß"]}, 4),
        ({"$regexMatch": {"input": "Hello", "regex": "^h", "options": "i"}}, True),
        (
            {"$regexFind": {"input": "ab12", "regex": Regex(r"(\d)(\d)")}},
            {"match": "12", "idx": 2, "captures": ["1", "2"]},
        ),
        ({"$strcasecmp": ["A", "b"]}, -1),
        # Dates
        ({"$year": "$when"}, 2024),
        ({"$dayOfYear": "$when"}, 60),
        ({"$dayOfWeek": "$when"}, 5),
        ({"$isoWeek": "$when"}, 9),
        ({"$hour": {"date": "$when", "timezone": "America/New_York"}}, 7),
        ({"$dateToString": {"date": "$when", "format": "%Y-%m-%d %H:%M:%S.%L"}}, "2024-02-29 12:30:15.250"),
        ({"$dateToString": {"date": "$when", "timezone": "+02:00", "format": "%H %z"}}, "14 +0200"),
        ({"$dateFromString": {"dateString": "2024-02-29T12:30:15.250Z"}}, LEAP_DAY),
        ({"$dateFromString": {"dateString": "29/02/2024", "format": "%d/%m/%Y"}}, datetime(2024, 2, 29)),
        ({"$dateFromParts": {"year": 2024, "month": 14, "day": 0}}, datetime(2025, 1, 31)),
        (
            {"$dateToParts": {"date": NEW_YEAR, "iso8601": True}}["$dateToParts"]
            and {"$isoWeekYear": NEW_YEAR},
            Int64(2024),
        ),
        (
            {"$dateAdd": {"startDate": datetime(2024, 1, 31), "unit": "month", "amount": 1}},
            datetime(2024, 2, 29),
        ),
        ({"$dateSubtract": {"startDate": NEW_YEAR, "unit": "day", "amount": 1}}, datetime(2023, 12, 31)),
        ({"$dateDiff": {"startDate": NEW_YEAR, "endDate": LEAP_DAY, "unit": "month"}}, Int64(1)),
        ({"$dateTrunc": {"date": LEAP_DAY, "unit": "hour", "binSize": 6}}, datetime(2024, 2, 29, 12)),
        ({"$dateTrunc": {"date": LEAP_DAY, "unit": "week", "startOfWeek": "monday"}}, datetime(2024, 2, 26)),
        ({"$tsSecond": Timestamp(7, 3)}, Int64(7)),
        # Types
        ({"$type": "$none"}, "missing"),
        ({"$type": "$long"}, "long"),
        ({"$toInt": "12"}, 12),
        ({"$toLong": 3.9}, Int64(3)),
        ({"$toString": 1.0}, "1"),
        ({"$toString": ObjectId("0123456789abcdef01234567")}, "0123456789abcdef01234567"),
        ({"$toDate": Int64(0)}, datetime(1970, 1, 1)),
        ({"$toBool": "false"}, True),
        ({"$convert": {"input": "x", "to": "int", "onError": -1}}, -1),
        ({"$isNumber": "$a"}, True),
        ({"$bsonSize": {"a": 1}}, 12),
        (
            {"$toUUID": "00112233-4455-6677-8899-aabbccddeeff"},
            Binary(bytes.fromhex("00112233445566778899aabbccddeeff"), 4),
        ),
        # Totals
        ({"$sum": "$b.d"}, 6),
        ({"$avg": [1, 2, "x"]}, 1.5),
        # The arguments of an expression are doubles each, before they are added: see `$group` for the other way.
        ({"$avg": [Int64(2**63 - 1), Int64(-(2**63))]}, 0.0),
        ({"$sum": [Int64(2**62), Int64(1), float(-(2**62))]}, 1.0),
        ({"$sum": [float("inf"), Int64(2**62), 1.5]}, float("inf")),
        ({"$max": ["$a", "$none", 5]}, 5),
        ({"$stdDevPop": [2, 4]}, 1.0),
        ({"$median": {"input": [3, 1, 2], "method": "approximate"}}, 2.0),
    ],
    ids=repr,
)
def test_an_expression_has_this_value(expression, expected):
    actual = value_of(expression)

    assert identical(expected, actual), actual


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ({"$nope": 1}, 168),
        ("$$nope", 17276),
        ({"$add": ["x", 1]}, 14),
        ({"$divide": [1, 0]}, 2),
        ({"$mod": [1, 0]}, 16610),
        ({"$subtract": [1]}, 16020),
        ({"$abs": [1, 2]}, 16020),
        ({"$add": [1], "$subtract": [1, 2]}, 15983),
        ({"$arrayElemAt": [1, 2]}, 28689),
        ({"$size": "$none"}, 17124),
        ({"$map": {"input": [1]}}, 16882),
        ({"$map": {"input": [1], "as": "", "in": 1}}, 9),
        ({"$round": [1.5, Decimal128("NaN")]}, 51082),
        ({"$filter": {"input": 1, "cond": True}}, 28651),
        ({"$cond": {"if": 1, "then": 2}}, 17082),
        ({"$switch": {"branches": [{"case": False, "then": 1}]}}, 40069),
        ({"$concat": [1]}, 16702),
        ({"$toInt": "x"}, 241),
        ({"$year": "x"}, 16006),
        ({"$dateToString": {"date": NEW_YEAR, "timezone": "Nowhere"}}, 40485),
        ({"$let": {"vars": {"X": 1}, "in": 1}}, 9),
        ("$", 16872),
        ("$a.", 40353),
        ("$a..b", 15998),
        ({"a.b": 1}, 16412),
        ({"$regexMatch": {"input": "x", "regex": "("}}, 51111),
    ],
    ids=repr,
)
def test_a_wrong_expression_is_refused_with_mongodb_s_code(expression, code):
    with pytest.raises(MongoError) as refused:
        value_of(expression)

    assert code == refused.value.code


def test_a_variable_is_known_by_the_names_that_were_given():
    assert 3 == value_of({"$add": ["$$x", "$a"]}, variables={"x": 2})


def test_now_is_one_time_for_all_calls_where_it_is_given():
    assert NEW_YEAR == compile_expression("$$NOW")({}, {"NOW": NEW_YEAR})


def test_a_document_is_never_changed_by_what_is_computed_from_it():
    document = {"a": {"b": 1}, "list": [3, 1, 2]}

    value_of({"$setField": {"field": "b", "input": "$a", "value": 2}}, document)
    value_of({"$sortArray": {"input": "$list", "sortBy": 1}}, document)
    value_of({"$mergeObjects": ["$a", {"c": 3}]}, document)

    assert {"a": {"b": 1}, "list": [3, 1, 2]} == document


@pytest.mark.parametrize(
    "spec",
    [
        {"$ln": Decimal128("NaN")},
        {"$log10": Decimal128("NaN")},
        {"$log": [Decimal128("NaN"), 2]},
        {"$log": [8, Decimal128("NaN")]},
    ],
)
def test_a_logarithm_of_nan_is_a_double(spec):
    found = compile_expression(spec)({}, {})
    assert type(found) is float
    assert found != found
