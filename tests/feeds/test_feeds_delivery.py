"""Delivery: to which subscribers, on which thread, and what happens when they misbehave."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from reactivex import operators as ops
from reactivex.scheduler import (
    CurrentThreadScheduler,
    EventLoopScheduler,
    ImmediateScheduler,
    ThreadPoolScheduler,
    VirtualTimeScheduler,
)
from reactivex.scheduler.eventloop import AsyncIOThreadSafeScheduler

import reactdb
from reactdb import row
from reactdb.clock import timers
from reactdb.feeds.consumers import PullConsumer
from reactdb.session import session_of
from reactdb.store.file import sqlite
from tests.support.feeds import hub, is_clean, listen
from tests.support.threads import wait_until

# ---------------------------------------------------------------------------------------------------------------
# On the committing thread


class LateTurn:
    """A dispatcher's turn during whose first release another thread commits: it finds the turn taken, and leaves."""

    def __init__(self, commit: Callable[[], None]) -> None:
        self._turn = threading.RLock()
        self._commit: Callable[[], None] | None = commit
        self.acquire, self._is_owned = self._turn.acquire, self._turn._is_owned  # type: ignore[attr-defined]

    def release(self) -> None:
        commit, self._commit = self._commit, None
        if commit is not None:
            other = threading.Thread(target=commit)
            other.start()
            other.join()
        self._turn.release()


def test_what_becomes_ready_while_the_turn_is_given_back_is_delivered_at_once(db):
    games, seen = db.table_create("games"), []
    games.changes().subscribe(lambda event: seen.append(event["new_val"]["id"]))
    hub(db).live.dispatcher._turn = LateTurn(lambda: games.insert({"id": 2}))

    games.insert({"id": 1})

    assert seen == [1, 2]


def test_the_committing_thread_tells_before_the_write_returns(games):
    threads: list[Any] = []
    games.changes().subscribe(lambda _: threads.append(threading.get_ident()))

    games.insert({"id": 1})

    assert threads == [threading.get_ident()]


def test_a_subscriber_that_raises_ends_its_own_feed_only(games, caplog):
    heard = listen(games.changes())
    errors: list[Any] = []

    def fail(_: Any) -> None:
        raise RuntimeError("mine")

    games.changes().subscribe(fail, errors.append)
    with caplog.at_level(logging.CRITICAL, "reactdb"):
        games.insert([{"id": 1}, {"id": 2}])

    assert len(heard) == 2
    assert [str(error) for error in errors] == ["mine"]


def test_the_only_subscriber_of_a_view_that_raises_ends_its_own_feed_only(games, caplog):
    errors: list[Any] = []

    def fail(_: Any) -> None:
        raise RuntimeError("mine")

    games.get(1).changes().subscribe(fail, errors.append)
    heard = listen(games.changes())
    with caplog.at_level(logging.CRITICAL, "reactdb"):
        games.insert([{"id": 1}, {"id": 2}])

    assert len(heard) == 2
    assert [str(error) for error in errors] == ["mine"]


def test_a_subscriber_that_raises_is_logged(games, caplog):
    games.changes().subscribe(lambda _: 1 / 0)

    games.insert({"id": 1})

    assert "a subscriber raised" in caplog.text


def test_a_subscriber_may_write(games):
    """What it writes is told after what is being told."""
    heard: list[int] = []

    def count_down(event: Any) -> None:
        number = event["new_val"]["id"]
        heard.append(number)
        if number:
            games.insert({"id": number - 1})
        heard.append(number)

    games.changes().subscribe(count_down)
    games.insert({"id": 3})

    assert heard == [3, 3, 2, 2, 1, 1, 0, 0]


def test_a_subscriber_may_subscribe(games):
    inner: list[Any] = []
    games.changes().limit(1).subscribe(
        lambda _: games.changes(include_initial=True).subscribe(
            lambda event: inner.append(event["new_val"]["id"])
        )
    )

    games.insert({"id": 1})
    games.insert({"id": 2})

    assert inner == [1, 2]


def test_nothing_is_told_after_dispose_within_on_next(games):
    heard: list[Any] = []

    def once(event: Any) -> None:
        heard.append(event)
        handle.dispose()

    handle = games.changes().subscribe(once)
    games.insert([{"id": 1}, {"id": 2}, {"id": 3}])

    assert len(heard) == 1


