"""Views: which rows there are, in which order, against a naive evaluation."""

from __future__ import annotations

from functools import cmp_to_key
from typing import Any

import pytest

from reactdb.dialects.couchdb import javascript
from reactdb.dialects.couchdb.collation import collation_key
from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.views import ViewQuery, view

pytest.importorskip("quickjs")

KEYS: list[Any] = [
    None,
    False,
    True,
    -1,
    0,
    1,
    1.5,
    10,
    "",
    "a",
    "A",
    "b",
    "ä",
    [],
    [1],
    [1, "x"],
    {},
    {"a": 1},
]
VIEWS = {
    "keys": {"map": "function(doc) { doc.keys.forEach(function(key) { emit(key, doc._id); }); }"},
    "nothing": {"map": "function(doc) { emit(); }"},
    "links": {"map": "doc => emit(doc._id, doc.link)"},
    "late": {"map": "function(doc) { emit(1, 1); if (doc._id === 'd0') throw 'late'; }"},
    "circle": {"map": "function(doc) { var a = []; if (doc._id === 'd0') a.push(a); emit(1, a); }"},
    "deep": {"map": "function(doc) { if (doc._id === 'd0') (function f() { return f() + 1; })(); emit(1); }"},
    "endless": {"map": "function(doc) { while (true) emit; }"},
    "hungry": {"map": "function(doc) { while (true) emit(new Array(1000).fill(1), 1); }"},
    "halved": {"map": "function(doc) { emit('😀'[0], null); }"},
    "reduced": {"map": "function(doc) { emit(1, 1); }", "reduce": "_sum"},
    "conflicts": {"map": "doc => { if (doc._conflicts) emit(doc._conflicts, doc._deleted_conflicts); }"},
    "lib": {"names": "exports.x = 1"},
    "broken": {"map": "function(doc) {"},
}


