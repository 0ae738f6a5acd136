"""How a change finds the feeds that it concerns, and that it finds no others."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb import desc, row
from reactdb.change import Change, Commit
from reactdb.feeds.hub import FeedHub
from reactdb.feeds.views import window
from reactdb.feeds.views.axes import IndexAxis


@pytest.fixture
def games(db: reactdb.Database) -> reactdb.Table:
    games = db.table_create("games")
    games.index_create("score")
    games.insert([{"id": number, "score": number} for number in range(200)])
    return games


@pytest.fixture
def advanced(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The keys of the changes that windows had to look at."""
    keys: list[Any] = []
    advance = window.WindowView.advance

    def count(self: window.WindowView, change: Change, reader: Any) -> Any:
        keys.append(change.key)
        return advance(self, change, reader)

    monkeypatch.setattr(window.WindowView, "advance", count)
    return keys


def listen(selection: Any) -> list[Any]:
    heard: list[Any] = []
    selection.changes().subscribe(heard.append)
    return heard


@pytest.mark.parametrize("order", [desc("score"), "score"])
def test_a_window_is_not_asked_about_documents_beyond_what_it_holds(games, advanced, order):
    heard = listen(games.order_by(index=order).limit(3))

    games.get(100).update({"score": 100.5})

    assert advanced == []
    assert heard == []


def test_a_window_by_key_is_not_asked_about_keys_beyond_what_it_holds(games, advanced):
    heard = listen(games.order_by(index="id").limit(3))

    games.get(100).update({"score": 1})
    games.get(1).update({"score": 7})

    assert advanced == [1]
    assert [event["new_val"]["score"] for event in heard] == [7]


def test_a_window_hears_of_a_document_that_comes_from_beyond_and_of_one_that_goes_there(games, advanced):
    heard = listen(games.order_by(index=desc("score")).limit(2))

    games.get(0).update({"score": 1_000})
    games.get(0).update({"score": 0})

    assert advanced == [0, 0]
    assert [(event["old_val"]["id"], event["new_val"]["id"]) for event in heard] == [(198, 0), (0, 198)]


def test_a_window_that_runs_short_looks_further_afterwards(games, advanced):
    heard = listen(games.order_by(index=desc("score")).limit(2))

    games.between(100, 200).delete()
    advanced.clear()
    games.get(99).update({"score": -1})
    games.get(10).update({"score": 10.5})

    assert advanced == [99]
    assert heard[-1]["new_val"]["id"] == 97


def test_a_window_that_holds_all_that_is_left_hears_of_whatever_comes(games):
    heard = listen(games.order_by(index=desc("score")).limit(2))

    games.between(1, 200).delete()
    heard.clear()
    games.insert({"id": -1, "score": -1})
    games.insert({"id": -2, "score": -2})
    games.get(0).delete()

    assert [-1, -2] == [change["new_val"]["id"] for change in heard]


def test_a_count_of_a_window_and_a_union_of_windows_move_with_them(games):
    top = games.order_by(index=desc("score")).limit(2)
    total, both = listen(top.sum("score")), listen(top.union(games.order_by(index="score").limit(2)))

    games.between(50, 150).delete()
    games.between(150, 200).delete()
    games.get(49).update({"score": 500})

    assert total[-1] == {"old_val": 49 + 48, "new_val": 500 + 48}
    assert both[-1]["new_val"] == {"id": 49, "score": 500}


def test_explain_says_that_a_window_is_found_by_the_part_of_the_index_that_it_looks_at(games):
    routing = games.order_by(index="score").limit(2).changes().explain()["routing"]

    assert routing == "by the part of index score up to the window's end"


def test_nothing_is_left_of_the_routes_of_a_window_that_nobody_watches_any_more(db, games):
    subscription = games.order_by(index="score").limit(2).changes().subscribe(lambda event: None)
    games.between(0, 150).delete()

    subscription.dispose()

    assert db.session.engine.publisher.listener.is_clean


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.floats(), st.text("ab", max_size=2), st.just({"x": 1})
)
documents = st.fixed_dictionaries(
    {}, optional={"a": scalars, "b": scalars, "tags": st.one_of(scalars, st.lists(scalars, max_size=3))}
)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.none() | documents), min_size=1, max_size=8), st.booleans())
def test_the_writer_notes_the_values_that_the_documents_have_in_each_index(writes, is_bulk):
    """What feeds are found by without a look at the documents is what the documents would have said."""
    heard: list[Change] = []

    with reactdb.connect(":memory:") as db, pytest.MonkeyPatch.context() as patch:
        games = db.table_create("games")
        games.index_create("a")
        games.index_create("ab", [row["a"], row["b"]])
        games.index_create("tags", multi=True)
        indexes = list(next(iter(db.session.engine.catalogue.by_id.values())).indexes.values())
        route = FeedHub.route

        def listen_in(self: FeedHub, commit: Commit) -> None:
            heard.extend(commit)
            route(self, commit)

        patch.setattr(FeedHub, "route", listen_in)
        games.changes().subscribe(lambda event: None)
        if is_bulk:
            games.insert([{"id": place, **(body or {})} for place, (_, body) in enumerate(writes)])
        else:
            for key, body in writes:
                games.get(key).replace(None if body is None else {"id": key, **body})

        for change in heard:
            noted = [sorted(set(IndexAxis(index).values(change))) for index in indexes]
            change.places = None
            assert noted == [sorted(set(IndexAxis(index).values(change))) for index in indexes]