def test_a_predicate_must_not_write(games):
    def greedy(document: Any) -> bool:
        games.insert({"id": "more"})
        return True

    heard = listen(games.filter(greedy).changes())
    games.insert({"id": 1})

    assert heard == []
    assert games.count().run() == 1


def test_subscribing_in_a_transaction_begins_with_what_is_committed(tmp_path):
    with reactdb.connect(tmp_path / "a.db", durability="soft") as db:
        games = db.table_create("games")
        games.insert({"id": 1})
        with db.transaction():
            games.insert({"id": 2})
            heard = listen(games.changes(include_initial=True))
            assert heard == [{"new_val": {"id": 1}}]
        assert heard[1:] == [{"old_val": None, "new_val": {"id": 2}}]


def test_a_rolled_back_transaction_is_not_told(db, games):
    heard = listen(games.changes())

    with pytest.raises(RuntimeError), db.transaction():
        games.insert({"id": 1})
        raise RuntimeError

    assert heard == []


def test_a_write_that_fails_inside_a_transaction_is_not_told(db, games):
    heard = listen(games.changes())

    with db.transaction():
        games.insert({"id": 1})
        with pytest.raises(ZeroDivisionError), db.transaction():
            games.insert({"id": 2})
            raise ZeroDivisionError
        games.insert({"id": 3})

    assert [1, 3] == [change["new_val"]["id"] for change in heard]


def test_a_commit_that_fails_is_told_to_nobody(db, games, monkeypatch):
    heard = listen(games.changes())
    writer = session_of(db).engine.writer
    cursor = writer.cursor

    def fail(statement: str, *parameters: Any) -> Any:
        if statement == "COMMIT":
            raise sqlite.sqlite3.OperationalError("database or disk is full")
        return cursor.execute(statement, *parameters)

    failing = SimpleNamespace(execute=fail, executemany=cursor.executemany, connection=cursor.connection)
    with monkeypatch.context() as patch:
        patch.setattr(writer, "cursor", failing)
        with pytest.raises(reactdb.errors.DiskFull):
            games.insert({"id": 1})
    games.insert({"id": 2})

    assert [2] == [change["new_val"]["id"] for change in heard]


