"""A Python function may return an expression, alone or inside a dict or a list: it is computed with the function's own document
as `row`, wherever a function may be given, and by feeds as by queries.

`PLACES` is the register of these places. Each gets the same function twice: one that returns expressions, and one that computes
the same in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import reactdb
from reactdb import literal, r, row
from reactdb.errors import MissingValue, QueryError
from reactdb.feeds.livelist import LiveList
from tests.support.feeds import heard

Function = Callable[[Any], Any]

FUNCTIONS: dict[str, tuple[Function, Function]] = {
    "expression": (lambda document: row["n"] + 1, lambda document: document["n"] + 1),
    "in a dict": (
        lambda document: {"id": document["id"], "twice": row["n"] * 2},
        lambda document: {"id": document["id"], "twice": document["n"] * 2},
    ),
    "in a list in a dict": (
        lambda document: {"id": row["id"], "all": [1, [row["n"]]]},
        lambda document: {"id": document["id"], "all": [1, [document["n"]]]},
    ),
    "list": (lambda document: [row["n"], row["n"] + 1], lambda document: [document["n"], document["n"] + 1]),
    "document as an expression": (
        lambda document: row.merge({"is_new": True}),
        lambda document: {**document, "is_new": True},
    ),
    "no row": (lambda document: r.expr(document["n"]) + 1, lambda document: document["n"] + 1),
}
# Those whose result is a document.
DOCUMENTS = ["in a dict", "in a list in a dict", "document as an expression"]


def followed(selection: Any, table: Any) -> list[Any]:
    """What a feed of the selection tells at first and of one change."""
    with selection.changes(include_initial=True).cursor() as cursor:
        table.insert({"id": 3, "n": 30})
        return heard(cursor)


def kept(db: Any, selection: Any, table: Any) -> list[Any]:
    with db.materialize(selection, into="kept"):
        table.insert({"id": 3, "n": 30})
        found = db.table("kept").order_by("id").run()
    db.table_drop("kept")
    return found


def listed(selection: Any, table: Any) -> list[Any]:
    with LiveList(selection) as board:
        table.insert({"id": 3, "n": 30})
        return list(board)


def events(feed: Any, table: Any) -> list[Any]:
    with feed.cursor() as cursor:
        table.insert({"id": 3, "n": 30})
        return heard(cursor)


PLACES: dict[str, Callable[[Any, Any, Function], Any]] = {
    "map": lambda db, t, f: t.map(f).run(),
    "map and map": lambda db, t, f: t.map(f).map(lambda value: [value]).run(),
    "map and distinct": lambda db, t, f: t.map(f).distinct().run(),
    "map and count": lambda db, t, f: t.map(f).count().run(),
    "map of a feed's query": lambda db, t, f: followed(t.map(f), t),
    "map of a list": lambda db, t, f: listed(t.map(f).order_by(row), t),
    "map of what distinct tells": lambda db, t, f: followed(t.map(f).distinct(), t),
    "map after changes": lambda db, t, f: events(t.changes()["new_val"].map(f), t),
}
OF_DOCUMENTS: dict[str, Callable[[Any, Any, Function], Any]] = {
    "materialized table": lambda db, t, f: kept(db, t.map(f), t),
    "replace": lambda db, t, f: [t.replace(f), t.order_by("id").run()],
    "replace of one": lambda db, t, f: [t.get(1).replace(f), t.order_by("id").run()],
    "update": lambda db, t, f: [t.update(f), t.order_by("id").run()],
    "conflict of insert": lambda db, t, f: [
        t.insert({"id": 1, "m": 5}, conflict=lambda key, old, new: f(old)),
        t.order_by("id").run(),
    ],
}
OF_LISTS: dict[str, Callable[[Any, Any, Function], Any]] = {
    "concat_map": lambda db, t, f: t.concat_map(f).run(),
    "concat_map after changes": lambda db, t, f: events(t.changes()["new_val"].concat_map(f), t),
}
CASES = [
    *[(place, name) for place in PLACES for name in FUNCTIONS],
    *[(place, name) for place in OF_DOCUMENTS for name in DOCUMENTS],
    *[(place, "list") for place in OF_LISTS],
]


def fresh() -> tuple[Any, Any]:
    db = reactdb.connect(":memory:")
    table = db.table_create("t")
    table.insert([{"id": 1, "n": 10}, {"id": 2, "n": 20}])
    return db, table


@pytest.mark.parametrize(("place", "name"), CASES)
def test_an_expression_that_a_function_returns_is_computed(place: str, name: str) -> None:
    do = {**PLACES, **OF_DOCUMENTS, **OF_LISTS}[place]
    returning, computing = FUNCTIONS[name]

    assert do(*fresh(), computing) == do(*fresh(), returning)


@pytest.mark.parametrize("default", [False, True])
def test_a_condition_that_a_function_returns_is_tested_with_the_default_of_the_filter(default: bool) -> None:
    """A missing field counts as it does for the condition itself, in queries, feeds, and the writes of a selection."""
    _, table = fresh()
    table.insert({"id": 3})

    def condition(document: Any) -> Any:
        return row["n"] > 10

    selection = table.filter(condition, default=default)
    wanted = table.filter(row["n"] > 10, default=default)
    told = followed(selection.order_by("id").limit(9), fresh_row(table, 4))
    table.get(4).delete()

    assert wanted.run() == selection.run()
    assert [{"new_val": document} for document in wanted.run()] == told[: wanted.count().run()]
    assert wanted.count().run() == selection.delete()["deleted"]


def fresh_row(table: Any, key: int) -> Any:
    """A table as `followed` writes to it, whose document has another key and does not pass."""

    class Writer:
        def insert(self, document: Any) -> None:
            table.insert({"id": key, "n": 0})

    return Writer()


def test_a_condition_after_changes_is_tested_on_the_event() -> None:
    _, table = fresh()
    with table.changes().filter(lambda event: row["new_val"]["n"] > 5).cursor() as cursor:
        table.insert([{"id": 3, "n": 5}, {"id": 4, "n": 6}, {"id": 5}])

        assert [4] == [event["new_val"]["id"] for event in heard(cursor)]


def test_what_is_missing_for_a_returned_expression_is_an_error_as_for_the_expression() -> None:
    _, table = fresh()
    for selection in (table.map(row["missing"]), table.map(lambda document: row["missing"])):
        with pytest.raises(MissingValue, match="missing"):
            selection.run()


def test_a_literal_that_a_map_returns_is_refused() -> None:
    with pytest.raises(QueryError, match="literal"):
        fresh()[1].map(lambda document: literal(1)).run()


def test_the_row_of_a_conflict_is_the_stored_document() -> None:
    _, table = fresh()
    table.insert(
        {"id": 1, "n": 5},
        conflict=lambda key, old, new: {"id": key, "sum": row["n"] + new["n"], "r": r.expr(new)["n"]},
    )

    assert {"id": 1, "sum": 15, "r": 5} == table.get(1).run()


def test_the_row_of_a_replace_of_nothing_is_null() -> None:
    _, table = fresh()
    table.get(7).replace(lambda document: {"id": 7, "n": row["n"].default(0) + 1})

    assert {"id": 7, "n": 1} == table.get(7).run()


def test_a_default_after_changes_may_hold_expressions() -> None:
    _, table = fresh()
    with table.changes()["old_val"].default({"x": r.expr(1) + 1}).cursor() as cursor:
        table.insert({"id": 3})

        assert [{"x": 2}] == heard(cursor)


def test_feeds_of_one_function_share_a_view() -> None:
    """What the function returns is computed by the view; so the function itself still says whether two queries are equal."""
    _, table = fresh()

    def function(document: Any) -> Any:
        return row["n"]

    with table.map(function).changes().cursor() as one, table.map(function).changes().cursor() as other:
        views = table._session.engine.publisher.listener.open_views
        table.insert({"id": 3, "n": 3})

        assert 1 == len(views)
        assert heard(one) == heard(other) == [{"old_val": None, "new_val": 3}]
