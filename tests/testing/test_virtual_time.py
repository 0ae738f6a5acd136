"""A database whose clock is virtual: everything in it that has to do with time happens when the test advances the clock."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest

import reactdb
from reactdb import r, row
from reactdb.clock import STUCK_S, SYSTEM, timers
from reactdb.errors import InvalidOption
from reactdb.testing import VirtualClock
from reactdb.testing.clock import START
from tests.support.threads import wait_until


@pytest.fixture(params=["memory", "file"])
def db(request: pytest.FixtureRequest, reactdb_clock: VirtualClock) -> Any:
    """A database of the plugin's, which follows the clock because the test uses the clock."""
    return request.getfixturevalue(f"reactdb_{request.param}")


@pytest.fixture
def notes(db: Any) -> Any:
    return db.table_create("notes")


@pytest.fixture
def clock(reactdb_clock: VirtualClock) -> VirtualClock:
    return reactdb_clock


class TestFeeds:
    def test_a_squashed_feed_without_a_scheduler_delivers_when_the_clock_is_advanced(self, notes, clock):
        """The test of finding 6 of the third trial."""
        out: list[Any] = []
        notes.changes(squash=60).subscribe(out.append)
        notes.insert({"id": 1})
        assert [] == out

        clock.advance_by(61)

        assert [{"old_val": None, "new_val": {"id": 1}}] == out

    def test_code_that_subscribes_by_itself_needs_no_scheduler(self, db, notes, clock):
        class Board:
            def __init__(self, db: Any) -> None:
                self.seen: list[Any] = []
                db.table("notes").changes(squash=5).subscribe(
                    lambda event: self.seen.append(event["new_val"]["id"])
                )

        board = Board(db)
        notes.insert({"id": 1})
        clock.advance_by(5)

        assert [1] == board.seen

    def test_events_come_on_the_thread_that_advances_and_no_timer_thread_is_started(self, notes, clock):
        threads: list[str] = []
        notes.changes(squash=60).subscribe(lambda event: threads.append(threading.current_thread().name))
        notes.insert({"id": 1})

        thread = threading.Thread(target=clock.advance_by, args=[60], name="of the test")
        thread.start()
        thread.join()

        assert ["of the test"] == threads
        assert timers._thread is None

    def test_feeds_deliver_in_the_order_of_time(self, notes, clock):
        out: list[tuple[str, float]] = []
        for name, interval_s in (("slow", 30), ("quick", 10)):
            notes.changes(squash=interval_s).subscribe(
                lambda event, name=name: out.append((name, clock.now_s))
            )
        notes.insert({"id": 1})

        clock.advance_by(60)

        assert [("quick", 10), ("slow", 30)] == out

    def test_advancing_by_nothing_runs_what_is_due_now(self, notes, clock):
        out: list[Any] = []
        notes.changes(include_initial=True).subscribe(out.append, scheduler=clock)
        notes.insert({"id": 1})
        assert [] == out

        clock.advance_by(0)

        assert [1] == [event["new_val"]["id"] for event in out]

    def test_run_due_is_the_same(self, notes, clock):
        out: list[Any] = []
        notes.changes().subscribe(out.append, scheduler=clock)
        notes.insert({"id": 1})

        clock.run_due()

        assert 1 == len(out)
        assert 0 == clock.now_s

    def test_a_cursor_has_its_squashed_event_after_the_time_has_passed(self, notes, clock):
        with notes.changes(squash=60).cursor() as cursor:
            notes.insert({"id": 1})
            with pytest.raises(TimeoutError):
                cursor.next(timeout=0)

            clock.advance_by(60)

            assert {"id": 1} == cursor.next(timeout=0)["new_val"]

    def test_a_thread_that_waits_for_a_squashed_event_gets_it_when_another_advances(self, notes, clock):
        found: list[Any] = []
        with notes.changes(squash=60).cursor() as cursor:
            thread = threading.Thread(target=lambda: found.append(cursor.next()))
            thread.start()
            notes.insert({"id": 1})
            clock.advance_by(60)
            thread.join(10)

        assert [{"id": 1}] == [event["new_val"] for event in found]

    def test_a_timeout_of_a_cursor_is_of_the_clock(self, notes, clock):
        raised: list[Any] = []

        def read() -> None:
            try:
                cursor.next(timeout=3600)
            except TimeoutError as error:
                raised.append(error)

        with notes.changes().cursor() as cursor:
            thread = threading.Thread(target=read)
            thread.start()
            wait_until(lambda: bool(clock._due))
            clock.advance_by(3599)
            assert [] == raised
            clock.advance_by(1)
            thread.join(10)

        assert ["the feed delivered nothing for 3600 s"] == [str(error) for error in raised]

    def test_a_timeout_that_nobody_lets_pass_ends_with_a_sentence_and_does_not_hang(
        self, notes, clock, monkeypatch
    ):
        assert STUCK_S == 30
        monkeypatch.setattr("reactdb.clock.STUCK_S", 0.01)

        with (
            notes.changes().cursor() as cursor,
            pytest.raises(TimeoutError, match="nothing has advanced its virtual"),
        ):
            cursor.next(timeout=1)

    def test_a_reader_is_told_when_its_time_has_come(self, notes, clock):
        told: list[float] = []
        with notes.changes(squash=60).reader(lambda: told.append(clock.now_s)) as reader:
            notes.insert({"id": 1})
            assert [] == reader.poll()

            clock.advance_by(90)

            assert [60] == told
            assert [{"id": 1}] == [event["new_val"] for event in reader.poll()]

    def test_a_coroutine_gets_its_squashed_event_when_another_advances_the_clock(self, notes, clock):
        async def main() -> Any:
            events = aiter(notes.changes(squash=60))
            task = asyncio.create_task(anext(events))
            notes.insert({"id": 1})
            await asyncio.sleep(0)
            assert not task.done()
            clock.advance_by(60)
            event = await asyncio.wait_for(task, 10)
            events.close()
            return event

        assert {"id": 1} == asyncio.run(main())["new_val"]

    def test_a_live_list_follows(self, notes, clock):
        board = reactdb.LiveList(
            notes.order_by("id").changes(squash=60, include_initial=True, include_offsets=True)
        )
        notes.insert([{"id": 2}, {"id": 1}])
        clock.advance_by(60)

        assert [{"id": 1}, {"id": 2}] == list(board)
        board.close()