@pytest.fixture
def mapped(notes: CouchDatabase) -> CouchDatabase:
    notes.put({"_id": "_design/d", "views": VIEWS, "keys": [0]})
    # Each key is there in several documents, and once twice in one.
    for number in range(4):
        keys = KEYS[number % 2 :: number // 2 + 1]
        notes.put({"_id": f"d{number}", "keys": [*keys, *keys[:1]]})
    gone = notes.put({"_id": "d9", "keys": KEYS})
    notes.delete("d9", gone["rev"])
    return notes


def naive(database: CouchDatabase, query: ViewQuery) -> list[tuple[str, Any]]:
    """(id, key) of the rows, found by comparing each with the bounds in the direction that is asked for."""
    sign = -1 if query.descending else 1

    def compared(one: Any, other: Any) -> int:
        return sign * ((one > other) - (one < other))

    rows = []
    for row in database.all_docs(include_docs=True)["rows"]:
        if not row["id"].startswith("_design/"):
            rows += [(row["id"], key) for key in row["doc"]["keys"]]
    rows.sort(key=cmp_to_key(lambda one, other: compared(_place(one), _place(other))))

    def within(row: tuple[str, Any]) -> bool:
        for bound, docid, is_start in (
            (query.startkey, query.startkey_docid, True),
            (query.endkey, query.endkey_docid, False),
        ):
            if type(bound) is object:
                continue
            found = compared(collation_key(row[1]), collation_key(bound))
            if found == 0 and docid is not None:
                found = compared(row[0], docid)
            if (found < 0) if is_start else (found > 0 or (found == 0 and not query.inclusive_end)):
                return False
        return True

    rows = [row for row in rows if within(row)]
    return rows[query.skip :][: len(rows) if query.limit is None else query.limit]


def _place(row: tuple[str, Any]) -> tuple[Any, str]:
    return collation_key(row[1]), row[0]


RANGES: list[dict[str, Any]] = [
    {},
    {"limit": 0},
    {"skip": 5, "limit": 7},
    {"skip": 500},
    {"startkey": None},
    {"endkey": None},
    {"startkey": 0, "endkey": "a"},
    {"startkey": "a", "endkey": "b", "inclusive_end": False},
    {"startkey": 1, "endkey": 1, "inclusive_end": False},
    {"startkey": [1], "endkey": [1, {}]},
    {"startkey": "aa"},
    {"startkey": 1, "endkey": 1},
    {"startkey": 1, "startkey_docid": "d1", "endkey": 10, "endkey_docid": "d0"},
    {"startkey": 1, "endkey": 10, "endkey_docid": "d1", "inclusive_end": False},
    {"startkey": True, "startkey_docid": "d00"},
    {"startkey_docid": "d2", "endkey_docid": "d0"},
]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("asked", RANGES, ids=str)
def test_ranges_are_those_of_a_naive_evaluation(
    mapped: CouchDatabase, asked: dict[str, Any], descending: bool
) -> None:
    if descending and "endkey" in asked and "startkey" in asked:
        asked = asked | {"startkey": asked["endkey"], "endkey": asked["startkey"]}
    query = ViewQuery(**asked, descending=descending)

    answer = view(mapped, "d", "keys", query)

    everything = [
        (row["id"], row["key"]) for row in view(mapped, "d", "keys", ViewQuery(descending=descending))["rows"]
    ]
    found = [(row["id"], row["key"]) for row in answer["rows"]]
    assert naive(mapped, query) == found
    assert len(everything) == answer["total_rows"]
    if found:
        assert found == everything[answer["offset"] :][: len(found)]


def rows(database: CouchDatabase, name: str, **asked: Any) -> list[Any]:
    return view(database, "d", name, ViewQuery(**asked))["rows"]


def test_keys_come_in_the_order_in_which_they_are_asked_for(mapped: CouchDatabase) -> None:
    found = rows(mapped, "keys", keys=["b", 0, "none", "b"])

    assert ["b", 0, "b"] == [
        key for key, before in zip(_keys(found), [None, *_keys(found)], strict=False) if key != before
    ]
    assert found[::-1] == rows(mapped, "keys", keys=["b", 0, "none", "b"], descending=True)
    assert found[1:2] == rows(mapped, "keys", keys=["b", 0], skip=1, limit=1)
    assert [] == rows(mapped, "keys", keys=[])


def _keys(found: list[Any]) -> list[Any]:
    return [row["key"] for row in found]


def test_what_is_not_given_is_null(mapped: CouchDatabase) -> None:
    assert [{"id": "d0", "key": None, "value": None}] == rows(mapped, "nothing", limit=1)


@pytest.mark.parametrize("name", ["late", "circle", "deep"])
def test_a_document_at_which_the_function_throws_has_no_rows(mapped: CouchDatabase, name: str) -> None:
    assert ["d1", "d2", "d3"] == [row["id"] for row in rows(mapped, name)]


def test_half_a_character_is_a_key(mapped: CouchDatabase) -> None:
    assert "\ud83d" == rows(mapped, "halved")[0]["key"]


def test_a_value_can_name_another_document(notes: CouchDatabase) -> None:
    notes.put({"_id": "_design/d", "views": VIEWS})
    first = notes.put({"_id": "a", "link": 5})
    notes.put({"_id": "a", "link": 6, "_rev": first["rev"]})
    links = [
        {"_id": "a"},
        {"_id": "a", "_rev": first["rev"]},
        {"_id": "none"},
        {"_id": None},
        {"_id": "_x"},
        {},
    ]
    for number, link in enumerate(links):
        notes.put({"_id": f"b{number}", "link": link})

    found = rows(notes, "links", include_docs=True)

    documents = [None if row["doc"] is None else (row["doc"]["_id"], row["doc"]["link"]) for row in found]
    assert [("a", 6), ("a", 6), ("a", 5), None, None, None, ("b5", {})] == documents


def test_more_documents_than_a_page(notes: CouchDatabase) -> None:
    notes.bulk_docs(
        [{"_id": "_design/d", "views": VIEWS}, *({"_id": f"{n:04}", "link": n} for n in range(1_100))]
    )

    assert list(range(1_100)) == [row["value"] for row in rows(notes, "links")]


@pytest.mark.parametrize(
    ("name", "asked", "status", "reason"),
    [
        ("none", {}, 404, "missing_named_view"),
        ("lib", {}, 404, "missing_named_view"),
        ("reduced", {}, 501, "Nothing is reduced here"),
        ("reduced", {"reduce": True}, 501, "Nothing is reduced here"),
        ("keys", {"reduce": True}, 400, "Reduce is invalid for map-only views."),
        ("broken", {}, 500, "The view d/broken failed: SyntaxError"),
        ("keys", {"startkey": 2, "endkey": 1}, 400, "No rows can match .* descending=true"),
        (
            "keys",
            {"startkey": 1, "endkey": 2, "descending": True},
            400,
            "No rows can match .* descending=false",
        ),
    ],
)
def test_what_is_refused(
    mapped: CouchDatabase, name: str, asked: dict[str, Any], status: int, reason: str
) -> None:
    with pytest.raises(CouchError, match=reason) as caught:
        rows(mapped, name, **asked)

    assert status == caught.value.status


def test_the_rows_of_a_view_that_is_reduced_can_be_asked_for(mapped: CouchDatabase) -> None:
    assert 4 == len(rows(mapped, "reduced", reduce=False))


def test_a_view_can_list_the_documents_in_conflict(mapped: CouchDatabase) -> None:
    for rev, is_deleted in (("1-a", False), ("1-b", False), ("1-c", True)):
        mapped.put({"_id": "x", "_rev": rev, "_deleted": is_deleted}, new_edits=False)

    found = rows(mapped, "conflicts")

    assert [{"id": "x", "key": ["1-a"], "value": ["1-c"]}] == found


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("endless", "it takes too long"),
        ("hungry", "it needs too much memory"),
    ],
)
def test_a_function_at_its_bounds_is_an_error(
    mapped: CouchDatabase, monkeypatch: pytest.MonkeyPatch, name: str, reason: str
) -> None:
    monkeypatch.setattr(javascript, "CALL_S", 0.1 if name == "endless" else 5.0)
    monkeypatch.setattr(javascript, "MEMORY_BYTES", 4 << 20)

    with pytest.raises(CouchError, match=f"^The view d/{name} failed: {reason}$"):
        rows(mapped, name)
