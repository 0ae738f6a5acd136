"""Laws of indexes: a filter finds what a scan finds, whatever the values; a query that names an index sees what ReQL sees.

An index has hidden entries for null, objects, NaN and the infinities, because comparisons apply to those too, but ReQL's
indexes lack them. The first law needs these entries, the second forbids that queries see them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import reactdb
from reactdb import asc, desc, maxval, minval, row
from reactdb.change import DELETE, INSERT, Change
from reactdb.documents import access_path as access_module
from reactdb.documents.access_path import Access, access
from reactdb.expression import as_predicate, expr, to_data
from reactdb.feeds.views.source import Source
from reactdb.query import Filter, Query
from reactdb.session import session_of
from reactdb.store.catalogue import HIDDEN_VALUE_BYTES, IndexInfo, TableInfo, make_index
from reactdb.store.snapshot import PICKED
from reactdb.store.tools import doctor
from reactdb.values.codec import encode, encode_value
from reactdb.values.collation import index_key_bytes, key_bytes
from tests.laws.test_expression_laws import conditions, documents, indexed, passes, values
from tests.support.replica import exactly
from tests.support.scaling import examples

INF, NAN = float("inf"), float("nan")
# One of each kind that an index of ReQL leaves out, and some that it does not.
ODD = [None, {}, {"x": 1}, NAN, INF, -INF, [None], [{"x": 1}, 2], [1, 2], [], True, "x", b"x", 3, -1.5]


@contextmanager
def two_tables() -> Iterator[tuple[reactdb.Database, Any, Any]]:
    """A database with a table that has indexes, and one that has none."""
    with reactdb.connect(":memory:") as db:
        known, plain = db.table_create("known"), db.table_create("plain")
        known.index_create("a")
        known.index_create("b")
        known.index_create("ab", [row["a"], row["b"]])
        known.index_create("inner", row["a"]["b"])
        known.index_create("elements", row["a"], multi=True)
        yield db, known, plain


def answer(selection: Any) -> Any:
    """Exactly what it gives, or which error."""
    try:
        return exactly(selection.run())
    except reactdb.errors.QueryError as error:
        return type(error)


def keyed(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**body, "id": number} for number, body in enumerate(bodies)]


# ---------------------------------------------------------------------------------------------------------------
# Filters


@settings(max_examples=examples(120))
@given(
    st.lists(documents, max_size=6),
    st.lists(documents, max_size=3),
    st.lists(conditions(), min_size=1, max_size=3),
    st.integers(0, 3),
)
@example(
    [{"a": value} for value in ODD],
    [{"a": 1}, {"a": None}],
    [row["a"] > 10, row["a"] < 10, row["a"].eq(None)],
    2,
)
@example([{"a": 1, "b": value} for value in ODD], [], [(row["a"] == 1) & (row["b"] > 3)], 1)
def test_a_filter_finds_the_same_with_and_without_indexes(
    before: list[dict[str, Any]], after: list[dict[str, Any]], asked: list[Any], limit: int
) -> None:
    """Law 6, of the present and of the past."""
    with two_tables() as (db, known, plain):
        known.insert(keyed(before))
        plain.insert(keyed(before))
        then = db.seq
        for document in keyed(after):
            for table in (known, plain):
                table.get(document["id"]).replace(document)
        for table in (known, plain):
            table.get(len(after)).delete()
        past = db.at(then)
        for condition in asked:
            for one, other in ((known, plain), (past.table("known"), past.table("plain"))):
                assert answer(other.filter(condition)) == answer(one.filter(condition))
                assert answer(other.filter(condition).skip(1).limit(limit)) == answer(
                    one.filter(condition).skip(1).limit(limit)
                )


@pytest.mark.parametrize("threshold", [0, 10**9])
def test_wide_and_narrow_ranges_give_the_same_in_order_and_under_a_limit(
    threshold: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever way is taken: scanning a few documents first, all of them after all, or picking them by key."""
    monkeypatch.setattr(access_module, "FEW_FOUND", threshold)
    count = 12 * PICKED
    bodies = [
        {"a": ODD[n % 90] if n % 90 < len(ODD) else (n * 7_919) % count, "b": n % 7} for n in range(count)
    ]
    with two_tables() as (db, known, plain):
        known.index_drop("ab")
        known.insert(keyed(bodies))
        plain.insert(keyed(bodies))
        then = db.seq
        for table in (known, plain):
            table.filter(row["b"] == 3).update({"a": None})
            table.filter(row["b"] == 4).delete()
        past = db.at(then)
        for low in (-1, count // 3, count - 40, count):
            for one, other in ((known, plain), (past.table("known"), past.table("plain"))):
                for condition in (row["a"] > low, row["a"] <= low, (row["a"] > low) & (row["b"] > 2)):
                    found, wanted = one.filter(condition), other.filter(condition)
                    assert "index `a`" in found.explain()["access"]
                    assert answer(wanted) == answer(found)
                    for limit in (0, 1, 10, 40, 10_000):
                        assert answer(wanted.limit(limit)) == answer(found.limit(limit))


def test_the_narrowest_range_is_looked_up() -> None:
    with two_tables() as (_, known, _):
        known.index_create("c")

        def used(condition: Any) -> str | None:
            index: str | None = known.filter(condition).explain()["index"]
            return index

        assert "c" == used((row["a"] > 1) & (row["c"] == 1))
        assert "c" == used((row["a"] > 1) & (row["c"] > 1) & (row["c"] < 9))
        assert "c" == used((row["a"] > 1) & (row["b"] > 1) & (row["c"] > 1) & (row["c"] < 9))
        assert "a" == used((row["a"] > 1) & (row["c"] > 1))
        assert used(row["a"] != 1) is None


def test_a_hidden_value_is_cut_and_found_all_the_same() -> None:
    """What an index leaves out may be large, and need not be in the file twice."""
    long = "x" * 2 * HIDDEN_VALUE_BYTES
    wanted = {"text": long, "z": 2}
    with two_tables() as (db, known, _):
        known.insert([{"id": n, "a": {"text": long, "z": n}} for n in range(4)])

        assert [2] == known.filter(row["a"] == wanted)["id"].run()
        assert [3] == known.filter(row["a"] > wanted)["id"].run()
        assert [2, 3] == known.filter(row["a"] >= wanted)["id"].run()
        assert [0, 1] == known.filter(row["a"] < wanted)["id"].run()
        assert max(map(len, stored_values(db))) == HIDDEN_VALUE_BYTES


def stored_values(db: reactdb.Database) -> list[bytes]:
    with session_of(db).engine.snapshot() as snapshot:
        return [value for (value,) in snapshot.connection.execute("SELECT value FROM entries").fetchall()]


def test_hidden_entries_go_with_their_index() -> None:
    with two_tables() as (db, known, _):
        known.insert(keyed([{"a": value, "b": value} for value in ODD]))
        assert stored_values(db)
        for name in known.index_list():
            known.index_drop(name)

        assert [] == stored_values(db)


def test_hidden_entries_go_with_their_table() -> None:
    with two_tables() as (db, known, plain):
        known.insert(keyed([{"a": value} for value in ODD]))
        db.table_drop("known")
        plain.insert({"id": 1})
        db.compact(keep=0)

        assert [] == stored_values(db)


# ---------------------------------------------------------------------------------------------------------------
# Reads that name an index

BOUNDS = st.one_of(
    st.sampled_from([minval, maxval]), values.filter(lambda value: index_key_bytes(value) is not None)
)


@settings(max_examples=examples(120))
@given(st.lists(documents, max_size=8), st.lists(documents, max_size=3), BOUNDS, BOUNDS)
@example([{"a": value} for value in ODD], [], minval, maxval)
@example([{"a": [value, 1]} for value in ODD], [{"a": None}], 3, "x")
def test_a_read_that_names_an_index_never_sees_a_hidden_entry(
    bodies: list[dict[str, Any]], more: list[dict[str, Any]], lower: Any, upper: Any
) -> None:
    """get_all, between, order_by, min and max agree with brute force over what ReQL has in an index."""
    with two_tables() as (db, known, _):
        known.insert(keyed(bodies))
        then = db.seq
        for document in keyed(more):
            known.get(document["id"]).replace(document)
        states = [
            (known, keyed(bodies)[len(more) :] + keyed(more)),
            (db.at(then).table("known"), keyed(bodies)),
        ]
        for table, stored in states:
            for name in ("a", "ab", "elements"):
                assert_reads(table, name, places_of(stored, name), lower, upper)


def assert_reads(
    table: Any, name: str, places: list[tuple[bytes, bytes, int, Any]], lower: Any, upper: Any
) -> None:
    listed = [document for *_, document in places]
    assert exactly(listed) == exactly(table.order_by(index=name).run())
    assert exactly(listed[:2]) == exactly(table.order_by(index=asc(name)).limit(2).run())
    assert exactly(listed[::-1]) == exactly(table.order_by(index=desc(name)).run())
    if listed:
        assert exactly(listed[0]) == exactly(table.min(index=name).run())
        assert exactly(listed[-1]) == exactly(table.max(index=name).run())
    within = [document for value, *_, document in places if key_bytes(lower) <= value < key_bytes(upper)]
    ranged = table.between(lower, upper, index=name)
    assert exactly(within) == exactly(ranged.order_by(index=name).run())
    assert len(within) == ranged.count().run()
    if lower not in (minval, maxval):
        equal = [document for value, *_, document in places if value == key_bytes(lower)]
        assert exactly(equal) == exactly(table.get_all(lower, index=name).run())


def places_of(stored: list[dict[str, Any]], name: str) -> list[tuple[bytes, bytes, int, Any]]:
    """What ReQL has in the index: (value, key, tag, document), in order."""
    found = []
    for document in stored:
        if name == "elements":
            listed = (
                document["a"]
                if isinstance(document.get("a"), list)
                else [document[key] for key in "a" if key in document]
            )
        elif name == "ab":
            listed = [[document["a"], document["b"]]] if {"a", "b"} <= document.keys() else []
        else:
            listed = [document[name]] if name in document else []
        for tag, value in enumerate(listed):
            place = index_key_bytes(value)
            if place is not None:
                found.append((place, key_bytes(document["id"]), tag, document))
    return sorted(found, key=lambda place: place[:3])


@settings(max_examples=examples(200))
@given(
    documents,
    st.sampled_from([row["a"], row["a"]["b"], expr([row["a"], row["b"]]), row["a"] + 1]),
    st.booleans(),
)
def test_the_entries_that_are_seen_are_those_stored_that_are_not_hidden(
    document: dict[str, Any], expression: Any, multi: bool
) -> None:
    index = index_on(expression, multi=multi)
    stored = index.stored_entries(document)

    assert index.entries(document) == [(value, tag) for number, value, tag in stored if number == index.id]
    assert {index.id, -index.id} >= {number for number, _, _ in stored}
    if not multi:
        whole = indexed(expression, document)
        assert [
            None if whole is None else whole[: HIDDEN_VALUE_BYTES if number < 0 else None]
            for number, _, _ in stored
        ] == [value for _, value, _ in stored]
        assert (whole is None) == (not stored)


def index_on(expression: Any, *, multi: bool = False) -> IndexInfo:
    return make_index(7, 1, "index", encode_value(to_data(expression)), multi)


# ---------------------------------------------------------------------------------------------------------------
# Feeds


@settings(max_examples=examples(300))
@given(conditions(), documents)
@example(row["a"] > 10, {"a": {}})
@example(row["a"]["b"] == [1], {"a": [{"b": 1}]})
@example(row["a"]["b"] < 5, {"a": [{"b": 1}]})
@example(row["a"]["b"] >= 5, {"a": {"b": "x"}})
def test_a_feed_is_told_of_every_document_that_passes(condition: Any, document: dict[str, Any]) -> None:
    """What a route says about a document's values is true of every document that the filter lets pass."""
    steps = (Filter(as_predicate(condition)),)
    table = TableInfo(1, "games", "id", 0, None, {})
    document = {**document, "id": 1}

    if passes(condition, document):
        assert any(is_routed(route, document) for route in Source(everything(table)).routes(steps))


def everything(table: TableInfo) -> Access:
    return access(Query("games"), table)


def is_routed(route: Any, document: dict[str, Any]) -> bool:
    """Whether the route finds the document that comes, and the one that goes."""
    body = encode(document)
    coming = Change(1, "games", 1, b"k", INSERT, None, None, body, 1, 0)
    going = Change(2, "games", 1, b"k", DELETE, 1, body, None, 2, 0)
    return is_found(route, coming) and is_found(route, going)


def is_found(route: Any, change: Change) -> bool:
    if hasattr(route, "start"):
        return any(route.start <= value < route.stop for value in route.axis.values(change))
    return not hasattr(route, "axis") or route.value in route.axis.values(change)


def test_a_filter_with_one_end_is_a_route_by_the_field() -> None:
    (route,) = Source(everything(TableInfo(1, "games", "id", 0, None, {}))).routes(
        (Filter(as_predicate(row["a"] > 10)),)
    )

    assert is_routed(route, {"a": 11})
    assert is_routed(route, {"a": {}})
    assert not is_routed(route, {"a": 10})
    assert not is_routed(route, {})


# ---------------------------------------------------------------------------------------------------------------
# The doctor


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("DELETE FROM entries WHERE index_id < 0", "does not have"),
        (
            "INSERT INTO entries SELECT index_id, value, key, 5 FROM entries WHERE index_id < 0",
            "which is wrong",
        ),
        ("UPDATE entries SET index_id = -index_id", "does not have"),
    ],
)
def test_the_doctor_misses_a_hidden_entry(tmp_path: Any, damage: str, words: str) -> None:
    file = tmp_path / "games.db"
    with reactdb.connect(file) as db:
        games = db.table_create("games")
        games.index_create("a")
        games.insert(keyed([{"a": value} for value in ODD]))
        games.get(0).update({"a": 1})
    assert [] == dict(doctor.examine(str(file)))["indexes"]
    connection = sqlite3.connect(file)
    connection.execute(damage)
    connection.commit()
    connection.close()

    assert any(words in finding.message for finding in dict(doctor.examine(str(file)))["indexes"])