def test_many_threads_write_and_each_feed_hears_the_log(db, games):
    feeds = [listen(games.changes(include_seq=True)) for _ in range(3)]

    def write(start: int) -> None:
        for number in range(30):
            games.insert({"id": start + number})

    threads = [threading.Thread(target=write, args=(start * 100,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(lambda: all(len(heard) == 120 for heard in feeds))

    for heard in feeds:
        seqs = [event["seq"] for event in heard]
        assert seqs == sorted(set(seqs))


def test_subscribing_among_writers_loses_and_doubles_nothing(db, games):
    is_over = threading.Event()

    def write() -> None:
        number = 0
        while not is_over.is_set():
            games.insert({"id": number})
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    feeds = []
    for _ in range(20):
        feeds.append(listen(games.changes(include_initial=True)))
        feeds.append(listen(games.order_by("id").limit(10**6).changes(include_initial=True)))
    is_over.set()
    writer.join()
    total = games.count().run()
    wait_until(lambda: all(len(heard) == total for heard in feeds))

    for heard in feeds:
        assert sorted(event["new_val"]["id"] for event in heard) == list(range(total))


# ---------------------------------------------------------------------------------------------------------------
# Elsewhere


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [CurrentThreadScheduler, ImmediateScheduler, EventLoopScheduler, ThreadPoolScheduler]
)
@pytest.mark.parametrize("squash", [False, True, 0.02])
def test_a_scheduler_tells_in_order(games, make, squash):
    scheduler = make() if make is not ThreadPoolScheduler else ThreadPoolScheduler(4)
    heard = listen(games.changes(squash=squash), scheduler=scheduler)

    for number in range(60):
        games.insert({"id": number})
    wait_until(lambda: len(heard) == 60)

    assert [event["new_val"]["id"] for event in heard] == list(range(60))


def test_an_asyncio_scheduler_tells_in_its_loop(games):
    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        heard: list[Any] = []
        is_done = asyncio.Event()

        def on_next(event: Any) -> None:
            heard.append(threading.get_ident())
            if len(heard) == 20:
                is_done.set()

        games.changes().subscribe(on_next, scheduler=AsyncIOThreadSafeScheduler(loop))
        await asyncio.to_thread(lambda: [games.insert({"id": number}) for number in range(20)])
        await asyncio.wait_for(is_done.wait(), 10)
        return heard

    assert set(asyncio.run(main())) == {threading.get_ident()}


def test_connect_gives_a_scheduler_to_every_feed():
    clock = VirtualTimeScheduler()
    with reactdb.connect(":memory:", scheduler=clock) as db:
        games = db.table_create("games")
        heard = listen(games.changes())
        games.insert({"id": 1})
        assert heard == []

        clock.advance_by(1)
        assert len(heard) == 1


def test_every_rx_operator_works_through_pipe(games):
    batches: list[Any] = []
    games.changes().pipe(
        ops.map(lambda event: event["new_val"]["id"]),
        ops.filter(lambda number: number % 2 == 0),
        ops.buffer_with_count(2),
    ).subscribe(batches.append)

    games.insert([{"id": number} for number in range(8)])

    assert batches == [[0, 2], [4, 6]]


def test_take_completes_and_unsubscribes(db, games):
    heard: list[Any] = []
    games.changes().pipe(ops.take(1)).subscribe(heard.append, None, lambda: heard.append("end"))

    games.insert([{"id": 1}, {"id": 2}])

    assert [heard[0]["new_val"], heard[1]] == [{"id": 1}, "end"]
    assert is_clean(db)


def test_expressions_mean_the_same_to_rx(games):
    condition = row["new_val"]["score"] > 10
    by_rx: list[Any] = []
    games.changes().pipe(ops.filter(condition)).subscribe(by_rx.append)
    by_reql = listen(games.changes().filter(condition))

    games.insert([{"id": 1, "score": 5}, {"id": 2, "score": 15}])

    assert by_rx == by_reql
    assert len(by_rx) == 1


def test_the_timer_thread_ends_when_nothing_is_due(games):
    heard = listen(games.changes(squash=0.02))

    games.insert({"id": 1})
    wait_until(lambda: len(heard) == 1)
    wait_until(lambda: timers._thread is None)

    games.get(1).delete()
    wait_until(lambda: len(heard) == 2)


# ---------------------------------------------------------------------------------------------------------------
# Cursors


def test_a_cursor_times_out(games):
    with games.changes().cursor() as cursor, pytest.raises(TimeoutError):
        cursor.next(timeout=0)


def test_a_cursor_waits_for_another_thread(games):
    with games.changes().cursor() as cursor:
        threading.Timer(0.01, lambda: games.insert({"id": 1})).start()

        assert cursor.next(timeout=10)["new_val"] == {"id": 1}


def test_closing_a_cursor_wakes_who_waits(games):
    cursor = games.changes().cursor()
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.extend(cursor))
    waiting.start()

    cursor.close()
    waiting.join(10)

    assert not waiting.is_alive()
    assert found == []


def test_closing_the_database_ends_loops_and_completes_subscriptions(tmp_path):
    db = reactdb.connect(tmp_path / "a.db", durability="soft")
    games = db.table_create("games")
    ends: list[str] = []
    games.changes().subscribe(None, None, lambda: ends.append("completed"))
    cursor = games.changes().cursor()
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.extend(cursor))
    waiting.start()
    games.insert({"id": 1})

    db.close()
    waiting.join(10)

    assert not waiting.is_alive()
    assert [event["new_val"]["id"] for event in found] == [1]
    assert ends == ["completed"]


def test_a_loop_ends_with_the_error_of_its_feed(db, games):
    events = iter(games.changes())
    games.insert({"id": 1})
    db.table_drop("games")

    assert next(events)["new_val"] == {"id": 1}
    with pytest.raises(reactdb.errors.FeedAborted):
        next(events)
    with pytest.raises(StopIteration):
        next(events)


def test_a_forgotten_loop_is_collected(db, games):
    events = iter(games.changes())
    games.insert({"id": 1})
    next(events)

    del events
    gc.collect()

    assert is_clean(db)


@pytest.mark.soak
def test_ten_thousand_subscriptions_leave_nothing(db, games):
    handles = []
    for number in range(2_500):
        handles.append(games.changes().subscribe(lambda _: None))
        handles.append(games.get(number).changes().subscribe(lambda _: None))
        handles.append(games.filter({"room": number}).changes().subscribe(lambda _: None))
        handles.append(games.between(number, number + 9).changes().subscribe(lambda _: None))
    assert len(hub(db).subscriptions()) == 10_000

    for handle in handles:
        handle.dispose()

    assert is_clean(db)
    assert not hub(db).open_views