class TestTimes:
    def test_a_change_has_the_time_of_the_clock(self, db, notes, clock):
        clock.advance_by(90)
        notes.insert({"id": 1})

        (change,) = db.log(table="notes")
        assert round((START + timedelta(seconds=90)).timestamp() * 1000) == change.time

    def test_now_in_a_condition_is_of_the_clock(self, notes, clock):
        notes.insert({"id": 1})
        notes.get(1).update({"until": r.now() + 3600})
        assert 0 == notes.filter(row["until"] <= r.now()).count().run()

        clock.advance_by(3600)

        assert 1 == notes.filter(row["until"] <= r.now()).count().run()

    def test_now_in_a_patch_a_replacement_and_a_mapping_is_of_the_clock(self, notes, clock):
        clock.advance_by(60)
        moment = START + timedelta(seconds=60)
        notes.insert({"id": 1})
        notes.get(1).update({"a": r.now()})
        notes.get(1).update(lambda note: {"b": r.now()})
        notes.get(1).replace(lambda note: row.merge({"c": r.now()}))

        assert {"id": 1, "a": moment, "b": moment, "c": moment} == notes.get(1).run()
        assert [moment] == notes.map(lambda note: r.now()).run()

    def test_now_in_a_feed_is_of_the_clock(self, notes, clock):
        out: list[Any] = []
        notes.map(row.merge({"at": r.now()})).changes().subscribe(out.append)
        notes.insert({"id": 1})

        assert [{"id": 1, "at": START}] == [event["new_val"] for event in out]

    def test_generated_keys_begin_with_the_time_of_the_clock(self, notes, clock):
        clock.advance_by(1)
        (key,) = notes.insert({})["generated_keys"]

        assert round((START + timedelta(seconds=1)).timestamp() * 1000) == int(key.replace("-", "")[:12], 16)

    def test_generated_keys_of_another_database_have_the_systems_time(self, notes, clock):
        with reactdb.connect(":memory:") as other:
            (key,) = other.table_create("notes").insert({})["generated_keys"]

        assert int(key.replace("-", "")[:12], 16) > START.timestamp() * 1000 + 86_400_000

    def test_retention_by_age_follows(self, db, notes, clock):
        notes.insert({"id": 1, "n": 0})
        notes.get(1).update({"n": 1})
        clock.advance_by(3600)
        notes.get(1).update({"n": 2})
        db.compact(keep=timedelta(minutes=61))
        assert [0, 1, 2] == [change.new_val["n"] for change in db.log(table="notes")]

        db.compact(keep=timedelta(minutes=30))

        with pytest.raises(reactdb.HistoryLost):
            db.log(table="notes")

    def test_the_lag_of_a_feed_is_of_the_clock(self, notes, clock):
        feed = notes.changes(squash=600)
        with feed.cursor():
            notes.insert({"id": 1})
            clock.advance_by(25)

            assert 25 == feed.stats()["lag_s"]


