"""A feed is an Observable: every operator of reactivex works on it through `pipe`, and each time it is subscribed anew."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import reactivex
from reactivex import operators as ops
from reactivex.scheduler import EventLoopScheduler
from reactivex.subject import ReplaySubject, Subject
from reactivex.testing import TestScheduler

import reactdb
from reactdb import row
from reactdb.testing import Recorder
from tests.support.feeds import hub, insert_numbers, is_clean, new_ids
from tests.support.threads import MAIN, PATIENCE_S

IDS = ops.map(lambda event: event["new_val"]["id"])


@pytest.mark.parametrize(
    ("operators", "expected"),
    [
        ([IDS], [1, 2, 3, 4, 5, 6]),
        ([ops.filter(row["new_val"]["id"] > 4), IDS], [5, 6]),
        ([IDS, ops.filter(lambda number: number % 2 == 0)], [2, 4, 6]),
        ([IDS, ops.buffer_with_count(4)], [[1, 2, 3, 4]]),
        ([IDS, ops.pairwise()], [(1, 2), (2, 3), (3, 4), (4, 5), (5, 6)]),
        ([IDS, ops.scan(lambda total, number: total + number, 0)], [1, 3, 6, 10, 15, 21]),
        ([IDS, ops.take(2)], [1, 2]),
        ([IDS, ops.skip(4)], [5, 6]),
        ([IDS, ops.take_while(lambda number: number < 3)], [1, 2]),
        ([IDS, ops.skip_while(lambda number: number < 5)], [5, 6]),
        ([IDS, ops.first()], [1]),
        ([IDS, ops.element_at(3)], [4]),
        ([IDS, ops.take(3), ops.to_list()], [[1, 2, 3]]),
        ([IDS, ops.take(4), ops.reduce(lambda total, number: total + number)], [10]),
        ([IDS, ops.take(4), ops.count()], [4]),
        ([IDS, ops.take(4), ops.last()], [4]),
        ([IDS, ops.take(4), ops.max()], [4]),
        ([IDS, ops.take(4), ops.average()], [2.5]),
        ([IDS, ops.map(lambda number: number // 3), ops.distinct_until_changed()], [0, 1, 2]),
        ([IDS, ops.map(lambda number: number % 3), ops.distinct()], [1, 2, 0]),
        ([IDS, ops.start_with(0)], [0, 1, 2, 3, 4, 5, 6]),
        ([IDS, ops.flat_map(lambda number: reactivex.of(*[number] * (number % 3)))], [1, 2, 2, 4, 5, 5]),
        ([IDS, ops.take(2), ops.concat(reactivex.of(99))], [1, 2, 99]),
        ([IDS, ops.take(2), ops.repeat(2), ops.take(4)], [1, 2, 3, 4]),
        ([IDS, ops.window_with_count(3), ops.flat_map(lambda w: w.pipe(ops.to_list()))], [[1, 2, 3], [4, 5, 6]]),
        (
            [IDS, ops.group_by(lambda n: n % 2), ops.flat_map(lambda g: g.pipe(ops.map(lambda n: (g.key, n))))],
            [(1, 1), (0, 2), (1, 3), (0, 4), (1, 5), (0, 6)],
        ),
        ([IDS, ops.zip(reactivex.of("a", "b"))], [(1, "a"), (2, "b")]),
        ([IDS, ops.combine_latest(reactivex.of("x")), ops.skip(4)], [(5, "x"), (6, "x")]),
        ([IDS, ops.with_latest_from(reactivex.of("x")), ops.take(1)], [(1, "x")]),
        ([IDS, ops.do_action(lambda number: None), ops.ignore_elements()], []),
        ([IDS, ops.materialize(), ops.map(lambda note: note.value), ops.take(1)], [1]),
        ([IDS, ops.is_empty()], [False]),
        ([IDS, ops.contains(3)], [True]),
        ([IDS, ops.some(lambda number: number > 3)], [True]),
        ([IDS, ops.all(lambda number: number < 3)], [False]),
        ([IDS, ops.default_if_empty(0), ops.take(1)], [1]),
        ([IDS, ops.map(lambda number: 6 // (number - 3)), ops.catch(reactivex.of("caught"))], [-3, -6, "caught"]),
        ([IDS, ops.map(lambda number: number if number != 2 else 1 // 0), ops.retry(2), ops.take(3)], [1, 3, 4]),
    ],
)  # fmt: skip
def test_every_operator_works_on_a_feed(games, operators, expected):
    """`retry` and `repeat` subscribe anew: a feed is cold, and begins with what is written then."""
    heard = Recorder(games.changes().pipe(*operators))

    insert_numbers(games, *range(1, 7))

    assert expected == heard.events
    assert [] == heard.errors


def test_a_feed_is_parted_in_two(games):
    large, small = games.changes().pipe(IDS, ops.partition(lambda number: number > 4))
    ears = [Recorder(large), Recorder(small)]

    insert_numbers(games, *range(1, 7))

    assert [[5, 6], [1, 2, 3, 4]] == [ear.events for ear in ears]


def test_an_operator_that_is_satisfied_lets_go_of_the_feed(db, games):
    heard = Recorder(games.changes().pipe(ops.take(1)))

    insert_numbers(games, 1, 2)

    assert (1, 1) == (len(heard.events), heard.completions)
    assert is_clean(db)


def test_feeds_are_merged(db, games):
    moves = db.table_create("moves")
    heard = Recorder(reactivex.merge(games.changes(), moves.changes()))

    games.insert({"id": "g1"})
    moves.insert({"id": "m1"})
    games.insert({"id": "g2"})

    assert ["g1", "m1", "g2"] == new_ids(heard)


def test_a_shared_feed_is_subscribed_once(db, games):
    shared = games.changes().pipe(ops.share())
    heard = [Recorder(shared) for _ in range(3)]

    assert 1 == len(hub(db).subscriptions())
    games.insert({"id": 1})
    assert [[1]] * 3 == [new_ids(ear) for ear in heard]


def test_a_shared_feed_is_let_go_with_its_last_subscriber(db, games):
    shared = games.changes().pipe(ops.share())
    subscriptions = [shared.subscribe() for _ in range(3)]

    for subscription in subscriptions:
        assert 1 == len(hub(db).subscriptions())
        subscription.dispose()

    assert is_clean(db)


def test_a_replayed_feed_tells_a_latecomer_what_it_missed(games):
    replayed = games.changes().pipe(ops.replay(buffer_size=2))
    connection = replayed.connect()
    insert_numbers(games, 1, 2, 3)

    heard = Recorder(replayed)
    games.insert({"id": 4})

    assert [2, 3, 4] == new_ids(heard)
    connection.dispose()


@pytest.mark.parametrize("kind", [Subject, ReplaySubject])
def test_a_subject_subscribes_like_any_observer(games, kind):
    subject = kind()
    games.changes().subscribe(subject)
    heard = Recorder(subject)

    games.insert({"id": 1})

    assert [1] == new_ids(heard)


def test_observe_on_takes_the_events_elsewhere(games):
    scheduler = EventLoopScheduler()
    try:
        heard = Recorder(games.changes().pipe(ops.observe_on(scheduler)))

        insert_numbers(games, *range(50))

        heard.wait(50, PATIENCE_S)
        assert list(range(50)) == new_ids(heard)
        assert MAIN not in heard.threads
    finally:
        scheduler.dispose()


def test_subscribe_on_takes_the_initial_values_elsewhere(games):
    insert_numbers(games, 1, 2)
    scheduler = EventLoopScheduler()
    try:
        heard = Recorder(games.changes(include_initial=True).pipe(ops.subscribe_on(scheduler)))

        heard.wait(2, PATIENCE_S)
        assert MAIN not in heard.threads
    finally:
        scheduler.dispose()


def test_a_buffer_of_time_gathers_what_comes_in_it(games, clock):
    heard = Recorder(games.changes().pipe(IDS, ops.buffer_with_time(1.0, scheduler=clock)))

    insert_numbers(games, 1, 2)
    clock.advance_by(1.0)
    insert_numbers(games, 3)
    clock.advance_by(1.0)
    clock.advance_by(1.0)

    assert [[1, 2], [3], []] == heard.events


def test_debounce_waits_for_a_pause(games, clock):
    heard = Recorder(games.changes().pipe(IDS, ops.debounce(1.0, scheduler=clock)))

    for number in range(5):
        games.insert({"id": number})
        clock.advance_by(0.5)
    assert [] == heard.events
    clock.advance_by(1.0)

    assert [4] == heard.events


def test_throttle_first_and_sample_take_one_of_an_interval(games, clock):
    first = Recorder(games.changes().pipe(IDS, ops.throttle_first(1.0, scheduler=clock)))
    sample = Recorder(games.changes().pipe(IDS, ops.sample(1.0, scheduler=clock)))

    for number in range(6):
        clock.advance_by(0.4)
        games.insert({"id": number})
    clock.advance_by(1.0)

    assert [0, 3] == first.events
    assert [1, 3, 5] == sample.events


def test_delay_and_timeout_go_by_the_clock(games, clock):
    delayed = Recorder(games.changes().pipe(IDS, ops.delay(2.0, scheduler=clock)))
    silent = Recorder(games.changes().pipe(IDS, ops.timeout(3.0, scheduler=clock)))

    clock.advance_by(2.0)
    games.insert({"id": 1})
    clock.advance_by(1.0)
    assert ([], [1]) == (delayed.events, silent.events)
    clock.advance_by(3.0)

    assert [1] == delayed.events
    assert 1 == len(silent.errors)


def test_take_until_ends_a_feed_from_outside(games):
    stop: Subject[None] = Subject()
    heard = Recorder(games.changes().pipe(IDS, ops.take_until(stop)))

    games.insert({"id": 1})
    stop.on_next(None)
    games.insert({"id": 2})

    assert ([1], 1) == (heard.events, heard.completions)


def test_a_condition_is_written_once_for_reql_and_rx(games):
    """An expression is callable on a document."""
    is_high = row["new_val"]["score"] > 10
    in_reql = Recorder(games.changes().filter(is_high))
    in_rx = Recorder(games.changes().pipe(ops.filter(is_high)))

    games.insert([{"id": 1, "score": 5}, {"id": 2, "score": 15}])

    assert [2] == new_ids(in_reql) == new_ids(in_rx)


def test_an_error_of_the_feed_passes_through_the_operators(db, games):
    heard = Recorder(games.changes().pipe(IDS, ops.buffer_with_count(2)))

    games.insert({"id": 1})
    db.table_drop("games")

    assert ["Changefeed aborted (table unavailable)"] == [str(error) for error in heard.errors]


def test_the_end_of_the_database_completes_through_the_operators(games):
    heard = Recorder(games.changes().pipe(IDS, ops.to_list()))

    insert_numbers(games, 1, 2)
    games._session.close()

    assert ([[1, 2]], 1) == (heard.events, heard.completions)


def test_a_feed_awaited_gives_its_last_event(games):
    """An Observable may be awaited: it gives the last event before the end."""

    async def main() -> Any:
        insert_numbers(games, 1, 2)
        return await games.changes(include_initial=True).pipe(ops.take(2))

    assert {"new_val": {"id": 2}} == asyncio.run(main())


def test_a_limit_that_is_reached_in_initial_values_completes_the_feed(games: Any) -> None:
    games.insert([{"id": number} for number in range(5)])
    heard: list[Any] = []

    feed = games.changes(include_initial=True).limit(3)
    feed.subscribe(heard.append, heard.append, lambda: heard.append("completed"))

    assert [0, 1, 2, "completed"] == [one if one == "completed" else one["new_val"]["id"] for one in heard]


@pytest.mark.parametrize(
    "name", ["debounce", "take", "buffer_with_count", "scan", "publish", "combine_latest"]
)
def test_an_operator_that_is_called_as_a_method_is_refused_with_the_pipe_to_write(games, name):
    feed = games.changes()

    with pytest.raises(AttributeError, match=rf"write feed\.pipe\(ops\.{name}\(\.\.\.\)\)") as caught:
        getattr(feed, name)(1)

    assert isinstance(caught.value, reactdb.UsageError)
    assert not hasattr(feed, name)


def test_a_name_that_neither_vocabulary_has_is_an_ordinary_mistake(games):
    with pytest.raises(
        AttributeError, match="a feed has no `subscirbe`: the nearest is `subscribe`"
    ) as caught:
        games.changes().subscirbe(print)

    assert not isinstance(caught.value, reactdb.UsageError)


def test_a_feed_lists_its_own_methods_and_none_of_the_operators(games):
    names = {name for name in dir(games.changes()) if not name.startswith("_")}

    assert {
        "filter",
        "merge",
        "subscribe",
        "pipe",
        "cursor",
        "reader",
        "token",
        "is_list",
        "explain",
    } <= names
    assert set() == names & {"debounce", "take", "scan", "publish", "lock", "to_future", "by_commit"}


def test_a_pipe_without_operators_is_the_feed_itself(games):
    feed = games.changes()

    assert feed.pipe() is feed


@pytest.mark.parametrize(
    ("combine", "expected"),
    [
        (lambda a, b: reactivex.merge(a, b), ["a1", "b1", "a2"]),
        (lambda a, b: reactivex.combine_latest(a, b), [("a1", "b1"), ("a2", "b1")]),
        (lambda a, b: reactivex.zip(a, b), [("a1", "b1")]),
        (lambda a, b: reactivex.with_latest_from(a, b), [("a2", "b1")]),
        (lambda a, b: reactivex.amb(a, b), ["a1", "a2"]),
        (lambda a, b: reactivex.concat(a, b), ["a1", "a2"]),
        (lambda a, b: a.pipe(ops.merge(b)), ["a1", "b1", "a2"]),
        (lambda a, b: a.pipe(ops.switch_map(lambda one: b)), ["b1"]),
        (lambda a, b: a.pipe(ops.take_until(b)), ["a1"]),
        (lambda a, b: reactivex.of(a, b).pipe(ops.merge_all()), ["a1", "b1", "a2"]),
    ],
)
def test_feeds_are_sources_of_the_operators_that_combine(db, combine, expected):
    """An event is shown by its `id`, because a change is a dict."""
    first, second = (db.table_create(name) for name in ("first", "second"))
    heard = Recorder(combine(first.changes(), second.changes()))

    first.insert({"id": "a1"})
    second.insert({"id": "b1"})
    first.insert({"id": "a2"})

    def ids(told: Any) -> Any:
        return tuple(map(ids, told)) if isinstance(told, tuple) else told["new_val"]["id"]

    assert expected == [ids(told) for told in heard.events]
    assert [] == heard.errors


def test_the_test_scheduler_of_reactivex_runs_a_feed(games):
    scheduler = TestScheduler()
    results = scheduler.create_observer()
    games.changes().pipe(IDS, ops.delay(50.0, scheduler=scheduler)).subscribe(results, scheduler=scheduler)

    games.insert({"id": 7})
    scheduler.advance_to(100.0)

    assert [7] == [message.value.value for message in results.messages]


@pytest.mark.parametrize("wait", ["run", "to_future"])
@pytest.mark.parametrize(
    "feed",
    [
        lambda games: games.changes(),
        lambda games: games.get(1).changes(include_initial=True),
        lambda games: games.changes().map(row["new_val"]),
        lambda games: games.changes().limit(1),
        lambda games: games.changes().union(games.changes()),
    ],
)
def test_what_would_wait_for_the_end_of_a_feed_is_refused_with_the_ways_to_listen(games, feed, wait):
    with pytest.raises(reactdb.UsageError, match=r"for change in feed.*async for.*subscribe.*cursor\(\)"):
        getattr(feed(games), wait)()


@pytest.mark.parametrize("wait", [lambda feed: feed, lambda feed: asyncio.wait_for(feed, 5), asyncio.gather])
def test_a_feed_cannot_be_awaited(games, wait):
    async def main() -> Any:
        return await wait(games.changes())

    with pytest.raises(reactdb.UsageError, match="has no end"):
        asyncio.run(main())


def test_an_observable_that_is_made_of_a_feed_can_be_run(games):
    games.insert({"id": 1})

    assert {"new_val": {"id": 1}} == games.changes(include_initial=True).pipe(ops.first()).run()
