"""A subscription is in one of five states, and a table says which may follow which."""

from __future__ import annotations

from typing import Any

import pytest

from reactdb.feeds.hub import hub_of
from reactdb.feeds.subscription import MOVES, State, Subscription
from reactdb.session import session_of


def only(db: Any) -> Subscription:
    (found,) = hub_of(session_of(db).engine).subscriptions()
    return found


@pytest.mark.parametrize("begin", MOVES)
@pytest.mark.parametrize("to", MOVES)
def test_a_move_that_is_not_in_the_table_changes_nothing(
    db: Any, games: Any, begin: State, to: State
) -> None:
    with games.changes().cursor():
        subscription = only(db)
        subscription.state = begin

        assert (to in MOVES[begin]) is subscription._move(to)
        assert (to if to in MOVES[begin] else begin) == subscription.state
        subscription.state = "live"


def test_what_has_ended_can_only_be_closed_and_that_is_for_good() -> None:
    assert {"closed"} == MOVES["ended"]
    assert not MOVES["closed"]


def test_a_feed_that_begins_with_nothing_is_live_at_once(db: Any, games: Any) -> None:
    with games.changes().cursor():
        assert only(db).state == "live"


def test_a_feed_is_live_when_it_was_told_how_it_begins(db: Any, games: Any) -> None:
    games.insert({"id": 1})
    with games.changes(include_initial=True, include_states=True).cursor() as cursor:
        states = []
        for _ in range(3):
            states.append(only(db).state)
            next(cursor)
        games.insert({"id": 2})
        next(cursor)

        assert ["opening"] * 3 == states
        assert only(db).state == "live"


def test_a_feed_is_behind_until_it_has_read_the_log(db: Any, games: Any) -> None:
    games.insert({"id": 1})
    with games.changes(since=0).cursor() as cursor:
        assert only(db).state == "behind"
        next(cursor)
        with pytest.raises(TimeoutError):
            cursor.next(timeout=0)

        assert only(db).state == "live"


def test_a_feed_whose_queue_is_full_falls_behind_and_comes_back(db: Any, games: Any) -> None:
    with games.changes(changefeed_queue_size=1, on_overflow="spill").cursor() as cursor:
        subscription = only(db)
        games.insert([{"id": number} for number in range(3)])
        assert subscription.state == "behind"

        assert [0, 1, 2] == [cursor.next(timeout=1)["new_val"]["id"] for _ in range(3)]
        with pytest.raises(TimeoutError):
            cursor.next(timeout=0)
        assert subscription.state == "live"


def test_a_feed_that_ended_is_told_what_is_queued_and_is_then_closed(db: Any, games: Any) -> None:
    with games.changes().cursor() as cursor:
        subscription = only(db)
        games.insert({"id": 1})
        db.table_drop("games")
        assert subscription.state == "ended"

        assert next(cursor)["new_val"] == {"id": 1}
        with pytest.raises(Exception, match="unavailable"):
            next(cursor)
        assert subscription.state == "closed"
