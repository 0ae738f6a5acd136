"""Resuming a feed, falling behind, and losing the position."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from typing import Any

import pytest
from reactivex.scheduler import VirtualTimeScheduler

import reactdb
from reactdb import row
from reactdb.errors import FeedOverflow, HistoryDiverged, HistoryLost, InvalidOption
from reactdb.feeds.log_reader import LogReader, StateAt
from reactdb.feeds.views import window
from tests.support.feeds import heard, hub, listen

# ---------------------------------------------------------------------------------------------------------------
# since


def test_a_feed_goes_on_where_it_left_off(games):
    whole = listen(games.filter(row["a"] > 1).changes(include_seq=True))
    for number in range(10):
        games.insert({"id": number % 3, "a": number % 4}, conflict="replace")
    last = whole[-1]["seq"]

    for since in range(last + 1):
        again = listen(games.filter(row["a"] > 1).changes(since=since, include_seq=True))
        assert again == [event for event in whole if event["seq"] > since]


@pytest.mark.parametrize("squash", [False, True])
def test_the_token_after_an_event_is_past_it_also_while_others_are_still_being_told(db, games, squash):
    """Whoever keeps it with the event is not told the event again."""
    feed = games.changes(include_seq=True, squash=squash)
    found: list[tuple[int, int]] = []
    listener = hub(db)
    route = listener.route

    def look(commit: Any) -> None:
        """What a thread may do that polls while the commit is in the queue, and does not count as published."""
        route(commit)
        event = cursor.next(timeout=0)
        found.append((event["seq"], int(feed.token.rpartition(".")[2])))

    listener.route = look
    with feed.cursor() as cursor:
        for number in range(5):
            games.insert({"id": number})

    assert [(seq, seq) for seq in range(2, 7)] == found


def test_replay_goes_live_without_a_gap(games):
    games.insert([{"id": number} for number in range(1_500)])
    heard = listen(games.changes(since=0))

    games.insert({"id": "live"})

    assert [event["new_val"]["id"] for event in heard] == [*range(1_500), "live"]


def test_figures_of_a_feed_that_reads_the_log_are_of_its_reader(games):
    games.insert([{"id": number, "score": number} for number in range(2_000)])
    feed = games.order_by("score").limit(3).changes(since=0)

    with feed.cursor() as cursor:
        cursor.next(timeout=0)
        figures = feed.stats()

    assert figures["is_behind"]
    assert 3 <= figures["documents_held"]


def test_a_resumed_limit_tells_offsets_as_an_uninterrupted_one(games):
    games.insert([{"id": number, "score": number} for number in range(50)])
    selection = games.order_by("score").limit(3)
    since = reactdb.Database(games._session).seq
    whole = listen(selection.changes(include_offsets=True))
    games.filter(row["id"] < 45).delete()

    assert listen(selection.changes(include_offsets=True, since=since)) == whole
    assert len(whole) == 45


def test_a_token_moves_on_where_nothing_matched(db, games):
    feed = games.filter({"room": 1}).changes()
    listen(feed)
    before = feed.token

    games.insert({"id": 1, "room": 2})

    assert feed.token != before
    assert feed.token == db.token
    assert listen(games.filter({"room": 1}).changes(since=feed.token)) == []


def test_a_token_stays_before_what_was_not_told(db, games):
    feed = games.changes()
    with feed.cursor() as cursor:
        games.insert([{"id": 1}, {"id": 2}])
        cursor.next(timeout=0)
        token = feed.token

    assert [event["new_val"]["id"] for event in listen(games.changes(since=token))] == [2]


def test_a_token_within_on_next_covers_the_event(games):
    tokens: list[str] = []
    feed = games.changes()
    feed.subscribe(lambda _: tokens.append(feed.token))

    games.insert([{"id": 1}, {"id": 2}])

    assert [event["new_val"]["id"] for event in listen(games.changes(since=tokens[0]))] == [2]
    assert listen(games.changes(since=tokens[1])) == []


def test_a_token_outlives_the_process(tmp_path):
    with reactdb.connect(tmp_path / "a.db", durability="soft") as db:
        games = db.table_create("games")
        feed = games.changes()
        listen(feed)
        games.insert({"id": 1})
        token = feed.token
    with reactdb.connect(tmp_path / "a.db", durability="soft") as db:
        db.table("games").insert({"id": 2})

        assert [event["new_val"]["id"] for event in listen(db.table("games").changes(since=token))] == [2]


def test_a_token_can_be_asked_for_after_closing(tmp_path):
    with reactdb.connect(tmp_path / "a.db", durability="soft") as db:
        feed = db.table_create("games").changes()
        listen(feed)
        db.table("games").insert({"id": 1})
        expected = db.token

    assert feed.token == expected


@pytest.mark.parametrize("since", [True, -1, "", "garbage", "a.b", "a.b.-1", "a.b.c", 1.5, b"x", []])
def test_a_position_that_is_none(games, since):
    with pytest.raises(InvalidOption):
        games.changes(since=since)


def test_a_position_that_history_does_not_have(db, games):
    database, epoch, seq = db.token.split(".")
    for since in (5, f"{database}.{epoch}.{int(seq) + 1}", f"{database}.nope.0", f"other.{epoch}.0"):
        with pytest.raises(HistoryDiverged):
            games.changes(since=since)


def test_a_position_of_a_future_that_was_lost(tmp_path):
    """A backup is restored, and written to: the position was handed out in what is gone."""
    path, backup = tmp_path / "a.db", tmp_path / "backup.db"
    with reactdb.connect(path, durability="soft") as db:
        games = db.table_create("games")
        games.insert({"id": 1})
    backup.write_bytes(path.read_bytes())
    with reactdb.connect(path, durability="soft") as db:
        db.table("games").insert([{"id": 2}, {"id": 3}])
        token = db.token
    path.write_bytes(backup.read_bytes())
    with reactdb.connect(path, durability="soft") as db:
        db.table("games").insert([{"id": number} for number in range(10, 20)])

        with pytest.raises(HistoryDiverged):
            db.table("games").changes(since=token)


def test_a_position_that_was_compacted_away(db, games):
    for number in range(50):
        games.insert({"id": 1, "n": number}, conflict="replace")
    db.compact(keep=10)

    with pytest.raises(HistoryLost) as caught:
        games.changes(since=3)
    assert len(listen(games.changes(since=caught.value.oldest))) == db.seq - caught.value.oldest


def test_a_table_that_was_dropped_is_replayed_and_then_ends(db, games):
    games.insert({"id": 1})
    start = db.seq
    games.insert({"id": 2})
    db.table_drop("games")
    db.table_create("games").insert({"id": 3})

    *events, error = listen(db.table("games").changes(since=start))

    assert [event["new_val"]["id"] for event in events] == [2]
    assert str(error) == "Changefeed aborted (table unavailable)"


def test_states_of_a_resumed_feed(games):
    games.insert({"id": 1})

    assert listen(games.changes(since=0, include_states=True)) == [
        {"state": "catching_up"},
        {"old_val": None, "new_val": {"id": 1}},
        {"state": "ready"},
    ]
    assert listen(games.changes(since=2, include_states=True)) == [{"state": "ready"}]


def test_a_squashed_resumed_feed_tells_the_net_difference(games):
    games.insert([{"id": 1}, {"id": 2}])
    games.get(1).update({"a": 1})
    games.get(2).delete()

    assert listen(games.changes(since=0, squash=True)) == [{"old_val": None, "new_val": {"id": 1, "a": 1}}]


# ---------------------------------------------------------------------------------------------------------------
# Overflow


@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_the_newest_changes_stay_and_the_rest_is_counted(games, size):
    with games.changes(changefeed_queue_size=size).cursor() as cursor:
        games.insert([{"id": number} for number in range(10)])
        found = heard(cursor)
        games.insert({"id": 10})
        found += heard(cursor)

    assert found[0] == {"error": f"Changefeed cache over array size limit, skipped {10 - size} elements."}
    assert [event["new_val"]["id"] for event in found[1:]] == list(range(10 - size, 11))


def test_documents_that_a_squashing_queue_has_no_room_for_are_counted_too(games):
    with games.changes(squash=True, changefeed_queue_size=3).cursor() as cursor:
        games.insert([{"id": number} for number in range(10)])
        found = heard(cursor)

    assert found[0] == {"error": "Changefeed cache over array size limit, skipped 7 elements."}
    assert [event["new_val"]["id"] for event in found[1:]] == [7, 8, 9]


def test_a_queue_that_is_just_full_drops_nothing(games):
    with games.changes(changefeed_queue_size=5).cursor() as cursor:
        games.insert([{"id": number} for number in range(5)])

        assert len(heard(cursor)) == 5


def test_overflow_before_the_initial_values_were_read_is_told_after_them(games):
    games.insert([{"id": number} for number in range(3)])
    feed = games.changes(changefeed_queue_size=1, include_initial=True, include_states=True)
    with feed.cursor() as cursor:
        games.insert([{"id": 10}, {"id": 11}])
        found = heard(cursor)

    assert [event.get("state") for event in found] == ["initializing", None, None, None, "ready", None, None]
    assert found[5] == {"error": "Changefeed cache over array size limit, skipped 1 elements."}


def test_an_overflow_can_be_an_error(games):
    feed = games.changes(changefeed_queue_size=2, on_overflow="error")
    cursor = feed.cursor()
    games.insert([{"id": number} for number in range(5)])

    assert [cursor.next(timeout=0)["new_val"]["id"] for _ in range(2)] == [0, 1]
    with pytest.raises(FeedOverflow) as caught:
        cursor.next(timeout=0)
    assert caught.value.skipped == 3
    # What was seen is where one goes on.
    assert [event["new_val"]["id"] for event in listen(games.changes(since=feed.token))] == [2, 3, 4]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_a_spilling_feed_loses_and_doubles_nothing(games, size):
    feed = games.changes(changefeed_queue_size=size, on_overflow="spill", include_states=True)
    found: list[Any] = []
    with feed.cursor() as cursor:
        for start in range(0, 60, 20):
            games.insert([{"id": start + number} for number in range(20)])
            found += [cursor.next(timeout=0) for _ in range(5)]
        found += heard(cursor)

    assert [event["new_val"]["id"] for event in found if "state" not in event] == list(range(60))
    states = [event["state"] for event in found if "state" in event]
    assert states[:3] == ["ready", "catching_up", "ready"]


def test_a_spilling_limit_tells_every_step(games):
    selection = games.order_by("score").limit(3)
    whole = listen(selection.changes(include_offsets=True))
    with selection.changes(
        include_offsets=True, changefeed_queue_size=2, on_overflow="spill"
    ).cursor() as cursor:
        games.insert([{"id": number, "score": -number} for number in range(40)])
        games.filter(row["id"] > 5).delete()

        assert heard(cursor) == whole


# ---------------------------------------------------------------------------------------------------------------
# Other processes


def test_another_process_is_heard(tmp_path):
    with reactdb.connect(tmp_path / "a.db", durability="soft") as db:
        games = db.table_create("games")
        games.index_create("score")
        with games.order_by(index="score").limit(2).changes(include_offsets=True).cursor() as cursor:
            script = f"""
                import reactdb
                with reactdb.connect({str(tmp_path / "a.db")!r}, durability="soft") as db:
                    db.table("games").insert([{{"id": 1, "score": 2}}, {{"id": 2, "score": 1}}])
            """
            subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)

            assert [cursor.next(timeout=20)["new_offset"] for _ in range(2)] == [0, 0]


# ---------------------------------------------------------------------------------------------------------------
# Offsets and a queue that is full


def applied(events: list[Any]) -> list[Any]:
    """The list that somebody makes who follows the manual to the letter."""
    found: list[Any] = []
    for event in events:
        if event.get("old_offset") is not None:
            del found[event["old_offset"]]
        if event.get("new_offset") is not None:
            found.insert(event["new_offset"], event["new_val"])
    return found


ORDERED = {
    "limit": lambda games: games.order_by("a").limit(4),
    "no limit": lambda games: games.order_by("a"),
    "union": lambda games: games.order_by("a").limit(2).union(games.order_by(reactdb.desc("a")).limit(3)),
    "skip": lambda games: games.order_by("a").skip(1).limit(2),
}


@pytest.mark.parametrize("ask", ORDERED.values(), ids=ORDERED)
@pytest.mark.parametrize("squash", [False, True])
def test_a_list_made_from_offsets_is_the_answers_whatever_the_queue_can_hold(games, ask, squash):
    """Nobody asked for changes to be left out, and a list cannot do without any of them."""
    games.insert([{"id": number, "a": number} for number in range(5)])
    feed = ask(games).changes(
        include_initial=True, include_offsets=True, changefeed_queue_size=1, squash=squash
    )
    with feed.cursor() as cursor:
        for number in range(12):
            games.insert({"id": 10 + number, "a": -number if number % 2 else number / 2})
            games.get(number % 5).delete()

        assert ask(games).run() == applied(heard(cursor))
    assert "spill" == feed.explain()["on_overflow"]


def test_a_union_of_feeds_with_offsets_leaves_nothing_out_either(games):
    lists = [games.order_by("a").limit(2), games.order_by(reactdb.desc("a")).limit(2)]
    told: list[list[Any]] = [[], []]
    feeds = [
        one.changes(include_initial=True, include_offsets=True, changefeed_queue_size=1).merge(
            {"list": number}
        )
        for number, one in enumerate(lists)
    ]
    with feeds[0].union(feeds[1]).cursor() as cursor:
        for number in range(9):
            games.insert({"id": number, "a": (number * 5) % 9})
        for event in heard(cursor):
            told[event["list"]].append(event)

    assert [one.run() for one in lists] == [applied(events) for events in told]


def test_a_feed_with_offsets_drops_where_that_was_asked_for(games):
    """In so many words, by somebody who reads the error document and begins again."""
    feed = (
        games.order_by("a")
        .limit(2)
        .changes(include_offsets=True, changefeed_queue_size=1, on_overflow="drop")
    )
    with feed.cursor() as cursor:
        games.insert([{"id": number, "a": -number} for number in range(4)])

        assert {"error": "Changefeed cache over array size limit, skipped 3 elements."} == heard(cursor)[0]


def test_a_live_list_of_a_feed_that_drops_ends_and_says_so(games):
    feed = (
        games.order_by("a")
        .limit(2)
        .changes(include_initial=True, include_offsets=True, changefeed_queue_size=1, on_overflow="drop")
    )
    clock = VirtualTimeScheduler()
    board = reactdb.LiveList(feed, scheduler=clock)
    for number in range(4):
        games.insert({"id": number, "a": -number})
    clock.advance_by(1)

    assert isinstance(board.error, FeedOverflow)


def test_a_feed_without_offsets_drops_as_before(games):
    assert "drop" == games.changes().explain()["on_overflow"]
    assert "drop" == games.order_by("a").limit(2).changes().explain()["on_overflow"]


# ---------------------------------------------------------------------------------------------------------------
# A cursor's own token


def seq_of(token: str) -> int:
    return int(token.rpartition(".")[2])


def test_a_cursor_has_a_token_of_its_own(db, games):
    """`feed.token` is the newest subscription's, whichever that is."""
    feed = games.changes(include_seq=True)
    with feed.cursor() as first, feed.cursor() as second:
        games.insert([{"id": 1}, {"id": 2}, {"id": 3}])
        told = [second.next(timeout=1) for _ in range(2)]

        assert [event["seq"] for event in told][-1] == seq_of(second.token) == seq_of(feed.token)
        assert seq_of(first.token) == told[0]["seq"] - 1
        with games.changes(since=first.token).cursor() as resumed:
            assert 3 == len(heard(resumed))


