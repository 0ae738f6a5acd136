"""Long beginnings of feeds are read in threads: `async for`, async cursors, readers, and schedulers of loops and windows."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from reactivex.scheduler import CurrentThreadScheduler, ImmediateScheduler
from reactivex.scheduler.eventloop import AsyncIOScheduler

from reactdb import AsyncCursor, InvalidOption, UsageError, row
from reactdb.feeds import background, consumers
from reactdb.feeds.hub import FeedHub
from reactdb.store.walk import Walk
from tests.support.feeds import changed, is_clean

READS: dict[str, Callable[[Any], Any]] = {
    "limit": lambda table: table.order_by("v").limit(2),
    "count": lambda table: table.count(),
    "a filtered count": lambda table: table.filter(row["v"] > 0).count(),
    "groups": lambda table: table.group("v").count(),
    "an order": lambda table: table.order_by("v"),
}


class Held:
    """In place of the threads: work waits until `run_all`."""

    def __init__(self) -> None:
        self.work: deque[Callable[[], None]] = deque()

    def run(self, work: Callable[[], None]) -> None:
        self.work.append(work)

    def run_all(self) -> None:
        while self.work:
            self.work.popleft()()


def poll_all(reader: Any, held: Held) -> list[Any]:
    """Everything that the reader has, with the reads that it takes."""
    events = reader.poll()
    while held.work:
        held.run_all()
        events += reader.poll()
    return events  # type: ignore[no-any-return]


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    """Every read counts as long, and waits."""
    held = Held()
    monkeypatch.setattr(background, "MOST_DOCUMENTS", -1)
    monkeypatch.setattr(consumers, "background", held)
    return held


@pytest.fixture
def attached(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every read counts as long. The threads in which feeds have begun."""
    threads: list[int] = []
    attach = FeedHub.attach

    def attach_and_note(self: FeedHub, subscription: Any) -> None:
        threads.append(threading.get_ident())
        attach(self, subscription)

    monkeypatch.setattr(background, "MOST_DOCUMENTS", -1)
    monkeypatch.setattr(FeedHub, "attach", attach_and_note)
    return threads


@pytest.fixture
def scores(games: Any) -> Any:
    games.insert([{"id": 1, "v": 10}, {"id": 2, "v": 20}])
    return games


# ---------------------------------------------------------------------------------------------------------------
# The loop's thread reads nothing


@pytest.mark.parametrize("kind", READS)
def test_a_loop_does_not_read_the_beginning_of_a_feed(scores, attached, kind):
    feed = READS[kind](scores).changes(include_initial=True)

    async def main() -> None:
        async for _ in feed:
            break
        async with feed.acursor() as cursor:
            await cursor.next()
        ready = asyncio.Event()
        loop = asyncio.get_running_loop()
        with feed.reader(on_ready=lambda: loop.call_soon_threadsafe(ready.set)) as reader:
            await ready.wait()
            assert reader.poll()
        heard: asyncio.Queue[Any] = asyncio.Queue()
        with feed.subscribe(heard.put_nowait, scheduler=AsyncIOScheduler(loop)):
            await heard.get()

    asyncio.run(main())
    assert 4 == len(attached)
    assert threading.get_ident() not in attached


def test_pages_of_initial_values_are_read_in_a_thread(path, monkeypatch):
    import reactdb

    threads: set[int] = set()
    read = Walk.__next__

    def read_and_note(self: Walk) -> Any:
        threads.add(threading.get_ident())
        return read(self)

    monkeypatch.setattr(background, "MOST_DOCUMENTS", -1)
    monkeypatch.setattr(Walk, "__next__", read_and_note)
    with reactdb.connect(path, durability="soft") as db:
        table = db.table_create("t")
        table.insert([{"id": number, "v": number % 7} for number in range(3_000)])

        async def main() -> list[int]:
            seen = []
            async for event in table.filter(row["v"] == 6).changes(include_initial=True, include_states=True):
                if event.get("state") == "ready":
                    break
                if "new_val" in event:
                    seen.append(event["new_val"]["id"])
            return seen

        assert list(range(6, 3_000, 7)) == asyncio.run(main())
    assert threads
    assert threading.get_ident() not in threads


def test_a_late_feed_reads_the_log_in_a_thread(scores, held):
    reader = scores.changes(since=0).reader()
    held.run_all()
    assert [] == reader.poll()

    assert [changed(None, {"id": 1, "v": 10}), changed(None, {"id": 2, "v": 20})] == poll_all(reader, held)


