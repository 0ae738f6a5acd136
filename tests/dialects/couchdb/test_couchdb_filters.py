"""Filters of changes: the built-in ones, and functions of design documents."""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

import pytest

from reactdb.dialects.couchdb import javascript
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.filters import IdFilter, filter_of

DESIGN = {
    "_id": "_design/d",
    "_rev": "1-a",
    "filters": {
        "typex": "function(doc, req) { return doc.type === 'x'; }",
        "byq": "function(doc, req) { return doc.type === req.query.t; };\n",
        "arrow": "(doc) => doc.type",
        "boom": "function(doc, req) { throw({forbidden: 'nope'}); }",
        "refboom": "function(doc, req) { return doc.a.b.c; }",
        "endless": "function(doc) { while (true) {} }",
        "hungry": "function(doc) { if (!doc.type) return true; var all = []; while (true) all.push(new Array(1000).fill(1)); }",
        "deep": "function(doc) { return (function f() { return f() + 1; })(); }",
        "files": "function(doc) { return typeof std + typeof os + typeof process + typeof fetch + typeof setTimeout"
        " === 'undefined'.repeat(5); }",
        "self": "function(doc) { return this._id === '_design/d' && typeof __run === 'undefined'; }",
        "lib": "function(doc) { return require('lib/types').isX(doc); }",
        "nolib": "function(doc) { return require('lib/none'); }",
        "nofunction": "1 + 1",
        "nosyntax": "function(doc) {",
        "notext": 5,
        "parse": "function(doc) { JSON.parse = null; JSON.stringify = null; return true; }",
    },
    "views": {
        "v": {"map": "function(doc) { if (doc.type === 'y') emit(doc._id, null); }"},
        "twice": {"map": "function(doc) { emit(1); emit(2); }"},
        "nomap": {},
    },
    "lib": {
        "types": "var names = require('./names'); exports.isX = function(doc) { return doc.type === names.x; };",
        "names": "exports.x = 'x';",
    },
}
X, Y, NONE = {"_id": "1", "type": "x"}, {"_id": "2", "type": "y"}, {"_id": "3"}
DOCUMENTS = [X, Y, NONE]


class Store:
    """A database with these documents."""

    def __init__(self, *documents: dict[str, Any]) -> None:
        self.documents = {document["_id"]: document for document in documents}

    def get(self, id: str) -> dict[str, Any]:
        if id not in self.documents:
            raise CouchError(404, "not_found", "missing")
        return self.documents[id]


STORE = Store(
    DESIGN, {"_id": "_design/erl", "language": "erlang", "filters": {"f": "fun"}}, {"_id": "_design/empty"}
)


def passed(query: dict[str, str], body: dict[str, Any] | None = None) -> list[str]:
    filter = filter_of(STORE, query, body)
    assert filter is not None
    answers = filter.passes_many(DOCUMENTS)
    assert answers == [filter.passes(document) for document in DOCUMENTS]
    return [document["_id"] for document, answer in zip(DOCUMENTS, answers, strict=True) if answer]


def refused(query: dict[str, str], body: dict[str, Any] | None = None) -> tuple[int, str, str]:
    with pytest.raises(CouchError) as caught:
        filter_of(STORE, query, body)
    return caught.value.status, caught.value.error, caught.value.reason


