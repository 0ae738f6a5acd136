"""Among values with the same sort key, feeds and queries both show the canonical one, whichever was stored first."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb.values.canonical import Spellings, plainest
from tests.support.replica import Replica, exactly
from tests.support.scaling import examples

SPELLINGS = [0, 0.0, -0.0, Decimal(0), 1, 1.0, Decimal(1), [1], [1.0], {"x": 1, "y": 0}, {"y": 0.0, "x": 1}]
STEPS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from([None, *SPELLINGS])), min_size=4, max_size=20)


def told(feed: Any) -> list[Any]:
    heard: list[Any] = []
    feed.subscribe(heard.append)
    return heard


def test_distinct_tells_when_a_plainer_spelling_comes(games: Any) -> None:
    games.insert({"id": 1, "a": 1.0})
    heard = told(games.distinct("a").changes(include_initial=True))

    games.insert({"id": 2, "a": 1})
    games.get(1).delete()

    assert [exactly(1)] == [exactly(value) for value in games.distinct("a").run()]
    assert [exactly({"new_val": 1.0}), exactly({"old_val": 1.0, "new_val": 1})] == [
        exactly(event) for event in heard
    ]


def test_a_group_under_a_plainer_name_is_another_group(games: Any) -> None:
    games.insert({"id": 1, "a": -0.0})
    heard = told(games.group("a").count().changes(include_initial=True))

    games.insert({"id": 2, "a": 0.0})

    assert [exactly({"group": 0.0, "reduction": 2})] == [exactly(g) for g in games.group("a").count().run()]
    assert [
        exactly({"group": -0.0, "new_val": 1}),
        exactly({"group": -0.0, "old_val": 1, "new_val": None}),
        exactly({"group": 0.0, "old_val": None, "new_val": 2}),
    ] == [exactly(event) for event in heard]


def test_the_answer_does_not_depend_on_the_order_of_documents(games: Any) -> None:
    games.insert([{"id": 1, "a": 1.0}, {"id": 2, "a": 1}, {"id": 3, "a": 1.0}])

    assert [exactly(1)] == [exactly(value) for value in games.distinct("a").run()]
    assert [exactly(1)] == [exactly(group["group"]) for group in games.group("a").run()]


ASKED: list[Callable[[Any], Any]] = [
    lambda t: t.distinct("a"),
    lambda t: t.group("a").count(),
    lambda t: t.group("a").max("id"),
]


@pytest.mark.parametrize("ask", ASKED, ids=["distinct", "group.count", "group.max"])
@pytest.mark.parametrize("squash", [False, True])
@settings(max_examples=examples(60))
@given(steps=STEPS, reads=st.lists(st.booleans(), min_size=20, max_size=20))
def test_a_feed_spells_as_its_query_does(
    ask: Callable[[Any], Any], squash: bool, steps: list[Any], reads: list[bool]
) -> None:
    """Law 1, where equal values are written in different ways and each way counts."""
    with reactdb.connect(":memory:") as db:
        games = db.table_create("games")
        replica = Replica()
        with ask(games).changes(squash=squash).cursor() as cursor:
            for (key, value), is_read in zip(steps, reads, strict=False):
                if value is None:
                    games.get(key).delete()
                else:
                    games.get(key).replace({"id": key, "a": value})
                if is_read:
                    while True:
                        try:
                            replica.apply(cursor.next(timeout=0))
                        except TimeoutError:
                            break
                    replica.assert_equals(entries(ask(games).run()))


def entries(answer: list[Any]) -> list[Any]:
    if answer and isinstance(answer[0], dict) and "reduction" in answer[0]:
        return [(exactly(one["group"]), exactly(one["reduction"])) for one in answer]
    return [(exactly(None), exactly(one)) for one in answer]


@given(st.lists(st.sampled_from([1, 1.0, Decimal(1), Decimal("1.0")]), min_size=1), st.data())
def test_spellings_show_the_plainest_of_those_that_are_there(values: list[Any], data: st.DataObject) -> None:
    found = Spellings()
    present: list[Any] = []
    for value in values:
        found.add(value)
        present.append(value)
        if data.draw(st.booleans()):
            place = data.draw(st.integers(0, len(present) - 1))
            found.remove(present.pop(place))
        if present:
            shown = present[0]
            for other in present:
                shown = plainest(shown, other)
            assert exactly(shown) == exactly(found.value)
        assert len(present) == found.count
