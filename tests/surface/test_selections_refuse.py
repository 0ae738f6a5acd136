"""A selection is a query and a feed is a stream: neither can be mistaken for its result."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import reactivex
from reactivex import operators as ops

import reactdb
from reactdb import row
from reactdb.errors import NotAValue

SELECTIONS: dict[str, Callable[[Any], Any]] = {
    "table": lambda t: t,
    "get": lambda t: t.get(1),
    "get_all": lambda t: t.get_all(1, 2),
    "filter": lambda t: t.filter(row["a"] == 1),
    "order": lambda t: t.order_by("a").limit(1),
    "map": lambda t: t.map(row["a"]),
    "field": lambda t: t["a"],
    "count": lambda t: t.count(),
    "group": lambda t: t.group("a").count(),
    "union": lambda t: t.union(t),
}
MISTAKES: dict[str, Callable[[Any], Any]] = {
    "==": lambda s: s == 50,
    "== on the right": lambda s: [] == s,
    "== None": lambda s: s == None,  # noqa: E711
    "!=": lambda s: s != 0,
    "!= on the right": lambda s: 0 != s,
    "<": lambda s: s < 1,
    "<=": lambda s: s <= 1,
    ">": lambda s: s > 1,
    ">=": lambda s: s >= 1,
    "< on the right": lambda s: 1 < s,
    "bool": bool,
    "not": operator.not_,
    "and": lambda s: s and 1,
    "if": lambda s: 1 if s else 2,
    "len": len,
    "in": lambda s: {"id": 1} in s,
    "reversed": lambda s: reversed(s),
}


@pytest.mark.parametrize("make", SELECTIONS.values(), ids=SELECTIONS)
def test_a_selection_is_not_taken_for_its_answer(games: Any, make: Callable[[Any], Any]) -> None:
    selection = make(games)
    for name, mistake in MISTAKES.items():
        with pytest.raises(NotAValue, match=r"run\(\)"):
            pytest.fail(f"{name} gave {mistake(selection)!r}")


def test_the_sentences_say_what_to_write(games: Any) -> None:
    def said(mistake: Callable[[], Any]) -> str:
        with pytest.raises(NotAValue) as caught:
            mistake()
        return str(caught.value)

    assert [
        "a selection is a query and no result: compare the result of run(), as in `selection.run() == ...`",
        "a selection is a query and no result: test the result of run(), as in `if selection.run():`",
        "a selection is a query and has no length: use count().run()",
        "a selection is a query and no result: look in the result of run(), as in `... in selection.run()`",
    ] == [
        said(lambda: games.count() == 50),
        said(lambda: bool(games.get(99))),
        said(lambda: len(games)),
        said(lambda: {"id": 1} in games),
    ]


def test_the_refusal_is_a_query_error_and_a_type_error(games: Any) -> None:
    """As for expressions; and Python asks for a length by itself, in `list`, and takes a TypeError for none."""
    assert issubclass(NotAValue, reactdb.errors.QueryError)
    assert issubclass(NotAValue, TypeError)


def test_a_selection_is_known_by_its_identity(games: Any) -> None:
    first, second = games.filter(row["a"] == 1), games.filter(row["a"] == 1)

    kept = {first: "first", second: "second", games: "table"}

    assert ["first", "second", "table"] == [kept[one] for one in (first, second, games)]
    assert 3 == len({first, second, games, first})
    assert first in [first, second]
    assert first is not second


def test_a_selection_is_still_what_is_looped_over(games: Any) -> None:
    games.insert([{"id": 1}, {"id": 2}])
    documents = [{"id": 1}, {"id": 2}]

    assert documents == list(games)
    assert documents == sorted(games, key=lambda document: document["id"])
    assert documents == [*games]
    assert tuple(documents) == tuple(games.order_by("id"))
    assert {1, 2} == set(games["id"])
    assert any(document["id"] == 2 for document in games)


def test_documents_can_be_inserted_from_a_selection(db: Any, games: Any) -> None:
    games.insert([{"id": 1}, {"id": 2}])

    db.table_create("copies").insert(games.filter(row["id"] > 1))

    assert [{"id": 2}] == db.table("copies").run()


def test_tables_of_one_database_are_united_and_those_of_two_are_not(db: Any, games: Any) -> None:
    games.insert({"id": 1})
    with reactdb.connect(":memory:") as another, pytest.raises(reactdb.UsageError):
        games.union(another.table_create("games"))

    assert 2 == games.union(games).count().run()


# ---------------------------------------------------------------------------------------------------------------
# Feeds


def test_a_feed_is_one_object(games: Any) -> None:
    first, second = games.changes(), games.changes()

    assert first == first
    assert first != second
    assert (first == second) is False
    assert first != reactivex.empty()
    assert first != None  # noqa: E711
    assert second in [first, second]
    assert 2 == len({first, second, first})


@pytest.mark.parametrize(
    "mistake",
    [
        lambda feed: feed == [],
        lambda feed: [] == feed,
        lambda feed: feed != [],
        lambda feed: feed == {"old_val": None, "new_val": {"id": 1}},
        lambda feed: feed != 0,
        len,
        lambda feed: {"id": 1} in feed,
    ],
)
def test_a_feed_is_not_taken_for_its_events(games: Any, mistake: Callable[[Any], Any]) -> None:
    """`in` would have waited for ever."""
    with pytest.raises(NotAValue, match="feed"):
        mistake(games.changes())


def test_a_feed_is_true_as_every_observable_is(games: Any) -> None:
    """Rx itself asks `other or reactivex.never()`."""
    heard: list[Any] = []
    feed = games.changes()

    assert bool(feed)
    assert bool(feed.filter(row["new_val"]["a"] == 1))
    feed.pipe(ops.timeout_with_mapper(reactivex.never(), lambda event: reactivex.never(), feed)).subscribe(
        heard.append
    )
    games.insert({"id": 1})

    assert [{"old_val": None, "new_val": {"id": 1}}] == heard


def test_a_bounded_feed_is_still_a_list(games: Any) -> None:
    """`list` asks for a length first."""
    games.insert([{"id": 1}, {"id": 2}])

    assert [{"new_val": {"id": 1}}, {"new_val": {"id": 2}}] == list(
        games.changes(include_initial=True).limit(2)
    )