class TestBuiltIn:
    @pytest.mark.parametrize("query", [{}, {"filter": ""}, {"filter": "/"}])
    def test_no_filter(self, query):
        assert filter_of(STORE, query) is None

    def test_identifiers_in_the_url_of_a_get_and_in_the_body_of_a_post(self):
        assert ["1", "3"] == passed({"filter": "_doc_ids", "doc_ids": '["3", "1", "none"]'})
        assert ["2"] == passed({"filter": "_doc_ids", "doc_ids": '["1"]'}, {"doc_ids": ["2"]})
        assert [] == passed({"filter": "_doc_ids", "doc_ids": "[]"})

    def test_identifiers_are_there_to_be_looked_up(self):
        filter = filter_of(STORE, {"filter": "_doc_ids"}, {"doc_ids": ["b", "a", "b"]})

        assert isinstance(filter, IdFilter)
        assert {"a", "b"} == filter.ids

    @pytest.mark.parametrize(
        ("query", "body"),
        [
            ({}, None),
            ({"doc_ids": '"a"'}, None),
            ({"doc_ids": "[1]"}, None),
            ({"doc_ids": '["a"]'}, {}),
            ({}, {"doc_ids": {}}),
        ],
    )
    def test_what_is_no_list_of_identifiers(self, query, body):
        reason = "`doc_ids` filter parameter is not a list of doc ids."

        assert (400, "bad_request", reason) == refused({"filter": "_doc_ids", **query}, body)

    def test_identifiers_that_are_no_json(self):
        assert (400, "bad_request", "invalid UTF-8 JSON") == refused(
            {"filter": "_doc_ids", "doc_ids": "alpha"}
        )

    def test_a_selector(self):
        assert ["1"] == passed({"filter": "_selector"}, {"selector": {"type": "x"}})
        assert ["1", "2", "3"] == passed({"filter": "_selector"}, {"selector": {}})

    def test_the_fields_that_are_shown(self):
        filter: Any = filter_of(
            STORE, {"filter": "_selector"}, {"selector": {}, "fields": ["_id", "a.b", "none", "l.0"]}
        )

        assert {"_id": "1", "a": {"b": 2}} == filter.render(
            {"_id": "1", "_rev": "1-a", "a": {"b": 2, "c": 3}}
        )
        assert X == filter_of(STORE, {"filter": "_selector"}, {"selector": {}}).render(X)  # type: ignore[union-attr]

    @pytest.mark.parametrize(
        ("body", "reason"),
        [
            (None, "Selector must be specified in POST payload"),
            ({}, "Selector error: expected a JSON object"),
            ({"selector": "x"}, "Selector error: expected a JSON object"),
            ({"selector": {"a": {"$wibble": 1}}}, "Invalid operator: $wibble"),
            ({"selector": {"type": {"$regex": "("}}}, "Bad argument for operator $regex: <<40>>"),
            ({"selector": {}, "fields": "n"}, "Selector error: fields must be JSON array"),
            ({"selector": {}, "fields": [1]}, "Invalid JSON for field spec: 1"),
        ],
    )
    def test_what_is_no_selector(self, body, reason):
        assert (400, "bad_request", reason) == refused({"filter": "_selector"}, body)

    def test_design_documents(self):
        filter: Any = filter_of(STORE, {"filter": "_design"})

        assert [True, False] == filter.passes_many([DESIGN, X])

    def test_other_names_that_begin_with_an_underscore(self):
        assert (400, "bad_request", "unknown builtin filter name") == refused({"filter": "_nosuch"})


class TestNames:
    @pytest.mark.parametrize("name", ["d", "d/a/b"])
    def test_a_function_has_a_name_of_two_parts(self, name):
        reason = "`filter` must be of the form `designname/filtername`"

        assert (400, "bad_request", reason) == refused({"filter": name})

    @pytest.mark.parametrize(
        ("query", "status", "error", "reason"),
        [
            ({"filter": "zz/f"}, 404, "not_found", "missing"),
            ({"filter": "d/zz"}, 404, "not_found", "missing json key: zz"),
            ({"filter": "empty/zz"}, 404, "not_found", "missing json key: filters"),
            ({"filter": "_view"}, 400, "bad_request", "`view` filter parameter is not provided."),
            (
                {"filter": "_view", "view": "d"},
                400,
                "bad_request",
                "`view` must be of the form `designname/viewname`",
            ),
            ({"filter": "_view", "view": "zz/v"}, 404, "not_found", "missing"),
            ({"filter": "_view", "view": "d/zz"}, 404, "not_found", "missing json key: zz"),
        ],
    )
    def test_what_is_not_there(self, query, status, error, reason):
        assert (status, error, reason) == refused(query)

    def test_functions_in_other_languages_are_not_run(self):
        assert (501, "unknown_query_language") == refused({"filter": "erl/f"})[:2]

    def test_without_the_engine_the_extra_is_named(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "quickjs", None)

        status, error, reason = refused({"filter": "d/typex"})

        assert (501, "not_implemented") == (status, error)
        assert "reactdb[couchdb-js]" in reason


