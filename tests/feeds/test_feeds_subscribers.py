"""Subscribers that are called: on which thread, in which order, and that none of them affects others."""

from __future__ import annotations

import asyncio
import logging
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import reactivex
from reactivex.scheduler import (
    CurrentThreadScheduler,
    EventLoopScheduler,
    ImmediateScheduler,
    NewThreadScheduler,
    ThreadPoolScheduler,
    TimeoutScheduler,
    VirtualTimeScheduler,
)
from reactivex.scheduler.eventloop import AsyncIOScheduler, AsyncIOThreadSafeScheduler

import reactdb
from reactdb.testing import Recorder
from tests.support.feeds import changed, insert_numbers, new_ids, tick
from tests.support.threads import PATIENCE_S, from_threads

MAIN = threading.main_thread().name


# ---------------------------------------------------------------------------------------------------------------
# Without a scheduler: the committing thread


def test_a_write_has_been_told_when_it_returns(games):
    """By the thread that wrote, also where another thread follows the file for other processes' writes."""
    heard = Recorder(games.changes())

    for number in range(200):
        games.insert({"id": number})
        assert number == new_ids(heard)[-1]
    assert {MAIN} == set(heard.threads)


def test_the_thread_that_commits_is_the_thread_that_tells(games):
    heard = Recorder(games.changes())

    writer = threading.Thread(target=lambda: games.insert({"id": 1}), name="the writer")
    writer.start()
    writer.join(PATIENCE_S)

    assert ["the writer"] == heard.threads


def test_a_subscriber_reads_what_it_is_told_of(games):
    """The commit is visible before it is told, to reads from the subscriber and from other threads."""
    read = []
    with ThreadPoolExecutor(1) as pool:

        def on_next(event: Any) -> None:
            read.append(games.get(1).run())
            read.append(pool.submit(games.get(1).run).result(PATIENCE_S))

        games.changes().subscribe(on_next)
        games.insert({"id": 1, "score": 5})

    assert [{"id": 1, "score": 5}] * 2 == read


def test_a_transaction_is_told_when_it_is_done(db, games):
    heard = Recorder(games.changes())

    with db.transaction():
        games.insert({"id": 1})
        games.get(1).update({"score": 1})
        games.insert({"id": 2})
        assert [] == heard.events

    assert [
        changed(None, {"id": 1}),
        changed({"id": 1}, {"id": 1, "score": 1}),
        changed(None, {"id": 2}),
    ] == heard.events


def test_a_write_is_told_in_the_order_of_its_documents(games):
    heard = Recorder(games.changes())

    games.insert([{"id": number} for number in (7, 3, 9, 1)])

    assert [7, 3, 9, 1] == new_ids(heard)


# ---------------------------------------------------------------------------------------------------------------
# With a scheduler

WRITERS, WRITES = 4, 25


def check_that_all_is_heard_in_log_order(db: Any, games: Any, heard: Recorder) -> None:
    """Several threads write; the subscriber hears every change once, in the log's order."""
    from_threads(WRITERS, lambda name: [games.insert({"id": f"{name}-{n}"}) for n in range(WRITES)])

    heard.wait(WRITERS * WRITES, PATIENCE_S)
    assert [entry.seq for entry in db.log(table="games")] == [event["seq"] for event in heard.events]


@pytest.mark.parametrize(
    "scheduler",
    [None, CurrentThreadScheduler, ImmediateScheduler, NewThreadScheduler, TimeoutScheduler],
    ids=lambda kind: "none" if kind is None else kind.__name__,
)
def test_events_come_in_log_order_on_every_scheduler(db, games, scheduler):
    heard = Recorder(games.changes(include_seq=True), scheduler=scheduler and scheduler())

    check_that_all_is_heard_in_log_order(db, games, heard)


