"""Filters: which documents a query matches, and what is no query."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("bson", reason="PyMongo is not installed")

from bson.binary import Binary
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.regex import Regex

from reactdb import budget
from reactdb.budget import Budget, Stopped
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.filters import Filter
from reactdb.dialects.mongodb.patterns import UnreadablePattern, compile_pattern
from tests.dialects.mongodb.naive import naive_matches
from tests.support.scaling import examples

NAN = float("nan")


@pytest.mark.parametrize(
    ("query", "matching", "others"),
    [
        ({}, [{}, {"a": 1}], []),
        ({"a": 1}, [{"a": 1}, {"a": Int64(1)}, {"a": 1.0}, {"a": [2, 1]}], [{}, {"a": True}, {"a": [[1]]}]),
        ({"a": Decimal128("1.0")}, [{"a": 1}], [{"a": 2}]),
        ({"a": None}, [{}, {"a": None}, {"a": [None]}], [{"a": 0}, {"a": []}]),
        ({"a.b": None}, [{}, {"a": 5}, {"a": {}}, {"a": [{}]}], [{"a": [4]}, {"a": []}, {"a": [{"b": 1}]}]),
        ({"a": [1, 2]}, [{"a": [1, 2]}, {"a": [[1, 2]]}], [{"a": [2, 1]}, {"a": [1, 2, 3]}]),
        ({"a": {"x": 1, "y": 2}}, [{"a": {"x": 1.0, "y": 2}}], [{"a": {"y": 2, "x": 1}}, {"a": {"x": 1}}]),
        ({"a": {}}, [{"a": {}}], [{}, {"a": {"b": 1}}]),
        ({"a": {"$ref": "x", "$id": 1}}, [{"a": {"$ref": "x", "$id": 1}}], [{}]),
        ({"a.0": 5}, [{"a": [5]}, {"a": [[5]]}, {"a": {"0": 5}}, {"a": [{"0": 5}]}], [{"a": [4, 5]}]),
        ({"a.b": 1}, [{"a": [{"b": 1}]}, {"a": {"b": [1]}}], [{"a": [[{"b": 1}]]}]),
        (
            {"a": {"$gt": 1}},
            [{"a": 2}, {"a": [0, 5]}, {"a": Decimal128("1.5")}],
            [{"a": "x"}, {"a": NAN}, {}],
        ),
        ({"a": {"$lte": None}}, [{}, {"a": None}], [{"a": 0}]),
        ({"a": {"$lt": None}}, [], [{}, {"a": None}]),
        ({"a": {"$gte": NAN}}, [{"a": NAN}, {"a": Decimal128("NaN")}], [{"a": 1}, {}]),
        ({"a": {"$gt": Decimal128("1")}}, [{"a": 2.0}, {"a": Decimal128("1.5")}], [{"a": NAN}, {"a": 1}]),
        ({"a": {"$lt": "b"}}, [{"a": "a"}, {"a": ["z", "a"]}], [{"a": 1}, {"a": "c"}]),
        ({"a": {"$gt": [1]}}, [{"a": [1, 2]}, {"a": [2]}, {"a": [[2]]}], [{"a": 5}, {"a": [0, 9]}]),
        ({"a": {"$gt": MinKey()}}, [{"a": 1}, {"a": "x"}, {}], [{"a": MinKey()}]),
        ({"a": {"$lt": MaxKey()}}, [{"a": 1}, {"a": None}, {}], [{"a": MaxKey()}]),
        (
            {"a": {"$gt": datetime(2026, 1, 1)}},
            [{"a": DatetimeMS(2**60)}, {"a": datetime(2027, 1, 1)}],
            [{"a": 5}],
        ),
        ({"a": {"$gt": True}}, [], [{"a": True}, {"a": 5}]),
        ({"a": {"$gte": 1, "$lt": 3}}, [{"a": 1}, {"a": [0, 9]}], [{"a": 3}]),
        ({"a": {"$ne": 1}}, [{}, {"a": 2}, {"a": [2]}], [{"a": 1}, {"a": [1, 2]}]),
        (
            {"a": {"$in": [1, None, Regex("^x")]}},
            [{}, {"a": 1.0}, {"a": "xy"}, {"a": ["xy"]}],
            [{"a": 2}, {"a": "y"}],
        ),
        ({"a": {"$in": ["x", "y"]}}, [{"a": "x"}, {"a": [1, "y"]}], [{"a": "z"}, {}]),
        ({"a": {"$in": [[1]]}}, [{"a": [1]}, {"a": [[1]]}], [{"a": 1}]),
        ({"a": {"$in": []}}, [], [{}, {"a": []}]),
        ({"a": {"$nin": [1, None]}}, [{"a": 2}], [{}, {"a": [1]}]),
        ({"$or": [{"a": 1}, {"b": 1}]}, [{"a": 1}, {"b": 1}], [{"a": 2}]),
        ({"$nor": [{"a": 1}, {"b": 1}]}, [{"a": 2}, {}], [{"b": 1}]),
        ({"$and": [{"a": 1}, {"b": 1}, {"c": 1}]}, [{"a": 1, "b": 1, "c": 1}], [{"a": 1, "b": 1}]),
        ({"a": {"$not": {"$gt": 5}}}, [{}, {"a": 5}, {"a": "x"}], [{"a": 6}, {"a": [1, 6]}]),
        ({"a": {"$not": Regex("^x")}}, [{}, {"a": "y"}], [{"a": "x"}]),
        ({"a": {"$exists": True}}, [{"a": None}, {"a": []}], [{}]),
        ({"a.b": {"$exists": False}}, [{}, {"a": []}, {"a": [1]}, {"a": 1}], [{"a": [{"b": None}, {}]}]),
        ({"a": {"$exists": 0}}, [{}], [{"a": 1}]),
        ({"a": {"$type": "number"}}, [{"a": 1}, {"a": 1.5}, {"a": ["x", 1]}], [{"a": "x"}, {}]),
        ({"a": {"$type": "array"}}, [{"a": []}, {"a": [[]]}], [{"a": 1}]),
        ({"a": {"$type": ["int", 2]}}, [{"a": 1}, {"a": "x"}], [{"a": Int64(1)}, {"a": 1.0}]),
        ({"a": {"$type": -1}}, [{"a": MinKey()}], [{"a": 1}]),
        ({"a": {"$mod": [4, 0]}}, [{"a": 8}, {"a": 8.9}, {"a": [1, 4]}], [{"a": 1}, {"a": NAN}, {"a": "8"}]),
        ({"a": {"$mod": [4, -1]}}, [{"a": -5}], [{"a": 3}]),
        ({"a": {"$regex": "B", "$options": "i"}}, [{"a": "abc"}, {"a": ["B"]}], [{"a": 1}]),
        ({"a": Regex("b")}, [{"a": "abc"}, {"a": Regex("b")}], [{"a": Regex("b", "i")}]),
        ({"a": {"$eq": Regex("b")}}, [{"a": Regex("b")}], [{"a": "abc"}]),
        ({"a": {"$size": 2}}, [{"a": [1, 2]}], [{"a": [1]}, {"a": [[1, 2]]}, {}]),
        ({"a": {"$all": [1, 2]}}, [{"a": [2, 3, 1]}], [{"a": 1}, {"a": [1]}]),
        ({"a": {"$all": [1]}}, [{"a": 1}], []),
        ({"a": {"$all": [[1, 2]]}}, [{"a": [1, 2]}, {"a": [[1, 2]]}], [{"a": [2, 1]}]),
        ({"a": {"$all": []}}, [], [{}, {"a": []}]),
        (
            {"a": {"$all": [{"$elemMatch": {"x": 1}}, {"$elemMatch": {"x": 2}}]}},
            [{"a": [{"x": 1}, {"x": 2}]}],
            [{"a": [{"x": 1}]}],
        ),
        (
            {"a": {"$elemMatch": {"$gt": 1, "$lt": 3}}},
            [{"a": [0, 2]}],
            [{"a": [0, 9]}, {"a": 2}, {"a": [[2]]}],
        ),
        ({"a": {"$elemMatch": {"x": 1, "y": 2}}}, [{"a": [{"x": 1, "y": 2}]}], [{"a": [{"x": 1}, {"y": 2}]}]),
        ({"a": {"$elemMatch": {"$or": [{"x": 1}, {"y": 1}]}}}, [{"a": [{"y": 1}]}], [{"a": [{"z": 1}]}]),
        ({"a": {"$elemMatch": {"$nin": [1]}}}, [{"a": [1, 2]}], [{"a": [1]}]),
        # The fields of a reference are no operators.
        (
            {"a": {"$elemMatch": {"$id": 7, "$ref": {"$in": ["x", "y"]}}}},
            [{"a": [{"$ref": "x", "$id": 7}]}, {"a": [{"$ref": "y", "$id": 7, "$db": "z"}]}],
            [{"a": [{"$ref": "x", "$id": 8}]}, {"a": {"$ref": "x", "$id": 7}}, {"a": []}],
        ),
        ({"a.$id": 7}, [{"a": {"$ref": "x", "$id": 7}}, {"a": [{"$id": 7}]}], [{"a": {"$id": 8}}]),
        ({"a": {"$bitsAllSet": 5}}, [{"a": 7}, {"a": 5.0}, {"a": -1}], [{"a": 4}, {"a": 5.5}, {"a": "x"}]),
        ({"a": {"$bitsAllClear": [1]}}, [{"a": 5}], [{"a": 2}]),
        ({"a": {"$bitsAnySet": Binary(b"\x03", 0)}}, [{"a": b"\x02"}], [{"a": b"\x04"}]),
        ({"a": {"$bitsAnyClear": [70]}}, [{"a": 1}, {"a": b"\xff"}], [{"a": -1}]),
        # BSON writes the length of the old subtype before its bytes, which are bits as well.
        ({"a": {"$bitsAllSet": [0]}}, [{"a": Binary(b"\x02", 2)}], [{"a": b"\x02"}]),
        ({"a": {"$exists": Decimal128("-0.0")}}, [{}], [{"a": 1}]),
        ({"a": {"$mod": [3, 0]}}, [{"a": 9}], [{"a": Decimal128("9E+6144")}, {"a": 2.0**63 * 3}]),
        ({"a": {"$regex": "^[[:alpha:]_]+$"}}, [{"a": "a_b"}], [{"a": "a1"}, {"a": "é"}]),
        ({"a": {"$regex": "^[^[:digit:]]+$"}}, [{"a": "ab"}], [{"a": "a1"}]),
        ({"a": {"$regex": "^[[:^space:]]+$"}}, [{"a": "a1é"}], [{"a": "a 1"}]),
        ({"$expr": {"$gt": ["$a", "$b"]}}, [{"a": 2, "b": 1}], [{"a": 1, "b": 1}, {}]),
        ({"$comment": "x", "a": 1}, [{"a": 1}], [{"a": 2}]),
        ({"$sampleRate": 1.0}, [{}], []),
        ({"$sampleRate": 0}, [], [{}]),
    ],
)
def test_a_query_matches_these_and_not_those(
    query: dict[str, Any], matching: list[dict[str, Any]], others: list[dict[str, Any]]
) -> None:
    matches = Filter(query).matches
    for document in matching:
        assert matches(document), document
    for document in others:
        assert not matches(document), document


SIGNALING = Decimal128("sNaN")


@pytest.mark.parametrize(
    "query",
    [
        *[{"a": other} for other in (0, 1.5, Int64(1), Decimal128("2"), NAN, Decimal128("NaN"), "x", None)],
        *[{"a": {name: 1}} for name in ("$gt", "$gte", "$lt", "$lte", "$ne")],
        *[{"a": {name: Decimal128("NaN")}} for name in ("$gt", "$gte", "$lt", "$lte", "$ne")],
        *[
            {"a": {"$in": [0, NAN]}},
            {"a": {"$mod": [2, 0]}},
            {"a": {"$type": "number"}},
            {"a": {"$bitsAllSet": 1}},
        ],
        *[{"$expr": "$a"}, {"$expr": {"$gt": ["$a", 1]}}, {"$expr": {"$lt": [{"$add": ["$a", 1]}, 1]}}],
        *[
            {"$expr": {"$lt": [{name: "$a"}, 1]}}
            for name in ("$abs", "$floor", "$sqrt", "$round", "$toDouble")
        ],
    ],
)
def test_a_signaling_nan_is_found_as_any_other(query: dict[str, Any]) -> None:
    filters = Filter(query)
    assert filters.matches({"a": Decimal128("NaN")}) == filters.matches({"a": SIGNALING})
    if "$expr" not in query:
        assert filters.matches({"a": [Decimal128("NaN")]}) == filters.matches({"a": [SIGNALING]})


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"$foo": 1}, 2),
        ({"a": {"$foo": 1}}, 2),
        ({"a": {"$gt": 1, "b": 2}}, 2),
        ({"$and": []}, 2),
        ({"$or": {"a": 1}}, 2),
        ({"$nor": [1]}, 2),
        ({"a": {"$in": 1}}, 2),
        ({"a": {"$in": [{"$gt": 1}]}}, 2),
        ({"a": {"$all": 1}}, 2),
        ({"a": {"$all": [{"$gt": 1}]}}, 2),
        ({"a": {"$not": 1}}, 2),
        ({"a": {"$not": {}}}, 2),
        ({"a": {"$not": {"b": 1}}}, 2),
        ({"a": {"$ne": Regex("x")}}, 2),
        ({"a": {"$gt": Regex("x")}}, 2),
        ({"a": {"$mod": [1]}}, 2),
        ({"a": {"$mod": [0, 1]}}, 2),
        ({"a": {"$mod": 5}}, 2),
        ({"a": {"$mod": [1e19, 0]}}, 2),
        ({"a": {"$mod": [3, Decimal128("1E+30")]}}, 2),
        ({"a": {"$size": -1}}, 2),
        ({"a": {"$size": "x"}}, 2),
        ({"a": {"$size": 2**31}}, 2),
        ({"a": {"$all": [{"$elemMatch": {"x": 1}}, "y"]}}, 2),
        ({"a": {"$all": ["y", {"$elemMatch": {"x": 1}}]}}, 2),
        ({"a": {"$elemMatch": {"$expr": {"$gt": ["$x", 3]}}}}, 2),
        ({"a": {"$elemMatch": {"$or": [{"$where": "1"}]}}}, 2),
        ({"a": {"$type": "foo"}}, 2),
        ({"a": {"$type": 99}}, 2),
        ({"a": {"$type": []}}, 9),
        ({"a": {"$options": "i"}}, 2),
        ({"a": {"$regex": "("}}, 51091),
        ({"a": {"$regex": "a\\"}}, 51091),
        ({"a": {"$regex": "a", "$options": "q"}}, 51108),
        ({"a": {"$regex": Regex("a", "i"), "$options": "s"}}, 51075),
        ({"a": {"$options": "s", "$regex": Regex("a", "i")}}, 51074),
        ({"a": {"$regex": "a", "$options": None}}, 2),
        ({"a": {"$regex": "a\0b"}}, 2),
        ({"a": {"$regex": "[[:nonsense:]]"}}, 51091),
        ({"a": {"$regex": "[:alpha:]"}}, 51091),
        ({"a": {"$regex": "a" * 32_769}}, 51091),
        ({"a": {"$regex": 5}}, 2),
        ({"a": {"$elemMatch": 1}}, 2),
        ({"a": {"$bitsAllSet": "x"}}, 2),
        ({"a": {"$bitsAllSet": -1}}, 9),
        ({"a": {"$bitsAllSet": 1.5}}, 9),
        ({"a": {"$bitsAllSet": [2**31]}}, 2),
        ({"$where": "1"}, 115),
        ({"$sampleRate": 1.5}, 2),
        ({"$sampleRate": "x"}, 2),
    ],
)
def test_what_is_no_query_is_refused_with_its_code(query: dict[str, Any], code: int) -> None:
    with pytest.raises(MongoError) as caught:
        Filter(query)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("query", "document", "path", "expected"),
    [
        ({"a": 2}, {"a": [1, 2, 2]}, None, 1),
        ({"a": {"$gt": 1, "$lt": 9}}, {"a": [1, 2]}, None, 1),
        ({"a.b": 2}, {"a": [{"b": 1}, {"b": 2}]}, None, 1),
        ({"a": {"$elemMatch": {"b": 2}}}, {"a": [{"b": 1}, {"b": 2}]}, None, 1),
        ({"x.a": 2}, {"x": {"a": [1, 2]}}, None, 1),
        ({"a": 1, "b": 2}, {"a": [1], "b": [0, 2]}, "b", 1),
        ({"$or": [{"a": 5}, {"b": 2}]}, {"a": [1], "b": [0, 2]}, None, 1),
        ({"a": {"$in": [2, 3]}}, {"a": [0, 3]}, None, 1),
        ({"a.b": {"$exists": True}}, {"a": [{"c": 1}, {"b": None}]}, None, 1),
        ({"a.b.c": {"$exists": True}}, {"a": [{}, {"b": [{"c": 1}]}]}, None, 1),
        ({"a.b": {"$size": 2}}, {"a": [{"b": [1]}, {"b": [1, 2]}]}, None, 1),
        ({"a.b": {"$size": 2}, "a.c": 1}, {"a": [{"c": 1, "b": [1, 2]}, {"b": []}]}, None, 0),
        # Not elements of an array to which the path itself leads.
        ({"a": {"$exists": True}}, {"a": [1, 2]}, None, None),
        ({"a": {"$size": 2}}, {"a": [[1, 2], [3, 4]]}, None, None),
        ({"a.b": {"$exists": False}}, {"a": [{"c": 1}]}, None, None),
        ({"a": {"$ne": 2}}, {"a": [1]}, None, None),
        ({"a": 1}, {"a": 1}, None, None),
    ],
)
def test_a_filter_knows_which_element_has_matched(
    query: dict[str, Any], document: dict[str, Any], path: str | None, expected: int | None
) -> None:
    assert Filter(query).position(document, path) == expected


def test_a_filter_knows_what_a_matching_document_has_to_have() -> None:
    query = {
        "a": 1,
        "b": {"$eq": {"x": 1}},
        "$and": [{"c": {"$in": [3]}}, {"d": {"$gt": 1}}],
        "$or": [{"e": 5}],
        "f": Regex("x"),
        "g": {"$in": [1, 2]},
        "$nor": [{"h": 1}],
    }
    assert Filter(query).equalities == [("a", 1), ("b", {"x": 1}), ("c", 3), ("e", 5)]


@pytest.mark.parametrize(
    "pattern",
    [
        *("^(a+)+$", "(a|a)*b", "(?!x)(a*)*b", "(?=(a+)+b)c", r"(x+x+)+y", r"((a)\2*)*c", "( a + ) + # x"),
        *("(?x)( a + ) + $", "(?x:(a+) +)+b", "(?i)(a|A)*(a|A)*b|(a|A|aa)+$"),
        *(r"(\p{L}+)+$", r"([^\PL]+)+$", r"(\p{Lu}+é)+$", r"(\P{Nd}+a)+$"),
    ],
)
def test_a_pattern_whose_search_might_never_end_is_refused(pattern: str) -> None:
    with pytest.raises(MongoError) as caught:
        Filter({"a": {"$regex": pattern, "$options": "x"}})
    assert caught.value.code == 51091


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^([a-z0-9]+\.)*[a-z]+@\w+\.com$", "a.b.c@d.com"),
        (r"^(?=.*[A-Z])(?=.*\d).{8,}$", "abcdefG1"),
        (r"^((?!bad).)*$", "good"),
        (r"(?<=x)y", "xy"),
        (r"(a|b)\1", "aa"),
        (r"a++b", "aab"),
        (r"(?>ab|a)c", "abc"),
        (r"[(]+[)]", "(()"),
        (r".*foo.*", "a foo b"),
        (r"\(a+\)+", "(aa))"),
        (r"^(\p{L}+\s)+$", "Größe x "),
        (r"^([\p{L}\p{Nd}]+[-.])+$", "ab.é2-"),
    ],
)
def test_a_pattern_that_is_often_written_is_not(pattern: str, text: str) -> None:
    assert Filter({"a": Regex(pattern, "i")}).matches({"a": text})


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("a{0,1000}" * 20 + "$", "a" * 400_000 + "b"),
        ("(a|A)" * 40 + "b", "a" * 60),
        ("(?=a*a*a*a*b)a", "a" * 10_000),
        (r"(a*)a*a*\1b", "a" * 10_000),
        (r"^.*a.*a.*a.*a.*a.*b$", "a" * 10_000),
    ],
)
def test_a_text_may_be_too_long_for_a_pattern(pattern: str, text: str) -> None:
    started = time.thread_time()
    with pytest.raises(MongoError) as caught:
        Filter({"a": Regex(pattern, "i")}).matches({"a": text})

    assert (51156, True) == (caught.value.code, time.thread_time() - started < 1)


@pytest.mark.parametrize(
    ("pattern", "is_there"),
    [
        (r"\w+@\w+\.com", True),
        (".*joe.*com.*", True),
        ("joe.*org", False),
        (".*none.*", False),
        ("JOE@", True),
    ],
)
def test_a_simple_pattern_is_looked_for_in_a_megabyte(pattern: str, is_there: bool) -> None:
    text = "some words of a text " * 50_000 + "joe@mail.com"

    assert is_there == Filter({"a": Regex(pattern, "i")}).matches({"a": text})


def test_a_pattern_that_is_matched_from_each_place_spends_the_budget() -> None:
    """From one place it takes as many steps as the text is long, and from all places the square of that."""
    clock = iter(range(1_000))
    outer = budget.current.set(Budget(5, clock=lambda: next(clock)))
    try:
        with pytest.raises(Stopped):
            Filter({"a": Regex("b[ab]*c")}).matches({"a": "ab" * 50_000})
    finally:
        budget.current.reset(outer)


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.sampled_from([*"ab.*+?()|", "[ab]", ".*", "b*", "$", "^", r"\b"]), max_size=8).map("".join),
    st.text(alphabet="ab\n", max_size=12),
)
def test_from_each_place_the_same_is_found(pattern: str, text: str) -> None:
    try:
        ready = compile_pattern(pattern)
    except UnreadablePattern:
        return
    whole = ready.search(text)
    found = next(ready._from_each_place(text), None)

    assert (whole and whole.span()) == (found and found.span())


# What is in the class, and what is not.
CLASSES: dict[str, tuple[str, str]] = {
    r"\p{L}": ("aZéß日ªǅ", "1_ -٣\u0301"),
    r"\pL": ("aé", "1"),
    r"\P{L}": ("1_ -٣", "aZé日"),
    r"\p{^L}": ("1", "a"),
    r"\P{^L}": ("a", "1"),
    r"\p{Lu}": ("AÉЖ", "aéж1"),
    r"\p{L&}": ("aAéǅ", "日1"),
    r"\p{Nd}": ("1٣", "a½"),
    r"\p{N}": ("1٣½", "a"),
    r"\p{Zs}": (" \u00a0\u3000", "a\n"),
    r"\p{P}": ("-.]\\", "+a^"),
    r"\p{Any}": ("a1\n\U0010ffff", ""),
    r"\P{Any}": ("", "a1"),
    r"[\p{L}\d]": ("aé1", "٣-"),
    r"[^\p{L}]": ("1-", "aé"),
    r"[\P{L}x]": ("1x", "aé"),
    r"(*UTF)[é]": ("é", "e"),
    r"(*UTF8)(*UTF)é": ("é", "e"),
}


@pytest.mark.parametrize("pattern", CLASSES)
@pytest.mark.parametrize("options", ["", "i", "x"])
def test_a_class_of_unicode_s_categories_has_their_characters(pattern: str, options: str) -> None:
    own, others = CLASSES[pattern]
    condition = Filter({"a": {"$regex": pattern, "$options": options}})

    assert own == "".join(one for one in own + others if condition.matches({"a": one}))


@pytest.mark.parametrize(
    ("pattern", "options"),
    [(r"\p{Xx}", ""), (r"\p{Latin}", ""), (r"\p{L", ""), (r"\p", ""), (r"a(*UTF)", ""), (r"[\p{Lu}]", "i")],
)
def test_what_is_no_such_class_is_refused(pattern: str, options: str) -> None:
    with pytest.raises(MongoError) as caught:
        Filter({"a": {"$regex": pattern, "$options": options}})
    assert caught.value.code == 51091


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [*"ab.*+?()^$|", "[a]", "\\", "\\d", "\\1", "(?=", "(?!", "(?>", "{2}", r"\p{L}", r"\P"]
        ),
        max_size=10,
    )
)
def test_any_pattern_is_matched_or_refused(tokens: list[str]) -> None:
    try:
        matches = Filter({"a": {"$regex": "".join(tokens)}}).matches
    except MongoError as error:
        assert error.code == 51091  # noqa: PT017 (most of them are patterns)
        return
    try:
        assert matches({"a": "ab" * 10 + "a" * 20}) in (True, False)
    except MongoError as error:
        assert error.code == 51156  # noqa: PT017 (most of them are matched)


def test_a_collation_decides_about_texts() -> None:
    assert Filter({"a": "X"}, collation=str.casefold).matches({"a": "x"})
    assert Filter({"a": {"$in": ["X"]}}, collation=str.casefold).matches({"a": ["x"]})
    assert Filter({"a": {"$gt": "A"}}, collation=str.casefold).matches({"a": "b"})
    assert not Filter({"a": "X"}).matches({"a": "x"})


def test_an_expression_in_a_filter_has_the_commands_variables() -> None:
    spec = {"$expr": {"$eq": ["$a", "$$wanted"]}}
    assert Filter(spec, variables={"wanted": 5}).matches({"a": 5})
    with pytest.raises(MongoError) as caught:
        Filter(spec)
    assert caught.value.code == 17276


_NAMES = st.sampled_from(["a", "b", "0", "1"])
_SCALARS = st.sampled_from([None, 0, 1, 2, Int64(1), 1.0, 1.5, "x", "y", True, NAN, ObjectId(b"a" * 12)])
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=2),
    max_leaves=5,
)
_DOCUMENTS = st.dictionaries(_NAMES, _VALUES, max_size=3)
_PATHS = st.lists(_NAMES, min_size=1, max_size=3).map(".".join)


def _conditions(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    compared = st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"])
    return st.one_of(
        _VALUES,
        st.dictionaries(compared, _VALUES, min_size=1, max_size=2),
        st.dictionaries(st.sampled_from(["$in", "$nin", "$all"]), st.lists(_VALUES, max_size=2), min_size=1),
        st.builds(lambda yes: {"$exists": yes}, st.booleans()),
        st.builds(lambda size: {"$size": size}, st.integers(0, 2)),
        st.builds(lambda query: {"$elemMatch": query}, inner),
        st.builds(lambda low, high: {"$elemMatch": {"$gte": low, "$not": {"$gt": high}}}, _SCALARS, _SCALARS),
        st.builds(lambda value: {"$not": {"$lte": value}}, _SCALARS),
    )


_QUERIES = st.recursive(
    st.dictionaries(_PATHS, _VALUES, min_size=1, max_size=2),
    lambda inner: (
        st.dictionaries(_PATHS, _conditions(inner), min_size=1, max_size=2)
        | st.dictionaries(
            st.sampled_from(["$and", "$or", "$nor"]), st.lists(inner, min_size=1, max_size=3), min_size=1
        )
    ),
    max_leaves=4,
)


@settings(max_examples=examples(600), deadline=None)
@given(_QUERIES, st.lists(_DOCUMENTS, min_size=1, max_size=4))
def test_a_filter_agrees_with_a_naive_evaluation(
    query: dict[str, Any], documents: list[dict[str, Any]]
) -> None:
    matches = Filter(query).matches
    for document in documents:
        assert matches(document) == naive_matches(query, document), document