class TestFunctions:
    @pytest.fixture(autouse=True)
    def _engine(self) -> None:
        pytest.importorskip("quickjs")

    @pytest.mark.parametrize(
        ("query", "ids"),
        [
            ({"filter": "d/typex"}, ["1"]),
            ({"filter": "d%2Fx/../d"}, None),
            ({"filter": "d/byq", "t": "y"}, ["2"]),
            ({"filter": "d/arrow"}, ["1", "2"]),
            ({"filter": "d/lib"}, ["1"]),
            ({"filter": "d/self"}, ["1", "2", "3"]),
            ({"filter": "d/files"}, ["1", "2", "3"]),
            ({"filter": "d/parse"}, ["1", "2", "3"]),
            ({"filter": "_view", "view": "d/v"}, ["2"]),
            ({"filter": "_view", "view": "d/twice"}, ["1", "2", "3"]),
        ],
    )
    def test_what_passes(self, query, ids):
        if ids is None:
            assert 400 == refused(query)[0]
        else:
            assert ids == passed(query)

    def test_more_of_the_request(self):
        design = {
            "_id": "_design/e",
            "filters": {
                "f": "function(doc, req) { return req.userCtx.name === 'ann' && req.method === 'POST'; }"
            },
        }
        filter: Any = filter_of(Store(design), {"filter": "e/f"}, {}, {"userCtx": {"name": "ann"}})

        assert filter.passes(X)

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("boom", 'The filter d/boom failed: {"forbidden":"nope"}'),
            ("refboom", "The filter d/refboom failed: TypeError: cannot read property 'b' of undefined"),
            ("deep", "The filter d/deep failed: InternalError: stack overflow"),
            (
                "nolib",
                "The filter d/nolib failed: Error: require('lib/none') names no text in the design document",
            ),
        ],
    )
    def test_what_a_function_throws_is_told(self, name, said):
        filter: Any = filter_of(STORE, {"filter": f"d/{name}"})

        for _ in range(2):
            with pytest.raises(CouchError) as caught:
                filter.passes(NONE)
            assert (500, "error", said) == (caught.value.status, caught.value.error, caught.value.reason)

    @pytest.mark.parametrize(
        "query",
        [{"filter": f"d/{name}"} for name in ("nofunction", "nosyntax", "notext")]
        + [{"filter": "_view", "view": "d/nomap"}],
    )
    def test_what_is_no_function(self, query):
        assert (500, "compilation_error") == refused(query)[:2]

    def test_a_function_that_takes_too_long_is_ended(self, monkeypatch):
        monkeypatch.setattr(javascript, "CALL_S", 0.1)
        filter: Any = filter_of(STORE, {"filter": "d/endless"})

        with pytest.raises(CouchError, match=r"^The filter d/endless failed: it takes too long$"):
            filter.passes(X)

    def test_a_function_that_needs_too_much_memory_is_ended_and_works_again_after_that(self, monkeypatch):
        monkeypatch.setattr(javascript, "MEMORY_BYTES", 4 << 20)
        filter: Any = filter_of(STORE, {"filter": "d/hungry"})

        with pytest.raises(CouchError, match=r"^The filter d/hungry failed: it needs too much memory$"):
            filter.passes(X)
        assert filter.passes(NONE)

    @pytest.mark.slow
    def test_many_documents_large_and_small(self):
        filter: Any = filter_of(STORE, {"filter": "d/typex"})
        documents = [
            {"_id": str(number), "type": "x" if number % 3 else "y", "text": "ä\u2028" * (number * 100)}
            for number in range(700)
        ]

        assert [bool(number % 3) for number in range(700)] == filter.passes_many(documents)

    def test_functions_are_called_from_several_threads(self):
        filter: Any = filter_of(STORE, {"filter": "d/typex"})
        answers: list[bool] = []
        threads = [
            threading.Thread(target=lambda: answers.extend(filter.passes_many(DOCUMENTS))) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert 4 * [True, False, False] == answers

    def test_documents_reach_a_function_as_they_are(self):
        document = {
            "_id": "a",
            "quote": '"\\',
            "line": "\u2028\u2029\n",
            "deep": [[{"a": None}]],
            "n": 1.5,
            "😀": "ä",
        }
        design = {
            "_id": "_design/e",
            "filters": {"f": "function(doc, req) { return JSON.stringify(doc) === req.query.as; }"},
        }
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))

        assert filter_of(Store(design), {"filter": "e/f", "as": text}).passes(document)  # type: ignore[union-attr]