def test_an_event_loop_scheduler_tells_on_its_own_thread(db, games):
    scheduler = EventLoopScheduler()
    try:
        heard = Recorder(games.changes(include_seq=True), scheduler=scheduler)

        check_that_all_is_heard_in_log_order(db, games, heard)

        assert 1 == len(set(heard.threads))
        assert MAIN not in heard.threads
    finally:
        scheduler.dispose()


def test_a_thread_pool_tells_one_event_at_a_time_in_log_order(db, games):
    scheduler = ThreadPoolScheduler(4)
    try:
        at_work, heard = [], Recorder()

        def on_next(event: Any) -> None:
            at_work.append(1)
            heard.on_next(event)
            assert 1 == len(at_work)
            at_work.pop()

        games.changes(include_seq=True).subscribe(on_next, heard.on_error, scheduler=scheduler)

        check_that_all_is_heard_in_log_order(db, games, heard)
        assert [] == heard.errors
        assert MAIN not in heard.threads
    finally:
        scheduler.executor.shutdown()


def test_a_slow_subscriber_on_a_scheduler_does_not_hold_up_the_writer(games):
    """The writer returns although its subscriber cannot go on before the writer has."""
    scheduler = EventLoopScheduler()
    may_go_on, heard = threading.Event(), Recorder()

    def on_next(event: Any) -> None:
        assert may_go_on.wait(PATIENCE_S)
        heard.on_next(event)

    try:
        games.changes().subscribe(on_next, scheduler=scheduler)
        insert_numbers(games, *range(10))
        assert [] == heard.events
        may_go_on.set()
        heard.wait(10, PATIENCE_S)
        assert list(range(10)) == new_ids(heard)
    finally:
        may_go_on.set()
        scheduler.dispose()


def test_asyncio_tells_on_the_loop_what_is_written_there(games):
    async def main() -> Recorder:
        heard = Recorder(games.changes(), scheduler=AsyncIOScheduler(asyncio.get_running_loop()))
        insert_numbers(games, 1, 2)
        assert [] == heard.events
        await asyncio.sleep(0)
        return heard

    assert [1, 2] == new_ids(asyncio.run(main()))


def test_asyncio_tells_on_the_loop_what_threads_write(db, games):
    async def main() -> Recorder:
        loop = asyncio.get_running_loop()
        heard = Recorder()

        def on_next(event: Any) -> None:
            assert loop is asyncio.get_running_loop()
            heard.on_next(event)

        feed = games.changes(include_seq=True)
        feed.subscribe(on_next, heard.on_error, scheduler=AsyncIOThreadSafeScheduler(loop))
        await asyncio.to_thread(check_that_all_is_heard_in_log_order, db, games, heard)
        return heard

    heard = asyncio.run(main())

    assert [] == heard.errors
    assert {MAIN} == set(heard.threads)


def test_virtual_time_tells_when_it_is_told_to(games, clock):
    heard = Recorder(games.changes(include_states=True), scheduler=clock)

    insert_numbers(games, 1, 2)
    assert [] == heard.events
    tick(clock)

    assert [{"state": "ready"}, changed(None, {"id": 1}), changed(None, {"id": 2})] == heard.events


def test_the_databases_scheduler_is_for_subscribers_that_bring_none(tmp_path, clock):
    with reactdb.connect(tmp_path / "a.db", scheduler=clock) as db:
        games = db.table_create("games")
        by_default = Recorder(games.changes())
        of_its_own = Recorder(games.changes(), scheduler=ImmediateScheduler())
        after_terms = Recorder(games.changes()["new_val"])

        games.insert({"id": 1})
        assert ([], [1], []) == (by_default.events, new_ids(of_its_own), after_terms.events)
        tick(clock)

        assert ([changed(None, {"id": 1})], [{"id": 1}]) == (by_default.events, after_terms.events)


