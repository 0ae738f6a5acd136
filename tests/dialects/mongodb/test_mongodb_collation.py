"""Collations: which texts are equal and how they are ordered, with and without ICU."""

from __future__ import annotations

import sys
from typing import Any

import pytest

pytest.importorskip("bson", reason="PyMongo is not installed")

from reactdb.dialects.mongodb.bson_order import compare
from reactdb.dialects.mongodb.collation import text_key
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.filters import Filter
from reactdb.dialects.mongodb.stages import Pipeline, Setting


@pytest.mark.parametrize("spec", [None, {}, {"locale": "simple"}])
def test_without_a_collation_code_points_are_compared(spec: Any) -> None:
    assert text_key(spec) is None


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"locale": "en", "foo": 1}, 40415),
        ({"strength": 1}, 40414),
        ({"locale": 1}, 14),
        ({"locale": "en", "caseLevel": 1}, 14),
        ({"locale": "en", "strength": 9}, 2),
    ],
)
def test_a_wrong_collation_is_refused(spec: Any, code: int) -> None:
    with pytest.raises(MongoError) as refused:
        text_key(spec)

    assert code == refused.value.code


def test_without_icu_a_collation_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "icu", None)

    with pytest.raises(MongoError, match=r"reactdb\[mongodb-icu\]") as refused:
        text_key({"locale": "nb", "strength": 4})

    assert 238 == refused.value.code


@pytest.mark.parametrize(
    ("spec", "left", "right", "order"),
    [
        ({"locale": "en", "strength": 1}, "resume", "Résumé", 0),
        ({"locale": "en", "strength": 2}, "abc", "ABC", 0),
        ({"locale": "en", "strength": 2}, "resume", "résumé", -1),
        ({"locale": "en", "strength": 3}, "a", "A", -1),
        ({"locale": "en", "caseFirst": "upper"}, "a", "A", 1),
        ({"locale": "en", "caseLevel": True, "strength": 1}, "a", "A", -1),
        ({"locale": "en", "numericOrdering": True}, "item2", "item10", -1),
        ({"locale": "en", "alternate": "shifted", "strength": 2}, "a b", "ab", 0),
        ({"locale": "sv"}, "z", "ö", -1),
        ({"locale": "de"}, "z", "ö", 1),
    ],
)
def test_icu_says_the_order(spec: Any, left: str, right: str, order: int) -> None:
    pytest.importorskip("icu", reason="PyICU is not installed")

    assert order == compare(left, right, text_key(spec))


def test_filters_sorts_groups_and_expressions_use_the_collation() -> None:
    pytest.importorskip("icu", reason="PyICU is not installed")
    text = text_key({"locale": "en", "strength": 2})
    rows = [{"a": "b"}, {"a": "A"}, {"a": "B"}]
    stages = [
        {"$match": {"a": {"$lte": "b"}}},
        {"$group": {"_id": "$a", "n": {"$sum": 1}}},
        {"$sort": {"_id": 1}},
    ]

    assert [{"_id": "A", "n": 1}, {"_id": "b", "n": 2}] == list(
        Pipeline(stages, Setting(text=text)).run(rows)
    )
    assert Filter({"a": "B"}, collation=text).matches({"a": "b"})
    assert [{"is": True}] == list(
        Pipeline([{"$project": {"is": {"$eq": ["$a", "B"]}}}], Setting(text=text)).run(rows[:1])
    )
