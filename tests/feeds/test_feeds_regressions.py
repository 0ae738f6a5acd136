"""Faults that the laws of feeds have found, each as small as it could be made."""

from __future__ import annotations

import threading
from decimal import Decimal
from typing import Any

import pytest
from reactivex.scheduler import VirtualTimeScheduler

import reactdb
from reactdb import desc, row
from reactdb.session import session_of
from tests.support.feed_kinds import little_room, prepare
from tests.support.feeds import heard

Event = dict[str, Any]


def put(table: Any, *documents: Any) -> None:
    for document in documents:
        table.insert(document, conflict="replace")


def test_a_squashed_union_with_a_limit_tells_of_all_that_left_it(games: Any) -> None:
    """Folding by the document that came lost the one that it pushed out, when it came twice."""
    put(games, {"id": 1, "a": 1}, {"id": 2, "a": 2})
    selection = games.order_by("a").limit(1).union(games.filter(row["a"] > 99))
    with selection.changes(squash=True).cursor() as cursor:
        put(games, {"id": 3, "a": 0}, {"id": 4, "a": -1})
        games.get(4).delete()
        games.get(3).delete()
        games.get(1).delete()

        assert [{"old_val": {"id": 1, "a": 1}, "new_val": {"id": 2, "a": 2}}] == heard(cursor)


def test_a_squashed_union_tells_nothing_where_its_limit_is_what_it_was(games: Any) -> None:
    put(games, {"id": 1, "a": 1})
    selection = games.order_by("a").limit(1).union(games.filter(row["a"] > 99))
    with selection.changes(squash=True).cursor() as cursor:
        put(games, {"id": 2, "a": 0})
        games.get(2).delete()

        assert [] == heard(cursor)


def test_a_mere_change_of_rank_in_a_union_is_not_told(games: Any) -> None:
    """A union of an ordered result and another told it as a change from one value to the same."""
    put(games, {"id": 1, "a": 1}, {"id": 2, "a": 2})
    selection = games.order_by("a").pluck("id").limit(2).union(games.filter(row["a"] > 99))
    with selection.changes().cursor() as cursor:
        put(games, {"id": 1, "a": 3})

        assert [] == heard(cursor)


def test_squashed_groups_of_a_limit_tell_of_all_that_left_them(games: Any) -> None:
    put(games, {"id": 1, "a": 1, "g": 0}, {"id": 2, "a": 2, "g": 0})
    with games.order_by("a").limit(1).group("g").changes(squash=True).cursor() as cursor:
        put(games, {"id": 3, "a": 0, "g": 0})
        games.get(3).delete()
        games.get(1).delete()
        left = [event["old_val"]["id"] for event in heard(cursor) if event["old_val"]]

        assert [1] == left


def test_squashed_groups_do_not_mix_the_places_of_one_document(games: Any) -> None:
    """A document with several entries in an index left one place for another that it had already."""
    games.index_create("tags", multi=True)
    put(games, {"id": 1, "g": 0, "tags": ["p", "q"]})
    selection = games.between("a", "z", index="tags").group("g")
    with selection.changes(squash=True).cursor() as cursor:
        put(games, {"id": 1, "g": 0, "tags": ["q", "r"], "v": 1})
        put(games, {"id": 1, "g": 0, "tags": ["p", "q"], "v": 2})
        counts = {-1: 0, 1: 0, 2: 0}
        for event in heard(cursor):
            if event["old_val"] is not None:
                counts[event["old_val"].get("v", -1)] -= 1
            if event["new_val"] is not None:
                counts[event["new_val"].get("v", -1)] += 1

        assert {-1: -2, 1: 0, 2: 2} == counts


def test_a_change_of_rank_that_nobody_asked_for_takes_no_room(games: Any) -> None:
    put(games, {"id": 1, "a": 1}, {"id": 2, "a": 2})
    selection = games.order_by("a").pluck("id").limit(3)
    with selection.changes(changefeed_queue_size=1).cursor() as cursor:
        put(games, {"id": 3, "a": 0}, {"id": 1, "a": 3}, {"id": 1, "a": 1})

        assert [{"old_val": None, "new_val": {"id": 3}}] == heard(cursor)


def test_a_document_that_changes_again_needs_no_more_room_in_a_squashing_feed(games: Any) -> None:
    put(games, {"id": 1, "a": 0})
    options: dict[str, Any] = {"squash": True, "changefeed_queue_size": 1, "on_overflow": "error"}
    with games.changes(**options).cursor() as cursor:
        put(games, {"id": 1, "a": 1}, {"id": 1, "a": 2})

        assert [{"old_val": {"id": 1, "a": 0}, "new_val": {"id": 1, "a": 2}}] == heard(cursor)


