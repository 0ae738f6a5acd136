"""Tokens taken in the middle of initial values: by a cursor, in a callback, in asyncio; and the tokens that are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from reactivex.scheduler import VirtualTimeScheduler

import reactdb
from reactdb import desc, row
from reactdb.errors import HistoryDiverged, HistoryLost, InvalidOption, UsageError
from tests.support.feeds import heard

IN_ORDER: dict[str, Callable[[Any], Any]] = {
    "table": lambda t: t,
    "filter": lambda t: t.filter(row["id"] >= 0),
    "callable": lambda t: t.filter(lambda document: True),
    "map": lambda t: t.map(row["id"]),
    "between": lambda t: t.between(0, 9),
    "filter by index": lambda t: t.filter(row["a"] < 9),
    "index": lambda t: t.order_by(index="a"),
    "index turned round": lambda t: t.order_by(index=desc("a")),
    "key turned round": lambda t: t.order_by(index=desc("id")),
}
OTHERS: dict[str, Callable[[Any], Any]] = {
    "limit": lambda t: t.order_by(index="a").limit(5),
    "order": lambda t: t.order_by("a"),
    "get_all": lambda t: t.get_all(0, 1, 2, 3, 4),
    "group": lambda t: t.group("id"),
    "groups": lambda t: t.group("id").count(),
    "distinct": lambda t: t.distinct("id"),
    "union": lambda t: t.between(0, 2).union(t.between(2, 9)),
}


@pytest.fixture
def five(games):
    games.index_create("a")
    games.insert([{"id": number, "a": number % 3} for number in range(5)])
    return games


@pytest.mark.parametrize("ask", IN_ORDER.values(), ids=IN_ORDER)
def test_a_token_among_the_initial_values_leads_to_the_rest_of_them(db, five, ask):
    """Of the moment at which they began, whatever was written since; then the changes."""
    expected = heard(ask(five).changes(include_initial=True).cursor())
    for told in range(6):
        with ask(five).changes(include_initial=True).cursor() as cursor:
            before = [cursor.next(timeout=0) for _ in range(told)]
            token = cursor.token
        seq = db.seq
        five.insert({"id": 2.5, "a": 1})
        five.get(2.5).delete()

        with ask(five).changes(since=token, include_seq=True).cursor() as cursor:
            after = heard(cursor)
            initial = [event for event in after if "old_val" not in event]
            assert {seq} >= {event["seq"] for event in initial}
            assert expected == before + [{"new_val": event["new_val"]} for event in initial]
            assert [seq + 1, seq + 2] == [event["seq"] for event in after[len(initial) :]]
            assert db.token == cursor.token


@pytest.mark.parametrize("ask", OTHERS.values(), ids=OTHERS)
def test_where_the_rest_cannot_be_told_there_is_no_token_before_the_last_of_them(db, five, ask):
    feed = ask(five).changes(include_initial=True)
    assert feed.token is None
    with feed.cursor() as cursor:
        for _ in range(5):
            assert cursor.token is None
            assert feed.token is None
            cursor.next(timeout=0)

        assert db.token == cursor.token == feed.token
    assert db.token == cursor.token


@pytest.mark.parametrize("ask", [lambda t: t.count(), lambda t: t.get(1), lambda t: t.max("a")])
def test_the_one_initial_value_of_a_feed_brings_the_token_with_it(db, five, ask):
    with ask(five).changes(include_initial=True).cursor() as cursor:
        assert cursor.token is None
        cursor.next(timeout=0)

        assert db.token == cursor.token


@pytest.mark.parametrize("ask", [lambda t: t, lambda t: t.order_by("a").limit(2), lambda t: t.get_all(1)])
def test_where_there_are_no_initial_values_the_token_is_there_when_that_is_known(db, games, ask):
    with ask(games).changes(include_initial=True).cursor() as cursor:
        assert [] == heard(cursor)

        assert db.token == cursor.token


def test_no_subscription_yet_means_to_begin_anew_where_initial_values_were_asked_for(db, five):
    assert five.changes(include_initial=True).token is None
    assert db.token == five.changes().token


@pytest.mark.parametrize("scheduler", [None, VirtualTimeScheduler])
def test_a_token_in_a_callback_covers_the_value_and_no_other(db, five, scheduler):
    tokens: list[str | None] = []
    feed = five.changes(include_initial=True)
    clock = None if scheduler is None else scheduler()
    feed.subscribe(lambda _: tokens.append(feed.token), scheduler=clock)
    if clock is not None:
        clock.advance_by(1)

    for told, token in enumerate(tokens, 1):
        with five.changes(since=token).cursor() as cursor:
            assert list(range(told, 5)) == [event["new_val"]["id"] for event in heard(cursor)]


def test_a_token_in_a_callback_of_a_limit_is_none_before_the_last(db, five):
    tokens: list[str | None] = []
    feed = five.order_by("a").limit(3).changes(include_initial=True)
    feed.subscribe(lambda _: tokens.append(feed.token))

    assert [None, None, db.token] == tokens


def test_a_token_of_asyncio_leads_to_the_rest_too(five):
    async def some() -> str | None:
        cursor = aiter(five.changes(include_initial=True))
        await anext(cursor)
        await anext(cursor)
        await cursor.aclose()
        return cursor.token

    with five.changes(since=asyncio.run(some())).cursor() as cursor:
        assert [2, 3, 4] == [event["new_val"]["id"] for event in heard(cursor)]


@pytest.mark.parametrize("is_pushed", [False, True])
def test_items_that_a_term_makes_of_one_initial_value_are_told_again_from_the_first(five, is_pushed):
    """Between them, the token stands before the value."""
    feed = five.changes(include_initial=True).concat_map(
        lambda event: [[event["new_val"]["id"], part] for part in "xy"]
    )
    tokens: list[tuple[Any, str | None]] = []
    if is_pushed:
        feed.subscribe(lambda item: tokens.append((item, feed.token)))
    else:
        with feed.cursor() as cursor:
            for _ in range(10):
                item = cursor.next(timeout=0)
                tokens.append((item, cursor.token))

    assert 10 == len(tokens)
    for (number, part), token in tokens:
        with five.changes(since=token).cursor() as cursor:
            left = list(range(number if part == "x" else number + 1, 5))
            assert left == [event["new_val"]["id"] for event in heard(cursor)]


def test_items_that_a_term_makes_of_one_change_are_told_again_from_the_first_in_a_callback_too(games):
    feed = games.changes().concat_map(lambda event: [[event["new_val"]["id"], part] for part in "xy"])
    tokens: list[tuple[Any, str]] = []
    others: list[Any] = []
    feed.subscribe(lambda item: tokens.append((item, feed.token)))
    for number in range(3):
        if number == 2:
            # From now on several are told together.
            feed.subscribe(others.append)
        games.insert({"id": number})

    for (number, part), token in tokens[:4]:
        with games.changes(since=token).cursor() as cursor:
            left = list(range(number if part == "x" else number + 1, 3))
            assert left == [event["new_val"]["id"] for event in heard(cursor)]


def test_a_token_of_a_union_of_feeds_is_none_until_the_last_initial_value_of_all(db, five):
    feeds = [five.between(0, 2), five.between(2, 9)]
    united = feeds[0].changes(include_initial=True).union(feeds[1].changes(include_initial=True))
    with united.cursor() as cursor:
        for _ in range(5):
            assert cursor.token is None
            cursor.next(timeout=0)
        assert [] == heard(cursor)

        assert db.token == cursor.token


def test_a_union_of_feeds_of_two_databases_has_no_token(db, games):
    with reactdb.connect(":memory:") as other:
        united = games.changes().union(other.table_create("games").changes())
        with united.cursor() as cursor:
            for ask in (lambda: cursor.token, lambda: united.token):
                with pytest.raises(UsageError, match=r"several databases has no token"):
                    ask()


def test_a_union_that_ended_with_an_error_stands_where_that_member_stood(games):
    feed = games.changes(changefeed_queue_size=2, on_overflow="error")
    with feed.union(games.filter(row["id"] > 1).changes()).cursor() as cursor:
        for number in range(6):
            games.insert({"id": number})
        told = [cursor.next(timeout=0)["new_val"]["id"] for _ in range(2)]
        with pytest.raises(reactdb.FeedOverflow):
            while True:
                told.append(cursor.next(timeout=0)["new_val"]["id"])
    with games.changes(since=cursor.token).cursor() as resumed:
        assert list(range(6)) == sorted({*told, *(event["new_val"]["id"] for event in heard(resumed))})


def test_states_of_a_feed_that_goes_on_among_its_initial_values(five):
    with five.changes(include_initial=True).cursor() as cursor:
        for _ in range(3):
            cursor.next(timeout=0)
        token = cursor.token
    five.insert({"id": 5})

    with five.changes(since=token, include_states=True, include_types=True).cursor() as cursor:
        assert [
            {"state": "initializing", "type": "state"},
            {"new_val": {"id": 3, "a": 0}, "type": "initial"},
            {"new_val": {"id": 4, "a": 1}, "type": "initial"},
            {"state": "catching_up", "type": "state"},
            {"old_val": None, "new_val": {"id": 5}, "type": "add"},
            {"state": "ready", "type": "state"},
        ] == heard(cursor)


def token_after_two(selection: Any) -> str:
    with selection.changes(include_initial=True).cursor() as cursor:
        cursor.next(timeout=0)
        cursor.next(timeout=0)
        token = cursor.token
    assert isinstance(token, str)
    return token


def test_another_filter_may_go_on_there_and_another_order_may_not(db, five):
    token = token_after_two(five)
    by_index = token_after_two(five.order_by(index="a"))

    with five.filter(row["id"] != 3).changes(since=token).cursor() as cursor:
        assert [2, 4] == [event["new_val"]["id"] for event in heard(cursor)]
    others = db.table_create("others")
    for selection in (
        five.order_by(index="a"),
        five.order_by(index=desc("id")),
        five.order_by("a").limit(2),
        five.count(),
        five.get(1),
        others,
        db,
    ):
        with pytest.raises(HistoryDiverged, match=r"another query.*begin again with include_initial=True"):
            selection.changes(since=token)
    with pytest.raises(HistoryDiverged, match=r"another query"):
        five.changes(since=by_index)


def test_an_index_that_was_made_anew_is_another_order(five):
    token = token_after_two(five.order_by(index="a"))
    five.index_drop("a")
    five.index_create("a", row["id"] % 2)

    with pytest.raises(HistoryDiverged, match=r"made again: begin again"):
        five.order_by(index="a").changes(since=token)


def test_what_retention_has_removed_is_refused(db, five):
    token = token_after_two(five)
    five.insert({"id": 5})
    db.compact(keep=0)

    with pytest.raises(HistoryLost):
        five.changes(since=token)


def test_a_table_that_was_dropped_meanwhile_is_told_as_it_was_and_ends_the_feed(db, five):
    token = token_after_two(five)
    db.table_drop("games")
    with five.changes(since=token).cursor() as cursor, pytest.raises(reactdb.errors.FeedAborted):
        # Nothing was written between the token and the end of the table.
        while True:
            cursor.next(timeout=0)
    again = db.table_create("games")
    again.insert([{"id": number} for number in range(5)])
    token = token_after_two(again)
    again.insert({"id": 5})
    feed = again.changes(since=token)
    db.table_drop("games")
    with feed.cursor() as cursor:
        found = []
        with pytest.raises(reactdb.errors.FeedAborted):
            while True:
                found.append(cursor.next(timeout=0))
    assert [2, 3, 4] == [event["new_val"]["id"] for event in found if "old_val" not in event]


def test_a_long_value_of_an_index_is_put_into_no_token(db, five):
    """A token is kept where there is little room, such as a header."""
    five.insert({"id": 9, "a": "x" * 5_000})
    with five.order_by(index=desc("a")).changes(include_initial=True).cursor() as cursor:
        cursor.next(timeout=0)
        assert cursor.token is None
        cursor.next(timeout=0)

        token = cursor.token
        assert token is not None
        assert len(token) < 500


@pytest.mark.parametrize(
    "change",
    [
        lambda token: token + "x",
        lambda token: token[:-1],
        lambda token: token + "-",
        lambda token: token + "-00-00",
        lambda token: token.replace("-", "."),
        lambda token: token.upper(),
        lambda token: token + "0" * 30_000,
        lambda token: token.rpartition(".")[0] + ".",
        lambda token: token + "é",
    ],
)
def test_what_is_no_place_is_refused(five, change):
    with pytest.raises((InvalidOption, HistoryDiverged)):
        five.changes(since=change(token_after_two(five)))


@pytest.mark.parametrize("is_late", [False, True])
def test_many_documents_are_gone_on_with_a_page_at_a_time(tmp_path, is_late):
    """Also where so much was written since that the past is not the present."""
    with reactdb.connect(tmp_path / "x.db", durability="soft") as db:
        games = db.table_create("games")
        games.insert([{"id": number} for number in range(3_000)])
        with games.changes(include_initial=True).cursor() as cursor:
            for _ in range(1_000):
                cursor.next(timeout=0)
            token = cursor.token
        if is_late:
            games.between(500, 1_700).delete()
            games.insert([{"id": number + 0.5} for number in range(900, 1_100)])

        with games.changes(since=token).cursor() as cursor:
            found = [cursor.next(timeout=0)["new_val"]["id"] for _ in range(2_000)]
            assert list(range(1_000, 3_000)) == found
            assert (1_400 if is_late else 0) == len(heard(cursor))