# ---------------------------------------------------------------------------------------------------------------
# What reads little begins at once


def test_a_feed_of_a_small_table_begins_at_once(scores):
    with scores.order_by("v").limit(1).changes(include_initial=True).reader() as reader:
        assert [{"new_val": {"id": 1, "v": 10}}] == reader.poll()


def test_a_feed_without_anything_to_read_begins_at_once(scores, held):
    with scores.changes().reader() as reader:
        scores.insert({"id": 3})

        assert [changed(None, {"id": 3})] == reader.poll()
    assert not held.work


@pytest.mark.parametrize("scheduler", [CurrentThreadScheduler, ImmediateScheduler, None])
def test_other_schedulers_begin_in_the_calling_thread(scores, held, scheduler, clock):
    heard: list[Any] = []
    scores.count().changes(include_initial=True).subscribe(
        heard.append, scheduler=clock if scheduler is None else scheduler()
    )
    if scheduler is None:
        clock.advance_by(1.0)

    assert [{"new_val": 2}] == heard
    assert not held.work


# ---------------------------------------------------------------------------------------------------------------
# The position


@pytest.mark.parametrize("kind", ["limit", "count"])
def test_a_commit_between_the_call_and_the_beginning_is_not_lost(scores, held, kind):
    plain = READS[kind](scores).changes().reader()
    whole = READS[kind](scores).changes(include_initial=True).reader()
    scores.insert({"id": 0, "v": 0})
    held.run_all()
    scores.insert({"id": -1, "v": -1})

    if kind == "count":
        assert [changed(2, 3), changed(3, 4)] == poll_all(plain, held)
        assert [{"new_val": 3}, changed(3, 4)] == poll_all(whole, held)
    else:
        old, new = {"id": 2, "v": 20}, {"id": 0, "v": 0}
        newest = {"id": -1, "v": -1}
        assert [changed(old, new), changed({"id": 1, "v": 10}, newest)] == poll_all(plain, held)
        assert [{"new_val": new}, {"new_val": {"id": 1, "v": 10}}] == whole.poll()[:2]
    plain.close()
    whole.close()


def test_the_history_since_the_call_is_kept(db, scores, held):
    with scores.count().changes().reader() as reader:
        for number in range(3, 6):
            scores.insert({"id": number})
        scores.get(3).delete()
        db.compact(keep=0)

        assert [changed(2, 3), changed(3, 4), changed(4, 5), changed(5, 4)] == poll_all(reader, held)


def test_a_union_begins_at_one_position_and_keeps_the_order_of_the_log(db, scores, held):
    other = db.table_create("other")
    feed = scores.count().changes().union(other.changes())
    with feed.reader() as reader:
        other.insert({"id": "a"})
        scores.insert({"id": 3})
        other.insert({"id": "b"})

        events = poll_all(reader, held)
        assert [changed(None, {"id": "a"}), changed(2, 3), changed(None, {"id": "b"})] == events


def test_the_token_of_a_beginning_feed_is_the_position_of_the_call(db, scores, held):
    token = db.token
    with (
        scores.count().changes().reader() as plain,
        scores.count().changes(include_initial=True).reader() as whole,
    ):
        scores.insert({"id": 3})

        assert token == plain.position
        assert whole.position is None
        held.run_all()


# ---------------------------------------------------------------------------------------------------------------
# Readers that begin


def test_a_reader_that_begins_gives_nothing_and_calls_when_it_has_begun(scores, held):
    calls: list[int] = []
    with scores.count().changes(include_initial=True).reader(on_ready=lambda: calls.append(1)) as reader:
        assert [] == reader.poll()
        assert not reader.is_ending
        assert not reader.is_finished
        assert [] == calls
        held.run_all()

        assert [1] == calls
        assert [{"new_val": 2}] == reader.poll()


def test_a_reader_calls_also_where_nothing_comes_first(scores, held):
    calls: list[int] = []
    with scores.count().changes().reader(on_ready=lambda: calls.append(1)) as reader:
        held.run_all()

        assert [1] == calls
        assert [] == reader.poll()


def test_poll_raises_why_a_feed_could_not_begin(db, scores, held):
    calls: list[int] = []
    with scores.count().changes(include_initial=True).reader(on_ready=lambda: calls.append(1)) as reader:
        db.table_drop("games")
        held.run_all()

        assert [1] == calls
        with pytest.raises(Exception, match="Table `games` does not exist"):
            reader.poll()
        assert reader.is_finished
    assert is_clean(db)