class TestConsumers:
    def test_a_failed_batch_comes_again_when_its_backoff_has_passed(self, db, notes, clock):
        notes.insert({"id": 1})
        consumer = db.consumer("mail", notes, since=0, backoff_s=30)
        with consumer.batches(max_wait_s=0) as batches:
            with next(batches):
                raise ValueError
            assert batches.poll() is None

            clock.advance_by(30)

            assert 1 == len(batches.poll())

    def test_a_partial_batch_waits_for_more_by_the_clock(self, db, notes, clock):
        consumer = db.consumer("mail", notes, since=0)
        with consumer.batches(max_wait_s=20) as batches:
            notes.insert({"id": 1})
            assert batches.poll() is None

            clock.advance_by(20)

            assert 1 == len(batches.poll())

    def test_a_waiting_worker_gets_its_batch_when_another_thread_advances(self, db, notes, clock):
        found: list[int] = []

        def work() -> None:
            for batch in batches:
                found.append(len(batch))
                batch.acknowledge()

        with db.consumer("mail", notes, since=0).batches(max_wait_s=20) as batches:
            thread = threading.Thread(target=work)
            thread.start()
            notes.insert({"id": 1})
            wait_until(lambda: batches._held and any(held.full_by for held in batches._held.values()))
            clock.advance_by(20)
            wait_until(lambda: [1] == found)
            batches.close()
            thread.join(10)

    def test_a_waiting_coroutine_gets_its_batch_when_the_clock_is_advanced(self, db, notes, clock):
        async def main() -> int:
            with db.consumer("mail", notes, since=0).batches(max_wait_s=20) as batches:
                notes.insert({"id": 1})
                task = asyncio.create_task(anext(batches))
                while not any(held.full_by for held in batches._held.values()):
                    await asyncio.sleep(0)
                await asyncio.sleep(0)
                clock.advance_by(20)
                return len(await asyncio.wait_for(task, 10))

        assert 1 == asyncio.run(main())

    def test_a_lease_ends_by_the_clock(self, db, notes, clock):
        consumer = db.consumer("mail", notes, since=0, lease_s=30)
        notes.insert({"id": 1})
        hung, other = consumer.batches(max_wait_s=0), consumer.batches(max_wait_s=0)
        assert hung.poll() is not None
        assert other.poll() is None
        assert 30 == consumer.status()[0]["lease_s"]

        clock.advance_by(30)

        assert other.poll() is not None
        hung.close()
        other.close()