def test_a_closed_cursor_keeps_its_token(db, games):
    cursor = games.changes().cursor()
    games.insert([{"id": 1}, {"id": 2}])
    cursor.next(timeout=1)
    token = cursor.token
    cursor.close()
    games.insert({"id": 3})

    assert token == cursor.token
    with games.changes(since=token).cursor() as resumed:
        assert [2, 3] == [event["new_val"]["id"] for event in heard(resumed)]


def test_a_change_of_which_a_part_was_taken_is_not_told(games):
    """A term made several items of one event: until the last is taken, the token stands before the change."""
    feed = games.changes().concat_map(lambda event: ["first", "second"])
    with feed.cursor() as cursor:
        before = cursor.token
        games.insert({"id": 1})

        assert "first" == cursor.next(timeout=1)
        assert before == cursor.token
        assert "second" == cursor.next(timeout=1)
        assert seq_of(before) + 1 == seq_of(cursor.token)


def test_an_async_cursor_has_a_token(games):
    async def first() -> tuple[int, int]:
        async with aiter(games.changes(include_seq=True)) as cursor:
            games.insert([{"id": 1}, {"id": 2}])
            event = await anext(cursor)
            return event["seq"], seq_of(cursor.token)

    seq, told = asyncio.run(first())

    assert seq == told