def test_a_scheduler_that_refuses_ends_the_feed_and_not_the_writer(games):
    class Refusing(ImmediateScheduler):
        def schedule(self, action: Any, state: Any = None) -> Any:
            raise RuntimeError("closed for today")

    heard, neighbour = Recorder(games.changes(), scheduler=Refusing()), Recorder(games.changes())

    games.insert({"id": 1})

    assert ([], ["closed for today"]) == (heard.events, [str(error) for error in heard.errors])
    assert [1] == new_ids(neighbour)


def test_each_interval_tells_what_has_come_in_it(games, clock):
    """A throttle with a leading edge: after a pause the first change comes at once, then one batch an interval."""
    heard = Recorder(games.changes(squash=1.0), scheduler=clock)
    clock.advance_by(5.0)

    games.insert({"id": 1, "n": 0})
    tick(clock)
    assert [changed(None, {"id": 1, "n": 0})] == heard.events
    for n in range(1, 8):
        clock.advance_by(0.25)
        games.get(1).update({"n": n})
    assert [0, 3] == [event["new_val"]["n"] for event in heard.events]
    clock.advance_by(1.0)

    assert [0, 3, 7] == [event["new_val"]["n"] for event in heard.events]


def test_states_and_initial_values_are_not_held_back_by_squashing(games, clock):
    games.insert({"id": 1})

    heard = Recorder(games.changes(squash=60, include_states=True, include_initial=True), scheduler=clock)
    tick(clock)

    assert [{"state": "initializing"}, {"new_val": {"id": 1}}, {"state": "ready"}] == heard.events


# ---------------------------------------------------------------------------------------------------------------
# What a subscriber may do in `on_next`


def test_a_chain_of_a_hundred_writes_is_heard_by_all_in_one_order(games):
    """What a subscriber writes is told after what is being told, and never deeper on the stack."""
    first, second, depths = Recorder(), Recorder(), []

    def on_next(event: Any) -> None:
        first.on_next(event)
        depths.append(sum(1 for _ in traceback.walk_stack(None)))
        number = event["new_val"]["id"]
        if number < 100:
            games.insert({"id": number + 1})

    games.changes().subscribe(on_next)
    games.changes().subscribe(second)
    games.insert({"id": 0})

    assert list(range(101)) == new_ids(first) == new_ids(second)
    assert 1 == len(set(depths))


def test_two_subscribers_that_answer_each_other_hear_one_order(games):
    """Ping and pong: each writes on what the other wrote."""
    ears = {"ping": Recorder(), "pong": Recorder()}

    def player(name: str) -> Callable[[Any], None]:
        def on_next(event: Any) -> None:
            ears[name].on_next(event)
            number = event["new_val"]["id"]
            if number < 40 and (number % 2 == 0) == (name == "ping"):
                games.insert({"id": number + 1})

        return on_next

    for name in ears:
        games.changes().subscribe(player(name))
    games.insert({"id": 0})

    assert list(range(41)) == new_ids(ears["ping"]) == new_ids(ears["pong"])


def test_a_write_in_on_next_is_done_when_it_returns(games):
    found = []

    def on_next(event: Any) -> None:
        if event["new_val"]["id"] == 1:
            games.insert({"id": 2})
            found.append(games.get(2).run())

    games.changes().subscribe(on_next)
    games.insert({"id": 1})

    assert [{"id": 2}] == found


def test_a_transaction_in_on_next_is_told_after_it(db, games):
    heard = Recorder()

    def on_next(event: Any) -> None:
        heard.on_next(event)
        if event["new_val"]["id"] == 1:
            with db.transaction():
                insert_numbers(games, 2, 3)

    games.changes().subscribe(on_next)
    games.insert({"id": 1})

    assert [1, 2, 3] == new_ids(heard)


def test_subscribing_in_on_next_begins_with_the_next_change(games):
    inner, outer = Recorder(), Recorder()

    def on_next(event: Any) -> None:
        outer.on_next(event)
        if len(outer.events) == 1:
            games.changes(include_initial=True).subscribe(inner)

    games.changes().subscribe(on_next)
    insert_numbers(games, 1, 2)

    assert [1, 2] == new_ids(outer)
    assert [{"new_val": {"id": 1}}, changed(None, {"id": 2})] == inner.events


