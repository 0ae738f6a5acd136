"""How a change finds the feeds that it concerns, and that it finds no others."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb import desc, row
from reactdb.session import session_of


@pytest.fixture
def games(db: reactdb.Database) -> reactdb.Table:
    games = db.table_create("games")
    games.index_create("score")
    games.insert([{"id": number, "score": number} for number in range(200)])
    return games


def listen(selection: Any) -> list[Any]:
    heard: list[Any] = []
    selection.changes().subscribe(heard.append)
    return heard


def look(games: Any, order: Any, limit: int) -> tuple[list[Any], list[Any]]:
    """What a window is told, and the keys of the documents that it looks at from now on."""
    looked: list[Any] = []

    def note(document: Any) -> bool:
        if document["id"] not in looked:
            looked.append(document["id"])
        return True

    heard = listen(games.order_by(index=order).filter(note).limit(limit))
    looked.clear()
    return heard, looked


@pytest.mark.parametrize("order", [desc("score"), "score"])
def test_a_window_is_not_asked_about_documents_beyond_what_it_holds(games, order):
    heard, looked = look(games, order, 3)

    games.get(100).update({"score": 100.5})

    assert looked == []
    assert heard == []


def test_a_window_by_key_is_not_asked_about_keys_beyond_what_it_holds(games):
    heard, looked = look(games, "id", 3)

    games.get(100).update({"score": 1})
    games.get(1).update({"score": 7})

    assert looked == [1]
    assert [event["new_val"]["score"] for event in heard] == [7]


def test_a_window_hears_of_a_document_that_comes_from_beyond_and_of_one_that_goes_there(games):
    heard = listen(games.order_by(index=desc("score")).limit(2))

    games.get(0).update({"score": 1_000})
    games.get(0).update({"score": 0})

    assert [(event["old_val"]["id"], event["new_val"]["id"]) for event in heard] == [(198, 0), (0, 198)]


def test_a_window_that_runs_short_looks_further_afterwards(games):
    heard, looked = look(games, desc("score"), 2)

    games.between(100, 200).delete()
    looked.clear()
    games.get(99).update({"score": -1})
    games.get(10).update({"score": 10.5})

    assert looked[0] == 99
    assert 10 not in looked
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

    assert session_of(db).engine.publisher.listener.is_clean


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.floats(), st.text("ab", max_size=2), st.just({"x": 1})
)
documents = st.fixed_dictionaries(
    {}, optional={"a": scalars, "b": scalars, "tags": st.one_of(scalars, st.lists(scalars, max_size=3))}
)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.none() | documents), min_size=1, max_size=8), st.booleans())
def test_feeds_are_found_by_what_the_writer_knows_as_by_what_the_documents_say(writes, is_bulk):
    """The writer notes the values that a document has in each index. The log has no such notes, so a feed that reads the same
    changes from there works them out."""
    with reactdb.connect(":memory:") as db:
        games = db.table_create("games")
        games.index_create("a")
        games.index_create("ab", [row["a"], row["b"]])
        games.index_create("tags", multi=True)
        bounds = (True, 0), (0, 1), (1, "b"), ("b", {"x": 2})
        parts = [
            *(games.get_all(value, index=index) for index in ("a", "tags") for value in (1, True, "a")),
            *(games.between(*pair, index=index) for index in ("a", "tags") for pair in bounds),
            *(games.between([low], [high], index="ab") for low, high in bounds),
            games.get_all([1, 1], index="ab"),
            *(games.order_by(index=index).limit(2) for index in ("a", "ab", "tags")),
        ]
        start = db.seq
        live = [part.changes().cursor() for part in parts]
        if is_bulk:
            games.insert([{"id": place, **(body or {})} for place, (_, body) in enumerate(writes)])
        else:
            for key, body in writes:
                games.get(key).replace(None if body is None else {"id": key, **body})

        for part, cursor in zip(parts, live, strict=True):
            later = part.changes(since=start).cursor()
            assert repr(drained(cursor)) == repr(drained(later)), part


def drained(cursor: Any) -> list[Any]:
    found = []
    try:
        while True:
            found.append(cursor.next(timeout=0))
    except TimeoutError:
        return found
