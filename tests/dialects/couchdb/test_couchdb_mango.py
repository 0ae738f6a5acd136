"""Selectors: CouchDB's own table of what matches what, and the rules behind it."""

from __future__ import annotations

import json
import re
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.mango import Selector, erlang, field_path
from reactdb.expression.pattern import read_pattern

TABLE = Path(__file__).parents[4] / "shared/acceptance/couchdb/mango-truth-couchdb-3.5.0.json"


@cache
def table() -> dict[str, Any]:
    return json.loads(TABLE.read_text(encoding="utf-8"))


def as_told(document: dict[str, Any]) -> dict[str, Any]:
    """With a revision: the deleted one was deleted by a second write."""
    return {**document, "_rev": "2-b" if "_deleted" in document else "1-a"}


@pytest.mark.skipif(not TABLE.exists(), reason=f"CouchDB's recorded answers are not at {TABLE}")
class TestTheTable:
    def test_every_selector_selects_what_couchdb_selected(self):
        wrong = []
        for case in table()["cases"]:
            if "matches" in case:
                passes = Selector(case["selector"]).passes
                found = sorted(
                    document["_id"] for document in map(as_told, table()["documents"]) if passes(document)
                )
                wrong += [(case["selector"], found)] * (found != sorted(case["matches"]))

        assert [] == wrong

    def test_every_refusal_has_couchdbs_sentence(self):
        wrong = []
        for case in table()["cases"]:
            if "matches" not in case:
                with pytest.raises(CouchError) as caught:
                    Selector(case["selector"])
                wrong += [(case, str(caught.value))] * (str(caught.value) != case["reason"])
                assert 400 == caught.value.status

        assert [] == wrong

    def test_all_of_it_is_there(self):
        assert (51, 322) == (len(table()["documents"]), len(table()["cases"]))


def selects(selector: dict[str, Any], document: dict[str, Any]) -> bool:
    return Selector(selector).passes(document)


class TestRules:
    @pytest.mark.parametrize("selector", [{"$and": [1]}, {"$or": [{}]}, {"$and": [{}, {}]}])
    def test_what_is_no_condition_is_compared_with_the_document(self, selector):
        assert not selects(selector, {"_id": "a"})

    @pytest.mark.parametrize(
        ("field", "path"),
        [
            ("a", ("a",)),
            ("a.b", ("a", "b")),
            (r"a\.b", ("a.b",)),
            (r"a.b\.c", ("a", "b.c")),
            (r"\$a", ("$a",)),
        ],
    )
    def test_paths_of_fields(self, field, path):
        assert path == field_path(field)

    @pytest.mark.parametrize("field", ["a.", ".a", "a..b", "."])
    def test_names_of_fields_are_not_empty(self, field):
        with pytest.raises(CouchError, match=f"^Invalid field name: {re.escape(field)}$") as caught:
            Selector({field: 1})

        assert (400, "invalid_field_name") == (caught.value.status, caught.value.error)

    def test_a_field_that_begins_with_a_dollar_sign_is_written_with_a_backslash(self):
        assert selects({r"\$v": 1}, {"$v": 1})

    def test_identifiers_are_compared_by_their_bytes_and_other_texts_by_collation(self):
        assert not selects({"_id": {"$gt": "a"}}, {"_id": "B"})
        assert selects({"name": {"$gt": "a"}}, {"name": "B"})

    def test_a_pattern_that_could_take_for_ever_is_matched_in_linear_time(self):
        pytest.importorskip("re2")

        assert not selects({"a": {"$regex": "^(a+)+$"}}, {"a": "a" * 100_000 + "!"})

    def test_a_pattern_of_very_many_repetitions_is_refused(self):
        with pytest.raises(CouchError, match="too") as caught:
            Selector({"a": {"$regex": "a{0,1000}" * 20 + "$"}})

        assert 400 == caught.value.status

    def test_a_text_that_is_too_long_for_a_pattern_does_not_match(self):
        began = time.thread_time()

        assert not selects({"a": {"$regex": "(a{0,400}){1}b?$"}}, {"a": "a" * 400_000 + "c"})
        assert time.thread_time() - began < 2

    def test_without_re2_such_a_pattern_is_refused(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "re2", None)
        read_pattern.cache_clear()
        try:
            with pytest.raises(CouchError, match="re2") as caught:
                Selector({"a": {"$regex": "^(a+)+$"}})
        finally:
            read_pattern.cache_clear()

        assert 400 == caught.value.status

    def test_a_selector_that_is_nested_too_deeply_is_refused(self):
        selector: dict[str, Any] = {"a": 1}
        for _ in range(1_000):
            selector = {"$and": [selector]}

        with pytest.raises(CouchError, match="nested levels"):
            Selector(selector)

    def test_a_division_by_zero_matches_nothing(self):
        assert not selects({"a": {"$mod": [0, 0]}}, {"a": 4})

    def test_a_text_index_is_not_to_be_negated(self):
        with pytest.raises(CouchError, match=r"^Bad argument for operator \$not: "):
            Selector({"$not": {"$text": "a"}})


class TestWhatASelectorSays:
    def test_fields_that_each_selected_document_has(self):
        selector = Selector({"a": 1, "b": {"$exists": False}, "$or": [{"c": 1, "d": 2}, {"c": 3}]})

        assert {"a", "c"} == selector.required_fields()

    def test_fields_that_an_index_may_help_with(self):
        selector = Selector(
            {"b": {"$gt": 1, "$lt": 5}, "a": "x", "c": {"$in": [1]}, "$or": [{"d": 1}, {"d": 2}]}
        )

        assert ["a", "b"] == selector.indexable_fields()
        assert [("$gt", 1), ("$lt", 5)] == selector.conditions_on("b")
        assert (True, False) == (selector.is_constant("a"), selector.is_constant("b"))

    def test_what_a_router_of_changes_can_use(self):
        selector = Selector({"type": "x", "owner": {"name": "y"}, "a": {"$eq": {}}, "n": {"$gt": 1}})

        assert [(("type",), "x"), (("owner", "name"), "y")] == selector.equalities()

    def test_its_normal_form_is_a_selector_that_says_the_same(self):
        selector = Selector({"a": {"b": {"$gt": 10}}, "$nor": [{"c": 1}, {"d": {"$lt": 5}}]})

        assert {
            "$and": [{"a.b": {"$gt": 10}}, {"$and": [{"c": {"$ne": 1}}, {"d": {"$gte": 5}}]}]
        } == selector.normal
        assert selector.normal == Selector(selector.normal).normal


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        ("ä", "<<195,164>>"),
        ([1, []], "[1,[]]"),
        ({"a": {"b": 1}}, "{[{<<97>>,{[{<<98>>,1}]}}]}"),
    ],
)
def test_arguments_are_shown_as_erlang_shows_them(value, shown):
    assert shown == erlang(value)