def test_nothing_told_means_that_nobody_has_to_wait_after_it(games: Any) -> None:
    """Of an ordered result: an interval without a net difference was counted as a batch."""
    clock = VirtualTimeScheduler(0.0)
    told: list[float] = []
    feed = games.order_by("a").limit(2).changes(squash=1)
    feed.subscribe(lambda event: told.append(round(clock.to_seconds(clock.now), 2)), scheduler=clock)
    put(games, {"id": 1, "a": 1})
    games.get(1).delete()
    clock.advance_to(1.5)
    put(games, {"id": 1, "a": 1})
    clock.advance_to(9.0)

    assert [1.5] == told


@pytest.mark.parametrize(
    "values",
    [(0.1, 0.2, 0.3), (1e16, 1.0, -1e16), (1, 0.5, None), (Decimal("0.1"), 0.2, 3), (float("inf"), 1, 2)],
    ids=str,
)
@pytest.mark.parametrize("word", ["sum", "avg"])
def test_a_total_that_is_kept_is_the_one_that_is_asked_for(
    games: Any, word: str, values: tuple[Any, ...]
) -> None:
    """To the last digit; asking added up floats from left to right."""
    selection = getattr(games, word)("a")
    with selection.changes(include_initial=True).cursor() as cursor:
        games.insert([{"id": number, "a": value} for number, value in enumerate(values)])
        games.insert({"id": 9, "a": 100})
        games.get(9).delete()

        assert repr(selection.run()) == repr(heard(cursor)[-1]["new_val"])


def test_initial_values_of_a_union_are_of_one_moment() -> None:
    """A commit that was not published yet was in the values of members without state, and was told once more."""
    with reactdb.connect(":memory:") as db:
        games = db.table_create("games")
        selection = games.order_by("a").limit(1).union(games.filter(row["a"] == 1))
        told: list[Event] = []
        selection.changes().subscribe(lambda event: None)
        thread = threading.Thread(target=games.insert, args=({"id": 1, "a": 1},))
        with session_of(db).engine.publisher.lock:
            thread.start()
            while db.seq == 0:
                pass
            selection.changes(include_initial=True).subscribe(told.append)
        thread.join()

        assert [{"id": 1, "a": 1}] * 2 == [event["new_val"] for event in told]


def test_a_squashed_list_in_which_equal_values_changed_places_is_what_it_was(games: Any) -> None:
    put(games, {"id": 1, "a": 1, "v": 5}, {"id": 2, "a": 2, "v": 5}, {"id": 3, "a": 3, "v": 6})
    values = games.order_by("a").map(row["v"])
    with values.changes(squash=True, include_offsets=True).cursor() as cursor:
        put(games, {"id": 1, "a": 2.5, "v": 5})

        assert [] == heard(cursor)

        put(games, {"id": 1, "a": 4, "v": 5})

        assert [{"old_val": 5, "new_val": 5, "old_offset": 1, "new_offset": 2}] == heard(cursor)


def test_who_resumes_hears_of_a_document_with_many_places_what_the_others_heard():
    """Though it holds fewer documents beyond the window than they do."""
    with little_room(), reactdb.connect(":memory:") as db:
        prepare(db)
        feed = db.table("games").get_all("p", "p", "p", index="tags").order_by("a").limit(2)
        with feed.changes(include_offsets=True, include_seq=True).cursor() as whole:
            games = db.table("games")
            games.insert({"id": 0})
            games.get(0).replace({"id": 0, "a": 0, "tags": ["p", "p"]})
            seq = db.seq
            games.get(0).replace({"id": 0})
            heard = [whole.next(timeout=0) for _ in range(4)]
            with pytest.raises(TimeoutError):
                whole.next(timeout=0)
        with feed.changes(include_offsets=True, include_seq=True, since=seq).cursor() as resumed:
            assert heard[2:] == [resumed.next(timeout=0) for _ in range(2)]


def test_a_document_that_changes_and_moves_is_all_that_a_squashed_list_tells_of(db):
    """Its neighbour, which it passes, was told to move out of its way."""
    games = db.table_create("games")
    games.index_create("a")
    games.insert([{"id": 1, "a": 0}, {"id": 2, "a": 0}])
    with games.order_by(index=desc("a")).changes(include_offsets=True, squash=True).cursor() as cursor:
        put(games, {"id": 1, "a": 1})

        (event,) = heard(cursor)
        assert (1, 1, 0) == (event["new_val"]["id"], event["old_offset"], event["new_offset"])
