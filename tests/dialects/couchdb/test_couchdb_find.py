"""`_find`, `_explain` and `_index`: what is found, in which order, by which index, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb import row
from reactdb.database import Database
from reactdb.dialects.couchdb import find
from reactdb.dialects.couchdb.collation import collation_key
from reactdb.dialects.couchdb.couch import Couch
from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.mango import Selector
from tests.support.scaling import examples

PEOPLE: list[dict[str, Any]] = [
    {"_id": "ann", "age": 30, "town": "Ulm", "at": {"work": 1}},
    {"_id": "Bob", "age": 25, "town": "ulm"},
    {"_id": "cid", "age": 40, "town": "Bonn"},
    {"_id": "dan", "age": "old", "town": "Ulm"},
    {"_id": "eve", "town": "Bonn"},
    {"_id": "fay", "age": None, "town": "Ulm"},
]


@pytest.fixture
def people(notes: CouchDatabase) -> CouchDatabase:
    notes.bulk_docs(PEOPLE)
    return notes


def ids(answer: dict[str, Any]) -> list[str]:
    return [document["_id"] for document in answer["docs"]]


def found(database: CouchDatabase, selector: dict[str, Any], **options: Any) -> list[str]:
    return ids(find.find(database, {"selector": selector, **options}))


def refused(database: CouchDatabase, body: dict[str, Any]) -> tuple[int, str, str]:
    with pytest.raises(CouchError) as caught:
        find.find(database, body)
    return caught.value.status, caught.value.error, caught.value.reason


def index(database: CouchDatabase, *fields: Any, **options: Any) -> dict[str, Any]:
    return find.create_index(database, {"index": {"fields": [*fields]}, **options})


class TestWithoutAnIndex:
    @pytest.mark.parametrize("page", [1, 2, 6])
    def test_documents_are_read_page_by_page_in_both_directions(self, people, page, monkeypatch):
        monkeypatch.setattr("reactdb.dialects.couchdb.all_docs.PAGE", page)
        upwards = ["Bob", "ann", "cid", "dan", "eve", "fay"]
        assert upwards == found(people, {"_id": {"$gt": None}})
        assert upwards[::-1] == found(people, {"_id": {"$gt": None}}, sort=[{"_id": "desc"}])

    def test_documents_come_in_the_order_of_their_ids(self, people):
        assert ["Bob", "ann", "cid", "dan", "eve", "fay"] == found(people, {"town": {"$gt": None}})

    def test_whole_documents_or_some_of_their_fields(self, people):
        (document,) = find.find(people, {"selector": {"age": 30}})["docs"]
        assert {"_id", "_rev", "age", "town", "at"} == {*document}

        asked = {"selector": {"age": 30}, "fields": ["_id", "at.work", "none"]}
        assert [{"_id": "ann", "at": {"work": 1}}] == find.find(people, asked)["docs"]

    def test_a_page_is_cut(self, people):
        assert ["ann", "cid"] == found(people, {"town": {"$gt": None}}, skip=1, limit=2)
        assert [] == found(people, {"town": {"$gt": None}}, limit=0)

    def test_a_limit_of_25_is_there_without_being_asked_for(self, notes):
        notes.bulk_docs([{"_id": f"{number:03}"} for number in range(700)])

        assert 25 == len(found(notes, {}))
        assert 700 == len(found(notes, {}, limit=1_000))

    def test_design_documents_are_not_found(self, people):
        people.put({"_id": "_design/x", "age": 30})

        assert ["ann"] == found(people, {"age": 30})

    def test_deleted_documents_are_not_found(self, people):
        people.delete("ann", people.get("ann")["_rev"])

        assert [] == found(people, {"age": 30})

    def test_ids_between_bounds_are_not_looked_for_elsewhere(self, people):
        asked = {"selector": {"_id": {"$gt": "b", "$lte": "dan"}}, "execution_stats": True}
        answer = find.find(people, asked)

        assert ["cid", "dan"] == ids(answer)
        assert 2 == answer["execution_stats"]["total_docs_examined"]

    def test_ids_are_sorted_both_ways(self, people):
        selector = {"_id": {"$gte": "cid"}}

        assert ["cid", "dan", "eve", "fay"] == found(people, selector, sort=["_id"])
        assert ["fay", "eve", "dan", "cid"] == found(people, selector, sort=[{"_id": "desc"}])

    def test_losing_revisions_are_told_where_they_are_asked_for(self, people):
        people.put({"_id": "ann", "_rev": "1-0", "age": 31}, new_edits=False)

        assert ["1-0"] == find.find(people, {"selector": {"age": 30}, "conflicts": True})["docs"][0][
            "_conflicts"
        ]

    def test_a_warning_says_that_no_index_was_used(self, people):
        assert (
            "No matching index found, create an index to optimize query time."
            == (find.find(people, {"selector": {"age": {"$gt": None}}})["warning"])
        )

    def test_a_warning_says_that_much_was_read_for_little(self, notes):
        notes.bulk_docs([{"_id": str(number), "n": number} for number in range(100)])

        warning = find.find(notes, {"selector": {"n": 1}})["warning"]

        assert warning.endswith("Consider adding a more specific index to improve this.")

    def test_statistics(self, people):
        stats = find.find(people, {"selector": {"age": 30}, "execution_stats": True})["execution_stats"]

        assert (6, 6, 0, 1) == (
            stats["total_keys_examined"],
            stats["total_docs_examined"],
            stats["total_quorum_docs_examined"],
            stats["results_returned"],
        )
        assert stats["execution_time_ms"] >= 0


class TestIndexes:
    def test_one_is_made_once(self, people):
        made = index(people, "age", ddoc="by", name="age")

        assert {"result": "created", "id": "_design/by", "name": "age"} == made
        assert {**made, "result": "exists"} == index(people, "age", ddoc="_design/by", name="age")

    def test_it_is_a_design_document_as_other_servers_have_it(self, people):
        index(people, "age", {"town": "asc"}, ddoc="by", name="age")

        document = people.get("_design/by")
        assert "query" == document["language"]
        assert {
            "age": {
                "map": {"fields": {"age": "asc", "town": "asc"}, "partial_filter_selector": {}},
                "reduce": "_count",
                "options": {"def": {"fields": ["age", {"town": "asc"}]}},
            }
        } == document["views"]

    def test_names_are_made_where_there_are_none(self, people):
        one, other = index(people, "age"), index(people, "town")

        assert one["id"] == f"_design/{one['name']}"
        assert one["name"] != other["name"]
        named = index(people, "age", name="years")
        assert ("created", "years") == (named["result"], named["name"])
        assert one["id"] != named["id"]
        assert "exists" == index(people, "age")["result"]

    def test_they_are_listed(self, people):
        index(people, "age", ddoc="by", name="b")
        index(people, {"town": "desc"}, ddoc="by", name="a")

        answer = find.indexes(people)

        assert 3 == answer["total_rows"]
        special, first, second = answer["indexes"]
        assert {
            "ddoc": None,
            "name": "_all_docs",
            "type": "special",
            "def": {"fields": [{"_id": "asc"}]},
        } == special
        assert ("a", [{"town": "desc"}]) == (first["name"], first["def"]["fields"])
        assert {
            "ddoc": "_design/by",
            "name": "b",
            "type": "json",
            "partitioned": False,
            "def": {"fields": [{"age": "asc"}]},
        } == second
        assert [first] == find.indexes(people, limit=1, skip=1)["indexes"]

    def test_the_last_one_takes_its_design_document_with_it(self, people, db):
        index(people, "age", ddoc="by", name="a")
        index(people, "age", "town", ddoc="by", name="b")
        assert ["mango.age"] == db.table("notes").index_list()

        assert {"ok": True} == find.delete_index(people, "by", "a")
        assert ["b"] == [*people.get("_design/by")["views"]]
        assert ["mango.age"] == db.table("notes").index_list()
        assert {"ok": True} == find.delete_index(people, "_design/by", "b")
        with pytest.raises(CouchError, match=r"^deleted$"):
            people.get("_design/by")
        assert [] == db.table("notes").index_list()

    def test_one_that_is_not_there_is_not_removed(self, people):
        with pytest.raises(CouchError, match=r"^missing$") as caught:
            find.delete_index(people, "by", "a")

        assert 404 == caught.value.status

    def test_many_are_removed_at_once(self, people):
        index(people, "age", ddoc="one")

        assert {
            "success": [{"id": "_design/one", "ok": True}],
            "fail": [{"id": "_design/two", "error": "not_found"}],
        } == find.bulk_delete_indexes(people, {"docids": ["one", "_design/two"]})

    @pytest.mark.parametrize(
        ("body", "status", "error", "reason"),
        [
            ({}, 400, "missing_required_key", "Missing required key: index"),
            ({"index": 1}, 400, "invalid_index", "JSON indexes must be an object, not: 1"),
            ({"index": {}}, 400, "missing_required_key", "Missing required key: fields"),
            (
                {"index": {"fields": "a"}},
                400,
                "invalid_sort_json",
                'Sort must be an array of sort specs, not: <<"a">>',
            ),
            ({"index": {"fields": [1]}}, 400, "invalid_sort_field", "Invalid sort field: 1"),
            (
                {"index": {"fields": [{"a": "up"}]}},
                400,
                "invalid_sort_field",
                'Invalid sort field: {[{<<"a">>,<<"up">>}]}',
            ),
            (
                {"index": {"fields": [{"a": "asc"}, {"b": "desc"}]}},
                400,
                "unsupported_mixed_sort",
                "Sorts currently only support a single direction for all fields.",
            ),
            (
                {"index": {"fields": ["a"]}, "name": ""},
                400,
                "invalid_empty_string",
                "Index name or ddoc cannot be empty string",
            ),
            ({"index": {"fields": ["a"]}, "name": 1}, 400, "invalid_string", "Invalid string: 1"),
            (
                {"index": {"fields": ["a"]}, "type": "geo"},
                400,
                "invalid_index",
                "Invalid type for index: geo",
            ),
            ({"index": {"fields": ["a"]}, "type": "text"}, 503, "required index service unavailable", "text"),
            (
                {"index": {"fields": ["a"]}, "what": 1},
                400,
                "invalid_key",
                "Invalid key what for this request.",
            ),
        ],
    )
    def test_what_is_no_index(self, people, body, status, error, reason):
        with pytest.raises(CouchError) as caught:
            find.create_index(people, body)

        assert (status, error, reason) == (caught.value.status, caught.value.error, caught.value.reason)

    def test_a_design_document_in_javascript_is_left_alone(self, people):
        people.put({"_id": "_design/by", "filters": {}})

        with pytest.raises(CouchError, match=r"^Existing design doc has an invalid language: false$"):
            index(people, "age", ddoc="by")


class TestWithAnIndex:
    def test_documents_come_in_its_order_and_without_those_that_lack_its_field(self, people):
        index(people, "age")

        answer = find.find(people, {"selector": {"age": {"$gte": None}}})

        assert ["fay", "Bob", "ann", "cid", "dan"] == ids(answer)
        assert "warning" not in answer

    def test_it_gives_the_order_that_is_asked_for(self, people):
        index(people, "town", "age")

        assert ["Bob", "fay", "ann", "dan"] == found(people, {"town": {"$gt": "D"}}, sort=["town", "age"])[
            -4:
        ]
        assert ["cid"] == found(people, {"town": "Bonn"}, sort=["age"])
        assert ["dan", "ann", "fay"] == found(people, {"town": "Ulm"}, sort=[{"age": "desc"}])

    def test_without_one_there_is_no_order(self, people):
        index(people, "town", "age")
        reason = "No index exists for this sort, try indexing by the sort fields."

        for sort in (["age"], ["age", "town"], ["none"]):
            refusal = refused(people, {"selector": {"town": {"$gt": None}}, "sort": sort})
            assert (400, "no_usable_index", reason) == refusal

    def test_only_the_part_that_may_pass_is_read(self, notes):
        notes.bulk_docs([{"_id": str(number), "n": number} for number in range(100)])
        index(notes, "n")

        answer = find.find(notes, {"selector": {"n": {"$gt": 10, "$lt": 13}}, "execution_stats": True})

        assert ["11", "12"] == ids(answer)
        assert 2 == answer["execution_stats"]["total_keys_examined"]

    def test_an_index_of_the_table_itself_narrows_the_search_too(self, people, db):
        db.table("notes").index_create("town")

        answer = find.find(people, {"selector": {"town": "Bonn"}, "execution_stats": True})

        assert ["cid", "eve"] == ids(answer)
        assert 2 == answer["execution_stats"]["total_docs_examined"]

    @pytest.mark.parametrize(
        ("selector", "ids"),
        [
            ({"$gt": 0}, ["array", "number", "object", "text"]),
            ({"$lt": 5}, ["false", "null", "number"]),
            ({"$gt": 0, "$lt": 5}, ["number"]),
            ({"$gte": "b"}, ["array", "object", "text"]),
            ({"$beginsWith": "b"}, ["text"]),
            ({"$eq": False}, ["false"]),
            ({"$eq": None}, ["null"]),
        ],
    )
    def test_types_that_the_table_orders_otherwise_are_found_where_it_has_an_index(
        self, notes, db, selector, ids
    ):
        values = {
            "array": [1],
            "false": False,
            "null": None,
            "number": 1,
            "object": {"b": 1},
            "text": "b\U0010ffff",
        }
        notes.bulk_docs([{"_id": id, "v": value} for id, value in values.items()])
        db.table("notes").index_create("v")

        assert ids == found(notes, {"v": selector})
        index(notes, "v")
        assert ids == sorted(found(notes, {"v": selector}))

    def test_one_with_a_selector_of_its_own_is_used_where_it_is_named(self, people):
        find.create_index(
            people,
            {
                "index": {"fields": ["age"], "partial_filter_selector": {"town": "Ulm"}},
                "ddoc": "ulm",
                "name": "age",
            },
        )
        selector = {"age": {"$gt": None}}

        assert ["ann", "cid"] == [id for id in found(people, selector) if id in ("ann", "cid")]
        assert ["ann", "dan"] == found(people, selector, use_index="ulm")
        assert ["ann", "dan"] == found(people, selector, use_index=["_design/ulm", "age"])

    def test_one_that_is_named_and_does_not_serve_brings_a_warning_or_a_refusal(self, people):
        index(people, "age", ddoc="by", name="age")
        asked = {"selector": {"town": "Ulm"}, "use_index": "by"}

        warning = find.find(people, asked)["warning"]

        assert warning.startswith(
            "_design/by was not used because it does not contain a valid index for this query.\nNo matching index"
        )
        assert (
            400,
            "invalid_index",
            "_design/by, age specified by `use_index` could not be found or it is not suitable.",
        ) == refused(people, {**asked, "use_index": ["by", "age"], "allow_fallback": False})

    def test_an_empty_alternative_finds_nothing(self, people):
        assert [] == found(people, {"$or": []})
        assert ["ann"] == found(people, {"age": 30, "$or": []})


class TestBookmarks:
    @pytest.mark.parametrize("sort", [[], ["town"], [{"town": "desc"}]])
    def test_they_continue_a_page(self, people, sort):
        if sort:
            index(people, "town")
        asked: dict[str, Any] = {"selector": {"town": {"$gt": None}}, "sort": sort}
        whole = found(people, asked["selector"], sort=sort)
        pages = []
        bookmark = None
        for _ in range(4):
            answer = find.find(people, {**asked, "limit": 2, "bookmark": bookmark})
            pages.append(ids(answer))
            bookmark = answer["bookmark"]

        assert [whole[:2], whole[2:4], whole[4:], []] == pages

    def test_nothing_found_is_no_place(self, people):
        assert "nil" == find.find(people, {"selector": {"age": 1}})["bookmark"]

    def test_what_is_none_is_refused(self, people):
        assert (400, "invalid_bookmark", 'Invalid bookmark value: "wörd"') == refused(
            people, {"selector": {}, "bookmark": "wörd"}
        )


class TestRefusals:
    @pytest.mark.parametrize(
        ("body", "error", "reason"),
        [
            ({}, "missing_required_key", "Missing required key: selector"),
            ({"selector": []}, "invalid_selector_json", "Selector must be a JSON object, not: []"),
            ({"selector": {"a": {"$in": 1}}}, "bad_arg", "Bad argument for operator $in: 1"),
            ({"selector": {"a": {"$x": 1}}}, "invalid_operator", "Invalid operator: $x"),
            (
                {"selector": {}, "limit": -1},
                "invalid_non_neg_integer",
                "-1 is not an integer greater than or equal to zero",
            ),
            (
                {"selector": {}, "limit": True},
                "invalid_non_neg_integer",
                "true is not an integer greater than or equal to zero",
            ),
            (
                {"selector": {}, "skip": "1"},
                "invalid_non_neg_integer",
                "<<49>> is not an integer greater than or equal to zero",
            ),
            (
                {"selector": {}, "fields": "a"},
                "invalid_fields",
                "Fields must be an array of strings, not: <<97>>",
            ),
            ({"selector": {}, "fields": [1]}, "invalid_field", "Invalid JSON for field spec: 1"),
            ({"selector": {}, "r": 0}, "invalid_pos_integer", "0 is not an integer greater than zero"),
            ({"selector": {}, "conflicts": 1}, "invalid_boolean", "Invalid boolean value: 1"),
            ({"selector": {}, "use_index": 1}, "invalid_index_name", "Invalid index name: 1"),
            ({"selector": {}, "what": 1}, "invalid_key", "Invalid key what for this request."),
        ],
    )
    def test_what_is_no_query(self, people, body, error, reason):
        assert (400, error, reason) == refused(people, body)

    def test_there_are_no_text_indexes(self, people):
        assert (503, "required index service unavailable", "text") == refused(
            people, {"selector": {"$text": "a"}}
        )


class TestExplain:
    def test_the_documents_in_the_order_of_ids(self, people):
        answer = find.explain(people, {"selector": {"age": 30, "town": {"$ne": "Ulm"}}})

        assert {
            "dbname": "notes",
            "index": {
                "ddoc": None,
                "name": "_all_docs",
                "type": "special",
                "def": {"fields": [{"_id": "asc"}]},
            },
            "partitioned": False,
            "selector": {"$and": [{"age": {"$eq": 30}}, {"town": {"$ne": "Ulm"}}]},
            "opts": {
                "use_index": [],
                "bookmark": "nil",
                "limit": 25,
                "skip": 0,
                "sort": {},
                "fields": [],
                "partition": "",
                "r": 1,
                "conflicts": False,
                "stale": False,
                "update": True,
                "stable": False,
                "execution_stats": False,
                "allow_fallback": True,
            },
            "limit": 25,
            "skip": 0,
            "fields": [],
            "index_candidates": [],
            "selector_hints": [{"type": "json", "indexable_fields": ["age"], "unindexable_fields": ["town"]}],
            "mrargs": {
                "include_docs": True,
                "view_type": "map",
                "reduce": False,
                "partition": None,
                "start_key": None,
                "end_key": "<MAX>",
                "direction": "fwd",
                "stable": False,
                "update": True,
                "conflicts": None,
            },
            "covering": False,
        } == answer

    def test_an_index_its_range_and_the_others(self, people):
        index(people, "age", ddoc="a", name="age")
        index(people, "age", "town", ddoc="b", name="both")
        index(people, "town", ddoc="c", name="town")
        index(people, "none", ddoc="d", name="none")

        answer = find.explain(
            people,
            {
                "selector": {"age": {"$gt": 1}, "town": {"$gte": "A", "$lt": "C"}},
                "sort": [{"age": "desc"}],
                "fields": ["age"],
            },
        )

        assert "both" == answer["index"]["name"]
        assert (["<MAX>"], [1, "A"], "rev", True, False) == (
            answer["mrargs"]["start_key"],
            answer["mrargs"]["end_key"],
            answer["mrargs"]["direction"],
            answer["covering"],
            answer["mrargs"]["include_docs"],
        )
        said = {
            candidate["index"]["name"]: (
                candidate["analysis"]["usable"],
                candidate["analysis"]["reasons"][0]["name"],
            )
            for candidate in answer["index_candidates"]
        }
        assert {
            "age": (True, "less_overlap"),
            "town": (False, "sort_order_mismatch"),
            "none": (False, "field_mismatch"),
            "_all_docs": (False, "field_mismatch"),
        } == said

    def test_nothing_serves(self, people):
        assert find.explain(people, {"selector": {"age": 1}, "sort": ["none"]})["index"] is None


VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.sampled_from(["a", "A", "b", "ab"])
    | st.just([1])
    | st.just({"c": 1})
)
FIELD = st.sampled_from(["a", "b", "c.d"])
DOCUMENTS = st.lists(
    st.dictionaries(st.sampled_from(["a", "b"]), VALUES, max_size=2)
    | st.builds(lambda value: {"c": {"d": value}}, VALUES),
    max_size=8,
)
COMPARISONS = st.tuples(st.sampled_from(["$eq", "$gt", "$gte", "$lt", "$lte", "$ne"]), VALUES) | st.tuples(
    st.just("$beginsWith"), st.sampled_from(["", "a"])
)
CONDITIONS = st.lists(COMPARISONS, min_size=1, max_size=2).map(dict)
SELECTORS = st.dictionaries(FIELD, CONDITIONS, max_size=2)


@settings(max_examples=examples(300))
@given(DOCUMENTS, SELECTORS, st.lists(FIELD, max_size=2, unique=True), st.booleans())
def test_what_is_found_does_not_depend_on_indexes(documents, selector, fields, is_native):
    """An index changes the order and the cost of what is found; and with it, documents are in its order."""
    with reactdb.connect(":memory:") as db:
        notes = Couch(db).create("notes")
        notes.bulk_docs([{**document, "_id": f"{number}"} for number, document in enumerate(documents)])
        passes = Selector(selector).passes
        wanted = [f"{number}" for number, document in enumerate(documents) if passes(document)]
        if is_native:
            for field in fields:
                table = db.table("notes")
                table.index_create(field, row["c"]["d"] if field == "c.d" else row[field])
        elif fields:
            index(notes, *fields)

        assert wanted == sorted(found(notes, selector, limit=100))
        if fields and not is_native and {*fields} <= {*selector}:
            rows = find.find(notes, {"selector": selector, "sort": fields})["docs"]
            assert wanted == sorted(row["_id"] for row in rows)
            keys = [
                [collation_key(row["c"]["d"] if field == "c.d" else row[field]) for field in fields]
                for row in rows
            ]
            assert keys == sorted(keys)


def test_documents_of_native_tables_are_found(db: Database, couch: Couch):
    table = db.table_create("games")
    table.insert([{"id": number, "score": number} for number in range(5)] + [{"id": "x", "score": 3}])
    table.index_create("score")
    games = couch.open("games")

    assert ["=3", "x"] == found(games, {"score": 3})
    assert ["=1", "=2"] == found(games, {"score": {"$gt": 0, "$lt": 3}})
    assert ["=0", "=1", "=2", "=3", "=4", "x"] == found(games, {"score": {"$gt": None}})
