"""Consumers that pull: loops, cursors and coroutines. Bounded, woken once for a burst, and never left waiting."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing
from typing import Any

import pytest

import reactdb
from reactdb.testing import Recorder
from tests.support.feeds import changed, hub, insert_numbers, is_clean, new_ids
from tests.support.threads import PATIENCE_S, from_threads

WRITERS, WRITES = 4, 25


def test_a_loop_reads_events_as_they_come(games):
    heard, is_ready = [], threading.Event()

    def read() -> None:
        for event in games.changes(include_states=True):
            if "state" in event:
                is_ready.set()
                continue
            heard.append(event["new_val"]["id"])
            if len(heard) == 3:
                break

    reader = threading.Thread(target=read)
    reader.start()
    assert is_ready.wait(PATIENCE_S)
    insert_numbers(games, 1, 2, 3, 4)
    reader.join(PATIENCE_S)

    assert [1, 2, 3] == heard


def test_a_cursor_waits_no_longer_than_it_is_told_to(games):
    with games.changes().cursor() as cursor:
        with pytest.raises(TimeoutError):
            cursor.next(timeout=0)
        with pytest.raises(TimeoutError):
            cursor.next(timeout=0.01)
        games.insert({"id": 1})

        assert 1 == cursor.next(timeout=0)["new_val"]["id"]


def test_a_cursor_begins_when_it_is_made(games):
    games.insert({"id": 1})
    feed = games.changes()
    games.insert({"id": 2})
    with feed.cursor() as cursor:
        games.insert({"id": 3})

        assert 3 == cursor.next(timeout=PATIENCE_S)["new_val"]["id"]


def test_a_cursor_is_over_after_it_was_closed(games):
    """Also with what is queued in it."""
    cursor = games.changes().cursor()
    games.insert({"id": 1})
    cursor.close()
    cursor.close()

    assert [] == list(cursor)
    with pytest.raises(StopIteration):
        cursor.next(timeout=0)


def test_a_cursor_raises_what_ended_its_feed_once(db, games):
    cursor = games.changes().cursor()
    db.table_drop("games")

    with pytest.raises(reactdb.errors.FeedAborted):
        cursor.next(timeout=PATIENCE_S)
    with pytest.raises(StopIteration):
        cursor.next(timeout=PATIENCE_S)


def test_a_cursor_raises_what_its_filter_raises_for_an_initial_value_and_is_over(games):
    games.insert([{"id": 1, "n": 1}, {"id": 2, "n": 0}])
    with games.filter(1 / reactdb.row["n"] > 0).changes(include_initial=True).cursor() as cursor:
        assert {"new_val": {"id": 1, "n": 1}} == cursor.next(timeout=0)
        with pytest.raises(reactdb.errors.QueryError, match="divide by zero"):
            cursor.next(timeout=0)

        games.insert({"id": 3, "n": 1})
        assert [] == list(cursor)


def test_a_cursor_completes_with_its_limit(games):
    with games.changes().limit(2).cursor() as cursor:
        insert_numbers(games, 1, 2, 3)

        assert [1, 2] == [event["new_val"]["id"] for event in cursor]


def test_every_cursor_has_a_place_of_its_own(games):
    feed = games.changes()
    with feed.cursor() as first, feed.cursor() as second:
        insert_numbers(games, 1, 2)

        assert [1, 2] == [first.next(timeout=PATIENCE_S)["new_val"]["id"] for _ in range(2)]
        assert [1, 2] == [second.next(timeout=PATIENCE_S)["new_val"]["id"] for _ in range(2)]


def test_threads_that_share_a_cursor_share_the_events(games):
    """Each event goes to exactly one of them."""
    heard: list[int] = []
    is_done = threading.Event()
    with closing(games.changes().cursor()) as cursor:

        def read() -> None:
            for event in cursor:
                heard.append(event["new_val"]["id"])
                if len(heard) == 100:
                    is_done.set()

        readers = [threading.Thread(target=read) for _ in range(4)]
        for reader in readers:
            reader.start()
        insert_numbers(games, *range(100))
        assert is_done.wait(PATIENCE_S)
    for reader in readers:
        reader.join(PATIENCE_S)

    assert not any(reader.is_alive() for reader in readers)
    assert list(range(100)) == sorted(heard)


def test_listeners_of_every_kind_hear_the_same(db, games):
    """Cursors, observers and coroutines, while several threads write."""
    total = WRITERS * WRITES
    pushed = Recorder(games.changes(include_seq=True))

    async def read_async(feed: Any) -> list[int]:
        found = []
        async for event in feed:
            found.append(event["seq"])
            if len(found) == total:
                break
        return found

    async def main() -> list[list[int]]:
        feeds = [games.changes(include_seq=True) for _ in range(3)]
        readers = [asyncio.ensure_future(read_async(feed)) for feed in feeds]
        await asyncio.sleep(0)
        await asyncio.to_thread(
            from_threads, WRITERS, lambda name: [games.insert({"n": name}) for _ in range(WRITES)]
        )
        return await asyncio.wait_for(asyncio.gather(*readers), PATIENCE_S)

    with games.changes(include_seq=True).cursor() as cursor:
        read = asyncio.run(main())
        read.append([cursor.next(timeout=PATIENCE_S)["seq"] for _ in range(total)])

    logged = [entry.seq for entry in db.log(table="games")]
    assert [logged] * 5 == [*read, [event["seq"] for event in pushed.events]]


# ---------------------------------------------------------------------------------------------------------------
# asyncio


def test_a_coroutine_reads_events_as_they_come(games):
    async def main() -> list[Any]:
        found = []
        async for event in games.changes(include_initial=True, include_states=True):
            found.append(event)
            if event == {"state": "ready"}:
                await asyncio.to_thread(insert_numbers, games, 2, 3)
            if len(found) == 5:
                break
        return found

    games.insert({"id": 1})

    assert [
        {"state": "initializing"},
        {"new_val": {"id": 1}},
        {"state": "ready"},
        changed(None, {"id": 2}),
        changed(None, {"id": 3}),
    ] == asyncio.run(main())


def test_a_burst_of_commits_wakes_a_coroutine_once(games):
    async def main() -> tuple[int, int]:
        loop = asyncio.get_running_loop()
        wake_ups = 0
        call_soon_threadsafe = loop.call_soon_threadsafe

        def counting(callback: Any, *args: Any, **options: Any) -> Any:
            nonlocal wake_ups
            wake_ups += getattr(callback, "__name__", "") == "_wake_up"
            return call_soon_threadsafe(callback, *args, **options)

        found = []

        async def read() -> None:
            async for event in games.changes():
                found.append(event)
                if len(found) == 500:
                    return

        reader = asyncio.ensure_future(read())
        await asyncio.sleep(0)
        loop.call_soon_threadsafe = counting  # type: ignore[method-assign]
        # One commit after the other, while the loop is not running.
        insert_numbers(games, *range(500))
        await asyncio.wait_for(reader, PATIENCE_S)
        return len(found), wake_ups

    assert (500, 1) == asyncio.run(main())


def test_a_coroutine_that_does_not_read_is_bounded(games):
    """The earliest are dropped and counted, as for any other subscriber."""

    async def main() -> list[Any]:
        cursor = aiter(games.changes(changefeed_queue_size=3))
        insert_numbers(games, *range(10))
        return [await anext(cursor) for _ in range(4)]

    first, *rest = asyncio.run(main())

    assert {"error": "Changefeed cache over array size limit, skipped 7 elements."} == first
    assert [7, 8, 9] == [event["new_val"]["id"] for event in rest]


def test_a_busy_feed_lets_other_coroutines_run(games):
    """A reader that never has to wait still gives way."""

    async def main() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.ensure_future(other())
        count = 0
        async for _ in games.changes(include_initial=True):
            count += 1
            if count == 1_000:
                break
        task.cancel()
        return turns

    games.insert([{"id": number} for number in range(1_000)])

    assert asyncio.run(main()) > 10


def test_a_cancelled_reader_goes_at_once_and_leaves_nothing(db, games):
    async def read(cursor: Any) -> None:
        async with cursor:
            async for _ in cursor:
                pass

    async def main() -> None:
        task = asyncio.ensure_future(read(aiter(games.changes())))
        await asyncio.sleep(0)
        assert 1 == len(hub(db).subscriptions())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert is_clean(db)

    asyncio.run(main())


def test_a_timeout_around_a_read_loses_no_event(games):
    async def main() -> Any:
        cursor = aiter(games.changes())
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(anext(cursor), 0.01)
        games.insert({"id": 1})
        return await asyncio.wait_for(anext(cursor), PATIENCE_S)

    assert changed(None, {"id": 1}) == asyncio.run(main())


def test_closing_wakes_a_coroutine_that_waits(games):
    async def main() -> list[Any]:
        cursor = aiter(games.changes())

        async def read() -> list[Any]:
            return [event async for event in cursor]

        task = asyncio.ensure_future(read())
        await asyncio.sleep(0)
        await cursor.aclose()
        return await asyncio.wait_for(task, PATIENCE_S)

    assert [] == asyncio.run(main())


def test_a_loop_that_was_closed_under_a_reader_harms_no_writer(db, games):
    """The feed of a loop that is gone ends with the next write, which knows nothing of it."""
    loop = asyncio.new_event_loop()
    cursor = aiter(games.changes())
    neighbour = Recorder(games.changes())
    coroutine = anext(cursor).__await__()

    async def begin() -> None:
        # As far as its first wait, and then nobody goes on with it.
        coroutine.send(None)

    loop.run_until_complete(begin())
    loop.close()
    insert_numbers(games, 1, 2)
    coroutine.close()

    assert [1, 2] == new_ids(neighbour)
    assert 1 == len(hub(db).subscriptions())


def test_several_coroutines_may_read_one_feed(games):
    async def main() -> list[list[int]]:
        feed = games.changes().limit(3)

        async def read() -> list[int]:
            return [event["new_val"]["id"] async for event in feed]

        readers = [asyncio.ensure_future(read()) for _ in range(3)]
        await asyncio.sleep(0)
        insert_numbers(games, 1, 2, 3)
        return await asyncio.wait_for(asyncio.gather(*readers), PATIENCE_S)

    assert [[1, 2, 3]] * 3 == asyncio.run(main())


def test_several_coroutines_may_share_one_cursor(games):
    """Each event goes to exactly one of them, and nobody is left waiting at the end."""

    async def main() -> list[int]:
        cursor, found = aiter(games.changes()), []

        async def read() -> None:
            async for event in cursor:
                found.append(event["new_val"]["id"])
                if len(found) == 20:
                    await cursor.aclose()

        readers = [asyncio.ensure_future(read()) for _ in range(3)]
        await asyncio.sleep(0)
        for number in range(20):
            games.insert({"id": number})
            await asyncio.sleep(0)
        await asyncio.wait_for(asyncio.gather(*readers), PATIENCE_S)
        return found

    assert list(range(20)) == asyncio.run(main())


def test_one_cursor_is_not_awaited_in_two_loops_at_once(games):
    async def wait_in_another_loop(cursor: Any) -> None:
        with pytest.raises(reactdb.UsageError, match="another event loop"):
            await anext(cursor)

    async def main() -> None:
        cursor = aiter(games.changes())
        waiting = asyncio.ensure_future(anext(cursor))
        await asyncio.sleep(0)
        await asyncio.to_thread(asyncio.run, wait_in_another_loop(cursor))
        games.insert({"id": 1})
        assert changed(None, {"id": 1}) == await asyncio.wait_for(waiting, PATIENCE_S)

    asyncio.run(main())


def test_a_cursor_goes_on_in_the_next_loop(games):
    async def read(cursor: Any) -> int:
        return (await asyncio.wait_for(anext(cursor), PATIENCE_S))["new_val"]["id"]

    cursor = aiter(games.changes())
    insert_numbers(games, 1, 2)

    assert [1, 2] == [asyncio.run(read(cursor)), asyncio.run(read(cursor))]


def test_a_coroutine_hears_why_its_feed_ended(db, games):
    async def main() -> None:
        cursor = aiter(games.changes())
        waiting = asyncio.ensure_future(anext(cursor))
        await asyncio.sleep(0)
        db.table_drop("games")
        with pytest.raises(reactdb.errors.FeedAborted):
            await asyncio.wait_for(waiting, PATIENCE_S)

    asyncio.run(main())


def test_a_squashed_feed_wakes_its_readers_when_the_interval_is_over(games):
    async def main() -> Any:
        cursor = aiter(games.changes(squash=0.02))
        games.insert({"id": 1, "n": 0})
        games.get(1).update({"n": 1})
        return await asyncio.wait_for(anext(cursor), PATIENCE_S)

    assert changed(None, {"id": 1, "n": 1}) == asyncio.run(main())
    with games.changes(squash=0.02).cursor() as cursor:
        games.get(1).update({"n": 2})
        games.get(1).update({"n": 3})

        assert changed({"id": 1, "n": 1}, {"id": 1, "n": 3}) == cursor.next(timeout=PATIENCE_S)


class StruckTurn:
    """A cursor's turn, at the end of which Ctrl-C strikes once."""

    def __init__(self) -> None:
        self.is_struck = False

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: Any) -> None:
        if not self.is_struck:
            self.is_struck = True
            raise KeyboardInterrupt


@pytest.mark.parametrize("has_term", [False, True])
def test_an_event_that_ctrl_c_keeps_from_the_program_comes_next_and_is_not_in_the_token(games, has_term):
    feed = games.changes().filter({"old_val": None}) if has_term else games.changes()
    with feed.cursor() as cursor:
        insert_numbers(games, 1, 2, 3)
        next(cursor)
        cursor._consumer._turn = StruckTurn()

        with pytest.raises(KeyboardInterrupt):
            next(cursor)
        token = cursor.token

        assert [2, 3] == [next(cursor)["new_val"]["id"] for _ in range(2)]
    with games.changes(since=token).cursor() as cursor:
        assert [2, 3] == [next(cursor)["new_val"]["id"] for _ in range(2)]