# ---------------------------------------------------------------------------------------------------------------
# Far behind


def test_a_limit_that_is_far_behind_goes_back_to_the_table_a_few_times_only(games, monkeypatch):
    """Each time, all that was missed has to be taken back: as often as once a page, and catching up would be quadratic."""
    games.index_create("a")
    games.insert([{"id": number, "a": number} for number in range(3_000)])
    asked: list[int] = []
    at = StateAt.at

    def count(state: StateAt, seq: int) -> Any:
        asked.append(seq)
        return at(state, seq)

    monkeypatch.setattr(StateAt, "at", count)
    monkeypatch.setattr(LogReader.read, "__defaults__", (32,))
    best = games.order_by(index="a").limit(2)
    with best.changes(changefeed_queue_size=1, on_overflow="spill", include_offsets=True).cursor() as cursor:
        board = best.run()
        for number in range(2_000):
            games.get(number).delete()
        asked.clear()
        for event in heard(cursor):
            del board[event["old_offset"]]
            board.insert(event["new_offset"], event["new_val"])

        assert best.run() == board
        assert len(asked) <= 5
        held = cursor._consumer.members[0].node.view.documents_held
        assert held <= 2 * (2 + window.SPARE)


def test_what_comes_while_a_feed_begins_is_bounded_too(games: Any) -> None:
    """It has a queue of its own until it was told how it begins."""
    games.insert({"id": "first"})
    with games.changes(include_initial=True, changefeed_queue_size=2).cursor() as cursor:
        games.insert([{"id": number} for number in range(5)])

        assert next(cursor) == {"new_val": {"id": "first"}}
        assert next(cursor) == {"error": "Changefeed cache over array size limit, skipped 3 elements."}
        assert [3, 4] == [next(cursor)["new_val"]["id"] for _ in range(2)]
