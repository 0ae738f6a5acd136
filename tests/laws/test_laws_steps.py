"""Law of steps: steps mean the same wherever they are carried out.

Random steps over random documents are read as a selection, delivered as the initial values of a feed of that selection, applied
to the events of a feed, and run in the RethinkDB dialect: as a native query, over a stream, and over a feed. All give the same
elements in the same order, or all fail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import rethinkdb
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rethinkdb.errors import ReqlError, ReqlTimeoutError

import reactdb
from reactdb import row
from reactdb.testing import rethinkdb_connection
from reactdb.values.codec import same
from tests.support.scaling import examples

r = rethinkdb.RethinkDB()

# A step as a function of a sequence (a selection, a feed, a term of the driver) and of `row` in its language.
Step = Callable[[Any, Any], Any]

VALUES: list[Any] = [None, False, True, 0, 1, 2, "x", [1, 2], {"y": 1}]
DOCUMENTS = st.lists(
    st.fixed_dictionaries(
        {"id": st.integers(0, 30)},
        optional={
            "a": st.sampled_from([1, 1, 2, 3, *VALUES]),
            "b": st.sampled_from([1, 2, *VALUES]),
            "tags": st.lists(st.sampled_from(["p", "q", 1, None]), max_size=3),
        },
    ),
    max_size=8,
    unique_by=lambda document: document["id"],
).map(lambda documents: sorted(documents, key=lambda document: document["id"]))

CONDITIONS: list[Callable[[Any], Any]] = [
    lambda row: row["a"] > 1,
    lambda row: row["b"] == 1,
    lambda row: row["a"]["y"] == 1,
    lambda row: (row["a"] + 1) > 2,
    lambda row: row["tags"].contains("p"),
    lambda row: row.has_fields("b"),
]


def fails_for_a_number(s: Any, row: Any) -> Any:
    return s.filter(row["a"]["y"] == 1)


def expands(s: Any, row: Any) -> Any:
    return s.concat_map(row["tags"])


def takes_nothing(s: Any, row: Any) -> Any:
    return s.limit(0)


STEPS: list[Step] = [
    *[lambda s, row, c=c: s.filter(c(row)) for c in CONDITIONS],
    *[lambda s, row, c=c: s.filter(c(row), default=True) for c in CONDITIONS[:4]],
    lambda s, row: s.filter({"a": 1}),
    lambda s, row: s.has_fields("a"),
    lambda s, row: s.with_fields("id", "tags"),
    lambda s, row: s.pluck("id", "tags", {"a": "y"}),
    lambda s, row: s.without("a"),
    lambda s, row: s.merge({"c": row["id"]}),
    lambda s, row: s.map({"id": row["id"], "b": row["a"]}),
    expands,
    takes_nothing,
    lambda s, row: s.limit(2),
    lambda s, row: s.skip(1),
    lambda s, row: s[1:3],
]


class Outcome:
    """The elements; or that it failed, whatever the error is called there."""

    def __init__(self, ask: Callable[[], list[Any]]) -> None:
        self.elements: list[Any] | None = None
        try:
            self.elements = ask()
        except (reactdb.errors.QueryError, ReqlError):
            pass

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, Outcome)
        if self.elements is None or other.elements is None:
            return self.elements is other.elements
        return same(self.elements, other.elements)

    def __repr__(self) -> str:
        return "an error" if self.elements is None else repr(self.elements)


def told(feed: Any) -> list[Any]:
    """What a feed tells at once."""
    heard: list[Any] = []
    errors: list[Exception] = []
    feed.subscribe(heard.append, errors.append).dispose()
    if errors:
        raise errors[0]
    return heard


def fetched(query: Any, connection: Any) -> list[Any]:
    """What the dialect gives at once; a feed's cursor waits for more after that."""
    found = query.run(connection)
    if not hasattr(found, "next"):
        return list(found)
    elements = []
    while True:
        try:
            elements.append(found.next(wait=False))
        except (ReqlTimeoutError, StopIteration, rethinkdb.errors.ReqlCursorEmpty):
            found.close()
            return elements


@pytest.fixture(scope="module")
def database():
    with reactdb.connect(":memory:") as db, rethinkdb_connection(db) as connection:
        yield db.table_create("games"), connection


@settings(max_examples=examples(300))
@given(documents=DOCUMENTS, steps=st.lists(st.sampled_from(STEPS), max_size=4))
@example(documents=[{"id": 0, "a": 1}], steps=[fails_for_a_number, expands, takes_nothing])
def test_steps_mean_the_same_wherever_they_are_carried_out(database, documents, steps):
    table, connection = database
    table.delete()
    table.insert(documents)

    def through(sequence: Any, row: Any) -> Any:
        for step in steps:
            sequence = step(sequence, row)
        return sequence

    read = Outcome(lambda: through(table, row).run())
    games = r.table("games")

    assert read == Outcome(lambda: told(through(table.changes(include_initial=True)["new_val"], row)))
    assert read == Outcome(lambda: fetched(through(games, r.row), connection))
    stream = games.concat_map(lambda document: [document])
    assert read == Outcome(lambda: fetched(through(stream, r.row), connection))
    feed = games.changes(include_initial=True)["new_val"]
    assert read == Outcome(lambda: fetched(through(feed, r.row), connection))
    try:
        watched = through(table, row).changes(include_initial=True)
    except reactdb.UnsupportedFeed:
        return
    assert read == Outcome(lambda: [event["new_val"] for event in told(watched)])


def first_two_or_fail(sequence: Any) -> Any:
    return sequence.concat_map(lambda element: (1, 2, 3)).map(lambda number: 6 // (3 - number)).limit(2)


def test_what_comes_after_the_last_element_of_a_limit_is_not_computed(database):
    """The third number would fail."""
    table, _ = database
    table.delete()
    table.insert({"id": 1})

    assert [3, 6] == first_two_or_fail(table).run()
    assert [3, 6] == told(first_two_or_fail(table.changes(include_initial=True)))


def test_a_function_that_runs_out_of_something_does_not_end_the_answer(database):
    """Python's StopIteration of the function is not the end of the documents."""
    table, _ = database
    table.insert({"id": 1}, conflict="replace")

    with pytest.raises(RuntimeError):
        table.map(lambda document: next(iter([]))).run()
