"""Any step after any other: a feed gives what the query gives, and a query that is refused is refused by both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import reactdb
from reactdb import row
from reactdb.values.codec import same

HEADS: dict[str, Callable[[Any, Any], Any]] = {
    "table": lambda t, u: t,
    "get": lambda t, u: t.get(1),
    "between": lambda t, u: t.between(1, 4),
    "filter": lambda t, u: t.filter(row["a"] > 0),
    "map": lambda t, u: t.map({"id": row["id"], "a": row["b"]}),
    "order": lambda t, u: t.order_by("b"),
    "limit": lambda t, u: t.order_by("b").limit(3),
    "union": lambda t, u: t.union(u),
    "distinct": lambda t, u: t.distinct("a"),
    "group": lambda t, u: t.group("a"),
    "group_count": lambda t, u: t.group("a").count(),
    "count": lambda t, u: t.count(),
    "min": lambda t, u: t.min("b"),
}
TAILS: dict[str, Callable[[Any, Any], Any]] = {
    "between": lambda s, u: s.between(2, 5),
    "filter": lambda s, u: s.filter({"a": 1}),
    "map": lambda s, u: s.map({"z": row["a"]}),
    "pluck": lambda s, u: s.pluck("a"),
    "field": lambda s, u: s["a"],
    "has_fields": lambda s, u: s.has_fields("a"),
    "order": lambda s, u: s.order_by("a"),
    "limit": lambda s, u: s.limit(2),
    "skip": lambda s, u: s.skip(2),
    "count": lambda s, u: s.count(),
    "sum": lambda s, u: s.sum("a"),
    "max": lambda s, u: s.max("a"),
    "distinct": lambda s, u: s.distinct("a"),
    "group": lambda s, u: s.group("b"),
    "union": lambda s, u: s.union(u),
    "union_distinct": lambda s, u: s.union(u.distinct("a")),
    "union_group": lambda s, u: s.union(u.group("a")),
    "union_get": lambda s, u: s.union(u.get(1)),
    "union_count": lambda s, u: s.union(u.count()),
    "union_max": lambda s, u: s.union(u.max("a")),
    "union_both": lambda s, u: s.union(u.union(u.distinct("a"))),
}


@pytest.fixture(scope="module")
def tables():
    with reactdb.connect(":memory:") as db:
        first, second = db.table_create("first"), db.table_create("second")
        first.insert([{"id": number, "a": number % 3, "b": number % 2} for number in range(6)])
        second.insert([{"id": number, "a": number % 2, "b": 7} for number in range(1, 4)])
        yield first, second


def told(selection: Any) -> list[Any]:
    """The initial values."""
    heard: list[dict[str, Any]] = []
    errors: list[Exception] = []
    selection.changes(include_initial=True).subscribe(heard.append, errors.append).dispose()
    if errors:
        raise errors[0]
    return [
        {"group": event["group"], "reduction": event["new_val"]} if "group" in event else event["new_val"]
        for event in heard
    ]


def flat(answer: Any) -> list[Any]:
    """An answer as a feed tells it: one value as a list of it, the documents of a group one by one."""
    found: list[Any] = []
    for one in answer if isinstance(answer, list) else [answer]:
        if isinstance(one, dict) and one.keys() == {"group", "reduction"}:
            parts = one["reduction"] if isinstance(one["reduction"], list) else [one["reduction"]]
            found += [{"group": one["group"], "reduction": part} for part in parts]
        else:
            found.append(one)
    return found


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("head", HEADS)
def test_what_can_be_watched_tells_what_is_answered(tables: Any, head: str, tail: str):
    first, second = tables

    def ask() -> Any:
        return TAILS[tail](HEADS[head](first, second), second)

    try:
        events = told(ask())
    except reactdb.errors.QueryError:
        return
    answer = flat(ask().run())

    assert len(answer) == len(events)
    for one in answer:
        place = next(place for place, event in enumerate(events) if same(event, one))
        del events[place]


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda t, u: t.count().filter({"a": 1}), "Cannot convert NUMBER to SEQUENCE"),
        (lambda t, u: t.avg("a").limit(1), "Cannot convert NUMBER to SEQUENCE"),
        (lambda t, u: t.group("a").sum("b").union(u), "Expected type TABLE_SLICE but found SEQUENCE."),
        (lambda t, u: t.min("a").pluck("a"), "Cannot convert OBJECT to SEQUENCE"),
        (lambda t, u: t.union(u.max("a")), "Cannot convert OBJECT to SEQUENCE"),
        (lambda t, u: t.union(u.get(1)), "Expected type SEQUENCE but found SINGLE_SELECTION."),
        (lambda t, u: t.get(1).union(u), "Expected type SEQUENCE but found SINGLE_SELECTION."),
        (lambda t, u: t.group("a").group("b"), "Cannot call `group` on the output of `group`."),
    ],
)
def test_a_step_that_makes_no_sense_there_is_refused_where_it_is_written(
    tables: Any, ask: Callable[[Any, Any], Any], sentence: str
):
    with pytest.raises(reactdb.errors.QueryError) as caught:
        ask(*tables)

    assert sentence == str(caught.value)


@pytest.mark.parametrize(
    "ask",
    [
        lambda t, u: t.distinct("a").union(u),
        lambda t, u: t.union(u.distinct("a")),
        lambda t, u: t.group("a").union(u),
        lambda t, u: t.union(u.union(t.distinct("a")), u),
    ],
)
def test_a_union_of_what_is_made_of_all_documents_is_not_watched(tables: Any, ask: Callable[[Any, Any], Any]):
    with pytest.raises(reactdb.UnsupportedFeed) as caught:
        ask(*tables).changes()

    assert "Cannot call `changes` on an eager stream." == str(caught.value)