def test_a_watched_file_is_not_watched_after_the_last_feed(tmp_path):
    from reactdb.store.follow import follower

    with reactdb.connect(tmp_path / "a.db", durability="soft") as db:
        games = db.table_create("games")
        handle = games.changes().subscribe(lambda _: None)
        assert len(follower._watched) == 1

        handle.dispose()
        assert not follower._watched


# ---------------------------------------------------------------------------------------------------------------
# Coroutines


def test_a_coroutine_is_told(games):
    async def main() -> list[Any]:
        feed = games.changes().limit(300)
        events = aiter(feed)
        threading.Thread(target=lambda: [games.insert({"id": number}) for number in range(300)]).start()
        return [event["new_val"]["id"] async for event in events]

    assert asyncio.run(main()) == list(range(300))


def test_a_burst_wakes_a_coroutine_once(games):
    async def main() -> int:
        events = aiter(games.changes())
        loop = asyncio.get_running_loop()
        calls = 0
        call = loop.call_soon_threadsafe

        def counted(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            return call(*arguments, **options)

        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        loop.call_soon_threadsafe = counted  # type: ignore[method-assign]
        games.insert([{"id": number} for number in range(100)])
        await waiting
        return calls

    assert asyncio.run(main()) == 1


def test_a_cancelled_coroutine_loses_nothing(games):
    async def main() -> Any:
        events = aiter(games.changes())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(events), 0.01)
        games.insert({"id": 1})
        return await anext(events)

    assert asyncio.run(main())["new_val"] == {"id": 1}


def test_a_cancelled_loop_unsubscribes(db, games):
    async def main() -> None:
        async def forever() -> None:
            async for _ in games.changes():
                pass

        task = asyncio.ensure_future(forever())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    gc.collect()

    assert is_clean(db)


async def cancelled(coroutine: Any) -> BaseException:
    """The error of a task that is cancelled while it waits. It is alive, with its traceback and all that this refers to."""
    task = asyncio.ensure_future(coroutine)
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    return caught.value


def test_the_subscription_of_a_cancelled_loop_does_not_live_as_long_as_its_error(db, games):
    async def forever() -> None:
        async for _ in games.changes():
            pass

    async def main() -> None:
        error = await cancelled(forever())

        assert error.__traceback__ is not None
        assert [] == db.subscriptions()

    asyncio.run(main())


def test_a_cancelled_loop_that_tidies_up_has_no_subscription_meanwhile(db, games):
    counts = []

    async def forever() -> None:
        try:
            async for _ in games.changes():
                pass
        finally:
            await asyncio.sleep(0)
            counts.append(len(db.subscriptions()))

    asyncio.run(cancelled(forever()))

    assert [0] == counts


def test_an_error_in_the_body_of_a_loop_ends_its_subscription(db, games):
    async def fail() -> None:
        async for _ in games.changes(include_initial=True):
            raise ValueError

    games.insert({"id": 1})
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - it is ours
        asyncio.run(fail())
    assert [] == db.subscriptions()

    with pytest.raises(ValueError) as caught:  # noqa: PT011
        for _ in games.changes(include_initial=True):
            raise ValueError
    assert caught.value.__traceback__ is not None
    assert [] == db.subscriptions()


def test_ctrl_c_in_a_loop_that_waits_ends_its_subscription(db, games, monkeypatch):
    """Python's shell keeps the last error."""

    def strike(*_: object) -> None:
        assert 1 == len(db.subscriptions())
        raise KeyboardInterrupt

    monkeypatch.setattr(PullConsumer, "_wait", strike)
    with pytest.raises(KeyboardInterrupt) as caught:
        for _ in games.changes():
            pass

    assert caught.value.__traceback__ is not None
    assert [] == db.subscriptions()


def test_a_cursor_in_a_variable_goes_on_after_a_timeout(db, games):
    async def main() -> Any:
        events = aiter(games.changes())
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(events), 0.001)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.001):
                    await anext(events)
        games.insert({"id": 1})
        return await anext(events)

    assert {"id": 1} == asyncio.run(main())["new_val"]


def test_a_loop_that_was_closed_under_a_feed_ends_it_quietly(db, games):
    loop = asyncio.new_event_loop()
    events = aiter(games.changes())
    waiting = loop.create_task(anext(events))
    loop.run_until_complete(asyncio.sleep(0))
    waiting.cancel()
    loop.run_until_complete(asyncio.gather(waiting, return_exceptions=True))
    loop.close()

    games.insert({"id": 1})
    del events, waiting
    gc.collect()

    assert is_clean(db)