class TestClock:
    def test_it_begins_at_a_fixed_moment(self):
        clock = VirtualClock()

        assert (datetime(2025, 1, 1, tzinfo=UTC), 0.0) == (clock.wall, clock.now_s)

    def test_both_times_pass_together(self, clock):
        clock.advance_by(1.5)
        clock.advance_by(timedelta(minutes=1))

        assert (START + timedelta(seconds=61.5), 61.5) == (clock.wall, clock.monotonic())

    def test_the_wall_time_can_be_set_back_and_the_monotonic_time_goes_on(self, clock):
        clock.advance_by(10)
        clock.set(datetime(2024, 2, 29, 12, tzinfo=timezone(timedelta(hours=1))))
        clock.advance_by(5)

        assert (datetime(2024, 2, 29, 11, 0, 5, tzinfo=UTC), 15.0) == (clock.wall, clock.now_s)

    def test_times_in_the_log_never_go_back(self, db, notes, clock):
        notes.insert({"id": 1})
        clock.set(START - timedelta(hours=1))
        notes.insert({"id": 2})

        first, second = (change.time for change in db.log(table="notes"))
        assert first == second

    def test_a_squash_interval_does_not_end_because_the_wall_time_is_set(self, notes, clock):
        out: list[Any] = []
        notes.changes(squash=60).subscribe(out.append)
        notes.insert({"id": 1})

        clock.set(START + timedelta(days=1))
        clock.run_due()

        assert [] == out

    @pytest.mark.parametrize("wall", [datetime(2025, 1, 1), "2025-01-01", None])
    def test_a_wall_time_without_a_zone_is_refused(self, clock, wall):
        with pytest.raises(InvalidOption, match="with a time zone"):
            clock.set(wall)

    @pytest.mark.parametrize("seconds", [-1, "1", None, float("nan"), True])
    def test_time_passes_by_a_number_of_seconds_and_forwards(self, clock, seconds):
        with pytest.raises(InvalidOption, match="number of seconds from 0 on"):
            clock.advance_by(seconds)

    def test_a_moment_that_has_passed_is_refused(self, clock):
        clock.advance_to(5)

        with pytest.raises(InvalidOption, match="the clock is at 5 s already"):
            clock.advance_to(4)

    def test_due_work_may_advance_the_clock(self, clock):
        seen: list[float] = []
        clock.call_at(1, lambda: clock.advance_by(10))
        clock.call_at(5, lambda: seen.append(clock.now_s))
        clock.call_at(20, lambda: seen.append(clock.now_s))

        clock.advance_by(2)

        assert ([5], 11) == (seen, clock.now_s)

    def test_work_that_raises_stops_the_clock_there_and_the_rest_stays_due(self, clock):
        seen: list[float] = []

        def fail() -> None:
            raise ValueError("here")

        clock.call_at(1, fail)
        clock.call_at(2, lambda: seen.append(clock.now_s))
        with pytest.raises(ValueError, match="here"):
            clock.advance_by(10)
        assert 1 == clock.now_s

        clock.advance_by(9)

        assert [2] == seen

    def test_a_call_that_was_disposed_of_is_not_made(self, clock):
        seen: list[float] = []
        clock.call_at(1, lambda: seen.append(clock.now_s)).dispose()

        clock.advance_by(2)

        assert [] == seen

    def test_a_watcher_is_called_around_each_advance_and_after_the_wall_time_is_set(self, clock):
        seen: list[tuple[datetime, float]] = []
        watching = clock.on_advance(lambda: seen.append((clock.wall, clock.now_s)))

        clock.advance_by(5)
        clock.set(START)
        watching.dispose()
        clock.advance_by(5)

        later = START + timedelta(seconds=5)
        assert [(START, 0), (later, 5), (START, 5)] == seen

    def test_what_a_watcher_makes_due_now_is_run_in_the_same_call(self, clock):
        seen: list[float] = []
        clock.on_advance(
            lambda: clock.call_at(5, lambda: seen.append(clock.now_s)) if clock.now_s == 5 else None
        )

        clock.advance_by(5)

        assert [5] == seen

    def test_calls_that_were_disposed_of_do_not_pile_up(self, clock):
        for _ in range(1_000):
            clock.call_at(1, print).dispose()

        assert len(clock._due) <= 64

    def test_start_runs_everything(self, clock):
        seen: list[float] = []
        clock.schedule_relative(5, lambda *_: clock.schedule_relative(5, lambda *_: seen.append(clock.now_s)))

        clock.start()

        assert [10] == seen

    def test_sleep_lets_time_pass_without_running_anything(self, clock):
        seen: list[float] = []
        clock.call_at(1, partial(seen.append, 1))

        clock.sleep(5)
        assert ([], 5) == (seen, clock.now_s)
        clock.run_due()

        assert [1] == seen

    def test_threads_may_schedule_and_advance_at_once(self, clock):
        seen: list[float] = []

        def work() -> None:
            for _ in range(100):
                clock.call_at(clock.monotonic() + 1, lambda: seen.append(clock.now_s))
                clock.advance_by(0.5)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        clock.advance_by(1)

        assert 400 == len(seen)
        assert seen == sorted(seen)
        assert 201 == clock.now_s