def test_disposing_in_on_next_is_the_end_of_it(games):
    """Also of what is queued for it already; a neighbour hears all."""
    heard, neighbour, subscription = Recorder(), Recorder(), reactivex.disposable.SerialDisposable()

    def on_next(event: Any) -> None:
        heard.on_next(event)
        subscription.dispose()

    subscription.disposable = games.changes().subscribe(on_next)
    games.changes().subscribe(neighbour)
    games.insert([{"id": 1}, {"id": 2}])
    games.insert({"id": 3})

    assert ([1], 0) == (new_ids(heard), heard.completions)
    assert [1, 2, 3] == new_ids(neighbour)


def test_disposing_a_neighbour_in_on_next_is_the_end_of_the_neighbour(games):
    """Whether the neighbour has heard the event already depends on whose turn it was; it hears no later one."""
    subscriptions: list[Any] = []
    games.changes().subscribe(lambda event: subscriptions[0].dispose())
    heard = Recorder()
    subscriptions.append(games.changes().subscribe(heard))

    insert_numbers(games, 1, 2, 3)

    assert new_ids(heard) in ([], [1])


def test_a_database_may_be_closed_in_on_next(tmp_path):
    db = reactdb.connect(tmp_path / "a.db")
    games = db.table_create("games")
    heard = Recorder()

    def on_next(event: Any) -> None:
        heard.on_next(event)
        db.close()

    games.changes().subscribe(on_next, heard.on_error, heard.on_completed)
    games.insert({"id": 1})

    assert ([1], [], 1) == (new_ids(heard), heard.errors, heard.completions)


def test_a_table_may_be_dropped_in_on_next(db, games):
    heard = Recorder()

    def on_next(event: Any) -> None:
        heard.on_next(event)
        if len(heard.events) == 1:
            db.table_drop("games")

    games.changes().subscribe(on_next, heard.on_error)
    games.insert([{"id": 1}, {"id": 2}])

    assert ([1, 2], 1) == (new_ids(heard), len(heard.errors))


def test_a_predicate_must_not_subscribe_or_write(games):
    """It runs inside of somebody's commit, so what it tries counts as a failure of the predicate: the document is not in."""
    for forbidden in (
        lambda document: games.changes().subscribe(),
        lambda document: games.insert({"id": "from a predicate"}),
    ):
        heard = Recorder(games.filter(forbidden).changes())
        games.insert({"x": 1})
        assert [] == heard.events

    assert 2 == games.count().run()


# ---------------------------------------------------------------------------------------------------------------
# A subscriber that raises


class Burst(Exception):
    """What a subscriber raises here."""


def raising(after: int = 0) -> Callable[[Any], None]:
    count = iter(range(1_000))

    def on_next(event: Any) -> None:
        if next(count) >= after:
            raise Burst(f"at {event}")

    return on_next