def test_on_error_is_called_in_the_loop_where_a_feed_could_not_begin(db, scores, held):
    async def main() -> None:
        loop = asyncio.get_running_loop()
        failed = loop.create_future()
        scores.count().changes(include_initial=True).subscribe(
            on_error=failed.set_result, scheduler=AsyncIOScheduler(loop)
        )
        db.table_drop("games")
        await asyncio.to_thread(held.run_all)
        assert "does not exist" in str(await failed)

    asyncio.run(main())
    assert is_clean(db)


@pytest.mark.parametrize("kind", READS)
def test_a_feed_that_is_closed_before_it_has_begun_leaves_nothing(db, scores, held, kind):
    feed = READS[kind](scores).changes(include_initial=True)
    reader = feed.reader()
    reader.close()
    cursor = feed.acursor()
    del cursor
    held.run_all()

    assert is_clean(db)
    assert [] == reader.poll()
    assert reader.is_finished


def test_a_feed_that_is_closed_while_it_begins_leaves_nothing(db, scores, held, monkeypatch):
    reader = scores.count().changes(include_initial=True).reader()
    attach = FeedHub.attach

    def close_and_attach(self: FeedHub, subscription: Any) -> None:
        reader.close()
        attach(self, subscription)

    monkeypatch.setattr(FeedHub, "attach", close_and_attach)
    held.run_all()

    assert is_clean(db)


def test_a_feed_ends_where_the_database_was_closed_before_it_began(db, scores, held):
    reader = scores.count().changes(include_initial=True).reader()
    db.close()
    held.run_all()

    with pytest.raises(Exception, match="closed"):
        reader.poll()


def test_a_predicate_must_not_open_a_feed_in_a_thread_either(scores, held):
    refused: list[str] = []

    def subscribe(document: Any) -> bool:
        try:
            scores.count().changes(include_initial=True).reader()
        except UsageError as error:
            refused.append(str(error))
        return True

    with scores.filter(subscribe).count().changes().cursor():
        scores.insert({"id": 3})

    assert refused
    assert "must not subscribe" in refused[0]
    held.run_all()


# ---------------------------------------------------------------------------------------------------------------
# Async cursors


def test_next_waits_for_an_event_and_gives_up_in_time(games):
    async def main() -> None:
        async with games.changes().acursor() as cursor:
            assert isinstance(cursor, AsyncCursor)
            with pytest.raises(TimeoutError, match="nothing for 0 s"):
                await cursor.next(timeout=0)
            games.insert({"id": 1})
            assert changed(None, {"id": 1}) == await cursor.next(timeout=0)
            task = asyncio.create_task(cursor.next(timeout=60))
            await asyncio.sleep(0)
            games.insert({"id": 2})
            assert changed(None, {"id": 2}) == await task

    asyncio.run(main())
    assert is_clean(games)


def test_a_cancelled_next_loses_no_event(games):
    async def main() -> None:
        async with games.changes().acursor() as cursor:
            task = asyncio.create_task(cursor.next())
            await asyncio.sleep(0)
            games.insert({"id": 1})
            # The event is there, and the task has not run since.
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert changed(None, {"id": 1}) == await cursor.next()

    asyncio.run(main())


def test_a_closed_async_cursor_ends_its_loop(games):
    async def main() -> None:
        cursor = games.changes().acursor()
        cursor.close()
        with pytest.raises(StopAsyncIteration):
            await cursor.next()
        assert [] == [event async for event in cursor]

    asyncio.run(main())


def test_an_async_cursor_has_a_token(db, games):
    async def main() -> None:
        async with games.changes().acursor() as cursor:
            games.insert({"id": 1})
            await cursor.next()
            assert db.token == cursor.token

    asyncio.run(main())


@pytest.mark.parametrize("timeout", ["1", -1, True])
def test_a_timeout_is_a_number_of_seconds(games, timeout):
    async def main() -> None:
        async with games.changes().acursor() as cursor:
            await cursor.next(timeout=timeout)

    with pytest.raises(InvalidOption):
        asyncio.run(main())


def test_two_beginnings_at_once_and_more_behind_them_all_begin(scores, attached):
    async def main() -> list[Any]:
        cursors = [scores.count().changes(include_initial=True).acursor() for _ in range(20)]
        return [await cursor.next() for cursor in cursors]

    assert [{"new_val": 2}] * 20 == asyncio.run(main())
    assert len(set(attached)) <= background.MOST_THREADS