def test_a_squashed_coroutine_waits_for_its_time(games):
    async def main() -> Any:
        events = aiter(games.changes(squash=0.05))
        games.insert({"id": 1})
        games.get(1).update({"a": 2})
        return await asyncio.wait_for(anext(events), 10)

    assert asyncio.run(main()) == {"old_val": None, "new_val": {"id": 1, "a": 2}}


# ---------------------------------------------------------------------------------------------------------------
# Lists


def test_a_live_list_follows(games):
    games.insert([{"id": number, "score": number} for number in range(5)])
    with reactdb.LiveList(games.order_by("score").limit(3)) as board:
        events: list[Any] = []
        board.subscribe(lambda event: events.append((event["old_offset"], event["new_offset"], list(board))))
        games.get(0).delete()
        games.get(4).update({"score": 1.5})

        assert board == games.order_by("score").limit(3).run()
        assert [event[:2] for event in events] == [(0, 2), (2, 1)]
        assert events[-1][2] == list(board)
        assert board[0] == {"id": 1, "score": 1}
        assert len(board[1:]) == 2


def test_a_live_list_of_a_feed_needs_offsets(games):
    with pytest.raises(reactdb.UsageError, match="include_offsets=True"):
        reactdb.LiveList(games.order_by("a").limit(1).changes())


def test_a_live_list_is_an_observable_too(games):
    with reactdb.LiveList(games.order_by("id")) as board:
        heard: list[Any] = []
        board.changes.pipe(ops.map(lambda _: len(board))).subscribe(heard.append)

        games.insert([{"id": 1}, {"id": 2}])

        games.insert({"id": 3})
        assert heard == [2, 3]


def test_a_live_list_keeps_its_error(db, games):
    board = reactdb.LiveList(games.order_by("id"))

    db.table_drop("games")

    assert isinstance(board.error, reactdb.errors.FeedAborted)


class EndsOfAList:
    """What the subscribers of a LiveList hear of its end."""

    def __init__(self, board: reactdb.LiveList) -> None:
        self.heard: list[Any] = []
        board.subscribe(
            lambda edits: self.heard.append(len(edits)),
            on_error=lambda error: self.heard.append(type(error).__name__),
            on_completed=lambda: self.heard.append("completed"),
        )
        board.changes.subscribe(
            lambda edits: self.heard.append(len(edits)),
            lambda error: self.heard.append(type(error).__name__),
            lambda: self.heard.append("completed"),
        )


def test_subscribers_of_a_live_list_hear_that_its_table_is_dropped(db, games):
    board = reactdb.LiveList(games.order_by("id"))
    ends = EndsOfAList(board)
    with db.transaction():
        games.insert([{"id": 1}, {"id": 2}])
        db.table_drop("games")

    assert ends.heard == [2, 2, "FeedAborted", "FeedAborted"]
    assert (board.state, len(board)) == ("failed", 2)
    assert "failed" in repr(board)


def test_a_live_list_that_has_stopped_says_so_to_whoever_subscribes_later(db, games):
    board = reactdb.LiveList(games.order_by("id"))
    db.table_drop("games")

    assert EndsOfAList(board).heard == ["FeedAborted", "FeedAborted"]


@pytest.mark.parametrize("close", [lambda db, board: db.close(), lambda db, board: board.close()])
def test_a_live_list_completes_when_it_or_its_database_is_closed(close):
    with reactdb.connect(":memory:") as db:
        games = db.table_create("games")
        games.insert({"id": 1})
        board = reactdb.LiveList(games.order_by("id"))
        ends = EndsOfAList(board)
        close(db, board)

        assert ends.heard == ["completed", "completed"]
        assert (board.state, board.error, list(board)) == ("closed", None, [{"id": 1}])
        assert EndsOfAList(board).heard == ["completed", "completed"]


def test_who_left_a_live_list_hears_nothing_of_its_end(db, games):
    board = reactdb.LiveList(games.order_by("id"))
    heard: list[Any] = []
    board.subscribe(heard.append, on_error=heard.append, on_completed=lambda: heard.append("completed"))()
    db.table_drop("games")
    board.close()

    assert heard == []


def test_a_subscriber_of_a_live_list_that_raises_at_its_end_keeps_it_from_nobody(db, games, caplog):
    board = reactdb.LiveList(games.order_by("id"))
    board.subscribe(print, on_error=lambda error: 1 / 0)
    ends = EndsOfAList(board)
    db.table_drop("games")

    assert ends.heard == ["FeedAborted", "FeedAborted"]
    assert "a subscriber of a LiveList raised" in caplog.text