@pytest.fixture
def complaints(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What the logger "reactdb" is told, in `records`."""
    with caplog.at_level(logging.DEBUG, logger="reactdb"):
        yield caplog


def test_a_subscriber_that_raises_ends_its_own_feed_and_no_other(games, complaints):
    errors: list[Exception] = []
    before, after = Recorder(), Recorder()
    games.changes().subscribe(before)
    games.changes().subscribe(raising(after=1), errors.append)
    games.changes().subscribe(after)

    insert_numbers(games, 1, 2, 3)

    assert [1, 2, 3] == new_ids(before) == new_ids(after)
    assert [Burst] == [type(error) for error in errors]
    assert ["reactdb"] == [record.name for record in complaints.records if record.levelno == logging.ERROR]
    assert 3 == games.count().run()


def test_a_subscriber_that_raises_without_on_error_is_logged(games, complaints):
    games.changes().subscribe(raising())

    insert_numbers(games, 1, 2)

    errors = [record for record in complaints.records if record.levelno == logging.ERROR]
    assert ["reactdb"] == [record.name for record in errors]
    assert [Burst] == [type(record.exc_info[1]) for record in errors if record.exc_info]


def test_an_on_error_that_raises_is_logged_and_goes_nowhere(games, complaints):
    def on_error(error: Exception) -> None:
        raise Burst("in on_error")

    neighbour = Recorder()
    games.changes().subscribe(raising(), on_error)
    games.changes().subscribe(neighbour)

    insert_numbers(games, 1, 2)

    assert [1, 2] == new_ids(neighbour)
    assert "in on_error" in [str(record.exc_info[1]) for record in complaints.records if record.exc_info]


def test_a_subscriber_that_raises_at_its_initial_values_ends_there(games):
    insert_numbers(games, 1, 2)
    errors: list[Exception] = []

    games.changes(include_initial=True).subscribe(raising(after=1), errors.append)
    games.insert({"id": 3})

    assert [Burst] == [type(error) for error in errors]


def test_a_raising_subscriber_on_a_scheduler_ends_its_own_feed(games):
    scheduler = EventLoopScheduler()
    try:
        heard = Recorder()
        games.changes().subscribe(raising(), heard.on_error, scheduler=scheduler)
        neighbour = Recorder(games.changes(), scheduler=scheduler)

        insert_numbers(games, 1, 2)

        heard.wait_for_end(PATIENCE_S)
        neighbour.wait(2, PATIENCE_S)
        assert [Burst] == [type(error) for error in heard.errors]
    finally:
        scheduler.dispose()


def test_an_interrupt_in_a_subscriber_reaches_the_writer_after_its_commit(games):
    """What is not an error is not for `on_error`: control-C ends the program, with the write done and the rest told later."""
    neighbour, is_first = Recorder(), iter([True])

    def on_next(event: Any) -> None:
        if next(is_first, False):
            raise KeyboardInterrupt

    games.changes().subscribe(on_next)
    games.changes().subscribe(neighbour)
    with pytest.raises(KeyboardInterrupt):
        games.insert({"id": 1})
    games.insert({"id": 2})

    assert 2 == games.count().run()
    assert [1, 2] == new_ids(neighbour)


def test_a_subscriber_cannot_change_what_another_hears(games):
    """The event is its own; the documents inside refuse, with a sentence that says how to copy."""
    sentences = []

    def vandal(event: Any) -> None:
        for deed in (lambda: event["new_val"].update(score=0), lambda: event["new_val"]["tags"].append("x")):
            with pytest.raises(TypeError) as caught:
                deed()
            sentences.append(str(caught.value))
        copy = reactdb.thaw(event["new_val"])
        copy["tags"].append("mine")
        event.clear()

    games.changes().subscribe(vandal)
    heard = Recorder(games.changes())
    games.insert({"id": 1, "tags": ["a"]})

    assert [changed(None, {"id": 1, "tags": ["a"]})] == heard.events
    assert 2 == len(sentences)
    assert all("thaw" in sentence for sentence in sentences)
    assert {"id": 1, "tags": ["a"]} == games.get(1).run()


def test_an_event_is_a_plain_dict(games):
    heard = Recorder(games.changes())

    games.insert({"id": 1})

    assert [dict] == [type(event) for event in heard.events]


def test_a_clock_of_virtual_time_needs_no_thread(games, clock):
    assert isinstance(clock, VirtualTimeScheduler)
    before = threading.active_count()
    Recorder(games.changes(squash=1.0), scheduler=clock)
    games.insert({"id": 1})
    clock.advance_by(2.0)

    assert "reactdb-timers" not in [thread.name for thread in threading.enumerate()]
    assert threading.active_count() <= before + 1