class TestConnect:
    def test_a_second_handle_has_the_clock_of_the_first(self, path, clock):
        with reactdb.connect(path, clock=clock) as db, reactdb.connect(path) as other:
            other.table_create("notes").insert({"id": 1})

            assert [round(START.timestamp() * 1000)] == [change.time for change in db.log(table="notes")]

    @pytest.mark.parametrize("read_only", [False, True])
    def test_a_second_handle_with_another_clock_is_refused(self, path, clock, read_only):
        with (
            reactdb.connect(path),
            pytest.raises(InvalidOption, match="is open in this process with another clock"),
        ):
            reactdb.connect(path, clock=clock, read_only=read_only)

    def test_a_file_that_was_closed_may_have_another_clock(self, path, clock):
        reactdb.connect(path).close()

        with reactdb.connect(path, clock=clock) as db, reactdb.connect(path, clock=clock, read_only=True):
            db.table_create("notes")

    @pytest.mark.parametrize("clock", [1, "clock", datetime, object()])
    def test_what_is_no_clock_is_refused(self, clock):
        with pytest.raises(InvalidOption, match="clock is a reactdb"):
            reactdb.connect(":memory:", clock=clock)

    def test_without_one_it_is_the_systems(self):
        with reactdb.connect(":memory:") as db:
            db.table_create("notes").insert({"id": 1})
            (change,) = db.log(table="notes")

        assert abs(SYSTEM.time_ns() // 1_000_000 - change.time) < 60_000


class TestServers:
    def test_the_driver_of_rethinkdb_sees_the_time_of_the_clock(self, reactdb_rethinkdb, clock):
        rethinkdb = pytest.importorskip("rethinkdb").RethinkDB()
        clock.advance_by(3)

        assert START + timedelta(seconds=3) == rethinkdb.now().run(reactdb_rethinkdb)

    def test_a_squashed_feed_of_rethinkdbs_driver_follows(self, reactdb_rethinkdb, clock):
        rethinkdb = pytest.importorskip("rethinkdb").RethinkDB()
        rethinkdb.table_create("notes").run(reactdb_rethinkdb)
        feed = rethinkdb.table("notes").changes(squash=60).run(reactdb_rethinkdb)
        rethinkdb.table("notes").insert({"id": 1}).run(reactdb_rethinkdb)

        clock.advance_by(60)

        assert {"id": 1} == feed.next(wait=5)["new_val"]

    def test_the_client_of_mongodb_sees_the_time_of_the_clock(self, reactdb_mongodb, clock):
        notes = reactdb_mongodb["shop"]["notes"]
        notes.insert_one({"_id": 1})
        notes.update_one({"_id": 1}, {"$currentDate": {"at": True}})
        assert START.replace(tzinfo=None) == notes.find_one()["at"]

        clock.advance_by(3600)

        assert [1] == [note["_id"] for note in notes.find({"$expr": {"$lt": ["$at", "$$NOW"]}})]

    def test_pymongos_collections_in_the_process_see_it_too(self, reactdb_memory, clock):
        pytest.importorskip("bson")
        notes = reactdb.mongodb(reactdb_memory)["shop"]["notes"]
        notes.insert_one({"_id": 1})

        (found,) = notes.aggregate([{"$project": {"at": "$$NOW"}}])

        assert START.replace(tzinfo=None) == found["at"]


def test_an_awaited_next_gives_up_by_the_clock(
    reactdb_memory: reactdb.Database, reactdb_clock: VirtualClock
) -> None:
    import asyncio

    table = reactdb_memory.table_create("t")

    async def program() -> None:
        async with table.changes().acursor() as cursor:
            waiting = asyncio.ensure_future(cursor.next(timeout=60))
            await asyncio.sleep(0)
            reactdb_clock.advance_by(61)
            with pytest.raises(TimeoutError, match="nothing for 60 s"):
                await waiting
            table.insert({"id": 1})
            assert (await cursor.next(timeout=60))["new_val"] == {"id": 1}

    asyncio.run(program())