def test_the_end_of_a_live_list_that_nobody_is_told_of_is_logged(db, games, caplog):
    reactdb.LiveList(games.order_by("id")).subscribe(print)
    db.table_drop("games")

    assert "a LiveList no longer follows its selection: FeedAborted" in caplog.text


# ---------------------------------------------------------------------------------------------------------------
# What it says of itself


def test_explain_says_how_changes_find_a_feed(games):
    games.index_create("score")

    def routing(selection: Any) -> str:
        return str(selection.changes().explain()["routing"])

    assert routing(games.get(1)) == "hashed by primary key (1)"
    assert routing(games.filter({"room": 5})) == "hashed by the value of room (1)"
    assert routing(games.filter((row["a"]["b"] == 1) & (row["c"] > 2))) == "hashed by the value of a.b (1)"
    assert routing(games.between(1, 2)) == "by a range of the primary key"
    assert routing(games.filter(row["x"] > 2)) == "by a range of x"
    assert routing(games.get_all(1, 2, index="score")) == "hashed by the value of index score (2)"
    assert routing(games) == "every change of the table"
    assert routing(games.filter(lambda document: True)) == "every change of the table"


def test_equal_feeds_share_one_view(db, games):
    for _ in range(10):
        games.filter(row["score"] > 1).changes().subscribe(lambda _: None)
        games.order_by("score").limit(3).changes().subscribe(lambda _: None)

    assert len(hub(db).open_views) == 2
    assert len(hub(db).subscriptions()) == 20


def test_stats_say_how_far_behind_it_is(games):
    feed = games.changes(changefeed_queue_size=3)
    with feed.cursor() as cursor:
        games.insert([{"id": number} for number in range(5)])
        stats = feed.stats()

        assert (stats["queued"], stats["dropped"], stats["lag_seq"]) == (3, 2, 3)
        assert stats["lag_s"] >= 0

        for _ in range(4):
            cursor.next(timeout=0)
        assert feed.stats()["lag_seq"] == 0
        assert feed.stats()["delivered"] == 4


def test_a_database_lists_the_subscriptions_that_are_open(db, games):
    assert db.subscriptions() == []

    kept = games.changes().subscribe(lambda event: None)
    with games.order_by("id").limit(2).changes().cursor():
        games.insert({"id": 1})

        listed = {one["kind"]: one for one in db.subscriptions()}

    assert {"range", "limit"} == set(listed)
    assert listed["limit"] == {
        "table": "games", "kind": "limit", "queued": 1, "dropped": 0, "delivered": 0, "is_behind": False, "lag_seq": 1,
    }  # fmt: skip
    assert listed["range"]["delivered"] == 1
    assert ["range"] == [one["kind"] for one in db.subscriptions()]
    kept.dispose()
    assert db.subscriptions() == []


# ---------------------------------------------------------------------------------------------------------------
# What a subscriber may be, and what a feed says of itself


@pytest.mark.parametrize(
    ("callbacks", "words"),
    [
        ((5,), "on_next is a callable, an observer or None, not 5"),
        ((print, "x"), "on_error is a callable or None, not 'x'"),
        ((print, None, 0), "on_completed is a callable or None, not 0"),
    ],
)
def test_what_cannot_be_called_is_refused(db: Any, callbacks: Any, words: str) -> None:
    feed = db.table_create("called").changes()
    with pytest.raises(reactdb.InvalidOption, match=f"^{words}$"):
        feed.subscribe(*callbacks)

    assert [] == db.subscriptions()


def test_a_feed_says_what_it_is_also_when_the_database_is_closed(db: Any) -> None:
    games = db.table_create("shown")
    games.index_create("score")
    feeds = [games.changes(), games.get(1).changes(), games.order_by(index="score").limit(3).changes()]

    assert [
        "<Feed range of table 'shown'>",
        "<Feed point of table 'shown'>",
        "<Feed limit of table 'shown'>",
    ] == [repr(feed) for feed in feeds]
    assert "<Feed all tables>" == repr(db.changes())
    united = feeds[1].union(db.changes())
    assert "<Feed union of 2: point of table 'shown', all tables>" == repr(united)
    db.close()
    assert "<Feed table 'shown'>" == repr(feeds[0])
